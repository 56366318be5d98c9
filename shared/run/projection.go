package run

import (
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// A Connection is one connection of one Report: the owner of a projection.
type Connection struct {
	Project       target.Project `json:"project"`
	ReportKey     string         `json:"reportKey"`
	ConnectionKey string         `json:"connectionKey"`
}

// IntentKind says what a generation of a projection was taken for.
type IntentKind string

// The kinds of intents.
const (
	IntentRun   IntentKind = "run"   // one ordinary Run
	IntentBatch IntentKind = "batch" // a Batch, with all its cases and their retries
)

// An Intent is the Run or Batch that took a generation of a projection.
type Intent struct {
	Kind IntentKind `json:"kind"`
	Ref  string     `json:"ref"` // runRef or batchRef
}

// A Projection is what the slots of one connection show, and who may say so next.
// It is one row, beside the Report and never in it (R6).
//
// The generation grows by one with every Run or Batch that is started from the
// connection, in the transaction that starts it. Only who holds the current
// generation may write what is shown, in the transaction in which it ends: what
// ends after a newer one was started is history, and the row does not see it.
type Projection struct {
	Connection
	Generation int64
	Intent     Intent // of the current generation
	// Ended is the state in which the intent ended, zero while it is under way: also
	// while a case of a Batch that had ended is retried.
	// A Cancelled one leaves Shown as it was.
	Ended State
	Shown *Shown // nil: nothing was ever shown
}

// Shown is what a connection's slots show.
type Shown struct {
	Generation int64  `json:"generation"` // in which it was computed
	Intent     Intent `json:"intent"`
	State      State  `json:"state"` // Succeeded or Failed
	// Slots is a list of ShownSlot, the slots that this is shown in. It is an
	// object, since a connection may feed more slots than a row holds.
	Slots history.Ref `json:"slots"`
	At    time.Time   `json:"at"`
}

// A ShownSlot is what one slot of a Report shows. Of a Failed Run it has no result.
type ShownSlot struct {
	BlockKey string `json:"blockKey"`
	SlotKey  string `json:"slotKey"`
	PortKey  string `json:"portKey"` // of the Flow
	// Basis is the digest of all that the result was computed from. Where it is
	// not the Report's own any more, the slot is Stale: that is computed when it
	// is read and never written.
	Basis   string       `json:"basis"`
	RunRef  string       `json:"runRef,omitzero"`  // whose result it is
	CaseKey string       `json:"caseKey,omitzero"` // the governing case of a Batch
	Result  *ShownResult `json:"result,omitzero"`
}

// A ShownResult is a result as a slot sums it up.
type ShownResult struct {
	ResultSummary
	// Value is the typed value of a small scalar, in the port's unit (whoever shows
	// it converts); absent of anything larger.
	Value canon.Raw `json:"value,omitzero"`
}

// Projecting is a Run's part in a projection: what it needs to know at its end to
// show its results, pinned when it was started.
type Projecting struct {
	ReportKey     string `json:"reportKey"`
	RevisionRef   string `json:"revisionRef"` // of the Report
	ConnectionKey string `json:"connectionKey"`
	Generation    int64  `json:"generation"`
	// Slots is a list of ShownSlot without results, an object.
	Slots history.Ref `json:"slots"`
}

// A Take moves a projection to its next generation, as a part of the transaction
// that starts what takes it. The generation that is stored must be the one before;
// of a connection that was never run that is 0, and no row.
type Take struct {
	Connection Connection
	Generation int64
	Intent     Intent
}

// Check reports a Take that no store may perform.
func (t Take) Check() error {
	if err := t.Connection.check(); err != nil {
		return err
	}
	if t.Generation < 1 || t.Intent.Ref == "" || (t.Intent.Kind != IntentRun && t.Intent.Kind != IntentBatch) {
		return errors.New("run: a generation is taken from 1 on, for a run or a batch")
	}
	return nil
}

func (c Connection) check() error {
	if c.Project == (target.Project{}) || c.ReportKey == "" || c.ConnectionKey == "" {
		return errors.New("run: a projection without project, report or connection")
	}
	return nil
}

// A Settle says how the intent of a generation ended, as a part of the transaction
// in which it ends. The stored generation must still be this one.
type Settle struct {
	Connection Connection
	Generation int64
	Ended      State  // terminal
	Shown      *Shown // nil leaves what is shown as it is
}

// Check reports a Settle that no store may perform.
func (s Settle) Check() error {
	if err := s.Connection.check(); err != nil {
		return err
	}
	switch {
	case s.Generation < 1 || !s.Ended.Terminal():
		return errors.New("run: what settles a generation has ended")
	case s.Shown != nil && (s.Shown.Generation != s.Generation || s.Shown.Slots == "" || s.Shown.State == Cancelled || s.Shown.State != s.Ended):
		return errors.New("run: what is shown is of another generation or state")
	}
	return nil
}

// A CaseRow is where one case of a Batch stands. There is no row while its first
// attempt, 0, is current and has not ended.
type CaseRow struct {
	BatchRef string    `json:"batchRef"`
	CaseKey  string    `json:"caseKey"`
	Index    int       `json:"index"` // of the case in its Batch
	Attempt  int       `json:"attempt"`
	RunRef   string    `json:"runRef"` // the child Run of the attempt: the current one
	State    State     `json:"state"`  // Queued after a retry, else terminal
	EndedAt  time.Time `json:"endedAt,omitzero"`
	// Values are the results that the merge reads of a case that succeeded, a JSON
	// object of typed values by portKey, where they are few enough for a row; Results
	// is the Run's own list of all.
	Values  string      `json:"values,omitzero"`
	Results history.Ref `json:"results,omitzero"`
}

// A Finish ends a Run: its terminal row and all that has to become true with it,
// in one transaction. A batch's child names its case, and an ordinary Run of a
// Report its projection; other Runs neither.
type Finish struct {
	Row    Row // terminal, with the Version of the row that was read
	Settle *Settle
	// Case is the new row of the child's case. Stored must be the same attempt and
	// child, not ended; or, of attempt 0, nothing.
	Case *CaseRow
}

// Check reports a Finish that no store may perform.
func (f Finish) Check() error {
	if !f.Row.State.Terminal() || !f.Row.DueAt.IsZero() {
		return errors.New("run: a run that is finished is terminal and never due")
	}
	if f.Settle != nil {
		if err := f.Settle.Check(); err != nil {
			return err
		}
	}
	if c := f.Case; c != nil && (c.BatchRef == "" || c.CaseKey == "" || c.RunRef != f.Row.RunRef || c.State != f.Row.State || c.Attempt < 0 || c.Index < 0) {
		return errors.New("run: a case that ends with its child names its batch, child and state")
	}
	return nil
}

// A SupersededError says which parts of a Finish are no longer the Run's to write:
// a newer generation was started, or the case has another current child. Nothing
// was written; the Run ends without them, and is history.
type SupersededError struct {
	Projection bool
	Case       bool
}

func (e *SupersededError) Error() string { return "run: something newer was started meanwhile" }
