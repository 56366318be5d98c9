package quantity

import "math/big"

// Compare tells, exactly, whether a is less than (-1), equal to (0) or more than
// (+1) b, whatever their units: 1 in and 25.4 mm are equal. The units must be
// Convertible and the magnitudes finite.
func Compare(a, b Number) int { return compare(a, b, false) }

// CompareMagnitude is Compare without regard to signs. A temperature with a zero of
// its own has no magnitude in this sense: such units are not to be given.
func CompareMagnitude(a, b Number) int { return compare(a, b, true) }

func compare(a, b Number, abs bool) int {
	x, y := a.Magnitude, b.Magnitude
	if abs {
		x, y = max(x, -x), max(y, -y)
	}
	if a.Unit.Same(b.Unit) { // a factor is positive, so that numbers compare as they are
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return a.Unit.exactSI(x).Cmp(b.Unit.exactSI(y))
}

// exactSI is x in coherent SI, exact but for pi, which is taken to 256 bits.
func (u Unit) exactSI(x float64) *big.Rat {
	exact := new(big.Rat).SetFloat64(x)
	if u.p == nil || u.p == dimensionless {
		return exact
	}
	exact.Mul(exact, u.p.si.ratio)
	if u.p.si.shift != nil {
		exact.Add(exact, u.p.si.shift)
	}
	return exact
}
