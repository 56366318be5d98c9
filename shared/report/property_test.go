package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// Keys are few, so that random commands meet what is there.
var (
	someBlocks      = rapid.SampledFrom([]string{"b1", "b2", "b3", "b4"})
	someFields      = rapid.SampledFrom([]string{"f", "g", "h"})
	someSlots       = rapid.SampledFrom([]string{"s", "t", "u"})
	someConnections = rapid.SampledFrom([]string{"c1", "c2"})
	someMappings    = rapid.SampledFrom([]string{"m1", "m2", "m3"})
	somePorts       = rapid.SampledFrom([]string{"span", "load", "factor", "moment", "ratio", "gone"})
	someUnits       = rapid.SampledFrom([]string{"m", "ft", "kN/m", "kN*m", "1"})
	someLabels      = rapid.SampledFrom([]target.Label{nil, {}, {"en": "x"}, {"en": "x", "ko": "가"}})
	someTexts       = rapid.SampledFrom([]string{"", "x", "가 🌉\n"})
	someValues      = rapid.SampledFrom([]canon.Raw{nil, canon.Raw(`{"value": 1.0,"unit":"m"}`), canon.Raw(`{"unit":"kN/m","value":-0}`), canon.Raw(`{"value":null}`), canon.Raw(`[1]`)})
	someFlows       = rapid.SampledFrom([]target.Flow{flowTarget("check", "r1"), flowTarget("check", "r2"), flowTarget("odd", "r1"), flowTarget("gone", "r1")})
)

func somePort(t *rapid.T) quantity.Port {
	p := number(someUnits.Draw(t, "unit"))
	if rapid.Bool().Draw(t, "nullable") {
		p = nullable(p)
	}
	return p
}

func someField(t *rapid.T) Field {
	return Field{somePort(t), someValues.Draw(t, "value"), someLabels.Draw(t, "label")}
}

func someSlot(t *rapid.T) Slot { return Slot{somePort(t), someLabels.Draw(t, "label")} }

func someBlock(t *rapid.T) Block {
	label := someLabels.Draw(t, "label")
	switch rapid.IntRange(0, 2).Draw(t, "block") {
	case 0:
		return ValuesBlock{Label: label, Fields: rapid.MapOfN(someFields, rapid.Custom(someField), 0, 3).Draw(t, "fields")}
	case 1:
		return TextBlock{Label: label, Text: someTexts.Draw(t, "text")}
	default:
		return ResultsBlock{Label: label, Slots: rapid.MapOfN(someSlots, rapid.Custom(someSlot), 0, 3).Draw(t, "slots")}
	}
}

func someSource(t *rapid.T) ReportValue {
	return ReportValue{BlockKey: someBlocks.Draw(t, "blockKey"), FieldKey: someFields.Draw(t, "fieldKey")}
}

func someTarget(t *rapid.T) ReportResultSlot {
	return ReportResultSlot{BlockKey: someBlocks.Draw(t, "blockKey"), SlotKey: someSlots.Draw(t, "slotKey")}
}

func someConnection(t *rapid.T) Connection {
	return Connection{FlowTarget: someFlows.Draw(t, "flow"),
		Inputs: rapid.MapOfN(someMappings, rapid.Custom(func(t *rapid.T) InputMapping {
			return InputMapping{PortKey: somePorts.Draw(t, "port"), Source: someSource(t)}
		}), 0, 2).Draw(t, "inputs"),
		Results: rapid.MapOfN(someMappings, rapid.Custom(func(t *rapid.T) ResultMapping {
			return ResultMapping{PortKey: somePorts.Draw(t, "port"), Target: someTarget(t)}
		}), 0, 2).Draw(t, "results")}
}

// someDocument is in order but for its connections, which may lead anywhere.
func someDocument(t *rapid.T) Document {
	doc := Document{Format: Format, ReportKey: "r", Label: someLabels.Draw(t, "label"),
		Blocks:      rapid.MapOfN(someBlocks, rapid.Custom(someBlock), 0, 4).Draw(t, "blocks"),
		Connections: rapid.MapOfN(someConnections, rapid.Custom(someConnection), 0, 2).Draw(t, "connections")}
	doc.BlockOrder = rapid.Permutation(slices.Sorted(maps.Keys(doc.Blocks))).Draw(t, "order")
	return doc.canonical()
}

func someCommand(t *rapid.T) Command {
	block, field, slot := someBlocks.Draw(t, "blockKey"), someFields.Draw(t, "fieldKey"), someSlots.Draw(t, "slotKey")
	connection, mapping := someConnections.Draw(t, "connectionKey"), someMappings.Draw(t, "mappingKey")
	anchor := rapid.OneOf(rapid.Just(""), someBlocks).Draw(t, "afterBlockKey")
	switch rapid.IntRange(0, 13).Draw(t, "command") {
	case 0:
		return SetReportLabel{Label: someLabels.Draw(t, "label")}
	case 1:
		return AddBlock{BlockKey: block, Block: someBlock(t), AfterBlockKey: anchor}
	case 2:
		return RemoveBlock{BlockKey: block}
	case 3:
		return MoveBlock{BlockKey: block, AfterBlockKey: anchor}
	case 4:
		return AddField{BlockKey: block, FieldKey: field, Field: someField(t)}
	case 5:
		return RemoveField{BlockKey: block, FieldKey: field}
	case 6:
		value := someValues.Draw(t, "value")
		if value == nil {
			value = canon.Raw(`null`)
		}
		return SetFieldValue{BlockKey: block, FieldKey: field, Value: value}
	case 7:
		return AddSlot{BlockKey: block, SlotKey: slot, Slot: someSlot(t)}
	case 8:
		return RemoveSlot{BlockKey: block, SlotKey: slot}
	case 9:
		return SetText{BlockKey: block, Text: someTexts.Draw(t, "text")}
	case 10:
		return SetConnectionFlow{ConnectionKey: connection, FlowTarget: someFlows.Draw(t, "flow")}
	case 11:
		return SetReportFlowInputSource{ConnectionKey: connection, MappingKey: mapping, FlowTarget: someFlows.Draw(t, "flow"), PortKey: somePorts.Draw(t, "portKey"), Source: someSource(t)}
	case 12:
		return SetReportFlowResultTarget{ConnectionKey: connection, MappingKey: mapping, PortKey: somePorts.Draw(t, "portKey"), Target: someTarget(t)}
	default:
		return RemoveReportFlowMapping{ConnectionKey: connection, MappingKey: mapping}
	}
}

// covers: R1, P2, P3
func TestRandomCommandsOnRandomDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := someDocument(t)
		list := rapid.SliceOfN(rapid.Custom(someCommand), 1, 8).Draw(t, "commands")
		listed, err := canon.Encode(request{list})
		if err != nil {
			t.Fatal(err)
		}
		_, baseRef, _ := base.RevisionRef()
		next, touched, findings := Apply(&base, list)
		if _, ref, _ := base.RevisionRef(); ref != baseRef {
			t.Fatal("the base was changed")
		}
		if again, _ := canon.Encode(request{list}); string(again) != string(listed) {
			t.Fatal("a command was changed")
		}
		analysis, found, err := Validate(context.Background(), next, flows) // and does not panic
		if err != nil {
			t.Fatal(err)
		}
		Describe(next, analysis)
		for _, d := range found {
			if len(d.Path) > 10 && d.Path[:11] == "/blockOrder" {
				t.Fatalf("the order came apart: %s", show(found))
			}
		}
		canonical, ref, err := next.RevisionRef()
		if err != nil {
			t.Fatal(err)
		}
		// What is stored reads back as what it was.
		read, wrong := Decode(canonical)
		if len(wrong) > 0 {
			t.Fatalf("reading back: %s", show(wrong))
		}
		if _, again, _ := read.RevisionRef(); again != ref {
			t.Fatal("reading back gives another digest")
		}
		// The commands as a plan stores and apply reads them make the same.
		text, err := canon.Encode(request{Normalized(list)})
		if err != nil {
			t.Fatal(err)
		}
		var stored request
		if wrong := schema.Decode(text, &stored); len(wrong) > 0 {
			t.Fatalf("normalized commands: %s\n%s", show(wrong), text)
		}
		if twice, _ := canon.Encode(request{Normalized(stored.Commands)}); string(twice) != string(text) {
			t.Fatalf("normalizing again changes\n%s\n%s", text, twice)
		}
		again, touchedAgain, findingsAgain := Apply(&base, stored.Commands)
		if _, r, _ := again.RevisionRef(); r != ref || !slices.Equal(touched, touchedAgain) || show(findings) != show(findingsAgain) {
			t.Fatal("the normalized commands make another document, or other paths or findings")
		}
		// Every difference is at or below a touched path, no touched path is below
		// another, and with no difference the digest is the same.
		changes, err := Diff(&base, next)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if !slices.ContainsFunc(touched, func(path string) bool { return semantic.Within(c.Path, path) }) {
				t.Fatalf("%s %s is not covered by %q", c.Op, c.Path, touched)
			}
		}
		for _, a := range touched {
			for _, b := range touched {
				if a != b && semantic.Within(a, b) {
					t.Fatalf("touched has %s and %s", b, a)
				}
			}
		}
		if (len(changes) == 0) != (ref == baseRef) {
			t.Fatalf("%d changes, same digest %v", len(changes), ref == baseRef)
		}
		// Without the commands that were refused, the rest does the same.
		refused := map[int]bool{}
		for _, d := range findings {
			var i int
			if _, err := fmt.Sscanf(d.Path, "/commands/%d", &i); err != nil {
				t.Fatalf("path %s", d.Path)
			}
			refused[i] = true
		}
		var rest []Command
		for i, c := range list {
			if !refused[i] {
				rest = append(rest, c)
			}
		}
		if len(rest) > 0 {
			kept, _, more := Apply(&base, rest)
			if _, r, _ := kept.RevisionRef(); r != ref || len(more) > 0 {
				t.Fatalf("without the refused commands: another document, %s", show(more))
			}
		}
	})
}

// A single accepted command touches what differs and nothing else, unless it says
// what is already so.
//
// covers: P2
func TestOneCommandTouchesExactlyWhatItChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, c := someDocument(t), someCommand(t)
		next, touched, findings := Apply(&base, []Command{c})
		if len(findings) > 0 {
			if len(touched) > 0 {
				t.Fatalf("a refused command touched %q", touched)
			}
			return
		}
		changes, err := Diff(&base, next)
		// A mappingKey in both directions, which Validate refuses, is removed in both.
		most := 1
		if _, ok := c.(RemoveReportFlowMapping); ok {
			most = 2
		}
		if err != nil || len(touched) == 0 || len(touched) > most || len(changes) > len(touched) {
			t.Fatalf("%s: %v, touched %q, changed %v", c.Variant(), err, touched, changes)
		}
		for _, change := range changes {
			if !slices.Contains(touched, change.Path) {
				t.Fatalf("%s: touched %q, changed %v", c.Variant(), touched, changes)
			}
		}
	})
}

// covers: P2
func TestADiffReadsTheSameInBothDirections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := someDocument(t)
		b := a.canonical()
		if key := someBlocks.Draw(t, "changed"); rapid.Bool().Draw(t, "one block") && b.Blocks[key] != nil {
			b.Blocks[key] = someBlock(t) // mostly equal documents, so that small differences are met
			b = b.canonical()
		} else {
			b = someDocument(t)
		}
		changes, err := Diff(&a, b)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Diff(&b, a)
		if err != nil || len(back) != len(changes) {
			t.Fatalf("%d changes there, %d back, %v", len(changes), len(back), err)
		}
		inverse := map[string]string{semantic.OpAdd: semantic.OpRemove, semantic.OpRemove: semantic.OpAdd, semantic.OpReplace: semantic.OpReplace}
		for i, c := range changes {
			r := back[i]
			if r.Path != c.Path || r.Op != inverse[c.Op] || string(r.Before) != string(c.After) || string(r.After) != string(c.Before) {
				t.Fatalf("%v is not the inverse of %v", r, c)
			}
			if i > 0 && changes[i-1].Path >= c.Path {
				t.Fatalf("%s after %s", c.Path, changes[i-1].Path)
			}
		}
		_, refA, _ := a.RevisionRef()
		_, refB, _ := b.RevisionRef()
		if (len(changes) == 0) != (refA == refB) {
			t.Fatalf("%d changes, same digest %v", len(changes), refA == refB)
		}
	})
}

// Two plans that touch nothing in common make the same Report in either order,
// which is what a rebase rests on (P8). Order among new blocks is the exception
// that is meant: each stands where its own plan put it.
//
// covers: P2
func TestPlansThatTouchNothingInCommonDoNotDisturbEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := someDocument(t)
		a, b := []Command{someCommand(t)}, []Command{someCommand(t)}
		afterA, touchedA, foundA := Apply(&base, a)
		afterB, touchedB, foundB := Apply(&base, b)
		if len(foundA)+len(foundB) > 0 {
			return
		}
		for _, x := range touchedA {
			for _, y := range touchedB {
				if semantic.Within(x, y) || semantic.Within(y, x) {
					return
				}
			}
		}
		ab, _, foundA := Apply(&afterA, b)
		ba, _, foundB := Apply(&afterB, a)
		if len(foundA)+len(foundB) > 0 {
			// The other plan took away what this one needs: then it fails again, and says so.
			return
		}
		ab.BlockOrder, ba.BlockOrder = nil, nil
		x, _ := canon.Encode(ab)
		y, _ := canon.Encode(ba)
		if string(x) != string(y) {
			t.Fatalf("%s and %s:\n%s\n%s", a[0].Variant(), b[0].Variant(), x, y)
		}
	})
}

// A slot is listed as turning Stale exactly when it stays, had a basis and has
// another now.
//
// covers: R2
func TestStaleSlotsAreThoseWhoseBasisChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := someDocument(t)
		next, _, _ := Apply(&base, rapid.SliceOfN(rapid.Custom(someCommand), 1, 4).Draw(t, "commands"))
		owners := func(doc Document) map[ReportResultSlot]string {
			out := map[ReportResultSlot]string{}
			for _, key := range slices.Sorted(maps.Keys(doc.Connections)) {
				for _, m := range doc.Connections[key].Results {
					if _, twice := out[m.Target]; twice {
						out[m.Target] = "" // Validate refuses it
					} else {
						out[m.Target] = key
					}
				}
			}
			return out
		}
		before, after := owners(base), owners(next)
		stale, err := staleSlots(&base, next)
		if err != nil {
			t.Fatal(err)
		}
		listed := map[ReportResultSlot]bool{}
		for _, s := range stale {
			listed[ReportResultSlot{BlockKey: s.BlockKey, SlotKey: s.SlotKey}] = true
		}
		for slot, key := range before {
			if key == "" || after[slot] == "" && slices.Contains(slices.Collect(maps.Keys(after)), slot) {
				continue
			}
			was, _, err := Basis(base, key, slot)
			if err != nil {
				t.Fatal(err)
			}
			is := ""
			if after[slot] != "" {
				if is, _, err = Basis(next, after[slot], slot); err != nil {
					t.Fatal(err)
				}
			}
			_, stays := next.slot(slot)
			if listed[slot] != (stays && was != is) {
				t.Fatalf("%v: listed %v, stays %v, basis %s then %s", slot, listed[slot], stays, was, is)
			}
		}
	})
}

func TestFindingsComeInTheSameOrderEveryTime(t *testing.T) {
	doc := decode(t, connected(connection("c", on("check", "r1"), in("a", "basis.gone", "span")+`,`+in("b", "basis.name", "load")+`,`+in("d", "gone.x", "span"), out("z", "moment", "summary.ratio")+`,`+out("y", "shear", "summary.ratio"))+`,`+
		connection("e", on("gone", "r1"), ``, out("z", "moment", "summary.ratio"))+`,`+connection("f", on("check", "r2"), ``, ``)))
	_, first := validate(t, doc)
	_, inputs, _ := Inputs(context.Background(), doc, "c", flows)
	for range 20 {
		if _, again := validate(t, doc); encoded(t, again) != encoded(t, first) {
			t.Fatalf("%s\n%s", show(first), show(again))
		}
		if _, again, _ := Inputs(context.Background(), doc, "c", flows); encoded(t, again) != encoded(t, inputs) {
			t.Fatalf("%s\n%s", show(inputs), show(again))
		}
	}
}
