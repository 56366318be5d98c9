package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// counted is an object store that counts what is read and written.
type counted struct {
	mu     sync.Mutex
	bodies map[Ref][]byte
	reads  int // objects
	gets   int // calls
	writes int
}

func newCounted() *counted { return &counted{bodies: map[Ref][]byte{}} }

func (c *counted) Put(_ context.Context, _ Space, bodies ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range bodies {
		c.bodies[RefOf(b)] = b
		c.writes++
	}
	return nil
}

func (c *counted) Get(_ context.Context, _ Space, refs ...Ref) ([][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets++
	var out [][]byte
	for _, r := range refs {
		b, ok := c.bodies[r]
		if !ok {
			return nil, fmt.Errorf("%s: %w", r, ErrNotFound)
		}
		c.reads++
		out = append(out, b)
	}
	return out, nil
}

func (c *counted) reset() { c.reads, c.gets, c.writes = 0, 0, 0 }

// small makes trees of many levels out of few entries.
var small = Shape{Target: 256}

func build(t interface{ Fatal(...any) }, tree Tree, model map[string]string) Ref {
	var edits []Edit
	for k, v := range model {
		edits = append(edits, Edit{Key: k, Value: []byte(v)})
	}
	root, err := tree.Apply(context.Background(), "s", "", edits)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func collect(t interface{ Fatal(...any) }, tree Tree, root Ref, from, prefix string) []Item {
	var out []Item
	for it, err := range tree.Range(context.Background(), "s", root, from, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, it)
	}
	return out
}

func wanted(model map[string]string, from, prefix string) []Item {
	var out []Item
	for _, k := range slices.Sorted(maps.Keys(model)) {
		if k >= from && strings.HasPrefix(k, prefix) {
			out = append(out, Item{Key: k, Value: []byte(model[k])})
		}
	}
	return out
}

func same(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
}

var keys = rapid.OneOf(
	rapid.StringMatching(`(flow|report|used/flow/[ab])/[a-d]{1,4}`),
	rapid.StringMatching(`[a-z]{1,40}`),
)

// covers: S2
func TestTreeIsTheMapThatItsEditsMake(t *testing.T) {
	levels := map[int]int{}
	defer func() {
		if t.Logf("nodes by level: %v", levels); levels[2] == 0 {
			t.Error("no tree was deep enough to tell anything")
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		store := newCounted()
		tree := Tree{Objects: store, Cache: NewCache(rapid.SampledFrom([]int{0, 4 << 10, 1 << 20}).Draw(t, "cache")), Shape: small}
		model := map[string]string{}
		type snapshot struct {
			root  Ref
			model map[string]string
		}
		var snapshots []snapshot
		// A tree of some size to begin with: rapid's own collections are small.
		source := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(0, 500).Draw(t, "loaded") {
			model[fmt.Sprintf("flow/%s%x", strings.Repeat("a", source.IntN(9)), source.IntN(4000))] = strings.Repeat("v", 1+source.IntN(120))
		}
		root := build(t, tree, model)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			var edits []Edit
			before := maps.Clone(model)
			for _, k := range rapid.SliceOfNDistinct(keys, 0, rapid.SampledFrom([]int{1, 3, 200}).Draw(t, "size"), rapid.ID).Draw(t, "keys") {
				if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					edits = append(edits, Edit{Key: k, Delete: true})
					delete(model, k)
				} else {
					v := strings.Repeat("v", rapid.IntRange(1, 120).Draw(t, "value"))
					edits = append(edits, Edit{Key: k, Value: []byte(v)})
					model[k] = v
				}
			}
			// Also edits of what is there: a run of neighbours goes, or changes.
			if there := slices.Sorted(maps.Keys(model)); len(there) > 0 {
				from := rapid.IntRange(0, len(there)-1).Draw(t, "run from")
				for _, k := range there[from:min(len(there), from+rapid.SampledFrom([]int{0, 1, 20, 200}).Draw(t, "run of"))] {
					if slices.ContainsFunc(edits, func(e Edit) bool { return e.Key == k }) {
						continue
					}
					if source.IntN(3) > 0 {
						edits = append(edits, Edit{Key: k, Delete: true})
						delete(model, k)
					} else {
						model[k] = strings.Repeat("w", 1+source.IntN(120))
						edits = append(edits, Edit{Key: k, Value: []byte(model[k])})
					}
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "wipe") == 0 {
				edits = nil
				for k := range before {
					edits = append(edits, Edit{Key: k, Delete: true})
				}
				clear(model)
			}
			var err error
			if root, err = tree.Apply(ctx, "s", root, edits); err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, snapshot{root, maps.Clone(model)})
		}
		for i, s := range snapshots {
			// The shape is a function of the content alone.
			if fresh := build(t, tree, s.model); fresh != s.root {
				t.Fatalf("snapshot %d: edits made %s, a bulk load %s", i, s.root, fresh)
			}
			from, prefix := keys.Draw(t, "from"), rapid.SampledFrom([]string{"", "flow/", "used/flow/a/", "z", "report/a"}).Draw(t, "prefix")
			for _, from := range []string{"", from} {
				if got := collect(t, tree, s.root, from, prefix); !same(got, wanted(s.model, from, prefix)) {
					t.Fatalf("snapshot %d: range from %q with %q differs", i, from, prefix)
				}
			}
			// Pages join to the whole, also pages of an old root.
			var joined []Item
			for at := ""; ; {
				n := 0
				for it, err := range tree.Range(ctx, "s", s.root, at, prefix) {
					if err != nil {
						t.Fatal(err)
					}
					joined = append(joined, it)
					if n++; n == 3 {
						break
					}
				}
				if n < 3 {
					break
				}
				at = joined[len(joined)-1].Key + "\x00"
			}
			if !same(joined, wanted(s.model, "", prefix)) {
				t.Fatalf("snapshot %d: pages do not join to the whole", i)
			}
			ask := append(slices.Sorted(maps.Keys(s.model)), "flow/zzzz", "0", "zzzz")
			values, err := tree.GetMany(ctx, "s", s.root, ask...)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range values {
				if want, ok := s.model[ask[k]]; ok != (v != nil) || want != string(v) {
					t.Fatalf("snapshot %d: %q is %q, not %q", i, ask[k], v, want)
				}
			}
			other := rapid.SampledFrom(snapshots).Draw(t, "other")
			checkDiff(t, tree, s.root, other.root, s.model, other.model)
		}
		for ref, body := range store.bodies {
			n, err := decodeNode(body)
			if err != nil {
				t.Fatal(err)
			}
			levels[n.level]++
			if !bytes.Equal(encodeNode(n.level, n.items), body) {
				t.Fatalf("%s has two forms", ref)
			}
			if most := 2*small.Target + 120 + 40 + 64; len(body) > most {
				t.Fatalf("a node of %d bytes, more than %d", len(body), most)
			}
		}
	})
}

func checkDiff(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, tree Tree, a, b Ref, x, y map[string]string) {
	union := maps.Clone(x)
	maps.Copy(union, y)
	var want, got []string
	for _, k := range slices.Sorted(maps.Keys(union)) {
		if x[k] != y[k] {
			want = append(want, fmt.Sprintf("%s %q %q", k, x[k], y[k]))
		}
	}
	for d, err := range tree.Diff(context.Background(), "s", a, b) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %q %q", d.Key, d.Old, d.New))
	}
	if !slices.Equal(want, got) {
		t.Fatalf("diff is\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// covers: P9
func TestEditsThatCommuteGiveOneRootInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		tree := Tree{Objects: newCounted(), Shape: small}
		model := rapid.MapOfN(keys, rapid.StringMatching(`[a-z]{1,60}`), 0, 150).Draw(t, "model")
		root := build(t, tree, model)
		distinct := rapid.SliceOfNDistinct(keys, 2, 30, rapid.ID).Draw(t, "keys")
		edits := make([]Edit, len(distinct))
		for i, k := range distinct {
			edits[i] = Edit{Key: k, Value: []byte("new")}
			if rapid.Bool().Draw(t, "delete") {
				edits[i] = Edit{Key: k, Delete: true}
			}
		}
		whole, err := tree.Apply(ctx, "s", root, edits)
		if err != nil {
			t.Fatal(err)
		}
		single := root
		for _, e := range rapid.Permutation(edits).Draw(t, "order") {
			if single, err = tree.Apply(ctx, "s", single, []Edit{e}); err != nil {
				t.Fatal(err)
			}
		}
		if single != whole {
			t.Fatal("one edit at a time gives another root than all at once")
		}
	})
}

func TestApplyRefusesAndIgnoresWhatItShould(t *testing.T) {
	ctx := context.Background()
	store := newCounted()
	tree := Tree{Objects: store, Shape: small}
	root := build(t, tree, map[string]string{"a": "1", "b": "2"})
	for name, edits := range map[string][]Edit{
		"an empty key":         {{Key: "", Value: []byte("1")}},
		"a key over the limit": {{Key: strings.Repeat("k", MaxKey+1), Value: []byte("1")}},
		"an empty value":       {{Key: "k"}},
		"a value over it":      {{Key: "k", Value: make([]byte, MaxValue+1)}},
		"two edits of a key":   {{Key: "k", Value: []byte("1")}, {Key: "a", Delete: true}, {Key: "k", Delete: true}},
	} {
		if _, err := tree.Apply(ctx, "s", root, edits); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	store.reset()
	for name, edits := range map[string][]Edit{
		"no edit":                    nil,
		"the same value":             {{Key: "a", Value: []byte("1")}},
		"deleting what is not there": {{Key: "aa", Delete: true}, {Key: "zz", Delete: true}},
	} {
		if got, err := tree.Apply(ctx, "s", root, edits); err != nil || got != root || store.writes > 0 {
			t.Errorf("%s: root %s, %d writes, %v", name, got, store.writes, err)
		}
	}
	if _, err := tree.Apply(ctx, "s", RefOf([]byte("nowhere")), []Edit{{Key: "a", Value: []byte("1")}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a root that is not there: %v", err)
	}
}

// large is a catalog like a Project of n entries, sorted by nothing.
func large(n int) []Edit {
	edits := make([]Edit, n)
	for i := range edits {
		edits[i] = Edit{Key: fmt.Sprintf("flow/girder_check_%06d", i), Value: fmt.Appendf(nil,
			`{"description":"","generation":%d,"label":{"en":"Girder check %d","ko":"거더 검토 %d"},"revisionRef":"%s","uses":["function/resistance"]}`, i%7, i, i, RefOf(fmt.Append(nil, i)))}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { edits[i], edits[j] = edits[j], edits[i] })
	return edits
}

func TestOneEditOfAHundredThousandTouchesOneNodeALevel(t *testing.T) {
	ctx := context.Background()
	store := newCounted()
	tree := Tree{Objects: store, Shape: CatalogShape}
	edits := large(100_000)
	root, err := tree.Apply(ctx, "s", "", edits)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, b := range store.bodies {
		if sizes = append(sizes, len(b)); len(b) > 2*CatalogShape.Target+1024 {
			t.Fatalf("a node of %d bytes", len(b))
		}
	}
	slices.Sort(sizes)
	depth, replaced, inserted := 0, 0, 0
	most, rounds := 0, 500
	for i := range rounds {
		store.reset()
		if _, _, err := tree.Get(ctx, "s", root, edits[i].Key); err != nil {
			t.Fatal(err)
		}
		depth = max(depth, store.reads)
		store.reset()
		if _, err := tree.Apply(ctx, "s", root, []Edit{{Key: edits[i].Key, Value: edits[i+1].Value}}); err != nil {
			t.Fatal(err)
		}
		if store.writes > 3 || store.reads > 3 {
			t.Fatalf("replacing a value wrote %d and read %d nodes", store.writes, store.reads)
		}
		replaced += store.writes
		store.reset()
		if _, err := tree.Apply(ctx, "s", root, []Edit{{Key: edits[i].Key + "a", Value: edits[i].Value}}); err != nil {
			t.Fatal(err)
		}
		inserted += store.writes
		most = max(most, store.writes)
	}
	t.Logf("%d nodes, median %d bytes, %d levels; a replaced value writes %.2f nodes, an added key %.2f and at most %d",
		len(sizes), sizes[len(sizes)/2], depth, float64(replaced)/float64(rounds), float64(inserted)/float64(rounds), most)
	if depth > 3 {
		t.Fatalf("a lookup reads %d nodes", depth)
	}
	// Adding a key is cheap by expectation, not by guarantee (see Tree); the
	// keys here are fixed, so these numbers are too.
	if float64(inserted) > 3.3*float64(rounds) || most > 8 {
		t.Fatalf("an added key writes %.2f nodes, at most %d", float64(inserted)/float64(rounds), most)
	}
	// A difference costs what differs, far apart or side by side, and no more.
	var some []Edit
	for i := range 5 {
		some = append(some, Edit{Key: edits[i].Key, Value: edits[i+1].Value}, Edit{Key: edits[i+9].Key, Delete: true}, Edit{Key: edits[i+19].Key + "a", Value: edits[i].Value})
	}
	other, err := tree.Apply(ctx, "s", root, some)
	if err != nil {
		t.Fatal(err)
	}
	store.reset()
	differences := 0
	for _, err := range tree.Diff(ctx, "s", root, other) {
		if err != nil {
			t.Fatal(err)
		}
		differences++
	}
	if differences != len(some) || store.reads > 5*len(some) {
		t.Fatalf("%d differences of %d cost %d reads", differences, len(some), store.reads)
	}
	t.Logf("a diff of %d entries reads %d nodes", differences, store.reads)
	store.reset()
	n := 0
	for range tree.Range(ctx, "s", root, "flow/girder_check_050000", "flow/") {
		if n++; n == 25 {
			break
		}
	}
	if store.reads > 5 {
		t.Fatalf("a page of 25 in the middle read %d nodes", store.reads)
	}
}

func FuzzDecodeNode(f *testing.F) {
	f.Add(encodeNode(0, []item{{"a", []byte("1")}, {"ab", []byte("2")}}))
	f.Add(encodeNode(2, []item{{"a", make([]byte, digestSize)}, {"b", make([]byte, digestSize)}}))
	leaf := append(make([]byte, digestSize), summarize([]item{{"a", []byte("girder")}})...)
	f.Add(encodeNode(1, []item{{"a", leaf}, {"b", make([]byte, digestSize)}}))
	f.Add([]byte{nodeMagic, 0, 1, 0, 1, 'a', 0x81, 0, '1'})                                 // a varint of two bytes
	f.Add([]byte{nodeMagic, 0, 2, 0, 1, 'a', 1, '1', 0, 2, 'a', 'b', 1, '2'})               // less shared than could be
	f.Add([]byte{nodeMagic, 0, 2, 0, 1, 'b', 1, '1', 0, 1, 'a', 1, '2'})                    // keys that descend
	f.Add([]byte{nodeMagic, 0, 2, 0, 1, 'a', 1, '1', 1, 0, 1, '2'})                         // a key twice
	f.Add([]byte{nodeMagic, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1}) // more entries than bytes
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := decodeNode(body)
		if err != nil {
			return
		}
		if !bytes.Equal(encodeNode(n.level, n.items), body) {
			t.Fatal("a node has two forms")
		}
		for i := 1; i < len(n.items); i++ {
			if n.items[i-1].key >= n.items[i].key {
				t.Fatal("keys do not ascend")
			}
		}
	})
}
