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
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_run"

// Input of the tool.
type Input struct {
	tool.Common
	Kind        string               `json:"kind" schema:"enum=RunFlow"`
	Target      target.Flow          `json:"target" desc:"Copied from an answer."`
	Inputs      map[string]canon.Raw `json:"inputs" schema:"maxItems=500" desc:"By public portKey, as {\"span\": {\"value\": 60, \"unit\": \"ft\"}}."`
	CommandID   string               `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it; sent again it gives the same Run."`
	Reason      string               `json:"reason,omitzero" schema:"maxLength=500"`
	ApprovalRef string               `json:"approvalRef,omitzero" schema:"minLength=1,maxLength=64"`
}

// Definition of the tool.
var Definition = tool.Define[Input, run.Started](tool.Spec{
	Name: Name,
	Description: "Start a Run of one saved Flow revision. Answers runRef at once; the Run goes on by itself: follow it with run_get, read values with result_read. " +
		"Inputs are checked against the public ports; units that fit are converted. Safe to repeat with the same commandId.",
	Annotations: tool.Writes,
	Free:        []string{"commandId", "approvalRef"}, // an approval is of the request, and so not part of it
})

// Runs starts Runs.
type Runs interface {
	Start(ctx context.Context, q run.Request) (canon.Raw, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[run.Started], error) {
		in := call.Input
		project, ok := in.Target.Scope.Project()
		if !ok {
			return tool.Answer[run.Started]{}, fmt.Errorf("%s: a scope that the schema accepts names no project", Name)
		}
		var assistant *history.Assistant
		if a := call.Request.Assistant; a != nil {
			assistant = &history.Assistant{Provider: a.Provider, Model: a.Model}
		}
		text, findings, err := runs.Start(ctx, run.Request{
			Principal: call.Principal.String(), Assistant: assistant, Project: project, FlowKey: in.Target.FlowKey, RevisionRef: in.Target.RevisionRef,
			Inputs: in.Inputs, CommandID: in.CommandID, Reason: in.Reason, ApprovalRef: in.ApprovalRef, Digest: call.Digest,
		})
		if findings != nil || err != nil {
			return tool.Refuse[run.Started](findings), err
		}
		var started run.Started
		if err := json.Unmarshal(text, &started); err != nil {
			return tool.Answer[run.Started]{}, fmt.Errorf("%s: the stored answer: %w", Name, err)
		}
		return tool.Answer[run.Started]{Data: started}, nil
	})
}
