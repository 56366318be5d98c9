// Package readable shows the answers of the tools to a person. It knows the forms that
// all of them share, the envelope, exact targets, labels, typed values with units,
// tables, diagnostics, diffs, lists and what is cut, and no tool: an answer of a tool
// that there is not yet is as readable as any (W10). Nothing that an answer says is left
// out, rounded or cut, and nothing in it reaches the terminal as anything but text.
package readable

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/term"
)

// More says how a person goes on with an answer that is cut.
type More struct {
	Next string // the command that prints the next part
	All  string // the command that prints all
}

// A page is what is written.
type page struct {
	*term.Screen
	w    *bufio.Writer
	more More
	some bool // something is written
	tall bool // what was written last, at the left edge, took several lines
}

// Envelope writes the answer of a tool. Its error is that of the screen, or of an
// answer that is no envelope.
func Envelope(s *term.Screen, envelope []byte, more More) error {
	var e struct {
		OK          *bool            `json:"ok"`
		Data        jsontext.Value   `json:"data"`
		Diagnostics []jsontext.Value `json:"diagnostics"`
		Resources   []jsontext.Value `json:"resources"`
	}
	if err := json.Unmarshal(envelope, &e); err != nil || e.OK == nil {
		return fmt.Errorf("the answer is no envelope")
	}
	p := &page{s, bufio.NewWriter(s), more, false, false}
	if e.Data.Kind() == '{' {
		p.data(e.Data)
	} else if *e.OK {
		p.printf("done\n")
	}
	if len(e.Diagnostics) > 0 {
		p.gap()
		p.diagnostics("", e.Diagnostics)
	}
	if len(e.Resources) > 0 {
		p.gap()
		p.printf("%s\n", p.Paint(term.Bold, "resources"))
		p.rows("  ", "", e.Resources)
	}
	return p.w.Flush()
}

// Object writes the members of an object.
func Object(s *term.Screen, object jsontext.Value) error {
	p := &page{s, bufio.NewWriter(s), More{}, false, false}
	p.members("", object)
	return p.w.Flush()
}

// Diagnostics writes those of an envelope, each with what it means and what to do next.
func Diagnostics(s *term.Screen, indent string, envelope []byte) error {
	p := &page{s, bufio.NewWriter(s), More{}, false, false}
	p.diagnostics(indent, elements(member(envelope, "diagnostics")))
	return p.w.Flush()
}

// Rows writes objects as a table.
func Rows(s *term.Screen, indent string, rows []jsontext.Value) error {
	p := &page{s, bufio.NewWriter(s), More{}, false, false}
	p.rows(indent, "", rows)
	return p.w.Flush()
}

// Value writes a typed value: alone on a line, or as a table.
func Value(s *term.Screen, indent string, value jsontext.Value) error {
	p := &page{s, bufio.NewWriter(s), More{}, false, false}
	if text, ok := inline("", value, p.Columns-len(indent)); ok {
		p.printf("%s%s\n", indent, text)
	} else {
		p.block(indent, "", value)
	}
	return p.w.Flush()
}

func (p *page) printf(format string, args ...any) {
	p.some = true
	fmt.Fprintf(p.w, format, args...)
}

// gap writes an empty line between what is written and what follows.
func (p *page) gap() {
	if p.some {
		p.printf("\n")
	}
}

// data writes the data of an answer, and at its end what is cut.
func (p *page) data(data jsontext.Value) {
	var cut jsontext.Value
	next, limit := "", ""
	rest := object(data, func(name string, v jsontext.Value) bool {
		switch name {
		case "truncation":
			cut = v
		case "nextCursor":
			next = textOf(v)
		case "appliedLimit":
			limit = scalar(v)
		default:
			return true
		}
		return false
	})
	p.members("", rest)
	if cut == nil && next == "" {
		return
	}
	p.printf("\n")
	what := "This is not all"
	switch budget := textOf(member(cut, "budget")); {
	case budget != "":
		what = fmt.Sprintf("This is not all: it is cut by the budget of %s, limit %s, of %s in all", term.Plain(budget), scalar(member(cut, "limit")), scalar(member(cut, "observed")))
	case limit != "":
		what = fmt.Sprintf("This is not all: it is one page of at most %s", limit)
	}
	p.printf("%s\n", p.Paint(term.Yellow, what+"."))
	if p.more.Next != "" {
		p.printf("  the next part:  %s\n  all parts:      %s\n", term.Plain(p.more.Next), term.Plain(p.more.All))
	}
}

// object copies an object without the members that are not kept.
func object(o jsontext.Value, keep func(string, jsontext.Value) bool) jsontext.Value {
	var out strings.Builder
	out.WriteByte('{')
	for name, v := range Members(o) {
		if !keep(name, v) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, _ := jsontext.AppendQuote(nil, name)
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(v)
	}
	out.WriteByte('}')
	return jsontext.Value(out.String())
}

// maxName is how far values are moved to the right to stand below each other.
const maxName = 28

// members writes the members of an object: those of one line below each other.
func (p *page) members(indent string, o jsontext.Value) {
	type line struct {
		name string
		v    jsontext.Value
	}
	var all []line
	width := 0
	for name, v := range Members(o) {
		all = append(all, line{name, v})
		if w := term.Width(term.Plain(name)); w <= maxName {
			width = max(width, w)
		}
	}
	for _, l := range all {
		p.member(indent, indent, width, l.name, l.v)
	}
}

// member writes one member: before stands before its name, and what takes more lines is
// indented by indent, which is as wide.
func (p *page) member(before, indent string, width int, name string, v jsontext.Value) {
	shown := term.Plain(name)
	columns := p.Columns - len(indent) - max(width, term.Width(shown)) - 2
	_, isText := inline(name, v, 1<<30)
	text, fits := inline(name, v, columns)
	lead := before + p.Paint(term.Dim, term.Pad(shown, width)) + "  "
	if indent == "" {
		fits = fits && !manyObjects(v)
		if p.tall && (fits || isTarget(v)) {
			p.gap()
		}
		p.tall = false
	}
	switch {
	case fits:
		p.printf("%s%s\n", lead, text)
	case isTarget(v) || isScope(v): // to be copied: never broken
		p.printf("%s%s\n", lead, text)
	case isText && (v.Kind() == '"' || plainList(v) || isContract(v)):
		p.long(lead, indent+strings.Repeat(" ", max(width, term.Width(shown))+2), columns, text)
	case v.Kind() == '"':
		p.printf("%s%s\n", before, p.Paint(term.Dim, shown))
		p.block(indent+"  ", name, v)
	default:
		heading := shown
		if list := elements(v); list != nil {
			heading = fmt.Sprintf("%s (%d)", shown, len(list))
		}
		if indent == "" {
			p.gap()
			p.printf("%s\n", p.Paint(term.Bold, heading))
		} else {
			p.printf("%s%s\n", before, p.Paint(term.Dim, heading))
		}
		p.block(indent+"  ", name, v)
		p.tall = p.tall || indent == ""
	}
}

// manyObjects reports whether a value is a list of objects, or several of them by their
// keys, which are better read as a table.
func manyObjects(v jsontext.Value) bool {
	if all := elements(v); all != nil {
		return slices.ContainsFunc(all, func(e jsontext.Value) bool { return e.Kind() == '{' })
	}
	if v.Kind() != '{' || isTarget(v) || isScope(v) {
		return false
	}
	n := 0
	for _, m := range Members(v) {
		if m.Kind() == '{' {
			n++
		}
	}
	return n > 1
}

// plainList reports whether a list has nothing but words in it, which can be broken
// between.
func plainList(v jsontext.Value) bool {
	all := elements(v)
	return all != nil && !slices.ContainsFunc(all, func(e jsontext.Value) bool {
		return e.Kind() == '{' || e.Kind() == '[' || strings.ContainsAny(textOf(e), " ,")
	})
}

// long writes a long text over lines, if that takes nothing from it.
func (p *page) long(lead, indent string, columns int, text string) {
	lines := []string{text}
	if strings.Join(strings.Fields(text), " ") == text {
		lines = term.Wrap(text, columns)
	}
	p.printf("%s%s\n", lead, strings.Join(lines, "\n"+indent))
}

// block writes a value over lines.
func (p *page) block(indent, name string, v jsontext.Value) {
	switch v.Kind() {
	case '"':
		for line := range strings.Lines(textOf(v)) {
			p.printf("%s| %s\n", indent, term.Plain(strings.TrimSuffix(line, "\n")))
		}
	case '[':
		p.list(indent, name, v)
	case '{':
		if columns, rows, ok := tableOf(v); ok {
			p.table(indent, columns, rows)
			return
		}
		if value, unit, ok := quantityOf(v); ok {
			if unit != "" {
				p.printf("%s%s\n", indent, p.Paint(term.Dim, "in "+term.Plain(unit)))
			}
			p.block(indent, name, value)
			return
		}
		if p.keyed(indent, v) {
			return
		}
		p.members(indent, v)
	default:
		p.printf("%s%s\n", indent, scalar(v))
	}
}

func (p *page) list(indent, name string, v jsontext.Value) {
	all := elements(v)
	objects := !slices.ContainsFunc(all, func(e jsontext.Value) bool { return e.Kind() != '{' })
	switch {
	case len(all) == 0:
		p.printf("%snone\n", indent)
	case objects && isDiff(all):
		for _, e := range all {
			p.difference(indent, e)
		}
	case objects && strings.HasSuffix(name, "iagnostics"):
		p.diagnostics(indent, all)
	case objects:
		p.rows(indent, name, all)
	default:
		for i, e := range all {
			if text, ok := inline("", e, p.Columns-len(indent)); ok || e.Kind() == '"' && text != "" {
				p.printf("%s%s\n", indent, text)
			} else {
				p.printf("%s%s\n", indent, p.Paint(term.Dim, fmt.Sprintf("[%d]", i)))
				p.block(indent+"  ", "", e)
			}
		}
	}
}

// keyed writes an object whose members are alike, such as the ports of a Flow by their
// keys, as a table.
func (p *page) keyed(indent string, v jsontext.Value) bool {
	var rows []jsontext.Value
	var keys []string
	seen := map[string]int{}
	for name, m := range Members(v) {
		if m.Kind() != '{' || isTarget(m) {
			return false
		}
		if _, _, ok := quantityOf(m); ok && len(m) > maxInline {
			return false
		}
		for n := range Members(m) {
			seen[n]++
		}
		keys, rows = append(keys, name), append(rows, m)
	}
	alike := 0
	for _, n := range seen {
		if n == len(rows) {
			alike++
		}
	}
	if len(rows) < 2 || 2*alike < len(seen) {
		return false
	}
	p.grid(indent, "key", keys, rows)
	return true
}

// rows writes a list of objects as a table.
func (p *page) rows(indent, name string, all []jsontext.Value) { p.grid(indent, "", nil, all) }
