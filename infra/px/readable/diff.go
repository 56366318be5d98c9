package readable

import (
	"bufio"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/term"
)

// isDiff reports whether a list is the diff of a plan.
func isDiff(all []jsontext.Value) bool {
	for _, e := range all {
		if member(e, "op") == nil || member(e, "path") == nil {
			return false
		}
		for name := range Members(e) {
			switch name {
			case "op", "path", "before", "after", "unified":
			default:
				return false
			}
		}
	}
	return len(all) > 0
}

// Difference writes one entry of the diff of a plan: what was there with -, what takes
// its place with +, and of a source the lines that change.
func Difference(s *term.Screen, indent string, entry jsontext.Value) error {
	p := &page{s, bufio.NewWriter(s), More{}, false, false}
	p.difference(indent, entry)
	return p.w.Flush()
}

func (p *page) difference(indent string, e jsontext.Value) {
	p.printf("%s%s\n", indent, p.Paint(term.Bold, scalar(member(e, "op"))+" "+scalar(member(e, "path"))))
	if before := member(e, "before"); before != nil {
		p.printf("%s  %s\n", indent, p.Paint(term.Red, "- "+term.Plain(compact(before))))
	}
	if after := member(e, "after"); after != nil {
		p.printf("%s  %s\n", indent, p.Paint(term.Green, "+ "+term.Plain(compact(after))))
	}
	for line := range strings.Lines(textOf(member(e, "unified"))) {
		line = term.Plain(strings.TrimRight(line, "\r\n"))
		colour := term.Colour("")
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			colour = term.Bold
		case strings.HasPrefix(line, "+"):
			colour = term.Green
		case strings.HasPrefix(line, "-"):
			colour = term.Red
		case strings.HasPrefix(line, "@@"):
			colour = term.Cyan
		}
		if colour != "" {
			line = p.Paint(colour, line)
		}
		p.printf("%s  %s\n", indent, line)
	}
}
