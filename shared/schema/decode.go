package schema

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Decode reads one JSON value into a Go value and returns everything that is
// wrong with it. When it returns findings, into holds what could be read and
// must not be used. It panics when T is a type that this package cannot read.
func Decode[T any](text []byte, into *T) outcome.Findings {
	return DecodeAt(text, "", into)
}

// DecodeAt is Decode for a value that stands at a JSON Pointer inside a larger
// request: every path begins there.
func DecodeAt[T any](text []byte, at string, into *T) outcome.Findings {
	s := shapeOf(reflect.TypeFor[T](), "", "")
	var found findings
	decodeText(text, s, reflect.ValueOf(into).Elem(), &path{root: at}, 0, &found)
	return found.result()
}

// Prepare compiles a type, so that a mistake in its tags panics at start and not
// at the first request.
func Prepare[T any]() { shapeOf(reflect.TypeFor[T](), "", "") }

// decodeText reads exactly one value. depth is how deep it stands already.
func decodeText(text []byte, s *shape, v reflect.Value, at *path, depth int, found *findings) {
	d := &decoder{in: jsontext.NewDecoder(bytes.NewBuffer(text)), found: found, base: depth}
	d.value(s, v, at, false)
	if d.broken {
		return
	}
	if _, err := d.in.ReadToken(); !errors.Is(err, io.EOF) {
		found.invalid("json", at, nil)
	}
}

// decoder walks the text once. After a syntax error it is broken: it has
// reported rule "json" and reads no further.
type decoder struct {
	in     *jsontext.Decoder
	found  *findings
	base   int
	broken bool
}

func (d *decoder) breakAt(at *path) {
	if !d.broken {
		d.broken = true
		d.found.invalid("json", at, nil)
	}
}

// token reads the next token, or breaks.
func (d *decoder) token(at *path) (jsontext.Token, bool) {
	t, err := d.in.ReadToken()
	if err != nil {
		d.breakAt(at)
		return t, false
	}
	if d.base+d.in.StackDepth() > canon.MaxDepth {
		d.breakAt(at)
		return t, false
	}
	return t, true
}

// raw reads the next value whole. The text is the decoder's and is overwritten
// by the next read.
func (d *decoder) raw(at *path) (canon.Raw, bool) {
	text, err := d.in.ReadValue()
	if err != nil {
		d.breakAt(at)
		return nil, false
	}
	return text, true
}

// skip passes over a value that does not fit.
func (d *decoder) skip(at *path) { d.raw(at) }

// mismatch reports a value of the wrong type and passes over it.
func (d *decoder) mismatch(expected string, at *path) {
	d.found.invalid("type", at, outcome.Params{"expected": expected})
	d.skip(at)
}

func (d *decoder) value(s *shape, v reflect.Value, at *path, null bool) {
	kind := d.in.PeekKind()
	if kind == 0 {
		d.token(at)
		d.breakAt(at)
		return
	}
	if kind == 'n' && null {
		d.token(at)
		v.SetZero()
		return
	}
	switch s.form {
	case pointerForm:
		p := reflect.New(s.typ.Elem())
		d.value(s.elem, p.Elem(), at, false)
		v.Set(p)
	case stringForm, timeForm, textForm:
		if kind != '"' {
			d.mismatch("string", at)
			return
		}
		if t, ok := d.token(at); ok {
			d.text(s, v, t.String(), at)
		}
	case integerForm:
		if kind != '0' {
			d.mismatch("integer", at)
			return
		}
		if t, ok := d.token(at); ok {
			d.integer(s, v, t.String(), at)
		}
	case numberForm:
		if kind != '0' {
			d.mismatch("number", at)
			return
		}
		if t, ok := d.token(at); ok {
			if f, rule := readNumber(t.String()); rule != "" {
				d.found.invalid(rule, at, nil)
			} else if s.limits(f, at, d.found) {
				v.SetFloat(f)
			}
		}
	case booleanForm:
		if kind != 't' && kind != 'f' {
			d.mismatch("boolean", at)
			return
		}
		if t, ok := d.token(at); ok {
			v.SetBool(t.Bool())
		}
	case objectForm:
		if kind != '{' {
			d.notObject(s, at)
			return
		}
		d.object(s, v, at)
	case mapForm:
		if kind != '{' {
			d.mismatch("object", at)
			return
		}
		d.mapping(s, v, at)
	case listForm:
		if kind != '[' {
			d.mismatch("array", at)
			return
		}
		d.list(s, v, at)
	case unionForm:
		if kind != '{' {
			d.notObject(s, at)
			return
		}
		d.union(s, v, at)
	case rawForm, anyForm:
		d.any(s, v, at)
	case customForm:
		if text, ok := d.raw(at); ok && d.numbers(text, at) {
			v.Addr().Interface().(Custom).ReadJSON(slices.Clone(text), &Report{d.found, at})
		}
	default:
		panic(fmt.Sprintf("schema: form %d", s.form))
	}
}

// notObject reports a value where keys are expected: the legacy form if it is a
// dotted string.
func (d *decoder) notObject(s *shape, at *path) {
	if d.skipDotted(at) && s.addresses {
		d.legacy(at)
		return
	}
	d.found.invalid("type", at, outcome.Params{"expected": "object"})
}

// skipDotted passes over a value and reports whether it is a dotted string.
func (d *decoder) skipDotted(at *path) bool {
	if d.in.PeekKind() != '"' {
		d.skip(at)
		return false
	}
	t, ok := d.token(at)
	return ok && isDotted(t.String())
}

func (d *decoder) text(s *shape, v reflect.Value, text string, at *path) {
	if at.isKey && (at.name == "resultKey" || at.name == "portKey") && isDotted(text) && s.rules.regexp != nil && !s.rules.regexp.MatchString(text) {
		d.legacy(at)
		return
	}
	before := d.found.number
	r := &s.rules
	length := utf8.RuneCountInString(text)
	if r.enum != nil && !slices.Contains(r.enum, text) {
		d.found.invalid("enum", at, outcome.Params{"allowed": r.enum})
	}
	if r.minLength != nil && length < *r.minLength {
		d.found.invalid("minLength", at, outcome.Params{"limit": *r.minLength, "observed": length})
	}
	if r.maxLength != nil && length > *r.maxLength {
		d.found.invalid("maxLength", at, outcome.Params{"limit": *r.maxLength, "observed": length})
	}
	if r.regexp != nil && !r.regexp.MatchString(text) {
		d.found.invalid("pattern", at, outcome.Params{"pattern": r.pattern})
	}
	if r.text != "" {
		if offset, what := misleads(text, r.text); what != "" {
			d.found.invalid("characters", at, outcome.Params{"refused": what, "offset": offset})
		}
	}
	if d.found.number != before {
		return
	}
	switch s.form {
	case timeForm:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err == nil {
			// The parser takes a zone of a day and more, which no encoder writes, an hour of one
			// digit, and a comma before the fraction.
			_, err = t.MarshalText()
		}
		if err != nil || text[len("2006-01-02T15")] != ':' || text[len("2006-01-02T15:04:05")] == ',' {
			d.found.invalid("format", at, outcome.Params{"expected": "date-time"})
			return
		}
		v.Set(reflect.ValueOf(t))
	case textForm:
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			d.found.invalid("format", at, nil)
		}
	default:
		v.SetString(text)
	}
}

func (d *decoder) integer(s *shape, v reflect.Value, text string, at *path) {
	n, rule := readInteger(text)
	if rule == "" && v.OverflowInt(n) {
		rule = "range"
	}
	switch {
	case rule == "integer":
		d.found.invalid("type", at, outcome.Params{"expected": "integer"})
	case rule != "":
		d.found.invalid(rule, at, outcome.Params{"minimum": -maxExact, "maximum": maxExact})
	case s.limits(float64(n), at, d.found):
		v.SetInt(n)
	}
}

// limits reports what bounds a number breaks.
func (s *shape) limits(f float64, at *path, found *findings) bool {
	r := &s.rules
	before := found.number
	if r.minimum != nil && f < *r.minimum {
		found.invalid("minimum", at, outcome.Params{"limit": *r.minimum})
	}
	if r.maximum != nil && f > *r.maximum {
		found.invalid("maximum", at, outcome.Params{"limit": *r.maximum})
	}
	if r.exclusiveMinimum != nil && f <= *r.exclusiveMinimum {
		found.invalid("exclusiveMinimum", at, outcome.Params{"limit": *r.exclusiveMinimum})
	}
	if r.exclusiveMaximum != nil && f >= *r.exclusiveMaximum {
		found.invalid("exclusiveMaximum", at, outcome.Params{"limit": *r.exclusiveMaximum})
	}
	return found.number == before
}

func (d *decoder) object(s *shape, v reflect.Value, at *path) {
	if _, ok := d.token(at); !ok {
		return
	}
	present := make([]bool, len(s.fields))
	fit := make([]bool, len(s.fields))
	for d.in.PeekKind() == '"' {
		t, ok := d.token(at)
		if !ok {
			return
		}
		name := t.String()
		i, known := s.index[name]
		if !known {
			here := at.member(shorten(name))
			d.unknown(s, name, here)
			if d.broken {
				return
			}
			continue
		}
		f := &s.fields[i]
		before := d.found.number
		d.value(f.shape, fieldAt(v, f.path), at.member(f.name), f.nullable)
		if d.broken {
			return
		}
		present[i], fit[i] = true, d.found.number == before
	}
	if _, ok := d.token(at); !ok {
		return
	}
	s.complete(v, at, present, fit, d.found)
}

// fieldAt is reflect.Value.FieldByIndex that makes the embedded structs on its
// way that are behind a nil pointer.
func fieldAt(v reflect.Value, path []int) reflect.Value {
	for _, i := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// complete reports what is missing or may not stand together.
func (s *shape) complete(v reflect.Value, at *path, present, fit []bool, found *findings) {
	kind := ""
	if s.kindAt >= 0 && fit[s.kindAt] {
		kind = kindOf(fieldAt(v, s.fields[s.kindAt].path))
	}
	for i := range s.fields {
		f := &s.fields[i]
		if f.kinds != nil {
			required, has := f.kinds[kind]
			switch {
			case kind == "":
			case present[i] && !has:
				found.add(outcome.SchemaUnknownField, at.member(f.name), outcome.Params{"kind": kind})
			case !present[i] && required:
				found.invalid("required", at.member(f.name), outcome.Params{"kind": kind})
			}
			continue
		}
		if !present[i] && !f.optional {
			found.invalid("required", at.member(f.name), nil)
		}
	}
	for _, a := range append(slices.Clip(s.among), s.rules.among...) {
		if a.forms != nil {
			s.oneForm(a, at, present, found)
			continue
		}
		n := 0
		for _, name := range a.names {
			i, ok := s.index[name]
			if ok && present[i] {
				n++
			}
		}
		if a.rule == "oneOf" && n != 1 || a.rule == "anyOf" && n == 0 || a.rule == "atMostOne" && n > 1 {
			found.invalid(a.rule, at, outcome.Params{"fields": a.names})
		}
	}
}

// oneForm reports an object that has members of several forms, or not all of its
// one form. What has none is taken for the first form, the ordinary one.
func (s *shape) oneForm(a among, at *path, present []bool, found *findings) {
	begun := -1
	for i, form := range a.forms {
		if !slices.ContainsFunc(form, func(name string) bool { return present[s.index[name]] }) {
			continue
		}
		if begun >= 0 {
			found.invalid("oneForm", at, outcome.Params{"forms": a.forms})
			return
		}
		begun = i
	}
	for _, name := range a.forms[max(begun, 0)] {
		if !present[s.index[name]] {
			found.invalid("required", at.member(name), nil)
		}
	}
}

func kindOf(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	if t, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := t.MarshalText(); err == nil {
			return string(text)
		}
	}
	return ""
}

// unknown reports a name that the object does not have, and passes over its
// value.
func (d *decoder) unknown(s *shape, name string, at *path) {
	isDotted := d.skipDotted(at)
	switch {
	case legacyFields[name]:
		d.found.add(outcome.SchemaUnknownField, at, outcome.Params{"legacy": name})
	case name == documentHandle && s.pinned():
		d.found.add(outcome.SchemaUnknownField, at, outcome.Params{"reason": "saved_revision_required"})
	case isDotted && s.addresses && legacyAddress[name]:
		d.legacy(at)
	default:
		d.found.add(outcome.SchemaUnknownField, at, nil)
	}
}

func (d *decoder) mapping(s *shape, v reflect.Value, at *path) {
	if _, ok := d.token(at); !ok {
		return
	}
	m := reflect.MakeMap(s.typ)
	var folded map[string]bool
	if s.rules.foldKeys {
		folded = map[string]bool{}
	}
	n := 0
	for d.in.PeekKind() == '"' {
		t, ok := d.token(at)
		if !ok {
			return
		}
		name := t.String()
		here := at.member(shorten(name))
		if s.rules.keyRegexp != nil && !s.rules.keyRegexp.MatchString(name) {
			d.found.invalid("pattern", here, outcome.Params{"pattern": s.rules.keyPattern, "of": "key"})
		}
		if folded != nil {
			lower := strings.ToLower(name)
			if folded[lower] {
				d.found.invalid("duplicate", here, outcome.Params{"of": "key", "ignoring": "case"})
			}
			folded[lower] = true
		}
		elem := reflect.New(s.typ.Elem()).Elem()
		d.value(s.elem, elem, here, s.elem.form == pointerForm)
		if d.broken {
			return
		}
		m.SetMapIndex(reflect.ValueOf(name).Convert(s.typ.Key()), elem)
		n++
	}
	if _, ok := d.token(at); !ok {
		return
	}
	s.count(n, at, d.found)
	v.Set(m)
}

func (d *decoder) list(s *shape, v reflect.Value, at *path) {
	if _, ok := d.token(at); !ok {
		return
	}
	list := reflect.MakeSlice(s.typ, 0, 4)
	for i := 0; ; i++ {
		kind := d.in.PeekKind()
		if kind == ']' {
			break
		}
		elem := reflect.New(s.typ.Elem()).Elem()
		d.value(s.elem, elem, at.element(i), s.elem.form == pointerForm)
		if d.broken {
			return
		}
		list = reflect.Append(list, elem)
	}
	if _, ok := d.token(at); !ok {
		return
	}
	s.count(list.Len(), at, d.found)
	v.Set(list)
}

func (s *shape) count(n int, at *path, found *findings) {
	if s.rules.minItems != nil && n < *s.rules.minItems {
		found.invalid("minItems", at, outcome.Params{"limit": *s.rules.minItems, "observed": n})
	}
	if s.rules.maxItems != nil && n > *s.rules.maxItems {
		found.invalid("maxItems", at, outcome.Params{"limit": *s.rules.maxItems, "observed": n})
	}
}

// union reads the object whole, looks for its kind, and reads it again as that
// variant.
func (d *decoder) union(s *shape, v reflect.Value, at *path) {
	depth := d.base + d.in.StackDepth()
	text, ok := d.raw(at)
	if !ok {
		return
	}
	kind, has := findKind(text)
	variant := s.variants[kind]
	switch {
	case !has:
		d.found.invalid("required", at.member("kind"), outcome.Params{"allowed": s.kinds})
	case variant == nil:
		d.found.invalid("enum", at.member("kind"), outcome.Params{"allowed": s.kinds})
	default:
		value := reflect.New(variant.typ).Elem()
		decodeText(text, variant, value, at, depth, d.found)
		v.Set(value)
	}
}

// findKind returns the member "kind" of an object. has is true for a kind that
// is no string, too: that is then the unknown kind "".
func findKind(text []byte) (kind string, has bool) {
	in := jsontext.NewDecoder(bytes.NewBuffer(text))
	in.ReadToken() // the text was read once: it is an object
	for in.PeekKind() == '"' {
		name, err := in.ReadToken()
		if err != nil {
			return "", false
		}
		if name.String() != "kind" {
			if in.SkipValue() != nil {
				return "", false
			}
			continue
		}
		if in.PeekKind() != '"' {
			return "", true
		}
		t, err := in.ReadToken()
		return t.String(), err == nil
	}
	return "", false
}

func (d *decoder) any(s *shape, v reflect.Value, at *path) {
	depth := d.base + d.in.StackDepth()
	text, ok := d.raw(at)
	if !ok {
		return
	}
	text = slices.Clone(text)
	if !d.numbers(text, at) {
		return
	}
	if depth+nesting(text) > canon.MaxDepth {
		d.breakAt(at)
		return
	}
	if err := text.Canonicalize(); err != nil {
		d.breakAt(at)
		return
	}
	if s.form == rawForm {
		v.SetBytes(text)
		return
	}
	value, err := goValue(text)
	if err != nil {
		d.breakAt(at)
		return
	}
	if value != nil {
		v.Set(reflect.ValueOf(value))
	}
}
