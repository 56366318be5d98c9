package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
)

const (
	// grace is what a sandbox has beyond the job's time to say so itself.
	grace = 300 * time.Millisecond
	// every is how often the use of a running sandbox is looked at.
	every = 50 * time.Millisecond
	// own is what the Sentry and its helpers use themselves; a job's memory comes on
	// top of it.
	own = 160 << 20
	// crowd is how many processes of the host a sandbox may have: RLIMIT_NPROC inside
	// keeps a guest well below, so that more is no honest Sentry.
	crowd = 2*Processes + 64
)

// These end a sandbox; the call that ran gets their name.
var (
	errOverTime      = errors.New("sandbox: over its time")
	errOverMemory    = errors.New("sandbox: over its memory")
	errOverProcesses = errors.New("sandbox: over its processes")
)

// Run runs a job to its end: every call has an entry. text is the spec as it was
// signed. A call that takes its sandbox down costs the others nothing: they go on in
// another one, within the same limits. A job that follows another of its Run has the
// sandbox of that one where it is still there. An error means that there is no result:
// ctx ended, or no sandbox could be had.
func Run(ctx context.Context, pool *Pool, spec job.Spec, text []byte) (job.Result, error) {
	result := job.Result{V: job.Version, JobRef: spec.JobRef}
	nodes := spec.Nodes()
	for _, node := range nodes {
		result.Results = append(result.Results, job.Entry{NodeKey: node})
	}
	left := budget{wall: spec.Limits.Wall(), output: spec.Limits.OutputBytes}
	for next := 0; next < len(nodes); {
		var s *Sandbox
		var err error
		if next == 0 && spec.Follows != "" {
			s = pool.kept(spec.Follows)
		}
		if s == nil {
			if s, err = pool.Take(ctx); err != nil {
				return job.Result{}, err
			}
		}
		result.RanBy = job.RanBy{Python: s.Python, GVisor: pool.driver.GVisor(), Driver: pool.driver.Name()}
		began := time.Now()
		next, err = s.serve(ctx, spec, text, next, left, func(n int, e job.Entry, size int64) {
			e.NodeKey = nodes[n]
			result.Results[n] = e
			left.output -= size
		})
		if ctx.Err() != nil || err != nil {
			// Whoever waits for the end of it, or for the cause, waits for the kill.
			if killed := s.Kill(); killed != nil {
				return job.Result{}, killed
			}
		} else if spec.Leads {
			pool.keep(spec.JobRef, s, spec.Limits)
		} else {
			pool.discard(s)
		}
		if ctx.Err() != nil {
			return job.Result{}, context.Cause(ctx)
		}
		left.wall -= time.Since(began)
		if err != nil && next < len(nodes) && !errors.Is(err, errSpoilt) {
			result.Results[next].Error = &job.Error{Reason: reasonOf(err)}
			next++
		}
		for ; left.wall <= 0 && next < len(nodes); next++ {
			result.Results[next].Error = &job.Error{Reason: job.Timeout}
		}
	}
	return result, nil
}

// Serve runs a job in this sandbox alone, and kills it. The error says why a call has
// no entry.
func (s *Sandbox) Serve(ctx context.Context, spec job.Spec, text []byte) ([]job.Entry, error) {
	spec.Leads = false
	nodes := spec.Nodes()
	entries := make([]job.Entry, len(nodes))
	_, err := s.serve(ctx, spec, text, 0, budget{spec.Limits.Wall(), spec.Limits.OutputBytes}, func(n int, e job.Entry, _ int64) {
		e.NodeKey = nodes[n]
		entries[n] = e
	})
	return entries, errors.Join(err, s.Kill())
}

// budget is what is left of a job's limits.
type budget struct {
	wall   time.Duration
	output int64 // bytes
}

func reasonOf(err error) job.Reason {
	switch {
	case errors.Is(err, errOverTime):
		return job.Timeout
	case errors.Is(err, errOverMemory):
		return job.Memory
	case errors.Is(err, errOverProcesses):
		return job.TooMany
	case errors.Is(err, errLongLine):
		return job.OutputTooLarge
	}
	return job.Killed
}

// errSpoilt says that a sandbox has ended between two calls: what the first left behind
// could not be cleared away, or has ended it. The second has not begun, and is not at
// fault.
var errSpoilt = errors.New("sandbox: it cannot serve another call")

// serve sends what is left of a job and reads an entry a call. It returns the first
// call without one, and why: errSpoilt where that had not begun.
func (s *Sandbox) serve(ctx context.Context, spec job.Spec, text []byte, from int, left budget, each func(int, job.Entry, int64)) (int, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	deadline := time.AfterFunc(left.wall+grace, func() { stop(errOverTime) })
	defer deadline.Stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, spec.Limits, stop)
	}()
	defer func() { stop(nil); <-watched }()

	request := bytes.NewBufferString(`{"spec":`)
	request.Write(text)
	request.WriteString(`,"from":` + strconv.Itoa(from) + `,"wallMilliseconds":` + strconv.FormatInt(max(1, left.wall.Milliseconds()), 10) +
		`,"outputBytes":` + strconv.FormatInt(max(0, left.output), 10) + `,"again":` + strconv.FormatBool(spec.Leads) + `}`)
	if err := s.send(ctx, request.Bytes(), !spec.Leads); err != nil {
		return from, err
	}
	next, begun, calls := from, true, len(spec.Nodes())
	fault := func(err error) (int, error) {
		if !begun {
			err = errors.Join(errSpoilt, err)
		}
		return next, err
	}
	for {
		line, err := s.line(ctx)
		if err != nil {
			return fault(fmt.Errorf("sandbox: it ended: %w", err))
		}
		var said struct {
			Call   *int                       `json:"call"`
			Values map[string]json.RawMessage `json:"values"`
			Error  *job.Error                 `json:"error"`
			Next   int                        `json:"next"`
			Done   int                        `json:"done"`
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return fault(fmt.Errorf("sandbox: its line is none: %w", err))
		}
		switch {
		case begun && said.Call != nil && *said.Call == next && (said.Values != nil) != (said.Error != nil):
			if said.Error != nil && !said.Error.Reason.Known() {
				return fault(errors.New("sandbox: it gives a reason that there is not"))
			}
			each(next, job.Entry{Values: said.Values, Error: said.Error}, int64(len(line)))
			next, begun = next+1, false
		case !begun && said.Next == next && next < calls:
			begun = true
		case !begun && said.Done == calls && next == calls:
			return next, nil
		default:
			return fault(errors.New("sandbox: its line is out of turn"))
		}
	}
}

// watch ends a sandbox that uses too much.
func (s *Sandbox) watch(ctx context.Context, l job.Limits, stop context.CancelCauseFunc) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		use := s.process.Use()
		switch {
		case use.MemoryBytes > l.MemoryBytes+own:
			stop(errOverMemory)
		case use.Processes > crowd:
			stop(errOverProcesses)
		}
	}
}
