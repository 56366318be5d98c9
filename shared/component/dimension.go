package component

import (
	"fmt"
	"strings"

	"github.com/pxhost/pxhost/shared/quantity"
)

// fraction is a small rational in lowest terms, den > 0.
type fraction struct{ num, den int }

// maxExponent bounds numerator and denominator of an exponent that is kept.
const maxExponent = 64

func newFraction(num, den int) fraction {
	if den < 0 {
		num, den = -num, -den
	}
	a, b := max(num, -num), den
	for b != 0 {
		a, b = b, a%b
	}
	if a == 0 {
		return fraction{0, 1}
	}
	return fraction{num / a, den / a}
}

func (f fraction) inRange() bool {
	return f.num <= maxExponent && f.num >= -maxExponent && f.den <= maxExponent
}

func (f fraction) whole() bool { return f.den == 1 }

// dimension is the power of each SI base quantity in an expression. Roots make
// it fractional.
type dimension [len(quantity.Dimension{})]fraction

var baseUnits = [len(dimension{})]string{"m", "kg", "s", "K", "A", "mol"}

func dimensionOf(u quantity.Unit) dimension {
	var d dimension
	for i, power := range u.Dimension() {
		d[i] = fraction{int(power), 1}
	}
	return d
}

var noDimension = dimensionOf(quantity.One)

// plus returns the dimension of a product with other^sign.
func (d dimension) plus(other dimension, sign int) (dimension, bool) {
	ok := true
	for i, o := range other {
		d[i] = newFraction(d[i].num*o.den+sign*o.num*d[i].den, d[i].den*o.den)
		ok = ok && d[i].inRange()
	}
	return d, ok
}

// times returns the dimension of a power.
func (d dimension) times(f fraction) (dimension, bool) {
	ok := true
	for i := range d {
		d[i] = newFraction(d[i].num*f.num, d[i].den*f.den)
		ok = ok && d[i].inRange()
	}
	return d, ok
}

// String returns the coherent SI unit, "1" for none.
func (d dimension) String() string {
	var parts []string
	for i, f := range d {
		switch {
		case f.num == 0:
		case f == fraction{1, 1}:
			parts = append(parts, baseUnits[i])
		case f.whole():
			parts = append(parts, fmt.Sprintf("%s^%d", baseUnits[i], f.num))
		default:
			parts = append(parts, fmt.Sprintf("%s^(%d/%d)", baseUnits[i], f.num, f.den))
		}
	}
	if parts == nil {
		return "1"
	}
	return strings.Join(parts, "*")
}
