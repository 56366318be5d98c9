package review

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// Rows find what waits.
type Rows interface {
	// Waiting returns rows of a Space that are open and not expired at now, and for which
	// policy asked for an approval when they were made: those behind a place, in the order
	// of their expiry, limit at most, and the place to go on behind; its zero value is the
	// end. There may be fewer, even none, before the end. What it costs does not depend on
	// how many there are.
	Waiting(ctx context.Context, space history.Space, now time.Time, after change.Place, limit int) (rows []change.PlanRow, next change.Place, err error)
}

// A Queue lists what waits for a decision, what expires first in front.
type Queue struct {
	Rows   Rows
	Policy policy.Store
	Now    func() time.Time
}

// A Waiting is a plan, or a Run, that waits.
type Waiting struct {
	Subject   Subject
	Ref       string // planRef or runRef
	Tool      string
	About     string // "flow/girder_check"
	Targets   int    // that a plan would move
	Requester string // "iss|sub"
	CreatedAt time.Time
	ExpiresAt time.Time
}

// List returns a page of what waits in a Project, and how to go on; "" is the end. It is
// for who may approve there. after is "" or what an earlier page returned: a place, which
// tells and grants nothing.
func (q *Queue) List(ctx context.Context, principal string, project target.Project, after string, limit int) ([]Waiting, string, outcome.Findings, error) {
	place, ok := readPlace(after)
	if !ok {
		return nil, "", outcome.Findings{outcome.New(outcome.CursorInvalid, "/cursor", nil)}, nil
	}
	grant, err := q.Policy.Grant(ctx, project, principal)
	switch {
	case err != nil:
		return nil, "", nil, err
	case !grant.Allows(policy.Read):
		return nil, "", outcome.Findings{outcome.New(outcome.TargetNotFound, "/scope", nil)}, nil
	case !grant.Allows(policy.Approve):
		return nil, "", outcome.Findings{outcome.New(outcome.PermissionDenied, "/scope", policy.Lacks(policy.Approve, project))}, nil
	}
	rows, to, err := q.Rows.Waiting(ctx, history.Space(project.String()), q.Now(), place, limit)
	if err != nil {
		return nil, "", nil, err
	}
	out := make([]Waiting, len(rows))
	for i, row := range rows {
		out[i] = Waiting{Plan, row.PlanRef, row.Tool, row.About, row.Targets, row.Principal, row.CreatedAt, row.ExpiresAt}
		if row.Tool == run.AskTool {
			out[i].Subject = Run
		}
	}
	next := ""
	if to != (change.Place{}) {
		next = fmt.Sprintf("%d.%s", to.ExpiresAt.UnixNano(), to.PlanRef)
	}
	return out, next, nil, nil
}

func readPlace(text string) (change.Place, bool) {
	if text == "" {
		return change.Place{}, true
	}
	left, right, _ := strings.Cut(text, ".")
	nanos, err := strconv.ParseInt(left, 10, 64)
	return change.Place{ExpiresAt: time.Unix(0, nanos).UTC(), PlanRef: right}, err == nil && right != "" && len(right) <= 64
}
