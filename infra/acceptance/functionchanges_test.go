package acceptance

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/target"
)

type functionHead struct {
	Target      m      `json:"target"`
	Generation  int64  `json:"generation"`
	Description string `json:"description"`
	Owner       string `json:"owner"`
}

// function finds a Function of the sample Project by its key.
func (c caller) function(t testing.TB, key string) functionHead {
	t.Helper()
	var found struct{ Items []functionHead }
	c.ok(t, "function_search", m{"scope": sample, "query": key, "filters": m{"owner": "project"}}, &found)
	for _, f := range found.Items {
		if f.Target["functionKey"] == key {
			return f
		}
	}
	t.Fatalf("there is no Function %s", key)
	return functionHead{}
}

// scaler is the source of a Function that makes metres of metres.
func scaler(key string, version int, factor string) string {
	return fmt.Sprintf("import math\n\nimport px\n\n\n@px.function(\n    key=%q,\n    version=%d,\n    description=\"Scales a length\",\n    inputs={\"a\": px.number(unit=\"m\")},\n"+
		"    results={\"r\": px.number(unit=\"m\")},\n    capabilities=[],\n)\ndef scale(a):\n    return {\"r\": a * %s}\n", key, version, factor)
}

func newVersion(f functionHead, source string) m {
	return m{"target": f.Target, "expectedGeneration": f.Generation, "commands": list{m{"kind": "CreateFunctionVersion", "source": source, "referencePolicy": "all_current_usages",
		"functionRef": m{"functionKey": f.Target["functionKey"], "version": f.Target["version"], "digest": f.Target["digest"]}}}}
}

// createFunction saves version 1 of a Function, with the approval that the sample
// Project asks for.
func (h *host) createFunction(t *testing.T, c caller, key, source string) functionHead {
	t.Helper()
	var p plan
	c.ok(t, "function_plan_change", m{"target": m{"scope": sample, "functionKey": key}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": source}}}, &p)
	c.ok(t, "function_apply_change", with(p.application("create-"+key), m{"approvalRef": h.approve(t, p.PlanRef)}), nil)
	return c.function(t, key)
}

// From a draft that nobody has to a version that is used: search, describe, validate,
// plan, a person's approval, apply.
//
// covers: N1, N2, D3, U4, U6, P1, P6, P10
func TestTheWritePathOfAFunction(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")
	first := scaler("scale", 1, "2")

	// A new Function begins with a validation; who may only read may validate.
	var checked struct {
		Valid    bool
		Contract struct{ FunctionRef m }
	}
	viewer.ok(t, "function_validate_change", m{"scope": sample, "commands": list{m{"kind": "CreateFunction", "source": first}}}, &checked)
	if !checked.Valid || checked.Contract.FunctionRef["functionKey"] != "scale" {
		t.Fatalf("validated as %+v", checked)
	}
	validated := checked.Contract.FunctionRef
	wrong := viewer.ok(t, "function_validate_change", m{"scope": sample, "commands": list{m{"kind": "CreateFunction", "source": strings.Replace(first, "import math", "import socket", 1)}}}, &checked)
	if checked.Valid || len(wrong.Diagnostics) != 1 || wrong.Diagnostics[0].Code != "PX_SOURCE_INVALID" || wrong.Diagnostics[0].Params["line"] != 1.0 {
		t.Errorf("a socket is validated as %+v", wrong)
	}
	fresh := m{"target": m{"scope": sample, "functionKey": "scale"}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": first}}}
	viewer.refused(t, "function_plan_change", fresh, "PX_PERMISSION_DENIED /target/scope")
	var p plan
	engineer.ok(t, "function_plan_change", fresh, &p)
	before := h.dump(t)
	engineer.refused(t, "function_apply_change", p.application("create"), "PX_APPROVAL_REQUIRED /approvalRef")
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}
	approval := h.approve(t, p.PlanRef)
	var done struct {
		NewRevisionRef      string
		NewGeneration       int64
		AuthoringProvenance m
	}
	told := engineer.ok(t, "function_apply_change", with(p.application("create"), m{"approvalRef": approval}), &done)
	if done.NewGeneration != 0 || done.NewRevisionRef == "" || done.NewRevisionRef != validated["digest"] {
		t.Errorf("saved as %+v, validated as %v", done, validated)
	}
	if who := done.AuthoringProvenance; !strings.HasSuffix(who["approvedBy"].(string), "|reviewer") || strings.Contains(string(told.Data), "def scale") {
		t.Errorf("provenance %v", who)
	}
	if again := engineer.ok(t, "function_apply_change", with(p.application("create"), m{"approvalRef": approval}), nil); string(again.Data) != string(told.Data) {
		t.Errorf("again it answers %s", again.Data)
	}

	f := engineer.function(t, "scale")
	if f.Target["digest"] != done.NewRevisionRef {
		t.Errorf("saved as %+v, found as %v", done, f.Target)
	}
	used := engineer.create(t, sample, scaling("scaled", f, 1))
	var described struct {
		FunctionRef  m
		SourceDigest string
		Owner        m
		Inputs       m
		Usages       []struct {
			FlowKey string
			Nodes   []m
		}
		Operations []struct {
			Tool      string
			Permitted bool
		}
		Policy m
	}
	told = engineer.ok(t, "function_describe", m{"target": f.Target}, &described)
	if described.Owner["kind"] != "project" || described.SourceDigest != f.Target["sourceDigest"] || len(described.Usages) != 1 || described.Usages[0].FlowKey != "scaled" || described.Policy["changeNeedsApproval"] != true {
		t.Errorf("described as %+v", described)
	}
	if strings.Contains(string(told.Data), "def scale") || len(told.Resources) != 1 {
		t.Fatalf("the source is told, or not linked: %s %v", told.Data, told.Resources)
	}
	if status, text := h.fetched(t, "engineer", told); status != http.StatusOK || text != first {
		t.Errorf("the link leads to %d %q", status, text)
	}

	// The next version: the Flow moves with it.
	second := newVersion(f, scaler("scale", 2, "3"))
	engineer.ok(t, "function_validate_change", m{"scope": sample, "target": f.Target, "expectedGeneration": f.Generation, "commands": second["commands"]}, &checked)
	engineer.ok(t, "function_plan_change", second, &p)
	if code, out, errs := h.px(t, "", "review", p.PlanRef); code != 0 || !strings.Contains(out, "a * 3") || !strings.Contains(out, "flow/scaled") {
		t.Errorf("a reviewer reads %d %s%s", code, out, errs)
	}
	engineer.ok(t, "function_apply_change", with(p.application("second"), m{"approvalRef": h.approve(t, p.PlanRef)}), nil)
	if now := engineer.function(t, "scale"); now.Target["version"] != 2.0 || now.Generation != 1 {
		t.Errorf("the head is %+v", now)
	}
	if now := engineer.head(t, sample, "scaled"); now.Generation != 1 || now.Target.RevisionRef == used.Target.RevisionRef {
		t.Errorf("the Flow is %+v", now)
	}
	// What was planned from the first version is dead.
	engineer.refused(t, "function_plan_change", second, "PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/digest", "PX_GENERATION_STALE /target/sourceDigest")
}

// scaling is a Flow whose Nodes scale a length one after another.
func scaling(key string, f functionHead, nodes int) m {
	all, from := m{}, m{"kind": "flowInput", "portKey": "a"}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all[name] = m{"target": m{"kind": "function", "functionKey": f.Target["functionKey"], "version": f.Target["version"], "digest": f.Target["digest"]}, "inputBindings": m{"a": from}}
		from = m{"kind": "nodeResult", "nodeKey": name, "portKey": "r"}
	}
	return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": key}, "authoring": m{"kind": "native"}, "inputs": m{"a": scalar("m")},
		"results": m{"r": with(scalar("m"), m{"binding": from})}, "nodes": all}
}

// scaled is a Report that is connected to Flows.
func scaled(key string, flows ...flowTarget) m {
	connections, slots := m{}, m{}
	for i, f := range flows {
		slot := fmt.Sprintf("s%d", i)
		slots[slot] = scalar("m")
		connections[fmt.Sprintf("c%d", i)] = m{"flowTarget": f, "inputs": m{"in": m{"portKey": "a", "source": m{"kind": "reportValue", "blockKey": "v", "fieldKey": "a"}}},
			"results": m{"out": m{"portKey": "r", "target": m{"kind": "reportResultSlot", "blockKey": "r", "slotKey": slot}}}}
	}
	return m{"format": "pxreport/1", "reportKey": key, "blockOrder": list{"v", "r"}, "connections": connections,
		"blocks": m{"v": m{"kind": "values", "fields": m{"a": with(scalar("m"), m{"value": number(2, "m")})}}, "r": m{"kind": "results", "slots": slots}}}
}

// saveAll saves new Flows and Reports in one commit, with the operator's key.
func (h *host) saveAll(t *testing.T, documents ...m) {
	t.Helper()
	parts, project := h.parts(t), target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}
	d := change.Draft{Tool: "test", Project: project, Policy: policy.Policy{}, Subject: policy.OnFlow, Target: canon.Raw(`{}`), Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`)}
	for _, text := range documents {
		c := change.Change{}
		var ref string
		var err error
		if key, ok := text["flowKey"].(string); ok {
			doc, findings := flow.Decode([]byte(encode(t, text)))
			if findings != nil {
				t.Fatal(findings)
			}
			c.Kind, c.Key = "flow", key
			c.Document, ref, err = doc.RevisionRef()
			c.Entry.Uses = flow.Uses(doc)
		} else {
			doc, findings := report.Decode([]byte(encode(t, text)))
			if findings != nil {
				t.Fatal(findings)
			}
			c.Kind, c.Key = "report", doc.ReportKey
			c.Document, ref, err = doc.RevisionRef()
			c.Entry.Uses = report.Uses(doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Entry.RevisionRef, c.Text = history.Ref(ref), c.Key
		d.Changes = append(d.Changes, c)
	}
	author := change.Author{Principal: h.URL + "|engineer"}
	p, findings, err := parts.Planner().Plan(t.Context(), author, d)
	if findings != nil || err != nil {
		t.Fatal(findings, err)
	}
	if _, findings, err := parts.Applier(nil).Apply(t.Context(), change.Application{Author: author, Tool: "test", Project: project, Target: canon.Raw(`{}`),
		Address: d.Changes[0].CatalogKey(), PlanRef: p.PlanRef, PlanDigest: p.PlanDigest, CommandID: p.PlanRef}); findings != nil || err != nil {
		t.Fatal(findings, err)
	}
}

// wholePlan plans and reads the answer in as many parts as there are.
func (c caller) wholePlan(t *testing.T, request m) (p plan, flows, reports []m, uses int) {
	t.Helper()
	for cursor := ""; ; {
		var part struct {
			plan
			Impact struct {
				Uses           []m
				Flows, Reports []m
			}
			Truncation *struct{ Continuation struct{ Value string } }
		}
		if cursor != "" {
			request = with(request, m{"cursor": cursor})
		}
		c.ok(t, "function_plan_change", request, &part)
		if cursor == "" {
			p = part.plan
		}
		flows, reports, uses = append(flows, part.Impact.Flows...), append(reports, part.Impact.Reports...), uses+len(part.Impact.Uses)
		if part.Truncation == nil {
			return p, flows, reports, uses
		}
		cursor = part.Truncation.Continuation.Value
	}
}

// Three hundred Flows and sixty Reports: one plan lists them all, one apply moves them
// all, and with one target made stale meanwhile, or one usage that came, nothing moves.
//
// covers: N3, N5, P4, P5, G1
func TestOnePlanMovesEverythingThatUsesAFunction(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := h.createFunction(t, engineer, "scale", scaler("scale", 1, "2"))
	const flows, reports = 300, 60
	var documents []m
	at := func(i int) flowTarget {
		return flowTarget{sample, fmt.Sprintf("flow_%03d", i), digest(t, scaling(fmt.Sprintf("flow_%03d", i), f, 2))}
	}
	for i := range flows {
		documents = append(documents, scaling(fmt.Sprintf("flow_%03d", i), f, 2))
	}
	for i := range reports {
		documents = append(documents, scaled(fmt.Sprintf("report_%02d", i), at(i), at(flows-1-i)))
	}
	h.saveAll(t, documents...)

	begin := time.Now()
	request := newVersion(f, scaler("scale", 2, "3"))
	p, movedFlows, movedReports, uses := engineer.wholePlan(t, request)
	t.Logf("a plan of %d targets is told whole after %v", 1+flows+reports, time.Since(begin).Round(time.Millisecond))
	if len(movedFlows) != flows || len(movedReports) != reports || uses != 2*flows+2*reports {
		t.Fatalf("%d Flows and %d Reports at %d places", len(movedFlows), len(movedReports), uses)
	}
	approval := h.approve(t, p.PlanRef)

	// One target moves on, and one usage comes: each alone stops all of it.
	one := engineer.head(t, sample, "flow_007")
	one = engineer.change(t, one, "meanwhile", m{"kind": "SetFlowLabel", "label": m{"en": "Meanwhile"}})
	before := h.dump(t)
	told := engineer.refused(t, "function_apply_change", with(p.application("move"), m{"approvalRef": approval}), "PX_GENERATION_STALE /planRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["target"] != "flow/flow_007" {
		t.Errorf("told %+v", told.Diagnostics)
	}
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}
	p, _, _, _ = engineer.wholePlan(t, request)
	approval = h.approve(t, p.PlanRef)
	engineer.create(t, sample, scaling("late", f, 1))
	before = h.dump(t)
	told = engineer.refused(t, "function_apply_change", with(p.application("move"), m{"approvalRef": approval}), "PX_GENERATION_STALE /planRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["rule"] != "usage_appeared" {
		t.Errorf("told %+v", told.Diagnostics)
	}
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	// Planned anew, one apply moves all.
	var anew plan
	engineer.ok(t, "function_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "rebaseFromPlanRef": p.PlanRef}, &anew)
	approval = h.approve(t, anew.PlanRef)
	begin = time.Now()
	var done struct{ NewGeneration int64 }
	engineer.ok(t, "function_apply_change", with(anew.application("move"), m{"approvalRef": approval}), &done)
	t.Logf("%d targets are applied after %v", 2+flows+reports, time.Since(begin).Round(time.Millisecond))
	now := engineer.function(t, "scale")
	if done.NewGeneration != 1 || now.Target["version"] != 2.0 {
		t.Errorf("the Function is %+v", now)
	}
	var described struct {
		Usages []struct {
			Nodes []struct{ Version int }
		}
	}
	engineer.ok(t, "function_describe", m{"target": now.Target}, &described)
	counted := 0
	for _, u := range described.Usages {
		for _, n := range u.Nodes {
			if counted++; n.Version != 2 {
				t.Errorf("a Node runs version %d", n.Version)
			}
		}
	}
	if counted != 2*flows+1 {
		t.Errorf("%d Nodes run it", counted)
	}
	// What was pinned to flow_007 before it was edited stays with what it was.
	stayed := 7
	for _, i := range []int{0, stayed, 20, 59} {
		var found struct {
			Connections map[string]struct {
				FlowTarget flowTarget `json:"flowTarget"`
			}
		}
		r := engineer.report(t, fmt.Sprintf("report_%02d", i))
		engineer.ok(t, "report_describe", m{"target": r.Target}, &found)
		for key, c := range found.Connections {
			head := engineer.head(t, sample, c.FlowTarget.FlowKey)
			if moved := reflect.DeepEqual(head.Target, c.FlowTarget); moved == (c.FlowTarget.FlowKey == one.Target.FlowKey) || r.Generation != 1 {
				t.Errorf("report_%02d %s is pinned to %v, the Flow is at %v", i, key, c.FlowTarget, head)
			}
		}
	}
}
