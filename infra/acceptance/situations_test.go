package acceptance

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// The nine situations and the thirteen prohibitions at the end of the original, each
// tried on the wire. Situation 3, of a Function in use that is to be changed, is
// TestOnePlanMovesEverythingThatUsesAFunction; prohibition 6 of an SDK-linked Flow is
// tried in sdk_test.go.
//
// Situation 5, of a Component that is not installed, is told by tests of its own, too: while the
// planned catalog is off (K4) there is no package to hand on to but what a Project has
// recorded (TestABroughtComponentIsARecordAndNoAdmission); on, it is
// TestThePlannedCatalogOfComponents. What is not there is told as not there, and nothing
// takes its place.

// A situation of the original's table, in its order.
//
// covers: G1
func TestSituations(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, viewer := h.as(t, "engineer"), h.as(t, "viewer")
	h.operate(t, "project", "create", "structural_team/tunnel_package")
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "engineer", "--rights", "read,edit,run")
	tunnel := with(sample, m{"projectKey": "tunnel_package"})
	f := engineer.create(t, sample, beam("footbridge"))
	twin := engineer.create(t, tunnel, beam("footbridge"))
	sibling := engineer.create(t, sample, beam("footbridge_b"))
	r := engineer.createReport(t, reviewOf("bridge_review"))
	r = engineer.changeReport(t, r, "connect", feed(f, "span_in", "span", "basis", "span"), feed(f, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment"))

	t.Run("1: several targets are all shown exactly with their Project, and none is taken", func(t *testing.T) {
		for _, c := range []struct {
			scope m
			want  []flowHead
		}{{sample, []flowHead{f, sibling}}, {tunnel, []flowHead{twin}}} {
			var found struct {
				Items []struct {
					flowHead
					Label m
				}
			}
			engineer.ok(t, "pxflow_search", m{"scope": c.scope, "query": "보 beam"}, &found)
			var got []flowHead
			for _, i := range found.Items {
				got = append(got, i.flowHead)
				if i.Label["ko"] != "보" {
					t.Errorf("found %+v", i)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("candidates are %+v, want %+v", got, c.want)
			}
		}
		// A label, or a key without its revision, chooses none of them.
		engineer.refused(t, "pxflow_describe", m{"target": m{"scope": sample, "label": "Beam"}},
			"PX_SCHEMA_UNKNOWN_FIELD /target/label", "PX_SCHEMA_INVALID /target/flowKey", "PX_SCHEMA_INVALID /target/revisionRef")
		engineer.refused(t, "pxflow_describe", m{"target": m{"scope": sample, "flowKey": "footbridge"}}, "PX_SCHEMA_INVALID /target/revisionRef")
	})

	t.Run("2: a Component is its owner's, and no tool of the catalog writes one", func(t *testing.T) {
		var d struct {
			Component struct{ PackageRelease m }
		}
		engineer.ok(t, "component_describe", m{"target": m{"scope": m{"kind": "product"}, "componentKey": "px.formula", "version": 1}}, &d)
		if d.Component.PackageRelease["packageKey"] == "" || len(d.Component.PackageRelease) == 0 {
			t.Errorf("the owner is told as %+v", d)
		}
		for _, tool := range []string{"component_plan_change", "component_apply_change"} {
			if got := engineer.call(t, tool, m{}); got.Code != -32602 {
				t.Errorf("%s: %+v", tool, got)
			}
		}
	})

	t.Run("2: a Function of a package is its owner's, and the owner is told", func(t *testing.T) {
		var found struct{ Items []functionHead }
		engineer.ok(t, "function_search", m{"scope": sample, "filters": m{"owner": "package"}}, &found)
		if len(found.Items) == 0 {
			t.Fatal("no package has a Function")
		}
		f := found.Items[0]
		var d struct {
			Availability      string
			DependencyHandoff m
		}
		engineer.ok(t, "function_describe", m{"target": f.Target}, &d)
		if d.Availability != "available" || d.DependencyHandoff["action"] != "OPEN_PROJECT_DEPENDENCIES" {
			t.Errorf("described as %+v", d)
		}
		before := h.dump(t)
		told := engineer.refused(t, "function_plan_change", newVersion(f, scaler(f.Target["functionKey"].(string), 2, "2")), "PX_TARGET_READ_ONLY /target/package")
		if len(told.Diagnostics) == 1 {
			handoff := told.Diagnostics[0].Params["handoff"].(m)
			if owner := f.Target["package"].(m); handoff["packageKey"] != owner["packageKey"] || handoff["packageVersion"] != owner["version"] || handoff["packageDigest"] != owner["digest"] {
				t.Errorf("handed on to %v, owned by %v", handoff, owner)
			}
		}
		if changed := before.changes(h.dump(t)); len(changed) != 0 {
			t.Errorf("written: %q", changed)
		}
	})

	t.Run("4: a changed public port shows the mappings and both contracts", func(t *testing.T) {
		var p struct {
			Diff   []m
			Impact struct {
				Boundary []m
				Reports  struct{ Mappings []m }
			}
		}
		engineer.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{m{"kind": "ChangeInputPort", "portKey": "span", "contract": scalar("ft")}}}, &p)
		if len(p.Impact.Boundary) != 1 || len(p.Impact.Reports.Mappings) != 1 || len(p.Diff) == 0 {
			t.Fatalf("the plan is %+v", p)
		}
		mapping := p.Impact.Reports.Mappings[0]
		if mapping["target"] != "report/bridge_review" || mapping["mappingKey"] != "span_in" || at(mapping, "before")["unit"] != "m" || at(mapping, "after")["unit"] != "ft" {
			t.Errorf("the mapping is shown as %v", mapping)
		}
	})

	t.Run("5: what is not installed is not there, and no other takes its place", func(t *testing.T) {
		var d m
		engineer.ok(t, "component_describe", m{"target": m{"scope": sample, "componentKey": "acme.truss", "version": 1}}, &d)
		if c, has := d["component"]; !has || c != nil {
			t.Errorf("described as %v", d)
		}
	})

	t.Run("6: a mismatch shows the Report's source and the Flow's port side by side", func(t *testing.T) {
		field := m{"kind": "AddField", "blockKey": "basis", "fieldKey": "mass", "field": with(scalar("kg"), m{"value": number(1, "kg")})}
		told := engineer.refused(t, "report_plan_change", m{"target": r.Target, "expectedGeneration": r.Generation, "commands": list{field, feed(f, "span_in", "span", "basis", "mass")}},
			"PX_UNIT_MISMATCH /connections/check/inputs/span_in")
		if len(told.Diagnostics) == 1 {
			source, port := told.Diagnostics[0].Params["source"].(m), told.Diagnostics[0].Params["port"].(m)
			if at(source, "contract")["unit"] != "kg" || source["fieldKey"] != "mass" || at(port, "contract")["unit"] != "m" || port["revisionRef"] != f.Target.RevisionRef {
				t.Errorf("shown %v and %v", source, port)
			}
		}
	})

	t.Run("7: a revision that moved refuses the plan, and tells the head", func(t *testing.T) {
		old := engineer.plan(t, sibling, m{"kind": "SetFlowLabel", "label": m{"en": "Mine"}})
		now := engineer.change(t, sibling, "theirs", m{"kind": "SetFlowLabel", "label": m{"en": "Theirs"}})
		before := h.dump(t)
		told := engineer.refused(t, "pxflow_apply_change", old.application("mine"), "PX_GENERATION_STALE /expectedGeneration")
		if len(told.Diagnostics) == 1 && told.Diagnostics[0].Params["currentRevisionRef"] != now.Target.RevisionRef {
			t.Errorf("told %+v", told.Diagnostics[0])
		}
		if changed := before.changes(h.dump(t)); len(changed) != 0 {
			t.Errorf("written: %q", changed)
		}
	})

	t.Run("7: what is independent is planned anew on the head, what meets is a conflict", func(t *testing.T) {
		now := engineer.create(t, sample, beam("footbridge_c"))
		independent := engineer.plan(t, now, m{"kind": "AddInputPort", "portKey": "factor", "contract": scalar("1")})
		meeting := engineer.plan(t, now, m{"kind": "SetFlowLabel", "label": m{"en": "Mine"}})
		now = engineer.change(t, now, "theirs-c", m{"kind": "SetFlowLabel", "label": m{"en": "Theirs"}})
		rebase := func(p plan) m {
			return m{"target": now.Target, "expectedGeneration": now.Generation, "rebaseFromPlanRef": p.PlanRef}
		}
		var anew plan
		engineer.ok(t, "pxflow_plan_change", rebase(independent), &anew)
		if anew.PlanRef == independent.PlanRef || anew.PlanDigest == independent.PlanDigest || anew.ExpectedGeneration != now.Generation {
			t.Errorf("planned anew as %+v", anew)
		}
		told := engineer.refused(t, "pxflow_plan_change", rebase(meeting), "PX_MERGE_CONFLICT /rebaseFromPlanRef")
		if len(told.Diagnostics) == 1 {
			conflicts, _ := told.Diagnostics[0].Params["conflicts"].(list)
			if len(conflicts) != 1 || conflicts[0].(m)["path"] == nil || conflicts[0].(m)["base"] == nil || conflicts[0].(m)["current"] == nil || conflicts[0].(m)["proposed"] == nil {
				t.Errorf("the conflict is %v", told.Diagnostics[0].Params)
			}
		}
	})

	t.Run("9: a large result is a summary and a link", func(t *testing.T) {
		table := engineer.create(t, sample, tabular())
		var started struct{ RunRef string }
		engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": table.Target, "commandId": "large", "inputs": m{"table": tableOf(1001, "")}}, &started)
		engineer.finished(t, started.RunRef)
		var got large
		told := engineer.ok(t, "result_read", m{"runRef": started.RunRef, "resultKey": "table"}, &got)
		if got.Value != nil || got.Schema.Rows != 1001 || len(got.Preview.Rows) == 0 || len(told.Resources) != 1 {
			t.Errorf("answered %.300s with %v", told.Data, told.Resources)
		}
	})

	t.Run("8: a missing right is named, with where to ask", func(t *testing.T) {
		told := viewer.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "x"}}}},
			"PX_PERMISSION_DENIED /target/scope")
		if len(told.Diagnostics) == 1 && (told.Diagnostics[0].Params["right"] != "edit" || told.Diagnostics[0].SuggestedAction != "REQUEST_PERMISSION") {
			t.Errorf("told %+v", told.Diagnostics[0])
		}
	})
}

// A prohibition is tried by requests that must all be refused, and must leave every
// row and object as it was.
type forbidden struct {
	who       caller
	tool      string
	arguments any
	told      []string
}

// The prohibitions of the original's list, in its order.
//
// covers: G2
func TestProhibitions(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer, other := h.as(t, "engineer"), h.as(t, "other")
	first := engineer.create(t, sample, beam("footbridge"))
	f := engineer.change(t, first, "second", m{"kind": "SetFlowLabel", "label": m{"en": "Footbridge"}})
	document := reviewOf("bridge_review")
	at(document, "blocks", "basis", "fields")["loads"] = m{"type": "table", "columns": list{m{"columnKey": "w", "type": "number", "unit": "kN/m"}},
		"value": m{"columns": list{m{"columnKey": "w", "type": "number", "unit": "kN/m"}}, "rows": list{list{1}, list{2}, list{3}}}}
	r := engineer.createReport(t, document)
	r = engineer.changeReport(t, r, "connect", feed(f, "span_in", "span", "basis", "span"), feed(f, "load_in", "load", "basis", "load"), showIn("moment_out", "moment", "summary", "moment"))
	connected := f
	stale := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Stale"}})
	f = engineer.change(t, f, "third", m{"kind": "SetFlowLabel", "label": m{"en": "Footbridge, 3"}})
	open := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Open"}})
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "run", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}, &started)
	engineer.finished(t, started.RunRef)
	engineer.ok(t, "pxflow_search", m{"scope": sample, "limit": 1}, nil) // makes the key by which cursors are sealed

	planning := func(f flowHead, commands ...any) m {
		return m{"target": f.Target, "expectedGeneration": f.Generation, "commands": commands}
	}
	was := h.createFunction(t, engineer, "scale", scaler("scale", 1, "2"))
	engineer.create(t, sample, scaling("scaled", was, 2))
	var second plan
	engineer.ok(t, "function_plan_change", newVersion(was, scaler("scale", 2, "3")), &second)
	engineer.ok(t, "function_apply_change", with(second.application("second-scale"), m{"approvalRef": h.approve(t, second.PlanRef)}), nil)
	function := engineer.function(t, "scale")
	var packaged struct{ Items []functionHead }
	engineer.ok(t, "function_search", m{"scope": sample, "filters": m{"owner": "package"}}, &packaged)
	versioning := func(edit m) m {
		request := newVersion(function, scaler("scale", 3, "4"))
		return with(request, m{"commands": list{with(request["commands"].(list)[0].(m), edit)}})
	}
	reporting := func(commands ...any) m {
		return m{"target": r.Target, "expectedGeneration": r.Generation, "commands": commands}
	}
	old := flowHead{first.Target, 0}
	relabel := m{"kind": "SetFlowLabel", "label": m{"en": "x"}}
	for name, tries := range map[string][]forbidden{
		"1: a target guessed by text, label or position": {
			{engineer, "pxflow_describe", m{"target": m{"scope": sample, "label": "Footbridge"}}, []string{"PX_SCHEMA_UNKNOWN_FIELD /target/label", "PX_SCHEMA_INVALID /target/flowKey", "PX_SCHEMA_INVALID /target/revisionRef"}},
			{engineer, "pxflow_describe", m{"target": with(encoded(t, f.Target), m{"flowKey": "Footbridge, 3"})}, []string{"PX_SCHEMA_INVALID /target/flowKey"}},
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "DisconnectInput", "nodeKey": "moment", "x": 10, "y": 20, "portKey": "w"}),
				[]string{"PX_SCHEMA_UNKNOWN_FIELD /commands/0/x", "PX_SCHEMA_UNKNOWN_FIELD /commands/0/y"}},
			{engineer, "report_plan_change", reporting(m{"kind": "SetText", "text": "x", "textContains": "span"}), []string{"PX_SCHEMA_UNKNOWN_FIELD /commands/0/textContains", "PX_SCHEMA_INVALID /commands/0/blockKey"}},
		},
		"2: a raw document, without a plan": {
			{engineer, "pxflow_apply_change", with(open.application("raw"), m{"document": beam("footbridge")}), []string{"PX_SCHEMA_UNKNOWN_FIELD /document"}},
			{engineer, "pxflow_apply_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commandId": "raw", "commands": list{relabel}},
				[]string{"PX_SCHEMA_UNKNOWN_FIELD /commands", "PX_SCHEMA_INVALID /planRef", "PX_SCHEMA_INVALID /planDigest"}},
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "PatchDocument", "patch": list{m{"op": "remove", "path": "/nodes/moment"}}}), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "CreateFlow", "document": beam("footbridge")}), []string{"FlowHeadAlreadyExists /target/flowKey"}},
		},
		"3: a raw Python patch, or a symbol or an order for a target": {
			{engineer, "function_plan_change", versioning(m{"kind": "PatchSource", "patch": "@@ -1 +1 @@"}), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "function_plan_change", versioning(m{"patch": "@@ -1 +1 @@"}), []string{"PX_SCHEMA_UNKNOWN_FIELD /commands/0/patch"}},
			{engineer, "function_plan_change", versioning(m{"line": 3}), []string{"PX_SCHEMA_UNKNOWN_FIELD /commands/0/line"}},
			{engineer, "function_plan_change", with(versioning(m{}), m{"target": m{"scope": sample, "symbol": "scale"}}), []string{"PX_SCHEMA_UNKNOWN_FIELD /target/symbol", "PX_SCHEMA_INVALID /target/functionKey"}},
			{engineer, "function_describe", m{"target": m{"scope": sample, "index": 0}}, []string{"PX_SCHEMA_UNKNOWN_FIELD /target/index", "PX_SCHEMA_INVALID /target/functionKey", "PX_SCHEMA_INVALID /target/version", "PX_SCHEMA_INVALID /target/digest", "PX_SCHEMA_INVALID /target/sourceDigest"}},
		},
		"4: a version, or the source of a dependency, overwritten": {
			{engineer, "function_plan_change", versioning(m{"source": scaler("scale", 2, "5")}), []string{"PX_SOURCE_INVALID /commands/0/source"}},
			{engineer, "function_plan_change", versioning(m{"source": scaler("scale", 1, "5")}), []string{"PX_SOURCE_INVALID /commands/0/source"}},
			{engineer, "function_plan_change", newVersion(was, scaler("scale", 2, "5")), []string{"PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/digest", "PX_GENERATION_STALE /target/sourceDigest"}},
			{engineer, "function_plan_change", m{"target": m{"scope": sample, "functionKey": "scale"}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": scaler("scale", 1, "5")}}},
				[]string{"FunctionHeadAlreadyExists /target/functionKey"}},
			{engineer, "function_plan_change", newVersion(packaged.Items[0], scaler("pipe_modulus", 2, "5")), []string{"PX_TARGET_READ_ONLY /target/package"}},
		},
		"5: some references of a Function updated, and others not": {
			{engineer, "function_plan_change", versioning(m{"referencePolicy": "selected"}), []string{"PX_SCHEMA_INVALID /commands/0/referencePolicy"}},
			{engineer, "function_plan_change", versioning(m{"flowKeys": list{"scaled"}}), []string{"PX_SCHEMA_UNKNOWN_FIELD /commands/0/flowKeys"}},
			{engineer, "function_plan_change", with(versioning(m{}), m{"commands": list{versioning(m{})["commands"].(list)[0],
				m{"kind": "ReplaceNodeTarget", "flowTarget": engineer.head(t, sample, "scaled").Target, "nodeKey": "n0", "target": m{"kind": "function", "functionKey": "scale", "version": 3}}}}),
				[]string{"PX_SCHEMA_INVALID /commands/1/kind"}},
		},
		"6: a Report's command that changes a Flow": {
			{engineer, "report_plan_change", reporting(relabel), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "report_plan_change", reporting(m{"kind": "ConnectInput", "nodeKey": "moment", "portKey": "w", "binding": literal(1, "kN/m")}), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "report_plan_change", planning(f, m{"kind": "SetReportLabel", "label": m{"en": "x"}}), []string{"PX_SCHEMA_UNKNOWN_FIELD /target/flowKey", "PX_SCHEMA_INVALID /target/reportKey"}},
		},
		"7: a Flow's command that changes a Report": {
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "SetFieldValue", "blockKey": "basis", "fieldKey": "span", "value": number(1, "ft")}), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "pxflow_plan_change", planning(f, showIn("moment_out", "moment", "summary", "moment")), []string{"PX_SCHEMA_INVALID /commands/0/kind"}},
			{engineer, "pxflow_plan_change", reporting(relabel), []string{"PX_SCHEMA_UNKNOWN_FIELD /target/reportKey", "PX_SCHEMA_INVALID /target/flowKey"}},
		},
		"8: a table made into several Runs": {
			{engineer, "report_plan_change", reporting(feed(connected, "load_in", "load", "basis", "loads")), []string{"PX_TYPE_MISMATCH /connections/check/inputs/load_in", "PX_UNIT_CONVERTED /connections/check/inputs/span_in"}},
			{engineer, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "many", "inputs": m{"span": number(10, "m"), "load": at(document, "blocks", "basis", "fields", "loads")["value"]}},
				[]string{"PX_SCHEMA_UNKNOWN_FIELD /inputs/load/columns", "PX_SCHEMA_UNKNOWN_FIELD /inputs/load/rows", "PX_UNIT_MISMATCH /inputs/load/unit", "PX_SCHEMA_INVALID /inputs/load/value"}},
		},
		"9: a stale revision replaced by the head": {
			{engineer, "pxflow_plan_change", planning(old, relabel), []string{"PX_GENERATION_STALE /expectedGeneration", "PX_GENERATION_STALE /target/revisionRef"}},
			{engineer, "pxflow_describe", m{"target": with(encoded(t, f.Target), m{"revisionRef": "head"})}, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
			{engineer, "pxflow_run", m{"kind": "RunFlow", "target": with(encoded(t, f.Target), m{"revisionRef": "latest"}), "commandId": "latest", "inputs": m{}}, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		},
		"10: a scope left out, or in part": {
			{engineer, "pxflow_search", m{"query": "beam"}, []string{"PX_SCHEMA_INVALID /scope"}},
			{engineer, "pxflow_search", m{"scope": m{"kind": "project", "workspaceKey": "structural_team"}}, []string{"PX_SCHEMA_INVALID /scope/projectKey"}},
			{engineer, "report_search", m{"scope": m{"kind": "project", "projectKey": "bridge_package"}}, []string{"PX_SCHEMA_INVALID /scope/workspaceKey"}},
			{engineer, "pxflow_describe", m{"target": m{"flowKey": "footbridge", "revisionRef": f.Target.RevisionRef}}, []string{"PX_SCHEMA_INVALID /target/scope"}},
			{engineer, "pxflow_plan_change", m{"target": m{"flowKey": "footbridge", "revisionRef": f.Target.RevisionRef}, "expectedGeneration": f.Generation, "commands": list{relabel}}, []string{"PX_SCHEMA_INVALID /target/scope"}},
			{engineer, "project_search", m{}, []string{"PX_SCHEMA_INVALID /scope"}},
		},
		"11: a plan whose base moved, or a part of one": {
			{engineer, "pxflow_apply_change", stale.application("stale"), []string{"PX_GENERATION_STALE /expectedGeneration"}},
			{engineer, "pxflow_apply_change", with(stale.application("moved"), m{"target": f.Target, "expectedGeneration": f.Generation}), []string{"PX_GENERATION_STALE /expectedGeneration"}},
			{engineer, "pxflow_apply_change", with(open.application("part"), m{"commands": list{0}}), []string{"PX_SCHEMA_UNKNOWN_FIELD /commands"}},
			{engineer, "pxflow_plan_change", planning(f, relabel, m{"kind": "RemoveNode", "nodeKey": "absent"}), []string{"PX_REFERENCE_UNKNOWN /commands/1/nodeKey"}},
		},
		"12: another version than the one that is there": {
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "AddNode", "nodeKey": "n", "target": m{"kind": "component", "componentKey": "px.formula", "version": 2}, "settings": m{}}),
				[]string{"PX_REFERENCE_UNKNOWN /nodes/n/target"}},
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "AddNode", "nodeKey": "n", "target": m{"kind": "component", "componentKey": "px.formula", "version": "latest"}, "settings": m{}}),
				[]string{"PX_SCHEMA_INVALID /commands/0/target/version"}},
			{engineer, "pxflow_plan_change", planning(f, m{"kind": "AddNode", "nodeKey": "n", "target": m{"kind": "component", "componentKey": "acme.truss", "version": 1}, "settings": m{}}),
				[]string{"PX_COMPONENT_NOT_RUNNABLE /nodes/n/target"}},
		},
		"13: a result for who may not read it": {
			{other, "result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, []string{"PX_TARGET_NOT_FOUND /runRef"}},
			{other, "run_get", m{"runRef": started.RunRef}, []string{"PX_TARGET_NOT_FOUND /runRef"}},
			{other, "report_describe", m{"target": r.Target}, []string{"PX_TARGET_NOT_FOUND /target/scope"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := h.dump(t)
			for _, f := range tries {
				told := f.who.refused(t, f.tool, f.arguments, f.told...)
				if text := encode(t, told); f.who.token == other.token && (strings.Contains(text, "moment") || strings.Contains(text, "span")) {
					t.Errorf("%s tells %s", f.tool, text)
				}
			}
			if changed := before.changes(h.dump(t)); len(changed) != 0 {
				t.Errorf("written: %q", changed)
			}
		})
	}

	// An old revision that is named exactly is what it was, and is run as it was.
	var described struct {
		Target  flowTarget
		Label   m
		Current bool
	}
	engineer.ok(t, "pxflow_describe", m{"target": first.Target}, &described)
	if !reflect.DeepEqual(described.Target, first.Target) || described.Label["en"] != "Beam" || described.Current {
		t.Errorf("the first revision is described as %+v", described)
	}
}

// A plan whose time is over is not applied, whatever it would do.
//
// covers: G2, P7
func TestAnExpiredPlanIsNotApplied(t *testing.T) {
	t.Parallel()
	h := start(t, "--parameter", "PlanLife=2s")
	engineer := h.as(t, "engineer")
	f := engineer.head(t, sample, "girder_check")
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "Late"}})
	expires, err := time.Parse(time.RFC3339, p.ExpiresAt)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(expires) + 50*time.Millisecond)
	before := h.dump(t)
	engineer.refused(t, "pxflow_apply_change", p.application("late"), "PX_PLAN_EXPIRED /planRef")
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}
}
