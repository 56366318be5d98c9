package report

import (
	"slices"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// A Direction tells which way a mapping carries values, as seen from the Flow.
type Direction string

// The directions.
const (
	Input  Direction = "input"  // from a field into the Flow
	Result Direction = "result" // from the Flow into a slot
)

// A MappingState says whether a value arrives.
type MappingState string

// The states of a mapping.
const (
	Connected MappingState = "connected" // both ends fit
	Converted MappingState = "converted" // connected, and the unit is converted on the way
	Unfilled  MappingState = "unfilled"  // both ends fit, and the field has no value yet
	Mismatch  MappingState = "mismatch"  // the ends do not fit
	Dangling  MappingState = "dangling"  // one end is not there
	Unchecked MappingState = "unchecked" // the contract at one end is unknown or broken
)

// A Mapped is one mapping with all that a plan shows of it (R2): the place in the
// Report, the exact Flow revision and its public port, the two contracts side by
// side, and how they compare.
type Mapped struct {
	Path          string      `json:"path"`
	ConnectionKey string      `json:"connectionKey"`
	MappingKey    string      `json:"mappingKey"`
	Direction     Direction   `json:"direction"`
	FlowTarget    target.Flow `json:"flowTarget"`
	PortKey       string      `json:"portKey"`
	// Source is of an input and Target of a result; the other is zero.
	Source   ReportValue      `json:"source,omitzero"`
	Target   ReportResultSlot `json:"target,omitzero"`
	Contract quantity.Port    `json:"contract"` // of the field or slot
	Port     quantity.Port    `json:"port"`     // of the Flow
	Checks   []Check          `json:"checks"`
}

// A CheckKind is one aspect in which two contracts are compared.
type CheckKind string

// The aspects.
const (
	TypeCheck        CheckKind = "type"
	UnitCheck        CheckKind = "unit" // where both are numbers
	ShapeCheck       CheckKind = "shape"
	NullabilityCheck CheckKind = "nullability"
)

// A Verdict is how a check came out.
type Verdict string

// The verdicts.
const (
	VerdictFits      Verdict = "fits"
	VerdictConverted Verdict = "converted" // of units alone
	VerdictMismatch  Verdict = "mismatch"
)

// A Check compares one aspect of the two ends of a mapping, as their contracts
// write it: "ft" and "m". Where members of a record, list or table do not fit,
// the verdict is mismatch though the two sides read the same; the finding names
// the member.
type Check struct {
	Kind    CheckKind `json:"kind"`
	Report  string    `json:"report"`
	Flow    string    `json:"flow"`
	Verdict Verdict   `json:"verdict"`
}

// checksOf tells what Fits found, aspect by aspect.
func checksOf(m Mapped, findings outcome.Findings) []Check {
	verdict := func(code outcome.Code) Verdict {
		if slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool { return d.Code == code }) {
			return VerdictMismatch
		}
		return VerdictFits
	}
	nullable := func(p quantity.Port) string {
		if p.AllowsNull() {
			return "nullable"
		}
		return "not_nullable"
	}
	shape := func(p quantity.Port) string {
		if p.Shape.IsScalar() {
			return "scalar"
		}
		return p.Shape.String()
	}
	r, f := m.Contract, m.Port
	checks := []Check{
		{TypeCheck, string(r.Type), string(f.Type), verdict(outcome.TypeMismatch)},
		{ShapeCheck, shape(r), shape(f), verdict(outcome.ShapeMismatch)},
		{NullabilityCheck, nullable(r), nullable(f), verdict(outcome.NullabilityMismatch)},
	}
	unit := Check{UnitCheck, r.Unit, f.Unit, verdict(outcome.UnitMismatch)}
	if unit.Verdict == VerdictFits && stateOf(findings) == Converted {
		unit.Verdict = VerdictConverted
	}
	if r.Type == quantity.NumberType && f.Type == quantity.NumberType || unit.Verdict != VerdictFits {
		checks = append(checks, unit)
	}
	return checks
}

// changedMappings returns the mappings of after that a plan must show: those
// that it writes, and those that came out or compare differently from before.
func changedMappings(before, after Analysis, touched []string) []Mapped {
	known := make(map[string]Mapped, len(before.Mappings))
	for _, m := range before.Mappings {
		known[m.Path] = m
	}
	writes := make(map[string]bool, len(touched))
	for _, path := range touched {
		writes[path] = true
	}
	written := func(paths ...string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return writes[path] })
	}
	out := []Mapped{}
	for _, m := range after.Mappings {
		was, ok := known[m.Path]
		connection := semantic.Pointer("connections", m.ConnectionKey)
		if !ok || was.FlowTarget != m.FlowTarget || was.PortKey != m.PortKey || was.Source != m.Source || was.Target != m.Target ||
			!slices.Equal(was.Checks, m.Checks) || written("", connection, connection+"/flowTarget", m.Path) {
			out = append(out, m)
		}
	}
	return out
}
