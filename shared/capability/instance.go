package capability

import (
	"slices"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
)

// An Instance is a plugin as a workspace has it.
type Instance struct {
	InstanceID    string       `json:"instanceId"`
	Workspace     string       `json:"workspaceKey"`
	PluginKey     string       `json:"pluginKey"`
	PluginVersion string       `json:"version"`
	PackageDigest string       `json:"packageDigest"`
	Package       string       `json:"package"`            // the object that holds it
	Publisher     string       `json:"publisher,omitzero"` // digest of the key that signed the package
	Enabled       bool         `json:"enabled"`
	Granted       []Permission `json:"granted"`
	// Actors may use it; nil is everyone with the right to use the workspace's plugins.
	Actors   []string  `json:"actors,omitzero"`
	Settings canon.Raw `json:"settings"` // an object
	// Generation grows with each change of the above. A Connection moves that of the
	// workspace alone: what a screen saw of the instance is still so.
	Generation  int64     `json:"generation"`
	InstalledAt time.Time `json:"installedAt"`
	InstalledBy string    `json:"installedBy"`
	// InstallDigest is of the order that installed it, so that the same order, sent again,
	// is told from another one under its key.
	InstallDigest string `json:"installDigest,omitzero"`
	// Removed is a grave: executions that began before find that the instance is gone.
	Removed bool `json:"removed,omitzero"`

	// Version is the store's token of this reading, not part of the instance.
	Version int64 `json:"-"`
}

// For reports whether an actor is among those who may use it.
func (i Instance) For(actor string) bool { return i.Actors == nil || slices.Contains(i.Actors, actor) }

// ValidActor reports whether a text is an actor: an issuer and a subject, as iss|sub. No
// token is of any other, and who narrowed an instance to one would shut everybody out.
func ValidActor(text string) bool {
	issuer, subject, ok := strings.Cut(text, "|")
	return ok && issuer != "" && subject != ""
}

// Grants reports whether all of a capability's permissions are granted, and which is
// not.
func (i Instance) Grants(c Capability) (missing Permission, ok bool) {
	for _, p := range c.Permissions {
		if !slices.Contains(i.Granted, p) {
			return p, false
		}
	}
	return "", true
}

// A Member is what an actor may do with the plugins of a workspace. The zero Member may
// do nothing and has Version 0.
type Member struct {
	Rights  []Right
	Version int64
}

// A Right is one thing that an actor may do in a workspace. None implies another.
type Right string

// The rights.
const (
	Use    Right = "use"    // see and call what is installed
	Manage Right = "manage" // install, update, switch, grant, connect and remove
)

// Allows reports whether the member has the right.
func (m Member) Allows(r Right) bool { return slices.Contains(m.Rights, r) }
