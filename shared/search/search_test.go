package search_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/search"
)

// covers: S5
func TestTextIsFoundHoweverItWasTyped(t *testing.T) {
	stored := search.Normalize("girder_check", "Girder Check", "거더 검토", "Resistance of STRAẞE ﬁxtures", "kN·m", "ＦＵＬＬ １２３", "kiriş", "İstanbul", "ısı")
	for name, query := range map[string]string{
		"as it is":                     "girder_check",
		"in capitals":                  "GIRDER",
		"a part of a word":             "irde",
		"words in any order":           "check girder",
		"words of two parts":           "거더 resistance",
		"decomposed Hangul":            norm.NFD.String("거더"),
		"decomposed jamo typed apart":  "\u1100\u1165\u1103\u1165",
		"half-width jamo":              "\uffa1\uffc6\uffa7\uffc6", // ㄱㅓㄷㅓ
		"sharp s folded":               "strasse",
		"a ligature taken apart":       "fixtures",
		"full width for half":          "ｇｉｒｄｅｒ",
		"half width for full":          "full 123",
		"compatibility jamo":           "ㄱㅓㄷㅓ",
		"jamo of both kinds":           "\u1100ㅓㄷ\u1165",
		"the capital sharp s":          "STRAẞE",
		"Turkish capitals":             "KİRİŞ",
		"English capitals":             "KIRIŞ",
		"a Turkish capital in small":   "istanbul",
		"the same, in Turkish small":   "ıstanbul",
		"a dotless i with a dot":       "isi",
		"marks typed apart":            norm.NFD.String("KİRİŞ"),
		"a zero width space in it":     "gir\u200bder",
		"an ideographic space between": "girder\u3000check",
		"a middle dot of another make": "kn·m",
		"the same word twice":          "girder girder",
		"nothing but space":            " \t\n",
		"nothing":                      "",
	} {
		if !search.Match(stored, search.Terms(query)) {
			t.Errorf("%s: %q is not found in %q", name, query, stored)
		}
	}
	for name, query := range map[string]string{
		"a word that is not there":   "bridge",
		"one word there and one not": "girder bridge",
		"a word across two parts":    "checkgirder",
		"another vowel":              "고더",
		"an initial consonant alone": "ㄱㄷ",
	} {
		if search.Match(stored, search.Terms(query)) {
			t.Errorf("%s: %q is found", name, query)
		}
	}
}

// covers: S5
func TestNormalizingIsDoneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		once := search.Normalize(text)
		if again := search.Normalize(once); again != once {
			t.Fatalf("%q, then %q, then %q", text, once, again)
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			if other := search.Normalize(form.String(text)); other != once {
				t.Fatalf("%q gives %q, its other form %q", text, once, other)
			}
		}
		if !search.Match(once, search.Terms(text)) && utf8.RuneCountInString(text) < search.MaxQuery {
			t.Fatalf("%q does not find itself", text)
		}
	})
}

// typedText are words as people write them, in the scripts of this product.
var typedText = rapid.SliceOfN(rapid.OneOf(
	rapid.Map(rapid.IntRange(0xac00, 0xd7a3), func(r int) string { return string(rune(r)) }),
	rapid.StringMatching(`[a-zA-Z0-9_ ]{1,6}`),
	rapid.SampledFrom([]string{"é", "ß", "ẞ", "ş", "İ", "ı", "ﬁ", "ｋ", "Ⅷ", "㎡", "가", "ｶﾞ"}),
), 1, 8)

// However a text was typed, it is the same: in capitals or small letters, composed or
// not, wide or narrow, Hangul in syllables, in conjoining, compatibility or half-width
// jamo.
//
// covers: S5
func TestHowATextWasTypedDoesNotMatter(t *testing.T) {
	compatibility := map[rune]rune{} // of conjoining jamo
	for r := rune(0x3131); r <= 0x3163; r++ {
		for _, c := range norm.NFKD.String(string(r)) {
			compatibility[c] = r
		}
	}
	apart := func(syllable rune) rune {
		if r, ok := compatibility[syllable]; ok {
			return r
		}
		return syllable
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(typedText.Draw(t, "text"), "")
		once := search.Normalize(text)
		// Compatibility jamo say nothing of where a syllable ends: only syllables
		// without a final consonant are typed that way.
		open := strings.Map(func(r rune) rune {
			if 0xac00 <= r && r <= 0xd7a3 {
				return r - (r-0xac00)%28
			}
			return r
		}, norm.NFC.String(text))
		if jamo := strings.Map(apart, norm.NFD.String(open)); search.Normalize(jamo) != search.Normalize(open) {
			t.Fatalf("%q in jamo, %q, gives %q and not %q", open, jamo, search.Normalize(jamo), search.Normalize(open))
		}
		for name, typed := range map[string]string{
			"in capitals": strings.ToUpper(text), "in small letters": strings.ToLower(text), "in pieces": norm.NFD.String(text), "in compatible pieces": norm.NFKD.String(text),
			"capitals in pieces": norm.NFD.String(strings.ToUpper(text)), "wide": width.Widen.String(text), "narrow": width.Narrow.String(text),
			"with a zero width space": strings.Join(strings.SplitAfterN(text, "a", 2), "\u200b"),
		} {
			if got := search.Normalize(typed); got != once {
				t.Fatalf("%q %s, %q, gives %q and not %q", text, name, typed, got, once)
			}
		}
	})
}

// list is a source of sorted entries that counts what is read.
func list(entries []search.Entry, read *int) search.Source {
	return func(from string) iter.Seq2[search.Entry, error] {
		return func(yield func(search.Entry, error) bool) {
			for _, e := range entries {
				if e.Key < from {
					continue
				}
				*read++
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// all follows the pages, and checks S1's rule on each.
func all(t interface{ Fatalf(string, ...any) }, q search.Query) (hits []search.Hit, pages int) {
	for {
		page, next, err := search.Page(context.Background(), q)
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		pages++
		if len(page) > q.Limit {
			t.Fatalf("page %d has %d hits", pages, len(page))
		}
		hits = append(hits, page...)
		if next == "" {
			return hits, pages
		}
		q.From = next
	}
}

// covers: S1, S3
func TestPagesAreTheWholeListInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"girder", "beam", "거더"})
		var sources []search.Source
		var want []search.Hit
		terms := search.Terms(words.Draw(t, "query"))
		read := 0
		for s := range rapid.IntRange(1, 3).Draw(t, "sources") {
			keys := rapid.SliceOfNDistinct(rapid.StringMatching(`flow/[a-c:_]{1,4}`), 0, 30, rapid.ID).Draw(t, "keys")
			slices.Sort(keys)
			var entries []search.Entry
			for _, k := range keys {
				e := search.Entry{Key: k, Text: search.Normalize(words.Draw(t, "text"))}
				entries = append(entries, e)
				if strings.Contains(e.Text, terms[0]) && !strings.Contains(k, "c") {
					want = append(want, search.Hit{Source: s, Key: k})
				}
			}
			sources = append(sources, list(entries, &read))
		}
		q := search.Query{
			Terms: terms, Limit: rapid.IntRange(1, 10).Draw(t, "limit"), Sources: sources,
			Keep: func(_ context.Context, _ int, entries []search.Entry) ([]bool, error) {
				keep := make([]bool, len(entries))
				for i, e := range entries {
					keep[i] = !strings.Contains(e.Key, "c")
				}
				return keep, nil
			},
		}
		got, pages := all(t, q)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if most := max(1, (len(want)+q.Limit-1)/q.Limit); pages != most {
			t.Fatalf("%d hits on %d pages of %d: an empty page was told", len(want), pages, q.Limit)
		}
	})
}

// covers: S1
func TestAQueryThatFindsLittleCostsNoMoreThanItsBoundAndLosesNothing(t *testing.T) {
	entries := make([]search.Entry, 2*search.MaxScanned+10)
	for i := range entries {
		entries[i] = search.Entry{Key: fmt.Sprintf("flow/f%08d", i), Text: "beam"}
	}
	entries[len(entries)-1].Text = "girder"
	read := 0
	q := search.Query{Terms: search.Terms("girder"), Limit: 25, Sources: []search.Source{list(entries, &read)}}
	hits, next, err := search.Page(context.Background(), q)
	if err != nil || len(hits) != 0 || next == "" || read > search.MaxScanned+1 {
		t.Fatalf("%v, %q, %v after %d entries", hits, next, err, read)
	}
	if got, pages := all(t, q); len(got) != 1 || pages != 3 {
		t.Errorf("%v on %d pages", got, pages)
	}
	long := []search.Entry{{Key: "a", Text: strings.Repeat("x", search.MaxText)}, {Key: "b", Text: "girder"}}
	if _, next, err := search.Page(context.Background(), search.Query{Terms: []string{"girder"}, Limit: 1, Sources: []search.Source{list(long, &read)}}); next == "" || err != nil {
		t.Errorf("long texts are read on: %q, %v", next, err)
	}
}

func TestPageEndsWithTheErrorsOfItsSourceItsContextAndItsPosition(t *testing.T) {
	broken := errors.New("broken")
	failing := func(string) iter.Seq2[search.Entry, error] {
		return func(yield func(search.Entry, error) bool) { yield(search.Entry{}, broken) }
	}
	read := 0
	one := list([]search.Entry{{Key: "a", Text: "x"}}, &read)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		q    search.Query
		want error
	}{
		"a source":         {context.Background(), search.Query{Limit: 1, Sources: []search.Source{one, failing}}, broken},
		"a right to read":  {context.Background(), search.Query{Limit: 1, Sources: []search.Source{one}, Keep: func(context.Context, int, []search.Entry) ([]bool, error) { return nil, broken }}, broken},
		"a context":        {cancelled, search.Query{Limit: 1, Sources: []search.Source{one}}, context.Canceled},
		"a position":       {context.Background(), search.Query{Limit: 1, Sources: []search.Source{one}, From: "1:a"}, search.ErrPosition},
		"another position": {context.Background(), search.Query{Limit: 1, Sources: []search.Source{one}, From: "x"}, search.ErrPosition},
	} {
		if _, _, err := search.Page(c.ctx, c.q); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"", "girder", "거더", "\u1100\u1161", "ẞ", "\ufb01", "\xff", "İ", "\u0345\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := search.Normalize(s)
		if again := search.Normalize(once); again != once {
			t.Fatalf("%q, then %q", once, again)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	entries := make([]search.Entry, 20_000)
	for i := range entries {
		entries[i] = search.Entry{Key: fmt.Sprintf("flow/f%08d", i), Text: search.Normalize("girder check", "거더 검토", strings.Repeat("resistance ", 15))}
	}
	read := 0
	q := search.Query{Terms: search.Terms("nothing 거더"), Limit: 25, Sources: []search.Source{list(entries, &read)}}
	for b.Loop() {
		if _, _, err := search.Page(context.Background(), q); err != nil {
			b.Fatal(err)
		}
	}
}
