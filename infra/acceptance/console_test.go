package acceptance

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/console/session"
)

// A person is at the console with something like a browser: it keeps cookies, follows
// nothing by itself, and sends what a browser sends of where a request comes from.
type person struct {
	t    *testing.T
	h    *host
	jar  map[string]string
	code string
}

func (h *host) anybody(t *testing.T) *person {
	t.Helper()
	return &person{t, h, map[string]string{}, strings.TrimSpace(h.operate(t, "token", "--sign-in"))}
}

// A seen is an answer.
type seen struct {
	status int
	header http.Header
	body   string
	set    []*http.Cookie
}

// ask sends a request. The edits are of headers: name, value, name, value; an empty value
// leaves the header out.
func (p *person) ask(method, address, form string, edits ...string) seen {
	p.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = p.h.URL + address
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", p.h.URL)
	}
	for i := 0; i < len(edits); i += 2 {
		if r.Header.Set(edits[i], edits[i+1]); edits[i+1] == "" {
			r.Header.Del(edits[i])
		}
	}
	for name, value := range p.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, err := (&http.Client{Transport: client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range answer.Cookies() {
		if p.jar[c.Name] = c.Value; c.MaxAge < 0 {
			delete(p.jar, c.Name)
		}
	}
	return seen{answer.StatusCode, answer.Header, string(text), answer.Cookies()}
}

var ticketOf = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// begun goes to the issuer, says who is there, and returns the address to which the issuer
// sends back.
func (p *person) begun(as, to string) string {
	p.t.Helper()
	begin := p.ask("GET", "/console/sign-in?"+url.Values{"to": {to}}.Encode(), "")
	page := p.ask("GET", begin.header.Get("Location"), "")
	ticket := ticketOf.FindStringSubmatch(page.body)
	if begin.status != 303 || page.status != 200 || ticket == nil {
		p.t.Fatalf("%d %s, %d %s", begin.status, begin.header.Get("Location"), page.status, page.body)
	}
	back := p.ask("POST", "/oauth/authorize", url.Values{"ticket": {ticket[1]}, "as": {as}, "code": {p.code}}.Encode())
	if back.status != 302 {
		p.t.Fatalf("%d %s", back.status, back.body)
	}
	return back.header.Get("Location")
}

// at signs a sample principal in.
func (h *host) at(t *testing.T, as string) *person {
	t.Helper()
	p := h.anybody(t)
	if got := p.ask("GET", p.begun(as, "/console"), ""); got.status != 200 || p.jar["px-console"] == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	return p
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// form reads the hidden fields of the forms of a page, those of the last one last.
func (s seen) form(pairs ...string) url.Values {
	out := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(s.body, -1) {
		out.Set(field[1], field[2])
	}
	for i := 0; i < len(pairs); i += 2 {
		out.Set(pairs[i], pairs[i+1])
	}
	return out
}

// shows holds that an answer has a status and, in its main part, texts.
func (s seen) shows(t *testing.T, what string, status int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.body, text) {
			t.Errorf("%s: %q is not in %s", what, text, s.body)
		}
	}
	if s.status != status {
		t.Errorf("%s: status %d, want %d\n%s", what, s.status, status, s.body)
	}
}

// Who is signed in is told from who is not; every answer has what guards it; a session is
// a cookie that no script reads and no other site's request brings, and it ends where it
// was ended, whoever has kept the cookie.
//
// covers: U6
func TestSigningInToTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.anybody(t)
	const deep = "/console/p/structural_team/bridge_package?lang=en"
	first := p.ask("GET", deep, "")
	first.shows(t, "nobody", 401, `href="/console/sign-in?to=%2Fconsole%2Fp%2Fstructural_team%2Fbridge_package%3Flang%3Den"`)

	back := p.begun("reviewer", deep)
	kept := p.jar["px-console-sign-in"]
	done := p.ask("GET", back, "", "Sec-Fetch-Site", "cross-site")
	// The page goes on by itself to where the person wanted to go.
	done.shows(t, "signed in", 200, `<meta http-equiv="refresh" content="0; url=/console/p/structural_team/bridge_package?lang`)
	var cookie *http.Cookie
	for _, c := range done.set {
		if c.Name == "px-console" {
			cookie = c
		}
	}
	if cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console" || cookie.MaxAge > 3600 || cookie.MaxAge < 3500 {
		t.Fatalf("%+v", cookie)
	}
	home := p.ask("GET", "/console", "")
	home.shows(t, "home", 200, "Bridge package", `signed in as <b title="`+h.URL+`|reviewer">reviewer</b>`)
	for _, page := range []seen{first, done, home, p.ask("GET", "/console/no/such/page", ""), p.ask("GET", "/console/callback", "")} {
		policy := page.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%q has no %s", policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || page.header.Get("Cache-Control") != "no-store" || page.header.Get("X-Content-Type-Options") != "nosniff" || page.header.Get("X-Frame-Options") != "DENY" ||
			page.header.Get("Referrer-Policy") != "same-origin" || page.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%v", page.header)
		}
		if strings.Contains(page.body, "eyJ") {
			t.Errorf("a token is in a page: %s", page.body)
		}
	}
	file := regexp.MustCompile(`/console/assets/console-[0-9a-f]{16}\.css`).FindString(home.body)
	if css := h.anybody(t).ask("GET", file, ""); css.status != 200 || css.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || css.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%d %v", css.status, css.header)
	}
	if head := p.ask("HEAD", "/console", ""); head.status != 200 || head.body != "" {
		t.Errorf("%d %q", head.status, head.body)
	}

	// A link on another site brings no Strict cookie: the page is asked for once more, by
	// itself. Then the browser has the cookie, or there is none.
	session := p.jar["px-console"]
	delete(p.jar, "px-console")
	p.ask("GET", "/console/plans/plan_x", "", "Sec-Fetch-Site", "cross-site").shows(t, "from elsewhere", 200, `<meta http-equiv="refresh" content="0; url=/console/plans/plan_x">`)
	p.ask("GET", "/console/plans/plan_x", "").shows(t, "then without a cookie", 401)
	p.jar["px-console"] = session

	// What came back serves once, whatever the browser has kept.
	p.ask("GET", back, "").shows(t, "once more", 400, "did not begin here")
	p.jar["px-console-sign-in"] = kept
	p.ask("GET", back, "").shows(t, "once more, with its cookie", 400, "is over")

	// Signed out is signed out, for who kept the cookie too.
	form := home.form().Encode()
	p.ask("POST", "/console/sign-out", form, "Origin", "https://evil.example").shows(t, "signed out by another page", 403)
	p.ask("GET", "/console", "").shows(t, "still signed in", 200)
	p.ask("POST", "/console/sign-out", form).shows(t, "signed out", 200, "Signed out")
	p.jar["px-console"] = session
	p.ask("GET", "/console", "").shows(t, "with the old cookie", 401)
}

// Whatever is wrong with an answer of the issuer, nobody is signed in and nobody is sent
// anywhere; and the page says what is wrong.
//
// covers: U6
func TestBadAnswersOfTheIssuerSignNobodyIn(t *testing.T) {
	t.Parallel()
	h := start(t)
	for name, c := range map[string]struct {
		change func(q url.Values, p *person)
		status int
		says   string
	}{
		"another state":       {func(q url.Values, _ *person) { q.Set("state", "x") }, 400, "another sign-in"},
		"no state":            {func(q url.Values, _ *person) { q.Del("state") }, 400, "another sign-in"},
		"no cookie":           {func(_ url.Values, p *person) { delete(p.jar, "px-console-sign-in") }, 400, "did not begin here"},
		"an empty cookie":     {func(_ url.Values, p *person) { p.jar["px-console-sign-in"] = ".." }, 400, "did not begin here"},
		"a cookie of nothing": {func(_ url.Values, p *person) { p.jar["px-console-sign-in"] = "%00" }, 400, "did not begin here"},
		"another verifier": {func(q url.Values, p *person) {
			p.jar["px-console-sign-in"] = q.Get("state") + "." + strings.Repeat("A", 52) + ".L2NvbnNvbGU"
		}, 400, "is over"},
		"no code":           {func(q url.Values, _ *person) { q.Del("code") }, 400, "has no code"},
		"a code of nothing": {func(q url.Values, _ *person) { q.Set("code", "x") }, 400, "is over"},
		"an error":          {func(q url.Values, _ *person) { q.Set("error", "access_denied") }, 403, "access was denied"},
		"an error of its own, with markup": {func(q url.Values, _ *person) {
			q.Set("error", "<script>alert(1)</script>")
			q.Set("error_description", "<b>Call +1 555 0100</b>")
		}, 403, "none of those that are known"},
		"another issuer":   {func(q url.Values, _ *person) { q.Set("iss", "https://evil.example") }, 400, "another issuer"},
		"the state twice":  {func(q url.Values, _ *person) { q["state"] = append(q["state"], q.Get("state")) }, 400, "cannot be read"},
		"an endless query": {func(q url.Values, _ *person) { q.Set("more", strings.Repeat("x", 8500)) }, 414, "too long"},
	} {
		p := h.anybody(t)
		to, err := url.Parse(p.begun("reviewer", "/console"))
		if err != nil {
			t.Fatal(err)
		}
		q := to.Query()
		c.change(q, p)
		got := p.ask("GET", "/console/callback?"+q.Encode(), "")
		got.shows(t, name, c.status, c.says)
		if p.jar["px-console"] != "" || got.header.Get("Location") != "" || strings.Contains(got.body, "http-equiv") || strings.Contains(got.body, "evil") || strings.Contains(got.body, "555") || strings.Contains(got.body, "alert(1)") {
			t.Errorf("%s: %v %s", name, got.header, got.body)
		}
	}
	// Nobody is sent to another place, by whatever address.
	for _, to := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "/console/../oauth/authorize", "/console//evil.example", "/consoleevil", "javascript:alert(1)", "/console/sign-in", "/console/callback?code=x",
		"/console\n", "/console/%5cevil", "/console?x=" + strings.Repeat("y", 2000)} {
		p := h.anybody(t)
		got := p.ask("GET", p.begun("reviewer", to), "")
		got.shows(t, to, 200, `content="0; url=/console`)
		if !strings.Contains(got.body, `url=/console">`) && to != "/console/%5cevil" || got.header.Get("Location") != "" {
			t.Errorf("%q: %s", to, got.body)
		}
	}
}

// waiting is a plan of the engineer that waits for an approval, with what its person sees.
func (h *host) waiting(t *testing.T, c caller, flow string) plan {
	t.Helper()
	return c.plan(t, c.head(t, sample, flow), m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")})
}

// decided is what the store has: the state of a plan as its row says, and whether any
// approval was written.
func (h *host) decided(t *testing.T, before dump) []string { return before.changes(h.dump(t)) }

// A person decides about exactly what he saw, once, with the checks of the door of
// reviews; and nothing else decides: no other credential, page, digest or principal.
//
// covers: U6, P6
func TestDecidingInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	engineer.create(t, sample, beam("footbridge"))
	engineer.create(t, sample, beam("overpass"))
	h.policy(t, asksForAll)
	p, other := h.waiting(t, engineer, "footbridge"), h.waiting(t, engineer, "overpass")
	reviewer := h.at(t, "reviewer")
	address := "/console/plans/" + p.PlanRef
	page := reviewer.ask("GET", address, "")
	page.shows(t, "the plan", 200, p.PlanDigest, "engineer", "<button>Approve</button>", "flow/footbridge", "/nodes/moment/inputBindings/w")
	reviewer.ask("GET", "/console", "").shows(t, "home", 200, address, "/console/plans/"+other.PlanRef)
	reviewer.ask("GET", "/console/p/structural_team/bridge_package", "").shows(t, "the Project", 200, address)
	form := page.form()

	before := h.dump(t)
	for name, c := range map[string]struct {
		as     *person
		form   url.Values
		edits  []string
		status int
		says   string
	}{
		"without a session":            {h.anybody(t), form, nil, 401, "Nothing was done"},
		"with a token for tools":       {h.anybody(t), form, []string{"Authorization", "Bearer " + h.token(t, "reviewer")}, 401, "Nothing was done"},
		"with an approving token":      {h.anybody(t), form, []string{"Authorization", "Bearer " + h.approver(t, "reviewer")}, 401, "Nothing was done"},
		"without a form token":         {reviewer, without(form, "form_token"), nil, 403, "somewhere else"},
		"with another's form token":    {reviewer, url.Values{"form_token": {session.NewKey().FormToken()}, "digest": form["digest"]}, nil, 403, "somewhere else"},
		"from another origin":          {reviewer, form, []string{"Origin", "https://evil.example"}, 403, "somewhere else"},
		"from no origin":               {reviewer, form, []string{"Origin", "null"}, 403, "somewhere else"},
		"from another port":            {reviewer, form, []string{"Origin", "http://127.0.0.1:1"}, 403, "somewhere else"},
		"from another site":            {reviewer, form, []string{"Sec-Fetch-Site", "cross-site"}, 403, "somewhere else"},
		"from a sibling":               {reviewer, form, []string{"Sec-Fetch-Site", "same-site"}, 403, "somewhere else"},
		"from something that says not": {reviewer, form, []string{"Sec-Fetch-Site", "", "Origin", ""}, 403, "somewhere else"},
		"as JSON":                      {reviewer, form, []string{"Content-Type", "application/json"}, 415, "cannot be read"},
		"as text":                      {reviewer, form, []string{"Content-Type", "text/plain"}, 415, "cannot be read"},
		"of another digest":            {reviewer, page.form("digest", other.PlanDigest), nil, 409, "not what you saw"},
		"of no digest":                 {reviewer, without(form, "digest"), nil, 400, "Nothing was decided"},
		"with two digests":             {reviewer, url.Values{"form_token": form["form_token"], "digest": {p.PlanDigest, other.PlanDigest}}, nil, 400, "cannot be read"},
		"with a comment that turns":    {reviewer, page.form("comment", "fine\u202e"), nil, 400, "Nothing was decided"},
		"with a comment too long":      {reviewer, page.form("comment", strings.Repeat("가", 2001)), nil, 400, "Nothing was decided"},
		"with a form too long":         {reviewer, page.form("comment", strings.Repeat("x", 70<<10)), nil, 413, "too long"},
	} {
		for _, verb := range []string{"approve", "reject"} {
			c.as.ask("POST", address+"/"+verb, c.form.Encode(), c.edits...).shows(t, verb+" "+name, c.status, c.says)
		}
	}
	reviewer.ask("GET", address+"/approve", "").shows(t, "by a link", 405)
	reviewer.ask("POST", "/console/plans/plan_none/approve", form.Encode()).shows(t, "what is not there", 404)
	// A cookie that a client of tools could make of its token is no session.
	for _, value := range []string{h.token(t, "reviewer"), h.approver(t, "reviewer"), "x", ""} {
		fake := h.anybody(t)
		fake.jar["px-console"] = value
		fake.ask("GET", address, "").shows(t, "a cookie of no session", 401)
		fake.jar["__Host-px-console"] = reviewer.jar["px-console"]
		delete(fake.jar, "px-console")
		fake.ask("GET", address, "").shows(t, "a cookie of another name", 401)
	}
	if changed := h.decided(t, before); len(changed) > 0 {
		t.Fatalf("the store changed: %q", changed)
	}

	// Who asked reads it, is told so, and cannot approve; who may only read finds nothing.
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "engineer", "--rights", "read,edit,run,approve")
	own := h.at(t, "engineer").ask("GET", address, "")
	own.shows(t, "who asked", 200, "You asked for this yourself")
	if strings.Contains(own.body, "<button>Approve</button>") {
		t.Error("who asked is offered to approve")
	}
	asker := h.at(t, "engineer")
	asker.ask("POST", address+"/approve", asker.ask("GET", address, "").form().Encode()).shows(t, "who asked approves", 409, "You asked for this yourself")
	viewer := h.at(t, "viewer")
	viewer.ask("GET", address, "").shows(t, "who may read", 403, "You may not do this")
	viewer.ask("GET", "/console/p/structural_team/bridge_package", "").shows(t, "the Project of who may read", 200, "You may not approve in this Project")
	stranger := h.at(t, "other")
	stranger.ask("GET", address, "").shows(t, "who may nothing", 404, "There is no such thing")
	stranger.ask("GET", "/console/p/structural_team/bridge_package", "").shows(t, "the Project of who may nothing", 404)

	// The form is good as long as the session: approved with a comment, once, and the
	// page tells the reference that the requester needs.
	got := reviewer.ask("POST", address+"/approve", page.form("comment", "fine\r\n<b>bold</b>").Encode())
	if got.status != 303 || got.header.Get("Location") != address+"#decision" {
		t.Fatalf("%d %v %s", got.status, got.header, got.body)
	}
	tabs := make([]*person, 8)
	for i := range tabs { // and then again, in eight tabs at once
		tabs[i] = &person{t, h, map[string]string{"px-console": reviewer.jar["px-console"]}, ""}
	}
	var again sync.WaitGroup
	for _, tab := range tabs {
		again.Go(func() { tab.ask("POST", address+"/approve", form.Encode()) })
	}
	again.Wait()
	if changed := h.decided(t, before); len(slices.DeleteFunc(changed, func(row string) bool { return !strings.Contains(row, "approval#") })) != 1 {
		t.Errorf("one person approved more than once: %q", changed)
	}
	page = reviewer.ask("GET", address, "")
	page.shows(t, "approved", 200, "You approved this", "fine\n&lt;b&gt;bold&lt;/b&gt;")
	ref := regexp.MustCompile(`approval_[0-9A-HJKMNP-TV-Z]{26}`).FindString(page.body)
	if again := reviewer.ask("POST", address+"/approve", form.Encode()); again.status != 303 || !strings.Contains(reviewer.ask("GET", address, "").body, ref) {
		t.Errorf("approved again: %d %s", again.status, again.body)
	}
	engineer.ok(t, "pxflow_apply_change", with(p.application("apply"), m{"approvalRef": ref}), nil)
	reviewer.ask("POST", address+"/reject", form.Encode()).shows(t, "rejected when it was applied", 409, "It was applied meanwhile")
	reviewer.ask("GET", address, "").shows(t, "applied", 200, "It was applied")
	if home := reviewer.ask("GET", "/console", ""); strings.Contains(home.body, address) {
		t.Error("what was applied still waits")
	}

	// Two tabs decide at once: what was rejected is never applied, whoever was first.
	address = "/console/plans/" + other.PlanRef
	form = reviewer.ask("GET", address, "").form()
	var wait sync.WaitGroup
	statuses := make([]int, 8)
	for i := range statuses {
		tab := &person{t, h, map[string]string{"px-console": reviewer.jar["px-console"]}, ""}
		wait.Go(func() { statuses[i] = tab.ask("POST", address+"/reject", form.Encode()).status })
	}
	wait.Wait()
	slices.Sort(statuses)
	if statuses[0] != 303 || statuses[7] != 303 { // the same no, said eight times
		t.Errorf("%v", statuses)
	}
	reviewer.ask("POST", address+"/approve", form.Encode()).shows(t, "approved when it was rejected", 409, "It was rejected meanwhile")
	reviewer.ask("GET", address, "").shows(t, "rejected", 200, "Rejected by", "It can never be applied")
	engineer.refused(t, "pxflow_apply_change", other.application("late"), "PX_PLAN_EXPIRED /planRef")
}

func without(form url.Values, name string) url.Values {
	out := url.Values{}
	for key, values := range form {
		if key != name {
			out[key] = values
		}
	}
	return out
}

// A costly Run that waits is read and approved like a plan.
//
// covers: U6
func TestACostlyRunIsApprovedInTheConsole(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	h.policy(t, asksForAll)
	request := m{"kind": "RunFlow", "target": f.Target, "commandId": "costly", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}, "reason": "as <i>drawn</i>"}
	runRef, _ := engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef").Diagnostics[0].Params["runRef"].(string)
	reviewer := h.at(t, "reviewer")
	address := "/console/plans/" + runRef
	reviewer.ask("GET", "/console", "").shows(t, "home", 200, address, "Run of flow/footbridge")
	if got := reviewer.ask("GET", "/console/runs/"+runRef, ""); got.status != 303 || got.header.Get("Location") != address {
		t.Errorf("the page of the Run that it will be: %d %v", got.status, got.header)
	}
	page := reviewer.ask("GET", address, "")
	page.shows(t, "the Run", 200, "<code>span</code></dt><dd>10 m", "4 kN/m", "as &lt;i&gt;drawn&lt;/i&gt;", "RunFlow")
	if got := reviewer.ask("POST", address+"/approve", page.form().Encode()); got.status != 303 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	ref := regexp.MustCompile(`approval_[0-9A-HJKMNP-TV-Z]{26}`).FindString(reviewer.ask("GET", address, "").body)
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", with(request, m{"approvalRef": ref}), &started)
	if started.RunRef != runRef {
		t.Errorf("the Run is %s", started.RunRef)
	}
	engineer.finished(t, runRef)
	reviewer.ask("GET", address, "").shows(t, "started", 200, `It was started: <a href="/console/runs/`+runRef+`">`)
	reviewer.ask("GET", "/console/runs/"+runRef, "").shows(t, "the Run itself", 200, runRef)
}

// A session ends with the token that it began with.
func TestAConsoleSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	h := start(t)
	reviewer := h.at(t, "reviewer")
	key, ok := session.ReadKey(reviewer.jar["px-console"])
	if !ok {
		t.Fatal(reviewer.jar)
	}
	store := h.parts(t).Store
	s, err := store.Session(t.Context(), key.ID())
	if err != nil || s.Subject != "reviewer" || s.Expires.Sub(s.Begun) > time.Hour {
		t.Fatalf("%+v, %v", s, err)
	}
	// As it will be then: a session of another key that began an hour ago.
	old := session.NewKey()
	s.ID, s.Begun, s.Expires = old.ID(), s.Begun.Add(-time.Hour), s.Expires.Add(-time.Hour)
	if err := store.BeginSession(context.WithoutCancel(t.Context()), s); err != nil {
		t.Fatal(err)
	}
	reviewer.jar["px-console"] = string(old)
	reviewer.ask("GET", "/console", "").shows(t, "an hour later", 401, "Sign in")
	// A session of a token for tools, had one ever been written, opens nothing.
	tools := session.NewKey()
	s.ID, s.Expires, s.Scopes = tools.ID(), time.Now().Add(time.Hour), []string{"px.tools"}
	if err := store.BeginSession(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	reviewer.jar["px-console"] = string(tools)
	reviewer.ask("GET", "/console", "").shows(t, "of another scope", 401)
	// What the store has of a session is nothing that signs anybody in.
	reviewer.jar["px-console"] = key.ID()
	reviewer.ask("GET", "/console", "").shows(t, "with what the store has", 401)
}
