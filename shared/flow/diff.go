package flow

import (
	"github.com/pxhost/pxhost/shared/semantic"
)

// A Change is one difference between two documents at one semantic path.
type Change = semantic.Change

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
	d := &semantic.Differ{}
	d.Compare(semantic.Pointer("label"), orNothing(was.Label), orNothing(after.Label))
	if before != nil { // of a new Flow, authoring is no news
		d.Compare(semantic.Pointer("authoring"), was.Authoring, after.Authoring)
	}
	for _, key := range semantic.BothKeys(was.Inputs, after.Inputs) {
		d.Compare(semantic.Pointer("inputs", key), semantic.At(was.Inputs, key), semantic.At(after.Inputs, key))
	}
	for _, key := range semantic.BothKeys(was.Results, after.Results) {
		a, inA := was.Results[key]
		b, inB := after.Results[key]
		if !inA || !inB {
			d.Compare(semantic.Pointer("results", key), semantic.At(was.Results, key), semantic.At(after.Results, key))
			continue
		}
		d.Compare(semantic.Pointer("results", key), a.Port, b.Port)
		d.Compare(semantic.Pointer("results", key, "binding"), a.Binding, b.Binding)
	}
	for _, key := range semantic.BothKeys(was.Nodes, after.Nodes) {
		a, inA := was.Nodes[key]
		b, inB := after.Nodes[key]
		if !inA || !inB {
			d.Compare(semantic.Pointer("nodes", key), semantic.At(was.Nodes, key), semantic.At(after.Nodes, key))
			continue
		}
		d.Compare(semantic.Pointer("nodes", key, "target"), a.Target, b.Target)
		d.Compare(semantic.Pointer("nodes", key, "label"), orNothing(a.Label), orNothing(b.Label))
		for _, name := range semantic.BothKeys(a.Settings, b.Settings) {
			d.Compare(semantic.Pointer("nodes", key, "settings", name), semantic.At(a.Settings, name), semantic.At(b.Settings, name))
		}
		for _, name := range semantic.BothKeys(a.InputBindings, b.InputBindings) {
			d.Compare(semantic.Pointer("nodes", key, "inputBindings", name), semantic.At(a.InputBindings, name), semantic.At(b.InputBindings, name))
		}
	}
	return d.Changes()
}

// orNothing makes an empty map a value that is not there.
func orNothing[M ~map[string]string](m M) any {
	if len(m) == 0 {
		return nil
	}
	return m
}
