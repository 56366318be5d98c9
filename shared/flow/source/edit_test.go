package source

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
)

const girder = `import px

flow = px.flow("girder")
span = flow.input("span", px.number(unit="m"))  # 경간
load = flow.input("load", px.number(unit="kN/m"))

# The first.
a = flow.node("a", px.component("px.formula", 1), settings={
	"one": 1,  # kept
	"two": 2
})
flow.connect(a.input("x"), span)
b = flow.node("b", px.component("px.formula", 1))  # the second

# results
flow.result("r", px.number(unit="m"), a.output("y"))
`

func commands(t *testing.T, text string) []flow.Command {
	t.Helper()
	var request struct {
		Commands []flow.Command `json:"commands"`
	}
	if findings := schema.Decode([]byte(`{"commands":[`+text+`]}`), &request); findings != nil {
		t.Fatalf("%s: %s", text, show(findings))
	}
	return request.Commands
}

// Every command of a Flow, and what exactly it makes of the lines. Lines that are not
// told are those of girder.
//
// covers: F4
func TestEachCommandEditsItsStatement(t *testing.T) {
	reader := pythontest.Reader(t)
	before := reading(t, reader, girder)
	for name, c := range map[string]struct {
		commands string
		old, new string // what is replaced, by what; "" and a text: appended
	}{
		"a label":               {`{"kind":"SetFlowLabel","label":{"ko":"거더","en":"a \"b\""}}`, `px.flow("girder")`, `px.flow("girder", label={"en": "a \"b\"", "ko": "거더"})`},
		"an input":              {`{"kind":"AddInputPort","portKey":"if","contract":{"type":"integer","nullable":true}}`, "\n\n# The first.", "\nif_input = flow.input(\"if\", px.integer(nullable=True))\n\n# The first."},
		"a contract":            {`{"kind":"ChangeInputPort","portKey":"span","contract":{"type":"number","unit":"ft","constraints":{"minimum":0.5,"exclusiveMaximum":1e22}}}`, `"span", px.number(unit="m")`, `"span", px.number(unit="ft", minimum=0.5, exclusive_maximum=1e+22)`},
		"no input":              {`{"kind":"RemoveInputPort","portKey":"load"}`, "load = flow.input(\"load\", px.number(unit=\"kN/m\"))\n", ""},
		"a target":              {`{"kind":"ReplaceNodeTarget","nodeKey":"b","target":{"kind":"function","functionKey":"f","version":3,"digest":"sha256:1"}}`, `"b", px.component("px.formula", 1)`, `"b", px.function("f", 3, "sha256:1")`},
		"a setting":             {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"one","value":[true,null,-0.5]}`, `"one": 1,`, `"one": [True, None, -0.5],`},
		"a new setting":         {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"three","value":{"b":"#","a":"\n"}}`, "\"two\": 2\n", "\"two\": 2,\n\t\"three\": {\"a\": \"\\n\", \"b\": \"#\"}\n"},
		"a first setting":       {`{"kind":"SetNodeSetting","nodeKey":"b","settingKey":"one","value":1}`, `px.component("px.formula", 1))  # the`, `px.component("px.formula", 1), settings={"one": 1})  # the`},
		"no setting":            {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"one","value":null}`, "\t\"one\": 1,  # kept\n", ""},
		"no last setting":       {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"two","value":null}`, "\t\"two\": 2\n", ""},
		"a setting for another": {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"two","value":null},{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"six","value":6}`, "\t\"two\": 2\n", "\t\"six\": 6,\n"},
		"a binding":             {`{"kind":"ConnectInput","nodeKey":"a","portKey":"x","binding":{"kind":"flowInput","portKey":"load"}}`, `a.input("x"), span`, `a.input("x"), load`},
		"a literal":             {`{"kind":"ConnectInput","nodeKey":"a","portKey":"x","binding":{"kind":"literal","value":{"value":1,"unit":"ft"}}}`, `a.input("x"), span`, `a.input("x"), px.literal({"unit": "ft", "value": 1})`},
		"a binding to what is below": {`{"kind":"ConnectInput","nodeKey":"a","portKey":"x","binding":{"kind":"nodeResult","nodeKey":"b","portKey":"y"}}`,
			"flow.connect(a.input(\"x\"), span)\nb = flow.node(\"b\", px.component(\"px.formula\", 1))  # the second\n", "b = flow.node(\"b\", px.component(\"px.formula\", 1))  # the second\nflow.connect(a.input(\"x\"), b.output(\"y\"))\n"},
		"a new binding": {`{"kind":"ConnectInput","nodeKey":"a","portKey":"z","binding":{"kind":"flowInput","portKey":"span"}}`, `a.input("x"), span)`, "a.input(\"x\"), span)\nflow.connect(a.input(\"z\"), span)"},
		"no binding":    {`{"kind":"DisconnectInput","nodeKey":"a","portKey":"x"}`, "flow.connect(a.input(\"x\"), span)\n", ""},
		"a Node": {`{"kind":"AddNode","nodeKey":"span","target":{"kind":"component","componentKey":"px.convert","version":1},"settings":{"to":"m"},"inputBindings":{"v":{"kind":"nodeResult","nodeKey":"b","portKey":"y"},"u":{"kind":"flowInput","portKey":"span"}}}`,
			"# the second\n", "# the second\nspan_node = flow.node(\"span\", px.component(\"px.convert\", 1), settings={\"to\": \"m\"})\nflow.connect(span_node.input(\"u\"), span)\nflow.connect(span_node.input(\"v\"), b.output(\"y\"))\n"},
		"Nodes of which the first needs the last": {`{"kind":"AddNode","nodeKey":"c","target":{"kind":"component","componentKey":"px.convert","version":1},"inputBindings":{"v":{"kind":"nodeResult","nodeKey":"d","portKey":"y"}}},{"kind":"AddNode","nodeKey":"d","target":{"kind":"component","componentKey":"px.convert","version":1}}`,
			"# the second\n", "# the second\nd = flow.node(\"d\", px.component(\"px.convert\", 1))\nc = flow.node(\"c\", px.component(\"px.convert\", 1))\nflow.connect(c.input(\"v\"), d.output(\"y\"))\n"},
		"no Node":           {`{"kind":"RemoveNode","nodeKey":"b"}`, "b = flow.node(\"b\", px.component(\"px.formula\", 1))  # the second\n", ""},
		"a Node for itself": {`{"kind":"RemoveNode","nodeKey":"b"},{"kind":"AddNode","nodeKey":"b","target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"s":1}}`, `px.component("px.formula", 1))  # the`, `px.component("px.formula", 1), settings={"s": 1})  # the`},
		"a result": {`{"kind":"AddResultPort","portKey":"s","contract":{"type":"boolean"}},{"kind":"BindResult","portKey":"s","binding":{"kind":"nodeResult","nodeKey":"b","portKey":"y"}}`, "",
			"flow.result(\"s\", px.boolean(), b.output(\"y\"))\n"},
		"a result's contract":  {`{"kind":"ChangeResultPort","portKey":"r","contract":{"type":"number","unit":"mm"}}`, `"r", px.number(unit="m")`, `"r", px.number(unit="mm")`},
		"no result":            {`{"kind":"RemoveResultPort","portKey":"r"}`, "flow.result(\"r\", px.number(unit=\"m\"), a.output(\"y\"))\n", ""},
		"a result's binding":   {`{"kind":"BindResult","portKey":"r","binding":{"kind":"nodeResult","nodeKey":"b","portKey":"z"}}`, `a.output("y")`, `b.output("z")`},
		"nothing, in the end":  {`{"kind":"AddInputPort","portKey":"n","contract":{"type":"boolean"}},{"kind":"RemoveInputPort","portKey":"n"},{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"one","value":1}`, "", ""},
		"a long contract":      {`{"kind":"ChangeInputPort","portKey":"load","contract":{"type":"number","unit":"kN/m","shape":"scalar","nullable":false,"quantityKind":"line_load","constraints":{"minimum":0,"maximum":1000}}}`, `px.number(unit="kN/m"))`, "px.number(\n    unit=\"kN/m\",\n    shape=\"scalar\",\n    nullable=False,\n    minimum=0,\n    maximum=1000,\n    quantity_kind=\"line_load\",\n))"},
		"what cannot be seen":  {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"one","value":"\u200b\u00a0\u202e\ud83c\udf09\u0007"}`, `"one": 1,`, `"one": "\u200b\xa0\u202e🌉\x07",`},
		"numbers of all sizes": {`{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"one","value":[1e20,0.1,-0,5e-324,9007199254740991]}`, `"one": 1,`, `"one": [1e+20, 0.1, 0, 5e-324, 9007199254740991],`},
	} {
		want := strings.Replace(girder, c.old, c.new, 1)
		if c.old == "" {
			want = girder + c.new
		}
		if c.old != "" && want == girder {
			t.Fatalf("%s: %q is not there", name, c.old)
		}
		for _, eol := range []string{"\n", "\r\n"} {
			text, want := strings.ReplaceAll(girder, "\n", eol), strings.ReplaceAll(want, "\n", eol)
			r := before
			if eol != "\n" {
				r = reading(t, reader, text)
			}
			after, _, findings := flow.Apply(&r.Document, commands(t, c.commands))
			if findings != nil {
				t.Fatalf("%s: %s", name, show(findings))
			}
			got, err := Edit(text, r, after)
			if err != nil || got != want {
				t.Errorf("%s: %v\n got %q\nwant %q", name, err, got, want)
			}
		}
	}
}

// Sources that differ from girder in what an edit has to keep.
//
// covers: F4
func TestAnEditKeepsWhatIsBesideIt(t *testing.T) {
	reader := pythontest.Reader(t)
	labelled := strings.Replace(girder, `px.flow("girder")`, `px.flow("girder", label={"en": "A"})`, 1)
	// One statement, written by another editor, ends its lines in another way.
	from, to := strings.Index(girder, "a = flow.node("), strings.Index(girder, "flow.connect(")
	mixed := girder[:from] + strings.ReplaceAll(girder[from:to], "\n", "\r\n") + girder[to:]
	for name, c := range map[string]struct{ text, commands, old, new string }{
		"a label that goes":                 {labelled, `{"kind":"SetFlowLabel","label":{}}`, `, label={"en": "A"}`, ""},
		"a label that becomes another":      {labelled, `{"kind":"SetFlowLabel","label":{"ko":"나"}}`, `{"en": "A"}`, `{"ko": "나"}`},
		"an entry among lines with CRLF":    {mixed, `{"kind":"SetNodeSetting","nodeKey":"a","settingKey":"three","value":3}`, "\"two\": 2\r\n", "\"two\": 2,\r\n\t\"three\": 3\r\n"},
		"a statement behind one with CRLF":  {mixed, `{"kind":"ConnectInput","nodeKey":"a","portKey":"z","binding":{"kind":"flowInput","portKey":"span"}}`, "span)\nb =", "span)\nflow.connect(a.input(\"z\"), span)\nb ="},
		"an entry of a statement before it": {mixed, `{"kind":"ChangeInputPort","portKey":"load","contract":{"type":"boolean"}}`, `"load", px.number(unit="kN/m")`, `"load", px.boolean()`},
	} {
		r := reading(t, reader, c.text)
		after, _, findings := flow.Apply(&r.Document, commands(t, c.commands))
		if findings != nil {
			t.Fatalf("%s: %s", name, show(findings))
		}
		want := strings.Replace(c.text, c.old, c.new, 1)
		if got, err := Edit(c.text, r, after); err != nil || got != want || want == c.text {
			t.Errorf("%s: %v\n got %q\nwant %q", name, err, got, want)
		}
	}
}

// What has no form in Python is refused by name, and nothing is left out silently.
//
// covers: F4
func TestAContractWithoutAFormInPythonIsRefused(t *testing.T) {
	reader := pythontest.Reader(t)
	r := reading(t, reader, girder)
	one := 1
	for name, c := range map[string]struct {
		contract     quantity.Port
		path, member string
	}{
		"empty constraints":              {quantity.Port{Type: quantity.NumberType, Unit: "m", Constraints: &quantity.Constraints{}}, "/inputs/n", "constraints"},
		"bounds of items in constraints": {quantity.Port{Type: quantity.ListType, Of: &quantity.Port{Type: quantity.BooleanType}, Constraints: &quantity.Constraints{MinItems: &one}}, "/inputs/n", "constraints.minItems"},
		"either, within":                 {quantity.Port{Type: quantity.RecordType, Fields: map[string]quantity.Port{"f": {Type: quantity.StringType, Constraints: &quantity.Constraints{}}}}, "/inputs/n", "constraints"},
	} {
		p, findings, err := Propose(context.Background(), reader, &r.Document, girder, []flow.Command{flow.AddInputPort{PortKey: "n", Contract: c.contract}}, flow.NoFunctions{})
		if err != nil || len(findings) != 1 || findings[0].Code != outcome.SourceInvalid || findings[0].Path != c.path || findings[0].Params["reason"] != "contract_not_writable" || findings[0].Params["member"] != c.member || p.Source != nil {
			t.Errorf("%s: %v %+v", name, err, findings)
		}
	}
}

// A source names the Project's Functions alone: a package's is refused by name, whether
// or not it is installed, when a Node is placed and when a Flow is saved first.
//
// covers: F4, T4
func TestAFunctionOfAPackageHasNoFormInPython(t *testing.T) {
	reader := pythontest.Reader(t)
	r := reading(t, reader, girder)
	const target = `{"kind":"function","functionKey":"f","version":1,"digest":"sha256:f","package":{"packageKey":"p","version":"1.0.0","digest":"sha256:p"}}`
	refused := func(findings outcome.Findings, path string) bool {
		return len(findings) == 1 && findings[0].Code == outcome.SourceInvalid && findings[0].Path == path && findings[0].Params["reason"] == "package_function_not_writable"
	}
	for _, command := range []string{`{"kind":"AddNode","nodeKey":"c","target":` + target + `}`, `{"kind":"ReplaceNodeTarget","nodeKey":"c","target":` + target + `}`} {
		base, text := r.Document, girder
		if strings.Contains(command, "Replace") {
			text = strings.Replace(girder, "\n# results", `c = flow.node("c", px.component("px.formula", 1))`+"\n\n# results", 1)
			base = reading(t, reader, text).Document
		}
		base.Authoring.SourceDigest = Digest(text)
		if _, findings, err := Propose(context.Background(), reader, &base, text, commands(t, command), flow.NoFunctions{}); err != nil || !refused(findings, "/nodes/c/target/package") {
			t.Errorf("%s: %v %v", command, err, findings)
		}
	}
	text := "import px\n\nflow = px.flow(\"f\")\nx = flow.input(\"x\", px.number(unit=\"m\"))\nn = flow.node(\"n\", px.function(\"f\", 1, \"sha256:f\"))\nflow.connect(n.input(\"x\"), x)\nflow.result(\"y\", px.number(unit=\"m\"), n.output(\"y\"))\n"
	document := reading(t, reader, text).Document
	document.Format, document.Authoring = flow.Format, flow.Authoring{Kind: flow.SDK, SourceDigest: Digest(text)}
	is := flow.FunctionTarget{FunctionKey: "f", Version: 1, Digest: "sha256:f"}
	ports := map[string]quantity.Port{"x": {Type: quantity.NumberType, Unit: "m"}}
	contracts := flow.Known{is: {Inputs: ports, Results: map[string]quantity.Port{"y": {Type: quantity.NumberType, Unit: "m"}}}}
	create := func() (outcome.Findings, error) {
		_, findings, err := Propose(context.Background(), reader, nil, "", []flow.Command{flow.CreateFlow{Document: document, Source: text}}, contracts)
		return findings, err
	}
	if findings, err := create(); err != nil || findings.Refused() {
		t.Fatal(err, findings)
	}
	owned := is
	owned.Package.PackageKey, owned.Package.Version, owned.Package.Digest = "p", "1.0.0", "sha256:p"
	node := document.Nodes["n"]
	node.Target = owned
	document.Nodes = map[string]flow.Node{"n": node}
	contracts[owned] = contracts[is]
	if findings, err := create(); err != nil || !refused(findings, "/commands/0/document/nodes/n/target/package") {
		t.Errorf("%v %v", err, findings)
	}
}

// lying is a reader that answers something else than what a source says, from some
// call on.
type lying struct {
	Reader
	calls, from int
	answer      func(python.Reply) (python.Reply, error)
}

func (l *lying) ReadAll(ctx context.Context, requests []python.Request) ([]python.Reply, error) {
	replies, err := l.Reader.ReadAll(ctx, requests)
	if l.calls++; err == nil && l.calls >= l.from {
		replies[0], err = l.answer(replies[0])
	}
	return replies, err
}

// Whether an edit is right is found by reading it again, and not by believing it.
//
// covers: F4, P5
func TestAnEditThatDoesNotSayWhatTheDocumentSaysIsRefused(t *testing.T) {
	reader := pythontest.Reader(t)
	text := strings.Replace(girder, "settings={\n\t\"one\": 1,  # kept\n\t\"two\": 2\n}", `settings={"inputs": {"x": {"unit": "m"}}, "results": {"y": {"expression": "x", "unit": "m"}}}`, 1)
	text = strings.Replace(text, "b = flow.node(\"b\", px.component(\"px.formula\", 1))  # the second\n", "", 1)
	r := reading(t, reader, text)
	label := commands(t, `{"kind":"SetFlowLabel","label":{"en":"x"}}`)
	p, findings, err := Propose(t.Context(), reader, &r.Document, text, label, flow.NoFunctions{})
	if err != nil || findings.Refused() || p.Source == nil || p.Source.Before != Digest(text) || p.Source.Digest != Digest(p.Source.Text) || p.Document.Authoring.SourceDigest != p.Source.Digest {
		t.Fatalf("%v %s %+v", err, show(findings), p.Source)
	}
	another := func(reply python.Reply) (python.Reply, error) {
		reply.Flow = canon.Raw(strings.Replace(string(reply.Flow), `"unit":"kN/m"`, `"unit":"kN/mm"`, 1))
		if !strings.Contains(string(reply.Flow), "kN/mm") {
			reply.Flow = canon.Raw(strings.Replace(string(reply.Flow), `"unit": "kN/m"`, `"unit": "kN/mm"`, 1))
		}
		return reply, nil
	}
	for name, c := range map[string]struct {
		from int
		want string
	}{"the base": {1, "PX_SOURCE_PARITY /target/inputs/load"}, "the result": {2, "PX_SOURCE_PARITY /inputs/load"}} {
		p, findings, err := Propose(t.Context(), &lying{Reader: reader, from: c.from, answer: another}, &r.Document, text, label, flow.NoFunctions{})
		if err != nil || show(findings) != c.want || p.Source != nil {
			t.Errorf("%s: %v %s", name, err, show(findings))
		}
	}
	broken := errors.New("no answer")
	for from := 1; from <= 2; from++ {
		if _, _, err := Propose(t.Context(), &lying{Reader: reader, from: from, answer: func(python.Reply) (python.Reply, error) { return python.Reply{}, broken }}, &r.Document, text, label, flow.NoFunctions{}); !errors.Is(err, broken) {
			t.Errorf("a reader that breaks at call %d: %v", from, err)
		}
	}
	// An edit that leaves something dangling is told as of any Flow.
	_, findings, err = Propose(t.Context(), reader, &r.Document, text, commands(t, `{"kind":"RemoveInputPort","portKey":"span"}`), flow.NoFunctions{})
	if err != nil || !strings.Contains(show(findings), "/nodes/a/inputBindings/x") {
		t.Errorf("%v %s", err, show(findings))
	}
	for _, none := range []Reader{nil, &lying{Reader: reader, from: 1, answer: func(python.Reply) (python.Reply, error) { return python.Reply{}, python.ErrUnavailable }}} {
		if _, findings, err := Propose(t.Context(), none, &r.Document, text, label, flow.NoFunctions{}); err != nil || show(findings) != "PX_SANDBOX_UNAVAILABLE /target python_missing" {
			t.Errorf("%v %s", err, show(findings))
		}
	}
}

// covers: F4, N5
func TestManyFlowsAreRetargetedInTheirSources(t *testing.T) {
	reader := pythontest.Reader(t)
	r := reading(t, reader, girder)
	next := flow.FunctionTarget{FunctionKey: "f", Version: 2, Digest: "sha256:2"}
	var moves []Move
	for range python.MaxItems + 3 { // more than one request
		moves = append(moves, Move{Document: r.Document, Source: girder, Targets: map[string]flow.Target{"b": next}})
	}
	moves[1].Source = strings.Replace(girder, "kN/m", "N/m", 1)
	moves[2].Source = "import os"
	moved, err := Retarget(t.Context(), reader, moves)
	if err != nil || len(moved) != len(moves) {
		t.Fatal(err)
	}
	want := strings.Replace(girder, `"b", px.component("px.formula", 1)`, `"b", px.function("f", 2, "sha256:2")`, 1)
	for i, m := range moved {
		switch {
		case i == 1:
			if show(m.Findings) != "PX_SOURCE_PARITY /authoring\nPX_SOURCE_PARITY /inputs/load" {
				t.Errorf("another source: %s", show(m.Findings))
			}
		case i == 2:
			if show(m.Findings) != "PX_SOURCE_INVALID  import_not_allowed" {
				t.Errorf("no source of a Flow: %s", show(m.Findings))
			}
		case m.Findings != nil || m.Source.Text != want || m.Document.Nodes["b"].Target != next || m.Document.Authoring.SourceDigest != Digest(want) || m.Source.Before != Digest(girder) || !strings.Contains(m.Source.Unified, "\n+b = flow.node("):
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if r.Document.Nodes["b"].Target == next {
		t.Error("the base was changed")
	}
	// What was edited is read again, and held against the document.
	other := &lying{Reader: reader, from: 2, answer: func(reply python.Reply) (python.Reply, error) {
		reply.Flow = canon.Raw(regexp.MustCompile(`"unit": ?"kN/m"`).ReplaceAllString(string(reply.Flow), `"unit":"kN/mm"`))
		return reply, nil
	}}
	if moved, err := Retarget(t.Context(), other, moves[:1]); err != nil || show(moved[0].Findings) != "PX_SOURCE_PARITY /inputs/load" {
		t.Errorf("read otherwise: %v %+v", err, moved)
	}
	if _, err := Retarget(t.Context(), reader, []Move{{Document: r.Document, Source: girder, Targets: map[string]flow.Target{"none": next}}}); err == nil {
		t.Error("a Node that is not there")
	}
}

// An answer that names places out of order could make an edit reach beyond its
// statement: it is none.
func FuzzDecode(f *testing.F) {
	text := "import px\nflow = px.flow(\"a\")\n"
	f.Add([]byte(`{"flowKey":"a","inputs":{},"results":{},"nodes":{},"statements":[{"kind":"import","range":[0,9]},{"kind":"flow","range":[10,29],"name":"flow","call":{"open":25,"close":28,"items":[{"name":"","range":[25,28],"value":[25,28],"comma":-1}]}}]}`))
	f.Add([]byte(`{"flowKey":"a","inputs":{},"results":{},"nodes":{},"statements":[{"kind":"flow","range":[10,29],"call":{"open":25,"close":99,"items":[]}}]}`))
	f.Add([]byte(`{"statements":[{"kind":"node","range":[5,1]}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, findings, err := Decode(text, answer)
		if err != nil || findings.Refused() {
			return
		}
		after := r.Document
		after.Label = map[string]string{"en": "x"}
		after.Inputs = map[string]quantity.Port{"p": {Type: quantity.BooleanType}}
		Edit(text, r, after) // does not panic
	})
}

func TestTheReadingOfAnAnswerHoldsItToItsPlaces(t *testing.T) {
	reader := pythontest.Reader(t)
	replies, err := reader.ReadAll(t.Context(), []python.Request{{Kind: python.FlowKind, Source: girder}})
	if err != nil {
		t.Fatal(err)
	}
	for name, alter := range map[string]func(s []map[string]any){
		"statements out of order":   func(s []map[string]any) { s[1], s[2] = s[2], s[1] },
		"a range out of the source": func(s []map[string]any) { s[len(s)-1]["range"].([]any)[1] = 1_000_000 },
		"an argument out of its brackets": func(s []map[string]any) {
			call := s[2]["call"].(map[string]any)
			call["close"] = call["close"].(float64) - 3
		},
		"a range that runs back": func(s []map[string]any) { s[0]["range"] = []int{5, 2} },
		"an unknown kind":        func(s []map[string]any) { s[0]["kind"] = "exec" },
		"no arguments":           func(s []map[string]any) { delete(s[2], "call") },
		"a comma out of order": func(s []map[string]any) {
			s[2]["call"].(map[string]any)["items"].([]any)[0].(map[string]any)["comma"] = 0
		},
	} {
		members := map[string]any{}
		if err := json.Unmarshal(replies[0].Flow, &members); err != nil {
			t.Fatal(err)
		}
		var s []map[string]any
		for _, each := range members["statements"].([]any) {
			s = append(s, each.(map[string]any))
		}
		alter(s)
		members["statements"] = s
		text, _ := json.Marshal(members)
		if _, _, err := Decode(girder, text); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
