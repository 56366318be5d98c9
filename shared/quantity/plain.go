package quantity

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Plain returns what a Function is given of a value: JSON without units, each number
// in the unit that the port declares. Text is canonical.
//
//	number, integer, boolean, string, enum   1.5
//	the same with a shape                    [[1, 2], [3, 4]]
//	list                                     [1, 2, 3]
//	record                                   {"span": 1}
//	table                                    [{"case": "a", "moment": 3.5}, …], a row each
//	null, of any type                        null
//
// It fails for a value that is not one of the port, and for a port that holds files,
// which have no plain form (see HasPlain).
func (p Port) Plain(v Value) (canon.Raw, error) {
	tree, err := p.plainTree(v)
	if err != nil {
		return nil, err
	}
	return canon.Encode(tree)
}

// HasPlain reports whether the values of the port have a plain form. Files have
// none: a sandbox gets no stored bytes, and makes none.
func (p Port) HasPlain() bool {
	switch p.Type {
	case FileType:
		return false
	case ListType:
		return p.Of != nil && p.Of.HasPlain()
	case RecordType:
		for _, field := range p.Fields {
			if !field.HasPlain() {
				return false
			}
		}
	}
	return true
}

func (p Port) plainTree(v Value) (any, error) {
	switch v := v.(type) {
	case List:
		if p.Type != ListType {
			return p.bare(v)
		}
		if p.Of == nil {
			return nil, fmt.Errorf("quantity: plain: a list port without element type")
		}
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = p.Of.plainTree(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case Record:
		if p.Type != RecordType || len(v) != len(p.Fields) {
			return nil, fmt.Errorf("quantity: plain: a record of %d fields into a port of type %s", len(v), p.Type)
		}
		out := make(map[string]any, len(v))
		for key, item := range v {
			field, ok := p.Fields[key]
			if !ok {
				return nil, fmt.Errorf("quantity: plain: record has no field %q", key)
			}
			var err error
			if out[key], err = field.plainTree(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case Table:
		if p.Type != TableType || len(v.Columns) != len(p.Columns) {
			return nil, fmt.Errorf("quantity: plain: table has %d columns, not %d", len(v.Columns), len(p.Columns))
		}
		cells := p.cells()
		out := make([]any, len(v.Rows))
		for r, row := range v.Rows {
			if len(row) != len(cells) {
				return nil, fmt.Errorf("quantity: plain: row %d has %d cells, not %d", r, len(row), len(cells))
			}
			object := make(map[string]any, len(cells))
			for i, cell := range row {
				var err error
				if object[p.Columns[i].ColumnKey], err = cells[i].bare(cell); err != nil {
					return nil, err
				}
			}
			out[r] = object
		}
		return out, nil
	case File:
		return nil, fmt.Errorf("quantity: plain: a file has no plain form")
	}
	return p.bare(v)
}

// cells returns the ports of a table's columns.
func (p Port) cells() []Port {
	out := make([]Port, len(p.Columns))
	for i, c := range p.Columns {
		out[i] = c.Port()
	}
	return out
}

// DecodePlain reads what a Function gave for a port, in the form of Plain, and checks
// all of the contract: type, shape, nullability, constraints, and that numbers are
// finite in binary64. It repairs nothing: true is no number, "1" is none either, and
// a member that the port does not name is a finding. Every finding is told, up to
// 100, at path with the place in the plain value behind it. The Value is meaningful
// only where nothing was found.
func (p Port) DecodePlain(raw canon.Raw, path string) (Value, outcome.Findings) {
	var f finder
	v := p.decodePlain(&f, raw, path, 1)
	if f.findings.Refused() {
		return nil, f.findings
	}
	return v, f.findings
}

func (p Port) decodePlain(f *finder, raw canon.Raw, path string, depth int) Value {
	if depth > MaxPortDepth {
		f.add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxPortDepth, "observed": depth, "of": "portDepth"})
		return nil
	}
	if raw.Kind() == 'n' {
		if !p.AllowsNull() {
			f.add(outcome.NullabilityMismatch, path, outcome.Params{"expected": p.Type, "found": "null"})
		}
		return Null{}
	}
	if !p.Shape.IsScalar() {
		return p.plainArray(f, raw, path)
	}
	switch p.Type {
	case RecordType:
		members, ok := f.members(raw, path, p.Type)
		if !ok {
			return nil
		}
		out := make(Record, len(p.Fields))
		eachMember(f, members, path, slices.Sorted(maps.Keys(p.Fields)), "record_has_no_such_field", func(key string, item canon.Raw) {
			out[key] = p.Fields[key].decodePlain(f, item, pointer(path, key), depth+1)
		})
		return out
	case ListType:
		items, ok := f.elements(raw, path, p.Type)
		if !ok || !p.fewEnough(f, len(items), path) {
			return nil
		}
		if p.Of == nil {
			f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type, "found": "list without element type"})
			return nil
		}
		p.checkCount(f, len(items), path)
		out := make(List, len(items))
		for i, item := range items {
			out[i] = p.Of.decodePlain(f, item, index(path, i), depth+1)
		}
		return out
	case TableType:
		return p.plainTable(f, raw, path)
	case FileType:
		f.add(outcome.TypeMismatch, path, outcome.Params{"expected": p.Type, "reason": "files_have_no_plain_form"})
		return nil
	}
	return p.plainCell(f, raw, p.parsedOrOne(), path)
}

// eachMember visits the members that an object shall have, and finds those that are
// missing or too many.
func eachMember(f *finder, members map[string]canon.Raw, path string, keys []string, unknown string, visit func(key string, item canon.Raw)) {
	known := 0
	for _, key := range keys {
		item, ok := members[key]
		if !ok {
			f.add(outcome.SchemaInvalid, pointer(path, key), outcome.Params{"rule": "required"})
			continue
		}
		known++
		visit(key, item)
	}
	if known == len(members) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(keys, key) {
			// The name is a Function's own text: it is not told.
			f.add(outcome.SchemaUnknownField, path, outcome.Params{"reason": unknown})
		}
	}
}

func (p Port) plainArray(f *finder, raw canon.Raw, path string) Value {
	return p.array(f, raw, path, p.Shape.sizes(), func(raw canon.Raw, path string) Value { return p.plainCell(f, raw, p.parsedOrOne(), path) })
}

func (p Port) plainTable(f *finder, raw canon.Raw, path string) Value {
	rows, ok := f.elements(raw, path, p.Type)
	if !ok || !p.fewEnough(f, len(rows), path) {
		return nil
	}
	p.checkCount(f, len(rows), path)
	cells, keys, units := p.cells(), make([]string, len(p.Columns)), make([]Unit, len(p.Columns))
	at := make(map[string]int, len(p.Columns))
	for i, c := range p.Columns {
		keys[i], units[i], at[c.ColumnKey] = c.ColumnKey, cells[i].parsedOrOne(), i
	}
	out := Table{Columns: p.Columns, Rows: make([][]Value, len(rows))}
	for r, item := range rows {
		rowPath := index(path, r)
		members, ok := f.members(item, rowPath, "row")
		if !ok {
			continue
		}
		row := make([]Value, len(cells))
		eachMember(f, members, rowPath, keys, "table_has_no_such_column", func(key string, cell canon.Raw) {
			i := at[key]
			row[i] = cells[i].plainCell(f, cell, units[i], pointer(rowPath, key))
		})
		out.Rows[r] = row
	}
	return out
}

// plainCell reads a scalar in the port's own unit.
func (p Port) plainCell(f *finder, raw canon.Raw, unit Unit, path string) Value {
	if p.Constraints == nil {
		if v, ok := p.plainScalar(raw, unit, unit); ok {
			return v
		}
	}
	before := len(f.findings)
	v := p.decodeScalar(f, raw, unit, path)
	if v != nil && len(f.findings) == before && !f.full {
		element := p
		element.Shape = Scalar
		element.checkValue(f, v, path, false)
	}
	return v
}
