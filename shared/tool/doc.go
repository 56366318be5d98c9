// Package tool is what the fixed tools have in common: the payload by which the
// endpoint invokes one, the definition from which its schemas are made, and the
// frame that decodes, answers and logs. It knows no tool.
//
// A tool is a package shared/tool/<name> with a typed input and output, a
// Definition, and a New that takes what it needs:
//
//	type Input struct {
//		tool.Common
//		Target target.Flow `json:"target"`
//	}
//
//	type Output struct {
//		Valid bool `json:"valid"`
//	}
//
//	var Definition = tool.Define[Input, Output](tool.Spec{
//		Name:        "pxflow_validate",
//		Description: "Checks one exact Flow revision …",
//		Annotations: tool.Reads,
//	})
//
//	func New(f tool.Frame, flows Flows) tool.Handler {
//		return Definition.Handler(f, func(ctx context.Context, call tool.Call[Input]) (tool.Answer[Output], error) {
//			…
//			return tool.Answer[Output]{Data: Output{Valid: true}, Diagnostics: findings, Pin: root}, nil
//		})
//	}
//
// What the frame does, the tool does not: strict decoding with all findings
// (package schema), the members budget and cursor, cutting (package budget),
// diagnosticIds and their log lines, panics, deadlines, errorType.
//
// What the tool says with its answer: an error diagnostic refuses the request; a
// Go error fails the Lambda and is retryable when it says so (see Retryable);
// Pin names the snapshot of which the same answer can be made again. A call with
// a Pin continues an answer that was cut: the tool makes the same answer from
// that snapshot and does nothing else.
package tool
