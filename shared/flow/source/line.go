package source

import (
	"strings"
	"unicode/utf8"
)

// A line is one statement with the lines of text that it stands on, in the order of
// the edited source. Places in it are counted from its beginning, and move as it is
// edited.
type line struct {
	layout
	kind, name, nodeKey, portKey string

	// lead is what stands before it: comments and blank lines. It stays when the
	// statement goes.
	lead     string
	body     string // without what ends its last line
	end      string // what ends it: "\n", "\r\n", or nothing at the end of the source
	gone     bool
	call     *Group
	settings *Group
}

// replace puts a term in place of the value of an item.
func (l *line) replace(g *Group, i int, t term) {
	at := g.Items[i].Value
	column, margin := l.column(at[0])
	behind := l.body[at[1]:]
	if n := strings.IndexByte(behind, '\n'); n >= 0 {
		behind = behind[:n]
	}
	l.splice(at[0], at[1], l.render(t, column, margin, utf8.RuneCountInString(strings.TrimRight(behind, "\r"))))
}

// add puts a new item behind the last one of a group: on a line of its own where the
// last one begins its line, and otherwise beside it.
func (l *line) add(g *Group, name, lead string, t term) {
	n := len(g.Items)
	if n == 0 {
		column, margin := l.column(g.Open)
		l.insert(g, g.Open, "", name, lead, l.render(t, column+utf8.RuneCountInString(lead), margin, 1), false)
		return
	}
	last := &g.Items[n-1]
	comma := last.Comma >= 0
	before, at := " ", last.Comma+1
	column, margin := l.column(last.Range[0])
	if strings.TrimLeft(l.body[l.begins(last.Range[0]):last.Range[0]], " \t") == "" {
		before, at = l.newline+margin, l.rest(max(last.Comma+1, last.Range[1]))
	} else {
		at = max(at, last.Range[1])
		column, margin = l.column(at)
		column += len(", ")
	}
	rendered := l.render(t, column+utf8.RuneCountInString(lead), margin, 1)
	if !comma {
		end := last.Range[1]
		l.splice(end, end, ",")
		last.Comma = end
		at++
	}
	l.insert(g, at, before, name, lead, rendered, comma)
}

// insert puts the text of an item at a place behind all others.
func (l *line) insert(g *Group, at int, before, name, lead, rendered string, comma bool) {
	text := before + lead + rendered
	item := Item{Name: name, Range: Range{at + len(before), at + len(text)}, Value: Range{at + len(before) + len(lead), at + len(text)}, Comma: -1}
	if comma {
		item.Comma = at + len(text)
		text += ","
	}
	l.splice(at, at, text)
	g.Items = append(g.Items, item)
}

// remove takes an item out of a group, with the line that it has for itself.
func (l *line) remove(g *Group, i int) {
	item := g.Items[i]
	after := item.Range[1]
	if item.Comma >= 0 {
		after = item.Comma + 1
	}
	begin := l.begins(item.Range[0])
	alone := strings.TrimLeft(l.body[begin:item.Range[0]], " \t") == ""
	rest := l.rest(after)
	g.Items = append(g.Items[:i:i], g.Items[i+1:]...)
	switch {
	case alone && rest < len(l.body) && (l.body[rest] == '\n' || l.body[rest] == '\r'):
		l.splice(begin, rest+strings.IndexByte(l.body[rest:], '\n')+1, "")
	case i < len(g.Items) && l.begins(g.Items[i].Range[0]) == l.begins(after):
		l.splice(item.Range[0], g.Items[i].Range[0], "")
	case i > 0 && l.begins(g.Items[i-1].Range[1]) == begin:
		// The comma of the removed one becomes that of the one before it.
		g.Items[i-1].Comma = item.Comma
		l.splice(g.Items[i-1].Range[1], item.Range[1], "")
	default:
		l.splice(item.Range[0], after, "")
	}
}

// column is where a place stands in its line of text, in characters, and how that
// line is indented.
func (l *line) column(at int) (column int, margin string) {
	begin := l.begins(at)
	text := l.body[begin:at]
	return utf8.RuneCountInString(text), text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

// begins is where the line of text of a place begins.
func (l *line) begins(at int) int { return strings.LastIndexByte(l.body[:at], '\n') + 1 }

// rest is the end of the line of text of a place, where nothing but space and a
// comment stand on the rest of it, and else the place itself.
func (l *line) rest(at int) int {
	end := len(l.body)
	if n := strings.IndexByte(l.body[at:], '\n'); n >= 0 {
		end = at + n
	}
	text := strings.TrimRight(l.body[at:end], "\r")
	if trimmed := strings.TrimLeft(text, " \t"); trimmed != "" && trimmed[0] != '#' {
		return at
	}
	return at + len(text)
}

// splice replaces a part of the body and moves the places behind it. What is put in
// between two places stands behind the ends and before the beginnings there.
func (l *line) splice(from, to int, text string) {
	l.body = l.body[:from] + text + l.body[to:]
	by := len(text) - (to - from)
	ends := func(at *int) {
		if *at >= to && *at > from {
			*at += by
		}
	}
	begins := func(at *int) {
		if *at >= to {
			*at += by
		}
	}
	for _, g := range []*Group{l.call, l.settings} {
		if g == nil {
			continue
		}
		ends(&g.Open)
		begins(&g.Close)
		for i := range g.Items {
			item := &g.Items[i]
			begins(&item.Range[0])
			ends(&item.Range[1])
			begins(&item.Value[0])
			ends(&item.Value[1])
			if item.Comma >= 0 {
				begins(&item.Comma)
			}
		}
	}
}

// moved is a group with places that are counted from a place of the source, of its
// own to change.
func (g *Group) moved(from int) *Group {
	if g == nil {
		return nil
	}
	out := &Group{Open: g.Open - from, Close: g.Close - from, Items: make([]Item, len(g.Items))}
	for i, item := range g.Items {
		for _, r := range []*Range{&item.Range, &item.Value} {
			r[0], r[1] = r[0]-from, r[1]-from
		}
		if item.Comma >= 0 {
			item.Comma -= from
		}
		out.Items[i] = item
	}
	return out
}
