package policy

import (
	"fmt"
	"slices"
)

// A Need is what a policy asks of one change or run.
type Need struct {
	Required bool
	// Separate says that the approver may not be the requester.
	Separate bool
	// Reasons name the rules that asked, such as "function" or
	// "batch costing over 200 (Node evaluations plus sandbox seconds)".
	Reasons []string
}

// Judge returns what the policy asks of a subject with these command kinds and
// this cost. Of the rules on one subject, the first that fits a kind decides for
// that kind; one kind that needs approval is enough.
func (p Policy) Judge(on Subject, kinds []string, cost int64) Need {
	var need Need
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	for _, kind := range kinds {
		for _, r := range p.Rules {
			if r.On != on || cost <= r.MaxCost && r.MaxCost > 0 || len(r.Kinds) > 0 && !slices.Contains(r.Kinds, kind) {
				continue
			}
			if r.Approval == "required" {
				need.Required = true
				need.Separate = need.Separate || r.SeparateApprover == nil || *r.SeparateApprover
				reason := string(on)
				if len(r.Kinds) > 0 {
					reason += " " + kind
				}
				if r.MaxCost > 0 {
					reason += fmt.Sprintf(" costing over %d (Node evaluations plus sandbox seconds)", r.MaxCost)
				}
				if !slices.Contains(need.Reasons, reason) {
					need.Reasons = append(need.Reasons, reason)
				}
			}
			break
		}
	}
	return need
}

// Lacks are the params of a refusal for want of a right: which right, where, and
// how to ask for it. An operator grants rights; no tool does.
func Lacks(right Right, project interface{ String() string }) map[string]any {
	return map[string]any{"right": string(right), "project": project.String(), "requestFrom": "project operator (px project grant)"}
}
