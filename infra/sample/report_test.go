package sample

import (
	"context"
	"math"
	"testing"

	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/target"
)

// covers: R2, R4
func TestTheSampleReportRunsTheSampleFlow(t *testing.T) {
	ctx := context.Background()
	girder, findings := flow.Decode(GirderCheck)
	if findings != nil {
		t.Fatal(findings)
	}
	_, ref, err := girder.RevisionRef()
	if err != nil {
		t.Fatal(err)
	}
	at := target.Flow{Scope: Project.Scope(), FlowKey: girder.FlowKey, RevisionRef: ref}
	shown := report.Boundary{Inputs: girder.Inputs, Results: map[string]quantity.Port{}}
	for key, r := range girder.Results {
		shown.Results[key] = r.Port
	}
	flows := report.Known{at: shown}
	saved, findings := report.Decode(GirderReview)
	if findings != nil {
		t.Fatal(findings)
	}
	created, findings, err := report.Propose(ctx, nil, []report.Command{report.CreateReport{Document: saved}}, flows)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	connected, findings, err := report.Propose(ctx, &created.Document, ConnectGirderReview(at), flows)
	if err != nil || len(findings) > 0 { // nothing is missing, and no unit is converted
		t.Fatal(err, findings)
	}
	if state := report.Describe(connected.Document, connected.Analysis).Connections["girder_check"].State; state != report.Ready {
		t.Errorf("the connection is %s", state)
	}
	inputs, findings, err := report.Inputs(ctx, connected.Document, "girder_check", flows)
	if err != nil || len(findings) > 0 || len(inputs) != len(girder.Inputs) {
		t.Fatal(err, findings, inputs)
	}
	// The Flow takes the payload as it is, and what it shows in the first slot is
	// what the textbook says of a span of 80 ft.
	analysis, _, err := flow.Validate(ctx, girder, flow.NoFunctions{})
	if err != nil {
		t.Fatal(err)
	}
	calculation, findings := flow.Prepare(girder, analysis, inputs, "")
	if findings.Refused() {
		t.Fatal(findings)
	}
	var have flow.NodeResults
	for _, stage := range analysis.Stages {
		if have, findings, err = calculation.Evaluate(ctx, stage, have); err != nil || findings.Refused() {
			t.Fatal(err, findings)
		}
	}
	values, findings := calculation.Results(have)
	if findings.Refused() {
		t.Fatal(findings)
	}
	const span = 80.0
	moment := values["live_moment"].(quantity.Number).Magnitude
	if want := 72*(span/2-7.0/3)*(span/2-7.0/3)/span - 112; math.Abs(moment/want-1) > 1e-12 {
		t.Errorf("live moment %v, want %v", moment, want)
	}
	if u := values["utilization"].(quantity.Number).Magnitude; u < 0.1 || u > 1 {
		t.Errorf("the sample girder has a utilization of %v", u)
	}
}
