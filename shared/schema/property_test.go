package schema_test

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// everything has every form that the package reads.
type everything struct {
	_        struct{}           `desc:"Has every form."`
	Text     string             `json:"text" schema:"minLength=1,maxLength=8"`
	Key      string             `json:"key" schema:"pattern=key"`
	Color    color              `json:"color"`
	Whole    int64              `json:"whole"`
	Small    int32              `json:"small,omitzero" schema:"minimum=-5,maximum=5"`
	Number   float64            `json:"number"`
	Positive float64            `json:"positive,omitzero" schema:"exclusiveMinimum=0"`
	Yes      bool               `json:"yes"`
	When     time.Time          `json:"when"`
	Raw      canon.Raw          `json:"raw"`
	Nullable *float64           `json:"nullable"`
	Optional *inner             `json:"optional,omitzero"`
	Inner    inner              `json:"inner"`
	List     []inner            `json:"list" schema:"maxItems=3"`
	Bindings map[string]binding `json:"bindings"`
	Label    map[string]string  `json:"label" schema:"keys=language"`
	Union    binding            `json:"union"`
	Tree     *tree              `json:"tree,omitzero"`
	Copied   string             `json:"copied,omitzero" schema:"pattern=key,copied"`
}

type inner struct {
	A int64  `json:"a"`
	B string `json:"b"`
}

// tree is recursive.
type tree struct {
	Leaf     int64  `json:"leaf"`
	Children []tree `json:"children,omitzero"`
}

var (
	keys  = rapid.StringMatching(`[a-z][a-z0-9_]{0,9}`)
	exact = rapid.Int64Range(-(1<<53 - 1), 1<<53-1)
	float = rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) })
	text  = rapid.StringN(1, 8, -1)

	inners   = rapid.Custom(func(t *rapid.T) inner { return inner{exact.Draw(t, "a"), rapid.String().Draw(t, "b")} })
	anything = rapid.Custom(func(t *rapid.T) canon.Raw {
		v := rapid.SampledFrom([]any{nil, true, "x", 1.5, -3, []any{}, map[string]any{"flowId": []any{map[string]any{"a/b": 1}}}}).Draw(t, "value")
		text, err := canon.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
	bindings = rapid.Custom(func(t *rapid.T) binding {
		if rapid.Bool().Draw(t, "literal") {
			return literal{Value: anything.Draw(t, "value")}
		}
		return flowInput{PortKey: keys.Draw(t, "portKey")}
	})
)

func trees(depth int) *rapid.Generator[tree] {
	return rapid.Custom(func(t *rapid.T) tree {
		out := tree{Leaf: exact.Draw(t, "leaf")}
		if depth > 0 {
			out.Children = rapid.SliceOfN(trees(depth-1), 0, 2).Draw(t, "children")
		}
		return out
	})
}

var values = rapid.Custom(func(t *rapid.T) everything {
	v := everything{
		Text: text.Draw(t, "text"), Key: keys.Draw(t, "key"), Color: rapid.SampledFrom([]color{"red", "green"}).Draw(t, "color"),
		Whole: exact.Draw(t, "whole"), Small: rapid.Int32Range(-5, 5).Draw(t, "small"), Number: float.Draw(t, "number"),
		Positive: rapid.Float64Range(0, 1e300).Draw(t, "positive"), Yes: rapid.Bool().Draw(t, "yes"),
		When:     time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
		Raw:      anything.Draw(t, "raw"),
		Inner:    inners.Draw(t, "inner"),
		List:     rapid.SliceOfN(inners, 0, 3).Draw(t, "list"),
		Bindings: rapid.MapOfN(keys, bindings, 0, 3).Draw(t, "bindings"),
		Label:    rapid.MapOfN(rapid.SampledFrom([]string{"en", "ko", "zh-Hant-TW"}), rapid.String(), 0, 2).Draw(t, "label"),
		Union:    bindings.Draw(t, "union"),
	}
	if rapid.Bool().Draw(t, "nullable") {
		f := float.Draw(t, "number or null")
		v.Nullable = &f
	}
	if rapid.Bool().Draw(t, "optional") {
		i := inners.Draw(t, "optional inner")
		v.Optional = &i
	}
	if rapid.Bool().Draw(t, "tree") {
		r := trees(2).Draw(t, "the tree")
		v.Tree = &r
	}
	return v
})

// covers: E2
func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := canon.Encode(values.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var v everything
		if found := schema.Decode(want, &v); found != nil {
			t.Fatalf("%s: %q", want, places(found))
		}
		got, err := canon.Encode(v)
		if err != nil || string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s, %v", got, want, err)
		}
	})
}

// A change is one way to spoil a request, and the finding that must name it.
type change struct {
	at, want string
	apply    func(object map[string]any, name string)
}

// changes lists how each object of a request can be spoiled, in places that do
// not touch each other.
func changes(object map[string]any, at string, is string) []change {
	required := map[string][]string{
		"everything": {"text", "key", "color", "whole", "number", "yes", "when", "raw", "nullable", "inner", "list", "bindings", "label", "union"},
		"inner":      {"a", "b"},
	}[is]
	var out []change
	for _, name := range required {
		at := at + "/" + name
		out = append(out, change{at, "PX_SCHEMA_INVALID " + at + " required", func(o map[string]any, n string) { delete(o, n) }})
		if name != "raw" {
			out = append(out, change{at, "PX_SCHEMA_INVALID " + at + " type", func(o map[string]any, n string) { o[n] = spoil(o[n]) }})
		}
	}
	for _, name := range []string{"zzz", "Text", "flowId", "a/b~c", ""} {
		pointer := at + "/" + schema.Escape(name)
		want := "PX_SCHEMA_UNKNOWN_FIELD " + pointer
		if name == "flowId" {
			want += " legacy:flowId"
		}
		out = append(out, change{pointer, want, func(o map[string]any, _ string) { o[name] = "x" }})
	}
	return out
}

// spoil returns a value of a type that does not fit where v stood.
func spoil(v any) any {
	if _, isBool := v.(bool); isBool {
		return []any{1.0}
	}
	return true
}

// covers: E2, L1, N2
func TestEverySpoiledPlaceIsReportedHoweverManyThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := canon.Encode(values.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var request map[string]any
		if err := json.Unmarshal(text, &request); err != nil {
			t.Fatal(err)
		}
		var want []string
		spoiled := map[string]bool{}
		object := func(o map[string]any, at, is string) {
			list := changes(o, at, is)
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(list)-1), 0, 3, rapid.ID).Draw(t, "changes of "+at) {
				c := list[i]
				if spoiled[c.at] {
					continue
				}
				spoiled[c.at] = true
				c.apply(o, c.at[strings.LastIndexByte(c.at, '/')+1:])
				want = append(want, c.want)
			}
		}
		// The inner objects first: one that is spoiled as a whole reports itself
		// alone, so those are spoiled only where the outer change leaves them.
		type place struct {
			o  map[string]any
			at string
		}
		var inside []place
		inside = append(inside, place{request["inner"].(map[string]any), "/inner"})
		if o, ok := request["optional"].(map[string]any); ok {
			inside = append(inside, place{o, "/optional"})
		}
		for i, e := range request["list"].([]any) {
			inside = append(inside, place{e.(map[string]any), fmt.Sprintf("/list/%d", i)})
		}
		object(request, "", "everything")
		for _, p := range inside {
			top := "/" + strings.Split(p.at, "/")[1]
			if !spoiled[top] {
				object(p.o, p.at, "inner")
			}
		}
		bad, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		var v everything
		got := places(schema.Decode(bad, &v))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s\ngot  %q\nwant %q", bad, got, want)
		}
	})
}

// leftToTheDecoder tells a finding that the JSON Schema of everything does not
// make: those that Closed lists, and none else.
func leftToTheDecoder(d outcome.Diagnostic) bool {
	at := strings.Split(d.Path, "/")[1:]
	switch rule := d.Params["rule"]; {
	case rule == "minLength", rule == "maxLength", rule == "minItems", rule == "maxItems":
		return true
	case rule == "pattern" && len(at) == 2: // the form of a map's keys
		return at[0] == "bindings" || at[0] == "label"
	case rule == "pattern":
		return d.Path == "/copied"
	case d.Code == outcome.SchemaUnknownField && len(at) > 1: // where all members are required
		return slices.Contains([]string{"inner", "optional", "list", "bindings", "union"}, at[0])
	}
	return false
}

// covers: W10, W7
func TestDecoderAndJSONSchemaAgree(t *testing.T) {
	resolved, err := schema.JSON[everything](schema.Closed).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]any{"a": 1.0, "b": "x"}
	more := map[string]any{"a": 1.0, "b": "x", "c": 1.0}
	spare := []any{nil, true, 0.0, 1.5, -7.0, 12.0, "", "red", "abc", "A", "123456789", []any{}, []any{1.0}, map[string]any{}, whole, more,
		[]any{whole, whole, whole, whole}, []any{more}, []any{map[string]any{"a": 1.0, "c": 1.0}}, map[string]any{"leaf": 1.0, "more": 1.0},
		map[string]any{"A b": map[string]any{"kind": "flowInput", "portKey": "x"}}, map[string]any{"no language": "x"},
		map[string]any{"kind": "flowInput", "portKey": "x"}, map[string]any{"kind": "flowInput"}, map[string]any{"kind": "other"}, map[string]any{"kind": "literal", "value": nil},
		map[string]any{"kind": "flowInput", "portKey": "x", "value": 1.0}, map[string]any{"kind": "flowInput", "portKey": "No"}}
	near := map[string][]any{ // what almost fits
		"text": {"123456789", ""}, "inner": {more}, "optional": {more}, "list": {[]any{whole, whole, whole, whole}, []any{more}},
		"bindings": {map[string]any{"A b": map[string]any{"kind": "flowInput", "portKey": "x"}}, map[string]any{"b": map[string]any{"kind": "flowInput", "portKey": "A b"}}},
		"label":    {map[string]any{"no language": "x"}}, "union": {map[string]any{"kind": "flowInput", "portKey": "x", "value": 1.0}},
		"tree": {map[string]any{"leaf": 1.0, "more": 1.0}, map[string]any{"leaf": 1.0, "children": []any{map[string]any{}}}}, "copied": {"No key", 1.0},
	}
	refused, left := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text, err := canon.Encode(values.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var request map[string]any
		if err := json.Unmarshal(text, &request); err != nil {
			t.Fatal(err)
		}
		names := append(slices.Sorted(maps.Keys(request)), "unknown", "copied", "optional", "tree", "list", "inner", "bindings")
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if name == "when" {
				continue // format is not checked by a JSON Schema validator
			}
			if rapid.Bool().Draw(t, "remove") {
				delete(request, name)
			} else if likely := near[name]; likely != nil && rapid.Bool().Draw(t, "near") {
				request[name] = rapid.SampledFrom(likely).Draw(t, "value")
			} else {
				request[name] = rapid.SampledFrom(spare).Draw(t, "value")
			}
		}
		changed, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		var v everything
		found := schema.Decode(changed, &v)
		var plain any
		if err := stdjson.Unmarshal(changed, &plain); err != nil {
			t.Fatal(err)
		}
		all := len(found)
		found = slices.DeleteFunc(found, leftToTheDecoder)
		err = resolved.Validate(plain)
		if (err == nil) != (len(found) == 0) {
			t.Fatalf("%s\ndecoder: %q\nJSON Schema: %v", changed, places(found), err)
		}
		if err != nil {
			refused++
		} else if all > 0 {
			left++
		}
	})
	if refused == 0 || left == 0 {
		t.Errorf("%d requests were refused by both, %d by the decoder alone", refused, left)
	}
}

type part interface{ schema.Variant }

type addPart struct {
	_    struct{}             `desc:"Adds."`
	Kind schema.Kind[addPart] `json:"kind"`
	Key  string               `json:"key" schema:"pattern=key"`
	Of   piece                `json:"of"`
}

type changePart struct {
	Kind schema.Kind[changePart] `json:"kind"`
	Key  string                  `json:"key" schema:"pattern=key"`
	Of   piece                   `json:"of"`
}

type nestPart struct {
	Kind schema.Kind[nestPart] `json:"kind"`
	Of   widePiece             `json:"of"`
}

type piece struct {
	Size int64  `json:"size"`
	Note string `json:"note,omitzero"`
}

type widePiece struct {
	piece `schema:"widen"`
	Name  string `json:"name" desc:"Of nestPart."`
	Label string `json:"label,omitzero"`
}

func (addPart) Variant() string    { return "addPart" }
func (changePart) Variant() string { return "changePart" }
func (nestPart) Variant() string   { return "nestPart" }

var _ = schema.Union[part](addPart{}, changePart{}, nestPart{})

type parts struct {
	Parts []part `json:"parts"`
}

// covers: W7
func TestWhatIsTheSameIsWrittenOnce(t *testing.T) {
	form := schema.JSON[parts](schema.Closed)
	text, err := canon.Encode(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":{"enum":["addPart","changePart"]}`, `"description":"addPart: Adds."`, `"kind":{"const":"nestPart"}`, `{"$ref":"#/$defs/piece","required":["name"]}`} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("not once %s in %s", want, text)
		}
	}
	if len(form.Defs) != 1 {
		t.Errorf("%d definitions", len(form.Defs))
	}
	resolved, err := form.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for part, c := range map[string]struct{ form, decoder bool }{
		`{"kind":"addPart","key":"a","of":{"size":1}}`:                                 {true, true},
		`{"kind":"changePart","key":"a","of":{"size":1,"note":"x"}}`:                   {true, true},
		`{"kind":"nestPart","of":{"size":1,"name":"x","label":"y"}}`:                   {true, true},
		`{"kind":"nestPart","of":{"size":1}}`:                                          {false, false}, // what it requires is kept
		`{"kind":"nestPart","of":{"name":"x"}}`:                                        {false, false},
		`{"kind":"nestPart","of":{"size":1,"name":"x","other":1}}`:                     {false, false},
		`{"kind":"nestPart","key":"a","of":{"size":1}}`:                                {false, false},
		`{"kind":"addPart","of":{"size":1}}`:                                           {false, false},
		`{"kind":"otherPart","key":"a","of":{"size":1}}`:                               {false, false},
		`{"kind":"addPart","key":"a","of":{"size":1,"name":"left to the decoder"}}`:    {true, false},
		`{"kind":"addPart","key":"a","of":{"size":1},"unknown":"as all are required"}`: {true, false},
	} {
		request := `{"parts":[` + part + `]}`
		var plain any
		if err := stdjson.Unmarshal([]byte(request), &plain); err != nil {
			t.Fatal(err)
		}
		var v parts
		if err, found := resolved.Validate(plain), schema.Decode([]byte(request), &v); (err == nil) != c.form || (found == nil) != c.decoder {
			t.Errorf("%s: JSON Schema %v, decoder %q", part, err, places(found))
		}
	}
}

func TestFindingsAreBoundedAndTheirNumberIsTold(t *testing.T) {
	var names []string
	for i := range schema.MaxFindings + 7 {
		names = append(names, fmt.Sprintf(`"x%d":1`, i))
	}
	var v inner
	found := schema.Decode([]byte(`{"a":1,"b":"",`+strings.Join(names, ",")+`}`), &v)
	last := found[len(found)-1]
	if len(found) != schema.MaxFindings || last.Code != "PX_LIMIT_EXCEEDED" || last.Params["observed"] != schema.MaxFindings+7 {
		t.Errorf("%d findings, the last %+v", len(found), last)
	}
	long := strings.Repeat("가", 10_000)
	found = schema.Decode([]byte(`{"a":1,"b":"","`+long+`":1}`), &v)
	if len(found) != 1 || len(found[0].Path) > 500 {
		t.Errorf("a long name makes a path of %d bytes", len(found[0].Path))
	}
}

// covers: W6
func TestDepthIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		depth int
		fits  bool
	}{"as deep as allowed": {canon.MaxDepth - 1, true}, "one deeper": {canon.MaxDepth, false}, "far deeper": {5000, false}} {
		raw := `{"kind":"literal","value":` + strings.Repeat("[", c.depth) + strings.Repeat("]", c.depth) + `}`
		var b binding
		if found := schema.Decode([]byte(raw), &b); (found == nil) != c.fits {
			t.Errorf("%s: %q", name, places(found))
		}
		if c.depth > 2 {
			inside := `{"bindings":{"a":{"kind":"literal","value":` + strings.Repeat("[", c.depth-2) + strings.Repeat("]", c.depth-2) + `}}}`
			var v struct {
				Bindings map[string]binding `json:"bindings"`
			}
			if found := schema.Decode([]byte(inside), &v); (found == nil) != c.fits {
				t.Errorf("%s, inside others: %q", name, places(found))
			}
		}
		nested := strings.Repeat(`{"leaf":1,"children":[`, c.depth/2) + `{"leaf":1}` + strings.Repeat(`]}`, c.depth/2)
		var r tree
		if found := schema.Decode([]byte(nested), &r); (found == nil) != c.fits {
			t.Errorf("%s, recursive: %q", name, places(found))
		}
	}
}

// nest is a union that holds itself.
type nest interface{ schema.Variant }

type shell struct {
	Kind  schema.Kind[shell] `json:"kind"`
	Inner []nest             `json:"inner"`
}

func (shell) Variant() string { return "shell" }

var _ = schema.Union[nest](shell{})

// covers: W6
func TestDepthIsBoundedThroughUnions(t *testing.T) {
	for depth, fits := range map[int]bool{canon.MaxDepth / 2: true, canon.MaxDepth/2 + 1: false, 1000: false} {
		text := strings.Repeat(`{"kind":"shell","inner":[`, depth) + strings.Repeat(`]}`, depth)
		var n nest
		if found := schema.Decode([]byte(text), &n); (found == nil) != fits {
			t.Errorf("%d objects and lists: %q", 2*depth, places(found))
		}
	}
}

// span is a custom type: a text or a pair.
type span struct{ from, to string }

func (span) JSONSchema() string {
	return `{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":2}]}`
}

func (s *span) ReadJSON(text canon.Raw, found *schema.Report) {
	var pair []string
	if json.Unmarshal(text, &s.from) == nil {
		return
	}
	if json.Unmarshal(text, &pair) != nil || len(pair) != 2 {
		found.Invalid("span", nil)
		found.At(1).Invalid("type", nil)
		return
	}
	s.from, s.to = pair[0], pair[1]
}

func TestACustomTypeReadsItselfAndReportsAtItsPlace(t *testing.T) {
	var v struct {
		Spans map[string]span `json:"spans"`
	}
	if found := schema.Decode([]byte(`{"spans":{"a":"x","b":["x","y"]}}`), &v); found != nil || v.Spans["b"] != (span{"x", "y"}) {
		t.Errorf("%q, %v", places(found), v)
	}
	got := places(schema.DecodeAt([]byte(`{"spans":{"a":[1,9007199254740993],"b":[1]}}`), "/commands/3", &v))
	want := []string{"PX_SCHEMA_INVALID /commands/3/spans/a/1 range", "PX_SCHEMA_INVALID /commands/3/spans/b span", "PX_SCHEMA_INVALID /commands/3/spans/b/1 type"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

type badKinds struct {
	A string `json:"a" kinds:"x!"`
}

type badRule struct {
	A string `json:"a" schema:"minimun=1"`
}

type badUnion struct {
	A schema.Variant `json:"a"`
}

type badName struct{ A string }

func TestMistakesOfTheProgramPanicAtStart(t *testing.T) {
	for name, prepare := range map[string]func(){
		"kinds without a kind":      schema.Prepare[badKinds],
		"a rule that is none":       schema.Prepare[badRule],
		"a union nobody registered": schema.Prepare[badUnion],
		"a field without a name":    schema.Prepare[badName],
		"a channel":                 schema.Prepare[chan int],
		"a union registered twice":  func() { schema.Union[binding](literal{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			prepare()
		}()
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, ``, `{"text":"x"}`, `{"union":{"kind":"literal","value":1e400}}`, `{"bindings":{"a":"b.c"}}`,
		`{"when":"2026-11-30T00:00:00Z","whole":1e3,"number":-0}`, `{"tree":{"leaf":1,"children":[{"leaf":2}]}}`, "{\"\xff\":1}", `{"a":1,"a":2}`, `{"text":"\ud800"}`,
		`{"text":"a","key":"k","color":"red","whole":1,"number":1.5,"yes":true,"when":"2026-11-30T00:00:00Z","raw":[1],"nullable":null,"inner":{"a":1,"b":""},"list":[],"bindings":{},"label":{},"union":{"kind":"flowInput","portKey":"p"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v everything
		found := schema.Decode(text, &v)
		for _, n := range found {
			if n.Path != "" && n.Path[0] != '/' {
				t.Fatalf("%q: path %q", text, n.Path)
			}
		}
		if found != nil {
			return
		}
		if err := canon.Check(text); err != nil {
			t.Fatalf("%q is read, but is not strict JSON: %v", text, err)
		}
		encoded, err := canon.Encode(v)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", text, err)
		}
		var again everything
		if found := schema.Decode(encoded, &again); found != nil {
			t.Fatalf("%q is written as %s, which is refused: %q", text, encoded, places(found))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := []byte(`{"scope":{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"},"limit":null,"bindings":{"x":{"kind":"flowInput","portKey":"span"},"y":{"kind":"literal","value":{"value":1,"unit":"ft"}}}}`)
	b.SetBytes(int64(len(text)))
	b.Run("schema", func(b *testing.B) {
		for b.Loop() {
			var r request
			if found := schema.Decode(text, &r); found != nil {
				b.Fatal(found)
			}
		}
	})
	b.Run("encoding json into any, for reference", func(b *testing.B) {
		for b.Loop() {
			var v any
			if err := stdjson.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
