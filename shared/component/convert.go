package component

import (
	"context"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// ConvertSettings are the settings of px.convert: input "value" in From, result
// "value" in To.
type ConvertSettings struct {
	From ConvertSide `json:"from"`
	To   ConvertSide `json:"to"`
	// Shape of both; left out scalar.
	Shape quantity.Shape `json:"shape,omitzero"`
}

// A ConvertSide is a unit and, where it matters, what the number measures.
type ConvertSide struct {
	Unit         string `json:"unit"`
	QuantityKind string `json:"quantityKind,omitzero"`
}

var convert = definition{
	key: "px.convert", version: 1,
	label: target.Label{"en": "Convert unit", "ko": "단위 변환"},
	description: "Tells a number, or an array of numbers, in another unit of the same dimension. Bindings convert units by themselves; choose it to make a " +
		"conversion visible, or to state on purpose that a quantity of one kind is used as another (a torque as a moment).",
	inputKeys: []string{"value"},
	settings:  typeOf[ConvertSettings](),
	example:   `{"from":{"quantityKind":"moment","unit":"kip*ft"},"to":{"quantityKind":"moment","unit":"kN*m"}}`,
	compile: func(raw canon.Raw) (*program, outcome.Findings) {
		var f outcome.Findings
		s := decode[ConvertSettings](&f, raw)
		if s == nil {
			return nil, f
		}
		side := func(c ConvertSide) quantity.Port {
			return quantity.Port{Type: quantity.NumberType, Unit: c.Unit, QuantityKind: c.QuantityKind, Shape: s.Shape}
		}
		from, to := side(s.From), side(s.To)
		f = append(f, from.Check("/from")...)
		f = append(f, to.Check("/to")...)
		if f.Refused() {
			return nil, f
		}
		// Changing the kind is what this Component is for; the units still must fit.
		plainFrom, plainTo := from, to
		plainFrom.QuantityKind, plainTo.QuantityKind = "", ""
		conversion, found := quantity.Fits(plainFrom, plainTo, "/to/unit")
		if found.Refused() {
			return nil, found
		}
		run := func(_ context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
			v, found := conversion.Apply(in["value"], "")
			if found.Refused() {
				return nil, failed("/settings/to/unit", Overflow, outcome.Params{"resultKey": "value"})
			}
			return map[string]quantity.Value{"value": v}, nil
		}
		return &program{Contract{map[string]quantity.Port{"value": from}, map[string]quantity.Port{"value": to}}, run}, f
	},
}
