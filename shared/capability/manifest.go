package capability

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// A Manifest is manifest.json of a package, as its developer wrote it.
type Manifest struct {
	PluginKey   string `json:"pluginKey" schema:"pattern=dotted,maxLength=130"`
	Version     string `json:"version" pattern:"^(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})$"`
	Title       string `json:"title" schema:"minLength=1,maxLength=200,text=line"`
	Description string `json:"description,omitzero" schema:"maxLength=2000,text=prose"`
	// Permissions are all that any capability of the package may ask for.
	Permissions    []Permission   `json:"permissions,omitzero" schema:"maxItems=16"`
	Capabilities   []Capability   `json:"capabilities" schema:"minItems=1,maxItems=100"`
	Connectors     []Connector    `json:"connectors,omitzero" schema:"maxItems=20"`
	SlashCommands  []SlashCommand `json:"slash_commands,omitzero" schema:"maxItems=50"`
	UI             *UI            `json:"ui,omitzero"`
	Dependencies   []Dependency   `json:"dependencies,omitzero" schema:"maxItems=20"`
	SettingsSchema canon.Raw      `json:"settings_schema,omitzero"` // of the settings of an instance
}

// A Permission is something that a workspace grants to an instance.
type Permission string

// The permissions.
const (
	Network       Permission = "network"       // to call public hosts
	Credentials   Permission = "credentials"   // to have the Host add the secret of a Connection
	Storage       Permission = "storage"       // to read and change the instance's storage
	Notifications Permission = "notifications" // to schedule what a person is told
)

// Enum lists the permissions for package schema.
func (Permission) Enum() []string {
	return []string{string(Network), string(Credentials), string(Storage), string(Notifications)}
}

// A CapabilityKind says who looks for a capability.
type CapabilityKind string

// The kinds. A tool or a skill needs an adapter; a provider needs a role.
const (
	Tool     CapabilityKind = "tool"
	Skill    CapabilityKind = "skill"
	Provider CapabilityKind = "provider"
)

// Enum lists the kinds for package schema.
func (CapabilityKind) Enum() []string {
	return []string{string(Tool), string(Skill), string(Provider)}
}

// A Capability is one thing that a user can have done.
type Capability struct {
	ID          string         `json:"id" schema:"pattern=dotted,maxLength=200"`
	Kind        CapabilityKind `json:"kind"`
	Title       string         `json:"title" schema:"minLength=1,maxLength=200,text=line"`
	Description string         `json:"description" schema:"minLength=1,maxLength=4000,text=prose"`
	Permissions []Permission   `json:"permissions" schema:"maxItems=16"`
	// TimeoutSeconds bounds one execution, from its beginning to its end; where a queue
	// does its work, the work itself, once somebody has begun it.
	TimeoutSeconds int `json:"timeout_seconds" schema:"minimum=1,maximum=300"`
	// The schemas are of the arguments and of the result's data; without one nothing is
	// asked of them but that they are objects.
	InputSchema  canon.Raw `json:"input_schema,omitzero"`
	OutputSchema canon.Raw `json:"output_schema,omitzero"`
	Runtime      canon.Raw `json:"runtime"` // a Runtime, by its member "adapter"
}

// A Connector is a service outside and how it is reached.
type Connector struct {
	ConnectorID string   `json:"connector_id" schema:"pattern=key"`
	Title       string   `json:"title,omitzero" schema:"maxLength=200,text=line"`
	BaseURL     string   `json:"base_url" schema:"minLength=1,maxLength=2000"`
	Path        string   `json:"path,omitzero" schema:"maxLength=2000"`
	Protocol    Protocol `json:"protocol,omitzero"` // "" is http
	Auth        Auth     `json:"auth"`
	Retry       *Retry   `json:"retry,omitzero"` // none: nothing is tried twice
}

// Destination says where a credential of the connector may go, and how it is got: the
// origin of the service, and the URLs of OAuth. A Connection is made for one, and of no
// use for another: an update of a plugin that names another host does not take what
// people gave for the old one with it.
func (c Connector) Destination() string {
	origin := c.BaseURL
	if u, err := url.Parse(c.BaseURL); err == nil {
		origin = strings.TrimSuffix(strings.ToLower(u.Scheme+"://"+u.Host), ":443")
	}
	return canon.Ref("to_", origin, c.Auth.Kind, c.Auth.Grant, c.Auth.TokenURL, c.Auth.AuthorizationURL)
}

// A Protocol is what a connector's service speaks.
type Protocol string

// The protocols.
const (
	HTTP Protocol = "http"
	MCP  Protocol = "mcp"
)

// Enum lists the protocols for package schema.
func (Protocol) Enum() []string { return []string{string(HTTP), string(MCP)} }

// Speaks is the connector's protocol.
func (c Connector) Speaks() Protocol {
	if c.Protocol == "" {
		return HTTP
	}
	return c.Protocol
}

// An Auth says which credential a connector needs. The credential itself is a
// Connection and never in a package.
type Auth struct {
	Kind string `json:"kind" schema:"enum=none|bearer|oauth2"`
	// Of oauth2.
	Grant            string   `json:"grant,omitzero" kinds:"oauth2!" schema:"enum=client_credentials|authorization_code"`
	TokenURL         string   `json:"token_url,omitzero" kinds:"oauth2!" schema:"minLength=1,maxLength=2000"`
	AuthorizationURL string   `json:"authorization_url,omitzero" kinds:"oauth2" schema:"minLength=1,maxLength=2000"`
	Scopes           []string `json:"scopes,omitzero" kinds:"oauth2" schema:"maxItems=50,each.minLength=1,each.maxLength=200"`
}

// A Retry is a connector's bounded policy, the only one by which anything is tried
// again (C6). It never covers a call whose effect may have happened (A9).
type Retry struct {
	MaxAttempts int `json:"max_attempts" schema:"minimum=1,maximum=5"`
	// On are the failures that are tried again: network is one before anything was
	// written, a number is a status.
	On        []RetryOn `json:"on" schema:"minItems=1,maxItems=5"`
	BackoffMs int       `json:"backoff_ms" schema:"minimum=0,maximum=60000"` // before the second attempt; doubles
}

// A RetryOn is what may be tried again: "network" or a status, which developers write
// as a number.
type RetryOn string

// What may be tried again.
const (
	OnNetwork RetryOn = "network"
	On429     RetryOn = "429"
	On502     RetryOn = "502"
	On503     RetryOn = "503"
	On504     RetryOn = "504"
)

var retryOn = []RetryOn{OnNetwork, On429, On502, On503, On504}

// JSONSchema states what developers write.
func (RetryOn) JSONSchema() string { return `{"enum":["network",429,502,503,504]}` }

// ReadJSON reads it.
func (r *RetryOn) ReadJSON(text canon.Raw, found *schema.Report) {
	on := RetryOn(strings.Trim(string(text), `"`))
	if (text.Kind() == '"') != (on == OnNetwork) || !slices.Contains(retryOn, on) {
		found.Invalid("enum", nil)
		return
	}
	*r = on
}

// MarshalJSON writes it as developers do.
func (r RetryOn) MarshalJSON() ([]byte, error) {
	if r == OnNetwork {
		return []byte(`"network"`), nil
	}
	return []byte(r), nil
}

// UnmarshalJSON reads what MarshalJSON writes: a manifest that was judged when it came in
// is read again each time it is used.
func (r *RetryOn) UnmarshalJSON(text []byte) error {
	on := RetryOn(strings.Trim(string(text), `"`))
	if (text[0] == '"') != (on == OnNetwork) || !slices.Contains(retryOn, on) {
		return errors.New("capability: it is nothing that is tried again")
	}
	*r = on
	return nil
}

// FoldCommand makes one form of the ways in which a command can be typed.
func FoldCommand(command string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(command)))
}

// A SlashCommand is a fixed way to a tool or skill of the same package.
type SlashCommand struct {
	ID          string `json:"id" schema:"pattern=dotted,maxLength=200"`
	Command     string `json:"command" pattern:"^[\\p{L}\\p{N}][\\p{L}\\p{N}_-]{0,31}$"` // without the slash
	Title       string `json:"title" schema:"minLength=1,maxLength=200,text=line"`
	Description string `json:"description" schema:"minLength=1,maxLength=2000,text=prose"`
	Capability  string `json:"capability" schema:"pattern=dotted,maxLength=200"`
	// ArgumentTemplate is merged into the arguments; {query} is what follows the command.
	ArgumentTemplate canon.Raw `json:"argument_template,omitzero"`
}

// A UI says what an extension's screen shows and calls, each bound to a capability.
type UI struct {
	DataSources []DataSource `json:"data_sources,omitzero" schema:"maxItems=50"`
	Invokes     []Invoke     `json:"invokes,omitzero" schema:"maxItems=50"`
	Bindings    []UIBinding  `json:"bindings,omitzero" schema:"maxItems=500"`
}

// A DataSource is a capability whose result a screen shows as data.<id>.
type DataSource struct {
	ID         string    `json:"id" schema:"pattern=key"`
	Capability string    `json:"capability" schema:"pattern=dotted,maxLength=200"`
	Arguments  canon.Raw `json:"arguments,omitzero"`
}

// An Invoke is a button. Its label is what people see, never the ID (C2).
type Invoke struct {
	ID         string    `json:"id" schema:"pattern=key"`
	Label      string    `json:"label" schema:"minLength=1,maxLength=200,text=line"`
	Capability string    `json:"capability" schema:"pattern=dotted,maxLength=200"`
	Arguments  canon.Raw `json:"arguments,omitzero"`
}

// A UIBinding is a place of a screen that shows data.<source>.data.… .
type UIBinding struct {
	ID   string `json:"id" schema:"pattern=key"`
	Path string `json:"path" schema:"minLength=1,maxLength=1000"`
}

// A Dependency is another plugin that must be installed, enabled and of a version from
// Minimum to below the next major one.
type Dependency struct {
	PluginKey string `json:"pluginKey" schema:"pattern=dotted,maxLength=130"`
	Minimum   string `json:"minimum" pattern:"^(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})$"`
}
