package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// A Description is what report_describe says of a document (D1): the blocks with
// their authored values, the slots, every connection with the state of its
// mappings, and the Flows that the Report depends on. Generation, policy,
// operations and the results of slots are added by whoever knows them.
type Description struct {
	Label        target.Label                   `json:"label"`
	BlockOrder   []string                       `json:"blockOrder"`
	Blocks       map[string]DescribedBlock      `json:"blocks"`
	Connections  map[string]DescribedConnection `json:"connections"`
	Slots        []DescribedSlot                `json:"slots"` // as they are read: by block, then by key
	Dependencies []Dependency                   `json:"dependencies"`
}

// A DescribedBlock is a block of any kind. Fields are of a values block, Text is of
// a text block; what is in a results block stands in the Description's Slots.
type DescribedBlock struct {
	Kind   string                    `json:"kind"`
	Label  target.Label              `json:"label,omitzero"`
	Fields map[string]DescribedField `json:"fields,omitzero"`
	Text   *string                   `json:"text,omitzero"`
}

// A DescribedField is an authored value with its contract, and the mappings that it
// feeds.
type DescribedField struct {
	Label    target.Label  `json:"label,omitzero"`
	Contract quantity.Port `json:"contract"`
	Value    canon.Raw     `json:"value,omitzero"`
	Feeds    []MappingRef  `json:"feeds,omitzero"`
}

// A DescribedSlot is a place for a result, and the mapping that fills it.
type DescribedSlot struct {
	BlockKey string        `json:"blockKey"`
	SlotKey  string        `json:"slotKey"`
	Label    target.Label  `json:"label,omitzero"`
	Contract quantity.Port `json:"contract"`
	From     *MappingRef   `json:"from,omitzero"` // absent: nothing feeds it
	// State and Result are added by whoever knows what was run. They are of the
	// moment in which they are read.
	State  SlotState   `json:"state,omitzero"`
	Result *SlotResult `json:"result,omitzero"` // absent of an Empty slot
}

// A SlotState says what there is in a slot.
type SlotState string

// The states of a slot.
const (
	Empty   SlotState = "Empty"   // nothing was shown yet
	Current SlotState = "Current" // what the Report's own values give
	Stale   SlotState = "Stale"   // a mapped value, a mapping or the Flow revision is another now
	Failed  SlotState = "Failed"  // the last Run of its connection gave no result
)

// A SlotResult says where the result in a slot comes from, and sums it up. Unit and
// Value are the slot's, converted from the Flow's port.
type SlotResult struct {
	RunRef     string    `json:"runRef,omitzero"`
	BatchRef   string    `json:"batchRef,omitzero"` // of the governing case of a Batch
	CaseKey    string    `json:"caseKey,omitzero"`
	Generation int64     `json:"generation"`
	ResultKey  string    `json:"resultKey,omitzero"` // absent where the Run failed
	Type       string    `json:"type,omitzero"`
	Unit       string    `json:"unit,omitzero"`
	Value      canon.Raw `json:"value,omitzero" desc:"Typed value of a small scalar; else read it by runRef and resultKey."`
}

// UnderWay is what will be shown next, if nothing newer is started.
type UnderWay struct {
	RunRef   string `json:"runRef,omitzero"`
	BatchRef string `json:"batchRef,omitzero"`
}

// A MappingRef names one mapping and the public port at its other end.
type MappingRef struct {
	ConnectionKey string `json:"connectionKey"`
	MappingKey    string `json:"mappingKey"`
	PortKey       string `json:"portKey"`
}

// A ConnectionState says whether a connection can be run.
type ConnectionState string

// The states of a connection.
const (
	Ready       ConnectionState = "ready"       // all that its Flow requires is there, and fits
	Incomplete  ConnectionState = "incomplete"  // a mapping or a value that its Flow requires is missing
	Broken      ConnectionState = "broken"      // a mapping does not fit or leads nowhere
	Unavailable ConnectionState = "unavailable" // its Flow revision is not there
)

// A DescribedConnection is a connection with what is still missing of it.
type DescribedConnection struct {
	FlowTarget target.Flow                       `json:"flowTarget"`
	State      ConnectionState                   `json:"state"`
	Inputs     map[string]DescribedInputMapping  `json:"inputs"`
	Results    map[string]DescribedResultMapping `json:"results"`
	// Missing are the Flow's required inputs that have no mapping.
	Missing []string `json:"missing"`
	// Generation is the projectionIntentGeneration of the Run or Batch that was
	// started last, added by whoever knows it; 0: none was.
	Generation int64     `json:"generation"`
	UnderWay   *UnderWay `json:"underWay,omitzero"`
}

// A DescribedInputMapping is a mapping of a field. Port is absent when the Flow or
// its port is not there.
type DescribedInputMapping struct {
	InputMapping
	Port  *quantity.Port `json:"port,omitzero"`
	State MappingState   `json:"state"`
}

// A DescribedResultMapping is a mapping of a slot. Port is absent when the Flow or
// its port is not there.
type DescribedResultMapping struct {
	ResultMapping
	Port  *quantity.Port `json:"port,omitzero"`
	State MappingState   `json:"state"`
}

// A Dependency is a Flow revision with the connections that are pinned to it.
type Dependency struct {
	Target         target.Flow `json:"target"`
	ConnectionKeys []string    `json:"connectionKeys"`
	Available      bool        `json:"available"`
}

// Describe tells what a document says, with what Validate found out about it.
func Describe(doc Document, analysis Analysis) Description {
	d := Description{
		Label: orEmpty(doc.Label), BlockOrder: append([]string{}, doc.BlockOrder...),
		Blocks:      make(map[string]DescribedBlock, len(doc.Blocks)),
		Connections: make(map[string]DescribedConnection, len(doc.Connections)),
		Slots:       []DescribedSlot{},
	}
	feeds := map[ReportValue][]MappingRef{}
	from := map[ReportResultSlot]*MappingRef{}
	for _, key := range slices.Sorted(maps.Keys(doc.Connections)) {
		c := doc.Connections[key]
		d.Connections[key] = describeConnection(key, c, analysis)
		for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
			m := c.Inputs[name]
			feeds[m.Source] = append(feeds[m.Source], MappingRef{key, name, m.PortKey})
		}
		for _, name := range slices.Sorted(maps.Keys(c.Results)) {
			if m := c.Results[name]; from[m.Target] == nil {
				from[m.Target] = &MappingRef{key, name, m.PortKey}
			}
		}
	}
	for key, b := range doc.Blocks {
		block := DescribedBlock{Kind: b.Variant()}
		switch b := b.(type) {
		case ValuesBlock:
			block.Label, block.Fields = b.Label, make(map[string]DescribedField, len(b.Fields))
			for name, f := range b.Fields {
				block.Fields[name] = DescribedField{f.Label, f.Port, f.Value, feeds[ReportValue{BlockKey: key, FieldKey: name}]}
			}
		case TextBlock:
			block.Label, block.Text = b.Label, &b.Text
		case ResultsBlock:
			block.Label = b.Label
			for name, s := range b.Slots {
				d.Slots = append(d.Slots, DescribedSlot{BlockKey: key, SlotKey: name, Label: s.Label, Contract: s.Port, From: from[ReportResultSlot{BlockKey: key, SlotKey: name}]})
			}
		default:
			panic(fmt.Sprintf("report: block %T", b))
		}
		d.Blocks[key] = block
	}
	position := make(map[string]int, len(doc.BlockOrder))
	for i, key := range doc.BlockOrder {
		position[key] = i
	}
	slices.SortFunc(d.Slots, func(a, b DescribedSlot) int {
		return cmp.Or(cmp.Compare(position[a.BlockKey], position[b.BlockKey]), cmp.Compare(a.BlockKey, b.BlockKey), cmp.Compare(a.SlotKey, b.SlotKey))
	})
	d.Dependencies = Dependencies(doc)
	for i := range d.Dependencies {
		_, d.Dependencies[i].Available = analysis.Boundaries[d.Dependencies[i].Target]
	}
	return d
}

func describeConnection(key string, c Connection, analysis Analysis) DescribedConnection {
	boundary, available := analysis.Boundaries[c.FlowTarget]
	d := DescribedConnection{FlowTarget: c.FlowTarget, State: Ready, Missing: append([]string{}, analysis.missing[key]...),
		Inputs: make(map[string]DescribedInputMapping, len(c.Inputs)), Results: make(map[string]DescribedResultMapping, len(c.Results))}
	broken, incomplete := false, len(d.Missing) > 0
	state := func(list, name string) MappingState {
		s := analysis.states[semantic.Pointer("connections", key, list, name)]
		broken = broken || s == Mismatch || s == Dangling || s == Unchecked
		incomplete = incomplete || s == Unfilled
		return s
	}
	port := func(ports map[string]quantity.Port, key string) *quantity.Port {
		if p, ok := ports[key]; ok {
			return &p
		}
		return nil
	}
	for name, m := range c.Inputs {
		d.Inputs[name] = DescribedInputMapping{m, port(boundary.Inputs, m.PortKey), state("inputs", name)}
	}
	for name, m := range c.Results {
		d.Results[name] = DescribedResultMapping{m, port(boundary.Results, m.PortKey), state("results", name)}
	}
	switch {
	case !available:
		d.State = Unavailable
	case broken:
		d.State = Broken
	case incomplete:
		d.State = Incomplete
	}
	return d
}

// Dependencies lists every Flow revision that the document's connections are pinned
// to, once each, by key and revision.
func Dependencies(doc Document) []Dependency {
	byTarget := map[target.Flow]*Dependency{}
	for _, key := range slices.Sorted(maps.Keys(doc.Connections)) {
		t := doc.Connections[key].FlowTarget
		if byTarget[t] == nil {
			byTarget[t] = &Dependency{Target: t}
		}
		byTarget[t].ConnectionKeys = append(byTarget[t].ConnectionKeys, key)
	}
	out := make([]Dependency, 0, len(byTarget))
	for _, d := range byTarget {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b Dependency) int {
		x, y := a.Target, b.Target
		return cmp.Or(cmp.Compare(x.Scope.WorkspaceKey, y.Scope.WorkspaceKey), cmp.Compare(x.Scope.ProjectKey, y.Scope.ProjectKey),
			cmp.Compare(x.FlowKey, y.FlowKey), cmp.Compare(x.RevisionRef, y.RevisionRef))
	})
	return out
}

// Uses returns the catalog keys of the Flows that the document refers to
// (decision 6), once each, in order. Which revision each connection is pinned to
// is in Dependencies.
func Uses(doc Document) []string {
	keys := map[string]bool{}
	for _, c := range doc.Connections {
		keys["flow/"+c.FlowTarget.FlowKey] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// SearchText returns what a search may find the Report by (S5): its keys, labels
// in every language, units and the Flows and ports that it is connected to, once
// each, in order. Text and values are content and are not searched.
func SearchText(doc Document) []string {
	words := map[string]bool{doc.ReportKey: true}
	label := func(l target.Label) {
		for _, text := range l {
			words[text] = true
		}
	}
	label(doc.Label)
	for key, b := range doc.Blocks {
		words[key] = true
		b.labelled(func(l target.Label) target.Label {
			label(l)
			return l
		})
		switch b := b.(type) {
		case ValuesBlock:
			for name, f := range b.Fields {
				words[name] = true
				addUnits(words, f.Port)
			}
		case ResultsBlock:
			for name, s := range b.Slots {
				words[name] = true
				addUnits(words, s.Port)
			}
		}
	}
	for key, c := range doc.Connections {
		words[key], words[c.FlowTarget.FlowKey] = true, true
		for _, m := range c.Inputs {
			words[m.PortKey] = true
		}
		for _, m := range c.Results {
			words[m.PortKey] = true
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// addUnits adds the units that a contract names, at every depth.
func addUnits(words map[string]bool, p quantity.Port) {
	add := func(unit string) {
		if unit != "" && unit != "1" {
			words[unit] = true
		}
	}
	add(p.Unit)
	for _, field := range p.Fields {
		addUnits(words, field)
	}
	if p.Of != nil {
		addUnits(words, *p.Of)
	}
	for _, column := range p.Columns {
		add(column.Unit)
	}
}
