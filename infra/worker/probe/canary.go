package probe

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"

	"github.com/pxhost/pxhost/infra/worker/job"
)

//go:embed canary.py
var canarySource string

const (
	textPort = `{"type":"string","shape":"scalar"}`
	listPort = `{"type":"list","of":{"type":"string"}}`
)

// canary is a job like any other: the way to a Function and back is looked at too.
func canary(token, secret string, addresses []string, abstract string) (job.Spec, []byte, error) {
	sum := sha256.Sum256([]byte(canarySource))
	ref := "sha256:" + hex.EncodeToString(sum[:])
	call := job.Call{NodeKey: "canary", FunctionKey: "canary", Version: 1, Digest: ref, Source: ref, Symbol: "f",
		Parameters: []string{"token", "secret", "addresses", "abstract"},
		Inputs: map[string]json.RawMessage{"token": json.RawMessage(textPort), "secret": json.RawMessage(textPort),
			"addresses": json.RawMessage(listPort), "abstract": json.RawMessage(textPort)},
		Results: map[string]json.RawMessage{"echo": json.RawMessage(textPort), "held": json.RawMessage(listPort)},
		Values:  map[string]json.RawMessage{}}
	for key, value := range map[string]any{"token": token, "secret": secret, "addresses": addresses, "abstract": abstract} {
		text, err := json.Marshal(value)
		if err != nil {
			return job.Spec{}, nil, err
		}
		call.Values[key] = text
	}
	spec := job.Spec{V: job.Version, JobRef: "job_00000000000000000000000000", Project: "px/probe", Kind: "functions",
		Sources: map[string]string{ref: canarySource}, Calls: []job.Call{call},
		Limits: job.Limits{WallMilliseconds: 10_000, CPUSeconds: 10, MemoryBytes: 256 << 20, OutputBytes: 64 << 10, Processes: 16}}
	text, err := json.Marshal(spec)
	return spec, text, err
}
