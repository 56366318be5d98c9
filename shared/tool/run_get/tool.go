// Package runget is the tool run_get: how a Run stands.
package runget

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "run_get"

// Input of the tool.
type Input struct {
	tool.Common
	RunRef string `json:"runRef" schema:"minLength=1,maxLength=64"`
}

// Definition of the tool.
var Definition = tool.Define[Input, run.Report](tool.Spec{
	Name: Name,
	Description: "Tell how a Run stands: its state, progress in Nodes, diagnostics and the results there are. Ask after pxflow_run until the state is Succeeded, " +
		"Failed or Cancelled; before that it is Queued, Running or Cancelling.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/diagnostics", Counts: budget.AsItems}, {Path: "/results", Counts: budget.AsItems}},
})

// Runs reads Runs.
type Runs interface {
	Get(ctx context.Context, principal, runRef string) (run.Report, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[run.Report], error) {
		report, findings, err := runs.Get(ctx, call.Principal.String(), call.Input.RunRef)
		if findings != nil || err != nil {
			return tool.Refuse[run.Report](findings), err
		}
		// A Run that moves on between the parts of an answer makes another answer,
		// which the frame refuses to join to the first.
		return tool.Answer[run.Report]{Data: report, Pin: call.Input.RunRef}, nil
	})
}
