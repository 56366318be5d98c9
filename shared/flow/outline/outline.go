// Package outline reads of a saved Flow what may be known without evaluating it:
// its public ports, how many Nodes and stages it has, and what one Run costs.
//
// It does not judge the document, which was valid when it was saved: whether it
// still is for this version of the program, only who evaluates it can say (package
// flow). It knows neither Components nor formulas, so that what starts, ends or
// only shows Runs does not link what evaluates them.
package outline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// An Outline is a saved Flow from outside.
type Outline struct {
	Inputs, Results map[string]quantity.Port // public, by portKey
	Nodes           int
	// Stages is how many steps a Run takes one after the other: as many as
	// flow.Validate lays the document out in, and one of a Flow without any Node,
	// whose results still have to be carried over.
	Stages int
	// Sandbox are the stages, from 0, that call Functions, in order; nil is none.
	Sandbox []int
	// Packages are the releases whose Functions Nodes run, once each, in order.
	Packages []target.Package
	// Cost is of one Run, in Node evaluations plus the sandbox seconds that it may take
	// (decision 15).
	Cost int64
}

// A Function may take SandboxSeconds of processor time. FunctionCost is what one
// call of it counts in a policy's cost: it is evaluated, and takes no more than that.
const (
	SandboxSeconds = 10
	FunctionCost   = 1 + SandboxSeconds
)

// Read reads a saved Flow.
func Read(document []byte) (Outline, error) {
	var saved struct {
		Inputs  map[string]quantity.Port `json:"inputs"`
		Results map[string]quantity.Port `json:"results"`
		Nodes   map[string]node          `json:"nodes"`
	}
	if err := json.Unmarshal(document, &saved); err != nil {
		return Outline{}, fmt.Errorf("outline: %w", err)
	}
	out := Outline{Inputs: saved.Inputs, Results: saved.Results, Nodes: len(saved.Nodes)}
	if err := out.stages(saved.Nodes); err != nil {
		return Outline{}, err
	}
	owners := map[target.Package]bool{}
	for _, n := range saved.Nodes {
		if n.Target.Package != (target.Package{}) {
			owners[n.Target.Package] = true
		}
	}
	out.Packages = slices.SortedFunc(maps.Keys(owners), func(a, b target.Package) int {
		return cmp.Or(cmp.Compare(a.PackageKey, b.PackageKey), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Digest, b.Digest))
	})
	for _, n := range saved.Nodes { // every Component counts one: see flow.Cost
		if out.Cost++; n.sandbox() {
			out.Cost += SandboxSeconds
		}
	}
	return out, nil
}

type node struct {
	Target struct {
		Kind    string         `json:"kind"`
		Package target.Package `json:"package"`
	} `json:"target"`
	InputBindings map[string]struct {
		Kind    string `json:"kind"`
		NodeKey string `json:"nodeKey"`
	} `json:"inputBindings"`
}

// A stage is known by how many sandbox stages come before it and whether it is one
// itself: see flow's stages, which this counts.
type stage struct {
	level   int
	sandbox bool
}

func (o *Outline) stages(nodes map[string]node) error {
	const visiting = -1
	levels := make(map[string]int, len(nodes))
	var level func(key string) (int, error)
	level = func(key string) (int, error) {
		if known, ok := levels[key]; ok {
			if known == visiting {
				return 0, fmt.Errorf("outline: a saved flow has a cycle")
			}
			return known, nil
		}
		levels[key] = visiting
		deepest := 0
		for _, binding := range nodes[key].InputBindings {
			from, ok := nodes[binding.NodeKey]
			if !ok {
				continue
			}
			over, err := level(binding.NodeKey)
			if err != nil {
				return 0, err
			}
			if from.sandbox() {
				over++
			}
			deepest = max(deepest, over)
		}
		levels[key] = deepest
		return deepest, nil
	}
	found := map[stage]bool{}
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		l, err := level(key)
		if err != nil {
			return err
		}
		found[stage{l, nodes[key].sandbox()}] = true
	}
	// Of one level, the built-in Nodes come before the Functions.
	deepest := -1
	for s := range found {
		deepest = max(deepest, s.level)
	}
	for l := range deepest + 1 {
		if found[stage{l, false}] {
			o.Stages++
		}
		if found[stage{l, true}] {
			o.Sandbox = append(o.Sandbox, o.Stages)
			o.Stages++
		}
	}
	o.Stages = max(1, o.Stages)
	return nil
}

func (n node) sandbox() bool { return n.Target.Kind == "function" }

// Inputs checks a Run's inputs against public ports. values are typed values by
// portKey, which stand at the JSON Pointer at (such as /inputs) in the request.
// What is left out takes the port's default, or null where the port allows it.
func Inputs(ports map[string]quantity.Port, values map[string]canon.Raw, at string) (map[string]quantity.Value, outcome.Findings) {
	var findings outcome.Findings
	inputs := make(map[string]quantity.Value, len(ports))
	for _, key := range semantic.BothKeys(ports, values) {
		path := at + semantic.Pointer(key)
		port, declared := ports[key]
		raw, given := values[key]
		switch {
		case !declared:
			findings.Add(outcome.ReferenceUnknown, path, outcome.Params{"portKey": key})
			continue
		case given:
		case port.Default != nil:
			raw = port.Default
		case port.AllowsNull():
			inputs[key] = quantity.Null{}
			continue
		default:
			findings.Add(outcome.BindingMissing, path, outcome.Params{"portKey": key, "consumer": port})
			continue
		}
		value, found := port.Decode(raw, path)
		findings = append(findings, found...)
		inputs[key] = value
	}
	return inputs, findings
}
