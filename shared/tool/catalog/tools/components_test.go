package tools_test

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/component/declared"
	"github.com/pxhost/pxhost/shared/component/discovery"
	"github.com/pxhost/pxhost/shared/component/installed"
	components "github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/dependency"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/tool"
	componentdescribe "github.com/pxhost/pxhost/shared/tool/component_describe"
	componentsearch "github.com/pxhost/pxhost/shared/tool/component_search"
)

// drawn is a record as it may be stored, by a program, by an attacker or by a fault.
func drawn(t *rapid.T, label string) map[string]any {
	digest := "sha256:" + strings.Repeat("0", 64)
	pick := func(name string, good any, others ...any) any {
		if rapid.IntRange(0, 3).Draw(t, label+name) > 0 {
			return good
		}
		return rapid.SampledFrom(append(others, nil, 1, "", []any{}, map[string]any{})).Draw(t, label+name+"_other")
	}
	r := map[string]any{
		"scope":                     pick("scope", "product", "project", "other"),
		"componentContract":         map[string]any{"componentKey": pick("key", "truss", "px.formula", "A", "truss.solve"), "declaredInputKeys": pick("inputs", []any{"a"}, []any{"a", "a"}, []any{"A"})},
		"contractVersion":           pick("version", 1, 0, -1, 2),
		"elementContributionFields": pick("fields", []any{}, []any{"a"}, make([]any, 33)),
		"packageRelease": map[string]any{"publisher": pick("publisher", "acme"), "packageKey": pick("package", "truss", "PX"), "packageVersion": pick("packageVersion", "1.0.0"),
			"packageDigest": pick("digest", digest, "sha256:0"), "releaseByteDigest": pick("bytes", digest, "latest")},
		"signature":      pick("signature", "valid", "absent", "invalid", "VALID"),
		"revocationList": pick("revocation", "valid-window", "not-checked", "expired"),
	}
	if rapid.IntRange(0, 9).Draw(t, label+"more") == 0 {
		r["descriptor"] = "whole"
	}
	return r
}

// component state is one Project with what is stored of Components, and both tools on it.
type componentState struct {
	t      *rapid.T
	search tool.Handler
	find   tool.Handler
}

func stateOf(t *rapid.T, catalog components.Catalog, documents map[string][]byte) componentState {
	ctx := t.Context()
	store := memory.New(time.Now)
	space := history.Space(costProject.String())
	admin := project.New(store, nil, time.Now)
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(admin.Create(ctx, costProject, nil, ""))
	try(admin.SetGrant(ctx, costProject, costPrincipal.String(), []policy.Right{policy.Read}))
	var changes []history.Change
	for key, text := range documents {
		try(store.Put(ctx, space, text))
		changes = append(changes, history.Change{Key: key, Entry: &history.Entry{RevisionRef: history.RefOf(text)}})
	}
	slices.SortFunc(changes, func(a, b history.Change) int { return strings.Compare(a.Key, b.Key) })
	root, err := history.NewCatalog(store, nil).Apply(ctx, space, "", changes)
	try(err)
	grant, err := store.Grant(ctx, costProject, costPrincipal.String())
	try(err)
	rules, err := store.Policy(ctx, costProject)
	try(err)
	try(store.CreatePlan(ctx, change.PlanRow{PlanRef: "load", Space: space, State: change.PlanOpen, ExpiresAt: time.Now().Add(time.Hour)}))
	try(store.Commit(ctx, change.Commitment{Space: space, Next: history.Head{Commit: root, Root: root, Version: 1}, PlanRef: "load", Now: time.Now(),
		Command: change.CommandRow{Key: "load", PlanRef: "load", Answer: root}, Principal: costPrincipal.String(), GrantVersion: grant.Version, PolicyVersion: rules.Version}))
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	reader := snapshot.Reader{Objects: store, Store: store, Catalog: history.NewCatalog(store, nil)}
	return componentState{t, componentsearch.New(frame, reader, catalog), componentdescribe.New(frame, reader, catalog)}
}

func (s componentState) ask(handle tool.Handler, name string, arguments map[string]any, into any) {
	s.t.Helper()
	text, err := canon.Encode(arguments)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := handle(s.t.Context(), tool.Request{Version: tool.RequestVersion, RequestID: "r", Tool: name, Principal: costPrincipal, Arguments: text,
		Deadline: time.Now().Add(time.Minute), ByteShare: 2 << 20})
	var envelope outcome.Envelope
	if err == nil {
		err = json.Unmarshal(answer, &envelope)
	}
	if err == nil && !envelope.OK {
		err = fmt.Errorf("refused: %s", answer)
	}
	if err == nil {
		err = json.Unmarshal(envelope.Data, into)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// shown is what a search shows in a scope, page by page.
func (s componentState) shown(scope map[string]any) (out []map[string]any) {
	next := ""
	for range 100 {
		arguments := map[string]any{"scope": scope, "limit": 3}
		if next != "" {
			arguments["cursor"] = next
		}
		var page struct {
			Items      []map[string]any `json:"items"`
			NextCursor string           `json:"nextCursor"`
			Applied    int              `json:"appliedLimit"`
			Truncation any              `json:"truncation"`
		}
		s.ask(s.search, componentsearch.Name, arguments, &page)
		out = append(out, page.Items...)
		if next = page.NextCursor; next == "" {
			return out
		}
	}
	s.t.Fatal("a search without end")
	return nil
}

// Whatever is stored, what search shows describe finds and the reverse, and of what a
// Project recorded neither shows anything.
//
// covers: K1, K2, K3
func TestSearchAndDescribeJudgeAlike(t *testing.T) {
	scope := map[string]any{"kind": "project", "workspaceKey": costProject.WorkspaceKey, "projectKey": costProject.ProjectKey}
	rapid.Check(t, func(t *rapid.T) {
		records := map[string]any{}
		for i := range rapid.IntRange(0, 5).Draw(t, "records") {
			r := drawn(t, fmt.Sprint(i))
			key, _ := r["componentContract"].(map[string]any)["componentKey"].(string)
			records[key] = r
		}
		document, err := canon.Encode(map[string]any{"format": installed.Format, "records": records})
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 4).Draw(t, "malformed") == 0 {
			document = rapid.SampledFrom([][]byte{[]byte(`{`), []byte(`[]`), []byte(`{"format":"pxcontributions/2","records":{}}`), document[:len(document)-1], {0xff}}).Draw(t, "text")
		}
		s := stateOf(t, components.Catalog{}, map[string][]byte{history.Key(dependency.Kind, installed.Name): document})
		shown := map[string]bool{}
		for _, item := range s.shown(scope) {
			target := item["target"].(map[string]any)
			var d struct {
				Component *componentdescribe.Component `json:"component"`
			}
			s.ask(s.find, componentdescribe.Name, map[string]any{"target": target}, &d)
			if d.Component == nil || d.Component.ComponentContract.ComponentKey != target["componentKey"] {
				t.Fatalf("%v is shown, and described as %+v", target, d.Component)
			}
			shown[target["componentKey"].(string)] = true
		}
		if len(shown) != len(component.All()) {
			t.Fatalf("%d are shown, with %s", len(shown), document)
		}
		for key, stored := range records {
			release, _ := stored.(map[string]any)["packageRelease"].(map[string]any)
			if key == "" || key != strings.ToLower(key) {
				continue // no request can name it
			}
			ref := map[string]any{"componentKey": key, "componentContractVersion": 1}
			for _, name := range []string{"publisher", "packageKey", "packageVersion", "packageDigest", "releaseByteDigest"} {
				text, ok := release[name].(string)
				if !ok || text == "" {
					text = "x"
				}
				ref[name] = text
			}
			for _, arguments := range []map[string]any{{"target": map[string]any{"scope": scope, "componentKey": key}}, {"componentRef": ref}} {
				var d struct {
					Component *componentdescribe.Component `json:"component"`
				}
				s.ask(s.find, componentdescribe.Name, arguments, &d)
				if byKey := arguments["target"] != nil; d.Component != nil && !(byKey && shown[key]) || byKey && d.Component == nil && shown[key] {
					t.Fatalf("%v is described as %+v", arguments, d.Component)
				}
			}
		}
	})
}

// The same of what the planned catalog has, of which something may be withdrawn and
// something be installed.
//
// covers: K2, K4
func TestSearchAndDescribeJudgeThePlannedCatalogAlike(t *testing.T) {
	scope := map[string]any{"kind": "project", "workspaceKey": costProject.WorkspaceKey, "projectKey": costProject.ProjectKey}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	rapid.Check(t, func(t *rapid.T) {
		var all [][]components.Component
		lock := dependency.Lock{}
		has := map[string]bool{}
		for i := range rapid.IntRange(1, 4).Draw(t, "releases") {
			p := declared.Package{Format: declared.Format, Publisher: "acme", PackageKey: rapid.SampledFrom([]string{"truss", "plates"}).Draw(t, "package"), PackageVersion: fmt.Sprintf("%d.0.0", i), License: "MIT",
				Components: map[string]declared.Component{}}
			var revoked []string
			for _, k := range []string{"solve", "mesh"} {
				p.Components[k] = declared.Component{Contract: declared.Contract, Version: 1 + i%2, Description: "Does " + k, Inputs: map[string]quantity.Port{}, Results: map[string]quantity.Port{}, ElementContributionFields: []string{}}
				if rapid.IntRange(0, 3).Draw(t, "revoked") == 0 {
					revoked = append(revoked, k)
				}
			}
			text, err := components.Sign(p, revoked, key)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 4).Draw(t, "altered") == 0 {
				text = []byte(strings.Replace(string(text), "Does mesh", "Does more", 1))
			}
			stored := components.Verify(text)
			all = append(all, stored)
			if r := stored[0].Record.PackageRelease; rapid.Bool().Draw(t, "installed") && lock.Packages[r.PackageKey].Version == "" {
				lock = lock.With(r.PackageKey, dependency.Installed{Version: r.PackageVersion, Digest: r.PackageDigest, Publisher: r.Publisher, ReleaseByteDigest: r.ReleaseByteDigest, License: "MIT"})
				has[r.PackageVersion] = true
			}
		}
		text, _, err := lock.Encode()
		if err != nil {
			t.Fatal(err)
		}
		s := stateOf(t, components.Of(all...), map[string][]byte{dependency.LockKey: text})
		shown := map[discovery.Ref]bool{}
		for _, item := range s.shown(scope) {
			var ref discovery.Ref
			encoded, _ := canon.Encode(item["componentRef"])
			if err := json.Unmarshal(encoded, &ref); err != nil {
				t.Fatal(err)
			}
			shown[ref] = true
			var d componentdescribe.PlannedOutput
			s.ask(s.find, componentdescribe.Name, map[string]any{"componentRef": ref, "scope": scope}, &d)
			if d.ComponentRef == nil || *d.ComponentRef != ref || string(d.Availability) != item["availability"] || (d.Component == nil) != (d.Availability == discovery.Available) ||
				(d.DependencyHandoff != nil) != (d.Availability == discovery.Available) {
				t.Fatalf("%+v is shown, and described as %+v", item, d)
			}
			if want := ref.PackageKey == "px" || has[ref.PackageVersion]; want != (d.Availability == discovery.Installed) {
				t.Fatalf("%+v is %s", ref, d.Availability)
			}
			if h := d.DependencyHandoff; h != nil && (h.PackageDigest != ref.PackageDigest || h.PackageVersion != ref.PackageVersion || h.PackageKey != ref.PackageKey || h.Action != dependency.OpenDependencies) {
				t.Fatalf("%+v is handed on to %+v", ref, h)
			}
		}
		for _, c := range slices.Concat(all...) {
			ref := discovery.Stored{Record: c.Record}.Ref()
			var d componentdescribe.PlannedOutput
			s.ask(s.find, componentdescribe.Name, map[string]any{"componentRef": ref, "scope": scope}, &d)
			if (d.ComponentRef != nil) != shown[ref] || shown[ref] != component.Admitted(c.Record) {
				t.Fatalf("%+v is shown %v, admitted %v, and described as %+v", ref, shown[ref], component.Admitted(c.Record), d)
			}
			// Without the Project nothing of it is there.
			d = componentdescribe.PlannedOutput{}
			s.ask(s.find, componentdescribe.Name, map[string]any{"componentRef": ref}, &d)
			if d.ComponentRef != nil {
				t.Fatalf("%+v is found in no Project", ref)
			}
		}
		if found := s.shown(map[string]any{"kind": "project", "workspaceKey": costProject.WorkspaceKey}); len(found) != len(component.All()) {
			t.Fatalf("a partial scope shows %d", len(found))
		}
	})
}
