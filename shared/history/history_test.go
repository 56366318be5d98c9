package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
)

// author makes commits on a counted store the way plan and apply do.
type author struct {
	store   *counted
	catalog Catalog
	head    Head
}

func newAuthor() *author {
	store := newCounted()
	return &author{store: store, catalog: NewCatalog(store, NewCache(1<<20))}
}

// commit saves documents under keys; an empty document removes the key.
func (a *author) commit(t interface{ Fatal(...any) }, documents map[string]string, uses map[string][]string) Commit {
	ctx := context.Background()
	var changes []Change
	c := Commit{Parent: a.head.Commit, Version: a.head.Version + 1, Principal: "iss|engineer", Tool: "pxflow_apply_change", ToolContractVersion: "px-mcp/1",
		Assistant: &Assistant{"provider", "model"}, RequestDigest: "sha256:r", PlanRef: "plan_1", PlanDigest: "sha256:p", CommandID: "c1",
		Approval: &Consent{"approval_1", "iss|reviewer", time.Date(2026, 11, 30, 9, 0, 0, 0, time.FixedZone("KST", 9*3600))}, CommittedAt: time.Date(2026, 11, 30, 0, 0, 1, 500, time.UTC)}
	for _, key := range slices.Sorted(maps.Keys(documents)) {
		old, err := a.catalog.Entry(ctx, "s", a.head.Root, key)
		if err != nil {
			t.Fatal(err)
		}
		revised := RevisedEntry{Key: key}
		change := Change{Key: key}
		if old != nil {
			revised.Base = &Revision{old.RevisionRef, old.Generation}
		}
		if body := documents[key]; body != "" {
			a.store.Put(ctx, "s", []byte(body))
			change.Entry = &Entry{RevisionRef: RefOf([]byte(body)), Label: map[string]string{"en": body}, Uses: uses[key]}
			change.Text = &body
			if old != nil {
				change.Entry.Generation = old.Generation + 1
			}
			revised.Result = &Revision{change.Entry.RevisionRef, change.Entry.Generation}
			memory := Entry{RevisionRef: change.Entry.RevisionRef, Generation: change.Entry.Generation}
			changes = append(changes, Change{Key: RevisionKey(key, memory.RevisionRef), Entry: &memory})
		}
		if revised.Base == nil && revised.Result == nil {
			continue
		}
		changes, c.Changes = append(changes, change), append(c.Changes, revised)
	}
	var err error
	if c.Root, err = a.catalog.Apply(ctx, "s", a.head.Root, changes); err != nil {
		t.Fatal(err)
	}
	a.seal(t, c)
	return c
}

func (a *author) seal(t interface{ Fatal(...any) }, c Commit) {
	ref, body, err := EncodeCommit(c)
	if err != nil {
		t.Fatal(err)
	}
	a.store.Put(context.Background(), "s", body)
	a.head = Head{Commit: ref, Root: c.Root, Version: c.Version}
}

func (a *author) verify() (Verified, error) {
	return Verifier{Read: func(refs ...Ref) ([][]byte, error) {
		bodies := make([][]byte, len(refs))
		for i, ref := range refs {
			var ok bool
			if bodies[i], ok = a.store.bodies[ref]; !ok {
				return nil, ErrNotFound
			}
		}
		return bodies, nil
	}}.Verify(a.head.Commit)
}

// covers: N3
func TestCatalogKeepsReverseUsesAndTextInStepWithEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		a := newAuthor()
		flows := rapid.StringMatching(`flow/[a-e]`)
		functions := rapid.StringMatching(`function/[x-z]`)
		model, used := map[string]string{}, map[string][]string{}
		for n := range rapid.IntRange(1, 8).Draw(t, "commits") {
			documents, uses := map[string]string{}, map[string][]string{}
			for _, key := range rapid.SliceOfNDistinct(flows, 0, 4, rapid.ID).Draw(t, "keys") {
				if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
					documents[key] = ""
					delete(model, key)
					delete(used, key)
					continue
				}
				documents[key] = fmt.Sprintf("%s at %d", key, n)
				uses[key] = rapid.SliceOfN(functions, 0, 3).Draw(t, "uses")
				model[key], used[key] = documents[key], uses[key]
			}
			a.commit(t, documents, uses)
		}
		for _, function := range []string{"function/x", "function/y", "function/z"} {
			var want, got []string
			for _, key := range slices.Sorted(maps.Keys(used)) {
				if slices.Contains(used[key], function) {
					want = append(want, key)
				}
			}
			for key, err := range a.catalog.Users(ctx, "s", a.head.Root, function) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, key)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("users of %s are %v, not %v", function, got, want)
			}
		}
		texts := map[string]string{}
		for text, err := range a.catalog.Texts(ctx, "s", a.head.Root, "", "flow/") {
			if err != nil {
				t.Fatal(err)
			}
			texts[text.Key] = text.Text
		}
		listed := map[string]string{}
		for l, err := range a.catalog.List(ctx, "s", a.head.Root, "", "") {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(l.Key, "@") {
				listed[l.Key] = l.Entry.Label["en"]
			}
		}
		if !maps.Equal(texts, model) || !maps.Equal(listed, model) {
			t.Fatalf("texts %v, entries %v, not %v", texts, listed, model)
		}
		if v, err := a.verify(); err != nil || int64(v.Commits) != a.head.Version {
			t.Fatalf("%+v, %v", v, err)
		}
	})
}

func TestStageRefusesKeysThatCouldBeMistaken(t *testing.T) {
	a := newAuthor()
	for name, change := range map[string]Change{
		"no key":                {Key: "", Entry: &Entry{}},
		"a reverse use":         {Key: "used/function/x/flow/a", Entry: &Entry{}},
		"a use of three parts":  {Key: "flow/a", Entry: &Entry{Uses: []string{"function/x/y"}}},
		"a use of one part":     {Key: "flow/a", Entry: &Entry{Uses: []string{"x"}}},
		"a user of three parts": {Key: "flow/a/b", Entry: &Entry{Uses: []string{"function/x"}}},
	} {
		if _, _, err := a.catalog.Stage(t.Context(), "s", "", []Change{change}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	twice := []Change{{Key: "flow/a", Entry: &Entry{}}, {Key: "flow/a"}}
	if _, _, err := a.catalog.Stage(t.Context(), "s", "", twice); err == nil {
		t.Error("two changes of one key are accepted")
	}
}

// covers: S2
func TestASnapshotStaysWhatItWas(t *testing.T) {
	a := newAuthor()
	a.commit(t, map[string]string{"flow/a": "a1", "flow/b": "b1"}, nil)
	pinned := a.head.Root
	for i := range 200 {
		a.commit(t, map[string]string{"flow/a": fmt.Sprint("a", i+2), fmt.Sprint("flow/new", i): "n", "flow/b": ""}, nil)
	}
	var got []string
	for l, err := range a.catalog.List(t.Context(), "s", pinned, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(l.Key, "@") {
			got = append(got, l.Key+" "+l.Entry.Label["en"])
		}
	}
	if !slices.Equal(got, []string{"flow/a a1", "flow/b b1"}) {
		t.Fatalf("the snapshot is now %v", got)
	}
}

// covers: P10, P11
func TestLogReadsPageByPageAndVerifyFindsEveryAlteredByte(t *testing.T) {
	a := newAuthor()
	for i := range 7 {
		a.commit(t, map[string]string{"flow/a": fmt.Sprint("a", i), fmt.Sprint("flow/b", i): "b", fmt.Sprint("flow/b", i-2): ""},
			map[string][]string{"flow/a": {"function/x", fmt.Sprint("function/y", i)}})
	}
	var versions []int64
	for at := a.head.Commit; at != ""; {
		page, next, err := Log(t.Context(), a.store, "s", at, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page {
			versions = append(versions, l.Commit.Version)
			if l.Commit.Assistant == nil || l.Commit.Approval.ApprovedAt.Location() != time.UTC || l.Commit.Principal == "" {
				t.Fatalf("commit %+v", l.Commit)
			}
		}
		at = next
	}
	if !slices.Equal(versions, []int64{7, 6, 5, 4, 3, 2, 1}) {
		t.Fatalf("versions %v", versions)
	}
	whole, err := a.verify()
	if err != nil || whole.Commits != 7 || whole.Objects != len(a.store.bodies) {
		t.Fatalf("%+v of %d objects, %v", whole, len(a.store.bodies), err)
	}
	for ref, body := range a.store.bodies {
		for i := 0; i < len(body); i += 1 + len(body)/12 {
			changed := bytes.Clone(body)
			changed[i] ^= 1
			a.store.bodies[ref] = changed
			if _, err := a.verify(); err == nil {
				t.Fatalf("byte %d of %s may be anything", i, ref)
			}
		}
		delete(a.store.bodies, ref)
		if _, err := a.verify(); !errors.Is(err, ErrNotFound) {
			t.Fatalf("without %s: %v", ref, err)
		}
		a.store.bodies[ref] = body
	}
}

// covers: P11
func TestVerifyFindsCommitsThatDoNotSayWhatTheyDid(t *testing.T) {
	for name, forge := range map[string]func(*testing.T, *author, *Commit){
		"a change that is not listed": func(t *testing.T, a *author, c *Commit) { c.Changes = c.Changes[:1] },
		"a change that did not happen": func(t *testing.T, a *author, c *Commit) {
			c.Changes = append(c.Changes, RevisedEntry{Key: "flow/z", Result: &Revision{RefOf([]byte("z")), 0}})
		},
		"another base":         func(t *testing.T, a *author, c *Commit) { c.Changes[0].Base.Generation++ },
		"another result":       func(t *testing.T, a *author, c *Commit) { c.Changes[0].Result.RevisionRef = RefOf([]byte("z")) },
		"a key listed twice":   func(t *testing.T, a *author, c *Commit) { c.Changes = append(c.Changes, c.Changes[0]) },
		"a version left out":   func(t *testing.T, a *author, c *Commit) { c.Version++ },
		"a first without past": func(t *testing.T, a *author, c *Commit) { c.Parent = "" },
		"a memory of what was not saved": func(t *testing.T, a *author, c *Commit) {
			root, err := a.catalog.Apply(t.Context(), "s", c.Root, []Change{{Key: RevisionKey("flow/a", RefOf([]byte("1"))), Entry: &Entry{RevisionRef: RefOf([]byte("1")), Generation: 7}}})
			if err != nil {
				t.Fatal(err)
			}
			c.Root = root
		},
		"a reverse use too many": func(t *testing.T, a *author, c *Commit) {
			r, err := a.catalog.Root(t.Context(), "s", c.Root)
			if err == nil {
				r.Catalog, err = a.catalog.catalog.Apply(t.Context(), "s", r.Catalog, []Edit{{Key: "used/function/x/flow/q", Value: []byte("{}")}})
			}
			if err != nil {
				t.Fatal(err)
			}
			body := fmt.Appendf(nil, `{"catalog":%q,"search":%q}`, r.Catalog, r.Search)
			a.store.Put(t.Context(), "s", body)
			c.Root = RefOf(body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthor()
			a.commit(t, map[string]string{"flow/a": "1", "flow/b": "1"}, nil)
			before := a.head
			c := a.commit(t, map[string]string{"flow/a": "2", "flow/b": "2"}, map[string][]string{"flow/a": {"function/x"}})
			a.head = before
			a.seal(t, c)
			if _, err := a.verify(); err != nil {
				t.Fatal(err)
			}
			forge(t, a, &c)
			a.seal(t, c)
			if _, err := a.verify(); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("not found: %v", err)
			}
		})
	}
}

func FuzzDecodeCommit(f *testing.F) {
	a := newAuthor()
	a.commit(f, map[string]string{"flow/a": "1"}, nil)
	f.Add(a.store.bodies[a.head.Commit])
	f.Add([]byte(`{"changeDigest":"","changes":[],"committedAt":"2026-11-30T00:00:00Z","principal":"","tool":"","toolContractVersion":"","version":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeCommit(body)
		if err != nil {
			return
		}
		if _, again, err := EncodeCommit(c); err != nil || !bytes.Equal(again, body) {
			t.Fatalf("a commit has two forms: %v", err)
		}
	})
}

func TestCacheIsBoundedAndKeepsSpacesApart(t *testing.T) {
	c := NewCache(100)
	n := &node{size: 40}
	for i := range 3 {
		c.Put("s", Ref(fmt.Sprint(i)), n, n.size)
		c.Get("s", "0")
	}
	if c.Get("s", "1") != nil || c.Get("s", "0") == nil || c.Get("s", "2") == nil || c.used != 80 {
		t.Fatalf("the least recently used is not the one that went; %d bytes", c.used)
	}
	c.Put("s", "large", n, 101)
	if c.Get("s", "large") != nil || c.Get("other", "0") != nil {
		t.Fatal("too large, or another Space's")
	}
	var none *Cache
	none.Put("s", "0", n, 1)
	if none.Get("s", "0") != nil {
		t.Fatal("a nil cache keeps something")
	}
}

func FuzzDecodeCatalog(f *testing.F) {
	f.Add([]byte(`{"description":"d","detail":{"version":3},"generation":1,"label":{"en":"a"},"revisionRef":"sha256:0","uses":["function/x"]}`))
	f.Add([]byte(`{"catalog":"sha256:0","search":"sha256:1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var root Root
		if decodeExactly(body, &root) == nil {
			if again, err := canon.Encode(root); err != nil || !bytes.Equal(again, body) {
				t.Fatalf("a root has two forms: %v", err)
			}
		}
		e, err := decodeEntry(body)
		if err != nil {
			return
		}
		// What was read can be written, and is then read as the same.
		edit, _, err := entryEdits(Change{Key: "flow/a", Entry: e}, nil)
		if err != nil {
			return // a use or detail that nobody could have saved
		}
		again, err := decodeEntry(edit.Value)
		if err != nil {
			t.Fatal(err)
		}
		if twice, _, err := entryEdits(Change{Key: "flow/a", Entry: again}, nil); err != nil || !bytes.Equal(twice.Value, edit.Value) {
			t.Fatalf("an entry changes when it is read and written: %v", err)
		}
	})
}
