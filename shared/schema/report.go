package schema

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
)

// MaxFindings is how many findings one answer lists. What is beyond is told by a
// last PX_LIMIT_EXCEEDED with the whole number, never dropped in silence.
const MaxFindings = 500

// A Report collects the findings about one value and knows where it stands.
type Report struct {
	found *findings
	at    *path
}

type findings struct {
	list   outcome.Findings
	number int
}

// Add reports a finding of the value itself.
func (r *Report) Add(code outcome.Code, params outcome.Params) {
	r.found.add(code, r.at, params)
}

// Invalid reports PX_SCHEMA_INVALID; params.rule is the rule that is broken.
func (r *Report) Invalid(rule string, params outcome.Params) {
	r.found.invalid(rule, r.at, params)
}

// ReadInto reads a value, or a part of one, that a Custom type was given as package
// schema reads a T. What is wrong stands where the Report does.
func ReadInto[T any](r *Report, text canon.Raw, into *T) {
	decodeText(text, shapeOf(reflect.TypeFor[T](), "", ""), reflect.ValueOf(into).Elem(), r.at, 0, r.found)
}

// In returns a Report for a member of the value.
func (r *Report) In(name string) *Report { return &Report{r.found, r.at.member(name)} }

// At returns a Report for an element of the value.
func (r *Report) At(index int) *Report { return &Report{r.found, r.at.element(index)} }

func (f *findings) add(code outcome.Code, at *path, params outcome.Params) {
	f.number++
	if f.number > MaxFindings {
		return
	}
	f.list.Add(code, at.String(), params)
}

func (f *findings) invalid(rule string, at *path, params outcome.Params) {
	if params == nil {
		params = outcome.Params{}
	}
	params["rule"] = rule
	f.add(outcome.SchemaInvalid, at, params)
}

// result returns the findings, bounded by MaxFindings.
func (f *findings) result() outcome.Findings {
	if f.number <= MaxFindings {
		return f.list
	}
	list := f.list[:MaxFindings-1]
	list.Add(outcome.LimitExceeded, "", outcome.Params{"limit": MaxFindings, "observed": f.number, "of": "diagnostics"})
	return list
}

// A path is a place in the request, kept as a chain and spelled out only when
// something is found there.
type path struct {
	up    *path
	name  string
	index int // when name is not used
	isKey bool
	root  string
}

func (p *path) member(name string) *path { return &path{up: p, name: name, isKey: true} }
func (p *path) element(index int) *path  { return &path{up: p, index: index} }
func (p *path) String() string           { return string(p.append(nil)) }
func (p *path) append(text []byte) []byte {
	if p == nil {
		return text
	}
	if p.up == nil && p.root != "" {
		return append(text, p.root...)
	}
	text = p.up.append(text)
	switch {
	case p.isKey:
		return append(append(text, '/'), Escape(p.name)...)
	case p.up != nil:
		return strconv.AppendInt(append(text, '/'), int64(p.index), 10)
	default:
		return text
	}
}

// Escape spells a name as a JSON Pointer token (RFC 6901).
func Escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
