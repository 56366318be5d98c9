package acceptance

import (
	"math"
	"testing"
)

type shownSlot struct {
	BlockKey, SlotKey, State string
	Result                   *struct {
		RunRef, ResultKey, Unit string
		Generation              int64
		Value                   struct {
			Value float64
			Unit  string
		}
	}
}

type shownReport struct {
	Slots       []shownSlot
	Connections map[string]struct {
		Generation int64
		UnderWay   *struct{ RunRef string }
	}
}

// shown describes a Report, whose slots must all be in one state.
func (c caller) shown(t testing.TB, r reportHead, state string) shownReport {
	t.Helper()
	var d shownReport
	c.ok(t, "report_describe", m{"target": r.Target}, &d)
	if len(d.Slots) == 0 {
		t.Error("the Report has no slots")
	}
	for _, s := range d.Slots {
		if s.State != state {
			t.Errorf("%s/%s is %s, not %s: %+v", s.BlockKey, s.SlotKey, s.State, state, s.Result)
		}
	}
	return d
}

type connectionRun struct {
	RunRef, State              string
	ProjectionIntentGeneration int64
}

func connectionRequest(r reportHead, commandID string) m {
	return m{"kind": "RunReportFlowConnection", "commandId": commandID, "target": r.Target, "connectionKey": "girder_check", "reason": "user"}
}

func (c caller) runConnection(t testing.TB, r reportHead, commandID string) connectionRun {
	t.Helper()
	var s connectionRun
	c.ok(t, "pxflow_run", connectionRequest(r, commandID), &s)
	return s
}

// Two Runs of one connection are started where no function can run, a mapped value is
// edited meanwhile, and both end at the next start of the host: what is shown is the
// later one's, Stale, and the earlier one is history whichever ended first.
//
// covers: R4, R6, U1, U4
func TestSlotsShowTheLatestRunAndTellWhenItIsStale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := startAt(t, dir, built, "--services-only")
	h.operate(t, "seed")
	engineer := caller{h.endpointStack(t, "only", "30m"), h.token(t, "engineer")}
	before := engineer.report(t, "girder_review")
	engineer.shown(t, before, "Empty")
	first := engineer.runConnection(t, before, "first")
	if again := engineer.runConnection(t, before, "first"); again != first || first.ProjectionIntentGeneration != 1 || first.State != "Queued" {
		t.Errorf("the first is %+v, sent again %+v", first, again)
	}
	other := connectionRequest(before, "first")
	other["reason"] = "another"
	engineer.refused(t, "pxflow_run", other, "PX_COMMAND_REUSED /commandId")
	second := engineer.runConnection(t, before, "second")
	if second.ProjectionIntentGeneration != 2 || second.RunRef == first.RunRef {
		t.Errorf("the second is %+v", second)
	}
	span := func(feet float64) m {
		return m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": number(feet, "ft")}
	}
	after := engineer.changeReport(t, before, "edit", span(60))
	if c := engineer.shown(t, after, "Empty").Connections["girder_check"]; c.Generation != 2 || c.UnderWay == nil || c.UnderWay.RunRef != second.RunRef {
		t.Errorf("under way is %+v", c)
	}
	// A stale revision is never replaced by the head, and a connection that does not
	// exist, a viewer and a target of the wrong kind start nothing.
	engineer.refused(t, "pxflow_run", connectionRequest(before, "stale"), "PX_GENERATION_STALE /target/revisionRef")
	engineer.refused(t, "pxflow_run", with(connectionRequest(after, "none"), m{"connectionKey": "other"}), "PX_REFERENCE_UNKNOWN /connectionKey")
	engineer.refused(t, "pxflow_run", with(connectionRequest(after, "inputs"), m{"inputs": m{}}), "PX_SCHEMA_UNKNOWN_FIELD /inputs")
	caller{engineer.url, h.token(t, "viewer")}.refused(t, "pxflow_run", connectionRequest(after, "viewer"), "PX_PERMISSION_DENIED /target/scope")
	h.stop(t)

	h = startAt(t, dir, built)
	engineer = h.as(t, "engineer")
	for _, r := range []connectionRun{first, second} {
		if end := engineer.finished(t, r.RunRef); end.State != "Succeeded" {
			t.Fatalf("%s ends as %+v", r.RunRef, end)
		}
	}
	for _, s := range engineer.shown(t, after, "Stale").Slots {
		if s.Result.RunRef != second.RunRef || s.Result.Generation != 2 {
			t.Errorf("%s shows %+v", s.SlotKey, s.Result)
		}
	}
	engineer.shown(t, before, "Current") // of the revision that it was computed from

	third := engineer.runConnection(t, after, "third")
	if end := engineer.finished(t, third.RunRef); end.State != "Succeeded" {
		t.Fatalf("it ends as %+v", end)
	}
	d, handbook := engineer.shown(t, after, "Current"), false
	for _, s := range d.Slots {
		if s.Result.RunRef != third.RunRef || s.Result.Generation != 3 {
			t.Errorf("%s shows %+v", s.SlotKey, s.Result)
		}
		if s.Result.ResultKey == "live_moment" {
			handbook = s.Result.Value.Unit == "kip*ft" && math.Abs(s.Result.Value.Value-806.5) < 0.1
		}
	}
	if c := d.Connections["girder_check"]; !handbook || c.Generation != 3 || c.UnderWay != nil {
		t.Errorf("got %+v, handbook's moment: %v", d, handbook)
	}
	// A plan names the slots that it turns Stale; nothing is Stale before it is applied.
	var p struct {
		Impact struct {
			Stale []struct {
				SlotKey string
				Current *bool
			}
		}
	}
	engineer.ok(t, "report_plan_change", m{"target": after.Target, "expectedGeneration": after.Generation, "commands": list{span(70)}}, &p)
	if len(p.Impact.Stale) != len(d.Slots) {
		t.Errorf("a plan turns %+v Stale", p.Impact.Stale)
	}
	for _, s := range p.Impact.Stale {
		if s.Current == nil || !*s.Current {
			t.Errorf("%s has no Current result", s.SlotKey)
		}
	}
	engineer.shown(t, after, "Current")

	// A connection that is not finished starts nothing, and tells all that is missing.
	unmap := func(key string) m {
		return m{"kind": "RemoveReportFlowMapping", "connectionKey": "girder_check", "mappingKey": key}
	}
	unfinished := engineer.changeReport(t, after, "unmap", unmap("span_input"), unmap("dead_load_input"))
	engineer.refused(t, "pxflow_run", connectionRequest(unfinished, "unfinished"),
		"PX_BINDING_MISSING /connections/girder_check/inputs", "PX_BINDING_MISSING /connections/girder_check/inputs")
	if c := engineer.shown(t, unfinished, "Stale").Connections["girder_check"]; c.Generation != 3 {
		t.Errorf("a refused start took a generation: %+v", c)
	}
}
