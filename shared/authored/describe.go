package authored

import (
	"context"
	"strconv"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/tool"
)

// A DescribeInput is the input of a describe tool (D4).
type DescribeInput[T Target] struct {
	tool.Common
	_       struct{} `schema:"oneOf=target|targets"`
	Target  T        `json:"target,omitzero" desc:"Copied from an answer."`
	Targets []T      `json:"targets,omitzero" schema:"minItems=1,maxItems=100" desc:"Up to 100 of one Project, answered as items."`
}

// A Position says which revision a description is of, and where the head is. A draft
// has no generation and is never current, even where it is the head word for word;
// of a draft, Head is that of its key, and absent if nothing was saved under it.
type Position[T Target] struct {
	Target     T                 `json:"target" schema:"bare"`
	Generation *int64            `json:"generation,omitzero" desc:"Of this revision; expectedGeneration if current."`
	Current    bool              `json:"current" desc:"Whether it is the head."`
	Head       *history.Revision `json:"head,omitzero"`
}

// Revisions are what a describe tool was asked about: one target, or several of one
// Project, at exact revisions (D4) or in drafts.
type Revisions[T Target] struct {
	Snapshot snapshot.Snapshot
	Targets  []T
	Found    []Located // in the order of Targets; documents are unread
	One      bool      // a single target, and not a list of one
}

// A Located is a document that can be read: a saved revision, or a draft, of which
// Ref is the digest, Generation is nothing and Head that of the draft's key, zero
// where nothing was saved under it.
type Located struct {
	snapshot.Saved
	Key   string // flowKey or reportKey
	Draft bool
	// Source is the object of the source that came with a draft, "" if none did. What
	// a draft's document says its source is may be an object of anyone's.
	Source history.Ref
}

// Current reports whether it is the head. A draft never is.
func (l Located) Current() bool { return !l.Draft && l.Saved.Current() }

// Locate finds the target of a call, or its targets. Unless findings refuse, all are
// there.
func Locate[T Target](ctx context.Context, reader snapshot.Reader, drafts Drafts, call tool.Call[DescribeInput[T]]) (Revisions[T], outcome.Findings, error) {
	r := Revisions[T]{Targets: call.Input.Targets, One: call.Input.Targets == nil}
	if r.One {
		r.Targets = []T{call.Input.Target}
	}
	first := r.Targets[0].Address().Scope
	var findings outcome.Findings
	places := make([]Place, len(r.Targets))
	for i, t := range r.Targets {
		a := t.Address()
		path := "/target"
		if !r.One {
			path = "/targets/" + strconv.Itoa(i)
		}
		if a.Scope != first {
			findings.Add(outcome.SchemaInvalid, path+"/scope", outcome.Params{"rule": "same_scope"})
		}
		places[i] = Place{a, path}
	}
	if findings != nil {
		return r, findings, nil
	}
	var err error
	if r.Snapshot, findings, err = reader.Open(ctx, call.Principal.String(), first, call.Pin, places[0].Path+"/scope"); findings != nil || err != nil {
		return r, findings, err
	}
	r.Found, findings, err = LocateIn(ctx, r.Snapshot, drafts, HolderOf(call.Principal), places...)
	return r, findings, err
}

// Links makes links to documents; resource.Links does.
type Links interface {
	Make(ctx context.Context, principal string, link resource.Link) (outcome.Resource, error)
}

// Whole makes the link to the document of the one target: what a description that is
// cut leaves out for now stands there (D2). A list of targets has none, since its
// items can be described one by one. Neither has a draft: its host has the document,
// and a link would be good for longer and in any session.
func (r Revisions[T]) Whole(links Links, principal string) func(context.Context) (outcome.Resource, error) {
	if !r.One || r.Found[0].Draft {
		return nil
	}
	return func(ctx context.Context) (outcome.Resource, error) {
		saved := r.Found[0].Saved
		if err := r.Snapshot.Read(ctx, &saved); err != nil {
			return outcome.Resource{}, err
		}
		a := r.Targets[0].Address()
		return links.Make(ctx, principal, resource.Link{Project: r.Snapshot.Project, Object: saved.Ref, MediaType: "application/json",
			Bytes: int64(len(saved.Document)), Name: a.Key + ".px" + a.Kind})
	}
}

// Source makes the link to the Python source of the one target, an object of its own.
// Who may read the document may read it, and whenever the link is followed that is asked
// again (D2).
func (r Revisions[T]) Source(links Links, principal string, ref history.Ref) func(context.Context) ([]outcome.Resource, error) {
	return func(ctx context.Context) ([]outcome.Resource, error) {
		text, err := r.Snapshot.Object(ctx, ref)
		if err != nil {
			return nil, err
		}
		link, err := links.Make(ctx, principal, resource.Link{Project: r.Snapshot.Project, Object: ref, MediaType: "text/x-python",
			Bytes: int64(len(text)), Name: r.Targets[0].Address().Key + ".py"})
		return []outcome.Resource{link}, err
	}
}

// Position is where one of them stands.
func (r Revisions[T]) Position(i int) Position[T] {
	found := r.Found[i]
	p := Position[T]{Target: r.Targets[i], Current: found.Current()}
	if !found.Draft {
		p.Generation = &found.Generation
	}
	if found.Head.RevisionRef != "" {
		p.Head = &history.Revision{RevisionRef: found.Head.RevisionRef, Generation: found.Head.Generation}
	}
	return p
}

// A Need is what a tool needs of a document besides a right of the principal.
type Need string

// The needs. What is missing of them is told in Operation.Missing.
const (
	Any     Need = ""        // any document, a draft too
	Saved   Need = "saved"   // a saved revision, whichever
	Head    Need = "current" // the head
	FreeKey Need = "freeKey" // a draft under whose key nothing was saved yet
)

// Operation tells whether the principal may go on from one of them with a tool that
// needs a right, and something of the document.
func (r Revisions[T]) Operation(i int, name string, right policy.Right, need Need, kinds ...string) Operation {
	o, found := Operation{Tool: name, Kinds: kinds}, r.Found[i]
	if !r.Snapshot.Grant.Allows(right) {
		o.Missing = append(o.Missing, string(right))
	}
	met := true
	switch need {
	case Saved:
		met = !found.Draft
	case Head:
		met = found.Current()
	case FreeKey:
		met = found.Draft && found.Head.RevisionRef == ""
	}
	if !met {
		o.Missing = append(o.Missing, string(need))
	}
	o.Permitted = o.Missing == nil
	return o
}

// Findings are those about the document of one target, where the answer has
// it.
func (r Revisions[T]) Findings(i int, findings outcome.Findings) outcome.Findings {
	if r.One {
		return findings
	}
	out := make(outcome.Findings, len(findings))
	for k, n := range findings {
		n.Path = "/items/" + strconv.Itoa(i) + n.Path
		out[k] = n
	}
	return out
}

// Learn returns what there is to know of each revision: what the cache has, and
// what work makes of the documents that it does not have, all of them read at once.
// What is known follows from the document and this program, and neither changes.
// work may forbid to keep what does not.
func Learn[K any](ctx context.Context, s snapshot.Snapshot, cache *history.Cache, found []Located, work func(documents [][]byte) (known []K, keep []bool, err error)) ([]K, error) {
	out := make([]K, len(found))
	var missing []*snapshot.Saved
	var at []int
	for i := range found {
		var ok bool
		if out[i], ok = cache.Get(s.Space, found[i].Ref).(K); !ok {
			missing, at = append(missing, &found[i].Saved), append(at, i)
		}
	}
	if missing == nil {
		return out, nil
	}
	if err := s.Read(ctx, missing...); err != nil {
		return nil, err
	}
	documents := make([][]byte, len(missing))
	for k, m := range missing {
		documents[k] = m.Document
	}
	known, keep, err := work(documents)
	if err != nil {
		return nil, err
	}
	for k, m := range missing {
		out[at[k]] = known[k]
		if keep == nil || keep[k] {
			// Decoded, a document is some ten times what it is as text.
			cache.Put(s.Space, m.Ref, known[k], 10*len(m.Document))
		}
	}
	return out, nil
}

// An Operation is a tool that may follow.
type Operation struct {
	Tool      string   `json:"tool"`
	Kinds     []string `json:"kinds,omitzero"`
	Permitted bool     `json:"permitted"`
	Missing   []string `json:"missing,omitzero" desc:"Rights that are missing; current where it is not the head, saved where it is a draft, freeKey where there is a head already, projectOwned where a package owns it."`
}
