// Package policy decides who may do what in a Project, and what needs a second
// pair of eyes.
//
// Grants and policies are rows with a version. Whoever decides on one puts its
// version into the conditions of the write it allowed, so that a right revoked
// meanwhile stops the write (P5).
package policy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/target"
)

// A Right is one thing a principal may do in a Project.
type Right string

// The rights. None implies another.
const (
	Read    Right = "read"
	Edit    Right = "edit"
	Run     Right = "run"
	Approve Right = "approve"
)

// A Grant is what one principal may do in one Project. The zero Grant allows
// nothing and has Version 0, which is also a condition that can be checked.
type Grant struct {
	Rights  []Right
	Version int64
}

// Allows reports whether the grant holds the right.
func (g Grant) Allows(r Right) bool { return slices.Contains(g.Rights, r) }

// A Subject is the kind of thing a policy rule is about.
type Subject string

// The subjects of rules.
const (
	OnReport   Subject = "report"
	OnFlow     Subject = "flow"
	OnFunction Subject = "function"
	OnRun      Subject = "run"
	OnBatch    Subject = "batch"
)

// Enum lists the subjects for package schema.
func (Subject) Enum() []string {
	return []string{string(OnReport), string(OnFlow), string(OnFunction), string(OnRun), string(OnBatch)}
}

// A Rule asks for approval of changes or runs. The first rule that fits decides.
//
// A change of a Function moves the Flows and Reports that use it: rules on flow and on
// report fit it too, where it moves any, with the kinds of the commands that would move
// one by one what it moves.
type Rule struct {
	On Subject `json:"on"`
	// Kinds are command kinds; empty means every kind. They say how a change is made.
	// Other commands may come to the same: to ask for an approval of what changes,
	// however it is made, name its paths.
	Kinds []string `json:"kinds,omitempty"`
	// Paths are semantic paths of the subject's documents, of which "*" stands for any
	// one name: "/nodes/*/target". Empty means every path. Not of run and batch.
	//
	// A rule that requires an approval fits what is written at such a path, below it or
	// above it: a Node that is removed and added again has another target, whatever
	// became of it. One that requires none fits what is written at it or below.
	Paths []string `json:"paths,omitempty"`
	// MaxCost makes the rule fit only what costs more (Node evaluations plus
	// sandbox seconds); 0 fits always.
	MaxCost int64 `json:"maxCost,omitzero" schema:"minimum=0"`
	// Approval is "none" or "required".
	Approval string `json:"approval" schema:"enum=none|required"`
	// SeparateApprover, when false, lets the requester approve. Absent is true.
	SeparateApprover *bool `json:"separateApprover,omitzero"`
}

// A Policy is the rules of one Project.
type Policy struct {
	Version int64  `json:"version"`
	Rules   []Rule `json:"rules"`
}

// An Approval is one person's consent to exactly one plan or run request.
type Approval struct {
	ApprovalRef string
	Project     target.Project
	PlanRef     string // or the runRef that a Run which waits for this will get
	Digest      string // planDigest, or the run's request digest
	Requester   string
	Approver    string
	Comment     string
	ApprovedAt  time.Time
	ExpiresAt   time.Time
	UsedBy      string // key of the command that used it, or ""
}

// Store reads grants, policies and approvals; operators write them.
type Store interface {
	// Grant returns the principal's grant, consistently read; the zero Grant
	// when there is none. principal is "iss|sub".
	Grant(ctx context.Context, project target.Project, principal string) (Grant, error)
	// Policy returns the Project's policy, consistently read; the zero Policy
	// when the Project has none.
	Policy(ctx context.Context, project target.Project) (Policy, error)
	// Approval returns an approval, or history.ErrNotFound.
	Approval(ctx context.Context, project target.Project, approvalRef string) (Approval, error)
}

// ErrApprovalExists says that another approval has the approvalRef.
var ErrApprovalExists = errors.New("policy: another approval has this approvalRef")

// Approvals keeps what approvers decide; what is approved uses it up.
//
// No condition stands on the write of an approval but that its ref is new: all
// that makes one good (the plan open, the approver's right, that it is unused and
// not expired) is a condition of the write that uses it.
type Approvals interface {
	// CreateApproval stores a new, unused approval. Creating the same again is
	// no error; another approval under the same approvalRef is ErrApprovalExists.
	CreateApproval(ctx context.Context, approval Approval) error
}

// Admin writes what operators decide (px project grant, policy). Package project
// implements it, since a grant also changes what project_search lists.
type Admin interface {
	// SetGrant replaces a principal's rights and moves the grant's version; no
	// rights at all is a grant that allows nothing.
	SetGrant(ctx context.Context, project target.Project, principal string, rights []Right) error
	// SetPolicy replaces the rules and moves the version.
	SetPolicy(ctx context.Context, project target.Project, rules []Rule) error
}
