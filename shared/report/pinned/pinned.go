// Package pinned finds what the Flow revisions show that a Report is connected to:
// their public ports and their cost, in one snapshot of the Report's own Project.
//
// It reads saved Flows and does not judge them: each was valid when it was saved.
// It knows the members of a .pxflow document that are public, and neither
// Components nor formulas, so that the tools of Reports do not link what evaluates
// them.
package pinned

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// knownBytes is how much of Flows a process keeps.
const knownBytes = 16 << 20

// Flows finds Flow revisions for one process after another request. A revision
// never changes, so it is read once.
type Flows struct{ known *history.Cache } // of report.Boundary, by revisionRef

// New returns Flows that know nothing yet.
func New() Flows { return Flows{history.NewCache(knownBytes)} }

// In returns what may be found in a snapshot: the saved revisions of its Project.
// Of another Project's Flow nothing is there, whatever its scope says.
func (f Flows) In(s snapshot.Snapshot) report.Flows { return within{f.known, s} }

type within struct {
	known    *history.Cache
	snapshot snapshot.Snapshot
}

// Boundaries implements report.Flows. Whether a revision is there is asked of the
// snapshot each time; what it shows may be known already.
func (w within) Boundaries(ctx context.Context, targets []target.Flow) (map[target.Flow]report.Boundary, error) {
	s := w.snapshot
	var own []target.Flow
	var addresses []snapshot.Address
	for _, t := range targets {
		if t.Scope == s.Project.Scope() {
			own = append(own, t)
			addresses = append(addresses, snapshot.Address{Kind: "flow", Key: t.FlowKey, Ref: history.Ref(t.RevisionRef)})
		}
	}
	saved, err := s.Find(ctx, addresses...)
	if err != nil {
		return nil, err
	}
	out := make(map[target.Flow]report.Boundary, len(own))
	var unread []*snapshot.Saved
	var at []target.Flow
	for i, t := range own {
		if saved[i] == nil {
			continue
		}
		if b, ok := w.known.Get(s.Space, saved[i].Ref).(report.Boundary); ok {
			out[t] = b
		} else {
			unread, at = append(unread, saved[i]), append(at, t)
		}
	}
	if unread == nil {
		return out, nil
	}
	if err := s.Read(ctx, unread...); err != nil {
		return nil, err
	}
	for i, t := range at {
		b, err := Read(unread[i].Document)
		if err != nil {
			return nil, fmt.Errorf("pinned: flow %s: %w", t.FlowKey, err)
		}
		// Decoded, ports are some ten times what they are as text.
		w.known.Put(s.Space, unread[i].Ref, b, 10*len(unread[i].Document))
		out[t] = b
	}
	return out, nil
}

// Read returns what a saved Flow shows.
func Read(document []byte) (report.Boundary, error) {
	o, err := outline.Read(document)
	return report.Boundary{Inputs: o.Inputs, Results: o.Results, Cost: o.Cost}, err
}
