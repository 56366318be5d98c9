package sandboxpython_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/adapter/sandboxpython"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
	"github.com/pxhost/pxhost/shared/store/memory"
)

const (
	workspace = "team"
	actor     = "https://issuer|engineer"
	instance  = "inst_00000000000000000000000001"
)

const manifest = `{"pluginKey":"analyzer","version":"1.0.0","title":"분석","permissions":["storage"],"capabilities":[
	{"id":"analyze","kind":"tool","title":"분석","description":"d","permissions":["storage"],"timeout_seconds":30,
	 "input_schema":{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false},
	 "output_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},
	 "runtime":{"adapter":"sandbox_python","entrypoint":"src/analyze.py","reads":[{"namespace":"notes","keys":["count","none"]},{"namespace":"whole"}]}},
	{"id":"other","kind":"tool","title":"다른","description":"d","permissions":[],"timeout_seconds":30,"runtime":{"adapter":"sandbox_python","entrypoint":"src/other.py"}}]}`

// rows are the store of everything here: the n-th write fails, before or after it was
// done, and with it whoever wrote may die.
type rows struct {
	*memory.Store
	mu           sync.Mutex // of writes
	writes, fail int
	after, kill  bool
	dead         bool
	wrote        func(n int) // told of each write that was done
	lose         func() (before, after bool)
}

var errStore = errors.New("the store failed")

func (s *rows) write(do func() error) error {
	if s.dead {
		return errStore
	}
	if s.lose != nil {
		before, after := s.lose()
		if before {
			return errStore
		}
		if err := do(); err != nil || !after {
			return err
		}
		return errStore
	}
	s.mu.Lock()
	s.writes++
	n := s.writes
	s.mu.Unlock()
	if n == s.fail {
		s.dead = s.kill
		if !s.after {
			return errStore
		}
	}
	err := do()
	if s.wrote != nil && err == nil {
		s.wrote(n)
	}
	if err == nil && n == s.fail {
		return errStore
	}
	return err
}

func (s *rows) Apply(ctx context.Context, step host.Step) error {
	return s.write(func() error { return s.Store.Apply(ctx, step) })
}

func (s *rows) CreateExecution(ctx context.Context, e host.Execution) error {
	return s.write(func() error { return s.Store.CreateExecution(ctx, e) })
}

func (s *rows) CreateJob(ctx context.Context, j sandbox.Job) error {
	return s.write(func() error { return s.Store.CreateJob(ctx, j) })
}

func (s *rows) NoteJob(ctx context.Context, j sandbox.Job) error {
	return s.write(func() error { return s.Store.NoteJob(ctx, j) })
}

func (s *rows) SaveWorker(ctx context.Context, w sandbox.Worker) error {
	return s.write(func() error { return s.Store.SaveWorker(ctx, w) })
}

func (s *rows) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	return s.write(func() error { return s.Store.ReplaceJob(ctx, j) })
}

func (s *rows) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	return s.write(func() error { return s.Store.Put(ctx, space, bodies...) })
}

type starter struct{ err error }

func (s starter) Start(context.Context, string, ed25519.PublicKey) (string, error) {
	return "task", s.err
}
func (starter) Look(context.Context, []string) (waiting, over []string, err error) {
	return nil, nil, nil
}

// A world is one workspace with the plugin, a queue and a worker whose Python is a
// function of the test.
type world struct {
	*testing.T
	clock   time.Time
	rows    *rows
	jobs    *sandbox.Jobs
	desk    *execution.Desk
	runner  *execution.Runner
	broker  sandbox.Broker
	absent  bool // the adapter's function
	runs    int
	returns func(input input) string // what main returns, as JSON
	fails   sandbox.CallError        // or why it does not
}

// input is what main is called with.
type input struct {
	Arguments, Settings canon.Raw
	Storage             map[string]map[string]struct {
		Value   canon.Raw
		Version int64
	}
}

func (w *world) Invoke(ctx context.Context, adapter capability.AdapterName, id string) error {
	if adapter != capability.SandboxPython || w.absent {
		return errors.New("nobody is there")
	}
	return w.runner.Run(context.WithoutCancel(ctx), id)
}

func open(t *testing.T) *world {
	w := &world{T: t, clock: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	now := func() time.Time { return w.clock }
	w.rows = &rows{Store: memory.New(now)}
	var refs atomic.Int64
	w.jobs = &sandbox.Jobs{Store: w.rows, Objects: w.rows, Keys: w.rows, Starter: starter{}, Now: now,
		NewRef: func(prefix string) string { return fmt.Sprintf("%s%026d", prefix, refs.Add(1)) }}
	reader, schemas := &execution.Reader{Store: w.rows, Objects: w.rows}, new(safeschema.Cache)
	w.desk = &execution.Desk{Store: w.rows, Objects: w.rows, Workspaces: reader, Schemas: schemas, Invoke: w, Now: now, Patience: time.Nanosecond}
	w.runner = &execution.Runner{Store: w.rows, Objects: w.rows, Workspaces: reader, Schemas: schemas, Queue: sandboxpython.New(w.jobs, w.rows, w.rows), Now: now}
	w.broker = sandbox.Broker{Jobs: w.jobs, Executions: sandboxpython.Completed{Runner: w.runner}}
	w.returns = func(in input) string {
		n := 1
		if count, there := in.Storage["notes"]["count"]; there {
			n = int(count.Value[0]-'0') + 1
		}
		return fmt.Sprintf(`{"summary":"%d 번","data":{"n":%d},"evidence":[{"a":1}],"actions":[{"kind":"storage.put","namespace":"notes","key":"count","value":%d}]}`, n, n, n)
	}
	p := packaging.Package{Manifest: must(canon.Canonicalize([]byte(manifest))), Sources: map[string]string{"src/analyze.py": "def main(input): ...\n", "src/other.py": "def main(input): ...\n"}}
	text := must(p.Stored())
	if err := w.rows.Store.Put(t.Context(), host.Space(workspace), text); err != nil {
		t.Fatal(err)
	}
	w.change(host.Change{Instance: &capability.Instance{InstanceID: instance, Workspace: workspace, PluginKey: "analyzer", PluginVersion: "1.0.0", PackageDigest: must(p.Digest()),
		Package: string(history.RefOf(text)), Enabled: true, Granted: []capability.Permission{"storage"}, Settings: canon.Raw(`{"mode":"fast"}`), Generation: 1}})
	w.change(host.Change{Member: &host.Membership{Actor: actor, Member: capability.Member{Rights: []capability.Right{capability.Use}}}})
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) change(c host.Change) {
	w.Helper()
	c.Workspace = workspace
	if _, err := w.rows.Store.Change(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

func (w *world) edit(how func(*capability.Instance)) {
	w.Helper()
	i := must(w.rows.Instance(w.Context(), instance))
	how(&i)
	i.Generation++
	w.change(host.Change{Instance: &i})
}

var request = execution.Request{Actor: actor, InstanceID: instance, CapabilityID: "analyze", Arguments: canon.Raw(`{"text":"secret"}`), Surface: "ai", Key: "k"}

// ask sends the request, and waits no longer than until it was handed over.
func (w *world) ask() (host.Execution, error) {
	e, err := w.desk.Accept(w.Context(), request)
	if err != nil {
		return e, err
	}
	return w.desk.Wait(w.Context(), e)
}

func (w *world) read() host.Execution {
	w.Helper()
	e, err := w.rows.Execution(w.Context(), request.ID())
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func (w *world) job() sandbox.Job {
	w.Helper()
	j, err := w.rows.Job(w.Context(), sandbox.EntryRef(request.ID()))
	if err != nil {
		w.Fatal(err)
	}
	return j
}

func (w *world) worker() sandboxtest.Worker {
	key := must(w.jobs.Keys.JobKey(w.Context()))
	return sandboxtest.Worker{Ref: "wrk_1", Key: key.Public().(ed25519.PublicKey), Invoke: func(ctx context.Context, request []byte) ([]byte, error) {
		out, err := w.broker.Handle(ctx, request)
		if err != nil {
			return nil, err
		}
		return canon.Encode(out)
	}}
}

// compute runs what main does.
func (w *world) compute(spec sandbox.Spec) sandbox.Result {
	w.runs++
	var in input
	if err := json.Unmarshal(spec.Entry.Input, &in, json.MatchCaseInsensitiveNames(true)); err != nil {
		w.Fatal(err)
	}
	if w.fails.Reason != "" {
		r := sandboxtest.Returned(spec, `{}`)
		r.Results[0].Values, r.Results[0].Error = nil, &w.fails
		return r
	}
	return sandboxtest.Returned(spec, w.returns(in))
}

// work lets a worker do one job, if there is one. An error of the broker costs it the
// result, as where it dies with it.
func (w *world) work() bool {
	w.Helper()
	one := w.worker()
	job, err := one.Claim(w.Context())
	if err != nil || job == nil {
		return false
	}
	spec, err := one.Open(job)
	if err != nil {
		w.Fatal(err)
	}
	ok, err := one.Complete(w.Context(), job, w.compute(spec))
	return err == nil && ok
}

// recover lets minutes pass until the execution is over.
func (w *world) recover() host.Execution {
	w.Helper()
	w.rows.dead, w.rows.fail = false, 0
	for range 60 {
		e, err := w.ask() // whoever asked asks again
		if err != nil {
			w.Fatal(err)
		}
		if e.State.Terminal() {
			return e
		}
		w.clock = w.clock.Add(time.Minute)
		if _, err := w.jobs.Tick(w.Context(), 100); err != nil {
			w.Fatal(err)
		}
		if err := w.desk.Tick(w.Context(), 100); err != nil {
			w.Fatal(err)
		}
		w.work()
	}
	w.Fatalf("it does not end: %+v", w.read())
	return host.Execution{}
}

var notes = host.Namespace{Workspace: workspace, InstanceID: instance, Name: "notes"}

// kept is what the storage holds, as key=value@version, and how often it has changed.
func (w *world) kept() string {
	w.Helper()
	items, version, err := w.rows.Items(w.Context(), notes)
	if err != nil {
		w.Fatal(err)
	}
	out := fmt.Sprint(version)
	for _, i := range items {
		out += fmt.Sprintf(" %s=%s@%d", i.Key, i.Value, i.Version)
	}
	return out
}

// seed keeps a value.
func (w *world) seed(namespace, key, value string) {
	w.Helper()
	n := notes
	n.Name = namespace
	x := host.Expectation{Namespace: namespace, Key: key}
	if items := must(w.rows.Some(w.Context(), n, []string{key})); items != nil {
		x.Version = items[0].Version
	}
	e := host.Execution{ExecutionID: fmt.Sprint("seed", namespace, key, x.Version), Workspace: workspace, InstanceID: instance, State: host.Running}
	if err := w.rows.Store.CreateExecution(w.Context(), e); err != nil {
		w.Fatal(err)
	}
	e.Version, e.State = 1, host.Succeeded
	if err := w.rows.Store.Apply(w.Context(), host.Step{Execution: e, Puts: []host.Put{{Expectation: x, Value: canon.Raw(value)}}}); err != nil {
		w.Fatal(err)
	}
}

// ends holds an execution to how it ended, with everything else: its job has ended too,
// nothing is due, and its result is there exactly where it succeeded.
func (w *world) ends(e host.Execution, state host.State, code outcome.Code) {
	w.Helper()
	if e.State != state || e.Code != code || !e.DueAt.IsZero() || (e.Result != "") != (state == host.Succeeded) {
		w.Errorf("it ended as %+v, want %s %s", e, state, code)
	}
	if strings.Contains(fmt.Sprint(e.Params), "secret") {
		w.Errorf("it tells %v", e.Params)
	}
}

// covers: A8, X1, X3
func TestAnAnalysisIsQueuedComputedAndAppliedOnce(t *testing.T) {
	w := open(t)
	w.seed("notes", "count", "4")
	w.seed("whole", "a", `"x"`)
	e, err := w.ask()
	if err != nil || e.State != host.Running || e.Phase != host.Queued || e.JobRef != sandbox.EntryRef(e.ExecutionID) {
		t.Fatalf("%+v %v", e, err)
	}
	if got, want := fmt.Sprint(e.Reads), "[{notes count 1 1} {notes none 0 0} {whole  1 0}]"; got != want {
		t.Errorf("it read %s, want %s", got, want)
	}
	for range 3 { // who waits asks again, and means the same
		if again, err := w.ask(); err != nil || again.ExecutionID != e.ExecutionID || again.Version != e.Version {
			t.Fatalf("%+v %v", again, err)
		}
	}
	var given input
	returns := w.returns
	w.returns = func(in input) string { given = in; return returns(in) }
	if !w.work() {
		t.Fatal("there was no job")
	}
	w.ends(w.read(), host.Succeeded, "")
	if given.Storage["whole"]["a"].Version != 1 || string(given.Storage["whole"]["a"].Value) != `"x"` || string(given.Arguments) != `{"text":"secret"}` || string(given.Settings) != `{"mode":"fast"}` {
		t.Errorf("main was given %+v", given)
	}
	if _, there := given.Storage["notes"]["none"]; there {
		t.Error("an item that there is not was handed over")
	}
	if w.kept() != "2 count=5@2" {
		t.Error(w.kept())
	}
	r, err := w.desk.Result(t.Context(), w.read())
	if err != nil || r.Summary != "5 번" || string(r.Data) != `{"n":5}` || len(r.Evidence) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	// Nothing is done again, whoever comes.
	if err := w.runner.Run(t.Context(), e.ExecutionID); err != nil {
		t.Error(err)
	}
	w.clock = w.clock.Add(time.Hour)
	if err := w.desk.Tick(t.Context(), 10); err != nil || w.work() || w.runs != 1 || w.kept() != "2 count=5@2" {
		t.Errorf("%v, %d runs, %s", err, w.runs, w.kept())
	}
}

// Whichever write fails, before it was done or after, and whether its writer lives on or
// dies there: the execution ends once, with its changes applied once. What counts as
// computed is not computed again.
//
// covers: X1, X3
func TestWhateverWriteFailsItIsAppliedOnce(t *testing.T) {
	for n := 1; ; n++ {
		reached := false
		for _, mode := range []struct{ after, kill bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			t.Run(fmt.Sprintf("write %d %+v", n, mode), func(t *testing.T) {
				w := open(t)
				w.rows.fail, w.rows.after, w.rows.kill = n, mode.after, mode.kill
				runsWhenDone := 0
				w.rows.wrote = func(int) {
					if j, err := w.rows.Store.Job(t.Context(), sandbox.EntryRef(request.ID())); err == nil && j.State == sandbox.Done && runsWhenDone == 0 {
						runsWhenDone = w.runs
					}
				}
				_, _ = w.ask()
				w.work()
				reached = w.rows.writes >= n
				w.ends(w.recover(), host.Succeeded, "")
				if w.kept() != "1 count=1@1" {
					t.Error(w.kept())
				}
				if j := w.job(); j.State != sandbox.Done || w.runs != runsWhenDone {
					t.Errorf("%+v, %d runs and %d when it was done", j, w.runs, runsWhenDone)
				}
			})
		}
		if !reached {
			if n < 8 {
				t.Errorf("only %d writes", n)
			}
			break
		}
	}
}

// A script that gives something else each time is applied once, or refused because it
// was done again after it had said what it asks for: never is another answer applied
// than the one that was noted.
//
// covers: X4
func TestAScriptThatGivesOtherActionsIsRefused(t *testing.T) {
	refused := 0
	for n := 1; n < 16; n++ {
		for _, mode := range []struct{ after, kill bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			w := open(t)
			w.rows.fail, w.rows.after, w.rows.kill = n, mode.after, mode.kill
			w.returns = func(input) string {
				return fmt.Sprintf(`{"summary":"s","data":{"n":1},"evidence":[],"actions":[{"kind":"storage.put","namespace":"notes","key":"count","value":%d}]}`, w.runs)
			}
			_, _ = w.ask()
			w.work()
			switch e := w.recover(); {
			case e.State == host.Succeeded:
				if want := fmt.Sprintf("1 count=%d@1", w.runs); w.kept() != want {
					t.Errorf("write %d %+v: %s, want %s", n, mode, w.kept(), want)
				}
			default:
				refused++
				w.ends(e, host.Failed, outcome.PluginOutcomeChanged)
				if w.kept() != "0" || w.runs < 2 {
					t.Errorf("write %d %+v: %s after %d runs", n, mode, w.kept(), w.runs)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no one was refused")
	}
}

// covers: X4
func TestStorageThatWasReadAndHasChangedIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, key, want string
		code                 outcome.Code
	}{
		"an item that was read":               {"notes", "count", "1 count=8@1", outcome.PluginStorageConflict},
		"an item that was read and was not":   {"notes", "none", "1 none=8@1", outcome.PluginStorageConflict},
		"an item of a namespace that was":     {"whole", "new", "0", outcome.PluginStorageConflict},
		"an item that nobody asked for":       {"notes", "free", "2 count=1@1 free=8@1", ""},
		"an item of a namespace that was not": {"else", "new", "1 count=1@1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if _, err := w.ask(); err != nil {
				t.Fatal(err)
			}
			w.seed(c.namespace, c.key, "8")
			w.work()
			state := host.Succeeded
			if c.code != "" {
				state = host.Failed
			}
			w.ends(w.read(), state, c.code)
			if w.kept() != c.want {
				t.Error(w.kept())
			}
		})
	}
}

// covers: X2
func TestWhatWasComputedForAnotherStateIsNotApplied(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*capability.Instance)
		code outcome.Code
	}{
		"another package":       {func(i *capability.Instance) { i.PackageDigest = canon.Digest([]byte("x")) }, outcome.ExtensionVersionMismatch},
		"other settings":        {func(i *capability.Instance) { i.Settings = canon.Raw(`{"mode":"slow"}`) }, outcome.ExtensionVersionMismatch},
		"a permission is taken": {func(i *capability.Instance) { i.Granted = nil }, outcome.ExtensionPermissionDenied},
		"switched off":          {func(i *capability.Instance) { i.Enabled = false }, outcome.ExtensionDisabled},
		"removed":               {func(i *capability.Instance) { i.Removed = true }, outcome.ExtensionNotFound},
		"it is another's now":   {func(i *capability.Instance) { i.Actors = []string{"x|y"} }, outcome.ExtensionNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if _, err := w.ask(); err != nil {
				t.Fatal(err)
			}
			returns := w.returns
			w.returns = func(in input) string { w.edit(c.edit); return returns(in) }
			w.work()
			w.ends(w.read(), host.Failed, c.code)
			if w.kept() != "0" {
				t.Error(w.kept())
			}
		})
		t.Run(name+", before the job was there", func(t *testing.T) {
			w := open(t)
			w.rows.fail, w.rows.kill = 6, true // its record says queued, and nobody has handed it over
			_, _ = w.ask()
			if e := w.read(); e.Phase != host.Queued {
				t.Fatalf("%+v", e)
			}
			w.edit(c.edit)
			w.ends(w.recover(), host.Failed, c.code)
			if w.runs != 0 || w.kept() != "0" {
				t.Errorf("%d runs, %s", w.runs, w.kept())
			}
		})
	}
}

// covers: X2
func TestStoppingTheChatEndsTheJob(t *testing.T) {
	stop := func(w *world) host.Execution {
		w.Helper()
		e, err := w.desk.Cancel(w.Context(), actor, request.ID())
		if err != nil {
			w.Fatal(err)
		}
		return e
	}
	t.Run("while it waits", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		w.ends(stop(w), host.Cancelled, "")
		if w.job().State != sandbox.Cancelled || w.work() {
			t.Errorf("%+v", w.job())
		}
	})
	t.Run("while it is computed", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		one := w.worker()
		job := must(one.Claim(t.Context()))
		w.ends(stop(w), host.Cancelled, "")
		if b, err := one.Heartbeat(t.Context(), job); err != nil || !b.Cancel {
			t.Errorf("%+v %v", b, err)
		}
		if ok, err := one.Complete(t.Context(), job, w.compute(must(one.Open(job)))); err != nil || ok || w.kept() != "0" {
			t.Error(ok, err, w.kept())
		}
		w.ends(w.read(), host.Cancelled, "")
	})
	t.Run("though the adapter cannot be reached: the tick does it", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		w.absent = true
		if e := stop(w); e.State != host.Running || !e.Cancel {
			t.Fatalf("%+v", e)
		}
		w.absent = false
		w.ends(w.recover(), host.Cancelled, "")
		if w.job().State != sandbox.Cancelled || w.runs != 0 {
			t.Errorf("%+v", w.job())
		}
	})
	t.Run("after the job has ended, and before its execution has", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		w.broker.Executions = silent{w.broker.Executions}
		w.work()
		w.ends(stop(w), host.Cancelled, "")
		if w.kept() != "0" {
			t.Error(w.kept())
		}
	})
	t.Run("just before the job is there", func(t *testing.T) {
		w := open(t)
		w.rows.wrote = func(n int) {
			if n == 6 { // the record says queued, and the spec is an object
				w.rows.wrote = nil
				stop(w)
			}
		}
		must(w.ask())
		w.ends(w.read(), host.Cancelled, "")
		if w.job().State != sandbox.Cancelled || w.work() {
			t.Errorf("%+v", w.job())
		}
	})
	t.Run("whichever write of it fails", func(t *testing.T) {
		for n := 1; n < 6; n++ {
			for _, after := range []bool{false, true} {
				w := open(t)
				must(w.ask())
				w.rows.writes, w.rows.fail, w.rows.after = 0, n, after
				_, _ = w.desk.Cancel(t.Context(), actor, request.ID())
				w.rows.fail = 0
				stop(w)
				w.ends(w.recover(), host.Cancelled, "")
				if w.job().State != sandbox.Cancelled || w.runs != 0 {
					t.Errorf("%+v", w.job())
				}
			}
		}
	})
}

// Who asks again need not wait for the tick, and where nobody asks the tick does it.
//
// covers: X1
func TestAnExecutionGoesOnThoughNobodyWasToldOfTheEndOfItsJob(t *testing.T) {
	for name, goOn := range map[string]func(*world) error{
		"somebody asks again": func(w *world) error { _, err := w.ask(); return err },
		"nobody asks": func(w *world) error {
			w.clock = w.clock.Add(time.Minute)
			return w.desk.Tick(w.Context(), 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			must(w.ask())
			w.broker.Executions = silent{w.broker.Executions}
			w.work()
			if e := w.read(); e.State != host.Running {
				t.Fatalf("%+v", e)
			}
			if err := goOn(w); err != nil {
				t.Fatal(err)
			}
			w.ends(w.read(), host.Succeeded, "")
			if w.runs != 1 || w.kept() != "1 count=1@1" {
				t.Errorf("%d runs, %s", w.runs, w.kept())
			}
		})
	}
}

// What a worker says of a job that it could not run.
//
// covers: X1
func TestAJobThatNoWorkerRunsFailsByName(t *testing.T) {
	for reason, times := range map[sandbox.Reason]int{sandbox.SandboxFailed: sandbox.MaxAttempts, sandbox.SpecRefused: 1, sandbox.SignatureInvalid: 1} {
		t.Run(string(reason), func(t *testing.T) {
			w := open(t)
			must(w.ask())
			for range times {
				one := w.worker()
				if ok, err := one.Fail(t.Context(), must(one.Claim(t.Context())), reason); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			e := w.read()
			w.ends(e, host.Failed, outcome.SandboxUnavailable)
			if e.Params["reason"] != string(reason) {
				t.Error(e.Params)
			}
		})
	}
}

// silent loses that a job has ended.
type silent struct{ sandbox.Executions }

func (silent) Ended(context.Context, string) error { return nil }

// A worker that is lost costs an attempt, of which there are three; then the execution
// fails, and says that it may be asked for again.
//
// covers: X1
func TestLostWorkersFollowTheLimitsOfTheQueue(t *testing.T) {
	w := open(t)
	must(w.ask())
	for n := 1; n <= sandbox.MaxAttempts; n++ {
		job, err := w.worker().Claim(t.Context())
		if err != nil || job == nil || job.Fence != int64(n) {
			t.Fatalf("%d: %+v %v", n, job, err)
		}
		if e := w.read(); e.State != host.Running {
			t.Fatalf("%+v", e)
		}
		w.clock = w.clock.Add(sandbox.LeaseFor)
	}
	e := w.recover()
	w.ends(e, host.Failed, outcome.SandboxUnavailable)
	if e.Params["reason"] != string(sandbox.WorkerLost) || w.runs != 0 {
		t.Errorf("%v", e.Params)
	}
}

// covers: A8
func TestWithoutASandboxItFailsAtOnceAndMayBeAskedForAgain(t *testing.T) {
	w := open(t)
	w.jobs.Starter = nil
	e, err := w.ask()
	if err != nil {
		t.Fatal(err)
	}
	w.ends(e, host.Failed, outcome.SandboxUnavailable)
	if fact, _ := outcome.Lookup(e.Code); !fact.Retryable || e.Params["reason"] != string(sandbox.Unavailable) {
		t.Errorf("%v", e.Params)
	}
}

func TestNoExecutionRunsForEver(t *testing.T) {
	t.Run("where nobody takes the job", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		began := w.clock
		for w.read().State == host.Running && w.clock.Sub(began) < 2*time.Hour {
			w.clock = w.clock.Add(time.Minute)
			if err := w.desk.Tick(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		w.ends(w.read(), host.Failed, outcome.ExtensionTimeout)
		if w.job().State != sandbox.Cancelled {
			t.Errorf("%+v", w.job())
		}
	})
	t.Run("where its adapter is gone", func(t *testing.T) {
		w := open(t)
		must(w.ask())
		w.absent = true
		for range 60 {
			w.clock = w.clock.Add(time.Minute)
			_ = w.desk.Tick(t.Context(), 10)
		}
		w.ends(w.read(), host.Failed, outcome.ExtensionTimeout)
	})
	t.Run("where the job was cancelled by an operator", func(t *testing.T) {
		w := open(t)
		e := must(w.ask())
		if err := w.jobs.Cancel(t.Context(), e.JobRef); err != nil {
			t.Fatal(err)
		}
		w.ends(w.recover(), host.Cancelled, "")
	})
}

// covers: A8
func TestWhatIsNoResultFailsByName(t *testing.T) {
	good := `"summary":"s","data":{"n":1},"evidence":[]`
	type m = map[string]any
	for name, c := range map[string]struct {
		returned string
		fails    sandbox.CallError
		code     outcome.Code
		params   m
	}{
		"an honest one":                    {`{` + good + `}`, sandbox.CallError{}, "", nil},
		"no summary":                       {`{"data":{"n":1},"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "summary"}},
		"a summary of nothing":             {`{"summary":" ","data":{"n":1},"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "summary"}},
		"a summary that is no text":        {`{"summary":{"log":"/px"},"data":{"n":1},"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "summary"}},
		"a summary that is too long":       {`{"summary":"` + strings.Repeat("가", execution.MaxSummary+1) + `","data":{"n":1},"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "summary_too_long"}},
		"no data":                          {`{"summary":"s","evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "data"}},
		"data that is a list":              {`{"summary":"s","data":[],"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "data"}},
		"no evidence":                      {`{"summary":"s","data":{"n":1}}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "evidence"}},
		"evidence that is an object":       {`{"summary":"s","data":{"n":1},"evidence":{}}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "evidence"}},
		"a member that no result has":      {`{` + good + `,"log":"secret"}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, m{"rule": "result_extra"}},
		"data that its schema does not":    {`{"summary":"s","data":{"n":"secret"},"evidence":[]}`, sandbox.CallError{}, outcome.ExtensionOutputInvalid, nil},
		"actions that are no list":         {`{` + good + `,"actions":{}}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, nil},
		"an action that there is not":      {`{` + good + `,"actions":[{"kind":"secret"}]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, nil},
		"an action with a member too many": {`{` + good + `,"actions":[{"kind":"storage.put","namespace":"notes","key":"count","value":1,"secret":1}]}`, sandbox.CallError{}, outcome.ExtensionResponseInvalid, nil},
		"an action that it may not":        {`{` + good + `,"actions":[{"kind":"notification.schedule","key":"a","at":"2026-12-01T00:00:00Z","title":"t"}]}`, sandbox.CallError{}, outcome.ExtensionPermissionDenied, nil},
		"an exception":                     {"", sandbox.CallError{Reason: "exception", Line: 3, Exception: "ValueError"}, outcome.ExtensionResponseInvalid, m{"rule": "exception", "line": int64(3), "exception": "ValueError"}},
		"an exception named like a path":   {"", sandbox.CallError{Reason: "exception", Exception: "/px/secret.py"}, outcome.ExtensionResponseInvalid, m{"rule": "exception"}},
		"sys.exit":                         {"", sandbox.CallError{Reason: "exited"}, outcome.ExtensionResponseInvalid, m{"rule": "exited"}},
		"NaN":                              {"", sandbox.CallError{Reason: "not_finite"}, outcome.ExtensionResponseInvalid, m{"rule": "not_finite"}},
		"no JSON":                          {"", sandbox.CallError{Reason: "result_type"}, outcome.ExtensionResponseInvalid, m{"rule": "result_type"}},
		"more than may be returned":        {"", sandbox.CallError{Reason: "output_too_large"}, outcome.ExtensionResponseInvalid, m{"rule": "output_too_large"}},
		"too much memory":                  {"", sandbox.CallError{Reason: "memory"}, outcome.ExtensionResponseInvalid, m{"rule": "memory"}},
		"a reason that there is not":       {"", sandbox.CallError{Reason: "secret"}, outcome.ExtensionResponseInvalid, m{"rule": "result_refused"}},
		"its time is over":                 {"", sandbox.CallError{Reason: "timeout"}, outcome.ExtensionTimeout, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			must(w.ask())
			w.returns, w.fails = func(input) string { return c.returned }, c.fails
			if !w.work() {
				t.Fatal("the worker was told that it is not accepted")
			}
			e := w.read()
			state := host.Failed
			if c.code == "" {
				state = host.Succeeded
			}
			w.ends(e, state, c.code)
			if c.params != nil && fmt.Sprint(e.Params) != fmt.Sprint(outcome.Params(c.params)) {
				t.Errorf("%v, want %v", e.Params, c.params)
			}
			if w.kept() != "0" {
				t.Error(w.kept())
			}
		})
	}
}

func TestWhatIsTooMuchToTravelFailsByName(t *testing.T) {
	w := open(t)
	for n := range 20 {
		w.seed("whole", fmt.Sprint("k", n), `"`+strings.Repeat("x", 60<<10)+`"`)
	}
	e := must(w.ask())
	w.ends(e, host.Failed, outcome.LimitExceeded)
	if e.Params["of"] != "storageBytes" || e.Params["limit"] != sandboxpython.MaxStored {
		t.Error(e.Params)
	}
	if _, err := w.rows.Job(t.Context(), sandbox.EntryRef(e.ExecutionID)); !errors.Is(err, history.ErrNotFound) {
		t.Error("there is a job:", err)
	}
}

func TestAJobThatIsTooLargeToTravelFailsByName(t *testing.T) {
	w := open(t)
	err := w.runner.Queue.Begin(t.Context(), execution.Order{ExecutionID: request.ID(), Instance: must(w.rows.Instance(t.Context(), instance)),
		Capability: capability.Capability{TimeoutSeconds: 1, Runtime: canon.Raw(`{"adapter":"sandbox_python","entrypoint":"src/analyze.py"}`)}, Input: canon.Raw(`{"x":"` + strings.Repeat("x", sandbox.MaxSpecBytes) + `"}`)})
	f := (*capability.Failure)(nil)
	if !errors.As(err, &f) || f.Code != outcome.LimitExceeded || f.Params["of"] != "jobBytes" {
		t.Error(err)
	}
}

// Sixteen who ask at once, and call the adapter at once, mean one execution and one job.
//
// covers: X1
func TestManyWhoAskAtOnceHaveOneJob(t *testing.T) {
	w := open(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if e, err := w.ask(); err != nil || e.ExecutionID != request.ID() {
				t.Errorf("%+v %v", e, err)
			}
		})
	}
	all.Wait()
	if _, err := w.ask(); err != nil {
		t.Fatal(err)
	}
	if !w.work() || w.work() {
		t.Error("there is not one job")
	}
	w.ends(w.read(), host.Succeeded, "")
	if w.runs != 1 || w.kept() != "1 count=1@1" {
		t.Errorf("%d runs, %s", w.runs, w.kept())
	}
}

// A job of more keys than a write can hold to their versions is held to the namespace.
func TestManyKeysAreHeldByTheirNamespace(t *testing.T) {
	w := open(t)
	w.seed("notes", "k7", "7")
	keys := []string{}
	for n := range host.MaxReadKeys + 1 {
		keys = append(keys, fmt.Sprintf("k%d", n))
	}
	runtime := must(canon.Encode(map[string]any{"adapter": "sandbox_python", "entrypoint": "src/a.py", "reads": []any{map[string]any{"namespace": "notes", "keys": keys}, map[string]any{"namespace": "free", "keys": []string{"a"}}}}))
	text, reads, err := sandboxpython.New(w.jobs, w.rows, w.rows).Gather(t.Context(), capability.Call{Workspace: workspace, InstanceID: instance, Arguments: canon.Raw(`{}`), Capability: capability.Capability{Runtime: runtime}})
	if err != nil || fmt.Sprint(reads) != "[{notes  1 0} {free a 0 0}]" || !strings.Contains(string(text), `"storage":{"free":{},"notes":{"k7":{"value":7,"version":1}}}`) || !strings.Contains(string(text), `"settings":{}`) {
		t.Errorf("%s %v %v", text, reads, err)
	}
}
