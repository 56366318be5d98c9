package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sdk is the directory of the official TypeScript SDK, the npm package
// @modelcontextprotocol/sdk.
func sdk(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PX_MCP_SDK")
	if dir == "" {
		const why = "PX_MCP_SDK does not name the directory of the npm package @modelcontextprotocol/sdk"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return dir
}

// An ordinary client connects by the URL alone: the official SDK signs in, or is given a
// token, and does what an engineer's AI does.
//
// covers: W9
func TestAnOrdinaryClientWorksByTheURL(t *testing.T) {
	t.Parallel()
	dir := sdk(t)
	for _, how := range []string{"with a token", "by signing in"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			who := "engineer"
			if how == "with a token" {
				who = h.token(t, "engineer")
			}
			c := exec.CommandContext(t.Context(), "node", "testdata/client.mjs", dir, h.URL+"/mcp", who, strings.TrimSpace(h.operate(t, "token", "--sign-in")))
			var errs strings.Builder
			c.Stderr = &errs
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			var saw struct {
				Requests     []string
				Scope        string
				Resource     string
				Server       struct{ Name, Title, Version string }
				Instructions string
				Tools        []string
				Moment       struct {
					Value float64
					Unit  string
				}
				Refused struct {
					IsError bool
					Code    string
				}
			}
			if err := json.Unmarshal(out, &saw); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if len(saw.Tools) != 21 || saw.Tools[0] != "project_search" || saw.Server.Name != "pxhost" || saw.Server.Version == "" || !strings.Contains(saw.Instructions, "project_search") {
				t.Errorf("%+v", saw)
			}
			if want := 72*math.Pow(60./2-7./3, 2)/60 - 112; math.Abs(saw.Moment.Value-want) > 1e-12*want || saw.Moment.Unit != "kip*ft" {
				t.Errorf("the moment is %v", saw.Moment)
			}
			if !saw.Refused.IsError || saw.Refused.Code != "PX_SCHEMA_INVALID" {
				t.Errorf("%+v", saw.Refused)
			}
			if who == "engineer" && (saw.Scope != "px.tools" || saw.Resource != h.URL+"/mcp") {
				t.Errorf("it asked for the scope %q of %q", saw.Scope, saw.Resource)
			}
			// It offers the stream that there is not, and takes 405 for that.
			if !slices.Contains(saw.Requests, "GET /mcp 405") {
				t.Errorf("%q", saw.Requests)
			}
		})
	}
}

// A client of the version without a handshake says everything with each request.
//
// covers: W9
func TestAClientOfTheModernVersionNeedsNoHandshake(t *testing.T) {
	t.Parallel()
	h := start(t)
	token := h.token(t, "engineer")
	send := func(method, name, params string, more ...string) (int, string, http.Header) {
		t.Helper()
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"px/maxBytes":4096}`
		if params != "" {
			meta += ","
		}
		q, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"`+method+`","params":{`+meta+params+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		set := slices.Concat([]string{"Authorization", "Bearer " + token, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, more)
		for i := 0; i < len(set); i += 2 {
			if set[i+1] == "" {
				q.Header.Del(set[i])
				continue
			}
			q.Header.Set(set[i], set[i+1])
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body), r.Header
	}
	status, body, _ := send("server/discover", "", "")
	if status != 200 || !strings.Contains(body, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`) || !strings.Contains(body, `"resultType":"complete","ttlMs":300000,"cacheScope":"public"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ = send("tools/list", "", ""); status != 200 || strings.Count(body, `"inputSchema"`) != 21 {
		t.Errorf("%d %.200s", status, body)
	}
	// The answer of a tool, cut at the size that the caller takes, twice the same.
	scope := `{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"}`
	status, body, _ = send("tools/call", "component_search", `"name":"component_search","arguments":{"scope":`+scope+`,"query":""}`)
	var reply struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
			ResultType        string
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != 200 || reply.Result.IsError || reply.Result.ResultType != "complete" || len(reply.Result.Content) != 1 {
		t.Fatalf("%d %v %.300s", status, err, body)
	}
	if text := reply.Result.Content[0].Text; text != string(reply.Result.StructuredContent) || len(text) > 4096 || !strings.Contains(text, `"truncation"`) {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
	for name, c := range map[string]struct {
		more   []string
		status int
		code   int
	}{
		"a header of another name":   {[]string{"Mcp-Name", "run_get"}, 400, -32020},
		"a header of another method": {[]string{"Mcp-Method", "tools/list"}, 400, -32020},
		"another version":            {[]string{"MCP-Protocol-Version", "2025-11-25"}, 400, -32020},
		"no method":                  {[]string{"Mcp-Method", ""}, 400, -32020},
		"another page":               {[]string{"Origin", "https://evil.example.com"}, 403, 0},
		"no token":                   {[]string{"Authorization", ""}, 401, 0},
	} {
		status, body, header := send("tools/call", "project_search", `"name":"project_search","arguments":{"scope":{"kind":"principal"}}`, c.more...)
		// API Gateway renames this header, and the template gives it back.
		challenge := `Bearer realm="pxhost", resource_metadata="` + h.URL + `/.well-known/oauth-protected-resource/mcp", scope="px.tools"`
		if got := header.Get("WWW-Authenticate"); status == 401 && (got != challenge || header.Get("X-Px-Challenge") != "") {
			t.Errorf("%s: %q, %v", name, got, header)
		}
		if status != c.status || c.code != 0 && !strings.Contains(body, fmt.Sprintf(`"code":%d`, c.code)) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body, _ := send("resources/list", "", ""); status != 404 || !strings.Contains(body, `"code":-32601`) {
		t.Errorf("%d %s", status, body)
	}
}

// What an operator runs against a deployed stack passes here, where it is the same binaries.
//
// covers: W9
func TestTheSmokeChecksPass(t *testing.T) {
	t.Parallel()
	h := start(t)
	if code, out, errs := h.px(t, "", "smoke"); code != 0 || strings.Count(out, "ok  ") != 9 || strings.Count(out, "\n") != 9 {
		t.Errorf("%d %s %s", code, out, errs)
	}
	// With a token alone, as there is no state folder of a deployed stack.
	if code, out, errs := h.px(t, "", "smoke", "--url", h.URL, "--token", h.token(t, "viewer")); code != 0 || strings.Count(out, "ok  ") != 9 {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
