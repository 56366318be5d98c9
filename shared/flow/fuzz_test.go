package flow

import (
	"context"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// FuzzDecode holds that whatever text comes in, a document is either refused, or
// is its own canonical form, reads back as the same, and can be validated,
// described, searched and compared without a panic.
func FuzzDecode(f *testing.F) {
	// Seeds are small: minimizing a large one takes the whole time.
	for _, text := range []string{bridge, document(``, ``, ``), `{"format":"pxflow/1"`, `[]`, `null`, `{"format":"pxflow/1","format":"pxflow/1"}`,
		document(``, ``, node("a", "length", from("a", "a.r"))), document(`"a":{"type":"number","unit":"m","constraints":{"minimum":1e400}}`, ``, ``),
		document(`"a":{"type":"list","of":{"type":"list","of":{"type":"integer"}},"default":{"value":[[1]]}}`, ``, ``),
		document(lengthInput, result("out", `"type":"number","unit":"m"`, "a.r"), formulaNode("a", "b / 2", "ft", `"b":{"unit":"m"}`, from("b", "span"))),
		document(``, ``, `"a":{"target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"results":{"r":{"expression":"1/0","unit":"1"}}}}`),
		document(``, ``, `"a":{"target":{"kind":"component","componentKey":"px.lookup","version":1},"settings":{"x":9007199254740993,"y":-0.0,"z":123456789012345680000}}`)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, findings := Decode(text)
		if len(findings) > 0 {
			for _, d := range findings {
				if d.Code == "" || d.Params == nil {
					t.Fatalf("%v", d)
				}
			}
			return
		}
		canonical, ref, err := doc.RevisionRef()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := canon.Canonicalize(text); err != nil || string(want) != string(canonical) {
			t.Fatalf("%v\n got %s\nwant %s", err, canonical, want)
		}
		again, findings := Decode(canonical)
		if len(findings) > 0 {
			t.Fatalf("its canonical form is refused: %s\n%s", show(findings), canonical)
		}
		if _, r, _ := again.RevisionRef(); r != ref {
			t.Fatal("its canonical form has another digest")
		}
		analysis, findings, err := Validate(context.Background(), doc, library)
		if err != nil {
			t.Fatal(err)
		}
		if !findings.Refused() && len(doc.Nodes) > 0 && len(analysis.Stages) == 0 {
			t.Fatal("a valid document has no stages")
		}
		Describe(doc, analysis)
		SearchText(doc)
		if changes, err := Diff(&doc, again); err != nil || len(changes) > 0 {
			t.Fatalf("%v %v", changes, err)
		}
	})
}

// FuzzCommands holds that whatever commands come in, they are refused, or make a
// document that reads back, with the base untouched.
func FuzzCommands(f *testing.F) {
	for _, text := range []string{`{"kind":"CreateFlow","document":` + bridge + `}`, `{"kind":"SetFlowLabel","label":{"ko":"가"}}`,
		`{"kind":"AddNode","nodeKey":"n","target":{"kind":"component","componentKey":"px.formula","version":1},"settings":{"a":-0.0}}`,
		`{"kind":"RemoveNode","nodeKey":"first"},{"kind":"RemoveNode","nodeKey":"first"}`, `{"kind":"SetNodeSetting","nodeKey":"second","settingKey":"k","value":null}`,
		`{"kind":"ConnectInput","nodeKey":"first","portKey":"a","binding":{"kind":"literal","value":{"value":1e400}}}`, `{"kind":"DisconnectInput","nodeKey":"first","portKey":"a"}`,
		`{"kind":"AddInputPort","portKey":"p","contract":{"type":"number","unit":"m"}},{"kind":"ChangeInputPort","portKey":"p","contract":{"type":"integer"}},{"kind":"RemoveInputPort","portKey":"p"}`,
		`{"kind":"AddResultPort","portKey":"p","contract":{"type":"boolean"}},{"kind":"BindResult","portKey":"p","binding":{"kind":"nodeResult","nodeKey":"first","portKey":"r"}},{"kind":"ChangeResultPort","portKey":"p","contract":{"type":"integer"}},{"kind":"RemoveResultPort","portKey":"p"}`,
		`{"kind":"ReplaceNodeTarget","nodeKey":"first","target":{"kind":"function","functionKey":"two","version":1,"digest":"d"}}`, `{"kind":"x"}`, `{}`, `[`} {
		f.Add([]byte(`{"commands":[` + text + `]}`))
	}
	base := decode(f, bridge)
	_, baseRef, err := base.RevisionRef()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r request
		if findings := schema.Decode(text, &r); len(findings) > 0 {
			return
		}
		for _, from := range []*Document{&base, nil} {
			next, _, findings := Apply(from, r.Commands)
			if _, ref, _ := base.RevisionRef(); ref != baseRef {
				t.Fatal("the base was changed")
			}
			if findings.Refused() {
				continue
			}
			canonical, _, err := next.RevisionRef()
			if err != nil {
				t.Fatal(err)
			}
			if _, findings := Decode(canonical); len(findings) > 0 {
				t.Fatalf("reading back: %s\n%s", show(findings), canonical)
			}
			if _, _, err := Validate(context.Background(), next, library); err != nil {
				t.Fatal(err)
			}
			if _, err := canon.Encode(Unlabelled(r.Commands)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
