package report

import (
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// A Command changes one fact of a Report. The union is closed: the types below
// are all there are. RunReportFlowBatch is planned by the same tool and is none
// of them, since it changes no document: a Batch Run plan is a thing of its own.
type Command interface {
	schema.Variant // the tag of the command on the wire
	// apply makes the change or adds a finding; after a finding the document is
	// as if the command had not been there.
	apply(*editor)
	// normalized returns the one form of all commands that say the same.
	normalized() Command
}

// CreateReport is the first save of a Report and the only command of its plan.
type CreateReport struct {
	_ struct{} `desc:"First save; the only command of its plan."`

	Kind     schema.Kind[CreateReport] `json:"kind"`
	Document Document                  `json:"document"`
}

// SetReportLabel replaces the label in all its languages.
type SetReportLabel struct {
	_ struct{} `desc:"In all languages."`

	Kind  schema.Kind[SetReportLabel] `json:"kind"`
	Label target.Label                `json:"label"`
}

// AddBlock adds a block under a key that is free: after another, or as the last.
// To add one as the first, move it there in the same plan.
type AddBlock struct {
	Kind          schema.Kind[AddBlock] `json:"kind"`
	BlockKey      string                `json:"blockKey" schema:"pattern=key"`
	Block         Block                 `json:"block"`
	AfterBlockKey string                `json:"afterBlockKey,omitzero" schema:"pattern=key,copied" desc:"Left out: last."`
}

// RemoveBlock removes a block with all in it. Mappings of its fields and slots
// dangle until the same plan removes or sets them anew.
type RemoveBlock struct {
	Kind     schema.Kind[RemoveBlock] `json:"kind"`
	BlockKey string                   `json:"blockKey" schema:"pattern=key,copied"`
}

// MoveBlock moves a block behind another, or to the first place.
type MoveBlock struct {
	Kind          schema.Kind[MoveBlock] `json:"kind"`
	BlockKey      string                 `json:"blockKey" schema:"pattern=key,copied"`
	AfterBlockKey string                 `json:"afterBlockKey,omitzero" schema:"pattern=key,copied" desc:"Left out: first."`
}

// AddField adds a field to a values block.
type AddField struct {
	_ struct{} `desc:"A contract, and a value or none yet."`

	Kind     schema.Kind[AddField] `json:"kind"`
	BlockKey string                `json:"blockKey" schema:"pattern=key,copied"`
	FieldKey string                `json:"fieldKey" schema:"pattern=key"`
	Field    Field                 `json:"field"`
}

// RemoveField removes a field. A mapping of it dangles until the same plan
// removes or sets it anew.
type RemoveField struct {
	Kind     schema.Kind[RemoveField] `json:"kind"`
	BlockKey string                   `json:"blockKey" schema:"pattern=key,copied"`
	FieldKey string                   `json:"fieldKey" schema:"pattern=key,copied"`
}

// SetFieldValue sets the typed value of a field. A bare null removes it;
// {"value": null} is the value null of a nullable field.
type SetFieldValue struct {
	_ struct{} `desc:"A bare null removes it."`

	Kind     schema.Kind[SetFieldValue] `json:"kind"`
	BlockKey string                     `json:"blockKey" schema:"pattern=key,copied"`
	FieldKey string                     `json:"fieldKey" schema:"pattern=key,copied"`
	Value    canon.Raw                  `json:"value"`
}

// AddSlot adds a slot to a results block.
type AddSlot struct {
	Kind     schema.Kind[AddSlot] `json:"kind"`
	BlockKey string               `json:"blockKey" schema:"pattern=key,copied"`
	SlotKey  string               `json:"slotKey" schema:"pattern=key"`
	Slot     Slot                 `json:"slot"`
}

// RemoveSlot removes a slot. A mapping to it dangles until the same plan removes
// or sets it anew.
type RemoveSlot struct {
	Kind     schema.Kind[RemoveSlot] `json:"kind"`
	BlockKey string                  `json:"blockKey" schema:"pattern=key,copied"`
	SlotKey  string                  `json:"slotKey" schema:"pattern=key,copied"`
}

// SetText replaces the whole text of a text block.
type SetText struct {
	Kind     schema.Kind[SetText] `json:"kind"`
	BlockKey string               `json:"blockKey" schema:"pattern=key,copied"`
	Text     string               `json:"text" schema:"text=prose"`
}

// SetConnectionFlow pins a connection to a Flow revision, with all its mappings.
// A connection that is not there yet is made, so that one to a Flow without
// inputs can begin; it must get a mapping in the same plan.
type SetConnectionFlow struct {
	_ struct{} `desc:"Moves a connection, with all its mappings, to another Flow revision."`

	Kind          schema.Kind[SetConnectionFlow] `json:"kind"`
	ConnectionKey string                         `json:"connectionKey" schema:"pattern=key"`
	FlowTarget    target.Flow                    `json:"flowTarget"`
}

// SetReportFlowInputSource feeds a public input of the Flow from a field, in
// place of an earlier mapping of the same key. The first mapping of a connection
// makes the connection; every other one names the Flow revision that the
// connection has, which SetConnectionFlow alone moves.
type SetReportFlowInputSource struct {
	_ struct{} `desc:"Feeds an input of a Flow from a value. The first mapping makes the connection."`

	Kind          schema.Kind[SetReportFlowInputSource] `json:"kind"`
	ConnectionKey string                                `json:"connectionKey" schema:"pattern=key"`
	MappingKey    string                                `json:"mappingKey" schema:"pattern=key"`
	FlowTarget    target.Flow                           `json:"flowTarget"`
	PortKey       string                                `json:"portKey" schema:"pattern=key,copied"`
	Source        ReportValue                           `json:"source"`
}

// SetReportFlowResultTarget shows a public result of the connection's Flow in a
// slot, in place of an earlier mapping of the same key.
type SetReportFlowResultTarget struct {
	_ struct{} `desc:"Shows a result in a slot."`

	Kind          schema.Kind[SetReportFlowResultTarget] `json:"kind"`
	ConnectionKey string                                 `json:"connectionKey" schema:"pattern=key,copied"`
	MappingKey    string                                 `json:"mappingKey" schema:"pattern=key"`
	PortKey       string                                 `json:"portKey" schema:"pattern=key,copied"`
	Target        ReportResultSlot                       `json:"target"`
}

// RemoveReportFlowMapping removes a mapping of either direction; with the last one
// the connection goes, which had nothing else to say.
type RemoveReportFlowMapping struct {
	_ struct{} `desc:"With the last one its connection goes."`

	Kind          schema.Kind[RemoveReportFlowMapping] `json:"kind"`
	ConnectionKey string                               `json:"connectionKey" schema:"pattern=key,copied"`
	MappingKey    string                               `json:"mappingKey" schema:"pattern=key,copied"`
}

// Variant returns the tag.
func (CreateReport) Variant() string { return "CreateReport" }

// Variant returns the tag.
func (SetReportLabel) Variant() string { return "SetReportLabel" }

// Variant returns the tag.
func (AddBlock) Variant() string { return "AddBlock" }

// Variant returns the tag.
func (RemoveBlock) Variant() string { return "RemoveBlock" }

// Variant returns the tag.
func (MoveBlock) Variant() string { return "MoveBlock" }

// Variant returns the tag.
func (AddField) Variant() string { return "AddField" }

// Variant returns the tag.
func (RemoveField) Variant() string { return "RemoveField" }

// Variant returns the tag.
func (SetFieldValue) Variant() string { return "SetFieldValue" }

// Variant returns the tag.
func (AddSlot) Variant() string { return "AddSlot" }

// Variant returns the tag.
func (RemoveSlot) Variant() string { return "RemoveSlot" }

// Variant returns the tag.
func (SetText) Variant() string { return "SetText" }

// Variant returns the tag.
func (SetConnectionFlow) Variant() string { return "SetConnectionFlow" }

// Variant returns the tag.
func (SetReportFlowInputSource) Variant() string { return "SetReportFlowInputSource" }

// Variant returns the tag.
func (SetReportFlowResultTarget) Variant() string { return "SetReportFlowResultTarget" }

// Variant returns the tag.
func (RemoveReportFlowMapping) Variant() string { return "RemoveReportFlowMapping" }

// Commands returns one of each kind, for a union that holds more than commands on
// the document.
func Commands() []Command {
	return []Command{
		CreateReport{}, SetReportLabel{}, AddBlock{}, RemoveBlock{}, MoveBlock{}, AddField{}, RemoveField{}, SetFieldValue{}, AddSlot{}, RemoveSlot{}, SetText{},
		SetConnectionFlow{}, SetReportFlowInputSource{}, SetReportFlowResultTarget{}, RemoveReportFlowMapping{},
	}
}

var _ = schema.Union(Commands()...)

// Normalized returns the commands in the one form that all lists which say the
// same have: canonical values, nothing written that is as good as left out. The
// document of CreateReport keeps every member, since its digest is its author's.
func Normalized(commands []Command) []Command {
	out := make([]Command, len(commands))
	for i, c := range commands {
		out[i] = c.normalized()
	}
	return out
}

// Unlabelled returns normalized commands without labels, for planDigest, which
// leaves labels and localized text out (P3, decision 11). The text of a text block
// is the Report's content and stays.
func Unlabelled(commands []Command) []Command {
	out := Normalized(commands)
	for i, c := range out {
		switch c := c.(type) {
		case CreateReport:
			c.Document = c.Document.canonical() // a copy of its own
			c.Document.Label = nil
			for key, b := range c.Document.Blocks {
				c.Document.Blocks[key] = b.labelled(noLabel)
			}
			out[i] = c
		case SetReportLabel:
			out[i] = SetReportLabel{}
		case AddBlock:
			c.Block = c.Block.labelled(noLabel)
			out[i] = c
		case AddField:
			c.Field.Label = nil
			out[i] = c
		case AddSlot:
			c.Slot.Label = nil
			out[i] = c
		}
	}
	return out
}

func noLabel(target.Label) target.Label { return nil }

// settled leaves out a label in no language.
func settled(l target.Label) target.Label {
	if len(l) == 0 {
		return nil
	}
	return l
}

func (c CreateReport) normalized() Command {
	c.Document = c.Document.canonical()
	return c
}

func (c SetReportLabel) normalized() Command { return SetReportLabel{Label: settled(c.Label)} }

func (c AddBlock) normalized() Command {
	c.Block = c.Block.canonical().labelled(settled)
	return c
}

func (c AddField) normalized() Command {
	c.Field = c.Field.canonical()
	c.Field.Label = settled(c.Field.Label)
	return c
}

func (c AddSlot) normalized() Command {
	c.Slot = c.Slot.canonical()
	c.Slot.Label = settled(c.Slot.Label)
	return c
}

func (c SetFieldValue) normalized() Command {
	c.Value = canonicalRaw(c.Value)
	return c
}

func (c RemoveBlock) normalized() Command               { return c }
func (c MoveBlock) normalized() Command                 { return c }
func (c RemoveField) normalized() Command               { return c }
func (c RemoveSlot) normalized() Command                { return c }
func (c SetText) normalized() Command                   { return c }
func (c SetConnectionFlow) normalized() Command         { return c }
func (c SetReportFlowInputSource) normalized() Command  { return c }
func (c SetReportFlowResultTarget) normalized() Command { return c }
func (c RemoveReportFlowMapping) normalized() Command   { return c }
