package memory

import (
	"crypto/ed25519"
	"sync"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/target"
)

// A Store implements every store contract of the domain packages. It is safe for
// use by many goroutines.
type Store struct {
	now func() time.Time

	mu        sync.Mutex
	objects   map[objectKey]object
	heads     map[history.Space]history.Head
	plans     map[string]change.PlanRow
	commands  map[rowKey]change.CommandRow
	approvals map[rowKey]policy.Approval
	grants    map[rowKey]policy.Grant
	policies  map[history.Space]policy.Policy
	projects  map[target.Project]project.Record
	cursorKey cursor.Key
	runs      map[string]run.Row
	stages    map[stageKey]history.Ref
	shown     map[run.Connection]run.Projection
	cases     map[caseKey]run.CaseRow
	batches   map[string]run.BatchRow
	jobKey    ed25519.PrivateKey
	jobs      map[string]sandbox.Job
	workers   map[string]sandbox.Worker
	fleet     int64
	host      hosted
	sessions  map[string]*session.Session // nil of one that was ended
}

type objectKey struct {
	space history.Space
	ref   history.Ref
}

type object struct {
	body     []byte
	stagedAt time.Time
}

type rowKey struct {
	space history.Space
	key   string
}

// New returns an empty store. now stamps what is stored.
func New(now func() time.Time) *Store {
	return &Store{
		now:       now,
		objects:   map[objectKey]object{},
		heads:     map[history.Space]history.Head{},
		plans:     map[string]change.PlanRow{},
		commands:  map[rowKey]change.CommandRow{},
		approvals: map[rowKey]policy.Approval{},
		grants:    map[rowKey]policy.Grant{},
		policies:  map[history.Space]policy.Policy{},
		projects:  map[target.Project]project.Record{},
		runs:      map[string]run.Row{},
		stages:    map[stageKey]history.Ref{},
		shown:     map[run.Connection]run.Projection{},
		cases:     map[caseKey]run.CaseRow{},
		batches:   map[string]run.BatchRow{},
		jobs:      map[string]sandbox.Job{},
		workers:   map[string]sandbox.Worker{},
		host:      newHosted(),
		sessions:  map[string]*session.Session{},
	}
}

// exact returns t as every store keeps it: to the nanosecond, in UTC.
func exact(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}
