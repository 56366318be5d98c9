package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A PreparedRound tells a state machine what to run.
type PreparedRound struct {
	Cases int    `json:"cases"` // 0: nothing is to be run
	Lines string `json:"lines"` // the name of the object that holds them, a line a case
}

// PrepareRound claims a round for its execution and tells its cases; none of a
// Batch that is over or being cancelled. Asking again gives the same answer.
func (b *Batches) PrepareRound(ctx context.Context, batchRef string, round int) (PreparedRound, error) {
	for attempt := 0; ; attempt++ {
		row, err := b.Store.Batch(ctx, batchRef)
		if err != nil {
			return PreparedRound{}, err
		}
		at := slices.IndexFunc(row.Open, func(o OpenRound) bool { return o.Round == round })
		if row.State.Terminal() || at < 0 {
			return PreparedRound{}, nil
		}
		open := row.Open[at]
		// What the state machine is about to read is what was written.
		if _, err := b.read(ctx, row, open.Lines); err != nil {
			return PreparedRound{}, err
		}
		prepared := PreparedRound{open.Count, linesName(row.Project, batchRef, open.Lines)}
		if row.State == Cancelling {
			prepared = PreparedRound{}
		}
		if row.Claimed && row.State != Queued {
			return prepared, nil
		}
		now := b.Runs.Now().UTC()
		row.Claimed = true
		if row.State == Queued {
			row.State, row.StartedAt = Running, now
		}
		row.DueAt = b.Runs.dueIn(now, moveWithin)
		if err := b.Store.ReplaceBatch(ctx, row, nil); !errors.Is(err, ErrMoved) || attempt == 16 {
			return prepared, err
		}
	}
}

// PrepareChild creates the child Run of an order, if it is not there, and claims it
// for an execution, as Prepare does. A child of a Batch that is being cancelled, or of
// an attempt that is no longer current, is created Cancelled and runs nothing.
func (b *Batches) PrepareChild(ctx context.Context, o Order, execution string) (stages []StageKind, err error) {
	for range 4 {
		stages, err := b.Runs.Prepare(ctx, o.RunRef, execution)
		if !errors.Is(err, history.ErrNotFound) {
			return stages, err
		}
		row, err := b.Store.Batch(ctx, o.Case.BatchRef)
		if err != nil {
			return nil, err
		}
		if o.RunRef != batch.ChildRunRef(row.BatchRef, o.Case.CaseKey, o.Case.Attempt) || o.Case.Index < 0 || o.Case.Index >= row.Count {
			return nil, fmt.Errorf("run: %s is no child of case %s of %s", o.RunRef, o.Case.CaseKey, row.BatchRef)
		}
		current, err := b.current(ctx, row, o.Case.Index)
		if err != nil {
			return nil, err
		}
		now := b.Runs.Now().UTC()
		child := Row{
			RunRef: o.RunRef, Project: row.Project, FlowKey: row.FlowKey, RevisionRef: row.RevisionRef, Principal: row.Principal, RequestDigest: row.RequestDigest, Pins: row.Pins,
			Part:  Part{BatchRef: row.BatchRef, CaseKey: o.Case.CaseKey, Index: o.Case.Index, Attempt: o.Case.Attempt},
			State: Running, ExecutionArn: execution, Stages: row.Stages, Sandbox: row.Sandbox, Total: row.Nodes, CreatedAt: now, StartedAt: now, DueAt: b.Runs.dueIn(now, moveWithin),
		}
		if child.Inputs, err = b.payload(ctx, row, o.Case); err != nil {
			return nil, err
		}
		var end *CaseRow
		mine := current == nil && o.Case.Attempt == 0 || current != nil && current.Attempt == o.Case.Attempt && current.State == Queued
		if !mine || row.State == Cancelling || row.State.Terminal() {
			child.State, child.EndedAt, child.DueAt = Cancelled, now, time.Time{}
			if row.Cancelled != nil {
				by := *row.Cancelled
				child.Cancelled = &by
			}
			if mine && !row.State.Terminal() {
				end = endedCase(child, "", "")
			}
		}
		var superseded *SupersededError
		err = b.Store.CreateChild(ctx, child, end)
		switch {
		case err == nil && child.State == Running:
			return child.kinds(), nil
		case err == nil:
			return nil, nil
		case !errors.Is(err, ErrMoved) && !errors.As(err, &superseded):
			return nil, err
		}
		// Another attempt of this very call, or a retry, was first: look again.
	}
	return nil, ErrBusy
}

// payload stores the inputs of a child: what its case sets over what the connection
// gives.
func (b *Batches) payload(ctx context.Context, row BatchRow, o CaseOrder) (history.Ref, error) {
	var given, set map[string]canon.Raw
	if err := b.object(ctx, row, row.Given, &given); err != nil {
		return "", err
	}
	if o.InputsRef != "" {
		if err := b.object(ctx, row, history.Ref(o.InputsRef), &set); err != nil {
			return "", err
		}
	} else if err := json.Unmarshal([]byte(o.Inputs), &set); err != nil {
		return "", fmt.Errorf("run: the inputs of case %s: %w", o.CaseKey, err)
	}
	text, err := canon.Encode(batch.Payload(given, set))
	if err != nil {
		return "", err
	}
	return history.RefOf(text), b.Runs.Objects.Put(ctx, row.Space(), text)
}

// endedCase is the row of a case that ends with its child.
func endedCase(child Row, values string, results history.Ref) *CaseRow {
	p := child.Part
	return &CaseRow{BatchRef: p.BatchRef, CaseKey: p.CaseKey, Index: p.Index, Attempt: p.Attempt, RunRef: child.RunRef, State: child.State, EndedAt: child.EndedAt, Values: values, Results: results}
}

// mergeRead is how many cases the merge reads at once.
const mergeRead = 1000

// EndRound is told that the execution of a round is over, by itself or because of
// an error; round -1 stands for none. If no case is left that runs or may still be
// begun, it ends the Batch: with the merge of all cases where all succeeded, Failed
// where one did not, Cancelled where somebody asked for it. Else it leaves: a later
// round, or the minute tick, comes here again.
//
// It reads the row first and writes it last, on condition that it did not move, so
// that a retry which comes in between is never merged away.
func (b *Batches) EndRound(ctx context.Context, batchRef string, round int, end Ending) (State, error) {
	for attempt := 0; ; attempt++ {
		row, err := b.Store.Batch(ctx, batchRef)
		if err != nil || row.State.Terminal() {
			return row.State, err
		}
		settle, err := b.ending(ctx, &row, round, end)
		if err == nil {
			err = b.Store.ReplaceBatch(ctx, row, settle)
			var late *SupersededError
			if errors.As(err, &late) { // a newer generation: this is history
				err = b.Store.ReplaceBatch(ctx, row, nil)
			}
		}
		if !errors.Is(err, ErrMoved) || attempt == 16 {
			return row.State, err
		}
	}
}

// ending changes the row to what it is after a round.
func (b *Batches) ending(ctx context.Context, row *BatchRow, round int, end Ending) (*Settle, error) {
	r, now := b.Runs, b.Runs.Now().UTC()
	row.Open = slices.DeleteFunc(slices.Clone(row.Open), func(o OpenRound) bool { return o.Round == round })
	row.DueAt = r.dueIn(now, moveWithin)
	tally, err := b.Store.Tally(ctx, row.BatchRef)
	if err != nil {
		return nil, err
	}
	if tally.Ended < row.Count && len(row.Open) > 0 {
		return nil, nil // another round is under way, and ends this
	}
	cases, active, err := b.cases(ctx, *row)
	if err != nil || active {
		// A child whose execution died is ended by the tick, and so is the Batch after it.
		row.DueAt = r.dueIn(now, startWithin)
		return nil, err
	}
	if len(cases) < row.Count && len(row.Open) > 0 {
		return nil, nil
	}
	slots, err := b.conclude(ctx, row, cases, end)
	if err != nil {
		return nil, err
	}
	row.Open, row.EndedAt, row.DueAt = []OpenRound{}, now, time.Time{}
	settle := &Settle{Connection: row.Connection(), Generation: row.Projecting.Generation, Ended: row.State}
	if slots != nil {
		text, err := canon.Encode(slots)
		if err != nil {
			return nil, err
		}
		if err := r.Objects.Put(ctx, row.Space(), text); err != nil {
			return nil, err
		}
		settle.Shown = &Shown{Generation: settle.Generation, Intent: Intent{IntentBatch, row.BatchRef}, State: row.State, Slots: history.RefOf(text), At: now}
	}
	return settle, nil
}

// cases returns the rows of all cases that ended, in order, and whether a child of
// another is under way.
func (b *Batches) cases(ctx context.Context, row BatchRow) (ended []CaseRow, active bool, err error) {
	var keys []string
	if err := b.object(ctx, row, row.Keys, &keys); err != nil {
		return nil, false, err
	}
	for first := 0; first < row.Count; first += mergeRead {
		part, children, err := b.part(ctx, row, keys, first)
		if err != nil {
			return nil, false, err
		}
		ended = append(ended, part...)
		active = active || len(children) > 0
	}
	return ended, active, nil
}

// part looks at the mergeRead cases from first on: it returns the rows of those that
// ended, in order, and the children that are under way.
func (b *Batches) part(ctx context.Context, row BatchRow, keys []string, first int) (ended []CaseRow, active []Row, err error) {
	end := min(first+mergeRead, row.Count)
	part, err := b.Store.Cases(ctx, row.BatchRef, first, end)
	if err != nil {
		return nil, nil, err
	}
	children := map[int]string{}
	for i := first; i < end; i++ {
		children[i] = batch.ChildRunRef(row.BatchRef, keys[i], 0)
	}
	for _, c := range part {
		if c.State.Terminal() {
			ended = append(ended, c)
			delete(children, c.Index)
		} else {
			children[c.Index] = c.RunRef
		}
	}
	if len(children) == 0 {
		return ended, nil, nil
	}
	rows, err := b.Store.Rows(ctx, slices.Collect(maps.Values(children)))
	if err != nil {
		return nil, nil, err
	}
	for _, child := range rows {
		if !child.State.Terminal() {
			active = append(active, child)
		}
	}
	return ended, active, nil
}

// halt stops the children of a Batch that is being cancelled which wait for a job.
// The others come to their next stage soon, and see it there. What cannot be done is
// done by the next request to cancel, or by the minute tick.
func (b *Batches) halt(ctx context.Context, row BatchRow) {
	if len(row.Sandbox) == 0 || b.Runs.Sandbox == nil {
		return
	}
	err := func() error {
		var keys []string
		if err := b.object(ctx, row, row.Keys, &keys); err != nil {
			return err
		}
		for first := 0; first < row.Count; first += mergeRead {
			_, active, err := b.part(ctx, row, keys, first)
			if err != nil {
				return err
			}
			for _, child := range active {
				if _, err := b.Runs.stopped(ctx, child); err != nil {
					return err
				}
				b.Runs.abandon(ctx, child)
			}
		}
		return nil
	}()
	if err != nil {
		slog.WarnContext(ctx, "the cases of a batch were not stopped", "batchRef", row.BatchRef, "error", err)
	}
}

// toldCases is how many cases the diagnostics of a Batch name.
const toldCases = 100

// conclude decides how the Batch ends and stores its results or diagnostics. It
// returns what the slots show from now on, nil where that stays as it is: an
// envelope alone shows anything.
func (b *Batches) conclude(ctx context.Context, row *BatchRow, cases []CaseRow, end Ending) ([]ShownSlot, error) {
	var merge MergeObject
	if err := b.object(ctx, *row, row.Merge, &merge); err != nil {
		return nil, err
	}
	shows := merge.Merge.Kind == batch.Envelope{}.Variant()
	if row.State == Cancelling {
		row.State = Cancelled
		return nil, nil
	}
	var findings outcome.Findings
	failed := 0
	for _, c := range cases {
		if c.State == Succeeded {
			continue
		}
		if failed++; failed <= toldCases {
			findings.Add(outcome.RunFailed, fmt.Sprintf("/cases/%d", c.Index), outcome.Params{"caseKey": c.CaseKey, "runRef": c.RunRef, "state": string(c.State)})
		}
	}
	if failed > toldCases {
		findings.Add(outcome.RunFailed, "/cases", outcome.Params{"failed": failed, "told": toldCases})
	}
	if missing := row.Count - len(cases); missing > 0 || end.Error != "" && failed == 0 && len(cases) < row.Count {
		name := end.Error
		if name == "" {
			name = "px.CasesNotBegun"
		}
		findings.Add(outcome.RunFailed, "", outcome.Params{"error": name, "missing": missing})
	}
	var slots []ShownSlot
	if shows {
		if err := b.object(ctx, *row, row.Projecting.Slots, &slots); err != nil {
			return nil, err
		}
	}
	if findings != nil {
		row.State = Failed
		text, err := canon.Encode(told(ctx, Row{RunRef: row.BatchRef}, findings))
		if err != nil {
			return nil, err
		}
		row.Diagnostics = history.RefOf(text)
		return slots, b.Runs.Objects.Put(ctx, row.Space(), text)
	}
	row.State = Succeeded
	return b.merge(ctx, row, merge, cases, slots)
}

// merge stores the merged results and fills in the slots.
func (b *Batches) merge(ctx context.Context, row *BatchRow, m MergeObject, cases []CaseRow, slots []ShownSlot) ([]ShownSlot, error) {
	inputs, err := b.inputsOf(ctx, *row, m.Merge)
	if err != nil {
		return nil, err
	}
	needs := m.Merge.Needs()
	results, governing, err := m.Merge.Merge(m.Inputs, func(yield func(batch.Ended, error) bool) {
		for i, c := range cases {
			values, err := b.valuesOf(ctx, *row, c, needs)
			one := batch.Ended{CaseKey: c.CaseKey, Results: values}
			if inputs != nil {
				one.Inputs = inputs(i)
			}
			if !yield(one, err) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var bodies [][]byte
	named := []stored{}
	for _, key := range slices.Sorted(maps.Keys(results)) {
		result := results[key]
		named = append(named, stored{ResultSummary{ResultKey: key, Type: string(result.Port.Type), Unit: result.Port.Unit, Shape: canon.Raw(`"scalar"`), Bytes: int64(len(result.Value))}, history.RefOf(result.Value)})
		bodies = append(bodies, result.Value)
	}
	if governing != nil {
		// The governing case's own results, which are objects already.
		var own []stored
		if err := b.object(ctx, *row, cases[governing.Index].Results, &own); err != nil {
			return nil, err
		}
		for _, chosen := range m.Merge.Mapped {
			i := slices.IndexFunc(own, func(s stored) bool { return s.ResultKey == chosen.PortKey })
			if i < 0 {
				return nil, fmt.Errorf("run: %s: the governing case has no result %s", row.BatchRef, chosen.PortKey)
			}
			named = append(named, own[i])
		}
		if slots, err = b.show(ctx, *row, slots, own, cases[governing.Index]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(named, func(a, b stored) int { return cmpKeys(a.ResultKey, b.ResultKey) })
	list, err := canon.Encode(named)
	if err != nil {
		return nil, err
	}
	row.Results = history.RefOf(list)
	return slots, b.Runs.Objects.Put(ctx, row.Space(), append(bodies, list)...)
}

func cmpKeys(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// inputsOf returns the payloads of the cases, where the merge tells inputs.
func (b *Batches) inputsOf(ctx context.Context, row BatchRow, m batch.Resolved) (func(int) map[string]canon.Raw, error) {
	if !slices.ContainsFunc(m.Columns, func(c batch.Column) bool { return c.From == batch.FromInput }) {
		return nil, nil
	}
	var given map[string]canon.Raw
	if err := b.object(ctx, row, row.Given, &given); err != nil {
		return nil, err
	}
	orders, err := b.read(ctx, row, row.Lines)
	if err != nil {
		return nil, err
	}
	sets := make([]map[string]canon.Raw, len(orders))
	for i, o := range orders {
		if o.Case.InputsRef != "" {
			err = b.object(ctx, row, history.Ref(o.Case.InputsRef), &sets[i])
		} else {
			err = json.Unmarshal([]byte(o.Case.Inputs), &sets[i])
		}
		if err != nil {
			return nil, fmt.Errorf("run: the inputs of case %s: %w", o.Case.CaseKey, err)
		}
	}
	return func(i int) map[string]canon.Raw { return batch.Payload(given, sets[i]) }, nil
}

// valuesOf returns the results of a case that the merge needs: those that are in its
// row, or else its objects.
func (b *Batches) valuesOf(ctx context.Context, row BatchRow, c CaseRow, needs []string) (map[string]canon.Raw, error) {
	values := map[string]canon.Raw{}
	if c.Values != "" {
		if err := json.Unmarshal([]byte(c.Values), &values); err != nil {
			return nil, fmt.Errorf("run: case %s: values: %w", c.CaseKey, err)
		}
		return values, nil
	}
	if len(needs) == 0 {
		return values, nil
	}
	var own []stored
	if err := b.object(ctx, row, c.Results, &own); err != nil {
		return nil, err
	}
	var refs []history.Ref
	var keys []string
	for _, s := range own {
		if slices.Contains(needs, s.ResultKey) {
			refs, keys = append(refs, s.Ref), append(keys, s.ResultKey)
		}
	}
	bodies, err := b.Runs.Objects.Get(ctx, row.Space(), refs...)
	if err != nil {
		return nil, fmt.Errorf("run: case %s: %w", c.CaseKey, err)
	}
	for i, key := range keys {
		values[key] = bodies[i]
	}
	return values, nil
}

// show fills the slots with the results of the governing case.
func (b *Batches) show(ctx context.Context, row BatchRow, slots []ShownSlot, own []stored, c CaseRow) ([]ShownSlot, error) {
	out := slices.Clone(slots)
	for i := range out {
		at := slices.IndexFunc(own, func(s stored) bool { return s.ResultKey == out[i].PortKey })
		if at < 0 {
			return nil, fmt.Errorf("run: %s: the governing case has no result %s", row.BatchRef, out[i].PortKey)
		}
		result, err := shownResult(ctx, b.Runs.Objects, row.Space(), own[at])
		if err != nil {
			return nil, err
		}
		out[i].RunRef, out[i].CaseKey, out[i].Result = c.RunRef, c.CaseKey, &result
	}
	return out, nil
}

// Tick takes the next step of a Batch that stood still for too long.
func (b *Batches) rescue(ctx context.Context, batchRef string) error {
	row, err := b.Store.Batch(ctx, batchRef)
	if err != nil || row.State.Terminal() || row.DueAt.After(b.Runs.Now()) {
		return err
	}
	slog.InfoContext(ctx, "a batch stood still", "batchRef", batchRef, "state", string(row.State), "open", len(row.Open))
	if row.State == Cancelling {
		b.halt(ctx, row)
	}
	if len(row.Open) == 0 {
		_, err := b.EndRound(ctx, batchRef, -1, Ending{})
		return err
	}
	for _, open := range row.Open {
		execution, err := b.Rounds.Look(ctx, batchRef, open.Round)
		switch {
		case err != nil:
			return err
		case execution == ExecutionAbsent && row.State == Cancelling:
			_, err = b.EndRound(ctx, batchRef, open.Round, Ending{})
		case execution == ExecutionAbsent:
			err = b.Rounds.Start(ctx, row.Project, batchRef, open.Round)
		case execution == ExecutionEnded:
			// The execution is over and did not say so: its last step failed.
			_, err = b.EndRound(ctx, batchRef, open.Round, Ending{Error: "px.ExecutionEnded"})
		}
		if err != nil {
			return err
		}
	}
	return b.postpone(ctx, batchRef)
}

func (b *Batches) postpone(ctx context.Context, batchRef string) error {
	for attempt := 0; ; attempt++ {
		row, err := b.Store.Batch(ctx, batchRef)
		if err != nil || row.State.Terminal() || row.DueAt.After(b.Runs.Now()) {
			return err
		}
		row.DueAt = b.Runs.dueIn(b.Runs.Now().UTC(), moveWithin)
		if err := b.Store.ReplaceBatch(ctx, row, nil); !errors.Is(err, ErrMoved) || attempt == 16 {
			return err
		}
	}
}
