package figure

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"unicode"
)

// A markup is a page's part under construction.
type markup struct{ strings.Builder }

// add writes a format: a string is text and is escaped, a float64 is a coordinate.
func (m *markup) add(format string, args ...any) {
	safe := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			safe[i] = template.HTMLEscapeString(Visible(a))
		case float64:
			safe[i] = coordinate(a)
		case int:
			safe[i] = strconv.Itoa(a)
		default:
			panic(fmt.Sprintf("figure: %T in markup", a))
		}
	}
	fmt.Fprintf(&m.Builder, format, safe...)
}

// coordinate writes a place in a drawing, to a tenth of a pixel.
func coordinate(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// Visible returns text with the marks shown that change how other text is read, or
// that a drawing cannot have: control characters, directional marks and what has no
// width become U+ and their number.
func Visible(text string) string {
	clean := func(r rune) bool {
		switch {
		case r == unicode.ReplacementChar, r == '\u200c', r == '\u200d': // joiners are part of words
			return true
		case r == '\u2028', r == '\u2029', r > 0xfffd && r < 0x10000:
			return false
		}
		return !unicode.In(r, unicode.Cc, unicode.Cf)
	}
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 && strings.ToValidUTF8(text, "") == text {
		return text
	}
	var out strings.Builder
	for _, r := range text { // invalid UTF-8 becomes U+FFFD
		if clean(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "[U+%04X]", r)
		}
	}
	return out.String()
}

// em is how wide a text is, in widths of its font's height: an estimate, since a server
// knows no font. It is on the wide side.
func em(text string) float64 {
	sum := 0.0
	for _, r := range text {
		switch {
		case wide(r):
			sum += 1.02
		case unicode.In(r, unicode.Mn, unicode.Me):
		default:
			sum += 0.62
		}
	}
	return sum
}

// wide reports whether a character is about as wide as it is high: Hangul, kana, Han, full
// width forms and pictures.
func wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f000
}

// fit shortens a text to a width and says whether it did; an ellipsis stands for the
// rest.
func fit(text string, most float64) (string, bool) {
	if em(text) <= most {
		return text, false
	}
	sum := em("…")
	for i, r := range text {
		if sum += em(string(r)); sum > most {
			return text[:i] + "…", true
		}
	}
	return text, false
}

// tag is the form of an identifier in a page.
func tag(id string) string {
	if id == "" || strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) >= 0 {
		panic("figure: an ID of a figure is letters, digits, - and _")
	}
	return id
}

// leads keeps of an address only what stays on this host: a path, or a place in the page.
func leads(href string) string {
	if strings.HasPrefix(href, "#") || strings.HasPrefix(href, "/") && !strings.HasPrefix(href, "//") && !strings.HasPrefix(href, "/\\") {
		return href
	}
	return ""
}
