package budget_test

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/schema"
)

// covers: B1, B3
func TestTheFixedLimitsAreTheContracts(t *testing.T) {
	if budget.Fixed != (budget.Limits{Tokens: 200_000, Bytes: 2_097_152, Items: 500, TableRows: 1_000, Depth: 8}) {
		t.Errorf("fixed limits are %+v", budget.Fixed)
	}
	fixed := reflect.ValueOf(budget.Fixed)
	for i := range fixed.NumField() {
		name, limit := reflect.TypeFor[budget.Request]().Field(i).Tag.Get("json"), fixed.Field(i).Int()
		name, _, _ = strings.Cut(name, ",")
		for asked, fits := range map[int64]bool{0: false, 1: true, limit: true, limit + 1: false} {
			var r budget.Request
			if found := schema.Decode(fmt.Appendf(nil, `{%q:%d}`, name, asked), &r); (found == nil) != fits {
				t.Errorf("%s %d: %v", name, asked, found)
			}
		}
	}
	less := (&budget.Request{Tokens: 1, Bytes: 2, Items: 3, TableRows: 4, Depth: 5}).Limits()
	if less != (budget.Limits{Tokens: 1, Bytes: 2, Items: 3, TableRows: 4, Depth: 5}) {
		t.Errorf("less is %+v", less)
	}
	more := (&budget.Request{Tokens: math.MaxInt, Bytes: math.MaxInt, Items: math.MaxInt, TableRows: math.MaxInt, Depth: math.MaxInt}).Limits()
	if more != budget.Fixed || (*budget.Request)(nil).Limits() != budget.Fixed {
		t.Errorf("more is %+v", more)
	}
}

func repeat[T any](n int, v T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func deep(n int) any {
	v := any(map[string]any{"value": 1})
	for i := range n {
		if i%2 == 0 {
			v = map[string]any{"value": []any{v}}
		} else {
			v = map[string]any{"value": map[string]any{"a": v}}
		}
	}
	return v
}

// covers: B1, B2
func TestTheLimitItselfIsAllowedAndOneMoreIsNot(t *testing.T) {
	place := func(path string, counts budget.Counts) budget.Place { return budget.Place{Path: path, Counts: counts} }
	value := budget.Place{Path: "/value", Value: true}
	table := func(n int) any {
		return map[string]any{"value": map[string]any{"columns": []any{"a"}, "rows": repeat(n, []any{1})}}
	}
	few := func(int) int { return 1 } // so that bytes bind
	padded := func(bytes int) any {   // a document of exactly so many bytes
		const around = len(`{"data":{"text":""},"ok":true}`)
		return map[string]any{"text": strings.Repeat("x", bytes-around)}
	}
	for name, c := range map[string]struct {
		budget   budget.Name
		limit    int
		data     func(n int) any
		places   []budget.Place
		tokens   func(int) int
		parts    int
		observed int
	}{
		"items of a list":        {budget.Items, 500, func(n int) any { return map[string]any{"items": repeat(n, 1)} }, []budget.Place{place("/items", budget.AsItems)}, nil, 2, 501},
		"items of a typed list":  {budget.Items, 500, func(n int) any { return map[string]any{"value": map[string]any{"value": repeat(n, 1)}} }, []budget.Place{value}, nil, 2, 501},
		"rows of a table":        {budget.TableRows, 1000, table, []budget.Place{value}, nil, 2, 1001},
		"rows of a place":        {budget.TableRows, 1000, func(n int) any { return map[string]any{"rows": repeat(n, 1)} }, []budget.Place{place("/rows", budget.AsRows)}, nil, 2, 1001},
		"depth of a typed value": {budget.Depth, 8, func(n int) any { return map[string]any{"value": deep(n)} }, []budget.Place{value}, nil, 2, 9},
		"bytes":                  {budget.Bytes, 2_097_152, func(n int) any { return padded(n) }, []budget.Place{place("/text", budget.AsNothing)}, few, 2, 2_097_153},
		"tokens, two bytes each": {budget.Tokens, 200_000, func(n int) any { return padded(2*n - 1) }, []budget.Place{place("/text", budget.AsNothing)}, nil, 2, 200_001},
	} {
		t.Run(name, func(t *testing.T) {
			whole := c.data(c.limit)
			a := answer(t, whole, budget.Fixed, append([]budget.Place(nil), c.places...)...)
			a.Tokens = c.tokens
			text, more, err := budget.Cut(a)
			if err != nil || more || strings.Contains(string(text), "truncation") {
				t.Fatalf("the limit itself is cut: %v, %v", more, err)
			}
			if string(text) != string(a.Document) {
				t.Error("the limit itself is changed")
			}
			whole = c.data(c.limit + 1)
			if c.budget == budget.Tokens { // the next token begins with the next byte
				whole = padded(2*c.limit + 1)
			}
			a = answer(t, whole, budget.Fixed, append([]budget.Place(nil), c.places...)...)
			a.Tokens = c.tokens
			text, more, err = budget.Cut(a)
			if err != nil || !more {
				t.Fatalf("one more is not cut: %v", err)
			}
			var document struct {
				Data struct {
					Truncation budget.Truncation `json:"truncation"`
				} `json:"data"`
			}
			if err := json.Unmarshal(text, &document); err != nil {
				t.Fatal(err)
			}
			if got := document.Data.Truncation; got.Budget != c.budget || got.Limit != c.limit || got.Observed != c.observed || !got.Truncated {
				t.Errorf("truncation is %+v", got)
			}
			got := parts(t, a)
			if len(got) != c.parts {
				t.Errorf("%d parts", len(got))
			}
			if !reflect.DeepEqual(normal(t, join(t, got)), normal(t, whole)) {
				t.Error("the parts are not the whole")
			}
		})
	}
}

// covers: B1
func TestBytesNeverBindFirstAsTokensAreCounted(t *testing.T) {
	if most := 2 * budget.Fixed.Tokens; budget.TokensOf(most) != budget.Fixed.Tokens || budget.TokensOf(most+1) != budget.Fixed.Tokens+1 || most > budget.Fixed.Bytes {
		t.Errorf("%d bytes are %d tokens", most, budget.TokensOf(most))
	}
}

// covers: B2
func TestNoCutSplitsACharacter(t *testing.T) {
	for name, character := range map[string]string{
		"a letter":                          "x",
		"a Hangul syllable":                 "거",
		"a decomposed syllable":             norm.NFD.String("각"),
		"an old syllable of four jamo":      "\u1100\u1100\u1161\u11a8",
		"a letter with two accents":         "e\u0301\u0323",
		"an emoji of two code units":        "🌉",
		"a family of joined emoji":          "👩‍👩‍👧‍👦",
		"a hand with a skin tone":           "👍🏽",
		"a flag":                            "🇰🇷",
		"a subdivision flag":                "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
		"a heart with a variation selector": "❤️",
		"a keycap":                          "1️⃣",
		"a line end of two characters":      "\r\n",
		"a quote, which is escaped":         `"`,
		"a control character":               "\x01",
	} {
		whole := map[string]any{"text": strings.Repeat(character, 400)}
		for _, bytes := range []int{400, 401, 402, 403, 407, 411, 419} {
			limits := budget.Fixed
			limits.Bytes = bytes
			a := answer(t, whole, limits, budget.Place{Path: "/text"})
			a.MaxValue = 40
			got := parts(t, a)
			if len(got) < 2 {
				t.Fatalf("%s: %d parts", name, len(got))
			}
			total := 0
			for i, p := range got {
				text := p["text"].(string)
				if len(text)%len(character) != 0 {
					t.Fatalf("%s is split at the end of part %d of %d bytes", name, i, bytes)
				}
				if i < len(got)-1 && text == "" {
					t.Fatalf("%s: part %d is empty", name, i)
				}
				total += len(text)
			}
			if total != 400*len(character) {
				t.Errorf("%s: %d of %d bytes", name, total, 400*len(character))
			}
		}
	}
}

// covers: B2
func TestAPositionIsGoodForItsDocumentAlone(t *testing.T) {
	limits := budget.Fixed
	limits.Items = 2
	a := answer(t, map[string]any{"items": []any{1, 2, 3}}, limits, budget.Place{Path: "/items", Counts: budget.AsItems})
	var from []byte
	a.Continue = func(position []byte) (string, error) { from = position; return "x", nil }
	if _, more, err := budget.Cut(a); err != nil || !more {
		t.Fatal(more, err)
	}
	for name, document := range map[string]string{
		"another element":   `{"data":{"items":[1,2,4]},"ok":true}`,
		"one element fewer": `{"data":{"items":[1,2]},"ok":true}`,
	} {
		b := a
		b.Document, b.From = []byte(document), from
		if _, _, err := budget.Cut(b); !errors.Is(err, budget.ErrPosition) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string][]byte{
		"no bytes": {}, "a stump": from[:8], "beyond the list": append(from[:len(from)-1:len(from)-1], 4),
		"a segment that is not there": append(append([]byte(nil), from[:8]...), 1, 0),
		"too long a path":             append(append([]byte(nil), from...), 0, 0, 0),
		"half a number":               append(append([]byte(nil), from...), 0x80),
	} {
		b := a
		b.From = bad
		if _, _, err := budget.Cut(b); !errors.Is(err, budget.ErrPosition) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeCutIsAnError(t *testing.T) {
	limits := budget.Fixed
	limits.Bytes = 300
	for name, c := range map[string]struct {
		data   any
		places []budget.Place
		want   func(error) bool
	}{
		"a frame that is too large":      {map[string]any{"title": strings.Repeat("x", 400)}, nil, isExceeded},
		"an element that is too large":   {map[string]any{"items": []any{strings.Repeat("x", 400)}}, []budget.Place{{Path: "/items"}}, isExceeded},
		"a place in a list that is none": {map[string]any{"items": []any{map[string]any{"a": []any{strings.Repeat("x", 400)}}}}, []budget.Place{{Path: "/items/*/a"}}, func(err error) bool { return err != nil && !isExceeded(err) }},
		"a path that is none":            {map[string]any{}, []budget.Place{{Path: "!"}}, func(err error) bool { return err != nil && !isExceeded(err) }},
	} {
		a := answer(t, c.data, limits)
		a.Places = c.places
		for i := range a.Places {
			if a.Places[i].Path != "!" {
				a.Places[i].Path = "/data" + a.Places[i].Path
			}
		}
		if _, _, err := budget.Cut(a); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, document := range []string{`[]`, `{"data":[]}`, `{}`} {
		if _, _, err := budget.Cut(budget.Answer{Document: []byte(document), Told: "data", Limits: budget.Fixed}); err == nil {
			t.Errorf("%s is cut", document)
		}
	}
}

func isExceeded(err error) bool {
	var exceeded *budget.ExceededError
	return errors.As(err, &exceeded) && exceeded.Observed > exceeded.Limit
}

// covers: B2
func TestAnElementIsSplitOnlyIfItDoesNotFitAlone(t *testing.T) {
	item := func(id, nodes int) any {
		m := map[string]any{}
		for i := range nodes {
			m[fmt.Sprintf("n%03d", i)] = "0123456789"
		}
		return map[string]any{"id": id, "nodes": m}
	}
	limits := budget.Fixed
	limits.Bytes = 1500
	whole := map[string]any{"items": []any{item(0, 20), item(1, 40), item(2, 1), item(3, 200), item(4, 1)}}
	got := parts(t, answer(t, whole, limits, budget.Place{Path: "/items", Counts: budget.AsItems}, budget.Place{Path: "/items/*/nodes"}))
	seen := map[float64]int{}
	for _, p := range got {
		for _, i := range p["items"].([]any) {
			seen[i.(map[string]any)["id"].(float64)]++
		}
	}
	if seen[0] != 1 || seen[1] != 1 || seen[2] != 1 || seen[3] < 3 || seen[4] != 1 {
		t.Errorf("items stand in so many parts: %v", seen)
	}
	if !reflect.DeepEqual(normal(t, join(t, got)), normal(t, whole)) {
		t.Error("the parts are not the whole")
	}
}

// covers: B1
func TestBytesAreCountedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := budget.Limits{Tokens: 1 << 30, Bytes: 1 << 30, Items: 1 << 20, TableRows: 1 << 20, Depth: 20}
		a := answer(t, data.Draw(t, "data"), limits, slices.Clone(dataPlaces)...)
		quoted, err := stdjson.Marshal(string(a.Document))
		if err != nil {
			t.Fatal(err)
		}
		for name, less := range map[string]func(a *budget.Answer, by int){
			"bytes": func(a *budget.Answer, by int) { a.Limits.Bytes = len(a.Document) - by },
			"share": func(a *budget.Answer, by int) { a.Share = len(quoted) - 2 - by },
		} {
			b := a
			less(&b, 0)
			if _, more, err := budget.Cut(b); more || err != nil {
				t.Fatalf("exactly its %s: %v, %v", name, more, err)
			}
			less(&b, 1)
			if _, more, err := budget.Cut(b); !more && !isExceeded(err) {
				t.Fatalf("one byte of %s too few: %v, %v", name, more, err)
			}
		}
	})
}

// covers: B2
func TestAnElementAfterOneThatWasSplitIsWholeIfItFitsAlone(t *testing.T) {
	limits := budget.Fixed
	limits.Bytes = 900
	item := func(id string, nodes int) any {
		m := map[string]any{}
		for i := range nodes {
			m[fmt.Sprintf("n%03d", i)] = "0123456789"
		}
		return map[string]any{"id": id, "nodes": m}
	}
	times := func(middle any, first any) int {
		n := 0
		places := []budget.Place{{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/nodes"}}
		for _, p := range parts(t, answer(t, map[string]any{"items": []any{first, middle, item("last", 100)}}, limits, places...)) {
			for _, i := range p["items"].([]any) {
				if id := i.(map[string]any)["id"].(string); id != "first" && id != "last" {
					n++
				}
			}
		}
		return n
	}
	whole := 0
	for pad := range 120 {
		middle := item("m"+strings.Repeat("x", pad), 25)
		alone := times(middle, item("first", 1))
		if after := times(middle, item("first", 100)); after != alone {
			t.Errorf("an element of %d bytes more comes %d times after one that was split, and %d times after another", pad, after, alone)
		}
		if alone == 1 {
			whole++
		}
	}
	if whole == 0 || whole == 120 {
		t.Errorf("%d of 120 fit: the sizes are chosen badly", whole)
	}
}

func FuzzFrom(f *testing.F) {
	limits := budget.Fixed
	limits.Bytes, limits.Depth = 600, 2
	whole := map[string]any{"items": repeat(40, any(map[string]any{"id": 1, "nodes": map[string]any{"a": 1}})), "value": deep(9), "text": strings.Repeat("거더", 300), "nextCursor": "x"}
	a := answer(f, whole, limits, dataPlaces...)
	var positions [][]byte
	a.Continue = func(position []byte) (string, error) {
		positions = append(positions, append([]byte(nil), position...))
		return "x", nil
	}
	for {
		_, more, err := budget.Cut(a)
		if err != nil {
			f.Fatal(err)
		}
		if !more {
			break
		}
		a.From = positions[len(positions)-1]
		f.Add(a.From[8:])
	}
	print := a.From[:8:8]
	f.Fuzz(func(t *testing.T, path []byte) {
		b := a
		b.Continue = func([]byte) (string, error) { return "x", nil }
		b.From = append(print, path...)
		text, _, err := budget.Cut(b)
		if err != nil && !errors.Is(err, budget.ErrPosition) && !isExceeded(err) {
			t.Fatal(err)
		}
		var document any
		if err == nil && json.Unmarshal(text, &document) != nil {
			t.Fatalf("no JSON: %s", text)
		}
	})
}

func BenchmarkCut(b *testing.B) {
	flow := func(i int) any {
		nodes := map[string]any{}
		for n := range 12 {
			nodes[fmt.Sprintf("node_%d", n)] = map[string]any{"target": map[string]any{"kind": "component", "componentKey": "px.formula", "version": 1}, "inputBindings": map[string]any{"span": map[string]any{"kind": "flowInput", "portKey": "span"}}}
		}
		return map[string]any{"target": map[string]any{"flowKey": fmt.Sprintf("flow_%d", i)}, "nodes": nodes}
	}
	var items []any
	for i := range 100 {
		items = append(items, flow(i))
	}
	places := []budget.Place{{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/nodes"}}
	for name, limit := range map[string]int{"fits": budget.Fixed.Tokens, "is cut": 50_000} {
		limits := budget.Fixed
		limits.Tokens = limit
		a := answer(b, map[string]any{"items": items}, limits, append([]budget.Place(nil), places...)...)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(a.Document)))
			for b.Loop() {
				if _, _, err := budget.Cut(a); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("encoding it, for reference", func(b *testing.B) {
			b.SetBytes(int64(len(a.Document)))
			for b.Loop() {
				if _, err := json.Marshal(items, json.Deterministic(true)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
