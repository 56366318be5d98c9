package authored

import (
	"context"
	"iter"
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

// ItemOf is the item of a document at its head.
func ItemOf[Target any](t Target, e history.Entry) Item[Target] {
	label := target.Label(e.Label)
	if label == nil {
		label = target.Label{}
	}
	return Item[Target]{Target: t, Generation: e.Generation, Label: label}
}

// A Finder is what a search is about.
type Finder[Filters, Item any] struct {
	Kind string // of the documents, "flow"
	// Uses returns the catalog key of what a document must use, or "".
	Uses func(Filters) string
	// Item is what is told of a document.
	Item func(scope target.Scope, key string, e history.Entry) (Item, error)
	// Skips says that the filters leave out all documents of the Project; nil says
	// that none do.
	Skips func(Filters) bool
	// Others are what else is searched, after the documents; nil is nothing.
	Others func(ctx context.Context, s snapshot.Snapshot, in SearchInput[Filters]) ([]Other[Item], error)
}

// An Other is a source of things that are no documents of the Project.
type Other[Item any] struct {
	Source search.Source
	Item   func(key string) (Item, error)
}

// Search returns a tool that finds the documents of one kind in one Project that
// have all words of a query.
func Search[Filters, Item any](d tool.Definition[SearchInput[Filters], search.Answer[Item]], frame tool.Frame, reader snapshot.Reader, f Finder[Filters, Item]) tool.Handler {
	type Output = search.Answer[Item]
	prefix := history.Key(f.Kind, "")
	return d.Handler(frame, func(ctx context.Context, call tool.Call[SearchInput[Filters]]) (tool.Answer[Output], error) {
		in := call.Input
		s, findings, err := reader.Open(ctx, call.Principal.String(), in.Scope, call.Pin, "/scope")
		if findings != nil || err != nil {
			return tool.Refuse[Output](findings), err
		}
		query := search.Query{Terms: search.Terms(in.Query), Limit: in.AppliedLimit(), From: call.Page}
		looking := looking{ctx, s, prefix, query.Terms}
		query.Sources = []search.Source{looking.texts}
		if used := f.Uses(in.Filters); used != "" {
			query.Sources[0] = looking.users(used)
		}
		if f.Skips != nil && f.Skips(in.Filters) {
			query.Sources[0] = func(string) iter.Seq2[search.Entry, error] { return func(func(search.Entry, error) bool) {} }
		}
		var others []Other[Item]
		if f.Others != nil {
			if others, err = f.Others(ctx, s, in); err != nil {
				return tool.Answer[Output]{}, err
			}
			for _, o := range others {
				query.Sources = append(query.Sources, o.Source)
			}
		}
		hits, next, err := search.Page(ctx, query)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		var keys []string
		for _, h := range hits {
			if h.Source == 0 {
				keys = append(keys, h.Key)
			}
		}
		entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
		if err != nil {
			return tool.Answer[Output]{}, err
		}
		out := Output{Items: make([]Item, len(hits)), AppliedLimit: in.AppliedLimit()}
		for i, h := range hits { // those of the Project come first
			if h.Source == 0 {
				out.Items[i], err = f.Item(in.Scope, strings.TrimPrefix(h.Key, prefix), *entries[i])
			} else {
				out.Items[i], err = others[h.Source-1].Item(h.Key)
			}
			if err != nil {
				return tool.Answer[Output]{}, err
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

// looking is for texts of one snapshot that have all terms.
type looking struct {
	ctx    context.Context
	s      snapshot.Snapshot
	prefix string
	terms  []string
}

// texts is the source of all documents of the kind.
func (l looking) texts(from string) iter.Seq2[search.Entry, error] {
	return func(yield func(search.Entry, error) bool) {
		for t, err := range l.s.Catalog.Texts(l.ctx, l.s.Space, l.s.Root, from, l.prefix, l.terms...) {
			if !yield(search.Entry{Key: t.Key, Text: t.Text, Passed: t.Passed}, err) || err != nil {
				return
			}
		}
	}
}

// strayed is after how many texts in a row that are none of a user's the texts are
// looked for from the next user on: with few users, far from each other, what lies
// between them is not read.
const strayed = 32

// users is the source of the documents that use something. Users and texts are both
// in the order of their keys, so that one walk along both finds what is in both,
// and no entry is read to decide.
func (l looking) users(used string) search.Source {
	return func(from string) iter.Seq2[search.Entry, error] {
		return func(yield func(search.Entry, error) bool) {
			next, stop := iter.Pull2(l.s.Catalog.UsersFrom(l.ctx, l.s.Space, l.s.Root, used, from, l.prefix))
			defer stop()
			user, err, more := next()
			for more && err == nil {
				strays := 0
				for e, failed := range l.texts(user) {
					if failed != nil {
						yield(search.Entry{}, failed)
						return
					}
					passed := e.Passed
					for more && err == nil && user < e.Key { // it has no text with all terms
						passed += len(user)
						user, err, more = next()
					}
					if err != nil || !more {
						break
					}
					if user == e.Key && e.Passed == 0 {
						strays = 0
					} else if e.Passed == 0 {
						// Looked at, and no user's.
						e.Text, passed = "", passed+len(e.Text)
						strays++
					}
					if e.Passed > 0 || e.Text == "" {
						e = search.Entry{Key: user, Passed: passed + 1}
					}
					if !yield(e, nil) {
						return
					}
					if strays == strayed {
						break
					}
				}
				if strays < strayed {
					break // no text is left
				}
			}
			if err != nil {
				yield(search.Entry{}, err)
			}
		}
	}
}
