package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Run of a connection that policy lets nobody start alone waits as the Run that it
// will be: it takes no generation before it is approved, a person reads which
// connection and which values are asked for and approves through the door of people,
// and the slots then show that very Run.
//
// covers: U6, R4, R6
func TestACostlyConnectionRunIsApprovedAndShown(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	h.policy(t, `{"rules":[{"on":"run","kinds":["RunReportFlowConnection"],"approval":"required"}]}`)
	request := connectionRequest(r, "costly")
	told := engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef")
	runRef, _ := told.Diagnostics[0].Params["runRef"].(string)
	digest, _ := told.Diagnostics[0].Params["requestDigest"].(string)
	if runRef == "" || digest == "" {
		t.Fatalf("told %+v", told.Diagnostics)
	}
	if c := engineer.shown(t, r, "Empty").Connections["girder_check"]; c.Generation != 0 || c.UnderWay != nil {
		t.Errorf("a Run that waits took a generation: %+v", c)
	}

	person := h.approver(t, "reviewer")
	status, _, e := h.decide(t, person, http.MethodGet, "/v1/runs/"+runRef, "")
	var asked struct {
		RunRef, Requester string
		Run               struct {
			Kind, ConnectionKey string
			Inputs              map[string]m
		}
	}
	if err := json.Unmarshal(e.Data, &asked); err != nil {
		t.Fatal(err)
	}
	if status != 200 || asked.RunRef != runRef || !strings.HasSuffix(asked.Requester, "|engineer") || asked.Run.Kind != "RunReportFlowConnection" ||
		asked.Run.ConnectionKey != "girder_check" || asked.Run.Inputs["span"]["value"] != 80. || asked.Run.Inputs["span"]["unit"] != "ft" {
		t.Errorf("%d: asked is %+v", status, asked)
	}
	status, _, e = h.decide(t, person, http.MethodPost, "/v1/runs/"+runRef+"/approve", encode(t, m{"requestDigest": digest}))
	var approved struct{ ApprovalRef, RunRef string }
	if err := json.Unmarshal(e.Data, &approved); err != nil {
		t.Fatal(err)
	}
	if status != 200 || approved.RunRef != runRef || approved.ApprovalRef == "" {
		t.Fatalf("%d: approved as %+v, %q", status, approved, e.told())
	}
	// It is an approval of this request alone.
	engineer.refused(t, "pxflow_run", with(connectionRequest(r, "another"), m{"approvalRef": approved.ApprovalRef}), "PX_APPROVAL_INVALID /approvalRef")
	var s connectionRun
	engineer.ok(t, "pxflow_run", with(request, m{"approvalRef": approved.ApprovalRef}), &s)
	if s.RunRef != runRef || s.ProjectionIntentGeneration != 1 {
		t.Errorf("started as %+v, asked was %s", s, runRef)
	}
	if end := engineer.finished(t, runRef); end.State != "Succeeded" {
		t.Fatalf("ended as %+v", end)
	}
	for _, slot := range engineer.shown(t, r, "Current").Slots {
		if slot.Result.RunRef != runRef || slot.Result.Generation != 1 {
			t.Errorf("%s shows %+v", slot.SlotKey, slot.Result)
		}
	}
}

// A Run that fails is told at its slots, and why is found by the runRef that they
// name. A Run that is cancelled leaves the slots as they were, though it took the
// next generation.
//
// covers: R6, U2
func TestAFailedRunIsShownAndACancelledOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startAt(t, dir, built)
	engineer := h.as(t, "engineer")
	document := beam("quotient")
	// Divides by the span less 12 m.
	at(document, "nodes")["moment"] = formula("w * l ^ 3 / (l - d)", "kN*m", m{"w": m{"unit": "kN/m"}, "l": m{"unit": "m"}, "d": m{"unit": "m"}},
		m{"w": flowInput("load"), "l": flowInput("span"), "d": literal(12, "m")})
	f := engineer.create(t, sample, document)
	review := reviewOf("quotient_review")
	at(review, "blocks", "basis", "fields")["span"] = with(scalar("m"), m{"value": number(10, "m")})
	r := engineer.createReport(t, review)
	r = engineer.changeReport(t, r, "connect", feed(f, "span_in", "span", "basis", "span"), feed(f, "load_in", "load", "basis", "load"),
		showIn("moment_out", "moment", "summary", "moment"))
	span := func(command string, metres float64) {
		r = engineer.changeReport(t, r, command, m{"kind": "SetFieldValue", "blockKey": "basis", "fieldKey": "span", "value": number(metres, "m")})
	}
	request := func(command string) m { return with(connectionRequest(r, command), m{"connectionKey": "check"}) }
	run := func(command string) (s connectionRun) {
		engineer.ok(t, "pxflow_run", request(command), &s)
		return s
	}
	first := run("first")
	if end := engineer.finished(t, first.RunRef); end.State != "Succeeded" {
		t.Fatalf("ended as %+v", end)
	}
	engineer.shown(t, r, "Current")

	span("zero", 12)
	engineer.shown(t, r, "Stale")
	failed := run("failing")
	engineer.finished(t, failed.RunRef)
	d := engineer.shown(t, r, "Failed")
	slot := d.Slots[0]
	if slot.Result == nil || slot.Result.RunRef != failed.RunRef || slot.Result.ResultKey != "" || slot.Result.Generation != 2 || d.Connections["check"].UnderWay != nil {
		t.Fatalf("shown is %+v", d)
	}
	why := engineer.finished(t, slot.Result.RunRef)
	if why.State != "Failed" || len(why.Results) != 0 || len(why.Diagnostics) != 1 || why.Diagnostics[0].Code != "PX_RUN_FAILED" ||
		!strings.HasPrefix(why.Diagnostics[0].Path, "/nodes/moment/") || why.Diagnostics[0].Params["nodeKey"] != "moment" {
		t.Errorf("the Run tells %+v", why)
	}
	span("back", 10)
	third := run("third")
	if end := engineer.finished(t, third.RunRef); end.State != "Succeeded" {
		t.Fatalf("ended as %+v", end)
	}
	before := engineer.shown(t, r, "Current").Slots[0]
	h.stop(t)

	// Where no function of the state machine runs, a Run is cancelled before it ends.
	h = startAt(t, dir, built, "--services-only")
	engineer = caller{h.endpointStack(t, "only", "30m"), h.token(t, "engineer")}
	fourth := run("fourth")
	var state struct{ State string }
	engineer.ok(t, "run_cancel", m{"runRef": fourth.RunRef, "commandId": "stop"}, &state)
	if fourth.ProjectionIntentGeneration != 4 || state.State != "Cancelling" && state.State != "Cancelled" {
		t.Errorf("%+v is cancelled as %+v", fourth, state)
	}
	h.stop(t)
	h = startAt(t, dir, built)
	engineer = h.as(t, "engineer")
	if end := engineer.finished(t, fourth.RunRef); end.State != "Cancelled" {
		t.Fatalf("cancelled, it ended as %+v", end)
	}
	d = engineer.shown(t, r, "Current")
	if got := d.Slots[0]; encode(t, got) != encode(t, before) || got.Result.RunRef != third.RunRef {
		t.Errorf("before the cancelled Run %+v, after it %+v", before.Result, got.Result)
	}
	if c := d.Connections["check"]; c.Generation != 4 || c.UnderWay != nil {
		t.Errorf("the connection is %+v", c)
	}
}

// An approval lives no longer than the plan that it is of: in time it would have
// served, afterwards neither the approval nor a new one does.
//
// covers: U6, P5
func TestAnApprovalDoesNotOutliveItsPlan(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "PlanLife=4s")
	engineer := h.as(t, "engineer")
	f := engineer.head(t, sample, "girder_check")
	h.policy(t, asksForAll)
	person := h.approver(t, "reviewer")
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Late"}})
	digest := encode(t, m{"planDigest": p.PlanDigest})
	status, _, e := h.decide(t, person, http.MethodPost, "/v1/plans/"+p.PlanRef+"/approve", digest)
	var approved struct{ ApprovalRef, ExpiresAt string }
	if status != 200 || json.Unmarshal(e.Data, &approved) != nil || approved.ExpiresAt != p.ExpiresAt {
		t.Fatalf("%d: approved as %+v of a plan until %s, %q", status, approved, p.ExpiresAt, e.told())
	}
	expires, err := time.Parse(time.RFC3339, p.ExpiresAt)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(expires) + 10*time.Millisecond)
	before := h.dump(t)
	told := engineer.refused(t, "pxflow_apply_change", with(p.application("late"), m{"approvalRef": approved.ApprovalRef}), "PX_PLAN_EXPIRED /planRef")
	if len(told.Diagnostics) == 1 && told.Diagnostics[0].SuggestedAction != "PLAN_AGAIN" {
		t.Errorf("told %+v", told.Diagnostics)
	}
	status, _, e = h.decide(t, person, http.MethodPost, "/v1/plans/"+p.PlanRef+"/approve", digest)
	if got := e.told(); status != 409 || !slices.Equal(got, []string{"PX_PLAN_EXPIRED /planRef"}) {
		t.Errorf("approved afterwards: %d %q", status, got)
	}
	if changed := before.changes(h.dump(t)); len(changed) > 0 {
		t.Errorf("the store changed: %q", changed)
	}
}

// A hundred Reports are described in parts which join to the whole, though a Report
// is changed meanwhile: the parts go on in the snapshot of the first. What slots
// show is no part of a snapshot; when it moves on between two parts, the cursor is
// refused, and no answer is made of both.
//
// covers: B1, B2, D4, R6
func TestAHundredReportsInPartsAreOneAnswer(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	sampleReport := engineer.report(t, "girder_review")
	targets := list{sampleReport.Target}
	var other reportHead
	for i := range 99 {
		other = engineer.createReport(t, reviewOf(fmt.Sprintf("review_%02d", i)))
		targets = append(targets, other.Target)
	}
	request := m{"targets": targets}
	var whole m
	if e := engineer.ok(t, "report_describe", request, &whole); len(e.Diagnostics) > 0 || whole["truncation"] != nil || len(whole["items"].(list)) != 100 {
		t.Fatalf("%d described, %q, %v", len(whole["items"].(list)), e.told(), whole["truncation"])
	}
	first := func() (part, rest m) {
		t.Helper()
		cut := with(request, m{"budget": m{"bytes": 30_000}})
		engineer.ok(t, "report_describe", cut, &part)
		next := part["truncation"].(m)["continuation"].(m)
		delete(part, "truncation")
		return part, with(cut, m{next["member"].(string): next["value"]})
	}
	all, rest := first()
	engineer.changeReport(t, other, "meanwhile", m{"kind": "SetReportLabel", "label": m{"en": "Meanwhile"}})
	parts, budgets := engineer.continued(t, "report_describe", rest)
	if len(parts) < 4 || !reflect.DeepEqual(budgets, map[string]bool{"bytes": true}) {
		t.Errorf("%d parts after the first, cut by %v", len(parts), budgets)
	}
	joint := any(all)
	for _, part := range parts {
		var steps []string
		if at, ok := part["at"].(string); ok {
			steps = strings.Split(at, "/")[1:]
		}
		delete(part, "at")
		joint = joined(t, joint, part, steps)
	}
	delete(joint.(m), "at")
	if got, want := encode(t, joint), encode(t, whole); got != want {
		t.Errorf("%d parts join to %d bytes, the whole has %d", len(parts)+1, len(got), len(want))
	}

	_, rest = first()
	run := engineer.runConnection(t, sampleReport, "between")
	if end := engineer.finished(t, run.RunRef); end.State != "Succeeded" {
		t.Fatalf("ended as %+v", end)
	}
	engineer.refused(t, "report_describe", rest, "PX_CURSOR_INVALID /cursor")
	engineer.shown(t, sampleReport, "Current")
}
