package tools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog"
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

// inputSchema is the schema that a client reads in tools/list.
func inputSchema(t *testing.T, name string) (raw *jsonschema.Schema, resolved *jsonschema.Resolved) {
	t.Helper()
	var list []struct {
		Name        string
		InputSchema *jsonschema.Schema
	}
	if err := json.Unmarshal(catalog.JSON, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name == name {
			resolved, err := e.InputSchema.Resolve(nil)
			if err != nil {
				t.Fatal(err)
			}
			return e.InputSchema, resolved
		}
	}
	t.Fatalf("%s is not in the list", name)
	return nil, nil
}

func validate(t *testing.T, s *jsonschema.Resolved, arguments string) error {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(arguments), &value); err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// A client that validates what it sends sends the contract's examples and the
// example of every Component, and stops what is far from them.
//
// covers: W7, W10
func TestTheListedSchemasTakeTheExamples(t *testing.T) {
	for _, e := range examples {
		if byName(e.tool) == nil {
			continue
		}
		_, resolved := inputSchema(t, e.tool)
		if err := validate(t, resolved, e.arguments); err != nil {
			t.Errorf("%s, %s: %v", e.tool, e.name, err)
		}
		for _, spoiled := range []string{`{"budget": 1, ` + e.arguments[1:], `{"flowId": "x", ` + e.arguments[1:]} {
			if validate(t, resolved, spoiled) == nil {
				t.Errorf("%s, %s: taken too: %.40s", e.tool, e.name, spoiled)
			}
		}
	}
	form, resolved := inputSchema(t, "pxflow_plan_change")
	request := func(key, settings string) string {
		return `{"target": ` + exampleFlow + `, "expectedGeneration": 17, "commands": [{"kind": "AddNode", "nodeKey": "n",
			"target": {"kind": "component", "componentKey": "` + key + `", "version": 1}, "settings": ` + settings + `}]}`
	}
	for _, c := range component.All() {
		def := form.Defs[c.Key()]
		if def == nil || len(def.Examples) != 1 {
			t.Fatalf("the settings of %s are not taught with an example", c.Key())
		}
		shown, err := json.Marshal(def.Examples[0])
		if err != nil {
			t.Fatal(err)
		}
		arguments := request(c.Key(), string(shown))
		if err := validate(t, resolved, arguments); err != nil {
			t.Errorf("%s: %v", c.Key(), err)
		}
		if list := byName("pxflow_plan_change").Check([]byte(arguments)); list != nil {
			t.Errorf("%s: %q", c.Key(), found(list))
		}
		if _, list := c.Derive(shown, ""); list.Refused() {
			t.Errorf("%s: %q", c.Key(), found(list))
		}
		spoiled := `{"colour": 1, ` + strings.TrimPrefix(string(shown), "{")
		if validate(t, resolved, request(c.Key(), spoiled)) == nil {
			t.Errorf("%s takes a setting that no Component has", c.Key())
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
