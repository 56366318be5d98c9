package template_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability/template"
)

func read(t *testing.T, text string) template.Arguments {
	t.Helper()
	canonical, err := canon.Canonicalize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a, err := template.Read(canonical)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// rule is that of an ArgumentError, which must not quote anything.
func rule(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	failed := (*template.ArgumentError)(nil)
	if !errors.As(err, &failed) || strings.Contains(err.Error(), "secret") {
		t.Fatal(err)
	}
	return failed.Rule + " " + failed.Name
}

// covers: A1
func TestATextTakesArgumentsAndNothingElse(t *testing.T) {
	a := read(t, `{"query":"경간 {arguments.n}","n":0,"b":false,"s":"","x":1e21,"null":null,"l":["secret"],"o":{"secret":1},"__proto__":"p"}`)
	for text, want := range map[string]string{
		"요청을 다음 형식으로 정리합니다: {query}": "요청을 다음 형식으로 정리합니다: 경간 {arguments.n}", // once: what is put in is no template
		"no placeholder": "no placeholder",
		"":               "",
		"{arguments.n}{arguments.b}|{arguments.s}|{arguments.x}": "0false||1e+21",
		"{arguments.query}":     "경간 {arguments.n}",
		"{arguments.__proto__}": "p",
	} {
		parsed, err := template.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := parsed.Render(a); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"{arguments.none}": "missing none", "a {arguments.null}": "missing null", "{arguments.l}": "not_scalar l", "{arguments.o}": "not_scalar o", "{arguments.constructor}": "missing constructor",
	} {
		parsed, err := template.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsed.Render(a); rule(t, err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"{{query}}", "{", "}", "{query", "query}", "{Query}", "{ query }", "{query|upper}", "{arguments}", "{arguments.}", "{arguments.a.b}", "{arguments[0]}", "{arguments.a b}",
		"{arguments." + strings.Repeat("a", 65) + "}", "{1+1}", "${query}{", "{{arguments.n}}", "{%if%}", "{arguments.é}"} {
		if _, err := template.Parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// covers: A5
func TestAWholeValueKeepsItsType(t *testing.T) {
	a := read(t, `{"query":"q","zero":0,"no":false,"empty":"","null":null,"list":[1,"a"],"object":{"a":1}}`)
	for text, want := range map[string]string{
		`{"query":"{query}"}`: `{"query":"q"}`,
		`{"a":"{arguments.zero}","b":"{arguments.no}","c":"{arguments.empty}","d":"{arguments.null}"}`: `{"a":0,"b":false,"c":"","d":null}`,
		`{"a":"{arguments.list}","b":"{arguments.object}"}`:                                            `{"a":[1,"a"],"b":{"a":1}}`,
		`{"a":"n={arguments.zero}"}`:                                                                   `{"a":"n=0"}`,
		`{"a":"{arguments.none}","b":1}`:                                                               `{"b":1}`,
		`[1,"{query}",[true,null]]`:                                                                    `[1,"q",[true,null]]`,
		`"{arguments.object}"`:                                                                         `{"a":1}`,
		`{"{x}":1}`:                                                                                    `{"{x}":1}`, // a name is no text
		`{}`:                                                                                           `{}`,
		`[]`:                                                                                           `[]`,
		`7`:                                                                                            `7`,
	} {
		v, findings := template.ParseValue(canon.Raw(text), "/b")
		if findings != nil {
			t.Errorf("%s: %v", text, findings)
			continue
		}
		if got, err := v.Render(a); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`["{arguments.none}"]`: "missing none", `{"a":"x {arguments.none}"}`: "missing none", `{"a":{"b":"x {arguments.list}"}}`: "not_scalar list", `"{arguments.none}"`: "missing none",
	} {
		v, findings := template.ParseValue(canon.Raw(text), "/b")
		if findings != nil {
			t.Fatal(findings)
		}
		if _, err := v.Render(a); rule(t, err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, findings := template.ParseValue(canon.Raw(`{"a/b":["{{x}}",{"c":"}"}],"d":"ok"}`), "/body")
	if len(findings) != 2 || findings[0].Path != "/body/a~1b/0" || findings[1].Path != "/body/a~1b/1/c" {
		t.Error(findings)
	}
}

func params(t *testing.T, of map[string]string) template.Params {
	t.Helper()
	raw := map[string]canon.Raw{}
	for name, text := range of {
		raw[name] = canon.Raw(text)
	}
	p, findings := template.ParseParams(raw, "/p")
	if findings != nil {
		t.Fatal(findings)
	}
	return p
}

// covers: A4
func TestParametersTakeThePlaceOfThoseOfTheSameName(t *testing.T) {
	a := read(t, `{"query":"a&b=c 경간","page":0,"no":false,"null":null,"list":["x",1,null,true],"empty":[]}`)
	for _, c := range []struct {
		query string
		of    map[string]string
		want  string
	}{
		{"per_page=2&sort=stars", map[string]string{"q": `"{query}"`, "page": `"{arguments.page}"`}, "per_page=2&sort=stars&page=0&q=a%26b%3Dc+%EA%B2%BD%EA%B0%84"},
		{"page=9&sort=a&page=8", map[string]string{"page": `"{arguments.page}"`}, "sort=a&page=0"},
		{"p%61ge=9", map[string]string{"page": `3`}, "page=3"},
		{"page=9", map[string]string{"page": `"{arguments.none}"`}, "page=9"},
		{"page=9", map[string]string{"page": `"{arguments.null}"`}, "page=9"},
		{"", map[string]string{"a": `"{arguments.list}"`, "b": `true`, "c": `["{arguments.no}","k","{arguments.none}",2]`, "d": `"{arguments.empty}"`}, "a=x&a=1&a=true&b=true&c=false&c=k&c=2"},
		{"", map[string]string{"a": `"n{arguments.none}"`, "b": `"n{arguments.page}"`}, "b=n0"},
		{"a=1&&b", nil, "a=1&b"},
		{"x=%zz", map[string]string{"a b": `"{arguments.page}"`}, "x=%zz&a+b=0"},
	} {
		got, err := params(t, c.of).Apply(c.query, a)
		if err != nil || got != c.want {
			t.Errorf("%s with %v: %q %v, want %q", c.query, c.of, got, err, c.want)
		}
	}
	if got, err := template.Query().Apply("a=1", a); err != nil || got != "a=1&query=a%26b%3Dc+%EA%B2%BD%EA%B0%84" {
		t.Errorf("%q %v", got, err)
	}
	for text, want := range map[string]string{`{"x":{"secret":1}}`: "not_list x", `{"x":[["secret"]]}`: "not_list x", `{"x":[{}]}`: "not_list x"} {
		if _, err := params(t, map[string]string{"a": `"{arguments.x}"`}).Apply("", read(t, text)); rule(t, err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := params(t, map[string]string{"a": `["{arguments.x}"]`}).Apply("", read(t, `{"x":["secret"]}`)); rule(t, err) != "not_list x" {
		t.Error(err)
	}
}

// covers: A4
func TestParametersAreBounded(t *testing.T) {
	names := func(n int) map[string]canon.Raw {
		of := map[string]canon.Raw{}
		for i := range n {
			of[fmt.Sprintf("n%d", i)] = canon.Raw(`1`)
		}
		return of
	}
	if _, findings := template.ParseParams(names(32), ""); findings != nil {
		t.Error(findings)
	}
	if _, findings := template.ParseParams(names(33), "/p"); len(findings) != 1 || findings[0].Path != "/p" {
		t.Error(findings)
	}
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for n, ok := range map[int]bool{64: true, 65: false} {
		if _, findings := template.ParseParams(map[string]canon.Raw{"a": canon.Raw(list(n))}, ""); (findings == nil) != ok {
			t.Errorf("%d values in the template: %v", n, findings)
		}
		_, err := params(t, map[string]string{"a": `"{arguments.l}"`}).Apply("", read(t, `{"l":`+list(n)+`}`))
		if (err == nil) != ok {
			t.Errorf("%d values of an argument: %v", n, err)
		}
	}
	// a= and 16 KiB less two; of 경, each of three bytes is written as three.
	for text, ok := range map[string]bool{strings.Repeat("x", 16<<10-2): true, strings.Repeat("x", 16<<10-1): false, strings.Repeat("경", 16382/9): true, strings.Repeat("경", 16382/9+1): false} {
		got, err := params(t, map[string]string{"a": `"{query}"`}).Apply("", read(t, `{"query":"`+text+`"}`))
		if (err == nil) != ok || ok && len(got) > 16<<10 {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	}
	// What is the same in every call is judged with the package.
	for n, ok := range map[int]bool{16<<10 - 2: true, 16<<10 - 1: false} {
		_, findings := template.ParseParams(map[string]canon.Raw{"a": canon.Raw(`"` + strings.Repeat("x", n) + `"`), "b": canon.Raw(`["{query}"]`)}, "/p")
		if (findings == nil) != ok || !ok && (len(findings) != 1 || findings[0].Path != "/p") {
			t.Errorf("%d bytes: %v", n, findings)
		}
	}
	_, findings := template.ParseParams(map[string]canon.Raw{"a": canon.Raw(`{}`), "b": canon.Raw(`null`), "c": canon.Raw(`[[1]]`), "d": canon.Raw(`[{}]`), "e": canon.Raw(`"{{"`), "": canon.Raw(`1`)}, "/p")
	var at []string
	for _, f := range findings {
		at = append(at, f.Path)
	}
	if !slices.Equal(at, []string{"/p/", "/p/a", "/p/b", "/p/c", "/p/d", "/p/e"}) {
		t.Error(findings)
	}
}

// Whatever is put in, a server that reads the query sees exactly the values, and the
// endpoint's own beside them.
func TestNoValueCanBecomeAnotherParameter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "values")
		text, err := canon.Encode(map[string]any{"l": values})
		if err != nil {
			t.Skip() // no JSON text
		}
		a, err := template.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := template.ParseParams(map[string]canon.Raw{"q": canon.Raw(`"{arguments.l}"`)}, "")
		query, err := p.Apply("fix=1&q=old", a)
		if err != nil {
			t.Skip()
		}
		got, err := url.ParseQuery(query)
		if err != nil || len(got) != 2 || !slices.Equal(got["q"], values) || !slices.Equal(got["fix"], []string{"1"}) {
			t.Fatalf("%q: %v %v", values, got, err)
		}
	})
}

func TestWhatIsNeededIsNamed(t *testing.T) {
	v, _ := template.ParseValue(canon.Raw(`{"a":"{query}","b":["{arguments.x} {arguments.y}"]}`), "")
	if got := v.Names(); !slices.Equal(got, []string{"query", "x", "y"}) {
		t.Error(got)
	}
	if got := params(t, map[string]string{"b": `["{arguments.z}"]`, "a": `"{query}"`}).Names(); !slices.Equal(got, []string{"query", "z"}) {
		t.Error(got)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{"a":"{query}"}`, `{"query":[1]}`)
	f.Add(`["{arguments.a}","x{arguments.b}"]`, `{"a":{"b":1},"b":true}`)
	f.Fuzz(func(t *testing.T, text, arguments string) {
		raw, err := canon.Canonicalize([]byte(text))
		given, err2 := canon.Canonicalize([]byte(arguments))
		if err != nil || err2 != nil {
			return
		}
		a, err := template.Read(given)
		v, findings := template.ParseValue(raw, "")
		if err != nil || findings != nil {
			return
		}
		if out, err := v.Render(a); err == nil && canon.Check(out) != nil {
			t.Errorf("%s", out)
		}
	})
}
