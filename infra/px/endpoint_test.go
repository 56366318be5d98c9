package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/gateway/gatewaytest"
)

// A door is the endpoint with its issuer, as a person meets them: real tokens,
// real verifier, real dispatcher, and tools that a test gives.
type door struct {
	url   string
	state string
	key   *oidc.Key
	clock atomic.Int64 // seconds that the endpoint is ahead
	hits  atomic.Int32
	// front may answer instead of the endpoint.
	front func(w http.ResponseWriter, r *http.Request) bool
}

func openDoor(t *testing.T, call wire.Call) *door {
	t.Helper()
	return openDoorOf(t, `[{"name":"pxflow_describe"}]`, call)
}

// openDoorOf opens a door with the tools of a catalog.
func openDoorOf(t *testing.T, catalog string, call wire.Call) *door {
	t.Helper()
	d := &door{state: t.TempDir()}
	dir, err := statedir.Open(d.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	if d.key, err = oidc.Open(dir); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.front == nil || !d.front(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	d.url = server.URL
	verifier, err := identity.New(identity.Config{Issuer: d.url, Audience: oidc.Audience, Now: func() time.Time {
		return time.Now().Add(time.Duration(d.clock.Load()) * time.Second)
	}})
	if err != nil {
		t.Fatal(err)
	}
	dispatcher, err := wire.New(wire.Config{Catalog: []byte(catalog), Call: call})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := gatewaytest.Handler(gateway.New(gateway.Config{Verifier: verifier, Dispatcher: dispatcher, Log: slog.New(slog.DiscardHandler)}))
	mux.Handle("/", d.key.Handler(d.url))
	mux.HandleFunc(gateway.Path, func(w http.ResponseWriter, r *http.Request) {
		d.hits.Add(1)
		endpoint.ServeHTTP(w, r)
	})
	if err := dir.WriteHost(statedir.Host{URL: d.url}); err != nil {
		t.Fatal(err)
	}
	return d
}

// px runs a command line.
func (d *door) px(t *testing.T, in io.Reader, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := &environment{in: in, out: &stdout, err: &stderr, lookup: func(name string) (string, bool) {
		value, ok := map[string]string{"PX_STATE": d.state}[name]
		return value, ok
	}}
	code = run(t.Context(), args, env)
	return code, stdout.String(), stderr.String()
}

func (d *door) post(t *testing.T, body string) string {
	t.Helper()
	token, err := d.key.Token(d.url, "engineer", oidc.ScopeTools, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+gateway.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", ndjson)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// echo answers with who asked what; {"fail":true} is refused, as a business.
func echo(_ context.Context, request tool.Request) ([]byte, error) {
	if bytes.Contains(request.Arguments, []byte(`"fail"`)) {
		return []byte(`{"ok":false,"data":null,"diagnostics":[{"code":"PX_TARGET_NOT_FOUND"}],"resources":[]}`), nil
	}
	return fmt.Appendf(nil, `{"ok":true,"data":{"who":%q,"arguments":%s},"diagnostics":[],"resources":[]}`, request.Principal.Subject, request.Arguments), nil
}

const describe = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"pxflow_describe","arguments":%s}}` + "\n"

// covers: W8
func TestStdioGivesTheBytesOfHTTP(t *testing.T) {
	d := openDoor(t, echo)
	lines := []string{
		fmt.Sprintf(describe, "9007199254740993", `{"a": [1.0,-0,1e400,"\u00e9"]}`),
		fmt.Sprintf(describe, `"\u0041"`, `{"fail":1}`),
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}` + "\r\n",
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n",
		"\n", " \t\r\n",
		`{"jsonrpc":"2.0","id":1,"meth` + "\n",
		`{"jsonrpc":"2.0","id":{},"method":"tools/list"}` + "\n",
		`{"jsonrpc":"2.0","id":2,"method":"initialize"}` + "\n",
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xff\"}\n",
		fmt.Sprintf(describe, "4", "[]"),
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nope"}}` + "\n",
		`[]` + "\n",
		`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`, // no line end at the end
	}
	body := strings.Join(lines, "")
	code, out, errs := d.px(t, strings.NewReader(body), "stdio")
	if want := d.post(t, body); code != 0 || errs != "" || out != want {
		t.Errorf("%d %s\n got %s\nwant %s", code, errs, out, want)
	}
	if strings.Count(out, "\n") != 11 {
		t.Errorf("%d lines", strings.Count(out, "\n"))
	}
}

// A request has 64 lines at most; a stream has as many as there are.
// covers: W8
func TestStdioHasNoEnd(t *testing.T) {
	d := openDoor(t, func(ctx context.Context, request tool.Request) ([]byte, error) {
		if bytes.Contains(request.Arguments, []byte("7")) {
			time.Sleep(5 * time.Millisecond) // some are slower than those behind them
		}
		return echo(ctx, request)
	})
	in, feed := io.Pipe()
	go func() {
		defer feed.Close()
		for i := range 300 {
			fmt.Fprintf(feed, describe, fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		}
	}()
	code, out, errs := d.px(t, in, "stdio", "--as", "viewer")
	lines := strings.SplitAfter(out, "\n")
	if code != 0 || errs != "" || len(lines) != 301 {
		t.Fatalf("%d %s, %d lines", code, errs, len(lines))
	}
	for i, line := range lines[:300] {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result"`, i)) || !strings.Contains(line, fmt.Sprintf(`{"who":"viewer","arguments":{"n":%d}}`, i)) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
}

// covers: W6, W8
func TestStdioRefusesALongLineItself(t *testing.T) {
	d := openDoor(t, echo)
	in := strings.Repeat("x", wire.MaxLine+1) + "\n" + fmt.Sprintf(describe, "1", "{}")
	code, out, _ := d.px(t, strings.NewReader(in), "stdio")
	if want := d.post(t, in); code != 0 || out != want {
		t.Errorf("%d\n got %.300s\nwant %.300s", code, out, want)
	}
}

func TestStdioMakesANewTokenWhenTheOldOneEnds(t *testing.T) {
	d := openDoor(t, echo)
	var first atomic.Bool
	d.front = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == gateway.Path && first.CompareAndSwap(false, true) {
			http.Error(w, `{"error":"token_expired"}`, http.StatusUnauthorized)
			return true
		}
		return false
	}
	code, out, errs := d.px(t, strings.NewReader(fmt.Sprintf(describe, "1", "{}")), "stdio")
	if code != 0 || errs != "" || !strings.Contains(out, `"who":"engineer"`) || d.hits.Load() != 1 {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

func failureOf(id, message string, retryable bool, reason, outcome string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q,"data":{"retryable":%v,"reason":%q,"outcome":%q}}}`+"\n", id, message, retryable, reason, outcome)
}

// covers: W5, W8
func TestStdioAnswersWhenTheEndpointDoesNot(t *testing.T) {
	answer := func(status int, kind, body string) func(*door) {
		return func(d *door) {
			d.front = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return true
			}
		}
	}
	late := failureOf(`"a"`, "the tool did not answer in time", true, "tool_timeout", "unknown")
	broken := failureOf(`"a"`, "the endpoint failed", true, "endpoint_failed", "unknown")
	refused := failureOf(`"a"`, "the endpoint refuses the token", false, "token_refused", "not_started")
	for _, c := range []struct {
		name string
		make func(*door)
		want string
	}{
		{"API Gateway gives up", answer(503, "application/json", `{"message":"Service Unavailable"}`), late},
		{"the endpoint's Lambda fails", answer(500, "application/json", `{"message":"Internal Server Error"}`), broken},
		{"throttling", answer(429, "application/json", `{"message":"Too Many Requests"}`), failureOf(`"a"`, "too many calls at the moment", true, "tool_throttled", "not_started")},
		{"a token that is refused", answer(401, "application/json", `{"error":"token_expired"}`), refused},
		{"a scope that is missing", answer(403, "application/json", `{"error":"scope_missing"}`), refused},
		{"a request that is refused", answer(400, "application/json", `{"error":"no"}`), failureOf(`"a"`, "the endpoint failed", false, "endpoint_failed", "not_started")},
		{"another server", answer(200, "text/html", "<html>\n"), broken},
		{"two lines for one", answer(200, ndjson, "{}\n{}\n"), broken},
		{"half a line", answer(200, ndjson, "{"), broken},
		{"a redirect", func(d *door) {
			d.front = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
				return true
			}
		}, broken},
		{"a broken connection", func(d *door) {
			d.front = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
		}, failureOf(`"a"`, "the tool could not be reached", true, "tool_unreachable", "unknown")},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openDoor(t, echo)
			c.make(d)
			in := fmt.Sprintf(describe, `"a"`, "{}") + `{"jsonrpc":"2.0","method":"x"}` + "\n[]\n"
			const array = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is a JSON object; batches are lines, not arrays"}}` + "\n"
			code, out, errs := d.px(t, strings.NewReader(in), "stdio")
			if code != 0 || out != c.want+array || !strings.HasPrefix(errs, "px stdio: ") || strings.Count(errs, "\n") != 1 {
				t.Errorf("%d\n got %s\nwant %s\ntold %s", code, out, c.want+array, errs)
			}
		})
	}
}

func TestCall(t *testing.T) {
	d := openDoor(t, func(ctx context.Context, request tool.Request) ([]byte, error) {
		if bytes.Contains(request.Arguments, []byte("crash")) {
			return nil, &wire.Failure{Reason: wire.ReasonCrashed, Retryable: true, Outcome: wire.Unknown}
		}
		return echo(ctx, request)
	})
	const ok = `{"ok":true,"data":{"who":"engineer","arguments":{"a":1e400}},"diagnostics":[],"resources":[]}` + "\n"
	indented := "{\n  \"ok\": true,\n  \"data\": {\n    \"who\": \"other\",\n    \"arguments\": {}\n  },\n  \"diagnostics\": [],\n  \"resources\": []\n}\n"
	for _, c := range []struct {
		name      string
		in        string
		args      []string
		code      int
		out, errs string
	}{
		{"exact bytes", "", []string{"call", "--json", "pxflow_describe", `{"a":1e400}`}, 0, ok, ""},
		{"flags behind the tool", "", []string{"call", "pxflow_describe", `{ "a" : 1e400 }`, "--json"}, 0, ok, ""},
		{"arguments from standard input, on many lines", "{\n\"a\":\r\n1e400}\n", []string{"call", "pxflow_describe", "-", "--json"}, 0, ok, ""},
		{"indented for a person, without arguments", "", []string{"call", "pxflow_describe", "--as=other"}, 0, indented, ""},
		{"a refusal", "", []string{"call", "pxflow_describe", `{"fail":1}`, "--json"}, 1, `{"ok":false,"data":null,"diagnostics":[{"code":"PX_TARGET_NOT_FOUND"}],"resources":[]}` + "\n", ""},
		{"a crash", "", []string{"call", "pxflow_describe", `{"x":"crash"}`}, 3, "", `px call: error -32603: the tool ended without an answer {"retryable":true,"reason":"tool_crashed","outcome":"unknown"}`},
		{"an unknown tool", "", []string{"call", "nope"}, 2, "", "px call: error -32602: there is no such tool\n  the tools are project_search, report_search, "},
		{"a tool that is spelled otherwise", "", []string{"call", "pxflow_serch"}, 2, "", "px call: error -32602: there is no such tool\n  did you mean pxflow_search"},
		{"a broken line of many", "", []string{"call", "pxflow_describe", "{\n  \"거\": secret"}, 2, "", "px call: the arguments are not strict JSON at byte 11: malformed: line 2, column 8\n"},
		{"arguments that are no object", "", []string{"call", "pxflow_describe", "[]"}, 2, "", "px call: error -32602: arguments must be an object"},
		{"arguments that are no JSON", "", []string{"call", "pxflow_describe", `{"a":1,"a":2}`}, 2, "", "px call: the arguments are not strict JSON at byte 7: duplicate name"},
		{"arguments that end the line early", "", []string{"call", "pxflow_describe", "{}}\n{"}, 2, "", "px call: the arguments are not strict JSON at byte 2: trailing data"},
		{"no tool", "", []string{"call"}, 2, "", "px call: one tool and at most one JSON object of arguments are taken; px call --list prints the tools"},
		{"too much", "", []string{"call", "a", "{}", "{}"}, 2, "", "px call: one tool and at most one JSON object of arguments are taken"},
		{"nobody's sample principal", "", []string{"call", "pxflow_describe", "--as", "root"}, 2, "", "px call: --as takes one of"},
		{"a token that is refused", "", []string{"call", "pxflow_describe", "--token", "a.b.c"}, 4, "", `px call: token_refused: HTTP status 401: {"error":"token_malformed"}; give another token by PX_TOKEN`},
		{"no state", "", []string{"call", "pxflow_describe", "--state", "/nonexistent"}, 4, "", "px call: /nonexistent: "},
		{"an address without a scheme", "", []string{"call", "pxflow_describe", "--url", "localhost:8787"}, 2, "", "px call: --url (or PX_URL) is the address of a host, such as http://127.0.0.1:8787"},
		{"an address without a host", "", []string{"call", "pxflow_describe", "--url", "http://"}, 2, "", "px call: --url (or PX_URL) is the address of a host"},
		{"a Report without a connection", "", []string{"run", "report/girder_review", "--project", "a/b"}, 2, "", "px run: of a Report, one connection is run: give --connection KEY"},
		{"nobody listens", "", []string{"call", "pxflow_describe", "--url", "http://127.0.0.1:1"}, 4, "", "px call: tool_unreachable: Post \"http://127.0.0.1:1/v1/mcp\": dial tcp 127.0.0.1:1: connect: connection refused; start px local, or name another host with --url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := d.px(t, strings.NewReader(c.in), c.args...)
			if code != c.code || out != c.out || !strings.HasPrefix(errs, c.errs) || (errs == "") != (c.errs == "") {
				t.Errorf("%d, want %d\n got %s\nwant %s\n got %s\nwant %s", code, c.code, out, c.out, errs, c.errs)
			}
		})
	}
}
