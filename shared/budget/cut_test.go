package budget_test

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/budget"
)

// answer is an answer around data, the way the frame asks.
func answer(t interface{ Fatal(...any) }, data any, limits budget.Limits, places ...budget.Place) budget.Answer {
	document, err := json.Marshal(map[string]any{"ok": true, "data": data}, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	for i := range places {
		places[i].Path = "/data" + places[i].Path
	}
	return budget.Answer{
		Document: document, Told: "data", Places: places, Limits: limits, Member: "cursor", MaxValue: 120,
		Continue: func(position []byte) (string, error) { return fmt.Sprintf("%x", position), nil },
	}
}

// parts follows the continuations. Every part is checked against the limits.
func parts(t interface {
	Fatalf(string, ...any)
	Fatal(...any)
}, a budget.Answer) []map[string]any {
	var out []map[string]any
	tokens := a.Tokens
	if tokens == nil {
		tokens = budget.TokensOf
	}
	for {
		text, more, err := budget.Cut(a)
		if err != nil {
			t.Fatalf("part %d: %v", len(out), err)
		}
		if len(text) > a.Limits.Bytes || tokens(len(text)) > a.Limits.Tokens {
			t.Fatalf("part %d has %d bytes", len(out), len(text))
		}
		if a.Share > 0 {
			if quoted, _ := stdjson.Marshal(string(text)); len(quoted)-2 > a.Share { // escapes < too
				t.Fatalf("part %d has %d escaped bytes of %d", len(out), len(quoted)-2, a.Share)
			}
		}
		var document struct {
			OK   bool           `json:"ok"`
			Data map[string]any `json:"data"`
		}
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatalf("part %d is no JSON: %v", len(out), err)
		}
		out = append(out, document.Data)
		if !more {
			return out
		}
		if len(out) > 100_000 {
			t.Fatal("this does not end")
		}
		truncation := document.Data["truncation"].(map[string]any)
		if got := slices.Sorted(maps.Keys(truncation)); !slices.Equal(got, []string{"budget", "continuation", "limit", "observed", "truncated"}) {
			t.Fatalf("truncation has %v", got)
		}
		if truncation["truncated"] != true || truncation["observed"].(float64) <= truncation["limit"].(float64) {
			t.Fatalf("truncation is %v", truncation)
		}
		continuation := truncation["continuation"].(map[string]any)
		if continuation["member"] != "cursor" || len(continuation) != 2 {
			t.Fatalf("continuation is %v", continuation)
		}
		if _, err := fmt.Sscanf(continuation["value"].(string), "%x", &a.From); err != nil {
			t.Fatal(err)
		}
		delete(document.Data, "truncation")
	}
}

// join puts parts together as package budget tells a client to. It knows no
// places, only the pointers.
func join(t interface{ Fatalf(string, ...any) }, parts []map[string]any) any {
	whole := any(parts[0])
	nested := make(map[string]any)
	var order []string
	for _, p := range parts[1:] {
		at, has := p["at"].(string)
		delete(p, "at")
		n, isNested := p["nested"].(map[string]any)
		delete(p, "nested")
		if !isNested {
			var steps []string
			if has {
				steps = strings.Split(at, "/")[1:]
			}
			whole = add(t, whole, p, steps)
			continue
		}
		whole = add(t, whole, p, nil)
		path := n["path"].(string)
		if old, again := nested[path]; again {
			nested[path] = add(t, old, n["value"], strings.Split(at, "/")[3:])
			continue
		}
		nested[path] = n["value"]
		order = append(order, path)
	}
	for _, path := range order {
		value := nested[path].(map[string]any)
		content, ok := value["value"]
		if !ok {
			content = value // a table
		}
		put(t, whole, strings.Split(path, "/")[1:], content)
	}
	return whole
}

// put replaces what stands at a pointer.
func put(t interface{ Fatalf(string, ...any) }, whole any, steps []string, value any) {
	switch w := whole.(type) {
	case map[string]any:
		if len(steps) == 1 {
			w[unescape(steps[0])] = value
			return
		}
		put(t, w[unescape(steps[0])], steps[1:], value)
	case []any:
		i, err := strconv.Atoi(steps[0])
		if err != nil || i >= len(w) {
			t.Fatalf("no element %q", steps[0])
		}
		if len(steps) == 1 {
			w[i] = value
			return
		}
		put(t, w[i], steps[1:], value)
	default:
		t.Fatalf("a pointer leads into %T", whole)
	}
}

// add adds a part to the whole; steps lead to where the part goes on, and are nil
// beside that way.
func add(t interface{ Fatalf(string, ...any) }, whole, part any, steps []string) any {
	switch part := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		if !ok {
			t.Fatalf("an object goes on where %T stands", whole)
		}
		for name, p := range part {
			old, has := w[name]
			switch {
			case !has:
				w[name] = p
			case len(steps) > 0 && unescape(steps[0]) == name:
				w[name] = add(t, old, p, steps[1:])
			default:
				w[name] = add(t, old, p, nil)
			}
		}
		return w
	case []any:
		w, ok := whole.([]any)
		if !ok {
			t.Fatalf("a list goes on where %T stands", whole)
		}
		if len(part) == 0 {
			return w
		}
		if len(steps) > 0 {
			first, err := strconv.Atoi(steps[0])
			if err != nil || first > len(w) {
				t.Fatalf("a list of %d goes on at %q", len(w), steps[0])
			}
			if first < len(w) {
				w[first] = add(t, w[first], part[0], steps[1:])
				part = part[1:]
			}
			return append(w, part...)
		}
		if len(w) == 0 {
			return append(w, part...)
		}
		return w // stands in every part
	case string:
		switch {
		case steps != nil:
			return whole.(string) + part
		case whole == "":
			return part
		}
		return whole
	}
	return whole
}

func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// normal is a value as a reader of JSON sees it.
func normal(t interface{ Fatal(...any) }, v any) any {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var text = rapid.Custom(func(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\"", "\\", "<", "\n", "\x01", "거더", "거", "👩🏽‍🚀", "🇰🇷", "é", "\u2028", " "}), 0, 60).Draw(t, "pieces")
	return strings.Join(pieces, "")
})

var value func(level int) *rapid.Generator[any]

func init() {
	value = func(level int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			most := 4
			if level > 5 {
				most = 1
			}
			switch rapid.IntRange(0, most).Draw(t, "form") {
			case 0:
				return map[string]any{"value": rapid.IntRange(-9, 9).Draw(t, "number"), "unit": "m"}
			case 1:
				return map[string]any{"value": text.Draw(t, "text")}
			case 2:
				return map[string]any{"value": rapid.SliceOfN(value(level+1), 0, 5).Draw(t, "list")}
			case 3:
				keys := rapid.SampledFrom([]string{"a", "b", "value", "rows", "columns", "a/b~c"})
				return map[string]any{"value": rapid.MapOfN(keys, value(level+1), 0, 4).Draw(t, "record")}
			default:
				rows := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 99), 2, 2), 0, 8).Draw(t, "rows")
				return map[string]any{"columns": []any{"x", "y"}, "rows": rows}
			}
		})
	}
}

var data = rapid.Custom(func(t *rapid.T) map[string]any {
	id := 0
	item := rapid.Custom(func(t *rapid.T) map[string]any {
		id++
		return map[string]any{
			"id": id, "label": rapid.StringN(0, 5, 20).Draw(t, "label"), "tags": []any{"x"},
			"nodes": rapid.MapOfN(rapid.StringMatching(`[a-c/~]{1,4}`), rapid.StringN(0, 20, 40), 0, 6).Draw(t, "nodes"),
			"note":  text.Draw(t, "note"),
		}
	})
	d := map[string]any{
		"title": "t", "items": rapid.SliceOfN(item, 0, 12).Draw(t, "items"),
		"rows": rapid.SliceOfN(rapid.IntRange(0, 9), 0, 9).Draw(t, "rows"),
		"text": text.Draw(t, "text"), "value": value(0).Draw(t, "value"),
	}
	if rapid.Bool().Draw(t, "tail") {
		d["nextCursor"] = "opaque"
		d["truncation"] = map[string]any{"truncated": true, "reason": "page_limit"}
	}
	return d
})

var dataPlaces = []budget.Place{
	{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/nodes"}, {Path: "/items/*/note"},
	{Path: "/rows", Counts: budget.AsRows}, {Path: "/text"}, {Path: "/value", Value: true},
}

// covers: B2, B3
func TestPartsJoinToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := data.Draw(t, "data")
		limits := budget.Limits{
			Tokens: 1 << 20, Bytes: rapid.IntRange(900, 4000).Draw(t, "bytes"), Items: rapid.IntRange(10, 20).Draw(t, "items"), // a list in a list in … has an element each
			TableRows: rapid.IntRange(1, 10).Draw(t, "rows"), Depth: rapid.IntRange(1, 8).Draw(t, "depth"),
		}
		a := answer(t, whole, limits, slices.Clone(dataPlaces)...)
		if rapid.Bool().Draw(t, "shared") {
			a.Share = rapid.IntRange(1200, 4000).Draw(t, "share")
		}
		want := normal(t, whole)
		got := parts(t, a)
		for i, p := range got {
			checkCounts(t, i, p, limits)
			if _, has := p["nextCursor"]; has != (whole["nextCursor"] != nil && i == len(got)-1) {
				t.Fatalf("part %d of %d: nextCursor: %v", i, len(got), has)
			}
			for name := range want.(map[string]any) {
				if _, has := p[name]; !has && name != "nextCursor" && name != "truncation" {
					t.Fatalf("part %d has no %s", i, name)
				}
			}
		}
		if joined := join(t, got); !reflect.DeepEqual(normal(t, joined), want) {
			g, _ := json.Marshal(joined, json.Deterministic(true))
			w, _ := json.Marshal(want, json.Deterministic(true))
			t.Fatalf("%d parts\ngot  %s\nwant %s", len(got), g, w)
		}
	})
}

// checkCounts counts a part by the words of the contract.
func checkCounts(t interface{ Fatalf(string, ...any) }, part int, data map[string]any, limits budget.Limits) {
	items, rows := len(data["items"].([]any)), len(data["rows"].([]any))
	depth := 0
	for _, v := range []any{data["value"], member(data["nested"], "value")} {
		i, r, d := countValue(v)
		items, rows, depth = items+i, rows+r, max(depth, d)
	}
	if items > limits.Items || rows > limits.TableRows || depth > limits.Depth {
		t.Fatalf("part %d has %d items, %d rows, depth %d; the limits are %v", part, items, rows, depth, limits)
	}
}

func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

func countValue(v any) (items, rows, depth int) {
	m, ok := v.(map[string]any)
	if !ok {
		return 0, 0, 0
	}
	if list, ok := m["rows"].([]any); ok && m["columns"] != nil {
		return 0, len(list), 1
	}
	var inner []any
	switch content := m["value"].(type) {
	case []any:
		inner, items, depth = content, len(content), 1
	case map[string]any:
		inner, depth = slices.Collect(maps.Values(content)), 1
	}
	deepest := 0
	for _, e := range inner {
		i, r, d := countValue(e)
		items, rows, deepest = items+i, rows+r, max(deepest, d)
	}
	return items, rows, depth + deepest
}

// covers: B2, B3
func TestAnAnswerThatFitsIsToldAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := data.Draw(t, "data")
		delete(whole, "value") // typed values have their own grammar
		places := slices.DeleteFunc(slices.Clone(dataPlaces), func(p budget.Place) bool { return p.Value })
		exact := budget.Limits{Tokens: 1 << 20, Bytes: 1 << 20, Items: reflect.ValueOf(whole["items"]).Len(), TableRows: reflect.ValueOf(whole["rows"]).Len(), Depth: 8}
		a := answer(t, whole, exact, slices.Clone(places)...)
		exact.Bytes, exact.Tokens = len(a.Document), budget.TokensOf(len(a.Document))
		quoted, _ := stdjson.Marshal(string(a.Document))
		a.Limits, a.Share = exact, len(quoted)-2
		part, more, err := budget.Cut(a)
		if err != nil || more || string(part) != string(a.Document) {
			t.Fatalf("what just fits came as %s, more %v, error %v", part, more, err)
		}
		// One less of anything, and it is a part.
		for name, lower := range map[string]func(){
			"bytes": func() { a.Limits.Bytes-- }, "tokens": func() { a.Limits.Tokens-- }, "share": func() { a.Share-- },
			"items": func() { a.Limits.Items-- }, "rows": func() { a.Limits.TableRows-- },
		} {
			if name == "items" && exact.Items == 0 || name == "rows" && exact.TableRows == 0 {
				continue
			}
			share := a.Share
			lower()
			_, more, err := budget.Cut(a)
			if err == nil && !more {
				t.Fatalf("the answer came whole with one of %s less", name)
			}
			a.Limits, a.Share = exact, share
		}
	})
}
