package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
)

// plugin is the n-th execution of an instance.
func plugin(instance, n int) sandbox.Plugin {
	return sandbox.Plugin{WorkspaceKey: bridge.WorkspaceKey, InstanceID: fmt.Sprintf("inst_%026d", instance), ExecutionID: fmt.Sprintf("exec_%026d", n)}
}

func entry(n int) sandbox.Spec { return sandboxtest.Entry(plugin(1, n), canon.Raw(`{"arguments":{}}`)) }

// executions write down what they are told.
type executions struct {
	told []string
	err  error
}

func (e *executions) say(text string) error {
	if e.err != nil {
		return e.err
	}
	e.told = append(e.told, text)
	return nil
}

func (e *executions) Note(_ context.Context, id string, r sandbox.Result) error {
	return e.say("note " + id[len(id)-1:] + " " + string(r.Results[0].Values["summary"]))
}

func (e *executions) Ended(_ context.Context, id string) error {
	return e.say("ended " + id[len(id)-1:])
}

// covers: A8, X1
func TestAJobOfAPluginGoesThroughTheQueueOnceAndItsExecutionIsTold(t *testing.T) {
	w, told := open(t), &executions{}
	w.broker.Executions = told
	spec := entry(1)
	w.enqueue(spec, "", sandbox.Queued)
	w.enqueue(spec, "", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	w.claim(w.worker(2), "")
	read, err := one.Open(job)
	if err != nil || read.Entry == nil || string(read.Entry.Input) != `{"arguments":{}}` {
		t.Fatalf("%+v %v", read, err)
	}
	result := sandboxtest.Returned(spec, `{"summary":"a","data":{},"evidence":[]}`)
	complete := func(want bool) {
		t.Helper()
		if ok, err := one.Complete(t.Context(), job, result); err != nil || ok != want {
			t.Fatal(ok, err)
		}
	}
	complete(true)
	complete(true) // its reply was lost: whose execution did not go on goes on now
	if want := []string{`note 1 "a"`, "ended 1", "ended 1"}; !slices.Equal(told.told, want) {
		t.Fatalf("told %q", told.told)
	}
	got := w.outcome(spec.JobRef, sandbox.Done, "")
	if v := string(got.Result.Results[0].Values["summary"]); v != `"a"` {
		t.Error(v)
	}
	w.enqueue(spec, "", sandbox.Done) // what is done is not done again
	w.claim(one, "")
	// Its objects are in no Project's and no other instance's place.
	row, err := w.Store.Job(t.Context(), spec.JobRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, space := range []history.Space{history.Space(bridge.String()), history.Space(bridge.WorkspaceKey), history.Space("plugin#" + bridge.WorkspaceKey + "/" + plugin(2, 1).InstanceID)} {
		if _, err := w.Objects.Get(t.Context(), space, row.Spec); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%s has it: %v", space, err)
		}
	}
}

// What a job gave is noted before that counts: else a job that is run again could ask
// for other changes than it did, and nobody would know.
//
// covers: X4
func TestAResultCountsOnlyAfterItWasNoted(t *testing.T) {
	w, told := open(t), &executions{err: errors.New("no store")}
	w.broker.Executions = told
	spec := entry(1)
	w.enqueue(spec, "", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	result := sandboxtest.Returned(spec, `{"summary":"a"}`)
	if ok, err := one.Complete(t.Context(), job, result); err == nil || ok {
		t.Fatal("it was accepted", err)
	}
	w.outcome(spec.JobRef, sandbox.Leased, "")
	// Its worker is lost, and another one takes it up; what the first hands in now is
	// nothing to anybody.
	w.clock = w.clock.Add(sandbox.LeaseFor)
	told.err = nil
	two := w.worker(2)
	again := w.claim(two, spec.JobRef)
	if ok, err := one.Complete(t.Context(), job, result); err != nil || ok {
		t.Fatal(ok, err)
	}
	if ok, err := two.Complete(t.Context(), again, sandboxtest.Returned(spec, `{"summary":"b"}`)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if want := []string{`note 1 "b"`, "ended 1"}; !slices.Equal(told.told, want) {
		t.Fatalf("told %q", told.told)
	}
}

// The worker is done with a job that counts, whatever becomes of its execution.
func TestAnExecutionThatCannotGoOnCostsTheWorkerNothing(t *testing.T) {
	w, told := open(t), &executions{}
	w.broker.Executions = deaf{told}
	spec := entry(1)
	w.enqueue(spec, "", sandbox.Queued)
	one := w.worker(1)
	if ok, err := one.Complete(t.Context(), w.claim(one, spec.JobRef), sandboxtest.Returned(spec, `{"summary":"a"}`)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.outcome(spec.JobRef, sandbox.Done, "")
}

type deaf struct{ *executions }

func (deaf) Ended(context.Context, string) error { return errors.New("no store") }

// A job that fails tells its execution too, with nothing to note.
func TestTheExecutionOfAJobThatFailsIsTold(t *testing.T) {
	w, told := open(t), &executions{}
	w.broker.Executions = told
	one := w.worker(1)
	spec := entry(1)
	w.enqueue(spec, "", sandbox.Queued)
	if ok, err := one.Fail(t.Context(), w.claim(one, spec.JobRef), sandbox.SpecRefused); err != nil || !ok {
		t.Fatal(ok, err)
	}
	spec = entry(2)
	w.enqueue(spec, "", sandbox.Queued)
	if ok, err := one.Complete(t.Context(), w.claim(one, spec.JobRef), sandboxtest.Double(sandboxtest.Spec(bridge, "x", 1))); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.outcome(spec.JobRef, sandbox.Failed, sandbox.ResultRefused)
	if want := []string{"ended 1", "ended 2"}; !slices.Equal(told.told, want) {
		t.Fatalf("told %q", told.told)
	}
}

// covers: A8
func TestATaskRunsTheCodeOfOneInstanceOfAPlugin(t *testing.T) {
	w := open(t)
	w.broker.Executions = &executions{}
	mine, run, other := entry(1), sandboxtest.Spec(bridge, "run#1", 1), sandboxtest.Entry(plugin(2, 3), canon.Raw(`{}`))
	for _, spec := range []sandbox.Spec{mine, run, other} {
		w.enqueue(spec, "", sandbox.Queued)
		w.clock = w.clock.Add(1)
	}
	tasks := []sandboxtest.Worker{w.worker(1), w.worker(2), w.worker(3)}
	for i, spec := range []sandbox.Spec{mine, run, other} {
		tasks[i].Driver = sandbox.OneTenant
		w.claim(tasks[i], spec.JobRef)
	}
	next := entry(4)
	w.enqueue(next, "", sandbox.Queued)
	w.claim(tasks[1], "") // of the same workspace, and of no plugin
	w.claim(tasks[2], "") // of another instance
	w.claim(tasks[0], next.JobRef)

	// One that was told whose it is takes no other's either.
	last := sandboxtest.Entry(plugin(2, 5), canon.Raw(`{}`))
	w.enqueue(last, "", sandbox.Queued)
	for tenant, want := range map[string]string{bridge.WorkspaceKey: "null", mine.Entry.WorkspaceKey + "/" + mine.Entry.InstanceID: "null"} {
		text, err := w.invoke(t.Context(), []byte(`{"v":1,"op":"claim","worker":"wrk_9","slots":1,"python":"3.11.2","gvisor":"x","driver":"rootless","tenant":"`+tenant+`"}`))
		if err != nil || !strings.Contains(string(text), `"job":`+want) {
			t.Errorf("%s: %s %v", tenant, text, err)
		}
	}
}

// Where there are as many workers as there may be, one that belongs to a tenant without
// jobs makes room for one whose job waits.
//
// covers: A8
func TestATaskWithoutWorkLeavesForTheJobOfAnotherTenant(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, task *sandboxtest.Worker)
		want   bool
	}{
		"there is no room":          {nil, true},
		"there may be more workers": {func(w *world, _ *sandboxtest.Worker) { w.MaxWorkers = 3 }, false},
		"the job has just come":     {func(w *world, _ *sandboxtest.Worker) { w.clock = w.clock.Add(-3 * time.Second) }, false},
		"nothing waits": {func(w *world, _ *sandboxtest.Worker) {
			w.Cancel(w.t.Context(), sandbox.EntryRef(plugin(2, 3).ExecutionID))
		}, false},
		"it belongs to nobody":               {func(_ *world, task *sandboxtest.Worker) { task.Ref = "wrk_9" }, false},
		"it is of a driver that serves all":  {func(_ *world, task *sandboxtest.Worker) { task.Driver = "rootless" }, false},
		"there is a job for it all the same": {func(w *world, _ *sandboxtest.Worker) { w.enqueue(entry(7), "", sandbox.Queued) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.broker.Executions, w.MaxWorkers = &executions{}, 1
			w.enqueue(entry(1), "", sandbox.Queued)
			w.clock = w.clock.Add(time.Hour) // what was started never came
			task := w.worker(1)
			task.Driver = sandbox.OneTenant
			if ok, err := task.Complete(t.Context(), w.claim(task, entry(1).JobRef), sandboxtest.Returned(entry(1), `{}`)); err != nil || !ok {
				t.Fatal(ok, err)
			}
			w.enqueue(sandboxtest.Entry(plugin(2, 3), canon.Raw(`{}`)), "", sandbox.Queued)
			w.clock = w.clock.Add(4 * time.Second)
			if c.change != nil {
				c.change(w, &task)
			}
			text, err := w.invoke(t.Context(), []byte(`{"v":1,"op":"claim","worker":"`+task.Ref+`","slots":1,"python":"3.11.2","gvisor":"x","driver":"`+task.Driver+`"}`))
			if err != nil || strings.Contains(string(text), `"leave":true`) != c.want {
				t.Errorf("%s %v", text, err)
			}
		})
	}
}

func TestAnEntrypointThatIsNoneIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*sandbox.Spec){
		"another kind":                      func(s *sandbox.Spec) { s.Kind = sandbox.Functions },
		"nothing to call":                   func(s *sandbox.Spec) { s.Entry = nil },
		"a file that is not there":          func(s *sandbox.Spec) { s.Entry.Path = "src/other.py" },
		"a file outside":                    func(s *sandbox.Spec) { s.Entry.Files["src/../x.py"] = "" },
		"a file that is no Python":          func(s *sandbox.Spec) { s.Entry.Files["src/x.so"] = "" },
		"an input that is no object":        func(s *sandbox.Spec) { s.Entry.Input = canon.Raw(`[]`) },
		"the job of another execution":      func(s *sandbox.Spec) { s.JobRef = sandbox.EntryRef("exec_x") },
		"an instance that is none":          func(s *sandbox.Spec) { s.Entry.InstanceID = "inst_/x" },
		"a Project too":                     func(s *sandbox.Spec) { s.Project = bridge.String() },
		"one that follows the job of a Run": func(s *sandbox.Spec) { s.Follows = sandbox.JobRef(bridge, "x") },
		"one that another may follow":       func(s *sandbox.Spec) { s.Leads = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			spec := entry(1)
			spoil(&spec)
			if _, err := w.Enqueue(t.Context(), spec, ""); !errors.Is(err, sandbox.ErrMalformed) {
				t.Fatal(err)
			}
		})
	}
}

// covers: X2
func TestCancelRevokesTheLeaseOfAPlugin(t *testing.T) {
	w, told := open(t), &executions{}
	w.broker.Executions = told
	spec := entry(1)
	w.enqueue(spec, "", sandbox.Queued)
	one := w.worker(1)
	job := w.claim(one, spec.JobRef)
	if err := w.Cancel(t.Context(), spec.JobRef); err != nil {
		t.Fatal(err)
	}
	if b, err := one.Heartbeat(t.Context(), job); err != nil || !b.Cancel {
		t.Fatalf("%+v %v", b, err)
	}
	if ok, err := one.Complete(t.Context(), job, sandboxtest.Returned(spec, `{"summary":"a"}`)); err != nil || ok || told.told != nil {
		t.Fatal(ok, err, told.told)
	}
	w.clock = w.clock.Add(time.Hour)
	w.claim(one, "")
}
