package quantity

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

func TestShapesAreReadStrictly(t *testing.T) {
	for text, want := range map[string]string{`"scalar"`: `"scalar"`, `[3]`: `[3]`, `[null,3]`: `[null,3]`, `[1.0,2e0]`: `[1,2]`} {
		var s Shape
		if err := s.UnmarshalJSON([]byte(text)); err != nil || s.String() != want {
			t.Errorf("%s becomes %s, %v", text, s, err)
		}
	}
	for _, text := range []string{`"Scalar"`, `[]`, `[0]`, `[-1]`, `[1.5]`, `[1,1,1,1,1]`, `[100001]`, `["3"]`, `3`, `null`, `{}`} {
		var s Shape
		if err := s.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is the shape %s", text, s)
		}
	}
	if !(Shape{}).IsZero() || Scalar.IsZero() || !Scalar.IsScalar() || !(Shape{}).IsScalar() || ArrayShape(1).IsScalar() {
		t.Error("a shape that was left out is a scalar, and only that is zero")
	}
}

// Package schema reads contracts for the tools: nothing is lost, and all that is
// wrong is told.
func TestSchemaReadsContracts(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"number","unit":"m","shape":"scalar","nullable":false,"constraints":{"minimum":1.5}}`:                             "",
		`{"type":"list","of":{"type":"record","fields":{"a":{"type":"file","mediaType":"text/csv"}}},"minItems":1}`:                "",
		`{"type":"number","unit":"m","shape":[0],"units":"m","nullable":1}`:                                                        "PX_SCHEMA_INVALID /shape, PX_SCHEMA_UNKNOWN_FIELD /units, PX_SCHEMA_INVALID /nullable",
		`{"type":"real","fields":{"A":{"type":"x"}},"columns":[{"type":"number"}]}`:                                                "PX_SCHEMA_INVALID /type, PX_SCHEMA_INVALID /fields/A, PX_SCHEMA_INVALID /fields/A/type, PX_SCHEMA_INVALID /columns/0/columnKey",
		`{"type":"integer","constraints":{"minimum":9007199254740993}}`:                                                            "PX_SCHEMA_INVALID /constraints/minimum",
		`{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m","nullable":false,"constraints":{"pattern":"a"}}]}`: "",
	} {
		var p Port
		found := schema.Decode([]byte(text), &p)
		if got := told(found); got != want {
			t.Errorf("%s: %s", text, got)
		}
		if want == "" {
			canonical, _ := canon.Canonicalize([]byte(text))
			if again, err := canon.Encode(p); err != nil || string(again) != string(canonical) {
				t.Errorf("%s becomes %s, %v", canonical, again, err)
			}
		}
	}
	if schema.JSON[Port](schema.Closed).Type != "object" {
		t.Error("a contract's schema is no object")
	}
}

func TestCoherentSIIsOneRoundingAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := MustParseUnit(rapid.SampledFrom(unitNames()).Draw(t, "unit"))
		si := Unit{&parsed{factor: factor{rat: ratio("1")}}}
		x := anyFloat().Draw(t, "x")
		if got, want := u.ToSI(x), exactly(x, u, si); got != want {
			t.Fatalf("%v %s is %v in SI, not %v", x, u, got, want)
		}
		if got, want := u.FromSI(x), exactly(x, si, u); got != want {
			t.Fatalf("%v in SI is %v %s, not %v", x, got, u, want)
		}
		if got := (Number{x, u}).SI(); got != u.ToSI(x) {
			t.Fatalf("SI of %v %s is %v", x, u, got)
		}
	})
}

// Results of Components and Functions are checked as Go values.
func TestAGoValueThatIsNotOfThePortIsTold(t *testing.T) {
	m, ft := MustParseUnit("m"), MustParseUnit("ft")
	length := port(t, `{"type":"number","unit":"m"}`)
	inf := 1e308
	rows := port(t, table)
	for name, c := range map[string]struct {
		port  Port
		value Value
		want  string
	}{
		"a number":                   {length, Number{1, m}, ""},
		"a number in another unit":   {length, Number{1, ft}, "PX_UNIT_MISMATCH /value"},
		"no finite number":           {length, Number{inf * 10, m}, "PX_CONSTRAINT_VIOLATED /value"},
		"an integer for a number":    {length, Integer(1), "PX_TYPE_MISMATCH /value"},
		"nothing":                    {length, nil, "PX_TYPE_MISMATCH /value"},
		"a null":                     {length, Null{}, "PX_NULLABILITY_MISMATCH"},
		"a number for an integer":    {port(t, `{"type":"integer"}`), Number{1, One}, "PX_TYPE_MISMATCH /value"},
		"an integer too large":       {port(t, `{"type":"integer"}`), Integer(1 << 60), "PX_SCHEMA_INVALID /value"},
		"a text for a boolean":       {port(t, `{"type":"boolean"}`), Text("true"), "PX_TYPE_MISMATCH /value"},
		"a list for a record":        {port(t, `{"type":"record","fields":{"a":{"type":"string"}}}`), List{}, "PX_TYPE_MISMATCH /value"},
		"a record with other fields": {port(t, `{"type":"record","fields":{"a":{"type":"string"}}}`), Record{"b": Text("")}, "PX_SHAPE_MISMATCH /value/a, PX_SHAPE_MISMATCH /value/b"},
		"a record for a list":        {port(t, `{"type":"list","of":{"type":"string"}}`), Record{}, "PX_TYPE_MISMATCH /value"},
		"a text for a table":         {rows, Text(""), "PX_TYPE_MISMATCH"},
		"a table of other columns":   {rows, Table{Columns: []Column{{ColumnKey: "x"}, {ColumnKey: "z"}}}, "PX_SHAPE_MISMATCH /columns/1"},
		"a table of fewer columns":   {rows, Table{}, "PX_SHAPE_MISMATCH /columns"},
		"a table with bad rows":      {rows, Table{Columns: rows.Columns, Rows: [][]Value{{Number{1, m}}, {Number{-1, m}, Text("")}, {Number{1, ft}, Boolean(true)}}}, "PX_SHAPE_MISMATCH /rows/0, PX_CONSTRAINT_VIOLATED /rows/1/0, PX_UNIT_MISMATCH /rows/2/0, PX_TYPE_MISMATCH /rows/2/1"},
		"a scalar for an array":      {port(t, `{"type":"integer","shape":[2]}`), Integer(1), "PX_SHAPE_MISMATCH /value"},
		"a text for a file":          {port(t, `{"type":"file"}`), Text(""), "PX_TYPE_MISMATCH /value"},
		"a text that is too long":    {port(t, `{"type":"string"}`), Text(make([]byte, MaxTextLength+1)), "PX_LIMIT_EXCEEDED /value"},
		"a text that is too short":   {port(t, `{"type":"string","constraints":{"minLength":1}}`), Text(""), "PX_CONSTRAINT_VIOLATED /value"},
	} {
		if got := told(c.port.CheckValue(c.value, "")); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := c.port.Encode(c.value); c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, v := range map[string]Value{"a text": Text("x"), "a record": Record{"q": Text("")}, "a table": Table{}, "a file": File{}, "a force": Number{1, MustParseUnit("N")}} {
		if _, err := length.Encode(v); err == nil {
			t.Errorf("%s is encoded as a length", name)
		}
	}
}
