package authored

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// A Target addresses one exact revision of a document.
type Target interface {
	comparable
	Address() target.Address
}

// An ApplyInput is the input of an apply (P4).
type ApplyInput[T Target] struct {
	tool.Common
	Target             T      `json:"target" desc:"As in the plan."`
	ExpectedGeneration int64  `json:"expectedGeneration" schema:"minimum=0" desc:"As in the plan."`
	PlanRef            string `json:"planRef" schema:"minLength=1,maxLength=64"`
	PlanDigest         string `json:"planDigest" schema:"minLength=1,maxLength=200"`
	CommandID          string `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it; sent again it gives the first answer."`
	ApprovalRef        string `json:"approvalRef,omitzero" schema:"minLength=1,maxLength=64" desc:"Where the plan requires approval."`
}

// An Applier applies plans.
type Applier interface {
	Apply(ctx context.Context, q change.Application) (canon.Raw, outcome.Findings, error)
}

// Apply returns a tool that applies the plans of another tool.
func Apply[T Target](d tool.Definition[ApplyInput[T], change.Applied], frame tool.Frame, applier Applier, plans string) tool.Handler {
	return d.Handler(frame, func(ctx context.Context, call tool.Call[ApplyInput[T]]) (tool.Answer[change.Applied], error) {
		in, to := call.Input, call.Input.Target.Address()
		project, ok := to.Scope.Project()
		if !ok {
			return tool.Answer[change.Applied]{}, fmt.Errorf("authored: a scope that the schema accepts names no project")
		}
		canonical, err := canon.Encode(in.Target)
		if err != nil {
			return tool.Answer[change.Applied]{}, err
		}
		// A cursor continues the answer of a command that was applied: the same
		// call finds that answer and applies nothing.
		text, findings, err := applier.Apply(ctx, change.Application{
			Author: change.Author{Principal: call.Principal.String(), RequestDigest: call.Digest},
			Tool:   plans, Project: project, Target: canonical, Address: history.Key(to.Kind, to.Key), RevisionRef: to.RevisionRef,
			ExpectedGeneration: in.ExpectedGeneration, PlanRef: in.PlanRef, PlanDigest: in.PlanDigest, CommandID: in.CommandID, ApprovalRef: in.ApprovalRef,
		})
		if findings != nil || err != nil {
			return tool.Refuse[change.Applied](findings), err
		}
		applied, err := change.DecodeApplied(text)
		return tool.Answer[change.Applied]{Data: applied, Pin: in.PlanRef}, err
	})
}

// Recheck returns a check of what a plan would save, with the code that runs now:
// what was valid when it was planned may name what a newer program no longer
// runs. kind is the one kind of document that the plans of the tool move. Findings
// that are no errors are left out.
func Recheck(kind string, validate func(ctx context.Context, project target.Project, root history.Ref, document []byte) (outcome.Findings, error)) change.Recheck {
	return func(ctx context.Context, project target.Project, root history.Ref, changes []change.Change) (outcome.Findings, error) {
		var all outcome.Findings
		for _, c := range changes {
			if c.Kind != kind {
				return nil, fmt.Errorf("authored: a plan of %ss that moves a %s", kind, c.Kind)
			}
			findings, err := validate(ctx, project, root, c.Document)
			if err != nil {
				return nil, err
			}
			for _, d := range findings {
				if d.Severity == outcome.Error {
					all = append(all, d)
				}
			}
		}
		return all, nil
	}
}
