package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/semantic"
)

// StageKind says who carries out a stage.
type StageKind string

// The kinds, as a state machine is told them.
const (
	Builtin   StageKind = "builtin" // in process, by Stage alone
	Sandboxed StageKind = "sandbox" // by a job of the sandbox: first Job, then Stage, which collects
)

// kinds returns the kind of each stage.
func (r Row) kinds() []StageKind {
	out := make([]StageKind, r.Stages)
	for i := range out {
		out[i] = Builtin
		if r.sandboxed(i) {
			out[i] = Sandboxed
		}
	}
	return out
}

func (r Row) sandboxed(stage int) bool { return slices.Contains(r.Sandbox, stage) }

// job is the one job of a stage: whoever asks for it, and however often, means the
// same.
func (r Row) job(stage int) string {
	return sandbox.JobRef(r.Project, fmt.Sprintf("%s/%d", r.RunRef, stage))
}

// waits is the job that the Run may be waiting for; "" where its next stage needs none.
func (r Row) waits() string {
	if !r.sandboxed(r.Stage) {
		return ""
	}
	return r.job(r.Stage)
}

// A Sandbox carries out the jobs of sandbox stages. *sandbox.Jobs is one.
type Sandbox interface {
	// Enqueue stores a job, or finds it, and answers the token when it has ended.
	Enqueue(ctx context.Context, spec sandbox.Spec, token string) (sandbox.State, error)
	// Result tells how a job stands, or history.ErrNotFound.
	Result(ctx context.Context, jobRef string) (sandbox.Outcome, error)
	// Cancel ends a job and fails its token. One that ended, or is not there, is no
	// error.
	Cancel(ctx context.Context, jobRef string) error
}

// Tokens answers what a state machine waits with.
type Tokens interface {
	Succeed(ctx context.Context, token string) error
}

// A Ran says what ran the Functions of stages, so that every result says what ran it.
type Ran struct {
	Python string `json:"python"` // version, such as 3.11.2
	GVisor string `json:"gvisor"` // version
	Driver string `json:"driver"` // rootless or task
	Stages []int  `json:"stages"` // from 0, in order
}

// ranBy adds a stage to what the row says.
func ranBy(have []Ran, by *sandbox.RanBy, stage int) []Ran {
	if by == nil {
		return have
	}
	out := slices.Clone(have)
	for i, r := range out {
		if (sandbox.RanBy{Python: r.Python, GVisor: r.GVisor, Driver: r.Driver}) == *by {
			out[i].Stages = append(slices.Clone(r.Stages), stage)
			return out
		}
	}
	return append(out, Ran{by.Python, by.GVisor, by.Driver, []int{stage}})
}

// What a job may take: see limits.
const (
	// jobOutput is in bytes, of all calls; what is around the values has to travel too.
	jobOutput     = sandbox.MaxResultBytes - 1<<20
	callMemory    = 512 << 20 // bytes, of the whole sandbox
	callProcesses = 64
	mostSeconds   = 600 // of processor time, of any job
	startSeconds  = 10  // of wall clock, beyond what the calls may take
)

// LongestJob is the longest that a job may run once a worker has it.
const LongestJob = (mostSeconds + startSeconds) * time.Second

// limits bound a job by what its calls may take one after the other.
func limits(calls int) sandbox.Limits {
	seconds := min(int64(calls)*outline.SandboxSeconds, mostSeconds)
	return sandbox.Limits{
		WallMilliseconds: (seconds + startSeconds) * 1000, CPUSeconds: seconds, MemoryBytes: callMemory, OutputBytes: jobOutput, Processes: callProcesses,
	}
}

// Job hands a sandbox stage to the sandbox as one job, or finds it handed over. token
// is answered when Stage can go on: by the sandbox when the job has ended, and here,
// at once, where there is nothing to wait for: the stage is stored, nothing of it can
// be called, or the Run is over or being cancelled.
//
// A Run may be cancelled while this is under way. Whoever cancels writes the row first
// and ends the job then; this enqueues first and reads the row again then. So one of
// the two always sees the other's.
func (r *Runs) Job(ctx context.Context, runRef string, stage int, token string) error {
	row, err := r.Store.Fetch(ctx, runRef)
	if err != nil {
		return err
	}
	if row.State != Running {
		return r.Tokens.Succeed(ctx, token)
	}
	if stopped, err := r.stopped(ctx, row); err != nil {
		return err
	} else if stopped {
		return r.Tokens.Succeed(ctx, token)
	}
	if stage < 0 || stage > row.Stage || !row.sandboxed(stage) {
		return fmt.Errorf("run: %s: a job of stage %d asked for in stage %d", runRef, stage, row.Stage)
	}
	if _, err := r.Store.Stage(ctx, runRef, stage); err == nil {
		return r.Tokens.Succeed(ctx, token)
	} else if !errors.Is(err, history.ErrNotFound) {
		return err
	}
	calc, findings, err := r.resume(ctx, row, stage)
	if err != nil {
		return err
	}
	var calls []sandbox.Call
	if calc != nil {
		if calls, findings, err = calc.Calls(stage); err != nil {
			return err
		}
	}
	if len(calls) > 0 {
		found, err := r.enqueue(ctx, row, stage, calc, calls, token)
		r.Warm.keep(runRef, calc, stage)
		if err != nil || !found.Refused() {
			return err
		}
		findings = append(findings, found...)
	}
	if !findings.Refused() {
		return fmt.Errorf("run: %s: nothing is called in stage %d", runRef, stage)
	}
	if _, err := r.conclude(ctx, row, stage, calc, stageResult{Nodes: canon.Raw(`{}`)}, findings); err != nil {
		return err
	}
	return r.Tokens.Succeed(ctx, token)
}

// enqueue makes the job of a stage. Findings say why there cannot be one.
func (r *Runs) enqueue(ctx context.Context, row Row, stage int, calc Calculation, calls []sandbox.Call, token string) (outcome.Findings, error) {
	if r.Sandbox == nil { // an installation without one
		return refuse(outcome.SandboxUnavailable, "/nodes", outcome.Params{"reason": string(sandbox.Unavailable), "stage": stage}), nil
	}
	sources, err := calc.Sources(ctx, calls)
	if err != nil {
		return nil, err
	}
	spec := sandbox.Spec{
		V: sandbox.Version, JobRef: row.job(stage), Project: row.Project.String(), Kind: sandbox.Functions, Python: row.Pins.Python, Sources: sources, Calls: calls, Limits: limits(len(calls)),
	}
	at := slices.Index(row.Sandbox, stage)
	if spec.Leads = at+1 < len(row.Sandbox); at > 0 {
		spec.Follows = row.job(row.Sandbox[at-1])
	}
	_, err = r.Sandbox.Enqueue(ctx, spec, token)
	var large *sandbox.LimitError
	switch {
	case errors.As(err, &large):
		return refuse(outcome.LimitExceeded, "/nodes", outcome.Params{"limit": large.Limit, "observed": large.Observed, "of": "jobBytes", "stage": stage}), nil
	case errors.Is(err, sandbox.ErrMalformed): // the next attempt would make the same
		slog.ErrorContext(ctx, "a job is no job", "runRef", row.RunRef, "stage", stage, "error", err)
		return refuse(outcome.RunFailed, "/nodes", outcome.Params{"reason": "spec_refused", "stage": stage}), nil
	case err != nil:
		return nil, err
	}
	if row, err = r.Store.Fetch(ctx, row.RunRef); err != nil || row.State == Running {
		return nil, err
	}
	return nil, r.Sandbox.Cancel(ctx, row.job(stage))
}

// ErrNotEnded is returned for a stage whose job has not ended.
var ErrNotEnded = errors.New("run: the job has not ended")

// outputTooLarge is the reason of a call whose results the worker cut off.
const outputTooLarge = "output_too_large"

// toldCalls is how many Nodes are told to have failed with their job.
const toldCalls = 100

// collect turns what came of the job of a stage into the results of its Nodes.
func (r *Runs) collect(ctx context.Context, row Row, stage int, calc Calculation) (stageResult, outcome.Findings, error) {
	result := stageResult{Nodes: canon.Raw(`{}`)}
	job, err := r.Sandbox.Result(ctx, row.job(stage))
	if err != nil {
		return result, nil, fmt.Errorf("run: %s: stage %d: %w", row.RunRef, stage, err)
	}
	calls, findings, err := calc.Calls(stage)
	if err != nil {
		return result, nil, err
	}
	reason := string(job.Reason)
	switch job.State {
	case sandbox.Done:
		result.RanBy = &job.Result.RanBy
		for _, r := range job.Result.Results {
			if r.Error != nil && r.Error.Reason == outputTooLarge {
				findings.Add(outcome.LimitExceeded, semantic.Pointer("nodes", r.NodeKey, "results"), outcome.Params{"nodeKey": r.NodeKey, "limit": jobOutput, "of": "resultBytes", "stage": stage})
			}
		}
		nodes, done, found, err := calc.Take(stage, job.Result.Results)
		result.Nodes, result.Done = nodes, done
		return result, append(findings, found...), err
	case sandbox.Failed:
	case sandbox.Cancelled:
		reason = "cancelled"
	default:
		return result, nil, fmt.Errorf("%w: %s, stage %d", ErrNotEnded, row.RunRef, stage)
	}
	if job.Reason == sandbox.ResultTooLarge {
		findings.Add(outcome.LimitExceeded, "/nodes", outcome.Params{"limit": sandbox.MaxResultBytes, "of": "jobBytes", "stage": stage})
		return result, findings, nil
	}
	if job.Reason == sandbox.Unavailable || job.Reason == sandbox.PythonUnavailable {
		params := outcome.Params{"reason": reason, "stage": stage}
		if job.Reason == sandbox.PythonUnavailable {
			params["python"] = row.Pins.Python
			return result, append(findings, outcome.PythonPinned("/nodes", params)), nil
		}
		findings.Add(outcome.SandboxUnavailable, "/nodes", params)
		return result, findings, nil
	}
	for i, c := range calls {
		if i == toldCalls {
			findings.Add(outcome.RunFailed, "/nodes", outcome.Params{"reason": reason, "failed": len(calls), "told": toldCalls})
			break
		}
		findings.Add(outcome.RunFailed, semantic.Pointer("nodes", c.NodeKey), outcome.Params{"nodeKey": c.NodeKey, "reason": reason})
	}
	return result, findings, nil
}

// abandon ends the job that a Run which is over, or is being cancelled, may have. It
// is no error where that fails: the job then ends by itself, its result is of no use,
// and the minute tick comes back to a Run that is being cancelled.
func (r *Runs) abandon(ctx context.Context, row Row) {
	jobRef := row.waits()
	if jobRef == "" || r.Sandbox == nil {
		return
	}
	if err := r.Sandbox.Cancel(ctx, jobRef); err != nil {
		slog.WarnContext(ctx, "a job was not cancelled", "runRef", row.RunRef, "jobRef", jobRef, "error", err)
	}
}
