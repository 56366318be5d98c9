package flow

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Of any document and any two lists of commands on it: where the one rebases over
// the other, both orders make the same Flow; where it does not, the two wrote paths
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
func TestTheGrainOfConflictsIsOneBindingOneSettingOneNode(t *testing.T) {
	base := decode(t, document(lengthInput, result("out", `"type":"number","unit":"m"`, "b.r"), node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "a.r"))))
	const add = `{"kind":"AddNode","nodeKey":%q,"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"k":%d}}`
	for name, c := range map[string]struct{ theirs, mine, want string }{
		"different Nodes added":          {fmt.Sprintf(add, "x", 1), fmt.Sprintf(add, "y", 1), ""},
		"the same Node added":            {fmt.Sprintf(add, "x", 1), fmt.Sprintf(add, "x", 2), "/nodes/x"},
		"two settings of a Node":         {set("a", "k", 1), set("a", "l", 1), ""},
		"a setting twice":                {set("a", "k", 1), set("a", "k", 2), "/nodes/a/settings/k"},
		"a setting and a binding":        {set("a", "k", 1), `{"kind":"DisconnectInput","nodeKey":"a","portKey":"a"}`, ""},
		"a Node removed that they set":   {set("a", "k", 1), `{"kind":"RemoveNode","nodeKey":"a"}`, "/nodes/a"},
		"a Node set that they removed":   {`{"kind":"RemoveNode","nodeKey":"a"}`, `{"kind":"DisconnectInput","nodeKey":"a","portKey":"a"}`, "/nodes/a/inputBindings/a"},
		"a contract and its binding":     {`{"kind":"ChangeResultPort","portKey":"out","contract":{"type":"number","unit":"ft"}}`, `{"kind":"BindResult","portKey":"out","binding":{"kind":"nodeResult","nodeKey":"a","portKey":"r"}}`, "/results/out"},
		"a label and another":            {`{"kind":"SetFlowLabel","label":{"en":"x"}}`, `{"kind":"SetFlowLabel","label":{"ko":"가"}}`, "/label"},
		"what was made only for the now": {fmt.Sprintf(add, "x", 1), set("x", "k", 2), "/nodes/x"},
	} {
		head, _, found := Apply(&base, commands(t, c.theirs))
		if len(found) > 0 {
			t.Fatalf("%s: %s", name, show(found))
		}
		conflicts, err := Conflicts(base, head, commands(t, c.mine))
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

func set(node, key string, value int) string {
	return fmt.Sprintf(`{"kind":"SetNodeSetting","nodeKey":%q,"settingKey":%q,"value":%d}`, node, key, value)
}
