package planning_test

import (
	"fmt"
	"testing"

	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/report"
)

// used is a Project in which a Function is used in so many Flows, to each of the first
// of which a Report is connected.
func used(b testing.TB, reader planning.Python, flows, reports int) (*world, m) {
	b.Helper()
	w := newWorld(b, reader)
	at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
	var documents []any
	for i := range flows {
		documents = append(documents, aFlow(b, fmt.Sprintf("flow_%05d", i), at, 6))
	}
	w.put(documents...)
	documents = nil
	for i := range reports {
		documents = append(documents, aReport(b, fmt.Sprintf("report_%05d", i), w.revision(fmt.Sprintf("flow_%05d", i)), w.revision(fmt.Sprintf("flow_%05d", (i+1)%flows))))
	}
	if documents != nil {
		w.put(documents...)
	}
	return w, at
}

// The memory store and the whole of the tools: what is measured is what planning and
// applying take besides a database. The reference is to read every document and to
// validate it once, one after another.
func BenchmarkNextVersion(b *testing.B) {
	for _, size := range []struct{ flows, reports int }{{200, 50}, {2000, 500}, {3999, 1000}} {
		reader := pythontest.Reader(b)
		w, at := used(b, reader, size.flows, size.reports)
		name := fmt.Sprintf("%d flows and %d reports", size.flows, size.reports)
		b.Run("reference/"+name, func(b *testing.B) {
			f, _, _ := aFlow(b, "flow_00000", at, 6).RevisionRef()
			r, _, _ := aReport(b, "report_00000", w.revision("flow_00000"), w.revision("flow_00001")).RevisionRef()
			for b.Loop() {
				for range size.flows {
					doc, _ := flow.Decode(f)
					if _, _, err := flow.Validate(b.Context(), doc, flow.NoFunctions{}); err != nil {
						b.Fatal(err)
					}
				}
				for range size.reports {
					doc, _ := report.Decode(r)
					if _, _, err := report.Validate(b.Context(), doc, report.Known{}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		var plan m
		b.Run("plan/"+name, func(b *testing.B) {
			for b.Loop() {
				plan = w.do("function_plan_change", nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a * 2}")))
			}
		})
		b.Run("apply/"+name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if i > 0 { // of one plan there is one apply
					b.StopTimer()
					at = next(w.do("function_describe", m{"target": at}))
					plan = w.do("function_plan_change", nextVersion(at, i, source("check", i+2, "m", "m", fmt.Sprintf("return {\"r\": a * %d}", i+2))))
					b.StartTimer()
				}
				at = w.apply(at, i, plan)["changed"].([]any)[0].(m)["target"].(m)
			}
		})
	}
}

// next is the target of a description.
func next(described m) m { return described["target"].(m) }
