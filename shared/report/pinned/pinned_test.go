package pinned_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

// shown is what a Report sees of a Flow, by way of package flow.
func shown(doc flow.Document) report.Boundary {
	b := report.Boundary{Inputs: doc.Inputs, Results: map[string]quantity.Port{}, Cost: flow.Cost(doc)}
	for key, r := range doc.Results {
		b.Results[key] = r.Port
	}
	return b
}

// A Flow whose ports have every member that a port can have.
const every = `{"format":"pxflow/1","flowKey":"every","authoring":{"kind":"native"},
	"inputs":{"a":{"type":"number","unit":"kN","shape":[null,3],"nullable":true,"constraints":{"minimum":0,"exclusiveMaximum":1e6},"quantityKind":"force"},
		"b":{"type":"number","unit":"m","default":{"unit":"m","value":1}},"c":{"type":"enum","values":["x","y"]},"d":{"type":"record","fields":{"e":{"type":"list","of":{"type":"integer"},"minItems":1}}},
		"f":{"type":"table","columns":[{"columnKey":"g","type":"number","unit":"m","nullable":true}],"maxItems":9},"h":{"type":"file","mediaType":"text/csv"},"i":{"type":"string","shape":"scalar","constraints":{"pattern":"^a"}}},
	"results":{"j":{"type":"number","unit":"m","binding":{"kind":"flowInput","portKey":"b"}}},
	"nodes":{"k":{"target":{"kind":"component","componentKey":"px.convert","version":1},"settings":{"from":{"unit":"m"},"to":{"unit":"ft"}},"inputBindings":{"value":{"kind":"flowInput","portKey":"b"}}}}}`

// What is read of a saved Flow is what package flow reads of it.
func TestPortsAndCostAreThoseOfTheFlow(t *testing.T) {
	for name, text := range map[string]string{"the sample": string(sample.GirderCheck), "every kind of port": every} {
		doc, findings := flow.Decode([]byte(text))
		if findings != nil {
			t.Fatalf("%s: %v", name, findings)
		}
		canonical, err := canon.Canonicalize([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := pinned.Read(canonical)
		if err != nil || !reflect.DeepEqual(got, shown(doc)) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, shown(doc))
		}
	}
}

// counting counts reads of objects.
type counting struct {
	*memory.Store
	reads int
}

func (c *counting) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	c.reads++
	return c.Store.Get(ctx, space, refs...)
}

func TestFlowsAreFoundInTheReportsOwnProjectAndReadOnce(t *testing.T) {
	ctx := t.Context()
	store := &counting{Store: memory.New(time.Now)}
	home, away := target.Project{WorkspaceKey: "a", ProjectKey: "home"}, target.Project{WorkspaceKey: "a", ProjectKey: "away"}
	doc, _ := flow.Decode([]byte(every))
	body, ref, err := doc.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	// The same Flow is saved in both Projects; another document is stored in the
	// first and was never saved.
	doc.Label = target.Label{"en": "planned"}
	unsaved, unsavedRef, err := doc.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	catalog := history.NewCatalog(store.Store, history.NewCache(1<<20))
	roots := map[target.Project]history.Ref{}
	for _, p := range []target.Project{home, away} {
		space := history.Space(p.String())
		if err := store.Put(ctx, space, body, unsaved); err != nil {
			t.Fatal(err)
		}
		key := history.Key("flow", "every")
		roots[p], err = catalog.Apply(ctx, space, "", []history.Change{
			{Key: key, Entry: &history.Entry{RevisionRef: history.Ref(ref)}}, {Key: history.RevisionKey(key, history.Ref(ref)), Entry: &history.Entry{RevisionRef: history.Ref(ref)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	reader := snapshot.Reader{Objects: store, Store: store, Catalog: catalog}
	at := func(p target.Project, key, ref string) target.Flow {
		return target.Flow{Scope: p.Scope(), FlowKey: key, RevisionRef: ref}
	}
	is := at(home, "every", ref)
	asked := []target.Flow{is, at(away, "every", ref), at(home, "every", unsavedRef), at(home, "other", ref), at(home, "every", "sha256:x")}
	flows := pinned.New()
	for range 2 {
		found, err := flows.In(reader.At(home, roots[home])).Boundaries(ctx, asked)
		if err != nil || len(found) != 1 || !reflect.DeepEqual(found[is], shown(doc)) {
			t.Errorf("%v: found %+v", err, found)
		}
	}
	if store.reads != 1 {
		t.Errorf("read %d times", store.reads)
	}
	// What is known of a revision does not make it be there: not in the empty
	// Project, and not for another.
	if found, err := flows.In(reader.At(home, "")).Boundaries(ctx, asked); err != nil || len(found) != 0 {
		t.Errorf("%v: in an empty Project there is %+v", err, found)
	}
	if found, err := flows.In(reader.At(away, roots[away])).Boundaries(ctx, asked); err != nil || len(found) != 1 || store.reads != 2 {
		t.Errorf("%v: in the other Project there is %+v, after %d reads", err, found, store.reads)
	}
}

// A stored text that is no Flow is an error and no panic, and a Flow that package
// flow reads is read alike.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample.GirderCheck))
	f.Add([]byte(every))
	f.Add([]byte(`{"inputs":{"a":{"type":"number","shape":[0]}}}`))
	f.Add([]byte(`{"inputs":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pinned.Read(text)
		canonical, bad := canon.Canonicalize(text)
		if bad != nil {
			return
		}
		doc, findings := flow.Decode(canonical)
		if findings != nil {
			return
		}
		got, err := pinned.Read(canonical)
		if err != nil {
			t.Fatalf("%v in %s", err, canonical)
		}
		want := shown(doc)
		if len(got.Inputs) != len(want.Inputs) || len(got.Results) != len(want.Results) || got.Cost != want.Cost {
			t.Fatalf("%+v, and the Flow shows %+v", got, want)
		}
		for key, p := range want.Inputs {
			if !reflect.DeepEqual(got.Inputs[key], p) {
				t.Fatalf("%s is %+v, and the Flow's is %+v", key, got.Inputs[key], p)
			}
		}
	})
}
