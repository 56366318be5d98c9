package term_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/infra/px/term"
)

func TestWidthIsThatOfTheTerminal(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "girder": 6, "거더 검토": 9, "e\u0301": 1, "ﾊﾝ": 2, "漢字": 4, "Ａ": 2, "\u1112\u1161\u11ab": 2, "🙂": 2, "½·…": 3,
	} {
		if got := term.Width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
		if got := term.Width(term.Pad(text, 12)); got != 12 {
			t.Errorf("%q is padded to %d columns", text, got)
		}
		if got := term.Width(term.PadLeft(text, 12)); got != 12 {
			t.Errorf("%q is padded to %d columns", text, got)
		}
	}
}

// What is plain has no control, no change of direction, and nothing that cannot be seen.
func TestPlainHidesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mb": `a\u{1b}[31mb`, "a\u202eb": `a\u{202e}b`, "a\u200bb": `a\u{200b}b`, "a\u3164b": `a\u{3164}b`, "a\u00a0b": `a\u{a0}b`,
		"a\u2066b": `a\u{2066}b`, "거더 é": "거더 é", "a\nb": `a\u{a}b`, "\x9b2J": "\\u{fffd}2J", "\u009b2J": `\u{9b}2J`, "\U000e0041": `\u{e0041}`,
	} {
		if text == "\x9b2J" {
			want = "\ufffd2J" // not UTF-8
		}
		if got := term.Plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		plain := term.Plain(text)
		for _, r := range plain {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%q is shown as %q", text, plain)
			}
		}
		if term.Plain(plain) != plain {
			t.Fatalf("%q is not plain", plain)
		}
	})
}

func TestWrapLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-z가-힣]{1,30} ?){0,20}`).Draw(t, "text")
		lines := term.Wrap(text, 20)
		if strings.Join(lines, " ") != strings.Join(strings.Fields(text), " ") {
			t.Fatalf("%q in lines is %q", text, lines)
		}
		for _, l := range lines {
			if term.Width(l) > 20 && strings.Contains(l, " ") {
				t.Fatalf("%q is too long", l)
			}
		}
	})
}

func TestColour(t *testing.T) {
	env := func(pairs ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		}
	}
	var pipe strings.Builder
	for _, c := range []struct {
		mode string
		want bool
	}{{term.Auto, false}, {term.Always, true}, {term.Never, false}} {
		s := term.Of(&pipe, c.mode, env("NO_COLOR", "1"))
		if s.Colour != c.want || s.Terminal || s.Columns != term.Columns {
			t.Errorf("%s: %+v", c.mode, s)
		}
		if got := s.Paint(term.Red, "x"); (got == "\x1b[31mx\x1b[0m") != c.want {
			t.Errorf("%s: %q", c.mode, got)
		}
	}
}
