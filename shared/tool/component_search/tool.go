// Package componentsearch is the tool component_search: the Components that can
// be placed in Flows.
package componentsearch

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/discovery"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/outcome"
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

// New returns the tool. With a catalog that is switched on it is that of Planned.
func New(frame tool.Frame, reader snapshot.Reader, catalog planned.Catalog) tool.Handler {
	if catalog.On() {
		return newPlanned(frame, reader, catalog)
	}
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
		in := call.Input
		found, refused, err := find(ctx, reader, searching{call.Principal, target.Scope(in.Scope), in.Request, call.Pin, call.Page}, catalog, nil)
		if refused != nil || err != nil {
			return tool.Refuse[Output](refused), err
		}
		out := Output{Items: make([]Item, len(found.hits)), AppliedLimit: in.AppliedLimit()}
		for i, s := range found.hits {
			out.Items[i] = Item{Target: targetOf(found.Project, s), Label: s.Label, Description: s.Description, Origin: BuiltIn, Release: s.PackageRelease}
			if !s.BuiltIn {
				out.Items[i].Origin = Installed
			}
		}
		if found.next != "" {
			out.Truncation = search.PageLimit()
			if out.NextCursor, err = call.NextCursor(ctx, found.Pin, found.next); err != nil {
				return tool.Answer[Output]{}, err
			}
		}
		return tool.Answer[Output]{Data: out, Pin: found.Pin}, nil
	})
}

// targetOf is a Component as component_describe takes it. The product's are found in the
// product, whoever asks.
func targetOf(project target.Project, s discovery.Stored) Target {
	scope := project.Scope()
	if s.BuiltIn {
		scope = target.Scope{Kind: target.ProductScope}
	}
	return Target{scope, s.ComponentContract.ComponentKey, s.ContractVersion}
}

// A searching is what is asked, and where.
type searching struct {
	principal tool.Principal
	scope     target.Scope
	request   search.Request
	pin, page string
}

// A page is what of a View was found.
type page struct {
	discovery.Pinned
	hits []discovery.Stored
	next string
}

// find looks for the words of a query in what the View shows and keep admits.
func find(ctx context.Context, reader snapshot.Reader, in searching, catalog planned.Catalog, keep func(discovery.Stored) bool) (p page, refused outcome.Findings, err error) {
	var moved bool
	p.Pinned, moved, refused, err = discovery.Open(ctx, reader, in.principal.String(), in.scope, in.pin, "/scope", catalog)
	if refused != nil || err != nil {
		return p, refused, err
	}
	if moved {
		return p, tool.CursorInvalid(), nil
	}
	shown := map[string]discovery.Stored{}
	var entries []search.Entry
	for _, s := range p.All() {
		if keep != nil && !keep(s) {
			continue
		}
		words := append([]string{s.ComponentContract.ComponentKey, s.Description}, s.ComponentContract.DeclaredInputKeys...)
		for _, label := range s.Label {
			words = append(words, label)
		}
		if !s.BuiltIn {
			words = append(words, s.PackageRelease.PackageKey)
		}
		key := keyOf(s)
		entries, shown[key] = append(entries, search.Entry{Key: key, Text: search.Normalize(words...)}), s
	}
	slices.SortFunc(entries, func(a, b search.Entry) int { return strings.Compare(a.Key, b.Key) })
	source := func(from string) iter.Seq2[search.Entry, error] {
		return func(yield func(search.Entry, error) bool) {
			for _, e := range entries {
				if e.Key >= from && !yield(e, nil) {
					return
				}
			}
		}
	}
	hits, next, err := search.Page(ctx, search.Query{Terms: search.Terms(in.request.Query), Limit: in.request.AppliedLimit(), Sources: []search.Source{source}, From: in.page})
	if err != nil {
		return p, nil, err
	}
	for _, h := range hits {
		p.hits = append(p.hits, shown[h.Key])
	}
	p.next = next
	return p, nil, nil
}

// keyOf orders what is shown as the contract does (S3): the product's first, then by key,
// version and release.
func keyOf(s discovery.Stored) string {
	scope := "1"
	if s.BuiltIn {
		scope = "0"
	}
	r := s.PackageRelease
	return strings.Join([]string{scope, s.ComponentContract.ComponentKey, fmt.Sprintf("%010d", s.ContractVersion), r.PackageKey, r.PackageVersion, r.PackageDigest}, "/")
}
