// Package door changes the documents by which a Project depends on what others make: its
// dependency lock (package locking) and the records of Components that people have
// brought into it (package installing).
//
// It is a person's door, which no tool of the catalog has. No rule of a policy is about
// it: the person who decides stands at the door, and needs the right to edit. A change is
// planned and applied as every change of a Project is, in one transaction that holds as
// long as the head is the one that it was decided on, and is a commit of the Project's
// history, with who did it. Where the head moved, it is decided anew. Asking again for
// what is so already changes nothing, so that a request whose outcome is unknown is simply
// repeated.
//
// It knows neither what a document says nor who may be brought in.
package door

import (
	"context"
	"errors"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// A Door changes documents.
type Door struct {
	Reader  snapshot.Reader
	Planner *change.Planner
	// Applier is used with the checks of the document in place of its own.
	Applier *change.Applier
}

// Who asks, and where.
type Who struct {
	Principal string // "iss|sub"
	Project   target.Project
}

// A Document is one that the door changes, under the catalog key dependency/Name.
type Document struct {
	Name string
	Tool string // the door's name in plans and commits
	// Appeared finds what came since a change was decided and stands in its way, of
	// changes that pin the snapshot; nil where none does.
	Appeared change.Appeared
}

// Key is the document's catalog key.
func (d Document) Key() string { return history.Key(dependency.Kind, d.Name) }

// A Saved is the document as it is after a request.
type Saved struct {
	Text       []byte // nil where nothing was ever saved
	Generation int64
	Revision   history.Ref
	// Commit is what the request wrote; "" where it was so already.
	Commit history.Ref
}

// A Decision is what a document is to be.
type Decision struct {
	Text []byte // canonical
	Diff []Difference
	// Pinned says that what stands in the Project's other documents decided it.
	Pinned bool
}

// A Difference is one member of the document that changes.
type Difference struct {
	Path   string `json:"path"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// attempts is how often a change is decided anew where the document, or what it was
// decided on, moved.
const attempts = 8

// ErrBusy is returned when the Project kept moving. Nothing was written.
var ErrBusy = errors.New("door: the project is busy; ask again")

// Read returns the document of a snapshot.
func (d Document) Read(ctx context.Context, s snapshot.Snapshot) (Saved, error) {
	entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, d.Key())
	if entry == nil || err != nil {
		return Saved{}, err
	}
	text, err := s.Object(ctx, entry.RevisionRef)
	return Saved{Text: text, Generation: entry.Generation, Revision: entry.RevisionRef}, err
}

// List reads the document, for who may read the Project.
func (d Door) List(ctx context.Context, who Who, doc Document) (Saved, outcome.Findings, error) {
	s, findings, err := d.Reader.Open(ctx, who.Principal, who.Project.Scope(), "", "/project")
	if findings != nil || err != nil {
		return Saved{}, findings, err
	}
	saved, err := doc.Read(ctx, s)
	return saved, nil, err
}

// Change decides, plans and applies, until what it was decided on holds. decide is asked
// with the document as it is; a Decision of the same text changes nothing.
func (d Door) Change(ctx context.Context, who Who, doc Document, kind string, what any, decide func(s snapshot.Snapshot, now []byte) (Decision, outcome.Findings, error)) (Saved, outcome.Findings, error) {
	for range attempts {
		s, findings, err := d.Reader.Open(ctx, who.Principal, who.Project.Scope(), "", "/project")
		if findings == nil && err == nil {
			findings = s.Needs(policy.Edit, "/project")
		}
		if findings != nil || err != nil {
			return Saved{}, findings, err
		}
		is, err := doc.Read(ctx, s)
		if err != nil {
			return Saved{}, nil, err
		}
		next, findings, err := decide(s, is.Text)
		if findings.Refused() || err != nil {
			return Saved{}, findings, err
		}
		if len(next.Diff) == 0 {
			return is, nil, nil
		}
		draft, err := draftOf(s, doc, is, kind, what, next)
		if err != nil {
			return Saved{}, nil, err
		}
		commit, moved, err := d.apply(ctx, who, doc, draft)
		if err != nil {
			return Saved{}, nil, err
		}
		if !moved {
			return Saved{next.Text, draft.Changes[0].Entry.Generation, draft.Changes[0].Entry.RevisionRef, commit}, nil, nil
		}
	}
	return Saved{}, nil, ErrBusy
}

// A command is what was asked, as the plan keeps it.
type command struct {
	Kind string `json:"kind"`
	What any    `json:"what"`
}

func draftOf(s snapshot.Snapshot, doc Document, is Saved, kind string, what any, next Decision) (d change.Draft, err error) {
	c := change.Change{Kind: dependency.Kind, Key: doc.Name, Document: next.Text, Entry: history.Entry{RevisionRef: history.RefOf(next.Text)}}
	at := map[string]any{"scope": s.Project.Scope(), "dependencyKey": doc.Name}
	d = change.Draft{Tool: doc.Tool, Project: s.Project, ExpectedGeneration: is.Generation, Policy: s.Policy, Subject: dependency.Kind, Kinds: []string{kind}}
	if is.Revision != "" {
		c.Base = &history.Revision{RevisionRef: is.Revision, Generation: is.Generation}
		c.Entry.Generation = is.Generation + 1
		at["revisionRef"], d.Base.RevisionRef = is.Revision, string(is.Revision)
	}
	if next.Pinned {
		d.Root = s.Root
	}
	for _, one := range next.Diff {
		c.Paths = append(c.Paths, one.Path)
	}
	d.TouchedSemanticPaths, d.Changes = c.Paths, []change.Change{c}
	for _, part := range []struct {
		into *canon.Raw
		from any
	}{{&d.Target, at}, {&d.Diff, next.Diff}, {&d.Impact, map[string]any{}}} {
		if *part.into, err = canon.Encode(part.from); err != nil {
			return d, err
		}
	}
	d.Commands, err = canon.EncodeEach([]command{{kind, what}})
	d.Unlabelled = d.Commands
	return d, err
}

// apply plans a draft and applies it. moved says that it has to be decided anew:
// nothing was written.
func (d Door) apply(ctx context.Context, who Who, doc Document, draft change.Draft) (commit history.Ref, moved bool, err error) {
	digest, err := canon.DigestOf(draft.Commands)
	if err != nil {
		return "", false, err
	}
	author := change.Author{Principal: who.Principal, RequestDigest: digest}
	plan, findings, err := d.Planner.Plan(ctx, author, draft)
	if err == nil && findings != nil {
		err = fmt.Errorf("door: a plan of one target is refused: %s", findings[0].Code)
	}
	if err != nil {
		return "", false, err
	}
	applier := *d.Applier
	applier.Recheck, applier.Under, applier.Appeared = nil, nil, doc.Appeared
	text, findings, err := applier.Apply(ctx, change.Application{
		Author: author, Tool: doc.Tool, Project: who.Project, Target: plan.Target, Address: doc.Key(), RevisionRef: plan.Base.RevisionRef,
		ExpectedGeneration: plan.ExpectedGeneration, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef,
	})
	if findings != nil || err != nil {
		return "", findings != nil, err // what refuses is told by whoever decides anew
	}
	applied, err := change.DecodeApplied(text)
	return applied.AuthoringProvenance.CommitRef, false, err
}
