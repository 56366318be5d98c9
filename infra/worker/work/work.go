// Package work is the worker's main loop: it claims jobs, runs them, keeps their
// leases alive, and ends when there is nothing to do. How Functions are isolated is
// its Runner's matter, how jobs are kept its Broker's.
package work

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/worker/broker"
	"github.com/pxhost/pxhost/infra/worker/job"
)

// A Broker keeps the jobs. See package broker.
type Broker interface {
	Claim(ctx context.Context, c broker.Claim) (leased *broker.Leased, leave bool, err error)
	Heartbeat(ctx context.Context, jobRef string, fence int64) (broker.Beat, error)
	Complete(ctx context.Context, jobRef string, fence int64, result []byte) (accepted bool, err error)
	Fail(ctx context.Context, jobRef string, fence int64, why broker.Failure) (accepted bool, err error)
	Drain(ctx context.Context) error
}

// A Runner runs a job whose signature was seen. It returns when nothing of the job is
// left on this machine, also where ctx ends first.
type Runner interface {
	Run(ctx context.Context, spec job.Spec, text []byte) (job.Result, error)
	// Warm is how many jobs could start at once. A worker claims none that would wait.
	Warm() int
}

// A Worker serves one installation.
type Worker struct {
	Broker Broker
	Runner Runner
	Key    ed25519.PublicKey // whose jobs it runs
	Is     broker.Claim      // Slots is how many jobs it runs at once
	// Idle is how long the worker waits for a job before it ends, unless it is asked to
	// leave before; 0 is for ever.
	Idle time.Duration
}

// Times of the loop.
const (
	busyPoll = 20 * time.Millisecond
	idlePoll = time.Second
	// A job that has ended is often followed by the next of its Run: it is asked for
	// most often for busyFor.
	busyFor = 500 * time.Millisecond
	// Where there was a job, another one is likely soon, and somebody waits for it:
	// only after eagerFor does a worker ask as rarely as an idle one.
	eagerPoll = 50 * time.Millisecond
	eagerFor  = 30 * time.Second
	// beat is how often a running job is asked after. The lease lasts 30 s and is carried
	// on by every third of that; asking each second is what ends a cancelled job within
	// two.
	beat = time.Second
	// callFor bounds one call of the broker.
	callFor = 10 * time.Second
	// completeFor is how long a result is offered: longer than a lease, since whether
	// it counts is for the broker to say.
	completeFor = time.Minute
	// coldFor is how long no sandbox may be warm while a slot is free: a worker that
	// cannot run jobs must not look like one.
	coldFor = 2 * time.Minute
	// leaveAfter is what running jobs have after a SIGTERM; ECS kills after 30 s.
	leaveAfter = 20 * time.Second
)

// ErrCold says that sandboxes do not start any more.
var ErrCold = errors.New("work: no sandbox becomes warm")

// Run works until it has been idle for long enough, or until ctx ends or the broker
// refuses its claims for good: then it takes no job any more, gives those that run a
// while to end, and leaves the rest to others, who get them when their leases run out.
func (w *Worker) Run(ctx context.Context) error {
	// Jobs and what is said about them outlive ctx.
	jobs, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	var running sync.WaitGroup
	ended := make(chan struct{}, w.Is.Slots) // one for each job that has
	free, poll, since := w.Is.Slots, busyPoll, time.Now()
	draining, could := false, time.Now()
	var refused error
	for ctx.Err() == nil && refused == nil {
		warm := w.Runner.Warm() > 0
		if warm || free == 0 {
			could = time.Now()
		}
		if time.Since(could) > coldFor {
			return errors.Join(ErrCold, w.drain(jobs))
		}
		if free == 0 || !warm {
			select {
			case <-ctx.Done():
			case <-ended:
				free++
			case <-time.After(busyPoll):
			}
			continue
		}
		leased, leave, err := w.claim(ctx)
		switch {
		case errors.Is(err, broker.ErrRefused):
			refused = err // as of a worker of another version: it would get no job, ever
			continue
		case err != nil && ctx.Err() == nil:
			slog.WarnContext(ctx, "no claim", "cause", err.Error())
			poll = idlePoll
		case leased != nil:
			draining, free, poll, since = false, free-1, busyPoll, time.Now()
			running.Go(func() {
				w.serve(jobs, *leased)
				ended <- struct{}{}
			})
			continue
		case draining && err == nil:
			// It claimed once more after everyone could see that it ends.
			slog.InfoContext(ctx, "idle: the worker ends")
			return nil
		}
		if w.Idle > 0 && !draining && free == w.Is.Slots && (leave || time.Since(since) >= w.Idle) {
			if err := w.drain(ctx); err == nil {
				draining = true
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-ended:
			free, poll, since = free+1, busyPoll, time.Now()
		case <-time.After(poll):
			most := idlePoll
			switch quiet := time.Since(since); {
			case quiet < busyFor:
				most = busyPoll
			case quiet < eagerFor:
				most = eagerPoll
			}
			poll = min(poll*3/2, most)
		}
	}
	if err := w.drain(jobs); err != nil {
		slog.WarnContext(ctx, "no drain", "cause", err.Error())
	}
	leave := time.AfterFunc(leaveAfter, func() { abandon(errors.New("work: the worker ends")) })
	defer leave.Stop()
	running.Wait()
	return refused
}

func (w *Worker) claim(ctx context.Context) (*broker.Leased, bool, error) {
	ctx, stop := context.WithTimeout(ctx, callFor)
	defer stop()
	return w.Broker.Claim(ctx, w.Is)
}

func (w *Worker) drain(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, callFor)
	defer stop()
	return w.Broker.Drain(ctx)
}

// errLost ends a job whose lease is another's, or is not known to be ours any more.
var (
	errLost      = errors.New("work: the lease is lost")
	errCancelled = errors.New("work: the job was cancelled")
)

// serve runs one leased job and says what came of it.
func (w *Worker) serve(ctx context.Context, l broker.Leased) {
	log := slog.With("jobRef", l.JobRef, "fence", l.Fence)
	// Before anything else: what is not signed is not even read.
	spec, err := job.Open(w.Key, []byte(l.Spec), l.Signature)
	switch {
	case errors.Is(err, job.ErrSignature):
		log.ErrorContext(ctx, "a job without the signature of this installation")
		w.fail(ctx, l, broker.SignatureInvalid)
		return
	case err == nil && spec.JobRef != l.JobRef:
		err = errors.New("work: the spec is of another job")
		fallthrough
	case err != nil:
		log.ErrorContext(ctx, "a spec was refused", "cause", err.Error())
		w.fail(ctx, l, broker.SpecRefused)
		return
	case !fits(spec.Python, w.Is.Python):
		w.fail(ctx, l, broker.PythonUnavailable)
		return
	}
	running, stop := context.WithCancelCause(ctx)
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		w.keep(running, l, stop)
	}()
	began := time.Now()
	result, err := w.Runner.Run(running, spec, []byte(l.Spec))
	cause := context.Cause(running)
	stop(nil)
	<-beaten
	switch {
	case cause != nil:
		// Nobody wants it, or nobody would believe it.
		log.InfoContext(ctx, "a job was left", "cause", cause.Error())
	case err != nil:
		log.ErrorContext(ctx, "a job did not run", "cause", err.Error())
		w.fail(ctx, l, broker.SandboxFailed)
	default:
		text, err := result.Encode()
		if err != nil {
			log.ErrorContext(ctx, "a result cannot be written", "cause", err.Error())
			w.fail(ctx, l, broker.SandboxFailed)
			return
		}
		accepted, refused := w.tell(ctx, func(ctx context.Context) (bool, error) { return w.Broker.Complete(ctx, l.JobRef, l.Fence, text) })
		if refused { // not even read: as of a sandbox whose own words come from the code in it
			w.fail(ctx, l, broker.SandboxFailed)
			return
		}
		log.InfoContext(ctx, "a job has ended", "accepted", accepted, "calls", len(spec.Nodes()), "milliseconds", time.Since(began).Milliseconds())
	}
}

// fits reports whether a Python, as "3.11.2", is of a pinned minor, as "3.11".
func fits(pinned, python string) bool {
	return pinned == "" || python == pinned || strings.HasPrefix(python, pinned+".")
}

// keep carries the lease on and stops the job when it is cancelled or lost. A lease
// that could not be carried on until it ran out is lost: another worker may have it.
func (w *Worker) keep(ctx context.Context, l broker.Leased, stop context.CancelCauseFunc) {
	until := l.Until
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		b, err := w.beat(ctx, l)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && b.Cancel:
			stop(errCancelled)
			return
		case err == nil && b.Stale, err != nil && time.Now().After(until):
			stop(errLost)
			return
		case err == nil:
			until = b.Until
		}
	}
}

func (w *Worker) beat(ctx context.Context, l broker.Leased) (broker.Beat, error) {
	ctx, stop := context.WithTimeout(ctx, callFor)
	defer stop()
	return w.Broker.Heartbeat(ctx, l.JobRef, l.Fence)
}

func (w *Worker) fail(ctx context.Context, l broker.Leased, why broker.Failure) {
	w.tell(ctx, func(ctx context.Context) (bool, error) { return w.Broker.Fail(ctx, l.JobRef, l.Fence, why) })
}

// tell repeats a completion until the broker has answered it, or has refused it for
// good: the same one counts once, however often it arrives.
func (w *Worker) tell(ctx context.Context, complete func(context.Context) (bool, error)) (accepted, refused bool) {
	ctx, stop := context.WithTimeout(ctx, completeFor)
	defer stop()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		call, done := context.WithTimeout(ctx, callFor)
		accepted, err := complete(call)
		done()
		if err == nil {
			return accepted, false
		}
		slog.WarnContext(ctx, "a completion was not taken", "cause", err.Error())
		if errors.Is(err, broker.ErrRefused) {
			return false, true
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(pause):
		}
	}
}
