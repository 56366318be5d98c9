package reportplanchange

import (
	"context"
	"errors"
	"strconv"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// A Command is one of report.Command, or batch.RunReportFlowBatch, which changes no
// document and is alone in its plan.
type Command interface{ schema.Variant }

var _ = schema.Union(variants()...)

func variants() []Command {
	out := []Command{}
	for _, c := range report.Commands() {
		out = append(out, c)
	}
	return append(out, batch.RunReportFlowBatch{})
}

// batched returns the command that plans a Batch, if there is one. It stands alone.
func batched(commands []Command) (*batch.RunReportFlowBatch, outcome.Findings) {
	for i, c := range commands {
		if c, ok := c.(batch.RunReportFlowBatch); ok {
			if len(commands) > 1 {
				at := max(i, 1) // the command that should not be there
				return nil, outcome.Findings{outcome.New(outcome.SchemaInvalid, "/commands/"+strconv.Itoa(at), outcome.Params{"rule": "single_command"})}
			}
			return &c, nil
		}
	}
	return nil, nil
}

// A BatchImpact is what a Batch Run plan means: how many Runs, at what cost, and
// what becomes of their results (R5).
type BatchImpact struct {
	ConnectionKey string            `json:"connectionKey"`
	FlowTarget    target.Flow       `json:"flowTarget"`
	Count         int               `json:"count"` // of cases, each one child Run
	Cost          int64             `json:"cost"`  // of all of them, as flow.Cost counts
	Merge         batch.MergeImpact `json:"merge"`
	// Slots are shown the results of the governing case; of another merge none are.
	Slots       []report.ReportResultSlot `json:"slots"`
	Permissions []policy.Right            `json:"permissions"`
}

// atCommand is where the command of a Batch Run plan stands.
const atCommand = "/commands/0"

// batch compiles a Batch Run plan. It needs the right to run and not to edit. It
// touches no path of the Report, so that a rebase of it, which missing may refuse,
// meets nothing that changed: what the new revision makes of it is checked here.
func (p planning) batch(ctx context.Context, s snapshot.Snapshot, in Input, command batch.RunReportFlowBatch, missing outcome.Findings) (d change.Draft, refused outcome.Findings, err error) {
	saved, refused, err := authored.Base(ctx, s, in.Target.Address(), in.ExpectedGeneration, false, policy.Run)
	if refused != nil || err != nil {
		return d, refused, err
	}
	if missing != nil {
		return d, missing, nil
	}
	doc, unreadable := report.Decode(saved.Document)
	if unreadable.Refused() {
		return d, nil, errors.New("report_plan_change: a saved document cannot be read")
	}
	connection, boundary, refused, err := report.Repeated(ctx, doc, command, p.flows.In(s), atCommand)
	if refused != nil || err != nil {
		return d, refused, err
	}
	plan, refused := command.Compile(connection, atCommand)
	if refused != nil {
		return d, refused, nil
	}
	normal, err := command.Normalized()
	if err != nil {
		return d, nil, err
	}
	commands, err := canon.EncodeEach([]batch.RunReportFlowBatch{normal})
	if err != nil {
		return d, nil, err
	}
	mapped := doc.Connections[command.ConnectionKey]
	impact := BatchImpact{ConnectionKey: command.ConnectionKey, FlowTarget: mapped.FlowTarget, Count: len(plan.Cases), Cost: int64(len(plan.Cases)) * boundary.Cost,
		Merge: plan.Merge.Impact(), Slots: []report.ReportResultSlot{}, Permissions: []policy.Right{policy.Read, policy.Run}}
	if plan.Merge.Kind == (batch.Envelope{}).Variant() {
		impact.Slots = report.SlotsOf(mapped)
	}
	d = change.Draft{
		Tool: Name, Project: s.Project, ExpectedGeneration: in.ExpectedGeneration, Base: change.Base{RevisionRef: in.Target.RevisionRef}, Commands: commands, Unlabelled: commands,
		Policy: s.Policy, Subject: policy.OnBatch, Kinds: []string{command.Variant()}, Cost: impact.Cost,
	}
	return d, nil, authored.Show(&d, in.Target, []report.Change{}, impact)
}
