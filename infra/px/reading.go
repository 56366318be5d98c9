package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/infra/px/readable"
	"github.com/pxhost/pxhost/infra/px/term"
	"github.com/pxhost/pxhost/shared/review"
)

// oneLine is how long a value may be, in bytes, to be shown on one line.
const oneLine = 160

// firstEntries is how many entries of one kind of a list a person is shown. A plan may
// move thousands of targets, and of the ninth thousandth line nobody is the wiser: what
// is decided by is how many there are of what kind, and that none is of another.
const firstEntries = 20

// A reading is what is written for a person who decides by it.
type reading struct {
	*term.Screen
	left int // entries that are not shown
}

func (r *reading) printf(format string, args ...any) { fmt.Fprintf(r, format, args...) }

func (r *reading) section(name string) { r.printf("\n%s\n", r.Paint(term.Bold, name)) }

// list shows the first entries of each kind, and how many more there are of which.
func list[E any](r *reading, indent string, entries []E, kindOf func(E) string, show func(E)) {
	counts := map[string]int{}
	var kinds []string
	for _, e := range entries {
		kind := kindOf(e)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
		if counts[kind] <= firstEntries {
			show(e)
		}
	}
	for _, kind := range kinds {
		if more := counts[kind] - firstEntries; more > 0 {
			r.left += more
			r.printf("%s… and %d more %s\n", indent, more, plainText(kind))
		}
	}
}

// command shows a command on one line, or a long one by its members, and a list by its
// elements: each case of a Batch is a line that a person can read.
func (r *reading) command(command jsontext.Value) {
	if len(command) <= oneLine || command.Kind() != '{' {
		r.printf("  %s\n", plainText(string(command)))
		return
	}
	mark := "- "
	for name, value := range readable.Members(command) {
		r.member("  "+mark, "    ", name, value)
		mark = "  "
	}
}

// member shows a member of an object. What stands below it is indented by below.
func (r *reading) member(before, below, name string, value jsontext.Value) {
	name = plainText(name)
	switch {
	case value.Kind() == '[':
		var elements []jsontext.Value
		if json.Unmarshal(value, &elements) != nil {
			elements = []jsontext.Value{value}
		}
		r.printf("%s%s: %d\n", before, name, len(elements))
		list(r, below+"  ", elements, kindOf, func(e jsontext.Value) { r.printf("%s  %s\n", below, plainText(string(e))) })
	case value.Kind() == '{' && len(value) > oneLine:
		r.printf("%s%s:\n", before, name)
		for name, value := range readable.Members(value) {
			r.member(below+"  ", below+"  ", name, value)
		}
	case value.Kind() == '"' && bytes.Contains(value, []byte(`\n`)):
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			text = value
		}
		r.printf("%s%s:\n", before, name)
		for line := range strings.Lines(string(text)) {
			r.printf("%s  | %s\n", below, plainText(strings.TrimSuffix(line, "\n")))
		}
	default:
		r.printf("%s%s: %s\n", before, name, plainText(string(value)))
	}
}

// kindOf tells entries apart that a person has to see some of: what they do, to what
// kind of target, and at what kind of place.
func kindOf(entry jsontext.Value) string {
	var e map[string]any
	if json.Unmarshal(entry, &e) != nil {
		return "" // no object
	}
	text := func(name string) string { s, _ := e[name].(string); return s }
	of, _, _ := strings.Cut(text("target"), "/")
	return strings.Join(slices.DeleteFunc([]string{text("kind"), text("op"), text("effect"), of, placeKind(text("path"))}, func(s string) bool { return s == "" }), " ")
}

// placeKind is a semantic path without the keys in it: flow/*:/nodes/*/target.
func placeKind(path string) string {
	of, pointer, there := strings.Cut(path, ":/")
	if !there {
		of, pointer = "", strings.TrimPrefix(path, "/")
	} else if kind, _, ok := strings.Cut(of, "/"); ok {
		of = kind + "/*:"
	}
	if pointer == "" {
		return of
	}
	steps := strings.Split(pointer, "/")
	for i := 1; i < len(steps); i += 2 {
		steps[i] = "*"
	}
	return of + "/" + strings.Join(steps, "/")
}

// A difference is one entry of a plan's diff.
type difference struct {
	Op   string `json:"op"`
	Path string `json:"path"`
}

// showBody shows what a plan changes or a Run calculates.
func showBody(out *term.Screen, a review.Asked) {
	r := &reading{Screen: out}
	if run := a.Run; run != nil {
		what := run.Kind
		if run.ConnectionKey != "" {
			what += " of the connection " + run.ConnectionKey
		}
		r.section(plainText(what) + " with the inputs")
		for _, key := range sortedKeys(run.Inputs) {
			r.printf("  %s = %s\n", plainText(key), plainText(string(run.Inputs[key])))
		}
		if run.Reason != "" {
			r.printf("Reason given: %s\n", plainText(run.Reason))
		}
	}
	if a.Plan != nil {
		r.plan(*a.Plan)
	}
	if r.left > 0 {
		r.printf("\n%d entries of long lists are not shown here. All there is: px review %s --json\n", r.left, plainText(a.PlanRef+a.RunRef))
	}
}

func (r *reading) plan(p review.PlanText) {
	if len(p.Commands) > 0 {
		r.section("Commands")
		commands := make([]jsontext.Value, len(p.Commands))
		for i, c := range p.Commands {
			commands[i] = jsontext.Value(c)
		}
		list(r, "  ", commands, kindOf, r.command)
	}
	var changes []jsontext.Value
	if err := json.Unmarshal(p.Diff, &changes); err != nil {
		r.section("Difference")
		r.printf("  %s\n", plainText(string(p.Diff)))
	} else if len(changes) > 0 {
		r.section("Difference")
		list(r, "  ", changes, func(entry jsontext.Value) string {
			var d difference
			json.Unmarshal(entry, &d) // one that says neither is of a kind of its own
			return d.Op + " " + placeKind(d.Path)
		}, func(entry jsontext.Value) { readable.Difference(r.Screen, "  ", entry) })
	}
	if len(p.Impact) > 0 {
		r.section("Impact")
		for name, value := range readable.Members(jsontext.Value(p.Impact)) {
			r.member("  ", "  ", name, value)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// plainText is what an AI wrote, as a terminal may show it to who decides by it.
func plainText(text string) string { return term.Plain(text) }
