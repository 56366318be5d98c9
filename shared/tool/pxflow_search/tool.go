// Package pxflowsearch is the tool pxflow_search: the Flows of one Project that
// have all words of a query.
package pxflowsearch

import (
	"context"
	"iter"
	"strings"

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
type Input struct {
	tool.Common
	search.Request
	Scope   target.Scope `json:"scope" schema:"only=project"`
	Filters Filters      `json:"filters,omitzero"`
}

// Filters narrow the search.
type Filters struct {
	FunctionKey string `json:"functionKey,omitzero" schema:"pattern=key,copied" desc:"Only Flows that use this Function."`
}

// An Item is one Flow at its head.
type Item struct {
	Target     target.Flow  `json:"target"`
	Generation int64        `json:"generation"`
	Label      target.Label `json:"label"`
}

// Output of the tool.
type Output = search.Answer[Item]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find Flows of one Project by words in keys, labels, port names, units and what their Nodes run. An item's target and generation go as they " +
		"are into pxflow_describe, pxflow_plan_change and pxflow_run.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

const prefix = "flow/"

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		s, findings, err := reader.Open(ctx, call.Principal.String(), in.Scope, call.Pin, "/scope")
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		query := search.Query{Terms: search.Terms(in.Query), Limit: in.AppliedLimit(), Sources: []search.Source{texts(ctx, s)}, From: call.Page}
		if f := in.Filters.FunctionKey; f != "" {
			used := history.Key("function", f)
			query.Keep = func(ctx context.Context, _ int, e search.Entry) (bool, error) {
				entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, e.Key)
				if err != nil || entry == nil {
					return false, err
				}
				for _, u := range entry.Uses {
					if u == used {
						return true, nil
					}
				}
				return false, nil
			}
		}
		hits, next, err := search.Page(ctx, query)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		keys := make([]string, len(hits))
		for i, h := range hits {
			keys[i] = h.Key
		}
		entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		out := Output{Items: make([]Item, len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, e := range entries {
			label := target.Label(e.Label)
			if label == nil {
				label = target.Label{}
			}
			out.Items[i] = Item{
				Target:     target.Flow{Scope: in.Scope, FlowKey: strings.TrimPrefix(keys[i], prefix), RevisionRef: string(e.RevisionRef)},
				Generation: e.Generation, Label: label,
			}
		}
		if next != "" {
			out.Truncation = search.PageLimit()
			if out.NextCursor, err = call.NextCursor(ctx, s.Pin(), next); err != nil {
				return tool.Answer[Output]{}, err
			}
		}
		return tool.Answer[Output]{Data: out, Pin: s.Pin()}, nil
	})
}

func texts(ctx context.Context, s snapshot.Snapshot) search.Source {
	return func(from string) iter.Seq2[search.Entry, error] {
		return func(yield func(search.Entry, error) bool) {
			for t, err := range s.Catalog.Texts(ctx, s.Space, s.Root, from, prefix) {
				if !yield(search.Entry{Key: t.Key, Text: t.Text}, err) {
					return
				}
			}
		}
	}
}
