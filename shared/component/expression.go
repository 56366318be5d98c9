package component

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
)

// kind is the type of an expression. The zero value stands for an expression
// with a finding already, which fits everywhere so that one mistake is told once.
type kind int

const (
	badKind kind = iota
	numberKind
	booleanKind
	textKind
)

func (k kind) String() string { return [...]string{"", "number", "boolean", "string"}[k] }

// thermal tells temperatures from differences of them; what is known to be
// neither, or may be either (K), is plain.
type thermal int

const (
	plain thermal = iota
	absolute
	difference
)

type exprType struct {
	kind    kind
	dim     dimension
	thermal thermal
}

func numberType(u quantity.Unit) exprType {
	t := exprType{kind: numberKind, dim: dimensionOf(u)}
	switch {
	case u.Absolute():
		t.thermal = absolute
	case u.Difference():
		t.thermal = difference
	}
	return t
}

// A variable is a name that expressions may use: one slot of a frame.
type variable struct {
	typ  exprType
	slot int
}

// frame holds the values of one evaluation: numbers in coherent SI, booleans as
// 0 and 1, texts apart.
type frame struct {
	numbers []float64
	texts   []string
	failure string // reason of the first operation without a finite result
	offset  int    // of that operation in the expression
}

func (fr *frame) fail(reason string, offset int) float64 {
	if fr.failure == "" {
		fr.failure, fr.offset = reason, offset
	}
	return math.NaN()
}

type (
	numberFunc func(*frame) float64
	textFunc   func(*frame) string
)

// The reasons of PX_RUN_FAILED from an expression.
const (
	DivisionByZero = "division_by_zero"
	OutOfDomain    = "outside_the_domain_of_the_function"
	Overflow       = "overflow"
)

// parserConfig turns every builtin of the expression library off.
var parserConfig = func() *conf.Config {
	c := &conf.Config{Disabled: map[string]bool{}, DisableIfOperator: true}
	for _, f := range builtin.Builtins {
		c.Disabled[f.Name] = true
	}
	return c
}()

// syntax is an expression that was read but not yet understood.
type syntax struct {
	root  ast.Node
	names []string // identifiers, in order, each once
	size  int      // nodes
}

// read parses an expression and counts its nodes. nil means that f has a finding.
func read(f *outcome.Findings, path, source string) *syntax {
	if source == "" {
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "required"})
		return nil
	}
	if len(source) > MaxExpression {
		f.Add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxExpression, "observed": len(source), "of": "expressionBytes"})
		return nil
	}
	seen := scan(source)
	if seen.construct != "" {
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "not_supported", "construct": seen.construct, "offset": seen.offset, "supported": supported})
		return nil
	}
	if seen.nesting > MaxNesting {
		f.Add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxNesting, "observed": seen.nesting, "of": "nesting"})
		return nil
	}
	tree, err := new(parser.Parser).Parse(source, parserConfig)
	if err != nil || tree.Node == nil {
		offset := len(source)
		var where *file.Error
		if errors.As(err, &where) {
			offset = where.From
		}
		f.Add(outcome.SchemaInvalid, path, outcome.Params{"rule": "syntax", "offset": offset})
		return nil
	}
	c := counter{sizes: map[ast.Node]int{}}
	n := c.count(tree.Node)
	if n > MaxNodes {
		f.Add(outcome.LimitExceeded, path, outcome.Params{"limit": MaxNodes, "observed": n, "of": "expressionNodes"})
		return nil
	}
	return &syntax{tree.Node, c.names, n}
}

// scanned is what the text of an expression shows before it is parsed.
type scanned struct {
	nesting   int    // deepest, of brackets and conditionals
	construct string // the first that the parser would leave out or reorder without a trace
	offset    int    // of the construct, in characters, as the parser counts
}

// scan looks for what the syntax tree does not show any more. A comment is gone
// from it: who means the quotient of Python by "a // b" would calculate a. A pipe
// is a call already, and binds more loosely than it looks: a + b|abs() is
// abs(a + b).
func scan(source string) scanned {
	var out scanned
	var quote, before rune
	depth, offset := 0, -1
	escaped := false
	for _, c := range source {
		offset++
		if quote != 0 {
			switch {
			case escaped:
				escaped = false
			case c == '\\' && quote != '`':
				escaped = true
			case c == quote:
				quote = 0
			}
			continue
		}
		construct := ""
		switch c {
		case '"', '\'', '`':
			quote = c
		case '(', '[', '{', '?':
			depth++
		case ')', ']', '}', ':':
			depth--
		case '/', '*':
			if before == '/' {
				construct = "comment"
			}
		}
		if before == '|' && c != '|' {
			construct = "pipe"
		}
		if construct != "" {
			out.construct, out.offset = construct, offset-1
			return out
		}
		out.nesting = max(out.nesting, depth)
		if before == '|' {
			c = 0 // the second of ||
		}
		before = c
	}
	return out
}

// counter counts the nodes of a syntax tree and collects its names. A chained
// comparison (a < b < c) shares b between two nodes, and chains within chains
// would be walked exponentially often: sizes remembers each node.
type counter struct {
	sizes map[ast.Node]int
	names []string
}

func (c *counter) count(node ast.Node) int {
	if n, ok := c.sizes[node]; ok {
		return n
	}
	var parts []ast.Node
	switch n := node.(type) {
	case *ast.IdentifierNode:
		if !slices.Contains(c.names, n.Value) {
			c.names = append(c.names, n.Value)
		}
	case *ast.UnaryNode:
		parts = []ast.Node{n.Node}
	case *ast.BinaryNode:
		parts = []ast.Node{n.Left, n.Right}
	case *ast.ConditionalNode:
		parts = []ast.Node{n.Cond, n.Exp1, n.Exp2}
	case *ast.CallNode:
		parts = n.Arguments
	case *ast.BuiltinNode:
		parts = n.Arguments
	}
	// Whatever else there is is refused as it stands, without a look inside.
	size := 1
	for _, part := range parts {
		size = min(size+c.count(part), math.MaxInt32)
	}
	c.sizes[node] = size
	return size
}

// compiler infers types and units bottom-up and builds the evaluation as it goes.
type compiler struct {
	findings *outcome.Findings
	path     string
	names    map[string]variable
}

// compiled is one subexpression.
type compiled struct {
	exprType
	number numberFunc // of numbers and booleans
	text   textFunc
}

func (c *compiler) refuse(code outcome.Code, node ast.Node, reason string, params outcome.Params) compiled {
	if params == nil {
		params = outcome.Params{}
	}
	name := "reason"
	if code == outcome.SchemaInvalid {
		name = "rule"
	}
	params[name], params["offset"] = reason, node.Location().From
	c.findings.Add(code, c.path, params)
	return compiled{}
}

func (c *compiler) compile(node ast.Node) compiled {
	switch n := node.(type) {
	case *ast.IntegerNode:
		if n.Value > quantity.MaxInteger || n.Value < quantity.MinInteger {
			return c.refuse(outcome.SchemaInvalid, n, "range", outcome.Params{"minimum": quantity.MinInteger, "maximum": quantity.MaxInteger})
		}
		return constant(float64(n.Value), noDimension)
	case *ast.FloatNode:
		return constant(n.Value, noDimension)
	case *ast.BoolNode:
		x := truth(n.Value)
		return compiled{exprType{kind: booleanKind}, func(*frame) float64 { return x }, nil}
	case *ast.StringNode:
		s := n.Value
		return compiled{exprType{kind: textKind}, nil, func(*frame) string { return s }}
	case *ast.IdentifierNode:
		return c.name(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.call(n, id.Value, n.Arguments)
		}
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	}
	return c.refuse(outcome.SchemaInvalid, node, "not_supported", outcome.Params{"construct": construct(node), "supported": supported})
}

const supported = "numbers, names, + - * / ^, comparisons, and or not, a ? b : c, function calls"

func construct(node ast.Node) string {
	switch node.(type) {
	case *ast.NilNode:
		return "nil"
	case *ast.ArrayNode:
		return "array"
	case *ast.MapNode:
		return "map"
	case *ast.MemberNode, *ast.ChainNode:
		return "member access"
	case *ast.SliceNode:
		return "slice"
	case *ast.VariableDeclaratorNode:
		return "let"
	case *ast.SequenceNode:
		return "sequence"
	case *ast.BytesNode:
		return "bytes"
	}
	return "expression"
}

func constant(x float64, d dimension) compiled {
	return compiled{exprType{kind: numberKind, dim: d}, func(*frame) float64 { return x }, nil}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *compiler) name(n *ast.IdentifierNode) compiled {
	v, ok := c.names[n.Value]
	if !ok {
		if n.Value == "pi" {
			return constant(math.Pi, noDimension)
		}
		return c.refuse(outcome.ReferenceUnknown, n, "unknown_name", outcome.Params{"name": n.Value})
	}
	slot := v.slot
	if v.typ.kind == textKind {
		return compiled{v.typ, nil, func(fr *frame) string { return fr.texts[slot] }}
	}
	return compiled{v.typ, func(fr *frame) float64 { return fr.numbers[slot] }, nil}
}

// want reports whether x has the kind; an expression that was refused already
// has not, without a further finding.
func (c *compiler) want(x compiled, k kind, node ast.Node) bool {
	if x.kind != k && x.kind != badKind {
		c.refuse(outcome.TypeMismatch, node, "operand", outcome.Params{"expected": k.String(), "found": x.kind.String()})
	}
	return x.kind == k
}

// dimensionless reports whether a number has no unit.
func (c *compiler) dimensionless(x compiled, node ast.Node, of string) bool {
	if x.dim != noDimension {
		c.refuse(outcome.UnitMismatch, node, "must_be_dimensionless", outcome.Params{"of": of, "found": x.dim.String()})
		return false
	}
	return true
}

func (c *compiler) unary(n *ast.UnaryNode) compiled {
	x := c.compile(n.Node)
	f := x.number
	switch n.Operator {
	case "-":
		if !c.want(x, numberKind, n) {
			return compiled{}
		}
		if x.thermal == absolute {
			return c.refuse(outcome.UnitMismatch, n, "temperature_with_zero", outcome.Params{"operator": "-"})
		}
		return compiled{x.exprType, func(fr *frame) float64 { return -f(fr) }, nil}
	case "+":
		if !c.want(x, numberKind, n) {
			return compiled{}
		}
		return x
	case "not", "!":
		if !c.want(x, booleanKind, n) {
			return compiled{}
		}
		return compiled{exprType{kind: booleanKind}, func(fr *frame) float64 { return 1 - f(fr) }, nil}
	}
	return c.refuse(outcome.SchemaInvalid, n, "not_supported", outcome.Params{"operator": n.Operator, "supported": supported})
}

func (c *compiler) binary(n *ast.BinaryNode) compiled {
	switch n.Operator {
	case "^", "**":
		return c.power(n)
	case "+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "and", "or", "&&", "||":
	default:
		return c.refuse(outcome.SchemaInvalid, n, "not_supported", outcome.Params{"operator": n.Operator, "supported": supported})
	}
	a, b := c.compile(n.Left), c.compile(n.Right)
	f, g, at := a.number, b.number, n.Location().From
	switch n.Operator {
	case "and", "&&", "or", "||":
		if okA, okB := c.want(a, booleanKind, n.Left), c.want(b, booleanKind, n.Right); !okA || !okB {
			return compiled{}
		}
		stop := truth(n.Operator == "or" || n.Operator == "||")
		return compiled{exprType{kind: booleanKind}, func(fr *frame) float64 {
			if f(fr) == stop {
				return stop
			}
			return g(fr)
		}, nil}
	case "==", "!=":
		return c.equality(n, a, b)
	}
	if okA, okB := c.want(a, numberKind, n.Left), c.want(b, numberKind, n.Right); !okA || !okB {
		return compiled{}
	}
	switch n.Operator {
	case "*", "/":
		sign := 1
		if n.Operator == "/" {
			sign = -1
		}
		d, ok := a.dim.plus(b.dim, sign)
		if !ok {
			return c.refuse(outcome.UnitMismatch, n, "power_out_of_range", outcome.Params{"left": a.dim.String(), "right": b.dim.String()})
		}
		t := exprType{kind: numberKind, dim: d}
		// Half of a difference is a difference; half of a temperature is a number of kelvins.
		if a.thermal == difference && b.dim == noDimension || sign > 0 && b.thermal == difference && a.dim == noDimension {
			t.thermal = difference
		}
		if sign > 0 {
			return compiled{t, func(fr *frame) float64 { return finite(fr, f(fr)*g(fr), at) }, nil}
		}
		return compiled{t, func(fr *frame) float64 {
			x, y := f(fr), g(fr)
			if y == 0 {
				return fr.fail(DivisionByZero, at)
			}
			return finite(fr, x/y, at)
		}, nil}
	}
	if !c.same(n, a, b) {
		return compiled{}
	}
	switch n.Operator {
	case "+", "-":
		th, reason := sumThermal(a.thermal, b.thermal, n.Operator == "-")
		if reason != "" {
			return c.refuse(outcome.UnitMismatch, n, reason, outcome.Params{"operator": n.Operator})
		}
		t := exprType{numberKind, a.dim, th}
		if n.Operator == "+" {
			return compiled{t, func(fr *frame) float64 { return finite(fr, f(fr)+g(fr), at) }, nil}
		}
		return compiled{t, func(fr *frame) float64 { return finite(fr, f(fr)-g(fr), at) }, nil}
	}
	if !c.alike(n, a, b) {
		return compiled{}
	}
	var compare numberFunc
	switch n.Operator {
	case "<":
		compare = func(fr *frame) float64 { return truth(f(fr) < g(fr)) }
	case "<=":
		compare = func(fr *frame) float64 { return truth(f(fr) <= g(fr)) }
	case ">":
		compare = func(fr *frame) float64 { return truth(f(fr) > g(fr)) }
	case ">=":
		compare = func(fr *frame) float64 { return truth(f(fr) >= g(fr)) }
	}
	return compiled{exprType{kind: booleanKind}, compare, nil}
}

func finite(fr *frame, x float64, at int) float64 {
	if math.IsInf(x, 0) {
		return fr.fail(Overflow, at)
	}
	return x
}

// same reports whether two numbers have one dimension.
func (c *compiler) same(n *ast.BinaryNode, a, b compiled) bool {
	if a.dim != b.dim {
		c.refuse(outcome.UnitMismatch, n, "dimension", outcome.Params{"operator": n.Operator, "left": a.dim.String(), "right": b.dim.String()})
		return false
	}
	return true
}

// alike reports whether two numbers of one dimension are both temperatures, or
// neither is.
func (c *compiler) alike(node ast.Node, a, b compiled) bool {
	if a.thermal != plain && b.thermal != plain && a.thermal != b.thermal {
		c.refuse(outcome.UnitMismatch, node, "temperature_is_not_a_difference", nil)
		return false
	}
	return true
}

// sumThermal says what a sum or difference of temperatures is, or why it is
// nothing. What is added to a temperature can only be a difference; but what is
// in K and subtracted from one may be either, and then the result would be one or
// the other: that is refused, and delta_degC or degC says what is meant.
func sumThermal(a, b thermal, minus bool) (result thermal, reason string) {
	switch {
	case a == absolute && b == absolute && minus:
		return difference, ""
	case a == absolute && b == absolute, b == absolute && minus && a == difference:
		return plain, "temperature_with_zero"
	case minus && (a == absolute && b == plain || a == plain && b == absolute):
		return plain, "temperature_or_difference_is_not_told"
	case a == absolute || b == absolute:
		return absolute, ""
	case a == difference && b == difference:
		return difference, ""
	}
	return plain, ""
}

func (c *compiler) equality(n *ast.BinaryNode, a, b compiled) compiled {
	if a.kind == badKind || b.kind == badKind {
		return compiled{}
	}
	if a.kind != b.kind {
		return c.refuse(outcome.TypeMismatch, n, "operand", outcome.Params{"operator": n.Operator, "left": a.kind.String(), "right": b.kind.String()})
	}
	equal := n.Operator == "=="
	t := exprType{kind: booleanKind}
	if a.kind == textKind {
		f, g := a.text, b.text
		return compiled{t, func(fr *frame) float64 { return truth((f(fr) == g(fr)) == equal) }, nil}
	}
	if a.kind == numberKind && (!c.same(n, a, b) || !c.alike(n, a, b)) {
		return compiled{}
	}
	f, g := a.number, b.number
	return compiled{t, func(fr *frame) float64 { return truth((f(fr) == g(fr)) == equal) }, nil}
}

func (c *compiler) conditional(n *ast.ConditionalNode) compiled {
	cond, a, b := c.compile(n.Cond), c.compile(n.Exp1), c.compile(n.Exp2)
	if !c.want(cond, booleanKind, n.Cond) || a.kind == badKind || b.kind == badKind {
		return compiled{}
	}
	if a.kind != b.kind {
		return c.refuse(outcome.TypeMismatch, n, "branches", outcome.Params{"left": a.kind.String(), "right": b.kind.String()})
	}
	if a.kind == numberKind && a.dim != b.dim {
		return c.refuse(outcome.UnitMismatch, n, "branches", outcome.Params{"left": a.dim.String(), "right": b.dim.String()})
	}
	if !c.alike(n, a, b) {
		return compiled{}
	}
	test := cond.number
	out := compiled{exprType: either(a.exprType, b.exprType)}
	if a.kind == textKind {
		f, g := a.text, b.text
		out.text = func(fr *frame) string {
			if test(fr) == 1 {
				return f(fr)
			}
			return g(fr)
		}
		return out
	}
	f, g := a.number, b.number
	out.number = func(fr *frame) float64 {
		if test(fr) == 1 {
			return f(fr)
		}
		return g(fr)
	}
	return out
}

// either is the type of what is one of two alike numbers.
func either(a, b exprType) exprType {
	if a.thermal != b.thermal {
		a.thermal = plain
	}
	return a
}

// power compiles base ^ exponent. A base with a unit takes a constant rational
// exponent, since otherwise the unit of the result would depend on a value.
func (c *compiler) power(n *ast.BinaryNode) compiled {
	base, exponent := c.compile(n.Left), c.compile(n.Right)
	if okA, okB := c.want(base, numberKind, n.Left), c.want(exponent, numberKind, n.Right); !okA || !okB {
		return compiled{}
	}
	if !c.dimensionless(exponent, n.Right, "exponent") {
		return compiled{}
	}
	f, g, at := base.number, exponent.number, n.Location().From
	rational, fixed := exponentOf(n.Right)
	t := exprType{kind: numberKind, dim: noDimension}
	if base.dim != noDimension {
		ok := fixed && rational.inRange()
		if ok {
			t.dim, ok = base.dim.times(rational)
		}
		if !ok {
			return c.refuse(outcome.UnitMismatch, n, "exponent_of_a_unit_must_be_a_small_constant_rational", outcome.Params{"base": base.dim.String(), "limit": maxExponent})
		}
	}
	if fixed && rational.whole() && rational.inRange() {
		k := rational.num
		return compiled{t, func(fr *frame) float64 {
			x := f(fr)
			if x == 0 && k < 0 {
				return fr.fail(DivisionByZero, at)
			}
			return finite(fr, powInt(x, k), at)
		}, nil}
	}
	if fixed && rational == (fraction{1, 2}) {
		return compiled{t, squareRoot(f, at), nil}
	}
	return compiled{t, func(fr *frame) float64 {
		x, y := f(fr), g(fr)
		switch {
		case x == 0 && y < 0:
			return fr.fail(DivisionByZero, at)
		case x < 0 && y != math.Trunc(y):
			return fr.fail(OutOfDomain, at)
		}
		return finite(fr, pow(x, y), at)
	}, nil}
}

// exponentOf evaluates a constant expression of literals exactly.
func exponentOf(node ast.Node) (fraction, bool) {
	r := rationalOf(node)
	if r == nil || !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return fraction{}, false
	}
	num, den := r.Num().Int64(), r.Denom().Int64()
	if num > 1e6 || num < -1e6 || den > 1e6 {
		return fraction{}, false
	}
	return newFraction(int(num), int(den)), true
}

// rationalOf gives up on what is long: no exponent that is kept needs it.
func rationalOf(node ast.Node) *big.Rat {
	r := rationalTree(node)
	if r != nil && (r.Num().BitLen() > 128 || r.Denom().BitLen() > 128) {
		return nil
	}
	return r
}

func rationalTree(node ast.Node) *big.Rat {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return new(big.Rat).SetInt64(int64(n.Value))
	case *ast.FloatNode:
		if n.Value > 1e6 || n.Value < 1e-6 {
			return nil
		}
		r, ok := new(big.Rat).SetString(strconv.FormatFloat(n.Value, 'g', -1, 64))
		if !ok {
			return nil
		}
		return r
	case *ast.UnaryNode:
		x := rationalOf(n.Node)
		switch {
		case x == nil:
			return nil
		case n.Operator == "-":
			return x.Neg(x)
		case n.Operator == "+":
			return x
		}
	case *ast.BinaryNode:
		a, b := rationalOf(n.Left), rationalOf(n.Right)
		switch {
		case a == nil || b == nil:
		case n.Operator == "+":
			return a.Add(a, b)
		case n.Operator == "-":
			return a.Sub(a, b)
		case n.Operator == "*":
			return a.Mul(a, b)
		case n.Operator == "/" && b.Sign() != 0:
			return a.Quo(a, b)
		}
	}
	return nil
}

func squareRoot(f numberFunc, at int) numberFunc {
	return func(fr *frame) float64 {
		x := f(fr)
		if x < 0 {
			return fr.fail(OutOfDomain, at)
		}
		return math.Sqrt(x)
	}
}

// A function is one that formulas may call.
type function struct {
	least, most int
	// same: the arguments share a dimension, which the result has as well.
	same bool
	do   func(x []float64) float64
}

// maxArguments of min and max.
const maxArguments = 64

// functions are all there is to call. Arguments are dimensionless, angles in
// radians, unless told otherwise.
var functions = map[string]function{
	"abs":   {1, 1, true, func(x []float64) float64 { return math.Abs(x[0]) }},
	"min":   {1, maxArguments, true, slices.Min[[]float64]},
	"max":   {1, maxArguments, true, slices.Max[[]float64]},
	"sqrt":  {1, 1, true, nil}, // half the dimension
	"atan2": {2, 2, true, nil}, // dimensionless
	"exp":   {1, 1, false, func(x []float64) float64 { return exp(x[0]) }},
	"log":   {1, 1, false, func(x []float64) float64 { return log(x[0]) }},
	"log10": {1, 1, false, func(x []float64) float64 { return log10(x[0]) }},
	"sin":   {1, 1, false, func(x []float64) float64 { return sin(x[0]) }},
	"cos":   {1, 1, false, func(x []float64) float64 { return cos(x[0]) }},
	"tan":   {1, 1, false, func(x []float64) float64 { return tan(x[0]) }},
	"asin":  {1, 1, false, func(x []float64) float64 { return asin(x[0]) }},
	"acos":  {1, 1, false, func(x []float64) float64 { return acos(x[0]) }},
	"atan":  {1, 1, false, func(x []float64) float64 { return atan(x[0]) }},
	"floor": {1, 1, false, func(x []float64) float64 { return math.Floor(x[0]) }},
	"ceil":  {1, 1, false, func(x []float64) float64 { return math.Ceil(x[0]) }},
	"round": {1, 1, false, func(x []float64) float64 { return math.Round(x[0]) }}, // halves away from zero
}

// Functions returns the names that formulas may call, in order.
func Functions() []string {
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// reserved reports whether a name means something in an expression already.
func reserved(name string) bool {
	if _, ok := functions[name]; ok {
		return true
	}
	switch name {
	case "pi", "true", "false", "nil", "and", "or", "not", "in", "let", "if", "else", "matches", "contains":
		return true
	}
	// Names that the expression library reads as its own syntax before we see them.
	return slices.Contains([]string{"all", "none", "any", "one", "filter", "map", "count", "sum", "find", "reduce"}, name)
}

func (c *compiler) call(n ast.Node, name string, arguments []ast.Node) compiled {
	fn, ok := functions[name]
	if !ok {
		return c.refuse(outcome.ReferenceUnknown, n, "unknown_function", outcome.Params{"name": name, "functions": Functions()})
	}
	if len(arguments) < fn.least || len(arguments) > fn.most {
		return c.refuse(outcome.SchemaInvalid, n, "arguments", outcome.Params{"name": name, "minimum": fn.least, "maximum": fn.most, "observed": len(arguments)})
	}
	args := make([]compiled, len(arguments))
	good := true
	for i, a := range arguments {
		args[i] = c.compile(a)
		good = c.want(args[i], numberKind, a) && good
	}
	if !good {
		return compiled{}
	}
	t := args[0].exprType
	for i, a := range args {
		switch {
		case !fn.same:
			good = c.dimensionless(a, arguments[i], name) && good
		case a.dim != t.dim:
			c.refuse(outcome.UnitMismatch, arguments[i], "dimension", outcome.Params{"of": name, "left": t.dim.String(), "right": a.dim.String()})
			good = false
		default:
			good = c.alike(arguments[i], args[0], a) && good
			t = either(t, a.exprType)
		}
	}
	if !good {
		return compiled{}
	}
	at := n.Location().From
	switch name {
	case "sqrt":
		d, ok := t.dim.times(fraction{1, 2})
		if !ok {
			return c.refuse(outcome.UnitMismatch, n, "power_out_of_range", nil)
		}
		return compiled{exprType{kind: numberKind, dim: d}, squareRoot(args[0].number, at), nil}
	case "atan2":
		y, x := args[0].number, args[1].number
		return compiled{exprType{kind: numberKind, dim: noDimension}, func(fr *frame) float64 {
			a, b := y(fr), x(fr)
			if a == 0 && b == 0 {
				return fr.fail(OutOfDomain, at)
			}
			return atan2(a, b)
		}, nil}
	case "abs":
		if t.thermal == absolute {
			return c.refuse(outcome.UnitMismatch, n, "temperature_with_zero", outcome.Params{"of": name})
		}
	}
	if len(args) == 1 {
		f, do := args[0].number, fn.do
		return compiled{t, func(fr *frame) float64 {
			var x [1]float64
			if x[0] = f(fr); fr.failure != "" {
				return x[0]
			}
			return result(fr, do(x[:]), at)
		}, nil}
	}
	values := make([]numberFunc, len(args))
	for i, a := range args {
		values[i] = a.number
	}
	return compiled{t, func(fr *frame) float64 {
		var x [maxArguments]float64
		for i, f := range values {
			x[i] = f(fr)
		}
		if fr.failure != "" {
			return math.NaN()
		}
		return result(fr, fn.do(x[:len(values)]), at)
	}, nil}
}

func result(fr *frame, x float64, at int) float64 {
	if math.IsNaN(x) {
		return fr.fail(OutOfDomain, at)
	}
	return finite(fr, x, at)
}
