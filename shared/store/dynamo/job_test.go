package dynamo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pxhost/pxhost/shared/sandbox"
)

func aJob(jobRef string) sandbox.Job {
	return sandbox.Job{JobRef: jobRef, Project: bridge, Kind: sandbox.Functions, Spec: ref("spec"), State: sandbox.Queued, Token: "token", CreatedAt: clock(), DueAt: clock().Add(time.Minute)}
}

// Whatever is lost, a write of the queue is done once when it says so, and where it
// says that the row moved on, the caller reads and finds its own write.
//
// covers: U5
func TestLostRequestsAndRepliesOfTheQueue(t *testing.T) {
	operations := map[string]func(context.Context, *Store) error{
		"CreateJob": func(ctx context.Context, s *Store) error { return s.CreateJob(ctx, aJob("job_new")) },
		"lease": func(ctx context.Context, s *Store) error {
			j, err := s.Job(ctx, "job_x")
			if err != nil {
				return err
			}
			j.State, j.Fence, j.Until = sandbox.Leased, 1, clock().Add(time.Second)
			return s.ReplaceJob(ctx, j)
		},
		"end": func(ctx context.Context, s *Store) error {
			j, err := s.Job(ctx, "job_x")
			if err != nil {
				return err
			}
			j.State, j.DueAt = sandbox.Done, time.Time{}
			return s.ReplaceJob(ctx, j)
		},
		"NoteJob": func(ctx context.Context, s *Store) error {
			j, err := s.Job(ctx, "job_x")
			if err != nil {
				return err
			}
			j.Token = "another"
			return s.NoteJob(ctx, j)
		},
		"AddWorker": func(ctx context.Context, s *Store) error {
			err := s.AddWorker(ctx, sandbox.Worker{Ref: "wrk_new", Standing: sandbox.Starting}, 1)
			if errors.Is(err, sandbox.ErrMoved) {
				err = errors.New("who added the worker is told that another did, and its machine is never started")
			}
			return err
		},
		"SaveWorker": func(ctx context.Context, s *Store) error {
			return s.SaveWorker(ctx, sandbox.Worker{Ref: "wrk_x", Standing: sandbox.Draining, Version: 1})
		},
		"RemoveWorker": func(ctx context.Context, s *Store) error {
			return s.RemoveWorker(ctx, sandbox.Worker{Ref: "wrk_x", Version: 1})
		},
		"JobKey": func(ctx context.Context, s *Store) error {
			a, err := s.JobKey(ctx)
			if err != nil {
				return err
			}
			if b, err := over(s.client.(*faulty).fake).JobKey(ctx); err != nil || !b.Equal(a) {
				return errors.New("another process has another key")
			}
			return nil
		},
	}
	for name, operation := range operations {
		want := "" // what is stored without a fault
		for _, broken := range append([]fault{{}}, faults...) {
			for _, times := range []int{1, 3} {
				for _, forgotten := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						f := &faulty{fake: newFake()}
						s := over(f)
						if err := errors.Join(s.CreateJob(t.Context(), aJob("job_x")), s.AddWorker(t.Context(), sandbox.Worker{Ref: "wrk_x"}, 0)); err != nil {
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
						err := operation(t.Context(), s)
						if doubtful := broken.name != ""; err != nil && !(doubtful && (errors.Is(err, sandbox.ErrMoved) || errors.Is(err, sandbox.ErrExists))) {
							t.Errorf("%s, %s %d times (token forgotten: %v): %v", name, broken.name, times, forgotten, err)
						}
						if len(f.faults) > 0 {
							t.Errorf("%s, %s: %d faults did not happen", name, broken.name, len(f.faults))
						}
						if name == "JobKey" {
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
