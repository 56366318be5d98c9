package report

import (
	"context"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// FuzzDecode holds that whatever text comes in, a document is either refused, or
// is its own canonical form, reads back as the same, and can be validated,
// described, searched, compared and made into inputs without a panic.
func FuzzDecode(f *testing.F) {
	// Seeds are small: minimizing a large one takes the whole time.
	for _, text := range []string{document("", ``, ``), `{"format":"pxreport/1"`, `[]`, `null`, `{"format":"pxreport/1","format":"pxreport/1"}`,
		document("b b", `"b":{"kind":"text","text":"가"}`, ``), document("b", values("b", `"f":{`+metres+`,"value":{"value":1e400,"unit":"m"}}`), ``),
		document("b", values("b", `"f":{"type":"table","columns":[{"columnKey":"x","type":"integer"}],"value":{"columns":[{"columnKey":"x","type":"integer"}],"rows":[[1]]}}`), ``),
		document("a b", values("a", `"f":{`+metres+`,"value":{"value":-0.0,"unit":"ft"}}`)+`,`+results("b", `"s":{"type":"number","unit":"kN*m"}`), connection("c", on("check", "r1"), in("m", "a.f", "span"), out("n", "moment", "b.s"))),
		document("", ``, connection("c", on("gone", "r9"), ``, out("n", "moment", "b.s")))} {
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
		analysis, found, err := Validate(context.Background(), doc, flows)
		if err != nil {
			t.Fatal(err)
		}
		Describe(doc, analysis)
		SearchText(doc)
		if changes, err := Diff(&doc, again); err != nil || len(changes) > 0 {
			t.Fatalf("%v %v", changes, err)
		}
		for key, c := range doc.Connections {
			inputs, wrong, err := Inputs(context.Background(), doc, key, flows)
			if err != nil || (inputs == nil) != wrong.Refused() {
				t.Fatalf("%v, %s, inputs %v", err, show(wrong), inputs)
			}
			if !found.Refused() && len(inputs) > len(c.Inputs) {
				t.Fatal("inputs that nothing is mapped to")
			}
			if _, _, err := Bases(doc, key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzCommands holds that whatever commands come in, they are refused, or make a
// document that reads back, with the base untouched.
func FuzzCommands(f *testing.F) {
	for _, text := range []string{`{"kind":"CreateReport","document":` + document("b", `"b":{"kind":"text","text":""}`, ``) + `}`, `{"kind":"SetReportLabel","label":{"ko":"가"}}`,
		`{"kind":"AddBlock","blockKey":"n","block":{"kind":"values","fields":{"f":{"type":"integer","value":{"value":-0.0}}}},"afterBlockKey":"basis"}`,
		`{"kind":"RemoveBlock","blockKey":"method"},{"kind":"RemoveBlock","blockKey":"method"}`, `{"kind":"MoveBlock","blockKey":"method"}`,
		`{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":{"value":1e400,"unit":"m"}}`, `{"kind":"SetFieldValue","blockKey":"basis","fieldKey":"span","value":null}`,
		`{"kind":"AddSlot","blockKey":"summary","slotKey":"x","slot":{"type":"boolean"}},{"kind":"RemoveSlot","blockKey":"summary","slotKey":"x"}`,
		`{"kind":"AddField","blockKey":"basis","fieldKey":"x","field":{"type":"boolean"}},{"kind":"RemoveField","blockKey":"basis","fieldKey":"x"}`,
		setInput("c", "m", on("check", "r1"), "span", "basis.span") + `,` + setResult("c", "n", "moment", "summary.feet") + `,` + unmap("c", "m") + `,` + unmap("c", "n"),
		`{"kind":"SetConnectionFlow","connectionKey":"main","flowTarget":` + on("check", "r2") + `}`, `{"kind":"SetText","blockKey":"method","text":"\u0000"}`, `{"kind":"x"}`, `{}`, `[`} {
		f.Add([]byte(`{"commands":[` + text + `]}`))
	}
	base := decode(f, review)
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
			if _, _, err := Propose(context.Background(), from, r.Commands, flows); err != nil {
				t.Fatal(err)
			}
		}
	})
}
