package tools_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/sample"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/search"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
	reportapplychange "github.com/pxhost/pxhost/shared/tool/report_apply_change"
	reportdescribe "github.com/pxhost/pxhost/shared/tool/report_describe"
	reportplanchange "github.com/pxhost/pxhost/shared/tool/report_plan_change"
)

// withReports starts new processes of the tools of Reports.
func (i *installation) withReports(results reportplanchange.Results) {
	frame := tool.Frame{Cursors: cursor.New(cursor.NewStatic(), time.Hour, time.Now), Log: slog.New(slog.DiscardHandler)}
	reader := func() snapshot.Reader {
		return snapshot.Reader{Objects: i.count, Store: i.count, Catalog: history.NewCatalog(i.count, history.NewCache(64<<20))}
	}
	ref := func(prefix string) string { i.n++; return fmt.Sprintf("%s%026d", prefix, i.n) }
	planner := &change.Planner{Objects: i.count, Store: i.count, Now: time.Now, NewRef: ref}
	i.handles["report_describe"] = reportdescribe.New(frame, reader(), links(), nil, connected.Results{Store: i.count.store, Objects: i.count})
	i.handles["report_plan_change"] = reportplanchange.New(frame, reader(), planner, nil, results)
	applying := reader()
	i.handles["report_apply_change"] = reportapplychange.New(frame, &change.Applier{Objects: i.count, Store: i.count, Policy: i.count, Catalog: applying.Catalog, Now: time.Now,
		Recheck: reportapplychange.Recheck(applying)})
}

// flowTarget is the installation's own Flow.
func (i *installation) flowTarget() target.Flow {
	return target.Flow{Scope: costProject.Scope(), FlowKey: i.flow["flowKey"].(string), RevisionRef: i.flow["revisionRef"].(string)}
}

// connected is the sample Report, connected to the installation's Flow.
func (i *installation) connected(key string) report.Document {
	i.t.Helper()
	doc, findings := report.Decode(sample.GirderReview)
	if findings.Refused() {
		i.t.Fatal(findings)
	}
	doc.ReportKey = key
	doc, _, findings = report.Apply(&doc, sample.ConnectGirderReview(i.flowTarget()))
	if findings.Refused() {
		i.t.Fatal(findings)
	}
	return doc
}

// save saves a Report through the tools and returns its target.
func (i *installation) save(doc report.Document) map[string]any {
	i.t.Helper()
	_, ref, err := doc.RevisionRef()
	if err != nil {
		i.t.Fatal(err)
	}
	at := map[string]any{"scope": costProject.Scope(), "reportKey": doc.ReportKey, "revisionRef": ref}
	var p planned
	i.call("report_plan_change", map[string]any{"target": at, "expectedGeneration": 0, "commands": []any{report.CreateReport{Document: doc}}}, &p)
	i.call("report_apply_change", map[string]any{"target": at, "expectedGeneration": 0, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": p.PlanRef}, nil)
	return at
}

// What a call about a Report costs does not grow with the Project, and a process
// that knows the Flow does not read it again.
func TestACallAboutAReportCostsTheSameInAProjectOf20000Flows(t *testing.T) {
	costs := map[int]map[string]cost{}
	for _, size := range []int{100, 20_000} {
		i := install(t, size)
		i.withReports(nil)
		at := i.save(i.connected("girder_review"))
		generation := int64(0)
		round := func() map[string]cost {
			out := map[string]cost{}
			out["describe"], _ = i.call("report_describe", map[string]any{"target": at}, nil)
			var p planned
			out["plan"], _ = i.call("report_plan_change", map[string]any{"target": at, "expectedGeneration": generation, "commands": []any{map[string]any{
				"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": map[string]any{"value": 80 + i.n, "unit": "ft"}}}}, &p)
			var applied struct {
				NewRevisionRef string `json:"newRevisionRef"`
			}
			out["apply"], _ = i.call("report_apply_change", map[string]any{"target": at, "expectedGeneration": generation, "planRef": p.PlanRef, "planDigest": p.PlanDigest,
				"commandId": p.PlanRef}, &applied)
			at["revisionRef"] = applied.NewRevisionRef
			generation++
			return out
		}
		i.withReports(nil)
		costs[size] = round() // of new processes
		if size == 20_000 {
			// Of a Report that every process has seen: what it begins with, its new
			// document, the new nodes.
			for verb, spent := range round() {
				if spent.objectsRead > 6 || spent.objectsMade > 12 {
					t.Errorf("%s by a process that knows the Flow: %+v", verb, spent)
				}
			}
		}
	}
	for verb, z := range costs[20_000] {
		a := costs[100][verb]
		t.Logf("%s: %+v, of 20,000 %+v", verb, a, z)
		// Each of the two trees has a level more, and apply walks both.
		if z.requests > a.requests+3 || z.objectsRead > a.objectsRead+4 || z.objectsMade > a.objectsMade+2 || z.objectsRead > 12 || z.objectsMade > 12 {
			t.Errorf("%s: grows from %+v to %+v", verb, a, z)
		}
	}
}

// However many Reports use a Flow, a plan reads none of them while no port changes,
// and no more than it says when one does.
//
// covers: F3
func TestAPlanLooksIntoABoundedNumberOfReports(t *testing.T) {
	const reports = pxflowplanchange.MaxExamined + 20
	i := install(t, 50)
	doc := i.connected("girder_review")
	// Each has a document of its own, and is in the catalog without a plan of its own.
	ctx, space := t.Context(), history.Space(costProject.String())
	var changes []history.Change
	text := search.Normalize("review")
	for k := range reports {
		doc.ReportKey = fmt.Sprintf("review_%04d", k)
		body, ref, err := doc.RevisionRef()
		if err == nil {
			err = i.store.Put(ctx, space, body)
		}
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, history.Change{Key: history.Key("report", doc.ReportKey), Text: &text, Entry: &history.Entry{RevisionRef: history.Ref(ref), Uses: report.Uses(doc)}})
	}
	i.commit(changes)
	i.restart()
	type impact struct {
		Impact struct {
			Uses    []any `json:"uses"`
			Reports struct {
				Using    int `json:"using"`
				Examined int `json:"examined"`
				Mappings []struct {
					Target string `json:"target"`
				} `json:"mappings"`
			} `json:"reports"`
		} `json:"impact"`
	}
	plan := func(commands ...any) (cost, impact) {
		t.Helper()
		var p impact
		arguments := map[string]any{"target": i.flow, "expectedGeneration": 0, "commands": commands}
		c, _ := i.call("pxflow_plan_change", arguments, &p)
		return c, p
	}
	c, p := plan(map[string]any{"kind": "SetFlowLabel", "label": map[string]any{"en": "x"}})
	if c.objectsRead > 20 || p.Impact.Reports.Using != reports || p.Impact.Reports.Examined != 0 {
		t.Errorf("a label: %+v, %+v", c, p.Impact.Reports)
	}
	c, p = plan(map[string]any{"kind": "ChangeResultPort", "portKey": "utilization", "contract": map[string]any{"type": "number", "unit": "1", "nullable": true}})
	if c.objectsRead > pxflowplanchange.MaxExamined+20 || p.Impact.Reports.Using != reports || p.Impact.Reports.Examined != pxflowplanchange.MaxExamined {
		t.Errorf("a port: %+v, %d of %d", c, p.Impact.Reports.Examined, p.Impact.Reports.Using)
	}
}

// commit moves the head of the Project to a catalog with these changes.
func (i *installation) commit(changes []history.Change) {
	i.t.Helper()
	ctx, space := i.t.Context(), history.Space(costProject.String())
	head, err := i.store.Head(ctx, space)
	if err != nil {
		i.t.Fatal(err)
	}
	root, err := history.NewCatalog(i.store, nil).Apply(ctx, space, head.Root, changes)
	if err != nil {
		i.t.Fatal(err)
	}
	i.n++
	row := change.PlanRow{PlanRef: fmt.Sprint("load_", i.n), Space: space, State: change.PlanOpen, ExpiresAt: time.Now().Add(time.Hour)}
	grant, err := i.store.Grant(ctx, costProject, costPrincipal.String())
	if err == nil {
		err = i.store.CreatePlan(ctx, row)
	}
	if err == nil {
		rules, _ := i.store.Policy(ctx, costProject)
		err = i.store.Commit(ctx, change.Commitment{Space: space, Read: head, Next: history.Head{Commit: root, Root: root, Version: head.Version + 1}, PlanRef: row.PlanRef, Now: time.Now(),
			Command:   change.CommandRow{Key: row.PlanRef, PlanRef: row.PlanRef, Answer: root},
			Principal: costPrincipal.String(), GrantVersion: grant.Version, PolicyVersion: rules.Version})
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

type onlyStress struct{}

func (onlyStress) Current(_ context.Context, _ snapshot.Snapshot, doc report.Document) (map[report.ReportResultSlot]bool, error) {
	if doc.ReportKey != "girder_review" {
		return nil, fmt.Errorf("asked about %s", doc.ReportKey)
	}
	return map[report.ReportResultSlot]bool{{BlockKey: "check_summary", SlotKey: "stress"}: true}, nil
}

// covers: R2
func TestAPlanTellsWhichResultsTurnStale(t *testing.T) {
	i := install(t, 10)
	for _, c := range []struct {
		results reportplanchange.Results
		want    []string
	}{
		{onlyStress{}, []string{"live_moment false", "stress true", "total_moment false", "utilization false"}},
		{nil, []string{"live_moment unknown", "stress unknown", "total_moment unknown", "utilization unknown"}},
	} {
		i.withReports(c.results)
		var at map[string]any
		if c.results != nil {
			at = i.save(i.connected("girder_review"))
		} else {
			doc := i.connected("girder_review")
			_, ref, err := doc.RevisionRef()
			if err != nil {
				t.Fatal(err)
			}
			at = map[string]any{"scope": costProject.Scope(), "reportKey": "girder_review", "revisionRef": ref}
		}
		var p struct {
			Impact struct {
				Stale []report.StaleSlot `json:"stale"`
			} `json:"impact"`
		}
		i.call("report_plan_change", map[string]any{"target": at, "expectedGeneration": 0, "commands": []any{map[string]any{
			"kind": "SetFieldValue", "blockKey": "design_basis", "fieldKey": "span", "value": map[string]any{"value": 100, "unit": "ft"}}}}, &p)
		var got []string
		for _, s := range p.Impact.Stale {
			is := "unknown"
			if s.Current != nil {
				is = fmt.Sprint(*s.Current)
			}
			got = append(got, s.SlotKey+" "+is)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("stale are %q, want %q", got, c.want)
		}
	}
}
