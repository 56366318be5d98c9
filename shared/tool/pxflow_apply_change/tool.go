// Package pxflowapplychange is the tool pxflow_apply_change: it applies a plan of
// pxflow_plan_change, entirely and once.
package pxflowapplychange

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool, and of the tool whose plans it applies.
const (
	Name  = "pxflow_apply_change"
	plans = "pxflow_plan_change"
)

// Input of the tool.
type Input struct {
	tool.Common
	Target             target.Flow `json:"target" desc:"As in the plan."`
	ExpectedGeneration int64       `json:"expectedGeneration" schema:"minimum=0" desc:"As in the plan."`
	PlanRef            string      `json:"planRef" schema:"minLength=1,maxLength=64"`
	PlanDigest         string      `json:"planDigest" schema:"minLength=1,maxLength=200"`
	CommandID          string      `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it; sent again it gives the first answer."`
	ApprovalRef        string      `json:"approvalRef,omitzero" schema:"minLength=1,maxLength=64" desc:"Where the plan requires approval."`
}

// Definition of the tool.
var Definition = tool.Define[Input, change.Applied](tool.Spec{
	Name: Name,
	Description: "Apply one reviewed plan of pxflow_plan_change: all of its commands in one transaction, or nothing. After a lost reply send it again with the same " +
		"commandId: it is applied once. On PX_GENERATION_STALE the Flow has moved on: describe its head and plan again.",
	Annotations: tool.Writes,
	Places:      []budget.Place{{Path: "/changed", Counts: budget.AsItems}},
})

// An Applier applies plans.
type Applier interface {
	Apply(ctx context.Context, q change.Application) (canon.Raw, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, applier Applier) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[change.Applied], error) {
		in := call.Input
		project, ok := in.Target.Scope.Project()
		if !ok {
			return tool.Answer[change.Applied]{}, fmt.Errorf("%s: a scope that the schema accepts names no project", Name)
		}
		address, err := canon.Encode(in.Target)
		if err != nil {
			return tool.Answer[change.Applied]{}, err
		}
		// A cursor continues the answer of a command that was applied: the same
		// call finds that answer and applies nothing.
		text, findings, err := applier.Apply(ctx, change.Application{
			Author: change.Author{Principal: call.Principal.String(), RequestDigest: call.Digest},
			Tool:   plans, Project: project, Target: address, Address: history.Key("flow", in.Target.FlowKey), RevisionRef: in.Target.RevisionRef,
			ExpectedGeneration: in.ExpectedGeneration, PlanRef: in.PlanRef, PlanDigest: in.PlanDigest, CommandID: in.CommandID, ApprovalRef: in.ApprovalRef,
		})
		if findings != nil || err != nil {
			return tool.Refuse[change.Applied](findings), err
		}
		var applied change.Applied
		if err := json.Unmarshal(text, &applied); err != nil {
			return tool.Answer[change.Applied]{}, fmt.Errorf("%s: the stored answer: %w", Name, err)
		}
		return tool.Answer[change.Applied]{Data: applied, Pin: in.PlanRef}, nil
	})
}

// Recheck validates, with the code that runs now, the documents that a plan would
// save: what was valid when it was planned may name what a newer program no
// longer runs.
func Recheck(ctx context.Context, _ target.Project, _ history.Ref, changes []change.Change) (outcome.Findings, error) {
	var all outcome.Findings
	for _, c := range changes {
		if c.Kind != "flow" {
			return nil, fmt.Errorf("%s: a plan that moves a %s", Name, c.Kind)
		}
		doc, findings := flow.Decode(c.Document)
		if !findings.Refused() {
			var err error
			if _, findings, err = flow.Validate(ctx, doc, flow.NoFunctions{}); err != nil {
				return nil, err
			}
		}
		for _, d := range findings {
			if d.Severity == outcome.Error {
				all = append(all, d)
			}
		}
	}
	return all, nil
}
