package execution

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A Queue does the work of executions elsewhere, in its own time: the adapter's function
// hands it over and returns, and whoever is told of its end goes on with the execution,
// or else the minute tick. That work has no effect outside, so that it may be done again
// where whoever did it was lost: until it has counted, once (X1, X6).
//
// The order of writes is:
//
//  1. What the work is given is an object before the record says that it is queued. The
//     record holds what of the storage is in it. What is handed over follows from the
//     record alone: it can be handed over again by anyone, and is the same.
//  2. It is handed over after the record says so: who ends the execution before that
//     finds nothing to cancel, and who hands it over looks at the record again after it.
//  3. What it asks the Host for is noted by its digest before its result counts. Work
//     that is done again after that, since its result was lost, has to ask for the same.
//  4. Its result counts before it is computed (Finisher), so that it is never done again.
type Queue interface {
	// Ref names the work of an execution.
	Ref(executionID string) string
	// Gather reads what the work of a call is given, an object, and says what of the
	// storage is in it.
	Gather(ctx context.Context, c capability.Call) (input canon.Raw, reads []host.Expectation, err error)
	// Begin hands work over, or finds it handed over.
	Begin(ctx context.Context, o Order) error
	// Look tells how work stands.
	Look(ctx context.Context, ref string) (Progress, error)
	// Cancel ends work. That there is none, or that it has ended, is no error.
	Cancel(ctx context.Context, ref string) error
}

// An Order is the work of an execution.
type Order struct {
	ExecutionID string
	Instance    capability.Instance
	Capability  capability.Capability
	Input       canon.Raw
}

// A Progress is how work stands. Of work that is over there is a result or a failure.
type Progress struct {
	Standing Standing
	Result   capability.Result
	Failure  *capability.Failure
}

// A Standing is where work stands.
type Standing string

// The standings.
const (
	Nowhere Standing = "nowhere" // nobody has handed it over
	Going   Standing = "going"
	Over    Standing = "over"
	Stopped Standing = "stopped" // it was cancelled
)

// QueueTime is what an execution has beside its capability's time where a queue does its
// work: to wait for somebody who does it, and for others where they are lost.
const QueueTime = 30 * time.Minute

// queued reports whether a queue does the work of an adapter.
func queued(a capability.AdapterName) bool { return a == capability.SandboxPython }

// forward takes the next steps of an execution whose work a queue does. The context ends
// with the time of whoever calls, not with that of the execution.
func (r *Runner) forward(ctx context.Context, executionID string) error {
	e, err := r.claim(ctx, executionID)
	if err == nil && !e.State.Terminal() && e.Phase == host.Claimed {
		e, err = r.gather(ctx, e)
	}
	switch {
	case err != nil || e.State.Terminal():
		return err
	case e.Phase == host.Queued:
		return stale(r.follow(ctx, e))
	case e.Phase == host.Computed:
		_, err := r.finisher().resume(ctx, e)
		return stale(err)
	}
	return nil
}

// stale drops that another has gone on.
func stale(err error) error {
	if errors.Is(err, ErrStale) {
		return nil
	}
	return err
}

// gather reads what the work is given, and writes down that it is queued.
func (r *Runner) gather(ctx context.Context, e host.Execution) (host.Execution, error) {
	next := e
	call, _, err := r.call(ctx, &e)
	if err == nil {
		var input canon.Raw
		if input, next.Reads, err = r.Queue.Gather(ctx, call); err == nil {
			next.Input, err = put(ctx, r.Objects, e.Workspace, input)
		}
	}
	if err != nil {
		if failed := r.fail(ctx, e, err); failed != nil {
			return e, failed
		}
		return r.Store.Execution(ctx, e.ExecutionID)
	}
	next.Phase, next.JobRef, next.DueAt = host.Queued, r.Queue.Ref(e.ExecutionID), r.Now().Add(due)
	if err := r.Store.Apply(ctx, host.Step{Execution: next}); err != nil && !errors.Is(err, host.ErrMoved) {
		return e, err
	}
	// Moved: by this call's own lost write, by who has cancelled it, or by another who has
	// claimed it. All can be read.
	return r.Store.Execution(ctx, e.ExecutionID)
}

// follow looks at the work of an execution, and goes on with what has come of it.
func (r *Runner) follow(ctx context.Context, e host.Execution) error {
	f := r.finisher()
	if e.Cancel {
		return r.stop(ctx, e, host.Cancelled, nil)
	}
	p, err := r.Queue.Look(ctx, e.JobRef)
	if err != nil {
		return err
	}
	over := !e.Deadline.After(r.Now())
	switch {
	case p.Standing == Stopped && !over:
		_, err = f.end(ctx, e, host.Cancelled, nil)
	case p.Standing == Over && p.Failure != nil:
		_, err = f.Fail(ctx, e.ExecutionID, e.Fence, p.Failure)
	case p.Standing == Over:
		_, err = f.Complete(ctx, e.ExecutionID, e.Fence, p.Result)
		if failure := (*capability.Failure)(nil); errors.As(err, &failure) {
			err = nil // it has ended, and by other actions: there is nothing to go on with
		}
	case over:
		err = r.stop(ctx, e, host.Failed, &capability.Failure{Code: outcome.ExtensionTimeout})
	case p.Standing == Nowhere:
		err = r.begin(ctx, e)
	}
	return err
}

// stop ends the work of an execution, and then the execution. Who dies in between has
// stopped work that nobody else goes on with.
func (r *Runner) stop(ctx context.Context, e host.Execution, state host.State, failure *capability.Failure) error {
	if err := r.Queue.Cancel(ctx, e.JobRef); err != nil {
		return err
	}
	_, err := r.finisher().end(ctx, e, state, failure)
	return err
}

// begin hands the work of an execution over.
func (r *Runner) begin(ctx context.Context, e host.Execution) error {
	in, c, err := installed(ctx, r.Store, r.Workspaces, e)
	if err == nil {
		o := Order{ExecutionID: e.ExecutionID, Instance: in.Instance, Capability: c}
		if o.Input, err = get(ctx, r.Objects, e.Workspace, e.Input); err == nil {
			err = r.Queue.Begin(ctx, o)
		}
	}
	if err != nil {
		_, err = r.finisher().refuse(ctx, e, err)
		return err
	}
	now, err := r.Store.Execution(ctx, e.ExecutionID)
	switch {
	case err != nil:
		return err
	case now.State.Terminal():
		if now.State == host.Succeeded { // of this very work: it was quick
			return nil
		}
		return r.Queue.Cancel(ctx, e.JobRef)
	case now.Cancel && now.Phase == host.Queued:
		return r.stop(ctx, now, host.Cancelled, nil)
	case now.Phase == host.Queued:
		// Where nobody can do it, that is known by now.
		p, err := r.Queue.Look(ctx, e.JobRef)
		if err == nil && p.Standing == Over && p.Failure != nil {
			_, err = r.finisher().Fail(ctx, e.ExecutionID, now.Fence, p.Failure)
		}
		return err
	}
	return nil
}

// Note is Finisher.Note.
func (r *Runner) Note(ctx context.Context, executionID string, actions []capability.Action) error {
	return r.finisher().Note(ctx, executionID, actions)
}

// Note keeps what work asks the Host for, by its digest, before its result counts. The
// first that was noted stands: Complete refuses others.
func (f *Finisher) Note(ctx context.Context, executionID string, actions []capability.Action) error {
	digest, err := digestOf(actions)
	if err != nil {
		return err
	}
	for range attempts {
		e, err := f.Store.Execution(ctx, executionID)
		if err != nil || e.State.Terminal() || e.Phase != host.Queued || e.Actions == digest {
			return err
		}
		if e.Actions != "" {
			slog.WarnContext(ctx, "a job asks for other changes than it did before", "executionId", executionID)
			return nil
		}
		e.Actions = digest
		if err := f.Store.Apply(ctx, host.Step{Execution: e}); !errors.Is(err, host.ErrMoved) {
			return err
		}
	}
	return errBusy
}

// digestOf is of the actions of a result, and of none too.
func digestOf(actions []capability.Action) (string, error) {
	return canon.DigestOf(append([]capability.Action{}, actions...))
}
