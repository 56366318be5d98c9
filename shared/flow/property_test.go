package flow

import (
	"context"
	"fmt"
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
	someNodes    = rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"})
	somePorts    = rapid.SampledFrom([]string{"a", "b", "r", "s"})
	someSettings = rapid.SampledFrom([]string{"k", "l"})
	someUnits    = rapid.SampledFrom([]string{"m", "ft", "kN", "1"})
	someLabels   = rapid.SampledFrom([]target.Label{nil, {}, {"en": "x"}, {"en": "x", "ko": "가"}})
	someValues   = rapid.SampledFrom([]canon.Raw{canon.Raw(`1`), canon.Raw(`{"value":1,"unit":"m"}`), canon.Raw(`[1,"a"]`), canon.Raw(`-0`), canon.Raw(`{}`)})
)

func somePort(t *rapid.T) quantity.Port {
	p := number(someUnits.Draw(t, "unit"))
	if rapid.Bool().Draw(t, "nullable") {
		p = nullable(p)
	}
	return p
}

func someBinding(t *rapid.T) Binding {
	switch rapid.IntRange(0, 2).Draw(t, "binding") {
	case 0:
		return FlowInput{PortKey: somePorts.Draw(t, "port")}
	case 1:
		return NodeResult{NodeKey: someNodes.Draw(t, "node"), PortKey: somePorts.Draw(t, "port")}
	default:
		return Literal{Value: someValues.Draw(t, "value")}
	}
}

func someTarget(t *rapid.T) Target {
	if rapid.Bool().Draw(t, "component") {
		return ComponentTarget{ComponentKey: "px.formula", Version: rapid.IntRange(1, 2).Draw(t, "version")}
	}
	return function(rapid.SampledFrom([]string{"length", "two"}).Draw(t, "function"))
}

func someNode(t *rapid.T) Node {
	n := Node{Target: someTarget(t), Label: someLabels.Draw(t, "label")}
	if rapid.Bool().Draw(t, "settings") {
		n.Settings = rapid.MapOfN(someSettings, someValues, 0, 2).Draw(t, "settings")
	}
	if rapid.Bool().Draw(t, "bindings") {
		n.InputBindings = rapid.MapOfN(somePorts, rapid.Custom(someBinding), 0, 3).Draw(t, "bindings")
	}
	return n
}

func someDocument(t *rapid.T) Document {
	doc := Document{Format: Format, FlowKey: "f", Label: someLabels.Draw(t, "label"), Authoring: Authoring{Kind: Native},
		Inputs:  rapid.MapOfN(somePorts, rapid.Custom(somePort), 0, 3).Draw(t, "inputs"),
		Results: map[string]ResultPort{},
		Nodes:   rapid.MapOfN(someNodes, rapid.Custom(someNode), 0, 4).Draw(t, "nodes")}
	for key, p := range rapid.MapOfN(somePorts, rapid.Custom(somePort), 0, 3).Draw(t, "results") {
		r := ResultPort{Port: p}
		if rapid.Bool().Draw(t, "bound") {
			r.Binding = someBinding(t)
		}
		doc.Results[key] = r
	}
	return doc.canonical()
}

func someCommand(t *rapid.T) Command {
	node, port := someNodes.Draw(t, "nodeKey"), somePorts.Draw(t, "portKey")
	switch rapid.IntRange(0, 13).Draw(t, "command") {
	case 0:
		return SetFlowLabel{Label: someLabels.Draw(t, "label")}
	case 1:
		n := someNode(t)
		return AddNode{NodeKey: node, Target: n.Target, Settings: n.Settings, InputBindings: n.InputBindings, Label: n.Label}
	case 2:
		return RemoveNode{NodeKey: node}
	case 3:
		return ReplaceNodeTarget{NodeKey: node, Target: someTarget(t)}
	case 4:
		value := someValues.Draw(t, "value")
		if rapid.Bool().Draw(t, "null") {
			value = canon.Raw(`null`)
		}
		return SetNodeSetting{NodeKey: node, SettingKey: someSettings.Draw(t, "settingKey"), Value: value}
	case 5:
		return ConnectInput{NodeKey: node, PortKey: port, Binding: someBinding(t)}
	case 6:
		return DisconnectInput{NodeKey: node, PortKey: port}
	case 7:
		return AddInputPort{PortKey: port, Contract: somePort(t)}
	case 8:
		return ChangeInputPort{PortKey: port, Contract: somePort(t)}
	case 9:
		return RemoveInputPort{PortKey: port}
	case 10:
		return AddResultPort{PortKey: port, Contract: somePort(t)}
	case 11:
		return ChangeResultPort{PortKey: port, Contract: somePort(t)}
	case 12:
		return RemoveResultPort{PortKey: port}
	default:
		return BindResult{PortKey: port, Binding: someBinding(t)}
	}
}

// covers: F1, P2, P3
func TestRandomCommandsOnRandomDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := someDocument(t)
		list := rapid.SliceOfN(rapid.Custom(someCommand), 1, 8).Draw(t, "commands")
		_, baseRef, _ := base.RevisionRef()
		next, touched, findings := Apply(&base, list)
		if _, ref, _ := base.RevisionRef(); ref != baseRef {
			t.Fatal("the base was changed")
		}
		if _, _, err := Validate(context.Background(), next, library); err != nil { // and does not panic
			t.Fatal(err)
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
		refused := map[string]bool{}
		for _, d := range findings {
			var i int
			if _, err := fmt.Sscanf(d.Path, "/commands/%d", &i); err != nil {
				t.Fatalf("path %s", d.Path)
			}
			refused[fmt.Sprint(i)] = true
		}
		var rest []Command
		for i, c := range list {
			if !refused[fmt.Sprint(i)] {
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
		if err != nil || len(touched) != 1 || len(changes) > 1 || len(changes) == 1 && changes[0].Path != touched[0] {
			t.Fatalf("%s: %v, touched %q, changed %v", c.Variant(), err, touched, changes)
		}
	})
}

// filled writes out what may be left out because it is empty.
func filled(doc Document) Document {
	doc = doc.canonical()
	doc.Label = orEmpty(doc.Label)
	for key, n := range doc.Nodes {
		n.Label, n.Settings, n.InputBindings = orEmpty(n.Label), orEmpty(n.Settings), orEmpty(n.InputBindings)
		doc.Nodes[key] = n
	}
	return doc
}

// covers: P2
func TestADiffSaysEnoughToMakeOneDocumentFromTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := someDocument(t)
		b := a.canonical()
		if key := someNodes.Draw(t, "changed"); rapid.Bool().Draw(t, "one node") {
			b.Nodes[key] = someNode(t) // mostly equal documents, so that small differences are met
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
		// Nothing but what is empty in one and left out in the other is no change.
		a, b = filled(a), filled(b)
		_, refA, _ := a.RevisionRef()
		_, refB, _ := b.RevisionRef()
		if (len(changes) == 0) != (refA == refB) {
			t.Fatalf("%d changes, same digest %v", len(changes), refA == refB)
		}
		if none, _ := Diff(&a, a); len(none) > 0 {
			t.Fatalf("a document differs from itself: %v", none)
		}
	})
}

// covers: F5
func TestStagesAreThePossibleOrderWithTheFewestSandboxJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "nodes")
		needs := make([][]int, n)
		python := make([]bool, n)
		for i := range needs {
			if i > 0 {
				needs[i] = rapid.SliceOfN(rapid.IntRange(0, i-1), 0, 3).Draw(t, "needs")
			}
			python[i] = rapid.Bool().Draw(t, "python")
		}
		doc, _ := graphDocument(needs)
		for i, p := range python {
			if !p {
				key := fmt.Sprintf("n%02d", i)
				node := doc.Nodes[key]
				node.Target = ComponentTarget{ComponentKey: "px.formula", Version: 1}
				doc.Nodes[key] = node
			}
		}
		g := graphOf(doc)
		order, acyclic := g.order()
		if !acyclic {
			t.Fatal("the graph has no cycle")
		}
		stage, position, count := map[string]int{}, map[string]int{}, 0
		for s, st := range stages(doc, g, order) {
			if s > 0 && stages(doc, g, order)[s-1].Kind == BuiltinStage && st.Kind == BuiltinStage {
				t.Fatal("two built-in stages in a row")
			}
			for _, key := range st.NodeKeys {
				stage[key], position[key] = s, count
				count++
				_, isFunction := doc.Nodes[key].Target.(FunctionTarget)
				if isFunction != (st.Kind == SandboxStage) {
					t.Fatalf("%s is in a %s stage", key, st.Kind)
				}
			}
		}
		if count != n || len(stage) != n {
			t.Fatalf("%d of %d Nodes have a stage", len(stage), n)
		}
		// chain[i] is the longest chain of Functions that ends in i.
		chain := make([]int, n)
		longest, jobs := 0, 0
		for i := range n {
			for _, j := range needs[i] {
				chain[i] = max(chain[i], chain[j])
				a, b := fmt.Sprintf("n%02d", j), fmt.Sprintf("n%02d", i)
				if position[a] >= position[b] || python[j] && stage[a] >= stage[b] {
					t.Fatalf("%s does not come before %s", a, b)
				}
			}
			if python[i] {
				chain[i]++
			}
			longest = max(longest, chain[i])
		}
		for _, st := range stages(doc, g, order) {
			if st.Kind == SandboxStage {
				jobs++
			}
		}
		if jobs != longest {
			t.Fatalf("%d sandbox jobs for a chain of %d", jobs, longest)
		}
	})
}

// covers: D1
func TestADescriptionTellsTheStateOfEveryBinding(t *testing.T) {
	doc := decode(t, document(`"span":{"type":"number","unit":"ft"},"name":{"type":"string"}`, result("out", `"type":"number","unit":"m"`, "a.r")+`,"free":{"type":"boolean"}`,
		node("a", "two", from("a", "span"))+`,`+node("b", "length", from("a", "name"))+`,`+node("c", "length", from("a", "gone.r"), from("z", "span"))+`,`+
			node("d", "defaults")+`,`+node("e", "gone", from("x", "span"))+`,`+node("f", "length", from("a", "e.r"))+`,`+node("g", "length", from("a", "a.r"))))
	analysis, _ := validate(t, doc)
	d := Describe(doc, analysis)
	got := map[string]BindingState{}
	for key, r := range d.Results {
		got[key] = r.State
	}
	for key, n := range d.Nodes {
		for port, in := range n.Inputs {
			got[key+"."+port] = in.State
			if (in.Contract == nil) != (key == "e" || port == "z") {
				t.Errorf("%s.%s has the contract %v", key, port, in.Contract)
			}
		}
	}
	want := map[string]BindingState{"out": Connected, "free": Missing, "a.a": Converted, "a.b": Missing, "b.a": Mismatch, "c.a": Dangling, "c.z": Dangling,
		"d.a": Defaulted, "e.x": Unchecked, "f.a": Unchecked, "g.a": Connected}
	if encoded(t, got) != encoded(t, want) {
		t.Errorf(" got %s\nwant %s", encoded(t, got), encoded(t, want))
	}
	if len(d.Dependencies) != 4 || encoded(t, d.Dependencies[1]) != `{"available":false,"nodeKeys":["e"],"target":{"digest":"d","functionKey":"gone","kind":"function","version":1}}` {
		t.Errorf("dependencies %s", encoded(t, d.Dependencies))
	}
}

func TestSearchTextHasKeysLabelsPortsAndUnits(t *testing.T) {
	doc := decode(t, `{"format":"pxflow/1","flowKey":"girder","label":{"en":"Girder check","ko":"거더 검토"},"authoring":{"kind":"native"},
		"inputs":{"span":{"type":"number","unit":"ft"}},"results":{"rows":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"kN*m"}]}},
		"nodes":{"moment":{"target":{"kind":"component","componentKey":"px.formula","version":1},"label":{"de":"Moment"}},"check":{"target":{"kind":"function","functionKey":"resistance","version":1,"digest":"d"}}}}`)
	if got, want := encoded(t, SearchText(doc)), `["Girder check","Moment","check","ft","girder","kN*m","moment","px.formula","resistance","rows","span","거더 검토"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
