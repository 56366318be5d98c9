package component

import (
	"math"
	"math/big"
	"sync"

	"github.com/pxhost/pxhost/shared/quantity"
)

// The functions that IEEE 754 leaves open differ in their last bits between
// machines: Go has assembler for some, and may fuse a product with a sum in the
// rest. Here they are calculated in pairs of binary64 (about 105 bits) by series,
// from operations that every machine does alike, so that a Run gives the same
// result on a laptop and on Lambda, x86_64 or arm64. The pair is rounded once:
// the result is the nearest binary64 but for cases too close to a tie for 105
// bits. A product is fused only where math.FMA says so.

func isFinite(v quantity.Value) bool {
	n, ok := v.(quantity.Number)
	return !ok || !math.IsInf(n.Magnitude, 0) && !math.IsNaN(n.Magnitude)
}

// pair is the unevaluated sum hi + lo, where hi is the sum rounded.
type pair struct{ hi, lo float64 }

// twoSum returns a + b exactly.
func twoSum(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

// renormalize is twoSum for |a| >= |b|.
func renormalize(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

// twoProduct returns a * b exactly, short of underflow.
func twoProduct(a, b float64) pair {
	p := float64(a * b)
	return pair{p, math.FMA(a, b, -p)}
}

func (a pair) plus(b pair) pair {
	s, t := twoSum(a.hi, b.hi), twoSum(a.lo, b.lo)
	s = renormalize(s.hi, s.lo+t.hi)
	return renormalize(s.hi, s.lo+t.lo)
}

func (a pair) negated() pair { return pair{-a.hi, -a.lo} }

func (a pair) times(b pair) pair {
	p := twoProduct(a.hi, b.hi)
	return renormalize(p.hi, math.FMA(a.hi, b.lo, math.FMA(a.lo, b.hi, p.lo)))
}

func (a pair) over(b pair) pair {
	q := a.hi / b.hi
	r := a.plus(b.times(pair{q, 0}).negated())
	q2 := r.hi / b.hi
	r = r.plus(b.times(pair{q2, 0}).negated())
	s := renormalize(q, q2)
	return s.plus(pair{r.hi / b.hi, 0})
}

func (a pair) root() pair {
	if a.hi <= 0 {
		return pair{}
	}
	s := math.Sqrt(a.hi)
	r := a.plus(twoProduct(s, s).negated())
	return renormalize(s, r.hi/(2*s))
}

// polynomial returns the sum of coefficients[i] * x^i.
func polynomial(x pair, coefficients []pair) pair {
	s := coefficients[len(coefficients)-1]
	for i := len(coefficients) - 2; i >= 0; i-- {
		s = s.times(x).plus(coefficients[i])
	}
	return s
}

// The constants and coefficients are calculated, exactly and then rounded,
// instead of being written down.
var (
	// halfPi in three parts, for reducing arguments.
	halfPi    = parts(new(big.Rat).Mul(piTo(320), big.NewRat(1, 2)))
	halfPiTwo = pair{halfPi[0], halfPi[1]}
	twoOverPi = 1 / halfPi[0]
	ln2       = twoParts(ln2To(320))

	expSeries  = series(28, func(n int64) *big.Rat { return reciprocal(factorial(n)) })
	sinSeries  = series(15, func(n int64) *big.Rat { return alternating(n, reciprocal(factorial(2*n+1))) })
	cosSeries  = series(15, func(n int64) *big.Rat { return alternating(n, reciprocal(factorial(2*n))) })
	logSeries  = series(24, func(n int64) *big.Rat { return big.NewRat(2, 2*n+1) })
	atanSeries = series(18, func(n int64) *big.Rat { return alternating(n, big.NewRat(1, 2*n+1)) })

	ln10 = logOf(10)
)

func series(n int, term func(int64) *big.Rat) []pair {
	out := make([]pair, n)
	for i := range out {
		out[i] = twoParts(term(int64(i)))
	}
	return out
}

func factorial(n int64) *big.Int { return new(big.Int).MulRange(1, n) }

func reciprocal(n *big.Int) *big.Rat { return new(big.Rat).SetFrac(big.NewInt(1), n) }

func alternating(n int64, r *big.Rat) *big.Rat {
	if n%2 == 1 {
		r.Neg(r)
	}
	return r
}

// parts splits a rational into three numbers of falling size.
func parts(r *big.Rat) (out [3]float64) {
	rest := new(big.Rat).Set(r)
	for i := range out {
		out[i], _ = rest.Float64()
		rest.Sub(rest, new(big.Rat).SetFloat64(out[i]))
	}
	return out
}

func twoParts(r *big.Rat) pair {
	p := parts(r)
	return pair{p[0], p[1]}
}

// piTo returns pi to so many bits: 16 arctan(1/5) - 4 arctan(1/239).
func piTo(bits uint) *big.Rat {
	unit := new(big.Int).Lsh(big.NewInt(1), bits+32)
	arctan := func(n int64) *big.Int {
		power := new(big.Int).Quo(unit, big.NewInt(n))
		sum, square := new(big.Int).Set(power), big.NewInt(n*n)
		for k := int64(1); power.Sign() != 0; k++ {
			power.Quo(power, square)
			term := new(big.Int).Quo(power, big.NewInt(2*k+1))
			if k%2 == 1 {
				term.Neg(term)
			}
			sum.Add(sum, term)
		}
		return sum
	}
	a, b := arctan(5), arctan(239)
	a.Mul(a, big.NewInt(16)).Sub(a, b.Mul(b, big.NewInt(4)))
	return new(big.Rat).SetFrac(a, unit)
}

// ln2To returns the natural logarithm of 2 to so many bits: the sum of 1/(k 2^k).
func ln2To(bits uint) *big.Rat {
	unit := new(big.Int).Lsh(big.NewInt(1), bits+32)
	sum := new(big.Int)
	for k := int64(1); ; k++ {
		term := new(big.Int).Rsh(unit, uint(k))
		if term.Sign() == 0 {
			return new(big.Rat).SetFrac(sum, unit)
		}
		sum.Add(sum, term.Quo(term, big.NewInt(k)))
	}
}

// Beyond these exponents exp is infinite, or zero.
const (
	expInfinite = 709.79
	expZero     = -745.14
)

// expOf returns e^x rounded. x.hi is between expZero and expInfinite.
func expOf(x pair) float64 {
	k := math.Round(x.hi / ln2.hi)
	r := x.plus(ln2.times(pair{k, 0}).negated())
	return math.Ldexp(polynomial(r, expSeries).hi, int(k))
}

func exp(x float64) float64 {
	switch {
	case x > expInfinite:
		return math.Inf(1)
	case x < expZero:
		return 0
	}
	return expOf(pair{x, 0})
}

// logOf returns the natural logarithm of x > 0, by 2 artanh((m-1)/(m+1)).
func logOf(x float64) pair {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	s := pair{m - 1, 0}.over(twoSum(m, 1))
	return s.times(polynomial(s.times(s), logSeries)).plus(ln2.times(pair{float64(e), 0}))
}

func log(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return logOf(x).hi
}

func log10(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return logOf(x).over(ln10).hi
}

// pow returns x^y. A negative x needs a whole y; zero needs a y >= 0.
func pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x == 0:
		return 0
	case x < 0 && y != math.Trunc(y):
		return math.NaN()
	}
	l := logOf(math.Abs(x))
	sign := 1.0
	if x < 0 && math.Mod(y, 2) != 0 {
		sign = -1
	}
	switch rough := y * l.hi; {
	case rough > expInfinite:
		return sign * math.Inf(1)
	case rough < expZero:
		return 0
	}
	return sign * expOf(l.times(pair{y, 0}))
}

// powInt returns x^n for |n| <= maxExponent by squaring, exact before the one
// rounding wherever 105 bits hold it.
func powInt(x float64, n int) float64 {
	if n == 0 {
		return 1
	}
	k := max(n, -n)
	top := 0
	for k>>(top+1) != 0 {
		top++
	}
	r := pair{x, 0}
	for bit := top - 1; bit >= 0; bit-- {
		r = r.times(r)
		if k>>bit&1 == 1 {
			r = r.times(pair{x, 0})
		}
		if math.IsInf(r.hi, 0) || math.IsNaN(r.lo) {
			// No power before the last exceeds it, so this is the result's size.
			r = pair{math.Inf(1), 0}
			if x < 0 && k%2 == 1 {
				r.hi = math.Inf(-1)
			}
			break
		}
	}
	switch {
	case n > 0:
		return r.hi
	case math.IsInf(r.hi, 0) || r.hi == 0:
		return 1 / r.hi
	}
	return pair{1, 0}.over(r).hi
}

// reduce returns x less a multiple of pi/2, within ±pi/4 and a little, and the
// multiple modulo 4.
func reduce(x float64) (pair, int) {
	const near = 1 << 20 // up to which three parts of pi/2 suffice
	switch a := math.Abs(x); {
	case a < 0.785:
		return pair{x, 0}, 0
	case a < near:
		k := math.Round(x * twoOverPi)
		p, q := twoProduct(k, halfPi[0]), twoProduct(k, halfPi[1])
		r := twoSum(x, -p.hi).plus(pair{-p.lo, 0}).plus(q.negated()).plus(pair{-k * halfPi[2], 0})
		return r, int(int64(k) & 3)
	}
	half := hugeHalfPi()
	exact := new(big.Float).SetPrec(hugePrecision).SetFloat64(x)
	turns := new(big.Float).SetPrec(hugePrecision).Quo(exact, half)
	k, _ := turns.Add(turns, big.NewFloat(math.Copysign(0.5, x))).Int(nil)
	exact.Sub(exact, half.Mul(new(big.Float).Copy(half), new(big.Float).SetPrec(hugePrecision).SetInt(k)))
	hi, _ := exact.Float64()
	lo, _ := exact.Sub(exact, big.NewFloat(hi)).Float64()
	return pair{hi, lo}, int(new(big.Int).And(k, big.NewInt(3)).Int64())
}

// hugePrecision holds 1024 bits before the point and enough behind it.
const hugePrecision = 1400

var hugePi = sync.OnceValue(func() *big.Float {
	return new(big.Float).SetPrec(hugePrecision).SetRat(new(big.Rat).Mul(piTo(hugePrecision), big.NewRat(1, 2)))
})

func hugeHalfPi() *big.Float { return new(big.Float).Copy(hugePi()) }

func sinOf(r pair) pair { return r.times(polynomial(r.times(r), sinSeries)) }
func cosOf(r pair) pair { return polynomial(r.times(r), cosSeries) }

// turned returns sine and cosine of x.
func turned(x float64) (sine, cosine pair) {
	r, quadrant := reduce(x)
	s, c := sinOf(r), cosOf(r)
	switch quadrant {
	case 1:
		return c, s.negated()
	case 2:
		return s.negated(), c.negated()
	case 3:
		return c.negated(), s
	}
	return s, c
}

// tiny is below what changes an odd function's argument.
const tiny = 1.0 / (1 << 28)

func sin(x float64) float64 {
	if math.Abs(x) < tiny {
		return x
	}
	s, _ := turned(x)
	return s.hi
}

func cos(x float64) float64 {
	_, c := turned(x)
	return c.hi
}

func tan(x float64) float64 {
	if math.Abs(x) < tiny {
		return x
	}
	s, c := turned(x)
	return s.over(c).hi
}

// arctan returns the angle of (x, y), neither of which is negative.
func arctan(y, x pair) pair {
	steep := y.hi > x.hi
	if steep {
		y, x = x, y
	}
	z := y.over(x)
	one := pair{1, 0}
	// tan(a/2) = z / (1 + sqrt(1 + z^2)): three times brings z below 0.1.
	for range 3 {
		z = z.over(one.plus(one.plus(z.times(z)).root()))
	}
	a := z.times(polynomial(z.times(z), atanSeries))
	a = pair{8 * a.hi, 8 * a.lo}
	if steep {
		return halfPiTwo.plus(a.negated())
	}
	return a
}

// angle returns the angle of (x, y) in (-pi, pi].
func angle(y, x pair) float64 {
	a := arctan(pair{math.Abs(y.hi), y.lo * math.Copysign(1, y.hi)}, pair{math.Abs(x.hi), x.lo * math.Copysign(1, x.hi)})
	if x.hi < 0 {
		a = pair{2 * halfPiTwo.hi, 2 * halfPiTwo.lo}.plus(a.negated())
	}
	return math.Copysign(a.hi, y.hi)
}

// atan2 returns the angle of (x, y). Not both are zero.
func atan2(y, x float64) float64 {
	// One scale for both, so that nothing overflows on the way.
	_, e := math.Frexp(max(math.Abs(x), math.Abs(y)))
	return angle(pair{math.Ldexp(y, -e), 0}, pair{math.Ldexp(x, -e), 0})
}

func atan(x float64) float64 {
	if math.Abs(x) < tiny {
		return x
	}
	return atan2(x, 1)
}

// beside returns sqrt(1 - x^2).
func beside(x float64) pair { return twoSum(1, -x).times(twoSum(1, x)).root() }

func asin(x float64) float64 {
	switch {
	case math.Abs(x) > 1:
		return math.NaN()
	case math.Abs(x) < tiny:
		return x
	}
	return angle(pair{x, 0}, beside(x))
}

func acos(x float64) float64 {
	if math.Abs(x) > 1 {
		return math.NaN()
	}
	return angle(beside(x), pair{x, 0})
}
