package flow

import (
	"fmt"
	"maps"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/target"
)

// Inside documents and normalized commands every canon.Raw is canonical, so that
// bytes can be compared where values are meant. What is not strict JSON was
// refused when it was decoded; a Go program that puts such text into a command
// is wrong, and panics here.
func canonicalRaw(raw canon.Raw) canon.Raw {
	if raw == nil {
		return nil
	}
	out, err := canon.Canonicalize(raw)
	if err != nil {
		panic(fmt.Sprintf("flow: a value that was never decoded: %v", err))
	}
	return out
}

func canonicalBinding(b Binding) Binding {
	if literal, ok := b.(Literal); ok {
		literal.Value = canonicalRaw(literal.Value)
		return literal
	}
	return b
}

func canonicalSettings(m Settings) Settings {
	m = maps.Clone(m)
	for key, value := range m {
		m[key] = canonicalRaw(value)
	}
	return m
}

func canonicalBindings(m map[string]Binding) map[string]Binding {
	m = maps.Clone(m)
	for key, b := range m {
		m[key] = canonicalBinding(b)
	}
	return m
}

// canonical returns the document with canonical values; nothing is added, left
// out or reordered in meaning.
func (d Document) canonical() Document {
	d = Document{Format: d.Format, FlowKey: d.FlowKey, Label: d.Label, Authoring: d.Authoring,
		Inputs: maps.Clone(d.Inputs), Results: maps.Clone(d.Results), Nodes: maps.Clone(d.Nodes)}
	for key, p := range d.Inputs {
		d.Inputs[key] = p.Canonical()
	}
	for key, p := range d.Results {
		d.Results[key] = ResultPort{p.Port.Canonical(), canonicalBinding(p.Binding)}
	}
	for key, node := range d.Nodes {
		node.Settings, node.InputBindings = canonicalSettings(node.Settings), canonicalBindings(node.InputBindings)
		d.Nodes[key] = node
	}
	return d
}

// settled, bound and settledLabel leave out what is empty.
func settled(m Settings) Settings {
	if len(m) == 0 {
		return nil
	}
	return canonicalSettings(m)
}

func bound(m map[string]Binding) map[string]Binding {
	if len(m) == 0 {
		return nil
	}
	return canonicalBindings(m)
}

func settledLabel(l target.Label) target.Label {
	if len(l) == 0 {
		return nil
	}
	return l
}

// samePort reports whether two contracts have the same encoding.
func samePort(a, b quantity.Port) bool {
	x, errX := canon.Encode(a)
	y, errY := canon.Encode(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func isNull(raw canon.Raw) bool { return raw.Kind() == 'n' }
