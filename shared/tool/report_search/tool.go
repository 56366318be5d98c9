// Package reportsearch is the tool report_search: the Reports of one Project that
// have all words of a query.
package reportsearch

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
const Name = "report_search"

// Input of the tool.
type Input = authored.SearchInput[Filters]

// Filters narrow the search.
type Filters struct {
	FlowKey string `json:"flowKey,omitzero" schema:"pattern=key,copied" desc:"Only Reports that are connected to this Flow."`
}

// Output of the tool.
type Output = search.Answer[authored.Item[target.Report]]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find Reports of one Project by words in keys, labels, units and the Flows and ports that they are connected to; not by their text or values. " +
		"An item's target and generation go as they are into report_describe and report_plan_change.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return authored.Search(Definition, frame, reader, authored.Finder[Filters, authored.Item[target.Report]]{
		Kind: "report",
		Uses: func(f Filters) string {
			if f.FlowKey == "" {
				return ""
			}
			return history.Key("flow", f.FlowKey)
		},
		Item: func(scope target.Scope, key string, e history.Entry) (authored.Item[target.Report], error) {
			return authored.ItemOf(target.Report{Scope: scope, ReportKey: key, RevisionRef: string(e.RevisionRef)}, e), nil
		},
	})
}
