package batch

import (
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/schema"
)

// MaxCases is how many cases one Batch may have (decision 16).
const MaxCases = 10_000

// RunReportFlowBatch is the one command of a Batch Run plan. It changes no document.
type RunReportFlowBatch struct {
	_ struct{} `desc:"Plans a Run a case; alone in its plan, which pxflow_run starts."`

	Kind          schema.Kind[RunReportFlowBatch] `json:"kind"`
	ConnectionKey string                          `json:"connectionKey" schema:"pattern=key"`
	Cases         []Case                          `json:"cases" schema:"minItems=1,maxItems=10000"`
	Merge         Merge                           `json:"merge"`
}

// A Case is one set of inputs under a key that stays the same however often it is
// repeated.
type Case struct {
	CaseKey string               `json:"caseKey" schema:"pattern=key"`
	Inputs  map[string]canon.Raw `json:"inputs" schema:"maxItems=500" desc:"By portKey; left out: the connection's."`
}

// A Merge says what the results of all cases become together: None, Table or
// Envelope.
type Merge interface {
	schema.Variant
	merge()
}

// None keeps each case's results with its own Run.
type None struct {
	Kind schema.Kind[None] `json:"kind"`
}

// Table makes one table: a row a case, in the order of the cases.
type Table struct {
	_ struct{} `desc:"A row a case. Left out: inputs that cases set, mapped scalar results."`

	Kind    schema.Kind[Table] `json:"kind"`
	Inputs  []string           `json:"inputs,omitzero" schema:"maxItems=500,each.pattern=key"`
	Results []string           `json:"results,omitzero" schema:"maxItems=500,each.pattern=key"`
}

// Envelope finds the governing case of all: the one whose value is the most extreme.
type Envelope struct {
	_ struct{} `desc:"Slots show the governing case."`

	Kind     schema.Kind[Envelope] `json:"kind"`
	PortKeys []string              `json:"portKeys" schema:"minItems=1,maxItems=500,each.pattern=key"`
	By       Extreme               `json:"by"`
}

// An Extreme is what governs.
type Extreme string

// The extremes.
const (
	Max    Extreme = "max"
	Min    Extreme = "min"
	AbsMax Extreme = "absMax" // the largest magnitude, whatever its sign
)

// Enum lists the extremes for package schema.
func (Extreme) Enum() []string { return []string{string(Max), string(Min), string(AbsMax)} }

func (None) merge()     {}
func (Table) merge()    {}
func (Envelope) merge() {}

// Variant returns the tag.
func (RunReportFlowBatch) Variant() string { return "RunReportFlowBatch" }

// Variant returns the tag.
func (None) Variant() string { return "none" }

// Variant returns the tag.
func (Table) Variant() string { return "table" }

// Variant returns the tag.
func (Envelope) Variant() string { return "envelope" }

var _ = schema.Union[Merge](None{}, Table{}, Envelope{})

// Normalized returns the one form of all commands that say the same: canonical
// values, and nothing about keys or order, which are the command's own. Values stay
// in the units in which they were reviewed.
func (c RunReportFlowBatch) Normalized() (RunReportFlowBatch, error) {
	cases := make([]Case, len(c.Cases))
	for i, one := range c.Cases {
		inputs := make(map[string]canon.Raw, len(one.Inputs))
		for key, value := range one.Inputs {
			text, err := canon.Canonicalize(value)
			if err != nil {
				return c, err
			}
			inputs[key] = text
		}
		cases[i] = Case{one.CaseKey, inputs}
	}
	c.Cases = cases
	return c, nil
}
