package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
)

func batchRef(n int) string { return fmt.Sprintf("batch_%026d", n) }

// batching is a start of a Batch of 3 cases that takes a generation.
func batching(n int, generation int64) run.StartBatch {
	row := run.BatchRow{BatchRef: batchRef(n), Project: place, FlowKey: "girder_check", RevisionRef: "sha256:r", Principal: principal, RequestDigest: "sha256:q", PlanRef: fmt.Sprint("plan_", n),
		Projecting: run.Projecting{ReportKey: connection.ReportKey, RevisionRef: "sha256:report", ConnectionKey: connection.ConnectionKey, Generation: generation, Slots: history.RefOf([]byte("slots"))},
		Count:      3, Keys: "sha256:keys", Given: "sha256:given", Merge: "sha256:merge", Stages: 2, Nodes: 5, State: run.Queued, Rounds: 1,
		Open: []run.OpenRound{{Lines: "sha256:lines", Count: 3}}, CreatedAt: Now, DueAt: Now.Add(time.Minute)}
	return run.StartBatch{Row: row, Command: change.CommandRow{Key: fmt.Sprint("batch key ", n), PlanRef: row.PlanRef, PlanDigest: "sha256:plan", Answer: history.RefOf(fmt.Append(nil, n))},
		GrantVersion: 1, Now: Now, Take: run.Take{Connection: connection, Generation: generation, Intent: run.Intent{Kind: run.IntentBatch, Ref: row.BatchRef}}}
}

func planned(t *testing.T, s RunStore, n int) {
	t.Helper()
	must(t, s.CreatePlan(t.Context(), planRow(fmt.Sprint("plan_", n))))
}

func fetchedBatch(t *testing.T, s RunStore, n int) run.BatchRow {
	t.Helper()
	row, err := s.Batch(t.Context(), batchRef(n))
	must(t, err)
	return row
}

func startsABatch(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	for n := 1; n <= 9; n++ {
		planned(t, s, n)
	}
	refused := func(name string, want change.ConflictError, q run.StartBatch) {
		t.Helper()
		var conflict *change.ConflictError
		if err := s.CreateBatch(ctx, q); !errors.As(err, &conflict) || *conflict != want {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Batch(ctx, q.Row.BatchRef); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%s: the batch is there: %v", name, err)
		}
	}
	with := func(q run.StartBatch, edit func(*run.StartBatch)) run.StartBatch {
		edit(&q)
		return q
	}
	refused("no plan", change.ConflictError{Plan: true}, batching(40, 1))
	refused("an expired plan", change.ConflictError{Plan: true}, with(batching(1, 1), func(q *run.StartBatch) { q.Now = Now.Add(30 * time.Minute) }))
	refused("another grant", change.ConflictError{Grant: true}, with(batching(1, 1), func(q *run.StartBatch) { q.GrantVersion = 2 }))
	refused("another policy", change.ConflictError{Policy: true}, with(batching(1, 1), func(q *run.StartBatch) { q.PolicyVersion = 2 }))
	refused("a later generation", change.ConflictError{Projection: true}, batching(1, 2))
	refused("no such approval", change.ConflictError{Approval: true}, with(batching(1, 1), func(q *run.StartBatch) { q.ApprovalRef = "approval_none" }))
	if p, err := s.Plan(ctx, space, "plan_1"); err != nil || p.State != change.PlanOpen || projection(t, s).Generation != 0 {
		t.Errorf("a refused start used something up: %+v, %v", p, err)
	}
	must(t, s.CreateApproval(ctx, approval("approval_a")))
	q := batching(1, 1)
	q.ApprovalRef = "approval_a"
	must(t, s.CreateBatch(ctx, q))
	row := fetchedBatch(t, s, 1)
	if row.Version == 0 {
		t.Error("a row that was read has no version")
	}
	row.Version = 0
	if differs(t, row, q.Row) {
		t.Errorf("got %+v", row)
	}
	plan, err := s.Plan(ctx, space, "plan_1")
	must(t, err)
	command, err := s.Command(ctx, space, q.Command.Key)
	must(t, err)
	used, err := s.Approval(ctx, place, "approval_a")
	must(t, err)
	if p := projection(t, s); plan.State != change.PlanApplied || command != q.Command || used.UsedBy != q.Command.Key || p.Generation != 1 || p.Intent != q.Take.Intent {
		t.Errorf("plan %s, command %+v, approval %+v, projection %+v", plan.State, command, used, p)
	}
	again := batching(2, 2)
	again.Row.PlanRef, again.Command.PlanRef = "plan_1", "plan_1"
	refused("a plan that was used", change.ConflictError{Plan: true}, again)
	again = batching(2, 2)
	again.ApprovalRef = "approval_a"
	refused("an approval that was used", change.ConflictError{Approval: true}, again)
	again = batching(2, 2)
	again.Command.Key = q.Command.Key
	refused("a command that was used", change.ConflictError{Command: true}, again)
	for name, edit := range map[string]func(*run.StartBatch){
		"a batch that runs":                func(q *run.StartBatch) { q.Row.State = run.Running },
		"one that is never due":            func(q *run.StartBatch) { q.Row.DueAt = time.Time{} },
		"one without a case":               func(q *run.StartBatch) { q.Row.Count = 0 },
		"one without a round":              func(q *run.StartBatch) { q.Row.Open = nil },
		"a command of another plan":        func(q *run.StartBatch) { q.Command.PlanRef = "plan_9" },
		"a generation for another":         func(q *run.StartBatch) { q.Take.Intent.Ref = batchRef(7) },
		"a generation for a run":           func(q *run.StartBatch) { q.Take.Intent.Kind = run.IntentRun },
		"a generation that is not its own": func(q *run.StartBatch) { q.Row.Projecting.Generation = 9 },
	} {
		q := batching(3, 2)
		edit(&q)
		var conflict *change.ConflictError
		if err := s.CreateBatch(ctx, q); err == nil || errors.As(err, &conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func batchRace(t *testing.T, s RunStore) {
	granted(t, s)
	planned(t, s, 1)
	var wait sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wait.Go(func() {
			q := batching(100+i, 1)
			q.Row.PlanRef, q.Command.PlanRef = "plan_1", "plan_1"
			errs[i] = s.CreateBatch(t.Context(), q)
		})
	}
	wait.Wait()
	won := 0
	for i, err := range errs {
		var conflict *change.ConflictError
		_, fetched := s.Batch(t.Context(), batchRef(100+i))
		switch {
		case err == nil && fetched == nil:
			won++
		case !errors.As(err, &conflict) || !conflict.Plan || !errors.Is(fetched, history.ErrNotFound):
			t.Errorf("start %d: %v, its batch: %v", i, err, fetched)
		}
	}
	if won != 1 || projection(t, s).Generation != 1 {
		t.Errorf("%d starts won", won)
	}
}

func replacesBatches(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	planned(t, s, 1)
	planned(t, s, 2)
	must(t, s.CreateBatch(ctx, batching(1, 1)))
	due, err := s.Due(ctx, Now.Add(time.Minute), 9)
	must(t, err)
	if len(due) != 1 || due[0] != batchRef(1) {
		t.Errorf("due are %v", due)
	}
	first := fetchedBatch(t, s, 1)
	next := first
	next.State, next.Claimed, next.Cancelled = run.Cancelling, true, &run.CancelledBy{Principal: principal, CommandID: "c", At: Now}
	must(t, s.ReplaceBatch(ctx, next, nil))
	if err := s.ReplaceBatch(ctx, first, nil); !errors.Is(err, run.ErrMoved) {
		t.Errorf("an older reading was stored: %v", err)
	}
	end := func(generation int64) (run.BatchRow, *run.Settle) {
		row := fetchedBatch(t, s, 1)
		row.State, row.EndedAt, row.DueAt, row.Open = run.Succeeded, Now, time.Time{}, []run.OpenRound{}
		return row, &run.Settle{Connection: connection, Generation: generation, Ended: run.Succeeded,
			Shown: &run.Shown{Generation: generation, Intent: run.Intent{Kind: run.IntentBatch, Ref: row.BatchRef}, State: run.Succeeded, Slots: history.RefOf([]byte("s")), At: Now}}
	}
	row, settle := end(1)
	row.Version--
	if err := s.ReplaceBatch(ctx, row, settle); !errors.Is(err, run.ErrMoved) || projection(t, s).Shown != nil {
		t.Errorf("an older reading was shown: %v", err)
	}
	row, settle = end(1)
	must(t, s.ReplaceBatch(ctx, row, settle))
	if p := projection(t, s); p.Shown == nil || p.Shown.Intent.Ref != batchRef(1) || p.Ended != run.Succeeded {
		t.Errorf("shown is %+v", p)
	}
	if due, err := s.Due(ctx, Now.Add(time.Hour), 9); err != nil || len(due) != 0 {
		t.Errorf("a terminal batch is due: %v, %v", due, err)
	}
	// A newer batch takes the next generation: what the older one ends in later is
	// history, and all of its write is refused.
	must(t, s.CreateBatch(ctx, batching(2, 2)))
	before := fetchedBatch(t, s, 1)
	row, settle = end(1)
	var late *run.SupersededError
	if err := s.ReplaceBatch(ctx, row, settle); !errors.As(err, &late) || !late.Projection {
		t.Errorf("a late batch was shown: %v", err)
	}
	if differs(t, fetchedBatch(t, s, 1), before) || fetchedBatch(t, s, 1).Version != before.Version {
		t.Error("half of a refused write is stored")
	}
	must(t, s.ReplaceBatch(ctx, row, nil))
}

func child(n, attempt int) (run.Row, run.CaseRow) {
	row := starting(n).Row
	row.State, row.ExecutionArn = run.Running, "arn:child"
	row.Part = run.Part{BatchRef: batchRef(1), CaseKey: fmt.Sprint("case_", n), Index: n, Attempt: attempt}
	return row, run.CaseRow{BatchRef: batchRef(1), CaseKey: row.Part.CaseKey, Index: n, Attempt: attempt, RunRef: row.RunRef, State: run.Cancelled, EndedAt: Now}
}

func createsChildren(t *testing.T, s RunStore) {
	ctx := t.Context()
	row, end := child(1, 0)
	must(t, s.CreateChild(ctx, row, nil))
	if err := s.CreateChild(ctx, row, nil); !errors.Is(err, run.ErrMoved) {
		t.Errorf("a child was created twice: %v", err)
	}
	got := fetched(t, s, 1)
	if got.Part != row.Part || got.State != run.Running || got.Version != 1 {
		t.Errorf("got %+v", got)
	}
	if err := s.CreateChild(ctx, row, &end); !errors.Is(err, run.ErrMoved) {
		t.Errorf("a child that runs was created as ended: %v", err)
	}
	row, end = child(2, 0)
	row.State, row.DueAt = run.Cancelled, time.Time{}
	must(t, s.CreateChild(ctx, row, &end))
	cases, err := s.Cases(ctx, batchRef(1), 0, 10)
	must(t, err)
	if len(cases) != 1 || cases[0] != end {
		t.Errorf("cases are %+v", cases)
	}
	row.RunRef = runRef(77)
	end.RunRef = row.RunRef
	var late *run.SupersededError
	if err := s.CreateChild(ctx, row, &end); !errors.As(err, &late) || !late.Case {
		t.Errorf("a case ended twice: %v", err)
	}
	if _, err := s.Fetch(ctx, runRef(77)); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("its child is there: %v", err)
	}
	rows, err := s.Rows(ctx, []string{runRef(1), runRef(2), runRef(77)})
	must(t, err)
	if len(rows) != 2 || rows[runRef(2)].State != run.Cancelled || rows[runRef(1)].Version != 1 {
		t.Errorf("rows are %+v", rows)
	}
}

func retriesCases(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	planned(t, s, 1)
	must(t, s.CreateBatch(ctx, batching(1, 1)))
	_, was := child(1, 0)
	was.State, was.CaseKey = run.Failed, "case_1"
	row, _ := child(1, 0)
	row.State, row.DueAt = run.Failed, time.Time{}
	must(t, s.CreateChild(ctx, row, &was))
	retry := func(n int, was *run.CaseRow, index, attempt int) run.RetryCase {
		b := fetchedBatch(t, s, 1)
		b.State, b.Rounds, b.Open = run.Running, b.Rounds+1, append(b.Open, run.OpenRound{Round: b.Rounds, Count: 1})
		return run.RetryCase{Batch: b, Was: was, Case: run.CaseRow{BatchRef: b.BatchRef, CaseKey: fmt.Sprint("case_", index), Index: index, Attempt: attempt, RunRef: runRef(200 + n), State: run.Queued},
			Command: change.CommandRow{Key: fmt.Sprint("retry ", n), PlanRef: b.BatchRef, PlanDigest: "sha256:r", Answer: history.RefOf([]byte("a"))}, Principal: principal, GrantVersion: 1, Now: Now}
	}
	if err := s.RetryCase(ctx, retry(1, nil, 1, 1)); !errors.Is(err, run.ErrMoved) {
		t.Errorf("a case that ended was taken for one that did not: %v", err)
	}
	other := was
	other.RunRef = runRef(9)
	if err := s.RetryCase(ctx, retry(1, &other, 1, 1)); !errors.Is(err, run.ErrMoved) {
		t.Errorf("another child's case was retried: %v", err)
	}
	var conflict *change.ConflictError
	foreign := retry(1, &was, 1, 1)
	foreign.GrantVersion = 8
	if err := s.RetryCase(ctx, foreign); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Grant: true}) {
		t.Error(err)
	}
	if b := fetchedBatch(t, s, 1); b.Rounds != 1 {
		t.Errorf("a refused retry left %d rounds", b.Rounds)
	}
	// A Batch of an older generation is not put under way again, and is retried as
	// history: nothing of the projection moves then.
	ended := fetchedBatch(t, s, 1)
	ended.State, ended.EndedAt, ended.DueAt, ended.Open = run.Failed, Now, time.Time{}, []run.OpenRound{}
	must(t, s.ReplaceBatch(ctx, ended, &run.Settle{Connection: connection, Generation: 1, Ended: run.Failed,
		Shown: &run.Shown{Generation: 1, Intent: run.Intent{Kind: run.IntentBatch, Ref: batchRef(1)}, State: run.Failed, Slots: history.RefOf([]byte("s")), At: Now}}))
	older := retry(1, &was, 1, 1)
	older.Batch.DueAt, older.Reopen, older.Batch.Projecting.Generation = Now, true, 9
	var newer *run.SupersededError
	if err := s.RetryCase(ctx, older); !errors.As(err, &newer) || !newer.Projection {
		t.Errorf("an older generation was put under way: %v", err)
	}
	if p := projection(t, s); p.Ended != run.Failed || fetchedBatch(t, s, 1).Rounds != 1 {
		t.Errorf("a refused retry left %+v", p)
	}
	// Of eight at once, one.
	var wait sync.WaitGroup
	errs := make([]error, 8)
	asked := make([]run.RetryCase, len(errs))
	for i := range errs {
		asked[i] = retry(10+i, &was, 1, 1)
		asked[i].Batch.DueAt, asked[i].Reopen, asked[i].Batch.Open = Now, true, []run.OpenRound{{}, {Round: 1, Count: 1}}
	}
	for i := range errs {
		wait.Go(func() { errs[i] = s.RetryCase(ctx, asked[i]) })
	}
	wait.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, run.ErrMoved) {
			t.Error(err)
		}
	}
	cases, err := s.Cases(ctx, batchRef(1), 0, 3)
	must(t, err)
	tally, err := s.Tally(ctx, batchRef(1))
	must(t, err)
	if b := fetchedBatch(t, s, 1); won != 1 || b.Rounds != 2 || len(b.Open) != 2 || len(cases) != 1 || cases[0].Attempt != 1 || cases[0].State != run.Queued || tally != (run.Tally{}) {
		t.Errorf("%d retries won: %+v, %+v, %+v", won, b, cases, tally)
	}
	if p := projection(t, s); p.Ended != "" || p.Shown == nil || p.Shown.State != run.Failed {
		t.Errorf("while the retry runs the projection is %+v", p)
	}
	// The attempt before is over: it ends nothing any more, and the next does.
	late, end := child(1, 0)
	late.RunRef = runRef(55)
	end.RunRef = late.RunRef
	var superseded *run.SupersededError
	if err := s.CreateChild(ctx, late, &end); !errors.As(err, &superseded) {
		t.Errorf("an older attempt ended the case: %v", err)
	}
	if err := s.RetryCase(ctx, retry(30, &cases[0], 1, 2)); err == nil || errors.Is(err, run.ErrMoved) {
		t.Errorf("a case that runs was retried: %v", err)
	}
	// A case that its Batch ended without has no row, and is retried from nothing.
	must(t, s.RetryCase(ctx, retry(31, nil, 2, 1)))
	used := retry(10, nil, 0, 1)
	used.Command.Key = "retry 31"
	if err := s.RetryCase(ctx, used); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Command: true}) {
		t.Errorf("a command was used twice: %v", err)
	}
}

func ranges(t *testing.T, s RunStore) {
	ctx := t.Context()
	const n = 25
	for i := range n {
		row, end := child(i, 0)
		row.DueAt = time.Time{}
		row.State = []run.State{run.Succeeded, run.Failed, run.Cancelled, run.Succeeded}[i%4]
		end.State, end.Values, end.Results = row.State, `{"moment":{"value":1}}`, "sha256:list"
		must(t, s.CreateChild(ctx, row, &end))
	}
	for _, c := range []struct{ first, end, want int }{{0, n, n}, {0, 10_000, n}, {3, 9, 6}, {9, 9, 0}, {9, 3, 0}, {n, n + 5, 0}, {24, 25, 1}} {
		cases, err := s.Cases(ctx, batchRef(1), c.first, c.end)
		must(t, err)
		if len(cases) != c.want {
			t.Errorf("from %d to %d: %d cases", c.first, c.end, len(cases))
		}
		for i, one := range cases {
			if one.Index != c.first+i || one.Values == "" {
				t.Errorf("from %d: the %dth is %+v", c.first, i, one)
			}
		}
	}
	tally, err := s.Tally(ctx, batchRef(1))
	must(t, err)
	if tally != (run.Tally{Ended: n, Failed: 6, Cancelled: 6}) {
		t.Errorf("counted %+v", tally)
	}
	if tally, err := s.Tally(ctx, batchRef(2)); err != nil || tally != (run.Tally{}) {
		t.Errorf("of no batch %+v, %v", tally, err)
	}
	if _, err := s.Batch(ctx, batchRef(2)); !errors.Is(err, history.ErrNotFound) {
		t.Error(err)
	}
}
