package sandbox

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// Times and numbers of the queue.
const (
	LeaseFor    = 30 * time.Second // one heartbeat carries a lease so far
	MaxAttempts = 3                // leases of one job
	// WaitLimit is how long a job may wait for a worker. It is longer than the first
	// start of everything takes anywhere.
	WaitLimit = 20 * time.Minute

	keepFor    = 10 * time.Minute // how long the row of a worker that is gone is kept
	overWall   = time.Minute      // what a worker may take beyond the limit of a job
	dueAnswer  = 10 * time.Second // a token that was not answered is tried again
	attemptsAt = 64               // of one conditional write
)

// A span is a time of the queue, with the least that it may be made for tests: a
// worker beats and polls once a second.
type span struct{ usual, least time.Duration }

var (
	leaseFor  = span{LeaseFor, 5 * time.Second}
	leaseLag  = span{5 * time.Second, 1500 * time.Millisecond} // how old a lease may be before a heartbeat writes it
	seenFor   = span{6 * time.Second, 4 * time.Second}         // after which a worker that did not call is gone
	seenLag   = span{2 * time.Second, 1500 * time.Millisecond} // how old its row may be before a call writes it
	askFor    = span{time.Minute, 10 * time.Second}            // from counted on to asked for
	shownFor  = span{30 * time.Second, time.Second}            // from asked for to shown to all who look
	startFor  = span{5 * time.Minute, 20 * time.Second}        // from asked for to first seen: an image is fetched
	unfitFor  = span{time.Minute, 10 * time.Second}            // how long a failed probe speaks for the others
	dueQueued = span{30 * time.Second, 3 * time.Second}        // a job that nobody took by then is looked at
	dueAgain  = span{time.Minute, 3 * time.Second}
	dueLeased = span{5 * time.Second, time.Second} // after the end of its lease
	waitsFor  = span{3 * time.Second, time.Second} // after which a job waits because nobody has room for it
)

// DefaultMaxWorkers is how many workers there are at most.
const DefaultMaxWorkers = 4

// startingSlots is how many jobs a worker is taken to run at once until it has called
// and said so: as many as the template has one run.
const startingSlots = 2

// Tokens answers what a state machine waits with. An answer that is no longer
// waited for is no error.
type Tokens interface {
	Succeed(ctx context.Context, token string) error
	Fail(ctx context.Context, token, code string) error
}

// ErrUnavailable is returned by a Starter that can start no worker here, now and
// later; any other error may pass.
var ErrUnavailable = errors.New("sandbox: no worker can run here")

// Starter starts workers.
type Starter interface {
	// Start starts a worker, and returns what the machines call it. Starting one of the
	// same name again starts none.
	Start(ctx context.Context, worker string, key ed25519.PublicKey) (task string, err error)
	// Look returns those of up to 100 tasks that have not begun yet, and those that
	// have ended or are unknown.
	Look(ctx context.Context, tasks []string) (waiting, over []string, err error)
}

// Jobs puts jobs into the queue and sees to it that they end.
type Jobs struct {
	Store   Store
	Objects history.Objects
	Tokens  Tokens
	// Keys and Starter are needed to enqueue. A nil Starter is an installation
	// without sandbox: its jobs fail as Unavailable.
	Keys       Keys
	Starter    Starter
	Now        func() time.Time
	NewRef     func(prefix string) string
	MaxWorkers int // 0 is DefaultMaxWorkers
	// Patience is the unit of the times of the queue, as it is of Runs: 0 and all
	// above a minute is a minute. A shorter one is for tests.
	Patience time.Duration
}

// take is how long a span is here.
func (j *Jobs) take(s span) time.Duration {
	if j.Patience == 0 || j.Patience >= time.Minute {
		return s.usual
	}
	return max(s.least, time.Duration(float64(s.usual)*float64(j.Patience)/float64(time.Minute)))
}

func (j *Jobs) now() time.Time { return j.Now().UTC() }

// Enqueue stores a job that waits, or finds it, and answers the token when it has
// ended: at once if it has. The first spec of a jobRef counts. A token takes the
// place of the one before, which belonged to an attempt of the state machine that
// is over; "" is none.
//
// The error is a *LimitError where the spec is too large, and wraps ErrMalformed
// where it is none. Where no worker can run, the job fails as Unavailable, and that
// is no error here: who collects it is told.
func (j *Jobs) Enqueue(ctx context.Context, spec Spec, token string) (State, error) {
	row, err := j.Store.Job(ctx, spec.JobRef)
	if errors.Is(err, history.ErrNotFound) {
		row, err = j.create(ctx, spec, token)
		if errors.Is(err, ErrExists) {
			row, err = j.Store.Job(ctx, spec.JobRef)
		}
	}
	if err != nil {
		return "", err
	}
	if row, err = j.attach(ctx, row, token); err != nil || row.State != Queued {
		return row.State, err
	}
	switch err := j.ensure(ctx, row.Tenant()); {
	case errors.Is(err, ErrUnavailable):
		row, err = j.fail(ctx, row.JobRef, Unavailable, func(now Job) bool { return now.State == Queued })
		return row.State, err
	case err != nil:
		// The job is there and due in half a minute: the tick starts a worker.
		slog.WarnContext(ctx, "no worker was started; the tick will", "jobRef", row.JobRef, "error", err)
	}
	return row.State, nil
}

func (j *Jobs) create(ctx context.Context, spec Spec, token string) (Job, error) {
	text, err := spec.Encode()
	if err != nil {
		return Job{}, err
	}
	key, err := j.Keys.JobKey(ctx)
	if err != nil {
		return Job{}, err
	}
	now := j.now()
	row := Job{
		JobRef: spec.JobRef, Kind: spec.Kind, Python: spec.Python, Spec: history.RefOf(text), Signature: Sign(key, text),
		WallMilliseconds: spec.Limits.WallMilliseconds, State: Queued, Token: token, CreatedAt: now, DueAt: now.Add(j.take(dueQueued)),
	}
	if spec.Entry != nil {
		row.Plugin = spec.Entry.Plugin
	} else if row.Project, err = projectOf(spec.Project); err != nil {
		return Job{}, err
	}
	if err := j.Objects.Put(ctx, row.Space(), text); err != nil {
		return Job{}, err
	}
	if err := j.Store.CreateJob(ctx, row); err != nil {
		return Job{}, err
	}
	return j.Store.Job(ctx, row.JobRef)
}

func projectOf(text string) (target.Project, error) {
	for i := range text {
		if text[i] == '/' {
			p := target.Project{WorkspaceKey: text[:i], ProjectKey: text[i+1:]}
			if target.ValidKey(p.WorkspaceKey) && target.ValidKey(p.ProjectKey) {
				return p, nil
			}
		}
	}
	return target.Project{}, fmt.Errorf("%w: spec: project", ErrMalformed)
}

// attach makes a token the one that is answered at the end of a job.
func (j *Jobs) attach(ctx context.Context, row Job, token string) (Job, error) {
	for range attemptsAt {
		switch {
		case token == "" || token == row.Token:
			if row.State.Terminal() {
				return j.answer(ctx, row)
			}
			return row, nil
		case row.State.Terminal():
			// Not stored first: should this fail, so does the call, and the state
			// machine comes again with another token.
			return row, j.tell(ctx, row, token)
		}
		row.Token = token
		err := j.Store.NoteJob(ctx, row)
		if err != nil && !errors.Is(err, ErrMoved) {
			return row, err
		}
		if row, err = j.Store.Job(ctx, row.JobRef); err != nil {
			return row, err
		}
	}
	return row, fmt.Errorf("sandbox: %s: %w", row.JobRef, ErrMoved)
}

// CancelledCode is what the token of a cancelled job fails with.
const CancelledCode = "px.Cancelled"

func (j *Jobs) tell(ctx context.Context, row Job, token string) error {
	if row.State == Cancelled {
		return j.Tokens.Fail(ctx, token, CancelledCode)
	}
	return j.Tokens.Succeed(ctx, token)
}

// answer answers the token of a job that has ended, and forgets it.
func (j *Jobs) answer(ctx context.Context, row Job) (Job, error) {
	if row.Token == "" {
		return row, nil
	}
	if err := j.tell(ctx, row, row.Token); err != nil {
		return row, err
	}
	row.Token, row.DueAt = "", time.Time{}
	if err := j.Store.NoteJob(ctx, row); err != nil && !errors.Is(err, ErrMoved) { // moved: another answered it too
		return row, err
	}
	return row, nil
}

// end changes a job that has not ended and that may is true of to a terminal one,
// and answers its token. Of a job that it may not change it returns the row.
func (j *Jobs) end(ctx context.Context, jobRef string, may func(Job) bool, change func(*Job)) (Job, error) {
	for range attemptsAt {
		row, err := j.Store.Job(ctx, jobRef)
		if err != nil || !row.State.Terminal() && !may(row) {
			return row, err
		}
		if !row.State.Terminal() {
			now := j.now()
			change(&row)
			row.EndedAt, row.Until, row.DueAt = now, time.Time{}, time.Time{}
			if row.Token != "" {
				row.DueAt = now.Add(dueAnswer)
			}
			err := j.Store.ReplaceJob(ctx, row)
			if errors.Is(err, ErrMoved) {
				continue
			}
			if err != nil {
				return row, err
			}
			row.Version++
		}
		if answered, err := j.answer(ctx, row); err == nil {
			row = answered
		} else {
			slog.WarnContext(ctx, "a task token was not answered; the tick will", "jobRef", jobRef, "error", err)
		}
		return row, nil
	}
	return Job{}, fmt.Errorf("sandbox: %s: %w", jobRef, ErrMoved)
}

func (j *Jobs) fail(ctx context.Context, jobRef string, reason Reason, may func(Job) bool) (Job, error) {
	return j.end(ctx, jobRef, may, func(row *Job) {
		row.State, row.Reason = Failed, reason
		slog.WarnContext(ctx, "a job failed", "jobRef", jobRef, "reason", string(reason), "attempts", row.Attempts)
	})
}

// Cancel ends a job that has not ended: its lease counts no more, its token fails,
// and its worker is told when it asks next. A job that has ended stays as it is, and
// one that there is not is no error.
func (j *Jobs) Cancel(ctx context.Context, jobRef string) error {
	_, err := j.end(ctx, jobRef, func(Job) bool { return true }, func(row *Job) { row.State = Cancelled })
	if errors.Is(err, history.ErrNotFound) {
		return nil
	}
	return err
}

// An Outcome is how a job stands, with its result if it is done.
type Outcome struct {
	State  State
	Result *Result // of a job that is done
	Reason Reason  // of a job that failed
}

// Result tells how a job stands, or history.ErrNotFound.
func (j *Jobs) Result(ctx context.Context, jobRef string) (Outcome, error) {
	row, err := j.Store.Job(ctx, jobRef)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{State: row.State, Reason: row.Reason}
	if row.State != Done {
		return out, nil
	}
	bodies, err := j.Objects.Get(ctx, row.Space(), row.Result)
	if err != nil {
		return out, fmt.Errorf("sandbox: %s: %w", jobRef, err)
	}
	result, err := DecodeResult(bodies[0])
	out.Result = &result
	return out, err
}

func (j *Jobs) most() int {
	if j.MaxWorkers == 0 {
		return DefaultMaxWorkers
	}
	return j.MaxWorkers
}

// live counts the workers that are there or about to come.
func (j *Jobs) live(fleet Fleet) int {
	live := 0
	for _, w := range fleet.Workers {
		if (w.Standing == Starting || w.Standing == Serving) && w.Until.After(j.now()) {
			live++
		}
	}
	return live
}

// ensure starts workers for the jobs of a tenant if there are too few. ErrUnavailable
// says that none runs, none comes, and none can.
func (j *Jobs) ensure(ctx context.Context, tenant string) error {
	if j.Starter == nil {
		return ErrUnavailable
	}
	most := j.most()
	for range attemptsAt {
		fleet, err := j.Store.Fleet(ctx)
		if err != nil {
			return err
		}
		now := j.now()
		room, all, unfit := 0, j.live(fleet), false
		for _, w := range fleet.Workers {
			if !w.Until.After(now) {
				continue
			}
			unfit = unfit || w.Standing == Unfit
			if w.Serves(tenant, now) {
				room += w.Slots
			}
		}
		if room == 0 && unfit {
			return ErrUnavailable
		}
		if all >= most {
			return nil
		}
		if room > 0 {
			live, err := j.Store.Backlog(ctx, tenant, room+1)
			if err != nil || live <= room {
				return err
			}
		}
		w := Worker{Ref: j.NewRef("wrk_"), Standing: Starting, Slots: startingSlots, SeenAt: now, Until: now.Add(j.take(askFor))}
		switch err := j.Store.AddWorker(ctx, w, fleet.Version); {
		case errors.Is(err, ErrMoved):
			continue
		case err != nil:
			return err
		}
		w.Version = 1
		key, err := j.Keys.JobKey(ctx)
		if err == nil {
			w.Task, err = j.Starter.Start(ctx, w.Ref, key.Public().(ed25519.PublicKey))
		}
		if err != nil {
			// Whoever needs a worker next shall not count on this one.
			if gone := j.Store.RemoveWorker(ctx, w); gone != nil {
				slog.WarnContext(ctx, "a worker that was not started is still expected", "worker", w.Ref, "error", gone)
			}
			if errors.Is(err, ErrUnavailable) && room > 0 {
				return nil
			}
			return err
		}
		slog.InfoContext(ctx, "a worker was started", "worker", w.Ref, "task", w.Task)
		w.Until = j.now().Add(j.take(startFor))
		if err := j.Store.SaveWorker(ctx, w); err != nil && !errors.Is(err, ErrMoved) { // moved: it has called already
			return err
		}
	}
	return fmt.Errorf("sandbox: workers: %w", ErrMoved)
}

// Tick performs the next step of every job that stood still for too long, up to
// limit, and forgets workers that are gone. It returns how many it looked at.
func (j *Jobs) Tick(ctx context.Context, limit int) (int, error) {
	due, err := j.Store.DueJobs(ctx, j.now(), limit)
	if err != nil {
		return 0, err
	}
	failures := []error{j.forget(ctx)}
	for _, ref := range due {
		if err := j.rescue(ctx, ref); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", ref, err))
		}
	}
	return len(due), errors.Join(failures...)
}

func (j *Jobs) forget(ctx context.Context) error {
	fleet, err := j.Store.Fleet(ctx)
	if err != nil {
		return err
	}
	// A task may end before its worker has ever called, as where its image cannot be
	// fetched: nobody shall count on it any longer. And it may wait for its machine
	// longer than a start takes: then another beside it would be no help.
	now := j.now()
	var expected []string
	for _, w := range fleet.Workers {
		if w.Standing == Starting && w.Task != "" {
			expected = append(expected, w.Task)
		}
	}
	var waiting, over []string
	if j.Starter != nil && len(expected) > 0 {
		waiting, over, err = j.Starter.Look(ctx, expected[:min(100, len(expected))])
	}
	failures := []error{err}
	for _, w := range fleet.Workers {
		expected := w.Standing == Starting && w.Task != ""
		switch {
		case expected && slices.Contains(over, w.Task) && now.Sub(w.SeenAt) < j.take(shownFor):
			// A task may be unknown at first.
		case expected && slices.Contains(over, w.Task):
			slog.WarnContext(ctx, "a worker ended before it called", "worker", w.Ref, "task", w.Task)
			failures = append(failures, j.Store.RemoveWorker(ctx, w))
		case expected && slices.Contains(waiting, w.Task):
			w.Until = now.Add(j.take(startFor))
			if err := j.Store.SaveWorker(ctx, w); !errors.Is(err, ErrMoved) { // moved: it has called
				failures = append(failures, err)
			}
		case w.Until.Add(keepFor).Before(now):
			failures = append(failures, j.Store.RemoveWorker(ctx, w))
		}
	}
	return errors.Join(failures...)
}

func (j *Jobs) rescue(ctx context.Context, jobRef string) error {
	row, err := j.Store.Job(ctx, jobRef)
	now := j.now()
	if err != nil || row.DueAt.IsZero() || row.DueAt.After(now) {
		return err
	}
	switch {
	case row.State.Terminal():
		if _, err := j.answer(ctx, row); err != nil {
			return errors.Join(err, j.postpone(ctx, row, now.Add(dueAnswer)))
		}
		return nil
	case row.State == Leased && row.Until.After(now):
		return j.postpone(ctx, row, row.Until.Add(j.take(dueLeased)))
	case row.State == Leased:
		slog.InfoContext(ctx, "a lease ran out", "jobRef", jobRef, "worker", row.Worker, "attempts", row.Attempts)
		if row.Attempts >= MaxAttempts {
			_, err := j.fail(ctx, jobRef, WorkerLost, func(is Job) bool { return is.State == Leased && is.Fence == row.Fence && !is.Until.After(now) })
			return err
		}
		row.State, row.Until, row.DueAt = Queued, time.Time{}, now.Add(j.take(dueQueued))
		if err := j.Store.ReplaceJob(ctx, row); err != nil {
			if errors.Is(err, ErrMoved) { // a worker was first
				return nil
			}
			return err
		}
	case now.Sub(row.CreatedAt) > WaitLimit && row.Attempts == 0:
		_, err := j.fail(ctx, jobRef, Unavailable, func(is Job) bool { return is.State == Queued })
		return err
	default:
		if err := j.postpone(ctx, row, now.Add(j.take(dueAgain))); err != nil {
			return err
		}
	}
	err = j.ensure(ctx, row.Tenant())
	if errors.Is(err, ErrUnavailable) {
		_, err = j.fail(ctx, jobRef, Unavailable, func(is Job) bool { return is.State == Queued })
	}
	return err
}

func (j *Jobs) postpone(ctx context.Context, row Job, to time.Time) error {
	row.DueAt = to
	if err := j.Store.NoteJob(ctx, row); !errors.Is(err, ErrMoved) {
		return err
	}
	return nil // it moves by itself
}
