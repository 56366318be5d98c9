// Package componentsearch is the tool component_search: the Components that can
// be placed in Flows.
package componentsearch

import (
	"context"
	"iter"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "component_search"

// Input of the tool. The scope may be missing or partial: then nothing of any
// Project is guessed, and built-ins alone are searched (K1).
type Input struct {
	tool.Common
	search.Request
	Scope Scope `json:"scope,omitzero"`
}

// A Scope is exact, partial or missing.
type Scope struct {
	Kind         target.ScopeKind `json:"kind,omitzero" schema:"enum=project|product"`
	WorkspaceKey string           `json:"workspaceKey,omitzero" schema:"pattern=key,copied"`
	ProjectKey   string           `json:"projectKey,omitzero" schema:"pattern=key,copied"`
}

// An Item is one Component.
type Item struct {
	Target      Target         `json:"target"`
	Label       target.Label   `json:"label"`
	Description string         `json:"description"`
	Origin      Origin         `json:"origin"`
	Release     PackageRelease `json:"packageRelease"`
}

// A PackageRelease names the exact release.
type PackageRelease = component.PackageRelease

// A Target names one version of a Component, as component_describe and AddNode
// take it.
type Target struct {
	Scope        target.Scope `json:"scope" schema:"only=product|project"`
	ComponentKey string       `json:"componentKey"`
	Version      int          `json:"version"`
}

// An Origin says who brought the Component.
type Origin string

// The origins.
const (
	BuiltIn   Origin = "built-in"
	Installed Origin = "installed"
)

// Enum lists the origins for package schema.
func (Origin) Enum() []string { return []string{string(BuiltIn), string(Installed)} }

// Output of the tool.
type Output = search.Answer[Item]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find Components that Nodes can run: built-ins and, with an exact project scope, that Project's admitted ones. The settings of each stand in the " +
		"input schema of pxflow_plan_change under its key, such as px.formula.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

// productPin names the snapshot of the built-ins: the release that this program
// carries.
const productPin = "product:"

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		if scope := target.Scope(in.Scope); scope.Kind == target.ProjectScope {
			// An exact Project must be one that the principal may read. It has no
			// admitted contributions: there is no trust authority that could admit
			// one, and component.Admitted says so of every record of a Project.
			if _, ok := scope.Project(); ok {
				_, findings, err := reader.Open(ctx, call.Principal.String(), scope, "", "/scope")
				if findings != nil || err != nil {
					return tool.Refuse[Output](findings), err
				}
			}
		}
		records := map[string]component.Record{}
		for _, r := range component.Records() {
			if component.Admitted(r) {
				records[r.ComponentContract.ComponentKey] = r
			}
		}
		var all []search.Entry
		byKey := map[string]component.Component{}
		pin := productPin
		for _, c := range component.All() { // in key order
			parts := append([]string{c.Key(), c.Description()}, c.DeclaredInputKeys()...)
			for _, label := range c.Label() {
				parts = append(parts, label)
			}
			all = append(all, search.Entry{Key: c.Key(), Text: search.Normalize(parts...)})
			byKey[c.Key()] = c
			pin = productPin + records[c.Key()].PackageRelease.ReleaseByteDigest
		}
		if call.Pin != "" && call.Pin != pin {
			// The product was updated between two pages.
			return tool.Refuse[Output](tool.CursorInvalid()), nil
		}
		source := func(from string) iter.Seq2[search.Entry, error] {
			return func(yield func(search.Entry, error) bool) {
				for _, e := range all {
					if strings.Compare(e.Key, from) >= 0 && !yield(e, nil) {
						return
					}
				}
			}
		}
		hits, next, err := search.Page(ctx, search.Query{Terms: search.Terms(in.Query), Limit: in.AppliedLimit(), Sources: []search.Source{source}, From: call.Page})
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		out := Output{Items: make([]Item, len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, h := range hits {
			c := byKey[h.Key]
			out.Items[i] = Item{Target: Target{target.Scope{Kind: target.ProductScope}, c.Key(), c.Version()}, Label: c.Label(),
				Description: c.Description(), Origin: BuiltIn, Release: records[h.Key].PackageRelease}
		}
		if next != "" {
			out.Truncation = search.PageLimit()
			if out.NextCursor, err = call.NextCursor(ctx, pin, next); err != nil {
				return tool.Answer[Output]{}, err
			}
		}
		return tool.Answer[Output]{Data: out, Pin: pin}, nil
	})
}
