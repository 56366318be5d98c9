// Package functionapplychange is the tool function_apply_change: it applies a plan of
// function_plan_change, with everything that moves, entirely and once.
package functionapplychange

import (
	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool, and of the tool whose plans it applies.
const (
	Name  = "function_apply_change"
	plans = "function_plan_change"
)

// Input of the tool.
type Input = authored.ApplyInput[target.FunctionChange]

// Definition of the tool.
var Definition = tool.Define[Input, change.Applied](tool.Spec{
	Name: Name,
	Description: "Apply one reviewed plan of function_plan_change: the Function version, every Flow and every Report that it moves, in one transaction, or nothing. After a lost " +
		"reply send it again with the same commandId: it is applied once. On PX_GENERATION_STALE something has moved on or came to use the Function: plan again.",
	Annotations: tool.Writes,
	Places:      []budget.Place{{Path: "/changed", Counts: budget.AsItems}},
})

// New returns the tool.
func New(frame tool.Frame, applier authored.Applier) tool.Handler {
	return authored.Apply(Definition, frame, applier, plans)
}
