package memory

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/history"
)

var (
	_ history.Objects = (*Store)(nil)
	_ history.Heads   = (*Store)(nil)
)

// Put implements history.Objects.
func (s *Store) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, body := range bodies {
		s.objects[objectKey{space, history.RefOf(body)}] = object{bytes.Clone(body), s.now()}
	}
	return nil
}

// Get implements history.Objects.
func (s *Store) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bodies := make([][]byte, len(refs))
	for i, ref := range refs {
		o, ok := s.objects[objectKey{space, ref}]
		if !ok {
			return nil, fmt.Errorf("memory: object %s: %w", ref, history.ErrNotFound)
		}
		bodies[i] = bytes.Clone(o.body)
	}
	return bodies, nil
}

// Head implements history.Heads.
func (s *Store) Head(ctx context.Context, space history.Space) (history.Head, error) {
	if err := ctx.Err(); err != nil {
		return history.Head{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads[space], nil
}
