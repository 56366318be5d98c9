package flow

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
)

// The operations of a Change.
const (
	OpAdd     = "add"
	OpRemove  = "remove"
	OpReplace = "replace"
)

// A Change is one difference between two documents at one semantic path.
type Change struct {
	Path   string    `json:"path"`
	Op     string    `json:"op"`
	Before canon.Raw `json:"before,omitzero"` // not of an add
	After  canon.Raw `json:"after,omitzero"`  // not of a remove
}

// Diff returns what is different in after, by key and in order of paths, never
// by position. Its paths are as fine as commands are: a label, a port, a
// result's binding, a Node that came or went, and of a Node that stayed its
// target, label, single settings and single bindings. before is nil for a Flow
// that did not exist.
func Diff(before *Document, after Document) ([]Change, error) {
	was := Document{}
	if before != nil {
		was = *before
	}
	d := &differ{}
	d.compare(pointer("label"), orNothing(was.Label), orNothing(after.Label))
	if before != nil { // of a new Flow, authoring is no news
		d.compare(pointer("authoring"), was.Authoring, after.Authoring)
	}
	for _, key := range bothKeys(was.Inputs, after.Inputs) {
		d.compare(pointer("inputs", key), at(was.Inputs, key), at(after.Inputs, key))
	}
	for _, key := range bothKeys(was.Results, after.Results) {
		a, inA := was.Results[key]
		b, inB := after.Results[key]
		if !inA || !inB {
			d.compare(pointer("results", key), at(was.Results, key), at(after.Results, key))
			continue
		}
		d.compare(pointer("results", key), a.Port, b.Port)
		d.compare(pointer("results", key, "binding"), a.Binding, b.Binding)
	}
	for _, key := range bothKeys(was.Nodes, after.Nodes) {
		a, inA := was.Nodes[key]
		b, inB := after.Nodes[key]
		if !inA || !inB {
			d.compare(pointer("nodes", key), at(was.Nodes, key), at(after.Nodes, key))
			continue
		}
		d.compare(pointer("nodes", key, "target"), a.Target, b.Target)
		d.compare(pointer("nodes", key, "label"), orNothing(a.Label), orNothing(b.Label))
		for _, name := range bothKeys(a.Settings, b.Settings) {
			d.compare(pointer("nodes", key, "settings", name), at(a.Settings, name), at(b.Settings, name))
		}
		for _, name := range bothKeys(a.InputBindings, b.InputBindings) {
			d.compare(pointer("nodes", key, "inputBindings", name), at(a.InputBindings, name), at(b.InputBindings, name))
		}
	}
	slices.SortFunc(d.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return d.changes, d.err
}

type differ struct {
	changes []Change
	err     error
}

// compare adds a change if the encodings differ. A nil value is one that is not
// there.
func (d *differ) compare(path string, before, after any) {
	a, b := d.encode(path, before), d.encode(path, after)
	switch {
	case a == nil && b == nil, a != nil && b != nil && bytes.Equal(a, b):
	case a == nil:
		d.changes = append(d.changes, Change{Path: path, Op: OpAdd, After: b})
	case b == nil:
		d.changes = append(d.changes, Change{Path: path, Op: OpRemove, Before: a})
	default:
		d.changes = append(d.changes, Change{Path: path, Op: OpReplace, Before: a, After: b})
	}
}

func (d *differ) encode(path string, v any) canon.Raw {
	if v == nil || d.err != nil {
		return nil
	}
	if raw, ok := v.(canon.Raw); ok {
		return raw
	}
	text, err := canon.Encode(v)
	if err != nil {
		d.err = fmt.Errorf("flow: encode %s: %w", path, err)
	}
	return text
}

// at returns the element as a value that is nil when the key is not there.
func at[V any](m map[string]V, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return nil
}

// orNothing makes an empty map a value that is not there.
func orNothing[M ~map[string]string](m M) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

func bothKeys[V, W any](a map[string]V, b map[string]W) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
