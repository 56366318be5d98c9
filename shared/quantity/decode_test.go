package quantity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
)

// covers: U1
func TestWhatIsNoValueOfThePortIsRefusedWithItsPath(t *testing.T) {
	length := `{"type":"number","unit":"m","constraints":{"exclusiveMinimum":0,"maximum":100}}`
	for _, c := range []struct{ name, port, value, want string }{
		{"a value", length, `{"value":3,"unit":"m"}`, ""},
		{"a value in another unit", length, `{"value":3,"unit":"ft"}`, ""},
		{"no typed value", length, `3`, "PX_TYPE_MISMATCH"},
		{"no value", length, `{"unit":"m"}`, "PX_SCHEMA_INVALID /value"},
		{"no unit", length, `{"value":3}`, "PX_UNIT_MISMATCH /unit"},
		{"no unit for a plain number", `{"type":"number","unit":"1"}`, `{"value":3}`, ""},
		{"kN into m", length, `{"value":3,"unit":"kN"}`, "PX_UNIT_MISMATCH /unit"},
		{"no unit of ours", length, `{"value":3,"unit":"furlong"}`, "PX_UNIT_MISMATCH /unit"},
		{"a unit that is no text", length, `{"value":3,"unit":4}`, "PX_TYPE_MISMATCH /unit"},
		{"a difference into a temperature", `{"type":"number","unit":"degC"}`, `{"value":3,"unit":"delta_degC"}`, "PX_UNIT_MISMATCH /unit"},
		{"all that is wrong at once", length, `{"value":"x","unit":"kN","more":1}`, "PX_SCHEMA_UNKNOWN_FIELD /more, PX_UNIT_MISMATCH /unit, PX_TYPE_MISMATCH /value"},
		{"a bound in the port's unit", length, `{"value":400,"unit":"ft"}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"zero where it is excluded", length, `{"value":-0,"unit":"m"}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"beyond binary64", length, `{"value":1e400,"unit":"m"}`, "PX_SCHEMA_INVALID /value"},
		{"beyond binary64 after conversion", `{"type":"number","unit":"mm"}`, `{"value":1e306,"unit":"m"}`, "PX_SCHEMA_INVALID /value"},
		{"a whole number that would be rounded", `{"type":"number","unit":"1"}`, `{"value":9007199254740993}`, "PX_SCHEMA_INVALID /value"},
		{"a null where none may be", length, `{"value":null}`, "PX_NULLABILITY_MISMATCH"},
		{"a null where one may be", `{"type":"number","unit":"m","nullable":true}`, `{"value":null}`, ""},
		{"an integer", `{"type":"integer"}`, `{"value":1.0}`, ""},
		{"a fraction for an integer", `{"type":"integer"}`, `{"value":1.5}`, "PX_TYPE_MISMATCH /value"},
		{"an integer in another spelling", `{"type":"list","of":{"type":"integer"}}`, `{"value":[1e3,0.12e2,1200e-2,-1.50E+1,0e-999999999999,0.0e5]}`, ""},
		// Binary64 has an integer next to each of these.
		{"fractions that binary64 does not hold", `{"type":"list","of":{"type":"integer"}}`, `{"value":[1e-400,3.00000000000000000001,9007199254740990.9999,12e-1,1e-99999999999999999999]}`,
			"PX_TYPE_MISMATCH /value/0, PX_TYPE_MISMATCH /value/1, PX_TYPE_MISMATCH /value/2, PX_TYPE_MISMATCH /value/3, PX_TYPE_MISMATCH /value/4"},
		{"such a fraction in a table", `{"type":"table","columns":[{"columnKey":"x","type":"integer"}]}`, `{"columns":[{"columnKey":"x","type":"integer"}],"rows":[[1],[1e-400]]}`, "PX_TYPE_MISMATCH /rows/1/0"},
		{"2^53 for an integer", `{"type":"integer"}`, `{"value":9007199254740992}`, "PX_SCHEMA_INVALID /value"},
		{"2^53+1 for an integer", `{"type":"integer"}`, `{"value":9007199254740993}`, "PX_SCHEMA_INVALID /value"},
		{"a unit on an integer", `{"type":"integer"}`, `{"value":1,"unit":"m"}`, "PX_UNIT_MISMATCH /unit"},
		{"a text for a boolean", `{"type":"boolean"}`, `{"value":"true"}`, "PX_TYPE_MISMATCH /value"},
		{"a text that is too long", `{"type":"string","constraints":{"maxLength":2}}`, `{"value":"교량교"}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"a text of two letters in six bytes", `{"type":"string","constraints":{"maxLength":2}}`, `{"value":"교량"}`, ""},
		{"a text that does not match", `{"type":"string","constraints":{"pattern":"^a+$"}}`, `{"value":"aab"}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"no such enum value", `{"type":"enum","values":["a","b"]}`, `{"value":"c"}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"an array", `{"type":"number","unit":"m","shape":[2,null]}`, `{"value":[[1,2],[3,4]],"unit":"m"}`, ""},
		{"an array with rows of two lengths", `{"type":"number","unit":"m","shape":[2,null]}`, `{"value":[[1,2],[3]],"unit":"m"}`, "PX_SHAPE_MISMATCH /value/1"},
		{"an array of another size", `{"type":"number","unit":"m","shape":[2]}`, `{"value":[1],"unit":"m"}`, "PX_SHAPE_MISMATCH /value"},
		{"a scalar for an array", `{"type":"number","unit":"m","shape":[2]}`, `{"value":1,"unit":"m"}`, "PX_SHAPE_MISMATCH /value"},
		{"an array for a scalar", length, `{"value":[1],"unit":"m"}`, "PX_TYPE_MISMATCH /value"},
		{"an element that is no number", `{"type":"number","unit":"m","shape":[2]}`, `{"value":[1,true],"unit":"m"}`, "PX_TYPE_MISMATCH /value/1"},
		{"a list of two wrong elements", `{"type":"list","of":` + length + `}`, `{"value":[1,-1,200],"unit":"m"}`, "PX_CONSTRAINT_VIOLATED /value/1, PX_CONSTRAINT_VIOLATED /value/2"},
		{"a list that is too short", `{"type":"list","of":{"type":"boolean"},"minItems":2}`, `{"value":[true]}`, "PX_CONSTRAINT_VIOLATED /value"},
		{"a null in a list", `{"type":"list","of":{"type":"boolean"}}`, `{"value":[null]}`, "PX_NULLABILITY_MISMATCH /value/0"},
		{"a null array in a list", `{"type":"list","of":{"type":"boolean","shape":[2],"nullable":true}}`, `{"value":[null,[true,null]]}`, ""},
		{"a null row in an array", `{"type":"boolean","shape":[2,1],"nullable":true}`, `{"value":[[true],null]}`, "PX_SHAPE_MISMATCH /value/1"},
		{"a record", `{"type":"record","fields":{"a":` + length + `}}`, `{"value":{"a":{"value":1,"unit":"in"}}}`, ""},
		{"a record without a field and with another", `{"type":"record","fields":{"a":` + length + `}}`, `{"value":{"b~/":{"value":1}}}`, "PX_SCHEMA_UNKNOWN_FIELD /value/b~0~1, PX_SCHEMA_INVALID /value/a"},
		{"a record with a wrong field", `{"type":"record","fields":{"a":` + length + `}}`, `{"value":{"a":{"value":1,"unit":"s"}}}`, "PX_UNIT_MISMATCH /value/a/unit"},
		{"a table", table, `{"columns":[{"columnKey":"k","type":"string"},{"columnKey":"x","type":"number","unit":"ft"}],"rows":[["a",1],["b",2]]}`, ""},
		{"a table without rows or columns", table, `{}`, "PX_SCHEMA_INVALID /columns, PX_SCHEMA_INVALID /rows"},
		{"a table with wrong columns", table, `{"columns":[{"columnKey":"k","type":"number"},{"columnKey":"z","type":"string"},{"columnKey":"k","type":"string"}],"rows":[]}`,
			"PX_TYPE_MISMATCH /columns/0/type, PX_SHAPE_MISMATCH /columns/1/columnKey, PX_SCHEMA_INVALID /columns/2/columnKey, PX_SHAPE_MISMATCH /columns"},
		{"a table with a wrong row and a wrong cell", table, `{"columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"k","type":"string"}],"rows":[[1],["a","b"],[-5,"c"]]}`,
			"PX_SHAPE_MISMATCH /rows/0, PX_TYPE_MISMATCH /rows/1/0"},
		{"a table whose cell breaks a bound", table, `{"columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"k","type":"string"}],"rows":[[1,"a"],[-5,"c"]]}`, "PX_CONSTRAINT_VIOLATED /rows/1/0"},
		{"a table where a value stands", length, `{"columns":[],"rows":[]}`, "PX_SCHEMA_UNKNOWN_FIELD /columns, PX_SCHEMA_UNKNOWN_FIELD /rows, PX_UNIT_MISMATCH /unit, PX_SCHEMA_INVALID /value"},
		{"a file", `{"type":"file","mediaType":"text/csv"}`, `{"value":{"digest":"sha256:` + strings.Repeat("ab", 32) + `","mediaType":"text/csv","bytes":3}}`, ""},
		{"a file of another kind and no digest", `{"type":"file","mediaType":"text/csv"}`, `{"value":{"digest":"../etc/passwd","mediaType":"text/html","bytes":-1}}`,
			"PX_SCHEMA_INVALID /value/digest, PX_TYPE_MISMATCH /value/mediaType, PX_SCHEMA_INVALID /value/bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := port(t, c.port)
			if found := p.Check(""); len(found) > 0 {
				t.Fatal(found)
			}
			_, found := p.Decode(canon.Raw(c.value), "")
			if got := told(found); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

const table = `{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m","constraints":{"minimum":0}},{"columnKey":"k","type":"string"}]}`

func TestAThousandBadCellsAreToldUpToABound(t *testing.T) {
	p := port(t, `{"type":"list","of":{"type":"boolean"}}`)
	_, found := p.Decode(canon.Raw(`{"value":[`+strings.Repeat(`1,`, 999)+`1]}`), "/v")
	if len(found) != maxFindings+1 || told(found[maxFindings:]) != "PX_LIMIT_EXCEEDED /v/value/100" {
		t.Errorf("%d findings, the last %v", len(found), found[len(found)-1])
	}
}

func TestFindingsNeverRepeatTheValue(t *testing.T) {
	const secret = "tok-123456"
	for _, p := range []string{`{"type":"number","unit":"m"}`, `{"type":"enum","values":["a"]}`, `{"type":"string","constraints":{"maxLength":1}}`, table, `{"type":"file"}`} {
		for _, v := range []string{`{"value":"` + secret + `","unit":"` + secret + `"}`, `{"columns":[{"columnKey":"` + secret + `","type":"` + secret + `"}],"rows":[["` + secret + `"]]}`} {
			_, found := port(t, p).Decode(canon.Raw(v), "")
			if len(found) == 0 || strings.Contains(fmt.Sprintf("%+v", found), secret) {
				t.Errorf("%s of %s: %+v", v, p, found)
			}
		}
	}
}

// covers: F5
func TestAContractThatMakesNoSenseIsToldWhole(t *testing.T) {
	for _, c := range []struct{ name, port, want string }{
		{"no type", `{"type":""}`, "PX_SCHEMA_INVALID /type"},
		{"a number without unit", `{"type":"number"}`, "PX_SCHEMA_INVALID /unit"},
		{"a unit that is none", `{"type":"number","unit":"kNm"}`, "PX_UNIT_MISMATCH /unit"},
		{"what belongs to other types", `{"type":"boolean","unit":"m","values":["a"],"columns":[],"mediaType":"text/csv","minItems":1,"quantityKind":"moment","fields":{},"of":{"type":"string"}}`,
			"PX_SCHEMA_INVALID /unit, PX_SCHEMA_INVALID /quantityKind, PX_SCHEMA_INVALID /values, PX_SCHEMA_INVALID /fields, PX_SCHEMA_INVALID /of, PX_SCHEMA_INVALID /minItems, PX_SCHEMA_INVALID /columns, PX_SCHEMA_INVALID /mediaType"},
		{"a shape on a table", `{"type":"table","shape":[2],"columns":[{"columnKey":"a","type":"string"}]}`, "PX_SCHEMA_INVALID /shape"},
		{"a kind of another dimension", `{"type":"number","unit":"kN","quantityKind":"moment"}`, "PX_UNIT_MISMATCH /quantityKind"},
		{"a kind of the user's own", `{"type":"number","unit":"kN","quantityKind":"bearing_reaction"}`, ""},
		{"a difference called temperature", `{"type":"number","unit":"delta_degC","quantityKind":"temperature"}`, "PX_UNIT_MISMATCH /quantityKind"},
		{"an enum without values", `{"type":"enum"}`, "PX_SCHEMA_INVALID /values"},
		{"an enum with a value twice", `{"type":"enum","values":["a","a"]}`, "PX_SCHEMA_INVALID /values/1"},
		{"a record without fields", `{"type":"record"}`, "PX_SCHEMA_INVALID /fields"},
		{"a record with a bad key and a bad field", `{"type":"record","fields":{"a/b":{"type":"string"},"c":{"type":"number"}}}`, "PX_SCHEMA_INVALID /fields/a~1b, PX_SCHEMA_INVALID /fields/c/unit"},
		{"a list of nothing", `{"type":"list"}`, "PX_SCHEMA_INVALID /of"},
		{"a table with columns twice and nested", `{"type":"table","columns":[{"columnKey":"a","type":"string"},{"columnKey":"a","type":"table"}]}`, "PX_SCHEMA_INVALID /columns/1/columnKey, PX_SCHEMA_INVALID /columns/1/type"},
		{"bounds that cross", `{"type":"integer","constraints":{"minimum":2,"maximum":1}}`, "PX_SCHEMA_INVALID /constraints/minimum"},
		{"bounds that leave nothing", `{"type":"integer","constraints":{"exclusiveMinimum":1,"maximum":1}}`, "PX_SCHEMA_INVALID /constraints/exclusiveMinimum"},
		{"a bound on a text", `{"type":"string","constraints":{"minimum":2}}`, "PX_SCHEMA_INVALID /constraints/minimum"},
		{"a pattern that RE2 does not have", `{"type":"string","constraints":{"pattern":"(?=a)"}}`, "PX_SCHEMA_INVALID /constraints/pattern"},
		{"items bounded twice", `{"type":"list","of":{"type":"string"},"minItems":1,"constraints":{"maxItems":2}}`, "PX_SCHEMA_INVALID /constraints"},
		{"a default of the port", `{"type":"number","unit":"m","default":{"value":1,"unit":"ft"}}`, ""},
		{"a default that is none", `{"type":"number","unit":"m","constraints":{"minimum":0},"default":{"value":-1,"unit":"m"}}`, "PX_CONSTRAINT_VIOLATED /default/value"},
		{"no media type", `{"type":"file","mediaType":"csv"}`, "PX_SCHEMA_INVALID /mediaType"},
		{"nine levels", strings.Repeat(`{"type":"list","of":`, 8) + `{"type":"string"}` + strings.Repeat(`}`, 8), "PX_LIMIT_EXCEEDED " + strings.Repeat("/of", 8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := told(port(t, c.port).Check("")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzParseUnit(f *testing.F) {
	for _, s := range append(unitNames(), "", "kNm", "m^-12", "((m/s)^2)", "degC*m", "1/1/1", "µm", "m^999999999999") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseUnit(text)
		if err != nil {
			return
		}
		if u.String() != text || len(text) > MaxUnitLength {
			t.Fatalf("%q became %q", text, u)
		}
		if si := u.ToSI(1); !(si > 0) {
			t.Fatalf("1 %s is %v in SI", u, si)
		}
		if !u.Convertible(u) || !u.Same(u) || u.Convert(3, u) != 3 {
			t.Fatalf("%s is not itself", u)
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	for _, p := range []string{`{"type":"number","unit":"m"}`, table, `{"type":"list","of":{"type":"record","fields":{"a":{"type":"integer","nullable":true}}}}`, `{"type":"boolean","shape":[null,2]}`, `{"type":"file"}`} {
		for _, v := range []string{`{"value":1,"unit":"ft"}`, `{"value":null}`, `{"columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"k","type":"string"}],"rows":[[1,"a"]]}`,
			`{"value":[{"value":{"a":{"value":null}}}]}`, `{"value":[[true,false]]}`, `{"value":-0}`, `{"value":1e400}`, `{"value":{"value":{}}}`} {
			f.Add([]byte(p), []byte(v))
		}
	}
	f.Fuzz(func(t *testing.T, contract, value []byte) {
		var p Port
		if canon.Check(contract) != nil || canon.Check(value) != nil || decodePort(contract, &p) != nil || len(p.Check("")) > 0 {
			return
		}
		v, found := p.Decode(canon.Raw(value), "")
		if found.Refused() {
			return
		}
		text, err := p.Encode(v)
		if err != nil {
			t.Fatalf("%s is decoded and cannot be encoded: %v", value, err)
		}
		back, found := p.Decode(text, "")
		if found.Refused() || !Equal(v, back) {
			t.Fatalf("%s becomes %s: %v", value, text, found)
		}
	})
}

func BenchmarkParseUnit(b *testing.B) {
	for b.Loop() {
		if _, err := parseUnit("kip*ft/(in^2*s)"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, c := range [][2]string{{"kip*ft", "kN*m"}, {"degF", "degC"}, {"deg", "rad"}} {
		b.Run(c[0], func(b *testing.B) {
			from, to := MustParseUnit(c[0]), MustParseUnit(c[1])
			for b.Loop() {
				from.Convert(72.5, to)
			}
		})
	}
}

func BenchmarkDecodeTable(b *testing.B) {
	p := port(b, table)
	raw := canon.Raw(`{"columns":[{"columnKey":"x","type":"number","unit":"ft"},{"columnKey":"k","type":"string"}],"rows":[` + strings.Repeat(`[1.5,"a"],`, 999) + `[1.5,"a"]]}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, found := p.Decode(raw, ""); found != nil {
			b.Fatal(found)
		}
	}
}
