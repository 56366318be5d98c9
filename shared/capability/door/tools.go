package door

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the entries of the tools beside the capabilities
	"encoding/base32"
	"encoding/base64"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// ToolsKey is the route by which ordinary MCP clients have an actor's capabilities as
// tools. The workspace stands in the query, as of every other catalog.
const ToolsKey = "ANY " + gateway.CapabilitiesPath

// toolsInstructions tell a model how the tools belong together.
const toolsInstructions = `The tools that end in _ and twelve characters are what the plugins of one workspace can do for you; what one needs and gives is its developer's word. ` +
	`Each answer is an envelope: data.result.data is what the plugin gave, and data.failure has a code and a suggestedAction. ` +
	`A state other than succeeded, failed, cancelled or outcome_unknown means that it is still at work: ask execution_get with data.executionId, or stop it with execution_cancel. ` +
	`outcome_unknown means that the effect may have happened: do not call again before somebody has looked. After any other failure a new call is a new attempt; under the same px/idempotencyKey a call keeps the outcome that it had. ` +
	`An answer that is cut says so in truncation: go on with execution_get, data.executionId and that cursor. validate judges a plugin package and stores nothing.`

// The tools beside the capabilities. Their names cannot be those of capabilities, which
// have a hash behind them.
var (
	getTool = tool.Define[executionInput, Execution](tool.Spec{
		Name:        "execution_get",
		Description: "Tells what became of a call of a plugin's tool: its state, its result or its failure. Choose it when a call answered that it is still at work, or to go on with an answer that was cut (executionId and the cursor of its truncation). It calls nothing.",
		Annotations: tool.Reads,
		Places:      resultPlaces,
	})
	cancelTool = tool.Define[executionInput, Execution](tool.Spec{
		Name:        "execution_cancel",
		Description: "Stops a call of a plugin's tool that is still at work. One that is over stays as it is. What was sent already is not taken back.",
		Annotations: tool.Writes,
		Places:      resultPlaces,
	})
	validateTool = tool.Define[validateInput, Judgement](tool.Spec{
		Name:        "validate",
		Description: "Judges a plugin package as the installation would, with every finding and its place, and stores nothing. Give the files as texts by path, manifest.json among them, or a zip in base64. Choose it while you write a plugin.",
		Annotations: tool.Reads,
	})
	// callTool is how a capability is called; a client sees it under the capability's name.
	callTool = tool.Define[callInput, accepted](tool.Spec{Name: "capability", Description: "Calls a capability."})
)

type (
	// callInput is a call, made here of what the client sends.
	callInput struct {
		tool.Common
		InstanceID   string    `json:"instanceId"`
		CapabilityID string    `json:"capabilityId"`
		Arguments    canon.Raw `json:"arguments"`
		Key          string    `json:"key"`
	}
	accepted struct {
		ExecutionID string `json:"executionId"`
	}
)

// Beside are the tools beside the capabilities, in the order of their names.
func Beside() []tool.Defined { return []tool.Defined{cancelTool, getTool, validateTool} }

//go:generate go run ./generate
//go:embed tools.json
var besideJSON []byte

// beside are their entries.
var beside = sync.OnceValue(func() []entry {
	var list []jsontext.Value
	if err := json.Unmarshal(besideJSON, &list); err != nil || len(list) != len(Beside()) {
		panic("door: tools.json is not what go generate writes")
	}
	out := make([]entry, len(list))
	for i, d := range Beside() {
		out[i] = entry{d.Spec().Name, list[i]}
	}
	return out
})

// An entry is one tool of tools/list.
type entry struct {
	name string
	text jsontext.Value
}

// tools serves the endpoint of ordinary MCP clients.
type tools struct {
	Host
	frame    tool.Frame
	handlers map[string]tool.Handler
}

// mcp adds the endpoint.
func (h Host) mcp(d *route.Door, verifier gateway.Verifier, frame tool.Frame) {
	t := &tools{Host: h, frame: frame}
	t.handlers = map[string]tool.Handler{
		"capability": callTool.Handler(frame, t.accept),
		"execution_get": getTool.Handler(frame, func(ctx context.Context, c tool.Call[executionInput]) (tool.Answer[Execution], error) {
			return h.tell(ctx, c.Principal.String(), c.Input.ExecutionID)
		}),
		"execution_cancel": cancelTool.Handler(frame, func(ctx context.Context, c tool.Call[executionInput]) (tool.Answer[Execution], error) {
			return h.cancel(ctx, c.Principal.String(), c.Input.ExecutionID)
		}),
		"validate": validateTool.Handler(frame, func(_ context.Context, c tool.Call[validateInput]) (tool.Answer[Judgement], error) {
			return h.validate(c.Input.Package)
		}),
	}
	standard, err := wire.NewStandard(nil, outcome.ContractVersion, toolsInstructions)
	if err != nil {
		panic(err) // made of constants
	}
	endpoint := &gateway.Ordinary{Path: gateway.CapabilitiesPath, Verifier: verifier, Standard: standard, Log: frame.Log, Origins: h.Origins, Tools: t.of}
	d.Handle(ToolsKey, endpoint.Answer)
}

// of are the tools of a request.
func (t *tools) of(in *event.Request) (wire.Toolset, *event.Response) {
	workspace := in.Query["workspaceKey"]
	if len(in.Query) != 1 || !target.ValidKey(workspace) {
		p := event.Problem(http.StatusBadRequest, "the URL needs ?workspaceKey= and nothing else in its query")
		return nil, &p
	}
	return toolset{t, workspace}, nil
}

// A toolset are the tools of one workspace.
type toolset struct {
	*tools
	workspace string
}

// errNoWorkspace refuses who may use nothing there.
const errNoWorkspace wire.Refusal = "the workspaceKey of the URL is of no workspace whose plugins you may use"

// Lasting is false: the next look sees every change (C3).
func (s toolset) Lasting() bool { return false }

// maxPage is how many bytes a page of the list takes before it ends. One entry is
// at most about 70 KiB.
const maxPage = 512 << 10

// Tools tells the tools in the order of their names, which is why a cursor is the name
// behind which a page begins: whatever is installed or removed meanwhile, no tool that
// stays is told twice or left out.
func (s toolset) Tools(ctx context.Context, caller wire.Caller, cursor *string) ([]byte, string, error) {
	w, member, err := s.read(ctx, caller)
	if err != nil {
		return nil, "", err
	}
	after := ""
	if cursor != nil {
		name, err := base64.RawURLEncoding.Strict().DecodeString(*cursor)
		if after = string(name); err != nil || !toolNames.MatchString(after) {
			return nil, "", wire.ErrNoCursor
		}
	}
	all := slices.Clone(beside())
	for _, c := range w.Catalog(member, caller.Principal.String()).Capabilities {
		if c.Params["reason"] == "no_adapter" { // it is there to be seen, and can never be called
			continue
		}
		text, err := toolOf(c)
		if err != nil {
			return nil, "", s.failed(ctx, err)
		}
		all = append(all, entry{toolName(c.InstanceID, c.CapabilityID), text})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	page := []byte("[")
	for i, e := range all {
		if e.name <= after {
			continue
		}
		if len(page) > 1 {
			page = append(page, ',')
		}
		page = append(page, e.text...)
		if len(page) > maxPage && i < len(all)-1 {
			return append(page, ']'), base64.RawURLEncoding.EncodeToString([]byte(e.name)), nil
		}
	}
	return append(page, ']'), "", nil
}

// read reads the workspace for who may use it.
func (s toolset) read(ctx context.Context, caller wire.Caller) (capability.Workspace, capability.Member, error) {
	member, err := s.Rows.Member(ctx, s.workspace, caller.Principal.String())
	if err != nil {
		return capability.Workspace{}, member, s.failed(ctx, err)
	}
	if installation.Permit(member, capability.Use) != nil {
		return capability.Workspace{}, member, errNoWorkspace
	}
	w, err := s.Workspaces.Read(ctx, s.workspace)
	if err != nil {
		return w, member, s.failed(ctx, err)
	}
	return w, member, nil
}

// failed is a failure before anything was called.
func (s toolset) failed(ctx context.Context, err error) error {
	s.frame.Log.ErrorContext(ctx, "failure", "route", ToolsKey, "cause", err)
	return &wire.Failure{Reason: wire.ReasonFailed, Retryable: true, Outcome: wire.Not, Cause: err}
}

// toolNames are the names that tools have here. What clients take is at most 64
// characters of these.
var (
	toolNames = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	notInName = regexp.MustCompile(`[^A-Za-z0-9_]`)
	hashText  = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

// toolName names a capability of an instance: by its ID, as far as it can stand in a
// name, and by a hash, since two plugins, or two instances of one, may have the same.
// It stays the same for as long as the instance has the capability.
func toolName(instanceID, capabilityID string) string {
	sum := sha256.Sum256([]byte(instanceID + "\x00" + capabilityID))
	name := notInName.ReplaceAllString(capabilityID, "_")
	return name[:min(len(name), 48)] + "_" + hashText.EncodeToString(sum[:])[:12]
}

// toolOf is the entry of a capability. Its answer is that of execution_get, and has no
// schema of its own here: with the plugin's, a client would refuse an answer that was cut.
func toolOf(c capability.Entry) (jsontext.Value, error) {
	type annotations struct {
		Title string `json:"title"`
		tool.Annotations
	}
	type meta struct {
		InstanceID   string `json:"px/instanceId"`
		CapabilityID string `json:"px/capabilityId"`
		Plugin       string `json:"px/plugin"`
		Ready        string `json:"px/ready"`
	}
	input, further, err := portable(jsontext.Value(c.InputSchema))
	if err != nil {
		return nil, err
	}
	description := c.Description + " (" + c.Plugin.Title + ")" + further
	if c.Ready != capability.Ready {
		description = "Not ready: " + c.Ready + " (" + outcome.New(outcome.Code(c.Ready), "", nil).SuggestedAction + "). " + description
	}
	network := slices.Contains(c.Permissions, capability.Network)
	text, err := json.Marshal(struct {
		Name        string         `json:"name"`
		Title       string         `json:"title"`
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"inputSchema"`
		Annotations annotations    `json:"annotations"`
		Meta        meta           `json:"_meta"`
	}{
		toolName(c.InstanceID, c.CapabilityID), c.Title, description, input,
		// What a plugin does is its developer's word: a client that asks before what may
		// destroy asks before this, unless the plugin can reach and keep nothing.
		annotations{c.Title, tool.Annotations{ReadOnlyHint: len(c.Permissions) == 0, DestructiveHint: len(c.Permissions) > 0, OpenWorldHint: network}},
		meta{c.InstanceID, c.CapabilityID, c.Plugin.PluginKey + " " + c.Plugin.Version, c.Ready},
	}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	out := jsontext.Value(text)
	return out, out.Compact() // a schema may stand on several lines
}

// maxFurther is how many bytes of rules that stand beside the schema are told to a model.
const maxFurther = 4 << 10

// portable makes of the schema of a capability one that clients take: their models'
// services refuse all tools of a request if the schema of one has alternatives at its
// root, or no properties. What is left out is told in words, and holds all the same: the
// Host judges the arguments by the whole.
func portable(whole jsontext.Value) (_ jsontext.Value, further string, _ error) {
	root := map[string]jsontext.Value{"type": jsontext.Value(`"object"`)}
	if len(whole) > 0 {
		if err := json.Unmarshal(whole, &root); err != nil {
			return nil, "", err
		}
	}
	if _, has := root["properties"]; !has {
		root["properties"] = jsontext.Value(`{}`)
	}
	rules := map[string]jsontext.Value{}
	for _, name := range []string{"anyOf", "oneOf", "enum"} {
		if rule, has := root[name]; has {
			rules[name] = rule
			delete(root, name)
		}
	}
	if len(rules) > 0 {
		text, err := json.Marshal(rules, json.Deterministic(true))
		if err != nil {
			return nil, "", err
		}
		if err := (*jsontext.Value)(&text).Compact(); err != nil {
			return nil, "", err
		}
		if further = " The arguments must also fit this JSON Schema: " + string(text); len(text) > maxFurther {
			further = " The arguments have further rules, which are too long to be told here."
		}
	}
	out, err := json.Marshal(root, json.Deterministic(true))
	return out, further, err
}

// Call calls a tool.
func (s toolset) Call(ctx context.Context, caller wire.Caller, q wire.ToolCall) (wire.ToolAnswer, error) {
	request := tool.Request{Version: tool.RequestVersion, RequestID: caller.RequestID, Tool: q.Name, Principal: caller.Principal, Arguments: q.Arguments, Assistant: q.Assistant, ByteShare: q.Bytes}
	if handler, ok := s.handlers[q.Name]; ok && q.Name != callTool.Spec().Name {
		envelope, err := handler(ctx, request)
		if err != nil {
			return wire.ToolAnswer{}, failureOf(err, true)
		}
		return wire.ToolAnswer{Envelope: jsontext.Value(envelope), IsError: !succeeded(envelope)}, nil
	}
	w, _, err := s.read(ctx, caller)
	if err != nil {
		return wire.ToolAnswer{}, err
	}
	input, ok := s.find(w, caller, q.Name)
	if !ok {
		return wire.ToolAnswer{}, wire.ErrNoTool
	}
	// Without a name of the caller's own, the same call again is another one, and what is
	// not known to have been done must not be sent again unasked.
	again := q.Key != ""
	if input.Arguments, input.Key = canon.Raw(q.Arguments), q.Key; !again {
		input.Key = "mcp_" + rand.Text()
	}
	request.Tool = callTool.Spec().Name
	if request.Arguments, err = json.Marshal(input); err != nil {
		return wire.ToolAnswer{}, s.failed(ctx, err)
	}
	envelope, err := s.handlers[request.Tool](ctx, request)
	if err != nil {
		return wire.ToolAnswer{}, failureOf(err, again)
	}
	if !succeeded(envelope) {
		if envelope, err = ofArguments(envelope); err != nil {
			return wire.ToolAnswer{}, failureOf(err, again)
		}
		return wire.ToolAnswer{Envelope: jsontext.Value(envelope), IsError: true}, nil
	}
	var taken struct {
		Data accepted `json:"data"`
	}
	if err := json.Unmarshal(envelope, &taken); err != nil {
		return wire.ToolAnswer{}, failureOf(err, again)
	}
	// What became of it is told as execution_get tells it, so that a cut answer goes on
	// there.
	request.Tool = getTool.Spec().Name
	if request.Arguments, err = json.Marshal(taken.Data); err != nil {
		return wire.ToolAnswer{}, failureOf(err, again)
	}
	if envelope, err = s.handlers[request.Tool](ctx, request); err != nil {
		return wire.ToolAnswer{}, failureOf(err, again)
	}
	failed := route.Told(envelope).Member("failure", new(jsontext.Value))
	return wire.ToolAnswer{Envelope: jsontext.Value(envelope), IsError: !succeeded(envelope) || failed}, nil
}

// ofArguments has the paths of a refusal begin at the arguments, which are the whole of what
// the client sent.
func ofArguments(envelope []byte) ([]byte, error) {
	var e outcome.Envelope
	if err := json.Unmarshal(envelope, &e); err != nil {
		return nil, err
	}
	for i, d := range e.Diagnostics {
		if rest, ok := strings.CutPrefix(d.Path, "/arguments"); ok && (rest == "" || rest[0] == '/') {
			e.Diagnostics[i].Path = rest
		}
	}
	return json.Marshal(e, json.Deterministic(true))
}

// find finds the capability of a name among all that are installed for the actor, what is
// switched off included: its call is refused by its own code.
func (s toolset) find(w capability.Workspace, caller wire.Caller, name string) (callInput, bool) {
	actor := caller.Principal.String()
	for _, i := range w.Installed {
		if i.Instance.Removed || !i.Instance.For(actor) {
			continue
		}
		for _, c := range i.Manifest.Capabilities {
			if toolName(i.Instance.InstanceID, c.ID) == name {
				return callInput{InstanceID: i.Instance.InstanceID, CapabilityID: c.ID}, true
			}
		}
	}
	return callInput{}, false
}

// accept accepts a call and waits for it.
func (t *tools) accept(ctx context.Context, c tool.Call[callInput]) (tool.Answer[accepted], error) {
	in := c.Input
	e, err := t.Executions.Accept(ctx, execution.Request{
		Actor: c.Principal.String(), InstanceID: in.InstanceID, CapabilityID: in.CapabilityID, Arguments: in.Arguments, Surface: "ai", Key: in.Key,
	})
	if err != nil {
		// The arguments are the whole of what the client sent; its key stands beside them.
		answer, err := refused[accepted](err, "")
		for i := range answer.Diagnostics {
			if answer.Diagnostics[i].Code == outcome.CommandReused {
				answer.Diagnostics[i].Path = "/_meta/px~1idempotencyKey"
			}
		}
		return answer, err
	}
	if e, err = t.Executions.Wait(ctx, e); err != nil {
		return tool.Answer[accepted]{}, err
	}
	return tool.Answer[accepted]{Data: accepted{e.ExecutionID}, Pin: e.ExecutionID}, nil
}

// failureOf makes a failure of the wire of one of the machinery. again is whether the same
// request again does nothing twice.
func failureOf(err error, again bool) error {
	var f *tool.Failure
	retryable := errors.As(err, &f) && f.Type == tool.RetryableErrorType
	return &wire.Failure{Reason: wire.ReasonFailed, Retryable: retryable && again, Outcome: wire.Unknown, Cause: err}
}

// succeeded reports whether an envelope is of a success.
func succeeded(envelope []byte) bool { return strings.HasPrefix(string(envelope), `{"ok":true,`) }
