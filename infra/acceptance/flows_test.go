package acceptance

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"testing"
)

// A formula Node with one input and one result.
func formula(expression, unit string, inputs m, bindings m) m {
	return m{"target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
		"settings":      m{"inputs": inputs, "results": m{"r": m{"expression": expression, "unit": unit}}},
		"inputBindings": bindings}
}

func flowInput(port string) m { return m{"kind": "flowInput", "portKey": port} }
func nodeResult(node, port string) m {
	return m{"kind": "nodeResult", "nodeKey": node, "portKey": port}
}
func literal(value float64, unit string) m {
	return m{"kind": "literal", "value": number(value, unit)}
}
func scalar(unit string) m { return m{"type": "number", "unit": unit, "shape": "scalar"} }

// beam is a small Flow: the moment of a uniform load.
func beam(key string) m {
	return m{
		"format": "pxflow/1", "flowKey": key, "label": m{"en": "Beam", "ko": "보"}, "authoring": m{"kind": "native"},
		"inputs":  m{"span": scalar("m"), "load": scalar("kN/m")},
		"results": m{"moment": with(scalar("kN*m"), m{"binding": nodeResult("moment", "r")})},
		"nodes": m{"moment": formula("w * l ^ 2 / 8", "kN*m", m{"w": m{"unit": "kN/m"}, "l": m{"unit": "m"}},
			m{"w": flowInput("load"), "l": flowInput("span")})},
	}
}

// copied is a document that can be changed apart from the first.
func copied(t *testing.T, document m) m {
	t.Helper()
	var out m
	if err := json.Unmarshal([]byte(encode(t, document)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func at(document m, names ...string) m {
	for _, name := range names {
		document = document[name].(m)
	}
	return document
}

// Each step is a change; expect makes of the document what the commands say, in
// the words of the contract and by hand. The new revisionRef must be the digest
// of that document, so that nothing else in it can have changed.
// covers: F1, F2, F3, F5, P1, P2, P4, T2
func TestEveryFlowCommandMakesTheDocumentThatItSays(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	document := beam("footbridge")

	// The first save: the target is the document's own key and digest.
	f := flowHead{Target: flowTarget{sample, "footbridge", digest(t, document)}}
	creation := m{"kind": "CreateFlow", "document": document}
	first := engineer.plan(t, f, creation)
	var a applied
	engineer.ok(t, "pxflow_apply_change", first.application("create"), &a)
	if a.NewRevisionRef != f.Target.RevisionRef || a.NewGeneration != 0 {
		t.Fatalf("saved as %+v, and not as %+v", a, f)
	}
	engineer.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{creation}}, "FlowHeadAlreadyExists /target/flowKey")
	other := beam("footbridge_2")
	engineer.refused(t, "pxflow_plan_change", m{"target": flowTarget{sample, "footbridge_2", f.Target.RevisionRef}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateFlow", "document": other}}}, "PX_PLAN_MISMATCH /target/revisionRef")
	engineer.refused(t, "pxflow_plan_change", m{"target": flowTarget{sample, "footbridge_3", digest(t, other)}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateFlow", "document": other}}}, "PX_PLAN_MISMATCH /target/flowKey")

	old := f
	for i, step := range []struct {
		name     string
		commands list
		expect   func(m)
		touched  []string
	}{
		{"the label", list{m{"kind": "SetFlowLabel", "label": m{"en": "Footbridge"}}},
			func(d m) { d["label"] = m{"en": "Footbridge"} }, []string{"/label"}},
		{"a Node more, bound and shown", list{
			m{"kind": "AddInputPort", "portKey": "modulus", "contract": with(scalar("mm^3"), m{"constraints": m{"exclusiveMinimum": 0}})},
			m{"kind": "AddNode", "nodeKey": "stress", "target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
				"settings":      m{"inputs": m{"m": m{"unit": "kN*m"}, "s": m{"unit": "mm^3"}}, "results": m{"r": m{"expression": "m / s", "unit": "MPa"}}},
				"inputBindings": m{"m": nodeResult("moment", "r")}, "label": m{"en": "Stress"}},
			m{"kind": "ConnectInput", "nodeKey": "stress", "portKey": "s", "binding": flowInput("modulus")},
			m{"kind": "AddResultPort", "portKey": "stress", "contract": scalar("MPa")},
			m{"kind": "BindResult", "portKey": "stress", "binding": nodeResult("stress", "r")},
		}, func(d m) {
			at(d, "inputs")["modulus"] = with(scalar("mm^3"), m{"constraints": m{"exclusiveMinimum": 0}})
			at(d, "nodes")["stress"] = with(formula("m / s", "MPa", m{"m": m{"unit": "kN*m"}, "s": m{"unit": "mm^3"}},
				m{"m": nodeResult("moment", "r"), "s": flowInput("modulus")}), m{"label": m{"en": "Stress"}})
			at(d, "results")["stress"] = with(scalar("MPa"), m{"binding": nodeResult("stress", "r")})
		}, []string{"/inputs/modulus", "/nodes/stress", "/results/stress"}},
		{"another setting", list{m{"kind": "SetNodeSetting", "nodeKey": "moment", "settingKey": "results", "value": m{"r": m{"expression": "w * l ^ 2 / 10", "unit": "kN*m"}}}},
			func(d m) {
				at(d, "nodes", "moment", "settings")["results"] = m{"r": m{"expression": "w * l ^ 2 / 10", "unit": "kN*m"}}
			},
			[]string{"/nodes/moment/settings/results"}},
		{"a constant that comes and goes", list{
			m{"kind": "SetNodeSetting", "nodeKey": "moment", "settingKey": "constants", "value": m{"c": number(1, "m")}},
			m{"kind": "SetNodeSetting", "nodeKey": "moment", "settingKey": "constants", "value": nil},
			m{"kind": "DisconnectInput", "nodeKey": "moment", "portKey": "w"},
			m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4.5, "kN/m")},
		}, func(d m) { at(d, "nodes", "moment", "inputBindings")["w"] = literal(4.5, "kN/m") },
			[]string{"/nodes/moment/inputBindings/w", "/nodes/moment/settings/constants"}},
		{"ports with other contracts", list{
			m{"kind": "ChangeInputPort", "portKey": "span", "contract": with(scalar("ft"), m{"default": number(40, "ft")})},
			m{"kind": "ChangeResultPort", "portKey": "stress", "contract": scalar("ksi")},
		}, func(d m) {
			at(d, "inputs")["span"] = with(scalar("ft"), m{"default": number(40, "ft")})
			at(d, "results", "stress")["unit"] = "ksi"
		}, []string{"/inputs/span", "/results/stress"}},
		{"a port less", list{m{"kind": "RemoveInputPort", "portKey": "load"}},
			func(d m) { delete(at(d, "inputs"), "load") }, []string{"/inputs/load"}},
		{"another Component in place", list{
			m{"kind": "AddNode", "nodeKey": "shown", "target": m{"kind": "component", "componentKey": "px.formula", "version": 1},
				"settings": m{"inputs": m{"value": m{"unit": "kN*m"}}, "results": m{"value": m{"expression": "value", "unit": "kN*m"}}}},
			m{"kind": "ReplaceNodeTarget", "nodeKey": "shown", "target": m{"kind": "component", "componentKey": "px.convert", "version": 1}},
			m{"kind": "SetNodeSetting", "nodeKey": "shown", "settingKey": "inputs", "value": nil},
			m{"kind": "SetNodeSetting", "nodeKey": "shown", "settingKey": "results", "value": nil},
			m{"kind": "SetNodeSetting", "nodeKey": "shown", "settingKey": "from", "value": m{"unit": "kN*m"}},
			m{"kind": "SetNodeSetting", "nodeKey": "shown", "settingKey": "to", "value": m{"unit": "kip*ft"}},
			m{"kind": "ConnectInput", "nodeKey": "shown", "portKey": "value", "binding": nodeResult("moment", "r")},
			m{"kind": "BindResult", "portKey": "moment", "binding": nodeResult("shown", "value")},
		}, func(d m) {
			at(d, "nodes")["shown"] = m{"target": m{"kind": "component", "componentKey": "px.convert", "version": 1},
				"settings": m{"from": m{"unit": "kN*m"}, "to": m{"unit": "kip*ft"}}, "inputBindings": m{"value": nodeResult("moment", "r")}}
			at(d, "results", "moment")["binding"] = nodeResult("shown", "value")
		}, []string{"/nodes/shown", "/results/moment/binding"}},
		{"a Node and a result less", list{m{"kind": "RemoveResultPort", "portKey": "stress"}, m{"kind": "RemoveNode", "nodeKey": "stress"}, m{"kind": "RemoveInputPort", "portKey": "modulus"}},
			func(d m) {
				delete(at(d, "results"), "stress")
				delete(at(d, "nodes"), "stress")
				delete(at(d, "inputs"), "modulus")
			}, []string{"/inputs/modulus", "/nodes/stress", "/results/stress"}},
	} {
		document = copied(t, document)
		step.expect(document)
		want := digest(t, document)
		var p struct {
			plan
			Commands             list
			Atomic               bool
			TouchedSemanticPaths []string
			Base                 m
			Diff                 []struct{ Path, Op string }
			Impact               struct {
				Checks                                  []struct{ Path, Kind, Producer, Consumer, Verdict string }
				Boundary, Uses, Preserved, Dependencies []m
				Source                                  struct{ Linked, Safe bool }
				Cost                                    int
			}
			Approval struct{ Required bool }
		}
		told := engineer.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": step.commands}, &p)
		if !p.Atomic || !slices.Equal(p.TouchedSemanticPaths, step.touched) || p.Base["revisionRef"] != f.Target.RevisionRef || p.Approval.Required ||
			!p.Impact.Source.Safe || p.Impact.Source.Linked || p.Impact.Cost != len(at(document, "nodes")) || len(p.Impact.Dependencies) == 0 || len(p.Impact.Uses) != 0 {
			t.Errorf("%s: the plan is %+v", step.name, p)
		}
		var sent list
		for _, c := range step.commands {
			sent = append(sent, copied(t, c.(m)))
		}
		if !reflect.DeepEqual(p.Commands, sent) {
			t.Errorf("%s: the commands came back as %v", step.name, p.Commands)
		}
		if step.name == "ports with other contracts" {
			// Of the new units: each binding that is concerned, both contracts of each
			// port, and that values will be converted.
			var converted, changed []string
			for _, c := range p.Impact.Checks {
				if c.Verdict == "converted" {
					converted = append(converted, c.Path+" from "+c.Producer+" to "+c.Consumer)
				}
			}
			for _, b := range p.Impact.Boundary {
				changed = append(changed, fmt.Sprint(b["path"], " from ", b["before"].(m)["unit"], " to ", b["after"].(m)["unit"]))
			}
			if !slices.Equal(converted, []string{"/nodes/moment/inputBindings/l from ft to m", "/results/stress/binding from MPa to ksi"}) ||
				!slices.Equal(changed, []string{"/inputs/span from m to ft", "/results/stress from MPa to ksi"}) ||
				!slices.Equal(told.told(), []string{"PX_UNIT_CONVERTED /nodes/moment/inputBindings/l", "PX_UNIT_CONVERTED /results/stress/binding"}) {
				t.Errorf("%s: %+v, told %q", step.name, p.Impact, told.told())
			}
		}
		if step.name != "a constant that comes and goes" && len(p.Diff) == 0 {
			t.Errorf("%s: a plan without a diff", step.name)
		}
		engineer.ok(t, "pxflow_apply_change", p.application(fmt.Sprint("step-", i)), &a)
		if a.NewRevisionRef != want || a.NewGeneration != f.Generation+1 {
			t.Fatalf("%s: generation %d, revision %s, and the document's digest is %s", step.name, a.NewGeneration, a.NewRevisionRef, want)
		}
		f.Target.RevisionRef, f.Generation = a.NewRevisionRef, a.NewGeneration
		var valid struct{ Valid bool }
		if found := engineer.ok(t, "pxflow_validate", m{"target": f.Target}, &valid); !valid.Valid {
			t.Errorf("%s: not valid: %q", step.name, found.told())
		}
	}

	// Described, the ports and Nodes are the document's; an old revision is still
	// itself, and is not taken for the head.
	var now, then struct {
		Target                 flowTarget
		Generation             int64
		Current                bool
		Head                   struct{ RevisionRef string }
		Inputs, Results, Nodes map[string]m
		Label                  m
	}
	engineer.ok(t, "pxflow_describe", m{"target": f.Target}, &now)
	if !now.Current || now.Generation != 8 || !reflect.DeepEqual(keys(now.Nodes), []string{"moment", "shown"}) || !reflect.DeepEqual(keys(now.Inputs), []string{"span"}) ||
		!reflect.DeepEqual(keys(now.Results), []string{"moment"}) {
		t.Errorf("the head is described as %+v", now)
	}
	engineer.ok(t, "pxflow_describe", m{"target": old.Target}, &then)
	if then.Current || then.Generation != 0 || then.Target.RevisionRef != old.Target.RevisionRef || then.Head.RevisionRef != f.Target.RevisionRef || then.Label["ko"] != "보" {
		t.Errorf("the first revision is described as %+v", then)
	}
	engineer.refused(t, "pxflow_plan_change", m{"target": old.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "x"}}}},
		"PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/revisionRef")
	// The old revision still runs as it was: 4 kN/m on 10 m, by w l²/8.
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": old.Target, "commandId": "old", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}, &started)
	if r := engineer.finished(t, started.RunRef); r.State != "Succeeded" {
		t.Fatalf("%+v", r)
	}
	var result struct{ Value struct{ Value float64 } }
	engineer.ok(t, "result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, &result)
	if result.Value.Value != 50 {
		t.Errorf("4 kN/m on 10 m give %v kN*m", result.Value.Value)
	}
}

func keys(in map[string]m) []string {
	var out []string
	for key := range in {
		out = append(out, key)
	}
	sort.Strings(out)
	return out
}
