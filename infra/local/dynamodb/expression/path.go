package expression

import (
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// Step is one element of a document path: the name of a map's field or the
// index of a list's element.
type Step struct {
	Name    string
	Index   int
	Indexed bool
}

func (s Step) String() string {
	if s.Indexed {
		return "[" + strconv.Itoa(s.Index) + "]"
	}
	return s.Name
}

// Path is a document path with its placeholders replaced. Its first step is the
// name of an attribute of the item.
type Path []Step

// String is the form that messages show: [a, [0], b].
func (p Path) String() string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = s.String()
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

// Find returns what the path leads to; ok is false if there is nothing.
func (p Path) Find(item attribute.Map) (v attribute.Value, ok bool) {
	v = attribute.Document(item)
	for _, step := range p {
		if v, ok = child(v, step); !ok {
			return attribute.Value{}, false
		}
	}
	return v, true
}

func child(v attribute.Value, step Step) (attribute.Value, bool) {
	switch {
	case step.Indexed && v.Kind() == attribute.L && step.Index < len(v.Elements()):
		return v.Elements()[step.Index], true
	case !step.Indexed && v.Kind() == attribute.M:
		c, ok := v.Fields()[step.Name]
		return c, ok
	}
	return attribute.Value{}, false
}

// checkDisjoint fails if one of the paths leads into another, or if two treat
// the same place once as a map and once as a list.
func checkDisjoint(paths []Path) *Error {
	var conflict *Error
	for i, later := range paths {
		for _, earlier := range paths[:i] {
			switch relate(earlier, later) {
			case overlapping:
				return &Error{"Two document paths overlap with each other; must remove or rewrite one of these paths; path one: " +
					earlier.String() + ", path two: " + later.String()}
			case conflicting:
				if conflict == nil {
					conflict = &Error{"Two document paths conflict with each other; must remove or rewrite one of these paths; path one: " +
						earlier.String() + ", path two: " + later.String()}
				}
			}
		}
	}
	return conflict
}

type relation int

const (
	disjoint relation = iota
	overlapping
	conflicting
)

func relate(a, b Path) relation {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i].Indexed != b[i].Indexed:
			return conflicting
		case a[i] != b[i]:
			return disjoint
		}
	}
	return overlapping
}
