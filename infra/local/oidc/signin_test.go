package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/identity"
)

// signing is a sign-in that is served, with a clock.
type signing struct {
	code  string
	url   string
	now   time.Time
	token func(t *testing.T, text, scope string) identity.Token
}

func signIn(t *testing.T) *signing {
	t.Helper()
	key, _ := open(t)
	s := &signing{code: key.Code(), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	in := key.NewSignIn(s.url, func() time.Time { return s.now })
	mux.Handle("/oauth/", in)
	mux.Handle("/", key.Handler(s.url))
	s.token = func(t *testing.T, text, scope string) identity.Token {
		v, err := identity.New(identity.Config{Issuer: s.url, Audience: Audience, Now: func() time.Time { return s.now }})
		if err != nil {
			t.Fatal(err)
		}
		token, err := v.Verify(t.Context(), "Bearer "+text, scope)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	return s
}

// still is a client that follows nothing.
var still = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (s *signing) do(t *testing.T, method, path, kind, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	r, err := still.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(all), r.Header
}

const form = "application/x-www-form-urlencoded"

func (s *signing) register(t *testing.T, metadata string) (status int, got map[string]any) {
	t.Helper()
	status, text, _ := s.do(t, "POST", RegisterPath, "application/json", metadata)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err, text)
	}
	return status, got
}

const (
	redirect = "http://127.0.0.1:7777/back"
	verifier = "abcdefghijklmnopqrstuvwxyz0123456789-._~ABCDEFG"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// asking is what a client sends a person to authorize with.
func (s *signing) asking(t *testing.T) url.Values {
	t.Helper()
	_, got := s.register(t, `{"client_name":"A <b>client</b>","redirect_uris":["`+redirect+`"]}`)
	id, _ := got["client_id"].(string)
	return url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
		"state": {"a b"}, "scope": {"px.tools"}, "resource": {s.url + "/mcp"}}
}

// console is what the console sends a person to authorize with.
func (s *signing) console(t *testing.T) url.Values {
	t.Helper()
	q := s.asking(t)
	q.Set("client_id", ConsoleClient)
	q.Set("redirect_uri", s.url+ConsoleCallback)
	q.Set("scope", "px.approve")
	return q
}

// A client that registered itself may be an AI's, however it is called: the console alone
// is given px.approve, is given nothing else, and at its own address alone.
//
// covers: U6
func TestTheConsoleAloneApproves(t *testing.T) {
	s := signIn(t)
	for name, change := range map[string]func(url.Values){
		"a registered client":          func(q url.Values) { q.Set("client_id", s.asking(t).Get("client_id")); q.Set("redirect_uri", redirect) },
		"the console, for tools":       func(q url.Values) { q.Set("scope", "px.tools") },
		"the console, for nothing":     func(q url.Values) { q.Del("scope") },
		"the console, for both":        func(q url.Values) { q.Set("scope", "px.tools px.approve") },
		"the console, somewhere else":  func(q url.Values) { q.Set("redirect_uri", s.url+"/console/other") },
		"the console, at another port": func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1:7777"+ConsoleCallback) },
		"a client named px-console": func(q url.Values) {
			_, got := s.register(t, `{"client_name":"px-console","redirect_uris":["`+s.url+ConsoleCallback+`"]}`)
			q.Set("client_id", got["client_id"].(string))
		},
	} {
		q := s.console(t)
		change(q)
		status, page, h := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "")
		if refused := status == 400 || status == 302 && strings.Contains(h.Get("Location"), "error=invalid_scope"); !refused || ticketed.MatchString(page) {
			t.Errorf("%s: %d %s", name, status, h.Get("Location"))
		}
	}
}

var ticketed = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// choose is a person who chooses on the page that he is shown.
func (s *signing) choose(t *testing.T, q url.Values, as string) url.Values {
	t.Helper()
	status, page, h := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "")
	found := ticketed.FindStringSubmatch(page)
	if status != 200 || found == nil || !strings.Contains(page, "A &lt;b&gt;client&lt;/b&gt;") && q.Get("client_id") != ConsoleClient || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Fatalf("%d %s", status, page)
	}
	status, page, h = s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {found[1]}, "as": {as}, "code": {" " + strings.ToLower(s.code)}}.Encode(), "Origin", s.url)
	to, err := url.Parse(h.Get("Location"))
	if status != 302 || err != nil || !strings.HasPrefix(to.String(), q.Get("redirect_uri")+"?") {
		t.Fatalf("%d %s %s", status, h.Get("Location"), page)
	}
	return to.Query()
}

func (s *signing) exchange(t *testing.T, f url.Values) (status int, got map[string]any) {
	t.Helper()
	status, text, h := s.do(t, "POST", TokenPath, form, f.Encode())
	if err := json.Unmarshal([]byte(text), &got); err != nil || h.Get("Cache-Control") != "no-store" {
		t.Fatal(err, text)
	}
	return status, got
}

func exchanging(q url.Values, code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": q["client_id"], "redirect_uri": q["redirect_uri"], "code_verifier": {verifier}}
}

func TestAPersonSignsIn(t *testing.T) {
	s := signIn(t)
	for _, scope := range []string{"px.tools", "px.approve"} {
		q := s.asking(t)
		if scope == "px.approve" {
			q = s.console(t)
		}
		q.Set("scope", scope+" openid")
		back := s.choose(t, q, "reviewer")
		if back.Get("state") != "a b" || back.Get("iss") != s.url || back.Get("error") != "" {
			t.Fatal(back)
		}
		status, got := s.exchange(t, exchanging(q, back.Get("code")))
		text, _ := got["access_token"].(string)
		if status != 200 || got["token_type"] != "Bearer" || got["scope"] != scope || got["expires_in"] != 3600.0 {
			t.Fatal(status, got)
		}
		if token := s.token(t, text, scope); token.Subject != "reviewer" || token.Issuer != s.url {
			t.Errorf("%+v", token)
		}
		// A code is used once.
		if status, got := s.exchange(t, exchanging(q, back.Get("code"))); status != 400 || got["error"] != "invalid_grant" {
			t.Errorf("%d %v", status, got)
		}
	}
}

func TestNoTokenWithoutAll(t *testing.T) {
	s := signIn(t)
	for name, change := range map[string]func(url.Values){
		"another verifier": func(f url.Values) { f.Set("code_verifier", strings.Repeat("x", 43)) },
		"no verifier":      func(f url.Values) { f.Del("code_verifier") },
		"the challenge":    func(f url.Values) { f.Set("code_verifier", challenge()) },
		"another client":   func(f url.Values) { f.Set("client_id", "x") },
		"another address":  func(f url.Values) { f.Set("redirect_uri", "http://127.0.0.1:7778/back") },
		"another resource": func(f url.Values) { f.Set("resource", "https://example.com/mcp") },
		"another grant":    func(f url.Values) { f.Set("grant_type", "refresh_token") },
		"a code of nobody": func(f url.Values) { f.Set("code", "x") },
		"too late":         func(url.Values) { s.now = s.now.Add(61 * time.Second) },
	} {
		q := s.asking(t)
		f := exchanging(q, s.choose(t, q, "engineer").Get("code"))
		change(f)
		if status, got := s.exchange(t, f); status != 400 || got["access_token"] != nil || got["error"] == nil {
			t.Errorf("%s: %d %v", name, status, got)
		}
		if name == "another grant" || name == "a code of nobody" {
			continue // the code was not shown
		}
		if status, got := s.exchange(t, exchanging(q, f.Get("code"))); status != 400 {
			t.Errorf("%s, and then the right ones: %d %v", name, status, got)
		}
	}
}

func TestNobodyIsSentWhereNoClientIs(t *testing.T) {
	s := signIn(t)
	for name, change := range map[string]func(url.Values){
		"another address":         func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1:7777/other") },
		"another host":            func(q url.Values) { q.Set("redirect_uri", "https://evil.example.com/back") },
		"a host that looks alike": func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1.evil.example.com:7777/back") },
		"a client of nobody":      func(q url.Values) { q.Set("client_id", "x") },
		"a client that was changed": func(q url.Values) {
			left, right, _ := strings.Cut(q.Get("client_id"), ".")
			q.Set("client_id", base64.RawURLEncoding.EncodeToString([]byte(`{"r":["https://evil.example.com/back"],"n":""}`))+"."+right)
			_ = left
		},
		"two addresses": func(q url.Values) { q.Add("redirect_uri", redirect) },
	} {
		q := s.asking(t)
		change(q)
		status, page, h := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "")
		if status != 400 || h.Get("Location") != "" || ticketed.MatchString(page) || strings.Contains(page, "evil") {
			t.Errorf("%s: %d %s %s", name, status, h.Get("Location"), page)
		}
	}
	// What a client that is one asks for wrongly, it is told.
	for code, change := range map[string]func(url.Values){
		"unsupported_response_type": func(q url.Values) { q.Set("response_type", "token") },
		"invalid_request":           func(q url.Values) { q.Set("code_challenge_method", "plain") },
		"invalid_scope":             func(q url.Values) { q.Set("scope", "px.tools px.approve") },
		"invalid_target":            func(q url.Values) { q.Set("resource", s.url+".evil.example.com/") },
	} {
		q := s.asking(t)
		change(q)
		status, _, h := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "")
		to, err := url.Parse(h.Get("Location"))
		if err != nil || status != 302 || to.Query().Get("error") != code || to.Query().Get("state") != "a b" || to.Query().Get("code") != "" {
			t.Errorf("%s: %d %s", code, status, h.Get("Location"))
		}
	}
}

func TestAChoiceIsMadeOnThePageThatWasShown(t *testing.T) {
	s := signIn(t)
	q := s.asking(t)
	_, page, _ := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "")
	ticket := ticketed.FindStringSubmatch(page)[1]
	post := func(ticket, as string, header ...string) (int, http.Header) {
		status, _, h := s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {ticket}, "as": {as}, "code": {s.code}}.Encode(), header...)
		return status, h
	}
	for name, c := range map[string]struct {
		ticket, as string
		header     []string
		status     int
	}{
		"another page":         {ticket, "engineer", []string{"Origin", "https://evil.example.com"}, 403},
		"a page of nowhere":    {ticket, "engineer", []string{"Origin", "null"}, 403},
		"no page":              {ticket, "engineer", nil, 403},
		"a ticket of nobody":   {"x." + ticket, "engineer", []string{"Origin", s.url}, 400},
		"a person of nowhere":  {ticket, "root", []string{"Origin", s.url}, 400},
		"a client as a ticket": {q.Get("client_id"), "engineer", []string{"Origin", s.url}, 400},
	} {
		if status, h := post(c.ticket, c.as, c.header...); status != c.status || h.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, status, h.Get("Location"))
		}
	}
	s.now = s.now.Add(10*time.Minute + time.Second)
	if status, h := post(ticket, "engineer", "Origin", s.url); status != 400 || h.Get("Location") != "" {
		t.Errorf("too late: %d", status)
	}
}

// Others who work at the machine reach the page, and have not the folder.
func TestOnlyWhoHasTheFolderSignsIn(t *testing.T) {
	s := signIn(t)
	q := s.asking(t)
	ticket := func(header ...string) (string, bool) {
		_, page, _ := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", "", header...)
		return ticketed.FindStringSubmatch(page)[1], strings.Contains(page, `name="code"`)
	}
	for _, code := range []string{"", "-", strings.Repeat("A", 12), s.code[:13], s.code + "A"} {
		text, asks := ticket()
		status, _, h := s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {text}, "as": {"reviewer"}, "code": {code}}.Encode(), "Origin", s.url)
		if status != 403 || !asks || h.Get("Location") != "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%q: %d %v", code, status, h)
		}
	}
	text, _ := ticket()
	_, _, h := s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {text}, "as": {"reviewer"}, "code": {s.code}}.Encode(), "Origin", s.url)
	kept, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if !strings.Contains(h.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") || strings.Contains(h.Get("Set-Cookie"), s.code) {
		t.Error(h)
	}
	// The browser is not asked again; another cookie is none.
	text, asks := ticket("Cookie", kept)
	if status, _, h := s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {text}, "as": {"reviewer"}}.Encode(), "Origin", s.url, "Cookie", kept); asks || status != 302 || h.Get("Location") == "" {
		t.Errorf("%d %v", status, h)
	}
	if status, _, _ := s.do(t, "POST", AuthorizePath, form, url.Values{"ticket": {text}, "as": {"reviewer"}}.Encode(), "Origin", s.url, "Cookie", "px-local="+q.Get("client_id")); status != 403 {
		t.Errorf("%d", status)
	}
}

func TestWhoMayRegister(t *testing.T) {
	s := signIn(t)
	for metadata, code := range map[string]string{
		`{"redirect_uris":["https://client.example.com/back?x=1"]}`:                   "",
		`{"redirect_uris":["http://localhost/back","http://[::1]:1/back"]}`:           "",
		`{"redirect_uris":["cursor://anysphere/back","com.example.app:/back"]}`:       "",
		`{"redirect_uris":["https://a/b"],"token_endpoint_auth_method":"none","x":1}`: "",
		`{"redirect_uris":["https://a/b"],"grant_types":["authorization_code","x"]}`:  "",
		`{}`:                   "invalid_redirect_uri",
		`{"redirect_uris":[]}`: "invalid_redirect_uri",
		`{"redirect_uris":["http://client.example.com/back"]}`:                               "invalid_redirect_uri",
		`{"redirect_uris":["https://a/b#c"]}`:                                                "invalid_redirect_uri",
		`{"redirect_uris":["https://me@a/b"]}`:                                               "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:                                          "invalid_redirect_uri",
		`{"redirect_uris":["data:text/html,x"]}`:                                             "invalid_redirect_uri",
		`{"redirect_uris":["/back"]}`:                                                        "invalid_redirect_uri",
		`{"redirect_uris":["https://a/b","file:///etc/passwd"]}`:                             "invalid_redirect_uri",
		`{"redirect_uris":["https://a/b"],"client_name":"` + strings.Repeat("가", 201) + `"}`: "invalid_client_metadata",
		`{"redirect_uris":["https://a/b"],"grant_types":["implicit"]}`:                       "invalid_client_metadata",
		`{"redirect_uris":"https://a/b"}`:                                                    "invalid_client_metadata",
		`[`:                                                                                  "invalid_client_metadata",
	} {
		status, got := s.register(t, metadata)
		if code == "" && (status != 201 || got["client_id"] == nil || got["token_endpoint_auth_method"] != "none") || code != "" && (status != 400 || got["error"] != code) {
			t.Errorf("%.80s: %d %v", metadata, status, got)
		}
	}
}

// A client listens where it can, on its own machine.
func TestAnyPortOfThisMachineIsTheSamePlace(t *testing.T) {
	s := signIn(t)
	_, got := s.register(t, `{"redirect_uris":["http://127.0.0.1/back"]}`)
	for uri, status := range map[string]int{"http://127.0.0.1:4711/back": 200, "http://127.0.0.1/back": 200, "http://localhost:4711/back": 400, "http://127.0.0.1:4711/other": 400, "https://127.0.0.1:4711/back": 400} {
		q := s.asking(t)
		q.Set("client_id", got["client_id"].(string))
		q.Set("redirect_uri", uri)
		if got, _, _ := s.do(t, "GET", AuthorizePath+"?"+q.Encode(), "", ""); got != status {
			t.Errorf("%s: %d", uri, got)
		}
	}
}

// What it says of itself is what it does.
func TestTheMetadataOfTheIssuer(t *testing.T) {
	s := signIn(t)
	for _, path := range []string{MetadataPath, DiscoveryPath} {
		status, text, h := s.do(t, "GET", path, "", "")
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		if got["issuer"] != s.url || got["authorization_endpoint"] != s.url+AuthorizePath || got["token_endpoint"] != s.url+TokenPath || got["registration_endpoint"] != s.url+RegisterPath ||
			h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v %v", path, got, h)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", TokenPath, 405}, {"PUT", AuthorizePath, 405}, {"GET", "/oauth/x", 404}, {"OPTIONS", TokenPath, 204}, {"OPTIONS", AuthorizePath, 405},
	} {
		status, _, h := s.do(t, c.method, c.path, "", "")
		if status != c.status || (h.Get("Access-Control-Allow-Origin") == "*") != (c.path == TokenPath) {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, h)
		}
	}
	if status, _, _ := s.do(t, "POST", RegisterPath, "application/json", `{"redirect_uris":["https://a/`+strings.Repeat("x", 70<<10)+`"]}`); status != 400 {
		t.Errorf("a large body: %d", status)
	}
}
