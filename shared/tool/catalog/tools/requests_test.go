package tools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog/tools"
)

// The JSON examples of the contract, as they stand there.
const (
	exampleScope  = `{"kind": "project", "workspaceKey": "structural_team", "projectKey": "bridge_package"}`
	exampleFlow   = `{"scope": ` + exampleScope + `, "flowKey": "girder_check", "revisionRef": "sha256:flow-revision-digest"}`
	exampleReport = `{"scope": ` + exampleScope + `, "reportKey": "girder_review", "revisionRef": "sha256:report-revision-digest"}`
)

var examples = []struct{ tool, name, arguments string }{
	{"pxflow_search", "search", `{"scope": ` + exampleScope + `, "query": "resistance", "limit": 25}`},
	{"report_search", "search", `{"scope": ` + exampleScope + `, "query": "resistance", "limit": 25}`},
	{"function_search", "search", `{"scope": ` + exampleScope + `, "query": "resistance", "limit": 25}`},
	{"component_search", "search", `{"scope": ` + exampleScope + `, "query": "resistance", "limit": 25}`},
	{"pxflow_describe", "target", `{"target": ` + exampleFlow + `}`},
	{"report_describe", "target", `{"target": ` + exampleReport + `}`},
	{"pxflow_plan_change", "transaction", `{"target": ` + exampleFlow + `, "expectedGeneration": 17, "commands": [
		{"kind": "DisconnectInput", "nodeKey": "resistance_check", "portKey": "span"},
		{"kind": "ConnectInput", "nodeKey": "resistance_check", "portKey": "span", "binding": {"kind": "flowInput", "portKey": "span"}}]}`},
	{"pxflow_plan_change", "change inside a Flow", `{"target": ` + exampleFlow + `, "expectedGeneration": 17, "commands": [
		{"kind": "ConnectInput", "nodeKey": "resistance_check", "portKey": "span", "binding": {"kind": "flowInput", "portKey": "span"}}]}`},
	{"pxflow_apply_change", "apply", `{"target": ` + exampleFlow + `, "expectedGeneration": 17, "planRef": "plan_...", "planDigest": "sha256:plan-digest",
		"commandId": "client-generated-idempotency-key", "approvalRef": "approval_..."}`},
	{"report_plan_change", "connection", `{"target": ` + exampleReport + `, "expectedGeneration": 8, "commands": [
		{"kind": "SetReportFlowInputSource", "connectionKey": "girder_check", "mappingKey": "span_input", "flowTarget": ` + exampleFlow + `, "portKey": "span",
		 "source": {"kind": "reportValue", "blockKey": "design_basis", "fieldKey": "span"}}]}`},
	{"report_plan_change", "result target", `{"target": ` + exampleReport + `, "expectedGeneration": 8, "commands": [
		{"kind": "SetReportFlowResultTarget", "connectionKey": "girder_check", "mappingKey": "utilization_result", "portKey": "utilization",
		 "target": {"kind": "reportResultSlot", "blockKey": "check_summary", "slotKey": "utilization"}}]}`},
	{"component_describe", "component", `{"componentRef": {"publisher": "pipelinexlab-labs", "packageKey": "structural_analysis", "packageVersion": "1.0.0",
		"packageDigest": "sha256:package-digest", "releaseByteDigest": "sha256:release-digest", "componentKey": "model_analysis", "componentContractVersion": 1}}`},
	{"result_read", "result", `{"runRef": "run_...", "resultKey": "utilization"}`},
}

func byName(name string) tool.Defined {
	for _, d := range tools.All() {
		if d.Spec().Name == name {
			return d
		}
	}
	return nil
}

func found(list outcome.Findings) []string {
	var out []string
	for _, f := range list {
		out = append(out, fmt.Sprintf("%s %s", f.Code, f.Path))
	}
	slices.Sort(out)
	return out
}

// covers: W10
func TestTheContractsExamplesAreAcceptedAsTheyStand(t *testing.T) {
	for _, e := range examples {
		if d := byName(e.tool); d != nil { // the others come with their tools
			if list := d.Check([]byte(e.arguments)); list != nil {
				t.Errorf("%s, %s: %q", e.tool, e.name, found(list))
			}
		}
	}
}

// covers: L1
func TestLegacyFieldsAreRefusedAtEveryDepthOfEveryTool(t *testing.T) {
	for _, e := range examples {
		d := byName(e.tool)
		if d == nil {
			continue
		}
		for _, field := range []string{"projectId", "flowId", "nodeId", "projectRoot", "flowPath"} {
			// Into every object of the example, one at a time.
			for at := strings.IndexByte(e.arguments, '{'); at >= 0; {
				spoiled := e.arguments[:at+1] + fmt.Sprintf("%q: 1, ", field) + e.arguments[at+1:]
				list := d.Check([]byte(spoiled))
				if len(list) != 1 || list[0].Code != outcome.SchemaUnknownField || !strings.HasSuffix(list[0].Path, "/"+field) || list[0].Params["legacy"] != field {
					t.Errorf("%s: %s at byte %d: %q", e.tool, field, at, found(list))
				}
				next := strings.IndexByte(e.arguments[at+1:], '{')
				if next < 0 {
					break
				}
				at += 1 + next
			}
		}
		if list := d.Check([]byte(`{"budget": {"flowId": 1}}`)); !slices.Contains(found(list), "PX_SCHEMA_UNKNOWN_FIELD /budget/flowId") {
			t.Errorf("%s: inside budget: %q", e.tool, found(list))
		}
	}
}

// covers: L1
func TestARawDottedPathIsTheLegacyForm(t *testing.T) {
	plan := func(command string) string {
		return `{"target": ` + exampleFlow + `, "expectedGeneration": 17, "commands": [` + command + `]}`
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"result_read", `{"runRef": "run_...", "resultKey": "nodes.check.utilization"}`, "PX_SCHEMA_UNSUPPORTED_VERSION /resultKey"},
		{"result_read", `{"runRef": "run_...", "result": "nodes.check.utilization"}`, "PX_SCHEMA_UNSUPPORTED_VERSION /result"},
		{"pxflow_plan_change", plan(`{"kind": "DisconnectInput", "nodeKey": "resistance_check", "portKey": "inputs.span"}`), "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/portKey"},
		{"pxflow_plan_change", plan(`{"kind": "BindResult", "portKey": "utilization", "binding": "nodes.check.utilization"}`), "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/binding"},
		{"pxflow_plan_change", plan(`{"kind": "BindResult", "portKey": "utilization", "binding": {"kind": "nodeResult", "nodeKey": "check", "portKey": "results.utilization"}}`), "PX_SCHEMA_UNSUPPORTED_VERSION /commands/0/binding/portKey"},
	} {
		d := byName(c.tool)
		if d == nil {
			continue
		}
		if list := found(d.Check([]byte(c.arguments))); !slices.Contains(list, c.want) {
			t.Errorf("%s: %q is not in %q", c.arguments, c.want, list)
		}
	}
	// A dot elsewhere is only a bad key, and in a user's own value nothing at all.
	if d := byName("pxflow_plan_change"); d != nil {
		list := found(d.Check([]byte(plan(`{"kind": "RemoveNode", "nodeKey": "nodes.check"}`))))
		if !slices.Equal(list, []string{"PX_SCHEMA_INVALID /commands/0/nodeKey"}) {
			t.Errorf("a dotted nodeKey: %q", list)
		}
		if list := d.Check([]byte(plan(`{"kind": "SetNodeSetting", "nodeKey": "check", "settingKey": "note", "value": {"flowId": "nodes.check.utilization"}}`))); list != nil {
			t.Errorf("a user's own value: %q", found(list))
		}
	}
}

// covers: T1, W7
func TestEveryToolRefusesAnEmptyRequestWithDiagnostics(t *testing.T) {
	may := []string{"component_search"} // K1: built-ins without a scope
	for _, d := range tools.All() {
		name := d.Spec().Name
		if list := d.Check([]byte(`{}`)); list.Refused() == slices.Contains(may, name) {
			t.Errorf("%s: %q", name, found(list))
		}
		list := d.Check([]byte(`{"scope": {"kind": "project", "workspaceKey": "a"}, "target": {"scope": {"kind": "project", "workspaceKey": "a"}}}`))
		if !slices.Contains(may, name) && !list.Refused() {
			t.Errorf("%s fills in half a scope", name)
		}
	}
}
