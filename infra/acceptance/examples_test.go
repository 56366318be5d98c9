package acceptance

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The JSON examples of the contract, as they stand there, and what is refused of
// each: that it names what does not exist, and nothing else. Examples of tools
// that do not work yet come with them.
// covers: E1
func TestTheContractsExamplesNameOnlyWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	h := start(t)
	const scope = `{
  "kind": "project",
  "workspaceKey": "structural_team",
  "projectKey": "bridge_package"
}`
	const flow = `{
  "scope": ` + scope + `,
  "flowKey": "girder_check",
  "revisionRef": "sha256:flow-revision-digest"
}`
	const report = `{
  "scope": ` + scope + `,
  "reportKey": "girder_review",
  "revisionRef": "sha256:report-revision-digest"
}`
	const connect = `{
      "kind": "ConnectInput",
      "nodeKey": "resistance_check",
      "portKey": "span",
      "binding": {
        "kind": "flowInput",
        "portKey": "span"
      }
    }`
	engineer := h.as(t, "engineer")
	for _, e := range []struct {
		name, tool, arguments string
		told                  []string
	}{
		{"Search", "pxflow_search", `{
  "scope": ` + scope + `,
  "query": "resistance",
  "limit": 25
}`, nil},
		{"Search of Reports", "report_search", `{
  "scope": ` + scope + `,
  "query": "resistance",
  "limit": 25
}`, nil},
		{"Report target", "report_describe", `{"target": ` + report + `}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Report connection", "report_plan_change", `{
  "target": ` + report + `,
  "expectedGeneration": 8,
  "commands": [
    {
      "kind": "SetReportFlowInputSource",
      "connectionKey": "girder_check",
      "mappingKey": "span_input",
      "flowTarget": ` + flow + `,
      "portKey": "span",
      "source": {
        "kind": "reportValue",
        "blockKey": "design_basis",
        "fieldKey": "span"
      }
    }
  ]
}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Report result", "report_plan_change", `{
  "target": ` + report + `,
  "expectedGeneration": 8,
  "commands": [
    {
      "kind": "SetReportFlowResultTarget",
      "connectionKey": "girder_check",
      "mappingKey": "utilization_result",
      "portKey": "utilization",
      "target": {
        "kind": "reportResultSlot",
        "blockKey": "check_summary",
        "slotKey": "utilization"
      }
    }
  ]
}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Search of Components", "component_search", `{
  "scope": ` + scope + `,
  "query": "resistance",
  "limit": 25
}`, nil},
		{"Flow target", "pxflow_describe", `{"target": ` + flow + `}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Flow target", "pxflow_validate", `{"target": ` + flow + `}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Plan request", "pxflow_plan_change", `{
  "target": ` + flow + `,
  "expectedGeneration": 17,
  "commands": [
    {"kind": "DisconnectInput", "nodeKey": "resistance_check", "portKey": "span"},
    ` + connect + `
  ]
}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Flow internal change", "pxflow_plan_change", `{
  "target": ` + flow + `,
  "expectedGeneration": 17,
  "commands": [
    ` + connect + `
  ]
}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Apply", "pxflow_apply_change", `{
  "target": ` + flow + `,
  "expectedGeneration": 17,
  "planRef": "plan_...",
  "planDigest": "sha256:plan-digest",
  "commandId": "client-generated-idempotency-key",
  "approvalRef": "approval_..."
}`, []string{"PX_PLAN_NOT_FOUND /planRef"}},
		{"Report connection", "pxflow_run", `{
  "kind": "RunReportFlowConnection",
  "commandId": "client-generated-idempotency-key",
  "target": {
    "scope": {
      "kind": "project",
      "workspaceKey": "structural_team",
      "projectKey": "bridge_package"
    },
    "reportKey": "girder_review",
    "revisionRef": "sha256:report-revision-digest"
  },
  "connectionKey": "girder_check",
  "reason": "user"
}`, []string{"PX_TARGET_NOT_FOUND /target/revisionRef"}},
		{"Component", "component_describe", `{
  "componentRef": {
    "publisher": "pipelinexlab-labs",
    "packageKey": "structural_analysis",
    "packageVersion": "1.0.0",
    "packageDigest": "sha256:package-digest",
    "releaseByteDigest": "sha256:release-digest",
    "componentKey": "model_analysis",
    "componentContractVersion": 1
  }
}`, nil},
		{"Result", "result_read", `{
  "runRef": "run_...",
  "resultKey": "utilization"
}`, []string{"PX_TARGET_NOT_FOUND /runRef"}},
	} {
		// A message may stand on several lines where it is the only one; on the
		// wire it is one line.
		var one json.RawMessage
		if err := json.Unmarshal([]byte(e.arguments), &one); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		got := engineer.call(t, e.tool, strings.Join(strings.Fields(string(one)), " "))
		switch {
		case got.Envelope == nil:
			t.Errorf("%s: %+v", e.name, got)
		case e.told == nil && !got.Envelope.OK, e.told != nil && !slices.Equal(got.Envelope.told(), e.told):
			t.Errorf("%s: want %q, told %q", e.name, e.told, got.Envelope.told())
		}
	}

	// The search that finds nothing, the Component that is not there: as the
	// contract writes such answers.
	var found m
	engineer.ok(t, "pxflow_search", m{"scope": sample, "query": "cantilever", "limit": 25}, &found)
	if len(found) != 2 || len(found["items"].(list)) != 0 || found["appliedLimit"] != 25.0 {
		t.Errorf("nothing found is %v", found)
	}
	if got := engineer.call(t, "component_describe", m{"target": m{"scope": m{"kind": "product"}, "componentKey": "acme.solver"}}); got.Raw != `{"ok":true,"data":{"component":null},"diagnostics":[],"resources":[]}` {
		t.Errorf("no Component is %s", got.Raw)
	}
	// A business error, as the contract writes it.
	refused := engineer.refused(t, "pxflow_describe", m{"target": flowTarget{sample, "no_such_flow", "sha256:flow-revision-digest"}}, "PX_TARGET_NOT_FOUND /target/flowKey")
	if d := refused.Diagnostics; len(d) == 1 && (d[0].Severity != "error" || *d[0].Retryable || d[0].Params["flowKey"] != "no_such_flow" || d[0].SuggestedAction != "SELECT_EXACT_TARGET") {
		t.Errorf("told %+v", d[0])
	}
}
