// Package template puts arguments into texts, JSON values and URL parameters (A1, A4,
// A5). There are two placeholders, {query} and {arguments.KEY}, and nothing else: no
// expression, no condition, no escape. {query} is the argument query. A brace that
// belongs to no placeholder is refused when a package is validated.
//
// Where a placeholder is the whole of a string inside JSON, the argument keeps its JSON
// type, 0, false and "" included. An argument that is missing is left out with its
// member; where that cannot be (in a text, in a list), the arguments are refused.
package template

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The limits of URL parameters (A4). The limit itself is allowed.
const (
	MaxNames   = 32
	MaxValues  = 64       // of one name
	MaxEncoded = 16 << 10 // bytes of all together, URL-encoded
)

// The rules that arguments break.
const (
	Missing   = "missing"    // there is no such argument, or it is null where text is needed
	NotScalar = "not_scalar" // a list or an object where text is needed
	NotList   = "not_list"   // an object, or a list in a list, where URL parameters are needed
	TooMany   = "too_many"   // values of one parameter
	TooLong   = "too_long"   // parameters as a whole
)

// An ArgumentError says which argument cannot be put where a template needs it. It does
// not quote it.
type ArgumentError struct {
	Name string // of the argument; "" where it is all together
	Rule string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("template: argument %s: %s", e.Name, e.Rule)
}

// Argument tells both.
func (e *ArgumentError) Argument() (name, rule string) { return e.Name, e.Rule }

// Arguments are the members of an object of arguments.
type Arguments map[string]canon.Raw

// Read reads an object of arguments in canonical form.
func Read(text canon.Raw) (Arguments, error) {
	var a Arguments
	if err := json.Unmarshal(text, &a); err != nil || a == nil {
		return nil, errors.New("template: the arguments are no object")
	}
	return a, nil
}

// placeholder is one, with the name of its argument.
var placeholder = regexp.MustCompile(`\{(query|arguments\.([A-Za-z0-9_-]{1,64}))\}`)

// A part of a text is literal, or the argument of a name.
type part struct{ literal, name string }

// A Text is a text with placeholders.
type Text struct{ parts []part }

// ErrBrace says that a text has a brace that belongs to no placeholder.
var ErrBrace = errors.New("template: a brace that belongs to no placeholder")

// Parse reads a text.
func Parse(text string) (Text, error) {
	var t Text
	for {
		at := placeholder.FindStringSubmatchIndex(text)
		literal := text
		if at != nil {
			literal = text[:at[0]]
		}
		if strings.ContainsAny(literal, "{}") {
			return Text{}, ErrBrace
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if at == nil {
			return t, nil
		}
		name := "query"
		if at[4] >= 0 {
			name = text[at[4]:at[5]]
		}
		t.parts = append(t.parts, part{name: name})
		text = text[at[1]:]
	}
}

// Names are the arguments that the text needs.
func (t Text) Names() (names []string) {
	for _, p := range t.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// whole returns the argument of a text that is one placeholder and nothing else.
func (t Text) whole() (name string, ok bool) {
	if len(t.parts) == 1 && t.parts[0].name != "" {
		return t.parts[0].name, true
	}
	return "", false
}

// Render puts the arguments into the text: strings as they are, numbers and booleans as
// JSON writes them.
func (t Text) Render(a Arguments) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			out.WriteString(p.literal)
			continue
		}
		text, err := scalar(a, p.name)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// scalar is an argument as text.
func scalar(a Arguments, name string) (string, error) {
	value, there := a[name]
	if !there || value.Kind() == 'n' {
		return "", &ArgumentError{name, Missing}
	}
	text, ok := textOf(value)
	if !ok {
		return "", &ArgumentError{name, NotScalar}
	}
	return text, nil
}

// textOf is a string, a number or a boolean as text.
func textOf(value canon.Raw) (string, bool) {
	switch value.Kind() {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err == nil
	case '0', 't', 'f':
		return string(value), true
	}
	return "", false
}

// A Value is JSON whose strings are texts.
type Value struct {
	raw     canon.Raw // of what is no string, list or object
	text    *Text
	list    []Value
	isList  bool
	members map[string]Value
}

// ParseValue reads a value that stands at a JSON Pointer, and reports every brace in it
// that belongs to no placeholder. Names of members are not texts.
func ParseValue(raw canon.Raw, at string) (Value, outcome.Findings) {
	var findings outcome.Findings
	v := parseValue(raw, at, &findings)
	return v, findings
}

func parseValue(raw canon.Raw, at string, findings *outcome.Findings) Value {
	wrong := func(rule string) Value {
		findings.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": rule})
		return Value{}
	}
	switch raw.Kind() {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return wrong("json")
		}
		t, err := Parse(s)
		if err != nil {
			return wrong("placeholder")
		}
		return Value{text: &t}
	case '[':
		var list []canon.Raw
		if json.Unmarshal(raw, &list) != nil {
			return wrong("json")
		}
		v := Value{isList: true}
		for i, one := range list {
			v.list = append(v.list, parseValue(one, at+"/"+strconv.Itoa(i), findings))
		}
		return v
	case '{':
		var members map[string]canon.Raw
		if json.Unmarshal(raw, &members) != nil {
			return wrong("json")
		}
		v := Value{members: map[string]Value{}}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			v.members[name] = parseValue(members[name], at+"/"+strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"), findings)
		}
		return v
	case '0', 't', 'f', 'n':
		return Value{raw: raw}
	}
	return wrong("json")
}

// IsObject reports whether the value is one.
func (v Value) IsObject() bool { return v.members != nil }

// Names are the arguments that the value takes in.
func (v Value) Names() (names []string) {
	if v.text != nil {
		names = v.text.Names()
	}
	for _, one := range v.list {
		names = append(names, one.Names()...)
	}
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		names = append(names, v.members[name].Names()...)
	}
	return names
}

// Render returns the value with the arguments in it, as canonical JSON.
func (v Value) Render(a Arguments) (canon.Raw, error) {
	out, err := v.render(a)
	if err != nil {
		return nil, err
	}
	if out == nil {
		name, _ := v.text.whole()
		return nil, &ArgumentError{name, Missing}
	}
	text, err := canon.Encode(out)
	return text, err
}

// render returns nil where the whole is an argument that is missing.
func (v Value) render(a Arguments) (any, error) {
	switch {
	case v.text != nil:
		if name, ok := v.text.whole(); ok {
			value, there := a[name]
			if !there {
				return nil, nil
			}
			return value, nil
		}
		return v.text.Render(a)
	case v.members != nil:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v.members)) {
			value, err := v.members[name].render(a)
			if err != nil {
				return nil, err
			}
			if value != nil {
				out[name] = value
			}
		}
		return out, nil
	case v.isList:
		out := []any{}
		for _, one := range v.list {
			value, err := one.render(a)
			if err != nil {
				return nil, err
			}
			if value == nil {
				name, _ := one.text.whole()
				return nil, &ArgumentError{name, Missing}
			}
			out = append(out, value)
		}
		return out, nil
	}
	return v.raw, nil
}

// Params are URL parameters.
type Params struct{ of map[string]Value }

// Query are the parameters of a GET that declares none: query=<input>.
func Query() Params {
	text, _ := Parse("{query}")
	return Params{map[string]Value{"query": {text: &text}}}
}

// ParseParams reads parameters that stand at a JSON Pointer: of each name a string, a
// number, a boolean, or a list of them.
func ParseParams(of map[string]canon.Raw, at string) (Params, outcome.Findings) {
	p := Params{map[string]Value{}}
	var findings outcome.Findings
	if len(of) > MaxNames {
		findings.Add(outcome.LimitExceeded, at, outcome.Params{"limit": MaxNames, "observed": len(of), "of": "names"})
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		here := at + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		v := parseValue(of[name], here, &findings)
		p.of[name] = v
		switch {
		case name == "":
			findings.Add(outcome.SchemaInvalid, here, outcome.Params{"rule": "minLength"})
		case len(v.list) > MaxValues:
			findings.Add(outcome.LimitExceeded, here, outcome.Params{"limit": MaxValues, "observed": len(v.list), "of": "values"})
		case v.members != nil || v.raw.Kind() == 'n', slices.ContainsFunc(v.list, func(one Value) bool { return one.members != nil || one.isList || one.raw.Kind() == 'n' }):
			findings.Add(outcome.SchemaInvalid, here, outcome.Params{"rule": "type", "expected": "string, number, boolean or a list of them"})
		}
	}
	// What no argument makes shorter could never be sent.
	if fixed := (*ArgumentError)(nil); findings == nil {
		if _, err := p.Apply("", nil); errors.As(err, &fixed) {
			findings.Add(outcome.LimitExceeded, at, outcome.Params{"limit": MaxEncoded, "of": "encodedBytes"})
		}
	}
	return p, findings
}

// Names are the arguments that the parameters take in.
func (p Params) Names() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.of)) {
		names = append(names, p.of[name].Names()...)
	}
	return names
}

// Apply returns a query string: that of an endpoint, in which parameters that have
// values take the place of those of the same name. What is null or missing has none.
func (p Params) Apply(query string, a Arguments) (string, error) {
	var added []string
	replaced := map[string]bool{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(p.of)) {
		values, err := p.of[name].values(a)
		if err != nil {
			return "", err
		}
		for _, value := range values {
			pair := url.QueryEscape(name) + "=" + url.QueryEscape(value)
			added = append(added, pair)
			size += len(pair) + 1
			replaced[name] = true
		}
	}
	if size > MaxEncoded+1 { // the first has no & before it
		return "", &ArgumentError{"", TooLong}
	}
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); pair == "" || err == nil && replaced[plain] {
			continue
		}
		out = append(out, pair)
	}
	return strings.Join(append(out, added...), "&"), nil
}

// values are the values of one parameter.
func (v Value) values(a Arguments) ([]string, error) {
	of := []Value{v}
	if v.isList {
		of = v.list
	}
	var out []string
	for _, one := range of {
		if one.text == nil {
			out = append(out, string(one.raw))
			continue
		}
		name, whole := one.text.whole()
		if !whole {
			text, err := one.text.Render(a)
			if failed := (*ArgumentError)(nil); errors.As(err, &failed) && failed.Rule == Missing {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, text)
			continue
		}
		value, there := a[name]
		var list []canon.Raw
		switch {
		case !there || value.Kind() == 'n':
			continue
		case value.Kind() == '[' && !v.isList:
			if json.Unmarshal(value, &list) != nil {
				return nil, &ArgumentError{name, NotList}
			}
		default:
			list = []canon.Raw{value}
		}
		for _, each := range list {
			if each.Kind() == 'n' {
				continue
			}
			text, ok := textOf(each)
			if !ok {
				return nil, &ArgumentError{name, NotList}
			}
			out = append(out, text)
		}
		if len(out) > MaxValues {
			return nil, &ArgumentError{name, TooMany}
		}
	}
	return out, nil
}
