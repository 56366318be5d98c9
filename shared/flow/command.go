package flow

import (
	"maps"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// A Command changes one fact of a Flow. The union is closed: the types below are
// all there are.
type Command interface {
	schema.Variant // the tag of the command on the wire
	// apply makes the change or adds a finding; after a finding the document is
	// as if the command had not been there.
	apply(*editor)
	// normalized returns the one form of all commands that say the same.
	normalized() Command
}

// CreateFlow is the first save of a Flow and the only command of its plan.
type CreateFlow struct {
	_ struct{} `desc:"First save of a Flow; the only command of its plan."`

	Kind     schema.Kind[CreateFlow] `json:"kind"`
	Document Document                `json:"document"`
	Source   string                  `json:"source,omitzero"`
}

// SetFlowLabel replaces the label in all its languages.
type SetFlowLabel struct {
	_ struct{} `desc:"All languages, as {\"en\": \"Girder\"}."`

	Kind  schema.Kind[SetFlowLabel] `json:"kind"`
	Label target.Label              `json:"label"`
}

// AddNode adds a Node under a key that is free.
type AddNode struct {
	Kind          schema.Kind[AddNode] `json:"kind"`
	NodeKey       string               `json:"nodeKey" schema:"pattern=key"`
	Target        Target               `json:"target"`
	Settings      Settings             `json:"settings,omitzero"`
	InputBindings map[string]Binding   `json:"inputBindings,omitzero"`
	Label         target.Label         `json:"label,omitzero"`
}

// RemoveNode removes a Node. What was bound to it dangles until the same plan
// disconnects or binds it anew.
type RemoveNode struct {
	_ struct{} `desc:"Rebind what is bound to it in the same plan."`

	Kind    schema.Kind[RemoveNode] `json:"kind"`
	NodeKey string                  `json:"nodeKey" schema:"pattern=key"`
}

// ReplaceNodeTarget makes a Node run something else; settings and bindings stay.
type ReplaceNodeTarget struct {
	Kind    schema.Kind[ReplaceNodeTarget] `json:"kind"`
	NodeKey string                         `json:"nodeKey" schema:"pattern=key"`
	Target  Target                         `json:"target"`
}

// SetNodeSetting sets one top-level setting. The value null removes it: no
// Component has a setting whose value is null.
type SetNodeSetting struct {
	_ struct{} `desc:"One top-level setting; null removes it."`

	Kind       schema.Kind[SetNodeSetting] `json:"kind"`
	NodeKey    string                      `json:"nodeKey" schema:"pattern=key"`
	SettingKey string                      `json:"settingKey" schema:"pattern=member,copied"`
	Value      canon.Raw                   `json:"value" desc:"As the Component has it."`
}

// ConnectInput binds an input of a Node, in place of an earlier binding.
type ConnectInput struct {
	_ struct{} `desc:"Replaces an earlier binding."`

	Kind    schema.Kind[ConnectInput] `json:"kind"`
	NodeKey string                    `json:"nodeKey" schema:"pattern=key"`
	PortKey string                    `json:"portKey" schema:"pattern=key"`
	Binding Binding                   `json:"binding"`
}

// DisconnectInput removes the binding of an input of a Node.
type DisconnectInput struct {
	Kind    schema.Kind[DisconnectInput] `json:"kind"`
	NodeKey string                       `json:"nodeKey" schema:"pattern=key"`
	PortKey string                       `json:"portKey" schema:"pattern=key"`
}

// AddInputPort adds a public input.
type AddInputPort struct {
	Kind     schema.Kind[AddInputPort] `json:"kind"`
	PortKey  string                    `json:"portKey" schema:"pattern=key"`
	Contract quantity.Port             `json:"contract"`
}

// ChangeInputPort replaces the whole contract of a public input.
type ChangeInputPort struct {
	Kind     schema.Kind[ChangeInputPort] `json:"kind"`
	PortKey  string                       `json:"portKey" schema:"pattern=key"`
	Contract quantity.Port                `json:"contract"`
}

// RemoveInputPort removes a public input.
type RemoveInputPort struct {
	Kind    schema.Kind[RemoveInputPort] `json:"kind"`
	PortKey string                       `json:"portKey" schema:"pattern=key"`
}

// AddResultPort adds a public result; BindResult must follow in the same plan.
type AddResultPort struct {
	_ struct{} `desc:"needs BindResult in the same plan."`

	Kind     schema.Kind[AddResultPort] `json:"kind"`
	PortKey  string                     `json:"portKey" schema:"pattern=key"`
	Contract quantity.Port              `json:"contract"`
}

// ChangeResultPort replaces the whole contract of a public result; its binding
// stays.
type ChangeResultPort struct {
	Kind     schema.Kind[ChangeResultPort] `json:"kind"`
	PortKey  string                        `json:"portKey" schema:"pattern=key"`
	Contract quantity.Port                 `json:"contract"`
}

// RemoveResultPort removes a public result.
type RemoveResultPort struct {
	Kind    schema.Kind[RemoveResultPort] `json:"kind"`
	PortKey string                        `json:"portKey" schema:"pattern=key"`
}

// BindResult says where a public result comes from, in place of an earlier
// binding.
type BindResult struct {
	Kind    schema.Kind[BindResult] `json:"kind"`
	PortKey string                  `json:"portKey" schema:"pattern=key"`
	Binding Binding                 `json:"binding"`
}

// Variant returns the tag.
func (CreateFlow) Variant() string { return "CreateFlow" }

// Variant returns the tag.
func (SetFlowLabel) Variant() string { return "SetFlowLabel" }

// Variant returns the tag.
func (AddNode) Variant() string { return "AddNode" }

// Variant returns the tag.
func (RemoveNode) Variant() string { return "RemoveNode" }

// Variant returns the tag.
func (ReplaceNodeTarget) Variant() string { return "ReplaceNodeTarget" }

// Variant returns the tag.
func (SetNodeSetting) Variant() string { return "SetNodeSetting" }

// Variant returns the tag.
func (ConnectInput) Variant() string { return "ConnectInput" }

// Variant returns the tag.
func (DisconnectInput) Variant() string { return "DisconnectInput" }

// Variant returns the tag.
func (AddInputPort) Variant() string { return "AddInputPort" }

// Variant returns the tag.
func (ChangeInputPort) Variant() string { return "ChangeInputPort" }

// Variant returns the tag.
func (RemoveInputPort) Variant() string { return "RemoveInputPort" }

// Variant returns the tag.
func (AddResultPort) Variant() string { return "AddResultPort" }

// Variant returns the tag.
func (ChangeResultPort) Variant() string { return "ChangeResultPort" }

// Variant returns the tag.
func (RemoveResultPort) Variant() string { return "RemoveResultPort" }

// Variant returns the tag.
func (BindResult) Variant() string { return "BindResult" }

var _ = schema.Union[Command](
	CreateFlow{}, SetFlowLabel{}, AddNode{}, RemoveNode{}, ReplaceNodeTarget{}, SetNodeSetting{},
	ConnectInput{}, DisconnectInput{}, AddInputPort{}, ChangeInputPort{}, RemoveInputPort{}, AddResultPort{}, ChangeResultPort{}, RemoveResultPort{}, BindResult{},
)

// Normalized returns the commands in the one form that all lists which say the
// same have: canonical values, nothing written that is as good as left out. The
// document of CreateFlow keeps every member, since its digest is its author's.
func Normalized(commands []Command) []Command {
	out := make([]Command, len(commands))
	for i, c := range commands {
		out[i] = c.normalized()
	}
	return out
}

// Unlabelled returns normalized commands without labels, for planDigest, which
// leaves labels and localized text out (P3, decision 11).
func Unlabelled(commands []Command) []Command {
	out := Normalized(commands)
	for i, c := range out {
		switch c := c.(type) {
		case CreateFlow:
			c.Document.Label = nil
			c.Document.Nodes = maps.Clone(c.Document.Nodes)
			for key, node := range c.Document.Nodes {
				node.Label = nil
				c.Document.Nodes[key] = node
			}
			out[i] = c
		case SetFlowLabel:
			out[i] = SetFlowLabel{}
		case AddNode:
			c.Label = nil
			out[i] = c
		}
	}
	return out
}

func (c CreateFlow) normalized() Command {
	c.Document = c.Document.canonical()
	return c
}

func (c AddNode) normalized() Command {
	c.Settings, c.InputBindings, c.Label = settled(c.Settings), bound(c.InputBindings), settledLabel(c.Label)
	return c
}

func (c SetFlowLabel) normalized() Command { return SetFlowLabel{Label: settledLabel(c.Label)} }

func (c SetNodeSetting) normalized() Command {
	c.Value = canonicalRaw(c.Value)
	return c
}

func (c ConnectInput) normalized() Command {
	c.Binding = canonicalBinding(c.Binding)
	return c
}

func (c BindResult) normalized() Command {
	c.Binding = canonicalBinding(c.Binding)
	return c
}

func (c AddInputPort) normalized() Command {
	c.Contract = c.Contract.Canonical()
	return c
}

func (c ChangeInputPort) normalized() Command {
	c.Contract = c.Contract.Canonical()
	return c
}

func (c AddResultPort) normalized() Command {
	c.Contract = c.Contract.Canonical()
	return c
}

func (c ChangeResultPort) normalized() Command {
	c.Contract = c.Contract.Canonical()
	return c
}

func (c RemoveNode) normalized() Command        { return c }
func (c ReplaceNodeTarget) normalized() Command { return c }
func (c DisconnectInput) normalized() Command   { return c }
func (c RemoveInputPort) normalized() Command   { return c }
func (c RemoveResultPort) normalized() Command  { return c }
