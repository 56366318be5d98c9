package source

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/quantity"
)

// NotWritable is the error of a contract or a target that has no form in the Python of
// a Flow.
type NotWritable struct {
	Path   string // of it, in the document
	Member string // that has none
	Reason string // "" is contract_not_writable
}

func (e *NotWritable) Error() string {
	return fmt.Sprintf("source: %s at %s has no form in Python", e.Member, e.Path)
}

// contract is a port as the call of its type: px.number(unit="m", minimum=0).
//
// What a document says in two ways the source says in one, so two contracts have no
// form of their own: constraints that are empty, and bounds of items that stand
// among the constraints. Both mean what a contract without them means.
func contract(p quantity.Port) (term, error) {
	parts, err := columnParts(quantity.Column{Unit: p.Unit, Nullable: p.Nullable, Constraints: p.Constraints, QuantityKind: p.QuantityKind, Values: p.Values}, p.Shape)
	if err != nil {
		return term{}, err
	}
	add := func(name string, t term) { parts = append(parts, keyword(name, t)) }
	if p.Fields != nil {
		fields := term{open: "{", close: "}"}
		for _, key := range sortedKeys(p.Fields) {
			t, err := contract(p.Fields[key])
			if err != nil {
				return term{}, err
			}
			fields.parts = append(fields.parts, part{quote(key) + ": ", t})
		}
		add("fields", fields)
	}
	if p.Of != nil {
		t, err := contract(*p.Of)
		if err != nil {
			return term{}, err
		}
		add("of", t)
	}
	if p.Columns != nil {
		columns := term{open: "{", close: "}"}
		for _, c := range p.Columns {
			parts, err := columnParts(c, quantity.Shape{})
			if err != nil {
				return term{}, err
			}
			columns.parts = append(columns.parts, part{quote(c.ColumnKey) + ": ", call("px."+string(c.Type), parts...)})
		}
		add("columns", columns)
	}
	if p.MinItems != nil {
		add("min_items", atom(strconv.Itoa(*p.MinItems)))
	}
	if p.MaxItems != nil {
		add("max_items", atom(strconv.Itoa(*p.MaxItems)))
	}
	if p.MediaType != "" {
		add("media_type", atom(quote(p.MediaType)))
	}
	if p.Default != nil {
		value, err := canon.Canonicalize(p.Default)
		if err != nil {
			return term{}, fmt.Errorf("source: a default that was never decoded: %w", err)
		}
		t, err := literal(value)
		if err != nil {
			return term{}, err
		}
		add("default", call("px.literal", positional(t)))
	}
	return call("px."+string(p.Type), parts...), nil
}

func columnParts(c quantity.Column, shape quantity.Shape) ([]part, error) {
	var parts []part
	add := func(name string, t term) { parts = append(parts, keyword(name, t)) }
	if c.Unit != "" {
		add("unit", atom(quote(c.Unit)))
	}
	if !shape.IsZero() {
		t, err := literal(canon.Raw(shape.String()))
		if err != nil {
			return nil, err
		}
		add("shape", t)
	}
	if c.Values != nil {
		t := term{open: "[", close: "]"}
		for _, v := range c.Values {
			t.parts = append(t.parts, positional(atom(quote(v))))
		}
		add("values", t)
	}
	if c.Nullable != nil {
		add("nullable", atom(map[bool]string{true: "True", false: "False"}[*c.Nullable]))
	}
	if n := c.Constraints; n != nil {
		before := len(parts)
		for _, b := range []struct {
			name  string
			bound *float64
		}{{"minimum", n.Minimum}, {"exclusive_minimum", n.ExclusiveMinimum}, {"maximum", n.Maximum}, {"exclusive_maximum", n.ExclusiveMaximum}} {
			if b.bound != nil {
				t, err := encoded(*b.bound)
				if err != nil {
					return nil, err
				}
				add(b.name, t)
			}
		}
		for _, b := range []struct {
			name  string
			bound *int
		}{{"min_length", n.MinLength}, {"max_length", n.MaxLength}} {
			if b.bound != nil {
				add(b.name, atom(strconv.Itoa(*b.bound)))
			}
		}
		if n.Pattern != nil {
			add("pattern", atom(quote(*n.Pattern)))
		}
		if n.MinItems != nil || n.MaxItems != nil {
			return nil, &NotWritable{Member: "constraints.minItems"}
		}
		if len(parts) == before {
			return nil, &NotWritable{Member: "constraints"}
		}
	}
	if c.QuantityKind != "" {
		add("quantity_kind", atom(quote(c.QuantityKind)))
	}
	return parts, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
