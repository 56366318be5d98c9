// Package validation judges a manifest before anything of it is stored: every finding
// at its path, all at once (C4). What passes here can be run: a runtime is read by its
// adapter's rules, a schema is safe, a template names arguments that there are, a path
// of a screen leads to something that a result may have.
//
// It reads and stores nothing; which files a package has is told to it.
package validation

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/response"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/capability/template"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// MaxManifest is the most bytes of a manifest.
const MaxManifest = 1 << 20

// Manifest reads a manifest and returns everything that is wrong with it. sources are
// the paths of the package's Python files, as src/analyze.py. checkURL is
// outbound.CheckURL, or that of a client with exceptions.
func Manifest(text []byte, sources []string, checkURL func(string) (*url.URL, error)) (capability.Manifest, outcome.Findings) {
	var m capability.Manifest
	if len(text) > MaxManifest {
		return m, outcome.Findings{outcome.New(outcome.LimitExceeded, "", outcome.Params{"limit": MaxManifest, "observed": len(text), "of": "bytes"})}
	}
	v := &validator{m: &m, checkURL: checkURL, schemas: map[string]*safeschema.Schema{}, arguments: map[string]*safeschema.Schema{}}
	v.findings = schema.Decode(text, &m)
	// What could be read is judged further, so that all findings come at once; what
	// could not is zero there, and its absence is no second finding.
	v.decoded = slices.Clone(v.findings)
	v.manifest(sources)
	return m, v.findings
}

type validator struct {
	m         *capability.Manifest
	checkURL  func(string) (*url.URL, error)
	findings  outcome.Findings
	decoded   outcome.Findings              // what could not be read
	hidden    bool                          // an entrypoint may be where nothing could be read
	schemas   map[string]*safeschema.Schema // of outputs, by capability
	arguments map[string]*safeschema.Schema // of inputs
}

func (v *validator) invalid(at, rule string, params outcome.Params) {
	if params == nil {
		params = outcome.Params{}
	}
	params["rule"] = rule
	v.findings.Add(outcome.SchemaInvalid, at, params)
}

// unread reports whether something of a list could not be read: the list, an element, or
// that member of one.
func (v *validator) unread(list, member string) bool {
	return slices.ContainsFunc(v.decoded, func(f outcome.Diagnostic) bool {
		if f.Path == "" || f.Path == list || strings.HasPrefix(list, f.Path+"/") {
			return true
		}
		within, ok := strings.CutPrefix(f.Path, list+"/")
		_, within, deeper := strings.Cut(within, "/")
		return ok && (!deeper || within == member)
	})
}

// told reports whether there is a finding at a place or below it.
func (v *validator) told(at string) bool {
	return slices.ContainsFunc(v.findings, func(f outcome.Diagnostic) bool {
		return f.Path == at || strings.HasPrefix(f.Path, at+"/")
	})
}

// named are the names that others refer to, by what is named: the list and the member.
var named = map[string][2]string{"capability": {"/capabilities", "id"}, "connector": {"/connectors", "connector_id"}, "data_source": {"/ui/data_sources", "id"}}

// unknown reports a name that names nothing, unless a name of its kind could not be read.
func (v *validator) unknown(at, kind string) {
	if in := named[kind]; !v.unread(in[0], in[1]) {
		v.findings.Add(outcome.ReferenceUnknown, at, outcome.Params{"kind": kind})
	}
}

// unique reports names that are there twice, at the second. What could not be read has
// none.
func unique[T any](v *validator, at, member string, list []T, name func(T) string) {
	seen := map[string]bool{}
	for i, one := range list {
		key := name(one)
		if key != "" && seen[key] {
			v.invalid(fmt.Sprintf("%s/%d/%s", at, i, member), "unique", nil)
		}
		seen[key] = true
	}
}

func (v *validator) manifest(sources []string) {
	m := v.m
	unique(v, "/capabilities", "id", m.Capabilities, func(c capability.Capability) string { return c.ID })
	unique(v, "/connectors", "connector_id", m.Connectors, func(c capability.Connector) string { return c.ConnectorID })
	unique(v, "/slash_commands", "id", m.SlashCommands, func(c capability.SlashCommand) string { return c.ID })
	unique(v, "/slash_commands", "command", m.SlashCommands, func(c capability.SlashCommand) string { return capability.FoldCommand(c.Command) })
	unique(v, "/dependencies", "pluginKey", m.Dependencies, func(d capability.Dependency) string { return d.PluginKey })
	v.permissions("/permissions", m.Permissions, nil)
	for i, d := range m.Dependencies {
		if d.PluginKey == m.PluginKey && d.PluginKey != "" {
			v.invalid(fmt.Sprintf("/dependencies/%d/pluginKey", i), "not_itself", nil)
		}
	}
	if m.SettingsSchema != nil {
		const at = "/settings_schema"
		findings := safeschema.Check(m.SettingsSchema, at)
		v.findings = append(v.findings, findings...)
		if _, err := safeschema.Compile(m.SettingsSchema); findings == nil && err != nil {
			v.invalid(at, "schema", nil)
		}
	}
	for i, c := range m.Connectors {
		v.connector(c, fmt.Sprintf("/connectors/%d", i))
	}
	entrypoints := map[string]bool{}
	background := 0
	for i, c := range m.Capabilities {
		if v.capability(c, fmt.Sprintf("/capabilities/%d", i), sources, entrypoints) {
			background++
		}
	}
	if background > capability.MaxBackground {
		v.invalid("/capabilities", "too_many_background", outcome.Params{"limit": capability.MaxBackground, "observed": background})
	}
	// One to one: no file is nobody's.
	for _, path := range sources {
		if !entrypoints[path] && !v.hidden {
			v.invalid("/capabilities", "source_without_capability", outcome.Params{"file": path})
		}
	}
	for i, c := range m.SlashCommands {
		at := fmt.Sprintf("/slash_commands/%d", i)
		v.called(c.Capability, at+"/capability", capability.Tool, capability.Skill)
		v.typed(c.ArgumentTemplate, c.Capability, at+"/argument_template")
	}
	if m.UI != nil {
		v.ui(*m.UI)
	}
}

// typed reads the template of a slash command. What a person typed is its query, and
// there is no other argument; its members are arguments of the capability.
func (v *validator) typed(text canon.Raw, id, at string) {
	v.partial(text, id, at)
	if text == nil {
		return
	}
	value, findings := template.ParseValue(text, at)
	v.findings = append(v.findings, findings...)
	for _, name := range value.Names() {
		if name != "query" {
			v.findings.Add(outcome.ReferenceUnknown, at, outcome.Params{"kind": "argument", "argument": name})
		}
	}
}

// permissions holds a list to the package's own, and to be a set.
func (v *validator) permissions(at string, list, of []capability.Permission) {
	seen := map[capability.Permission]bool{}
	for i, p := range list {
		here := fmt.Sprintf("%s/%d", at, i)
		if seen[p] {
			v.invalid(here, "unique", nil)
		}
		seen[p] = true
		if of != nil && !slices.Contains(of, p) && slices.Contains(p.Enum(), string(p)) {
			v.invalid(here, "permission_of_package", outcome.Params{"permission": string(p)})
		}
	}
}

// url reads a URL, and reports the rule that it breaks.
func (v *validator) url(text, at string) *url.URL {
	if text == "" {
		return nil // it could not be read
	}
	if strings.ContainsAny(text, "{}") {
		v.invalid(at, "url_template", nil) // nothing is ever put into a URL but by request_params
		return nil
	}
	u, err := v.checkURL(text)
	if err != nil {
		rule := "url"
		if refused, ok := err.(*outbound.URLError); ok {
			rule = "url_" + string(refused.Rule)
		}
		v.invalid(at, rule, nil)
		return nil
	}
	return u
}

func (v *validator) connector(c capability.Connector, at string) {
	if base := v.url(c.BaseURL, at+"/base_url"); base != nil && base.RawQuery != "" {
		v.invalid(at+"/base_url", "no_query", nil)
	}
	if c.Path != "" {
		p, err := url.Parse(c.Path)
		if strings.ContainsAny(c.Path, "{}") {
			v.invalid(at+"/path", "url_template", nil)
		} else if err != nil || !strings.HasPrefix(c.Path, "/") || strings.HasPrefix(c.Path, "//") || p.IsAbs() || p.Host != "" || p.Fragment != "" || strings.ContainsFunc(c.Path, func(r rune) bool { return r <= ' ' || r == '\\' }) {
			v.invalid(at+"/path", "path", nil)
		}
	}
	a := c.Auth
	v.url(a.TokenURL, at+"/auth/token_url")
	v.url(a.AuthorizationURL, at+"/auth/authorization_url")
	if a.Kind == "oauth2" && (a.Grant == "authorization_code") != (a.AuthorizationURL != "") && a.Grant != "" {
		v.invalid(at+"/auth/authorization_url", "of_authorization_code", nil)
	}
	if c.Retry != nil {
		seen := map[capability.RetryOn]bool{}
		for i, on := range c.Retry.On {
			if seen[on] && on != "" {
				v.invalid(fmt.Sprintf("%s/retry/on/%d", at, i), "unique", nil)
			}
			seen[on] = true
		}
	}
}

// capability checks one, and tells whether it is started by the clock.
func (v *validator) capability(c capability.Capability, at string, sources []string, entrypoints map[string]bool) (background bool) {
	of := v.m.Permissions
	switch {
	case v.unread("/permissions", ""):
		of = nil
	case of == nil:
		of = []capability.Permission{}
	}
	v.permissions(at+"/permissions", c.Permissions, of)
	for name, text := range map[string]canon.Raw{"input_schema": c.InputSchema, "output_schema": c.OutputSchema} {
		if text == nil {
			continue
		}
		if findings := safeschema.Check(text, at+"/"+name); findings != nil {
			v.findings = append(v.findings, findings...)
			continue
		}
		if compiled, err := safeschema.Compile(text); err == nil && name == "input_schema" {
			v.arguments[c.ID] = compiled
		} else if err == nil {
			v.schemas[c.ID] = compiled
		} else {
			v.invalid(at+"/"+name, "schema", nil)
		}
	}
	if c.Runtime == nil {
		v.hidden = true
		return false // its absence is a finding already
	}
	r, findings := capability.ReadRuntime(c.Runtime, at+"/runtime")
	v.findings = append(v.findings, findings...)
	v.hidden = v.hidden || findings != nil && r.Adapter == "" || v.told(at+"/runtime/entrypoint")
	switch {
	case r.Adapter == "" && c.Kind != capability.Provider && findings == nil:
		v.invalid(at+"/runtime/adapter", "adapter_of_"+string(c.Kind), nil)
	case c.Kind == capability.Provider && r.Role == "" && findings == nil:
		v.invalid(at+"/runtime/role", "role_of_provider", nil)
	case c.Kind != capability.Provider && r.Role != "":
		v.invalid(at+"/runtime/role", "of_provider", nil)
	}
	if r.Background != nil {
		if r.Adapter == "" {
			v.invalid(at+"/runtime/background", "needs_adapter", nil)
		}
		v.constant(r.Background.Arguments, c.ID, at+"/runtime/background/arguments")
	}
	v.runtime(c, r, at+"/runtime", sources, entrypoints)
	return r.Background != nil
}

// need reports a permission that a capability must ask for.
func (v *validator) need(c capability.Capability, p capability.Permission, at string) {
	if !slices.Contains(c.Permissions, p) {
		v.invalid(at, "needs_permission", outcome.Params{"permission": string(p)})
	}
}

func (v *validator) runtime(c capability.Capability, r capability.Runtime, at string, sources []string, entrypoints map[string]bool) {
	switch {
	case r.TextTemplate != nil:
		t, err := template.Parse(r.TextTemplate.Template)
		if err != nil {
			v.invalid(at+"/template", "placeholder", nil)
		}
		v.names(t.Names(), c.ID, at+"/template")
	case r.CalendarStore != nil:
		v.need(c, capability.Storage, at+"/operation")
		if op := r.CalendarStore.Operation; op == "reminder" || op == "cancel_reminder" {
			v.need(c, capability.Notifications, at+"/operation")
		}
		// Without these arguments the operation could never be called.
		v.names(map[string][]string{"save": {"at"}, "get": {"itemId"}, "delete": {"itemId"}, "cancel_reminder": {"itemId"}}[r.CalendarStore.Operation], c.ID, at+"/operation")
	case r.HTTPJSON != nil:
		v.httpJSON(c, *r.HTTPJSON, at)
	case r.MCPHTTP != nil:
		v.need(c, capability.Network, at+"/adapter")
		v.connected(c, r.MCPHTTP.ConnectorID, capability.MCP, at)
		v.template(r.MCPHTTP.ArgumentTemplate, c.ID, at+"/argument_template")
	case r.SandboxPython != nil:
		path := r.SandboxPython.Entrypoint
		switch {
		case v.told(at + "/entrypoint"):
		case entrypoints[path]:
			v.invalid(at+"/entrypoint", "unique", nil)
		case !slices.Contains(sources, path):
			v.findings.Add(outcome.ReferenceUnknown, at+"/entrypoint", outcome.Params{"kind": "file"})
		}
		entrypoints[path] = true
		if len(r.SandboxPython.Reads) > 0 {
			v.need(c, capability.Storage, at+"/reads")
		}
		unique(v, at+"/reads", "namespace", r.SandboxPython.Reads, func(q capability.Read) string { return q.Namespace })
	}
}

// connected finds a connector that speaks a protocol.
func (v *validator) connected(c capability.Capability, id string, speaks capability.Protocol, at string) *capability.Connector {
	i := slices.IndexFunc(v.m.Connectors, func(one capability.Connector) bool { return one.ConnectorID == id })
	if i < 0 {
		v.unknown(at+"/connector_id", "connector")
		return nil
	}
	found := &v.m.Connectors[i]
	if found.Speaks() != speaks {
		v.invalid(at+"/connector_id", "protocol", outcome.Params{"expected": string(speaks)})
	}
	if found.Auth.Kind == "bearer" || found.Auth.Kind == "oauth2" {
		v.need(c, capability.Credentials, at+"/connector_id")
	}
	return found
}

func (v *validator) httpJSON(c capability.Capability, r capability.HTTPJSONRuntime, at string) {
	v.need(c, capability.Network, at+"/adapter")
	endpoint := v.url(r.Endpoint, at+"/endpoint")
	if r.ConnectorID != "" {
		found := v.connected(c, r.ConnectorID, capability.HTTP, at)
		// A token goes to the connector's own origin and nowhere else.
		if found != nil && endpoint != nil {
			if base, err := v.checkURL(found.BaseURL); err == nil && !strings.EqualFold(base.Hostname(), endpoint.Hostname()) {
				v.invalid(at+"/endpoint", "origin_of_connector", nil)
			}
		}
	} else if r.Endpoint == "" {
		v.invalid(at+"/endpoint", "endpoint_or_connector", nil)
	}
	p, findings := template.ParseParams(r.RequestParams, at+"/request_params")
	v.findings = append(v.findings, findings...)
	if r.RequestParams == nil && r.Method == "GET" {
		// template.Query takes the argument query.
		if s := v.arguments[c.ID]; s != nil && !s.Has([]string{"query"}) {
			v.invalid(at+"/request_params", "no_argument_query", nil)
		}
	} else {
		v.names(p.Names(), c.ID, at+"/request_params")
	}
	if r.RequestBody != nil {
		if r.Method == "GET" {
			v.invalid(at+"/request_body", "of_post", nil)
		}
		v.template(r.RequestBody, c.ID, at+"/request_body")
	}
	_, findings = response.Parse(r.Response, at+"/response")
	for _, f := range findings {
		if !v.told(f.Path) {
			v.findings = append(v.findings, f)
		}
	}
}

// names holds the arguments that a template names to the schema of the arguments, where
// there is one.
func (v *validator) names(names []string, id, at string) {
	s := v.arguments[id]
	if s == nil {
		return
	}
	for _, name := range names {
		if !s.Has([]string{name}) {
			v.findings.Add(outcome.ReferenceUnknown, at, outcome.Params{"kind": "argument", "argument": name})
		}
	}
}

// template reads a JSON template whose arguments are those of a capability.
func (v *validator) template(text canon.Raw, id, at string) {
	if text == nil {
		return
	}
	value, findings := template.ParseValue(text, at)
	v.findings = append(v.findings, findings...)
	v.names(value.Names(), id, at)
	if strings.HasSuffix(at, "/argument_template") && findings == nil && !value.IsObject() {
		v.invalid(at, "type", outcome.Params{"expected": "object"})
	}
}

// constant holds arguments that a package itself gives to the schema of a capability.
func (v *validator) constant(text canon.Raw, id, at string) {
	if text == nil {
		text = canon.Raw(`{}`)
	}
	if text.Kind() != '{' {
		v.invalid(at, "type", outcome.Params{"expected": "object"})
		return
	}
	s := v.arguments[id]
	if s == nil {
		return
	}
	violations, err := s.Validate(text)
	if err != nil {
		v.invalid(at, "json", nil)
	}
	for _, one := range violations {
		params := outcome.Params{"rule": one.Keyword}
		if one.Names != nil {
			params["names"] = one.Names
		}
		v.findings.Add(outcome.SchemaInvalid, at+one.Path, params)
	}
}

// called finds a capability that something of the package calls.
func (v *validator) called(id, at string, kinds ...capability.CapabilityKind) {
	if id == "" {
		return // it could not be read
	}
	i := slices.IndexFunc(v.m.Capabilities, func(c capability.Capability) bool { return c.ID == id })
	switch {
	case i < 0:
		v.unknown(at, "capability")
	case len(kinds) > 0 && v.m.Capabilities[i].Kind != "" && !slices.Contains(kinds, v.m.Capabilities[i].Kind):
		v.invalid(at, "kind", outcome.Params{"expected": kinds})
	}
}

func (v *validator) ui(ui capability.UI) {
	unique(v, "/ui/data_sources", "id", ui.DataSources, func(d capability.DataSource) string { return d.ID })
	unique(v, "/ui/invokes", "id", ui.Invokes, func(i capability.Invoke) string { return i.ID })
	unique(v, "/ui/bindings", "id", ui.Bindings, func(b capability.UIBinding) string { return b.ID })
	of := map[string]string{}
	for i, d := range ui.DataSources {
		at := fmt.Sprintf("/ui/data_sources/%d", i)
		v.called(d.Capability, at+"/capability")
		v.constant(d.Arguments, d.Capability, at+"/arguments")
		of[d.ID] = d.Capability
	}
	for i, call := range ui.Invokes {
		at := fmt.Sprintf("/ui/invokes/%d", i)
		v.called(call.Capability, at+"/capability")
		v.partial(call.Arguments, call.Capability, at+"/arguments")
		// A label is for people (C2).
		for _, c := range v.m.Capabilities {
			if call.Label == c.ID && c.ID != "" {
				v.invalid(at+"/label", "label_is_id", nil)
			}
		}
	}
	for i, b := range ui.Bindings {
		at := fmt.Sprintf("/ui/bindings/%d/path", i)
		parts := strings.Split(b.Path, ".")
		if b.Path == "" {
			continue // it could not be read
		}
		if len(parts) < 3 || parts[0] != "data" || parts[2] != "data" && parts[2] != "summary" && parts[2] != "evidence" || slices.Contains(parts, "") || parts[2] == "summary" && len(parts) > 3 {
			v.invalid(at, "binding_path", nil)
			continue
		}
		source, there := of[parts[1]]
		if !there {
			v.unknown(at, "data_source")
			continue
		}
		if s := v.schemas[source]; s != nil && parts[2] == "data" && !s.Has(parts[3:]) {
			v.findings.Add(outcome.ReferenceUnknown, at, outcome.Params{"kind": "data"})
		}
	}
}

// partial holds arguments to which a person adds others: each that is there must be
// one.
func (v *validator) partial(text canon.Raw, id, at string) {
	if text == nil {
		return
	}
	var members map[string]canon.Raw
	if text.Kind() != '{' || json.Unmarshal(text, &members) != nil {
		v.invalid(at, "type", outcome.Params{"expected": "object"})
		return
	}
	v.names(slices.Sorted(maps.Keys(members)), id, at)
}
