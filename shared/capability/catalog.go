package capability

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// An Installed is an instance with what its package declares.
type Installed struct {
	Instance Instance
	Manifest Manifest
	Runtimes map[string]Runtime // by capability
}

// Install reads the runtimes of a manifest that was judged.
func Install(i Instance, m Manifest) Installed {
	out := Installed{i, m, make(map[string]Runtime, len(m.Capabilities))}
	for _, c := range m.Capabilities {
		out.Runtimes[c.ID], _ = ReadRuntime(c.Runtime, "")
	}
	return out
}

// Capability finds one by its ID.
func (i Installed) Capability(id string) (Capability, bool) {
	for _, c := range i.Manifest.Capabilities {
		if c.ID == id {
			return c, true
		}
	}
	return Capability{}, false
}

// Connector finds the one that a capability's runtime names; nil where it names none.
func (i Installed) Connector(capabilityID string) *Connector {
	return i.Manifest.Connector(i.Runtimes[capabilityID].ConnectorID())
}

// Connector finds a connector by its ID; nil is that there is none.
func (m Manifest) Connector(id string) *Connector {
	for _, c := range m.Connectors {
		if id != "" && c.ConnectorID == id {
			return &c
		}
	}
	return nil
}

// ConnectorID is the connector that the runtime names, "" where it names none.
func (r Runtime) ConnectorID() string {
	switch {
	case r.HTTPJSON != nil:
		return r.HTTPJSON.ConnectorID
	case r.MCPHTTP != nil:
		return r.MCPHTTP.ConnectorID
	}
	return ""
}

// A Link is a Connection of a connector of an instance, without its secret. Owner is the
// actor whose own it is, or "": it is everyone's.
type Link struct{ InstanceID, ConnectorID, Owner string }

// A Workspace is all that is installed in a workspace, at one generation. It is shared
// freely: nothing changes it.
type Workspace struct {
	Generation  int64
	Installed   []Installed // by instanceId
	Connections map[Link]bool
	// Waiting are Connections that cannot be used: "pending" on a person's yes, "rejected"
	// by the service, or "changed", since the plugin's connector leads elsewhere now.
	Waiting map[Link]string
}

// Connected reports whether an actor has a Connection for a connector: his own, or
// everyone's.
func (w Workspace) Connected(actor, instanceID, connectorID string) bool {
	return w.Connections[Link{instanceID, connectorID, actor}] || w.Connections[Link{instanceID, connectorID, ""}]
}

// unconnected says why there is no Connection for an actor: what is the matter with his
// own, or with everyone's, or "none".
func (w Workspace) unconnected(actor, instanceID, connectorID string) string {
	return cmp.Or(w.Waiting[Link{instanceID, connectorID, actor}], w.Waiting[Link{instanceID, connectorID, ""}], "none")
}

// Find returns an instance that is installed.
func (w Workspace) Find(instanceID string) (Installed, bool) {
	i, ok := slices.BinarySearchFunc(w.Installed, instanceID, func(one Installed, id string) int { return cmp.Compare(one.Instance.InstanceID, id) })
	if !ok || w.Installed[i].Instance.Removed {
		return Installed{}, false
	}
	return w.Installed[i], true
}

// Readiness says why an actor cannot have a capability performed now; nil says that he
// can. Each reason has its own code (C5); where several hold, the first of them is told,
// in the order in which one would mend them.
func (w Workspace) Readiness(member Member, actor, instanceID, capabilityID string) *Failure {
	i, ok := w.Find(instanceID)
	if !ok || !member.Allows(Use) || !i.Instance.For(actor) {
		return &Failure{Code: outcome.ExtensionNotFound}
	}
	c, ok := i.Capability(capabilityID)
	if !ok {
		return &Failure{Code: outcome.ExtensionNotFound}
	}
	if !i.Instance.Enabled {
		return &Failure{Code: outcome.ExtensionDisabled, Params: outcome.Params{"instanceId": instanceID}}
	}
	if d, state := w.lacks(i); state != "" {
		return &Failure{Code: outcome.ExtensionDependencyRequired, Params: outcome.Params{"pluginKey": d.PluginKey, "minimum": d.Minimum, "state": state}}
	}
	if missing, ok := i.Instance.Grants(c); !ok {
		return &Failure{Code: outcome.ExtensionPermissionDenied, Params: outcome.Params{"permission": string(missing), "instanceId": instanceID}}
	}
	if k := i.Connector(capabilityID); k != nil && k.Auth.Kind != "none" && !w.Connected(actor, instanceID, k.ConnectorID) {
		return &Failure{Code: outcome.ExtensionConnectionRequired, Params: outcome.Params{"connectorId": k.ConnectorID, "instanceId": instanceID, "reason": w.unconnected(actor, instanceID, k.ConnectorID)}}
	}
	if i.Runtimes[capabilityID].Adapter == "" { // a provider that is there to be seen
		return &Failure{Code: outcome.ExtensionNotFound, Params: outcome.Params{"reason": "no_adapter"}}
	}
	return nil
}

// lacks returns a dependency that is not met, and how.
func (w Workspace) lacks(i Installed) (Dependency, string) {
	for _, d := range i.Manifest.Dependencies {
		state := "not_installed"
		for _, other := range w.Installed {
			o := other.Instance
			if o.PluginKey != d.PluginKey || o.Removed {
				continue
			}
			switch {
			case !Satisfies(o.PluginVersion, d.Minimum):
				state = "other_version"
			case !o.Enabled:
				state = "disabled"
			default:
				state = ""
			}
			if state == "" {
				break
			}
		}
		if state != "" {
			return d, state
		}
	}
	return Dependency{}, ""
}

// Satisfies reports whether a version is the minimum or later, and before the next major
// one.
func Satisfies(version, minimum string) bool {
	v, m := numbers(version), numbers(minimum)
	return v != nil && m != nil && v[0] == m[0] && slices.Compare(v, m) >= 0
}

// CompareVersions orders two versions.
func CompareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

func numbers(version string) []int {
	parts := strings.Split(version, ".")
	out := make([]int, 0, 3)
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	if len(out) != 3 {
		return nil
	}
	return out
}

// An Entry is a capability as an actor's catalog shows it. What people see is its title;
// the IDs are for calling it.
type Entry struct {
	InstanceID   string         `json:"instanceId"`
	CapabilityID string         `json:"capabilityId"`
	Generation   int64          `json:"generation"` // of the instance
	Plugin       PluginName     `json:"plugin"`
	Kind         CapabilityKind `json:"kind"`
	Role         string         `json:"role,omitzero"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  canon.Raw      `json:"inputSchema,omitzero"`
	OutputSchema canon.Raw      `json:"outputSchema,omitzero"`
	Permissions  []Permission   `json:"permissions"`
	TimeoutSec   int            `json:"timeoutSeconds"`
	// Ready is "READY", or the code by which a call would be refused.
	Ready  string         `json:"ready"`
	Params outcome.Params `json:"params,omitzero"` // of that code
}

// A PluginName names a plugin for people and for machines.
type PluginName struct {
	PluginKey string `json:"pluginKey"`
	Version   string `json:"version"`
	Title     string `json:"title"`
}

// Ready is the readiness of what can be called.
const Ready = "READY"

// A Command is a slash command as an actor's catalog shows it.
type Command struct {
	InstanceID   string     `json:"instanceId"`
	CommandID    string     `json:"commandId"`
	Command      string     `json:"command"`
	Plugin       PluginName `json:"plugin"`
	Title        string     `json:"title"`
	Description  string     `json:"description"`
	CapabilityID string     `json:"capabilityId"`
	Ready        string     `json:"ready"`
	// Template is merged into the arguments.
	Template canon.Raw `json:"-"`
}

// A Screen is what an instance has a person's screen show and call. What its parts call
// are capabilities of the same catalog, by their IDs, which stand there with their
// readiness and are no label (C2).
type Screen struct {
	InstanceID string     `json:"instanceId"`
	Generation int64      `json:"generation"` // of the instance, for a call from the screen
	Plugin     PluginName `json:"plugin"`
	UI         UI         `json:"ui"`
}

// A Catalog is all that an actor may have performed, and nothing else (C3).
type Catalog struct {
	Generation   int64     `json:"generation"`
	Capabilities []Entry   `json:"capabilities"`
	Commands     []Command `json:"slashCommands"`
	Screens      []Screen  `json:"screens"`
}

// Catalog is the actor's catalog. What is switched off is not in it; what lacks
// something is, with the code that says what (an AI can then offer to mend it).
func (w Workspace) Catalog(member Member, actor string) Catalog {
	out := Catalog{w.Generation, []Entry{}, []Command{}, []Screen{}}
	for _, i := range w.Installed {
		if i.Instance.Removed || !i.Instance.Enabled || !member.Allows(Use) || !i.Instance.For(actor) {
			continue
		}
		name := PluginName{i.Instance.PluginKey, i.Instance.PluginVersion, i.Manifest.Title}
		ready := map[string]string{}
		for _, c := range i.Manifest.Capabilities {
			e := Entry{i.Instance.InstanceID, c.ID, i.Instance.Generation, name, c.Kind, i.Runtimes[c.ID].Role, c.Title, c.Description, c.InputSchema, c.OutputSchema, c.Permissions, c.TimeoutSeconds, Ready, nil}
			if f := w.Readiness(member, actor, i.Instance.InstanceID, c.ID); f != nil {
				e.Ready, e.Params = string(f.Code), f.Params
			}
			ready[c.ID] = e.Ready
			out.Capabilities = append(out.Capabilities, e)
		}
		for _, s := range i.Manifest.SlashCommands {
			out.Commands = append(out.Commands, Command{i.Instance.InstanceID, s.ID, s.Command, name, s.Title, s.Description, s.Capability, ready[s.Capability], s.ArgumentTemplate})
		}
		if i.Manifest.UI != nil {
			out.Screens = append(out.Screens, Screen{i.Instance.InstanceID, i.Instance.Generation, name, *i.Manifest.UI})
		}
	}
	return out
}
