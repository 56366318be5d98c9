package review_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

// However long an approval and its plan live, and whenever somebody approves: what
// can still be used is given again, what has expired is followed by another one, and
// none outlives its plan.
//
// covers: U6
func TestAnApprovalIsGivenAgainWhileItLivesAndAnewAfterwards(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seconds := func(most int64, name string) time.Duration {
			return time.Duration(rapid.Int64Range(1, most).Draw(r, name)) * time.Second
		}
		must := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		now := time.Date(2026, 11, 30, 9, 0, 0, rapid.IntRange(0, 999_999_999).Draw(r, "nanoseconds"), time.UTC)
		clock := func() time.Time { return now }
		store := memory.New(clock)
		bridge := target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
		admin := project.New(store, nil, clock)
		must(admin.Create(t.Context(), bridge, nil, ""))
		must(admin.SetGrant(t.Context(), bridge, "i|reviewer", []policy.Right{policy.Read, policy.Approve}))
		planLife := seconds(30*24*3600, "life of the plan")
		life := min(seconds(30*24*3600, "life of an approval"), planLife)
		if rapid.Bool().Draw(r, "short") {
			life = seconds(3, "short life")
		}
		planner := change.Planner{Objects: store, Store: store, Now: clock, Life: planLife, NewRef: func(prefix string) string { return prefix + "one" }}
		p, _, err := planner.Plan(t.Context(), change.Author{Principal: "i|engineer"}, change.Draft{Tool: "pxflow_plan_change", Project: bridge, Target: canon.Raw(`{}`),
			Commands: []canon.Raw{canon.Raw(`{}`)}, Unlabelled: []canon.Raw{canon.Raw(`{}`)}, Subject: policy.OnFlow, Kinds: []string{"SetFlowLabel"}, Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`)})
		must(err)
		ends, err := time.Parse(time.RFC3339, p.ExpiresAt)
		must(err)
		reviews := review.Reviews{Objects: store, Plans: store, Policy: store, Approvals: store, Now: clock, Life: life}
		var last review.Approved
		var until time.Time
		given := map[string]bool{}
		for range rapid.IntRange(1, 20).Draw(r, "times") {
			got, findings, err := reviews.Approve(t.Context(), review.Decision{Principal: "i|reviewer", Ref: p.PlanRef, Digest: p.PlanDigest})
			must(err)
			if over := !now.Before(ends); over != (findings != nil) {
				r.Fatalf("the plan ends at %v; at %v it is told %v", ends, now, findings)
			} else if over {
				return
			}
			switch alive := until.After(now); {
			case alive && got != last:
				r.Fatalf("at %v, %+v is followed by %+v", now, last, got)
			case !alive && given[got.ApprovalRef]:
				r.Fatalf("at %v, %s has expired and is given again", now, got.ApprovalRef)
			}
			last, given[got.ApprovalRef] = got, true
			until, err = time.Parse(time.RFC3339, got.ExpiresAt)
			must(err)
			at, err := time.Parse(time.RFC3339, got.ApprovedAt)
			must(err)
			if want := at.Add(life); until.After(ends) || !until.Equal(want) && !until.Equal(ends) || until.After(want) {
				r.Fatalf("approved at %v for %v, until %v; the plan ends at %v", at, life, until, ends)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, 2*int64(life)).Draw(r, "later")))
		}
	})
}
