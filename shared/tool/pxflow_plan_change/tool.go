// Package pxflowplanchange is the tool pxflow_plan_change: it compiles commands
// on one Flow into a plan that can be reviewed, and changes nothing.
package pxflowplanchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_plan_change"

// Input of the tool.
type Input struct {
	tool.Common
	_ struct{} `desc:"At least one of commands, rebaseFromPlanRef; of a draft neither."`

	Target             target.FlowDocument `json:"target" desc:"Copied from an answer. For CreateFlow: the new flowKey, and its document's digest as revisionRef; PX_PLAN_MISMATCH tells the right one."`
	ExpectedGeneration int64               `json:"expectedGeneration" schema:"minimum=0" desc:"As pxflow_describe gave it; 0 for CreateFlow or a draft."`
	Commands           []flow.Command      `json:"commands,omitzero" schema:"minItems=1,maxItems=1000" desc:"In order, all or none. New keys are like girder_1; a typed value is {\"value\": 3, \"unit\": \"m\"}."`
	RebaseFromPlanRef  string              `json:"rebaseFromPlanRef,omitzero" schema:"minLength=1,maxLength=64" desc:"Your older plan; its commands, unless others are sent."`
}

// Definition of the tool.
var Definition = tool.Define[Input, change.Plan](tool.Spec{
	Name: Name,
	Description: "Plan a change of one Flow: typed commands on Nodes, public ports and bindings, or CreateFlow for a first save. Changes nothing. Read the Flow with " +
		"pxflow_describe first. Answers planRef and planDigest for pxflow_apply_change, the diff, the impact and whether an approval is needed. " +
		"On PX_GENERATION_STALE plan again on params.currentRevisionRef with rebaseFromPlanRef.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/commands", Counts: budget.AsItems},
		// A document of CreateFlow may be larger than an answer.
		{Path: "/commands/*/document/inputs"}, {Path: "/commands/*/document/nodes"}, {Path: "/commands/*/document/results"}, {Path: "/commands/*/source"},
		{Path: "/touchedSemanticPaths", Counts: budget.AsItems}, {Path: "/diff", Counts: budget.AsItems}, {Path: "/diff/*/unified"},
		{Path: "/impact/checks", Counts: budget.AsItems}, {Path: "/impact/boundary", Counts: budget.AsItems}, {Path: "/impact/uses", Counts: budget.AsItems},
		{Path: "/impact/reports/mappings", Counts: budget.AsItems}, {Path: "/impact/preserved", Counts: budget.AsItems},
	},
})

// An Impact is what a plan means beyond the document (F3).
type Impact struct {
	// Checks are the type, unit, shape and nullability checks of the bindings
	// that the plan writes or whose outcome it changes.
	Checks []flow.Check `json:"checks"`
	// Boundary is what changes for whoever uses the Flow.
	Boundary []flow.PortChange `json:"boundary"`
	// Uses are what refers to the Flow and how the plan affects it.
	Uses []Use `json:"uses"`
	// Reports are the mappings of Reports that meet a changed public port.
	Reports ReportImpact `json:"reports"`
	// Preserved are references that stay as they are, and why.
	Preserved []authored.Preserved `json:"preserved"`
	// Dependencies are what the Flow's Nodes run after the change.
	Dependencies []flow.Dependency `json:"dependencies"`
	// Source says whether the Flow has a Python source that the plan edits.
	Source SourceImpact `json:"source"`
	// Cost is what one Run of the new revision costs, in Node evaluations plus
	// sandbox seconds.
	Cost int64 `json:"cost"`
}

// A Use is something that refers to the Flow.
type Use struct {
	Target string `json:"target"` // "report/girder_review"
	Effect string `json:"effect"` // "pinned": it stays on the revision that it names
}

// MaxExamined is how many Reports a plan that changes public ports looks into, in
// order of their keys. Of those behind it the plan names the Report alone, in Uses.
const MaxExamined = 500

// A ReportImpact is what changed public ports mean for Reports (F3). Where no port
// changes, no Report is read.
type ReportImpact struct {
	Using    int `json:"using"`    // Reports that are connected to the Flow
	Examined int `json:"examined"` // of them; fewer than Using where no port changes, or past MaxExamined
	// Mappings are by Report, then by path.
	Mappings []ReportMapping `json:"mappings"`
}

// A ReportMapping is one affected mapping of one Report at its head.
type ReportMapping struct {
	Target            string      `json:"target"` // "report/girder_review"
	ReportRevisionRef history.Ref `json:"reportRevisionRef"`
	report.AffectedMapping
}

// SourceImpact tells of the Python source. A native Flow has none, and nothing
// needs to agree with it. The difference of the source of an SDK-linked Flow stands
// in the plan's diff, at /authoring/sourceDigest.
type SourceImpact struct {
	Linked bool `json:"linked"`
	// Safe is that the edit changes only statements of what the plan changes, and
	// that source and document were read to say the same. No plan is made of
	// another edit.
	Safe         bool   `json:"safe"`
	SourceDigest string `json:"sourceDigest,omitzero"` // of the new source
}

// New returns the tool. python is asked for SDK-linked Flows alone.
func New(frame tool.Frame, reader snapshot.Reader, planner authored.Planner, drafts authored.Drafts, python source.Reader, catalog planned.Catalog) tool.Handler {
	functions := saved.New().Telling(catalog)
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
			var earlier *authored.Earlier[flow.Command]
			var missing outcome.Findings
			if in.RebaseFromPlanRef != "" {
				var err error
				if earlier, missing, err = authored.FindEarlier[flow.Command](ctx, s, planner, call.Principal, Name, in.RebaseFromPlanRef, in.Target); err != nil {
					return change.Draft{}, nil, nil, err
				}
				if in.Commands == nil && earlier != nil {
					in.Commands = earlier.Commands
				}
			}
			d, notes, refused, err := draft(ctx, s, functions.In(s), python, in, earlier, missing, call.Request.ByteShare)
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
	doc, unreadable := flow.Decode(text)
	if unreadable.Refused() {
		return nil, errors.New("pxflow_plan_change: the document of a draft cannot be read")
	}
	create := flow.CreateFlow{Document: doc}
	if found.Source != "" {
		text, err := s.Object(ctx, found.Source)
		if err != nil {
			return nil, err
		}
		create.Source = string(text)
	}
	in.Target = target.FlowDocument{Scope: in.Target.Scope, FlowKey: found.Key, RevisionRef: string(found.Ref)}
	in.Commands = []flow.Command{create}
	return nil, nil
}

// draft compiles the request: existence, permission, generation, revision,
// the earlier plan (missing says why there is none) and what changed since,
// commands, the whole document, in this order; the findings of the first stage
// that fails are reported together (decision 4). notes refuse nothing.
func draft(ctx context.Context, s snapshot.Snapshot, functions flow.Contracts, python source.Reader, in Input, earlier *authored.Earlier[flow.Command], missing outcome.Findings, share int) (d change.Draft, notes, refused outcome.Findings, err error) {
	creates := false
	if len(in.Commands) > 0 {
		_, creates = in.Commands[0].(flow.CreateFlow)
	}
	head, refused, err := authored.Base(ctx, s, in.Target.Address(), in.ExpectedGeneration, creates, policy.Edit)
	if refused != nil || err != nil {
		return d, nil, refused, err
	}
	if missing != nil {
		return d, nil, missing, nil
	}
	var base *flow.Document
	var text string
	if !creates {
		doc, unreadable := flow.Decode(head.Document)
		if unreadable.Refused() {
			return d, nil, nil, errors.New("pxflow_plan_change: a saved document cannot be read")
		}
		base = &doc
		if text, err = sourceOf(ctx, s, doc); err != nil {
			return d, nil, nil, err
		}
		if earlier != nil {
			if refused, err = conflicts(ctx, s, in, earlier, head, doc, share); refused != nil || err != nil {
				return d, nil, refused, err
			}
		}
	}
	proposal, found, err := source.Propose(ctx, python, base, text, in.Commands, functions)
	if found.Refused() || err != nil {
		return d, nil, found, err
	}
	if creates {
		if refused = proposal.Creates(in.Target.Saved()); refused != nil {
			return d, nil, refused, nil
		}
	}
	d, err = compile(ctx, s, in, proposal)
	concerned := map[string]bool{}
	for _, c := range proposal.Checks {
		concerned[c.Path] = true
	}
	return d, authored.Conversions(found, concerned), nil, err
}

// conflicts refuses a rebase where it meets what changed since the earlier plan.
func conflicts(ctx context.Context, s snapshot.Snapshot, in Input, earlier *authored.Earlier[flow.Command], saved snapshot.Saved, head flow.Document, share int) (outcome.Findings, error) {
	text, refused, err := earlier.BaseOf(ctx, s, saved, "flow", in.Target.FlowKey)
	if text == nil || refused != nil || err != nil {
		return refused, err
	}
	base, unreadable := flow.Decode(text)
	if unreadable.Refused() {
		return nil, errors.New("pxflow_plan_change: a saved document cannot be read")
	}
	found, err := flow.Conflicts(base, head, in.Commands)
	if err != nil {
		return nil, err
	}
	return authored.Refusal(found, in.Budget.Limits(), share)
}

// sourceOf reads the source of a saved document; "" of a native one.
func sourceOf(ctx context.Context, s snapshot.Snapshot, doc flow.Document) (string, error) {
	if doc.Authoring.Kind != flow.SDK {
		return "", nil
	}
	text, err := s.Object(ctx, history.Ref(doc.Authoring.SourceDigest))
	return string(text), err
}

func compile(ctx context.Context, s snapshot.Snapshot, in Input, p source.Proposal) (change.Draft, error) {
	revision := authored.Revision{
		At: in.Target.Address(), ExpectedGeneration: in.ExpectedGeneration, Creates: p.Base == nil,
		Document: p.Analysis.Canonical, RevisionRef: p.Analysis.RevisionRef, Label: p.Document.Label, Uses: flow.Uses(p.Document),
		Text: search.Normalize(flow.SearchText(p.Document)...), Paths: p.Touched,
	}
	c, base := revision.Change()
	linked := SourceImpact{Safe: true}
	if p.Source != nil {
		c.Objects = [][]byte{[]byte(p.Source.Text)}
		base.SourceDigest = p.Source.Before
		linked.Linked, linked.SourceDigest = true, p.Source.Digest
	}
	d := change.Draft{
		Tool: Name, Project: s.Project, ExpectedGeneration: in.ExpectedGeneration, Base: base, Commands: p.Commands, Unlabelled: p.Unlabelled,
		Policy: s.Policy, Subject: policy.OnFlow, Kinds: p.Kinds, Cost: p.Cost, TouchedSemanticPaths: p.Touched, Changes: []change.Change{c},
	}
	impact := Impact{Checks: p.Checks, Boundary: p.Boundary, Uses: []Use{}, Reports: ReportImpact{Mappings: []ReportMapping{}}, Preserved: revision.Preserved(),
		Dependencies: flow.Describe(p.Document, p.Analysis).Dependencies, Source: linked, Cost: p.Cost}
	if p.Base != nil {
		for user, err := range s.Catalog.Users(ctx, s.Space, s.Root, c.CatalogKey()) {
			if err != nil {
				return d, err
			}
			impact.Uses = append(impact.Uses, Use{Target: user, Effect: "pinned"})
		}
		var err error
		if impact.Reports, err = reportImpact(ctx, s, in.Target.Saved(), impact.Uses, p.Boundary); err != nil {
			return d, err
		}
	}
	return d, authored.Show(&d, in.Target, p.Differences(), impact)
}

// reportImpact looks into the Reports among the users for mappings of changed ports.
func reportImpact(ctx context.Context, s snapshot.Snapshot, at target.Flow, users []Use, boundary []flow.PortChange) (ReportImpact, error) {
	out := ReportImpact{Mappings: []ReportMapping{}}
	var keys []string
	for _, u := range users {
		if strings.HasPrefix(u.Target, history.Key("report", "")) {
			keys = append(keys, u.Target)
		}
	}
	out.Using = len(keys)
	if len(boundary) == 0 {
		return out, nil
	}
	changes := make([]report.PortChange, len(boundary))
	for i, b := range boundary {
		changes[i] = report.PortChange{Direction: report.Input, PortKey: b.PortKey, Before: b.Before, After: b.After}
		if b.Result {
			changes[i].Direction = report.Result
		}
	}
	keys = keys[:min(len(keys), MaxExamined)]
	out.Examined = len(keys)
	const together = 50 // documents in memory at once
	for part := range slices.Chunk(keys, together) {
		entries, err := s.Catalog.Entries(ctx, s.Space, s.Root, part...)
		if err != nil {
			return out, err
		}
		heads := make([]*snapshot.Saved, len(part))
		for i, e := range entries {
			if e == nil {
				return out, fmt.Errorf("pxflow_plan_change: %s uses a Flow and is not in the catalog", part[i])
			}
			heads[i] = &snapshot.Saved{Ref: e.RevisionRef}
		}
		if err := s.Read(ctx, heads...); err != nil {
			return out, err
		}
		for i, h := range heads {
			doc, unreadable := report.Decode(h.Document)
			if unreadable.Refused() {
				return out, fmt.Errorf("pxflow_plan_change: %s cannot be read", part[i])
			}
			for _, m := range report.Affected(doc, at, changes) {
				out.Mappings = append(out.Mappings, ReportMapping{part[i], h.Ref, m})
			}
		}
	}
	return out, nil
}
