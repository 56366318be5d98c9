// Package saved finds the saved versions of a Project's Functions: their contracts,
// for whoever validates a Flow, and their sources, for whoever runs one.
//
// A version exists if the catalog of the snapshot remembers it, whichever version is
// the newest: a Flow or a Run may name an old one. A version that was only planned
// does not exist, whoever knows its digest. What is asked costs one read a level of
// the catalog and one of the objects, however large the Project is.
package saved

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/snapshot"
)

// knownBytes is how much of Functions a process keeps.
const knownBytes = 16 << 20

// Functions finds versions for one process after another request. A version never
// changes, so its document is read once.
type Functions struct{ known *history.Cache } // of function.Document, by digest

// New returns Functions that know nothing yet.
func New() Functions { return Functions{history.NewCache(knownBytes)} }

// In returns what may be found in a snapshot.
func (f Functions) In(s snapshot.Snapshot) Within { return Within{f.known, s} }

// Within is the Functions of one snapshot. It implements flow.Contracts.
type Within struct {
	known    *history.Cache
	snapshot snapshot.Snapshot
}

// Documents returns the versions that are there, by what asked for them. Whether one
// is there is asked of the snapshot each time; what it says may be known already.
func (w Within) Documents(ctx context.Context, refs []flow.FunctionTarget) (map[flow.FunctionTarget]function.Document, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	s := w.snapshot
	keys := make([]string, len(refs))
	for i, r := range refs {
		keys[i] = change.RevisionKey(function.Kind, r.FunctionKey, history.Ref(r.Digest))
	}
	entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
	if err != nil {
		return nil, err
	}
	found := make(map[flow.FunctionTarget]function.Document, len(refs))
	var unread []*snapshot.Saved
	var at []flow.FunctionTarget
	for i, r := range refs {
		if entries[i] == nil {
			continue
		}
		if doc, ok := w.known.Get(s.Space, history.Ref(r.Digest)).(function.Document); ok {
			found[r] = doc
		} else {
			unread, at = append(unread, &snapshot.Saved{Ref: history.Ref(r.Digest)}), append(at, r)
		}
	}
	if unread != nil {
		if err := s.Read(ctx, unread...); err != nil {
			return nil, err
		}
	}
	for i, r := range at {
		doc, findings := function.Decode(unread[i].Document)
		if findings.Refused() {
			return nil, fmt.Errorf("saved: function %s cannot be read", r.FunctionKey)
		}
		// Decoded, ports are some ten times what they are as text.
		w.known.Put(s.Space, unread[i].Ref, doc, 10*len(unread[i].Document))
		found[r] = doc
	}
	for r, doc := range found {
		if doc.FunctionKey != r.FunctionKey || doc.Version != r.Version {
			delete(found, r) // the digest is of a version, and not of the one that is named
		}
	}
	return found, nil
}

// Functions implements flow.Contracts.
func (w Within) Functions(ctx context.Context, refs []flow.FunctionTarget) (map[flow.FunctionTarget]component.Contract, error) {
	found, err := w.Documents(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make(map[flow.FunctionTarget]component.Contract, len(found))
	for r, doc := range found {
		out[r] = doc.Contract()
	}
	return out, nil
}

// Sources returns the sources of versions that were found, by their digest. They are
// whole modules: they go to the sandbox and to whoever edits them, and into no answer
// and no log.
func (w Within) Sources(ctx context.Context, documents ...function.Document) (map[history.Ref][]byte, error) {
	out := make(map[history.Ref][]byte, len(documents))
	var unread []*snapshot.Saved
	for _, d := range documents {
		if _, twice := out[d.Source()]; !twice {
			out[d.Source()] = nil
			unread = append(unread, &snapshot.Saved{Ref: d.Source()})
		}
	}
	if unread == nil {
		return out, nil
	}
	if err := w.snapshot.Read(ctx, unread...); err != nil {
		return nil, err
	}
	for _, u := range unread {
		out[u.Ref] = u.Document
	}
	return out, nil
}

var _ flow.Contracts = Within{}
