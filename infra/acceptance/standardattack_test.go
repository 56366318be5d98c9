package acceptance

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What another page, another host name or a broken client sends to the standard endpoint
// is refused before it is run, each with its own status, and never as a plain 500.
//
// covers: W9
func TestTheStandardEndpointRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	h := start(t)
	token := h.token(t, "engineer")
	_, port, _ := strings.Cut(strings.TrimPrefix(h.URL, "http://"), ":")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, ping)
	z.Close()
	for _, c := range []struct {
		name, method, path string
		headers            string // name: value lines; an empty value takes one away
		body               string
		status             int
		want               string
	}{
		{"the control", "POST", "/mcp", "", ping, 200, `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"},
		{"its own page", "POST", "/mcp", "Origin: " + h.URL, ping, 200, ""},
		{"a page of a file", "POST", "/mcp", "Origin: null", ping, 403, "origin_not_allowed"},
		{"a page of nothing", "POST", "/mcp", "Origin: http://", ping, 403, "origin_not_allowed"},
		{"a page by another name of this machine", "POST", "/mcp", "Origin: http://localhost:" + port, ping, 403, "origin_not_allowed"},
		{"a page by another scheme", "POST", "/mcp", "Origin: https://127.0.0.1:" + port, ping, 403, "origin_not_allowed"},
		{"a page whose name begins as ours", "POST", "/mcp", "Origin: " + h.URL + ".evil.example.com", ping, 403, "origin_not_allowed"},
		{"a page that asks first", "OPTIONS", "/mcp", "Origin: https://evil.example.com\nAccess-Control-Request-Method: POST", "", 403, "origin_not_allowed"},
		{"a name of another host that leads here", "POST", "/mcp", "Host: evil.example.com", ping, 421, ""},
		{"that name, and its page", "POST", "/mcp", "Host: evil.example.com\nOrigin: http://evil.example.com", ping, 421, ""},
		{"that name, forwarded", "POST", "/mcp", "Authorization:\nX-Forwarded-Host: evil.example.com", ping, 401, "token_missing"},
		{"the stream that there is not", "GET", "/mcp", "Accept: text/event-stream", "", 405, "method_not_allowed"},
		{"the end of a session that there is not", "DELETE", "/mcp", "Mcp-Session-Id: x", "", 405, "method_not_allowed"},
		{"a session that there is not", "POST", "/mcp", "Mcp-Session-Id: x\nLast-Event-ID: 5", ping, 200, ""},
		{"another path", "POST", "/mcp/", "", ping, 404, ""},
		{"a token in the URL", "POST", "/mcp?access_token=" + token, "Authorization:", ping, 401, "token_missing"},
		{"another scheme", "POST", "/mcp", "Authorization: Basic eDp5", ping, 401, "token_missing"},
		{"text", "POST", "/mcp", "Content-Type: text/plain", ping, 415, ""},
		{"a form", "POST", "/mcp", "Content-Type: application/x-www-form-urlencoded", ping, 415, ""},
		{"lines of the formal wire", "POST", "/mcp", "Content-Type: application/x-ndjson", ping, 415, ""},
		{"no type", "POST", "/mcp", "Content-Type:", ping, 415, ""},
		{"other characters", "POST", "/mcp", "Content-Type: application/json; charset=utf-16", ping, 415, ""},
		{"a packed body", "POST", "/mcp", "Content-Encoding: gzip", packed.String(), 415, ""},
		{"who takes a stream alone", "POST", "/mcp", "Accept: text/event-stream", ping, 406, ""},
		{"who takes no JSON", "POST", "/mcp", "Accept: application/json;q=0, text/event-stream", ping, 406, ""},
		{"who takes anything", "POST", "/mcp", "Accept: text/html, */*;q=0.1", ping, 200, ""},
		{"a batch", "POST", "/mcp", "", "[" + ping + "]", 200, `[{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n"},
		{"a batch of a version without batches", "POST", "/mcp", "MCP-Protocol-Version: 2025-06-18", "[" + ping + "]", 400, `"code":-32600`},
		{"a key twice", "POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, `"code":-32700`},
		{"a name that is twice in _meta", "POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"px/maxBytes":4096,"px/maxBytes":8192}}}`, 400, `"code":-32700`},
		{"an id beyond what a double holds", "POST", "/mcp", "", strings.Replace(ping, `"id":1`, `"id":9007199254740993`, 1), 200, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}` + "\n"},
		{"an id with a fraction", "POST", "/mcp", "", strings.Replace(ping, `"id":1`, `"id":1.50`, 1), 200, `{"jsonrpc":"2.0","id":1.50,"result":{}}` + "\n"},
		{"an id that is an object", "POST", "/mcp", "", strings.Replace(ping, `"id":1`, `"id":{}`, 1), 400, `"code":-32600`},
		{"bytes that are no UTF-8", "POST", "/mcp", "", strings.Replace(ping, "ping", "\xff", 1), 400, "U+FFFD"},
		{"half a surrogate", "POST", "/mcp", "", strings.Replace(ping, "ping", `\ud800`, 1), 400, `"code":-32700`},
		{"a mark before the text", "POST", "/mcp", "", "\xef\xbb\xbf" + ping, 400, `"code":-32700`},
		{"what is nested too deep", "POST", "/mcp", "", strings.Repeat("[", 10000), 400, `"code":-32700`},
		{"two versions", "POST", "/mcp", "MCP-Protocol-Version: 2025-06-18, 2025-11-25", ping, 400, `"code":-32022`},
		{"a version of the future", "POST", "/mcp", "MCP-Protocol-Version: 2099-01-01", ping, 400, `"code":-32022`},
		{"a modern header and an old body", "POST", "/mcp", "MCP-Protocol-Version: 2026-07-28\nMcp-Method: ping", ping, 400, `"code":-32602`},
		{"more than there may be", "POST", "/mcp", "", strings.Repeat(" ", 5<<20), 413, `"code":-32600`},
		{"more than a gateway takes", "POST", "/mcp", "", strings.Repeat(" ", 11<<20), 413, ""},
	} {
		q, err := http.NewRequestWithContext(t.Context(), c.method, h.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		for line := range strings.SplitSeq(c.headers, "\n") {
			name, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); {
			case name == "Host":
				q.Host = value
			case value == "":
				q.Header.Del(name)
			default:
				q.Header.Set(name, value)
			}
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %.300s %v", c.name, r.StatusCode, body, err)
		}
		if strings.Contains(string(body)+r.Header.Get("WWW-Authenticate"), "evil") || strings.Contains(string(body), token) {
			t.Errorf("%s: it tells back what it was sent: %.300s %v", c.name, body, r.Header)
		}
		if r.StatusCode == 401 && !strings.Contains(r.Header.Get("WWW-Authenticate"), `resource_metadata="`+h.URL+"/") {
			t.Errorf("%s: %v", c.name, r.Header)
		}
		if r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: pages of others may read it", c.name)
		}
	}
}

// px stdio --standard ends with its ends, and says nothing on standard output but
// messages.
//
// covers: W9
func TestStandardStdioEndsAsItsClientDoes(t *testing.T) {
	t.Parallel()
	h := start(t)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	pong := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	for _, c := range []struct{ name, in, out string }{
		{"nothing", "", ""},
		{"a line without an end", ping, pong},
		{"a line that broke off", ping[:20], `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not strict JSON at byte 20: ends too early"}}` + "\n"},
		{"a line that is too long", strings.Repeat("x", 3<<20) + "\n" + ping + "\n", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the line is longer than 2097152 bytes"}}` + "\n" + pong},
		{"notifications", `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n", ""},
	} {
		if code, out, errs := h.px(t, c.in, "stdio", "--standard"); code != 0 || out != c.out || errs != "" {
			t.Errorf("%s: %d %s %s", c.name, code, out, errs)
		}
	}
	// begin starts it, with its input open.
	begin := func() (*exec.Cmd, io.WriteCloser, *os.File) {
		c := exec.Command(px(), "stdio", "--standard", "--state", h.state)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, give, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stdout = give
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		give.Close()
		late := time.AfterFunc(30*time.Second, func() { c.Process.Kill() })
		t.Cleanup(func() { late.Stop(); in.Close(); out.Close() })
		return c, in, out
	}
	c, in, out := begin()
	out.Close() // nobody reads
	io.WriteString(in, ping+"\n")
	if err := c.Wait(); err == nil || strings.Contains(err.Error(), "killed") {
		t.Errorf("with nobody to read its replies: %v", err)
	}
	c, in, out = begin()
	io.WriteString(in, ping+"\n")
	got := make([]byte, len(pong))
	if _, err := io.ReadFull(out, got); err != nil || string(got) != pong {
		t.Fatalf("%s %v", got, err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("asked to stop: %v", err)
	}
}
