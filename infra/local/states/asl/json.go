package asl

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds nesting of a definition, in JSON levels.
const maxDepth = 200

// node is a JSON value that keeps the order of members.
type node struct {
	kind    jsontext.Kind // one of { [ " 0 t f n
	raw     []byte        // compact
	text    string        // of a string
	names   []string      // of an object
	values  []*node       // of an object or array
	members map[string]*node
}

func (n *node) get(name string) *node { return n.members[name] }

func readNode(text []byte) (*node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	n, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return n, nil
}

func readValue(d *jsontext.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the JSON nests deeper than %d levels", maxDepth)
	}
	n := &node{kind: d.PeekKind()}
	switch n.kind {
	case '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		n.members = map[string]*node{}
		n.raw = append(n.raw, '{')
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			value, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, key)
			n.values = append(n.values, value)
			n.members[key] = value
			if len(n.names) > 1 {
				n.raw = append(n.raw, ',')
			}
			if n.raw, err = jsontext.AppendQuote(n.raw, key); err != nil {
				return nil, err
			}
			n.raw = append(append(n.raw, ':'), value.raw...)
		}
		n.raw = append(n.raw, '}')
		_, err := d.ReadToken()
		return n, err
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		n.raw = append(n.raw, '[')
		for d.PeekKind() != ']' {
			value, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			if len(n.values) > 0 {
				n.raw = append(n.raw, ',')
			}
			n.raw = append(n.raw, value.raw...)
			n.values = append(n.values, value)
		}
		n.raw = append(n.raw, ']')
		_, err := d.ReadToken()
		return n, err
	default:
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		if n.kind == '"' {
			n.text = token.String()
			n.raw, err = jsontext.AppendQuote(nil, n.text)
			return n, err
		}
		n.raw = []byte(token.String())
		return n, nil
	}
}
