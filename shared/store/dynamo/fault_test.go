package dynamo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/storetest"
	"github.com/pxhost/pxhost/shared/target"
)

// A fault is what happens to one call: perform says whether the request reaches
// the service, err what the caller sees (nil: the service's answer).
type fault struct {
	name    string
	perform bool
	err     error
	hang    bool // no answer until the attempt's time is over
}

var (
	errLost = errors.New("connection reset by peer")
	// errCollision stands for a conflict of as many items as the transaction has.
	errCollision = errors.New("collision")
	server       = &types.InternalServerError{}
	throttle     = &types.ThrottlingException{}
	conflict     = func(items int) error {
		reasons := make([]types.CancellationReason, items)
		for i := range reasons {
			reasons[i].Code = aws.String("None")
		}
		reasons[0].Code = aws.String("TransactionConflict")
		return &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	faults = []fault{
		{"the request is lost", false, errLost, false},
		{"the reply is lost", true, errLost, false},
		{"the server fails before", false, server, false},
		{"the server fails after", true, server, false},
		{"no answer to a request that was lost", false, nil, true},
		{"no answer to a request that was performed", true, nil, true},
		{"throttled", false, throttle, false},
	}
)

// faulty passes calls on to a fake, and to the writes among them lets the faults
// happen in turn. It keeps every transaction that was sent.
type faulty struct {
	*fake
	mu     sync.Mutex
	faults []fault
	sent   []string // token and text
	after  func()   // once, after the first fault
}

func (f *faulty) next() (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.faults) == 0 {
		return fault{}, false
	}
	out := f.faults[0]
	f.faults = f.faults[1:]
	return out, true
}

func inject[Out any](ctx context.Context, f *faulty, call func() (Out, error)) (Out, error) {
	var none Out
	broken, ok := f.next()
	if !ok {
		return call()
	}
	if broken.perform {
		call()
	}
	if f.after != nil {
		f.after()
		f.after = nil
	}
	if broken.hang {
		<-ctx.Done()
		return none, &smithy.CanceledError{Err: ctx.Err()}
	}
	return none, broken.err
}

func (f *faulty) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return inject(ctx, f, func() (*dynamodb.PutItemOutput, error) { return f.fake.PutItem(ctx, in, o...) })
}

func (f *faulty) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return inject(ctx, f, func() (*dynamodb.BatchWriteItemOutput, error) { return f.fake.BatchWriteItem(ctx, in, o...) })
}

func (f *faulty) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	f.mu.Lock()
	f.sent = append(f.sent, *in.ClientRequestToken+"\n"+text(in))
	for i := range f.faults {
		if f.faults[i].err == errCollision {
			f.faults[i].err = conflict(len(in.TransactItems))
		}
	}
	f.mu.Unlock()
	return inject(ctx, f, func() (*dynamodb.TransactWriteItemsOutput, error) { return f.fake.TransactWriteItems(ctx, in, o...) })
}

// broken is a faulty whose reads fail too.
type broken struct{ *faulty }

func (f broken) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return inject(ctx, f.faulty, func() (*dynamodb.GetItemOutput, error) { return f.fake.GetItem(ctx, in, o...) })
}

func (f broken) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return inject(ctx, f.faulty, func() (*dynamodb.BatchGetItemOutput, error) { return f.fake.BatchGetItem(ctx, in, o...) })
}

func (f broken) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return inject(ctx, f.faulty, func() (*dynamodb.QueryOutput, error) { return f.fake.Query(ctx, in, o...) })
}

// A read that failed is repeated, and never taken for a row that is not there:
// that would be a grant revoked or a command forgotten.
func TestAFailedReadIsNotAMissingRow(t *testing.T) {
	reads := map[string]func(context.Context, *Store) (any, error){
		"Head":     func(ctx context.Context, s *Store) (any, error) { return s.Head(ctx, space) },
		"FindPlan": func(ctx context.Context, s *Store) (any, error) { return s.FindPlan(ctx, "plan_x") },
		"Plan":     func(ctx context.Context, s *Store) (any, error) { return s.Plan(ctx, space, "plan_x") },
		"Command":  func(ctx context.Context, s *Store) (any, error) { return s.Command(ctx, space, "key") },
		"Grant":    func(ctx context.Context, s *Store) (any, error) { return s.Grant(ctx, bridge, engineer) },
		"Policy":   func(ctx context.Context, s *Store) (any, error) { return s.Policy(ctx, bridge) },
		"Project":  func(ctx context.Context, s *Store) (any, error) { return s.Project(ctx, bridge) },
		"Current":  func(ctx context.Context, s *Store) (any, error) { return s.Current(ctx) },
		"Get":      func(ctx context.Context, s *Store) (any, error) { return s.Get(ctx, space, ref("one")) },
		"Get two":  func(ctx context.Context, s *Store) (any, error) { return s.Get(ctx, space, ref("one"), ref("two")) },
	}
	for name, read := range reads {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			f := &faulty{fake: newFake()}
			s := over(f)
			projects := project.New(s, nil, clock)
			if err := errors.Join(projects.Create(ctx, bridge, target.Label{"en": "a"}, "d"), s.Put(ctx, space, []byte("one"), []byte("two")),
				s.CreatePlan(ctx, plan("plan_x")), s.Commit(ctx, commitment("x")),
				projects.SetGrant(ctx, bridge, engineer, []policy.Right{policy.Read}), projects.SetPolicy(ctx, bridge, []policy.Rule{{On: policy.OnFlow}})); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Current(ctx); err != nil {
				t.Fatal(err)
			}
			// A process of its own for each, or it would remember the cursor key.
			want, err := read(ctx, over(f))
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults {
				f.faults = append(f.faults[:0], fault, fault, fault)
				if got, err := read(ctx, over(broken{f})); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s: %v, %v", name, fault.name, got, err)
				}
			}
			for range 50 {
				f.faults = append(f.faults, fault{err: server})
			}
			if _, err := read(ctx, over(broken{f})); err == nil || errors.Is(err, history.ErrNotFound) {
				t.Errorf("%s of a service that always fails: %v", name, err)
			}
		})
	}
}

const space = history.Space("structural_team/bridge_package")

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

const engineer = "https://issuer.test|engineer"

func ref(s string) history.Ref { return history.RefOf([]byte(s)) }

func plan(ref_ string) change.PlanRow {
	return change.PlanRow{PlanRef: ref_, Space: space, Digest: "sha256:d", Body: ref("body"), CreatedAt: clock(), ExpiresAt: clock().Add(time.Hour), State: change.PlanOpen}
}

func commitment(name string) change.Commitment {
	return change.Commitment{
		Space: space, Next: history.Head{Commit: ref("commit " + name), Root: ref("root"), Version: 1},
		Command: change.CommandRow{Key: "key", PlanRef: "plan_" + name, PlanDigest: "sha256:d", Answer: ref("answer " + name)},
		PlanRef: "plan_" + name, Now: clock(), Principal: engineer,
	}
}

func start(runRef string) run.Start {
	return run.Start{
		Row:     run.Row{RunRef: runRef, Project: bridge, Principal: engineer, State: run.Queued, CreatedAt: clock(), DueAt: clock()},
		Command: change.CommandRow{Key: "key of " + runRef, PlanRef: runRef, PlanDigest: "sha256:q", Answer: ref("answer")}, Now: clock(),
	}
}

// shown is the start of a Run that a Report shows.
func shown(runRef string, generation int64) run.Start {
	q := start(runRef)
	q.Row.Projecting = run.Projecting{ReportKey: "girder_review", RevisionRef: "sha256:r", ConnectionKey: "girder_check", Generation: generation, Slots: ref("slots")}
	q.Take = &run.Take{Connection: q.Row.Connection(), Generation: generation, Intent: run.Intent{Kind: run.IntentRun, Ref: runRef}}
	return q
}

// startBatch is a start of a Batch of another connection than shown's.
func startBatch(batchRef, planRef string, generation int64) run.StartBatch {
	row := run.BatchRow{BatchRef: batchRef, Project: bridge, Principal: engineer, PlanRef: planRef, Count: 2, State: run.Queued, Rounds: 1, Open: []run.OpenRound{{Count: 2}},
		Projecting: run.Projecting{ReportKey: "girder_review", ConnectionKey: "batches", Generation: generation, Slots: ref("slots")}, CreatedAt: clock(), DueAt: clock()}
	return run.StartBatch{Row: row, Command: change.CommandRow{Key: "key of " + batchRef, PlanRef: planRef, PlanDigest: "sha256:p", Answer: ref("answer")}, Now: clock(),
		Take: run.Take{Connection: row.Connection(), Generation: generation, Intent: run.Intent{Kind: run.IntentBatch, Ref: batchRef}}}
}

// moved takes the answer that a write met its own performed attempt for done, if it is.
func moved(ctx context.Context, s *Store, err error, want run.State) error {
	if !errors.Is(err, run.ErrMoved) {
		return err
	}
	again, err := s.Batch(ctx, "batch_x")
	if err == nil && again.State != want {
		err = errors.New("told moved, and is not")
	}
	return err
}

func finish(row run.Row) run.Finish {
	row.State, row.EndedAt, row.DueAt = run.Succeeded, clock(), time.Time{}
	return run.Finish{Row: row, Settle: &run.Settle{Connection: row.Connection(), Generation: row.Projecting.Generation, Ended: run.Succeeded,
		Shown: &run.Shown{Generation: row.Projecting.Generation, Intent: run.Intent{Kind: run.IntentRun, Ref: row.RunRef}, State: run.Succeeded, Slots: ref("shown"), At: clock()}},
		Case: &run.CaseRow{BatchRef: "batch_1", CaseKey: "a", RunRef: row.RunRef, State: run.Succeeded, EndedAt: clock()}}
}

// Every write, under every fault, once and three times over: the call succeeds
// and its effect is there exactly once.
//
// covers: P9
func TestEveryWriteSurvivesEveryFault(t *testing.T) {
	record := project.Record{Project: bridge, Label: target.Label{"en": "Bridges"}, CreatedAt: clock()}
	operations := map[string]func(context.Context, *Store) error{
		"Put":        func(ctx context.Context, s *Store) error { return s.Put(ctx, space, []byte("body")) },
		"CreatePlan": func(ctx context.Context, s *Store) error { return s.CreatePlan(ctx, plan("plan_a")) },
		"RejectPlan": func(ctx context.Context, s *Store) error {
			row := plan("plan_x")
			row.State, row.RejectedBy, row.RejectedAt = change.PlanRejected, "https://issuer.test|reviewer", clock()
			return s.RejectPlan(ctx, row)
		},
		"CreateApproval": func(ctx context.Context, s *Store) error {
			return s.CreateApproval(ctx, policy.Approval{ApprovalRef: "approval_a", Project: bridge, ExpiresAt: clock()})
		},
		"CreateProject": func(ctx context.Context, s *Store) error {
			return s.CreateProject(ctx, project.Record{Project: target.Project{WorkspaceKey: "a", ProjectKey: "b"}})
		},
		"Current": func(ctx context.Context, s *Store) error { _, err := s.Current(ctx); return err },
		"Commit":  func(ctx context.Context, s *Store) error { return s.Commit(ctx, commitment("x")) },
		"WritePolicy": func(ctx context.Context, s *Store) error {
			return s.WritePolicy(ctx, bridge, 0, []policy.Rule{{On: policy.OnFlow, Approval: "none"}})
		},
		"WriteGrant": func(ctx context.Context, s *Store) error {
			return s.WriteGrant(ctx, project.GrantWrite{Project: bridge, Principal: engineer, Rights: []policy.Right{policy.Read}, Directory: "principal/x", To: history.Head{Commit: ref("g"), Version: 1}})
		},
		"Create": func(ctx context.Context, s *Store) error { return s.Create(ctx, start("run_new")) },
		"Replace": func(ctx context.Context, s *Store) error {
			row, err := s.Fetch(ctx, "run_x")
			if err != nil {
				return err
			}
			row.State = run.Running
			// Its own performed write looks to a resend as somebody else's: who
			// repeats the step reads, and finds it done.
			if err = s.Replace(ctx, row); errors.Is(err, run.ErrMoved) {
				again, err := s.Fetch(ctx, "run_x")
				if err == nil && again.State != run.Running {
					err = errors.New("told moved, and is not")
				}
				return err
			}
			return err
		},
		"Finish": func(ctx context.Context, s *Store) error {
			row, err := s.Fetch(ctx, "run_shown")
			if err != nil {
				return err
			}
			err = s.Finish(ctx, finish(row))
			if errors.Is(err, run.ErrMoved) {
				again, err := s.Fetch(ctx, "run_shown")
				if err == nil && again.State != run.Succeeded {
					err = errors.New("told moved, and is not")
				}
				return err
			}
			return err
		},
		"CreateBatch": func(ctx context.Context, s *Store) error {
			return s.CreateBatch(ctx, startBatch("batch_new", "plan_x", 2))
		},
		"ReplaceBatch": func(ctx context.Context, s *Store) error {
			row, err := s.Batch(ctx, "batch_x")
			if err != nil {
				return err
			}
			row.State, row.EndedAt, row.DueAt = run.Failed, clock(), time.Time{}
			return moved(ctx, s, s.ReplaceBatch(ctx, row, &run.Settle{Connection: row.Connection(), Generation: 1, Ended: run.Failed}), run.Failed)
		},
		"CreateChild": func(ctx context.Context, s *Store) error {
			row := start("run_child").Row
			row.State, row.DueAt = run.Cancelled, time.Time{}
			err := s.CreateChild(ctx, row, &run.CaseRow{BatchRef: "batch_x", CaseKey: "b", Index: 1, RunRef: "run_child", State: run.Cancelled, EndedAt: clock()})
			if errors.Is(err, run.ErrMoved) {
				_, err = s.Fetch(ctx, "run_child")
			}
			return err
		},
		"RetryCase": func(ctx context.Context, s *Store) error {
			row, err := s.Batch(ctx, "batch_x")
			if err != nil {
				return err
			}
			row.State, row.Rounds = run.Running, 2
			return s.RetryCase(ctx, run.RetryCase{Batch: row, Reopen: true, Case: run.CaseRow{BatchRef: "batch_x", CaseKey: "a", Attempt: 1, RunRef: "run_a1", State: run.Queued},
				Was:     &run.CaseRow{BatchRef: "batch_x", CaseKey: "a", RunRef: "run_a0", State: run.Failed},
				Command: change.CommandRow{Key: "retry", PlanRef: "batch_x", PlanDigest: "sha256:r", Answer: ref("answer")}, Principal: engineer, Now: clock()})
		},
		"Take": func(ctx context.Context, s *Store) error { return s.Create(ctx, shown("run_next", 2)) },
		"SaveStage": func(ctx context.Context, s *Store) error {
			got, err := s.SaveStage(ctx, "run_x", 0, ref("stage"))
			if err == nil && got != ref("stage") {
				err = errors.New("another result is stored")
			}
			return err
		},
		"SetGrant": func(ctx context.Context, s *Store) error {
			return project.New(s, nil, clock).SetGrant(ctx, bridge, engineer, []policy.Right{policy.Read})
		},
	}
	for name, operation := range operations {
		want := "" // what is stored without a fault
		for _, broken := range append([]fault{{}}, faults...) {
			for _, times := range []int{1, 3} {
				for _, forgotten := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						ctx := t.Context()
						f := &faulty{fake: newFake()}
						s := over(f)
						if err := errors.Join(s.CreateProject(ctx, record), s.CreatePlan(ctx, plan("plan_x")), s.Create(ctx, start("run_x")), s.Create(ctx, shown("run_shown", 1)),
							s.CreatePlan(ctx, plan("plan_batch")), s.CreateBatch(ctx, startBatch("batch_x", "plan_batch", 1)),
							s.CreateChild(ctx, start("run_a0").Row, &run.CaseRow{BatchRef: "batch_x", CaseKey: "a", RunRef: "run_a0", State: run.Failed})); err != nil {
							t.Fatal(err)
						}
						for range times {
							if broken.name != "" {
								f.faults = append(f.faults, broken)
							}
						}
						if forgotten { // the ten minutes of the token are over before the first resend
							f.after = func() { f.fake.mu.Lock(); clear(f.tokens); f.fake.mu.Unlock() }
						}
						if err := operation(ctx, s); err != nil {
							t.Errorf("%s, %s %d times (token forgotten: %v): %v", name, broken.name, times, forgotten, err)
						}
						if len(f.faults) > 0 && broken.name != "" {
							t.Errorf("%s, %s: %d faults did not happen", name, broken.name, len(f.faults))
						}
						if name == "Current" {
							return // random
						}
						if got := contents(f.tables); want == "" {
							want = got
						} else if got != want {
							t.Errorf("%s, %s %d times: stored\n%s\nnot\n%s", name, broken.name, times, got, want)
						}
					})
				}
			}
		}
	}
}

// contents is all that is stored, as text.
func contents(tables map[string]map[string]attributes) string {
	var out strings.Builder
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		for _, id := range slices.Sorted(maps.Keys(tables[table])) {
			fmt.Fprintf(&out, "%s %q %s\n", table, id, show(tables[table][id]))
		}
	}
	return out.String()
}

func TestResendsAreIdenticalAndConflictsGetAFreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{fake: newFake()}
		s := over(f)
		if err := s.CreatePlan(t.Context(), plan("plan_x")); err != nil {
			t.Fatal(err)
		}
		f.faults = []fault{{err: errLost}, {hang: true}, {err: throttle}, {err: &types.TransactionInProgressException{}}, {err: conflict(5)}, {err: server}, {err: conflict(5)}}
		if err := s.Commit(t.Context(), commitment("x")); err != nil {
			t.Fatal(err)
		}
		same := func(a, b int) bool { return f.sent[a] == f.sent[b] }
		if len(f.sent) != 8 || !same(0, 1) || !same(0, 2) || !same(0, 3) || !same(0, 4) || !same(5, 6) {
			t.Fatal("a resend after an unknown outcome or throttling differs from what it repeats")
		}
		if same(4, 5) || same(6, 7) || same(0, 7) {
			t.Fatal("a request after a collision has the old token")
		}
		body := func(i int) string { _, b, _ := strings.Cut(f.sent[i], "\n"); return b }
		if body(0) != body(7) {
			t.Fatal("the transaction itself changed")
		}
	})
}

// covers: P9
func TestCommitIsNeverWrongAboutWhatItCannotKnow(t *testing.T) {
	rival := func(t *testing.T, f *fake, sameCommand bool) func() {
		return func() {
			c := commitment("rival")
			if !sameCommand {
				c.Command.Key = "another key"
			}
			if err := over(f).Commit(context.Background(), c); err != nil {
				t.Error(err)
			}
		}
	}
	always := func(broken fault) (out []fault) {
		for range 10_000 {
			out = append(out, broken)
		}
		return out
	}
	for _, row := range []struct {
		name   string
		faults []fault
		after  func(*testing.T, *fake) func()
		want   func(error) bool
		head   history.Ref
	}{
		{"lost for ever before", always(fault{err: errLost}), nil, func(err error) bool { return errors.Is(err, history.ErrOutcomeUnknown) }, ""},
		{"lost for ever after", always(fault{perform: true, err: errLost}), nil, func(err error) bool { return errors.Is(err, history.ErrOutcomeUnknown) }, ref("commit x")},
		{"lost once, then colliding for ever", append([]fault{{err: errLost}}, always(fault{err: conflict(5)})...), nil, func(err error) bool { return errors.Is(err, history.ErrOutcomeUnknown) }, ""},
		{"lost once, then no permission", []fault{{err: errLost}, {err: &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient}}}, nil, func(err error) bool { return errors.Is(err, history.ErrOutcomeUnknown) }, ""},
		{"colliding for ever", always(fault{err: conflict(5)}), nil, func(err error) bool {
			var conflict *change.ConflictError
			return err != nil && !errors.Is(err, history.ErrOutcomeUnknown) && !errors.As(err, &conflict)
		}, ""},
		{"no permission", []fault{{err: &smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient, Message: "secret"}}}, nil, func(err error) bool {
			return err != nil && !errors.Is(err, history.ErrOutcomeUnknown) && !strings.Contains(err.Error(), "secret")
		}, ""},
		{"lost before, and another command wins", []fault{{err: errLost}}, func(t *testing.T, f *fake) func() { return rival(t, f, false) }, func(err error) bool {
			var conflict *change.ConflictError
			return errors.As(err, &conflict) && *conflict == change.ConflictError{Head: true}
		}, ref("commit rival")},
		{"lost before, and another apply of the command wins", []fault{{err: errLost}}, func(t *testing.T, f *fake) func() { return rival(t, f, true) }, func(err error) bool {
			var conflict *change.ConflictError
			return errors.As(err, &conflict) && conflict.Head && conflict.Command
		}, ref("commit rival")},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{fake: newFake()}
			s := over(f)
			if err := errors.Join(s.CreatePlan(t.Context(), plan("plan_x")), s.CreatePlan(t.Context(), plan("plan_rival"))); err != nil {
				t.Fatal(err)
			}
			f.faults = row.faults
			if row.after != nil {
				f.after = row.after(t, f.fake)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			begun := time.Now()
			if err := s.Commit(ctx, commitment("x")); !row.want(err) {
				t.Errorf("%s: %v", row.name, err)
			}
			if d := time.Since(begun); d > 15*time.Second {
				t.Errorf("%s: answered after %s", row.name, d)
			}
			f.faults = nil
			if head, err := s.Head(t.Context(), space); err != nil || head.Commit != row.head {
				t.Errorf("%s: head %v, %v", row.name, head, err)
			}
		})
	}
}

func TestACancelledCallerLearnsThatNothingWasSent(t *testing.T) {
	f := &faulty{fake: newFake()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := over(f).Commit(ctx, commitment("x")); !errors.Is(err, context.Canceled) || errors.Is(err, history.ErrOutcomeUnknown) || len(f.sent) > 0 {
		t.Fatalf("%v after %d requests", err, len(f.sent))
	}
}

func TestObjectsThatAReplicaDoesNotHaveYetAreReadConsistently(t *testing.T) {
	f := newFake()
	s := over(f)
	var bodies [][]byte
	var refs []history.Ref
	for i := range 120 {
		bodies = append(bodies, fmt.Appendf(nil, "%d", i))
		refs = append(refs, history.RefOf(bodies[i]))
	}
	f.unprocessed = 40
	if err := s.Put(t.Context(), space, bodies...); err != nil {
		t.Fatal(err)
	}
	f.stale, f.unprocessed = true, 150
	got, err := s.Get(t.Context(), space, refs...)
	if err != nil || len(got) != 120 || !bytes.Equal(got[119], bodies[119]) {
		t.Fatal(len(got), err)
	}
	if _, err := s.Get(t.Context(), space, refs[0]); err != nil {
		t.Fatal(err)
	}
	f.stale = false
	clear(f.counts)
	if _, err := s.Get(t.Context(), space, refs[0]); err != nil || f.counts["GetItem"] != 1 {
		t.Fatalf("an object that is there costs %v, %v", f.counts, err)
	}
}

func TestAlteredObjectsAreNeverReturned(t *testing.T) {
	f := newFake()
	blobs := &heap{blobs: map[string][]byte{}}
	s := New(Config{Client: f, Tables: Tables{Objects: "objects"}, Blobs: blobs, Now: clock})
	text := bytes.Repeat([]byte("girder "), 1000)
	// Noise does not shrink, so it goes to the blob store.
	large := make([]byte, 400<<10)
	rand.NewChaCha8([32]byte{}).Read(large)
	if err := s.Put(t.Context(), space, text, []byte("short"), large); err != nil {
		t.Fatal(err)
	}
	for _, item := range f.tables["objects"] {
		for name, v := range maps.Clone(item) {
			if v, ok := v.(*types.AttributeValueMemberB); ok {
				changed := bytes.Clone(v.Value)
				changed[len(changed)/2] ^= 1
				item[name] = bin(changed)
			}
		}
	}
	for _, b := range blobs.blobs {
		b[9] ^= 1
	}
	for _, body := range [][]byte{text, []byte("short"), large} {
		if _, err := s.Get(t.Context(), space, history.RefOf(body)); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("an altered object of %d bytes: %v", len(body), err)
		}
	}
}

var _ storetest.Store = (*Store)(nil)
