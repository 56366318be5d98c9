package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
)

// A Commit is one applied change of a Space, and its authoring provenance: who
// used which authority to make which plan, proposed by which assistant, true.
// Commits are objects, each naming the one before it by digest. They hold no
// prompt, no secret, no Report text and no source: only digests, keys and
// semantic paths.
type Commit struct {
	Parent  Ref   `json:"parent,omitzero"` // "" for the first
	Root    Ref   `json:"root,omitzero"`   // catalog snapshot after the change
	Version int64 `json:"version"`         // of the head: 1 for the first

	// Principal is the user or service principal whose authority was used. The
	// assistant is what the client said of itself and has no authority.
	Principal string     `json:"principal"`
	Assistant *Assistant `json:"assistant,omitzero"`

	Tool                string `json:"tool"`
	ToolContractVersion string `json:"toolContractVersion"`
	// RequestDigest is the digest of the structured request that was planned.
	RequestDigest string `json:"requestDigest,omitzero"`
	PlanRef       string `json:"planRef,omitzero"`
	PlanDigest    string `json:"planDigest,omitzero"`
	CommandID     string `json:"commandId,omitzero"`
	// Approval is nil where policy asked for none; then Principal approved by applying.
	Approval    *Consent  `json:"approval,omitzero"`
	CommittedAt time.Time `json:"committedAt"` // UTC

	// ChangeDigest is the digest of Changes; EncodeCommit sets it.
	ChangeDigest string         `json:"changeDigest"`
	Changes      []RevisedEntry `json:"changes"`
}

// An Assistant is who proposed a change.
type Assistant struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// A Consent is the approval that a commit used.
type Consent struct {
	ApprovalRef string    `json:"approvalRef"`
	Approver    string    `json:"approver"` // "iss|sub"
	ApprovedAt  time.Time `json:"approvedAt"`
}

// A RevisedEntry is what a commit did to one catalog key.
type RevisedEntry struct {
	Key    string    `json:"key"`
	Base   *Revision `json:"base,omitzero"`   // nil when created
	Result *Revision `json:"result,omitzero"` // nil when removed
	// Paths are the semantic paths that the change touched in this document.
	Paths []string `json:"paths,omitzero"`
}

// A Revision is one state of a catalog entry.
type Revision struct {
	RevisionRef Ref   `json:"revisionRef,omitzero"`
	Generation  int64 `json:"generation"`
}

// EncodeCommit returns the commit's object and Ref, with ChangeDigest computed
// and times in UTC.
func EncodeCommit(c Commit) (Ref, []byte, error) {
	c.CommittedAt = c.CommittedAt.UTC()
	if c.Approval != nil {
		consent := *c.Approval
		consent.ApprovedAt = consent.ApprovedAt.UTC()
		c.Approval = &consent
	}
	if c.Changes == nil {
		c.Changes = []RevisedEntry{}
	}
	var err error
	if c.ChangeDigest, err = canon.DigestOf(c.Changes); err != nil {
		return "", nil, err
	}
	body, err := canon.Encode(c)
	if err != nil {
		return "", nil, err
	}
	return RefOf(body), body, nil
}

// DecodeCommit reads a commit and refuses what EncodeCommit would write otherwise.
func DecodeCommit(body []byte) (Commit, error) {
	var c Commit
	if err := decodeExactly(body, &c); err != nil {
		return Commit{}, fmt.Errorf("%w: commit: %w", ErrCorrupt, err)
	}
	_, again, err := EncodeCommit(c)
	if err == nil && !slices.Equal(again, body) {
		err = errors.New("changeDigest or a time is not what the commit says")
	}
	if err != nil {
		return Commit{}, fmt.Errorf("%w: commit: %w", ErrCorrupt, err)
	}
	return c, nil
}

// ReadCommit reads one commit.
func ReadCommit(ctx context.Context, objects Objects, space Space, ref Ref) (Commit, error) {
	bodies, err := objects.Get(ctx, space, ref)
	if err != nil {
		return Commit{}, fmt.Errorf("history: read commit: %w", err)
	}
	return DecodeCommit(bodies[0])
}

// A Logged is a commit with its Ref.
type Logged struct {
	Ref    Ref
	Commit Commit
}

// Log returns up to limit commits, newest first, beginning with from (a head's
// Commit). next is where the following page begins, "" at the end.
func Log(ctx context.Context, objects Objects, space Space, from Ref, limit int) (page []Logged, next Ref, err error) {
	for from != "" && len(page) < limit {
		c, err := ReadCommit(ctx, objects, space, from)
		if err != nil {
			return nil, "", err
		}
		page = append(page, Logged{from, c})
		from = c.Parent
	}
	return page, from, nil
}
