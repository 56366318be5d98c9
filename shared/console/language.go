package console

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/wire/event"
)

// Labels are authored in several languages. A person sees them in the language that was
// chosen here, else in the one that the browser asks for, else in English, else in the
// first that there is; the page says of each which one it is.

const (
	languageCookie = "px-console-language"
	languageFor    = 365 * 24 * time.Hour
	maxLanguages   = 8 // of a header that are looked at
)

// Offered are the languages that a page can be switched to.
var offered = []struct{ Tag, Name string }{{"en", "English"}, {"ko", "한국어"}}

// languages are what a person wants labels in, the first one most.
func languages(in *event.Request) []string {
	type wanted struct {
		tag string
		q   float64
	}
	var all []wanted
	for _, part := range strings.Split(in.Headers["accept-language"], ",") {
		tag, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		w := wanted{strings.ToLower(strings.TrimSpace(tag)), 1}
		if text, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			q, err := strconv.ParseFloat(text, 64)
			if err != nil {
				continue
			}
			w.q = q
		}
		if w.tag != "" && w.tag != "*" && w.q > 0 && len(all) < maxLanguages {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b wanted) int { return cmp.Compare(b.q, a.q) })
	var out []string
	if chosen := cookieOf(in, languageCookie); isOffered(chosen) {
		out = append(out, chosen)
	}
	for _, w := range all {
		out = append(out, w.tag)
	}
	return append(out, "en")
}

func isOffered(tag string) bool {
	for _, o := range offered {
		if o.Tag == tag {
			return true
		}
	}
	return false
}

// A Language remembers in which language a person wants labels, and goes back.
type Language struct{ Tag, To string }

func (Language) sealed() {}

func (l Language) answer(in *event.Request) event.Response {
	return event.Response{Status: http.StatusSeeOther, Header: http.Header{"Location": {l.To}},
		Cookies: []*http.Cookie{cookie(in, languageCookie, l.Tag, http.SameSiteLaxMode, languageFor)}}
}

// language is the address that switches the language of labels.
func (h *Handler) language(_ context.Context, v *Visit) (Answer, error) {
	l := Language{v.Query.Get("tag"), v.Query.Get("to")}
	if !isOffered(l.Tag) || !local(l.To) {
		return nil, badRequest("It names no language that there is, or no page to go back to.")
	}
	return l, nil
}

// Words are a text with its language.
type Words struct{ Text, Lang string }

// HTML is the text, marked with its language.
func (w Words) HTML() template.HTML {
	text := template.HTMLEscapeString(w.Text)
	if w.Lang == "" {
		return template.HTML(text)
	}
	return template.HTML(`<span lang="` + template.HTMLEscapeString(w.Lang) + `">` + text + `</span>`)
}

// words chooses a text of a label; of a label without any it is the key, which is in no
// language.
func (v *Visit) words(label map[string]string, key string) Words {
	if len(label) == 0 {
		return Words{Text: key}
	}
	tags := slices.Sorted(maps.Keys(label))
	for _, want := range v.languages {
		for _, exact := range []bool{true, false} {
			for _, tag := range tags {
				has := strings.ToLower(tag)
				if has == want || !exact && primary(has) == primary(want) {
					return Words{label[tag], tag}
				}
			}
		}
	}
	return Words{label[tags[0]], tags[0]}
}

// primary is a language tag without region and script.
func primary(tag string) string {
	before, _, _ := strings.Cut(tag, "-")
	return before
}
