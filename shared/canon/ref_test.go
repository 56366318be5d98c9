package canon_test

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
)

// The references that are stored must stay what they are.
func TestARefFollowsFromItsParts(t *testing.T) {
	if got, want := canon.Ref("run_", "command", "sha256:00"), "run_1BFMXRK332WNJGYP10QYC3J4YY"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	form := regexp.MustCompile(`^x_[0-9A-HJKMNP-TV-Z]{26}$`)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-c|]{0,3}`), 0, 4)
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		same := len(a) == len(b)
		for i := range a {
			same = same && a[i] == b[i]
		}
		one, two := canon.Ref("x_", a...), canon.Ref("x_", b...)
		if !form.MatchString(one) || (one == two) != same {
			t.Fatalf("%q gives %s, %q gives %s", a, one, b, two)
		}
	})
}
