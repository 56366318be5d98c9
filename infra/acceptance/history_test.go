package acceptance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What an apply answers as its provenance is a link of the chain that an operator
// reads page by page, exports, and verifies where there is no host.
//
// covers: P10, P11
func TestAHistoryIsReadExportedAndVerifiedOffline(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	const project = "structural_team/bridge_package"
	flow := engineer.create(t, sample, beam("recorded"))
	p := engineer.plan(t, flow, m{"kind": "SetFlowLabel", "label": m{"en": "Recorded"}})
	var a struct {
		applied
		AuthoringProvenance m
	}
	engineer.ok(t, "pxflow_apply_change", p.application("recorded"), &a)
	last := a.AuthoringProvenance["commitRef"].(string)

	// Page by page, newest first, each naming the one before it.
	var commits []m
	for from := last; from != ""; {
		var page struct {
			Commits []m
			Next    string
		}
		if err := json.Unmarshal([]byte(h.operate(t, "history", "log", project, "--limit", "2", "--from", from)), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Commits) == 0 || len(page.Commits) > 2 || page.Commits[0]["commitRef"] != from {
			t.Fatalf("a page of %v from %s", page, from)
		}
		commits, from = append(commits, page.Commits...), page.Next
	}
	for i, c := range commits {
		if c["version"] != float64(len(commits)-i) || i+1 < len(commits) && c["parent"] != commits[i+1]["commitRef"] {
			t.Errorf("commit %d is %v", i, c)
		}
	}
	for _, member := range []string{"principal", "planRef", "planDigest", "commandId", "requestDigest", "toolContractVersion", "changeDigest"} {
		if commits[0][member] != a.AuthoringProvenance[member] || commits[0][member] == nil {
			t.Errorf("%s is %v in the chain and %v in the answer", member, commits[0][member], a.AuthoringProvenance[member])
		}
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "bridge.pxhistory")
	h.operate(t, "history", "export", project, file)
	if code, _, errs := h.px(t, "", "history", "export", project, file); code == 0 || !strings.Contains(errs, "exists already") {
		t.Errorf("an export over another: %d %s", code, errs)
	}
	if code, _, errs := h.px(t, "", "history", "export", "structural_team/nothing", filepath.Join(dir, "nothing")); code != 1 || !strings.Contains(errs, "does not exist") {
		t.Errorf("an export of nothing: %d %s", code, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	flow.Target.RevisionRef, flow.Generation = a.NewRevisionRef, a.NewGeneration
	engineer.change(t, flow, "later", m{"kind": "SetFlowLabel", "label": m{"en": "Later"}})
	longer := filepath.Join(dir, "longer.pxhistory")
	h.operate(t, "history", "export", project, longer)
	h.stop(t)

	// From here on there is no host, no state folder and no environment.
	verify := func(args ...string) (int, string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), px(), append([]string{"history", "verify"}, args...)...)
		c.Env, c.Dir = []string{}, t.TempDir()
		out, _ := c.CombinedOutput()
		return c.ProcessState.ExitCode(), string(out)
	}
	if code, out := verify(file); code != 0 || !strings.Contains(out, "is in order: project "+project) || !strings.Contains(out, last) {
		t.Errorf("%d %s", code, out)
	}
	if code, out := verify(file, "--head", last); code != 0 {
		t.Errorf("%d %s", code, out)
	}
	if code, out := verify(longer, "--head", last); code != 3 || !strings.Contains(out, "goes 1 commits beyond") {
		t.Errorf("an appended commit: %d %s", code, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "changed")
	for name, with := range map[string]func() []byte{
		"a byte":  func() []byte { c := append([]byte{}, text...); c[len(c)/2] ^= 1; return c },
		"the end": func() []byte { return text[:len(text)-1] },
		"half":    func() []byte { return text[:len(text)/2] },
		"more":    func() []byte { return append(append([]byte{}, text...), text...) },
		"nothing": func() []byte { return nil },
	} {
		if err := os.WriteFile(changed, with(), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := verify(changed); code != 3 || !strings.Contains(out, "is not in order") {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	if code, out := verify(filepath.Join(dir, "gone")); code != 1 {
		t.Errorf("%d %s", code, out)
	}
	if code, out := verify(); code != 2 {
		t.Errorf("%d %s", code, out)
	}
}
