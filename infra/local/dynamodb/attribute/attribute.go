// Package attribute holds DynamoDB's attribute values and items: their ten
// types, equality and order, the sizes that limits and capacity are counted in,
// the canonical byte form they are stored in and the JSON they are sent in.
//
// The package knows nothing of tables, requests or expressions. Values are
// immutable: whoever changes an item builds a new one.
package attribute

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

// Kind is one of the ten attribute types.
type Kind uint8

// The kinds. Their numbers are part of the stored form.
const (
	S    Kind = 1  // string
	N    Kind = 2  // number
	B    Kind = 3  // binary
	BOOL Kind = 4  // boolean
	NULL Kind = 5  // null
	SS   Kind = 6  // set of strings
	NS   Kind = 7  // set of numbers
	BS   Kind = 8  // set of binaries
	L    Kind = 9  // list
	M    Kind = 10 // map
)

var kindNames = [...]string{S: "S", N: "N", B: "B", BOOL: "BOOL", NULL: "NULL", SS: "SS", NS: "NS", BS: "BS", L: "L", M: "M"}

// String is the type's name on the wire: "S", "NS", …
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// KindOf is the inverse of String.
func KindOf(name string) (Kind, bool) {
	i := slices.Index(kindNames[:], name)
	return Kind(max(i, 0)), i > 0
}

// IsSet tells whether k is SS, NS or BS.
func (k Kind) IsSet() bool { return k == SS || k == NS || k == BS }

// Element is the kind of the members of a set kind.
func (k Kind) Element() Kind {
	switch k {
	case SS:
		return S
	case NS:
		return N
	case BS:
		return B
	}
	panic("attribute: " + k.String() + " is not a set")
}

// Value is one attribute value. The zero Value is no value at all.
type Value struct {
	kind   Kind
	flag   bool           // BOOL
	text   string         // S; B as raw bytes
	number decimal.Number // N
	list   []Value        // L in order; sets sorted, without duplicates
	fields Map            // M
}

// Map is an item, or the fields of a map value.
type Map map[string]Value

// String returns a value of kind S.
func String(s string) Value { return Value{kind: S, text: s} }

// Binary returns a value of kind B that holds the bytes of b.
func Binary(b string) Value { return Value{kind: B, text: b} }

// Number returns a value of kind N.
func Number(n decimal.Number) Value { return Value{kind: N, number: n} }

// Bool returns a value of kind BOOL.
func Bool(b bool) Value { return Value{kind: BOOL, flag: b} }

// Null returns the value of kind NULL.
func Null() Value { return Value{kind: NULL} }

// List returns a value of kind L. The caller gives elements away.
func List(elements []Value) Value { return Value{kind: L, list: elements} }

// Document returns a value of kind M. The caller gives fields away.
func Document(fields Map) Value {
	if fields == nil {
		fields = Map{}
	}
	return Value{kind: M, fields: fields}
}

// Set returns the set of the given kind with the given members, in canonical
// order and without duplicates. Members must be of the set's element kind.
func Set(kind Kind, members []Value) Value {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, mustCompare)
	return Value{kind: kind, list: slices.CompactFunc(sorted, Value.Equal)}
}

func mustCompare(a, b Value) int {
	order, ok := a.Compare(b)
	if !ok {
		panic("attribute: a set of " + a.kind.String() + " and " + b.kind.String())
	}
	return order
}

// Kind is the value's type; 0 for no value.
func (v Value) Kind() Kind { return v.kind }

// IsZero tells whether v is no value.
func (v Value) IsZero() bool { return v.kind == 0 }

// Text is the content of an S, or the bytes of a B.
func (v Value) Text() string { return v.text }

// Bool is the content of a BOOL.
func (v Value) Bool() bool { return v.flag }

// Number is the content of an N.
func (v Value) Number() decimal.Number { return v.number }

// Elements are the elements of an L or the members of a set. Not to be changed.
func (v Value) Elements() []Value { return v.list }

// Fields are the fields of an M. Not to be changed.
func (v Value) Fields() Map { return v.fields }

// Equal tells whether two values have the same type and content. The order of
// a set's members does not count, nor does the way a number was written.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.flag != w.flag || v.text != w.text || v.number != w.number {
		return false
	}
	return slices.EqualFunc(v.list, w.list, Value.Equal) && maps.EqualFunc(v.fields, w.fields, Value.Equal)
}

// Equal tells whether two items have the same attributes.
func (m Map) Equal(n Map) bool { return maps.EqualFunc(m, n, Value.Equal) }

// Compare orders two strings or two binaries by their bytes, or two numbers.
// Other values, and values of different types, have no order: ok is false.
func (v Value) Compare(w Value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case S, B:
		return strings.Compare(v.text, w.text), true
	case N:
		return v.number.Compare(w.number), true
	}
	return 0, false
}

// Size is the number of bytes a value counts for, as the DynamoDB developer
// guide's "item sizes" describes: UTF-8 bytes of strings, raw bytes of binaries,
// about half a byte a digit, 3 bytes for a list or map plus 1 for each element.
func (v Value) Size() int {
	switch v.kind {
	case S, B:
		return len(v.text)
	case N:
		return v.number.Size()
	case BOOL, NULL:
		return 1
	case SS, NS, BS:
		size := 0
		for _, e := range v.list {
			size += e.Size()
		}
		return size
	case L:
		size := 3
		for _, e := range v.list {
			size += 1 + e.Size()
		}
		return size
	case M:
		return 3 + len(v.fields) + v.fields.Size()
	}
	return 0
}

// Size is the number of bytes an item counts for: names and values.
func (m Map) Size() int {
	size := 0
	for name, v := range m {
		size += len(name) + v.Size()
	}
	return size
}

// Depth is the number of levels of the value: 1 for a scalar or set, one more
// than its deepest element for a list or map.
func (v Value) Depth() int {
	deepest := 0
	for _, e := range v.list {
		deepest = max(deepest, e.Depth())
	}
	for _, e := range v.fields {
		deepest = max(deepest, e.Depth())
	}
	return deepest + 1
}

// AppendOrdered appends an encoding of an S, N or B whose byte order is the
// value order within a type, and of which none is a prefix of another.
func (v Value) AppendOrdered(dst []byte) []byte {
	switch v.kind {
	case N:
		return v.number.AppendOrdered(dst)
	case S, B:
		return append(v.AppendOrderedPrefix(dst), 0, 0)
	}
	panic("attribute: " + v.kind.String() + " is no key type")
}

// AppendOrderedPrefix appends what the ordered encodings of all strings or
// binaries that begin with v have in common.
func (v Value) AppendOrderedPrefix(dst []byte) []byte {
	for i := range len(v.text) {
		dst = append(dst, v.text[i])
		if v.text[i] == 0 {
			dst = append(dst, 0xFF) // so that the end, 0 0, sorts first
		}
	}
	return dst
}

// SortedNames are the attribute names in byte order.
func (m Map) SortedNames() []string { return slices.Sorted(maps.Keys(m)) }

// MarshalJSONTo writes {"S": "…"} and so on.
func (v Value) MarshalJSONTo(enc *jsontext.Encoder) error {
	w := jsonWriter{enc: enc}
	w.value(v)
	return w.err
}

// MarshalJSONTo writes the item with its attributes in byte order of the names.
func (m Map) MarshalJSONTo(enc *jsontext.Encoder) error {
	w := jsonWriter{enc: enc}
	w.fields(m)
	return w.err
}

type jsonWriter struct {
	enc *jsontext.Encoder
	err error
}

func (w *jsonWriter) token(t jsontext.Token) {
	if w.err == nil {
		w.err = w.enc.WriteToken(t)
	}
}

func (w *jsonWriter) fields(m Map) {
	w.token(jsontext.BeginObject)
	for _, name := range m.SortedNames() {
		w.token(jsontext.String(name))
		w.value(m[name])
	}
	w.token(jsontext.EndObject)
}

func (w *jsonWriter) value(v Value) {
	w.token(jsontext.BeginObject)
	w.token(jsontext.String(v.kind.String()))
	switch v.kind {
	case S, N, B:
		w.scalar(v)
	case BOOL:
		w.token(jsontext.Bool(v.flag))
	case NULL:
		w.token(jsontext.True)
	case SS, NS, BS:
		w.token(jsontext.BeginArray)
		for _, e := range v.list {
			w.scalar(e)
		}
		w.token(jsontext.EndArray)
	case L:
		w.token(jsontext.BeginArray)
		for _, e := range v.list {
			w.value(e)
		}
		w.token(jsontext.EndArray)
	case M:
		w.fields(v.fields)
	}
	w.token(jsontext.EndObject)
}

func (w *jsonWriter) scalar(v Value) {
	switch v.kind {
	case S:
		w.token(jsontext.String(v.text))
	case N:
		w.token(jsontext.String(v.number.String()))
	case B:
		w.token(jsontext.String(base64.StdEncoding.EncodeToString([]byte(v.text))))
	}
}
