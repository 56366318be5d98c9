package batch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
)

// MaxCells is how many cells a merged table may have, its keys included.
const MaxCells = 1_000_000

// CaseColumn is the first column of a merged table.
const CaseColumn = "caseKey"

// The result keys of a merge. A port of one of these names cannot be merged beside
// it.
const (
	TableKey     = "table"
	GoverningKey = "governing"
)

// A Connection is what a Batch repeats: the public ports of one exact Flow
// revision, and what a Report gives to them and takes from them.
type Connection struct {
	Inputs, Results map[string]quantity.Port
	// Given are the typed values that the connection feeds by portKey.
	Given map[string]canon.Raw
	// Mapped are the portKeys of the results that the connection shows.
	Mapped []string
}

// A Plan is a command that holds against its connection.
type Plan struct {
	Cases []Case // in order; inputs canonical, in the units of the ports
	Merge Resolved
}

// A Resolved merge is one with everything decided that its command leaves to the
// connection. It is stored with the Batch.
type Resolved struct {
	Kind    string   `json:"kind"`              // the Variant of a Merge
	Columns []Column `json:"columns,omitempty"` // of a table, after caseKey
	By      Extreme  `json:"by,omitzero"`
	Ports   []Chosen `json:"ports,omitempty"`  // that an envelope looks at, in order
	Mapped  []Chosen `json:"mapped,omitempty"` // that an envelope takes over from the governing case
}

// A Column is one column of a merged table.
type Column struct {
	ColumnKey string        `json:"columnKey"`
	From      Source        `json:"from"`
	Port      quantity.Port `json:"port"`
}

// A Source is where a column's cells come from.
type Source string

// The sources.
const (
	FromInput  Source = "input"
	FromResult Source = "result"
)

// A Chosen port is one of the Flow's public results.
type Chosen struct {
	PortKey string        `json:"portKey"`
	Port    quantity.Port `json:"port"`
}

// Value is the contract of what an envelope finds: in the unit of its first port.
func (r Resolved) Value() quantity.Port {
	if len(r.Ports) == 0 {
		return quantity.Port{}
	}
	first := r.Ports[0].Port
	if first.Type == quantity.IntegerType {
		for _, p := range r.Ports { // numbers beside integers have no dimension
			if p.Port.Type == quantity.NumberType {
				first.Type, first.Unit = quantity.NumberType, quantity.One.String()
			}
		}
	}
	return quantity.Port{Type: first.Type, Unit: first.Unit, QuantityKind: first.QuantityKind}
}

// Needs returns the results that the merge reads of every case, each once.
func (r Resolved) Needs() []string {
	needs := map[string]bool{}
	for _, c := range r.Columns {
		if c.From == FromResult {
			needs[c.ColumnKey] = true
		}
	}
	for _, p := range r.Ports {
		needs[p.PortKey] = true
	}
	return slices.Sorted(maps.Keys(needs))
}

// Compile holds a command against the connection that it repeats. Paths of findings
// begin with at, the place of the command in the request. All are reported, up to
// what one answer lists.
func (c RunReportFlowBatch) Compile(connection Connection, at string) (Plan, outcome.Findings) {
	f := &finder{}
	p := Plan{Cases: make([]Case, 0, len(c.Cases))}
	if n := len(c.Cases); n == 0 || n > MaxCases {
		f.add(outcome.LimitExceeded, at+"/cases", outcome.Params{"limit": MaxCases, "observed": n, "of": "cases"})
		return p, f.result()
	}
	first, set := make(map[string]int, len(c.Cases)), map[string]bool{}
	for i, one := range c.Cases {
		path := at + "/cases/" + strconv.Itoa(i)
		if j, ok := first[one.CaseKey]; ok {
			f.add(outcome.SchemaInvalid, path+"/caseKey", outcome.Params{"rule": "distinct", "first": at + "/cases/" + strconv.Itoa(j) + "/caseKey"})
		} else {
			first[one.CaseKey] = i
		}
		p.Cases = append(p.Cases, f.inputs(one, connection, path+"/inputs"))
		for key := range one.Inputs {
			set[key] = true
		}
	}
	switch m := c.Merge.(type) {
	case None:
		p.Merge = Resolved{Kind: m.Variant()}
	case Table:
		p.Merge = f.table(m, connection, set, len(c.Cases), at+"/merge")
	case Envelope:
		p.Merge = f.envelope(m, connection, at+"/merge")
	default:
		f.add(outcome.SchemaInvalid, at+"/merge", outcome.Params{"rule": "required"})
	}
	return p, f.result()
}

// finder collects findings up to the most that one answer lists.
type finder struct {
	list   outcome.Findings
	number int
}

func (f *finder) add(code outcome.Code, path string, params outcome.Params) {
	if f.number++; f.number <= schema.MaxFindings {
		f.list.Add(code, path, params)
	}
}

func (f *finder) all(findings outcome.Findings) {
	for _, d := range findings {
		if d.Severity != outcome.Error {
			continue
		}
		if f.number++; f.number <= schema.MaxFindings {
			f.list = append(f.list, d)
		}
	}
}

func (f *finder) result() outcome.Findings {
	if f.number > schema.MaxFindings {
		list := f.list[:schema.MaxFindings-1]
		list.Add(outcome.LimitExceeded, "", outcome.Params{"limit": schema.MaxFindings, "observed": f.number, "of": "diagnostics"})
		return list
	}
	return f.list
}

// inputs checks what a case sets, and that nothing is left open.
func (f *finder) inputs(one Case, c Connection, path string) Case {
	out := Case{one.CaseKey, make(map[string]canon.Raw, len(one.Inputs))}
	for _, key := range slices.Sorted(maps.Keys(one.Inputs)) {
		at := path + "/" + schema.Escape(key)
		port, ok := c.Inputs[key]
		if !ok {
			f.add(outcome.ReferenceUnknown, at, outcome.Params{"portKey": key})
			continue
		}
		value, found := port.Decode(one.Inputs[key], at)
		if found.Refused() {
			f.all(found)
			continue
		}
		text, err := port.Encode(value)
		if err != nil {
			f.add(outcome.TypeMismatch, at, outcome.Params{"consumer": port})
			continue
		}
		out.Inputs[key] = text
	}
	for _, key := range slices.Sorted(maps.Keys(c.Inputs)) {
		port := c.Inputs[key]
		_, set := one.Inputs[key]
		_, given := c.Given[key]
		if !set && !given && port.Default == nil && !port.AllowsNull() {
			f.add(outcome.BindingMissing, path, outcome.Params{"portKey": key, "consumer": port})
		}
	}
	return out
}

func scalar(p quantity.Port) bool {
	switch p.Type {
	case quantity.NumberType, quantity.IntegerType, quantity.BooleanType, quantity.StringType, quantity.EnumType:
		return p.Shape.IsScalar()
	}
	return false
}

// notScalar is the finding about a port that no cell can hold.
func (f *finder) notScalar(path string, key string, p quantity.Port) {
	code := outcome.TypeMismatch
	if !p.Shape.IsScalar() {
		code = outcome.ShapeMismatch
	}
	f.add(code, path, outcome.Params{"portKey": key, "port": p, "reason": "not_scalar"})
}

func (f *finder) table(m Table, c Connection, set map[string]bool, cases int, path string) Resolved {
	r := Resolved{Kind: m.Variant()}
	taken := map[string]string{CaseColumn: path}
	column := func(from Source, key, at string, ports map[string]quantity.Port, chosen bool) {
		port, ok := ports[key]
		switch first, twice := taken[key]; {
		case !ok && !chosen: // of an input that no port takes, its case says so
		case !ok:
			f.add(outcome.ReferenceUnknown, at, outcome.Params{"portKey": key})
		case !scalar(port):
			if chosen {
				f.notScalar(at, key, port)
			}
		case twice:
			f.add(outcome.SchemaInvalid, at, outcome.Params{"rule": "distinct", "columnKey": key, "first": first})
		default:
			taken[key] = at
			port.Default = nil
			r.Columns = append(r.Columns, Column{key, from, port})
		}
	}
	each := func(from Source, keys, otherwise []string, member string, ports map[string]quantity.Port) {
		if keys != nil {
			for i, key := range keys {
				column(from, key, fmt.Sprintf("%s/%s/%d", path, member, i), ports, true)
			}
			return
		}
		slices.Sort(otherwise)
		for _, key := range slices.Compact(otherwise) {
			column(from, key, path, ports, false)
		}
	}
	each(FromInput, m.Inputs, slices.Collect(maps.Keys(set)), "inputs", c.Inputs)
	each(FromResult, m.Results, slices.Clone(c.Mapped), "results", c.Results)
	if n := cases * (len(r.Columns) + 1); n > MaxCells {
		f.add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxCells, "observed": n, "of": "cells"})
	}
	return r
}

func (f *finder) envelope(m Envelope, c Connection, path string) Resolved {
	r := Resolved{Kind: m.Variant(), By: m.By}
	taken := map[string]string{}
	for i, key := range m.PortKeys {
		at := fmt.Sprintf("%s/portKeys/%d", path, i)
		port, ok := c.Results[key]
		if first, twice := taken[key]; twice {
			f.add(outcome.SchemaInvalid, at, outcome.Params{"rule": "distinct", "first": first})
			continue
		}
		taken[key] = at
		switch {
		case !ok:
			f.add(outcome.ReferenceUnknown, at, outcome.Params{"portKey": key})
			continue
		case !scalar(port):
			f.notScalar(at, key, port)
			continue
		case port.Type != quantity.NumberType && port.Type != quantity.IntegerType:
			f.add(outcome.TypeMismatch, at, outcome.Params{"portKey": key, "port": port, "reason": "no_order"})
			continue
		case port.AllowsNull():
			f.add(outcome.NullabilityMismatch, at, outcome.Params{"portKey": key, "port": port})
			continue
		}
		if unit, _ := port.ParsedUnit(); m.By == AbsMax && unit.Absolute() {
			f.add(outcome.UnitMismatch, at, outcome.Params{"portKey": key, "port": port, "reason": "absolute_temperature"})
			continue
		}
		if len(r.Ports) > 0 && !ordered(r.Ports[0].Port, port) {
			f.add(outcome.UnitMismatch, at, outcome.Params{"portKey": key, "port": port, "firstPortKey": r.Ports[0].PortKey, "firstPort": r.Ports[0].Port})
			continue
		}
		r.Ports = append(r.Ports, Chosen{key, port})
	}
	mapped := slices.Sorted(slices.Values(c.Mapped))
	for _, key := range slices.Compact(mapped) {
		if key == GoverningKey {
			f.add(outcome.SchemaInvalid, path, outcome.Params{"rule": "distinct", "resultKey": key})
		} else if port, ok := c.Results[key]; ok {
			r.Mapped = append(r.Mapped, Chosen{key, port})
		}
	}
	return r
}

// ordered reports whether values of the two ports have one order: units of one
// dimension, and the same quantity kind where both name one. An integer is a number
// without dimension.
func ordered(a, b quantity.Port) bool {
	u, _ := a.ParsedUnit()
	v, _ := b.ParsedUnit()
	return u.Convertible(v) && (a.QuantityKind == "" || b.QuantityKind == "" || a.QuantityKind == b.QuantityKind)
}

// Payload is the one input payload of a case: what it sets over what the connection
// gives.
func Payload(given, set map[string]canon.Raw) map[string]canon.Raw {
	out := make(map[string]canon.Raw, len(given)+len(set))
	maps.Copy(out, given)
	maps.Copy(out, set)
	return out
}
