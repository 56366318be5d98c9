package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

func unmarshal(raw canon.Raw, v any) error { return json.Unmarshal(raw, v) }

// reading reads a source that is in order.
func reading(t interface {
	fataler
	Helper()
}, reader Reader, text string) Reading {
	t.Helper()
	r, findings, err := readOne(context.Background(), reader, "", text)
	if err != nil || findings != nil {
		t.Fatalf("%v %s\n%s", err, show(findings), text)
	}
	return r
}

func show(findings outcome.Findings) string {
	var lines []string
	for _, d := range findings {
		line := string(d.Code) + " " + d.Path
		if r, ok := d.Params["reason"]; ok {
			line += " " + r.(string)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// said is a document as it is compared: whatever source it names.
func said(t fataler, doc flow.Document) string {
	doc.Authoring = flow.Authoring{Kind: flow.SDK, SourceDigest: "sha256:0"}
	text, err := canon.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// around is the text without its statements: the lines that no statement stands on.
func around(text string, r Reading) string {
	var b strings.Builder
	e := newEditor(text, r)
	for _, l := range e.lines {
		b.WriteString(l.lead)
	}
	b.WriteString(e.tail)
	return b.String()
}

// bodies are the lines of the statements, by what they are about.
func bodies(text string, r Reading) map[string]string {
	out := map[string]string{}
	for _, l := range newEditor(text, r).lines {
		out[l.kind+" "+l.nodeKey+" "+l.portKey] = l.body
	}
	return out
}

// lastLines is the end of a text, from its last statement on.
func lastLines(text string, r Reading) string {
	e := newEditor(text, r)
	l := e.lines[len(e.lines)-1]
	return l.body + l.end + e.tail
}

// covers: F4
func TestWhatCommandsMakeOfASourceIsWhatTheyMakeOfItsDocument(t *testing.T) {
	reader := pythontest.Reader(t)
	rapid.Check(t, func(t *rapid.T) {
		doc := someDocument(t)
		text := write(t, doc)
		before := reading(t, reader, text)
		if said(t, before.Document) != said(t, doc) {
			t.Fatalf("the source says\n%s\nand not\n%s\n%s", said(t, before.Document), said(t, doc), text)
		}
		commands := someCommands(t, before.Document, 6)
		if len(commands) == 0 {
			return
		}
		after, touched, findings := flow.Apply(&before.Document, commands)
		if findings != nil {
			t.Fatal(show(findings))
		}
		edited, err := Edit(text, before, after)
		if !closed(after) {
			if err != ErrDangling {
				t.Fatalf("dangling, and %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		read := reading(t, reader, edited)
		if said(t, read.Document) != said(t, after) {
			t.Fatalf("the edited source says\n%s\nand not\n%s\n%s\n----\n%s", said(t, read.Document), said(t, after), text, edited)
		}
		// Comments and blank lines between statements are all there, in order.
		if a, b := around(text, before), around(edited, read); a != b {
			t.Fatalf("around the statements\n%q\nand then\n%q\n%s\n----\n%s", a, b, text, edited)
		}
		// A statement about what no command touched is what it was, to the byte.
		was, is := bodies(text, before), bodies(edited, read)
		for about, body := range was {
			kind, at, _ := strings.Cut(about, " ")
			node, port, _ := strings.Cut(at, " ")
			path := map[string]string{"flow": "/label", "input": "/inputs/" + port, "node": "/nodes/" + node, "connect": "/nodes/" + node + "/inputBindings/" + port, "result": "/results/" + port}[kind]
			concerned := slices.ContainsFunc(touched, func(touch string) bool {
				if kind == "node" && strings.Contains(touch, "/inputBindings/") {
					return false
				}
				return strings.HasPrefix(touch+"/", path+"/") || strings.HasPrefix(path+"/", touch+"/")
			})
			if path != "" && concerned {
				continue
			}
			if is[about] != body {
				t.Fatalf("%s was %q and is %q", about, body, is[about])
			}
		}
		// Line ends are those of the source.
		if strings.Contains(text, "\r\n") != strings.Contains(edited, "\r\n") && strings.Contains(text, "\n") {
			t.Fatalf("line ends of\n%q\nare another in\n%q", text, edited)
		}
		if lone := strings.Count(edited, "\n") - strings.Count(edited, "\r\n"); strings.Contains(text, "\r\n") && lone > 0 {
			t.Fatalf("%d bare line feeds in %q", lone, edited)
		}
		// So is the end of the source, unless the last line itself went.
		if last := lastLines(text, before); strings.HasSuffix(text, "\n") != strings.HasSuffix(edited, "\n") &&
			(strings.HasSuffix(last, "\n") || strings.HasSuffix(edited, last+"\n")) {
			t.Fatalf("the end of %q is not that of %q", edited, text)
		}
		// What nothing changes, nothing changes.
		if same(before.Document, after) != (text == edited) {
			t.Fatalf("same document %v, and the source\n%q\nbecame\n%q", same(before.Document, after), text, edited)
		}
		// There and back is the document that it was.
		back, err := Edit(edited, read, before.Document)
		if err != nil {
			t.Fatal(err)
		}
		if again := reading(t, reader, back); said(t, again.Document) != said(t, before.Document) {
			t.Fatalf("back again says\n%s", said(t, again.Document))
		}
	})
}

// Whatever is done to a source, it is refused with findings that quote nothing of it,
// or it can be edited: nothing that is read is beyond what edits understand.
//
// covers: F4
func TestASourceIsRefusedOrCanBeEdited(t *testing.T) {
	reader := pythontest.Reader(t)
	pieces := rapid.SampledFrom([]string{"(", ")", "[", "]", "{", "}", ",", ";", ":", "=", "\\", "\n", "\r\n", " ", "\t", "#", "\"", "'", "\"\"\"", "*", "**", ".", "-", "1", "0x1f", "1_0", "1e999", "None", "px", "flow", "import px",
		"flow.input(\"z\", px.boolean())", "z = flow.node(\"z\", px.component(\"px.formula\", 1))", "lambda: 0", "if True: pass", "f\"{x}\"", "b\"\"", "...", "yield", "가", "\f", "px.literal(", "u", "r"})
	refused, edited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		doc := someDocument(t)
		text := write(t, doc)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			from := rapid.IntRange(0, len(text)).Draw(t, "from")
			to := min(len(text), from+rapid.SampledFrom([]int{0, 0, 1, 2, 10, 60}).Draw(t, "size"))
			text = text[:from] + rapid.OneOf(pieces, rapid.Just("")).Draw(t, "piece") + text[to:]
		}
		r, findings, err := readOne(context.Background(), reader, "/s", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if findings.Refused() {
			refused++
			return
		}
		edited++
		if again, err := Edit(text, r, r.Document); closed(r.Document) && (err != nil || again != text) {
			t.Fatalf("%v: %q became %q", err, text, again)
		}
		commands := someCommands(t, r.Document, 3)
		if len(commands) == 0 {
			return
		}
		after, _, _ := flow.Apply(&r.Document, commands)
		next, err := Edit(text, r, after)
		if errors.Is(err, ErrDangling) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := reading(t, reader, next); said(t, got.Document) != said(t, after) || around(text, r) != around(next, got) {
			t.Fatalf("edited\n%s\n----\n%s\nsays %s", text, next, said(t, got.Document))
		}
	})
	t.Logf("%d refused, %d edited", refused, edited)
	if refused == 0 || edited == 0 {
		t.Error("one of the two is not tried")
	}
}
