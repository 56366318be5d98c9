// Package task is what the state machines flow_run and flow_batch and the minute tick
// call: the payloads of the Lambdas run_prepare, run_node, run_finish, batch_prepare,
// batch_merge and background_tick, and nothing but the way from them to package run.
package task

//go:generate go run ./generate

import (
	"context"
	"errors"
	"sync"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/run"
)

// Runs performs the steps.
type Runs interface {
	Prepare(ctx context.Context, runRef, execution string) ([]run.StageKind, error)
	Job(ctx context.Context, runRef string, stage int, token string) error
	Stage(ctx context.Context, runRef string, stage int) (goOn bool, err error)
	Finish(ctx context.Context, runRef string, end run.Ending) (run.State, error)
	Tick(ctx context.Context, limit int) (int, error)
}

// Batches performs the steps of Batches.
type Batches interface {
	PrepareRound(ctx context.Context, batchRef string, round int) (run.PreparedRound, error)
	PrepareChild(ctx context.Context, o run.Order, execution string) ([]run.StageKind, error)
	EndRound(ctx context.Context, batchRef string, round int, end run.Ending) (run.State, error)
}

// A Queue is the jobs of Runs.
type Queue interface {
	Tick(ctx context.Context, limit int) (int, error)
}

// Plugins are what the capability host does by itself.
type Plugins interface {
	Tick(ctx context.Context, limit int) (slots, notifications int, err error)
}

// Tasks are the handlers.
type Tasks struct {
	Runs    Runs
	Batches Batches
	Queue   Queue // of Python jobs, for the minute tick
	Plugins Plugins
}

// PrepareInput is the payload of run_prepare.
type PrepareInput struct {
	Project      string `json:"project"`
	RunRef       string `json:"runRef"`
	ExecutionArn string `json:"executionArn"`
	// Case is of a child Run of a Batch, which is created here.
	Case *run.CaseOrder `json:"case,omitzero"`
}

// Prepared is its answer.
type Prepared struct {
	Stages int             `json:"stages"`
	Kinds  []run.StageKind `json:"kinds"` // of each stage; empty, and never left out, where there is none
}

func prepared(kinds []run.StageKind, err error) (Prepared, error) {
	return Prepared{len(kinds), append([]run.StageKind{}, kinds...)}, err
}

// Prepare claims the Run.
func (t Tasks) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	if in.Case != nil {
		return prepared(t.Batches.PrepareChild(ctx, run.Order{RunRef: in.RunRef, Case: *in.Case}, in.ExecutionArn))
	}
	return prepared(t.Runs.Prepare(ctx, in.RunRef, in.ExecutionArn))
}

// NodeInput is the payload of run_node.
type NodeInput struct {
	Project string `json:"project"`
	RunRef  string `json:"runRef"`
	Stage   int    `json:"stage"`
	// TaskToken asks for the job of a sandbox stage. It is answered when the stage can
	// be collected, which is asked for without one.
	TaskToken string `json:"taskToken,omitzero"`
}

// Continued is its answer: "continue" or "stop", and of a job "waiting", which says
// nothing: the token's answer counts.
type Continued struct {
	State string `json:"state"`
}

// Node evaluates a stage, or hands it to the sandbox.
func (t Tasks) Node(ctx context.Context, in NodeInput) (Continued, error) {
	if in.TaskToken != "" {
		return Continued{"waiting"}, t.Runs.Job(ctx, in.RunRef, in.Stage, in.TaskToken)
	}
	goOn, err := t.Runs.Stage(ctx, in.RunRef, in.Stage)
	if goOn {
		return Continued{"continue"}, err
	}
	return Continued{"stop"}, err
}

// FinishInput is the payload of run_finish.
type FinishInput struct {
	Project string       `json:"project"`
	RunRef  string       `json:"runRef"`
	Outcome string       `json:"outcome"` // completed or failed
	Error   *FinishError `json:"error,omitzero"`
}

// A FinishError is what a Catch of the state machine caught.
type FinishError struct {
	Error string `json:"Error"`
	Cause string `json:"Cause"` // for the log of the execution; it is not stored with the Run
}

// Finished is its answer.
type Finished struct {
	State run.State `json:"state"`
}

// Finish ends the Run.
func (t Tasks) Finish(ctx context.Context, in FinishInput) (Finished, error) {
	end, err := ending(in.Outcome, in.Error)
	if err != nil {
		return Finished{}, err
	}
	state, err := t.Runs.Finish(ctx, in.RunRef, end)
	return Finished{state}, err
}

func ending(outcome string, caught *FinishError) (run.Ending, error) {
	switch {
	case outcome == "completed":
		return run.Ending{}, nil
	case outcome == "failed" && caught != nil && caught.Error != "":
		return run.Ending{Error: caught.Error}, nil
	case outcome == "failed":
		return run.Ending{Error: "States.TaskFailed"}, nil
	}
	return run.Ending{}, errors.New("task: outcome is neither completed nor failed")
}

// RoundInput is the payload of batch_prepare.
type RoundInput struct {
	Project  string `json:"project"`
	BatchRef string `json:"batchRef"`
	Round    int    `json:"round"`
}

// PrepareBatch claims a round of a Batch.
func (t Tasks) PrepareBatch(ctx context.Context, in RoundInput) (run.PreparedRound, error) {
	return t.Batches.PrepareRound(ctx, in.BatchRef, in.Round)
}

// MergeInput is the payload of batch_merge.
type MergeInput struct {
	RoundInput
	Outcome string       `json:"outcome"` // completed or failed
	Error   *FinishError `json:"error,omitzero"`
}

// Merge ends a round, and the Batch with it where nothing of it runs any more.
func (t Tasks) Merge(ctx context.Context, in MergeInput) (Finished, error) {
	end, err := ending(in.Outcome, in.Error)
	if err != nil {
		return Finished{}, err
	}
	state, err := t.Batches.EndRound(ctx, in.BatchRef, in.Round, end)
	return Finished{state}, err
}

// tickLimit is how many Runs one minute looks at: more than that many stand still
// only after an outage, and then a few minutes catch up.
const tickLimit = 200

// Ticked says what a minute did.
type Ticked struct {
	Runs          int `json:"runs"` // looked at
	Jobs          int `json:"jobs"`
	Slots         int `json:"slots"`         // of background capabilities, moved on
	Notifications int `json:"notifications"` // told
}

// Tick takes the next step of what is due. The event of the schedule says nothing
// that is needed. What fails or hangs stops nothing else.
func (t Tasks) Tick(ctx context.Context, _ canon.Raw) (Ticked, error) {
	var did Ticked
	var jobs, runs, plugins error
	var parts sync.WaitGroup
	parts.Go(func() {
		// Jobs first: a Run that waits for one moves on by itself.
		did.Jobs, jobs = t.Queue.Tick(ctx, tickLimit)
		did.Runs, runs = t.Runs.Tick(ctx, tickLimit)
	})
	parts.Go(func() { did.Slots, did.Notifications, plugins = t.Plugins.Tick(ctx, tickLimit) })
	parts.Wait()
	return did, errors.Join(jobs, runs, plugins)
}
