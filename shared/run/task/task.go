// Package task is what the state machine flow_run and the minute tick call: the
// payloads of the Lambdas run_prepare, run_node, run_finish and background_tick,
// and nothing but the way from them to package run.
package task

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/run"
)

// Runs performs the steps.
type Runs interface {
	Prepare(ctx context.Context, runRef, execution string) (stages int, err error)
	Stage(ctx context.Context, runRef string, stage int) (goOn bool, err error)
	Finish(ctx context.Context, runRef string, end run.Ending) (run.State, error)
	Tick(ctx context.Context, limit int) (int, error)
}

// Tasks are the handlers.
type Tasks struct{ Runs Runs }

// PrepareInput is the payload of run_prepare.
type PrepareInput struct {
	Project      string `json:"project"`
	RunRef       string `json:"runRef"`
	ExecutionArn string `json:"executionArn"`
}

// Prepared is its answer.
type Prepared struct {
	Stages int `json:"stages"`
}

// Prepare claims the Run.
func (t Tasks) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	stages, err := t.Runs.Prepare(ctx, in.RunRef, in.ExecutionArn)
	return Prepared{stages}, err
}

// NodeInput is the payload of run_node.
type NodeInput struct {
	Project string `json:"project"`
	RunRef  string `json:"runRef"`
	Stage   int    `json:"stage"`
}

// Continued is its answer: "continue" or "stop".
type Continued struct {
	State string `json:"state"`
}

// Node evaluates a stage.
func (t Tasks) Node(ctx context.Context, in NodeInput) (Continued, error) {
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
	var end run.Ending
	switch {
	case in.Outcome == "completed":
	case in.Outcome == "failed" && in.Error != nil && in.Error.Error != "":
		end.Error = in.Error.Error
	case in.Outcome == "failed":
		end.Error = "States.TaskFailed"
	default:
		return Finished{}, fmt.Errorf("task: outcome is neither completed nor failed")
	}
	state, err := t.Runs.Finish(ctx, in.RunRef, end)
	return Finished{state}, err
}

// tickLimit is how many Runs one minute looks at: more than that many stand still
// only after an outage, and then a few minutes catch up.
const tickLimit = 200

// Ticked says what a minute did.
type Ticked struct {
	Runs int `json:"runs"` // looked at
}

// Tick takes the next step of what is due. The event of the schedule says nothing
// that is needed.
func (t Tasks) Tick(ctx context.Context, _ canon.Raw) (Ticked, error) {
	n, err := t.Runs.Tick(ctx, tickLimit)
	return Ticked{n}, err
}
