// Package functionplanchange is the tool function_plan_change: it compiles commands on
// one Function, with everything that moves with it, into a plan that can be reviewed,
// and changes nothing.
package functionplanchange

import (
	"context"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "function_plan_change"

// Input of the tool.
type Input struct {
	tool.Common
	_ struct{} `schema:"anyOf=commands|rebaseFromPlanRef"`

	Target             target.FunctionChange `json:"target" desc:"Copied from an answer; of a new Function scope and functionKey."`
	ExpectedGeneration int64                 `json:"expectedGeneration" schema:"minimum=0" desc:"As function_describe gave it; 0 for a new Function."`
	Commands           []function.Command    `json:"commands,omitzero" schema:"minItems=1,maxItems=1000"`
	RebaseFromPlanRef  string                `json:"rebaseFromPlanRef,omitzero" schema:"minLength=1,maxLength=64" desc:"Your older plan; its commands, unless others are sent."`
}

// Definition of the tool.
var Definition = tool.Define[Input, change.Plan](tool.Spec{
	Name: Name,
	Description: "Plan a change of one Function: its whole @px.function source as a new Function, as the next version, which moves every Flow and Report that uses it, or as a branch " +
		"for single Nodes. Changes nothing. Answers planRef and planDigest for function_apply_change, the source diff, all that moves, what turns Stale and whether an approval is " +
		"needed. On PX_GENERATION_STALE plan again on params.currentFunctionRef.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/commands", Counts: budget.AsItems}, {Path: "/commands/*/source"},
		{Path: "/touchedSemanticPaths", Counts: budget.AsItems}, {Path: "/diff", Counts: budget.AsItems}, {Path: "/diff/*/unified"},
		{Path: "/impact/contract", Counts: budget.AsItems}, {Path: "/impact/checks", Counts: budget.AsItems}, {Path: "/impact/uses", Counts: budget.AsItems},
		{Path: "/impact/flows", Counts: budget.AsItems}, {Path: "/impact/flows/*/nodeKeys"}, {Path: "/impact/reports", Counts: budget.AsItems},
		{Path: "/impact/reports/*/connectionKeys"}, {Path: "/impact/stale", Counts: budget.AsItems}, {Path: "/impact/preserved", Counts: budget.AsItems},
	},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, planner authored.Planner, compiler *planning.Planner) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[change.Plan], error) {
		in := call.Input
		return authored.Plan(ctx, call, reader, planner, in.Target.Scope, func(ctx context.Context, s snapshot.Snapshot) (d change.Draft, notes, refused outcome.Findings, err error) {
			q := planning.Request{Target: in.Target, ExpectedGeneration: &in.ExpectedGeneration, Commands: in.Commands, Right: policy.Edit}
			if in.RebaseFromPlanRef != "" {
				if q.Earlier, q.Missing, err = authored.FindEarlier[function.Command](ctx, s, planner, call.Principal, Name, in.RebaseFromPlanRef, in.Target); err != nil {
					return d, nil, nil, err
				}
				if q.Commands == nil && q.Earlier != nil {
					q.Commands = q.Earlier.Commands
				}
			}
			if q.Commands == nil {
				return d, nil, q.Missing, nil
			}
			compiled, notes, refused, err := compiler.Compile(ctx, s, q)
			if err == nil && refused == nil && compiled.Conflicts != nil {
				refused, err = authored.Refusal(compiled.Conflicts, in.Budget.Limits(), call.Request.ByteShare)
			}
			if refused != nil || err != nil {
				return d, nil, refused, err
			}
			d, err = compiled.Draft(s, Name, in.ExpectedGeneration)
			if q.Earlier != nil {
				d.RebasedFrom = &q.Earlier.From
			}
			return d, notes, nil, err
		})
	})
}
