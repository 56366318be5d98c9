package readable_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/infra/px/readable"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool/catalog"
)

func shown(t testing.TB, envelope string, columns int, more readable.More) string {
	t.Helper()
	var out strings.Builder
	if err := readable.Envelope(&term.Screen{Writer: &out, Columns: columns}, []byte(envelope), more); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func ok(data string) string {
	return `{"ok":true,"data":` + data + `,"diagnostics":[],"resources":[]}`
}

// The forms that all answers share.
//
// covers: W10
func TestForms(t *testing.T) {
	const scope = `{"kind":"project","workspaceKey":"w","projectKey":"p"}`
	for _, c := range []struct{ name, envelope, want string }{
		{"values have their units and every digit", ok(`{"resultKey":"m","value":{"value":806.5333333333334,"unit":"kip*ft"},"list":{"value":[1,2.50],"unit":"m"},"u":{"value":0.3,"unit":"1"}}`),
			"resultKey  m\nvalue      806.5333333333334 kip*ft\nlist       (1, 2.50) m\nu          0.3 (unit 1)\n"},
		{"a table has its units in its head, and wide letters stand below each other", ok(`{"value":{"value":{"columns":[{"columnKey":"case","type":"string"},{"columnKey":"m","type":"number","unit":"kN*m"}],"rows":[["거더",1],["b",-10.25],["c",null]]}}}`),
			"value\n  case  m [kN*m]\n  거더         1\n  b       -10.25\n  c         null\n"},
		{"hits have their key, and their exact target to copy", ok(`{"items":[{"target":{"scope":` + scope + `,"flowKey":"beam","revisionRef":"sha256:1"},"generation":3,"label":{"en":"Beam","ko":"보"}}]}`),
			"items (1)\n  flow  generation  label\n  beam           3  Beam · 보\n    target  {\"scope\":{\"kind\":\"project\",\"workspaceKey\":\"w\",\"projectKey\":\"p\"},\"flowKey\":\"beam\",\"revisionRef\":\"sha256:1\"}\n"},
		{"nothing found", ok(`{"items":[],"appliedLimit":25}`), "items  none\n"},
		{"ports by their keys", ok(`{"inputs":{"a":{"type":"number","unit":"ft","shape":"scalar"},"b":{"type":"string","shape":"scalar"}}}`),
			"inputs\n  key  type    unit  shape\n  a    number  ft    scalar\n  b    string        scalar\n"},
		{"a diff", ok(`{"diff":[{"op":"replace","path":"/label","before":{"en":"a"},"after":{"en":"b"}},{"op":"replace","path":"/source","unified":"@@ -1 +1 @@\n-return a\n+return b\n"}]}`),
			"diff (2)\n  replace /label\n    - {\"en\":\"a\"}\n    + {\"en\":\"b\"}\n  replace /source\n    @@ -1 +1 @@\n    -return a\n    +return b\n"},
		{"text of several lines", ok(`{"text":"one\ntwo\u001b[2J"}`), "text\n  | one\n  | two\\u{1b}[2J\n"},
		{"a page", ok(`{"items":[1],"nextCursor":"c","appliedLimit":1,"truncation":{"truncated":true,"reason":"page_limit"}}`),
			"items  1\n\nThis is not all: it is one page of at most 1.\n  the next part:  NEXT\n  all parts:      ALL\n"},
		{"a cut", ok(`{"items":[1],"truncation":{"truncated":true,"budget":"bytes","limit":900,"observed":4000,"continuation":{"member":"cursor","value":"x"}}}`),
			"items  1\n\nThis is not all: it is cut by the budget of bytes, limit 900, of 4000 in all.\n  the next part:  NEXT\n  all parts:      ALL\n"},
		{"a refusal says what it means and what to do", `{"ok":false,"data":null,"resources":[],"diagnostics":[{"code":"PX_APPROVAL_REQUIRED","path":"/planRef","severity":"error","retryable":false,"params":{"planRef":"plan_1"},"suggestedAction":"REQUEST_APPROVAL","diagnosticId":"ID"}]}`,
			"error PX_APPROVAL_REQUIRED at /planRef\n  The Project's policy asks for an approval of this plan.\n  planRef  plan_1\n  next  a reviewer looks at it and decides:\n          px review plan_1\n          px approve plan_1\n        then the same again with the approvalRef that px approve prints (--approval)\n  id    ID\n"},
		{"a code of another contract", `{"ok":false,"data":null,"resources":[],"diagnostics":[{"code":"NEW","path":"","severity":"error","params":{"n":9007199254740993},"suggestedAction":"DO_THIS","diagnosticId":""}]}`,
			"error NEW\n  n  9007199254740993\n  next  DO_THIS\n"},
		{"links", `{"ok":true,"data":{},"diagnostics":[],"resources":[{"uri":"/v1/r","mediaType":"text/plain","bytes":3}]}`,
			"resources\n  uri    mediaType   bytes\n  /v1/r  text/plain      3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shown(t, c.envelope, 110, readable.More{Next: "NEXT", All: "ALL"}); got != c.want {
				t.Errorf("shown as\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	for _, text := range []string{``, `[]`, `{}`, `{"data":{}}`} {
		if readable.Envelope(&term.Screen{Writer: &strings.Builder{}, Columns: 80}, []byte(text), readable.More{}) == nil {
			t.Errorf("%q is shown as an answer", text)
		}
	}
}

// Colour is never the only sign: without it nothing else is shown.
//
// covers: W10
func TestColourAddsNothing(t *testing.T) {
	envelope := `{"ok":true,"data":{"diff":[{"op":"replace","path":"/a","before":1,"after":2,"unified":"+++ b\n-x\n+y\n@@ 1 @@\n z\n"}],"nextCursor":"c"},"resources":[],"diagnostics":[{"code":"PX_UNIT_CONVERTED","severity":"info","path":"/x","params":{}}]}`
	var coloured strings.Builder
	if err := readable.Envelope(&term.Screen{Writer: &coloured, Columns: 80, Colour: true}, []byte(envelope), readable.More{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[31m- 1\x1b[0m", "\x1b[32m+ 2\x1b[0m", "\x1b[31m-x\x1b[0m", "\x1b[32m+y\x1b[0m", "\x1b[36m@@ 1 @@\x1b[0m", "\x1b[1m+++ b\x1b[0m"} {
		if !strings.Contains(coloured.String(), want) {
			t.Errorf("%q is not in\n%q", want, coloured.String())
		}
	}
	if got, want := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), ""), shown(t, envelope, 80, readable.More{}); got != want {
		t.Errorf("without its colours it is\n%s\nwant\n%s", got, want)
	}
}

// squeeze is a text without what lays it out.
func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '|' {
			return -1
		}
		return r
	}, text)
}

// leaves are the texts and numbers of a value, as they have to be shown.
func leaves(v any, out *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			leaves(m, out)
		}
	case []any:
		for _, e := range v {
			leaves(e, out)
		}
	case string:
		for line := range strings.Lines(v) {
			*out = append(*out, squeeze(term.Plain(strings.TrimSuffix(line, "\n"))))
		}
	case json.Number:
		*out = append(*out, v.String())
	}
}

// Whatever a tool's schema allows, every text and number of an answer is shown whole, in
// any width, and nothing of it is a control character: the tools that there are are shown
// by what their answers are made of (W10).
//
// covers: W10
func TestEveryToolIsShownWhole(t *testing.T) {
	var tools []struct {
		Name         string
		OutputSchema struct{ Properties map[string]any }
	}
	if err := json.Unmarshal(catalog.JSON, &tools); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		tool := rapid.SampledFrom(tools).Draw(t, "tool")
		data := sample(t, tool.OutputSchema.Properties["data"], "data", 0)
		object, isObject := data.(map[string]any)
		if !isObject {
			t.Fatalf("data of %s is %T", tool.Name, data)
		}
		for _, told := range []string{"truncation", "nextCursor", "appliedLimit"} {
			delete(object, told)
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := readable.Envelope(&term.Screen{Writer: &out, Columns: rapid.SampledFrom([]int{20, 60, 100, 300}).Draw(t, "columns")}, []byte(ok(string(text))), readable.More{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%U reaches the terminal: %q", r, out.String())
			}
		}
		var want []string
		leaves(object, &want)
		got := squeeze(out.String())
		for _, leaf := range want {
			if !strings.Contains(got, leaf) {
				t.Fatalf("%q is not shown in\n%s\nof %s", leaf, out.String(), text)
			}
		}
	})
}

// sample draws a value of a schema; where a schema allows anything, any of the forms.
func sample(t *rapid.T, schema any, name string, depth int) any {
	s, _ := schema.(map[string]any)
	text := rapid.OneOf(rapid.StringMatching(`[a-z가-힣 ]{0,12}`), rapid.SampledFrom([]string{"a\x1b[2Jb", "x\u202ey", "one\ntwo", "sha256:0011223344556677889900112233445566778899", "거더", strings.Repeat("long word ", 30)}))
	number := rapid.Custom(func(t *rapid.T) any {
		return json.Number(rapid.SampledFrom([]string{"0", "-1.5", "9007199254740993", "1e-7", "806.5333333333334"}).Draw(t, "number"))
	})
	kind := fmt.Sprint(s["type"])
	switch {
	case strings.Contains(kind, "object"), s["properties"] != nil:
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		var names []string
		for n := range properties {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			if depth == 0 || rapid.Bool().Draw(t, n) {
				out[n] = sample(t, properties[n], n, depth+1)
			}
		}
		if properties == nil {
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				out[rapid.StringMatching(`[a-z]{1,30}`).Draw(t, "name")] = sample(t, nil, "", depth+1)
			}
		}
		return out
	case kind == "array":
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			out = append(out, sample(t, s["items"], name, depth+1))
		}
		return out
	case kind == "integer", kind == "number":
		return number.Draw(t, "number")
	case kind == "boolean":
		return rapid.Bool().Draw(t, "truth")
	case kind == "string":
		return text.Draw(t, "text")
	}
	if depth > 4 {
		return text.Draw(t, "text")
	}
	switch rapid.IntRange(0, 9).Draw(t, "form") {
	case 0:
		return map[string]any{"value": number.Draw(t, "number"), "unit": rapid.SampledFrom([]string{"1", "kN*m"}).Draw(t, "unit")}
	case 1:
		return map[string]any{"value": map[string]any{"columns": []any{map[string]any{"columnKey": "a", "unit": "m"}}, "rows": []any{[]any{number.Draw(t, "number"), text.Draw(t, "text")}, []any{}}}}
	case 2:
		return []any{map[string]any{"op": "replace", "path": "/a", "before": number.Draw(t, "before"), "after": number.Draw(t, "after")}}
	case 3:
		return map[string]any{"scope": map[string]any{"kind": "project", "workspaceKey": "w", "projectKey": "p"}, "flowKey": "f", "revisionRef": "sha256:x"}
	case 4:
		return map[string]any{"en": text.Draw(t, "en"), "ko": text.Draw(t, "ko")}
	case 5, 6:
		return sample(t, map[string]any{"type": "object"}, name, depth+1)
	case 7:
		return sample(t, map[string]any{"type": "array"}, name, depth+1)
	case 8:
		return number.Draw(t, "number")
	}
	return text.Draw(t, "text")
}

// Each step that a diagnostic can suggest is one that a person can take.
//
// covers: W10
func TestEveryActionHasAStep(t *testing.T) {
	for _, code := range outcome.Codes() {
		d := outcome.New(code, "", nil)
		if step := readable.Step(d); step == d.SuggestedAction && step != "" {
			t.Errorf("%s: %s is not said in words", code, step)
		}
	}
	for _, action := range []string{outcome.RaiseBudget, outcome.ChangePythonPin, "CORRECT_SOURCE"} {
		if step := readable.Step(outcome.Diagnostic{SuggestedAction: action}); step == action || step == "" {
			t.Errorf("%s is not said in words", action)
		}
	}
}
