// Package machine makes the state machine of Batches from the one of single Runs.
package machine

import (
	"bytes"
	_ "embed"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// around is the state machine with $STATES in the place of the states of a case.
//
//go:embed flow_batch.txt
var around string

// states and indent are the place, and how far in it stands.
const (
	states = "$STATES"
	indent = "          "
)

// A child is told its case as flow_run is told its Run: by the input of its own
// execution.
const (
	claim = `"executionArn": "{% $states.context.Execution.Id %}"`
	cases = claim + `,
            "case": "{% $states.context.Execution.Input.case %}"`
)

// A child that could not be finished does not fail. The Map answers with what its
// children did, all of it within 256 KiB, and keeps an error's name and cause for
// each that failed: some hundreds would fail the Batch for want of room. batch_merge
// and the minute tick find such a child by its record.
const (
	failure = `"Type": "Fail",
      "Comment": "run_finish could not be brought to an end: the minute tick finds the execution failed and finishes the Run itself.",
      "Error": "px.RunNotFinished",
      "Cause": "{% 'run_finish failed: ' & $states.input.Error %}"`
	leaving = `"Type": "Succeed",
      "Comment": "run_finish could not be brought to an end: the minute tick finds the execution ended and finishes the Run itself.",
      "Output": {}`
)

// FlowBatch returns the definition, with the states of flow_run as the item
// processor: they differ in what run_prepare is told, and in how a child ends that
// could not be finished.
func FlowBatch(flowRun []byte) ([]byte, error) {
	var single struct {
		StartAt string         `json:"StartAt"`
		States  jsontext.Value `json:"States"`
	}
	if err := json.Unmarshal(flowRun, &single); err != nil {
		return nil, err
	}
	inner := string(bytes.TrimSpace(single.States))
	if single.StartAt != "Prepare" || strings.Count(inner, claim) != 1 {
		return nil, errors.New("machine: flow_run no longer begins with a claim by executionArn")
	}
	if strings.Count(inner, failure) != 1 {
		return nil, errors.New("machine: flow_run no longer fails where run_finish could not be brought to an end")
	}
	inner = strings.Replace(strings.Replace(inner, claim, cases, 1), failure, leaving, 1)
	inner = strings.ReplaceAll(inner, "\n", "\n"+indent[:len(indent)-2])
	if strings.Count(around, states) != 1 {
		return nil, errors.New("machine: no place for the states of a case")
	}
	text := []byte(strings.Replace(around, states, inner, 1))
	if !jsontext.Value(text).IsValid() {
		return nil, errors.New("machine: what was made is no JSON")
	}
	return text, nil
}
