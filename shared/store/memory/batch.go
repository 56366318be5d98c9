package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
)

var _ run.BatchStore = (*Store)(nil)

// copied shares nothing with b.
func copied(b run.BatchRow) run.BatchRow {
	b.Open = append([]run.OpenRound{}, b.Open...)
	if b.Cancelled != nil {
		by := *b.Cancelled
		b.Cancelled = &by
	}
	return b
}

// CreateBatch implements run.BatchStore.
func (s *Store) CreateBatch(ctx context.Context, start run.StartBatch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := start.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	space := start.Row.Space()
	commandKey, approvalKey := rowKey{space, start.Command.Key}, rowKey{space, start.ApprovalRef}
	plan, approval := s.plans[start.Row.PlanRef], s.approvals[approvalKey]
	_, commanded := s.commands[commandKey]
	failed := change.ConflictError{
		Command: commanded,
		Plan:    plan.Space != space || plan.State != change.PlanOpen || !plan.ExpiresAt.After(start.Now),
		Policy:  s.policies[space].Version != start.PolicyVersion,
		Grant: s.grants[rowKey{space, start.Row.Principal}].Version != start.GrantVersion ||
			start.Approver != "" && s.grants[rowKey{space, start.Approver}].Version != start.ApproverVersion,
		Projection: !s.takes(&start.Take),
		Approval:   start.ApprovalRef != "" && (approval.ApprovalRef == "" || approval.UsedBy != "" || !approval.ExpiresAt.After(start.Now)),
	}
	if failed != (change.ConflictError{}) {
		return &failed
	}
	if _, ok := s.batches[start.Row.BatchRef]; ok {
		return errors.New("memory: another batch has this batchRef")
	}
	s.take(&start.Take)
	row := copied(start.Row)
	row.Version = 1
	s.batches[row.BatchRef] = row
	s.commands[commandKey] = start.Command
	plan.State = change.PlanApplied
	s.plans[start.Row.PlanRef] = plan
	if start.ApprovalRef != "" {
		approval.UsedBy = start.Command.Key
		s.approvals[approvalKey] = approval
	}
	return nil
}

// Batch implements run.BatchStore.
func (s *Store) Batch(ctx context.Context, batchRef string) (run.BatchRow, error) {
	if err := ctx.Err(); err != nil {
		return run.BatchRow{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.batches[batchRef]
	if !ok {
		return run.BatchRow{}, fmt.Errorf("memory: batch: %w", history.ErrNotFound)
	}
	return copied(row), nil
}

// ReplaceBatch implements run.BatchStore.
func (s *Store) ReplaceBatch(ctx context.Context, row run.BatchRow, settle *run.Settle) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if settle != nil {
		if err := settle.Check(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batches[row.BatchRef].Version != row.Version || row.Version == 0 {
		return run.ErrMoved
	}
	if !s.settles(settle) {
		return &run.SupersededError{Projection: true}
	}
	row = copied(row)
	row.Version++
	s.batches[row.BatchRef] = row
	s.settle(settle)
	return nil
}

// CreateChild implements run.BatchStore.
func (s *Store) CreateChild(ctx context.Context, row run.Row, end *run.CaseRow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.runs[row.RunRef]; ok {
		return run.ErrMoved
	}
	if !s.current(end) {
		return &run.SupersededError{Case: true}
	}
	row.Version = 1
	s.runs[row.RunRef] = row
	if end != nil {
		s.cases[caseKey{end.BatchRef, end.Index}] = *end
	}
	return nil
}

// RetryCase implements run.BatchStore.
func (s *Store) RetryCase(ctx context.Context, r run.RetryCase) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	space := r.Batch.Space()
	commandKey, approvalKey := rowKey{space, r.Command.Key}, rowKey{space, r.ApprovalRef}
	approval, asked := s.approvals[approvalKey], s.plans[r.Case.RunRef]
	_, commanded := s.commands[commandKey]
	failed := change.ConflictError{
		Command: commanded,
		Policy:  s.policies[space].Version != r.PolicyVersion,
		Grant: s.grants[rowKey{space, r.Principal}].Version != r.GrantVersion ||
			r.Approver != "" && s.grants[rowKey{space, r.Approver}].Version != r.ApproverVersion,
		Plan:     r.ApprovalRef != "" && (asked.Space != space || asked.State != change.PlanOpen || !asked.ExpiresAt.After(r.Now)),
		Approval: r.ApprovalRef != "" && (approval.ApprovalRef == "" || approval.UsedBy != "" || !approval.ExpiresAt.After(r.Now)),
	}
	if failed != (change.ConflictError{}) {
		return &failed
	}
	at := caseKey{r.Batch.BatchRef, r.Case.Index}
	stored, ok := s.cases[at]
	if s.batches[r.Batch.BatchRef].Version != r.Batch.Version || r.Batch.Version == 0 || ok != (r.Was != nil) || ok && stored != *r.Was {
		return run.ErrMoved
	}
	if r.Reopen {
		c := r.Batch.Connection()
		p := s.shown[c]
		if p.Generation != r.Batch.Projecting.Generation {
			return &run.SupersededError{Projection: true}
		}
		p.Ended = ""
		s.shown[c] = p
	}
	row := copied(r.Batch)
	row.Version++
	s.batches[row.BatchRef] = row
	s.cases[at] = r.Case
	s.commands[commandKey] = r.Command
	if r.ApprovalRef != "" {
		approval.UsedBy = r.Command.Key
		s.approvals[approvalKey] = approval
		asked.State = change.PlanApplied
		s.plans[r.Case.RunRef] = asked
	}
	return nil
}

// Cases implements run.BatchStore.
func (s *Store) Cases(ctx context.Context, batchRef string, first, end int) ([]run.CaseRow, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []run.CaseRow
	for at, row := range s.cases {
		if at.batchRef == batchRef && at.index >= first && at.index < end {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b run.CaseRow) int { return a.Index - b.Index })
	return out, nil
}

// Tally implements run.BatchStore.
func (s *Store) Tally(ctx context.Context, batchRef string) (run.Tally, error) {
	if err := ctx.Err(); err != nil {
		return run.Tally{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var t run.Tally
	for at, row := range s.cases {
		if at.batchRef != batchRef || !row.State.Terminal() {
			continue
		}
		t.Ended++
		switch row.State {
		case run.Failed:
			t.Failed++
		case run.Cancelled:
			t.Cancelled++
		}
	}
	return t, nil
}

// Rows implements run.BatchStore.
func (s *Store) Rows(ctx context.Context, runRefs []string) (map[string]run.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]run.Row{}
	for _, ref := range runRefs {
		if row, ok := s.runs[ref]; ok {
			out[ref] = row
		}
	}
	return out, nil
}
