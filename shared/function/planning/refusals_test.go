package planning_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/target"
)

// Each request is refused by name, with the path, and nothing of the source is told.
//
// covers: N2, N4, U4, E2, E3, P7
func TestWhatIsNoChangeOfAFunctionIsRefusedByName(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	first := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
	w.put(aFlow(t, "one", first, 1))
	plan := w.do("function_plan_change", nextVersion(first, 0, source("check", 2, "m", "m", "return {\"r\": a + 0}")))
	at := w.apply(first, 0, plan)["changed"].([]any)[0].(m)["target"].(m)
	secret := "return {\"r\": a * 271828}"
	v3 := source("check", 3, "m", "m", secret)
	change := func(edit func(request, command m)) m {
		request := nextVersion(at, 1, v3)
		request["target"] = with(at, nil)
		edit(request, request["commands"].([]m)[0])
		return request
	}
	was := w.revision("one")["revisionRef"]
	w.put(relabelled(aFlow(t, "one", at, 1)))
	fresh := m{"scope": scope, "functionKey": "fresh"}
	freshSource := source("fresh", 1, "m", "m", secret)
	create := func(target m, commands ...m) m {
		return m{"target": target, "expectedGeneration": 0, "commands": commands}
	}
	branch := m{"kind": "BranchProjectFunction", "functionRef": ref(at), "functionKey": "fresh", "source": freshSource}
	move := func(edit m) m {
		return with(m{"kind": "ReplaceNodeTarget", "flowTarget": w.revision("one"), "nodeKey": "n0", "target": m{"kind": "function", "functionKey": "fresh", "version": 1}}, edit)
	}
	for name, c := range map[string]struct {
		request m
		want    string
	}{
		"a patch of lines":          {change(func(_, c m) { c["kind"] = "PatchLines"; c["patch"] = "@@" }), "PX_SCHEMA_INVALID /commands/0/kind enum"},
		"lines beside a source":     {change(func(_, c m) { c["patch"] = "@@" }), "PX_SCHEMA_UNKNOWN_FIELD /commands/0/patch"},
		"a whole file":              {change(func(_, c m) { c["path"] = "main.py" }), "PX_SCHEMA_UNKNOWN_FIELD /commands/0/path"},
		"a Python symbol":           {change(func(r, _ m) { r["target"] = with(at, m{"symbol": "check"}) }), "PX_SCHEMA_UNKNOWN_FIELD /target/symbol"},
		"a symbol in a reference":   {change(func(_, c m) { c["functionRef"] = with(ref(at), m{"symbol": "check"}) }), "PX_SCHEMA_UNKNOWN_FIELD /commands/0/functionRef/symbol"},
		"another policy":            {change(func(_, c m) { c["referencePolicy"] = "none" }), "PX_SCHEMA_INVALID /commands/0/referencePolicy enum"},
		"no policy":                 {change(func(_, c m) { delete(c, "referencePolicy") }), "PX_SCHEMA_INVALID /commands/0/referencePolicy required"},
		"two definitions":           {change(func(_, c m) { c["source"] = v3 + strings.TrimPrefix(v3, "import math\n\nimport px\n") }), "PX_SOURCE_INVALID /commands/0/source name_twice\nPX_SOURCE_INVALID /commands/0/source definition_twice"},
		"a version that is taken":   {change(func(_, c m) { c["source"] = source("check", 2, "m", "m", secret) }), "PX_SOURCE_INVALID /commands/0/source version_not_next"},
		"a version too far":         {change(func(_, c m) { c["source"] = source("check", 4, "m", "m", secret) }), "PX_SOURCE_INVALID /commands/0/source version_not_next"},
		"another key in the source": {change(func(_, c m) { c["source"] = source("other", 3, "m", "m", secret) }), "PX_SOURCE_INVALID /commands/0/source function_key_mismatch"},
		"a unit that is none":       {change(func(_, c m) { c["source"] = source("check", 3, "furlong", "m", secret) }), "PX_UNIT_MISMATCH /commands/0/source unknown_unit"},
		"a capability": {change(func(_, c m) {
			c["source"] = strings.Replace(v3, "capabilities=[]", "capabilities=[\"network\", \"secret\"]", 1)
		}), "PX_SOURCE_INVALID /commands/0/source capability_not_supported\nPX_SOURCE_INVALID /commands/0/source capability_not_supported"},
		"a default of a result": {change(func(_, c m) {
			c["source"] = strings.Replace(v3, "{\"r\": px.number(unit=\"m\"", "{\"r\": px.number(unit=\"m\", default=1", 1)
		}), "PX_SOURCE_INVALID /commands/0/source result_with_default"},
		"a file as a result": {change(func(_, c m) {
			c["source"] = strings.Replace(v3, "{\"r\": px.number(unit=\"m\"", "{\"f\": px.list(of=px.file()), \"r\": px.number(unit=\"m\"", 1)
		}), "PX_SOURCE_INVALID /commands/0/source file_not_supported"},
		"no Python":                      {change(func(_, c m) { c["source"] = "def (" }), "PX_SOURCE_INVALID /commands/0/source syntax"},
		"a reference to another version": {change(func(_, c m) { c["functionRef"] = ref(first) }), "PX_PLAN_MISMATCH /commands/0/functionRef as_in_target"},
		"an older version":               {nextVersion(first, 1, v3), "PX_GENERATION_STALE /target/digest\nPX_GENERATION_STALE /target/sourceDigest"},
		"an older generation":            {nextVersion(at, 0, v3), "PX_GENERATION_STALE /expectedGeneration"},
		"another source digest":          {change(func(r, _ m) { r["target"] = with(at, m{"sourceDigest": first["sourceDigest"]}) }), "PX_GENERATION_STALE /target/sourceDigest"},
		"a digest that is none":          {change(func(r, _ m) { r["target"] = with(at, m{"digest": "sha256:x"}) }), "PX_TARGET_NOT_FOUND /target/digest"},
		"another version's number":       {change(func(r, _ m) { r["target"] = with(at, m{"version": 1}) }), "PX_TARGET_NOT_FOUND /target/version"},
		"a Function that is not there":   {change(func(r, _ m) { r["target"] = with(at, m{"functionKey": "absent"}) }), "PX_TARGET_NOT_FOUND /target/functionKey"},
		"no digests":                     {change(func(r, _ m) { r["target"] = m{"scope": scope, "functionKey": "check"} }), "PX_SCHEMA_INVALID /target/version required\nPX_SCHEMA_INVALID /target/digest required\nPX_SCHEMA_INVALID /target/sourceDigest required"},
		"a further command":              {change(func(r, c m) { r["commands"] = []m{c, move(nil)} }), "PX_SCHEMA_INVALID /commands/1/kind single_command"},
		"a key that is taken":            {create(m{"scope": scope, "functionKey": "check"}, m{"kind": "CreateFunction", "source": source("check", 1, "m", "m", secret)}), "FunctionHeadAlreadyExists /target/functionKey"},
		"a first save of version 2":      {create(fresh, m{"kind": "CreateFunction", "source": source("fresh", 2, "m", "m", secret)}), "PX_SOURCE_INVALID /commands/0/source version_not_next"},
		"a first save with digests":      {create(with(fresh, m{"version": 1, "digest": "sha256:x", "sourceDigest": "sha256:x"}), m{"kind": "CreateFunction", "source": freshSource}), "PX_SCHEMA_INVALID /target/version new_function\nPX_SCHEMA_INVALID /target/digest new_function\nPX_SCHEMA_INVALID /target/sourceDigest new_function"},
		"a first save of something old":  {with(create(fresh, m{"kind": "CreateFunction", "source": freshSource}), m{"expectedGeneration": 1}), "PX_GENERATION_STALE /expectedGeneration"},
		"two first saves":                {create(fresh, m{"kind": "CreateFunction", "source": freshSource}, m{"kind": "CreateFunction", "source": freshSource}), "PX_SCHEMA_INVALID /commands/1/kind one_function_a_plan"},
		"a Node alone":                   {create(fresh, move(nil)), "PX_SCHEMA_INVALID /commands/0/kind first_command"},
		"a branch under another key":     {create(with(fresh, m{"functionKey": "elsewhere"}), branch), "PX_PLAN_MISMATCH /target/functionKey"},
		"a branch of what is not there":  {create(fresh, with(branch, m{"functionRef": with(ref(at), m{"digest": "sha256:x"})})), "PX_TARGET_NOT_FOUND /commands/0/functionRef"},
		"a Node that is not there":       {create(fresh, branch, move(m{"nodeKey": "absent"})), "PX_REFERENCE_UNKNOWN /commands/1/nodeKey"},
		"a Node to another Function":     {create(fresh, branch, move(m{"target": m{"kind": "function", "functionKey": "check", "version": 1}})), "PX_SCHEMA_INVALID /commands/1/target created_in_this_plan"},
		"a Node to a digest":             {create(fresh, branch, move(m{"target": m{"kind": "function", "functionKey": "fresh", "version": 1, "digest": "sha256:x"}})), "PX_PLAN_MISMATCH /commands/1/target/digest left_out"},
		"a Flow at two revisions": {create(fresh, branch, move(nil), move(m{"nodeKey": "n1", "flowTarget": with(w.revision("one"), m{"revisionRef": was})})),
			"PX_SCHEMA_INVALID /commands/2/flowTarget/revisionRef one_flow_revision"},
		"a Flow of another Project": {create(fresh, branch, move(m{"flowTarget": with(w.revision("one"), m{"scope": with(scope, m{"projectKey": "other"})})})), "PX_SCHEMA_INVALID /commands/1/flowTarget/scope same_scope"},
		"one Node twice":            {create(fresh, branch, move(nil), move(nil)), "PX_SCHEMA_INVALID /commands/2/nodeKey duplicate"},
		"an older Flow": {create(fresh, branch, move(m{"flowTarget": with(w.revision("one"), m{"revisionRef": was})})),
			"PX_GENERATION_STALE /commands/1/flowTarget/revisionRef"},
		"a contract that does not fit": {create(fresh, with(branch, m{"source": source("fresh", 1, "kN", "m", secret)}), move(nil)), "PX_UNIT_MISMATCH flow/one:/nodes/n0/inputBindings/a dimension"},
	} {
		e := w.ask("function_plan_change", c.request)
		if got := told(e); e.OK || got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		text, err := json.Marshal(e)
		if err != nil || strings.Contains(string(text), "271828") {
			t.Errorf("%s: a source is told: %s, %v", name, text, err)
		}
	}
	// A place is told in characters, as editors count.
	korean := strings.Replace(v3, "results={\"r\": px.number(unit=\"m\"", "label={\"ko\": \"거더 검토\"}, results={\"r\": px.number(unit=\"m\", default=1", 1)
	if e := w.ask("function_plan_change", change(func(_, c m) { c["source"] = korean })); told(e) != "PX_SOURCE_INVALID /commands/0/source result_with_default" || fmt.Sprint(e.Diagnostics[0].Params["line"], e.Diagnostics[0].Params["column"]) != "11 42" {
		t.Errorf("in Korean: %s %v", told(e), e.Diagnostics)
	}
	// Who may only read may validate, and plans nothing.
	w.who = viewer
	next, first1 := nextVersion(at, 1, v3), create(fresh, m{"kind": "CreateFunction", "source": freshSource})
	for _, request := range []m{next, first1, create(fresh, branch, move(nil))} {
		if e := w.ask("function_plan_change", request); e.OK || told(e) != "PX_PERMISSION_DENIED /target/scope" {
			t.Errorf("a viewer plans as %s", told(e))
		}
	}
	for _, request := range []m{{"scope": scope, "target": at, "commands": next["commands"]}, {"scope": scope, "commands": first1["commands"]}} {
		if data := w.do("function_validate_change", request); data["valid"] != true {
			t.Errorf("a viewer validates as %v", data)
		}
	}
	may := map[string]bool{}
	for _, o := range w.do("function_describe", m{"target": at})["operations"].([]any) {
		may[fmt.Sprint(o.(m)["tool"])] = o.(m)["permitted"].(bool)
	}
	if want := map[string]bool{"function_validate_change": true, "function_plan_change": false, "function_apply_change": false}; !reflect.DeepEqual(may, want) {
		t.Errorf("a viewer is told that he may %v", may)
	}
	w.who = engineer
	for want, request := range map[string]m{
		"PX_SCHEMA_INVALID /target/scope same_scope": {"scope": scope, "target": with(at, m{"scope": with(scope, m{"projectKey": "other"})}), "commands": next["commands"]},
		"PX_SCHEMA_INVALID /target required":         {"scope": scope, "commands": next["commands"]},
	} {
		if e := w.ask("function_validate_change", request); e.OK || told(e) != want {
			t.Errorf("validated as %s, not %s", told(e), want)
		}
	}
	// Nothing was planned that could be applied.
	if w.entry("function/fresh") != nil || w.entry("function/check").Generation != 1 {
		t.Error("something was saved")
	}
}

// with is base with other members.
func with(base, more m) m {
	out := m{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// relabelled is the Flow with another label.
func relabelled(doc flow.Document) flow.Document {
	doc.Label = target.Label{"en": "Renamed"}
	return doc
}

// A contract that changes is checked in every Flow, and one that does not fit anywhere
// refuses the whole plan, with all that is wrong at once.
//
// covers: N3, N5, E2
func TestAContractThatDoesNotFitOneFlowRefusesThePlan(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
	w.put(aFlow(t, "one", at, 1), aFlow(t, "two", at, 2), aReport(t, "review"))
	kilonewton := nextVersion(at, 0, source("check", 2, "kN", "m", "return {\"r\": a}"))
	want := "PX_UNIT_MISMATCH flow/one:/nodes/n0/inputBindings/a dimension\nPX_UNIT_MISMATCH flow/two:/nodes/n0/inputBindings/a dimension\nPX_UNIT_MISMATCH flow/two:/nodes/n1/inputBindings/a dimension"
	if e := w.ask("function_plan_change", kilonewton); e.OK || told(e) != want {
		t.Errorf("planned as %s", told(e))
	}
	checked := w.ask("function_validate_change", m{"scope": scope, "target": at, "commands": kilonewton["commands"]})
	var data struct{ Valid bool }
	if json.Unmarshal(checked.Data, &data) != nil || !checked.OK || data.Valid || told(checked) != want {
		t.Errorf("validated as %s %s", checked.Data, told(checked))
	}
	// Feet fit, and are converted where they did not have to be.
	e := w.ask("function_plan_change", nextVersion(at, 0, source("check", 2, "ft", "m", "return {\"r\": a}")))
	if !e.OK || !strings.Contains(told(e), "PX_UNIT_CONVERTED flow/two:/nodes/n1/inputBindings/a") {
		t.Fatalf("feet are planned as %s", told(e))
	}
	var plan struct {
		Impact struct {
			Contract []struct {
				Path     string
				Breaking bool
			}
			Checks []struct{ Target, Path, Kind, Verdict string }
		}
	}
	if err := json.Unmarshal(e.Data, &plan); err != nil {
		t.Fatal(err)
	}
	if c := plan.Impact.Contract; len(c) != 1 || c[0].Path != "/inputs/a" {
		t.Errorf("the contract changes by %v", c)
	}
	var converted []string
	for _, c := range plan.Impact.Checks {
		if c.Verdict == "converted" {
			converted = append(converted, c.Target+c.Path)
		}
	}
	if !reflect.DeepEqual(converted, []string{"flow/one/nodes/n0/inputBindings/a", "flow/two/nodes/n0/inputBindings/a", "flow/two/nodes/n1/inputBindings/a"}) {
		t.Errorf("converted are %q", converted)
	}
}

// covers: N4, N1
func TestABranchMovesOneNodeAndNothingElse(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
	w.put(aFlow(t, "one", at, 3), aFlow(t, "two", at, 1))
	w.put(aReport(t, "review", w.revision("one")))
	before, other, report := w.revision("one"), w.entry("flow/two"), w.entry("report/review")
	fresh := m{"scope": scope, "functionKey": "fresh"}
	request := m{"target": fresh, "expectedGeneration": 0, "commands": []m{
		{"kind": "BranchProjectFunction", "functionRef": ref(at), "functionKey": "fresh", "source": source("fresh", 1, "m", "m", "return {\"r\": a + 1}")},
		{"kind": "ReplaceNodeTarget", "flowTarget": before, "nodeKey": "n1", "target": m{"kind": "function", "functionKey": "fresh", "version": 1}}}}
	// Its key stands in the command, so that a validation needs no target.
	checked := w.do("function_validate_change", m{"scope": scope, "commands": request["commands"]})
	if ref := checked["contract"].(m)["functionRef"].(m); checked["valid"] != true || ref["functionKey"] != "fresh" || ref["version"] != 1.0 {
		t.Errorf("validated as %v", checked)
	}
	plan := w.do("function_plan_change", request)
	if diff := plan["diff"].([]any)[0].(m); diff["path"] != "/source" || !strings.Contains(diff["unified"].(string), "-    key=\"check\"") {
		t.Errorf("the first difference is %v", diff)
	}
	if got, want := preserved(plan), []string{"history: earlier revisions of what moves are never overwritten; Runs that name one keep it",
		"report/review: it stays pinned to the Flow revision that it names"}; !slices.Equal(got, want) {
		t.Errorf("preserved %q, want %q", got, want)
	}
	applied := w.apply(fresh, 0, plan)
	var changed []string
	for _, c := range applied["changed"].([]any) {
		target := c.(m)["target"].(m)
		changed = append(changed, fmt.Sprint(target["functionKey"], target["flowKey"], " ", c.(m)["newGeneration"]))
	}
	if !reflect.DeepEqual(changed, []string{"fresh<nil> 0", "<nil>one 1"}) {
		t.Errorf("changed are %q", changed)
	}
	described := w.do("function_describe", m{"targets": []any{at, applied["changed"].([]any)[0].(m)["target"]}})
	var nodes []string
	for _, f := range described["items"].([]any) {
		for _, u := range f.(m)["usages"].([]any) {
			for _, n := range u.(m)["nodes"].([]any) {
				nodes = append(nodes, fmt.Sprint(f.(m)["functionRef"].(m)["functionKey"], " ", u.(m)["flowKey"], " ", n.(m)["nodeKey"], " ", n.(m)["version"]))
			}
		}
	}
	if !reflect.DeepEqual(nodes, []string{"check one n0 1", "check one n2 1", "check two n0 1", "fresh one n1 1"}) {
		t.Errorf("nodes run %q", nodes)
	}
	if !reflect.DeepEqual(w.entry("flow/two"), other) || !reflect.DeepEqual(w.entry("report/review"), report) {
		t.Error("what was not named moved")
	}
}

// One target that moved, or one usage that came, and nothing is written.
//
// covers: N5, P4, P5, P7
func TestAPlanOfAllUsagesIsAppliedOnlyToAllUsages(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *world, at m)
		want      string
	}{
		"nothing happened":                    {func(*world, m) {}, ""},
		"a Flow was edited":                   {func(w *world, at m) { w.put(aFlow(w.t, "one", at, 2)) }, "PX_GENERATION_STALE /planRef"},
		"a Flow came to use it":               {func(w *world, at m) { w.put(aFlow(w.t, "three", at, 1)) }, "PX_GENERATION_STALE /planRef usage_appeared"},
		"a Report was connected to a Flow":    {func(w *world, at m) { w.put(aReport(w.t, "late", w.revision("two"))) }, "PX_GENERATION_STALE /planRef usage_appeared"},
		"a Report was edited":                 {func(w *world, at m) { w.put(aReport(w.t, "pinned", w.revision("two"), w.revision("one"))) }, "PX_GENERATION_STALE /planRef"},
		"a Report was pinned to an early one": {func(w *world, at m) { w.put(aReport(w.t, "late", earlier(at))) }, ""},
		"a Flow of something else was saved": {func(w *world, at m) {
			other := w.create(source("other", 1, "m", "m", "return {\"r\": a}"), "other")
			w.put(aFlow(w.t, "other", other, 1))
		}, ""},
		"the Function got another version": {func(w *world, at m) {
			w.apply(at, 0, w.do("function_plan_change", nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a + 7}"))))
		}, "PX_GENERATION_STALE /expectedGeneration\nPX_GENERATION_STALE /planRef\nPX_GENERATION_STALE /planRef\nPX_GENERATION_STALE /planRef"},
	} {
		for _, during := range []bool{false, true} {
			w := newWorld(t, pythontest.Reader(t))
			at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
			w.put(aFlow(t, "one", at, 1), aFlow(t, "two", at, 4))
			early = w.revision("two")
			w.put(aFlow(t, "two", at, 1))
			w.put(aReport(t, "pinned", w.revision("one")))
			plan := w.do("function_plan_change", nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a + 1}")))
			if during { // between the reads of the apply and its commit
				w.objects.before = func() { c.meanwhile(w, at) }
			} else {
				c.meanwhile(w, at)
			}
			e := w.ask("function_apply_change", applying(at, 0, plan))
			if got := told(e); got != c.want {
				t.Errorf("%s, during the apply: %v:\n got %s\nwant %s", name, during, got, c.want)
			}
			next := plan["impact"].(m)["function"].(m)["after"].(m)["digest"]
			moved := string(w.entry("function/check").RevisionRef) == next
			for _, f := range plan["impact"].(m)["flows"].([]any) {
				is := string(w.entry("flow/"+f.(m)["flowKey"].(string)).RevisionRef) == f.(m)["result"].(m)["revisionRef"]
				if is != moved {
					t.Errorf("%s, during the apply: %v: the Function moved %v and a Flow %v", name, during, moved, is)
				}
			}
			if moved != (c.want == "") {
				t.Errorf("%s: moved %v", name, moved)
			}
		}
	}
}

// early is a revision of flow/two that is not its head.
var early m

func earlier(m) m { return early }

// covers: P8
func TestAPlanIsRebasedWhereItMeetsNothing(t *testing.T) {
	text := source("check", 2, "m", "m", "return {\"r\": a + 1}")
	for name, c := range map[string]struct {
		meanwhile func(w *world, at m)
		want      string
		flows     int
	}{
		"nothing happened": {func(*world, m) {}, "", 2},
		"a Flow got a label": {func(w *world, at m) {
			w.put(relabelled(aFlow(w.t, "one", at, 1)))
		}, "", 2},
		"a Flow came to use it":    {func(w *world, at m) { w.put(aFlow(w.t, "three", at, 1)) }, "", 3},
		"a Flow got a further use": {func(w *world, at m) { w.put(aFlow(w.t, "one", at, 2)) }, "", 2},
		"a Node that moves went":   {func(w *world, at m) { w.put(aFlow(w.t, "two", at, 1)) }, "PX_MERGE_CONFLICT /rebaseFromPlanRef", 0},
		"a version was saved": {func(w *world, at m) {
			w.apply(at, 0, w.do("function_plan_change", nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a + 7}"))))
		}, "PX_MERGE_CONFLICT /rebaseFromPlanRef", 0},
	} {
		w := newWorld(t, pythontest.Reader(t))
		at := w.create(source("check", 1, "m", "m", "return {\"r\": a}"), "check")
		w.put(aFlow(t, "one", at, 1), aFlow(t, "two", at, 2))
		plan := w.do("function_plan_change", nextVersion(at, 0, text))
		c.meanwhile(w, at)
		head := w.do("function_search", m{"scope": scope, "query": "check"})["items"].([]any)[0].(m)
		e := w.ask("function_plan_change", m{"target": head["target"], "expectedGeneration": head["generation"], "rebaseFromPlanRef": plan["planRef"]})
		if got := told(e); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if !e.OK {
			d, _ := json.Marshal(e.Diagnostics)
			if strings.Contains(string(d), "return") || !strings.Contains(string(d), "conflicts") {
				t.Errorf("%s: told %s", name, d)
			}
			// A source is one place, which two versions of one version both change.
			if strings.Contains(string(d), `"path":"/source"`) != (name == "a version was saved") {
				t.Errorf("%s: told %s", name, d)
			}
			continue
		}
		var anew m
		if err := json.Unmarshal(e.Data, &anew); err != nil {
			t.Fatal(err)
		}
		if n := len(anew["impact"].(m)["flows"].([]any)); n != c.flows || anew["rebasedFrom"].(m)["planRef"] != plan["planRef"] {
			t.Errorf("%s: %d Flows move, from %v", name, n, anew["rebasedFrom"])
		}
		w.apply(head["target"].(m), int(head["generation"].(float64)), anew)
	}
	// Of a first save there is no base.
	w := newWorld(t, pythontest.Reader(t))
	at := m{"scope": scope, "functionKey": "check"}
	plan := w.do("function_plan_change", m{"target": at, "expectedGeneration": 0, "commands": []m{{"kind": "CreateFunction", "source": source("check", 1, "m", "m", "return {\"r\": a}")}}})
	if e := w.ask("function_plan_change", m{"target": at, "expectedGeneration": 0, "rebaseFromPlanRef": plan["planRef"]}); e.OK || told(e) != "PX_PLAN_MISMATCH /rebaseFromPlanRef first_save" {
		t.Errorf("a first save: %s", told(e))
	}
}

// An answer that is too large for one is told in parts that together are the whole.
//
// covers: B2, N3
func TestALargePlanIsToldInParts(t *testing.T) {
	w, at := used(t, pythontest.Reader(t), 30, 10)
	request := nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a * 2}"))
	whole := w.do("function_plan_change", request)
	uses := map[string]bool{}
	parts, request := 0, with(request, m{"budget": m{"items": 40}})
	for {
		e := w.ask("function_plan_change", request)
		var data struct {
			PlanDigest string
			Impact     struct {
				Uses []struct{ Target, Path string }
			}
			Truncation *struct{ Continuation struct{ Value string } }
		}
		if !e.OK || json.Unmarshal(e.Data, &data) != nil || data.PlanDigest != "" && data.PlanDigest != whole["planDigest"] {
			t.Fatal(told(e), data.PlanDigest)
		}
		for _, u := range data.Impact.Uses {
			if at := u.Target + u.Path; uses[at] {
				t.Errorf("%s is told twice", at)
			} else {
				uses[at] = true
			}
		}
		if parts++; data.Truncation == nil {
			break
		}
		request = with(request, m{"cursor": data.Truncation.Continuation.Value})
	}
	if want := 30*6 + 10*2; len(uses) != want || parts < 3 {
		t.Errorf("%d of %d uses in %d parts", len(uses), want, parts)
	}
}

// A plan that goes on from one all of whose Flows have changed since reads them some
// hundred at a time.
//
// covers: P8
func TestAPlanWhoseFlowsHaveAllChangedIsGoneOnFromInFewReads(t *testing.T) {
	const flows = 200
	w, at := used(t, pythontest.Reader(t), flows, 0)
	plan := w.do("function_plan_change", nextVersion(at, 0, source("check", 2, "m", "m", "return {\"r\": a}")))
	var labelled []any
	for i := range flows {
		labelled = append(labelled, relabelled(aFlow(t, fmt.Sprintf("flow_%05d", i), at, 6)))
	}
	w.put(labelled...)
	before := w.objects.gets.Load()
	again := w.do("function_plan_change", m{"target": at, "expectedGeneration": 0, "rebaseFromPlanRef": plan["planRef"]})
	if from := again["rebasedFrom"].(m); from["planRef"] != plan["planRef"] {
		t.Errorf("it goes on from %v", from)
	}
	if n := w.objects.gets.Load() - before; n > flows/10 {
		t.Errorf("%d reads for %d Flows", n, flows)
	}
}
