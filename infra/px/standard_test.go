package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pxhost/pxhost/shared/wire/gateway"
)

// A request that the host does not take is answered all the same, and a person is told
// once what to do.
//
// covers: W9
func TestStandardStdioAnswersWhatTheHostDoesNot(t *testing.T) {
	lines := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":"b","method":"tools/list"}` + "\n"
	for _, c := range []struct {
		name   string
		front  func(w http.ResponseWriter)
		reason string
		told   string
	}{
		{"a page of another server", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, "endpoint", "HTTP status 200: <html>"},
		{"JSON that is no message", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintln(w, `{"message":"Not Found"}`)
		}, "endpoint", "Not Found"},
		{"a message on two lines", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}\n")
		}, "endpoint", "HTTP status 200"},
		{"a function that is late", func(w http.ResponseWriter) { w.WriteHeader(503) }, "timeout", "HTTP status 503"},
		{"a token that is refused", func(w http.ResponseWriter) { w.WriteHeader(401) }, "refused", "--state"},
		{"another page", func(w http.ResponseWriter) { w.WriteHeader(302) }, "endpoint", "HTTP status 302"},
	} {
		d := openDoor(t, echo)
		var mu sync.Mutex
		var paths []string
		d.front = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != gateway.StandardPath {
				return false
			}
			mu.Lock()
			paths = append(paths, r.Method+" "+r.Header.Get("Content-Type"))
			mu.Unlock()
			c.front(w)
			return true
		}
		code, out, errs := d.px(t, strings.NewReader(lines), "stdio", "--standard")
		if code != 0 || strings.Count(out, "\n") != 2 || strings.Count(out, `"code":-32603`) != 2 || !strings.Contains(out, `"id":"b"`) {
			t.Errorf("%s: %d %s", c.name, code, out)
		}
		if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.told) {
			t.Errorf("%s: a person reads %q", c.name, errs)
		}
		if !strings.Contains(out, c.reason) {
			t.Errorf("%s: no reason %q in %s", c.name, c.reason, out)
		}
		for _, p := range paths {
			if p != "POST application/json" {
				t.Errorf("%s: %s", c.name, p)
			}
		}
	}
}

// The plugins of a workspace are tools at an endpoint of their own.
func TestStandardStdioOfAWorkspace(t *testing.T) {
	d := openDoor(t, echo)
	d.front = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.String() != gateway.CapabilitiesPath+"?workspaceKey=team_a" || r.Header.Get("Mcp-Method") != "tools/list" || r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
		return true
	}
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if code, out, errs := d.px(t, strings.NewReader(line), "stdio", "--standard", "--workspace", "team_a"); code != 0 || errs != "" || out != `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`+"\n" {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, _, errs := d.px(t, strings.NewReader(line), "stdio", "--workspace", "a"); code != exitUsage || !strings.Contains(errs, "--standard") {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, errs := d.px(t, strings.NewReader(line), "stdio", "--standard", "--workspace", "a b&"); code != exitUsage || out != "" || !strings.Contains(errs, "the key of a workspace") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

// U+FFFD as it stands is refused by the host, which cannot tell whether API Gateway put it
// there. A command knows that it was sent.
//
// covers: W9
func TestStandardStdioTakesTheReplacementCharacter(t *testing.T) {
	d := openDoor(t, echo)
	d.front = func(w http.ResponseWriter, r *http.Request) bool {
		var body struct {
			ID     string
			Params struct{ Arguments struct{ Query string } }
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(text), "\ufffd") || json.Unmarshal(text, &body) != nil || body.ID != "\ufffd" || body.Params.Arguments.Query != "a\ufffd\ufffd\\\ufffd" {
			t.Errorf("%s %v", text, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"jsonrpc":"2.0","id":"\ufffd","result":{}}`)
		return true
	}
	line := "{\"jsonrpc\":\"2.0\",\"id\":\"\ufffd\",\"method\":\"tools/call\",\"params\":{\"name\":\"pxflow_describe\",\"arguments\":{\"query\":\"a\ufffd\\ufffd\\\\\ufffd\"}}}"
	if code, out, errs := d.px(t, strings.NewReader(line), "stdio", "--standard"); code != 0 || errs != "" || out != `{"jsonrpc":"2.0","id":"\ufffd","result":{}}`+"\n" {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
