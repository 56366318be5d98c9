// Package run executes saved Flows durably: a Run is claimed once, evaluated in
// stages whose results are stored once, and ends in one terminal state whatever
// dies in between (U1, U2, U5).
//
// Every step is idempotent, so the state machine, a retry and the minute tick may
// all perform it. The package knows no AWS: executions and rows come through
// the small interfaces below.
package run

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// State is where a Run stands.
type State string

// The states. Succeeded, Failed and Cancelled are terminal and never change.
const (
	Queued     State = "Queued"
	Running    State = "Running"
	Cancelling State = "Cancelling"
	Succeeded  State = "Succeeded"
	Failed     State = "Failed"
	Cancelled  State = "Cancelled"
)

// Terminal reports whether the state never changes any more.
func (s State) Terminal() bool { return s == Succeeded || s == Failed || s == Cancelled }

// A Row is a Run as it is stored. Everything large is an object of the Project.
type Row struct {
	RunRef        string         `json:"runRef"`
	Project       target.Project `json:"project"`
	FlowKey       string         `json:"flowKey"`
	RevisionRef   string         `json:"revisionRef"`
	Principal     string         `json:"principal"`
	RequestDigest string         `json:"requestDigest"`
	Pins          Pins           `json:"pins,omitzero"`
	Inputs        history.Ref    `json:"inputs"` // canonical {portKey: value}; the Ref is the inputsDigest
	Reason        string         `json:"reason,omitzero"`
	// Projecting is set of an ordinary Run of a Report's connection.
	Projecting Projecting `json:"projecting,omitzero"`
	// Part is set of the child Run of a Batch.
	Part Part `json:"part,omitzero"`

	State        State  `json:"state"`
	ExecutionArn string `json:"executionArn,omitzero"` // of the execution that claimed the Run
	Stages       int    `json:"stages"`
	Sandbox      []int  `json:"sandbox,omitzero"` // the stages that call Functions
	Stage        int    `json:"stage"`            // stages done
	Completed    int    `json:"completed"`        // Nodes done
	Total        int    `json:"total"`            // Nodes in all
	// StageEnds is when each stage was done, in order, in milliseconds after StartedAt.
	StageEnds   []int64     `json:"stageEnds,omitzero"`
	RanBy       []Ran       `json:"ranBy,omitzero"`       // what ran the Functions of the stages done
	Results     history.Ref `json:"results,omitzero"`     // a Summary
	Diagnostics history.Ref `json:"diagnostics,omitzero"` // a list of diagnostics

	Cancelled *CancelledBy `json:"cancelled,omitzero"` // who asked first

	CreatedAt time.Time `json:"createdAt"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// DueAt is when the minute tick looks at the Run unless somebody moved it
	// on before. Zero exactly when the state is terminal.
	DueAt time.Time `json:"dueAt,omitzero"`

	// Version is the store's token of this reading, not part of the Run.
	Version int64 `json:"-"`
}

// CancelledBy says who asked a Run to stop.
type CancelledBy struct {
	Principal string    `json:"principal"`
	CommandID string    `json:"commandId"`
	Reason    string    `json:"reason,omitzero"`
	At        time.Time `json:"at"`
}

// Space is where the Run's objects live.
func (r Row) Space() history.Space { return history.Space(r.Project.String()) }

// Connection is the owner of the projection that the Run has a part in.
func (r Row) Connection() Connection {
	return Connection{r.Project, r.Projecting.ReportKey, r.Projecting.ConnectionKey}
}

// A Start creates a Run and the command that asked for it in one transaction.
type Start struct {
	Row     Row
	Command change.CommandRow // PlanRef holds the runRef, PlanDigest the request digest

	PolicyVersion int64
	GrantVersion  int64 // of the Row's Principal
	// ApprovalRef is "" where none was asked for. Else the plan row of the runRef,
	// by which the Run was asked for, must be open and is applied by this; and
	// Approver, unless it is "" for the Row's Principal, must still have a grant of
	// ApproverVersion.
	ApprovalRef     string
	Approver        string
	ApproverVersion int64
	Now             time.Time

	Take *Take // of the Row's Projecting; nil for a Run that no Report shows
}

// Check reports a Start that no store may perform, whatever is stored.
func (s Start) Check() error {
	switch {
	case s.Row.RunRef == "" || s.Row.Project == (target.Project{}) || s.Row.Principal == "" || s.Command.Key == "":
		return errors.New("run: a start without run, project, principal or command")
	case s.Row.State != Queued || s.Row.DueAt.IsZero():
		return errors.New("run: a new run is queued and due")
	case s.Command.PlanRef != s.Row.RunRef || s.Command.Answer == "":
		return errors.New("run: a start's command names another run or no answer")
	case s.Approver == s.Row.Principal || s.Approver != "" && s.ApprovalRef == "":
		return errors.New("run: a start's approver is the principal or approved nothing")
	case (s.Take != nil) != (s.Row.Projecting != Projecting{}):
		return errors.New("run: a run that a report shows takes a generation, and no other does")
	case s.Take != nil && (s.Take.Intent != Intent{IntentRun, s.Row.RunRef} || s.Take.Generation != s.Row.Projecting.Generation || s.Take.Connection != s.Row.Connection()):
		return errors.New("run: a start takes a generation for another run")
	}
	if s.Take != nil {
		return s.Take.Check()
	}
	return nil
}

// ErrMoved is returned by Replace when the row is no longer the one that was read.
var ErrMoved = errors.New("run: the row has moved on")

// Store keeps Run rows and stage results.
type Store interface {
	// Create stores a Run and its command, or returns a *change.ConflictError.
	Create(ctx context.Context, s Start) error
	// Begin reads what a request begins with; see change.Store.
	Begin(ctx context.Context, project target.Project, principal, commandKey, planRef string) (change.Opening, error)
	// CreatePlan stores the row of a Run that waits for an approval; see change.Store.
	CreatePlan(ctx context.Context, row change.PlanRow) error
	// Fetch returns the row, consistently read, or history.ErrNotFound.
	Fetch(ctx context.Context, runRef string) (Row, error)
	// Replace stores the row if the stored one still has row.Version, else
	// ErrMoved. After any other error the write may have happened; who repeats
	// a step reads first and finds it done.
	Replace(ctx context.Context, row Row) error
	// Finish ends a Run with its parts in one transaction, or returns ErrMoved
	// where the row is no longer as it was read, or a *SupersededError. After any
	// other error it may have happened, as with Replace.
	Finish(ctx context.Context, f Finish) error
	// Projections returns the projections of all connections of a Report that were
	// ever run, consistently read, by connectionKey.
	Projections(ctx context.Context, project target.Project, reportKey string) (map[string]Projection, error)
	// SaveStage stores the result of a stage unless there is one, and returns
	// the one that is stored. The first result counts.
	SaveStage(ctx context.Context, runRef string, stage int, result history.Ref) (history.Ref, error)
	// Stage returns a stage's result, or history.ErrNotFound.
	Stage(ctx context.Context, runRef string, stage int) (history.Ref, error)
	// Due returns up to limit Runs whose DueAt is not after now.
	Due(ctx context.Context, now time.Time, limit int) ([]string, error)
}

// An Execution is the state machine's side of a Run.
type Execution string

// The execution states that matter here.
const (
	ExecutionRunning Execution = "running"
	ExecutionEnded   Execution = "ended"
	ExecutionAbsent  Execution = "absent"
)

// Executions starts and looks at state machine executions, named by the runRef.
type Executions interface {
	// Start starts the Run's execution; one that was started before is no error.
	Start(ctx context.Context, project target.Project, runRef string) error
	// Look says how the Run's execution stands.
	Look(ctx context.Context, runRef string) (Execution, error)
	// Stop ends an execution at once. No Catch runs.
	Stop(ctx context.Context, runRef string) error
}
