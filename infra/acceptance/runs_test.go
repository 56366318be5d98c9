package acceptance

import (
	"testing"
)

// A Run that was started where no function can run goes on at the next start that
// has them; one that was cancelled meanwhile ends cancelled and calculates nothing.
// covers: U1, U2, U5
func TestRunsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startAt(t, dir, built, "--services-only")
	h.operate(t, "seed")
	engineer := caller{h.endpointStack(t, "only", "30m"), h.token(t, "engineer")}
	f := engineer.head(t, sample, "girder_check")
	inputs := m{"span": number(60, "ft"), "dead_load": number(1, "kip/ft"), "impact": number(0, "1"), "section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}
	begin := func(commandID string) string {
		t.Helper()
		var s struct{ RunRef, State string }
		engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": commandID, "inputs": inputs}, &s)
		if s.State != "Queued" {
			t.Errorf("a Run begins as %s", s.State)
		}
		return s.RunRef
	}
	goes, stops := begin("goes"), begin("stops")
	var s struct{ RunRef, State string }
	for range 2 { // asking again changes nothing
		engineer.ok(t, "run_cancel", m{"runRef": stops, "commandId": "c", "reason": "wrong span"}, &s)
		if s.State != "Cancelling" || s.RunRef != stops {
			t.Errorf("cancelled, it is %+v", s)
		}
	}
	engineer.refused(t, "result_read", m{"runRef": goes, "resultKey": "live_moment"}, "PX_TARGET_NOT_FOUND /resultKey")
	h.stop(t)

	h = startAt(t, dir, built)
	engineer = h.as(t, "engineer")
	if r := engineer.finished(t, goes); r.State != "Succeeded" || r.Progress.Completed != r.Progress.Total {
		t.Errorf("the Run that goes on ends as %+v", r)
	}
	if r := engineer.finished(t, stops); r.State != "Cancelled" || len(r.Results) != 0 {
		t.Errorf("the Run that was cancelled ends as %+v", r)
	}
	// The same commands are the same Runs still.
	if begin("goes") != goes || begin("stops") != stops {
		t.Error("after a restart a command starts another Run")
	}
}
