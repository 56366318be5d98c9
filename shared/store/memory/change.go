package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/target"
)

var _ change.Store = (*Store)(nil)

// Begin implements change.Store.
func (s *Store) Begin(ctx context.Context, p target.Project, principal, commandKey, planRef string) (change.Opening, error) {
	if err := ctx.Err(); err != nil {
		return change.Opening{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	space := spaceOf(p)
	out := change.Opening{Head: s.heads[space], Grant: s.grants[rowKey{space, principal}], Policy: s.policies[space]}
	out.Grant.Rights, out.Policy.Rules = slices.Clone(out.Grant.Rights), cloneRules(out.Policy.Rules)
	if row, ok := s.commands[rowKey{space, commandKey}]; ok {
		out.Command = &row
	}
	if row, ok := s.plans[planRef]; ok && row.Space == space {
		out.Plan = &row
	}
	return out, nil
}

// CreatePlan implements change.Store.
func (s *Store) CreatePlan(ctx context.Context, row change.PlanRow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if row.Space == "" || row.PlanRef == "" || row.State != change.PlanOpen {
		return errors.New("memory: a new plan has a space and a ref and is open")
	}
	row.CreatedAt, row.ExpiresAt = exact(row.CreatedAt), exact(row.ExpiresAt)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.plans[row.PlanRef]; ok {
		if old.Created() != row {
			return errors.New("memory: another plan has this planRef")
		}
		return nil
	}
	s.plans[row.PlanRef] = row
	return nil
}

// Plan implements change.Store.
func (s *Store) Plan(ctx context.Context, space history.Space, planRef string) (change.PlanRow, error) {
	row, err := s.FindPlan(ctx, planRef)
	if err == nil && row.Space != space {
		return change.PlanRow{}, fmt.Errorf("memory: plan: %w", history.ErrNotFound)
	}
	return row, err
}

// FindPlan implements review.Plans.
func (s *Store) FindPlan(ctx context.Context, planRef string) (change.PlanRow, error) {
	if err := ctx.Err(); err != nil {
		return change.PlanRow{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.plans[planRef]
	if !ok {
		return change.PlanRow{}, fmt.Errorf("memory: plan: %w", history.ErrNotFound)
	}
	return row, nil
}

// Waiting implements review.Rows.
func (s *Store) Waiting(ctx context.Context, space history.Space, now time.Time, after change.Place, limit int) (rows []change.PlanRow, next change.Place, err error) {
	if err := ctx.Err(); err != nil {
		return nil, change.Place{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := change.PlanRow{PlanRef: after.PlanRef, ExpiresAt: after.ExpiresAt}
	for _, row := range s.plans {
		if row.Space == space && row.Asks && row.StateAt(now) == change.PlanOpen && (after.PlanRef == "" || change.ByExpiry(row, behind) > 0) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, change.ByExpiry)
	if len(rows) > limit {
		return rows[:limit], rows[limit-1].Place(), nil
	}
	return rows, change.Place{}, nil
}

// RejectPlan implements review.Plans.
func (s *Store) RejectPlan(ctx context.Context, row change.PlanRow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if row.State != change.PlanRejected || row.RejectedBy == "" {
		return errors.New("memory: a rejection has somebody who rejects")
	}
	row.CreatedAt, row.ExpiresAt, row.RejectedAt = exact(row.CreatedAt), exact(row.ExpiresAt), exact(row.RejectedAt)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.plans[row.PlanRef]; {
	case old == row:
		return nil
	case old.State != change.PlanOpen:
		return &change.ConflictError{Plan: true}
	case old != row.Created():
		return errors.New("memory: another plan has this planRef")
	}
	s.plans[row.PlanRef] = row
	return nil
}

// Command implements change.Store.
func (s *Store) Command(ctx context.Context, space history.Space, key string) (change.CommandRow, error) {
	if err := ctx.Err(); err != nil {
		return change.CommandRow{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.commands[rowKey{space, key}]
	if !ok {
		return change.CommandRow{}, fmt.Errorf("memory: command: %w", history.ErrNotFound)
	}
	return row, nil
}

// Commit implements change.Store.
func (s *Store) Commit(ctx context.Context, c change.Commitment) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	commandKey, approvalKey := rowKey{c.Space, c.Command.Key}, rowKey{c.Space, c.ApprovalRef}
	plan := s.plans[c.PlanRef]
	_, commanded := s.commands[commandKey]
	approval := s.approvals[approvalKey]
	failed := change.ConflictError{
		Head:    !at(s.heads[c.Space], c.Read),
		Command: commanded,
		Plan:    plan.Space != c.Space || plan.State != change.PlanOpen || !plan.ExpiresAt.After(c.Now),
		Policy:  s.policies[c.Space].Version != c.PolicyVersion,
		Grant: s.grants[rowKey{c.Space, c.Principal}].Version != c.GrantVersion ||
			c.Approver != "" && s.grants[rowKey{c.Space, c.Approver}].Version != c.ApproverVersion,
		Approval: c.ApprovalRef != "" && (approval.ApprovalRef == "" || approval.UsedBy != "" || !approval.ExpiresAt.After(c.Now)),
	}
	if failed != (change.ConflictError{}) {
		return &failed
	}
	s.heads[c.Space] = c.Next
	s.commands[commandKey] = c.Command
	plan.State = change.PlanApplied
	s.plans[c.PlanRef] = plan
	if c.ApprovalRef != "" {
		approval.UsedBy = c.Command.Key
		s.approvals[approvalKey] = approval
	}
	return nil
}

// at reports whether a head is still the one that was read. The root follows from
// the commit.
func at(head, read history.Head) bool {
	return head.Version == read.Version && head.Commit == read.Commit
}
