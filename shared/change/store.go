package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// PlanState is where a plan stands. An open plan past its expiry is expired
// without a write.
type PlanState string

// The stored plan states.
const (
	PlanOpen    PlanState = "open"
	PlanApplied PlanState = "applied"
	// PlanRejected is what a reviewer's no makes of a plan. It can never be
	// applied any more; planning again makes another plan.
	PlanRejected PlanState = "rejected"
	// PlanExpired is told of an open plan whose time is over; it is never stored.
	PlanExpired PlanState = "expired"
)

// A PlanRow remembers a plan; what the plan says is the object Body. Rows are
// kept 90 days, so that an old plan is told expired and not unknown.
//
// A costly Run that waits for an approval is such a row too: its PlanRef is the
// runRef that the Run will get, its Digest that of the request (package run).
type PlanRow struct {
	PlanRef   string // "plan_" and a ULID; alone it tells the row, whatever the Space
	Space     history.Space
	Tool      string // the plan tool that made it: only its apply tool may use it
	Principal string // "iss|sub"
	Digest    string // planDigest
	Body      history.Ref
	CreatedAt time.Time
	ExpiresAt time.Time
	State     PlanState
	// Asks says that policy asked for an approval when the row was made: while it is
	// open, it is found by who looks for what waits. About names what it is of, for that
	// list, "flow/girder_check", and Targets counts what it would move.
	Asks    bool
	About   string
	Targets int
	// Of a plan that was rejected.
	RejectedBy string // "iss|sub"
	RejectedAt time.Time
	Comment    string
}

// Created is the row as it was when it was created.
func (r PlanRow) Created() PlanRow {
	r.State, r.RejectedBy, r.RejectedAt, r.Comment = PlanOpen, "", time.Time{}, ""
	return r
}

// StateAt is the state of the plan at a time. Only an open one can be applied,
// approved or rejected.
func (r PlanRow) StateAt(now time.Time) PlanState {
	if r.State == PlanOpen && !now.Before(r.ExpiresAt) {
		return PlanExpired
	}
	return r.State
}

// About names the one thing that a request's target is, as the catalog does:
// "flow/girder_check". What is no such target is "".
func About(of canon.Raw) string {
	var t struct {
		Flow     string `json:"flowKey"`
		Report   string `json:"reportKey"`
		Function string `json:"functionKey"`
	}
	if json.Unmarshal(of, &t) != nil {
		return ""
	}
	for _, one := range [][2]string{{"flow", t.Flow}, {"report", t.Report}, {"function", t.Function}} {
		if one[1] != "" {
			return history.Key(one[0], one[1])
		}
	}
	return ""
}

// A Place is where a row stands among those that wait: what expires first comes first.
type Place struct {
	ExpiresAt time.Time
	PlanRef   string
}

// ByExpiry orders rows as they are listed.
func ByExpiry(a, b PlanRow) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.PlanRef, b.PlanRef))
}

// Place returns the row's own.
func (r PlanRow) Place() Place { return Place{r.ExpiresAt, r.PlanRef} }

// A CommandRow is the memory that makes a retry safe. It never expires.
type CommandRow struct {
	Key        string // CommandKey of verb, principal, target and commandId
	PlanRef    string
	PlanDigest string
	Answer     history.Ref // the first answer, word for word
}

// A Commitment is one atomic change of a Space: everything that must be true
// and everything that becomes true, in one conditional transaction.
type Commitment struct {
	Space   history.Space
	Read    history.Head // as it was read; the head must still be this
	Next    history.Head // Version is Read.Version + 1
	Command CommandRow   // must not exist yet
	PlanRef string       // must be open and not expired at Now
	Now     time.Time

	PolicyVersion int64  // the Project's policy must still have this version
	Principal     string // whose grant must still have GrantVersion
	GrantVersion  int64

	ApprovalRef string // "" when none was asked for; else unused and unexpired at Now, and is used by this
	// Approver is who gave the approval, and ApproverVersion the version that this
	// principal's grant must still have; "" where it is Principal.
	Approver        string
	ApproverVersion int64
}

// Check reports a Commitment that no store may perform, whatever is stored.
func (c Commitment) Check() error {
	switch {
	case c.Space == "" || c.Principal == "" || c.PlanRef == "" || c.Command.Key == "":
		return errors.New("change: a commitment without space, principal, plan or command")
	case c.Next.Version != c.Read.Version+1 || c.Next.Commit == "":
		return errors.New("change: a commitment's next head does not follow the one that was read")
	case c.Command.PlanRef != c.PlanRef || c.Command.Answer == "":
		return errors.New("change: a commitment's command names another plan or no answer")
	case c.Approver == c.Principal || c.Approver != "" && c.ApprovalRef == "":
		return errors.New("change: a commitment's approver is the principal or approved nothing")
	}
	return nil
}

// A ConflictError says which conditions of a Commitment did not hold. Nothing
// was written. A transient collision with another transaction is no
// ConflictError: the store retries that itself.
type ConflictError struct {
	Head, Command, Plan, Policy, Grant, Approval bool
	// Projection is of what starts a Run or a Batch from a Report.
	Projection bool
}

func (e *ConflictError) Error() string {
	var parts []string
	for name, failed := range map[string]bool{"head": e.Head, "command": e.Command, "plan": e.Plan, "policy": e.Policy, "grant": e.Grant, "approval": e.Approval, "projection": e.Projection} {
		if failed {
			parts = append(parts, name)
		}
	}
	return fmt.Sprintf("change: conditions failed: %s", strings.Join(parts, ", "))
}

// An Opening is all of a Project that a request begins with: what may be done, by
// which rules, and from where. Each row is read consistently, but they may be of
// different moments: who writes makes their versions conditions of the write.
type Opening struct {
	Head    history.Head
	Grant   policy.Grant  // of the principal
	Policy  policy.Policy // of the Project
	Command *CommandRow   // of the key that was asked for; nil when there is none
	Plan    *PlanRow      // of the planRef that was asked for; nil when there is none
}

// Store keeps plans and commands and performs commitments.
type Store interface {
	// Begin reads an Opening, in one request. An empty commandKey or planRef asks
	// for none.
	Begin(ctx context.Context, project target.Project, principal, commandKey, planRef string) (Opening, error)
	// CreatePlan stores a new plan row; its Body must be durable already. Times
	// are kept to the nanosecond, in UTC. Creating the same row again is no
	// error, so that an unknown outcome can be repeated; another row under the
	// same planRef is one.
	CreatePlan(ctx context.Context, row PlanRow) error
	// Plan returns a plan's row, consistently read, or history.ErrNotFound.
	Plan(ctx context.Context, space history.Space, planRef string) (PlanRow, error)
	// Command returns a command's row, consistently read, or history.ErrNotFound.
	Command(ctx context.Context, space history.Space, key string) (CommandRow, error)
	// Commit performs a commitment entirely or not at all. It returns a
	// *ConflictError, history.ErrOutcomeUnknown, or an error of the machinery
	// that guarantees that nothing was written.
	Commit(ctx context.Context, c Commitment) error
}
