// Package job is what the worker and the broker say to each other about one job: its
// spec, its result, and the signature without which a worker runs nothing. The host's
// side of the same protocol is package shared/sandbox of the module around this one;
// the two are held together by what they send.
package job

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Version is the version of specs and results that this worker knows.
const Version = 1

// Limits of what travels, in bytes.
const (
	MaxSpecBytes   = 5 << 20
	MaxResultBytes = 5 << 20
)

// ErrSignature says that a spec was not signed by the installation's key.
var ErrSignature = errors.New("job: the signature is not of this spec")

// The kinds of jobs.
const (
	Functions  = "functions"  // calls of Functions of a Flow's stage
	Entrypoint = "entrypoint" // one call of a file of a plugin's package
)

// EntryNode is whose entry the result of an entrypoint has.
const EntryNode = "entrypoint"

// A Spec is a job. Members that only the shim reads stay raw.
type Spec struct {
	V      int    `json:"v"`
	JobRef string `json:"jobRef"`
	Kind   string `json:"kind"`
	Python string `json:"python"` // a pinned minor, or ""
	Limits Limits `json:"limits"`

	// Of functions.
	Project string            `json:"project,omitempty"`
	Sources map[string]string `json:"sources,omitempty"`
	Calls   []Call            `json:"calls,omitempty"`
	// Follows is the job of the same Run before this one, and Leads says that another
	// may follow: jobs of a Run may share a sandbox, as the calls of one job do.
	Follows string `json:"follows,omitempty"`
	Leads   bool   `json:"leads,omitempty"`

	// Of an entrypoint, whose sandbox is for nothing else.
	Entry *Main `json:"entry,omitempty"`
}

// A Main is a call of main(input) in one file of a plugin's package.
type Main struct {
	Workspace string            `json:"workspaceKey"`
	Instance  string            `json:"instanceId"`
	Execution string            `json:"executionId"`
	Package   string            `json:"package"`
	Path      string            `json:"path"`
	Files     map[string]string `json:"files"` // all of the package, by path
	Input     json.RawMessage   `json:"input"`
}

// Nodes are whose entries a result has, in order.
func (s Spec) Nodes() []string {
	if s.Entry != nil {
		return []string{EntryNode}
	}
	nodes := make([]string, len(s.Calls))
	for i, c := range s.Calls {
		nodes[i] = c.NodeKey
	}
	return nodes
}

// A Call is one call of a Function, for one Node.
type Call struct {
	NodeKey     string                     `json:"nodeKey"`
	FunctionKey string                     `json:"functionKey"`
	Version     int64                      `json:"version"`
	Digest      string                     `json:"digest"`
	Source      string                     `json:"source"`
	Symbol      string                     `json:"symbol"`
	Parameters  []string                   `json:"parameters"`
	Inputs      map[string]json.RawMessage `json:"inputs"`
	Results     map[string]json.RawMessage `json:"results"`
	Values      map[string]json.RawMessage `json:"values"`
}

// Limits bound a job as a whole.
type Limits struct {
	WallMilliseconds int64 `json:"wallMilliseconds"`
	CPUSeconds       int64 `json:"cpuSeconds"`
	MemoryBytes      int64 `json:"memoryBytes"`
	OutputBytes      int64 `json:"outputBytes"`
	Processes        int64 `json:"processes"`
}

// Wall is the limit on time.
func (l Limits) Wall() time.Duration { return time.Duration(l.WallMilliseconds) * time.Millisecond }

// A Result is the answer of a job: one entry a call, in order.
type Result struct {
	V       int     `json:"v"`
	JobRef  string  `json:"jobRef"`
	Results []Entry `json:"results"`
	RanBy   RanBy   `json:"ranBy"`
}

// An Entry is what came of one call: values or an error.
type Entry struct {
	NodeKey string                     `json:"nodeKey"`
	Values  map[string]json.RawMessage `json:"values,omitempty"`
	Error   *Error                     `json:"error,omitempty"`
}

// MarshalJSON writes the values of a Function without results as an empty object:
// an entry has one of the two.
func (e Entry) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if e.Error != nil {
		err := encoder.Encode(struct {
			NodeKey string `json:"nodeKey"`
			Error   *Error `json:"error"`
		}{e.NodeKey, e.Error})
		return text.Bytes(), err
	}
	values := e.Values
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	err := encoder.Encode(struct {
		NodeKey string                     `json:"nodeKey"`
		Values  map[string]json.RawMessage `json:"values"`
	}{e.NodeKey, values})
	return text.Bytes(), err
}

// An Error says why a call gave no values: a name, the line of the Function's source,
// the class of an exception. Never its message, which could hold a value.
type Error struct {
	Reason    Reason `json:"reason"`
	Line      int64  `json:"line,omitempty"`
	Exception string `json:"exception,omitempty"`
}

// A Reason names what went wrong in one call.
type Reason string

// The reasons. What the shim says is one of them too; see Known.
const (
	Exception      Reason = "exception"        // the Function raised one
	SourceInvalid  Reason = "source_invalid"   // it does not compile
	SymbolMissing  Reason = "symbol_missing"   // it defines no such name
	ImportRefused  Reason = "import_refused"   // an import that is not in the list
	ResultMissing  Reason = "result_missing"   // a port of the contract
	ResultExtra    Reason = "result_extra"     // a port that the contract has not
	ResultType     Reason = "result_type"      // a value of another type, or no plain value
	ResultShape    Reason = "result_shape"     // other dimensions, fields or columns
	ResultNull     Reason = "result_null"      // null where the contract allows none
	ResultRange    Reason = "result_range"     // an integer that JSON cannot keep
	ResultCyclic   Reason = "result_cyclic"    // a value inside itself
	NotFinite      Reason = "not_finite"       // NaN, an infinity, or a number that overflows
	OutputTooLarge Reason = "output_too_large" // over outputBytes
	Timeout        Reason = "timeout"          // over wallMilliseconds or cpuSeconds
	Memory         Reason = "memory"           // over memoryBytes
	Exited         Reason = "exited"           // the process ended itself without an answer
	Killed         Reason = "killed"           // a signal ended it, or the sandbox with it
	TooMany        Reason = "processes"        // over the processes of any sandbox
	ResultDepth    Reason = "result_depth"     // nested too deep; of an entrypoint
)

var reasons = []Reason{Exception, SourceInvalid, SymbolMissing, ImportRefused, ResultMissing, ResultExtra, ResultType, ResultShape,
	ResultNull, ResultRange, ResultCyclic, NotFinite, OutputTooLarge, Timeout, Memory, Exited, Killed, TooMany, ResultDepth}

// Known reports whether a reason is one of the list.
func (r Reason) Known() bool { return slices.Contains(reasons, r) }

// RanBy says what ran a job.
type RanBy struct {
	Python string `json:"python"`
	GVisor string `json:"gvisor"`
	Driver string `json:"driver"`
}

// Open checks the signature of a spec before it looks at anything in it, then reads
// it. An error that wraps ErrSignature means that nothing was read.
func Open(key ed25519.PublicKey, text, signature []byte) (Spec, error) {
	if len(key) != ed25519.PublicKeySize || len(text) > MaxSpecBytes ||
		!ed25519.Verify(key, slices.Concat([]byte("pxhost job v1\n"), text), signature) {
		return Spec{}, ErrSignature
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var s Spec
	if err := decoder.Decode(&s); err != nil {
		return Spec{}, fmt.Errorf("job: spec: %w", err)
	}
	if !json.Valid(text) {
		return Spec{}, errors.New("job: spec: something follows it")
	}
	return s, s.check(text)
}

func (s Spec) check(text []byte) error {
	// One line is what a sandbox reads. Canonical JSON has no line break.
	if bytes.ContainsAny(text, "\n\r") {
		return errors.New("job: spec: it is not one line")
	}
	if s.V != Version {
		return fmt.Errorf("job: spec: version %d is not known", s.V)
	}
	switch {
	case s.Kind != Functions && s.Kind != Entrypoint:
		return fmt.Errorf("job: spec: the kind %.40q is not known", s.Kind)
	case (s.Kind == Functions) != (s.Entry == nil):
		return errors.New("job: spec: it is not of its kind")
	case s.Entry != nil:
		if err := s.entry(); err != nil {
			return err
		}
	case len(s.Calls) == 0:
		return errors.New("job: spec: it has no call")
	}
	for i, c := range s.Calls {
		if _, there := s.Sources[c.Source]; !there {
			return fmt.Errorf("job: spec: call %d is of a source that is not there", i)
		}
		for _, p := range c.Parameters {
			if c.Inputs[p] == nil || c.Values[p] == nil {
				return fmt.Errorf("job: spec: call %d lacks the contract or the value of a parameter", i)
			}
		}
	}
	l := s.Limits
	if l.WallMilliseconds < 1 || l.CPUSeconds < 1 || l.MemoryBytes < 1 || l.OutputBytes < 1 || l.Processes < 1 {
		return errors.New("job: spec: every limit is at least 1")
	}
	return nil
}

// entry holds what the members of an entrypoint must be to each other.
func (s Spec) entry() error {
	switch _, there := s.Entry.Files[s.Entry.Path]; {
	case s.Sources != nil || s.Calls != nil || s.Project != "" || s.Leads || s.Follows != "":
		return errors.New("job: spec: an entrypoint and calls of Functions have nothing in common")
	case !there:
		return errors.New("job: spec: the file that is called is not there")
	case !bytes.HasPrefix(bytes.TrimLeft(s.Entry.Input, " \t"), []byte("{")):
		return errors.New("job: spec: the input is no object")
	}
	return nil
}

// Encode writes a result that can travel. Where it is too large, the largest entries
// become output_too_large until it is not.
func (r Result) Encode() ([]byte, error) {
	r.Results = slices.Clone(r.Results)
	for {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false) // it would make what fits too large
		if err := encoder.Encode(r); err != nil || text.Len() <= MaxResultBytes {
			return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
		}
		largest, most := -1, 0
		for i, e := range r.Results {
			size := 0
			for _, v := range e.Values {
				size += len(v)
			}
			if size > most {
				largest, most = i, size
			}
		}
		if largest < 0 {
			return nil, fmt.Errorf("job: a result of %d bytes without a value", text.Len())
		}
		r.Results[largest] = Entry{NodeKey: r.Results[largest].NodeKey, Error: &Error{Reason: OutputTooLarge}}
	}
}
