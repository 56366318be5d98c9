package acceptance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A reportTarget is an exact target, as the tools answer it.
type reportTarget struct {
	Scope       m      `json:"scope"`
	ReportKey   string `json:"reportKey"`
	RevisionRef string `json:"revisionRef"`
}

type reportHead struct {
	Target     reportTarget `json:"target"`
	Generation int64        `json:"generation"`
}

// report finds a Report of the sample Project by its key.
func (c caller) report(t testing.TB, key string) reportHead {
	t.Helper()
	var found struct{ Items []reportHead }
	c.ok(t, "report_search", m{"scope": sample, "query": key, "limit": 100}, &found)
	for _, r := range found.Items {
		if r.Target.ReportKey == key {
			return r
		}
	}
	t.Fatalf("there is no Report %s", key)
	return reportHead{}
}

type reportImpact struct {
	Checks []struct {
		Path, ConnectionKey, MappingKey, Direction, PortKey string
		FlowTarget                                          flowTarget
		Source, Target, Contract, Port                      m
		Checks                                              []struct{ Kind, Report, Flow, Verdict string }
	}
	Uses  []struct{ Target, Path, Effect, ConnectionKey, MappingKey string }
	Stale []struct {
		Path, BlockKey, SlotKey, ConnectionKey string
		Reasons                                []string
	}
	Preserved, Dependencies []m
	Permissions             []string
	Cost                    int
}

type reportPlan struct {
	plan
	Atomic               bool
	Base                 m
	Commands             list
	TouchedSemanticPaths []string
	Diff                 []struct{ Path, Op string }
	Impact               reportImpact
	Approval             struct{ Required bool }
}

func (c caller) planReport(t testing.TB, r reportHead, commands ...any) (reportPlan, envelope) {
	t.Helper()
	var p reportPlan
	told := c.ok(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": commands}, &p)
	return p, told
}

// changeReport plans and applies commands, and returns the Report as it then is.
func (c caller) changeReport(t testing.TB, r reportHead, commandID string, commands ...any) reportHead {
	t.Helper()
	var a applied
	p, _ := c.planReport(t, r, commands...)
	c.ok(t, "report_apply_change", p.application(commandID), &a)
	r.Target.RevisionRef, r.Generation = a.NewRevisionRef, a.NewGeneration
	return r
}

func (c caller) createReport(t testing.TB, document m) reportHead {
	t.Helper()
	r := reportHead{Target: reportTarget{sample, document["reportKey"].(string), digest(t, document)}}
	return c.changeReport(t, r, "create-"+r.Target.ReportKey, m{"kind": "CreateReport", "document": document})
}

// reviewOf is a Report with values in metres and a slot, not connected.
func reviewOf(key string) m {
	return m{
		"format": "pxreport/1", "reportKey": key, "label": m{"en": "Review", "ko": "검토서"},
		"blockOrder": list{"basis", "summary"},
		"blocks": m{
			"basis":   m{"kind": "values", "fields": m{"span": with(scalar("ft"), m{"value": number(40, "ft")}), "load": with(scalar("kN/m"), m{"value": number(4, "kN/m")})}},
			"summary": m{"kind": "results", "slots": m{"moment": scalar("kN*m")}},
		},
		"connections": m{},
	}
}

func feed(f flowHead, mapping, port, block, field string) m {
	return m{"kind": "SetReportFlowInputSource", "connectionKey": "check", "mappingKey": mapping, "flowTarget": f.Target, "portKey": port,
		"source": m{"kind": "reportValue", "blockKey": block, "fieldKey": field}}
}

func showIn(mapping, port, block, slot string) m {
	return m{"kind": "SetReportFlowResultTarget", "connectionKey": "check", "mappingKey": mapping, "portKey": port,
		"target": m{"kind": "reportResultSlot", "blockKey": block, "slotKey": slot}}
}

type describedReport struct {
	Target      reportTarget
	Generation  int64
	Current     bool
	Head        struct{ RevisionRef string }
	Label       m
	BlockOrder  []string
	Blocks      map[string]m
	Connections map[string]struct {
		FlowTarget      flowTarget
		State           string
		Inputs, Results map[string]m
		Missing         []string
	}
	Slots        []m
	Dependencies []struct {
		Target    flowTarget
		Available bool
	}
	Policy struct {
		ChangeNeedsApproval bool
		Runs                map[string]struct {
			NeedsApproval bool
			Cost          int
		}
		Batches []m
	}
	Operations []struct {
		Tool      string
		Kinds     []string
		Permitted bool
		Missing   []string
	}
}

// may is what a description says that one may do next, and what is missing for it.
func (d describedReport) may() (out []string) {
	for _, o := range d.Operations {
		text := strings.Join(append([]string{o.Tool}, o.Kinds...), " ")
		if !o.Permitted || len(o.Missing) > 0 {
			text += " lacks " + strings.Join(o.Missing, " ")
		}
		out = append(out, text)
	}
	return out
}

// The sample Report is found in either language, described, changed and kept, and
// its Flow is not touched by any of it.
//
// covers: R1, R2, R3, D1, D3, S1, P2, P4, T2
func TestTheSampleReportIsFoundDescribedAndChanged(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")
	var found struct{ Items []reportHead }
	for _, query := range []string{"거더 검토서", "girder kip*ft", "section_modulus"} {
		viewer.ok(t, "report_search", m{"scope": sample, "query": query, "filters": m{"flowKey": "girder_check"}}, &found)
		if len(found.Items) != 1 || found.Items[0].Target.ReportKey != "girder_review" || found.Items[0].Generation != 1 {
			t.Fatalf("%s finds %+v", query, found)
		}
	}
	viewer.ok(t, "report_search", m{"scope": sample, "filters": m{"flowKey": "other"}}, &found)
	if len(found.Items) != 0 {
		t.Errorf("of another Flow: %+v", found)
	}
	review, flow := engineer.report(t, "girder_review"), engineer.head(t, sample, "girder_check")

	var d describedReport
	told := engineer.ok(t, "report_describe", m{"target": review.Target}, &d)
	c := d.Connections["girder_check"]
	if !d.Current || d.Generation != 1 || d.Label["ko"] != "거더 검토서" || !slices.Equal(d.BlockOrder, []string{"design_basis", "method", "check_summary"}) ||
		c.State != "ready" || !reflect.DeepEqual(c.FlowTarget, flow.Target) || len(c.Inputs) != 5 || len(c.Results) != 4 || len(c.Missing) != 0 ||
		len(d.Slots) != 4 || len(told.Diagnostics) != 0 || len(d.Dependencies) != 1 || !d.Dependencies[0].Available {
		t.Errorf("described as %+v, with %q", d, told.told())
	}
	span := d.Blocks["design_basis"]["fields"].(m)["span"].(m)
	if span["value"].(m)["value"] != 80. || span["contract"].(m)["unit"] != "ft" || span["feeds"].(list)[0].(m)["portKey"] != "span" {
		t.Errorf("the span is described as %v", span)
	}
	if d.Policy.ChangeNeedsApproval || d.Policy.Runs["girder_check"].NeedsApproval || d.Policy.Runs["girder_check"].Cost == 0 || len(d.Policy.Batches) != 1 {
		t.Errorf("the policy is told as %+v", d.Policy)
	}
	if may := d.may(); !slices.Equal(may, []string{"report_plan_change", "report_apply_change", "pxflow_run RunReportFlowConnection RunReportFlowBatch",
		"pxflow_run RetryBatchCase", "run_cancel"}) {
		t.Errorf("the engineer is told %q", may)
	}
	var seen describedReport
	viewer.ok(t, "report_describe", m{"target": review.Target}, &seen)
	if may := seen.may(); !slices.Equal(may, []string{"report_plan_change lacks edit", "report_apply_change lacks edit",
		"pxflow_run RunReportFlowConnection RunReportFlowBatch lacks run", "pxflow_run RetryBatchCase lacks run", "run_cancel lacks run"}) {
		t.Errorf("the viewer is told %q", may)
	}
	var f struct{ UsedBy []string }
	engineer.ok(t, "pxflow_describe", m{"target": flow.Target}, &f)
	if !slices.Equal(f.UsedBy, []string{"report/girder_review"}) {
		t.Errorf("the Flow is used by %v", f.UsedBy)
	}

	// A value that four results depend on: each is told to turn Stale, and why.
	p, _ := engineer.planReport(t, review, m{"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": number(90, "ft")})
	var stale []string
	for _, s := range p.Impact.Stale {
		stale = append(stale, s.SlotKey+" "+strings.Join(s.Reasons, "+"))
	}
	if !slices.Equal(stale, []string{"live_moment value", "stress value", "total_moment value", "utilization value"}) || len(p.Impact.Checks) != 0 || len(p.Impact.Uses) != 0 ||
		!slices.Equal(p.TouchedSemanticPaths, []string{"/blocks/design_basis/fields/span/value"}) || len(p.Diff) != 1 || p.ExpectedGeneration != 1 || p.Approval.Required ||
		!slices.Equal(p.Impact.Permissions, []string{"read", "edit"}) || p.Impact.Cost != d.Policy.Runs["girder_check"].Cost || len(p.Impact.Preserved) != 1 {
		t.Errorf("the plan is %+v", p)
	}
	viewer.refused(t, "report_apply_change", p.application("viewer"), "PX_PERMISSION_DENIED /target/scope")
	var a applied
	first := engineer.ok(t, "report_apply_change", p.application("span"), &a)
	if again := engineer.ok(t, "report_apply_change", p.application("span"), nil); string(again.Data) != string(first.Data) {
		t.Errorf("sent again: %s after %s", again.Data, first.Data)
	}
	changed := reportHead{reportTarget{sample, "girder_review", a.NewRevisionRef}, a.NewGeneration}
	if changed.Generation != 2 {
		t.Errorf("applied as %+v", a)
	}
	engineer.refused(t, "report_plan_change", m{"target": review.Target, "expectedGeneration": 1, "commands": list{m{"kind": "SetReportLabel", "label": m{"en": "x"}}}},
		"PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/revisionRef")
	d = describedReport{}
	engineer.ok(t, "report_describe", m{"target": review.Target}, &d)
	if may := d.may(); !slices.Equal(may, []string{"report_plan_change lacks current", "report_apply_change lacks current",
		"pxflow_run RunReportFlowConnection RunReportFlowBatch lacks current", "pxflow_run RetryBatchCase", "run_cancel"}) {
		t.Errorf("of an old revision the engineer is told %q", may)
	}
	if d.Current || d.Generation != 1 || d.Head.RevisionRef != a.NewRevisionRef {
		t.Errorf("the old revision is described as %+v", d)
	}
	if now := engineer.head(t, sample, "girder_check"); !reflect.DeepEqual(now, flow) {
		t.Errorf("the Flow has moved to %+v", now)
	}
}

// Each step is a change; expect makes of the document what the commands say, by
// hand. The new revisionRef must be the digest of that document, so that nothing
// else in it can have changed.
//
// covers: R1, R2, R3, P1, P2, P4
func TestEveryReportCommandMakesTheDocumentThatItSays(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("footbridge"))
	next := engineer.change(t, flow, "next", m{"kind": "SetFlowLabel", "label": m{"en": "Footbridge"}})
	document := reviewOf("bridge_review")

	// The first save: the target is the document's own key and digest.
	creation := m{"kind": "CreateReport", "document": document}
	r := engineer.createReport(t, document)
	if r.Target.RevisionRef != digest(t, document) || r.Generation != 0 {
		t.Fatalf("saved as %+v", r)
	}
	engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": list{creation}}, "ReportHeadAlreadyExists /target/reportKey")
	other := reviewOf("other_review")
	engineer.refused(t, "report_plan_change", m{"target": reportTarget{sample, "other_review", r.Target.RevisionRef}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateReport", "document": other}}}, "PX_PLAN_MISMATCH /target/revisionRef")
	engineer.refused(t, "report_plan_change", m{"target": reportTarget{sample, "third_review", digest(t, other)}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateReport", "document": other}}}, "PX_PLAN_MISMATCH /target/reportKey")
	engineer.refused(t, "report_plan_change", m{"target": reportTarget{sample, "other_review", digest(t, other)}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateReport", "document": other}, m{"kind": "SetReportLabel", "label": m{"en": "x"}}}}, "PX_SCHEMA_INVALID /commands/1")

	connection := func(d m) m {
		c, ok := at(d, "connections")["check"].(m)
		if !ok {
			c = m{"flowTarget": encoded(t, flow.Target), "inputs": m{}, "results": m{}}
			at(d, "connections")["check"] = c
		}
		return c
	}
	field := func(block, name string) m {
		return m{"kind": "reportValue", "blockKey": block, "fieldKey": name}
	}
	for i, step := range []struct {
		name     string
		commands list
		expect   func(m)
		touched  []string
		told     []string // notes
	}{
		{"the label", list{m{"kind": "SetReportLabel", "label": m{"en": "Bridge review"}}}, func(d m) { d["label"] = m{"en": "Bridge review"} }, []string{"/label"}, nil},
		{"a text, first", list{m{"kind": "AddBlock", "blockKey": "method", "block": m{"kind": "text", "text": "w l²/8"}}, m{"kind": "MoveBlock", "blockKey": "method"},
			m{"kind": "SetText", "blockKey": "method", "text": "By w l²/8:\n\tuniform load."}},
			func(d m) {
				d["blockOrder"] = list{"method", "basis", "summary"}
				at(d, "blocks")["method"] = m{"kind": "text", "text": "By w l²/8:\n\tuniform load."}
			}, []string{"/blockOrder", "/blocks/method"}, nil},
		{"a connection begins with one mapping, and what is missing is told", list{feed(flow, "span_in", "span", "basis", "span")},
			func(d m) {
				at(connection(d), "inputs")["span_in"] = m{"portKey": "span", "source": field("basis", "span")}
			},
			[]string{"/connections/check"}, []string{"PX_BINDING_MISSING /connections/check/inputs", "PX_UNIT_CONVERTED /connections/check/inputs/span_in"}},
		{"the rest of it", list{feed(flow, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment")},
			func(d m) {
				at(connection(d), "inputs")["load_in"] = m{"portKey": "load", "source": field("basis", "load")}
				at(connection(d), "results")["moment_out"] = m{"portKey": "moment", "target": m{"kind": "reportResultSlot", "blockKey": "summary", "slotKey": "moment"}}
			}, []string{"/connections/check/inputs/load_in", "/connections/check/results/moment_out"}, nil},
		{"a field without a value, and its mapping", list{m{"kind": "AddField", "blockKey": "basis", "fieldKey": "w", "field": scalar("kip/ft")}, feed(flow, "load_in", "load", "basis", "w")},
			func(d m) {
				at(d, "blocks", "basis", "fields")["w"] = scalar("kip/ft")
				at(connection(d), "inputs")["load_in"] = m{"portKey": "load", "source": field("basis", "w")}
			}, []string{"/blocks/basis/fields/w", "/connections/check/inputs/load_in"},
			[]string{"PX_UNIT_CONVERTED /connections/check/inputs/load_in", "PX_BINDING_MISSING /connections/check/inputs/load_in/source"}},
		{"its value", list{m{"kind": "SetFieldValue", "blockKey": "basis", "fieldKey": "w", "value": number(1.5, "kip/ft")}},
			func(d m) { at(d, "blocks", "basis", "fields", "w")["value"] = number(1.5, "kip/ft") }, []string{"/blocks/basis/fields/w/value"}, nil},
		{"a field less", list{m{"kind": "RemoveField", "blockKey": "basis", "fieldKey": "load"}}, func(d m) { delete(at(d, "blocks", "basis", "fields"), "load") },
			[]string{"/blocks/basis/fields/load"}, nil},
		{"another Flow revision", list{m{"kind": "SetConnectionFlow", "connectionKey": "check", "flowTarget": next.Target}},
			func(d m) { connection(d)["flowTarget"] = encoded(t, next.Target) }, []string{"/connections/check/flowTarget"},
			[]string{"PX_UNIT_CONVERTED /connections/check/inputs/load_in", "PX_UNIT_CONVERTED /connections/check/inputs/span_in"}},
		{"another slot", list{m{"kind": "AddSlot", "blockKey": "summary", "slotKey": "shown", "slot": scalar("kip*ft")}, m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "moment_out"},
			m{"kind": "RemoveSlot", "blockKey": "summary", "slotKey": "moment"}, showIn("shown_out", "moment", "summary", "shown")},
			func(d m) {
				d["blocks"].(m)["summary"] = m{"kind": "results", "slots": m{"shown": scalar("kip*ft")}}
				connection(d)["results"] = m{"shown_out": m{"portKey": "moment", "target": m{"kind": "reportResultSlot", "blockKey": "summary", "slotKey": "shown"}}}
			}, []string{"/blocks/summary/slots/moment", "/blocks/summary/slots/shown", "/connections/check/results/moment_out", "/connections/check/results/shown_out"},
			[]string{"PX_UNIT_CONVERTED /connections/check/results/shown_out"}},
		{"the connection less, with its last mapping, and a block", list{m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "span_in"},
			m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "load_in"}, m{"kind": "RemoveReportFlowMapping", "connectionKey": "check", "mappingKey": "shown_out"},
			m{"kind": "RemoveBlock", "blockKey": "summary"}},
			func(d m) {
				d["connections"] = m{}
				d["blockOrder"] = list{"method", "basis"}
				delete(at(d, "blocks"), "summary")
			}, []string{"/blocks/summary", "/connections/check"}, nil},
	} {
		document = copied(t, document)
		step.expect(document)
		want := digest(t, document)
		p, told := engineer.planReport(t, r, step.commands...)
		if !p.Atomic || !slices.Equal(p.TouchedSemanticPaths, step.touched) || p.Base["revisionRef"] != r.Target.RevisionRef || len(p.Diff) == 0 {
			t.Errorf("%s: the plan is %+v", step.name, p)
		}
		if got := told.told(); !slices.Equal(got, append([]string{}, step.told...)) {
			t.Errorf("%s: told %q", step.name, got)
		}
		var sent list
		for _, c := range step.commands {
			sent = append(sent, copied(t, c.(m)))
		}
		if !reflect.DeepEqual(p.Commands, sent) {
			t.Errorf("%s: the commands came back as %v", step.name, p.Commands)
		}
		switch step.name {
		case "a connection begins with one mapping, and what is missing is told":
			// R2: the source, the exact Flow and port, every aspect side by side.
			if len(p.Impact.Checks) != 1 {
				t.Fatalf("%+v", p.Impact)
			}
			c := p.Impact.Checks[0]
			if c.Path != "/connections/check/inputs/span_in" || c.PortKey != "span" || c.Direction != "input" || !reflect.DeepEqual(c.FlowTarget, flow.Target) ||
				!reflect.DeepEqual(c.Source, field("basis", "span")) || c.Contract["unit"] != "ft" || c.Port["unit"] != "m" ||
				fmt.Sprint(c.Checks) != "[{type number number fits} {shape scalar scalar fits} {nullability not_nullable not_nullable fits} {unit ft m converted}]" {
				t.Errorf("the mapping is shown as %+v", c)
			}
			if len(p.Impact.Uses) != 1 || p.Impact.Uses[0].Target != "report/bridge_review" || p.Impact.Uses[0].Path != "/blocks/basis/fields/span" || p.Impact.Uses[0].Effect != "mapped" ||
				p.Impact.Cost != 1 || len(p.Impact.Dependencies) != 1 || len(p.Impact.Stale) != 0 {
				t.Errorf("the impact is %+v", p.Impact)
			}
		case "another Flow revision":
			if len(p.Impact.Checks) != 3 || len(p.Impact.Stale) != 1 || !slices.Equal(p.Impact.Stale[0].Reasons, []string{"flowRevision"}) {
				t.Errorf("the impact is %+v", p.Impact)
			}
		}
		var a applied
		engineer.ok(t, "report_apply_change", p.application(fmt.Sprint("step-", i)), &a)
		if a.NewRevisionRef != want || a.NewGeneration != r.Generation+1 {
			t.Fatalf("%s: generation %d, revision %s, and the document's digest is %s", step.name, a.NewGeneration, a.NewRevisionRef, want)
		}
		r.Target.RevisionRef, r.Generation = a.NewRevisionRef, a.NewGeneration
	}
	if now := engineer.head(t, sample, "footbridge"); !reflect.DeepEqual(now, next) {
		t.Errorf("the Flow has moved to %+v", now)
	}
}

// encoded is a value as JSON reads it.
func encoded(t *testing.T, v any) m {
	t.Helper()
	return copied(t, m{"v": v})["v"].(m)
}

// A plan that does not fit shows the Report's place and the Flow's port side by
// side, each with its whole contract, and stores nothing.
//
// covers: R2, G1
func TestAMismatchShowsBothSides(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("footbridge"))
	document := reviewOf("bridge_review")
	at(document, "blocks", "basis", "fields")["mass"] = scalar("kg")
	r := engineer.createReport(t, document)
	told := engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": list{feed(flow, "span_in", "span", "basis", "mass")}},
		"PX_BINDING_MISSING /connections/check/inputs", "PX_UNIT_MISMATCH /connections/check/inputs/span_in")
	if len(told.Diagnostics) != 2 {
		t.FailNow()
	}
	params := told.Diagnostics[1].Params
	source, port := params["source"].(m), params["port"].(m)
	if source["blockKey"] != "basis" || source["fieldKey"] != "mass" || source["contract"].(m)["unit"] != "kg" ||
		port["flowKey"] != "footbridge" || port["revisionRef"] != flow.Target.RevisionRef || port["portKey"] != "span" || port["contract"].(m)["unit"] != "m" {
		t.Errorf("shown side by side: %v", params)
	}
	// The other way round.
	told = engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": list{
		m{"kind": "SetConnectionFlow", "connectionKey": "check", "flowTarget": flow.Target},
		m{"kind": "AddSlot", "blockKey": "summary", "slotKey": "count", "slot": m{"type": "integer"}}, showIn("out", "moment", "summary", "count")}},
		"PX_BINDING_MISSING /connections/check/inputs", "PX_BINDING_MISSING /connections/check/inputs", "PX_TYPE_MISMATCH /connections/check/results/out")
	if len(told.Diagnostics) == 3 {
		params = told.Diagnostics[2].Params
		destination, port := params["destination"].(m), params["port"].(m)
		if destination["slotKey"] != "count" || destination["contract"].(m)["type"] != "integer" || port["portKey"] != "moment" || port["contract"].(m)["type"] != "number" {
			t.Errorf("shown side by side: %v", params)
		}
	}
}

// covers: R3, T1, L1
func TestCommandsOfReportsAndOfFlowsDoNotMix(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("footbridge"))
	r := engineer.createReport(t, reviewOf("bridge_review"))
	label := list{m{"kind": "SetReportLabel", "label": m{"en": "x"}}}
	engineer.refused(t, "pxflow_plan_change", m{"target": flow.Target, "expectedGeneration": 0, "commands": label}, "PX_SCHEMA_INVALID /commands/0/kind")
	engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "x"}}}}, "PX_SCHEMA_INVALID /commands/0/kind")
	engineer.refused(t, "report_plan_change", m{"target": flow.Target, "expectedGeneration": 0, "commands": label},
		"PX_SCHEMA_UNKNOWN_FIELD /target/flowKey", "PX_SCHEMA_INVALID /target/reportKey")
	// A plan of the one is not known to the apply of the other.
	p, _ := engineer.planReport(t, r, label...)
	q := engineer.plan(t, flow, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	engineer.refused(t, "pxflow_apply_change", with(q.application("mixed"), m{"planRef": p.PlanRef, "planDigest": p.PlanDigest}), "PX_PLAN_NOT_FOUND /planRef")
	engineer.refused(t, "report_apply_change", with(p.application("mixed"), m{"planRef": q.PlanRef, "planDigest": q.PlanDigest}), "PX_PLAN_NOT_FOUND /planRef")
	// A Flow that a Report is connected to changes alone: the Report stays on the
	// revision that it names.
	r = engineer.changeReport(t, r, "connect", feed(flow, "span_in", "span", "basis", "span"))
	engineer.change(t, flow, "flow", m{"kind": "SetFlowLabel", "label": m{"en": "Moved"}})
	if now := engineer.report(t, "bridge_review"); !reflect.DeepEqual(now, r) {
		t.Errorf("the Report has moved to %+v from %+v", now, r)
	}
	var d describedReport
	engineer.ok(t, "report_describe", m{"target": r.Target}, &d)
	if c := d.Connections["check"]; !reflect.DeepEqual(c.FlowTarget, flow.Target) || c.State != "incomplete" || !slices.Equal(c.Missing, []string{"load"}) {
		t.Errorf("the connection is %+v", c)
	}
}

// covers: D3, D4, B1
func TestManyReportsAreDescribedInOneCall(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("footbridge"))
	const count = 12
	var targets, keysAsked list
	for i := range count {
		r := engineer.createReport(t, reviewOf(fmt.Sprintf("review_%02d", i)))
		if i == 7 {
			r = engineer.changeReport(t, r, "connect", feed(flow, "span_in", "span", "basis", "span"))
		}
		targets, keysAsked = append(targets, r.Target), append(keysAsked, r.Target.ReportKey)
	}
	slices.Reverse(targets)
	slices.Reverse(keysAsked)
	var d struct{ Items []describedReport }
	told := engineer.ok(t, "report_describe", m{"targets": targets}, &d)
	var got list
	for _, r := range d.Items {
		got = append(got, r.Target.ReportKey)
	}
	if !reflect.DeepEqual(got, keysAsked) {
		t.Errorf("described in the order %v", got)
	}
	// The findings say of which.
	if !slices.Equal(told.told(), []string{"PX_BINDING_MISSING /items/4/connections/check/inputs", "PX_UNIT_CONVERTED /items/4/connections/check/inputs/span_in"}) {
		t.Errorf("found %q", told.told())
	}
	missing := reportTarget{sample, "nowhere", "sha256:x"}
	engineer.refused(t, "report_describe", m{"targets": list{targets[0], missing, reportTarget{sample, "review_00", "sha256:x"}}},
		"PX_TARGET_NOT_FOUND /targets/1/reportKey", "PX_TARGET_NOT_FOUND /targets/2/revisionRef")
	engineer.refused(t, "report_describe", m{"targets": list{targets[0], reportTarget{m{"kind": "project", "workspaceKey": "structural_team", "projectKey": "other"}, "a", "x"}}},
		"PX_SCHEMA_INVALID /targets/1/scope")
	engineer.refused(t, "report_describe", m{"target": targets[0], "targets": targets}, "PX_SCHEMA_INVALID ")
	h.as(t, "other").refused(t, "report_describe", m{"target": targets[0]}, "PX_TARGET_NOT_FOUND /target/scope")
}

// A plan that changes what a Flow shows names every mapping of a Report that it
// concerns, with the port as it was and as it would be. The Report stays as it is.
//
// covers: F3, R3, G1
func TestAPublicPortChangeShowsTheMappingsItConcerns(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	flow := engineer.create(t, sample, beam("footbridge"))
	one := engineer.createReport(t, reviewOf("a_review"))
	one = engineer.changeReport(t, one, "connect", feed(flow, "span_in", "span", "basis", "span"), feed(flow, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment"))
	two := engineer.createReport(t, reviewOf("b_review"))
	two = engineer.changeReport(t, two, "connect", feed(flow, "length", "span", "basis", "span"))
	type mapping struct {
		Target, Path, ConnectionKey, MappingKey, PortKey, Direction, Effect, ReportRevisionRef, RevisionRef string
		Before, After, Contract                                                                             m
	}
	var p struct {
		plan
		Impact struct {
			Uses     []m
			Boundary []struct {
				Path, PortKey string
				Breaking      bool
			}
			Reports struct {
				Using, Examined int
				Mappings        []mapping
			}
		}
	}
	planFlow := func(commands ...any) {
		t.Helper()
		p.Impact.Reports.Mappings = nil
		engineer.ok(t, "pxflow_plan_change", m{"target": flow.Target, "expectedGeneration": 0, "commands": commands}, &p)
	}
	planFlow(m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	if r := p.Impact.Reports; r.Using != 2 || r.Examined != 0 || len(r.Mappings) != 0 || len(p.Impact.Uses) != 2 {
		t.Errorf("a label concerns %+v of %v", r, p.Impact.Uses)
	}
	planFlow(m{"kind": "ChangeInputPort", "portKey": "span", "contract": scalar("ft")},
		m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(4, "kN/m")}, m{"kind": "RemoveInputPort", "portKey": "load"},
		m{"kind": "AddInputPort", "portKey": "factor", "contract": scalar("1")},
		m{"kind": "ChangeResultPort", "portKey": "moment", "contract": with(scalar("kip*ft"), m{"nullable": true})})
	var got []string
	for _, a := range p.Impact.Reports.Mappings {
		got = append(got, fmt.Sprint(a.Target, " ", a.Path, " ", a.MappingKey, " ", a.Direction, " ", a.PortKey, " ", a.Before["unit"], " ", a.After["unit"], " ", a.Contract["unit"], " ", a.Effect))
		if want := map[string]string{"report/a_review": one.Target.RevisionRef, "report/b_review": two.Target.RevisionRef}[a.Target]; a.ReportRevisionRef != want ||
			a.ConnectionKey != "check" || a.RevisionRef != flow.Target.RevisionRef {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{
		"report/a_review /connections/check/inputs  input factor <nil> 1 <nil> required",
		"report/a_review /connections/check/inputs/load_in load_in input load kN/m <nil> kN/m removed",
		"report/a_review /connections/check/inputs/span_in span_in input span m ft ft fits",
		"report/a_review /connections/check/results/moment_out moment_out result moment kN*m kip*ft kN*m mismatch",
		"report/b_review /connections/check/inputs  input factor <nil> 1 <nil> required",
		"report/b_review /connections/check/inputs/length length input span m ft ft fits",
	}; !slices.Equal(got, want) || p.Impact.Reports.Examined != 2 || len(p.Impact.Boundary) != 4 {
		t.Errorf("the plan concerns\n%s\nof %+v", strings.Join(got, "\n"), p.Impact)
	}
	// What does not fit one answer is told in parts, each mapping once.
	var parts []string
	arguments := m{"target": flow.Target, "expectedGeneration": 0, "commands": list{m{"kind": "AddInputPort", "portKey": "factor", "contract": scalar("1")}}, "budget": m{"items": 3}}
	for i := 0; i < 20; i++ {
		var part struct {
			Impact struct {
				Reports struct{ Mappings []mapping }
			}
			Truncation *struct {
				Continuation struct{ Member, Value string }
			}
		}
		engineer.ok(t, "pxflow_plan_change", arguments, &part)
		for _, a := range part.Impact.Reports.Mappings {
			parts = append(parts, a.Target)
		}
		if part.Truncation == nil {
			break
		}
		arguments = with(arguments, m{part.Truncation.Continuation.Member: part.Truncation.Continuation.Value})
	}
	if !slices.Equal(parts, []string{"report/a_review", "report/b_review"}) {
		t.Errorf("in parts: %v", parts)
	}
	engineer.ok(t, "pxflow_apply_change", p.application("ports"), nil)
	for _, r := range []reportHead{one, two} {
		if now := engineer.report(t, r.Target.ReportKey); !reflect.DeepEqual(now, r) {
			t.Errorf("the Report has moved to %+v", now)
		}
	}
	// Moving the connection is a change of the Report, and is judged there.
	next := engineer.head(t, sample, "footbridge")
	engineer.refused(t, "report_plan_change", m{"target": two.Target, "expectedGeneration": two.Generation, "commands": list{
		m{"kind": "SetConnectionFlow", "connectionKey": "check", "flowTarget": next.Target}, showIn("moment_out", "moment", "summary", "moment")}},
		"PX_BINDING_MISSING /connections/check/inputs", "PX_UNIT_CONVERTED /connections/check/results/moment_out", "PX_NULLABILITY_MISMATCH /connections/check/results/moment_out")
}
