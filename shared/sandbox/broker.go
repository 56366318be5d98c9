package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
)

// A Broker is what workers call, and all that they may call.
//
// Whose a job is stands in its row. Nothing that a worker says about itself makes it
// a reader or writer of any Project: it gets the spec of the job that it leases, and
// its result goes where the row says.
type Broker struct {
	*Jobs
	// Executions are those whose work jobs of plugins are; nil where there are none.
	Executions Executions
}

// Executions go on with what comes of jobs of plugins. A job that ends elsewhere, as
// where its worker is lost, they find ended when they look next.
type Executions interface {
	// Note is told what a job gave before that counts: should the job be run again after
	// all, it has to ask for the same changes.
	Note(ctx context.Context, executionID string, result Result) error
	// Ended goes on with the execution of a job that has ended. To call it again does
	// nothing twice.
	Ended(ctx context.Context, executionID string) error
}

// Handle performs one request of a worker. What is no request is an error that wraps
// ErrMalformed; a stale fence is an answer.
func (b Broker) Handle(ctx context.Context, text canon.Raw) (any, error) {
	q, err := DecodeRequest(text)
	if err != nil {
		return nil, err
	}
	switch q.Op {
	case "claim":
		return b.Claim(ctx, q)
	case "heartbeat":
		return b.Heartbeat(ctx, q.Worker, q.JobRef, q.Fence)
	case "complete":
		return b.Complete(ctx, q)
	case "drain":
		return Noted{}, b.stand(ctx, q.Worker, Draining)
	case "unfit":
		return Noted{}, b.Unfit(ctx, q.Worker, q.Reason)
	}
	return nil, fmt.Errorf("%w: request: op", ErrMalformed)
}

// look is how many jobs a claim tries to lease before it says that there is none:
// each was taken by another worker in that moment.
const look = 16

// Claim leases the oldest job that the worker may have. A job whose lease ran out is
// one. A worker that was draining and gets a job serves again, and has to drain again
// before it ends.
func (b Broker) Claim(ctx context.Context, q Request) (Claimed, error) {
	worker, err := b.seen(ctx, q)
	if err != nil {
		return Claimed{}, err
	}
	tenant := worker.Tenant
	if q.Tenant != "" {
		if tenant != "" && tenant != q.Tenant {
			return Claimed{}, nil
		}
		tenant = q.Tenant
	}
	refs, err := b.Store.Leasable(ctx, Search{Now: b.now(), Tenant: tenant, Limit: look})
	if err != nil {
		return Claimed{}, err
	}
	for _, ref := range refs {
		job, err := b.lease(ctx, ref, &worker, tenant)
		if err != nil { // it may have been leased: two at once is more than was asked for
			return Claimed{}, err
		}
		if job == nil {
			continue
		}
		if worker.Standing == Draining {
			if err := b.stand(ctx, worker.Ref, Serving); err != nil {
				// It has the job all the same: that nobody counts on it costs another worker
				// at most, and a lease that its holder is not told of costs an attempt.
				slog.WarnContext(ctx, "a worker that serves again is taken to drain", "worker", worker.Ref, "error", err)
			}
		}
		return Claimed{Job: job}, nil
	}
	leave, err := b.inTheWay(ctx, worker)
	if err != nil {
		slog.WarnContext(ctx, "a worker is not asked to leave", "worker", worker.Ref, "error", err)
	}
	return Claimed{Leave: leave}, nil
}

// inTheWay reports whether a worker that belongs to one tenant, and has no job of it,
// takes the place of one for a tenant whose job waits: there are as many as there may be.
func (b Broker) inTheWay(ctx context.Context, w Worker) (bool, error) {
	if w.Driver != OneTenant || w.Tenant == "" {
		return false, nil
	}
	refs, err := b.Store.Leasable(ctx, Search{Now: b.now(), Limit: look})
	if err != nil || len(refs) == 0 {
		return false, err
	}
	fleet, err := b.Store.Fleet(ctx)
	if err != nil || b.live(fleet) < b.most() {
		return false, err
	}
	for _, ref := range refs {
		row, err := b.Store.Job(ctx, ref)
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			return false, err
		}
		// One that has just come may be taken by a worker that is about to ask.
		if err == nil && row.Tenant() != w.Tenant && row.Leasable(b.now()) && b.now().Sub(row.CreatedAt) > b.take(waitsFor) {
			return true, nil
		}
	}
	return false, nil
}

// seen keeps the row of a worker that calls alive.
func (b Broker) seen(ctx context.Context, q Request) (Worker, error) {
	for range attemptsAt {
		w, err := b.Store.Worker(ctx, q.Worker)
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			return w, err
		}
		now, is := b.now(), w
		is.Ref, is.Slots, is.Python, is.GVisor, is.Driver = q.Worker, q.Slots, q.Python, q.GVisor, q.Driver
		if is.Standing != Draining {
			is.Standing = Serving
		}
		if is == w && now.Sub(w.SeenAt) < b.take(seenLag) && w.Until.After(now) {
			return w, nil
		}
		is.SeenAt, is.Until = now, now.Add(b.take(seenFor))
		switch err := b.Store.SaveWorker(ctx, is); {
		case err == nil:
			is.Version++
			return is, nil
		case !errors.Is(err, ErrMoved):
			return w, err
		}
	}
	return Worker{}, fmt.Errorf("sandbox: %s: %w", q.Worker, ErrMoved)
}

// touch keeps the row of a worker alive that beats.
func (b Broker) touch(ctx context.Context, ref string) error {
	w, err := b.Store.Worker(ctx, ref)
	now := b.now()
	if errors.Is(err, history.ErrNotFound) || err == nil && now.Sub(w.SeenAt) < b.take(seenLag) {
		return nil
	}
	if err != nil {
		return err
	}
	w.SeenAt, w.Until = now, now.Add(b.take(seenFor))
	if err := b.Store.SaveWorker(ctx, w); !errors.Is(err, ErrMoved) { // moved: it was seen elsewhere
		return err
	}
	return nil
}

// stand changes how a worker stands. One that there is not stays so.
func (b Broker) stand(ctx context.Context, ref string, to Standing) error {
	for range attemptsAt {
		w, err := b.Store.Worker(ctx, ref)
		if errors.Is(err, history.ErrNotFound) || err == nil && w.Standing == to {
			return nil
		}
		if err != nil {
			return err
		}
		w.Standing = to
		switch to {
		case Unfit:
			w.SeenAt, w.Until = b.now(), b.now().Add(b.take(unfitFor))
		default:
			w.SeenAt, w.Until = b.now(), b.now().Add(b.take(seenFor))
		}
		if err := b.Store.SaveWorker(ctx, w); !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("sandbox: %s: %w", ref, ErrMoved)
}

// lease gives the worker a job if it still can be had; nil is that it cannot. The spec
// is read first, so that a lease which was given can be told of.
func (b Broker) lease(ctx context.Context, ref string, worker *Worker, tenant string) (*LeasedJob, error) {
	claim, spec := b.NewRef("claim_"), ""
	for range attemptsAt {
		row, err := b.Store.Job(ctx, ref)
		if errors.Is(err, history.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if row.State == Leased && row.Claim == claim { // the reply of our write was lost
			return leased(row, spec), nil
		}
		now := b.now()
		// worker.Tenant may be newer than the search: an earlier job of it, which another
		// worker got after all, may have bound this one.
		if !row.Leasable(now) || tenant != "" && row.Tenant() != tenant || worker.Tenant != "" && row.Tenant() != worker.Tenant {
			return nil, nil
		}
		switch {
		case row.Attempts >= MaxAttempts:
			_, err := b.fail(ctx, ref, WorkerLost, func(is Job) bool { return is.Fence == row.Fence && is.Leasable(now) })
			return nil, err
		case !fits(row.Python, worker.Python):
			_, err := b.fail(ctx, ref, PythonUnavailable, func(is Job) bool { return is.Leasable(now) })
			return nil, err
		case worker.Driver == OneTenant && worker.Tenant == "":
			// Durable before the code is there: no later claim gives it another's.
			bound := *worker
			bound.Tenant = row.Tenant()
			err := b.Store.SaveWorker(ctx, bound)
			if errors.Is(err, ErrMoved) {
				fresh, err := b.Store.Worker(ctx, worker.Ref)
				if err != nil || fresh.Tenant != "" && fresh.Tenant != row.Tenant() {
					return nil, err
				}
				*worker = fresh
				continue
			}
			if err != nil {
				return nil, err
			}
			bound.Version++
			*worker = bound
		}
		if spec == "" {
			bodies, err := b.Objects.Get(ctx, row.Space(), row.Spec)
			if errors.Is(err, history.ErrNotFound) { // was durable before the row: it is gone for good
				_, err := b.fail(ctx, ref, SpecRefused, func(is Job) bool { return is.Leasable(now) })
				return nil, err
			}
			if err != nil { // those behind it in the queue need not wait for it
				slog.WarnContext(ctx, "a job is not leased, since its spec cannot be read", "jobRef", ref, "error", err)
				return nil, nil
			}
			spec = string(bodies[0])
		}
		row.State, row.Worker, row.Claim, row.LeasedAt, row.Until = Leased, worker.Ref, claim, now, now.Add(b.take(leaseFor))
		row.Fence++
		row.Attempts++
		row.DueAt = row.Until.Add(b.take(dueLeased))
		switch err := b.Store.ReplaceJob(ctx, row); {
		case err == nil:
			return leased(row, spec), nil
		case !errors.Is(err, ErrMoved):
			return nil, err
		}
	}
	return nil, nil
}

func leased(row Job, spec string) *LeasedJob {
	return &LeasedJob{JobRef: row.JobRef, Fence: row.Fence, Until: row.Until, Spec: spec, Signature: row.Signature}
}

// fits reports whether a Python, as "3.11.2", is of the minor version that is
// pinned, as "3.11"; "" pins none.
func fits(pinned, python string) bool {
	return pinned == "" || python == pinned || strings.HasPrefix(python, pinned+".")
}

// Heartbeat carries the lease on, unless it is stale or the job was cancelled. It may
// be called as often as the worker likes to know of a cancellation: a lease that is
// young is looked at and not written. A job that is over its own limit of time by
// more than a minute is not carried on: its worker has lost it.
func (b Broker) Heartbeat(ctx context.Context, worker, jobRef string, fence int64) (Beaten, error) {
	for range attemptsAt {
		row, err := b.Store.Job(ctx, jobRef)
		if errors.Is(err, history.ErrNotFound) {
			return Beaten{Stale: true}, nil
		}
		now := b.now()
		switch {
		case err != nil:
			return Beaten{}, err
		case row.Fence != fence || row.Worker != worker:
			return Beaten{Stale: true}, nil
		case row.State == Cancelled:
			return Beaten{Cancel: true}, nil
		case row.State != Leased, !row.Until.After(now), now.Sub(row.LeasedAt) > time.Duration(row.WallMilliseconds)*time.Millisecond+overWall:
			return Beaten{Stale: true}, nil
		}
		// A worker whose slots are all taken claims nothing, and is there all the same.
		if err := b.touch(ctx, worker); err != nil {
			return Beaten{}, err
		}
		switch {
		case row.Until.Sub(now) > b.take(leaseFor)-b.take(leaseLag):
			return Beaten{Until: row.Until}, nil
		}
		row.Until = now.Add(b.take(leaseFor))
		row.DueAt = row.Until.Add(b.take(dueLeased))
		switch err := b.Store.ReplaceJob(ctx, row); {
		case err == nil:
			return Beaten{Until: row.Until}, nil
		case !errors.Is(err, ErrMoved):
			return Beaten{}, err
		}
	}
	return Beaten{}, fmt.Errorf("sandbox: %s: %w", jobRef, ErrMoved)
}

// Complete ends a leased job with what its worker says. The same completion again is
// accepted again and changes nothing; one with a stale fence is not accepted.
func (b Broker) Complete(ctx context.Context, q Request) (Completed, error) {
	row, err := b.Store.Job(ctx, q.JobRef)
	if errors.Is(err, history.ErrNotFound) {
		return Completed{}, nil
	}
	if err != nil {
		return Completed{}, err
	}
	mine := func(is Job) bool { return is.State == Leased && is.Fence == q.Fence && is.Worker == q.Worker }
	if !mine(row) && !row.State.Terminal() {
		slog.InfoContext(ctx, "a stale completion was refused", "jobRef", q.JobRef, "worker", q.Worker, "fence", q.Fence)
		return Completed{}, nil
	}
	reason, again := reasonOf(q), false
	var result history.Ref
	var said Result
	if reason == "" {
		if said, reason, err = b.check(ctx, row, q.Result); err != nil {
			return Completed{}, err
		}
	}
	switch {
	case reason == "":
		result = history.RefOf(q.Result)
		if mine(row) {
			if err := b.Objects.Put(ctx, row.Space(), q.Result); err != nil {
				return Completed{}, err
			}
			if row.Kind == Entrypoint {
				if err := b.Executions.Note(ctx, row.Plugin.ExecutionID, said); err != nil {
					return Completed{}, err
				}
			}
		}
	case reason == ResultRefused || reason == ResultTooLarge:
	case !final[reason] && row.Attempts < MaxAttempts:
		again = true
	}
	if again {
		return b.again(ctx, q)
	}
	if row, err = b.end(ctx, q.JobRef, mine, func(is *Job) {
		is.State, is.Result, is.Reason = Done, result, reason
		if reason != "" {
			is.State = Failed
			slog.WarnContext(ctx, "a job failed", "jobRef", q.JobRef, "reason", string(reason), "worker", q.Worker)
		}
	}); err != nil {
		return Completed{}, err
	}
	accepted := (row.State == Done || row.State == Failed) && row.Fence == q.Fence && row.Worker == q.Worker && row.Result == result && row.Reason == reason
	if !accepted {
		slog.InfoContext(ctx, "a stale completion was refused", "jobRef", q.JobRef, "worker", q.Worker, "fence", q.Fence)
	}
	if accepted && row.Kind == Entrypoint {
		if err := b.Executions.Ended(ctx, row.Plugin.ExecutionID); err != nil {
			// What the worker handed in counts: it has nothing to do any more.
			slog.WarnContext(ctx, "an execution did not go on; the tick will", "executionId", row.Plugin.ExecutionID, "jobRef", q.JobRef, "error", err)
		}
	}
	return Completed{accepted}, nil
}

// check reads a result, or says why it is not one of the job.
func (b Broker) check(ctx context.Context, row Job, text []byte) (Result, Reason, error) {
	result, err := DecodeResult(text)
	var large *LimitError
	if errors.As(err, &large) {
		slog.WarnContext(ctx, "a result was refused", "jobRef", row.JobRef, "cause", err)
		return result, ResultTooLarge, nil
	}
	if errors.Is(err, ErrMalformed) {
		slog.WarnContext(ctx, "a result was refused", "jobRef", row.JobRef, "cause", err)
		return result, ResultRefused, nil
	}
	if err != nil {
		return result, "", err
	}
	bodies, err := b.Objects.Get(ctx, row.Space(), row.Spec)
	if err != nil {
		return result, "", fmt.Errorf("sandbox: %s: spec: %w", row.JobRef, err)
	}
	spec, err := DecodeSpec(bodies[0])
	if err != nil {
		return result, "", err
	}
	if err := result.Answers(spec); err != nil {
		slog.WarnContext(ctx, "a result was refused", "jobRef", row.JobRef, "cause", err)
		return result, ResultRefused, nil
	}
	return result, "", nil
}

// again puts a job back that its worker could not run.
func (b Broker) again(ctx context.Context, q Request) (Completed, error) {
	for range attemptsAt {
		row, err := b.Store.Job(ctx, q.JobRef)
		if err != nil {
			return Completed{}, err
		}
		if row.Fence != q.Fence || row.Worker != q.Worker {
			return Completed{}, nil
		}
		if row.State != Leased {
			return Completed{row.State == Queued}, nil
		}
		row.State, row.Until, row.DueAt = Queued, time.Time{}, b.now().Add(b.take(dueQueued))
		if err := b.Store.ReplaceJob(ctx, row); !errors.Is(err, ErrMoved) {
			return Completed{err == nil}, err
		}
	}
	return Completed{}, fmt.Errorf("sandbox: %s: %w", q.JobRef, ErrMoved)
}

// Unfit is told that the probe of a worker failed: it ends and runs nothing. Where no
// other worker is there or comes, the jobs that wait fail as Unavailable now, and not
// when their time is over.
func (b Broker) Unfit(ctx context.Context, ref, reason string) error {
	slog.ErrorContext(ctx, "a worker is unfit to run Python", "worker", ref, "reason", reason)
	if err := b.stand(ctx, ref, Unfit); err != nil {
		return err
	}
	fleet, err := b.Store.Fleet(ctx)
	if err != nil {
		return err
	}
	refs, err := b.Store.Leasable(ctx, Search{Now: b.now(), Limit: 1000})
	if err != nil {
		return err
	}
	var failures []error
	for _, jobRef := range refs {
		_, err := b.fail(ctx, jobRef, Unavailable, func(is Job) bool {
			for _, w := range fleet.Workers {
				if w.Serves(is.Tenant(), b.now()) {
					return false
				}
			}
			return is.State == Queued
		})
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
