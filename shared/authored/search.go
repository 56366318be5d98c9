package authored

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// A SearchInput is the input of a search for one kind of document.
type SearchInput[Filters any] struct {
	tool.Common
	search.Request
	Scope   target.Scope `json:"scope" schema:"only=project"`
	Filters Filters      `json:"filters,omitzero"`
}

// An Item is one document at its head.
type Item[Target any] struct {
	Target     Target       `json:"target"`
	Generation int64        `json:"generation"`
	Label      target.Label `json:"label"`
}

// A Finder is what a search is about.
type Finder[Filters, Target any] struct {
	Kind string // of the documents, "flow"
	// Uses returns the catalog key of what a document must use, or "".
	Uses func(Filters) string
	// Target is the target of a document.
	Target func(scope target.Scope, key, revisionRef string) Target
}

// Search returns a tool that finds the documents of one kind in one Project that
// have all words of a query.
func Search[Filters, Target any](d tool.Definition[SearchInput[Filters], search.Answer[Item[Target]]], frame tool.Frame, reader snapshot.Reader, f Finder[Filters, Target]) tool.Handler {
	type Output = search.Answer[Item[Target]]
	prefix := history.Key(f.Kind, "")
	return d.Handler(frame, func(ctx context.Context, call tool.Call[SearchInput[Filters]]) (tool.Answer[Output], error) {
		in := call.Input
		s, findings, err := reader.Open(ctx, call.Principal.String(), in.Scope, call.Pin, "/scope")
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		query := search.Query{Terms: search.Terms(in.Query), Limit: in.AppliedLimit(), Sources: []search.Source{texts(ctx, s, prefix)}, From: call.Page}
		if used := f.Uses(in.Filters); used != "" {
			query.Keep = func(ctx context.Context, _ int, e search.Entry) (bool, error) {
				entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, e.Key)
				return entry != nil && slices.Contains(entry.Uses, used), err
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
		out := Output{Items: make([]Item[Target], len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, e := range entries {
			label := target.Label(e.Label)
			if label == nil {
				label = target.Label{}
			}
			out.Items[i] = Item[Target]{Target: f.Target(in.Scope, strings.TrimPrefix(keys[i], prefix), string(e.RevisionRef)), Generation: e.Generation, Label: label}
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

func texts(ctx context.Context, s snapshot.Snapshot, prefix string) search.Source {
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
