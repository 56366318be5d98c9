package tool

import (
	"fmt"
	"reflect"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// MaxDescription is the longest description of a tool, in bytes.
const MaxDescription = 1024

// Common are the members that every input has. Each input type embeds it.
type Common struct {
	Budget *budget.Request `json:"budget,omitzero" desc:"Smaller tokens, bytes, items, tableRows, depth."`
	Cursor string          `json:"cursor,omitzero" schema:"minLength=1" desc:"From nextCursor or truncation, all else equal."`
}

func (c Common) common() Common { return c }

// An Input is a struct that embeds Common.
type Input interface{ common() Common }

// A Spec is what a tool says of itself.
type Spec struct {
	Name string
	// Description tells a model when to choose the tool, in at most
	// MaxDescription bytes.
	Description string
	Annotations Annotations
	// Places are where the data may be cut, as pointers into data. Diagnostics
	// and resources of a successful answer may be cut too and are not named
	// here.
	Places []budget.Place
	// Free are top-level members of the input that may differ when a cursor is
	// used; budget and cursor are always free.
	Free []string
}

// Annotations are the hints of the MCP specification. All four are always
// written.
type Annotations struct {
	ReadOnlyHint    bool `json:"readOnlyHint"`
	DestructiveHint bool `json:"destructiveHint"`
	IdempotentHint  bool `json:"idempotentHint"`
	OpenWorldHint   bool `json:"openWorldHint"`
}

// The annotations of this contract. Nothing a tool does is destructive: changes
// make new revisions and leave the old ones. A write is idempotent by its
// commandId. None reaches beyond the Project.
var (
	Reads  = Annotations{ReadOnlyHint: true, IdempotentHint: true}
	Writes = Annotations{IdempotentHint: true}
)

// A Definition is a tool with the types of its input and of the data it answers.
type Definition[In Input, Out any] struct{ spec Spec }

// Define states a tool. It panics for a type that package schema cannot read
// and for a description that is missing or too long: mistakes of the program.
// Every tool has one, in a package-level variable:
//
//	var Definition = tool.Define[Input, Output](tool.Spec{…})
func Define[In Input, Out any](spec Spec) Definition[In, Out] {
	if spec.Name == "" || spec.Description == "" || len(spec.Description) > MaxDescription {
		panic(fmt.Sprintf("tool: %q: the description has %d bytes", spec.Name, len(spec.Description)))
	}
	schema.Prepare[In]()
	schema.Prepare[Out]()
	return Definition[In, Out]{spec}
}

// Spec returns what the tool says of itself.
func (d Definition[In, Out]) Spec() Spec { return d.spec }

// Types returns the types of the input and of data, from which the schemas are
// made.
func (d Definition[In, Out]) Types() (in, out reflect.Type) {
	return reflect.TypeFor[In](), reflect.TypeFor[Out]()
}

// Check returns what the schema finds wrong with arguments, as the tool's first
// stage does: for whoever wants to know before sending.
func (d Definition[In, Out]) Check(arguments []byte) outcome.Findings {
	var in In
	return schema.Decode(arguments, &in)
}

// Defined is a Definition without its types, for the list of tools.
type Defined interface {
	Spec() Spec
	Types() (in, out reflect.Type)
	Check(arguments []byte) outcome.Findings
}
