// Package history keeps everything a Project ever was: immutable objects, a
// catalog tree whose root digest is a snapshot, commits that chain back to the
// first, and one head that moves only by a conditional write.
//
// It knows neither Flows nor Reports nor AWS: a change is a set of catalog
// edits and the objects they name.
package history

import (
	"context"
	"errors"
)

// A Space separates what must never share objects: one Project, one principal's
// directory. Objects of different Spaces never meet, even when they are equal.
type Space string

// A Ref addresses an object of a Space: "sha256:" and the hex digest of its bytes.
type Ref string

// ErrNotFound is returned for an object, head or row that does not exist.
var ErrNotFound = errors.New("history: not found")

// ErrOutcomeUnknown is returned when a write may or may not have happened and
// the deadline left no time to find out. It is never a business answer.
var ErrOutcomeUnknown = errors.New("history: the outcome of the write is unknown")

// Objects stores immutable byte strings by their digest.
type Objects interface {
	// Put stores each body; storing what exists already is no error and makes
	// it young again for the sweep. It returns when all are durable.
	Put(ctx context.Context, space Space, bodies ...[]byte) error
	// Get returns the bodies in the order of refs, or an error that wraps
	// ErrNotFound when one is missing. Callers must not change the bytes.
	Get(ctx context.Context, space Space, refs ...Ref) ([][]byte, error)
}

// A Head is the moving end of a Space. The zero Version is a Space without any
// commit; its Commit and Root are empty.
type Head struct {
	Commit  Ref
	Root    Ref   // catalog root of that commit, so that a reader needs one object less
	Version int64 // grows by one with each commit
}

// Heads reads heads. They are moved by change.Store, together with the rows
// that make a change idempotent.
type Heads interface {
	// Head returns the head, consistently read. A Space without one gives the
	// zero Head and no error.
	Head(ctx context.Context, space Space) (Head, error)
}
