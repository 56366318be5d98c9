package acceptance

import (
	"fmt"
	"math"
	"testing"
)

// The sample's girder check with its resistance as a Function in Python, which runs in
// gVisor, gives the numbers of the Component version and of the closed formula, over spans from
// the shortest that the check takes, in feet and in metres.
//
// covers: U1, N1, X5, U3
func TestAGirderCheckInPythonGivesTheNumbersOfItsComponents(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	h.operate(t, "seed")
	engineer := h.as(t, "engineer")
	components, python := engineer.head(t, sample, "girder_check"), engineer.head(t, sample, "hs20_in_python")

	// What a Run costs is told by the description as policy counts it: a Function is an
	// evaluation and the ten seconds that it may take.
	for name, f := range map[string]struct {
		of   flowHead
		cost int64
	}{"of Components": {components, 10}, "in Python": {python, 8 + 11}} {
		var d struct{ Policy struct{ RunCost int64 } }
		engineer.ok(t, "pxflow_describe", m{"target": f.of.Target}, &d)
		if d.Policy.RunCost != f.cost {
			t.Errorf("%s: a Run is said to cost %d, want %d", name, d.Policy.RunCost, f.cost)
		}
	}

	const dead, impact, modulus, yield = 1.25, 0.3, 1290., 36. // kip/ft, 1, in^3, ksi
	const foot = 0.3048
	type one struct {
		span       m
		feet       float64
		component  string // runRefs
		inPython   string
		closedForm map[string]float64
	}
	var runs []one
	for _, feet := range []float64{34.5, 40, 62.5, 80, 120, 333} {
		runs = append(runs, one{span: number(feet, "ft"), feet: feet})
	}
	runs = append(runs, one{span: number(24.384, "m"), feet: 24.384 / foot})
	for i := range runs {
		r := &runs[i]
		start := func(f flowHead) string {
			var started struct{ RunRef string }
			engineer.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": fmt.Sprint("span-", i), "inputs": m{"span": r.span, "dead_load": number(dead, "kip/ft"),
				"impact": number(impact, "1"), "section_modulus": number(modulus, "in^3"), "yield_stress": number(yield, "ksi")}}, &started)
			return started.RunRef
		}
		r.component, r.inPython = start(components), start(python)
		// Of the two positions of the truck the one beside midspan always governs.
		live, own := hs20(r.feet), dead*r.feet*r.feet/8
		total := own + live*(1+impact)
		r.closedForm = map[string]float64{"live_moment": live, "dead_moment": own, "total_moment": total, "stress": total * 12 / modulus, "utilization": total * 12 / modulus / yield}
	}
	for _, r := range runs {
		for name, runRef := range map[string]string{"of Components": r.component, "in Python": r.inPython} {
			if ended := engineer.finished(t, runRef); ended.State != "Succeeded" {
				t.Fatalf("%v %s: %+v", r.span, name, ended)
			}
		}
		for key, want := range r.closedForm {
			a, b := engineer.result(t, r.component, key), engineer.result(t, r.inPython, key)
			if math.Abs(a/want-1) > 1e-12 || math.Abs(b/want-1) > 1e-12 {
				t.Errorf("span %v: %s is %v of Components, %v in Python, and %v by the formula", r.span, key, a, b, want)
			}
		}
		var told struct{ RanBy []string }
		engineer.ok(t, "run_get", m{"runRef": r.inPython}, &told)
		if len(told.RanBy) != 1 {
			t.Errorf("span %v: ran by %q", r.span, told.RanBy)
		}
	}
}
