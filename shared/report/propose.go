package report

import (
	"context"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// A Proposal is what commands would make of a Report, with everything about it
// that a plan shows and a commit stores, and that follows from the document and
// the Flows it names. Policy, generations and existing results are the caller's.
type Proposal struct {
	Base     *Document // nil for a new Report
	Document Document
	Analysis Analysis // of Document

	// Commands are normalized and canonical; Unlabelled are the same without
	// labels, for planDigest (P3); Kinds are their tags, for policy, once each.
	Commands   []canon.Raw
	Unlabelled []canon.Raw
	Kinds      []string

	Touched  []string    // semantic paths
	Diff     []Change    // from Base
	Mappings []Mapped    // that the plan writes, or that compare differently after it (R2)
	Affected []Place     // fields and slots whose mappings change
	Stale    []StaleSlot // that lose their Current result
}

// documentPath is where the document of a first save stands in the request.
const documentPath = "/commands/0/document"

// Propose applies commands to base (nil for a new Report) and validates what
// comes out. Findings of the first stage that fails are all reported: those of
// commands, or those of the whole document. The latter point into the document;
// of a first save, whose document stands in the request, into the request.
// The Proposal is only of use when no finding refuses.
//
// The error is of the machinery alone.
func Propose(ctx context.Context, base *Document, commands []Command, flows Flows) (Proposal, outcome.Findings, error) {
	p := Proposal{Base: base}
	var findings outcome.Findings
	p.Document, p.Touched, findings = Apply(base, commands)
	if findings.Refused() {
		return p, findings, nil
	}
	flows = &remembered{flows: flows, found: map[target.Flow]Boundary{}, asked: map[target.Flow]bool{}}
	var err error
	if p.Analysis, findings, err = Validate(ctx, p.Document, flows); err != nil {
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
		if before, _, err = Validate(ctx, *base, flows); err != nil {
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
	p.Mappings = changedMappings(before, p.Analysis, p.Touched)
	p.Affected = affected(base, p.Document)
	if p.Stale, err = staleSlots(base, p.Document); err != nil {
		return p, nil, err
	}
	return p, findings, nil
}

// remembered asks for each Flow revision once: those of the base and of what comes
// out are mostly the same.
type remembered struct {
	flows Flows
	found map[target.Flow]Boundary
	asked map[target.Flow]bool
}

func (r *remembered) Boundaries(ctx context.Context, targets []target.Flow) (map[target.Flow]Boundary, error) {
	unknown := slices.DeleteFunc(slices.Clone(targets), func(t target.Flow) bool { return r.asked[t] })
	if len(unknown) > 0 {
		found, err := r.flows.Boundaries(ctx, unknown)
		if err != nil {
			return nil, err
		}
		maps.Copy(r.found, found)
		for _, t := range unknown {
			r.asked[t] = true
		}
	}
	return Known(r.found).Boundaries(ctx, targets)
}

// Creates holds the target of a first save against its document: reportKey and
// revisionRef are the document's own, or it is PX_PLAN_MISMATCH.
func (p Proposal) Creates(t target.Report) outcome.Findings {
	var findings outcome.Findings
	if t.ReportKey != p.Document.ReportKey {
		findings.Add(outcome.PlanMismatch, "/target/reportKey", outcome.Params{"reportKey": p.Document.ReportKey})
	}
	if t.RevisionRef != p.Analysis.RevisionRef {
		findings.Add(outcome.PlanMismatch, "/target/revisionRef", outcome.Params{"revisionRef": p.Analysis.RevisionRef})
	}
	return findings
}
