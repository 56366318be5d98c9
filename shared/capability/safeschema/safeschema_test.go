package safeschema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
)

// The suite that others made: a schema that is accepted means what it means there, and
// each other is refused at a place in it.
//
// covers: C4
func TestWhatIsAcceptedMeansWhatJSONSchemaMeans(t *testing.T) {
	data := os.Getenv("PX_TESTDATA")
	if data == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PX_TESTDATA is not set")
		}
		t.Skip("PX_TESTDATA names the folder of test suites that others made; it is not set")
	}
	files, err := filepath.Glob(filepath.Join(data, "JSON-Schema-Test-Suite/tests/draft2020-12/*.json"))
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	accepted, cases, refused := 0, 0, 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatal(name, err)
		}
		for _, g := range groups {
			// The suite's schemas are of any value and name their dialect; ours are of
			// objects. A schema stands here as that of the one member.
			var members map[string]json.RawMessage
			wrapped := []byte(`{"type":"object","properties":{"x":` + string(g.Schema) + `}}`)
			if json.Unmarshal(g.Schema, &members) == nil {
				delete(members, "$schema")
				delete(members, "$comment")
				defs := members["$defs"]
				delete(members, "$defs")
				inner, err := json.Marshal(members)
				if err != nil {
					t.Fatal(err)
				}
				wrapped = []byte(`{"type":"object","properties":{"x":` + string(inner) + `}}`)
				if defs != nil {
					wrapped = []byte(`{"type":"object","$defs":` + string(defs) + `,"properties":{"x":` + string(inner) + `}}`)
				}
			}
			wrapped, err := canon.Canonicalize(wrapped)
			if err != nil {
				continue // a number beyond binary64
			}
			if findings := safeschema.Check(wrapped, "/input_schema"); findings != nil {
				refused++
				if !strings.HasPrefix(findings[0].Path, "/input_schema") {
					t.Errorf("%s: %s: refused at %s", filepath.Base(name), g.Description, findings[0].Path)
				}
				if _, err := safeschema.Compile(wrapped); err == nil {
					t.Errorf("%s: %s: refused and compiled", filepath.Base(name), g.Description)
				}
				continue
			}
			accepted++
			s, err := safeschema.Compile(wrapped)
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(name), g.Description, err)
				continue
			}
			for _, c := range g.Tests {
				value, err := canon.Canonicalize([]byte(`{"x":` + string(c.Data) + `}`))
				if err != nil {
					continue
				}
				cases++
				violations, err := s.Validate(value)
				// In the suite a format is a remark; here it is a rule.
				if err != nil || (violations == nil) != c.Valid && !(c.Valid && slices.ContainsFunc(violations, func(v safeschema.Violation) bool { return v.Keyword == "format" })) {
					t.Errorf("%s: %s: %s: %v %v, want valid %v", filepath.Base(name), g.Description, c.Description, violations, err, c.Valid)
				}
			}
		}
	}
	t.Logf("%d schemas accepted with %d cases, %d refused", accepted, cases, refused)
	if accepted < 80 || cases < 400 || refused < 150 {
		t.Error("the suite is not what it was")
	}
}

// covers: C4
func TestWhatIsOutsideIsRefusedAtItsPlace(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 17) + `{}` + strings.Repeat(`}`, 17)
	double := `"a0":{"type":"string"}`
	for i := 1; i <= 30; i++ {
		double += fmt.Sprintf(`,"a%d":{"properties":{"l":{"$ref":"#/$defs/a%d"},"r":{"$ref":"#/$defs/a%d"}}}`, i, i-1, i-1)
	}
	var many strings.Builder
	for i := range 512 {
		fmt.Fprintf(&many, `,"p%d":{}`, i)
	}
	for text, want := range map[string]string{
		`{"type":"object"}`:                          "",
		`{"type":"object","title":"x","default":{}}`: "",
		`{"type":"string"}`:                          "/s/type object_root",
		`{"type":["object","null"]}`:                 "/s/type object_root",
		`{}`:                                         "/s/type object_root",
		`[]`:                                         "/s type",
		`true`:                                       "/s type",
		`{"type":"object"`:                           "/s json",
		`{"type":"object","type":"object"}`:          "/s json",
		`{"type":"object","x-y":1}`:                  "/s/x-y keyword",
		`{"type":"object","allOf":[{}]}`:             "/s/allOf keyword",
		`{"type":"object","not":{}}`:                 "/s/not keyword",
		`{"type":"object","patternProperties":{}}`:   "/s/patternProperties keyword",
		`{"type":"object","$id":"http://a.b/c"}`:     "/s/$id keyword",
		`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`:                                                 "/s/$schema keyword",
		`{"type":"object","properties":{"a/b":{"multipleOf":2}}}`:                                                               "/s/properties/a~1b/multipleOf keyword",
		`{"type":"object","properties":{"a":{"$defs":{}}}}`:                                                                     "/s/properties/a/$defs keyword",
		`{"type":"object","properties":{"a":{"$ref":"https://evil.com/x"}}}`:                                                    "/s/properties/a/$ref local_ref",
		`{"type":"object","$defs":{"a~2b":{}},"properties":{"a":{"$ref":"#/$defs/a~2b"}}}`:                                      "/s/properties/a/$ref local_ref",
		`{"type":"object","$defs":{"a~":{}},"properties":{"a":{"$ref":"#/$defs/a~"}}}`:                                          "/s/properties/a/$ref local_ref",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                                                     "/s/properties/a/$ref local_ref",
		`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`:                                                        "/s/properties/a/$ref local_ref",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:                                                    "/s/properties/a/$ref local_ref",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`:                                                             "/s/properties/a/$ref ",
		`{"type":"object","$defs":{"b":{"items":{"$ref":"#/$defs/b"}}}}`:                                                        "/s recursion",
		`{"type":"object","$defs":{"b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/b"}},"properties":{"a":{"$ref":"#/$defs/b"}}}`: "/s recursion",
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:                                                                  "/s/properties/a/pattern pattern",
		`{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`:                                                              "/s/properties/a/pattern pattern",
		`{"type":"object","properties":{"a":{"pattern":"(a)\\1"}}}`:                                                             "/s/properties/a/pattern pattern",
		`{"type":"object","properties":{"a":{"format":"hostname"}}}`:                                                            "/s/properties/a/format format",
		`{"type":"object","properties":{"a":{"oneOf":[]}}}`:                                                                     "/s/properties/a/oneOf type",
		`{"type":"object","properties":{"a":{"anyOf":[{},{},{},{},{},{},{},{},{}]}}}`:                                           "/s/properties/a/anyOf ",
		`{"type":"object","properties":{"a":{"type":"float"}}}`:                                                                 "/s/properties/a/type enum",
		`{"type":"object","properties":{"a":{"type":[]}}}`:                                                                      "/s/properties/a/type enum",
		`{"type":"object","properties":{"a":{"minLength":-1}}}`:                                                                 "/s/properties/a/minLength type",
		`{"type":"object","properties":{"a":{"minLength":1.5}}}`:                                                                "/s/properties/a/minLength type",
		`{"type":"object","properties":{"a":{"minimum":"1"}}}`:                                                                  "/s/properties/a/minimum type",
		`{"type":"object","required":["a","a"]}`:                                                                                "/s/required/1 unique_strings",
		`{"type":"object","required":"a"}`:                                                                                      "/s/required type",
		`{"type":"object","properties":{"a":{"enum":[]}}}`:                                                                      "/s/properties/a/enum type",
		`{"type":"object","properties":{"a":` + deep + `}}`:                                                                     "depth",
		`{"type":"object","$defs":{` + double + `}}`:                                                                            "/s ",
		`{"type":"object","properties":{"p":{}` + many.String() + `}}`:                                                          "/s ",
		`{"type":"object","description":"` + strings.Repeat("x", 10<<20) + `"}`:                                                 "/s ",
	} {
		findings := safeschema.Check(canon.Raw(text), "/s")
		var got []string
		for _, f := range findings {
			rule, _ := f.Params["rule"].(string)
			got = append(got, f.Path+" "+rule)
		}
		switch {
		case want == "":
			if findings != nil {
				t.Errorf("%.80s: %v", text, got)
			}
		case want == "depth":
			if len(findings) == 0 || findings[0].Params["of"] != "depth" {
				t.Errorf("%.80s: %v", text, findings)
			}
		case !slices.Contains(got, want):
			t.Errorf("%.80s: %v, want %q", text, got, want)
		}
	}
}

// All findings come at once.
func TestEveryFindingIsTold(t *testing.T) {
	findings := safeschema.Check(canon.Raw(`{"type":"object","allOf":[],"properties":{"a":{"format":"x"},"b":{"$ref":"#/$defs/c"}},"required":[1]}`), "")
	if len(findings) != 4 {
		t.Errorf("%d: %v", len(findings), findings)
	}
}

func compile(t *testing.T, text string) *safeschema.Schema {
	t.Helper()
	s, err := safeschema.Compile(canon.Raw(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// covers: C4
func TestAVerdictQuotesNothing(t *testing.T) {
	s := compile(t, `{"type":"object","required":["n"],"additionalProperties":false,"properties":{"n":{"type":"integer","maximum":5},
		"s":{"type":"string","pattern":"^a$"},"m":{"type":"object","additionalProperties":{"type":"number"}},"l":{"type":"array","items":{"enum":["x"]}},"o":{"oneOf":[{"type":"string"},{"const":3}]}}}`)
	violations, err := s.Validate(canon.Raw(`{"s":"secret","m":{"secret":"secret"},"l":["x","secret"],"o":{"secret":1},"secret":1}`))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(violations)
	if strings.Contains(text, "secret") {
		t.Error(text)
	}
	want := "[{ additionalProperties []} { required [n]} {/l/1 enum []} {/m/* type []} {/o oneOf []} {/s pattern []}]"
	if text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestFormatsAreRules(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"d":{"format":"date"},"t":{"format":"date-time"},"e":{"format":"email"},"u":{"format":"uri"}}}`)
	for value, ok := range map[string]bool{
		`{"d":"2026-02-28"}`: true, `{"d":"2026-02-30"}`: false, `{"t":"2026-11-30T10:00:00Z"}`: true, `{"t":"2026-11-30 10:00"}`: false,
		`{"e":"a@b.com"}`: true, `{"e":"a"}`: false, `{"u":"https://a.b/c"}`: true, `{"u":"a b"}`: false, `{"d":3}`: true,
	} {
		if violations, err := s.Validate(canon.Raw(value)); err != nil || (violations == nil) != ok {
			t.Errorf("%s: %v %v", value, violations, err)
		}
	}
}

// A pattern takes time that grows with the text alone.
func TestAPatternCannotBeMadeSlow(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"s":{"pattern":"^(a+)+$"}}}`)
	began := time.Now()
	if violations, err := s.Validate(canon.Raw(`{"s":"` + strings.Repeat("a", 100_000) + `!"}`)); err != nil || len(violations) != 1 {
		t.Error(violations, err)
	}
	if time.Since(began) > 10*time.Second { // an engine that backtracks would not end
		t.Error("it is slow")
	}
}

// covers: C4
func TestAPathThatTheSchemaDoesNotHaveIsSeen(t *testing.T) {
	s := compile(t, `{"type":"object","$defs":{"i":{"type":"object","properties":{"title":{"type":"string"}},"additionalProperties":false}},"properties":{
		"items":{"type":"array","items":{"$ref":"#/$defs/i"}},"free":{"type":"object"},"map":{"type":"object","additionalProperties":{"$ref":"#/$defs/i"}},
		"either":{"oneOf":[{"type":"null"},{"$ref":"#/$defs/i"}]},"open":{"type":"object","properties":{"a":{}},"additionalProperties":true},"n":{"type":"number"}}}`)
	for path, want := range map[string]bool{
		"items": true, "items.0": true, "items.*.title": true, "items.3.title": true, "items.title": false, "items.0.titel": false, "items.0.title.x": false,
		"free.a.b": true, "map.k.title": true, "map.k.x": false, "either.title": true, "either.x": false, "open.b.c": true, "open.a.b": true, "n": true, "n.x": false, "itmes": false,
	} {
		if got := s.Has(strings.Split(path, ".")); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !s.Has(nil) {
		t.Error("the whole is there")
	}
}

func TestACacheGivesTheSameSchema(t *testing.T) {
	var c safeschema.Cache
	a, err := c.Schema(canon.Raw(`{"type":"object"}`))
	b, err2 := c.Schema(canon.Raw(`{"type":"object"}`))
	if a != b || a == nil || err != nil || err2 != nil {
		t.Error(a, b, err, err2)
	}
	if _, err := c.Schema(canon.Raw(`{}`)); err == nil {
		t.Error("a schema that is refused is compiled")
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"type":"object"}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"enum":[1]}}}`, `{"type":"object","anyOf":[{},{"pattern":"a"}]}`, `[`, `{"$ref":"#/$defs/~1"}`} {
		f.Add(text, `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if safeschema.Check(canon.Raw(text), "") != nil {
			return
		}
		s, err := safeschema.Compile(canon.Raw(text))
		if err != nil {
			t.Fatalf("accepted and not compiled: %v", err)
		}
		if canon.Check([]byte(value)) == nil {
			if _, err := s.Validate(canon.Raw(value)); err != nil {
				t.Error(err)
			}
		}
	})
}
