package resultread

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
)

func rows(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`[%d,1e-7]`, i))
	}
	return strings.Join(out, ",")
}

// covers: U3
func TestAPreviewIsTheBeginning(t *testing.T) {
	columns := `[` + strings.TrimSuffix(strings.Repeat(`{"columnKey":"x"},`, 12), ",") + `]`
	for name, c := range map[string]struct{ value, want string }{
		"a table keeps its columns and first rows": {`{"columns":` + columns + `,"rows":[` + rows(1500) + `]}`, `{"columns":` + columns + `,"rows":[` + rows(10) + `]}`},
		"a list":             {`{"unit":"m","value":[` + rows(99) + `]}`, `{"unit":"m","value":[` + rows(10) + `]}`},
		"ten of ten":         {`[0,1,2,3,4,5,6,7,8,9]`, `[0,1,2,3,4,5,6,7,8,9]`},
		"ten of eleven":      {`[0,1,2,3,4,5,6,7,8,9,10]`, `[0,1,2,3,4,5,6,7,8,9]`},
		"lists in lists":     {`[[` + rows(11) + `],{"a":[` + rows(11) + `]}]`, `[[` + rows(10) + `],{"a":[` + rows(10) + `]}]`},
		"a text in Hangul":   {`{"value":"` + strings.Repeat("보", 201) + `"}`, `{"value":"` + strings.Repeat("보", 200) + `"}`},
		"what is wide":       {`{` + wide(3000) + `}`, `null`},
		"rows that are long": {`{"rows":[` + strings.TrimSuffix(strings.Repeat(`["`+strings.Repeat("x", 150)+`","`+strings.Repeat("y", 150)+`","`+strings.Repeat("z", 900)+`"],`, 40), ",") + `]}`, ""},
	} {
		got, err := preview(canon.Raw(c.value))
		if err != nil || c.want != "" && string(got) != c.want || len(got) > previewBytes || !got.IsValid() {
			t.Errorf("%s: %.300s, %v", name, got, err)
		}
	}
}

func wide(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	return strings.Join(out, ",")
}

// covers: U3
func TestTheSchemaOfATableHasItsColumnsAndCountsItsRows(t *testing.T) {
	for text, want := range map[string]Schema{
		`{"columns":[{"columnKey":"x"}],"rows":[[1],[2]]}`: {Columns: canon.Raw(`[{"columnKey":"x"}]`), Rows: 2},
		`{"columns":[],"rows":[]}`:                         {Columns: canon.Raw(`[]`)},
		`{"rows":[1,2]}`:                                   {},
		`{"unit":"m","value":1}`:                           {},
		`[1,2]`:                                            {},
		`3`:                                                {},
	} {
		if got, err := columnsOf(canon.Raw(text)); err != nil || string(got.Columns) != string(want.Columns) || got.Rows != want.Rows {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// Whatever the value, its preview is JSON, is bounded, and is null or of its kind.
func TestEveryValueHasAPreview(t *testing.T) {
	var value func(*rapid.T, int) string
	value = func(t *rapid.T, depth int) string {
		switch k := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case k < 3 || depth == 0:
			return rapid.SampledFrom([]string{`1`, `-2.5e300`, `true`, `null`, `"가나"`, `"` + strings.Repeat("a", 300) + `"`}).Draw(t, "leaf")
		case k < 5:
			var out []string
			for range rapid.IntRange(0, 25).Draw(t, "n") {
				out = append(out, value(t, depth-1))
			}
			return `[` + strings.Join(out, ",") + `]`
		default:
			var out []string
			for i := range rapid.IntRange(0, 4).Draw(t, "n") {
				out = append(out, fmt.Sprintf(`"k%d":%s`, i, value(t, depth-1)))
			}
			return `{` + strings.Join(out, ",") + `}`
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := value(t, 4)
		got, err := preview(canon.Raw(text))
		if err != nil || !got.IsValid() || len(got) > previewBytes || got.Kind() != jsontext.Value(text).Kind() && string(got) != "null" {
			t.Fatalf("%.200s gives %.200s, %v", text, got, err)
		}
	})
}
