package main

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A keptPlan is what applying a plan takes, as the host told it.
type keptPlan struct {
	URL                string         `json:"url"`
	Tool               string         `json:"tool"` // that planned it
	PlanRef            string         `json:"planRef"`
	PlanDigest         string         `json:"planDigest"`
	ExpiresAt          string         `json:"expiresAt"`
	Target             jsontext.Value `json:"target"`
	ExpectedGeneration int64          `json:"expectedGeneration"`
	Batch              bool           `json:"batch,omitzero"`     // it is started, not applied
	CommandID          string         `json:"commandId,omitzero"` // once it was applied or started
}

// keepPlan keeps what applying takes of the answer that is a plan.
func (e *environment) keepPlan(to *endpoint, tool string, answer answered) (keptPlan, bool) {
	plan := keptPlan{URL: to.url, Tool: tool}
	var kinds struct {
		Commands []struct {
			Kind string `json:"kind"`
		} `json:"commands"`
	}
	if !answer.OK || answer.Data.Kind() != '{' || json.Unmarshal(answer.Data, &plan) != nil || plan.PlanRef == "" || plan.PlanDigest == "" {
		return plan, false
	}
	if json.Unmarshal(answer.Data, &kinds) == nil && len(kinds.Commands) == 1 {
		plan.Batch = kinds.Commands[0].Kind == "RunReportFlowBatch"
	}
	plan.URL, plan.Tool = to.url, tool
	var earlier keptPlan
	if e.kept(keptPlans, plan.PlanRef, &earlier) { // another part of the same answer
		plan.CommandID = earlier.CommandID
	}
	return plan, e.keep(keptPlans, plan.PlanRef, plan) == nil
}
