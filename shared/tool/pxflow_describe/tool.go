// Package pxflowdescribe is the tool pxflow_describe: what one or several exact
// Flow revisions or drafts are, and what the principal may do with them.
package pxflowdescribe

import (
	"context"
	"errors"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/component/planned"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/policy"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool.
const Name = "pxflow_describe"

// Input of the tool.
type Input = authored.DescribeInput[target.FlowDocument]

// Output of the tool: the description of one target, or items of several.
type Output struct {
	*Flow
	Items []Flow `json:"items,omitzero" schema:"each.bare" desc:"One a target, in request order, with the members above."`
}

// A Flow is the description of one revision (D1).
type Flow struct {
	authored.Position[target.FlowDocument]
	flow.Description
	UsedBy     []string             `json:"usedBy" desc:"As report/girder_review."`
	Policy     PolicySummary        `json:"policy"`
	Operations []authored.Operation `json:"operations" desc:"What this principal may do next."`
}

// A PolicySummary is what the Project's policy asks of changes and Runs.
type PolicySummary struct {
	ChangeNeedsApproval bool  `json:"changeNeedsApproval"`
	RunNeedsApproval    bool  `json:"runNeedsApproval"`
	RunCost             int64 `json:"runCost" desc:"Of one Run: Node evaluations plus sandbox seconds."`
}

// Definition of the tool.
var Definition = tool.Define[Input, Output](tool.Spec{
	Name: Name,
	Description: "Describe exact Flow revisions: public inputs and results with units, Nodes with settings and bindings, dependencies, users, policy and what " +
		"you may do next; findings are the diagnostics. Use it before planning or running; of any revision it tells the head.",
	Annotations: tool.Reads,
	Places: []budget.Place{
		// A Flow is one item; what is in it is bounded by tokens. Otherwise 25
		// ordinary Flows would not fit one answer (B1).
		{Path: "/nodes"}, {Path: "/inputs"}, {Path: "/results"}, {Path: "/usedBy", Counts: budget.AsItems},
		{Path: "/items", Counts: budget.AsItems}, {Path: "/items/*/nodes"}, {Path: "/items/*/inputs"},
		{Path: "/items/*/results"}, {Path: "/items/*/usedBy", Counts: budget.AsItems},
	},
})

// New returns the tool.
func New(frame tool.Frame, reader snapshot.Reader, links authored.Links, drafts authored.Drafts, catalog planned.Catalog) tool.Handler {
	d := describing{reader, links, drafts, saved.New().Telling(catalog), history.NewCache(knownBytes)}
	return Definition.Handler(frame, d.handle)
}

type describing struct {
	reader    snapshot.Reader
	links     authored.Links
	drafts    authored.Drafts
	functions saved.Functions
	known     *history.Cache // of *known
}

// knownBytes is how much of what was worked out a process keeps.
const knownBytes = 32 << 20

// A known is all that there is to say of a revision without looking at anything but
// the Functions that it names, which never change either. It follows from these and
// this program: a process works it out once.
type known struct {
	description flow.Description
	findings    outcome.Findings
	cost        int64 // of one Run
}

// learn works out what the process does not know of these revisions. The Functions of
// all of them are asked for together.
func (d describing) learn(ctx context.Context, s snapshot.Snapshot, revisions []authored.Located) ([]*known, error) {
	return authored.Learn(ctx, s, d.known, revisions, func(documents [][]byte) (out []*known, keep []bool, err error) {
		docs := make([]flow.Document, len(documents))
		var refs []flow.FunctionTarget
		for i, text := range documents {
			var findings outcome.Findings
			if docs[i], findings = flow.Decode(text); findings.Refused() {
				return nil, nil, errors.New("pxflow_describe: a saved document cannot be read")
			}
			refs = append(refs, flow.Functions(docs[i])...)
		}
		within := d.functions.In(s)
		found, err := within.Functions(ctx, refs)
		if err != nil {
			return nil, nil, err
		}
		for _, doc := range docs {
			analysis, findings, err := flow.Validate(ctx, doc, explained{found, within, within})
			if err != nil {
				return nil, nil, err
			}
			complete := true // what is not there may still come
			for _, r := range flow.Functions(doc) {
				_, there := found[r]
				complete = complete && there && !r.Owned() // a package may go
			}
			out, keep = append(out, &known{flow.Describe(doc, analysis), findings, flow.Cost(doc)}), append(keep, complete)
		}
		return out, keep, nil
	})
}

// explained are Functions that were found, with who tells of the others.
type explained struct {
	flow.Known
	flow.Explainer
	flow.ComponentExplainer
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
	answer := tool.Answer[Output]{Pin: asked.Snapshot.Pin(), Whole: asked.Whole(d.links, call.Principal.String())}
	if asked.One && learned[0].description.Authoring.Kind == flow.SDK && !asked.Found[0].Draft {
		answer.Beside = asked.Source(d.links, call.Principal.String(), history.Ref(learned[0].description.Authoring.SourceDigest))
	}
	flows := make([]Flow, len(asked.Targets))
	for i := range asked.Targets {
		if err := describe(ctx, asked, i, learned[i], &flows[i]); err != nil {
			return tool.Answer[Output]{}, err
		}
		answer.Found = append(answer.Found, asked.Findings(i, learned[i].findings)...)
	}
	if asked.One {
		answer.Data.Flow = &flows[0]
	} else {
		answer.Data.Items = flows
	}
	return answer, nil
}

func describe(ctx context.Context, asked authored.Revisions[target.FlowDocument], i int, learned *known, into *Flow) error {
	cost, s := learned.cost, asked.Snapshot
	*into = Flow{
		Position: asked.Position(i), Description: learned.description, UsedBy: []string{},
		Policy: PolicySummary{ChangeNeedsApproval: s.Policy.Judge(policy.OnFlow, nil, cost).Required,
			RunNeedsApproval: s.Policy.Judge(policy.OnRun, []string{"RunFlow"}, cost).Required, RunCost: cost},
		Operations: []authored.Operation{
			asked.Operation(i, "pxflow_validate", policy.Read, authored.Any),
			asked.Operation(i, "pxflow_plan_change", policy.Edit, authored.Head),
			asked.Operation(i, "pxflow_apply_change", policy.Edit, authored.Head),
			asked.Operation(i, "pxflow_run", policy.Run, authored.Saved, "RunFlow"),
		},
	}
	if asked.Found[i].Draft {
		into.Operations[1] = asked.Operation(i, "pxflow_plan_change", policy.Edit, authored.FreeKey, "CreateFlow")
		into.Operations[2] = asked.Operation(i, "pxflow_apply_change", policy.Edit, authored.FreeKey, "CreateFlow")
		return nil // nothing uses what was never saved
	}
	for user, err := range s.Catalog.Users(ctx, s.Space, s.Root, history.Key("flow", asked.Found[i].Key)) {
		if err != nil {
			return err
		}
		into.UsedBy = append(into.UsedBy, user)
	}
	return nil
}
