package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/outcome"
)

func validate(t testing.TB, doc Document) (Analysis, outcome.Findings) {
	t.Helper()
	analysis, findings, err := Validate(context.Background(), doc, flows)
	if err != nil {
		t.Fatal(err)
	}
	return analysis, findings
}

// connected is a Report with the usual places and these connections.
func connected(connections string) string {
	return document("basis summary", values("basis", basisFields)+`,`+results("summary", summarySlots), connections)
}

// bothInputs are the mappings that check requires.
const noSpan, noLoad = "warning PX_BINDING_MISSING /connections/c/inputs", "warning PX_BINDING_MISSING /connections/c/inputs"

// covers: R2, E2
func TestEveryFindingOfADocumentHasItsPath(t *testing.T) {
	both := in("a", "basis.span", "span") + `,` + in("b", "basis.load", "load")
	c := func(flow, inputs, results string) string { return connected(connection("c", flow, inputs, results)) }
	check, odd := on("check", "r1"), on("odd", "r1")
	odds := in("n", "basis.count", "count") + `,` + in("v", "basis.vector", "vector")
	oddly := func(mappings string) string {
		return document("basis summary", values("basis", basisFields+`,"count":{"type":"integer","value":{"value":1}},"vector":{`+metres+`,"shape":[3],"value":{"value":[1,2,3],"unit":"m"}}`)+`,`+results("summary", summarySlots+`,"name":{"type":"string"}`),
			connection("c", odd, mappings, out("z", "maybe", "summary.length")))
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                        {document("", ``, ``), ""},
		"a whole Report":                 {review, ""},
		"an order with a block twice":    {document("a a", `"a":{"kind":"text","text":""}`, ``), "PX_SCHEMA_INVALID /blockOrder/1"},
		"an order with a block of none":  {document("a b", `"a":{"kind":"text","text":""}`, ``), "PX_REFERENCE_UNKNOWN /blockOrder/1"},
		"a block outside of the order":   {document("", `"a":{"kind":"text","text":""}`, ``), "PX_SCHEMA_INVALID /blocks/a"},
		"a unit that is none":            {document("b", values("b", `"f":{"type":"number","unit":"furlong","value":{"value":1,"unit":"m"}}`), ``), "PX_UNIT_MISMATCH /blocks/b/fields/f/unit"},
		"a slot without a unit":          {document("b", results("b", `"s":{"type":"number"}`), ``), "PX_SCHEMA_INVALID /blocks/b/slots/s/unit"},
		"a default in a field":           {document("b", values("b", `"f":{`+metres+`,"default":{"value":1,"unit":"m"}}`), ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/fields/f/default"},
		"a default in a slot":            {document("b", results("b", `"f":{`+metres+`,"default":{"value":1,"unit":"m"}}`), ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/slots/f/default"},
		"a value of another dimension":   {document("b", values("b", `"f":{`+metres+`,"value":{"value":1,"unit":"kN"}}`), ``), "PX_UNIT_MISMATCH /blocks/b/fields/f/value/unit"},
		"a value of another type":        {document("b", values("b", `"f":{`+metres+`,"value":{"value":"1","unit":"m"}}`), ``), "PX_TYPE_MISMATCH /blocks/b/fields/f/value/value"},
		"a value that breaks a bound":    {document("b", values("b", `"f":{`+metres+`,"constraints":{"minimum":2},"value":{"value":1,"unit":"m"}}`), ``), "PX_CONSTRAINT_VIOLATED /blocks/b/fields/f/value/value"},
		"null where null is not allowed": {document("b", values("b", `"f":{`+metres+`,"value":{"value":null}}`), ``), "PX_NULLABILITY_MISMATCH /blocks/b/fields/f/value"},
		"a value in another unit":        {document("b", values("b", `"f":{`+metres+`,"value":{"value":1,"unit":"ft"}}`), ``), ""},

		"a connection without a mapping":           {c(on("constant", "r1"), ``, ``), "PX_BINDING_MISSING /connections/c"},
		"an unknown Flow":                          {c(on("gone", "r1"), in("a", "basis.span", "span"), ``), "PX_TARGET_NOT_FOUND /connections/c/flowTarget"},
		"an unknown revision":                      {c(on("check", "r3"), both, out("z", "moment", "summary.moment")), "PX_TARGET_NOT_FOUND /connections/c/flowTarget"},
		"an unknown Flow hides no dangling":        {c(on("gone", "r1"), in("a", "basis.gone", "span"), out("z", "moment", "summary.gone")), "PX_TARGET_NOT_FOUND /connections/c/flowTarget\nPX_REFERENCE_UNKNOWN /connections/c/inputs/a/source\nPX_REFERENCE_UNKNOWN /connections/c/results/z/target"},
		"an unknown block":                         {c(check, both+`,`+in("d", "gone.span", "factor"), ``), "PX_REFERENCE_UNKNOWN /connections/c/inputs/d/source"},
		"an unknown field":                         {c(check, both+`,`+in("d", "basis.gone", "factor"), ``), "PX_REFERENCE_UNKNOWN /connections/c/inputs/d/source"},
		"a slot for a field":                       {c(check, both+`,`+in("d", "summary.ratio", "factor"), ``), "PX_REFERENCE_UNKNOWN /connections/c/inputs/d/source"},
		"an unknown slot":                          {c(check, both, out("z", "moment", "summary.gone")), "PX_REFERENCE_UNKNOWN /connections/c/results/z/target"},
		"a field for a slot":                       {c(check, both, out("z", "moment", "basis.span")), "PX_REFERENCE_UNKNOWN /connections/c/results/z/target"},
		"an unknown input port":                    {c(check, both+`,`+in("d", "basis.span", "width"), ``), "PX_REFERENCE_UNKNOWN /connections/c/inputs/d/portKey"},
		"a result port as an input":                {c(check, both+`,`+in("d", "basis.span", "moment"), ``), "PX_REFERENCE_UNKNOWN /connections/c/inputs/d/portKey"},
		"an unknown result port":                   {c(check, both, out("z", "shear", "summary.moment")), "PX_REFERENCE_UNKNOWN /connections/c/results/z/portKey"},
		"neither end is there":                     {c(check, both, out("z", "shear", "summary.gone")), "PX_REFERENCE_UNKNOWN /connections/c/results/z/portKey\nPX_REFERENCE_UNKNOWN /connections/c/results/z/target"},
		"required inputs may come later":           {c(check, in("a", "basis.span", "span"), ``), noLoad},
		"all of them":                              {c(check, ``, out("z", "moment", "summary.moment")), noSpan + "\n" + noLoad},
		"a value may come later":                   {c(check, in("a", "basis.open", "span")+`,`+in("b", "basis.load", "load"), ``), "warning PX_BINDING_MISSING /connections/c/inputs/a/source"},
		"a Flow without inputs":                    {c(on("constant", "r1"), ``, out("z", "pi", "summary.ratio")), ""},
		"a port mapped twice":                      {c(check, both+`,`+in("d", "basis.feet", "span"), ``), "info PX_UNIT_CONVERTED /connections/c/inputs/d\nPX_SCHEMA_INVALID /connections/c/inputs/d/portKey"},
		"a field may feed two ports":               {c(check, both, ``), ""},
		"a result in two slots":                    {c(check, both, out("y", "moment", "summary.moment")+`,`+out("z", "moment", "summary.feet")), "info PX_UNIT_CONVERTED /connections/c/results/z"},
		"a slot mapped twice":                      {c(check, both, out("y", "moment", "summary.moment")+`,`+out("z", "moment", "summary.moment")), "PX_SCHEMA_INVALID /connections/c/results/z/target"},
		"a slot mapped twice by two":               {connected(connection("c", check, both, out("z", "moment", "summary.moment")) + `,` + connection("d", on("check", "r2"), both, out("z", "moment", "summary.moment"))), "PX_NULLABILITY_MISMATCH /connections/d/results/z\nPX_SCHEMA_INVALID /connections/d/results/z/target"},
		"a mapping key in both directions":         {c(check, both, out("a", "moment", "summary.moment")), "PX_SCHEMA_INVALID /connections/c/inputs/a"},
		"feet into metres are converted":           {c(check, in("a", "basis.feet", "span")+`,`+in("b", "basis.load", "load"), ``), "info PX_UNIT_CONVERTED /connections/c/inputs/a"},
		"a load into a length":                     {c(check, in("a", "basis.load", "span")+`,`+in("b", "basis.load", "load"), ``), "PX_UNIT_MISMATCH /connections/c/inputs/a"},
		"a moment into a ratio":                    {c(check, both, out("z", "moment", "summary.ratio")), "PX_UNIT_MISMATCH /connections/c/results/z"},
		"text into a number":                       {c(check, in("a", "basis.name", "span")+`,`+in("b", "basis.load", "load"), ``), "PX_TYPE_MISMATCH /connections/c/inputs/a"},
		"perhaps null into a number":               {c(check, in("a", "basis.maybe", "span")+`,`+in("b", "basis.load", "load"), ``), "PX_NULLABILITY_MISMATCH /connections/c/inputs/a"},
		"a result perhaps null into a slot":        {oddly(odds), "PX_NULLABILITY_MISMATCH /connections/c/results/z"},
		"a scalar into a vector":                   {oddly(in("n", "basis.count", "count") + `,` + in("v", "basis.span", "vector")), "PX_SHAPE_MISMATCH /connections/c/inputs/v\nPX_NULLABILITY_MISMATCH /connections/c/results/z"},
		"a number into an integer":                 {oddly(in("n", "basis.span", "count") + `,` + in("v", "basis.vector", "vector")), "PX_TYPE_MISMATCH /connections/c/inputs/n\nPX_NULLABILITY_MISMATCH /connections/c/results/z"},
		"a broken field is not compared":           {document("b", values("b", `"f":{"type":"number","unit":"furlong"}`), connection("c", check, in("a", "b.f", "span"), ``)), "PX_UNIT_MISMATCH /blocks/b/fields/f/unit\nwarning PX_BINDING_MISSING /connections/c/inputs"},
		"a result moved to the other revision":     {c(on("check", "r2"), both, out("z", "ratio", "summary.ratio")), "PX_REFERENCE_UNKNOWN /connections/c/results/z/portKey"},
		"two connections to two revisions are two": {connected(connection("c", check, both, out("z", "moment", "summary.moment")) + `,` + connection("d", on("check", "r2"), both, ``)), ""},
	} {
		_, findings := validate(t, decode(t, c.text))
		if got := show(findings); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// covers: R2, G1
func TestAMismatchShowsReportAndPortSideBySide(t *testing.T) {
	doc := decode(t, connected(connection("c", on("check", "r1"), in("a", "basis.load", "span")+`,`+in("b", "basis.load", "load"), out("z", "moment", "summary.ratio"))))
	_, findings := validate(t, doc)
	if len(findings) != 2 {
		t.Fatal(show(findings))
	}
	for i, want := range []string{
		`{"port":{"contract":{"type":"number","unit":"m"},"direction":"input","flowKey":"check","portKey":"span","revisionRef":"r1"},"reason":"dimension","source":{"blockKey":"basis","contract":{"type":"number","unit":"kN/m"},"fieldKey":"load","kind":"reportValue"}}`,
		`{"destination":{"blockKey":"summary","contract":{"type":"number","unit":"1"},"kind":"reportResultSlot","slotKey":"ratio"},"port":{"contract":{"type":"number","unit":"kN*m"},"direction":"result","flowKey":"check","portKey":"moment","revisionRef":"r1"},"reason":"dimension"}`,
	} {
		if got := encoded(t, findings[i].Params); got != want {
			t.Errorf(" got %s\nwant %s", got, want)
		}
	}
	// Two revisions of one connection, too.
	_, _, findings = Apply(&doc, commands(t, setInput("c", "b", on("check", "r2"), "load", "basis.load")))
	if got, want := encoded(t, findings[0].Params), `{"connection":`+canonical(t, on("check", "r1"))+`,"connectionKey":"c","mapping":`+canonical(t, on("check", "r2"))+`,"rule":"one_flow_revision"}`; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestSizesAreLimited(t *testing.T) {
	sized := func(fields, slots int) Document {
		f, s := make([]string, fields), make([]string, slots)
		for i := range f {
			f[i] = fmt.Sprintf(`"f%d":{"type":"boolean"}`, i)
		}
		for i := range s {
			s[i] = fmt.Sprintf(`"s%d":{"type":"boolean"}`, i)
		}
		return decode(t, document("a b", values("a", strings.Join(f, ","))+`,`+results("b", strings.Join(s, ",")), ``))
	}
	for _, c := range []struct {
		doc  Document
		want string
	}{
		{sized(1000, 998), ""},
		{sized(1000, 999), "PX_LIMIT_EXCEEDED /blocks"},
		{sized(1999, 0), "PX_LIMIT_EXCEEDED /blocks"},
	} {
		_, findings := validate(t, c.doc)
		if show(findings) != c.want {
			t.Errorf("%s, want %s", show(findings), c.want)
		}
		if len(findings) > 0 && encoded(t, findings[0].Params) != `{"limit":2000,"observed":2001,"of":"blocks_fields_and_slots"}` {
			t.Errorf("%v", findings[0].Params)
		}
	}
	empty := len(encoded(t, decode(t, document("a", `"a":{"kind":"text","text":""}`, ``))))
	for n, want := range map[int]string{MaxBytes: "", MaxBytes + 1: "PX_LIMIT_EXCEEDED "} {
		_, findings := validate(t, decode(t, document("a", `"a":{"kind":"text","text":"`+strings.Repeat("x", n-empty)+`"}`, ``)))
		if show(findings) != want {
			t.Errorf("%d bytes: %s", n, show(findings))
		}
	}
}

func TestAFailureOfTheMachineryIsNoFinding(t *testing.T) {
	doc := decode(t, review)
	if _, findings, err := Validate(context.Background(), doc, brokenFlows{}); err == nil || len(findings) > 0 {
		t.Fatalf("%v, %s", err, show(findings))
	}
	if _, findings, err := Propose(context.Background(), &doc, commands(t, `{"kind":"SetText","blockKey":"method","text":""}`), brokenFlows{}); err == nil || len(findings) > 0 {
		t.Fatalf("%v, %s", err, show(findings))
	}
	if _, findings, err := Inputs(context.Background(), doc, "main", brokenFlows{}); err == nil || len(findings) > 0 {
		t.Fatalf("%v, %s", err, show(findings))
	}
}

// covers: R2
func TestChecksShowBothEndsOfEveryMapping(t *testing.T) {
	analysis, _ := validate(t, decode(t, connected(connection("c", on("check", "r1"), in("a", "basis.feet", "span")+`,`+in("b", "basis.name", "load"), out("z", "moment", "summary.ratio")))))
	var lines []string
	for _, m := range analysis.Mappings {
		for _, c := range m.Checks {
			lines = append(lines, fmt.Sprint(m.Path, " ", m.Direction, " ", c.Kind, " ", c.Report, " ", c.Flow, " ", c.Verdict))
		}
	}
	want := `/connections/c/inputs/a input type number number fits
/connections/c/inputs/a input shape scalar scalar fits
/connections/c/inputs/a input nullability not_nullable not_nullable fits
/connections/c/inputs/a input unit ft m converted
/connections/c/inputs/b input type string number mismatch
/connections/c/inputs/b input shape scalar scalar fits
/connections/c/inputs/b input nullability not_nullable not_nullable fits
/connections/c/results/z result type number number fits
/connections/c/results/z result shape scalar scalar fits
/connections/c/results/z result nullability not_nullable not_nullable fits
/connections/c/results/z result unit 1 kN*m mismatch`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
