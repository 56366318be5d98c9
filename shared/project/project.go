// Package project creates Projects, says who may do what in them, and knows
// which Projects a principal may read.
//
// Every principal has a directory: a Space of its own whose catalog lists the
// Projects that it may read. A grant and the directory change in one
// transaction, so that project_search pages through a pinned root and can
// neither miss a Project nor show one that was never granted (S2, S4). A
// directory's commits are the record of the grants that its principal was given.
//
// It knows no document, and it checks no operator: whoever can call it may.
package project

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// ErrExists is returned for creating a Project that is there.
var ErrExists = errors.New("project: exists already")

// ErrMoved is returned by a store when what a write was decided on is no longer
// so. Nothing was written.
var ErrMoved = errors.New("project: what the write was decided on has changed")

// A Record is what is fixed about a Project when it is created.
type Record struct {
	Project     target.Project
	Label       target.Label
	Description string
	CreatedAt   time.Time
}

// A GrantWrite replaces one grant and moves its principal's directory, both or
// neither.
type GrantWrite struct {
	Project   target.Project // must exist
	Principal string         // "iss|sub"
	Read      int64          // the grant must still have this version
	Rights    []policy.Right // the new grant has them, and version Read + 1

	Directory history.Space
	From, To  history.Head // the directory's head must still be From, and becomes To
}

// Store is what this package needs of a store.
type Store interface {
	history.Objects
	history.Heads
	// Grant and Policy are those of policy.Store.
	Grant(ctx context.Context, project target.Project, principal string) (policy.Grant, error)
	Policy(ctx context.Context, project target.Project) (policy.Policy, error)
	// CreateProject stores the record, or returns ErrExists. Creating the same
	// record again is no error.
	CreateProject(ctx context.Context, record Record) error
	// Project returns the record, consistently read, or history.ErrNotFound.
	Project(ctx context.Context, project target.Project) (Record, error)
	// WriteGrant performs the write, or returns ErrMoved, history.ErrNotFound
	// for a Project that does not exist, or history.ErrOutcomeUnknown.
	WriteGrant(ctx context.Context, w GrantWrite) error
	// WritePolicy replaces the rules if the policy still has version read, and
	// gives it version read + 1; else ErrMoved; history.ErrNotFound for a
	// Project that does not exist.
	WritePolicy(ctx context.Context, project target.Project, read int64, rules []policy.Rule) error
}
