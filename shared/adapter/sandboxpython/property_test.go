package sandboxpython_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
)

// Whatever is lost and whoever comes when, with a script that never gives the same twice:
// an execution that has ended never changes, it ends, what it asks for is in the storage
// exactly where it has succeeded and is what a run of it gave, and after its job counts
// no run of it begins.
//
// covers: X1, X2, X3, X4
func TestExecutionsUnderLostWrites(t *testing.T) {
	ended := map[host.State]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := open(t)
		losing := true
		w.rows.lose = func() (before, after bool) {
			if losing {
				switch rapid.IntRange(0, 9).Draw(r, "loss") {
				case 0:
					return true, false
				case 1:
					return false, true
				}
			}
			return false, false
		}
		var last host.Execution
		see := func() {
			e, err := w.rows.Execution(t.Context(), request.ID())
			if err != nil {
				return
			}
			if last.State.Terminal() && last.ExecutionID != "" && e.Version != last.Version {
				r.Fatalf("it has ended and changed: %+v\nto %+v", last, e)
			}
			if e.State.Terminal() != e.DueAt.IsZero() {
				r.Fatalf("a row that contradicts itself: %+v", e)
			}
			last = e
		}
		given := map[string]bool{} // what runs asked for
		w.returns = func(input) string {
			if j, err := w.rows.Job(t.Context(), sandbox.EntryRef(request.ID())); err == nil && j.State.Terminal() && j.State != sandbox.Cancelled {
				r.Fatalf("it is run again: %+v", j)
			}
			given[fmt.Sprint(w.runs)] = true
			return fmt.Sprintf(`{"summary":"s","data":{"n":%d},"evidence":[],"actions":[{"kind":"storage.put","namespace":"notes","key":"count","value":%d}]}`, w.runs, w.runs)
		}
		type held struct {
			by  sandboxtest.Worker
			job *sandbox.LeasedJob
			out *sandbox.Result // of a run that was made
		}
		var leases []*held
		claim := func() {
			by := w.worker()
			by.Ref = rapid.SampledFrom([]string{"wrk_1", "wrk_2"}).Draw(r, "worker")
			if job, err := by.Claim(t.Context()); err == nil && job != nil {
				leases = append(leases, &held{by: by, job: job})
			}
		}
		complete := func(l *held) {
			if l.out == nil {
				spec, err := l.by.Open(l.job)
				if err != nil {
					r.Fatal(err)
				}
				// A worker begins only what it still holds, as its heartbeat tells it.
				if b, err := l.by.Heartbeat(t.Context(), l.job); err != nil || b.Stale || b.Cancel {
					return
				}
				out := w.compute(spec)
				l.out = &out
			}
			_, _ = l.by.Complete(t.Context(), l.job, *l.out)
		}
		storage, edited, stopped := 0, false, false
		r.Repeat(map[string]func(*rapid.T){
			"":      func(*rapid.T) { see() },
			"ask":   func(*rapid.T) { _, _ = w.ask() },
			"claim": func(*rapid.T) { claim() },
			"complete": func(*rapid.T) {
				if len(leases) > 0 {
					complete(rapid.SampledFrom(leases).Draw(r, "lease"))
				}
			},
			"stop": func(r *rapid.T) {
				if rapid.IntRange(0, 5).Draw(r, "stop") == 0 {
					stopped = true
					_, _ = w.desk.Cancel(t.Context(), actor, request.ID())
				}
			},
			"edit": func(r *rapid.T) {
				if rapid.IntRange(0, 5).Draw(r, "edit") == 0 {
					edited = true
					w.edit(func(i *capability.Instance) { i.Settings = canon.Raw(`{"mode":"slow"}`) })
				}
			},
			"change the storage": func(r *rapid.T) {
				if rapid.IntRange(0, 5).Draw(r, "change") == 0 {
					w.seed("notes", "none", "0")
					storage++
				}
			},
			"time": func(*rapid.T) {
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second)
			},
			"tick": func(*rapid.T) {
				_, _ = w.jobs.Tick(t.Context(), 10)
				_ = w.desk.Tick(t.Context(), 10)
			},
		})
		losing = false
		for round := 0; !last.State.Terminal() || last.ExecutionID == ""; round++ {
			if round == 60 {
				r.Fatalf("it does not end: %+v", last)
			}
			if _, err := w.ask(); err != nil {
				if edited || stopped || storage > 0 { // refused as it is now, and never accepted
					break
				}
				r.Fatal(err)
			}
			see()
			w.clock = w.clock.Add(time.Minute)
			if _, err := w.jobs.Tick(t.Context(), 10); err != nil {
				r.Fatal(err)
			}
			if err := w.desk.Tick(t.Context(), 10); err != nil {
				r.Fatal(err)
			}
			before := len(leases)
			if claim(); len(leases) > before {
				complete(leases[before])
			}
			see()
		}
		ended[last.State]++
		items, err := w.rows.Some(t.Context(), notes, []string{"count"})
		switch {
		case err != nil:
			r.Fatal(err)
		case (last.State == host.Succeeded) != (len(items) == 1):
			r.Fatalf("%+v, and there is %+v", last, items)
		case len(items) == 1 && (items[0].Version != 1 || !given[string(items[0].Value)]):
			r.Fatalf("applied is %+v, given %v", items, given)
		}
		if last.State == host.Succeeded {
			if result, err := w.desk.Result(t.Context(), last); err != nil || string(result.Data) != `{"n":`+string(items[0].Value)+`}` {
				r.Fatalf("the result is %s, and applied %s: %v", result.Data, items[0].Value, err)
			}
		}
	})
	if ended[host.Succeeded] == 0 || ended[host.Failed] == 0 || ended[host.Cancelled] == 0 {
		t.Errorf("they ended as %v", ended)
	}
	t.Log(ended)
}
