package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// An Answer is what a handler makes: a Page, a Fragment or a Redirect.
type Answer interface{ sealed() }

// A Page has the layout around it.
type Page struct {
	Status int // 0 is 200
	Title  string
	Crumbs []Crumb // what stands above it, the console's first page left out
	Body   string  // the template's name
	Data   any
	// Reload is after how many seconds a browser without script loads the page again; 0
	// is never.
	Reload int
}

// reloadSeconds is Reload of a page that waits for something.
const reloadSeconds = 10

// A Fragment is a part of a page that a script fetches again.
type Fragment struct {
	Body string
	Data any
}

// A Redirect goes to another page of the console after a form was taken, so that to load
// the page again does nothing again.
type Redirect string

// Away leads to where something is stored, at another host.
type Away string

func (Page) sealed()     {}
func (Fragment) sealed() {}
func (Redirect) sealed() {}
func (Away) sealed()     {}

// A Crumb is a link.
type Crumb struct{ Name, To string }

// A view is what templates are executed with.
type view struct {
	Title   string
	Crumbs  []Crumb
	Content template.HTML // of the layout: the page's own template, executed
	Reload  int           // of the Page
	Here    string        // the path and query of the page
	Labels  string        // the language in which labels are wanted most
	Refresh string        // where the page goes on to by itself; "" is nowhere
	Data    any

	Who       *tool.Principal // nil where nobody is signed in
	Expires   time.Time       // of the session
	FormToken string
}

func (h *Handler) view(v *Visit, title string, crumbs []Crumb, data any) view {
	out := view{Title: title, Crumbs: crumbs, Data: data}
	if v != nil && v.key != "" {
		out.Who, out.Expires, out.FormToken = &v.Who, v.expires, v.key.FormToken()
		out.Here, out.Labels = v.here, primary(v.languages[0])
	}
	return out
}

//go:embed page
var pageFiles embed.FS

var pages = template.Must(template.New("pages").Funcs(functions).ParseFS(pageFiles, "page/*.html"))

// functions are what templates have besides Go's own.
var functions = template.FuncMap{
	"asset": func(name string) (string, error) {
		if address, ok := assetNames[name]; ok {
			return address, nil
		}
		return "", fmt.Errorf("console: there is no asset %s", name)
	},
	"root": func() string { return Root },
	// when shows a time to the second, in UTC, as <time>; the whole of it is its title.
	// It takes a time or its text (RFC 3339).
	"when": when,
	// who shows a principal ("iss|sub") by its subject; the whole of it is its title.
	"who": who,
	// short shows the beginning of a digest or reference, with the whole as its title.
	"short":   short,
	"count":   count,
	"offered": func() any { return offered },
	// meaning is what a code means, in a sentence; "" of a code that there is not.
	"meaning": func(code outcome.Code) string {
		fact, _ := outcome.Lookup(code)
		return fact.Meaning
	},
	// plain is a fact of a diagnostic: a text as it is, anything else as JSON.
	"plain":      plain,
	"hasScalars": func(results []shownResult) bool { return slices.ContainsFunc(results, shownResult.Scalar) },
	// badge is the class of a state's badge.
	"badge": badge,
	"lines": func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
}

func when(at any) (template.HTML, error) {
	var t time.Time
	switch at := at.(type) {
	case time.Time:
		t = at
	case string:
		if at == "" {
			return "", nil
		}
		var err error
		if t, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return "", fmt.Errorf("console: no time: %w", err)
		}
	default:
		return "", fmt.Errorf("console: a %T is no time", at)
	}
	if t.IsZero() {
		return "", nil
	}
	exact := t.UTC().Format(time.RFC3339Nano)
	return template.HTML(`<time datetime="` + exact + `" title="` + exact + `">` + t.UTC().Format("2006-01-02 15:04:05") + ` UTC</time>`), nil
}

func who(principal string) template.HTML {
	_, subject, ok := strings.Cut(principal, "|")
	if !ok {
		subject = principal
	}
	return template.HTML(`<span class="who" title="` + template.HTMLEscapeString(principal) + `">` + template.HTMLEscapeString(subject) + `</span>`)
}

// shortTo is how many characters of a digest tell it apart for a reader.
const shortTo = 12

func short(text string) template.HTML {
	kind, rest, digest := strings.Cut(text, ":")
	if !digest {
		kind, rest = "", text
	} else {
		kind += ":"
	}
	whole := template.HTMLEscapeString(text)
	if len(rest) > shortTo {
		rest = rest[:shortTo] + "…"
	}
	return template.HTML(`<code class="ref" title="` + whole + `">` + template.HTMLEscapeString(kind+rest) + `</code>`)
}

// count says how many there are of something: "1 target", "3 targets".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func execute(name string, v view) ([]byte, error) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, name, v); err != nil {
		return nil, fmt.Errorf("console: page %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func (v view) page(body string) ([]byte, error) {
	content, err := execute(body, v)
	if err != nil {
		return nil, err
	}
	v.Content = template.HTML(content) // of a template, escaped by it
	return execute("layout", v)
}

// write answers what a handler made.
func (h *Handler) write(ctx context.Context, v *Visit, a Answer) event.Response {
	var out event.Response
	switch a := a.(type) {
	case Page:
		shown := h.view(v, a.Title, a.Crumbs, a.Data)
		shown.Reload = a.Reload
		body, err := shown.page(a.Body)
		if err != nil {
			return h.failed(ctx, v, v.RequestID, err)
		}
		out = html(a.Status, body)
	case Fragment:
		body, err := execute(a.Body, h.view(v, "", nil, a.Data))
		if err != nil {
			return h.failed(ctx, v, v.RequestID, err)
		}
		out = html(http.StatusOK, body)
	case Redirect:
		if !local(string(a)) {
			return h.failed(ctx, v, v.RequestID, errors.New("console: a redirect to nowhere here"))
		}
		return event.Response{Status: http.StatusSeeOther, Header: http.Header{"Location": {string(a)}}}
	}
	if a, ok := a.(Away); ok {
		return event.Response{Status: http.StatusSeeOther, Header: http.Header{"Location": {string(a)}}}
	}
	if wire.EscapedLen(out.Body) > maxAnswer {
		return h.failed(ctx, v, v.RequestID, &Problem{Status: http.StatusInsufficientStorage, Title: "This page is too large to be shown",
			Text: "Nothing of it is left out silently: px and the tools read it whole, part by part."})
	}
	return out
}

// problem answers a Problem.
func (h *Handler) problem(v *Visit, p *Problem) event.Response {
	if p.Link == nil {
		p.Link = &Crumb{"To the first page of the console", Root}
	}
	body, err := h.view(v, p.Title, nil, p).page("problem")
	if err != nil { // of our own texts alone
		return event.Response{Status: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte("Something went wrong here.\n")}
	}
	return html(p.Status, body)
}
