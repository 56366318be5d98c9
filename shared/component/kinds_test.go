package component

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
)

// results evaluates with typed values as JSON and writes the results the same way.
func results(t testing.TB, key, settings string, inputs map[string]string) string {
	t.Helper()
	c := get(t, key)
	contract, found := c.Derive(canon.Raw(settings), "/settings")
	if found.Refused() {
		return told(found)
	}
	in := map[string]quantity.Value{}
	for name, text := range inputs {
		v, found := contract.Inputs[name].Decode(canon.Raw(text), "")
		if found.Refused() {
			t.Fatalf("%s: %s", name, told(found))
		}
		in[name] = v
	}
	out, found := c.Evaluate(context.Background(), canon.Raw(settings), in)
	if found.Refused() {
		return told(found)
	}
	text := map[string]canon.Raw{}
	for name, v := range out {
		raw, err := contract.Results[name].Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		text[name] = raw
	}
	all, err := canon.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestConvert(t *testing.T) {
	const moment = `{"from":{"unit":"kip*ft","quantityKind":"moment"},"to":{"unit":"kN*m","quantityKind":"moment"}}`
	for _, c := range []struct{ name, settings, value, want string }{
		{"a moment", moment, `{"value":100,"unit":"kip*ft"}`, `{"value":{"unit":"kN*m","value":135.58179483314004}}`},
		{"a temperature", `{"from":{"unit":"degF"},"to":{"unit":"degC"}}`, `{"value":-40,"unit":"degF"}`, `{"value":{"unit":"degC","value":-40}}`},
		{"an array", `{"from":{"unit":"ft"},"to":{"unit":"in"},"shape":[null]}`, `{"value":[1,2],"unit":"ft"}`, `{"value":{"unit":"in","value":[12,24]}}`},
		{"a torque as a moment, on purpose", `{"from":{"unit":"N*m","quantityKind":"torque"},"to":{"unit":"N*m","quantityKind":"moment"}}`, `{"value":3,"unit":"N*m"}`, `{"value":{"unit":"N*m","value":3}}`},
		{"another dimension", `{"from":{"unit":"ft"},"to":{"unit":"s"}}`, ``, `PX_UNIT_MISMATCH /settings/to/unit dimension`},
		{"a temperature as a difference", `{"from":{"unit":"degF"},"to":{"unit":"delta_degC"}}`, ``, `PX_UNIT_MISMATCH /settings/to/unit temperature_is_not_a_difference`},
		{"two units that are none", `{"from":{"unit":"x"},"to":{"unit":"y"}}`, ``, `PX_UNIT_MISMATCH /settings/from/unit unknown_unit, PX_UNIT_MISMATCH /settings/to/unit unknown_unit`},
		{"a kind of another dimension", `{"from":{"unit":"ft","quantityKind":"moment"},"to":{"unit":"m"}}`, ``, `PX_UNIT_MISMATCH /settings/from/quantityKind unit_is_not_of_this_kind`},
		{"beyond binary64", `{"from":{"unit":"km"},"to":{"unit":"mm"}}`, `{"value":1e304,"unit":"km"}`, `PX_RUN_FAILED /settings/to/unit overflow`},
	} {
		if got := results(t, "px.convert", c.settings, map[string]string{"value": c.value}); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestEnvelope(t *testing.T) {
	for _, c := range []struct{ name, mode, a, b, c, want string }{
		{"the largest", "max", "1", "3", "2", `{"governing":{"value":"b"},"value":{"unit":"kN","value":3}}`},
		{"the smallest", "min", "1", "3", "-2", `{"governing":{"value":"c"},"value":{"unit":"kN","value":-2}}`},
		{"the largest magnitude keeps its sign", "absmax", "1", "-3", "2", `{"governing":{"value":"b"},"value":{"unit":"kN","value":-3}}`},
		{"the first of equals", "absmax", "1", "-3", "3", `{"governing":{"value":"b"},"value":{"unit":"kN","value":-3}}`},
		{"another mode", "sum", "1", "2", "3", `PX_SCHEMA_INVALID /settings/mode enum`},
	} {
		in := map[string]string{}
		for key, x := range map[string]string{"a": c.a, "b": c.b, "c": c.c} {
			in[key] = `{"value":` + x + `,"unit":"kN"}`
		}
		if got := results(t, "px.envelope", `{"mode":"`+c.mode+`","cases":["a","b","c"],"unit":"kN"}`, in); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	for settings, want := range map[string]string{
		`{"mode":"max","cases":[],"unit":"kN"}`:          `PX_SCHEMA_INVALID /settings/cases minItems`,
		`{"mode":"max","cases":["a","a"],"unit":"kN"}`:   `PX_SCHEMA_INVALID /settings/cases/1 duplicate`,
		`{"mode":"max","cases":["A/b"],"unit":"kN"}`:     `PX_SCHEMA_INVALID /settings/cases/0 pattern`,
		`{"mode":"absmax","cases":["a"],"unit":"degC"}`:  `PX_UNIT_MISMATCH /settings/unit temperature_with_zero`,
		`{"mode":"max","cases":["a"],"unit":"kN","x":1}`: `PX_SCHEMA_UNKNOWN_FIELD /settings/x`,
	} {
		if got := results(t, "px.envelope", settings, nil); got != want {
			t.Errorf("%s: %s", settings, got)
		}
	}
}

func TestSelect(t *testing.T) {
	const settings = `{"value":{"type":"number","unit":"kN"},"inputs":{"span":{"unit":"ft"}},"constants":{"limit":{"value":34,"unit":"ft"}},
		"choices":[{"choiceKey":"short","when":"span <= limit"},{"choiceKey":"middle","when":"span <= 2 * limit"}]%s}`
	choices := map[string]string{"short": `{"value":1,"unit":"kN"}`, "middle": `{"value":2,"unit":"kN"}`, "long": `{"value":3,"unit":"kN"}`}
	for span, want := range map[string]string{
		"34": `{"choice":{"value":"short"},"value":{"unit":"kN","value":1}}`, "35": `{"choice":{"value":"middle"},"value":{"unit":"kN","value":2}}`, "80": `{"choice":{"value":"long"},"value":{"unit":"kN","value":3}}`,
	} {
		choices["span"] = `{"value":` + span + `,"unit":"ft"}`
		if got := results(t, "px.select", fmt.Sprintf(settings, `,"otherwise":"long"`), choices); got != want {
			t.Errorf("span %s: %s", span, got)
		}
	}
	delete(choices, "long")
	choices["span"] = `{"value":80,"unit":"ft"}`
	if got := results(t, "px.select", fmt.Sprintf(settings, ``), choices); got != `PX_RUN_FAILED /settings/choices no_condition_holds` {
		t.Errorf("no choice: %s", got)
	}
	for settings, want := range map[string]string{
		`{"value":{"type":"string"},"choices":[]}`:                                                                                             `PX_SCHEMA_INVALID /settings/choices minItems`,
		`{"value":{"type":"string"},"choices":[{"choiceKey":"a","when":"1"}]}`:                                                                 `PX_TYPE_MISMATCH /settings/choices/0/when condition`,
		`{"value":{"type":"string"},"choices":[{"choiceKey":"a","when":"a == 1"}]}`:                                                            `PX_REFERENCE_UNKNOWN /settings/choices/0/when unknown_name`,
		`{"value":{"type":"string"},"choices":[{"choiceKey":"a","when":"true"},{"choiceKey":"a","when":"true"}],"otherwise":"a"}`:              `PX_SCHEMA_INVALID /settings/choices/1/choiceKey name_is_used_twice, PX_SCHEMA_INVALID /settings/otherwise name_is_used_twice`,
		`{"value":{"type":"string","default":{"value":"x"}},"choices":[{"choiceKey":"a","when":"true"}]}`:                                      `PX_SCHEMA_INVALID /settings/value/default not_for_a_choice`,
		`{"value":{"type":"number"},"inputs":{"x":{"unit":"m"}},"choices":[{"choiceKey":"a","when":"x > 1"},{"choiceKey":"x","when":"true"}]}`: `PX_SCHEMA_INVALID /settings/value/unit required, PX_UNIT_MISMATCH /settings/choices/0/when dimension, PX_SCHEMA_INVALID /settings/choices/1/choiceKey name_is_used_twice`,
	} {
		if got := results(t, "px.select", settings, nil); got != want {
			t.Errorf("%s:\n got %s\nwant %s", settings, got, want)
		}
	}
	table := `{"value":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m"}]},"inputs":{"steel":{"type":"enum","values":["a36","a992"]}},"choices":[{"choiceKey":"a","when":"steel == 'a36'"}],"otherwise":"b"}`
	a, b := `{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[[1]]}`, `{"columns":[{"columnKey":"x","type":"number","unit":"ft"}],"rows":[[10]]}`
	if got := results(t, "px.select", table, map[string]string{"a": a, "b": b, "steel": `{"value":"a992"}`}); got != `{"choice":{"value":"b"},"value":{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[[3.048]]}}` {
		t.Errorf("a table: %s", got)
	}
}

func TestLookup(t *testing.T) {
	const linear = `{"keyColumn":"span","method":"linear","outOfRange":"%s","resultColumns":["moment","shear"],"table":{"columns":[{"columnKey":"span","type":"number","unit":"ft"},
		{"columnKey":"moment","type":"number","unit":"kip*ft"},{"columnKey":"shear","type":"number","unit":"kip"}],"rows":[[40,450,50],[60,806,60],[80,1164,70]]}}`
	at := func(x, unit string) map[string]string {
		return map[string]string{"span": `{"value":` + x + `,"unit":"` + unit + `"}`}
	}
	answer := func(moment, shear string) string {
		return `{"moment":{"unit":"kip*ft","value":` + moment + `},"shear":{"unit":"kip","value":` + shear + `}}`
	}
	for _, c := range []struct{ name, policy, x, unit, want string }{
		{"a row, bit for bit", "error", "60", "ft", answer("806", "60")}, {"between rows", "error", "50", "ft", answer("628", "55")}, {"between rows, in metres", "error", "15.24", "m", answer("628", "55")},
		{"the first", "error", "40", "ft", answer("450", "50")}, {"the last", "error", "80", "ft", answer("1164", "70")},
		{"below", "error", "39", "ft", "PX_RUN_FAILED /inputBindings/span key_is_out_of_range"}, {"above", "error", "80.5", "ft", "PX_RUN_FAILED /inputBindings/span key_is_out_of_range"},
		{"below, clamped", "clamp", "3", "ft", answer("450", "50")}, {"above, clamped", "clamp", "800", "ft", answer("1164", "70")},
	} {
		if got := results(t, "px.lookup", fmt.Sprintf(linear, c.policy), at(c.x, c.unit)); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	const exact = `{"keyColumn":"section","method":"exact","outOfRange":"error","resultColumns":["s","stock"],"table":{"columns":[{"columnKey":"section","type":"string"},
		{"columnKey":"s","type":"number","unit":"in^3"},{"columnKey":"stock","type":"boolean"}],"rows":[["w36x150",504,true],["w33x130",406,false]]}}`
	if got := results(t, "px.lookup", exact, map[string]string{"section": `{"value":"w33x130"}`}); got != `{"s":{"unit":"in^3","value":406},"stock":{"value":false}}` {
		t.Errorf("exact: %s", got)
	}
	if got := results(t, "px.lookup", exact, map[string]string{"section": `{"value":"w44"}`}); got != `PX_RUN_FAILED /inputBindings/section key_is_not_in_the_table` {
		t.Errorf("no such key: %s", got)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a key twice":                     {`[60,806,60]`, `[40,806,60]`, `PX_SCHEMA_INVALID /settings/table/rows/1/0 duplicate`},
		"keys that do not ascend":         {`[60,806,60]`, `[90,806,60]`, `PX_SCHEMA_INVALID /settings/table/rows/2/0 keys_must_ascend`},
		"a cell of another type":          {`[60,806,60]`, `[60,"x",60]`, `PX_TYPE_MISMATCH /settings/table/rows/1/1`},
		"a short row":                     {`[60,806,60]`, `[60,806]`, `PX_SHAPE_MISMATCH /settings/table/rows/1`},
		"no such key column":              {`"keyColumn":"span"`, `"keyColumn":"sp"`, `PX_REFERENCE_UNKNOWN /settings/keyColumn table_has_no_such_column`},
		"no such result column":           {`["moment","shear"]`, `["moment","m"]`, `PX_REFERENCE_UNKNOWN /settings/resultColumns/1 table_has_no_such_column`},
		"a result twice":                  {`["moment","shear"]`, `["shear","shear"]`, `PX_SCHEMA_INVALID /settings/resultColumns/1 duplicate`},
		"another method":                  {`"linear"`, `"cubic"`, `PX_SCHEMA_INVALID /settings/method enum`},
		"exact that clamps":               {`"linear"`, `"exact"`, `PX_SCHEMA_INVALID /settings/outOfRange exact_takes_error_only`},
		"no policy":                       {`"outOfRange":"clamp",`, ``, `PX_SCHEMA_INVALID /settings/outOfRange required`},
		"one row":                         {`[60,806,60],[80,1164,70]`, ``, `PX_SCHEMA_INVALID /settings/table/rows/1 json`},
		"interpolation of text":           {`"shear","type":"number","unit":"kip"`, `"shear","type":"string"`, `PX_TYPE_MISMATCH /settings/resultColumns/1 linear_takes_numbers`},
		"a column of a unit that is none": {`"unit":"kip"}`, `"unit":"kp"}`, `PX_UNIT_MISMATCH /settings/table/columns/2/unit unknown_unit`},
	} {
		settings := strings.Replace(fmt.Sprintf(linear, "clamp"), c.from, c.to, 1)
		got := results(t, "px.lookup", settings, nil)
		if got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTableMap(t *testing.T) {
	const settings = `{"columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"m","type":"number","unit":"kip*ft"},{"columnKey":"name","type":"string"}],
		"inputs":{"s":{"unit":"in^3"},"fy":{"unit":"ksi"}},"constants":{"half":{"value":0.5,"unit":"1"}},
		"results":[{"columnKey":"stress","expression":"m / s","unit":"ksi"},{"columnKey":"m","expression":"m * half","unit":"kN*m"},{"columnKey":"ok","expression":"m / s <= fy and name != 'skip'","type":"boolean"}]}`
	table := func(rows string) map[string]string {
		return map[string]string{"s": `{"value":600,"unit":"in^3"}`, "fy": `{"value":36,"unit":"ksi"}`,
			"table": `{"columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"m","type":"number","unit":"kip*ft"},{"columnKey":"name","type":"string"}],"rows":` + rows + `}`}
	}
	const columns = `{"table":{"columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"m","type":"number","unit":"kN*m"},{"columnKey":"name","type":"string"},{"columnKey":"stress","type":"number","unit":"ksi"},{"columnKey":"ok","type":"boolean"}],"rows":`
	if got := results(t, "px.table_map", settings, table(`[[0,0,"a"],[10,1000,"b"],[20,2000,"skip"]]`)); got != columns+`[[0,0,"a",0,true],[10,677.9089741657001,"b",19.999999999999996,true],[20,1355.8179483314002,"skip",39.99999999999999,false]]}}` {
		t.Errorf("rows: %s", got)
	}
	if got := results(t, "px.table_map", settings, table(`[]`)); got != columns+`[]}}` {
		t.Errorf("no rows: %s", got)
	}
	in := table(`[[0,1,"a"],[0,0,"b"]]`)
	c := get(t, "px.table_map")
	bad := canon.Raw(strings.Replace(settings, `m / s"`, `s / m * half"`, 1))
	bad = canon.Raw(strings.Replace(string(bad), `"unit":"ksi"},{"columnKey":"m"`, `"unit":"in^2/kip"},{"columnKey":"m"`, 1))
	if got := results(t, "px.table_map", string(bad), in); got != `PX_RUN_FAILED /settings/results/0/expression division_by_zero` {
		t.Errorf("a division by zero in a row: %s", got)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"an expression over an added column": {`"m * half"`, `"stress * half"`, `PX_REFERENCE_UNKNOWN /settings/results/1/expression unknown_name`},
		"another dimension":                  {`"m * half"`, `"x * half"`, `PX_UNIT_MISMATCH /settings/results/1/expression dimension`},
		"a column twice":                     {`"columnKey":"ok"`, `"columnKey":"m"`, `PX_SCHEMA_INVALID /settings/results/2/columnKey duplicate`},
		"an input named as a column":         {`"s":{"unit"`, `"x":{"unit"`, `PX_SCHEMA_INVALID /settings/inputs/x name_is_used_twice, PX_REFERENCE_UNKNOWN /settings/results/0/expression unknown_name, PX_REFERENCE_UNKNOWN /settings/results/2/expression unknown_name`},
		"an input named table":               {`"s":{"unit"`, `"table":{"unit"`, `PX_SCHEMA_INVALID /settings/inputs/table name_is_used_twice, PX_REFERENCE_UNKNOWN /settings/results/0/expression unknown_name, PX_REFERENCE_UNKNOWN /settings/results/2/expression unknown_name`},
		"a column that may be null":          {`"type":"string"}]`, `"type":"string","nullable":true}]`, `PX_NULLABILITY_MISMATCH /settings/columns/2/nullable expressions_have_no_null`},
		"no results":                         {settings[strings.Index(settings, `"results":`):], `"results":[]}`, `PX_SCHEMA_INVALID /settings/results minItems`},
	} {
		if got := results(t, "px.table_map", strings.Replace(settings, c.from, c.to, 1), nil); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	const wide = `{"columns":[{"columnKey":"x","type":"integer"}],"results":[{"columnKey":"y","unit":"1","expression":"%s"}]}`
	many := quantity.Table{Columns: []quantity.Column{{ColumnKey: "x", Type: quantity.IntegerType}}, Rows: slices.Repeat([][]quantity.Value{{quantity.Integer(1)}}, 50_000)}
	if _, found := c.Evaluate(context.Background(), canon.Raw(fmt.Sprintf(wide, strings.Repeat("x + ", 300)+"x")), map[string]quantity.Value{"table": many}); told(found) != `PX_LIMIT_EXCEEDED /inputBindings/table` {
		t.Errorf("30 million operations: %s", told(found))
	}
	if out, found := c.Evaluate(context.Background(), canon.Raw(fmt.Sprintf(wide, "x + x")), map[string]quantity.Value{"table": many}); found != nil || len(out["table"].(quantity.Table).Rows) != 50_000 {
		t.Errorf("150,000 operations: %s", told(found))
	}
	contract, _ := c.Derive(canon.Raw(settings), "")
	v, _ := contract.Inputs["table"].Decode(canon.Raw(in["table"]), "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, found := c.Evaluate(ctx, canon.Raw(settings), map[string]quantity.Value{"table": v, "s": number(1, "in^3"), "fy": number(1, "ksi")}); told(found) != `PX_RUN_FAILED /settings/results cancelled` {
		t.Errorf("cancelled: %s", told(found))
	}
}

func TestAggregate(t *testing.T) {
	column := func(kind string) string {
		return `{"column":{"columnKey":"x",` + kind + `},"results":["sum","min","max","mean"]}`
	}
	table := func(kind, rows string) map[string]string {
		return map[string]string{"table": `{"columns":[{"columnKey":"x",` + kind + `}],"rows":` + rows + `}`}
	}
	const kip, integer = `"type":"number","unit":"kip"`, `"type":"integer"`
	for _, c := range []struct{ name, settings, kind, rows, want string }{
		{"numbers", column(kip), kip, `[[1],[2.5],[-3]]`, `{"max":{"unit":"kip","value":2.5},"mean":{"unit":"kip","value":0.16666666666666666},"min":{"unit":"kip","value":-3},"sum":{"unit":"kip","value":0.5}}`},
		{"integers", column(integer), integer, `[[1],[2]]`, `{"max":{"value":2},"mean":{"unit":"1","value":1.5},"min":{"value":1},"sum":{"value":3}}`},
		{"no digit is lost", column(kip), kip, `[[1e16],[1],[1],[-1e16]]`, `{"max":{"unit":"kip","value":10000000000000000},"mean":{"unit":"kip","value":0.5},"min":{"unit":"kip","value":-10000000000000000},"sum":{"unit":"kip","value":2}}`},
		{"no rows", column(kip), kip, `[]`, `PX_RUN_FAILED /settings/results/1 table_has_no_rows`},
		{"the sum of no rows", `{"column":{"columnKey":"x",` + kip + `},"results":["sum"]}`, kip, `[]`, `{"sum":{"unit":"kip","value":0}}`},
		{"too large", column(kip), kip, `[[1e308],[1e308]]`, `PX_RUN_FAILED /settings/results/0 overflow`},
		{"an integer too large", column(integer), integer, `[[9007199254740991],[1]]`, `PX_RUN_FAILED /settings/results/0 overflow`},
		{"a sum of temperatures", column(`"type":"number","unit":"degC"`), ``, ``, `PX_UNIT_MISMATCH /settings/results/0 temperature_with_zero`},
		{"a mean of temperatures", `{"column":{"columnKey":"x","type":"number","unit":"degC"},"results":["mean"]}`, `"type":"number","unit":"degC"`, `[[10],[20]]`, `{"mean":{"unit":"degC","value":15}}`},
		{"text", column(`"type":"string"`), ``, ``, `PX_TYPE_MISMATCH /settings/column/type aggregates_take_numbers`},
		{"another aggregate", `{"column":{"columnKey":"x",` + kip + `},"results":["median"]}`, ``, ``, `PX_SCHEMA_INVALID /settings/results/0 enum`},
		{"an aggregate twice", `{"column":{"columnKey":"x",` + kip + `},"results":["sum","sum"]}`, ``, ``, `PX_SCHEMA_INVALID /settings/results/1 duplicate`},
	} {
		in := table(c.kind, c.rows)
		if c.rows == "" {
			in = nil
		}
		if got := results(t, "px.aggregate", c.settings, in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestASumIsTheRoundedExactSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 200).Draw(t, "x")
		exact := new(big.Float).SetPrec(2000)
		for _, v := range x {
			exact.Add(exact, big.NewFloat(v))
		}
		want, _ := exact.Float64()
		if got := sum(x); math.Abs(got-want) > math.Nextafter(want, math.Inf(1))-want {
			t.Fatalf("%v, exactly %v", got, want)
		}
	})
}

// covers: K2, K3
func TestTheStoredStateAloneAdmits(t *testing.T) {
	good := Records()[0]
	if !Admitted(good) {
		t.Fatal("a built-in is not admitted")
	}
	for name, change := range map[string]func(r *Record){
		"an accepted unsigned install":        func(r *Record) { r.Signature, r.RevocationList = SignatureAbsent, RevocationNotChecked },
		"a project's signed install":          func(r *Record) { r.Scope = ProjectRecord },
		"no scope":                            func(r *Record) { r.Scope = "" },
		"a signature that is not valid":       func(r *Record) { r.Signature = SignatureInvalid },
		"a state in other letters":            func(r *Record) { r.Signature = "Valid" },
		"a revocation list not checked":       func(r *Record) { r.RevocationList = RevocationNotChecked },
		"a revocation list out of its window": func(r *Record) { r.RevocationList = RevocationExpired },
		"no component key":                    func(r *Record) { r.ComponentContract.ComponentKey = "" },
		"no input keys":                       func(r *Record) { r.ComponentContract.DeclaredInputKeys = nil },
		"no contribution fields":              func(r *Record) { r.ElementContributionFields = nil },
		"too many contribution fields":        func(r *Record) { r.ElementContributionFields = make([]string, MaxElementContributionFields+1) },
		"a contribution field twice":          func(r *Record) { r.ElementContributionFields = []string{"a", "a"} },
		"a contribution field that is no key": func(r *Record) { r.ElementContributionFields = []string{"a b"} },
		"too many input keys":                 func(r *Record) { r.ComponentContract.DeclaredInputKeys = make([]string, MaxDeclaredInputKeys+1) },
		"an input key that is no key":         func(r *Record) { r.ComponentContract.DeclaredInputKeys = []string{"A"} },
		"a component key with an empty part":  func(r *Record) { r.ComponentContract.ComponentKey = "px..formula" },
		"no contract version":                 func(r *Record) { r.ContractVersion = 0 },
		"no publisher":                        func(r *Record) { r.PackageRelease.Publisher = "" },
		"no package":                          func(r *Record) { r.PackageRelease.PackageKey = "" },
		"no version":                          func(r *Record) { r.PackageRelease.PackageVersion = "" },
		"no package digest":                   func(r *Record) { r.PackageRelease.PackageDigest = "" },
		"a release digest of another form":    func(r *Record) { r.PackageRelease.ReleaseByteDigest = "sha256:ABC" },
		"an empty record":                     func(r *Record) { *r = Record{} },
	} {
		r := good
		change(&r)
		if Admitted(r) {
			t.Errorf("%s is admitted", name)
		}
	}
}

// covers: K3
func TestAnythingButTheSignedDefinitionsIsNotAdmitted(t *testing.T) {
	release, err := CurrentRelease()
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(r Release) []byte {
		text, err := SignRelease(r, key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	admitted := func(text []byte) (keys []string) {
		for _, r := range verify(text) {
			if Admitted(r) {
				keys = append(keys, r.ComponentContract.ComponentKey)
			}
		}
		return keys
	}
	whole := sign(release)
	if got := admitted(whole); len(got) != len(definitions) {
		t.Fatalf("of a sound registry %v are admitted", got)
	}
	other := release
	other.Components = map[string]string{}
	for name, digest := range release.Components {
		other.Components[name] = digest
	}
	other.Components["px.select@1"] = release.Components["px.convert@1"]
	other.Revoked = []string{"px.formula@1"}
	if got := admitted(sign(other)); slices.Contains(got, "px.select") || slices.Contains(got, "px.formula") || len(got) != len(definitions)-2 {
		t.Errorf("a changed definition or a revoked one: %v", got)
	}
	for name, text := range map[string]string{
		"nothing": ``, "an empty object": `{}`, "a changed release": strings.Replace(string(whole), `"packageVersion":"1.0.0"`, `"packageVersion":"1.0.1"`, 1),
		"no key": strings.Replace(string(whole), `"publicKey":"`, `"publicKey":"AAAA`, 1), "no signature": strings.Replace(string(whole), `"signature":"`, `"signatur":"`, 1),
	} {
		if got := admitted([]byte(text)); got != nil {
			t.Errorf("%s admits %v", name, got)
		}
	}
}

func TestSettingsAreBoundedInBytes(t *testing.T) {
	_, found := get(t, "px.formula").Derive(canon.Raw(`{"results":{"a":{"expression":"`+strings.Repeat(" ", MaxSettings)+`1","unit":"1"}}}`), "/s")
	if len(found) != 1 || found[0].Code != outcome.LimitExceeded || found[0].Path != "/s" {
		t.Error(told(found))
	}
}
