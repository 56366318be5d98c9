package run

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/outcome"
)

// opened is a saved Flow that can run.
type opened struct {
	doc      flow.Document
	analysis flow.Analysis
}

// open reads a saved Flow and validates it with the code that runs now. Findings
// point into the document and refuse the Run.
func open(ctx context.Context, document []byte) (opened, outcome.Findings, error) {
	doc, findings := flow.Decode(document)
	if findings.Refused() {
		return opened{}, findings, nil
	}
	analysis, findings, err := flow.Validate(ctx, doc, flow.NoFunctions{})
	if err != nil {
		return opened{}, nil, fmt.Errorf("run: validate: %w", err)
	}
	if findings.Refused() {
		return opened{}, findings, nil
	}
	return opened{doc, analysis}, nil, nil
}

// calculation is an opened Flow with the inputs of one Run and the results of
// the stages before.
type calculation struct {
	flow.Calculation
	opened
	have flow.NodeResults
}

// begin gives the Flow its inputs. at is where they stand in the request.
func (o opened) begin(inputs map[string]canon.Raw, at string) (calculation, outcome.Findings) {
	c, findings := flow.Prepare(o.doc, o.analysis, inputs, at)
	return calculation{Calculation: c, opened: o, have: flow.NodeResults{}}, findings
}

// add takes over the stored results of a stage.
func (c *calculation) add(result stageResult) error {
	results, err := c.DecodeResults(result.Nodes)
	if err != nil {
		return err
	}
	for key, values := range results {
		c.have[key] = values
	}
	return nil
}

// evaluate calculates one stage.
func (c *calculation) evaluate(ctx context.Context, stage int) (stageResult, error) {
	results, findings, err := c.Evaluate(ctx, c.analysis.Stages[stage], c.have)
	if err != nil {
		return stageResult{}, err
	}
	nodes, err := c.EncodeResults(results)
	if err != nil {
		return stageResult{}, err
	}
	return stageResult{Nodes: nodes, Done: len(results), Diagnostics: diagnosticsOf(findings)}, nil
}

// A value is one public result, ready to be stored.
type value struct {
	summary ResultSummary
	text    canon.Raw
}

// public returns the public results.
func (c *calculation) public() (map[string]value, []Diagnostic, error) {
	values, findings := c.Results(c.have)
	if findings.Refused() {
		return nil, diagnosticsOf(findings), nil
	}
	out := make(map[string]value, len(values))
	for key, v := range values {
		port := c.doc.Results[key].Port
		text, err := port.Encode(v)
		if err != nil {
			return nil, nil, fmt.Errorf("run: result %s: %w", key, err)
		}
		shape, err := canon.Encode(port.Shape)
		if err != nil {
			return nil, nil, err
		}
		if port.Shape.IsZero() {
			shape = canon.Raw(`"scalar"`)
		}
		out[key] = value{ResultSummary{Type: string(port.Type), Unit: port.Unit, Shape: shape}, text}
	}
	if missing := len(c.doc.Results) - len(out); missing > 0 {
		return nil, nil, fmt.Errorf("run: %d results have no value", missing)
	}
	return out, nil, nil
}

// diagnosticsOf keeps the findings that refuse, in the form that is stored.
func diagnosticsOf(findings outcome.Findings) []Diagnostic {
	var out []Diagnostic
	for _, d := range findings {
		if d.Severity == outcome.Error {
			out = append(out, Diagnostic{d.Code, d.Path, d.Params})
		}
	}
	return out
}
