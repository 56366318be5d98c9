package schema

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/target"
)

// form is what a shape looks like as JSON.
type form int

const (
	stringForm form = iota
	integerForm
	numberForm
	booleanForm
	objectForm
	mapForm
	listForm
	unionForm
	pointerForm // whatever its element is, or null
	rawForm     // any value, kept as canonical text
	anyForm     // any value, as Go values
	timeForm
	textForm // a type that reads itself from a string
	customForm
)

// A shape is a compiled Go type together with the rules of the place where it
// stands.
type shape struct {
	form  form
	typ   reflect.Type
	rules rules
	desc  string
	elem  *shape // of lists, maps and pointers

	// of objects
	fields []field
	index  map[string]int
	among  []among
	kindAt int // index of the field "kind", or -1
	// addresses tells that the object names a result or a port by keys, so that
	// a dotted string in its place, or beside its keys, is the legacy form.
	addresses bool
	base      *shape // what it embeds with the rule widen, or nil

	// of unions
	variants map[string]*shape
	kinds    []string // in the order of registration
}

type field struct {
	name     string
	path     []int // reflect index
	shape    *shape
	optional bool
	nullable bool
	desc     string
	based    bool            // is the base's
	kinds    map[string]bool // kind → required; nil: belongs to every kind
	order    []string        // the kinds as written
}

// among is a rule on how many of some fields are present.
type among struct {
	rule  string // "oneOf", "anyOf", "atMostOne", "forms"
	names []string
	forms [][]string // of "forms": the members of each form
}

type rules struct {
	minimum, maximum, exclusiveMinimum, exclusiveMaximum *float64
	minLength, maxLength, minItems, maxItems             *int
	enum                                                 []string
	only                                                 []string
	pattern                                              string
	regexp                                               *regexp.Regexp
	keyPattern                                           string
	keyRegexp                                            *regexp.Regexp // nil: any key
	each                                                 string
	among                                                []among
	copied, bare, brief                                  bool
	foldKeys                                             bool   // keys that differ in case alone are one key twice
	text                                                 string // line or prose, or any text
}

// The named patterns of the rules pattern and keys.
var namedPatterns = map[string]string{
	"key":      target.KeyPattern,
	"language": `^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`,
	"member":   `^[a-z][A-Za-z0-9_]{0,63}$`, // a name that a schema chose, as in settings
	"dotted":   `^[a-z][a-z0-9_]{0,63}(\.[a-z][a-z0-9_]{0,63})*$`,
}

// A Custom type reads itself and states its own JSON Schema. Use it where no
// rule of this package says what the type is.
type Custom interface {
	// JSONSchema returns the JSON Schema as JSON text. It is asked of the zero
	// value.
	JSONSchema() string
	// ReadJSON sets the receiver, a pointer, from one strict JSON value and
	// reports what is wrong with it. text is valid only during the call.
	ReadJSON(text canon.Raw, found *Report)
}

var (
	rawType    = reflect.TypeFor[canon.Raw]()
	timeType   = reflect.TypeFor[time.Time]()
	customType = reflect.TypeFor[Custom]()
	textIn     = reflect.TypeFor[encoding.TextUnmarshaler]()
	textOut    = reflect.TypeFor[encoding.TextMarshaler]()
)

type shapeKey struct {
	typ     reflect.Type
	rules   string
	pattern string
}

var compiled struct {
	sync.Mutex
	shapes map[shapeKey]*shape
}

// shapeOf returns the compiled shape of a type. A type that this package cannot
// read is a mistake of the program and panics.
func shapeOf(t reflect.Type, tag, pattern string) *shape {
	compiled.Lock()
	defer compiled.Unlock()
	return compile(t, tag, pattern)
}

// compile expects the lock.
func compile(t reflect.Type, tag, pattern string) *shape {
	key := shapeKey{t, tag, pattern}
	if s, ok := compiled.shapes[key]; ok {
		return s
	}
	if compiled.shapes == nil {
		compiled.shapes = make(map[shapeKey]*shape)
	}
	s := &shape{typ: t, kindAt: -1}
	compiled.shapes[key] = s // before the parts, which may refer to it
	s.rules = readRules(t, tag, pattern)
	s.fill(tag, pattern)
	return s
}

func (s *shape) fill(tag, pattern string) {
	t := s.typ
	switch {
	case t == rawType:
		s.form = rawForm
		return
	case t == timeType:
		s.form = timeForm
		return
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(customType):
		s.form = customForm
		return
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textIn) && t.Implements(textOut):
		s.form = textForm
		if e, ok := reflect.Zero(t).Interface().(interface{ Enum() []string }); ok {
			s.rules.enum = e.Enum()
		}
		return
	}
	switch t.Kind() {
	case reflect.String:
		s.form = stringForm
		if e, ok := reflect.Zero(t).Interface().(interface{ Enum() []string }); ok && s.rules.enum == nil {
			s.rules.enum = e.Enum()
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		s.form = integerForm
	case reflect.Float64:
		s.form = numberForm
	case reflect.Bool:
		s.form = booleanForm
	case reflect.Pointer:
		s.form = pointerForm
		s.elem = compile(t.Elem(), tag, pattern)
	case reflect.Slice:
		s.form = listForm
		s.elem = compile(t.Elem(), s.rules.each, "")
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("schema: %v: keys must be strings", t))
		}
		s.form = mapForm
		s.elem = compile(t.Elem(), s.rules.each, "")
	case reflect.Struct:
		s.form = objectForm
		s.fillObject()
	case reflect.Interface:
		if t.NumMethod() == 0 {
			s.form = anyForm
			return
		}
		s.form = unionForm
		s.fillUnion()
	default:
		panic(fmt.Sprintf("schema: %v has no JSON form here", t))
	}
}

func (s *shape) fillObject() {
	s.index = make(map[string]int)
	s.addFields(s.typ, nil, false)
	for i, f := range s.fields {
		if f.kinds != nil && s.kindAt < 0 {
			panic(fmt.Sprintf("schema: %v.%s has kinds, but the object has no kind", s.typ, f.name))
		}
		switch f.name {
		case "portKey", "resultKey", "fieldKey", "slotKey":
			s.addresses = true
		}
		if len(s.rules.only) == 1 {
			s.fields[i].fixKind(s.rules.only[0])
		}
	}
	if s.kindAt >= 0 && s.rules.only != nil {
		kind := &s.fields[s.kindAt]
		for _, k := range s.rules.only {
			if !slices.Contains(kind.shape.rules.enum, k) {
				panic(fmt.Sprintf("schema: %v has no kind %s", s.typ, k))
			}
		}
		kind.shape = compile(kind.shape.typ, "enum="+strings.Join(s.rules.only, "|"), "")
	}
	if len(s.rules.only) == 1 {
		s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.shape == nil })
		clear(s.index)
		for i, f := range s.fields {
			s.index[f.name] = i
			if f.name == "kind" {
				s.kindAt = i
			}
		}
	}
}

// fixKind settles a field for an object whose kind is known: it is there for
// good, or not at all.
func (f *field) fixKind(kind string) {
	if f.kinds == nil {
		return
	}
	required, has := f.kinds[kind]
	if !has {
		f.shape = nil // fillObject removes it
		return
	}
	f.optional, f.kinds, f.order = !required, nil, nil
}

// addFields adds the fields of t. optional makes all of them optional: t is
// embedded by a pointer that may be nil.
func (s *shape) addFields(t reflect.Type, prefix []int, optional bool) {
	for i := range t.NumField() {
		sf := t.Field(i)
		path := append(slices.Clone(prefix), i)
		if sf.Name == "_" {
			s.desc = strings.TrimSpace(s.desc + " " + sf.Tag.Get("desc"))
			s.among = append(s.among, parseRules(t, sf.Tag.Get("schema")).among...)
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" && options == "" {
			continue
		}
		if sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct {
			from := len(s.fields)
			s.addFields(sf.Type, path, optional)
			if sf.Tag.Get("schema") == "widen" {
				s.base = compile(sf.Type, "", "")
				for i := from; i < len(s.fields); i++ {
					s.fields[i].based = true
				}
			}
			continue
		}
		if sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Pointer && sf.Type.Elem().Kind() == reflect.Struct {
			s.addFields(sf.Type.Elem(), path, true)
			continue
		}
		if !sf.IsExported() {
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("schema: %v.%s has no json name", t, sf.Name))
		}
		if _, twice := s.index[name]; twice {
			panic(fmt.Sprintf("schema: %v has %q twice", s.typ, name))
		}
		omit := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool { return o == "omitzero" || o == "omitempty" })
		f := field{
			name: name, path: path, desc: sf.Tag.Get("desc"), optional: omit || optional,
			nullable: sf.Type.Kind() == reflect.Pointer && !omit,
			shape:    compile(sf.Type, sf.Tag.Get("schema"), sf.Tag.Get("pattern")),
		}
		if tag := sf.Tag.Get("kinds"); tag != "" {
			f.kinds = make(map[string]bool)
			for _, kind := range strings.Split(tag, ",") {
				kind, required := strings.CutSuffix(strings.TrimSpace(kind), "!")
				f.kinds[kind] = required
				f.order = append(f.order, kind)
			}
			f.optional = true
		}
		if name == "kind" && len(f.shape.rules.enum) > 0 {
			s.kindAt = len(s.fields)
		}
		s.index[name] = len(s.fields)
		s.fields = append(s.fields, f)
	}
}

func (s *shape) fillUnion() {
	u, ok := unions[s.typ]
	if !ok {
		panic(fmt.Sprintf("schema: %v is not registered with Union", s.typ))
	}
	s.variants = make(map[string]*shape)
	for _, v := range u {
		if s.rules.only != nil && !slices.Contains(s.rules.only, v.kind) {
			continue
		}
		variant := compile(v.typ, "", "")
		if variant.form != objectForm || variant.kindAt < 0 {
			panic(fmt.Sprintf("schema: %v needs a field `json:\"kind\"` of type schema.Kind", v.typ))
		}
		s.kinds = append(s.kinds, v.kind)
		s.variants[v.kind] = variant
		s.addresses = s.addresses || variant.addresses
	}
}

func readRules(t reflect.Type, tag, pattern string) rules {
	r := rules{keyPattern: target.KeyPattern}
	if own, ok := reflect.Zero(t).Interface().(interface{ SchemaRules() string }); ok && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		r.parse(t, own.SchemaRules())
	}
	r.parse(t, tag)
	if pattern != "" {
		r.pattern = pattern
	}
	if r.pattern != "" {
		r.regexp = regexp.MustCompile(r.pattern)
	}
	if r.keyPattern != "" {
		r.keyRegexp = regexp.MustCompile(r.keyPattern)
	}
	return r
}

func parseRules(t reflect.Type, tag string) rules {
	var r rules
	r.parse(t, tag)
	return r
}

func (r *rules) parse(t reflect.Type, tag string) {
	if tag == "" {
		return
	}
	bad := func(rule string) { panic(fmt.Sprintf("schema: %v: rule %q", t, rule)) }
	var each []string
	for _, rule := range strings.Split(tag, ",") {
		name, value, _ := strings.Cut(rule, "=")
		number := func() *float64 {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				bad(rule)
			}
			return &f
		}
		count := func() *int {
			n, err := strconv.Atoi(value)
			if err != nil {
				bad(rule)
			}
			return &n
		}
		named := func() string {
			if value == "any" {
				return ""
			}
			p, ok := namedPatterns[value]
			if !ok {
				bad(rule)
			}
			return p
		}
		list := func() []string {
			if value == "" {
				bad(rule)
			}
			return strings.Split(value, "|")
		}
		switch {
		case strings.HasPrefix(name, "each."):
			each = append(each, strings.TrimPrefix(rule, "each."))
		case name == "minimum":
			r.minimum = number()
		case name == "maximum":
			r.maximum = number()
		case name == "exclusiveMinimum":
			r.exclusiveMinimum = number()
		case name == "exclusiveMaximum":
			r.exclusiveMaximum = number()
		case name == "minLength":
			r.minLength = count()
		case name == "maxLength":
			r.maxLength = count()
		case name == "minItems":
			r.minItems = count()
		case name == "maxItems":
			r.maxItems = count()
		case name == "enum":
			r.enum = list()
		case name == "only":
			r.only = list()
		case rule == "copied":
			r.copied = true
		case rule == "bare":
			r.bare = true
		case rule == "brief":
			r.brief = true
		case name == "pattern":
			r.pattern = named()
		case name == "keys":
			r.keyPattern, r.foldKeys = named(), value == "language"
		case rule == "text="+lineText, rule == "text="+proseText:
			r.text = value
		case name == "oneOf", name == "anyOf", name == "atMostOne":
			r.among = append(r.among, among{rule: name, names: list()})
		case name == "forms":
			a := among{rule: name, names: list()}
			for _, form := range a.names {
				a.forms = append(a.forms, strings.Split(form, "+"))
			}
			r.among = append(r.among, a)
		default:
			bad(rule)
		}
	}
	if each != nil {
		r.each = strings.Join(each, ",")
	}
}
