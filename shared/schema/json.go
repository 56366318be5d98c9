package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/canon"
)

// Openness says what a JSON Schema is for.
type Openness bool

const (
	// Closed is for requests. Whatever the decoder accepts, it accepts. What the
	// decoder refuses it refuses too, but for the list below: the schemas of all
	// tools have to fit a model's context, and each of these costs more there
	// than it teaches. The decoder alone refuses
	//
	//   - the length of a text and the number of elements of a list or map:
	//     they bound what is sane, and nobody meets them by chance;
	//   - the form of a map's keys: propertyNames is a keyword that common
	//     clients do not know, and the form stands in $defs where keys are
	//     made up;
	//   - the form of a text with the rule copied: it comes from an answer;
	//   - the characters of a text, and languages that differ in case alone;
	//   - a name that an object does not have, where all members of the object
	//     are required: whoever fills them in has no reason to guess at more.
	//     The top and the settings of Components are closed always;
	//   - at its base, a member that the rule widen put there for another type;
	//   - how many of some members are present, and for which kinds a member is
	//     there: both stand in descriptions, since unions inside of objects with
	//     optional members are hard on clients;
	//   - what only arithmetic can say: integers beyond ±(2^53−1), numbers that
	//     binary64 would round or cannot hold, and times that are none;
	//   - what a Custom type and a JSONSchema method leave out.
	Closed Openness = false
	// Open is for answers: members with their types and descriptions, and of the
	// objects in them the names of theirs. Names that are not listed are
	// allowed. An answer is held by its Go type.
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
	w := &writer{root: root, uses: make(map[*shape]int), names: make(map[*shape]string), defs: make(map[string]*jsonschema.Schema), alternatives: make(map[*shape][]Alternative), key: shapeOf(reflect.TypeFor[string](), "pattern=key", "")}
	w.count(root)
	out := w.object(root)
	for i := 0; i < len(w.wider); i++ { // writing one may find more
		w.widen(w.wider[i])
	}
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
	wider        []*shape
	root         *shape
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
	if s.brief() {
		return
	}
	if w.uses[s] > 1 && (s.form != pointerForm && s.form != listForm && s.form != mapForm || w.alternatives[s] != nil || s.mapName() != "") {
		return
	}
	if s.base != nil {
		w.count(s.base)
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
	for _, f := range s.fields {
		if !f.based {
			w.count(f.shape)
		}
	}
	for _, k := range s.kinds {
		w.count(s.variants[k])
	}
}

// named reports whether a shape is written once, in $defs.
func (w *writer) named(s *shape) bool {
	switch {
	case s.brief():
		return false
	case s.base != nil && w.named(s.base):
		return false // its members are at its base
	case s == w.key:
		return w.uses[s] > 2
	case s.form == mapForm && s.mapName() != "":
		return w.uses[s] > 1
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

// mapName is the name in $defs of a map of objects that has no name of its own:
// that of its elements, in the plural.
func (s *shape) mapName() string {
	if s.form != mapForm || s.typ.Name() != "" || s.elem.form != objectForm && s.elem.form != unionForm || s.elem.typ.Name() == "" {
		return ""
	}
	return s.elem.typ.Name() + "s"
}

func (w *writer) schema(s *shape) *jsonschema.Schema {
	if s.base != nil && w.named(s.base) {
		out := w.schema(s.base)
		for _, f := range s.fields {
			if !f.based && !f.optional {
				out.Required = append(out.Required, f.name)
			}
		}
		if !slices.Contains(w.wider, s) {
			w.wider = append(w.wider, s)
		}
		return out
	}
	if !w.named(s) {
		return w.inline(s)
	}
	name, ok := w.names[s]
	if !ok {
		base := s.typ.Name()
		if s == w.key {
			base = "key"
		} else if own := s.mapName(); own != "" {
			base = own
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

// widen adds the own members of s to what s embeds. A member of one name that
// several types add stands there once, as the first has it.
func (w *writer) widen(s *shape) {
	into := w.defs[w.names[s.base]]
	for _, f := range s.fields {
		if !f.based && into.Properties[f.name] == nil {
			into.Properties[f.name] = describe(w.schema(f.shape), f.desc)
			into.PropertyOrder = append(into.PropertyOrder, f.name)
		}
	}
}

// brief reports whether the members are said elsewhere. The decoder reads them all the
// same.
func (s *shape) brief() bool {
	return s.rules.brief && (s.form == objectForm || s.form == unionForm)
}

func (w *writer) inline(s *shape) *jsonschema.Schema {
	r := &s.rules
	if s.brief() {
		return &jsonschema.Schema{Type: "object"}
	}
	switch s.form {
	case stringForm, textForm, timeForm:
		out := &jsonschema.Schema{Type: "string", Pattern: r.pattern}
		if r.copied {
			out.Pattern = ""
		}
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
		out := &jsonschema.Schema{Type: "object"}
		if s.elem.form != rawForm { // any value is what an object takes by itself
			out.AdditionalProperties = w.element(s.elem)
		}
		return out
	case listForm:
		return &jsonschema.Schema{Type: "array", Items: w.element(s.elem)}
	case unionForm:
		out := &jsonschema.Schema{Type: "object"}
		for _, k := range s.kinds {
			variant := w.schema(s.variants[k])
			variant.Type = "" // is said once, of the union
			out.OneOf = append(out.OneOf, variant)
		}
		out.OneOf = merge(out.OneOf)
		return out
	case rawForm, anyForm:
		return &jsonschema.Schema{} // written as true; see describe
	case customForm:
		return written(s.typ, reflect.New(s.typ).Interface().(Custom).JSONSchema())
	default:
		panic(fmt.Sprintf("schema: form %d", s.form))
	}
}

// merge writes variants that have the same members once, with all their kinds.
func merge(variants []*jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	at := make(map[string]*jsonschema.Schema)
	for _, v := range variants {
		kind := v.Properties["kind"]
		if v.Ref != "" || kind == nil || kind.Const == nil {
			out = append(out, v)
			continue
		}
		if v.Description != "" {
			v.Description = fmt.Sprintf("%v: %s", *kind.Const, v.Description)
		}
		// Whatever else there is, the kind and the description apart.
		rest := *v
		rest.Description, rest.Properties = "", maps.Clone(v.Properties)
		rest.Properties["kind"] = &jsonschema.Schema{Type: "string"}
		text, err := json.Marshal(&rest)
		if err != nil {
			panic(fmt.Sprintf("schema: %v", err))
		}
		first := at[string(text)]
		if first == nil {
			at[string(text)] = v
			out = append(out, v)
			continue
		}
		if k := first.Properties["kind"]; k.Const != nil {
			first.Properties["kind"] = &jsonschema.Schema{Enum: []any{*k.Const}}
		}
		k := first.Properties["kind"]
		k.Enum = append(k.Enum, *kind.Const)
		first.Description = strings.TrimSpace(first.Description + " " + v.Description)
	}
	for _, v := range out { // the only kind needs no name before its description
		if kind := v.Properties["kind"]; kind != nil && kind.Const != nil {
			v.Description = strings.TrimPrefix(v.Description, fmt.Sprintf("%v: ", *kind.Const))
		}
	}
	return out
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
			w.defs[a.Name].AdditionalProperties = closed()
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
	for _, f := range s.fields {
		p := w.schema(f.shape)
		if f.nullable {
			p = orNull(p)
		}
		if f.kinds != nil && s.rules.only != nil && !slices.ContainsFunc(f.order, func(k string) bool { return slices.Contains(s.rules.only, k) }) {
			continue
		}
		out.Properties[f.name] = describe(p, strings.TrimSpace(f.kindText(s.rules.only)+" "+f.desc))
		out.PropertyOrder = append(out.PropertyOrder, f.name)
		if !f.optional {
			out.Required = append(out.Required, f.name)
		}
	}
	if s == w.root || len(out.Required) < len(out.Properties) {
		out.AdditionalProperties = closed()
	}
	for _, a := range append(slices.Clip(s.among), s.rules.among...) {
		if a.forms != nil {
			continue // is in descriptions of the members
		}
		out.Description = strings.TrimSpace(out.Description + " " + amongText[a.rule] + " " + strings.Join(a.names, ", ") + ".")
	}
	return out
}

// closed is what is written as false.
func closed() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

var amongText = map[string]string{"oneOf": "Exactly one of", "anyOf": "At least one of", "atMostOne": "At most one of"}

// kindText says for which of the kinds allowed in this place a field is there.
func (f *field) kindText(only []string) string {
	if f.kinds == nil {
		return ""
	}
	var parts []string
	for _, k := range f.order {
		if only != nil && !slices.Contains(only, k) {
			continue
		}
		if f.kinds[k] {
			k += " (required)"
		}
		parts = append(parts, k)
	}
	return "For " + strings.Join(parts, ", ") + "."
}
