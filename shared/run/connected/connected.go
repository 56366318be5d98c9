// Package connected is what Reports and Runs have with each other: it makes a Run of
// a saved connection (R4), and tells what the slots of a Report show of the Runs and
// Batches that were started from it (R6).
//
// What is shown is read beside the Report and never from it. Stale is computed here,
// when it is read: a slot is Stale when the basis of its result is not the one that
// it has in the Report that is read. Nothing here is ever written.
package connected

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Kind is of the request and of its command, as policies name it.
const Kind = "RunReportFlowConnection"

// Of is a saved connection as the source of a Run. The Report's revision must be the
// current one; its connection and the exact Flow revision are validated again, and
// the one payload is made of its mappings. Findings about the document point into it.
func Of(t target.Report, connectionKey string) (run.Source, error) {
	text, err := canon.Encode(t)
	if err != nil {
		return run.Source{}, err
	}
	return run.Source{Kind: Kind, Address: history.Key("report", t.ReportKey), Target: text, ConnectionKey: connectionKey,
		Open: func(ctx context.Context, s snapshot.Snapshot) (run.Prepare, outcome.Findings, error) {
			saved, findings, err := s.Locate(ctx, snapshot.Address{Kind: "report", Key: t.ReportKey, Ref: history.Ref(t.RevisionRef), Path: "/target"})
			if findings != nil || err != nil {
				return nil, findings, err
			}
			return func(ctx context.Context) (run.Prepared, outcome.Findings, error) {
				return prepare(ctx, s, t, connectionKey, saved[0])
			}, nil, nil
		}}, nil
}

func prepare(ctx context.Context, s snapshot.Snapshot, t target.Report, connectionKey string, saved snapshot.Saved) (run.Prepared, outcome.Findings, error) {
	var none run.Prepared
	if !saved.Current() {
		// Never replaced by the head: its values may be others than the caller saw.
		return none, outcome.Findings{outcome.New(outcome.GenerationStale, "/target/revisionRef",
			outcome.Params{"current": saved.Head.Generation, "currentRevisionRef": string(saved.Head.RevisionRef)})}, nil
	}
	if err := s.Read(ctx, &saved); err != nil {
		return none, nil, err
	}
	doc, unreadable := report.Decode(saved.Document)
	if unreadable.Refused() {
		return none, nil, errors.New("connected: a saved Report cannot be read")
	}
	flow := doc.Connections[connectionKey].FlowTarget // zero where there is no such connection: Inputs says so
	found, out, err := find(ctx, s, flow)
	if err != nil {
		return none, nil, err
	}
	inputs, findings, err := report.Inputs(ctx, doc, connectionKey, report.Known(found))
	if findings.Refused() || err != nil {
		return none, findings, err
	}
	slots, err := Slots(doc, connectionKey)
	if err != nil {
		return none, nil, err
	}
	return run.Prepared{FlowKey: flow.FlowKey, RevisionRef: flow.RevisionRef, Outline: out, Inputs: inputs,
		ReportKey: t.ReportKey, ReportRevision: t.RevisionRef, Slots: slots}, nil, nil
}

// find reads the Flow of a connection, of the Report's own Project alone.
func find(ctx context.Context, s snapshot.Snapshot, t target.Flow) (map[target.Flow]report.Boundary, outline.Outline, error) {
	var none outline.Outline
	if t.Scope != s.Project.Scope() {
		return nil, none, nil
	}
	saved, err := s.Find(ctx, snapshot.Address{Kind: "flow", Key: t.FlowKey, Ref: history.Ref(t.RevisionRef)})
	if err != nil || saved[0] == nil {
		return nil, none, err
	}
	if err := s.Read(ctx, saved[0]); err != nil {
		return nil, none, err
	}
	o, err := outline.Read(saved[0].Document)
	if err != nil {
		return nil, none, fmt.Errorf("connected: flow %s: %w", t.FlowKey, err)
	}
	return map[target.Flow]report.Boundary{t: {Inputs: o.Inputs, Results: o.Results, Cost: o.Cost}}, o, nil
}

// Slots returns the slots that a connection feeds, in order, each with the basis that
// it has in this document and without a result.
func Slots(doc report.Document, connectionKey string) ([]run.ShownSlot, error) {
	bases, ok, err := report.Bases(doc, connectionKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("connected: the bases of a connection: %w", err)
	}
	out := []run.ShownSlot{}
	for _, m := range doc.Connections[connectionKey].Results {
		out = append(out, run.ShownSlot{BlockKey: m.Target.BlockKey, SlotKey: m.Target.SlotKey, PortKey: m.PortKey, Basis: bases[m.Target]})
	}
	slices.SortFunc(out, func(a, b run.ShownSlot) int {
		return cmp.Or(cmp.Compare(a.BlockKey, b.BlockKey), cmp.Compare(a.SlotKey, b.SlotKey))
	})
	return out, nil
}
