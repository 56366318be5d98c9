// Package reportapplychange is the tool report_apply_change: it applies a plan of
// report_plan_change, entirely and once.
package reportapplychange

import (
	"context"

	"github.com/pxhost/pxhost/shared/authored"
	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/change"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/report/pinned"
	"github.com/pxhost/pxhost/shared/snapshot"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
)

// Name of the tool, and of the tool whose plans it applies.
const (
	Name  = "report_apply_change"
	plans = "report_plan_change"
)

// Input of the tool.
type Input = authored.ApplyInput[target.Report]

// Definition of the tool.
var Definition = tool.Define[Input, change.Applied](tool.Spec{
	Name: Name,
	Description: "Apply one reviewed plan of report_plan_change: all of its commands in one transaction, or nothing. After a lost reply send it again with the same " +
		"commandId: it is applied once. On PX_GENERATION_STALE the Report has moved on: describe its head and plan again.",
	Annotations: tool.Writes,
	Places:      []budget.Place{{Path: "/changed", Counts: budget.AsItems}},
})

// New returns the tool.
func New(frame tool.Frame, applier authored.Applier) tool.Handler {
	return authored.Apply(Definition, frame, applier, plans)
}

// Recheck returns a check, with the code that runs now, of the Reports that a plan
// would save, against the Flows that are there now.
func Recheck(reader snapshot.Reader) change.Recheck {
	flows := pinned.New()
	return authored.Recheck("report", func(ctx context.Context, project target.Project, root history.Ref, document []byte) (outcome.Findings, error) {
		doc, findings := report.Decode(document)
		if findings.Refused() {
			return findings, nil
		}
		_, findings, err := report.Validate(ctx, doc, flows.In(reader.At(project, root)))
		return findings, err
	})
}
