package quantity

import (
	"math/big"
	"strings"
)

// A symbol is one unit name. Its factor is the exact size in coherent SI.
type symbol struct {
	name     string
	dim      Dimension
	factor   string // a rational as big.Rat reads it
	pi       int    // times pi to this power
	offset   string // affine only: SI = (x + offset) * factor
	delta    bool   // a difference of temperatures
	prefixes bool   // takes SI prefixes
}

var (
	length      = Dimension{1}
	area        = Dimension{2}
	volume      = Dimension{3}
	mass        = Dimension{0, 1}
	duration    = Dimension{0, 0, 1}
	temperature = Dimension{0, 0, 0, 1}
	current     = Dimension{0, 0, 0, 0, 1}
	amount      = Dimension{0, 0, 0, 0, 0, 1}
	force       = Dimension{1, 1, -2}
	lineLoad    = Dimension{0, 1, -2}
	pressure    = Dimension{-1, 1, -2}
	energy      = Dimension{2, 1, -2}
	power       = Dimension{2, 1, -3}
	frequency   = Dimension{0, 0, -1}
	voltage     = Dimension{2, 1, -3, 0, -1}
	one         = Dimension{}
)

// The pound is 0.45359237 kg and standard gravity 9.80665 m/s^2, both by
// definition, so that 1 lbf is 4.4482216152605 N exactly.
const (
	lbf     = "4.4482216152605"
	kip     = "4448.2216152605"
	psiPa   = "4.4482216152605/0.00064516"
	ksiPa   = "4448.2216152605/0.00064516"
	psfPa   = "4.4482216152605/0.09290304"
	ksfPa   = "4448.2216152605/0.09290304"
	plfNm   = "4.4482216152605/0.3048"
	klfNm   = "4448.2216152605/0.3048"
	slugKg  = "4.4482216152605/0.3048"
	fiveOf9 = "5/9"
)

var symbols = []symbol{
	{name: "m", dim: length, factor: "1", prefixes: true},
	{name: "in", dim: length, factor: "0.0254"},
	{name: "ft", dim: length, factor: "0.3048"},
	{name: "yd", dim: length, factor: "0.9144"},
	{name: "mi", dim: length, factor: "1609.344"},
	{name: "ha", dim: area, factor: "10000"},
	{name: "L", dim: volume, factor: "0.001"},
	{name: "mL", dim: volume, factor: "0.000001"},

	{name: "g", dim: mass, factor: "0.001", prefixes: true},
	{name: "t", dim: mass, factor: "1000"},
	{name: "lb", dim: mass, factor: "0.45359237"},
	{name: "slug", dim: mass, factor: slugKg},

	{name: "s", dim: duration, factor: "1", prefixes: true},
	{name: "min", dim: duration, factor: "60"},
	{name: "h", dim: duration, factor: "3600"},
	{name: "d", dim: duration, factor: "86400"},
	{name: "Hz", dim: frequency, factor: "1", prefixes: true},

	{name: "K", dim: temperature, factor: "1", prefixes: true},
	{name: "degC", dim: temperature, factor: "1", offset: "273.15"},
	{name: "degF", dim: temperature, factor: fiveOf9, offset: "459.67"},
	{name: "delta_degC", dim: temperature, factor: "1", delta: true},
	{name: "delta_degF", dim: temperature, factor: fiveOf9, delta: true},

	{name: "A", dim: current, factor: "1", prefixes: true},
	{name: "V", dim: voltage, factor: "1", prefixes: true},
	{name: "mol", dim: amount, factor: "1", prefixes: true},

	{name: "N", dim: force, factor: "1", prefixes: true},
	{name: "lbf", dim: force, factor: lbf},
	{name: "kip", dim: force, factor: kip},
	{name: "kgf", dim: force, factor: "9.80665"},
	{name: "tf", dim: force, factor: "9806.65"},
	{name: "plf", dim: lineLoad, factor: plfNm},
	{name: "klf", dim: lineLoad, factor: klfNm},

	{name: "Pa", dim: pressure, factor: "1", prefixes: true},
	{name: "bar", dim: pressure, factor: "100000"},
	{name: "psi", dim: pressure, factor: psiPa},
	{name: "ksi", dim: pressure, factor: ksiPa},
	{name: "psf", dim: pressure, factor: psfPa},
	{name: "ksf", dim: pressure, factor: ksfPa},

	{name: "J", dim: energy, factor: "1", prefixes: true},
	{name: "W", dim: power, factor: "1", prefixes: true},

	{name: "rad", dim: one, factor: "1", prefixes: true},
	{name: "deg", dim: one, factor: "1/180", pi: 1},
}

// ambiguous holds names that mean different things to different engineers, with
// the names to use in their place. They are refused, never guessed.
var ambiguous = map[string]string{
	"ton": "t, tf or kip", "tons": "t, tf or kip", "tonf": "tf or kip", "lbs": "lb or lbf", "pound": "lb or lbf", "pounds": "lb or lbf",
	"pcf": "lb/ft^3 or lbf/ft^3", "cal": "J", "oz": "lb or lbf", "gal": "L", "hp": "W", "C": "degC or delta_degC", "F": "degF or delta_degF",
	"degree": "deg or delta_degC", "degrees": "deg or delta_degC",
}

// otherNames holds spellings that are no unit here, with the one that is.
var otherNames = map[string]string{
	"kips": "kip", "klb": "kip", "klbf": "kip", "feet": "ft", "foot": "ft", "inch": "in", "inches": "in", "meter": "m", "metre": "m", "micron": "um",
	"hr": "h", "hour": "h", "sec": "s", "second": "s", "day": "d", "Nm": "N*m", "kNm": "kN*m", "Nmm": "N*mm", "kgm": "kg*m", "kgfm": "kgf*m", "tfm": "tf*m",
	"kpsi": "ksi", "kph": "km/h", "mph": "mi/h", "celsius": "degC", "fahrenheit": "degF", "kelvin": "K", "degK": "K", "radian": "rad", "radians": "rad",
	"KN": "kN", "Kn": "kN", "kn": "kN", "KPa": "kPa", "mpa": "MPa", "Mpa": "MPa", "gpa": "GPa", "Gpa": "GPa", "kpa": "kPa", "Kg": "kg", "KG": "kg", "Ft": "ft", "mt": "t", "N_m": "N*m",
}

// prefixes are the SI prefixes, by power of ten. Micro is written u.
var prefixes = []struct {
	name  string
	power int
}{
	{"T", 12}, {"G", 9}, {"M", 6}, {"k", 3}, {"h", 2}, {"da", 1},
	{"d", -1}, {"c", -2}, {"m", -3}, {"u", -6}, {"n", -9}, {"p", -12},
}

// An atom is a symbol, prefixed or not, ready for arithmetic.
type atom struct {
	dim    Dimension
	factor factor
	offset *big.Rat
	delta  bool
}

// atoms holds every name that may stand in a unit. A name that two symbols could
// give would be a mistake of this file; TestNoUnitNameHasTwoMeanings holds that.
var atoms = buildAtoms()

func buildAtoms() map[string]atom {
	out := make(map[string]atom, 300)
	for _, s := range symbols {
		a := atom{dim: s.dim, factor: factor{ratio(s.factor), s.pi}, delta: s.delta}
		if s.offset != "" {
			a.offset = ratio(s.offset)
		}
		out[s.name] = a
		if !s.prefixes {
			continue
		}
		for _, p := range prefixes {
			scaled := a
			scaled.factor = factor{new(big.Rat).Mul(a.factor.rat, pow10(p.power)), s.pi}
			if _, taken := out[p.name+s.name]; !taken {
				out[p.name+s.name] = scaled
			}
		}
	}
	return out
}

// ratio reads "a" or "a/b" with decimal parts.
func ratio(s string) *big.Rat {
	num, den, quotient := strings.Cut(s, "/")
	r, ok := new(big.Rat).SetString(num)
	if !ok {
		panic("quantity: bad factor " + s)
	}
	if quotient {
		d, ok := new(big.Rat).SetString(den)
		if !ok {
			panic("quantity: bad factor " + s)
		}
		r.Quo(r, d)
	}
	return r
}

func pow10(n int) *big.Rat {
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n, -n))), nil)
	if n < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), p)
	}
	return new(big.Rat).SetInt(p)
}
