// Package execution performs capabilities: it accepts a request once, runs it in the
// adapter's own function, and finishes it once, whatever dies in between.
//
// It knows no HTTP and no adapter. Who may do what is told by capability.Workspace, what
// is written by host.Store.
//
// # Order of writes
//
// Each is safe to die after:
//
//  1. The arguments are an object before the record names them; the record is found
//     again by who asked, what for and under which key, so that a request that is sent
//     again finds its execution.
//  2. A claim raises the fence. Whoever held a lower one can write nothing any more.
//  3. Dispatched is written before the first byte that may have an effect leaves, each
//     time with the fence. From then on nobody begins anew: an execution whose process
//     is gone becomes outcome_unknown when its time is over, and nothing is repeated.
//  4. A result is an object before the record says so. One with actions is first
//     computed, and then applied, in one write with its end (Finisher).
package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The limits of one execution. The limit itself is allowed.
const (
	MaxArguments = 256 << 10 // bytes
	MaxResult    = 4 << 20   // bytes of summary, data and evidence together
	MaxSummary   = 4000      // code points
	MaxEvidence  = 200
)

// The surfaces from which capabilities are called.
var Surfaces = []string{"ui", "ai", "slash", "background"}

// A Request asks for an execution.
type Request struct {
	Actor        string
	InstanceID   string
	CapabilityID string
	Arguments    canon.Raw // an object
	Surface      string
	// Key makes the same request the same execution.
	Key string
	// Generation is that of the instance, as the caller saw it; 0 where it saw none.
	Generation int64
}

// ID is the execution of a request.
func (q Request) ID() string {
	return canon.Ref("exec_", q.Actor, q.InstanceID, q.CapabilityID, q.Key)
}

// digest is what makes a request another one under the same key. Where it is asked from
// is no part of it: a button and an AI that send one under one key mean one execution.
func (q Request) digest() (string, error) {
	return canon.DigestOf(map[string]any{"arguments": q.Arguments})
}

// put stores an object of a workspace.
func put(ctx context.Context, objects history.Objects, workspace string, body []byte) (history.Ref, error) {
	return history.RefOf(body), objects.Put(ctx, host.Space(workspace), body)
}

// get reads one.
func get(ctx context.Context, objects history.Objects, workspace string, ref history.Ref) ([]byte, error) {
	found, err := objects.Get(ctx, host.Space(workspace), ref)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// ErrGone says that an adapter's function does not work on an execution any more, or
// that there is no such function: to wait for it is of no use.
var ErrGone = errors.New("execution: the adapter's function is gone")

// An Invoker starts the adapter's own function with an execution. Whether it has come
// to an end when Invoke returns is told by the record alone.
type Invoker interface {
	Invoke(ctx context.Context, adapter capability.AdapterName, executionID string) error
}

// Workspaces reads what is installed, as fresh as the store's generation.
type Workspaces interface {
	Read(ctx context.Context, workspace string) (capability.Workspace, error)
}

// A Desk accepts requests and tells what became of them.
type Desk struct {
	Store      host.Store
	Objects    history.Objects
	Workspaces Workspaces
	Schemas    *safeschema.Cache
	Invoke     Invoker
	Now        func() time.Time
	// Patience is how long Wait waits for an execution to end.
	Patience time.Duration
}

// due is after which time an execution that was accepted and not claimed, or whose
// process is gone, is looked at.
const due = time.Minute

// lost is how long after its deadline an execution is given up whose work a queue does,
// and whose adapter, which does so at the deadline, is not there.
const lost = 10 * time.Minute

// grace is how long after its deadline an execution may still write its end, before it
// is taken for lost.
const grace = 15 * time.Second

// Accept checks a request against what is installed now, and stores its execution, or
// finds the one that the same request has. The error is a *capability.Failure where the
// caller can act on it.
func (d *Desk) Accept(ctx context.Context, q Request) (host.Execution, error) {
	i, err := d.Store.Instance(ctx, q.InstanceID)
	if errors.Is(err, host.ErrNotFound) {
		return host.Execution{}, &capability.Failure{Code: outcome.ExtensionNotFound}
	}
	if err != nil {
		return host.Execution{}, err
	}
	digest, err := q.digest()
	if err != nil {
		return host.Execution{}, err
	}
	// The record comes before what holds now: a request that is sent again finds its
	// execution whatever has changed.
	old, err := d.Store.Execution(ctx, q.ID())
	switch {
	case err == nil && old.RequestDigest != digest:
		return host.Execution{}, &capability.Failure{Code: outcome.CommandReused}
	case err == nil:
		return old, nil
	case !errors.Is(err, host.ErrNotFound):
		return host.Execution{}, err
	}
	e, err := d.Prepare(ctx, i.Workspace, q)
	if err != nil {
		return host.Execution{}, err
	}
	err = d.Store.CreateExecution(ctx, e)
	if errors.Is(err, host.ErrExists) { // by the same request, or by this call's own lost write
		old, err := d.Store.Execution(ctx, e.ExecutionID)
		if err == nil && old.RequestDigest != digest {
			return host.Execution{}, &capability.Failure{Code: outcome.CommandReused}
		}
		return old, err
	}
	if err != nil {
		return host.Execution{}, err
	}
	return d.Store.Execution(ctx, e.ExecutionID)
}

// Prepare checks a request against what is installed now and returns its execution, with
// the arguments stored and no row yet. The error is a *capability.Failure where the
// caller can act on it.
func (d *Desk) Prepare(ctx context.Context, workspace string, q Request) (host.Execution, error) {
	w, err := d.Workspaces.Read(ctx, workspace)
	if err != nil {
		return host.Execution{}, err
	}
	member, err := d.Store.Member(ctx, workspace, q.Actor)
	if err != nil {
		return host.Execution{}, err
	}
	if f := w.Readiness(member, q.Actor, q.InstanceID, q.CapabilityID); f != nil {
		return host.Execution{}, f
	}
	in, _ := w.Find(q.InstanceID)
	if q.Generation != 0 && q.Generation != in.Instance.Generation {
		return host.Execution{}, &capability.Failure{Code: outcome.ExtensionVersionMismatch, Params: outcome.Params{"generation": in.Instance.Generation}}
	}
	c, _ := in.Capability(q.CapabilityID)
	if f := d.arguments(c, q.Arguments); f != nil {
		return host.Execution{}, f
	}
	digest, err := q.digest()
	if err != nil {
		return host.Execution{}, err
	}
	return d.record(ctx, in, c, q, digest)
}

// record is a new execution; its arguments are stored.
func (d *Desk) record(ctx context.Context, in capability.Installed, c capability.Capability, q Request, digest string) (host.Execution, error) {
	ref, err := put(ctx, d.Objects, in.Instance.Workspace, q.Arguments)
	if err != nil {
		return host.Execution{}, err
	}
	now := d.Now()
	deadline := now.Add(time.Duration(c.TimeoutSeconds) * time.Second)
	if queued(in.Runtimes[c.ID].Adapter) {
		deadline = deadline.Add(QueueTime)
	}
	return host.Execution{
		ExecutionID: q.ID(), Workspace: in.Instance.Workspace, Actor: q.Actor, InstanceID: in.Instance.InstanceID, CapabilityID: c.ID, Adapter: in.Runtimes[c.ID].Adapter,
		PackageDigest: in.Instance.PackageDigest, Generation: in.Instance.Generation, Surface: q.Surface, RequestDigest: digest, Arguments: ref,
		State: host.Running, Phase: host.Accepted, CreatedAt: now, Deadline: deadline, DueAt: now.Add(due),
	}, nil
}

// arguments holds arguments to the schema. Without one nothing is asked but that they
// are an object of a size that can be stored.
func (d *Desk) arguments(c capability.Capability, arguments canon.Raw) *capability.Failure {
	if arguments.Kind() != '{' {
		return &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"violations": []safeschema.Violation{{Path: "", Keyword: "type"}}}}
	}
	if len(arguments) > MaxArguments {
		return &capability.Failure{Code: outcome.ExtensionInputInvalid, Params: outcome.Params{"limit": MaxArguments, "observed": len(arguments)}}
	}
	return judge(d.Schemas, c.InputSchema, arguments, outcome.ExtensionInputInvalid)
}

// judge holds a value to a schema.
func judge(schemas *safeschema.Cache, text, value canon.Raw, code outcome.Code) *capability.Failure {
	if text == nil {
		return nil
	}
	s, err := schemas.Schema(text)
	if err != nil {
		return &capability.Failure{Code: code, Params: outcome.Params{"reason": "schema"}, Cause: err}
	}
	violations, err := s.Validate(value)
	switch {
	case err != nil:
		return &capability.Failure{Code: code, Params: outcome.Params{"reason": "json"}, Cause: err}
	case violations != nil:
		return &capability.Failure{Code: code, Params: outcome.Params{"violations": violations}}
	}
	return nil
}

// Wait has an execution performed and waits for its end, as long as patience lasts. What
// is not over by then goes on without the caller.
func (d *Desk) Wait(ctx context.Context, e host.Execution) (host.Execution, error) {
	if e.State.Terminal() {
		return e, nil
	}
	ctx, stop := context.WithTimeout(ctx, d.Patience)
	defer stop()
	// Where a queue does the work, its adapter goes on with what nobody was told of.
	if e.Phase == host.Accepted || queued(e.Adapter) {
		if err := d.Invoke.Invoke(ctx, e.Adapter, e.ExecutionID); err != nil {
			// Of who was called, nothing is known: the record tells, and the minute tick
			// calls again where nothing has happened.
			slog.WarnContext(ctx, "an adapter did not answer", "executionId", e.ExecutionID, "adapter", e.Adapter, "cause", err.Error())
			if errors.Is(err, ErrGone) {
				stop()
			}
		}
	}
	read := context.WithoutCancel(ctx)
	for pause := 25 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		now, err := d.Store.Execution(read, e.ExecutionID)
		if err != nil || now.State.Terminal() || ctx.Err() != nil {
			return now, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Read returns an execution to the actor whose it is.
func (d *Desk) Read(ctx context.Context, actor, executionID string) (host.Execution, error) {
	e, err := d.Store.Execution(ctx, executionID)
	if errors.Is(err, host.ErrNotFound) || err == nil && e.Actor != actor {
		return host.Execution{}, &capability.Failure{Code: outcome.ExtensionNotFound, Params: outcome.Params{"reason": "execution"}}
	}
	return e, err
}

// Result returns what a succeeded execution gave.
func (d *Desk) Result(ctx context.Context, e host.Execution) (capability.Result, error) {
	return ReadResult(ctx, d.Objects, e)
}

// ReadResult reads the stored result of an execution.
func ReadResult(ctx context.Context, objects history.Objects, e host.Execution) (capability.Result, error) {
	text, err := get(ctx, objects, e.Workspace, e.Result)
	if err != nil {
		return capability.Result{}, err
	}
	var r capability.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return capability.Result{}, fmt.Errorf("execution: the stored result: %w", err)
	}
	return r, nil
}

// Cancel asks for the end of an execution. One that nothing was done for yet ends now;
// of one that is at work outside, what it does there cannot be undone, and its end tells
// what is known.
func (d *Desk) Cancel(ctx context.Context, actor, executionID string) (host.Execution, error) {
	for {
		e, err := d.Read(ctx, actor, executionID)
		if err != nil || e.State.Terminal() || e.Cancel {
			return e, err
		}
		next := e
		next.Cancel = true
		if e.Phase == host.Accepted || e.Phase == host.Claimed || e.Phase == host.Computed {
			next.State, next.EndedAt, next.DueAt, next.Result = host.Cancelled, d.Now(), time.Time{}, ""
		} else if e.Phase == host.Queued {
			next.DueAt = d.Now() // the tick ends the job, if the caller does not
		}
		switch err := d.Store.Apply(ctx, host.Step{Execution: next}); {
		case errors.Is(err, host.ErrMoved):
		case err != nil:
			return host.Execution{}, err
		case next.Phase == host.Queued:
			// Its adapter ends the work, and the execution; else the tick has it done.
			if err := d.Invoke.Invoke(ctx, e.Adapter, e.ExecutionID); err != nil {
				slog.WarnContext(ctx, "work was not ended yet; the tick will", "executionId", e.ExecutionID, "cause", err.Error())
			}
		}
		e, err = d.Read(ctx, actor, executionID)
		if err != nil || e.State.Terminal() || e.Cancel {
			return e, err
		}
	}
}

// ---- in the adapter's function ----

// A Runner performs executions with one adapter.
type Runner struct {
	Store      host.Store
	Objects    history.Objects
	Workspaces Workspaces
	Schemas    *safeschema.Cache
	Adapter    capability.Adapter
	Queue      Queue // of an adapter whose work is done elsewhere, which has no Adapter
	Now        func() time.Time
}

// Run performs an execution, if there is something to do for it: to call it again does
// nothing twice. An error says that it is not over and that the minute tick goes on with
// it.
func (r *Runner) Run(ctx context.Context, executionID string) error {
	if r.Queue != nil {
		return r.forward(ctx, executionID)
	}
	e, err := r.claim(ctx, executionID)
	if err == nil && e.Phase == host.Computed {
		_, err = r.finisher().resume(ctx, e)
		return err
	}
	if err != nil || e.State.Terminal() || e.Phase != host.Claimed {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, e.Deadline.Sub(r.Now()))
	defer stop()
	late := context.WithoutCancel(ctx) // its end is written even if its time is over
	result, err := r.perform(ctx, &e)
	if err != nil {
		return r.fail(late, e, err)
	}
	return r.finish(late, e, result)
}

// anew reports whether an execution whose process is gone begins anew while there is time:
// its adapter reaches nothing outside. Of the others, only the record tells whether
// something was sent, and who is at it may be slow.
func anew(a capability.AdapterName) bool {
	return a == capability.TextTemplate || a == capability.CalendarStore || queued(a)
}

// claim takes an execution that nothing was done for. What is returned is claimed by
// this call, or is not to be touched.
func (r *Runner) claim(ctx context.Context, executionID string) (host.Execution, error) {
	e, err := r.Store.Execution(ctx, executionID)
	if err != nil || e.State.Terminal() {
		return e, err
	}
	now := r.Now()
	switch {
	case e.Phase != host.Accepted && e.Phase != host.Claimed:
		return e, nil
	case e.Cancel:
		return r.end(ctx, e, host.Cancelled, nil)
	case !e.Deadline.After(now):
		return r.end(ctx, e, host.Failed, &capability.Failure{Code: outcome.ExtensionTimeout})
	}
	next := e
	next.Phase, next.Fence = host.Claimed, e.Fence+1
	next.DueAt = e.Deadline.Add(grace)
	if soon := now.Add(due); anew(e.Adapter) && soon.Before(next.DueAt) {
		next.DueAt = soon
	}
	if err := r.Store.Apply(ctx, host.Step{Execution: next}); err != nil {
		if errors.Is(err, host.ErrMoved) {
			return host.Execution{State: host.Running}, nil // another's
		}
		return e, err
	}
	return r.Store.Execution(ctx, executionID)
}

// call is an execution as an adapter sees it, of what is installed now.
func (r *Runner) call(ctx context.Context, e *host.Execution) (capability.Call, capability.Capability, error) {
	in, c, err := installed(ctx, r.Store, r.Workspaces, *e)
	if err != nil {
		return capability.Call{}, c, err
	}
	arguments, err := get(ctx, r.Objects, e.Workspace, e.Arguments)
	return capability.Call{
		ExecutionID: e.ExecutionID, Workspace: e.Workspace, Actor: e.Actor, InstanceID: e.InstanceID, Capability: c, Connector: in.Connector(c.ID),
		Arguments: arguments, Settings: in.Instance.Settings, Deadline: e.Deadline,
		Dispatch: func(ctx context.Context) error { return r.dispatch(ctx, e) },
	}, c, err
}

// perform calls the adapter.
func (r *Runner) perform(ctx context.Context, e *host.Execution) (capability.Result, error) {
	call, c, err := r.call(ctx, e)
	if err != nil {
		return capability.Result{}, err
	}
	result, err := r.Adapter.Call(ctx, call)
	if err != nil {
		return capability.Result{}, err
	}
	if f := check(result); f != nil {
		return capability.Result{}, f
	}
	if f := judge(r.Schemas, c.OutputSchema, result.Data, outcome.ExtensionOutputInvalid); f != nil {
		return capability.Result{}, f
	}
	return result, nil
}

// dispatch writes that from now on the effect may have happened.
func (r *Runner) dispatch(ctx context.Context, e *host.Execution) error {
	if e.Phase == host.Dispatched {
		return nil
	}
	next := *e
	next.Phase = host.Dispatched
	err := r.Store.Apply(ctx, host.Step{Execution: next})
	if errors.Is(err, host.ErrMoved) {
		// Another's, cancelled, or this call's own write whose reply was lost: only the
		// record can tell, and it cannot tell the last from the first two but by fence
		// and phase together.
		now, err := r.Store.Execution(ctx, e.ExecutionID)
		if err != nil {
			return err
		}
		if now.State != host.Running || now.Fence != e.Fence || now.Phase != host.Dispatched {
			return ErrStale
		}
		*e = now
		return nil
	}
	if err != nil {
		return err
	}
	now, err := r.Store.Execution(ctx, e.ExecutionID)
	if err == nil {
		*e = now
	}
	return err
}

// check holds a result to its form.
func check(result capability.Result) *capability.Failure {
	invalid := func(rule string) *capability.Failure {
		return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": rule}}
	}
	size := len(result.Summary) + len(result.Data)
	for _, one := range result.Evidence {
		size += len(one)
	}
	switch {
	case result.Summary == "":
		return invalid("summary")
	case len([]rune(result.Summary)) > MaxSummary:
		return invalid("summary_too_long")
	case result.Data.Kind() != '{':
		return invalid("data")
	case len(result.Evidence) > MaxEvidence:
		return invalid("evidence_too_long")
	case size > MaxResult:
		return invalid("too_large")
	}
	return nil
}

// fail writes how an execution failed.
func (r *Runner) fail(ctx context.Context, e host.Execution, err error) error {
	var f *capability.Failure
	switch {
	case errors.Is(err, ErrStale):
		return nil
	case errors.As(err, &f) && f.Code == outcome.ExtensionOutcomeUnknown:
		_, err = r.end(ctx, e, host.OutcomeUnknown, f)
		return err
	case errors.As(err, &f):
		_, err = r.end(ctx, e, host.Failed, f)
		return err
	case e.Phase == host.Dispatched:
		// A fault of ours after the request may have left: nothing is known.
		_, ended := r.end(ctx, e, host.OutcomeUnknown, &capability.Failure{Code: outcome.ExtensionOutcomeUnknown, Cause: err})
		return errors.Join(err, ended)
	case !e.Deadline.After(r.Now()):
		_, ended := r.end(ctx, e, host.Failed, &capability.Failure{Code: outcome.ExtensionTimeout, Cause: err})
		return ended
	}
	return err
}

func (r *Runner) finisher() *Finisher {
	return &Finisher{Store: r.Store, Objects: r.Objects, Workspaces: r.Workspaces, Schemas: r.Schemas, Now: r.Now}
}

func (r *Runner) end(ctx context.Context, e host.Execution, state host.State, f *capability.Failure) (host.Execution, error) {
	return r.finisher().end(ctx, e, state, f)
}

// finish stores a result and ends the execution with it.
func (r *Runner) finish(ctx context.Context, e host.Execution, result capability.Result) error {
	if len(result.Actions) > 0 {
		_, err := r.finisher().Complete(ctx, e.ExecutionID, e.Fence, result)
		if errors.Is(err, ErrStale) {
			return nil
		}
		return err
	}
	text, err := canon.Encode(result)
	if err == nil {
		e.Result, err = put(ctx, r.Objects, e.Workspace, text)
	}
	if err != nil {
		return r.fail(ctx, e, err)
	}
	_, err = r.end(ctx, e, host.Succeeded, nil)
	return err
}

// ---- every minute ----

// Tick goes on with executions that are due: it calls adapters again for what nothing
// was done for, and gives up what nobody will end any more.
func (d *Desk) Tick(ctx context.Context, limit int) error {
	refs, err := d.Store.DueExecutions(ctx, d.Now(), limit)
	if err != nil {
		return err
	}
	var failures []error
	for _, ref := range refs {
		failures = append(failures, d.next(ctx, ref))
	}
	return errors.Join(failures...)
}

// next takes the next step of one.
func (d *Desk) next(ctx context.Context, executionID string) error {
	e, err := d.Store.Execution(ctx, executionID)
	if err != nil || e.State.Terminal() {
		return err
	}
	now := d.Now()
	over := !e.Deadline.Add(grace).After(now)
	next := e
	next.DueAt = now.Add(due)
	switch {
	case e.Phase == host.Dispatched && over:
		next.State, next.Code = host.OutcomeUnknown, outcome.ExtensionOutcomeUnknown
	case (e.Phase == host.Accepted || e.Phase == host.Claimed) && over, e.Phase == host.Queued && !e.Deadline.Add(lost).After(now):
		next.State, next.Code = host.Failed, outcome.ExtensionTimeout
	case e.Phase == host.Computed:
		return errors.Join(d.noted(ctx, next), d.resume(ctx, executionID))
	case e.Phase == host.Accepted || e.Phase == host.Claimed && anew(e.Adapter) || queued(e.Adapter):
		return errors.Join(d.noted(ctx, next), d.Invoke.Invoke(ctx, e.Adapter, e.ExecutionID))
	}
	if next.State.Terminal() {
		next.EndedAt, next.DueAt = now, time.Time{}
	}
	return d.noted(ctx, next)
}

// resume goes on with what was computed, and not applied.
func (d *Desk) resume(ctx context.Context, executionID string) error {
	e, err := d.Store.Execution(ctx, executionID)
	if err != nil {
		return err
	}
	f := &Finisher{Store: d.Store, Objects: d.Objects, Workspaces: d.Workspaces, Schemas: d.Schemas, Now: d.Now}
	if _, err = f.resume(ctx, e); errors.Is(err, ErrStale) {
		return nil
	}
	return err
}

// noted writes a step that somebody else may have taken.
func (d *Desk) noted(ctx context.Context, next host.Execution) error {
	err := d.Store.Apply(ctx, host.Step{Execution: next})
	if errors.Is(err, host.ErrMoved) {
		return nil
	}
	return err
}

// ---- what is installed ----

// A Reader keeps workspaces as it read them, and reads one again when its generation has
// moved.
type Reader struct {
	Store   host.Store
	Objects history.Objects
	kept    keep
}

// Read implements Workspaces.
func (r *Reader) Read(ctx context.Context, workspace string) (capability.Workspace, error) {
	generation, err := r.Store.Generation(ctx, workspace)
	if err != nil {
		return capability.Workspace{}, err
	}
	if w, ok := r.kept.get(workspace); ok && w.Generation == generation {
		return w, nil
	}
	read, err := r.Store.Workspace(ctx, workspace)
	if err != nil {
		return capability.Workspace{}, err
	}
	w := capability.Workspace{Generation: read.Generation, Connections: map[capability.Link]bool{}, Waiting: map[capability.Link]string{}}
	for _, i := range read.Instances {
		m, err := r.manifest(ctx, i)
		if err != nil {
			return capability.Workspace{}, err
		}
		w.Installed = append(w.Installed, capability.Install(i, m))
	}
	slices.SortFunc(w.Installed, func(a, b capability.Installed) int {
		if a.Instance.InstanceID < b.Instance.InstanceID {
			return -1
		}
		return 1
	})
	for _, c := range read.Connections {
		in, _ := w.Find(c.InstanceID)
		switch k := in.Manifest.Connector(c.ConnectorID); {
		case k == nil:
		case k.Destination() != c.Destination:
			w.Waiting[c.Link()] = "changed"
		case c.State != host.Live:
			w.Waiting[c.Link()] = string(c.State)
		default:
			w.Connections[c.Link()] = true
		}
	}
	r.kept.put(workspace, w)
	return w, nil
}

// manifest reads the manifest of an instance's package, which never changes.
func (r *Reader) manifest(ctx context.Context, i capability.Instance) (capability.Manifest, error) {
	if m, ok := r.kept.manifest(i.PackageDigest); ok {
		return m, nil
	}
	text, err := get(ctx, r.Objects, i.Workspace, history.Ref(i.Package))
	if err != nil {
		return capability.Manifest{}, err
	}
	p, err := packaging.ReadStored(text)
	if err != nil {
		return capability.Manifest{}, err
	}
	var m capability.Manifest
	if err := json.Unmarshal(p.Manifest, &m); err != nil {
		return capability.Manifest{}, fmt.Errorf("execution: the stored manifest: %w", err)
	}
	r.kept.keepManifest(i.PackageDigest, m)
	return m, nil
}
