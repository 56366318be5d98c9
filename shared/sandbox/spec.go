package sandbox

import (
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
	"github.com/pxhost/pxhost/shared/target"
)

// Version is the version of Spec, Result and the broker's protocol.
const Version = 1

// The kinds of jobs.
const (
	Functions  = "functions"  // calls of Functions of a Flow's stage
	Entrypoint = "entrypoint" // one call of a file of a plugin's package
)

// Limits of what travels. Spec and result go through Lambda, whose payloads end at
// 6 MB. The spec travels as a JSON string, since its very bytes are signed, and
// MaxSpecBytes is of that string.
const (
	MaxSpecBytes   = 5 << 20
	MaxResultBytes = 5 << 20
	MaxCalls       = 2000
)

// EntryNode is whose entry the result of an entrypoint has, where calls of Functions
// have their Nodes.
const EntryNode = "entrypoint"

// A Spec is everything that a job needs: the worker asks for nothing else. It is an
// immutable object of whose code it is, and its canonical bytes are signed.
type Spec struct {
	V      int    `json:"v" schema:"minimum=1,maximum=1"`
	JobRef string `json:"jobRef" pattern:"^job_[0-9A-HJKMNP-TV-Z]{26}$"`
	Kind   string `json:"kind" schema:"enum=functions|entrypoint"`
	// Python is the minor version that the Project pins, as "3.11"; "" is any.
	Python string `json:"python" pattern:"^(3\\.[0-9]{1,3})?$"`
	Limits Limits `json:"limits"`

	Project string            `json:"project,omitzero" kinds:"functions!" pattern:"^[a-z][a-z0-9_]{0,63}/[a-z][a-z0-9_]{0,63}$"` // workspace/project
	Sources map[string]string `json:"sources,omitzero" kinds:"functions!" schema:"keys=any"`                                     // by their digest
	Calls   []Call            `json:"calls,omitzero" kinds:"functions!" schema:"minItems=1,maxItems=2000"`
	// Follows is the job of the same Run before this one, and Leads says that another one
	// may follow. A worker may let jobs of a Run share a sandbox, in which every call has a
	// process of its own all the same, as the calls of one job do; never those of two Runs.
	Follows string `json:"follows,omitzero" kinds:"functions" pattern:"^job_[0-9A-HJKMNP-TV-Z]{26}$"`
	Leads   bool   `json:"leads,omitzero" kinds:"functions"`

	// Entry has a sandbox of its own: nothing follows it, and it follows nothing.
	Entry *Entry `json:"entry,omitzero" kinds:"entrypoint!"`
}

// A Plugin is whose code a job is that is of no Project: an instance of a plugin, for
// one execution of a capability of it.
type Plugin struct {
	WorkspaceKey string `json:"workspaceKey" schema:"pattern=key"`
	InstanceID   string `json:"instanceId" pattern:"^inst_[0-9A-HJKMNP-TV-Z]{26}$"`
	ExecutionID  string `json:"executionId" pattern:"^exec_[0-9A-HJKMNP-TV-Z]{26}$"`
}

// An Entry is a call of main(input) in one file of a plugin's package. What it returns
// are the members of the one entry of the result.
type Entry struct {
	Plugin
	Package string            `json:"package" pattern:"^sha256:[0-9a-f]{64}$"` // its digest
	Path    string            `json:"path" schema:"minLength=1,maxLength=200"` // of Files, as src/analyze.py
	Files   map[string]string `json:"files" schema:"keys=any,minItems=1"`      // all of the package, by path
	Input   canon.Raw         `json:"input"`                                   // an object
}

// A Call is one call of one Function, for one Node.
type Call struct {
	NodeKey     string               `json:"nodeKey" schema:"pattern=key"`
	FunctionKey string               `json:"functionKey" schema:"pattern=key"`
	Version     int64                `json:"version" schema:"minimum=1"`
	Digest      string               `json:"digest" pattern:"^sha256:[0-9a-f]{64}$"` // of the Function's document
	Source      string               `json:"source" pattern:"^sha256:[0-9a-f]{64}$"` // a name in Sources
	Symbol      string               `json:"symbol" schema:"minLength=1,maxLength=200"`
	Parameters  []string             `json:"parameters" schema:"each.pattern=key"` // in the order of the definition
	Inputs      map[string]canon.Raw `json:"inputs"`                               // the contract of each parameter
	Results     map[string]canon.Raw `json:"results"`                              // and of each result
	// Values are plain JSON in the declared unit: number, boolean, string, list, a
	// table as a list of rows, a record as an object, null.
	Values map[string]canon.Raw `json:"values"`
}

// Limits bound a job as a whole, each call in it included.
type Limits struct {
	WallMilliseconds int64 `json:"wallMilliseconds" schema:"minimum=1,maximum=900000"`
	CPUSeconds       int64 `json:"cpuSeconds" schema:"minimum=1,maximum=900"`
	MemoryBytes      int64 `json:"memoryBytes" schema:"minimum=1"`
	OutputBytes      int64 `json:"outputBytes" schema:"minimum=1,maximum=5242880"`
	Processes        int64 `json:"processes" schema:"minimum=1,maximum=1024"`
}

// JobRef is the reference of the job of a Project for a subject, which is what the
// job is for: a runRef and a stage. Asking twice finds the same job.
func JobRef(project target.Project, subject string) string {
	return canon.Ref("job_", project.String(), subject)
}

// EntryRef is the reference of the job of an execution of a plugin: whoever asks for
// it, and however often, means the same.
func EntryRef(executionID string) string {
	return canon.Ref("job_", "execution", executionID)
}

// A LimitError says that a spec or result is too large to travel.
type LimitError struct {
	Limit, Observed int // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("sandbox: %d bytes are more than %d", e.Observed, e.Limit)
}

// ErrMalformed is wrapped by the errors of texts that are not what they should be.
// They name places and rules and quote nothing.
var ErrMalformed error = malformedError{}

type malformedError struct{}

func (malformedError) Error() string { return "sandbox: malformed" }

// ErrorType tells who invoked a function with such a text that it would be refused
// again: a worker then does not offer it until its lease is over, and a state machine
// does not retry.
func (malformedError) ErrorType() string { return "px.Fatal" }

// Encode returns the canonical text of a spec that DecodeSpec accepts, or a
// *LimitError, or what is wrong with it.
func (s Spec) Encode() ([]byte, error) {
	text, err := canon.Encode(s)
	if err != nil {
		return nil, err
	}
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return nil, err
	}
	if len(quoted) > MaxSpecBytes {
		return nil, &LimitError{MaxSpecBytes, len(quoted)}
	}
	_, err = DecodeSpec(text)
	return text, err
}

// DecodeSpec reads a spec strictly.
func DecodeSpec(text []byte) (Spec, error) {
	if len(text) > MaxSpecBytes {
		return Spec{}, &LimitError{MaxSpecBytes, len(text)}
	}
	var s Spec
	if err := malformed("spec", schema.Decode(text, &s)); err != nil {
		return Spec{}, err
	}
	return s, s.check()
}

// Nodes are whose entries a result of the job has, in their order.
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

// fileName is the name of a file of a package.
var fileName = regexp.MustCompile(`^src/[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\.py$`)

func (e Entry) check(jobRef string) error {
	if _, there := e.Files[e.Path]; !there {
		return fmt.Errorf("%w: spec: the file that is called is not there", ErrMalformed)
	}
	for name := range e.Files {
		if len(name) > 200 || !fileName.MatchString(name) {
			return fmt.Errorf("%w: spec: a file has no name of one", ErrMalformed)
		}
	}
	if e.Input.Kind() != '{' {
		return fmt.Errorf("%w: spec: the input is no object", ErrMalformed)
	}
	if jobRef != EntryRef(e.ExecutionID) {
		return fmt.Errorf("%w: spec: the job is not the one of its execution", ErrMalformed)
	}
	return nil
}

// check holds what the fields must be to each other.
func (s Spec) check() error {
	if s.Entry != nil {
		return s.Entry.check(s.JobRef)
	}
	used, nodes := map[string]bool{}, map[string]bool{}
	for i, c := range s.Calls {
		switch {
		case nodes[c.NodeKey]:
			return fmt.Errorf("%w: spec: call %d is of a node that was called before", ErrMalformed, i)
		case s.Sources[c.Source] == "":
			return fmt.Errorf("%w: spec: call %d is of a source that is not there", ErrMalformed, i)
		case len(c.Parameters) != len(c.Inputs) || len(c.Parameters) != len(c.Values):
			return fmt.Errorf("%w: spec: call %d has not one contract and one value for each parameter", ErrMalformed, i)
		}
		seen := map[string]bool{}
		for _, p := range c.Parameters {
			if c.Inputs[p] == nil || c.Values[p] == nil || seen[p] {
				return fmt.Errorf("%w: spec: call %d has not one contract and one value for each parameter", ErrMalformed, i)
			}
			seen[p] = true
		}
		used[c.Source], nodes[c.NodeKey] = true, true
	}
	for ref, text := range s.Sources {
		if canon.Digest([]byte(text)) != ref {
			return fmt.Errorf("%w: spec: a source is not the one of its digest", ErrMalformed)
		}
		if !used[ref] {
			return fmt.Errorf("%w: spec: a source is not called", ErrMalformed)
		}
	}
	return nil
}

// malformed turns findings into an error that names the first.
func malformed(what string, found outcome.Findings) error {
	for _, d := range found {
		if d.Severity == outcome.Error {
			return fmt.Errorf("%w: %s: %q: %s %v", ErrMalformed, what, d.Path, d.Code, d.Params["rule"])
		}
	}
	return nil
}
