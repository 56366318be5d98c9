// Package tools lists the definitions of every tool that exists. It links them
// all, so only the generator, the local host and tests import it.
package tools

import (
	"github.com/pxhost/pxhost/shared/tool"
	componentdescribe "github.com/pxhost/pxhost/shared/tool/component_describe"
	componentsearch "github.com/pxhost/pxhost/shared/tool/component_search"
	functionapplychange "github.com/pxhost/pxhost/shared/tool/function_apply_change"
	functiondescribe "github.com/pxhost/pxhost/shared/tool/function_describe"
	functionplanchange "github.com/pxhost/pxhost/shared/tool/function_plan_change"
	functionsearch "github.com/pxhost/pxhost/shared/tool/function_search"
	functionvalidatechange "github.com/pxhost/pxhost/shared/tool/function_validate_change"
	projectsearch "github.com/pxhost/pxhost/shared/tool/project_search"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
	pxflowrun "github.com/pxhost/pxhost/shared/tool/pxflow_run"
	pxflowsearch "github.com/pxhost/pxhost/shared/tool/pxflow_search"
	pxflowvalidate "github.com/pxhost/pxhost/shared/tool/pxflow_validate"
	reportapplychange "github.com/pxhost/pxhost/shared/tool/report_apply_change"
	reportdescribe "github.com/pxhost/pxhost/shared/tool/report_describe"
	reportplanchange "github.com/pxhost/pxhost/shared/tool/report_plan_change"
	reportsearch "github.com/pxhost/pxhost/shared/tool/report_search"
	resultread "github.com/pxhost/pxhost/shared/tool/result_read"
	runcancel "github.com/pxhost/pxhost/shared/tool/run_cancel"
	runget "github.com/pxhost/pxhost/shared/tool/run_get"
)

// All returns the definitions in the order of catalog.Order. A tool is added
// here when it works; then run go generate ./shared/tool/catalog.
func All() []tool.Defined {
	return []tool.Defined{
		projectsearch.Definition,
		reportsearch.Definition, reportdescribe.Definition,
		pxflowsearch.Definition, pxflowdescribe.Definition,
		functionsearch.Definition, functiondescribe.Definition,
		componentsearch.Definition, componentdescribe.Definition,
		reportplanchange.Definition, reportapplychange.Definition,
		functionvalidatechange.Definition, functionplanchange.Definition, functionapplychange.Definition,
		pxflowvalidate.Definition, pxflowplanchange.Definition, pxflowapplychange.Definition,
		pxflowrun.Definition, runget.Definition, runcancel.Definition, resultread.Definition,
	}
}

// Planned returns the definitions with the planned catalog of Components switched on
// (K4): those that differ stand in the place of the others.
func Planned() []tool.Defined {
	out := All()
	for i, d := range out {
		for _, p := range []tool.Defined{componentsearch.Planned, componentdescribe.Planned} {
			if p.Spec().Name == d.Spec().Name {
				out[i] = p
			}
		}
	}
	return out
}
