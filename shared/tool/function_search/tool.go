// Package functionsearch is the tool function_search: the Functions of one Project, and
// those of packages, that have all words of a query.
package functionsearch

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "function_search"

// Input of the tool.
type Input = authored.SearchInput[Filters]

// Filters narrow the search.
type Filters struct {
	Owner        string `json:"owner,omitzero" schema:"enum=project|package"`
	Availability string `json:"availability,omitzero" schema:"enum=installed|available"`
}

// The owners that the filter names.
const (
	project = "project"
	owner   = "package"
)

// What the filter names, and items say.
const (
	installed = "installed"
	available = "available"
)

// An Item is one Function at its newest version.
type Item struct {
	authored.Item[target.Function]
	Description string `json:"description"`
	Owner       string `json:"owner" schema:"enum=project|package"`
	// Availability says whether the Project has the Function, or has installed the very
	// release that has it, or could install that (S6).
	Availability string `json:"availability" schema:"enum=installed|available"`
}

// Output of the tool.
type Output = search.Answer[Item]

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Find Functions by words in keys, labels, descriptions, port names and units: those of the Project, which can be changed, and those of verified packages. An item's " +
		"target and generation go as they are into function_describe and function_plan_change.",
	Annotations: tool.Reads,
	Places:      []budget.Place{{Path: "/items", Counts: budget.AsItems}},
})

// others are the Functions of packages, of each release that there is. What this
// program carries is of no snapshot: it is the same as long as the program is, and a page
// of another program begins where its keys do. Which releases are installed, the snapshot
// says.
func others(ctx context.Context, s snapshot.Snapshot, in Input) ([]authored.Other[Item], error) {
	if in.Filters.Owner == project {
		return nil, nil
	}
	lock, err := dependency.In(ctx, s)
	if err != nil {
		return nil, err
	}
	having := func(f packages.Function) string {
		if lock.Has(f.Package()) {
			return installed
		}
		return available
	}
	all := slices.DeleteFunc(packages.Product().All(), func(f packages.Function) bool {
		return in.Filters.Availability != "" && in.Filters.Availability != having(f)
	})
	key := packages.Function.Key
	return []authored.Other[Item]{{
		Source: func(from string) iter.Seq2[search.Entry, error] {
			return func(yield func(search.Entry, error) bool) {
				for _, f := range all {
					text := search.Normalize(append(function.SearchText(f.Document), f.PackageRelease.PackageKey)...)
					if k := key(f); k >= from && !yield(search.Entry{Key: k, Text: text}, nil) {
						return
					}
				}
			}
		},
		Item: func(k string) (Item, error) {
			for _, f := range all {
				if key(f) == k {
					label := f.Document.Label
					if label == nil {
						label = target.Label{}
					}
					return Item{authored.Item[target.Function]{Target: f.Target(in.Scope), Label: label}, f.Document.Description, owner, having(f)}, nil
				}
			}
			return Item{}, errors.New("function_search: a Function of no package was found")
		},
	}}, nil
}

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader) tool.Handler {
	return authored.Search(Definition, frame, reader, authored.Finder[Filters, Item]{
		Kind:  function.Kind,
		Uses:  func(Filters) string { return "" },
		Skips: func(f Filters) bool { return f.Owner == owner || f.Availability == available },
		Item: func(scope target.Scope, key string, e history.Entry) (Item, error) {
			detail, err := function.DetailOf(e)
			if err != nil {
				return Item{}, err
			}
			t := target.Function{Scope: scope, FunctionKey: key, Version: detail.Version, Digest: string(e.RevisionRef), SourceDigest: detail.SourceDigest}
			return Item{authored.ItemOf(t, e), e.Description, project, installed}, nil
		},
		Others: others,
	})
}
