package saved_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}

// counting counts the reads of objects.
type counting struct {
	history.Objects
	reads, objects int
}

func (c *counting) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	c.reads++
	c.objects += len(refs)
	return c.Objects.Get(ctx, space, refs...)
}

// version makes a version of a Function, with the source that it was read from.
func version(t testing.TB, key string, n int) (function.Document, []byte, []byte, flow.FunctionTarget) {
	t.Helper()
	source := fmt.Appendf(nil, "# %s %d\n", key, n)
	doc := function.Document{Format: function.Format, FunctionKey: key, Version: n, Symbol: key, Parameters: []string{"a"},
		Inputs: map[string]quantity.Port{"a": {Type: quantity.NumberType, Unit: "m"}}, Results: map[string]quantity.Port{"r": {Type: quantity.NumberType, Unit: "m"}},
		Capabilities: []string{}, Imports: []string{}, SourceDigest: canon.Digest(source)}
	text, digest, err := doc.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	return doc, text, source, function.Ref{FunctionKey: key, Version: n, Digest: digest}.Target()
}

// covers: T2, N5
func TestAVersionExistsOnceItIsSavedAndUnderItsOwnNameAlone(t *testing.T) {
	ctx := t.Context()
	store := &counting{Objects: memory.New(time.Now)}
	catalog := history.NewCatalog(store, nil)
	space := history.Space(bridge.String())
	var changes []history.Change
	refs := map[string]flow.FunctionTarget{}
	sources := map[string][]byte{}
	for _, n := range []int{1, 2, 3} {
		_, text, source, ref := version(t, "resistance", n)
		if err := store.Put(ctx, space, text, source); err != nil {
			t.Fatal(err)
		}
		refs[fmt.Sprint(n)], sources[fmt.Sprint(n)] = ref, source
		if n < 3 { // the third is planned and not saved
			changes = append(changes, history.Change{Key: history.RevisionKey("function/resistance", history.Ref(ref.Digest)), Entry: &history.Entry{RevisionRef: history.Ref(ref.Digest)}})
		}
	}
	root, err := catalog.Apply(ctx, space, "", changes)
	if err != nil {
		t.Fatal(err)
	}
	reader := snapshot.Reader{Objects: store, Catalog: catalog}
	functions := saved.New()
	within := functions.In(reader.At(bridge, root))
	asked := map[string]flow.FunctionTarget{
		"an old version":         refs["1"],
		"the newest version":     refs["2"],
		"one that was planned":   refs["3"],
		"another number":         {FunctionKey: "resistance", Version: 2, Digest: refs["1"].Digest},
		"another key":            {FunctionKey: "stiffness", Version: 1, Digest: refs["1"].Digest},
		"a digest of something":  {FunctionKey: "resistance", Version: 1, Digest: canon.Digest(sources["1"])},
		"a digest that is none":  {FunctionKey: "resistance", Version: 1, Digest: "sha256:x"},
		"a digest with the sign": {FunctionKey: "resistance", Version: 1, Digest: "@" + refs["1"].Digest},
	}
	var list []flow.FunctionTarget
	for _, ref := range asked {
		list = append(list, ref)
	}
	for range 2 { // the second time from what is known
		found, err := within.Functions(ctx, list)
		if err != nil {
			t.Fatal(err)
		}
		for name, ref := range asked {
			if _, ok := found[ref]; ok != (name == "an old version" || name == "the newest version") {
				t.Errorf("%s: found %v", name, ok)
			}
		}
	}
	// What a process knows of one Project is not there in a Project that lacks it.
	if found, err := functions.In(reader.At(bridge, "")).Functions(ctx, list); err != nil || len(found) != 0 {
		t.Errorf("in an empty Project: %v %v", found, err)
	}
	documents, err := within.Documents(ctx, []flow.FunctionTarget{refs["1"]})
	if err != nil {
		t.Fatal(err)
	}
	got, err := within.Sources(ctx, documents[refs["1"]], documents[refs["1"]])
	if err != nil || len(got) != 1 || string(got[history.Ref(canon.Digest(sources["1"]))]) != string(sources["1"]) {
		t.Errorf("the source is %q, %v", got, err)
	}
}

// Forty Functions cost as many reads as one, in a Project of many.
//
// covers: N1
func TestReadsDoNotGrowWithTheProject(t *testing.T) {
	ctx := t.Context()
	store := &counting{Objects: memory.New(time.Now)}
	space := history.Space(bridge.String())
	cost := func(size, asked int) (reads, objects int) {
		catalog := history.NewCatalog(store, nil)
		var changes []history.Change
		var refs []flow.FunctionTarget
		for i := range size {
			_, text, _, ref := version(t, fmt.Sprintf("function_%d", i), 1)
			if err := store.Put(ctx, space, text); err != nil {
				t.Fatal(err)
			}
			changes = append(changes, history.Change{Key: history.RevisionKey("function/"+ref.FunctionKey, history.Ref(ref.Digest)), Entry: &history.Entry{RevisionRef: history.Ref(ref.Digest)}})
			if len(refs) < asked {
				refs = append(refs, ref)
			}
		}
		root, err := catalog.Apply(ctx, space, "", changes)
		if err != nil {
			t.Fatal(err)
		}
		store.reads, store.objects = 0, 0
		reader := snapshot.Reader{Objects: store, Catalog: catalog}
		found, err := saved.New().In(reader.At(bridge, root)).Functions(ctx, refs)
		if err != nil || len(found) != asked {
			t.Fatal(len(found), err)
		}
		return store.reads, store.objects
	}
	few, _ := cost(60, 40)
	many, objects := cost(3000, 1)
	if few > 5 || many > 5 || objects > 6 {
		t.Errorf("40 of 60 take %d requests; 1 of 3,000 takes %d requests for %d objects", few, many, objects)
	}
}
