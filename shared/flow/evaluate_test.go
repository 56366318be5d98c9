package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
)

// sample is infra/sample/girder_check.pxflow.
func sample(t testing.TB) Document {
	t.Helper()
	text, err := os.ReadFile("../../infra/sample/girder_check.pxflow")
	if err != nil {
		t.Fatal(err)
	}
	doc, findings := Decode(text)
	if len(findings) > 0 {
		t.Fatalf("%s", show(findings))
	}
	return doc
}

// run evaluates a Flow of built-in Components from its inputs to its results.
func run(t testing.TB, doc Document, inputs map[string]canon.Raw) (map[string]quantity.Value, outcome.Findings) {
	t.Helper()
	analysis, findings := validate(t, doc)
	if findings.Refused() {
		t.Fatalf("not valid: %s", show(findings))
	}
	c, findings := Prepare(doc, analysis, inputs, "/inputs")
	if findings.Refused() {
		return nil, findings
	}
	have := NodeResults{}
	for _, stage := range analysis.Stages {
		// As between two Lambdas: what a stage gets was written and read.
		text, err := c.EncodeResults(have)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := c.DecodeResults(text)
		if err != nil {
			t.Fatal(err)
		}
		done, found, err := c.Evaluate(context.Background(), stage, stored)
		if err != nil {
			t.Fatal(err)
		}
		findings = append(findings, found...)
		for key, values := range done {
			if have[key] = values; values == nil {
				t.Fatalf("%s failed and has results", key)
			}
		}
	}
	results, found := c.Results(have)
	return results, append(findings, found...)
}

func typed(value float64, unit string) canon.Raw {
	return canon.Raw(fmt.Sprintf(`{"value":%s,"unit":%q}`, strconv.FormatFloat(value, 'g', -1, 64), unit))
}

func magnitude(t testing.TB, v quantity.Value, unit string) float64 {
	t.Helper()
	n, ok := v.(quantity.Number)
	if !ok {
		t.Fatalf("%v is no number", v)
	}
	if n.Unit.String() != unit {
		t.Fatalf("a number in %s, not in %s", n.Unit, unit)
	}
	return n.Magnitude
}

func apart(a, b float64) float64 { return math.Abs(a-b) / math.Max(math.Abs(a), math.Abs(b)) }

// covers: U1
func TestTheSampleGirderAgreesWithStaticsAndTheHandbook(t *testing.T) {
	handbook := map[float64]float64{40: 449.8, 60: 806.5, 70: 985.6, 80: 1164.9, 90: 1344.4}
	doc := sample(t)
	const deadLoad, impact, modulus, yield = 1.85, 0.25, 1280.5, 36.0
	for _, span := range []float64{34.0001, 35, 40, 52.5, 60, 70, 80, 90, 123.456, 300} {
		results, findings := run(t, doc, map[string]canon.Raw{"span": typed(span, "ft"), "dead_load": typed(deadLoad, "kip/ft"), "impact": typed(impact, "1"),
			"section_modulus": typed(modulus, "in^3"), "yield_stress": typed(yield, "ksi")})
		if len(findings) > 0 || len(results) != 5 {
			t.Fatalf("span %g: %s, %v", span, show(findings), results)
		}
		live := 72*(span/2-7.0/3)*(span/2-7.0/3)/span - 112
		dead := deadLoad * span * span / 8
		total := dead + live*(1+impact)
		stress := total * 12 / modulus
		for key, want := range map[string]struct {
			value float64
			unit  string
		}{"live_moment": {live, "kip*ft"}, "dead_moment": {dead, "kip*ft"}, "total_moment": {total, "kip*ft"}, "stress": {stress, "ksi"}, "utilization": {stress / yield, "1"}} {
			if got := magnitude(t, results[key], want.unit); apart(got, want.value) > 1e-12 {
				t.Errorf("span %g: %s is %.17g, statics say %.17g", span, key, got, want.value)
			}
		}
		if want, ok := handbook[span]; ok && math.Abs(magnitude(t, results["live_moment"], "kip*ft")-want) > 0.05+1e-9 {
			t.Errorf("span %g: %g, the handbook says %g", span, magnitude(t, results["live_moment"], "kip*ft"), want)
		}
		// The same bridge in SI: other inputs, the same ratio.
		const ft, in, lbf = 0.3048, 0.0254, 4.4482216152605
		si, findings := run(t, doc, map[string]canon.Raw{"span": typed(span*ft, "m"), "dead_load": typed(deadLoad*lbf/ft, "kN/m"), "impact": typed(impact, "1"),
			"section_modulus": typed(modulus*in*in*in*1e9, "mm^3"), "yield_stress": typed(yield*lbf/in/in/1000, "MPa")})
		if len(findings) > 0 {
			t.Fatalf("span %g in SI: %s", span, show(findings))
		}
		if a, b := magnitude(t, results["utilization"], "1"), magnitude(t, si["utilization"], "1"); apart(a, b) > 1e-12 {
			t.Errorf("span %g: utilization %.17g, from SI %.17g", span, a, b)
		}
	}
}

// covers: F5
func TestTheSampleIsCleanAndBilingual(t *testing.T) {
	doc := sample(t)
	analysis, findings := validate(t, doc)
	if len(findings) > 0 || len(analysis.Stages) != 1 || analysis.Stages[0].Kind != BuiltinStage || len(analysis.Stages[0].NodeKeys) != len(doc.Nodes) {
		t.Errorf("%s, stages %v", show(findings), analysis.Stages)
	}
	if doc.Label["en"] == "" || doc.Label["ko"] == "" {
		t.Errorf("label %v", doc.Label)
	}
	for key, n := range doc.Nodes {
		if n.Label["en"] == "" || n.Label["ko"] == "" {
			t.Errorf("label of %s: %v", key, n.Label)
		}
	}
	for key, n := range Describe(doc, analysis).Nodes {
		for port, in := range n.Inputs {
			if in.State != Connected {
				t.Errorf("%s.%s is %s", key, port, in.State)
			}
		}
	}
}

// covers: U1
func TestRunInputsAreCheckedAgainstThePublicPorts(t *testing.T) {
	good := map[string]string{"span": `{"value":70,"unit":"ft"}`, "dead_load": `{"value":1,"unit":"kip/ft"}`, "impact": `{"value":0.3,"unit":"1"}`, "section_modulus": `{"value":1000,"unit":"in^3"}`, "yield_stress": `{"value":36,"unit":"ksi"}`}
	doc := sample(t)
	doc.Inputs["count"] = quantity.Port{Type: quantity.IntegerType, Default: canon.Raw(`{"value":3}`)}
	doc.Inputs["note"] = nullable(quantity.Port{Type: quantity.StringType})
	analysis, findings := validate(t, doc)
	if len(findings) > 0 {
		t.Fatal(show(findings))
	}
	for name, c := range map[string]struct{ key, value, want string }{
		"all in order":                          {"span", good["span"], ""},
		"a minus zero":                          {"dead_load", `{"value":-0,"unit":"kip/ft"}`, ""},
		"an unknown port":                       {"width", `{"value":1}`, "PX_REFERENCE_UNKNOWN /inputs/width"},
		"an unknown port with a slash":          {"a/b", `{"value":1}`, "PX_REFERENCE_UNKNOWN /inputs/a~1b"},
		"a missing port":                        {"span", ``, "PX_BINDING_MISSING /inputs/span"},
		"force for a length":                    {"span", `{"value":70,"unit":"kN"}`, "PX_UNIT_MISMATCH /inputs/span/unit"},
		"no unit for a length":                  {"span", `{"value":70}`, "PX_UNIT_MISMATCH /inputs/span/unit"},
		"a unit that is none":                   {"span", `{"value":70,"unit":"furlong"}`, "PX_UNIT_MISMATCH /inputs/span/unit"},
		"text for a number":                     {"span", `{"value":"70","unit":"ft"}`, "PX_TYPE_MISMATCH /inputs/span/value"},
		"a bare number":                         {"span", `70`, "PX_TYPE_MISMATCH /inputs/span"},
		"null where it is not allowed":          {"span", `{"value":null}`, "PX_NULLABILITY_MISMATCH /inputs/span"},
		"a span the closed form does not cover": {"span", `{"value":34,"unit":"ft"}`, "PX_CONSTRAINT_VIOLATED /inputs/span/value"},
		"the same in meters":                    {"span", `{"value":10.3632,"unit":"m"}`, "PX_CONSTRAINT_VIOLATED /inputs/span/value"},
		"overflow":                              {"span", `{"value":1e400,"unit":"ft"}`, "PX_SCHEMA_INVALID /inputs/span/value"},
		"overflow by conversion":                {"span", `{"value":1e308,"unit":"km"}`, "PX_SCHEMA_INVALID /inputs/span/value"},
		"an integer that would be rounded":      {"count", `{"value":9007199254740993}`, "PX_SCHEMA_INVALID /inputs/count/value"},
		"a fraction for an integer":             {"count", `{"value":1.5}`, "PX_TYPE_MISMATCH /inputs/count/value"},
	} {
		values := map[string]canon.Raw{}
		for key, text := range good {
			values[key] = canon.Raw(text)
		}
		values[c.key] = canon.Raw(c.value)
		if c.value == "" {
			delete(values, c.key)
		}
		_, findings := Prepare(doc, analysis, values, "/inputs")
		if got := show(findings); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	_, findings = Prepare(doc, analysis, map[string]canon.Raw{"x": canon.Raw(`1`), "span": canon.Raw(`{"value":1,"unit":"ft"}`)}, "/cases/0/inputs")
	if got, want := show(findings), "PX_BINDING_MISSING /cases/0/inputs/dead_load\nPX_BINDING_MISSING /cases/0/inputs/impact\nPX_BINDING_MISSING /cases/0/inputs/section_modulus\n"+
		"PX_CONSTRAINT_VIOLATED /cases/0/inputs/span/value\nPX_REFERENCE_UNKNOWN /cases/0/inputs/x\nPX_BINDING_MISSING /cases/0/inputs/yield_stress"; got != want {
		t.Errorf("all at once:\n got %s\nwant %s", got, want)
	}
}

// formulaNode builds the text of a px.formula Node with one result "r".
func formulaNode(key, expression, unit, inputs string, bindings ...string) string {
	return fmt.Sprintf(`%q:{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"inputs":{%s},"results":{"r":{"expression":%q,"unit":%q}}},"inputBindings":{%s}}`,
		key, inputs, expression, unit, strings.Join(bindings, ","))
}

// covers: E2
func TestAFailedNodeStopsWhatNeedsItAndNothingElse(t *testing.T) {
	const a = `"a":{"unit":"1"}`
	doc := decode(t, document(`"x":{"type":"number","unit":"1"},"huge":{"type":"number","unit":"1"}`,
		result("good", `"type":"number","unit":"1"`, "fine.r")+`,`+result("bad", `"type":"number","unit":"1"`, "after.r")+`,`+
			`"narrow":{"type":"number","unit":"1","constraints":{"maximum":1},"binding":{"kind":"nodeResult","nodeKey":"fine","portKey":"r"}}`,
		formulaNode("divides", "1 / a", "1", a, from("a", "x"))+`,`+
			formulaNode("after", "a + 1", "1", a, from("a", "divides.r"))+`,`+
			formulaNode("overflows", "a * a", "1", a, from("a", "huge"))+`,`+
			formulaNode("narrow", "a", "1", `"a":{"unit":"1","constraints":{"maximum":1}}`, from("a", "fine.r"))+`,`+
			formulaNode("fine", "a + 2", "1", a, from("a", "x"))))
	results, findings := run(t, doc, map[string]canon.Raw{"x": typed(0, "1"), "huge": typed(1e200, "1")})
	want := map[string][]string{ // code and path, by the Node that is named
		"divides":   {"PX_RUN_FAILED /nodes/divides/settings/results/r/expression"},
		"overflows": {"PX_RUN_FAILED /nodes/overflows/settings/results/r/expression"},
		"narrow":    {"PX_CONSTRAINT_VIOLATED /nodes/narrow/inputBindings/a", "PX_RUN_FAILED /nodes/narrow"},
		"":          {"PX_CONSTRAINT_VIOLATED /results/narrow"},
	}
	got := map[string][]string{}
	for _, d := range findings {
		node, _ := d.Params["nodeKey"].(string)
		got[node] = append(got[node], string(d.Code)+" "+d.Path)
	}
	if encoded(t, got) != encoded(t, want) {
		t.Errorf("\n got %s\nwant %s", encoded(t, got), encoded(t, want))
	}
	if encoded(t, sorted(results)) != `["good"]` || magnitude(t, results["good"], "1") != 2 {
		t.Errorf("results %v", results)
	}
}

func TestAValueThatAnotherUnitCannotHoldStopsTheNode(t *testing.T) {
	doc := decode(t, document(`"x":{"type":"number","unit":"km"}`, result("near", `"type":"number","unit":"km"`, "far.r")+`,`+result("wide", `"type":"number","unit":"mm"`, "far.r"),
		formulaNode("far", "a", "km", `"a":{"unit":"km"}`, from("a", "x"))+`,`+formulaNode("small", "a", "mm", `"a":{"unit":"mm"}`, from("a", "far.r"))))
	results, findings := run(t, doc, map[string]canon.Raw{"x": typed(1e304, "km")})
	paths := []string{}
	for _, d := range findings {
		if d.Severity == outcome.Error {
			paths = append(paths, d.Path)
		}
	}
	if got, want := encoded(t, paths), `["/nodes/small/inputBindings/a","/nodes/small","/results/wide"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, inf := results["wide"]; inf || magnitude(t, results["near"], "km") != 1e304 {
		t.Errorf("results %v", results)
	}
}

func TestWhatTheSandboxGetsAndGivesFitsBetweenStages(t *testing.T) {
	const a = `"a":{"unit":"mm"}`
	doc := decode(t, document(lengthInput, result("out", `"type":"number","unit":"mm"`, "last.r"),
		formulaNode("first", "a", "mm", a, from("a", "span"))+`,`+node("python", "two", from("a", "first.r"), `"b":{"kind":"literal","value":{"value":12,"unit":"in"}}`)+`,`+
			node("other", "perhaps")+`,`+formulaNode("last", "a * 2", "mm", a, from("a", "python.s"))))
	analysis, findings := validate(t, doc)
	if findings.Refused() {
		t.Fatal(show(findings))
	}
	if got, want := encoded(t, analysis.Stages), `[{"kind":"builtin","nodeKeys":["first"]},{"kind":"sandbox","nodeKeys":["other","python"]},{"kind":"builtin","nodeKeys":["last"]}]`; got != want {
		t.Fatalf("stages %s", got)
	}
	c, findings := Prepare(doc, analysis, map[string]canon.Raw{"span": typed(2, "m")}, "/inputs")
	if len(findings) > 0 {
		t.Fatal(show(findings))
	}
	if _, ready, _ := c.Inputs("python", nil); ready {
		t.Error("a Function is ready before the Node that it needs")
	}
	have, found, err := c.Evaluate(t.Context(), analysis.Stages[0], nil)
	if err != nil || len(found) > 0 {
		t.Fatal(err, show(found))
	}
	inputs, ready, found := c.Inputs("python", have)
	if !ready || len(found) > 0 || magnitude(t, inputs["a"], "m") != 2 || magnitude(t, inputs["b"], "ft") != 1 {
		t.Errorf("ready %v, %v, %s", ready, inputs, show(found))
	}
	if inputs, ready, _ := c.Inputs("other", have); !ready || inputs["a"] != (quantity.Null{}) {
		t.Errorf("an input that is not bound and may be null is %v", inputs["a"])
	}
	have["python"] = map[string]quantity.Value{"r": quantity.Number{Magnitude: 1, Unit: quantity.MustParseUnit("m")}, "s": quantity.Number{Magnitude: 3, Unit: quantity.MustParseUnit("ft")}}
	had := sorted(have)
	last, found, err := c.Evaluate(t.Context(), analysis.Stages[2], have)
	if now := sorted(have); len(now) != len(had) {
		t.Errorf("the results of earlier stages were changed from %v to %v", had, now)
	}
	if err != nil || len(found) > 0 || len(last) != 1 {
		t.Fatal(err, show(found), last)
	}
	have["last"] = last["last"]
	results, found := c.Results(have)
	if len(found) > 0 || magnitude(t, results["out"], "mm") != 1828.8 {
		t.Errorf("%v, %s", results, show(found))
	}
}

func TestStoredResultsOfAnotherDocumentAreRefused(t *testing.T) {
	doc := sample(t)
	analysis, _ := validate(t, doc)
	c := Calculation{doc: doc, analysis: analysis}
	for name, text := range map[string]string{
		"a node that is not there": `{"gone":{"r":{"value":1}}}`,
		"a port that is not there": `{"stress":{"r":{"value":1,"unit":"ksi"}}}`,
		"a port too few":           `{"stress":{}}`,
		"a value of another unit":  `{"stress":{"s":{"value":1,"unit":"ft"}}}`,
		"half of it":               `{"stress":{"s":{"value":1,`,
	} {
		if _, err := c.DecodeResults(canon.Raw(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestEvaluationStopsWhenItsContextDoes(t *testing.T) {
	doc := sample(t)
	analysis, _ := validate(t, doc)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := (Calculation{doc: doc, analysis: analysis}).Evaluate(ctx, analysis.Stages[0], nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
}

// The independent evaluator: exact rationals, units by a table of its own, no
// use of the packages under test.
var siFactor = map[string]*big.Rat{
	"m": big.NewRat(1, 1), "ft": big.NewRat(3048, 10000), "in": big.NewRat(254, 10000), "mm": big.NewRat(1, 1000), "km": big.NewRat(1000, 1),
	"m^2": big.NewRat(1, 1), "ft^2": big.NewRat(3048*3048, 10000*10000), "in^2": big.NewRat(254*254, 10000*10000), "mm^2": big.NewRat(1, 1000000),
	"1": big.NewRat(1, 1),
}

var unitsOf = map[string][]string{"length": {"m", "ft", "in", "mm", "km"}, "area": {"m^2", "ft^2", "in^2", "mm^2"}, "ratio": {"1"}}

// A law is a formula over inputs of known dimensions, and the same in rationals.
// None subtracts, so that rounding cannot be magnified.
type law struct {
	expression string
	inputs     []string // dimension of a, b, c
	dimension  string
	exact      func(v []*big.Rat) *big.Rat
}

func rat() *big.Rat { return new(big.Rat) }

var laws = []law{
	{"a + b", []string{"length", "length"}, "length", func(v []*big.Rat) *big.Rat { return rat().Add(v[0], v[1]) }},
	{"(a + b) * c / 2", []string{"length", "length", "ratio"}, "length", func(v []*big.Rat) *big.Rat {
		return rat().Mul(rat().Mul(rat().Add(v[0], v[1]), v[2]), big.NewRat(1, 2))
	}},
	{"a / b", []string{"area", "length"}, "length", func(v []*big.Rat) *big.Rat { return rat().Quo(v[0], v[1]) }},
	{"a * b", []string{"length", "length"}, "area", func(v []*big.Rat) *big.Rat { return rat().Mul(v[0], v[1]) }},
	{"a ^ 2 + b", []string{"length", "area"}, "area", func(v []*big.Rat) *big.Rat { return rat().Add(rat().Mul(v[0], v[0]), v[1]) }},
	{"a / b", []string{"length", "length"}, "ratio", func(v []*big.Rat) *big.Rat { return rat().Quo(v[0], v[1]) }},
	{"a / (b + a)", []string{"area", "area"}, "ratio", func(v []*big.Rat) *big.Rat { return rat().Quo(v[0], rat().Add(v[1], v[0])) }},
	{"max(a, b)", []string{"length", "length"}, "length", func(v []*big.Rat) *big.Rat {
		if v[0].Cmp(v[1]) > 0 {
			return v[0]
		}
		return v[1]
	}},
}

// covers: U1, F5
func TestRandomFlowsWithMixedUnitsAgreeWithExactRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type source struct {
			binding Binding
			exact   *big.Rat // in SI
		}
		sources := map[string][]source{}
		doc := Document{Format: Format, FlowKey: "random", Authoring: Authoring{Kind: Native}, Inputs: map[string]quantity.Port{}, Results: map[string]ResultPort{}, Nodes: map[string]Node{}}
		inputs := map[string]canon.Raw{}
		value := func(dimension string) (canon.Raw, *big.Rat) {
			x := rapid.Float64Range(0.5, 50).Draw(t, "value")
			unit := rapid.SampledFrom(unitsOf[dimension]).Draw(t, "unit")
			return typed(x, unit), rat().Mul(rat().SetFloat64(x), siFactor[unit])
		}
		for _, dimension := range []string{"length", "area", "ratio"} {
			for k := range 2 {
				key := fmt.Sprint(dimension, k)
				doc.Inputs[key] = number(rapid.SampledFrom(unitsOf[dimension]).Draw(t, "port"))
				raw, exact := value(dimension)
				inputs[key] = raw
				sources[dimension] = append(sources[dimension], source{FlowInput{PortKey: key}, exact})
			}
			raw, exact := value(dimension)
			sources[dimension] = append(sources[dimension], source{Literal{Value: canonicalRaw(raw)}, exact})
		}
		want := map[string]*big.Rat{}
		nodes := rapid.IntRange(1, 14).Draw(t, "nodes")
		for i := range nodes {
			l := rapid.SampledFrom(laws).Draw(t, "law")
			// Keys are shuffled against the order of dependency.
			key := fmt.Sprintf("n%03d", (i*37)%101)
			n := Node{Target: ComponentTarget{ComponentKey: "px.formula", Version: 1}, InputBindings: map[string]Binding{}}
			ports := map[string]any{}
			args := make([]*big.Rat, len(l.inputs))
			for k, dimension := range l.inputs {
				port := string(rune('a' + k))
				s := rapid.SampledFrom(sources[dimension]).Draw(t, "source")
				ports[port] = map[string]any{"unit": rapid.SampledFrom(unitsOf[dimension]).Draw(t, "input unit")}
				n.InputBindings[port], args[k] = s.binding, s.exact
			}
			unit := rapid.SampledFrom(unitsOf[l.dimension]).Draw(t, "result unit")
			n.Settings = map[string]canon.Raw{"inputs": mustEncode(ports), "results": mustEncode(map[string]any{"r": map[string]any{"expression": l.expression, "unit": unit}})}
			doc.Nodes[key] = n
			exact := l.exact(args)
			sources[l.dimension] = append(sources[l.dimension], source{NodeResult{NodeKey: key, PortKey: "r"}, exact})
			out := rapid.SampledFrom(unitsOf[l.dimension]).Draw(t, "public unit")
			doc.Results[key] = ResultPort{Port: number(out), Binding: NodeResult{NodeKey: key, PortKey: "r"}}
			want[key] = exact
		}
		analysis, findings, err := Validate(context.Background(), doc, NoFunctions{})
		if err != nil || findings.Refused() || len(analysis.Stages) != 1 {
			t.Fatalf("%v, %s, stages %v", err, show(findings), analysis.Stages)
		}
		c, findings := Prepare(doc, analysis, inputs, "/inputs")
		if findings.Refused() {
			t.Fatal(show(findings))
		}
		have, findings, err := c.Evaluate(context.Background(), analysis.Stages[0], nil)
		if err != nil || findings.Refused() {
			t.Fatalf("%v, %s", err, show(findings))
		}
		results, findings := c.Results(have)
		if findings.Refused() || len(results) != nodes {
			t.Fatalf("%d results, %s", len(results), show(findings))
		}
		for key, exact := range want {
			got := results[key].(quantity.Number)
			si := rat().Mul(rat().SetFloat64(got.Magnitude), siFactor[doc.Results[key].Unit])
			off, _ := rat().Quo(rat().Sub(si, exact), exact).Float64()
			if math.Abs(off) > 1e-12 {
				t.Fatalf("%s is off by %g", key, off)
			}
		}
	})
}

func mustEncode(v any) canon.Raw {
	text, err := canon.Encode(v)
	if err != nil {
		panic(err)
	}
	return text
}

// valueOf makes a value that a port takes.
func valueOf(t testing.TB, p quantity.Port) canon.Raw {
	t.Helper()
	switch p.Type {
	case quantity.NumberType:
		return typed(45, p.Unit)
	case quantity.IntegerType:
		return canon.Raw(`{"value":3}`)
	case quantity.BooleanType:
		return canon.Raw(`{"value":true}`)
	case quantity.StringType:
		return canon.Raw(`{"value":"text"}`)
	case quantity.EnumType:
		return mustEncode(map[string]any{"value": p.Values[0]})
	case quantity.TableType:
		row := make([]any, len(p.Columns))
		for i, c := range p.Columns {
			switch c.Type {
			case quantity.NumberType, quantity.IntegerType:
				row[i] = i + 2
			case quantity.EnumType:
				row[i] = c.Values[0]
			default:
				row[i] = "text"
			}
		}
		return mustEncode(map[string]any{"columns": p.Columns, "rows": [][]any{row, row, row}})
	default:
		t.Fatalf("no value of type %s", p.Type)
		return nil
	}
}

// covers: U1
func TestEveryComponentRunsInsideAFlow(t *testing.T) {
	for _, component := range component.All() {
		var settings Settings
		if err := json.Unmarshal(component.Example(), &settings); err != nil {
			t.Fatal(err)
		}
		contract, findings := component.Derive(component.Example(), "")
		if len(findings) > 0 {
			t.Fatalf("%s: %s", component.Key(), show(findings))
		}
		doc := Document{Format: Format, FlowKey: "f", Authoring: Authoring{Kind: Native}, Inputs: contract.Inputs, Results: map[string]ResultPort{}, Nodes: map[string]Node{}}
		n := Node{Target: ComponentTarget{ComponentKey: component.Key(), Version: component.Version()}, Settings: settings, InputBindings: map[string]Binding{}}
		inputs := map[string]canon.Raw{}
		for key, port := range contract.Inputs {
			n.InputBindings[key] = FlowInput{PortKey: key}
			inputs[key] = valueOf(t, port)
		}
		if component.Key() == "px.formula" { // its example asks for a factor
			inputs["impact"] = typed(0.25, "1")
		}
		for key, port := range contract.Results {
			doc.Results[key] = ResultPort{Port: port, Binding: NodeResult{NodeKey: "n", PortKey: key}}
		}
		doc.Nodes["n"] = n
		doc = decode(t, encoded(t, doc)) // as it is stored
		analysis, findings := validate(t, doc)
		if len(findings) > 0 {
			t.Fatalf("%s: %s", component.Key(), show(findings))
		}
		c, findings := Prepare(doc, analysis, inputs, "/inputs")
		if len(findings) > 0 {
			t.Fatalf("%s: inputs: %s", component.Key(), show(findings))
		}
		have, findings, err := c.Evaluate(t.Context(), analysis.Stages[0], nil)
		if err != nil || len(findings) > 0 {
			t.Fatalf("%s: %v, %s", component.Key(), err, encoded(t, findings))
		}
		text, err := c.EncodeResults(have)
		if err != nil {
			t.Fatalf("%s: %v", component.Key(), err)
		}
		stored, err := c.DecodeResults(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", component.Key(), err, text)
		}
		results, findings := c.Results(stored)
		if len(findings) > 0 || len(results) != len(contract.Results) || len(results) == 0 {
			t.Fatalf("%s: %d results, %s", component.Key(), len(results), show(findings))
		}
		for key, value := range results {
			if !quantity.Equal(value, have["n"][key]) {
				t.Errorf("%s: %s was %v and is %v", component.Key(), key, have["n"][key], value)
			}
		}
	}
}
