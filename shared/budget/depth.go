package budget

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// longText is from how many bytes on a text inside a typed value is a place.
const longText = 4096

// detached is a Record, List or Table that is nested deeper than the limit. Null
// stands in its place, and it comes in parts of its own.
type detached struct {
	at    string // JSON Pointer of its place in the document
	text  []byte
	table bool
}

// typed expands a typed value: a table {"columns", "rows"}, or {"value", "unit"}
// around a scalar, a list or a record. level counts what it is nested in. The
// grammar decides, not the names alone, so that a record may have a field named
// value, columns or rows.
func (r *reader) typed(n *node, level int, at string) error {
	if n.kind != '{' {
		return r.content(n, level, at)
	}
	var columns, rows, value bool
	shape := node{kind: n.kind, text: n.text}
	if err := shape.expand(func(name string, _ int, _ []byte) (*node, error) {
		columns, rows, value = columns || name == "columns", rows || name == "rows", value || name == "value"
		return nil, nil
	}); err != nil {
		return err
	}
	switch {
	case columns && rows:
		return r.table(n, level, at)
	case value:
		err := n.expand(func(name string, i int, text []byte) (*node, error) {
			c := &node{kind: jsontext.Value(text).Kind(), text: text}
			if name == "value" {
				return c, r.content(c, level, n.step(at, name, i))
			}
			c.measure()
			return c, nil
		})
		n.measure()
		return err
	default:
		return r.content(n, level, at)
	}
}

// content expands what stands inside "value", or a bare element of a list.
func (r *reader) content(n *node, level int, at string) error {
	switch n.kind {
	case '"':
		if n.place = len(n.text) >= longText; n.place {
			return n.expandText()
		}
		n.measure()
		return nil
	case '[', '{':
	default:
		n.measure()
		return nil
	}
	if level++; r.tooDeep(n, level, at, false) {
		return nil
	}
	n.place = true
	if n.kind == '[' {
		n.counts = AsItems
	}
	err := n.expand(func(name string, i int, text []byte) (*node, error) {
		c := &node{kind: jsontext.Value(text).Kind(), text: text}
		return c, r.typed(c, level, n.step(at, name, i))
	})
	n.measure()
	return err
}

func (r *reader) table(n *node, level int, at string) error {
	if level++; r.tooDeep(n, level, at, true) {
		return nil
	}
	err := n.expand(func(name string, i int, text []byte) (*node, error) {
		c := &node{kind: jsontext.Value(text).Kind(), text: text}
		if name == "rows" && c.kind == '[' {
			c.place, c.counts = true, AsRows
			if err := c.expand(func(_ string, _ int, text []byte) (*node, error) {
				row := &node{kind: jsontext.Value(text).Kind(), text: text}
				row.measure()
				return row, nil
			}); err != nil {
				return nil, err
			}
		}
		c.measure()
		return c, nil
	})
	n.measure()
	return err
}

// tooDeep sets a container aside that is nested deeper than the limit, and
// leaves null: an empty one would be as deep.
func (r *reader) tooDeep(n *node, level int, at string, table bool) bool {
	r.deepest = max(r.deepest, level)
	if level <= r.depth {
		return false
	}
	r.deepest = max(r.deepest, level+within(n.text, table)-1)
	r.detached = append(r.detached, detached{at, n.text, table})
	n.kind, n.text, n.detached = 'n', []byte("null"), true
	n.measure()
	return true
}

// within returns how deep a container is nested, itself included, by the same
// grammar.
func within(text []byte, table bool) int {
	r := &reader{depth: int(^uint(0) >> 1)}
	n := &node{kind: jsontext.Value(text).Kind(), text: text}
	if table {
		return 1
	}
	if err := r.content(n, 0, ""); err != nil {
		return 1 // the text was read once
	}
	return r.deepest
}

// segment returns the tree of the parts of a detached value: the document with
// every place empty, and with the member "nested" in the told object.
func (r *reader) segment(root *node, d detached) (*node, error) {
	value := &node{kind: jsontext.Value(d.text).Kind(), text: d.text}
	var err error
	if d.table {
		err = r.table(value, 0, d.at)
	} else if err = r.content(value, 0, d.at); err == nil {
		value = object(value, "value")
	}
	if err != nil {
		return nil, err
	}
	pointer, err := jsontext.AppendQuote(nil, r.inTold(d.at))
	if err != nil {
		return nil, fmt.Errorf("budget: pointer: %w", err)
	}
	path := &node{kind: '"', text: pointer}
	path.measure()
	nested := object(path, "path")
	nested.names, nested.children = append(nested.names, []byte(`"value"`)), append(nested.children, value)
	nested.measure()
	return root.emptied(nested), nil
}

// object returns an object of one member.
func object(member *node, name string) *node {
	n := &node{kind: '{', names: [][]byte{[]byte(`"` + name + `"`)}, children: []*node{member}}
	n.measure()
	return n
}

// emptied copies what is always written with every place empty, and adds nested
// to the told object.
func (n *node) emptied(nested *node) *node {
	out := &node{kind: n.kind, names: slices.Clone(n.names), told: n.told, always: n.always}
	for _, c := range n.children {
		if c.always {
			out.children = append(out.children, c.emptied(nested))
			continue
		}
		c.open()
		e := &node{kind: c.kind, text: c.write(nil)}
		e.measure()
		out.children = append(out.children, e)
	}
	if n.told {
		out.names, out.children = append(out.names, []byte(`"nested"`)), append(out.children, nested)
	}
	out.measure()
	return out
}
