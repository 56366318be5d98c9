// Package calculation opens saved Flows for package run: it decodes and validates
// the document and evaluates its stages. It links every Component, which the
// packages that only keep or read Runs do not.
package calculation

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
)

// Open reads a saved Flow and validates it with the code that runs now. Findings
// point into the document; those that refuse it refuse the Run.
func Open(ctx context.Context, document []byte) (run.Flow, outcome.Findings, error) {
	doc, findings := flow.Decode(document)
	if findings.Refused() {
		return nil, findings, nil
	}
	analysis, findings, err := flow.Validate(ctx, doc, flow.NoFunctions{})
	if err != nil {
		return nil, nil, fmt.Errorf("calculation: validate: %w", err)
	}
	if findings.Refused() {
		return nil, findings, nil
	}
	return opened{doc, analysis}, nil, nil
}

var _ run.Open = Open

// opened is a saved Flow that can run.
type opened struct {
	doc      flow.Document
	analysis flow.Analysis
}

func (o opened) Stages() int { return len(o.analysis.Stages) }

func (o opened) Begin(inputs map[string]canon.Raw, at string) (run.Calculation, outcome.Findings) {
	c, findings := flow.Prepare(o.doc, o.analysis, inputs, at)
	return &calculation{Calculation: c, opened: o, have: flow.NodeResults{}}, findings
}

// calculation is an opened Flow with the inputs of one Run and the results of
// the stages before.
type calculation struct {
	flow.Calculation
	opened
	have flow.NodeResults
}

func (c *calculation) Add(nodes canon.Raw) error {
	results, err := c.DecodeResults(nodes)
	if err != nil {
		return fmt.Errorf("calculation: %w", err)
	}
	for key, values := range results {
		c.have[key] = values
	}
	return nil
}

func (c *calculation) Evaluate(ctx context.Context, stage int) (canon.Raw, int, outcome.Findings, error) {
	if len(c.analysis.Stages) == 0 { // a Flow without any Node: its results are its inputs and literals
		return canon.Raw(`{}`), 0, nil, nil
	}
	results, findings, err := c.Calculation.Evaluate(ctx, c.analysis.Stages[stage], c.have)
	if err != nil {
		return nil, 0, nil, err
	}
	nodes, err := c.EncodeResults(results)
	if err != nil {
		return nil, 0, nil, err
	}
	return nodes, len(results), findings, nil
}

func (c *calculation) Results() (map[string]run.Value, outcome.Findings, error) {
	values, findings := c.Calculation.Results(c.have)
	if findings.Refused() {
		return nil, findings, nil
	}
	out := make(map[string]run.Value, len(values))
	for key, v := range values {
		port := c.doc.Results[key].Port
		text, err := port.Encode(v)
		if err != nil {
			return nil, nil, fmt.Errorf("calculation: result %s: %w", key, err)
		}
		shape := canon.Raw(`"scalar"`)
		if !port.Shape.IsZero() {
			if shape, err = canon.Encode(port.Shape); err != nil {
				return nil, nil, err
			}
		}
		out[key] = run.Value{Type: string(port.Type), Unit: port.Unit, Shape: shape, Text: text}
	}
	if missing := len(c.doc.Results) - len(out); missing > 0 {
		return nil, nil, fmt.Errorf("calculation: %d results have no value", missing)
	}
	return out, nil, nil
}
