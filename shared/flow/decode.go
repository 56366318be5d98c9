package flow

import (
	"errors"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// Decode reads one .pxflow document strictly and reports all that is wrong with
// its form; whether it makes sense is Validate's question. Text that is no
// strict JSON is one finding, of rule "json", where it stops being that.
//
// A document of an AI's request is decoded with the request by package schema,
// which gives the same findings; this is for stored documents and files.
func Decode(text []byte) (Document, outcome.Findings) {
	var findings outcome.Findings
	if len(text) > maxText {
		findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": maxText, "observed": len(text)})
		return Document{}, findings
	}
	var doc Document
	findings = schema.Decode(text, &doc)
	if findings == nil {
		return doc, nil
	}
	// What is no JSON is told by who reads JSON, with the place and the reason.
	var syntax *canon.SyntaxError
	if errors.As(canon.CheckGrammar(text), &syntax) {
		findings = nil
		findings.Add(outcome.SchemaInvalid, syntax.Pointer, outcome.Params{"rule": "json", "reason": syntax.Reason, "offset": syntax.Offset})
	}
	return doc, findings
}

// maxText bounds a file before it is decoded: white space and long ways to write
// things may make it larger than its canonical encoding, but not without end.
const maxText = 4 * MaxBytes
