package acceptance

import (
	"testing"
)

type lateSlot struct {
	BlockKey, SlotKey, State string
	Result                   *struct {
		RunRef, BatchRef, CaseKey string
		Generation                int
	}
}

// slotsByKey describes the Report and returns its slots by their keys.
func (c caller) slotsByKey(t testing.TB, r reportHead) map[string]lateSlot {
	t.Helper()
	var d struct{ Slots []lateSlot }
	c.ok(t, "report_describe", m{"target": r.Target}, &d)
	out := map[string]lateSlot{}
	for _, s := range d.Slots {
		out[s.SlotKey] = s
	}
	return out
}

// A mapped value is edited while a Batch runs: what the slots show turns Stale, and
// what the Batch ends in is shown as Stale, too, since it began from the values of
// before. Then an ordinary Run is started while another Batch runs: the Run is
// shown, and the Batch, which ends after it, is history.
//
// covers: R5, R6
func TestWhatEndsLateIsHistory(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	r := engineer.report(t, "girder_review")
	envelope := m{"kind": "envelope", "portKeys": list{"live_moment"}, "by": "max"}
	shows := func(what, state, caseKey string, generation int) lateSlot {
		t.Helper()
		s := engineer.slotsByKey(t, r)["live_moment"]
		if s.State != state || (s.Result == nil) != (state == "Empty") {
			t.Fatalf("%s: the slot is %+v", what, s)
		}
		if s.Result != nil && (s.Result.CaseKey != caseKey || s.Result.Generation != generation) {
			t.Errorf("%s: the slot shows %+v", what, *s.Result)
		}
		return s
	}
	shows("before any Run", "Empty", "", 0)
	first := engineer.startBatch(t, r, "first", batchOf("girder_check", envelope, spans(40, 120)...))
	engineer.batchEnded(t, first.BatchRef)
	if s := shows("after the first Batch", "Current", "span_120", 1); s.Result.RunRef == "" {
		t.Errorf("the governing case has no Run: %+v", s.Result)
	}

	second := engineer.startBatch(t, r, "second", batchOf("girder_check", envelope, spans(40, 239)...))
	r = engineer.changeReport(t, r, "heavier", m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "dead_load", "value": number(1.5, "kip/ft")})
	shows("after the edit", "Stale", "span_120", 1)
	if done := engineer.batchEnded(t, second.BatchRef); done.State != "Succeeded" {
		t.Fatalf("the second Batch ends as %+v", done)
	}
	shows("after the Batch of the values of before", "Stale", "span_239", 2)

	third := engineer.startBatch(t, r, "third", batchOf("girder_check", envelope, spans(40, 239)...))
	var run struct {
		RunRef     string
		Generation int `json:"projectionIntentGeneration"`
	}
	engineer.ok(t, "pxflow_run", m{"kind": "RunReportFlowConnection", "target": r.Target, "connectionKey": "girder_check", "commandId": "now"}, &run)
	if third.Generation != 3 || run.Generation != 4 {
		t.Errorf("generations %d and %d", third.Generation, run.Generation)
	}
	if done := engineer.finished(t, run.RunRef); done.State != "Succeeded" {
		t.Fatalf("the Run ends as %+v", done)
	}
	if s := shows("after the Run", "Current", "", 4); s.Result.RunRef != run.RunRef {
		t.Errorf("shown is %+v, not %s", s.Result, run.RunRef)
	}
	late := engineer.batchEnded(t, third.BatchRef)
	if late.State != "Succeeded" || late.Generation != 3 {
		t.Errorf("the late Batch ends as %s in generation %d", late.State, late.Generation)
	}
	if s := shows("after the late Batch", "Current", "", 4); s.Result.RunRef != run.RunRef {
		t.Errorf("the late Batch overwrote the Run: %+v", s.Result)
	}
	engineer.ok(t, "result_read", m{"batchRef": third.BatchRef, "resultKey": "governing"}, nil)
}
