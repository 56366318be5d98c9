package budget_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/budget"
)

// A budget that serves the first part serves all that follow: no walk ends in the
// middle. And what is refused tells what it takes: whoever asks for that is served.
//
// covers: B2, B3
func TestABudgetThatServesTheFirstPartServesAll(t *testing.T) {
	served, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		whole := data.Draw(t, "data")
		limits := budget.Limits{
			Tokens: rapid.IntRange(1, 1500).Draw(t, "tokens"), Bytes: rapid.IntRange(1, 3000).Draw(t, "bytes"), Items: rapid.IntRange(1, 12).Draw(t, "items"),
			TableRows: rapid.IntRange(1, 10).Draw(t, "rows"), Depth: rapid.IntRange(1, 8).Draw(t, "depth"),
		}
		a := answer(t, whole, limits, slices.Clone(dataPlaces)...)
		if rapid.Bool().Draw(t, "shared") {
			a.Share = rapid.IntRange(1, 4000).Draw(t, "share")
		}
		want := normal(t, whole)
		for tries := 0; ; tries++ {
			var exceeded *budget.ExceededError
			_, _, err := budget.Cut(a)
			if err == nil {
				break
			}
			refused++
			if !errors.As(err, &exceeded) || exceeded.Observed <= exceeded.Limit {
				t.Fatalf("the first part: %v", err)
			}
			if tries == 12 {
				t.Fatalf("what is asked for is not enough: %v", err)
			}
			switch exceeded.Budget {
			case budget.Tokens:
				a.Limits.Tokens = exceeded.Observed
			case budget.Items:
				a.Limits.Items = exceeded.Observed
			case budget.TableRows:
				a.Limits.TableRows = exceeded.Observed
			case budget.Bytes:
				if exceeded.Limit == a.Share {
					a.Share = exceeded.Observed
				} else {
					a.Limits.Bytes = exceeded.Observed
				}
			default:
				t.Fatalf("the first part: %v", err)
			}
		}
		served++
		got := parts(t, a) // fails if a part is refused
		if joined := join(t, got); !reflect.DeepEqual(normal(t, joined), want) {
			g, _ := json.Marshal(joined, json.Deterministic(true))
			w, _ := json.Marshal(want, json.Deterministic(true))
			t.Fatalf("%d parts\ngot  %s\nwant %s", len(got), g, w)
		}
	})
	if served == 0 || refused == 0 {
		t.Errorf("%d served, %d refused", served, refused)
	}
}
