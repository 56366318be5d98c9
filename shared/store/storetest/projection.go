package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

var connection = run.Connection{Project: place, ReportKey: "girder_review", ConnectionKey: "girder_check"}

// projecting is a start that takes a generation.
func projecting(n int, generation int64) run.Start {
	q := starting(n)
	q.Row.Projecting = run.Projecting{ReportKey: connection.ReportKey, RevisionRef: "sha256:report", ConnectionKey: connection.ConnectionKey,
		Generation: generation, Slots: history.RefOf([]byte("slots"))}
	q.Take = &run.Take{Connection: connection, Generation: generation, Intent: run.Intent{Kind: run.IntentRun, Ref: q.Row.RunRef}}
	return q
}

// ending is how the Run of a row ends, shown in its generation.
func ending(row run.Row, state run.State) run.Finish {
	row.State, row.EndedAt, row.DueAt = state, Now.Add(time.Second), time.Time{}
	f := run.Finish{Row: row, Settle: &run.Settle{Connection: row.Connection(), Generation: row.Projecting.Generation, Ended: state}}
	if state != run.Cancelled {
		f.Settle.Shown = &run.Shown{Generation: row.Projecting.Generation, Intent: run.Intent{Kind: run.IntentRun, Ref: row.RunRef}, State: state,
			Slots: history.RefOf([]byte(row.RunRef)), At: row.EndedAt}
	}
	return f
}

func projection(t *testing.T, s RunStore) run.Projection {
	t.Helper()
	all, err := s.Projections(t.Context(), place, connection.ReportKey)
	must(t, err)
	return all[connection.ConnectionKey]
}

// differs compares as JSON: a projection holds a pointer.
func differs(t *testing.T, got, want any) bool {
	t.Helper()
	a, err := canon.Encode(got)
	must(t, err)
	b, err := canon.Encode(want)
	must(t, err)
	return string(a) != string(b)
}

func fetched(t *testing.T, s RunStore, n int) run.Row {
	t.Helper()
	row, err := s.Fetch(t.Context(), runRef(n))
	must(t, err)
	return row
}

func takes(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	if p := projection(t, s); p != (run.Projection{}) {
		t.Errorf("a connection that was never run has %+v", p)
	}
	var conflict *change.ConflictError
	if err := s.Create(ctx, projecting(1, 2)); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Projection: true}) {
		t.Errorf("the second generation came first: %v", err)
	}
	must(t, s.Create(ctx, projecting(1, 1)))
	if p, want := projection(t, s), (run.Projection{Connection: connection, Generation: 1, Intent: run.Intent{Kind: run.IntentRun, Ref: runRef(1)}}); p != want {
		t.Errorf("got %+v", p)
	}
	for name, generation := range map[string]int64{"taken": 1, "left out": 3} {
		if err := s.Create(ctx, projecting(2, generation)); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Projection: true}) {
			t.Errorf("a generation that is %s: %v", name, err)
		}
	}
	// A start that is refused for another reason takes none.
	refused := projecting(2, 2)
	refused.GrantVersion = 7
	if err := s.Create(ctx, refused); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Grant: true}) {
		t.Error(err)
	}
	if _, err := s.Fetch(ctx, runRef(2)); !errors.Is(err, history.ErrNotFound) {
		t.Error("a refused start left its run")
	}
	if p := projection(t, s); p.Generation != 1 {
		t.Errorf("got %+v", p)
	}
	must(t, s.Create(ctx, projecting(2, 2)))
	if p := projection(t, s); p.Generation != 2 || p.Intent.Ref != runRef(2) {
		t.Errorf("got %+v", p)
	}
	if row := fetched(t, s, 2); row.Projecting != projecting(2, 2).Row.Projecting {
		t.Errorf("got %+v", row.Projecting)
	}
	for name, edit := range map[string]func(*run.Start){
		"a run that is shown and takes no generation":    func(q *run.Start) { q.Take = nil },
		"a run that takes a generation and is not shown": func(q *run.Start) { q.Row.Projecting = run.Projecting{} },
		"a generation for another run":                   func(q *run.Start) { q.Take.Intent.Ref = "run_other" },
		"a generation of another connection":             func(q *run.Start) { q.Take.Connection.ConnectionKey = "other" },
		"another generation than the run's":              func(q *run.Start) { q.Take.Generation++ },
	} {
		q := projecting(3, 3)
		edit(&q)
		if err := s.Create(ctx, q); err == nil || errors.As(err, &conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func takeRace(t *testing.T, s RunStore) {
	granted(t, s)
	must(t, s.Create(t.Context(), projecting(1, 1)))
	var wait sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		wait.Go(func() { errs[i] = s.Create(t.Context(), projecting(100+i, 2)) })
	}
	wait.Wait()
	won := ""
	for i, err := range errs {
		var conflict *change.ConflictError
		switch {
		case err == nil && won == "":
			won = runRef(100 + i)
		case !errors.As(err, &conflict) || *conflict != (change.ConflictError{Projection: true}):
			t.Errorf("start %d: %v", i, err)
		}
	}
	if p := projection(t, s); p.Generation != 2 || p.Intent.Ref != won || won == "" {
		t.Errorf("%s won, stored is %+v", won, p)
	}
}

func shows(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	must(t, s.Create(ctx, projecting(1, 1)))
	first := ending(fetched(t, s, 1), run.Succeeded)
	must(t, s.Finish(ctx, first))
	p := projection(t, s)
	if p.Ended != run.Succeeded || p.Shown == nil || differs(t, p.Shown, first.Settle.Shown) || !p.Shown.At.Equal(first.Settle.Shown.At) {
		t.Errorf("got %+v", p)
	}
	if row := fetched(t, s, 1); row.State != run.Succeeded || !row.DueAt.IsZero() {
		t.Errorf("got %+v", row)
	}
	again := first // the very same one may be told done: it is
	again.Row.EndedAt = again.Row.EndedAt.Add(1)
	if err := s.Finish(ctx, again); !errors.Is(err, run.ErrMoved) {
		t.Errorf("one reading was finished twice: %v", err)
	}
	// A newer start leaves what is shown, and is under way.
	must(t, s.Create(ctx, projecting(2, 2)))
	must(t, s.Create(ctx, projecting(3, 3)))
	if p := projection(t, s); p.Ended != "" || p.Generation != 3 || differs(t, p.Shown, first.Settle.Shown) {
		t.Errorf("got %+v", p)
	}
	// The older one ends: nothing of it is written as long as it wants to be shown.
	late := ending(fetched(t, s, 2), run.Succeeded)
	var superseded *run.SupersededError
	if err := s.Finish(ctx, late); !errors.As(err, &superseded) || *superseded != (run.SupersededError{Projection: true}) {
		t.Error(err)
	}
	if row := fetched(t, s, 2); row.State != run.Queued || row.Version != late.Row.Version {
		t.Errorf("a late finish was half written: %+v", row)
	}
	late.Settle = nil
	must(t, s.Finish(ctx, late))
	if row, p := fetched(t, s, 2), projection(t, s); row.State != run.Succeeded || p.Ended != "" || p.Shown.Generation != 1 {
		t.Errorf("the late run is %s, shown is %+v", row.State, p)
	}
	// A cancelled one leaves what is shown; a failed one shows that it failed.
	must(t, s.Finish(ctx, ending(fetched(t, s, 3), run.Cancelled)))
	if p := projection(t, s); p.Ended != run.Cancelled || p.Generation != 3 || differs(t, p.Shown, first.Settle.Shown) {
		t.Errorf("got %+v", p)
	}
	must(t, s.Create(ctx, projecting(4, 4)))
	must(t, s.Finish(ctx, ending(fetched(t, s, 4), run.Failed)))
	if p := projection(t, s); p.Ended != run.Failed || p.Shown.State != run.Failed || p.Shown.Generation != 4 {
		t.Errorf("got %+v", p)
	}
	// A run of a connection that was never taken is not current.
	stray := ending(fetched(t, s, 4), run.Failed)
	must(t, s.Create(ctx, starting(5)))
	stray.Row = ending(fetched(t, s, 5), run.Failed).Row
	stray.Settle.Connection.ConnectionKey = "other"
	if err := s.Finish(ctx, stray); !errors.As(err, &superseded) || !superseded.Projection {
		t.Error(err)
	}
	for name, edit := range map[string]func(*run.Finish){
		"a run that is not over":            func(f *run.Finish) { f.Row.State = run.Running },
		"a run that is still due":           func(f *run.Finish) { f.Row.DueAt = Now },
		"a generation that has not ended":   func(f *run.Finish) { f.Settle.Ended = run.Running },
		"what another generation showed":    func(f *run.Finish) { f.Settle.Shown.Generation++ },
		"a cancelled run that shows a slot": func(f *run.Finish) { f.Settle.Ended, f.Settle.Shown.State = run.Cancelled, run.Cancelled },
	} {
		f := ending(fetched(t, s, 5), run.Failed)
		f.Settle.Connection, f.Settle.Generation, f.Settle.Shown.Generation = connection, 4, 4
		edit(&f)
		if err := s.Finish(ctx, f); err == nil || errors.As(err, &superseded) || errors.Is(err, run.ErrMoved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// finishRace lets a Run end while the next one is started: whichever comes first,
// what is shown afterwards is not of the older one unless it came first, and its
// row ends only together with what it shows.
func finishRace(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	for i := range 12 {
		before, after := 2*i+1, 2*i+2
		must(t, s.Create(ctx, projecting(before, int64(before))))
		f := ending(fetched(t, s, before), run.Succeeded)
		was := projection(t, s).Shown
		var wait sync.WaitGroup
		var finished, created error
		wait.Go(func() { finished = s.Finish(ctx, f) })
		wait.Go(func() { created = s.Create(ctx, projecting(after, int64(after))) })
		wait.Wait()
		must(t, created)
		p, row := projection(t, s), fetched(t, s, before)
		var superseded *run.SupersededError
		switch {
		case p.Generation != int64(after) || p.Ended != "":
			t.Fatalf("got %+v", p)
		case finished == nil && (row.State != run.Succeeded || differs(t, p.Shown, f.Settle.Shown)):
			t.Fatalf("it finished, and is %s, shown is %+v", row.State, p.Shown)
		case finished != nil && (!errors.As(finished, &superseded) || row.State != run.Queued || differs(t, p.Shown, was)):
			t.Fatalf("%v: it is %s, shown is %+v", finished, row.State, p.Shown)
		}
		must(t, s.Finish(ctx, ending(fetched(t, s, after), run.Cancelled)))
	}
}

// cancelRace lets a Run be cancelled while it ends.
func cancelRace(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	for i := range 12 {
		n := i + 1
		must(t, s.Create(ctx, projecting(n, int64(n))))
		read := fetched(t, s, n)
		was := projection(t, s).Shown
		asked := read
		asked.State = run.Cancelling
		var wait sync.WaitGroup
		var finished, cancelled error
		wait.Go(func() { finished = s.Finish(ctx, ending(read, run.Succeeded)) })
		wait.Go(func() { cancelled = s.Replace(ctx, asked) })
		wait.Wait()
		p, row := projection(t, s), fetched(t, s, n)
		switch {
		case finished == nil && errors.Is(cancelled, run.ErrMoved):
			if row.State != run.Succeeded || p.Shown.Intent.Ref != row.RunRef {
				t.Fatalf("it is %s, shown is %+v", row.State, p)
			}
		case errors.Is(finished, run.ErrMoved) && cancelled == nil:
			if row.State != run.Cancelling || p.Ended != "" || differs(t, p.Shown, was) {
				t.Fatalf("it is %s, shown is %+v", row.State, p)
			}
			must(t, s.Finish(ctx, ending(row, run.Cancelled)))
		default:
			t.Fatalf("finish: %v, cancel: %v", finished, cancelled)
		}
	}
}

func endsCases(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	must(t, s.Create(ctx, starting(1)))
	end := func(n, attempt int, state run.State) run.Finish {
		f := ending(fetched(t, s, n), state)
		f.Settle = nil
		f.Case = &run.CaseRow{BatchRef: "batch_1", CaseKey: "span_40", Attempt: attempt, RunRef: runRef(n), State: state, EndedAt: f.Row.EndedAt}
		return f
	}
	var superseded *run.SupersededError
	if err := s.Finish(ctx, end(1, 1, run.Failed)); !errors.As(err, &superseded) || *superseded != (run.SupersededError{Case: true}) {
		t.Errorf("a retry that nobody asked for ended: %v", err)
	}
	must(t, s.Finish(ctx, end(1, 0, run.Failed)))
	must(t, s.Create(ctx, starting(2)))
	for attempt := range 2 {
		if err := s.Finish(ctx, end(2, attempt, run.Succeeded)); !errors.As(err, &superseded) || *superseded != (run.SupersededError{Case: true}) {
			t.Errorf("attempt %d of a case that is over: %v", attempt, err)
		}
	}
	if row := fetched(t, s, 2); row.State != run.Queued {
		t.Errorf("a child that is not current is %s", row.State)
	}
	other := end(2, 0, run.Succeeded)
	other.Case.CaseKey, other.Case.Index = "span_41", 1
	must(t, s.Finish(ctx, other))
	wrong := end(2, 0, run.Succeeded)
	wrong.Case.RunRef = runRef(9)
	if err := s.Finish(ctx, wrong); err == nil || errors.Is(err, run.ErrMoved) {
		t.Errorf("a case ended with another child: %v", err)
	}
}

func projections(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	n := 0
	create := func(reportKey, connectionKey string) {
		n++
		q := projecting(n, 1)
		q.Row.Projecting.ReportKey, q.Row.Projecting.ConnectionKey = reportKey, connectionKey
		q.Take.Connection = q.Row.Connection()
		must(t, s.Create(ctx, q))
	}
	for i := range 120 {
		create("girder_review", fmt.Sprintf("c%d", i))
	}
	create("girder_review2", "c1")
	create("girder", "review")
	all, err := s.Projections(ctx, place, "girder_review")
	must(t, err)
	if len(all) != 120 {
		t.Errorf("%d of 120", len(all))
	}
	for key, p := range all {
		if p.ConnectionKey != key || p.Project != place || p.ReportKey != "girder_review" || p.Intent.Ref == "" {
			t.Errorf("%s: %+v", key, p)
		}
	}
	none, err := s.Projections(ctx, target.Project{WorkspaceKey: place.WorkspaceKey, ProjectKey: "other"}, "girder_review")
	must(t, err)
	if len(none) != 0 {
		t.Errorf("another project's: %v", none)
	}
}
