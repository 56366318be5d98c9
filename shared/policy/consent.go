package policy

import (
	"time"

	"github.com/pxhost/pxhost/shared/target"
)

// Asked is what an approval must be of.
type Asked struct {
	Project   target.Project
	PlanRef   string // "" for a run
	Digest    string // planDigest, or the run's request digest
	Requester string
	At        time.Time
}

// The reasons why an approval does not serve. They say nothing about an approval
// of something else.
const (
	NotOfThis     = "not of this"
	SamePerson    = "approver is requester"
	NoRight       = "approver has no right to approve"
	AlreadyUsed   = "used"
	ApprovalEnded = "expired"
)

// Refuses returns why the approval does not serve what was asked, or "". The
// write that uses it repeats the last two conditions.
func (a Approval) Refuses(need Need, asked Asked, approver Grant) string {
	switch {
	case a.Project != asked.Project || a.PlanRef != asked.PlanRef || a.Digest != asked.Digest:
		return NotOfThis
	case need.Separate && a.Approver == asked.Requester:
		return SamePerson
	case !approver.Allows(Approve):
		return NoRight
	case a.UsedBy != "":
		return AlreadyUsed
	case !a.ExpiresAt.After(asked.At):
		return ApprovalEnded
	}
	return ""
}
