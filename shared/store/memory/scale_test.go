package memory

import (
	"context"
	"fmt"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/store/storetest"
	"github.com/pxhost/pxhost/shared/target"
)

// counted counts the objects that pass.
type counted struct {
	history.Objects
	reads, writes int
}

func (c *counted) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	c.writes += len(bodies)
	return c.Objects.Put(ctx, space, bodies...)
}

func (c *counted) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	c.reads += len(refs)
	return c.Objects.Get(ctx, space, refs...)
}

// Plan and apply of one Flow among a hundred thousand entries, each in a process
// that has read nothing yet.
//
// covers: P2, P4
func TestPlanAndApplyInALargeProjectMoveAtMostTwelveObjects(t *testing.T) {
	ctx := t.Context()
	place := target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}
	space := history.Space(place.String())
	const principal, entries = "https://issuer.test|engineer", 100_000
	s := New(clock)
	projects := project.New(s, nil, clock)
	if err := projects.Create(ctx, place, nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := projects.SetGrant(ctx, place, principal, []policy.Right{policy.Read, policy.Edit}); err != nil {
		t.Fatal(err)
	}
	document := func(i, generation int64) []byte {
		text, err := canon.Encode(map[string]any{"flowKey": fmt.Sprintf("girder_%06d", i), "span": generation})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	entry := func(i, generation int64) history.Entry {
		return history.Entry{RevisionRef: history.RefOf(document(i, generation)), Generation: generation,
			Label: map[string]string{"en": fmt.Sprintf("Girder check %d", i), "ko": fmt.Sprintf("거더 검토 %d", i)}, Uses: []string{"function/resistance"}}
	}
	key := func(i int64) string { return history.Key("flow", fmt.Sprintf("girder_%06d", i)) }
	text := func(i int64) string {
		return fmt.Sprintf("girder_%06d girder check %d 거더 검토 %d span moment kn*m", i, i, i)
	}
	changes := make([]history.Change, entries)
	for i := range changes {
		e, words := entry(int64(i), 0), text(int64(i))
		changes[i] = history.Change{Key: key(int64(i)), Entry: &e, Text: &words}
	}
	root, err := history.NewCatalog(s, nil).Apply(ctx, space, "", changes)
	if err != nil {
		t.Fatal(err)
	}
	s.heads[space] = history.Head{Commit: history.RefOf([]byte("load")), Root: root, Version: 1}

	for n, i := range []int64{0, 1, 31_415, 77_777, 99_999} {
		for _, renamed := range []bool{false, true} {
			planning, applying := &counted{Objects: s}, &counted{Objects: s}
			// Plan: find the entry, compile, store.
			catalog := history.NewCatalog(planning, history.NewCache(16<<20))
			head, err := s.Head(ctx, space)
			if err != nil {
				t.Fatal(err)
			}
			old, err := catalog.Entry(ctx, space, head.Root, key(i))
			if err != nil || old == nil {
				t.Fatal(old, err)
			}
			if old.Generation == 0 {
				if err := s.Put(ctx, space, document(i, 0)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := planning.Get(ctx, space, old.RevisionRef); err != nil {
				t.Fatal(err)
			}
			next, words := entry(i, old.Generation+1), text(i)
			if renamed {
				words += " renamed"
			}
			base := history.Revision{RevisionRef: old.RevisionRef, Generation: old.Generation}
			draft := change.Draft{Tool: "pxflow_plan_change", Project: place, Target: canon.Raw(fmt.Sprintf("%q", key(i))), ExpectedGeneration: old.Generation,
				Commands: []canon.Raw{canon.Raw(`{}`)}, Unlabelled: []canon.Raw{canon.Raw(`{}`)}, Subject: policy.OnFlow, Diff: canon.Raw("[]"), Impact: canon.Raw("{}"),
				Changes: []change.Change{{Kind: "flow", Key: fmt.Sprintf("girder_%06d", i), Base: &base, Entry: next, Text: words, Document: document(i, next.Generation)}}}
			planner := change.Planner{Objects: planning, Store: s, Now: clock, NewRef: func(p string) string { return fmt.Sprintf("%s%d%v", p, n, renamed) }}
			plan, findings, err := planner.Plan(ctx, change.Author{Principal: principal}, draft)
			if err != nil || findings != nil {
				t.Fatal(findings, err)
			}
			applier := change.Applier{Objects: applying, Store: s, Policy: s, Now: clock, Catalog: history.NewCatalog(applying, history.NewCache(16<<20))}
			if _, findings, err := applier.Apply(ctx, change.Application{Author: change.Author{Principal: principal}, Tool: draft.Tool, Project: place, Target: draft.Target,
				Address: key(i), ExpectedGeneration: old.Generation, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef}); err != nil || findings != nil {
				t.Fatal(findings, err)
			}
			t.Logf("entry %d, renamed %v: plan reads %d and writes %d, apply reads %d and writes %d", i, renamed, planning.reads, planning.writes, applying.reads, applying.writes)
			if planning.writes+applying.writes > 12 || planning.reads > 12 || applying.reads > 12 {
				t.Errorf("entry %d, renamed %v: more than 12", i, renamed)
			}
		}
	}
}

// What planner and applier write, a verifier without the store can prove.
//
// covers: P11
func TestTheHistoryOfAppliedPlansVerifiesOffline(t *testing.T) {
	ctx := t.Context()
	place := target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}
	space := history.Space(place.String())
	const principal = "https://issuer.test|engineer"
	s := New(clock)
	projects := project.New(s, nil, clock)
	if err := projects.Create(ctx, place, target.Label{"en": "Bridges"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := projects.SetGrant(ctx, place, principal, []policy.Right{policy.Read, policy.Edit}); err != nil {
		t.Fatal(err)
	}
	n := 0
	planner := change.Planner{Objects: s, Store: s, Now: clock, NewRef: func(p string) string { n++; return fmt.Sprint(p, n) }}
	applier := change.Applier{Objects: s, Store: s, Policy: s, Now: clock, Catalog: history.NewCatalog(s, nil)}
	var base *history.Revision
	for _, text := range []string{"A", "B", "A", "C"} { // also back to what it was
		document := []byte(fmt.Sprintf("%q", text))
		next := history.Entry{RevisionRef: history.RefOf(document), Label: map[string]string{"en": text}, Uses: []string{"function/" + text}}
		draft := change.Draft{Tool: "pxflow_plan_change", Project: place, Target: canon.Raw(`"t"`), Subject: policy.OnFlow, Diff: canon.Raw("[]"), Impact: canon.Raw("{}"),
			Commands: []canon.Raw{canon.Raw(`{}`)}, Unlabelled: []canon.Raw{canon.Raw(`{}`)}}
		if base != nil {
			next.Generation, draft.ExpectedGeneration = base.Generation+1, base.Generation
		}
		draft.Changes = []change.Change{{Kind: "flow", Key: "girder", Base: base, Entry: next, Text: text, Document: document}}
		plan, findings, err := planner.Plan(ctx, change.Author{Principal: principal}, draft)
		if err != nil || findings != nil {
			t.Fatal(findings, err)
		}
		if _, findings, err := applier.Apply(ctx, change.Application{Author: change.Author{Principal: principal}, Tool: draft.Tool, Project: place, Target: draft.Target,
			Address: "flow/girder", ExpectedGeneration: draft.ExpectedGeneration, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef}); err != nil || findings != nil {
			t.Fatal(findings, err)
		}
		base = &history.Revision{RevisionRef: next.RevisionRef, Generation: next.Generation}
	}
	for _, of := range []history.Space{space, project.Directory(principal)} {
		head, err := s.Head(ctx, of)
		if err != nil {
			t.Fatal(err)
		}
		found, err := history.Verifier{Read: func(refs ...history.Ref) ([][]byte, error) { return s.Get(ctx, of, refs...) }}.Verify(head.Commit)
		if err != nil || int64(found.Commits) != head.Version {
			t.Errorf("%s: %+v of %d commits: %v", of, found, head.Version, err)
		}
	}
}

var _ storetest.Store = (*Store)(nil)
