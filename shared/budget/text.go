package budget

import (
	"unicode"
	"unicode/utf8"
)

// costOfPlain is the cost of a piece of text once it is written inside a JSON
// text, without the quotes.
func costOfPlain(text string) cost {
	c := cost{bytes: len(text), escaped: len(text)}
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\': // \" and then \\\"
			c.bytes++
			c.escaped += 3
		case b == '\b' || b == '\f' || b == '\n' || b == '\r' || b == '\t':
			c.bytes++
			c.escaped += 2
		case b < ' ': // \u00xx
			c.bytes += 5
			c.escaped += 6
		case b == '<' || b == '>' || b == '&':
			c.escaped += 5
		case b == 0xe2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xa8:
			c.escaped += 3
		}
	}
	return c
}

// startsCharacter reports whether a code point begins at the offset, or the text
// ends there.
func startsCharacter(text string, offset int) bool {
	return offset == len(text) || utf8.RuneStart(text[offset])
}

// nextBoundary returns where the character that begins at the offset ends. A
// character is what a reader takes for one: a letter with its combining marks, a
// Hangul syllable in composed or decomposed form, an emoji with its modifiers
// and joiners, a flag. The rules are those of UAX 29 for what they name; where
// they would allow more cuts, fewer do no harm.
func nextBoundary(text string, offset int) int {
	previous, size := utf8.DecodeRuneInString(text[offset:])
	end := offset + size
	flags := 0
	if isRegional(previous) {
		flags = 1
	}
	for end < len(text) {
		next, size := utf8.DecodeRuneInString(text[end:])
		switch {
		case previous == '\r' && next == '\n':
		case isControl(previous) || isControl(next):
			return end
		case extends(next), previous == zeroWidthJoiner, prepends(previous):
		case joinsHangul(previous, next):
		case isRegional(next) && flags == 1:
			flags = 2
		default:
			return end
		}
		previous, end = next, end+size
	}
	return end
}

const zeroWidthJoiner = '\u200d'

func isControl(r rune) bool {
	return r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cc, r)
}

// extends reports whether a rune belongs to the character before it.
func extends(r rune) bool {
	switch {
	case r == zeroWidthJoiner, r == '\u200c',
		0x1f3fb <= r && r <= 0x1f3ff, // skin tones
		0xe0020 <= r && r <= 0xe007f, // tags of subdivision flags
		0xff9e <= r && r <= 0xff9f:   // half-width voice marks
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Mc, unicode.Me)
}

// prepends reports whether a rune belongs to the character after it.
func prepends(r rune) bool { return unicode.Is(unicode.Prepended_Concatenation_Mark, r) }

func isRegional(r rune) bool { return unicode.Is(unicode.Regional_Indicator, r) }

// The conjoining jamo.
func isLeading(r rune) bool  { return 0x1100 <= r && r <= 0x115f || 0xa960 <= r && r <= 0xa97c }
func isVowel(r rune) bool    { return 0x1160 <= r && r <= 0x11a7 || 0xd7b0 <= r && r <= 0xd7c6 }
func isTrailing(r rune) bool { return 0x11a8 <= r && r <= 0x11ff || 0xd7cb <= r && r <= 0xd7fb }

func joinsHangul(previous, next rune) bool {
	syllable := 0xac00 <= previous && previous <= 0xd7a3
	switch {
	case isLeading(previous):
		return isLeading(next) || isVowel(next) || 0xac00 <= next && next <= 0xd7a3
	case isVowel(previous), syllable && (previous-0xac00)%28 == 0:
		return isVowel(next) || isTrailing(next)
	case isTrailing(previous), syllable:
		return isTrailing(next)
	}
	return false
}
