package quantity

import (
	"fmt"
	"math"

	"github.com/pxhost/pxhost/shared/canon"
)

// Encode returns the canonical typed value of v, in the form that Decode reads,
// in the port's unit. It fails for a value that is not one of the port.
func (p Port) Encode(v Value) (canon.Raw, error) {
	tree, err := p.tree(v)
	if err != nil {
		return nil, err
	}
	text, err := canon.Encode(tree)
	return text, err
}

type wireValue struct {
	Value any    `json:"value"`
	Unit  string `json:"unit,omitzero"`
}

type wireColumn struct {
	ColumnKey string `json:"columnKey"`
	Type      Type   `json:"type"`
	Unit      string `json:"unit,omitzero"`
}

type wireTable struct {
	Columns []wireColumn `json:"columns"`
	Rows    [][]any      `json:"rows"`
}

func (p Port) tree(v Value) (any, error) {
	if _, null := v.(Null); null {
		return wireValue{}, nil
	}
	unit := ""
	if e := p.element(); e.Type == NumberType {
		unit = e.Unit
	}
	switch v := v.(type) {
	case List:
		if p.Type != ListType || p.Of == nil || p.Of.Type.scalar() {
			bare, err := p.element().bare(v)
			return wireValue{bare, unit}, err
		}
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = p.Of.tree(item); err != nil {
				return nil, err
			}
		}
		return wireValue{Value: out}, nil
	case Record:
		if p.Type != RecordType || len(v) != len(p.Fields) {
			return nil, fmt.Errorf("quantity: encode: a record of %d fields into a port of type %s", len(v), p.Type)
		}
		out := make(map[string]any, len(v))
		for key, item := range v {
			field, ok := p.Fields[key]
			if !ok {
				return nil, fmt.Errorf("quantity: encode: record has no field %q", key)
			}
			var err error
			if out[key], err = field.tree(item); err != nil {
				return nil, err
			}
		}
		return wireValue{Value: out}, nil
	case Table:
		if p.Type != TableType || len(v.Columns) != len(p.Columns) {
			return nil, fmt.Errorf("quantity: encode: table has %d columns, not %d", len(v.Columns), len(p.Columns))
		}
		out := wireTable{Columns: make([]wireColumn, len(p.Columns)), Rows: make([][]any, len(v.Rows))}
		cells := make([]Port, len(p.Columns))
		for i, c := range p.Columns {
			out.Columns[i], cells[i] = wireColumn{c.ColumnKey, c.Type, c.Unit}, c.Port()
		}
		for r, row := range v.Rows {
			if len(row) != len(cells) {
				return nil, fmt.Errorf("quantity: encode: row %d has %d cells, not %d", r, len(row), len(cells))
			}
			out.Rows[r] = make([]any, len(row))
			for i, cell := range row {
				var err error
				if out.Rows[r][i], err = cells[i].bare(cell); err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	case File:
		if p.Type != FileType {
			return nil, fmt.Errorf("quantity: encode: a file into a port of type %s", p.Type)
		}
		return wireValue{Value: v}, nil
	}
	bare, err := p.bare(v)
	return wireValue{bare, unit}, err
}

// bare returns a scalar, or nested arrays of them, without unit.
func (p Port) bare(v Value) (any, error) {
	switch v := v.(type) {
	case Null:
		return nil, nil
	case Number:
		u, ok := p.ParsedUnit()
		if !ok || !v.Unit.Convertible(u) {
			return nil, fmt.Errorf("quantity: encode: a number in %s into a port of type %s, unit %q", v.Unit, p.Type, p.Unit)
		}
		x := v.In(u).Magnitude
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, fmt.Errorf("quantity: encode: not a finite number")
		}
		return x, nil
	case Integer:
		if p.Type == IntegerType {
			return int64(v), nil
		}
	case Boolean:
		if p.Type == BooleanType {
			return bool(v), nil
		}
	case Text:
		if p.Type == StringType || p.Type == EnumType {
			return string(v), nil
		}
	case List:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = p.bare(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("quantity: encode: a value of another type into a port of type %s", p.Type)
}
