package expression

import (
	"maps"
	"slices"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
)

// Projection is a parsed ProjectionExpression: the places of an item to return.
type Projection struct{ paths []Path }

// ParseProjection parses the text of a projection.
func ParseProjection(text string, scope *Scope) (*Projection, error) {
	raws, err := parse(text, func(p *parser) (raws [][]rawStep) {
		for {
			raws = append(raws, p.path())
			if _, ok := p.accept(","); !ok {
				return raws
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var reserved, undefined, depth *Error
	paths := make([]Path, len(raws))
	for i, raw := range raws {
		if word, ok := reservedIn(raw); ok {
			reserved = firstError(reserved, errReserved(word))
		}
		path, err := resolve(raw, scope)
		undefined = firstError(undefined, err)
		depth = firstError(depth, errDepth(raw))
		paths[i] = path
	}
	if err := firstError(reserved, undefined, depth); err != nil {
		return nil, err
	}
	if err := checkDisjoint(paths); err != nil {
		return nil, err
	}
	return &Projection{paths}, nil
}

func (p *parser) path() []rawStep {
	if k := p.peek().kind; k != tokenName && k != tokenNamePlaceholder {
		p.fail()
	}
	return p.steps(p.next())
}

// Paths returns a projection onto the given places, which must be disjoint.
func Paths(paths []Path) *Projection { return &Projection{paths} }

// Apply returns the part of the item that the projection names. Elements of a
// list close up: of [0] and [4] the result is a list of two.
func (p *Projection) Apply(item attribute.Map) attribute.Map {
	v, ok := project(attribute.Document(item), p.paths)
	if !ok {
		return attribute.Map{}
	}
	return v.Fields()
}

func project(v attribute.Value, paths []Path) (attribute.Value, bool) {
	if len(paths) == 1 && len(paths[0]) == 0 {
		return v, true
	}
	groups := group(paths)
	if v.Kind() == attribute.L {
		var elements []attribute.Value
		for _, step := range groups.steps {
			if e, ok := projectChild(v, step, groups.rest[step]); ok {
				elements = append(elements, e)
			}
		}
		return attribute.List(elements), elements != nil
	}
	fields := attribute.Map{}
	for _, step := range groups.steps {
		if e, ok := projectChild(v, step, groups.rest[step]); ok {
			fields[step.Name] = e
		}
	}
	return attribute.Document(fields), len(fields) > 0
}

func projectChild(v attribute.Value, step Step, rest []Path) (attribute.Value, bool) {
	c, ok := child(v, step)
	if !ok {
		return attribute.Value{}, false
	}
	return project(c, rest)
}

// grouped holds paths by their first step; steps are in order.
type grouped struct {
	steps []Step
	rest  map[Step][]Path
}

func group(paths []Path) grouped {
	rest := make(map[Step][]Path)
	for _, p := range paths {
		rest[p[0]] = append(rest[p[0]], p[1:])
	}
	return grouped{slices.SortedFunc(maps.Keys(rest), func(a, b Step) int { return a.Index - b.Index }), rest}
}

// Roots are the names of the attributes the projection names.
func (p *Projection) Roots() []string { return roots(p.paths) }

// Nested are the names of the attributes into which the projection leads.
func (p *Projection) Nested() []string { return nested(p.paths) }
