package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/flow"
	"github.com/pxhost/pxhost/shared/semantic"
	"github.com/pxhost/pxhost/shared/target"
)

// ErrDangling is that a document binds something to what is not in it. A source
// refers to names, and there is none.
var ErrDangling = errors.New("source: a binding names what is not there")

// Edit returns the source that says what after says, where text is what r is the
// reading of. One fact that differs is one statement that is changed, added or
// removed, or moved behind what it refers to now.
//
// Settings and labels that are there and empty cannot be told from such that are
// not, in the source as in what a Flow does.
//
// The error is ErrDangling, a *NotWritable, or of a reading of another text.
func Edit(text string, r Reading, after flow.Document) (string, error) {
	if !closed(after) {
		return "", ErrDangling
	}
	if none := owned(after); none != nil {
		return "", none
	}
	e := newEditor(text, r)
	if e.flow == nil {
		return "", errors.New("source: a reading without the statement of a Flow")
	}
	e.remove(after)
	for _, step := range []func(before, after flow.Document) error{e.label, e.inputs, e.nodes, e.connects, e.results} {
		if err := step(r.Document, after); err != nil {
			return "", err
		}
	}
	return e.text(), nil
}

// owned finds a Node that runs a package's Function: px.function has no form for one. A
// source says what its Project wrote, and a release that it pins stands in the lock
// alone; such a Flow is written as a document.
func owned(doc flow.Document) *NotWritable {
	for _, key := range slices.Sorted(maps.Keys(doc.Nodes)) {
		if t, ok := doc.Nodes[key].Target.(flow.FunctionTarget); ok && t.Owned() {
			return &NotWritable{Path: semantic.Pointer("nodes", key, "target", "package"), Member: "package", Reason: "package_function_not_writable"}
		}
	}
	return nil
}

// closed reports whether everything that a document binds to is in it.
func closed(doc flow.Document) bool {
	there := func(b flow.Binding) bool {
		ok := true
		switch b := b.(type) {
		case flow.FlowInput:
			_, ok = doc.Inputs[b.PortKey]
		case flow.NodeResult:
			_, ok = doc.Nodes[b.NodeKey]
		}
		return ok
	}
	for _, node := range doc.Nodes {
		for _, b := range node.InputBindings {
			if !there(b) {
				return false
			}
		}
	}
	for _, r := range doc.Results {
		if !there(r.Binding) {
			return false
		}
	}
	return true
}

type editor struct {
	layout
	lines []*line
	tail  string // behind the last statement

	flow                               *line
	inputLines, nodeLines, resultLines map[string]*line
	connectLines                       map[input]*line
	taken                              map[string]bool // names
}

// An input is a port of a Node.
type input struct{ nodeKey, portKey string }

func newEditor(text string, r Reading) *editor {
	e := &editor{layout: layout{newline: "\n"}, inputLines: map[string]*line{}, nodeLines: map[string]*line{}, resultLines: map[string]*line{},
		connectLines: map[input]*line{}, taken: map[string]bool{"px": true}}
	if n := strings.IndexByte(text, '\n'); n > 0 && text[n-1] == '\r' {
		e.newline = "\r\n"
	}
	at := 0
	for _, s := range r.Statements {
		from := s.Range[0]
		l := &line{layout: e.layout, kind: s.Kind, name: s.Name, nodeKey: s.NodeKey, portKey: s.PortKey,
			lead: text[at:from], call: s.Call.moved(from), settings: s.Settings.moved(from)}
		end := len(text)
		if n := strings.IndexByte(text[s.Range[1]:], '\n'); n >= 0 {
			end, l.end = s.Range[1]+n, "\n"
			if end > s.Range[1] && text[end-1] == '\r' {
				end, l.end = end-1, "\r\n"
			}
		}
		l.body, at = text[from:end], end+len(l.end)
		if l.end != "" {
			l.newline = l.end
		}
		e.lines = append(e.lines, l)
		e.know(l)
	}
	e.tail = text[at:]
	return e
}

func (e *editor) know(l *line) {
	if l.name != "" {
		e.taken[l.name] = true
	}
	switch l.kind {
	case flowStatement:
		e.flow = l
	case inputStatement:
		e.inputLines[l.portKey] = l
	case nodeStatement:
		e.nodeLines[l.nodeKey] = l
	case connectStatement:
		e.connectLines[input{l.nodeKey, l.portKey}] = l
	case resultStatement:
		e.resultLines[l.portKey] = l
	}
}

// text joins the lines.
func (e *editor) text() string {
	var b strings.Builder
	for _, l := range e.lines {
		b.WriteString(l.lead)
		if !l.gone {
			b.WriteString(l.body)
			b.WriteString(l.end)
		}
	}
	b.WriteString(e.tail)
	return b.String()
}

// insert puts a new line behind another. A source whose last line is not ended
// keeps that.
func (e *editor) insert(behind *line, l *line) {
	l.layout = behind.layout
	if l.end = behind.end; l.end == "" {
		behind.end = behind.newline
	}
	e.lines = slices.Insert(e.lines, slices.Index(e.lines, behind)+1, l)
	e.know(l)
}

// write makes a new line of a statement: lead is what stands before the call.
func (e *editor) write(l line, lead string, t term) *line {
	l.body = lead + e.render(t, len(lead), "", 0)
	return &l
}

// move puts a statement behind another that it refers to now.
func (e *editor) move(l, behind *line) {
	copied := *l
	copied.lead = ""
	l.gone = true
	e.insert(behind, &copied)
}

// last is the last line of some kinds, or the line of the Flow.
func (e *editor) last(kinds ...string) *line {
	for _, l := range slices.Backward(e.lines) {
		if !l.gone && slices.Contains(kinds, l.kind) {
			return l
		}
	}
	return e.flow
}

// later is the one of two lines that stands behind the other.
func (e *editor) later(a, b *line) *line {
	if b == nil || slices.Index(e.lines, a) > slices.Index(e.lines, b) {
		return a
	}
	return b
}

// of is the last line about a Node: its own, or of one of its inputs.
func (e *editor) of(nodeKey string) *line {
	for _, l := range slices.Backward(e.lines) {
		if !l.gone && l.nodeKey == nodeKey {
			return l
		}
	}
	return nil
}

func (e *editor) remove(after flow.Document) {
	drop := func(l *line) {
		l.gone = true
		delete(e.taken, l.name)
	}
	for key, l := range e.inputLines {
		if _, ok := after.Inputs[key]; !ok {
			drop(l)
			delete(e.inputLines, key)
		}
	}
	for key, l := range e.nodeLines {
		if _, ok := after.Nodes[key]; !ok {
			drop(l)
			delete(e.nodeLines, key)
		}
	}
	for at, l := range e.connectLines {
		if _, ok := after.Nodes[at.nodeKey].InputBindings[at.portKey]; !ok {
			drop(l)
			delete(e.connectLines, at)
		}
	}
	for key, l := range e.resultLines {
		if _, ok := after.Results[key]; !ok {
			drop(l)
			delete(e.resultLines, key)
		}
	}
}

// set makes an item of a group say what a term says, or adds it.
func set(l *line, g *Group, name, lead string, t term) {
	if i := g.find(name); i >= 0 {
		l.replace(g, i, t)
	} else {
		l.add(g, name, lead, t)
	}
}

func (e *editor) label(before, after flow.Document) error {
	return setLabel(e.flow, before.Label, after.Label)
}

// setLabel makes the label of a statement another one.
func setLabel(l *line, before, after target.Label) error {
	if maps.Equal(before, after) {
		return nil
	}
	if len(after) == 0 {
		l.remove(l.call, l.call.find("label"))
		return nil
	}
	t, err := encoded(after)
	if err == nil {
		set(l, l.call, "label", "label=", t)
	}
	return err
}

func (e *editor) inputs(before, after flow.Document) error {
	for _, key := range sortedKeys(after.Inputs) {
		port := after.Inputs[key]
		l := e.inputLines[key]
		if l != nil && same(before.Inputs[key], port) {
			continue
		}
		t, err := contract(port)
		if err != nil {
			return at(err, "inputs", key)
		}
		if l != nil {
			l.replace(l.call, 1, t)
			continue
		}
		name := freeName(key, "input", e.taken)
		e.insert(e.last(inputStatement), e.write(line{kind: inputStatement, name: name, portKey: key},
			name+" = ", call(e.flow.name+".input", positional(atom(quote(key))), positional(t))))
	}
	return nil
}

func (e *editor) nodes(before, after flow.Document) error {
	for _, key := range sortedKeys(after.Nodes) {
		l := e.nodeLines[key]
		if l == nil {
			continue
		}
		was, is := before.Nodes[key], after.Nodes[key]
		if was.Target != is.Target {
			l.replace(l.call, 1, targetTerm(is.Target))
		}
		if err := setLabel(l, was.Label, is.Label); err != nil {
			return err
		}
		if err := setSettings(l, was.Settings, is.Settings); err != nil {
			return err
		}
	}
	for _, key := range newNodes(e.nodeLines, after) {
		node := after.Nodes[key]
		name := freeName(key, "node", e.taken)
		parts := []part{positional(atom(quote(key))), positional(targetTerm(node.Target))}
		for _, m := range []struct {
			name string
			size int
			from any
		}{{"settings", len(node.Settings), node.Settings}, {"label", len(node.Label), node.Label}} {
			if m.size == 0 {
				continue
			}
			t, err := encoded(m.from)
			if err != nil {
				return err
			}
			parts = append(parts, keyword(m.name, t))
		}
		e.insert(e.last(inputStatement, nodeStatement, connectStatement),
			e.write(line{kind: nodeStatement, name: name, nodeKey: key}, name+" = ", call(e.flow.name+".node", parts...)))
		// What it takes from Nodes that are there stands beside it; only in a cycle
		// must something wait for a later one.
		for _, port := range sortedKeys(node.InputBindings) {
			if binding := node.InputBindings[port]; e.source(binding) != nil || isLiteral(binding) {
				if err := e.connect(key, port, binding); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// newNodes are the keys of Nodes without a line, those that others need first, and
// otherwise in order.
func newNodes(known map[string]*line, doc flow.Document) []string {
	var out []string
	seen := map[string]bool{}
	var visit func(key string)
	visit = func(key string) {
		node, ok := doc.Nodes[key]
		if !ok || seen[key] || known[key] != nil {
			return
		}
		seen[key] = true
		for _, port := range sortedKeys(node.InputBindings) {
			if from, ok := node.InputBindings[port].(flow.NodeResult); ok {
				visit(from.NodeKey)
			}
		}
		out = append(out, key)
	}
	for _, key := range sortedKeys(doc.Nodes) {
		visit(key)
	}
	return out
}

func setSettings(l *line, before, after flow.Settings) error {
	if l.settings == nil {
		if len(after) == 0 {
			return nil
		}
		t, err := encoded(after)
		if err == nil {
			l.add(l.call, "settings", "settings=", t)
		}
		return err
	}
	for _, key := range sortedKeys(before) {
		if _, ok := after[key]; !ok {
			l.remove(l.settings, l.settings.find(key))
		}
	}
	for _, key := range sortedKeys(after) {
		if was, ok := before[key]; ok && same(was, after[key]) {
			continue
		}
		t, err := encoded(after[key])
		if err != nil {
			return err
		}
		set(l, l.settings, key, quote(key)+": ", t)
	}
	return nil
}

func (e *editor) connects(before, after flow.Document) error {
	for _, key := range sortedKeys(after.Nodes) {
		bindings := after.Nodes[key].InputBindings
		for _, port := range sortedKeys(bindings) {
			l := e.connectLines[input{key, port}]
			if l == nil {
				if err := e.connect(key, port, bindings[port]); err != nil {
					return err
				}
				continue
			}
			was, known := before.Nodes[key].InputBindings[port]
			if !known || same(was, bindings[port]) {
				continue
			}
			if err := e.rebind(l, 1, bindings[port]); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect adds the statement of a binding of an input.
func (e *editor) connect(nodeKey, portKey string, b flow.Binding) error {
	t, from, err := e.binding(b)
	if err != nil {
		return at(err, "nodes", nodeKey, "inputBindings", portKey)
	}
	node := e.nodeLines[nodeKey]
	behind := e.of(nodeKey)
	if from != nil && e.later(from, behind) == from {
		behind = e.behind(from)
	}
	e.insert(behind, e.write(line{kind: connectStatement, nodeKey: nodeKey, portKey: portKey}, "",
		call(e.flow.name+".connect", positional(call(node.name+".input", positional(atom(quote(portKey))))), positional(t))))
	return nil
}

// behind is the last line of what a definition begins.
func (e *editor) behind(definition *line) *line {
	if definition.kind == nodeStatement {
		return e.of(definition.nodeKey)
	}
	return definition
}

// rebind makes the argument of a statement another binding, where it stands if what
// it refers to stands before it.
func (e *editor) rebind(l *line, argument int, b flow.Binding) error {
	t, from, err := e.binding(b)
	if err != nil {
		return err
	}
	if len(l.call.Items) > argument {
		l.replace(l.call, argument, t)
	} else {
		l.add(l.call, "", "", t)
	}
	if from != nil && e.later(from, l) == from {
		e.move(l, e.behind(from))
	}
	return nil
}

func (e *editor) results(before, after flow.Document) error {
	for _, key := range sortedKeys(after.Results) {
		result, was := after.Results[key], before.Results[key]
		l := e.resultLines[key]
		var t term
		var err error
		if l == nil || !same(was.Port, result.Port) {
			if t, err = contract(result.Port); err != nil {
				return at(err, "results", key)
			}
		}
		if l != nil {
			if t.open != "" {
				l.replace(l.call, 1, t)
			}
			switch {
			case same(was.Binding, result.Binding):
			case result.Binding == nil:
				l.remove(l.call, 2)
			default:
				if err := e.rebind(l, 2, result.Binding); err != nil {
					return at(err, "results", key, "binding")
				}
			}
			continue
		}
		parts := []part{positional(atom(quote(key))), positional(t)}
		behind := e.last(inputStatement, nodeStatement, connectStatement, resultStatement)
		if result.Binding != nil {
			source, _, err := e.binding(result.Binding)
			if err != nil {
				return at(err, "results", key, "binding")
			}
			parts = append(parts, positional(source))
		}
		e.insert(behind, e.write(line{kind: resultStatement, portKey: key}, "", call(e.flow.name+".result", parts...)))
	}
	return nil
}

// source is the line that defines what a binding refers to; nil of a literal, and
// where there is none.
func (e *editor) source(b flow.Binding) *line {
	switch b := b.(type) {
	case flow.FlowInput:
		return e.inputLines[b.PortKey]
	case flow.NodeResult:
		return e.nodeLines[b.NodeKey]
	}
	return nil
}

func isLiteral(b flow.Binding) bool {
	_, ok := b.(flow.Literal)
	return ok
}

// binding is a binding as an argument, and the line that defines what it refers to.
func (e *editor) binding(b flow.Binding) (term, *line, error) {
	from := e.source(b)
	switch b := b.(type) {
	case flow.Literal:
		t, err := encoded(b.Value)
		return call("px.literal", positional(t)), nil, err
	case flow.FlowInput:
		if from != nil {
			return atom(from.name), from, nil
		}
	case flow.NodeResult:
		if from != nil {
			return call(from.name+".output", positional(atom(quote(b.PortKey)))), from, nil
		}
	default:
		return term{}, nil, fmt.Errorf("source: a binding of type %T", b)
	}
	return term{}, nil, ErrDangling
}

func targetTerm(t flow.Target) term {
	switch t := t.(type) {
	case flow.ComponentTarget:
		return call("px.component", positional(atom(quote(t.ComponentKey))), positional(atom(fmt.Sprint(t.Version))))
	case flow.FunctionTarget:
		return call("px.function", positional(atom(quote(t.FunctionKey))), positional(atom(fmt.Sprint(t.Version))), positional(atom(quote(t.Digest))))
	default:
		panic(fmt.Sprintf("source: a target of type %T", t))
	}
}

// encoded is a value as a literal of its canonical encoding.
func encoded(v any) (term, error) {
	text, err := canon.Encode(v)
	if err != nil {
		return term{}, err
	}
	return literal(text)
}

// same reports whether two values have one encoding. What is not there is another
// value than any.
func same[T any](a, b T) bool {
	x, errX := canon.Encode(a)
	y, errY := canon.Encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// at tells where a value stands that has no form in Python.
func at(err error, names ...string) error {
	if none, ok := errors.AsType[*NotWritable](err); ok {
		none.Path = semantic.Pointer(names...)
	}
	return err
}
