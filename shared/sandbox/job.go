package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// State is where a job stands.
type State string

// The states. Done, Failed and Cancelled are terminal and never change.
const (
	Queued    State = "queued"
	Leased    State = "leased"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Terminal reports whether the state never changes any more.
func (s State) Terminal() bool { return s == Done || s == Failed || s == Cancelled }

// A Reason says why a job failed. Reasons of single calls are in the Result, not
// here: a job whose calls all failed is done.
type Reason string

// The reasons.
const (
	// Unavailable: no worker can run Python here (PX_SANDBOX_UNAVAILABLE).
	Unavailable Reason = "sandbox_unavailable"
	// WorkerLost: as many workers as may try have taken the job and not come back.
	WorkerLost Reason = "worker_lost"
	// SandboxFailed: a worker could not run a sandbox for the job, as often as may be
	// tried.
	SandboxFailed Reason = "sandbox_failed"
	// PythonUnavailable: the Project pins a Python that the workers do not have.
	PythonUnavailable Reason = "python_unavailable"
	// ResultRefused: what the worker sent is not a result of this job.
	ResultRefused Reason = "result_refused"
	// ResultTooLarge: what the worker sent is more than can travel.
	ResultTooLarge Reason = "result_too_large"
	// SpecRefused: the worker could not read the spec, or does not do what it asks.
	SpecRefused Reason = "spec_refused"
	// SignatureInvalid: the worker does not know the signature of the spec.
	SignatureInvalid Reason = "signature_invalid"
)

// final tells what a worker may give as the reason of a failure, and whether
// another attempt is no use.
var final = map[Reason]bool{SandboxFailed: false, PythonUnavailable: true, SpecRefused: true, SignatureInvalid: true}

// A Job is a job as it is stored. Spec and result are objects of whose code it is.
type Job struct {
	JobRef  string         `json:"jobRef"`
	Project target.Project `json:"project,omitzero"` // of Functions
	Plugin  Plugin         `json:"plugin,omitzero"`  // of an Entrypoint
	Kind    string         `json:"kind"`
	// Python is the minor version that is pinned, or "".
	Python    string      `json:"python,omitzero"`
	Spec      history.Ref `json:"spec"`
	Signature []byte      `json:"signature"`
	// WallMilliseconds is how long the job may take once it is leased.
	WallMilliseconds int64 `json:"wallMilliseconds"`

	State State `json:"state"`
	// Fence is of the lease that is or was the last one, from 1; 0 is none.
	Fence    int64       `json:"fence"`
	Attempts int         `json:"attempts"`        // leases that were given
	Worker   string      `json:"worker,omitzero"` // that has the lease, or had the last one
	Claim    string      `json:"claim,omitzero"`  // names the call that got the lease, so that it knows its own write
	Until    time.Time   `json:"until,omitzero"`  // end of the lease, of a leased job
	LeasedAt time.Time   `json:"leased,omitzero"` // beginning of the lease
	Result   history.Ref `json:"result,omitzero"` // of a job that is done
	Reason   Reason      `json:"reason,omitzero"` // of a job that failed

	// Token is the task token that waits for the end of the job, until it is
	// answered. It is a secret of the state machine and appears in no log.
	Token string `json:"token,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// DueAt is when the minute tick looks at the job. Zero exactly when the job is
	// terminal and no token waits.
	DueAt time.Time `json:"dueAt,omitzero"`

	// Version is the store's token of this reading, not part of the job.
	Version int64 `json:"-"`
}

// Space is where the job's objects live. That of a plugin's is its instance's own, of a
// name that neither a Project nor a workspace has.
func (j Job) Space() history.Space {
	if j.Kind == Entrypoint {
		return history.Space("plugin#" + j.Tenant())
	}
	return history.Space(j.Project.String())
}

// Tenant is whose code it is: a workspace, or an instance of a plugin in one. One task
// of the driver task runs the code of one tenant only, since behind the Sentry its own
// machine is the next wall.
func (j Job) Tenant() string {
	if j.Kind == Entrypoint {
		return j.Plugin.WorkspaceKey + "/" + j.Plugin.InstanceID
	}
	return j.Project.WorkspaceKey
}

// Leasable reports whether a worker may have the job at a time: it waits, or its
// lease is over.
func (j Job) Leasable(now time.Time) bool {
	return j.State == Queued || j.State == Leased && !j.Until.After(now)
}

// A Standing is how a worker stands.
type Standing string

// The standings. A worker that is gone is one whose Until is over.
const (
	Starting Standing = "starting" // was asked for and has not called yet
	Serving  Standing = "serving"
	Draining Standing = "draining" // takes one more look and ends
	Unfit    Standing = "unfit"    // its probe failed: it runs nothing
)

// A Worker is a worker as it is stored.
type Worker struct {
	Ref      string   `json:"ref"`
	Standing Standing `json:"standing"`
	Slots    int      `json:"slots"` // jobs at once
	Python   string   `json:"python,omitzero"`
	GVisor   string   `json:"gvisor,omitzero"`
	Driver   string   `json:"driver,omitzero"`
	// Tenant is whom a worker of the driver task belongs to since its first job.
	Tenant string `json:"tenant,omitzero"`
	// Task is what the starter calls it, of a worker that was started by one.
	Task   string    `json:"task,omitzero"`
	SeenAt time.Time `json:"seenAt"`
	// Until is when it is taken for gone unless it is seen before.
	Until time.Time `json:"until"`

	// Version is the store's token of this reading, not part of the worker.
	Version int64 `json:"-"`
}

// OneTenant is the driver whose workers belong to one tenant.
const OneTenant = "task"

// Serves reports whether the worker takes jobs of a tenant, or will when it has
// started.
func (w Worker) Serves(tenant string, now time.Time) bool {
	return (w.Standing == Starting || w.Standing == Serving) && w.Until.After(now) && (w.Tenant == "" || w.Tenant == tenant)
}

// A Fleet is all workers at a moment, consistently read.
type Fleet struct {
	Workers []Worker
	// Version grows with each worker that is started, and is the condition of
	// starting one: of several who see that one is missing, one starts it.
	Version int64
}

// Errors of a Store.
var (
	// ErrExists is returned by CreateJob where there is such a job.
	ErrExists = errors.New("sandbox: the job exists")
	// ErrMoved is returned where a row is no longer the one that was read.
	ErrMoved = errors.New("sandbox: the row has moved on")
)

// A Search is for jobs that a worker may lease.
type Search struct {
	Now    time.Time
	Tenant string // "" is any
	Limit  int
}

// Store keeps jobs, their queue and the workers. After an error that is not one of
// the above a write may have happened; who repeats a step reads first and finds it
// done.
type Store interface {
	// CreateJob stores a job that waits, and its entry in the queue, or returns
	// ErrExists.
	CreateJob(ctx context.Context, j Job) error
	// Job returns the row, consistently read, or history.ErrNotFound.
	Job(ctx context.Context, jobRef string) (Job, error)
	// ReplaceJob stores the row if the stored one still has its version, and keeps
	// the entry in the queue in step: a terminal job has none.
	ReplaceJob(ctx context.Context, j Job) error
	// NoteJob is ReplaceJob for a row of which only token and due time changed.
	NoteJob(ctx context.Context, j Job) error
	// Leasable returns jobs that the queue shows as leasable, the oldest first,
	// consistently read. Who leases one reads its row first.
	Leasable(ctx context.Context, q Search) ([]string, error)
	// Backlog counts the jobs of a tenant that have not ended, up to most.
	Backlog(ctx context.Context, tenant string, most int) (int, error)
	// DueJobs returns up to limit jobs whose DueAt is not after now.
	DueJobs(ctx context.Context, now time.Time, limit int) ([]string, error)

	// Fleet returns all workers, consistently read.
	Fleet(ctx context.Context) (Fleet, error)
	// AddWorker stores a new worker if the fleet still has the version, else ErrMoved.
	AddWorker(ctx context.Context, w Worker, fleet int64) error
	// Worker returns one, consistently read, or history.ErrNotFound.
	Worker(ctx context.Context, ref string) (Worker, error)
	// SaveWorker stores a worker if the stored one still has its version, 0 being
	// none, else ErrMoved.
	SaveWorker(ctx context.Context, w Worker) error
	// RemoveWorker forgets a worker if the stored one still has its version; else it
	// does nothing.
	RemoveWorker(ctx context.Context, w Worker) error
}
