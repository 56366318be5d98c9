package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/target"
)

func propose(t testing.TB, base string, list string) Proposal {
	t.Helper()
	var from *Document
	if base != "" {
		doc := decode(t, base)
		from = &doc
	}
	p, findings, err := Propose(context.Background(), from, commands(t, list), flows)
	if err != nil || findings.Refused() {
		t.Fatal(err, show(findings))
	}
	return p
}

// covers: R1, E2
func TestAFirstSaveIsHeldAgainstItsTarget(t *testing.T) {
	p := propose(t, "", `{"kind":"CreateReport","document":`+review+`}`)
	ref := revision(t, decode(t, review))
	if p.Analysis.RevisionRef != ref || string(p.Commands[0]) != string(p.Unlabelled[0]) || fmt.Sprint(p.Kinds) != "[CreateReport]" || len(p.Diff) != 4 || len(p.Mappings) != 4 || len(p.Affected) != 4 || len(p.Stale) != 0 {
		t.Errorf("%s", encoded(t, p.Diff))
	}
	for name, c := range map[string]struct {
		target target.Report
		want   string
	}{
		"the document's own": {target.Report{ReportKey: "sample", RevisionRef: ref}, ""},
		"another key":        {target.Report{ReportKey: "other", RevisionRef: ref}, "PX_PLAN_MISMATCH /target/reportKey"},
		"another digest":     {target.Report{ReportKey: "sample", RevisionRef: ref + "0"}, "PX_PLAN_MISMATCH /target/revisionRef"},
		"neither":            {target.Report{}, "PX_PLAN_MISMATCH /target/reportKey\nPX_PLAN_MISMATCH /target/revisionRef"},
	} {
		if got := show(p.Creates(c.target)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	broken := document("b", values("b", `"f":{"type":"number","unit":"m","value":{"value":1,"unit":"kN"}}`), connection("c", on("gone", "r1"), in("m", "b.f", "span"), ``))
	_, findings, err := Propose(context.Background(), nil, commands(t, `{"kind":"CreateReport","document":`+broken+`}`), flows)
	if want := "PX_UNIT_MISMATCH /commands/0/document/blocks/b/fields/f/value/unit\nPX_TARGET_NOT_FOUND /commands/0/document/connections/c/flowTarget"; err != nil || show(findings) != want {
		t.Errorf("%v\n got %s\nwant %s", err, show(findings), want)
	}
}

// covers: P2, R2
func TestAConnectionPlanShowsBothEndsTheAffectedPlacesAndWhatTurnsStale(t *testing.T) {
	p := propose(t, review, setInput("main", "span_in", on("check", "r1"), "span", "basis.feet")+`,`+setResult("main", "more", "moment", "summary.feet")+`,{"kind":"SetReportLabel","label":{"en":"secret"}}`)
	var mapped, places []string
	for _, m := range p.Mappings {
		mapped = append(mapped, fmt.Sprint(m.Path, " ", m.FlowTarget.FlowKey, "@", m.FlowTarget.RevisionRef, " ", m.PortKey, " ", m.Contract.Unit, " ", m.Port.Unit, " ", len(m.Checks)))
	}
	for _, a := range p.Affected {
		places = append(places, fmt.Sprint(a.Effect, " ", a.Path, " ", a.ConnectionKey, " ", a.MappingKey))
	}
	for name, c := range map[string][2]string{
		"touched":  {strings.Join(p.Touched, "\n"), "/connections/main/inputs/span_in\n/connections/main/results/more\n/label"},
		"mappings": {strings.Join(mapped, "\n"), "/connections/main/inputs/span_in check@r1 span ft m 4\n/connections/main/results/more check@r1 moment kip*ft kN*m 4"},
		"affected": {strings.Join(places, "\n"), "mapped /blocks/basis/fields/feet main span_in\nunmapped /blocks/basis/fields/span main span_in\nmapped /blocks/summary/slots/feet main more"},
		"stale": {encoded(t, p.Stale), `[{"blockKey":"summary","connectionKey":"main","path":"/blocks/summary/slots/moment","reasons":["mapping","value"],"slotKey":"moment"},` +
			`{"blockKey":"summary","connectionKey":"main","path":"/blocks/summary/slots/ratio","reasons":["mapping","value"],"slotKey":"ratio"}]`},
		"kinds":      {fmt.Sprint(p.Kinds), "[SetReportFlowInputSource SetReportFlowResultTarget SetReportLabel]"},
		"unlabelled": {string(p.Unlabelled[2]), `{"kind":"SetReportLabel","label":{}}`},
		"one side":   {encoded(t, p.Mappings[0].Source), `{"blockKey":"basis","fieldKey":"feet","kind":"reportValue"}`},
		"uses":       {fmt.Sprint(Uses(p.Document)), "[flow/check]"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s:\n got %s\nwant %s", name, c[0], c[1])
		}
	}
	if text := encoded(t, p.Mappings); strings.Contains(text, `"target":{"blockKey":"","`) || strings.Contains(text, `"source":{"blockKey":"","`) {
		t.Errorf("an end that a mapping does not have is written: %s", text)
	}
}

// covers: R2
func TestWhatTurnsStaleAndWhatDoesNot(t *testing.T) {
	const both = "moment ratio"
	for name, c := range map[string]struct {
		commands string
		slots    string // that turn stale
		reasons  string // of the first
	}{
		"a mapped value changes":                  {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":{"value":11,"unit":"m"}}`, both, "[value]"},
		"the same value in another unit":          {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":{"value":10000,"unit":"mm"}}`, "", ""},
		"a mapped value goes":                     {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":null}`, both, "[value]"},
		"a value that is not mapped changes":      {`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"feet","value":{"value":11,"unit":"ft"}}`, "", ""},
		"text, labels and order change":           {`{"kind":"SetText","blockKey":"method","text":"x"},{"kind":"SetReportLabel","label":{"en":"x"}},{"kind":"MoveBlock","blockKey":"summary"}`, "", ""},
		"an input is mapped anew":                 {setInput("main", "span_in", on("check", "r1"), "span", "basis.open") + `,{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"open","value":{"value":10,"unit":"m"}}`, both, "[mapping]"},
		"an optional input is mapped":             {`{"kind":"AddField","blockKey":"basis","fieldKey":"k","field":{"type":"number","unit":"1","value":{"value":1,"unit":"1"}}},` + setInput("main", "k_in", on("check", "r1"), "factor", "basis.k"), both, "[mapping value]"},
		"a mapping has another key":               {unmap("main", "span_in") + `,` + setInput("main", "length_in", on("check", "r1"), "span", "basis.span"), "", ""},
		"one slot shows another result":           {setResult("main", "ratio_out", "moment", "summary.feet"), "ratio", "[mapping]"},
		"a slot loses its mapping":                {unmap("main", "ratio_out"), "ratio", "[mapping]"},
		"a slot and its mapping go":               {unmap("main", "ratio_out") + `,{"kind":"RemoveSlot","blockKey":"summary","slotKey":"ratio"}`, "", ""},
		"another slot is mapped":                  {setResult("main", "more", "moment", "summary.feet"), "", ""},
		"the Flow revision moves":                 {unmap("main", "moment_out") + `,` + unmap("main", "ratio_out") + `,{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r2") + `}`, both, "[mapping]"},
		"the Flow revision moves below a mapping": {unmap("main", "ratio_out") + `,{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r2") + `},{"kind":"RemoveSlot","blockKey":"summary","slotKey":"moment"},{"kind":"AddSlot","blockKey":"summary","slotKey":"moment","slot":{"type":"number","unit":"kN*m","nullable":true}}`, both, "[flowRevision]"},
		"another connection shows in the slot":    {unmap("main", "ratio_out") + `,{"kind":"SetConnectionFlow","connectionKey":"other","flowTarget":` + on("constant", "r1") + `},` + setResult("other", "pi_out", "pi", "summary.ratio"), "ratio", "[mapping]"},
		"the slot shows another unit":             {`{"kind":"RemoveSlot","blockKey":"summary","slotKey":"moment"},{"kind":"AddSlot","blockKey":"summary","slotKey":"moment","slot":{"type":"number","unit":"N*m"}}`, "", ""},
	} {
		p := propose(t, review, c.commands)
		var slots []string
		for _, s := range p.Stale {
			slots = append(slots, s.SlotKey)
			if s.Path != "/blocks/summary/slots/"+s.SlotKey || s.ConnectionKey != "main" || s.BlockKey != "summary" {
				t.Errorf("%s: %v", name, s)
			}
		}
		if strings.Join(slots, " ") != c.slots || len(slots) > 0 && fmt.Sprint(p.Stale[0].Reasons) != c.reasons {
			t.Errorf("%s: %v", name, p.Stale)
		}
		// A slot turns stale exactly when its basis changes.
		base := decode(t, review)
		for _, key := range []string{"moment", "ratio"} {
			place := ReportResultSlot{BlockKey: "summary", SlotKey: key}
			before, ok, err := Basis(base, "main", place)
			if err != nil || !ok {
				t.Fatal(err)
			}
			after, has, err := Basis(p.Document, "main", place)
			if err != nil {
				t.Fatal(err)
			}
			if _, there := p.Document.slot(place); there && (before != after) != strings.Contains(c.slots, key) {
				t.Errorf("%s: the basis of %s says otherwise", name, key)
			}
			if all, ok, _ := Bases(p.Document, "main"); ok && all[place] != after || !ok && has {
				t.Errorf("%s: Bases and Basis differ", name)
			}
		}
	}
	for name, place := range map[string]ReportResultSlot{"a slot without a mapping": {BlockKey: "summary", SlotKey: "feet"}, "no slot": {}} {
		if _, ok, err := Basis(decode(t, review), "main", place); ok || err != nil {
			t.Errorf("%s has a basis", name)
		}
	}
	if _, ok, _ := Basis(decode(t, review), "gone", ReportResultSlot{BlockKey: "summary", SlotKey: "moment"}); ok {
		t.Error("no connection has a basis")
	}
}

// covers: P2
func TestAProposalAsksForEachFlowRevisionOnce(t *testing.T) {
	base := decode(t, connected(connection("c", on("check", "r1"), in("a", "basis.span", "span"), ``)+`,`+connection("d", on("check", "r1"), in("a", "basis.span", "span"), ``)+`,`+connection("e", on("constant", "r1"), ``, out("z", "pi", "summary.ratio"))))
	counted := &counting{}
	if _, findings, err := Propose(context.Background(), &base, commands(t, unmap("e", "z")), counted); err != nil || findings.Refused() || counted.calls != 2 || len(counted.asked) != 2 {
		t.Errorf("%v %s, asked %d times for %v", err, show(findings), counted.calls, counted.asked)
	}
}

type counting struct {
	calls int
	asked []target.Flow
}

func (c *counting) Boundaries(ctx context.Context, targets []target.Flow) (map[target.Flow]Boundary, error) {
	c.calls++
	c.asked = append(c.asked, targets...)
	return flows.Boundaries(ctx, targets)
}

// covers: P2, E2
func TestFindingsOfTheFirstStageThatFailsComeAlone(t *testing.T) {
	base := decode(t, review)
	for list, want := range map[string]string{
		`{"kind":"RemoveBlock","blockKey":"basis"},{"kind":"RemoveBlock","blockKey":"basis"}`: "PX_REFERENCE_UNKNOWN /commands/1/blockKey",
		`{"kind":"RemoveBlock","blockKey":"basis"}`:                                           "PX_REFERENCE_UNKNOWN /connections/main/inputs/load_in/source\nPX_REFERENCE_UNKNOWN /connections/main/inputs/span_in/source",
	} {
		if _, findings, err := Propose(context.Background(), &base, commands(t, list), flows); err != nil || show(findings) != want {
			t.Errorf("%v\n got %s\nwant %s", err, show(findings), want)
		}
	}
}

// covers: R4
func TestAConnectionMakesOneInputPayload(t *testing.T) {
	const both = `"a":{"portKey":"span","source":{"kind":"reportValue","blockKey":"basis","fieldKey":"feet"}},"b":{"portKey":"load","source":{"kind":"reportValue","blockKey":"basis","fieldKey":"load"}}`
	odd := func(fields, mappings string) string {
		return document("basis summary", values("basis", `"count":{"type":"integer","value":{"value":3}},"vector":{`+metres+`,"shape":[3],"value":{"value":[1,2,3],"unit":"m"}}`+fields)+`,`+results("summary", summarySlots),
			connection("c", on("odd", "r1"), in("n", "basis.count", "count")+`,`+in("v", "basis.vector", "vector")+mappings, ``))
	}
	const plain = `"count":{"value":3},"vector":{"unit":"m","value":[1,2,3]}`
	check, r3 := on("check", "r1"), on("check", "r3")
	for name, c := range map[string]struct{ text, want, findings string }{
		"all in the units of the Flow":            {connected(connection("c", check, both, ``)), `{"load":{"unit":"kN/m","value":2},"span":{"unit":"m","value":3.048}}`, "info PX_UNIT_CONVERTED /connections/c/inputs/a"},
		"what is optional may be left out":        {odd("", ""), `{` + plain + `}`, ""},
		"null where null is a value":              {odd(`,"maybe":{`+metres+`,"nullable":true,"value":{"value":null}}`, `,`+in("m", "basis.maybe", "maybe")), `{` + plain[:19] + `,"maybe":{"value":null},` + plain[20:] + `}`, ""},
		"a table is one value, in its columns":    {odd(`,"rows":{"type":"table","columns":[{"columnKey":"y","type":"boolean"},{"columnKey":"x","type":"number","unit":"ft"}],"value":{"columns":[{"columnKey":"y","type":"boolean"},{"columnKey":"x","type":"number","unit":"ft"}],"rows":[[true,10],[false,20]]}}`, `,`+in("t", "basis.rows", "rows")), `{` + plain[:19] + `,"rows":{"columns":[{"columnKey":"x","type":"number","unit":"m"}],"rows":[[3.048],[6.096]]},` + plain[20:] + `}`, "info PX_UNIT_CONVERTED /connections/c/inputs/t"},
		"a required input without a mapping":      {connected(connection("c", check, in("a", "basis.span", "span"), ``)), "", "PX_BINDING_MISSING /connections/c/inputs"},
		"a mapped field without a value":          {connected(connection("c", check, in("a", "basis.open", "span")+`,`+in("b", "basis.load", "load"), ``)), "", "PX_BINDING_MISSING /connections/c/inputs/a/source"},
		"a value that breaks a bound of the port": {odd(`,"low":{`+metres+`,"value":{"value":-1,"unit":"m"}}`, `,`+in("p", "basis.low", "positive")), "", "PX_CONSTRAINT_VIOLATED /blocks/basis/fields/low/value/value"},
		"a value that no port can carry":          {odd(`,"far":{"type":"number","unit":"km","value":{"value":1e308,"unit":"km"}}`, `,`+in("p", "basis.far", "positive")), "", "PX_CONSTRAINT_VIOLATED /blocks/basis/fields/far/value/value\ninfo PX_UNIT_CONVERTED /connections/c/inputs/p"},
		"a Flow revision that is gone":            {connected(connection("c", r3, both, ``)), "", "PX_TARGET_NOT_FOUND /connections/c/flowTarget"},
		"a result that fits no longer":            {connected(connection("c", check, both, out("z", "moment", "summary.ratio"))), "", "info PX_UNIT_CONVERTED /connections/c/inputs/a\nPX_UNIT_MISMATCH /connections/c/results/z"},
		"a broken field, told once":               {document("b", values("b", `"f":{`+metres+`,"value":{"value":1,"unit":"kN"}}`), connection("c", on("odd", "r1"), in("a", "b.f", "maybe")+`,`+in("d", "b.f", "positive"), ``)), "", "PX_UNIT_MISMATCH /blocks/b/fields/f/value/unit\nPX_BINDING_MISSING /connections/c/inputs\nPX_BINDING_MISSING /connections/c/inputs"},
		"another connection that is broken":       {connected(connection("c", check, both, ``) + `,` + connection("d", r3, both, ``)), `{"load":{"unit":"kN/m","value":2},"span":{"unit":"m","value":3.048}}`, "info PX_UNIT_CONVERTED /connections/c/inputs/a"},
		"no such connection":                      {connected(""), "", "PX_REFERENCE_UNKNOWN /connectionKey"},
	} {
		inputs, findings, err := Inputs(context.Background(), decode(t, c.text), "c", flows)
		if err != nil || show(findings) != c.findings {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, show(findings), c.findings)
		}
		if (inputs == nil) != (c.want == "") {
			t.Errorf("%s: %v", name, inputs)
		} else if inputs != nil && encoded(t, inputs) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, encoded(t, inputs), c.want)
		}
	}
}

// covers: D1
func TestADescriptionTellsBlocksSlotsAndConnections(t *testing.T) {
	both := in("a", "basis.feet", "span") + `,` + in("b", "basis.load", "load")
	doc := decode(t, document("summary basis method", values("basis", basisFields)+`,"method":{"kind":"text","text":"As usual.","label":{"ko":"방법"}},`+results("summary", summarySlots),
		connection("ready", on("check", "r1"), both, out("z", "moment", "summary.moment"))+`,`+
			connection("missing", on("check", "r1"), in("a", "basis.span", "span"), ``)+`,`+
			connection("unfilled", on("check", "r1"), in("a", "basis.open", "span")+`,`+in("b", "basis.load", "load"), ``)+`,`+
			connection("mismatch", on("check", "r1"), in("a", "basis.load", "span")+`,`+in("b", "basis.load", "load"), ``)+`,`+
			connection("dangling", on("check", "r1"), both, out("z", "shear", "summary.ratio"))+`,`+
			connection("gone", on("check", "r3"), both, ``)))
	analysis, _ := validate(t, doc)
	d := Describe(doc, analysis)
	states := map[string]string{}
	for key, c := range d.Connections {
		states[key] = fmt.Sprint(c.State, " ", c.Missing)
		for name, m := range c.Inputs {
			states[key+"."+name] = string(m.State)
			if (m.Port == nil) != (key == "gone") {
				t.Errorf("%s.%s has the port %v", key, name, m.Port)
			}
		}
		for name, m := range c.Results {
			states[key+"."+name] = string(m.State)
		}
	}
	want := map[string]string{"ready": "ready []", "ready.a": "converted", "ready.b": "connected", "ready.z": "connected",
		"missing": "incomplete [load]", "missing.a": "connected", "unfilled": "incomplete []", "unfilled.a": "unfilled", "unfilled.b": "connected",
		"mismatch": "broken []", "mismatch.a": "mismatch", "mismatch.b": "connected", "dangling": "broken []", "dangling.a": "converted", "dangling.b": "connected", "dangling.z": "dangling",
		"gone": "unavailable []", "gone.a": "unchecked", "gone.b": "unchecked"}
	if encoded(t, states) != encoded(t, want) {
		t.Errorf(" got %s\nwant %s", encoded(t, states), encoded(t, want))
	}
	var slots []string
	for _, s := range d.Slots {
		slots = append(slots, s.BlockKey+"."+s.SlotKey)
		if (s.From == nil) != (s.SlotKey != "moment" && s.SlotKey != "ratio") {
			t.Errorf("%s is filled from %v", s.SlotKey, s.From)
		}
	}
	field := d.Blocks["basis"].Fields["span"]
	for name, c := range map[string][2]string{
		"slots":        {strings.Join(slots, " "), "summary.feet summary.length summary.moment summary.ratio"},
		"order":        {strings.Join(d.BlockOrder, " "), "summary basis method"},
		"text":         {encoded(t, d.Blocks["method"]), `{"kind":"text","label":{"ko":"방법"},"text":"As usual."}`},
		"a field":      {encoded(t, field), `{"contract":{"type":"number","unit":"m"},"feeds":[{"connectionKey":"missing","mappingKey":"a","portKey":"span"}],"value":{"unit":"m","value":10}}`},
		"a slot":       {encoded(t, d.Slots[2].From), `{"connectionKey":"ready","mappingKey":"z","portKey":"moment"}`},
		"dependencies": {encoded(t, d.Dependencies), `[{"available":true,"connectionKeys":["dangling","mismatch","missing","ready","unfilled"],"target":` + canonical(t, on("check", "r1")) + `},{"available":false,"connectionKeys":["gone"],"target":` + canonical(t, on("check", "r3")) + `}]`},
	} {
		if c[0] != c[1] {
			t.Errorf("%s:\n got %s\nwant %s", name, c[0], c[1])
		}
	}
	empty := decode(t, document("", ``, ``))
	analysis, _ = validate(t, empty)
	if got := encoded(t, Describe(empty, analysis)); got != `{"blockOrder":[],"blocks":{},"connections":{},"dependencies":[],"label":{},"slots":[]}` {
		t.Errorf("%s", got)
	}
}

// covers: S5
func TestSearchTextHasKeysLabelsUnitsAndFlowsAndNoContent(t *testing.T) {
	doc := decode(t, `{"format":"pxreport/1","reportKey":"girder","label":{"en":"Girder review","ko":"거더 검토"},"blockOrder":["basis","method","summary"],
		"blocks":{"basis":{"kind":"values","label":{"en":"Basis"},"fields":{"span":{"type":"number","unit":"ft","label":{"ko":"지간"},"value":{"value":40,"unit":"ft"}},"name":{"type":"string","value":{"value":"private"}}}},
		"method":{"kind":"text","text":"private"},"summary":{"kind":"results","slots":{"rows":{"type":"table","columns":[{"columnKey":"x","type":"number","unit":"kN*m"}]}}}},
		"connections":{"main":`+strings.SplitN(connection("main", on("check", "r1"), in("m", "basis.span", "length"), out("z", "table", "summary.rows")), ":", 2)[1]+`}}`)
	if got, want := encoded(t, SearchText(doc)), `["Basis","Girder review","basis","check","ft","girder","kN*m","length","main","method","name","rows","span","summary","table","거더 검토","지간"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// covers: R2
func TestAPlanShowsEveryMappingThatItWritesThoughNothingChanges(t *testing.T) {
	for list, want := range map[string]int{
		`{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r1") + `}`: 4,
		setInput("main", "span_in", on("check", "r1"), "span", "basis.span"):                         1,
		`{"kind":"SetText","blockKey":"method","text":"x"}`:                                          0,
		// The contract of a mapped field changes, and with it how the two compare.
		`{"kind":"RemoveField","blockKey":"basis","fieldKey":"span"},{"kind":"AddField","blockKey":"basis","fieldKey":"span","field":{"type":"number","unit":"ft","value":{"value":30,"unit":"ft"}}}`: 1,
	} {
		if p := propose(t, review, list); len(p.Mappings) != want {
			t.Errorf("%s: %d mappings, want %d", p.Kinds, len(p.Mappings), want)
		}
	}
}
