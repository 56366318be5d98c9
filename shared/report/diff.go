package report

import (
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/semantic"
)

// A Change is one difference between two documents at one semantic path.
type Change = semantic.Change

// Diff returns what is different in after, by key and in order of paths. Its
// paths are as fine as commands are: a label, a block that came or went, and of
// a block that stayed its label, its text, a field's contract and its value, a
// slot; of a connection its Flow revision and single mappings. The order of the
// blocks that both have is one fact, /blockOrder; where a block that came stands
// is not told, and a block that went has no place. before is nil for a Report that
// did not exist.
func Diff(before *Document, after Document) ([]Change, error) {
	was := Document{}
	if before != nil {
		was = *before
	}
	d := &semantic.Differ{}
	d.Compare("/label", something(was.Label), something(after.Label))
	if before != nil && reordered(was, after) {
		d.Compare("/blockOrder", was.BlockOrder, after.BlockOrder)
	}
	for _, key := range semantic.BothKeys(was.Blocks, after.Blocks) {
		diffBlock(d, semantic.Pointer("blocks", key), was.Blocks[key], after.Blocks[key])
	}
	for _, key := range semantic.BothKeys(was.Connections, after.Connections) {
		path := semantic.Pointer("connections", key)
		a, inA := was.Connections[key]
		b, inB := after.Connections[key]
		if !inA || !inB {
			d.Compare(path, semantic.At(was.Connections, key), semantic.At(after.Connections, key))
			continue
		}
		if a.FlowTarget != b.FlowTarget {
			d.Compare(path+"/flowTarget", a.FlowTarget, b.FlowTarget)
		}
		diffEach(d, path+"/inputs", a.Inputs, b.Inputs)
		diffEach(d, path+"/results", a.Results, b.Results)
	}
	return d.Changes()
}

func diffBlock(d *semantic.Differ, path string, before, after Block) {
	switch a := before.(type) {
	case ValuesBlock:
		if b, ok := after.(ValuesBlock); ok {
			d.Compare(path+"/label", something(a.Label), something(b.Label))
			for _, key := range semantic.BothKeys(a.Fields, b.Fields) {
				diffField(d, path+semantic.Pointer("fields", key), a.Fields, b.Fields, key)
			}
			return
		}
	case TextBlock:
		if b, ok := after.(TextBlock); ok {
			d.Compare(path+"/label", something(a.Label), something(b.Label))
			if a.Text != b.Text {
				d.Compare(path+"/text", a.Text, b.Text)
			}
			return
		}
	case ResultsBlock:
		if b, ok := after.(ResultsBlock); ok {
			d.Compare(path+"/label", something(a.Label), something(b.Label))
			diffEach(d, path+"/slots", a.Slots, b.Slots)
			return
		}
	}
	d.Compare(path, orNothing(before), orNothing(after))
}

func diffField(d *semantic.Differ, path string, before, after map[string]Field, key string) {
	a, inA := before[key]
	b, inB := after[key]
	if !inA || !inB {
		d.Compare(path, semantic.At(before, key), semantic.At(after, key))
		return
	}
	valueA, valueB := a.Value, b.Value
	a.Value, b.Value = nil, nil
	d.Compare(path, a, b)
	d.Compare(path+"/value", orNoValue(valueA), orNoValue(valueB))
}

func diffEach[V any](d *semantic.Differ, path string, before, after map[string]V) {
	for _, key := range semantic.BothKeys(before, after) {
		d.Compare(path+semantic.Pointer(key), semantic.At(before, key), semantic.At(after, key))
	}
}

// something makes a map that was left out a value that is not there. An empty one
// that is written is there: the digest tells the two apart.
func something[M ~map[string]string](m M) any {
	if m == nil {
		return nil
	}
	return m
}

func orNoValue(text canon.Raw) any {
	if text == nil {
		return nil
	}
	return text
}

func orNothing(b Block) any {
	if b == nil {
		return nil
	}
	return b
}
