// Package repetition opens the saved Report that a Batch is of for package run: it
// holds the command of a plan against the Report, the Flow and the code that are
// there now. It links Reports, which the packages that only keep or read Batches do
// not.
package repetition

import (
	"context"
	"errors"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// New returns a Repeat over the saved documents that a Reader reads.
func New(reader snapshot.Reader) run.Repeat {
	r := repeating{reader, pinned.New()}
	return r.repeat
}

type repeating struct {
	reader snapshot.Reader
	flows  pinned.Flows
}

// at is where the command stood when it was planned: what is wrong with it now is
// told there.
const at = "/commands/0"

func (r repeating) repeat(ctx context.Context, project target.Project, root history.Ref, of target.Report, text canon.Raw) (run.Repetition, outcome.Findings, error) {
	s := r.reader.At(project, root)
	saved, findings, err := s.Revision(ctx, snapshot.Address{Kind: "report", Key: of.ReportKey, Ref: history.Ref(of.RevisionRef), Path: "/target"})
	if findings != nil || err != nil {
		return run.Repetition{}, findings, err
	}
	doc, unreadable := report.Decode(saved.Document)
	if unreadable.Refused() {
		return run.Repetition{}, nil, errors.New("repetition: a saved Report cannot be read")
	}
	var command batch.RunReportFlowBatch
	if found := schema.Decode(text, &command); found.Refused() {
		return run.Repetition{}, nil, errors.New("repetition: the command of a plan cannot be read")
	}
	connection, _, findings, err := report.Repeated(ctx, doc, command, r.flows.In(s), at)
	if findings.Refused() || err != nil {
		return run.Repetition{}, findings, err
	}
	plan, findings := command.Compile(connection, at)
	if findings.Refused() {
		return run.Repetition{}, findings, nil
	}
	// What a Batch shows is Current as long as the Report's values are those that
	// its cases began from.
	slots, err := connected.Slots(doc, command.ConnectionKey)
	if err != nil {
		return run.Repetition{}, nil, err
	}
	return run.Repetition{ConnectionKey: command.ConnectionKey, FlowTarget: doc.Connections[command.ConnectionKey].FlowTarget,
		Given: connection.Given, Plan: plan, Inputs: connection.Inputs, Slots: slots}, nil, nil
}
