package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A plan is no promise: what it was checked for is checked again when it is
// applied, and what changed meanwhile is told by its own code.
// covers: P4, P5
func TestApplyChecksAgainWhatPlanChecked(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	const project = "structural_team/bridge_package"
	grant := func(rights string) {
		t.Helper()
		h.operate(t, "project", "grant", project, "--to", "engineer", "--rights", rights)
	}
	rules := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "policy.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.operate(t, "project", "policy", project, file)
	}
	refused := func(name string, want ...string) {
		t.Helper()
		before := h.dump(t)
		told := engineer.refused(t, "pxflow_apply_change", p.application("apply"), want...)
		if changed := before.changes(h.dump(t)); len(changed) > 0 {
			t.Errorf("%s: told %q, and the store changed: %q", name, told.told(), changed)
		}
	}
	grant("read,run")
	refused("without the right to edit", "PX_PERMISSION_DENIED /target/scope")
	grant("")
	refused("without the right to read", "PX_TARGET_NOT_FOUND /target/scope")
	grant("read,edit,run,approve")
	rules(`{"rules": [{"on": "flow", "kinds": ["SetFlowLabel"], "approval": "required"}, {"on": "run", "maxCost": 0, "approval": "required"}]}`)
	refused("under a policy that asks for approval", "PX_APPROVAL_REQUIRED /approvalRef")
	// An approval cannot be made up, and no tool gives one.
	engineer.refused(t, "pxflow_apply_change", with(p.application("apply"), m{"approvalRef": "approval_01ARZ3NDEKTSV4RRFFQ69G5FAV"}), "PX_APPROVAL_INVALID /approvalRef")
	var planned struct{ Approval struct{ Required bool } }
	engineer.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "y"}}}}, &planned)
	if !planned.Approval.Required {
		t.Error("the plan does not tell that it needs an approval")
	}
	engineer.refused(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "r", "inputs": m{"span": number(1, "m"), "load": number(1, "kN/m")}}, "PX_APPROVAL_REQUIRED /approvalRef")
	rules(`{"rules": []}`)
	// Nothing of it used the plan up.
	var a applied
	engineer.ok(t, "pxflow_apply_change", p.application("apply"), &a)
	if a.NewGeneration != 1 {
		t.Errorf("applied as %+v", a)
	}

	// From A to B and back to A: the document is that of before, its generation is
	// not, and the plan of before stays dead.
	f.Target.RevisionRef, f.Generation = a.NewRevisionRef, 1
	old := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "from the old one"}})
	there := engineer.change(t, f, "there", m{"kind": "SetFlowLabel", "label": m{"en": "b"}})
	back := engineer.change(t, there, "back", m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	if back.Target.RevisionRef != f.Target.RevisionRef || back.Generation != 3 {
		t.Fatalf("from A to B to A: %+v", back)
	}
	engineer.refused(t, "pxflow_apply_change", old.application("old"), "PX_GENERATION_STALE /expectedGeneration")
	engineer.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 1, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "z"}}}}, "PX_GENERATION_STALE /expectedGeneration")
}

// Equal plans have equal digests, whoever made them in whatever order, and labels
// are no part of them; another change has another.
// covers: P3
func TestEqualPlansHaveEqualDigests(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "reviewer", "--rights", "read,edit")
	engineer, reviewer := h.as(t, "engineer"), h.as(t, "reviewer")
	f := engineer.create(t, sample, beam("footbridge"))
	connect := func(value string) string {
		return fmt.Sprintf(`{"kind":"ConnectInput","nodeKey":"moment","portKey":"w","binding":{"kind":"literal","value":{"value":%s,"unit":"kN/m"}}}`, value)
	}
	digestOf := func(c caller, commands string) string {
		t.Helper()
		var p plan
		c.ok(t, "pxflow_plan_change", fmt.Sprintf(`{"expectedGeneration":0,"commands":[%s],"target":%s}`, commands, encode(t, f.Target)), &p)
		return p.PlanDigest
	}
	first := digestOf(engineer, connect("4"))
	for name, other := range map[string]string{
		"made by another":             digestOf(reviewer, connect("4")),
		"with a number spelt anew":    digestOf(engineer, connect("40e-1")),
		"with names in another order": digestOf(engineer, `{"binding":{"value":{"unit":"kN/m","value":4.0},"kind":"literal"},"portKey":"w","nodeKey":"moment","kind":"ConnectInput"}`),
	} {
		if other != first {
			t.Errorf("%s: another digest", name)
		}
	}
	if digestOf(engineer, connect("5")) == first {
		t.Error("another value, and the same digest")
	}
	if digestOf(engineer, `{"kind":"SetFlowLabel","label":{"en":"a"}}`) != digestOf(engineer, `{"kind":"SetFlowLabel","label":{"ko":"나"}}`) {
		t.Error("a label is part of the digest")
	}
}

// What px local prints to be pasted works as it is pasted.
// covers: H4
func TestThePastedCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI has no curl")
		}
		t.Skip("the commands to paste need curl")
	}
	h := start(t)
	_, try, ok := strings.Cut(h.out.String(), "Try:\n")
	try, _, ready := strings.Cut(try, "\nReady.")
	if !ok || !ready {
		t.Fatalf("px local prints no commands to paste: %s", h.out)
	}
	script := exec.CommandContext(t.Context(), "sh", "-eu", "-c", try)
	script.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PX_") })
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "806.5333333333334") {
		t.Errorf("the first result is not among what they print: %s", out)
	}
	replies := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool { return !strings.HasPrefix(line, "{") })
	if commands := strings.Count(try, "curl "); commands < 2 || len(replies) != commands {
		t.Fatalf("%d commands, %d replies: %s", commands, len(replies), out)
	}
	for _, text := range replies {
		if got := read(t, text); got.Code != 0 || got.Envelope != nil && !got.Envelope.OK {
			t.Errorf("answered %s", text)
		}
	}
	if !regexp.MustCompile(`"projectKey":"bridge_package"`).MatchString(string(out)) || !strings.Contains(string(out), `"pxflow_plan_change"`) {
		t.Errorf("the replies name neither the tools nor the sample Project: %.500s", out)
	}
}
