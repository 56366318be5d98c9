// Package reportplanchange is the tool report_plan_change: it compiles commands on
// one Report into a plan that can be reviewed, and changes nothing. No command of
// it touches a Flow (R3).
package reportplanchange

import (
	"context"
	"errors"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "report_plan_change"

// Input of the tool.
type Input struct {
	tool.Common
	_ struct{} `desc:"At least one of commands, rebaseFromPlanRef; of a draft neither."`

	Target             target.ReportDocument `json:"target" desc:"Copied from an answer. For CreateReport: the new reportKey and its document's digest; PX_PLAN_MISMATCH tells the right one."`
	ExpectedGeneration int64                 `json:"expectedGeneration" schema:"minimum=0" desc:"As report_describe gave it; 0 for CreateReport or a draft."`
	Commands           []Command             `json:"commands,omitzero" schema:"minItems=1,maxItems=1000" desc:"In order, all or none. With what is removed, remove its mappings. A typed value is {\"value\": 3, \"unit\": \"m\"}."`
	RebaseFromPlanRef  string                `json:"rebaseFromPlanRef,omitzero" schema:"minLength=1,maxLength=64" desc:"Your older plan; its commands, unless others are sent."`
}

// Definition of the tool.
var Definition = tool.Define[Input, change.Plan](tool.Spec{
	Name: Name,
	Description: "Plan a change of one Report: typed commands on blocks, values, texts, slots and connections to Flows, CreateReport for a first save, or " +
		"RunReportFlowBatch of 1 to 10,000 cases for pxflow_run. Changes nothing. First read report_describe, and pxflow_describe of a Flow to connect. " +
		"Answers planRef and planDigest for report_apply_change, diff, both contracts of each mapping, slots that turn Stale, and whether a person must give an approvalRef (px approve planRef). " +
		"On PX_GENERATION_STALE plan again on params.currentRevisionRef with rebaseFromPlanRef.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/commands", Counts: budget.AsItems},
		// A document of CreateReport may be larger than an answer.
		{Path: "/commands/*/document/blocks"}, {Path: "/commands/*/document/blockOrder"}, {Path: "/commands/*/document/connections"},
		{Path: "/touchedSemanticPaths", Counts: budget.AsItems}, {Path: "/diff", Counts: budget.AsItems},
		{Path: "/impact/checks", Counts: budget.AsItems}, {Path: "/impact/uses", Counts: budget.AsItems}, {Path: "/impact/stale", Counts: budget.AsItems},
		{Path: "/impact/dependencies", Counts: budget.AsItems}, {Path: "/impact/preserved", Counts: budget.AsItems},
		// A Batch has more cases than an answer lists.
		{Path: "/commands/*/cases", Counts: budget.AsItems}, {Path: "/impact/merge/columns", Counts: budget.AsItems}, {Path: "/impact/slots", Counts: budget.AsItems},
	},
})

// An Impact is what a plan means beyond the document (R2).
type Impact struct {
	// Checks are the mappings that the plan writes or whose outcome it changes:
	// Report place, exact Flow revision and port, both contracts, and how they
	// compare in type, unit, shape and nullability.
	Checks []report.Mapped `json:"checks"`
	// Uses are the fields and slots whose mappings the plan changes.
	Uses []Use `json:"uses"`
	// Stale are the slots whose result, where they show one, turns Stale.
	Stale []report.StaleSlot `json:"stale"`
	// Preserved are references that stay as they are, and why.
	Preserved []authored.Preserved `json:"preserved"`
	// Dependencies are the Flow revisions that the Report is pinned to afterwards.
	Dependencies []report.Dependency `json:"dependencies"`
	// Permissions are the rights that applying the plan takes.
	Permissions []policy.Right `json:"permissions"`
	// Cost is what one Run of each connection of the new revision costs together,
	// in Node evaluations plus sandbox seconds.
	Cost int64 `json:"cost"`
}

// A Use is a place of the Report that a plan affects.
type Use struct {
	Target string `json:"target"` // "report/girder_review"
	report.Place
}

// Results tells which slots of a Report, as it is saved, have a Current result.
type Results interface {
	Current(ctx context.Context, s snapshot.Snapshot, doc report.Document) (map[report.ReportResultSlot]bool, error)
}

// New returns the tool. Without results, a plan tells of each slot whose result
// would turn Stale, and not whether it has one.
func New(frame tool.Frame, reader snapshot.Reader, planner authored.Planner, drafts authored.Drafts, results Results) tool.Handler {
	p := planning{pinned.New(), results}
	return Definition.Handler(frame, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[change.Plan], error) {
		in := call.Input
		if refused := authored.Alone(in.Target.Address(), in.Commands != nil, in.RebaseFromPlanRef != ""); refused != nil {
			return tool.Refuse[change.Plan](refused), nil
		}
		return authored.Plan(ctx, call, reader, planner, in.Target.Scope, func(ctx context.Context, s snapshot.Snapshot) (change.Draft, outcome.Findings, outcome.Findings, error) {
			if in.Target.DocumentHandle != "" {
				refused, err := in.create(ctx, s, drafts, call.Principal)
				if refused != nil || err != nil {
					return change.Draft{}, nil, refused, err
				}
			}
			var earlier *authored.Earlier[Command]
			var missing outcome.Findings
			if in.RebaseFromPlanRef != "" {
				var err error
				if earlier, missing, err = authored.FindEarlier[Command](ctx, s, planner, call.Principal, Name, in.RebaseFromPlanRef, in.Target); err != nil {
					return change.Draft{}, nil, nil, err
				}
				if in.Commands == nil && earlier != nil {
					in.Commands = earlier.Commands
				}
			}
			d, notes, refused, err := p.draft(ctx, s, in, earlier, missing, call.Request.ByteShare)
			if earlier != nil {
				d.RebasedFrom = &earlier.From
			}
			return d, notes, refused, err
		})
	})
}

// create makes of a draft the very request that saves its document for the first
// time, so that the plan is the same, digest and all. Findings about the document
// stand where the plan has it, in /commands/0/document.
func (in *Input) create(ctx context.Context, s snapshot.Snapshot, drafts authored.Drafts, principal tool.Principal) (outcome.Findings, error) {
	text, found, refused, err := authored.FirstSave(ctx, s, drafts, principal, in.Target.Address())
	if refused != nil || err != nil {
		return refused, err
	}
	doc, unreadable := report.Decode(text)
	if unreadable.Refused() {
		return nil, errors.New("report_plan_change: the document of a draft cannot be read")
	}
	in.Target = target.ReportDocument{Scope: in.Target.Scope, ReportKey: found.Key, RevisionRef: string(found.Ref)}
	in.Commands = []Command{report.CreateReport{Document: doc}}
	return nil, nil
}

type planning struct {
	flows   pinned.Flows
	results Results
}

// draft compiles the request in the order of decision 4: existence, permission,
// generation, revision, the earlier plan (missing says why there is none) and what
// changed since, commands, the whole document. notes refuse nothing.
func (p planning) draft(ctx context.Context, s snapshot.Snapshot, in Input, earlier *authored.Earlier[Command], missing outcome.Findings, share int) (d change.Draft, notes, refused outcome.Findings, err error) {
	if runs, refused := batched(in.Commands); runs != nil || refused != nil {
		if refused == nil {
			d, refused, err = p.batch(ctx, s, in, *runs, missing)
		}
		return d, nil, refused, err
	}
	commands := make([]report.Command, len(in.Commands))
	for i, c := range in.Commands {
		commands[i] = c.(report.Command) // all others are: see Command
	}
	creates := false
	if len(commands) > 0 {
		_, creates = commands[0].(report.CreateReport)
	}
	saved, refused, err := authored.Base(ctx, s, in.Target.Address(), in.ExpectedGeneration, creates, policy.Edit)
	if refused != nil || err != nil {
		return d, nil, refused, err
	}
	if missing != nil {
		return d, nil, missing, nil
	}
	var base *report.Document
	if !creates {
		doc, unreadable := report.Decode(saved.Document)
		if unreadable.Refused() {
			return d, nil, nil, errors.New("report_plan_change: a saved document cannot be read")
		}
		base = &doc
		if earlier != nil {
			if refused, err = conflicts(ctx, s, in, earlier, commands, saved, doc, share); refused != nil || err != nil {
				return d, nil, refused, err
			}
		}
	}
	proposal, found, err := report.Propose(ctx, base, commands, p.flows.In(s))
	if found.Refused() || err != nil {
		return d, nil, found, err
	}
	if creates {
		if refused = proposal.Creates(in.Target.Saved()); refused != nil {
			return d, nil, refused, nil
		}
	}
	if p.results != nil && len(proposal.Stale) > 0 {
		current, err := p.results.Current(ctx, s, *base)
		if err != nil {
			return d, nil, nil, err
		}
		for i := range proposal.Stale {
			slot := &proposal.Stale[i]
			is := current[report.ReportResultSlot{BlockKey: slot.BlockKey, SlotKey: slot.SlotKey}]
			slot.Current = &is
		}
	}
	d, err = compile(s, in, proposal)
	concerned := map[string]bool{}
	for _, m := range proposal.Mappings {
		concerned[m.Path] = true
	}
	return d, authored.Conversions(found, concerned), nil, err
}

// conflicts refuses a rebase where it meets what changed since the earlier plan.
func conflicts(ctx context.Context, s snapshot.Snapshot, in Input, earlier *authored.Earlier[Command], commands []report.Command, saved snapshot.Saved, head report.Document, share int) (outcome.Findings, error) {
	text, refused, err := earlier.BaseOf(ctx, s, saved, "report", in.Target.ReportKey)
	if text == nil || refused != nil || err != nil {
		return refused, err
	}
	base, unreadable := report.Decode(text)
	if unreadable.Refused() {
		return nil, errors.New("report_plan_change: a saved document cannot be read")
	}
	found, err := report.Conflicts(base, head, commands)
	if err != nil {
		return nil, err
	}
	return authored.Refusal(found, in.Budget.Limits(), share)
}

func compile(s snapshot.Snapshot, in Input, p report.Proposal) (change.Draft, error) {
	revision := authored.Revision{
		At: in.Target.Address(), ExpectedGeneration: in.ExpectedGeneration, Creates: p.Base == nil,
		Document: p.Analysis.Canonical, RevisionRef: p.Analysis.RevisionRef, Label: p.Document.Label, Uses: report.Uses(p.Document),
		Text: search.Normalize(report.SearchText(p.Document)...), Paths: p.Touched,
	}
	c, base := revision.Change()
	impact := Impact{Checks: p.Mappings, Uses: make([]Use, len(p.Affected)), Stale: p.Stale, Preserved: revision.Preserved(),
		Dependencies: report.Describe(p.Document, p.Analysis).Dependencies, Permissions: []policy.Right{policy.Read, policy.Edit}}
	for i, place := range p.Affected {
		impact.Uses[i] = Use{history.Key("report", in.Target.ReportKey), place}
	}
	for _, connection := range p.Document.Connections {
		impact.Cost += p.Analysis.Boundaries[connection.FlowTarget].Cost
	}
	d := change.Draft{
		Tool: Name, Project: s.Project, ExpectedGeneration: in.ExpectedGeneration, Base: base, Commands: p.Commands, Unlabelled: p.Unlabelled,
		Policy: s.Policy, Subject: policy.OnReport, Kinds: p.Kinds, Cost: impact.Cost, TouchedSemanticPaths: p.Touched, Changes: []change.Change{c},
	}
	return d, authored.Show(&d, in.Target, p.Diff, impact)
}
