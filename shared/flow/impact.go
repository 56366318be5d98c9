package flow

import (
	"slices"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// A CheckKind is one aspect in which two ports are compared.
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

// A Check compares one aspect of the two ends of a binding. Producer and
// Consumer are that aspect as the ports write it: "kip*ft" and "kN*m".
type Check struct {
	Path     string    `json:"path"` // of the binding
	Kind     CheckKind `json:"kind"`
	Producer string    `json:"producer"`
	Consumer string    `json:"consumer"`
	Verdict  Verdict   `json:"verdict"`
}

// checksOf tells what Fits found, aspect by aspect.
func checksOf(producer, consumer quantity.Port, path string, findings outcome.Findings) []Check {
	verdict := func(codes ...outcome.Code) Verdict {
		for _, d := range findings {
			if slices.Contains(codes, d.Code) {
				return VerdictMismatch
			}
		}
		return VerdictFits
	}
	nullable := func(p quantity.Port) string {
		if p.AllowsNull() {
			return "nullable"
		}
		return "not_nullable"
	}
	checks := []Check{
		{path, NullabilityCheck, nullable(producer), nullable(consumer), verdict(outcome.NullabilityMismatch)},
		{path, ShapeCheck, shapeName(producer), shapeName(consumer), verdict(outcome.ShapeMismatch)},
		{path, TypeCheck, string(producer.Type), string(consumer.Type), verdict(outcome.TypeMismatch)},
	}
	if producer.Type == quantity.NumberType && consumer.Type == quantity.NumberType {
		unit := Check{path, UnitCheck, producer.Unit, consumer.Unit, verdict(outcome.UnitMismatch)}
		if unit.Verdict == VerdictFits && stateOf(findings) == Converted {
			unit.Verdict = VerdictConverted
		}
		checks = append(checks, unit)
	}
	return checks
}

func shapeName(p quantity.Port) string {
	if p.Shape.IsScalar() {
		return "scalar"
	}
	return p.Shape.String()
}

// ChangedChecks returns the checks of after that a plan must show: those of the
// bindings that the plan writes, and those that came out or compare differently
// from before. before is the zero Analysis for a new Flow.
func ChangedChecks(before, after Analysis, touched []string) []Check {
	known := make(map[Check]bool, len(before.Checks))
	for _, c := range before.Checks {
		known[c] = true
	}
	out := []Check{}
	for _, c := range after.Checks {
		if !known[c] || slices.ContainsFunc(touched, func(path string) bool { return semantic.Within(c.Path, path) }) {
			out = append(out, c)
		}
	}
	return out
}

// A PortChange is a difference of the public boundary of a Flow, where Reports
// and Runs meet it (F3).
type PortChange struct {
	Path    string         `json:"path"` // /inputs/span or /results/utilization
	PortKey string         `json:"portKey"`
	Result  bool           `json:"-"` // a public result, and no input
	Op      string         `json:"op"`
	Before  *quantity.Port `json:"before,omitzero"`
	After   *quantity.Port `json:"after,omitzero"`
	// Breaking is true where what fitted the old contract may not fit the new
	// one: a result that is gone or means something else, an input that is gone,
	// is newly required or accepts less of what it accepted by type, unit, shape
	// or nullability. Narrower constraints are not judged; they are in Before and
	// After.
	Breaking bool `json:"breaking"`
}

// BoundaryDiff compares the public ports of two documents, in order of paths.
// before is nil for a new Flow. Where a result comes from is no part of it.
func BoundaryDiff(before *Document, after Document) []PortChange {
	was := Document{}
	if before != nil {
		was = *before
	}
	out := []PortChange{}
	for _, key := range semantic.BothKeys(was.Inputs, after.Inputs) {
		old, had := was.Inputs[key]
		now, has := after.Inputs[key]
		c := portChange("inputs", key, old, had, now, has)
		switch c.Op {
		case "":
			continue
		case semantic.OpAdd:
			c.Breaking = before != nil && !optional(now)
		case semantic.OpRemove:
			c.Breaking = true
		default:
			c.Breaking = !fits(old, now) || optional(old) && !optional(now)
		}
		out = append(out, c)
	}
	for _, key := range semantic.BothKeys(was.Results, after.Results) {
		old, had := was.Results[key]
		now, has := after.Results[key]
		c := portChange("results", key, old.Port, had, now.Port, has)
		switch c.Op {
		case "":
			continue
		case semantic.OpRemove:
			c.Breaking = true
		case semantic.OpReplace:
			c.Breaking = !fits(now.Port, old.Port)
		}
		out = append(out, c)
	}
	return out
}

func portChange(list, key string, old quantity.Port, had bool, now quantity.Port, has bool) PortChange {
	c := PortChange{Path: semantic.Pointer(list, key), PortKey: key, Result: list == "results"}
	switch {
	case !had:
		c.Op, c.After = semantic.OpAdd, &now
	case !has:
		c.Op, c.Before = semantic.OpRemove, &old
	case samePort(old, now):
		return PortChange{}
	default:
		c.Op, c.Before, c.After = semantic.OpReplace, &old, &now
	}
	return c
}

func fits(producer, consumer quantity.Port) bool {
	_, findings := quantity.Fits(producer, consumer, "")
	return !findings.Refused()
}
