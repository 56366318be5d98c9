package quantity

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// Type is what kind of value a port holds.
type Type string

// The types. An enum is one of the port's Values; a file is a reference to
// stored bytes, never the bytes.
const (
	NumberType  Type = "number"
	IntegerType Type = "integer"
	BooleanType Type = "boolean"
	StringType  Type = "string"
	EnumType    Type = "enum"
	RecordType  Type = "record"
	ListType    Type = "list"
	TableType   Type = "table"
	FileType    Type = "file"
)

// Types lists the types in the order of the documentation.
func Types() []Type {
	return []Type{NumberType, IntegerType, BooleanType, StringType, EnumType, RecordType, ListType, TableType, FileType}
}

// scalar reports whether a value of the type is one JSON scalar.
func (t Type) scalar() bool {
	switch t {
	case NumberType, IntegerType, BooleanType, StringType, EnumType:
		return true
	}
	return false
}

// A Port is the contract of one place where a value enters or leaves: a Flow's
// public port, a Node's port, a Report's field or slot.
//
// Every member that may be left out is kept as it was written, an explicit
// default included, so that a document which is decoded and encoded again has
// the digest it came with. Read such members through the methods.
type Port struct {
	Type Type `json:"type"`
	// Unit is required for numbers and for nothing else; "1" is dimensionless.
	Unit string `json:"unit,omitzero" desc:"such as kN*m, N/mm^2, kip*ft; 1 for none; numbers only"`
	// Shape is for number, integer, boolean, string and enum. Left out: scalar.
	Shape Shape `json:"shape,omitzero"`
	// Nullable left out means false. See AllowsNull.
	Nullable    *bool        `json:"nullable,omitzero"`
	Constraints *Constraints `json:"constraints,omitzero"`
	// QuantityKind tells apart what shares a dimension, such as "moment" and
	// "energy". It is a key; known kinds also fix the dimension of the unit.
	QuantityKind string `json:"quantityKind,omitzero"`
	// Default is the typed value that an input takes when nothing is bound.
	Default canon.Raw `json:"default,omitzero" desc:"typed value"`

	Values    []string        `json:"values,omitzero"`    // enum: 1 to 256 distinct texts
	Fields    map[string]Port `json:"fields,omitzero"`    // record: by fieldKey
	Of        *Port           `json:"of,omitzero"`        // list: the element
	MinItems  *int            `json:"minItems,omitzero"`  // list and table: items, rows
	MaxItems  *int            `json:"maxItems,omitzero"`  // list and table: items, rows
	Columns   []Column        `json:"columns,omitzero"`   // table, in order
	MediaType string          `json:"mediaType,omitzero"` // file: type/subtype
}

// A Column is one column of a table port. Its cells are scalars.
type Column struct {
	ColumnKey    string       `json:"columnKey"`
	Type         Type         `json:"type"`
	Unit         string       `json:"unit,omitzero"`
	Nullable     *bool        `json:"nullable,omitzero"`
	Constraints  *Constraints `json:"constraints,omitzero"`
	QuantityKind string       `json:"quantityKind,omitzero"`
	Values       []string     `json:"values,omitzero"`
}

// Port returns the contract of one cell.
func (c Column) Port() Port {
	return Port{Type: c.Type, Unit: c.Unit, Nullable: c.Nullable, Constraints: c.Constraints, QuantityKind: c.QuantityKind, Values: c.Values}
}

// Constraints narrow the values of a port. Bounds of a number are in the port's
// unit. Lengths count Unicode code points. Pattern is an RE2 expression that
// must match somewhere in the text; anchor it with ^ and $. MinItems and MaxItems
// say the same as the port's own members, which may not be given too.
type Constraints struct {
	Minimum          *float64 `json:"minimum,omitzero"`
	ExclusiveMinimum *float64 `json:"exclusiveMinimum,omitzero"`
	Maximum          *float64 `json:"maximum,omitzero"`
	ExclusiveMaximum *float64 `json:"exclusiveMaximum,omitzero"`
	MinLength        *int     `json:"minLength,omitzero"`
	MaxLength        *int     `json:"maxLength,omitzero"`
	Pattern          *string  `json:"pattern,omitzero"`
	MinItems         *int     `json:"minItems,omitzero"`
	MaxItems         *int     `json:"maxItems,omitzero"`
}

// AllowsNull reports whether null is a value of the port.
func (p Port) AllowsNull() bool { return p.Nullable != nil && *p.Nullable }

// ParsedUnit returns the unit of a number port. ok is false where the port has
// none, or one that Check refuses.
func (p Port) ParsedUnit() (u Unit, ok bool) {
	if p.Type != NumberType {
		return Unit{}, false
	}
	u, err := ParseUnit(p.Unit)
	return u, err == nil
}

// items returns the bounds on list items and table rows. max is -1 for no bound.
func (p Port) items() (least, most int) {
	most = -1
	least = first(0, p.MinItems)
	most = first(most, p.MaxItems)
	if c := p.Constraints; c != nil {
		least, most = first(least, c.MinItems), first(most, c.MaxItems)
	}
	return least, most
}

func first(otherwise int, n *int) int {
	if n != nil {
		return *n
	}
	return otherwise
}

// A Shape is "scalar", or the size of each dimension of an array, where null
// stands for any size. All arrays of one dimension are of one size: [[1], [2, 3]] is
// of no shape. The zero value is a shape that was left out, which means
// scalar; IsScalar tells both.
type Shape struct {
	scalar bool
	dims   []int // AnySize or at least 1
}

// AnySize is the size of a dimension that is not fixed, null in JSON.
const AnySize = -1

// Bounds of a shape.
const (
	MaxShapeDims = 4
	MaxShapeSize = 100_000 // of one dimension
)

// Scalar is the shape that is written "scalar".
var Scalar = Shape{scalar: true}

// ArrayShape returns the shape with these dimensions.
func ArrayShape(dims ...int) Shape { return Shape{dims: slices.Clone(dims)} }

// sizes are the dimensions, to be held to one array: see sized.
func (s Shape) sizes() []int { return slices.Clone(s.dims) }

// sized reports whether an array of n may stand at the first of these dimensions. The
// first array of a dimension of any size settles it, for all that come after it.
func sized(dims []int, n int) bool {
	if dims[0] == AnySize && n <= MaxShapeSize {
		dims[0] = n
	}
	return dims[0] == n
}

// IsScalar reports whether a value of the shape is one element.
func (s Shape) IsScalar() bool { return len(s.dims) == 0 }

// IsZero reports whether the shape was left out.
func (s Shape) IsZero() bool { return !s.scalar && s.dims == nil }

// String returns the shape as in JSON.
func (s Shape) String() string {
	text, err := s.MarshalJSON()
	if err != nil {
		return "invalid"
	}
	return string(text)
}

// MarshalJSON writes "scalar" or the list of dimensions.
func (s Shape) MarshalJSON() ([]byte, error) {
	if s.IsScalar() {
		return []byte(`"scalar"`), nil
	}
	list := make([]*int, len(s.dims))
	for i, d := range s.dims {
		if d != AnySize {
			list[i] = &d
		}
	}
	return json.Marshal(list)
}

var errShape = errors.New(`a shape is "scalar" or a list of 1 to 4 sizes, each null or from 1 to 100000`)

// UnmarshalJSON reads "scalar" or a list of 1 to MaxShapeDims dimensions, each
// null or from 1 to MaxShapeSize.
func (s *Shape) UnmarshalJSON(text []byte) error {
	if string(text) == `"scalar"` {
		*s = Scalar
		return nil
	}
	var list []*float64
	if jsontext.Value(text).Kind() != '[' {
		return errShape
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%w: %w", errShape, err)
	}
	if len(list) == 0 || len(list) > MaxShapeDims {
		return errShape
	}
	dims := make([]int, len(list))
	for i, d := range list {
		switch {
		case d == nil:
			dims[i] = AnySize
		case *d < 1 || *d > MaxShapeSize || *d != math.Trunc(*d):
			return errShape
		default:
			dims[i] = int(*d)
		}
	}
	*s = Shape{dims: dims}
	return nil
}
