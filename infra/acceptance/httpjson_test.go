package acceptance

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The original's two examples, from a token of a person to the bytes that leave: real
// functions, sealed credentials, TLS.
//
// covers: A3, A4, A5, A6, C2
func TestTheExamplesOfHTTPJSONOverTheWire(t *testing.T) {
	w := startWorld(t, nil)
	w.install(plugin(list{connectorTo("notes_api", notesHost, "/v1/notes", m{"auth": m{"kind": "bearer"}})}, list{
		skill("notes.ask", 10, m{"adapter": "http_json", "connector_id": "notes_api", "method": "POST", "request_body": m{"query": "{query}"},
			"response": m{"summary_path": "message", "data_path": "data"}}),
		skill("notes.repositories", 10, m{"adapter": "http_json", "endpoint": "https://api.github.com/search/repositories?per_page=2&sort=stars", "method": "GET",
			"request_params": m{"q": "{query}", "page": "{arguments.page}"},
			"response":       m{"collection_path": "items", "id_path": "id", "title_paths": list{"full_name"}, "url_path": "html_url", "content_paths": list{"description"}, "max_items": 2, "summary_prefix": "저장소 검색"}}),
	}))
	if e := w.call("notes.ask", m{"query": "거더"}, ""); e.code() != "EXTENSION_CONNECTION_REQUIRED" || len(w.taken(notesHost+"/v1/notes")) != 0 {
		t.Error(e.body)
	}
	w.connect("notes_api", m{"token": "s3cret-token"})
	w.on(notesHost+"/v1/notes", says(200, `{"message":"찾았습니다","data":{"n":1}}`))
	e := w.call("notes.ask", m{"query": "거더"}, "ask")
	if e.status != 200 || e.State != "succeeded" || e.Result.Summary != "찾았습니다" || string(e.Result.Data) != `{"n":1}` {
		t.Error(e.status, e.body)
	}
	again := w.call("notes.ask", m{"query": "거더"}, "ask")
	got := w.taken(notesHost + "/v1/notes")
	if again.ExecutionID != e.ExecutionID || len(got) != 1 {
		t.Fatalf("one key, %d requests: %s", len(got), again.body)
	}
	if q := got[0]; q.method != "POST" || q.uri != "/v1/notes" || q.body != `{"query":"거더"}` || q.header.Get("Authorization") != "Bearer s3cret-token" || q.header.Get("Content-Type") != "application/json" || q.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("%+v", q)
	}
	w.on(githubHost+"/search/repositories", says(200, `{"items":[{"id":7,"full_name":"a/b","html_url":"https://github.com/a/b","description":"d"},{"id":8,"full_name":"c/d","html_url":"https://github.com/c/d","description":null},{"id":9,"full_name":"e/f"}]}`))
	e = w.call("notes.repositories", m{"query": "go & gvisor", "page": 0}, "")
	if e.State != "succeeded" || e.Result.Summary != "저장소 검색 (2)" || !strings.Contains(string(e.Result.Data), `"title":"a/b"`) {
		t.Error(e.status, e.body)
	}
	if got := w.taken(githubHost + "/search/repositories"); len(got) != 1 || got[0].uri != "/search/repositories?per_page=2&sort=stars&page=0&q=go+%26+gvisor" || got[0].header.Get("Authorization") != "" {
		t.Errorf("%+v", got)
	}
	// A rotated secret is the next call's; what the service refuses asks for another.
	id, _ := w.connect("notes_api", m{"token": "s3cret-token"})
	if status, _, e := w.decide(t, w.person("engineer"), "POST", "/v1/connections/"+id+"/rotate", `{"secret":{"token":"s3cret-second"}}`); status != 200 {
		t.Error(status, e)
	}
	w.call("notes.ask", m{"query": "거더"}, "")
	if got := w.taken(notesHost + "/v1/notes"); len(got) != 1 || got[0].header.Get("Authorization") != "Bearer s3cret-second" {
		t.Errorf("%+v", got)
	}
	// It is opened again by a host that starts anew, with the key that was kept.
	w.stop(t)
	w.host = startAt(t, w.dir, w.site)
	w.call("notes.ask", m{"query": "거더"}, "")
	if got := w.taken(notesHost + "/v1/notes"); len(got) != 1 || got[0].header.Get("Authorization") != "Bearer s3cret-second" {
		t.Errorf("%+v", got)
	}
	w.on(notesHost+"/v1/notes", says(401, `{"message":"s3cret"}`))
	for range 2 {
		if e = w.call("notes.ask", m{"query": "거더"}, ""); e.code() != "EXTENSION_CONNECTION_REQUIRED" {
			t.Error(e.body)
		}
	}
	if n := len(w.taken(notesHost + "/v1/notes")); n != 1 {
		t.Errorf("a refused token was sent %d times", n)
	}
	w.silent("s3cret", e)
	for key, text := range w.dump(t) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("a secret stands in %s", key)
		}
	}
}

// Of many processes that find no token, one gets it, and all use that one: some services
// take a renewal for a theft that comes twice.
//
// covers: C5
func TestOneOfManyProcessesGetsAToken(t *testing.T) {
	w := startWorld(t, nil)
	oauth := m{"kind": "oauth2", "grant": "client_credentials", "token_url": "https://" + authHost + "/token", "scopes": list{"read"}}
	w.install(plugin(list{connectorTo("api", notesHost, "/v1/notes", m{"auth": oauth})}, list{skill("t.get", 30, m{"adapter": "http_json", "connector_id": "api", "method": "GET"})}))
	w.connect("api", m{"clientId": "app", "clientSecret": "s3cret-client"})
	var asked atomic.Int32
	w.on(authHost+"/token", func(out http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		time.Sleep(time.Second) // so that the others come meanwhile
		says(200, fmt.Sprintf(`{"access_token":"s3cret-%d","token_type":"Bearer","expires_in":3600}`, n))(out, r)
	})
	w.on(notesHost+"/v1/notes", says(200, `{"message":"s"}`))
	w.token(t, "engineer")
	var all sync.WaitGroup
	answers := make([]executed, 6)
	for i := range answers {
		all.Go(func() { answers[i] = w.call("t.get", m{"query": "x"}, fmt.Sprint("at once ", i)) })
	}
	all.Wait()
	for _, e := range answers {
		if e.State != "succeeded" {
			t.Error(e.body)
		}
	}
	got := w.taken(notesHost + "/v1/notes")
	for _, s := range got {
		if s.header.Get("Authorization") != "Bearer s3cret-1" {
			t.Errorf("%+v", s)
		}
	}
	if asked.Load() != 1 || len(got) != len(answers) {
		t.Errorf("%d tokens were asked for, for %d requests", asked.Load(), len(got))
	}
	w.silent("s3cret", answers...)
}

// What is wrong with a service, a network or an answer is told by its own code at the
// outermost door, and is tried again only where the connector says so and nothing can
// have happened.
//
// covers: A3, A9, C5, C6
func TestHowACallOutsideFailsOverTheWire(t *testing.T) {
	w := startWorld(t, map[string][]string{
		"inside.notes-test.com":   {"127.0.0.1"},
		"metadata.notes-test.com": {"169.254.169.254"},
		"task.notes-test.com":     {"169.254.170.2"},
		"mapped.notes-test.com":   {"::ffff:169.254.169.254"},
		"nat64.notes-test.com":    {"64:ff9b::7f00:1"},
		"loop6.notes-test.com":    {"::1"},
		"rebound.notes-test.com":  {"203.0.113.7", "127.0.0.1"},
	})
	response := m{"response": m{"summary_path": "message"}}
	runtime := func(connector, method string) m {
		out := m{"adapter": "http_json", "connector_id": connector, "method": method, "response": response["response"]}
		if method == "GET" {
			out["request_params"] = m{}
		}
		return out
	}
	connectors := list{connectorTo("patient", notesHost, "/patient", patient), connectorTo("once", notesHost, "/once"), connectorTo("some", notesHost, "/some", m{"retry": m{"max_attempts": 2, "on": list{503}, "backoff_ms": 0}}),
		connectorTo("closed", closedHost, "/", patient), connectorTo("stranger", strangerHost, "/", patient)}
	capabilities := list{skill("t.get", 10, runtime("patient", "GET")), skill("t.post", 10, runtime("patient", "POST")), skill("t.once", 10, runtime("once", "GET")), skill("t.some", 10, runtime("some", "POST")),
		skill("t.short", 1, runtime("patient", "GET")), skill("t.shortpost", 1, runtime("patient", "POST")), skill("t.closed", 10, runtime("closed", "POST")), skill("t.stranger", 10, runtime("stranger", "POST"))}
	for _, name := range []string{"inside", "metadata", "task", "mapped", "nat64", "loop6", "rebound", "nowhere"} {
		connectors = append(connectors, connectorTo(name, name+".notes-test.com", "/", patient))
		capabilities = append(capabilities, skill("t."+name, 10, runtime(name, "POST")))
	}
	w.install(plugin(connectors, capabilities))

	cut := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				io.WriteString(conn, text)
				conn.Close()
			}
		}
	}
	flood := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		part := []byte(strings.Repeat(" ", 64<<10))
		for range (100 << 20) / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		part := make([]byte, 1<<20)
		for range 100 {
			if _, err := z.Write(part); err != nil {
				return
			}
		}
		z.Close()
	}
	trickle := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
	hang := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}
	const (
		retryable = "EXTENSION_NETWORK_RETRYABLE"
		invalid   = "EXTENSION_RESPONSE_INVALID"
		unknown   = "EXTENSION_OUTCOME_UNKNOWN"
		denied    = "EXTENSION_PERMISSION_DENIED"
	)
	for _, c := range []struct {
		name, capability string
		answer           http.HandlerFunc
		code             string
		param            string // of the failure, as name=value
		calls            int
	}{
		{"429 for ever", "t.post", says(429, `{"message":"s3cret"}`), retryable, "status=429", 3},
		{"503 for ever", "t.get", says(503, ``), retryable, "status=503", 3},
		{"503, declared alone", "t.some", says(503, ``), retryable, "status=503", 2},
		{"429, not declared", "t.some", says(429, ``), retryable, "status=429", 1},
		{"503 without a policy", "t.once", says(503, ``), retryable, "status=503", 1},
		{"503 that asks for more time than there is", "t.post", says(503, ``, "Retry-After", "3600"), retryable, "status=503", 1},
		{"502 of a GET", "t.get", says(502, ``), retryable, "status=502", 3},
		{"502 of a POST", "t.post", says(502, ``), unknown, "status=502", 1},
		{"504 of a POST", "t.post", says(504, ``), unknown, "status=504", 1},
		{"500 of a GET", "t.get", says(500, ``), invalid, "status=500", 1},
		{"a redirect to this machine", "t.get", says(302, ``, "Location", "https://127.0.0.1/s3cret"), invalid, "status=302", 1},
		{"a redirect to another service", "t.post", says(307, ``, "Location", "https://"+githubHost+"/s3cret"), invalid, "status=307", 1},
		{"no answer to a POST", "t.post", cut(""), unknown, "", 1},
		{"no answer to a GET", "t.get", cut(""), retryable, "", 3},
		{"half an answer to a POST", "t.post", cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"), unknown, "", 1},
		{"half an answer to a GET", "t.get", cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"), retryable, "", 3},
		{"100 MB to a GET", "t.get", flood, invalid, "rule=too_large", 1},
		{"100 MB to a POST", "t.post", flood, unknown, "", 1},
		{"a gzip bomb", "t.get", bomb, invalid, "rule=encoded", 1},
		{"a body that trickles", "t.short", trickle, "EXTENSION_TIMEOUT", "", 1},
		{"an answer that never comes", "t.short", hang, "EXTENSION_TIMEOUT", "", 1},
		{"an answer to a POST that never comes", "t.shortpost", hang, unknown, "", 1},
		{"a page", "t.get", says(200, `<s3cret>`, "Content-Type", "text/html"), invalid, "rule=content_type", 1},
		{"no content type", "t.get", says(200, `{"message":"s3cret"}`, "Content-Type", ";"), invalid, "rule=content_type", 1},
		{"invalid UTF-8", "t.get", says(200, "{\"message\":\"\xff s3cret\"}"), invalid, "rule=json", 1},
		{"a name twice", "t.get", says(200, `{"message":"s3cret","message":"b"}`), invalid, "rule=json", 1},
		{"another answer", "t.get", says(200, `{"text":"s3cret"}`), invalid, "place=summary_path", 1},
		{"nobody listens", "t.closed", nil, retryable, "", 0},
		{"nobody vouches for it", "t.stranger", nil, invalid, "rule=untrusted", 0},
		{"a name of this machine", "t.inside", nil, denied, "rule=not_public", 0},
		{"a name of the metadata service", "t.metadata", nil, denied, "rule=not_public", 0},
		{"a name of a task's credentials", "t.task", nil, denied, "rule=not_public", 0},
		{"an IPv4 address in IPv6", "t.mapped", nil, denied, "rule=not_public", 0},
		{"an address behind NAT64", "t.nat64", nil, denied, "rule=not_public", 0},
		{"a loopback of IPv6", "t.loop6", nil, denied, "rule=not_public", 0},
		{"a name that resolves to another address the second time", "t.rebound", nil, denied, "rule=not_public", 0},
		{"the same again", "t.rebound", nil, denied, "rule=not_public", 0},
		{"a name that resolves to nothing", "t.nowhere", nil, retryable, "", 0},
	} {
		paths := []string{notesHost + "/patient", notesHost + "/once", notesHost + "/some"}
		for _, path := range paths {
			w.taken(path)
			if c.answer != nil {
				w.on(path, c.answer)
			}
		}
		began := time.Now()
		e := w.call(c.capability, m{"query": "s3cret"}, "")
		calls := 0
		for _, path := range paths {
			calls += len(w.taken(path))
		}
		told := fmt.Sprint(e.Failure.Params)
		if e.code() != c.code || calls != c.calls || c.param != "" && !strings.Contains(told, strings.Replace(c.param, "=", ":", 1)) {
			t.Errorf("%s: %s with %s after %d calls, want %s with %s after %d (%s)", c.name, e.code(), told, calls, c.code, c.param, c.calls, e.body)
		}
		if unknown := e.State == "outcome_unknown"; unknown != (c.code == "EXTENSION_OUTCOME_UNKNOWN") {
			t.Errorf("%s: the state is %s", c.name, e.State)
		}
		if e.Failure.Retryable != slices.Contains([]string{retryable, "EXTENSION_TIMEOUT"}, c.code) {
			t.Errorf("%s: retryable %v", c.name, e.Failure.Retryable)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %v", c.name, took)
		}
		w.silent("s3cret", e)
	}

	// A service that asks for a second is left alone for one, and then it is well.
	asked, began := 0, time.Time{}
	w.on(notesHost+"/patient", func(out http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			began = time.Now()
			says(429, ``, "Retry-After", "1")(out, r)
			return
		}
		says(200, `{"message":"s"}`)(out, r)
	})
	if e := w.call("t.post", m{}, ""); e.State != "succeeded" || asked != 2 || time.Since(began) < time.Second {
		t.Error(e.body, asked, time.Since(began))
	}
}
