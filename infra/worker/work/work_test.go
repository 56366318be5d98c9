package work

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/infra/worker/broker"
	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

var public, private, _ = ed25519.GenerateKey(nil)

// fake is a broker that gives jobs in their order and writes down what it hears.
type fake struct {
	mu    sync.Mutex
	jobs  []*broker.Leased
	leave bool // where there is none
	heard []string
	// heartbeat and complete answer instead, where they are set.
	claim     func(n int) error
	heartbeat func(n int) (broker.Beat, error)
	complete  func(n int) (bool, error)
	beats     int
	completes int
	lastBeat  time.Time
	claimed   []time.Time
}

func (f *fake) say(format string, args ...any) {
	f.heard = append(f.heard, fmt.Sprintf(format, args...))
}

func (f *fake) Claim(context.Context, broker.Claim) (*broker.Leased, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claimed = append(f.claimed, time.Now())
	if f.claim != nil {
		if err := f.claim(len(f.claimed)); err != nil {
			return nil, false, err
		}
	}
	if len(f.jobs) == 0 {
		return nil, f.leave, nil
	}
	next := f.jobs[0]
	f.jobs = f.jobs[1:]
	next.Until = time.Now().Add(30 * time.Second)
	return next, false, nil
}

func (f *fake) Heartbeat(_ context.Context, ref string, fence int64) (broker.Beat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats++
	f.lastBeat = time.Now()
	if f.heartbeat != nil {
		return f.heartbeat(f.beats)
	}
	return broker.Beat{Until: time.Now().Add(30 * time.Second)}, nil
}

func (f *fake) Complete(_ context.Context, ref string, fence int64, result []byte) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.completes++
	if f.complete != nil {
		if ok, err := f.complete(f.completes); err != nil {
			return ok, err
		}
	}
	f.say("result %d", fence)
	return true, nil
}

func (f *fake) Fail(_ context.Context, ref string, fence int64, why broker.Failure) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say("failed %d %s", fence, why)
	return true, nil
}

func (f *fake) Drain(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say("drain")
	return nil
}

// instant runs jobs in a given time and says how many ran at once.
type instant struct {
	mu       sync.Mutex
	takes    time.Duration
	fails    error
	warm     int
	now, top int
	ended    []time.Duration // since the start, of those that were stopped
	began    time.Time
}

func (r *instant) Warm() int { return r.warm }

func (r *instant) Run(ctx context.Context, s job.Spec, _ []byte) (job.Result, error) {
	r.mu.Lock()
	r.now++
	r.top = max(r.top, r.now)
	r.mu.Unlock()
	defer func() { r.mu.Lock(); r.now--; r.mu.Unlock() }()
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		r.mu.Lock()
		r.ended = append(r.ended, time.Since(r.began))
		r.mu.Unlock()
		return job.Result{}, context.Cause(ctx)
	}
	if r.fails != nil {
		return job.Result{}, r.fails
	}
	return job.Result{V: 1, JobRef: s.JobRef, Results: []job.Entry{{NodeKey: "node_0", Error: &job.Error{Reason: job.Timeout}}}}, nil
}

// leased is a signed job; change spoils it before it is signed, after afterwards.
func leased(t *testing.T, fence int64, change func(*job.Spec), after func(*broker.Leased)) *broker.Leased {
	t.Helper()
	s, _ := sandboxtest.Spec(t, sandboxtest.Limits, sandboxtest.Function{Source: "def f():\n    return {}\n"})
	if change != nil {
		change(&s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	l := &broker.Leased{JobRef: "job_00000000000000000000000000", Fence: fence, Spec: string(text),
		Signature: ed25519.Sign(private, slices.Concat([]byte("pxhost job v1\n"), text))}
	if after != nil {
		after(l)
	}
	return l
}

// run works in a bubble until the worker ends by itself or, after limit, by SIGTERM.
func run(t *testing.T, f *fake, r *instant, slots int, idle, limit time.Duration) (took time.Duration, err error) {
	t.Helper()
	if r.warm == 0 {
		r.warm = 8
	}
	r.began = time.Now()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	w := &Worker{Broker: f, Runner: r, Key: public, Idle: idle, Is: broker.Claim{Slots: slots, Python: "3.11.7", Driver: "rootless"}}
	err = w.Run(ctx)
	return time.Since(r.began), err
}

// covers: A8
func TestAJobIsRunOnlyIfItIsWhatItMustBe(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*job.Spec)
		after  func(*broker.Leased)
		want   string
	}{
		{"a signed job of any Python", nil, nil, "result 3"},
		{"a job that pins this minor", func(s *job.Spec) { s.Python = "3.11" }, nil, "result 3"},
		{"a job that pins another minor", func(s *job.Spec) { s.Python = "3.1" }, nil, "failed 3 python_unavailable"},
		{"a job without a signature", nil, func(l *broker.Leased) { l.Signature = nil }, "failed 3 signature_invalid"},
		{"a job whose spec was changed", nil, func(l *broker.Leased) { l.Spec = strings.Replace(l.Spec, "return {}", "return []", 1) }, "failed 3 signature_invalid"},
		{"a job signed for something else", nil, func(l *broker.Leased) { l.Signature = ed25519.Sign(private, []byte(l.Spec)) }, "failed 3 signature_invalid"},
		{"no JSON, and no signature: it is not even read", nil, func(l *broker.Leased) { l.Spec = "{" }, "failed 3 signature_invalid"},
		{"a spec of another job", func(s *job.Spec) { s.JobRef = "job_00000000000000000000000001" }, nil, "failed 3 spec_refused"},
		{"a kind that this worker does not know", func(s *job.Spec) { s.Kind = "shell" }, nil, "failed 3 spec_refused"},
		{"an entrypoint with nothing to call", func(s *job.Spec) { s.Kind = job.Entrypoint }, nil, "failed 3 spec_refused"},
		{"calls of Functions with an entrypoint", func(s *job.Spec) { s.Entry = entry(t).Entry }, nil, "failed 3 spec_refused"},
		{"a signed job of a plugin", func(s *job.Spec) { *s = entry(t) }, nil, "result 3"},
		{"one whose file is not there", func(s *job.Spec) { *s = entry(t); s.Entry.Path = "src/other.py" }, nil, "failed 3 spec_refused"},
		{"one whose input is no object", func(s *job.Spec) { *s = entry(t); s.Entry.Input = json.RawMessage(`[]`) }, nil, "failed 3 spec_refused"},
		{"one whose sandbox another job may have", func(s *job.Spec) { *s = entry(t); s.Leads = true }, nil, "failed 3 spec_refused"},
		{"a version that this worker does not know", func(s *job.Spec) { s.V = 2 }, nil, "failed 3 spec_refused"},
		{"a spec without a call", func(s *job.Spec) { s.Calls = nil }, nil, "failed 3 spec_refused"},
		{"a call of a source that is not there", func(s *job.Spec) { s.Sources = nil }, nil, "failed 3 spec_refused"},
		{"a parameter without a value", func(s *job.Spec) {
			s.Calls[0].Parameters, s.Calls[0].Inputs = []string{"x"}, map[string]json.RawMessage{"x": json.RawMessage(sandboxtest.Number)}
		}, nil, "failed 3 spec_refused"},
		{"a limit of nothing", func(s *job.Spec) { s.Limits.Processes = 0 }, nil, "failed 3 spec_refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{jobs: []*broker.Leased{leased(t, 3, c.change, c.after)}}
				if _, err := run(t, f, &instant{takes: time.Second}, 1, time.Minute, time.Hour); err != nil {
					t.Fatal(err)
				}
				if want := []string{c.want, "drain"}; !slices.Equal(f.heard, want) {
					t.Errorf("the broker heard %q, want %q", f.heard, want)
				}
			})
		})
	}
}

func entry(t *testing.T) job.Spec {
	s, _ := sandboxtest.Entry(t, sandboxtest.Limits, sandboxtest.Main("    return {}"))
	return s
}

func TestAsManyJobsRunAtOnceAsThereAreSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{}, &instant{takes: 10 * time.Second}
		for n := range 6 {
			f.jobs = append(f.jobs, leased(t, int64(n), nil, nil))
		}
		took, err := run(t, f, r, 3, time.Minute, time.Hour)
		if err != nil || r.top != 3 || f.completes != 6 {
			t.Errorf("%d at once, %d results, %v", r.top, f.completes, err)
		}
		if took > 90*time.Second {
			t.Errorf("it took %v: slots were left free", took)
		}
	})
}

func TestAWorkerDrainsAndClaimsOnceMoreBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		took, err := run(t, f, &instant{}, 2, 5*time.Minute, time.Hour)
		if err != nil || !slices.Equal(f.heard, []string{"drain"}) {
			t.Fatalf("%q %v", f.heard, err)
		}
		if took < 5*time.Minute || took > 5*time.Minute+2*time.Second {
			t.Errorf("it ended after %v", took)
		}
		// Eager at first, since a worker is started for a job; then about once a second.
		want := int(busyFor/busyPoll + (eagerFor-busyFor)/eagerPoll + (5*time.Minute-eagerFor)/idlePoll)
		if n := len(f.claimed); n < want-10 || n > want+20 {
			t.Errorf("it claimed %d times in 5 minutes, and not about %d", n, want)
		}
		if end := f.claimed[0].Add(busyFor); !f.claimed[busyFor/busyPoll].Before(end.Add(busyPoll)) || f.claimed[busyFor/busyPoll+5].Before(end.Add(3*busyPoll)) {
			t.Errorf("in the first %v it does not claim each %v, and then less often", busyFor, busyPoll)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The job that comes between drain and the last claim is run.
		f := &late{fake: fake{}, job: leased(t, 9, nil, nil)}
		w := &Worker{Broker: f, Runner: &instant{warm: 1}, Key: public, Idle: time.Minute, Is: broker.Claim{Slots: 1, Python: "3.11.7"}}
		if err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"drain", "result 9", "drain"}; !slices.Equal(f.heard, want) {
			t.Errorf("the broker heard %q, want %q", f.heard, want)
		}
	})
}

// One that is asked to leave ends as soon as it has nothing to do, and as it always does.
func TestAWorkerThatIsInTheWayLeavesWhenItHasNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{leave: true, jobs: []*broker.Leased{leased(t, 1, nil, nil)}}
		took, err := run(t, f, &instant{takes: 20 * time.Second}, 2, 5*time.Minute, time.Hour)
		if want := []string{"result 1", "drain"}; err != nil || !slices.Equal(f.heard, want) || took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it ended after %v, and the broker heard %q, %v", took, f.heard, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that never ends stays
		f := &fake{leave: true}
		if took, err := run(t, f, &instant{}, 1, 0, time.Hour); err != nil || took < time.Hour {
			t.Errorf("it ended after %v, %v", took, err)
		}
	})
}

// late has a job as soon as the worker has drained.
type late struct {
	fake
	job *broker.Leased
}

func (l *late) Drain(ctx context.Context) error {
	if l.job != nil {
		l.jobs = append(l.jobs, l.job)
		l.job = nil
	}
	return l.fake.Drain(ctx)
}

// covers: U5
func TestACancelledJobIsStoppedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{takes: time.Hour}
		f.heartbeat = func(int) (broker.Beat, error) {
			return broker.Beat{Until: time.Now().Add(30 * time.Second), Cancel: time.Since(r.began) > 7*time.Second}, nil
		}
		if _, err := run(t, f, r, 1, time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if len(r.ended) != 1 || r.ended[0] > 9*time.Second || !slices.Equal(f.heard, []string{"drain"}) {
			t.Errorf("stopped at %v, and the broker heard %q", r.ended, f.heard)
		}
	})
}

// covers: A8, U5
func TestALostLeaseEndsTheJobWithoutAResult(t *testing.T) {
	for _, c := range []struct {
		name string
		beat func(n int) (broker.Beat, error)
		by   time.Duration
	}{
		{"another has it", func(int) (broker.Beat, error) { return broker.Beat{Stale: true}, nil }, 2 * time.Second},
		{"the broker cannot be asked until the lease is over", func(int) (broker.Beat, error) { return broker.Beat{}, errors.New("down") }, 32 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}, heartbeat: c.beat}, &instant{takes: time.Hour}
				if _, err := run(t, f, r, 1, time.Minute, 2*time.Hour); err != nil {
					t.Fatal(err)
				}
				if len(r.ended) != 1 || r.ended[0] > c.by || !slices.Equal(f.heard, []string{"drain"}) {
					t.Errorf("stopped at %v, and the broker heard %q", r.ended, f.heard)
				}
			})
		})
	}
}

// A lease lasts as long as the last heartbeat said, and not as long as the claim did.
//
// covers: U5
func TestABrokerThatIsDownLongAfterTheClaimCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{takes: 90 * time.Second}
		f.heartbeat = func(int) (broker.Beat, error) {
			if at := time.Since(r.began); at > 60*time.Second && at < 75*time.Second {
				return broker.Beat{}, errors.New("down")
			}
			return broker.Beat{Until: time.Now().Add(30 * time.Second)}, nil
		}
		if _, err := run(t, f, r, 1, time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := []string{"result 1", "drain"}; !slices.Equal(f.heard, want) {
			t.Errorf("the broker heard %q, want %q", f.heard, want)
		}
	})
}

func TestABrokerThatIsDownForAWhileCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{takes: 15 * time.Second}
		f.heartbeat = func(n int) (broker.Beat, error) {
			if n > 3 && n < 12 {
				return broker.Beat{}, errors.New("down")
			}
			return broker.Beat{Until: time.Now().Add(30 * time.Second)}, nil
		}
		f.complete = func(n int) (bool, error) {
			if n < 5 {
				return false, errors.New("down")
			}
			return true, nil
		}
		if _, err := run(t, f, r, 1, time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := []string{"result 1", "drain"}; !slices.Equal(f.heard, want) {
			t.Errorf("the broker heard %q, want %q", f.heard, want)
		}
	})
}

// What would be refused again is not said again: the job goes to another sandbox at
// once, and not when the lease is over.
func TestAResultThatIsRefusedForGoodIsNotOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 4, nil, nil)}}, &instant{takes: time.Second}
		f.complete = func(int) (bool, error) { return false, fmt.Errorf("%w: complete", broker.ErrRefused) }
		if _, err := run(t, f, r, 1, time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := []string{"failed 4 sandbox_failed", "drain"}; f.completes != 1 || !slices.Equal(f.heard, want) {
			t.Errorf("offered %d times, and the broker heard %q, want %q", f.completes, f.heard, want)
		}
	})
}

func TestAWorkerWhoseClaimsAreRefusedForGoodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 4, nil, nil)}}, &instant{takes: 15 * time.Second}
		f.claim = func(n int) error {
			if n > 1 {
				return fmt.Errorf("%w: claim", broker.ErrRefused)
			}
			return nil
		}
		if _, err := run(t, f, r, 2, 0, time.Hour); !errors.Is(err, broker.ErrRefused) {
			t.Errorf("it ended with %v", err)
		}
		if want := []string{"drain", "result 4"}; len(f.claimed) != 2 || !slices.Equal(f.heard, want) {
			t.Errorf("%d claims, and the broker heard %q, want %q", len(f.claimed), f.heard, want)
		}
	})
}

// It ends when it has seen that there is nothing, and asks as seldom as before until
// then.
func TestAnIdleWorkerThatCannotClaimAsksNoFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{claim: func(n int) error {
			if n < 100 {
				time.Sleep(10 * time.Millisecond) // a call takes time
				return errors.New("down")
			}
			return nil
		}}
		took, err := run(t, f, &instant{}, 1, 30*time.Second, time.Hour)
		if err != nil || !slices.Equal(f.heard, []string{"drain"}) {
			t.Errorf("the broker heard %d times %q: %v", len(f.heard), f.heard[0], err)
		}
		if took < 95*time.Second {
			t.Errorf("100 claims in %v", took)
		}
	})
}

func TestASIGTERMLetsJobsEndAndThenLeavesThem(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration
		want  []string
	}{
		{"one that ends soon", 15 * time.Second, []string{"drain", "result 1"}},
		{"one that does not", time.Hour, []string{"drain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{takes: c.takes}
				took, err := run(t, f, r, 1, 0, 5*time.Second)
				if err != nil || !slices.Equal(f.heard, c.want) {
					t.Errorf("the broker heard %q, want %q: %v", f.heard, c.want, err)
				}
				if took > 26*time.Second {
					t.Errorf("it took %v to end, and ECS waits 30 s", took)
				}
			})
		})
	}
}

func TestAWorkerClaimsNothingThatItCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{warm: -1}
		if _, err := run(t, f, r, 1, 0, time.Hour); !errors.Is(err, ErrCold) {
			t.Errorf("it ended with %v", err)
		}
		if len(f.claimed) != 0 || !slices.Equal(f.heard, []string{"drain"}) {
			t.Errorf("%d claims, and the broker heard %q", len(f.claimed), f.heard)
		}
	})
}

func TestASandboxThatCannotBeHadIsForAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fake{jobs: []*broker.Leased{leased(t, 1, nil, nil)}}, &instant{fails: errors.New("no sandbox")}
		if _, err := run(t, f, r, 1, time.Minute, time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := []string{"failed 1 sandbox_failed", "drain"}; !slices.Equal(f.heard, want) {
			t.Errorf("the broker heard %q, want %q", f.heard, want)
		}
	})
}
