package quantity

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/outcome"
)

// A Conversion turns values of a producer's port into values of a consumer's.
type Conversion struct {
	consumer Port
	changes  bool
}

// Changes reports whether any value can differ after Apply: a unit is converted,
// an integer becomes a number, or members are left out.
func (c Conversion) Changes() bool { return c.changes }

// Apply converts a value of the producer and checks the result against the
// consumer's constraints, which two contracts alone cannot decide. path is where
// the consumer stands.
func (c Conversion) Apply(v Value, path string) (Value, outcome.Findings) {
	if c.changes {
		v = c.consumer.adapt(v)
	}
	return v, c.consumer.CheckValue(v, path)
}

// Fits decides whether every value of producer may enter consumer. Both ports
// must have passed Check. path is where the binding stands.
//
// They fit when type and shape fit, the producer is not nullable where the
// consumer is not, and units share dimension and, when both name one, quantity
// kind. Records, lists and tables are compared member by member; the producer
// may have members that the consumer does not name, and these are left out. Two
// types widen without loss: integer into a dimensionless number, and enum into
// string or into an enum with at least its values. A dimension of any size does
// not fit one of fixed size. Constraints are not compared: they are checked on
// each value.
//
// A mismatch holds both contracts side by side in params.producer and
// params.consumer; within a record, list or table, params.member is the JSON
// Pointer of the member in the contracts. Units that fit and differ add an info
// PX_UNIT_CONVERTED and do not refuse.
func Fits(producer, consumer Port, path string) (Conversion, outcome.Findings) {
	m := matcher{path: path}
	m.match(producer, consumer, "", 1)
	return Conversion{consumer: consumer, changes: m.changes}, m.findings
}

type matcher struct {
	path     string
	findings outcome.Findings
	changes  bool
}

func (m *matcher) add(code outcome.Code, member, reason string, producer, consumer any) {
	params := outcome.Params{"producer": producer, "consumer": consumer, "reason": reason}
	if member != "" {
		params["member"] = member
	}
	m.findings.Add(code, m.path, params)
}

func (m *matcher) match(p, c Port, member string, depth int) {
	if depth > MaxPortDepth {
		m.findings.Add(outcome.LimitExceeded, m.path, outcome.Params{"limit": MaxPortDepth, "observed": depth, "of": "portDepth"})
		return
	}
	if !m.matchType(p, c, member) {
		return
	}
	if p.AllowsNull() && !c.AllowsNull() {
		m.add(outcome.NullabilityMismatch, member, "producer_may_be_null", p, c)
	}
	if !shapeFits(p.Shape, c.Shape) {
		m.add(outcome.ShapeMismatch, member, "shape", p, c)
	}
	switch c.Type {
	case RecordType:
		for _, key := range slices.Sorted(maps.Keys(c.Fields)) {
			field, ok := p.Fields[key]
			if !ok {
				m.add(outcome.ShapeMismatch, pointer(member+"/fields", key), "producer_lacks_field", p, c)
				continue
			}
			m.match(field, c.Fields[key], pointer(member+"/fields", key), depth+1)
		}
		if len(p.Fields) > len(c.Fields) {
			m.changes = true
		}
	case ListType:
		if p.Of == nil || c.Of == nil {
			m.add(outcome.ShapeMismatch, member+"/of", "element_is_not_declared", p, c)
			return
		}
		m.match(*p.Of, *c.Of, member+"/of", depth+1)
	case TableType:
		for i, column := range c.Columns {
			at := fmt.Sprintf("%s/columns/%d", member, i)
			j := slices.IndexFunc(p.Columns, func(d Column) bool { return d.ColumnKey == column.ColumnKey })
			if j < 0 {
				m.add(outcome.ShapeMismatch, at, "producer_lacks_column", p, c)
				continue
			}
			if i != j {
				m.changes = true
			}
			m.match(p.Columns[j].Port(), column.Port(), at, depth+1)
		}
		if len(p.Columns) != len(c.Columns) {
			m.changes = true
		}
	}
}

// matchType reports whether types and what belongs to one type fit; false ends
// the comparison of this member.
func (m *matcher) matchType(p, c Port, member string) bool {
	switch {
	case p.Type == NumberType && c.Type == NumberType:
		m.matchUnit(p, c, member)
	case p.Type == IntegerType && c.Type == NumberType:
		if u, ok := c.ParsedUnit(); !ok || !u.Same(One) {
			m.add(outcome.UnitMismatch, member, "integer_has_no_unit", p, c)
		}
		m.changes = true
	case p.Type == EnumType && c.Type == EnumType:
		for _, v := range p.Values {
			if !slices.Contains(c.Values, v) {
				m.add(outcome.TypeMismatch, member, "producer_has_more_values", p, c)
				return false
			}
		}
	case p.Type == EnumType && c.Type == StringType:
	case p.Type == FileType && c.Type == FileType:
		if c.MediaType != "" && p.MediaType != c.MediaType {
			m.add(outcome.TypeMismatch, member, "media_type", p, c)
			return false
		}
	case p.Type != c.Type:
		m.add(outcome.TypeMismatch, member, "type", p, c)
		return false
	}
	return true
}

func (m *matcher) matchUnit(p, c Port, member string) {
	from, ok1 := p.ParsedUnit()
	to, ok2 := c.ParsedUnit()
	switch {
	case !ok1 || !ok2:
		m.add(outcome.UnitMismatch, member, "not_a_unit", p, c)
	case from.Dimension() != to.Dimension():
		m.add(outcome.UnitMismatch, member, "dimension", p, c)
	case !from.Convertible(to):
		m.add(outcome.UnitMismatch, member, "temperature_is_not_a_difference", p, c)
	case p.QuantityKind != "" && c.QuantityKind != "" && p.QuantityKind != c.QuantityKind:
		m.add(outcome.UnitMismatch, member, "quantity_kind", p, c)
	case !from.Same(to):
		m.add(outcome.UnitConverted, member, "converted", p, c)
		m.changes = true
	case p.Unit != c.Unit:
		// N*m into J: no number changes, but values carry the consumer's text.
		m.changes = true
	}
}

func shapeFits(p, c Shape) bool {
	if len(p.dims) != len(c.dims) {
		return false
	}
	for i, d := range c.dims {
		if d != AnySize && p.dims[i] != d {
			return false
		}
	}
	return true
}

// adapt converts a value that fits into the port's own units, types and members.
func (p Port) adapt(v Value) Value {
	switch v := v.(type) {
	case Number:
		if u, ok := p.ParsedUnit(); ok && v.Unit.Convertible(u) {
			return v.In(u)
		}
	case Integer:
		if p.Type == NumberType {
			return Number{float64(v), One}
		}
	case List:
		element := p
		if p.Type == ListType {
			element = *p.Of
		}
		out := make(List, len(v))
		for i, item := range v {
			out[i] = element.adapt(item)
		}
		return out
	case Record:
		out := make(Record, len(p.Fields))
		for key, field := range p.Fields {
			if item, ok := v[key]; ok {
				out[key] = field.adapt(item)
			}
		}
		return out
	case Table:
		from := make([]int, len(p.Columns))
		cells := make([]Port, len(p.Columns))
		for i, c := range p.Columns {
			from[i], cells[i] = v.Column(c.ColumnKey), c.Port()
			if from[i] < 0 {
				return v
			}
		}
		out := Table{Columns: p.Columns, Rows: make([][]Value, len(v.Rows))}
		for r, row := range v.Rows {
			out.Rows[r] = make([]Value, len(from))
			for i, j := range from {
				out.Rows[r][i] = cells[i].adapt(row[j])
			}
		}
		return out
	}
	return v
}
