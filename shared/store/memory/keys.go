package memory

import (
	"context"
	"crypto/rand"

	"github.com/pxhost/pxhost/shared/cursor"
)

var _ cursor.Keys = (*Store)(nil)

// Current implements cursor.Keys; the key is made at first use.
func (s *Store) Current(ctx context.Context) (cursor.Key, error) {
	if err := ctx.Err(); err != nil {
		return cursor.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursorKey == (cursor.Key{}) {
		copy(s.cursorKey.ID[:], "00000001")
		rand.Read(s.cursorKey.Secret[:])
	}
	return s.cursorKey, nil
}

// Key implements cursor.Keys.
func (s *Store) Key(ctx context.Context, id [8]byte) (cursor.Key, error) {
	if err := ctx.Err(); err != nil {
		return cursor.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursorKey == (cursor.Key{}) || id != s.cursorKey.ID {
		return cursor.Key{}, cursor.ErrNoKey
	}
	return s.cursorKey, nil
}
