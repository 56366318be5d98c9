package authored

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
)

// Of any documents, a search with a filter finds those that have all words and use
// what the filter names, in order, on pages that are full but for the last.
//
// covers: S1, S3
func TestAFilteredSearchIsTheSearchWithoutWhatDoesNotFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		store := memory.New(time.Now)
		catalog := history.NewCatalog(store, nil)
		words := rapid.SampledFrom([]string{"girder", "beam", "거더", "truss"})
		query := rapid.SampledFrom([]string{"", "girder", "거더 beam", "gir", "pylon"}).Draw(t, "query")
		terms := search.Terms(query)
		// Some hundred texts of some hundred bytes are several leaves.
		every := rapid.SampledFrom([]int{1, 2, 7, 90, 400}).Draw(t, "a user in every")
		spread := rapid.IntRange(1, 5).Draw(t, "words in so many runs")
		count := rapid.IntRange(0, 700).Draw(t, "documents")
		var runs []string
		for range spread {
			runs = append(runs, words.Draw(t, "word")+" "+words.Draw(t, "word"))
		}
		var changes []history.Change
		var want []string
		for i := range count {
			key := fmt.Sprintf("flow/f%04d", i)
			text := search.Normalize(key, runs[i*spread/max(count, 1)], strings.Repeat("x", 400))
			entry := history.Entry{RevisionRef: history.RefOf([]byte(key)), Uses: []string{"function/other"}}
			if i%every == 0 {
				entry.Uses = append(entry.Uses, "function/resistance")
				if search.Match(text, terms) {
					want = append(want, key)
				}
			}
			changes = append(changes, history.Change{Key: key, Text: &text, Entry: &entry})
		}
		// A user of another kind, before and behind, and one that has no text.
		for _, key := range []string{"earlier/a", "flow/z", "report/r"} {
			changes = append(changes, history.Change{Key: key, Entry: &history.Entry{Uses: []string{"function/resistance"}}})
		}
		root, err := catalog.Apply(ctx, "s", "", changes)
		if err != nil {
			t.Fatal(err)
		}
		l := looking{ctx, snapshot.Snapshot{Space: "s", Root: root, Catalog: catalog}, "flow/", terms}
		q := search.Query{Terms: terms, Limit: rapid.IntRange(1, 40).Draw(t, "limit"), Sources: []search.Source{l.users("function/resistance")}}
		var got []string
		for {
			hits, next, err := search.Page(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				got = append(got, h.Key)
			}
			if next == "" {
				break
			}
			if len(hits) != q.Limit {
				t.Fatalf("a page of %d, limit %d, that is not the last", len(hits), q.Limit)
			}
			q.From = next
		}
		if !slices.Equal(got, want) {
			t.Fatalf("found %v, want %v", got, want)
		}
	})
}
