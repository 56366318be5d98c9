package connection

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Workspaces reads what is installed, as fresh as the store's generation.
type Workspaces interface {
	Read(ctx context.Context, workspace string) (capability.Workspace, error)
}

// A Manager makes Connections, changes and forgets them, for actors who may.
//
// A Connection that is everyone's takes the right to manage. One's own takes the right to
// use, since it gives nothing to anybody else: else who has an account at the service,
// and no say over the workspace, could call nothing that asks for it.
//
// Findings have their places in a request of the members connectorId, owner, secret and
// redirectUri.
type Manager struct {
	*Service
	Workspaces Workspaces
}

// The owners that an order may name.
const (
	Everyone = "everyone"
	Self     = "self"
)

// Changed is the state that is told of a Connection whose connector leads elsewhere now,
// or is gone: it is not used.
const Changed host.ConnectionState = "changed"

// A View is what is told of a Connection: what it is for, and never what it is.
type View struct {
	ConnectionID string               `json:"connectionId"`
	InstanceID   string               `json:"instanceId"`
	ConnectorID  string               `json:"connectorId"`
	Owner        string               `json:"owner"` // everyone, self, or another actor
	Kind         string               `json:"kind"`
	State        host.ConnectionState `json:"state"`              // pending, live, rejected, changed
	ExpiresAt    time.Time            `json:"expiresAt,omitzero"` // of a pending one, of its authorization
	CreatedAt    time.Time            `json:"createdAt"`
	CreatedBy    string               `json:"createdBy"`
}

// A List is the Connections of a workspace that an actor may know of.
type List struct {
	Generation  int64  `json:"catalogGeneration"`
	Connections []View `json:"connections"`
}

// A Forgotten says that there is none any more.
type Forgotten struct {
	ConnectionID string `json:"connectionId"`
	Generation   int64  `json:"catalogGeneration"`
}

func refuse(code outcome.Code, at string, params outcome.Params) outcome.Findings {
	return outcome.Findings{outcome.New(code, at, params)}
}

func told(f *capability.Failure, at string) outcome.Findings {
	if f == nil {
		return nil
	}
	return refuse(f.Code, at, f.Params)
}

// view tells of a Connection to an actor.
func view(c host.Connection, k *capability.Connector, actor string) View {
	v := View{c.ConnectionID, c.InstanceID, c.ConnectorID, c.Owner, c.Kind, c.State, time.Time{}, c.CreatedAt, c.CreatedBy}
	switch c.Owner {
	case "":
		v.Owner = Everyone
	case actor:
		v.Owner = Self
	}
	switch {
	case k == nil || k.Destination() != c.Destination:
		v.State = Changed
	case c.State == host.Pending:
		v.ExpiresAt = c.ExpiresAt
	}
	return v
}

// List tells of everyone's Connections and of the actor's own; who may manage is told of
// all.
func (m *Manager) List(ctx context.Context, actor, workspace string) (List, outcome.Findings, error) {
	member, err := m.Store.Member(ctx, workspace, actor)
	if err != nil {
		return List{}, nil, err
	}
	manages := member.Allows(capability.Manage)
	if !manages && !member.Allows(capability.Use) {
		return List{}, refuse(outcome.ExtensionPermissionDenied, "", outcome.Params{"right": string(capability.Use)}), nil
	}
	w, err := m.Workspaces.Read(ctx, workspace)
	if err != nil {
		return List{}, nil, err
	}
	read, err := m.Store.Workspace(ctx, workspace)
	if err != nil {
		return List{}, nil, err
	}
	out := List{read.Generation, []View{}}
	for _, c := range read.Connections {
		in, ok := w.Find(c.InstanceID)
		if manages || ok && in.Instance.For(actor) && (c.Owner == "" || c.Owner == actor) {
			out.Connections = append(out.Connections, view(c, in.Manifest.Connector(c.ConnectorID), actor))
		}
	}
	slices.SortFunc(out.Connections, func(a, b View) int { return strings.Compare(a.ConnectionID, b.ConnectionID) })
	return out, nil, nil
}

// may finds an instance in which an actor may have or change the Connection of an owner
// ("" is everyone). Who may know nothing of it is told that there is none.
func (m *Manager) may(ctx context.Context, actor, instanceID, owner string) (capability.Installed, outcome.Findings, error) {
	none := refuse(outcome.ExtensionNotFound, "", outcome.Params{"reason": "instance"})
	i, err := m.Store.Instance(ctx, instanceID)
	if errors.Is(err, host.ErrNotFound) {
		return capability.Installed{}, none, nil
	}
	if err != nil {
		return capability.Installed{}, nil, err
	}
	member, err := m.Store.Member(ctx, i.Workspace, actor)
	if err != nil {
		return capability.Installed{}, nil, err
	}
	uses := member.Allows(capability.Use) && i.For(actor)
	switch manages := member.Allows(capability.Manage); {
	case !manages && !uses:
		return capability.Installed{}, none, nil
	case !manages && owner != actor:
		return capability.Installed{}, refuse(outcome.ExtensionPermissionDenied, "/owner", outcome.Params{"right": string(capability.Manage)}), nil
	}
	w, err := m.Workspaces.Read(ctx, i.Workspace)
	if err != nil {
		return capability.Installed{}, nil, err
	}
	in, ok := w.Find(instanceID)
	if !ok {
		return capability.Installed{}, none, nil
	}
	return in, nil, nil
}

// An Order is a Connection to be made.
type Order struct {
	Actor, InstanceID, ConnectorID string
	Owner                          string // Everyone or Self
	Secret                         Secret
	Redirect                       string // of authorization_code: where the service sends the person back
}

// Create makes a Connection where there is none in use. The same order again is answered
// as before; another secret for one that is in use is a rotation, which is asked for as
// such.
func (m *Manager) Create(ctx context.Context, o Order) (Made, outcome.Findings, error) {
	owner := ""
	if o.Owner == Self {
		owner = o.Actor
	}
	in, findings, err := m.may(ctx, o.Actor, o.InstanceID, owner)
	if err != nil || findings != nil {
		return Made{}, findings, err
	}
	k := in.Manifest.Connector(o.ConnectorID)
	if k == nil {
		return Made{}, refuse(outcome.ReferenceUnknown, "/connectorId", outcome.Params{"kind": "connector"}), nil
	}
	w := Wanted{Workspace: in.Instance.Workspace, InstanceID: o.InstanceID, Connector: *k, Owner: owner, By: o.Actor, Secret: o.Secret, Redirect: o.Redirect}
	old, err := m.Store.Connection(ctx, id(w))
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return Made{}, nil, err
	}
	if err == nil && old.State == host.Live && old.Destination == k.Destination() {
		switch h, err := m.open(ctx, old); {
		case errors.Is(err, ErrUnreadable): // it is none
		case err != nil:
			return Made{}, nil, err
		case !same(h.Secret, o.Secret):
			return Made{}, refuse(outcome.CommandReused, "/connectorId", outcome.Params{"connectionId": old.ConnectionID}), nil
		default:
			generation, err := m.Store.Generation(ctx, w.Workspace)
			return Made{old.ConnectionID, old.State, "", generation}, nil, err
		}
	}
	return m.put(ctx, w)
}

// same compares two secrets in a time that tells nothing of them.
func same(a, b Secret) bool {
	equal := 1
	for _, pair := range [][2]string{{a.Token, b.Token}, {a.ClientID, b.ClientID}, {a.ClientSecret, b.ClientSecret}} {
		equal &= subtle.ConstantTimeCompare([]byte(pair[0]), []byte(pair[1]))
	}
	return equal == 1
}

// put stores what is wanted in place of what there is. A row that moves meanwhile, as by
// the renewal of a token, is replaced all the same: what it held is not wanted any more.
func (m *Manager) put(ctx context.Context, w Wanted) (Made, outcome.Findings, error) {
	if kindOf(w.Connector.Auth) == AuthorizationCode {
		if rule := redirectRule(w.Redirect); rule != "" {
			return Made{}, refuse(outcome.SchemaInvalid, "/redirectUri", outcome.Params{"rule": rule}), nil
		}
	} else if w.Redirect != "" {
		return Made{}, refuse(outcome.SchemaInvalid, "/redirectUri", outcome.Params{"rule": "of_authorization_code"}), nil
	}
	for {
		made, f, err := m.Service.Create(ctx, w)
		if !errors.Is(err, host.ErrMoved) {
			return made, told(f, "/secret"), err
		}
	}
}

// redirectRule says why nobody can be sent back to a place: it is neither a page of a
// public host nor a program on the person's own machine (RFC 8252, 7.3).
func redirectRule(text string) string {
	if text == "" {
		return "required"
	}
	u, err := url.Parse(text)
	if err == nil && u.Scheme == "http" && u.User == nil && u.Fragment == "" && len(text) <= 2000 {
		if to, err := netip.ParseAddrPort(u.Host); err == nil && to.Addr().IsLoopback() {
			return ""
		}
	}
	var refused *outbound.URLError
	if _, err := outbound.CheckURL(text); errors.As(err, &refused) {
		return string(refused.Rule)
	}
	return ""
}

// A Rotation is a new secret of a Connection.
type Rotation struct {
	Actor, ConnectionID string
	Secret              Secret
	Redirect            string // of authorization_code
}

// Rotate replaces the secret of a Connection: from the next call on the old one is not
// used any more. Of an authorization code a person has to say yes again.
func (m *Manager) Rotate(ctx context.Context, r Rotation) (Made, outcome.Findings, error) {
	_, w, findings, err := m.wanted(ctx, r.Actor, r.ConnectionID)
	if err != nil || findings != nil {
		return Made{}, findings, err
	}
	w.Secret, w.Redirect = r.Secret, r.Redirect
	return m.put(ctx, w)
}

// wanted finds a Connection for an actor who may give it another secret, and what is
// wanted of it as its connector is now. A manager may remove what is another's own, and
// not act in that one's name.
func (m *Manager) wanted(ctx context.Context, actor, connectionID string) (host.Connection, Wanted, outcome.Findings, error) {
	c, in, findings, err := m.find(ctx, actor, connectionID)
	if err != nil || findings != nil {
		return c, Wanted{}, findings, err
	}
	k := in.Manifest.Connector(c.ConnectorID)
	switch {
	case c.Owner != "" && c.Owner != actor:
		return c, Wanted{}, refuse(outcome.ExtensionPermissionDenied, "/connectionId", outcome.Params{"reason": "owner"}), nil
	case k == nil:
		return c, Wanted{}, told(required(c, string(Changed)), ""), nil
	}
	return c, Wanted{Workspace: c.Workspace, InstanceID: c.InstanceID, Connector: *k, Owner: c.Owner, By: actor}, nil, nil
}

// Authorize has a person say yes again, with the client that is known. Until he has, the
// Connection is not used.
func (m *Manager) Authorize(ctx context.Context, actor, connectionID, redirect string) (Made, outcome.Findings, error) {
	c, w, findings, err := m.wanted(ctx, actor, connectionID)
	switch {
	case err != nil || findings != nil:
		return Made{}, findings, err
	case kindOf(w.Connector.Auth) != AuthorizationCode:
		return Made{}, refuse(outcome.SchemaInvalid, "/connectionId", outcome.Params{"rule": "of_authorization_code"}), nil
	case w.Connector.Destination() != c.Destination:
		// The client's secret was given for another place.
		return Made{}, told(required(c, string(Changed)), ""), nil
	}
	h, err := m.open(ctx, c)
	if f := (*capability.Failure)(nil); errors.As(err, &f) {
		return Made{}, told(f, ""), nil
	}
	if err != nil {
		return Made{}, nil, err
	}
	w.Secret, w.Redirect = h.Secret, redirect
	return m.put(ctx, w)
}

// find finds a Connection that an actor may change.
func (m *Manager) find(ctx context.Context, actor, connectionID string) (host.Connection, capability.Installed, outcome.Findings, error) {
	none := refuse(outcome.ExtensionNotFound, "", outcome.Params{"reason": "connection"})
	c, err := m.Store.Connection(ctx, connectionID)
	if errors.Is(err, host.ErrNotFound) {
		return host.Connection{}, capability.Installed{}, none, nil
	}
	if err != nil {
		return host.Connection{}, capability.Installed{}, nil, err
	}
	in, findings, err := m.may(ctx, actor, c.InstanceID, c.Owner)
	if findings != nil && (c.Owner != "" || findings[0].Code == outcome.ExtensionNotFound) {
		findings = none // another's own is not even there
	}
	return c, in, findings, err
}

// A Return is what the service sent a person back with, as it stands in the address.
type Return struct {
	Actor string
	State string
	Code  string // "" where the person, or the service, said no
}

// Complete ends an authorization. It is completed by who began it: who makes another
// follow his link does not get that one's account.
func (m *Manager) Complete(ctx context.Context, r Return) (Made, outcome.Findings, error) {
	connectionID, _, _ := strings.Cut(r.State, ".")
	c, in, findings, err := m.find(ctx, r.Actor, connectionID)
	if err != nil {
		return Made{}, nil, err
	}
	if findings != nil || c.CreatedBy != r.Actor {
		return Made{}, refuse(outcome.ExtensionNotFound, "/state", outcome.Params{"reason": "connection"}), nil
	}
	k := in.Manifest.Connector(c.ConnectorID)
	if k == nil || k.Destination() != c.Destination {
		return Made{}, told(required(c, string(Changed)), ""), nil
	}
	generation, f, err := m.Service.Complete(ctx, c, *k, r.State, r.Code)
	if unreadable := (*capability.Failure)(nil); errors.As(err, &unreadable) {
		f, err = unreadable, nil
	}
	if err != nil || f != nil {
		return Made{}, told(f, ""), err
	}
	return Made{c.ConnectionID, host.Live, "", generation}, nil, nil
}

// Remove forgets a Connection.
func (m *Manager) Remove(ctx context.Context, actor, connectionID string) (Forgotten, outcome.Findings, error) {
	for {
		c, _, findings, err := m.find(ctx, actor, connectionID)
		if err != nil || findings != nil {
			return Forgotten{}, findings, err
		}
		generation, err := m.Store.Change(ctx, host.Change{Workspace: c.Workspace, Forget: &c})
		if !errors.Is(err, host.ErrMoved) {
			return Forgotten{connectionID, generation}, nil, err
		}
	}
}
