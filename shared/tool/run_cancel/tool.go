// Package runcancel is the tool run_cancel: it asks an active Run to stop.
package runcancel

import (
	"context"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "run_cancel"

// Input of the tool.
type Input struct {
	tool.Common
	RunRef    string `json:"runRef" schema:"minLength=1,maxLength=64"`
	CommandID string `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it."`
	Reason    string `json:"reason,omitzero" schema:"maxLength=500"`
}

// Definition of the tool.
var Definition = tool.Define[Input, run.Started](tool.Spec{
	Name: Name,
	Description: "Ask an active Run to stop. Answers its state: Cancelling, or the terminal state that it already has and keeps. " +
		"Asking again changes nothing.",
	Annotations: tool.Writes,
})

// Runs cancels Runs.
type Runs interface {
	Cancel(ctx context.Context, q run.Cancellation) (run.Started, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[run.Started], error) {
		in := call.Input
		state, findings, err := runs.Cancel(ctx, run.Cancellation{Principal: call.Principal.String(), RunRef: in.RunRef, CommandID: in.CommandID, Reason: in.Reason})
		if findings != nil || err != nil {
			return tool.Refuse[run.Started](findings), err
		}
		return tool.Answer[run.Started]{Data: state}, nil
	})
}
