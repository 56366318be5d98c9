package component

import (
	"context"
	"math"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// AggregateSettings are the settings of px.aggregate: input "table", of which one
// column is read, and a result named as each of Results.
type AggregateSettings struct {
	Column  quantity.Column   `json:"column" desc:"of numbers or integers"`
	Results []AggregateResult `json:"results" schema:"minItems=1,maxItems=4"`
}

// Enum returns the aggregates, for package schema.
func (AggregateResult) Enum() []string { return []string{"sum", "min", "max", "mean"} }

// AggregateResult is one way of making one number of a column.
type AggregateResult string

// The aggregates. Of no rows, sum is 0 and the others fail.
const (
	AggregateSum  AggregateResult = "sum"
	AggregateMin  AggregateResult = "min"
	AggregateMax  AggregateResult = "max"
	AggregateMean AggregateResult = "mean"
)

var aggregate = definition{
	key: "px.aggregate", version: 1,
	label: target.Label{"en": "Aggregate a column", "ko": "열 집계"},
	description: "Makes one number of a table's column: sum, min, max or mean. Choose it after px.table_map or a table input, for a total or a governing " +
		"value over rows; for named cases use px.envelope.",
	inputKeys: []string{"table"},
	settings:  typeOf[AggregateSettings](),
	example:   `{"column":{"columnKey":"stress","type":"number","unit":"ksi"},"results":["max","mean"]}`,
	compile:   compileAggregate,
}

func compileAggregate(raw canon.Raw) (*program, outcome.Findings) {
	var f outcome.Findings
	s := decode[AggregateSettings](&f, raw)
	if s == nil {
		return nil, f
	}
	cell := s.Column.Port()
	f = append(f, cell.Check("/column")...)
	if !target.ValidKey(s.Column.ColumnKey) {
		f.Add(outcome.SchemaInvalid, "/column/columnKey", outcome.Params{"rule": "pattern", "pattern": target.KeyPattern})
	}
	if cell.Type != quantity.NumberType && cell.Type != quantity.IntegerType {
		f.Add(outcome.TypeMismatch, "/column/type", outcome.Params{"reason": "aggregates_take_numbers", "allowed": []quantity.Type{quantity.NumberType, quantity.IntegerType}})
	}
	if s.Column.Nullable != nil && *s.Column.Nullable {
		f.Add(outcome.NullabilityMismatch, "/column/nullable", outcome.Params{"reason": "aggregates_have_no_null"})
	}
	unit, _ := cell.ParsedUnit()
	results := map[string]quantity.Port{}
	for i, r := range s.Results {
		at := index("/results", i)
		_, twice := results[string(r)]
		switch {
		case twice:
			f.Add(outcome.SchemaInvalid, at, outcome.Params{"rule": "duplicate"})
		case r == AggregateSum && unit.Absolute():
			f.Add(outcome.UnitMismatch, at, outcome.Params{"reason": "temperature_with_zero"})
		}
		p := quantity.Port{Type: cell.Type, Unit: cell.Unit, QuantityKind: cell.QuantityKind, Shape: quantity.Scalar}
		if cell.Type == quantity.IntegerType && r == AggregateMean {
			p = quantity.Port{Type: quantity.NumberType, Unit: "1", Shape: quantity.Scalar}
		}
		results[string(r)] = p
	}
	if f.Refused() {
		return nil, f
	}
	table := quantity.Port{Type: quantity.TableType, Columns: []quantity.Column{s.Column}}
	run := func(_ context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
		rows := in["table"].(quantity.Table).Rows
		x := make([]float64, len(rows))
		for i, row := range rows {
			x[i] = magnitude(row[0])
		}
		out := make(map[string]quantity.Value, len(s.Results))
		for i, r := range s.Results {
			at := index("/settings/results", i)
			if len(x) == 0 && r != AggregateSum {
				return nil, failed(at, "table_has_no_rows", outcome.Params{"resultKey": r})
			}
			var y float64
			switch r {
			case AggregateSum:
				y = sum(x)
			case AggregateMin:
				y = slices.Min(x)
			case AggregateMax:
				y = slices.Max(x)
			case AggregateMean:
				y = sum(x) / float64(len(x))
			}
			switch port := results[string(r)]; {
			case math.IsInf(y, 0) || math.IsNaN(y), port.Type == quantity.IntegerType && math.Abs(y) > quantity.MaxInteger:
				return nil, failed(at, Overflow, outcome.Params{"resultKey": r})
			case port.Type == quantity.IntegerType:
				out[string(r)] = quantity.Integer(y)
			default:
				out[string(r)] = quantity.Number{Magnitude: y + 0, Unit: unit}
			}
		}
		return out, nil
	}
	return &program{Contract{map[string]quantity.Port{"table": table}, results}, run}, f
}

// sum adds in row order and carries what each addition rounds off (Neumaier), so
// that a long column loses no digits.
func sum(x []float64) float64 {
	total, carried := 0.0, 0.0
	for _, v := range x {
		t := total + v
		if math.Abs(total) >= math.Abs(v) {
			carried += (total - t) + v
		} else {
			carried += (v - t) + total
		}
		total = t
	}
	if math.IsInf(total, 0) {
		return total
	}
	return total + carried
}
