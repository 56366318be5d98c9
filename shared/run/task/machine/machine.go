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

// FlowBatch returns the definition, with the states of flow_run as the item
// processor: they differ in what run_prepare is told, and in nothing else.
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
	inner = strings.Replace(inner, claim, cases, 1)
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
