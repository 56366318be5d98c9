package memory

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/console/session"
)

var _ session.Store = (*Store)(nil)

// BeginSession implements session.Store.
func (s *Store) BeginSession(ctx context.Context, in session.Session) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if in.ID == "" || in.Subject == "" || in.Expires.IsZero() {
		return errors.New("memory: a session has an ID, a subject and an end")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old, taken := s.sessions[in.ID]; {
	case taken && old == nil:
		return session.ErrNone
	case taken && (old.Subject != in.Subject || old.Issuer != in.Issuer || !old.Begun.Equal(in.Begun)):
		return errors.New("memory: another session has this ID")
	}
	s.sessions[in.ID] = &in
	return nil
}

// Session implements session.Store.
func (s *Store) Session(ctx context.Context, id string) (session.Session, error) {
	if err := ctx.Err(); err != nil {
		return session.Session{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil {
		return *found, nil
	}
	return session.Session{}, session.ErrNone
}

// EndSession implements session.Store.
func (s *Store) EndSession(ctx context.Context, id string, _ time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = nil
	return nil
}
