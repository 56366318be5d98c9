package render

import (
	"fmt"
	"regexp"
	"strings"
)

// An Example is one call of a conversation with the sample Project. The reference page
// shows it with its tool, and an acceptance test makes all of them in order.
type Example struct {
	Tool string
	// Arguments are JSON, in which a name in capitals stands for what an earlier answer
	// holds.
	Arguments string
	// Gives are the names that the answer gives to those after it: a pointer into data.
	Gives map[string]string
	// Ends is for a tool that is asked until what it tells of has ended.
	Ends bool
	// Approval is the name of a planRef that a person approves before the call, by which
	// APPROVAL is known.
	Approval string
}

const scopeExample = `{"kind": "project", "workspaceKey": "structural_team", "projectKey": "bridge_package"}`

const sourceExample = `import px\n\n@px.function(\n    key=\"double\", version=1, description=\"Twice a length\",\n` +
	`    inputs={\"x\": px.number(unit=\"m\")},\n    results={\"y\": px.number(unit=\"m\")},\n)\ndef double(x):\n    return {\"y\": 2 * x}\n`

// Examples are a conversation in which every tool is called.
var Examples = []Example{
	{Tool: "project_search", Arguments: `{"scope": {"kind": "principal"}}`},
	{Tool: "pxflow_search", Arguments: `{"scope": ` + scopeExample + `, "query": "girder", "limit": 10}`,
		Gives: map[string]string{"FLOW": "/items/0/target", "GENERATION": "/items/0/generation"}},
	{Tool: "pxflow_describe", Arguments: `{"target": FLOW}`},
	{Tool: "pxflow_validate", Arguments: `{"target": FLOW}`},
	{Tool: "pxflow_plan_change", Arguments: `{"target": FLOW, "expectedGeneration": GENERATION, "commands": [
  {"kind": "SetFlowLabel", "label": {"en": "Girder check, interior girder", "ko": "거더 검토, 내측 거더"}}]}`,
		Gives: map[string]string{"PLAN": "/planRef", "DIGEST": "/planDigest"}},
	{Tool: "pxflow_apply_change", Arguments: `{"target": FLOW, "expectedGeneration": GENERATION, "planRef": PLAN, "planDigest": DIGEST, "commandId": "label-1"}`,
		Gives: map[string]string{"NEW_FLOW": "/changed/0/target"}},
	{Tool: "pxflow_run", Arguments: `{"kind": "RunFlow", "target": NEW_FLOW, "commandId": "run-1", "inputs": {
  "span": {"value": 60, "unit": "ft"}, "dead_load": {"value": 1.2, "unit": "kip/ft"}, "impact": {"value": 0.3, "unit": "1"},
  "section_modulus": {"value": 1500, "unit": "in^3"}, "yield_stress": {"value": 50, "unit": "ksi"}}}`,
		Gives: map[string]string{"RUN": "/runRef"}},
	{Tool: "run_get", Arguments: `{"runRef": RUN}`, Ends: true},
	{Tool: "result_read", Arguments: `{"runRef": RUN, "resultKey": "live_moment"}`},
	{Tool: "run_cancel", Arguments: `{"runRef": RUN, "commandId": "cancel-1", "reason": "The span was wrong."}`},
	{Tool: "report_search", Arguments: `{"scope": ` + scopeExample + `, "query": "girder"}`,
		Gives: map[string]string{"REPORT": "/items/0/target", "REPORT_GENERATION": "/items/0/generation"}},
	{Tool: "report_describe", Arguments: `{"target": REPORT}`},
	{Tool: "pxflow_run", Arguments: `{"kind": "RunReportFlowConnection", "target": REPORT, "connectionKey": "girder_check", "commandId": "review-1"}`},
	{Tool: "report_plan_change", Arguments: `{"target": REPORT, "expectedGeneration": REPORT_GENERATION, "commands": [
  {"kind": "RunReportFlowBatch", "connectionKey": "girder_check", "cases": [
    {"caseKey": "span_60", "inputs": {"span": {"value": 60, "unit": "ft"}}}, {"caseKey": "span_120", "inputs": {"span": {"value": 120, "unit": "ft"}}}],
   "merge": {"kind": "envelope", "portKeys": ["live_moment"], "by": "max"}}]}`,
		Gives: map[string]string{"BATCH_PLAN": "/planRef", "BATCH_DIGEST": "/planDigest"}},
	{Tool: "pxflow_run", Arguments: `{"kind": "RunReportFlowBatch", "target": REPORT, "planRef": BATCH_PLAN, "planDigest": BATCH_DIGEST, "commandId": "batch-1"}`,
		Gives: map[string]string{"BATCH": "/batchRef"}},
	{Tool: "run_get", Arguments: `{"batchRef": BATCH}`, Ends: true},
	{Tool: "result_read", Arguments: `{"batchRef": BATCH, "resultKey": "governing"}`},
	{Tool: "report_plan_change", Arguments: `{"target": REPORT, "expectedGeneration": REPORT_GENERATION, "commands": [
  {"kind": "SetReportLabel", "label": {"en": "Girder review, interior girder", "ko": "거더 검토서, 내측 거더"}}]}`,
		Gives: map[string]string{"REPORT_PLAN": "/planRef", "REPORT_DIGEST": "/planDigest"}},
	{Tool: "report_apply_change", Arguments: `{"target": REPORT, "expectedGeneration": REPORT_GENERATION, "planRef": REPORT_PLAN, "planDigest": REPORT_DIGEST, "commandId": "label-2"}`},
	{Tool: "function_search", Arguments: `{"scope": ` + scopeExample + `, "query": "resistance"}`,
		Gives: map[string]string{"FUNCTION": "/items/0/target"}},
	{Tool: "function_describe", Arguments: `{"target": FUNCTION}`},
	{Tool: "function_validate_change", Arguments: `{"scope": ` + scopeExample + `, "commands": [{"kind": "CreateFunction",
  "source": "` + sourceExample + `"}]}`},
	{Tool: "function_plan_change", Arguments: `{"target": {"scope": ` + scopeExample + `, "functionKey": "double"}, "expectedGeneration": 0,
 "commands": [{"kind": "CreateFunction", "source": "` + sourceExample + `"}]}`,
		Gives: map[string]string{"FUNCTION_PLAN": "/planRef", "FUNCTION_DIGEST": "/planDigest"}},
	{Tool: "function_apply_change", Approval: "FUNCTION_PLAN", Arguments: `{"target": {"scope": ` + scopeExample + `, "functionKey": "double"}, "expectedGeneration": 0,
 "planRef": FUNCTION_PLAN, "planDigest": FUNCTION_DIGEST, "approvalRef": APPROVAL, "commandId": "double-1"}`},
	{Tool: "component_search", Arguments: `{"query": "formula"}`, Gives: map[string]string{"COMPONENT": "/items/0/target"}},
	{Tool: "component_describe", Arguments: `{"target": COMPONENT}`},
}

// Named finds the names in the arguments of an example, outside of its texts.
var Named = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Z][A-Z_]+`)

// examplesOf writes the examples of a tool.
func examplesOf(line func(string, ...any), name string) {
	given := map[string]string{}
	for _, e := range Examples {
		if e.Tool == name {
			var told []string
			for _, n := range Named.FindAllString(e.Arguments, -1) {
				if from := given[n]; from != "" {
					told = append(told, fmt.Sprintf("`%s` is %s", n, from))
				} else if n == "APPROVAL" {
					told = append(told, fmt.Sprintf("`APPROVAL` is the approvalRef that a person gives for `%s`, as by px approve", e.Approval))
				}
			}
			lead := "Example"
			if told != nil {
				lead += ", in which " + strings.Join(told, ", ")
			}
			if e.Ends {
				lead += ", asked until the state is Succeeded, Failed or Cancelled"
			}
			line("")
			line("%s:", lead)
			line("")
			line("```\n%s\n```", e.Arguments)
		}
		for n, pointer := range e.Gives {
			given[n] = fmt.Sprintf("`%s` in the data of %s", pointer, e.Tool)
		}
	}
}
