package dynamodb

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Constraints stand in the `aws` tags of inputs.go:
//
//	required     the member must be there
//	name         a table or index name: 3 to 255 of [a-zA-Z0-9_.-]
//	length=1..2  of a string, list or map; either bound may be missing
//	range=1..    of an integer
//	enum=A|B     the values of a string, in the order messages list them
//	keys=name    the keys of a map are names
//	values=1..25 the length of the lists that are a map's values
//	table        a table's name in an operation on the table itself, whose
//	             absence and length are told before everything else
//
// All violations of a request are told at once, ten at most, in the order of
// the fields, in the form that DynamoDB documents.

const (
	namePattern   = "[a-zA-Z0-9_.-]+"
	minNameLength = 3
	maxNameLength = 255
	maxViolations = 10
)

// checkConstraints checks a decoded struct of inputs.go.
func checkConstraints(input any) *apiError {
	v := reflect.ValueOf(input).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("aws") == "table" {
			if err := checkTable(v.Type().Field(i).Name, v.Field(i).Interface().(*string)); err != nil {
				return err
			}
		}
	}
	var c violations
	c.structure(v, "")
	switch len(c) {
	case 0:
		return nil
	case 1:
		return errInvalid("1 validation error detected: " + c[0])
	}
	return errInvalid(strconv.Itoa(len(c)) + " validation errors detected: " + strings.Join(c, "; "))
}

func checkTable(field string, name *string) *apiError {
	switch {
	case name == nil:
		return errInvalid("The parameter '" + field + "' is required but was not present in the request")
	case len(*name) < minNameLength || len(*name) > maxNameLength:
		return errInvalid(field + " must be at least 3 characters long and at most 255 characters long")
	}
	return nil
}

type violations []string

func (c *violations) add(path, value, constraint string) {
	if len(*c) == maxViolations {
		return
	}
	if value != "null" {
		value = "'" + value + "'"
	}
	*c = append(*c, "Value "+value+" at '"+path+"' failed to satisfy constraint: "+constraint)
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (c *violations) structure(v reflect.Value, parent string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		c.field(v.Field(i), parent+lowerFirst(field.Name), field.Tag.Get("aws"))
	}
}

func (c *violations) field(v reflect.Value, path, tag string) {
	if v.Type() == reflect.TypeFor[refused]() {
		return
	}
	absent := v.IsZero()
	for _, constraint := range strings.Split(tag, ",") {
		name, argument, _ := strings.Cut(constraint, "=")
		switch {
		case name == "required" && absent:
			c.add(path, "null", "Member must not be null")
		case absent || name == "" || name == "required":
		default:
			c.one(v, path, name, argument)
		}
	}
	if absent {
		return
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct:
		c.structure(v.Elem(), path+".")
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			c.element(v.Index(i), path, i)
		}
	}
}

func (c *violations) element(v reflect.Value, path string, i int) {
	if v.Kind() != reflect.Struct {
		return
	}
	member := path + "." + strconv.Itoa(i+1) + ".member"
	if key := v.FieldByName("Key"); key.Kind() == reflect.String { // an entry of keyed[T]
		v, member = v.FieldByName("Value"), path+"."+key.String()+".member"
	}
	switch v.Kind() {
	case reflect.Struct:
		if _, internal := v.Interface().(rawAttribute); !internal {
			c.structure(v, member+".")
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.element(v.Index(i), member, i)
		}
	}
}

func (c *violations) one(v reflect.Value, path, name, argument string) {
	text := show(v)
	switch name {
	case "name", "table":
		if !isName(text) {
			c.add(path, text, "Member must satisfy regular expression pattern: "+namePattern)
		}
		if name == "name" {
			c.bounds(path, text, len(text), "Member must have length ", minNameLength, maxNameLength)
		}
	case "length":
		length := len(text)
		if v.Kind() == reflect.Slice {
			length = v.Len()
		}
		low, high := bounds(argument)
		c.bounds(path, text, length, "Member must have length ", low, high)
	case "range":
		low, high := bounds(argument)
		c.bounds(path, text, int(v.Elem().Int()), "Member must have value ", low, high)
	case "enum":
		values := strings.Split(argument, "|")
		for _, allowed := range values {
			if text == allowed {
				return
			}
		}
		c.add(path, text, "Member must satisfy enum value set: ["+strings.Join(values, ", ")+"]")
	case "keys":
		c.keys(v, path)
	case "values":
		c.values(v, path, argument)
	default:
		panic("dynamodb: unknown constraint " + name)
	}
}

const unbounded = -1

func bounds(s string) (low, high int) {
	from, to, _ := strings.Cut(s, "..")
	low, high = unbounded, unbounded
	if from != "" {
		low, _ = strconv.Atoi(from)
	}
	if to != "" {
		high, _ = strconv.Atoi(to)
	}
	return low, high
}

func (c *violations) bounds(path, text string, got int, what string, low, high int) {
	if low != unbounded && got < low {
		c.add(path, text, what+"greater than or equal to "+strconv.Itoa(low))
	}
	if high != unbounded && got > high {
		c.add(path, text, what+"less than or equal to "+strconv.Itoa(high))
	}
}

func (c *violations) keys(v reflect.Value, path string) {
	for i := range v.Len() {
		key := v.Index(i).FieldByName("Key").String()
		if !isName(key) || len(key) < minNameLength || len(key) > maxNameLength {
			c.add(path, show(v), fmt.Sprintf("Map keys must satisfy constraint: [Member must have length less than or equal to %d, "+
				"Member must have length greater than or equal to %d, Member must satisfy regular expression pattern: %s]",
				maxNameLength, minNameLength, namePattern))
		}
	}
}

func (c *violations) values(v reflect.Value, path, argument string) {
	low, high := bounds(argument)
	for i := range v.Len() {
		if n := v.Index(i).FieldByName("Value").Len(); n < low || n > high {
			c.add(path, show(v), fmt.Sprintf("Map value must satisfy constraint: [Member must have length less than or equal to %d, "+
				"Member must have length greater than or equal to %d]", high, low))
		}
	}
}

func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	})
}

// show is a value as messages quote it. Lists and maps are not quoted: they
// may hold the contents of items.
func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return fmt.Sprint(v.Elem().Interface())
	case reflect.Slice:
		open, end := "[", "]"
		if _, isMap := v.Addr().Interface().(selfDecoder); isMap {
			open, end = "{", "}"
		}
		if v.Len() == 0 {
			return open + end
		}
		return open + "..." + end
	}
	panic("dynamodb: a constraint on a " + v.Kind().String())
}
