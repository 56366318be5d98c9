package readable

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/term"
)

// Members goes through the members of an object in their order.
func Members(object jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		d := jsontext.NewDecoder(bytes.NewReader(object))
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return
			}
			key := name.String()
			value, err := d.ReadValue()
			if err != nil || !yield(key, value.Clone()) {
				return
			}
		}
	}
}

// elements are those of a list, nil of anything else.
func elements(list jsontext.Value) []jsontext.Value {
	var all []jsontext.Value
	if list.Kind() != '[' || json.Unmarshal(list, &all) != nil {
		return nil
	}
	return all
}

// member returns a member of an object, nil if there is none.
func member(object jsontext.Value, name string) jsontext.Value {
	if object.Kind() != '{' {
		return nil
	}
	for n, v := range Members(object) {
		if n == name {
			return v
		}
	}
	return nil
}

// textOf is the content of a JSON string, "" of anything else.
func textOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(text)
}

var language = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{1,8})*$`)

// The forms of the contract that are shown in a way of their own.

// isTarget reports whether a value is an exact target: it is copied, and so shown as it
// stands.
func isTarget(v jsontext.Value) bool {
	scope := member(v, "scope")
	return scope != nil && scope.Kind() == '{' && member(scope, "kind") != nil
}

// isScope reports whether a value is the scope of targets, which is copied too.
func isScope(v jsontext.Value) bool {
	return textOf(member(v, "kind")) != "" && member(v, "workspaceKey") != nil
}

// isContract reports whether a value is the contract of a port: type, unit, shape and so
// on, which say for themselves what they are.
func isContract(v jsontext.Value) bool {
	return member(v, "type").Kind() == '"' && member(v, "shape").Kind() == '"'
}

// quantityOf takes a typed value apart: {"value": 60, "unit": "ft"}, or without unit
// where it has none.
func quantityOf(v jsontext.Value) (value jsontext.Value, unit string, ok bool) {
	if v.Kind() != '{' {
		return nil, "", false
	}
	for name, m := range Members(v) {
		switch {
		case name == "value":
			value = m
		case name == "unit" && m.Kind() == '"':
			unit = textOf(m)
		default:
			return nil, "", false
		}
	}
	return value, unit, value != nil
}

// tableOf takes a table value apart: {"columns": […], "rows": [[…], …]}.
func tableOf(v jsontext.Value) (columns, rows []jsontext.Value, ok bool) {
	if v.Kind() != '{' {
		return nil, nil, false
	}
	for name, m := range Members(v) {
		switch {
		case name == "columns" && m.Kind() == '[':
			columns = elements(m)
		case name == "rows" && m.Kind() == '[':
			rows = elements(m)
			for _, r := range rows {
				if r.Kind() != '[' {
					return nil, nil, false
				}
			}
			ok = true
		default:
			return nil, nil, false
		}
	}
	return columns, rows, ok && columns != nil
}

// labelOf joins the texts of a label, {"en": "Girder", "ko": "거더"}.
func labelOf(v jsontext.Value) (string, bool) {
	var texts []string
	for name, m := range Members(v) {
		if !language.MatchString(name) || m.Kind() != '"' {
			return "", false
		}
		texts = append(texts, scalar(m))
	}
	return strings.Join(texts, " · "), len(texts) > 0
}

// scalar is a text, a number, a truth or null, in one line. A text that could be taken
// for another, or holds what cannot be seen at its ends, is quoted.
func scalar(v jsontext.Value) string {
	if v.Kind() != '"' {
		return term.Plain(string(v))
	}
	text := term.Plain(textOf(v))
	if text == "" || strings.TrimSpace(text) != text {
		return `"` + text + `"`
	}
	return text
}

// inline is a value in one line. ok is false for what is better shown in several: it is
// longer than so many columns, has lines of its own, or is deeply nested.
func inline(name string, v jsontext.Value, columns int) (text string, ok bool) {
	text, ok = oneLine(name, v, 0)
	return text, ok && term.Width(text) <= columns
}

// maxInline is how long a value in JSON may be, in bytes, to be tried on one line.
const maxInline = 4096

func oneLine(name string, v jsontext.Value, depth int) (string, bool) {
	if len(v) > maxInline || depth > 3 {
		return "", false
	}
	switch v.Kind() {
	case '"':
		return scalar(v), !bytes.Contains(v, []byte(`\n`))
	case '[':
		all := elements(v)
		if len(all) == 0 {
			return "none", true
		}
		texts := make([]string, len(all))
		for i, e := range all {
			var ok bool
			if texts[i], ok = oneLine("", e, depth+1); !ok {
				return "", false
			}
			if e.Kind() == '[' || e.Kind() == '{' && !isTarget(e) {
				if _, _, quantity := quantityOf(e); !quantity {
					texts[i] = "(" + texts[i] + ")"
				}
			}
		}
		return strings.Join(texts, ", "), true
	case '{':
		if isTarget(v) || isScope(v) {
			return term.Plain(compact(v)), true
		}
		if value, unit, ok := quantityOf(v); ok {
			if _, _, table := tableOf(value); table {
				return "", false
			}
			text, ok := oneLine("", value, depth+1)
			if value.Kind() == '[' || value.Kind() == '{' {
				text = "(" + text + ")"
			}
			return withUnit(text, unit), ok
		}
		if _, _, ok := tableOf(v); ok {
			return "", false
		}
		if strings.HasSuffix(strings.ToLower(name), "label") {
			if text, ok := labelOf(v); ok {
				return text, true
			}
		}
		var texts []string
		contract := isContract(v)
		for name, m := range Members(v) {
			text, ok := oneLine(name, m, depth+1)
			if !ok {
				return "", false
			}
			if contract && (m.Kind() == '"' || name == "constraints") {
				texts = append(texts, text)
				continue
			}
			_, _, quantity := quantityOf(m)
			if m.Kind() == '{' && !isTarget(m) && !quantity || m.Kind() == '[' && len(elements(m)) > 1 {
				text = "(" + text + ")"
			}
			texts = append(texts, term.Plain(name)+" "+text)
		}
		if texts == nil {
			return "none", true
		}
		return strings.Join(texts, ", "), true
	}
	return scalar(v), true
}

// withUnit puts the unit behind a value. The unit 1 is that of a pure number.
func withUnit(text, unit string) string {
	switch unit {
	case "":
		return text
	case "1":
		return text + " (unit 1)"
	}
	return text + " " + term.Plain(unit)
}

func compact(v jsontext.Value) string {
	c := v.Clone()
	if c.Compact() != nil {
		return string(v)
	}
	return string(c)
}

// ShortTarget is a target as its kind and key, with its version where it has one: for a
// heading, never for copying.
func ShortTarget(v jsontext.Value) (kind, key string) {
	for name, m := range Members(v) {
		if base, ok := strings.CutSuffix(name, "Key"); ok && m.Kind() == '"' {
			kind, key = base, term.Plain(textOf(m))
		}
	}
	if kind == "" {
		if of := textOf(member(member(v, "scope"), "projectKey")); of != "" {
			return "project", term.Plain(textOf(member(member(v, "scope"), "workspaceKey")) + "/" + of)
		}
		return "target", ""
	}
	if version := member(v, "version"); version != nil {
		key = fmt.Sprintf("%s@%s", key, scalar(version))
	}
	return kind, key
}
