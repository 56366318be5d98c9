package sandbox_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

var (
	bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}
	other  = target.Project{WorkspaceKey: "other_team", ProjectKey: "bridge_package"}
	begin  = time.Date(2026, 11, 30, 9, 0, 0, 123456789, time.UTC)
)

// tokens remembers what was answered.
type tokens struct {
	mu       sync.Mutex
	answered []string
	err      error
}

func (k *tokens) say(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.answered = append(k.answered, text)
	return nil
}

func (k *tokens) Succeed(_ context.Context, token string) error    { return k.say(token) }
func (k *tokens) Fail(_ context.Context, token, code string) error { return k.say(token + " " + code) }

// starter remembers what it started.
type starter struct {
	mu      sync.Mutex
	started []string
	waiting []string // tasks
	over    []string
	err     error
}

func (s *starter) Look(context.Context, []string) (waiting, over []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, s.over, nil
}

func (s *starter) Start(_ context.Context, worker string, key ed25519.PublicKey) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(key) != ed25519.PublicKeySize {
		return "", errors.New("no key")
	}
	if s.err != nil {
		return "", s.err
	}
	s.started = append(s.started, worker)
	return "task of " + worker, nil
}

// A world is everything around the queue, with a clock that stands still.
type world struct {
	*sandbox.Jobs
	t       *testing.T
	tokens  *tokens
	starter *starter
	clock   time.Time
	refs    int
	broker  sandbox.Broker
}

func open(t *testing.T) *world {
	w := &world{t: t, tokens: &tokens{}, starter: &starter{}, clock: begin}
	store := memory.New(func() time.Time { return w.clock })
	w.Jobs = &sandbox.Jobs{
		Store: store, Objects: store, Keys: store, Tokens: w.tokens, Starter: w.starter,
		Now:    func() time.Time { return w.clock },
		NewRef: func(prefix string) string { w.refs++; return fmt.Sprintf("%s%026d", prefix, w.refs) },
	}
	w.broker = sandbox.Broker{Jobs: w.Jobs}
	return w
}

func (w *world) worker(n int) sandboxtest.Worker {
	key, err := w.Keys.JobKey(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return sandboxtest.Worker{Ref: fmt.Sprintf("wrk_%d", n), Key: key.Public().(ed25519.PublicKey), Invoke: w.invoke}
}

func (w *world) invoke(ctx context.Context, request []byte) ([]byte, error) {
	out, err := w.broker.Handle(ctx, request)
	if err != nil {
		return nil, err
	}
	return canon.Encode(out)
}

func (w *world) enqueue(spec sandbox.Spec, token string, want sandbox.State) {
	w.t.Helper()
	if state, err := w.Enqueue(w.t.Context(), spec, token); err != nil || state != want {
		w.t.Fatalf("enqueue: %s %v, want %s", state, err, want)
	}
}

func (w *world) claim(from sandboxtest.Worker, want string) *sandbox.LeasedJob {
	w.t.Helper()
	job, err := from.Claim(w.t.Context())
	if err != nil || (job == nil) != (want == "") || job != nil && job.JobRef != want {
		w.t.Fatalf("%s claimed %+v %v, want %q", from.Ref, job, err, want)
	}
	return job
}

func (w *world) complete(from sandboxtest.Worker, job *sandbox.LeasedJob, want bool) {
	w.t.Helper()
	spec, err := from.Open(job)
	if err != nil {
		w.t.Fatal(err)
	}
	if got, err := from.Complete(w.t.Context(), job, sandboxtest.Double(spec)); err != nil || got != want {
		w.t.Fatalf("%s completed: %v %v, want %v", from.Ref, got, err, want)
	}
}

func (w *world) tick() {
	w.t.Helper()
	if _, err := w.Tick(w.t.Context(), 100); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) outcome(ref string, state sandbox.State, reason sandbox.Reason) sandbox.Outcome {
	w.t.Helper()
	got, err := w.Result(w.t.Context(), ref)
	if err != nil || got.State != state || got.Reason != reason || (got.Result != nil) != (state == sandbox.Done) {
		w.t.Fatalf("%+v %v, want %s %s", got, err, state, reason)
	}
	return got
}

func (w *world) state(ref string) sandbox.State {
	w.t.Helper()
	got, err := w.Result(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return got.State
}

func (w *world) answers(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.tokens.answered, want) {
		w.t.Fatalf("answered %q, want %q", w.tokens.answered, want)
	}
}

// covers: A8, U5
func TestAJobGoesThroughTheQueueOnce(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1, 2.5)
	w.enqueue(spec, "token-1", sandbox.Queued)
	w.enqueue(spec, "token-1", sandbox.Queued) // the same call again
	if len(w.starter.started) != 1 {
		t.Fatalf("%d workers were started for one job", len(w.starter.started))
	}
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	w.claim(w.worker(2), "")
	w.answers()
	w.complete(one, job, true)
	w.answers("token-1")
	w.complete(one, job, true) // its reply was lost
	w.answers("token-1")
	got := w.outcome(spec.JobRef, sandbox.Done, "")
	if v := string(got.Result.Results[1].Values["y"]); v != "5" {
		t.Errorf("the result is %s", v)
	}
	w.enqueue(spec, "token-2", sandbox.Done) // another attempt of the state machine
	w.answers("token-1", "token-2")
	w.clock = w.clock.Add(time.Hour)
	w.tick()
	w.answers("token-1", "token-2")
}

// covers: A8, U5
func TestOnlyTheHolderOfTheFenceCounts(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	slow, fast := w.worker(1), w.worker(2)
	stale := w.claim(slow, spec.JobRef)
	w.clock = w.clock.Add(sandbox.LeaseFor - 1)
	w.claim(fast, "")
	w.clock = w.clock.Add(1)
	job := w.claim(fast, spec.JobRef) // at once, without the tick
	if job.Fence != stale.Fence+1 {
		t.Fatalf("fences %d, %d", stale.Fence, job.Fence)
	}
	if b, err := slow.Heartbeat(t.Context(), stale); err != nil || !b.Stale {
		t.Errorf("a stale heartbeat: %+v %v", b, err)
	}
	w.complete(slow, stale, false)
	w.outcome(spec.JobRef, sandbox.Leased, "")
	forged := *stale
	forged.Fence = job.Fence // guessed by a worker that does not hold it
	if b, err := slow.Heartbeat(t.Context(), &forged); err != nil || !b.Stale {
		t.Errorf("a heartbeat with a guessed fence: %+v %v", b, err)
	}
	w.complete(slow, &forged, false)
	w.outcome(spec.JobRef, sandbox.Leased, "")
	w.complete(fast, job, true)
	w.complete(slow, stale, false)
	w.answers("token")
	w.outcome(spec.JobRef, sandbox.Done, "")
}

// A worker may lease a job again that it lost: the fence alone tells its two leases
// apart.
//
// covers: A8, U5
func TestALeaseThatAWorkerHadBeforeCountsForNothing(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	stale := w.claim(one, spec.JobRef)
	w.clock = w.clock.Add(sandbox.LeaseFor)
	// Its time is over, and nobody has it yet.
	if b, err := one.Heartbeat(t.Context(), stale); err != nil || !b.Stale {
		t.Errorf("a lease that ran out is carried on: %+v %v", b, err)
	}
	job := w.claim(one, spec.JobRef)
	if b, err := one.Heartbeat(t.Context(), stale); err != nil || !b.Stale {
		t.Errorf("the lease before is carried on: %+v %v", b, err)
	}
	w.complete(one, stale, false)
	if ok, err := one.Fail(t.Context(), stale, sandbox.SandboxFailed); err != nil || ok {
		t.Errorf("the lease before gives the job back: %v %v", ok, err)
	}
	w.outcome(spec.JobRef, sandbox.Leased, "")
	w.complete(one, job, true)
	w.answers("token")

	// A result that comes late, but before anyone else began, is the result.
	late := sandboxtest.Spec(bridge, "run_2#0", 1)
	w.enqueue(late, "token-2", sandbox.Queued)
	job = w.claim(one, late.JobRef)
	w.clock = w.clock.Add(2 * sandbox.LeaseFor)
	w.complete(one, job, true)
	w.answers("token", "token-2")
}

// A state machine that tries a step again waits with another token, and the one before
// belongs to nobody.
//
// covers: U5
func TestTheTokenOfTheLastAttemptIsAnswered(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token-1", sandbox.Queued)
	w.enqueue(spec, "token-2", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	w.enqueue(spec, "token-3", sandbox.Leased)
	w.complete(one, job, true)
	w.answers("token-3")
}

// covers: A8
func TestJobsOfOtherTenantsHideNoJobFromATask(t *testing.T) {
	w := open(t)
	task := w.worker(1)
	task.Driver = sandbox.OneTenant
	first := sandboxtest.Spec(bridge, "first", 1)
	w.enqueue(first, "", sandbox.Queued)
	w.complete(task, w.claim(task, first.JobRef), true)
	for n := range 40 { // older, and more than a claim looks at
		w.enqueue(sandboxtest.Spec(other, fmt.Sprint("theirs", n), 1), "", sandbox.Queued)
	}
	w.clock = w.clock.Add(time.Second)
	mine := sandboxtest.Spec(bridge, "mine", 1)
	w.enqueue(mine, "", sandbox.Queued)
	w.claim(task, mine.JobRef)
}

// covers: U5
func TestHeartbeatsCarryALeaseUntilTheJobIsOverItsTime(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1) // 5 s, and a minute more
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	for range 3 {
		w.clock = w.clock.Add(20 * time.Second)
		if b, err := one.Heartbeat(t.Context(), job); err != nil || !b.Until.Equal(w.clock.Add(sandbox.LeaseFor)) {
			t.Fatalf("%+v %v", b, err)
		}
		w.claim(w.worker(2), "")
	}
	w.clock = w.clock.Add(20 * time.Second)
	if b, err := one.Heartbeat(t.Context(), job); err != nil || !b.Stale {
		t.Fatalf("a job over its time: %+v %v", b, err)
	}
	w.clock = w.clock.Add(10 * time.Second)
	w.claim(w.worker(2), spec.JobRef)
}

// covers: U5
func TestAJobWhoseWorkersAreLostFailsAfterThreeLeases(t *testing.T) {
	for name, wait := range map[string]func(*world){
		"claims alone find it": func(*world) {},
		"the tick finds it":    func(w *world) { w.clock = w.clock.Add(time.Minute); w.tick() },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spec := sandboxtest.Spec(bridge, "run_1#0", 1)
			w.enqueue(spec, "token", sandbox.Queued)
			for n := range sandbox.MaxAttempts {
				w.claim(w.worker(n), spec.JobRef)
				w.clock = w.clock.Add(sandbox.LeaseFor)
				wait(w)
				want := sandbox.Queued
				if n == sandbox.MaxAttempts-1 {
					want = sandbox.Failed
				}
				if is := w.state(spec.JobRef); name == "the tick finds it" && is != want {
					t.Fatalf("after lease %d it is %s", n+1, is)
				}
			}
			w.claim(w.worker(9), "")
			w.outcome(spec.JobRef, sandbox.Failed, sandbox.WorkerLost)
			w.answers("token")
		})
	}
}

// unreadable objects hold one that cannot be read.
type unreadable struct {
	history.Objects
	ref history.Ref
	err error
}

func (o *unreadable) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	if o.err != nil && slices.Contains(refs, o.ref) {
		return nil, o.err
	}
	return o.Objects.Get(ctx, space, refs...)
}

// A lease that its worker is not told of would cost the job an attempt, and one job
// that cannot be leased must not keep the others waiting.
//
// covers: A8, U5
func TestAJobWhoseSpecCannotBeReadIsNotLeasedAndKeepsNobodyWaiting(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		state sandbox.State
	}{
		"for a while":      {errors.New("throttled"), sandbox.Done},
		"since it is gone": {fmt.Errorf("objects: %w", history.ErrNotFound), sandbox.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			broken, next := sandboxtest.Spec(bridge, "run_1#0", 1), sandboxtest.Spec(bridge, "run_2#0", 1)
			w.enqueue(broken, "token-1", sandbox.Queued)
			w.clock = w.clock.Add(time.Millisecond)
			w.enqueue(next, "token-2", sandbox.Queued)
			stored, err := w.Store.Job(t.Context(), broken.JobRef)
			if err != nil {
				t.Fatal(err)
			}
			objects := &unreadable{w.Objects, stored.Spec, row.err}
			w.Objects = objects
			one := w.worker(1)
			w.complete(one, w.claim(one, next.JobRef), true)
			for range sandbox.MaxAttempts {
				w.claim(one, "")
			}
			objects.err = nil
			if row.state == sandbox.Failed {
				w.outcome(broken.JobRef, sandbox.Failed, sandbox.SpecRefused)
				w.answers("token-1", "token-2")
				return
			}
			job := w.claim(one, broken.JobRef)
			if job.Fence != 1 {
				t.Errorf("fence %d", job.Fence)
			}
			w.complete(one, job, true)
		})
	}
}

// covers: A8
func TestCancelRevokesTheLease(t *testing.T) {
	w := open(t)
	leased, waiting := sandboxtest.Spec(bridge, "run_1#0", 1), sandboxtest.Spec(bridge, "run_2#0", 1)
	w.enqueue(leased, "token-1", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, leased.JobRef)
	w.enqueue(waiting, "token-2", sandbox.Queued)
	for _, ref := range []string{leased.JobRef, waiting.JobRef, leased.JobRef, "job_none"} {
		if err := w.Cancel(t.Context(), ref); err != nil {
			t.Fatal(ref, err)
		}
	}
	w.answers("token-1 px.Cancelled", "token-2 px.Cancelled")
	if b, err := one.Heartbeat(t.Context(), job); err != nil || !b.Cancel {
		t.Errorf("%+v %v", b, err)
	}
	w.complete(one, job, false)
	if ok, err := one.Fail(t.Context(), job, sandbox.SandboxFailed); err != nil || ok {
		t.Errorf("a failure of a cancelled job: %v %v", ok, err)
	}
	w.claim(one, "")
	w.outcome(leased.JobRef, sandbox.Cancelled, "")
	w.enqueue(leased, "token-3", sandbox.Cancelled)
	w.answers("token-1 px.Cancelled", "token-2 px.Cancelled", "token-3 px.Cancelled")
}

// covers: U5
func TestATokenThatCouldNotBeAnsweredIsAnsweredByTheTick(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	w.tokens.err = errors.New("unreachable")
	w.complete(one, job, true)
	w.clock = w.clock.Add(time.Minute)
	if _, err := w.Tick(t.Context(), 10); err == nil {
		t.Error("the tick is content")
	}
	w.tokens.err = nil
	w.clock = w.clock.Add(time.Minute)
	w.tick()
	w.answers("token")
	w.clock = w.clock.Add(time.Hour)
	if n, err := w.Tick(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("still due: %d %v", n, err)
	}
}

func TestWorkersAreStartedAsManyAsTheJobsNeed(t *testing.T) {
	w := open(t)
	w.MaxWorkers = 3
	for n, want := range []int{1, 1, 2, 2, 3, 3, 3} {
		w.enqueue(sandboxtest.Spec(bridge, fmt.Sprint("run#", n), 1), "", sandbox.Queued)
		if len(w.starter.started) != want {
			t.Fatalf("after %d jobs %d workers", n+1, len(w.starter.started))
		}
	}
}

// A worker that is busy for long claims nothing meanwhile.
func TestABusyWorkerIsCountedOn(t *testing.T) {
	w := open(t)
	w.MaxWorkers = 1
	spec := sandboxtest.Spec(bridge, "run#1", 1)
	w.enqueue(spec, "", sandbox.Queued)
	one := w.worker(1)
	one.Ref = w.starter.started[0]
	job := w.claim(one, spec.JobRef)
	for range 20 {
		w.clock = w.clock.Add(time.Second)
		if b, err := one.Heartbeat(t.Context(), job); err != nil || b.Stale {
			t.Fatal(b, err)
		}
	}
	w.enqueue(sandboxtest.Spec(bridge, "run#2", 1), "", sandbox.Queued)
	if len(w.starter.started) != 1 {
		t.Error("another was started above the most that there may be")
	}
}

// An image that cannot be fetched ends a task before its worker calls.
//
// covers: U5
func TestAWorkerThatEndsBeforeItCallsIsReplaced(t *testing.T) {
	w := open(t)
	w.MaxWorkers = 1
	w.enqueue(sandboxtest.Spec(bridge, "run#1", 1), "", sandbox.Queued)
	w.starter.over = []string{"task of " + w.starter.started[0]}
	w.clock = w.clock.Add(20 * time.Second)
	w.tick()
	w.starter.over = nil
	w.clock = w.clock.Add(40 * time.Second)
	w.tick()
	if len(w.starter.started) != 1 {
		t.Fatal("it was given up before machines show it to all who look, or while it starts")
	}
	w.starter.waiting = []string{"task of " + w.starter.started[0]}
	for range 15 { // its image is long in coming
		w.clock = w.clock.Add(time.Minute)
		w.tick()
	}
	if len(w.starter.started) != 1 {
		t.Fatal("another was started beside one that waits for its machine")
	}
	w.starter.waiting, w.starter.over = nil, w.starter.waiting
	w.clock = w.clock.Add(time.Minute)
	w.tick()
	if len(w.starter.started) != 2 {
		t.Fatal("nobody came in its place")
	}
}

// A worker that ends has either seen a job, or its writer has seen it ending.
func TestAWorkerThatDrainsIsNotCountedOn(t *testing.T) {
	w := open(t)
	w.MaxWorkers = 1
	one := w.worker(1)
	w.claim(one, "")
	first := sandboxtest.Spec(bridge, "run#1", 1)
	w.enqueue(first, "", sandbox.Queued)
	if len(w.starter.started) != 0 {
		t.Fatal("a worker was started although one serves")
	}
	if err := one.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.claim(one, first.JobRef) // its last look finds what was there before
	w.enqueue(sandboxtest.Spec(bridge, "run#2", 1), "", sandbox.Queued)
	if len(w.starter.started) != 0 {
		t.Fatal("a worker that got a job serves again")
	}
	if err := one.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.enqueue(sandboxtest.Spec(bridge, "run#3", 1), "", sandbox.Queued)
	if len(w.starter.started) != 1 {
		t.Fatal("nobody was started although the only worker ends")
	}

	w = open(t)
	idle := w.worker(2)
	w.claim(idle, "")
	if err := idle.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.claim(idle, "") // its last look finds nothing
	w.enqueue(first, "", sandbox.Queued)
	if len(w.starter.started) != 1 {
		t.Fatal("a worker that ends was counted on")
	}
}

// A stolen store gives the first job that is leased to another worker first.
type stolen struct {
	sandbox.Store
	steal func()
}

func (s *stolen) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	if steal := s.steal; steal != nil {
		s.steal = nil
		steal()
	}
	return s.Store.ReplaceJob(ctx, j)
}

// covers: A8
func TestATaskThatWasBoundByAJobItDidNotGetRunsNoOtherTenants(t *testing.T) {
	w := open(t)
	mine, others := sandboxtest.Spec(bridge, "run_1#0", 1), sandboxtest.Spec(other, "run_2#0", 1)
	w.enqueue(mine, "", sandbox.Queued)
	w.clock = w.clock.Add(time.Millisecond)
	w.enqueue(others, "", sandbox.Queued)
	task, thief := w.worker(1), w.worker(2)
	task.Driver = sandbox.OneTenant
	w.Store = &stolen{w.Store, func() { w.claim(thief, mine.JobRef) }}
	w.claim(task, "")
	if row, err := w.Store.Worker(t.Context(), task.Ref); err != nil || row.Tenant != bridge.WorkspaceKey {
		t.Fatalf("%+v %v", row, err)
	}
	w.claim(thief, others.JobRef)
}

// covers: A8
func TestATaskRunsTheCodeOfOneTenant(t *testing.T) {
	w := open(t)
	mine, theirs := sandboxtest.Spec(bridge, "run#1", 1), sandboxtest.Spec(other, "run#2", 1)
	w.enqueue(mine, "", sandbox.Queued)
	w.clock = w.clock.Add(1)
	w.enqueue(theirs, "", sandbox.Queued)
	task, free := w.worker(1), w.worker(2)
	task.Driver = sandbox.OneTenant
	w.complete(task, w.claim(task, mine.JobRef), true)
	w.claim(task, "") // though the other's waits
	before := len(w.starter.started)
	w.clock = w.clock.Add(6 * time.Minute) // what was started never came
	w.claim(task, "")
	w.enqueue(sandboxtest.Spec(other, "run#3", 1), "", sandbox.Queued)
	if len(w.starter.started) != before+1 {
		t.Error("a worker of another tenant was counted on")
	}
	w.claim(free, theirs.JobRef)
	if _, err := w.Store.Job(t.Context(), theirs.JobRef); err != nil {
		t.Fatal(err)
	}
}

// A found store lets something happen right after the first search for jobs.
type found struct {
	sandbox.Store
	then func()
}

func (f *found) Leasable(ctx context.Context, q sandbox.Search) ([]string, error) {
	refs, err := f.Store.Leasable(ctx, q)
	if then := f.then; then != nil {
		f.then = nil
		then()
	}
	return refs, err
}

// covers: A8
func TestWithoutASandboxJobsFailAsUnavailable(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"none is configured":    func(w *world) { w.Starter = nil },
		"none can ever start":   func(w *world) { w.starter.err = fmt.Errorf("no runsc: %w", sandbox.ErrUnavailable) },
		"the last one is unfit": func(w *world) { w.unfit() },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spoil(w)
			spec := sandboxtest.Spec(bridge, "run_1#0", 1)
			w.enqueue(spec, "token", sandbox.Failed)
			w.outcome(spec.JobRef, sandbox.Failed, sandbox.Unavailable)
			w.answers("token")
		})
	}
	t.Run("waiting jobs fail with the last worker", func(t *testing.T) {
		w := open(t)
		spec := sandboxtest.Spec(bridge, "run_1#0", 1)
		w.enqueue(spec, "token", sandbox.Queued)
		one := w.worker(1)
		one.Ref = w.starter.started[0]
		if err := one.Unfit(t.Context(), "network"); err != nil {
			t.Fatal(err)
		}
		w.outcome(spec.JobRef, sandbox.Failed, sandbox.Unavailable)
		w.answers("token")
	})
	t.Run("but not one that another worker leased in that moment", func(t *testing.T) {
		w := open(t)
		spec := sandboxtest.Spec(bridge, "run_1#0", 1)
		w.enqueue(spec, "token", sandbox.Queued)
		one := w.worker(1)
		one.Ref = w.starter.started[0]
		w.Store = &found{w.Store, func() { w.claim(w.worker(2), spec.JobRef) }}
		if err := one.Unfit(t.Context(), "network"); err != nil {
			t.Fatal(err)
		}
		w.outcome(spec.JobRef, sandbox.Leased, "")
	})
	t.Run("but not while a start may yet succeed", func(t *testing.T) {
		w := open(t)
		w.starter.err = errors.New("RESOURCE:CPU")
		spec := sandboxtest.Spec(bridge, "run_1#0", 1)
		w.enqueue(spec, "token", sandbox.Queued)
		w.starter.err = nil
		w.clock = w.clock.Add(time.Minute)
		w.tick()
		if len(w.starter.started) != 1 {
			t.Error("the tick started no worker")
		}
		w.starter.err = errors.New("RESOURCE:CPU")
		for range 30 {
			w.clock = w.clock.Add(time.Minute)
			_, _ = w.Tick(t.Context(), 10)
		}
		w.outcome(spec.JobRef, sandbox.Failed, sandbox.Unavailable)
		w.answers("token")
	})
}

// A worker that could not be started is not one that is on its way.
//
// covers: U5
func TestAStartThatFailedIsTriedAgainForTheNextJob(t *testing.T) {
	w := open(t)
	w.MaxWorkers = 1
	w.starter.err = errors.New("RESOURCE:CPU")
	w.enqueue(sandboxtest.Spec(bridge, "run#1", 1), "", sandbox.Queued)
	w.starter.err = nil
	w.enqueue(sandboxtest.Spec(bridge, "run#2", 1), "", sandbox.Queued)
	if len(w.starter.started) != 1 {
		t.Errorf("%d workers were started", len(w.starter.started))
	}
}

// Only a job that nobody ever took is given up for want of a worker: of one that was
// taken it is known that workers come.
//
// covers: U5
func TestAJobThatAWorkerGaveBackWaitsAsLongAsItTakes(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run#1", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	if ok, err := one.Fail(t.Context(), w.claim(one, spec.JobRef), sandbox.SandboxFailed); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.clock = w.clock.Add(sandbox.WaitLimit + time.Minute)
	w.tick()
	w.complete(w.worker(2), w.claim(w.worker(2), spec.JobRef), true)
	w.answers("token")
}

// unfit is a worker whose probe fails, while nothing waits.
func (w *world) unfit() {
	one := w.worker(1)
	w.claim(one, "")
	if err := one.Unfit(w.t.Context(), "gvisor"); err != nil {
		w.t.Fatal(err)
	}
}

// covers: A8
func TestFailuresOfAWorkerEndOrRepeatTheJob(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	for n := range sandbox.MaxAttempts {
		job := w.claim(one, spec.JobRef)
		if ok, err := one.Fail(t.Context(), job, sandbox.SandboxFailed); err != nil || !ok {
			t.Fatal(n, ok, err)
		}
	}
	w.outcome(spec.JobRef, sandbox.Failed, sandbox.SandboxFailed)
	final := sandboxtest.Spec(bridge, "run_2#0", 1)
	w.enqueue(final, "token-2", sandbox.Queued)
	job := w.claim(one, final.JobRef)
	for range 2 { // the same again is accepted again
		if ok, err := one.Fail(t.Context(), job, sandbox.SpecRefused); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	w.outcome(final.JobRef, sandbox.Failed, sandbox.SpecRefused)
	pinned := sandboxtest.Spec(bridge, "run_3#0", 1)
	pinned.Python = "3.1" // is not 3.11
	w.enqueue(pinned, "token-3", sandbox.Queued)
	w.claim(one, "")
	w.outcome(pinned.JobRef, sandbox.Failed, sandbox.PythonUnavailable)
	w.answers("token", "token-2", "token-3")
}

func TestAResultThatIsNoneOfTheJobFailsIt(t *testing.T) {
	for name, spoil := range map[string]func(*sandbox.Result){
		"of another job":   func(r *sandbox.Result) { r.JobRef = sandbox.JobRef(bridge, "x") },
		"an entry too few": func(r *sandbox.Result) { r.Results = r.Results[:1] },
		"an entry too many": func(r *sandbox.Result) {
			r.Results = append(r.Results, sandbox.CallResult{NodeKey: "node_2", Values: map[string]canon.Raw{}})
		},
		"one entry for two calls":     func(r *sandbox.Result) { r.Results[1].NodeKey = "node_0" },
		"in another order":            func(r *sandbox.Result) { slices.Reverse(r.Results) },
		"values and an error":         func(r *sandbox.Result) { r.Results[0].Error = &sandbox.CallError{Reason: "exception"} },
		"neither values nor an error": func(r *sandbox.Result) { r.Results[0].Values = nil },
		"a reason that is no word": func(r *sandbox.Result) {
			r.Results[0] = sandbox.CallResult{NodeKey: "node_0", Error: &sandbox.CallError{Reason: "Oh no"}}
		},
		"a value with a duplicate member": func(r *sandbox.Result) { r.Results[0].Values["y"] = canon.Raw(`{"a":1,"a":2}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spec := sandboxtest.Spec(bridge, "run_1#0", 1, 2)
			w.enqueue(spec, "token", sandbox.Queued)
			one := w.worker(1)
			job := w.claim(one, spec.JobRef)
			r := sandboxtest.Double(spec)
			spoil(&r)
			if name == "a value with a duplicate member" { // no encoder of ours writes that
				text := `{"fence":1,"jobRef":"` + spec.JobRef + `","op":"complete","result":{"jobRef":"` + spec.JobRef + `","results":[{"nodeKey":"node_0","values":{"y":{"a":1,"a":2}}}]},"v":1,"worker":"wrk_1"}`
				_, err := w.invoke(t.Context(), []byte(text))
				var typed interface{ ErrorType() string }
				if !errors.Is(err, sandbox.ErrMalformed) || !errors.As(err, &typed) || typed.ErrorType() != tool.FatalErrorType {
					t.Fatal(err)
				}
				w.outcome(spec.JobRef, sandbox.Leased, "")
				return
			}
			if ok, err := one.Complete(t.Context(), job, r); err != nil || !ok {
				t.Fatal(ok, err)
			}
			w.outcome(spec.JobRef, sandbox.Failed, sandbox.ResultRefused)
			w.answers("token")
		})
	}
}

// A result that cannot travel fails its job by name, and is not tried again.
func TestAResultThatIsLargerThanTravelsFailsItsJob(t *testing.T) {
	w := open(t)
	spec := sandboxtest.Spec(bridge, "run_1#0", 1)
	w.enqueue(spec, "token", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	r := sandboxtest.Double(spec)
	r.Results[0].Values["y"] = canon.Raw(`"` + strings.Repeat("x", sandbox.MaxResultBytes) + `"`)
	if ok, err := one.Complete(t.Context(), job, r); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.outcome(spec.JobRef, sandbox.Failed, sandbox.ResultTooLarge)
	w.answers("token")
}

func TestASpecThatIsNoneIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*sandbox.Spec){
		"another kind":               func(s *sandbox.Spec) { s.Kind = "entrypoint" },
		"a kind that there is not":   func(s *sandbox.Spec) { s.Kind = "shell" },
		"two kinds at once":          func(s *sandbox.Spec) { s.Entry = entry(1).Entry },
		"another version":            func(s *sandbox.Spec) { s.V = 2 },
		"no call":                    func(s *sandbox.Spec) { s.Calls = nil },
		"a node twice":               func(s *sandbox.Spec) { s.Calls[1].NodeKey = s.Calls[0].NodeKey },
		"a source that is not there": func(s *sandbox.Spec) { s.Calls[0].Source = canon.Digest([]byte("x")) },
		"a source of another digest": func(s *sandbox.Spec) { s.Sources[s.Calls[0].Source] += " " },
		"a source nobody calls":      func(s *sandbox.Spec) { s.Sources[canon.Digest([]byte("x"))] = "x" },
		"a parameter without value":  func(s *sandbox.Spec) { s.Calls[0].Values = map[string]canon.Raw{} },
		"a value without parameter":  func(s *sandbox.Spec) { s.Calls[0].Parameters = []string{} },
		"no limit":                   func(s *sandbox.Spec) { s.Limits.MemoryBytes = 0 },
		"no Project":                 func(s *sandbox.Spec) { s.Project = "structural_team" },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spec := sandboxtest.Spec(bridge, "run_1#0", 1, 2)
			spoil(&spec)
			if _, err := w.Enqueue(t.Context(), spec, "token"); !errors.Is(err, sandbox.ErrMalformed) {
				t.Fatal(err)
			}
			if _, err := w.Result(t.Context(), spec.JobRef); !errors.Is(err, history.ErrNotFound) {
				t.Error("it was stored:", err)
			}
		})
	}
	for name, text := range map[string]string{
		"larger than travels": strings.Repeat("#", sandbox.MaxSpecBytes),
		// It travels as a string, in which a quotation mark is two bytes and more.
		"larger only as it travels": strings.Repeat(`"`, sandbox.MaxSpecBytes/3),
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spec := sandboxtest.Spec(bridge, "run_1#0", 1)
			ref := canon.Digest([]byte(text))
			spec.Sources, spec.Calls[0].Source = map[string]string{ref: text}, ref
			var large *sandbox.LimitError
			if _, err := w.Enqueue(t.Context(), spec, ""); !errors.As(err, &large) || large.Limit != sandbox.MaxSpecBytes || large.Observed <= large.Limit {
				t.Fatal(err)
			}
		})
	}
}

func TestSignaturesAreOfJobsAndOfTheirBytes(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	_, another, _ := ed25519.GenerateKey(nil)
	public, text := key.Public().(ed25519.PublicKey), []byte(`{"v":1}`)
	for name, signature := range map[string][]byte{
		"of other bytes":         sandbox.Sign(key, []byte(`{"v":2}`)),
		"of another key":         sandbox.Sign(another, text),
		"of no job, by this key": ed25519.Sign(key, text),
		"none":                   nil,
	} {
		if sandbox.Verify(public, text, signature) {
			t.Errorf("a signature %s was accepted", name)
		}
	}
	if !sandbox.Verify(public, text, sandbox.Sign(key, text)) || sandbox.Verify(nil, text, sandbox.Sign(key, text)) {
		t.Error("the right one was refused, or an empty key accepted")
	}
}

func TestAJobRefFollowsFromProjectAndSubject(t *testing.T) {
	if a, b := sandbox.JobRef(bridge, "run_1#0"), sandbox.JobRef(bridge, "run_1#0"); a != b || len(a) != 30 {
		t.Error(a, b)
	}
	if sandbox.JobRef(bridge, "run_1#0") == sandbox.JobRef(other, "run_1#0") || sandbox.JobRef(bridge, "run_1#0") == sandbox.JobRef(bridge, "run_1#1") {
		t.Error("two jobs have one reference")
	}
}

func FuzzDecodeSpec(f *testing.F) {
	text, err := sandboxtest.Spec(bridge, "run_1#0", 1, 2).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	if text, err = entry(1).Encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"calls":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := sandbox.DecodeSpec(text)
		if err != nil {
			return
		}
		again, err := spec.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if same, err := sandbox.DecodeSpec(again); err != nil || same.JobRef != spec.JobRef || len(same.Calls) != len(spec.Calls) {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	text, err := canon.Encode(sandboxtest.Double(sandboxtest.Spec(bridge, "run_1#0", 1, 2)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"jobRef":"job_00000000000000000000000000","results":[{"nodeKey":"a","error":{"reason":"timeout"}}],"ranBy":{"python":"","gvisor":"","driver":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := sandbox.DecodeResult(text)
		if err != nil {
			return
		}
		again, err := canon.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sandbox.DecodeResult(again); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	for _, text := range []string{
		`{"v":1,"op":"claim","worker":"wrk_1","slots":2,"python":"3.11.2","gvisor":"x","driver":"task","tenant":"team"}`,
		`{"v":1,"op":"heartbeat","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1}`,
		`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1,"failure":{"reason":"sandbox_failed"}}`,
		`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1,"result":{}}`,
		`{"v":1,"op":"drain","worker":"wrk_1"}`, `{"v":1,"op":"unfit","worker":"wrk_1","reason":"network"}`,
	} {
		if _, err := sandbox.DecodeRequest([]byte(text)); err != nil {
			f.Fatalf("%s: %v", text, err)
		}
		f.Add([]byte(text))
	}
	for _, text := range []string{
		`{"v":1,"op":"drain","worker":"wrk_1","slots":2}`, `{"v":1,"op":"claim","worker":"wrk_1"}`, `{"v":1,"op":"heartbeat","worker":"wrk_1","fence":1}`,
		`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1}`, `{"v":1,"op":"describe","worker":"wrk_1"}`,
		`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1,"failure":{"reason":"worker_lost"}}`,
		`{"v":1,"op":"complete","worker":"wrk_1","jobRef":"job_00000000000000000000000000","fence":1,"result":{},"failure":{"reason":"sandbox_failed"}}`,
	} {
		if _, err := sandbox.DecodeRequest([]byte(text)); !errors.Is(err, sandbox.ErrMalformed) {
			f.Fatalf("%s: %v", text, err)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := open(t)
		if _, err := w.invoke(t.Context(), text); err != nil && !errors.Is(err, sandbox.ErrMalformed) {
			t.Fatal(err)
		}
	})
}
