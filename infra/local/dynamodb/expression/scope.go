package expression

import (
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// Name defines an expression attribute name, such as #n.
type Name struct{ Placeholder, Attribute string }

// Definition defines an expression attribute value, such as :v.
type Definition struct {
	Placeholder string
	Value       attribute.Value
}

// Scope holds the names and values one request defines for all its expressions,
// and remembers which of them an expression used.
type Scope struct {
	names  []Name
	values []Definition
	used   map[string]bool
}

// NewScope returns the scope of a request. Placeholders include "#" or ":".
func NewScope(names []Name, values []Definition) *Scope {
	return &Scope{names: names, values: values, used: make(map[string]bool)}
}

// CheckUsed fails if a name or value was defined that no expression parsed in
// this scope uses. Its message needs no prefix.
func (s *Scope) CheckUsed() error {
	var unused []string
	for _, n := range s.names {
		if !s.used[n.Placeholder] {
			unused = append(unused, n.Placeholder)
		}
	}
	if unused != nil {
		return &Error{"Value provided in ExpressionAttributeNames unused in expressions: keys: {" + strings.Join(unused, ", ") + "}"}
	}
	for _, v := range s.values {
		if !s.used[v.Placeholder] {
			unused = append(unused, v.Placeholder)
		}
	}
	if unused != nil {
		return &Error{"Value provided in ExpressionAttributeValues unused in expressions: keys: {" + strings.Join(unused, ", ") + "}"}
	}
	return nil
}

// ValidPlaceholder tells whether s is mark followed by letters, digits and "_".
func ValidPlaceholder(s string, mark byte) bool {
	return len(s) > 1 && s[0] == mark && !strings.ContainsFunc(s[1:], func(r rune) bool {
		return r >= 0x80 || !isWord(byte(r))
	})
}

func (s *Scope) attribute(placeholder string) (string, *Error) {
	i := slices.IndexFunc(s.names, func(n Name) bool { return n.Placeholder == placeholder })
	if i < 0 {
		return "", &Error{"An expression attribute name used in the document path is not defined; attribute name: " + placeholder}
	}
	s.used[placeholder] = true
	return s.names[i].Attribute, nil
}

func (s *Scope) value(placeholder string) (attribute.Value, *Error) {
	i := slices.IndexFunc(s.values, func(d Definition) bool { return d.Placeholder == placeholder })
	if i < 0 {
		return attribute.Value{}, &Error{"An expression attribute value used in expression is not defined; attribute value: " + placeholder}
	}
	s.used[placeholder] = true
	return s.values[i].Value, nil
}
