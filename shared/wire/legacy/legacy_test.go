package legacy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/gateway/gatewaytest"
	"github.com/pxhost/pxhost/shared/wire/legacy"
)

// tokens accepts "old" and "new" as tokens of those subjects.
type tokens struct{}

func (tokens) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	switch name, bearer := strings.CutPrefix(authorization, "Bearer "); {
	case bearer && (name == "old" || name == "new"):
		return identity.Token{Issuer: "https://issuer", Subject: name, Scopes: []string{scope}}, nil
	case authorization == "Bearer down":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonUnavailable, Cause: errors.New("the cause")}
	case authorization == "":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMissing}
	}
	return identity.Token{}, &identity.Error{Reason: identity.ReasonExpired}
}

const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"project.search","arguments":{"projectId":"p"}}}`

type old struct {
	events [][]byte
	answer func() ([]byte, error)
}

func (o *old) call(_ context.Context, event []byte) ([]byte, error) {
	o.events = append(o.events, event)
	if o.answer != nil {
		return o.answer()
	}
	return []byte(`{"statusCode":200,"headers":{"Content-Type":"application/json","Set-Cookie":"a=b","Strict-Transport-Security":"x"},"cookies":["c=d"],"body":"{\"old\":true}"}`), nil
}

func proxy(o *old, log io.Writer, cohort ...string) *legacy.Proxy {
	return legacy.New(legacy.Config{Verifier: tokens{}, Call: o.call, Cohort: cohort, Log: slog.New(slog.NewJSONHandler(log, nil))})
}

type request struct{ method, path, token, kind, encoding, body string }

func ask(t *testing.T, handler gatewaytest.Invoker, r request) (int, http.Header, string) {
	t.Helper()
	server := httptest.NewServer(gatewaytest.Handler(handler))
	defer server.Close()
	q, err := http.NewRequestWithContext(t.Context(), r.method, server.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	q.Header.Set("Content-Type", r.kind)
	q.Header.Set("Cookie", "session=secret")
	if r.encoding != "" {
		q.Header.Set("Content-Encoding", r.encoding)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

// Whatever the formal endpoint refuses around messages and of their form, the proxy
// refuses too, and forwards nothing of it.
//
// covers: L3
func TestTheProxyIsNoLaxerThanTheFormalEndpoint(t *testing.T) {
	dispatcher, err := wire.New(wire.Config{Catalog: []byte(`[{"name":"pxflow_describe"}]`), Call: func(context.Context, tool.Request) ([]byte, error) {
		return []byte(`{"ok":true,"data":{},"diagnostics":[],"resources":[]}`), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	formal := gateway.New(gateway.Config{Verifier: tokens{}, Dispatcher: dispatcher, Log: slog.New(slog.DiscardHandler), Issuer: "https://issuer"})
	const lines, one = "application/x-ndjson", "application/json"
	for name, r := range map[string]request{
		"a message":               {"POST", "", "old", one, "", message},
		"lines":                   {"POST", "", "old", lines, "", message + "\n\n" + message + "\n"},
		"no token":                {"POST", "", "", one, "", message},
		"an expired token":        {"POST", "", "x", one, "", message},
		"keys that are not there": {"POST", "", "down", one, "", message},
		"GET":                     {"GET", "", "old", one, "", ""},
		"DELETE":                  {"DELETE", "", "old", one, "", ""},
		"a form":                  {"POST", "", "old", "application/x-www-form-urlencoded", "", message},
		"no content type":         {"POST", "", "old", "", "", message},
		"another charset":         {"POST", "", "old", one + "; charset=utf-16", "", message},
		"a compressed body":       {"POST", "", "old", one, "gzip", message},
		"no UTF-8 as text":        {"POST", "", "old", one, "", strings.Replace(message, "project", "\xff", 1)},
		"nothing":                 {"POST", "", "old", lines, "", ""},
		"blanks":                  {"POST", "", "old", one, "", " \n"},
		"65 lines":                {"POST", "", "old", lines, "", strings.Repeat(message+"\n", 65)},
		"a body over the limit":   {"POST", "", "old", lines, "", strings.Repeat("\n", wire.MaxBody+1)},
		"a line over the limit":   {"POST", "", "old", lines, "", `"` + strings.Repeat("a", wire.MaxLine) + `"`},
		"no JSON":                 {"POST", "", "old", one, "", "{"},
		"a name twice":            {"POST", "", "old", one, "", `{"id":1,"id":2}`},
		"a lone surrogate":        {"POST", "", "old", one, "", `{"a":"\ud800"}`},
		"too deep":                {"POST", "", "old", one, "", strings.Repeat("[", 65) + strings.Repeat("]", 65)},
		"two messages as one":     {"POST", "", "old", one, "", message + message},
		"no UTF-8 in a line":      {"POST", "", "old", lines, "", "\"\xff\""},
	} {
		var o old
		there, here := r, r
		there.path, here.path = gateway.Path, legacy.Path
		formally, _, text := ask(t, formal, there)
		status, header, body := ask(t, proxy(&o, io.Discard, "old"), here)
		// A message of a bad form is told on a line of its own there, and is a status here.
		admitted := formally == http.StatusOK && !strings.Contains(text, `"code":-32700`) && !strings.Contains(text, "longer than")
		if want := formally; admitted != (status == http.StatusOK) || formally != http.StatusOK && status != want {
			t.Errorf("%s: %d %.100s, and formally %d %.100s", name, status, body, formally, text)
		}
		if (len(o.events) == 1) != admitted {
			t.Errorf("%s: %d are forwarded", name, len(o.events))
		}
		if status == http.StatusUnauthorized && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: no challenge", name)
		}
	}
}

// Who is of the cohort is forwarded, as who was verified and without what verified it.
//
// covers: L3
func TestACohortIsForwardedAndNobodyElse(t *testing.T) {
	of := func(token string) request {
		return request{"POST", legacy.Path, token, "application/json", "", message}
	}
	for name, c := range map[string]struct {
		cohort []string
		token  string
		status int
	}{
		"of the cohort": {[]string{"other", "old"}, "old", 200}, "not of the cohort": {[]string{"old"}, "new", 403},
		"a cohort of nobody": {nil, "old", 403}, "a cohort of all": {[]string{legacy.Everyone}, "new", 200}, "a part of a name": {[]string{"older", "ol"}, "old", 403},
	} {
		var o old
		var log bytes.Buffer
		status, header, body := ask(t, proxy(&o, &log, c.cohort...), of(c.token))
		if status != c.status || (len(o.events) == 1) != (status == 200) {
			t.Errorf("%s: %d %s", name, status, body)
		}
		outcome := "refused"
		if status == 200 {
			outcome = "forwarded"
			if body != `{"old":true}` || header.Get("Set-Cookie") != "" || header.Get("Strict-Transport-Security") != "" || header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %q %v", name, body, header)
			}
			var event struct {
				Version string
				Headers map[string]string
				Cookies []string
				Body    string
				Context struct {
					Authorizer struct{ Lambda map[string]string }
				} `json:"requestContext"`
			}
			if err := json.Unmarshal(o.events[0], &event); err != nil {
				t.Fatal(err)
			}
			if event.Version != "2.0" || event.Body != message || event.Headers["authorization"] != "" || event.Headers["cookie"] != "" || event.Cookies != nil || bytes.Contains(o.events[0], []byte("secret")) ||
				fmt.Sprint(event.Context.Authorizer.Lambda) != "map[iss:https://issuer scope:px.tools sub:"+c.token+"]" {
				t.Errorf("%s: forwarded as %s", name, o.events[0])
			}
		}
		// Telemetry is in a namespace of its own, and holds nothing that was sent.
		if !strings.Contains(log.String(), `"Namespace":"pxhost/legacy"`) || !strings.Contains(log.String(), `"outcome":"`+outcome+`"`) || strings.Contains(log.String(), `"Namespace":"pxhost"`) ||
			strings.Contains(log.String(), "project.search") {
			t.Errorf("%s: told as %s", name, log.String())
		}
	}
	var o old
	if status, _, _ := ask(t, proxy(&o, io.Discard, "old"), request{"POST", gateway.Path, "old", "application/json", "", message}); status != 404 || o.events != nil {
		t.Errorf("what came by the formal route is %d", status)
	}
}

// A legacy endpoint that fails, or answers what is no answer, is told as that and is not
// asked again.
//
// covers: L3
func TestALegacyEndpointThatFailsIsNotAskedAgain(t *testing.T) {
	for name, answer := range map[string]func() ([]byte, error){
		"a failure": func() ([]byte, error) { return nil, errors.New("failed with p") },
		"no JSON":   func() ([]byte, error) { return []byte(`{`), nil }, "no status": func() ([]byte, error) { return []byte(`{"body":"x"}`), nil },
		"a status that is none": func() ([]byte, error) { return []byte(`{"statusCode":99,"body":"x"}`), nil },
		"bytes":                 func() ([]byte, error) { return []byte(`{"statusCode":200,"isBase64Encoded":true,"body":"eA=="}`), nil },
	} {
		o := old{answer: answer}
		var log bytes.Buffer
		status, _, body := ask(t, proxy(&o, &log, "*"), request{"POST", legacy.Path, "old", "application/json", "", message})
		if status != 502 || body != `{"error":"legacy_endpoint_failed"}`+"\n" || len(o.events) != 1 || !strings.Contains(log.String(), `"outcome":"failed"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// Whatever an endpoint answers, the proxy answers, and whatever an event holds, no
// credential of it goes on.
func FuzzProxy(f *testing.F) {
	f.Add([]byte(`{"statusCode":200,"headers":{"Content-Type":"text/plain"},"body":"x"}`), "authorization", "x")
	f.Add([]byte(`{"statusCode":1e3}`), "Cookie", "a=b")
	f.Add([]byte(`[]`), "", "")
	f.Fuzz(func(t *testing.T, answer []byte, header, value string) {
		event, err := json.Marshal(map[string]any{"routeKey": "POST " + legacy.Path, "rawPath": legacy.Path, "body": message, "cookies": []string{"session=secret"},
			"headers":        map[string]string{header: value, "authorization": "Bearer old", "Cookie": "secret", "content-type": "application/json"},
			"requestContext": map[string]any{"http": map[string]any{"method": "POST"}, "authorizer": map[string]any{"lambda": map[string]any{"sub": "forged"}}}})
		if err != nil {
			t.Fatal(err)
		}
		o := old{answer: func() ([]byte, error) { return answer, nil }}
		out, err := proxy(&o, io.Discard, "*").Invoke(t.Context(), event)
		if err == nil && !json.Valid(out) {
			t.Errorf("%s", out)
		}
		for _, e := range o.events {
			if bytes.Contains(e, []byte("Bearer old")) || bytes.Contains(e, []byte("secret")) && !strings.Contains(value+header, "secret") || bytes.Contains(e, []byte("forged")) && !strings.Contains(value+header, "forged") {
				t.Errorf("forwarded as %s", e)
			}
		}
	})
}
