package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/calculation"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

const engineer = "https://issuer|engineer"

// executions is a state machine service that only remembers.
type executions struct {
	mu      sync.Mutex
	fail    error
	states  map[string]run.Execution
	started int
}

func (e *executions) Start(_ context.Context, _ target.Project, runRef string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	if e.states[runRef] == "" {
		e.states[runRef] = run.ExecutionRunning
		e.started++
	}
	return nil
}

func (e *executions) Look(_ context.Context, runRef string) (run.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.states[runRef]; s != "" {
		return s, nil
	}
	return run.ExecutionAbsent, nil
}

func (e *executions) Stop(_ context.Context, runRef string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states[runRef] = run.ExecutionEnded
	return nil
}

type world struct {
	t          testing.TB
	store      *memory.Store
	projects   *project.Projects
	executions *executions
	runs       run.Runs
	revision   string
	now        time.Time
	refs       int
}

// newWorld has the sample Flow saved in the sample Project.
func newWorld(t testing.TB) *world {
	text, err := os.ReadFile("../../infra/sample/girder_check.pxflow")
	must(t, err)
	doc, findings := flow.Decode(text)
	if findings.Refused() {
		t.Fatal(findings)
	}
	return newWorldOf(t, doc)
}

func newWorldOf(t testing.TB, doc flow.Document) *world {
	w := &world{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), executions: &executions{states: map[string]run.Execution{}}}
	clock := func() time.Time { return w.now }
	w.store = memory.New(clock)
	w.projects = project.New(w.store, nil, clock)
	must(t, w.projects.Create(t.Context(), bridge, nil, ""))
	w.grant(engineer, policy.Read, policy.Edit, policy.Run)
	catalog := history.NewCatalog(w.store, nil)
	w.runs = run.Runs{Objects: w.store, Catalog: catalog, Policy: w.store, Store: w.store, Executions: w.executions, Open: calculation.Opener(w.store), Now: clock,
		NewRef: func(prefix string) string { w.refs++; return fmt.Sprintf("%s%026d", prefix, w.refs) }}

	document, revision, err := doc.RevisionRef()
	must(t, err)
	w.revision = revision
	planner := change.Planner{Objects: w.store, Store: w.store, Now: clock, NewRef: w.runs.NewRef}
	d := change.Draft{Tool: "pxflow_plan_change", Project: bridge, Target: canon.Raw(`{}`), Subject: policy.OnFlow, Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`),
		Changes: []change.Change{{Kind: "flow", Key: doc.FlowKey, Entry: history.Entry{RevisionRef: history.Ref(revision)}, Document: document}}}
	plan, _, err := planner.Plan(t.Context(), change.Author{Principal: engineer}, d)
	must(t, err)
	applier := change.Applier{Objects: w.store, Store: w.store, Policy: w.store, Catalog: catalog, Now: clock}
	_, findings, err := applier.Apply(t.Context(), change.Application{Author: change.Author{Principal: engineer}, Tool: d.Tool, Project: bridge,
		Target: d.Target, Address: "flow/" + doc.FlowKey, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: "seed"})
	must(t, err)
	if findings != nil {
		t.Fatal(findings)
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) grant(principal string, rights ...policy.Right) {
	w.t.Helper()
	must(w.t, w.projects.SetGrant(w.t.Context(), bridge, principal, rights))
}

func inputs(span float64) map[string]canon.Raw {
	return map[string]canon.Raw{
		"span":            canon.Raw(fmt.Sprintf(`{"unit":"ft","value":%v}`, span)),
		"dead_load":       canon.Raw(`{"unit":"kip/ft","value":1.2}`),
		"impact":          canon.Raw(`{"unit":"1","value":0.3}`),
		"section_modulus": canon.Raw(`{"unit":"in^3","value":1500}`),
		"yield_stress":    canon.Raw(`{"unit":"ksi","value":50}`),
	}
}

func (w *world) of(flowKey, revisionRef string, inputs map[string]canon.Raw) run.Source {
	w.t.Helper()
	of, err := run.OfFlow(target.Flow{Scope: bridge.Scope(), FlowKey: flowKey, RevisionRef: revisionRef}, inputs)
	must(w.t, err)
	return of
}

func (w *world) request(commandID string) run.Request {
	return run.Request{Principal: engineer, Project: bridge, Of: w.of("girder_check", w.revision, inputs(60)), CommandID: commandID, Digest: "sha256:request"}
}

func (w *world) start(q run.Request) (run.Started, outcome.Findings) {
	w.t.Helper()
	answer, findings, err := w.runs.Start(w.t.Context(), q)
	must(w.t, err)
	var started run.Started
	if findings == nil {
		must(w.t, json.Unmarshal(answer, &started))
	}
	return started, findings
}

func (w *world) started() string {
	w.t.Helper()
	s, findings := w.start(w.request("c1"))
	if findings != nil {
		w.t.Fatal(findings)
	}
	return s.RunRef
}

// drive performs a Run's steps as the state machine does.
func (w *world) drive(runRef string) run.State {
	w.t.Helper()
	stages, err := w.runs.Prepare(w.t.Context(), runRef, "arn:"+runRef)
	must(w.t, err)
	for stage := range stages {
		goOn, err := w.runs.Stage(w.t.Context(), runRef, stage)
		must(w.t, err)
		if !goOn {
			break
		}
	}
	state, err := w.runs.Finish(w.t.Context(), runRef, run.Ending{})
	must(w.t, err)
	return state
}

func (w *world) get(runRef string) run.Report {
	w.t.Helper()
	report, findings, err := w.runs.Get(w.t.Context(), engineer, runRef)
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return report
}

// covers: U1, U2, U3
func TestARunGivesTheHandbookMomentAndTellsItsResults(t *testing.T) {
	for span, handbook := range map[float64]float64{40: 449.8, 60: 806.5, 70: 985.6, 80: 1164.9, 90: 1344.4} {
		w := newWorld(t)
		q := w.request("c1")
		q.Of = w.of("girder_check", w.revision, inputs(span))
		s, findings := w.start(q)
		if findings != nil || s.State != run.Queued {
			t.Fatal(s, findings)
		}
		if state := w.drive(s.RunRef); state != run.Succeeded {
			t.Fatal(state, w.get(s.RunRef))
		}
		report := w.get(s.RunRef)
		if report.Progress.Completed != report.Progress.Total || report.Progress.Total == 0 || report.EndedAt == "" || len(report.Results) < 5 {
			t.Fatalf("got %+v", report)
		}
		result, findings, err := w.runs.Result(t.Context(), engineer, s.RunRef, "live_moment")
		must(t, err)
		var value struct {
			Value float64 `json:"value"`
			Unit  string  `json:"unit"`
		}
		if findings != nil || json.Unmarshal(result.Value, &value) != nil || value.Unit != "kip*ft" {
			t.Fatal(findings, string(result.Value))
		}
		closed := 72*math.Pow(span/2-7.0/3, 2)/span - 112
		if math.Abs(value.Value/closed-1) > 1e-12 || math.Abs(value.Value-handbook) > 0.1 {
			t.Errorf("span %v ft: %v, closed form %v, handbook %v", span, value.Value, closed, handbook)
		}
	}
}

// covers: U1, U4
func TestStartRefusesBeforeAnythingIsStored(t *testing.T) {
	given := func(edit func(map[string]canon.Raw)) func(*world, *run.Request) {
		return func(w *world, q *run.Request) {
			in := inputs(60)
			edit(in)
			q.Of = w.of("girder_check", w.revision, in)
		}
	}
	cases := map[string]struct {
		before func(w *world, q *run.Request)
		code   outcome.Code
		path   string
	}{
		"an unknown flow":           {func(w *world, q *run.Request) { q.Of = w.of("other", w.revision, inputs(60)) }, outcome.TargetNotFound, "/target/flowKey"},
		"a revision never saved":    {func(w *world, q *run.Request) { q.Of = w.of("girder_check", "sha256:0", inputs(60)) }, outcome.TargetNotFound, "/target/revisionRef"},
		"no right to read":          {func(w *world, _ *run.Request) { w.grant(engineer) }, outcome.TargetNotFound, "/target/scope"},
		"no right to run":           {func(w *world, _ *run.Request) { w.grant(engineer, policy.Read, policy.Edit) }, outcome.PermissionDenied, "/target/scope"},
		"a missing input":           {given(func(in map[string]canon.Raw) { delete(in, "span") }), outcome.BindingMissing, "/inputs/span"},
		"an input of no port":       {given(func(in map[string]canon.Raw) { in["x"] = canon.Raw(`{"value":1}`) }), outcome.ReferenceUnknown, "/inputs/x"},
		"an input of another unit":  {given(func(in map[string]canon.Raw) { in["span"] = canon.Raw(`{"unit":"kN","value":1}`) }), outcome.UnitMismatch, "/inputs/span/unit"},
		"an input out of its range": {given(func(in map[string]canon.Raw) { in["span"] = canon.Raw(`{"unit":"ft","value":-1}`) }), outcome.ConstraintViolated, "/inputs/span/value"},
		"a policy asking for consent": {func(w *world, _ *run.Request) {
			must(w.t, w.projects.SetPolicy(w.t.Context(), bridge, []policy.Rule{{On: policy.OnRun, Approval: "required"}}))
		}, outcome.ApprovalRequired, "/approvalRef"},
		"an approval of something else": {func(_ *world, q *run.Request) { q.ApprovalRef = "approval_x" }, outcome.ApprovalInvalid, "/approvalRef"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			q := w.request("c1")
			c.before(w, &q)
			_, findings := w.start(q)
			if len(findings) != 1 || findings[0].Code != c.code || findings[0].Path != c.path {
				t.Fatalf("got %+v, want %s at %s", findings, c.code, c.path)
			}
			if w.executions.started != 0 {
				t.Fatal("an execution was started")
			}
		})
	}
}

// covers: U1
func TestTheSameCommandIsTheSameRun(t *testing.T) {
	w := newWorld(t)
	first, _ := w.start(w.request("c1"))
	w.grant(engineer)
	again, findings := w.start(w.request("c1"))
	if findings != nil || again != first || w.executions.started != 1 {
		t.Fatal(again, findings)
	}
	other := w.request("c1")
	other.Digest = "sha256:other"
	if _, findings := w.start(other); len(findings) != 1 || findings[0].Code != outcome.CommandReused {
		t.Fatal(findings)
	}
}

// covers: U1, U5
func TestARunWhoseExecutionWasNotStartedIsStartedByTheTick(t *testing.T) {
	w := newWorld(t)
	w.executions.fail = errors.New("no connection")
	runRef := w.started()
	w.executions.fail = nil
	if n, err := w.runs.Tick(t.Context(), 10); n != 0 || err != nil {
		t.Fatal("looked at before it was due", n, err)
	}
	w.now = w.now.Add(61 * time.Second)
	if n, err := w.runs.Tick(t.Context(), 10); n != 1 || err != nil || w.executions.started != 1 {
		t.Fatal(n, err, w.executions.started)
	}
	if state := w.drive(runRef); state != run.Succeeded {
		t.Fatal(state)
	}
	w.now = w.now.Add(24 * time.Hour)
	if n, _ := w.runs.Tick(t.Context(), 10); n != 0 {
		t.Fatal("a terminal run is still due")
	}
}

// covers: U5
func TestPatienceIsTheUnitOfEveryWait(t *testing.T) {
	w := newWorld(t)
	w.runs.Patience = 2 * time.Second
	due := func(runRef string) time.Duration {
		t.Helper()
		row, err := w.store.Fetch(t.Context(), runRef)
		must(t, err)
		return row.DueAt.Sub(w.now)
	}
	runRef := w.started()
	if got := due(runRef); got != 2*time.Second {
		t.Errorf("a Run that waits to begin is looked at after %v", got)
	}
	_, err := w.runs.Prepare(t.Context(), runRef, "arn:1")
	must(t, err)
	if got := due(runRef); got != 10*time.Second {
		t.Errorf("a Run that has begun is looked at after %v", got)
	}
	_, _, err = w.runs.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"})
	must(t, err)
	if got := due(runRef); got != 4*time.Second {
		t.Errorf("a Run that is being cancelled is looked at after %v", got)
	}
}

// covers: U5
func TestARunWhoseExecutionEndedWithoutItFails(t *testing.T) {
	w := newWorld(t)
	runRef := w.started()
	if _, err := w.runs.Prepare(t.Context(), runRef, "arn:"+runRef); err != nil {
		t.Fatal(err)
	}
	w.executions.states[runRef] = run.ExecutionEnded
	w.now = w.now.Add(time.Hour)
	if _, err := w.runs.Tick(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if report := w.get(runRef); report.State != run.Failed || len(report.Diagnostics) != 1 || report.Diagnostics[0].Code != outcome.RunFailed {
		t.Fatalf("got %+v", report)
	}
}

// covers: U2
func TestCancelStopsAnActiveRunAndLeavesATerminalOne(t *testing.T) {
	w := newWorld(t)
	runRef := w.started()
	for range 2 {
		s, findings, err := w.runs.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"})
		if findings != nil || err != nil || s.State != run.Cancelling {
			t.Fatal(s, findings, err)
		}
	}
	if state := w.drive(runRef); state != run.Cancelled {
		t.Fatal(state)
	}
	before := w.get(runRef)
	if s, _, err := w.runs.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"}); err != nil || s.State != run.Cancelled {
		t.Fatal(s, err)
	}
	if w.get(runRef).EndedAt != before.EndedAt {
		t.Fatal("a terminal run moved")
	}
	w.grant("https://issuer|viewer", policy.Read)
	if _, findings, _ := w.runs.Cancel(t.Context(), run.Cancellation{Principal: "https://issuer|viewer", RunRef: runRef, CommandID: "stop"}); len(findings) != 1 || findings[0].Code != outcome.PermissionDenied {
		t.Fatal(findings)
	}
	if _, findings, _ := w.runs.Cancel(t.Context(), run.Cancellation{Principal: "https://issuer|other", RunRef: runRef, CommandID: "stop"}); len(findings) != 1 || findings[0].Code != outcome.TargetNotFound {
		t.Fatal(findings)
	}
}

// covers: U2, U5
func TestACancelledRunWithoutAnExecutionIsEndedByTheTick(t *testing.T) {
	w := newWorld(t)
	w.executions.fail = errors.New("no connection")
	runRef := w.started()
	if _, _, err := w.runs.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: runRef, CommandID: "stop"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runs.Tick(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if state := w.get(runRef).State; state != run.Cancelled {
		t.Fatal(state)
	}
}

// covers: U2, E2
func TestAFailingNodeFailsTheRunWithItsNodeKey(t *testing.T) {
	doc, findings := flow.Decode([]byte(`{"authoring":{"kind":"native"},"flowKey":"girder_check","format":"pxflow/1","label":{"en":"x"},
		"inputs":{"span":{"type":"number","unit":"1"}},
		"nodes":{"inverse":{"target":{"kind":"component","componentKey":"px.formula","version":1},
			"settings":{"inputs":{"span":{"unit":"1"}},"results":{"y":{"expression":"1 / span","unit":"1"}}},
			"inputBindings":{"span":{"kind":"flowInput","portKey":"span"}}}},
		"results":{"y":{"type":"number","unit":"1","binding":{"kind":"nodeResult","nodeKey":"inverse","portKey":"y"}}}}`))
	if findings.Refused() {
		t.Fatal(findings)
	}
	w := newWorldOf(t, doc)
	q := w.request("c1")
	q.Of = w.of("girder_check", w.revision, map[string]canon.Raw{"span": canon.Raw(`{"value":0}`)})
	s, findings := w.start(q)
	if findings != nil {
		t.Fatal(findings)
	}
	if state := w.drive(s.RunRef); state != run.Failed {
		t.Fatal(state)
	}
	report := w.get(s.RunRef)
	if len(report.Diagnostics) == 0 || report.Diagnostics[0].Code != outcome.RunFailed || report.Diagnostics[0].Params["nodeKey"] != "inverse" {
		t.Fatalf("got %+v", report.Diagnostics)
	}
	if d := report.Diagnostics[0]; d.Severity != outcome.Error || d.SuggestedAction == "" || d.DiagnosticID == "" || w.get(s.RunRef).Diagnostics[0].DiagnosticID != d.DiagnosticID {
		t.Fatalf("the diagnostic is not whole, or not the same when it is read again: %+v", d)
	}
	if _, findings, _ := w.runs.Result(t.Context(), engineer, s.RunRef, "y"); len(findings) != 1 || findings[0].Code != outcome.TargetNotFound {
		t.Fatal(findings)
	}
}

// flaky is a store whose writes fail before or after they are performed, as the
// script says.
type flaky struct {
	*memory.Store
	script []int
}

var errLost = errors.New("connection lost")

func (f *flaky) next() int {
	if len(f.script) == 0 {
		return 0
	}
	n := f.script[0]
	f.script = f.script[1:]
	return n
}

func (f *flaky) around(write func() error) error {
	switch f.next() {
	case 1:
		return errLost
	case 2:
		if err := write(); err != nil {
			return err
		}
		return errLost
	}
	return write()
}

func (f *flaky) Replace(ctx context.Context, row run.Row) error {
	return f.around(func() error { return f.Store.Replace(ctx, row) })
}

func (f *flaky) SaveStage(ctx context.Context, runRef string, stage int, result history.Ref) (ref history.Ref, err error) {
	err = f.around(func() error { ref, err = f.Store.SaveStage(ctx, runRef, stage, result); return err })
	return ref, err
}

// Whatever write fails, before or after it was performed, and whichever step is
// asked for twice: repeating the steps ends the Run once, with every Node counted
// once and the same results.
//
// covers: U5
func TestRepeatedStepsCountOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		store := &flaky{w.store, rapid.SliceOfN(rapid.IntRange(0, 2), 0, 12).Draw(rt, "faults")}
		runRef := w.started()
		w.runs.Store = store
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
		var stages []run.StageKind
		again(func() (err error) { stages, err = w.runs.Prepare(t.Context(), runRef, "arn"); return err })
		for stage := range stages {
			again(func() error { _, err := w.runs.Stage(t.Context(), runRef, stage); return err })
		}
		again(func() error { _, err := w.runs.Finish(t.Context(), runRef, run.Ending{}); return err })
		report := w.get(runRef)
		if report.State != run.Succeeded || report.Progress.Completed != report.Progress.Total {
			rt.Fatalf("got %+v", report)
		}
	})
}

// covers: U1
func TestConcurrentStartsOfOneCommandAreOneRun(t *testing.T) {
	w := newWorld(t)
	w.runs.NewRef = func(prefix string) string {
		return prefix + strings.Repeat("0", 12) + fmt.Sprintf("%014d", time.Now().UnixNano()%1e14)
	}
	var mu sync.Mutex
	var refs []string
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			answer, findings, err := w.runs.Start(t.Context(), w.request("c1"))
			if findings != nil || err != nil {
				t.Error(findings, err)
			}
			mu.Lock()
			defer mu.Unlock()
			refs = append(refs, string(answer))
		})
	}
	group.Wait()
	slices.Sort(refs)
	if refs = slices.Compact(refs); len(refs) != 1 || w.executions.started != 1 {
		t.Fatalf("%d runs, %d executions", len(refs), w.executions.started)
	}
}

func TestAnExecutionThatDoesNotOwnTheRunIsTurnedAway(t *testing.T) {
	w := newWorld(t)
	runRef := w.started()
	if _, err := w.runs.Prepare(t.Context(), runRef, "arn:one"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runs.Prepare(t.Context(), runRef, "arn:two"); !errors.Is(err, run.ErrForeign) {
		t.Fatal(err)
	}
}
