package batch

import (
	"fmt"
	"iter"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
)

// An Ended case is what the merge reads of a case that succeeded.
type Ended struct {
	CaseKey string
	Inputs  map[string]canon.Raw // the payload of its Run, by portKey
	Results map[string]canon.Raw // at least those of Resolved.Needs, by portKey
}

// A Result is one merged result.
type Result struct {
	Port  quantity.Port
	Value canon.Raw // typed, canonical
}

// A Governing names the case that governs.
type Governing struct {
	Index   int // of the case
	CaseKey string
	PortKey string
	Value   quantity.Number // as the case resulted in it
}

// Merge merges cases, which come in their order and all succeeded. Comparison is
// exact whatever the units of the ports; of equal values the earliest case governs,
// and within a case the port that is named first. What is told in another unit is
// rounded once. governing is nil of all but an envelope, whose Mapped results the
// caller adds: they are the governing case's own.
//
// The error is of results that are not what the ports say: Runs do not store such.
func (r Resolved) Merge(inputs map[string]quantity.Port, cases iter.Seq2[Ended, error]) (results map[string]Result, governing *Governing, err error) {
	switch r.Kind {
	case None{}.Variant():
		return map[string]Result{}, nil, nil
	case Table{}.Variant():
		result, err := r.table(inputs, cases)
		return map[string]Result{TableKey: result}, nil, err
	case Envelope{}.Variant():
		return r.envelope(cases)
	}
	return nil, nil, fmt.Errorf("batch: no merge is of kind %q", r.Kind)
}

// contract is the port of a merged table.
func (r Resolved) contract() quantity.Port {
	p := quantity.Port{Type: quantity.TableType, Columns: []quantity.Column{{ColumnKey: CaseColumn, Type: quantity.StringType}}}
	for _, c := range r.Columns {
		// A constraint of a port is of its own values, and was held there.
		p.Columns = append(p.Columns, quantity.Column{ColumnKey: c.ColumnKey, Type: c.Port.Type, Unit: c.Port.Unit, Nullable: c.Port.Nullable,
			QuantityKind: c.Port.QuantityKind, Values: c.Port.Values})
	}
	return p
}

func (r Resolved) table(inputs map[string]quantity.Port, cases iter.Seq2[Ended, error]) (Result, error) {
	port := r.contract()
	t := quantity.Table{Columns: port.Columns}
	for one, err := range cases {
		if err != nil {
			return Result{}, err
		}
		row := make([]quantity.Value, 0, len(port.Columns))
		row = append(row, quantity.Text(one.CaseKey))
		for _, c := range r.Columns {
			value, err := cell(c, inputs, one)
			if err != nil {
				return Result{}, err
			}
			row = append(row, value)
		}
		t.Rows = append(t.Rows, row)
	}
	text, err := port.Encode(t)
	return Result{port, text}, err
}

func cell(c Column, inputs map[string]quantity.Port, one Ended) (quantity.Value, error) {
	text, ok := one.Results[c.ColumnKey]
	if c.From == FromInput {
		text, ok = one.Inputs[c.ColumnKey]
		if !ok { // the Flow took its own default
			text = inputs[c.ColumnKey].Default
			ok = text != nil || c.Port.AllowsNull()
		}
	}
	if !ok {
		return nil, fmt.Errorf("batch: case %s has no %s %s", one.CaseKey, c.From, c.ColumnKey)
	}
	if text == nil {
		return quantity.Null{}, nil
	}
	value, found := c.Port.Decode(text, "")
	if found.Refused() {
		return nil, fmt.Errorf("batch: case %s: %s %s: %s", one.CaseKey, c.From, c.ColumnKey, found[0].Code)
	}
	return value, nil
}

func (r Resolved) envelope(cases iter.Seq2[Ended, error]) (map[string]Result, *Governing, error) {
	var most *Governing
	index := 0
	for one, err := range cases {
		if err != nil {
			return nil, nil, err
		}
		for _, p := range r.Ports {
			n, err := number(p, one)
			if err != nil {
				return nil, nil, err
			}
			if most == nil || r.By.over(n, most.Value) {
				most = &Governing{index, one.CaseKey, p.PortKey, n}
			}
		}
		index++
	}
	if most == nil {
		return nil, nil, fmt.Errorf("batch: an envelope over no case")
	}
	value := r.Value()
	told := quantity.Value(most.Value)
	if unit, ok := value.ParsedUnit(); ok {
		told = most.Value.In(unit)
	} else if value.Type == quantity.IntegerType {
		told = quantity.Integer(most.Value.Magnitude)
	}
	port := quantity.Port{Type: quantity.RecordType, Fields: map[string]quantity.Port{
		// The keys of the record are the wire's, and are ports of no Flow.
		"caseKey": {Type: quantity.StringType}, "portKey": {Type: quantity.StringType}, "value": value,
	}}
	text, err := port.Encode(quantity.Record{"caseKey": quantity.Text(most.CaseKey), "portKey": quantity.Text(most.PortKey), "value": told})
	return map[string]Result{GoverningKey: {port, text}}, most, err
}

func number(p Chosen, one Ended) (quantity.Number, error) {
	text, ok := one.Results[p.PortKey]
	if !ok {
		return quantity.Number{}, fmt.Errorf("batch: case %s has no result %s", one.CaseKey, p.PortKey)
	}
	value, found := p.Port.Decode(text, "")
	switch v := value.(type) {
	case quantity.Number:
		return v, nil
	case quantity.Integer:
		return quantity.Number{Magnitude: float64(v), Unit: quantity.One}, nil
	}
	return quantity.Number{}, fmt.Errorf("batch: case %s: result %s is no number: %d findings", one.CaseKey, p.PortKey, len(found))
}

// over reports whether a governs in place of b, which came earlier.
func (e Extreme) over(a, b quantity.Number) bool {
	switch e {
	case Max:
		return quantity.Compare(a, b) > 0
	case Min:
		return quantity.Compare(a, b) < 0
	default:
		return quantity.CompareMagnitude(a, b) > 0
	}
}
