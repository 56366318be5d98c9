package oidc

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Paths of a sign-in.
const (
	MetadataPath  = "/.well-known/oauth-authorization-server"
	AuthorizePath = "/oauth/authorize"
	TokenPath     = "/oauth/token"
	RegisterPath  = "/oauth/register"
)

const (
	askFor  = 10 * time.Minute // that a person has to choose
	codeFor = time.Minute      // that a client has to fetch its token

	maxForm      = 64 << 10 // bytes of a request's body
	maxRedirects = 10       // of a client
	maxURI       = 2000     // bytes
	maxName      = 200      // code points of a client's name
	maxCodes     = 1000     // that wait for their client
)

// A SignIn signs people in on their own machine: OAuth 2.1 authorization codes with PKCE
// (RFC 7636), for public clients that register themselves (RFC 7591). Whoever has the
// state folder says which of the sample principals he is: he shows that he has it by a
// code that px local prints, since others at the machine reach the page too.
//
// Clients are not stored: a client's identifier is what it registered, sealed by the
// folder's key. Codes live in this process for a minute, and are used once.
//
// One client is not registered but known: the console, by [ConsoleClient], at exactly one
// address. It gets px.approve, and no token for tools; a client that registered itself
// may be anything, an AI's included, and never gets px.approve (U6).
type SignIn struct {
	key    *Key
	issuer string
	now    func() time.Time

	mu    sync.Mutex
	codes map[string]grant
}

// ConsoleClient is the identifier of the console, and ConsoleCallback the path, at the
// issuer's own origin, to which it has people sent.
const (
	ConsoleClient   = "px-console"
	ConsoleCallback = "/console/callback"
)

// A grant is what a code stands for.
type grant struct {
	client, redirect, challenge, subject, scope string
	until                                       time.Time
}

// NewSignIn returns the sign-in of an issuer, which is an origin without a path.
func (k *Key) NewSignIn(issuer string, now func() time.Time) *SignIn {
	return &SignIn{key: k, issuer: issuer, now: now, codes: map[string]grant{}}
}

// Code is what shows that somebody has the folder: twelve letters and digits, in groups.
func (k *Key) Code() string {
	text := base32.StdEncoding.EncodeToString(k.mac("code", nil))
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// knows reports whether a text is the code, however it was typed.
func (k *Key) knows(text string) bool {
	plain := func(s string) []byte {
		return []byte(strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(s)))
	}
	return subtle.ConstantTimeCompare(plain(text), plain(k.Code())) == 1
}

// cookie keeps a browser from asking for the code again.
const cookie = "px-local"

// remembered reports whether the code was typed in this browser.
func (s *SignIn) remembered(r *http.Request) bool {
	c, err := r.Cookie(cookie)
	if err != nil {
		return false
	}
	code, ok := s.key.unseal("browser", c.Value)
	return ok && s.key.knows(string(code))
}

// ServeHTTP serves the paths of a sign-in.
func (s *SignIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	// With no-referrer a browser sends "Origin: null" with the form of this page.
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	route, ok := map[string]struct {
		methods string
		open    bool // to pages of other origins, which send no cookie and need none
		serve   func(http.ResponseWriter, *http.Request)
	}{
		AuthorizePath: {"GET, POST", false, s.authorize},
		TokenPath:     {"POST", true, s.token},
		RegisterPath:  {"POST", true, s.register},
	}[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if route.open {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", route.methods)
			w.Header().Set("Access-Control-Allow-Headers", "content-type, mcp-protocol-version")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if !slices.Contains(strings.Split(route.methods, ", "), r.Method) {
		w.Header().Set("Allow", route.methods)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	route.serve(w, r)
}

// ---- clients ----

// client is what one registered.
type client struct {
	Redirects []string `json:"r"`
	Name      string   `json:"n"`
	// console is of the one client that approves, and is never read from what one
	// registered.
	console bool
}

// seal binds a text to the folder's key and to what it is for.
func (k *Key) seal(purpose string, text []byte) string {
	return b64(text) + "." + b64(k.mac(purpose, text))
}

func (k *Key) mac(purpose string, text []byte) []byte {
	secret := sha256.Sum256(append([]byte("oidc "+purpose+"\x00"), k.private.D.Bytes()...))
	m := hmac.New(sha256.New, secret[:])
	m.Write(text)
	return m.Sum(nil)
}

// unseal returns the text.
func (k *Key) unseal(purpose, sealed string) ([]byte, bool) {
	left, right, _ := strings.Cut(sealed, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(left)
	sum, failed := base64.RawURLEncoding.Strict().DecodeString(right)
	return text, err == nil && failed == nil && hmac.Equal(sum, k.mac(purpose, text))
}

func (s *SignIn) client(id string) (client, bool) {
	var c client
	if id == ConsoleClient {
		return client{Redirects: []string{s.issuer + ConsoleCallback}, Name: "The console of pxhost", console: true}, true
	}
	text, ok := s.key.unseal("client", id)
	return c, ok && json.Unmarshal(text, &c) == nil
}

// takes reports whether a client registered a URI. On this machine any port is the same
// place (RFC 8252, 7.3): a client listens where it can.
func (c client) takes(uri string) bool {
	if c.console { // which listens at one place
		return uri == c.Redirects[0]
	}
	return slices.ContainsFunc(c.Redirects, func(one string) bool { return one == uri || portless(one) != "" && portless(one) == portless(uri) })
}

// portless is a loopback URI without its port, "" for any other.
func portless(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		return ""
	}
	u.Host = u.Hostname()
	return u.String()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// redirectable reports whether a person may be sent to a URI: to a page over https, to
// this machine, or to an application by a scheme of its own.
func redirectable(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || len(uri) > maxURI || u.User != nil || u.Fragment != "" || strings.Contains(uri, "#") {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Host != ""
	case "http":
		return loopback(u.Hostname())
	case "", "javascript", "data", "file", "blob", "about", "vbscript", "view-source", "ftp", "ws", "wss":
		return false
	}
	return u.Opaque == ""
}

func (s *SignIn) register(w http.ResponseWriter, r *http.Request) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, failed := io.ReadAll(r.Body)
	if err != nil || failed != nil || kind != "application/json" {
		oauthError(w, "invalid_client_metadata", "send application/json")
		return
	}
	var in struct {
		Redirects []string `json:"redirect_uris"`
		Name      string   `json:"client_name"`
		Grants    []string `json:"grant_types"`
		Responses []string `json:"response_types"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		oauthError(w, "invalid_client_metadata", "the metadata cannot be read")
		return
	}
	if len(in.Redirects) == 0 || len(in.Redirects) > maxRedirects || slices.ContainsFunc(in.Redirects, func(u string) bool { return !redirectable(u) }) {
		oauthError(w, "invalid_redirect_uri", "redirect_uris are 1 to 10, each over https, of this machine or of a scheme of an application")
		return
	}
	if utf8.RuneCountInString(in.Name) > maxName || in.Grants != nil && !slices.Contains(in.Grants, "authorization_code") || in.Responses != nil && !slices.Contains(in.Responses, "code") {
		oauthError(w, "invalid_client_metadata", "client_name has at most 200 characters, grant_types hold authorization_code, response_types hold code")
		return
	}
	text, err := json.Marshal(client{Redirects: in.Redirects, Name: in.Name})
	if err != nil {
		oauthError(w, "invalid_client_metadata", "the metadata cannot be kept")
		return
	}
	answer(w, http.StatusCreated, map[string]any{
		"client_id": s.key.seal("client", text), "client_name": in.Name, "redirect_uris": in.Redirects, "client_id_issued_at": s.now().Unix(),
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
	})
}

// ---- a person's choice ----

//go:embed signin.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// People tell what each of the sample principals may do.
var people = []struct{ Subject, Does string }{
	{"engineer", "reads, changes and runs the sample Project"},
	{"reviewer", "reads it and approves"},
	{"viewer", "reads it"},
	{"other", "may do nothing in it"},
}

const style = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem}button{font:inherit;display:block;width:100%;text-align:left;margin:.5rem 0;padding:.7rem 1rem}small{display:block}code{word-break:break-all}"

// show shows a page; where there is a problem, nothing can be chosen on it.
func (s *SignIn) show(w http.ResponseWriter, status int, problem string, fields map[string]any) {
	sum := sha256.Sum256([]byte(style))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	all := map[string]any{"Style": template.CSS(style), "Problem": problem, "People": people, "Path": AuthorizePath}
	for name, value := range fields {
		all[name] = value
	}
	page.Execute(w, all)
}

// authorize asks who is there, and sends him back to the client with a code.
func (s *SignIn) authorize(w http.ResponseWriter, r *http.Request) {
	query, subject := r.URL.RawQuery, ""
	if r.Method == http.MethodPost {
		// Only the page that this process showed may choose: another one cannot make a
		// ticket, and its origin is told by the browser.
		if origin := r.Header.Get("Origin"); origin != s.issuer {
			s.show(w, http.StatusForbidden, "This choice came from another page.", nil)
			return
		}
		if err := r.ParseForm(); err != nil {
			s.show(w, http.StatusBadRequest, "The choice cannot be read.", nil)
			return
		}
		var ticket struct {
			Query string `json:"q"`
			Until int64  `json:"u"`
		}
		text, ok := s.key.unseal("ticket", r.PostForm.Get("ticket"))
		if !ok || json.Unmarshal(text, &ticket) != nil || s.now().Unix() > ticket.Until {
			s.show(w, http.StatusBadRequest, "This page is too old. Begin again in your client.", nil)
			return
		}
		if query, subject = ticket.Query, r.PostForm.Get("as"); !slices.Contains(Subjects, subject) {
			s.show(w, http.StatusBadRequest, "There is no such principal.", nil)
			return
		}
		if !s.remembered(r) {
			if !s.key.knows(r.PostForm.Get("code")) {
				s.show(w, http.StatusForbidden, "This is not the code that px local printed. Go back and type it again.", nil)
				return
			}
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: s.key.seal("browser", []byte(s.key.Code())), Path: AuthorizePath, MaxAge: 30 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		s.show(w, http.StatusBadRequest, "The request of the client cannot be read.", nil)
		return
	}
	for _, values := range q {
		if len(values) > 1 { // which one would count?
			s.show(w, http.StatusBadRequest, "The client gave a parameter twice.", nil)
			return
		}
	}
	c, ok := s.client(q.Get("client_id"))
	if !ok {
		s.show(w, http.StatusBadRequest, "The client is not registered here. Let it register again.", nil)
		return
	}
	redirect := q.Get("redirect_uri")
	if redirect == "" && len(c.Redirects) == 1 {
		redirect = c.Redirects[0]
	}
	if !c.takes(redirect) {
		s.show(w, http.StatusBadRequest, "The client did not register the address that it wants you to be sent to.", nil)
		return
	}
	back := func(pairs ...string) {
		u, err := url.Parse(redirect)
		if err != nil {
			s.show(w, http.StatusBadRequest, "The address of the client cannot be read.", nil)
			return
		}
		values := u.Query()
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		if state := q.Get("state"); state != "" {
			values.Set("state", state)
		}
		values.Set("iss", s.issuer) // RFC 9207
		u.RawQuery = values.Encode()
		w.Header().Set("Location", u.String())
		w.WriteHeader(http.StatusFound)
	}
	scope, ok := c.oneScope(q.Get("scope"))
	switch {
	case q.Get("response_type") != "code":
		back("error", "unsupported_response_type")
		return
	case !verifiable.MatchString(q.Get("code_challenge")) || q.Get("code_challenge_method") != "S256":
		back("error", "invalid_request", "error_description", "code_challenge of the method S256 is needed")
		return
	case !ok:
		back("error", "invalid_scope", "error_description", ScopeApprove+" is for the console alone, and for it alone")
		return
	case !s.ours(q.Get("resource")):
		back("error", "invalid_target")
		return
	}
	if subject == "" {
		text, err := json.Marshal(map[string]any{"q": query, "u": s.now().Add(askFor).Unix()})
		if err != nil {
			s.show(w, http.StatusBadRequest, "The request of the client cannot be read.", nil)
			return
		}
		s.show(w, http.StatusOK, "", map[string]any{"Ticket": s.key.seal("ticket", text), "Client": c.Name, "Redirect": redirect, "Approves": scope == ScopeApprove, "Asks": !s.remembered(r)})
		return
	}
	code := rand.Text()
	s.mu.Lock()
	for old, g := range s.codes {
		if s.now().After(g.until) {
			delete(s.codes, old)
		}
	}
	full := len(s.codes) >= maxCodes
	if !full {
		s.codes[code] = grant{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), subject, scope, s.now().Add(codeFor)}
	}
	s.mu.Unlock()
	if full {
		back("error", "temporarily_unavailable")
		return
	}
	back("code", code)
}

// verifiable is a code challenge or verifier.
var verifiable = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// oneScope is the scope that a client gets: what it asks for beside ours is not given.
// The console gets ScopeApprove and must ask for it; others get ScopeTools and must not.
func (c client) oneScope(asked string) (string, bool) {
	tools, approve := false, false
	for one := range strings.FieldsSeq(asked) {
		tools, approve = tools || one == ScopeTools, approve || one == ScopeApprove
	}
	if c.console {
		return ScopeApprove, approve && !tools
	}
	return ScopeTools, !approve
}

// ours reports whether a resource (RFC 8707) is one of this issuer's host.
func (s *SignIn) ours(resource string) bool {
	return resource == "" || resource == s.issuer || strings.HasPrefix(resource, s.issuer+"/")
}

// ---- the token ----

func (s *SignIn) token(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" || r.ParseForm() != nil {
		oauthError(w, "invalid_request", "send application/x-www-form-urlencoded")
		return
	}
	f := r.PostForm
	if f.Get("grant_type") != "authorization_code" {
		oauthError(w, "unsupported_grant_type", "authorization_code is what there is")
		return
	}
	// Whoever shows a code has used it, whether he gets a token or not.
	s.mu.Lock()
	g, ok := s.codes[f.Get("code")]
	delete(s.codes, f.Get("code"))
	s.mu.Unlock()
	verifier := f.Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	switch {
	case !ok || s.now().After(g.until):
		oauthError(w, "invalid_grant", "the code is not known, too old or was used")
	case f.Get("client_id") != g.client || f.Get("redirect_uri") != g.redirect:
		oauthError(w, "invalid_grant", "the code is of another client or address")
	case !verifiable.MatchString(verifier) || subtle.ConstantTimeCompare([]byte(b64(sum[:])), []byte(g.challenge)) != 1:
		oauthError(w, "invalid_grant", "the verifier is not that of the code")
	case !s.ours(f.Get("resource")):
		oauthError(w, "invalid_target", "the resource is not this host's")
	default:
		token, err := s.key.TokenOf(f.Get("code"), s.issuer, g.subject, g.scope, s.now())
		if err != nil {
			http.Error(w, "no token can be made", http.StatusInternalServerError)
			return
		}
		answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(Lifetime.Seconds()), "scope": g.scope})
	}
}

func oauthError(w http.ResponseWriter, code, description string) {
	answer(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": description})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
