package console

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// showValue executes the template of a value.
func showValue(t interface{ Fatal(...any) }, v Value) string {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, "value", v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// seenOf is what a reader sees of markup.
func seenOf(t interface{ Fatal(...any) }, html string) string {
	d := xml.NewDecoder(strings.NewReader("<p>" + html + "</p>"))
	d.Strict = false
	d.Entity = xml.HTMLEntity
	var out strings.Builder
	for {
		token, err := d.Token()
		if err == io.EOF {
			return strings.Join(strings.Fields(out.String()), " ")
		}
		if err != nil {
			t.Fatal(err, html)
		}
		if text, ok := token.(xml.CharData); ok {
			out.Write(text)
			out.WriteByte(' ')
		}
	}
}

// A value is shown with the very digits of its answer, and its unit beside it.
//
// covers: U3
func TestAValueIsShownAsItIsAnswered(t *testing.T) {
	for name, c := range map[string]struct{ raw, unit, want string }{
		"a number":                    {`{"unit":"kip*ft","value":806.5333333333334}`, "", "806.5333333333334 kip*ft"},
		"a small number":              {`{"unit":"m","value":1e-300}`, "", "1e-300 m"},
		"the largest integer":         {`{"value":9007199254740991}`, "", "9007199254740991"},
		"a ratio":                     {`{"unit":"1","value":-0.25}`, "1", "-0.25"},
		"a bare number of a contract": {`12.5`, "kN", "12.5 kN"},
		"null":                        {`null`, "kN", "null"},
		"null in a unit":              {`{"unit":"kN","value":null}`, "kN", "null"},
		"false":                       {`{"value":false}`, "", "false"},
		"a text":                      {`{"value":"<b>거더</b>"}`, "", "<b>거더</b>"},
		"a list":                      {`{"unit":"m","value":[1,2.5]}`, "", "1 m 2.5 m"},
		"a record":                    {`{"value":{"caseKey":{"value":"span_119"},"value":{"unit":"kN","value":3}}}`, "", "caseKey span_119 value 3 kN"},
		"nothing":                     {``, "kN", "no value"},
		"what is no JSON":             {`{"value":`, "kN", "no value"},
		"a table":                     {`{"columns":[{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"note","type":"string"}],"rows":[[1.25,"a"],[null,"b"]]}`, "", "x [m] note 1 .25 a null b"},
		"a record with rows":          {`{"rows":[1]}`, "", "rows 1"},
	} {
		if got := seenOf(t, showValue(t, readValue(canon.Raw(c.raw), c.unit, room{10, 50, 100}))); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestWhatIsNotShownIsCounted(t *testing.T) {
	rows := make([]string, 30)
	items := make([]string, 50+5)
	for i := range rows {
		rows[i] = fmt.Sprintf("[%d]", i)
	}
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	for name, c := range map[string]struct{ raw, want string }{
		"rows":  {`{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[` + strings.Join(rows, ",") + `]}`, "Shown: rows 1 to 10 of 30."},
		"items": {`{"value":[` + strings.Join(items, ",") + `]}`, "5 more, not shown here."},
		"text":  {`{"value":"` + strings.Repeat("가", 100+7) + `"}`, "(7 more, not shown here)"},
	} {
		if got := seenOf(t, showValue(t, readValue(canon.Raw(c.raw), "", room{10, 50, 100}))); !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300q, without %q", name, got, c.want)
		}
	}
}

// Whatever JSON a value is, it is shown, and a number in it with its digits.
func TestEveryValueIsShown(t *testing.T) {
	var value func(*rapid.T, int) string
	value = func(t *rapid.T, depth int) string {
		switch k := rapid.IntRange(0, 7).Draw(t, "kind"); {
		case k < 4 || depth == 0:
			return rapid.SampledFrom([]string{`1`, `-2.5e300`, `true`, `null`, `"가나"`, `"\u0000<&"`, `{"unit":"m","value":1}`}).Draw(t, "leaf")
		case k < 6:
			var out []string
			for range rapid.IntRange(0, 5).Draw(t, "n") {
				out = append(out, value(t, depth-1))
			}
			return `[` + strings.Join(out, ",") + `]`
		default:
			var out []string
			for _, key := range []string{"columns", "rows", "value", "unit", "k"}[:rapid.IntRange(0, 5).Draw(t, "n")] {
				out = append(out, fmt.Sprintf(`%q:%s`, key, value(t, depth-1)))
			}
			return `{` + strings.Join(out, ",") + `}`
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := value(t, 11)
		v := readValue(canon.Raw(text), "", room{3, 3, 3})
		showValue(t, v)
		if strings.Contains(text, "-2.5e300") && jsontext.Value(text).Kind() == '0' && v.Digits != "-2.5e300" {
			t.Fatalf("%s is shown as %+v", text, v)
		}
	})
}

// Numbers of a column stand below each other at their points, whatever is behind them.
func TestNumbersOfAColumnAreAligned(t *testing.T) {
	v := readValue(canon.Raw(`{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[[1],[-12.5],[3e-7],[null]]}`), "", beside)
	for i, want := range []Cell{{"1", "", true, false, 3}, {"-12", ".5", true, false, 3}, {"3", "e-7", true, false, 3}, {"null", "", false, true, 3}} {
		if got := v.Table.Cells[i][0]; got != want {
			t.Errorf("row %d: %+v, not %+v", i, got, want)
		}
	}
}

func TestATableIsDrawnByItsUnits(t *testing.T) {
	raw := canon.Raw(`{"columns":[{"columnKey":"case","type":"string"},{"columnKey":"x","type":"number","unit":"m"},{"columnKey":"a","type":"number","unit":"kN"},` +
		`{"columnKey":"n","type":"integer"},{"columnKey":"b","type":"number","unit":"kN"}],"rows":[["p",1,2,3,4],["q",2,null,4,5]]}`)
	d := readValue(raw, "", little).Table.draw("t", "table", "")
	if d == nil || len(d.Plots) != 2 || d.Over != "x" || len(d.Could) != 4 {
		t.Fatalf("%+v", d)
	}
	if text := seenOf(t, string(d.Plots[0])); !strings.Contains(text, "a, b [kN]") || !strings.Contains(text, "x [m]") || !strings.Contains(text, "1 point without a value") || !strings.Contains(text, "5 kN at 2 m") {
		t.Errorf("%s", text)
	}
	if d := readValue(raw, "", little).Table.draw("t", "table", "#"); len(d.Plots) != 3 || d.Over != "" {
		t.Errorf("over the number of the row: %+v", d)
	}
	if d := readValue(canon.Raw(`{"columns":[{"columnKey":"case","type":"string"}],"rows":[["p"]]}`), "", little).Table.draw("t", "", ""); d != nil {
		t.Errorf("texts are drawn: %+v", d)
	}
	many := `{"columns":[{"columnKey":"x","type":"number","unit":"m"}`
	row := "1"
	for i := range maxPlots + 2 {
		many += fmt.Sprintf(`,{"columnKey":"c%d","type":"number","unit":"m^%d"}`, i, i+2)
		row += ",1"
	}
	if d := readValue(canon.Raw(many+`],"rows":[[`+row+`]]}`), "", little).Table.draw("t", "", ""); len(d.Plots) != maxPlots || len(d.Left) != 2 {
		t.Errorf("many units: %d plots, without %v", len(d.Plots), d.Left)
	}
}

func TestLabelsAreInTheLanguageThatIsAskedFor(t *testing.T) {
	label := map[string]string{"en": "Girder", "ko": "거더", "de-CH": "Träger"}
	for name, c := range map[string]struct {
		header, cookie string
		label          map[string]string
		want           Words
	}{
		"Korean":                        {"ko-KR,ko;q=0.9,en;q=0.8", "", label, Words{"거더", "ko"}},
		"English":                       {"en-US,en;q=0.5", "", label, Words{"Girder", "en"}},
		"nothing":                       {"", "", label, Words{"Girder", "en"}},
		"another region":                {"de-AT", "", label, Words{"Träger", "de-CH"}},
		"by weight":                     {"en;q=0.1, ko;q=0.2", "", label, Words{"거더", "ko"}},
		"not wanted":                    {"ko;q=0", "", label, Words{"Girder", "en"}},
		"chosen here":                   {"en", "ko", label, Words{"거더", "ko"}},
		"chosen, and not offered":       {"ko", "xx", label, Words{"거더", "ko"}},
		"a language that the label has": {"fr", "", map[string]string{"ja": "桁"}, Words{"桁", "ja"}},
		"no label":                      {"ko", "", nil, Words{Text: "girder_check"}},
		"rubbish":                       {";;q=,,*;q=x,\x00", "", label, Words{"Girder", "en"}},
	} {
		in := &event.Request{Headers: map[string]string{"accept-language": c.header, "x-forwarded-proto": "http"}}
		if c.cookie != "" {
			in.Cookies = []string{languageCookie + "=" + c.cookie}
		}
		v := &Visit{languages: languages(in)}
		if got := v.words(c.label, "girder_check"); got != c.want {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
	if got := (Words{"<b>", "ko"}).HTML(); got != `<span lang="ko">&lt;b&gt;</span>` {
		t.Error(got)
	}
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"unit":"m","value":1}`, `{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[[1]]}`, `[[[]]]`, `{"value":{"value":{"value":1}}}`, `nul`} {
		f.Add(seed, "kN", 3)
	}
	f.Fuzz(func(t *testing.T, raw, unit string, rows int) {
		v := readValue(canon.Raw(raw), unit, room{max(0, rows%5), 3, 3})
		showValue(t, v)
		v.Table.draw("t", raw, unit)
	})
}

// Bounds are told as engineers write them, and none of them is left out.
//
// covers: D1
func TestBoundsAreToldWithTheirSigns(t *testing.T) {
	a, b, n, m, pattern := 34.0, 1e-7, 2, 8, "^A"
	for want, c := range map[string]quantity.Constraints{
		"":             {},
		"> 34":         {ExclusiveMinimum: &a},
		"≥ 1e-7, < 34": {Minimum: &b, ExclusiveMaximum: &a},
		"> 1e-7, ≤ 34": {ExclusiveMinimum: &b, Maximum: &a},
		"at least 2 characters, at most 8 characters, matches ^A": {MinLength: &n, MaxLength: &m, Pattern: &pattern},
		"at least 2 items, at most 8 items":                       {MinItems: &n, MaxItems: &m},
	} {
		if got := bounds(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := reflect.TypeFor[quantity.Constraints]().NumField(); n != 9 {
		t.Errorf("a constraint has %d members, and 9 are told", n)
	}
}
