package pxflowapplychange_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
)

// later is the reader of a newer program, which reads a word in another way.
type later struct {
	source.Reader
	word, as string
	err      error
}

func (l later) ReadAll(ctx context.Context, requests []python.Request) ([]python.Reply, error) {
	if l.err != nil {
		return nil, l.err
	}
	replies, err := l.Reader.ReadAll(ctx, requests)
	for i := range replies {
		replies[i].Flow = canon.Raw(strings.ReplaceAll(string(replies[i].Flow), l.word, l.as))
	}
	return replies, err
}

// What agreed when it was planned is held together again, by the code that runs when
// it is applied: a source that is read to say something else is not saved.
//
// covers: F4, P5
func TestSourceAndDocumentAreHeldTogetherAgainWhenAPlanIsApplied(t *testing.T) {
	ctx := t.Context()
	const text = "import px\nflow = px.flow(\"f\")\nspan = flow.input(\"span\", px.number(unit=\"m\"))\nflow.result(\"r\", px.number(unit=\"m\"), span)\n"
	project := target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}
	store := memory.New(time.Now)
	if err := store.Put(ctx, history.Space(project.String()), []byte(text)); err != nil {
		t.Fatal(err)
	}
	reader := snapshot.Reader{Objects: store, Store: store, Catalog: history.NewCatalog(store, history.NewCache(1<<20))}
	real := pythontest.Reader(t)
	document := func(unit, text string) []byte {
		return []byte(`{"authoring":{"kind":"sdk","sourceDigest":"` + flow.SourceDigest(text) + `"},"flowKey":"f","format":"pxflow/1","inputs":{"span":{"type":"number","unit":"` + unit + `"}},"nodes":{},"results":{"r":{"binding":{"kind":"flowInput","portKey":"span"},"type":"number","unit":"` + unit + `"}}}`)
	}
	for name, c := range map[string]struct {
		python   source.Reader
		document []byte
		want     string
	}{
		"as it was planned":          {real, document("m", text), ""},
		"read in another way":        {later{Reader: real, word: `"number"`, as: `"boolean"`}, document("m", text), "PX_SOURCE_PARITY /inputs/span PX_SOURCE_PARITY /results/r"},
		"another document":           {real, document("ft", text), "PX_SOURCE_PARITY /inputs/span PX_SOURCE_PARITY /results/r"},
		"a key that became another":  {later{Reader: real, word: `"span"`, as: `"spam"`}, document("m", text), "PX_SOURCE_PARITY /inputs/spam PX_SOURCE_PARITY /inputs/span PX_SOURCE_PARITY /results/r/binding"},
		"nothing that reads Python":  {later{err: python.ErrUnavailable}, document("m", text), "PX_SANDBOX_UNAVAILABLE "},
		"a native Flow, without one": {nil, []byte(strings.Replace(string(document("m", text)), `{"kind":"sdk","sourceDigest":"`+flow.SourceDigest(text)+`"}`, `{"kind":"native"}`, 1)), ""},
	} {
		findings, err := pxflowapplychange.Recheck(reader, c.python)(ctx, project, "", []change.Change{{Kind: "flow", Key: "f", Document: c.document}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var told []string
		for _, d := range findings {
			told = append(told, string(d.Code)+" "+d.Path)
		}
		got := strings.Join(told, " ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// A source that is not there is an error, and nothing is saved.
	if _, err := pxflowapplychange.Recheck(reader, real)(ctx, project, "", []change.Change{{Kind: "flow", Key: "f", Document: document("m", text+"# another")}}); err == nil {
		t.Error("a source that was never stored")
	}
}
