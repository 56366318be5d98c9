package tools_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/change"
	components "github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/project"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/run/calculation"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/store/memory"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
	pxflowrun "github.com/pxhost/pxhost/shared/tool/pxflow_run"
)

// A cost is what one call asks of the store.
type cost struct {
	requests                 int // one after the other, whatever they carry
	objectsRead, objectsMade int
	bytesRead, bytesMade     int
}

// counting is a store that counts what is asked of it. All that the tools below
// ask for is counted; the rest panics, since the embedded interface is nil.
type counting struct {
	history.Heads
	policy.Store
	store *memory.Store
	cost  cost
}

func (c *counting) Begin(ctx context.Context, p target.Project, principal, commandKey, planRef string) (change.Opening, error) {
	c.cost.requests++
	return c.store.Begin(ctx, p, principal, commandKey, planRef)
}

func (c *counting) Get(ctx context.Context, space history.Space, refs ...history.Ref) ([][]byte, error) {
	bodies, err := c.store.Get(ctx, space, refs...)
	c.cost.requests++
	c.cost.objectsRead += len(refs)
	for _, b := range bodies {
		c.cost.bytesRead += len(b)
	}
	return bodies, err
}

func (c *counting) Put(ctx context.Context, space history.Space, bodies ...[]byte) error {
	c.cost.requests++
	c.cost.objectsMade += len(bodies)
	for _, b := range bodies {
		c.cost.bytesMade += len(b)
	}
	return c.store.Put(ctx, space, bodies...)
}

func (c *counting) CreatePlan(ctx context.Context, row change.PlanRow) error {
	c.cost.requests++
	return c.store.CreatePlan(ctx, row)
}

func (c *counting) Plan(ctx context.Context, space history.Space, planRef string) (change.PlanRow, error) {
	c.cost.requests++
	return c.store.Plan(ctx, space, planRef)
}

func (c *counting) Command(ctx context.Context, space history.Space, key string) (change.CommandRow, error) {
	c.cost.requests++
	return c.store.Command(ctx, space, key)
}

func (c *counting) Commit(ctx context.Context, commitment change.Commitment) error {
	c.cost.requests++
	return c.store.Commit(ctx, commitment)
}

// starting counts what pxflow_run asks of the store of Runs.
type starting struct {
	run.Store
	*counting
}

func (s starting) Begin(ctx context.Context, p target.Project, principal, commandKey, planRef string) (change.Opening, error) {
	return s.counting.Begin(ctx, p, principal, commandKey, planRef)
}

func (s starting) CreatePlan(ctx context.Context, row change.PlanRow) error {
	return s.counting.CreatePlan(ctx, row)
}

func (s starting) Create(ctx context.Context, start run.Start) error {
	s.counting.cost.requests++
	return s.store.Create(ctx, start)
}

type executions struct{ run.Executions }

func (executions) Start(context.Context, target.Project, string) error { return nil }

var costProject = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// installation is a Project of so many Flows.
type installation struct {
	t       *testing.T
	store   *memory.Store
	count   *counting
	flow    map[string]any // the target of the Flow that the calls are about
	made    int64          // its generation
	n       int
	handles map[string]tool.Handler // of processes that go on running
}

var costPrincipal = tool.Principal{Issuer: "https://issuer.test", Subject: "engineer", Scopes: []string{"px.tools"}}

func install(t *testing.T, flows int) *installation {
	ctx := t.Context()
	i := &installation{t: t, store: memory.New(time.Now)}
	i.count = &counting{store: i.store}
	admin := project.New(i.store, nil, time.Now)
	space := history.Space(costProject.String())
	for _, err := range []error{
		admin.Create(ctx, costProject, nil, ""),
		admin.SetPolicy(ctx, costProject, sample.Rules),
		admin.SetGrant(ctx, costProject, costPrincipal.String(), []policy.Right{policy.Read, policy.Edit, policy.Run}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	doc, findings := flow.Decode(sample.GirderCheck)
	if findings.Refused() {
		t.Fatal(findings)
	}
	text := search.Normalize(flow.SearchText(doc)...)
	var changes []history.Change
	for k := range flows {
		doc.FlowKey = fmt.Sprintf("girder_%06d", k)
		ref := history.RefOf([]byte(doc.FlowKey)) // nobody reads these documents
		if k == flows/3 {
			document, revision, err := doc.RevisionRef()
			if err == nil {
				err = i.store.Put(ctx, space, document)
			}
			if err != nil {
				t.Fatal(err)
			}
			ref = history.Ref(revision)
			i.flow = map[string]any{"scope": costProject.Scope(), "flowKey": doc.FlowKey, "revisionRef": revision}
		}
		key := history.Key("flow", doc.FlowKey)
		changes = append(changes,
			history.Change{Key: key, Text: &text, Entry: &history.Entry{RevisionRef: ref, Label: doc.Label, Uses: flow.Uses(doc)}},
			history.Change{Key: history.RevisionKey(key, ref), Entry: &history.Entry{RevisionRef: ref}})
	}
	root, err := history.NewCatalog(i.store, nil).Apply(ctx, space, "", changes)
	if err != nil {
		t.Fatal(err)
	}
	row := change.PlanRow{PlanRef: "load", Space: space, State: change.PlanOpen, ExpiresAt: time.Now().Add(time.Hour)}
	grant, err := i.store.Grant(ctx, costProject, costPrincipal.String())
	if err == nil {
		err = i.store.CreatePlan(ctx, row)
	}
	if err == nil {
		rules, _ := i.store.Policy(ctx, costProject)
		err = i.store.Commit(ctx, change.Commitment{Space: space, Next: history.Head{Commit: root, Root: root, Version: 1}, PlanRef: row.PlanRef, Now: time.Now(),
			Command: change.CommandRow{Key: "load", PlanRef: row.PlanRef, Answer: root}, Principal: costPrincipal.String(), GrantVersion: grant.Version, PolicyVersion: rules.Version})
	}
	if err != nil {
		t.Fatal(err)
	}
	i.restart()
	return i
}

// links makes links as review_api opens them.
func links() resource.Links {
	return resource.Links{Sealer: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Life: time.Hour, Now: time.Now}
}

// restart replaces every process by a new one, which has read nothing yet.
func (i *installation) restart() {
	catalog := func() history.Catalog { return history.NewCatalog(i.count, history.NewCache(64<<20)) }
	reader := func() snapshot.Reader { return snapshot.Reader{Objects: i.count, Store: i.count, Catalog: catalog()} }
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	ref := func(prefix string) string { i.n++; return fmt.Sprintf("%s%026d", prefix, i.n) }
	i.handles = map[string]tool.Handler{
		"pxflow_describe":    pxflowdescribe.New(frame, reader(), links(), nil, components.Catalog{}),
		"pxflow_plan_change": pxflowplanchange.New(frame, reader(), &change.Planner{Objects: i.count, Store: i.count, Now: time.Now, NewRef: ref}, nil, nil, components.Catalog{}),
		"pxflow_apply_change": pxflowapplychange.New(frame, &change.Applier{Objects: i.count, Store: i.count, Policy: i.count, Catalog: catalog(), Now: time.Now,
			Recheck: pxflowapplychange.Recheck(reader(), nil)}),
		"pxflow_run": pxflowrun.New(frame, &run.Runs{Objects: i.count, Catalog: catalog(), Policy: i.count, Store: starting{counting: i.count}, Executions: executions{},
			Open: calculation.Opener(i.count), Now: time.Now, NewRef: ref}, nil),
	}
}

// call calls a tool and returns what it cost and answered.
func (i *installation) call(name string, arguments map[string]any, into any) (cost, string) {
	i.t.Helper()
	text, err := canon.Encode(arguments)
	if err != nil {
		i.t.Fatal(err)
	}
	i.count.cost = cost{}
	answer, err := i.handles[name](i.t.Context(), tool.Request{Version: tool.RequestVersion, RequestID: "r", Tool: name, Principal: costPrincipal, Arguments: text,
		Deadline: time.Now().Add(time.Minute), ByteShare: 2 << 20})
	if err != nil {
		i.t.Fatal(err)
	}
	spent := i.count.cost
	var envelope outcome.Envelope
	if err := json.Unmarshal(answer, &envelope); err != nil || !envelope.OK {
		i.t.Fatalf("%s: %s %v", name, answer, err)
	}
	if into != nil {
		if err := json.Unmarshal(envelope.Data, into); err != nil {
			i.t.Fatal(err)
		}
	}
	return spent, string(envelope.Data)
}

type planned struct {
	PlanRef    string `json:"planRef"`
	PlanDigest string `json:"planDigest"`
}

// plan plans a change of the Flow that was not planned before.
func (i *installation) plan() (c cost, p planned) {
	i.t.Helper()
	i.n++
	c, _ = i.call("pxflow_plan_change", map[string]any{"target": i.flow, "expectedGeneration": i.made, "commands": []any{map[string]any{
		"kind": "SetNodeSetting", "nodeKey": "truck_weight", "settingKey": "results",
		"value": map[string]any{"w": map[string]any{"expression": fmt.Sprintf("front + middle + rear * %09d", i.n), "unit": "kip", "quantityKind": "force"}}}}}, &p)
	return c, p
}

// round calls describe, plan, apply and run of the Flow, in this order.
func (i *installation) round() map[string]cost {
	i.t.Helper()
	out := map[string]cost{}
	out["describe"], _ = i.call("pxflow_describe", map[string]any{"target": i.flow}, nil)
	var plan planned
	out["plan"], plan = i.plan()
	var applied struct {
		NewRevisionRef string `json:"newRevisionRef"`
	}
	out["apply"], _ = i.call("pxflow_apply_change", map[string]any{"target": i.flow, "expectedGeneration": i.made, "planRef": plan.PlanRef, "planDigest": plan.PlanDigest,
		"commandId": plan.PlanRef}, &applied)
	i.flow["revisionRef"] = applied.NewRevisionRef
	i.made++
	number := func(value float64, unit string) any { return map[string]any{"value": value, "unit": unit} }
	out["run"], _ = i.call("pxflow_run", map[string]any{"kind": "RunFlow", "target": i.flow, "commandId": plan.PlanRef, "inputs": map[string]any{
		"span": number(60, "ft"), "dead_load": number(1.2, "kip/ft"), "impact": number(0.3, "1"), "section_modulus": number(1500, "in^3"), "yield_stress": number(50, "ksi")}}, nil)
	return out
}

// What a call costs does not grow with the Project, counted in what it asks of the
// store. Requests stand one after the other: they are what a caller waits for.
func TestACallCostsTheSameInAProjectOf20000Flows(t *testing.T) {
	small, large := install(t, 100), install(t, 20_000)
	// What each verb costs at least, once its process knows the catalog: what it
	// begins with, and then
	least := map[string]cost{
		"describe": {requests: 1},
		"plan":     {requests: 4, objectsRead: 1, objectsMade: 2}, // the document; body and new document; the row
		"apply":    {requests: 5, objectsRead: 2},                 // body, new document; what is new; the transaction
		"run":      {requests: 4, objectsRead: 1, objectsMade: 2}, // the document; inputs and answer; the transaction
	}
	for _, c := range []struct {
		name string
		// more than that: the root and the levels of a tree, and for apply, whose
		// search text a new process has not seen, those of both trees
		requests, objects int
		before            func(*installation)
	}{
		{"new processes", 7, 7, (*installation).restart},
		// Of the new snapshot they know what it shares with the old one.
		{"processes that have seen the snapshot before", 5, 6, func(i *installation) { i.round() }},
	} {
		c.before(small)
		c.before(large)
		of100, of20000 := small.round(), large.round()
		for verb, least := range least {
			a, z := of100[verb], of20000[verb]
			t.Logf("%s, %s: %+v, of 20,000 %+v", c.name, verb, a, z)
			// The larger tree has one level more.
			if z.requests > a.requests+2 || z.objectsRead > a.objectsRead+3 || z.objectsMade > a.objectsMade+2 {
				t.Errorf("%s, %s: grows from %+v to %+v", c.name, verb, a, z)
			}
			if z.requests > least.requests+c.requests || z.objectsRead > least.objectsRead+c.objects {
				t.Errorf("%s, %s: %+v is more than the levels of a tree over %+v", c.name, verb, z, least)
			}
			// Nodes have some 16 KB, and those over search texts, of which the first
			// round here changes one, some 64 KB.
			if z.bytesRead > a.bytesRead+128<<10 || z.bytesMade > a.bytesMade+128<<10 {
				t.Errorf("%s, %s: grows from %+v to %+v", c.name, verb, a, z)
			}
		}
	}
	for _, i := range []*installation{small, large} {
		first, answer := i.call("pxflow_describe", map[string]any{"target": i.flow}, nil)
		again, same := i.call("pxflow_describe", map[string]any{"target": i.flow}, nil)
		if again != least["describe"] || same != answer {
			t.Errorf("a second description costs %+v after %+v, and is %s after %s", again, first, same, answer)
		}
		for range 2 { // the first makes its process know the snapshot
			again, _ = i.plan()
		}
		again.bytesRead, again.bytesMade = 0, 0
		if again != least["plan"] {
			t.Errorf("a second plan costs %+v", again)
		}
	}
}
