package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/flow/outline"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/semantic"
)

// A Calculation is a valid Flow with the inputs of one Run. It holds no results:
// they are handed from stage to stage by whoever runs it, so that a stage can be
// done again, on another machine, with the same outcome.
type Calculation struct {
	doc      Document
	analysis Analysis
	inputs   map[string]quantity.Value
}

// NodeResults are the values of Nodes that were evaluated, by nodeKey and
// portKey, each in the unit of the Node's own result port.
type NodeResults map[string]map[string]quantity.Value

// Prepare checks a Run's inputs against the public ports. values are typed values
// by portKey, which stand at the JSON Pointer at (such as /inputs) in the
// request. What is left out takes the port's default, or null where the port
// allows it. analysis must be Validate's of this document, without an error.
func Prepare(doc Document, analysis Analysis, values map[string]canon.Raw, at string) (Calculation, outcome.Findings) {
	checked, findings := outline.Inputs(doc.Inputs, values, at)
	return Calculation{doc: doc, analysis: analysis, inputs: checked}, findings
}

// Inputs returns the values with which a Node starts, by portKey, converted to
// its ports. ready is false when a Node that it needs has no result in have,
// because it failed or did not run yet; that is no finding. A value that breaks
// a constraint of the port is PX_CONSTRAINT_VIOLATED at the binding.
func (c Calculation) Inputs(nodeKey string, have NodeResults) (values map[string]quantity.Value, ready bool, findings outcome.Findings) {
	contract, node := c.analysis.Contracts[nodeKey], c.doc.Nodes[nodeKey]
	values = make(map[string]quantity.Value, len(contract.Inputs))
	ready = true
	for _, key := range slices.Sorted(maps.Keys(contract.Inputs)) {
		port, path := contract.Inputs[key], semantic.Pointer("nodes", nodeKey, "inputBindings", key)
		binding, bound := node.InputBindings[key]
		switch {
		case bound:
			value, ok, found := c.carry(binding, path, path, have)
			ready = ready && ok
			findings = append(findings, found...)
			values[key] = value
		case port.Default != nil:
			value, found := port.Decode(port.Default, path)
			findings = append(findings, found...)
			values[key] = value
		default: // Validate let it be missing because it may be null
			values[key] = quantity.Null{}
		}
	}
	return values, ready, findings
}

// carry brings a value over one binding. Findings are told at path; params.in is
// the JSON Pointer into the typed value.
func (c Calculation) carry(b Binding, bindingPath, path string, have NodeResults) (value quantity.Value, ok bool, findings outcome.Findings) {
	switch b := b.(type) {
	case Literal:
		value, ok = c.analysis.literals[bindingPath]
		return value, ok, nil
	case FlowInput:
		value, ok = c.inputs[b.PortKey]
	case NodeResult:
		value, ok = have[b.NodeKey][b.PortKey]
	default:
		panic(fmt.Sprintf("flow: binding %T", b))
	}
	conversion, known := c.analysis.conversions[bindingPath]
	if !ok || !known {
		return nil, false, nil
	}
	value, found := conversion.Apply(value, "")
	for _, d := range found {
		// The value is nowhere in the document: where in it the finding is, such
		// as a row of a table, is a fact beside the path.
		d.Params = maps.Clone(d.Params)
		d.Params["in"], d.Path = d.Path, path
		findings = append(findings, d)
	}
	return value, true, findings
}

// Evaluate calculates the Nodes of a built-in stage. have are the results of all
// earlier stages and is not changed; the answer has those of this stage alone.
//
// A Node that cannot be calculated gives a PX_RUN_FAILED with params.nodeKey,
// after what its values are found to break. Nodes that need it are left out
// without a finding of their own; all others are calculated, so that every
// independent failure is reported at once. The error is ctx's.
func (c Calculation) Evaluate(ctx context.Context, stage Stage, have NodeResults) (NodeResults, outcome.Findings, error) {
	if stage.Kind != BuiltinStage {
		panic("flow: only built-in stages are evaluated here")
	}
	var findings outcome.Findings
	done := make(NodeResults, len(stage.NodeKeys))
	all := maps.Clone(have)
	if all == nil {
		all = NodeResults{}
	}
	for _, key := range stage.NodeKeys {
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("flow: evaluate: %w", err)
		}
		inputs, ready, found := c.Inputs(key, all)
		if !ready {
			continue
		}
		var results map[string]quantity.Value
		if !found.Refused() {
			results, found = c.evaluateNode(ctx, key, inputs)
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("flow: evaluate: %w", err)
		}
		findings = append(findings, c.ofNode(key, found)...)
		if !found.Refused() {
			done[key], all[key] = results, results
		}
	}
	return done, findings, nil
}

func (c Calculation) evaluateNode(ctx context.Context, key string, inputs map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
	node := c.doc.Nodes[key]
	t, ok := node.Target.(ComponentTarget)
	if !ok {
		panic(fmt.Sprintf("flow: target %T in a built-in stage", node.Target))
	}
	var findings outcome.Findings
	component, ok := component.Lookup(t.ComponentKey, t.Version)
	if !ok { // it was there at validation: another build of the program runs this
		return nil, unknownComponent(t, semantic.Pointer("nodes", key, "target"), nil)
	}
	results, found := component.Evaluate(ctx, settingsText(node.Settings), inputs)
	for _, d := range found {
		d.Path = semantic.Pointer("nodes", key) + d.Path
		findings = append(findings, d)
	}
	return results, findings
}

// ofNode names the Node in findings, and adds PX_RUN_FAILED where a failure is
// told by other codes alone.
func (c Calculation) ofNode(key string, findings outcome.Findings) outcome.Findings {
	failed := false
	for i, d := range findings {
		d.Params = maps.Clone(d.Params)
		d.Params["nodeKey"] = key
		findings[i] = d
		failed = failed || d.Code == outcome.RunFailed
	}
	if findings.Refused() && !failed {
		findings.Add(outcome.RunFailed, semantic.Pointer("nodes", key), outcome.Params{"nodeKey": key, "reason": "values_refused"})
	}
	return findings
}

// Results returns the public results, by portKey, in the units of their ports.
// A result whose Node has no result in have is left out; a value that breaks a
// constraint of its port is a finding at /results/<portKey>.
func (c Calculation) Results(have NodeResults) (map[string]quantity.Value, outcome.Findings) {
	var findings outcome.Findings
	out := make(map[string]quantity.Value, len(c.doc.Results))
	for _, key := range slices.Sorted(maps.Keys(c.doc.Results)) {
		path := semantic.Pointer("results", key)
		value, ok, found := c.carry(c.doc.Results[key].Binding, path+"/binding", path, have)
		findings = append(findings, found...)
		if ok && !found.Refused() {
			out[key] = value
		}
	}
	return out, findings
}

// EncodeResults writes results as typed values by nodeKey and portKey, to be
// stored between stages. Reading them back with DecodeResults gives the same
// values, bit for bit.
func (c Calculation) EncodeResults(results NodeResults) (canon.Raw, error) {
	out := make(map[string]map[string]canon.Raw, len(results))
	for key, values := range results {
		out[key] = make(map[string]canon.Raw, len(values))
		for port, value := range values {
			raw, err := c.analysis.Contracts[key].Results[port].Encode(value)
			if err != nil {
				return nil, fmt.Errorf("flow: encode result %s of node %s: %w", port, key, err)
			}
			out[key][port] = raw
		}
	}
	text, err := canon.Encode(out)
	if err != nil {
		return nil, fmt.Errorf("flow: encode results: %w", err)
	}
	return text, nil
}

// DecodeResults reads what EncodeResults wrote for the same document. Anything
// else is an error: these values come from our own store, not from a caller.
func (c Calculation) DecodeResults(text canon.Raw) (NodeResults, error) {
	var raw map[string]map[string]canon.Raw
	if found := schema.Decode(text, &raw); len(found) > 0 {
		return nil, fmt.Errorf("flow: stored results are not results: %s at %s", found[0].Code, found[0].Path)
	}
	out := make(NodeResults, len(raw))
	for key, values := range raw {
		contract, ok := c.analysis.Contracts[key]
		if !ok || len(values) != len(contract.Results) {
			return nil, fmt.Errorf("flow: stored results of node %q do not belong to this document", key)
		}
		out[key] = make(map[string]quantity.Value, len(values))
		for port, value := range values {
			result, ok := contract.Results[port]
			if !ok {
				return nil, fmt.Errorf("flow: stored result %q of node %q does not belong to this document", port, key)
			}
			v, found := result.Decode(value, "")
			if found.Refused() {
				return nil, fmt.Errorf("flow: stored result %s of node %s: %s at %s", port, key, found[0].Code, found[0].Path)
			}
			out[key][port] = v
		}
	}
	return out, nil
}
