package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
)

// meeting answers requests once as many wait as shall, and refuses each source with a
// finding that says which one it is.
type meeting struct {
	mu      sync.Mutex
	waiting int
	met     chan struct{}
	err     error
}

func (r *meeting) ReadAll(_ context.Context, requests []python.Request) ([]python.Reply, error) {
	r.mu.Lock()
	if r.waiting--; r.waiting == 0 {
		close(r.met)
	}
	r.mu.Unlock()
	<-r.met
	if r.err != nil && requests[0].Source == "64" {
		return nil, r.err
	}
	replies := make([]python.Reply, len(requests))
	for i, q := range requests {
		replies[i].Findings = []python.Finding{{Code: outcome.SourceInvalid, Reason: "syntax", Line: 1, Column: 1, Params: map[string]canon.Raw{"n": canon.Raw(q.Source)}}}
	}
	return replies, nil
}

// The sources of a plan of thousands of Flows are read several requests at once, and
// each answer stands with its own source.
func TestManySourcesAreReadSideBySide(t *testing.T) {
	sources := make([]string, 3*python.MaxItems+1)
	for i := range sources {
		sources[i] = strconv.Itoa(i)
	}
	lost := errors.New("lost")
	for _, c := range []struct{ err, want error }{{nil, nil}, {lost, lost}, {fmt.Errorf("no Python: %w", python.ErrUnavailable), nil}} {
		synctest.Test(t, func(t *testing.T) {
			// One after another they would wait for each other without end.
			readings, findings, err := read(t.Context(), &meeting{waiting: 4, met: make(chan struct{}), err: c.err}, "/source", sources...)
			if !errors.Is(err, c.want) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			for i := range sources {
				want := fmt.Sprint("PX_SOURCE_INVALID ", i)
				if c.err != nil {
					want = "PX_SANDBOX_UNAVAILABLE <nil>"
				}
				if f := findings[i]; len(f) != 1 || fmt.Sprint(f[0].Code, " ", f[0].Params["n"]) != want {
					t.Fatalf("source %d of %d: %+v", i, len(readings), f)
				}
			}
		})
	}
}
