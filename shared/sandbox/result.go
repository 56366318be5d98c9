package sandbox

import (
	"fmt"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// A Result is what a worker answers for a job: one entry a call, in their order. It
// is data from untrusted code: types, units and constraints are checked where the
// values are used.
type Result struct {
	V       int          `json:"v" schema:"minimum=1,maximum=1"`
	JobRef  string       `json:"jobRef" pattern:"^job_[0-9A-HJKMNP-TV-Z]{26}$"`
	Results []CallResult `json:"results" schema:"maxItems=2000"`
	RanBy   RanBy        `json:"ranBy"`
}

// A CallResult is what came of one call.
type CallResult struct {
	_       struct{}             `schema:"oneOf=values|error"`
	NodeKey string               `json:"nodeKey" schema:"pattern=key"`
	Values  map[string]canon.Raw `json:"values,omitzero"` // plain JSON, as in a Call
	Error   *CallError           `json:"error,omitzero"`
}

// A CallError says why a call gave no values. It holds the class of an exception
// and never its message, which could hold a value.
type CallError struct {
	Reason    string `json:"reason" schema:"pattern=key"` // exception, timeout, memory, result_type, …
	Line      int64  `json:"line,omitzero" schema:"minimum=1"`
	Exception string `json:"exception,omitzero" schema:"minLength=1,maxLength=200,text=line"`
}

// RanBy says what ran a job.
type RanBy struct {
	Python string `json:"python" schema:"maxLength=40,text=line"` // "3.11.2"
	GVisor string `json:"gvisor" schema:"maxLength=100,text=line"`
	Driver string `json:"driver" schema:"maxLength=40,text=line"` // rootless or task
}

// DecodeResult reads a result strictly.
func DecodeResult(text []byte) (Result, error) {
	if len(text) > MaxResultBytes {
		return Result{}, &LimitError{MaxResultBytes, len(text)}
	}
	var r Result
	return r, malformed("result", schema.Decode(text, &r))
}

// Answers reports whether the result has one entry for each call of the spec, in
// their order.
func (r Result) Answers(s Spec) error {
	nodes := s.Nodes()
	if r.JobRef != s.JobRef || len(r.Results) != len(nodes) {
		return fmt.Errorf("%w: result: it is not of this job and its calls", ErrMalformed)
	}
	for i, node := range nodes {
		if r.Results[i].NodeKey != node {
			return fmt.Errorf("%w: result: entry %d is of another node", ErrMalformed, i)
		}
	}
	return nil
}
