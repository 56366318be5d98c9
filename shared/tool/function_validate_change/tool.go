// Package functionvalidatechange is the tool function_validate_change: everything that
// is wrong with a draft of a Function, and with what it would move, before it is
// planned.
package functionvalidatechange

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "function_validate_change"

// Input of the tool.
type Input struct {
	tool.Common

	Scope              target.Scope          `json:"scope" schema:"only=project"`
	Target             target.FunctionChange `json:"target,omitzero" desc:"As in the plan; of a new Function left out."`
	ExpectedGeneration *int64                `json:"expectedGeneration,omitzero" schema:"minimum=0"`
	Commands           []function.Command    `json:"commands" schema:"minItems=1,maxItems=1000,each.brief" desc:"As function_plan_change takes them."`
}

// Output of the tool.
type Output struct {
	Valid    bool               `json:"valid" desc:"Whether it can be planned; the findings are the diagnostics."`
	Contract *planning.Contract `json:"contract,omitzero" schema:"bare" desc:"Of the new version, if its source is in order."`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Check a draft of a Function, and the Flows and Reports that it would move, before planning: the commands are those of function_plan_change. Nothing is run or changed. " +
		"Each finding is a diagnostic with line and column of the source, or its path in a Flow or Report.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/contract/inputs"}, {Path: "/contract/results"}},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, compiler *planning.Planner) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		s, findings, err := reader.Open(ctx, call.Principal.String(), in.Scope, call.Pin, "/scope")
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		contract, found, refused, err := compiler.Validate(ctx, s, planning.Request{Target: in.Target, ExpectedGeneration: in.ExpectedGeneration, Commands: in.Commands, Right: policy.Read})
		if refused != nil || err != nil {
			return tool.Refuse[Output](refused), err
		}
		return tool.Answer[Output]{Data: Output{Valid: !found.Refused(), Contract: contract}, Found: found, Pin: s.Pin()}, nil
	})
}
