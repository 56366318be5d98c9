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
