package componentsearch

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/discovery"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// PlannedInput is the input with the planned catalog switched on (K4).
type PlannedInput struct {
	tool.Common
	search.Request
	Scope   Scope          `json:"scope,omitzero"`
	Filters PlannedFilters `json:"filters,omitzero"`
}

// PlannedFilters narrow the search.
type PlannedFilters struct {
	Availability discovery.Availability `json:"availability,omitzero"`
}

// A PlannedItem is one Component, of whatever releases have it.
type PlannedItem struct {
	Target       Target                 `json:"target"`
	ComponentRef discovery.Ref          `json:"componentRef" schema:"bare"`
	Label        target.Label           `json:"label"`
	Description  string                 `json:"description"`
	Origin       string                 `json:"origin" schema:"enum=built-in|package"`
	Availability discovery.Availability `json:"availability"`
	// Inputs, Results and Presentation are of a declaration; the ports of a built-in
	// derive from its settings.
	Inputs       map[string]quantity.Port `json:"inputs,omitzero" schema:"each.bare"`
	Results      map[string]quantity.Port `json:"results,omitzero" schema:"each.bare"`
	Presentation *declared.Presentation   `json:"presentation,omitzero" schema:"bare"`
}

// PlannedOutput is the output with the planned catalog switched on.
type PlannedOutput = search.Answer[PlannedItem]

// Planned is the Definition with the planned catalog switched on.
var Planned = tool.Define[PlannedInput, PlannedOutput](tool.Spec{
	Name: Name,
	Description: "Find Components: built-ins, which Nodes can run, and, with an exact project scope, those of packages that the Project has installed or could install. The settings of " +
		"each built-in stand in the input schema of pxflow_plan_change under its key, such as px.formula.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

func newPlanned(frame tool.Frame, reader snapshot.Reader, catalog planned.Catalog) tool.Handler {
	return Planned.Handler(frame, func(ctx context.Context, call tool.Call[PlannedInput]) (tool.Answer[PlannedOutput], error) {
		in := call.Input
		keep := func(s discovery.Stored) bool {
			return in.Filters.Availability == "" || in.Filters.Availability == s.Availability
		}
		found, refused, err := find(ctx, reader, searching{call.Principal, target.Scope(in.Scope), in.Request, call.Pin, call.Page}, catalog, keep)
		if refused != nil || err != nil {
			return tool.Refuse[PlannedOutput](refused), err
		}
		out := PlannedOutput{Items: make([]PlannedItem, len(found.hits)), AppliedLimit: in.AppliedLimit()}
		for i, s := range found.hits {
			item := PlannedItem{Target: targetOf(found.Project, s), ComponentRef: s.Ref(), Label: s.Label, Description: s.Description, Origin: "built-in", Availability: s.Availability}
			if item.Label == nil {
				item.Label = target.Label{}
			}
			if d := s.Declaration; d != nil {
				item.Origin, item.Inputs, item.Results, item.Presentation = "package", d.Inputs, d.Results, d.Presentation
			}
			out.Items[i] = item
		}
		if found.next != "" {
			out.Truncation = search.PageLimit()
			if out.NextCursor, err = call.NextCursor(ctx, found.Pin, found.next); err != nil {
				return tool.Answer[PlannedOutput]{}, err
			}
		}
		return tool.Answer[PlannedOutput]{Data: out, Pin: found.Pin}, nil
	})
}
