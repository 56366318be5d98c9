package asl

import (
	"time"

	"github.com/pxhost/pxhost/infra/local/jsonata"
)

// Machine is a checked definition.
type Machine struct {
	Workflow
	Comment        string
	TimeoutSeconds int64 // of a whole execution; 0 is none
}

// Workflow is a set of states with a start: the machine itself, a branch of a
// Parallel, or the processor of a Map.
type Workflow struct {
	StartAt string
	States  map[string]State
	// ID tells workflows of one machine apart, in the order of the text: the
	// machine's own is 0. An execution that was saved names its workflow by it.
	ID int
}

// State is one of *Pass, *Task, *Choice, *Wait, *Succeed, *Fail, *Parallel, *Map,
// *DistributedMap.
type State interface {
	// Common gives the fields all states share.
	Common() *Fields
	sealed()
}

// Fields are what states share. Next is empty when the state ends its workflow.
type Fields struct {
	Name   string
	Type   string
	Next   string
	Assign *Template // an object; nil is none
	Output *Template // nil: the state's own default
}

// Common gives the fields themselves.
func (f *Fields) Common() *Fields { return f }
func (f *Fields) sealed()         {}

// Pass hands its input on.
type Pass struct{ Fields }

// Succeed ends its workflow well.
type Succeed struct{ Fields }

// Fail ends the execution, or its branch, with an error.
type Fail struct {
	Fields
	Error, Cause *Template // strings; nil is none
}

// Task calls a Lambda function.
type Task struct {
	Fields
	WaitForToken                     bool
	Resource                         string // "invoke" or "invoke.waitForTaskToken", as history events name it
	Arguments                        *Template
	TimeoutSeconds, HeartbeatSeconds *Template // numbers; nil is none
	Handlers
}

// Choice goes where its first true rule says.
type Choice struct {
	Fields
	Rules   []Rule
	Default string // empty: none
}

// Rule is one branch of a Choice.
type Rule struct {
	Condition      *Template // an expression
	Next           string
	Assign, Output *Template
}

// Wait lets time pass. Exactly one of Seconds and Timestamp is set.
type Wait struct {
	Fields
	Seconds, Timestamp *Template
}

// Parallel runs all its branches.
type Parallel struct {
	Fields
	Branches  []*Workflow
	Arguments *Template // the branches' input; nil: the state's input
	Handlers
}

// Map runs its processor for each item, inline.
type Map struct {
	Fields
	Items          *Template // nil: the state's input
	ItemSelector   *Template // nil: the item
	MaxConcurrency *Template // nil or 0: InlineConcurrency
	Processor      *Workflow
	Handlers
}

// InlineConcurrency is how many iterations of an inline Map run side by side at most.
const InlineConcurrency = 40

// DistributedMap runs its processor for each item in an execution of its own. It
// shares the type's name with Map and nothing of the running. At most one of
// Items and Reader is set; with none, the state's input is the array of items.
type DistributedMap struct {
	Fields
	Items            *Template
	Reader           *ItemReader
	ItemSelector     *Template // nil: the item
	MaxConcurrency   *Template // nil or 0: DistributedConcurrency
	ToleratedCount   *Template // nil: not given
	ToleratedPercent *Template // nil: not given; 0 to 100
	Label            string    // a part of the ARNs of the Map Run and its children
	Processor        *Workflow
	Handlers
}

// ItemReader reads the items from one S3 object.
type ItemReader struct {
	Arguments *Template // an object with Bucket and Key
	JSONL     bool      // a JSON value a line; otherwise one JSON array
	MaxItems  *Template // nil or 0: all
}

// DistributedConcurrency is how many children of one Map Run run side by side at
// most. AWS starts up to 10,000, and promises no number; here they share one
// process.
const DistributedConcurrency = 1000

// Handlers are what Task, Parallel and Map do about errors.
type Handlers struct {
	Retry []Retrier
	Catch []Catcher
}

// Retrier repeats a failed state.
type Retrier struct {
	ErrorEquals []string
	Interval    time.Duration
	MaxAttempts int64
	BackoffRate float64
	MaxDelay    time.Duration // 0 is none
	FullJitter  bool
}

// Catcher leads on from a failed state.
type Catcher struct {
	ErrorEquals    []string
	Next           string
	Assign, Output *Template
}

// Walk calls f for the workflow and all workflows inside it.
func (w *Workflow) Walk(f func(*Workflow)) {
	f(w)
	for _, state := range w.States {
		switch s := state.(type) {
		case *Parallel:
			for _, branch := range s.Branches {
				branch.Walk(f)
			}
		case *Map:
			s.Processor.Walk(f)
		case *DistributedMap:
			s.Processor.Walk(f)
		}
	}
}

// Template is a JSON value in which strings of the form {% … %} are evaluated.
type Template struct {
	// Location is the place inside the state, as error causes give it:
	// "Arguments/Payload/x".
	Location string

	literal []byte // with no expression inside
	program *jsonata.Program
	names   []string // of an object
	parts   []*Template
	array   bool
}

// Literal gives the value when nothing in it is evaluated.
func (t *Template) Literal() ([]byte, bool) { return t.literal, t.literal != nil }

// Expression gives the program when the whole value is one expression.
func (t *Template) Expression() (*jsonata.Program, bool) { return t.program, t.program != nil }

// Eval evaluates each expression inside by eval and puts the results in place.
func (t *Template) Eval(eval func(p *jsonata.Program, location string) ([]byte, error)) ([]byte, error) {
	return t.append(nil, eval)
}

// EvalFields evaluates an object's members one by one.
func (t *Template) EvalFields(eval func(p *jsonata.Program, location string) ([]byte, error)) (names []string, values [][]byte, err error) {
	for i, part := range t.parts {
		value, err := part.Eval(eval)
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, t.names[i]), append(values, value)
	}
	return names, values, nil
}

func (t *Template) append(dst []byte, eval func(*jsonata.Program, string) ([]byte, error)) ([]byte, error) {
	switch {
	case t.literal != nil:
		return append(dst, t.literal...), nil
	case t.program != nil:
		value, err := eval(t.program, t.Location)
		return append(dst, value...), err
	}
	opening, closing := byte('{'), byte('}')
	if t.array {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	for i, part := range t.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !t.array {
			dst = appendQuoted(dst, t.names[i])
			dst = append(dst, ':')
		}
		var err error
		if dst, err = part.append(dst, eval); err != nil {
			return nil, err
		}
	}
	return append(dst, closing), nil
}
