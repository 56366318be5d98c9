package schema

import (
	"fmt"
	"reflect"
)

// A Variant is one member of a sealed union. Variant returns its kind, from the
// zero value too.
type Variant interface{ Variant() string }

// Kind is the member "kind" of a variant V. It holds nothing, is always right,
// and is written as V's kind:
//
//	type AddNode struct {
//		Kind    schema.Kind[AddNode] `json:"kind"`
//		NodeKey string               `json:"nodeKey" schema:"pattern=key"`
//	}
//
//	func (AddNode) Variant() string { return "AddNode" }
type Kind[V Variant] struct{}

// MarshalText returns the kind of V.
func (Kind[V]) MarshalText() ([]byte, error) {
	var v V
	return []byte(v.Variant()), nil
}

// UnmarshalText accepts the kind of V alone.
func (Kind[V]) UnmarshalText(text []byte) error {
	var v V
	if string(text) != v.Variant() {
		return fmt.Errorf("schema: this is no %s", v.Variant())
	}
	return nil
}

// Enum returns the one allowed kind.
func (Kind[V]) Enum() []string {
	var v V
	return []string{v.Variant()}
}

type registered struct {
	kind string
	typ  reflect.Type
}

var unions = make(map[reflect.Type][]registered)

// Union registers the variants of the interface I, once and before first use:
//
//	var _ = schema.Union[Command](AddNode{}, RemoveNode{})
//
// Variants are struct types, used by value. It panics on two variants of one
// kind and returns the number of variants.
func Union[I Variant](variants ...I) int {
	t := reflect.TypeFor[I]()
	compiled.Lock()
	defer compiled.Unlock()
	if t.Kind() != reflect.Interface || unions[t] != nil {
		panic(fmt.Sprintf("schema: %v is no interface or is registered already", t))
	}
	seen := make(map[string]bool)
	for _, v := range variants {
		if seen[v.Variant()] {
			panic(fmt.Sprintf("schema: %v has kind %s twice", t, v.Variant()))
		}
		seen[v.Variant()] = true
		unions[t] = append(unions[t], registered{v.Variant(), reflect.TypeOf(v)})
	}
	return len(variants)
}

// Kinds returns the kinds of the variants of the registered interface I, in the order
// in which they were registered.
func Kinds[I Variant]() []string {
	compiled.Lock()
	defer compiled.Unlock()
	var out []string
	for _, v := range unions[reflect.TypeFor[I]()] {
		out = append(out, v.kind)
	}
	return out
}
