package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// Root is the path of the console. All its pages are below it.
const Root = "/console"

// Bounds of what a browser sends, in bytes.
const (
	maxForm  = 64 << 10
	maxQuery = 8 << 10
	// of one variable of an address that a store looks something up by: keys and references
	// have at most 64, and a store takes no more than 1,024. Links to large values are not
	// looked up but opened, and as long as what is sealed in them.
	maxVariable = 256
)

// maxAnswer is the most bytes of a page, as escaped in the event's answer. Lambda takes
// 6 MB. Pages are made so that none comes near; one that does says so.
const maxAnswer = 5 << 20

// A Verifier checks an Authorization header; *identity.Verifier does.
type Verifier interface {
	Verify(ctx context.Context, authorization, scope string) (identity.Token, error)
}

// Reviews are what a person reads and decides; *review.Reviews does.
type Reviews interface {
	Read(ctx context.Context, principal string, subject review.Subject, ref string) (review.Asked, outcome.Findings, error)
	Approve(ctx context.Context, d review.Decision) (review.Approved, outcome.Findings, error)
	Reject(ctx context.Context, d review.Decision) (review.Rejected, outcome.Findings, error)
}

// A Queue lists what waits for a decision; *review.Queue does.
type Queue interface {
	List(ctx context.Context, principal string, project target.Project, after string, limit int) ([]review.Waiting, string, outcome.Findings, error)
}

// A Config is what a Handler is made of.
type Config struct {
	// Issuer and ClientID are where and as what the console signs people in. Without a
	// ClientID there is no console, and every page says so.
	Issuer, ClientID string
	Verifier         Verifier
	Sessions         session.Store
	Reviews          Reviews
	Queue            Queue
	// Of Runs and Projects, what no tool tells.
	Runs         Runs
	BatchResults Results
	RunList      RunList
	Snapshots    Snapshots
	Cursors      tool.Cursors
	Resources    Resources
	// Call invokes tools.
	Call wire.Call
	Log  *slog.Logger
	Now  func() time.Time
	// Client reaches the issuer; nil is one of its own. It follows no redirect.
	Client *http.Client
}

// A Handler answers events. It has the method of a Lambda handler.
type Handler struct {
	Config
	issuer *issuer
	routes []route
	known  known
}

// New returns a Handler.
func New(config Config) *Handler {
	h := &Handler{Config: config, issuer: newIssuer(config)}
	h.routes = h.table()
	return h
}

// Invoke answers one event.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, func(ctx context.Context, in *event.Request) event.Response {
		out := h.answer(ctx, in)
		guard(in, &out)
		if in.RequestContext.HTTP.Method == http.MethodHead {
			out.Body = nil
		}
		return out
	})
}

// A Visit is one request for a page, by a person who is signed in.
type Visit struct {
	Who   tool.Principal
	Path  map[string]string // the variables of the route
	Query url.Values
	Form  url.Values // of a POST
	// RequestID names the request in logs.
	RequestID string

	key     session.Key
	expires time.Time
	here    string // the path and query that were asked for
	// languages are those that the person wants labels in, the first one most.
	languages []string
}

// Principal is who is signed in, as grants name it.
func (v *Visit) Principal() string { return v.Who.String() }

// guard sets what every answer has. Scripts, styles, pictures and forms are those of this
// origin and nothing else is; no other page may hold this one, or learn its address.
//
// The policy for referrers must not be no-referrer: with it, browsers send "Origin: null"
// with the forms of a page, and the origin of a form is checked here.
func guard(in *event.Request, out *event.Response) {
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	out.Header.Set("X-Frame-Options", "DENY")
	out.Header.Set("Referrer-Policy", "same-origin")
	out.Header.Set("Cross-Origin-Opener-Policy", "same-origin")
	out.Header.Set("Cross-Origin-Resource-Policy", "same-origin")
	out.Header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	if secure(in) {
		out.Header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

func secure(in *event.Request) bool { return strings.HasPrefix(in.Origin(), "https:") }

func (h *Handler) answer(ctx context.Context, in *event.Request) event.Response {
	method, path := in.RequestContext.HTTP.Method, pathOf(in)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if name, ok := strings.CutPrefix(path, assetPath); ok {
		return asset(method, name)
	}
	query, problem := readQuery(in.RawQuery)
	if problem != nil {
		return h.problem(nil, problem)
	}
	switch path {
	case signInPath, callbackPath:
		if method != http.MethodGet {
			return h.notAllowed(nil, http.MethodGet)
		}
		if path == signInPath {
			return h.beginSignIn(ctx, in, query)
		}
		return h.endSignIn(ctx, in, query)
	}
	v := &Visit{Query: query, RequestID: in.RequestContext.RequestID, here: path, languages: languages(in)}
	if in.RawQuery != "" {
		v.here += "?" + in.RawQuery
	}
	found, allowed, vars := find(h.routes, method, path)
	signedIn, err := h.who(ctx, in, v)
	switch {
	case err != nil:
		return h.failed(ctx, nil, v.RequestID, err)
	case !signedIn:
		return h.signInFirst(in, v, method)
	case found != nil && found.path != resourcePath && longest(vars) > maxVariable: // no key or reference is: nothing has to be looked up
		return h.problem(v, &Problem{Status: http.StatusNotFound, Title: "There is no such page", Text: "The address holds what is too long to name anything."})
	case found == nil && allowed != "":
		return h.notAllowed(v, allowed)
	case found == nil:
		return h.problem(v, &Problem{Status: http.StatusNotFound, Title: "There is no such page", Text: "The address is not one of the console's."})
	}
	v.Path = vars
	if method == http.MethodPost {
		if problem := readForm(in, v); problem != nil {
			return h.problem(v, problem)
		}
	}
	out, err := found.handle(ctx, v)
	if err != nil {
		return h.failed(ctx, v, v.RequestID, err)
	}
	if l, ok := out.(Language); ok {
		return l.answer(in)
	}
	return h.write(ctx, v, out)
}

func longest(vars map[string]string) int {
	n := 0
	for _, text := range vars {
		n = max(n, len(text))
	}
	return n
}

// pathOf is the path that was asked for, without a stage in front. The variable of the
// route has it decoded.
func pathOf(in *event.Request) string {
	rest := strings.TrimSuffix(in.Path["proxy"], "/")
	if rest == "" {
		return Root
	}
	return Root + "/" + rest
}

// readQuery reads a query: bounded, and text, and each name once, since it would not be known
// which one counts.
func readQuery(raw string) (url.Values, *Problem) {
	if len(raw) > maxQuery {
		return nil, &Problem{Status: http.StatusRequestURITooLong, Title: "The address is too long", Text: "No page of the console has an address like this."}
	}
	query, err := url.ParseQuery(raw)
	return query, once(query, err, "address")
}

func once(values url.Values, err error, what string) *Problem {
	unreadable := &Problem{Status: http.StatusBadRequest, Title: "The " + what + " cannot be read", Text: "Nothing was done. Go back and try it again from the page that you came from."}
	if err != nil {
		return unreadable
	}
	text := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
	for name, list := range values {
		if len(list) > 1 || !text(name) || !text(list[0]) {
			return unreadable
		}
	}
	return nil
}

// readForm reads and checks a form: that the browser says it comes from a page of this
// origin, and that it holds what only a page of this session can hold. Either would do;
// one of them fails with an old browser, the other if a page ever leaked.
func readForm(in *event.Request, v *Visit) *Problem {
	foreign := &Problem{Status: http.StatusForbidden, Title: "This form came from somewhere else", Text: "Nothing was done. Open the page in the console and decide there."}
	origin, has := in.Headers["origin"]
	site := in.Headers["sec-fetch-site"]
	if has && origin != in.Origin() || site != "" && site != "same-origin" || !has && site == "" {
		return foreign
	}
	if kind, _, err := mime.ParseMediaType(in.Headers["content-type"]); err != nil || kind != "application/x-www-form-urlencoded" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Title: "The form cannot be read", Text: "Nothing was done. Forms of the console are sent by its pages."}
	}
	body, err := in.Body()
	if len(body) > maxForm {
		return &Problem{Status: http.StatusRequestEntityTooLarge, Title: "The form is too long", Text: fmt.Sprintf("Nothing was done. A form may hold %d bytes.", maxForm)}
	}
	var problem *Problem
	if v.Form, problem = parseForm(body, err); problem != nil {
		return problem
	}
	if !v.key.Made(v.Form.Get(tokenField)) {
		return foreign
	}
	return nil
}

func parseForm(body []byte, err error) (url.Values, *Problem) {
	if err != nil {
		return nil, once(nil, err, "form")
	}
	form, err := url.ParseQuery(string(body))
	return form, once(form, err, "form")
}

// tokenField is the name of the form token in every form.
const tokenField = "form_token"

// A Problem is what a person is told instead of a page. Its texts are plain and hold
// nothing that was sent.
type Problem struct {
	Status      int
	Title, Text string
	Findings    outcome.Findings // shown with their codes and parameters
	Link        *Crumb           // where to go on; nil is to the console's first page
}

func (p *Problem) Error() string { return "console: " + p.Title }

// refused makes a Problem of diagnostics.
func refused(findings outcome.Findings) *Problem {
	p := &Problem{Status: http.StatusConflict, Title: "This was refused", Findings: findings}
	if len(findings) == 0 {
		return p
	}
	switch findings[0].Code {
	case outcome.TargetNotFound, outcome.PlanNotFound:
		p.Status, p.Title, p.Text = http.StatusNotFound, "There is no such thing", "It does not exist, or you may not read it."
	case outcome.PermissionDenied:
		p.Status, p.Title, p.Text = http.StatusForbidden, "You may not do this", "A right is missing that somebody who manages the Project can give you."
	case outcome.SchemaInvalid, outcome.SchemaUnknownField, outcome.CursorInvalid:
		p.Status, p.Title = http.StatusBadRequest, "The address or form is not right"
	}
	return p
}

// failed answers what went wrong: a Problem as it says, anything else without its text,
// which is for the log.
func (h *Handler) failed(ctx context.Context, v *Visit, requestID string, err error) event.Response {
	var problem *Problem
	if errors.As(err, &problem) {
		return h.problem(v, problem)
	}
	h.Log.ErrorContext(ctx, "the page could not be made", "apiRequestId", requestID, "cause", err)
	return h.problem(v, &Problem{Status: http.StatusInternalServerError, Title: "Something went wrong here",
		Text: "The page could not be made. Try it again; if it stays so, an operator finds the cause in the log under " + requestID + "."})
}

func (h *Handler) notAllowed(v *Visit, allow string) event.Response {
	out := h.problem(v, &Problem{Status: http.StatusMethodNotAllowed, Title: "This address takes other requests", Text: "Open the page that you came from and use its links and buttons."})
	out.Header.Set("Allow", allow)
	return out
}

// html answers a page.
func html(status int, body []byte) event.Response {
	if status == 0 {
		status = http.StatusOK
	}
	return event.Response{Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: visible(body)}
}

// unseen are marks that change how text reads and show nothing themselves: what turns its
// direction, joins or hides it, and control characters.
func unseen(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0: // control characters
		return true
	case r == 0xad, r == 0x61c, r == 0x180e, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// visible names such marks in a whole answer, where they stand. None of our own texts has
// one, and an answer that has one got it from somebody's document.
func visible(body []byte) []byte {
	if bytes.IndexFunc(body, unseen) < 0 {
		return body
	}
	var out bytes.Buffer
	for _, r := range string(body) {
		if unseen(r) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}
