// Package sandboxtest holds what any driver must do with honest and with hostile
// Functions. Each driver's test runs it with real sandboxes.
package sandboxtest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/job"
)

// A Function is a call for a test: its source, the contracts and values of its
// parameters, in order, and of its results, as JSON.
type Function struct {
	Source     string
	Parameters []Parameter
	Results    map[string]string
}

// A Parameter is a port with its value.
type Parameter struct{ Key, Contract, Value string }

// Limits are enough for any honest test.
var Limits = job.Limits{WallMilliseconds: 20_000, CPUSeconds: 20, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Processes: 32}

// Number is the contract of a plain number.
const Number = `{"type":"number","unit":"1","shape":"scalar"}`

// Row makes Spec's job the one of a number in a Run of many, and its text that.
func Row(t testing.TB, s job.Spec, number int) (job.Spec, []byte) {
	t.Helper()
	ref := func(n int) string { return fmt.Sprintf("job_%026d", n) }
	s.JobRef, s.Leads = ref(number), true
	if number > 1 {
		s.Follows = ref(number - 1)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, text
}

// Spec makes the spec of a job that calls functions, and its text.
func Spec(t testing.TB, limits job.Limits, functions ...Function) (job.Spec, []byte) {
	t.Helper()
	s := job.Spec{V: job.Version, JobRef: "job_00000000000000000000000000", Project: "ws/proj", Kind: "functions", Sources: map[string]string{}, Limits: limits}
	for i, f := range functions {
		ref := fmt.Sprintf("sha256:%064x", i)
		s.Sources[ref] = f.Source
		c := job.Call{NodeKey: fmt.Sprintf("node_%d", i), FunctionKey: "f", Version: 1, Digest: ref, Source: ref, Symbol: "f", Parameters: []string{},
			Inputs: map[string]json.RawMessage{}, Results: map[string]json.RawMessage{}, Values: map[string]json.RawMessage{}}
		for _, p := range f.Parameters {
			c.Parameters = append(c.Parameters, p.Key)
			c.Inputs[p.Key], c.Values[p.Key] = json.RawMessage(p.Contract), json.RawMessage(p.Value)
		}
		for key, contract := range f.Results {
			c.Results[key] = json.RawMessage(contract)
		}
		s.Calls = append(s.Calls, c)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, text
}

// A Package is a package of a plugin for a test: its files by path, of which one is
// called with an input.
type Package struct {
	Files map[string]string
	Path  string // "" is src/analyze.py
	Input string // "" is {}
}

// Main is a package of one file, whose main has a body.
func Main(body string) Package {
	return Package{Files: map[string]string{"src/analyze.py": "def main(input):\n" + body + "\n"}}
}

// Entry makes the spec of a job that calls it, and its text.
func Entry(t testing.TB, limits job.Limits, p Package) (job.Spec, []byte) {
	t.Helper()
	if p.Path == "" {
		p.Path = "src/analyze.py"
	}
	if p.Input == "" {
		p.Input = "{}"
	}
	s := job.Spec{V: job.Version, JobRef: "job_00000000000000000000000000", Kind: job.Entrypoint, Limits: limits, Entry: &job.Main{
		Workspace: "ws", Instance: "inst_00000000000000000000000000", Execution: "exec_00000000000000000000000000", Package: fmt.Sprintf("sha256:%064x", 0),
		Path: p.Path, Files: p.Files, Input: json.RawMessage(p.Input)}}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, text
}
