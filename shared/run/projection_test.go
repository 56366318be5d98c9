package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/snapshot"
)

// connection is a request of a Report's connection, whose one slot shows live_moment.
func (w *world) connection(commandID string) run.Request {
	q := w.request(commandID)
	open := q.Of.Open
	q.Of.Kind, q.Of.Address, q.Of.ConnectionKey = "RunReportFlowConnection", "report/girder_review", "girder_check"
	q.Of.Open = func(ctx context.Context, s snapshot.Snapshot) (run.Prepare, outcome.Findings, error) {
		prepare, findings, err := open(ctx, s)
		return func(ctx context.Context) (run.Prepared, outcome.Findings, error) {
			p, findings, err := prepare(ctx)
			p.ReportKey, p.ReportRevision = "girder_review", "sha256:report"
			p.Slots = []run.ShownSlot{{BlockKey: "check_summary", SlotKey: "moment", PortKey: "live_moment", Basis: "sha256:basis"}}
			return p, findings, err
		}, findings, err
	}
	return q
}

func (w *world) projection() run.Projection {
	w.t.Helper()
	all, err := w.store.Projections(w.t.Context(), bridge, "girder_review")
	must(w.t, err)
	return all["girder_check"]
}

// covers: R6, U2
func TestALateOrCancelledRunLeavesWhatIsShown(t *testing.T) {
	w := newWorld(t)
	begin := func(commandID string, generation int64) string {
		t.Helper()
		s, findings := w.start(w.connection(commandID))
		if findings != nil || s.ProjectionIntentGeneration != generation {
			t.Fatal(s, findings)
		}
		return s.RunRef
	}
	late, shown := begin("c1", 1), begin("c2", 2)
	if state := w.drive(shown); state != run.Succeeded {
		t.Fatal(state)
	}
	if state := w.drive(late); state != run.Succeeded || w.projection().Shown.Intent.Ref != shown {
		t.Fatalf("the late Run is %s, shown is %+v", state, w.projection())
	}
	stops := begin("c3", 3)
	_, _, err := w.runs.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: stops, CommandID: "stop"})
	must(t, err)
	// Its execution never started: the tick ends it, and with it the generation.
	w.executions.states[stops] = ""
	w.now = w.now.Add(time.Hour)
	_, err = w.runs.Tick(t.Context(), 10)
	must(t, err)
	if p := w.projection(); p.Ended != run.Cancelled || p.Generation != 3 || p.Shown.Intent.Ref != shown {
		t.Fatalf("got %+v", p)
	}
	// One whose execution died is failed by the tick, and shown so.
	dies := begin("c4", 4)
	w.executions.states[dies] = run.ExecutionEnded
	w.now = w.now.Add(time.Hour)
	_, err = w.runs.Tick(t.Context(), 10)
	must(t, err)
	if p := w.projection(); p.Ended != run.Failed || p.Shown.State != run.Failed || p.Shown.Intent.Ref != dies {
		t.Fatalf("got %+v", p)
	}
}

func (f *flaky) Finish(ctx context.Context, finish run.Finish) error {
	return f.around(func() error { return f.Store.Finish(ctx, finish) })
}

// Whatever write of an end fails, before or after it was performed: the Run and what
// its connection shows end together, once.
//
// covers: R6, U5
func TestARunAndWhatItShowsEndTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		s, findings := w.start(w.connection("c1"))
		if findings != nil {
			rt.Fatal(findings)
		}
		stages, err := w.runs.Prepare(t.Context(), s.RunRef, "arn")
		must(t, err)
		for stage := range stages {
			_, err := w.runs.Stage(t.Context(), s.RunRef, stage)
			must(t, err)
		}
		w.runs.Store = &flaky{w.store, rapid.SliceOfN(rapid.IntRange(0, 2), 0, 6).Draw(rt, "faults")}
		for {
			_, err := w.runs.Finish(t.Context(), s.RunRef, run.Ending{})
			row, fetched := w.store.Fetch(t.Context(), s.RunRef)
			must(t, fetched)
			if p := w.projection(); row.State.Terminal() != (p.Ended == run.Succeeded) || row.State.Terminal() != (p.Shown != nil) {
				rt.Fatalf("the Run is %s, shown is %+v", row.State, p)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, errLost) {
				rt.Fatal(err)
			}
		}
	})
}
