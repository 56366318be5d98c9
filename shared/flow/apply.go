package flow

import (
	"maps"
	"strconv"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Written are the semantic paths at which, or above which, commands write; "*" stands
// for a key. What a rule of a policy is to fit names one of them, or a path above or
// below one.
var Written = []string{"/label", "/inputs/*", "/results/*/binding", "/nodes/*/target", "/nodes/*/settings/*", "/nodes/*/inputBindings/*"}

// Apply carries out the commands in order. base is nil when the Flow does not
// exist yet, and then the one command is CreateFlow.
//
// touched are the semantic paths that the commands write, in order and without
// a path below another: a Node that is added or removed stands for all in it.
// A path that is set to what it was before is touched all the same, since the
// plan says what it shall be.
//
// The sourceDigest of an SDK-linked Flow stays as it was in base: which source the
// result has is found out by package source, and settled by Propose.
//
// A command whose precondition does not hold is a finding with its index in the
// path (/commands/2/nodeKey). It is left out and the ones after it are tried, so
// that the findings are all there are; the document is then of no use. Findings
// about the whole document are Validate's.
func Apply(base *Document, commands []Command) (next Document, touched []string, findings outcome.Findings) {
	e := &editor{touched: map[string]bool{}}
	creates := len(commands) > 0 && isCreate(commands[0])
	switch {
	case len(commands) == 0:
		e.findings.Add(outcome.SchemaInvalid, "/commands", outcome.Params{"rule": "min_items", "limit": 1})
	case base == nil && !creates:
		e.findings.Add(outcome.TargetNotFound, "/target/flowKey", nil)
		return Document{}, nil, e.findings
	case base != nil && creates:
		e.findings.Add(outcome.FlowHeadAlreadyExists, "/target/flowKey", outcome.Params{"flowKey": base.FlowKey})
		return *base, nil, e.findings
	case creates && len(commands) > 1:
		e.findings.Add(outcome.SchemaInvalid, "/commands/1", outcome.Params{"rule": "single_command"})
		commands = commands[:1]
	}
	if base != nil {
		e.doc = base.clone()
	}
	for i, command := range commands {
		e.index = i
		command.normalized().apply(e)
	}
	if base != nil {
		e.tidy(base)
	}
	return e.doc, semantic.Outermost(e.touched), e.findings
}

func isCreate(c Command) bool {
	_, ok := c.(CreateFlow)
	return ok
}

// SourceDigest is the authoring.sourceDigest of a Python source: the digest of its
// bytes, and so the ref of the object that it is stored as.
func SourceDigest(source string) string { return canon.Digest([]byte(source)) }

// editor is a document in the middle of a list of commands.
type editor struct {
	doc      Document
	index    int // of the current command
	touched  map[string]bool
	findings outcome.Findings
}

// tidy gives labels, settings and bindings that ended up empty the form they had in
// base ({} or left out), or leaves them out if they were not empty there: what was
// set and taken away again leaves no trace in the digest.
func (e *editor) tidy(base *Document) {
	if len(e.doc.Label) == 0 {
		e.doc.Label = emptyLike(base.Label)
	}
	for key, node := range e.doc.Nodes {
		was := base.Nodes[key]
		if len(node.Settings) == 0 {
			node.Settings = emptyLike(was.Settings)
		}
		if len(node.InputBindings) == 0 {
			node.InputBindings = emptyLike(was.InputBindings)
		}
		e.doc.Nodes[key] = node
	}
}

func emptyLike[M ~map[string]V, V any](was M) M {
	if was != nil && len(was) == 0 {
		return was
	}
	return nil
}

// refuse adds a finding about a member of the current command.
func (e *editor) refuse(code outcome.Code, member string, params outcome.Params) {
	path := "/commands/" + strconv.Itoa(e.index)
	if member != "" {
		path += "/" + member
	}
	e.findings.Add(code, path, params)
}

// unknown refuses a key that names nothing.
func (e *editor) unknown(member, key string) {
	e.refuse(outcome.ReferenceUnknown, member, outcome.Params{member: key})
}

// taken refuses a key that is to be added and is there already.
func (e *editor) taken(member, key string) {
	e.refuse(outcome.SchemaInvalid, member, outcome.Params{"rule": "exists_already", member: key})
}

func (e *editor) touch(names ...string) { e.touched[semantic.Pointer(names...)] = true }

func (c CreateFlow) apply(e *editor) {
	if e.index > 0 {
		e.refuse(outcome.SchemaInvalid, "kind", outcome.Params{"rule": "single_command"})
		return
	}
	switch authoring := c.Document.Authoring; {
	case authoring.Kind == Native && c.Source != "":
		e.refuse(outcome.SchemaInvalid, "source", outcome.Params{"rule": "sdk_only"})
	case authoring.Kind == Native:
	case c.Source == "":
		e.refuse(outcome.SchemaInvalid, "source", outcome.Params{"rule": "required"})
	case authoring.SourceDigest != SourceDigest(c.Source):
		e.refuse(outcome.SourceParity, "document/authoring/sourceDigest", outcome.Params{"sourceDigest": SourceDigest(c.Source)})
	}
	e.doc = c.Document.clone()
	e.touch()
}

func (c SetFlowLabel) apply(e *editor) {
	e.doc.Label = c.Label
	e.touch("label")
}

func (c AddNode) apply(e *editor) {
	if _, ok := e.doc.Nodes[c.NodeKey]; ok {
		e.taken("nodeKey", c.NodeKey)
		return
	}
	e.doc.Nodes[c.NodeKey] = Node{Target: c.Target, Settings: c.Settings, InputBindings: c.InputBindings, Label: c.Label}
	e.touch("nodes", c.NodeKey)
}

func (c RemoveNode) apply(e *editor) {
	if _, ok := e.node(c.NodeKey); !ok {
		return
	}
	delete(e.doc.Nodes, c.NodeKey)
	e.touch("nodes", c.NodeKey)
}

// node returns the Node, or refuses the command.
func (e *editor) node(key string) (Node, bool) {
	node, ok := e.doc.Nodes[key]
	if !ok {
		e.unknown("nodeKey", key)
	}
	return node, ok
}

func (c ReplaceNodeTarget) apply(e *editor) {
	node, ok := e.node(c.NodeKey)
	if !ok {
		return
	}
	node.Target = c.Target
	e.doc.Nodes[c.NodeKey] = node
	e.touch("nodes", c.NodeKey, "target")
}

func (c SetNodeSetting) apply(e *editor) {
	node, ok := e.node(c.NodeKey)
	if !ok {
		return
	}
	settings := orEmpty(maps.Clone(node.Settings))
	if isNull(c.Value) {
		if _, ok := settings[c.SettingKey]; !ok {
			e.unknown("settingKey", c.SettingKey)
			return
		}
		delete(settings, c.SettingKey)
	} else {
		settings[c.SettingKey] = c.Value
	}
	node.Settings = settings
	e.doc.Nodes[c.NodeKey] = node
	e.touch("nodes", c.NodeKey, "settings", c.SettingKey)
}

func (c ConnectInput) apply(e *editor) {
	node, ok := e.node(c.NodeKey)
	if !ok {
		return
	}
	node.InputBindings = orEmpty(maps.Clone(node.InputBindings))
	node.InputBindings[c.PortKey] = c.Binding
	e.doc.Nodes[c.NodeKey] = node
	e.touch("nodes", c.NodeKey, "inputBindings", c.PortKey)
}

func (c DisconnectInput) apply(e *editor) {
	node, ok := e.node(c.NodeKey)
	if !ok {
		return
	}
	if _, ok := node.InputBindings[c.PortKey]; !ok {
		e.unknown("portKey", c.PortKey)
		return
	}
	node.InputBindings = maps.Clone(node.InputBindings)
	delete(node.InputBindings, c.PortKey)
	e.doc.Nodes[c.NodeKey] = node
	e.touch("nodes", c.NodeKey, "inputBindings", c.PortKey)
}

func (c AddInputPort) apply(e *editor) {
	if _, ok := e.doc.Inputs[c.PortKey]; ok {
		e.taken("portKey", c.PortKey)
		return
	}
	e.doc.Inputs[c.PortKey] = c.Contract
	e.touch("inputs", c.PortKey)
}

func (c ChangeInputPort) apply(e *editor) {
	if _, ok := e.doc.Inputs[c.PortKey]; !ok {
		e.unknown("portKey", c.PortKey)
		return
	}
	e.doc.Inputs[c.PortKey] = c.Contract
	e.touch("inputs", c.PortKey)
}

func (c RemoveInputPort) apply(e *editor) {
	if _, ok := e.doc.Inputs[c.PortKey]; !ok {
		e.unknown("portKey", c.PortKey)
		return
	}
	delete(e.doc.Inputs, c.PortKey)
	e.touch("inputs", c.PortKey)
}

func (c AddResultPort) apply(e *editor) {
	if _, ok := e.doc.Results[c.PortKey]; ok {
		e.taken("portKey", c.PortKey)
		return
	}
	e.doc.Results[c.PortKey] = ResultPort{Port: c.Contract}
	e.touch("results", c.PortKey)
}

// result returns the result port, or refuses the command.
func (e *editor) result(key string) (ResultPort, bool) {
	port, ok := e.doc.Results[key]
	if !ok {
		e.unknown("portKey", key)
	}
	return port, ok
}

func (c ChangeResultPort) apply(e *editor) {
	port, ok := e.result(c.PortKey)
	if !ok {
		return
	}
	port.Port = c.Contract
	e.doc.Results[c.PortKey] = port
	e.touch("results", c.PortKey)
}

func (c RemoveResultPort) apply(e *editor) {
	if _, ok := e.result(c.PortKey); !ok {
		return
	}
	delete(e.doc.Results, c.PortKey)
	e.touch("results", c.PortKey)
}

func (c BindResult) apply(e *editor) {
	port, ok := e.result(c.PortKey)
	if !ok {
		return
	}
	port.Binding = c.Binding
	e.doc.Results[c.PortKey] = port
	e.touch("results", c.PortKey, "binding")
}
