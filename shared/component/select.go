package component

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

func index(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

// SelectSettings are the settings of px.select: an input for each choice, the
// inputs of the conditions, results "value" and "choice".
type SelectSettings struct {
	Value     quantity.Port       `json:"value" desc:"of every choice and the result"`
	Inputs    map[string]Scalar   `json:"inputs,omitzero" schema:"maxItems=64" desc:"for conditions"`
	Constants map[string]Constant `json:"constants,omitzero" schema:"maxItems=64"`
	Choices   []Choice            `json:"choices" schema:"minItems=1,maxItems=64" desc:"an input each; the first that holds is taken"`
	Otherwise string              `json:"otherwise,omitzero" schema:"pattern=key" desc:"input taken when none holds; left out, that fails"`
}

// A Choice is an input and the condition under which it is taken.
type Choice struct {
	ChoiceKey string `json:"choiceKey" schema:"pattern=key"`
	When      string `json:"when" schema:"minLength=1" desc:"boolean, over inputs and constants"`
}

var selectByCondition = definition{
	key: "px.select", version: 1,
	label: target.Label{"en": "Select", "ko": "조건 선택"},
	description: "Passes on one of several named inputs, of any type, by conditions tried in order, and tells which. Choose it where a rule switches between " +
		"alternatives, such as a coefficient by span or a table by code; for a number that is written in one line, use a ? b : c in px.formula.",
	settings: typeOf[SelectSettings](),
	example: `{"choices":[{"choiceKey":"short","when":"span <= limit"}],"constants":{"limit":{"unit":"ft","value":34}},"inputs":{"span":{"unit":"ft"}},` +
		`"otherwise":"long","value":{"quantityKind":"moment","type":"number","unit":"kip*ft"}}`,
	compile: compileSelect,
}

func compileSelect(raw canon.Raw) (*program, outcome.Findings) {
	var f outcome.Findings
	s := decode[SelectSettings](&f, raw)
	if s == nil {
		return nil, f
	}
	f = append(f, s.Value.Check("/value")...)
	value := s.Value
	value.Default = nil // a default belongs to an input, and no choice is an optional one
	if s.Value.Default != nil {
		f.Add(outcome.SchemaInvalid, "/value/default", outcome.Params{"rule": "not_for_a_choice"})
	}
	n := newNames()
	inputs := map[string]quantity.Port{}
	n.inputs(&f, "/inputs", s.Inputs, inputs)
	n.constants(&f, "/constants", s.Constants)
	var keys []string
	place := func(at, key string) {
		if n.declare(&f, at, key) {
			n.known[key] = variable{} // taken, and no number for conditions
			inputs[key] = value
			keys = append(keys, key)
		}
	}
	conditions := make([]numberFunc, len(s.Choices))
	for i, choice := range s.Choices {
		at := index("/choices", i)
		if tree := read(&f, at+"/when", choice.When); tree != nil {
			c := compiler{findings: &f, path: at + "/when", names: n.known}
			e := c.compile(tree.root)
			if e.kind != booleanKind && e.kind != badKind {
				f.Add(outcome.TypeMismatch, at+"/when", outcome.Params{"reason": "condition", "expected": "boolean", "found": e.kind.String()})
			}
			conditions[i] = e.number
		}
	}
	for i, choice := range s.Choices {
		place(index("/choices", i)+"/choiceKey", choice.ChoiceKey)
	}
	if s.Otherwise != "" {
		place("/otherwise", s.Otherwise)
	}
	if f.Refused() {
		return nil, f
	}
	results := map[string]quantity.Port{"value": value, "choice": {Type: quantity.EnumType, Values: keys, Shape: quantity.Scalar}}
	run := func(_ context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
		fr := n.frame(in)
		taken := s.Otherwise
		for i, condition := range conditions {
			holds := condition(fr)
			if fr.failure != "" {
				return nil, failed(index("/settings/choices", i)+"/when", fr.failure, outcome.Params{"offset": fr.offset})
			}
			if holds == 1 {
				taken = s.Choices[i].ChoiceKey
				break
			}
		}
		if taken == "" {
			return nil, failed("/settings/choices", "no_condition_holds", nil)
		}
		return map[string]quantity.Value{"value": in[taken], "choice": quantity.Text(taken)}, nil
	}
	return &program{Contract{inputs, results}, run}, f
}
