package component

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
)

// told lists code, path and reason of findings.
func told(found outcome.Findings) string {
	var out []string
	for _, d := range found {
		why := d.Params["reason"]
		if d.Code == outcome.SchemaInvalid {
			why = d.Params["rule"]
		}
		text := string(d.Code) + " " + d.Path
		if why != nil {
			text += " " + fmt.Sprint(why)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// one is px.formula with one result over inputs of many units.
func one(expression, unit string) canon.Raw {
	kind := `"unit":"` + unit + `"`
	if unit == "boolean" {
		kind = `"type":"boolean"`
	}
	text, _ := json.Marshal(expression)
	return canon.Raw(`{"constants":{"g":{"value":9.80665,"unit":"m/s^2"}},"inputs":{"l":{"unit":"ft"},"b":{"unit":"mm"},"f":{"unit":"kip"},"n":{"type":"integer"},"x":{"unit":"1"},
		"angle":{"unit":"deg"},"ok":{"type":"boolean"},"steel":{"type":"enum","values":["a36","a992"]},"t":{"unit":"degC"},"t2":{"unit":"degF"},"dt":{"unit":"delta_degC"},"k":{"unit":"K"}},
		"results":{"r":{"expression":` + string(text) + `,` + kind + `}}}`)
}

var oneInputs = map[string]quantity.Value{
	"l": number(10, "ft"), "b": number(50, "mm"), "f": number(2, "kip"), "n": quantity.Integer(3), "x": number(0.5, "1"), "angle": number(30, "deg"),
	"ok": quantity.Boolean(true), "steel": quantity.Text("a36"), "t": number(20, "degC"), "t2": number(50, "degF"), "dt": number(5, "delta_degC"), "k": number(300, "K"),
}

func TestFormulasGiveTheirValueInTheirUnit(t *testing.T) {
	for _, c := range []struct {
		expression, unit string
		want             any
	}{
		{"l + b", "m", 3.098}, {"l - b", "ft", 10 - 0.05/0.3048}, {"l * b", "m^2", 0.1524}, {"l / b", "1", 60.96}, {"f * l", "kip*ft", 20.0}, {"f * l", "J", 20 * 1355.8179483314004},
		{"f / b ^ 2", "MPa", 2 * 4448.2216152605 / 2500}, {"f / b**2", "ksi", 2 / (50 / 25.4) / (50 / 25.4)}, {"sqrt(l * l)", "ft", 10.0}, {"(l^3)^(1/3)", "ft", 10.0},
		{"l ^ 0.5 * l ^ 1.5", "ft^2", 100.0}, {"l ^ -1", "1/ft", 0.1}, {"(l*b*b)^(2/3) / l ^ 2", "1", math.Cbrt(math.Pow(3.048*0.05*0.05, 2)) / 3.048 / 3.048},
		{"abs(-l)", "ft", 10.0}, {"min(l, b)", "mm", 50.0}, {"max(l, b, l*2)", "ft", 20.0}, {"sin(angle)", "1", 0.5}, {"cos(angle)^2 + sin(angle)^2", "1", 1.0}, {"atan2(l, l)", "deg", 45.0},
		{"acos(x)", "deg", 60.0}, {"exp(log(x))", "1", 0.5}, {"log10(1000)", "1", 3.0}, {"floor(2.7) + ceil(2.2) + round(2.5) + round(-2.5)", "1", 5.0 - 0.0},
		{"2 ^ 10", "1", 1024.0}, {"2 ^ n ^ 2", "1", 512.0}, {"-2 ^ 2", "1", -4.0}, {"x ^ x", "1", math.Sqrt(0.5)}, {"7 / 2", "1", 3.5}, {"n / 2", "1", 1.5}, {"pi * x", "1", math.Pi / 2}, {"1e3 + .5", "1", 1000.5},
		{"l > b ? f : f * 2", "kip", 2.0}, {"l < b ? f : f * 2", "kip", 4.0}, {"steel == 'a36' ? 36 : 50", "1", 36.0}, {"steel == 'a // b | ((' or steel == \"/*'\" or steel == `|\\` ? 1 : 2", "1", 2.0}, {"ok ? 1 : 0", "1", 1.0},
		{"x > 1 ? 1 / (x - 0.5) : x", "1", 0.5}, // what is not taken is not calculated
		{"l >= b and not (l == b)", "boolean", true}, {"l < b or steel != 'a36'", "boolean", false}, {"ok == (1 < 2)", "boolean", true}, {"0 < x < 1", "boolean", true}, {"!ok || ok && l <= l", "boolean", true},
		{"x != 0.5 and 1 / (x - 0.5) > 1", "boolean", false}, // nor the right of and
		{"f / g", "kg", 2 * 4448.2216152605 / 9.80665},
		{"t", "degF", 68.0}, {"t - t2", "delta_degC", 10.0}, {"t + dt", "degC", 25.0}, {"t2 + dt / 2", "degC", 12.5}, {"dt + dt", "delta_degF", 18.0}, {"t * 1", "K", 293.15}, {"max(t, t2)", "degC", 20.0}, {"t > k", "boolean", false}, {"t + k / 100", "degC", 23.0}, {"k - dt", "degC", 300 - 5 - 273.15},
	} {
		out, found := get(t, "px.formula").Evaluate(context.Background(), one(c.expression, c.unit), oneInputs)
		if found != nil {
			t.Errorf("%s: %s", c.expression, told(found))
			continue
		}
		switch want := c.want.(type) {
		case bool:
			if out["r"] != quantity.Boolean(want) {
				t.Errorf("%s is %v", c.expression, out["r"])
			}
		case float64:
			if got := out["r"].(quantity.Number); math.Abs(got.Magnitude-want) > 2e-15*math.Abs(want) || got.Unit.String() != c.unit {
				t.Errorf("%s is %v %s, not %v %s", c.expression, got.Magnitude, got.Unit, want, c.unit)
			}
		}
	}
}

// covers: F5
func TestFormulasThatMakeNoSenseAreRefusedWithTheirReason(t *testing.T) {
	const at = " /s/results/r/expression "
	for _, c := range []struct{ expression, unit, want string }{
		{"l + f", "ft", "PX_UNIT_MISMATCH" + at + "dimension"}, {"l + 1", "ft", "PX_UNIT_MISMATCH" + at + "dimension"}, {"l < f", "boolean", "PX_UNIT_MISMATCH" + at + "dimension"},
		{"l * f", "ft", "PX_UNIT_MISMATCH" + at + "dimension"}, {"ok ? l : f", "ft", "PX_UNIT_MISMATCH" + at + "branches"}, {"max(l, f)", "ft", "PX_UNIT_MISMATCH" + at + "dimension"},
		{"l ^ x", "ft", "PX_UNIT_MISMATCH" + at + "exponent_of_a_unit_must_be_a_small_constant_rational"}, {"l ^ 65", "ft", "PX_UNIT_MISMATCH" + at + "exponent_of_a_unit_must_be_a_small_constant_rational"},
		{"x ^ l", "1", "PX_UNIT_MISMATCH" + at + "must_be_dimensionless"}, {"sin(l)", "1", "PX_UNIT_MISMATCH" + at + "must_be_dimensionless"}, {"floor(l)", "ft", "PX_UNIT_MISMATCH" + at + "must_be_dimensionless"}, {"exp(f)", "1", "PX_UNIT_MISMATCH" + at + "must_be_dimensionless"},
		{"ok + 1", "1", "PX_TYPE_MISMATCH" + at + "operand"}, {"not x", "boolean", "PX_TYPE_MISMATCH" + at + "operand"}, {"x and ok", "boolean", "PX_TYPE_MISMATCH" + at + "operand"}, {"x ? 1 : 2", "1", "PX_TYPE_MISMATCH" + at + "operand"},
		{"steel == 1", "boolean", "PX_TYPE_MISMATCH" + at + "operand"}, {"steel + steel", "1", "PX_TYPE_MISMATCH" + at + "operand, PX_TYPE_MISMATCH" + at + "operand"}, {"steel", "1", "PX_TYPE_MISMATCH" + at + "result"}, {"x", "boolean", "PX_TYPE_MISMATCH" + at + "result"}, {"ok", "1", "PX_TYPE_MISMATCH" + at + "result"},
		{"ok ? 1 : ok", "1", "PX_TYPE_MISMATCH" + at + "branches"},
		{"y + z", "1", "PX_REFERENCE_UNKNOWN" + at + "unknown_name, PX_REFERENCE_UNKNOWN" + at + "unknown_name"}, {"len(steel)", "1", "PX_REFERENCE_UNKNOWN" + at + "unknown_function"}, {"sum([1,2])", "1", "PX_REFERENCE_UNKNOWN" + at + "unknown_function"},
		{"now()", "1", "PX_REFERENCE_UNKNOWN" + at + "unknown_function"}, {"map([1], # * 2)", "1", "PX_REFERENCE_UNKNOWN" + at + "unknown_function"},
		{"sin()", "1", "PX_SCHEMA_INVALID" + at + "arguments"}, {"sqrt(1, 2)", "1", "PX_SCHEMA_INVALID" + at + "arguments"},
		{"7 % 2", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"x ?? 1", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"let q = 1; q", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"1; 2", "1", "PX_SCHEMA_INVALID" + at + "not_supported"},
		{"[1, 2]", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"{a: 1}", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"x.y", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"steel[0]", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"nil", "1", "PX_SCHEMA_INVALID" + at + "not_supported"},
		{"steel matches '.*'", "boolean", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"x in 1..3", "boolean", "PX_SCHEMA_INVALID" + at + "not_supported"},
		// Python's quotient would be a comment of the library, which calculates x.
		{"x // 2", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"x /* 2 */ + 1", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"x + 1 // 2", "1", "PX_SCHEMA_INVALID" + at + "not_supported"},
		{"1 + x|abs()", "1", "PX_SCHEMA_INVALID" + at + "not_supported"}, {"'\\'' == \"//\" ? 1 : 1 // 2", "1", "PX_SCHEMA_INVALID" + at + "not_supported"},
		{"9007199254740993", "1", "PX_SCHEMA_INVALID" + at + "range"}, {"1e400", "1", "PX_SCHEMA_INVALID" + at + "syntax"}, {"x +", "1", "PX_SCHEMA_INVALID" + at + "syntax"}, {"(x", "1", "PX_SCHEMA_INVALID" + at + "syntax"}, {"x y", "1", "PX_SCHEMA_INVALID" + at + "syntax"},
		{"'" + strings.Repeat(")", 65) + "' == '' ? " + strings.Repeat("(", 65) + "x" + strings.Repeat(")", 65) + " : 1", "1", "PX_LIMIT_EXCEEDED" + at[:len(at)-1]},
		{"x\x00", "1", "PX_SCHEMA_INVALID" + at + "syntax"}, {"'a", "1", "PX_SCHEMA_INVALID" + at + "syntax"}, {"", "1", "PX_SCHEMA_INVALID" + at + "minLength"},
		{strings.Repeat("x+", 4999) + "x", "1", "PX_LIMIT_EXCEEDED" + at[:len(at)-1]}, {strings.Repeat("(x<", 60) + "x<x" + strings.Repeat("<x)", 60), "boolean", "PX_LIMIT_EXCEEDED" + at[:len(at)-1]}, {strings.Repeat("(", 65) + "x" + strings.Repeat(")", 65), "1", "PX_LIMIT_EXCEEDED" + at[:len(at)-1]}, {strings.Repeat("-", 20000) + "x", "1", "PX_LIMIT_EXCEEDED" + at[:len(at)-1]},
		{"t + t2", "degC", "PX_UNIT_MISMATCH" + at + "temperature_with_zero"}, {"-t", "degC", "PX_UNIT_MISMATCH" + at + "temperature_with_zero"}, {"t - t2", "degC", "PX_UNIT_MISMATCH" + at + "temperature_is_not_a_difference"}, {"dt", "degF", "PX_UNIT_MISMATCH" + at + "temperature_is_not_a_difference"},
		{"dt - t", "K", "PX_UNIT_MISMATCH" + at + "temperature_with_zero"}, {"t - k", "K", "PX_UNIT_MISMATCH" + at + "temperature_or_difference_is_not_told"}, {"k - t", "degC", "PX_UNIT_MISMATCH" + at + "temperature_or_difference_is_not_told"}, {"t > dt", "boolean", "PX_UNIT_MISMATCH" + at + "temperature_is_not_a_difference"}, {"x", "kNm", "PX_UNIT_MISMATCH /s/results/r/unit unknown_unit"},
	} {
		_, found := get(t, "px.formula").Derive(one(c.expression, c.unit), "/s")
		if got := told(found); got != c.want {
			t.Errorf("%.40q in %s:\n got %s\nwant %s", c.expression, c.unit, got, c.want)
		}
	}
}

func TestTheTenThousandNodeFormulaIsToldItsSize(t *testing.T) {
	_, found := get(t, "px.formula").Derive(one(strings.Repeat("x+", 4999)+"x", "1"), "")
	if len(found) != 1 || found[0].Params["limit"] != MaxNodes || found[0].Params["observed"] != 9999 {
		t.Errorf("%+v", found)
	}
}

func TestACalculationWithoutAFiniteResultFailsAndShowsNoValue(t *testing.T) {
	for _, c := range []struct{ expression, unit, reason string }{
		{"1 / (x - 0.5)", "1", DivisionByZero}, {"1 / (1 / (x - 0.5))", "1", DivisionByZero}, {"(x - 0.5) ^ -2", "1", DivisionByZero}, {"(x - 0.5) ^ (x - 1)", "1", DivisionByZero}, {"0 / 0", "1", DivisionByZero},
		{"l / (l - l)", "1", DivisionByZero}, {"sqrt(-x)", "1", OutOfDomain}, {"log(0)", "1", OutOfDomain}, {"log10(-x)", "1", OutOfDomain}, {"asin(2)", "1", OutOfDomain}, {"acos(-2)", "1", OutOfDomain}, {"(-x) ^ x", "1", OutOfDomain}, {"atan2(0, 0)", "1", OutOfDomain},
		{"exp(1000)", "1", Overflow}, {"1e200 * 1e200", "1", Overflow}, {"1e308 + 1e308", "1", Overflow}, {"10 ^ 400", "1", Overflow}, {"1e200 ^ 2", "1", Overflow}, {"min(1, 1 / (x - 0.5))", "1", DivisionByZero},
	} {
		out, found := get(t, "px.formula").Evaluate(context.Background(), one(c.expression, c.unit), oneInputs)
		if out != nil || told(found) != "PX_RUN_FAILED /settings/results/r/expression "+c.reason {
			t.Errorf("%s: %v, %s", c.expression, out, told(found))
		}
		if len(found) == 1 && (found[0].Params["resultKey"] != "r" || found[0].Params["offset"] == nil) {
			t.Errorf("%s: params %v", c.expression, found[0].Params)
		}
	}
}

func TestAResultBeyondBinary64InItsUnitFails(t *testing.T) {
	_, found := get(t, "px.formula").Evaluate(context.Background(), one("l * 1e306", "mm"), oneInputs)
	if told(found) != "PX_RUN_FAILED /settings/results/r/unit overflow" {
		t.Error(told(found))
	}
}

func TestFormulaSettingsAreCheckedWhole(t *testing.T) {
	for _, c := range []struct{ name, settings, want string }{
		{"nothing", ``, "PX_SCHEMA_INVALID /s required"},
		{"no object", `[]`, "PX_SCHEMA_INVALID /s type"},
		{"no results", `{"results":{}}`, "PX_SCHEMA_INVALID /s/results minItems"},
		{"an unknown field, deep", `{"results":{"a":{"expression":"1","unit":"1","units":"1"}}}`, "PX_SCHEMA_UNKNOWN_FIELD /s/results/a/units"},
		{"a number without unit", `{"results":{"a":{"expression":"1"}}}`, "PX_SCHEMA_INVALID /s/results/a/unit required"},
		{"a name twice", `{"inputs":{"a":{"unit":"m"}},"constants":{"a":{"value":1,"unit":"m"}},"results":{"b":{"expression":"a","unit":"m"}}}`, "PX_SCHEMA_INVALID /s/constants/a name_is_used_twice"},
		{"a reserved name", `{"inputs":{"pi":{"unit":"1"},"sin":{"unit":"1"}},"results":{"b":{"expression":"1","unit":"1"}}}`, "PX_SCHEMA_INVALID /s/inputs/pi reserved_name, PX_SCHEMA_INVALID /s/inputs/sin reserved_name"},
		{"a table input", `{"inputs":{"a":{"type":"table"}},"results":{"b":{"expression":"1","unit":"1"}}}`, "PX_SCHEMA_INVALID /s/inputs/a/type enum"},
		{"a bad input that is used is told once", `{"inputs":{"a":{"unit":"kNm"}},"results":{"b":{"expression":"a + 1","unit":"1"}}}`, "PX_UNIT_MISMATCH /s/inputs/a/unit unknown_unit"},
		{"two results that use each other", `{"results":{"a":{"expression":"b","unit":"1"},"b":{"expression":"a","unit":"1"},"c":{"expression":"a","unit":"1"}}}`, "PX_BINDING_CYCLE /s/results"},
		{"a result that uses itself", `{"results":{"a":{"expression":"a + 1","unit":"1"}}}`, "PX_BINDING_CYCLE /s/results"},
		{"a bad result that is used is told once", `{"results":{"a":{"expression":"q","unit":"1"},"b":{"expression":"a + 1","unit":"1"}}}`, "PX_REFERENCE_UNKNOWN /s/results/a/expression unknown_name"},
		{"a constant beyond binary64", `{"constants":{"c":{"value":1e400,"unit":"m"}},"results":{"a":{"expression":"1","unit":"1"}}}`, "PX_SCHEMA_INVALID /s/constants/c/value range"},
	} {
		_, found := get(t, "px.formula").Derive(canon.Raw(c.settings), "/s")
		if got := told(found); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestInputsAreCheckedAgainstTheContract(t *testing.T) {
	settings := canon.Raw(`{"inputs":{"a":{"unit":"m","constraints":{"minimum":0}},"b":{"unit":"1","default":{"value":2}}},"results":{"r":{"expression":"a * b","unit":"m","constraints":{"maximum":10}}}}`)
	for _, c := range []struct {
		name string
		in   map[string]quantity.Value
		want string
	}{
		{"the default", map[string]quantity.Value{"a": number(3, "m")}, ""},
		{"a missing one", nil, "PX_BINDING_MISSING /inputBindings/a"},
		{"one too many", map[string]quantity.Value{"a": number(3, "m"), "c": number(3, "m")}, "PX_REFERENCE_UNKNOWN /inputBindings/c no_such_input"},
		{"another unit", map[string]quantity.Value{"a": number(3, "ft")}, "PX_UNIT_MISMATCH /inputBindings/a/value"},
		{"another type", map[string]quantity.Value{"a": quantity.Text("x")}, "PX_TYPE_MISMATCH /inputBindings/a/value"},
		{"out of bounds", map[string]quantity.Value{"a": number(-3, "m")}, "PX_CONSTRAINT_VIOLATED /inputBindings/a/value"},
		{"a result out of bounds", map[string]quantity.Value{"a": number(6, "m")}, "PX_CONSTRAINT_VIOLATED /settings/results/r"},
	} {
		_, found := get(t, "px.formula").Evaluate(context.Background(), settings, c.in)
		if got := told(found); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// reference evaluates a drawn expression by its own rules: floats in coherent SI
// and a plain exponent vector, written without looking at the compiler.
type reference struct {
	text string
	x    float64
	dim  [3]float64 // m, kg, s
}

var referenceUnits = map[string]struct {
	si  float64
	dim [3]float64
}{
	"1": {1, [3]float64{}}, "m": {1, [3]float64{1}}, "ft": {0.3048, [3]float64{1}}, "kN": {1000, [3]float64{1, 1, -2}}, "kip": {4448.2216152605, [3]float64{1, 1, -2}},
	"MPa": {1e6, [3]float64{-1, 1, -2}}, "ksi": {6894757.293168361, [3]float64{-1, 1, -2}}, "s": {1, [3]float64{0, 0, 1}},
}

func TestRandomFormulasAgreeWithAnIndependentEvaluator(t *testing.T) {
	c := get(t, "px.formula")
	refused, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		inputs, values := map[string]any{}, map[string]quantity.Value{}
		var leaves []reference
		for i := range rapid.IntRange(1, 4).Draw(t, "inputs") {
			name := fmt.Sprintf("v%d", i)
			unit := rapid.SampledFrom([]string{"1", "m", "ft", "kN", "kip", "MPa", "ksi", "s"}).Draw(t, "unit")
			x := rapid.Float64Range(0.5, 50).Draw(t, "x")
			inputs[name], values[name] = map[string]any{"unit": unit}, number(x, unit)
			leaves = append(leaves, reference{name, x * referenceUnits[unit].si, referenceUnits[unit].dim})
		}
		// A difference may be zero in one order of rounding and not in another,
		// so only a formula that divides by none must have a value.
		mismatch, dividesByDifference := false, false
		var draw func(depth int) reference
		draw = func(depth int) reference {
			if depth == 0 {
				if rapid.IntRange(0, 4).Draw(t, "literal") == 0 {
					n := rapid.IntRange(1, 9).Draw(t, "n")
					return reference{text: fmt.Sprint(n), x: float64(n)}
				}
				return rapid.SampledFrom(leaves).Draw(t, "leaf")
			}
			a := draw(depth - 1)
			switch op := rapid.SampledFrom([]string{"+", "-", "*", "/", "sq", "sqrt", "max", "if"}).Draw(t, "op"); op {
			case "sq":
				return reference{"(" + a.text + ")^2", a.x * a.x, [3]float64{2 * a.dim[0], 2 * a.dim[1], 2 * a.dim[2]}}
			case "sqrt":
				return reference{"sqrt(abs(" + a.text + "))", math.Sqrt(math.Abs(a.x)), [3]float64{a.dim[0] / 2, a.dim[1] / 2, a.dim[2] / 2}}
			default:
				b := draw(depth - 1)
				out := reference{text: "(" + a.text + " " + op + " " + b.text + ")", dim: a.dim}
				switch op {
				case "*":
					out.x, out.dim = a.x*b.x, [3]float64{a.dim[0] + b.dim[0], a.dim[1] + b.dim[1], a.dim[2] + b.dim[2]}
					return out
				case "/":
					dividesByDifference = dividesByDifference || strings.Contains(b.text, "-")
					out.x, out.dim = a.x/b.x, [3]float64{a.dim[0] - b.dim[0], a.dim[1] - b.dim[1], a.dim[2] - b.dim[2]}
					return out
				case "+":
					out.x = a.x + b.x
				case "-":
					out.x = a.x - b.x
				case "max":
					out.text, out.x = "max("+a.text+", "+b.text+")", math.Max(a.x, b.x)
				case "if":
					out.text, out.x = "("+a.text+" > "+b.text+" ? "+a.text+" : "+b.text+")", math.Max(a.x, b.x)
				}
				mismatch = mismatch || a.dim != b.dim
				return out
			}
		}
		e := draw(rapid.IntRange(1, 4).Draw(t, "depth"))
		// A unit has no fractional powers: such results cannot leave.
		for _, d := range e.dim {
			if d != math.Trunc(d) || math.Abs(d) > 12 {
				return
			}
		}
		unit := fmt.Sprintf("m^%g*kg^%g*s^%g", e.dim[0], e.dim[1], e.dim[2])
		for _, zero := range []string{"m^0", "kg^0", "s^0"} {
			unit = strings.ReplaceAll(unit, zero, "1")
		}
		settings, err := canon.Encode(map[string]any{"inputs": inputs, "results": map[string]any{"r": map[string]any{"expression": e.text, "unit": unit}}})
		if err != nil {
			t.Fatal(err)
		}
		_, found := c.Derive(settings, "")
		if found.Refused() != mismatch {
			t.Fatalf("%s in %s: mismatch %v, but %s", e.text, unit, mismatch, told(found))
		}
		if mismatch {
			refused++
			return
		}
		out, found := c.Evaluate(context.Background(), settings, values)
		if found.Refused() {
			if found[0].Code != outcome.RunFailed || !dividesByDifference {
				t.Fatalf("%s is %v, but %s", e.text, e.x, told(found))
			}
			return
		}
		kept++
		// Cancellation in a difference makes relative error meaningless; a
		// common scale of the terms does not.
		got := out["r"].(quantity.Number).Magnitude
		if math.Abs(got-e.x) > 1e-9*math.Max(math.Abs(e.x), 1e-3) && !strings.Contains(e.text, "-") {
			t.Fatalf("%s is %v, reference %v", e.text, got, e.x)
		}
	})
	t.Logf("%d evaluated, %d refused for units", kept, refused)
	if kept == 0 || refused == 0 {
		t.Error("the drawn expressions test nothing")
	}
}

func FuzzFormula(f *testing.F) {
	for _, s := range []string{"l + b", "x ^ 2 ^ -1", "-x ^ 2", "ok and x > 0 ? 1 : 2", "max(l,b)/l", "sqrt(f*f)/f", "1/0", "((((x))))", "x | abs()", "::sin(x)", "let a = 1; a", "if ok { 1 } else { 2 }", "'\\u0000'", "steel == \"a36\" ? 1 : 0", "0x10", "1_000", "x.y?.z", "[1,2][0]", "b\"x\"", "# + 1", "filter([1], # > 0)", "$env"} {
		f.Add(s)
	}
	f.Add(strings.Repeat("(x<", 30) + "x<x" + strings.Repeat("<x)", 30))
	c, _ := Lookup("px.formula", 1)
	f.Fuzz(func(t *testing.T, expression string) {
		settings := one(expression, "1")
		if canon.Check(settings) != nil {
			return
		}
		_, derived := c.Derive(settings, "")
		out, found := c.Evaluate(context.Background(), settings, oneInputs)
		if derived.Refused() && out != nil {
			t.Fatalf("%q is refused and evaluated", expression)
		}
		if !derived.Refused() && !found.Refused() {
			n := out["r"].(quantity.Number)
			if math.IsNaN(n.Magnitude) || math.IsInf(n.Magnitude, 0) {
				t.Fatalf("%q is %v", expression, n.Magnitude)
			}
			again, _ := c.Evaluate(context.Background(), settings, oneInputs)
			if !quantity.Equal(out["r"], again["r"]) {
				t.Fatalf("%q is not the same twice", expression)
			}
		}
	})
}

func BenchmarkDerive(b *testing.B) {
	c := get(b, "px.formula")
	settings := c.Example()
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			c.Derive(settings, "/settings")
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			compileFormula(settings)
		}
	})
}

func BenchmarkEvaluate(b *testing.B) {
	c := get(b, "px.formula")
	settings := c.Example()
	in := map[string]quantity.Value{"span": number(60, "ft")}
	for b.Loop() {
		if _, found := c.Evaluate(context.Background(), settings, in); found != nil {
			b.Fatal(found)
		}
	}
}
