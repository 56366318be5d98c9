package component

import (
	"context"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// FormulaSettings are the settings of px.formula. Every input is a port, and so
// is every result. An expression may use inputs, constants and other results.
type FormulaSettings struct {
	Inputs    map[string]Scalar        `json:"inputs,omitzero" schema:"maxItems=64" desc:"ports, by the name in expressions"`
	Constants map[string]Constant      `json:"constants,omitzero" schema:"maxItems=64"`
	Results   map[string]FormulaResult `json:"results" schema:"minItems=1,maxItems=64" desc:"may use inputs, constants, other results"`
}

// A FormulaResult is one expression and what its value leaves in.
type FormulaResult struct {
	Expression string `json:"expression" schema:"minLength=1" desc:"such as w * span ^ 2 / 8"`
	Output
}

var formula = definition{
	key: "px.formula", version: 1,
	label: target.Label{"en": "Formula", "ko": "수식"},
	description: "Calculates results from expressions over named inputs, with units checked. Choose it for closed formulas: loads, moments, stresses, " +
		"utilizations, yes/no checks. A bare number is dimensionless; put a number that has a unit into constants. Units of inputs and results may differ " +
		"(ft in, m out). Has + - * / ^, comparisons, and/or/not, a ? b : c, pi and the usual functions; no loops, lists or tables (see px.table_map).",
	settings: typeOf[FormulaSettings](),
	example: `{"constants":{"axle":{"unit":"kip","value":72},"lever":{"unit":"ft","value":7},"rear":{"unit":"kip*ft","value":112}},` +
		`"inputs":{"impact":{"default":{"unit":"1","value":0.33},"unit":"1"},"span":{"constraints":{"exclusiveMinimum":0},"unit":"ft"}},` +
		`"results":{"live_moment":{"expression":"axle * (span / 2 - lever / 3) ^ 2 / span - rear","quantityKind":"moment","unit":"kip*ft"},` +
		`"with_impact":{"expression":"live_moment * (1 + impact)","quantityKind":"moment","unit":"kN*m"}}}`,
	compile: compileFormula,
}

// step is one result, ready to evaluate.
type step struct {
	key    string
	port   quantity.Port
	unit   quantity.Unit
	slot   int
	number numberFunc
}

func compileFormula(raw canon.Raw) (*program, outcome.Findings) {
	var f outcome.Findings
	s := decode[FormulaSettings](&f, raw)
	if s == nil {
		return nil, f
	}
	n := newNames()
	contract := Contract{Inputs: map[string]quantity.Port{}, Results: map[string]quantity.Port{}}
	n.inputs(&f, "/inputs", s.Inputs, contract.Inputs)
	n.constants(&f, "/constants", s.Constants)

	trees := map[string]*syntax{}
	for _, key := range slices.Sorted(maps.Keys(s.Results)) {
		at := pointer("/results", key)
		declared := n.declare(&f, at, key)
		sound := s.Results[key].Output.check(&f, at)
		if tree := read(&f, at+"/expression", s.Results[key].Expression); tree != nil && declared && sound {
			trees[key] = tree
			contract.Results[key] = s.Results[key].Output.port()
		}
	}
	order, circle := dependencyOrder(trees)
	if circle != nil {
		f.Add(outcome.BindingCycle, "/results", outcome.Params{"resultKeys": circle})
		return nil, f
	}
	var steps []step
	for _, key := range slices.Sorted(maps.Keys(s.Results)) {
		if trees[key] == nil {
			n.known[key] = variable{} // refused above; using it is no further mistake
		}
	}
	for _, key := range order {
		at := pointer("/results", key) + "/expression"
		c := compiler{findings: &f, path: at, names: n.known}
		e := c.compile(trees[key].root)
		out := s.Results[key].Output
		out.takes(&f, at, e.exprType)
		if e.kind == textKind {
			e.kind = badKind
		}
		if e.kind == badKind {
			n.known[key] = variable{}
			continue
		}
		port := out.port()
		unit, _ := port.ParsedUnit()
		steps = append(steps, step{key, port, unit, n.add(key, e.exprType), e.number})
	}
	if f.Refused() {
		return nil, f
	}
	run := func(ctx context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
		fr := n.frame(in)
		out := make(map[string]quantity.Value, len(steps))
		for _, s := range steps {
			x := s.number(fr)
			if fr.failure != "" {
				return nil, failed(pointer("/settings/results", s.key)+"/expression", fr.failure, outcome.Params{"resultKey": s.key, "offset": fr.offset})
			}
			fr.numbers[s.slot] = x
			out[s.key] = outputValue(s.port, s.unit, x)
			if !isFinite(out[s.key]) {
				return nil, failed(pointer("/settings/results", s.key)+"/unit", Overflow, outcome.Params{"resultKey": s.key})
			}
		}
		return out, nil
	}
	return &program{contract, run}, f
}

// dependencyOrder sorts expressions so that each comes after those it uses, by
// key where that leaves a choice. circle lists the keys of a circle.
func dependencyOrder(trees map[string]*syntax) (order, circle []string) {
	const (
		entered = 1
		done    = 2
	)
	state := map[string]int{}
	var stack []string
	var visit func(key string) bool
	visit = func(key string) bool {
		switch state[key] {
		case done:
			return true
		case entered:
			circle = slices.Clone(stack[slices.Index(stack, key):])
			slices.Sort(circle)
			return false
		}
		state[key] = entered
		stack = append(stack, key)
		for _, name := range slices.Sorted(slices.Values(trees[key].names)) {
			if trees[name] != nil && !visit(name) {
				return false
			}
		}
		stack = stack[:len(stack)-1]
		state[key] = done
		order = append(order, key)
		return true
	}
	for _, key := range slices.Sorted(maps.Keys(trees)) {
		if !visit(key) {
			return nil, circle
		}
	}
	return order, nil
}
