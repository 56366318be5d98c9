// Package policytest holds what a kind of document says about the paths that commands
// write to what its commands do write.
package policytest

import (
	"testing"

	"github.com/pxhost/pxhost/shared/policy"
)

// Written fails unless each path that commands wrote meets one of those that are said to
// be written, and each of these was written itself.
func Written(t *testing.T, said []string, wrote ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, path := range wrote {
		met := false
		for _, s := range said {
			met = met || policy.Covers(s, path, true)
			seen[s] = seen[s] || policy.Covers(s, path, false)
		}
		if !met {
			t.Errorf("%q is written, and is not said to be", path)
		}
	}
	for _, s := range said {
		if !seen[s] {
			t.Errorf("%s is said to be written, and nothing writes it", s)
		}
	}
}
