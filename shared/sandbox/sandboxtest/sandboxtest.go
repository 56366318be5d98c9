// Package sandboxtest is a worker without a sandbox: it speaks the broker's protocol
// as the real one does, and instead of Python it calls a Go function. So everything
// around a worker is tested on machines without gVisor.
//
// It is for tests and is linked into no Lambda.
package sandboxtest

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/target"
)

// Source is what the Functions of Spec are made of.
const Source = "@px.function(key=\"double\")\ndef double(x):\n    return 2 * x\n"

// Spec is a job of a Project with one call a value, of a Function that doubles x.
func Spec(project target.Project, subject string, values ...float64) sandbox.Spec {
	ref := canon.Digest([]byte(Source))
	s := sandbox.Spec{
		V: sandbox.Version, JobRef: sandbox.JobRef(project, subject), Project: project.String(), Kind: sandbox.Functions,
		Sources: map[string]string{ref: Source},
		Limits:  sandbox.Limits{WallMilliseconds: 5000, CPUSeconds: 5, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Processes: 16},
	}
	contract := canon.Raw(`{"type":"number","unit":"m"}`)
	for i, v := range values {
		text, err := canon.Encode(v)
		if err != nil {
			panic(err)
		}
		s.Calls = append(s.Calls, sandbox.Call{
			NodeKey: fmt.Sprintf("node_%d", i), FunctionKey: "double", Version: 1, Digest: ref, Source: ref, Symbol: "double",
			Parameters: []string{"x"}, Inputs: map[string]canon.Raw{"x": contract}, Results: map[string]canon.Raw{"y": contract},
			Values: map[string]canon.Raw{"x": text},
		})
	}
	return s
}

// Entry is a job of an execution of a plugin: main of one file, which is all of the
// package.
func Entry(plugin sandbox.Plugin, input canon.Raw) sandbox.Spec {
	return sandbox.Spec{
		V: sandbox.Version, JobRef: sandbox.EntryRef(plugin.ExecutionID), Kind: sandbox.Entrypoint,
		Limits: sandbox.Limits{WallMilliseconds: 5000, CPUSeconds: 5, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Processes: 16},
		Entry: &sandbox.Entry{Plugin: plugin, Package: canon.Digest([]byte("package")), Path: "src/analyze.py",
			Files: map[string]string{"src/analyze.py": "def main(input):\n    return {'summary': 'x', 'data': {}, 'evidence': []}\n"}, Input: input},
	}
}

// Returned is the result of an entrypoint whose main returned an object, as JSON.
func Returned(s sandbox.Spec, text string) sandbox.Result {
	values := map[string]canon.Raw{}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		panic(err)
	}
	return sandbox.Result{V: sandbox.Version, JobRef: s.JobRef, Results: []sandbox.CallResult{{NodeKey: sandbox.EntryNode, Values: values}},
		RanBy: sandbox.RanBy{Python: "3.11.2", GVisor: "none", Driver: "rootless"}}
}

// Double is what the Functions of Spec answer.
func Double(s sandbox.Spec) sandbox.Result {
	out := sandbox.Result{V: sandbox.Version, JobRef: s.JobRef, RanBy: sandbox.RanBy{Python: "3.11.2", GVisor: "none", Driver: "rootless"}}
	for _, c := range s.Calls {
		var x float64
		if err := json.Unmarshal(c.Values["x"], &x); err != nil {
			out.Results = append(out.Results, sandbox.CallResult{NodeKey: c.NodeKey, Error: &sandbox.CallError{Reason: "exception", Line: 3, Exception: "TypeError"}})
			continue
		}
		text, err := canon.Encode(2 * x)
		if err != nil {
			panic(err)
		}
		out.Results = append(out.Results, sandbox.CallResult{NodeKey: c.NodeKey, Values: map[string]canon.Raw{"y": text}})
	}
	return out
}

// A Worker takes jobs and answers them.
type Worker struct {
	Ref string
	// Key is what jobs must be signed with.
	Key ed25519.PublicKey
	// Invoke sends a request to the broker and returns its answer.
	Invoke func(ctx context.Context, request []byte) ([]byte, error)
	// Run is the sandbox; nil is Double. It is told of a cancellation by its ctx.
	Run func(ctx context.Context, s sandbox.Spec) (sandbox.Result, error)
	// Driver is "rootless" if empty, Python "3.11.2".
	Driver, Python string
	// Stubborn has it hand in what it has, also where it was told that the lease is
	// another's or the job was cancelled.
	Stubborn bool
	// Counted is told of each result that was accepted; nil is nobody.
	Counted func(*sandbox.LeasedJob)
}

// Holder is what a result that was handed in by Do says of the gVisor that it ran in:
// the worker and the fence of its lease.
func Holder(worker string, fence int64) string {
	return fmt.Sprintf("none: %s, fence %d", worker, fence)
}

func (w Worker) call(ctx context.Context, q sandbox.Request, into any) error {
	q.V, q.Worker = sandbox.Version, w.Ref
	text, err := canon.Encode(q)
	if err != nil {
		return err
	}
	answer, err := w.Invoke(ctx, text)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// Claim asks for a job; nil is none.
func (w Worker) Claim(ctx context.Context) (*sandbox.LeasedJob, error) {
	q := sandbox.Request{Op: "claim", Slots: 1, Python: "3.11.2", GVisor: "none", Driver: "rootless"}
	if w.Python != "" {
		q.Python = w.Python
	}
	if w.Driver != "" {
		q.Driver = w.Driver
	}
	var out sandbox.Claimed
	return out.Job, w.call(ctx, q, &out)
}

// Heartbeat carries a lease on.
func (w Worker) Heartbeat(ctx context.Context, j *sandbox.LeasedJob) (sandbox.Beaten, error) {
	var out sandbox.Beaten
	return out, w.call(ctx, sandbox.Request{Op: "heartbeat", JobRef: j.JobRef, Fence: j.Fence}, &out)
}

// Complete hands a result in.
func (w Worker) Complete(ctx context.Context, j *sandbox.LeasedJob, r sandbox.Result) (bool, error) {
	text, err := canon.Encode(r)
	if err != nil {
		return false, err
	}
	var out sandbox.Completed
	err = w.call(ctx, sandbox.Request{Op: "complete", JobRef: j.JobRef, Fence: j.Fence, Result: text}, &out)
	return out.Accepted, err
}

// Fail says that the job could not be run.
func (w Worker) Fail(ctx context.Context, j *sandbox.LeasedJob, reason sandbox.Reason) (bool, error) {
	var out sandbox.Completed
	err := w.call(ctx, sandbox.Request{Op: "complete", JobRef: j.JobRef, Fence: j.Fence, Failure: &sandbox.Failure{Reason: reason}}, &out)
	return out.Accepted, err
}

// Drain says that the worker is about to end.
func (w Worker) Drain(ctx context.Context) error {
	return w.call(ctx, sandbox.Request{Op: "drain"}, nil)
}

// Unfit says that the probe failed.
func (w Worker) Unfit(ctx context.Context, reason string) error {
	return w.call(ctx, sandbox.Request{Op: "unfit", Reason: reason}, nil)
}

// Open reads the spec of a leased job and checks its signature.
func (w Worker) Open(j *sandbox.LeasedJob) (sandbox.Spec, error) {
	if !sandbox.Verify(w.Key, []byte(j.Spec), j.Signature) {
		return sandbox.Spec{}, errors.New("sandboxtest: the signature is not the key's")
	}
	return sandbox.DecodeSpec([]byte(j.Spec))
}

// Do runs a leased job, with heartbeats, and hands the result in.
func (w Worker) Do(ctx context.Context, j *sandbox.LeasedJob) (accepted bool, err error) {
	spec, err := w.Open(j)
	if err != nil {
		return w.Fail(ctx, j, sandbox.SignatureInvalid)
	}
	run := w.Run
	if run == nil {
		run = func(_ context.Context, s sandbox.Spec) (sandbox.Result, error) { return Double(s), nil }
	}
	one, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-one.Done():
				tick.Stop()
				return
			case <-tick.C:
				if beaten, err := w.Heartbeat(one, j); err == nil && (beaten.Cancel || beaten.Stale) {
					stop()
				}
			}
		}
	}()
	result, err := run(one, spec)
	if one.Err() != nil && (err != nil || !w.Stubborn) {
		return false, ctx.Err()
	}
	result.RanBy.GVisor = Holder(w.Ref, j.Fence)
	tell := func() (bool, error) { return w.Complete(ctx, j, result) }
	if err != nil {
		tell = func() (bool, error) { return w.Fail(ctx, j, sandbox.SandboxFailed) }
	}
	// A broker that was lost may have counted it and may not: the same again counts once.
	for range 10 {
		if accepted, err = tell(); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if accepted && len(result.Results) > 0 && w.Counted != nil {
		w.Counted(j)
	}
	return accepted, err
}

// Serve works until ctx is done, or until there was nothing to do for idle; 0 is
// never. Errors of the broker are borne.
func (w Worker) Serve(ctx context.Context, idle time.Duration) {
	for last := time.Now(); ctx.Err() == nil; {
		job, err := w.Claim(ctx)
		if err == nil && job == nil && idle > 0 && time.Since(last) > idle {
			if err = w.Drain(ctx); err == nil {
				if job, err = w.Claim(ctx); err == nil && job == nil {
					return
				}
			}
		}
		if err != nil || job == nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		_, _ = w.Do(ctx, job)
		last = time.Now()
	}
}
