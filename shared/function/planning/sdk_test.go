package planning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/flow"
	flowsource "github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// A Flow that is written in Python moves in its source: one statement, every other byte
// as it was, and the document says what the source says. A source that says something
// else by then stops the whole apply.
//
// covers: F4, N5, N3
func TestAnSDKLinkedFlowMovesInItsSource(t *testing.T) {
	reader := pythontest.Reader(t)
	w := newWorld(t, reader)
	at := w.create(scale("check", 1, "a"), "check")
	text := fmt.Sprintf("import px\r\n\r\n# a comment that stays\r\nflow = px.flow(\"written\")\r\nspan = flow.input(\"a\", px.number(unit=\"m\"))\r\n"+
		"n = flow.node(\"n\", px.function(\"check\", 1, %q))\t# here\r\nflow.connect(n.input(\"a\"), span)\r\nflow.result(\"r\", px.number(unit=\"m\"), n.output(\"r\"))\r\n", at["digest"])
	w.put(w.written(reader, text), aFlow(t, "native", at, 1))

	plan := w.do("function_plan_change", nextVersion(at, 0, scale("check", 2, "a + 1")))
	next := plan["impact"].(m)["function"].(m)["after"].(m)["digest"].(string)
	var shown string
	for _, d := range plan["diff"].([]any) {
		if d := d.(m); strings.HasPrefix(d["path"].(string), "flow/written:/authoring") {
			shown, _ = d["unified"].(string)
		}
	}
	if !strings.Contains(shown, next) || strings.Contains(shown, "-# a comment") {
		t.Errorf("the source is shown to change by\n%s", shown)
	}
	w.apply(at, 0, plan)
	bodies, err := w.store.Get(t.Context(), history.Space(bridge.String()), w.entry("flow/written").RevisionRef)
	if err != nil {
		t.Fatal(err)
	}
	doc, findings := flow.Decode(bodies[0])
	if findings != nil {
		t.Fatal(findings)
	}
	if bodies, err = w.store.Get(t.Context(), history.Space(bridge.String()), history.Ref(doc.Authoring.SourceDigest)); err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(text, "px.function(")
	_, after, _ := strings.Cut(rest, ")")
	got := string(bodies[0])
	edited, ok := strings.CutPrefix(got, before+"px.function(")
	if edited, more := strings.CutSuffix(edited, ")"+after); !ok || !more || strings.Join(strings.Fields(strings.ReplaceAll(edited, ",", " ")), " ") != fmt.Sprintf("\"check\" 2 %q", next) {
		t.Errorf("the source is\n%q\nfrom\n%q", got, text)
	}

	// Saved past every check, a document that its source does not say.
	doc.Label = map[string]string{"en": "Not in the source"}
	w.put(doc)
	head := w.do("function_search", m{"scope": scope, "query": "check"})["items"].([]any)[0].(m)["target"].(m)
	if e := w.ask("function_plan_change", nextVersion(head, 1, scale("check", 3, "a + 2"))); e.OK || !strings.HasPrefix(told(e), "PX_SOURCE_PARITY flow/written:") {
		t.Errorf("planned as %s", told(e))
	}
	if w.entry("flow/native").Generation != 1 || w.entry("function/check").Generation != 1 {
		t.Error("something moved")
	}
}

// written is the document of an SDK-linked Flow, whose source it stores.
func (w *world) written(reader planning.Python, text string) flow.Document {
	w.t.Helper()
	replies, err := reader.ReadAll(w.t.Context(), []python.Request{{Kind: python.FlowKind, Source: text}})
	if err != nil || replies[0].Refused() {
		w.t.Fatal(err, replies[0].Diagnostics(""))
	}
	reading, findings, err := flowsource.Decode(text, replies[0].Flow)
	if findings != nil || err != nil {
		w.t.Fatal(findings, err)
	}
	if err := w.store.Put(w.t.Context(), history.Space(bridge.String()), []byte(text)); err != nil {
		w.t.Fatal(err)
	}
	return reading.Document
}

// scale is a version that makes metres of metres.
func scale(key string, version int, of string) string {
	return source(key, version, "m", "m", "return {\"r\": "+of+"}")
}
