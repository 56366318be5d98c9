// Package search finds catalog entries by words, page by page, and tells exactly
// when a further page exists (S1, S2, S3, S5).
//
// It knows no catalog, no permission and no cursor: entries come from the
// sources it is given, in their order, and a position is a plain text that the
// caller seals.
package search

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxQuery is the longest query, in code points.
const MaxQuery = 1000

// Normalize makes the text that is stored for an entry, from its keys, labels,
// descriptions, port names and units. What a person takes for the same letters
// becomes the same text: case, width, composed and decomposed Hangul, ligatures.
// The parts stay apart, so that no word is found across two of them.
func Normalize(parts ...string) string {
	folded := make([]string, 0, len(parts))
	for _, p := range parts {
		if p = fold(p); p != "" {
			folded = append(folded, p)
		}
	}
	return strings.Join(folded, "\n")
}

// fold is Unicode's compatibility caseless form: NFKC and full case folding,
// each again, since either may make work for the other. Format characters and
// variation selectors, which nobody types on purpose, are dropped; white space
// is one space. The four letters i of Turkish are one, as they are for whoever types
// a Turkish word in capitals on another keyboard, or an English one on that.
func fold(s string) string {
	caser := cases.Fold()
	s = norm.NFKC.String(strings.Map(visible, s))
	for range 2 {
		s = norm.NFKC.String(oneI.Replace(caser.String(s)))
	}
	return strings.Join(strings.Fields(s), " ")
}

var oneI = strings.NewReplacer("\u0131", "i", "i\u0307", "i")

func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
		return -1
	}
	return r
}

// Terms are the words of a query, normalized, each once.
func Terms(query string) []string {
	terms := strings.Fields(fold(query))
	slices.Sort(terms)
	return slices.Compact(terms)
}

// Match reports whether every term occurs in a normalized text. No terms match
// everything.
func Match(text string, terms []string) bool {
	for _, t := range terms {
		if !strings.Contains(text, t) {
			return false
		}
	}
	return true
}
