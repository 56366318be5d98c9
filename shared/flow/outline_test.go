package flow

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/flow/outline"
)

// What a start pins from the outline is what the evaluator finds: the state machine
// is told the one and run_node follows the other.
//
// covers: U1
func TestAnOutlineCountsWhatTheEvaluatorLaysOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := someDocument(t)
		text, _, err := doc.RevisionRef()
		if err != nil {
			t.Fatal(err)
		}
		g := graphOf(doc)
		sorted, acyclic := g.order()
		o, err := outline.Read(text)
		if !acyclic {
			if err == nil {
				t.Fatal("a cycle has an outline")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		laid := stages(doc, g, sorted)
		var sandbox []int
		for i, s := range laid {
			if s.Kind == SandboxStage {
				sandbox = append(sandbox, i)
			}
		}
		if !slices.Equal(o.Sandbox, sandbox) {
			t.Fatalf("the outline says that %v call Functions, and it is %v", o.Sandbox, sandbox)
		}
		if want := max(1, len(laid)); o.Stages != want || o.Nodes != len(doc.Nodes) || o.Cost != Cost(doc) || len(o.Inputs) != len(doc.Inputs) || len(o.Results) != len(doc.Results) {
			t.Fatalf("the outline has %+v, and the document %d stages and costs %d", o, want, Cost(doc))
		}
	})
}
