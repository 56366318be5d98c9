package acceptance

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// onTerminal runs px in front of a person, who types what is asked for: after each text
// that is waited for, a line.
func (h *host) onTerminal(t *testing.T, dialogue [][2]string, args ...string) (code int, shown string) {
	t.Helper()
	cmd := exec.Command(px(), append(args, "--state", h.state)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 110})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out output
	done := make(chan struct{})
	go func() {
		io.Copy(&out, file) // ends with an error when px does
		close(done)
	}()
	deadline := time.Now().Add(time.Minute)
	for _, turn := range dialogue {
		for !strings.Contains(out.String(), turn[0]) {
			if time.Now().After(deadline) {
				cmd.Process.Kill()
				t.Fatalf("px %v does not show %q but\n%s", args, turn[0], out.String())
			}
			time.Sleep(10 * time.Millisecond)
		}
		file.WriteString(turn[1])
	}
	select {
	case <-done:
	case <-time.After(time.Until(deadline)):
		cmd.Process.Kill()
		t.Fatalf("px %v does not end; it shows\n%s", args, out.String())
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(out.String(), "\r\n", "\n")
}

func found(t *testing.T, pattern, text string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s is not in\n%s", pattern, text)
	}
	return m[1]
}

// From search to result without a line of JSON: a change that is planned, looked at in
// its colours, applied once, and the new revision run, with its results as a table.
//
// covers: W10, T2
func TestAnEngineerWorksFromAShell(t *testing.T) {
	h := start(t)
	const project = "--project=structural_team/bridge_package"
	code, shown := h.onTerminal(t, nil, "plan", "girder_check", `{"kind": "SetFlowLabel", "label": {"en": "Girder check, interior girder", "ko": "거더 검토, 내측 거더"}}`, project)
	if code != 0 || !strings.Contains(shown, "\x1b[31m- {\"en\":\"Girder check, HS20-44\"") || !strings.Contains(shown, "\x1b[32m+ {\"en\":\"Girder check, interior girder\",\"ko\":\"거더 검토, 내측 거더\"}") || !strings.Contains(shown, "report/girder_review") {
		t.Fatalf("%d %s", code, shown)
	}
	plan := found(t, `px apply (plan_\w+)`, shown)
	code, shown = h.onTerminal(t, [][2]string{{"Apply it? [y/N] ", "y\n"}}, "apply", plan)
	if code != 0 || !strings.Contains(shown, "commandId   px-") || !strings.Contains(shown, "girder_check") {
		t.Fatalf("%d %s", code, shown)
	}
	revision := found(t, `newRevisionRef\S*\s+(sha256:\w+)`, shown)
	// Again: the same command, the same answer.
	digest := found(t, `Digest +(sha256:\w+)`, shown)
	code, out, errs := h.px(t, "", "apply", plan, "--yes", "--digest", digest)
	if code != 0 || !strings.Contains(out, revision) {
		t.Fatalf("%d %s%s", code, out, errs)
	}

	inputs := []string{"--in", "span=60ft", "--in", "dead_load=1.2kip/ft", "--in", "impact=0.3", "--in", "section_modulus=1500in^3", "--in", "yield_stress=50ksi"}
	code, shown = h.onTerminal(t, nil, append([]string{"run", "girder_check", project, "--watch"}, inputs...)...)
	if code != 0 || !strings.Contains(shown, `"revisionRef":"`+revision+`"`) || !regexp.MustCompile(`live_moment +806\.5333333333334  kip\*ft`).MatchString(shown) || !strings.Contains(shown, "10 of 10 Nodes") {
		t.Fatalf("%d %s", code, shown)
	}
	// The revision before it is still there, and is run exactly; metres fit.
	inputs[1] = "span=18.288 m"
	old := `{"scope":{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"},"flowKey":"girder_check","revisionRef":"` + found(t, `"revisionRef":"(sha256:\w+)"`, plannedTarget(t, h, plan)) + `"}`
	if code, out, errs := h.px(t, "", append([]string{"run", old, "--watch"}, inputs...)...); code != 0 || !strings.Contains(out, "806.5333333333334") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	// A unit of another kind is refused, and what is to be done is said.
	inputs[1] = "span=60kN"
	if code, shown := h.onTerminal(t, nil, append([]string{"run", "girder_check", project}, inputs...)...); code != 1 || !strings.Contains(shown, "PX_UNIT_MISMATCH") || !strings.Contains(shown, "/inputs/span/unit") || !strings.Contains(shown, "in a unit of the same kind") {
		t.Fatalf("%d %s", code, shown)
	}
	if code, out, errs := h.px(t, "", "run", "girder_chek", project); code != 1 || out != "" || !strings.Contains(errs, "nothing in structural_team/bridge_package that this principal may read has the key girder_chek") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
}

func plannedTarget(t *testing.T, h *host, plan string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.state, "px", "plans", plan+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A Function from its file, with an approval; and a Batch from its plan to its governing
// case.
//
// covers: W10, U6
func TestFunctionsAndBatchesFromAShell(t *testing.T) {
	h := start(t)
	const project = "--project=structural_team/bridge_package"
	file := filepath.Join(t.TempDir(), "doubled.py")
	write := func(version int, body string) {
		t.Helper()
		source := fmt.Sprintf("import px\n\n@px.function(\n    key=\"doubled\", version=%d, description=\"Twice a length\",\n    inputs={\"x\": px.number(unit=\"m\")},\n    results={\"y\": px.number(unit=\"m\")},\n)\ndef doubled(x):\n    return {\"y\": %s}\n", version, body)
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for version, body := range []string{"2 * x", "x + x"} {
		write(version+1, body)
		code, shown := h.onTerminal(t, nil, "plan", "function/doubled", file, project)
		if code != 0 || version == 1 && (!strings.Contains(shown, "\x1b[31m-    return {\"y\": 2 * x}\x1b[0m") || !strings.Contains(shown, "\x1b[32m+    return {\"y\": x + x}\x1b[0m")) {
			t.Fatalf("%d %s", code, shown)
		}
		plan := found(t, `px approve (plan_\w+)`, shown)
		if code, shown := h.onTerminal(t, [][2]string{{"[y/N] ", "y\n"}}, "apply", plan); code != 1 || !strings.Contains(shown, "px approve "+plan) {
			t.Fatalf("without an approval: %d %s", code, shown)
		}
		code, shown = h.onTerminal(t, [][2]string{{"Type yes to approve it: ", "yes\n"}}, "approve", plan)
		if code != 0 {
			t.Fatalf("%d %s", code, shown)
		}
		next := strings.Fields(found(t, `px (apply plan_\w+ --approval approval_\w+)`, shown))
		if code, shown := h.onTerminal(t, [][2]string{{"[y/N] ", "y\n"}}, next...); code != 0 || !strings.Contains(shown, fmt.Sprintf("doubled@%d", version+1)) {
			t.Fatalf("%d %s", code, shown)
		}
	}

	code, shown := h.onTerminal(t, nil, "plan", "girder_review", `{"kind": "RunReportFlowBatch", "connectionKey": "girder_check",
		"cases": [{"caseKey": "span_60", "inputs": {"span": {"value": 60, "unit": "ft"}}}, {"caseKey": "span_120", "inputs": {"span": {"value": 120, "unit": "ft"}}}],
		"merge": {"kind": "envelope", "portKeys": ["live_moment"], "by": "max"}}`, project)
	if code != 0 {
		t.Fatalf("%d %s", code, shown)
	}
	batch := found(t, `px run (plan_\w+)`, shown)
	if code, _, errs := h.px(t, "", "apply", batch, "--yes", "--digest", "sha256:x"); code != 2 || !strings.Contains(errs, "digest") {
		t.Errorf("%d %s", code, errs)
	}
	code, shown = h.onTerminal(t, nil, "run", batch, "--watch")
	if code != 0 || !strings.Contains(shown, "2 of 2 cases") || !strings.Contains(shown, "caseKey span_120, portKey live_moment, value 1883.266666666666 kip*ft") || !strings.Contains(shown, "span_60") {
		t.Fatalf("%d %s", code, shown)
	}
}
