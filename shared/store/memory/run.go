package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

var _ run.Store = (*Store)(nil)

type stageKey struct {
	runRef string
	stage  int
}

// Create implements run.Store.
func (s *Store) Create(ctx context.Context, start run.Start) error {
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
	_, commanded := s.commands[commandKey]
	approval, asked := s.approvals[approvalKey], s.plans[start.Row.RunRef]
	failed := change.ConflictError{
		Command: commanded,
		Policy:  s.policies[space].Version != start.PolicyVersion,
		Grant: s.grants[rowKey{space, start.Row.Principal}].Version != start.GrantVersion ||
			start.Approver != "" && s.grants[rowKey{space, start.Approver}].Version != start.ApproverVersion,
		Plan:       start.ApprovalRef != "" && (asked.Space != space || asked.State != change.PlanOpen || !asked.ExpiresAt.After(start.Now)),
		Approval:   start.ApprovalRef != "" && (approval.ApprovalRef == "" || approval.UsedBy != "" || !approval.ExpiresAt.After(start.Now)),
		Projection: !s.takes(start.Take),
	}
	if failed != (change.ConflictError{}) {
		return &failed
	}
	if _, ok := s.runs[start.Row.RunRef]; ok {
		return errors.New("memory: another run has this runRef")
	}
	s.take(start.Take)
	start.Row.Version = 1
	s.runs[start.Row.RunRef] = start.Row
	s.commands[commandKey] = start.Command
	if start.ApprovalRef != "" {
		approval.UsedBy = start.Command.Key
		s.approvals[approvalKey] = approval
		asked.State = change.PlanApplied
		s.plans[start.Row.RunRef] = asked
	}
	return nil
}

// Fetch implements run.Store.
func (s *Store) Fetch(ctx context.Context, runRef string) (run.Row, error) {
	if err := ctx.Err(); err != nil {
		return run.Row{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.runs[runRef]
	if !ok {
		return run.Row{}, fmt.Errorf("memory: run: %w", history.ErrNotFound)
	}
	return row, nil
}

// Replace implements run.Store.
func (s *Store) Replace(ctx context.Context, row run.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[row.RunRef].Version != row.Version || row.Version == 0 {
		return run.ErrMoved
	}
	row.Version++
	s.runs[row.RunRef] = row
	return nil
}

// SaveStage implements run.Store.
func (s *Store) SaveStage(ctx context.Context, runRef string, stage int, result history.Ref) (history.Ref, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := stageKey{runRef, stage}
	if stored, ok := s.stages[key]; ok {
		return stored, nil
	}
	s.stages[key] = result
	return result, nil
}

// Stage implements run.Store.
func (s *Store) Stage(ctx context.Context, runRef string, stage int) (history.Ref, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ref, ok := s.stages[stageKey{runRef, stage}]
	if !ok {
		return "", fmt.Errorf("memory: stage: %w", history.ErrNotFound)
	}
	return ref, nil
}

// Due implements run.Store.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []run.Row
	for _, row := range s.runs {
		if !row.DueAt.IsZero() && !row.DueAt.After(now) {
			due = append(due, row)
		}
	}
	for _, batch := range s.batches {
		if !batch.DueAt.IsZero() && !batch.DueAt.After(now) {
			due = append(due, run.Row{RunRef: batch.BatchRef, DueAt: batch.DueAt})
		}
	}
	slices.SortFunc(due, func(a, b run.Row) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.RunRef, b.RunRef))
	})
	var refs []string
	for _, row := range due[:min(limit, len(due))] {
		refs = append(refs, row.RunRef)
	}
	return refs, nil
}

// Recent implements run.ListStore.
func (s *Store) Recent(ctx context.Context, project target.Project, before string, limit int) ([]run.Listed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []run.Listed
	for _, row := range s.runs {
		if row.Project == project && row.Part.BatchRef == "" {
			out = append(out, run.ListedRun(row))
		}
	}
	for _, row := range s.batches {
		if row.Project == project {
			out = append(out, run.ListedBatch(row))
		}
	}
	out = slices.DeleteFunc(out, func(l run.Listed) bool { return before != "" && l.Place() >= before })
	slices.SortFunc(out, func(a, b run.Listed) int { return cmp.Compare(b.Place(), a.Place()) })
	return out[:min(limit, len(out))], nil
}
