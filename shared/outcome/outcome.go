// Package outcome is what every operation of pxhost answers: an envelope that
// holds either data or diagnostics, and the one registry of diagnostic codes.
//
// It knows no transport. A failure of the machinery, which the caller cannot act
// on, is a Go error and never becomes a diagnostic here.
package outcome

import (
	"github.com/go-json-experiment/json/jsontext"
)

// ContractVersion is the version of everything that the tools promise: inputs,
// outputs, codes, how plans are digested and how tokens are counted (decision 18).
const ContractVersion = "px-mcp/1"

// Severity says whether a diagnostic refuses the request or only informs.
type Severity string

// The severities. A successful answer may carry info and warning diagnostics;
// a refused one carries at least one error.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Params are the machine-readable facts of a diagnostic, by name. They hold
// keys, contracts, limits and candidates, never a secret, a Report's text or a
// source.
type Params map[string]any

// A Diagnostic is one finding about a request (E2).
type Diagnostic struct {
	Code Code `json:"code"`
	// Path is the JSON Pointer of the finding: into the request, or into the
	// document that a tool such as pxflow_validate was asked about.
	Path            string   `json:"path"`
	Severity        Severity `json:"severity"`
	Retryable       bool     `json:"retryable"`
	Params          Params   `json:"params"`
	SuggestedAction string   `json:"suggestedAction"`
	// DiagnosticID is opaque; a log line with the same ID tells the cause. It is
	// assigned when the answer is sealed, and empty before that.
	DiagnosticID string `json:"diagnosticId"`
}

// New returns a diagnostic of a registered code. Severity, retryable and
// suggestedAction come from the registry; an unregistered code panics, since it
// is a mistake of the program.
func New(code Code, path string, params Params) Diagnostic {
	fact, ok := registry[code]
	if !ok {
		panic("outcome: code is not registered: " + string(code))
	}
	if params == nil {
		params = Params{}
	}
	return Diagnostic{Code: code, Path: path, Severity: fact.Severity, Retryable: fact.Retryable, Params: params, SuggestedAction: fact.Action}
}

// Findings collects diagnostics. The zero value is ready.
type Findings []Diagnostic

// Add appends a diagnostic of a registered code.
func (f *Findings) Add(code Code, path string, params Params) {
	*f = append(*f, New(code, path, params))
}

// Refused reports whether any finding is an error.
func (f Findings) Refused() bool {
	for _, d := range f {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// A Resource is a permission-checked link to something too large to inline.
type Resource struct {
	URI       string `json:"uri"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
	ExpiresAt string `json:"expiresAt,omitzero"` // RFC 3339, UTC
}

// An Envelope is the answer of every tool and route (E1).
type Envelope struct {
	OK          bool           `json:"ok"`
	Data        jsontext.Value `json:"data"`
	Diagnostics []Diagnostic   `json:"diagnostics"`
	Resources   []Resource     `json:"resources"`
}

// Success returns the envelope of a result. data is one JSON value.
func Success(data jsontext.Value, diagnostics []Diagnostic, resources []Resource) Envelope {
	return Envelope{OK: true, Data: data, Diagnostics: orEmpty(diagnostics), Resources: orEmpty(resources)}
}

// Failure returns the envelope of a refused request.
func Failure(diagnostics ...Diagnostic) Envelope {
	return Envelope{Data: jsontext.Value("null"), Diagnostics: orEmpty(diagnostics), Resources: []Resource{}}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
