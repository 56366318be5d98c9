package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// decode returns the document of a text that must be in order.
func decode(t testing.TB, text string) Document {
	t.Helper()
	doc, findings := Decode([]byte(text))
	if len(findings) > 0 {
		t.Fatalf("decode: %s\n%s", show(findings), text)
	}
	return doc
}

func revision(t testing.TB, doc Document) string {
	t.Helper()
	_, ref, err := doc.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	text, err := canon.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// show writes findings as "CODE path", one each, in order; what does not refuse
// has its severity in front.
func show(findings outcome.Findings) string {
	lines := make([]string, len(findings))
	for i, d := range findings {
		lines[i] = string(d.Code) + " " + d.Path
		if d.Severity != outcome.Error {
			lines[i] = string(d.Severity) + " " + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

// number is the contract of a number in a unit.
func number(unit string) quantity.Port { return quantity.Port{Type: quantity.NumberType, Unit: unit} }

func nullable(p quantity.Port) quantity.Port {
	yes := true
	p.Nullable = &yes
	return p
}

// shelf is a Project whose Flows have these ports, by flowKey. The revision must
// be "r1" or "r2", and both have the same ports but for what at says.
type shelf map[string]Boundary

func (s shelf) Boundaries(_ context.Context, targets []target.Flow) (map[target.Flow]Boundary, error) {
	out := map[target.Flow]Boundary{}
	for _, t := range targets {
		if t.RevisionRef != "r1" && t.RevisionRef != "r2" {
			continue
		}
		b, ok := s[t.FlowKey+"@"+t.RevisionRef]
		if !ok {
			b, ok = s[t.FlowKey]
		}
		if ok {
			out[t] = b
		}
	}
	return out, nil
}

type brokenFlows struct{}

func (brokenFlows) Boundaries(context.Context, []target.Flow) (map[target.Flow]Boundary, error) {
	return nil, errors.New("no answer")
}

// flows has a Flow for each thing that a mapping can get wrong.
var flows = shelf{
	"check": {
		Inputs:  map[string]quantity.Port{"span": number("m"), "load": number("kN/m"), "factor": {Type: quantity.NumberType, Unit: "1", Default: canon.Raw(`{"unit":"1","value":1}`)}},
		Results: map[string]quantity.Port{"moment": number("kN*m"), "ratio": number("1")},
	},
	// Another revision, in which ratio is gone and moment may be null.
	"check@r2": {
		Inputs:  map[string]quantity.Port{"span": number("m"), "load": number("kN/m"), "factor": {Type: quantity.NumberType, Unit: "1", Default: canon.Raw(`{"unit":"1","value":1}`)}},
		Results: map[string]quantity.Port{"moment": nullable(number("kN*m"))},
	},
	"odd": {
		Inputs: map[string]quantity.Port{"count": {Type: quantity.IntegerType, Nullable: new(bool)}, "vector": {Type: quantity.NumberType, Unit: "m", Shape: quantity.ArrayShape(3)},
			"maybe": nullable(number("m")), "positive": {Type: quantity.NumberType, Unit: "m", Default: canon.Raw(`{"unit":"m","value":1}`), Constraints: &quantity.Constraints{Minimum: new(float64)}},
			"rows": {Type: quantity.TableType, Nullable: nullable(quantity.Port{}).Nullable, Columns: []quantity.Column{{ColumnKey: "x", Type: quantity.NumberType, Unit: "m"}}}},
		Results: map[string]quantity.Port{"maybe": nullable(number("m")), "name": {Type: quantity.StringType}},
	},
	"constant": {Results: map[string]quantity.Port{"pi": number("1")}},
}

// on is the text of a Flow target.
func on(flow, revision string) string {
	return fmt.Sprintf(`{"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"},"flowKey":%q,"revisionRef":%q}`, flow, revision)
}

func flowTarget(flow, revision string) target.Flow {
	return target.Flow{Scope: target.Project{WorkspaceKey: "w", ProjectKey: "p"}.Scope(), FlowKey: flow, RevisionRef: revision}
}

// document builds the text of a Report from its blocks and connections; the order
// is that of the keys.
func document(order, blocks, connections string) string {
	if order != "" {
		order = `"` + strings.ReplaceAll(order, " ", `","`) + `"`
	}
	return fmt.Sprintf(`{"format":"pxreport/1","reportKey":"sample","blockOrder":[%s],"blocks":{%s},"connections":{%s}}`, order, blocks, connections)
}

func values(key, fields string) string {
	return fmt.Sprintf(`%q:{"kind":"values","fields":{%s}}`, key, fields)
}
func results(key, slots string) string {
	return fmt.Sprintf(`%q:{"kind":"results","slots":{%s}}`, key, slots)
}
func connection(key, flow, inputs, results string) string {
	return fmt.Sprintf(`%q:{"flowTarget":%s,"inputs":{%s},"results":{%s}}`, key, flow, inputs, results)
}

// in and out build the text of one mapping: of a field "block.field" into a port,
// and of a port into a slot "block.slot".
func in(key, place, port string) string {
	block, field, _ := strings.Cut(place, ".")
	return fmt.Sprintf(`%q:{"portKey":%q,"source":{"kind":"reportValue","blockKey":%q,"fieldKey":%q}}`, key, port, block, field)
}

func out(key, port, place string) string {
	block, slot, _ := strings.Cut(place, ".")
	return fmt.Sprintf(`%q:{"portKey":%q,"target":{"kind":"reportResultSlot","blockKey":%q,"slotKey":%q}}`, key, port, block, slot)
}

const (
	metres = `"type":"number","unit":"m"`
	// basisFields are what most cases map from.
	basisFields = `"span":{` + metres + `,"value":{"value":10,"unit":"m"}},"feet":{"type":"number","unit":"ft","value":{"value":10,"unit":"ft"}},` +
		`"load":{"type":"number","unit":"kN/m","value":{"value":2,"unit":"kN/m"}},"open":{` + metres + `},"name":{"type":"string","value":{"value":"A"}},"maybe":{` + metres + `,"nullable":true,"value":{"value":null}}`
	summarySlots = `"moment":{"type":"number","unit":"kN*m"},"ratio":{"type":"number","unit":"1"},"feet":{"type":"number","unit":"kip*ft"},"length":{` + metres + `}`
)

// review is the Report that most cases start from: two values, a text and two
// results of check.
var review = document("basis method summary", values("basis", basisFields)+`,"method":{"kind":"text","text":"As usual."},`+results("summary", summarySlots),
	connection("main", on("check", "r1"), in("span_in", "basis.span", "span")+`,`+in("load_in", "basis.load", "load"), out("moment_out", "moment", "summary.moment")+`,`+out("ratio_out", "ratio", "summary.ratio")))

// covers: R1, P3
func TestADocumentKeepsTheDigestItsAuthorComputed(t *testing.T) {
	for name, text := range map[string]string{
		"the example of the contract": `{"format": "pxreport/1", "reportKey": "girder_review", "label": {"en": "Girder review"},
 "blockOrder": ["design_basis", "method", "check_summary"],
 "blocks": {
   "design_basis": {"kind": "values", "fields": {"span": {"type": "number", "unit": "m", "shape": "scalar", "value": {"value": 32.5, "unit": "m"}}}},
   "method": {"kind": "text", "text": "거더 🌉"},
   "check_summary": {"kind": "results", "slots": {"utilization": {"type": "number", "unit": "1", "shape": "scalar"}}}},
 "connections": {
   "girder_check": {"flowTarget": {"scope": {"kind": "project", "workspaceKey": "structural_team", "projectKey": "bridge_package"}, "flowKey": "girder_check", "revisionRef": "sha256:1"},
     "inputs":  {"span_input": {"portKey": "span", "source": {"kind": "reportValue", "blockKey": "design_basis", "fieldKey": "span"}}},
     "results": {"utilization_result": {"portKey": "utilization", "target": {"kind": "reportResultSlot", "blockKey": "check_summary", "slotKey": "utilization"}}}}}}`,
		"nothing that may be left out": document("", ``, ``),
		"everything empty that may be": `{"format":"pxreport/1","reportKey":"a","label":{},"blockOrder":["b","c","d"],"blocks":{"b":{"kind":"values","label":{},"fields":{"f":{"type":"boolean","label":{}}}},
			"c":{"kind":"text","label":{},"text":""},"d":{"kind":"results","label":{},"slots":{"s":{"type":"boolean","label":{}}}}},"connections":{}}`,
		"values of all spellings": document("b", values("b", `"a":{"type":"number","unit":"1","nullable":false,"value":{"unit":"1","value":-0.0}},"t":{"type":"table","columns":[{"columnKey":"x","type":"integer"}],"value":{"rows":[[1.0],[1e2]],"columns":[{"columnKey":"x","type":"integer"}]}}`), ``),
		"the Report of the cases": review,
	} {
		want, err := canon.Canonicalize([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		canonical, ref, err := decode(t, text).RevisionRef()
		if err != nil || string(canonical) != string(want) || ref != canon.Digest(want) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, canonical, want)
		}
		if again := decode(t, string(canonical)).canonical(); encoded(t, again) != string(want) {
			t.Errorf("%s: changed by its second reading: %s", name, encoded(t, again))
		}
	}
}

// covers: R1, E2
func TestADocumentOfWrongFormIsRefusedWithEveryPath(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"another format":                {strings.Replace(document("", ``, ``), "pxreport/1", "pxreport/2", 1), "PX_SCHEMA_INVALID /format"},
		"a Flow":                        {`{"format":"pxflow/1","flowKey":"f","authoring":{"kind":"native"},"inputs":{},"results":{},"nodes":{}}`, "PX_SCHEMA_INVALID /format\nPX_SCHEMA_UNKNOWN_FIELD /flowKey\nPX_SCHEMA_UNKNOWN_FIELD /authoring\nPX_SCHEMA_UNKNOWN_FIELD /inputs\nPX_SCHEMA_UNKNOWN_FIELD /results\nPX_SCHEMA_UNKNOWN_FIELD /nodes\nPX_SCHEMA_INVALID /reportKey\nPX_SCHEMA_INVALID /blockOrder\nPX_SCHEMA_INVALID /blocks\nPX_SCHEMA_INVALID /connections"},
		"an unknown block kind":         {document("b", `"b":{"kind":"picture"}`, ``), "PX_SCHEMA_INVALID /blocks/b/kind"},
		"a block without a kind":        {document("b", `"b":{"text":"x"}`, ``), "PX_SCHEMA_INVALID /blocks/b/kind"},
		"slots in a values block":       {document("b", `"b":{"kind":"values","slots":{}}`, ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/slots\nPX_SCHEMA_INVALID /blocks/b/fields"},
		"a result in the document":      {document("b", results("b", `"s":{`+metres+`,"value":{"value":1,"unit":"m"}}`), ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/slots/s/value"},
		"a state in the document":       {document("b", results("b", `"s":{`+metres+`,"state":"Current"}`), ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/slots/s/state"},
		"keys that are none":            {document("A b/c", values("a b", `"é":{`+metres+`}`), ``), "PX_SCHEMA_INVALID /blockOrder/0\nPX_SCHEMA_INVALID /blockOrder/1\nPX_SCHEMA_INVALID /blocks/a b\nPX_SCHEMA_INVALID /blocks/a b/fields/é"},
		"a source of another kind":      {document("", ``, connection("c", on("check", "r1"), `"m":{"portKey":"span","source":{"kind":"literal","blockKey":"b","fieldKey":"f"}}`, ``)), "PX_SCHEMA_INVALID /connections/c/inputs/m/source/kind"},
		"a source by a dotted path":     {document("", ``, connection("c", on("check", "r1"), `"m":{"portKey":"span","source":"basis.span"}`, ``)), "PX_SCHEMA_UNSUPPORTED_VERSION /connections/c/inputs/m/source"},
		"a port by a dotted path":       {document("", ``, connection("c", on("check", "r1"), in("m", "b.f", "nodes.check.span"), ``)), "PX_SCHEMA_UNSUPPORTED_VERSION /connections/c/inputs/m/portKey"},
		"a Flow without its Project":    {document("", ``, connection("c", `{"scope":{"kind":"project","workspaceKey":"w"},"flowKey":"f","revisionRef":"r"}`, ``, ``)), "PX_SCHEMA_INVALID /connections/c/flowTarget/scope/projectKey"},
		"a Flow without its revision":   {document("", ``, connection("c", `{"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"},"flowKey":"f"}`, ``, ``)), "PX_SCHEMA_INVALID /connections/c/flowTarget/revisionRef"},
		"overflow in a value":           {document("b", values("b", `"f":{`+metres+`,"value":{"value":1e400,"unit":"m"}}`), ``), "PX_SCHEMA_INVALID /blocks/b/fields/f/value/value"},
		"an integer that gets rounded":  {document("b", values("b", `"f":{"type":"integer","value":{"value":9007199254740993}}`), ``), "PX_SCHEMA_INVALID /blocks/b/fields/f/value/value"},
		"half a document":               {`{"format":"pxreport/1",`, "PX_SCHEMA_INVALID "},
		"two documents":                 {document("", ``, ``) + ` {}`, "PX_SCHEMA_INVALID "},
		"a name twice":                  {`{"format":"pxreport/1","format":"pxreport/1"}`, "PX_SCHEMA_INVALID /format"},
		"a legacy field at depth":       {document("b", `"b":{"kind":"text","text":"","nodeId":"x"}`, ``), "PX_SCHEMA_UNKNOWN_FIELD /blocks/b/nodeId"},
		"a label in a language of none": {document("b", `"b":{"kind":"text","text":"","label":{"not one":"x"}}`, ``), "PX_SCHEMA_INVALID /blocks/b/label/not one"},
	} {
		_, findings := Decode([]byte(c.text))
		if got := show(findings); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	if _, findings := Decode([]byte(strings.Repeat(" ", maxText) + "x")); show(findings) != "PX_LIMIT_EXCEEDED " {
		t.Errorf("a text without end: %s", show(findings))
	}
}

// covers: E3
func TestFindingsNeverRepeatTextOrValues(t *testing.T) {
	secret := "hunter2"
	doc := document("b c", `"b":{"kind":"text","text":"`+secret+`","x":"`+secret+`"},`+values("c", `"f":{`+metres+`,"value":"`+secret+`"},"g":{"type":"`+secret+`"}`), ``)
	_, findings := Decode([]byte(doc))
	valid := decode(t, document("b c", `"b":{"kind":"text","text":"`+secret+`"},`+values("c", `"f":{`+metres+`,"value":"`+secret+`"},"g":{"type":"enum","values":["a"],"value":{"value":"`+secret+`"}}`), ``))
	_, more := validate(t, valid)
	_, _, refused := Apply(&valid, commands(t, `{"kind":"SetText","blockKey":"c","text":"`+secret+`"}`))
	if len(findings) < 2 || len(more) < 2 || len(refused) != 1 {
		t.Fatalf("only %s, %s, %s", show(findings), show(more), show(refused))
	}
	for _, d := range append(append(findings, more...), refused...) {
		if text := encoded(t, d); strings.Contains(text, secret) {
			t.Errorf("%s", text)
		}
	}
}

func canonical(t testing.TB, text string) string {
	t.Helper()
	out, err := canon.Canonicalize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
