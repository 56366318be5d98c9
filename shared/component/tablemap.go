package component

import (
	"context"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// TableMapSettings are the settings of px.table_map: inputs "table" and one for
// each of Inputs, result "table".
type TableMapSettings struct {
	Columns   []quantity.Column   `json:"columns" schema:"minItems=1,maxItems=256" desc:"columns to read; others are left out"`
	Inputs    map[string]Scalar   `json:"inputs,omitzero" schema:"maxItems=64" desc:"same for every row"`
	Constants map[string]Constant `json:"constants,omitzero" schema:"maxItems=64"`
	Results   []ColumnResult      `json:"results" schema:"minItems=1,maxItems=64" desc:"columns to add or replace, from the row as it came in"`
}

// A ColumnResult is one expression and the column its values go to.
type ColumnResult struct {
	ColumnKey     string `json:"columnKey" schema:"pattern=key" desc:"px.table_map only"`
	FormulaResult `schema:"widen"`
}

var tableMap = definition{
	key: "px.table_map", version: 1,
	label: target.Label{"en": "Formula per row", "ko": "행별 수식"},
	description: "Calculates columns of a table from expressions over its other columns, row by row, with units checked; adds or replaces columns and keeps " +
		"the rows and their order. Choose it for the same formula at many sections, stations or members; follow with px.aggregate for one number.",
	inputKeys: []string{"table"},
	settings:  typeOf[TableMapSettings](),
	example: `{"columns":[{"columnKey":"station","type":"number","unit":"ft"},{"columnKey":"moment","type":"number","unit":"kip*ft"}],` +
		`"inputs":{"section_modulus":{"unit":"in^3"}},"results":[{"columnKey":"stress","expression":"moment / section_modulus","unit":"ksi"}]}`,
	compile: compileTableMap,
}

// cellStep is one column result, ready to evaluate.
type cellStep struct {
	index  int // into Results of the settings
	column int // into the columns of the result
	port   quantity.Port
	unit   quantity.Unit
	number numberFunc
}

func compileTableMap(raw canon.Raw) (*program, outcome.Findings) {
	var f outcome.Findings
	s := decode[TableMapSettings](&f, raw)
	if s == nil {
		return nil, f
	}
	n := newNames()
	in := quantity.Port{Type: quantity.TableType, Columns: s.Columns}
	f = append(f, in.Check("")...)
	inputs := map[string]quantity.Port{"table": in}
	n.known["table"] = variable{} // the input itself is no number
	slots := make([]int, len(s.Columns))
	for i, c := range s.Columns {
		if n.declare(&f, index("/columns", i)+"/columnKey", c.ColumnKey) {
			slots[i] = n.add(c.ColumnKey, exprTypeOf(c.Port()))
		}
		if c.Nullable != nil && *c.Nullable {
			f.Add(outcome.NullabilityMismatch, index("/columns", i)+"/nullable", outcome.Params{"reason": "expressions_have_no_null"})
		}
	}
	n.inputs(&f, "/inputs", s.Inputs, inputs)
	n.constants(&f, "/constants", s.Constants)
	out := quantity.Port{Type: quantity.TableType, Columns: slices.Clone(s.Columns)}
	var steps []cellStep
	nodes := 0 // of all expressions: the work of one row
	seen := map[string]bool{}
	for i, r := range s.Results {
		at := index("/results", i)
		if seen[r.ColumnKey] {
			f.Add(outcome.SchemaInvalid, at+"/columnKey", outcome.Params{"rule": "duplicate"})
		}
		seen[r.ColumnKey] = true
		sound := r.Output.check(&f, at)
		tree := read(&f, at+"/expression", r.Expression)
		if tree == nil || !sound {
			continue
		}
		nodes += tree.size
		c := compiler{findings: &f, path: at + "/expression", names: n.known}
		e := c.compile(tree.root)
		r.Output.takes(&f, at+"/expression", e.exprType)
		port := r.Output.port()
		unit, _ := port.ParsedUnit()
		column := quantity.Column{ColumnKey: r.ColumnKey, Type: port.Type, Unit: r.Unit, Constraints: r.Constraints, QuantityKind: r.QuantityKind}
		j := slices.IndexFunc(out.Columns, func(c quantity.Column) bool { return c.ColumnKey == r.ColumnKey })
		if j < 0 {
			j = len(out.Columns)
			out.Columns = append(out.Columns, column)
		} else {
			out.Columns[j] = column
		}
		steps = append(steps, cellStep{i, j, port, unit, e.number})
	}
	if len(out.Columns) > quantity.MaxPortMembers {
		f.Add(outcome.LimitExceeded, "/results", outcome.Params{"limit": quantity.MaxPortMembers, "observed": len(out.Columns), "of": "columns"})
	}
	if f.Refused() {
		return nil, f
	}
	run := func(ctx context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
		table := in["table"].(quantity.Table)
		var found outcome.Findings
		for _, bound := range []struct {
			of       string
			n, limit int
		}{{"cells", len(table.Rows) * len(out.Columns), MaxCells}, {"operations", len(table.Rows) * nodes, MaxOperations}} {
			if bound.n > bound.limit {
				found.Add(outcome.LimitExceeded, "/inputBindings/table", outcome.Params{"limit": bound.limit, "observed": bound.n, "of": bound.of})
			}
		}
		if found != nil {
			return nil, found
		}
		fr := n.frame(in)
		result := quantity.Table{Columns: out.Columns, Rows: make([][]quantity.Value, len(table.Rows))}
		for r, row := range table.Rows {
			if r%1024 == 0 && ctx.Err() != nil {
				return nil, failed("/settings/results", "cancelled", nil)
			}
			for i, cell := range row {
				fr.set(slots[i], cell)
			}
			cells := make([]quantity.Value, len(out.Columns))
			copy(cells, row)
			for _, step := range steps {
				x := step.number(fr)
				at := index("/settings/results", step.index)
				if fr.failure != "" {
					return nil, failed(at+"/expression", fr.failure, outcome.Params{"row": r, "columnKey": out.Columns[step.column].ColumnKey, "offset": fr.offset})
				}
				cells[step.column] = outputValue(step.port, step.unit, x)
				if !isFinite(cells[step.column]) {
					return nil, failed(at+"/unit", Overflow, outcome.Params{"row": r, "columnKey": out.Columns[step.column].ColumnKey})
				}
			}
			result.Rows[r] = cells
		}
		return map[string]quantity.Value{"table": result}, nil
	}
	return &program{Contract{inputs, map[string]quantity.Port{"table": out}}, run}, f
}
