package function

import (
	"github.com/aymanbagabas/go-udiff"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/semantic"
)

// SourcePath is the one semantic path of a source: any two edits of it meet (P8).
const SourcePath = "/source"

// A Change is one difference of a plan over several targets: at a semantic path, or,
// of a source, as a unified diff. The path of another target than the Function
// carries it in front: "flow/girder_check:/nodes/check/target".
type Change struct {
	Path    string    `json:"path"`
	Op      string    `json:"op"`
	Before  canon.Raw `json:"before,omitzero"`
	After   canon.Raw `json:"after,omitzero"`
	Unified string    `json:"unified,omitzero"`
}

// Diff returns what is different in after, by key and in order of paths. before is
// nil for a Function that did not exist. Digests are no difference of their own: the
// source is, of which SourceDiff tells.
func Diff(before *Document, after Document) ([]semantic.Change, error) {
	was := Document{}
	if before != nil {
		was = *before
	}
	d := &semantic.Differ{}
	text := func(path, a, b string) {
		if a != b {
			d.Compare(path, orNil(a != "", a), orNil(b != "", b))
		}
	}
	d.Compare("/version", orNil(before != nil, was.Version), after.Version)
	text("/description", was.Description, after.Description)
	text("/symbol", was.Symbol, after.Symbol)
	d.Compare("/label", orNil(len(was.Label) > 0, was.Label), orNil(len(after.Label) > 0, after.Label))
	d.Compare("/parameters", orNil(before != nil, was.Parameters), after.Parameters)
	d.Compare("/capabilities", orNil(before != nil, was.Capabilities), after.Capabilities)
	d.Compare("/imports", orNil(before != nil, was.Imports), after.Imports)
	for _, ports := range []struct {
		name     string
		was, now map[string]quantity.Port
	}{{"inputs", was.Inputs, after.Inputs}, {"results", was.Results, after.Results}} {
		for _, key := range semantic.BothKeys(ports.was, ports.now) {
			d.Compare(semantic.Pointer(ports.name, key), semantic.At(ports.was, key), semantic.At(ports.now, key))
		}
	}
	return d.Changes()
}

func orNil(there bool, v any) any {
	if there {
		return v
	}
	return nil
}

// SourceDiff tells how one source became another, for people.
func SourceDiff(before, after string) Change {
	return Change{Path: SourcePath, Op: semantic.OpReplace, Unified: udiff.Unified("before", "after", before, after)}
}

// SearchText returns what a search may find the Function by (S5): its key, labels in
// every language, description, port names and units, once each, in order.
func SearchText(doc Document) []string {
	words := []string{doc.FunctionKey, doc.Description}
	for _, language := range semantic.BothKeys(doc.Label, doc.Label) {
		words = append(words, doc.Label[language])
	}
	for _, ports := range []map[string]quantity.Port{doc.Inputs, doc.Results} {
		for _, key := range semantic.BothKeys(ports, ports) {
			words = append(words, key)
			words = append(words, units(ports[key])...)
		}
	}
	return words
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
	for _, key := range semantic.BothKeys(p.Fields, p.Fields) {
		out = append(out, units(p.Fields[key])...)
	}
	if p.Of != nil {
		out = append(out, units(*p.Of)...)
	}
	for _, c := range p.Columns {
		add(c.Unit)
	}
	return out
}
