package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	if row, ok := s.plans[rowKey{space, planRef}]; ok {
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
	key := rowKey{row.Space, row.PlanRef}
	if old, ok := s.plans[key]; ok {
		old.State = change.PlanOpen
		if old != row {
			return errors.New("memory: another plan has this planRef")
		}
		return nil
	}
	s.plans[key] = row
	return nil
}

// Plan implements change.Store.
func (s *Store) Plan(ctx context.Context, space history.Space, planRef string) (change.PlanRow, error) {
	if err := ctx.Err(); err != nil {
		return change.PlanRow{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.plans[rowKey{space, planRef}]
	if !ok {
		return change.PlanRow{}, fmt.Errorf("memory: plan: %w", history.ErrNotFound)
	}
	return row, nil
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
	planKey, commandKey, approvalKey := rowKey{c.Space, c.PlanRef}, rowKey{c.Space, c.Command.Key}, rowKey{c.Space, c.ApprovalRef}
	plan := s.plans[planKey]
	_, commanded := s.commands[commandKey]
	approval := s.approvals[approvalKey]
	failed := change.ConflictError{
		Head:     !at(s.heads[c.Space], c.Read),
		Command:  commanded,
		Plan:     plan.State != change.PlanOpen || !plan.ExpiresAt.After(c.Now),
		Policy:   s.policies[c.Space].Version != c.PolicyVersion,
		Grant:    s.grants[rowKey{c.Space, c.Principal}].Version != c.GrantVersion,
		Approval: c.ApprovalRef != "" && (approval.ApprovalRef == "" || approval.UsedBy != "" || !approval.ExpiresAt.After(c.Now)),
	}
	if failed != (change.ConflictError{}) {
		return &failed
	}
	s.heads[c.Space] = c.Next
	s.commands[commandKey] = c.Command
	plan.State = change.PlanApplied
	s.plans[planKey] = plan
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
