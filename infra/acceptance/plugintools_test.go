package acceptance

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// What plugins can do are tools of an ordinary client: the official SDK connects by the URL
// alone, and calls the same capability with the same checks as a button or a slash command.
//
// covers: W9, C2, C3, C4
func TestAnOrdinaryClientCallsWhatPluginsCanDo(t *testing.T) {
	t.Parallel()
	dir := sdk(t)
	h := plugged(t)
	manager := h.person(t, "reviewer")
	installed := manager.ask(t, "POST", "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": "one", "package": m{"files": m{"manifest.json": notesPlugin}}})
	if installed.status != 200 {
		t.Fatalf("%+v", installed)
	}
	code := strings.TrimSpace(h.operate(t, "token", "--sign-in"))
	c := exec.CommandContext(t.Context(), "node", "testdata/plugins.mjs", dir, h.URL+"/mcp/capabilities?workspaceKey="+pluginSpace, "engineer", code, notesPlugin)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	type told struct {
		IsError, OK bool
		Data        struct {
			ExecutionID, State, Surface, PackageDigest string
			Valid                                      bool
			Result                                     struct{ Data struct{ Text string } }
		}
		Diagnostics []struct{ Code, Path string }
	}
	var saw struct {
		Scope, Resource string
		Tools           []struct {
			Name, Title string
			InputSchema m
		}
		First, Again, Wrong, Read, Good, Bad told
	}
	if err := json.Unmarshal(out, &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if saw.Scope != "px.tools" || saw.Resource != h.URL+"/mcp/capabilities" {
		t.Errorf("it asked for the scope %q of %q", saw.Scope, saw.Resource)
	}
	titles := map[string]bool{}
	for _, one := range saw.Tools {
		titles[one.Title] = true
	}
	if len(saw.Tools) != 6 || !titles["정리"] || !titles["찾기"] {
		t.Errorf("%+v", saw.Tools)
	}
	if saw.First.IsError || saw.First.Data.State != "succeeded" || saw.First.Data.Result.Data.Text != "요청을 다음 형식으로 정리합니다: girder" {
		t.Errorf("%+v", saw.First)
	}
	if saw.Again.Data.ExecutionID != saw.First.Data.ExecutionID || saw.Read.Data.Result != saw.First.Data.Result {
		t.Errorf("%+v\n%+v", saw.Again, saw.Read)
	}
	if !saw.Wrong.IsError || len(saw.Wrong.Diagnostics) != 1 || saw.Wrong.Diagnostics[0].Code != "EXTENSION_INPUT_INVALID" {
		t.Errorf("%+v", saw.Wrong)
	}
	if !saw.Good.Data.Valid || saw.Good.Data.PackageDigest == "" || saw.Bad.IsError || saw.Bad.Data.Valid || len(saw.Bad.Diagnostics) < 2 {
		t.Errorf("%+v\n%+v", saw.Good, saw.Bad)
	}
	// A button calls the same one under the same key: it is the same execution.
	same := manager.h.ai(t, "engineer").invoke(t, installed.at("instanceId"), "notes.tidy", m{"arguments": m{"query": "girder"}, "surface": "ai", "idempotencyKey": "turn-1"})
	if same.at("executionId") != saw.First.Data.ExecutionID {
		t.Errorf("%+v", same)
	}
}

// Pages of other origins reach the endpoints of ordinary clients where the operator says so.
//
// covers: W9
func TestAPageOfAnotherOriginIsServedWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "WebOrigins=https://app.example.com http://127.0.0.1:6274")
	token := h.token(t, "engineer")
	for _, path := range []string{"/mcp", "/mcp/capabilities?workspaceKey=" + pluginSpace} {
		for origin, want := range map[string]int{
			"": 200, h.URL: 200, "https://app.example.com": 200, "http://127.0.0.1:6274": 200,
			"http://app.example.com": 403, "https://app.example.com.evil.example": 403, "https://evil.example.com": 403, "null": 403,
		} {
			q, err := http.NewRequestWithContext(t.Context(), "POST", h.URL+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
			if origin != "" {
				q.Header.Set("Origin", origin)
			}
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s from %q: %d, want %d", path, origin, r.StatusCode, want)
			}
			// A browser lets a page read what is told to be for it, and sends the token only
			// after a preflight that says it may.
			q.Method, q.Body, q.ContentLength = "OPTIONS", nil, 0
			q.Header = http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"}}
			before, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			before.Body.Close()
			foreign := want == 200 && origin != "" && origin != h.URL
			for _, one := range []*http.Response{r, before} {
				if got := one.Header.Get("Access-Control-Allow-Origin"); (got == origin) != foreign && origin != "" || got == "*" {
					t.Errorf("%s from %q is told to be for %q", path, origin, got)
				}
			}
			if (before.StatusCode == 204 && strings.Contains(before.Header.Get("Access-Control-Allow-Headers"), "authorization")) != foreign {
				t.Errorf("%s from %q: the preflight says %d %v", path, origin, before.StatusCode, before.Header)
			}
		}
	}
}
