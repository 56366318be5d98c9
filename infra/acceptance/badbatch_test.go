package acceptance

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What no Batch may be is refused when it is planned, each with a diagnostic of its
// own at its place, and nothing is written: no plan, no Batch, no generation.
//
// covers: R5
func TestABatchThatCannotBeIsRefusedWhereItIsWrong(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	with := func(edit func(list) list) list { return edit(spans(40, 60)) }
	table := m{"kind": "table"}
	at := "/commands/0"
	// What follows asks whether anything was written; the key of cursors is made once.
	unchanged := h.unchanged(t)
	// Short keys, so that what is too many still fits the 2 MiB of a line.
	var many list
	for i := range 10_001 {
		many = append(many, m{"caseKey": fmt.Sprintf("c%d", i), "inputs": m{"span": number(40, "ft")}})
	}
	for _, c := range []struct {
		name  string
		cases list
		merge m
		want  []string
	}{
		{"two cases of one key", with(func(c list) list { c[17].(m)["caseKey"] = "span_40"; return c }), table, []string{"PX_SCHEMA_INVALID " + at + "/cases/17/caseKey"}},
		{"no case", list{}, table, []string{"PX_SCHEMA_INVALID " + at + "/cases"}},
		{"10,001 cases", many, table, []string{"PX_SCHEMA_INVALID " + at + "/cases"}},
		{"a case in seconds", with(func(c list) list { c[17].(m)["inputs"] = m{"span": number(1, "s")}; return c }), table, []string{"PX_UNIT_MISMATCH " + at + "/cases/17/inputs/span/unit"}},
		{"a span of 34 ft, and a port that is none", with(func(c list) list {
			c[3].(m)["inputs"] = m{"span": number(34, "ft")}
			c[4].(m)["inputs"] = m{"spam": number(40, "ft")}
			return c
		}), table, []string{"PX_CONSTRAINT_VIOLATED " + at + "/cases/3/inputs/span/value", "PX_REFERENCE_UNKNOWN " + at + "/cases/4/inputs/spam"}},
		{"a key that is none", with(func(c list) list { c[0].(m)["caseKey"] = "Span 40"; return c }), table, []string{"PX_SCHEMA_INVALID " + at + "/cases/0/caseKey"}},
		{"an envelope over a moment and a stress", spans(40, 60), m{"kind": "envelope", "portKeys": list{"live_moment", "stress"}, "by": "max"}, []string{"PX_UNIT_MISMATCH " + at + "/merge/portKeys/1"}},
		{"an envelope over a port that is none", spans(40, 60), m{"kind": "envelope", "portKeys": list{"shear"}, "by": "max"}, []string{"PX_REFERENCE_UNKNOWN " + at + "/merge/portKeys/0"}},
		{"a column twice", spans(40, 60), m{"kind": "table", "results": list{"stress", "stress"}}, []string{"PX_SCHEMA_INVALID " + at + "/merge/results/1"}},
		{"a merge that is none", spans(40, 60), m{"kind": "sum"}, []string{"PX_SCHEMA_INVALID " + at + "/merge/kind"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{batchOf("girder_check", c.merge, c.cases...)}}, c.want...)
			unchanged(t)
		})
	}
	plan := func(commands ...any) m {
		return m{"target": r.Target, "expectedGeneration": r.Generation, "commands": commands}
	}
	good := batchOf("girder_check", table, spans(40, 42)...)
	engineer.refused(t, "report_plan_change", plan(batchOf("other", table, spans(40, 42)...)), "PX_REFERENCE_UNKNOWN "+at+"/connectionKey")
	engineer.refused(t, "report_plan_change", plan(good, good), "PX_SCHEMA_INVALID /commands/1")
	engineer.refused(t, "report_plan_change", plan(m{"kind": "SetReportLabel", "label": m{"en": "x"}}, good), "PX_SCHEMA_INVALID /commands/1")

	unchanged(t)
	// Starting: another digest, another target, another kind of plan, another's plan.
	p, _ := engineer.planReport(t, r, good)
	run := func(more m) m {
		out := m{"kind": "RunReportFlowBatch", "target": r.Target, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": "start"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	engineer.refused(t, "pxflow_run", run(m{"planDigest": "sha256:" + strings.Repeat("0", 64)}), "PX_PLAN_MISMATCH /planDigest")
	engineer.refused(t, "pxflow_run", run(m{"planRef": "plan_01K0000000000000000000000A"}), "PX_PLAN_NOT_FOUND /planRef")
	change, _ := engineer.planReport(t, r, m{"kind": "SetReportLabel", "label": m{"en": "Girder"}})
	unchanged = h.unchanged(t)
	engineer.refused(t, "pxflow_run", run(m{"planRef": change.PlanRef, "planDigest": change.PlanDigest}), "PX_PLAN_MISMATCH /planRef")
	engineer.refused(t, "pxflow_run", run(m{"target": engineer.head(t, sample, "girder_check").Target}), "PX_SCHEMA_INVALID /target/reportKey", "PX_SCHEMA_UNKNOWN_FIELD /target/flowKey")
	engineer.refused(t, "pxflow_run", run(m{"caseKey": "span_40"}), "PX_SCHEMA_UNKNOWN_FIELD /caseKey")
	h.as(t, "viewer").refused(t, "pxflow_run", run(nil), "PX_PLAN_NOT_FOUND /planRef")
	h.as(t, "viewer").refused(t, "report_plan_change", plan(good), "PX_PERMISSION_DENIED /target/scope")
	h.as(t, "other").refused(t, "pxflow_run", run(nil), "PX_TARGET_NOT_FOUND /target/scope")
	unchanged(t)
	// Over 200 cases of the sample, its policy wants an approval.
	costly, _ := engineer.planReport(t, r, batchOf("girder_check", m{"kind": "none"}, spans(40, 240)...))
	if !costly.Approval.Required {
		t.Error("201 cases need no approval")
	}
	unchanged = h.unchanged(t)
	engineer.refused(t, "pxflow_run", run(m{"planRef": costly.PlanRef, "planDigest": costly.PlanDigest}), "PX_APPROVAL_REQUIRED /approvalRef")
	engineer.refused(t, "pxflow_run", run(m{"planRef": costly.PlanRef, "planDigest": costly.PlanDigest, "approvalRef": "approval_none"}), "PX_APPROVAL_INVALID /approvalRef")

	// Nothing was written: the first Batch takes the first generation.
	unchanged(t)
	s := engineer.startPlanned(t, r, "start", p)
	if s.Generation != 1 {
		t.Errorf("a refused start took a generation: %+v", s)
	}
	done := engineer.batchEnded(t, s.BatchRef)
	unchanged = h.unchanged(t)
	if e := engineer.refused(t, "pxflow_run", run(m{"commandId": "twice"}), "PX_PLAN_EXPIRED /planRef"); len(e.Diagnostics) == 1 && e.Diagnostics[0].Params["state"] != "applied" {
		t.Errorf("told %v", e.Diagnostics[0].Params)
	}
	retry := func(more m) m {
		out := m{"kind": "RetryBatchCase", "target": r.Target, "batchRef": s.BatchRef, "caseKey": "span_41", "commandId": "retry"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	engineer.refused(t, "pxflow_run", retry(m{"caseKey": "span_43"}), "PX_TARGET_NOT_FOUND /caseKey")
	engineer.refused(t, "pxflow_run", retry(m{"batchRef": "batch_01K0000000000000000000000A"}), "PX_TARGET_NOT_FOUND /batchRef")
	engineer.refused(t, "pxflow_run", retry(m{"commandId": "start"}), "PX_COMMAND_REUSED /commandId")
	h.as(t, "viewer").refused(t, "pxflow_run", retry(nil), "PX_PERMISSION_DENIED /target/scope")
	h.as(t, "other").refused(t, "run_get", m{"batchRef": s.BatchRef}, "PX_TARGET_NOT_FOUND /batchRef")
	engineer.refused(t, "run_get", m{"batchRef": s.BatchRef, "runRef": done.Cases[0].RunRef}, "PX_SCHEMA_INVALID ")
	engineer.refused(t, "result_read", m{"batchRef": s.BatchRef, "resultKey": "governing"}, "PX_TARGET_NOT_FOUND /resultKey")
	unchanged(t)
	// The Report moves on: a plan of the revision before starts no more.
	late, _ := engineer.planReport(t, r, good)
	engineer.changeReport(t, r, "relabel", m{"kind": "SetReportLabel", "label": m{"en": "Girder"}})
	unchanged = h.unchanged(t)
	e := engineer.refused(t, "pxflow_run", run(m{"planRef": late.PlanRef, "planDigest": late.PlanDigest, "commandId": "late"}), "PX_GENERATION_STALE /target/revisionRef")
	if len(e.Diagnostics) == 1 && e.Diagnostics[0].Params["currentRevisionRef"] == nil {
		t.Errorf("told %v", e.Diagnostics[0].Params)
	}
	unchanged(t)
}

// A case is repeated by a new child of its own, every other case keeps its child,
// and the merge is made again. A case that runs is refused by name.
//
// covers: R6, U3
func TestARetriedCaseGetsAnotherChildAndNoOtherDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startAt(t, dir, built, "--services-only")
	h.operate(t, "seed")
	engineer := caller{h.endpointStack(t, "only", "30m"), h.token(t, "engineer")}
	r := engineer.report(t, "girder_review")
	s := engineer.startBatch(t, r, "start", batchOf("girder_check", m{"kind": "envelope", "portKeys": list{"stress"}, "by": "absMax"}, spans(40, 45)...))
	retry := func(key, commandID string) m {
		return m{"kind": "RetryBatchCase", "target": r.Target, "batchRef": s.BatchRef, "caseKey": key, "commandId": commandID}
	}
	// Nothing runs here, so that no case has ended.
	unchanged := h.unchanged(t)
	e := engineer.refused(t, "pxflow_run", retry("span_42", "early"), "PX_CASE_ACTIVE /caseKey")
	unchanged(t)
	if len(e.Diagnostics) == 1 && (!*e.Diagnostics[0].Retryable || e.Diagnostics[0].Params["runRef"] == nil) {
		t.Errorf("told %+v", e.Diagnostics[0])
	}
	var before batchReport
	engineer.ok(t, "run_get", m{"batchRef": s.BatchRef}, &before)
	if before.State != "Queued" || len(before.Cases) != 6 || before.Cases[2].State != "Queued" {
		t.Errorf("before anything runs: %+v", before)
	}
	h.stop(t)

	h = startAt(t, dir, built)
	engineer = h.as(t, "engineer")
	first := engineer.batchEnded(t, s.BatchRef)
	if first.State != "Succeeded" {
		t.Fatalf("ended as %+v", first)
	}
	for i := range first.Cases {
		if first.Cases[i].RunRef != before.Cases[i].RunRef {
			t.Errorf("case %d got another child by running", i)
		}
	}
	var again batchStarted
	engineer.ok(t, "pxflow_run", retry("span_42", "again"), &again)
	if again.BatchRef != s.BatchRef || again.RunRef == "" || again.RunRef == first.Cases[2].RunRef || again.Generation != s.Generation {
		t.Errorf("retried as %+v", again)
	}
	var same batchStarted
	if engineer.ok(t, "pxflow_run", retry("span_42", "again"), &same); same != again {
		t.Errorf("the same retry is %+v, then %+v", again, same)
	}
	second := engineer.batchEnded(t, s.BatchRef)
	if second.State != "Succeeded" || second.Progress.Completed != 6 || second.Cases[2].RunRef != again.RunRef {
		t.Errorf("after the retry %+v", second)
	}
	for i := range second.Cases {
		if i != 2 && second.Cases[i] != first.Cases[i] {
			t.Errorf("case %d was %+v and is %+v", i, first.Cases[i], second.Cases[i])
		}
	}
	if old := engineer.finished(t, first.Cases[2].RunRef); old.State != "Succeeded" {
		t.Errorf("the child before is %+v", old)
	}
	engineer.ok(t, "result_read", m{"batchRef": s.BatchRef, "resultKey": "governing"}, nil)
}

// The whole host dies in the middle of a Batch, twice. After the next start it ends,
// with every case once, and nothing by hand.
//
// covers: U5
func TestABatchSurvivesTheDeathOfTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startAt(t, dir, built, "--minute", "500ms", "--parameter", "RunPatience=2s")
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	s := engineer.startBatch(t, r, "start", batchOf("girder_check", m{"kind": "table", "results": list{"live_moment"}}, spans(40, 239)...))
	progress := func() batchReport {
		var now batchReport
		engineer.ok(t, "run_get", m{"batchRef": s.BatchRef}, &now)
		return now
	}
	for _, enough := range []int{10, 90} {
		for deadline := time.Now().Add(time.Minute); progress().Progress.Completed < enough && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		if now := progress(); over(now.State) {
			t.Logf("the Batch was over before it could be killed at %d", enough)
		}
		h.process.Process.Kill()
		<-h.ended
		h = startAt(t, dir, built, "--minute", "500ms", "--parameter", "RunPatience=2s")
		engineer = h.as(t, "engineer")
	}
	done := engineer.batchEnded(t, s.BatchRef)
	if done.State != "Succeeded" || done.Progress.Completed != 200 || len(done.Cases) != 200 {
		t.Fatalf("ended as %s, %+v, %+v", done.State, done.Progress, done.Diagnostics)
	}
	var table mergedTable
	engineer.ok(t, "result_read", m{"batchRef": s.BatchRef, "resultKey": "table"}, &table)
	if len(table.Value.Rows) != 200 {
		t.Fatalf("%d rows", len(table.Value.Rows))
	}
	for i, row := range table.Value.Rows {
		if l := float64(40 + i); row[0] != fmt.Sprintf("span_%d", 40+i) || row[1] != l {
			t.Errorf("row %d is %v", i, row)
		}
	}
}

// A Batch that is cancelled runs no further case, and ends Cancelled; a terminal one
// stays as it is.
//
// covers: U2
func TestACancelledBatchStops(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	s := engineer.startBatch(t, r, "start", batchOf("girder_check", m{"kind": "table"}, spans(40, 239)...))
	var state struct{ BatchRef, State string }
	engineer.ok(t, "run_cancel", m{"batchRef": s.BatchRef, "commandId": "stop", "reason": "wrong spans"}, &state)
	if state.BatchRef != s.BatchRef || state.State != "Cancelling" {
		t.Errorf("cancelled, it is %+v", state)
	}
	done := engineer.batchEnded(t, s.BatchRef)
	if done.State != "Cancelled" || len(done.Results) != 0 {
		t.Errorf("ended as %s with %v", done.State, done.Results)
	}
	ran := 0
	for _, c := range done.Cases {
		if !over(c.State) {
			t.Errorf("case %s is %s", c.CaseKey, c.State)
		}
		if c.State != "Cancelled" {
			ran++
		}
	}
	// Nothing is said to be completed that was cancelled, and a Batch has no stages.
	var told struct{ Progress m }
	engineer.ok(t, "run_get", m{"batchRef": s.BatchRef}, &told)
	if want := (m{"completed": float64(ran), "total": 200.}); ran == 200 || !reflect.DeepEqual(told.Progress, want) {
		t.Errorf("%d cases were not cancelled, told is %v", ran, told.Progress)
	}
	if engineer.ok(t, "run_cancel", m{"batchRef": s.BatchRef, "commandId": "again"}, &state); state.State != "Cancelled" {
		t.Errorf("cancelled again, it is %+v", state)
	}
	engineer.refused(t, "result_read", m{"batchRef": s.BatchRef, "resultKey": "table"}, "PX_TARGET_NOT_FOUND /resultKey")
}
