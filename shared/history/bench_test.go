package history

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// projects are the sizes between which describe, plan and apply may not differ
// by more than half.
var projects = []int{100, 20_000, 100_000}

func loaded(b *testing.B, n int) (*counted, Tree, Ref, []Edit) {
	store := newCounted()
	tree := Tree{Objects: store, Cache: NewCache(256 << 20), Shape: CatalogShape}
	edits := large(n)
	root, err := tree.Apply(b.Context(), "s", "", edits)
	if err != nil {
		b.Fatal(err)
	}
	return store, tree, root, edits
}

// BenchmarkReplaceOne replaces the value of one of n entries, reads warm and cold.
// The reference is encoding one node, which every change does once a level.
func BenchmarkReplaceOne(b *testing.B) {
	b.Run("reference_encode_node", func(b *testing.B) {
		var items []item
		for _, e := range large(70) {
			items = append(items, item{e.Key, e.Value})
		}
		for b.Loop() {
			RefOf(encodeNode(0, items))
		}
	})
	for _, n := range projects {
		_, tree, root, edits := loaded(b, n)
		for name, cache := range map[string]*Cache{"warm": tree.Cache, "cold": nil} {
			b.Run(fmt.Sprintf("%s_of_%d", name, n), func(b *testing.B) {
				t := Tree{tree.Objects, cache, tree.Shape}
				i := 0
				for b.Loop() {
					if _, _, err := t.Stage(context.Background(), "s", root, []Edit{{Key: edits[i%n].Key, Value: edits[(i+1)%n].Value}}); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkGet looks one of n entries up; the reference is a Go map.
func BenchmarkGet(b *testing.B) {
	for _, n := range projects {
		_, tree, root, edits := loaded(b, n)
		model := map[string][]byte{}
		for _, e := range edits {
			model[e.Key] = e.Value
		}
		b.Run(fmt.Sprintf("reference_map_of_%d", n), func(b *testing.B) {
			i, found := 0, 0
			for b.Loop() {
				found += len(model[edits[i%n].Key])
				i++
			}
		})
		b.Run(fmt.Sprintf("warm_of_%d", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if _, ok, err := tree.Get(context.Background(), "s", root, edits[i%n].Key); !ok || err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkPage reads 25 entries from the start and from the middle of 100,000.
func BenchmarkPage(b *testing.B) {
	_, tree, root, _ := loaded(b, 100_000)
	for name, from := range map[string]string{"first": "", "middle": "flow/girder_check_050000"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range tree.Range(context.Background(), "s", root, from, "flow/") {
					if err != nil {
						b.Fatal(err)
					}
					if n++; n == 25 {
						break
					}
				}
			}
		})
	}
}

// BenchmarkScan reads all 100,000 search texts, warm, looking for a word that is
// in none. The reference is the same search over a slice of strings.
func BenchmarkScan(b *testing.B) {
	tree := Tree{Objects: newCounted(), Cache: NewCache(256 << 20), Shape: SearchShape}
	var edits []Edit
	var texts []string
	for i := range 100_000 {
		text := fmt.Sprintf("girder_check_%06d girder check %d 거더 검토 %d span moment utilization kn*m bending resistance", i, i, i)
		texts = append(texts, text)
		edits = append(edits, Edit{Key: fmt.Sprintf("flow/girder_check_%06d", i), Value: []byte(text)})
	}
	root, err := tree.Apply(b.Context(), "s", "", edits)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("reference_slice", func(b *testing.B) {
		for b.Loop() {
			for _, text := range texts {
				if strings.Contains(text, "abutment") {
					b.Fatal("found")
				}
			}
		}
	})
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			for it, err := range tree.Range(context.Background(), "s", root, "", "flow/") {
				if err != nil || strings.Contains(string(it.Value), "abutment") {
					b.Fatal(err)
				}
			}
		}
	})
}
