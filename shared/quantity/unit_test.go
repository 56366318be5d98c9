package quantity

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnitsHaveTheirExactSize(t *testing.T) {
	for _, c := range []struct {
		from, to string
		x, want  float64
	}{
		{"ft", "m", 1, 0.3048}, {"in", "mm", 1, 25.4}, {"kip", "N", 1, 4448.2216152605}, {"kip*ft", "kN*m", 72, 97.6188},
		{"N/mm^2", "MPa", 250, 250}, {"ksi", "MPa", 50, 344.7378646584},
		{"degC", "K", 20, 293.15}, {"degF", "degC", 212, 100}, {"degC", "degF", -40, -40}, {"delta_degF", "K", 9, 5},
		{"deg", "rad", 180, math.Pi}, {"1/s", "Hz", 3, 3}, {"km/h", "m/s", 36, 10}, {"g*m/s^2", "mN", 1, 1},
		{"kN/(m*s)", "N/m/s", 1, 1000}, {"m^-2", "mm^-2", 1, 1e-6}, {"(m/s)^2", "J/kg", 4, 4}, {"um/m", "1", 5, 5e-6},
	} {
		got := MustParseUnit(c.from).Convert(c.x, MustParseUnit(c.to))
		if math.Abs(got-c.want) > 1e-6*math.Abs(c.want) {
			t.Errorf("%g %s is %g %s, not %g", c.x, c.from, got, c.to, c.want)
		}
	}
}

func TestWhatIsNoUnitIsRefusedByName(t *testing.T) {
	for text, reason := range map[string]string{
		"": UnitEmpty, strings.Repeat("m*", 40) + "m": UnitTooLong, "kN m": UnitMalformed, " m": UnitMalformed, "m*": UnitMalformed,
		"*m": UnitMalformed, "m//s": UnitMalformed, "2*m": UnitMalformed, "m^": UnitMalformed, "m^0": UnitMalformed, "m^2.5": UnitMalformed,
		"m^02": UnitMalformed, "(m": UnitMalformed, "m)": UnitMalformed, "()": UnitMalformed, "11": UnitMalformed, "%": UnitMalformed,
		"furlong": UnitUnknown, "kft": UnitUnknown, "mmin": UnitUnknown, "KN": UnitUnknown, "kkN": UnitUnknown, "kn": UnitUnknown,
		"ton": UnitAmbiguous, "kNm": UnitUnknown, "mm2": UnitMalformed, "kip-ft": UnitMalformed, "pcf": UnitAmbiguous, "C": UnitAmbiguous,
		"degC/m": UnitNotAlone, "degC*m": UnitNotAlone, "degC^2": UnitNotAlone, "(degC)": UnitNotAlone, "1/degF": UnitNotAlone,
		"m^13": UnitPower, "m^99999999999999999999": UnitPower, "(m^6)^3": UnitPower, "m^12*m": UnitPower, "deg^12*deg": UnitPower,
		"kN/m*s": UnitMixedSlash, "((((((m))))))": UnitNested, "m²": UnitMalformed, "µm": UnitMalformed, "m\x00": UnitMalformed,
	} {
		_, err := ParseUnit(text)
		var bad *UnitError
		if !errors.As(err, &bad) || bad.Reason != reason {
			t.Errorf("%q: %v, want %s", text, err, reason)
		}
	}
}

func TestNoUnitNameHasTwoMeanings(t *testing.T) {
	seen := map[string]string{}
	for _, s := range symbols {
		names := []string{s.name}
		if s.prefixes {
			for _, p := range prefixes {
				names = append(names, p.name+s.name)
			}
		}
		for _, name := range names {
			if other, taken := seen[name]; taken {
				t.Errorf("%s is a %s and a %s", name, other, s.name)
			}
			if _, refused := ambiguous[name]; refused {
				t.Errorf("%s is a unit and refused as ambiguous", name)
			}
			if _, refused := otherNames[name]; refused {
				t.Errorf("%s is a unit and refused as another's name", name)
			}
			seen[name] = s.name
		}
	}
}

func TestARefusedUnitSaysWhatToWriteInItsPlace(t *testing.T) {
	for name, use := range otherNames {
		if _, err := ParseUnit(use); err != nil {
			t.Errorf("in place of %s stands %s: %v", name, use, err)
		}
	}
	for text, want := range map[string]string{"kNm": "kN*m", "kips": "kip", "N/mm2": "^ before a power", "kip-ft": "* between factors, ^ before a power", "m·s": "* between factors, ^ before a power", "xyz": "", "degC/m": "delta_degC"} {
		_, err := ParseUnit(text)
		var bad *UnitError
		if !errors.As(err, &bad) || bad.Use != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestATemperatureIsNotADifference(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"degC", "degF", true}, {"degC", "K", true}, {"K", "degC", true}, {"delta_degC", "K", true}, {"delta_degC", "delta_degF", true},
		{"degC", "delta_degC", false}, {"delta_degF", "degC", false}, {"m", "ft", true}, {"m", "s", false},
	} {
		if got := MustParseUnit(c.from).Convertible(MustParseUnit(c.to)); got != c.want {
			t.Errorf("%s into %s: %v", c.from, c.to, got)
		}
	}
}

// exactly returns x in another unit as big.Rat gives it, rounded once.
func exactly(x float64, a, b Unit) float64 {
	r := new(big.Rat).SetFloat64(x)
	if o := a.get().offset; o != nil {
		r.Add(r, o)
	}
	r.Mul(r, a.get().factor.rat)
	r.Quo(r, b.get().factor.rat)
	for range a.get().factor.pi - b.get().factor.pi {
		r.Mul(r, piRat)
	}
	for range b.get().factor.pi - a.get().factor.pi {
		r.Quo(r, piRat)
	}
	if o := b.get().offset; o != nil {
		r.Sub(r, o)
	}
	f, _ := r.Float64()
	return f
}

func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e6, 1e6), rapid.Map(rapid.Uint64(), func(b uint64) float64 {
		if f := math.Float64frombits(b); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		return 0
	}))
}

func TestAConversionRoundsOnceFromTheExactResult(t *testing.T) {
	names := unitNames()
	rapid.Check(t, func(t *rapid.T) {
		a := MustParseUnit(rapid.SampledFrom(names).Draw(t, "from"))
		var fits []string
		for _, n := range names {
			if a.Convertible(MustParseUnit(n)) {
				fits = append(fits, n)
			}
		}
		b := MustParseUnit(rapid.SampledFrom(fits).Draw(t, "to"))
		x := anyFloat().Draw(t, "x")
		if got, want := a.Convert(x, b), exactly(x, a, b); got != want {
			t.Fatalf("%v %s is %v %s, exactly %v", x, a, got, b, want)
		}
		if y := a.Convert(x, a); math.Float64bits(y) != math.Float64bits(x) {
			t.Fatalf("%v %s into itself is %v", x, a, y)
		}
	})
}

func TestScaleIsExactForAllRatios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := anyFloat().Draw(t, "x")
		num, den := rapid.Uint64Min(1).Draw(t, "num"), rapid.Uint64Min(1).Draw(t, "den")
		if x == 0 {
			return
		}
		got, ok := scale(x, num, den)
		if !ok {
			return
		}
		exact := new(big.Rat).SetFloat64(x)
		exact.Mul(exact, new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den)))
		if want, _ := exact.Float64(); got != want {
			t.Fatalf("%v*%d/%d is %v, not %v", x, num, den, got, want)
		}
	})
}

// unitNames lists every name without prefix, some with, and some compounds.
func unitNames() []string {
	var out []string
	for _, s := range symbols {
		out = append(out, s.name)
		if s.prefixes {
			out = append(out, "k"+s.name, "m"+s.name, "M"+s.name, "u"+s.name)
		}
	}
	return append(out, "1", "kip*ft", "kN*m", "N*mm", "lbf*in", "N/mm^2", "kN/m", "kip/ft", "lb/ft^3", "kg/m^3", "ft/s^2", "m/s^2",
		"1/delta_degF", "1/K", "in^4", "mm^4", "cm^4", "in^3", "ft^3", "mm^3", "kN*m^2", "kip*in^2", "deg/s", "rad/s", "1/s", "deg^2", "1/deg", "um/m")
}
