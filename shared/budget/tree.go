package budget

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A cost is what something takes of the budgets.
type cost struct {
	bytes   int // serialized
	escaped int // serialized and then escaped inside a JSON text
	items   int
	rows    int
}

func (c cost) plus(o cost) cost {
	return cost{c.bytes + o.bytes, c.escaped + o.escaped, c.items + o.items, c.rows + o.rows}
}

// costOf counts text. A quote and a backslash take one byte more when they are
// escaped, and <, > and & five, as encoding/json writes them; so do U+2028 and
// U+2029, which take six instead of three.
func costOf[T string | []byte](text T) cost {
	c := cost{bytes: len(text), escaped: len(text)}
	for i := range len(text) {
		switch text[i] {
		case '"', '\\':
			c.escaped++
		case '<', '>', '&':
			c.escaped += 5
		case 0xe2:
			if i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xa8 {
				c.escaped += 3
			}
		}
	}
	return c
}

// A node is a value of the document. Only what a place is in, or leads to, has
// children; everything else is text.
type node struct {
	kind     jsontext.Kind
	text     []byte   // the whole value, serialized
	names    [][]byte // of an object's members, serialized
	children []*node
	plain    string // of a text that is a place: what it says

	told   bool // gets the members that tell of the cut
	always bool // is written piece by piece in every part
	place  bool // may be cut
	counts Counts
	inside bool // is a place or has one inside
	// detached tells that something inside was set aside, so that text is no
	// longer what was read.
	detached bool
	whole    cost // with everything in it
	frame    cost // with every place in it empty

	// Of the part that is being made. A node that is not partial is written
	// whole.
	partial  bool
	from, to int    // of a place: elements, or bytes of plain
	extra    []byte // of the told object: members that are added to it
}

// reader parses one document and sets aside what is nested too deep.
type reader struct {
	told     string // the member of the document that is told of the cut
	depth    int    // the limit
	deepest  int    // the deepest nesting of a typed value that was met
	detached []detached
}

// parse reads the value at a place of the document and expands what the patterns
// lead to.
func (r *reader) parse(text []byte, patterns []pattern, at string) (*node, error) {
	n := &node{kind: jsontext.Value(text).Kind(), text: text}
	value := false
	deeper := patterns[:0:0]
	for _, p := range patterns {
		switch {
		case len(p.path) > 0:
			deeper = append(deeper, p)
		case p.value:
			value = true
		default:
			n.place, n.counts = true, p.counts
		}
	}
	switch {
	case value:
		n.place = false
		return n, r.typed(n, 0, at)
	case n.place && n.kind == '"':
		return n, n.expandText()
	case len(deeper) == 0 && !n.place || n.kind != '{' && n.kind != '[':
		n.place = false
		n.measure()
		return n, nil
	}
	if n.kind == '[' && !n.place {
		return nil, fmt.Errorf("budget: a place inside %s, which is a list and no place itself", at)
	}
	err := n.expand(func(name string, i int, text []byte) (*node, error) {
		var into []pattern
		for _, p := range deeper {
			if p.path[0] == "*" || n.kind == '{' && p.path[0] == name {
				into = append(into, pattern{p.path[1:], p.counts, p.value})
			}
		}
		return r.parse(text, into, n.step(at, name, i))
	})
	n.measure()
	return n, err
}

// step is the JSON Pointer of a child.
func (n *node) step(at, name string, index int) string {
	if n.kind == '{' {
		return at + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return at + "/" + strconv.Itoa(index)
}

type pattern struct {
	path   []string
	counts Counts
	value  bool
}

func patternsOf(places []Place) ([]pattern, error) {
	out := make([]pattern, 0, len(places))
	for _, p := range places {
		if p.Path != "" && p.Path[0] != '/' {
			return nil, fmt.Errorf("budget: %q is no JSON Pointer", p.Path)
		}
		var path []string
		if p.Path != "" {
			for _, token := range strings.Split(p.Path[1:], "/") {
				path = append(path, strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
			}
		}
		out = append(out, pattern{path, p.Counts, p.Value})
	}
	return out, nil
}

// expand reads the elements or members of the value.
func (n *node) expand(child func(name string, index int, text []byte) (*node, error)) error {
	return each(n.text, func(raw []byte, index int, text []byte) error {
		name := ""
		if n.kind == '{' {
			n.names = append(n.names, raw)
			var err error
			if name, err = plainName(raw); err != nil {
				return err
			}
		}
		c, err := child(name, index, text)
		if err != nil {
			return err
		}
		n.children = append(n.children, c)
		return nil
	})
}

// each goes through the elements or members of a list or object. The name is as
// it is serialized, and nil in a list. The text was written by json.Marshal: it
// is valid and has no white space.
func each(text []byte, child func(name []byte, index int, text []byte) error) error {
	isObject := text[0] == '{'
	for at, index := 1, 0; text[at] != '}' && text[at] != ']'; index++ {
		if text[at] == ',' {
			at++
		}
		var name []byte
		if isObject {
			end := valueEnd(text, at)
			name = text[at:end:end]
			at = end + 1 // the colon
		}
		end := valueEnd(text, at)
		if err := child(name, index, text[at:end:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func plainName(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	plain, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", fmt.Errorf("budget: %w", err)
	}
	return string(plain), nil
}

// countPlaces returns what the elements of the places in a value count as, and
// nothing else of what they cost.
func countPlaces(text []byte, patterns []pattern) cost {
	var sum cost
	if len(patterns) == 0 || text[0] != '{' && text[0] != '[' {
		return sum
	}
	own := node{}
	for _, p := range patterns {
		if len(p.path) == 0 {
			own.counts = p.counts
		}
	}
	into := make([]pattern, 0, len(patterns))
	_ = each(text, func(raw []byte, _ int, value []byte) error {
		own.count(&sum)
		into = into[:0]
		for _, p := range patterns {
			if len(p.path) > 0 && (p.path[0] == "*" || isName(raw, p.path[0])) {
				into = append(into, pattern{p.path[1:], p.counts, p.value})
			}
		}
		sum = sum.plus(countPlaces(value, into))
		return nil
	})
	return sum
}

func isName(raw []byte, name string) bool {
	if raw == nil {
		return false
	}
	plain, err := plainName(raw)
	return err == nil && plain == name
}

// valueEnd returns where the value that begins at an offset ends.
func valueEnd(text []byte, at int) int {
	switch text[at] {
	case '"':
		return stringEnd(text, at)
	case '{', '[':
		for depth := 0; ; {
			switch text[at] {
			case '"':
				at = stringEnd(text, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
	}
	for at < len(text) && text[at] != ',' && text[at] != '}' && text[at] != ']' {
		at++
	}
	return at
}

func stringEnd(text []byte, at int) int {
	for at++; ; at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
}

func (n *node) expandText() error {
	plain, err := jsontext.AppendUnquote(nil, n.text)
	if err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	n.plain = string(plain)
	n.measure()
	return nil
}

// measure sums up the costs of the node from those of its children.
func (n *node) measure() {
	if n.detached = n.detached || slices.ContainsFunc(n.children, func(c *node) bool { return c.detached }); n.detached && n.children != nil {
		n.text = n.compose(nil, 0, len(n.children))
	}
	n.inside = n.place
	if n.children == nil {
		n.whole = costOf(n.text)
		n.frame = n.whole
		if n.place {
			n.frame = cost{bytes: 2, escaped: 2}
		}
		if n.place && n.kind == '"' {
			n.frame.escaped = 4
		}
		return
	}
	n.whole, n.frame = cost{bytes: 2, escaped: 2}, cost{bytes: 2, escaped: 2}
	for i, c := range n.children {
		around := n.around(i, i > 0)
		n.inside = n.inside || c.inside
		n.whole = n.whole.plus(c.whole).plus(around)
		if n.place {
			n.count(&n.whole)
			continue
		}
		n.frame = n.frame.plus(c.frame).plus(around)
	}
}

// count adds one element.
func (n *node) count(c *cost) {
	switch n.counts {
	case AsItems:
		c.items++
	case AsRows:
		c.rows++
	}
}

// around is the cost of what stands around child i: its name, the colon and, when
// another stands before it, the comma.
func (n *node) around(i int, comma bool) cost {
	var c cost
	if n.kind == '{' {
		c = costOf(n.names[i])
		c.bytes, c.escaped = c.bytes+1, c.escaped+1
	}
	if comma {
		c.bytes, c.escaped = c.bytes+1, c.escaped+1
	}
	return c
}

// write appends what of the node is in the part.
func (n *node) write(out []byte) []byte {
	if !n.partial {
		return append(out, n.text...)
	}
	if n.kind == '"' {
		quoted, err := jsontext.AppendQuote(out, n.plain[n.from:n.to])
		if err != nil {
			panic(fmt.Sprintf("budget: a text that was read cannot be written: %v", err))
		}
		return quoted
	}
	if n.place {
		return n.compose(out, n.from, n.to)
	}
	return n.compose(out, 0, len(n.children))
}

// compose appends the node with the children from and below to.
func (n *node) compose(out []byte, from, to int) []byte {
	open, end := byte('['), byte(']')
	if n.kind == '{' {
		open, end = '{', '}'
	}
	out = append(out, open)
	for i := from; i < to; i++ {
		if i > from {
			out = append(out, ',')
		}
		if n.kind == '{' {
			out = append(append(out, n.names[i]...), ':')
		}
		out = n.children[i].write(out)
	}
	if len(n.extra) > 0 {
		if to > from {
			out = append(out, ',')
		}
		out = append(out, n.extra...)
	}
	return append(out, end)
}

// child returns a member of an object.
func (n *node) child(name string) *node {
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return nil
	}
	for i, c := range n.children {
		if n.kind == '{' && bytes.Equal(n.names[i], quoted) {
			return c
		}
	}
	return nil
}

// findTold returns the node that gets the members of the cut.
func (n *node) findTold() *node {
	if n.told {
		return n
	}
	for _, c := range n.children {
		if c.always {
			return c.findTold()
		}
	}
	return nil
}

// extend adds serialized members to an object.
func (n *node) extend(members []byte) {
	if len(n.extra) > 0 {
		n.extra = append(n.extra, ',')
	}
	n.extra = append(n.extra, members...)
}

// isTail tells the members of the told object that only the last part has.
func isTail(name []byte) bool {
	return string(name) == `"truncation"` || string(name) == `"nextCursor"`
}

// takeTail splits the document into what is cut and the members of the told
// object that stand in the last part alone.
func takeTail(document []byte, told string) (rest, tail []byte, err error) {
	root := &node{kind: jsontext.Value(document).Kind(), text: document, always: true, partial: true}
	if root.kind != '{' {
		return nil, nil, fmt.Errorf("budget: the document is no object")
	}
	strip := func(n *node) error {
		kept := 0
		err := n.expand(func(_ string, _ int, text []byte) (*node, error) { return &node{text: text}, nil })
		for i, c := range n.children {
			if !isTail(n.names[i]) {
				n.names[kept], n.children[kept] = n.names[i], c
				kept++
				continue
			}
			if len(tail) > 0 {
				tail = append(tail, ',')
			}
			tail = append(append(append(tail, n.names[i]...), ':'), c.text...)
		}
		n.names, n.children, n.partial = n.names[:kept], n.children[:kept], true
		return err
	}
	if told == "" {
		err = strip(root)
		return root.write(nil), tail, err
	}
	if err := root.expand(func(name string, _ int, text []byte) (*node, error) {
		return &node{kind: jsontext.Value(text).Kind(), text: text}, nil
	}); err != nil {
		return nil, nil, err
	}
	c := root.child(told)
	if c == nil || c.kind != '{' {
		return nil, nil, fmt.Errorf("budget: the document has no object %q", told)
	}
	if err := strip(c); err != nil {
		return nil, nil, err
	}
	if len(tail) == 0 {
		return document, nil, nil
	}
	return root.write(nil), tail, nil
}

// inTold makes a pointer into the document one into the told object.
func (r *reader) inTold(at string) string {
	if r.told == "" {
		return at
	}
	return strings.TrimPrefix(at, "/"+r.told)
}

// pointer returns the JSON Pointer of the element or text that a position means.
// ok is false for no position of this tree.
func (n *node) pointer(path []int) (at string, ok bool) {
	if len(path) == 1 && n.always && path[0] == len(n.children) {
		return "", true // what is left is the tail
	}
	for ; len(path) > 0; path = path[1:] {
		if n.place && n.kind == '"' {
			return at, len(path) == 1
		}
		if path[0] >= len(n.children) {
			return "", false
		}
		name := ""
		if n.kind == '{' {
			plain, err := jsontext.AppendUnquote(nil, n.names[path[0]])
			if err != nil {
				return "", false
			}
			name = string(plain)
		}
		at, n = n.step(at, name, path[0]), n.children[path[0]]
	}
	return at, true
}
