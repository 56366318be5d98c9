package gateway_test

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
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/gateway/gatewaytest"
)

// tokens accepts three words as tokens.
type tokens struct{}

func (tokens) Verify(_ context.Context, authorization, scope string) (identity.Token, error) {
	switch authorization {
	case "Bearer engineer":
		return identity.Token{Issuer: "https://issuer", Subject: "engineer", Scopes: []string{scope}}, nil
	case "Bearer broken":
		return identity.Token{}, errors.New("not an identity error")
	case "Bearer down":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonUnavailable, Cause: errors.New("the cause")}
	case "":
		return identity.Token{}, &identity.Error{Reason: identity.ReasonMissing}
	}
	return identity.Token{}, &identity.Error{Reason: identity.ReasonExpired}
}

func handler(t testing.TB, call wire.Call) *gateway.Handler {
	t.Helper()
	dispatcher, err := wire.New(wire.Config{Catalog: []byte(`[{"name":"pxflow_describe"}]`), Call: call})
	if err != nil {
		t.Fatal(err)
	}
	standard, err := wire.NewStandard(dispatcher.Toolset(nil), "1", "Begin.")
	if err != nil {
		t.Fatal(err)
	}
	return gateway.New(gateway.Config{Verifier: tokens{}, Dispatcher: dispatcher, Standard: standard, Log: slog.New(slog.DiscardHandler),
		Issuer: "https://issuer", Origins: []string{"https://app.example.com"}})
}

func echo(_ context.Context, request tool.Request) ([]byte, error) {
	return fmt.Appendf(nil, `{"ok":true,"data":{"who":%q,"text":"<&>\u2028 é \\"},"diagnostics":[],"resources":[]}`, request.Principal.String()), nil
}

const (
	call   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_describe"}}`
	answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"ok":true,"data":{"who":"https://issuer|engineer","text":"<&>\u2028 é \\"},"diagnostics":[],"resources":[]},"isError":false}}` + "\n"
	parse  = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not strict JSON at byte `
)

// covers: W8
func TestHTTP(t *testing.T) {
	server := httptest.NewServer(gatewaytest.Handler(handler(t, echo)))
	defer server.Close()
	pretty := strings.NewReplacer(`{`, "{\n", `,`, ",\r\n").Replace(call)
	problem := func(reason string) string { return `{"error":"` + reason + `"}` + "\n" }
	const unsupported = "send application/x-ndjson or application/json"
	for _, c := range []struct {
		name, method, path, token, kind, body string
		status                                int
		want                                  string
	}{
		{"lines", "POST", "/v1/mcp", "engineer", "application/x-ndjson", call + "\n" + call + "\n", 200, answer + answer},
		{"lines with a charset", "POST", "/v1/mcp", "engineer", "Application/X-NDJSON; charset=UTF-8", call, 200, answer},
		{"one message", "POST", "/v1/mcp", "engineer", "application/json", call, 200, answer},
		{"one message on many lines", "POST", "/v1/mcp", "engineer", "application/json", pretty, 200, answer},
		{"many lines are no lines of NDJSON", "POST", "/v1/mcp", "engineer", "application/x-ndjson", "{\n}", 200, parse + `1: ends too early"}}` + "\n" + parse + `0: malformed"}}` + "\n"},
		{"two messages as one", "POST", "/v1/mcp", "engineer", "application/json", call + "\n" + call, 200, parse + `82: trailing data"}}` + "\n"},
		{"invalid UTF-8 in lines", "POST", "/v1/mcp", "engineer", "application/x-ndjson", "\"\xff\"", 200, parse + `1: invalid UTF-8"}}` + "\n"},
		{"invalid UTF-8 in what travels as text", "POST", "/v1/mcp", "engineer", "application/json", strings.Replace(call, "describe", "\xff", 1), 400,
			problem("the body holds U+FFFD, which stands for bytes that are no UTF-8; send application/x-ndjson")},
		{"a notification", "POST", "/v1/mcp", "engineer", "application/x-ndjson", `{"jsonrpc":"2.0","method":"x"}`, 202, ""},
		{"nothing", "POST", "/v1/mcp", "engineer", "application/x-ndjson", "", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request has no message"}}` + "\n"},
		{"nothing as one message", "POST", "/v1/mcp", "engineer", "application/json", " \n", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request has no message"}}` + "\n"},
		{"65 lines", "POST", "/v1/mcp", "engineer", "application/x-ndjson", strings.Repeat(call+"\n", 65), 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request has more than 64 messages"}}` + "\n"},
		{"a body over the limit", "POST", "/v1/mcp", "engineer", "application/x-ndjson", strings.Repeat("\n", wire.MaxBody+1), 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is longer than 4194304 bytes"}}` + "\n"},
		{"one message over the limit", "POST", "/v1/mcp", "engineer", "application/json", strings.Repeat(" ", wire.MaxBody) + "1", 413, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is longer than 4194304 bytes"}}` + "\n"},

		{"a form", "POST", "/v1/mcp", "engineer", "application/x-www-form-urlencoded", call, 415, problem(unsupported)},
		{"no content type", "POST", "/v1/mcp", "engineer", "", call, 415, problem(unsupported)},
		{"another charset", "POST", "/v1/mcp", "engineer", "application/json; charset=utf-16", call, 415, problem(unsupported)},
		{"an event stream", "POST", "/v1/mcp", "engineer", "text/event-stream", call, 415, problem(unsupported)},
		{"a path below", "POST", "/v1/mcp/x", "engineer", "application/json", call, 404, problem("no_such_route")},
		{"another path", "POST", "/", "engineer", "application/json", call, 404, problem("no_such_route")},
		{"GET", "GET", "/v1/mcp", "engineer", "application/json", "", 405, problem("method_not_allowed")},
		{"DELETE", "DELETE", "/v1/mcp", "engineer", "application/json", "", 405, problem("method_not_allowed")},

		{"no token", "POST", "/v1/mcp", "", "application/x-ndjson", call, 401, problem("token_missing")},
		{"a bad token, before anything of the body is looked at", "POST", "/v1/mcp", "x", "text/plain", "{", 401, problem("token_expired")},
		{"keys that cannot be read", "POST", "/v1/mcp", "down", "application/x-ndjson", call, 503, problem("keys_unavailable")},
		{"a verifier that fails", "POST", "/v1/mcp", "broken", "application/x-ndjson", call, 500, problem("internal")},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			request.Header.Set("Content-Type", c.kind)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || string(body) != c.want {
				t.Errorf("%d, %v\n got %.500s\nwant %.500s", response.StatusCode, err, body, c.want)
			}
			if response.Header.Get("Cache-Control") != "no-store" {
				t.Error("the answer may be cached")
			}
			kind := response.Header.Get("Content-Type")
			switch {
			case c.status == 200 && kind != strings.ToLower(strings.SplitN(c.kind, ";", 2)[0]):
				t.Errorf("content type %q", kind)
			case c.status == 405 && response.Header.Get("Allow") != "POST":
				t.Error("no Allow")
			case c.status == 401 && !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer "):
				t.Error("no challenge")
			case c.status == 503 && response.Header.Get("Retry-After") == "":
				t.Error("no Retry-After")
			}
		})
	}
}

func event(t testing.TB, token, body string, change ...string) []byte {
	t.Helper()
	quoted, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	text := `{"version":"2.0","routeKey":"POST /v1/mcp","headers":{"authorization":"Bearer ` + token + `","content-type":"application/json"},"requestContext":{"requestId":"r","http":{"method":"POST"}},"isBase64Encoded":false,"body":` + string(quoted) + `}`
	return []byte(strings.NewReplacer(change...).Replace(text))
}

func invoke(t testing.TB, h *gateway.Handler, event []byte) (status int, body string) {
	t.Helper()
	out, err := h.Invoke(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	var response struct {
		StatusCode int    `json:"statusCode"`
		Body       string `json:"body"`
	}
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Body
}

func TestEvents(t *testing.T) {
	h := handler(t, echo)
	for _, c := range []struct {
		name   string
		event  []byte
		status int
	}{
		{"a stage in front of the raw path", event(t, "engineer", call, `"version"`, `"rawPath":"/prod/v1/mcp","version"`), 200},
		{"a route that catches all", event(t, "engineer", call, `"routeKey":"POST /v1/mcp"`, `"routeKey":"$default","rawPath":"/v1/mcp"`), 200},
		{"ANY as a route", event(t, "engineer", call, `"routeKey":"POST /v1/mcp"`, `"routeKey":"ANY /v1/mcp"`), 200},
		{"a body that is no base64", event(t, "engineer", "%%%", `"isBase64Encoded":false`, `"isBase64Encoded":true`), 400},
		{"a compressed body", event(t, "engineer", call, `"content-type"`, `"content-encoding":"gzip","content-type"`), 415},
		{"an identity encoding", event(t, "engineer", call, `"content-type"`, `"content-encoding":"identity","content-type"`), 200},
		{"no body", []byte(`{"routeKey":"POST /v1/mcp","headers":{"authorization":"Bearer engineer","content-type":"application/json"},"requestContext":{"http":{"method":"POST"}}}`), 400},
	} {
		if status, body := invoke(t, h, c.event); status != c.status {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	for _, bad := range []string{``, `[]`, `{"headers":1}`} {
		if _, err := h.Invoke(t.Context(), []byte(bad)); err == nil {
			t.Errorf("the event %q is answered", bad)
		}
	}
}

// covers: W8
func TestTheSampleEvent(t *testing.T) {
	payload, err := os.ReadFile("../../../events/mcp_endpoint.json")
	if err != nil {
		t.Fatal(err)
	}
	var request tool.Request
	h := handler(t, func(ctx context.Context, r tool.Request) ([]byte, error) {
		request = r
		return echo(ctx, r)
	})
	want := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"pxflow_describe"}]}}` + "\n" + strings.Replace(answer, `"id":1`, `"id":2`, 1)
	if status, body := invoke(t, h, payload); status != 200 || body != want {
		t.Errorf("%d\n got %s\nwant %s", status, body, want)
	}
	if request.RequestID != "JKJaXmPLvHcESHA=.2" || !bytes.Contains(request.Arguments, []byte(`"flowKey":"girder_check"`)) {
		t.Errorf("got %+v", request)
	}
}

// The largest reply fits Lambda's answer, which is 6 MB (6,291,556 bytes).
// covers: W6
func TestTheLargestReplyFitsLambda(t *testing.T) {
	for _, n := range []int{1, 3, 64} {
		h := handler(t, func(_ context.Context, request tool.Request) ([]byte, error) {
			const head, tail = `{"ok":true,"data":{"x":"`, `"},"diagnostics":[],"resources":[]}`
			rest := request.ByteShare - wire.EscapedLen([]byte(head+tail))
			return []byte(head + strings.Repeat(`\"`, rest/4) + strings.Repeat("é", rest%4/2) + tail), nil
		})
		out, err := h.Invoke(t.Context(), event(t, "engineer", strings.Repeat(call+"\n", n), `application/json`, `application/x-ndjson`))
		if err != nil || len(out) > 5_500_000+500 || bytes.Contains(out, []byte("answer_too_large")) {
			t.Errorf("%d lines: %d bytes, %v", n, len(out), err)
		}
		if n >= 3 && len(out) < 5_400_000 {
			t.Errorf("%d lines: only %d bytes", n, len(out))
		}
	}
}

// The answer leaves before Lambda ends the function, even if a tool hangs.
// covers: W5
func TestTheAnswerLeavesBeforeLambdaEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, func(ctx context.Context, _ tool.Request) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		out, err := h.Invoke(ctx, event(t, "engineer", call))
		if took := time.Since(start); err != nil || took != 9500*time.Millisecond || !bytes.Contains(out, []byte(`tool_timeout`)) {
			t.Errorf("%s, %v after %v", out, err, took)
		}
	})
}

func FuzzInvoke(f *testing.F) {
	h := handler(f, echo)
	f.Add(event(f, "engineer", call))
	f.Add(event(f, "engineer", call, `"isBase64Encoded":false`, `"isBase64Encoded":true`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		out, err := h.Invoke(t.Context(), payload)
		if err != nil {
			return
		}
		var response struct {
			StatusCode int               `json:"statusCode"`
			Headers    map[string]string `json:"headers"`
			Body       *string           `json:"body"`
		}
		if err := json.Unmarshal(out, &response); err != nil || response.StatusCode < 200 || response.Body == nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}

func BenchmarkInvoke(b *testing.B) {
	h := handler(b, echo)
	for _, n := range []int{1, 64} {
		payload := event(b, "engineer", strings.Repeat(call+"\n", n), `application/json`, `application/x-ndjson`)
		b.Run(fmt.Sprintf("%d lines", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Invoke(b.Context(), payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
