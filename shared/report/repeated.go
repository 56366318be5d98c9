package report

import (
	"context"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/batch"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Repeated is the connection that a Batch repeats, ready to compile the command
// against, with what its Flow shows. at is the place of the command in the request.
// Findings of the connection point into the document, as those of Inputs do.
func Repeated(ctx context.Context, doc Document, command batch.RunReportFlowBatch, flows Flows, at string) (batch.Connection, Boundary, outcome.Findings, error) {
	c, ok := doc.Connections[command.ConnectionKey]
	if !ok {
		return batch.Connection{}, Boundary{}, outcome.Findings{outcome.New(outcome.ReferenceUnknown, at+"/connectionKey", outcome.Params{"connectionKey": command.ConnectionKey})}, nil
	}
	set := map[string]bool{}
	for _, one := range command.Cases {
		for key := range one.Inputs {
			set[key] = true
		}
	}
	given, boundary, findings, err := Given(ctx, doc, command.ConnectionKey, flows, set)
	if findings.Refused() || err != nil {
		return batch.Connection{}, Boundary{}, findings, err
	}
	out := batch.Connection{Inputs: boundary.Inputs, Results: boundary.Results, Given: given}
	for _, name := range slices.Sorted(maps.Keys(c.Results)) {
		out.Mapped = append(out.Mapped, c.Results[name].PortKey)
	}
	return out, boundary, nil, nil
}

// SlotsOf returns the slots that a connection feeds, in order of its mappings.
func SlotsOf(c Connection) []ReportResultSlot {
	out := make([]ReportResultSlot, 0, len(c.Results))
	for _, name := range slices.Sorted(maps.Keys(c.Results)) {
		out = append(out, c.Results[name].Target)
	}
	return out
}
