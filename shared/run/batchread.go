package run

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
)

// PageCases is how many cases one page of a Batch tells. Diagnostics and results
// stand beside them, and all together are at most 500 items.
const PageCases = 400

// A BatchReport is what run_get answers of a Batch: how it stands, and one page of
// its cases.
type BatchReport struct {
	BatchRef    string
	State       State
	Tally       Tally
	Count       int
	Diagnostics []outcome.Diagnostic
	Results     []ResultSummary
	Target      target.Report
	FlowTarget  target.Flow
	Generation  int64
	StartedAt   string
	EndedAt     string
	Cases       []CaseReport
	Next        int // index of the first case of the next page; 0: this is the last
}

// A CaseReport tells how one case stands.
type CaseReport struct {
	CaseKey string `json:"caseKey"`
	RunRef  string `json:"runRef"` // of the current child; there is none before it began
	State   State  `json:"state"`
}

// Get tells how a Batch stands, with the cases from an index on. It reads as much as
// it tells: the rows of the page, and how many cases ended.
func (b *Batches) Get(ctx context.Context, principal, batchRef string, first int) (BatchReport, outcome.Findings, error) {
	row, _, findings, err := b.find(ctx, principal, batchRef)
	if findings != nil || err != nil {
		return BatchReport{}, findings, err
	}
	if first < 0 || first >= row.Count {
		return BatchReport{}, refuse(outcome.SchemaInvalid, "/fromCase", outcome.Params{"rule": "maximum", "limit": row.Count - 1}), nil
	}
	report := BatchReport{
		BatchRef: row.BatchRef, State: row.State, Count: row.Count, Diagnostics: []outcome.Diagnostic{}, Results: []ResultSummary{}, Generation: row.Projecting.Generation,
		Target:     target.Report{Scope: row.Project.Scope(), ReportKey: row.Projecting.ReportKey, RevisionRef: row.Projecting.RevisionRef},
		FlowTarget: target.Flow{Scope: row.Project.Scope(), FlowKey: row.FlowKey, RevisionRef: row.RevisionRef},
		StartedAt:  stamp(row.StartedAt), EndedAt: stamp(row.EndedAt), Cases: []CaseReport{},
	}
	if report.Tally, err = b.Store.Tally(ctx, batchRef); err != nil {
		return BatchReport{}, nil, err
	}
	if row.Diagnostics != "" {
		if err := b.object(ctx, row, row.Diagnostics, &report.Diagnostics); err != nil {
			return BatchReport{}, nil, err
		}
	}
	if row.Results != "" {
		var results []stored
		if err := b.object(ctx, row, row.Results, &results); err != nil {
			return BatchReport{}, nil, err
		}
		for _, s := range results {
			report.Results = append(report.Results, s.ResultSummary)
		}
	}
	end := min(first+PageCases, row.Count)
	if report.Cases, err = b.page(ctx, row, first, end); err != nil {
		return BatchReport{}, nil, err
	}
	if end < row.Count {
		report.Next = end
	}
	return report, nil, nil
}

// page tells the cases from first up to and without end. A case whose current child
// has not ended stands as that child does; one that has no child yet is Queued, or
// ended with its Batch.
func (b *Batches) page(ctx context.Context, row BatchRow, first, end int) ([]CaseReport, error) {
	var keys []string
	if err := b.object(ctx, row, row.Keys, &keys); err != nil {
		return nil, err
	}
	if len(keys) != row.Count {
		return nil, fmt.Errorf("run: %s has %d keys for %d cases", row.BatchRef, len(keys), row.Count)
	}
	stored, err := b.Store.Cases(ctx, row.BatchRef, first, end)
	if err != nil {
		return nil, err
	}
	out := make([]CaseReport, end-first)
	for i := range out {
		key := keys[first+i]
		out[i] = CaseReport{key, batch.ChildRunRef(row.BatchRef, key, 0), Queued}
	}
	for _, c := range stored {
		out[c.Index-first] = CaseReport{c.CaseKey, c.RunRef, c.State}
	}
	var open []string
	for _, c := range out {
		if !c.State.Terminal() {
			open = append(open, c.RunRef)
		}
	}
	if len(open) == 0 {
		return out, nil
	}
	children, err := b.Store.Rows(ctx, open)
	if err != nil {
		return nil, err
	}
	for i, c := range out {
		switch child, begun := children[c.RunRef]; {
		case c.State.Terminal():
		case begun:
			out[i].State = child.State
		case row.State.Terminal():
			out[i].State = Cancelled // it never began, and will not
		}
	}
	return out, nil
}

// Result returns a merged result of a Batch.
func (b *Batches) Result(ctx context.Context, principal, batchRef, resultKey string) (Result, outcome.Findings, error) {
	row, _, findings, err := b.find(ctx, principal, batchRef)
	if findings != nil || err != nil {
		return Result{}, findings, err
	}
	var results []stored
	if row.Results != "" {
		if err := b.object(ctx, row, row.Results, &results); err != nil {
			return Result{}, nil, err
		}
	}
	for _, s := range results {
		if s.ResultKey == resultKey {
			bodies, err := b.Runs.Objects.Get(ctx, row.Space(), s.Ref)
			if err != nil {
				return Result{}, nil, fmt.Errorf("run: %s: %w", batchRef, err)
			}
			return Result{ResultSummary: s.ResultSummary, Value: bodies[0], Project: row.Project, Object: s.Ref}, nil, nil
		}
	}
	return Result{}, refuse(outcome.TargetNotFound, "/resultKey", outcome.Params{"state": string(row.State)}), nil
}
