package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
)

// save commits documents of the sample Project as tools do, all in one commit.
func (s *system) save(b *testing.B, changes ...change.Change) {
	b.Helper()
	ctx, principal := b.Context(), s.URL+"|engineer"
	d := change.Draft{Tool: "bench", Project: sample.Project, Target: canon.Raw(`{}`), Subject: policy.OnFlow, Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`), Changes: changes}
	plan, findings, err := s.parts.Planner().Plan(ctx, change.Author{Principal: principal}, d)
	if err != nil || findings.Refused() {
		b.Fatal(findings, err)
	}
	_, findings, err = s.parts.Applier(nil).Apply(ctx, change.Application{Author: change.Author{Principal: principal}, Tool: d.Tool, Project: d.Project,
		Target: d.Target, Address: changes[0].CatalogKey(), PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef})
	if err != nil || findings.Refused() {
		b.Fatal(findings, err)
	}
}

// A usedFunction is a Function that Flows use, and Reports that are connected to them.
type usedFunction struct {
	key        string
	address    object
	generation int64
}

// source is the text of a version.
func (f usedFunction) source(version int64) string {
	return fmt.Sprintf("import px\n\n\n@px.function(\n    key=%q,\n    version=%d,\n    description=\"A check\",\n    inputs={\"a\": px.number(unit=\"m\")},\n    results={\"r\": px.number(unit=\"m\")},\n)\n"+
		"def check(a):\n    return {\"r\": a * %d}\n", f.key, version, version)
}

// useFunction saves a Function, and Flows of six Nodes that run it, to each of the first
// of which a Report is connected, and to the one after it.
func (s *system) useFunction(b *testing.B, key string, flows, reports int) *usedFunction {
	b.Helper()
	f := &usedFunction{key: key, generation: -1}
	f.address = object{"scope": sample.Project.Scope(), "functionKey": key}
	s.applyFunction(b, f, s.planFunction(b, f, object{"kind": "CreateFunction", "source": f.source(1)}))
	number := object{"type": "number", "unit": "m"}
	changed := func(kind, key, ref string, uses []string, document []byte) change.Change {
		return change.Change{Kind: kind, Key: key, Text: key, Entry: history.Entry{RevisionRef: history.Ref(ref), Uses: uses}, Document: document}
	}
	var changes []change.Change
	targets := make([]object, flows)
	for i := range flows {
		nodes, from := object{}, object{"kind": "flowInput", "portKey": "a"}
		for n := range 6 {
			name := fmt.Sprintf("n%d", n)
			nodes[name] = object{"target": object{"kind": "function", "functionKey": key, "version": f.address["version"], "digest": f.address["digest"]}, "inputBindings": object{"a": from}}
			from = object{"kind": "nodeResult", "nodeKey": name, "portKey": "r"}
		}
		flowKey := fmt.Sprintf("%s_%05d", key, i)
		doc, findings := flow.Decode(encoded(b, object{"format": "pxflow/1", "flowKey": flowKey, "label": object{"en": flowKey}, "authoring": object{"kind": "native"},
			"inputs": object{"a": number}, "results": object{"r": object{"type": "number", "unit": "m", "binding": from}}, "nodes": nodes}))
		text, ref, err := doc.RevisionRef()
		if findings.Refused() || err != nil {
			b.Fatal(findings, err)
		}
		changes = append(changes, changed("flow", flowKey, ref, flow.Uses(doc), text))
		targets[i] = object{"scope": sample.Project.Scope(), "flowKey": flowKey, "revisionRef": ref}
	}
	for i := range reports {
		connections, slots := object{}, object{}
		for n := range 2 {
			slot := fmt.Sprintf("s%d", n)
			slots[slot] = number
			connections[fmt.Sprintf("c%d", n)] = object{"flowTarget": targets[(i+n)%flows],
				"inputs":  object{"i": object{"portKey": "a", "source": object{"kind": "reportValue", "blockKey": "v", "fieldKey": "a"}}},
				"results": object{"o": object{"portKey": "r", "target": object{"kind": "reportResultSlot", "blockKey": "r", "slotKey": slot}}}}
		}
		reportKey := fmt.Sprintf("%s_%05d", key, i)
		doc, findings := report.Decode(encoded(b, object{"format": "pxreport/1", "reportKey": reportKey, "blockOrder": []string{"v", "r"}, "connections": connections,
			"blocks": object{"v": object{"kind": "values", "fields": object{"a": object{"type": "number", "unit": "m", "value": object{"value": 2, "unit": "m"}}}}, "r": object{"kind": "results", "slots": slots}}}))
		text, ref, err := doc.RevisionRef()
		if findings.Refused() || err != nil {
			b.Fatal(findings, err)
		}
		changes = append(changes, changed("report", reportKey, ref, report.Uses(doc), text))
	}
	for part := range slices.Chunk(changes, 1000) {
		s.save(b, part...)
	}
	return f
}

func encoded(b *testing.B, v any) []byte {
	b.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// planFunction plans one command on a Function.
func (s *system) planFunction(b *testing.B, f *usedFunction, command object) (p planned) {
	b.Helper()
	s.call(b, "function_plan_change", object{"target": f.address, "expectedGeneration": max(0, f.generation), "commands": []object{command}}, &p)
	return p
}

// nextVersion plans the next version, which moves everything that uses the Function.
func (s *system) nextVersion(b *testing.B, f *usedFunction) planned {
	b.Helper()
	return s.planFunction(b, f, object{"kind": "CreateFunctionVersion", "source": f.source(f.generation + 2), "referencePolicy": "all_current_usages",
		"functionRef": object{"functionKey": f.key, "version": f.address["version"], "digest": f.address["digest"]}})
}

// approve approves a plan at the door of people, as the reviewer.
func (s *system) approve(b *testing.B, p planned) (approvalRef string) {
	b.Helper()
	var approved struct{ ApprovalRef string }
	s.review(b, http.MethodPost, p.PlanRef+"/approve", object{"planDigest": p.PlanDigest}, &approved)
	return approved.ApprovalRef
}

// review asks at the door of people.
func (s *system) review(b *testing.B, method, path string, body any, into any) {
	b.Helper()
	token, err := s.Key.Token(s.URL, "reviewer", oidc.ScopeApprove, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	var text []byte
	if body != nil {
		text = encoded(b, body)
	}
	request, err := http.NewRequest(method, s.URL+"/v1/plans/"+path, bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	var envelope struct {
		OK          bool
		Data        json.RawMessage
		Diagnostics json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil || !envelope.OK {
		b.Fatalf("%s %s: %d %v %s", method, path, response.StatusCode, err, envelope.Diagnostics)
	}
	if err := json.Unmarshal(envelope.Data, into); err != nil {
		b.Fatal(err)
	}
}

// read reads the whole plan as a reviewer does, and returns in how many parts.
func (s *system) read(b *testing.B, p planned) (parts int) {
	b.Helper()
	for path := p.PlanRef; ; {
		var part struct {
			Truncation *struct{ Continuation struct{ Value string } }
		}
		s.review(b, http.MethodGet, path, nil, &part)
		if parts++; part.Truncation == nil {
			return parts
		}
		path = p.PlanRef + "?cursor=" + url.QueryEscape(part.Truncation.Continuation.Value)
	}
}

// applyFunction applies an approved plan and moves f to the version that it made.
func (s *system) applyFunction(b *testing.B, f *usedFunction, p planned) {
	b.Helper()
	approval := s.approve(b, p)
	s.applyApproved(b, f, p, approval)
}

func (s *system) applyApproved(b *testing.B, f *usedFunction, p planned, approvalRef string) {
	b.Helper()
	var applied struct {
		NewGeneration int64
		Changed       []struct{ Target object }
	}
	s.call(b, "function_apply_change", object{"target": f.address, "expectedGeneration": max(0, f.generation), "planRef": p.PlanRef, "planDigest": p.PlanDigest,
		"commandId": p.PlanRef, "approvalRef": approvalRef}, &applied)
	f.address, f.generation = applied.Changed[0].Target, applied.NewGeneration
}

// BenchmarkFunctionChange is the next version of a Function that a fifth as many Reports
// as Flows follow, over HTTP: its plan, reading all of that as a reviewer, the approval,
// and its apply, which is one commit. The reference is the same for a Function that one
// Flow uses. At 5,000 targets, the most that a plan moves, each call has to come within
// the 25 seconds of a tool.
func BenchmarkFunctionChange(b *testing.B) {
	for _, size := range []struct {
		flows, reports   int
		planned, applied string
	}{{2000, 500, "at most 5 s", "at most 2 s"}, {3999, 1000, "within 25 s", "within 25 s"}} {
		b.Run(fmt.Sprintf("%d-flows-%d-reports", size.flows, size.reports), func(b *testing.B) {
			s := startSystem(b)
			one, many := s.useFunction(b, "one", 1, 0), s.useFunction(b, "many", size.flows, size.reports)
			var p, q planned
			var approvalOfOne, approvalOfMany string
			parts := 0
			subjects := []subject{
				{name: "plan-one", once: func() { p = s.nextVersion(b, one) }},
				{"plan", func() { q = s.nextVersion(b, many) }, []string{"plan-one"}, size.planned},
				{name: "approve-one", once: func() { approvalOfOne = s.approve(b, p) }},
				{"approve", func() { approvalOfMany = s.approve(b, q) }, []string{"approve-one"}, "within 25 s"},
				{name: "apply-one", once: func() { s.applyApproved(b, one, p, approvalOfOne) }},
				{"apply", func() { s.applyApproved(b, many, q, approvalOfMany) }, []string{"apply-one"}, size.applied},
			}
			if size.reports <= 500 { // of the largest it takes minutes: each part is cut from the whole
				subjects = slices.Insert(subjects, 2, subject{name: "read-one", once: func() { s.read(b, p) }},
					subject{name: "read", once: func() { parts = s.read(b, q) }, references: []string{"read-one"}})
			}
			inTurn(b, nil, subjects...)
			if parts > 0 {
				b.ReportMetric(float64(parts), "parts")
			}
		})
	}
}
