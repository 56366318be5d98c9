package run

import (
	"context"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// Open reads a saved Flow document and validates it with the code that runs now.
// Findings that refuse point into the document. Package calculation has the one
// that links all Components.
type Open func(ctx context.Context, document []byte) (Flow, outcome.Findings, error)

// A Flow is a saved Flow that can run.
type Flow interface {
	Nodes() int  // in all
	Stages() int // to run one after the other
	Cost() int64 // of one Run, for policy
	// Begin gives it the inputs of a Run; at is where they stand in the request.
	Begin(inputs map[string]canon.Raw, at string) (Calculation, outcome.Findings)
}

// A Calculation is a Flow with the inputs of one Run.
type Calculation interface {
	// Add takes over the stored results of a stage.
	Add(nodes canon.Raw) error
	// Evaluate calculates one stage and returns the results of its Nodes, in the
	// form of Add, how many Nodes that is, and why the others failed. It is pure.
	Evaluate(ctx context.Context, stage int) (nodes canon.Raw, done int, findings outcome.Findings, err error)
	// Results returns the public results after the last stage.
	Results() (map[string]Value, outcome.Findings, error)
}

// A Value is one public result.
type Value struct {
	Type  string
	Unit  string
	Shape canon.Raw
	Text  canon.Raw // the typed value, canonical
}
