package component

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// precise calculates with 300 bits, by plain series.
const precise = 300

func wide(x float64) *big.Float { return new(big.Float).SetPrec(precise).SetFloat64(x) }

func bigExp(x *big.Float) *big.Float {
	// e^x = (e^(x/2^24))^(2^24)
	small := new(big.Float).SetMantExp(x, -24)
	sum, term := wide(1), wide(1)
	for n := 1; n < 40; n++ {
		term.Mul(term, small).Quo(term, wide(float64(n)))
		sum.Add(sum, term)
	}
	for range 24 {
		sum.Mul(sum, sum)
	}
	return sum
}

func bigLog(x *big.Float) *big.Float {
	start, _ := x.Float64()
	y := wide(math.Log(start))
	for range 4 { // Newton
		e := bigExp(y)
		step := new(big.Float).SetPrec(precise).Quo(new(big.Float).SetPrec(precise).Sub(x, e), e)
		y.Add(y, step)
	}
	return y
}

func bigSinCos(x *big.Float) (sine, cosine *big.Float) {
	sine, cosine = wide(0), wide(0)
	term := wide(1)
	for n := 0; n < 200; n++ {
		if n > 0 {
			term.Mul(term, x).Quo(term, wide(float64(n)))
		}
		part := new(big.Float).SetPrec(precise).Set(term)
		if n%4 >= 2 {
			part.Neg(part)
		}
		if n%2 == 0 {
			cosine.Add(cosine, part)
		} else {
			sine.Add(sine, part)
		}
	}
	return sine, cosine
}

// bigAtan inverts tan by Newton from the machine's value.
func bigAtan(x *big.Float) *big.Float {
	start, _ := x.Float64()
	y := wide(math.Atan(start))
	for range 4 {
		s, c := bigSinCos(y)
		// f = sin - x cos, f' = cos + x sin
		f := new(big.Float).SetPrec(precise).Sub(s, new(big.Float).SetPrec(precise).Mul(x, c))
		d := new(big.Float).SetPrec(precise).Add(c, new(big.Float).SetPrec(precise).Mul(x, s))
		y.Sub(y, f.Quo(f, d))
	}
	return y
}

func nearest(x *big.Float) float64 {
	f, _ := x.Float64()
	return f
}

func TestFunctionsGiveTheNearestNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	between := func(low, high float64) float64 { return low + (high-low)*r.Float64() }
	div := func(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precise).Quo(a, b) }
	root := func(a *big.Float) *big.Float { return new(big.Float).SetPrec(precise).Sqrt(a) }
	beside := func(x float64) *big.Float {
		return root(new(big.Float).SetPrec(precise).Sub(wide(1), new(big.Float).SetPrec(precise).Mul(wide(x), wide(x))))
	}
	for _, c := range []struct {
		name string
		draw func() float64
		ours func(x float64) float64
		real func(x float64) *big.Float
	}{
		{"exp", func() float64 { return between(-700, 709) }, exp, func(x float64) *big.Float { return bigExp(wide(x)) }},
		{"exp near zero", func() float64 { return between(-1e-3, 1e-3) }, exp, func(x float64) *big.Float { return bigExp(wide(x)) }},
		{"log", func() float64 { return math.Exp(between(-700, 700)) }, log, func(x float64) *big.Float { return bigLog(wide(x)) }},
		{"log near one", func() float64 { return between(0.99, 1.01) }, log, func(x float64) *big.Float { return bigLog(wide(x)) }},
		{"log10", func() float64 { return math.Exp(between(-700, 700)) }, log10, func(x float64) *big.Float { return div(bigLog(wide(x)), bigLog(wide(10))) }},
		{"sin", func() float64 { return between(-20, 20) }, sin, func(x float64) *big.Float { s, _ := bigSinCos(wide(x)); return s }},
		{"cos", func() float64 { return between(-20, 20) }, cos, func(x float64) *big.Float { _, c := bigSinCos(wide(x)); return c }},
		{"tan", func() float64 { return between(-20, 20) }, tan, func(x float64) *big.Float { s, c := bigSinCos(wide(x)); return div(s, c) }},
		{"atan", func() float64 { return between(-30, 30) }, atan, func(x float64) *big.Float { return bigAtan(wide(x)) }},
		{"asin", func() float64 { return between(-1, 1) }, asin, func(x float64) *big.Float { return bigAtan(div(wide(x), beside(x))) }},
		{"acos", func() float64 { return between(0.01, 1) }, acos, func(x float64) *big.Float { return bigAtan(div(beside(x), wide(x))) }},
		{"cube root", func() float64 { return between(0, 1e6) }, func(x float64) float64 { return pow(x, 1.0/3) }, func(x float64) *big.Float {
			return bigExp(new(big.Float).SetPrec(precise).Mul(wide(1.0/3), bigLog(wide(x))))
		}},
		{"x^x", func() float64 { return between(0.01, 140) }, func(x float64) float64 { return pow(x, x) }, func(x float64) *big.Float {
			return bigExp(new(big.Float).SetPrec(precise).Mul(wide(x), bigLog(wide(x))))
		}},
		{"x^7", func() float64 { return between(-100, 100) }, func(x float64) float64 { return powInt(x, 7) }, func(x float64) *big.Float {
			p := wide(1)
			for range 7 {
				p.Mul(p, wide(x))
			}
			return p
		}},
		{"x^-64", func() float64 { return between(0.1, 100) }, func(x float64) float64 { return powInt(x, -64) }, func(x float64) *big.Float {
			p := wide(1)
			for range 64 {
				p.Mul(p, wide(x))
			}
			return div(wide(1), p)
		}},
	} {
		for range 150 {
			x := c.draw()
			if got, want := c.ours(x), nearest(c.real(x)); got != want {
				t.Errorf("%s(%v) is %v, nearest is %v", c.name, x, got, want)
				break
			}
		}
	}
}

func TestFunctionsStayCloseToTheMachinesOwnEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5_000 {
		x := math.Float64frombits(r.Uint64())
		if math.IsNaN(x) || math.IsInf(x, 0) || math.Abs(x) < 0x1p-1022 {
			continue // math.Log of a subnormal is off by 0.4 on x86_64
		}
		y := math.Float64frombits(r.Uint64())
		for name, c := range map[string][2]float64{
			"exp": {exp(x), math.Exp(x)}, "log": {log(math.Abs(x)), math.Log(math.Abs(x))}, "sin": {sin(x), math.Sin(x)}, "cos": {cos(x), math.Cos(x)}, "atan": {atan(x), math.Atan(x)}, "log10": {log10(math.Abs(x)), math.Log10(math.Abs(x))},
			"atan2": {atan2(x, y), math.Atan2(x, y)}, "powInt": {powInt(x, 3), x * x * x},
		} {
			// Package math loses the sign of an angle whose quotient underflows.
			if name == "atan2" && (math.IsNaN(y) || math.IsInf(y, 0) || x/y == 0) {
				continue
			}
			a, b := c[0], c[1]
			// Nor does it reduce large angles to the last bit.
			if a != b && math.Abs(a-b) > 1e-14*math.Abs(b)+1e-320 && !((name == "sin" || name == "cos") && math.Abs(a-b) < 1e-15) {
				t.Fatalf("%s(%v, %v) is %v, math has %v", name, x, y, a, b)
			}
		}
	}
}

func TestFunctionsAreExactWhereTheyCanBe(t *testing.T) {
	for name, c := range map[string][2]float64{
		"log10(1000)": {log10(1000), 3}, "log10(1e-5)": {log10(1e-5), -5}, "2^0.5": {pow(4, 0.5), 2}, "(-8)^3": {pow(-8, 3), -512}, "27^(1/3)": {pow(27, 1.0/3), 3}, "1e3^2": {powInt(1e3, 2), 1e6},
		"exp(0)": {exp(0), 1}, "log(1)": {log(1), 0}, "cos(0)": {cos(0), 1}, "acos(1)": {acos(1), 0}, "acos(-1)": {acos(-1), math.Pi}, "asin(1)": {asin(1), math.Pi / 2}, "atan2(0,-1)": {atan2(0, -1), math.Pi}, "atan2(-1,0)": {atan2(-1, 0), -math.Pi / 2},
		"0^2.5": {pow(0, 2.5), 0}, "10^-3": {powInt(10, -3), 1e-3}, "sin(pi)": {sin(math.Pi), 1.2246467991473532e-16}, "exp(-800)": {exp(-800), 0}, "sin(1e22)": {sin(1e22), -0.8522008497671888}, "cos(-1.678873027922779e+118)": {cos(-1.678873027922779e+118), -0.0034973663611616735},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %v", name, c[0])
		}
	}
	for name, x := range map[string]float64{"exp(800)": exp(800), "10^400": pow(10, 400), "1e200^2": powInt(1e200, 2)} {
		if !math.IsInf(x, 1) {
			t.Errorf("%s is %v", name, x)
		}
	}
	if !math.IsInf(powInt(-1e200, 3), -1) {
		t.Error("(-1e200)^3 is not negative")
	}
}

// The digest is of the bits that x86_64 gives; any other machine has to give them
// too. It changes only when a function is made to give other bits on purpose.
func TestFunctionsGiveTheSameBitsOnEveryMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := sha256.New()
	for range 2_000 {
		x, y := float64(40*r.Float64())-20, float64(2*r.Float64())-1
		for _, v := range []float64{exp(x), log(math.Abs(x)), log10(math.Abs(x)), sin(x), cos(x), tan(x), atan(x), asin(y), acos(y), atan2(y, x), pow(math.Abs(x), y), powInt(x, 5), sin(float64(1e9 * x))} {
			binary.Write(h, binary.BigEndian, math.Float64bits(v))
		}
	}
	const want = "bbea86f164b8261825901591043ecea97aabf8b9f4b179d2e75af30cd1e85b4b"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest %s", got)
	}
}

func BenchmarkFunctions(b *testing.B) {
	for name, f := range map[string]func(float64) float64{"exp": exp, "log": log, "sin": sin, "atan": atan} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(1.2345)
			}
		})
	}
}
