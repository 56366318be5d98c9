package source

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// The canonical style of what this package writes: an expression stands on one
// line where that ends within width characters, and otherwise each of its parts
// on a line of its own, indented by four more, with a comma behind the last.
// Strings are in double quotes, members in the canonical order of JSON.
const (
	width  = 100
	indent = "    "
)

// A term is a Python expression of the few forms that are written.
type term struct {
	atom  string // all of it, for one that has no parts
	open  string // "px.number(", "{", "["
	parts []part
	close string
}

type part struct {
	lead  string // `label=`, `"key": `
	value term
}

func atom(text string) term { return term{atom: text} }

// call is a call; arguments are given as parts.
func call(callee string, parts ...part) term {
	return term{open: callee + "(", parts: parts, close: ")"}
}

func positional(t term) part { return part{value: t} }

func keyword(name string, t term) part { return part{name + "=", t} }

// flat is the term on one line.
func (t term) flat() string {
	if t.open == "" {
		return t.atom
	}
	var b strings.Builder
	b.WriteString(t.open)
	for i, p := range t.parts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.lead)
		b.WriteString(p.value.flat())
	}
	b.WriteString(t.close)
	return b.String()
}

// layout writes terms into a text.
type layout struct {
	newline string // of the file
}

// render returns the term as it stands at a column of a line that is indented by
// margin, with room for what follows it on its last line.
func (l layout) render(t term, column int, margin string, behind int) string {
	flat := t.flat()
	if t.open == "" || len(t.parts) == 0 || column+utf8.RuneCountInString(flat)+behind <= width {
		return flat
	}
	var b strings.Builder
	b.WriteString(t.open)
	inner := margin + indent
	for _, p := range t.parts {
		b.WriteString(l.newline)
		b.WriteString(inner)
		b.WriteString(p.lead)
		b.WriteString(l.render(p.value, utf8.RuneCountInString(inner+p.lead), inner, 1))
		b.WriteByte(',')
	}
	b.WriteString(l.newline)
	b.WriteString(margin)
	b.WriteString(t.close)
	return b.String()
}

// literal is a JSON value as a Python literal. Numbers are in their canonical form,
// the shortest that reads as the same number; it is Python's form as well. Whole ones
// that binary64 does not hold all of are written as floats, which is what they are.
func literal(value canon.Raw) (term, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(value))
	return readLiteral(decoder)
}

func readLiteral(d *jsontext.Decoder) (term, error) {
	token, err := d.ReadToken()
	if err != nil {
		return term{}, fmt.Errorf("source: a value that was never decoded: %w", err)
	}
	switch token.Kind() {
	case 'n':
		return atom("None"), nil
	case 't':
		return atom("True"), nil
	case 'f':
		return atom("False"), nil
	case '"':
		return atom(quote(token.String())), nil
	case '0':
		text := token.String()
		if f, err := token.Float(); err == nil && math.Abs(f) > maxExact && !strings.ContainsAny(text, ".eE") {
			text = strconv.FormatFloat(f, 'e', -1, 64)
		}
		return atom(text), nil
	case '[':
		t := term{open: "[", close: "]"}
		for d.PeekKind() != ']' {
			v, err := readLiteral(d)
			if err != nil {
				return term{}, err
			}
			t.parts = append(t.parts, positional(v))
		}
		_, err := d.ReadToken()
		return t, err
	default:
		t := term{open: "{", close: "}"}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return term{}, err
			}
			lead := quote(name.String()) + ": " // the token does not outlive the next read
			v, err := readLiteral(d)
			if err != nil {
				return term{}, err
			}
			t.parts = append(t.parts, part{lead, v})
		}
		_, err := d.ReadToken()
		return t, err
	}
}

// maxExact is the largest whole number up to which binary64 holds all.
const maxExact = 1<<53 - 1

// quote is a text as a Python string literal. What a reader cannot see, or would
// see as something else, is escaped: controls, what has no width, and marks that
// turn the direction of writing.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// keywords are Python's own words, which can be no name of a definition.
var keywords = map[string]bool{}

func init() {
	for _, word := range strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from global
		if import in is lambda nonlocal not or pass raise return try while with yield`) {
		keywords[word] = true
	}
}

// freeName is a name for a definition: its key, or the key with its kind and a
// number where that is taken.
func freeName(key, kind string, taken map[string]bool) string {
	free := func(name string) bool { return !taken[name] && !keywords[name] }
	if free(key) {
		return key
	}
	name := key + "_" + kind
	for n := 2; !free(name); n++ {
		name = key + "_" + kind + "_" + strconv.Itoa(n)
	}
	return name
}
