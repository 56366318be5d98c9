package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

type rebasedPlan struct {
	plan
	Base                 m
	Commands             list
	TouchedSemanticPaths []string
	RebasedFrom          *struct {
		PlanRef, PlanDigest string
		Base                m
	}
}

// rebase plans an older plan of a Flow again at its head.
func (f flowHead) rebase(from plan) m {
	return m{"target": f.Target, "expectedGeneration": f.Generation, "rebaseFromPlanRef": from.PlanRef}
}

// conflicts are the paths of the one PX_MERGE_CONFLICT, with their members.
func conflictsOf(t *testing.T, e envelope) []m {
	t.Helper()
	if len(e.Diagnostics) == 0 || e.Diagnostics[0].Code != "PX_MERGE_CONFLICT" {
		t.Fatalf("no conflict: %+v", e)
	}
	var out []m
	for _, c := range e.Diagnostics[0].Params["conflicts"].([]any) {
		out = append(out, c.(m))
	}
	return out
}

// A revision conflict: what is independent is planned again on the newest revision,
// and what meets is told, and decided by a person.
//
// covers: P8, P9, P3, G1
func TestARevisionConflictIsRebasedOrTold(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("rebased"))
	add := func(node string) m {
		return m{"kind": "AddNode", "nodeKey": node, "target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
			"settings": formula("w * 2", "kN/m", m{"w": m{"unit": "kN/m"}}, nil)["settings"], "inputBindings": m{"w": flowInput("load")}}
	}
	label := func(text string) m { return m{"kind": "SetFlowLabel", "label": m{"en": text}} }
	port := func(unit string) m { return m{"kind": "ChangeInputPort", "portKey": "load", "contract": scalar(unit)} }

	mine := engineer.plan(t, flow, add("mine"))
	meets := engineer.plan(t, flow, port("N/m"))
	mixed := engineer.plan(t, flow, add("theirs"), label("Mine"))
	needs := engineer.plan(t, flow, m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": flowInput("load")})
	head := engineer.change(t, flow, "theirs", add("theirs"), port("kN/m"), m{"kind": "ChangeInputPort", "portKey": "load", "contract": with(scalar("kN/m"), m{"constraints": m{"minimum": 0}})}, label("Theirs"))

	// The old plan is stale, and stays so.
	engineer.refused(t, "pxflow_apply_change", mine.application("dead"), "PX_GENERATION_STALE /expectedGeneration")

	// Independent: another plan, equal to a fresh one of the same commands.
	var again, fresh rebasedPlan
	engineer.ok(t, "pxflow_plan_change", head.rebase(mine), &again)
	engineer.ok(t, "pxflow_plan_change", m{"target": head.Target, "expectedGeneration": head.Generation, "commands": list{add("mine")}}, &fresh)
	if again.PlanRef == mine.PlanRef || again.PlanDigest == mine.PlanDigest || again.PlanDigest != fresh.PlanDigest || fresh.RebasedFrom != nil {
		t.Errorf("rebased %+v\nfresh %+v", again, fresh)
	}
	if from := again.RebasedFrom; from == nil || from.PlanRef != mine.PlanRef || from.PlanDigest != mine.PlanDigest || from.Base["revisionRef"] != flow.Target.RevisionRef {
		t.Errorf("rebased from %+v", from)
	}
	if again.Base["revisionRef"] != head.Target.RevisionRef || again.ExpectedGeneration != 1 {
		t.Errorf("rebased onto %+v", again)
	}

	// Overlapping: each path, with what stands on each side, and the rest not.
	got := conflictsOf(t, engineer.refused(t, "pxflow_plan_change", head.rebase(meets), "PX_MERGE_CONFLICT /rebaseFromPlanRef"))
	if len(got) != 1 || got[0]["path"] != "/inputs/load" || got[0]["base"].(m)["unit"] != "kN/m" || got[0]["current"].(m)["constraints"] == nil || got[0]["proposed"].(m)["unit"] != "N/m" {
		t.Errorf("conflicts %v", got)
	}
	got = conflictsOf(t, engineer.refused(t, "pxflow_plan_change", head.rebase(mixed), "PX_MERGE_CONFLICT /rebaseFromPlanRef"))
	if len(got) != 2 || got[0]["path"] != "/label" || got[1]["path"] != "/nodes/theirs" || got[1]["base"] != nil || got[1]["current"] == nil || got[1]["proposed"] == nil {
		t.Errorf("conflicts %v", got)
	}
	// Fewer than there are is said.
	few := engineer.call(t, "pxflow_plan_change", with(head.rebase(mixed), m{"budget": m{"items": 1}})).Envelope
	if few == nil || len(few.Diagnostics) == 0 || few.Diagnostics[len(few.Diagnostics)-1].Code != "PX_LIMIT_EXCEEDED" {
		t.Errorf("with room for one conflict: %+v", few)
	}
	// The person chooses, by commands that are fresh or that go on from the plan.
	var chosen rebasedPlan
	engineer.ok(t, "pxflow_plan_change", with(head.rebase(mixed), m{"commands": list{add("mine_too")}}), &chosen)
	if len(chosen.Commands) != 1 || chosen.RebasedFrom == nil {
		t.Errorf("chosen %+v", chosen)
	}
	got = conflictsOf(t, engineer.refused(t, "pxflow_plan_change", with(head.rebase(mine), m{"commands": list{label("Other")}}), "PX_MERGE_CONFLICT /rebaseFromPlanRef"))
	if len(got) != 1 || got[0]["path"] != "/label" {
		t.Errorf("conflicts of sent commands: %v", got)
	}

	// Not on another revision than the newest, nor of another plan than one's own.
	engineer.refused(t, "pxflow_plan_change", flow.rebase(mine), "PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/revisionRef")
	engineer.refused(t, "pxflow_plan_change", with(head.rebase(mine), m{"rebaseFromPlanRef": "plan_x"}), "PX_PLAN_NOT_FOUND /rebaseFromPlanRef")
	h.operate(t, "project", "grant", "structural_team/bridge_package", "--to", "reviewer", "--rights", "read,edit")
	h.as(t, "reviewer").refused(t, "pxflow_plan_change", head.rebase(mine), "PX_PLAN_NOT_FOUND /rebaseFromPlanRef")
	engineer.refused(t, "pxflow_plan_change", engineer.head(t, sample, "girder_check").rebase(mine), "PX_PLAN_MISMATCH /rebaseFromPlanRef")
	engineer.refused(t, "report_plan_change", m{"target": engineer.report(t, "girder_review").Target, "expectedGeneration": engineer.report(t, "girder_review").Generation, "rebaseFromPlanRef": mine.PlanRef}, "PX_PLAN_NOT_FOUND /rebaseFromPlanRef")
	engineer.refused(t, "pxflow_plan_change", m{"target": head.Target, "expectedGeneration": 1}, "PX_SCHEMA_INVALID ")

	// The rebased plan is a plan: it applies, once. What it was made from stays dead,
	// and so does every other plan of the old base, when the document becomes what it
	// was at that base.
	var a applied
	engineer.ok(t, "pxflow_apply_change", again.application("again"), &a)
	engineer.refused(t, "pxflow_apply_change", mine.application("dead"), "PX_GENERATION_STALE /expectedGeneration")
	head.Target.RevisionRef, head.Generation = a.NewRevisionRef, a.NewGeneration
	back := engineer.change(t, head, "back", m{"kind": "RemoveNode", "nodeKey": "mine"}, m{"kind": "RemoveNode", "nodeKey": "theirs"}, port("kN/m"),
		m{"kind": "SetFlowLabel", "label": beam("rebased")["label"]})
	if back.Target.RevisionRef != flow.Target.RevisionRef || back.Generation != 3 {
		t.Fatalf("not back at the first document: %+v", back)
	}
	for i, old := range []plan{mine, meets, mixed, needs, again.plan} {
		engineer.refused(t, "pxflow_apply_change", old.application(fmt.Sprintf("revived-%d", i)), "PX_GENERATION_STALE /expectedGeneration")
		told := engineer.call(t, "pxflow_apply_change", with(old.application(fmt.Sprintf("revived-%d", i)), m{"target": back.Target, "expectedGeneration": back.Generation}))
		if told.Envelope == nil || told.Envelope.OK {
			t.Errorf("a plan came back to life: %+v", told)
		}
	}

	// On the first document again, nothing differs from the base of the old plan: it is
	// planned anew, as another plan. A contract that fails keeps its own code.
	engineer.ok(t, "pxflow_plan_change", back.rebase(meets), nil)
	without := engineer.change(t, back, "without", m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")}, m{"kind": "RemoveInputPort", "portKey": "load"})
	engineer.refused(t, "pxflow_plan_change", without.rebase(mine), "PX_REFERENCE_UNKNOWN /nodes/mine/inputBindings/w/portKey")

	// A first save goes on from nothing.
	document := beam("first")
	first := flowHead{Target: flowTarget{sample, "first", digest(t, document)}}
	create := engineer.plan(t, first, m{"kind": "CreateFlow", "document": document})
	var equal rebasedPlan
	engineer.ok(t, "pxflow_plan_change", first.rebase(create), &equal)
	if equal.PlanRef == create.PlanRef || equal.PlanDigest != create.PlanDigest {
		t.Errorf("%+v", equal)
	}
	engineer.ok(t, "pxflow_apply_change", equal.application("first"), nil)
	engineer.refused(t, "pxflow_plan_change", first.rebase(create), "FlowHeadAlreadyExists /target/flowKey")
	engineer.refused(t, "pxflow_plan_change", with(first.rebase(create), m{"commands": list{label("x")}}), "PX_PLAN_MISMATCH /rebaseFromPlanRef")
}

// covers: P8
func TestAReportIsRebasedByItsPlaces(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	r := engineer.createReport(t, reviewOf("rebased_review"))
	value := func(field string, v float64, unit string) m {
		return m{"kind": "SetFieldValue", "blockKey": "basis", "fieldKey": field, "value": number(v, unit)}
	}
	mine, _ := engineer.planReport(t, r, value("span", 50, "ft"))
	meets, _ := engineer.planReport(t, r, value("load", 5, "kN/m"))
	head := engineer.changeReport(t, r, "theirs", value("load", 6, "kN/m"), m{"kind": "AddBlock", "blockKey": "note", "block": m{"kind": "text", "text": strings.Repeat("가", 10)}})
	ask := func(p reportPlan) m {
		return m{"target": head.Target, "expectedGeneration": head.Generation, "rebaseFromPlanRef": p.PlanRef}
	}
	var again rebasedPlan
	engineer.ok(t, "report_plan_change", ask(mine), &again)
	got := conflictsOf(t, engineer.refused(t, "report_plan_change", ask(meets), "PX_MERGE_CONFLICT /rebaseFromPlanRef"))
	text, _ := json.Marshal(got)
	if want := `[{"base":{"unit":"kN/m","value":4},"current":{"unit":"kN/m","value":6},"path":"/blocks/basis/fields/load/value","proposed":{"unit":"kN/m","value":5}}]`; string(text) != want {
		t.Errorf("conflicts %s", text)
	}
	var a applied
	engineer.ok(t, "report_apply_change", again.application("again"), &a)
	if a.NewGeneration != 2 {
		t.Errorf("%+v", a)
	}
	engineer.refused(t, "report_apply_change", mine.application("dead"), "PX_GENERATION_STALE /expectedGeneration")

	// A Batch Run plan touches no place: whatever changed, it is planned again with
	// its own cases, and what no longer holds is told.
	flow := engineer.create(t, sample, beam("rebased_beam"))
	head.Target.RevisionRef, head.Generation = a.NewRevisionRef, a.NewGeneration
	head = engineer.changeReport(t, head, "connect", feed(flow, "span_in", "span", "basis", "span"), feed(flow, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment"))
	batch, _ := engineer.planReport(t, head, m{"kind": "RunReportFlowBatch", "connectionKey": "check", "cases": list{m{"caseKey": "one", "inputs": m{"span": number(30, "ft")}}}, "merge": m{"kind": "none"}})
	head = engineer.changeReport(t, head, "value", value("load", 7, "kN/m"))
	engineer.ok(t, "report_plan_change", ask(batch), &again)
	if again.RebasedFrom == nil || again.RebasedFrom.PlanRef != batch.PlanRef || len(again.Commands) != 1 || again.Base["revisionRef"] != head.Target.RevisionRef {
		t.Errorf("%+v", again)
	}
	head = engineer.changeReport(t, head, "disconnect", m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "span_in"},
		m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "load_in"}, m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "moment_out"})
	engineer.refused(t, "report_plan_change", ask(batch), "PX_REFERENCE_UNKNOWN /commands/0/connectionKey")
}
