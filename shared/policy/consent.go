package policy

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

// Asked is what an approval must be of.
type Asked struct {
	Project   target.Project
	PlanRef   string // or runRef
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
// write that uses it repeats the last two conditions, and that the approver's grant is
// still the one that was judged.
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

// A Used is an approval that serves. ApproverVersion is the version of the
// approver's grant by which that was judged: a condition of the write.
type Used struct {
	Approval
	ApproverVersion int64
}

// By is whose grant is that condition: the approver, or "" where this is the
// principal, whose own grant is a condition already.
func (u Used) By(principal string) string {
	if u.Approver == principal {
		return ""
	}
	return u.Approver
}

// Use returns the approval of a ref if it serves what is asked, or the reason why
// it does not. One that does not exist is not of this.
func Use(ctx context.Context, store Store, approvalRef string, need Need, asked Asked) (Used, string, error) {
	approval, err := store.Approval(ctx, asked.Project, approvalRef)
	if errors.Is(err, history.ErrNotFound) {
		return Used{}, NotOfThis, nil
	}
	if err != nil {
		return Used{}, "", err
	}
	approver, err := store.Grant(ctx, asked.Project, approval.Approver)
	if err != nil {
		return Used{}, "", err
	}
	if reason := approval.Refuses(need, asked, approver); reason != "" {
		return Used{}, reason, nil
	}
	return Used{approval, approver.Version}, "", nil
}
