package acceptance

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

type batchReport struct {
	BatchRef    string
	State       string
	Progress    struct{ Completed, Total int }
	Failed      int
	Diagnostics []diagnostic
	Results     []struct {
		ResultKey string
		Bytes     int
	}
	Cases      []struct{ CaseKey, RunRef, State string }
	NextCursor string
	Report     reportTarget
	Generation int `json:"projectionIntentGeneration"`
}

type batchStarted struct {
	BatchRef, RunRef, State string
	Generation              int `json:"projectionIntentGeneration"`
}

// batchOf is the command that plans a Batch.
func batchOf(connection string, merge m, cases ...any) m {
	return m{"kind": "RunReportFlowBatch", "connectionKey": connection, "cases": cases, "merge": merge}
}

// spans are cases of spans in feet, one each foot.
func spans(from, to int) list {
	var cases list
	for l := from; l <= to; l++ {
		cases = append(cases, m{"caseKey": fmt.Sprintf("span_%d", l), "inputs": m{"span": number(float64(l), "ft")}})
	}
	return cases
}

// startBatch plans and starts a Batch.
func (c caller) startBatch(t testing.TB, r reportHead, commandID string, command m) batchStarted {
	t.Helper()
	p, _ := c.planReport(t, r, command)
	return c.startPlanned(t, r, commandID, p)
}

func (c caller) startPlanned(t testing.TB, r reportHead, commandID string, p reportPlan) batchStarted {
	t.Helper()
	var s batchStarted
	c.ok(t, "pxflow_run", m{"kind": "RunReportFlowBatch", "target": r.Target, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": commandID}, &s)
	return s
}

func over(state string) bool {
	return state == "Succeeded" || state == "Failed" || state == "Cancelled"
}

// batchEnded waits until a Batch is terminal.
func (c caller) batchEnded(t testing.TB, batchRef string) batchReport {
	t.Helper()
	var r batchReport
	for deadline := time.Now().Add(120 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		r = batchReport{}
		if c.ok(t, "run_get", m{"batchRef": batchRef}, &r); over(r.State) {
			return r
		}
	}
	t.Fatalf("the Batch is %s, %+v, after two minutes", r.State, r.Progress)
	return r
}

type mergedTable struct {
	Value struct {
		Columns []struct{ ColumnKey, Type, Unit string }
		Rows    [][]any
	}
}

// hs20 is the moment of the HS20-44 truck on a simple span, as a closed formula.
func hs20(l float64) float64 { return 72*math.Pow(l/2-7.0/3, 2)/l - 112 }

// The sample Report runs as a Batch over spans of every foot from 40 to 120: the
// table of all results is the closed formula, row by row, and the envelope is 120 ft.
//
// covers: R5, R6, U2, U3
func TestABatchOverSpansIsTheClosedFormula(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	f := engineer.head(t, sample, "girder_check")
	cases := spans(40, 120)

	p, _ := engineer.planReport(t, r, batchOf("girder_check", m{"kind": "table", "results": list{"live_moment", "utilization"}}, cases...))
	if p.Base["revisionRef"] != r.Target.RevisionRef || len(p.Diff) != 0 || len(p.TouchedSemanticPaths) != 0 {
		t.Errorf("a Batch plan changes something: %+v", p)
	}
	var told struct {
		Impact struct {
			Count, Cost int
			FlowTarget  flowTarget
			Merge       struct {
				Kind    string
				Columns []struct{ ColumnKey, From, Type, Unit string }
			}
		}
		Approval struct{ Required bool }
	}
	engineer.ok(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{batchOf("girder_check", m{"kind": "table"}, cases...)}}, &told)
	if told.Impact.Count != 81 || told.Impact.Cost%81 != 0 || told.Impact.Cost == 0 || told.Impact.FlowTarget.RevisionRef != f.Target.RevisionRef ||
		len(told.Impact.Merge.Columns) != 6 || told.Impact.Merge.Columns[1].ColumnKey != "span" {
		t.Errorf("the plan tells %+v", told.Impact)
	}
	// A Batch Run plan is no change.
	e := engineer.refused(t, "report_apply_change", p.application("apply"), "PX_PLAN_MISMATCH /planRef")
	if len(e.Diagnostics) == 1 && e.Diagnostics[0].Params["startWith"] != "pxflow_run" {
		t.Errorf("told %v", e.Diagnostics[0].Params)
	}

	first := engineer.startPlanned(t, r, "table", p)
	if first.State != "Queued" || first.Generation != 1 || !strings.HasPrefix(first.BatchRef, "batch_") {
		t.Errorf("started %+v", first)
	}
	if again := engineer.startPlanned(t, r, "table", p); again != first {
		t.Errorf("the same command is %+v, then %+v", first, again)
	}
	engineer.refused(t, "pxflow_run", m{"kind": "RunReportFlowBatch", "target": r.Target, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": "twice"}, "PX_PLAN_EXPIRED /planRef")
	done := engineer.batchEnded(t, first.BatchRef)
	if done.State != "Succeeded" || done.Progress.Completed != 81 || done.Progress.Total != 81 || len(done.Cases) != 81 || len(done.Results) != 1 {
		t.Fatalf("the Batch ends as %+v", done)
	}
	var table mergedTable
	engineer.ok(t, "result_read", m{"batchRef": first.BatchRef, "resultKey": "table"}, &table)
	if len(table.Value.Columns) != 4 || len(table.Value.Rows) != 81 {
		t.Fatalf("merged into %d columns and %d rows", len(table.Value.Columns), len(table.Value.Rows))
	}
	seen := map[string]bool{}
	for i, row := range table.Value.Rows {
		l := float64(40 + i)
		want := hs20(l)
		if row[0] != fmt.Sprintf("span_%d", 40+i) || row[1] != l || math.Abs(row[2].(float64)-want) > 1e-12*want {
			t.Errorf("row %d is %v, want span %v with %v", i, row, l, want)
		}
		c := done.Cases[i]
		if c.CaseKey != row[0] || c.State != "Succeeded" || seen[c.RunRef] {
			t.Errorf("case %d is %+v", i, c)
		}
		seen[c.RunRef] = true
	}
	// Each case is an ordinary Run, with results of its own.
	var child runReport
	engineer.ok(t, "run_get", m{"runRef": done.Cases[80].RunRef}, &child)
	var moment struct{ Value struct{ Value float64 } }
	engineer.ok(t, "result_read", m{"runRef": child.RunRef, "resultKey": "live_moment"}, &moment)
	if child.State != "Succeeded" || len(child.Results) < 5 || math.Abs(moment.Value.Value-hs20(120)) > 1e-12*hs20(120) {
		t.Errorf("the child of 120 ft is %+v with %v", child, moment)
	}

	envelope := engineer.startBatch(t, r, "envelope", batchOf("girder_check", m{"kind": "envelope", "portKeys": list{"live_moment"}, "by": "max"}, cases...))
	if done = engineer.batchEnded(t, envelope.BatchRef); done.State != "Succeeded" || done.Generation != 2 {
		t.Fatalf("the envelope ends as %+v", done)
	}
	var governing struct {
		Value struct {
			Value struct {
				CaseKey, PortKey struct{ Value string }
				Value            struct {
					Value float64
					Unit  string
				}
			}
		}
	}
	engineer.ok(t, "result_read", m{"batchRef": envelope.BatchRef, "resultKey": "governing"}, &governing)
	if g := governing.Value.Value; g.CaseKey.Value != "span_120" || g.PortKey.Value != "live_moment" || math.Abs(g.Value.Value-hs20(120)) > 1e-12*hs20(120) {
		t.Errorf("governing is %+v", g)
	}
	engineer.ok(t, "result_read", m{"batchRef": envelope.BatchRef, "resultKey": "live_moment"}, &moment)
	if math.Abs(moment.Value.Value-hs20(120)) > 1e-12*hs20(120) {
		t.Errorf("the governing case's moment is %v", moment)
	}
}

// Over 200 cases of the sample, a person approves the plan; cases come in pages, each
// once and in order, and a page's cursor serves no other Batch and nobody else.
//
// covers: U2, U6
func TestALargeBatchIsApprovedAndToldInPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	p, _ := engineer.planReport(t, r, batchOf("girder_check", m{"kind": "none"}, spans(40, 490)...))
	if !p.Approval.Required {
		t.Fatal("451 cases need no approval")
	}
	request := m{"kind": "RunReportFlowBatch", "target": r.Target, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": "large"}
	engineer.refused(t, "pxflow_run", request, "PX_APPROVAL_REQUIRED /approvalRef")
	other, _ := engineer.planReport(t, r, batchOf("girder_check", m{"kind": "none"}, spans(40, 480)...))
	engineer.refused(t, "pxflow_run", with(request, m{"approvalRef": h.approve(t, other.PlanRef)}), "PX_APPROVAL_INVALID /approvalRef")
	var s batchStarted
	engineer.ok(t, "pxflow_run", with(request, m{"approvalRef": h.approve(t, p.PlanRef)}), &s)
	if s.Generation != 1 {
		t.Errorf("started %+v", s)
	}
	var cases []struct{ CaseKey, RunRef, State string }
	page := m{"batchRef": s.BatchRef}
	for {
		var b batchReport
		engineer.ok(t, "run_get", page, &b)
		cases = append(cases, b.Cases...)
		if b.NextCursor == "" {
			break
		}
		page = m{"batchRef": s.BatchRef, "cursor": b.NextCursor}
		h.as(t, "viewer").refused(t, "run_get", page, "PX_CURSOR_INVALID /cursor")
	}
	if len(cases) != 451 {
		t.Fatalf("the pages hold %d cases", len(cases))
	}
	for i, c := range cases {
		if want := spans(40+i, 40+i)[0].(m)["caseKey"]; c.CaseKey != want {
			t.Fatalf("case %d is %s", i, c.CaseKey)
		}
	}
	if done := engineer.batchEnded(t, s.BatchRef); done.State != "Succeeded" || done.Progress.Completed != 451 || len(done.Results) != 0 {
		t.Errorf("ended as %s, %+v", done.State, done.Progress)
	}
}
