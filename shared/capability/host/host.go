// Package host is what the capability host stores, and the contract of its store: who
// may use the plugins of a workspace, what is installed and connected, what was
// executed, what plugins keep, and what people are told.
//
// It decides nothing. Each method is one write or one read; what must hold for a write
// is a condition of it.
//
// # The catalog's generation
//
// Every change to an instance, to a member's rights or to a Connection moves the one
// generation of its workspace in the same write. Who has read a workspace keeps what it
// read, and reads again when that one item has moved: the next turn sees every change
// (C3).
package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The limits of what plugins keep. The limit itself is allowed.
const (
	MaxInstances  = 500      // of a workspace
	MaxItems      = 1000     // of a namespace
	MaxValue      = 64 << 10 // bytes of an item's value
	MaxChanges    = 40       // items that one execution changes, and notifications
	MaxReadKeys   = 40       // items that one execution is bound to by key
	MaxNamespaces = 16       // that one execution is bound to, or changes
	MaxSlots      = capability.MaxBackground
)

// Space is where the objects of a workspace are: packages, arguments, results. No
// Project has such a name.
func Space(workspace string) history.Space { return history.Space("host#" + workspace) }

// A Connection is a credential for a connector of an instance, sealed. It tells what it
// is for, and never what it is.
type Connection struct {
	ConnectionID string `json:"connectionId"`
	Workspace    string `json:"workspaceKey"`
	InstanceID   string `json:"instanceId"`
	ConnectorID  string `json:"connectorId"`
	Owner        string `json:"owner,omitzero"` // the actor whose own it is, "" is everyone's
	Kind         string `json:"kind"`           // bearer, client_credentials, authorization_code
	// Destination is that of the connector that it was made for, and for no other.
	Destination string `json:"destination"`
	// State is pending until an authorization came back, and rejected when the service
	// refused what there is.
	State     ConnectionState `json:"state"`
	Sealed    []byte          `json:"sealed"` // opened only at the moment of a call
	ExpiresAt time.Time       `json:"expiresAt,omitzero"`
	CreatedAt time.Time       `json:"createdAt"`
	CreatedBy string          `json:"createdBy"`
	// Refreshing is until when somebody is at getting a new one, so that one does.
	Refreshing time.Time `json:"refreshing,omitzero"`

	Version int64 `json:"-"`
}

// A ConnectionState says whether a Connection can be used.
type ConnectionState string

// The states.
const (
	Pending  ConnectionState = "pending"
	Live     ConnectionState = "live"
	Rejected ConnectionState = "rejected"
)

// Link is the Connection without what it is.
func (c Connection) Link() capability.Link {
	return capability.Link{InstanceID: c.InstanceID, ConnectorID: c.ConnectorID, Owner: c.Owner}
}

// A State says where an execution stands.
type State string

// The states. All but Running are terminal and never change.
const (
	Running        State = "running"
	Succeeded      State = "succeeded"
	Failed         State = "failed"
	Cancelled      State = "cancelled"
	OutcomeUnknown State = "outcome_unknown"
)

// Terminal reports whether the state never changes any more.
func (s State) Terminal() bool { return s != Running }

// A Phase says how far an execution that runs has come.
type Phase string

// The phases. Until Dispatched nothing has had an effect, and whoever comes next may
// begin anew; from then on nobody does.
const (
	Accepted   Phase = "accepted"
	Claimed    Phase = "claimed"
	Dispatched Phase = "dispatched"
	Queued     Phase = "queued"   // a sandbox job has it
	Computed   Phase = "computed" // there is a result, whose actions are not applied
)

// An Execution is one execution as it is stored.
type Execution struct {
	ExecutionID   string                 `json:"executionId"`
	Workspace     string                 `json:"workspaceKey"`
	Actor         string                 `json:"actor"`
	InstanceID    string                 `json:"instanceId"`
	CapabilityID  string                 `json:"capabilityId"`
	Adapter       capability.AdapterName `json:"adapter"`
	PackageDigest string                 `json:"packageDigest"`
	Generation    int64                  `json:"generation"` // of the instance when it was accepted
	Surface       string                 `json:"surface"`    // ui, ai, slash or background
	RequestDigest string                 `json:"requestDigest"`
	Arguments     history.Ref            `json:"arguments"`

	State State `json:"state"`
	Phase Phase `json:"phase"`
	// Fence is of who claimed it last, from 1.
	Fence     int64          `json:"fence"`
	JobRef    string         `json:"jobRef,omitzero"`
	Reads     []Expectation  `json:"reads,omitzero"` // what of the storage was handed to it
	Input     history.Ref    `json:"input,omitzero"` // what a sandbox job is given, an object
	Result    history.Ref    `json:"result,omitzero"`
	Actions   string         `json:"actions,omitzero"` // digest of the actions of the result
	Code      outcome.Code   `json:"code,omitzero"`    // of one that failed
	Params    outcome.Params `json:"params,omitzero"`
	Cancel    bool           `json:"cancel,omitzero"` // somebody asked for its end
	CreatedAt time.Time      `json:"createdAt"`
	Deadline  time.Time      `json:"deadline"`
	EndedAt   time.Time      `json:"endedAt,omitzero"`
	DueAt     time.Time      `json:"dueAt,omitzero"` // zero exactly when it has ended

	Version int64 `json:"-"`
}

// A Namespace is a place in the storage of an instance.
type Namespace struct{ Workspace, InstanceID, Name string }

// An Item is one thing that a plugin keeps. One that was removed and is stored again
// begins anew; the version of its namespace always grows, so that Written is never the
// same twice.
type Item struct {
	Key       string    `json:"key"`
	Value     canon.Raw `json:"value"`
	Version   int64     `json:"version"` // grows by one with each change of it, from 1
	UpdatedAt time.Time `json:"updatedAt"`
	Written   int64     `json:"written"` // the version that its namespace got by its last change
}

// An Expectation is what the storage was when it was read: of one item (version 0 is
// that there was none), or, without a key, of a whole namespace.
type Expectation struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key,omitzero"`
	Version   int64  `json:"version"`
	// Written is the item's, where it was read; with it, an item that was removed and
	// stored anew is another one. 0 is that it was not read.
	Written int64 `json:"written,omitzero"`
}

// A Put stores an item, of which an Expectation says what was there.
type Put struct {
	Expectation
	Value canon.Raw
}

// A Notification is what a person is told at a time: of one item version once.
type Notification struct {
	NotificationID string    `json:"notificationId"`
	Workspace      string    `json:"workspaceKey"`
	Actor          string    `json:"actor"`
	InstanceID     string    `json:"instanceId"`
	Namespace      string    `json:"namespace,omitzero"`
	Key            string    `json:"key"`
	At             time.Time `json:"at"`
	Title          string    `json:"title"`
	Text           string    `json:"text,omitzero"`
	DeliveredAt    time.Time `json:"deliveredAt,omitzero"`
	// Withheld is why the instance may not tell it any more, when it was due: then it has
	// neither title nor text.
	Withheld outcome.Code `json:"withheld,omitzero"`

	Version int64 `json:"-"`
}

// A Step is one atomic write: the next state of an execution, with what its actions
// change. All of it is written or nothing.
type Step struct {
	Execution Execution // replaces the one of its Version
	Instance  int64     // the store's Version of the instance, if it must not have moved; 0: it may
	Unchanged []Expectation
	Puts      []Put
	Deletes   []Expectation // with keys; of version 0, there is nothing to remove
	// Schedule tells something later. A notification that is there, or was delivered, is
	// left as it is; one that was withdrawn is there again.
	Schedule []Notification
	Withdraw []string // notificationIds; one that was delivered or is not there is none
}

// Check reports a step that is malformed or beyond the limits, whatever is stored.
func (s Step) Check() error {
	keys, spaces := 0, map[string]bool{}
	read, changed, told := map[Expectation]bool{}, map[Expectation]bool{}, map[string]bool{}
	place := func(x Expectation) Expectation { return Expectation{Namespace: x.Namespace, Key: x.Key} }
	for _, x := range s.Unchanged {
		if x.malformed() || read[place(x)] {
			return errors.New("host: malformed expectation")
		}
		if read[place(x)], spaces[x.Namespace] = true, true; x.Key != "" {
			keys++
		}
	}
	changes := slices.Clone(s.Deletes)
	for _, p := range s.Puts {
		if len(p.Value) > MaxValue {
			return errors.New("host: the value of an item is too large")
		}
		changes = append(changes, p.Expectation)
	}
	for _, x := range changes {
		if x.malformed() || x.Key == "" || changed[place(x)] {
			return errors.New("host: malformed change of an item")
		}
		changed[place(x)], spaces[x.Namespace] = true, true
	}
	ids := slices.Clone(s.Withdraw)
	for _, n := range s.Schedule {
		ids = append(ids, n.NotificationID)
	}
	for _, id := range ids {
		if id == "" || told[id] {
			return errors.New("host: malformed notification")
		}
		told[id] = true
	}
	if len(changed)+len(told) > MaxChanges || keys > MaxReadKeys || len(spaces) > MaxNamespaces {
		return errors.New("host: an execution is bound to too much, or changes too much")
	}
	return nil
}

// Errors of a store.
var (
	ErrNotFound = errors.New("host: there is none")
	ErrExists   = errors.New("host: it exists")
	// ErrMoved says that a row is not the one that was read.
	ErrMoved = errors.New("host: the row has moved on")
	// ErrInstanceMoved says that the instance has changed meanwhile.
	ErrInstanceMoved = errors.New("host: the instance has changed")
	// ErrFull says that a workspace or a namespace holds as much as it may.
	ErrFull = errors.New("host: it is full")
)

// A ConflictError says which part of the storage is not as it was.
type ConflictError struct{ Namespace, Key string }

func (e *ConflictError) Error() string { return "host: the storage has changed" }

// malformed reports an expectation that nothing could meet or break.
func (x Expectation) malformed() bool {
	return x.Version < 0 || x.Namespace == "" || x.Written < 0 || x.Written != 0 && (x.Key == "" || x.Version == 0)
}

// Grows tells by how many items each namespace grows that the step changes; less than 0
// where it shrinks.
func (s Step) Grows() map[string]int {
	out := map[string]int{}
	for _, p := range s.Puts {
		if out[p.Namespace] += 0; p.Version == 0 {
			out[p.Namespace]++
		}
	}
	for _, x := range s.Deletes {
		if out[x.Namespace] += 0; x.Version != 0 {
			out[x.Namespace]--
		}
	}
	return out
}

// A Change is one write to what is installed: of one row, with the generation of its
// workspace. Exactly one of the rows is set. A grave never changes.
type Change struct {
	Workspace  string
	Instance   *capability.Instance // by its Version; 0 is a new one
	Connection *Connection
	Forget     *Connection // to be removed, by its Version
	Member     *Membership
	// Slots are the due rows of the instance's background capabilities, as they are after
	// the change, whatever they were; Drop are those that are no more. Who has read one
	// before can start it no more.
	Slots []Slot
	Drop  []Slot
}

// Check reports a change that is malformed, whatever is stored.
func (c Change) Check() error {
	rows, ok := 0, c.Workspace != "" && len(c.Slots) <= MaxSlots && len(c.Drop) <= MaxSlots
	if c.Instance != nil {
		rows++
		ok = ok && c.Instance.InstanceID != "" && c.Instance.Workspace == c.Workspace && !(c.Instance.Removed && c.Instance.Version == 0)
	} else {
		ok = ok && len(c.Slots)+len(c.Drop) == 0
	}
	for _, k := range []*Connection{c.Connection, c.Forget} {
		if k != nil {
			rows++
			ok = ok && k.ConnectionID != "" && k.Workspace == c.Workspace
		}
	}
	if c.Member != nil {
		rows++
		ok = ok && c.Member.Actor != ""
	}
	for _, slots := range [][]Slot{c.Slots, c.Drop} {
		seen := map[string]bool{}
		for _, slot := range slots {
			ok = ok && slot.CapabilityID != "" && c.Instance != nil && slot.InstanceID == c.Instance.InstanceID && !seen[slot.CapabilityID]
			seen[slot.CapabilityID] = true
		}
	}
	if rows != 1 || !ok {
		return errors.New("host: malformed change")
	}
	return nil
}

// A Membership is a member's row.
type Membership struct {
	Actor string
	capability.Member
}

// A Slot is when a background capability runs next.
type Slot struct {
	Workspace, InstanceID, CapabilityID string
	At                                  time.Time
	Minutes                             int
	// Last is the execution of the slot before, "" if there was none.
	Last string

	Version int64 `json:"-"`
}

// A Read is all that a workspace has installed.
type Read struct {
	Generation  int64
	Instances   []capability.Instance // by ID, graves left out
	Connections []Connection          // by ID, without what they seal
}

// Store keeps the rows. After an error that is not one of the above a write may have
// happened.
type Store interface {
	// Generation is the workspace's, 0 where nothing was ever installed.
	Generation(ctx context.Context, workspace string) (int64, error)
	// Workspace reads what is installed, at a generation that it had while it was read.
	Workspace(ctx context.Context, workspace string) (Read, error)
	Member(ctx context.Context, workspace, actor string) (capability.Member, error)
	// Instance returns an instance or its grave, or ErrNotFound.
	Instance(ctx context.Context, instanceID string) (capability.Instance, error)
	Connection(ctx context.Context, connectionID string) (Connection, error)
	// NoteConnection writes a Connection by its Version and moves no generation: what is
	// told of it has not changed. Else ErrMoved.
	NoteConnection(ctx context.Context, c Connection) error
	// Change writes a change and moves the generation, or returns ErrMoved, or ErrFull. The
	// generation that it returns has the change.
	Change(ctx context.Context, c Change) (generation int64, err error)

	// CreateExecution stores a new one, or returns ErrExists.
	CreateExecution(ctx context.Context, e Execution) error
	Execution(ctx context.Context, executionID string) (Execution, error)
	// Apply performs a step, or returns ErrMoved, ErrInstanceMoved, ErrFull or a
	// *ConflictError. After a lost reply it may meet its own write: that is ErrMoved, and
	// who reads sees its step done.
	Apply(ctx context.Context, s Step) error
	// DueExecutions returns some of those that are due, and none only if there are none.
	// What became due within the last seconds may be missing, here and below.
	DueExecutions(ctx context.Context, now time.Time, limit int) ([]string, error)

	// Items reads a whole namespace, consistently, with its version.
	Items(ctx context.Context, n Namespace) (items []Item, version int64, err error)
	// Some reads items by key, each once; those that are not there are left out.
	Some(ctx context.Context, n Namespace, keys []string) ([]Item, error)

	// Notifications returns what was delivered to an actor, the newest first.
	Notifications(ctx context.Context, workspace, actor string, limit int) ([]Notification, error)
	// DueNotifications returns those that are to be delivered by now.
	DueNotifications(ctx context.Context, now time.Time, limit int) ([]Notification, error)
	// Deliver moves one into what was delivered, once; else ErrMoved, which after a lost
	// reply may be its own write.
	Deliver(ctx context.Context, n Notification) error

	DueSlots(ctx context.Context, now time.Time, limit int) ([]Slot, error)
	// StartSlot moves a slot on and stores the execution of it, if it starts one, in one
	// write; else ErrMoved, or ErrExists if there is that execution.
	StartSlot(ctx context.Context, next Slot, e *Execution) error
}
