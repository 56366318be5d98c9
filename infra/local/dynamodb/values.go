package dynamodb

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

const (
	maxItemBytes     = 400 << 10 // of an item, names and values
	maxValueDepth    = 32        // levels of an attribute's value, a scalar is one
	maxAttributeName = 65535     // bytes
)

// item checks the values of an item or key and returns them.
func (m rawItem) item() (attribute.Map, *apiError) {
	item := make(attribute.Map, len(m))
	for _, a := range m {
		switch {
		case a.name == "":
			return nil, errParameter("An attribute name may not be empty")
		case len(a.name) > maxAttributeName:
			return nil, errParameter("Attribute name is too large, must be less than 65536 bytes")
		}
		v, err := a.value.value()
		if err != nil {
			return nil, err
		}
		item[a.name] = v
	}
	return item, nil
}

// value checks an attribute value and returns it.
func (v rawValue) value() (attribute.Value, *apiError) {
	checked, err := v.check(1)
	return checked, err
}

func (v rawValue) check(level int) (checked attribute.Value, err *apiError) {
	if level > maxValueDepth {
		return checked, errInvalid("Nesting Levels have exceeded supported limits: " +
			"Attributes in the item have nested levels beyond supported limit")
	}
	if len(v) == 0 {
		return checked, errInvalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	}
	for _, t := range v {
		if checked, err = t.check(level); err != nil {
			return checked, err
		}
	}
	if len(v) > 1 {
		return checked, errInvalid("Supplied AttributeValue has more than one datatypes set, " +
			"must contain exactly one of the supported datatypes")
	}
	return checked, nil
}

func (t rawType) check(level int) (attribute.Value, *apiError) {
	switch t.kind {
	case attribute.S:
		return attribute.String(t.text), nil
	case attribute.B:
		return attribute.Binary(t.text), nil
	case attribute.N:
		return parseNumber(t.text)
	case attribute.BOOL:
		return attribute.Bool(t.flag), nil
	case attribute.NULL:
		if !t.flag {
			return attribute.Value{}, errParameter("Null attribute value types must have the value of true")
		}
		return attribute.Null(), nil
	case attribute.L:
		elements := make([]attribute.Value, len(t.list))
		for i, e := range t.list {
			v, err := e.check(level + 1)
			if err != nil {
				return v, err
			}
			elements[i] = v
		}
		return attribute.List(elements), nil
	case attribute.M:
		fields := make(attribute.Map, len(t.fields))
		for _, a := range t.fields {
			v, err := a.value.check(level + 1)
			if err != nil {
				return v, err
			}
			fields[a.name] = v
		}
		return attribute.Document(fields), nil
	}
	return t.set()
}

func (t rawType) set() (attribute.Value, *apiError) {
	if len(t.texts) == 0 {
		return attribute.Value{}, errParameter(map[attribute.Kind]string{
			attribute.SS: "An string set  may not be empty",
			attribute.NS: "An number set  may not be empty",
			attribute.BS: "Binary sets should not be empty",
		}[t.kind])
	}
	members := make([]attribute.Value, len(t.texts))
	for i, text := range t.texts {
		switch t.kind {
		case attribute.SS:
			members[i] = attribute.String(text)
		case attribute.BS:
			members[i] = attribute.Binary(text)
		case attribute.NS:
			n, err := parseNumber(text)
			if err != nil {
				return n, err
			}
			members[i] = n
		}
	}
	set := attribute.Set(t.kind, members)
	if len(set.Elements()) == len(members) {
		return set, nil
	}
	texts := t.texts
	switch t.kind {
	case attribute.NS:
		return set, errInvalid("Input collection contains duplicates")
	case attribute.BS:
		texts = slices.Clone(texts)
		for i := range texts {
			texts[i] = base64.StdEncoding.EncodeToString([]byte(texts[i]))
		}
		return set, errParameter("Input collection [" + strings.Join(texts, ", ") + "]of type BS contains duplicates.")
	}
	return set, errParameter("Input collection [" + strings.Join(texts, ", ") + "] contains duplicates.")
}

func parseNumber(text string) (attribute.Value, *apiError) {
	n, err := decimal.Parse(text)
	switch {
	case err == nil:
		return attribute.Number(n), nil
	case text == "":
		return attribute.Value{}, errInvalid("The parameter cannot be converted to a numeric value")
	case errors.Is(err, decimal.ErrOverflow):
		return attribute.Value{}, errInvalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case errors.Is(err, decimal.ErrUnderflow):
		return attribute.Value{}, errInvalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	case errors.Is(err, decimal.ErrPrecision):
		return attribute.Value{}, errInvalid("Attempting to store more than 38 significant digits in a Number")
	}
	return attribute.Value{}, errInvalid("The parameter cannot be converted to a numeric value: " + text)
}
