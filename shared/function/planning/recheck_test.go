package planning_test

import (
	"context"
	"testing"

	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// changing is a reader that becomes that of a newer program.
type changing struct {
	planning.Python
	later func(*python.Reply) error
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
