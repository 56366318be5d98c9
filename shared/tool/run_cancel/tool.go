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
	_         struct{} `schema:"oneOf=runRef|batchRef"`
	RunRef    string   `json:"runRef,omitzero" schema:"minLength=1,maxLength=64"`
	BatchRef  string   `json:"batchRef,omitzero" schema:"minLength=1,maxLength=64"`
	CommandID string   `json:"commandId" schema:"minLength=1,maxLength=200" desc:"You choose it."`
	Reason    string   `json:"reason,omitzero" schema:"maxLength=500"`
}

// Output of the tool.
type Output struct {
	RunRef   string    `json:"runRef,omitzero"`
	BatchRef string    `json:"batchRef,omitzero"`
	State    run.State `json:"state"`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Ask an active Run, or a Batch with all its cases, to stop. Answers its state: Cancelling, or the terminal state that it already has and keeps. " +
		"Asking again changes nothing.",
	Annotations: tool.Writes,
})

// Runs cancels Runs.
type Runs interface {
	Cancel(ctx context.Context, q run.Cancellation) (run.Started, outcome.Findings, error)
}

// Batches cancels Batches.
type Batches interface {
	Cancel(ctx context.Context, q run.Cancellation) (run.BatchStarted, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs Runs, batches Batches) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		q := run.Cancellation{Principal: call.Principal.String(), RunRef: in.RunRef, CommandID: in.CommandID, Reason: in.Reason}
		if in.BatchRef != "" {
			q.RunRef = in.BatchRef
			state, findings, err := batches.Cancel(ctx, q)
			if findings != nil || err != nil {
				return tool.Refuse[Output](findings), err
			}
			return tool.Answer[Output]{Data: Output{BatchRef: state.BatchRef, State: state.State}}, nil
		}
		state, findings, err := runs.Cancel(ctx, q)
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		return tool.Answer[Output]{Data: Output{RunRef: state.RunRef, State: state.State}}, nil
	})
}
