package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// A Description is what pxflow_describe says of a document (D1): the public
// boundary, the Nodes with their settings and the state of every binding, and
// what the Flow depends on. Policy, operations, usage and generation are added
// by whoever knows them.
type Description struct {
	Label        target.Label               `json:"label"`
	Authoring    Authoring                  `json:"authoring"`
	Inputs       map[string]quantity.Port   `json:"inputs" schema:"each.bare" desc:"Contracts by portKey."`
	Results      map[string]DescribedResult `json:"results"`
	Nodes        map[string]DescribedNode   `json:"nodes"`
	Dependencies []Dependency               `json:"dependencies"`
}

// A BindingState says whether a value arrives.
type BindingState string

// The states of a binding.
const (
	Connected BindingState = "connected" // bound, and both ends fit
	Converted BindingState = "converted" // connected, and the unit is converted on the way
	Mismatch  BindingState = "mismatch"  // bound to something that does not fit
	Dangling  BindingState = "dangling"  // bound to something that is not there
	Defaulted BindingState = "default"   // not bound; the port's default, or null, is taken
	Missing   BindingState = "missing"   // not bound, and a value is required
	Unchecked BindingState = "unchecked" // bound, but the contract at one end is unknown
)

// A DescribedResult is a public result with where it comes from.
type DescribedResult struct {
	Contract quantity.Port `json:"contract"`
	Binding  Binding       `json:"binding,omitzero"`
	State    BindingState  `json:"state"`
}

// A DescribedNode is a Node with the ports that its settings give it.
type DescribedNode struct {
	Label    target.Label              `json:"label,omitzero"`
	Target   Target                    `json:"target"`
	Settings Settings                  `json:"settings"`
	Inputs   map[string]DescribedInput `json:"inputs"`
	Results  map[string]quantity.Port  `json:"results"`
	// Stage is the number, from 0, of the stage of a Run that the Node is in, or
	// absent when the Flow has a cycle.
	Stage *int `json:"stage,omitzero"`
}

// A DescribedInput is an input of a Node. Contract is absent for a binding of a
// port that the Node does not have.
type DescribedInput struct {
	Contract *quantity.Port `json:"contract,omitzero"`
	Binding  Binding        `json:"binding,omitzero"`
	State    BindingState   `json:"state"`
}

// A Dependency is something that Nodes run, with the Nodes that do.
type Dependency struct {
	Target   Target   `json:"target"`
	NodeKeys []string `json:"nodeKeys"`
	// Available is false for what does not exist or may not run here.
	Available bool `json:"available"`
}

// Dependencies lists every Component and Function that the document's Nodes run,
// once each, Components first, by key, version and digest.
func Dependencies(doc Document) []Dependency {
	byTarget := map[Target]*Dependency{}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		t := doc.Nodes[key].Target
		if byTarget[t] == nil {
			byTarget[t] = &Dependency{Target: t}
		}
		byTarget[t].NodeKeys = append(byTarget[t].NodeKeys, key)
	}
	out := make([]Dependency, 0, len(byTarget))
	for _, d := range byTarget {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b Dependency) int { return compareTargets(a.Target, b.Target) })
	return out
}

// SearchText returns what a search may find the Flow by (S5): its keys, labels
// in every language, port names, units and what its Nodes run, once each, in
// order.
func SearchText(doc Document) []string {
	words := map[string]bool{doc.FlowKey: true}
	label := func(l target.Label) {
		for _, text := range l {
			words[text] = true
		}
	}
	port := func(key string, p quantity.Port) {
		words[key] = true
		for _, unit := range units(p) {
			words[unit] = true
		}
	}
	label(doc.Label)
	for key, p := range doc.Inputs {
		port(key, p)
	}
	for key, p := range doc.Results {
		port(key, p.Port)
	}
	for key, node := range doc.Nodes {
		words[key] = true
		label(node.Label)
		switch t := node.Target.(type) {
		case ComponentTarget:
			words[t.ComponentKey] = true
		case FunctionTarget:
			words[t.FunctionKey] = true
			if t.Owned() {
				words[t.Package.PackageKey] = true
			}
		default:
			panic(fmt.Sprintf("flow: target %T", t))
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// compareTargets orders Components before Functions, then by key, version, digest and
// owner.
func compareTargets(a, b Target) int {
	rank := func(t Target) (kind int, key string, version int, digest string, owner target.Package) {
		switch t := t.(type) {
		case ComponentTarget:
			return 0, t.ComponentKey, t.Version, "", owner
		case FunctionTarget:
			return 1, t.FunctionKey, t.Version, t.Digest, t.Package
		default:
			panic(fmt.Sprintf("flow: target %T", t))
		}
	}
	kindA, keyA, versionA, digestA, ownerA := rank(a)
	kindB, keyB, versionB, digestB, ownerB := rank(b)
	return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(keyA, keyB), cmp.Compare(versionA, versionB), cmp.Compare(digestA, digestB),
		cmp.Compare(ownerA.PackageKey, ownerB.PackageKey), cmp.Compare(ownerA.Version, ownerB.Version), cmp.Compare(ownerA.Digest, ownerB.Digest))
}

// units returns the units that a contract names, at every depth.
func units(p quantity.Port) []string {
	var out []string
	add := func(unit string) {
		if unit != "" && unit != "1" {
			out = append(out, unit)
		}
	}
	add(p.Unit)
	for _, field := range p.Fields {
		out = append(out, units(field)...)
	}
	if p.Of != nil {
		out = append(out, units(*p.Of)...)
	}
	for _, column := range p.Columns {
		add(column.Unit)
	}
	return out
}

// Describe tells what a document says, with what Validate found out about it.
func Describe(doc Document, analysis Analysis) Description {
	d := Description{
		Label: orEmpty(doc.Label), Authoring: doc.Authoring, Inputs: orEmpty(doc.Inputs),
		Results:      make(map[string]DescribedResult, len(doc.Results)),
		Nodes:        make(map[string]DescribedNode, len(doc.Nodes)),
		Dependencies: Dependencies(doc),
	}
	for key, port := range doc.Results {
		d.Results[key] = DescribedResult{port.Port, port.Binding, analysis.states[semantic.Pointer("results", key, "binding")]}
	}
	stage := map[string]int{}
	for i, s := range analysis.Stages {
		for _, key := range s.NodeKeys {
			stage[key] = i
		}
	}
	for key, node := range doc.Nodes {
		contract := analysis.Contracts[key]
		n := DescribedNode{Label: node.Label, Target: node.Target, Settings: orEmpty(node.Settings),
			Inputs: map[string]DescribedInput{}, Results: orEmpty(contract.Results)}
		for _, port := range semantic.BothKeys(contract.Inputs, node.InputBindings) {
			in := DescribedInput{Binding: node.InputBindings[port], State: analysis.states[semantic.Pointer("nodes", key, "inputBindings", port)]}
			if p, ok := contract.Inputs[port]; ok {
				in.Contract = &p
			}
			n.Inputs[port] = in
		}
		if s, ok := stage[key]; ok {
			n.Stage = &s
		}
		d.Nodes[key] = n
	}
	for i := range d.Dependencies {
		d.Dependencies[i].Available = analysis.available[d.Dependencies[i].Target]
	}
	return d
}
