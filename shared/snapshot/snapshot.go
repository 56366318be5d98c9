// Package snapshot opens what one principal may read of one Project, at one
// catalog root that never changes while it is read.
//
// What one may not read does not exist: without the right to read, every answer
// is that the target is not there. Objects are reached through catalog entries
// alone, so that knowing a digest grants nothing.
package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// A Reader opens snapshots.
type Reader struct {
	Objects history.Objects
	Store   Beginner
	Catalog history.Catalog
}

// A Beginner reads what a request begins with; see change.Store.
type Beginner interface {
	Begin(ctx context.Context, project target.Project, principal, commandKey, planRef string) (change.Opening, error)
}

// A Snapshot is one Project at one root.
type Snapshot struct {
	Project target.Project
	Space   history.Space
	Root    history.Ref // "" is a Project without any commit
	// Commit is the newest commit of the Project: the one that made Root, unless a pin
	// names another root.
	Commit  history.Ref
	Grant   policy.Grant
	Policy  policy.Policy
	Catalog history.Catalog

	objects history.Objects
}

// Open opens the Project of a scope for a principal: at its head, or at the root
// that a pin names. path is where the scope stands in the request.
func (r Reader) Open(ctx context.Context, principal string, scope target.Scope, pin, path string) (Snapshot, outcome.Findings, error) {
	project, ok := scope.Project()
	if !ok {
		return Snapshot{}, refuse(outcome.TargetNotFound, path, nil), nil
	}
	opening, err := r.Store.Begin(ctx, project, principal, "", "")
	if err != nil {
		return Snapshot{}, nil, err
	}
	if !opening.Grant.Allows(policy.Read) {
		return Snapshot{}, refuse(outcome.TargetNotFound, path, nil), nil
	}
	s := Snapshot{Project: project, Space: history.Space(project.String()), Root: opening.Head.Root, Commit: opening.Head.Commit, Grant: opening.Grant, Policy: opening.Policy,
		Catalog: r.Catalog, objects: r.Objects}
	if pin != "" {
		s.Root = history.Ref(strings.TrimPrefix(pin, pinPrefix))
	}
	return s, nil, nil
}

// At opens a Project at a root, for whoever has asked for the right already: an
// apply that checks what it is about to save. The snapshot has no grant and no
// policy.
func (r Reader) At(project target.Project, root history.Ref) Snapshot {
	return Snapshot{Project: project, Space: history.Space(project.String()), Root: root, Catalog: r.Catalog, objects: r.Objects}
}

// pinPrefix keeps the pin of an empty Project from being no pin.
const pinPrefix = "root:"

// Pin names the snapshot, for a cursor.
func (s Snapshot) Pin() string { return pinPrefix + string(s.Root) }

// Needs refuses a principal who may read but lacks another right.
func (s Snapshot) Needs(right policy.Right, path string) outcome.Findings {
	if s.Grant.Allows(right) {
		return nil
	}
	return refuse(outcome.PermissionDenied, path, policy.Lacks(right, s.Project))
}

// A Saved is one saved revision of a target.
type Saved struct {
	Document   []byte        // canonical; its digest is Ref
	Ref        history.Ref   // the revision asked for
	Generation int64         // of that revision
	Head       history.Entry // the current revision's entry; it may be another
}

// Current reports whether the revision is the head.
func (s Saved) Current() bool { return s.Head.RevisionRef == s.Ref }

// An Address names one revision, and where its parts stand in the request.
type Address struct {
	Kind, Key string // "flow", "girder_check"
	Ref       history.Ref
	Path      string // of the target: /target, /targets/3
}

// Revision reads one exact saved revision. A revision that was planned and never
// saved does not exist.
func (s Snapshot) Revision(ctx context.Context, a Address) (Saved, outcome.Findings, error) {
	saved, findings, err := s.Revisions(ctx, a)
	if findings != nil || err != nil {
		return Saved{}, findings, err
	}
	return saved[0], nil, nil
}

// Revisions reads several revisions with one read a level of the catalog. All
// that do not exist are reported.
func (s Snapshot) Revisions(ctx context.Context, addresses ...Address) ([]Saved, outcome.Findings, error) {
	saved, findings, err := s.Locate(ctx, addresses...)
	if findings != nil || err != nil {
		return nil, findings, err
	}
	all := make([]*Saved, len(saved))
	for i := range saved {
		all[i] = &saved[i]
	}
	return saved, nil, s.Read(ctx, all...)
}

// Locate finds revisions in the catalog as Revisions does, and leaves their
// documents unread.
func (s Snapshot) Locate(ctx context.Context, addresses ...Address) ([]Saved, outcome.Findings, error) {
	entries, err := s.entries(ctx, addresses)
	if err != nil {
		return nil, nil, err
	}
	var findings outcome.Findings
	for i, a := range addresses {
		switch {
		case entries[2*i] == nil:
			findings.Add(outcome.TargetNotFound, a.Path+"/"+a.Kind+"Key", outcome.Params{a.Kind + "Key": a.Key})
		case entries[2*i+1] == nil:
			findings.Add(outcome.TargetNotFound, a.Path+"/revisionRef", outcome.Params{a.Kind + "Key": a.Key})
		}
	}
	if findings != nil {
		return nil, findings, nil
	}
	out := make([]Saved, len(addresses))
	for i, a := range addresses {
		out[i] = Saved{Ref: a.Ref, Generation: entries[2*i+1].Generation, Head: *entries[2*i]}
	}
	return out, nil, nil
}

// Find is Locate for whoever has another answer to what is not there: nil in its
// place.
func (s Snapshot) Find(ctx context.Context, addresses ...Address) ([]*Saved, error) {
	entries, err := s.entries(ctx, addresses)
	if err != nil {
		return nil, err
	}
	out := make([]*Saved, len(addresses))
	for i, a := range addresses {
		if head, revision := entries[2*i], entries[2*i+1]; head != nil && revision != nil {
			out[i] = &Saved{Ref: a.Ref, Generation: revision.Generation, Head: *head}
		}
	}
	return out, nil
}

// entries returns two entries an address: of its head, and of its revision.
func (s Snapshot) entries(ctx context.Context, addresses []Address) ([]*history.Entry, error) {
	keys := make([]string, 0, 2*len(addresses))
	for _, a := range addresses {
		keys = append(keys, history.Key(a.Kind, a.Key), change.RevisionKey(a.Kind, a.Key, a.Ref))
	}
	return s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
}

// Read fills in the documents of revisions that were located.
func (s Snapshot) Read(ctx context.Context, located ...*Saved) error {
	refs := make([]history.Ref, len(located))
	for i, saved := range located {
		refs[i] = saved.Ref
	}
	bodies, err := s.objects.Get(ctx, s.Space, refs...)
	if err != nil {
		return fmt.Errorf("snapshot: a saved revision: %w", err)
	}
	for i, saved := range located {
		saved.Document = bodies[i]
	}
	return nil
}

// Object reads an object that a document which was read here names, such as the
// source that it was made from.
func (s Snapshot) Object(ctx context.Context, ref history.Ref) ([]byte, error) {
	bodies, err := s.objects.Get(ctx, s.Space, ref)
	if err != nil {
		return nil, fmt.Errorf("snapshot: an object of a saved revision: %w", err)
	}
	return bodies[0], nil
}

func refuse(code outcome.Code, path string, params outcome.Params) outcome.Findings {
	return outcome.Findings{outcome.New(code, path, params)}
}

// Log returns up to limit commits of the Project, newest first: from its newest, or from
// the one that an earlier Log ended before. A reference that came from elsewhere may be of
// a commit that never was applied: whoever keeps next keeps it from being changed.
func (s Snapshot) Log(ctx context.Context, from history.Ref, limit int) (page []history.Logged, next history.Ref, err error) {
	if from == "" {
		from = s.Commit
	}
	return history.Log(ctx, s.objects, s.Space, from, limit)
}
