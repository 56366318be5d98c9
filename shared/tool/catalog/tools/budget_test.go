package tools_test

import (
	"encoding/json"
	"fmt"
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
