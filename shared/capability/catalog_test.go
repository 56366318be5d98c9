package capability_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/outcome"
)

func installed(id string, edit func(*capability.Instance, *capability.Manifest)) capability.Installed {
	i := capability.Instance{InstanceID: id, PluginKey: "notes", PluginVersion: "1.2.0", Enabled: true, Granted: []capability.Permission{capability.Network, capability.Credentials}, Generation: 4}
	m := capability.Manifest{Title: "노트", Connectors: []capability.Connector{{ConnectorID: "api", Auth: capability.Auth{Kind: "bearer"}}, {ConnectorID: "open", Auth: capability.Auth{Kind: "none"}}},
		Capabilities: []capability.Capability{
			{ID: "search", Kind: capability.Tool, Title: "검색", Permissions: []capability.Permission{capability.Network, capability.Credentials}, Runtime: canon.Raw(`{"adapter":"http_json","connector_id":"api","method":"GET"}`)},
			{ID: "text", Kind: capability.Skill, Title: "정리", Runtime: canon.Raw(`{"adapter":"text_template","template":"x"}`)},
			{ID: "open", Kind: capability.Tool, Title: "공개", Permissions: []capability.Permission{capability.Network}, Runtime: canon.Raw(`{"adapter":"http_json","connector_id":"open","method":"GET"}`)},
		},
		SlashCommands: []capability.SlashCommand{{ID: "s", Command: "notes", Capability: "search"}},
	}
	if edit != nil {
		edit(&i, &m)
	}
	return capability.Install(i, m)
}

var (
	user   = capability.Member{Rights: []capability.Right{capability.Use}, Version: 1}
	linked = map[capability.Link]bool{{InstanceID: "i1", ConnectorID: "api"}: true}
)

// covers: C2, C3, C5
func TestWhyACapabilityIsNotReady(t *testing.T) {
	base := func(edit func(*capability.Instance, *capability.Manifest), more ...capability.Installed) capability.Workspace {
		return capability.Workspace{Generation: 3, Installed: append([]capability.Installed{installed("i1", edit)}, more...), Connections: linked}
	}
	depends := func(_ *capability.Instance, m *capability.Manifest) {
		m.Dependencies = []capability.Dependency{{PluginKey: "calendar", Minimum: "1.4.0"}}
	}
	other := func(version string, edit func(*capability.Instance)) capability.Installed {
		return installed("i2", func(i *capability.Instance, m *capability.Manifest) {
			i.PluginKey, i.PluginVersion = "calendar", version
			if edit != nil {
				edit(i)
			}
		})
	}
	// waiting is a workspace whose Connections, by owner, cannot be used.
	waiting := func(owners ...string) capability.Workspace {
		w := capability.Workspace{Installed: []capability.Installed{installed("i1", nil)}, Waiting: map[capability.Link]string{}}
		for i := 0; i < len(owners); i += 2 {
			w.Waiting[capability.Link{InstanceID: "i1", ConnectorID: "api", Owner: owners[i]}] = owners[i+1]
		}
		return w
	}
	for name, c := range map[string]struct {
		w          capability.Workspace
		member     capability.Member
		actor      string
		instance   string
		capability string
		want       string
		hidden     bool // from the catalog
	}{
		"all is there":                          {base(nil), user, "a", "i1", "search", "", false},
		"no such instance":                      {base(nil), user, "a", "i9", "search", "EXTENSION_NOT_FOUND", true},
		"no such capability":                    {base(nil), user, "a", "i1", "find", "EXTENSION_NOT_FOUND", true},
		"nobody of the workspace":               {base(nil), capability.Member{}, "a", "i1", "search", "EXTENSION_NOT_FOUND", true},
		"a manager who may not use it":          {base(nil), capability.Member{Rights: []capability.Right{capability.Manage}}, "a", "i1", "search", "EXTENSION_NOT_FOUND", true},
		"of others":                             {base(func(i *capability.Instance, _ *capability.Manifest) { i.Actors = []string{"b"} }), user, "a", "i1", "search", "EXTENSION_NOT_FOUND", true},
		"of nobody":                             {base(func(i *capability.Instance, _ *capability.Manifest) { i.Actors = []string{} }), user, "a", "i1", "search", "EXTENSION_NOT_FOUND", true},
		"of this one":                           {base(func(i *capability.Instance, _ *capability.Manifest) { i.Actors = []string{"b", "a"} }), user, "a", "i1", "search", "", false},
		"removed":                               {base(func(i *capability.Instance, _ *capability.Manifest) { i.Removed = true }), user, "a", "i1", "search", "EXTENSION_NOT_FOUND", true},
		"switched off":                          {base(func(i *capability.Instance, _ *capability.Manifest) { i.Enabled = false }), user, "a", "i1", "search", "EXTENSION_DISABLED", true},
		"a permission is not granted":           {base(func(i *capability.Instance, _ *capability.Manifest) { i.Granted = i.Granted[:1] }), user, "a", "i1", "search", "EXTENSION_PERMISSION_DENIED credentials", false},
		"one that needs none of them":           {base(func(i *capability.Instance, _ *capability.Manifest) { i.Granted = nil }), user, "a", "i1", "text", "", false},
		"no Connection":                         {capability.Workspace{Installed: []capability.Installed{installed("i1", nil)}}, user, "a", "i1", "search", "EXTENSION_CONNECTION_REQUIRED api none", false},
		"a Connection of another":               {capability.Workspace{Installed: []capability.Installed{installed("i1", nil)}, Connections: map[capability.Link]bool{{InstanceID: "i1", ConnectorID: "api", Owner: "b"}: true}}, user, "a", "i1", "search", "EXTENSION_CONNECTION_REQUIRED api none", false},
		"a Connection of his own":               {capability.Workspace{Installed: []capability.Installed{installed("i1", nil)}, Connections: map[capability.Link]bool{{InstanceID: "i1", ConnectorID: "api", Owner: "a"}: true}}, user, "a", "i1", "search", "", false},
		"a Connection that waits":               {waiting("", "pending"), user, "a", "i1", "search", "EXTENSION_CONNECTION_REQUIRED api pending", false},
		"a Connection of his own that waits":    {waiting("a", "rejected", "", "pending"), user, "a", "i1", "search", "EXTENSION_CONNECTION_REQUIRED api rejected", false},
		"a Connection of another that waits":    {waiting("b", "rejected"), user, "a", "i1", "search", "EXTENSION_CONNECTION_REQUIRED api none", false},
		"one that needs no credential":          {capability.Workspace{Installed: []capability.Installed{installed("i1", nil)}}, user, "a", "i1", "open", "", false},
		"a dependency is not installed":         {base(depends), user, "a", "i1", "search", "EXTENSION_DEPENDENCY_REQUIRED not_installed", false},
		"a dependency is older":                 {base(depends, other("1.3.9", nil)), user, "a", "i1", "search", "EXTENSION_DEPENDENCY_REQUIRED other_version", false},
		"a dependency is of the next major one": {base(depends, other("2.0.0", nil)), user, "a", "i1", "search", "EXTENSION_DEPENDENCY_REQUIRED other_version", false},
		"a dependency is switched off":          {base(depends, other("1.4.0", func(i *capability.Instance) { i.Enabled = false })), user, "a", "i1", "search", "EXTENSION_DEPENDENCY_REQUIRED disabled", false},
		"a dependency is removed":               {base(depends, other("1.4.0", func(i *capability.Instance) { i.Removed = true })), user, "a", "i1", "search", "EXTENSION_DEPENDENCY_REQUIRED not_installed", false},
		"a provider without an adapter": {base(func(_ *capability.Instance, m *capability.Manifest) {
			m.Capabilities = append(m.Capabilities, capability.Capability{ID: "found", Kind: capability.Provider, Runtime: canon.Raw(`{"role":"search"}`)})
		}), user, "a", "i1", "found", "EXTENSION_NOT_FOUND no_adapter", false},
		"a dependency is there": {base(depends, other("1.10.0", nil)), user, "a", "i1", "search", "", false},
	} {
		got := ""
		if f := c.w.Readiness(c.member, c.actor, c.instance, c.capability); f != nil {
			got = string(f.Code)
			for _, name := range []string{"permission", "connectorId", "reason", "state"} {
				if v, ok := f.Params[name]; ok {
					got += fmt.Sprint(" ", v)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		shown := "hidden"
		for _, e := range c.w.Catalog(c.member, c.actor).Capabilities {
			if e.InstanceID == c.instance && e.CapabilityID == c.capability {
				shown = e.Ready
			}
		}
		code, _, _ := strings.Cut(c.want, " ")
		if c.hidden != (shown == "hidden") || !c.hidden && (code == "" && shown != capability.Ready || code != "" && shown != code) {
			t.Errorf("%s: the catalog shows %s", name, shown)
		}
	}
}

// covers: C3, C7
func TestACatalogHasAllThatAnActorMayUseAndItsCommands(t *testing.T) {
	w := capability.Workspace{Generation: 3, Installed: []capability.Installed{installed("i1", nil), installed("i2", func(i *capability.Instance, m *capability.Manifest) { i.Enabled = false })}, Connections: linked}
	got := w.Catalog(user, "a")
	if len(got.Capabilities) != 3 || got.Capabilities[0].Kind != capability.Tool || got.Generation != 3 || got.Capabilities[0].Title != "검색" || got.Capabilities[0].Generation != 4 {
		t.Errorf("%+v", got)
	}
	if len(got.Commands) != 1 || got.Commands[0].Ready != capability.Ready || got.Commands[0].InstanceID != "i1" {
		t.Errorf("%+v", got.Commands)
	}
	if empty := w.Catalog(capability.Member{}, "a"); empty.Capabilities == nil || len(empty.Capabilities)+len(empty.Commands) != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestAFailureSaysItsCodeAndKeepsItsCause(t *testing.T) {
	cause := fmt.Errorf("a cause")
	f := &capability.Failure{Code: outcome.ExtensionTimeout, Cause: cause}
	if f.Error() != "EXTENSION_TIMEOUT: a cause" || f.Unwrap() != cause || (&capability.Failure{Code: outcome.ExtensionTimeout}).Error() != "EXTENSION_TIMEOUT" {
		t.Error(f)
	}
}

// The catalog of 500 capabilities, of which each is judged.
func BenchmarkCatalog500(b *testing.B) {
	w := capability.Workspace{Generation: 1, Connections: map[capability.Link]bool{}}
	for n := range 50 {
		id := fmt.Sprintf("i%02d", n)
		w.Connections[capability.Link{InstanceID: id, ConnectorID: "api"}] = true
		w.Installed = append(w.Installed, installed(id, func(_ *capability.Instance, m *capability.Manifest) {
			for k := len(m.Capabilities); k < 10; k++ {
				c := m.Capabilities[0]
				c.ID = fmt.Sprintf("search%d", k)
				m.Capabilities = append(m.Capabilities, c)
			}
		}))
	}
	for b.Loop() {
		if got := w.Catalog(user, "a"); len(got.Capabilities) != 500 {
			b.Fatal(len(got.Capabilities))
		}
	}
}
