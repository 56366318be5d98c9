package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/review"
)

// A WaitingStore lists what waits for a decision.
type WaitingStore interface {
	Store
	review.Rows
}

// Waiting runs the suite of review.Rows. open returns an empty store.
func Waiting(t *testing.T, open func(t *testing.T) WaitingStore) {
	t.Run("what waits is listed by its expiry, page by page", func(t *testing.T) { waitingPages(t, open(t)) })
	t.Run("what was decided waits no more", func(t *testing.T) { waitingDecided(t, open(t)) })
}

// allWaiting reads all pages.
func allWaiting(t *testing.T, s WaitingStore, of history.Space, now time.Time, limit int) (refs []string) {
	t.Helper()
	var place change.Place
	for range 1000 {
		rows, next, err := s.Waiting(t.Context(), of, now, place, limit)
		must(t, err)
		if len(rows) > limit {
			t.Fatalf("a page of %d has %d", limit, len(rows))
		}
		for _, r := range rows {
			refs = append(refs, r.PlanRef)
		}
		if next == (change.Place{}) {
			return refs
		}
		place = next
	}
	t.Fatal("the pages have no end")
	return nil
}

// covers: U6
func waitingPages(t *testing.T, s WaitingStore) {
	ctx := t.Context()
	var want []string
	for i := range 25 {
		row := planRow(fmt.Sprintf("plan_%02d", i))
		row.ExpiresAt = Now.Add(time.Duration(60-i) * time.Minute) // the last made expires first
		must(t, s.CreatePlan(ctx, row))
		want = append(want, row.PlanRef)
	}
	slices.Reverse(want)
	silent := planRow("plan_silent")
	silent.Asks = false
	must(t, s.CreatePlan(ctx, silent))
	elsewhere := planRow("plan_elsewhere")
	elsewhere.Space = "structural_team/other"
	must(t, s.CreatePlan(ctx, elsewhere))
	for _, limit := range []int{1, 7, 25, 100} {
		if got := allWaiting(t, s, space, Now, limit); !slices.Equal(got, want) {
			t.Errorf("by %d: %v", limit, got)
		}
	}
	// What has expired at that very moment waits no more.
	if got := allWaiting(t, s, space, Now.Add(40*time.Minute), 10); !slices.Equal(got, want[5:]) {
		t.Errorf("40 minutes later: %v", got)
	}
	if got := allWaiting(t, s, elsewhere.Space, Now, 10); !slices.Equal(got, []string{"plan_elsewhere"}) {
		t.Errorf("in another Space: %v", got)
	}
	rows, _, err := s.Waiting(ctx, elsewhere.Space, Now, change.Place{}, 10)
	must(t, err)
	if len(rows) != 1 || rows[0] != elsewhere {
		t.Errorf("got %+v", rows)
	}
	// Many expire at one moment: a page ends between two of them.
	for i := range 9 {
		row := planRow(fmt.Sprintf("plan_same_%d", i))
		row.Space = "structural_team/same"
		must(t, s.CreatePlan(ctx, row))
	}
	got := allWaiting(t, s, "structural_team/same", Now, 2)
	slices.Sort(got)
	if len(slices.Compact(got)) != 9 {
		t.Errorf("of one moment: %v", got)
	}
}

// covers: U6
func waitingDecided(t *testing.T, s WaitingStore) {
	ctx := t.Context()
	setUp(t, s)
	c, rejected := commitment(t, s, 1), planRow("plan_rejected")
	must(t, s.CreatePlan(ctx, rejected))
	if got := allWaiting(t, s, space, Now, 10); len(got) != 2 {
		t.Fatalf("before: %v", got)
	}
	must(t, s.Commit(ctx, c))
	rejected.State, rejected.RejectedBy, rejected.RejectedAt = change.PlanRejected, "https://issuer.test|reviewer", Now
	must(t, s.RejectPlan(ctx, rejected))
	if got := allWaiting(t, s, space, Now, 10); len(got) != 0 {
		t.Errorf("afterwards: %v", got)
	}
}

// Sessions runs the suite of session.Store. open returns an empty store.
func Sessions(t *testing.T, open func(t *testing.T) session.Store) {
	t.Run("a session is found until it is ended, and then never again", func(t *testing.T) {
		ctx, s := t.Context(), open(t)
		key := session.NewKey()
		want := session.Session{ID: key.ID(), Issuer: "https://issuer.test", Subject: "리뷰어", Scopes: []string{"px.approve"}, Token: "s", Begun: Now.Truncate(time.Second), Expires: Now.Add(time.Hour).Truncate(time.Second)}
		if _, err := s.Session(ctx, want.ID); !errors.Is(err, session.ErrNone) {
			t.Errorf("before it began: %v", err)
		}
		must(t, s.BeginSession(ctx, want))
		must(t, s.BeginSession(ctx, want)) // a lost reply
		other := want
		other.Subject = "other"
		if s.BeginSession(ctx, other) == nil {
			t.Error("a session is taken over")
		}
		got, err := s.Session(ctx, want.ID)
		must(t, err)
		if got.ID != want.ID || got.Issuer != want.Issuer || got.Subject != want.Subject || !slices.Equal(got.Scopes, want.Scopes) || got.Token != want.Token || !got.Begun.Equal(want.Begun) || !got.Expires.Equal(want.Expires) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		must(t, s.EndSession(ctx, want.ID, want.Expires))
		must(t, s.EndSession(ctx, want.ID, want.Expires))
		if err := s.BeginSession(ctx, want); err == nil {
			t.Error("what was ended begins again")
		}
		if _, err := s.Session(ctx, want.ID); !errors.Is(err, session.ErrNone) {
			t.Errorf("afterwards: %v", err)
		}
		if s.BeginSession(ctx, session.Session{ID: "x"}) == nil {
			t.Error("a session of nobody begins")
		}
	})
}
