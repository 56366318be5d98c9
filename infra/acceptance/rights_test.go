package acceptance

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// What each sample principal may: engineer read, edit, run; reviewer read,
// approve; viewer read; other nothing.
// covers: K1, P5, S4
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	inputs := m{"span": number(10, "m"), "load": number(4, "kN/m")}
	r := engineer.createReport(t, reviewOf("bridge_review"))
	q, _ := engineer.planReport(t, r, m{"kind": "SetReportLabel", "label": m{"en": "x"}})
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "first", "inputs": inputs}, &started)
	engineer.finished(t, started.RunRef)

	target := m{"target": f.Target}
	const ok, lacks, hidden = "ok", "PX_PERMISSION_DENIED", "PX_TARGET_NOT_FOUND"
	type cell struct{ code, path string }
	fine := cell{ok, ""}
	for _, row := range []struct {
		tool      string
		arguments m
		viewer    cell
		reviewer  cell
		other     cell
		engineer  cell
		right     string
	}{
		{"pxflow_search", m{"scope": sample}, fine, fine, cell{hidden, "/scope"}, fine, ""},
		{"pxflow_describe", target, fine, fine, cell{hidden, "/target/scope"}, fine, ""},
		{"pxflow_validate", target, fine, fine, cell{hidden, "/target/scope"}, fine, ""},
		{"report_search", m{"scope": sample}, fine, fine, cell{hidden, "/scope"}, fine, ""},
		{"report_describe", m{"target": r.Target}, fine, fine, cell{hidden, "/target/scope"}, fine, ""},
		{"report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetReportLabel", "label": m{"en": "y"}}}},
			cell{lacks, "/target/scope"}, cell{lacks, "/target/scope"}, cell{hidden, "/target/scope"}, fine, "edit"},
		{"report_apply_change", q.application("apply"), cell{lacks, "/target/scope"}, cell{lacks, "/target/scope"}, cell{hidden, "/target/scope"}, fine, "edit"},
		{"component_search", m{"scope": sample}, fine, fine, cell{hidden, "/scope"}, fine, ""},
		{"component_describe", m{"target": m{"scope": sample, "componentKey": "px.formula"}}, fine, fine, cell{hidden, "/target/scope"}, fine, ""},
		{"pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": list{m{"kind": "SetFlowLabel", "label": m{"en": "y"}}}},
			cell{lacks, "/target/scope"}, cell{lacks, "/target/scope"}, cell{hidden, "/target/scope"}, fine, "edit"},
		{"pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "again", "inputs": inputs},
			cell{lacks, "/target/scope"}, cell{lacks, "/target/scope"}, cell{hidden, "/target/scope"}, fine, "run"},
		{"run_get", m{"runRef": started.RunRef}, fine, fine, cell{hidden, "/runRef"}, fine, ""},
		{"result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, fine, fine, cell{hidden, "/runRef"}, fine, ""},
		{"run_cancel", m{"runRef": started.RunRef, "commandId": "c"}, cell{lacks, "/runRef"}, cell{lacks, "/runRef"}, cell{hidden, "/runRef"}, fine, "run"},
		{"pxflow_apply_change", p.application("apply"), cell{lacks, "/target/scope"}, cell{lacks, "/target/scope"}, cell{hidden, "/target/scope"}, fine, "edit"},
	} {
		for as, want := range map[string]cell{"viewer": row.viewer, "reviewer": row.reviewer, "other": row.other} {
			c := h.as(t, as)
			if want.code == ok {
				c.ok(t, row.tool, row.arguments, nil)
				continue
			}
			told := c.refused(t, row.tool, row.arguments, want.code+" "+want.path)
			if want.code == lacks && len(told.Diagnostics) == 1 && (told.Diagnostics[0].Params["right"] != row.right || told.Diagnostics[0].SuggestedAction != "REQUEST_PERMISSION") {
				t.Errorf("%s: the %s is told %+v", row.tool, as, told.Diagnostics[0])
			}
		}
		if row.engineer.code == ok {
			engineer.ok(t, row.tool, row.arguments, nil)
		}
	}

	// What may be done is also what describe says may be done.
	var described struct {
		Operations []struct {
			Tool      string
			Permitted bool
			Missing   []string
		}
	}
	h.as(t, "viewer").ok(t, "pxflow_describe", target, &described)
	for _, o := range described.Operations {
		if o.Permitted != (o.Tool == "pxflow_validate") {
			t.Errorf("the viewer is told %+v", o)
		}
	}

	// project_search shows what one may read, and nothing else there is.
	h.operate(t, "project", "create", "structural_team/tunnel_package", "--label", "en=Tunnel package")
	h.operate(t, "project", "create", "other_team/dam_package")
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "viewer", "--rights", "read")
	h.operate(t, "project", "grant", "other_team/dam_package", "--to", "viewer", "--rights", "read,run")
	found := func(as string, scope m) string {
		t.Helper()
		var page struct {
			Items []struct{ Target struct{ Scope m } }
		}
		h.as(t, as).ok(t, "project_search", m{"scope": scope}, &page)
		var names []string
		for _, i := range page.Items {
			names = append(names, fmt.Sprint(i.Target.Scope["workspaceKey"], "/", i.Target.Scope["projectKey"]))
		}
		return strings.Join(names, " ")
	}
	everything := m{"kind": "principal"}
	for as, want := range map[string]string{"engineer": "structural_team/bridge_package", "reviewer": "structural_team/bridge_package", "other": "",
		"viewer": "other_team/dam_package structural_team/bridge_package structural_team/tunnel_package"} {
		if got := found(as, everything); got != want {
			t.Errorf("the %s finds %q", as, got)
		}
	}
	if got := found("viewer", m{"kind": "workspace", "workspaceKey": "structural_team"}); got != "structural_team/bridge_package structural_team/tunnel_package" {
		t.Errorf("in one workspace: %q", got)
	}
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "viewer")
	if got := found("viewer", everything); got != "other_team/dam_package structural_team/bridge_package" {
		t.Errorf("after a right was taken away: %q", got)
	}

	// component_search: built-ins without a scope or with a part of one, and in a
	// Project, whose contributions none is admitted of, the same.
	var built, part, in m
	other := h.as(t, "other")
	other.ok(t, "component_search", m{}, &built)
	other.ok(t, "component_search", m{"scope": m{"kind": "project", "workspaceKey": "structural_team"}}, &part)
	engineer.ok(t, "component_search", m{"scope": sample}, &in)
	if len(built["items"].(list)) != 7 || !reflect.DeepEqual(built, part) || !reflect.DeepEqual(built["items"], in["items"]) {
		t.Errorf("without a scope %v, with a part of one %v, in a Project %v", built, part, in)
	}
}

// Whatever one may not read is answered as what is not there, byte for byte.
// covers: S4
func TestWhatOneMayNotReadDoesNotExist(t *testing.T) {
	t.Parallel()
	h := start(t)
	engineer := h.as(t, "engineer")
	f := engineer.create(t, sample, beam("footbridge"))
	p := engineer.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	nowhere := with(sample, m{"projectKey": "nowhere"})
	r := engineer.createReport(t, reviewOf("bridge_review"))
	q, _ := engineer.planReport(t, r, m{"kind": "SetReportLabel", "label": m{"en": "x"}})
	movedReport := reportTarget{nowhere, r.Target.ReportKey, r.Target.RevisionRef}
	relabel := list{m{"kind": "SetReportLabel", "label": m{"en": "y"}}}
	var started struct{ RunRef string }
	engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": "first", "inputs": m{"span": number(10, "m"), "load": number(4, "kN/m")}}, &started)
	engineer.finished(t, started.RunRef)
	moved := flowTarget{nowhere, f.Target.FlowKey, f.Target.RevisionRef}
	command := list{m{"kind": "SetFlowLabel", "label": m{"en": "y"}}}
	run := m{"kind": "RunFlow", "commandId": "x", "inputs": m{}}
	const noRun = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, c := range []struct {
		tool           string
		exists, absent m
	}{
		{"pxflow_search", m{"scope": sample}, m{"scope": nowhere}},
		{"pxflow_describe", m{"target": f.Target}, m{"target": moved}},
		{"pxflow_validate", m{"target": f.Target}, m{"target": moved}},
		{"report_search", m{"scope": sample}, m{"scope": nowhere}},
		{"report_describe", m{"target": r.Target}, m{"target": movedReport}},
		{"report_plan_change", m{"target": r.Target, "expectedGeneration": 0, "commands": relabel}, m{"target": movedReport, "expectedGeneration": 0, "commands": relabel}},
		{"report_apply_change", q.application("x"), with(q.application("x"), m{"target": movedReport})},
		{"component_search", m{"scope": sample}, m{"scope": nowhere}},
		{"component_describe", m{"target": m{"scope": sample, "componentKey": "px.formula"}}, m{"target": m{"scope": nowhere, "componentKey": "px.formula"}}},
		{"pxflow_plan_change", m{"target": f.Target, "expectedGeneration": 0, "commands": command}, m{"target": moved, "expectedGeneration": 0, "commands": command}},
		{"pxflow_apply_change", p.application("x"), with(p.application("x"), m{"target": moved})},
		{"pxflow_run", with(run, m{"target": f.Target}), with(run, m{"target": moved})},
		{"run_get", m{"runRef": started.RunRef}, m{"runRef": noRun}},
		{"run_cancel", m{"runRef": started.RunRef, "commandId": "x"}, m{"runRef": noRun, "commandId": "x"}},
		{"result_read", m{"runRef": started.RunRef, "resultKey": "moment"}, m{"runRef": noRun, "resultKey": "moment"}},
	} {
		other := h.as(t, "other")
		one, two := other.call(t, c.tool, c.exists), other.call(t, c.tool, c.absent)
		if normalized(one.Raw) != normalized(two.Raw) || one.Envelope == nil || one.Envelope.OK {
			t.Errorf("%s:\n what is hidden %s\nwhat is absent %s", c.tool, one.Raw, two.Raw)
		}
	}
}
