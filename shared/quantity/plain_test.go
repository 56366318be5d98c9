package quantity

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// covers: N2
func TestEveryValueThatHasAPlainFormComesBackFromItUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPort(2).Filter(Port.HasPlain).Draw(t, "port")
		v := anyValue(t, p)
		text, err := p.Plain(v)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := canon.Canonicalize(text); err != nil || string(again) != string(text) {
			t.Fatalf("%s is not canonical: %v", text, err)
		}
		back, found := p.DecodePlain(text, "/results/r")
		if len(found) > 0 || !Equal(v, back) {
			t.Fatalf("%s: %v %v", text, back, found)
		}
		if typed, err := p.Encode(back); err != nil {
			t.Fatalf("%s: %v", typed, err)
		}
	})
}

// What is decoded from a plain form is a value of the contract by the check that all
// other values go through, whatever the text was.
func TestNothingUncheckedComesFromAPlainForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := constrained(t, anyPort(2).Draw(t, "port"))
		other := constrained(t, anyPort(2).Filter(Port.HasPlain).Draw(t, "other"))
		text, err := other.Plain(anyValue(t, other))
		if err != nil {
			t.Fatal(err)
		}
		v, found := p.DecodePlain(text, "/results/r")
		if found.Refused() {
			for _, d := range found {
				if !strings.HasPrefix(d.Path, "/results/r") {
					t.Fatalf("%s at %q", d.Code, d.Path)
				}
			}
			return
		}
		if found := p.CheckValue(v, ""); len(found) > 0 {
			t.Fatalf("%s is taken for %v: %v", text, p, found)
		}
	})
}

// constrained narrows a port of scalars.
func constrained(t *rapid.T, p Port) Port {
	if !p.Type.scalar() || rapid.Bool().Draw(t, "free") {
		return p
	}
	switch zero, one := 0.0, 1; p.Type {
	case NumberType, IntegerType:
		p.Constraints = &Constraints{ExclusiveMinimum: &zero}
	case StringType:
		p.Constraints = &Constraints{MaxLength: &one}
	}
	return p
}

// covers: N2
func TestAPlainFormIsHeldToEveryRuleOfItsContract(t *testing.T) {
	const (
		length  = `{"type":"number","unit":"m","constraints":{"minimum":0}}`
		rows    = `{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m","constraints":{"maximum":5}},{"columnKey":"k","type":"string","nullable":true}],"maxItems":2}`
		record  = `{"type":"record","fields":{"a":{"type":"integer"},"b":{"type":"enum","values":["u","v"]}}}`
		vectors = `{"type":"list","of":{"type":"number","unit":"1","shape":[2]},"minItems":1}`
	)
	for _, c := range []struct{ name, port, text, want string }{
		{"a number", length, `1.5`, ""},
		{"a whole number without a point", length, `3`, ""},
		{"true is no number", length, `true`, "PX_TYPE_MISMATCH /r"},
		{"a text is no number", length, `"1"`, "PX_TYPE_MISMATCH /r"},
		{"a typed value is no number", length, `{"value":1,"unit":"m"}`, "PX_TYPE_MISMATCH /r"},
		{"a number that binary64 does not hold", length, `1e400`, "PX_SCHEMA_INVALID /r"},
		{"a whole number that would be rounded", length, `9007199254740993`, "PX_SCHEMA_INVALID /r"},
		{"a bound that is broken", length, `-1`, "PX_CONSTRAINT_VIOLATED /r"},
		{"null where none may be", length, `null`, "PX_NULLABILITY_MISMATCH /r"},
		{"a list where a number should be", length, `[1]`, "PX_TYPE_MISMATCH /r"},
		{"one is an integer", `{"type":"integer"}`, `1.0`, ""},
		{"one and a half is none", `{"type":"integer"}`, `1.5`, "PX_TYPE_MISMATCH /r"},
		{"false is no integer", `{"type":"integer"}`, `false`, "PX_TYPE_MISMATCH /r"},
		{"an integer beyond binary64", `{"type":"integer"}`, `9007199254740992`, "PX_SCHEMA_INVALID /r"},
		{"zero is no boolean", `{"type":"boolean"}`, `0`, "PX_TYPE_MISMATCH /r"},
		{"a value that the enum does not have", `{"type":"enum","values":["u"]}`, `"w"`, "PX_CONSTRAINT_VIOLATED /r"},
		{"a shape of another size", `{"type":"number","unit":"1","shape":[2,null]}`, `[[1],[2],[3]]`, "PX_SHAPE_MISMATCH /r"},
		{"a shape with one element that is none", `{"type":"number","unit":"1","shape":[2,null]}`, `[[1,"x"],[null,2]]`, "PX_TYPE_MISMATCH /r/0/1, PX_NULLABILITY_MISMATCH /r/1/0"},
		{"a record", record, `{"a":1,"b":"u"}`, ""},
		{"a record with everything wrong, told at once", record, `{"b":"w","c":1}`, "PX_SCHEMA_INVALID /r/a, PX_CONSTRAINT_VIOLATED /r/b, PX_SCHEMA_UNKNOWN_FIELD /r"},
		{"a list is no record", record, `[1,"u"]`, "PX_TYPE_MISMATCH /r"},
		{"a list of vectors", vectors, `[[1,2],[3,4]]`, ""},
		{"a list that is too short", vectors, `[]`, "PX_CONSTRAINT_VIOLATED /r"},
		{"a list with a short vector", vectors, `[[1]]`, "PX_SHAPE_MISMATCH /r/0"},
		{"rows", rows, `[{"x":1,"k":null},{"k":"b","x":2}]`, ""},
		{"too many rows", rows, `[{"x":1,"k":null},{"x":1,"k":null},{"x":1,"k":null}]`, "PX_CONSTRAINT_VIOLATED /r"},
		{"rows with everything wrong, told at once", rows, `[{"x":6,"k":1},{"x":1,"y":2}]`, "PX_CONSTRAINT_VIOLATED /r/0/x, PX_TYPE_MISMATCH /r/0/k, PX_SCHEMA_INVALID /r/1/k, PX_SCHEMA_UNKNOWN_FIELD /r/1"},
		{"a table as columns and rows is none", rows, `{"columns":[],"rows":[]}`, "PX_TYPE_MISMATCH /r"},
		{"a row that is a list", rows, `[[1,"a"]]`, "PX_TYPE_MISMATCH /r/0"},
		{"a file", `{"type":"file"}`, `{"digest":"sha256:0","mediaType":"a/b","bytes":1}`, "PX_TYPE_MISMATCH /r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, found := port(t, c.port).DecodePlain(canon.Raw(c.text), "/r")
			var got []string
			for _, d := range found {
				got = append(got, fmt.Sprintf("%s %s", d.Code, d.Path))
			}
			if told := strings.Join(got, ", "); told != c.want {
				t.Errorf("got %q, want %q", told, c.want)
			}
			if (v == nil) != found.Refused() {
				t.Errorf("%v with %v", v, found)
			}
		})
	}
}

func TestAPlainTableOfBadCellsHasABoundedNumberOfFindings(t *testing.T) {
	p := port(t, `{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"m"}]}`)
	text := `[` + strings.Repeat(`{"x":"no"},`, 5000) + `{"x":1}]`
	_, found := p.DecodePlain(canon.Raw(text), "/r")
	if len(found) != maxFindings+1 || found[maxFindings].Code != outcome.LimitExceeded {
		t.Errorf("%d findings", len(found))
	}
}

// Findings hold no name and no value that the Function chose.
func TestFindingsOfAPlainFormQuoteNothing(t *testing.T) {
	const secret = "hunter2"
	p := port(t, `{"type":"record","fields":{"a":{"type":"number","unit":"m"},"b":{"type":"table","columns":[{"columnKey":"x","type":"integer"}]}}}`)
	_, found := p.DecodePlain(canon.Raw(`{"a":"hunter2","hunter2":"hunter2","b":[{"x":"hunter2","hunter2":1}]}`), "/r")
	if text, err := json.Marshal(found); err != nil || len(found) != 4 || strings.Contains(string(text), secret) {
		t.Errorf("%s %v", text, err)
	}
}

func TestPlainRefusesWhatIsNoValueOfThePort(t *testing.T) {
	for name, c := range map[string]struct {
		port  string
		value Value
	}{
		"a file":                    {`{"type":"file"}`, File{}},
		"a number that is not":      {`{"type":"number","unit":"m"}`, Number{math.NaN(), MustParseUnit("m")}},
		"another dimension":         {`{"type":"number","unit":"m"}`, Number{1, MustParseUnit("s")}},
		"a record with fewer":       {`{"type":"record","fields":{"a":{"type":"boolean"}}}`, Record{}},
		"a record for a table":      {`{"type":"table","columns":[{"columnKey":"x","type":"boolean"}]}`, Record{}},
		"a row with fewer":          {`{"type":"table","columns":[{"columnKey":"x","type":"boolean"}]}`, Table{Columns: []Column{{ColumnKey: "x", Type: BooleanType}}, Rows: [][]Value{{}}}},
		"a text where a boolean is": {`{"type":"list","of":{"type":"boolean"}}`, List{Text("true")}},
	} {
		if text, err := port(t, c.port).Plain(c.value); err == nil {
			t.Errorf("%s becomes %s", name, text)
		}
	}
}

func FuzzDecodePlain(f *testing.F) {
	for _, p := range []string{`{"type":"number","unit":"m"}`, table, `{"type":"list","of":{"type":"record","fields":{"a":{"type":"integer","nullable":true}}}}`, `{"type":"boolean","shape":[null,2]}`} {
		for _, v := range []string{`1`, `null`, `[{"x":1,"k":"a"}]`, `[{"a":null}]`, `[[true,false]]`, `-0`, `1e400`, `{"a":{"a":{}}}`, `"\ud800"`, `[1,`} {
			f.Add([]byte(p), []byte(v))
		}
	}
	f.Fuzz(func(t *testing.T, contract, value []byte) {
		var p Port
		if canon.Check(contract) != nil || decodePort(contract, &p) != nil || len(p.Check("")) > 0 {
			return
		}
		v, found := p.DecodePlain(canon.Raw(value), "")
		if found.Refused() {
			return
		}
		if found := p.CheckValue(v, ""); len(found) > 0 {
			t.Fatalf("%s is taken: %v", value, found)
		}
		text, err := p.Plain(v)
		if err != nil {
			t.Fatalf("%s is decoded and has no plain form: %v", value, err)
		}
		back, found := p.DecodePlain(text, "")
		if found.Refused() || !Equal(v, back) {
			t.Fatalf("%s becomes %s: %v", value, text, found)
		}
	})
}
