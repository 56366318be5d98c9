package connected

import (
	"context"
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
)

// Projections reads what connections show.
type Projections interface {
	Projections(ctx context.Context, project target.Project, reportKey string) (map[string]run.Projection, error)
}

// Results tells what the slots of Reports show.
type Results struct {
	Store   Projections
	Objects history.Objects
}

// A shown is one slot as a connection shows it.
type shown struct {
	run.ShownSlot
	of run.Projection
}

// place is a slot without its kind, which is always the same.
func place(blockKey, slotKey string) report.ReportResultSlot {
	return report.ReportResultSlot{BlockKey: blockKey, SlotKey: slotKey}
}

// look reads all projections of a Report, those of connections that it has no more
// included, in two reads however many there are.
func (r Results) look(ctx context.Context, project target.Project, reportKey string) (map[string]run.Projection, map[report.ReportResultSlot][]shown, error) {
	all, err := r.Store.Projections(ctx, project, reportKey)
	if err != nil {
		return nil, nil, err
	}
	var refs []history.Ref
	var of []run.Projection
	for _, p := range all {
		if p.Shown != nil {
			refs, of = append(refs, p.Shown.Slots), append(of, p)
		}
	}
	if refs == nil {
		return all, nil, nil
	}
	bodies, err := r.Objects.Get(ctx, history.Space(project.String()), refs...)
	if err != nil {
		return nil, nil, fmt.Errorf("connected: what slots show: %w", err)
	}
	slots := map[report.ReportResultSlot][]shown{}
	for i, body := range bodies {
		var list []run.ShownSlot
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, nil, fmt.Errorf("connected: what slots show: %w", err)
		}
		for _, s := range list {
			at := place(s.BlockKey, s.SlotKey)
			slots[at] = append(slots[at], shown{s, of[i]})
		}
	}
	return all, slots, nil
}

// choose returns what a slot shows: what the connection shows that feeds it now, or
// else the last result of one that fed it before, whose mapping is no longer what the
// result was computed from. nil is nothing.
func choose(list []shown, connectionKey string) *shown {
	var last *shown
	for i := range list {
		s := &list[i]
		if s.of.ConnectionKey == connectionKey {
			return s
		}
		if s.Result != nil && (last == nil || s.of.Shown.At.After(last.of.Shown.At)) {
			last = s
		}
	}
	return last
}

// stateOf judges what a slot shows. basis is the one that it has in the Report that is
// read, "" where nothing feeds it.
func stateOf(s *shown, basis string) report.SlotState {
	switch {
	case s == nil:
		return report.Empty
	case s.of.Shown.State == run.Failed:
		return report.Failed
	case s.Basis != basis:
		return report.Stale
	}
	return report.Current
}

// Bases returns the basis of every slot that the document feeds.
func Bases(doc report.Document) (map[report.ReportResultSlot]string, error) {
	out := map[report.ReportResultSlot]string{}
	for key := range doc.Connections {
		bases, _, err := report.Bases(doc, key)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, bases)
	}
	return out, nil
}

// Describe returns the description of a Report with what its slots show and which
// generation each connection has. bases are those of the revision that d describes.
// d is not changed.
func (r Results) Describe(ctx context.Context, project target.Project, reportKey string, d report.Description, bases map[report.ReportResultSlot]string) (report.Description, error) {
	all, slots, err := r.look(ctx, project, reportKey)
	if err != nil {
		return d, err
	}
	was := d.Slots
	d.Slots = make([]report.DescribedSlot, len(was))
	for i, slot := range was {
		at, connectionKey := place(slot.BlockKey, slot.SlotKey), ""
		if slot.From != nil {
			connectionKey = slot.From.ConnectionKey
		}
		s := choose(slots[at], connectionKey)
		slot.State = stateOf(s, bases[at])
		if s != nil {
			slot.Result = resultOf(*s)
			if err := showIn(slot.Contract, slot.Result); err != nil {
				return d, fmt.Errorf("connected: what slot %s/%s shows: %w", slot.BlockKey, slot.SlotKey, err)
			}
		}
		d.Slots[i] = slot
	}
	d.Connections = maps.Clone(d.Connections)
	for key, c := range d.Connections {
		p := all[key]
		c.Generation = p.Generation
		if p.Generation > 0 && p.Ended == "" {
			c.UnderWay = &report.UnderWay{}
			if p.Intent.Kind == run.IntentBatch {
				c.UnderWay.BatchRef = p.Intent.Ref
			} else {
				c.UnderWay.RunRef = p.Intent.Ref
			}
		}
		d.Connections[key] = c
	}
	return d, nil
}

func resultOf(s shown) *report.SlotResult {
	out := &report.SlotResult{RunRef: s.RunRef, CaseKey: s.CaseKey, Generation: s.of.Shown.Generation}
	if s.of.Shown.Intent.Kind == run.IntentBatch {
		out.BatchRef = s.of.Shown.Intent.Ref
	}
	if s.Result != nil {
		out.ResultKey, out.Type, out.Unit, out.Value = s.Result.ResultKey, s.Result.Type, s.Result.Unit, s.Result.Value
	}
	return out
}

// showIn tells a result in the unit of the slot that shows it, as the plan that mapped
// it said (PX_UNIT_CONVERTED): the Run's own result, which is read by its runRef, keeps
// its port's. A result that the slot's contract does not take, since an older mapping or
// contract brought it there, stays as it is, with its own unit.
func showIn(slot quantity.Port, r *report.SlotResult) error {
	if r.Value == nil || slot.Type != quantity.NumberType || r.Unit == "" || r.Unit == slot.Unit {
		return nil
	}
	slot.Constraints = nil // a value that breaks one is shown all the same
	value, findings := slot.Decode(r.Value, "")
	if findings.Refused() {
		return nil
	}
	text, err := slot.Encode(value)
	if err != nil {
		return err
	}
	r.Unit, r.Value = slot.Unit, text
	return nil
}

// Current tells which slots of a Report have a Current result: those that a change may
// turn Stale.
func (r Results) Current(ctx context.Context, s snapshot.Snapshot, doc report.Document) (map[report.ReportResultSlot]bool, error) {
	_, slots, err := r.look(ctx, s.Project, doc.ReportKey)
	if err != nil || slots == nil {
		return nil, err
	}
	bases, err := Bases(doc)
	if err != nil {
		return nil, err
	}
	feeds := map[report.ReportResultSlot]string{}
	for key, c := range doc.Connections {
		for _, m := range c.Results {
			feeds[m.Target] = key
		}
	}
	out := map[report.ReportResultSlot]bool{}
	for at, list := range slots {
		out[at] = stateOf(choose(list, feeds[at]), bases[at]) == report.Current
	}
	return out, nil
}
