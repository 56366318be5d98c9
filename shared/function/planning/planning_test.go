package planning_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/dependency/locking"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/python/pythontest"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
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
	if got, want := preserved(plan), []string{fmt.Sprint("function/check@", at["digest"], ": saved versions are never overwritten; Runs that name it keep it"),
		"history: earlier revisions of what moves are never overwritten; Runs that name one keep it",
		"report/both: pinned to an earlier revision of flow/two", "report/pinned_early: pinned to an earlier revision of flow/two"}; !slices.Equal(got, want) {
		t.Errorf("preserved\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	touched := []any{"/source", "flow/one:/nodes/n0/target", "flow/two:/nodes/n0/target", "flow/two:/nodes/n1/target", "flow/two:/nodes/n2/target",
		"report/both:/connections/c1/flowTarget", "report/pinned:/connections/c0/flowTarget", "report/pinned:/connections/c1/flowTarget"}
	if !reflect.DeepEqual(plan["touchedSemanticPaths"], any(touched)) {
		t.Errorf("touched are %q", plan["touchedSemanticPaths"])
	}
	if versions := impact["function"]; !reflect.DeepEqual(versions, any(m{"before": ref(at), "after": checked["contract"].(m)["functionRef"]})) {
		t.Errorf("the versions are %v", versions)
	}
	if !reflect.DeepEqual(impact["capabilities"], any(m{"before": []any{}, "after": []any{}})) {
		t.Errorf("the capabilities are %v", impact["capabilities"])
	}
	diff := plan["diff"].([]any)[0].(m)
	if diff["path"] != "/source" || !strings.Contains(diff["unified"].(string), "+    return {\"r\": a + 1}") {
		t.Errorf("the first difference is %v", diff)
	}
	var differ []string
	for _, d := range plan["diff"].([]any) {
		differ = append(differ, d.(m)["path"].(string))
	}
	for _, path := range touched[1:] {
		if !slices.ContainsFunc(differ, func(d string) bool { return strings.HasPrefix(d, path.(string)) }) {
			t.Errorf("%s is touched, and differs nowhere in %q", path, differ)
		}
	}
	if len(impact["stale"].([]any)) != 3 {
		t.Errorf("stale are %v", impact["stale"])
	}
	// flow/one has one Node, flow/two three, and a Node costs 11.
	if again := impact["rerun"]; !reflect.DeepEqual(again, any(m{"connections": 3.0, "slots": 3.0, "cost": 11.0 + 11 + 33})) {
		t.Errorf("to have all anew takes %v", again)
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
	for _, r := range impact["reports"].([]any) {
		r := r.(m)
		if e := w.entry("report/" + r["reportKey"].(string)); string(e.RevisionRef) != r["result"].(m)["revisionRef"] || e.Generation != 1 || r["result"].(m)["generation"] != 1.0 {
			t.Errorf("report %v is at %v", r, e)
		}
	}
	next := applied["changed"].([]any)[0].(m)["target"].(m)
	if next["version"] != 2.0 || next["digest"] != applied["newRevisionRef"] {
		t.Errorf("the new target is %v", next)
	}
	described := w.do("function_describe", m{"target": next})
	metres := m{"type": "number", "unit": "m"}
	for member, want := range map[string]any{"functionRef": ref(next), "generation": 1.0, "current": true, "sourceDigest": next["sourceDigest"], "description": "A check", "availability": "installed",
		"owner": m{"kind": "project"}, "inputs": m{"a": metres}, "results": m{"r": metres}, "capabilities": []any{}, "imports": []any{"math"}} {
		if !reflect.DeepEqual(described[member], want) {
			t.Errorf("%s is described as %v, not %v", member, described[member], want)
		}
	}
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
	for member, other := range map[string]any{"version": 1, "sourceDigest": at["sourceDigest"]} {
		if e := w.ask("function_describe", m{"target": with(next, m{member: other})}); e.OK || told(e) != "PX_TARGET_NOT_FOUND /target/"+member {
			t.Errorf("with the %s of another version it is described: %s", member, told(e))
		}
	}
	// The same command again gives the first answer; the old version is still there.
	if again := w.apply(at, 0, plan); !reflect.DeepEqual(again, applied) {
		t.Errorf("again it answers %v", again)
	}
	if old := w.do("function_describe", m{"target": at}); old["current"] != false {
		t.Errorf("the old version is %v", old)
	}
}

// shown tells that the slots named in it have a Current result.
type shown map[string]bool

func (s shown) Current(_ context.Context, _ snapshot.Snapshot, doc report.Document) (map[report.ReportResultSlot]bool, error) {
	return map[report.ReportResultSlot]bool{{BlockKey: "r", SlotKey: "s1"}: s[doc.ReportKey]}, nil
}

// Of each slot that turns Stale a plan says whether it shows a result now, of as many
// Reports as it has time to ask for.
//
// covers: N3
func TestAPlanSaysWhichResultsTurnStale(t *testing.T) {
	reader := pythontest.Reader(t)
	w := newWorld(t, reader)
	snapshots := snapshot.Reader{Objects: w.store, Store: w.store, Catalog: w.catalog}
	at := w.create(scale("check", 1, "a"), "check")
	w.put(aFlow(t, "one", at, 1), aFlow(t, "two", at, 1))
	of := shown{}
	var reports []any
	for i := range planning.MaxExamined + 1 {
		key := fmt.Sprintf("report_%04d", i)
		of[key] = i%2 == 0
		reports = append(reports, aReport(t, key, w.revision("one"), w.revision("two")))
	}
	w.put(reports...)
	s, findings, err := snapshots.Open(t.Context(), engineer.String(), bridge.Scope(), "", "")
	if findings != nil || err != nil {
		t.Fatal(findings, err)
	}
	target := target.FunctionChange{Scope: bridge.Scope(), FunctionKey: "check", Version: 1, Digest: at["digest"].(string), SourceDigest: at["sourceDigest"].(string)}
	compiled, _, findings, err := planning.New(reader, of).Compile(t.Context(), s, planning.Request{Target: target, Right: policy.Edit, Commands: []function.Command{function.CreateFunctionVersion{
		FunctionRef: function.Ref{FunctionKey: "check", Version: 1, Digest: at["digest"].(string)}, Source: scale("check", 2, "a + 1"), ReferencePolicy: "all_current_usages"}}})
	if findings != nil || err != nil {
		t.Fatal(findings, err)
	}
	stale := compiled.Impact.Stale
	if len(stale) != 2*(planning.MaxExamined+1) {
		t.Fatalf("%d slots turn Stale", len(stale))
	}
	for i, slot := range stale {
		examined, current := i/2 < planning.MaxExamined, i/2%2 == 0 && slot.SlotKey == "s1"
		if (slot.Current != nil) != examined || examined && *slot.Current != current || slot.Target != fmt.Sprintf("report/report_%04d", i/2) {
			t.Errorf("slot %d is %+v", i, slot)
		}
	}
}

// What a change of a Function costs, and by which command it is made, is judged by the
// Project's policy with the Flows that move.
//
// covers: U4, U6
func TestAPlanOfAFunctionIsJudgedByItsCommandAndByWhatItCosts(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	at := w.create(scale("check", 1, "a"), "check")
	w.put(aFlow(t, "one", at, 2), aFlow(t, "two", at, 1)) // three Nodes, which cost 11 each
	next := nextVersion(at, 0, scale("check", 2, "a + 1"))
	fresh := m{"target": m{"scope": scope, "functionKey": "fresh"}, "expectedGeneration": 0, "commands": []m{{"kind": "CreateFunction", "source": scale("fresh", 1, "a")}}}
	for name, c := range map[string]struct {
		rule        policy.Rule
		next, fresh bool // whether an approval is asked for
	}{
		"of every command":    {policy.Rule{On: policy.OnFunction}, true, true},
		"of one command":      {policy.Rule{On: policy.OnFunction, Kinds: []string{"CreateFunctionVersion"}}, true, false},
		"of another":          {policy.Rule{On: policy.OnFunction, Kinds: []string{"BranchProjectFunction"}}, false, false},
		"of a Report":         {policy.Rule{On: policy.OnReport}, false, false},
		"of what costs more":  {policy.Rule{On: policy.OnFunction, MaxCost: 32}, true, false},
		"of what costs still": {policy.Rule{On: policy.OnFunction, MaxCost: 33}, false, false},
	} {
		c.rule.Approval = "required"
		if err := project.New(w.store, nil, time.Now).SetPolicy(t.Context(), bridge, []policy.Rule{c.rule}); err != nil {
			t.Fatal(err)
		}
		for request, want := range map[*m]bool{&next: c.next, &fresh: c.fresh} {
			plan := w.do("function_plan_change", *request)
			if got := plan["approval"].(m)["required"]; got != want {
				t.Errorf("%s: required %v, want %v: %v", name, got, want, plan["approval"])
			}
			if want {
				continue
			}
			if cost := plan["impact"].(m)["cost"]; request == &next && cost != 33.0 {
				t.Errorf("it costs %v", cost)
			}
		}
		if c.next {
			plan := w.do("function_plan_change", next)
			if e := w.ask("function_apply_change", applying(at, 0, plan)); e.OK || told(e) != "PX_APPROVAL_REQUIRED /approvalRef" {
				t.Errorf("%s: applied as %s", name, told(e))
			}
		}
	}
}

// covers: S5, S6
func TestAFunctionIsFoundByEveryTextThatItHas(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	w.create(strings.Replace(scale("check", 1, "a"), "description=", `label={"en": "Shear", "ko": "전단 검토"}, description=`, 1), "check")
	w.create(strings.Replace(scale("other", 1, "a"), "A check", "Something else", 1), "other")
	for _, query := range []string{"check", "a check shear", "SHEAR", "전단", "검토"} {
		found := w.do("function_search", m{"scope": scope, "query": query, "filters": m{"owner": "project"}})["items"].([]any)
		if len(found) != 1 || found[0].(m)["target"].(m)["functionKey"] != "check" || !reflect.DeepEqual(found[0].(m)["label"], any(m{"en": "Shear", "ko": "전단 검토"})) || found[0].(m)["description"] != "A check" {
			t.Errorf("%s: found %v", query, found)
		}
	}
}

// preserved are the references that a plan leaves as they are, with the reasons.
func preserved(plan m) (out []string) {
	for _, p := range plan["impact"].(m)["preserved"].([]any) {
		out = append(out, fmt.Sprint(p.(m)["target"], ": ", p.(m)["reason"]))
	}
	return out
}

// A Node that still runs an earlier version is a usage, too, and is told as one of it.
//
// covers: N3, N4
func TestAllCurrentUsagesAreThoseOfEveryVersion(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	at := w.create(scale("check", 1, "a"), "check")
	next := w.apply(at, 0, w.do("function_plan_change", nextVersion(at, 0, scale("check", 2, "a + 1"))))["changed"].([]any)[0].(m)["target"].(m)
	w.put(aFlow(t, "new", next, 1), aFlow(t, "old", at, 2))
	plan := w.do("function_plan_change", nextVersion(next, 1, scale("check", 3, "a + 2")))
	var uses []string
	for _, u := range plan["impact"].(m)["uses"].([]any) {
		uses = append(uses, fmt.Sprint(u.(m)["target"], u.(m)["path"], " ", u.(m)["version"]))
	}
	if want := []string{"flow/new/nodes/n0/target 2", "flow/old/nodes/n0/target 1", "flow/old/nodes/n1/target 1"}; !slices.Equal(uses, want) {
		t.Errorf("uses %q, want %q", uses, want)
	}
	last := w.apply(next, 1, plan)["changed"].([]any)[0].(m)["target"].(m)
	var nodes []string
	for _, u := range w.do("function_describe", m{"target": last})["usages"].([]any) {
		for _, n := range u.(m)["nodes"].([]any) {
			nodes = append(nodes, fmt.Sprint(u.(m)["flowKey"], " ", n.(m)["nodeKey"], " ", n.(m)["version"]))
		}
	}
	if want := []string{"new n0 3", "old n0 3", "old n1 3"}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %q, want %q", nodes, want)
	}
}

// A Function of a package and one of the Project may have one key. Each is found, used
// and moved as itself; and what is installed and known no more is told so.
//
// covers: N5, D3, T4, U4, K5
func TestAPackagesFunctionIsNotTheProjectsOfTheSameKey(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	own := w.create(source("pipe_modulus", 1, "m", "m", "return {\"r\": a}"), "pipe_modulus")
	var pipe m
	for _, f := range w.do("function_search", m{"scope": scope, "query": "pipe_modulus", "filters": m{"availability": "available"}})["items"].([]any) {
		pipe = f.(m)["target"].(m)
	}
	snapshots := snapshot.Reader{Objects: w.store, Store: w.store, Catalog: w.catalog}
	door := locking.Door{Reader: snapshots, Catalog: packages.Product(),
		Planner: &change.Planner{Objects: w.store, Store: w.store, Now: time.Now, NewRef: func(prefix string) string { w.refs++; return fmt.Sprintf("%s%026d", prefix, w.refs) }},
		Applier: &change.Applier{Objects: w.store, Store: w.store, Policy: w.store, Catalog: w.catalog, Now: time.Now}}
	who := locking.Who{Principal: engineer.String(), Project: bridge}
	at := target.Package{PackageKey: "px_sections", Version: "1.0.0", Digest: pipe["package"].(m)["digest"].(string)}
	if _, refused, err := door.Add(t.Context(), who, locking.Installation{Package: at, License: "Apache-2.0"}); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	both := aFlow(t, "both", own, 1)
	both.Nodes["pipe"] = flow.Node{Target: function.Ref{FunctionKey: "pipe_modulus", Version: 1, Digest: pipe["digest"].(string)}.Of(at),
		InputBindings: map[string]flow.Binding{"outer_diameter": flow.FlowInput{PortKey: "a"}, "wall": flow.FlowInput{PortKey: "a"}}}
	w.put(both)
	usages := func(of m) string { return fmt.Sprint(w.do("function_describe", m{"target": of})["usages"]) }
	for name, c := range map[string]struct {
		of   m
		node string
	}{"its own": {own, "nodeKey:n0"}, "the package's": {pipe, "nodeKey:pipe"}} {
		if u := usages(c.of); strings.Count(u, "nodeKey") != 1 || !strings.Contains(u, c.node) {
			t.Errorf("%s is used by %s", name, u)
		}
	}
	w.apply(own, 0, w.do("function_plan_change", nextVersion(own, 0, source("pipe_modulus", 2, "m", "m", "return {\"r\": 2 * a}"))))
	if u := usages(pipe); !strings.Contains(u, "version:1") {
		t.Errorf("the package's Node was moved: %s", u)
	}
	if u := w.entry("flow/both").Uses; !reflect.DeepEqual(u, []string{"function/pipe_modulus", dependency.UseKey("px_sections")}) {
		t.Errorf("it uses %q", u)
	}

	// A release that the product gave out once and has no more.
	text, err := packages.Sign(packages.Release{Publisher: "pxhost", PackageKey: "gone", PackageVersion: "1.0.0", License: "MIT",
		Functions: map[string]function.Document{"pipe_modulus": packages.Product().All()[0].Document}, Revoked: []string{}}, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	gone := packages.Verify(text, func(string) ([]byte, bool) { return packages.Product().All()[0].Source(), true })
	door.Catalog = packages.Of(gone)
	if _, refused, err := door.Add(t.Context(), who, locking.Installation{Package: gone[0].Package(), License: "MIT"}); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	p := gone[0].Package()
	lost := with(pipe, m{"package": m{"packageKey": p.PackageKey, "version": p.Version, "digest": p.Digest}})
	if e := w.ask("function_describe", m{"target": lost}); e.OK || told(e) != "PX_DEPENDENCY_UNAVAILABLE /target/package release_unknown" {
		t.Errorf("what is known no more: %s", told(e))
	}
}

// What a package owns is found and described, with the exact release and where it is
// installed from, and is written by no tool.
//
// covers: S6, T4, T5, K5, D3
func TestAFunctionOfAPackageIsReadAndNotWritten(t *testing.T) {
	w := newWorld(t, pythontest.Reader(t))
	w.create(source("modulus", 1, "m", "m", "return {\"r\": a}"), "modulus")
	found := w.do("function_search", m{"scope": scope, "query": "modulus"})["items"].([]any)
	var items []string
	for _, f := range found {
		f := f.(m)
		items = append(items, fmt.Sprint(f["target"].(m)["functionKey"], " ", f["owner"], " ", f["availability"]))
	}
	if !reflect.DeepEqual(items, []string{"modulus project installed", "pipe_modulus package available", "rectangle_modulus package available"}) {
		t.Errorf("found %q", items)
	}
	for owner, want := range map[string]int{"project": 1, "package": 2} {
		if n := len(w.do("function_search", m{"scope": scope, "query": "modulus", "filters": m{"owner": owner}})["items"].([]any)); n != want {
			t.Errorf("of %s: %d", owner, n)
		}
	}
	// Pages go on from one owner to the other.
	page := w.do("function_search", m{"scope": scope, "query": "modulus", "limit": 2})
	rest := w.do("function_search", m{"scope": scope, "query": "modulus", "limit": 2, "cursor": page["nextCursor"]})["items"].([]any)
	if len(rest) != 1 || !reflect.DeepEqual(rest[0], found[2]) {
		t.Errorf("the second page is %v", rest)
	}

	pipe := found[1].(m)["target"].(m)
	described := w.do("function_describe", m{"target": pipe})
	handoff := described["dependencyHandoff"].(m)
	if described["owner"].(m)["kind"] != "package" || described["availability"] != "available" || handoff["action"] != "OPEN_PROJECT_DEPENDENCIES" ||
		handoff["packageDigest"] != pipe["package"].(m)["digest"] || described["owner"].(m)["signature"] != "valid" || described["inputs"].(m)["wall"] == nil {
		t.Errorf("described as %v", described)
	}
	if n := len(w.do("function_describe", m{"targets": []any{pipe, found[2].(m)["target"]}})["items"].([]any)); n != 2 {
		t.Errorf("%d are described", n)
	}
	own := w.do("function_search", m{"scope": scope, "filters": m{"owner": "project"}})["items"].([]any)[0].(m)["target"]
	elsewhere := with(scope, m{"projectKey": "other"})
	if e := w.ask("function_describe", m{"targets": []any{pipe, own}}); e.OK || told(e) != "PX_SCHEMA_INVALID /targets/1/package one_owner" {
		t.Errorf("of two owners: %s", told(e))
	}
	if e := w.ask("function_describe", m{"targets": []any{pipe, with(pipe, m{"scope": elsewhere})}}); e.OK || told(e) != "PX_SCHEMA_INVALID /targets/1/scope same_scope" {
		t.Errorf("of two Projects: %s", told(e))
	}
	w.who = stranger
	if e := w.ask("function_describe", m{"target": pipe}); e.OK || told(e) != "PX_TARGET_NOT_FOUND /target/scope" {
		t.Errorf("to who may not read the Project: %s", told(e))
	}
	w.who = engineer
	for name, c := range map[string]struct{ at, want string }{
		"another release":    {"version", "PX_TARGET_NOT_FOUND /target/package"},
		"another digest":     {"digest", "PX_TARGET_NOT_FOUND /target/package"},
		"another packageKey": {"packageKey", "PX_TARGET_NOT_FOUND /target/package"},
	} {
		wrong := with(pipe, m{"package": with(pipe["package"].(m), m{c.at: "other"})})
		if e := w.ask("function_describe", m{"target": wrong}); e.OK || told(e) != c.want {
			t.Errorf("%s: %s", name, told(e))
		}
		if e := w.ask("function_plan_change", nextVersion(wrong, 0, source("pipe_modulus", 2, "m", "m", "return {\"r\": a}"))); e.OK || told(e) != c.want {
			t.Errorf("%s is planned: %s", name, told(e))
		}
	}
	for _, tool := range []string{"function_plan_change", "function_validate_change"} {
		request := nextVersion(pipe, 0, source("pipe_modulus", 2, "m", "m", "return {\"r\": a}"))
		if tool == "function_validate_change" {
			request["scope"] = scope
		}
		e := w.ask(tool, request)
		if e.OK || told(e) != "PX_TARGET_READ_ONLY /target/package" || e.Diagnostics[0].SuggestedAction != "OPEN_OWNING_PACKAGE" {
			t.Fatalf("%s: %s", tool, told(e))
		}
		if h := e.Diagnostics[0].Params["handoff"].(m); h["packageKey"] != "px_sections" || h["packageVersion"] != "1.0.0" || h["packageDigest"] != pipe["package"].(m)["digest"] || h["releaseByteDigest"] == "" || h["action"] != "OPEN_OWNING_PACKAGE" {
			t.Errorf("%s hands off %v", tool, h)
		}
	}
	// Without the package, nothing of the Project has this name: no similar one is taken.
	plain := with(pipe, nil)
	delete(plain, "package")
	if e := w.ask("function_describe", m{"target": plain}); e.OK || told(e) != "PX_TARGET_NOT_FOUND /target/functionKey" {
		t.Errorf("without the package: %s", told(e))
	}
}
