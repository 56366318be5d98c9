package planning

import (
	"context"
	"fmt"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/snapshot"
)

// conflicts finds where an earlier plan meets what changed since it was made (P8). A
// source is one path: of two versions made of one version, the second meets the first,
// whatever lines they change. Of Flows and Reports, the Nodes and connections that the
// plan moves meet what changed in the same places, and nothing else. What came to use
// the Function since is moved with the rest.
//
// A first save has no base that could have changed: a plan of one is made again.
func (m *making) conflicts(ctx context.Context) (refused outcome.Findings, err error) {
	earlier := m.q.Earlier
	if earlier.From.Base.RevisionRef == "" || m.before == nil {
		refused.Add(outcome.PlanMismatch, "/rebaseFromPlanRef", outcome.Params{"rule": "first_save"})
		return refused, nil
	}
	keys := make([]string, len(earlier.Changes))
	for i, c := range earlier.Changes {
		keys[i] = c.CatalogKey()
	}
	entries, err := m.s.Catalog.Entries(ctx, m.s.Space, m.s.Root, keys...)
	if err != nil {
		return nil, err
	}
	// Another Function that the same Flows use may have moved them all.
	var changed []int
	for i, c := range earlier.Changes {
		if e := entries[i]; c.Base != nil && e != nil && e.RevisionRef != c.Base.RevisionRef {
			changed = append(changed, i)
		}
	}
	const sides = 3 // of each: the base, what it is now, and what the plan made of it
	for part := range slices.Chunk(changed, together/sides) {
		var read []*snapshot.Saved
		for _, i := range part {
			c := earlier.Changes[i]
			read = append(read, &snapshot.Saved{Ref: c.Base.RevisionRef}, &snapshot.Saved{Ref: entries[i].RevisionRef}, &snapshot.Saved{Ref: c.Entry.RevisionRef})
		}
		if err := m.s.Read(ctx, read...); err != nil {
			return nil, err
		}
		for k, i := range part {
			c := earlier.Changes[i]
			found, err := conflict(c, read[sides*k:sides*(k+1)])
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				if c.Kind != function.Kind {
					f.Path = keys[i] + ":" + f.Path
				}
				m.out.Conflicts = append(m.out.Conflicts, f)
			}
		}
	}
	return nil, nil
}

// conflict compares one target of the earlier plan with what it is now. read are its base,
// what it is now, and what the plan made of it.
func conflict(c change.Change, read []*snapshot.Saved) ([]semantic.Conflict, error) {
	if c.Kind == function.Kind {
		// Sources stay out of diagnostics (E3): their versions and digests tell them apart.
		var sides [3]canon.Raw
		for i, r := range read {
			doc, unreadable := function.Decode(r.Document)
			if unreadable.Refused() {
				return nil, fmt.Errorf("planning: a version of function %s cannot be read", c.Key)
			}
			var err error
			if sides[i], err = canon.Encode(function.Detail{Version: doc.Version, SourceDigest: doc.SourceDigest}); err != nil {
				return nil, err
			}
		}
		return []semantic.Conflict{{Path: function.SourcePath, Base: sides[0], Current: sides[1], Proposed: sides[2]}}, nil
	}
	changed, err := differences(c.Kind, read[0].Document, read[1].Document)
	if err != nil {
		return nil, fmt.Errorf("planning: %s: %w", c.CatalogKey(), err)
	}
	return semantic.Conflicts(c.Paths, changed, canon.Raw(read[0].Document), canon.Raw(read[1].Document), canon.Raw(read[2].Document))
}

// differences compares two saved documents of a kind.
func differences(kind string, base, head []byte) ([]semantic.Change, error) {
	unreadable := fmt.Errorf("a saved document cannot be read")
	switch kind {
	case "flow":
		a, foundA := flow.Decode(base)
		b, foundB := flow.Decode(head)
		if foundA.Refused() || foundB.Refused() {
			return nil, unreadable
		}
		return flow.Diff(&a, b)
	case "report":
		a, foundA := report.Decode(base)
		b, foundB := report.Decode(head)
		if foundA.Refused() || foundB.Refused() {
			return nil, unreadable
		}
		return report.Diff(&a, b)
	}
	return nil, fmt.Errorf("a plan of Functions that moves a %s", kind)
}
