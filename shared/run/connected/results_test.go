package connected

import (
	"context"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// projections is the rows of one Report.
type projections map[string]run.Projection

func (p projections) Projections(context.Context, target.Project, string) (map[string]run.Projection, error) {
	return p, nil
}

// A shelf makes projections with what they show.
type shelf struct {
	t     *testing.T
	store *memory.Store
	rows  projections
}

func newShelf(t *testing.T) *shelf { return &shelf{t, memory.New(time.Now), projections{}} }

// show lets a connection show one slot, block/slot, in its generation.
func (s *shelf) show(connectionKey string, generation int64, at time.Time, state run.State, intent run.Intent, slot run.ShownSlot) {
	s.t.Helper()
	slot.BlockKey, slot.SlotKey = "block", "slot"
	text, err := canon.Encode([]run.ShownSlot{slot})
	if err == nil {
		err = s.store.Put(s.t.Context(), history.Space(bridge.String()), text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.rows[connectionKey] = run.Projection{Connection: run.Connection{Project: bridge, ReportKey: "review", ConnectionKey: connectionKey}, Generation: generation, Intent: intent,
		Ended: state, Shown: &run.Shown{Generation: generation, Intent: intent, State: state, Slots: history.RefOf(text), At: at}}
}

// describe tells what the slot shows where a connection feeds it, "" for none, with
// this basis.
func (s *shelf) describe(connectionKey, basis string) report.DescribedSlot {
	s.t.Helper()
	slot := report.DescribedSlot{BlockKey: "block", SlotKey: "slot", State: report.Empty}
	bases := map[report.ReportResultSlot]string{}
	if connectionKey != "" {
		slot.From = &report.MappingRef{ConnectionKey: connectionKey}
		bases[place("block", "slot")] = basis
	}
	d, err := Results{s.rows, s.store}.Describe(s.t.Context(), bridge, "review", report.Description{Slots: []report.DescribedSlot{slot}}, bases)
	if err != nil {
		s.t.Fatal(err)
	}
	return d.Slots[0]
}

func ran(ref string) run.Intent { return run.Intent{Kind: run.IntentRun, Ref: ref} }

func result(text string) *run.ShownResult {
	return &run.ShownResult{ResultSummary: run.ResultSummary{ResultKey: "moment", Type: "number", Unit: "kN*m"}, Value: canon.Raw(text)}
}

// A slot shows what the connection shows that feeds it now. Where the mapping has
// moved to a connection that showed nothing there, it keeps the last result, Stale;
// and nothing that another connection showed there is ever Current.
//
// covers: R6
func TestASlotWhoseMappingMovesShowsWhatFeedsItNow(t *testing.T) {
	early := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		shows func(*shelf)
		feeds string
		basis string
		state report.SlotState
		run   string // "": no result
	}{
		"nothing was ever shown": {func(*shelf) {}, "one", "a", report.Empty, ""},
		"its own result": {func(s *shelf) {
			s.show("one", 1, early, run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1", Result: result("1")})
		}, "one", "a", report.Current, "run_1"},
		"its own result, of other values": {func(s *shelf) {
			s.show("one", 1, early, run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1", Result: result("1")})
		}, "one", "b", report.Stale, "run_1"},
		"the mapping moved to a connection that never ran": {func(s *shelf) {
			s.show("one", 1, early, run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1", Result: result("1")})
		}, "two", "b", report.Stale, "run_1"},
		"the mapping moved to a connection that ran, before the other did": {func(s *shelf) {
			s.show("one", 7, early.Add(time.Hour), run.Succeeded, ran("run_7"), run.ShownSlot{Basis: "a", RunRef: "run_7", Result: result("7")})
			s.show("two", 1, early, run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "b", RunRef: "run_1", Result: result("1")})
		}, "two", "b", report.Current, "run_1"},
		"the mapping moved to a connection that failed": {func(s *shelf) {
			s.show("one", 1, early, run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1", Result: result("1")})
			s.show("two", 1, early, run.Failed, ran("run_2"), run.ShownSlot{Basis: "b", RunRef: "run_2"})
		}, "two", "b", report.Failed, "run_2"},
		"nothing feeds it any more, and of two results it keeps the last": {func(s *shelf) {
			s.show("one", 9, early, run.Succeeded, ran("run_9"), run.ShownSlot{Basis: "a", RunRef: "run_9", Result: result("9")})
			s.show("two", 1, early.Add(time.Second), run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "b", RunRef: "run_1", Result: result("1")})
		}, "", "", report.Stale, "run_1"},
		"what failed there before says nothing about who feeds it now": {func(s *shelf) {
			s.show("one", 1, early, run.Failed, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1"})
		}, "two", "b", report.Empty, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			c.shows(s)
			got, ref := s.describe(c.feeds, c.basis), ""
			if got.Result != nil {
				ref = got.Result.RunRef
			}
			if got.State != c.state || ref != c.run {
				t.Errorf("it is %s of %q, not %s of %q", got.State, ref, c.state, c.run)
			}
		})
	}
}

// A slot names the Batch, its governing case and that case's Run; of an ordinary Run
// it names no Batch.
//
// covers: R6
func TestASlotOfABatchNamesTheGoverningCase(t *testing.T) {
	s, now := newShelf(t), time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	s.show("one", 3, now, run.Succeeded, run.Intent{Kind: run.IntentBatch, Ref: "batch_1"},
		run.ShownSlot{Basis: "a", RunRef: "run_child", CaseKey: "span_120", Result: result(`{"unit":"kN*m","value":5}`)})
	got := s.describe("one", "a").Result
	if got == nil || got.BatchRef != "batch_1" || got.RunRef != "run_child" || got.CaseKey != "span_120" || got.Generation != 3 || got.ResultKey != "moment" ||
		got.Unit != "kN*m" || string(got.Value) != `{"unit":"kN*m","value":5}` {
		t.Errorf("of a Batch it is %+v", got)
	}
	// A Run takes the next generation: until it ends, the slot keeps the Batch's.
	row := s.rows["one"]
	row.Generation, row.Intent, row.Ended = 4, ran("run_4"), ""
	s.rows["one"] = row
	if got := s.describe("one", "a"); got.State != report.Current || got.Result.BatchRef != "batch_1" || got.Result.Generation != 3 {
		t.Errorf("while a Run is under way it is %s, %+v", got.State, got.Result)
	}
	s.show("one", 4, now, run.Succeeded, ran("run_4"), run.ShownSlot{Basis: "a", RunRef: "run_4", Result: result("1")})
	if got := s.describe("one", "a").Result; got.BatchRef != "" || got.CaseKey != "" || got.RunRef != "run_4" {
		t.Errorf("of a Run it is %+v", got)
	}
}

// A slot shows a result in its own unit, as the plan that mapped it said, and a result
// that its contract does not take as it is.
//
// covers: R2, R6
func TestASlotShowsAResultInItsOwnUnit(t *testing.T) {
	number := func(unit, kind string) quantity.Port {
		return quantity.Port{Type: quantity.NumberType, Unit: unit, QuantityKind: kind}
	}
	bounded := number("kip*ft", "moment")
	most := 1.0
	bounded.Constraints = &quantity.Constraints{Maximum: &most}
	nullable := number("kip*ft", "moment")
	nullable.Nullable = new(true)
	for name, c := range map[string]struct {
		slot         quantity.Port
		result, want string
	}{
		"the port's unit":                           {number("kN*m", "moment"), `{"unit":"kN*m","value":1000}`, `kN*m {"unit":"kN*m","value":1000}`},
		"another unit":                              {number("kip*ft", "moment"), `{"unit":"kN*m","value":1000}`, `kip*ft {"unit":"kip*ft","value":737.5621492772653}`},
		"another unit, and beyond a constraint":     {bounded, `{"unit":"kN*m","value":1000}`, `kip*ft {"unit":"kip*ft","value":737.5621492772653}`},
		"null":                                      {nullable, `{"unit":"kN*m","value":null}`, `kip*ft {"value":null}`},
		"the contract is one of stresses by now":    {number("ksi", "stress"), `{"unit":"kN*m","value":1000}`, `kN*m {"unit":"kN*m","value":1000}`},
		"the contract is one of a text by now":      {quantity.Port{Type: quantity.StringType}, `{"unit":"kN*m","value":1000}`, `kN*m {"unit":"kN*m","value":1000}`},
		"a value that the slot's unit cannot carry": {number("nN*m", "moment"), `{"unit":"kN*m","value":1e+308}`, `kN*m {"unit":"kN*m","value":1e+308}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.show("one", 1, time.Now(), run.Succeeded, ran("run_1"), run.ShownSlot{Basis: "a", RunRef: "run_1", Result: result(c.result)})
			d := report.Description{Slots: []report.DescribedSlot{{BlockKey: "block", SlotKey: "slot", Contract: c.slot, From: &report.MappingRef{ConnectionKey: "one"}}}}
			d, err := Results{s.rows, s.store}.Describe(t.Context(), bridge, "review", d, map[report.ReportResultSlot]string{place("block", "slot"): "a"})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Slots[0]; got.State != report.Current || got.Result.Unit+" "+string(got.Result.Value) != c.want {
				t.Errorf("it is %s, %s %s, not %s", got.State, got.Result.Unit, got.Result.Value, c.want)
			}
		})
	}
}
