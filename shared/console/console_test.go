package console

import (
	"context"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

var bridge = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}

// A bench is a console over a store in memory, with an issuer that does as it is told. A
// token is "scope.subject".
type bench struct {
	*testing.T
	store   *memory.Store
	issuer  string
	answers map[string]func(w http.ResponseWriter, r *http.Request) // of the issuer, by path
	asked   []*http.Request
	now     time.Time
	h       *Handler
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		b.asked = append(b.asked, r)
		if answer := b.answers[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	b.issuer = server.URL
	b.answers = map[string]func(http.ResponseWriter, *http.Request){
		discovery: b.says(m{"issuer": b.issuer, "authorization_endpoint": b.issuer + "/authorize?tenant=1", "token_endpoint": b.issuer + "/token"}),
		"/token":  b.says(m{"access_token": "px.approve.reviewer", "token_type": "bearer"}),
	}
	clock := func() time.Time { return b.now }
	b.store = memory.New(clock)
	admin := project.New(b.store, nil, clock)
	b.must(admin.Create(t.Context(), bridge, nil, ""))
	b.must(admin.SetGrant(t.Context(), bridge, b.issuer+"|reviewer", []policy.Right{policy.Read, policy.Approve}))
	b.renew()
	return b
}

type m = map[string]any

// renew makes a handler that knows nothing yet.
func (b *bench) renew() {
	clock := func() time.Time { return b.now }
	b.h = New(Config{Issuer: b.issuer, ClientID: "the-console", Verifier: b, Sessions: b.store, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: clock,
		Reviews: &review.Reviews{Objects: b.store, Plans: b.store, Policy: b.store, Approvals: b.store, Now: clock},
		Queue:   &review.Queue{Rows: b.store, Policy: b.store, Now: clock},
		Call:    func(context.Context, tool.Request) ([]byte, error) { return nil, errors.New("no tool here") }})
}

func (b *bench) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	text := strings.TrimPrefix(authorization, "Bearer ")
	i := strings.LastIndex(text, ".")
	switch {
	case text == "keys_unavailable":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonUnavailable}
	case i < 0:
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMalformed}
	case text[:i] != scope:
		return identity.Token{}, &identity.Error{Reason: identity.ReasonScope}
	}
	return identity.Token{Issuer: b.issuer, Subject: text[i+1:], Scopes: []string{scope}, Expires: b.now.Add(90 * time.Minute), Session: "s"}, nil
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) says(v any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { stdjson.NewEncoder(w).Encode(v) }
}

type reply struct {
	status  int
	headers map[string]string
	cookies []string
	body    string
}

// send sends an event, over https unless it is told otherwise.
func (b *bench) send(method, path string, cookies []string, edit ...func(m)) reply {
	b.Helper()
	path, query, _ := strings.Cut(path, "?")
	e := m{"version": "2.0", "routeKey": "ANY /console/{proxy+}", "rawPath": path, "rawQueryString": query, "cookies": cookies,
		"headers":        m{"host": "api.example", "x-forwarded-proto": "https", "sec-fetch-site": "same-origin"},
		"requestContext": m{"requestId": "r", "http": m{"method": method}}}
	if rest := strings.TrimPrefix(path, Root+"/"); rest != path {
		e["pathParameters"] = m{"proxy": rest}
	}
	for _, f := range edit {
		f(e)
	}
	payload, err := stdjson.Marshal(e)
	b.must(err)
	out, err := b.h.Invoke(b.Context(), payload)
	b.must(err)
	var got struct {
		StatusCode int
		Headers    map[string]string
		Cookies    []string
		Body       string
	}
	b.must(stdjson.Unmarshal(out, &got))
	return reply{got.StatusCode, got.Headers, got.Cookies, got.Body}
}

func pair(set string) string { left, _, _ := strings.Cut(set, ";"); return left }

// began begins a sign-in: the address of the issuer, and the cookie.
func (b *bench) began() (*url.URL, string) {
	b.Helper()
	got := b.send("GET", "/console/sign-in?to=/console/plans/plan_1", nil)
	to, err := url.Parse(got.headers["location"])
	if got.status != 303 || err != nil || len(got.cookies) != 1 {
		b.Fatalf("%+v", got)
	}
	return to, got.cookies[0]
}

// signedIn is the cookie of a session.
func (b *bench) signedIn(as string) string {
	b.Helper()
	key := session.NewKey()
	b.must(b.store.BeginSession(b.Context(), session.Session{ID: key.ID(), Issuer: b.issuer, Subject: as, Scopes: []string{identity.ScopeApprove}, Begun: b.now, Expires: b.now.Add(time.Hour)}))
	return "__Host-px-console=" + string(key)
}

// Over https every cookie is of this host alone, and the sign-in is a code with PKCE at
// the endpoints that the issuer names, for the one scope.
//
// covers: U6
func TestTheSignInIsACodeWithPKCE(t *testing.T) {
	b := newBench(t)
	to, set := b.began()
	q := to.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": "the-console", "scope": "px.approve", "code_challenge_method": "S256",
		"redirect_uri": "https://api.example/console/callback", "tenant": "1"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q", name, q.Get(name))
		}
	}
	if !strings.HasPrefix(to.String(), b.issuer+"/authorize?") || len(q.Get("state")) < 26 || len(q.Get("code_challenge")) != 43 {
		t.Errorf("%s", to)
	}
	for _, part := range []string{"__Host-px-console-sign-in=", "; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Max-Age=600"} {
		if !strings.Contains(set, part) {
			t.Errorf("%q has no %s", set, part)
		}
	}
	got := b.send("GET", "/console/callback?code=c1&state="+q.Get("state"), []string{pair(set)})
	if got.status != 200 || len(got.cookies) != 2 || got.headers["strict-transport-security"] == "" || !strings.Contains(got.body, `content="0; url=/console/plans/plan_1"`) {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"__Host-px-console=", "; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Max-Age=5400"} {
		if !strings.Contains(got.cookies[0], part) {
			t.Errorf("%q has no %s", got.cookies[0], part)
		}
	}
	if !strings.Contains(got.cookies[1], "sign-in=; ") || !strings.Contains(got.cookies[1], "Max-Age=0") {
		t.Errorf("the sign-in's cookie stays: %q", got.cookies[1])
	}
	f := b.asked[len(b.asked)-1].PostForm
	if f.Get("grant_type") != "authorization_code" || f.Get("code") != "c1" || f.Get("client_id") != "the-console" || f.Get("redirect_uri") != q.Get("redirect_uri") || challenge(f.Get("code_verifier")) != q.Get("code_challenge") || len(f.Get("code_verifier")) < 43 {
		t.Errorf("%v", f)
	}
	// The key in the cookie is not what the store has, and another one is made each time.
	key := strings.TrimPrefix(pair(got.cookies[0]), "__Host-px-console=")
	if s, err := b.store.Session(t.Context(), session.Key(key).ID()); err != nil || s.Subject != "reviewer" || s.ID == key {
		t.Errorf("%+v, %v", s, err)
	}
}

// An issuer that answers wrongly signs nobody in, and nothing of its answer is shown.
//
// covers: U6
func TestAnIssuerThatAnswersWronglySignsNobodyIn(t *testing.T) {
	huge := strings.Repeat(" ", 300<<10)
	for name, c := range map[string]struct {
		path   string
		answer func(b *bench) func(http.ResponseWriter, *http.Request)
		status int
	}{
		"metadata of another issuer": {discovery, func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"issuer": "https://evil.example", "authorization_endpoint": b.issuer + "/authorize", "token_endpoint": b.issuer + "/token"})
		}, 502},
		"an endpoint without https": {discovery, func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"issuer": b.issuer, "authorization_endpoint": "http://evil.example/authorize", "token_endpoint": b.issuer + "/token"})
		}, 502},
		"an endpoint that is a script": {discovery, func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"issuer": b.issuer, "authorization_endpoint": "javascript:alert(1)", "token_endpoint": b.issuer + "/token"})
		}, 502},
		"metadata that is sent elsewhere": {discovery, func(*bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/token", http.StatusFound) }
		}, 502},
		"metadata without end": {discovery, func(*bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{"+huge) }
		}, 502},
		"metadata that says it twice": {discovery, func(b *bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"issuer":"https://evil.example","issuer":%q,"authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/token"}`, b.issuer)
			}
		}, 502},
		"a token for tools": {"/token", func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"access_token": "px.tools.reviewer", "token_type": "Bearer"})
		}, 403},
		"a token for both": {"/token", func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"access_token": "px.tools px.approve.reviewer", "token_type": "Bearer"})
		}, 403},
		"no token": {"/token", func(b *bench) func(http.ResponseWriter, *http.Request) { return b.says(m{"token_type": "Bearer"}) }, 502},
		"a token of another type": {"/token", func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"access_token": "px.approve.reviewer", "token_type": "DPoP"})
		}, 502},
		"a token that cannot be verified now": {"/token", func(b *bench) func(http.ResponseWriter, *http.Request) {
			return b.says(m{"access_token": "keys_unavailable", "token_type": "Bearer"})
		}, 502},
		"a failure": {"/token", func(*bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret of the issuer", 500) }
		}, 502},
		"a refusal of the code": {"/token", func(*bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				io.WriteString(w, `{"error":"invalid_grant","error_description":"secret of the issuer"}`)
			}
		}, 400},
		"another refusal": {"/token", func(*bench) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				io.WriteString(w, `{"error":"invalid_client"}`)
			}
		}, 502},
	} {
		b := newBench(t)
		to, set := b.began()
		b.answers[c.path] = c.answer(b)
		b.renew() // so that it asks again
		got := b.send("GET", "/console/callback?code=c1&state="+to.Query().Get("state"), []string{pair(set)})
		if got.status != c.status || len(got.cookies) != 1 || !strings.Contains(got.cookies[0], "Max-Age=0") || strings.Contains(got.body, "secret") || strings.Contains(got.body, "evil") || strings.Contains(got.body, "http-equiv") {
			t.Errorf("%s: %+v", name, got)
		}
		if c.path == discovery {
			if got := b.send("GET", "/console/sign-in", nil); got.status != 502 || got.headers["location"] != "" {
				t.Errorf("%s, at the beginning: %+v", name, got)
			}
		}
	}
	b := newBench(t)
	b.h.ClientID = ""
	for _, path := range []string{"/console/sign-in", "/console/callback?code=x"} {
		if got := b.send("GET", path, nil); got.status != 503 || !strings.Contains(got.body, "ConsoleClientId") {
			t.Errorf("without a client: %+v", got)
		}
	}
	if got := b.send("GET", "/console", nil); got.status != 401 || !strings.Contains(got.body, "ConsoleClientId") {
		t.Errorf("without a client: %+v", got)
	}
}

// planned stores a plan of the engineer with as many differences and uses as are asked for.
func (b *bench) planned(d change.Draft) change.Plan {
	b.Helper()
	n := 0
	planner := change.Planner{Objects: b.store, Store: b.store, Now: func() time.Time { return b.now }, Life: time.Hour,
		NewRef: func(prefix string) string { n++; return prefix + "large" }}
	d.Tool, d.Project, d.Subject = "function_plan_change", bridge, policy.OnFunction
	d.Policy = policy.Policy{Rules: []policy.Rule{{On: policy.OnFunction, Approval: "required"}}}
	out, findings, err := planner.Plan(b.Context(), change.Author{Principal: b.issuer + "|engineer", Assistant: &history.Assistant{Provider: "p\u202e", Model: "m"}}, d)
	if b.must(err); findings != nil {
		b.Fatal(findings)
	}
	return out
}

// The largest plan there is moves 5,000 targets. Every difference and path of it is on a
// page, once; a page stays small; and the form says that one page is not all.
//
// covers: U6
func TestTheLargestPlanIsShownPageByPage(t *testing.T) {
	b := newBench(t)
	const targets = 5000
	var diff, uses, flows []any
	var touched []string
	for i := range targets {
		path := fmt.Sprintf("flow/flow_%04d:/nodes/check/target", i)
		touched = append(touched, path)
		diff = append(diff, m{"path": path, "op": "replace", "before": m{"kind": "function", "functionKey": "f", "version": 1}, "after": m{"kind": "function", "functionKey": "f", "version": 2}})
		uses = append(uses, m{"target": fmt.Sprintf("flow/flow_%04d", i), "path": "/nodes/check/target", "effect": "moved", "version": 1})
		flows = append(flows, m{"flowKey": fmt.Sprintf("flow_%04d", i), "nodeKeys": []string{"check"}, "base": m{"revisionRef": fmt.Sprint("sha256:", i), "generation": 0}, "result": m{"revisionRef": "sha256:x", "generation": 1}})
	}
	raw := func(v any) canon.Raw {
		text, err := stdjson.Marshal(v)
		b.must(err)
		return canon.Raw(text)
	}
	p := b.planned(change.Draft{Target: raw(m{"functionKey": "f"}), Commands: []canon.Raw{raw(m{"kind": "CreateFunctionVersion"})}, Unlabelled: []canon.Raw{raw(m{"kind": "CreateFunctionVersion"})}, Kinds: []string{"CreateFunctionVersion"},
		TouchedSemanticPaths: touched, Diff: raw(diff), Impact: raw(m{"checks": []any{}, "uses": uses, "flows": flows, "reports": []any{}, "stale": []any{}, "unheard": m{"of": "kept"}})})
	cookies := []string{b.signedIn("reviewer")}
	at := planPath(p.PlanRef)
	first := b.send("GET", at, cookies)
	for _, text := range []string{"1 to 40 of 5000", "1 to 100 of 5000", "This page does not show all of it", "<dd>5000</dd>", "unheard", "kept", p.PlanDigest, "p⟨U+202E⟩"} {
		if !strings.Contains(first.body, text) {
			t.Errorf("%q is not there", text)
		}
	}
	if first.status != 200 || len(first.body) > 3<<20 {
		t.Fatalf("%d, %d bytes", first.status, len(first.body))
	}
	// The last page of each list has the end of it; how pages follow each other is tried
	// in TestPagesTogetherAreTheList.
	for query, end := range map[string]string{"diff=4961": "4961 to 5000 of 5000", "paths=4901": "4901 to 5000 of 5000", "flows=4901": "4901 to 5000 of 5000", "uses=4901": "4901 to 5000 of 5000"} {
		page := b.send("GET", at+"?"+query, cookies)
		if page.status != 200 || !strings.Contains(page.body, end) || strings.Count(page.body, "flow_4999") < 1 {
			t.Errorf("%s: %d", query, page.status)
		}
	}
	// A long difference is cut, says so, and leads to the whole.
	if whole := b.send("GET", at+"/diff/5000", cookies); whole.status != 200 || !strings.Contains(whole.body, "flow_4999") {
		t.Errorf("%d", whole.status)
	}
	for _, n := range []string{"0", "5001", "x", "-1"} {
		if got := b.send("GET", at+"/diff/"+n, cookies); got.status != 404 {
			t.Errorf("difference %s: %d", n, got.status)
		}
	}
}

// However long a list and a page are, following the links shows each entry once, in order,
// and keeps what the query says of other lists.
func TestPagesTogetherAreTheList(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all := make([]int, rapid.IntRange(0, 300).Draw(r, "entries"))
		for i := range all {
			all[i] = i
		}
		per := rapid.IntRange(1, 120).Draw(r, "per page")
		v := &Visit{Query: url.Values{"other": {"7"}}, here: "/console/plans/x?other=7"}
		var seen []int
		for range len(all) + 1 {
			p := paged(v, "list", all, per)
			seen = append(seen, p.Items...)
			if len(p.Items) > 0 && (p.From != p.Items[0]+1 || p.To != p.Items[len(p.Items)-1]+1) || p.Total != len(all) {
				r.Fatalf("%+v", p)
			}
			if p.Next == "" {
				break
			}
			next, err := url.Parse(p.Next)
			if err != nil || next.Path != "/console/plans/x" || next.Query().Get("other") != "7" || next.Fragment != "list" {
				r.Fatalf("%s, %v", p.Next, err)
			}
			v.Query = next.Query()
		}
		if !slices.Equal(seen, all) {
			r.Fatalf("%d of %d", len(seen), len(all))
		}
	})
	for _, odd := range []string{"", "0", "-5", "x", "301", "99999999999999999999"} {
		if p := paged(&Visit{Query: url.Values{"list": {odd}}}, "list", make([]int, 300), 100); p.From != 1 || p.To != 100 {
			t.Errorf("%q: %d to %d", odd, p.From, p.To)
		}
	}
}

// What stands of a long difference says how much is left out, and the rest is one link away.
func TestALongDifferenceIsCutAndSaysSo(t *testing.T) {
	b := newBench(t)
	raw := func(v any) canon.Raw {
		text, err := stdjson.Marshal(v)
		b.must(err)
		return canon.Raw(text)
	}
	var unified strings.Builder
	unified.WriteString("--- a\n+++ b\n@@ -1 +1,500 @@\n")
	for i := range 500 {
		fmt.Fprintf(&unified, "+    line_%d = \"--\"\n", i)
	}
	text := strings.Repeat("가", 3000) + "the end"
	p := b.planned(change.Draft{Target: raw(m{"functionKey": "f"}), Commands: []canon.Raw{raw(m{"kind": "X"})}, Unlabelled: []canon.Raw{raw(m{"kind": "X"})}, Kinds: []string{"X"}, TouchedSemanticPaths: []string{"/source"},
		Diff: raw([]any{m{"path": "/source", "op": "replace", "unified": unified.String()}, m{"path": "/text", "op": "add", "after": text}}), Impact: raw(m{})})
	cookies := []string{b.signedIn("reviewer")}
	page := b.send("GET", planPath(p.PlanRef), cookies).body
	if !strings.Contains(page, "203 more lines are not on this page") || !strings.Contains(page, "5008 more bytes are not on this page") || strings.Contains(page, "line_499") || strings.Contains(page, "the end") || strings.Contains(page, "\ufffd") {
		t.Error(page)
	}
	if whole := b.send("GET", planPath(p.PlanRef)+"/diff/1", cookies).body; !strings.Contains(whole, "line_499") || strings.Contains(whole, "not on this page") {
		t.Error(whole)
	}
	if whole := b.send("GET", planPath(p.PlanRef)+"/diff/2", cookies).body; !strings.Contains(whole, "the end") || strings.Contains(whole, "not on this page") {
		t.Error(whole)
	}
}

// Nobody approves a program that he cannot read: where a plan's diff has no source, since
// there was none before, the page has all of it, and once.
//
// covers: U6
func TestTheSourceOfANewFunctionIsShown(t *testing.T) {
	raw := func(v any) canon.Raw {
		text, err := stdjson.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return canon.Raw(text)
	}
	var source strings.Builder
	source.WriteString("import px\n# <script>\n")
	for i := range 400 {
		fmt.Fprintf(&source, "line_%03d = 1\n", i)
	}
	one := m{"path": "/version", "op": "add", "after": 1}
	for name, c := range map[string]struct {
		commands []any
		diff     []any
		shown    int
	}{
		"the first source":                           {[]any{m{"kind": "CreateFunction", "source": source.String()}}, []any{one}, 1},
		"a source that the diff tells of":            {[]any{m{"kind": "CreateFunctionVersion", "source": source.String()}}, []any{m{"path": "/source", "op": "replace", "unified": "--- before\n+++ after\n@@ -1 +1,2 @@\n import px\n+# <script>\n"}, one}, 1},
		"a source, and a diff of another target":     {[]any{m{"kind": "CreateFlow", "source": source.String()}}, []any{m{"path": "flow/f:/authoring/sourceDigest", "op": "replace", "unified": "--- before\n+++ after\n@@ -1 +1 @@\n-a\n+b\n"}}, 1},
		"a source of a mapping, which is a value":    {[]any{m{"kind": "SetReportFlowInput", "source": m{"kind": "field"}}}, []any{one}, 0},
		"a command that has none beside one with it": {[]any{m{"kind": "SetFlowLabel"}, m{"kind": "CreateFlow", "source": source.String()}}, []any{one}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var commands []canon.Raw
			for _, command := range c.commands {
				commands = append(commands, raw(command))
			}
			p := b.planned(change.Draft{Target: raw(m{"functionKey": "f"}), Commands: commands, Unlabelled: commands, Kinds: []string{"X"}, TouchedSemanticPaths: []string{""}, Diff: raw(c.diff), Impact: raw(m{})})
			cookies := []string{b.signedIn("reviewer")}
			page := b.send("GET", planPath(p.PlanRef), cookies)
			if n := strings.Count(page.body, "# &lt;script&gt;"); page.status != 200 || n != c.shown {
				t.Errorf("%d: shown %d times: %s", page.status, n, page.body)
			}
			if !strings.Contains(page.body, "<li>all of it</li>") {
				t.Error("the path of the whole document is not told")
			}
			if !strings.Contains(page.body, "line_000") {
				return
			}
			if !strings.Contains(page.body, "more lines are not on this page") {
				t.Error("a long source is not cut, or says nothing of it")
			}
			if whole := b.send("GET", planPath(p.PlanRef)+"/diff/1", cookies); whole.status != 200 || !strings.Contains(whole.body, "line_399") {
				t.Errorf("%d %s", whole.status, whole.body)
			}
		})
	}
}

// What is too long to be a key or a reference is no page, and no store is asked for it: it
// would answer that it cannot even look (an error of its own, told as a 500).
func TestAnAddressThatIsTooLongToNameAnything(t *testing.T) {
	b := newBench(t)
	cookies := []string{b.signedIn("reviewer")}
	b.h.Reviews, b.h.Queue = nil, nil // whoever is asked panics
	long := strings.Repeat("a", maxVariable+1)
	for _, path := range []string{"/plans/plan_" + long, "/plans/run_" + long, "/plans/" + long + "/diff/1", "/runs/" + long + "/inputs/span", "/p/" + long + "/bridge_package", "/p/structural_team/" + long} {
		if got := b.send("GET", Root+path, cookies); got.status != 404 || !strings.Contains(got.body, "too long to name anything") {
			t.Errorf("%.40s: %d %s", path, got.status, got.body)
		}
	}
	// What is sealed in a link to a large value is as long as it has to be.
	b.h.Resources = opened("")
	if got := b.send("GET", Root+"/resources/"+long+long+long, cookies); got.status != 303 || got.headers["location"] != "https://bucket.example/"+long+long+long {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// opened are links that lead to where their references say.
type opened string

func (opened) Use(_ context.Context, _, ref string) (resource.Download, outcome.Findings, error) {
	return resource.Download{URL: "https://bucket.example/" + ref}, nil, nil
}

// A query that is no text is refused before a tool is sent it, which JSON cannot hold.
func TestAQueryThatIsNoTextIsRefused(t *testing.T) {
	b := newBench(t)
	cookies := []string{b.signedIn("reviewer")}
	for _, query := range []string{"cursor=%ff", "%ff=1", "cursor=a%00", "cursor=1&cursor=2"} {
		if got := b.send("GET", Root+"?"+query, cookies); got.status != 400 || !strings.Contains(got.body, "The address cannot be read") {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}

// Where somebody is sent is a page of this host, whatever a browser makes of an address.
func FuzzLocal(f *testing.F) {
	for _, seed := range []string{"/console", "/console/p/a/b?x=1", "//evil.example", "/console/..//evil.example", "/\\evil.example", "https://evil.example/console", "/console/%2e%2e/x", "/console\t/x", "/console?to=//x", "/consolex"} {
		f.Add(seed)
	}
	base, err := url.Parse("https://api.example/console/callback")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, to string) {
		if !local(to) {
			return
		}
		got, err := base.Parse(to)
		if err != nil || got.Host != "api.example" || got.Scheme != "https" || got.Path != Root && !strings.HasPrefix(got.Path, Root+"/") || strings.ContainsAny(to, "\\\r\n\t ") {
			t.Errorf("%q leads to %v, %v", to, got, err)
		}
	})
}

// Whatever the cookie of a sign-in holds, nothing but a page of the console comes out.
func FuzzReadSignIn(f *testing.F) {
	f.Add("a." + strings.Repeat("b", 43) + "." + base64.RawURLEncoding.EncodeToString([]byte("/console/x")))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		state, verifier, to, ok := readSignIn(text)
		if ok && (state == "" || len(verifier) < 43 || !local(to)) {
			t.Errorf("%q is %q %q %q", text, state, verifier, to)
		}
	})
}

func TestMarksThatCannotBeSeenAreNamed(t *testing.T) {
	for in, want := range map[string]string{
		"plain, 한국어, é, 👷\n\t": "plain, 한국어, é, 👷\n\t",
		"a\u202eb\u2066c":      "a⟨U+202E⟩b⟨U+2066⟩c",
		"\x1b[2J\x00":          "⟨U+001B⟩[2J⟨U+0000⟩",
		"\u200b\ufeff\u00ad":   "⟨U+200B⟩⟨U+FEFF⟩⟨U+00AD⟩",
	} {
		if got := string(visible([]byte(in))); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}
