package acceptance

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// covers: H4, P1, P4, S1, U1, U2, W1, W4
func TestAConversationGivesTheHandbooksMoments(t *testing.T) {
	t.Parallel()
	h := start(t)
	token := h.token(t, "engineer")
	// say posts lines and reads a reply for each, in order.
	say := func(lines ...string) []message {
		t.Helper()
		r := post(t, h.URL, token, strings.Join(lines, "\n")+"\n")
		replies := r.lines()
		if r.status != 200 || len(replies) != len(lines) || r.header.Get("content-type") != "application/x-ndjson" {
			t.Fatalf("%d lines, and %d of status %d came back: %s", len(lines), len(replies), r.status, r.body)
		}
		out := make([]message, len(lines))
		for i, text := range replies {
			out[i] = read(t, text)
			if want := fmt.Sprint(i + 1); string(out[i].ID) != want {
				t.Fatalf("reply %s stands where %s belongs", out[i].ID, want)
			}
		}
		return out
	}
	// data reads what a reply says, which must be an answer.
	data := func(in message, into any) {
		t.Helper()
		if in.Envelope == nil || !in.Envelope.OK {
			t.Fatalf("refused: %+v", in)
		}
		if err := json.Unmarshal(in.Envelope.Data, into); err != nil {
			t.Fatal(err)
		}
	}

	var projects struct {
		Items []struct{ Target struct{ Scope m } }
	}
	data(say(line(t, 1, "project_search", m{"scope": m{"kind": "principal"}, "query": "교량"}))[0], &projects)
	if len(projects.Items) != 1 {
		t.Fatalf("the principal's Projects: %+v", projects)
	}
	scope := projects.Items[0].Target.Scope

	var flows struct{ Items []flowHead }
	data(say(line(t, 1, "pxflow_search", m{"scope": scope, "query": "girder hs20"}))[0], &flows)
	if len(flows.Items) != 1 || flows.Items[0].Target.FlowKey != "girder_check" {
		t.Fatalf("found %+v", flows)
	}
	flow := flows.Items[0]

	var described struct {
		Generation int64
		Inputs     map[string]m
		Operations []struct {
			Tool      string
			Permitted bool
		}
	}
	data(say(line(t, 1, "pxflow_describe", m{"target": flow.Target}))[0], &described)
	if described.Generation != 0 || len(described.Inputs) != 5 {
		t.Fatalf("described as %+v", described)
	}
	for _, o := range described.Operations {
		if !o.Permitted {
			t.Errorf("the engineer may not %s", o.Tool)
		}
	}

	var p plan
	data(say(line(t, 1, "pxflow_plan_change", m{"target": flow.Target, "expectedGeneration": 0, "commands": list{
		m{"kind": "AddResultPort", "portKey": "truck_weight", "contract": m{"type": "number", "unit": "kN", "shape": "scalar"}},
		m{"kind": "BindResult", "portKey": "truck_weight", "binding": m{"kind": "nodeResult", "nodeKey": "truck_weight", "portKey": "w"}},
	}}))[0], &p)
	var a applied
	data(say(line(t, 1, "pxflow_apply_change", p.application("conversation")))[0], &a)
	if a.NewGeneration != 1 || a.NewRevisionRef == flow.Target.RevisionRef {
		t.Fatalf("applied as %+v", a)
	}
	flow.Target.RevisionRef, flow.Generation = a.NewRevisionRef, 1

	const foot, kip, inch, gravity = 0.3048, 4.4482216152605, 0.0254, 1.0
	handbook := map[float64]float64{40: 449.8, 60: 806.5, 70: 985.6, 80: 1164.9, 90: 1344.4}
	spans := []float64{40, 60, 70, 80, 90}
	var lines []string
	for i, span := range spans {
		imperial := m{"span": number(span, "ft"), "dead_load": number(1.2, "kip/ft"), "impact": number(0.3, "1"), "section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}
		si := m{"span": number(span*foot, "m"), "dead_load": number(1.2*kip/foot, "kN/m"), "impact": number(0.3, "1"),
			"section_modulus": number(1500*inch*inch*inch*1e9, "mm^3"), "yield_stress": number(50*kip/(inch*inch)*1e-3, "N/mm^2")}
		for j, inputs := range []m{imperial, si} {
			lines = append(lines, line(t, 2*i+j+1, "pxflow_run", m{"kind": "RunFlow", "target": flow.Target, "inputs": inputs, "commandId": fmt.Sprintf("run-%v-%d", span, j)}))
		}
	}
	runs := make([]string, len(lines))
	for i, reply := range say(lines...) {
		var started struct{ RunRef, State string }
		data(reply, &started)
		if started.State != "Queued" {
			t.Errorf("a Run starts as %s", started.State)
		}
		runs[i] = started.RunRef
	}
	engineer := h.as(t, "engineer")
	value := func(runRef, key, unit string) float64 {
		t.Helper()
		var r struct {
			ResultKey, Type, Unit string
			Value                 struct {
				Value float64
				Unit  string
			}
		}
		data(say(line(t, 1, "result_read", m{"runRef": runRef, "resultKey": key}))[0], &r)
		if r.ResultKey != key || r.Type != "number" || r.Unit != unit || r.Value.Unit != unit {
			t.Fatalf("the result is %+v", r)
		}
		return r.Value.Value
	}
	near := func(what string, got, want, relative float64) {
		t.Helper()
		if math.Abs(got-want) > relative*math.Abs(want) {
			t.Errorf("%s: got %.17g, want %.17g", what, got, want)
		}
	}
	for i, span := range spans {
		for _, ref := range runs[2*i : 2*i+2] {
			report := engineer.finished(t, ref)
			if report.State != "Succeeded" || report.Progress.Completed != report.Progress.Total || len(report.Results) != 6 {
				t.Fatalf("%v ft: %+v", span, report)
			}
		}
		live := value(runs[2*i], "live_moment", "kip*ft")
		if got := math.Round(live*10) / 10; got != handbook[span] {
			t.Errorf("%v ft: %v, and the handbook says %v", span, got, handbook[span])
		}
		near(fmt.Sprint("live moment at ", span), live, 72*math.Pow(span/2-7./3, 2)/span-112, 1e-12)
		dead := 1.2 * span * span / 8
		total := dead + live*1.3
		near(fmt.Sprint("total moment at ", span), value(runs[2*i], "total_moment", "kip*ft"), total, 1e-12)
		utilization := value(runs[2*i], "utilization", "1")
		near(fmt.Sprint("utilization at ", span), utilization, total*12/1500/50, 1e-12)
		near(fmt.Sprint("utilization in SI at ", span), value(runs[2*i+1], "utilization", "1"), utilization, 1e-12)
		near(fmt.Sprint("truck weight at ", span), value(runs[2*i+1], "truck_weight", "kN"), 72*kip*gravity, 1e-12)
	}
}

// The list of tools is the catalog of the contract, in its order.
//
// covers: W7
func TestTheListOfToolsIsTheCatalog(t *testing.T) {
	t.Parallel()
	h := start(t)
	reply := post(t, h.URL, h.token(t, "other"), `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	var tools []struct {
		Name, Description         string
		InputSchema, OutputSchema m
		Annotations               map[string]*bool
	}
	if err := json.Unmarshal([]byte(read(t, reply.body).Raw), &tools); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		writes := slices.Contains([]string{"report_apply_change", "function_apply_change", "pxflow_apply_change", "pxflow_run", "run_cancel"}, tool.Name)
		if only := tool.Annotations["readOnlyHint"]; only == nil || *only == writes || len(tool.Annotations) != 4 {
			t.Errorf("%s: annotations %v", tool.Name, tool.Annotations)
		}
		for _, schema := range []m{tool.InputSchema, tool.OutputSchema} {
			if schema["type"] != "object" || schema["oneOf"] != nil || schema["anyOf"] != nil || schema["allOf"] != nil {
				t.Errorf("%s: a schema whose top is no plain object", tool.Name)
			}
		}
		if len(tool.Description) == 0 || len(tool.Description) > 1024 {
			t.Errorf("%s: a description of %d bytes", tool.Name, len(tool.Description))
		}
	}
	catalog := []string{"project_search", "report_search", "report_describe", "pxflow_search", "pxflow_describe", "function_search", "function_describe",
		"component_search", "component_describe", "report_plan_change", "report_apply_change", "function_validate_change", "function_plan_change",
		"function_apply_change", "pxflow_validate", "pxflow_plan_change", "pxflow_apply_change", "pxflow_run", "run_get", "run_cancel", "result_read"}
	if !slices.Equal(names, catalog) {
		t.Errorf("the list is %q", names)
	}
	// Whatever a Project has, it has no tools.
	engineer := h.as(t, "engineer")
	used := h.createFunction(t, engineer, "scale", scaler("scale", 1, "2"))
	engineer.createReport(t, scaled("scaled_review", engineer.create(t, sample, scaling("scaled", used, 1)).Target))
	for _, who := range []string{"other", "engineer"} {
		if again := post(t, h.URL, h.token(t, who), `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`); string(again.body) != string(reply.body) {
			t.Errorf("with a Function, a Flow and a Report, %s is told %.300s", who, again.body)
		}
	}
	if len(reply.body) > 64<<10 {
		t.Errorf("the list has %d bytes", len(reply.body))
	}
}
