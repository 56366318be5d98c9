package expression

import (
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

type nodeKind int

const (
	nodePath nodeKind = iota
	nodeValue
	nodeCall
	nodeCompare // = <> < <= > >=
	nodeBetween
	nodeIn
	nodeAnd
	nodeOr
	nodeNot
	nodeArithmetic // + -
)

// node is a part of a condition, or of the right side of a SET.
type node struct {
	kind nodeKind
	name string // function, operator, or placeholder of a value
	args []*node

	raw   []rawStep // nodePath, as written
	path  Path      // nodePath, resolved
	value attribute.Value

	parens int // pairs of parentheses written directly around it
}

// isOperand tells whether the node can stand beside an operator.
func (n *node) isOperand() bool {
	return n.kind == nodePath || n.kind == nodeValue || n.kind == nodeCall
}

// constantKind is the type of a value that the request defines, 0 for all else.
func (n *node) constantKind() attribute.Kind {
	if n.kind == nodeValue {
		return n.value.Kind()
	}
	return 0
}

// walk visits the node and all below it, in the order they were written.
func (n *node) walk(visit func(*node)) {
	if len(n.args) == 0 || n.kind == nodeCall || n.kind == nodeNot {
		visit(n)
		for _, a := range n.args {
			a.walk(visit)
		}
		return
	}
	n.args[0].walk(visit)
	visit(n)
	for _, a := range n.args[1:] {
		a.walk(visit)
	}
}

// operand = "(" operand ")" | function | :value | path
func (p *parser) operand() *node {
	p.enter()
	defer p.leave()
	t := p.peek()
	switch {
	case t.is("("):
		p.next()
		n := p.operand()
		p.expect(")")
		n.parens++
		p.continuePath(n)
		return n
	case t.kind == tokenValuePlaceholder:
		return &node{kind: nodeValue, name: p.next().text}
	case t.kind == tokenName && p.tokens[p.pos+1].is("("):
		return p.call()
	case t.kind == tokenName || t.kind == tokenNamePlaceholder:
		return &node{kind: nodePath, raw: p.steps(p.next())}
	}
	p.fail()
	return nil
}

// continuePath takes what follows a path in parentheses: (a.b)[0] is a path.
func (p *parser) continuePath(n *node) {
	if n.kind == nodePath && p.peek().is(".", "[") {
		n.raw = append(n.raw, p.steps(token{})[1:]...)
	}
}

// call = name "(" operand {"," operand} ")"
func (p *parser) call() *node {
	n := &node{kind: nodeCall, name: p.next().text}
	p.expect("(")
	for {
		n.args = append(n.args, p.operand())
		if _, ok := p.accept(","); !ok {
			p.expect(")")
			return n
		}
	}
}

// enter bounds the depth of recursion. Expressions are at most maxBytes long,
// so only what is refused anyway gets this deep.
func (p *parser) enter() {
	if p.depth++; p.depth > maxBytes {
		p.fail()
	}
}

func (p *parser) leave() { p.depth-- }

// resolve fills in placeholders and returns the first one that is not defined.
func (n *node) resolve(scope *Scope) *Error {
	var first *Error
	n.walk(func(m *node) {
		var err *Error
		switch m.kind {
		case nodePath:
			m.path, err = resolve(m.raw, scope)
		case nodeValue:
			m.value, err = scope.value(m.name)
		}
		if first == nil {
			first = err
		}
	})
	return first
}

// function describes what a function takes and where it may stand.
type function struct {
	arity     int
	condition bool // it may stand in a condition
	update    bool // it may stand in an update
}

var functions = map[string]function{
	"attribute_exists":     {arity: 1, condition: true},
	"attribute_not_exists": {arity: 1, condition: true},
	"attribute_type":       {arity: 2, condition: true},
	"begins_with":          {arity: 2, condition: true},
	"contains":             {arity: 2, condition: true},
	"size":                 {arity: 1, condition: true},
	"if_not_exists":        {arity: 2, update: true},
	"list_append":          {arity: 2, update: true},
}

// checkWords finds, over whole expressions, the faults that are told before any
// fault of a part: too many operators, unknown functions, reserved words.
func checkWords(nodes []*node, allowed func(function) bool, where string) *Error {
	operators := 0
	var unknown, foreign, reserved *Error
	for _, n := range nodes {
		n.walk(func(m *node) {
			switch m.kind {
			case nodeCall:
				f, known := functions[m.name]
				if !known && unknown == nil {
					unknown = &Error{"Invalid function name; function: " + m.name}
				} else if known && !allowed(f) && foreign == nil {
					foreign = &Error{"The function is not allowed in " + where + "; function: " + m.name}
				}
			case nodePath:
				if word, ok := reservedIn(m.raw); ok && reserved == nil {
					reserved = errReserved(word)
				}
			case nodeValue:
			default:
				operators++
			}
		})
	}
	if operators > maxOperators {
		return &Error{"The expression contains too many operators; operator count: " + strconv.Itoa(operators)}
	}
	return firstError(unknown, foreign, reserved)
}

func firstError(errs ...*Error) *Error {
	if i := slices.IndexFunc(errs, func(e *Error) bool { return e != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

func errArity(n *node) *Error {
	return &Error{"Incorrect number of operands for operator or function; operator or function: " + n.name +
		", number of operands: " + strconv.Itoa(len(n.args))}
}

func errOperandType(operator, kind string) *Error {
	return &Error{"Incorrect operand type for operator or function; operator or function: " + operator + ", operand type: " + kind}
}
