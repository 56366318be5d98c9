package batch_test

import (
	"fmt"
	"iter"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
)

func number(unit string) quantity.Port {
	return quantity.Port{Type: quantity.NumberType, Unit: unit}
}

func value(x float64, unit string) canon.Raw {
	text, err := canon.Encode(map[string]any{"value": x, "unit": unit})
	if err != nil {
		panic(err)
	}
	return text
}

var yes = true

// girder has ports of every sort that a merge tells apart.
func girder() batch.Connection {
	return batch.Connection{
		Inputs: map[string]quantity.Port{
			"span": number("ft"), "load": number("kip/ft"), "grade": {Type: quantity.StringType, Default: canon.Raw(`{"value":"A36"}`)},
			"note": {Type: quantity.StringType, Nullable: &yes}, "depth": number("in"),
			"points": {Type: quantity.NumberType, Unit: "m", Shape: quantity.ArrayShape(2), Nullable: &yes},
		},
		Results: map[string]quantity.Port{
			"moment": number("kip*ft"), "metric": number("kN*m"), "stress": number("ksi"), "count": {Type: quantity.IntegerType}, "ratio": number("1"),
			"passes": {Type: quantity.BooleanType}, "maybe": {Type: quantity.NumberType, Unit: "ksi", Nullable: &yes},
			"torque": {Type: quantity.NumberType, Unit: "kip*ft", QuantityKind: "torque"}, "work": {Type: quantity.NumberType, Unit: "kip*ft", QuantityKind: "energy"},
			"warm": number("degC"), "hot": number("degF"), "series": {Type: quantity.NumberType, Unit: "m", Shape: quantity.ArrayShape(3)},
			"depth":     number("in"),
			"lines":     {Type: quantity.TableType, Columns: []quantity.Column{{ColumnKey: "a", Type: quantity.StringType}}},
			"governing": number("1"),
		},
		Given:  map[string]canon.Raw{"load": value(1.2, "kip/ft"), "depth": value(36, "in")},
		Mapped: []string{"stress", "moment", "lines", "moment"},
	}
}

func spans(n int) []batch.Case {
	cases := make([]batch.Case, n)
	for i := range cases {
		cases[i] = batch.Case{CaseKey: fmt.Sprintf("span_%d", i), Inputs: map[string]canon.Raw{"span": value(float64(40+i), "ft")}}
	}
	return cases
}

func compile(cases []batch.Case, merge batch.Merge) (batch.Plan, outcome.Findings) {
	return batch.RunReportFlowBatch{ConnectionKey: "girder", Cases: cases, Merge: merge}.Compile(girder(), "/commands/0")
}

func told(findings outcome.Findings) []string {
	var out []string
	for _, d := range findings {
		out = append(out, string(d.Code)+" "+d.Path)
	}
	return out
}

// covers: R5
func TestWhatIsWrongWithCasesIsToldAtEachCase(t *testing.T) {
	with := func(edit func([]batch.Case)) []batch.Case {
		cases := spans(20)
		edit(cases)
		return cases
	}
	for _, c := range []struct {
		name  string
		cases []batch.Case
		want  []string
	}{
		{"twenty spans", spans(20), nil},
		{"the most there may be", spans(batch.MaxCases), nil},
		{"one more", spans(batch.MaxCases + 1), []string{"PX_LIMIT_EXCEEDED /commands/0/cases"}},
		{"none", nil, []string{"PX_LIMIT_EXCEEDED /commands/0/cases"}},
		{"a key twice, and three times", with(func(cs []batch.Case) { cs[3].CaseKey, cs[17].CaseKey = "span_0", "span_0" }),
			[]string{"PX_SCHEMA_INVALID /commands/0/cases/3/caseKey", "PX_SCHEMA_INVALID /commands/0/cases/17/caseKey"}},
		{"another dimension", with(func(cs []batch.Case) { cs[17].Inputs["span"] = value(1, "s") }), []string{"PX_UNIT_MISMATCH /commands/0/cases/17/inputs/span/unit"}},
		{"another unit of one dimension", with(func(cs []batch.Case) { cs[17].Inputs["span"] = value(12, "m") }), nil},
		{"a port that is none, and one that nothing feeds", with(func(cs []batch.Case) {
			cs[2].Inputs["spam"] = cs[2].Inputs["span"]
			delete(cs[2].Inputs, "span")
			cs[5].Inputs = nil
		}), []string{"PX_REFERENCE_UNKNOWN /commands/0/cases/2/inputs/spam", "PX_BINDING_MISSING /commands/0/cases/2/inputs", "PX_BINDING_MISSING /commands/0/cases/5/inputs"}},
		{"what the connection gives, set by one case", with(func(cs []batch.Case) { cs[1].Inputs["load"] = value(2, "kip/ft") }), nil},
		{"null where there is none", with(func(cs []batch.Case) { cs[0].Inputs["span"] = canon.Raw(`{"value":null}`) }), []string{"PX_NULLABILITY_MISMATCH /commands/0/cases/0/inputs/span"}},
	} {
		if _, findings := compile(c.cases, batch.None{}); !slices.Equal(told(findings), c.want) {
			t.Errorf("%s: got %v, want %v", c.name, told(findings), c.want)
		}
	}
	many := spans(2000)
	for i := range many {
		many[i].Inputs["span"] = canon.Raw(`{"value":true}`)
	}
	_, findings := compile(many, batch.None{})
	if last := findings[len(findings)-1]; len(findings) != schema.MaxFindings || last.Code != outcome.LimitExceeded || last.Params["observed"] != 4000 {
		t.Errorf("%d findings, the last %+v", len(findings), last)
	}
}

// covers: R5
func TestAMergeIsHeldAgainstThePortsWhenItIsPlanned(t *testing.T) {
	two := func(key string, port canon.Raw) []batch.Case {
		cases := spans(2)
		cases[1].Inputs[key] = port
		return cases
	}
	table := func(inputs, results []string) batch.Table { return batch.Table{Inputs: inputs, Results: results} }
	over := func(by batch.Extreme, keys ...string) batch.Envelope { return batch.Envelope{PortKeys: keys, By: by} }
	for _, c := range []struct {
		name    string
		cases   []batch.Case
		merge   batch.Merge
		columns string
		want    []string
	}{
		{"what is left out of a table", two("load", value(1, "kip/ft")), table(nil, nil), "load span moment stress", nil},
		{"no inputs and one result", spans(2), table([]string{}, []string{"passes"}), "passes", nil},
		{"in the order in which they are named", spans(2), table([]string{"span", "grade"}, []string{"stress", "count"}), "span grade stress count", nil},
		{"a default column that no cell holds is left out", two("points", canon.Raw(`{"value":[1,2],"unit":"m"}`)), table(nil, []string{"stress"}), "span stress", nil},
		{"ports that are none", spans(2), table([]string{"moment"}, []string{"span", "stress"}), "stress",
			[]string{"PX_REFERENCE_UNKNOWN /commands/0/merge/inputs/0", "PX_REFERENCE_UNKNOWN /commands/0/merge/results/0"}},
		{"what is no scalar", spans(2), table([]string{"points"}, []string{"series", "lines"}), "",
			[]string{"PX_SHAPE_MISMATCH /commands/0/merge/inputs/0", "PX_SHAPE_MISMATCH /commands/0/merge/results/0", "PX_TYPE_MISMATCH /commands/0/merge/results/1"}},
		{"a column twice, of one side and of both", spans(2), table([]string{"depth", "span", "span"}, []string{"depth"}), "depth span",
			[]string{"PX_SCHEMA_INVALID /commands/0/merge/inputs/2", "PX_SCHEMA_INVALID /commands/0/merge/results/0"}},
		{"an envelope over one", spans(2), over(batch.Max, "moment"), "", nil},
		{"over two units of one dimension", spans(2), over(batch.AbsMax, "moment", "metric"), "", nil},
		{"over numbers and integers without dimension", spans(2), over(batch.Min, "count", "ratio"), "", nil},
		{"over two dimensions", spans(2), over(batch.Max, "moment", "stress", "metric", "count"), "",
			[]string{"PX_UNIT_MISMATCH /commands/0/merge/portKeys/1", "PX_UNIT_MISMATCH /commands/0/merge/portKeys/3"}},
		{"over two kinds of one dimension", spans(2), over(batch.Max, "torque", "work"), "", []string{"PX_UNIT_MISMATCH /commands/0/merge/portKeys/1"}},
		{"over temperatures", spans(2), over(batch.Min, "warm", "hot"), "", nil},
		{"the magnitude of temperatures", spans(2), over(batch.AbsMax, "warm", "hot"), "",
			[]string{"PX_UNIT_MISMATCH /commands/0/merge/portKeys/0", "PX_UNIT_MISMATCH /commands/0/merge/portKeys/1"}},
		{"over what has no order, may be null, is no scalar, is none, comes twice", spans(2), over(batch.Max, "passes", "maybe", "series", "span", "stress", "stress"), "",
			[]string{"PX_TYPE_MISMATCH /commands/0/merge/portKeys/0", "PX_NULLABILITY_MISMATCH /commands/0/merge/portKeys/1", "PX_SHAPE_MISMATCH /commands/0/merge/portKeys/2",
				"PX_REFERENCE_UNKNOWN /commands/0/merge/portKeys/3", "PX_SCHEMA_INVALID /commands/0/merge/portKeys/5"}},
		{"no merge", spans(2), nil, "", []string{"PX_SCHEMA_INVALID /commands/0/merge"}},
	} {
		plan, findings := compile(c.cases, c.merge)
		var columns []string
		for _, column := range plan.Merge.Columns {
			columns = append(columns, column.ColumnKey)
		}
		if !slices.Equal(told(findings), c.want) || strings.Join(columns, " ") != c.columns {
			t.Errorf("%s: got %v with columns %v, want %v with %v", c.name, told(findings), columns, c.want, c.columns)
		}
	}
	named := girder()
	named.Mapped = []string{"governing"}
	if _, findings := (batch.RunReportFlowBatch{Cases: spans(1), Merge: over(batch.Max, "ratio")}).Compile(named, ""); !slices.Equal(told(findings), []string{"PX_SCHEMA_INVALID /merge"}) {
		t.Errorf("a mapped result that is called governing: %v", told(findings))
	}
}

func TestACommandComesThroughTheWireAsItIs(t *testing.T) {
	const text = `{"kind":"RunReportFlowBatch","connectionKey":"girder","cases":[{"caseKey":"a","inputs":{"span":{"unit":"ft","value":40}}}],"merge":{"kind":"table","results":["stress"]}}`
	var c batch.RunReportFlowBatch
	if findings := schema.Decode([]byte(text), &c); findings != nil {
		t.Fatal(findings)
	}
	back, err := canon.Encode(c)
	want, wrong := canon.Canonicalize([]byte(text))
	if err != nil || wrong != nil || string(back) != string(want) {
		t.Errorf("got %s, %v", back, err)
	}
	for _, bad := range []struct{ from, to, want string }{
		{`"caseKey":"a"`, `"caseKey":"A b"`, "PX_SCHEMA_INVALID /cases/0/caseKey"},
		{`"kind":"table"`, `"kind":"sum"`, "PX_SCHEMA_INVALID /merge/kind"},
		{`"results":["stress"]`, `"by":"max"`, "PX_SCHEMA_UNKNOWN_FIELD /merge/by"},
		{`{"kind":"table","results":["stress"]}`, `{"kind":"envelope","portKeys":["stress"],"by":"largest"}`, "PX_SCHEMA_INVALID /merge/by"},
		{`{"kind":"table","results":["stress"]}`, `{"kind":"envelope","portKeys":[],"by":"max"}`, "PX_SCHEMA_INVALID /merge/portKeys"},
	} {
		if findings := schema.Decode([]byte(strings.Replace(text, bad.from, bad.to, 1)), new(batch.RunReportFlowBatch)); !slices.Equal(told(findings), []string{bad.want}) {
			t.Errorf("%s: %v", bad.to, told(findings))
		}
	}
}

var runRef = regexp.MustCompile(`^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// covers: R6
func TestAChildIsNamedByItsBatchCaseAndAttempt(t *testing.T) {
	const batchRef = "batch_01K0000000000000000000000A"
	seen := map[string]string{}
	for _, b := range []string{batchRef, batchRef[:len(batchRef)-1] + "B", "batch_1", "batch_12"} {
		for _, key := range []string{"a", "a1", "1", "b", "span_40"} {
			for attempt := range 12 {
				ref, what := batch.ChildRunRef(b, key, attempt), fmt.Sprint(b, " ", key, " ", attempt)
				if !runRef.MatchString(ref) {
					t.Fatalf("%s is no runRef", ref)
				}
				if seen[ref] != "" {
					t.Errorf("%s and %s share a child", seen[ref], what)
				}
				seen[ref] = what
			}
		}
	}
	// It is part of the format: a child of a Batch that is under way keeps its name.
	if got := batch.ChildRunRef(batchRef, "span_40", 0); got != "run_1XJC63HXQH1AK4Q5937SYES6AF" {
		t.Errorf("got %s", got)
	}
}

// The exact SI value of units, known here and not asked of package quantity.
var metres = map[string]*big.Rat{"m": big.NewRat(1, 1), "mm": big.NewRat(1, 1000), "ft": big.NewRat(3048, 10000), "inch": big.NewRat(254, 10000), "km": big.NewRat(1000, 1)}

func pairs(list []batch.Ended) iter.Seq2[batch.Ended, error] {
	return func(yield func(batch.Ended, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// The governing case is that of an evaluator which calculates in rationals, knows no
// unit but its own table, and picks the first of equals: also where values are
// negative, equal in different units, or differ by the last bit.
//
// covers: R5
func TestAnEnvelopeAgreesWithAnEvaluatorOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOfN(rapid.SampledFrom([]string{"m", "mm", "ft", "inch", "km"}), 1, 4).Draw(t, "units")
		by := rapid.SampledFrom([]batch.Extreme{batch.Max, batch.Min, batch.AbsMax}).Draw(t, "by")
		c := batch.Connection{Results: map[string]quantity.Port{}}
		var keys []string
		for i, unit := range units {
			key := fmt.Sprintf("p%d", i)
			keys, c.Results[key] = append(keys, key), number(strings.Replace(unit, "inch", "in", 1))
		}
		plan, findings := batch.RunReportFlowBatch{Cases: []batch.Case{{CaseKey: "a"}}, Merge: batch.Envelope{PortKeys: keys, By: by}}.Compile(c, "")
		if findings != nil {
			t.Fatal(told(findings))
		}
		// Few different numbers, so that there are ties, in one unit and across units.
		draw := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, -1, 12, -12, 25.4, 1000, 0.3048, 304.8, 1.0000000000000002}), rapid.Float64Range(-1e6, 1e6))
		var cases []batch.Ended
		best, bestCase, bestPort := (*big.Rat)(nil), 0, 0
		for i := range rapid.IntRange(1, 40).Draw(t, "cases") {
			one := batch.Ended{CaseKey: fmt.Sprintf("c%d", i), Results: map[string]canon.Raw{}}
			for j, unit := range units {
				x := draw.Draw(t, "x")
				one.Results[keys[j]] = value(x, strings.Replace(unit, "inch", "in", 1))
				exact := new(big.Rat).SetFloat64(x)
				exact.Mul(exact, metres[unit])
				switch by {
				case batch.AbsMax:
					exact.Abs(exact)
				case batch.Min:
					exact.Neg(exact)
				}
				if best == nil || exact.Cmp(best) > 0 {
					best, bestCase, bestPort = exact, i, j
				}
			}
			cases = append(cases, one)
		}
		results, governing, err := plan.Merge.Merge(nil, pairs(cases))
		if err != nil {
			t.Fatal(err)
		}
		if governing.Index != bestCase || governing.CaseKey != cases[bestCase].CaseKey || governing.PortKey != keys[bestPort] {
			t.Fatalf("%s governs by %s, not %d by %d", governing.CaseKey, governing.PortKey, bestCase, bestPort)
		}
		var record struct {
			Value struct {
				CaseKey, PortKey struct{ Value string }
				Value            struct {
					Value float64
					Unit  string
				}
			}
		}
		if err := json.Unmarshal(results[batch.GoverningKey].Value, &record, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		got := new(big.Rat).SetFloat64(record.Value.Value.Value)
		exact := new(big.Rat).SetFloat64(governing.Value.Magnitude)
		exact.Mul(exact, metres[units[bestPort]]).Quo(exact, metres[units[0]])
		want, _ := exact.Float64()
		if record.Value.CaseKey.Value != governing.CaseKey || record.Value.PortKey.Value != governing.PortKey || got.Cmp(new(big.Rat).SetFloat64(want)) != 0 {
			t.Fatalf("told as %s, want %v %s", results[batch.GoverningKey].Value, want, units[0])
		}
	})
}

// Every cell of a table is the case's own, in the order of the cases.
//
// covers: R5
func TestATableHoldsEveryCaseOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := girder()
		n := rapid.IntRange(1, 60).Draw(t, "cases")
		cases := rapid.Permutation(spans(n)).Draw(t, "order")
		sets := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "load set")
		for i := range cases {
			if sets[i] {
				cases[i].Inputs["load"] = value(float64(i), "kip/ft")
			}
			if i%3 == 0 {
				cases[i].Inputs["note"] = canon.Raw(fmt.Sprintf(`{"value":"%d"}`, i))
			}
		}
		plan, findings := batch.RunReportFlowBatch{Cases: cases, Merge: batch.Table{Inputs: []string{"load", "grade", "note", "span"}, Results: []string{"stress", "passes"}}}.Compile(c, "")
		if findings != nil {
			t.Fatal(told(findings))
		}
		want := [][]any{}
		var ended []batch.Ended
		for i, one := range plan.Cases {
			stress := rapid.Float64Range(-1e9, 1e9).Draw(t, "stress") + 0 // -0 is stored as 0
			ended = append(ended, batch.Ended{CaseKey: one.CaseKey, Inputs: batch.Payload(c.Given, one.Inputs),
				Results: map[string]canon.Raw{"stress": value(stress, "ksi"), "passes": canon.Raw(fmt.Sprintf(`{"value":%v}`, i%2 == 0))}})
			load, note := 1.2, any(nil)
			if _, set := one.Inputs["load"]; set {
				var v struct{ Value float64 }
				if err := json.Unmarshal(one.Inputs["load"], &v, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(false)); err != nil {
					t.Fatal(err)
				}
				load = v.Value
			}
			if i%3 == 0 {
				note = fmt.Sprint(i)
			}
			var span float64
			fmt.Sscanf(cases[i].CaseKey, "span_%f", &span)
			want = append(want, []any{one.CaseKey, load, "A36", note, 40 + span, stress, i%2 == 0})
		}
		results, governing, err := plan.Merge.Merge(c.Inputs, pairs(ended))
		if err != nil || governing != nil {
			t.Fatal(governing, err)
		}
		var table struct {
			Columns []struct{ ColumnKey, Type, Unit string }
			Rows    [][]any
		}
		if err := json.Unmarshal(results[batch.TableKey].Value, &table, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.ColumnKey+":"+c.Type+":"+c.Unit)
		}
		if got := strings.Join(columns, " "); got != "caseKey:string: load:number:kip/ft grade:string: note:string: span:number:ft stress:number:ksi passes:boolean:" {
			t.Fatal(got)
		}
		if fmt.Sprint(table.Rows) != fmt.Sprint(want) {
			t.Fatalf("got  %v\nwant %v", table.Rows, want)
		}
		// What is stored can be read by its own contract.
		if _, found := results[batch.TableKey].Port.Decode(results[batch.TableKey].Value, ""); found.Refused() {
			t.Fatal(told(found))
		}
	})
}

func TestAMergeRefusesResultsThatAreNotWhatThePortsSay(t *testing.T) {
	for name, c := range map[string]struct {
		merge   batch.Merge
		results map[string]canon.Raw
	}{
		"a table without a result":    {batch.Table{Results: []string{"stress"}}, nil},
		"a table with another type":   {batch.Table{Results: []string{"stress"}}, map[string]canon.Raw{"stress": canon.Raw(`{"value":"a"}`)}},
		"an envelope without a value": {batch.Envelope{PortKeys: []string{"stress"}, By: batch.Max}, nil},
		"an envelope over null":       {batch.Envelope{PortKeys: []string{"stress"}, By: batch.Max}, map[string]canon.Raw{"stress": canon.Raw(`{"value":null}`)}},
	} {
		plan, findings := compile(spans(1), c.merge)
		if findings != nil {
			t.Fatal(told(findings))
		}
		if _, _, err := plan.Merge.Merge(girder().Inputs, pairs([]batch.Ended{{CaseKey: "a", Inputs: plan.Cases[0].Inputs, Results: c.results}})); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	plan, _ := compile(spans(1), batch.Envelope{PortKeys: []string{"stress"}, By: batch.Max})
	if _, _, err := plan.Merge.Merge(nil, pairs(nil)); err == nil {
		t.Error("an envelope over nothing")
	}
}

func FuzzRunReportFlowBatch(f *testing.F) {
	f.Add([]byte(`{"kind":"RunReportFlowBatch","connectionKey":"girder","cases":[{"caseKey":"a","inputs":{"span":{"unit":"ft","value":40}}}],"merge":{"kind":"table"}}`))
	f.Add([]byte(`{"kind":"RunReportFlowBatch","connectionKey":"girder","cases":[{"caseKey":"a","inputs":{}}],"merge":{"kind":"envelope","portKeys":["moment"],"by":"absMax"}}`))
	f.Add([]byte(`{"kind":"RunReportFlowBatch","connectionKey":"girder","cases":[],"merge":{"kind":"none"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c batch.RunReportFlowBatch
		if schema.Decode(text, &c).Refused() {
			return
		}
		plan, findings := c.Compile(girder(), "/commands/0")
		if findings.Refused() {
			return
		}
		if len(plan.Cases) != len(c.Cases) {
			t.Fatal("a case is lost")
		}
		one, err := c.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		first, err := canon.Encode(one)
		two, _ := one.Normalized()
		second, _ := canon.Encode(two)
		if err != nil || string(first) != string(second) {
			t.Fatalf("normalized twice: %s and %s, %v", first, second, err)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	cases := spans(batch.MaxCases)
	for b.Loop() {
		if _, findings := compile(cases, batch.Table{}); findings != nil {
			b.Fatal(findings)
		}
	}
}

func TestATableHasABoundOnItsCells(t *testing.T) {
	c := girder()
	var keys []string
	for i := range batch.MaxCells / batch.MaxCases {
		key := fmt.Sprintf("r%d", i)
		keys, c.Results[key] = append(keys, key), number("m")
	}
	for n, want := range map[int][]string{len(keys) - 1: nil, len(keys): {"PX_LIMIT_EXCEEDED /merge"}} {
		_, findings := batch.RunReportFlowBatch{Cases: spans(batch.MaxCases), Merge: batch.Table{Inputs: []string{}, Results: keys[:n]}}.Compile(c, "")
		if !slices.Equal(told(findings), want) {
			t.Errorf("%d columns: %v", n+1, told(findings))
		}
	}
}
