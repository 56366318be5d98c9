package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
)

// decode returns the document of a text that must be in order.
func decode(t testing.TB, text string) Document {
	t.Helper()
	doc, findings := Decode([]byte(text))
	if len(findings) > 0 {
		t.Fatalf("decode: %s\n%s", show(findings), text)
	}
	return doc
}

func revision(t testing.TB, doc Document) string {
	t.Helper()
	_, ref, err := doc.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	text, err := canon.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// show writes findings as "CODE path", one each, in order.
func show(findings outcome.Findings) string {
	lines := make([]string, len(findings))
	for i, d := range findings {
		lines[i] = string(d.Code) + " " + d.Path
	}
	return strings.Join(lines, "\n")
}

// number is the contract of a number in a unit.
func number(unit string) quantity.Port {
	return quantity.Port{Type: quantity.NumberType, Unit: unit}
}

func nullable(p quantity.Port) quantity.Port {
	yes := true
	p.Nullable = &yes
	return p
}

// functions is a Project whose Functions have these contracts, by key. Version
// and digest must be 1 and "d".
type functions map[string]component.Contract

func (f functions) Functions(_ context.Context, refs []FunctionTarget) (map[FunctionTarget]component.Contract, error) {
	out := map[FunctionTarget]component.Contract{}
	for _, ref := range refs {
		if c, ok := f[ref.FunctionKey]; ok && ref.Version == 1 && ref.Digest == "d" {
			out[ref] = c
		}
	}
	return out, nil
}

// function is the target of a Function of functions.
func function(key string) FunctionTarget {
	return FunctionTarget{FunctionKey: key, Version: 1, Digest: "d"}
}

// library has a Function for each thing that a binding can get wrong.
var library = functions{
	"length":   {Inputs: map[string]quantity.Port{"a": number("m")}, Results: map[string]quantity.Port{"r": number("m")}},
	"two":      {Inputs: map[string]quantity.Port{"a": number("m"), "b": number("ft")}, Results: map[string]quantity.Port{"r": number("m"), "s": number("ft")}},
	"force":    {Inputs: map[string]quantity.Port{"a": number("kN")}, Results: map[string]quantity.Port{"r": number("kN")}},
	"count":    {Inputs: map[string]quantity.Port{"a": {Type: quantity.IntegerType}}, Results: map[string]quantity.Port{"r": {Type: quantity.IntegerType}}},
	"text":     {Inputs: map[string]quantity.Port{"a": {Type: quantity.StringType}}, Results: map[string]quantity.Port{"r": {Type: quantity.StringType}}},
	"vector":   {Inputs: map[string]quantity.Port{"a": {Type: quantity.NumberType, Unit: "m", Shape: quantity.ArrayShape(3)}}, Results: map[string]quantity.Port{"r": {Type: quantity.NumberType, Unit: "m", Shape: quantity.ArrayShape(3)}}},
	"perhaps":  {Inputs: map[string]quantity.Port{"a": nullable(number("m"))}, Results: map[string]quantity.Port{"r": nullable(number("m"))}},
	"defaults": {Inputs: map[string]quantity.Port{"a": {Type: quantity.NumberType, Unit: "m", Default: canon.Raw(`{"unit":"m","value":1}`)}}, Results: map[string]quantity.Port{"r": number("m")}},
}

// document builds the text of a native Flow.
func document(inputs, results, nodes string) string {
	return fmt.Sprintf(`{"format":"pxflow/1","flowKey":"sample","authoring":{"kind":"native"},"inputs":{%s},"results":{%s},"nodes":{%s}}`, inputs, results, nodes)
}

// node builds the text of a Node that runs a Function of library.
func node(key, function string, bindings ...string) string {
	return fmt.Sprintf(`%q:{"target":{"kind":"function","functionKey":%q,"version":1,"digest":"d"},"inputBindings":{%s}}`, key, function, strings.Join(bindings, ","))
}

// from builds the text of a binding to "node.port", or to a public input.
func from(port, source string) string {
	if node, result, ok := strings.Cut(source, "."); ok {
		return fmt.Sprintf(`%q:{"kind":"nodeResult","nodeKey":%q,"portKey":%q}`, port, node, result)
	}
	return fmt.Sprintf(`%q:{"kind":"flowInput","portKey":%q}`, port, source)
}

const lengthInput = `"span":{"type":"number","unit":"m"}`

// covers: F2, P3
func TestADocumentKeepsTheDigestItsAuthorComputed(t *testing.T) {
	for name, text := range map[string]string{
		"the example of the contract": `{"format": "pxflow/1", "flowKey": "girder_check", "label": {"en": "Girder check", "ko": "거더 검토"},
 "authoring": {"kind": "native"},
 "inputs":  {"span": {"type": "number", "unit": "m", "shape": "scalar", "nullable": false, "constraints": {"exclusiveMinimum": 0}}},
 "results": {"utilization": {"type": "number", "unit": "1", "shape": "scalar", "binding": {"kind": "nodeResult", "nodeKey": "resistance_check", "portKey": "utilization"}}},
 "nodes": {
   "moment": {"target": {"kind": "component", "componentKey": "px.formula", "version": 1},
              "settings": {"results": {"m": {"expression": "w * span ^ 2 / 8", "unit": "kN*m"}}, "inputs": {"w": {"unit": "kN/m"}, "span": {"unit": "m"}}},
              "inputBindings": {"span": {"kind": "flowInput", "portKey": "span"}, "w": {"kind": "flowInput", "portKey": "w"}}},
   "resistance_check": {"target": {"kind": "function", "functionKey": "resistance", "version": 3, "digest": "sha256:0000"},
              "inputBindings": {"moment": {"kind": "nodeResult", "nodeKey": "moment", "portKey": "m"}, "span": {"kind": "flowInput", "portKey": "span"}}}}}`,
		"nothing that may be left out": document(``, ``, ``),
		"everything empty that may be": `{"format":"pxflow/1","flowKey":"a","label":{},"authoring":{"kind":"native"},"inputs":{},"results":{"r":{"type":"boolean"}},
			"nodes":{"n":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{},"inputBindings":{},"label":{}}}}`,
		"explicit defaults": document(`"a":{"type":"number","unit":"1","shape":"scalar","nullable":false,"default":{"value":1.50,"unit":"1"}}`, ``, ``),
		"nested contracts":  document(`"a":{"type":"record","fields":{"f":{"type":"list","of":{"type":"number","unit":"m","nullable":true},"minItems":0}}},"b":{"type":"table","columns":[{"columnKey":"x","type":"integer"}]}`, ``, ``),
		"literals of all kinds": document(``, ``, node("n", "length", `"a":{"kind":"literal","value":{"value":[1e2,{"z":1,"a":null}],"unit":"ft"}}`)+
			`,"m":{"target":{"kind":"component","componentKey":"px.lookup","version":2},"settings":{"b":[1.0,-0.0,"\u0041"],"a":{"y":1,"x":123456789012345680000}}}`),
		"an SDK flow": `{"format":"pxflow/1","flowKey":"a","authoring":{"kind":"sdk","sourceDigest":"sha256:1"},"inputs":{},"results":{},"nodes":{}}`,
	} {
		want, err := canon.Canonicalize([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		canonical, ref, err := decode(t, text).RevisionRef()
		if err != nil || string(canonical) != string(want) || ref != canon.Digest(want) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, canonical, want)
		}
		if again := decode(t, string(canonical)).canonical(); encoded(t, again) != string(want) {
			t.Errorf("%s: changed by its second reading: %s", name, encoded(t, again))
		}
	}
}

// covers: P3
func TestTheDigestDoesNotDependOnTheOrderOfNames(t *testing.T) {
	a := `{"format":"pxflow/1","flowKey":"f","authoring":{"kind":"native"},"inputs":{"a":{"type":"number","unit":"m"},"b":{"unit":"ft","type":"number"}},"results":{},"nodes":{}}`
	b := `{"nodes":{},"results":{},"inputs":{"b":{"type":"number","unit":"ft"},"a":{"unit":"m","type":"number"}},"authoring":{"kind":"native"},"flowKey":"f","format":"pxflow/1"}`
	if x, y := revision(t, decode(t, a)), revision(t, decode(t, b)); x != y {
		t.Fatalf("%s and %s", x, y)
	}
}

// covers: F1, E2
func TestADocumentOfWrongFormIsRefusedWithEveryPath(t *testing.T) {
	key300 := strings.Repeat("k", 300)
	for name, c := range map[string]struct{ text, want string }{
		"another format":                    {`{"format":"pxflow/2","flowKey":"f","authoring":{"kind":"native"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_INVALID /format"},
		"missing members, all at once":      {`{"format":"pxflow/1","flowKey":"f"}`, "PX_SCHEMA_INVALID /authoring\nPX_SCHEMA_INVALID /inputs\nPX_SCHEMA_INVALID /results\nPX_SCHEMA_INVALID /nodes"},
		"an unknown member":                 {document(``, ``, ``)[:1] + `"x":1,` + document(``, ``, ``)[1:], "PX_SCHEMA_UNKNOWN_FIELD /x"},
		"a legacy field at depth":           {document(``, ``, `"n":{"nodeId":"x","target":{"kind":"component","componentKey":"px.formula","version":1}}`), "PX_SCHEMA_UNKNOWN_FIELD /nodes/n/nodeId"},
		"an unknown binding kind":           {document(``, ``, node("n", "length", `"a":{"kind":"secret"}`)), "PX_SCHEMA_INVALID /nodes/n/inputBindings/a/kind"},
		"a binding without a kind":          {document(``, ``, node("n", "length", `"a":{"portKey":"b"}`)), "PX_SCHEMA_INVALID /nodes/n/inputBindings/a/kind"},
		"a target of another kind":          {document(``, ``, `"n":{"target":{"kind":"python","functionKey":"f"}}`), "PX_SCHEMA_INVALID /nodes/n/target/kind"},
		"a node key with a slash":           {document(``, ``, node("a/b", "length")), "PX_SCHEMA_INVALID /nodes/a~1b"},
		"a node key that is an emoji":       {document(``, ``, node("🌉", "length")), "PX_SCHEMA_INVALID /nodes/🌉"},
		"a node key of 300 letters":         {document(``, ``, node(key300, "length")), "PX_SCHEMA_INVALID /nodes/" + key300[:128] + "…"},
		"a node key with NUL":               {document(``, ``, `"a\u0000b":{"target":{"kind":"component","componentKey":"px.formula","version":1}}`), "PX_SCHEMA_INVALID /nodes/a\x00b"},
		"a node key with a capital":         {document(``, ``, node("Moment", "length")), "PX_SCHEMA_INVALID /nodes/Moment"},
		"a port key with a slash":           {document(`"a/b":{"type":"boolean"}`, ``, ``), "PX_SCHEMA_INVALID /inputs/a~1b"},
		"a result key with a dot":           {document(``, `"a.b":{"type":"boolean"}`, ``), "PX_SCHEMA_INVALID /results/a.b"},
		"a bound port key with an emoji":    {document(``, ``, node("n", "length", from("a", "🌉"))), "PX_SCHEMA_INVALID /nodes/n/inputBindings/a/portKey"},
		"a result addressed by one path":    {document(``, `"r":{"type":"boolean","binding":{"kind":"flowInput","portKey":"nodes.check.utilization"}}`, ``), "PX_SCHEMA_UNSUPPORTED_VERSION /results/r/binding/portKey"},
		"a flow key with a space":           {`{"format":"pxflow/1","flowKey":"a b","authoring":{"kind":"native"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_INVALID /flowKey"},
		"a setting key with a slash":        {document(``, ``, `"n":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"a/b":1}}`), "PX_SCHEMA_INVALID /nodes/n/settings/a~1b"},
		"overflow in a literal":             {document(``, ``, node("n", "length", `"a":{"kind":"literal","value":{"value":1e400,"unit":"m"}}`)), "PX_SCHEMA_INVALID /nodes/n/inputBindings/a/value/value"},
		"an integer that would be rounded":  {document(``, ``, node("n", "count", `"a":{"kind":"literal","value":{"value":9007199254740993}}`)), "PX_SCHEMA_INVALID /nodes/n/inputBindings/a/value/value"},
		"overflow in a setting":             {document(``, ``, `"n":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"x":[1e400]}}`), "PX_SCHEMA_INVALID /nodes/n/settings/x/0"},
		"overflow is not all that is wrong": {document(`"A":{"type":"number","unit":"m","constraints":{"minimum":1e400}}`, ``, node("n", "length", `"a":{"kind":"literal","value":[1e400,9007199254740993]}`)), "PX_SCHEMA_INVALID /inputs/A\nPX_SCHEMA_INVALID /inputs/A/constraints/minimum\nPX_SCHEMA_INVALID /nodes/n/inputBindings/a/value/0\nPX_SCHEMA_INVALID /nodes/n/inputBindings/a/value/1"},
		"overflow in a constraint":          {document(`"a":{"type":"number","unit":"m","constraints":{"minimum":-1e400}}`, ``, ``), "PX_SCHEMA_INVALID /inputs/a/constraints/minimum"},
		"a version of zero":                 {document(``, ``, `"n":{"target":{"kind":"component","componentKey":"px.formula","version":0}}`), "PX_SCHEMA_INVALID /nodes/n/target/version"},
		"a source digest of a native flow":  {`{"format":"pxflow/1","flowKey":"f","authoring":{"kind":"native","sourceDigest":"sha256:1"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_UNKNOWN_FIELD /authoring/sourceDigest"},
		"an SDK flow without its source":    {`{"format":"pxflow/1","flowKey":"f","authoring":{"kind":"sdk"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_INVALID /authoring/sourceDigest"},
		"half a document":                   {`{"format":"pxflow/1",`, "PX_SCHEMA_INVALID "},
		"two documents":                     {document(``, ``, ``) + ` {}`, "PX_SCHEMA_INVALID "},
		"a name twice":                      {`{"format":"pxflow/1","format":"pxflow/1"}`, "PX_SCHEMA_INVALID /format"},
		"a language that is none":           {`{"format":"pxflow/1","flowKey":"f","label":{"not a language":"x"},"authoring":{"kind":"native"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_INVALID /label/not a language"},
	} {
		_, findings := Decode([]byte(c.text))
		if got := show(findings); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// covers: E3
func TestFindingsOfADocumentNeverRepeatItsValues(t *testing.T) {
	secret := "hunter2"
	_, findings := Decode([]byte(document(``, ``, node("n", "length", `"a":{"kind":"`+secret+`"}`)+`,"m":{"target":{"kind":"component","componentKey":"`+secret+` ","version":"`+secret+`"}}`)))
	if len(findings) < 3 {
		t.Fatalf("only %s", show(findings))
	}
	for _, d := range findings {
		if text := encoded(t, d); strings.Contains(text, secret) {
			t.Errorf("%s", text)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
