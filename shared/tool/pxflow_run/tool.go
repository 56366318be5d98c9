// Package pxflowrun is the tool pxflow_run: it starts one durable Run of a saved
// revision and answers at once.
package pxflowrun

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_run"

// Input of the tool: one kind of Run in a flat object.
type Input struct {
	tool.Common
	Kind          string               `json:"kind" schema:"enum=RunFlow|RunReportFlowConnection|RunReportFlowBatch|RetryBatchCase"`
	Target        Target               `json:"target" desc:"Copied from an answer: of RunFlow a Flow, else a Report."`
	Inputs        map[string]canon.Raw `json:"inputs,omitzero" schema:"maxItems=500" kinds:"RunFlow!" desc:"By public portKey, as {\"span\": {\"value\": 60, \"unit\": \"ft\"}}."`
	ConnectionKey string               `json:"connectionKey,omitzero" schema:"pattern=key,copied" kinds:"RunReportFlowConnection!"`
	PlanRef       string               `json:"planRef,omitzero" schema:"minLength=1,maxLength=64" kinds:"RunReportFlowBatch!"`
	PlanDigest    string               `json:"planDigest,omitzero" schema:"minLength=1,maxLength=200" kinds:"RunReportFlowBatch!"`
	BatchRef      string               `json:"batchRef,omitzero" schema:"minLength=1,maxLength=64" kinds:"RetryBatchCase!"`
	CaseKey       string               `json:"caseKey,omitzero" schema:"pattern=key,copied" kinds:"RetryBatchCase!"`
	CommandID     string               `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it; sent again it gives the same Run."`
	Reason        string               `json:"reason,omitzero" schema:"maxLength=500"`
	ApprovalRef   string               `json:"approvalRef,omitzero" schema:"minLength=1,maxLength=64"`
}

// A Target is of a Flow or of a Report, as the kind of Run has it.
type Target struct {
	Scope       target.Scope `json:"scope" schema:"only=project"`
	FlowKey     string       `json:"flowKey,omitzero" schema:"pattern=key,copied"`
	ReportKey   string       `json:"reportKey,omitzero" schema:"pattern=key,copied"`
	RevisionRef string       `json:"revisionRef" schema:"minLength=1,maxLength=200"`
}

// check holds the target against the kind.
func (in Input) check() outcome.Findings {
	key, other, has, extra := "reportKey", "flowKey", in.Target.ReportKey, in.Target.FlowKey
	if in.Kind == "RunFlow" {
		key, other, has, extra = other, key, extra, has
	}
	var findings outcome.Findings
	if has == "" {
		findings.Add(outcome.SchemaInvalid, "/target/"+key, outcome.Params{"rule": "required"})
	}
	if extra != "" {
		findings.Add(outcome.SchemaUnknownField, "/target/"+other, nil)
	}
	return findings
}

// Output of the tool.
type Output struct {
	RunRef                     string    `json:"runRef,omitzero" desc:"Of a retried case: its new child Run."`
	BatchRef                   string    `json:"batchRef,omitzero"`
	State                      run.State `json:"state"`
	ProjectionIntentGeneration int64     `json:"projectionIntentGeneration,omitzero"`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Start a Run of one saved revision. RunFlow runs a Flow on inputs; units that fit are converted. " +
		"RunReportFlowConnection runs a connection of a current Report revision on its mapped values and shows the results in its slots. RunReportFlowBatch starts a Batch that " +
		"report_plan_change planned; RetryBatchCase repeats a case that ended. Answers runRef or batchRef at once: follow it with run_get, read values with result_read. " +
		"On PX_APPROVAL_REQUIRED a person, not you, approves params.runRef or the planRef (px approve): repeat with the approvalRef.",
	Annotations: tool.Writes,
	Free:        []string{"commandId", "approvalRef"}, // an approval is of the request, and so not part of it
})

// Runs starts Runs.
type Runs interface {
	Start(ctx context.Context, q run.Request) (canon.Raw, outcome.Findings, error)
}

// Batches starts Batches and repeats their cases.
type Batches interface {
	Start(ctx context.Context, q run.BatchRequest) (canon.Raw, outcome.Findings, error)
	Retry(ctx context.Context, q run.RetryRequest) (canon.Raw, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs, batches Batches) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		project, ok := in.Target.Scope.Project()
		if !ok {
			return tool.Answer[Output]{}, fmt.Errorf("%s: a scope that the schema accepts names no project", Name)
		}
		if findings := in.check(); findings != nil {
			return tool.Refuse[Output](findings), nil
		}
		of := target.Report{Scope: in.Target.Scope, ReportKey: in.Target.ReportKey, RevisionRef: in.Target.RevisionRef}
		var text canon.Raw
		var findings outcome.Findings
		var err error
		switch in.Kind {
		case "RunFlow", connected.Kind:
			var assistant *history.Assistant
			if a := call.Request.Assistant; a != nil {
				assistant = &history.Assistant{Provider: a.Provider, Model: a.Model}
			}
			var source run.Source
			if in.Kind == connected.Kind {
				source, err = connected.Of(of, in.ConnectionKey)
			} else {
				source, err = run.OfFlow(target.Flow{Scope: in.Target.Scope, FlowKey: in.Target.FlowKey, RevisionRef: in.Target.RevisionRef}, in.Inputs)
			}
			if err != nil {
				return tool.Answer[Output]{}, err
			}
			text, findings, err = runs.Start(ctx, run.Request{
				Principal: call.Principal.String(), Assistant: assistant, Project: project, Of: source,
				CommandID: in.CommandID, Reason: in.Reason, ApprovalRef: in.ApprovalRef, Digest: call.Digest,
			})
		case "RunReportFlowBatch":
			text, findings, err = batches.Start(ctx, run.BatchRequest{
				Principal: call.Principal.String(), Target: of, Project: project, PlanRef: in.PlanRef, PlanDigest: in.PlanDigest,
				CommandID: in.CommandID, ApprovalRef: in.ApprovalRef, Digest: call.Digest,
			})
		case "RetryBatchCase":
			text, findings, err = batches.Retry(ctx, run.RetryRequest{
				Principal: call.Principal.String(), Target: of, Project: project, BatchRef: in.BatchRef, CaseKey: in.CaseKey,
				CommandID: in.CommandID, ApprovalRef: in.ApprovalRef, Digest: call.Digest,
			})
		default:
			return tool.Answer[Output]{}, fmt.Errorf("%s: a kind that the schema accepts is none", Name)
		}
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		var started Output
		if err := json.Unmarshal(text, &started); err != nil {
			return tool.Answer[Output]{}, fmt.Errorf("%s: the stored answer: %w", Name, err)
		}
		return tool.Answer[Output]{Data: started}, nil
	})
}
