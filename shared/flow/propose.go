package flow

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// A Proposal is what commands would make of a Flow, with everything about it
// that a plan shows and a commit stores, and that follows from the documents
// alone. Usage by Reports, policy and history are the caller's.
type Proposal struct {
	Base     *Document // nil for a new Flow
	Document Document
	Analysis Analysis // of Document

	// Commands are normalized and canonical; Unlabelled are the same without
	// labels, for planDigest (P3); Kinds are their tags, for policy, once each.
	Commands   []canon.Raw
	Unlabelled []canon.Raw
	Kinds      []string

	Touched  []string     // semantic paths
	Diff     []Change     // from Base
	Checks   []Check      // of the bindings concerned
	Boundary []PortChange // of the public ports
	Cost     int64        // of one Run, see Cost
}

// documentPath is where the document of a first save stands in the request.
const documentPath = "/commands/0/document"

// Settle returns the sourceDigest of a document that commands made of an SDK-linked
// Flow.
type Settle func(next Document) (string, error)

// Propose applies commands to base (nil for a new Flow) and validates what comes
// out. Findings of the first stage that fails are all reported: those of
// commands, or those of the whole document. The latter point into the document;
// of a first save, whose document stands in the request, into the request.
// The Proposal is only of use when no finding refuses.
//
// settle makes the edited document of an SDK-linked Flow name the source that says
// it; it is not asked of others and may be nil where there are none.
//
// The error is of the machinery alone, or what settle returned.
func Propose(ctx context.Context, base *Document, commands []Command, contracts Contracts, settle Settle) (Proposal, outcome.Findings, error) {
	p := Proposal{Base: base}
	var findings outcome.Findings
	p.Document, p.Touched, findings = Apply(base, commands)
	if findings.Refused() {
		return p, findings, nil
	}
	var err error
	if base != nil && base.Authoring.Kind == SDK {
		if settle == nil {
			return p, nil, errors.New("flow: an SDK-linked Flow is changed without its source")
		}
		if p.Document.Authoring.SourceDigest, err = settle(p.Document); err != nil {
			return p, nil, err
		}
	}
	if p.Analysis, findings, err = Validate(ctx, p.Document, contracts); err != nil {
		return p, nil, err
	}
	if base == nil {
		for i := range findings {
			findings[i].Path = documentPath + findings[i].Path
		}
	}
	if findings.Refused() {
		return p, findings, nil
	}
	before := Analysis{}
	if base != nil {
		if before, _, err = Validate(ctx, *base, contracts); err != nil {
			return p, nil, err
		}
	}
	if p.Commands, err = canon.EncodeEach(Normalized(commands)); err != nil {
		return p, nil, err
	}
	if p.Unlabelled, err = canon.EncodeEach(Unlabelled(commands)); err != nil {
		return p, nil, err
	}
	for _, c := range commands {
		p.Kinds = append(p.Kinds, c.Variant())
	}
	slices.Sort(p.Kinds)
	p.Kinds = slices.Compact(p.Kinds)
	if p.Diff, err = Diff(base, p.Document); err != nil {
		return p, nil, err
	}
	p.Checks = ChangedChecks(before, p.Analysis, p.Touched)
	p.Boundary = BoundaryDiff(base, p.Document)
	p.Cost = Cost(p.Document)
	return p, findings, nil
}

// Creates holds the target of a first save against its document: flowKey and
// revisionRef are the document's own, or it is PX_PLAN_MISMATCH (F2).
func (p Proposal) Creates(t target.Flow) outcome.Findings {
	var findings outcome.Findings
	if t.FlowKey != p.Document.FlowKey {
		findings.Add(outcome.PlanMismatch, "/target/flowKey", outcome.Params{"flowKey": p.Document.FlowKey})
	}
	if t.RevisionRef != p.Analysis.RevisionRef {
		findings.Add(outcome.PlanMismatch, "/target/revisionRef", outcome.Params{"revisionRef": p.Analysis.RevisionRef})
	}
	return findings
}

// Cost returns what one Run of the Flow counts in a policy's cost, in Node
// evaluations plus sandbox seconds. A Function counts all the seconds that it may
// take: what it does take is known only afterwards.
func Cost(doc Document) int64 {
	var cost int64
	for _, n := range doc.Nodes {
		each := outline.FunctionCost
		if t, ok := n.Target.(ComponentTarget); ok {
			each = 1
			if c, ok := component.Lookup(t.ComponentKey, t.Version); ok {
				each = c.Cost()
			}
		}
		cost += int64(each)
	}
	return cost
}

// Uses returns the catalog keys of what the document refers to and the Project
// owns or has installed: its Functions (decision 6) and the packages of others, once
// each, in order. Built-in Components are the product's and have no place in a
// Project's catalog.
func Uses(doc Document) []string {
	keys := map[string]bool{}
	for _, n := range doc.Nodes {
		switch t, ok := n.Target.(FunctionTarget); {
		case ok && t.Owned():
			keys["package/"+t.Package.PackageKey] = true // see dependency.UseKey
		case ok:
			keys["function/"+t.FunctionKey] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
