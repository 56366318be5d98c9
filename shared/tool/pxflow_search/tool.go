// Package pxflowsearch is the tool pxflow_search: the Flows of one Project that
// have all words of a query.
package pxflowsearch

import (
	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_search"

// Input of the tool.
type Input = authored.SearchInput[Filters]

// Filters narrow the search.
type Filters struct {
	FunctionKey string `json:"functionKey,omitzero" schema:"pattern=key,copied" desc:"Only Flows that use this Function."`
}

// Output of the tool.
type Output = search.Answer[authored.Item[target.Flow]]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find Flows of one Project by words in keys, labels, port names, units and what their Nodes run. An item's target and generation go as they " +
		"are into pxflow_describe, pxflow_plan_change and pxflow_run.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return authored.Search(Definition, frame, reader, authored.Finder[Filters, authored.Item[target.Flow]]{
		Kind: "flow",
		Uses: func(f Filters) string {
			if f.FunctionKey == "" {
				return ""
			}
			return history.Key("function", f.FunctionKey)
		},
		Item: func(scope target.Scope, key string, e history.Entry) (authored.Item[target.Flow], error) {
			return authored.ItemOf(target.Flow{Scope: scope, FlowKey: key, RevisionRef: string(e.RevisionRef)}, e), nil
		},
	})
}
