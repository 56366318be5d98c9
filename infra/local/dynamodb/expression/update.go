package expression

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

// Update is a parsed UpdateExpression.
type Update struct{ actions []*action }

type action struct {
	section string // SET, REMOVE, ADD, DELETE
	raw     []rawStep
	path    Path
	operand *node // nil for REMOVE
}

// ParseUpdate parses the text of an update.
func ParseUpdate(text string, scope *Scope) (*Update, error) {
	parsed, err := parse(text, (*parser).update)
	if err == nil {
		err = checkUpdate(parsed, scope)
	}
	if err != nil {
		return nil, err
	}
	return &Update{parsed.actions}, nil
}

type parsedUpdate struct {
	actions  []*action
	repeated string // a section that was written twice
}

// update = section {section}; section = word action {"," action}
func (p *parser) update() (u parsedUpdate) {
	seen := map[string]bool{}
	for first := true; first || p.peek().kind != tokenEnd; first = false {
		word, ok := p.accept("SET", "REMOVE", "ADD", "DELETE")
		if !ok {
			p.fail()
		}
		section := strings.ToUpper(word.text)
		if seen[section] && u.repeated == "" {
			u.repeated = section
		}
		seen[section] = true
		for {
			u.actions = append(u.actions, p.action(section))
			if _, ok := p.accept(","); !ok {
				break
			}
		}
	}
	return u
}

func (p *parser) action(section string) *action {
	if p.peek().is("SET", "REMOVE", "ADD", "DELETE") {
		p.fail()
	}
	a := &action{section: section, raw: p.path()}
	switch section {
	case "SET":
		p.expect("=")
		a.operand = p.setValue()
	case "ADD", "DELETE":
		if p.peek().kind != tokenValuePlaceholder {
			p.fail()
		}
		a.operand = p.operand()
	}
	return a
}

// setValue = "(" setValue ")" | operand [("+" | "-") operand]
func (p *parser) setValue() *node {
	p.enter()
	defer p.leave()
	start := p.pos
	if _, ok := p.accept("("); ok {
		n := p.setValue()
		p.expect(")")
		if n.kind == nodeArithmetic || !p.peek().is("+", "-") {
			return n
		}
		p.pos = start // an operand in parentheses, with more to come
	}
	left := p.operand()
	if t, ok := p.accept("+", "-"); ok {
		return &node{kind: nodeArithmetic, name: t.text, args: []*node{left, p.operand()}}
	}
	return left
}

// checkUpdate finds the faults of a well-formed update, in DynamoDB's order:
// reserved words, functions, sections, names, values, paths, operand types.
func checkUpdate(u parsedUpdate, scope *Scope) *Error {
	var operands []*node
	var reserved, names, values, depth, operandType *Error
	paths := make([]Path, len(u.actions))
	for i, a := range u.actions {
		if word, ok := reservedIn(a.raw); ok {
			reserved = firstError(reserved, errReserved(word))
		}
		path, err := resolve(a.raw, scope)
		names = firstError(names, err)
		depth = firstError(depth, errDepth(a.raw))
		a.path, paths[i] = path, path
		if a.operand == nil {
			continue
		}
		operands = append(operands, a.operand)
		if err := a.operand.resolve(scope); err != nil && strings.Contains(err.Message, "attribute value") {
			values = firstError(values, err)
		} else {
			names = firstError(names, err)
		}
	}
	words := checkWords(operands, func(f function) bool { return f.update }, "an update expression")
	if words != nil && strings.HasPrefix(words.Message, "Attribute name") {
		reserved, words = firstError(reserved, words), nil
	}
	if err := firstError(reserved, words); err != nil {
		return err
	}
	if u.repeated != "" {
		return &Error{`The "` + u.repeated + `" section can only be used once in an update expression;`}
	}
	if err := firstError(names, values, depth); err != nil {
		return err
	}
	if err := checkDisjoint(paths); err != nil {
		return err
	}
	for _, a := range u.actions {
		if a.section == "ADD" || a.section == "DELETE" {
			operandType = firstError(operandType, checkSetOperand(a.section, a.operand.value.Kind()))
		}
	}
	for _, n := range operands {
		n.walk(func(m *node) { operandType = firstError(operandType, checkUpdateOperand(m)) })
	}
	return operandType
}

var longKindNames = map[attribute.Kind]string{
	attribute.S: "STRING", attribute.N: "NUMBER", attribute.B: "BINARY", attribute.NULL: "NULL",
	attribute.BOOL: "BOOLEAN", attribute.L: "LIST", attribute.M: "MAP",
}

func checkSetOperand(section string, kind attribute.Kind) *Error {
	if kind.IsSet() || section == "ADD" && kind == attribute.N {
		return nil
	}
	return &Error{"Incorrect operand type for operator or function; operator: " + section +
		", operand type: " + longKindNames[kind] + ", typeSet: ALLOWED_FOR_" + section + "_OPERAND"}
}

func checkUpdateOperand(n *node) *Error {
	wanted := attribute.N
	switch {
	case n.kind == nodeCall && len(n.args) != functions[n.name].arity:
		return errArity(n)
	case n.kind == nodeCall && n.name == "if_not_exists":
		if n.args[0].kind != nodePath {
			return &Error{"Operator or function requires a document path; operator or function: " + n.name}
		}
		return nil
	case n.kind == nodeCall:
		wanted = attribute.L
	case n.kind != nodeArithmetic:
		return nil
	}
	for _, a := range n.args {
		if k := a.constantKind(); k != 0 && k != wanted {
			return errOperandType(n.name, k.String())
		}
	}
	return nil
}

// Paths are the places the update changes, in the order they were written.
func (u *Update) Paths() []Path {
	paths := make([]Path, len(u.actions))
	for i, a := range u.actions {
		paths[i] = a.path
	}
	return paths
}

// Nested are the names of the attributes into which the update leads, be it to
// change or to read.
func (u *Update) Nested() []string {
	paths := u.Paths()
	for _, a := range u.actions {
		if a.operand != nil {
			paths = append(paths, a.operand.paths()...)
		}
	}
	return nested(paths)
}

// Assigned returns the type that the update gives to a whole attribute, as far
// as the request alone tells it, and 0 if it does not.
func (u *Update) Assigned(name string) attribute.Kind {
	for _, a := range u.actions {
		if len(a.path) == 1 && a.path[0].Name == name && a.operand != nil {
			return a.operand.resultKind()
		}
	}
	return 0
}

// AssignedValue returns the value that a SET gives to a whole attribute, if the
// request states it outright.
func (u *Update) AssignedValue(name string) (attribute.Value, bool) {
	for _, a := range u.actions {
		if len(a.path) == 1 && a.path[0].Name == name && a.section == "SET" && a.operand.kind == nodeValue {
			return a.operand.value, true
		}
	}
	return attribute.Value{}, false
}

func (n *node) resultKind() attribute.Kind {
	switch {
	case n.kind == nodeArithmetic:
		return attribute.N
	case n.kind == nodeCall && n.name == "list_append":
		return attribute.L
	case n.kind == nodeCall:
		return n.args[1].resultKind()
	}
	return n.constantKind()
}

// What can go wrong when an update meets an item.
var (
	errBadPath   = &Error{"The document path provided in the update expression is invalid for update"}
	errMissing   = &Error{"The provided expression refers to an attribute that does not exist in the item"}
	errType      = &Error{"An operand in the update expression has an incorrect data type"}
	errOverflow  = &Error{"Number overflow. Attempting to store a number with magnitude larger than supported range"}
	errUnderflow = &Error{"Number underflow. Attempting to store a number with magnitude smaller than supported range"}
)

// Apply returns the item with all actions of the update done, or the fault of
// the first action that has one. Every right side is computed on the item as it
// was, and list indexes mean the elements as they were; the item itself is left
// alone.
func (u *Update) Apply(item attribute.Map) (attribute.Map, error) {
	edits := make([]edit, len(u.actions))
	for i, a := range u.actions {
		edits[i] = edit{action: a, position: i, rest: a.path}
		if a.section == "SET" {
			v, err := a.operand.compute(item)
			if err != nil {
				return nil, err
			}
			edits[i].value = v
		}
	}
	var r rebuilder
	result := r.rebuild(attribute.Document(item), edits)
	if r.fault != nil {
		return nil, r.fault
	}
	return result.Fields(), nil
}

func (n *node) compute(item attribute.Map) (attribute.Value, *Error) {
	switch {
	case n.kind == nodeValue:
		return n.value, nil
	case n.kind == nodePath:
		v, ok := n.path.Find(item)
		if !ok {
			return v, errMissing
		}
		return v, nil
	case n.kind == nodeCall && n.name == "if_not_exists":
		if v, ok := n.args[0].path.Find(item); ok {
			return v, nil
		}
		return n.args[1].compute(item)
	}
	left, err := n.args[0].compute(item)
	if err != nil {
		return left, err
	}
	right, err := n.args[1].compute(item)
	if err != nil {
		return right, err
	}
	if n.kind == nodeCall { // list_append
		if left.Kind() != attribute.L || right.Kind() != attribute.L {
			return left, errType
		}
		return attribute.List(slices.Concat(left.Elements(), right.Elements())), nil
	}
	if left.Kind() != attribute.N || right.Kind() != attribute.N {
		return left, errType
	}
	if n.name == "-" {
		return number(left.Number().Sub(right.Number()))
	}
	return number(left.Number().Add(right.Number()))
}

// number turns the result of arithmetic into a value. DynamoDB reports a result
// that needs more than 38 digits as an overflow.
func number(n decimal.Number, err error) (attribute.Value, *Error) {
	switch {
	case errors.Is(err, decimal.ErrUnderflow):
		return attribute.Value{}, errUnderflow
	case err != nil:
		return attribute.Value{}, errOverflow
	}
	return attribute.Number(n), nil
}

// edit is an action on its way down an item: rest is what is left of its path.
type edit struct {
	*action
	position int // in the update
	rest     Path
	value    attribute.Value // of a SET
}

// rebuilder makes a new item from an old one, as far as edits change it.
type rebuilder struct {
	fault    *Error
	position int // of the edit whose fault it is
}

// fail remembers the fault of the edit that was written first.
func (r *rebuilder) fail(e edit, err *Error) {
	if r.fault == nil || e.position < r.position {
		r.fault, r.position = err, e.position
	}
}

// rebuild returns v with the edits below it done.
func (r *rebuilder) rebuild(v attribute.Value, edits []edit) attribute.Value {
	byStep := make(map[Step][]edit)
	for _, e := range edits {
		step := e.rest[0]
		if step.Indexed && v.Kind() != attribute.L || !step.Indexed && v.Kind() != attribute.M {
			r.fail(e, errBadPath)
			continue
		}
		e.rest = e.rest[1:]
		byStep[step] = append(byStep[step], e)
	}
	if v.Kind() == attribute.L {
		return r.rebuildList(v, byStep)
	}
	fields := maps.Clone(v.Fields())
	for step, edits := range byStep {
		old, exists := fields[step.Name]
		if c, keep := r.rebuildChild(old, exists, edits); keep {
			fields[step.Name] = c
		} else {
			delete(fields, step.Name)
		}
	}
	return attribute.Document(fields)
}

// rebuildList leaves removed elements out only at the end, and appends what was
// set beyond the end in the order of its indexes.
func (r *rebuilder) rebuildList(v attribute.Value, byStep map[Step][]edit) attribute.Value {
	elements := slices.Clone(v.Elements())
	var appended []attribute.Value
	steps := slices.SortedFunc(maps.Keys(byStep), func(a, b Step) int { return a.Index - b.Index })
	for _, step := range steps {
		old, exists := child(v, step)
		switch c, keep := r.rebuildChild(old, exists, byStep[step]); {
		case exists && keep:
			elements[step.Index] = c
		case exists:
			elements[step.Index] = attribute.Value{}
		case keep:
			appended = append(appended, c)
		}
	}
	elements = slices.DeleteFunc(elements, attribute.Value.IsZero)
	return attribute.List(append(elements, appended...))
}

// rebuildChild returns the new value of one place; keep is false if it is gone.
func (r *rebuilder) rebuildChild(old attribute.Value, exists bool, edits []edit) (v attribute.Value, keep bool) {
	e := edits[0]
	switch {
	case len(e.rest) > 0 && !exists:
		r.fail(e, errBadPath)
		return old, false
	case len(e.rest) > 0: // paths do not overlap: all edits lead deeper
		return r.rebuild(old, edits), true
	case e.section == "SET":
		return e.value, true
	case e.section == "REMOVE":
		return old, false
	}
	operand := e.operand.value
	switch {
	case exists && old.Kind() != operand.Kind():
		r.fail(e, errType)
		return old, true
	case e.section == "ADD" && !exists:
		return operand, true
	case e.section == "ADD" && operand.Kind() == attribute.N:
		sum, err := number(old.Number().Add(operand.Number()))
		if err != nil {
			r.fail(e, err)
		}
		return sum, true
	case e.section == "ADD":
		return attribute.Set(operand.Kind(), slices.Concat(old.Elements(), operand.Elements())), true
	case !exists:
		return old, false
	}
	left := slices.DeleteFunc(slices.Clone(old.Elements()), func(m attribute.Value) bool {
		return slices.ContainsFunc(operand.Elements(), m.Equal)
	})
	return attribute.Set(operand.Kind(), left), len(left) > 0 // no set is empty
}
