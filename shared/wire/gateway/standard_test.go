package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/gateway/gatewaytest"
)

const mirrored = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"ok\":true,\"data\":{\"who\":\"https://issuer|engineer\",\"text\":\"<&>\\u2028 é \\\\\"},\"diagnostics\":[],\"resources\":[]}"}],"structuredContent":{"ok":true,"data":{"who":"https://issuer|engineer","text":"<&>\u2028 é \\"},"diagnostics":[],"resources":[]},"isError":false}}` + "\n"

// covers: W9
func TestTheStandardEndpoint(t *testing.T) {
	run := 0
	server := httptest.NewServer(gatewaytest.Handler(handler(t, func(ctx context.Context, q tool.Request) ([]byte, error) {
		run++
		return echo(ctx, q)
	})))
	defer server.Close()
	problem := func(reason string) string { return `{"error":"` + reason + `"}` + "\n" }
	for _, c := range []struct {
		name, method, token, kind, body string
		status                          int
		want                            string
		more                            []string
	}{
		{"a call", "POST", "engineer", "application/json", call, 200, mirrored, nil},
		{"a call of a client that takes what one must", "POST", "engineer", "application/json; charset=utf-8", call, 200, mirrored, []string{"Accept", "application/json, text/event-stream"}},
		{"a call of a client that takes anything", "POST", "engineer", "application/json", call, 200, mirrored, []string{"Accept", "text/event-stream;q=1, */*;q=0.1"}},
		{"a call from a page that is allowed", "POST", "engineer", "application/json", call, 200, mirrored, []string{"Origin", "https://app.example.com"}},
		{"a call from a page of this API", "POST", "engineer", "application/json", call, 200, mirrored, []string{"Origin", server.URL}},
		{"a notification", "POST", "engineer", "application/json", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, "", nil},
		{"a call from another page", "POST", "engineer", "application/json", call, 403, problem("origin_not_allowed"), []string{"Origin", "https://evil.example.com"}},
		{"a call from an allowed host over another scheme", "POST", "engineer", "application/json", call, 403, problem("origin_not_allowed"), []string{"Origin", "http://app.example.com"}},
		{"a call from nowhere", "POST", "engineer", "application/json", call, 403, problem("origin_not_allowed"), []string{"Origin", "null"}},
		{"another page without a token", "GET", "", "", "", 403, problem("origin_not_allowed"), []string{"Origin", "https://evil.example.com"}},
		{"a stream", "GET", "engineer", "", "", 405, problem("method_not_allowed"), []string{"Accept", "text/event-stream"}},
		{"the end of a session", "DELETE", "engineer", "", "", 405, problem("method_not_allowed"), nil},
		{"lines", "POST", "engineer", "application/x-ndjson", call, 415, problem("send application/json"), nil},
		{"a client that takes a stream alone", "POST", "engineer", "application/json", call, 406, problem("answers are application/json"), []string{"Accept", "text/event-stream, application/json;q=0"}},
		{"a batch", "POST", "engineer", "application/json", "[" + call + "]", 200, "[" + strings.TrimSpace(mirrored) + "]\n", nil},
		{"a batch of a version without batches", "POST", "engineer", "application/json", "[" + call + "]", 400, "", []string{"MCP-Protocol-Version", "2025-11-25"}},
		{"a version that is not spoken", "POST", "engineer", "application/json", call, 400, "", []string{"MCP-Protocol-Version", "1999-01-01"}},
		{"no token", "POST", "", "application/json", call, 401, problem("token_missing"), nil},
		{"a token that has expired", "POST", "x", "text/plain", "{", 401, problem("token_expired"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			run = 0
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+"/mcp", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.kind != "" {
				request.Header.Set("Content-Type", c.kind)
			}
			for i := 0; i < len(c.more); i += 2 {
				request.Header.Set(c.more[i], c.more[i+1])
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || c.want != "" && string(body) != c.want || c.status == 202 && len(body) != 0 {
				t.Errorf("%d, %v\n got %s\nwant %s", response.StatusCode, err, body, c.want)
			}
			if (run == 1) != (c.status == 200) {
				t.Errorf("the tool ran %d times", run)
			}
			challenge := response.Header.Get("WWW-Authenticate")
			if want := `, resource_metadata="` + server.URL + `/.well-known/oauth-protected-resource/mcp", scope="px.tools"`; (c.status == 401) != strings.HasSuffix(challenge, want) {
				t.Errorf("the challenge %q", challenge)
			}
			if c.status == 405 && response.Header.Get("Allow") != "POST" {
				t.Error("no Allow")
			}
		})
	}
}

// A client finds who gives tokens from the answer that refuses it (RFC 9728).
//
// covers: W9
func TestAClientFindsWhoGivesTokens(t *testing.T) {
	server := httptest.NewServer(gatewaytest.Handler(handler(t, echo)))
	defer server.Close()
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		err = json.UnmarshalRead(response.Body, &got)
		response.Body.Close()
		servers, _ := got["authorization_servers"].([]any)
		if err != nil || response.StatusCode != 200 || got["resource"] != server.URL+"/mcp" || len(servers) != 1 || servers[0] != "https://issuer" || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %v", path, response.StatusCode, got, err)
		}
		response, err = http.Post(server.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 405 || response.Header.Get("Allow") != "GET" {
			t.Errorf("%s: POST gives %d", path, response.StatusCode)
		}
	}
}
