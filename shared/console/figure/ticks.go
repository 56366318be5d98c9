package figure

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A scale is an axis that covers some values. Its ticks are the multiples of step from
// low to high, where step is 1, 2 or 5 times a power of ten. Multiples are whole numbers,
// so that a tick is exactly what its label says, however large or small; what a float64
// holds of it only decides where it is drawn.
type scale struct {
	low, high *big.Int // in steps
	digit     int64    // 1, 2 or 5
	power     int      // of ten
	least     float64  // a value that is there: places are counted from it
	offset    float64  // of least above low, in steps
	step      float64
	steps     float64 // high − low
}

// leastPower is the power of ten of the smallest step that a float64 still tells from 0.
const leastPower = -323

// newScale returns a scale for values from least to most, both finite and in order,
// with about so many steps.
func newScale(least, most float64, about int) scale {
	a, b := written(least), written(most)
	span := new(big.Rat).Sub(b, a)
	wide := new(big.Rat).Quo(span, big.NewRat(int64(about), 1))
	if span.Sign() == 0 { // as if the value were the middle of all up to its double
		wide.Quo(wide.Abs(a), big.NewRat(2, 1))
		if a.Sign() == 0 {
			wide.SetFrac64(1, 2)
		}
	}
	s := scale{least: least}
	s.digit, s.power = nice(wide)
	step := s.multiple(big.NewInt(1))
	s.low = floor(new(big.Rat).Quo(a, step))
	s.high = new(big.Int).Neg(floor(new(big.Rat).Quo(new(big.Rat).Neg(b), step)))
	if s.low.Cmp(s.high) == 0 { // all on one tick
		s.low.Sub(s.low, big.NewInt(1))
		s.high.Add(s.high, big.NewInt(1))
	}
	s.step, _ = step.Float64()
	s.offset, _ = new(big.Rat).Sub(new(big.Rat).Quo(a, step), new(big.Rat).SetInt(s.low)).Float64()
	s.steps = float64(new(big.Int).Sub(s.high, s.low).Int64())
	return s
}

// nice returns the smallest of 1, 2 and 5 times a power of ten that is no less than x,
// which is above 0.
func nice(x *big.Rat) (digit int64, power int) {
	f, _ := x.Float64()
	power = leastPower
	if f > 0 {
		power = max(power, int(math.Floor(math.Log10(f)))-1) // at most the right one: a logarithm may be off by a digit
	}
	for ; ; power++ {
		for _, digit := range []int64{1, 2, 5} {
			if (scale{digit: digit, power: power}).multiple(big.NewInt(1)).Cmp(x) >= 0 {
				return digit, power
			}
		}
	}
}

// written returns a value as people read it: 0.00005, and not the binary number beside it
// that stands for it, whose tick would be another.
func written(v float64) *big.Rat {
	out, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	if !ok {
		panic("figure: a scale of what is not finite")
	}
	return out
}

func floor(x *big.Rat) *big.Int {
	return new(big.Int).Div(x.Num(), x.Denom()) // Euclidean, and the denominator is above 0
}

// multiple returns n steps, exactly.
func (s scale) multiple(n *big.Int) *big.Rat {
	out := new(big.Rat).SetInt(new(big.Int).Mul(n, big.NewInt(s.digit)))
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(s.power, -s.power))), nil)
	if s.power < 0 {
		return out.Quo(out, new(big.Rat).SetInt(ten))
	}
	return out.Mul(out, new(big.Rat).SetInt(ten))
}

// at returns where a value stands: 0 is low, and 1 is high.
func (s scale) at(v float64) float64 {
	d := v - s.least
	steps := d / s.step
	if math.IsInf(d, 0) {
		steps = (v/2 - s.least/2) / (s.step / 2)
	}
	return min(max((s.offset+steps)/s.steps, 0), 1)
}

// A tick is a place on an axis, from 0 to 1, with the number that stands there.
type tick struct {
	at    float64
	label string
}

func (s scale) ticks() []tick {
	var out []tick
	for n := new(big.Int).Set(s.low); n.Cmp(s.high) <= 0; n.Add(n, big.NewInt(1)) {
		i := float64(new(big.Int).Sub(n, s.low).Int64())
		out = append(out, tick{i / s.steps, decimal(new(big.Int).Mul(n, big.NewInt(s.digit)), s.power)})
	}
	return out
}

// decimal writes n times a power of ten, all its digits and no more: as people write it
// where that is short, else with an exponent.
func decimal(n *big.Int, power int) string {
	digits := new(big.Int).Abs(n).String()
	if digits == "0" {
		return "0"
	}
	cut := strings.TrimRight(digits, "0")
	power += len(digits) - len(cut)
	digits = cut
	var out string
	switch first := len(digits) + power; { // digits before the point
	case power >= 0 && first <= 7:
		out = digits + strings.Repeat("0", power)
	case power < 0 && first > 0 && len(digits) <= 17:
		out = digits[:first] + "." + digits[first:]
	case first <= 0 && first > -5:
		out = "0." + strings.Repeat("0", -first) + digits
	default:
		out = digits[:1]
		if len(digits) > 1 {
			out += "." + digits[1:]
		}
		out += "e" + strconv.Itoa(first-1)
	}
	if n.Sign() < 0 {
		out = "-" + out
	}
	return out
}
