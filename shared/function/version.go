package function

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/python"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// The reasons in params.reason of PX_SOURCE_INVALID that this package gives. Those of
// a source that cannot be read come from package python.
const (
	ReasonKey        = "function_key_mismatch"    // the source names another Function than the command
	ReasonVersion    = "version_not_next"         // versions are consecutive integers from 1
	ReasonDefault    = "result_with_default"      // a result is computed
	ReasonCapability = "capability_not_supported" // Functions compute; nothing else is granted to them
	ReasonFile       = "file_not_supported"       // a sandbox gets no stored bytes, and makes none
)

// Judge makes the document of what was read from a source, and reports everything
// about it that a Project does not accept. Findings stand at path, where the source
// stands in the request. They hold keys and numbers and no text of the source (E3).
//
// functionKey and version are what the definition has to say of itself.
func Judge(f python.Function, source, path, functionKey string, version int) (Document, outcome.Findings, error) {
	doc := Document{
		Format: Format, FunctionKey: functionKey, Version: version, Description: f.Description, Label: f.Label, Symbol: f.Symbol,
		Parameters: append([]string{}, f.Parameters...), Inputs: canonicalPorts(f.Inputs), Results: canonicalPorts(f.Results),
		Capabilities: append([]string{}, f.Capabilities...), Imports: append([]string{}, f.Imports...), SourceDigest: canon.Digest([]byte(source)),
	}
	var findings outcome.Findings
	refuse := func(reason string, at python.Range, params outcome.Params) {
		params["reason"] = reason
		params["line"], params["column"] = at.Place(source)
		findings.Add(outcome.SourceInvalid, path, params)
	}
	if f.FunctionKey != functionKey {
		refuse(ReasonKey, f.Decorator, outcome.Params{"expected": functionKey})
	}
	if f.Version != int64(version) {
		refuse(ReasonVersion, f.Decorator, outcome.Params{"expected": version, "observed": f.Version})
	}
	for _, name := range slices.Sorted(slices.Values(f.Capabilities)) {
		refuse(ReasonCapability, f.Decorator, outcome.Params{"capability": name})
	}
	for _, side := range []struct {
		member string
		ports  map[string]quantity.Port
	}{{"inputs", f.Inputs}, {"results", f.Results}} {
		for _, key := range slices.Sorted(maps.Keys(side.ports)) {
			if at := semantic.Pointer(side.member, key); !side.ports[key].HasPlain() {
				refuse(ReasonFile, f.Places[at], outcome.Params{"contractPath": at})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Results)) {
		if at := semantic.Pointer("results", key); f.Results[key].Default != nil {
			refuse(ReasonDefault, f.Places[at], outcome.Params{"contractPath": at + "/default"})
		}
	}
	if findings.Refused() {
		return doc, findings, nil
	}
	text, _, err := doc.RevisionRef()
	if err != nil {
		return doc, nil, err
	}
	if len(text) > MaxBytes {
		findings.Add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxBytes, "observed": len(text), "of": "contract_bytes"})
		return doc, findings, nil
	}
	// What is stored can be read again, or it is not stored.
	if _, unreadable := Decode(text); unreadable.Refused() {
		return doc, nil, fmt.Errorf("function: a contract that was accepted and cannot be read: %s at %s", unreadable[0].Code, unreadable[0].Path)
	}
	return doc, nil, nil
}

func canonicalPorts(ports map[string]quantity.Port) map[string]quantity.Port {
	out := make(map[string]quantity.Port, len(ports))
	for key, p := range ports {
		out[key] = p.Canonical()
	}
	return out
}
