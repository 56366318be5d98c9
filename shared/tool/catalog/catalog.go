// Package catalog holds the answer to tools/list. It is bytes, so that the
// endpoint links no tool.
package catalog

import _ "embed"

// JSON is the array of the tools in catalog order, generated from their
// definitions.
//
//go:generate go run ./generate
//go:embed catalog.json
var JSON []byte

// Planned is JSON with the planned catalog of Components switched on (K4).
//
//go:embed planned.json
var Planned []byte

// Order names the 21 fixed tools in the order of the contract (W7). JSON has
// those of them that exist.
var Order = []string{
	"project_search",
	"report_search", "report_describe",
	"pxflow_search", "pxflow_describe",
	"function_search", "function_describe",
	"component_search", "component_describe",
	"report_plan_change", "report_apply_change",
	"function_validate_change", "function_plan_change", "function_apply_change",
	"pxflow_validate", "pxflow_plan_change", "pxflow_apply_change", "pxflow_run",
	"run_get", "run_cancel",
	"result_read",
}

// Titles are what ordinary clients show a person in place of a tool's name, when they ask
// whether it may be called. They are not in JSON, whose size is bounded.
var Titles = map[string]string{
	"project_search":           "Find Projects",
	"report_search":            "Find Reports",
	"report_describe":          "Read a Report",
	"pxflow_search":            "Find Flows",
	"pxflow_describe":          "Read a Flow",
	"function_search":          "Find Functions",
	"function_describe":        "Read a Function",
	"component_search":         "Find Components",
	"component_describe":       "Read a Component",
	"report_plan_change":       "Plan a change of a Report",
	"report_apply_change":      "Apply a planned change of a Report",
	"function_validate_change": "Check a change of a Function",
	"function_plan_change":     "Plan a change of a Function",
	"function_apply_change":    "Apply a planned change of a Function",
	"pxflow_validate":          "Check a Flow",
	"pxflow_plan_change":       "Plan a change of a Flow",
	"pxflow_apply_change":      "Apply a planned change of a Flow",
	"pxflow_run":               "Start a Run or a Batch",
	"run_get":                  "Look at a Run or a Batch",
	"run_cancel":               "Cancel a Run or a Batch",
	"result_read":              "Read a result",
}

// Instructions tell a model of an ordinary client how the tools belong together.
const Instructions = `pxhost keeps engineering calculations: Functions (Python), Flows (Nodes wired by typed ports with units) and Reports. ` +
	`Begin with project_search, then pxflow_search, report_search or function_search, then the describe tool. ` +
	`Nothing is guessed: copy each target, its exact revisionRef and the generation from an answer. ` +
	`To change something, plan it (…_plan_change), show the person the plan's diff and impact, then apply exactly that plan (…_apply_change) with a commandId of your own; the same commandId again gives the same answer and is never done twice. ` +
	`If a plan says that it needs approval, a person gives it outside of these tools. ` +
	`To calculate, pxflow_run, then run_get until it has ended, then result_read. Values carry units; give a unit with every quantity. ` +
	`An answer that is cut says so in truncation and tells how to go on. A failure has a code, a JSON Pointer to the place, and a suggestedAction.`
