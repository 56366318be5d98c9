package tools_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	components "github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
	reportdescribe "github.com/pxhost/pxhost/shared/tool/report_describe"
)

type object = map[string]any

// A draw makes one random thing.
type draw struct{ *rapid.T }

func (d draw) n(most int, name string) int { return rapid.IntRange(0, most).Draw(d.T, name) }
func (d draw) yes(name string) bool        { return rapid.Bool().Draw(d.T, name) }
func (d draw) of(name string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.T, name)
}

// words are what people write, in one line.
func (d draw) words(most int) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", `"`, `\`, "/", "~", "거더", "휨 ", "🌉", "🇰🇷", "é", "e\u0301", "각"}), 0, most).Draw(d.T, "words"), "")
}

func (d draw) label() object {
	out := object{}
	for _, language := range []string{"en", "ko"} {
		if d.yes("label") {
			out[language] = "x" + d.words(12)
		}
	}
	return out
}

func (d draw) port() object {
	switch d.n(3, "type") {
	case 0:
		return object{"type": "string"}
	case 1:
		return object{"type": "list", "of": object{"type": "number", "unit": "m", "shape": "scalar"}}
	default:
		return object{"type": "number", "unit": d.of("unit", "m", "ft", "kN", "kN*m", "1"), "shape": "scalar", "nullable": d.yes("nullable")}
	}
}

// value is a typed value, of whatever port or of none.
func (d draw) value(depth int) any {
	switch d.n(4, "value") {
	case 0:
		return object{"value": d.words(20)}
	case 1:
		if depth > 0 {
			list := make([]any, d.n(4, "items"))
			for i := range list {
				list[i] = d.value(depth - 1)
			}
			return object{"value": list}
		}
		fallthrough
	default:
		return object{"value": d.n(99, "number"), "unit": d.of("unit", "m", "kN", "1")}
	}
}

// some are up to so many things by key.
func (d draw) some(prefix string, most int, thing func() any) object {
	out := object{}
	for range d.n(most, prefix) {
		out[fmt.Sprintf("%s%d", prefix, d.n(12, "key"))] = thing()
	}
	return out
}

func (d draw) binding() any {
	switch d.n(2, "binding") {
	case 0:
		return object{"kind": "flowInput", "portKey": fmt.Sprint("p", d.n(12, "port"))}
	case 1:
		return object{"kind": "nodeResult", "nodeKey": fmt.Sprint("n", d.n(12, "node")), "portKey": "r"}
	default:
		return object{"kind": "literal", "value": d.value(1)}
	}
}

// flow is a Flow that can be read, and is hardly ever in order: what is wrong with it
// is told too.
func (d draw) flow(key string) object {
	nodes := d.some("n", 12, func() any {
		n := object{"target": object{"kind": "component", "componentKey": d.of("component", "px.formula", "px.convert", "px.gone"), "version": 1}}
		if d.yes("function") {
			n["target"] = object{"kind": "function", "functionKey": "resistance", "version": 1 + d.n(2, "version"), "digest": "sha256:gone"}
		}
		if d.yes("labelled") {
			n["label"] = d.label()
		}
		if d.yes("settings") {
			n["settings"] = object{"results": object{"r": object{"expression": "x + " + d.words(10), "unit": "m"}}, "inputs": object{"x": object{"unit": "m"}}, "more": d.value(2)}
		}
		if d.yes("bound") {
			n["inputBindings"] = d.some("x", 3, d.binding)
		}
		return n
	})
	// Nothing is saved that has a cycle: a Node takes results of those before it.
	for key, n := range nodes {
		bindings, _ := n.(object)["inputBindings"].(object)
		for port, b := range bindings {
			if from, ok := b.(object)["nodeKey"].(string); ok && (len(from) > len(key) || len(from) == len(key) && from >= key) {
				bindings[port] = object{"kind": "flowInput", "portKey": "p1"}
			}
		}
	}
	return object{"format": "pxflow/1", "flowKey": key, "label": d.label(), "authoring": object{"kind": "native"}, "nodes": nodes,
		"inputs": d.some("p", 8, func() any { return d.port() }),
		"results": d.some("r", 8, func() any {
			p := d.port()
			if d.yes("bound") {
				p["binding"] = d.binding()
			}
			return p
		})}
}

// report is a Report that can be read, connected to anything.
func (d draw) report(key string, flows []any) object {
	blocks := d.some("b", 8, func() any {
		labelled := func(p object) object { p["label"] = d.label(); return p }
		switch d.n(2, "block") {
		case 0:
			return labelled(object{"kind": "values", "fields": d.some("f", 6, func() any {
				p := labelled(d.port())
				if d.yes("filled") {
					p["value"] = d.value(2)
				}
				return p
			})})
		case 1:
			return labelled(object{"kind": "text", "text": strings.Repeat(d.words(40)+"\n", d.n(3, "lines"))})
		default:
			return labelled(object{"kind": "results", "slots": d.some("s", 6, func() any { return labelled(d.port()) })})
		}
	})
	place := func(kind, name, prefix string) object {
		return object{"kind": kind, "blockKey": fmt.Sprint("b", d.n(12, "block")), name: fmt.Sprint(prefix, d.n(12, "place"))}
	}
	connections := d.some("c", 4, func() any {
		return object{"flowTarget": rapid.SampledFrom(flows).Draw(d.T, "flow"),
			"inputs": d.some("m", 4, func() any {
				return object{"portKey": fmt.Sprint("p", d.n(12, "port")), "source": place("reportValue", "fieldKey", "f")}
			}),
			"results": d.some("k", 4, func() any {
				return object{"portKey": fmt.Sprint("r", d.n(12, "port")), "target": place("reportResultSlot", "slotKey", "s")}
			})}
	})
	return object{"format": "pxreport/1", "reportKey": key, "label": d.label(), "blocks": blocks, "blockOrder": rapid.Permutation(slices.Sorted(maps.Keys(blocks))).Draw(d.T, "order"), "connections": connections}
}

// shows are what the connections of every Report show.
type shows map[string]run.Projection

func (s shows) Projections(context.Context, target.Project, string) (map[string]run.Projection, error) {
	return s, nil
}

// A generated is a Project of generated documents.
type generated struct {
	t       *rapid.T
	targets map[string][]any // by kind
	handles map[string][]tool.Handler
}

func generate(ctx context.Context, t *rapid.T) *generated {
	d := draw{t}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	store := memory.New(time.Now)
	admin := project.New(store, nil, time.Now)
	space := history.Space(costProject.String())
	must(admin.Create(ctx, costProject, nil, ""))
	must(admin.SetPolicy(ctx, costProject, []policy.Rule{{On: policy.OnBatch, MaxCost: 10, Approval: "required"}, {On: policy.OnRun, Approval: "required"}}))
	must(admin.SetGrant(ctx, costProject, costPrincipal.String(), []policy.Right{policy.Read, policy.Edit}))
	g := &generated{t: t, targets: map[string][]any{}, handles: map[string][]tool.Handler{}}
	var changes []history.Change
	save := func(kind, key string, document object, uses func([]byte) ([]string, outcome.Findings)) {
		text, err := canon.Encode(document)
		must(err)
		used, findings := uses(text)
		if findings.Refused() {
			t.Fatalf("generated, and cannot be read: %+v in %s", findings, text)
		}
		must(store.Put(ctx, space, text))
		ref := history.RefOf(text)
		at := history.Key(kind, key)
		changes = append(changes, history.Change{Key: at, Entry: &history.Entry{RevisionRef: ref, Generation: int64(d.n(5, "generation")), Uses: used}},
			history.Change{Key: history.RevisionKey(at, ref), Entry: &history.Entry{RevisionRef: ref}})
		g.targets[kind] = append(g.targets[kind], object{"scope": costProject.Scope(), kind + "Key": key, "revisionRef": ref})
	}
	for i := range 1 + d.n(3, "flows") {
		key := fmt.Sprint("flow_", i)
		save("flow", key, d.flow(key), func(text []byte) ([]string, outcome.Findings) {
			doc, findings := flow.Decode(text)
			return flow.Uses(doc), findings
		})
	}
	pins := append([]any{object{"scope": costProject.Scope(), "flowKey": "gone", "revisionRef": "sha256:gone"}}, g.targets["flow"]...)
	for i := range 1 + d.n(3, "reports") {
		key := fmt.Sprint("report_", i)
		save("report", key, d.report(key, pins), func(text []byte) ([]string, outcome.Findings) {
			doc, findings := report.Decode(text)
			return report.Uses(doc), findings
		})
	}
	catalog := history.NewCatalog(store, nil)
	root, err := catalog.Apply(ctx, space, "", changes)
	must(err)
	row := change.PlanRow{PlanRef: "load", Space: space, State: change.PlanOpen, ExpiresAt: time.Now().Add(time.Hour)}
	must(store.CreatePlan(ctx, row))
	grant, err := store.Grant(ctx, costProject, costPrincipal.String())
	must(err)
	rules, err := store.Policy(ctx, costProject)
	must(err)
	must(store.Commit(ctx, change.Commitment{Space: space, Next: history.Head{Commit: root, Root: root, Version: 1}, PlanRef: row.PlanRef, Now: time.Now(),
		Command: change.CommandRow{Key: "load", PlanRef: row.PlanRef, Answer: root}, Principal: costPrincipal.String(), GrantVersion: grant.Version, PolicyVersion: rules.Version}))

	shown := shows{}
	for _, connection := range slices.Sorted(maps.Keys(d.some("c", 4, func() any { return nil }))) {
		slots := []run.ShownSlot{}
		for range d.n(6, "shown") {
			s := run.ShownSlot{BlockKey: fmt.Sprint("b", d.n(12, "block")), SlotKey: fmt.Sprint("s", d.n(12, "slot")), PortKey: "r", RunRef: "run_1"}
			if d.yes("has a result") {
				value, err := canon.Encode(d.value(0))
				must(err)
				s.Result = &run.ShownResult{ResultSummary: run.ResultSummary{ResultKey: "r", Type: "number", Unit: "m"}, Value: value}
			}
			slots = append(slots, s)
		}
		text, err := canon.Encode(slots)
		must(err)
		must(store.Put(ctx, space, text))
		shown[connection] = run.Projection{Connection: run.Connection{Project: costProject, ConnectionKey: connection}, Generation: int64(2 + d.n(2, "generation")),
			Intent: run.Intent{Kind: run.IntentBatch, Ref: "batch_1"}, Shown: &run.Shown{Generation: 2, State: run.State(d.of("state", "Succeeded", "Failed")), Slots: history.RefOf(text)}}
	}
	// Every other part is made by another process, which knows nothing of the first.
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	for range 2 {
		reader := snapshot.Reader{Objects: store, Store: store, Catalog: history.NewCatalog(store, history.NewCache(1<<20))}
		g.handles["flow"] = append(g.handles["flow"], pxflowdescribe.New(frame, reader, links(), nil, components.Catalog{}))
		g.handles["report"] = append(g.handles["report"], reportdescribe.New(frame, reader, links(), nil, connected.Results{Store: shown, Objects: store}))
	}
	return g
}

// A told is what is compared of an answer: data and diagnostics, without what is new
// in each.
func (g *generated) describe(ctx context.Context, kind string, process int, arguments object) (all object, refused outcome.Findings, size int) {
	text, err := canon.Encode(arguments)
	if err != nil {
		g.t.Fatal(err)
	}
	name := map[string]string{"flow": pxflowdescribe.Name, "report": reportdescribe.Name}[kind]
	answer, err := g.handles[kind][process%2](ctx, tool.Request{Version: tool.RequestVersion, RequestID: "r", Tool: name, Principal: costPrincipal, Arguments: text,
		Deadline: time.Now().Add(time.Minute), ByteShare: 2 << 20})
	if err != nil {
		g.t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	if !utf8.Valid(answer) || strings.ContainsRune(string(answer), utf8.RuneError) {
		g.t.Fatalf("a character is cut: %q", answer)
	}
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil {
		g.t.Fatal(err)
	}
	if !envelope.OK {
		return nil, envelope.Diagnostics, len(answer)
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		g.t.Fatal(err)
	}
	delete(all, "ok")
	delete(all, "resources") // the link to the whole document stands in every part of one
	for _, n := range all["diagnostics"].([]any) {
		delete(n.(object), "diagnosticId")
	}
	return all, nil, len(answer)
}

// Whatever a Flow or a Report is, alone or among several, and whatever one asks of
// the size of each part: the parts of its description are the whole, each thing once,
// no part is larger than asked, and who was told the first part is told all of them.
//
// covers: B1, B2, B3, D4
func TestThePartsOfAnyDescriptionJoinToTheWhole(t *testing.T) {
	cuts, refusals := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d, ctx := draw{t}, context.Background()
		g := generate(ctx, t)
		kind := d.of("kind", "flow", "report")
		arguments := object{"target": g.targets[kind][0]}
		if d.yes("several") {
			arguments = object{"targets": rapid.SliceOfN(rapid.SampledFrom(g.targets[kind]), 1, 5).Draw(t, "targets")}
		}
		want, refused, size := g.describe(ctx, kind, 0, arguments)
		if refused != nil {
			t.Fatalf("refused: %+v", refused)
		}
		if data := want["data"].(object); data["truncation"] != nil || data["at"] != nil {
			t.Fatalf("%d bytes are cut: %v", size, data["truncation"])
		}
		budgets := func(name string) object {
			out := object{}
			for _, b := range []struct {
				name string
				most int
			}{{"bytes", size + 100}, {"tokens", size/2 + 50}, {"items", 12}, {"tableRows", 3}, {"depth", 8}} {
				if d.yes(name + " " + b.name) {
					least := 1
					if d.n(3, "roomy") > 0 { // much of a description is in every part
						least = b.most / 2
					}
					out[b.name] = rapid.IntRange(least, b.most).Draw(t, b.name)
				}
			}
			return out
		}
		first := budgets("first")
		asked := first
		var joint any
		for n := 0; ; n++ {
			arguments["budget"] = asked
			part, refused, size := g.describe(ctx, kind, n, arguments)
			if refused != nil {
				if len(refused) != 1 || refused[0].Code != outcome.LimitExceeded || refused[0].Path != "/budget" {
					t.Fatalf("part %d is refused: %+v", n, refused)
				}
				if n == 0 {
					refusals++
					return
				}
				// Less may be asked of a part than of the first, and be too little; what
				// was enough for the first is enough for this one.
				if reflect.DeepEqual(asked, first) {
					t.Fatalf("part %d is refused though the first was told: %+v", n, refused)
				}
				asked, n = first, n-1
				continue
			}
			if most, has := asked["bytes"].(int); has && size > most {
				t.Fatalf("part %d has %d bytes of %d", n, size, most)
			}
			if most, has := asked["tokens"].(int); has && (size+1)/2 > most {
				t.Fatalf("part %d has %d tokens of %d", n, (size+1)/2, most)
			}
			data := part["data"].(object)
			told, cut := data["truncation"].(object)
			delete(data, "truncation")
			if n == 0 {
				joint = part
			} else {
				var steps []string
				if at, ok := data["at"].(string); ok {
					steps = strings.Split(at, "/")[1:]
					if steps[0] != "diagnostics" {
						steps = append([]string{"data"}, steps...)
					}
				}
				delete(data, "at")
				joint = joinPart(t, joint, part, steps)
			}
			if !cut {
				break
			}
			if cuts++; n > 5_000 {
				t.Fatal("no end of parts")
			}
			arguments["cursor"] = told["continuation"].(object)["value"]
			if asked = first; d.n(9, "another budget") == 0 {
				asked = budgets("another")
			}
		}
		if !reflect.DeepEqual(joint, any(want)) {
			a, _ := json.Marshal(joint, json.Deterministic(true))
			b, _ := json.Marshal(want, json.Deterministic(true))
			t.Fatalf("%v: the parts join to\n%s\nthe whole is\n%s", first, a, b)
		}
	})
	t.Logf("%d cuts, %d budgets were too small", cuts, refusals)
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}
