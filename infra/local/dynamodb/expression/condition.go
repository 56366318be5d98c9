package expression

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

// Condition is a parsed ConditionExpression or FilterExpression.
type Condition struct{ root *node }

// ParseCondition parses the text of a condition or filter.
func ParseCondition(text string, scope *Scope) (*Condition, error) {
	root, err := parse(text, (*parser).condition)
	if err == nil {
		err = checkCondition(root, scope)
	}
	if err != nil {
		return nil, err
	}
	return &Condition{root}, nil
}

// condition = or
func (p *parser) condition() *node {
	n := p.or()
	p.mustBeCondition(n)
	return n
}

// mustBeCondition fails at the token where an operator should have been.
func (p *parser) mustBeCondition(n *node) {
	if n.kind == nodePath || n.kind == nodeValue {
		p.fail()
	}
}

// or = and {"OR" and}
func (p *parser) or() *node { return p.logical("OR", nodeOr, p.and) }

// and = not {"AND" not}
func (p *parser) and() *node { return p.logical("AND", nodeAnd, p.not) }

func (p *parser) logical(word string, kind nodeKind, part func() *node) *node {
	left := part()
	for p.peek().is(word) {
		p.mustBeCondition(left)
		p.next()
		right := part()
		p.mustBeCondition(right)
		left = &node{kind: kind, name: word, args: []*node{left, right}}
	}
	return left
}

// not = "NOT" not | comparison
func (p *parser) not() *node {
	if !p.peek().is("NOT") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	p.next()
	n := p.not()
	p.mustBeCondition(n)
	return &node{kind: nodeNot, name: "NOT", args: []*node{n}}
}

// comparison = primary [comparator operand | "BETWEEN" operand "AND" operand | "IN" "(" operand {"," operand} ")"]
func (p *parser) comparison() *node {
	left := p.primary()
	t := p.peek()
	if !t.is("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN") {
		return left
	}
	if !left.isOperand() {
		p.fail() // a comparison cannot be compared again
	}
	p.next()
	switch {
	case t.is("BETWEEN"):
		low := p.conditionOperand()
		p.expect("AND")
		return &node{kind: nodeBetween, name: "BETWEEN", args: []*node{left, low, p.conditionOperand()}}
	case t.is("IN"):
		n := &node{kind: nodeIn, name: "IN", args: []*node{left}}
		p.expect("(")
		for {
			n.args = append(n.args, p.conditionOperand())
			if _, ok := p.accept(","); !ok {
				p.expect(")")
				return n
			}
		}
	}
	return &node{kind: nodeCompare, name: t.text, args: []*node{left, p.conditionOperand()}}
}

// conditionOperand is an operand that is none of a condition's keywords.
func (p *parser) conditionOperand() *node {
	if p.peek().is("AND", "OR", "NOT", "BETWEEN", "IN") {
		p.fail()
	}
	return p.operand()
}

// primary = "(" or ")" | operand. Which of the two a parenthesis holds shows
// only at its end, so an operand in parentheses goes through or as well.
func (p *parser) primary() *node {
	if !p.peek().is("(") {
		return p.conditionOperand()
	}
	p.enter()
	defer p.leave()
	p.next()
	n := p.or()
	p.expect(")")
	n.parens++
	p.continuePath(n)
	return n
}

// checkCondition finds the faults of a well-formed condition, in DynamoDB's
// order: parentheses, functions, reserved words, then the first faulty part.
func checkCondition(root *node, scope *Scope) *Error {
	var misused, redundant *Error
	root.walk(func(n *node) {
		if n.parens > 1 {
			redundant = &Error{"The expression has redundant parentheses;"}
		}
		if bad := misusedFunction(n); bad != "" && misused == nil {
			misused = &Error{"The function is not allowed to be used this way in an expression; function: " + bad}
		}
	})
	if root.kind == nodeCall && root.name == "size" {
		misused = firstError(misused, &Error{"The function is not allowed to be used this way in an expression; function: size"})
	}
	words := checkWords([]*node{root}, func(f function) bool { return f.condition }, "a condition expression")
	if words != nil && strings.HasPrefix(words.Message, "Attribute name") {
		return firstError(redundant, misused, words) // a misused function is told before a reserved word
	}
	return firstError(redundant, words, misused, checkParts(root, scope))
}

// misusedFunction returns the name of a function that n uses as an operand
// though it gives no value, or as a condition though it gives no truth.
func misusedFunction(n *node) string {
	logical := n.kind == nodeAnd || n.kind == nodeOr || n.kind == nodeNot
	for _, a := range n.args {
		if a.kind == nodeCall && (a.name == "size") == logical {
			return a.name
		}
	}
	return ""
}

// checkParts checks the comparisons and functions from left to right. Every
// placeholder is resolved, even after a fault.
func checkParts(n *node, scope *Scope) *Error {
	if n.kind == nodeAnd || n.kind == nodeOr || n.kind == nodeNot {
		var first *Error
		for _, a := range n.args {
			first = firstError(first, checkParts(a, scope))
		}
		return first
	}
	undefined := n.resolve(scope)
	if undefined != nil {
		return undefined
	}
	var arity, distinct, kind *Error
	n.walk(func(m *node) {
		if m.kind == nodePath {
			kind = firstError(kind, errDepth(m.raw))
			return
		}
		if m.kind == nodeCall && len(m.args) != functions[m.name].arity {
			arity = firstError(arity, errArity(m))
			return
		}
		distinct = firstError(distinct, checkDistinct(m))
		kind = firstError(kind, checkOperandTypes(m))
	})
	return firstError(arity, distinct, kind)
}

func checkDistinct(n *node) *Error {
	if len(n.args) < 2 || n.kind == nodeBetween || n.args[0].kind != nodePath {
		return nil
	}
	for _, other := range n.args[1:] {
		if other.kind == nodePath && other.path.String() == n.args[0].path.String() {
			return &Error{"The first operand must be distinct from the remaining operands for this operator or function; operator: " +
				n.name + ", first operand: " + n.args[0].path.String()}
		}
	}
	return nil
}

// checkOperandTypes checks the types of the values that the request defines.
// Attributes of a wrong type make a condition false; they are no error.
func checkOperandTypes(n *node) *Error {
	switch {
	case n.kind == nodeIn && len(n.args)-1 > maxIn:
		return &Error{"The IN operator is provided with too many operands; number of operands: " + strconv.Itoa(len(n.args)-1)}
	case n.kind == nodeBetween:
		return checkBetween(n.args[0], n.args[1], n.args[2])
	case n.kind == nodeCompare && n.name != "=" && n.name != "<>":
		return checkOrdered(n.name, n.args)
	case n.kind == nodeCall:
		return checkCall(n)
	}
	return nil
}

func ordered(k attribute.Kind) bool {
	return k == attribute.S || k == attribute.N || k == attribute.B
}

func checkBetween(operands ...*node) *Error {
	low, high := operands[1], operands[2]
	if low.kind != nodeValue || high.kind != nodeValue {
		return checkOrdered("BETWEEN", operands)
	}
	bounds := "lower bound operand: " + describe(low.value) + ", upper bound operand: " + describe(high.value)
	if low.value.Kind() != high.value.Kind() {
		return &Error{"The BETWEEN operator requires same data type for lower and upper bounds; " + bounds}
	}
	if err := checkOrdered("BETWEEN", operands); err != nil {
		return err
	}
	if order, _ := low.value.Compare(high.value); order > 0 {
		return &Error{"The BETWEEN operator requires upper bound to be greater than or equal to lower bound; " + bounds}
	}
	return nil
}

// checkOrdered fails if one of the values that the request defines has no order.
func checkOrdered(operator string, operands []*node) *Error {
	for _, a := range operands {
		if k := a.constantKind(); k != 0 && !ordered(k) {
			return errOperandType(operator, k.String())
		}
	}
	return nil
}

func describe(v attribute.Value) string {
	text := v.Text()
	switch v.Kind() {
	case attribute.N:
		text = v.Number().String()
	case attribute.B:
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return "AttributeValue: {" + v.Kind().String() + ":" + text + "}"
}

func checkCall(n *node) *Error {
	switch n.name {
	case "attribute_exists", "attribute_not_exists":
		if n.args[0].kind != nodePath {
			return &Error{"Operator or function requires a document path; operator or function: " + n.name}
		}
	case "begins_with":
		for _, a := range n.args {
			if k := a.constantKind(); k != 0 && k != attribute.S && k != attribute.B {
				return errOperandType(n.name, k.String())
			}
		}
	case "attribute_type":
		switch k := n.args[1].constantKind(); {
		case k == 0:
			return errOperandType(n.name, "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
		case k != attribute.S:
			return errOperandType(n.name, k.String())
		}
		if _, known := attribute.KindOf(n.args[1].value.Text()); !known {
			return &Error{"Invalid attribute type name found; type: " + n.args[1].value.Text() +
				", valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"}
		}
	case "size":
		if k := n.args[0].constantKind(); k == attribute.N || k == attribute.BOOL || k == attribute.NULL {
			return errOperandType(n.name, k.String())
		}
	}
	return nil
}

// Match tells whether the condition holds for an item. A nil item is an item
// without attributes.
func (c *Condition) Match(item attribute.Map) bool { return c.root.holds(item) }

func (n *node) holds(item attribute.Map) bool {
	switch n.kind {
	case nodeAnd:
		return n.args[0].holds(item) && n.args[1].holds(item)
	case nodeOr:
		return n.args[0].holds(item) || n.args[1].holds(item)
	case nodeNot:
		return !n.args[0].holds(item)
	case nodeCompare:
		return compare(n.name, n.args[0].operandValue(item), n.args[1].operandValue(item))
	case nodeBetween:
		v := n.args[0].operandValue(item)
		return compare(">=", v, n.args[1].operandValue(item)) && compare("<=", v, n.args[2].operandValue(item))
	case nodeIn:
		v := n.args[0].operandValue(item)
		for _, a := range n.args[1:] {
			if compare("=", v, a.operandValue(item)) {
				return true
			}
		}
		return false
	}
	return n.callHolds(item)
}

func (n *node) callHolds(item attribute.Map) bool {
	v := n.args[0].operandValue(item)
	switch n.name {
	case "attribute_exists":
		return !v.IsZero()
	case "attribute_not_exists":
		return v.IsZero()
	case "attribute_type":
		return v.Kind() != 0 && v.Kind().String() == n.args[1].value.Text()
	case "begins_with":
		prefix := n.args[1].operandValue(item)
		return v.Kind() == prefix.Kind() && (v.Kind() == attribute.S || v.Kind() == attribute.B) &&
			strings.HasPrefix(v.Text(), prefix.Text())
	case "contains":
		return contains(v, n.args[1].operandValue(item))
	}
	panic("expression: unchecked function " + n.name)
}

// operandValue is the value of a path, a defined value or size(); no value if
// the path leads nowhere or the thing has no size.
func (n *node) operandValue(item attribute.Map) attribute.Value {
	switch n.kind {
	case nodeValue:
		return n.value
	case nodePath:
		v, _ := n.path.Find(item)
		return v
	}
	v := n.args[0].operandValue(item)
	size := 0
	switch v.Kind() {
	case attribute.S, attribute.B:
		size = len(v.Text()) // bytes of UTF-8 for a string
	case attribute.L, attribute.SS, attribute.NS, attribute.BS:
		size = len(v.Elements())
	case attribute.M:
		size = len(v.Fields())
	default:
		return attribute.Value{}
	}
	return attribute.Number(decimal.FromInt(int64(size)))
}

// compare applies a comparator. What does not exist differs from everything,
// itself included, and has no order; neither have values of different types.
func compare(operator string, a, b attribute.Value) bool {
	equal := !a.IsZero() && !b.IsZero() && a.Equal(b)
	switch operator {
	case "=":
		return equal
	case "<>":
		return !equal
	}
	order, ok := a.Compare(b)
	if !ok {
		return false
	}
	switch operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// contains tells whether b is a substring of a or one of its elements.
func contains(a, b attribute.Value) bool {
	switch k := a.Kind(); {
	case b.IsZero():
		return false
	case k == attribute.S || k == attribute.B:
		return b.Kind() == k && strings.Contains(a.Text(), b.Text())
	case k == attribute.L || k.IsSet():
		for _, e := range a.Elements() {
			if e.Equal(b) {
				return true
			}
		}
	}
	return false
}

// Roots are the names of the attributes the condition reads.
func (c *Condition) Roots() []string { return roots(c.root.paths()) }

// Nested are the names of the attributes into which the condition reads.
func (c *Condition) Nested() []string { return nested(c.root.paths()) }

func (n *node) paths() []Path {
	var paths []Path
	n.walk(func(m *node) {
		if m.kind == nodePath {
			paths = append(paths, m.path)
		}
	})
	return paths
}

func roots(paths []Path) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = p[0].Name
	}
	return names
}

func nested(paths []Path) []string {
	var names []string
	for _, p := range paths {
		if len(p) > 1 {
			names = append(names, p[0].Name)
		}
	}
	return names
}
