// Package safeschema is the part of JSON Schema (2020-12) that plugins may use: closed
// in itself, bounded in size and depth, and of a cost that grows with the value alone.
//
// What is outside of it is refused at its place when a package is validated (Check);
// what is in it means what JSON Schema means, and is judged by a library. A verdict
// tells places and keywords and never a value, and no name that only the value has.
//
// It knows no plugin.
package safeschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// The limits of one schema. The limit itself is allowed. Nodes are counted with every
// $ref in place of what it refers to.
const (
	MaxBytes   = 64 << 10
	MaxDepth   = 16
	MaxNodes   = 512
	MaxBranch  = 8    // of oneOf and anyOf
	MaxList    = 512  // members of enum and required
	MaxPattern = 1000 // bytes of a pattern
)

// Formats are the formats that are checked.
var Formats = []string{"date", "date-time", "email", "uri"}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// A node is one schema of a checked text.
type node struct {
	types      []string
	properties map[string]*node
	additional *node // a schema for them
	closed     bool  // additionalProperties is false
	open       bool  // additionalProperties is true
	items      *node
	branches   []*node // of oneOf and anyOf
	ref        string  // a name in $defs
	required   int     // how many members are
	unique     bool    // uniqueItems
	pattern    int     // instructions
	// What it takes to compare a value with all of enum and const, in steps, and how many
	// there are of each kind.
	listed, some [compared]int
}

// checker reads one text.
type checker struct {
	findings outcome.Findings
	defs     map[string]*node
	refs     []reference
	names    map[string]bool // of properties, anywhere
}

type reference struct{ name, at string }

func (c *checker) invalid(at, rule string, params outcome.Params) {
	if params == nil {
		params = outcome.Params{}
	}
	params["rule"] = rule
	c.findings.Add(outcome.SchemaInvalid, at, params)
}

func limit(c *checker, at, name string, most, observed int) {
	c.findings.Add(outcome.LimitExceeded, at, outcome.Params{"limit": most, "observed": observed, "of": name})
}

// Check returns everything that is wrong with a schema that stands at a JSON Pointer.
func Check(text canon.Raw, at string) outcome.Findings {
	_, _, findings := check(text, at)
	return findings
}

// check reads a schema.
func check(text canon.Raw, at string) (*node, *checker, outcome.Findings) {
	c := &checker{defs: map[string]*node{}, names: map[string]bool{}}
	if len(text) > MaxBytes {
		limit(c, at, "bytes", MaxBytes, len(text))
		return nil, c, c.findings
	}
	if canon.Check(text) != nil {
		c.invalid(at, "json", nil)
		return nil, c, c.findings
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		c.invalid(at, "json", nil)
		return nil, c, c.findings
	}
	root, ok := value.(map[string]any)
	if !ok {
		c.invalid(at, "type", outcome.Params{"expected": "object"})
		return nil, c, c.findings
	}
	if defs, there := root["$defs"]; there {
		all, ok := defs.(map[string]any)
		if !ok {
			c.invalid(at+"/$defs", "type", outcome.Params{"expected": "object"})
		}
		for _, name := range sorted(all) {
			c.defs[name] = c.schema(all[name], at+"/$defs/"+escape(name), 1, false)
		}
	}
	tree := c.schema(root, at, 0, true)
	if tree != nil && !slices.Equal(tree.types, []string{"object"}) {
		c.invalid(at+"/type", "object_root", nil)
	}
	for _, r := range c.refs {
		if c.defs[r.name] == nil {
			c.findings.Add(outcome.ReferenceUnknown, r.at, nil)
		}
	}
	if c.findings == nil {
		c.expand(tree, at)
	}
	return tree, c, c.findings
}

func sorted(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// schema reads the schema of a place.
func (c *checker) schema(value any, at string, depth int, root bool) *node {
	members, ok := value.(map[string]any)
	if !ok {
		c.invalid(at, "type", outcome.Params{"expected": "object"})
		return nil
	}
	if depth > MaxDepth {
		limit(c, at, "depth", MaxDepth, depth)
		return nil
	}
	n := &node{properties: map[string]*node{}}
	for _, name := range sorted(members) {
		v, here := members[name], at+"/"+escape(name)
		switch name {
		case "type":
			c.types(n, v, here)
		case "properties":
			all, ok := v.(map[string]any)
			if !ok {
				c.invalid(here, "type", outcome.Params{"expected": "object"})
			}
			for _, property := range sorted(all) {
				c.names[property] = true
				n.properties[property] = c.schema(all[property], here+"/"+escape(property), depth+1, false)
			}
		case "required":
			c.strings(v, here)
			list, _ := v.([]any)
			n.required = len(list)
		case "additionalProperties":
			if allowed, is := v.(bool); is {
				n.open, n.closed = allowed, !allowed
			} else {
				n.additional = c.schema(v, here, depth+1, false)
			}
		case "items":
			n.items = c.schema(v, here, depth+1, false)
		case "enum":
			if list, ok := v.([]any); !ok || len(list) == 0 {
				c.invalid(here, "type", outcome.Params{"expected": "list that is not empty"})
			} else if len(list) > MaxList {
				limit(c, here, "members", MaxList, len(list))
			} else {
				for _, one := range list {
					n.list(one)
				}
			}
		case "const":
			n.list(v)
		case "default": // any value
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			if _, ok := v.(json.Number); !ok {
				c.invalid(here, "type", outcome.Params{"expected": "number"})
			}
		case "minLength", "maxLength", "minItems", "maxItems":
			if !count(v) {
				c.invalid(here, "type", outcome.Params{"expected": "integer from 0"})
			}
		case "uniqueItems":
			unique, ok := v.(bool)
			if !ok {
				c.invalid(here, "type", outcome.Params{"expected": "boolean"})
			}
			n.unique = unique
		case "pattern":
			text, ok := v.(string)
			if _, err := regexp.Compile(text); !ok || err != nil {
				c.invalid(here, "pattern", nil)
			}
			if len(text) > MaxPattern {
				limit(c, here, "bytes", MaxPattern, len(text))
			}
			n.pattern = instructions(text)
		case "format":
			if text, _ := v.(string); !slices.Contains(Formats, text) {
				c.invalid(here, "format", outcome.Params{"allowed": Formats})
			}
		case "title", "description":
			if _, ok := v.(string); !ok {
				c.invalid(here, "type", outcome.Params{"expected": "string"})
			}
		case "oneOf", "anyOf":
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				c.invalid(here, "type", outcome.Params{"expected": "list that is not empty"})
			}
			if len(list) > MaxBranch {
				limit(c, here, "members", MaxBranch, len(list))
				continue
			}
			for i, branch := range list {
				n.branches = append(n.branches, c.schema(branch, here+"/"+strconv.Itoa(i), depth+1, false))
			}
		case "$defs":
			if !root {
				c.invalid(here, "keyword", nil)
			}
		case "$ref":
			text, _ := v.(string)
			to, local := strings.CutPrefix(text, "#/$defs/")
			if !local || to == "" || strings.ContainsAny(to, "/%") || strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(to), "~") {
				c.invalid(here, "local_ref", nil)
				continue
			}
			n.ref = strings.ReplaceAll(strings.ReplaceAll(to, "~1", "/"), "~0", "~")
			c.refs = append(c.refs, reference{n.ref, here})
		default:
			c.invalid(here, "keyword", nil)
		}
	}
	return n
}

func (c *checker) types(n *node, v any, at string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		name, _ := one.(string)
		if !slices.Contains(typeNames, name) || slices.Contains(n.types, name) {
			c.invalid(at, "enum", outcome.Params{"allowed": typeNames})
			return
		}
		n.types = append(n.types, name)
	}
	if len(list) == 0 {
		c.invalid(at, "enum", outcome.Params{"allowed": typeNames})
	}
}

// strings reads a list of strings that are all different.
func (c *checker) strings(v any, at string) {
	list, ok := v.([]any)
	if !ok {
		c.invalid(at, "type", outcome.Params{"expected": "list of strings"})
	}
	if len(list) > MaxList {
		limit(c, at, "members", MaxList, len(list))
		return
	}
	seen := map[string]bool{}
	for i, one := range list {
		name, ok := one.(string)
		if !ok || seen[name] {
			c.invalid(at+"/"+strconv.Itoa(i), "unique_strings", nil)
		}
		seen[name] = true
	}
}

// count reports whether a value is a whole number from 0. 2.0 is one.
func count(v any) bool {
	number, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	return err == nil && f >= 0 && f == math.Trunc(f) && f <= 1<<53
}

// expand holds the whole to its limits with each $ref in place of what it refers to,
// and finds circles.
func (c *checker) expand(root *node, at string) {
	type size struct{ nodes, depth int }
	done, open := map[*node]size{}, map[*node]bool{}
	var of func(n *node) (size, bool)
	of = func(n *node) (size, bool) {
		if s, ok := done[n]; ok {
			return s, true
		}
		if open[n] {
			return size{}, false
		}
		open[n] = true
		defer delete(open, n)
		s := size{nodes: 1}
		add := func(below *node, step int) bool {
			if below == nil {
				return true
			}
			b, ok := of(below)
			s.nodes, s.depth = min(s.nodes+b.nodes, MaxNodes+1), max(s.depth, b.depth+step)
			return ok
		}
		ok := add(n.additional, 1) && add(n.items, 1)
		for _, name := range sortedNodes(n.properties) {
			ok = ok && add(n.properties[name], 1)
		}
		for _, b := range n.branches {
			ok = ok && add(b, 1)
		}
		if n.ref != "" {
			ok = ok && add(c.defs[n.ref], 0)
		}
		done[n] = s
		return s, ok
	}
	all := []*node{root}
	for _, name := range sortedNodes(c.defs) {
		all = append(all, c.defs[name])
	}
	total := 0
	for i, n := range all {
		s, ok := of(n)
		if !ok {
			c.invalid(at, "recursion", nil)
			return
		}
		if i == 0 && s.depth > MaxDepth {
			limit(c, at, "depth", MaxDepth, s.depth)
		}
		total += s.nodes
	}
	if total > MaxNodes {
		limit(c, at, "nodes", MaxNodes, total)
	}
}

func sortedNodes(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A Schema judges values. It is safe for use by many goroutines.
type Schema struct {
	compiled *jsonschema.Schema
	root     *node
	defs     map[string]*node
	names    map[string]bool
}

// errDenied ends every attempt to load a schema from anywhere.
var errDenied = errors.New("safeschema: nothing is loaded")

type denying struct{}

func (denying) Load(string) (any, error) { return nil, errDenied }

// Compile returns a schema that Check accepts.
func Compile(text canon.Raw) (*Schema, error) {
	root, c, findings := check(text, "")
	if findings != nil {
		return nil, fmt.Errorf("safeschema: %s at %s", findings[0].Code, findings[0].Path)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("safeschema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(denying{})
	compiler.AssertFormat()
	const name = "px:schema"
	if err := compiler.AddResource(name, value); err != nil {
		return nil, fmt.Errorf("safeschema: %w", err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("safeschema: %w", err)
	}
	return &Schema{compiled, root, c.defs, c.names}, nil
}

// A Violation is one way in which a value does not fit.
type Violation struct {
	// Path is a JSON Pointer into the value. A name that the schema does not have is *.
	Path    string `json:"path"`
	Keyword string `json:"keyword"`
	// Names are the required members that are missing.
	Names []string `json:"names,omitzero"`
}

// Validate returns the ways in which a strict JSON value does not fit, in order of place,
// MaxViolations at most. A value that takes more than MaxWork steps to judge does not fit.
func (s *Schema) Validate(value canon.Raw) ([]Violation, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, errors.New("safeschema: the value is no JSON")
	}
	if !s.work(v) {
		return []Violation{{Keyword: Work}}, nil
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil, nil
	}
	failed, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, errors.New("safeschema: the value cannot be judged")
	}
	var out []Violation
	s.collect(failed, &out)
	slices.SortFunc(out, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Keyword, b.Keyword))
	})
	out = slices.CompactFunc(out, func(a, b Violation) bool {
		return a.Path == b.Path && a.Keyword == b.Keyword && slices.Equal(a.Names, b.Names)
	})
	return told(out), nil
}

// collect lists the leaves of an error. Of alternatives it tells only that none, or
// more than one, fits: why each does not would be a riddle.
func (s *Schema) collect(e *jsonschema.ValidationError, out *[]Violation) {
	if len(*out) == maxFound {
		return
	}
	v := Violation{Path: s.place(e.InstanceLocation)}
	switch k := e.ErrorKind.(type) {
	case *kind.OneOf:
		v.Keyword = "oneOf"
	case *kind.AnyOf:
		v.Keyword = "anyOf"
	case *kind.Required:
		v.Keyword, v.Names = "required", k.Missing
	default:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				s.collect(cause, out)
			}
			return
		}
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			v.Keyword = path[0]
		}
	}
	*out = append(*out, v)
}

// place is a JSON Pointer of names that the schema has, and of indices.
func (s *Schema) place(location []string) string {
	var out strings.Builder
	for _, part := range location {
		if _, err := strconv.Atoi(part); err != nil && !s.names[part] {
			part = "*"
		}
		out.WriteString("/" + escape(part))
	}
	return out.String()
}

// Has reports whether a value that fits may have something at a place: names of
// members, and an index or * for an item. Where the schema lists the members of an
// object and does not say that there are others, there are none for this purpose: a
// name that is not listed is a slip of the pen.
func (s *Schema) Has(path []string) bool { return s.has(s.root, path) }

func (s *Schema) has(n *node, path []string) bool {
	if n == nil || len(path) == 0 {
		return true
	}
	if n.ref != "" && s.has(s.defs[n.ref], path) {
		return true
	}
	for _, b := range n.branches {
		if s.has(b, path) {
			return true
		}
	}
	name, rest := path[0], path[1:]
	_, err := strconv.Atoi(name)
	may := func(t string) bool { return len(n.types) == 0 || slices.Contains(n.types, t) }
	if (err == nil || name == "*") && n.items != nil && may("array") {
		return s.has(n.items, rest)
	}
	if below, listed := n.properties[name]; listed && may("object") {
		return s.has(below, rest)
	}
	switch {
	case n.additional != nil:
		return may("object") && s.has(n.additional, rest)
	case n.closed:
		return false
	case n.open:
		return may("object")
	}
	// Nothing is said of what is inside: a schema that says nothing else says anything
	// may be there.
	said := len(n.properties) > 0 || n.ref != "" || len(n.branches) > 0
	return !said && (may("object") || may("array") && n.items == nil)
}

// A Cache keeps compiled schemas by their text. The zero value is ready; it is safe for
// use by many goroutines.
type Cache struct {
	mu  sync.Mutex
	all map[string]*Schema
}

// cached is how many schemas a cache has at most.
const cached = 2000

// Schema compiles a schema, or finds it compiled.
func (c *Cache) Schema(text canon.Raw) (*Schema, error) {
	key := string(text)
	c.mu.Lock()
	s := c.all[key]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := Compile(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= cached {
		c.all = map[string]*Schema{}
	}
	c.all[key] = s
	return s, nil
}
