package states

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/local/jsonata"
	"github.com/pxhost/pxhost/infra/local/states/asl"
)

// Execution statuses of the API.
const (
	statusRunning   = "RUNNING"
	statusSucceeded = "SUCCEEDED"
	statusFailed    = "FAILED"
	statusTimedOut  = "TIMED_OUT"
	statusAborted   = "ABORTED"
)

// maxPayload bounds every input, output and result, in bytes of UTF-8.
const maxPayload = 262144

// phase says what a frame is doing. Only phases in which something outside has
// to happen are left alone by a step; enter and attempt are worked through.
type phase string

const (
	phaseEnter   phase = "enter"   // about to enter State with Input
	phaseAttempt phase = "attempt" // about to run State again, a retry's delay being over
	phaseWait    phase = "wait"    // in a Wait, until Due
	phaseRetry   phase = "retry"   // between two attempts, until Due
	phaseTask    phase = "task"    // a function is called, or its token awaited
	phaseJoin    phase = "join"    // in a Parallel or Map, children run
	phaseRead    phase = "read"    // in a distributed Map whose items are not all in the file
	phaseDone    phase = "done"    // its workflow ended with Output; the parent will collect it
)

// frame is one thread of control: the machine itself (no parent), a branch of a
// Parallel, or an iteration of a Map. It is saved whole when it changes.
type frame struct {
	ID       int                        `json:"id"`
	Parent   int                        `json:"parent"` // -1: none
	Index    int                        `json:"index,omitempty"`
	Workflow int                        `json:"workflow"`
	Item     json.RawMessage            `json:"item,omitempty"` // of a Map iteration
	Phase    phase                      `json:"phase"`
	State    string                     `json:"state"`
	Input    json.RawMessage            `json:"input,omitempty"`
	Output   json.RawMessage            `json:"output,omitempty"`
	Vars     map[string]json.RawMessage `json:"vars,omitempty"`

	Prev       int64     `json:"prev"`    // the thread's last event
	Entered    int64     `json:"entered"` // the event that entered State
	EnteredAt  time.Time `json:"enteredAt"`
	Retries    []int64   `json:"retries,omitempty"` // by retrier
	RetryCount int64     `json:"retryCount,omitempty"`
	Due        time.Time `json:"due,omitzero"`

	Task *task `json:"task,omitempty"`

	// Of a Map or Parallel that runs.
	Items        []json.RawMessage `json:"items,omitempty"`
	Limit        int               `json:"limit,omitempty"`
	StartedEvent int64             `json:"startedEvent,omitempty"`

	MapRun *mapRun `json:"mapRun,omitempty"` // of a distributed Map that runs

	// Counted from the children, not saved.
	started, finished int
}

// task is an attempt of a Task. Its number makes the answer of an earlier
// attempt recognizable.
type task struct {
	Number       int64           `json:"number"`
	Function     string          `json:"function"`
	Payload      json.RawMessage `json:"payload,omitempty"`
	Submitted    bool            `json:"submitted,omitempty"` // the function answered, the token is awaited
	Deadline     time.Time       `json:"deadline,omitzero"`
	Heartbeat    int64           `json:"heartbeat,omitempty"` // seconds; 0 is none
	HeartbeatDue time.Time       `json:"heartbeatDue,omitzero"`
}

// execution is a running execution in memory. One goroutine at a time, the
// loop, works on it: messages that arrive meanwhile are taken together in the
// next step, and so share one write. No lock is held while a function is called.
type execution struct {
	svc       *Service
	seq       uint64
	arn       string
	machine   *asl.Machine
	workflows map[int]*asl.Workflow

	inbox struct {
		sync.Mutex
		messages []message
		looping  bool
	}

	// All below belongs to the loop.
	record   executionRecord
	progress progress
	frames   map[int]*frame
	ready    []*frame
	cancels  map[int]context.CancelFunc // of calls under way, by frame
	ended    bool
	settled  bool  // what follows from its end was done
	overflow bool  // the history is full
	broken   error // a write failed; the execution goes on at the next start

	// The step under way, written by commit.
	events   []event
	dirty    map[int]*frame
	gone     map[int]bool
	launches []*frame
	dropped  []int // frames whose calls are no longer of interest
	changed  bool  // the record is to be written

	// Of distributed Maps.
	births      []*birth
	over        []*mapRun // ended with this step
	joining     []*frame  // whose children ended
	elementSize int       // of a child that ended, in bytes
}

type message struct {
	apply func() error
	reply chan error // gets apply's error once the step is on disk; may be nil
}

func (s *Service) newExecution(seq uint64, record executionRecord, machine *asl.Machine) *execution {
	ex := &execution{svc: s, seq: seq, record: record, machine: machine, arn: s.executionARN(record.Machine, record.Name),
		workflows: map[int]*asl.Workflow{}, frames: map[int]*frame{}, cancels: map[int]context.CancelFunc{},
		dirty: map[int]*frame{}, gone: map[int]bool{}}
	machine.Walk(func(w *asl.Workflow) { ex.workflows[w.ID] = w })
	return ex
}

// post hands a message to the loop and starts the loop if it rests. It reports
// false when the service is closing.
func (ex *execution) post(m message) bool {
	ex.inbox.Lock()
	defer ex.inbox.Unlock()
	if !ex.inbox.looping {
		if !ex.svc.begin() {
			return false
		}
		ex.inbox.looping = true
		go ex.loop()
	}
	ex.inbox.messages = append(ex.inbox.messages, m)
	return true
}

// ask posts apply and waits until what it did is on disk.
func (ex *execution) ask(apply func() error) error {
	reply := make(chan error, 1)
	if !ex.post(message{apply, reply}) {
		return errClosed
	}
	return <-reply
}

// maxBatch bounds the transitions of one step, so that a machine that loops
// without waiting can be stopped and its writes stay small.
const maxBatch = 200

func (ex *execution) loop() {
	defer ex.svc.end()
	for {
		ex.inbox.Lock()
		messages := ex.inbox.messages
		ex.inbox.messages = nil
		if len(messages) == 0 && (len(ex.ready) == 0 || ex.broken != nil || ex.svc.ctx.Err() != nil) {
			ex.inbox.looping = false
			ex.inbox.Unlock()
			return
		}
		ex.inbox.Unlock()
		errs := make([]error, len(messages))
		for i, m := range messages {
			if errs[i] = ex.broken; errs[i] == nil {
				errs[i] = m.apply()
				ex.checkQuota()
			}
		}
		if ex.broken == nil {
			ex.join()
			for n := 0; n < maxBatch && len(ex.ready) > 0 && !ex.ended; n++ {
				f := ex.ready[0]
				ex.ready = ex.ready[1:]
				if ex.frames[f.ID] == f {
					ex.advance(f)
				}
				ex.checkQuota()
			}
			if err := ex.commit(); err != nil {
				ex.breaks(err)
			}
		}
		for i, m := range messages {
			if m.reply != nil {
				m.reply <- errors.Join(errs[i], ex.broken)
			}
		}
		if ex.broken != nil {
			ex.ready = nil
			continue
		}
		ex.effects()
	}
}

// breaks leaves the execution as it is on disk until the next start.
func (ex *execution) breaks(err error) {
	ex.broken = err
	ex.svc.options.Logger.Error("an execution stops until the next start: its step cannot be written", "execution", ex.arn, "error", err)
}

// checkQuota fails an execution whose history is full.
func (ex *execution) checkQuota() {
	if ex.overflow && !ex.ended {
		ex.end(ex.frames[0], statusFailed, nil, nil) // end knows why
	}
}

// commit writes the step in one transaction: nothing of it is acted on before.
func (ex *execution) commit() error {
	if len(ex.events) == 0 && len(ex.dirty) == 0 && len(ex.gone) == 0 && !ex.changed && len(ex.births) == 0 && len(ex.over) == 0 {
		return nil
	}
	var element []byte
	if ex.ended && ex.record.Child != nil {
		var err error
		if element, err = ex.element(); err != nil {
			return err
		}
		ex.elementSize = len(element)
	}
	var runs []*mapRun
	for _, f := range ex.frames {
		if f.MapRun != nil && f.MapRun.changed {
			runs = append(runs, f.MapRun)
		}
	}
	type pair struct{ key, value []byte }
	var frames, events []pair
	for id, f := range ex.dirty {
		text, err := encode(f)
		if err != nil {
			return err
		}
		frames = append(frames, pair{subKey(ex.seq, int64(id)), text})
	}
	slices.SortFunc(frames, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	for _, e := range ex.events {
		text, err := encode(e)
		if err != nil {
			return err
		}
		events = append(events, pair{subKey(ex.seq, e.ID), text})
	}
	gone := make([]int, 0, len(ex.gone))
	for id := range ex.gone {
		gone = append(gone, id)
	}
	err := ex.svc.store.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketFrames)
		for _, id := range gone {
			if err := b.Delete(subKey(ex.seq, int64(id))); err != nil {
				return err
			}
		}
		for _, p := range frames {
			if err := b.Put(p.key, p.value); err != nil {
				return err
			}
		}
		b = tx.Bucket(bucketHistory)
		for _, p := range events {
			if err := b.Put(p.key, p.value); err != nil {
				return err
			}
		}
		b = tx.Bucket(bucketRunning)
		if ex.ended {
			if err := b.Delete(seqKey(ex.seq)); err != nil {
				return err
			}
		} else if err := putJSON(b, seqKey(ex.seq), ex.progress); err != nil {
			return err
		}
		for _, birth := range ex.births {
			if err := birth.bear(tx); err != nil {
				return err
			}
		}
		for _, run := range runs {
			if err := putJSON(tx.Bucket(bucketMapRuns), runKey(ex.seq, run.Number), run.next); err != nil {
				return err
			}
		}
		for _, run := range ex.over {
			key := runKey(ex.seq, run.Number)
			if err := errors.Join(tx.Bucket(bucketMapRuns).Delete(key), tx.Bucket(bucketGarbage).Put(key, nil)); err != nil {
				return err
			}
		}
		if ex.ended && ex.record.Child != nil {
			if err := ex.putResult(tx, element); err != nil {
				return err
			}
		}
		if ex.ended {
			if err := putEnded(tx, ex.record.Stopped, ex.seq); err != nil {
				return err
			}
		}
		if ex.changed {
			return putJSON(tx.Bucket(bucketExecutions), seqKey(ex.seq), ex.record)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		run.changed = false
	}
	ex.events, ex.changed = nil, false
	clear(ex.dirty)
	clear(ex.gone)
	return nil
}

// effects acts on what was committed.
func (ex *execution) effects() {
	for _, id := range ex.dropped {
		if cancel := ex.cancels[id]; cancel != nil {
			cancel()
			delete(ex.cancels, id)
		}
	}
	ex.dropped = nil
	launches, births, over := ex.launches, ex.births, ex.over
	ex.launches, ex.births, ex.over = nil, nil, nil
	ex.grow(births)
	ex.stopChildren(over)
	if ex.settled {
		return // a message came after the end, and a parent must be told once
	}
	if ex.ended {
		ex.settled = true
		failpoint.Hit(failpoint.StatesEnded)
		for id, cancel := range ex.cancels {
			cancel()
			delete(ex.cancels, id)
		}
		ex.svc.timers.set(ex, time.Time{})
		ex.svc.forget(ex)
		ex.svc.ended()
		if ex.record.Child != nil {
			ex.tellParent()
		}
		return
	}
	for _, f := range launches {
		if ex.frames[f.ID] != f {
			continue
		}
		if f.Phase == phaseTask && !f.Task.Submitted {
			ex.launch(f)
		}
		if f.Phase == phaseRead {
			ex.fetch(f)
		}
	}
	ex.svc.timers.set(ex, ex.due())
}

// launch calls the function of a frame's task.
func (ex *execution) launch(f *frame) {
	if !ex.svc.begin() {
		return
	}
	ctx, cancel := context.WithCancel(withMachine(ex.svc.ctx, baseMachine(ex.record.Machine)))
	ex.cancels[f.ID] = cancel
	id, number, function, payload := f.ID, f.Task.Number, f.Task.Function, f.Task.Payload
	go func() {
		defer ex.svc.end()
		defer cancel()
		failpoint.Hit(failpoint.StatesLaunching)
		out, functionError, err := ex.svc.options.Lambda.Invoke(ctx, function, payload)
		failpoint.Hit(failpoint.StatesAnswered)
		if ex.svc.ctx.Err() != nil {
			return // the host is closing: the call is made again at the next start
		}
		ex.post(message{apply: func() error { ex.invoked(id, number, out, functionError, err); return nil }})
	}()
}

// due is when the clock has to be looked at next; zero is never.
func (ex *execution) due() time.Time {
	due := ex.deadline()
	earlier := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	for _, f := range ex.frames {
		switch f.Phase {
		case phaseWait, phaseRetry:
			earlier(f.Due)
		case phaseTask:
			earlier(f.Task.Deadline)
			earlier(f.Task.HeartbeatDue)
		}
	}
	return due
}

func (ex *execution) deadline() time.Time {
	if ex.machine.TimeoutSeconds == 0 || ex.record.Child != nil {
		return time.Time{}
	}
	return ex.record.Started.Add(time.Duration(ex.machine.TimeoutSeconds) * time.Second)
}

// tick does what is due.
func (ex *execution) tick() {
	if ex.ended {
		return
	}
	now := ex.svc.now()
	past := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if past(ex.deadline()) {
		ex.abortFrames(0)
		ex.end(ex.frames[0], statusTimedOut, nil, &stateError{Name: errTimeout})
		return
	}
	ids := make([]int, 0, len(ex.frames))
	for id := range ex.frames {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := ex.frames[id]
		if f == nil || ex.ended { // an earlier frame's failure took it away
			continue
		}
		switch f.Phase {
		case phaseWait:
			if past(f.Due) {
				f.Due = time.Time{}
				ex.leaveOrFail(f, data{input: f.Input}, f.Input)
			}
		case phaseRetry:
			if past(f.Due) {
				f.Due = time.Time{}
				f.Phase = phaseAttempt
				ex.mark(f)
				ex.ready = append(ex.ready, f)
			}
		case phaseTask:
			heartbeat := past(f.Task.HeartbeatDue) && !(past(f.Task.Deadline) && f.Task.Deadline.Before(f.Task.HeartbeatDue))
			if heartbeat || past(f.Task.Deadline) {
				ex.emit(f, event{Type: "TaskTimedOut", TaskTimedOut: &taskFailureDetails{taskDetails: ex.taskDetails(f), Error: errTimeout}})
				ex.fail(f, &stateError{Name: errTimeout, heartbeat: heartbeat})
			}
		}
	}
}

func (ex *execution) mark(f *frame) { ex.dirty[f.ID] = f }

func (ex *execution) remove(f *frame) {
	ex.dropMapRun(f)
	delete(ex.frames, f.ID)
	delete(ex.dirty, f.ID)
	ex.gone[f.ID] = true
	ex.dropped = append(ex.dropped, f.ID)
}

func (ex *execution) newFrame(f frame) *frame {
	f.ID = ex.progress.Frame
	ex.progress.Frame++
	f.Phase = phaseEnter
	ex.frames[f.ID] = &f
	ex.mark(&f)
	ex.ready = append(ex.ready, &f)
	return &f
}

// emit appends an event to the history of a frame's thread and gives its id.
func (ex *execution) emit(f *frame, e event) int64 {
	terminal := ex.ended
	if !terminal && ex.progress.Event >= maxEvents-1 {
		ex.overflow = true // the last place is for the failure
		return f.Prev
	}
	ex.progress.Event++
	e.ID, e.Previous, e.Timestamp = ex.progress.Event, f.Prev, epoch(ex.svc.now())
	f.Prev = e.ID
	ex.mark(f)
	ex.events = append(ex.events, e)
	return e.ID
}

func (ex *execution) state(f *frame) asl.State { return ex.workflows[f.Workflow].States[f.State] }

// advance runs a frame to the next point where it has to wait for something.
func (ex *execution) advance(f *frame) {
	state := ex.state(f)
	if f.Phase == phaseAttempt {
		ex.attempt(f, state)
		return
	}
	f.EnteredAt, f.Retries, f.RetryCount = ex.svc.now(), nil, 0
	f.Entered = ex.emit(f, event{Type: state.Common().Type + "StateEntered", StateEntered: &stateEnteredDetails{Name: f.State, Input: string(f.Input)}})
	ex.attempt(f, state)
}

func (ex *execution) attempt(f *frame, state asl.State) {
	input := data{input: f.Input}
	switch s := state.(type) {
	case *asl.Pass, *asl.Succeed:
		ex.leaveOrFail(f, input, f.Input)
	case *asl.Fail:
		ex.failState(f, s)
	case *asl.Choice:
		ex.choose(f, s)
	case *asl.Wait:
		ex.wait(f, s)
	case *asl.Task:
		ex.startTask(f, s)
	case *asl.Parallel:
		ex.startParallel(f, s)
	case *asl.Map:
		ex.startMap(f, s)
	case *asl.DistributedMap:
		ex.startDistributed(f, s)
	default:
		panic(fmt.Sprintf("a state of type %T has no semantics", state)) // the parser makes no other
	}
}

func (ex *execution) failState(f *frame, s *asl.Fail) {
	failure := &stateError{}
	for _, part := range []struct {
		template *asl.Template
		target   *string
	}{{s.Error, &failure.Name}, {s.Cause, &failure.Cause}} {
		if part.template == nil {
			continue
		}
		text, err := ex.evalText(f, part.template)
		if err != nil {
			ex.fail(f, err)
			return
		}
		*part.target = text
	}
	failure.silent = true
	ex.broke(f, failure)
}

func (ex *execution) choose(f *frame, s *asl.Choice) {
	input := data{input: f.Input}
	for _, rule := range s.Rules {
		value, err := ex.eval(f, rule.Condition, input)
		if err != nil {
			ex.fail(f, err)
			return
		}
		switch string(value) {
		case "true":
			if err := ex.leave(f, rule.Assign, rule.Output, input, f.Input, rule.Next); err != nil {
				ex.fail(f, err)
			}
			return
		case "false":
		default:
			ex.fail(f, ex.wrongType(f, rule.Condition, "boolean", value))
			return
		}
	}
	if s.Default == "" {
		ex.fail(f, &stateError{Name: errNoChoice, Cause: ex.where(f) + "Failed to transition out of the state. The state does not point to a next state."})
		return
	}
	if err := ex.leave(f, s.Assign, s.Output, input, f.Input, s.Default); err != nil {
		ex.fail(f, err)
	}
}

func (ex *execution) wait(f *frame, s *asl.Wait) {
	if s.Seconds != nil {
		seconds, err := ex.evalInteger(f, s.Seconds, 0)
		if err != nil {
			ex.fail(f, err)
			return
		}
		f.Due = f.EnteredAt.Add(time.Duration(seconds) * time.Second)
	} else {
		text, err := ex.evalText(f, s.Timestamp)
		if err != nil {
			ex.fail(f, err)
			return
		}
		due, parseErr := asl.ReadTimestamp(text)
		if parseErr != nil {
			ex.fail(f, ex.evaluationError(f, s.Timestamp, fmt.Sprintf("The JSONata expression specified for the field 'Timestamp' did not return a timestamp: %v.", parseErr)))
			return
		}
		f.Due = due
	}
	f.Phase = phaseWait
	ex.mark(f)
	if !ex.svc.now().Before(f.Due) {
		f.Due = time.Time{}
		ex.leaveOrFail(f, data{input: f.Input}, f.Input)
	}
}

// leaveOrFail leaves a state as its own fields say.
func (ex *execution) leaveOrFail(f *frame, d data, output []byte) {
	common := ex.state(f).Common()
	if err := ex.leave(f, common.Assign, common.Output, d, output, common.Next); err != nil {
		ex.fail(f, err)
	}
}

// leave evaluates Assign and Output, both on the variables as they were, and
// goes on to the next state, or ends the frame's workflow when next is empty.
// Nothing has happened when it returns an error.
func (ex *execution) leave(f *frame, assign, output *asl.Template, d data, fallback []byte, next string) *stateError {
	exited := &stateExitedDetails{Name: f.State}
	var names []string
	var values [][]byte
	if assign != nil {
		var err error
		names, values, err = assign.EvalFields(ex.evaluator(f, d))
		if err != nil {
			return ex.asStateError(f, err)
		}
		size := 0
		exited.Assigned, exited.AssignedDetails = map[string]string{}, &truncation{}
		for i, name := range names {
			size += len(values[i])
			exited.Assigned[name] = string(values[i])
		}
		if size > maxPayload || ex.variablesSize(f)+size > maxVariables {
			return &stateError{Name: errDataLimit, Cause: ex.where(f) + "The size of the assigned variables exceeds the service limit."}
		}
	}
	out := fallback
	if output != nil {
		var err *stateError
		if out, err = ex.eval(f, output, d); err != nil {
			return err
		}
	}
	if len(out) > maxPayload {
		return ex.tooLarge(f.State)
	}
	exited.Output = string(out)
	if len(names) > 0 && f.Vars == nil {
		f.Vars = map[string]json.RawMessage{}
	}
	for i, name := range names {
		f.Vars[name] = values[i]
	}
	ex.emit(f, event{Type: ex.state(f).Common().Type + "StateExited", StateExited: exited})
	ex.dropMapRun(f)
	f.Task, f.Items = nil, nil
	f.Limit, f.StartedEvent, f.started, f.finished = 0, 0, 0, 0
	if next == "" {
		ex.finish(f, out)
		return nil
	}
	f.Phase, f.State, f.Input = phaseEnter, next, out
	ex.ready = append(ex.ready, f)
	return nil
}

// finish ends a frame's workflow with an output.
func (ex *execution) finish(f *frame, output []byte) {
	if f.Parent < 0 {
		ex.end(f, statusSucceeded, output, nil)
		return
	}
	f.Phase, f.Output, f.Input, f.Vars = phaseDone, output, nil, nil
	parent := ex.frames[f.Parent]
	state, isMap := ex.state(parent).(*asl.Map)
	if isMap {
		ex.emit(f, event{Type: "MapIterationSucceeded", IterationSucceeded: &iterationDetails{Name: parent.State, Index: f.Index}})
	}
	ex.mark(f)
	// The parent, which may hold many items, is not written for this: a restart
	// finds its count and its last event in its children.
	parent.finished++
	parent.Prev = f.Prev
	if isMap && parent.started < len(parent.Items) {
		ex.startItem(parent, state)
		return
	}
	if isMap && parent.finished < len(parent.Items) || !isMap && parent.finished < parent.started {
		return
	}
	results := make([]json.RawMessage, parent.started)
	for _, child := range ex.children(parent) {
		results[child.Index] = child.Output
		ex.remove(child)
	}
	result := []byte("[")
	for i, r := range results {
		if i > 0 {
			result = append(result, ',')
		}
		result = append(result, r...)
	}
	ex.joined(parent, append(result, ']'))
}

func (ex *execution) joined(f *frame, result []byte) {
	if len(result) > maxPayload {
		ex.emit(f, event{Type: ex.state(f).Common().Type + "StateFailed"})
		ex.fail(f, ex.tooLarge(f.State))
		return
	}
	ex.emit(f, event{Type: ex.state(f).Common().Type + "StateSucceeded"})
	ex.leaveOrFail(f, data{input: f.Input, result: result}, result)
}

func (ex *execution) children(parent *frame) []*frame {
	var out []*frame
	for _, f := range ex.frames {
		if f.Parent == parent.ID {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *frame) int { return a.ID - b.ID })
	return out
}

func (ex *execution) startParallel(f *frame, s *asl.Parallel) {
	input := []byte(f.Input)
	if s.Arguments != nil {
		var err *stateError
		if input, err = ex.eval(f, s.Arguments, data{input: f.Input}); err != nil {
			ex.fail(f, err)
			return
		}
		if len(input) > maxPayload {
			ex.fail(f, ex.tooLarge(f.State))
			return
		}
	}
	f.StartedEvent = ex.emit(f, event{Type: "ParallelStateStarted"})
	f.Phase, f.started, f.finished = phaseJoin, len(s.Branches), 0
	for i, branch := range s.Branches {
		ex.newFrame(frame{Parent: f.ID, Index: i, Workflow: branch.ID, State: branch.StartAt, Input: input, Prev: f.StartedEvent})
	}
}

func (ex *execution) startMap(f *frame, s *asl.Map) {
	items := []byte(f.Input)
	if s.Items != nil {
		var err *stateError
		if items, err = ex.eval(f, s.Items, data{input: f.Input}); err != nil {
			ex.fail(f, err)
			return
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(items, &list); err != nil || list == nil {
		if s.Items == nil {
			ex.fail(f, &stateError{Name: errQuery, location: "Items", Cause: ex.where(f) + "The state's input, which a Map without Items takes for its items, is not an array."})
		} else {
			ex.fail(f, ex.wrongType(f, s.Items, "array", items))
		}
		return
	}
	limit := int64(0)
	if s.MaxConcurrency != nil {
		var err *stateError
		if limit, err = ex.evalInteger(f, s.MaxConcurrency, 0); err != nil {
			ex.fail(f, err)
			return
		}
	}
	if limit == 0 || limit > asl.InlineConcurrency {
		limit = asl.InlineConcurrency
	}
	f.StartedEvent = ex.emit(f, event{Type: "MapStateStarted", MapStarted: &mapStartedDetails{Length: len(list)}})
	f.Phase, f.Items, f.Limit, f.started, f.finished = phaseJoin, list, int(limit), 0, 0
	if len(list) == 0 {
		ex.joined(f, []byte("[]"))
		return
	}
	for f.started < len(list) && f.started < f.Limit {
		if !ex.startItem(f, s) {
			return
		}
	}
}

// startItem starts a Map's next iteration. It reports false when the Map failed.
func (ex *execution) startItem(f *frame, s *asl.Map) bool {
	index := f.started
	item := f.Items[index]
	input := []byte(item)
	if s.ItemSelector != nil {
		var err *stateError
		if input, err = ex.eval(f, s.ItemSelector, data{input: f.Input, item: item, index: index}); err == nil && len(input) > maxPayload {
			err = ex.tooLarge(f.State)
		}
		if err != nil {
			ex.collapse(f, err)
			return false
		}
	}
	f.started++
	child := ex.newFrame(frame{Parent: f.ID, Index: index, Item: item, Workflow: s.Processor.ID, State: s.Processor.StartAt, Input: input, Prev: f.StartedEvent})
	ex.emit(child, event{Type: "MapIterationStarted", IterationStarted: &iterationDetails{Name: f.State, Index: index}})
	return true
}

// collapse fails a Parallel or Map: what still runs inside is aborted.
func (ex *execution) collapse(f *frame, cause *stateError) {
	if cause.location != "" && !cause.silent {
		ex.emitEvaluationFailed(f, cause)
		cause.silent = true
	}
	for _, child := range ex.children(f) {
		ex.abortFrames(child.ID)
		if child.Item != nil && child.Phase != phaseDone {
			ex.emit(child, event{Type: "MapIterationAborted", IterationAborted: &iterationDetails{Name: f.State, Index: child.Index}})
		}
		ex.remove(child)
	}
	ex.emit(f, event{Type: ex.state(f).Common().Type + "StateFailed"})
	ex.fail(f, cause)
}

// abortFrames writes the Aborted events of a frame and all inside it, and
// removes what is inside.
func (ex *execution) abortFrames(id int) {
	f := ex.frames[id]
	if f == nil || f.Phase == phaseDone {
		return
	}
	for _, child := range ex.children(f) {
		ex.abortFrames(child.ID)
		if child.Item != nil && child.Phase != phaseDone {
			ex.emit(child, event{Type: "MapIterationAborted", IterationAborted: &iterationDetails{Name: f.State, Index: child.Index}})
		}
		ex.remove(child)
	}
	if f.Phase == phaseEnter {
		return
	}
	if f.MapRun != nil {
		ex.emit(f, event{Type: "MapRunAborted"})
	}
	switch kind := ex.state(f).Common().Type; kind {
	case "Task", "Wait", "Parallel", "Map":
		ex.emit(f, event{Type: kind + "StateAborted"})
	}
}

// fail ends an attempt of a frame's state with an error: it is retried, caught,
// or fails the frame's workflow.
func (ex *execution) fail(f *frame, failure *stateError) {
	if failure.location != "" && !failure.silent {
		ex.emitEvaluationFailed(f, failure)
		failure.silent = true
	}
	ex.dropped = append(ex.dropped, f.ID)
	ex.dropMapRun(f)
	f.Task, f.Items = nil, nil
	f.Limit, f.StartedEvent, f.started, f.finished = 0, 0, 0, 0
	ex.mark(f)
	handlers := handlersOf(ex.state(f))
	for i, r := range handlers.Retry {
		if !failure.matches(r.ErrorEquals) {
			continue
		}
		if f.Retries == nil {
			f.Retries = make([]int64, len(handlers.Retry))
		}
		if f.Retries[i] < r.MaxAttempts {
			delay := r.Delay(f.Retries[i], ex.svc.options.Random)
			f.Retries[i]++
			f.RetryCount++
			f.Phase, f.Due = phaseRetry, ex.svc.now().Add(delay)
			return
		}
		break
	}
	for _, c := range handlers.Catch {
		if !failure.matches(c.ErrorEquals) {
			continue
		}
		output := failure.output()
		// What goes wrong inside a catcher is not caught by another one.
		if err := ex.leave(f, c.Assign, c.Output, data{input: f.Input, errorOutput: output}, output, c.Next); err != nil {
			ex.emitEvaluationFailed(f, err)
			err.silent = true
			ex.broke(f, err)
		}
		return
	}
	ex.broke(f, failure)
}

func handlersOf(state asl.State) asl.Handlers {
	switch s := state.(type) {
	case *asl.Task:
		return s.Handlers
	case *asl.Parallel:
		return s.Handlers
	case *asl.Map:
		return s.Handlers
	case *asl.DistributedMap:
		return s.Handlers
	}
	return asl.Handlers{}
}

// broke fails a frame's workflow.
func (ex *execution) broke(f *frame, failure *stateError) {
	if f.Parent < 0 {
		ex.end(f, statusFailed, nil, failure)
		return
	}
	parent := ex.frames[f.Parent]
	if f.Item != nil {
		ex.emit(f, event{Type: "MapIterationFailed", IterationFailed: &iterationDetails{Name: parent.State, Index: f.Index}})
	}
	parent.Prev = f.Prev
	ex.remove(f)
	failure.silent = true
	ex.collapse(parent, failure)
}

// end ends the execution. f is its root frame.
func (ex *execution) end(f *frame, status string, output []byte, failure *stateError) {
	if ex.overflow && status != statusAborted { // whatever it came to, its events have no place
		status, output = statusFailed, nil
		failure = &stateError{Name: errRuntime, Cause: fmt.Sprintf("The execution reached the maximum number of history events (%d).", maxEvents)}
	}
	ex.ended, ex.changed = true, true
	ex.record.Status, ex.record.Stopped = status, ex.svc.now()
	var details *failureDetails
	if failure != nil {
		details = &failureDetails{}
		if failure.Name != "" {
			details.Error = &failure.Name
		}
		if failure.Cause != "" {
			details.Cause = &failure.Cause
		}
		ex.record.Error, ex.record.Cause = details.Error, details.Cause
	}
	e := event{}
	switch status {
	case statusSucceeded:
		ex.record.Output = output
		e.Type, e.ExecutionSucceeded = "ExecutionSucceeded", &executionSucceededDetails{Output: string(output)}
	case statusFailed:
		e.Type, e.ExecutionFailed = "ExecutionFailed", details
	case statusTimedOut:
		e.Type, e.ExecutionTimedOut = "ExecutionTimedOut", details
	case statusAborted:
		e.Type, e.ExecutionAborted = "ExecutionAborted", details
	}
	ex.emit(f, e)
	for _, f := range ex.frames {
		ex.remove(f)
	}
	ex.ready = nil
}

// stop ends the execution for StopExecution: no Catch, no Retry.
func (ex *execution) stop(name, cause string) error {
	if ex.ended {
		return nil // a terminal execution stays as it is
	}
	ex.abortFrames(0)
	ex.end(ex.frames[0], statusAborted, nil, &stateError{Name: name, Cause: cause})
	return nil
}

// data is what $states holds where an expression stands; nil members do not exist.
type data struct {
	input, result, errorOutput []byte
	item                       []byte // of the Map iteration that is about to start
	index                      int
}

func (ex *execution) evaluator(f *frame, d data) func(*jsonata.Program, string) ([]byte, error) {
	bindings := jsonata.Bindings{
		States: func(member string) ([]byte, bool) {
			switch member {
			case "input":
				return d.input, d.input != nil
			case "result":
				return d.result, d.result != nil
			case "errorOutput":
				return d.errorOutput, d.errorOutput != nil
			case "context":
				return ex.contextObject(f, d), true
			}
			return nil, false
		},
		Var: func(name string) ([]byte, bool) {
			for g := f; g != nil; g = ex.frames[g.Parent] {
				if v, ok := g.Vars[name]; ok {
					return v, true
				}
			}
			return nil, false
		},
	}
	return func(p *jsonata.Program, location string) ([]byte, error) {
		out, err := ex.svc.engine.Eval(p, bindings)
		var problem *jsonata.Error
		switch {
		case err == nil:
			return out, nil
		case !errors.As(err, &problem):
			return nil, &stateError{Name: errRuntime, Cause: ex.where(f) + err.Error()}
		case problem.Undefined:
			return nil, &stateError{Name: errQuery, location: location, Cause: fmt.Sprintf("%sThe JSONata expression '%s' specified for the field '%s' returned nothing (undefined).", ex.where(f), p.Source, location)}
		default:
			return nil, &stateError{Name: errQuery, location: location, Cause: fmt.Sprintf("%sThe JSONata expression '%s' specified for the field '%s' threw an error during evaluation. %v.", ex.where(f), p.Source, location, problem)}
		}
	}
}

func (ex *execution) asStateError(f *frame, err error) *stateError {
	var failure *stateError
	if errors.As(err, &failure) {
		return failure
	}
	return &stateError{Name: errRuntime, Cause: ex.where(f) + err.Error()}
}

func (ex *execution) eval(f *frame, t *asl.Template, d data) ([]byte, *stateError) {
	out, err := t.Eval(ex.evaluator(f, d))
	if err != nil {
		return nil, ex.asStateError(f, err)
	}
	return out, nil
}

// where starts every cause that concerns a state, as AWS words it.
func (ex *execution) where(f *frame) string {
	return fmt.Sprintf("An error occurred while executing the state '%s' (entered at the event id #%d). ", f.State, f.Entered)
}

func (ex *execution) evaluationError(f *frame, t *asl.Template, text string) *stateError {
	return &stateError{Name: errQuery, location: t.Location, Cause: ex.where(f) + text}
}

func (ex *execution) wrongType(f *frame, t *asl.Template, want string, value []byte) *stateError {
	source := "the literal"
	if p, ok := t.Expression(); ok {
		source = p.Source
	}
	return ex.evaluationError(f, t, fmt.Sprintf("The JSONata expression '%s' specified for the field '%s' returned an unexpected result type. Expected '%s', but was '%s' for value: %s", source, t.Location, want, typeName(value), value))
}

func typeName(value []byte) string {
	if len(value) == 0 {
		return "undefined"
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func (ex *execution) evalText(f *frame, t *asl.Template) (string, *stateError) {
	value, err := ex.eval(f, t, data{input: f.Input})
	if err != nil {
		return "", err
	}
	var text string
	if typeName(value) != "string" || json.Unmarshal(value, &text) != nil {
		return "", ex.wrongType(f, t, "string", value)
	}
	return text, nil
}

// evalInteger evaluates a number of seconds or a count.
func (ex *execution) evalInteger(f *frame, t *asl.Template, low int64) (int64, *stateError) {
	return ex.evalIntegerTo(f, t, low, 99999999)
}

func (ex *execution) evalIntegerTo(f *frame, t *asl.Template, low, high int64) (int64, *stateError) {
	value, err := ex.eval(f, t, data{input: f.Input})
	if err != nil {
		return 0, err
	}
	if typeName(value) != "number" {
		return 0, ex.wrongType(f, t, "number", value)
	}
	n, parseErr := strconv.ParseInt(string(value), 10, 64)
	if parseErr != nil || n < low || n > high {
		return 0, ex.evaluationError(f, t, fmt.Sprintf("The value %s of the field '%s' is not an integer from %d to %d.", value, t.Location, low, high))
	}
	return n, nil
}

// maxVariables bounds all variables an expression can see, in bytes.
const maxVariables = 10 << 20

func (ex *execution) variablesSize(f *frame) int {
	size := 0
	for g := f; g != nil; g = ex.frames[g.Parent] {
		for _, v := range g.Vars {
			size += len(v)
		}
	}
	return size
}

func (ex *execution) tooLarge(name string) *stateError {
	return &stateError{Name: errDataLimit, Cause: fmt.Sprintf("The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit.", name)}
}

func (ex *execution) emitEvaluationFailed(f *frame, failure *stateError) {
	if failure.location == "" {
		return
	}
	ex.emit(f, event{Type: "EvaluationFailed", EvaluationFailed: &evaluationFailedDetails{State: f.State, Error: failure.Name, Cause: failure.Cause, Location: failure.location}})
}

const isoMillis = "2006-01-02T15:04:05.000Z"

// contextObject is $states.context where a frame stands.
func (ex *execution) contextObject(f *frame, d data) []byte {
	type object = map[string]any
	context := object{
		"Execution": object{"Id": ex.arn, "Name": ex.record.Name, "RoleArn": ex.record.RoleARN, "RedriveCount": 0,
			"StartTime": ex.record.Started.UTC().Format(isoMillis), "Input": json.RawMessage(ex.record.Input)},
		"State":        object{"Name": f.State, "EnteredTime": f.EnteredAt.UTC().Format(isoMillis), "RetryCount": f.RetryCount},
		"StateMachine": object{"Id": ex.svc.machineARN(ex.record.Machine), "Name": ex.record.Machine},
	}
	if s, ok := ex.state(f).(*asl.Task); ok && s.WaitForToken && f.Task != nil {
		context["Task"] = object{"Token": ex.svc.token(ex.seq, f.ID, f.Task.Number)}
	}
	if d.item != nil {
		context["Map"] = object{"Item": object{"Index": d.index, "Value": json.RawMessage(d.item)}}
	} else {
		for g := f; g != nil; g = ex.frames[g.Parent] {
			if g.Item != nil {
				context["Map"] = object{"Item": object{"Index": g.Index, "Value": g.Item}}
				break
			}
		}
	}
	out, err := encode(context)
	if err != nil { // all parts are strings, numbers or valid JSON
		panic(err)
	}
	return out
}
