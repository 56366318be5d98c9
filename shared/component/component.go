package component

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// Bounds of one Component's settings, beside those that the settings' schemas state.
const (
	MaxSettings    = 256 << 10  // bytes of canonical JSON
	MaxExpression  = 16 << 10   // bytes of one expression
	MaxNodes       = 1_000      // syntax nodes of one expression
	MaxNesting     = 64         // brackets in one expression
	MaxCells       = 1_000_000  // of a table that px.table_map makes
	MaxOperations  = 20_000_000 // syntax nodes times rows of one px.table_map
	maxCompiled    = 512        // settings kept compiled
	maxCompiledSum = 16 << 20
)

// A Contract is the ports of a Node, by portKey.
type Contract struct {
	Inputs  map[string]quantity.Port `json:"inputs"`
	Results map[string]quantity.Port `json:"results"`
}

// A Component is one first-party Component in one version. The zero value is
// none; Lookup and All give them.
type Component struct{ d *definition }

// definition is what a Component's own file declares.
type definition struct {
	key         string
	version     int
	label       target.Label
	description string
	// inputKeys are the inputs that every Node of the Component has, whatever
	// its settings.
	inputKeys []string
	settings  reflect.Type
	example   string
	compile   func(settings canon.Raw) (*program, outcome.Findings)
}

// A program is settings that were read and found good.
type program struct {
	contract Contract
	// run gets values that were checked against contract.Inputs. It answers
	// values in the units of contract.Results, or findings with paths relative
	// to the Node.
	run func(ctx context.Context, in map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings)
}

// definitions lists the Components in key order.
var definitions = []*definition{&aggregate, &convert, &envelope, &formula, &lookup, &selectByCondition, &tableMap}

// Lookup returns an admitted Component. ok is false for everything else: what it
// does not return cannot be placed, bound or run (K3).
func Lookup(componentKey string, version int) (Component, bool) {
	for _, d := range definitions {
		if d.key == componentKey && d.version == version && admittedKey(d.key, d.version) {
			return Component{d}, true
		}
	}
	return Component{}, false
}

// All returns the admitted Components in key order.
func All() []Component {
	var out []Component
	for _, d := range definitions {
		if admittedKey(d.key, d.version) {
			out = append(out, Component{d})
		}
	}
	return out
}

// Key returns the componentKey, such as "px.formula".
func (c Component) Key() string { return c.d.key }

// Version returns the contract version. A version never changes its meaning.
func (c Component) Version() int { return c.d.version }

// Label returns the name for people, by language.
func (c Component) Label() target.Label { return maps.Clone(c.d.label) }

// Description tells a model when to choose the Component.
func (c Component) Description() string { return c.d.description }

// DeclaredInputKeys returns the inputs that do not depend on settings, in order.
func (c Component) DeclaredInputKeys() []string {
	return append([]string{}, c.d.inputKeys...)
}

// SettingsType returns the Go type from which the schema of the settings is made.
func (c Component) SettingsType() reflect.Type { return c.d.settings }

// Example returns settings that Derive accepts.
func (c Component) Example() canon.Raw { return canon.Raw(c.d.example) }

// Cost returns what one evaluation counts in a policy's cost, in Node
// evaluations.
func (c Component) Cost() int { return 1 }

// Derive returns the contract of a Node from its settings. Every finding has a
// path under path, where the settings stand.
func (c Component) Derive(settings canon.Raw, path string) (Contract, outcome.Findings) {
	p, found := c.compiled(settings)
	found = under(path, found)
	if p == nil {
		return Contract{}, found
	}
	return Contract{Inputs: maps.Clone(p.contract.Inputs), Results: maps.Clone(p.contract.Results)}, found
}

// Evaluate calculates the results of a Node. It is pure: equal settings and
// inputs give equal results on every machine. inputs are by portKey, each a value
// of its port in the port's unit; a missing one takes the port's default.
//
// Findings have paths relative to the Node: "/settings/…" or
// "/inputBindings/<portKey>". A calculation that has no finite result is
// PX_RUN_FAILED with params.reason and never shows a value.
func (c Component) Evaluate(ctx context.Context, settings canon.Raw, inputs map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
	p, found := c.compiled(settings)
	if p == nil {
		return nil, under("/settings", found)
	}
	in, found := p.inputs(inputs)
	if found.Refused() {
		return nil, found
	}
	out, found := p.run(ctx, in)
	if found.Refused() {
		return nil, found
	}
	for _, key := range slices.Sorted(maps.Keys(p.contract.Results)) {
		port := p.contract.Results[key]
		for _, d := range port.CheckValue(out[key], "") {
			d.Path = "/settings/results/" + key
			d.Params["resultKey"] = key
			found = append(found, d)
		}
	}
	if found.Refused() {
		return nil, found
	}
	return out, found
}

func (p *program) inputs(given map[string]quantity.Value) (map[string]quantity.Value, outcome.Findings) {
	var found outcome.Findings
	in := make(map[string]quantity.Value, len(p.contract.Inputs))
	for _, key := range slices.Sorted(maps.Keys(p.contract.Inputs)) {
		port, at := p.contract.Inputs[key], "/inputBindings/"+key
		v, ok := given[key]
		switch {
		case ok && v != nil:
			found = append(found, port.CheckValue(v, at)...)
		case port.Default != nil:
			var bad outcome.Findings
			v, bad = port.Decode(port.Default, at)
			found = append(found, bad...)
		default:
			found.Add(outcome.BindingMissing, at, outcome.Params{"portKey": key})
		}
		in[key] = v
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if _, ok := p.contract.Inputs[key]; !ok {
			found.Add(outcome.ReferenceUnknown, "/inputBindings/"+key, outcome.Params{"reason": "no_such_input", "portKey": key})
		}
	}
	return in, found
}

// compiledCache keeps programs by Component and settings text. It is bounded in
// number and bytes and starts anew when full: a Flow has at most 500 Nodes.
var compiledCache = struct {
	sync.Mutex
	programs map[string]*program
	bytes    int
}{programs: map[string]*program{}}

func (c Component) compiled(settings canon.Raw) (*program, outcome.Findings) {
	if len(settings) > MaxSettings {
		var found outcome.Findings
		found.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxSettings, "observed": len(settings), "of": "settingsBytes"})
		return nil, found
	}
	name := c.d.key + "\x00" + string(settings)
	compiledCache.Lock()
	p := compiledCache.programs[name]
	compiledCache.Unlock()
	if p != nil {
		return p, nil
	}
	p, found := c.d.compile(settings)
	if found.Refused() || p == nil {
		return nil, found
	}
	compiledCache.Lock()
	defer compiledCache.Unlock()
	if len(compiledCache.programs) >= maxCompiled || compiledCache.bytes+len(name) > maxCompiledSum {
		clear(compiledCache.programs)
		compiledCache.bytes = 0
	}
	if _, raced := compiledCache.programs[name]; !raced {
		compiledCache.programs[name] = p
		compiledCache.bytes += len(name)
	}
	return p, found
}

func under(path string, found outcome.Findings) outcome.Findings {
	if path == "" || len(found) == 0 {
		return found
	}
	out := slices.Clone(found)
	for i := range out {
		out[i].Path = path + out[i].Path
	}
	return out
}

// failed is the one finding of a calculation that has no result.
func failed(path, reason string, params outcome.Params) outcome.Findings {
	if params == nil {
		params = outcome.Params{}
	}
	params["reason"] = reason
	return outcome.Findings{outcome.New(outcome.RunFailed, path, params)}
}
