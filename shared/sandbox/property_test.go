package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
	"github.com/pxhost/pxhost/shared/store/memory"
)

var errLost = errors.New("lost")

// A lossy store fails writes before or after they are done, as it is told, and keeps
// what each job was.
type lossy struct {
	*memory.Store
	lose      func() (before, after bool)
	sentAgain func() bool
	saw       func(sandbox.Job)
}

func (s *lossy) write(ctx context.Context, do func() error, jobRef string) error {
	before, after := s.lose()
	if before {
		return errLost
	}
	err := do()
	if jobRef != "" {
		if j, e := s.Store.Job(ctx, jobRef); e == nil {
			s.saw(j)
		}
	}
	switch {
	case after && err == nil && s.sentAgain():
		// As a store does that repeats a write whose reply was lost: it meets its own.
		return sandbox.ErrMoved
	case after:
		return errLost
	}
	return err
}

func (s *lossy) CreateJob(ctx context.Context, j sandbox.Job) error {
	err := s.write(ctx, func() error { return s.Store.CreateJob(ctx, j) }, j.JobRef)
	if errors.Is(err, sandbox.ErrMoved) {
		return sandbox.ErrExists
	}
	return err
}

func (s *lossy) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	return s.write(ctx, func() error { return s.Store.ReplaceJob(ctx, j) }, j.JobRef)
}

func (s *lossy) NoteJob(ctx context.Context, j sandbox.Job) error {
	return s.write(ctx, func() error { return s.Store.NoteJob(ctx, j) }, j.JobRef)
}

func (s *lossy) SaveWorker(ctx context.Context, w sandbox.Worker) error {
	return s.write(ctx, func() error { return s.Store.SaveWorker(ctx, w) }, "")
}

func (s *lossy) AddWorker(ctx context.Context, w sandbox.Worker, fleet int64) error {
	return s.write(ctx, func() error { return s.Store.AddWorker(ctx, w, fleet) }, "")
}

func (s *lossy) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	if before, _ := s.lose(); before {
		return errLost
	}
	return s.Store.Put(ctx, space, bodies...)
}

// lossyTokens loses answers too.
type lossyTokens struct {
	tokens
	lose func() (before, after bool)
}

func (k *lossyTokens) say(text string) error {
	before, after := k.lose()
	if before {
		return errLost
	}
	if err := k.tokens.say(text); err != nil || !after {
		return err
	}
	return errLost
}

func (k *lossyTokens) Succeed(_ context.Context, token string) error { return k.say(token) }
func (k *lossyTokens) Fail(_ context.Context, token, code string) error {
	return k.say(token + " " + code)
}

// Whatever is lost, and whoever wakes when: a state that is terminal never changes;
// fences grow with each lease and never fall; a result is accepted of the holder of
// the fence alone, and the stored one is what that holder sent; a job is leased at most
// three times; and when nothing is lost any more, every job ends and its last token is
// answered, by what became of it.
//
// covers: U5, A8
func TestJobsUnderLostWrites(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ctx := t.Context()
		clock, refs, losing := begin, 0, true
		lose := func() (bool, bool) {
			if !losing {
				return false, false
			}
			switch rapid.IntRange(0, 9).Draw(r, "loss") {
			case 0:
				return true, false
			case 1:
				return false, true
			}
			return false, false
		}
		last := map[string]sandbox.Job{}
		store := &lossy{Store: memory.New(func() time.Time { return clock }), lose: lose, sentAgain: func() bool { return rapid.Bool().Draw(r, "sent again") }}
		store.saw = func(j sandbox.Job) {
			was, ok := last[j.JobRef]
			switch {
			case ok && was.State.Terminal() && (j.State != was.State || j.Result != was.Result || j.Reason != was.Reason || j.Fence != was.Fence):
				r.Fatalf("an ended job changed: %+v\nto %+v", was, j)
			case j.Fence < was.Fence, j.Fence > was.Fence+1, j.Attempts > sandbox.MaxAttempts, int64(j.Attempts) != j.Fence:
				r.Fatalf("fence and attempts: %+v\nto %+v", was, j)
			case (j.State == sandbox.Done) != (j.Result != ""), j.State.Terminal() && j.Token == "" != j.DueAt.IsZero(), !j.State.Terminal() && j.DueAt.IsZero():
				r.Fatalf("a row that contradicts itself: %+v", j)
			}
			last[j.JobRef] = j
		}
		told := &lossyTokens{lose: lose}
		starter := &starter{}
		queue := &sandbox.Jobs{Store: store, Objects: store, Keys: store.Store, Tokens: told, Starter: starter, Now: func() time.Time { return clock },
			NewRef: func(prefix string) string { refs++; return fmt.Sprintf("%s%026d", prefix, refs) }}
		seen := &executions{}
		broker := sandbox.Broker{Jobs: queue, Executions: seen}
		specs := []sandbox.Spec{sandboxtest.Spec(bridge, "run_1#0", 1), sandboxtest.Spec(bridge, "run_2#0", 1), sandboxtest.Spec(other, "run_3#0", 1), entry(1)}
		tokens := map[string]string{}                 // the last one of each job
		held := map[string][]*sandbox.LeasedJob{}     // by worker, forgotten leases too
		sent := map[string]map[int64]canon.Raw{}      // what each fence sent
		accepted := map[string]map[canonText]string{} // job: result: worker
		worker := func() string { return rapid.SampledFrom([]string{"wrk_1", "wrk_2", "wrk_3"}).Draw(r, "worker") }
		spec := func() sandbox.Spec { return rapid.SampledFrom(specs).Draw(r, "job") }
		enqueue := func(s sandbox.Spec) {
			refs++
			token := fmt.Sprintf("token-%d", refs)
			// The attempt before is over, or there would be no other; and one whose call
			// failed is given up, its token with it.
			tokens[s.JobRef] = ""
			if _, err := queue.Enqueue(ctx, s, token); err == nil {
				tokens[s.JobRef] = token
			} else if !errors.Is(err, errLost) {
				r.Fatal(err)
			}
		}
		claim := func(ref string) *sandbox.LeasedJob {
			began := fmt.Sprintf("claim_%026d", refs)
			out, err := broker.Claim(ctx, sandbox.Request{Op: "claim", Worker: ref, Slots: 2, Python: "3.11.2", GVisor: "x", Driver: "rootless"})
			if err != nil && !errors.Is(err, errLost) {
				r.Fatal(err)
			}
			for _, row := range last {
				if err == nil && row.State == sandbox.Leased && row.Worker == ref && row.LeasedAt.Equal(clock) && row.Claim > began && (out.Job == nil || out.Job.JobRef != row.JobRef) {
					r.Fatalf("leased, and the worker was not told: %+v", row)
				}
			}
			if out.Job != nil {
				held[ref] = append(held[ref], out.Job)
				for who, leases := range held {
					for _, l := range leases {
						if l != out.Job && l.JobRef == out.Job.JobRef && l.Fence == out.Job.Fence {
							r.Fatalf("%s and %s hold one fence", who, ref)
						}
					}
				}
			}
			return out.Job
		}
		complete := func(ref string, l *sandbox.LeasedJob, value float64) {
			result := sandboxtest.Double(sandboxtest.Spec(bridge, "x", value))
			if l.JobRef == entry(1).JobRef {
				result = sandboxtest.Returned(entry(1), fmt.Sprintf(`{"summary":"%v"}`, value))
			}
			result.JobRef = l.JobRef
			text, err := canon.Encode(result)
			if err != nil {
				r.Fatal(err)
			}
			if sent[l.JobRef] == nil {
				sent[l.JobRef], accepted[l.JobRef] = map[int64]canon.Raw{}, map[canonText]string{}
			}
			if before, ok := sent[l.JobRef][l.Fence]; ok {
				text = before // what is sent again is the same
			}
			sent[l.JobRef][l.Fence] = text
			out, err := broker.Complete(ctx, sandbox.Request{Op: "complete", Worker: ref, JobRef: l.JobRef, Fence: l.Fence, Result: text})
			if err != nil && !errors.Is(err, errLost) {
				r.Fatal(err)
			}
			if out.Accepted {
				accepted[l.JobRef][canonText(text)] = ref
				if len(accepted[l.JobRef]) > 1 {
					r.Fatalf("two results were accepted of %s", l.JobRef)
				}
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"enqueue": func(*rapid.T) { enqueue(spec()) },
			"claim":   func(*rapid.T) { claim(worker()) },
			"complete": func(*rapid.T) {
				ref := worker()
				if len(held[ref]) > 0 {
					complete(ref, rapid.SampledFrom(held[ref]).Draw(r, "lease"), rapid.Float64Range(0, 9).Draw(r, "value"))
				}
			},
			"fail": func(*rapid.T) {
				ref := worker()
				if len(held[ref]) == 0 {
					return
				}
				l := rapid.SampledFrom(held[ref]).Draw(r, "lease")
				if sent[l.JobRef][l.Fence] != nil {
					return // a worker does not say two things
				}
				_, err := broker.Complete(ctx, sandbox.Request{Op: "complete", Worker: ref, JobRef: l.JobRef, Fence: l.Fence, Failure: &sandbox.Failure{Reason: sandbox.SandboxFailed}})
				if err != nil && !errors.Is(err, errLost) {
					r.Fatal(err)
				}
			},
			"heartbeat": func(*rapid.T) {
				ref := worker()
				if len(held[ref]) == 0 {
					return
				}
				l := rapid.SampledFrom(held[ref]).Draw(r, "lease")
				out, err := broker.Heartbeat(ctx, ref, l.JobRef, l.Fence)
				if err != nil && !errors.Is(err, errLost) {
					r.Fatal(err)
				}
				if row := last[l.JobRef]; !out.Until.IsZero() && (row.Fence != l.Fence || row.State != sandbox.Leased) {
					r.Fatalf("a stale fence was carried on: %+v", row)
				}
			},
			"cancel": func(*rapid.T) {
				if err := queue.Cancel(ctx, spec().JobRef); err != nil && !errors.Is(err, errLost) {
					r.Fatal(err)
				}
			},
			"drain": func(*rapid.T) {
				if _, err := broker.Handle(ctx, canon.Raw(fmt.Sprintf(`{"v":1,"op":"drain","worker":%q}`, worker()))); err != nil && !errors.Is(err, errLost) {
					r.Fatal(err)
				}
			},
			"time": func(*rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
			},
			"tick": func(*rapid.T) { _, _ = queue.Tick(ctx, 100) },
		})
		losing = false
		for round := 0; ; round++ {
			open := 0
			for _, s := range specs {
				if row, err := store.Job(ctx, s.JobRef); err == nil && (!row.State.Terminal() || row.Token != "") {
					open++
				}
			}
			if open == 0 {
				break
			}
			if round == 40 {
				r.Fatalf("%d jobs do not end: %+v", open, last)
			}
			clock = clock.Add(time.Minute)
			if _, err := queue.Tick(ctx, 100); err != nil {
				r.Fatal(err)
			}
			if l := claim("wrk_1"); l != nil {
				complete("wrk_1", l, 1)
			}
		}
		for _, s := range specs {
			row, ok := last[s.JobRef]
			if !ok {
				continue
			}
			if row.State == sandbox.Done {
				if want := sent[s.JobRef][row.Fence]; history.RefOf(want) != row.Result {
					r.Fatalf("the result is not what the holder of fence %d sent", row.Fence)
				}
			}
			if want := tokens[s.JobRef]; want != "" {
				if row.State == sandbox.Cancelled {
					want += " " + sandbox.CancelledCode
				}
				if !slices.Contains(told.answered, want) {
					r.Fatalf("%s of %+v was not answered: %s", want, row, strings.Join(told.answered, ", "))
				}
			}
		}
	})
}

type canonText string
