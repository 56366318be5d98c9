package report

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// Format is the version of the document form that this package reads and writes.
const Format = "pxreport/1"

// The limits of one Report (decision 16). The limit itself is allowed.
const (
	// MaxPlaces is how many blocks, fields and slots there may be together: a
	// slot weighs what a field does.
	MaxPlaces = 2000
	MaxBytes  = 1 << 20 // of the canonical encoding
)

// A Document is one Report. What an author left out stays left out: encoding a
// decoded document gives the canonical form of the very text that was decoded,
// so that a revisionRef is the digest of what its author wrote.
//
// Documents are values that are shared freely: nothing changes a map or list of
// one after it was decoded or returned by Apply.
type Document struct {
	Format      string                `json:"format" schema:"enum=pxreport/1"`
	ReportKey   string                `json:"reportKey" schema:"pattern=key"`
	Label       target.Label          `json:"label,omitzero"`
	BlockOrder  []string              `json:"blockOrder" schema:"each.pattern=key" desc:"Every blockKey once, as they are read."`
	Blocks      map[string]Block      `json:"blocks"`
	Connections map[string]Connection `json:"connections" schema:"each.bare" desc:"{} at first; the SetReportFlow commands make them."`
}

// A Block is a ValuesBlock, a TextBlock or a ResultsBlock.
type Block interface {
	schema.Variant
	block()
	canonical() Block
	// labelled returns the block with every label in it passed through f.
	labelled(f func(target.Label) target.Label) Block
}

// A ValuesBlock holds authored values.
type ValuesBlock struct {
	_ struct{} `desc:"Authored values."`

	Kind   schema.Kind[ValuesBlock] `json:"kind"`
	Label  target.Label             `json:"label,omitzero"`
	Fields map[string]Field         `json:"fields"`
}

// A TextBlock holds prose. It is content and no label: a plan digest covers it.
type TextBlock struct {
	Kind  schema.Kind[TextBlock] `json:"kind"`
	Label target.Label           `json:"label,omitzero"`
	Text  string                 `json:"text" schema:"text=prose"`
}

// A ResultsBlock holds the places where results of Flows are shown.
type ResultsBlock struct {
	_ struct{} `desc:"Places for results of Flows."`

	Kind  schema.Kind[ResultsBlock] `json:"kind"`
	Label target.Label              `json:"label,omitzero"`
	Slots map[string]Slot           `json:"slots"`
}

// A Field is one authored value with its contract. Value is a typed value,
// canonical, and nil for a field that was not filled in yet: it can be saved so,
// and not be run from. The contract's own default has no meaning here and is
// refused.
type Field struct {
	quantity.Port `schema:"widen"`
	Value         canon.Raw    `json:"value,omitzero" desc:"Of a field only."`
	Label         target.Label `json:"label,omitzero"`
}

// A Slot is the contract of a place where one result is shown.
type Slot struct {
	quantity.Port `schema:"widen"`
	Label         target.Label `json:"label,omitzero"`
}

// A Connection ties fields and slots to the public ports of one exact Flow
// revision. A mappingKey is unique in both maps together, since a mapping is
// removed by it alone.
type Connection struct {
	FlowTarget target.Flow              `json:"flowTarget"`
	Inputs     map[string]InputMapping  `json:"inputs"`
	Results    map[string]ResultMapping `json:"results"`
}

// An InputMapping feeds a public input of the Flow from a field.
type InputMapping struct {
	PortKey string      `json:"portKey" schema:"pattern=key"`
	Source  ReportValue `json:"source"`
}

// A ResultMapping shows a public result of the Flow in a slot. Several slots may
// show the same result.
type ResultMapping struct {
	PortKey string           `json:"portKey" schema:"pattern=key"`
	Target  ReportResultSlot `json:"target"`
}

// A ReportValue is the place of a field. It is no target and has no scope.
type ReportValue struct {
	Kind     schema.Kind[ReportValue] `json:"kind"`
	BlockKey string                   `json:"blockKey" schema:"pattern=key,copied"`
	FieldKey string                   `json:"fieldKey" schema:"pattern=key,copied"`
}

// A ReportResultSlot is the place of a slot. It is no target and has no scope.
// It can be compared with ==.
type ReportResultSlot struct {
	Kind     schema.Kind[ReportResultSlot] `json:"kind"`
	BlockKey string                        `json:"blockKey" schema:"pattern=key,copied"`
	SlotKey  string                        `json:"slotKey" schema:"pattern=key,copied"`
}

func (ValuesBlock) block()  {}
func (TextBlock) block()    {}
func (ResultsBlock) block() {}

// Variant returns the tag.
func (ValuesBlock) Variant() string { return "values" }

// Variant returns the tag.
func (TextBlock) Variant() string { return "text" }

// Variant returns the tag.
func (ResultsBlock) Variant() string { return "results" }

// Variant returns the tag.
func (ReportValue) Variant() string { return "reportValue" }

// Variant returns the tag.
func (ReportResultSlot) Variant() string { return "reportResultSlot" }

var _ = schema.Union[Block](ValuesBlock{}, TextBlock{}, ResultsBlock{})

// Decode reads one .pxreport document strictly and reports all that is wrong with
// its form; whether it makes sense is Validate's question. Text that is no
// strict JSON is one finding, of rule "json", where it stops being that.
//
// A document of an AI's request is decoded with the request by package schema,
// which gives the same findings; this is for stored documents and files.
func Decode(text []byte) (Document, outcome.Findings) {
	var findings outcome.Findings
	if len(text) > maxText {
		findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": maxText, "observed": len(text)})
		return Document{}, findings
	}
	var doc Document
	findings = schema.Decode(text, &doc)
	if findings == nil {
		return doc, nil
	}
	// What is no JSON is told by who reads JSON, with the place and the reason.
	var syntax *canon.SyntaxError
	if errors.As(canon.CheckGrammar(text), &syntax) {
		findings = nil
		findings.Add(outcome.SchemaInvalid, syntax.Pointer, outcome.Params{"rule": "json", "reason": syntax.Reason, "offset": syntax.Offset})
	}
	return doc, findings
}

// maxText bounds a file before it is decoded: white space and long ways to write
// things may make it larger than its canonical encoding, but not without end.
const maxText = 4 * MaxBytes

// RevisionRef returns the document's canonical bytes and their digest, which is
// its revisionRef.
func (d Document) RevisionRef() (canonical []byte, ref string, err error) {
	canonical, err = canon.Encode(d)
	if err != nil {
		return nil, "", err
	}
	return canonical, canon.Digest(canonical), nil
}

// field returns the field at a place.
func (d Document) field(at ReportValue) (Field, bool) {
	block, ok := d.Blocks[at.BlockKey].(ValuesBlock)
	if !ok {
		return Field{}, false
	}
	f, ok := block.Fields[at.FieldKey]
	return f, ok
}

// slot returns the slot at a place.
func (d Document) slot(at ReportResultSlot) (Slot, bool) {
	block, ok := d.Blocks[at.BlockKey].(ResultsBlock)
	if !ok {
		return Slot{}, false
	}
	s, ok := block.Slots[at.SlotKey]
	return s, ok
}

// Inside documents and normalized commands every canon.Raw is canonical, so that
// bytes can be compared where values are meant. What is not strict JSON was
// refused when it was decoded; a Go program that puts such text into a command
// is wrong, and panics here.
func canonicalRaw(raw canon.Raw) canon.Raw {
	if raw == nil {
		return nil
	}
	out, err := canon.Canonicalize(raw)
	if err != nil {
		panic(fmt.Sprintf("report: a value that was never decoded: %v", err))
	}
	return out
}

func (f Field) canonical() Field {
	f.Port, f.Value = f.Port.Canonical(), canonicalRaw(f.Value)
	return f
}

func (s Slot) canonical() Slot {
	s.Port = s.Port.Canonical()
	return s
}

func (b ValuesBlock) canonical() Block {
	b.Fields = maps.Clone(b.Fields)
	for key, f := range b.Fields {
		b.Fields[key] = f.canonical()
	}
	return b
}

func (b TextBlock) canonical() Block { return b }

func (b ResultsBlock) canonical() Block {
	b.Slots = maps.Clone(b.Slots)
	for key, s := range b.Slots {
		b.Slots[key] = s.canonical()
	}
	return b
}

func (b ValuesBlock) labelled(f func(target.Label) target.Label) Block {
	b.Label, b.Fields = f(b.Label), maps.Clone(b.Fields)
	for key, field := range b.Fields {
		field.Label = f(field.Label)
		b.Fields[key] = field
	}
	return b
}

func (b TextBlock) labelled(f func(target.Label) target.Label) Block {
	b.Label = f(b.Label)
	return b
}

func (b ResultsBlock) labelled(f func(target.Label) target.Label) Block {
	b.Label, b.Slots = f(b.Label), maps.Clone(b.Slots)
	for key, slot := range b.Slots {
		slot.Label = f(slot.Label)
		b.Slots[key] = slot
	}
	return b
}

// canonical returns the document with canonical values; nothing is added, left
// out or reordered in meaning.
func (d Document) canonical() Document {
	d.BlockOrder, d.Blocks = slices.Clone(d.BlockOrder), maps.Clone(d.Blocks)
	for key, b := range d.Blocks {
		d.Blocks[key] = b.canonical()
	}
	return d
}

func orEmpty[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
