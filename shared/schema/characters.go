package schema

import "unicode"

// The kinds of text that the rule text names.
const (
	lineText  = "line"  // one line
	proseText = "prose" // lines and tabs; what parts lines is \n, or the separators of Unicode
)

// misleads returns the place of the first character, counted in characters, that
// makes what a reviewer sees differ from what is there, and what it is: a control
// character, in one line a separator of lines, or a control of the direction. kind
// is one of the two above. what is "" where there is none.
//
// Characters that are merely not seen, such as the joiners of emoji and of some
// scripts, are letters of a language and stay.
func misleads(text, kind string) (at int, what string) {
	for _, c := range text {
		switch {
		case kind == proseText && (c == '\n' || c == '\t' || c == '\u2028' || c == '\u2029'):
		case unicode.Is(unicode.Cc, c), c == '\u2028', c == '\u2029':
			return at, "control"
		case c == '\u061c', c == '\u200e', c == '\u200f', '\u202a' <= c && c <= '\u202e', '\u2066' <= c && c <= '\u2069':
			return at, "bidirectional"
		}
		at++
	}
	return 0, ""
}
