package component

import (
	"context"
	"slices"
	"sort"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// LookupSettings are the settings of px.lookup: an input named as the key column,
// and a result named as each result column.
type LookupSettings struct {
	Table         LookupTable  `json:"table"`
	KeyColumn     string       `json:"keyColumn" schema:"pattern=key" desc:"searched column, and the input; numbers ascend"`
	ResultColumns []string     `json:"resultColumns" schema:"minItems=1,maxItems=64" desc:"a result each"`
	Method        LookupMethod `json:"method"`
	OutOfRange    RangePolicy  `json:"outOfRange" desc:"outside the keys; exact: error"`
}

// A LookupTable is a table that stands in the settings.
type LookupTable struct {
	Columns []quantity.Column `json:"columns" schema:"minItems=1"`
	Rows    [][]canon.Raw     `json:"rows" schema:"minItems=1,maxItems=1000"`
}

// Enum returns the methods, for package schema.
func (LookupMethod) Enum() []string { return []string{"exact", "linear"} }

// Enum returns the policies, for package schema.
func (RangePolicy) Enum() []string { return []string{"error", "clamp"} }

// LookupMethod says how a key finds its row.
type LookupMethod string

// RangePolicy says what happens outside of the table.
type RangePolicy string

// The methods and policies of px.lookup.
const (
	LookupExact  LookupMethod = "exact"
	LookupLinear LookupMethod = "linear"
	RangeError   RangePolicy  = "error"
	RangeClamp   RangePolicy  = "clamp"
)

var lookup = definition{
	key: "px.lookup", version: 1,
	label: target.Label{"en": "Lookup table", "ko": "표 조회"},
	description: "Looks a key up in a table that stands in the settings: the exact row (number, integer, text), or linear interpolation between numeric rows. " +
		"What happens outside of the table is stated: an error, or the end row. Choose it for design aids, section properties and code tables.",
	settings: typeOf[LookupSettings](),
	example: `{"keyColumn":"span","method":"linear","outOfRange":"error","resultColumns":["moment"],"table":{"columns":[{"columnKey":"span","type":"number","unit":"ft"},` +
		`{"columnKey":"moment","quantityKind":"moment","type":"number","unit":"kip*ft"}],"rows":[[40,449.8],[60,806.5],[80,1164.9]]}}`,
	compile: compileLookup,
}

func compileLookup(raw canon.Raw) (*program, outcome.Findings) {
	var f outcome.Findings
	s := decode[LookupSettings](&f, raw)
	if s == nil {
		return nil, f
	}
	if s.OutOfRange == RangeClamp && s.Method == LookupExact {
		f.Add(outcome.SchemaInvalid, "/outOfRange", outcome.Params{"rule": "exact_takes_error_only"})
	}
	port := quantity.Port{Type: quantity.TableType, Columns: s.Table.Columns}
	f = append(f, port.Check("/table")...)
	for i, c := range s.Table.Columns {
		if c.Nullable != nil && *c.Nullable {
			f.Add(outcome.SchemaInvalid, index("/table/columns", i)+"/nullable", outcome.Params{"rule": "lookup_has_no_null"})
		}
	}
	find := func(key string) int {
		return slices.IndexFunc(s.Table.Columns, func(c quantity.Column) bool { return c.ColumnKey == key })
	}
	key := find(s.KeyColumn)
	if key < 0 {
		f.Add(outcome.ReferenceUnknown, "/keyColumn", outcome.Params{"reason": "table_has_no_such_column"})
	}
	results := map[string]quantity.Port{}
	var columns []int
	for i, name := range s.ResultColumns {
		at, j := index("/resultColumns", i), find(name)
		_, twice := results[name]
		switch {
		case j < 0:
			f.Add(outcome.ReferenceUnknown, at, outcome.Params{"reason": "table_has_no_such_column"})
			continue
		case twice:
			f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "duplicate"})
		case s.Method == LookupLinear && s.Table.Columns[j].Type != quantity.NumberType:
			f.Add(outcome.TypeMismatch, at, outcome.Params{"reason": "linear_takes_numbers", "expected": quantity.NumberType, "found": s.Table.Columns[j].Type})
		}
		results[name] = scalarPort(s.Table.Columns[j])
		columns = append(columns, j)
	}
	if f.Refused() {
		return nil, f
	}
	numeric := s.Table.Columns[key].Type == quantity.NumberType || s.Table.Columns[key].Type == quantity.IntegerType
	if s.Method == LookupLinear && s.Table.Columns[key].Type != quantity.NumberType {
		f.Add(outcome.TypeMismatch, "/keyColumn", outcome.Params{"reason": "linear_takes_numbers", "expected": quantity.NumberType, "found": s.Table.Columns[key].Type})
		return nil, f
	}
	if len(s.Table.Rows) < 2 && s.Method == LookupLinear {
		f.Add(outcome.SchemaInvalid, "/table/rows", outcome.Params{"rule": "minItems", "limit": 2, "observed": len(s.Table.Rows)})
		return nil, f
	}
	rows := lookupRows(&f, port, s.Table)
	if f.Refused() {
		return nil, f
	}
	exact := map[any]int{}
	for i, row := range rows {
		at := index(index("/table/rows", i), key)
		if _, twice := exact[lookupKey(row[key])]; twice {
			f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "duplicate"})
		} else if numeric && i > 0 && magnitude(row[key]) < magnitude(rows[i-1][key]) {
			f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "keys_must_ascend"})
		}
		exact[lookupKey(row[key])] = i
	}
	if f.Refused() {
		return nil, f
	}
	answer := func(cell func(column int) quantity.Value) map[string]quantity.Value {
		out := make(map[string]quantity.Value, len(columns))
		for _, j := range columns {
			out[s.Table.Columns[j].ColumnKey] = cell(j)
		}
		return out
	}
	run := func(_ context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
		wanted := in[s.KeyColumn]
		if i, ok := exact[lookupKey(wanted)]; ok {
			return answer(func(j int) quantity.Value { return rows[i][j] }), nil
		}
		if s.Method == LookupExact {
			return nil, failed("/inputBindings/"+s.KeyColumn, "key_is_not_in_the_table", nil)
		}
		x := magnitude(wanted)
		after := sort.Search(len(rows), func(i int) bool { return magnitude(rows[i][key]) > x })
		if after == 0 || after == len(rows) {
			if s.OutOfRange == RangeError {
				return nil, failed("/inputBindings/"+s.KeyColumn, "key_is_out_of_range", nil)
			}
			end := min(after, len(rows)-1)
			return answer(func(j int) quantity.Value { return rows[end][j] }), nil
		}
		a, b := rows[after-1], rows[after]
		return answer(func(j int) quantity.Value {
			return between(x, magnitude(a[key]), magnitude(b[key]), a[j].(quantity.Number), b[j].(quantity.Number))
		}), nil
	}
	return &program{Contract{map[string]quantity.Port{s.KeyColumn: scalarPort(s.Table.Columns[key])}, results}, run}, f
}

// between interpolates in the column's own unit, so that a temperature in degF
// is interpolated as the engineer reads it. Each operation rounds by itself.
func between(x, x0, x1 float64, y0, y1 quantity.Number) quantity.Value {
	t := float64(x-x0) / float64(x1-x0)
	y := y0.Magnitude + float64(t*float64(y1.Magnitude-y0.Magnitude))
	return quantity.Number{Magnitude: y + 0, Unit: y0.Unit}
}

func scalarPort(c quantity.Column) quantity.Port {
	p := c.Port()
	p.Shape = quantity.Scalar
	return p
}

// magnitude of a number or an integer, in its own unit.
func magnitude(v quantity.Value) float64 {
	switch v := v.(type) {
	case quantity.Number:
		return v.Magnitude
	case quantity.Integer:
		return float64(v)
	}
	return 0
}

// lookupKey is what equal keys have in common: the magnitude, in the column's unit,
// or the scalar itself.
func lookupKey(v quantity.Value) any {
	if n, ok := v.(quantity.Number); ok {
		return n.Magnitude + 0
	}
	return v
}

// lookupRows decodes the rows against the columns they stand under.
func lookupRows(f *outcome.Findings, port quantity.Port, t LookupTable) [][]quantity.Value {
	type column struct {
		ColumnKey string        `json:"columnKey"`
		Type      quantity.Type `json:"type"`
		Unit      string        `json:"unit,omitzero"`
	}
	value := struct {
		Columns []column      `json:"columns"`
		Rows    [][]canon.Raw `json:"rows"`
	}{Rows: t.Rows}
	for _, c := range t.Columns {
		value.Columns = append(value.Columns, column{c.ColumnKey, c.Type, c.Unit})
	}
	text, err := canon.Encode(value)
	if err != nil {
		f.Add(outcome.SchemaInvalid, "/table/rows", outcome.Params{"rule": "json"})
		return nil
	}
	v, found := port.Decode(text, "/table")
	*f = append(*f, found...)
	table, _ := v.(quantity.Table)
	return table.Rows
}
