package expression

import (
	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// KeyTerm is one conjunct of a key condition: what it says of one attribute.
type KeyTerm struct {
	Attribute string
	Operator  string // = < <= > >= BETWEEN begins_with
	Values    []attribute.Value
}

// ParseKeyCondition parses a KeyConditionExpression into one or two terms, one
// an attribute. Faults of the grammar carry their whole message: syntax errors
// need the usual prefix, for which Prefixed is true.
func ParseKeyCondition(text string, scope *Scope) (terms []KeyTerm, prefixed bool, err error) {
	c, err := ParseCondition(text, scope)
	if err != nil {
		return nil, true, err
	}
	if err := collectTerms(c.root, &terms); err != nil {
		return nil, false, err
	}
	for _, t := range terms {
		for _, v := range t.Values {
			if !keyOperand(t.Operator, v.Kind()) {
				return nil, false, &Error{"One or more parameter values were invalid: ComparisonOperator " + legacyOperator[t.Operator] +
					" is not valid for " + v.Kind().String() + " AttributeValue type"}
			}
		}
	}
	if len(terms) > 2 {
		return nil, false, &Error{"Conditions can be of length 1 or 2 only"}
	}
	return terms, false, nil
}

// legacyOperator names the operators as messages about key conditions do.
var legacyOperator = map[string]string{
	"=": "EQ", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "BETWEEN": "BETWEEN", "begins_with": "BEGINS_WITH",
}

func keyOperand(operator string, kind attribute.Kind) bool {
	switch operator {
	case "=":
		return ordered(kind) || kind.IsSet()
	case "begins_with":
		return kind == attribute.S || kind == attribute.B
	}
	return ordered(kind)
}

// mirrored turns "value < attribute" into "attribute > value".
var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

func collectTerms(n *node, terms *[]KeyTerm) *Error {
	switch {
	case n.kind == nodeOr || n.kind == nodeNot || n.kind == nodeIn || n.kind == nodeCompare && n.name == "<>":
		return &Error{"Invalid operator used in KeyConditionExpression: " + n.name}
	case n.kind == nodeCall && n.name != "begins_with":
		return &Error{"Invalid operator used in KeyConditionExpression: " + n.name}
	case n.kind == nodeAnd:
		for _, a := range n.args {
			if err := collectTerms(a, terms); err != nil {
				return err
			}
		}
		return nil
	case (n.kind == nodeBetween || n.kind == nodeCall) && n.args[0].kind != nodePath:
		return &Error{"Invalid condition in KeyConditionExpression: " + n.name + " operator must have the key attribute as its first operand"}
	}
	term := KeyTerm{Operator: n.name}
	for i, a := range n.args {
		switch {
		case a.kind == nodeCall:
			return &Error{"KeyConditionExpressions cannot contain nested operations"}
		case a.kind == nodeValue:
			term.Values = append(term.Values, a.value)
		case term.Attribute != "":
			return &Error{"Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"}
		case len(a.path) > 1:
			return &Error{"KeyConditionExpressions cannot have conditions on nested attributes"}
		default:
			term.Attribute = a.path[0].Name
			if i > 0 {
				term.Operator = mirrored[n.name]
			}
		}
	}
	if term.Attribute == "" {
		return &Error{"Invalid condition in KeyConditionExpression: No key attribute specified"}
	}
	for _, t := range *terms {
		if t.Attribute == term.Attribute {
			return &Error{"KeyConditionExpressions must only contain one condition per key"}
		}
	}
	*terms = append(*terms, term)
	return nil
}
