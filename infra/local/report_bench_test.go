package local

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/report"
)

// BenchmarkReport is planning a Report of 500 blocks: all 200 mappings of a
// connection that it does not have yet, and one value of it once it has them; and
// describing it then. The reference is the plan of one Node of the sample's Flow,
// which goes the same way.
func BenchmarkReport(b *testing.B) {
	s := startSystem(b)
	small := s.sampleFlow(b)
	wide := s.create(b, wideFlow())
	document, mappings := largeReport(wide)
	plan := func(of saved, commands []object) (p planned) {
		s.call(b, "report_plan_change", object{"target": of.address, "expectedGeneration": of.generation, "commands": commands}, &p)
		return p
	}
	bare := s.createReport(b, document)
	document["reportKey"] = "connected"
	connected := s.createReport(b, document)
	connected = s.applyReport(b, connected, plan(connected, mappings))
	n := 0
	subjects := []subject{
		{name: "flow-plan", once: func() { s.plan(b, small, n) }},
		{"describe-500", func() { s.call(b, "report_describe", object{"target": connected.address}, nil) }, []string{"flow-plan"}, ""},
		{"plan-1-value", func() {
			n++
			plan(connected, []object{{"kind": "SetFieldValue", "blockKey": "b000", "fieldKey": "f", "value": object{"value": n, "unit": "m"}}})
		}, []string{"flow-plan"}, "at most 150 ms"},
		{"plan-200-mappings", func() { plan(bare, mappings) }, []string{"flow-plan"}, "at most 150 ms"},
	}
	for range 3 {
		for _, one := range subjects {
			one.once()
		}
	}
	inTurn(b, nil, subjects...)
}

// wideFlow is a Flow of 100 inputs and 100 results.
func wideFlow() object {
	inputs, results := object{}, object{}
	for i := range 100 {
		inputs[fmt.Sprintf("i%d", i)] = object{"type": "number", "unit": "m"}
		results[fmt.Sprintf("r%d", i)] = object{"type": "number", "unit": "m^2", "binding": object{"kind": "nodeResult", "nodeKey": "area", "portKey": "a"}}
	}
	return object{"format": "pxflow/1", "flowKey": "wide", "authoring": object{"kind": "native"}, "inputs": inputs, "results": results, "nodes": object{"area": object{
		"target":        object{"kind": "component", "componentKey": "px.formula", "version": 1},
		"settings":      object{"inputs": object{"x": object{"unit": "m"}}, "results": object{"a": object{"expression": "x * x", "unit": "m^2"}}},
		"inputBindings": object{"x": object{"kind": "flowInput", "portKey": "i0"}}}}}
}

// largeReport is a Report of 500 blocks, values, texts and results in turn, and the
// commands that map 100 of its fields and 100 of its slots; units of half of them
// are converted.
func largeReport(flow saved) (document object, mappings []object) {
	order, blocks := make([]string, 500), object{}
	for i := range order {
		order[i] = fmt.Sprintf("b%03d", i)
		unit := []string{"m", "ft"}[i/3%2]
		switch i % 3 {
		case 0:
			blocks[order[i]] = object{"kind": "values", "fields": object{"f": object{"type": "number", "unit": unit, "value": object{"value": i, "unit": unit}},
				"g": object{"type": "string", "value": object{"value": "a"}}, "h": object{"type": "integer", "value": object{"value": 1}}}}
		case 1:
			blocks[order[i]] = object{"kind": "text", "text": strings.Repeat("Text of a method. ", 20)}
		default:
			blocks[order[i]] = object{"kind": "results", "slots": object{"s": object{"type": "number", "unit": unit + "^2"}, "t": object{"type": "boolean"}, "u": object{"type": "string"}}}
		}
	}
	for i := range 100 {
		mappings = append(mappings,
			object{"kind": "SetReportFlowInputSource", "connectionKey": "main", "mappingKey": fmt.Sprintf("in%d", i), "flowTarget": flow.address, "portKey": fmt.Sprintf("i%d", i),
				"source": object{"kind": "reportValue", "blockKey": order[3*i], "fieldKey": "f"}},
			object{"kind": "SetReportFlowResultTarget", "connectionKey": "main", "mappingKey": fmt.Sprintf("out%d", i), "portKey": fmt.Sprintf("r%d", i),
				"target": object{"kind": "reportResultSlot", "blockKey": order[3*i+2], "slotKey": "s"}})
	}
	return object{"format": "pxreport/1", "reportKey": "large", "blockOrder": order, "blocks": blocks, "connections": object{}}, mappings
}

// createReport saves a new Report.
func (s *system) createReport(b *testing.B, document object) saved {
	b.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		b.Fatal(err)
	}
	doc, findings := report.Decode(text)
	if findings.Refused() {
		b.Fatal(findings)
	}
	_, ref, err := doc.RevisionRef()
	if err != nil {
		b.Fatal(err)
	}
	r := saved{address: object{"scope": sample.Project.Scope(), "reportKey": doc.ReportKey, "revisionRef": ref}}
	var p planned
	s.call(b, "report_plan_change", object{"target": r.address, "expectedGeneration": 0, "commands": []object{{"kind": "CreateReport", "document": document}}}, &p)
	s.applyReport(b, r, p)
	return r
}

// applyReport applies a plan and returns the Report at the revision that it made.
func (s *system) applyReport(b *testing.B, r saved, p planned) saved {
	b.Helper()
	var applied struct {
		NewRevisionRef string
		NewGeneration  int64
	}
	s.call(b, "report_apply_change", object{"target": r.address, "expectedGeneration": r.generation, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": p.PlanRef}, &applied)
	return saved{object{"scope": r.address["scope"], "reportKey": r.address["reportKey"], "revisionRef": applied.NewRevisionRef}, applied.NewGeneration}
}
