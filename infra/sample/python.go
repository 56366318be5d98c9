package sample

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/function"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/target"
)

// Resistance is the source of the sample Function: what the last two Nodes of
// girder_check do, as an engineer writes it who thinks in SI units.
//
//go:embed resistance.py
var Resistance string

// resistanceRead is what python_source answers of Resistance. With it the sample is put
// into an installation on a machine without Python, which runs it once there is one.
//
//go:embed resistance.json
var resistanceRead []byte

// resistanceReader reads one source, and asks no Python.
var resistanceReader = python.New(func(_ context.Context, request []byte) ([]byte, error) {
	var asked struct {
		Items []python.Request `json:"items"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, err
	}
	if len(asked.Items) != 1 || asked.Items[0] != (python.Request{Kind: python.FunctionKind, Source: Resistance}) {
		return nil, errors.New("sample: asked about another source than that of resistance")
	}
	return bytes.Clone(resistanceRead), nil
}, "")

// The keys of what is in Python.
const (
	resistanceKey = "resistance"
	inPythonKey   = "hs20_in_python"
)

// resistanceRef is version 1 of the sample Function.
func resistanceRef(ctx context.Context) (function.Ref, error) {
	read, err := resistanceReader.Read(ctx, python.Request{Kind: python.FunctionKind, Source: Resistance})
	if err != nil {
		return function.Ref{}, err
	}
	if read.Function == nil {
		return function.Ref{}, errors.New("sample: resistance is no Function")
	}
	doc, findings, err := function.Judge(*read.Function, Resistance, "", resistanceKey, 1)
	if err == nil && findings.Refused() {
		err = fmt.Errorf("sample: resistance is refused: %s", findings[0].Code)
	}
	if err != nil {
		return function.Ref{}, err
	}
	_, digest, err := doc.RevisionRef()
	return function.Ref{FunctionKey: resistanceKey, Version: doc.Version, Digest: digest}, err
}

// InPython returns the sample Flow with the Function for its resistance, in place of its
// last two Nodes. Both give the same numbers.
func InPython(girder flow.Document, resistance function.Ref) flow.Document {
	const node = "resistance"
	doc := girder
	doc.FlowKey = inPythonKey
	doc.Label = target.Label{"en": "HS20-44 check, resistance in Python", "ko": "HS20-44 검토, 저항은 파이썬"}
	doc.Nodes, doc.Results = maps.Clone(girder.Nodes), maps.Clone(girder.Results)
	for _, key := range []string{"stress", "utilization"} {
		delete(doc.Nodes, key)
		r := doc.Results[key]
		r.Binding = flow.NodeResult{NodeKey: node, PortKey: key}
		doc.Results[key] = r
	}
	doc.Nodes[node] = flow.Node{
		Target: resistance.Target(),
		InputBindings: map[string]flow.Binding{
			"moment": flow.NodeResult{NodeKey: "total_moment", PortKey: "m"}, "modulus": flow.FlowInput{PortKey: "section_modulus"}, "yield_stress": flow.FlowInput{PortKey: "yield_stress"},
		},
		Label: target.Label{"en": "Bending resistance", "ko": "휨 저항"},
	}
	return doc
}
