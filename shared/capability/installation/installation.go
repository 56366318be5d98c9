// Package installation changes what a workspace has installed: it installs a package,
// updates, switches, grants and removes, each as one write that moves the catalog's
// generation (C3), and tells managers what there is.
//
// It knows no HTTP. Findings have their places in a request of the members that the
// fields here are named for: package, granted, settings, generation.
package installation

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/background"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/packaging"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/capability/validation"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
)

// MaxSettings is the most bytes of an instance's settings.
const MaxSettings = 64 << 10

// Workspaces reads what is installed, as fresh as the store's generation.
type Workspaces interface {
	Read(ctx context.Context, workspace string) (capability.Workspace, error)
}

// A Manager changes what is installed, for actors who may.
type Manager struct {
	Store      host.Store
	Objects    history.Objects
	Workspaces Workspaces
	Schemas    *safeschema.Cache
	// CheckURL says which addresses a package may name: outbound.CheckURL, or that of a
	// client with exceptions.
	CheckURL func(string) (*url.URL, error)
	Now      func() time.Time
}

// Judge returns everything that is wrong with a package that could be read, each
// finding at its place in the object of its files.
func (m *Manager) Judge(p packaging.Package) (capability.Manifest, outcome.Findings) {
	manifest, findings := validation.Manifest(p.Manifest, p.Paths(), m.CheckURL)
	return manifest, under("/"+packaging.ManifestName, findings)
}

// JudgeRead returns everything that is wrong with a package in whose files something was
// found already: that, and what is wrong with the manifest.
func (m *Manager) JudgeRead(p packaging.Package, found outcome.Findings) (capability.Manifest, outcome.Findings) {
	if found != nil && p.Manifest == nil {
		return capability.Manifest{}, found
	}
	manifest, findings := m.Judge(p)
	for _, f := range findings {
		// A file that could not be read is there, and its absence no second finding.
		if found == nil || f.Code != outcome.ReferenceUnknown || f.Params["kind"] != "file" {
			found = append(found, f)
		}
	}
	return manifest, found
}

// under puts findings below a place.
func under(at string, findings outcome.Findings) outcome.Findings {
	out := slices.Clone(findings)
	for i := range out {
		out[i].Path = at + out[i].Path
	}
	return out
}

// An Order is a package to be installed.
type Order struct {
	Actor, Workspace string
	// Key makes the same order the same instance.
	Key      string
	Package  packaging.Package
	Granted  []capability.Permission // of those that the package asks for
	Actors   []string                // nil is everyone with the right to use
	Settings canon.Raw               // nil is {}
	Enabled  bool
}

// refuse makes findings of a failure.
func refuse(code outcome.Code, at string, params outcome.Params) outcome.Findings {
	return outcome.Findings{outcome.New(code, at, params)}
}

// Permit says why an actor may not do something in a workspace; nil is that he may.
func Permit(member capability.Member, right capability.Right) outcome.Findings {
	if member.Allows(right) {
		return nil
	}
	return refuse(outcome.ExtensionPermissionDenied, "", outcome.Params{"right": string(right)})
}

// Install installs a package. All that is wrong with the order comes at once, and
// nothing of it is stored.
func (m *Manager) Install(ctx context.Context, o Order) (Plugin, outcome.Findings, error) {
	member, err := m.Store.Member(ctx, o.Workspace, o.Actor)
	if err != nil {
		return Plugin{}, nil, err
	}
	if denied := Permit(member, capability.Manage); denied != nil {
		return Plugin{}, denied, nil
	}
	manifest, findings := m.Judge(o.Package)
	findings = under("/package", findings)
	i := capability.Instance{
		InstanceID: canon.Ref("inst_", o.Actor, o.Workspace, o.Key), Workspace: o.Workspace, Enabled: o.Enabled, Granted: sorted(o.Granted), Actors: o.Actors, Settings: o.Settings,
		Generation: 1, InstalledAt: m.Now().UTC(), InstalledBy: o.Actor,
	}
	if i.Settings == nil {
		i.Settings = canon.Raw(`{}`)
	}
	if findings == nil { // what could not be read asks for nothing and has no settings
		findings = slices.Concat(m.granted(manifest, i.Granted), actors(i.Actors), m.settings(manifest, i.Settings))
	}
	if findings != nil {
		return Plugin{}, findings, nil
	}
	if err := m.carry(&i, manifest, o.Package); err != nil {
		return Plugin{}, nil, err
	}
	if i.InstallDigest, err = canon.DigestOf(map[string]any{"package": i.PackageDigest, "publisher": i.Publisher, "granted": i.Granted, "actors": i.Actors, "settings": i.Settings, "enabled": i.Enabled}); err != nil {
		return Plugin{}, nil, err
	}
	// The same order was here before, or another one under its key, for which nothing is
	// stored.
	switch _, err := m.Store.Instance(ctx, i.InstanceID); {
	case err == nil:
		return m.ordered(ctx, i)
	case !errors.Is(err, host.ErrNotFound):
		return Plugin{}, nil, err
	}
	// The package is an object before a row names it.
	if i.Package, err = m.keep(ctx, o.Workspace, o.Package); err != nil {
		return Plugin{}, nil, err
	}
	generation, err := m.Store.Change(ctx, host.Change{Workspace: o.Workspace, Instance: &i, Slots: background.Slots(capability.Install(i, manifest), m.Now())})
	switch {
	case errors.Is(err, host.ErrMoved):
		// The same order came at the same time, or this is the call's own write, whose
		// reply was lost.
		return m.ordered(ctx, i)
	case errors.Is(err, host.ErrFull):
		return Plugin{}, refuse(outcome.LimitExceeded, "/workspaceKey", outcome.Params{"of": "instances", "limit": host.MaxInstances}), nil
	case err != nil:
		return Plugin{}, nil, err
	}
	return told(i, manifest, generation), nil, nil
}

// ordered tells the instance that an order has made already, as it is now.
func (m *Manager) ordered(ctx context.Context, i capability.Instance) (Plugin, outcome.Findings, error) {
	old, err := m.Store.Instance(ctx, i.InstanceID)
	if err != nil {
		return Plugin{}, nil, err
	}
	if old.InstallDigest != i.InstallDigest {
		return Plugin{}, refuse(outcome.CommandReused, "/idempotencyKey", nil), nil
	}
	w, err := m.Workspaces.Read(ctx, i.Workspace)
	if err != nil {
		return Plugin{}, nil, err
	}
	in, ok := w.Find(i.InstanceID)
	if !ok {
		return Plugin{}, refuse(outcome.ExtensionNotFound, "", nil), nil
	}
	return told(in.Instance, in.Manifest, w.Generation), nil, nil
}

// carry puts into an instance what it has of its package.
func (m *Manager) carry(i *capability.Instance, manifest capability.Manifest, p packaging.Package) error {
	digest, err := p.Digest()
	if err != nil {
		return err
	}
	publisher, ok := p.Publisher()
	if !ok {
		return errors.New("installation: a signature that was verified is none")
	}
	i.PluginKey, i.PluginVersion, i.PackageDigest, i.Publisher = manifest.PluginKey, manifest.Version, digest, publisher
	return nil
}

// keep stores a package.
func (m *Manager) keep(ctx context.Context, workspace string, p packaging.Package) (string, error) {
	text, err := p.Stored()
	if err != nil {
		return "", err
	}
	return string(history.RefOf(text)), m.Objects.Put(ctx, host.Space(workspace), text)
}

// granted holds what is granted to what the package asks for.
func (m *Manager) granted(manifest capability.Manifest, granted []capability.Permission) outcome.Findings {
	var findings outcome.Findings
	for i, p := range granted {
		if !slices.Contains(manifest.Permissions, p) {
			findings.Add(outcome.SchemaInvalid, "/granted", outcome.Params{"rule": "permission_of_package", "permission": string(p)})
		} else if i > 0 && granted[i-1] == p {
			findings.Add(outcome.SchemaInvalid, "/granted", outcome.Params{"rule": "unique", "permission": string(p)})
		}
	}
	return findings
}

// actors holds a list of actors to be one.
func actors(list []string) outcome.Findings {
	var findings outcome.Findings
	for n, actor := range list {
		if !capability.ValidActor(actor) {
			findings.Add(outcome.SchemaInvalid, fmt.Sprintf("/actors/%d", n), outcome.Params{"rule": "actor"})
		}
	}
	return findings
}

// settings holds settings to their schema. A package without one has none.
func (m *Manager) settings(manifest capability.Manifest, settings canon.Raw) outcome.Findings {
	const at = "/settings"
	invalid := func(rule string) outcome.Findings {
		return refuse(outcome.SchemaInvalid, at, outcome.Params{"rule": rule})
	}
	switch {
	case settings.Kind() != '{':
		return refuse(outcome.SchemaInvalid, at, outcome.Params{"rule": "type", "expected": "object"})
	case len(settings) > MaxSettings:
		return refuse(outcome.LimitExceeded, at, outcome.Params{"of": "bytes", "limit": MaxSettings, "observed": len(settings)})
	case manifest.SettingsSchema == nil && string(settings) != "{}":
		return invalid("no_settings")
	case manifest.SettingsSchema == nil:
		return nil
	}
	schema, err := m.Schemas.Schema(manifest.SettingsSchema)
	if err != nil {
		return invalid("settings_schema")
	}
	violations, err := schema.Validate(settings)
	if err != nil {
		return invalid("json")
	}
	var findings outcome.Findings
	for _, v := range violations {
		params := outcome.Params{"rule": v.Keyword}
		if v.Names != nil {
			params["names"] = v.Names
		}
		findings.Add(outcome.SchemaInvalid, at+v.Path, params)
	}
	return findings
}

// sorted is a list in order, empty where there is none.
func sorted(list []capability.Permission) []capability.Permission {
	out := slices.Clone(list)
	slices.Sort(out)
	if out == nil {
		out = []capability.Permission{}
	}
	return out
}

// A Subject is the instance that is changed, as its manager saw it.
type Subject struct {
	Actor, InstanceID string
	Generation        int64
}

// change performs an edit on an instance. An edit whose generation is the one before,
// and that finds its change made, is the same request again.
func (m *Manager) change(ctx context.Context, s Subject, edit func(i *capability.Instance, manifest capability.Manifest) (capability.Manifest, outcome.Findings, error)) (Plugin, outcome.Findings, error) {
	w, in, findings, err := m.managed(ctx, s.Actor, s.InstanceID)
	if err != nil || findings != nil {
		return Plugin{}, findings, err
	}
	i := in.Instance
	stale := refuse(outcome.ExtensionVersionMismatch, "/generation", outcome.Params{"generation": i.Generation})
	if s.Generation != i.Generation && s.Generation != i.Generation-1 {
		return Plugin{}, stale, nil
	}
	next := i
	manifest, findings, err := edit(&next, in.Manifest)
	switch {
	case err != nil:
		return Plugin{}, nil, err
	case findings == nil && reflect.DeepEqual(next, i):
		return told(i, in.Manifest, w.Generation), nil, nil
	case s.Generation != i.Generation:
		return Plugin{}, stale, nil
	case findings != nil:
		return Plugin{}, findings, nil
	}
	next.Generation++
	after := capability.Install(next, manifest)
	generation, err := m.Store.Change(ctx, host.Change{Workspace: i.Workspace, Instance: &next, Slots: background.Slots(after, m.Now()), Drop: background.Dropped(in, after)})
	if errors.Is(err, host.ErrMoved) {
		now, err := m.Store.Instance(ctx, s.InstanceID)
		if err != nil {
			return Plugin{}, nil, err
		}
		if next.Version = now.Version; reflect.DeepEqual(next, now) { // a reply was lost
			w, err := m.Workspaces.Read(ctx, i.Workspace)
			return told(next, manifest, w.Generation), nil, err
		}
		return Plugin{}, refuse(outcome.ExtensionVersionMismatch, "/generation", outcome.Params{"generation": now.Generation}), nil
	}
	if err != nil {
		return Plugin{}, nil, err
	}
	return told(next, manifest, generation), nil, nil
}

// managed finds an instance for an actor who may manage it. Who may neither use nor
// manage what is in its workspace is told that there is none.
func (m *Manager) managed(ctx context.Context, actor, instanceID string) (capability.Workspace, capability.Installed, outcome.Findings, error) {
	none := refuse(outcome.ExtensionNotFound, "", nil)
	i, err := m.Store.Instance(ctx, instanceID)
	if errors.Is(err, host.ErrNotFound) {
		return capability.Workspace{}, capability.Installed{}, none, nil
	}
	if err != nil {
		return capability.Workspace{}, capability.Installed{}, nil, err
	}
	member, err := m.Store.Member(ctx, i.Workspace, actor)
	if err != nil {
		return capability.Workspace{}, capability.Installed{}, nil, err
	}
	if !member.Allows(capability.Manage) {
		if member.Allows(capability.Use) && !i.Removed && i.For(actor) {
			none = Permit(member, capability.Manage)
		}
		return capability.Workspace{}, capability.Installed{}, none, nil
	}
	w, err := m.Workspaces.Read(ctx, i.Workspace)
	if err != nil {
		return capability.Workspace{}, capability.Installed{}, nil, err
	}
	in, ok := w.Find(instanceID)
	if !ok {
		return capability.Workspace{}, capability.Installed{}, none, nil
	}
	return w, in, nil, nil
}

// Update puts another version of the same plugin in an instance's place. What it was
// granted it keeps, as far as the new version asks for it; more is granted by a manager,
// never by an update. Settings are kept where they fit.
func (m *Manager) Update(ctx context.Context, s Subject, p packaging.Package, settings canon.Raw) (Plugin, outcome.Findings, error) {
	return m.change(ctx, s, func(i *capability.Instance, _ capability.Manifest) (capability.Manifest, outcome.Findings, error) {
		manifest, findings := m.Judge(p)
		if findings != nil {
			return manifest, under("/package", findings), nil
		}
		old := *i
		if err := m.carry(i, manifest, p); err != nil {
			return manifest, nil, err
		}
		invalid := func(at, rule string) {
			findings.Add(outcome.SchemaInvalid, "/package/"+packaging.ManifestName+at, outcome.Params{"rule": rule})
		}
		switch {
		case i.PluginKey != old.PluginKey:
			invalid("/pluginKey", "plugin_of_instance")
		case i.PluginVersion == old.PluginVersion && i.PackageDigest != old.PackageDigest:
			invalid("/version", "other_version")
		}
		if old.Publisher != "" && i.Publisher != old.Publisher {
			findings.Add(outcome.SchemaInvalid, "/package/"+packaging.SignatureName, outcome.Params{"rule": "publisher_of_instance"})
		}
		if settings != nil {
			i.Settings = settings
		}
		findings = append(findings, m.settings(manifest, i.Settings)...)
		if findings != nil {
			return manifest, findings, nil
		}
		i.Granted = slices.DeleteFunc(slices.Clone(i.Granted), func(one capability.Permission) bool { return !slices.Contains(manifest.Permissions, one) })
		var err error
		i.Package, err = m.keep(ctx, i.Workspace, p)
		return manifest, nil, err
	})
}

// Switch enables an instance or disables it.
func (m *Manager) Switch(ctx context.Context, s Subject, enabled bool) (Plugin, outcome.Findings, error) {
	return m.change(ctx, s, func(i *capability.Instance, manifest capability.Manifest) (capability.Manifest, outcome.Findings, error) {
		i.Enabled = enabled
		return manifest, nil, nil
	})
}

// A Grant is what an instance may do, for whom, and how it is set. What is nil stays.
type Grant struct {
	Granted  *[]capability.Permission
	Actors   *[]string // a nil list in it is everyone with the right to use
	Settings canon.Raw
}

// Grant changes that.
func (m *Manager) Grant(ctx context.Context, s Subject, g Grant) (Plugin, outcome.Findings, error) {
	return m.change(ctx, s, func(i *capability.Instance, manifest capability.Manifest) (capability.Manifest, outcome.Findings, error) {
		var findings outcome.Findings
		if g.Granted != nil {
			i.Granted = sorted(*g.Granted)
			findings = append(findings, m.granted(manifest, i.Granted)...)
		}
		if g.Actors != nil {
			i.Actors = *g.Actors
			findings = append(findings, actors(i.Actors)...)
		}
		if g.Settings != nil {
			i.Settings = g.Settings
			findings = append(findings, m.settings(manifest, i.Settings)...)
		}
		return manifest, findings, nil
	})
}

// Remove removes an instance, and then the Connections that it had. The instance's grave
// is written first: from then on nothing can be called. A removal that died in between
// is finished by asking for it again.
func (m *Manager) Remove(ctx context.Context, s Subject) (Removed, outcome.Findings, error) {
	i, err := m.Store.Instance(ctx, s.InstanceID)
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return Removed{}, nil, err
	}
	if err != nil || !i.Removed {
		_, findings, err := m.change(ctx, s, func(i *capability.Instance, manifest capability.Manifest) (capability.Manifest, outcome.Findings, error) {
			i.Removed, i.Enabled = true, false
			return manifest, nil, nil
		})
		if err != nil || findings != nil {
			return Removed{}, findings, err
		}
		if i, err = m.Store.Instance(ctx, s.InstanceID); err != nil {
			return Removed{}, nil, err
		}
	} else if member, err := m.Store.Member(ctx, i.Workspace, s.Actor); err != nil || !member.Allows(capability.Manage) {
		return Removed{}, refuse(outcome.ExtensionNotFound, "", nil), err
	}
	return m.forget(ctx, i)
}

// forget removes the Connections of an instance that is gone.
func (m *Manager) forget(ctx context.Context, i capability.Instance) (Removed, outcome.Findings, error) {
	read, err := m.Store.Workspace(ctx, i.Workspace)
	if err != nil {
		return Removed{}, nil, err
	}
	out := Removed{InstanceID: i.InstanceID, Removed: true, CatalogGeneration: read.Generation}
	for _, c := range read.Connections {
		if c.InstanceID != i.InstanceID {
			continue
		}
		generation, err := m.Store.Change(ctx, host.Change{Workspace: i.Workspace, Forget: &c})
		if err != nil && !errors.Is(err, host.ErrMoved) {
			return Removed{}, nil, fmt.Errorf("installation: a Connection of what was removed: %w", err)
		}
		out.CatalogGeneration = max(out.CatalogGeneration, generation)
	}
	return out, nil, nil
}

// Removed tells that an instance is gone.
type Removed struct {
	InstanceID        string `json:"instanceId"`
	Removed           bool   `json:"removed"`
	CatalogGeneration int64  `json:"catalogGeneration"`
}

// List tells a manager what is installed.
func (m *Manager) List(ctx context.Context, actor, workspace string) (List, outcome.Findings, error) {
	member, err := m.Store.Member(ctx, workspace, actor)
	if err != nil {
		return List{}, nil, err
	}
	if denied := Permit(member, capability.Manage); denied != nil {
		return List{}, denied, nil
	}
	w, err := m.Workspaces.Read(ctx, workspace)
	if err != nil {
		return List{}, nil, err
	}
	out := List{w.Generation, []Plugin{}}
	for _, in := range w.Installed {
		if !in.Instance.Removed {
			out.Plugins = append(out.Plugins, told(in.Instance, in.Manifest, w.Generation))
		}
	}
	return out, nil, nil
}

// Read tells a manager of one instance.
func (m *Manager) Read(ctx context.Context, actor, instanceID string) (Plugin, outcome.Findings, error) {
	w, in, findings, err := m.managed(ctx, actor, instanceID)
	if err != nil || findings != nil {
		return Plugin{}, findings, err
	}
	p := told(in.Instance, in.Manifest, w.Generation)
	p.Schedule, err = m.schedule(ctx, in)
	return p, nil, err
}

// schedule tells when the Host calls an instance by itself, and what became of it lately.
// Nobody else could: who manages is not who installed, and nobody gave a key.
func (m *Manager) schedule(ctx context.Context, in capability.Installed) ([]Timetable, error) {
	var out []Timetable
	for _, t := range background.Timetables(in, m.Now()) {
		told := Timetable{CapabilityID: t.CapabilityID, IntervalMinutes: t.Minutes, Past: []Slot{}}
		if t.On {
			told.NextAt = t.Next
		}
		for i, slot := range t.Begun {
			e, err := m.Store.Execution(ctx, slot.ExecutionID)
			switch {
			case errors.Is(err, host.ErrNotFound):
				if i == 0 && t.On { // it has begun, and the next minute calls it
					told.NextAt = slot.At
				}
				continue
			case err != nil:
				return nil, err
			}
			reason, _ := e.Params["reason"].(string)
			told.Past = append(told.Past, Slot{slot.At, e.ExecutionID, e.State, e.Code, reason})
		}
		out = append(out, told)
	}
	return out, nil
}

// A List is what a workspace has installed.
type List struct {
	CatalogGeneration int64    `json:"catalogGeneration"`
	Plugins           []Plugin `json:"plugins"`
}

// A Plugin is an instance as its managers see it.
type Plugin struct {
	InstanceID    string                  `json:"instanceId"`
	WorkspaceKey  string                  `json:"workspaceKey"`
	PluginKey     string                  `json:"pluginKey"`
	Version       string                  `json:"version"`
	Title         string                  `json:"title"`
	PackageDigest string                  `json:"packageDigest"`
	Publisher     string                  `json:"publisher,omitzero"`
	Generation    int64                   `json:"generation"`
	Enabled       bool                    `json:"enabled"`
	Permissions   []capability.Permission `json:"permissions"` // that it asks for
	Granted       []capability.Permission `json:"granted"`
	Actors        []string                `json:"actors,omitzero"`
	Settings      canon.Raw               `json:"settings"`
	Capabilities  []Offer                 `json:"capabilities"`
	Connectors    []Socket                `json:"connectors"`
	Schedule      []Timetable             `json:"schedule,omitzero"` // of one that is read by itself
	InstalledAt   time.Time               `json:"installedAt"`
	InstalledBy   string                  `json:"installedBy"`
	// CatalogGeneration is that of the workspace at which this holds.
	CatalogGeneration int64 `json:"catalogGeneration"`
}

// An Offer is a capability in short.
type Offer struct {
	CapabilityID string                    `json:"capabilityId"`
	Kind         capability.CapabilityKind `json:"kind"`
	Title        string                    `json:"title"`
}

// A Timetable is when the Host calls a capability by itself.
type Timetable struct {
	CapabilityID    string    `json:"capabilityId"`
	IntervalMinutes int       `json:"intervalMinutes"`
	NextAt          time.Time `json:"nextAt,omitzero"` // of one that is enabled and granted
	Past            []Slot    `json:"past"`            // the newest first, at most two
}

// A Slot is one time at which it was called, and what became of it.
type Slot struct {
	At          time.Time    `json:"at"`
	ExecutionID string       `json:"executionId"`
	State       host.State   `json:"state"`
	Code        outcome.Code `json:"code,omitzero"`
	Reason      string       `json:"reason,omitzero"` // "skipped": the one before was still at work
}

// A Socket is a connector that may want a Connection.
type Socket struct {
	ConnectorID string `json:"connectorId"`
	Title       string `json:"title,omitzero"`
	Auth        string `json:"auth"`
	Grant       string `json:"grant,omitzero"`
}

func told(i capability.Instance, manifest capability.Manifest, generation int64) Plugin {
	p := Plugin{
		InstanceID: i.InstanceID, WorkspaceKey: i.Workspace, PluginKey: i.PluginKey, Version: i.PluginVersion, Title: manifest.Title, PackageDigest: i.PackageDigest, Publisher: i.Publisher,
		Generation: i.Generation, Enabled: i.Enabled, Permissions: sorted(manifest.Permissions), Granted: sorted(i.Granted), Actors: i.Actors, Settings: i.Settings,
		Capabilities: []Offer{}, Connectors: []Socket{}, InstalledAt: i.InstalledAt, InstalledBy: i.InstalledBy, CatalogGeneration: generation,
	}
	for _, c := range manifest.Capabilities {
		p.Capabilities = append(p.Capabilities, Offer{c.ID, c.Kind, c.Title})
	}
	for _, c := range manifest.Connectors {
		p.Connectors = append(p.Connectors, Socket{c.ConnectorID, c.Title, c.Auth.Kind, c.Auth.Grant})
	}
	return p
}
