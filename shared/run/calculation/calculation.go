// Package calculation opens saved Flows for package run: it decodes and validates
// the document and evaluates its stages. It links every Component, which the
// packages that only keep or read Runs do not.
package calculation

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/function/packages"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/target"
)

// flowBytes is how much of validated Flows a process keeps: the cases of a Batch are
// Runs of one. validatedBytes is about how much a validated Flow is of its text.
const (
	flowBytes      = 64 << 20
	validatedBytes = 20
)

// Opener returns what opens the saved Flows of Projects. It reads a Flow and the
// Functions that it names, and validates it with the code that runs now. Findings
// point into the document; those that refuse it refuse the Run.
func Opener(objects history.Objects) run.Open { return OpenerWith(objects, packages.Product()) }

// OpenerWith is Opener with other packages than the product's. Whether the releases that
// a Flow names are installed was asked when the Run was begun; whether they are admitted,
// this asks, before anything is calculated.
func OpenerWith(objects history.Objects, catalog packages.Catalog) run.Open {
	known, flows := history.NewCache(knownBytes), history.NewCache(flowBytes)
	return func(ctx context.Context, project target.Project, document []byte) (run.Flow, outcome.Findings, error) {
		space := history.Space(project.String())
		ref := history.RefOf(document)
		if o, ok := flows.Get(space, ref).(opened); ok {
			return o, nil, nil
		}
		doc, findings := flow.Decode(document)
		if findings.Refused() {
			return nil, findings, nil
		}
		functions := pinned{objects, known, space, map[flow.FunctionTarget]function.Document{}, project, catalog, map[history.Ref][]byte{}}
		analysis, findings, err := flow.Validate(ctx, doc, functions)
		if err != nil {
			return nil, nil, fmt.Errorf("calculation: validate: %w", err)
		}
		if findings.Refused() {
			return nil, findings, nil
		}
		o := opened{doc, analysis, functions}
		flows.Put(space, ref, o, validatedBytes*len(document))
		return o, nil, nil
	}
}

// opened is a saved Flow that can run.
type opened struct {
	doc       flow.Document
	analysis  flow.Analysis
	functions pinned
}

func (o opened) Kinds() []run.StageKind {
	out := make([]run.StageKind, len(o.analysis.Stages))
	for i, s := range o.analysis.Stages {
		switch s.Kind {
		case flow.BuiltinStage:
			out[i] = run.Builtin
		case flow.SandboxStage:
			out[i] = run.Sandboxed
		default:
			panic("calculation: a stage of kind " + string(s.Kind))
		}
	}
	return out
}

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

func (c *calculation) Calls(stage int) ([]sandbox.Call, outcome.Findings, error) {
	calls, findings, err := c.Calculation.Calls(c.analysis.Stages[stage], c.have)
	if err != nil {
		return nil, nil, err
	}
	out := make([]sandbox.Call, len(calls))
	for i, call := range calls {
		doc := c.functions.found[call.Function]
		out[i] = sandbox.Call{
			NodeKey: call.NodeKey, FunctionKey: doc.FunctionKey, Version: int64(doc.Version), Digest: call.Function.Digest,
			Source: doc.SourceDigest, Symbol: doc.Symbol, Parameters: append([]string{}, doc.Parameters...), Values: call.Values,
		}
		if out[i].Inputs, err = contracts(doc.Inputs); err != nil {
			return nil, nil, err
		}
		if out[i].Results, err = contracts(doc.Results); err != nil {
			return nil, nil, err
		}
	}
	return out, findings, nil
}

// contracts writes ports as documents hold them.
func contracts(ports map[string]quantity.Port) (map[string]canon.Raw, error) {
	out := make(map[string]canon.Raw, len(ports))
	for key, port := range ports {
		text, err := canon.Encode(port)
		if err != nil {
			return nil, fmt.Errorf("calculation: port %s: %w", key, err)
		}
		out[key] = text
	}
	return out, nil
}

func (c *calculation) Sources(ctx context.Context, calls []sandbox.Call) (map[string]string, error) {
	refs := make([]history.Ref, len(calls))
	for i, call := range calls {
		refs[i] = history.Ref(call.Source)
	}
	return c.functions.sources(ctx, refs)
}

func (c *calculation) Take(stage int, results []sandbox.CallResult) (canon.Raw, int, outcome.Findings, error) {
	calls, _, err := c.Calculation.Calls(c.analysis.Stages[stage], c.have) // whose findings Calls tells
	if err != nil {
		return nil, 0, nil, err
	}
	returned := make(map[string]flow.Returned, len(results))
	for _, r := range results {
		one := flow.Returned{Values: r.Values}
		if r.Error != nil {
			one.Failure = &flow.Failure{Reason: r.Error.Reason, Line: r.Error.Line, Exception: r.Error.Exception}
		}
		returned[r.NodeKey] = one
	}
	done, findings := c.Calculation.Take(calls, returned)
	nodes, err := c.EncodeResults(done)
	if err != nil {
		return nil, 0, nil, err
	}
	return nodes, len(done), findings, nil
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
