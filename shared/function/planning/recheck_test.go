package planning_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/snapshot"
)

// changing is a reader that becomes that of a newer program.
type changing struct {
	planning.Python
	later     func(*python.Reply) error
	laterFlow func(member map[string]any) // of what it says of each Flow
}

func (c *changing) ReadAll(ctx context.Context, requests []python.Request) ([]python.Reply, error) {
	replies, err := c.Python.ReadAll(ctx, requests)
	for i := range replies {
		if c.laterFlow == nil || requests[i].Kind != python.FlowKind || err != nil {
			continue
		}
		var said map[string]any
		if err := json.Unmarshal(replies[i].Flow, &said); err != nil {
			return nil, err
		}
		c.laterFlow(said)
		if replies[i].Flow, err = json.Marshal(said); err != nil {
			return nil, err
		}
	}
	return replies, err
}

func (c *changing) Read(ctx context.Context, request python.Request) (python.Reply, error) {
	reply, err := c.Python.Read(ctx, request)
	if c.later != nil && err == nil {
		err = c.later(&reply)
	}
	return reply, err
}

// A source that was in order when it was planned is read again when it is applied: what
// refuses it by then, or reads a contract that is not the planned one, saves nothing.
//
// covers: N5, P5
func TestTheSourceOfAFunctionIsReadAgainWhenItIsApplied(t *testing.T) {
	reader := &changing{Python: pythontest.Reader(t)}
	w := newWorld(t, reader)
	at := w.create(scale("check", 1, "a"), "check")
	w.put(aFlow(t, "one", at, 1))
	plan := w.do("function_plan_change", nextVersion(at, 0, scale("check", 2, "a + 1")))
	for name, c := range map[string]struct {
		later func(*python.Reply) error
		want  string
	}{
		"an import that is refused by now": {func(r *python.Reply) error {
			*r = python.Reply{Findings: []python.Finding{{Code: outcome.SourceInvalid, Reason: "import_not_allowed", Line: 1, Column: 1}}}
			return nil
		}, "PX_SOURCE_INVALID function/check:/source import_not_allowed"},
		"another unit": {func(r *python.Reply) error {
			p := r.Function.Results["r"]
			p.Unit = "kN"
			r.Function.Results["r"] = p
			return nil
		}, "PX_SOURCE_PARITY function/check:/results/r"},
		"another version": {func(r *python.Reply) error { r.Function.Version = 3; return nil }, "PX_SOURCE_INVALID function/check:/source version_not_next"},
		"no Python":       {func(*python.Reply) error { return python.ErrUnavailable }, "PX_SANDBOX_UNAVAILABLE function/check:/source python_missing"},
	} {
		reader.later = c.later
		if e := w.ask("function_apply_change", applying(at, 0, plan)); e.OK || told(e) != c.want {
			t.Errorf("%s: %s", name, told(e))
		}
	}
	if w.entry("function/check").Generation != 0 || w.entry("flow/one").Generation != 0 {
		t.Error("something moved")
	}
	reader.later = nil
	w.apply(at, 0, plan)
}

// The sources of SDK-linked Flows are read again, too: one that says something else by
// then than the document that would be saved stops all of it.
//
// covers: F4, N5, P5
func TestTheSourcesOfFlowsAreReadAgainWhenAPlanIsApplied(t *testing.T) {
	reader := &changing{Python: pythontest.Reader(t)}
	w := newWorld(t, reader)
	at := w.create(scale("check", 1, "a"), "check")
	w.put(w.written(reader, "import px\n\nflow = px.flow(\"written\")\nspan = flow.input(\"a\", px.number(unit=\"m\"))\nn = flow.node(\"n\", px.function(\"check\", 1, \""+at["digest"].(string)+
		"\"))\nflow.connect(n.input(\"a\"), span)\nflow.result(\"r\", px.number(unit=\"m\"), n.output(\"r\"))\n"), aFlow(t, "native", at, 1))
	plan := w.do("function_plan_change", nextVersion(at, 0, scale("check", 2, "a + 1")))
	reader.laterFlow = func(said map[string]any) { said["label"] = m{"en": "Read otherwise"} }
	if e := w.ask("function_apply_change", applying(at, 0, plan)); e.OK || told(e) != "PX_SOURCE_PARITY flow/written:/label" {
		t.Errorf("applied as %s", told(e))
	}
	for _, key := range []string{"function/check", "flow/written", "flow/native"} {
		if w.entry(key).Generation != 0 {
			t.Errorf("%s moved", key)
		}
	}
	reader.laterFlow = nil
	w.apply(at, 0, plan)
}

// What a plan staged is held, document by document, to the rules of the program that
// applies it, which may not be the one that planned it.
//
// covers: N5, P5
func TestEveryDocumentOfAPlanIsValidatedAgain(t *testing.T) {
	reader := pythontest.Reader(t)
	w := newWorld(t, reader)
	at := w.create(scale("check", 1, "a"), "check")
	w.put(aFlow(t, "one", at, 1))
	w.put(aReport(t, "review", w.revision("one")))
	plan := w.do("function_plan_change", nextVersion(at, 0, scale("check", 2, "a + 1")))
	opening, err := w.store.Begin(t.Context(), bridge, engineer.String(), "", plan["planRef"].(string))
	if err != nil {
		t.Fatal(err)
	}
	body, err := change.ReadBody(t.Context(), w.store, *opening.Plan)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range body.Changes {
		read, err := w.store.Get(t.Context(), history.Space(bridge.String()), c.Entry.RevisionRef)
		if err != nil {
			t.Fatal(err)
		}
		body.Changes[i].Document = read[0]
	}
	recheck := planning.Recheck(snapshot.Reader{Objects: w.store, Store: w.store, Catalog: w.catalog}, reader)
	for name, c := range map[string]struct {
		kind, old, new string
		want           string
	}{
		"as it was planned":                   {"", "", "", ""},
		"a port of the Function without unit": {"function", `"results":{"r":{"type":"number","unit":"m"}}`, `"results":{"r":{"type":"number","unit":"nothing"}}`, "PX_UNIT_MISMATCH function/check:/results/r/unit"},
		"a Flow whose input does not fit":     {"flow", `"inputs":{"a":{"type":"number","unit":"m"}}`, `"inputs":{"a":{"type":"number","unit":"kN"}}`, "PX_UNIT_MISMATCH flow/one:/nodes/n0/inputBindings/a"},
		"a Flow without its Node":             {"flow", `"n0":`, `"n9":`, "PX_REFERENCE_UNKNOWN flow/one:/results/r/binding/nodeKey"},
		"a Report that fills it with a force": {"report", `"unit":"m","value"`, `"unit":"kN","value"`, "PX_UNIT_MISMATCH report/review:"},
		"a Report without its slot":           {"report", `"slots":{"s0"`, `"slots":{"s9"`, "PX_REFERENCE_UNKNOWN report/review:"},
	} {
		changes := slices.Clone(body.Changes)
		for i := range changes {
			if changes[i].Kind == c.kind {
				text := strings.Replace(string(changes[i].Document), c.old, c.new, 1)
				if text == string(changes[i].Document) {
					t.Fatalf("%s: not in %s", name, text)
				}
				changes[i].Document = []byte(text)
			}
		}
		found, err := recheck(t.Context(), bridge, opening.Head.Root, changes)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range found {
			got = append(got, string(d.Code)+" "+d.Path)
		}
		if c.want == "" && got != nil || !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, c.want) }) && c.want != "" {
			t.Errorf("%s: found %q", name, got)
		}
	}
}
