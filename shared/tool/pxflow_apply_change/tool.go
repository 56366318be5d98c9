// Package pxflowapplychange is the tool pxflow_apply_change: it applies a plan of
// pxflow_plan_change, entirely and once.
package pxflowapplychange

import (
	"context"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/flow/source"
	"github.com/pxhost/pxhost/shared/function/saved"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool, and of the tool whose plans it applies.
const (
	Name  = "pxflow_apply_change"
	plans = "pxflow_plan_change"
)

// Input of the tool.
type Input = authored.ApplyInput[target.Flow]

// Definition of the tool.
var Definition = tool.Define[Input, change.Applied](tool.Spec{
	Name: Name,
	Description: "Apply one reviewed plan of pxflow_plan_change: all of its commands in one transaction, or nothing. After a lost reply send it again with the same " +
		"commandId: it is applied once. On PX_GENERATION_STALE the Flow has moved on: describe its head and plan again.",
	Annotations: tool.Writes,
	Places:      []budget.Place{{Path: "/changed", Counts: budget.AsItems}},
})

// New returns the tool.
func New(frame tool.Frame, applier authored.Applier) tool.Handler {
	return authored.Apply(Definition, frame, applier, plans)
}

// Recheck returns a check, with the code that runs now, of the Flows that a plan
// would save, against the Functions that are there now, and what is SDK-linked against
// its source.
func Recheck(reader snapshot.Reader, python source.Reader) change.Recheck {
	functions := saved.New()
	return authored.Recheck("flow", func(ctx context.Context, project target.Project, root history.Ref, document []byte) (outcome.Findings, error) {
		doc, findings := flow.Decode(document)
		if findings.Refused() {
			return findings, nil
		}
		s := reader.At(project, root)
		_, findings, err := flow.Validate(ctx, doc, functions.In(s))
		if findings.Refused() || err != nil || doc.Authoring.Kind != flow.SDK {
			return findings, err
		}
		text, err := s.Object(ctx, history.Ref(doc.Authoring.SourceDigest))
		if err != nil {
			return nil, err
		}
		return source.Check(ctx, python, doc, string(text), "")
	})
}
