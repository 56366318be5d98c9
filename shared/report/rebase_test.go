package report

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Of any document and any two lists of commands on it: where the one rebases over
// the other, both orders make the same Report; where it does not, the two wrote paths
// of which one stands at or above the other. What the two concern is told from
// either side.
//
// covers: P8
func TestWhatRebasesCommutesAndWhatMeetsIsAConflict(t *testing.T) {
	rebased, met := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		base := someDocument(t)
		a := accepted(base, rapid.SliceOfN(rapid.Custom(someCommand), 1, 8).Draw(t, "a"))
		b := accepted(base, rapid.SliceOfN(rapid.Custom(someCommand), 1, 8).Draw(t, "b"))
		if len(a) == 0 || len(b) == 0 {
			return
		}
		afterA, touchedA, foundA := Apply(&base, a)
		afterB, touchedB, foundB := Apply(&base, b)
		if len(foundA)+len(foundB) > 0 {
			t.Fatal(show(foundA), show(foundB))
		}
		ofA, err := Conflicts(base, afterB, a) // a is rebased over b
		if err != nil {
			t.Fatal(err)
		}
		ofB, err := Conflicts(base, afterA, b)
		if err != nil {
			t.Fatal(err)
		}
		pathsA, pathsB := changedPaths(t, base, afterA), changedPaths(t, base, afterB)
		if meet(touchedA, pathsB) != (len(ofA) > 0) {
			t.Fatalf("touched %q and changed %q: %v", touchedA, pathsB, ofA)
		}
		if len(ofA) == 0 && meet(touchedA, touchedB) {
			// b said again what already was, and so changed nothing that a could meet.
			return
		}
		if len(ofA) == 0 {
			rebased++
			ba, _, foundA := Apply(&afterB, a)
			ab, _, foundB := Apply(&afterA, b)
			if len(foundA)+len(foundB) > 0 {
				// The one took away what a command of the other needs, without a path in
				// common: a contract that fails by its own code.
				return
			}
			// Order among new blocks is each plan's own: a block stands behind the one
			// that its plan named.
			ab.BlockOrder, ba.BlockOrder = nil, nil
			x, _ := canon.Encode(ab)
			y, _ := canon.Encode(ba)
			if string(x) != string(y) {
				t.Fatalf("a then b, b then a:\n%s\n%s", x, y)
			}
			return
		}
		met++
		// Where commands touch just what they change, the other side tells the same.
		if slices.Equal(touchedA, pathsA) && slices.Equal(touchedB, pathsB) {
			if len(ofA) != len(ofB) {
				t.Fatalf("%v and from the other side %v", ofA, ofB)
			}
			for i, c := range ofA {
				d := ofB[i]
				if c.Path != d.Path || string(c.Base) != string(d.Base) || string(c.Current) != string(d.Proposed) || string(c.Proposed) != string(d.Current) {
					t.Fatalf("%v and from the other side %v", c, d)
				}
			}
		}
		for _, c := range ofA {
			if string(c.Base) == string(c.Current) {
				t.Fatalf("a conflict with what did not change: %v", c)
			}
		}
	})
	if rebased == 0 || met == 0 {
		t.Fatalf("%d rebased and %d met: the documents are not of use", rebased, met)
	}
}

// accepted leaves out what is refused: random commands mostly are.
func accepted(base Document, list []Command) []Command {
	kept := []Command{}
	for _, c := range list {
		with := append(slices.Clip(kept), c)
		if _, _, found := Apply(&base, with); len(found) == 0 {
			kept = with
		}
	}
	return kept
}

func changedPaths(t *rapid.T, from, to Document) []string {
	changes, err := Diff(&from, to)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{}
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths
}

func meet(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if semantic.Within(x, y) || semantic.Within(y, x) {
				return true
			}
		}
	}
	return false
}

// covers: P8
func TestTheGrainOfConflictsIsOneFieldOneSlotOneMapping(t *testing.T) {
	number := quantity.Port{Type: "number", Unit: "m"}
	base := Document{Format: Format, ReportKey: "r", BlockOrder: []string{"basis", "more", "summary"}, Blocks: map[string]Block{
		"basis":   ValuesBlock{Fields: map[string]Field{"f": {Port: number}, "g": {Port: number}}},
		"more":    TextBlock{Text: "x"},
		"summary": ResultsBlock{Slots: map[string]Slot{"s": {Port: number}}},
	}, Connections: map[string]Connection{}}.canonical()
	one, two := canon.Raw(`{"unit":"m","value":1}`), canon.Raw(`{"unit":"m","value":2}`)
	feed := func(connection, mapping, field string) Command {
		return SetReportFlowInputSource{ConnectionKey: connection, MappingKey: mapping, FlowTarget: flowTarget("check", "r1"), PortKey: "span", Source: ReportValue{BlockKey: "basis", FieldKey: field}}
	}
	for name, c := range map[string]struct {
		theirs, mine Command
		want         string
	}{
		"two fields":                          {SetFieldValue{BlockKey: "basis", FieldKey: "f", Value: one}, SetFieldValue{BlockKey: "basis", FieldKey: "g", Value: one}, ""},
		"a field twice":                       {SetFieldValue{BlockKey: "basis", FieldKey: "f", Value: one}, SetFieldValue{BlockKey: "basis", FieldKey: "f", Value: two}, "/blocks/basis/fields/f/value"},
		"a field that they removed":           {RemoveField{BlockKey: "basis", FieldKey: "f"}, SetFieldValue{BlockKey: "basis", FieldKey: "f", Value: two}, "/blocks/basis/fields/f"},
		"a block removed in which they wrote": {SetText{BlockKey: "more", Text: "y"}, RemoveBlock{BlockKey: "more"}, "/blocks/more/text"},
		"two slots":                           {AddSlot{BlockKey: "summary", SlotKey: "t", Slot: Slot{Port: number}}, RemoveSlot{BlockKey: "summary", SlotKey: "s"}, ""},
		"a slot twice":                        {AddSlot{BlockKey: "summary", SlotKey: "t", Slot: Slot{Port: number}}, AddSlot{BlockKey: "summary", SlotKey: "t", Slot: Slot{Port: number}}, "/blocks/summary/slots/t"},
		"two new blocks":                      {AddBlock{BlockKey: "x", Block: TextBlock{}}, AddBlock{BlockKey: "y", Block: TextBlock{}}, ""},
		"a new block and a move":              {AddBlock{BlockKey: "x", Block: TextBlock{}}, MoveBlock{BlockKey: "more"}, ""},
		"two moves":                           {MoveBlock{BlockKey: "summary"}, MoveBlock{BlockKey: "more"}, "/blockOrder"},
		"two connections":                     {feed("c1", "m", "f"), feed("c2", "m", "f"), ""},
		"the same connection made twice":      {feed("c1", "m", "f"), feed("c1", "n", "g"), "/connections/c1"},
		"a text and a value":                  {SetText{BlockKey: "more", Text: "y"}, SetFieldValue{BlockKey: "basis", FieldKey: "f", Value: one}, ""},
	} {
		head, _, found := Apply(&base, []Command{c.theirs})
		if len(found) > 0 {
			t.Fatalf("%s: %s", name, show(found))
		}
		conflicts, err := Conflicts(base, head, []Command{c.mine})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, conflict := range conflicts {
			got += conflict.Path
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
