// Package pxflowplanchange is the tool pxflow_plan_change: it compiles commands
// on one Flow into a plan that can be reviewed, and changes nothing.
package pxflowplanchange

import (
	"context"
	"errors"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
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
	Target             target.Flow    `json:"target" desc:"Copied from an answer. For CreateFlow: the new flowKey, and its document's digest as revisionRef; PX_PLAN_MISMATCH tells the right one."`
	ExpectedGeneration int64          `json:"expectedGeneration" schema:"minimum=0" desc:"As pxflow_describe gave it; 0 for CreateFlow."`
	Commands           []flow.Command `json:"commands" schema:"minItems=1,maxItems=1000" desc:"In order, all or none. New keys are like girder_1; a typed value is {\"value\": 3, \"unit\": \"m\"}."`
}

// Definition of the tool.
var Definition = tool.Define[Input, change.Plan](tool.Spec{
	Name: Name,
	Description: "Plan a change of one Flow: typed commands on Nodes, public ports and bindings, or CreateFlow for a first save. Changes nothing. Read the Flow with " +
		"pxflow_describe first. Answers planRef and planDigest for pxflow_apply_change, the diff, the impact and whether an approval is needed. " +
		"On PX_GENERATION_STALE describe params.currentRevisionRef and plan again.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		{Path: "/commands", Counts: budget.AsItems},
		// A document of CreateFlow may be larger than an answer.
		{Path: "/commands/*/document/inputs"}, {Path: "/commands/*/document/nodes"}, {Path: "/commands/*/document/results"},
		{Path: "/touchedSemanticPaths", Counts: budget.AsItems}, {Path: "/diff", Counts: budget.AsItems},
		{Path: "/impact/checks", Counts: budget.AsItems}, {Path: "/impact/boundary", Counts: budget.AsItems}, {Path: "/impact/uses", Counts: budget.AsItems},
		{Path: "/impact/preserved", Counts: budget.AsItems},
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
	// Preserved are references that stay as they are, and why.
	Preserved []Preserved `json:"preserved"`
	// Dependencies are what the Flow's Nodes run after the change.
	Dependencies []flow.Dependency `json:"dependencies"`
	// Source says whether the Flow has a Python source that the plan edits.
	Source SourceImpact `json:"source"`
	// Cost is what one Run of the new revision costs, in Node evaluations.
	Cost int64 `json:"cost"`
}

// A Use is something that refers to the Flow.
type Use struct {
	Target string `json:"target"` // "report/girder_review"
	Effect string `json:"effect"` // "pinned": it stays on the revision that it names
}

// A Preserved is a reference that the plan leaves alone.
type Preserved struct {
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// SourceImpact tells of the Python source. A native Flow has none, and nothing
// needs to agree with it.
type SourceImpact struct {
	Linked bool `json:"linked"`
	Safe   bool `json:"safe"`
}

// A Planner stores drafts as plans and finds them again.
type Planner interface {
	Plan(ctx context.Context, author change.Author, d change.Draft) (change.Plan, outcome.Findings, error)
	Recall(ctx context.Context, space history.Space, planRef string) (change.Plan, error)
}

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, planner Planner) tool.Handler {
	p := planning{reader, planner}
	return Definition.Handler(frame, p.handle)
}

type planning struct {
	reader  snapshot.Reader
	planner Planner
}

func (t planning) handle(ctx context.Context, call tool.Call[Input]) (tool.Answer[change.Plan], error) {
	in := call.Input
	s, findings, err := t.reader.Open(ctx, call.Principal.String(), in.Target.Scope, "", "/target/scope")
	if findings != nil || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	if call.Pin != "" {
		plan, err := t.planner.Recall(ctx, s.Space, call.Pin)
		return tool.Answer[change.Plan]{Data: plan, Pin: call.Pin}, err
	}
	draft, notes, findings, err := t.draft(ctx, s, in)
	if findings.Refused() || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	author := change.Author{Principal: call.Principal.String(), RequestDigest: call.Digest}
	if a := call.Request.Assistant; a != nil {
		author.Assistant = &history.Assistant{Provider: a.Provider, Model: a.Model}
	}
	plan, findings, err := t.planner.Plan(ctx, author, draft)
	if findings != nil || err != nil {
		return tool.Refuse[change.Plan](findings), err
	}
	return tool.Answer[change.Plan]{Data: plan, Diagnostics: notes, Pin: plan.PlanRef}, nil
}

// draft compiles the request: existence, permission, generation, revision,
// commands, the whole document, in this order; the findings of the first stage
// that fails are reported together (decision 4). notes refuse nothing.
func (t planning) draft(ctx context.Context, s snapshot.Snapshot, in Input) (d change.Draft, notes, refused outcome.Findings, err error) {
	key := history.Key("flow", in.Target.FlowKey)
	_, creates := in.Commands[0].(flow.CreateFlow)
	var saved snapshot.Saved
	var base *flow.Document
	if creates {
		entry, err := s.Catalog.Entry(ctx, s.Space, s.Root, key)
		if err != nil {
			return d, nil, nil, err
		}
		if entry != nil {
			refused.Add(outcome.FlowHeadAlreadyExists, "/target/flowKey", outcome.Params{"flowKey": in.Target.FlowKey})
			return d, nil, refused, nil
		}
	} else {
		saved, refused, err = s.Revision(ctx, snapshot.Address{Kind: "flow", Key: in.Target.FlowKey, Ref: history.Ref(in.Target.RevisionRef), Path: "/target"})
		if refused != nil || err != nil {
			return d, nil, refused, err
		}
	}
	if refused = s.Needs(policy.Edit, "/target/scope"); refused != nil {
		return d, nil, refused, nil
	}
	if refused = stale(in, creates, saved); refused != nil {
		return d, nil, refused, nil
	}
	if !creates {
		doc, unreadable := flow.Decode(saved.Document)
		if unreadable.Refused() {
			return d, nil, nil, errors.New("pxflow_plan_change: a saved document cannot be read")
		}
		base = &doc
	}
	proposal, found, err := flow.Propose(ctx, base, in.Commands, flow.NoFunctions{})
	if found.Refused() || err != nil {
		return d, nil, found, err
	}
	if creates {
		if refused = proposal.Creates(in.Target); refused != nil {
			return d, nil, refused, nil
		}
	}
	d, err = t.compile(ctx, s, in, proposal)
	return d, conversions(found, proposal.Checks), nil, err
}

// stale compares the request's position with the head's.
func stale(in Input, creates bool, saved snapshot.Saved) outcome.Findings {
	var findings outcome.Findings
	params := func() outcome.Params {
		p := outcome.Params{"expected": in.ExpectedGeneration, "current": saved.Head.Generation}
		if !creates {
			p["currentRevisionRef"] = string(saved.Head.RevisionRef)
		}
		return p
	}
	if in.ExpectedGeneration != saved.Head.Generation { // 0 for a first save
		findings.Add(outcome.GenerationStale, "/expectedGeneration", params())
	}
	if !creates && !saved.Current() {
		findings.Add(outcome.GenerationStale, "/target/revisionRef", params())
	}
	return findings
}

func (t planning) compile(ctx context.Context, s snapshot.Snapshot, in Input, p flow.Proposal) (change.Draft, error) {
	key := history.Key("flow", in.Target.FlowKey)
	c := change.Change{
		Kind: "flow", Key: in.Target.FlowKey, Paths: p.Touched, Document: p.Analysis.Canonical,
		Entry: history.Entry{RevisionRef: history.Ref(p.Analysis.RevisionRef), Label: p.Document.Label, Uses: flow.Uses(p.Document)},
		Text:  search.Normalize(flow.SearchText(p.Document)...),
	}
	d := change.Draft{
		Tool: Name, Project: s.Project, ExpectedGeneration: in.ExpectedGeneration, Commands: p.Commands, Unlabelled: p.Unlabelled,
		Policy: s.Policy, Subject: policy.OnFlow, Kinds: p.Kinds, Cost: p.Cost, TouchedSemanticPaths: p.Touched,
	}
	impact := Impact{Checks: p.Checks, Boundary: p.Boundary, Uses: []Use{}, Preserved: []Preserved{},
		Dependencies: flow.Describe(p.Document, p.Analysis).Dependencies, Source: SourceImpact{Safe: true}, Cost: p.Cost}
	if p.Base != nil {
		d.Base.RevisionRef = in.Target.RevisionRef
		c.Base = &history.Revision{RevisionRef: history.Ref(in.Target.RevisionRef), Generation: in.ExpectedGeneration}
		c.Entry.Generation = in.ExpectedGeneration + 1
		for user, err := range s.Catalog.Users(ctx, s.Space, s.Root, key) {
			if err != nil {
				return d, err
			}
			impact.Uses = append(impact.Uses, Use{Target: user, Effect: "pinned"})
		}
		impact.Preserved = append(impact.Preserved, Preserved{Target: change.RevisionKey("flow", in.Target.FlowKey, history.Ref(in.Target.RevisionRef)),
			Reason: "saved revisions are never overwritten"})
	}
	d.Changes = []change.Change{c}
	var err error
	for _, part := range []struct {
		into *canon.Raw
		from any
	}{{&d.Target, in.Target}, {&d.Diff, p.Diff}, {&d.Impact, impact}} {
		if *part.into, err = canon.Encode(part.from); err != nil {
			return d, err
		}
	}
	return d, nil
}

// conversions keeps of the document's notes those about bindings that the plan
// concerns.
func conversions(notes outcome.Findings, checks []flow.Check) outcome.Findings {
	concerned := map[string]bool{}
	for _, c := range checks {
		concerned[c.Path] = true
	}
	var out outcome.Findings
	for _, d := range notes {
		if concerned[strings.TrimPrefix(d.Path, "/commands/0/document")] {
			out = append(out, d)
		}
	}
	return out
}
