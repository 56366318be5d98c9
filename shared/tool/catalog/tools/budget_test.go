package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/budget"
)

// covers: B1
func TestTheFlowsOfAnOrdinaryProjectAreDescribedInOneAnswer(t *testing.T) {
	d := byName("pxflow_describe")
	var places []budget.Place
	for _, p := range d.Spec().Places {
		p.Path = "/data" + p.Path
		places = append(places, p)
	}
	port := map[string]any{"type": "number", "unit": "kN*m", "shape": "scalar", "nullable": false, "constraints": map[string]any{"minimum": 0}, "quantityKind": "moment"}
	var items []any
	for i := range 25 { // what one search finds, if nothing else is asked
		nodes, inputs := map[string]any{}, map[string]any{}
		for n := range 24 {
			nodes[fmt.Sprintf("node_%d", n)] = map[string]any{
				"target":   map[string]any{"kind": "component", "componentKey": "px.formula", "version": 1},
				"settings": map[string]any{"results": map[string]any{"m": map[string]any{"expression": "w * span ^ 2 / 8", "unit": "kN*m"}}},
				"inputs":   map[string]any{"span": map[string]any{"contract": port, "binding": map[string]any{"kind": "flowInput", "portKey": "span"}}},
				"stage":    n,
			}
		}
		for n := range 8 {
			inputs[fmt.Sprintf("input_%d", n)] = port
		}
		items = append(items, map[string]any{"target": map[string]any{"flowKey": fmt.Sprintf("flow_%d", i)}, "nodes": nodes, "inputs": inputs, "results": inputs, "usedBy": []any{"report/a"}})
	}
	document, err := json.Marshal(map[string]any{"data": map[string]any{"items": items}})
	if err != nil {
		t.Fatal(err)
	}
	_, more, err := budget.Cut(budget.Answer{Document: document, Told: "data", Places: places, Limits: budget.Fixed, MaxValue: 100, Continue: func([]byte) (string, error) { return "x", nil }})
	if err != nil || more {
		t.Errorf("25 Flows of 24 Nodes, %d bytes, are cut: %v", len(document), err)
	}
}

// A document may be 1 MiB, and the plan that creates it tells it once as the
// command and once as the diff.
//
// covers: B2
func TestThePlanOfTheLargestDocumentIsToldInParts(t *testing.T) {
	var places []budget.Place
	for _, p := range byName("pxflow_plan_change").Spec().Places {
		p.Path = "/data" + p.Path
		places = append(places, p)
	}
	const count = 450
	nodes, diff := map[string]any{}, []any{}
	for i := range count {
		key := fmt.Sprintf("node_%d", i)
		nodes[key] = map[string]any{"label": map[string]any{"en": strings.Repeat("x", 2200)}}
		diff = append(diff, map[string]any{"op": "add", "path": "/nodes/" + key, "after": nodes[key]})
	}
	document, err := json.Marshal(map[string]any{"data": map[string]any{
		"planRef": "plan_0", "commands": []any{map[string]any{"kind": "CreateFlow", "document": map[string]any{"flowKey": "large", "nodes": nodes}}}, "diff": diff}})
	if err != nil {
		t.Fatal(err)
	}
	told, changes := map[string]bool{}, 0
	var from []byte
	for more := true; more; {
		var part []byte
		part, more, err = budget.Cut(budget.Answer{Document: document, Told: "data", Places: places, Limits: budget.Fixed, MaxValue: 100, From: from,
			Continue: func(position []byte) (string, error) { from = position; return "x", nil }})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Data struct {
				Commands []struct {
					Document struct{ Nodes map[string]any }
				}
				Diff []any
			}
		}
		if err := json.Unmarshal(part, &answer); err != nil {
			t.Fatal(err)
		}
		for _, c := range answer.Data.Commands {
			for key := range c.Document.Nodes {
				if told[key] {
					t.Fatalf("%s is told twice", key)
				}
				told[key] = true
			}
		}
		changes += len(answer.Data.Diff)
	}
	if len(told) != count || changes != count {
		t.Errorf("%d nodes and %d changes are told", len(told), changes)
	}
}
