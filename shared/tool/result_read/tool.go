// Package resultread is the tool result_read: one named result of a Run.
package resultread

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "result_read"

// Input of the tool.
type Input struct {
	tool.Common
	_         struct{} `schema:"oneOf=runRef|batchRef"`
	RunRef    string   `json:"runRef,omitzero" schema:"minLength=1,maxLength=64"`
	BatchRef  string   `json:"batchRef,omitzero" schema:"minLength=1,maxLength=64"`
	ResultKey string   `json:"resultKey" schema:"pattern=key,copied" desc:"As run_get lists them."`
}

// Output of the tool.
type Output struct {
	ResultKey string    `json:"resultKey"`
	Type      string    `json:"type"`
	Unit      string    `json:"unit,omitzero"`
	Shape     canon.Raw `json:"shape"`
	Value     canon.Raw `json:"value" desc:"The typed value, with its unit."`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Read one named result of a Run that succeeded, as a typed value with its unit. Results never change. " +
		"A large value comes in parts: follow data.truncation.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/value", Value: true}},
})

// Runs reads results of Runs, or those of Batches.
type Runs interface {
	Result(ctx context.Context, principal, runRef, resultKey string) (run.Result, outcome.Findings, error)
}

// New returns the tool.
func New(frame tool.Frame, runs, batches Runs) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		from, ref := runs, in.RunRef
		if in.BatchRef != "" {
			from, ref = batches, in.BatchRef
		}
		r, findings, err := from.Result(ctx, call.Principal.String(), ref, in.ResultKey)
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		return tool.Answer[Output]{Data: Output{ResultKey: r.ResultKey, Type: r.Type, Unit: r.Unit, Shape: r.Shape, Value: r.Value}, Pin: ref}, nil
	})
}
