package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/repetition"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

// rounds is a state machine service that only remembers.
type rounds struct {
	mu       sync.Mutex
	fail     error
	states   map[string]run.Execution // by name or ARN
	children map[string]run.Execution
}

func (r *rounds) Start(_ context.Context, _ target.Project, batchRef string, round int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	if name := fmt.Sprint(batchRef, round); r.states[name] == "" {
		r.states[name] = run.ExecutionRunning
	}
	return nil
}

func (r *rounds) Look(_ context.Context, batchRef string, round int) (run.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[fmt.Sprint(batchRef, round)]; s != "" {
		return s, nil
	}
	return run.ExecutionAbsent, nil
}

func (r *rounds) LookChild(_ context.Context, arn string) (run.Execution, error) {
	return r.children[arn], nil
}
func (r *rounds) StopChild(_ context.Context, arn string) error {
	r.children[arn] = run.ExecutionEnded
	return nil
}

// lines is a bucket.
type lines map[string][]byte

func (l lines) Put(_ context.Context, name string, body []byte) error {
	l[name] = bytes.Clone(body)
	return nil
}

func (l lines) Get(_ context.Context, name string) ([]byte, error) {
	body, ok := l[name]
	if !ok {
		return nil, history.ErrNotFound
	}
	return body, nil
}

var errBroken = errors.New("the connection broke")

// lossy breaks one write: before it is performed or after.
type lossy struct {
	*memory.Store
	left  int // writes until the one that breaks; negative: none does
	after bool
	broke bool
}

func (f *lossy) write(perform func() error) error {
	f.left--
	if f.left != -1 {
		return perform()
	}
	f.broke = true
	if f.after {
		if err := perform(); err != nil {
			return err
		}
	}
	return errBroken
}

func (f *lossy) Replace(ctx context.Context, row run.Row) error {
	return f.write(func() error { return f.Store.Replace(ctx, row) })
}
func (f *lossy) Finish(ctx context.Context, q run.Finish) error {
	return f.write(func() error { return f.Store.Finish(ctx, q) })
}
func (f *lossy) CreateChild(ctx context.Context, row run.Row, end *run.CaseRow) error {
	return f.write(func() error { return f.Store.CreateChild(ctx, row, end) })
}
func (f *lossy) ReplaceBatch(ctx context.Context, row run.BatchRow, settle *run.Settle) error {
	return f.write(func() error { return f.Store.ReplaceBatch(ctx, row, settle) })
}
func (f *lossy) SaveStage(ctx context.Context, runRef string, stage int, result history.Ref) (stored history.Ref, err error) {
	err = f.write(func() error { stored, err = f.Store.SaveStage(ctx, runRef, stage, result); return err })
	return stored, err
}

// batchWorld has the sample Report saved and connected, too.
type batchWorld struct {
	*world
	flaky   *lossy
	rounds  *rounds
	lines   lines
	batches *run.Batches
	of      target.Report
}

func newBatchWorld(t testing.TB) *batchWorld {
	w := &batchWorld{world: newWorld(t), rounds: &rounds{states: map[string]run.Execution{}, children: map[string]run.Execution{}}, lines: lines{}}
	w.flaky = &lossy{Store: w.store, left: -1}
	w.runs.Store = w.flaky
	reader := snapshot.Reader{Objects: w.store, Store: w.store, Catalog: w.runs.Catalog}
	w.batches = &run.Batches{Runs: &w.runs, Store: w.flaky, Lines: w.lines, Rounds: w.rounds, Repeat: repetition.New(reader)}
	w.runs.Batch = w.batches

	text, err := os.ReadFile("../../infra/sample/girder_review.pxreport")
	must(t, err)
	doc, findings := report.Decode(text)
	if findings.Refused() {
		t.Fatal(findings)
	}
	flowTarget := target.Flow{Scope: bridge.Scope(), FlowKey: "girder_check", RevisionRef: w.revision}
	var commands []report.Command
	for _, key := range []string{"span", "dead_load", "impact", "section_modulus", "yield_stress"} {
		commands = append(commands, report.SetReportFlowInputSource{ConnectionKey: "girder_check", MappingKey: key + "_input", FlowTarget: flowTarget, PortKey: key,
			Source: report.ReportValue{BlockKey: "design_basis", FieldKey: key}})
	}
	for _, key := range []string{"live_moment", "utilization"} {
		commands = append(commands, report.SetReportFlowResultTarget{ConnectionKey: "girder_check", MappingKey: key + "_result", PortKey: key,
			Target: report.ReportResultSlot{BlockKey: "check_summary", SlotKey: key}})
	}
	next, _, findings := report.Apply(&doc, commands)
	if findings.Refused() {
		t.Fatal(findings)
	}
	document, err := canon.Encode(next)
	must(t, err)
	w.of = target.Report{Scope: bridge.Scope(), ReportKey: "girder_review", RevisionRef: string(history.RefOf(document))}
	plan := w.planned(change.Draft{Tool: "report_plan_change", Project: bridge, Target: canon.Raw(`{}`), Subject: policy.OnReport, Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`),
		Changes: []change.Change{{Kind: "report", Key: "girder_review", Entry: history.Entry{RevisionRef: history.RefOf(document)}, Document: document}}})
	applier := change.Applier{Objects: w.store, Store: w.store, Policy: w.store, Catalog: w.runs.Catalog, Now: w.runs.Now}
	_, findings, err = applier.Apply(t.Context(), change.Application{Author: change.Author{Principal: engineer}, Tool: "report_plan_change", Project: bridge,
		Target: canon.Raw(`{}`), Address: "report/girder_review", PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: "seed"})
	must(t, err)
	if findings != nil {
		t.Fatal(findings)
	}
	return w
}

func (w *batchWorld) planned(d change.Draft) change.Plan {
	w.t.Helper()
	planner := change.Planner{Objects: w.store, Store: w.store, Now: w.runs.Now, NewRef: w.runs.NewRef}
	plan, findings, err := planner.Plan(w.t.Context(), change.Author{Principal: engineer}, d)
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return plan
}

// plan plans a Batch over spans from 40 ft on.
func (w *batchWorld) plan(n int, merge batch.Merge) change.Plan {
	w.t.Helper()
	command := batch.RunReportFlowBatch{ConnectionKey: "girder_check", Merge: merge}
	for i := range n {
		command.Cases = append(command.Cases, batch.Case{CaseKey: fmt.Sprintf("span_%d", 40+i), Inputs: map[string]canon.Raw{"span": canon.Raw(fmt.Sprintf(`{"unit":"ft","value":%d}`, 40+i))}})
	}
	commands, err := canon.EncodeEach([]batch.RunReportFlowBatch{command})
	must(w.t, err)
	at, err := canon.Encode(w.of)
	must(w.t, err)
	return w.planned(change.Draft{Tool: "report_plan_change", Project: bridge, Target: at, Base: change.Base{RevisionRef: w.of.RevisionRef}, Commands: commands, Unlabelled: commands,
		Subject: policy.OnBatch, Kinds: []string{"RunReportFlowBatch"}, Cost: int64(10 * n), Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`)})
}

func (w *batchWorld) request(p change.Plan, commandID string) run.BatchRequest {
	return run.BatchRequest{Principal: engineer, Target: w.of, Project: bridge, PlanRef: p.PlanRef, PlanDigest: p.PlanDigest, CommandID: commandID, Digest: "sha256:request"}
}

func (w *batchWorld) begin(p change.Plan, commandID string) run.BatchStarted {
	w.t.Helper()
	text, findings, err := w.batches.Start(w.t.Context(), w.request(p, commandID))
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	var s run.BatchStarted
	must(w.t, json.Unmarshal(text, &s))
	return s
}

// insist repeats a step as a state machine does.
func insist(t testing.TB, step func() error) {
	t.Helper()
	for range 3 {
		err := step()
		if err == nil {
			return
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	t.Fatal("a step goes on failing")
}

// orders are the cases that a round runs.
func (w *batchWorld) orders(batchRef string, round int) []run.Order {
	w.t.Helper()
	var prepared run.PreparedRound
	insist(w.t, func() (err error) { prepared, err = w.batches.PrepareRound(w.t.Context(), batchRef, round); return err })
	if prepared.Cases == 0 {
		return nil
	}
	var out []run.Order
	for line := range bytes.Lines(w.lines[prepared.Lines]) {
		var o run.Order
		must(w.t, json.Unmarshal(line, &o))
		out = append(out, o)
	}
	if len(out) != prepared.Cases {
		w.t.Fatalf("%d lines for %d cases", len(out), prepared.Cases)
	}
	return out
}

// child does what the execution of one case does.
func (w *batchWorld) child(o run.Order, end run.Ending) {
	w.t.Helper()
	ctx, stages := w.t.Context(), []run.StageKind(nil)
	insist(w.t, func() (err error) { stages, err = w.batches.PrepareChild(ctx, o, "arn:"+o.RunRef); return err })
	if end.Error == "" {
		for stage := range stages {
			goOn := false
			insist(w.t, func() (err error) { goOn, err = w.runs.Stage(ctx, o.RunRef, stage); return err })
			if !goOn {
				break
			}
		}
	}
	insist(w.t, func() error { _, err := w.runs.Finish(ctx, o.RunRef, end); return err })
}

// round does what the execution of a round does, and returns how the Batch stands.
func (w *batchWorld) round(batchRef string, round int, fails ...string) run.State {
	w.t.Helper()
	for _, o := range w.orders(batchRef, round) {
		end := run.Ending{}
		if slices.Contains(fails, o.Case.CaseKey) {
			end.Error = "px.Broken"
		}
		w.child(o, end)
	}
	var state run.State
	insist(w.t, func() (err error) {
		state, err = w.batches.EndRound(w.t.Context(), batchRef, round, run.Ending{})
		return err
	})
	return state
}

func (w *batchWorld) told(batchRef string) run.BatchReport {
	w.t.Helper()
	r, findings, err := w.batches.Get(w.t.Context(), engineer, batchRef, 0)
	must(w.t, err)
	if findings != nil {
		w.t.Fatal(findings)
	}
	return r
}

func (w *batchWorld) projection() run.Projection {
	w.t.Helper()
	all, err := w.store.Projections(w.t.Context(), bridge, "girder_review")
	must(w.t, err)
	return all["girder_check"]
}

func (w *batchWorld) shown() []run.ShownSlot {
	w.t.Helper()
	p := w.projection()
	if p.Shown == nil {
		return nil
	}
	bodies, err := w.store.Get(w.t.Context(), history.Space(bridge.String()), p.Shown.Slots)
	must(w.t, err)
	var slots []run.ShownSlot
	must(w.t, json.Unmarshal(bodies[0], &slots))
	return slots
}

func codes(findings outcome.Findings) []string {
	var out []string
	for _, d := range findings {
		out = append(out, string(d.Code)+" "+d.Path)
	}
	return out
}

var overMoment = batch.Envelope{PortKeys: []string{"live_moment"}, By: batch.Max}

// covers: R5, R6
func TestAnEnvelopeShowsTheGoverningCaseAndOnlyItsOwnGeneration(t *testing.T) {
	w := newBatchWorld(t)
	first := w.begin(w.plan(3, overMoment), "first")
	second := w.begin(w.plan(2, overMoment), "second")
	if first.ProjectionIntentGeneration != 1 || second.ProjectionIntentGeneration != 2 {
		t.Fatalf("generations %d and %d", first.ProjectionIntentGeneration, second.ProjectionIntentGeneration)
	}
	if state := w.round(second.BatchRef, 0); state != run.Succeeded {
		t.Fatal(state)
	}
	slots := w.shown()
	if len(slots) != 2 || slots[0].CaseKey != "span_41" || slots[0].RunRef != batch.ChildRunRef(second.BatchRef, "span_41", 0) || slots[0].Basis == "" || slots[0].Result == nil || slots[0].Result.Value == nil {
		t.Errorf("shown are %+v", slots)
	}
	before := w.projection()
	// The one before ends late: it is history, with results of its own.
	if state := w.round(first.BatchRef, 0); state != run.Succeeded {
		t.Fatal(state)
	}
	if after := w.projection(); after.Generation != 2 || after.Shown == nil || *after.Shown != *before.Shown {
		t.Errorf("a late Batch moved what is shown from %+v to %+v", before.Shown, after.Shown)
	}
	if r := w.told(first.BatchRef); r.State != run.Succeeded || len(r.Results) != 3 {
		t.Errorf("the late Batch is %+v", r)
	}
}

// Every write of every step is lost once, before it is done and after: the Batch
// ends the same, each case counted once.
//
// covers: R6, U5
func TestABatchEndsTheSameWhateverWriteIsLost(t *testing.T) {
	want := ""
	writes := 0
	for broken := -1; broken < max(writes, 1); broken++ {
		for _, after := range []bool{false, true} {
			w := newBatchWorld(t)
			s := w.begin(w.plan(3, overMoment), "c")
			w.flaky.left, w.flaky.after = 1<<30, after
			if broken >= 0 {
				w.flaky.left = broken
			}
			if state := w.round(s.BatchRef, 0); state != run.Succeeded {
				t.Fatalf("write %d (after: %v): %s", broken, after, state)
			}
			if broken < 0 {
				writes = 1<<30 - w.flaky.left
			} else if !w.flaky.broke {
				t.Errorf("write %d of %d did not break", broken, writes)
			}
			r := w.told(s.BatchRef)
			var values []string
			for _, key := range []string{"governing", "live_moment", "utilization"} {
				result, findings, err := w.batches.Result(t.Context(), engineer, s.BatchRef, key)
				must(t, err)
				if findings != nil {
					t.Fatal(codes(findings))
				}
				values = append(values, string(result.Value))
			}
			slots, err := canon.Encode(w.shown())
			must(t, err)
			got := fmt.Sprint(r.State, r.Tally, r.Cases, values, string(slots))
			if want == "" {
				want = got
			} else if got != want {
				t.Errorf("write %d (after: %v):\n%s\nnot\n%s", broken, after, got, want)
			}
		}
	}
	if writes < 10 {
		t.Errorf("only %d writes were lost", writes)
	}
}

// covers: R6
func TestAFailedCaseFailsTheBatchUntilItsRetrySucceeds(t *testing.T) {
	w := newBatchWorld(t)
	ctx := t.Context()
	s := w.begin(w.plan(4, overMoment), "c")
	retry := func(key, commandID string) (run.BatchStarted, outcome.Findings) {
		text, findings, err := w.batches.Retry(ctx, run.RetryRequest{Principal: engineer, Target: w.of, Project: bridge, BatchRef: s.BatchRef, CaseKey: key, CommandID: commandID, Digest: "sha256:" + key})
		must(t, err)
		var started run.BatchStarted
		if findings == nil {
			must(t, json.Unmarshal(text, &started))
		}
		return started, findings
	}
	if _, findings := retry("span_41", "early"); !slices.Equal(codes(findings), []string{"PX_CASE_ACTIVE /caseKey"}) {
		t.Errorf("before it began: %v", codes(findings))
	}
	orders := w.orders(s.BatchRef, 0)
	w.child(orders[1], run.Ending{Error: "px.Broken"})
	// One case has failed, the others still run: it alone is repeated meanwhile.
	again, findings := retry("span_41", "again")
	if findings != nil {
		t.Fatal(codes(findings))
	}
	if _, findings := retry("span_41", "more"); !slices.Equal(codes(findings), []string{"PX_CASE_ACTIVE /caseKey"}) {
		t.Errorf("while its retry runs: %v", codes(findings))
	}
	if _, findings := retry("span_40", "again"); !slices.Equal(codes(findings), []string{"PX_COMMAND_REUSED /commandId"}) {
		t.Errorf("a command for another case: %v", codes(findings))
	}
	if same, _ := retry("span_41", "again"); same != again {
		t.Errorf("the same command is %+v, then %+v", again, same)
	}
	w.child(orders[0], run.Ending{})
	w.child(orders[2], run.Ending{})
	w.child(orders[3], run.Ending{Error: "px.Broken"})
	// The first round is over and the retry is not: nothing ends yet.
	if state, err := w.batches.EndRound(ctx, s.BatchRef, 0, run.Ending{}); err != nil || state != run.Running {
		t.Errorf("with a retry under way the Batch is %s, %v", state, err)
	}
	if state := w.round(s.BatchRef, 1); state != run.Failed {
		t.Fatalf("with a failed case the Batch is %s", state)
	}
	r := w.told(s.BatchRef)
	if len(r.Results) != 0 || len(r.Diagnostics) != 1 || r.Diagnostics[0].Path != "/cases/3" || r.Diagnostics[0].Params["caseKey"] != "span_43" || r.Tally != (run.Tally{Ended: 4, Failed: 1}) {
		t.Errorf("told %+v", r)
	}
	if p := w.projection(); p.Shown == nil || p.Shown.State != run.Failed || w.shown()[0].Result != nil {
		t.Errorf("shown is %+v", p.Shown)
	}
	last, findings := retry("span_43", "last")
	if findings != nil || last.RunRef != batch.ChildRunRef(s.BatchRef, "span_43", 1) {
		t.Fatal(last, codes(findings))
	}
	if r := w.told(s.BatchRef); r.State != run.Running || r.Cases[3].RunRef != last.RunRef || r.Cases[3].State != run.Queued || r.Tally.Ended != 3 {
		t.Errorf("retried %+v", r)
	}
	// What is shown stays, and what comes next is under way again.
	if p := w.projection(); p.Ended != "" || p.Shown == nil || p.Shown.State != run.Failed {
		t.Errorf("while a case is retried the projection is %+v", p)
	}
	if state := w.round(s.BatchRef, 2); state != run.Succeeded {
		t.Fatalf("after the retry the Batch is %s", state)
	}
	r = w.told(s.BatchRef)
	if r.Cases[0].RunRef != orders[0].RunRef || r.Cases[1].RunRef != again.RunRef || r.Cases[3].RunRef != last.RunRef || w.shown()[0].CaseKey != "span_43" || w.shown()[0].RunRef != last.RunRef {
		t.Errorf("after the retry %+v shows %+v", r.Cases, w.shown())
	}
	// The child before is as it was: history.
	if old, _, err := w.runs.Get(ctx, engineer, orders[3].RunRef); err != nil || old.State != run.Failed {
		t.Errorf("the child before is %+v, %v", old, err)
	}
}

// Who approves a retry is told that it is one, and of which case.
//
// covers: U6
func TestARetryThatWaitsIsAskedForAsARetry(t *testing.T) {
	w := newBatchWorld(t)
	ctx := t.Context()
	s := w.begin(w.plan(2, batch.None{}), "c")
	for _, o := range w.orders(s.BatchRef, 0) {
		w.child(o, run.Ending{Error: "px.Broken"})
	}
	w.round(s.BatchRef, 0)
	q := run.RetryRequest{Principal: engineer, Target: w.of, Project: bridge, BatchRef: s.BatchRef, CaseKey: "span_41", CommandID: "again", Digest: "sha256:again"}
	// A rule for ordinary Runs is none for retries.
	must(t, w.projects.SetPolicy(ctx, bridge, []policy.Rule{{On: policy.OnRun, Kinds: []string{"RetryBatchCase"}, Approval: "required"}}))
	_, findings, err := w.batches.Retry(ctx, q)
	must(t, err)
	if got := codes(findings); !slices.Equal(got, []string{"PX_APPROVAL_REQUIRED /approvalRef"}) {
		t.Fatalf("told %v", got)
	}
	runRef := batch.ChildRunRef(s.BatchRef, "span_41", 1)
	if findings[0].Params["runRef"] != runRef {
		t.Errorf("told %v", findings[0].Params)
	}
	opening, err := w.store.Begin(ctx, bridge, engineer, "", runRef)
	must(t, err)
	bodies, err := w.store.Get(ctx, history.Space(bridge.String()), opening.Plan.Body)
	must(t, err)
	var ask run.Ask
	must(t, json.Unmarshal(bodies[0], &ask))
	if ask.Kind != "RetryBatchCase" || ask.RunRef != runRef || ask.BatchRef != s.BatchRef || ask.CaseKey != "span_41" || ask.RequestDigest != q.Digest || ask.Cost < 1 {
		t.Errorf("asked is %+v", ask)
	}
	must(t, w.projects.SetPolicy(ctx, bridge, []policy.Rule{{On: policy.OnRun, Kinds: []string{"RunFlow"}, Approval: "required"}}))
	q.CommandID = "free"
	if _, findings, err := w.batches.Retry(ctx, q); findings != nil || err != nil {
		t.Errorf("where policy asks of RunFlow alone: %v %v", codes(findings), err)
	}
}

// covers: U2
func TestACancelledBatchRunsNothingMore(t *testing.T) {
	w := newBatchWorld(t)
	ctx := t.Context()
	s := w.begin(w.plan(4, overMoment), "c")
	orders := w.orders(s.BatchRef, 0)
	w.child(orders[0], run.Ending{})
	stages, err := w.batches.PrepareChild(ctx, orders[1], "arn:1") // it runs when the Batch is cancelled
	must(t, err)
	if len(stages) == 0 {
		t.Fatal("a child without a stage")
	}
	state, findings, err := w.batches.Cancel(ctx, run.Cancellation{Principal: engineer, RunRef: s.BatchRef, CommandID: "stop"})
	if findings != nil || err != nil || state.State != run.Cancelling {
		t.Fatal(state, findings, err)
	}
	if goOn, err := w.runs.Stage(ctx, orders[1].RunRef, 0); goOn || err != nil {
		t.Errorf("a child of a cancelled Batch goes on: %v", err)
	}
	_, err = w.runs.Finish(ctx, orders[1].RunRef, run.Ending{})
	must(t, err)
	if stages, err := w.batches.PrepareChild(ctx, orders[2], "arn:2"); len(stages) != 0 || err != nil {
		t.Errorf("a child is begun in a cancelled Batch: %d stages, %v", len(stages), err)
	}
	if state, err := w.batches.EndRound(ctx, s.BatchRef, 0, run.Ending{}); err != nil || state != run.Cancelled {
		t.Errorf("ended %s, %v", state, err)
	}
	r := w.told(s.BatchRef)
	for i, want := range []run.State{run.Succeeded, run.Cancelled, run.Cancelled, run.Cancelled} {
		if r.Cases[i].State != want {
			t.Errorf("case %d is %s, not %s", i, r.Cases[i].State, want)
		}
	}
	if p := w.projection(); p.Shown != nil || p.Ended != run.Cancelled {
		t.Errorf("a cancelled Batch shows %+v", p)
	}
	// It stays cancelled: no case of it is given another child, not even one that ended
	// well before.
	for _, key := range []string{"span_40", "span_42"} {
		_, findings, err := w.batches.Retry(ctx, run.RetryRequest{Principal: engineer, Target: w.of, Project: bridge, BatchRef: s.BatchRef, CaseKey: key, CommandID: key, Digest: "sha256:r"})
		must(t, err)
		if got := codes(findings); len(got) != 1 || got[0] != "PX_PLAN_EXPIRED /batchRef" {
			t.Errorf("a retry of %s is answered %v", key, got)
		}
	}
	if r := w.told(s.BatchRef); r.State != run.Cancelled {
		t.Errorf("after the retries it is %s", r.State)
	}
	// Another revision than the Batch's own is told by the right one.
	other := w.of
	other.RevisionRef = "sha256:" + strings.Repeat("0", 64)
	_, findings, err = w.batches.Retry(ctx, run.RetryRequest{Principal: engineer, Target: other, Project: bridge, BatchRef: s.BatchRef, CaseKey: "span_40", CommandID: "o", Digest: "sha256:o"})
	must(t, err)
	if len(findings) != 1 || findings[0].Code != "PX_TARGET_NOT_FOUND" || findings[0].Path != "/target/revisionRef" || findings[0].Params["revisionRef"] != w.of.RevisionRef {
		t.Errorf("a retry at another revision is answered %v", findings)
	}
	// One that is prepared after all that runs nothing, and counts nowhere.
	if stages, err := w.batches.PrepareChild(ctx, orders[3], "arn:3"); len(stages) != 0 || err != nil {
		t.Errorf("%d stages, %v", len(stages), err)
	}
	if again := w.told(s.BatchRef); again.Tally != r.Tally {
		t.Errorf("counted %+v, then %+v", r.Tally, again.Tally)
	}
}

// covers: U5
func TestTheTickRescuesABatch(t *testing.T) {
	tick := func(w *batchWorld) {
		w.t.Helper()
		w.now = w.now.Add(10 * time.Minute)
		for range 3 {
			if _, err := w.runs.Tick(w.t.Context(), 100); err != nil {
				w.t.Fatal(err)
			}
			w.now = w.now.Add(10 * time.Minute)
		}
	}
	t.Run("an execution that was not started is", func(t *testing.T) {
		w := newBatchWorld(t)
		w.rounds.fail = errBroken
		s := w.begin(w.plan(2, overMoment), "c")
		w.rounds.fail = nil
		tick(w)
		if state, _ := w.rounds.Look(t.Context(), s.BatchRef, 0); state != run.ExecutionRunning {
			t.Errorf("it is %s", state)
		}
	})
	t.Run("one that was cancelled before it began ends so", func(t *testing.T) {
		w := newBatchWorld(t)
		w.rounds.fail = errBroken
		s := w.begin(w.plan(2, overMoment), "c")
		_, _, err := w.batches.Cancel(t.Context(), run.Cancellation{Principal: engineer, RunRef: s.BatchRef, CommandID: "x"})
		must(t, err)
		tick(w)
		if r := w.told(s.BatchRef); r.State != run.Cancelled {
			t.Errorf("it is %s", r.State)
		}
	})
	t.Run("one whose execution died ends after its children", func(t *testing.T) {
		w := newBatchWorld(t)
		s := w.begin(w.plan(3, overMoment), "c")
		orders := w.orders(s.BatchRef, 0)
		w.child(orders[0], run.Ending{})
		_, err := w.batches.PrepareChild(t.Context(), orders[1], "arn:1")
		must(t, err)
		w.rounds.states[fmt.Sprint(s.BatchRef, 0)] = run.ExecutionEnded
		w.rounds.children["arn:1"] = run.ExecutionRunning
		tick(w)
		if r := w.told(s.BatchRef); r.State != run.Running {
			t.Fatalf("with a child that runs it is %s", r.State)
		}
		w.rounds.children["arn:1"] = run.ExecutionEnded
		tick(w)
		r := w.told(s.BatchRef)
		if r.State != run.Failed || r.Cases[0].State != run.Succeeded || r.Cases[1].State != run.Failed || r.Cases[2].State != run.Cancelled || len(r.Diagnostics) != 2 {
			t.Errorf("it is %+v", r)
		}
		// The case that never began can be asked for again.
		_, findings, err := w.batches.Retry(t.Context(), run.RetryRequest{Principal: engineer, Target: w.of, Project: bridge, BatchRef: s.BatchRef, CaseKey: "span_42", CommandID: "r", Digest: "sha256:r"})
		must(t, err)
		if findings != nil {
			t.Fatal(codes(findings))
		}
		w.round(s.BatchRef, 1)
		if r := w.told(s.BatchRef); r.State != run.Failed || r.Cases[2].State != run.Succeeded {
			t.Errorf("after the retry it is %+v", r)
		}
	})
}

// Whatever a start is refused for, nothing is stored; of many that use one plan at
// once, one Batch comes of it.
//
// covers: R5, R6
func TestAPlanStartsOneBatchAndARefusalNone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*batchWorld, *run.BatchRequest)
		want string
	}{
		"another digest": {func(_ *batchWorld, q *run.BatchRequest) { q.PlanDigest = "sha256:0" }, "PX_PLAN_MISMATCH /planDigest"},
		"no such plan":   {func(_ *batchWorld, q *run.BatchRequest) { q.PlanRef = "plan_0" }, "PX_PLAN_NOT_FOUND /planRef"},
		"another's plan": {func(w *batchWorld, q *run.BatchRequest) {
			q.Principal = "https://issuer|other"
			w.grant(q.Principal, policy.Read, policy.Run)
		}, "PX_PLAN_NOT_FOUND /planRef"},
		"an expired plan": {func(w *batchWorld, _ *run.BatchRequest) { w.now = w.now.Add(change.DefaultPlanLife) }, "PX_PLAN_EXPIRED /planRef"},
		"a used plan": {func(w *batchWorld, q *run.BatchRequest) {
			w.begin(change.Plan{PlanRef: q.PlanRef, PlanDigest: q.PlanDigest}, "before")
		}, "PX_PLAN_EXPIRED /planRef"},
		"no right to run": {func(w *batchWorld, _ *run.BatchRequest) { w.grant(engineer, policy.Read, policy.Edit) }, "PX_PERMISSION_DENIED /target/scope"},
		"a policy that wants consent": {func(w *batchWorld, _ *run.BatchRequest) {
			must(w.t, w.projects.SetPolicy(w.t.Context(), bridge, []policy.Rule{{On: policy.OnBatch, Approval: "required"}}))
		}, "PX_APPROVAL_REQUIRED /approvalRef"},
		"another revision": {func(_ *batchWorld, q *run.BatchRequest) { q.Target.RevisionRef = "sha256:0" }, "PX_TARGET_NOT_FOUND /target/revisionRef"},
	} {
		w := newBatchWorld(t)
		p := w.plan(2, batch.None{})
		q := w.request(p, "c")
		c.edit(w, &q)
		before := w.projection()
		_, findings, err := w.batches.Start(t.Context(), q)
		must(t, err)
		if got := codes(findings); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %v", name, got)
		}
		if after := w.projection(); after.Generation != before.Generation {
			t.Errorf("%s: a refusal took a generation", name)
		}
	}
	w := newBatchWorld(t)
	p := w.plan(2, batch.None{})
	var wait sync.WaitGroup
	refs := make([]string, 8)
	var mu sync.Mutex
	newRef := w.runs.NewRef
	w.runs.NewRef = func(prefix string) string { mu.Lock(); defer mu.Unlock(); return newRef(prefix) }
	w.batches.Lines = &guarded{lines: w.lines}
	for i := range refs {
		wait.Go(func() {
			text, _, err := w.batches.Start(t.Context(), w.request(p, "one"))
			if err != nil {
				t.Error(err)
				return
			}
			var s run.BatchStarted
			if err := json.Unmarshal(text, &s); err != nil {
				t.Error(err)
			}
			refs[i] = s.BatchRef
		})
	}
	wait.Wait()
	if len(slices.Compact(refs)) != 1 || refs[0] == "" || w.projection().Generation != 1 {
		t.Errorf("one command gave %v, generation %d", refs, w.projection().Generation)
	}
}

// guarded is lines for several at once.
type guarded struct {
	mu sync.Mutex
	lines
}

func (g *guarded) Put(ctx context.Context, name string, body []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines.Put(ctx, name, body)
}

// What a state machine would read must be what was written.
func TestAlteredCasesAreNotRun(t *testing.T) {
	w := newBatchWorld(t)
	s := w.begin(w.plan(2, batch.None{}), "c")
	for name, body := range w.lines {
		w.lines[name] = bytes.Replace(body, []byte("40"), []byte("50"), 1)
	}
	if _, err := w.batches.PrepareRound(t.Context(), s.BatchRef, 0); !errors.Is(err, history.ErrCorrupt) {
		t.Errorf("altered cases: %v", err)
	}
}
