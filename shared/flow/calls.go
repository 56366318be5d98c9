package flow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// A Call is one Function that a sandbox stage calls, for one Node.
type Call struct {
	NodeKey  string
	Function FunctionTarget
	Contract component.Contract
	// Values are the inputs by portKey, in plain form and in the units of the
	// Function's own ports (see quantity.Port.Plain). Every input is there.
	Values map[string]canon.Raw
}

// Calls returns what a sandbox stage calls, in the order of its Nodes. have are the
// results of all earlier stages. A Node whose inputs break its contract is no call
// and gives findings, as in Evaluate; one that needs what failed is left out without.
// Asking again with the same results gives the same calls, byte for byte.
func (c Calculation) Calls(stage Stage, have NodeResults) ([]Call, outcome.Findings, error) {
	if stage.Kind != SandboxStage {
		panic("flow: only sandbox stages call Functions")
	}
	var calls []Call
	var findings outcome.Findings
	for _, key := range stage.NodeKeys {
		target, ok := c.doc.Nodes[key].Target.(FunctionTarget)
		if !ok {
			panic(fmt.Sprintf("flow: target %T in a sandbox stage", c.doc.Nodes[key].Target))
		}
		contract := c.analysis.Contracts[key]
		found := withoutPlain(key, contract)
		inputs, ready, more := c.Inputs(key, have)
		if found = append(found, more...); !ready && !found.Refused() {
			continue
		}
		findings = append(findings, c.ofNode(key, found)...)
		if found.Refused() {
			continue
		}
		call := Call{NodeKey: key, Function: target, Contract: contract, Values: make(map[string]canon.Raw, len(inputs))}
		for port, value := range inputs {
			text, err := contract.Inputs[port].Plain(value)
			if err != nil {
				return nil, nil, fmt.Errorf("flow: input %s of node %s: %w", port, key, err)
			}
			call.Values[port] = text
		}
		calls = append(calls, call)
	}
	return calls, findings, nil
}

// withoutPlain finds the ports of a Node that cannot be handed to a Function or taken
// from one.
func withoutPlain(key string, contract component.Contract) (findings outcome.Findings) {
	for _, side := range []struct {
		member string
		ports  map[string]quantity.Port
	}{{"inputBindings", contract.Inputs}, {"results", contract.Results}} {
		for _, port := range slices.Sorted(maps.Keys(side.ports)) {
			if !side.ports[port].HasPlain() {
				findings.Add(outcome.TypeMismatch, semantic.Pointer("nodes", key, side.member, port), outcome.Params{"expected": side.ports[port].Type, "reason": "files_have_no_plain_form"})
			}
		}
	}
	return findings
}

// A Returned is what came of one Call: values in plain form by portKey, or a Failure.
// It comes from untrusted code.
type Returned struct {
	Values  map[string]canon.Raw
	Failure *Failure
}

// A Failure says why a call gave no values. It holds no message: that could hold a
// value.
type Failure struct {
	Reason    string // snake_case, such as exception or timeout
	Line      int64  // of the Function's source, from 1; 0 where none is known
	Exception string // class of an exception
}

// className is what may be told of the class of an exception: its name, which untrusted
// code chose.
var className = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Take turns what came of calls into the results of their Nodes, each value held
// against its port. All that is wrong is found at once, at /nodes/<nodeKey>/results/
// <portKey> and below; a Node with a finding has no result at all. What a Function
// gave is never told, and nor is a name that it chose.
//
// returned is by nodeKey. A call without one, and a Returned without a call, is a
// failure of its Node.
func (c Calculation) Take(calls []Call, returned map[string]Returned) (NodeResults, outcome.Findings) {
	var findings outcome.Findings
	done := make(NodeResults, len(calls))
	for _, call := range calls {
		values, found := c.take(call, returned)
		findings = append(findings, c.ofNode(call.NodeKey, found)...)
		if !found.Refused() {
			done[call.NodeKey] = values
		}
	}
	return done, findings
}

func (c Calculation) take(call Call, returned map[string]Returned) (map[string]quantity.Value, outcome.Findings) {
	var findings outcome.Findings
	at := semantic.Pointer("nodes", call.NodeKey)
	r, ok := returned[call.NodeKey]
	if !ok {
		r.Failure = &Failure{Reason: "result_missing"}
	}
	if f := r.Failure; f != nil {
		params := outcome.Params{"reason": f.Reason}
		if f.Line > 0 {
			params["line"] = f.Line
		}
		if className.MatchString(f.Exception) {
			params["exception"] = f.Exception
		}
		findings.Add(outcome.RunFailed, at, params)
		return nil, findings
	}
	ports := call.Contract.Results
	values := make(map[string]quantity.Value, len(ports))
	known := 0
	for _, key := range slices.Sorted(maps.Keys(ports)) {
		path := at + semantic.Pointer("results", key)
		raw, ok := r.Values[key]
		if !ok {
			findings.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "required"})
			continue
		}
		known++
		value, found := ports[key].DecodePlain(raw, path)
		findings = append(findings, found...)
		values[key] = value
	}
	if more := len(r.Values) - known; more > 0 {
		findings.Add(outcome.SchemaUnknownField, at+"/results", outcome.Params{"reason": "function_has_no_such_result", "observed": more})
	}
	return values, findings
}
