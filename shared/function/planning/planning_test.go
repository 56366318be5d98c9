package planning_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// covers: N1, N3, N5, D3, T5
func TestANextVersionMovesEverythingThatUsesTheFunction(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
	w.put(aFlow(t, "one", at, 1), aFlow(t, "two", at, 2))
	old := w.revision("two")
	w.put(aFlow(t, "two", at, 3), aReport(t, "pinned_early", old))
	w.put(aReport(t, "pinned", w.revision("one"), w.revision("two")), aReport(t, "both", old, w.revision("one")))

	request := nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a + 1}"))
	checked := w.do("function_validate_change", m{"scope": scope, "target": at, "expectedGeneration": 0, "commands": request["commands"]})
	if checked["valid"] != true || checked["contract"].(m)["functionRef"].(m)["version"] != 2.0 {
		t.Errorf("validated as %v", checked)
	}
	plan := w.do("function_plan_change", request)
	impact := plan["impact"].(m)
	var uses []string
	for _, u := range impact["uses"].([]any) {
		uses = append(uses, fmt.Sprint(u.(m)["target"], u.(m)["path"], " ", u.(m)["version"]))
	}
	want := []string{"flow/one/nodes/n0/target 1", "flow/two/nodes/n0/target 1", "flow/two/nodes/n1/target 1", "flow/two/nodes/n2/target 1",
		"report/both/connections/c1/flowTarget <nil>", "report/pinned/connections/c0/flowTarget <nil>", "report/pinned/connections/c1/flowTarget <nil>"}
	if !reflect.DeepEqual(uses, want) {
		t.Errorf("uses\n%s\nwant\n%s", strings.Join(uses, "\n"), strings.Join(want, "\n"))
	}
	var preserved []string
	for _, p := range impact["preserved"].([]any) {
		preserved = append(preserved, fmt.Sprint(p.(m)["target"]))
	}
	if !slices.Contains(preserved, "report/pinned_early") || !slices.Contains(preserved, "report/both") || slices.Contains(preserved, "report/pinned") {
		t.Errorf("preserved %q", preserved)
	}
	diff := plan["diff"].([]any)[0].(m)
	if diff["path"] != "/source" || !strings.Contains(diff["unified"].(string), "+    return {\"r\": a + 1}") {
		t.Errorf("the first difference is %v", diff)
	}
	if len(impact["stale"].([]any)) != 3 {
		t.Errorf("stale are %v", impact["stale"])
	}

	applied := w.apply(at, 0, plan)
	if n := len(applied["changed"].([]any)); n != 1+2+2 || applied["newGeneration"] != 1.0 {
		t.Errorf("%d changed, generation %v", n, applied["newGeneration"])
	}
	for _, f := range impact["flows"].([]any) {
		f := f.(m)
		if e := w.entry("flow/" + f["flowKey"].(string)); string(e.RevisionRef) != f["result"].(m)["revisionRef"] || float64(e.Generation) != f["result"].(m)["generation"] {
			t.Errorf("flow %v is at %v", f, e)
		}
	}
	next := applied["changed"].([]any)[0].(m)["target"].(m)
	if next["version"] != 2.0 || next["digest"] != applied["newRevisionRef"] {
		t.Errorf("the new target is %v", next)
	}
	described := w.do("function_describe", m{"target": next})
	var usages []string
	for _, u := range described["usages"].([]any) {
		for _, n := range u.(m)["nodes"].([]any) {
			usages = append(usages, fmt.Sprint(u.(m)["flowKey"], " ", n.(m)["nodeKey"], " ", n.(m)["version"]))
		}
	}
	if !reflect.DeepEqual(usages, []string{"one n0 2", "two n0 2", "two n1 2", "two n2 2"}) {
		t.Errorf("usages are %q", usages)
	}
	if found := w.do("function_search", m{"scope": scope, "query": "CHECK"})["items"].([]any); len(found) != 1 || !reflect.DeepEqual(found[0].(m)["target"], any(next)) || found[0].(m)["availability"] != "installed" {
		t.Errorf("found %v", found)
	}
	// The same command again gives the first answer; the old version is still there.
	if again := w.apply(at, 0, plan); !reflect.DeepEqual(again, applied) {
		t.Errorf("again it answers %v", again)
	}
	if old := w.do("function_describe", m{"target": at}); old["current"] != false {
		t.Errorf("the old version is %v", old)
	}
}
