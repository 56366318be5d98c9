// Package term is what px knows of the terminal that it writes to: whether there is one,
// how wide it is, whether it is coloured, how many columns a text takes, and how a text
// that somebody else wrote may be shown. It knows nothing of what is written.
package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Columns is how wide what is no terminal is taken to be, and a terminal that does not
// say.
const Columns = 100

// A Screen is where a person reads.
type Screen struct {
	io.Writer
	Terminal bool // somebody looks at it, and a line can be written over
	Colour   bool
	Columns  int // at least 20
}

// Modes of colour, as a flag names them.
const (
	Auto   = "auto"
	Always = "always"
	Never  = "never"
)

// Of returns the screen that out is. In the mode Auto, there is colour on a terminal
// that is not dumb, unless NO_COLOR is set to something (no-color.org).
func Of(out io.Writer, mode string, lookup func(string) (string, bool)) *Screen {
	s := &Screen{Writer: out, Columns: Columns}
	get := func(name string) string { text, _ := lookup(name); return text }
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Terminal = get("TERM") != "dumb"
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			s.Columns = max(columns, 20)
		}
	}
	s.Colour = mode == Always || mode == Auto && s.Terminal && get("NO_COLOR") == ""
	return s
}

// IsTerminal reports whether somebody sits at the other end, dumb terminals included.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A Colour is how a text is painted. Colour is never the only sign of anything.
type Colour string

// The colours: those of the terminal's own palette, which its owner can read.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Bold   Colour = "1"
	Dim    Colour = "2"
)

// Paint returns the text in a colour, where there is colour.
func (s *Screen) Paint(c Colour, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Plain is what somebody else wrote, as a terminal may show it: whatever is no visible
// character (escape sequences, changes of direction, what has no width, letters that
// look like nothing) stands as its code.
func Plain(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) && !blank(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\u{%x}`, r)
		}
	}
	return out.String()
}

// blank reports whether a letter or symbol has no ink: the fillers of Hangul, and the
// empty pattern of Braille.
func blank(r rune) bool {
	return r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0 || r == 0x2800
}

// Width is how many columns a terminal gives to a plain text.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), r > 0x1160 && r <= 0x11ff, r >= 0xd7b0 && r <= 0xd7fb:
		return 0 // it stands on the letter before it; the vowels and ends of a Hangul syllable in it
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Pad fills a plain text up to so many columns.
func Pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-Width(text)))
}

// PadLeft puts a plain text at the end of so many columns.
func PadLeft(text string, columns int) string {
	return strings.Repeat(" ", max(0, columns-Width(text))) + text
}

// Wrap breaks a plain text between words into lines of so many columns. A word that is
// longer has a line of its own and is not broken: it can be copied.
func Wrap(text string, columns int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		w := Width(word)
		if line != "" && used+1+w > columns {
			lines, line, used = append(lines, line), "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+w
	}
	if line != "" || lines == nil {
		lines = append(lines, line)
	}
	return lines
}
