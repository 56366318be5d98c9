package quantity

import "maps"

// A Value is what one port holds. It is one of Null, Number, Integer, Boolean,
// Text, List, Record, Table and File. Values are never changed in place.
type Value interface{ value() }

// Null is the absence that a nullable port allows.
type Null struct{}

// A Number is a finite magnitude in a unit.
type Number struct {
	Magnitude float64
	Unit      Unit
}

// SI returns the magnitude in coherent SI.
func (n Number) SI() float64 { return n.Unit.ToSI(n.Magnitude) }

// In tells the number in another unit; it rounds once. The units must be
// Convertible, and the result is infinite where the unit cannot hold it.
func (n Number) In(u Unit) Number { return Number{n.Unit.Convert(n.Magnitude, u), u} }

// An Integer is within MinInteger and MaxInteger.
type Integer int64

// The integers that binary64, and so JSON, holds exactly.
const (
	MaxInteger = 1<<53 - 1
	MinInteger = -MaxInteger
)

// A Boolean is true or false.
type Boolean bool

// A Text is the value of a string or an enum port.
type Text string

// A List is the value of a list port, and the (nested) array of a port with a
// shape.
type List []Value

// A Record has exactly the fields of its port.
type Record map[string]Value

// A Table holds rows of scalar cells in the order of its columns.
type Table struct {
	Columns []Column
	Rows    [][]Value
}

// Column returns the index of a column, or -1.
func (t Table) Column(key string) int {
	for i, c := range t.Columns {
		if c.ColumnKey == key {
			return i
		}
	}
	return -1
}

// A File names stored bytes.
type File struct {
	Digest    string `json:"digest"` // sha256:…
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
}

func (Null) value()    {}
func (Number) value()  {}
func (Integer) value() {}
func (Boolean) value() {}
func (Text) value()    {}
func (List) value()    {}
func (Record) value()  {}
func (Table) value()   {}
func (File) value()    {}

// Equal reports whether two values are the same: same magnitude and unit for
// numbers, bit for bit.
func Equal(a, b Value) bool {
	switch a := a.(type) {
	case Null:
		_, ok := b.(Null)
		return ok
	case Number:
		n, ok := b.(Number)
		return ok && a.Magnitude == n.Magnitude && a.Unit.Same(n.Unit)
	case Integer, Boolean, Text, File:
		return a == b
	case List:
		l, ok := b.(List)
		return ok && equalLists(a, l)
	case Record:
		r, ok := b.(Record)
		return ok && maps.EqualFunc(a, r, Equal)
	case Table:
		t, ok := b.(Table)
		if !ok || len(a.Rows) != len(t.Rows) || len(a.Columns) != len(t.Columns) {
			return false
		}
		for i, c := range a.Columns {
			if c.ColumnKey != t.Columns[i].ColumnKey || c.Type != t.Columns[i].Type {
				return false
			}
		}
		for i, row := range a.Rows {
			if !equalLists(row, t.Rows[i]) {
				return false
			}
		}
		return true
	}
	return false
}

func equalLists(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
