package acceptance

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// resistance is what the Nodes stress and utilization of the sample's girder check do,
// as an engineer writes it who thinks in SI units.
const resistance = `import px


@px.function(
    key="resistance",
    version=1,
    description="Bending stress at the extreme fibre, and what it is of the yield stress",
    label={"en": "Bending resistance", "ko": "휨 저항"},
    inputs={
        "moment": px.number(unit="kN*m", quantity_kind="moment"),
        "modulus": px.number(unit="mm^3", exclusive_minimum=0, quantity_kind="section_modulus"),
        "yield_stress": px.number(unit="MPa", exclusive_minimum=0, quantity_kind="stress"),
    },
    results={
        "stress": px.number(unit="MPa", quantity_kind="stress"),
        "utilization": px.number(unit="1", minimum=0, quantity_kind="ratio"),
    },
)
def resistance(moment, modulus, yield_stress):
    stress = moment * 1e6 / modulus
    return {"stress": stress, "utilization": stress / yield_stress}
`

// girderInPython is the sample's Flow with a Function in place of its last two Nodes.
func girderInPython(t *testing.T, function functionHead) m {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "sample", "girder_check.pxflow"))
	if err != nil {
		t.Fatal(err)
	}
	var doc m
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	doc["flowKey"] = "girder_check_in_python"
	nodes := doc["nodes"].(m)
	delete(nodes, "stress")
	delete(nodes, "utilization")
	at := function.Target
	nodes["resistance"] = m{
		"target":        m{"kind": "function", "functionKey": at["functionKey"], "version": at["version"], "digest": at["digest"]},
		"inputBindings": m{"moment": nodeResult("total_moment", "m"), "modulus": flowInput("section_modulus"), "yield_stress": flowInput("yield_stress")},
	}
	for _, key := range []string{"stress", "utilization"} {
		doc["results"].(m)[key].(m)["binding"] = nodeResult("resistance", key)
	}
	return doc
}

// The girder check with its resistance as a Function in Python, which runs in gVisor,
// gives the numbers of the Component version and of the closed formula, over spans from
// the shortest that the check takes, in feet and in metres.
//
// covers: U1, N1, X5, U3
func TestAGirderCheckInPythonGivesTheNumbersOfItsComponents(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	h.operate(t, "seed")
	h.policy(t, `{"rules":[]}`)
	engineer := h.as(t, "engineer")
	var p plan
	engineer.ok(t, "function_plan_change", m{"target": m{"scope": sample, "functionKey": "resistance"}, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": resistance}}}, &p)
	engineer.ok(t, "function_apply_change", p.application("create-resistance"), nil)
	components := engineer.head(t, sample, "girder_check")
	python := engineer.create(t, sample, girderInPython(t, engineer.function(t, "resistance")))

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
