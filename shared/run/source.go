package run

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// A Source is what a Run is made from: a Flow and the inputs of the request, or a
// connection of a Report, of which package connected makes one.
type Source struct {
	Kind string // as policies and reviewers know it: RunFlow
	// Address is the catalog key of the target, to which the command belongs.
	Address string
	Target  canon.Raw // of the request, canonical
	// ConnectionKey is of a Report's connection.
	ConnectionKey string
	// BatchRef and CaseKey are of a case that is repeated.
	BatchRef, CaseKey string
	// Open finds the target in a snapshot that its caller may read. What is not
	// there is a finding. prepare then says what is to be run, once the caller is
	// known to have the right to run anything.
	Open func(ctx context.Context, s snapshot.Snapshot) (prepare Prepare, findings outcome.Findings, err error)
}

// Prepare validates what a Run is made from. Findings that refuse refuse the Run.
type Prepare func(ctx context.Context) (Prepared, outcome.Findings, error)

// Prepared is what is to be run.
type Prepared struct {
	FlowKey     string
	RevisionRef string
	Outline     outline.Outline
	Inputs      map[string]canon.Raw // typed values by portKey
	// Of a Report's connection: its revision, and the slots that it feeds, without
	// results.
	ReportKey      string
	ReportRevision string
	Slots          []ShownSlot
}

// OfFlow is a saved Flow with the inputs of the request.
func OfFlow(t target.Flow, inputs map[string]canon.Raw) (Source, error) {
	text, err := canon.Encode(t)
	if err != nil {
		return Source{}, err
	}
	return Source{Kind: "RunFlow", Address: history.Key("flow", t.FlowKey), Target: text,
		Open: func(ctx context.Context, s snapshot.Snapshot) (Prepare, outcome.Findings, error) {
			saved, findings, err := s.Locate(ctx, snapshot.Address{Kind: "flow", Key: t.FlowKey, Ref: history.Ref(t.RevisionRef), Path: "/target"})
			if findings != nil || err != nil {
				return nil, findings, err
			}
			return func(ctx context.Context) (Prepared, outcome.Findings, error) {
				if err := s.Read(ctx, &saved[0]); err != nil {
					return Prepared{}, nil, err
				}
				o, err := outline.Read(saved[0].Document)
				if err != nil {
					return Prepared{}, nil, fmt.Errorf("run: flow %s: %w", t.FlowKey, err)
				}
				_, findings := outline.Inputs(o.Inputs, inputs, "/inputs")
				return Prepared{FlowKey: t.FlowKey, RevisionRef: t.RevisionRef, Outline: o, Inputs: inputs}, findings, nil
			}, nil, nil
		}}, nil
}
