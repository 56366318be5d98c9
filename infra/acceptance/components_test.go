package acceptance

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// truss is a package of Components that somebody brings in a file.
const truss = `{"format": "pxcomponents/1", "publisher": "acme", "packageKey": "truss", "packageVersion": "1.0.0", "license": "MIT", "components": {"truss_solve": {
	"contract": "component.declarative@2", "version": 1, "description": "Solves a truss.", "inputs": {"load": {"type": "number", "unit": "kN"}},
	"results": {"moment": {"type": "number", "unit": "kN*m"}}, "elementContributionFields": ["member", "support"]}}}`

// brought writes a file.
func brought(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "truss.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type recordedComponents struct {
	Records []struct {
		ComponentContract struct {
			ComponentKey      string
			DeclaredInputKeys []string
		}
		ElementContributionFields []string
		PackageRelease            m
		Signature, RevocationList string
		Scope, Package            string
		Admitted                  bool
	}
	Generation int
	CommitRef  string
}

// components is what px project component prints.
func (h *host) components(t *testing.T, args ...string) (out recordedComponents) {
	t.Helper()
	if err := json.Unmarshal([]byte(h.operate(t, append([]string{"project", "component", project}, append(args, "--as", "engineer")...)...)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// foundComponents are the items of a search.
func (c caller) foundComponents(t *testing.T, arguments m) []m {
	t.Helper()
	var found struct{ Items []m }
	c.ok(t, "component_search", arguments, &found)
	return found.Items
}

// third is a Node that runs a Component of others, bound on both sides.
func third(key, componentKey string) m {
	return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": key}, "authoring": m{"kind": "native"},
		"inputs":  m{"load": scalar("kN")},
		"results": m{"moment": with(scalar("kN*m"), m{"binding": nodeResult("solve", "moment")})},
		"nodes":   m{"solve": m{"target": m{"kind": "component", "componentKey": componentKey, "version": 1}, "inputBindings": m{"load": flowInput("load")}}}}
}

// A Component that somebody brings is recorded or refused, and whatever is recorded,
// nobody finds, describes, places, binds or runs it.
//
// covers: K1, K2, K3, K5, T5
func TestABroughtComponentIsARecordAndNoAdmission(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.as(t, "engineer")
	builtIns := c.foundComponents(t, m{"scope": sample, "limit": 100})
	if len(builtIns) < 7 {
		t.Fatalf("found %v", builtIns)
	}
	before := h.dump(t)
	file := brought(t, truss)
	for name, refused := range map[string]struct {
		args []string
		want string
	}{
		"signed":                     {[]string{"add", brought(t, strings.Replace(truss, `"license"`, `"signature": "AAAA", "license"`, 1)), "--as", "engineer", "--accept-unsigned"}, "PX_COMPONENT_UNVERIFIABLE at /file"},
		"a signed release":           {[]string{"add", brought(t, `{"release": `+truss+`, "publicKey": "AAAA", "signature": "AAAA"}`), "--as", "engineer", "--accept-unsigned"}, "PX_COMPONENT_UNVERIFIABLE at /file"},
		"unsigned and not accepted":  {[]string{"add", file, "--as", "engineer"}, "PX_COMPONENT_UNSIGNED at /file"},
		"by who may not edit":        {[]string{"add", file, "--as", "viewer", "--accept-unsigned"}, "PX_PERMISSION_DENIED"},
		"by who is not there":        {[]string{"add", file, "--as", "other", "--accept-unsigned"}, "PX_TARGET_NOT_FOUND"},
		"by nobody":                  {[]string{"add", file, "--accept-unsigned"}, "--as names who"},
		"with a capability":          {[]string{"add", brought(t, strings.Replace(truss, `"version"`, `"capabilities": ["gpu"], "version"`, 1)), "--as", "engineer", "--accept-unsigned"}, "PX_SCHEMA_UNKNOWN_FIELD at /file/components/truss_solve/capabilities"},
		"under a key of the product": {[]string{"add", brought(t, strings.Replace(truss, "truss_solve", "px.formula", 1)), "--as", "engineer", "--accept-unsigned"}, "PX_SCHEMA_INVALID at /file/components"},
		"as no JSON":                 {[]string{"add", brought(t, truss[1:]), "--as", "engineer", "--accept-unsigned"}, "PX_SCHEMA_INVALID at /file"},
		"with a word that is none":   {[]string{"admit", file, "--as", "engineer"}, "add FILE"},
	} {
		if code, _, errs := h.px(t, "", append([]string{"project", "component", project}, refused.args...)...); code == 0 || !strings.Contains(errs, refused.want) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	told := h.components(t, "add", file, "--accept-unsigned")
	if len(told.Records) != 1 || told.CommitRef == "" {
		t.Fatalf("recorded as %+v", told)
	}
	if r := told.Records[0]; r.Admitted || r.Scope != "project" || r.Signature != "absent" || r.RevocationList != "not-checked" || r.ComponentContract.ComponentKey != "truss_solve" ||
		!slices.Equal(r.ComponentContract.DeclaredInputKeys, []string{"load"}) || !slices.Equal(r.ElementContributionFields, []string{"member", "support"}) {
		t.Errorf("recorded as %+v", r)
	}
	release := told.Records[0].PackageRelease
	if again := h.components(t, "add", file, "--accept-unsigned"); again.CommitRef != "" || again.Generation != told.Generation {
		t.Errorf("recorded again as %+v", again)
	}
	other := strings.NewReplacer(`"truss"`, `"frames"`).Replace(truss)
	if code, _, errs := h.px(t, "", "project", "component", project, "add", brought(t, other), "--as", "engineer", "--accept-unsigned"); code == 0 || !strings.Contains(errs, "unique") {
		t.Errorf("a second package with the same componentKey: %d %s", code, errs)
	}

	// Nothing that an AI sees has changed.
	if now := c.foundComponents(t, m{"scope": sample, "limit": 100}); encode(t, now) != encode(t, builtIns) {
		t.Errorf("found %v", now)
	}
	if found := c.foundComponents(t, m{"scope": sample, "query": "truss"}); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	ref := m{"componentKey": "truss_solve", "componentContractVersion": 1}
	maps.Copy(ref, release)
	for _, arguments := range []m{{"target": m{"scope": sample, "componentKey": "truss_solve", "version": 1}}, {"target": m{"scope": sample, "componentKey": "truss_solve"}}, {"componentRef": ref}} {
		if got := c.call(t, "component_describe", arguments); got.Envelope == nil || !got.Envelope.OK || string(got.Envelope.Data) != `{"component":null}` || len(got.Envelope.Diagnostics) != 0 {
			t.Errorf("%v is described as %+v", arguments, got)
		}
	}

	// It is neither placed nor bound nor run, and who owns it is told.
	before = h.dump(t)
	document := third("trusses", "truss_solve")
	target := flowTarget{sample, "trusses", digest(t, document)}
	refusal := c.refused(t, "pxflow_plan_change", m{"target": target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFlow", "document": document}}},
		"PX_COMPONENT_NOT_RUNNABLE /commands/0/document/nodes/solve/target")
	if len(refusal.Diagnostics) == 1 {
		p := refusal.Diagnostics[0].Params
		handoff, _ := p["handoff"].(m)
		if p["reason"] != "third_party_component" || p["signature"] != "absent" || encode(t, p["packageRelease"]) != encode(t, release) ||
			handoff["packageDigest"] != release["packageDigest"] || handoff["packageVersion"] != "1.0.0" || handoff["action"] != "OPEN_PROJECT_DEPENDENCIES" {
			t.Errorf("handed on by %v", p)
		}
	}
	f := c.head(t, sample, "girder_check")
	refusal = c.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": list{
		m{"kind": "AddNode", "nodeKey": "n", "target": m{"kind": "component", "componentKey": "truss_solve", "version": 1}, "settings": m{}},
		m{"kind": "ConnectInput", "nodeKey": "n", "portKey": "load", "binding": flowInput("span")}}}, "PX_COMPONENT_NOT_RUNNABLE /nodes/n/target")
	if len(refusal.Diagnostics) == 1 && refusal.Diagnostics[0].Params["handoff"] == nil {
		t.Errorf("handed on by %v", refusal.Diagnostics[0].Params)
	}
	// Another version of it, and what nobody knows, hand on to nothing.
	for _, unknown := range []m{{"kind": "component", "componentKey": "truss_solve", "version": 2}, {"kind": "component", "componentKey": "truss_solver", "version": 1}} {
		refusal = c.refused(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": list{m{"kind": "AddNode", "nodeKey": "n", "target": unknown, "settings": m{}}}},
			"PX_COMPONENT_NOT_RUNNABLE /nodes/n/target")
		if len(refusal.Diagnostics) == 1 && (refusal.Diagnostics[0].Params["handoff"] != nil || refusal.Diagnostics[0].Params["reason"] != "component_unknown") {
			t.Errorf("%v is handed on by %v", unknown, refusal.Diagnostics[0].Params)
		}
	}
	// It was never saved, so there is nothing to run.
	c.refused(t, "pxflow_run", m{"kind": "RunFlow", "target": target, "commandId": "run", "inputs": m{"load": number(1, "kN")}}, "PX_TARGET_NOT_FOUND /target/flowKey")
	if changed := before.changes(h.dump(t)); len(changed) != 0 {
		t.Errorf("written: %q", changed)
	}

	// Another Project knows nothing of it.
	h.operate(t, "project", "create", "structural_team/tunnel_package")
	h.operate(t, "project", "grant", "structural_team/tunnel_package", "--to", "engineer", "--rights", "read,edit")
	tunnel := with(sample, m{"projectKey": "tunnel_package"})
	refusal = c.refused(t, "pxflow_plan_change", m{"target": m{"scope": tunnel, "flowKey": "trusses", "revisionRef": digest(t, document)}, "expectedGeneration": 0,
		"commands": list{m{"kind": "CreateFlow", "document": document}}}, "PX_COMPONENT_NOT_RUNNABLE /commands/0/document/nodes/solve/target")
	if len(refusal.Diagnostics) == 1 && refusal.Diagnostics[0].Params["reason"] != "component_unknown" {
		t.Errorf("another Project tells %v", refusal.Diagnostics[0].Params)
	}

	// A new release takes the place of the old one; an old one is not removed by its name.
	next := h.components(t, "add", brought(t, strings.Replace(truss, "1.0.0", "1.1.0", 1)), "--accept-unsigned")
	if len(next.Records) != 1 || next.Records[0].PackageRelease["packageVersion"] != "1.1.0" || next.Generation != told.Generation+1 {
		t.Errorf("recorded as %+v", next)
	}
	if code, _, errs := h.px(t, "", "project", "component", project, "remove", told.Records[0].Package, "--as", "engineer"); code == 0 || !strings.Contains(errs, "another_release") {
		t.Errorf("removed: %d %s", code, errs)
	}
	if gone := h.components(t, "remove", next.Records[0].Package); len(gone.Records) != 0 || gone.CommitRef == "" {
		t.Errorf("removed to %+v", gone)
	}
	if gone := h.components(t, "remove", next.Records[0].Package); gone.CommitRef != "" {
		t.Errorf("removed again to %+v", gone)
	}
	// Who accepted it stands in the history.
	exported := filepath.Join(t.TempDir(), "history")
	h.operate(t, "history", "export", project, exported)
	if out := h.operate(t, "history", "verify", exported); !strings.Contains(out, "is in order") {
		t.Error(out)
	}
}

// With the switch off, nothing on the wire is another thing than without the catalog; on,
// it is what its contract says.
//
// covers: K4, K5, K1, G1, G2, S2, T5
func TestThePlannedCatalogOfComponents(t *testing.T) {
	t.Parallel()
	off, on := start(t), start(t, "--parameter", "PlannedCatalog=on")
	t.Run("off, nothing tells of it", func(t *testing.T) {
		c := off.as(t, "engineer")
		want, err := os.ReadFile("../../shared/tool/catalog/catalog.json")
		if err != nil {
			t.Fatal(err)
		}
		r := post(t, c.url, c.token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := read(t, r.body); got.Raw != strings.TrimSpace(string(want)) {
			t.Error("the list of tools is not the committed one")
		}
		for _, arguments := range []m{{"scope": sample, "limit": 100}, {"scope": m{"kind": "product"}, "limit": 100}, {"limit": 100}} {
			text := encode(t, c.foundComponents(t, arguments))
			for _, word := range []string{"availability", "componentRef", "structural_analysis", "presentation"} {
				if strings.Contains(text, word) {
					t.Errorf("%v tells of %s", arguments, word)
				}
			}
		}
		c.refused(t, "component_search", m{"scope": sample, "filters": m{"availability": "available"}}, "PX_SCHEMA_UNKNOWN_FIELD /filters")
		c.refused(t, "component_describe", m{"target": m{"scope": sample, "componentKey": "px.formula"}, "scope": sample}, "PX_SCHEMA_UNKNOWN_FIELD /scope")
		if got := c.call(t, "component_describe", m{"target": m{"scope": sample, "componentKey": "model_analysis"}}); got.Envelope == nil || string(got.Envelope.Data) != `{"component":null}` {
			t.Errorf("described as %+v", got)
		}
		if code, _, errs := off.px(t, "", "project", "dependency", project, "add", "structural_analysis@1.0.0#sha256:"+strings.Repeat("0", 64), "--as", "engineer", "--accept-license", "Apache-2.0"); code == 0 || !strings.Contains(errs, "release_unknown") {
			t.Errorf("installed: %d %s", code, errs)
		}
	})

	c := on.as(t, "engineer")
	want, err := os.ReadFile("../../shared/tool/catalog/planned.json")
	if err != nil {
		t.Fatal(err)
	}
	r := post(t, c.url, c.token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if got := read(t, r.body); got.Raw != strings.TrimSpace(string(want)) {
		t.Error("the list of tools is not the committed one")
	}
	for _, arguments := range []m{{}, {"scope": m{"kind": "product"}}, {"scope": m{"kind": "project", "workspaceKey": "structural_team"}}} {
		for _, item := range c.foundComponents(t, with(arguments, m{"limit": 100})) {
			if item["origin"] != "built-in" || item["availability"] != "installed" {
				t.Errorf("%v shows %v", arguments, item)
			}
		}
	}
	found := c.foundComponents(t, m{"scope": sample, "query": "구조 골조 structural_analysis", "filters": m{"availability": "available"}})
	if len(found) != 0 { // its label has no word for 구조
		t.Errorf("found %v", found)
	}
	found = c.foundComponents(t, m{"scope": sample, "query": "골조 structural_analysis", "filters": m{"availability": "available"}})
	if len(found) != 1 || len(c.foundComponents(t, m{"scope": sample, "query": "structural_analysis", "filters": m{"availability": "installed"}})) != 0 {
		t.Fatalf("found %v", found)
	}
	item := found[0]
	ref := item["componentRef"].(m)
	if item["availability"] != "available" || ref["packageVersion"] != "1.0.0" || !strings.HasPrefix(ref["packageDigest"].(string), "sha256:") || ref["componentKey"] != "model_analysis" ||
		at(item, "inputs", "stiffness")["unit"] != "kN/m" || at(item, "results", "reaction")["unit"] != "kN" || at(item, "presentation")["order"] != 10.0 {
		t.Errorf("found %v", item)
	}

	type description struct {
		Component, ComponentRef, DependencyHandoff, OwnerHandoff, Declaration m
		Availability                                                          string
	}
	describe := func(arguments m) (d description, raw string) {
		t.Helper()
		got := c.call(t, "component_describe", arguments)
		if got.Envelope == nil || !got.Envelope.OK || json.Unmarshal(got.Envelope.Data, &d) != nil {
			t.Fatalf("described as %+v", got)
		}
		return d, string(got.Envelope.Data)
	}
	exact := m{"componentRef": ref, "scope": sample}
	before := on.dump(t)
	d, raw := describe(exact)
	if d.Component != nil || d.Availability != "available" || encode(t, d.ComponentRef) != encode(t, ref) || len(d.DependencyHandoff) != 5 ||
		!strings.HasPrefix(d.DependencyHandoff["handoffRef"].(string), "dependency_handoff_") || d.DependencyHandoff["packageKey"] != "structural_analysis" ||
		d.DependencyHandoff["packageVersion"] != "1.0.0" || d.DependencyHandoff["packageDigest"] != ref["packageDigest"] || d.DependencyHandoff["action"] != "OPEN_PROJECT_DEPENDENCIES" {
		t.Errorf("described as %s", raw)
	}
	if d.Declaration["contract"] != "component.declarative@2" || at(d.Declaration, "declaredSettings")["contract"] != "component-declared-settings@1" || len(at(d.Declaration, "declaredSettings")["settings"].(list)) != 4 {
		t.Errorf("declared as %v", d.Declaration)
	}
	// Its rich surface is in the release, and nothing here opens it or tells of it.
	for _, word := range []string{"surface", "frame_viewer", "richSurfaces", "renderer", "signature\":\"AA", "publicKey"} {
		if strings.Contains(raw, word) || strings.Contains(encode(t, item), word) {
			t.Errorf("%s is told", word)
		}
	}
	if again, _ := describe(m{"target": item["target"]}); again.DependencyHandoff["handoffRef"] != d.DependencyHandoff["handoffRef"] {
		t.Errorf("handed on again as %v", again.DependencyHandoff)
	}
	// What is not that very release is not there, and nothing like it takes its place.
	for name, value := range map[string]any{"packageVersion": "1.0.1", "packageDigest": "sha256:" + strings.Repeat("0", 64), "componentContractVersion": 2, "releaseByteDigest": "latest", "publisher": "acme"} {
		if d, raw := describe(m{"componentRef": with(ref, m{name: value}), "scope": sample}); d.ComponentRef != nil || raw != `{"component":null}` {
			t.Errorf("another %s is described as %s", name, raw)
		}
	}
	if d, raw := describe(m{"componentRef": ref}); d.ComponentRef != nil {
		t.Errorf("without a Project it is described as %s", raw)
	}

	// It is not placed, and who would is handed on to that very release.
	f := c.head(t, sample, "girder_check")
	place := m{"target": f.Target, "expectedGeneration": f.Generation, "commands": list{m{"kind": "AddNode", "nodeKey": "n", "target": m{"kind": "component", "componentKey": "model_analysis", "version": 1}, "settings": m{}}}}
	refused := func(handoff m) {
		t.Helper()
		told := c.refused(t, "pxflow_plan_change", place, "PX_COMPONENT_NOT_RUNNABLE /nodes/n/target")
		if len(told.Diagnostics) == 1 && (told.Diagnostics[0].Params["reason"] != "third_party_component" || encode(t, told.Diagnostics[0].Params["handoff"]) != encode(t, handoff)) {
			t.Errorf("handed on by %v", told.Diagnostics[0].Params)
		}
	}
	refused(d.DependencyHandoff)
	if changed := before.changes(on.dump(t)); len(changed) != 0 {
		t.Errorf("describing and planning wrote %q", changed)
	}

	// A page that was begun tells of what was there then.
	var page, rest struct {
		Items      []m
		NextCursor string
	}
	some := m{"scope": sample, "filters": m{"availability": "available"}, "limit": 1}
	c.ok(t, "component_search", some, &page)

	// A person installs it; described again it is installed, and planned anew it is still
	// a Component of others.
	on.operate(t, "project", "dependency", project, "add", "structural_analysis@1.0.0#"+ref["packageDigest"].(string), "--as", "engineer", "--accept-license", "Apache-2.0")
	c.ok(t, "component_search", with(some, m{"cursor": page.NextCursor}), &rest)
	if len(rest.Items) != 1 || rest.NextCursor != "" || rest.Items[0]["availability"] != "available" || at(rest.Items[0], "componentRef")["componentKey"] == at(page.Items[0], "componentRef")["componentKey"] {
		t.Errorf("the next page has %v", rest)
	}
	now, raw := describe(exact)
	if now.OwnerHandoff["action"] != "OPEN_OWNING_PACKAGE" || now.OwnerHandoff["packageDigest"] != ref["packageDigest"] {
		t.Errorf("its owner is told as %v", now.OwnerHandoff)
	}
	if now.Availability != "installed" || now.DependencyHandoff != nil || now.Component["signature"] != "valid" || now.Component["revocationList"] != "valid-window" ||
		encode(t, at(now.Component, "componentContract")["declaredInputKeys"]) != `["loads","stiffness"]` {
		t.Errorf("described as %s", raw)
	}
	if found := c.foundComponents(t, m{"scope": sample, "query": "structural_analysis", "filters": m{"availability": "installed"}}); len(found) != 2 {
		t.Errorf("found %v", found)
	}
	before = on.dump(t)
	refused(now.OwnerHandoff)
	if changed := before.changes(on.dump(t)); len(changed) != 0 {
		t.Errorf("planning wrote %q", changed)
	}

	// A hand-off is no approval of anything.
	on.policy(t, `{"rules":[{"on":"flow","approval":"required"}]}`)
	p := c.plan(t, f, m{"kind": "SetFlowLabel", "label": m{"en": "x"}})
	before = on.dump(t)
	for _, handoff := range []m{d.DependencyHandoff, now.OwnerHandoff} {
		c.refused(t, "pxflow_apply_change", with(p.application("x"), m{"approvalRef": handoff["handoffRef"]}), "PX_APPROVAL_INVALID /approvalRef")
	}
	if changed := before.changes(on.dump(t)); len(changed) != 0 {
		t.Errorf("applying wrote %q", changed)
	}
}
