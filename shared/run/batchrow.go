package run

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// A Part is the place of a child Run in its Batch.
type Part struct {
	BatchRef string `json:"batchRef"`
	CaseKey  string `json:"caseKey"`
	Index    int    `json:"index"` // of the case, in the order of the plan
	Attempt  int    `json:"attempt"`
}

// A BatchRow is a Batch as it is stored. That it exists registers the first child
// Run of every case, since a child's runRef follows from batchRef, caseKey and
// attempt (R6).
//
// Unlike a Run, a Batch leaves a terminal state again: when one of its cases is
// retried.
type BatchRow struct {
	BatchRef      string         `json:"batchRef"`
	Project       target.Project `json:"project"`
	Projecting    Projecting     `json:"projecting"` // of the one generation that all its cases share
	FlowKey       string         `json:"flowKey"`
	RevisionRef   string         `json:"revisionRef"` // of the Flow
	Principal     string         `json:"principal"`
	RequestDigest string         `json:"requestDigest"`
	Pins          Pins           `json:"pins,omitzero"` // of each child
	PlanRef       string         `json:"planRef"`

	Count  int         `json:"count"`  // of cases
	Lines  string      `json:"lines"`  // digest of all cases, as JSON Lines
	Keys   history.Ref `json:"keys"`   // the list of caseKeys, in order
	Given  history.Ref `json:"given"`  // what the connection feeds, by portKey
	Merge  history.Ref `json:"merge"`  // a MergeObject
	Needs  []string    `json:"needs"`  // the results that the merge reads of each case
	Stages int         `json:"stages"` // of each child
	// Sandbox are the stages of each child that call Functions.
	Sandbox []int `json:"sandbox,omitzero"`
	Nodes   int   `json:"nodes"` // of each child

	State State `json:"state"`
	// Rounds is how many rounds were started: the first over all cases, and one for
	// each retry. Open are those whose execution has not said that it is over.
	Rounds      int         `json:"rounds"`
	Open        []OpenRound `json:"open"`
	Claimed     bool        `json:"claimed,omitzero"` // an execution of any round began
	Results     history.Ref `json:"results,omitzero"`
	Diagnostics history.Ref `json:"diagnostics,omitzero"`

	Cancelled *CancelledBy `json:"cancelled,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	DueAt     time.Time `json:"dueAt,omitzero"` // as a Run's

	Version int64 `json:"-"`
}

// An OpenRound is a round that is under way.
type OpenRound struct {
	Round int `json:"round"`
	// Lines is the digest of the cases of the round, as JSON Lines.
	Lines string `json:"lines"`
	Count int    `json:"count"`
}

// Space is where the Batch's objects live.
func (b BatchRow) Space() history.Space { return history.Space(b.Project.String()) }

// Connection is the owner of the projection that the Batch took a generation of.
func (b BatchRow) Connection() Connection {
	return Connection{b.Project, b.Projecting.ReportKey, b.Projecting.ConnectionKey}
}

// A StartBatch creates a Batch, uses up its plan and takes its generation, in one
// transaction.
type StartBatch struct {
	Row     BatchRow
	Command change.CommandRow // PlanRef and PlanDigest are the plan's

	PolicyVersion int64
	GrantVersion  int64
	// ApprovalRef is "" where none was asked for. Approver, unless it is "" for the
	// Row's Principal, must still have a grant of ApproverVersion.
	ApprovalRef     string
	Approver        string
	ApproverVersion int64
	Now             time.Time
	Take            Take
}

// Check reports a StartBatch that no store may perform.
func (s StartBatch) Check() error {
	switch b := s.Row; {
	case b.BatchRef == "" || b.Project == (target.Project{}) || b.Principal == "" || s.Command.Key == "" || b.PlanRef == "":
		return errors.New("run: a batch without ref, project, principal, command or plan")
	case b.State != Queued || b.DueAt.IsZero() || b.Rounds != 1 || len(b.Open) != 1 || b.Count < 1:
		return errors.New("run: a new batch is queued, due, and in its first round")
	case s.Approver == b.Principal || s.Approver != "" && s.ApprovalRef == "":
		return errors.New("run: a batch's approver is the principal or approved nothing")
	case s.Command.PlanRef != b.PlanRef || s.Command.Answer == "":
		return errors.New("run: a batch's command names another plan or no answer")
	case s.Take.Intent != Intent{IntentBatch, b.BatchRef} || s.Take.Generation != b.Projecting.Generation || s.Take.Connection != b.Connection():
		return errors.New("run: a batch takes a generation for something else")
	}
	return s.Take.Check()
}

// A RetryCase gives a case another child Run, in one transaction: the Batch goes
// on in a new round.
type RetryCase struct {
	Batch BatchRow // as it shall be, with the Version of the row that was read
	Case  CaseRow  // Queued, with the next attempt
	// Was is the row of the attempt before, terminal; nil of a case of a Batch that
	// ended without it.
	Was *CaseRow
	// Reopen says that the Batch's generation of its projection is under way again:
	// the stored one must still be this one. What is shown stays as it is until the
	// Batch ends.
	Reopen  bool
	Command change.CommandRow // PlanRef holds the batchRef, PlanDigest the request digest

	Principal     string
	PolicyVersion int64
	GrantVersion  int64
	// ApprovalRef is as in Start: with one, the plan row of the new child's runRef,
	// by which the retry was asked for, must be open and is applied by this.
	ApprovalRef     string
	Approver        string
	ApproverVersion int64
	Now             time.Time
}

// Check reports a RetryCase that no store may perform.
func (r RetryCase) Check() error {
	switch {
	case r.Batch.BatchRef == "" || r.Principal == "" || r.Command.Key == "" || r.Command.PlanRef != r.Batch.BatchRef || r.Command.Answer == "":
		return errors.New("run: a retry without batch, principal or command")
	case r.Approver == r.Principal || r.Approver != "" && r.ApprovalRef == "":
		return errors.New("run: a retry's approver is the principal or approved nothing")
	case r.Batch.State != Running || r.Batch.DueAt.IsZero():
		return errors.New("run: a batch of which a case is retried runs and is due")
	case r.Case.BatchRef != r.Batch.BatchRef || r.Case.State != Queued || r.Case.Attempt < 1 || r.Case.Index < 0 || r.Case.Index >= r.Batch.Count:
		return errors.New("run: a retried case is queued, after its first attempt")
	case r.Was != nil && (!r.Was.State.Terminal() || r.Was.CaseKey != r.Case.CaseKey || r.Was.Index != r.Case.Index || r.Was.Attempt != r.Case.Attempt-1):
		return errors.New("run: a retry of another attempt, or of one that did not end")
	}
	return nil
}

// A Tally counts the cases of a Batch whose current attempt ended.
type Tally struct {
	Ended, Failed, Cancelled int // Failed and Cancelled are of the Ended
}

// BatchStore keeps Batches and their cases.
type BatchStore interface {
	// CreateBatch performs a start, or returns a *change.ConflictError.
	CreateBatch(ctx context.Context, s StartBatch) error
	// Batch returns the row, consistently read, or history.ErrNotFound.
	Batch(ctx context.Context, batchRef string) (BatchRow, error)
	// ReplaceBatch stores the row if the stored one still has row.Version, else
	// ErrMoved; with settle, both or neither: a *SupersededError says that a newer
	// generation was taken. After any other error it may have happened.
	ReplaceBatch(ctx context.Context, row BatchRow, settle *Settle) error
	// CreateChild stores the first row of a child Run, or returns ErrMoved where
	// there is one. With end, its case ends with it in the same transaction: a
	// *SupersededError says that the case has another current attempt.
	CreateChild(ctx context.Context, row Row, end *CaseRow) error
	// RetryCase performs a retry, ErrMoved where Batch or case are no longer as they
	// were read, or a *change.ConflictError. With Reopen, a *SupersededError says
	// that a newer generation was taken, and nothing was written.
	RetryCase(ctx context.Context, r RetryCase) error
	// Cases returns the rows of the cases with an index from first up to and without
	// end, in order, consistently read.
	Cases(ctx context.Context, batchRef string, first, end int) ([]CaseRow, error)
	// Tally counts the cases that ended.
	Tally(ctx context.Context, batchRef string) (Tally, error)
	// Rows returns those of the Runs that are there, by runRef.
	Rows(ctx context.Context, runRefs []string) (map[string]Row, error)
}

// Lines keeps the cases of a Batch where its state machine reads them. Names are
// paths; writing one again writes the same bytes.
type Lines interface {
	Put(ctx context.Context, name string, body []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
}

// Rounds starts and looks at the executions of Batches, and looks at those of
// their children, which the service names itself.
type Rounds interface {
	// Start starts the execution of a round; one that was started before is no error.
	Start(ctx context.Context, project target.Project, batchRef string, round int) error
	Look(ctx context.Context, batchRef string, round int) (Execution, error)
	LookChild(ctx context.Context, executionArn string) (Execution, error)
	// StopChild ends a child's execution at once. No Catch runs.
	StopChild(ctx context.Context, executionArn string) error
}
