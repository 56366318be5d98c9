package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/target"
)

// Openness says what a JSON Schema is for.
type Openness bool

const (
	// Closed is for requests: what the decoder checks and JSON Schema can say,
	// but for the lengths of texts. Names that are not listed are refused.
	Closed Openness = false
	// Open is for answers: members with their types and descriptions, and of the
	// objects in them the names of theirs. Names that are not listed are
	// allowed. An answer is held by its Go type; all schemas together have to
	// fit a model's context.
	Open Openness = true
)

// JSON returns the JSON Schema of T. Its top level is an object without a union;
// types that occur more than once stand in $defs.
func JSON[T any](o Openness) *jsonschema.Schema { return JSONFor(reflect.TypeFor[T](), o) }

// JSONFor is JSON for a reflected type. It panics for a type that is no object.
func JSONFor(t reflect.Type, o Openness) *jsonschema.Schema {
	root := shapeOf(t, "", "")
	if root.form != objectForm {
		panic(fmt.Sprintf("schema: %v is no object", t))
	}
	if o == Open {
		return outlineOf(root)
	}
	w := &writer{uses: make(map[*shape]int), names: make(map[*shape]string), defs: make(map[string]*jsonschema.Schema), alternatives: make(map[*shape][]Alternative), key: shapeOf(reflect.TypeFor[string](), "pattern=key", "")}
	w.count(root)
	out := w.object(root)
	if len(w.defs) > 0 {
		out.Defs = w.defs
	}
	return out
}

type writer struct {
	uses  map[*shape]int
	names map[*shape]string
	defs  map[string]*jsonschema.Schema
	// alternatives of the maps that have some.
	alternatives map[*shape][]Alternative
	key          *shape // a key that a user chose, the most frequent of all
}

// An Alternative is one Go type that says what the members of an open map may
// be. It is for the reader of the JSON Schema, where it stands in $defs under its
// name: the decoder reads the map as a map, and its owner reads the members.
type Alternative struct {
	Name    string // in $defs
	Type    reflect.Type
	Example canon.Raw
}

// Alternatives is implemented by a map type whose JSON Schema is any of several
// others. It is asked of the zero value.
type Alternatives interface{ SchemaAlternatives() []Alternative }

// count counts how often each shape occurs.
func (w *writer) count(s *shape) {
	// What a pointer, list or map holds occurs again wherever they do, since they
	// themselves are never written once.
	w.uses[s]++
	if w.uses[s] > 1 && (s.form != pointerForm && s.form != listForm && s.form != mapForm || w.alternatives[s] != nil) {
		return
	}
	if s.elem != nil {
		w.count(s.elem)
	}
	if own, ok := reflect.Zero(s.typ).Interface().(Alternatives); ok && s.form == mapForm {
		w.alternatives[s] = own.SchemaAlternatives()
		for _, a := range w.alternatives[s] {
			w.count(shapeOf(a.Type, "", ""))
		}
	}
	if s.form == mapForm && s.rules.keyPattern == target.KeyPattern {
		w.count(w.key)
	}
	for _, f := range s.fields {
		w.count(f.shape)
	}
	for _, k := range s.kinds {
		w.count(s.variants[k])
	}
}

// named reports whether a shape is written once, in $defs.
func (w *writer) named(s *shape) bool {
	switch {
	case s == w.key:
		return w.uses[s] > 2
	case s.typ.Name() == "" || w.uses[s] < 2:
		return false
	case s.form == unionForm:
		return true
	case s.form == objectForm:
		return len(s.fields) > 1
	case s.form == mapForm:
		return w.alternatives[s] != nil || s.elem.form == stringForm
	default:
		return s.form == customForm || s.form == stringForm && len(s.rules.enum) > 3
	}
}

func (w *writer) schema(s *shape) *jsonschema.Schema {
	if !w.named(s) {
		return w.inline(s)
	}
	name, ok := w.names[s]
	if !ok {
		base := s.typ.Name()
		if s == w.key {
			base = "key"
		}
		if i := strings.IndexByte(base, '['); i >= 0 { // a generic type
			base = base[:i]
		}
		if len(s.rules.only) > 0 {
			base += "_" + strings.Join(s.rules.only, "_")
		}
		name = base
		for n := 2; w.defs[name] != nil; n++ {
			name = base + strconv.Itoa(n)
		}
		w.names[s] = name
		w.defs[name] = &jsonschema.Schema{} // holds the name while a recursive type is written
		w.defs[name] = w.inline(s)
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}
}

func (w *writer) inline(s *shape) *jsonschema.Schema {
	r := &s.rules
	switch s.form {
	case stringForm, textForm, timeForm:
		// The lengths of texts bound what is sane and are left to the decoder.
		out := &jsonschema.Schema{Type: "string", Pattern: r.pattern}
		if s.form == timeForm {
			out.Format = "date-time"
		}
		if len(r.enum) == 1 {
			out.Type, out.Const = "", jsonschema.Ptr[any](r.enum[0])
		} else if r.enum != nil {
			out.Type = ""
			for _, e := range r.enum {
				out.Enum = append(out.Enum, e)
			}
		}
		return out
	case integerForm, numberForm:
		out := &jsonschema.Schema{Type: "number", Minimum: r.minimum, Maximum: r.maximum, ExclusiveMinimum: r.exclusiveMinimum, ExclusiveMaximum: r.exclusiveMaximum}
		if s.form == integerForm {
			out.Type = "integer"
		}
		return out
	case booleanForm:
		return &jsonschema.Schema{Type: "boolean"}
	case pointerForm:
		return w.schema(s.elem) // null is added where the shape stands
	case objectForm:
		if own, ok := reflect.New(s.typ).Interface().(interface{ JSONSchema() string }); ok {
			return written(s.typ, own.JSONSchema())
		}
		return w.object(s)
	case mapForm:
		if list := w.alternatives[s]; list != nil {
			return w.anyOf(list)
		}
		out := &jsonschema.Schema{Type: "object", AdditionalProperties: w.element(s.elem), MinProperties: r.minItems, MaxProperties: r.maxItems}
		if r.keyPattern != "" {
			out.PropertyNames = &jsonschema.Schema{Pattern: r.keyPattern}
			if r.keyPattern == target.KeyPattern && w.named(w.key) {
				out.PropertyNames = w.schema(w.key)
			}
		}
		return out
	case listForm:
		return &jsonschema.Schema{Type: "array", Items: w.element(s.elem), MinItems: r.minItems, MaxItems: r.maxItems}
	case unionForm:
		out := &jsonschema.Schema{Type: "object"}
		for _, k := range s.kinds {
			variant := w.schema(s.variants[k])
			variant.Type = "" // is said once, of the union
			out.OneOf = append(out.OneOf, variant)
		}
		return out
	case rawForm, anyForm:
		return &jsonschema.Schema{} // written as true; see describe
	case customForm:
		return written(s.typ, reflect.New(s.typ).Interface().(Custom).JSONSchema())
	default:
		panic(fmt.Sprintf("schema: form %d", s.form))
	}
}

// written reads the JSON Schema that a type states itself.
func written(t reflect.Type, text string) *jsonschema.Schema {
	var out jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(fmt.Sprintf("schema: %v: its JSON Schema: %v", t, err))
	}
	return &out
}

// anyOf writes the alternatives of a map, or nothing at all, and what each is into
// $defs.
func (w *writer) anyOf(list []Alternative) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object"}
	for _, a := range list {
		alternative := shapeOf(a.Type, "", "")
		if w.names[alternative] == "" {
			w.names[alternative] = a.Name
			w.defs[a.Name] = &jsonschema.Schema{}
			w.defs[a.Name] = w.inline(alternative)
			if a.Example != nil {
				var example any
				if err := json.Unmarshal(a.Example, &example); err != nil {
					panic(fmt.Sprintf("schema: example of %s: %v", a.Name, err))
				}
				w.defs[a.Name].Examples = []any{example}
			}
		}
		out.AnyOf = append(out.AnyOf, &jsonschema.Schema{Ref: "#/$defs/" + w.names[alternative]})
	}
	out.AnyOf = append(out.AnyOf, &jsonschema.Schema{MaxProperties: jsonschema.Ptr(0)})
	return out
}

// element is the schema of an element of a list or a value of a map.
func (w *writer) element(s *shape) *jsonschema.Schema {
	if s.form == pointerForm {
		return orNull(w.schema(s))
	}
	return describe(w.schema(s), "")
}

func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Type != "" && s.Enum == nil && s.Const == nil {
		s.Types, s.Type = []string{s.Type, "null"}, ""
		return s
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// describe adds a description. A schema without any keyword gets one, since some
// clients do not read true as a schema.
func describe(s *jsonschema.Schema, text string) *jsonschema.Schema {
	switch {
	case text != "":
		s.Description = strings.TrimSpace(text + " " + s.Description)
	case reflect.DeepEqual(*s, jsonschema.Schema{}):
		s.Description = "Any JSON value."
	}
	return s
}

func (w *writer) object(s *shape) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object", Description: s.desc}
	if len(s.fields) > 0 {
		out.Properties = make(map[string]*jsonschema.Schema)
	}
	out.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	for _, f := range s.fields {
		p := w.schema(f.shape)
		if f.nullable {
			p = orNull(p)
		}
		if f.kinds != nil && s.rules.only != nil && !slices.ContainsFunc(f.order, func(k string) bool { return slices.Contains(s.rules.only, k) }) {
			continue
		}
		out.Properties[f.name] = describe(p, strings.TrimSpace(f.kindText()+" "+f.desc))
		out.PropertyOrder = append(out.PropertyOrder, f.name)
		if !f.optional {
			out.Required = append(out.Required, f.name)
		}
	}
	for _, a := range append(slices.Clip(s.among), s.rules.among...) {
		out.Description = strings.TrimSpace(out.Description + " " + amongText[a.rule] + " " + strings.Join(a.names, ", ") + ".")
	}
	return out
}

var amongText = map[string]string{"oneOf": "Exactly one of", "anyOf": "At least one of", "atMostOne": "At most one of"}

// kindText says for which kinds a field is there.
func (f *field) kindText() string {
	if f.kinds == nil {
		return ""
	}
	var parts []string
	for _, k := range f.order {
		if f.kinds[k] {
			k += " (required)"
		}
		parts = append(parts, k)
	}
	return "For " + strings.Join(parts, ", ") + "."
}
