package policy_test

import (
	"slices"
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
