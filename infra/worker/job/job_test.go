package job_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

func sign(key ed25519.PrivateKey, text []byte) []byte {
	return ed25519.Sign(key, slices.Concat([]byte("pxhost job v1\n"), text))
}

// Whatever is signed, and however it is changed after that, is read or refused; what is
// read can be sent to a sandbox as one line.
func FuzzOpen(f *testing.F) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	_, text := sandboxtest.Spec(f, sandboxtest.Limits, sandboxtest.Function{Source: "def f():\n    return {}\n"})
	_, entry := sandboxtest.Entry(f, sandboxtest.Limits, sandboxtest.Main("    return {}"))
	for _, seed := range []string{string(text), string(entry), "", "{", "null", "[]", "{}\n{}", strings.Replace(string(text), `"v":1`, `"v":2`, 1),
		strings.Replace(string(text), `"calls":[`, `"calls":[null,`, 1), strings.Replace(string(text), "{", "{\n", 1), string(text) + "{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := job.Open(public, text, sign(private, text))
		if errors.Is(err, job.ErrSignature) && len(text) <= job.MaxSpecBytes {
			t.Fatal("its signature was refused")
		}
		if err == nil && (bytes.ContainsAny(text, "\r\n") || len(s.Nodes()) == 0 || s.V != job.Version || !json.Valid(text)) {
			t.Errorf("it was taken: %q", text)
		}
		if _, err := job.Open(public, append(slices.Clone(text), ' '), sign(private, text)); !errors.Is(err, job.ErrSignature) {
			t.Errorf("a changed text was read: %v", err)
		}
	})
}

func TestAResultThatIsTooLargeLosesItsLargestValues(t *testing.T) {
	value := func(n int) map[string]json.RawMessage {
		return map[string]json.RawMessage{"y": json.RawMessage(`"` + strings.Repeat("<", n) + `"`)}
	}
	r := job.Result{V: 1, JobRef: "job_0", Results: []job.Entry{
		{NodeKey: "a", Values: value(2 << 20)}, {NodeKey: "b", Values: value(4 << 20)}, {NodeKey: "c", Values: value(1 << 20)}}}
	text, err := r.Encode()
	if err != nil || len(text) > job.MaxResultBytes {
		t.Fatal(len(text), err)
	}
	var got job.Result
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	// b alone goes, since nothing grew by being escaped.
	if got.Results[0].Error != nil || got.Results[2].Error != nil || got.Results[1].Error == nil || got.Results[1].Error.Reason != job.OutputTooLarge {
		t.Errorf("%v %v %v", got.Results[0].Error, got.Results[1].Error, got.Results[2].Error)
	}
	if r.Results[1].Error != nil {
		t.Error("the result itself was changed")
	}
}

func TestAnEntryHasValuesOrAnError(t *testing.T) {
	for want, e := range map[string]job.Entry{
		`{"nodeKey":"a","values":{}}`:                                                             {NodeKey: "a"},
		`{"nodeKey":"a","error":{"reason":"timeout"}}`:                                            {NodeKey: "a", Error: &job.Error{Reason: job.Timeout}},
		`{"nodeKey":"a","error":{"reason":"exception","line":3,"exception":"ZeroDivisionError"}}`: {NodeKey: "a", Error: &job.Error{Reason: job.Exception, Line: 3, Exception: "ZeroDivisionError"}},
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
}
