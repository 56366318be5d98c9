package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

func validate(t testing.TB, doc Document) (Analysis, outcome.Findings) {
	t.Helper()
	analysis, findings, err := Validate(context.Background(), doc, library)
	if err != nil {
		t.Fatal(err)
	}
	return analysis, findings
}

func result(key, contract, source string) string {
	port, binding, _ := strings.Cut(from("binding", source), ":")
	return fmt.Sprintf(`%q:{%s,%s:%s}`, key, contract, port, binding)
}

// covers: F5, E2
func TestEveryFindingOfADocumentHasItsPath(t *testing.T) {
	const meters, boolean = `"type":"number","unit":"m"`, `"type":"boolean"`
	literal := func(port, value string) string {
		return fmt.Sprintf(`%q:{"kind":"literal","value":%s}`, port, value)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                                       {document(``, ``, ``), ""},
		"two nodes in a row":                            {document(lengthInput, result("out", meters, "b.r"), node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "a.r"))), ""},
		"a dangling node":                               {document(``, ``, node("a", "length", from("a", "gone.r"))), "PX_REFERENCE_UNKNOWN /nodes/a/inputBindings/a/nodeKey"},
		"a dangling result of a node":                   {document(lengthInput, ``, node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "a.x"))), "PX_REFERENCE_UNKNOWN /nodes/b/inputBindings/a/portKey"},
		"a dangling public input":                       {document(``, ``, node("a", "length", from("a", "gone"))), "PX_REFERENCE_UNKNOWN /nodes/a/inputBindings/a/portKey"},
		"a dangling result binding":                     {document(``, result("out", meters, "gone.r"), ``), "PX_REFERENCE_UNKNOWN /results/out/binding/nodeKey"},
		"an input that the node does not have":          {document(lengthInput, ``, node("a", "length", from("a", "span"), from("z", "span"))), "PX_REFERENCE_UNKNOWN /nodes/a/inputBindings/z"},
		"the same, and dangling":                        {document(lengthInput, ``, node("a", "length", from("a", "span"), from("z", "gone"))), "PX_REFERENCE_UNKNOWN /nodes/a/inputBindings/z\nPX_REFERENCE_UNKNOWN /nodes/a/inputBindings/z/portKey"},
		"an input that is missing":                      {document(``, ``, node("a", "two")), "PX_BINDING_MISSING /nodes/a/inputBindings/a\nPX_BINDING_MISSING /nodes/a/inputBindings/b"},
		"a nullable input may be missing":               {document(``, ``, node("a", "perhaps")), ""},
		"an input with a default may be missing":        {document(``, ``, node("a", "defaults")), ""},
		"an unbound result":                             {document(``, `"out":{`+meters+`}`, ``), "PX_BINDING_MISSING /results/out/binding"},
		"an unknown function":                           {document(``, ``, node("a", "gone")), "PX_REFERENCE_UNKNOWN /nodes/a/target"},
		"an unknown function hides no dangling":         {document(``, ``, node("a", "gone", from("q", "gone"))), "PX_REFERENCE_UNKNOWN /nodes/a/inputBindings/q/portKey\nPX_REFERENCE_UNKNOWN /nodes/a/target"},
		"results of an unknown function are not judged": {document(``, result("out", meters, "a.r"), node("a", "gone")), "PX_REFERENCE_UNKNOWN /nodes/a/target"},
		"another digest of a function":                  {document(``, ``, `"a":{"target":{"kind":"function","functionKey":"perhaps","version":1,"digest":"e"}}`), "PX_REFERENCE_UNKNOWN /nodes/a/target"},
		"a third-party component":                       {document(``, ``, `"a":{"target":{"kind":"component","componentKey":"model_analysis","version":1}}`), "PX_COMPONENT_NOT_RUNNABLE /nodes/a/target"},
		"a first-party component that is none":          {document(``, ``, `"a":{"target":{"kind":"component","componentKey":"px.nothing","version":1}}`), "PX_REFERENCE_UNKNOWN /nodes/a/target"},
		"settings of a function":                        {document(``, ``, `"a":{"target":{"kind":"function","functionKey":"perhaps","version":1,"digest":"d"},"settings":{"k":1}}`), "PX_SCHEMA_UNKNOWN_FIELD /nodes/a/settings/k"},
		"kN into m":                                     {document(`"load":{"type":"number","unit":"kN"}`, ``, node("a", "length", from("a", "load"))), "PX_UNIT_MISMATCH /nodes/a/inputBindings/a"},
		"ft into m is converted":                        {document(`"span":{"type":"number","unit":"ft"}`, ``, node("a", "length", from("a", "span"))), "PX_UNIT_CONVERTED /nodes/a/inputBindings/a"},
		"text into a number":                            {document(`"name":{"type":"string"}`, ``, node("a", "length", from("a", "name"))), "PX_TYPE_MISMATCH /nodes/a/inputBindings/a"},
		"a scalar into a vector":                        {document(lengthInput, ``, node("a", "vector", from("a", "span"))), "PX_SHAPE_MISMATCH /nodes/a/inputBindings/a"},
		"perhaps null into a number":                    {document(``, ``, node("a", "perhaps")+`,`+node("b", "length", from("a", "a.r"))), "PX_NULLABILITY_MISMATCH /nodes/b/inputBindings/a"},
		"a result of another unit":                      {document(lengthInput, result("out", `"type":"number","unit":"mm"`, "a.r"), node("a", "length", from("a", "span"))), "PX_UNIT_CONVERTED /results/out/binding"},
		"a result of another type":                      {document(lengthInput, result("out", boolean, "a.r"), node("a", "length", from("a", "span"))), "PX_TYPE_MISMATCH /results/out/binding"},
		"a result straight from an input":               {document(lengthInput, result("out", meters, "span"), ``), ""},
		"a literal":                                     {document(``, ``, node("a", "length", literal("a", `{"value":1,"unit":"ft"}`))), ""},
		"a literal of another dimension":                {document(``, ``, node("a", "length", literal("a", `{"value":1,"unit":"kN"}`))), "PX_UNIT_MISMATCH /nodes/a/inputBindings/a/value/unit"},
		"a literal of another type":                     {document(``, ``, node("a", "count", literal("a", `{"value":1.5}`))), "PX_TYPE_MISMATCH /nodes/a/inputBindings/a/value/value"},
		"a literal with a unit where none is":           {document(``, ``, node("a", "count", literal("a", `{"value":1,"unit":"m"}`))), "PX_UNIT_MISMATCH /nodes/a/inputBindings/a/value/unit"},
		"an input port that is none":                    {document(`"span":{"type":"number","unit":"furlong"}`, ``, node("a", "length", from("a", "span"))), "PX_UNIT_MISMATCH /inputs/span/unit"},
		"a result port that is none":                    {document(``, result("out", `"type":"number"`, "gone"), ``), "PX_REFERENCE_UNKNOWN /results/out/binding/portKey\nPX_SCHEMA_INVALID /results/out/unit"},
		"a node bound to itself":                        {document(``, ``, node("a", "length", from("a", "a.r"))), "PX_BINDING_CYCLE /nodes/a/inputBindings/a"},
		"two cycles":                                    {document(``, ``, node("a", "length", from("a", "b.r"))+`,`+node("b", "length", from("a", "a.r"))+`,`+node("c", "length", from("a", "c.r"))), "PX_BINDING_CYCLE /nodes/a/inputBindings/a\nPX_BINDING_CYCLE /nodes/c/inputBindings/a"},
		"a cycle of unknown functions":                  {document(``, ``, node("a", "gone", from("x", "b.r"))+`,`+node("b", "gone", from("y", "a.r"))), "PX_BINDING_CYCLE /nodes/a/inputBindings/x\nPX_REFERENCE_UNKNOWN /nodes/a/target\nPX_REFERENCE_UNKNOWN /nodes/b/target"},
	} {
		_, findings := validate(t, decode(t, c.text))
		if got := show(findings); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// covers: F5, F1
func TestSettingsAndPortsOfComponentsAreChecked(t *testing.T) {
	const meters = `"a":{"unit":"m"}`
	base := decode(t, document(lengthInput+`,"load":{"type":"number","unit":"kN"}`, result("out", `"type":"number","unit":"m^2"`, "square.r"), formulaNode("square", "a * a", "m^2", meters, from("a", "span"))))
	if _, findings := validate(t, base); len(findings) > 0 {
		t.Fatal(show(findings))
	}
	set := func(key, value string) string {
		return `{"kind":"SetNodeSetting","nodeKey":"square","settingKey":"` + key + `","value":` + value + `}`
	}
	for name, c := range map[string]struct{ commands, want string }{
		"another expression":              {set("results", `{"r":{"expression":"2 * a ^ 2","unit":"ft^2"}}`), "PX_UNIT_CONVERTED /results/out/binding"},
		"units that do not add up":        {set("results", `{"r":{"expression":"a * a + a","unit":"m^2"}}`), "PX_UNIT_MISMATCH /nodes/square/settings/results/r/expression"},
		"a result of another unit":        {set("results", `{"r":{"expression":"a * a","unit":"m"}}`), "PX_UNIT_MISMATCH /nodes/square/settings/results/r/expression"},
		"a name that is none":             {set("results", `{"r":{"expression":"b","unit":"m^2"}}`), "PX_REFERENCE_UNKNOWN /nodes/square/settings/results/r/expression"},
		"a setting that is none":          {set("colour", `"red"`), "PX_SCHEMA_UNKNOWN_FIELD /nodes/square/settings/colour"},
		"no results":                      {set("results", `null`), "PX_SCHEMA_INVALID /nodes/square/settings/results"},
		"another result key":              {set("results", `{"q":{"expression":"a * a","unit":"m^2"}}`), "PX_REFERENCE_UNKNOWN /results/out/binding/portKey"},
		"another input key":               {set("inputs", `{"b":{"unit":"m"}}`) + `,` + set("results", `{"r":{"expression":"b * b","unit":"m^2"}}`), "PX_REFERENCE_UNKNOWN /nodes/square/inputBindings/a\nPX_BINDING_MISSING /nodes/square/inputBindings/b"},
		"a force into a length":           {`{"kind":"ConnectInput","nodeKey":"square","portKey":"a","binding":{"kind":"flowInput","portKey":"load"}}`, "PX_UNIT_MISMATCH /nodes/square/inputBindings/a"},
		"a version that is none":          {`{"kind":"ReplaceNodeTarget","nodeKey":"square","target":{"kind":"component","componentKey":"px.formula","version":2}}`, "PX_REFERENCE_UNKNOWN /nodes/square/target"},
		"a component with other settings": {`{"kind":"ReplaceNodeTarget","nodeKey":"square","target":{"kind":"component","componentKey":"px.envelope","version":1}}`, "PX_SCHEMA_INVALID /nodes/square/settings/cases\nPX_SCHEMA_UNKNOWN_FIELD /nodes/square/settings/inputs\nPX_SCHEMA_INVALID /nodes/square/settings/mode\nPX_SCHEMA_UNKNOWN_FIELD /nodes/square/settings/results\nPX_SCHEMA_INVALID /nodes/square/settings/unit"},
		"a node that others need is gone": {`{"kind":"RemoveNode","nodeKey":"square"}`, "PX_REFERENCE_UNKNOWN /results/out/binding/nodeKey"},
		"a node that others needed is gone, and they are bound anew": {`{"kind":"RemoveNode","nodeKey":"square"},{"kind":"RemoveResultPort","portKey":"out"}`, ""},
	} {
		next, _, findings := Apply(&base, commands(t, c.commands))
		if len(findings) > 0 {
			t.Fatalf("%s: %s", name, show(findings))
		}
		if _, findings := validate(t, next); show(findings) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, show(findings), c.want)
		}
	}
}

func TestSettingsAreGivenToComponentsInCanonicalForm(t *testing.T) {
	n := decode(t, document(``, ``, `"n":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"b":[1.0,{"z":1,"a":-0}],"aB":"x","a_b":null,"a":true}}`)).Nodes["n"]
	if got, want := string(settingsText(n.Settings)), encoded(t, n.Settings); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	if got := string(settingsText(nil)); got != `{}` {
		t.Errorf("no settings are %s", got)
	}
}

// covers: F5
func TestACycleIsToldOnceInTheOrderOfValues(t *testing.T) {
	// c feeds a, a feeds b, b feeds c.
	_, findings := validate(t, decode(t, document(``, ``, node("a", "two", from("a", "c.r"), from("b", "c.s"))+`,`+node("b", "two", from("a", "a.r"), from("b", "a.s"))+`,`+node("c", "two", from("a", "b.r"), from("b", "b.s")))))
	if show(findings) != "PX_BINDING_CYCLE /nodes/a/inputBindings/a" {
		t.Fatal(show(findings))
	}
	if got := findings[0].Params["nodeKeys"]; !slices.Equal(got.([]string), []string{"a", "b", "c"}) {
		t.Errorf("nodeKeys %v", got)
	}
}

// covers: F1
func TestLimitsAllowTheLimitAndRefuseOneMore(t *testing.T) {
	nodes := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = node(fmt.Sprintf("n%d", i), "perhaps")
		}
		return document(``, ``, strings.Join(parts, ","))
	}
	if _, findings := validate(t, decode(t, nodes(500))); len(findings) > 0 {
		t.Errorf("500 nodes: %s", show(findings))
	}
	_, findings := validate(t, decode(t, nodes(501)))
	if show(findings) != "PX_LIMIT_EXCEEDED /nodes" || findings[0].Params["limit"] != 500 || findings[0].Params["observed"] != 501 {
		t.Errorf("501 nodes: %s %v", show(findings), findings)
	}
	empty := decode(t, document(``, ``, ``))
	empty.Label = target.Label{"en": ""}
	canonical, _, err := empty.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	for over, want := range []string{"", "PX_LIMIT_EXCEEDED "} {
		doc := empty
		doc.Label = target.Label{"en": strings.Repeat("x", MaxBytes-len(canonical)+over)}
		if _, findings := validate(t, doc); show(findings) != want {
			t.Errorf("%d bytes over: %s", over, show(findings))
		}
	}
	if _, findings := Decode([]byte(strings.Repeat(" ", 5<<20))); show(findings) != "PX_LIMIT_EXCEEDED " {
		t.Errorf("a text without end: %s", show(findings))
	}
}

type brokenContracts struct{}

func (brokenContracts) Functions(context.Context, []FunctionTarget) (map[FunctionTarget]component.Contract, error) {
	return nil, errors.New("lost connection")
}

func TestAFailureOfTheMachineryIsNoFinding(t *testing.T) {
	_, findings, err := Validate(context.Background(), decode(t, document(``, ``, node("a", "length"))), brokenContracts{})
	if err == nil || len(findings) > 0 {
		t.Fatalf("%v, %s", err, show(findings))
	}
	if _, findings, err := Validate(context.Background(), decode(t, document(``, ``, node("a", "length"))), NoFunctions{}); err != nil || show(findings) != "PX_REFERENCE_UNKNOWN /nodes/a/target" {
		t.Fatalf("%v, %s", err, show(findings))
	}
}

// covers: F3
func TestChecksShowBothEndsOfEveryBinding(t *testing.T) {
	doc := decode(t, document(`"span":{"type":"number","unit":"ft"},"name":{"type":"string"}`, ``,
		node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "name"))+`,`+node("c", "vector", from("a", "a.r"))+`,`+node("d", "force", from("a", "a.r"))))
	analysis, _ := validate(t, doc)
	lines := make([]string, len(analysis.Checks))
	for i, c := range analysis.Checks {
		lines[i] = fmt.Sprint(c.Path, " ", c.Kind, " ", c.Producer, " ", c.Consumer, " ", c.Verdict)
	}
	want := `/nodes/a/inputBindings/a nullability not_nullable not_nullable fits
/nodes/a/inputBindings/a shape scalar scalar fits
/nodes/a/inputBindings/a type number number fits
/nodes/a/inputBindings/a unit ft m converted
/nodes/b/inputBindings/a nullability not_nullable not_nullable fits
/nodes/b/inputBindings/a shape scalar scalar fits
/nodes/b/inputBindings/a type string number mismatch
/nodes/c/inputBindings/a nullability not_nullable not_nullable fits
/nodes/c/inputBindings/a shape scalar [3] mismatch
/nodes/c/inputBindings/a type number number fits
/nodes/c/inputBindings/a unit m m fits
/nodes/d/inputBindings/a nullability not_nullable not_nullable fits
/nodes/d/inputBindings/a shape scalar scalar fits
/nodes/d/inputBindings/a type number number fits
/nodes/d/inputBindings/a unit m kN mismatch`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	after, _ := validate(t, decode(t, document(`"span":{"type":"number","unit":"in"},"name":{"type":"string"}`, ``,
		node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "name"))+`,`+node("c", "vector", from("a", "a.r"))+`,`+node("d", "force", from("a", "a.r")))))
	if changed := ChangedChecks(analysis, after, []string{"/inputs/span"}); len(changed) != 1 || changed[0].Producer != "in" {
		t.Errorf("a changed port shows %v", changed)
	}
	if changed := ChangedChecks(after, after, []string{"/nodes/b/inputBindings/aa", "/node"}); len(changed) != 0 {
		t.Errorf("paths that only begin alike show %v", changed)
	}
	if changed := ChangedChecks(after, after, []string{"/nodes/b"}); len(changed) != 3 || changed[0].Path != "/nodes/b/inputBindings/a" {
		t.Errorf("a touched node shows %v", changed)
	}
}

// covers: F3
func TestTheBoundaryDiffTellsWhatBreaksAReport(t *testing.T) {
	before := decode(t, document(`"a":{"type":"number","unit":"m"},"b":{"type":"number","unit":"m"},"c":{"type":"number","unit":"m"},"d":{"type":"number","unit":"m"},"gone":{"type":"boolean"},"n":{"type":"number","unit":"m","nullable":true}`,
		result("r", `"type":"number","unit":"m"`, "a")+`,`+result("s", `"type":"number","unit":"m"`, "a")+`,`+result("t", `"type":"number","unit":"m"`, "a"), ``))
	after := decode(t, document(`"a":{"type":"number","unit":"m"},"b":{"type":"number","unit":"ft"},"c":{"type":"number","unit":"kN"},"d":{"type":"number","unit":"m","nullable":true},"n":{"type":"number","unit":"m"},"new":{"type":"boolean"},"optional":{"type":"boolean","default":{"value":true}}`,
		result("r", `"type":"number","unit":"m"`, "b")+`,`+result("s", `"type":"number","unit":"m","nullable":true`, "a")+`,`+result("u", `"type":"number","unit":"m"`, "a"), ``))
	lines := []string{}
	for _, c := range BoundaryDiff(&before, after) {
		lines = append(lines, fmt.Sprint(c.Op, " ", c.Path, " ", c.Breaking))
		if (c.Before == nil) != (c.Op == semantic.OpAdd) || (c.After == nil) != (c.Op == semantic.OpRemove) {
			t.Errorf("%v", c)
		}
	}
	want := `replace /inputs/b false
replace /inputs/c true
replace /inputs/d false
remove /inputs/gone true
replace /inputs/n true
add /inputs/new true
add /inputs/optional false
replace /results/s true
remove /results/t true
add /results/u false`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, c := range BoundaryDiff(nil, after) {
		if c.Op != semantic.OpAdd || c.Breaking {
			t.Errorf("a new Flow breaks %v", c)
		}
	}
}

// graphDocument builds a document of n Nodes whose Functions accept anything:
// needs[i] lists the Nodes that Node i is bound to.
func graphDocument(needs [][]int) (Document, functions) {
	f := functions{}
	doc := Document{Format: Format, FlowKey: "graph", Authoring: Authoring{Kind: Native}, Inputs: map[string]quantity.Port{}, Results: map[string]ResultPort{}, Nodes: map[string]Node{}}
	for i, list := range needs {
		key := fmt.Sprintf("n%02d", i)
		contract := component.Contract{Inputs: map[string]quantity.Port{}, Results: map[string]quantity.Port{"r": number("m")}}
		n := Node{Target: function(key), InputBindings: map[string]Binding{}}
		for k, j := range list {
			port := fmt.Sprintf("p%d", k)
			contract.Inputs[port] = number("m")
			n.InputBindings[port] = NodeResult{NodeKey: fmt.Sprintf("n%02d", j), PortKey: "r"}
		}
		f[key], doc.Nodes[key] = contract, n
	}
	return doc, f
}

// reach is the transitive closure (Warshall): reach[i][j] when i needs j,
// directly or not.
func reach(needs [][]int) [][]bool {
	n := len(needs)
	out := make([][]bool, n)
	for i, list := range needs {
		out[i] = make([]bool, n)
		for _, j := range list {
			out[i][j] = true
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				out[i][j] = out[i][j] || out[i][k] && out[k][j]
			}
		}
	}
	return out
}

// covers: F5
func TestCyclesOfRandomGraphsAgreeWithTheTransitiveClosure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "nodes")
		needs := make([][]int, n)
		for i := range needs {
			needs[i] = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "needs")
		}
		doc, f := graphDocument(needs)
		analysis, findings, err := Validate(context.Background(), doc, f)
		if err != nil {
			t.Fatal(err)
		}
		closure := reach(needs)
		onCycle := map[string]bool{}
		for i := range n {
			if closure[i][i] {
				onCycle[fmt.Sprintf("n%02d", i)] = true
			}
		}
		named, seen := map[string]bool{}, map[string]bool{}
		for _, d := range findings {
			if d.Code != outcome.BindingCycle {
				t.Fatalf("%s", show(findings))
			}
			cycle := d.Params["nodeKeys"].([]string)
			if slices.Min(cycle) != cycle[0] || seen[strings.Join(cycle, " ")] || len(slices.Compact(slices.Sorted(slices.Values(cycle)))) != len(cycle) {
				t.Fatalf("cycle %v is told again, turned, or is not simple", cycle)
			}
			seen[strings.Join(cycle, " ")] = true
			for k, key := range cycle {
				named[key] = true
				next := doc.Nodes[cycle[(k+1)%len(cycle)]]
				feeds := false
				for _, b := range next.InputBindings {
					feeds = feeds || b.(NodeResult).NodeKey == key
				}
				if !feeds {
					t.Fatalf("cycle %v: %s does not feed the next", cycle, key)
				}
			}
		}
		if !slices.Equal(sorted(named), sorted(onCycle)) {
			t.Fatalf("cycles name %v, the closure says %v", sorted(named), sorted(onCycle))
		}
		if (analysis.Stages == nil) != (len(onCycle) > 0) {
			t.Fatalf("stages %v with %d nodes on cycles", analysis.Stages, len(onCycle))
		}
	})
}

func TestFindingsComeInTheSameOrderEveryTime(t *testing.T) {
	doc := decode(t, document(``, ``, node("a", "two")+`,`+node("b", "gone", from("x", "y"), from("z", "q.r"))+`,`+node("c", "length", from("a", "b.r"), from("k", "w"))+`,`+
		// Each of three needs both others: which cycles are told must not depend on
		// the order of a map.
		node("d", "two", from("a", "e.r"), from("b", "f.s"))+`,`+node("e", "two", from("a", "d.r"), from("b", "f.s"))+`,`+node("f", "two", from("a", "d.r"), from("b", "e.s"))))
	_, first := validate(t, doc)
	for range 20 {
		if _, again := validate(t, doc); encoded(t, again) != encoded(t, first) {
			t.Fatalf("%s\n%s", show(first), show(again))
		}
	}
}
