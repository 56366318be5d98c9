package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// # How a person signs in
//
// The console is a public client of the issuer: an authorization code with PKCE (S256), at
// the endpoints that the issuer's own metadata names, for the scope px.approve alone.
//
//   - /console/sign-in makes a state and a verifier, keeps both in a cookie of this browser
//     for as long as a sign-in may take, and sends the browser to the issuer. It does
//     nothing else, so another page that sends somebody there gains nothing.
//   - /console/callback takes the code only from the browser that holds the cookie of its
//     state, and only once: the cookie is removed by the answer, whatever it is, and the
//     issuer knows a code once. What comes back is verified as at every other door: a token
//     of px.tools signs nobody in.
//   - Then a session begins (package session). Its cookie is SameSite=Strict, and browsers
//     send such a cookie with no request of a chain of redirects that another site began.
//     So the callback answers a page that goes on by itself: that request is this site's.
//     The cookie of the sign-in itself is Lax, since the issuer's redirect must bring it.
//
// There is no nonce: no ID token is asked for, and the access token comes straight from the
// issuer's token endpoint for the verifier of this browser.
const (
	signInPath   = Root + "/sign-in"
	callbackPath = Root + "/callback"
)

// signInFor is how long a person has to sign in at the issuer.
const signInFor = 10 * time.Minute

// maxTo is the longest address to go back to after a sign-in, in bytes. It stands in a
// cookie.
const maxTo = 1024

// cookies: over https their names begin with __Host-, and then a browser takes them from
// this host alone, over https alone, for the whole of it. On one's own machine there is no
// https, and a browser does not tell ports apart: what else one runs on it sees them.
const (
	sessionCookie = "px-console"
	signInCookie  = "px-console-sign-in"
)

func cookieName(in *event.Request, name string) string {
	if secure(in) {
		return "__Host-" + name
	}
	return name
}

func cookie(in *event.Request, name, value string, site http.SameSite, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: cookieName(in, name), Value: value, Path: Root, HttpOnly: true, SameSite: site, MaxAge: int(age / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	if secure(in) {
		c.Path, c.Secure = "/", true
	}
	return c
}

// cookieOf returns what a browser sent; "" where it sent none, or two.
func cookieOf(in *event.Request, name string) string {
	found, n := "", 0
	for _, text := range in.Cookies {
		if left, right, _ := strings.Cut(text, "="); left == cookieName(in, name) {
			found, n = right, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return found
}

// local reports whether an address is a page of the console, on this host whatever a
// browser makes of it.
func local(to string) bool {
	if len(to) > maxTo || to != Root && !strings.HasPrefix(to, Root+"/") && !strings.HasPrefix(to, Root+"?") {
		return false
	}
	if strings.ContainsFunc(to, func(r rune) bool { return r <= 0x20 || r >= 0x7f || r == '\\' || r == '"' || r == '<' || r == '>' }) || strings.Contains(to, "//") {
		return false
	}
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" || u.User != nil || u.Opaque != "" {
		return false
	}
	return !slices.Contains(strings.Split(u.Path, "/"), "..") && u.Path != signInPath && u.Path != callbackPath
}

// who finds the session of a request.
func (h *Handler) who(ctx context.Context, in *event.Request, v *Visit) (bool, error) {
	key, ok := session.ReadKey(cookieOf(in, sessionCookie))
	if !ok {
		return false, nil
	}
	s, err := h.Sessions.Session(ctx, key.ID())
	switch {
	case errors.Is(err, session.ErrNone):
		return false, nil
	case err != nil:
		return false, err
	case !h.Now().Before(s.Expires) || !slices.Contains(s.Scopes, identity.ScopeApprove):
		return false, nil
	}
	v.Who = tool.Principal{Issuer: s.Issuer, Subject: s.Subject, Scopes: s.Scopes, Session: s.Token}
	v.key, v.expires = key, s.Expires
	return true, nil
}

// signInFirst answers who is not signed in.
func (h *Handler) signInFirst(in *event.Request, v *Visit, method string) event.Response {
	to := v.here
	if method != http.MethodGet { // the page that the form was on
		if i := strings.LastIndex(to, "/"); i > len(Root) {
			to = to[:i]
		} else {
			to = Root
		}
	}
	if !local(to) {
		to = Root
	}
	// A link on another site brings no Strict cookie. Asked for by this site, the same page
	// has it, if there is one; and then there is nothing else to ask.
	if site := in.Headers["sec-fetch-site"]; method == http.MethodGet && (site == "cross-site" || site == "same-site") && cookieOf(in, sessionCookie) == "" {
		return h.goOn(to)
	}
	out := h.write(context.Background(), v, Page{Status: http.StatusUnauthorized, Title: "Sign in", Body: "signin", Data: map[string]any{
		"To": signInPath + "?" + url.Values{"to": {to}}.Encode(), "Off": h.ClientID == "", "Sent": method != http.MethodGet}})
	return out
}

// goOn answers a page that goes on by itself.
func (h *Handler) goOn(to string) event.Response {
	v := h.view(nil, "Going on", nil, to)
	v.Refresh = to
	body, err := v.page("goon")
	if err != nil {
		return h.problem(nil, &Problem{Status: http.StatusInternalServerError, Title: "Something went wrong here"})
	}
	return html(http.StatusOK, body)
}

// beginSignIn sends the browser to the issuer.
func (h *Handler) beginSignIn(ctx context.Context, in *event.Request, query url.Values) event.Response {
	if h.ClientID == "" {
		return h.problem(nil, noConsole)
	}
	to := query.Get("to")
	if !local(to) {
		to = Root
	}
	endpoints, err := h.issuer.endpoints(ctx)
	if err != nil {
		return h.issuerFailed(ctx, in, err)
	}
	state, verifier := rand.Text(), rand.Text()+rand.Text() // of 52 characters: RFC 7636 asks for 43 to 128
	address, err := url.Parse(endpoints.Authorization)
	if err != nil {
		return h.issuerFailed(ctx, in, err)
	}
	q := address.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": h.ClientID, "redirect_uri": in.Origin() + callbackPath, "scope": identity.ScopeApprove,
		"state": state, "code_challenge": challenge(verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	address.RawQuery = q.Encode()
	kept := strings.Join([]string{state, verifier, base64.RawURLEncoding.EncodeToString([]byte(to))}, ".")
	return event.Response{Status: http.StatusSeeOther, Header: http.Header{"Location": {address.String()}},
		Cookies: []*http.Cookie{cookie(in, signInCookie, kept, http.SameSiteLaxMode, signInFor)}}
}

var noConsole = &Problem{Status: http.StatusServiceUnavailable, Title: "There is no console here", Text: "Whoever operates this installation gave it no client identifier at the issuer (parameter ConsoleClientId), so nobody can sign in. px review and px approve work without it.", Link: &Crumb{"Try it again", Root}}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// endSignIn takes what the issuer sent the browser back with.
func (h *Handler) endSignIn(ctx context.Context, in *event.Request, query url.Values) event.Response {
	if h.ClientID == "" {
		return h.problem(nil, noConsole)
	}
	out := h.callback(ctx, in, query)
	if cookieOf(in, signInCookie) != "" {
		out.Cookies = append(out.Cookies, cookie(in, signInCookie, "", http.SameSiteLaxMode, 0))
	}
	return out
}

// refusals are what an issuer may say instead of a code (RFC 6749, 4.1.2.1; OpenID Connect
// Core, 3.1.2.6), and what a person is told. Other texts of the address are not shown: who
// made the address wrote them.
var refusals = map[string]string{
	"access_denied":             "The issuer says that access was denied, by you or by its rules.",
	"invalid_scope":             "The issuer does not give this console the scope px.approve. An operator must allow it for the console's client.",
	"unauthorized_client":       "The issuer does not let this console sign people in. An operator must look at the console's client.",
	"invalid_request":           "The issuer did not understand the console's request.",
	"unsupported_response_type": "The issuer gives no authorization codes to this console's client.",
	"server_error":              "The issuer has a problem of its own.",
	"temporarily_unavailable":   "The issuer is busy.",
	"login_required":            "The issuer wants you to sign in there first.",
	"interaction_required":      "The issuer wants something from you first.",
	"consent_required":          "The issuer wants your consent first.",
}

func (h *Handler) callback(ctx context.Context, in *event.Request, query url.Values) event.Response {
	again := func(status int, title, text, to string) event.Response {
		if !local(to) {
			to = Root
		}
		return h.problem(nil, &Problem{Status: status, Title: title, Text: text, Link: &Crumb{"Sign in again", signInPath + "?" + url.Values{"to": {to}}.Encode()}})
	}
	state, verifier, to, ok := readSignIn(cookieOf(in, signInCookie))
	switch {
	case !ok:
		return again(http.StatusBadRequest, "This sign-in did not begin here", "Either it took more than ten minutes, or it was already used, or it began in another browser. Nobody was signed in.", "")
	case subtle.ConstantTimeCompare([]byte(state), []byte(query.Get("state"))) != 1:
		return again(http.StatusBadRequest, "This is the answer to another sign-in", "Perhaps you began twice, in two tabs. Nobody was signed in.", to)
	}
	if from, has := query["iss"]; has && from[0] != h.Issuer { // RFC 9207
		return again(http.StatusBadRequest, "This answer is of another issuer", "Nobody was signed in.", to)
	}
	if code := query.Get("error"); code != "" {
		text := refusals[code]
		if text == "" {
			text = "The issuer refused, for a reason that is none of those that are known."
		}
		return again(http.StatusForbidden, "The issuer did not sign you in", text, to)
	}
	code := query.Get("code")
	if code == "" {
		return again(http.StatusBadRequest, "The issuer's answer has no code", "Nobody was signed in.", to)
	}
	text, err := h.issuer.exchange(ctx, h.ClientID, code, in.Origin()+callbackPath, verifier)
	if errors.Is(err, errGrant) {
		return again(http.StatusBadRequest, "This sign-in is over", "Its code was used already, is too old or is of another sign-in. Nobody was signed in.", to)
	}
	if err != nil {
		return h.issuerFailed(ctx, in, err)
	}
	token, err := h.Verifier.Verify(ctx, "Bearer "+text, identity.ScopeApprove)
	var refusal *identity.Error
	switch {
	case errors.As(err, &refusal) && refusal.Reason == identity.ReasonUnavailable:
		return h.issuerFailed(ctx, in, err)
	case errors.As(err, &refusal):
		h.Log.WarnContext(ctx, "the console was given a token that it does not take", "apiRequestId", in.RequestContext.RequestID, "reason", refusal.Reason, "cause", refusal.Cause)
		return again(http.StatusForbidden, "This credential does not open the console", "The issuer gave a token that is not for approving (scope px.approve, alone). Nobody was signed in.", to)
	case err != nil:
		return h.failed(ctx, nil, in.RequestContext.RequestID, err)
	}
	now := h.Now().UTC().Truncate(time.Second)
	life := token.Expires.Sub(now).Truncate(time.Second)
	if life <= 0 {
		return again(http.StatusForbidden, "This credential has expired", "The clock of the issuer and the one here may differ. Nobody was signed in.", to)
	}
	key := session.NewKey()
	s := session.Session{ID: key.ID(), Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes, Token: token.Session, Begun: now, Expires: now.Add(life)}
	if err := h.Sessions.BeginSession(ctx, s); err != nil {
		return h.failed(ctx, nil, in.RequestContext.RequestID, err)
	}
	h.Log.InfoContext(ctx, "signed in to the console", "apiRequestId", in.RequestContext.RequestID, "principal", token.Issuer+"|"+token.Subject)
	out := h.goOn(to)
	out.Cookies = append(out.Cookies, cookie(in, sessionCookie, string(key), http.SameSiteStrictMode, life))
	return out
}

// readSignIn reads the cookie of a sign-in.
func readSignIn(text string) (state, verifier, to string, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" || len(parts[1]) < 43 {
		return "", "", "", false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if to = string(b); err != nil || !local(to) {
		to = Root
	}
	return parts[0], parts[1], to, true
}

// issuerFailed answers an issuer that does not do what it must.
func (h *Handler) issuerFailed(ctx context.Context, in *event.Request, err error) event.Response {
	h.Log.ErrorContext(ctx, "the issuer cannot sign people in", "apiRequestId", in.RequestContext.RequestID, "cause", err)
	return h.problem(nil, &Problem{Status: http.StatusBadGateway, Title: "The issuer does not answer as it should",
		Text: "Nobody was signed in. Try it again; if it stays so, an operator finds the cause in the log under " + in.RequestContext.RequestID + "."})
}

// signOut ends the session, here and in the store.
func (h *Handler) signOut(ctx context.Context, v *Visit) (Answer, error) {
	if err := h.Sessions.EndSession(ctx, v.key.ID(), v.expires); err != nil {
		return nil, err
	}
	v.key = "" // of the page: nobody is signed in any more
	return Page{Title: "Signed out", Body: "signedout"}, nil
}

// ---- the issuer ----

const (
	maxDocument = 256 << 10 // bytes of what the issuer answers
	issuerTime  = 5 * time.Second
	knownFor    = 10 * time.Minute // the issuer's metadata
	discovery   = "/.well-known/openid-configuration"
)

// An issuer is reached for its metadata and for tokens.
type issuer struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	found endpoints
	at    time.Time
}

type endpoints struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
}

func newIssuer(c Config) *issuer {
	client := &http.Client{Timeout: issuerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.Client != nil {
		client.Transport = c.Client.Transport
	}
	return &issuer{url: c.Issuer, client: client, now: c.Now}
}

// endpoints reads the issuer's metadata, now and then.
func (i *issuer) endpoints(ctx context.Context) (endpoints, error) {
	i.mu.Lock()
	found, age := i.found, i.now().Sub(i.at)
	i.mu.Unlock()
	if found.Issuer != "" && age >= 0 && age < knownFor {
		return found, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(i.url, "/")+discovery, nil)
	if err != nil {
		return endpoints{}, fmt.Errorf("console: the issuer's metadata: %w", err)
	}
	var out endpoints
	if _, err := i.get(request, &out); err != nil {
		return endpoints{}, err
	}
	if out.Issuer != i.url {
		return endpoints{}, errors.New("console: the metadata is another issuer's")
	}
	for _, address := range []string{out.Authorization, out.Token} {
		if !trusted(address) {
			return endpoints{}, errors.New("console: an endpoint of the issuer is not HTTPS, and not HTTP to loopback")
		}
	}
	i.mu.Lock()
	i.found, i.at = out, i.now()
	i.mu.Unlock()
	return out, nil
}

func trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

// errGrant is of a code that the issuer does not take.
var errGrant = errors.New("console: the issuer does not take the code")

// exchange gets the token of a code.
func (i *issuer) exchange(ctx context.Context, client, code, redirect, verifier string) (string, error) {
	to, err := i.endpoints(ctx)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "client_id": {client}, "code_verifier": {verifier}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("console: the issuer's token: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var out struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
		Error string `json:"error"`
	}
	status, err := i.get(request, &out)
	switch {
	case status == http.StatusBadRequest && out.Error == "invalid_grant":
		return "", errGrant
	case err != nil:
		return "", err
	case out.Token == "" || !strings.EqualFold(out.Type, "Bearer"):
		return "", errors.New("console: the issuer gave no bearer token")
	}
	return out.Token, nil
}

// get reads a strict JSON document of a bounded size.
func (i *issuer) get(request *http.Request, out any) (int, error) {
	request.Header.Set("Accept", event.JSON)
	response, err := i.client.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address, which may hold what is secret
		}
		return 0, fmt.Errorf("console: the issuer: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = errors.New("the document is too large")
	}
	if err == nil {
		err = canon.Check(body)
	}
	if err == nil && json.Unmarshal(body, out) != nil {
		err = errors.New("the document has not the expected shape")
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, fmt.Errorf("console: the issuer answered %d", response.StatusCode)
	}
	if err != nil {
		return response.StatusCode, fmt.Errorf("console: the issuer: %w", err)
	}
	return response.StatusCode, nil
}
