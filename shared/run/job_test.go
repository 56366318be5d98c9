package run_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/calculation"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

// waiting is what a state machine waits with: each token is answered once.
type waiting struct {
	mu       sync.Mutex
	answered map[string]string // "" or an error's name, by token
	broken   bool              // no answer gets through
}

func (k *waiting) answer(token, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		return errors.New("no connection")
	}
	if _, twice := k.answered[token]; !twice {
		k.answered[token] = name
	}
	return nil
}

func (k *waiting) Succeed(_ context.Context, token string) error    { return k.answer(token, "") }
func (k *waiting) Fail(_ context.Context, token, code string) error { return k.answer(token, code) }

func (k *waiting) get(token string) (name string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name, ok = k.answered[token]
	return name, ok
}

type noStarter struct{}

func (noStarter) Start(context.Context, string, ed25519.PublicKey) (string, error) { return "", nil }

func (noStarter) Look(context.Context, []string) (waiting, over []string, err error) {
	return nil, nil, nil
}

// A pythonWorld is a Project with Functions, a queue of jobs and a worker that does in
// Go what the Functions say.
type pythonWorld struct {
	*world
	jobs   *sandbox.Jobs
	tokens *waiting
	worker sandboxtest.Worker
	specs  []sandbox.Spec // of the jobs that were run
	fail   map[string]sandbox.CallError
	give   map[string]string // a result instead of the right one, by nodeKey
	n      int
}

func port(unit string) quantity.Port { return quantity.Port{Type: quantity.NumberType, Unit: unit} }

// moment is the bending moment of a load over a span, and half halves it.
var pythonFunctions = []function.Document{
	{FunctionKey: "moment", Version: 3, Symbol: "bending", Parameters: []string{"w", "span"}, Inputs: map[string]quantity.Port{"w": port("kN/m"), "span": port("m")}, Results: map[string]quantity.Port{"m": port("kN*m")}},
	{FunctionKey: "half", Version: 1, Symbol: "half", Parameters: []string{"x"}, Inputs: map[string]quantity.Port{"x": port("N*m")}, Results: map[string]quantity.Port{"y": port("N*m")}},
}

const pythonFlow = `{"format":"pxflow/1","flowKey":"python_check","authoring":{"kind":"native"},
 "inputs":{"span":{"type":"number","unit":"ft"},"w":{"type":"number","unit":"kN/m"}},
 "results":{"out":{"type":"number","unit":"kN*m","binding":{"kind":"nodeResult","nodeKey":"last","portKey":"r"}}},
 "nodes":{
  "first":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"inputs":{"a":{"unit":"m"}},"results":{"r":{"expression":"a * 2","unit":"m"}}},
           "inputBindings":{"a":{"kind":"flowInput","portKey":"span"}}},
  "short":{"target":$moment,"inputBindings":{"span":{"kind":"flowInput","portKey":"span"},"w":{"kind":"flowInput","portKey":"w"}}},
  "long":{"target":$moment,"inputBindings":{"span":{"kind":"nodeResult","nodeKey":"first","portKey":"r"},"w":{"kind":"flowInput","portKey":"w"}}},
  "halved":{"target":$half,"inputBindings":{"x":{"kind":"nodeResult","nodeKey":"long","portKey":"m"}}},
  "last":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"inputs":{"a":{"unit":"kN*m"},"b":{"unit":"kN*m"}},"results":{"r":{"expression":"a + b","unit":"kN*m"}}},
          "inputBindings":{"a":{"kind":"nodeResult","nodeKey":"halved","portKey":"y"},"b":{"kind":"nodeResult","nodeKey":"short","portKey":"m"}}}}}`

// newPythonWorld has Functions and a Flow of four stages: built-in, two Functions, one
// Function that needs one of them, built-in.
func newPythonWorld(t testing.TB) *pythonWorld { return newPythonWorldOf(t, pythonFlow) }

// newPythonWorldOf has another Flow of them.
func newPythonWorldOf(t testing.TB, text string) *pythonWorld {
	t.Helper()
	w := &pythonWorld{tokens: &waiting{answered: map[string]string{}}, fail: map[string]sandbox.CallError{}, give: map[string]string{}}
	var bodies [][]byte
	for _, f := range pythonFunctions {
		source := []byte("# " + f.FunctionKey)
		f.Format, f.Capabilities, f.Imports, f.SourceDigest = function.Format, []string{}, []string{}, canon.Digest(source)
		document, digest, err := f.RevisionRef()
		must(t, err)
		bodies = append(bodies, document, source)
		target, err := canon.Encode(flow.FunctionTarget{FunctionKey: f.FunctionKey, Version: f.Version, Digest: digest})
		must(t, err)
		text = strings.ReplaceAll(text, "$"+f.FunctionKey, string(target))
	}
	doc, findings := flow.Decode([]byte(text))
	if findings.Refused() {
		t.Fatal(findings)
	}
	w.world = newWorldOf(t, doc)
	must(t, w.store.Put(t.Context(), history.Space(bridge.String()), bodies...))
	w.jobs = &sandbox.Jobs{Store: w.store, Objects: w.store, Keys: w.store, Tokens: w.tokens, Starter: noStarter{}, Now: w.runs.Now, NewRef: w.runs.NewRef}
	w.runs.Sandbox, w.runs.Tokens = w.jobs, w.tokens
	key, err := w.store.JobKey(t.Context())
	must(t, err)
	w.worker = sandboxtest.Worker{Ref: "wrk_1", Key: key.Public().(ed25519.PublicKey), Invoke: func(ctx context.Context, request []byte) ([]byte, error) {
		out, err := sandbox.Broker{Jobs: w.jobs}.Handle(ctx, request)
		if err != nil {
			return nil, err
		}
		return canon.Encode(out)
	}, Run: w.python}
	return w
}

// python does what the Functions do.
func (w *pythonWorld) python(_ context.Context, s sandbox.Spec) (sandbox.Result, error) {
	w.specs = append(w.specs, s)
	out := sandbox.Result{V: sandbox.Version, JobRef: s.JobRef, RanBy: sandbox.RanBy{Python: "3.11.2", GVisor: "release-1", Driver: "rootless"}}
	for _, c := range s.Calls {
		value := func(key string) float64 {
			x, err := strconv.ParseFloat(string(c.Values[key]), 64)
			must(w.t, err)
			return x
		}
		one := sandbox.CallResult{NodeKey: c.NodeKey}
		if e, ok := w.fail[c.NodeKey]; ok {
			one.Error = &e
		} else {
			var port string
			var y float64
			switch c.FunctionKey {
			case "moment":
				port, y = "m", value("w")*value("span")*value("span")/8
			case "half":
				port, y = "y", value("x")/2
			}
			text, err := canon.Encode(y)
			must(w.t, err)
			if given, ok := w.give[c.NodeKey]; ok {
				text = canon.Raw(given)
			}
			one.Values = map[string]canon.Raw{port: text}
		}
		out.Results = append(out.Results, one)
	}
	return out, nil
}

func (w *pythonWorld) started() string {
	w.t.Helper()
	q := w.request("c1")
	q.Of = w.of("python_check", w.revision, map[string]canon.Raw{"span": canon.Raw(`{"unit":"m","value":10}`), "w": canon.Raw(`{"unit":"N/mm","value":4}`)})
	s, findings := w.start(q)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return s.RunRef
}

func (w *pythonWorld) token() string { w.n++; return "token " + strconv.Itoa(w.n) }

// work has the worker do one job, if there is one.
func (w *pythonWorld) work() {
	w.t.Helper()
	job, err := w.worker.Claim(w.t.Context())
	must(w.t, err)
	if job == nil {
		return
	}
	_, err = w.worker.Do(w.t.Context(), job)
	must(w.t, err)
}

// end goes on from a stage to the end, as flow_run does; wait is called while a token
// is not answered.
func (w *pythonWorld) end(runRef string, kinds []run.StageKind, first int, wait func()) run.State {
	w.t.Helper()
	var ending run.Ending
	for stage := first; stage < len(kinds); stage++ {
		if kinds[stage] == run.Sandboxed {
			token := w.token()
			must(w.t, w.runs.Job(w.t.Context(), runRef, stage, token))
			name, ok := w.tokens.get(token)
			for n := 0; !ok; n++ {
				if n == 10 {
					w.t.Fatal("the token is not answered")
				}
				wait()
				name, ok = w.tokens.get(token)
			}
			if name != "" {
				ending.Error = name
				break
			}
		}
		goOn, err := w.runs.Stage(w.t.Context(), runRef, stage)
		must(w.t, err)
		if !goOn {
			break
		}
	}
	state, err := w.runs.Finish(w.t.Context(), runRef, ending)
	must(w.t, err)
	return state
}

func (w *pythonWorld) prepare(runRef string) []run.StageKind {
	w.t.Helper()
	kinds, err := w.runs.Prepare(w.t.Context(), runRef, "arn:"+runRef)
	must(w.t, err)
	return kinds
}

func (w *pythonWorld) job(runRef string, stage int) string {
	return sandbox.JobRef(bridge, fmt.Sprintf("%s/%d", runRef, stage))
}

func (w *pythonWorld) out(runRef string) string {
	w.t.Helper()
	result, findings, err := w.runs.Result(w.t.Context(), engineer, runRef, "out")
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return string(result.Value)
}

// covers: U1, U2, N2, X5
func TestTheFunctionsOfAStageAreOneJobAndTheirResultsSayWhatRanThem(t *testing.T) {
	t.Run("in one process", func(t *testing.T) { oneJob(t, &run.Warm{}) })
	t.Run("each step in a process of its own", func(t *testing.T) { oneJob(t, nil) })
}

func oneJob(t *testing.T, warm *run.Warm) {
	w := newPythonWorld(t)
	w.runs.Warm = warm
	runRef := w.started()
	kinds := w.prepare(runRef)
	if want := []run.StageKind{run.Builtin, run.Sandboxed, run.Sandboxed, run.Builtin}; !slices.Equal(kinds, want) {
		t.Fatal(kinds)
	}
	if state := w.end(runRef, kinds, 0, w.work); state != run.Succeeded {
		t.Fatal(state, w.get(runRef).Diagnostics)
	}
	// 4 kN/m over 10 m are 50 kN*m; over 20 m 200, halved 100.
	if got := w.out(runRef); got != `{"unit":"kN*m","value":150}` {
		t.Error(got)
	}
	report := w.get(runRef)
	if report.Progress.Completed != 5 || report.Progress.Total != 5 {
		t.Errorf("%+v", report.Progress)
	}
	ran := []run.Ran{{Python: "3.11.2", GVisor: sandboxtest.Holder("wrk_1", 1), Driver: "rootless", Stages: []int{1, 2}}}
	if fmt.Sprint(report.RanBy) != fmt.Sprint(ran) {
		t.Errorf("ran by %+v", report.RanBy)
	}
	if len(w.specs) != 2 || len(w.specs[0].Calls) != 2 || len(w.specs[1].Calls) != 1 {
		t.Fatalf("%d jobs: %+v", len(w.specs), w.specs)
	}
	// They may share a sandbox, which is another one's before and after.
	if first, second := w.specs[0], w.specs[1]; first.Follows != "" || !first.Leads || second.Follows != first.JobRef || second.Leads {
		t.Errorf("the first follows %q and leads %v, the second %q and %v", first.Follows, first.Leads, second.Follows, second.Leads)
	}
	long, short := w.specs[0].Calls[0], w.specs[0].Calls[1]
	if long.NodeKey != "long" || short.NodeKey != "short" || long.Symbol != "bending" || !slices.Equal(long.Parameters, []string{"w", "span"}) || long.Version != 3 ||
		string(long.Values["span"]) != "20" || string(short.Values["span"]) != "10" || string(short.Values["w"]) != "4" || w.specs[0].Sources[long.Source] != "# moment" || len(w.specs[0].Sources) != 1 {
		t.Errorf("%+v", w.specs[0])
	}
	if got := string(w.specs[1].Calls[0].Values["x"]); got != "200000" {
		t.Errorf("half got %s N*m", got)
	}
	if l := w.specs[0].Limits; l.CPUSeconds != 20 || l.WallMilliseconds <= 20_000 || l.MemoryBytes == 0 || l.Processes == 0 || l.OutputBytes == 0 || l.OutputBytes >= sandbox.MaxResultBytes {
		t.Errorf("%+v", l)
	}
}

// told writes diagnostics as "CODE path reason".
func told(diagnostics []outcome.Diagnostic) string {
	var out []string
	for _, d := range diagnostics {
		line := fmt.Sprintf("%s %s %v", d.Code, d.Path, d.Params["reason"])
		for _, key := range []string{"line", "exception"} {
			if d.Params[key] != nil {
				line += fmt.Sprintf(" %v", d.Params[key])
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// covers: U2, E2
func TestWhyAFunctionGaveNothingIsToldAndTheRunFails(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *pythonWorld)
		wait   func(w *pythonWorld)
		want   string
	}{
		"an exception, with its line and class": {func(w *pythonWorld) {
			w.fail["long"] = sandbox.CallError{Reason: "exception", Line: 7, Exception: "ZeroDivisionError"}
		}, nil, "PX_RUN_FAILED /nodes/long exception 7 ZeroDivisionError"},
		"two that fail are both told": {func(w *pythonWorld) {
			w.fail["long"], w.fail["short"] = sandbox.CallError{Reason: "memory"}, sandbox.CallError{Reason: "timeout"}
		}, nil, "PX_RUN_FAILED /nodes/long memory\nPX_RUN_FAILED /nodes/short timeout"},
		"a result that breaks its contract": {func(w *pythonWorld) { w.give["short"] = `"50"` }, nil,
			"PX_TYPE_MISMATCH /nodes/short/results/m <nil>\nPX_RUN_FAILED /nodes/short values_refused"},
		"null where a number is due": {func(w *pythonWorld) { w.give["short"] = `null` }, nil,
			"PX_NULLABILITY_MISMATCH /nodes/short/results/m <nil>\nPX_RUN_FAILED /nodes/short values_refused"},
		"no sandbox in this installation": {func(w *pythonWorld) { w.runs.Sandbox = nil }, nil, "PX_SANDBOX_UNAVAILABLE /nodes sandbox_unavailable"},
		"no worker can be started":        {func(w *pythonWorld) { w.jobs.Starter = nil }, nil, "PX_SANDBOX_UNAVAILABLE /nodes sandbox_unavailable"},
		"workers with another Python": {nil, func(w *pythonWorld) {
			job, err := w.worker.Claim(w.t.Context())
			must(w.t, err)
			_, err = w.worker.Fail(w.t.Context(), job, sandbox.PythonUnavailable)
			must(w.t, err)
		}, "PX_SANDBOX_UNAVAILABLE /nodes python_unavailable"},
		"what is no result": {nil, func(w *pythonWorld) {
			job, err := w.worker.Claim(w.t.Context())
			must(w.t, err)
			_, err = w.worker.Complete(w.t.Context(), job, sandbox.Result{V: 1, JobRef: job.JobRef})
			must(w.t, err)
		}, "PX_RUN_FAILED /nodes/long result_refused\nPX_RUN_FAILED /nodes/short result_refused"},
		"a result that is too large to travel": {nil, func(w *pythonWorld) {
			job, err := w.worker.Claim(w.t.Context())
			must(w.t, err)
			values := map[string]canon.Raw{"m": canon.Raw(`"` + strings.Repeat("x", sandbox.MaxResultBytes) + `"`)}
			_, err = w.worker.Complete(w.t.Context(), job, sandbox.Result{V: 1, JobRef: job.JobRef, Results: []sandbox.CallResult{{NodeKey: "long", Values: values}, {NodeKey: "short", Values: values}}})
			must(w.t, err)
		}, "PX_LIMIT_EXCEEDED /nodes <nil>"},
		"results that a worker has cut off": {func(w *pythonWorld) { w.fail["long"] = sandbox.CallError{Reason: "output_too_large"} }, nil,
			"PX_LIMIT_EXCEEDED /nodes/long/results <nil>\nPX_RUN_FAILED /nodes/long output_too_large"},
		"workers that are lost, one after the other": {nil, func(w *pythonWorld) {
			for range sandbox.MaxAttempts {
				job, err := w.worker.Claim(w.t.Context())
				must(w.t, err)
				if job == nil {
					w.t.Fatal("no job to be lost")
				}
				w.now = w.now.Add(sandbox.LeaseFor + 10*time.Second)
				_, err = w.jobs.Tick(w.t.Context(), 10)
				must(w.t, err)
			}
		}, "PX_RUN_FAILED /nodes/long worker_lost\nPX_RUN_FAILED /nodes/short worker_lost"},
		"inputs that are too large to travel": {func(w *pythonWorld) { w.runs.Sandbox = refusing{w.jobs, &sandbox.LimitError{Limit: 1, Observed: 2}} }, nil, "PX_LIMIT_EXCEEDED /nodes <nil>"},
		"a job that is none, now and ever":    {func(w *pythonWorld) { w.runs.Sandbox = refusing{w.jobs, sandbox.ErrMalformed} }, nil, "PX_RUN_FAILED /nodes spec_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPythonWorld(t)
			if c.before != nil {
				c.before(w)
			}
			wait := w.work
			if c.wait != nil {
				wait = func() { c.wait(w) }
			}
			runRef := w.started()
			if state := w.end(runRef, w.prepare(runRef), 0, wait); state != run.Failed {
				t.Fatal(state)
			}
			report := w.get(runRef)
			if got := told(report.Diagnostics); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if report.Progress.Stage != 2 || len(report.Results) != 0 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// refusing is a Sandbox that takes no job.
type refusing struct {
	*sandbox.Jobs
	why error
}

func (r refusing) Enqueue(context.Context, sandbox.Spec, string) (sandbox.State, error) {
	return "", fmt.Errorf("enqueue: %w", r.why)
}

// A stage may call more Functions than a job may take seconds for, and than a Run tells
// of one by one.
//
// covers: U2
func TestAStageOfManyFunctionsIsOneJobThatIsBoundedAndToldInPart(t *testing.T) {
	const many = 120
	var nodes []string
	for n := range many {
		nodes = append(nodes, fmt.Sprintf(`"n%03d":{"target":$half,"inputBindings":{"x":{"kind":"flowInput","portKey":"w"}}}`, n))
	}
	w := newPythonWorldOf(t, `{"format":"pxflow/1","flowKey":"python_check","authoring":{"kind":"native"},"inputs":{"span":{"type":"number","unit":"ft"},"w":{"type":"number","unit":"kN*m"}},
		"results":{"out":{"type":"number","unit":"kN*m","binding":{"kind":"nodeResult","nodeKey":"n000","portKey":"y"}}},"nodes":{`+strings.Join(nodes, ",")+`}}`)
	q := w.request("c1")
	q.Of = w.of("python_check", w.revision, map[string]canon.Raw{"span": canon.Raw(`{"unit":"m","value":10}`), "w": canon.Raw(`{"unit":"kN*m","value":4}`)})
	s, findings := w.start(q)
	if findings != nil {
		t.Fatal(findings)
	}
	if state := w.end(s.RunRef, w.prepare(s.RunRef), 0, func() {
		job, err := w.worker.Claim(t.Context())
		must(t, err)
		spec, err := w.worker.Open(job)
		must(t, err)
		if l := spec.Limits; len(spec.Calls) != many || l.CPUSeconds != 600 || l.WallMilliseconds != run.LongestJob.Milliseconds() {
			t.Errorf("%d calls within %+v", len(spec.Calls), l)
		}
		_, err = w.worker.Fail(t.Context(), job, sandbox.SpecRefused)
		must(t, err)
	}); state != run.Failed {
		t.Fatal(state)
	}
	told := w.get(s.RunRef).Diagnostics
	if last := told[len(told)-1]; len(told) != 101 || fmt.Sprint(last.Params["failed"], last.Params["told"]) != "120 100" || told[99].Path != "/nodes/n099" {
		t.Errorf("%d are told, the last as %+v", len(told), last)
	}
}

// Whenever a Run with a job is cancelled, the token fails or is answered at once, the
// Run ends Cancelled and what the worker brings is worth nothing.
//
// covers: U2
func TestACancelledRunTakesItsJobWithIt(t *testing.T) {
	cancel := func(w *pythonWorld, runRef string) {
		w.t.Helper()
		s, findings, err := w.runs.Cancel(w.t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"})
		must(w.t, err)
		if findings != nil || s.State != run.Cancelling {
			w.t.Fatal(s, findings)
		}
	}
	for name, c := range map[string]struct {
		before func(w *pythonWorld, runRef string)               // the job is handed over
		during func(w *pythonWorld, runRef string, token string) // and then
		state  sandbox.State                                     // of the job
	}{
		"before the job is handed over": {cancel, nil, ""},
		"while nobody has taken it":     {nil, func(w *pythonWorld, runRef, _ string) { cancel(w, runRef) }, sandbox.Cancelled},
		"while a worker has it": {nil, func(w *pythonWorld, runRef, token string) {
			job, err := w.worker.Claim(w.t.Context())
			must(w.t, err)
			cancel(w, runRef)
			if name, ok := w.tokens.get(token); !ok || name != sandbox.CancelledCode {
				w.t.Errorf("the token is answered with %q, %v", name, ok)
			}
			if beaten, err := w.worker.Heartbeat(w.t.Context(), job); err != nil || !beaten.Cancel && !beaten.Stale {
				w.t.Errorf("the worker is told %+v, %v", beaten, err)
			}
			if accepted, err := w.worker.Do(w.t.Context(), job); accepted || err != nil {
				w.t.Errorf("a result after the cancellation: %v, %v", accepted, err)
			}
		}, sandbox.Cancelled},
		"when it is done": {nil, func(w *pythonWorld, runRef, _ string) {
			w.work()
			cancel(w, runRef)
		}, sandbox.Done},
		"when the first cancellation died before it reached the job": {nil, func(w *pythonWorld, runRef, token string) {
			w.runs.Sandbox = nil // it did not get there
			cancel(w, runRef)
			w.runs.Sandbox = w.jobs
			if _, ok := w.tokens.get(token); ok {
				w.t.Error("the token is answered")
			}
			cancel(w, runRef)
		}, sandbox.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPythonWorld(t)
			runRef := w.started()
			w.prepare(runRef)
			_, err := w.runs.Stage(t.Context(), runRef, 0)
			must(t, err)
			if c.before != nil {
				c.before(w, runRef)
			}
			token := w.token()
			must(t, w.runs.Job(t.Context(), runRef, 1, token))
			if c.during != nil {
				c.during(w, runRef, token)
			}
			caught, ok := w.tokens.get(token)
			if !ok {
				t.Fatal("the state machine waits on")
			}
			if caught == "" {
				if goOn, err := w.runs.Stage(t.Context(), runRef, 1); goOn || err != nil {
					t.Fatal("the next stage may run", err)
				}
			}
			if state, err := w.runs.Finish(t.Context(), runRef, run.Ending{Error: caught}); state != run.Cancelled || err != nil {
				t.Fatal(state, err)
			}
			job, err := w.jobs.Result(t.Context(), w.job(runRef, 1))
			if c.state == "" {
				if !errors.Is(err, history.ErrNotFound) {
					t.Errorf("a job %+v, %v", job, err)
				}
			} else if err != nil || job.State != c.state {
				t.Errorf("the job is %s, %v", job.State, err)
			}
			if report := w.get(runRef); report.Progress.Completed != 1 || len(report.Diagnostics) > 0 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// racing cancels the Run while its job is being stored.
type racing struct {
	*sandbox.Jobs
	cancel func()
	after  bool
}

func (r racing) Enqueue(ctx context.Context, spec sandbox.Spec, token string) (sandbox.State, error) {
	if !r.after {
		r.cancel()
	}
	state, err := r.Jobs.Enqueue(ctx, spec, token)
	if r.after {
		r.cancel()
	}
	return state, err
}

// covers: U2
func TestACancellationThatMeetsTheHandingOverIsNotLost(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newPythonWorld(t)
		runRef := w.started()
		w.prepare(runRef)
		_, err := w.runs.Stage(t.Context(), runRef, 0)
		must(t, err)
		cancelling := w.runs
		w.runs.Sandbox = racing{w.jobs, func() {
			_, _, err := cancelling.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"})
			must(t, err)
		}, after}
		token := w.token()
		must(t, w.runs.Job(t.Context(), runRef, 1, token))
		if name, ok := w.tokens.get(token); !ok || name != sandbox.CancelledCode {
			t.Errorf("after %v: the token is answered with %q, %v", after, name, ok)
		}
	}
}

// covers: U5
func TestARunThatEndsWithoutItsJobEndsTheJob(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	w.prepare(runRef)
	_, err := w.runs.Stage(t.Context(), runRef, 0)
	must(t, err)
	must(t, w.runs.Job(t.Context(), runRef, 1, w.token()))
	if state, err := w.runs.Finish(t.Context(), runRef, run.Ending{Error: "States.Timeout"}); state != run.Failed || err != nil {
		t.Fatal(state, err)
	}
	if job, err := w.jobs.Result(t.Context(), w.job(runRef, 1)); err != nil || job.State != sandbox.Cancelled {
		t.Errorf("the job is %s, %v", job.State, err)
	}
}

// The answer of a token is lost with the process that should have given it: the tick
// gives it, and the Run goes on.
//
// covers: U5
func TestARunWhoseJobEndedUnansweredGoesOnWithTheTick(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	kinds := w.prepare(runRef)
	_, err := w.runs.Stage(t.Context(), runRef, 0)
	must(t, err)
	token := w.token()
	must(t, w.runs.Job(t.Context(), runRef, 1, token))
	w.tokens.broken = true
	w.work()
	w.tokens.broken = false
	if _, ok := w.tokens.get(token); ok {
		t.Fatal("the token is answered")
	}
	w.now = w.now.Add(time.Minute)
	_, err = w.jobs.Tick(t.Context(), 10)
	must(t, err)
	if name, ok := w.tokens.get(token); !ok || name != "" {
		t.Fatalf("the token is answered with %q, %v", name, ok)
	}
	// And the tick of Runs leaves one alone that waits for its job.
	w.executions.states[runRef] = run.ExecutionRunning
	w.now = w.now.Add(time.Hour)
	_, err = w.runs.Tick(t.Context(), 10)
	must(t, err)
	_, err = w.runs.Stage(t.Context(), runRef, 1)
	must(t, err)
	if state := w.end(runRef, kinds, 2, w.work); state != run.Succeeded || len(w.specs) != 2 {
		t.Fatal(state, len(w.specs))
	}
}

func TestAStageIsNotCollectedBeforeItsJobHasEnded(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	w.prepare(runRef)
	_, err := w.runs.Stage(t.Context(), runRef, 0)
	must(t, err)
	if _, err := w.runs.Stage(t.Context(), runRef, 1); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("without a job: %v", err)
	}
	must(t, w.runs.Job(t.Context(), runRef, 1, w.token()))
	if _, err := w.runs.Stage(t.Context(), runRef, 1); !errors.Is(err, run.ErrNotEnded) {
		t.Errorf("before its end: %v", err)
	}
	if err := w.runs.Job(t.Context(), runRef, 0, w.token()); err == nil {
		t.Error("a job of a built-in stage")
	}
	if err := w.runs.Job(t.Context(), runRef, 2, w.token()); err == nil {
		t.Error("a job of a stage that is not due")
	}
}

// The first stored result of a stage counts, even against a job that brings another.
//
// covers: U5
func TestTheFirstStoredResultOfAStageCounts(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	kinds := w.prepare(runRef)
	_, err := w.runs.Stage(t.Context(), runRef, 0)
	must(t, err)
	must(t, w.runs.Job(t.Context(), runRef, 1, w.token()))
	w.work()
	_, err = w.runs.Stage(t.Context(), runRef, 1)
	must(t, err)
	// Whatever is asked again now finds it: no second job, and nobody counts twice.
	w.give["long"], w.give["short"] = "0", "0"
	token := w.token()
	must(t, w.runs.Job(t.Context(), runRef, 1, token))
	if name, ok := w.tokens.get(token); !ok || name != "" {
		t.Errorf("the token is answered with %q, %v", name, ok)
	}
	_, err = w.runs.Stage(t.Context(), runRef, 1)
	must(t, err)
	if state := w.end(runRef, kinds, 2, w.work); state != run.Succeeded || w.out(runRef) != `{"unit":"kN*m","value":150}` {
		t.Error(state, w.out(runRef))
	}
	if report := w.get(runRef); report.Progress.Completed != 5 || len(report.RanBy) != 1 || len(report.RanBy[0].Stages) != 2 {
		t.Errorf("%+v", report)
	}
}

// outrun is a Store in which another process stores a stage just before.
type outrun struct {
	*memory.Store
	first history.Ref
}

func (o outrun) SaveStage(ctx context.Context, runRef string, stage int, _ history.Ref) (history.Ref, error) {
	return o.Store.SaveStage(ctx, runRef, stage, o.first)
}

// Of two processes that carry out a stage at once, that which stores it first decides
// how the Run goes on, for the other, too.
//
// covers: U5
func TestAProcessThatIsOutrunGoesOnWithWhatIsStored(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	kinds := w.prepare(runRef)
	first, err := canon.Encode(map[string]any{"nodes": map[string]any{}, "done": 0, "diagnostics": []outcome.Diagnostic{outcome.New(outcome.RunFailed, "/nodes/first", outcome.Params{"reason": "of_the_other"})}})
	must(t, err)
	must(t, w.store.Put(t.Context(), history.Space(bridge.String()), first))
	w.runs.Store = outrun{w.store, history.RefOf(first)}
	if goOn, err := w.runs.Stage(t.Context(), runRef, 0); goOn || err != nil {
		t.Errorf("it goes on: %v, %v", goOn, err)
	}
	if state := w.end(runRef, kinds[:0], 0, w.work); state != run.Failed {
		t.Fatal(state)
	}
	if report := w.get(runRef); told(report.Diagnostics) != "PX_RUN_FAILED /nodes/first of_the_other" || report.Progress.Completed != 0 {
		t.Errorf("%+v", report)
	}
}

// relaid is a Flow that a later version of the program lays out in other stages.
type relaid struct{ run.Flow }

func (relaid) Kinds() []run.StageKind { return []run.StageKind{run.Sandboxed, run.Builtin} }

// A state machine was told the stages of its Run when it began: were they others by
// now, it would leave some out.
//
// covers: U5
func TestARunIsNotCarriedOutInOtherStagesThanItBeganWith(t *testing.T) {
	w := newPythonWorld(t)
	runRef := w.started()
	w.prepare(runRef)
	open := w.runs.Open
	w.runs.Open = func(ctx context.Context, project target.Project, document []byte) (run.Flow, outcome.Findings, error) {
		f, findings, err := open(ctx, project, document)
		return relaid{f}, findings, err
	}
	if goOn, err := w.runs.Stage(t.Context(), runRef, 0); goOn || err == nil {
		t.Errorf("it goes on: %v, %v", goOn, err)
	}
	w.runs.Open = open
	if goOn, err := w.runs.Stage(t.Context(), runRef, 0); !goOn || err != nil {
		t.Errorf("something was stored: %v, %v", goOn, err)
	}
}

// faultyJobs breaks writes of jobs as flaky breaks those of Runs.
type faultyJobs struct {
	*memory.Store
	flaky *flaky
}

func (f *faultyJobs) CreateJob(ctx context.Context, j sandbox.Job) error {
	return f.flaky.around(func() error { return f.Store.CreateJob(ctx, j) })
}

func (f *faultyJobs) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	return f.flaky.around(func() error { return f.Store.ReplaceJob(ctx, j) })
}

func (f *faultyJobs) NoteJob(ctx context.Context, j sandbox.Job) error {
	return f.flaky.around(func() error { return f.Store.NoteJob(ctx, j) })
}

// Whatever write of a Run or a job fails, before or after it was performed, whichever
// step is asked for twice and with whichever token: the Run ends once, each Node is
// counted once, and with the right numbers.
//
// covers: U5
func TestRepeatedStepsWithJobsCountOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newPythonWorld(t)
		runRef := w.started()
		faults := &flaky{w.store, rapid.SliceOfN(rapid.IntRange(0, 2), 0, 30).Draw(rt, "faults")}
		w.runs.Store, w.jobs.Store = faults, &faultyJobs{w.store, faults}
		if rapid.Bool().Draw(rt, "one process") {
			w.runs.Warm = &run.Warm{}
		}
		again := func(step func() error) {
			for twice := 0; ; {
				err := step()
				if err != nil && !errors.Is(err, errLost) {
					rt.Fatal(err)
				}
				if err == nil {
					if twice++; twice > rapid.IntRange(0, 1).Draw(rt, "repeat") {
						return
					}
				}
			}
		}
		var kinds []run.StageKind
		again(func() (err error) { kinds, err = w.runs.Prepare(t.Context(), runRef, "arn"); return err })
		for stage, kind := range kinds {
			if kind == run.Sandboxed {
				var token string
				again(func() error { token = w.token(); return w.runs.Job(t.Context(), runRef, stage, token) })
				for n := 0; ; n++ {
					if name, ok := w.tokens.get(token); ok {
						if name != "" {
							rt.Fatalf("the token fails with %s", name)
						}
						break
					}
					if n == 60 {
						rt.Fatal("the token is not answered")
					}
					// A worker that an error of the broker meets tries again; one that
					// dies has its lease run out.
					if job, err := w.worker.Claim(t.Context()); err == nil && job != nil {
						for range rapid.IntRange(0, 3).Draw(rt, "tries") {
							if _, err := w.worker.Do(t.Context(), job); err == nil {
								break
							}
						}
					}
					w.now = w.now.Add(10 * time.Second)
					_, _ = w.jobs.Tick(t.Context(), 10)
					if job, err := w.jobs.Result(t.Context(), w.job(runRef, stage)); err == nil && job.State == sandbox.Failed {
						rt.Skip("more workers were lost than may be")
					}
				}
			}
			again(func() error { _, err := w.runs.Stage(t.Context(), runRef, stage); return err })
		}
		again(func() error { _, err := w.runs.Finish(t.Context(), runRef, run.Ending{}); return err })
		report := w.get(runRef)
		if report.State != run.Succeeded || report.Progress.Completed != 5 || report.Progress.Total != 5 || w.out(runRef) != `{"unit":"kN*m","value":150}` {
			rt.Fatalf("got %+v", report)
		}
		var stages []int // by one worker at one fence, or by two
		for _, ran := range report.RanBy {
			stages = append(stages, ran.Stages...)
		}
		if slices.Sort(stages); !slices.Equal(stages, []int{1, 2}) {
			rt.Fatalf("ran by %+v", report.RanBy)
		}
	})
}

// A Function that is not what the Flow pins is told as a finding of the Run, which was
// valid when it was saved.
//
// covers: U4, F5
func TestAFlowIsOpenedWithTheFunctionsThatItPins(t *testing.T) {
	w := newPythonWorld(t)
	bodies, err := w.store.Get(t.Context(), history.Space(bridge.String()), history.Ref(w.revision))
	must(t, err)
	open := calculation.Opener(w.store)
	if opened, findings, err := open(t.Context(), bridge, bodies[0]); err != nil || findings.Refused() || len(opened.Kinds()) != 4 {
		t.Fatal(findings, err)
	}
	other := strings.Replace(string(bodies[0]), `"version":3`, `"version":2`, 1)
	_, findings, err := open(t.Context(), bridge, []byte(other))
	if err != nil || !slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool {
		return d.Code == outcome.ReferenceUnknown && d.Path == "/nodes/long/target"
	}) {
		t.Errorf("%v %v", findings, err)
	}
	// A package's Function is there while the catalog admits its release, and a Run that
	// was begun with it says so before anything is calculated.
	pipe := packages.Product().All()[0]
	owned, err := canon.Encode(map[string]any{"kind": "function", "functionKey": pipe.Document.FunctionKey, "version": pipe.Document.Version, "digest": pipe.Digest, "package": pipe.Package()})
	must(t, err)
	document := `{"format":"pxflow/1","flowKey":"pipes","authoring":{"kind":"native"},"inputs":{"d":{"type":"number","unit":"mm"}},"results":{"m":{"type":"number","unit":"mm^3","binding":{"kind":"nodeResult","nodeKey":"n","portKey":"modulus"}}},` +
		`"nodes":{"n":{"target":` + string(owned) + `,"inputBindings":{"outer_diameter":{"kind":"flowInput","portKey":"d"},"wall":{"kind":"literal","value":{"value":1,"unit":"mm"}}}}}}`
	opened, findings, err := open(t.Context(), bridge, []byte(document))
	if err != nil || findings.Refused() {
		t.Fatal(findings, err)
	}
	calc, findings := opened.Begin(map[string]canon.Raw{"d": canon.Raw(`{"value":10,"unit":"mm"}`)}, "")
	calls, _, err := calc.Calls(0)
	if err != nil || findings.Refused() || len(calls) != 1 || calls[0].Source != pipe.Document.SourceDigest {
		t.Fatal(calls, findings, err)
	}
	if sources, err := calc.Sources(t.Context(), calls); err != nil || sources[calls[0].Source] != string(pipe.Source()) || canon.Digest(pipe.Source()) != calls[0].Source {
		t.Errorf("the sources are %v, %v", sources, err)
	}
	_, findings, err = calculation.OpenerWith(w.store, packages.Of())(t.Context(), bridge, []byte(document))
	if err != nil || len(findings) == 0 || findings[0].Code != outcome.DependencyUnavailable || findings[0].Path != "/nodes/n/target" || findings[0].Params["reason"] != "release_unknown" {
		t.Errorf("without the release: %v %v", findings, err)
	}
	// Another Project that knows the digests has neither Flow nor Functions.
	if _, _, err := open(t.Context(), target.Project{WorkspaceKey: "other", ProjectKey: "project"}, bodies[0]); err == nil {
		t.Error("another Project reads the Functions")
	}
}

// covers: R5, U2
func TestACancelledBatchStopsItsCasesThatWaitForJobs(t *testing.T) {
	w := newBatchWorld(t)
	tokens := &waiting{answered: map[string]string{}}
	jobs := &sandbox.Jobs{Store: w.store, Objects: w.store, Keys: w.store, Tokens: tokens, Starter: noStarter{}, Now: w.runs.Now, NewRef: w.runs.NewRef}
	w.runs.Sandbox, w.runs.Tokens = jobs, tokens
	started := w.begin(w.plan(3, batch.None{}), "c1")
	row, err := w.store.Batch(t.Context(), started.BatchRef)
	must(t, err)
	row.Sandbox = []int{0} // as if the sample's one stage called Functions
	must(t, w.store.ReplaceBatch(t.Context(), row, nil))
	orders := w.orders(started.BatchRef, 0)
	for _, o := range orders[:2] {
		_, err := w.batches.PrepareChild(t.Context(), o, "arn:"+o.RunRef)
		must(t, err)
		spec := sandboxtest.Spec(bridge, o.RunRef+"/0", 1)
		_, err = jobs.Enqueue(t.Context(), spec, "token of "+o.RunRef)
		must(t, err)
	}
	_, findings, err := w.batches.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: started.BatchRef, CommandID: "stop"})
	must(t, err)
	if findings != nil {
		t.Fatal(findings)
	}
	for _, o := range orders[:2] {
		if name, ok := tokens.get("token of " + o.RunRef); !ok || name != sandbox.CancelledCode {
			t.Errorf("%s: the token is answered with %q, %v", o.RunRef, name, ok)
		}
		if state, err := w.runs.Finish(t.Context(), o.RunRef, run.Ending{Error: sandbox.CancelledCode}); state != run.Cancelled || err != nil {
			t.Errorf("%s ends %s, %v", o.RunRef, state, err)
		}
	}
}
