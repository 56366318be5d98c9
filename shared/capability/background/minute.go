package background

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A Minute does what is due. Its Desk starts adapters and does not wait for them.
type Minute struct{ Desk *execution.Desk }

// Tick does what is due, limit of each kind at a time, and says how many slots it moved on
// and how many notifications it told. What fails stops nothing else.
func (m Minute) Tick(ctx context.Context, limit int) (slots, notifications int, err error) {
	var failed [3]error
	var parts sync.WaitGroup
	parts.Go(func() { slots, failed[0] = drain(ctx, m.Desk.Now, limit, m.Desk.Store.DueSlots, m.start) })
	parts.Go(func() {
		notifications, failed[1] = drain(ctx, m.Desk.Now, limit, m.Desk.Store.DueNotifications, m.tell)
	})
	parts.Go(func() { failed[2] = m.Desk.Tick(ctx, limit) })
	parts.Wait()
	return slots, notifications, errors.Join(failed[:]...)
}

// together is how many of a kind are done at once.
const together = 8

// reserve is what of its time a minute keeps to come to an end.
const reserve = 15 * time.Second

// rounds is how many times in a row a minute finds only what others have done meanwhile.
const rounds = 3

// drain does all that is due, limit at a time, as long as there is some and there is time:
// a reminder of nine o'clock is told at nine o'clock, however many others are. It returns
// how many were done, and what failed at last.
//
// A list that is shorter than its limit is not the last: what another minute has done
// since it was begun is not in it.
func drain[T any](ctx context.Context, now func() time.Time, limit int, due func(context.Context, time.Time, int) ([]T, error), do func(context.Context, T) (bool, error)) (done int, err error) {
	for idle := 0; ; {
		list, err := due(ctx, now(), limit)
		if err != nil || len(list) == 0 {
			return done, err
		}
		var mu sync.Mutex
		var failed []error
		before := done
		next := make(chan T)
		var workers sync.WaitGroup
		for range min(together, len(list)) {
			workers.Go(func() {
				for one := range next {
					ok, err := do(ctx, one)
					mu.Lock()
					if ok {
						done++
					}
					failed = append(failed, err)
					mu.Unlock()
				}
			})
		}
		for _, one := range list {
			next <- one
		}
		close(next)
		workers.Wait()
		err = errors.Join(failed...)
		if idle++; done > before {
			idle = 0
		}
		deadline, bounded := ctx.Deadline()
		if done == before && err != nil || idle == rounds || ctx.Err() != nil || bounded && deadline.Sub(now()) < reserve {
			return done, err
		}
	}
}

// ---- slots ----

// start moves a slot on and starts its execution, and reports whether it was this call
// that did.
func (m Minute) start(ctx context.Context, s host.Slot) (bool, error) {
	now := m.Desk.Now()
	at := newest(s, now)
	if at.Before(s.At) { // the row's own time, whatever the grid is
		at = s.At
	}
	running, err := m.running(ctx, before(s, at)...)
	if err != nil {
		return false, err
	}
	next := s
	next.At, next.Last = following(s, now), ExecutionID(s, at)
	e, err := m.execution(ctx, s, at)
	if err != nil {
		return false, err
	}
	if running != "" && e != nil {
		e.State, e.Code, e.Params, e.EndedAt, e.DueAt = host.Cancelled, "", outcome.Params{"reason": "skipped", "executionId": running}, now, time.Time{}
		slog.InfoContext(ctx, "a slot is skipped", "executionId", e.ExecutionID, "instanceId", s.InstanceID, "running", running)
	}
	err = m.Desk.Store.StartSlot(ctx, next, e)
	if errors.Is(err, host.ErrExists) { // the slot has had its execution
		e, err = nil, m.Desk.Store.StartSlot(ctx, next, nil)
	}
	switch {
	case errors.Is(err, host.ErrMoved): // another has done it, or the instance has changed
		return false, nil
	case err != nil:
		return false, err
	case e == nil || e.State.Terminal():
		return true, nil
	}
	if err := m.Desk.Invoke.Invoke(ctx, e.Adapter, e.ExecutionID); err != nil {
		// It is due in a minute: then it is called again.
		slog.WarnContext(ctx, "an adapter was not started", "executionId", e.ExecutionID, "adapter", e.Adapter, "cause", err.Error())
	}
	return true, nil
}

// before are the executions that may be at work still when a slot begins: the one that
// the row names and, where the instance has changed since, that of the row's own slot and
// of the one before this.
func before(s host.Slot, at time.Time) []string {
	ids := []string{s.Last, ExecutionID(s, s.At), ExecutionID(s, at.Add(-interval(s)))}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" || id == ExecutionID(s, at) })
}

// running returns one of the executions that still runs, "" where none does.
func (m Minute) running(ctx context.Context, ids ...string) (string, error) {
	for _, id := range ids {
		e, err := m.Desk.Store.Execution(ctx, id)
		if errors.Is(err, host.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !e.State.Terminal() {
			return id, nil
		}
		// A slot that was skipped names the one that it was skipped for.
		if of, _ := e.Params["executionId"].(string); e.Params["reason"] == "skipped" && of != id {
			if found, err := m.running(ctx, of); err != nil || found != "" {
				return found, err
			}
		}
	}
	return "", nil
}

// execution is that of a slot: one that is to be performed or, where a call of the
// installer's would be refused, one that has failed for that reason. Of an instance that
// is not there any more it is none.
func (m Minute) execution(ctx context.Context, s host.Slot, at time.Time) (*host.Execution, error) {
	w, err := m.Desk.Workspaces.Read(ctx, s.Workspace)
	if err != nil {
		return nil, err
	}
	in, ok := w.Find(s.InstanceID)
	if !ok {
		return nil, nil
	}
	r := in.Runtimes[s.CapabilityID]
	q := execution.Request{Actor: in.Instance.InstalledBy, InstanceID: s.InstanceID, CapabilityID: s.CapabilityID, Arguments: canon.Raw(`{}`), Surface: "background"}
	if r.Background != nil && r.Background.Arguments != nil {
		q.Arguments = r.Background.Arguments
	}
	e, err := m.Desk.Prepare(ctx, s.Workspace, q)
	if f := (*capability.Failure)(nil); errors.As(err, &f) {
		now := m.Desk.Now()
		e, err = host.Execution{Workspace: s.Workspace, Actor: q.Actor, InstanceID: s.InstanceID, CapabilityID: s.CapabilityID, Adapter: r.Adapter,
			PackageDigest: in.Instance.PackageDigest, Generation: in.Instance.Generation, Surface: q.Surface,
			State: host.Failed, Phase: host.Accepted, Code: f.Code, Params: f.Params, CreatedAt: now, Deadline: now, EndedAt: now}, nil
	}
	e.ExecutionID = ExecutionID(s, at)
	return &e, err
}

// ---- notifications ----

// tell tells one, and reports whether it was this call that did.
func (m Minute) tell(ctx context.Context, n host.Notification) (bool, error) {
	withheld, err := m.withheld(ctx, n)
	if err != nil {
		return false, err
	}
	n.DeliveredAt, n.Withheld = m.Desk.Now().UTC(), withheld
	if withheld != "" {
		n.Title, n.Text = "", ""
	}
	err = m.Desk.Store.Deliver(ctx, n)
	if errors.Is(err, host.ErrMoved) { // another has told it, or it was taken back
		return false, nil
	}
	return err == nil, err
}

// withheld says why an instance may not tell something any more: who is told so sees that
// there was something, and asks.
func (m Minute) withheld(ctx context.Context, n host.Notification) (outcome.Code, error) {
	w, err := m.Desk.Workspaces.Read(ctx, n.Workspace)
	if err != nil {
		return "", err
	}
	member, err := m.Desk.Store.Member(ctx, n.Workspace, n.Actor)
	if err != nil {
		return "", err
	}
	in, ok := w.Find(n.InstanceID)
	switch {
	case !ok || !member.Allows(capability.Use) || !in.Instance.For(n.Actor):
		return outcome.ExtensionNotFound, nil
	case !in.Instance.Enabled:
		return outcome.ExtensionDisabled, nil
	case !slices.Contains(in.Instance.Granted, capability.Notifications):
		return outcome.ExtensionPermissionDenied, nil
	}
	return "", nil
}
