package quantity

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// told lists the codes of findings, with the member or path of each.
func told(found outcome.Findings) string {
	var out []string
	for _, d := range found {
		at := d.Path
		if member, ok := d.Params["member"]; ok {
			at = fmt.Sprint(member)
		}
		out = append(out, strings.TrimSpace(string(d.Code)+" "+at))
	}
	return strings.Join(out, ", ")
}

// covers: F3, F5
func TestWhatFitsWhat(t *testing.T) {
	number := func(unit string) string { return `{"type":"number","unit":"` + unit + `"}` }
	moment := `{"type":"number","unit":"kN*m","quantityKind":"moment"}`
	for _, c := range []struct{ name, producer, consumer, want string }{
		{"the same port", moment, moment, ""},
		{"another unit is converted and told", number("kip*ft"), number("kN*m"), "PX_UNIT_CONVERTED"},
		{"another spelling of the unit is not a conversion", number("N*m"), number("J"), ""},
		{"another dimension", number("kN"), number("m"), "PX_UNIT_MISMATCH"},
		{"another quantity kind of one dimension", `{"type":"number","unit":"kN*m","quantityKind":"torque"}`, moment, "PX_UNIT_MISMATCH"},
		{"a kind on one side alone", number("kN*m"), moment, ""},
		{"a temperature into a difference", number("degC"), number("delta_degC"), "PX_UNIT_MISMATCH"},
		{"a temperature into kelvin", number("degF"), number("K"), "PX_UNIT_CONVERTED"},
		{"a string into a number", `{"type":"string"}`, number("m"), "PX_TYPE_MISMATCH"},
		{"a number into an integer", number("1"), `{"type":"integer"}`, "PX_TYPE_MISMATCH"},
		{"an integer into a plain number", `{"type":"integer"}`, number("1"), ""},
		{"an integer into a length", `{"type":"integer"}`, number("m"), "PX_UNIT_MISMATCH"},
		{"a null into what takes none", `{"type":"number","unit":"m","nullable":true}`, number("m"), "PX_NULLABILITY_MISMATCH"},
		{"no null into what takes one", number("m"), `{"type":"number","unit":"m","nullable":true}`, ""},
		{"everything wrong is told at once", `{"type":"number","unit":"s","nullable":true,"shape":[2]}`, number("m"), "PX_UNIT_MISMATCH, PX_NULLABILITY_MISMATCH, PX_SHAPE_MISMATCH"},
		{"a fixed size into any size", `{"type":"integer","shape":[3]}`, `{"type":"integer","shape":[null]}`, ""},
		{"any size into a fixed size", `{"type":"integer","shape":[null]}`, `{"type":"integer","shape":[3]}`, "PX_SHAPE_MISMATCH"},
		{"an array into a scalar", `{"type":"integer","shape":[1]}`, `{"type":"integer","shape":"scalar"}`, "PX_SHAPE_MISMATCH"},
		{"an enum into more values", `{"type":"enum","values":["a"]}`, `{"type":"enum","values":["b","a"]}`, ""},
		{"an enum into fewer values", `{"type":"enum","values":["a","b"]}`, `{"type":"enum","values":["a"]}`, "PX_TYPE_MISMATCH"},
		{"an enum into a string", `{"type":"enum","values":["a","b"]}`, `{"type":"string"}`, ""},
		{"a string into an enum", `{"type":"string"}`, `{"type":"enum","values":["a"]}`, "PX_TYPE_MISMATCH"},
		{"a file of another media type", `{"type":"file"}`, `{"type":"file","mediaType":"text/csv"}`, "PX_TYPE_MISMATCH"},
		{"a record with more fields", `{"type":"record","fields":{"a":` + number("m") + `,"b":{"type":"string"}}}`, `{"type":"record","fields":{"a":` + number("ft") + `}}`, "PX_UNIT_CONVERTED /fields/a"},
		{"a record with fewer fields", `{"type":"record","fields":{"a":` + number("m") + `}}`, `{"type":"record","fields":{"a":` + number("s") + `,"b":{"type":"string"}}}`, "PX_UNIT_MISMATCH /fields/a, PX_SHAPE_MISMATCH /fields/b"},
		{"a list of other elements", `{"type":"list","of":` + number("kN") + `}`, `{"type":"list","of":` + number("m") + `}`, "PX_UNIT_MISMATCH /of"},
		{"a table with columns in another order", `{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"y","type":"string"}]}`,
			`{"type":"table","columns":[{"columnKey":"y","type":"string"},{"columnKey":"x","type":"number","unit":"m"}]}`, "PX_UNIT_CONVERTED /columns/1"},
		{"a table without a column", `{"type":"table","columns":[{"columnKey":"x","type":"string"}]}`, `{"type":"table","columns":[{"columnKey":"y","type":"string"}]}`, "PX_SHAPE_MISMATCH /columns/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, q := port(t, c.producer), port(t, c.consumer)
			for _, side := range []Port{p, q} {
				if found := side.Check(""); len(found) > 0 {
					t.Fatal(found)
				}
			}
			_, found := Fits(p, q, "")
			if got := told(found); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, d := range found {
				if d.Params["producer"] == nil || d.Params["consumer"] == nil {
					t.Errorf("%s does not show both contracts", d.Code)
				}
			}
		})
	}
}

func TestAConversionReachesEveryMember(t *testing.T) {
	producer := port(t, `{"type":"record","fields":{
		"spans":{"type":"list","of":{"type":"number","unit":"ft"}},"n":{"type":"integer"},"note":{"type":"string"},
		"rows":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"in"},{"columnKey":"k","type":"string"}]},
		"grid":{"type":"number","unit":"kip","shape":[2,null]}}}`)
	consumer := port(t, `{"type":"record","fields":{
		"spans":{"type":"list","of":{"type":"number","unit":"m"}},"n":{"type":"number","unit":"1"},
		"rows":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"mm"}]},
		"grid":{"type":"number","unit":"N","shape":[2,2]}}}`)
	consumer.Fields["grid"] = port(t, `{"type":"number","unit":"N","shape":[2,null]}`)
	v, found := producer.Decode(canon.Raw(`{"value":{"spans":{"value":[10,20],"unit":"ft"},"n":{"value":3},"note":{"value":"x"},
		"rows":{"columns":[{"columnKey":"k","type":"string"},{"columnKey":"x","type":"number","unit":"ft"}],"rows":[["a",1]]},
		"grid":{"value":[[1,2],[3,4]],"unit":"kip"}}}`), "")
	if found != nil {
		t.Fatal(found)
	}
	conversion, found := Fits(producer, consumer, "")
	if found.Refused() {
		t.Fatal(found)
	}
	v, found = conversion.Apply(v, "")
	if found != nil {
		t.Fatal(found)
	}
	got, err := consumer.Encode(v)
	const want = `{"value":{"grid":{"unit":"N","value":[[4448.2216152605,8896.443230521],[13344.6648457815,17792.886461042]]},"n":{"unit":"1","value":3},` +
		`"rows":{"columns":[{"columnKey":"x","type":"number","unit":"mm"}],"rows":[[304.8]]},"spans":{"unit":"m","value":[3.048,6.096]}}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

// anyPort draws a contract that Check accepts.
func anyPort(depth int) *rapid.Generator[Port] {
	return rapid.Custom(func(t *rapid.T) Port {
		kinds := Types()
		if depth == 0 {
			kinds = kinds[:5]
		}
		p := Port{Type: rapid.SampledFrom(kinds).Draw(t, "type")}
		if rapid.Bool().Draw(t, "nullable given") {
			n := rapid.Bool().Draw(t, "nullable")
			p.Nullable = &n
		}
		if p.Type.scalar() && rapid.IntRange(0, 3).Draw(t, "array") == 0 {
			p.Shape = ArrayShape(rapid.SliceOfN(rapid.SampledFrom([]int{AnySize, 1, 2, 3}), 1, 2).Draw(t, "dims")...)
		}
		switch p.Type {
		case NumberType:
			p.Unit = rapid.SampledFrom(unitNames()).Draw(t, "unit")
		case EnumType:
			p.Values = []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "values")]
		case RecordType:
			p.Fields = rapid.MapOfN(rapid.StringMatching(`[a-z][a-z0-9_]{0,3}`), anyPort(depth-1), 1, 3).Draw(t, "fields")
		case ListType:
			of := anyPort(depth-1).Draw(t, "of")
			p.Of = &of
		case TableType:
			for i := range rapid.IntRange(1, 3).Draw(t, "columns") {
				c := anyPort(0).Draw(t, "column")
				p.Columns = append(p.Columns, Column{ColumnKey: fmt.Sprintf("c%d", i), Type: c.Type, Unit: c.Unit, Nullable: c.Nullable, Values: c.Values})
			}
		}
		return p
	})
}

// anyValue draws a value of a port.
func anyValue(t *rapid.T, p Port) Value {
	if p.AllowsNull() && rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return Null{}
	}
	if !p.Shape.IsScalar() {
		return anyArray(t, p, p.Shape.sizes())
	}
	switch p.Type {
	case NumberType:
		return Number{anyFloat().Draw(t, "x") + 0, MustParseUnit(p.Unit)}
	case IntegerType:
		return Integer(rapid.Int64Range(MinInteger, MaxInteger).Draw(t, "i"))
	case BooleanType:
		return Boolean(rapid.Bool().Draw(t, "b"))
	case StringType:
		return Text(rapid.String().Draw(t, "s"))
	case EnumType:
		return Text(rapid.SampledFrom(p.Values).Draw(t, "e"))
	case FileType:
		return File{"sha256:" + strings.Repeat("0a", 32), "text/csv", rapid.Int64Range(0, 1<<40).Draw(t, "bytes")}
	case RecordType:
		r := Record{}
		for key, field := range p.Fields {
			r[key] = anyValue(t, field)
		}
		return r
	case ListType:
		l := make(List, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range l {
			l[i] = anyValue(t, *p.Of)
		}
		return l
	default:
		v := Table{Columns: p.Columns, Rows: make([][]Value, rapid.IntRange(0, 3).Draw(t, "rows"))}
		for i := range v.Rows {
			for _, c := range p.Columns {
				v.Rows[i] = append(v.Rows[i], anyValue(t, c.Port()))
			}
		}
		return v
	}
}

func anyArray(t *rapid.T, p Port, dims []int) Value {
	if len(dims) == 0 {
		element := p
		element.Shape = Scalar
		return anyValue(t, element)
	}
	if dims[0] == AnySize {
		dims[0] = rapid.IntRange(0, 3).Draw(t, "size")
	}
	l := make(List, dims[0])
	for i := range l {
		l[i] = anyArray(t, p, dims[1:])
	}
	return l
}

func TestEveryPortFitsItselfAndEveryValueComesBackBitForBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPort(2).Draw(t, "port")
		if found := p.Check(""); len(found) > 0 {
			t.Fatalf("drawn port: %v", found)
		}
		conversion, found := Fits(p, p, "")
		if len(found) > 0 || conversion.Changes() {
			t.Fatalf("a port does not fit itself: %v", found)
		}
		v := anyValue(t, p)
		text, err := p.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := canon.Canonicalize(text); err != nil || string(again) != string(text) {
			t.Fatalf("%s is not canonical: %v", text, err)
		}
		back, found := p.Decode(text, "")
		if len(found) > 0 || !Equal(v, back) {
			t.Fatalf("%s: %v %v", text, back, found)
		}
		if same, found := conversion.Apply(v, ""); len(found) > 0 || !Equal(v, same) {
			t.Fatalf("its own conversion changes %s: %v", text, found)
		}
	})
}

func TestThereAndBackLosesAtMostTwoRoundings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := Port{Type: NumberType, Unit: "kip*ft"}, Port{Type: NumberType, Unit: rapid.SampledFrom([]string{"kN*m", "N*mm", "J", "lbf*in"}).Draw(t, "unit")}
		x := Number{rapid.Float64Range(-1e9, 1e9).Draw(t, "x"), MustParseUnit(a.Unit)}
		out, _ := Fits(a, b, "")
		in, _ := Fits(b, a, "")
		v, _ := out.Apply(x, "")
		v, _ = in.Apply(v, "")
		back := v.(Number).Magnitude
		if math.Abs(back-x.Magnitude) > 2*math.Abs(math.Nextafter(x.Magnitude, math.Inf(1))-x.Magnitude)*2 {
			t.Fatalf("%v becomes %v", x.Magnitude, back)
		}
	})
}
