package component

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// decode reads settings strictly into T. nil means that f has findings.
func decode[T any](f *outcome.Findings, raw canon.Raw) *T {
	if len(raw) == 0 {
		f.Add(outcome.SchemaInvalid, "", outcome.Params{"rule": "required"})
		return nil
	}
	var out T
	found := schema.DecodeAt(raw, "", &out)
	*f = append(*f, found...)
	if found.Refused() {
		return nil
	}
	return &out
}

// A Scalar is an input of an expression: one number, integer, boolean or text.
type Scalar struct {
	Type         quantity.Type         `json:"type,omitzero" schema:"enum=number|integer|boolean|string|enum" desc:"number where left out"`
	Unit         string                `json:"unit,omitzero" desc:"required for numbers"`
	QuantityKind string                `json:"quantityKind,omitzero" schema:"pattern=key"`
	Constraints  *quantity.Constraints `json:"constraints,omitzero"`
	Default      canon.Raw             `json:"default,omitzero" desc:"typed value when unbound"`
	Values       []string              `json:"values,omitzero" desc:"of an enum"`
}

func (s Scalar) port() quantity.Port {
	t := s.Type
	if t == "" {
		t = quantity.NumberType
	}
	return quantity.Port{Type: t, Unit: s.Unit, QuantityKind: s.QuantityKind, Constraints: s.Constraints, Default: s.Default, Values: s.Values, Shape: quantity.Scalar}
}

// A Constant is a number with a unit that a formula uses by name, since a bare
// number in a formula is dimensionless.
type Constant struct {
	_ struct{} `desc:"for expressions, where a bare number has no unit"`

	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// names collects what expressions may refer to, and lays it out in a frame.
type names struct {
	known   map[string]variable
	numbers int // slots
	texts   int
	loads   []load
	preset  []float64 // constants, by slot
}

// load copies one input into its slot.
type load struct {
	key  string
	slot int
}

func newNames() *names { return &names{known: map[string]variable{}} }

func (n *names) add(key string, t exprType) int {
	v := variable{typ: t, slot: n.numbers}
	if t.kind == textKind {
		v.slot = n.texts
		n.texts++
	} else {
		n.numbers++
		n.preset = append(n.preset, 0)
	}
	n.known[key] = v
	return v.slot
}

// declare checks a name that a setting introduces at path.
func (n *names) declare(f *outcome.Findings, path, key string) bool {
	switch {
	case !target.ValidKey(key):
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "pattern", "pattern": target.KeyPattern})
	case reserved(key):
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "reserved_name", "name": key})
	default:
		if _, taken := n.known[key]; !taken {
			return true
		}
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "name_is_used_twice", "name": key})
	}
	return false
}

func exprTypeOf(p quantity.Port) exprType {
	switch p.Type {
	case quantity.NumberType:
		u, _ := p.ParsedUnit()
		return numberType(u)
	case quantity.IntegerType:
		return exprType{kind: numberKind, dim: noDimension}
	case quantity.BooleanType:
		return exprType{kind: booleanKind}
	}
	return exprType{kind: textKind}
}

// inputs declares scalar inputs under path and adds their ports.
func (n *names) inputs(f *outcome.Findings, path string, in map[string]Scalar, ports map[string]quantity.Port) {
	for _, key := range slices.Sorted(maps.Keys(in)) {
		at := pointer(path, key)
		if !n.declare(f, at, key) {
			continue
		}
		p := in[key].port()
		before := len(*f)
		*f = append(*f, p.Check(at)...)
		t := exprTypeOf(p)
		if len(*f) > before {
			n.known[key] = variable{} // badKind: one mistake, one finding
			continue
		}
		ports[key] = p
		n.loads = append(n.loads, load{key, n.add(key, t)})
	}
}

// constants declares constants under path.
func (n *names) constants(f *outcome.Findings, path string, constants map[string]Constant) {
	for _, key := range slices.Sorted(maps.Keys(constants)) {
		at := pointer(path, key)
		if !n.declare(f, at, key) {
			continue
		}
		c := constants[key]
		u, ok := quantity.CheckUnit(f, at+"/unit", c.Unit)
		if !ok {
			n.known[key] = variable{}
			continue
		}
		slot := n.add(key, numberType(u))
		n.preset[slot] = u.ToSI(c.Value)
	}
}

// frame returns a frame with constants and inputs in their slots.
func (n *names) frame(in map[string]quantity.Value) *frame {
	fr := &frame{numbers: slices.Clone(n.preset), texts: make([]string, n.texts)}
	for _, l := range n.loads {
		fr.set(l.slot, in[l.key])
	}
	return fr
}

func (fr *frame) set(slot int, v quantity.Value) {
	switch v := v.(type) {
	case quantity.Number:
		fr.numbers[slot] = v.SI()
	case quantity.Integer:
		fr.numbers[slot] = float64(v)
	case quantity.Boolean:
		fr.numbers[slot] = truth(bool(v))
	case quantity.Text:
		fr.texts[slot] = string(v)
	}
}

// An Output says in what an expression's result leaves.
type Output struct {
	Type         quantity.Type         `json:"type,omitzero" schema:"enum=number|boolean" desc:"number where left out"`
	Unit         string                `json:"unit,omitzero" desc:"required for numbers"`
	QuantityKind string                `json:"quantityKind,omitzero" schema:"pattern=key"`
	Constraints  *quantity.Constraints `json:"constraints,omitzero"`
}

func (o Output) port() quantity.Port {
	t := o.Type
	if t == "" {
		t = quantity.NumberType
	}
	return quantity.Port{Type: t, Unit: o.Unit, QuantityKind: o.QuantityKind, Constraints: o.Constraints, Shape: quantity.Scalar}
}

// check reports what is wrong with the output itself.
func (o Output) check(f *outcome.Findings, path string) bool {
	p := o.port()
	found := p.Check(path)
	*f = append(*f, found...)
	return !found.Refused()
}

// takes reports whether an expression of type t may leave through the output.
func (o Output) takes(f *outcome.Findings, path string, t exprType) {
	p := o.port()
	want := exprTypeOf(p)
	switch {
	case t.kind == badKind:
	case t.kind != want.kind:
		f.Add(outcome.TypeMismatch, path, outcome.Params{"reason": "result", "expected": p.Type, "found": t.kind.String()})
	case t.kind != numberKind:
	case t.dim != want.dim:
		f.Add(outcome.UnitMismatch, path, outcome.Params{"reason": "dimension", "expected": p.Unit, "found": t.dim.String()})
	case t.thermal != plain && want.thermal != plain && t.thermal != want.thermal:
		f.Add(outcome.UnitMismatch, path, outcome.Params{"reason": "temperature_is_not_a_difference", "expected": p.Unit})
	}
}

// value brings x, in coherent SI or a truth, into the output's unit. The result
// may be infinite.
func outputValue(p quantity.Port, u quantity.Unit, x float64) quantity.Value {
	if p.Type == quantity.BooleanType {
		return quantity.Boolean(x == 1)
	}
	return quantity.Number{Magnitude: u.FromSI(x) + 0, Unit: u} // -0 + 0 is 0
}

// pointer appends one reference token to a JSON Pointer.
func pointer(path, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	return path + "/" + token
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
