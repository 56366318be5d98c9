package run_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: U2
func TestTheRunsOfAProjectAreListedForWhoMayReadIt(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 7 {
		w.now = w.now.Add(time.Second)
		s, findings := w.start(w.request(fmt.Sprint("c", i)))
		if findings != nil {
			t.Fatal(findings)
		}
		want = append([]string{s.RunRef}, want...)
	}
	list := func(principal, before string) ([]run.Listed, string, outcome.Findings) {
		page, next, findings, err := (run.List{Policy: w.store, Store: w.store}).Recent(t.Context(), principal, bridge, before, 3)
		must(t, err)
		return page, next, findings
	}
	var got []string
	for before, pages := "", 0; ; pages++ {
		page, next, findings := list(engineer, before)
		if findings != nil || len(page) > 3 || pages > 2 {
			t.Fatal(page, findings)
		}
		for _, l := range page {
			got = append(got, l.Ref)
		}
		if before = next; next == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", got, want)
	}
	// What one may not read does not exist, and a place that is none is refused.
	for principal, code := range map[string]outcome.Code{"nobody": outcome.TargetNotFound, engineer: outcome.CursorInvalid} {
		if page, _, findings := list(principal, "elsewhere"); page != nil || len(findings) != 1 || findings[0].Code != code {
			t.Errorf("%s: %v, %v", principal, page, findings)
		}
	}
	w.grant(engineer+"2", policy.Run)
	if _, _, findings := list(engineer+"2", ""); len(findings) != 1 || findings[0].Code != outcome.TargetNotFound {
		t.Errorf("who may run and not read: %v", findings)
	}
	if page, _, findings, err := (run.List{Policy: w.store, Store: w.store}).Recent(t.Context(), engineer, target.Project{WorkspaceKey: "no", ProjectKey: "where"}, "", 3); page != nil || findings == nil || err != nil {
		t.Errorf("no Project: %v, %v, %v", page, findings, err)
	}
}

// covers: U2
func TestTheOriginOfARunIsWhatItWasGiven(t *testing.T) {
	w := newWorld(t)
	ref := w.started()
	begun := w.now
	w.now = w.now.Add(1500 * time.Millisecond)
	w.drive(ref)
	o, findings, err := w.runs.Origin(t.Context(), engineer, ref)
	must(t, err)
	if findings != nil || o.Principal != engineer || string(o.Inputs["span"]) != `{"unit":"ft","value":60}` || len(o.Inputs) != 5 || !o.CreatedAt.Equal(begun) || o.Project != bridge {
		t.Errorf("%+v, %v", o, findings)
	}
	if o.Stages == 0 || len(o.StageEnds) != o.Stages || o.StageEnds[0].Before(o.StartedAt) {
		t.Errorf("%d stages ended at %v", o.Stages, o.StageEnds)
	}
	if _, findings, err := w.runs.Origin(t.Context(), "nobody", ref); err != nil || len(findings) != 1 || findings[0].Code != outcome.TargetNotFound {
		t.Errorf("nobody reads: %v, %v", findings, err)
	}
}
