package quantity

import (
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
)

// A flexural rigidity in N*mm^2 is beyond 1e17, where the shortest spelling of a
// number is not its exact value.
func TestWhatEncodeWritesOfALargeNumberIsReadBack(t *testing.T) {
	p := Port{Type: NumberType, Unit: "N*mm^2"}
	for _, x := range []float64{1.2345678901234568e20, 2.1234567890123457e17, -9.999999999999999e20, 1 << 53, 1e21, 123456789e300} {
		text, err := p.Encode(Number{x, MustParseUnit("N*mm^2")})
		if err != nil {
			t.Fatal(err)
		}
		v, found := p.Decode(text, "")
		if len(found) > 0 || v.(Number).Magnitude != x {
			t.Errorf("%g: %s: %v %v", x, text, v, found)
		}
	}
	for _, text := range []string{"9007199254740993", "123456789012345680001", "-9007199254740995"} {
		if _, found := p.Decode(canon.Raw(`{"value":`+text+`,"unit":"N*mm^2"}`), ""); !found.Refused() {
			t.Errorf("%s is rounded", text)
		}
	}
}
