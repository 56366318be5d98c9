package quantity

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// line is the map y = x*ratio + shift, exact but for pi, which is taken to 256
// bits. Apply rounds once.
type line struct {
	ratio    *big.Rat
	shift    *big.Rat // nil when zero
	identity bool
	// num/den is ratio where both fit 64 bits and there is no shift.
	num, den uint64
}

// newLine returns the map from values in a to values in b, which have one
// dimension: SI = (x + offset) * factor on both sides.
func newLine(a, b *parsed) line {
	l := line{ratio: new(big.Rat).Quo(a.factor.rat, b.factor.rat)}
	for range a.factor.pi - b.factor.pi {
		l.ratio.Mul(l.ratio, piRat)
	}
	for range b.factor.pi - a.factor.pi {
		l.ratio.Quo(l.ratio, piRat)
	}
	shift := new(big.Rat)
	if a.offset != nil {
		shift.Mul(a.offset, l.ratio)
	}
	if b.offset != nil {
		shift.Sub(shift, b.offset)
	}
	if shift.Sign() != 0 {
		l.shift = shift
	}
	if l.shift == nil && l.ratio.Num().IsUint64() && l.ratio.Denom().IsUint64() {
		l.num, l.den = l.ratio.Num().Uint64(), l.ratio.Denom().Uint64()
		l.identity = l.num == 1 && l.den == 1
	}
	return l
}

// apply returns the float64 nearest to the exact result, ties to even. A result
// beyond binary64 is an infinity; a NaN or infinite x is returned unchanged.
func (l *line) apply(x float64) float64 {
	if l.identity || math.IsNaN(x) || math.IsInf(x, 0) || (x == 0 && l.shift == nil) {
		return x
	}
	if l.den != 0 {
		if y, ok := scale(x, l.num, l.den); ok {
			return y
		}
	}
	exact := new(big.Rat).SetFloat64(x)
	exact.Mul(exact, l.ratio)
	if l.shift != nil {
		exact.Add(exact, l.shift)
	}
	y, _ := exact.Float64()
	return y
}

// scale returns x*num/den rounded once, by integer division with a sticky
// remainder. ok is false where the result may be subnormal or overflow; then the
// caller takes the slow exact way.
func scale(x float64, num, den uint64) (y float64, ok bool) {
	fraction, exponent := math.Frexp(math.Abs(x)) // fraction in [0.5, 1)
	m := uint64(fraction*(1<<53)) << 11           // 64 bits, the top one set; 11 zeros below
	ns, ds := bits.LeadingZeros64(num), bits.LeadingZeros64(den)
	hi, lo := bits.Mul64(m, num<<ns)
	// At least 11 low bits are zero, so shifting by two loses nothing and makes
	// hi < 2^62 <= d.
	hi, lo = hi>>2, lo>>2|hi<<62
	q, r := bits.Div64(hi, lo, den<<ds)
	// x*num/den = q * 2^e exactly, but for the remainder. q has 60 to 64 bits.
	e := exponent - 64 + 2 - ns + ds
	drop := bits.Len64(q) - 53
	half := uint64(1) << (drop - 1)
	rest := q & (half<<1 - 1)
	q >>= drop
	if rest > half || rest == half && (r != 0 || q&1 == 1) {
		q++
	}
	if e += drop; e < -1074+2 || e > 1023-54 {
		return 0, false
	}
	y = math.Ldexp(float64(q), e)
	return math.Copysign(y, x), true
}

// piRat is pi to 256 bits, by Machin's formula.
var piRat = machin(256)

func machin(precision uint) *big.Rat {
	one := new(big.Int).Lsh(big.NewInt(1), precision+32)
	arctanInverse := func(n int64) *big.Int { // arctan(1/n) * one
		term := new(big.Int).Quo(one, big.NewInt(n))
		sum := new(big.Int).Set(term)
		square := big.NewInt(n * n)
		for k := int64(1); term.Sign() != 0; k++ {
			term.Quo(term, square)
			part := new(big.Int).Quo(term, big.NewInt(2*k+1))
			if k%2 == 1 {
				sum.Sub(sum, part)
			} else {
				sum.Add(sum, part)
			}
		}
		return sum
	}
	pi := new(big.Int).Mul(big.NewInt(16), arctanInverse(5))
	pi.Sub(pi, new(big.Int).Mul(big.NewInt(4), arctanInverse(239)))
	return new(big.Rat).SetFrac(pi, one)
}

// ToSI returns x, a magnitude in u, in coherent SI (K for temperatures).
func (u Unit) ToSI(x float64) float64 {
	if u.p == nil || u.p == dimensionless {
		return x
	}
	return u.p.si.apply(x)
}

// FromSI returns x, a magnitude in coherent SI, in u. The result is infinite
// where u cannot hold it.
func (u Unit) FromSI(x float64) float64 {
	if u.p == nil || u.p == dimensionless {
		return x
	}
	return u.p.fromSI.apply(x)
}

// Convert tells x, a magnitude in u, in v. It rounds the exact result once, so
// the error is at most half an ulp; the result is infinite where binary64 cannot
// hold it. The units must be Convertible, or Convert panics.
func (u Unit) Convert(x float64, v Unit) float64 {
	a, b := u.get(), v.get()
	if a == b {
		return x
	}
	return between(a, b).apply(x)
}

// lines keeps the maps between pairs of units, which tables ask for once a cell.
var lines = struct {
	sync.RWMutex
	known map[[2]*parsed]*line
}{known: map[[2]*parsed]*line{}}

const maxCachedLines = 4096

func between(a, b *parsed) *line {
	pair := [2]*parsed{a, b}
	lines.RLock()
	l := lines.known[pair]
	lines.RUnlock()
	if l != nil {
		return l
	}
	if !(Unit{a}).Convertible(Unit{b}) {
		panic("quantity: convert between units that do not fit")
	}
	made := newLine(a, b)
	lines.Lock()
	defer lines.Unlock()
	if len(lines.known) >= maxCachedLines {
		clear(lines.known)
	}
	lines.known[pair] = &made
	return &made
}
