//go:build linux

package probe

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/job"
)

// said is the entry of a canary that found these checks to hold.
func said(echo string, held ...string) job.Entry {
	text, _ := json.Marshal(held)
	token, _ := json.Marshal(echo)
	return job.Entry{Values: map[string]json.RawMessage{"echo": token, "held": text}}
}

var inside = []string{GVisor, Secret, Network, ROFS, Bare}

// covers: X5
func TestEachCheckOfTheCanaryIsNeeded(t *testing.T) {
	if err := judge("t", said("t", inside...)); err != nil {
		t.Fatal(err)
	}
	for _, check := range inside {
		others := slices.DeleteFunc(slices.Clone(inside), func(c string) bool { return c == check })
		var failed *Failure
		if err := judge("t", said("t", others...)); !errors.As(err, &failed) || failed.Check != check {
			t.Errorf("without %s: %v", check, err)
		}
	}
	for name, e := range map[string]job.Entry{
		"another token":        said("u", inside...),
		"no answer":            {},
		"an error":             {Error: &job.Error{Reason: job.Exception}},
		"an answer of no list": {Values: map[string]json.RawMessage{"echo": json.RawMessage(`"t"`), "held": json.RawMessage(`{}`)}},
	} {
		var failed *Failure
		if err := judge("t", e); !errors.As(err, &failed) || failed.Check != Answers {
			t.Errorf("%s: %v", name, err)
		}
	}
}
