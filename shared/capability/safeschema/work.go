package safeschema

import (
	"encoding/json"
	"regexp/syntax"
)

// MaxWork is the most steps that judging one value may take. A step is one schema held
// to one place, or a piece of work of about that time: so a value is judged in seconds at
// most, and in memory that a function has, whatever the schema and the value are. The
// largest result has two million places.
const MaxWork = 3 << 20

// work reports whether a value can be judged in MaxWork steps. It counts every
// alternative, as if none fits.
func (s *Schema) work(value any) bool {
	left := MaxWork
	s.count(s.root, value, &left)
	return left >= 0
}

func (s *Schema) count(n *node, value any, left *int) {
	if n == nil || *left < 0 {
		return
	}
	*left--
	switch v := value.(type) {
	case map[string]any:
		*left -= n.listed[inside] + (len(n.properties)+4*n.required)/8
		for name, one := range v {
			if below, listed := n.properties[name]; listed {
				s.count(below, one, left)
			} else {
				s.count(n.additional, one, left)
			}
		}
	case []any:
		*left -= n.listed[inside]
		blank := 0
		for _, one := range v {
			s.count(n.items, one, left)
			if n.unique {
				*left--
				if hollow(one, left) {
					blank++
				}
			}
		}
		*left -= blank * blank / 64 // the library tells no two of them apart but by comparing
	case json.Number:
		*left -= n.listed[numbers]
	case string:
		*left -= n.listed[texts] + len(v)*n.pattern/64
	}
	for _, b := range n.branches {
		s.count(b, value, left)
	}
	if n.ref != "" {
		s.count(s.defs[n.ref], value, left)
	}
}

// hollow reports whether a value is a list or an object with nothing in it but such.
func hollow(value any, left *int) bool {
	*left--
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if !hollow(one, left) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, one := range v {
			if !hollow(one, left) {
				return false
			}
		}
		return true
	}
	return false
}

// What comparing with the members of an enum takes, by what is compared.
const (
	numbers = iota // each is read anew, as an exact fraction
	texts
	inside // of lists and objects
	compared
)

// list adds a member of enum, or a const.
func (n *node) list(value any) {
	switch v := value.(type) {
	case json.Number:
		n.listed[numbers] += 4
	case string:
		n.some[texts]++
		n.listed[texts] = n.some[texts] / 16
	case []any, map[string]any:
		n.listed[inside] += 4 * places(v)
	}
}

// places is how many values a value holds, itself included.
func places(value any) int {
	all := 1
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			all += places(one)
		}
	case map[string]any:
		for _, one := range v {
			all += places(one)
		}
	}
	return all
}

// instructions is the size of the program of a pattern, to which the time of each
// character is bounded.
func instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // refused as it is
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

// The most violations that are told of one value, and the most bytes of their places
// after which no more are: they are stored with an execution, and read by a model. One of
// the keyword More at the root says that there are others.
const (
	MaxViolations = 100
	maxPlaces     = 16 << 10
	maxFound      = 1 << 16 // that are put in order
)

// The keywords of what no keyword of a schema says.
const (
	More = "more" // there are other violations
	Work = "work" // the value takes more than MaxWork steps to judge
)

// told cuts what is told.
func told(all []Violation) []Violation {
	size := 0
	for i, v := range all {
		if i == MaxViolations || size > maxPlaces {
			return append(all[:i:i], Violation{Keyword: More})
		}
		size += len(v.Path)
		for _, name := range v.Names {
			size += len(name)
		}
	}
	return all
}
