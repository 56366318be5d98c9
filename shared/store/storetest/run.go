package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/run"
)

// A RunStore is a Store that keeps Runs too.
type RunStore interface {
	Store
	run.Store
	run.BatchStore
	run.ListStore
}

// Runs runs the suite of run.Store. open returns an empty store.
func Runs(t *testing.T, open func(t *testing.T) RunStore) {
	for name, test := range map[string]func(*testing.T, RunStore){
		"a start creates the run and its command":                  startsARun,
		"a start of a batch takes plan and generation, or nothing": startsABatch,
		"of 16 starts of one batch plan one wins":                  batchRace,
		"a batch is replaced as it was read, and settles with it":  replacesBatches,
		"a child is created once, and ends its case":               createsChildren,
		"a case is retried when it ended, once for all who ask":    retriesCases,
		"cases come by ranges, in order, with their count":         ranges,
		"a start with a false condition does nothing":              refusedStarts,
		"of 32 starts of one command one wins":                     startRace,
		"a row is replaced only as it was read":                    replaces,
		"the first result of a stage counts":                       stages,
		"due runs are found in time and terminal ones never":       due,
		"a project's runs are listed, newest first, in pages":      lists,
		"a start takes the next generation of its connection":      takes,
		"of 32 starts one takes a generation":                      takeRace,
		"only the current generation is shown":                     shows,
		"a newer start against a finish: either, never both":       finishRace,
		"a cancellation against a finish: one of them":             cancelRace,
		"a case ends once, with its current child":                 endsCases,
		"projections of one report are those of no other":          projections,
		"what a row holds comes back to the nanosecond and byte":   roundTrip,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func runRef(n int) string { return fmt.Sprintf("run_%026d", n) }

func starting(n int) run.Start {
	return run.Start{
		Row: run.Row{RunRef: runRef(n), Project: place, FlowKey: "girder_check", RevisionRef: "sha256:r", Principal: principal, RequestDigest: "sha256:q",
			Inputs: history.RefOf([]byte("inputs")), State: run.Queued, Stages: 1, Total: 3, CreatedAt: Now, DueAt: Now.Add(time.Minute)},
		Command: change.CommandRow{Key: fmt.Sprint("key ", n), PlanRef: runRef(n), PlanDigest: "sha256:q", Answer: history.RefOf(fmt.Append(nil, n))},
		Now:     Now, GrantVersion: 1,
	}
}

// granted is a Project in which the principal may run.
func granted(t *testing.T, s RunStore) *project.Projects {
	t.Helper()
	projects := project.New(s, nil, func() time.Time { return Now })
	must(t, projects.Create(t.Context(), place, nil, ""))
	must(t, projects.SetGrant(t.Context(), place, principal, []policy.Right{policy.Read, policy.Run}))
	return projects
}

func startsARun(t *testing.T, s RunStore) {
	granted(t, s)
	start := starting(1)
	if _, err := s.Fetch(t.Context(), start.Row.RunRef); !errors.Is(err, history.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, s.Create(t.Context(), start))
	row, err := s.Fetch(t.Context(), start.Row.RunRef)
	must(t, err)
	version := row.Version
	row.Version = 0
	if !reflect.DeepEqual(row, start.Row) || version == 0 {
		t.Errorf("got %+v", row)
	}
	command, err := s.Command(t.Context(), space, start.Command.Key)
	must(t, err)
	if command != start.Command {
		t.Errorf("got %+v", command)
	}
}

func refusedStarts(t *testing.T, s RunStore) {
	ctx := t.Context()
	projects := granted(t, s)
	must(t, s.Create(ctx, starting(1)))
	consent := func(edit func(*policy.Approval)) func(*run.Start) {
		return func(q *run.Start) {
			a := approval("approval_" + q.Row.RunRef)
			edit(&a)
			must(t, s.CreateApproval(ctx, a))
			q.ApprovalRef = a.ApprovalRef
			must(t, s.CreatePlan(ctx, planRow(q.Row.RunRef)))
		}
	}
	for i, c := range []struct {
		name string
		edit func(*run.Start)
		want change.ConflictError
	}{
		{"the command exists", func(q *run.Start) { q.Command.Key = starting(1).Command.Key }, change.ConflictError{Command: true}},
		{"the grant has another version", func(q *run.Start) { q.GrantVersion = 7 }, change.ConflictError{Grant: true}},
		{"the grant was absent", func(q *run.Start) { q.GrantVersion = 0 }, change.ConflictError{Grant: true}},
		{"the policy has another version", func(q *run.Start) { q.PolicyVersion = 3 }, change.ConflictError{Policy: true}},
		{"the approval does not exist", func(q *run.Start) {
			consent(func(*policy.Approval) {})(q)
			q.ApprovalRef = "approval_none"
		}, change.ConflictError{Approval: true}},
		{"nobody asked for the run", func(q *run.Start) {
			a := approval("approval_unasked")
			must(t, s.CreateApproval(ctx, a))
			q.ApprovalRef = a.ApprovalRef
		}, change.ConflictError{Plan: true}},
		{"the run that was asked for is rejected", func(q *run.Start) {
			consent(func(*policy.Approval) {})(q)
			row := planRow(q.Row.RunRef)
			row.State, row.RejectedBy, row.RejectedAt = change.PlanRejected, "https://issuer.test|reviewer", Now
			must(t, s.RejectPlan(ctx, row))
		}, change.ConflictError{Plan: true}},
		{"the approver's grant has another version", func(q *run.Start) {
			consent(func(*policy.Approval) {})(q)
			q.Approver, q.ApproverVersion = "https://issuer.test|reviewer", 7
		}, change.ConflictError{Grant: true}},
		{"the approval is used", func(q *run.Start) {
			consent(func(*policy.Approval) {})(q)
			first := starting(60)
			first.ApprovalRef = q.ApprovalRef
			must(t, s.CreatePlan(ctx, planRow(first.Row.RunRef)))
			must(t, s.Create(ctx, first))
		}, change.ConflictError{Approval: true}},
		{"the approval expires this very nanosecond", consent(func(a *policy.Approval) { a.ExpiresAt = Now }), change.ConflictError{Approval: true}},
	} {
		q := starting(10 + i)
		c.edit(&q)
		var conflict *change.ConflictError
		if err := s.Create(ctx, q); !errors.As(err, &conflict) || *conflict != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := s.Fetch(ctx, q.Row.RunRef); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%s: the run is there: %v", c.name, err)
		}
	}
	// The policy moves between reading it and the start.
	must(t, projects.SetPolicy(ctx, place, []policy.Rule{{On: policy.OnRun, Approval: "required"}}))
	var conflict *change.ConflictError
	if err := s.Create(ctx, starting(30)); !errors.As(err, &conflict) || *conflict != (change.ConflictError{Policy: true}) {
		t.Error(err)
	}
	// A good approval is used up.
	q := starting(31)
	q.PolicyVersion = 1
	consent(func(*policy.Approval) {})(&q)
	must(t, s.Create(ctx, q))
	used, err := s.Approval(ctx, place, q.ApprovalRef)
	must(t, err)
	if used.UsedBy != q.Command.Key {
		t.Errorf("used by %q", used.UsedBy)
	}
	if row, err := s.FindPlan(ctx, q.Row.RunRef); err != nil || row.State != change.PlanApplied {
		t.Errorf("what was asked for is %s, %v", row.State, err)
	}
	for name, edit := range map[string]func(*run.Start){
		"a run that is not queued":    func(q *run.Start) { q.Row.State = run.Running },
		"a run that is never due":     func(q *run.Start) { q.Row.DueAt = time.Time{} },
		"a command of another run":    func(q *run.Start) { q.Command.PlanRef = "run_other" },
		"a command without an answer": func(q *run.Start) { q.Command.Answer = "" },
	} {
		q := starting(40)
		edit(&q)
		if err := s.Create(ctx, q); err == nil || errors.As(err, &conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func startRace(t *testing.T, s RunStore) {
	granted(t, s)
	var wait sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		wait.Go(func() {
			q := starting(100 + i)
			q.Command.Key = "the one"
			errs[i] = s.Create(t.Context(), q)
		})
	}
	wait.Wait()
	won := 0
	for i, err := range errs {
		var conflict *change.ConflictError
		_, fetched := s.Fetch(t.Context(), runRef(100+i))
		switch {
		case err == nil && fetched == nil:
			won++
		case !errors.As(err, &conflict) || !conflict.Command || !errors.Is(fetched, history.ErrNotFound):
			t.Errorf("start %d: %v, its run: %v", i, err, fetched)
		}
	}
	if won != 1 {
		t.Errorf("%d starts won", won)
	}
}

func replaces(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	must(t, s.Create(ctx, starting(1)))
	first, err := s.Fetch(ctx, runRef(1))
	must(t, err)
	moved := first
	moved.State, moved.ExecutionArn = run.Running, "arn"
	must(t, s.Replace(ctx, moved))
	if err := s.Replace(ctx, first); !errors.Is(err, run.ErrMoved) {
		t.Errorf("an older reading was stored: %v", err)
	}
	if err := s.Replace(ctx, moved); !errors.Is(err, run.ErrMoved) {
		t.Errorf("one reading was stored twice: %v", err)
	}
	unread := moved
	unread.Version = 0
	if err := s.Replace(ctx, unread); !errors.Is(err, run.ErrMoved) {
		t.Errorf("a row that was never read was stored: %v", err)
	}
	absent := moved
	absent.RunRef = runRef(2)
	if err := s.Replace(ctx, absent); !errors.Is(err, run.ErrMoved) {
		t.Errorf("a run that does not exist was stored: %v", err)
	}
	now, err := s.Fetch(ctx, runRef(1))
	must(t, err)
	if now.State != run.Running || now.ExecutionArn != "arn" {
		t.Errorf("got %+v", now)
	}
	// Many at once, each counting one: none is lost.
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for {
				row, err := s.Fetch(ctx, runRef(1))
				if err == nil {
					row.Completed++
					err = s.Replace(ctx, row)
				}
				if !errors.Is(err, run.ErrMoved) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wait.Wait()
	if now, err = s.Fetch(ctx, runRef(1)); err != nil || now.Completed != 16 {
		t.Errorf("%d of 16 counted, %v", now.Completed, err)
	}
}

func stages(t *testing.T, s RunStore) {
	ctx := t.Context()
	if _, err := s.Stage(ctx, runRef(1), 0); !errors.Is(err, history.ErrNotFound) {
		t.Error(err)
	}
	var wait sync.WaitGroup
	got := make([]history.Ref, 16)
	for i := range got {
		wait.Go(func() {
			var err error
			if got[i], err = s.SaveStage(ctx, runRef(1), 0, history.RefOf(fmt.Append(nil, i))); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	stored, err := s.Stage(ctx, runRef(1), 0)
	must(t, err)
	for i, ref := range got {
		if ref != stored {
			t.Errorf("the %dth was told %s, stored is %s", i, ref, stored)
		}
	}
	other, err := s.SaveStage(ctx, runRef(1), 1, "sha256:one")
	must(t, err)
	if other != "sha256:one" || stored == other {
		t.Error("stages share a result")
	}
}

func due(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	var want []string
	for i := range 12 {
		q := starting(i)
		q.Row.DueAt = Now.Add(time.Duration(i) * time.Minute)
		must(t, s.Create(ctx, q))
		if i <= 6 {
			want = append(want, q.Row.RunRef)
		}
	}
	ask := func(at time.Time, limit int) []string {
		refs, err := s.Due(ctx, at, limit)
		must(t, err)
		slices.Sort(refs)
		return refs
	}
	if got := ask(Now.Add(6*time.Minute), 100); !slices.Equal(got, want) {
		t.Errorf("due %v, want %v", got, want)
	}
	if got := ask(Now.Add(-time.Nanosecond), 100); len(got) != 0 {
		t.Errorf("due before its time: %v", got)
	}
	if got := ask(Now.Add(time.Hour), 3); len(got) == 0 || len(got) > 3 {
		t.Errorf("%d of at most 3", len(got))
	}
	row, err := s.Fetch(ctx, want[0])
	must(t, err)
	row.State, row.DueAt = run.Succeeded, time.Time{}
	must(t, s.Replace(ctx, row))
	if got := ask(Now.Add(6*time.Minute), 100); !slices.Equal(got, want[1:]) {
		t.Errorf("a terminal run is due: %v", got)
	}
}

func lists(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	var want []string
	for i := range 130 { // more than one read of rows
		q := starting(i)
		q.Row.CreatedAt = Now.Add(time.Duration(i/3) * time.Second) // some at once
		must(t, s.Create(ctx, q))
		want = append(want, q.Row.RunRef)
	}
	planned(t, s, 1)
	b := batching(1, 1)
	b.Row.CreatedAt = Now.Add(time.Hour)
	must(t, s.CreateBatch(ctx, b))
	want = append(want, b.Row.BatchRef)
	slices.Reverse(want)
	child := starting(500).Row
	child.Part = run.Part{BatchRef: b.Row.BatchRef, CaseKey: "a"}
	must(t, s.CreateChild(ctx, child, nil))

	for _, limit := range []int{1, 7, 125, 200} {
		var got []string
		for before := ""; ; {
			page, err := s.Recent(ctx, place, before, limit)
			must(t, err)
			if len(page) == 0 {
				break
			}
			if len(page) > limit {
				t.Fatalf("a page of %d has %d", limit, len(page))
			}
			for _, l := range page {
				got = append(got, l.Ref)
			}
			before = page[len(page)-1].Place()
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
	other := place
	other.ProjectKey += "_2"
	if page, err := s.Recent(ctx, other, "", 10); err != nil || len(page) != 0 {
		t.Errorf("another project's runs: %v, %v", page, err)
	}
	// What a line tells is what the row says now.
	row, err := s.Fetch(ctx, runRef(129))
	must(t, err)
	row.State, row.DueAt, row.EndedAt = run.Failed, time.Time{}, Now.Add(2*time.Hour)
	must(t, s.Replace(ctx, row))
	page, err := s.Recent(ctx, place, "", 2)
	must(t, err)
	if len(page) != 2 || page[0] != run.ListedBatch(fetchedBatch(t, s, 1)) || !page[0].Batch || page[1] != run.ListedRun(row) || page[1].State != run.Failed {
		t.Errorf("%+v", page)
	}
}

func roundTrip(t *testing.T, s RunStore) {
	ctx := t.Context()
	granted(t, s)
	must(t, s.Create(ctx, starting(1)))
	row, err := s.Fetch(ctx, runRef(1))
	must(t, err)
	row.State, row.ExecutionArn, row.Stage, row.Completed = run.Cancelling, "arn:aws:states:…", 1, 3
	row.Results, row.Diagnostics, row.Reason = "sha256:results", "sha256:diagnostics", "because \"…\"\n한글"
	row.StartedAt, row.EndedAt, row.DueAt = Now.Add(1), Now.Add(time.Second+1), Now.Add(time.Hour+999)
	row.Cancelled = &run.CancelledBy{Principal: principal, CommandID: "stop", Reason: "enough", At: Now.Add(3)}
	row.Sandbox = []int{0, 2}
	row.StageEnds = []int64{12, 3000}
	row.RanBy = []run.Ran{{Python: "3.11.2", GVisor: "release-1", Driver: "rootless", Stages: []int{0}}}
	must(t, s.Replace(ctx, row))
	got, err := s.Fetch(ctx, runRef(1))
	must(t, err)
	if got.Cancelled == nil || *got.Cancelled != *row.Cancelled {
		t.Errorf("got %+v", got.Cancelled)
	}
	got.Cancelled, row.Cancelled = nil, nil
	got.Version, row.Version = 0, 0
	if !reflect.DeepEqual(got, row) {
		t.Errorf("got  %+v\nwant %+v", got, row)
	}
}
