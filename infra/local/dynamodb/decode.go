package dynamodb

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/local/dynamodb/attribute"
	"github.com/pxhost/pxhost/infra/local/dynamodb/expression"
)

// Requests are decoded into the structs of inputs.go by reflection: a struct
// lists the members of its shape, and a field of type refused a member that
// DynamoDB has and this emulator refuses. A member that a struct does not list
// is refused as well, so nothing in a request is ever ignored.
//
// A member that is null counts as absent. A value of a wrong JSON type is a
// SerializationException with DynamoDB's text.

// refused is the type of members that are known and not supported.
type refused struct{}

// decoder reads one request.
type decoder struct {
	*jsontext.Decoder
	operation string
}

// selfDecoder is a shape with a decoding of its own.
type selfDecoder interface{ decode(*decoder) error }

// decodeInput reads a request body into a struct of inputs.go.
func decodeInput(operation string, body []byte, input any) *apiError {
	d := &decoder{jsontext.NewDecoder(bytes.NewReader(body)), operation}
	err := func() error {
		if d.PeekKind() != '{' {
			if _, err := d.ReadValue(); err != nil {
				return err
			}
			return errShape("The request is not a JSON object")
		}
		if err := d.structure(reflect.ValueOf(input).Elem(), operation); err != nil {
			return err
		}
		if _, err := d.ReadToken(); err != io.EOF {
			return errShape("There is data after the request")
		}
		return nil
	}()
	var api *apiError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api):
		return api
	}
	// Not the text of err: it may quote the request.
	return errShape("The request is not valid JSON")
}

// structure reads an object into a struct. The object has begun, but its brace
// has not been read.
func (d *decoder) structure(into reflect.Value, shape string) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.text()
		if err != nil {
			return err
		}
		field := into.FieldByName(name)
		if !field.IsValid() {
			return errInvalid("The request has a member that " + shape + " does not have: " + string(d.StackPointer()))
		}
		if d.PeekKind() == 'n' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if field.Type() == reflect.TypeFor[refused]() {
			return errRefused("The member " + string(d.StackPointer()) + " of " + d.operation)
		}
		if err := d.member(field); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// text reads a string or an object's member name.
func (d *decoder) text() (string, error) {
	t, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// member reads one value into a struct field of any kind that inputs.go uses.
func (d *decoder) member(field reflect.Value) error {
	if self, ok := field.Addr().Interface().(selfDecoder); ok {
		return self.decode(d)
	}
	switch target := field.Addr().Interface().(type) {
	case **string:
		s, err := d.scalar("String", '"')
		*target = &s
		return err
	case **bool:
		s, err := d.scalar("Boolean", 't', 'f')
		b := s == "true"
		*target = &b
		return err
	case **int64:
		return d.integer(target)
	case *[]string:
		return d.elements("Unexpected field type", func() error {
			s, err := d.scalar("String", '"')
			*target = append(*target, s)
			return err
		})
	}
	switch field.Kind() {
	case reflect.Pointer: // to a struct
		if err := d.object("Unexpected field type", "class "+shapeClass(field.Type().Elem())); err != nil {
			return err
		}
		field.Set(reflect.New(field.Type().Elem()))
		return d.structure(field.Elem(), shapeName(field.Type().Elem()))
	case reflect.Slice: // of structs, or of shapes with a decoding of their own
		field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		return d.elements("Unexpected field type", func() error {
			e := reflect.New(field.Type().Elem()).Elem()
			if err := d.element(e); err != nil {
				return err
			}
			field.Set(reflect.Append(field, e))
			return nil
		})
	}
	panic("dynamodb: an input field of type " + field.Type().String())
}

// element reads an element of a list or a value of a map.
func (d *decoder) element(into reflect.Value) error {
	if self, ok := into.Addr().Interface().(selfDecoder); ok {
		return self.decode(d)
	}
	if into.Kind() == reflect.Slice {
		return d.member(into)
	}
	if err := d.object("Unexpected value type in payload", "class "+shapeClass(into.Type())); err != nil {
		return err
	}
	return d.structure(into, shapeName(into.Type()))
}

// shapeName is DynamoDB's name of a struct of inputs.go: "KeysAndAttributes".
func shapeName(t reflect.Type) string {
	return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
}

func shapeClass(t reflect.Type) string { return "com.amazonaws.dynamodb.v20120810." + shapeName(t) }

// object makes sure that an object comes next.
func (d *decoder) object(scalarMessage, class string) error {
	switch d.PeekKind() {
	case '{':
		return nil
	case '[':
		return errShape("Unrecognized collection type " + class)
	case 0:
		_, err := d.ReadToken()
		return err
	}
	return errShape(scalarMessage)
}

// elements reads an array and calls read for each of its elements.
func (d *decoder) elements(scalarMessage string, read func() error) error {
	switch d.PeekKind() {
	case '[':
	case '{':
		return errShape("Start of structure or map found where not expected")
	case 0:
		_, err := d.ReadToken()
		return err
	default:
		return errShape(scalarMessage)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if d.PeekKind() == 'n' {
			return errShape("A list of the request has an element that is null")
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// fields reads an object and calls read for each of its members but nulls.
func (d *decoder) fields(class string, read func(name string) error) error {
	if err := d.object("Unexpected field type", class); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.text()
		if err != nil {
			return err
		}
		if d.PeekKind() == 'n' {
			err = d.SkipValue()
		} else {
			err = read(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// scalar reads a token of one of the kinds; javaType names what was expected.
func (d *decoder) scalar(javaType string, kinds ...jsontext.Kind) (string, error) {
	kind := d.PeekKind()
	for _, k := range kinds {
		if kind == k {
			return d.text()
		}
	}
	switch kind {
	case '[':
		return "", errShape("Unrecognized collection type class java.lang." + javaType)
	case '{':
		return "", errShape("Start of structure or map found where not expected")
	}
	t, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	found := map[jsontext.Kind]string{'t': "TRUE_VALUE", 'f': "FALSE_VALUE", '"': "STRING_VALUE", '0': "NUMBER_VALUE"}[kind]
	if kind == '0' && strings.ContainsAny(t.String(), ".eE") {
		found = "DECIMAL_VALUE"
	}
	return "", errShape(found + " cannot be converted to " + javaType)
}

func (d *decoder) integer(target **int64) error {
	s, err := d.scalar("Integer", '0')
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return errShape("DECIMAL_VALUE cannot be converted to Integer")
	}
	*target = &n
	return nil
}

// nameMap is a map of strings, in the order it was written.
type nameMap []expression.Name

func (m *nameMap) decode(d *decoder) error {
	*m = nameMap{}
	return d.fields("java.util.Map<java.lang.String, java.lang.String>", func(key string) error {
		value, err := d.scalar("String", '"')
		*m = append(*m, expression.Name{Placeholder: key, Attribute: value})
		return err
	})
}

// keyed is a map of T, in the order it was written.
type keyed[T any] []keyedEntry[T]

type keyedEntry[T any] struct {
	Key   string
	Value T
}

func (m *keyed[T]) decode(d *decoder) error {
	*m = keyed[T]{}
	element := reflect.TypeFor[T]()
	class := "com.amazonaws.dynamodb.v20120810."
	if element.Kind() == reflect.Slice {
		class = "java.util.List<" + class + shapeName(element.Elem()) + ">"
	} else {
		class += shapeName(element)
	}
	return d.fields("java.util.Map<java.lang.String, "+class+">", func(key string) error {
		entry := keyedEntry[T]{Key: key}
		err := d.element(reflect.ValueOf(&entry.Value).Elem())
		*m = append(*m, entry)
		return err
	})
}

// rawItem is a map of attribute values as it was sent: its JSON has the right
// types, but nothing else of it has been checked.
type rawItem []rawAttribute

type rawAttribute struct {
	name  string
	value rawValue
}

// rawValue is an attribute value as it was sent, with as many types as it has.
type rawValue []rawType

type rawType struct {
	kind   attribute.Kind
	flag   bool
	text   string // S, N; B as its bytes
	texts  []string
	list   []rawValue
	fields rawItem
}

func (m *rawItem) decode(d *decoder) error {
	*m = rawItem{}
	return d.fields("java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>", func(name string) error {
		var v rawValue
		err := v.decode(d)
		*m = append(*m, rawAttribute{name, v})
		return err
	})
}

func (v *rawValue) decode(d *decoder) error {
	*v = rawValue{}
	if err := d.object("Unexpected value type in payload", "class com.amazonaws.dynamodb.v20120810.AttributeValue"); err != nil {
		return err
	}
	return d.fields("", func(name string) error {
		kind, known := attribute.KindOf(name)
		if !known {
			return errInvalid("The request has a member that AttributeValue does not have: " + string(d.StackPointer()))
		}
		t := rawType{kind: kind}
		err := t.decode(d)
		*v = append(*v, t)
		return err
	})
}

func (t *rawType) decode(d *decoder) (err error) {
	switch t.kind {
	case attribute.S, attribute.N:
		t.text, err = d.scalar("String", '"')
	case attribute.B:
		t.text, err = d.blob()
	case attribute.BOOL, attribute.NULL:
		t.text, err = d.scalar("Boolean", 't', 'f')
		t.flag = t.text == "true"
	case attribute.SS, attribute.NS, attribute.BS:
		err = d.elements("Unexpected field type", func() error {
			read := func() (string, error) { return d.scalar("String", '"') }
			if t.kind == attribute.BS {
				read = d.blob
			}
			s, err := read()
			t.texts = append(t.texts, s)
			return err
		})
	case attribute.L:
		err = d.elements("Unexpected field type", func() error {
			var v rawValue
			err := v.decode(d)
			t.list = append(t.list, v)
			return err
		})
	case attribute.M:
		err = t.fields.decode(d)
	}
	return err
}

// blob reads bytes in base64. Only the one canonical spelling is accepted.
func (d *decoder) blob() (string, error) {
	switch d.PeekKind() {
	case '"':
	case '[':
		return "", errShape("Unrecognized collection type class java.nio.ByteBuffer")
	case '{':
		return "", errShape("Start of structure or map found where not expected")
	default:
		if _, err := d.ReadToken(); err != nil {
			return "", err
		}
		return "", errShape("only base-64-encoded strings are convertible to bytes")
	}
	s, err := d.text()
	if err != nil {
		return "", err
	}
	if len(s)%4 != 0 {
		return "", errShape("Base64 encoded length is expected a multiple of 4 bytes but found: " + strconv.Itoa(len(s)))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return "", errShape("Invalid last non-pad Base64 character dectected")
	}
	return string(raw), nil
}
