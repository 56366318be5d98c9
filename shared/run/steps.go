package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/sandbox"
)

// A stageResult is what one stage stores: the typed results of its Nodes, and
// why those that are missing failed.
type stageResult struct {
	Nodes       canon.Raw            `json:"nodes"` // as Calculation.Evaluate gives them
	Done        int                  `json:"done"`  // how many Nodes that is
	Diagnostics []outcome.Diagnostic `json:"diagnostics,omitempty"`
	RanBy       *sandbox.RanBy       `json:"ranBy,omitzero"` // what ran the Functions of a sandbox stage
	// Results are the public results, of the last stage if nothing failed. List
	// is the object that holds the same, for the Run.
	Results []stored    `json:"results,omitempty"`
	List    history.Ref `json:"list,omitzero"`
}

// ErrForeign is returned to an execution that does not own the Run.
var ErrForeign = errors.New("run: claimed by another execution")

// Prepare claims the Run for an execution and returns the kinds of the stages that
// are to run; none for a Run that is over or being cancelled. Asking again gives the
// same answer.
func (r *Runs) Prepare(ctx context.Context, runRef, execution string) (stages []StageKind, err error) {
	err = r.move(ctx, runRef, func(row *Row) (bool, error) {
		stages = nil
		if row.ExecutionArn != "" && row.ExecutionArn != execution {
			return false, ErrForeign
		}
		if row.State.Terminal() {
			return false, nil
		}
		claimed := row.ExecutionArn != ""
		row.ExecutionArn = execution
		if row.State == Cancelling {
			return !claimed, nil
		}
		stages = row.kinds()
		if claimed {
			return false, nil
		}
		row.State, row.StartedAt = Running, r.Now().UTC()
		row.DueAt = r.dueIn(row.StartedAt, moveWithin)
		return true, nil
	})
	return stages, err
}

// Stage evaluates one stage, or collects what came of its job, and stores the result,
// or finds it stored: the first result of a stage counts, whoever computed it. It
// reports whether the next stage may run.
func (r *Runs) Stage(ctx context.Context, runRef string, stage int) (goOn bool, err error) {
	row, err := r.Store.Fetch(ctx, runRef)
	if err != nil {
		return false, err
	}
	if row.State != Running {
		return false, nil
	}
	if stopped, err := r.stopped(ctx, row); stopped || err != nil {
		return false, err
	}
	if stage < 0 || stage > row.Stage {
		return false, fmt.Errorf("run: %s: stage %d asked for before stage %d", runRef, stage, row.Stage)
	}
	result, err := r.stageResult(ctx, row, stage)
	if err != nil {
		return false, err
	}
	var failure history.Ref
	if len(result.Diagnostics) > 0 {
		text, err := canon.Encode(result.Diagnostics)
		if err != nil {
			return false, err
		}
		if err := r.Objects.Put(ctx, row.Space(), text); err != nil {
			return false, err
		}
		failure = history.RefOf(text)
	}
	err = r.move(ctx, runRef, func(row *Row) (bool, error) {
		goOn = row.State == Running && failure == ""
		// Counting happens once, with the step from this stage to the next.
		if row.State.Terminal() || row.Stage > stage {
			return false, nil
		}
		row.Stage++
		row.Completed += result.Done
		row.StageEnds = append(row.StageEnds, r.Now().Sub(row.StartedAt).Milliseconds())
		row.RanBy = ranBy(row.RanBy, result.RanBy, stage)
		if failure != "" {
			row.Diagnostics = failure
		}
		if row.State == Running {
			row.DueAt = r.dueIn(r.Now().UTC(), moveWithin)
		}
		return true, nil
	})
	return goOn, err
}

// stopped makes a child Run of a Batch that is being cancelled a Run that is.
func (r *Runs) stopped(ctx context.Context, row Row) (bool, error) {
	if row.Part.BatchRef == "" {
		return false, nil
	}
	batch, err := r.Batch.Store.Batch(ctx, row.Part.BatchRef)
	if err != nil || batch.State != Cancelling {
		return false, err
	}
	return true, r.move(ctx, row.RunRef, func(row *Row) (bool, error) {
		if row.State != Running {
			return false, nil
		}
		row.State, row.Cancelled, row.DueAt = Cancelling, batch.Cancelled, r.dueIn(r.Now().UTC(), cancelWithin)
		return true, nil
	})
}

// stageResult returns what is stored of a stage, evaluating it first if nothing
// is.
func (r *Runs) stageResult(ctx context.Context, row Row, stage int) (stageResult, error) {
	var result stageResult
	ref, err := r.Store.Stage(ctx, row.RunRef, stage)
	if err == nil {
		return result, r.read(ctx, row, ref, &result)
	}
	if !errors.Is(err, history.ErrNotFound) {
		return result, err
	}
	calc, findings, err := r.resume(ctx, row, stage)
	if err != nil {
		return result, err
	}
	result.Nodes = canon.Raw(`{}`)
	switch {
	case calc == nil:
	case row.sandboxed(stage):
		result, findings, err = r.collect(ctx, row, stage, calc)
	default:
		result.Nodes, result.Done, findings, err = calc.Evaluate(ctx, stage)
	}
	if err != nil {
		return result, err
	}
	return r.conclude(ctx, row, stage, calc, result, findings)
}

// conclude adds to the result of a stage what follows from it, after the last one the
// public results, and stores it, or returns the one that is stored. calc is nil of a
// Flow that cannot run.
func (r *Runs) conclude(ctx context.Context, row Row, stage int, calc Calculation, result stageResult, findings outcome.Findings) (stageResult, error) {
	result, bodies, err := r.publish(ctx, row, stage, calc, result, findings)
	if err != nil {
		return result, err
	}
	text, err := canon.Encode(result)
	if err != nil {
		return result, err
	}
	if err := r.Objects.Put(ctx, row.Space(), append(bodies, text)...); err != nil {
		return result, err
	}
	stored, err := r.Store.SaveStage(ctx, row.RunRef, stage, history.RefOf(text))
	if err == nil && stored == history.RefOf(text) && len(result.Diagnostics) == 0 && stage < row.Stages-1 {
		if err := calc.Add(result.Nodes); err != nil {
			return result, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, stage, err)
		}
		r.Warm.keep(row.RunRef, calc, stage+1)
	}
	if err != nil || stored == history.RefOf(text) {
		return result, err
	}
	result = stageResult{}
	return result, r.read(ctx, row, stored, &result)
}

// publish adds findings, and after the last stage the public results. bodies are the
// objects that the result names.
func (r *Runs) publish(ctx context.Context, row Row, stage int, calc Calculation, result stageResult, findings outcome.Findings) (_ stageResult, bodies [][]byte, err error) {
	if !findings.Refused() && stage == row.Stages-1 {
		if err := calc.Add(result.Nodes); err != nil {
			return result, nil, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, stage, err)
		}
		values, found, err := calc.Results()
		if err != nil {
			return result, nil, err
		}
		if findings = found; !findings.Refused() {
			for _, key := range slices.Sorted(maps.Keys(values)) {
				v := values[key]
				result.Results = append(result.Results, stored{ResultSummary{ResultKey: key, Type: v.Type, Unit: v.Unit, Shape: v.Shape, Bytes: int64(len(v.Text))}, history.RefOf(v.Text)})
				bodies = append(bodies, v.Text)
			}
			list, err := canon.Encode(append([]stored{}, result.Results...))
			if err != nil {
				return result, nil, err
			}
			result.List, bodies = history.RefOf(list), append(bodies, list)
		}
	}
	result.Diagnostics = told(ctx, row, findings)
	return result, bodies, nil
}

// resume opens the calculation of a Run with the results of the stages before. There
// is none if this version of the program refuses what was pinned: then the findings
// say why.
func (r *Runs) resume(ctx context.Context, row Row, stages int) (Calculation, outcome.Findings, error) {
	calc, from := r.Warm.take(row.RunRef)
	if calc == nil || from > stages { // an earlier stage is asked for again
		var findings outcome.Findings
		var err error
		if calc, findings, err = r.open(ctx, row); err != nil || calc == nil {
			return nil, findings, err
		}
		from = 0
	}
	results, err := r.storedStages(ctx, row, from, stages)
	if err != nil {
		return nil, nil, err
	}
	for i, result := range results {
		if err := calc.Add(result.Nodes); err != nil {
			return nil, nil, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, from+i, err)
		}
	}
	return calc, nil, nil
}

// open opens the calculation of a Run, or finds why it cannot be.
func (r *Runs) open(ctx context.Context, row Row) (Calculation, outcome.Findings, error) {
	bodies, err := r.Objects.Get(ctx, row.Space(), history.Ref(row.RevisionRef), row.Inputs)
	if err != nil {
		return nil, nil, fmt.Errorf("run: %s: %w", row.RunRef, err)
	}
	flow, findings, err := r.Open(ctx, row.Project, bodies[0])
	if err != nil || findings.Refused() {
		return nil, findings, err
	}
	var inputs map[string]canon.Raw
	if err := json.Unmarshal(bodies[1], &inputs); err != nil {
		return nil, nil, fmt.Errorf("run: %s: inputs: %w", row.RunRef, err)
	}
	calc, findings := flow.Begin(inputs, "/inputs")
	if findings.Refused() {
		return nil, findings, nil
	}
	if kinds := flow.Kinds(); !slices.Equal(kinds, row.kinds()) && (len(kinds) > 0 || row.Stages != 1) {
		// The state machine was told others: nobody would run the rest.
		return nil, nil, fmt.Errorf("run: %s: this version lays the flow out in stages %v, and the run has %v", row.RunRef, kinds, row.kinds())
	}
	return calc, nil, nil
}

// storedStages returns the results of the stages from first up to and without end.
func (r *Runs) storedStages(ctx context.Context, row Row, first, end int) ([]stageResult, error) {
	if first == end {
		return nil, nil
	}
	refs, failures := make([]history.Ref, end-first), make([]error, end-first)
	var group sync.WaitGroup
	turn := make(chan struct{}, 8)
	for i := range refs {
		group.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			refs[i], failures[i] = r.Store.Stage(ctx, row.RunRef, first+i)
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("run: %s: stages before %d: %w", row.RunRef, end, err)
	}
	bodies, err := r.Objects.Get(ctx, row.Space(), refs...)
	if err != nil {
		return nil, fmt.Errorf("run: %s: stages before %d: %w", row.RunRef, end, err)
	}
	out := make([]stageResult, len(refs))
	for i, body := range bodies {
		if err := json.Unmarshal(body, &out[i]); err != nil {
			return nil, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, first+i, err)
		}
	}
	return out, nil
}

func (r *Runs) storedStage(ctx context.Context, row Row, stage int) (result stageResult, err error) {
	ref, err := r.Store.Stage(ctx, row.RunRef, stage)
	if err != nil {
		return result, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, stage, err)
	}
	return result, r.read(ctx, row, ref, &result)
}

// An Ending is how the execution of a Run came to its end.
type Ending struct {
	// Error is the name of what stopped the execution, "" when all stages ran or
	// one of them said stop. It is a name and never a message.
	Error string
}

// Finish ends the Run in the terminal state that its row says, once. A terminal
// Run stays as it is.
func (r *Runs) Finish(ctx context.Context, runRef string, end Ending) (State, error) {
	row, err := r.Store.Fetch(ctx, runRef)
	if err != nil {
		return "", err
	}
	var last stageResult
	var failure history.Ref
	if !row.State.Terminal() && row.State != Cancelling && end.Error == "" && row.Diagnostics == "" {
		last, failure, err = r.results(ctx, row)
	} else if end.Error != "" {
		failure, err = r.failure(ctx, row, refuse(outcome.RunFailed, "", outcome.Params{"error": end.Error}))
	}
	if err != nil {
		return "", err
	}
	var ended State
	err = r.moveBy(ctx, runRef, func(row *Row) (bool, error) {
		if ended = row.State; ended.Terminal() {
			return false, nil
		}
		switch {
		case row.State == Cancelling:
			ended = Cancelled
		case row.Diagnostics != "":
			ended = Failed
		case failure != "":
			ended, row.Diagnostics = Failed, failure
		case last.List == "":
			return false, ErrMoved // cancelling was taken back: never; look again
		default:
			ended, row.Results = Succeeded, last.List
		}
		row.State, row.EndedAt, row.DueAt = ended, r.Now().UTC(), time.Time{}
		return true, nil
	}, func(ctx context.Context, row Row) error { return r.end(ctx, row, last.Results) })
	if err == nil && ended != Succeeded {
		// An execution that ended without its job, by a timeout or by being stopped,
		// left it behind.
		r.abandon(ctx, row)
	}
	return ended, err
}

// end stores a Run that ended, with its case or what its Report shows from now on. A
// child that is not its case's current one any more, and a Run after which another
// was started, end alone and are history (R6).
func (r *Runs) end(ctx context.Context, row Row, results []stored) error {
	f := Finish{Row: row}
	var err error
	switch {
	case row.Part.BatchRef != "":
		f.Case, err = r.endCase(ctx, row, results)
	case row.Projecting != Projecting{}:
		f.Settle, err = r.settle(ctx, row, results)
	default:
		return r.Store.Replace(ctx, row)
	}
	if err != nil {
		return err
	}
	err = r.Store.Finish(ctx, f)
	var late *SupersededError
	if errors.As(err, &late) {
		slog.InfoContext(ctx, "a run ended late and is history", "runRef", row.RunRef, "state", string(row.State))
		return r.Store.Replace(ctx, row)
	}
	return err
}

func (r *Runs) endCase(ctx context.Context, row Row, results []stored) (*CaseRow, error) {
	batch, err := r.Batch.Store.Batch(ctx, row.Part.BatchRef)
	if err != nil {
		return nil, err
	}
	text, err := r.mergeValues(ctx, row, results, batch.Needs)
	return endedCase(row, text, row.Results), err
}

// settle says what the slots of a Run's connection show from now on, if nothing was
// started after it: its results, or that it failed. A cancelled one changes nothing.
func (r *Runs) settle(ctx context.Context, row Row, results []stored) (*Settle, error) {
	p := row.Projecting
	out := &Settle{Connection: row.Connection(), Generation: p.Generation, Ended: row.State}
	if row.State == Cancelled {
		return out, nil
	}
	var slots []ShownSlot
	if err := r.read(ctx, row, p.Slots, &slots); err != nil {
		return nil, err
	}
	sums := map[string]*ShownResult{} // several slots may show one result
	for i := range slots {
		slots[i].RunRef = row.RunRef
		if row.State != Succeeded {
			continue
		}
		if sums[slots[i].PortKey] == nil {
			at := slices.IndexFunc(results, func(s stored) bool { return s.ResultKey == slots[i].PortKey })
			if at < 0 {
				return nil, fmt.Errorf("run: %s: a slot shows result %s, which there is not", row.RunRef, slots[i].PortKey)
			}
			sum, err := shownResult(ctx, r.Objects, row.Space(), results[at])
			if err != nil {
				return nil, err
			}
			sums[slots[i].PortKey] = &sum
		}
		slots[i].Result = sums[slots[i].PortKey]
	}
	text, err := canon.Encode(slots)
	if err != nil {
		return nil, err
	}
	out.Shown = &Shown{Generation: p.Generation, Intent: Intent{IntentRun, row.RunRef}, State: row.State, Slots: history.RefOf(text), At: row.EndedAt}
	return out, r.Objects.Put(ctx, row.Space(), text)
}

// mergeBytes is how much of a case's results its row holds for the merge.
const mergeBytes = 2 << 10

// mergeValues returns what the merge needs of a child that succeeded, or "" where
// that is too much for a row: then the merge reads the results themselves.
func (r *Runs) mergeValues(ctx context.Context, row Row, results []stored, needs []string) (string, error) {
	if row.State != Succeeded || len(needs) == 0 {
		return "", nil
	}
	refs, size := make([]history.Ref, len(needs)), int64(0)
	for i, key := range needs {
		at := slices.IndexFunc(results, func(s stored) bool { return s.ResultKey == key })
		if at < 0 {
			return "", nil
		}
		refs[i] = results[at].Ref
		if size += results[at].Bytes + int64(len(key)); size > mergeBytes {
			return "", nil
		}
	}
	bodies, err := r.Objects.Get(ctx, row.Space(), refs...)
	if err != nil {
		return "", fmt.Errorf("run: %s: results: %w", row.RunRef, err)
	}
	kept := map[string]canon.Raw{}
	for i, key := range needs {
		kept[key] = bodies[i]
	}
	text, err := canon.Encode(kept)
	return string(text), err
}

// results returns the last stage, which holds the public results, or the diagnostics
// that say why there are none.
func (r *Runs) results(ctx context.Context, row Row) (last stageResult, failure history.Ref, err error) {
	if row.Stage < row.Stages {
		failure, err := r.failure(ctx, row, refuse(outcome.RunFailed, "", outcome.Params{"error": "stages missing"}))
		return last, failure, err
	}
	last, err = r.storedStage(ctx, row, row.Stages-1)
	if err == nil && last.List == "" {
		err = fmt.Errorf("run: %s: its last stage holds no results", row.RunRef)
	}
	return last, "", err
}

func (r *Runs) failure(ctx context.Context, row Row, findings outcome.Findings) (history.Ref, error) {
	text, err := canon.Encode(told(ctx, row, findings))
	if err != nil {
		return "", err
	}
	return history.RefOf(text), r.Objects.Put(ctx, row.Space(), text)
}

// told gives the findings that refuse their IDs, with a log line of the same ID
// for each (E3). They are stored with the Run and told unchanged ever after.
func told(ctx context.Context, row Row, findings outcome.Findings) []outcome.Diagnostic {
	var out []outcome.Diagnostic
	for _, d := range findings {
		if d.Severity != outcome.Error {
			continue
		}
		d.DiagnosticID = rand.Text()
		slog.WarnContext(ctx, "a run failed", "runRef", row.RunRef, "diagnosticId", d.DiagnosticID, "code", string(d.Code), "path", d.Path)
		out = append(out, d)
	}
	return out
}

// move reads the row, lets step change it and stores it, again from the start
// when it moved meanwhile. step must give the same result on a row that it has
// already changed: after a lost reply it meets its own write.
func (r *Runs) move(ctx context.Context, runRef string, step func(*Row) (bool, error)) error {
	return r.moveBy(ctx, runRef, step, r.Store.Replace)
}

// moveBy is move with another write.
func (r *Runs) moveBy(ctx context.Context, runRef string, step func(*Row) (bool, error), store func(context.Context, Row) error) error {
	for attempt := 0; ; attempt++ {
		row, err := r.Store.Fetch(ctx, runRef)
		if err != nil {
			return err
		}
		changed, err := step(&row)
		if err == nil && changed {
			err = store(ctx, row)
		}
		if !errors.Is(err, ErrMoved) || attempt == 16 {
			return err
		}
	}
}

// Tick performs the next step of every Run and Batch that stood still for too long,
// up to limit: it starts the execution that was not started, and ends the Run or
// Batch whose execution ended without it. It returns how many it looked at.
func (r *Runs) Tick(ctx context.Context, limit int) (int, error) {
	due, err := r.Store.Due(ctx, r.Now().UTC(), limit)
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, ref := range due {
		rescue, postpone := r.rescue, r.postpone
		if strings.HasPrefix(ref, BatchPrefix) {
			rescue, postpone = r.Batch.rescue, r.Batch.postpone
		}
		if err := rescue(ctx, ref); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", ref, err))
			// Looked at again later, so that one that cannot be helped does not
			// keep the others from being looked at.
			failures = append(failures, postpone(ctx, ref))
		}
	}
	return len(due), errors.Join(failures...)
}

func (r *Runs) rescue(ctx context.Context, runRef string) error {
	row, err := r.Store.Fetch(ctx, runRef)
	if err != nil || row.State.Terminal() || row.DueAt.After(r.Now()) {
		return err
	}
	execution, err := r.look(ctx, row)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "a run stood still", "runRef", runRef, "state", string(row.State), "execution", string(execution))
	switch {
	case execution == ExecutionAbsent && row.State == Cancelling:
		_, err = r.Finish(ctx, runRef, Ending{})
		return err
	case execution == ExecutionAbsent:
		if err := r.Executions.Start(ctx, row.Project, runRef); err != nil {
			return err
		}
	case execution == ExecutionEnded:
		// The execution is over and did not end the Run: its last step failed.
		_, err = r.Finish(ctx, runRef, Ending{Error: "px.ExecutionEnded"})
		return err
	case row.State == Cancelling:
		if err := r.stop(ctx, row); err != nil {
			return err
		}
		_, err = r.Finish(ctx, runRef, Ending{})
		return err
	}
	return r.postpone(ctx, runRef)
}

// look says how the Run's execution stands. That of a child was named by the service,
// which forgets it after a while: a child that has one is never begun again.
func (r *Runs) look(ctx context.Context, row Row) (Execution, error) {
	if row.Part.BatchRef == "" {
		return r.Executions.Look(ctx, row.RunRef)
	}
	execution, err := r.Batch.Rounds.LookChild(ctx, row.ExecutionArn)
	if execution == ExecutionAbsent {
		execution = ExecutionEnded
	}
	return execution, err
}

func (r *Runs) stop(ctx context.Context, row Row) error {
	if row.Part.BatchRef == "" {
		return r.Executions.Stop(ctx, row.RunRef)
	}
	return r.Batch.Rounds.StopChild(ctx, row.ExecutionArn)
}

func (r *Runs) postpone(ctx context.Context, runRef string) error {
	return r.move(ctx, runRef, func(row *Row) (bool, error) {
		if row.State.Terminal() || row.DueAt.After(r.Now()) {
			return false, nil
		}
		row.DueAt = r.dueIn(r.Now().UTC(), moveWithin)
		return true, nil
	})
}
