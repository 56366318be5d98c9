// Package saved finds the saved versions of a Project's Functions, and those of the
// packages that it has installed: their contracts, for whoever validates a Flow, and
// their sources, for whoever edits one.
//
// A version exists if the catalog of the snapshot remembers it, whichever version is
// the newest: a Flow or a Run may name an old one. A version that was only planned
// does not exist, whoever knows its digest. What is asked costs one read a level of
// the catalog and one of the objects, however large the Project is.
//
// A Function of a package exists if the lock of the snapshot has the exact release and
// the catalog of packages admits the Function now: both are asked each time. What is
// missing is explained, with the hand-off to where it is installed, and nothing that is
// like it is taken in its place (K5).
package saved

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/installed"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// knownBytes is how much of Functions a process keeps.
const knownBytes = 16 << 20

// Functions finds versions for one process after another request. A version never
// changes, so its document is read once.
type Functions struct {
	known   *history.Cache // of function.Document, by digest
	catalog packages.Catalog
	planned planned.Catalog
}

// New returns Functions that know nothing yet, with the product's packages.
func New() Functions { return With(packages.Product()) }

// With is New with other packages.
func With(catalog packages.Catalog) Functions {
	return Functions{known: history.NewCache(knownBytes), catalog: catalog}
}

// Telling is the same, and tells of Components that no Node may run what the planned
// catalog has of them.
func (f Functions) Telling(catalog planned.Catalog) Functions {
	f.planned = catalog
	return f
}

// In returns what may be found in a snapshot.
func (f Functions) In(s snapshot.Snapshot) Within {
	return Within{f.known, s, f.catalog, f.planned, &locked{}}
}

// Within is the Functions of one snapshot. It implements flow.Contracts,
// flow.Explainer and flow.ComponentExplainer.
type Within struct {
	known    *history.Cache
	snapshot snapshot.Snapshot
	catalog  packages.Catalog
	planned  planned.Catalog
	locked   *locked
}

// locked is the lock of a snapshot, read once and when it is needed.
type locked struct {
	sync.Mutex
	is *dependency.Lock
}

// Lock returns the dependency lock of the snapshot.
func (w Within) Lock(ctx context.Context) (dependency.Lock, error) {
	w.locked.Mutex.Lock()
	defer w.locked.Unlock()
	if w.locked.is == nil {
		lock, err := dependency.In(ctx, w.snapshot)
		if err != nil {
			return lock, err
		}
		w.locked.is = &lock
	}
	return *w.locked.is, nil
}

// Installed returns the Function of a package that a target names exactly, where its
// release is installed and it is admitted.
func (w Within) Installed(ctx context.Context, ref flow.FunctionTarget) (packages.Function, bool, error) {
	lock, err := w.Lock(ctx)
	if err != nil || !lock.Has(ref.Package) {
		return packages.Function{}, false, err
	}
	f, ok := w.catalog.Owns(ref.Package, ref.FunctionKey)
	return f, ok && f.Document.Version == ref.Version && f.Digest == ref.Digest, nil
}

// Explain implements flow.Explainer: of what a package owns, whether it is not installed,
// not admitted any more, or of no release that is known.
func (w Within) Explain(ref flow.FunctionTarget) (outcome.Code, outcome.Params) {
	if !ref.Owned() {
		return "", nil
	}
	lock, err := w.Lock(context.Background()) // it was read when ref was not found
	if err != nil {
		return "", nil
	}
	return Explain(w.catalog, w.snapshot.Project, lock, ref)
}

// ExplainComponent implements flow.ComponentExplainer: the exact release that has the
// Component and its trust, where the Project has recorded one or the planned catalog has
// it, with the hand-off to where that release is kept, or to its owner where the Project
// has installed it already. Several are all told; with nothing
// known of it there is nothing to hand on to, and nothing like it takes its place (K5).
func (w Within) ExplainComponent(ctx context.Context, t flow.ComponentTarget) (outcome.Params, error) {
	records, err := installed.In(ctx, w.snapshot)
	if err != nil {
		return nil, err
	}
	lock, err := w.Lock(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range w.planned.Find(t.ComponentKey, t.Version) {
		records = append(records, c.Record)
	}
	type candidate struct {
		PackageRelease component.PackageRelease      `json:"packageRelease"`
		Signature      component.SignatureState      `json:"signature"`
		RevocationList component.RevocationListState `json:"revocationList"`
		Handoff        dependency.Handoff            `json:"handoff"`
	}
	var found []candidate
	for _, r := range records {
		if r.ComponentContract.ComponentKey == t.ComponentKey && r.ContractVersion == t.Version {
			handoff := dependency.HandoffOf
			if lock.Has(r.PackageRelease.Package()) {
				handoff = dependency.OwnerOf
			}
			found = append(found, candidate{r.PackageRelease, r.Signature, r.RevocationList, handoff(w.snapshot.Project, r.PackageRelease.Package())})
		}
	}
	switch len(found) {
	case 0:
		return outcome.Params{"reason": "component_unknown"}, nil
	case 1:
		f := found[0]
		return outcome.Params{"reason": "third_party_component", "packageRelease": f.PackageRelease, "signature": f.Signature, "revocationList": f.RevocationList, "handoff": f.Handoff}, nil
	}
	return outcome.Params{"reason": "third_party_component", "candidates": found}, nil
}

// Explain tells why a Function of a package cannot be used, "" where it can, or where
// nothing is known that it names.
func Explain(catalog packages.Catalog, project target.Project, lock dependency.Lock, ref flow.FunctionTarget) (outcome.Code, outcome.Params) {
	handoff := dependency.HandoffOf(project, ref.Package)
	installed := lock.Has(ref.Package)
	release := catalog.Release(ref.Package)
	at := slices.IndexFunc(release, func(f packages.Function) bool {
		return f.Document.FunctionKey == ref.FunctionKey && f.Document.Version == ref.Version && f.Digest == ref.Digest
	})
	switch {
	case len(release) == 0 && installed:
		return outcome.DependencyUnavailable, outcome.Params{"reason": "release_unknown", "handoff": handoff}
	case at < 0: // the release has no such Function, or there is no such release
		return "", nil
	case !packages.Admitted(release[at]):
		return outcome.DependencyUnavailable, outcome.Params{"reason": release[at].Refusal(), "handoff": handoff}
	case installed:
		return "", nil
	}
	params := outcome.Params{"handoff": handoff}
	if is, other := lock.Packages[ref.Package.PackageKey]; other {
		params["installed"] = is.Package(ref.Package.PackageKey)
	}
	return outcome.DependencyNotInstalled, params
}

// Documents returns the versions that are there, by what asked for them. Whether one
// is there is asked of the snapshot each time; what it says may be known already.
func (w Within) Documents(ctx context.Context, refs []flow.FunctionTarget) (map[flow.FunctionTarget]function.Document, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	all := refs
	refs = slices.DeleteFunc(slices.Clone(refs), flow.FunctionTarget.Owned)
	s := w.snapshot
	keys := make([]string, len(refs))
	for i, r := range refs {
		keys[i] = change.RevisionKey(function.Kind, r.FunctionKey, history.Ref(r.Digest))
	}
	entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, keys...)
	if err != nil {
		return nil, err
	}
	found := make(map[flow.FunctionTarget]function.Document, len(all))
	for _, r := range all {
		if r.Owned() {
			f, ok, err := w.Installed(ctx, r)
			if err != nil {
				return nil, err
			}
			if ok {
				found[r] = f.Document
			}
		}
	}
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

// Sources returns the sources of the Project's own versions that were found, by their
// digest. They are whole modules: they go to the sandbox and to whoever edits them, and into no answer
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

var (
	_ flow.Contracts          = Within{}
	_ flow.Explainer          = Within{}
	_ flow.ComponentExplainer = Within{}
)
