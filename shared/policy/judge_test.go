package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/policy"
)

// Who is asked to approve is told which rule asks, and of what its number is.
//
// covers: U6
func TestAReasonNamesItsRule(t *testing.T) {
	p := policy.Policy{Rules: []policy.Rule{
		{On: policy.OnBatch, MaxCost: 2000, Approval: "required"},
		{On: policy.OnRun, Kinds: []string{"RunFlow"}, MaxCost: 5, Approval: "required"},
		{On: policy.OnFlow, Kinds: []string{"CreateFlow"}, Approval: "required"},
		{On: policy.OnReport, Approval: "required"},
	}}
	for _, c := range []struct {
		on   policy.Subject
		kind string
		cost int64
		want []string
	}{
		{policy.OnBatch, "RunReportFlowBatch", 2000, nil},
		{policy.OnBatch, "RunReportFlowBatch", 2001, []string{"batch costing over 2000 (Node evaluations plus sandbox seconds)"}},
		{policy.OnRun, "RunFlow", 6, []string{"run RunFlow costing over 5 (Node evaluations plus sandbox seconds)"}},
		{policy.OnRun, "RunReportFlowConnection", 6, nil},
		{policy.OnFlow, "CreateFlow", 0, []string{"flow CreateFlow"}},
		{policy.OnReport, "SetText", 0, []string{"report"}},
	} {
		if need := p.Judge(c.on, []string{c.kind}, c.cost); !slices.Equal(need.Reasons, c.want) || need.Required != (c.want != nil) {
			t.Errorf("%s of %s for %d: %+v", c.kind, c.on, c.cost, need)
		}
	}
}

// A rule on paths asks for what is written, whichever command writes it; a rule that lets
// pass lets only that pass which it names.
//
// covers: U6
func TestARuleOnPathsFitsWhateverCommandWritesThere(t *testing.T) {
	no := false
	targets := policy.Rule{On: policy.OnFlow, Paths: []string{"/nodes/*/target"}, Approval: "required"}
	for name, c := range map[string]struct {
		rules []policy.Rule
		deeds []policy.Deed
		want  []string // reasons
	}{
		"the path itself":                   {[]policy.Rule{targets}, []policy.Deed{flows("ReplaceNodeTarget", "/nodes/a/target")}, []string{"flow at /nodes/*/target"}},
		"a Node that goes, or comes":        {[]policy.Rule{targets}, []policy.Deed{flows("RemoveNode AddNode", "/nodes/a")}, []string{"flow at /nodes/*/target"}},
		"a whole document":                  {[]policy.Rule{targets}, []policy.Deed{flows("CreateFlow", "")}, []string{"flow at /nodes/*/target"}},
		"below the path":                    {[]policy.Rule{targets}, []policy.Deed{flows("X", "/nodes/a/target/version")}, []string{"flow at /nodes/*/target"}},
		"beside the path":                   {[]policy.Rule{targets}, []policy.Deed{flows("SetNodeSetting", "/nodes/a/settings/target", "/inputs/target", "/label")}, nil},
		"a name that only begins like it":   {[]policy.Rule{targets}, []policy.Deed{flows("X", "/nodes/a/targets")}, nil},
		"one of many paths":                 {[]policy.Rule{targets}, []policy.Deed{flows("X", "/inputs/a", "/nodes/z/target")}, []string{"flow at /nodes/*/target"}},
		"another subject":                   {[]policy.Rule{targets}, []policy.Deed{{On: policy.OnReport, Paths: []string{"/nodes/a/target"}}}, nil},
		"what moves with another subject":   {[]policy.Rule{targets}, []policy.Deed{{On: policy.OnFunction, Kinds: []string{"CreateFunctionVersion"}, Paths: []string{"/source"}}, flows("ReplaceNodeTarget", "/nodes/a/target")}, []string{"flow at /nodes/*/target"}},
		"no paths known":                    {[]policy.Rule{targets}, []policy.Deed{flows("ReplaceNodeTarget")}, nil},
		"a key by its name":                 {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/nodes/check"}, Approval: "required"}}, []policy.Deed{flows("ConnectInput", "/nodes/check/inputBindings/a")}, []string{"flow at /nodes/check"}},
		"a key by another name":             {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/nodes/check"}, Approval: "required"}}, []policy.Deed{flows("ConnectInput", "/nodes/checks/inputBindings/a")}, nil},
		"kinds at paths":                    {[]policy.Rule{{On: policy.OnFlow, Kinds: []string{"AddNode"}, Paths: []string{"/nodes"}, Approval: "required"}}, []policy.Deed{flows("AddNode", "/nodes/a")}, []string{"flow AddNode at /nodes"}},
		"other kinds at them":               {[]policy.Rule{{On: policy.OnFlow, Kinds: []string{"AddNode"}, Paths: []string{"/nodes"}, Approval: "required"}}, []policy.Deed{flows("RemoveNode", "/nodes/a")}, nil},
		"what is let pass at a path":        {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/label"}, Approval: "none"}, {On: policy.OnFlow, Approval: "required"}}, []policy.Deed{flows("SetFlowLabel", "/label")}, nil},
		"what writes elsewhere too":         {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/label"}, Approval: "none"}, {On: policy.OnFlow, Approval: "required"}}, []policy.Deed{flows("SetFlowLabel AddNode", "/label", "/nodes/a")}, []string{"flow"}},
		"what is more than what is let":     {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/label"}, Approval: "none"}, {On: policy.OnFlow, Approval: "required"}}, []policy.Deed{flows("CreateFlow", "")}, []string{"flow"}},
		"the first that fits a path":        {[]policy.Rule{{On: policy.OnFlow, Paths: []string{"/nodes/a"}, Approval: "none"}, targets}, []policy.Deed{flows("ReplaceNodeTarget", "/nodes/a/target", "/nodes/b/settings/x")}, nil},
		"a kind that is let pass, and more": {[]policy.Rule{{On: policy.OnFlow, Kinds: []string{"SetFlowLabel"}, Approval: "none"}, targets}, []policy.Deed{flows("SetFlowLabel RemoveNode", "/label", "/nodes/a")}, []string{"flow at /nodes/*/target"}},
		"by who asks himself":               {[]policy.Rule{{On: policy.OnFlow, Paths: []string{""}, Approval: "required", SeparateApprover: &no}}, []policy.Deed{flows("X", "/label")}, []string{"flow at "}},
	} {
		need := policy.Policy{Rules: c.rules}.JudgeAll(0, c.deeds...)
		if !slices.Equal(need.Reasons, c.want) || need.Required != (c.want != nil) || need.Separate != (need.Required && c.rules[0].SeparateApprover == nil) {
			t.Errorf("%s: %+v", name, need)
		}
	}
}

func flows(kinds string, paths ...string) policy.Deed {
	return policy.Deed{On: policy.OnFlow, Kinds: strings.Fields(kinds), Paths: paths}
}
