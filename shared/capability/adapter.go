package capability

import (
	"context"
	"errors"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// An Adapter performs a capability. It never touches the record of the execution: who
// calls it writes what came of it, once.
type Adapter interface {
	// Call performs it once. An error that is, or wraps, a *Failure is told by its code;
	// any other is a fault of the machinery, of which nothing is known if Dispatch was
	// called.
	Call(ctx context.Context, c Call) (Result, error)
}

// A Call is one execution as an adapter sees it: everything was checked, and is of the
// moment when it was.
type Call struct {
	ExecutionID string
	Workspace   string // workspaceKey
	Actor       string // iss|sub
	InstanceID  string
	Capability  Capability
	Connector   *Connector // that the runtime names, nil where it names none
	Arguments   canon.Raw  // an object that its schema takes
	Settings    canon.Raw  // of the instance, an object
	Deadline    time.Time
	// Dispatch writes into the record that from now on the effect may have happened. An
	// adapter calls it right before the first byte leaves that may have one, each time
	// anew; after an error nothing may be sent. Repeated calls are one write.
	Dispatch func(ctx context.Context) error
}

// A Result is what a capability gives.
type Result struct {
	Summary  string      `json:"summary"`
	Data     canon.Raw   `json:"data"` // an object
	Evidence []canon.Raw `json:"evidence,omitzero"`
	// Actions are what the Host is asked to do with it, all or none.
	Actions []Action `json:"actions,omitzero"`
}

// A Failure is how an execution failed, in terms that whoever asked for it can act on.
// It quotes no input, no answer and no credential; what only an operator may see is the
// wrapped Cause.
type Failure struct {
	Code   outcome.Code
	Params outcome.Params
	Cause  error
}

func (f *Failure) Error() string {
	if f.Cause != nil {
		return string(f.Code) + ": " + f.Cause.Error()
	}
	return string(f.Code)
}

func (f *Failure) Unwrap() error { return f.Cause }

// An Action is a change that a result asks the Host for, in the instance's own storage
// or among the notifications of the actor.
//
// A notification is named by the execution that scheduled it, namespace and key: an
// execution schedules it once, however often it is performed, and no instance can name
// one of another.
type Action struct {
	Kind      string    `json:"kind" schema:"enum=storage.put|storage.delete|notification.schedule|notification.withdraw"`
	Namespace string    `json:"namespace,omitzero" kinds:"storage.put!,storage.delete!,notification.schedule,notification.withdraw" schema:"pattern=dotted,maxLength=200"`
	Key       string    `json:"key" schema:"minLength=1,maxLength=200,text=line"`
	Value     canon.Raw `json:"value,omitzero" kinds:"storage.put!"`
	// ExpectedVersion is the version that the item has; 0 is that there is none. Where it
	// is absent, it is the one that the job was handed.
	ExpectedVersion *int64    `json:"expectedVersion,omitzero" kinds:"storage.put,storage.delete" schema:"minimum=0"`
	At              time.Time `json:"at,omitzero" kinds:"notification.schedule!"`
	Title           string    `json:"title,omitzero" kinds:"notification.schedule!" schema:"minLength=1,maxLength=200,text=line"`
	Text            string    `json:"text,omitzero" kinds:"notification.schedule" schema:"maxLength=2000,text=prose"`
	// ExecutionID is the one that scheduled what is withdrawn.
	ExecutionID string `json:"executionId,omitzero" kinds:"notification.withdraw!" schema:"minLength=1,maxLength=100"`
}

// The kinds of actions.
const (
	PutItem  = "storage.put"
	DropItem = "storage.delete"
	Schedule = "notification.schedule"
	TakeBack = "notification.withdraw" // one that was delivered stays delivered
)

// Needs is the permission that the action takes.
func (a Action) Needs() Permission {
	if a.Kind == Schedule || a.Kind == TakeBack {
		return Notifications
	}
	return Storage
}

// ErrNoRefresh says that there is no way to get another credential than the one that was
// refused.
var ErrNoRefresh = errors.New("capability: there is no way to get another credential")

// Connected reports whether the call needs a Connection.
func (c Call) Connected() bool { return c.Connector != nil && c.Connector.Auth.Kind != "none" }

// Required is the failure of a call whose Connection the service does not take, and why:
// rejected (its secret is none any more) or forbidden (it may not do this). cause may be
// nil.
func (c Call) Required(reason string, cause error) *Failure {
	return &Failure{Code: outcome.ExtensionConnectionRequired, Params: outcome.Params{"connectorId": c.Connector.ConnectorID, "instanceId": c.InstanceID, "reason": reason}, Cause: cause}
}

// BadArgument is the failure of arguments that a template cannot take in. It names the
// argument and the rule.
func BadArgument(err error) error {
	params := outcome.Params{}
	var named interface{ Argument() (name, rule string) }
	if errors.As(err, &named) {
		name, rule := named.Argument()
		params["argument"], params["rule"] = name, rule
	}
	return &Failure{Code: outcome.ExtensionInputInvalid, Params: params}
}
