package locking_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/dependency/locking"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}

const (
	engineer = "https://issuer|engineer"
	viewer   = "https://issuer|viewer"
	stranger = "https://issuer|stranger"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// release signs a release of one Function, double, and returns what the catalog has of it.
func release(t testing.TB, version string, revoked ...string) []packages.Function {
	t.Helper()
	source := []byte("# " + version + "\n")
	doc := function.Document{Format: function.Format, FunctionKey: "double", Version: 1, Symbol: "double", Parameters: []string{"a"},
		Inputs: map[string]quantity.Port{"a": {Type: quantity.NumberType, Unit: "m"}}, Results: map[string]quantity.Port{"r": {Type: quantity.NumberType, Unit: "m"}},
		Capabilities: []string{}, Imports: []string{}, Description: "Twice.", SourceDigest: canon.Digest(source)}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	text, err := packages.Sign(packages.Release{Publisher: "pxhost", PackageKey: "sums", PackageVersion: version, License: "MIT",
		Functions: map[string]function.Document{"double": doc}, Revoked: append([]string{}, revoked...)}, key)
	must(t, err)
	out := packages.Verify(text, func(string) ([]byte, bool) { return source, true })
	if len(out) != 1 || out[0].Signature != component.SignatureValid {
		t.Fatalf("the release is %+v", out)
	}
	return out
}

type world struct {
	t     testing.TB
	store *memory.Store
	door  locking.Door
	refs  int
	one   packages.Function // sums 1.0.0
	two   packages.Function // sums 2.0.0
	gone  packages.Function // sums 0.9.0, withdrawn
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: memory.New(time.Now)}
	projects := project.New(w.store, nil, time.Now)
	must(t, projects.Create(t.Context(), bridge, nil, ""))
	must(t, projects.SetGrant(t.Context(), bridge, engineer, []policy.Right{policy.Read, policy.Edit}))
	must(t, projects.SetGrant(t.Context(), bridge, viewer, []policy.Right{policy.Read}))
	one, two, gone := release(t, "1.0.0"), release(t, "2.0.0"), release(t, "0.9.0", "double")
	w.one, w.two, w.gone = one[0], two[0], gone[0]
	w.door = w.over(w.store)
	w.door.Catalog = packages.Of(one, two, gone)
	return w
}

// over is the door over a store.
func (w *world) over(store change.Store) locking.Door {
	catalog := history.NewCatalog(w.store, nil)
	return locking.Door{
		Reader: snapshot.Reader{Objects: w.store, Store: w.store, Catalog: catalog},
		Planner: &change.Planner{Objects: w.store, Store: store, Now: time.Now, NewRef: func(prefix string) string {
			w.refs++
			return fmt.Sprintf("%s%026d", prefix, w.refs)
		}},
		Applier: &change.Applier{Objects: w.store, Store: store, Policy: w.store, Catalog: catalog, Now: time.Now, Pause: func(ctx context.Context, _ int) error { return ctx.Err() }},
		Catalog: w.door.Catalog,
	}
}

var who = locking.Who{Principal: engineer, Project: bridge}

func (w *world) head() history.Head {
	head, err := w.store.Head(w.t.Context(), history.Space(bridge.String()))
	must(w.t, err)
	return head
}

func (w *world) snapshot() snapshot.Snapshot { return w.door.Reader.At(bridge, w.head().Root) }

// uses saves an entry of a Flow that uses sums, or uses nothing any more.
func (w *world) uses(flowKey string, uses ...string) {
	w.t.Helper()
	catalog := history.NewCatalog(w.store, nil)
	entry, err := catalog.Entry(w.t.Context(), history.Space(bridge.String()), w.head().Root, "flow/"+flowKey)
	must(w.t, err)
	document := fmt.Appendf(nil, "%s %d", flowKey, w.refs)
	c := change.Change{Kind: "flow", Key: flowKey, Document: document, Paths: []string{""}, Entry: history.Entry{RevisionRef: history.RefOf(document), Uses: uses}}
	d := change.Draft{Tool: "pxflow_plan_change", Project: bridge, Target: canon.Raw(`{}`), Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`), Commands: []canon.Raw{}, Unlabelled: []canon.Raw{}}
	if entry != nil {
		c.Base = &history.Revision{RevisionRef: entry.RevisionRef, Generation: entry.Generation}
		c.Entry.Generation, d.ExpectedGeneration = entry.Generation+1, entry.Generation
	}
	d.Changes = []change.Change{c}
	p, findings, err := w.door.Planner.Plan(w.t.Context(), change.Author{Principal: engineer}, d)
	must(w.t, err)
	_, found, err := w.door.Applier.Apply(w.t.Context(), change.Application{Author: change.Author{Principal: engineer}, Tool: d.Tool, Project: bridge, Target: d.Target,
		Address: "flow/" + flowKey, ExpectedGeneration: d.ExpectedGeneration, PlanRef: p.PlanRef, PlanDigest: p.PlanDigest, CommandID: p.PlanRef})
	must(w.t, err)
	if findings != nil || found != nil {
		w.t.Fatal(findings, found)
	}
}

func told(findings outcome.Findings) string {
	var out []string
	for _, d := range findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %v", d.Code, d.Path, d.Params["reason"])))
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), " <nil>", "")
}

// covers: T4, K5, U6, P11
func TestAnExactReleaseIsInstalledWithItsLicenseByWhoMayEdit(t *testing.T) {
	w := newWorld(t)
	sums := locking.Installation{Package: w.one.Package(), License: "MIT"}
	with := func(change func(*locking.Installation)) locking.Installation {
		in := sums
		change(&in)
		return in
	}
	for name, c := range map[string]struct {
		principal string
		in        locking.Installation
		want      string
	}{
		"a stranger":                    {stranger, sums, "PX_TARGET_NOT_FOUND /project"},
		"who may only read":             {viewer, sums, "PX_PERMISSION_DENIED /project"},
		"no license":                    {engineer, with(func(in *locking.Installation) { in.License = "" }), "PX_LICENSE_NOT_ACCEPTED /license"},
		"another license":               {engineer, with(func(in *locking.Installation) { in.License = "mit" }), "PX_LICENSE_NOT_ACCEPTED /license"},
		"another version":               {engineer, with(func(in *locking.Installation) { in.Package.Version = "1.0.1" }), "PX_TARGET_NOT_FOUND /package release_unknown"},
		"the digest of another version": {engineer, with(func(in *locking.Installation) { in.Package.Digest = w.two.Package().Digest }), "PX_TARGET_NOT_FOUND /package release_unknown"},
		"a package that there is not":   {engineer, with(func(in *locking.Installation) { in.Package.PackageKey = "sum" }), "PX_TARGET_NOT_FOUND /package release_unknown"},
		"the newest":                    {engineer, with(func(in *locking.Installation) { in.Package.Version = "latest" }), "PX_TARGET_NOT_FOUND /package release_unknown"},
		"what is withdrawn":             {engineer, locking.Installation{Package: w.gone.Package(), License: "MIT"}, "PX_DEPENDENCY_UNAVAILABLE /package withdrawn"},
		"all that is wrong at once":     {engineer, locking.Installation{Package: w.gone.Package()}, "PX_DEPENDENCY_UNAVAILABLE /package withdrawn\nPX_LICENSE_NOT_ACCEPTED /license"},
	} {
		_, refused, err := w.door.Add(t.Context(), locking.Who{Principal: c.principal, Project: bridge}, c.in)
		if err != nil || told(refused) != c.want {
			t.Errorf("%s: %s %v", name, told(refused), err)
		}
	}
	if w.head().Version != 0 {
		t.Fatal("what is refused was written")
	}

	locked, refused, err := w.door.Add(t.Context(), who, sums)
	if err != nil || refused != nil || locked.Commit != w.head().Commit || locked.Generation != 0 || !locked.Lock.Has(w.one.Package()) {
		t.Fatalf("%+v %v %v", locked, refused, err)
	}
	// It is a commit like any other: who, when, and that it verifies offline.
	commit, err := history.ReadCommit(t.Context(), w.store, history.Space(bridge.String()), locked.Commit)
	if err != nil || commit.Principal != engineer || commit.Tool != locking.Tool || len(commit.Changes) != 1 || commit.Changes[0].Key != dependency.LockKey ||
		!slices.Equal(commit.Changes[0].Paths, []string{"/packages/sums"}) {
		t.Errorf("the commit is %+v, %v", commit, err)
	}
	again, refused, err := w.door.Add(t.Context(), who, locking.Installation{Package: w.one.Package()})
	if err != nil || refused != nil || again.Commit != "" || again.Revision != locked.Revision || w.head().Version != 1 {
		t.Errorf("again: %+v %v %v", again, refused, err)
	}
	if list, refused, err := w.door.List(t.Context(), locking.Who{Principal: viewer, Project: bridge}); err != nil || refused != nil || !list.Lock.Has(w.one.Package()) || list.Lock.Packages["sums"].License != "MIT" {
		t.Errorf("listed: %+v %v %v", list, refused, err)
	}
	if _, refused, _ := w.door.List(t.Context(), locking.Who{Principal: stranger, Project: bridge}); told(refused) != "PX_TARGET_NOT_FOUND /project" {
		t.Errorf("listed for a stranger: %s", told(refused))
	}
	verifier := history.Verifier{Read: func(refs ...history.Ref) ([][]byte, error) {
		return w.store.Get(t.Context(), history.Space(bridge.String()), refs...)
	}}
	if done, err := verifier.Verify(w.head().Commit); err != nil || done.Commits != 1 || done.Changes != 1 {
		t.Errorf("verified: %+v %v", done, err)
	}
}

// covers: T4, K5
func TestWhatNodesUseIsNeitherRemovedNorMoved(t *testing.T) {
	w := newWorld(t)
	add := func(f packages.Function) (locking.Locked, outcome.Findings) {
		locked, refused, err := w.door.Add(t.Context(), who, locking.Installation{Package: f.Package(), License: "MIT"})
		must(t, err)
		return locked, refused
	}
	remove := func(p target.Package) outcome.Findings {
		_, refused, err := w.door.Remove(t.Context(), who, p)
		must(t, err)
		return refused
	}
	if refused := remove(w.one.Package()); refused != nil || w.head().Version != 0 {
		t.Errorf("removing what is not there: %s", told(refused))
	}
	add(w.one)
	w.uses("a", dependency.UseKey("sums"))
	w.uses("b", dependency.UseKey("sums"), "function/own")
	version := w.head().Version
	for name, refused := range map[string]outcome.Findings{"removed": remove(w.one.Package()), "moved": func() outcome.Findings { _, r := add(w.two); return r }()} {
		if told(refused) != "PX_DEPENDENCY_IN_USE /package" || !slices.Equal(refused[0].Params["users"].([]string), []string{"flow/a", "flow/b"}) {
			t.Errorf("%s: %s %v", name, told(refused), refused)
		}
	}
	if refused := remove(w.two.Package()); told(refused) != "PX_TARGET_NOT_FOUND /package another_release" {
		t.Errorf("removing another release: %s", told(refused))
	}
	if w.head().Version != version {
		t.Error("what is refused was written")
	}
	w.uses("a")
	w.uses("b", "function/own")
	moved, refused := add(w.two)
	if refused != nil || moved.Generation != 1 || moved.Lock.Has(w.one.Package()) || !moved.Lock.Has(w.two.Package()) || len(moved.Lock.Packages) != 1 {
		t.Errorf("moved: %+v %s", moved, told(refused))
	}
	if refused := remove(w.two.Package()); refused != nil {
		t.Errorf("removed: %s", told(refused))
	}
	if lock, err := dependency.In(t.Context(), w.snapshot()); err != nil || len(lock.Packages) != 0 {
		t.Errorf("the lock is %+v, %v", lock, err)
	}
}

// failing fails around its commits, or has something else happen before one.
type failing struct {
	change.Store
	before, after error
	meanwhile     func()
}

func (f *failing) Commit(ctx context.Context, c change.Commitment) error {
	if do := f.meanwhile; do != nil {
		f.meanwhile = nil
		do()
	}
	if err := f.before; err != nil {
		f.before = nil
		return err
	}
	err := f.Store.Commit(ctx, c)
	if f.after != nil && err == nil {
		err, f.after = f.after, nil
	}
	return err
}

// A write that failed is told, whether or not it happened, and asking again makes it so,
// once.
//
// covers: P9, P11
func TestAFailedInstallationIsNotAnInstallationTwice(t *testing.T) {
	for name, c := range map[string]struct {
		store     failing
		installed bool
	}{
		"failed before it was written": {failing{before: errors.New("no connection")}, false},
		"failed after it was written":  {failing{after: history.ErrOutcomeUnknown}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.store.Store = w.store
			door := w.over(&c.store)
			sums := locking.Installation{Package: w.one.Package(), License: "MIT"}
			if _, refused, err := door.Add(t.Context(), who, sums); err == nil || refused != nil {
				t.Fatalf("%v %v", refused, err)
			}
			lock, err := dependency.In(t.Context(), w.snapshot())
			if err != nil || lock.Has(w.one.Package()) != c.installed {
				t.Errorf("the lock is %+v, %v", lock, err)
			}
			if _, refused, err := door.Add(t.Context(), who, sums); err != nil || refused != nil || w.head().Version != 1 {
				t.Errorf("again: %v %v, %d commits", refused, err, w.head().Version)
			}
		})
	}
}

// covers: K5, P5, P9
func TestWhatComesBetweenDecisionAndWriteIsDecidedAnew(t *testing.T) {
	t.Run("a Flow begins to use what is removed", func(t *testing.T) {
		w := newWorld(t)
		if _, refused, err := w.door.Add(t.Context(), who, locking.Installation{Package: w.one.Package(), License: "MIT"}); err != nil || refused != nil {
			t.Fatal(refused, err)
		}
		door := w.over(&failing{Store: w.store, meanwhile: func() { w.uses("late", dependency.UseKey("sums")) }})
		_, refused, err := door.Remove(t.Context(), who, w.one.Package())
		if err != nil || told(refused) != "PX_DEPENDENCY_IN_USE /package" {
			t.Errorf("%s %v", told(refused), err)
		}
		if lock, _ := dependency.In(t.Context(), w.snapshot()); !lock.Has(w.one.Package()) {
			t.Error("it was removed")
		}
	})
	t.Run("the same is installed by somebody else, for the first time", func(t *testing.T) {
		w := newWorld(t)
		door := w.over(&failing{Store: w.store, meanwhile: func() {
			if _, refused, err := w.door.Add(t.Context(), who, locking.Installation{Package: w.one.Package(), License: "MIT"}); err != nil || refused != nil {
				t.Fatal(refused, err)
			}
		}})
		locked, refused, err := door.Add(t.Context(), who, locking.Installation{Package: w.one.Package(), License: "MIT"})
		if err != nil || refused != nil || locked.Commit != "" || w.head().Version != 1 {
			t.Errorf("%+v %v %v", locked, refused, err)
		}
	})
	t.Run("Python is pinned meanwhile, and stays pinned", func(t *testing.T) {
		w := newWorld(t)
		door := w.over(&failing{Store: w.store, meanwhile: func() {
			if _, refused, err := w.door.Python(t.Context(), who, "3.13"); err != nil || refused != nil {
				t.Fatal(refused, err)
			}
		}})
		locked, refused, err := door.Add(t.Context(), who, locking.Installation{Package: w.one.Package(), License: "MIT"})
		if err != nil || refused != nil || locked.Lock.Python != "3.13" || !locked.Lock.Has(w.one.Package()) || locked.Generation != 1 {
			t.Errorf("%+v %v %v", locked, refused, err)
		}
	})
}

func TestAMinorOfPythonIsPinnedAndTakenBack(t *testing.T) {
	w := newWorld(t)
	for _, wrong := range []string{"3", "2.7", "3.13.1", "python3.13", "3.", "any", "latest", "3.10", "3.9", "3.013"} {
		if _, refused, err := w.door.Python(t.Context(), who, wrong); err != nil || told(refused) != "PX_SCHEMA_INVALID /python" {
			t.Errorf("%s: %s %v", wrong, told(refused), err)
		}
	}
	for i, minor := range []string{"3.11", "3.11", "3.13", ""} {
		locked, refused, err := w.door.Python(t.Context(), who, minor)
		if err != nil || refused != nil || locked.Lock.Python != minor || (locked.Commit == "") != (i == 1) {
			t.Errorf("%q: %+v %v %v", minor, locked, refused, err)
		}
	}
}

// What a Flow may name follows from the lock of its snapshot and from what is admitted
// now, and nothing like it is found instead.
//
// covers: K5, T4, U4
func TestAFunctionOfAPackageIsThereWhileItsReleaseIsInstalledAndAdmitted(t *testing.T) {
	w := newWorld(t)
	ref := func(f packages.Function) flow.FunctionTarget {
		return function.Ref{FunctionKey: "double", Version: 1, Digest: f.Digest}.Of(f.Package())
	}
	asks := func(catalog packages.Catalog, r flow.FunctionTarget) (there bool, told string) {
		t.Helper()
		within := saved.With(catalog).In(w.snapshot())
		found, err := within.Functions(t.Context(), []flow.FunctionTarget{r})
		must(t, err)
		_, there = found[r]
		code, params := within.Explain(r)
		return there, strings.TrimSuffix(fmt.Sprintf("%s %v", code, params["reason"]), " <nil>")
	}
	expect := func(name string, catalog packages.Catalog, r flow.FunctionTarget, there bool, want string) {
		t.Helper()
		if is, told := asks(catalog, r); is != there || told != want {
			t.Errorf("%s: there %v, told %q", name, is, told)
		}
	}
	all := w.door.Catalog
	expect("not installed", all, ref(w.one), false, "PX_DEPENDENCY_NOT_INSTALLED")
	if _, refused, err := w.door.Add(t.Context(), who, locking.Installation{Package: w.one.Package(), License: "MIT"}); err != nil || refused != nil {
		t.Fatal(refused, err)
	}
	expect("installed", all, ref(w.one), true, "")
	expect("another version of what is installed", all, ref(w.two), false, "PX_DEPENDENCY_NOT_INSTALLED")
	expect("what is withdrawn", all, ref(w.gone), false, "PX_DEPENDENCY_UNAVAILABLE withdrawn")
	other := ref(w.one)
	other.Digest = w.two.Digest
	expect("the Function of another release", all, other, false, "")
	own := ref(w.one)
	own.Package = target.Package{}
	expect("the same name in the Project", all, own, false, "")
	expect("withdrawn after it was installed", packages.Of(release(t, "1.0.0", "double")), ref(w.one), false, "PX_DEPENDENCY_UNAVAILABLE withdrawn")
	expect("gone after it was installed", packages.Of(release(t, "2.0.0")), ref(w.one), false, "PX_DEPENDENCY_UNAVAILABLE release_unknown")
	if u := flow.Uses(flow.Document{Nodes: map[string]flow.Node{"n": {Target: ref(w.one)}}}); !slices.Equal(u, []string{dependency.UseKey("sums")}) {
		t.Errorf("a Flow uses %q", u)
	}
}
