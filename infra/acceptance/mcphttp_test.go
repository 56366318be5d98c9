package acceptance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// research starts an MCP server of the official TypeScript SDK.
func research(t *testing.T, token string) *url.URL {
	t.Helper()
	c := exec.Command("node", "testdata/research_mcp.mjs", sdk(t), token)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strings.TrimSpace(port)}
}

// proxied has the stand-in hand requests on to a server.
func proxied(to *url.URL) http.HandlerFunc {
	p := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	return p.ServeHTTP
}

func askMCP(tool string) m {
	return m{"adapter": "mcp_http", "connector_id": "mcp", "tool_name": tool, "protocol_version": "2025-11-25", "argument_template": m{"query": "{query}"}}
}

// A real MCP server of the official SDK is called by a real function, as the original's
// example says.
//
// covers: A7
func TestARealMCPServerIsCalledOverTheWire(t *testing.T) {
	to := research(t, "")
	w := startWorld(t, nil)
	connectors, capabilities := list{}, list{}
	for _, kind := range []string{"mcp", "json", "stateless"} {
		connectors = append(connectors, connectorTo(kind, mcpHost, "/"+kind, m{"protocol": "mcp"}))
		for _, tool := range []string{"search", "fail", "refuse", "none"} {
			runtime := askMCP(tool)
			runtime["connector_id"] = kind
			capabilities = append(capabilities, skill("m."+kind+tool, 20, runtime))
		}
		w.on(mcpHost+"/"+kind, proxied(to))
	}
	slow := askMCP("slow")
	w.install(plugin(connectors, append(capabilities, skill("m.slow", 2, slow))))
	for _, kind := range []string{"mcp", "json", "stateless"} {
		e := w.call("m."+kind+"search", m{"query": "거더", "other": 1}, "")
		var data struct {
			Papers []int
			Query  string
		}
		if err := json.Unmarshal(e.Result.Data, &data); e.State != "succeeded" || e.Result.Summary != "3 papers on 거더" || err != nil || len(data.Papers) != 3 || data.Query != "거더" {
			t.Errorf("%s: %s", kind, e.body)
		}
		var asked []string
		for _, s := range w.taken(mcpHost + "/" + kind) {
			var message struct{ Method string }
			json.Unmarshal([]byte(s.body), &message)
			asked = append(asked, message.Method)
			if first := message.Method == "initialize"; s.method != "POST" || (s.header.Get("Mcp-Protocol-Version") == "") != first || (s.header.Get("Mcp-Session-Id") != "") != (!first && kind != "stateless") {
				t.Errorf("%s: %s with %v", kind, message.Method, s.header)
			}
		}
		if fmt.Sprint(asked) != "[initialize notifications/initialized tools/call]" {
			t.Errorf("%s: %v", kind, asked)
		}
		for tool, rule := range map[string]string{"fail": "tool_error", "refuse": "rpc_error", "none": "rpc_error"} {
			e := w.call("m."+kind+tool, m{"query": "x"}, "")
			if e.State != "failed" || e.code() != "EXTENSION_RESPONSE_INVALID" || e.Failure.Params["rule"] != rule {
				t.Errorf("%s %s: %s", kind, tool, e.body)
			}
			w.silent("s3cret", e)
		}
	}
	// What was called and does not answer in time may have happened.
	if e := w.call("m.slow", m{"query": "x"}, ""); e.State != "outcome_unknown" || e.code() != "EXTENSION_OUTCOME_UNKNOWN" {
		t.Error(e.body)
	}
}

// An MCP server that takes the second token alone is called with one that was renewed
// once, in a session of its own; what is refused for ever asks for a person.
//
// covers: A7, C3
func TestARefusedTokenIsRenewedOnceForARealMCPServer(t *testing.T) {
	to := research(t, "s3cret-2")
	w := startWorld(t, nil)
	w.on(mcpHost+"/mcp", proxied(to))
	var asked atomic.Int32
	w.on(authHost+"/token", func(out http.ResponseWriter, r *http.Request) {
		says(200, fmt.Sprintf(`{"access_token":"s3cret-%d","token_type":"Bearer","expires_in":3600}`, asked.Add(1)))(out, r)
	})
	oauth := m{"kind": "oauth2", "grant": "client_credentials", "token_url": "https://" + authHost + "/token", "scopes": list{"read"}}
	w.install(plugin(list{connectorTo("mcp", mcpHost, "/mcp", m{"protocol": "mcp", "auth": oauth})}, list{skill("m.search", 20, askMCP("search"))}))
	w.connect("mcp", m{"clientId": "app", "clientSecret": "s3cret-client"})
	e := w.call("m.search", m{"query": "x"}, "")
	if e.State != "succeeded" || asked.Load() != 2 {
		t.Errorf("%d tokens: %s", asked.Load(), e.body)
	}
	again := w.call("m.search", m{"query": "x"}, "")
	if again.State != "succeeded" || asked.Load() != 2 {
		t.Errorf("%d tokens: %s", asked.Load(), again.body)
	}
	// Now it takes none.
	w.on(mcpHost+"/mcp", says(401, `s3cret`))
	w.taken(mcpHost + "/mcp")
	e = w.call("m.search", m{"query": "x"}, "")
	if n := len(w.taken(mcpHost + "/mcp")); e.code() != "EXTENSION_CONNECTION_REQUIRED" || e.Failure.Params["reason"] != "rejected" || n != 2 || asked.Load() != 3 {
		t.Errorf("%d requests, %d tokens: %s", n, asked.Load(), e.body)
	}
	// And now there is none to be had: the catalog says so.
	w.on(authHost+"/token", says(401, `{"error":"invalid_client","error_description":"s3cret"}`))
	if e = w.call("m.search", m{"query": "x"}, ""); e.code() != "EXTENSION_CONNECTION_REQUIRED" {
		t.Error(e.body)
	}
	w.taken(mcpHost + "/mcp")
	e = w.call("m.search", m{"query": "x"}, "")
	if n := len(w.taken(mcpHost + "/mcp")); e.code() != "EXTENSION_CONNECTION_REQUIRED" || e.status != 409 || n != 0 {
		t.Errorf("%d requests: %d %s", n, e.status, e.body)
	}
	w.silent("s3cret", e, again)
}

// Servers that are no good, each told by its own code; what may have happened is never
// asked for again.
//
// covers: A7, A9, C5, C6
func TestMCPServersThatAreNoGood(t *testing.T) {
	w := startWorld(t, nil)
	w.install(plugin(list{connectorTo("mcp", mcpHost, "/mcp", patient, m{"protocol": "mcp"})}, list{skill("m.search", 10, askMCP("search")), skill("m.short", 1, askMCP("search"))}))
	const found = `{"content":[{"type":"text","text":"gefunden"}],"structuredContent":{"n":1}}`
	// bad is a server whose n-th tools/call is answered by call.
	calls, hellos := 0, 0
	bad := func(call func(n int) http.HandlerFunc) http.HandlerFunc {
		return func(out http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			switch {
			case strings.Contains(string(text), `"initialize"`):
				hellos++
				says(200, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, "Mcp-Session-Id", fmt.Sprint("s", hellos))(out, r)
			case strings.Contains(string(text), `"tools/call"`):
				calls++
				call(calls)(out, r)
			default:
				out.WriteHeader(202)
			}
		}
	}
	always := func(h http.HandlerFunc) func(int) http.HandlerFunc { return func(int) http.HandlerFunc { return h } }
	cut := func(out http.ResponseWriter, r *http.Request) {
		if conn, _, err := out.(http.Hijacker).Hijack(); err == nil {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"jsonrpc\"")
			conn.Close()
		}
	}
	const (
		invalid = "EXTENSION_RESPONSE_INVALID"
		unknown = "EXTENSION_OUTCOME_UNKNOWN"
	)
	for _, c := range []struct {
		name, capability string
		call             func(int) http.HandlerFunc
		code, rule       string
		calls            int
	}{
		{"a wrong id", "m.search", always(says(200, `{"jsonrpc":"2.0","id":9,"result":`+found+`}`)), unknown, "id", 1},
		{"an id as a text", "m.search", always(says(200, `{"jsonrpc":"2.0","id":"2","result":`+found+`}`)), unknown, "id", 1},
		{"an error", "m.search", always(says(200, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"s3cret"}}`)), invalid, "rpc_error", 1},
		{"isError", "m.search", always(says(200, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"s3cret"}],"isError":true}}`)), invalid, "tool_error", 1},
		{"401 for ever, and no credential", "m.search", always(says(401, `s3cret`)), invalid, "", 1},
		{"404 of the session once", "m.search", func(n int) http.HandlerFunc {
			if n == 1 {
				return says(404, ``)
			}
			return says(200, `{"jsonrpc":"2.0","id":2,"result":`+found+`}`)
		}, "", "", 2},
		{"404 of the session for ever", "m.search", always(says(404, ``)), invalid, "", 2},
		{"a stream", "m.search", always(says(200, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":"+found+"}\n\n", "Content-Type", "text/event-stream")), "", "", 1},
		{"a stream that ends before its answer", "m.search", always(says(200, "event: message\ndata: {\"jsonrpc\":\"2.0\"\n", "Content-Type", "text/event-stream")), unknown, "no_answer", 1},
		{"half an answer", "m.search", always(cut), unknown, "broken", 1},
		{"nothing", "m.search", always(says(202, ``)), unknown, "", 1},
		{"no answer in time", "m.short", always(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}), unknown, "", 1},
		{"a page", "m.search", always(says(200, `<s3cret>`, "Content-Type", "text/html")), unknown, "content_type", 1},
		{"429 for ever", "m.search", always(says(429, ``)), "EXTENSION_NETWORK_RETRYABLE", "", 3},
		{"502", "m.search", always(says(502, ``)), unknown, "", 1},
		{"a redirect", "m.search", always(says(307, ``, "Location", "https://"+notesHost+"/")), invalid, "", 1},
	} {
		calls, hellos = 0, 0
		w.on(mcpHost+"/mcp", bad(c.call))
		e := w.call(c.capability, m{"query": "s3cret"}, "")
		rule, _ := e.Failure.Params["rule"].(string)
		if e.code() != c.code || calls != c.calls || rule != c.rule || (e.State == "outcome_unknown") != (c.code == unknown) || (e.State == "succeeded") != (c.code == "") {
			t.Errorf("%s: %q by rule %q after %d calls: %s", c.name, e.code(), rule, calls, e.body)
		}
		w.silent("s3cret", e)
	}
}
