// Package sandboxpython is the adapter sandbox_python: it has a file of a plugin's
// package called behind gVisor, as a signed job (A8). How the file is written is told at
// capability.SandboxPythonRuntime.
//
// It runs nothing itself and touches no record. It says what the job is given, makes the
// job of an execution, which is one however often it is asked for, and tells what came
// of it: as a result, or as a failure that says by name what was wrong and quotes
// nothing of it.
package sandboxpython

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/schema"
)

// MaxStored is how many bytes of the storage a job is handed. It travels with the
// package and the arguments.
const MaxStored = 1 << 20

// What a job may take, beside the time of its capability.
const (
	memory    = 512 << 20                      // bytes, of the whole sandbox
	output    = sandbox.MaxResultBytes - 1<<20 // bytes; what is around it has to travel too
	processes = 64
)

// Jobs are the queue of jobs; *sandbox.Jobs is one.
type Jobs interface {
	Enqueue(ctx context.Context, spec sandbox.Spec, token string) (sandbox.State, error)
	Result(ctx context.Context, jobRef string) (sandbox.Outcome, error)
	Cancel(ctx context.Context, jobRef string) error
}

// Storage is what of the instances' storage is read.
type Storage interface {
	Items(ctx context.Context, n host.Namespace) (items []host.Item, version int64, err error)
	Some(ctx context.Context, n host.Namespace, keys []string) ([]host.Item, error)
}

// Adapter implements execution.Queue.
type Adapter struct {
	Jobs    Jobs
	Storage Storage
	Objects history.Objects // of the workspaces, which hold packages
}

// New returns the adapter.
func New(jobs Jobs, storage Storage, objects history.Objects) *Adapter {
	return &Adapter{jobs, storage, objects}
}

var _ execution.Queue = (*Adapter)(nil)

// Ref implements execution.Queue: an execution has one job.
func (*Adapter) Ref(executionID string) string { return sandbox.EntryRef(executionID) }

// kept is an item as a job is handed it.
type kept struct {
	Value   canon.Raw `json:"value"`
	Version int64     `json:"version"`
}

// Gather implements execution.Queue. Of a namespace that is read whole, or of which more
// keys are read than a write can hold to their versions, the version of all of it is
// recorded.
func (a *Adapter) Gather(ctx context.Context, c capability.Call) (canon.Raw, []host.Expectation, error) {
	runtime, err := runtimeOf(c.Capability)
	if err != nil {
		return nil, nil, err
	}
	storage := map[string]map[string]kept{}
	var reads []host.Expectation
	keyed, size := 0, 0
	for _, read := range runtime.Reads {
		n := host.Namespace{Workspace: c.Workspace, InstanceID: c.InstanceID, Name: read.Namespace}
		var items []host.Item
		if read.Keys == nil || keyed+len(read.Keys) > host.MaxReadKeys {
			all, version, err := a.Storage.Items(ctx, n)
			if err != nil {
				return nil, nil, err
			}
			items = slices.DeleteFunc(all, func(i host.Item) bool { return read.Keys != nil && !slices.Contains(read.Keys, i.Key) })
			reads = append(reads, host.Expectation{Namespace: read.Namespace, Version: version})
		} else {
			if items, err = a.Storage.Some(ctx, n, read.Keys); err != nil {
				return nil, nil, err
			}
			keyed += len(read.Keys)
			for _, key := range read.Keys {
				x := host.Expectation{Namespace: read.Namespace, Key: key}
				if at := slices.IndexFunc(items, func(i host.Item) bool { return i.Key == key }); at >= 0 {
					x.Version, x.Written = items[at].Version, items[at].Written
				}
				reads = append(reads, x)
			}
		}
		space := map[string]kept{}
		for _, i := range items {
			space[i.Key] = kept{i.Value, i.Version}
			size += len(i.Key) + len(i.Value)
		}
		storage[read.Namespace] = space
	}
	if size > MaxStored {
		return nil, nil, &capability.Failure{Code: outcome.LimitExceeded, Params: outcome.Params{"limit": MaxStored, "observed": size, "of": "storageBytes"}}
	}
	settings := c.Settings
	if settings == nil {
		settings = canon.Raw(`{}`)
	}
	input, err := canon.Encode(struct {
		Arguments canon.Raw                  `json:"arguments"`
		Settings  canon.Raw                  `json:"settings"`
		Storage   map[string]map[string]kept `json:"storage"`
	}{c.Arguments, settings, storage})
	return input, reads, err
}

func runtimeOf(c capability.Capability) (capability.SandboxPythonRuntime, error) {
	r, findings := capability.ReadRuntime(c.Runtime, "")
	if r.SandboxPython == nil || findings.Refused() {
		return capability.SandboxPythonRuntime{}, errors.New("sandboxpython: the runtime is of another adapter")
	}
	return *r.SandboxPython, nil
}

// Begin implements execution.Queue. Where no sandbox can run, that is what Look tells.
func (a *Adapter) Begin(ctx context.Context, o execution.Order) error {
	runtime, err := runtimeOf(o.Capability)
	if err != nil {
		return err
	}
	found, err := a.Objects.Get(ctx, host.Space(o.Instance.Workspace), history.Ref(o.Instance.Package))
	if err != nil {
		return err
	}
	p, err := packaging.ReadStored(found[0])
	if err != nil {
		return err
	}
	seconds := int64(o.Capability.TimeoutSeconds)
	_, err = a.Jobs.Enqueue(ctx, sandbox.Spec{
		V: sandbox.Version, JobRef: a.Ref(o.ExecutionID), Kind: sandbox.Entrypoint,
		Limits: sandbox.Limits{WallMilliseconds: seconds * 1000, CPUSeconds: seconds, MemoryBytes: memory, OutputBytes: output, Processes: processes},
		Entry: &sandbox.Entry{
			Plugin:  sandbox.Plugin{WorkspaceKey: o.Instance.Workspace, InstanceID: o.Instance.InstanceID, ExecutionID: o.ExecutionID},
			Package: o.Instance.PackageDigest, Path: runtime.Entrypoint, Files: p.Sources, Input: o.Input,
		},
	}, "")
	var large *sandbox.LimitError
	switch {
	case errors.As(err, &large):
		return &capability.Failure{Code: outcome.LimitExceeded, Params: outcome.Params{"limit": large.Limit, "observed": large.Observed, "of": "jobBytes"}}
	case errors.Is(err, sandbox.ErrMalformed): // the next attempt would make the same
		slog.ErrorContext(ctx, "a job is no job", "executionId", o.ExecutionID, "error", err)
		return invalid("spec_refused")
	}
	return err
}

// Look implements execution.Queue.
func (a *Adapter) Look(ctx context.Context, ref string) (execution.Progress, error) {
	job, err := a.Jobs.Result(ctx, ref)
	switch {
	case errors.Is(err, history.ErrNotFound) && job.State == "":
		return execution.Progress{Standing: execution.Nowhere}, nil
	case err != nil:
		return execution.Progress{}, err
	}
	p := execution.Progress{Standing: execution.Over}
	switch job.State {
	case sandbox.Done:
		p.Result, p.Failure = Read(*job.Result)
	case sandbox.Failed:
		p.Failure = lost(job.Reason)
	case sandbox.Cancelled:
		p.Standing = execution.Stopped
	case sandbox.Queued, sandbox.Leased:
		p.Standing = execution.Going
	default:
		return p, fmt.Errorf("sandboxpython: a job is %s", job.State)
	}
	return p, nil
}

// Cancel implements execution.Queue.
func (a *Adapter) Cancel(ctx context.Context, ref string) error { return a.Jobs.Cancel(ctx, ref) }

// lost is the failure of a job that has no result. Where nobody could do it, nothing of
// the plugin is at fault, and it may be asked for again: a spec is refused by a worker of
// an earlier version.
func lost(reason sandbox.Reason) *capability.Failure {
	switch reason {
	case sandbox.ResultRefused:
		return invalid(string(reason))
	case sandbox.ResultTooLarge:
		return invalid("output_too_large")
	}
	return &capability.Failure{Code: outcome.SandboxUnavailable, Params: outcome.Params{"reason": string(reason)}}
}

// invalid is the failure of what is no result.
func invalid(rule string) *capability.Failure {
	return &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": rule}}
}

// rules are what a sandbox says of a call without a result. It says so beside untrusted
// code: nothing that it says is passed on but what is one of these.
var rules = []string{"exception", "source_invalid", "symbol_missing", "result_type", "result_extra", "result_cyclic", "result_range", "result_depth", "not_finite",
	"output_too_large", "memory", "exited", "killed", "processes"}

// class is the name of an exception's class.
var class = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// Read reads what came of a job as the result of a capability, or says why it is none.
func Read(r sandbox.Result) (capability.Result, *capability.Failure) {
	if len(r.Results) != 1 {
		return capability.Result{}, invalid("result_refused")
	}
	entry := r.Results[0]
	if e := entry.Error; e != nil {
		switch {
		case e.Reason == "timeout":
			return capability.Result{}, &capability.Failure{Code: outcome.ExtensionTimeout}
		case !slices.Contains(rules, e.Reason):
			return capability.Result{}, invalid("result_refused")
		}
		f := invalid(e.Reason)
		if e.Line > 0 {
			f.Params["line"] = e.Line // of the entrypoint
		}
		if class.MatchString(e.Exception) {
			f.Params["exception"] = e.Exception
		}
		return capability.Result{}, f
	}
	var out capability.Result
	for name := range entry.Values {
		if !slices.Contains([]string{"summary", "data", "evidence", "actions"}, name) {
			return capability.Result{}, invalid("result_extra")
		}
	}
	if json.Unmarshal(entry.Values["summary"], &out.Summary) != nil || strings.TrimSpace(out.Summary) == "" {
		return capability.Result{}, invalid("summary")
	}
	if out.Data = entry.Values["data"]; out.Data.Kind() != '{' {
		return capability.Result{}, invalid("data")
	}
	if evidence := entry.Values["evidence"]; evidence.Kind() != '[' || json.Unmarshal(evidence, &out.Evidence) != nil {
		return capability.Result{}, invalid("evidence")
	}
	if actions := entry.Values["actions"]; actions != nil {
		if found := schema.DecodeAt(actions, "/actions", &out.Actions); found.Refused() {
			f := invalid("actions")
			f.Params["violations"] = execution.Violations(found)
			return capability.Result{}, f
		}
	}
	return out, nil
}

// Completed goes on with executions whose jobs workers complete. It implements
// sandbox.Executions.
type Completed struct{ Runner *execution.Runner }

var _ sandbox.Executions = Completed{}

// Note implements sandbox.Executions. What is no result asks for nothing.
func (c Completed) Note(ctx context.Context, executionID string, result sandbox.Result) error {
	r, failure := Read(result)
	if failure != nil {
		return nil
	}
	return c.Runner.Note(ctx, executionID, r.Actions)
}

// Ended implements sandbox.Executions.
func (c Completed) Ended(ctx context.Context, executionID string) error {
	return c.Runner.Run(ctx, executionID)
}
