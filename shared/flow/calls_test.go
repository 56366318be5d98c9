package flow

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/quantity"
)

// begun validates a Flow and gives it inputs.
func begun(t testing.TB, doc Document, contracts Contracts, inputs map[string]canon.Raw) Calculation {
	t.Helper()
	analysis, findings, err := Validate(context.Background(), doc, contracts)
	if err != nil || findings.Refused() {
		t.Fatal(err, show(findings))
	}
	c, findings := Prepare(doc, analysis, inputs, "/inputs")
	if findings.Refused() {
		t.Fatal(show(findings))
	}
	return c
}

// covers: N2, U1
func TestAFunctionGetsEachValueInTheUnitThatItDeclares(t *testing.T) {
	table := quantity.Port{Type: quantity.TableType, Columns: []quantity.Column{{ColumnKey: "case", Type: quantity.StringType}, {ColumnKey: "x", Type: quantity.NumberType, Unit: "m"}}}
	record := quantity.Port{Type: quantity.RecordType, Fields: map[string]quantity.Port{"d": number("mm"), "ok": {Type: quantity.BooleanType}}}
	list := number("ft")
	contracts := functions{"all": {
		Inputs: map[string]quantity.Port{"a": number("ft"), "t": table, "s": record, "l": {Type: quantity.ListType, Of: &list}, "n": nullable(number("m")),
			"d": {Type: quantity.NumberType, Unit: "m", Default: canon.Raw(`{"unit":"in","value":10}`)}, "v": {Type: quantity.NumberType, Unit: "mm", Shape: quantity.ArrayShape(2)}},
		Results: map[string]quantity.Port{"r": number("ft")}}}
	doc := decode(t, document(lengthInput+`,"rows":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"case","type":"string"}]}`,
		result("out", `"type":"number","unit":"m"`, "python.r"), node("python", "all", from("a", "span"), from("t", "rows"),
			`"s":{"kind":"literal","value":{"value":{"d":{"value":1,"unit":"in"},"ok":{"value":true}}}}`, `"l":{"kind":"literal","value":{"value":[1,2],"unit":"yd"}}`,
			`"v":{"kind":"literal","value":{"value":[1,2],"unit":"m"}}`)))
	c := begun(t, doc, contracts, map[string]canon.Raw{"span": typed(3.048, "m"),
		"rows": canon.Raw(`{"columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"case","type":"string"}],"rows":[[10,"é"],[-0.0,"b"]]}`)})
	calls, findings, err := c.Calls(c.analysis.Stages[0], nil)
	if err != nil || len(findings) > 0 || len(calls) != 1 || calls[0].NodeKey != "python" || calls[0].Function != function("all") {
		t.Fatal(calls, show(findings), err)
	}
	const want = `{"a":10,"d":0.254,"l":[3,6],"n":null,"s":{"d":25.4,"ok":true},"t":[{"case":"é","x":3.048},{"case":"b","x":0}],"v":[1000,2000]}`
	if got := encoded(t, calls[0].Values); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	done, findings := c.Take(calls, map[string]Returned{"python": {Values: map[string]canon.Raw{"r": canon.Raw(`10`)}}})
	if len(findings) > 0 {
		t.Fatal(show(findings))
	}
	results, findings := c.Results(done)
	if len(findings) > 0 || magnitude(t, results["out"], "m") != 3.048 {
		t.Errorf("%v %s", results, show(findings))
	}
}

// covers: U1, E2, E3
func TestWhatAFunctionGivesIsHeldToItsContractAllAtOnce(t *testing.T) {
	maximum := 100.0
	contracts := functions{"two": {Results: map[string]quantity.Port{
		"r": {Type: quantity.NumberType, Unit: "m", Constraints: &quantity.Constraints{Maximum: &maximum}},
		"s": {Type: quantity.TableType, Columns: []quantity.Column{{ColumnKey: "x", Type: quantity.IntegerType}}}}}}
	doc := decode(t, document(``, ``, node("a", "two")+`,`+node("b", "two")))
	c := begun(t, doc, contracts, nil)
	calls, findings, err := c.Calls(c.analysis.Stages[0], nil)
	if err != nil || len(findings) > 0 || len(calls) != 2 {
		t.Fatal(calls, show(findings), err)
	}
	values := func(r, s string) Returned {
		out := Returned{Values: map[string]canon.Raw{}}
		for key, text := range map[string]string{"r": r, "s": s} {
			if text != "" {
				out.Values[key] = canon.Raw(text)
			}
		}
		return out
	}
	const failed = "\nPX_RUN_FAILED /nodes/a"
	for name, c2 := range map[string]struct {
		a      Returned
		want   string
		params string // of the last finding
	}{
		"in order":           {values(`1`, `[{"x":1}]`), "", ""},
		"everything broken":  {values(`101`, `[{"x":1.5},{"y":1}]`), "PX_CONSTRAINT_VIOLATED /nodes/a/results/r\nPX_TYPE_MISMATCH /nodes/a/results/s/0/x\nPX_SCHEMA_INVALID /nodes/a/results/s/1/x\nPX_SCHEMA_UNKNOWN_FIELD /nodes/a/results/s/1" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"a result missing":   {values(`1`, ``), "PX_SCHEMA_INVALID /nodes/a/results/s" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"a result too many":  {Returned{Values: map[string]canon.Raw{"r": canon.Raw(`1`), "s": canon.Raw(`[]`), "hunter2": canon.Raw(`1`)}}, "PX_SCHEMA_UNKNOWN_FIELD /nodes/a/results" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"no result at all":   {Returned{}, "PX_SCHEMA_INVALID /nodes/a/results/r\nPX_SCHEMA_INVALID /nodes/a/results/s" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"null":               {values(`null`, `null`), "PX_NULLABILITY_MISMATCH /nodes/a/results/r\nPX_NULLABILITY_MISMATCH /nodes/a/results/s" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"a unit":             {values(`{"value":1,"unit":"ft"}`, `[]`), "PX_TYPE_MISMATCH /nodes/a/results/r" + failed, `{"nodeKey":"a","reason":"values_refused"}`},
		"an exception":       {Returned{Failure: &Failure{Reason: "exception", Line: 12, Exception: "ZeroDivisionError"}}, failed[1:], `{"exception":"ZeroDivisionError","line":12,"nodeKey":"a","reason":"exception"}`},
		"a class of its own": {Returned{Failure: &Failure{Reason: "exception", Exception: "the password is hunter2"}}, failed[1:], `{"nodeKey":"a","reason":"exception"}`},
		"killed":             {Returned{Failure: &Failure{Reason: "killed"}}, failed[1:], `{"nodeKey":"a","reason":"killed"}`},
		"values and failure": {Returned{Values: map[string]canon.Raw{"r": canon.Raw(`1`), "s": canon.Raw(`[]`)}, Failure: &Failure{Reason: "timeout"}}, failed[1:], `{"nodeKey":"a","reason":"timeout"}`},
	} {
		done, findings := c.Take(calls, map[string]Returned{"a": c2.a, "b": values(`2`, `[]`)})
		if got := show(findings); got != c2.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c2.want)
		}
		if _, has := done["a"]; has != (c2.want == "") || done["b"] == nil {
			t.Errorf("%s: results %v", name, done)
		}
		if n := len(findings); n > 0 && encoded(t, findings[n-1].Params) != c2.params {
			t.Errorf("%s: params %s", name, encoded(t, findings[n-1].Params))
		}
		if strings.Contains(encoded(t, findings), "hunter2") {
			t.Errorf("%s: quotes what the Function chose", name)
		}
		for _, d := range findings {
			if d.Params["nodeKey"] != "a" {
				t.Errorf("%s: %s names no Node", name, d.Code)
			}
		}
	}
	if _, findings := c.Take(calls, map[string]Returned{"a": values(`1`, `[]`), "c": values(`1`, `[]`)}); show(findings) != "PX_RUN_FAILED /nodes/b" || findings[0].Params["reason"] != "result_missing" {
		t.Errorf("a call without an answer: %s", show(findings))
	}
}

// covers: E2
func TestANodeWhoseInputsBreakItsContractIsNotCalled(t *testing.T) {
	least := 5.0
	deep := number("m")
	deep.Constraints = &quantity.Constraints{Minimum: &least}
	contracts := functions{"deep": {Inputs: map[string]quantity.Port{"a": deep}, Results: map[string]quantity.Port{"r": number("m")}}, "length": library["length"],
		"files": {Inputs: map[string]quantity.Port{"a": number("m")}, Results: map[string]quantity.Port{"f": {Type: quantity.FileType}}}}
	doc := decode(t, document(`"span":{"type":"number","unit":"ft"}`, ``, node("deep", "deep", from("a", "span"))+`,`+node("fine", "length", from("a", "span"))+`,`+node("files", "files", from("a", "span"))))
	c := begun(t, doc, contracts, map[string]canon.Raw{"span": typed(10, "ft")})
	calls, findings, err := c.Calls(c.analysis.Stages[0], nil)
	if err != nil || len(calls) != 1 || calls[0].NodeKey != "fine" {
		t.Fatal(calls, err)
	}
	if got, want := show(findings), "PX_CONSTRAINT_VIOLATED /nodes/deep/inputBindings/a\nPX_RUN_FAILED /nodes/deep\nPX_TYPE_MISMATCH /nodes/files/results/f\nPX_RUN_FAILED /nodes/files"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestANodeThatNeedsAFailedOneIsNotCalledAndTellsNothing(t *testing.T) {
	doc := decode(t, document(lengthInput, ``, node("first", "length", from("a", "span"))+`,`+node("next", "length", from("a", "first.r"))))
	c := begun(t, doc, library, map[string]canon.Raw{"span": typed(1, "m")})
	if calls, findings, err := c.Calls(c.analysis.Stages[1], NodeResults{}); err != nil || len(calls) > 0 || len(findings) > 0 {
		t.Error(calls, show(findings), err)
	}
}

// lawFunctions are Functions that follow a law in units of their own. They calculate
// as the sandbox would, from plain numbers, in exact rationals.
type lawFunctions struct {
	contracts functions
	laws      map[string]law
}

func (f lawFunctions) call(t *rapid.T, call Call) Returned {
	l, contract := f.laws[call.Function.FunctionKey], call.Contract
	args := make([]*big.Rat, len(l.inputs))
	for k := range l.inputs {
		port := string(rune('a' + k))
		x, err := strconv.ParseFloat(string(call.Values[port]), 64)
		if err != nil {
			t.Fatalf("%s is no plain number", call.Values[port])
		}
		args[k] = rat().Mul(rat().SetFloat64(x), siFactor[contract.Inputs[port].Unit])
	}
	out, _ := rat().Quo(l.exact(args), siFactor[contract.Results["r"].Unit]).Float64()
	return Returned{Values: map[string]canon.Raw{"r": mustEncode(out)}}
}

// Between Components and Functions of mixed units no factor is lost, invented or
// applied twice: the independent evaluator says the same.
//
// covers: U1, F5
func TestRandomFlowsThroughTheSandboxAgreeWithExactRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type source struct {
			binding Binding
			exact   *big.Rat // in SI
		}
		sources := map[string][]source{}
		doc := Document{Format: Format, FlowKey: "random", Authoring: Authoring{Kind: Native}, Inputs: map[string]quantity.Port{}, Results: map[string]ResultPort{}, Nodes: map[string]Node{}}
		inputs := map[string]canon.Raw{}
		for _, dimension := range []string{"length", "area", "ratio"} {
			for k := range 2 {
				key := fmt.Sprint(dimension, k)
				doc.Inputs[key] = number(rapid.SampledFrom(unitsOf[dimension]).Draw(t, "port"))
				x, unit := rapid.Float64Range(0.5, 50).Draw(t, "value"), rapid.SampledFrom(unitsOf[dimension]).Draw(t, "unit")
				inputs[key] = typed(x, unit)
				sources[dimension] = append(sources[dimension], source{FlowInput{PortKey: key}, rat().Mul(rat().SetFloat64(x), siFactor[unit])})
			}
		}
		library := lawFunctions{functions{}, map[string]law{}}
		want := map[string]*big.Rat{}
		for i := range rapid.IntRange(1, 10).Draw(t, "nodes") {
			l := rapid.SampledFrom(laws).Draw(t, "law")
			key, ports, args := fmt.Sprintf("n%03d", (i*37)%101), map[string]any{}, make([]*big.Rat, len(l.inputs))
			contract := component.Contract{Inputs: map[string]quantity.Port{}, Results: map[string]quantity.Port{"r": number(rapid.SampledFrom(unitsOf[l.dimension]).Draw(t, "result unit"))}}
			n := Node{Target: ComponentTarget{ComponentKey: "px.formula", Version: 1}, InputBindings: map[string]Binding{}}
			for k, dimension := range l.inputs {
				port := string(rune('a' + k))
				s := rapid.SampledFrom(sources[dimension]).Draw(t, "source")
				contract.Inputs[port] = number(rapid.SampledFrom(unitsOf[dimension]).Draw(t, "input unit"))
				ports[port] = map[string]any{"unit": contract.Inputs[port].Unit}
				n.InputBindings[port], args[k] = s.binding, s.exact
			}
			if rapid.Bool().Draw(t, "python") {
				n.Target = function("f_" + key)
				library.contracts["f_"+key], library.laws["f_"+key] = contract, l
			} else {
				n.Settings = map[string]canon.Raw{"inputs": mustEncode(ports), "results": mustEncode(map[string]any{"r": map[string]any{"expression": l.expression, "unit": contract.Results["r"].Unit}})}
			}
			doc.Nodes[key] = n
			want[key] = l.exact(args)
			sources[l.dimension] = append(sources[l.dimension], source{NodeResult{NodeKey: key, PortKey: "r"}, want[key]})
			doc.Results[key] = ResultPort{Port: number(rapid.SampledFrom(unitsOf[l.dimension]).Draw(t, "public unit")), Binding: NodeResult{NodeKey: key, PortKey: "r"}}
		}
		analysis, findings, err := Validate(context.Background(), doc, library.contracts)
		if err != nil || findings.Refused() {
			t.Fatal(err, show(findings))
		}
		c, findings := Prepare(doc, analysis, inputs, "/inputs")
		if findings.Refused() {
			t.Fatal(show(findings))
		}
		have := NodeResults{}
		for _, stage := range analysis.Stages {
			var done NodeResults
			if stage.Kind == BuiltinStage {
				done, findings, err = c.Evaluate(context.Background(), stage, have)
			} else {
				var calls []Call
				if calls, findings, err = c.Calls(stage, have); err == nil && !findings.Refused() {
					returned := map[string]Returned{}
					for _, call := range calls {
						returned[call.NodeKey] = library.call(t, call)
					}
					done, findings = c.Take(calls, returned)
				}
			}
			if err != nil || findings.Refused() || len(done) != len(stage.NodeKeys) {
				t.Fatalf("%v, %s, %d of %d", err, show(findings), len(done), len(stage.NodeKeys))
			}
			for key, values := range done {
				have[key] = values
			}
		}
		results, findings := c.Results(have)
		if findings.Refused() || len(results) != len(want) {
			t.Fatalf("%d results, %s", len(results), show(findings))
		}
		for key, exact := range want {
			got := results[key].(quantity.Number)
			si := rat().Mul(rat().SetFloat64(got.Magnitude), siFactor[doc.Results[key].Unit])
			if off, _ := rat().Quo(rat().Sub(si, exact), exact).Float64(); math.Abs(off) > 1e-12 {
				t.Fatalf("%s is off by %g", key, off)
			}
		}
	})
}

func TestCallsOfAStageAreTheSameEachTime(t *testing.T) {
	doc := decode(t, document(lengthInput, ``, node("one", "length", from("a", "span"))+`,`+node("two", "two", from("a", "span"), from("b", "span"))))
	var first string
	for range 5 {
		c := begun(t, doc, library, map[string]canon.Raw{"span": typed(0.1, "m")})
		calls, _, err := c.Calls(c.analysis.Stages[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		now := encoded(t, calls)
		if first == "" {
			first = now
		}
		if now != first {
			t.Fatalf("%s\n%s", first, now)
		}
	}
}
