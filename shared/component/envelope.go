package component

import (
	"context"
	"math"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// EnvelopeSettings are the settings of px.envelope: an input for each case,
// results "value" and "governing".
type EnvelopeSettings struct {
	Mode         EnvelopeMode `json:"mode" desc:"absmax: largest magnitude, sign kept"`
	Cases        []string     `json:"cases" schema:"minItems=1,maxItems=64,each.pattern=key" desc:"an input each; the first of equals governs"`
	Unit         string       `json:"unit" desc:"of every input and of the value"`
	QuantityKind string       `json:"quantityKind,omitzero" schema:"pattern=key"`
}

// Enum returns the modes, for package schema.
func (EnvelopeMode) Enum() []string { return []string{"max", "min", "absmax"} }

// EnvelopeMode says which case governs.
type EnvelopeMode string

// The envelope modes.
const (
	EnvelopeMax    EnvelopeMode = "max"
	EnvelopeMin    EnvelopeMode = "min"
	EnvelopeAbsMax EnvelopeMode = "absmax"
)

var envelope = definition{
	key: "px.envelope", version: 1,
	label: target.Label{"en": "Envelope", "ko": "포락값"},
	description: "Finds the governing one of several named cases: the largest, smallest or largest-in-magnitude value, and the key of the case it comes from. " +
		"Choose it to combine load cases or checks; for rows of a table use px.aggregate.",
	settings: typeOf[EnvelopeSettings](),
	example:  `{"cases":["strength_1","strength_2","service"],"mode":"absmax","quantityKind":"moment","unit":"kN*m"}`,
	compile: func(raw canon.Raw) (*program, outcome.Findings) {
		var f outcome.Findings
		s := decode[EnvelopeSettings](&f, raw)
		if s == nil {
			return nil, f
		}
		var rank func(x float64) float64
		switch s.Mode {
		case EnvelopeMax:
			rank = func(x float64) float64 { return x }
		case EnvelopeMin:
			rank = func(x float64) float64 { return -x }
		case EnvelopeAbsMax:
			rank = math.Abs
		}
		value := quantity.Port{Type: quantity.NumberType, Unit: s.Unit, QuantityKind: s.QuantityKind, Shape: quantity.Scalar}
		found := value.Check("")
		f = append(f, found...)
		if u, ok := value.ParsedUnit(); ok && s.Mode == EnvelopeAbsMax && u.Absolute() {
			f.Add(outcome.UnitMismatch, "/unit", outcome.Params{"reason": "temperature_with_zero", "mode": s.Mode})
		}
		inputs := keyList(&f, "/cases", s.Cases, value)
		if f.Refused() {
			return nil, f
		}
		results := map[string]quantity.Port{"value": value, "governing": {Type: quantity.EnumType, Values: s.Cases, Shape: quantity.Scalar}}
		run := func(_ context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
			best, governing := in[s.Cases[0]].(quantity.Number), s.Cases[0]
			for _, key := range s.Cases[1:] {
				if n := in[key].(quantity.Number); rank(n.Magnitude) > rank(best.Magnitude) {
					best, governing = n, key
				}
			}
			return map[string]quantity.Value{"value": best, "governing": quantity.Text(governing)}, nil
		}
		return &program{Contract{inputs, results}, run}, f
	},
}

// keyList checks that keys are distinct and makes an input of each.
func keyList(f *outcome.Findings, path string, keys []string, port quantity.Port) map[string]quantity.Port {
	out := make(map[string]quantity.Port, len(keys))
	for i, key := range keys {
		if _, twice := out[key]; twice {
			f.Add(outcome.SchemaInvalid, index(path, i), outcome.Params{"rule": "duplicate"})
		}
		out[key] = port
	}
	return out
}
