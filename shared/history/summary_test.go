package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// summarized makes trees of many levels, with summaries, out of few entries.
var summarized = Shape{Target: 512, Summaries: true}

// matching follows Matching through calls that each end after so many items, from
// the key where the call before says that it goes on, and keeps what has all texts.
func matching(t interface{ Fatalf(string, ...any) }, tree Tree, root Ref, prefix string, most int, texts ...string) (found []string, passed int) {
	from := ""
	for {
		seen, next := 0, ""
		for it, err := range tree.Matching(context.Background(), "s", root, from, prefix, texts...) {
			if err != nil {
				t.Fatalf("matching: %v", err)
			}
			if it.Key < from {
				t.Fatalf("from %q: %q", from, it.Key)
			}
			if seen++; seen > most {
				next = it.Key
				break
			}
			if it.Passed > 0 {
				passed++
				continue
			}
			if len(it.Value) == 0 {
				t.Fatalf("%q: neither a value nor passed", it.Key)
			}
			if has(string(it.Value), texts) {
				found = append(found, it.Key)
			}
		}
		if next == "" {
			return found, passed
		}
		from = next
	}
}

func has(value string, texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(value, text) })
}

// Whatever is looked for, all that has it is found, in order, in however many
// calls; and the root follows from the entries, with their summaries, whoever made
// which edits before.
//
// covers: S1, S3
func TestSummariesLeaveOutNothingThatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.StringMatching(`[a-d]{1,6}`), rapid.SampledFrom([]string{"거더", "거더 검토", "보", "m", "kn*m", "girder", "\n"}))
		tree := Tree{Objects: newCounted(), Shape: summarized}
		model, root := map[string]string{}, Ref("")
		if rapid.Bool().Draw(t, "begins without summaries") {
			// A tree of another time: nothing in it is left out until it is edited.
			older := tree
			older.Shape.Summaries = false
			for i := range 40 {
				model[fmt.Sprintf("flow/old_%02d", i)] = "abc old"
			}
			root = build(t, older, model)
		}
		older := root != ""
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			var edits []Edit
			for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`(flow|report)/[a-e]{1,4}`), 1, 60, rapid.ID).Draw(t, "keys") {
				if _, there := model[key]; there && rapid.Bool().Draw(t, "deleted") {
					edits = append(edits, Edit{Key: key, Delete: true})
					delete(model, key)
					continue
				}
				model[key] = strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, "words"), " ")
				edits = append(edits, Edit{Key: key, Value: []byte(model[key])})
			}
			var err error
			if root, err = tree.Apply(context.Background(), "s", root, edits); err != nil {
				t.Fatal(err)
			}
		}
		if again := build(t, tree, model); !older && again != root {
			t.Fatalf("the same entries at once give another root")
		}
		for range 5 {
			texts := rapid.SliceOfN(word, 0, 3).Draw(t, "texts")
			prefix := rapid.SampledFrom([]string{"", "flow/", "report/", "none/"}).Draw(t, "prefix")
			var want []string
			for _, key := range slices.Sorted(maps.Keys(model)) {
				if strings.HasPrefix(key, prefix) && has(model[key], texts) {
					want = append(want, key)
				}
			}
			got, _ := matching(t, tree, root, prefix, rapid.IntRange(1, 50).Draw(t, "most"), texts...)
			if !slices.Equal(got, want) {
				t.Fatalf("%q under %q: %v, want %v", texts, prefix, got, want)
			}
		}
	})
}

// Texts of a hundred thousand entries are some 30 MB. What is in few of them, or
// in none, is found by reading the nodes above the leaves and those few.
//
// covers: S1
func TestWhatFewEntriesHaveIsFoundWithoutReadingTheOthers(t *testing.T) {
	store := newCounted()
	tree := Tree{Objects: store, Shape: SearchShape}
	var edits []Edit
	bytes := 0
	for i := range 100_000 {
		text := fmt.Sprintf("girder_check_%06d\ngirder check %d\n거더 검토 %d\nspan moment utilization kn*m kip/ft bending resistance of the %s girder\n"+
			"px.formula px.lookup truck_weight front middle rear impact section_modulus yield_stress dead_load", i, i, i, []string{"inner", "outer", "fascia"}[i%3])
		if i == 50_000 {
			text += "\nabutment 교대"
		}
		bytes += len(text)
		edits = append(edits, Edit{Key: fmt.Sprintf("flow/girder_check_%06d", i), Value: []byte(text)})
	}
	root, err := tree.Apply(t.Context(), "s", "", edits)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		texts []string
		found int
		most  int // nodes read
	}{
		{"in none", []string{"pylon"}, 0, 20},
		{"in none, of two letters", []string{"zq"}, 0, 20},
		{"in none, Hangul", []string{"교각"}, 0, 20},
		{"in one", []string{"abutment"}, 1, 25},
		{"in one, Hangul", []string{"교대"}, 1, 25},
		{"in one, one word of several", []string{"girder", "span", "abutment"}, 1, 25},
		{"the key of one", []string{"girder_check_077777"}, 1, 60},
		{"two words that no entry has both", []string{"girder_check_077777", "girder_check_000001"}, 0, 60},
	} {
		store.reset()
		found, passed := matching(t, tree, root, "flow/", 1<<30, c.texts...)
		t.Logf("%s: %d of %d nodes read, %d leaves left out; texts have %d bytes", c.name, store.reads, len(store.bodies), passed, bytes)
		if len(found) != c.found || store.reads > c.most {
			t.Errorf("%s: found %v with %d nodes read", c.name, found, store.reads)
		}
	}
}

func BenchmarkSummarize(b *testing.B) {
	var items []item
	weight := 0
	for i := 0; weight < SearchShape.Target; i++ {
		it := item{fmt.Sprint("flow/girder_", i), []byte(fmt.Sprintf("girder_%06d\ngirder check %d\n거더 검토 %d\nspan moment utilization kn*m bending resistance", i, i, i))}
		items, weight = append(items, it), weight+weightOf(it)
	}
	b.Run("reference_digest", func(b *testing.B) {
		body := encodeNode(0, items)
		for b.Loop() {
			RefOf(body)
		}
	})
	b.Run("summarize", func(b *testing.B) {
		for b.Loop() {
			summarize(items)
		}
		b.ReportMetric(float64(len(summarize(items))), "bytes")
	})
}
