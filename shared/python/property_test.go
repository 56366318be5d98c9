package python_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// A writer writes one source in many ways: what stands between tokens is drawn.
type writer struct{ t *rapid.T }

// gap is what may stand between two tokens within brackets.
func (w writer) gap() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\r\n", "\t", " # 주석: )]}'\"\n", "\r\n    ", "\\\n"}).Draw(w.t, "gap")
}

// text is a Python literal of a text.
func (w writer) text(s string) string {
	switch rapid.IntRange(0, 3).Draw(w.t, "form") {
	case 0:
		return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
	case 1:
		return `"""` + strings.NewReplacer("\\", "\\\\", `"`, `\"`).Replace(s) + `"""`
	case 2: // two side by side
		at := rapid.IntRange(0, len([]rune(s))).Draw(w.t, "cut")
		head, tail := string([]rune(s)[:at]), string([]rune(s)[at:])
		quoted := strings.NewReplacer("\\", "\\\\", `"`, `\"`)
		return `"` + quoted.Replace(head) + `"` + w.gap() + ` u"` + quoted.Replace(tail) + `"`
	}
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, "\\U%08x", r)
	}
	return `"` + b.String() + `"`
}

func (w writer) list(open, close string, items []string) string {
	var b strings.Builder
	b.WriteString(open)
	for i, item := range items {
		b.WriteString(w.gap() + item + w.gap())
		if i < len(items)-1 || rapid.Bool().Draw(w.t, "comma") {
			b.WriteString(",")
		}
	}
	return b.String() + w.gap() + close
}

func (w writer) call(name string, arguments map[string]string) string {
	var items []string
	for _, k := range rapid.Permutation(sorted(arguments)).Draw(w.t, "order") {
		items = append(items, k+w.gap()+"="+w.gap()+arguments[k])
	}
	return "px." + name + w.list("(", ")", items)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var (
	keys  = rapid.StringMatching(`[a-z][a-z0-9_]{0,12}`)
	words = rapid.SampledFrom([]string{"a", "거더 검토", "it's \"x\" \\ {y} #", "😀", "x y"})
	units = rapid.SampledFrom([]string{"m", "kN*m", "N/mm^2", "1", "degC"})
)

func (w writer) number() (string, any) {
	switch rapid.IntRange(0, 2).Draw(w.t, "number") {
	case 0:
		n := rapid.Int64Range(-1<<53+1, 1<<53-1).Draw(w.t, "integer")
		return fmt.Sprint(n), float64(n)
	case 1:
		n := rapid.IntRange(0, 1<<30).Draw(w.t, "hex")
		return fmt.Sprintf("0X%x", n), float64(n)
	}
	f := rapid.Float64Range(-1e300, 1e300).Draw(w.t, "float")
	if text := strconv.FormatFloat(f, 'e', -1, 64); f != 0 {
		return text, f
	}
	return "0.", 0.0
}

// port returns a call and the contract that it says.
func (w writer) port(depth int) (string, map[string]any) {
	kinds := []string{"number", "integer", "boolean", "string", "enum", "file", "table"}
	if depth < 3 {
		kinds = append(kinds, "list", "record")
	}
	kind := rapid.SampledFrom(kinds).Draw(w.t, "kind")
	call, contract := w.scalar(kind)
	switch kind {
	case "list":
		text, of := w.port(depth + 1)
		call["of"], contract["of"] = text, of
	case "record":
		text, fields := w.ports(depth+1, 1)
		call["fields"], contract["fields"] = text, fields
	case "table":
		var items []string
		var columns []any
		for _, k := range rapid.SliceOfNDistinct(keys, 1, 4, rapid.ID).Draw(w.t, "columns") {
			kind := rapid.SampledFrom([]string{"number", "integer", "boolean", "string", "enum"}).Draw(w.t, "column")
			c, contract := w.scalar(kind)
			contract["columnKey"] = k
			items = append(items, w.text(k)+w.gap()+":"+w.gap()+w.call(kind, c))
			columns = append(columns, contract)
		}
		call["columns"], contract["columns"] = w.list("{", "}", items), columns
	}
	return w.call(kind, call), contract
}

func (w writer) scalar(kind string) (call map[string]string, contract map[string]any) {
	call, contract = map[string]string{}, map[string]any{"type": kind}
	bounds := map[string]any{}
	if rapid.Bool().Draw(w.t, "nullable") {
		call["nullable"], contract["nullable"] = "True", true
	}
	switch kind {
	case "number":
		u := units.Draw(w.t, "unit")
		call["unit"], contract["unit"] = w.text(u), u
		if rapid.Bool().Draw(w.t, "bounded") {
			call["exclusive_minimum"], bounds["exclusiveMinimum"] = w.number()
		}
	case "string":
		if rapid.Bool().Draw(w.t, "bounded") {
			call["max_length"], bounds["maxLength"] = "7", 7.0
		}
	case "enum":
		v := rapid.SliceOfNDistinct(words, 1, 3, rapid.ID).Draw(w.t, "values")
		var texts []string
		var values []any
		for _, s := range v {
			texts, values = append(texts, w.text(s)), append(values, s)
		}
		call["values"], contract["values"] = w.list("[", "]", texts), values
	}
	if len(bounds) > 0 {
		contract["constraints"] = bounds
	}
	return call, contract
}

func (w writer) ports(depth, least int) (string, map[string]any) {
	out := map[string]any{}
	var items []string
	for _, k := range rapid.SliceOfNDistinct(keys, least, 4, rapid.ID).Draw(w.t, "keys") {
		text, contract := w.port(depth)
		items = append(items, w.text(k)+w.gap()+":"+w.gap()+text)
		out[k] = contract
	}
	return w.list("{", "}", items), out
}

// However a definition is written, its contract is what it says, and its range is
// its bytes.
//
// covers: N2
func TestAnyWritingOfAContractSaysTheSame(t *testing.T) {
	r := pythontest.Reader(t)
	reserved := map[string]bool{"and": true, "as": true, "def": true, "del": true, "for": true, "if": true, "in": true, "is": true, "not": true, "or": true, "px": true, "try": true}
	rapid.Check(t, func(t *rapid.T) {
		w := writer{t: t}
		inputs, in := w.ports(1, 0)
		for k := range in {
			if reserved[k] {
				t.Skip("a keyword of Python")
			}
		}
		results, out := w.ports(1, 1)
		description := words.Draw(t, "description")
		eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")
		tab := rapid.SampledFrom([]string{"\t", "    ", " "}).Draw(t, "indent")
		decorator := "@px.function" + w.list("(", ")", []string{"key=" + w.text("f"), "version=1", "description=" + w.text(description), "inputs=" + w.gap() + inputs, "results=" + w.gap() + results})
		parameters := rapid.Permutation(sorted(in)).Draw(t, "parameters")
		code := tab + "'''문서 " + eol + " 둘'''" + eol + tab + "x = '값' # 끝" + eol + tab + "return {}"
		definition := decorator + eol + "def f" + w.list("(", ")", parameters) + ":" + eol + code
		before := rapid.SampledFrom([]string{"", "# 가나다" + eol, "import math" + eol + eol, "'''모듈'''" + eol + "NAME = '거더' # px.function" + eol}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", eol, "  # 뒤" + eol, eol + "AFTER = '@'" + eol}).Draw(t, "after")
		source := before + definition + after

		reply, err := r.Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: source})
		if err != nil {
			t.Fatal(err)
		}
		if reply.Refused() {
			t.Fatalf("%+v\n%s", reply.Diagnostics(""), source)
		}
		f := reply.Function
		if f.Definition.In(source) != definition || f.Decorator.In(source) != decorator || f.Body.In(source) != strings.TrimPrefix(code, tab) {
			t.Fatalf("ranges %q %q %q of\n%s", f.Definition.In(source), f.Decorator.In(source), f.Body.In(source), source)
		}
		if !slices.Equal(f.Parameters, parameters) || f.Description != description {
			t.Fatalf("%q %q", f.Parameters, f.Description)
		}
		for name, side := range map[string][2]any{"inputs": {f.Inputs, in}, "results": {f.Results, out}} {
			text, err := json.Marshal(side[0])
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, side[1]) {
				t.Fatalf("%s\n got %s\nwant %v\nof %s", name, text, side[1], source)
			}
		}
	})
}

// Whatever is sent is answered, and by the rules of the answer.
func FuzzRead(f *testing.F) {
	for _, s := range []string{girder, "", "@px.function(\n", "f'{a!r:{b}}'", "x = '''", "\\\n", "\x00", "def f(): (yield)", "ｅ = 1", "#\r\n@px.function(key='a')\r\ndef f(): pass"} {
		f.Add(s)
	}
	r := pythontest.Reader(f)
	f.Fuzz(func(t *testing.T, source string) {
		if _, err := r.Read(t.Context(), python.Request{Kind: python.FunctionKind, Source: source}); err != nil {
			t.Fatal(err)
		}
	})
}
