package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

type binding interface{ schema.Variant }

type flowInput struct {
	Kind    schema.Kind[flowInput] `json:"kind"`
	PortKey string                 `json:"portKey" schema:"pattern=key"`
}

func (flowInput) Variant() string { return "flowInput" }

type literal struct {
	Kind  schema.Kind[literal] `json:"kind"`
	Value canon.Raw            `json:"value"`
}

func (literal) Variant() string { return "literal" }

var _ = schema.Union[binding](flowInput{}, literal{})

type color string

func (color) Enum() []string { return []string{"red", "green"} }

type scope struct {
	Kind         string `json:"kind" schema:"enum=project|workspace|principal"`
	WorkspaceKey string `json:"workspaceKey,omitzero" schema:"pattern=key" kinds:"project!,workspace!"`
	ProjectKey   string `json:"projectKey,omitzero" schema:"pattern=key" kinds:"project!"`
}

type common struct {
	Cursor string `json:"cursor,omitzero" schema:"maxLength=10"`
}

type request struct {
	common
	_        struct{}           `schema:"atMostOne=count|note"`
	Scope    scope              `json:"scope" schema:"only=project|workspace"`
	Exact    *scope             `json:"exact,omitzero" schema:"only=project" desc:"One Project."`
	Count    int64              `json:"count,omitzero" schema:"minimum=1,maximum=100"`
	Note     string             `json:"note,omitzero" schema:"maxLength=3"`
	Factor   float64            `json:"factor,omitzero"`
	Color    color              `json:"color,omitzero"`
	Bindings map[string]binding `json:"bindings,omitzero"`
	Shape    []*int64           `json:"shape,omitzero" schema:"minItems=1,maxItems=3"`
	Limit    *float64           `json:"limit"`
	Any      canon.Raw          `json:"any,omitzero"`
	Labels   map[string]string  `json:"labels,omitzero" schema:"keys=language,each.maxLength=5"`
	Title    target.Label       `json:"title,omitzero"`
	Prose    string             `json:"prose,omitzero" schema:"text=prose"`
}

// places returns "code path rule" of each finding, in order of path.
func places(found outcome.Findings) []string {
	var out []string
	for _, f := range found {
		text := string(f.Code) + " " + f.Path
		if rule, ok := f.Params["rule"].(string); ok {
			text += " " + rule
		}
		if entry, ok := f.Params["legacy"].(string); ok {
			text += " legacy:" + entry
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

const fine = `"scope":{"kind":"project","workspaceKey":"a","projectKey":"b"},"limit":null`

// covers: E2, L1, T1, T3, W6
func TestDecodeReportsEveryFindingAtItsPlace(t *testing.T) {
	const invalid, unknown, legacy = "PX_SCHEMA_INVALID ", "PX_SCHEMA_UNKNOWN_FIELD ", "PX_SCHEMA_UNSUPPORTED_VERSION "
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a request that fits":                         {`{` + fine + `}`, nil},
		"an empty object lacks what is required":      {`{}`, []string{invalid + "/limit required", invalid + "/scope required"}},
		"half a scope is never filled in":             {`{"limit":1,"scope":{"kind":"project","workspaceKey":"a"}}`, []string{invalid + "/scope/projectKey required"}},
		"a workspace has no project":                  {`{"limit":1,"scope":{"kind":"workspace","workspaceKey":"a","projectKey":"b"}}`, []string{unknown + "/scope/projectKey"}},
		"a kind that is not allowed in this place":    {`{"limit":1,"scope":{"kind":"principal"}}`, []string{invalid + "/scope/kind enum"}},
		"a kind fixed by the place":                   {`{` + fine + `,"exact":{"kind":"workspace","workspaceKey":"a"}}`, []string{invalid + "/exact/kind enum", invalid + "/exact/projectKey required"}},
		"null where nothing may be null":              {`{` + fine + `,"note":null,"exact":null}`, []string{invalid + "/exact type", invalid + "/note type"}},
		"unknown, wrong and missing at once":          {`{"limit":"x","nope":1,"factor":true}`, []string{invalid + "/factor type", invalid + "/limit type", invalid + "/scope required", unknown + "/nope"}},
		"a name in the wrong case is unknown":         {`{` + fine + `,"Note":"x"}`, []string{unknown + "/Note"}},
		"names are escaped in paths":                  {`{` + fine + `,"a/b~c":1}`, []string{unknown + "/a~1b~0c"}},
		"a legacy field at any depth":                 {`{` + fine + `,"flowId":1,"exact":{"kind":"project","workspaceKey":"a","projectKey":"b","projectRoot":"/x"}}`, []string{unknown + "/exact/projectRoot legacy:projectRoot", unknown + "/flowId legacy:flowId"}},
		"a legacy name as a user's key is no field":   {`{` + fine + `,"labels":{"flowid":"x"},"bindings":{"nodeid":{"kind":"literal","value":{"flowId":1}}}}`, nil},
		"a bad key of a map":                          {`{` + fine + `,"bindings":{"nodeId":{"kind":"literal","value":1}}}`, []string{invalid + "/bindings/nodeId pattern"}},
		"a dotted port":                               {`{` + fine + `,"bindings":{"x":{"kind":"flowInput","portKey":"nodes.check.u"}}}`, []string{legacy + "/bindings/x/portKey legacy:raw-dotted-result-path"}},
		"a dotted path in place of a binding":         {`{` + fine + `,"bindings":{"x":"nodes.check.u"}}`, []string{legacy + "/bindings/x legacy:raw-dotted-result-path"}},
		"a dotted path beside keys":                   {`{` + fine + `,"bindings":{"x":{"kind":"flowInput","result":"nodes.check.u"}}}`, []string{invalid + "/bindings/x/portKey required", legacy + "/bindings/x/result legacy:raw-dotted-result-path"}},
		"a plain string in place of a binding":        {`{` + fine + `,"bindings":{"x":"check"}}`, []string{invalid + "/bindings/x type"}},
		"an unknown kind":                             {`{` + fine + `,"bindings":{"x":{"kind":"magic"},"y":{},"z":{"kind":3}}}`, []string{invalid + "/bindings/x/kind enum", invalid + "/bindings/y/kind required", invalid + "/bindings/z/kind enum"}},
		"an integer out of its range":                 {`{` + fine + `,"count":101}`, []string{invalid + "/count maximum"}},
		"zero where one is the least":                 {`{` + fine + `,"count":0}`, []string{invalid + "/count minimum"}},
		"an integer that binary64 rounds":             {`{` + fine + `,"count":9007199254740993,"factor":9007199254740993,"any":{"a":[9007199254740993]}}`, []string{invalid + "/any/a/0 range", invalid + "/count range", invalid + "/factor range"}},
		"an integer with a fraction":                  {`{` + fine + `,"count":1.5}`, []string{invalid + "/count type"}},
		"an integer in another spelling":              {`{` + fine + `,"count":1.0e1}`, nil},
		"a number that overflows":                     {`{` + fine + `,"factor":1e400,"any":-1e400}`, []string{invalid + "/any range", invalid + "/factor range"}},
		"negative zero":                               {`{` + fine + `,"factor":-0,"any":-0.0}`, nil},
		"two fields of which one may be there":        {`{` + fine + `,"count":1,"note":"x"}`, []string{invalid + " atMostOne"}},
		"a text of three characters in twelve bytes":  {`{` + fine + `,"note":"🌉🌉🌉"}`, nil},
		"a text that is too long":                     {`{` + fine + `,"note":"1234"}`, []string{invalid + "/note maxLength"}},
		"a list that is too long, with a bad element": {`{` + fine + `,"shape":[1,null,"3",4]}`, []string{invalid + "/shape maxItems", invalid + "/shape/2 type"}},
		"an empty list":                               {`{` + fine + `,"shape":[]}`, []string{invalid + "/shape minItems"}},
		"an enum":                                     {`{` + fine + `,"color":"blue"}`, []string{invalid + "/color enum"}},
		"a field of an embedded struct":               {`{` + fine + `,"cursor":"12345678901"}`, []string{invalid + "/cursor maxLength"}},
		"a language twice":                            {`{` + fine + `,"title":{"en":"a","EN":"b","en-US":"c","ko":"d"}}`, []string{invalid + "/title/EN duplicate"}},
		"lines in a label":                            {`{` + fine + `,"title":{"en":"a\nb","de":"a\tb","ko":"a\u2028b","fr":"a\u0000b","it":"\u007f","es":"a\u0085b"}}`, []string{invalid + "/title/de characters", invalid + "/title/en characters", invalid + "/title/es characters", invalid + "/title/fr characters", invalid + "/title/it characters", invalid + "/title/ko characters"}},
		"a label that is read the other way":          {`{` + fine + `,"title":{"en":"gen\u202eeulav","ko":"\u2066x","de":"x\u200f","fr":"\u061c"}}`, []string{invalid + "/title/de characters", invalid + "/title/en characters", invalid + "/title/fr characters", invalid + "/title/ko characters"}},
		"labels of any script":                        {`{` + fine + `,"title":{"ar":"فحص العارضة","ko":"거더","en":"👨\u200d👩\u200d👧 ²","fa":"می\u200cخواهم"}}`, nil},
		"prose has lines":                             {`{` + fine + `,"prose":"a\n\tb\u2028c"}`, nil},
		"prose that is overwritten where it is shown": {`{` + fine + `,"prose":"safe\runsafe"}`, []string{invalid + "/prose characters"}},
		"prose that is read the other way":            {`{` + fine + `,"prose":"a\n\u202eb"}`, []string{invalid + "/prose characters"}},
		"an element of a map of texts":                {`{` + fine + `,"labels":{"ko":"거더 검토 결과","1":"x"}}`, []string{invalid + "/labels/1 pattern", invalid + "/labels/ko maxLength"}},
		"no object at all":                            {`[]`, []string{invalid + " type"}},
		"half a text":                                 {`{"scope":`, []string{invalid + "/scope json"}},
		"trailing data":                               {`{` + fine + `} 1`, []string{invalid + " json"}},
		"a name twice":                                {`{` + fine + `,"note":"a","note":"b"}`, []string{invalid + " json"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r request
			got := places(schema.Decode([]byte(c.text), &r))
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestDecodeKeepsWhatItRead(t *testing.T) {
	var r request
	text := `{` + fine + `,"any":{"b":1.0,"a":-0},"factor":-0,"bindings":{"x":{"portKey":"span","kind":"flowInput"},"y":{"value":{"value":1,"unit":"ft"},"kind":"literal"}},"shape":[null,3]}`
	if found := schema.Decode([]byte(text), &r); found != nil {
		t.Fatal(places(found))
	}
	if string(r.Any) != `{"a":0,"b":1}` {
		t.Errorf("any is %s", r.Any)
	}
	if r.Factor != 0 || math.Signbit(r.Factor) {
		t.Errorf("factor is %v", r.Factor)
	}
	if r.Bindings["x"] != (flowInput{PortKey: "span"}) || string(r.Bindings["y"].(literal).Value) != `{"unit":"ft","value":1}` {
		t.Errorf("bindings are %v", r.Bindings)
	}
	if len(r.Shape) != 2 || r.Shape[0] != nil || *r.Shape[1] != 3 {
		t.Errorf("shape is %v", r.Shape)
	}
	got, err := canon.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	var again request
	if found := schema.Decode(got, &again); found != nil {
		t.Fatalf("%s: %q", got, places(found))
	}
}

// covers: W7
func TestTheJSONSchemaIsOneClosedObject(t *testing.T) {
	text, err := json.Marshal(schema.JSON[request](schema.Closed))
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		if _, has := top[union]; has {
			t.Errorf("%s at the top", union)
		}
	}
	if top["type"] != "object" || top["additionalProperties"] != false {
		t.Errorf("the top is %v", slices.Collect(maps.Keys(top)))
	}
	t.Log(string(text))
}

type EmbeddedPart struct {
	Span  int `json:"span"`
	Width int `json:"width,omitzero"`
}

type embedding struct {
	*EmbeddedPart
	Items []int `json:"items,omitzero"`
}

func TestAnEmbeddedPointerIsAPartThatMayBeAbsent(t *testing.T) {
	var without, with embedding
	if found := schema.Decode([]byte(`{"items":[1]}`), &without); found != nil || without.EmbeddedPart != nil {
		t.Fatal(found, without)
	}
	if found := schema.Decode([]byte(`{"span":3}`), &with); found != nil || with.Span != 3 {
		t.Fatal(found, with)
	}
}

// forms is addressed by two keys, or by a handle alone.
type forms struct {
	_      struct{} `schema:"forms=key+ref|handle"`
	Key    string   `json:"key,omitzero" schema:"pattern=key"`
	Ref    string   `json:"ref,omitzero"`
	Handle string   `json:"handle,omitzero"`
	More   string   `json:"more"`
}

// covers: T4, E2
func TestAnObjectHasOneOfItsFormsWhole(t *testing.T) {
	for text, want := range map[string]string{
		`{"key":"a","ref":"b","more":""}`:              "",
		`{"handle":"a","more":""}`:                     "",
		`{"key":"a","more":""}`:                        "/ref required",
		`{"ref":"a","more":""}`:                        "/key required",
		`{"more":""}`:                                  "/key required, /ref required",
		`{}`:                                           "/key required, /more required, /ref required",
		`{"key":"a","handle":"c","more":""}`:           " oneForm",
		`{"key":"a","ref":"b","handle":"c","more":""}`: " oneForm",
		`{"key":"A","ref":"b","handle":"c"}`:           " oneForm, /key pattern, /more required",
		`{"key":1,"ref":"b","more":""}`:                "/key type",
	} {
		var into forms
		var told []string
		for _, f := range schema.Decode([]byte(text), &into) {
			told = append(told, fmt.Sprint(f.Path, " ", f.Params["rule"]))
		}
		slices.Sort(told)
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	// What one of the forms lacks is required by none of the JSON Schema.
	written := schema.JSON[forms](schema.Closed)
	if !slices.Equal(written.Required, []string{"more"}) || written.AdditionalProperties == nil {
		t.Errorf("required %q", written.Required)
	}
}

// covers: T4
func TestADraftIsRefusedByNameWhereASavedRevisionIsMeant(t *testing.T) {
	reason := func(found outcome.Findings) string {
		for _, f := range found {
			if f.Path == "/documentHandle" {
				return fmt.Sprint(f.Code, " ", f.Params["reason"])
			}
		}
		return ""
	}
	const handle = `{"documentHandle":"a"}`
	var flow target.Flow
	var report target.Report
	var function struct {
		FunctionKey string `json:"functionKey"`
	}
	var other struct {
		Name string `json:"name"`
	}
	for name, c := range map[string]struct{ got, want string }{
		"a Flow":        {reason(schema.Decode([]byte(handle), &flow)), "PX_SCHEMA_UNKNOWN_FIELD saved_revision_required"},
		"a Report":      {reason(schema.Decode([]byte(handle), &report)), "PX_SCHEMA_UNKNOWN_FIELD saved_revision_required"},
		"a Function":    {reason(schema.Decode([]byte(handle), &function)), "PX_SCHEMA_UNKNOWN_FIELD saved_revision_required"},
		"what is other": {reason(schema.Decode([]byte(handle), &other)), "PX_SCHEMA_UNKNOWN_FIELD <nil>"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q", name, c.got)
		}
	}
}
