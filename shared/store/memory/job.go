package memory

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
)

var (
	_ sandbox.Store = (*Store)(nil)
	_ sandbox.Keys  = (*Store)(nil)
)

// JobKey implements sandbox.Keys; the key is made at first use.
func (s *Store) JobKey(ctx context.Context) (ed25519.PrivateKey, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobKey == nil {
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		s.jobKey = ed25519.NewKeyFromSeed(seed)
	}
	return s.jobKey, nil
}

// CreateJob implements sandbox.Store.
func (s *Store) CreateJob(ctx context.Context, j sandbox.Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.jobs[j.JobRef]; ok {
		return sandbox.ErrExists
	}
	j.Version = 1
	s.jobs[j.JobRef] = j
	return nil
}

// Job implements sandbox.Store.
func (s *Store) Job(ctx context.Context, jobRef string) (sandbox.Job, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Job{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[jobRef]
	if !ok {
		return sandbox.Job{}, fmt.Errorf("memory: job: %w", history.ErrNotFound)
	}
	return j, nil
}

// ReplaceJob implements sandbox.Store.
func (s *Store) ReplaceJob(ctx context.Context, j sandbox.Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.JobRef].Version != j.Version || j.Version == 0 {
		return sandbox.ErrMoved
	}
	j.Version++
	s.jobs[j.JobRef] = j
	return nil
}

// NoteJob implements sandbox.Store.
func (s *Store) NoteJob(ctx context.Context, j sandbox.Job) error { return s.ReplaceJob(ctx, j) }

// Leasable implements sandbox.Store. The queue is the jobs themselves.
func (s *Store) Leasable(ctx context.Context, q sandbox.Search) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []sandbox.Job
	for _, j := range s.jobs {
		if j.Leasable(q.Now) && (q.Tenant == "" || j.Tenant() == q.Tenant) {
			found = append(found, j)
		}
	}
	slices.SortFunc(found, func(a, b sandbox.Job) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.JobRef, b.JobRef))
	})
	return refsOf(found, q.Limit), nil
}

func refsOf(jobs []sandbox.Job, limit int) []string {
	var refs []string
	for _, j := range jobs[:min(limit, len(jobs))] {
		refs = append(refs, j.JobRef)
	}
	return refs
}

// Backlog implements sandbox.Store.
func (s *Store) Backlog(ctx context.Context, tenant string, most int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range s.jobs {
		if !j.State.Terminal() && j.Tenant() == tenant {
			n++
		}
	}
	return min(n, most), nil
}

// DueJobs implements sandbox.Store.
func (s *Store) DueJobs(ctx context.Context, now time.Time, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []sandbox.Job
	for _, j := range s.jobs {
		if !j.DueAt.IsZero() && !j.DueAt.After(now) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b sandbox.Job) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.JobRef, b.JobRef))
	})
	return refsOf(due, limit), nil
}

// Fleet implements sandbox.Store.
func (s *Store) Fleet(ctx context.Context) (sandbox.Fleet, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Fleet{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sandbox.Fleet{Version: s.fleet}
	for _, w := range s.workers {
		out.Workers = append(out.Workers, w)
	}
	slices.SortFunc(out.Workers, func(a, b sandbox.Worker) int { return cmp.Compare(a.Ref, b.Ref) })
	return out, nil
}

// AddWorker implements sandbox.Store.
func (s *Store) AddWorker(ctx context.Context, w sandbox.Worker, fleet int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.workers[w.Ref]; taken || s.fleet != fleet {
		return sandbox.ErrMoved
	}
	s.fleet++
	w.Version = 1
	s.workers[w.Ref] = w
	return nil
}

// Worker implements sandbox.Store.
func (s *Store) Worker(ctx context.Context, ref string) (sandbox.Worker, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Worker{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.workers[ref]
	if !ok {
		return sandbox.Worker{}, fmt.Errorf("memory: worker: %w", history.ErrNotFound)
	}
	return w, nil
}

// SaveWorker implements sandbox.Store.
func (s *Store) SaveWorker(ctx context.Context, w sandbox.Worker) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[w.Ref].Version != w.Version {
		return sandbox.ErrMoved
	}
	w.Version++
	s.workers[w.Ref] = w
	return nil
}

// RemoveWorker implements sandbox.Store.
func (s *Store) RemoveWorker(ctx context.Context, w sandbox.Worker) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[w.Ref].Version == w.Version {
		delete(s.workers, w.Ref)
	}
	return nil
}
