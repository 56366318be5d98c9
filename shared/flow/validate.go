package flow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/component"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// Contracts finds the contracts of a Project's Functions. One that is not in the
// answer, with the exact version and digest, is not there for this principal. All
// that a document runs is asked for at once.
type Contracts interface {
	Functions(ctx context.Context, refs []FunctionTarget) (map[FunctionTarget]component.Contract, error)
}

// An Explainer is a Contracts that can tell why it does not have a Function: a code and
// params beside those that name the Function, or "" where there is nothing to tell but
// that it is not there. It is asked of what it was asked for and did not find.
type Explainer interface {
	Explain(ref FunctionTarget) (outcome.Code, outcome.Params)
}

// missing tells of a Function that was not found.
func missing(contracts Contracts, t FunctionTarget, path string) outcome.Diagnostic {
	code, params := outcome.ReferenceUnknown, outcome.Params{"functionKey": t.FunctionKey, "version": t.Version, "digest": t.Digest}
	if t.Owned() {
		params["package"] = t.Package
	}
	if e, ok := contracts.(Explainer); ok {
		if why, more := e.Explain(t); why != "" {
			code = why
			maps.Copy(params, more)
		}
	}
	return outcome.New(code, path, params)
}

// A ComponentExplainer is a Contracts that can tell more of a Component that is not
// supported: what the Project has recorded of it, or could install, and the hand-off to
// where that is. It is asked of what no Node may run, whatever it answers.
type ComponentExplainer interface {
	ExplainComponent(ctx context.Context, t ComponentTarget) (outcome.Params, error)
}

// notRunnable tells of the Components of a document that no Node may run.
func notRunnable(ctx context.Context, doc Document, contracts Contracts) (map[ComponentTarget]outcome.Params, error) {
	e, ok := contracts.(ComponentExplainer)
	out := map[ComponentTarget]outcome.Params{}
	for _, node := range doc.Nodes {
		t, is := node.Target.(ComponentTarget)
		if _, asked := out[t]; !ok || !is || asked || strings.HasPrefix(t.ComponentKey, firstParty) {
			continue
		}
		params, err := e.ExplainComponent(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("flow: a component: %w", err)
		}
		out[t] = params
	}
	return out, nil
}

// Known are Functions that were found already.
type Known map[FunctionTarget]component.Contract

// Functions implements Contracts.
func (k Known) Functions(_ context.Context, refs []FunctionTarget) (map[FunctionTarget]component.Contract, error) {
	out := make(map[FunctionTarget]component.Contract, len(refs))
	for _, r := range refs {
		if c, ok := k[r]; ok {
			out[r] = c
		}
	}
	return out, nil
}

// NoFunctions is the Contracts of a Project that has none.
type NoFunctions struct{}

// Functions finds nothing.
func (NoFunctions) Functions(context.Context, []FunctionTarget) (map[FunctionTarget]component.Contract, error) {
	return nil, nil
}

// An Analysis is what there is to know of a document. Of a document with
// findings it holds what could be found out.
type Analysis struct {
	Canonical   []byte // the document's canonical encoding
	RevisionRef string // and its digest
	// Contracts are the ports of each Node whose target and settings are in
	// order.
	Contracts map[string]component.Contract
	// Stages are in order of execution; nil when there is a cycle or a Node
	// without a contract.
	Stages []Stage
	// Checks say of every binding with a known contract at both ends how the two
	// compare, in order of paths.
	Checks []Check

	// conversions and literals are what evaluation needs, by binding path.
	conversions map[string]quantity.Conversion
	literals    map[string]quantity.Value
	states      map[string]BindingState
	available   map[Target]bool // targets that exist and may run
}

// Validate looks at the whole document and returns all its findings, in order of
// paths, which point into the document. Findings of severity info do not refuse
// it. The error is of the machinery alone: of contracts or of the encoding.
//
// An input that is not bound is no finding where its port has a default or may
// be null. All Nodes on cycles are named in findings (see graph.cycles).
func Validate(ctx context.Context, doc Document, contracts Contracts) (Analysis, outcome.Findings, error) {
	v := &validator{doc: doc, from: contracts, Analysis: Analysis{
		Contracts:   make(map[string]component.Contract, len(doc.Nodes)),
		conversions: map[string]quantity.Conversion{},
		literals:    map[string]quantity.Value{},
		states:      map[string]BindingState{},
		available:   map[Target]bool{},
	}}
	var err error
	if v.Canonical, v.RevisionRef, err = doc.RevisionRef(); err != nil {
		return v.Analysis, nil, err
	}
	v.limits()
	for _, key := range slices.Sorted(maps.Keys(doc.Inputs)) {
		v.add(doc.Inputs[key].Check(semantic.Pointer("inputs", key)))
	}
	functions, err := functionsOf(ctx, doc, contracts)
	if err != nil {
		return v.Analysis, nil, err
	}
	if v.explained, err = notRunnable(ctx, doc, contracts); err != nil {
		return v.Analysis, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		v.contract(key, functions)
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		v.inputs(key)
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Results)) {
		v.result(key)
	}
	v.order()
	slices.SortFunc(v.Checks, func(a, b Check) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	slices.SortStableFunc(v.findings, func(a, b outcome.Diagnostic) int { return strings.Compare(a.Path, b.Path) })
	return v.Analysis, v.findings, nil
}

type validator struct {
	doc  Document
	from Contracts
	Analysis
	findings  outcome.Findings
	explained map[ComponentTarget]outcome.Params
}

func (v *validator) add(findings outcome.Findings) { v.findings = append(v.findings, findings...) }

func (v *validator) limits() {
	if n := len(v.doc.Nodes); n > MaxNodes {
		v.findings.Add(outcome.LimitExceeded, semantic.Pointer("nodes"), outcome.Params{"limit": MaxNodes, "observed": n})
	}
	if n := len(v.Canonical); n > MaxBytes {
		v.findings.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxBytes, "observed": n})
	}
}

// Functions returns the Functions that the document's Nodes run, once each, in
// order.
func Functions(doc Document) []FunctionTarget {
	seen := map[FunctionTarget]bool{}
	var out []FunctionTarget
	for _, node := range doc.Nodes {
		if t, ok := node.Target.(FunctionTarget); ok && !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b FunctionTarget) int { return compareTargets(a, b) })
	return out
}

// functionsOf finds the contracts of all Functions of a document.
func functionsOf(ctx context.Context, doc Document, contracts Contracts) (map[FunctionTarget]component.Contract, error) {
	refs := Functions(doc)
	if refs == nil {
		return nil, nil
	}
	found, err := contracts.Functions(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("flow: contracts of functions: %w", err)
	}
	return found, nil
}

// contract finds the ports of one Node.
func (v *validator) contract(key string, functions map[FunctionTarget]component.Contract) {
	node, path := v.doc.Nodes[key], semantic.Pointer("nodes", key)
	switch t := node.Target.(type) {
	case ComponentTarget:
		c, ok := component.Lookup(t.ComponentKey, t.Version)
		if !ok {
			v.add(unknownComponent(t, path+"/target", v.explained[t]))
			return
		}
		v.available[t] = true
		contract, findings := c.Derive(settingsText(node.Settings), path+"/settings")
		v.add(findings)
		if !findings.Refused() {
			v.Contracts[key] = contract
		}
	case FunctionTarget:
		contract, ok := functions[t]
		if !ok {
			v.findings = append(v.findings, missing(v.from, t, path+"/target"))
			return
		}
		v.available[t] = true
		for _, name := range slices.Sorted(maps.Keys(node.Settings)) {
			v.findings.Add(outcome.SchemaUnknownField, path+semantic.Pointer("settings", name), outcome.Params{"reason": "functions_have_no_settings"})
		}
		v.Contracts[key] = contract
	default:
		panic(fmt.Sprintf("flow: target %T", t))
	}
}

// firstParty is the prefix of the keys that only built-in Components have
// (decision 9).
const firstParty = "px."

// unknownComponent tells a first-party key or version that does not exist from a
// third-party Component, which may exist but is never placed, bound or run (K3).
func unknownComponent(t ComponentTarget, path string, more outcome.Params) (findings outcome.Findings) {
	params := outcome.Params{"componentKey": t.ComponentKey, "version": t.Version}
	maps.Copy(params, more)
	if strings.HasPrefix(t.ComponentKey, firstParty) {
		findings.Add(outcome.ReferenceUnknown, path, params)
	} else {
		findings.Add(outcome.ComponentNotRunnable, path, params)
	}
	return findings
}

// settingsText is the settings as one canonical object, put together from values
// that are canonical already.
func settingsText(settings Settings) canon.Raw {
	text := canon.Raw{'{'}
	for i, name := range slices.Sorted(maps.Keys(settings)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = append(text, name...) // a name that the schema admits needs no escape
		text = append(text, `":`...)
		text = append(text, settings[name]...)
	}
	return append(text, '}')
}

// inputs checks the bindings of one Node against its ports.
func (v *validator) inputs(key string) {
	node, path := v.doc.Nodes[key], semantic.Pointer("nodes", key, "inputBindings")
	contract, known := v.Contracts[key]
	for _, port := range slices.Sorted(maps.Keys(node.InputBindings)) {
		at := path + semantic.Pointer(port)
		consumer, ok := contract.Inputs[port]
		switch {
		case known && !ok:
			v.findings.Add(outcome.ReferenceUnknown, at, outcome.Params{"nodeKey": key, "portKey": port, "direction": "input"})
			v.producer(node.InputBindings[port], at)
			v.states[at] = Dangling
		case !known:
			v.unchecked(node.InputBindings[port], at)
		default:
			v.bind(node.InputBindings[port], consumer, at)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(contract.Inputs)) {
		if _, ok := node.InputBindings[port]; ok {
			continue
		}
		at := path + semantic.Pointer(port)
		if optional(contract.Inputs[port]) {
			v.states[at] = Defaulted
			continue
		}
		v.states[at] = Missing
		v.findings.Add(outcome.BindingMissing, at, outcome.Params{"nodeKey": key, "portKey": port, "consumer": contract.Inputs[port]})
	}
}

// optional reports whether an input may be left unbound.
func optional(p quantity.Port) bool { return p.Default != nil || p.AllowsNull() }

func (v *validator) result(key string) {
	port, path := v.doc.Results[key], semantic.Pointer("results", key)
	checked := port.Port.Check(path)
	v.add(checked)
	at := path + "/binding"
	switch {
	case port.Binding == nil:
		v.states[at] = Missing
		v.findings.Add(outcome.BindingMissing, at, outcome.Params{"portKey": key, "consumer": port.Port})
	case checked.Refused():
		v.unchecked(port.Binding, at)
	default:
		v.bind(port.Binding, port.Port, at)
	}
}

// unchecked looks at where a binding leads when what it feeds is unknown.
func (v *validator) unchecked(b Binding, at string) {
	v.states[at] = Unchecked
	if _, _, dangling := v.producer(b, at); dangling {
		v.states[at] = Dangling
	}
}

// producer returns the contract at the other end of a binding. known is false
// when that end has findings of its own; dangling when it is not there, which is
// a finding. A literal has no contract.
func (v *validator) producer(b Binding, at string) (port quantity.Port, known, dangling bool) {
	switch b := b.(type) {
	case FlowInput:
		port, ok := v.doc.Inputs[b.PortKey]
		if !ok {
			v.findings.Add(outcome.ReferenceUnknown, at+"/portKey", outcome.Params{"portKey": b.PortKey})
			return quantity.Port{}, false, true
		}
		return port, !port.Check("").Refused(), false
	case NodeResult:
		if _, ok := v.doc.Nodes[b.NodeKey]; !ok {
			v.findings.Add(outcome.ReferenceUnknown, at+"/nodeKey", outcome.Params{"nodeKey": b.NodeKey})
			return quantity.Port{}, false, true
		}
		contract, ok := v.Contracts[b.NodeKey]
		if !ok {
			return quantity.Port{}, false, false
		}
		if port, ok = contract.Results[b.PortKey]; !ok {
			v.findings.Add(outcome.ReferenceUnknown, at+"/portKey", outcome.Params{"nodeKey": b.NodeKey, "portKey": b.PortKey, "direction": "result"})
			return quantity.Port{}, false, true
		}
		return port, true, false
	case Literal:
		return quantity.Port{}, false, false
	default:
		panic(fmt.Sprintf("flow: binding %T", b))
	}
}

// bind checks a binding against the port that it feeds.
func (v *validator) bind(b Binding, consumer quantity.Port, at string) {
	if literal, ok := b.(Literal); ok {
		value, findings := consumer.Decode(literal.Value, at+"/value")
		v.add(findings)
		v.states[at] = stateOf(findings)
		if !findings.Refused() {
			v.literals[at] = value
		}
		return
	}
	producer, known, dangling := v.producer(b, at)
	switch {
	case dangling:
		v.states[at] = Dangling
	case !known:
		v.states[at] = Unchecked
	default:
		conversion, findings := quantity.Fits(producer, consumer, at)
		v.add(findings)
		v.states[at] = stateOf(findings)
		v.Checks = append(v.Checks, checksOf(producer, consumer, at, findings)...)
		if !findings.Refused() {
			v.conversions[at] = conversion
		}
	}
}

func stateOf(findings outcome.Findings) BindingState {
	switch {
	case findings.Refused():
		return Mismatch
	case slices.ContainsFunc(findings, func(d outcome.Diagnostic) bool { return d.Code == outcome.UnitConverted }):
		return Converted
	}
	return Connected
}

// order finds cycles, or the stages of a document without.
func (v *validator) order() {
	g := graphOf(v.doc)
	sorted, acyclic := g.order()
	if !acyclic {
		for _, cycle := range g.cycles() {
			v.findings.Add(outcome.BindingCycle, v.closing(cycle), outcome.Params{"nodeKeys": cycle})
		}
		return
	}
	if len(v.Contracts) == len(v.doc.Nodes) {
		v.Stages = stages(v.doc, g, sorted)
	}
}

// closing returns the path of the binding by which the cycle's last Node feeds
// its first, the smallest port where there are several.
func (v *validator) closing(cycle []string) string {
	first, last := cycle[0], cycle[len(cycle)-1]
	bindings := v.doc.Nodes[first].InputBindings
	for _, port := range slices.Sorted(maps.Keys(bindings)) {
		if from, ok := bindings[port].(NodeResult); ok && from.NodeKey == last {
			return semantic.Pointer("nodes", first, "inputBindings", port)
		}
	}
	panic("flow: a cycle without its last edge")
}
