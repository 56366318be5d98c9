package run

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/target"
)

// A Listed is a Run or a Batch as the list of a Project's Runs has it. Children of a
// Batch are not in the list: they are its cases.
type Listed struct {
	Ref           string // runRef or batchRef
	Batch         bool
	FlowKey       string
	ReportKey     string // "" of a Run that no Report shows
	ConnectionKey string
	Principal     string
	Reason        string // of a Run
	State         State
	Total         int // Nodes of a Run, cases of a Batch
	CreatedAt     time.Time
	EndedAt       time.Time
}

// ListedRun tells of a Run what the list has.
func ListedRun(r Row) Listed {
	return Listed{Ref: r.RunRef, FlowKey: r.FlowKey, ReportKey: r.Projecting.ReportKey, ConnectionKey: r.Projecting.ConnectionKey, Principal: r.Principal,
		Reason: r.Reason, State: r.State, Total: r.Total, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt}
}

// ListedBatch tells of a Batch what the list has.
func ListedBatch(b BatchRow) Listed {
	return Listed{Ref: b.BatchRef, Batch: true, FlowKey: b.FlowKey, ReportKey: b.Projecting.ReportKey, ConnectionKey: b.Projecting.ConnectionKey, Principal: b.Principal,
		State: b.State, Total: b.Count, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt}
}

// ListPlace is where a Run or a Batch stands among those of its Project: later ones
// are greater.
func ListPlace(createdAt time.Time, ref string) string {
	return fmt.Sprintf("%020d#%s", createdAt.UnixNano(), ref)
}

// Place is where the item stands in the list.
func (l Listed) Place() string { return ListPlace(l.CreatedAt, l.Ref) }

var placeForm = regexp.MustCompile(`^[0-9]{20}#(run|batch)_[0-9A-Za-z]{26}$`)

// ListStore lists the Runs of a Project.
type ListStore interface {
	// Recent returns up to limit Runs and Batches of a Project, children of Batches
	// left out, the newest first. With before, they stand before that place. It reads
	// an index, however many there are; one that was started a moment ago may be
	// missing.
	Recent(ctx context.Context, project target.Project, before string, limit int) ([]Listed, error)
}

// A List lists the Runs of Projects for those who may read them.
type List struct {
	Policy policy.Store
	Store  ListStore
}

// Recent lists the Runs of a Project, the newest first. next is where the following
// page begins; "" is the end.
func (r List) Recent(ctx context.Context, principal string, project target.Project, before string, limit int) (page []Listed, next string, findings outcome.Findings, err error) {
	grant, err := r.Policy.Grant(ctx, project, principal)
	if err != nil {
		return nil, "", nil, err
	}
	if !grant.Allows(policy.Read) {
		return nil, "", refuse(outcome.TargetNotFound, "/scope", nil), nil
	}
	if before != "" && !placeForm.MatchString(before) {
		return nil, "", refuse(outcome.CursorInvalid, "/cursor", nil), nil
	}
	page, err = r.Store.Recent(ctx, project, before, limit+1)
	if err != nil {
		return nil, "", nil, err
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].Place()
	}
	return page, next, nil, nil
}

// An Origin is what a Run was asked to do: what run_get tells the digest of.
type Origin struct {
	Principal string
	Reason    string
	CreatedAt time.Time
	// Inputs are as they were given, by portKey; of a connection, as the Report's
	// values gave them.
	Inputs map[string]canon.Raw
	// Of a Run that a Report shows, and of a case of a Batch:
	Project    target.Project
	Projecting Projecting
	Part       Part
	Cancelled  *CancelledBy
	// Stages is how many there are, and StageEnds when each that is done was, in order.
	// Of a Run of an earlier version there are none.
	Stages    int
	StartedAt time.Time
	StageEnds []time.Time
}

// Origin tells what a Run was asked to do, to who may read it.
func (r *Runs) Origin(ctx context.Context, principal, runRef string) (Origin, outcome.Findings, error) {
	row, _, findings, err := r.find(ctx, principal, runRef)
	if findings != nil || err != nil {
		return Origin{}, findings, err
	}
	out := Origin{Principal: row.Principal, Reason: row.Reason, CreatedAt: row.CreatedAt, Inputs: map[string]canon.Raw{}, Project: row.Project,
		Projecting: row.Projecting, Part: row.Part, Cancelled: row.Cancelled, Stages: row.Stages, StartedAt: row.StartedAt}
	for _, after := range row.StageEnds {
		out.StageEnds = append(out.StageEnds, row.StartedAt.Add(time.Duration(after)*time.Millisecond))
	}
	if row.Inputs != history.Ref("") {
		if err := r.read(ctx, row, row.Inputs, &out.Inputs); err != nil {
			return Origin{}, nil, err
		}
	}
	return out, nil, nil
}
