package dynamo

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/console/session"
	"github.com/pxhost/pxhost/shared/store/storetest"
)

// covers: U6
func TestWhatWaitsOverTheEmulator(t *testing.T) {
	storetest.Waiting(t, func(t *testing.T) storetest.WaitingStore { return over(emulated(t)) })
}

func TestSessionsOverTheEmulator(t *testing.T) {
	storetest.Sessions(t, func(t *testing.T) session.Store { return over(emulated(t)) })
}

// A page of what waits costs one query and one reading, and a session one reading, whether
// there is nothing else in the Project or a lot.
func TestWhatPeopleReadCostsTheSameHoweverMuchThereIs(t *testing.T) {
	var mu sync.Mutex
	counts := map[string]int{}
	s := over(emulatedBehind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			counts[operation]++
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	}))
	key := session.NewKey()
	if err := s.BeginSession(t.Context(), session.Session{ID: key.ID(), Subject: "x", Begun: clock(), Expires: clock().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	const space, page = "team/bridge", 10
	made := 0
	for _, total := range []int{3, 300} {
		for ; made < total; made++ {
			row := change.PlanRow{PlanRef: fmt.Sprintf("plan_%d", made), Space: space, Tool: "t", Principal: "p", Digest: "d", Body: "b", CreatedAt: clock(), ExpiresAt: clock().Add(time.Duration(made+1) * time.Minute), State: change.PlanOpen, Asks: made%3 == 0}
			if err := s.CreatePlan(t.Context(), row); err != nil {
				t.Fatal(err)
			}
		}
		clear(counts)
		rows, _, err := s.Waiting(t.Context(), space, clock(), change.Place{}, page)
		if want := min(page, (total+2)/3); err != nil || len(rows) != want {
			t.Fatalf("%d, %v", len(rows), err)
		}
		if counts["Query"] != 1 || counts["BatchGetItem"] != 1 || len(counts) != 2 {
			t.Errorf("of %d: %v", total, counts)
		}
		clear(counts)
		if _, err := s.Session(t.Context(), key.ID()); err != nil {
			t.Fatal(err)
		}
		if counts["GetItem"] != 1 || len(counts) != 1 {
			t.Errorf("a session: %v", counts)
		}
	}
}
