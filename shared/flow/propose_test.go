package flow

import (
	"context"
	"testing"

	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: F2, E2
func TestAFirstSaveIsHeldAgainstItsTarget(t *testing.T) {
	text := document(lengthInput, result("out", `"type":"number","unit":"m"`, "a.r"), node("a", "length", from("a", "span")))
	ref := revision(t, decode(t, text))
	p, findings, err := Propose(context.Background(), nil, commands(t, `{"kind":"CreateFlow","document":`+text+`}`), library, nil)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, show(findings))
	}
	if p.Analysis.RevisionRef != ref || string(p.Commands[0]) != string(p.Unlabelled[0]) || len(p.Kinds) != 1 || len(p.Diff) != 3 || p.Cost != outline.FunctionCost || len(p.Boundary) != 2 || len(p.Checks) != 8 {
		t.Errorf("%s", encoded(t, p.Diff))
	}
	for name, c := range map[string]struct {
		target target.Flow
		want   string
	}{
		"the document's own": {target.Flow{FlowKey: "sample", RevisionRef: ref}, ""},
		"another key":        {target.Flow{FlowKey: "other", RevisionRef: ref}, "PX_PLAN_MISMATCH /target/flowKey"},
		"another digest":     {target.Flow{FlowKey: "sample", RevisionRef: ref + "0"}, "PX_PLAN_MISMATCH /target/revisionRef"},
		"neither":            {target.Flow{}, "PX_PLAN_MISMATCH /target/flowKey\nPX_PLAN_MISMATCH /target/revisionRef"},
	} {
		if got := show(p.Creates(c.target)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	broken := document(``, ``, node("a", "length", from("a", "a.r"))+`,`+node("b", "length", from("a", "gone.r")))
	_, findings, err = Propose(context.Background(), nil, commands(t, `{"kind":"CreateFlow","document":`+broken+`}`), library, nil)
	if want := "PX_BINDING_CYCLE /commands/0/document/nodes/a/inputBindings/a\nPX_REFERENCE_UNKNOWN /commands/0/document/nodes/b/inputBindings/a/nodeKey"; err != nil || show(findings) != want {
		t.Errorf("%v\n got %s\nwant %s", err, show(findings), want)
	}
}

// covers: P2, F3
func TestAProposalShowsWhatChangesAndHowItFits(t *testing.T) {
	base := decode(t, document(lengthInput, result("out", `"type":"number","unit":"m"`, "b.r"), node("a", "length", from("a", "span"))+`,`+node("b", "length", from("a", "a.r"))))
	list := `{"kind":"ChangeInputPort","portKey":"span","contract":{"type":"number","unit":"ft"}},
		{"kind":"SetFlowLabel","label":{"en":"secret"}},
		{"kind":"AddNode","nodeKey":"c","target":{"kind":"function","functionKey":"two","version":1,"digest":"d"},"inputBindings":{` + from("a", "a.r") + `,` + from("b", "b.r") + `},"label":{"en":"secret"}}`
	p, findings, err := Propose(context.Background(), &base, commands(t, list), library, nil)
	if err != nil || findings.Refused() {
		t.Fatal(err, show(findings))
	}
	if want := "PX_UNIT_CONVERTED /nodes/a/inputBindings/a\nPX_UNIT_CONVERTED /nodes/c/inputBindings/b"; show(findings) != want {
		t.Errorf("findings %s", show(findings))
	}
	paths := map[string]bool{}
	for _, c := range p.Checks {
		paths[c.Path] = true
	}
	for name, c := range map[string][2]any{
		"touched":  {p.Touched, []string{"/inputs/span", "/label", "/nodes/c"}},
		"kinds":    {p.Kinds, []string{"AddNode", "ChangeInputPort", "SetFlowLabel"}},
		"checks":   {sorted(paths), []string{"/nodes/a/inputBindings/a", "/nodes/c/inputBindings/a", "/nodes/c/inputBindings/b"}},
		"boundary": {len(p.Boundary), 1},
		"cost":     {p.Cost, 3 * outline.FunctionCost},
		"uses":     {Uses(p.Document), []string{"function/length", "function/two"}},
		"unlabelled": {p.Unlabelled[1:], []any{map[string]any{"kind": "SetFlowLabel", "label": map[string]any{}}, map[string]any{"kind": "AddNode", "nodeKey": "c",
			"target": map[string]any{"kind": "function", "functionKey": "two", "version": 1, "digest": "d"}, "inputBindings": p.Document.Nodes["c"].InputBindings}}},
	} {
		if got, want := encoded(t, c[0]), encoded(t, c[1]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	// A command's finding comes alone; the document is not looked at.
	_, findings, _ = Propose(context.Background(), &base, commands(t, `{"kind":"RemoveNode","nodeKey":"a"},{"kind":"RemoveNode","nodeKey":"a"}`), library, nil)
	if show(findings) != "PX_REFERENCE_UNKNOWN /commands/1/nodeKey" {
		t.Errorf("%s", show(findings))
	}
	_, findings, _ = Propose(context.Background(), &base, commands(t, `{"kind":"RemoveNode","nodeKey":"a"}`), library, nil)
	if show(findings) != "PX_REFERENCE_UNKNOWN /nodes/b/inputBindings/a/nodeKey" {
		t.Errorf("%s", show(findings))
	}
}
