package acceptance

import (
	"encoding/json"
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
