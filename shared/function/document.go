package function

import (
	"errors"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// Format is the version of the document form that this package reads and writes.
const Format = "pxfunction/1"

// Kind is the kind of Functions in a Project's catalog.
const Kind = "function"

// The limits of one version (decision 16). The limit itself is allowed.
const (
	MaxBytes  = 256 << 10 // of the canonical document
	MaxSource = 256 << 10 // of the source, in UTF-8
)

// A Document is one immutable version of a Function: its contract, and which source
// it was read from. What an author left out stays left out.
type Document struct {
	Format      string       `json:"format" schema:"enum=pxfunction/1"`
	FunctionKey string       `json:"functionKey" schema:"pattern=key"`
	Version     int          `json:"version" schema:"minimum=1"`
	Description string       `json:"description" schema:"maxLength=4000,text=prose"`
	Label       target.Label `json:"label,omitzero"`
	// Symbol is the name of the definition in the source. It addresses nothing.
	Symbol string `json:"symbol" schema:"minLength=1,maxLength=200,text=line"`
	// Parameters are the input ports in the order in which the definition takes them.
	Parameters   []string                 `json:"parameters" schema:"each.pattern=key"`
	Inputs       map[string]quantity.Port `json:"inputs"`
	Results      map[string]quantity.Port `json:"results"`
	Capabilities []string                 `json:"capabilities" schema:"each.minLength=1,each.maxLength=200,each.text=line"`
	Imports      []string                 `json:"imports" schema:"each.minLength=1,each.maxLength=200,each.text=line"`
	SourceDigest string                   `json:"sourceDigest" pattern:"^sha256:[0-9a-f]{64}$"`
}

// Decode reads one stored document strictly and reports all that is wrong with its
// form. Text that is no strict JSON is one finding, of rule "json".
func Decode(text []byte) (Document, outcome.Findings) {
	var findings outcome.Findings
	if len(text) > MaxBytes {
		findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxBytes, "observed": len(text), "of": "bytes"})
		return Document{}, findings
	}
	var doc Document
	findings = schema.Decode(text, &doc)
	if findings == nil {
		return doc, nil
	}
	var syntax *canon.SyntaxError
	if errors.As(canon.CheckGrammar(text), &syntax) {
		findings = nil
		findings.Add(outcome.SchemaInvalid, syntax.Pointer, outcome.Params{"rule": "json", "reason": syntax.Reason, "offset": syntax.Offset})
	}
	return doc, findings
}

// RevisionRef returns the document's canonical bytes and their digest, which is the
// digest of its FunctionRef.
func (d Document) RevisionRef() (canonical []byte, digest string, err error) {
	canonical, err = canon.Encode(d)
	if err != nil {
		return nil, "", err
	}
	return canonical, canon.Digest(canonical), nil
}

// Contract returns the ports, as a Flow that runs the Function sees them.
func (d Document) Contract() component.Contract {
	return component.Contract{Inputs: d.Inputs, Results: d.Results}
}

// Source is the object that holds the source.
func (d Document) Source() history.Ref { return history.Ref(d.SourceDigest) }

// A Ref names one immutable version.
type Ref struct {
	FunctionKey string `json:"functionKey" schema:"pattern=key,copied"`
	Version     int    `json:"version" schema:"minimum=1"`
	Digest      string `json:"digest" schema:"minLength=1,maxLength=200"`
}

// Target is the version as a Node of a Flow names it.
func (r Ref) Target() flow.FunctionTarget { return r.Of(target.Package{}) }

// Of is the version as a Node runs it, of the package that owns it.
func (r Ref) Of(p target.Package) flow.FunctionTarget {
	return flow.FunctionTarget{FunctionKey: r.FunctionKey, Version: r.Version, Digest: r.Digest, Package: p}
}

// A Detail is what the catalog says of a Function besides its revision: enough to
// address it and to make the next version, without reading the document.
type Detail struct {
	Version      int    `json:"version"`
	SourceDigest string `json:"sourceDigest"`
}

// DetailOf reads the detail of a catalog entry.
func DetailOf(entry history.Entry) (Detail, error) {
	var d Detail
	if schema.Decode(entry.Detail, &d).Refused() {
		return Detail{}, errors.New("function: a catalog entry without version and source")
	}
	return d, nil
}
