package acceptance

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// project is the sample Project as px names it.
const project = "structural_team/bridge_package"

// packaged finds a Function of a package as function_search tells it.
func (c caller) packaged(t testing.TB, key string, filters m) (f struct {
	Target       m
	Availability string
}) {
	t.Helper()
	var found struct {
		Items []struct {
			Target       m
			Availability string
		}
	}
	c.ok(t, "function_search", m{"scope": sample, "query": key, "filters": filters}, &found)
	for _, f := range found.Items {
		if f.Target["functionKey"] == key {
			return f
		}
	}
	return f
}

// nodeOf is a Function's target as a Node names it.
func nodeOf(f m) m {
	node := m{"kind": "function"}
	for _, name := range []string{"functionKey", "version", "digest", "package"} {
		node[name] = f[name]
	}
	return node
}

// pipes is a Flow of one Node, whose target gives a modulus.
func pipes(key string, target m) m {
	return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": key}, "authoring": m{"kind": "native"},
		"inputs":  m{"diameter": scalar("mm"), "wall": scalar("mm")},
		"results": m{"modulus": with(scalar("mm^3"), m{"binding": nodeResult("pipe", "modulus")})},
		"nodes":   m{"pipe": m{"target": target, "inputBindings": m{"outer_diameter": flowInput("diameter"), "wall": flowInput("wall")}}}}
}

// ownModulus is a Function of the Project with the ports of pipe_modulus.
const ownModulus = "import px\n\n\n@px.function(\n    key=\"own_modulus\",\n    version=1,\n    description=\"Nothing\",\n    inputs={\"outer_diameter\": px.number(unit=\"mm\"), \"wall\": px.number(unit=\"mm\")},\n" +
	"    results={\"modulus\": px.number(unit=\"mm^3\")},\n    capabilities=[],\n)\ndef own_modulus(outer_diameter, wall):\n    return {\"modulus\": outer_diameter + wall}\n"

// A package is found, installed through the door of people, used, run behind gVisor and
// let go again, and at each step everything says the same of it.
//
// covers: S6, T4, T5, D1, D3, K5, P5, U4, X5
func TestAPackageIsInstalledUsedAndLetGo(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	h.operate(t, "seed")
	h.policy(t, `{"rules":[]}`)
	c := h.as(t, "engineer")
	available := c.packaged(t, "pipe_modulus", m{"availability": "available"})
	if available.Availability != "available" || c.packaged(t, "pipe_modulus", m{"availability": "installed"}).Target != nil {
		t.Fatalf("found as %+v", available)
	}
	type description struct {
		Availability                    string
		DependencyHandoff, OwnerHandoff m
		Usages                          []struct {
			FlowKey string
			Nodes   []m
		}
	}
	describe := func() (d description) {
		c.ok(t, "function_describe", m{"target": available.Target}, &d)
		return d
	}
	if d := describe(); d.Availability != "available" || d.DependencyHandoff == nil || d.OwnerHandoff != nil {
		t.Errorf("described as %+v", d)
	}
	pin := available.Target["package"].(m)
	release := pin["packageKey"].(string) + "@" + pin["version"].(string) + "#" + pin["digest"].(string)
	node := nodeOf(available.Target)

	// Nothing places it before it is installed, and who would is handed on.
	before := h.dump(t)
	document := pipes("pipes", node)
	target := flowTarget{sample, "pipes", digest(t, document)}
	create := m{"target": target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": document}}}
	told := c.refused(t, "pxflow_plan_change", create, "PX_DEPENDENCY_NOT_INSTALLED /commands/0/document/nodes/pipe/target")
	if len(told.Diagnostics) == 1 {
		handoff := told.Diagnostics[0].Params["handoff"].(m)
		if handoff["packageDigest"] != pin["digest"] || handoff["packageVersion"] != pin["version"] || handoff["action"] != "OPEN_PROJECT_DEPENDENCIES" {
			t.Errorf("handed on to %v", handoff)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"without a license":        {[]string{"add", release, "--as", "engineer"}, "PX_LICENSE_NOT_ACCEPTED"},
		"with another license":     {[]string{"add", release, "--as", "engineer", "--accept-license", "MIT"}, `"license":"Apache-2.0"`},
		"by who may not edit":      {[]string{"add", release, "--as", "viewer", "--accept-license", "Apache-2.0"}, "PX_PERMISSION_DENIED"},
		"by who is not there":      {[]string{"add", release, "--as", "other", "--accept-license", "Apache-2.0"}, "PX_TARGET_NOT_FOUND"},
		"by nobody":                {[]string{"add", release, "--accept-license", "Apache-2.0"}, "--as names who"},
		"the newest":               {[]string{"add", "px_sections", "--as", "engineer", "--accept-license", "Apache-2.0"}, "there is no newest one"},
		"without its digest":       {[]string{"add", "px_sections@1.0.0", "--as", "engineer", "--accept-license", "Apache-2.0"}, "exactly"},
		"of another version":       {[]string{"add", strings.Replace(release, "@1.0.0", "@1.0.1", 1), "--as", "engineer", "--accept-license", "Apache-2.0"}, "release_unknown"},
		"something else with a px": {[]string{"upgrade", release, "--as", "engineer"}, "add or remove"},
	} {
		if code, _, errs := h.px(t, "", append([]string{"project", "dependency", project}, c.args...)...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("installed %s: %d %s", name, code, errs)
		}
	}
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	lock := func(args ...string) (l struct {
		Packages  []string
		Licenses  map[string]string
		Python    string
		CommitRef string
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.operate(t, append([]string{"project", "dependency", project}, append(args, "--as", "engineer")...)...)), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := lock("add", release, "--accept-license", "Apache-2.0"); !slices.Equal(l.Packages, []string{release}) || l.CommitRef == "" || l.Licenses["px_sections"] != "Apache-2.0" || l.Python != "any" {
		t.Errorf("installed as %+v", l)
	}
	if l := lock("add", release, "--accept-license", "Apache-2.0"); l.CommitRef != "" {
		t.Errorf("installed again as %+v", l)
	}
	if d := describe(); d.Availability != "installed" || d.DependencyHandoff != nil || d.OwnerHandoff["action"] != "OPEN_OWNING_PACKAGE" || len(d.Usages) != 0 {
		t.Errorf("described as %+v", d)
	}
	if f := c.packaged(t, "pipe_modulus", m{"availability": "installed"}); f.Availability != "installed" || c.packaged(t, "pipe_modulus", m{"availability": "available"}).Target != nil {
		t.Errorf("found as %+v", f)
	}
	// It is read, and not written.
	c.refused(t, "function_plan_change", m{"target": available.Target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunctionVersion", "source": ownModulus, "referencePolicy": "all_current_usages",
		"functionRef": m{"functionKey": "pipe_modulus", "version": available.Target["version"], "digest": available.Target["digest"]}}}}, "PX_TARGET_READ_ONLY /target/package")

	// Planned anew, it is placed, and runs.
	f := c.create(t, sample, document)
	if d := describe(); len(d.Usages) != 1 || d.Usages[0].FlowKey != "pipes" || len(d.Usages[0].Nodes) != 1 {
		t.Errorf("used by %+v", d.Usages)
	}
	run := func(f flowHead, commandID string) m {
		return m{"kind": "RunFlow", "target": f.Target, "commandId": commandID, "inputs": m{"diameter": number(100, "mm"), "wall": number(1, "cm")}}
	}
	var started struct{ RunRef string }
	c.ok(t, "pxflow_run", run(f, "one"), &started)
	if r := c.finished(t, started.RunRef); r.State != "Succeeded" {
		t.Fatalf("%+v", r)
	}
	want := math.Pi * (math.Pow(100, 4) - math.Pow(80, 4)) / 3200
	if got := c.result(t, started.RunRef, "modulus"); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("the modulus is %v, not %v", got, want)
	}
	var ran struct{ RanBy, Packages []string }
	c.ok(t, "run_get", m{"runRef": started.RunRef}, &ran)
	if !slices.Equal(ran.Packages, []string{release}) || len(ran.RanBy) != 1 {
		t.Errorf("ran %+v", ran)
	}

	// A Report is connected to it, and a Batch is made of it.
	review := c.createReport(t, m{"format": "pxreport/1", "reportKey": "pipe_review", "label": m{"en": "Pipes"}, "blockOrder": list{"basis", "summary"}, "connections": m{}, "blocks": m{
		"basis":   m{"kind": "values", "fields": m{"d": with(scalar("mm"), m{"value": number(100, "mm")}), "w": with(scalar("mm"), m{"value": number(10, "mm")})}},
		"summary": m{"kind": "results", "slots": m{"modulus": scalar("mm^3")}}}})
	review = c.changeReport(t, review, "connect", feed(f, "d", "diameter", "basis", "d"), feed(f, "w", "wall", "basis", "w"), showIn("z", "modulus", "summary", "modulus"))
	connection := func(commandID string) m {
		return m{"kind": "RunReportFlowConnection", "commandId": commandID, "target": review.Target, "connectionKey": "check", "reason": "user"}
	}
	c.ok(t, "pxflow_run", connection("report"), &started)
	if r := c.finished(t, started.RunRef); r.State != "Succeeded" {
		t.Errorf("%+v", r)
	}
	batch := batchOf("check", m{"kind": "none"}, m{"caseKey": "thin", "inputs": m{"wall": number(1, "mm")}}, m{"caseKey": "thick", "inputs": m{"wall": number(20, "mm")}})
	b := c.startBatch(t, review, "batch", batch)
	if r := c.batchEnded(t, b.BatchRef); r.State != "Succeeded" || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
	late, _ := c.planReport(t, review, batch)

	// What is used stays installed; what is planned with it is applied only while it is.
	if code, _, errs := h.px(t, "", "project", "dependency", project, "remove", release, "--as", "engineer"); code == 0 || !strings.Contains(errs, "PX_DEPENDENCY_IN_USE") || !strings.Contains(errs, "flow/pipes") {
		t.Errorf("removed while it is used: %d %s", code, errs)
	}
	h.createFunctionFreely(t, c, "own_modulus", ownModulus)
	own := nodeOf(c.function(t, "own_modulus").Target)
	delete(own, "package")
	moved := c.change(t, f, "own", m{"kind": "ReplaceNodeTarget", "nodeKey": "pipe", "target": own})
	if d := describe(); len(d.Usages) != 0 {
		t.Errorf("used by %+v", d.Usages)
	}
	back := c.plan(t, moved, m{"kind": "ReplaceNodeTarget", "nodeKey": "pipe", "target": node})
	if l := lock("remove", release); len(l.Packages) != 0 || l.CommitRef == "" {
		t.Errorf("removed to %+v", l)
	}
	if l := lock("remove", release); l.CommitRef != "" {
		t.Errorf("removed again to %+v", l)
	}
	before = h.dump(t)
	c.refused(t, "pxflow_apply_change", back.application("back"), "PX_DEPENDENCY_NOT_INSTALLED /nodes/pipe/target")
	c.refused(t, "pxflow_run", run(f, "two"), "PX_DEPENDENCY_NOT_INSTALLED /target")
	c.refused(t, "pxflow_run", connection("late"), "PX_DEPENDENCY_NOT_INSTALLED /target")
	c.refused(t, "pxflow_run", m{"kind": "RunReportFlowBatch", "target": review.Target, "planRef": late.PlanRef, "planDigest": late.PlanDigest, "commandId": "late_batch"}, "PX_DEPENDENCY_NOT_INSTALLED /target")
	c.refused(t, "pxflow_run", m{"kind": "RetryBatchCase", "target": review.Target, "batchRef": b.BatchRef, "caseKey": "thin", "commandId": "late_case"}, "PX_DEPENDENCY_NOT_INSTALLED /batchRef")
	for _, tool := range []string{"pxflow_validate", "pxflow_describe"} {
		e := c.ok(t, tool, m{"target": f.Target}, nil)
		if !slices.Contains(e.told(), "PX_DEPENDENCY_NOT_INSTALLED /nodes/pipe/target") {
			t.Errorf("%s tells %q", tool, e.told())
		}
	}
	// A worker that waits for jobs tells that it lives.
	alive := func(row string) bool { return strings.HasPrefix(row, "RUNS workers ") }
	if changed := slices.DeleteFunc(before.changes(h.dump(t)), alive); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}
	// What was run is still there, and a retry of its command still answers.
	c.ok(t, "pxflow_run", run(f, "one"), nil)

	file := filepath.Join(t.TempDir(), "history")
	h.operate(t, "history", "export", project, file)
	if out := h.operate(t, "history", "verify", file); !strings.Contains(out, "is in order") {
		t.Error(out)
	}
}

// createFunctionFreely saves version 1 of a Function where policy asks for nothing.
func (h *host) createFunctionFreely(t *testing.T, c caller, key, source string) {
	t.Helper()
	var p plan
	c.ok(t, "function_plan_change", m{"target": m{"scope": sample, "functionKey": key}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": source}}}, &p)
	c.ok(t, "function_apply_change", p.application("create-"+key), nil)
}

// A Project pins the minor of its Python: another neither reads its Functions nor runs
// them, and says so.
//
// covers: U4, X5
func TestAProjectThatPinsItsPythonRunsWithNoOther(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	c := h.as(t, "engineer")
	f := c.create(t, sample, loads("flow_of_one", false, c.saveFunction(t, "grow", "    return {\"y\": 2 * x}\n")))
	var p plan
	c.ok(t, "function_plan_change", m{"target": m{"scope": sample, "functionKey": "early"}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": functionOf("early", "    return {\"y\": x}\n")}}}, &p)
	h.operate(t, "project", "python", project, "3.99", "--as", "engineer")
	r := c.finished(t, c.begin(t, f, "one", 1))
	if r.State != "Failed" || len(r.Diagnostics) != 1 || r.Diagnostics[0].Code != "PX_SANDBOX_UNAVAILABLE" || r.Diagnostics[0].Params["reason"] != "python_unavailable" || r.Diagnostics[0].Params["python"] != "3.99" {
		t.Errorf("%+v", r)
	}
	c.refused(t, "function_plan_change", m{"target": m{"scope": sample, "functionKey": "other"}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": functionOf("other", "    return {\"y\": x}\n")}}},
		"PX_SANDBOX_UNAVAILABLE /commands/0/source")
	// What another Python read is not saved under the pin.
	c.refused(t, "function_apply_change", p.application("early"), "PX_SANDBOX_UNAVAILABLE function/early:/source")
	if code, _, errs := h.px(t, "", "project", "python", project, "2.7", "--as", "engineer"); code == 0 || !strings.Contains(errs, "PX_SCHEMA_INVALID at /python") {
		t.Errorf("%d %s", code, errs)
	}
	h.operate(t, "project", "python", project, "any", "--as", "engineer")
	runRef := c.begin(t, f, "two", 1)
	if r := c.finished(t, runRef); r.State != "Succeeded" {
		t.Fatalf("%+v", r)
	}
	var told struct{ RanBy []string }
	c.ok(t, "run_get", m{"runRef": runRef}, &told)
	minor := strings.Join(strings.Split(strings.TrimPrefix(strings.Fields(told.RanBy[0])[0], "python="), ".")[:2], ".")
	h.operate(t, "project", "python", project, minor, "--as", "engineer")
	if r := c.finished(t, c.begin(t, f, "three", 1)); r.State != "Succeeded" {
		t.Errorf("%+v", r)
	}
}
