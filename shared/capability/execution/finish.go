package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// A Finisher ends executions with what their capability gave: for the adapter's function
// that has called it, for who takes in the result of a job, and for the minute tick,
// which goes on where one of them has died.
//
// A result is first written down as computed, with the digest of its actions. From then
// on nothing is computed again: that result is applied, in one write with the end of the
// execution, or the execution ends with nothing applied.
type Finisher struct {
	Store      host.Store
	Objects    history.Objects
	Workspaces Workspaces
	Schemas    *safeschema.Cache
	Now        func() time.Time
}

// ErrStale says that whoever brings a result has no claim any more: another has.
var ErrStale = errors.New("execution: it is another's now")

// attempts bounds how often a write is tried anew because a row has moved.
const attempts = 8

var errBusy = errors.New("execution: its rows move all the time")

// Complete ends an execution with a result, by the fence under which it was begun. To
// call it again does nothing twice, and returns the execution as it has ended. A result
// that is not one, or that may not be applied any more, ends it as failed: that is no
// error. Errors are ErrStale, a *capability.Failure where the execution has ended with
// other actions than these (PLUGIN_OUTCOME_CHANGED), and what says that it is not over:
// then the same call may be made again, and the minute tick goes on with what was
// computed.
func (f *Finisher) Complete(ctx context.Context, executionID string, fence int64, result capability.Result) (host.Execution, error) {
	digest, err := digestOf(result.Actions)
	if err != nil {
		return host.Execution{}, err
	}
	for range attempts {
		e, err := f.Store.Execution(ctx, executionID)
		switch {
		case err != nil:
			return e, err
		case e.Fence != fence:
			return e, ErrStale
		case e.State.Terminal() && e.Actions != "" && e.Actions != digest:
			return e, &capability.Failure{Code: outcome.PluginOutcomeChanged}
		case e.State.Terminal():
			return e, nil
		case e.Actions != "" && e.Actions != digest: // computed, or noted of work that was done again
			return f.end(ctx, e, host.Failed, &capability.Failure{Code: outcome.PluginOutcomeChanged})
		case e.Phase == host.Computed: // the first result stands
			return f.resume(ctx, e)
		case e.Cancel && e.Phase != host.Dispatched:
			return f.end(ctx, e, host.Cancelled, nil)
		}
		if err := f.fits(ctx, e, result); err != nil {
			return f.refuse(ctx, e, err)
		}
		text, err := canon.Encode(result)
		if err != nil {
			return e, err
		}
		next := e
		if next.Result, err = put(ctx, f.Objects, e.Workspace, text); err != nil {
			return e, err
		}
		next.Phase, next.Actions, next.DueAt = host.Computed, digest, f.Now().Add(due)
		err = f.Store.Apply(ctx, host.Step{Execution: next})
		if errors.Is(err, host.ErrMoved) { // by another, or by this call's own lost write
			continue
		}
		if err != nil {
			return e, err
		}
		if e, err = f.Store.Execution(ctx, executionID); err != nil {
			return e, err
		}
		if e.Phase != host.Computed || e.State.Terminal() || e.Fence != fence {
			continue
		}
		return f.apply(ctx, e, result)
	}
	return host.Execution{}, errBusy
}

// Fail ends an execution that gave no result, by the fence under which it was begun.
func (f *Finisher) Fail(ctx context.Context, executionID string, fence int64, failure *capability.Failure) (host.Execution, error) {
	e, err := f.Store.Execution(ctx, executionID)
	switch {
	case err != nil || e.State.Terminal() && e.Fence == fence:
		return e, err
	case e.Fence != fence:
		return e, ErrStale
	case e.Phase == host.Computed:
		return f.resume(ctx, e)
	case e.Cancel && e.Phase != host.Dispatched:
		return f.end(ctx, e, host.Cancelled, nil)
	}
	return f.end(ctx, e, host.Failed, failure)
}

// refuse ends an execution by a failure; any other error is returned.
func (f *Finisher) refuse(ctx context.Context, e host.Execution, err error) (host.Execution, error) {
	if failure := (*capability.Failure)(nil); errors.As(err, &failure) {
		return f.end(ctx, e, host.Failed, failure)
	}
	return e, err
}

// installed finds the capability as it is now. What changed since it was accepted is not
// run with what was asked of something else.
func installed(ctx context.Context, store host.Store, workspaces Workspaces, e host.Execution) (capability.Installed, capability.Capability, error) {
	w, err := workspaces.Read(ctx, e.Workspace)
	if err != nil {
		return capability.Installed{}, capability.Capability{}, err
	}
	member, err := store.Member(ctx, e.Workspace, e.Actor)
	if err != nil {
		return capability.Installed{}, capability.Capability{}, err
	}
	if f := w.Readiness(member, e.Actor, e.InstanceID, e.CapabilityID); f != nil {
		return capability.Installed{}, capability.Capability{}, f
	}
	in, _ := w.Find(e.InstanceID)
	if in.Instance.PackageDigest != e.PackageDigest || in.Instance.Generation != e.Generation {
		return capability.Installed{}, capability.Capability{}, &capability.Failure{Code: outcome.ExtensionVersionMismatch, Params: outcome.Params{"generation": in.Instance.Generation}}
	}
	c, _ := in.Capability(e.CapabilityID)
	return in, c, nil
}

// fits holds a result to its form, to its schema and to what its capability may do.
func (f *Finisher) fits(ctx context.Context, e host.Execution, result capability.Result) error {
	_, c, err := installed(ctx, f.Store, f.Workspaces, e)
	if err != nil {
		return err
	}
	if failure := check(result); failure != nil {
		return failure
	}
	if failure := judge(f.Schemas, c.OutputSchema, result.Data, outcome.ExtensionOutputInvalid); failure != nil {
		return failure
	}
	if failure := checkActions(e, c, result.Actions); failure != nil {
		return failure
	}
	return nil
}

// resume goes on with a result that was computed.
func (f *Finisher) resume(ctx context.Context, e host.Execution) (host.Execution, error) {
	if e.State.Terminal() || e.Phase != host.Computed {
		return e, nil
	}
	result, err := ReadResult(ctx, f.Objects, e)
	if err != nil {
		return e, err
	}
	return f.apply(ctx, e, result)
}

// apply performs the actions of a computed execution in one write with its end. What was
// installed and granted when it began must be so still, in that very write (X2).
func (f *Finisher) apply(ctx context.Context, e host.Execution, result capability.Result) (host.Execution, error) {
	for range attempts {
		if e.Cancel {
			return f.end(ctx, e, host.Cancelled, nil)
		}
		in, c, err := installed(ctx, f.Store, f.Workspaces, e)
		if err != nil {
			return f.refuse(ctx, e, err)
		}
		if failure := checkActions(e, c, result.Actions); failure != nil {
			return f.end(ctx, e, host.Failed, failure)
		}
		step, err := f.step(ctx, e, result.Actions)
		if err != nil {
			return f.refuse(ctx, e, err)
		}
		step.Instance = in.Instance.Version
		step.Execution.State, step.Execution.EndedAt, step.Execution.DueAt = host.Succeeded, f.Now(), time.Time{}
		err = f.Store.Apply(ctx, step)
		var conflict *host.ConflictError
		switch {
		case err == nil:
			return step.Execution, nil
		case errors.As(err, &conflict):
			version, err := f.version(ctx, e, *conflict)
			if err != nil {
				return e, err
			}
			return f.end(ctx, e, host.Failed, storageConflict(conflict.Namespace, version))
		case errors.Is(err, host.ErrFull):
			return f.end(ctx, e, host.Failed, &capability.Failure{Code: outcome.LimitExceeded, Params: outcome.Params{"limit": host.MaxItems, "of": "items"}})
		case errors.Is(err, host.ErrInstanceMoved):
		case errors.Is(err, host.ErrMoved):
			now, err := f.Store.Execution(ctx, e.ExecutionID)
			switch {
			case err != nil || now.State.Terminal():
				return now, err
			case now.Fence != e.Fence || now.Phase != host.Computed:
				return now, ErrStale
			}
			e = now
		default:
			return e, err
		}
	}
	return e, errBusy
}

// storageConflict tells which version of what is kept is there now.
func storageConflict(namespace string, version int64) *capability.Failure {
	return &capability.Failure{Code: outcome.PluginStorageConflict, Params: outcome.Params{"namespace": namespace, "version": version}}
}

// version is the one that an item or a namespace has now.
func (f *Finisher) version(ctx context.Context, e host.Execution, of host.ConflictError) (int64, error) {
	n := host.Namespace{Workspace: e.Workspace, InstanceID: e.InstanceID, Name: of.Namespace}
	if of.Key == "" {
		_, version, err := f.Store.Items(ctx, n)
		return version, err
	}
	items, err := f.Store.Some(ctx, n, []string{of.Key})
	if err != nil || len(items) == 0 {
		return 0, err
	}
	return items[0].Version, nil
}

// end writes a terminal state with nothing applied. Of an execution that is another's by
// now nothing is written.
func (f *Finisher) end(ctx context.Context, e host.Execution, state host.State, failure *capability.Failure) (host.Execution, error) {
	next := e
	next.State, next.EndedAt, next.DueAt = state, f.Now(), time.Time{}
	if failure != nil {
		next.Code, next.Params = failure.Code, failure.Params
		slog.InfoContext(ctx, "an execution has failed", "executionId", e.ExecutionID, "state", state, "code", failure.Code, "cause", failure.Unwrap())
	}
	if state != host.Succeeded {
		next.Result = "" // nothing of it is passed on
	}
	for {
		err := f.Store.Apply(ctx, host.Step{Execution: next})
		if !errors.Is(err, host.ErrMoved) {
			return next, err
		}
		now, err := f.Store.Execution(ctx, e.ExecutionID)
		if err != nil || now.State.Terminal() || now.Fence != e.Fence {
			return now, err
		}
		// Somebody has asked for its end meanwhile, which is too late.
		next.Version, next.Cancel = now.Version, now.Cancel
	}
}

// ---- actions ----

// NotificationID names what an execution schedules under a namespace and a key.
func NotificationID(instanceID, executionID, namespace, key string) string {
	return canon.Ref("ntf_", instanceID, executionID, namespace, key)
}

// checkActions holds actions to their form and their limits, and to the permissions that
// their capability asks for: that those are granted, its readiness tells.
//
// calendar_store is the Host's own: to schedule anew takes a capability that asks for
// notifications, by which its manifest was judged, and a save that moves an item takes
// the item's reminder along.
func checkActions(e host.Execution, c capability.Capability, actions []capability.Action) *capability.Failure {
	if len(actions) == 0 {
		return nil
	}
	if e.Adapter != capability.CalendarStore && e.Adapter != capability.SandboxPython {
		return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": "actions"}}
	}
	if len(actions) > host.MaxChanges {
		return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": "too_many_actions", "limit": host.MaxChanges, "observed": len(actions)}}
	}
	var violations []safeschema.Violation
	type row struct{ kind, namespace, key, execution string }
	rows := map[row]bool{}
	namespaces := map[string]bool{}
	for _, r := range e.Reads {
		namespaces[r.Namespace] = true
	}
	for i, a := range actions {
		at := fmt.Sprintf("/actions/%d", i)
		text, err := canon.Encode(a)
		if err != nil {
			violations = append(violations, safeschema.Violation{Path: at, Keyword: "json"})
			continue
		}
		var read capability.Action
		if found := Violations(schema.DecodeAt(text, at, &read)); found != nil {
			violations = append(violations, found...)
			continue
		}
		if len(a.Value) > host.MaxValue {
			violations = append(violations, safeschema.Violation{Path: at + "/value", Keyword: "maxLength"})
		}
		if a.Kind == capability.Schedule && (a.At.Year() < 1 || a.At.Year() > 9998) { // it is kept in another zone
			violations = append(violations, safeschema.Violation{Path: at + "/at", Keyword: "range"})
		}
		one := row{"item", a.Namespace, a.Key, ""}
		switch a.Kind {
		case capability.Schedule:
			one = row{"notification", a.Namespace, a.Key, e.ExecutionID}
		case capability.TakeBack:
			one = row{"notification", a.Namespace, a.Key, a.ExecutionID}
		default:
			namespaces[a.Namespace] = true
		}
		if rows[one] { // one write changes a row once
			violations = append(violations, safeschema.Violation{Path: at + "/key", Keyword: "unique"})
		}
		rows[one] = true
	}
	if len(namespaces) > host.MaxNamespaces {
		return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": "too_many_namespaces", "limit": host.MaxNamespaces, "observed": len(namespaces)}}
	}
	if violations != nil {
		return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": "actions", "violations": violations}}
	}
	for _, a := range actions {
		if needs := a.Needs(); e.Adapter != capability.CalendarStore && !slices.Contains(c.Permissions, needs) {
			return &capability.Failure{Code: outcome.ExtensionPermissionDenied, Params: outcome.Params{"permission": string(needs), "instanceId": e.InstanceID, "reason": "not_asked_for"}}
		}
	}
	return nil
}

// Violations tells findings as what a schema would have found. Names that were sent are
// not repeated.
func Violations(findings outcome.Findings) (out []safeschema.Violation) {
	for _, d := range findings {
		v := safeschema.Violation{Path: d.Path}
		if rule, ok := d.Params["rule"].(string); ok {
			v.Keyword = rule
		}
		if d.Code == outcome.SchemaUnknownField {
			v.Path, v.Keyword = parent(d.Path)+"/*", "additionalProperties"
		}
		out = append(out, v)
	}
	return out
}

func parent(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}

// step is the one write of the actions. What was handed to the execution must be as it
// was; what is changed must have the version that the action names, or else the one that
// was handed to it.
func (f *Finisher) step(ctx context.Context, e host.Execution, actions []capability.Action) (host.Step, error) {
	type place struct{ namespace, key string }
	handed := map[place]host.Expectation{}
	for _, r := range e.Reads {
		handed[place{r.Namespace, r.Key}] = r
	}
	expected := make([]int64, len(actions))
	ask := map[string][]string{} // of namespaces that were handed whole, by key
	for i, a := range actions {
		if a.Needs() != capability.Storage {
			continue
		}
		was, read := handed[place{a.Namespace, a.Key}]
		_, whole := handed[place{a.Namespace, ""}]
		switch {
		case a.ExpectedVersion != nil && read && *a.ExpectedVersion != was.Version:
			now, err := f.version(ctx, e, host.ConflictError{Namespace: a.Namespace, Key: a.Key})
			if err != nil {
				return host.Step{}, err
			}
			return host.Step{}, storageConflict(a.Namespace, now)
		case a.ExpectedVersion != nil:
			expected[i] = *a.ExpectedVersion
		case read:
			expected[i] = was.Version
		case whole:
			ask[a.Namespace] = append(ask[a.Namespace], a.Key)
		default: // nobody changes what he has not seen
			return host.Step{}, &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": "actions",
				"violations": []safeschema.Violation{{Path: fmt.Sprintf("/actions/%d/expectedVersion", i), Keyword: "required"}}}}
		}
	}
	// The namespace is held to the version that was handed to the job, in the same write:
	// so the items have the versions that they had then.
	versions := map[place]int64{}
	for namespace, keys := range ask {
		items, err := f.Store.Some(ctx, host.Namespace{Workspace: e.Workspace, InstanceID: e.InstanceID, Name: namespace}, keys)
		if err != nil {
			return host.Step{}, err
		}
		for _, item := range items {
			versions[place{namespace, item.Key}] = item.Version
		}
	}
	step := host.Step{Execution: e}
	changed := map[place]bool{}
	for i, a := range actions {
		at := place{a.Namespace, a.Key}
		if a.Needs() == capability.Storage && slices.Contains(ask[a.Namespace], a.Key) {
			expected[i] = versions[at]
		}
		x := host.Expectation{Namespace: a.Namespace, Key: a.Key, Version: expected[i], Written: handed[at].Written}
		switch a.Kind {
		case capability.PutItem:
			step.Puts = append(step.Puts, host.Put{Expectation: x, Value: a.Value})
			changed[at] = true
		case capability.DropItem:
			changed[at] = true
			if x.Version == 0 { // there is none, which must be so still
				step.Unchanged = append(step.Unchanged, x)
				continue
			}
			step.Deletes = append(step.Deletes, x)
		case capability.Schedule:
			step.Schedule = append(step.Schedule, host.Notification{NotificationID: NotificationID(e.InstanceID, e.ExecutionID, a.Namespace, a.Key), Workspace: e.Workspace, Actor: e.Actor,
				InstanceID: e.InstanceID, Namespace: a.Namespace, Key: a.Key, At: a.At.UTC(), Title: a.Title, Text: a.Text})
		case capability.TakeBack:
			step.Withdraw = append(step.Withdraw, NotificationID(e.InstanceID, a.ExecutionID, a.Namespace, a.Key))
		}
	}
	for _, r := range e.Reads {
		if !changed[place{r.Namespace, r.Key}] {
			step.Unchanged = append(step.Unchanged, r)
		}
	}
	return step, nil
}
