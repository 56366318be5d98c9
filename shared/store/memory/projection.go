package memory

import (
	"context"

	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

type caseKey struct {
	batchRef string
	index    int
}

// takes reports whether take's generation follows the stored one.
func (s *Store) takes(take *run.Take) bool {
	return take == nil || s.shown[take.Connection].Generation == take.Generation-1
}

func (s *Store) take(take *run.Take) {
	if take == nil {
		return
	}
	p := s.shown[take.Connection]
	p.Connection, p.Generation, p.Intent, p.Ended = take.Connection, take.Generation, take.Intent, ""
	s.shown[take.Connection] = p
}

// settles reports whether settle's generation is still the stored one.
func (s *Store) settles(settle *run.Settle) bool {
	return settle == nil || s.shown[settle.Connection].Generation == settle.Generation
}

func (s *Store) settle(settle *run.Settle) {
	if settle == nil {
		return
	}
	p := s.shown[settle.Connection]
	p.Ended = settle.Ended
	if settle.Shown != nil {
		shown := *settle.Shown
		p.Shown = &shown
	}
	s.shown[settle.Connection] = p
}

// current reports whether the child that ends is its case's current one.
func (s *Store) current(end *run.CaseRow) bool {
	if end == nil {
		return true
	}
	stored, ok := s.cases[caseKey{end.BatchRef, end.Index}]
	if !ok {
		return end.Attempt == 0
	}
	return stored.Attempt == end.Attempt && stored.RunRef == end.RunRef && stored.State == run.Queued
}

// Finish implements run.Store.
func (s *Store) Finish(ctx context.Context, f run.Finish) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[f.Row.RunRef].Version != f.Row.Version || f.Row.Version == 0 {
		return run.ErrMoved
	}
	if late := (run.SupersededError{Projection: !s.settles(f.Settle), Case: !s.current(f.Case)}); late != (run.SupersededError{}) {
		return &late
	}
	f.Row.Version++
	s.runs[f.Row.RunRef] = f.Row
	s.settle(f.Settle)
	if f.Case != nil {
		s.cases[caseKey{f.Case.BatchRef, f.Case.Index}] = *f.Case
	}
	return nil
}

// Projections implements run.Store.
func (s *Store) Projections(ctx context.Context, project target.Project, reportKey string) (map[string]run.Projection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]run.Projection{}
	for c, p := range s.shown {
		if c.Project == project && c.ReportKey == reportKey {
			if p.Shown != nil {
				shown := *p.Shown
				p.Shown = &shown
			}
			out[c.ConnectionKey] = p
		}
	}
	return out, nil
}
