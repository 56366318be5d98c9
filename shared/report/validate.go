package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// Flows finds what exact Flow revisions show. One that is not in the answer is not
// there for this principal, which includes another Project's Flow wherever the
// caller keeps Projects apart. The ports have passed their own check. All that a
// document is connected to is asked for at once.
type Flows interface {
	Boundaries(ctx context.Context, targets []target.Flow) (map[target.Flow]Boundary, error)
}

// A Boundary is what a Flow shows to a Report: its public ports, and what one Run
// of it costs, as flow.Cost counts.
type Boundary struct {
	Inputs, Results map[string]quantity.Port
	Cost            int64
}

// Known are Flows that were found already.
type Known map[target.Flow]Boundary

// Boundaries implements Flows.
func (k Known) Boundaries(_ context.Context, targets []target.Flow) (map[target.Flow]Boundary, error) {
	out := make(map[target.Flow]Boundary, len(targets))
	for _, t := range targets {
		if b, ok := k[t]; ok {
			out[t] = b
		}
	}
	return out, nil
}

// An Analysis is what there is to know of a document. Of a document with
// findings it holds what could be found out.
type Analysis struct {
	Canonical   []byte // the document's canonical encoding
	RevisionRef string // and its digest
	// Boundaries are the public ports of every Flow revision that was found.
	Boundaries map[target.Flow]Boundary
	// Mappings are all mappings with a known contract at both ends, in order of
	// paths, with how the two compare.
	Mappings []Mapped

	conversions map[string]quantity.Conversion   // of input mappings that fit, by path
	states      map[string]MappingState          // by path
	missing     map[string][]string              // required ports without a mapping, by connectionKey
	values      map[ReportValue]quantity.Value   // of fields that are filled and in order
	contracts   map[ReportValue]quantity.Port    // of fields in order
	shown       map[ReportResultSlot]resultPlace // who maps a slot
}

type resultPlace struct {
	ConnectionKey string
	MappingKey    string
}

// Validate looks at the whole document and returns all its findings, in order of
// paths, which point into the document. Findings of severity info and warning do
// not refuse it. The error is of the machinery alone: of flows or of the encoding.
//
// A connection is built step by step: the original's own example plans a single
// mapping. A required input of the Flow that has no mapping yet, and a mapped
// field that has no value yet, are therefore PX_BINDING_MISSING as a warning
// here, and as an error where the connection is to be run (see Inputs, R4).
func Validate(ctx context.Context, doc Document, flows Flows) (Analysis, outcome.Findings, error) {
	v := newValidator(doc)
	var err error
	if v.Canonical, v.RevisionRef, err = doc.RevisionRef(); err != nil {
		return v.Analysis, nil, err
	}
	v.limits()
	v.order()
	for _, key := range slices.Sorted(maps.Keys(doc.Blocks)) {
		v.block(key)
	}
	keys := slices.Sorted(maps.Keys(doc.Connections))
	if err := v.find(ctx, flows, keys...); err != nil {
		return v.Analysis, nil, err
	}
	for _, key := range keys {
		v.connection(key)
	}
	return v.Analysis, v.sorted(), nil
}

func newValidator(doc Document) *validator {
	return &validator{doc: doc, slots: map[ReportResultSlot]bool{}, Analysis: Analysis{
		Boundaries:  map[target.Flow]Boundary{},
		conversions: map[string]quantity.Conversion{},
		states:      map[string]MappingState{},
		missing:     map[string][]string{},
		values:      map[ReportValue]quantity.Value{},
		contracts:   map[ReportValue]quantity.Port{},
		shown:       map[ReportResultSlot]resultPlace{},
	}}
}

type validator struct {
	doc Document
	Analysis
	slots    map[ReportResultSlot]bool // slots whose contract is in order
	findings outcome.Findings
}

func (v *validator) add(findings outcome.Findings) { v.findings = append(v.findings, findings...) }

// warn adds a finding that does not refuse the document.
func (v *validator) warn(code outcome.Code, path string, params outcome.Params) {
	d := outcome.New(code, path, params)
	d.Severity = outcome.Warning
	v.findings = append(v.findings, d)
}

func (v *validator) sorted() outcome.Findings {
	slices.SortStableFunc(v.findings, func(a, b outcome.Diagnostic) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(v.Mappings, func(a, b Mapped) int { return cmp.Compare(a.Path, b.Path) })
	return v.findings
}

func (v *validator) limits() {
	places := len(v.doc.Blocks)
	for _, b := range v.doc.Blocks {
		switch b := b.(type) {
		case ValuesBlock:
			places += len(b.Fields)
		case ResultsBlock:
			places += len(b.Slots)
		}
	}
	if places > MaxPlaces {
		v.findings.Add(outcome.LimitExceeded, "/blocks", outcome.Params{"limit": MaxPlaces, "observed": places, "of": "blocks_fields_and_slots"})
	}
	if n := len(v.Canonical); n > MaxBytes {
		v.findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxBytes, "observed": n, "of": "bytes"})
	}
}

// order holds blockOrder against the keys of the blocks.
func (v *validator) order() {
	seen := make(map[string]bool, len(v.doc.BlockOrder))
	for i, key := range v.doc.BlockOrder {
		path := fmt.Sprintf("/blockOrder/%d", i)
		if seen[key] {
			v.findings.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "duplicate", "blockKey": key})
		} else if v.doc.Blocks[key] == nil {
			v.findings.Add(outcome.ReferenceUnknown, path, outcome.Params{"blockKey": key})
		}
		seen[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(v.doc.Blocks)) {
		if !seen[key] {
			v.findings.Add(outcome.SchemaInvalid, semantic.Pointer("blocks", key), outcome.Params{"rule": "not_in_block_order", "blockKey": key})
		}
	}
}

func (v *validator) block(key string) {
	switch b := v.doc.Blocks[key].(type) {
	case ValuesBlock:
		for _, name := range slices.Sorted(maps.Keys(b.Fields)) {
			v.field(ReportValue{BlockKey: key, FieldKey: name}, b.Fields[name])
		}
	case TextBlock:
	case ResultsBlock:
		for _, name := range slices.Sorted(maps.Keys(b.Slots)) {
			place := ReportResultSlot{BlockKey: key, SlotKey: name}
			v.slots[place] = v.contract(b.Slots[name].Port, place.path())
		}
	default:
		panic(fmt.Sprintf("report: block %T", b))
	}
}

// path is where a field stands in the document.
func (r ReportValue) path() string {
	return semantic.Pointer("blocks", r.BlockKey, "fields", r.FieldKey)
}

// path is where a slot stands in the document.
func (r ReportResultSlot) path() string {
	return semantic.Pointer("blocks", r.BlockKey, "slots", r.SlotKey)
}

// contract checks a port that stands in a Report, and reports whether it is in
// order. A default would never be taken there.
func (v *validator) contract(p quantity.Port, path string) bool {
	findings := p.Check(path)
	if p.Default != nil {
		findings.Add(outcome.SchemaUnknownField, path+"/default", outcome.Params{"reason": "a_report_has_values_and_no_defaults"})
	}
	v.add(findings)
	return !findings.Refused()
}

func (v *validator) field(place ReportValue, f Field) {
	path := place.path()
	if !v.contract(f.Port, path) {
		return
	}
	v.contracts[place] = f.Port
	if f.Value == nil {
		return
	}
	value, findings := f.Decode(f.Value, path+"/value")
	v.add(findings)
	if !findings.Refused() {
		v.values[place] = value
	}
}

// find asks for the Flow revisions that connections are pinned to.
func (v *validator) find(ctx context.Context, flows Flows, connectionKeys ...string) error {
	var targets []target.Flow
	for _, key := range connectionKeys {
		if t := v.doc.Connections[key].FlowTarget; !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	if targets == nil {
		return nil
	}
	found, err := flows.Boundaries(ctx, targets)
	if err != nil {
		return fmt.Errorf("report: ports of the connected Flows: %w", err)
	}
	maps.Copy(v.Boundaries, found)
	return nil
}

// connection checks one connection against the Flow that it is pinned to.
func (v *validator) connection(key string) {
	c, path := v.doc.Connections[key], semantic.Pointer("connections", key)
	if len(c.Inputs)+len(c.Results) == 0 {
		v.findings.Add(outcome.BindingMissing, path, outcome.Params{"connectionKey": key, "reason": "connection_without_mapping"})
	}
	boundary, known := v.Boundaries[c.FlowTarget]
	if !known {
		v.findings.Add(outcome.TargetNotFound, path+"/flowTarget", outcome.Params{"flowKey": c.FlowTarget.FlowKey, "revisionRef": c.FlowTarget.RevisionRef})
	}
	fed := map[string]string{} // mappingKey by input port
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		m, at := c.Inputs[name], path+semantic.Pointer("inputs", name)
		if _, twice := c.Results[name]; twice {
			v.findings.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "mapping_key_twice", "mappingKey": name})
		}
		if other, twice := fed[m.PortKey]; twice {
			v.findings.Add(outcome.SchemaInvalid, at+"/portKey", outcome.Params{"rule": "port_mapped_twice", "portKey": m.PortKey, "mappingKey": other})
		} else {
			fed[m.PortKey] = name
		}
		v.input(key, name, m, at, boundary, known)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Results)) {
		m, at := c.Results[name], path+semantic.Pointer("results", name)
		if other, twice := v.shown[m.Target]; twice {
			v.findings.Add(outcome.SchemaInvalid, at+"/target", outcome.Params{"rule": "slot_mapped_twice", "blockKey": m.Target.BlockKey, "slotKey": m.Target.SlotKey,
				"connectionKey": other.ConnectionKey, "mappingKey": other.MappingKey})
		} else {
			v.shown[m.Target] = resultPlace{key, name}
		}
		v.result(key, name, m, at, boundary, known)
	}
	for _, port := range slices.Sorted(maps.Keys(boundary.Inputs)) {
		if _, ok := fed[port]; ok || optional(boundary.Inputs[port]) {
			continue
		}
		v.missing[key] = append(v.missing[key], port)
		v.warn(outcome.BindingMissing, path+"/inputs", outcome.Params{"connectionKey": key, "portKey": port, "port": boundary.Inputs[port]})
	}
}

// optional reports whether a Flow's input may be left out.
func optional(p quantity.Port) bool { return p.Default != nil || p.AllowsNull() }

// input checks that every value of a field may enter the port that it feeds.
func (v *validator) input(connectionKey, mappingKey string, m InputMapping, at string, boundary Boundary, known bool) {
	v.states[at] = Unchecked
	field, there := v.doc.field(m.Source)
	if !there {
		v.states[at] = Dangling
		v.findings.Add(outcome.ReferenceUnknown, at+"/source", outcome.Params{"blockKey": m.Source.BlockKey, "fieldKey": m.Source.FieldKey})
	}
	port, exists := boundary.Inputs[m.PortKey]
	if known && !exists {
		v.states[at] = Dangling
		v.unknownPort(connectionKey, m.PortKey, "input", at)
	}
	contract, sound := v.contracts[m.Source]
	if !exists || !sound {
		return
	}
	mapped := Mapped{Path: at, ConnectionKey: connectionKey, MappingKey: mappingKey, Direction: Input,
		FlowTarget: v.doc.Connections[connectionKey].FlowTarget, PortKey: m.PortKey, Source: m.Source, Contract: contract, Port: port}
	conversion, findings := quantity.Fits(contract, port, at)
	v.compare(mapped, findings)
	if findings.Refused() {
		return
	}
	v.conversions[at] = conversion
	if field.Value == nil {
		v.states[at] = Unfilled
		v.warn(outcome.BindingMissing, at+"/source", outcome.Params{"reason": "field_without_value", "blockKey": m.Source.BlockKey, "fieldKey": m.Source.FieldKey, "portKey": m.PortKey})
	}
}

// result checks that every value of a port may be shown in the slot.
func (v *validator) result(connectionKey, mappingKey string, m ResultMapping, at string, boundary Boundary, known bool) {
	v.states[at] = Unchecked
	slot, there := v.doc.slot(m.Target)
	if !there {
		v.states[at] = Dangling
		v.findings.Add(outcome.ReferenceUnknown, at+"/target", outcome.Params{"blockKey": m.Target.BlockKey, "slotKey": m.Target.SlotKey})
	}
	port, exists := boundary.Results[m.PortKey]
	if known && !exists {
		v.states[at] = Dangling
		v.unknownPort(connectionKey, m.PortKey, "result", at)
	}
	if !exists || !v.slots[m.Target] {
		return
	}
	mapped := Mapped{Path: at, ConnectionKey: connectionKey, MappingKey: mappingKey, Direction: Result,
		FlowTarget: v.doc.Connections[connectionKey].FlowTarget, PortKey: m.PortKey, Target: m.Target, Contract: slot.Port, Port: port}
	_, findings := quantity.Fits(port, slot.Port, at)
	v.compare(mapped, findings)
}

func (v *validator) unknownPort(connectionKey, portKey, direction, at string) {
	flow := v.doc.Connections[connectionKey].FlowTarget
	v.findings.Add(outcome.ReferenceUnknown, at+"/portKey", outcome.Params{"portKey": portKey, "direction": direction, "flowKey": flow.FlowKey, "revisionRef": flow.RevisionRef})
}

// compare notes how the two ends of a mapping compare. Findings about them show
// the Report's place and the Flow's port side by side, each with its contract (R2).
func (v *validator) compare(m Mapped, findings outcome.Findings) {
	m.Checks = checksOf(m, findings)
	v.Mappings = append(v.Mappings, m)
	v.states[m.Path] = stateOf(findings)
	for _, d := range findings {
		params := maps.Clone(d.Params)
		delete(params, "producer")
		delete(params, "consumer")
		if m.Direction == Input {
			params["source"] = outcome.Params{"kind": m.Source.Variant(), "blockKey": m.Source.BlockKey, "fieldKey": m.Source.FieldKey, "contract": m.Contract}
		} else {
			params["destination"] = outcome.Params{"kind": m.Target.Variant(), "blockKey": m.Target.BlockKey, "slotKey": m.Target.SlotKey, "contract": m.Contract}
		}
		params["port"] = outcome.Params{"flowKey": m.FlowTarget.FlowKey, "revisionRef": m.FlowTarget.RevisionRef, "direction": m.Direction, "portKey": m.PortKey, "contract": m.Port}
		d.Params = params
		v.findings = append(v.findings, d)
	}
}

func stateOf(findings outcome.Findings) MappingState {
	switch {
	case findings.Refused():
		return Mismatch
	case slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool { return d.Code == outcome.UnitConverted }):
		return Converted
	}
	return Connected
}

// Inputs returns the one input payload of a saved connection (R4): typed values
// by the portKey of the Flow, in the Flow's own units, each converted from its
// field. A table or a list is one value of one Run. An optional input without a
// mapping is left out, and takes the Flow's default there.
//
// Everything that Validate says of the connection and of the fields that it maps
// is said again, against the Flow as it is found now, and what was a warning is
// an error: a required input without mapping, a mapped field without value. A
// value that breaks a constraint of the port is PX_CONSTRAINT_VIOLATED at the
// field's value, with the mapping and port in its params. Paths point into the document, but for a connectionKey that names
// nothing: that is /connectionKey of the request.
func Inputs(ctx context.Context, doc Document, connectionKey string, flows Flows) (map[string]canon.Raw, outcome.Findings, error) {
	inputs, _, findings, err := Given(ctx, doc, connectionKey, flows, nil)
	return inputs, findings, err
}

// Given is Inputs for a caller who sets some ports itself, such as the cases of a
// Batch: of these ports the connection gives what it has, and what it lacks or has
// wrong is no finding. It returns the boundary of the Flow, too.
func Given(ctx context.Context, doc Document, connectionKey string, flows Flows, set map[string]bool) (map[string]canon.Raw, Boundary, outcome.Findings, error) {
	v := newValidator(doc)
	c, ok := doc.Connections[connectionKey]
	if !ok {
		v.findings.Add(outcome.ReferenceUnknown, "/connectionKey", outcome.Params{"connectionKey": connectionKey})
		return nil, Boundary{}, v.findings, nil
	}
	looked := map[string]bool{} // a place that is mapped twice is told once
	for _, m := range c.Inputs {
		if f, ok := doc.field(m.Source); ok && !looked[m.Source.path()] {
			looked[m.Source.path()] = true
			v.field(m.Source, f)
		}
	}
	for _, m := range c.Results {
		if s, ok := doc.slot(m.Target); ok && !looked[m.Target.path()] {
			looked[m.Target.path()] = true
			v.slots[m.Target] = v.contract(s.Port, m.Target.path())
		}
	}
	if err := v.find(ctx, flows, connectionKey); err != nil {
		return nil, Boundary{}, nil, err
	}
	v.connection(connectionKey)
	v.findings = slices.DeleteFunc(v.findings, func(d outcome.Diagnostic) bool {
		port, _ := d.Params["portKey"].(string)
		return d.Severity == outcome.Warning && set[port]
	})
	for i := range v.findings {
		if v.findings[i].Severity == outcome.Warning {
			v.findings[i].Severity = outcome.Error
		}
	}
	inputs := make(map[string]canon.Raw, len(c.Inputs))
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		m, at := c.Inputs[name], semantic.Pointer("connections", connectionKey, "inputs", name)
		conversion, fits := v.conversions[at]
		value, filled := v.values[m.Source]
		if !fits || !filled {
			continue
		}
		value, findings := conversion.Apply(value, m.Source.path()+"/value")
		if set[m.PortKey] && findings.Refused() {
			continue
		}
		for _, d := range findings {
			d.Params = maps.Clone(d.Params)
			maps.Copy(d.Params, outcome.Params{"connectionKey": connectionKey, "mappingKey": name, "portKey": m.PortKey})
			v.findings = append(v.findings, d)
		}
		if findings.Refused() {
			continue
		}
		text, err := v.Boundaries[c.FlowTarget].Inputs[m.PortKey].Encode(value)
		if err != nil {
			return nil, Boundary{}, nil, fmt.Errorf("report: value for port %s: %w", m.PortKey, err)
		}
		inputs[m.PortKey] = text
	}
	if findings := v.sorted(); findings.Refused() {
		return nil, Boundary{}, findings, nil
	}
	return inputs, v.Boundaries[c.FlowTarget], v.findings, nil
}
