package sample

import (
	_ "embed"

	"github.com/pxhost/pxhost/shared/report"
	"github.com/pxhost/pxhost/shared/target"
)

// GirderReview is the sample Report: the design basis of a girder, how it is
// checked, and slots for what girder_check finds. It has no connection: a
// connection pins an exact Flow revision, which is known when the Flow is saved
// and not before. ConnectGirderReview makes it then.
//
//go:embed girder_review.pxreport
var GirderReview []byte

// ConnectGirderReview returns the commands that connect the saved sample Report to
// an exact revision of the sample Flow.
func ConnectGirderReview(flow target.Flow) []report.Command {
	const connection = "girder_check"
	var commands []report.Command
	for _, key := range []string{"span", "dead_load", "impact", "section_modulus", "yield_stress"} {
		commands = append(commands, report.SetReportFlowInputSource{ConnectionKey: connection, MappingKey: key + "_input", FlowTarget: flow, PortKey: key,
			Source: report.ReportValue{BlockKey: "design_basis", FieldKey: key}})
	}
	for _, key := range []string{"live_moment", "total_moment", "stress", "utilization"} {
		commands = append(commands, report.SetReportFlowResultTarget{ConnectionKey: connection, MappingKey: key + "_result", PortKey: key,
			Target: report.ReportResultSlot{BlockKey: "check_summary", SlotKey: key}})
	}
	return commands
}
