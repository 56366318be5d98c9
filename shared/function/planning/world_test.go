package planning_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function/planning"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	functionapplychange "github.com/pxhost/pxhost/shared/tool/function_apply_change"
	functiondescribe "github.com/pxhost/pxhost/shared/tool/function_describe"
	functionplanchange "github.com/pxhost/pxhost/shared/tool/function_plan_change"
	functionsearch "github.com/pxhost/pxhost/shared/tool/function_search"
	functionvalidatechange "github.com/pxhost/pxhost/shared/tool/function_validate_change"
)

type m = map[string]any

var bridge = target.Project{WorkspaceKey: "team", ProjectKey: "bridge"}

var scope = m{"kind": "project", "workspaceKey": "team", "projectKey": "bridge"}

var (
	engineer = tool.Principal{Issuer: "https://issuer.test", Subject: "engineer", Scopes: []string{"px.tools"}}
	stranger = tool.Principal{Issuer: "https://issuer.test", Subject: "stranger", Scopes: []string{"px.tools"}}
	viewer   = tool.Principal{Issuer: "https://issuer.test", Subject: "viewer", Scopes: []string{"px.tools"}}
)

// A world is a Project on the memory store with the tools of Functions.
type world struct {
	t       testing.TB
	store   *memory.Store
	catalog history.Catalog
	tools   map[string]tool.Handler
	refs    int
	who     tool.Principal // who calls; the engineer where nothing else is set
	// pause is called between the reads of an apply and its commit.
	objects *hooked
}

// hooked calls a hook before objects are stored.
type hooked struct {
	history.Objects
	before func()
	gets   atomic.Int64
}

// Get counts.
func (h *hooked) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	h.gets.Add(1)
	return h.Objects.Get(ctx, space, refs...)
}

func (h *hooked) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.Objects.Put(ctx, space, bodies...)
}

func newWorld(t testing.TB, reader planning.Python) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(time.Now), who: engineer}
	admin := project.New(w.store, nil, time.Now)
	for _, err := range []error{
		admin.Create(t.Context(), bridge, nil, ""),
		admin.SetPolicy(t.Context(), bridge, nil),
		admin.SetGrant(t.Context(), bridge, engineer.String(), []policy.Right{policy.Read, policy.Edit, policy.Run}),
		admin.SetGrant(t.Context(), bridge, viewer.String(), []policy.Right{policy.Read}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.objects = &hooked{Objects: w.store}
	w.catalog = history.NewCatalog(w.store, history.NewCache(256<<20))
	snapshots := snapshot.Reader{Objects: w.objects, Store: w.store, Catalog: w.catalog}
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	compiler := planning.New(reader, nil)
	planner := &change.Planner{Objects: w.store, Store: w.store, Now: time.Now, NewRef: func(prefix string) string { w.refs++; return fmt.Sprintf("%s%026d", prefix, w.refs) }}
	applier := &change.Applier{Objects: w.objects, Store: w.store, Policy: w.store, Catalog: w.catalog, Now: time.Now, Recheck: planning.Recheck(snapshots, reader), Appeared: planning.Appeared(snapshots)}
	links := resource.Links{Sealer: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Life: time.Hour, Now: time.Now}
	w.tools = map[string]tool.Handler{
		"function_search":          functionsearch.New(frame, snapshots),
		"function_describe":        functiondescribe.New(frame, snapshots, links),
		"function_validate_change": functionvalidatechange.New(frame, snapshots, compiler),
		"function_plan_change":     functionplanchange.New(frame, snapshots, planner, compiler),
		"function_apply_change":    functionapplychange.New(frame, applier),
	}
	return w
}

// ask calls a tool and returns its envelope.
func (w *world) ask(name string, arguments any) outcome.Envelope {
	w.t.Helper()
	text, err := canon.Encode(arguments)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := w.tools[name](w.t.Context(), tool.Request{Version: tool.RequestVersion, RequestID: "r", Tool: name, Principal: w.who, Arguments: text,
		Deadline: time.Now().Add(time.Minute), ByteShare: 2 << 20})
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	var out outcome.Envelope
	if err := json.Unmarshal(answer, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// do calls a tool that must not refuse and decodes its data.
func (w *world) do(name string, arguments any) m {
	w.t.Helper()
	e := w.ask(name, arguments)
	if !e.OK {
		w.t.Fatalf("%s refuses: %s", name, told(e))
	}
	var data m
	if err := json.Unmarshal(e.Data, &data); err != nil {
		w.t.Fatal(err)
	}
	return data
}

// told writes diagnostics as "CODE path reason", one each.
func told(e outcome.Envelope) string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = strings.TrimRight(fmt.Sprintf("%s %s %s", d.Code, d.Path, text(d.Params["reason"], d.Params["rule"])), " ")
	}
	return strings.Join(lines, "\n")
}

func text(values ...any) string {
	for _, v := range values {
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// source is the text of a version of a Function that takes and gives these units.
func source(key string, version int, unit, result, body string) string {
	return fmt.Sprintf("import math\n\nimport px\n\n\n@px.function(\n    key=%q,\n    version=%d,\n    description=\"A check\",\n    inputs={\"a\": px.number(unit=%q)},\n    results={\"r\": px.number(unit=%q)},\n    capabilities=[],\n)\ndef check(a):\n    %s\n", key, version, unit, result, body)
}

// put saves documents as they are, without any plan.
func (w *world) put(documents ...any) {
	w.t.Helper()
	ctx, space := w.t.Context(), history.Space(bridge.String())
	opening, err := w.store.Begin(ctx, bridge, engineer.String(), "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.refs++
	d := change.Draft{Tool: "test", Project: bridge, Policy: opening.Policy, Subject: policy.OnFlow, Kinds: []string{"CreateFlow"}, Target: canon.Raw(`{}`), Commands: []canon.Raw{canon.Raw(fmt.Sprint(w.refs))},
		Unlabelled: []canon.Raw{canon.Raw(fmt.Sprint(w.refs))}, Diff: canon.Raw(`[]`), Impact: canon.Raw(`{}`)}
	for _, doc := range documents {
		c := change.Change{Text: "x"}
		var ref string
		switch doc := doc.(type) {
		case flow.Document:
			c.Kind, c.Key = "flow", doc.FlowKey
			c.Document, ref, err = doc.RevisionRef()
			c.Entry.Uses = flow.Uses(doc)
		case report.Document:
			c.Kind, c.Key = "report", doc.ReportKey
			c.Document, ref, err = doc.RevisionRef()
			c.Entry.Uses = report.Uses(doc)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		c.Entry.RevisionRef = history.Ref(ref)
		if e, err := w.catalog.Entry(ctx, space, opening.Head.Root, c.CatalogKey()); err != nil {
			w.t.Fatal(err)
		} else if e != nil {
			c.Base = &history.Revision{RevisionRef: e.RevisionRef, Generation: e.Generation}
			c.Entry.Generation = e.Generation + 1
			if len(d.Changes) == 0 {
				d.ExpectedGeneration = e.Generation
			}
		}
		d.Changes = append(d.Changes, c)
	}
	planner := &change.Planner{Objects: w.store, Store: w.store, Now: time.Now, NewRef: func(prefix string) string { return fmt.Sprintf("%s%026d", prefix, 1_000_000+w.refs) }}
	plan, findings, err := planner.Plan(ctx, change.Author{Principal: engineer.String()}, d)
	if findings != nil || err != nil {
		w.t.Fatal(findings, err)
	}
	applier := &change.Applier{Objects: w.store, Store: w.store, Policy: w.store, Catalog: w.catalog, Now: time.Now}
	if _, findings, err := applier.Apply(ctx, change.Application{Author: change.Author{Principal: engineer.String()}, Tool: "test", Project: bridge, Target: canon.Raw(`{}`),
		Address: d.Changes[0].CatalogKey(), ExpectedGeneration: d.ExpectedGeneration, PlanRef: plan.PlanRef, PlanDigest: plan.PlanDigest, CommandID: plan.PlanRef}); findings != nil || err != nil {
		w.t.Fatal(findings, err)
	}
}

// entry is what the catalog says now.
func (w *world) entry(key string) *history.Entry {
	w.t.Helper()
	head, err := w.store.Head(w.t.Context(), history.Space(bridge.String()))
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := w.catalog.Entry(w.t.Context(), history.Space(bridge.String()), head.Root, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// create saves version 1 of a Function through the tools and returns its target.
func (w *world) create(text string, key string) m {
	w.t.Helper()
	at := m{"scope": scope, "functionKey": key}
	plan := w.do("function_plan_change", m{"target": at, "expectedGeneration": 0, "commands": []m{{"kind": "CreateFunction", "source": text}}})
	applied := w.apply(at, 0, plan)
	return applied["changed"].([]any)[0].(m)["target"].(m)
}

// apply applies a plan that must not be refused.
func (w *world) apply(at m, generation int, plan m) m {
	w.t.Helper()
	return w.do("function_apply_change", applying(at, generation, plan))
}

func applying(at m, generation int, plan m) m {
	return m{"target": at, "expectedGeneration": generation, "planRef": plan["planRef"], "planDigest": plan["planDigest"], "commandId": plan["planRef"]}
}

// ref is the FunctionRef of a target.
func ref(at m) m {
	return m{"functionKey": at["functionKey"], "version": at["version"], "digest": at["digest"]}
}

// nextVersion is the request for the next version.
func nextVersion(at m, generation int, text string) m {
	return m{"target": at, "expectedGeneration": generation, "commands": []m{{"kind": "CreateFunctionVersion", "functionRef": ref(at), "source": text, "referencePolicy": "all_current_usages"}}}
}

// aFlow is a Flow whose Nodes run a version of a Function, one after another.
func aFlow(t testing.TB, key string, at m, nodes int) flow.Document {
	t.Helper()
	all := m{}
	from := m{"kind": "flowInput", "portKey": "a"}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		all[name] = m{"target": m{"kind": "function", "functionKey": at["functionKey"], "version": at["version"], "digest": at["digest"]}, "inputBindings": m{"a": from}}
		from = m{"kind": "nodeResult", "nodeKey": name, "portKey": "r"}
	}
	text, err := canon.Encode(m{"format": "pxflow/1", "flowKey": key, "label": m{"en": key}, "authoring": m{"kind": "native"}, "inputs": m{"a": m{"type": "number", "unit": "m"}},
		"results": m{"r": m{"type": "number", "unit": "m", "binding": from}}, "nodes": all})
	if err != nil {
		t.Fatal(err)
	}
	doc, findings := flow.Decode(text)
	if findings != nil {
		t.Fatal(findings)
	}
	return doc
}

// aReport is a Report that is connected to revisions of Flows.
func aReport(t testing.TB, key string, revisions ...m) report.Document {
	t.Helper()
	connections, slots := m{}, m{}
	for i, r := range revisions {
		slot := fmt.Sprintf("s%d", i)
		slots[slot] = m{"type": "number", "unit": "m"}
		connections[fmt.Sprintf("c%d", i)] = m{"flowTarget": r, "inputs": m{"i": m{"portKey": "a", "source": m{"kind": "reportValue", "blockKey": "v", "fieldKey": "a"}}},
			"results": m{"o": m{"portKey": "r", "target": m{"kind": "reportResultSlot", "blockKey": "r", "slotKey": slot}}}}
	}
	text, err := canon.Encode(m{"format": "pxreport/1", "reportKey": key, "blockOrder": []string{"v", "r"}, "connections": connections,
		"blocks": m{"v": m{"kind": "values", "fields": m{"a": m{"type": "number", "unit": "m", "value": m{"value": 2, "unit": "m"}}}}, "r": m{"kind": "results", "slots": slots}}})
	if err != nil {
		t.Fatal(err)
	}
	doc, findings := report.Decode(text)
	if findings != nil {
		t.Fatal(findings)
	}
	return doc
}

// revision is the target of a Flow as it stands.
func (w *world) revision(flowKey string) m {
	return m{"scope": scope, "flowKey": flowKey, "revisionRef": string(w.entry("flow/" + flowKey).RevisionRef)}
}
