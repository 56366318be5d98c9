// Package python is what the host knows of Python source: what may be asked about
// one, and what is answered. The reading itself is done by CPython, in a process of
// its own that executes nothing (functions/python_source, whose README.md says what
// it accepts and refuses).
//
// The package holds the answer to its own contract: it decodes strictly, and passes
// no text of a source on in a finding. It must not know how the reader is reached,
// nor what becomes of a Function or Flow.
package python

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/quantity"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// Kind says as what a source is to be read.
type Kind string

// The kinds: a module with one @px.function definition, and the declarative subset
// in which a Flow is written.
const (
	FunctionKind Kind = "function"
	FlowKind     Kind = "flow"
)

// Bounds of a request.
const (
	MaxSource = 256 << 10 // bytes of one source
	MaxItems  = 64        // sources of one request
)

// A Request asks about one source.
type Request struct {
	Kind   Kind   `json:"kind"`
	Source string `json:"source"`
	// Python is the minor that must read, such as "3.13", where a Project pins one;
	// another refuses with PX_SANDBOX_UNAVAILABLE. "" is the client's.
	Python string `json:"python,omitzero"`
}

// A Reader reads sources. An error says nothing about the source: the reader could
// not be asked, or answered what nobody can use. It wraps ErrUnavailable where there
// is no Python at all.
type Reader interface {
	Read(ctx context.Context, request Request) (Reply, error)
}

// ErrUnavailable says that there is no Python to read with. Asking again does not
// help until an operator has done something.
var ErrUnavailable = errors.New("python: no Python is available")

// Unavailable returns the diagnostic of a request that cannot be served because err
// says that there is no Python; ok is false for every other error.
func Unavailable(err error, path string) (d outcome.Diagnostic, ok bool) {
	if !errors.Is(err, ErrUnavailable) {
		return outcome.Diagnostic{}, false
	}
	return outcome.New(outcome.SandboxUnavailable, path, outcome.Params{"reason": "python_missing"}), true
}

// otherMinor is the reason of a reader that is not the Python that was asked for.
const otherMinor = "python_minor"

// correctSource is the suggestedAction of all that is wrong in a source.
const correctSource = "CORRECT_SOURCE"

// A Range is [start, end) in bytes of the source.
type Range [2]int

// In returns the part of the source that the range stands for.
func (r Range) In(source string) string { return source[r[0]:r[1]] }

// Place returns the line and the column at which the range begins in the source, both
// from 1, the column in code points.
func (r Range) Place(source string) (line, column int) {
	before := source[:r[0]]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// JSONSchema returns the JSON Schema of a range.
func (r *Range) JSONSchema() string {
	return `{"type":"array","items":{"type":"integer","minimum":0},"minItems":2,"maxItems":2}`
}

// ReadJSON reads two offsets, of which the first is not behind the second.
func (r *Range) ReadJSON(text canon.Raw, found *schema.Report) {
	var list []int
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 2 || list[0] < 0 || list[0] > list[1] {
		found.Invalid("range", nil)
		return
	}
	*r = Range(list)
}

// A Finding is one thing that is wrong with a source.
type Finding struct {
	Code   outcome.Code         `json:"code" schema:"enum=PX_SOURCE_INVALID|PX_LIMIT_EXCEEDED|PX_SANDBOX_UNAVAILABLE"`
	Reason string               `json:"reason" schema:"pattern=key"`
	Line   int                  `json:"line" schema:"minimum=1"`
	Column int                  `json:"column" schema:"minimum=1"` // in code points
	Start  int                  `json:"start" schema:"minimum=0"`
	End    int                  `json:"end" schema:"minimum=0"`
	Params map[string]canon.Raw `json:"params" schema:"keys=any"`
}

// A Function is what a source says of its Function.
type Function struct {
	FunctionKey string       `json:"functionKey" schema:"pattern=key"`
	Version     int64        `json:"version" schema:"minimum=1"`
	Description string       `json:"description" schema:"minLength=1,maxLength=2000,text=prose"`
	Label       target.Label `json:"label,omitzero"`
	// Symbol is the name of the definition in Python, and no key: nothing finds a
	// Function by it.
	Symbol string `json:"symbol" pattern:"^[A-Za-z_][A-Za-z0-9_]{0,199}$"`
	// Parameters are the inputs in the order in which the definition takes them.
	Parameters   []string                 `json:"parameters"`
	Inputs       map[string]quantity.Port `json:"inputs"`
	Results      map[string]quantity.Port `json:"results"`
	Capabilities []string                 `json:"capabilities"`
	Imports      []string                 `json:"imports"` // modules of Python by their first name, in order, px left out
	// Definition is the whole definition, from the @ of its decorator. Decorator and
	// Body are parts of it.
	Definition Range `json:"definition"`
	Decorator  Range `json:"decorator"`
	Body       Range `json:"body"`
	// Places tells where a port is declared, by JSON Pointer: /inputs/span.
	Places map[string]Range `json:"places" schema:"keys=any"`
}

// A Reply says what a source holds, or what is wrong with it.
type Reply struct {
	Python   string // minor of the Python that read it, such as "3.13"
	Findings []Finding
	// Function is there for a source of that kind of which nothing is wrong.
	Function *Function
	// Flow is there likewise: what package flow makes a document of.
	Flow canon.Raw

	contract outcome.Findings // of a source that reads well, paths from the root of the contract
	places   map[string]Range
	source   string
}

// Refused tells whether anything is wrong with the source.
func (r Reply) Refused() bool { return len(r.Findings) > 0 || r.contract.Refused() }

// Diagnostics returns everything that is wrong; path is where the source stands in
// the request. Params name the reason, line and column. For what is wrong with the
// contract alone they have contractPath, a JSON Pointer such as /inputs/span/unit.
func (r Reply) Diagnostics(path string) outcome.Findings {
	var out outcome.Findings
	for _, f := range r.Findings {
		params := outcome.Params{"reason": f.Reason, "line": f.Line, "column": f.Column}
		for name, value := range f.Params {
			params[name] = value
		}
		if f.Reason == otherMinor {
			out = append(out, outcome.PythonPinned(path, params))
			continue
		}
		out.Add(f.Code, path, params)
	}
	for _, d := range r.contract {
		at := d.Path
		d.Path, d.Params = path, maps.Clone(d.Params)
		d.Params["contractPath"] = at
		d.SuggestedAction = correctSource // a contract is corrected where it is written
		for pointer, place := range r.places {
			if at == pointer || strings.HasPrefix(at, pointer+"/") {
				d.Params["line"], d.Params["column"] = place.Place(r.source)
			}
		}
		out = append(out, d)
	}
	return out
}

// An Exchange takes a request's JSON to the reader and brings its answer back.
type Exchange func(ctx context.Context, request []byte) ([]byte, error)

// A Client is a Reader over an Exchange.
type Client struct {
	exchange Exchange
	minor    string
}

// New returns a Client. minor is the minor of Python that must read where a Request
// names none; "" is any.
func New(exchange Exchange, minor string) *Client { return &Client{exchange, minor} }

// Read reads one source.
func (c *Client) Read(ctx context.Context, request Request) (Reply, error) {
	replies, err := c.ReadAll(ctx, []Request{request})
	if err != nil {
		return Reply{}, err
	}
	return replies[0], nil
}

// ReadAll reads 1 to MaxItems sources in one exchange, and answers in their order.
func (c *Client) ReadAll(ctx context.Context, requests []Request) ([]Reply, error) {
	if len(requests) < 1 || len(requests) > MaxItems {
		return nil, fmt.Errorf("python: %d sources in one request, of 1 to %d", len(requests), MaxItems)
	}
	var ask struct {
		Version int       `json:"v"`
		Python  string    `json:"python,omitzero"`
		Items   []Request `json:"items"`
	}
	ask.Version, ask.Python = 1, c.minor
	out := make([]Reply, len(requests))
	var sent []int
	for i, r := range requests {
		// What is too large or no text is not sent: the answer is known.
		if refused, ok := unsendable(r.Source); !ok {
			out[i] = Reply{Findings: []Finding{refused}}
			continue
		}
		sent = append(sent, i)
		ask.Items = append(ask.Items, r)
	}
	if len(sent) == 0 {
		return out, nil
	}
	payload, err := json.Marshal(ask, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("python: request: %w", err)
	}
	answer, err := c.exchange(ctx, payload)
	if err != nil {
		return nil, err
	}
	replies, err := Decode(answer, ask.Items)
	if err != nil {
		return nil, err
	}
	for k, i := range sent {
		out[i] = replies[k]
	}
	return out, nil
}

func unsendable(source string) (Finding, bool) {
	f := Finding{Code: outcome.SourceInvalid, Line: 1, Column: 1, Params: map[string]canon.Raw{}}
	switch {
	case len(source) > MaxSource:
		f.Code, f.Reason = outcome.LimitExceeded, "source_bytes"
		f.Params = map[string]canon.Raw{"limit": number(MaxSource), "observed": number(len(source))}
	case !utf8.ValidString(source):
		f.Reason = "not_unicode"
	default:
		return f, true
	}
	return f, false
}

func number(n int) canon.Raw { return canon.Raw(strconv.Itoa(n)) }

type answer struct {
	Version int    `json:"v" schema:"minimum=1,maximum=1"`
	Python  string `json:"python" pattern:"^3\\.[0-9]{1,3}$"`
	Items   []item `json:"items"`
}

type item struct {
	Findings []Finding  `json:"findings" schema:"maxItems=101"`
	Function *Function  `json:"function"`
	Flow     *canon.Raw `json:"flow"`
}

// ErrReply says that the reader answered what its contract does not allow.
var ErrReply = errors.New("python: the reader's answer is none")

// Decode reads the answer to a request for these sources, strictly.
func Decode(text []byte, requests []Request) ([]Reply, error) {
	var a answer
	contract := make([]outcome.Findings, len(requests))
	for _, d := range schema.Decode(text, &a) {
		i, at, ok := ofContract(d.Path)
		if !ok || i >= len(requests) {
			return nil, fmt.Errorf("%w: %s at %s, rule %v", ErrReply, d.Code, d.Path, d.Params["rule"])
		}
		d.Path = at
		contract[i] = append(contract[i], d)
	}
	if len(a.Items) != len(requests) {
		return nil, fmt.Errorf("%w: %d items for %d sources", ErrReply, len(a.Items), len(requests))
	}
	out := make([]Reply, len(requests))
	for i, it := range a.Items {
		reply, err := it.reply(requests[i], contract[i])
		if err != nil {
			return nil, fmt.Errorf("%w: item %d: %s", ErrReply, i, err)
		}
		reply.Python = a.Python
		out[i] = reply
	}
	return out, nil
}

// ofContract tells paths of what an author wrote from those of what the reader must
// get right: the first are findings about the source, the others a broken answer.
func ofContract(path string) (i int, at string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/items/")
	if !ok {
		return 0, "", false
	}
	n, rest, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(n)
	at, ok = strings.CutPrefix(rest, "function")
	if err != nil || !ok {
		return 0, "", false
	}
	for _, member := range []string{"/description", "/label", "/inputs", "/results"} {
		if at == member || strings.HasPrefix(at, member+"/") {
			return i, at, true
		}
	}
	return 0, "", false
}

func (it item) reply(request Request, contract outcome.Findings) (Reply, error) {
	r := Reply{Findings: it.Findings, contract: contract, source: request.Source}
	for _, f := range it.Findings {
		if err := f.check(len(request.Source)); err != nil {
			return Reply{}, err
		}
	}
	found := map[Kind]bool{FunctionKind: it.Function != nil, FlowKind: it.Flow != nil}
	for kind, there := range found {
		if want := kind == request.Kind && len(it.Findings) == 0; there != want {
			return Reply{}, fmt.Errorf("%s there: %v, wanted: %v", kind, there, want)
		}
	}
	if it.Flow != nil {
		r.Flow = *it.Flow
	}
	if f := it.Function; f != nil {
		if err := f.check(len(request.Source)); err != nil {
			return Reply{}, err
		}
		r.places = f.Places
		for _, side := range []struct {
			name  string
			ports map[string]quantity.Port
		}{{"/inputs/", f.Inputs}, {"/results/", f.Results}} {
			for _, key := range slices.Sorted(maps.Keys(side.ports)) {
				if at := side.name + key; !slices.ContainsFunc(contract, func(d outcome.Diagnostic) bool { return strings.HasPrefix(d.Path+"/", at+"/") }) {
					r.contract = append(r.contract, side.ports[key].Check(at)...)
				}
			}
		}
		if !r.contract.Refused() {
			r.Function = f
		}
	}
	return r, nil
}

// sayable is what a text in a finding's params may be: a name or a key.
var sayable = regexp.MustCompile(`^[A-Za-z0-9_.]{1,80}$`)

func (f Finding) check(size int) error {
	if f.Start > f.End || f.End > size {
		return errors.New("a finding outside the source")
	}
	for name, value := range f.Params {
		if !sayable.MatchString(name) || slices.Contains([]string{"reason", "line", "column"}, name) {
			return errors.New("a finding with another param")
		}
		switch value.Kind() {
		case jsontext.KindNumber, jsontext.KindTrue, jsontext.KindFalse:
		case jsontext.KindString:
			if text := string(value[1 : len(value)-1]); !sayable.MatchString(text) {
				return errors.New("a finding with text that is no name")
			}
		default:
			return errors.New("a finding with another kind of param")
		}
	}
	return nil
}

func (f Function) check(size int) error {
	if want := slices.Sorted(maps.Keys(f.Inputs)); !slices.Equal(want, slices.Sorted(slices.Values(f.Parameters))) {
		return errors.New("parameters that are not the inputs")
	}
	if len(f.Results) == 0 {
		return errors.New("no results")
	}
	within := func(r, outer Range) bool { return outer[0] <= r[0] && r[0] < r[1] && r[1] <= outer[1] }
	all := Range{0, size}
	if !within(f.Definition, all) || !within(f.Decorator, f.Definition) || !within(f.Body, f.Definition) || f.Decorator[1] > f.Body[0] {
		return errors.New("ranges that do not lie in each other")
	}
	for _, place := range f.Places {
		if !within(place, f.Decorator) {
			return errors.New("a place outside the decorator")
		}
	}
	return nil
}
