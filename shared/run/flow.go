package run

import (
	"context"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/target"
)

// Open reads a saved Flow document of a Project and validates it with the code that runs now.
// Findings that refuse point into the document. Package calculation has the one
// that links all Components.
//
// It is needed to carry out a stage alone. A start reads the Flow's outline: it
// refuses all that the outline tells (inputs, cost), and leaves to the first stage
// whether a document that was valid when it was saved is so for this version of
// the program; the Run then fails with Open's findings. The last stage carries the
// results over to the public ports, so that ending a Run needs the Flow no more.
type Open func(ctx context.Context, project target.Project, document []byte) (Flow, outcome.Findings, error)

// A Flow is a saved Flow that can run.
type Flow interface {
	Kinds() []StageKind // of the stages, one after the other; none of a Flow without any Node
	// Begin gives it the inputs of a Run; at is where they stand in the request.
	Begin(inputs map[string]canon.Raw, at string) (Calculation, outcome.Findings)
}

// A Calculation is a Flow with the inputs of one Run.
type Calculation interface {
	// Add takes over the stored results of a stage.
	Add(nodes canon.Raw) error
	// Evaluate calculates one built-in stage and returns the results of its Nodes, in
	// the form of Add, how many Nodes that is, and why the others failed. It is pure.
	Evaluate(ctx context.Context, stage int) (nodes canon.Raw, done int, findings outcome.Findings, err error)
	// Calls returns what a sandbox stage calls, and why other Nodes of it cannot be
	// called. It is pure.
	Calls(stage int) ([]sandbox.Call, outcome.Findings, error)
	// Sources reads the sources of calls, by digest.
	Sources(ctx context.Context, calls []sandbox.Call) (map[string]string, error)
	// Take holds what came of the calls of a stage against their contracts and
	// returns it as Evaluate does. It is pure.
	Take(stage int, results []sandbox.CallResult) (nodes canon.Raw, done int, findings outcome.Findings, err error)
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
