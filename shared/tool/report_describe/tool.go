// Package reportdescribe is the tool report_describe: what one or several exact
// Report revisions or drafts are, and what the principal may do with them.
package reportdescribe

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/run/connected"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "report_describe"

// Input of the tool.
type Input = authored.DescribeInput[target.ReportDocument]

// Output of the tool: the description of one target, or items of several.
type Output struct {
	*Report
	Items []Report `json:"items,omitzero" schema:"each.bare" desc:"One a target, in request order, with the members above."`
}

// A Report is the description of one revision (D1).
type Report struct {
	authored.Position[target.ReportDocument]
	report.Description
	Policy     PolicySummary        `json:"policy"`
	Operations []authored.Operation `json:"operations" desc:"What this principal may do next."`
}

// A PolicySummary is what the Project's policy asks of changes and Runs.
type PolicySummary struct {
	ChangeNeedsApproval bool `json:"changeNeedsApproval"`
	// Runs are by connectionKey, of connections whose Flow is there.
	Runs map[string]RunPolicy `json:"runs"`
	// Batches are the rules for batches, which depend on how much one costs.
	Batches []policy.Rule `json:"batches" schema:"each.bare" desc:"The first rule that fits decides; none: no approval."`
}

// A RunPolicy is what the policy asks of one Run of a connection.
type RunPolicy struct {
	NeedsApproval bool  `json:"needsApproval"`
	Cost          int64 `json:"cost" desc:"Node evaluations plus sandbox seconds."`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Describe exact Report revisions: blocks with texts and authored values, result slots and what they show, connections to Flows with the contracts at both ends and what is " +
		"missing, dependencies, policy and what you may do next; findings are the diagnostics. Use it before planning or running; of any revision it tells the head.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		// A Report is one item; what is in it is bounded by tokens (B1).
		{Path: "/blocks"}, {Path: "/blockOrder"}, {Path: "/connections"}, {Path: "/slots"}, {Path: "/dependencies"}, {Path: "/policy/runs"},
		{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/blocks"}, {Path: "/items/*/blockOrder"}, {Path: "/items/*/connections"}, {Path: "/items/*/slots"},
		{Path: "/items/*/dependencies"}, {Path: "/items/*/policy/runs"},
	},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, links authored.Links, drafts authored.Drafts, results connected.Results) tool.Handler {
	d := describing{reader, links, drafts, pinned.New(), history.NewCache(knownBytes), results}
	return Definition.Handler(frame, d.handle)
}

type describing struct {
	reader snapshot.Reader
	links  authored.Links
	drafts authored.Drafts
	flows  pinned.Flows
	known  *history.Cache // of *known
	// results are read with each call: they change without the document.
	results connected.Results
}

// knownBytes is how much of what was worked out a process keeps.
const knownBytes = 32 << 20

// A known is all that there is to say of a revision without looking at anything
// but the Flows that it is pinned to, which never change either.
type known struct {
	description report.Description
	findings    outcome.Findings
	costs       map[string]int64 // by connectionKey
	bases       map[report.ReportResultSlot]string
}

// learn works out what the process does not know of these revisions. The Flows of
// all of them are asked for together.
func (d describing) learn(ctx context.Context, s snapshot.Snapshot, found []authored.Located) ([]*known, error) {
	return authored.Learn(ctx, s, d.known, found, func(documents [][]byte) (out []*known, keep []bool, err error) {
		docs := make([]report.Document, len(documents))
		pins := map[target.Flow]bool{}
		var all []target.Flow
		for i, text := range documents {
			var findings outcome.Findings
			if docs[i], findings = report.Decode(text); findings.Refused() {
				return nil, nil, errors.New("report_describe: a saved document cannot be read")
			}
			for _, c := range docs[i].Connections {
				if !pins[c.FlowTarget] {
					pins[c.FlowTarget] = true
					all = append(all, c.FlowTarget)
				}
			}
		}
		boundaries, err := d.flows.In(s).Boundaries(ctx, all)
		if err != nil {
			return nil, nil, err
		}
		for _, doc := range docs {
			analysis, findings, err := report.Validate(ctx, doc, report.Known(boundaries))
			if err != nil {
				return nil, nil, err
			}
			bases, err := connected.Bases(doc)
			if err != nil {
				return nil, nil, err
			}
			k := &known{report.Describe(doc, analysis), findings, map[string]int64{}, bases}
			complete := true // what is not there may still come
			for key, c := range doc.Connections {
				if b, ok := boundaries[c.FlowTarget]; ok {
					k.costs[key] = b.Cost
				} else {
					complete = false
				}
			}
			out, keep = append(out, k), append(keep, complete)
		}
		return out, keep, nil
	})
}

func (d describing) handle(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
	asked, findings, err := authored.Locate(ctx, d.reader, d.drafts, call)
	if findings != nil || err != nil {
		return tool.Refuse[Output](findings), err
	}
	learned, err := d.learn(ctx, asked.Snapshot, asked.Found)
	if err != nil {
		return tool.Answer[Output]{}, err
	}
	shown, err := d.show(ctx, asked.Snapshot.Project, asked.Found, learned)
	if err != nil {
		return tool.Answer[Output]{}, err
	}
	answer := tool.Answer[Output]{Pin: asked.Snapshot.Pin(), Whole: asked.Whole(d.links, call.Principal.String())}
	reports := make([]Report, len(asked.Targets))
	for i := range asked.Targets {
		reports[i] = describe(asked, i, learned[i], shown[i])
		answer.Found = append(answer.Found, asked.Findings(i, learned[i].findings)...)
	}
	if asked.One {
		answer.Data.Report = &reports[0]
	} else {
		answer.Data.Items = reports
	}
	return answer, nil
}

// show adds what the slots show, of all Reports side by side.
//
// What slots show, which generation a connection has, and the policy are of no
// snapshot: a continued call reads them again. Where any has moved on since the part
// before, the data are other data, whose fingerprint is not the cursor's, and the
// frame refuses PX_CURSOR_INVALID: parts never mix two states of a Report's results.
//
// A draft shows nothing, whatever a saved Report of its key shows: its slots are Empty.
func (d describing) show(ctx context.Context, project target.Project, found []authored.Located, learned []*known) ([]report.Description, error) {
	out, errs := make([]report.Description, len(found)), make([]error, len(found))
	var wait sync.WaitGroup
	for i, f := range found {
		if f.Draft {
			out[i] = learned[i].description
			out[i].Slots = slices.Clone(out[i].Slots)
			for k := range out[i].Slots {
				out[i].Slots[k].State = report.Empty
			}
			continue
		}
		wait.Go(func() {
			out[i], errs[i] = d.results.Describe(ctx, project, f.Key, learned[i].description, learned[i].bases)
		})
	}
	wait.Wait()
	return out, errors.Join(errs...)
}

func describe(asked authored.Revisions[target.ReportDocument], i int, learned *known, shown report.Description) Report {
	s := asked.Snapshot
	r := Report{
		Position: asked.Position(i), Description: shown,
		Policy: PolicySummary{Runs: map[string]RunPolicy{}, Batches: []policy.Rule{}},
		Operations: []authored.Operation{
			asked.Operation(i, "report_plan_change", policy.Edit, authored.Head),
			asked.Operation(i, "report_apply_change", policy.Edit, authored.Head),
			// A start needs the head; what was started before may be repeated and
			// cancelled from any revision.
			asked.Operation(i, "pxflow_run", policy.Run, authored.Head, connected.Kind, "RunReportFlowBatch"),
			asked.Operation(i, "pxflow_run", policy.Run, authored.Any, "RetryBatchCase"),
			asked.Operation(i, "run_cancel", policy.Run, authored.Any),
		},
	}
	if asked.Found[i].Draft {
		r.Operations = []authored.Operation{
			asked.Operation(i, "report_plan_change", policy.Edit, authored.FreeKey, "CreateReport"),
			asked.Operation(i, "report_apply_change", policy.Edit, authored.FreeKey, "CreateReport"),
			asked.Operation(i, "pxflow_run", policy.Run, authored.Saved, connected.Kind, "RunReportFlowBatch"),
		}
	}
	var together int64
	for key, cost := range learned.costs {
		r.Policy.Runs[key] = RunPolicy{s.Policy.Judge(policy.OnRun, []string{connected.Kind}, cost).Required, cost}
		together += cost
	}
	r.Policy.ChangeNeedsApproval = s.Policy.Judge(policy.OnReport, nil, together).Required
	for _, rule := range s.Policy.Rules {
		if rule.On == policy.OnBatch {
			r.Policy.Batches = append(r.Policy.Batches, rule)
		}
	}
	return r
}
