package quantity

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gnuNames says how GNU units calls what it calls otherwise.
var gnuNames = map[string]string{
	"in": "inch", "mi": "mile", "ha": "hectare", "L": "liter", "mL": "milliliter", "t": "tonne", "lb": "pound", "min": "minute", "h": "hour", "d": "day",
	"delta_degC": "degC", "delta_degF": "degF", "kgf": "kg gravity", "tf": "tonne gravity", "plf": "lbf/ft", "klf": "kip/ft", "psf": "lbf/ft^2", "ksf": "kip/ft^2",
	"rad": "radian", "deg": "degree", "K": "kelvin", "A": "ampere", "V": "volt", "J": "joule", "W": "watt", "N": "newton", "Pa": "pascal", "Hz": "hertz",
	"g": "gram", "s": "second", "m": "meter", "mol": "mole", "ft": "foot", "yd": "yard",
}

var gnuPrefixes = map[string]string{"": "", "T": "tera", "G": "giga", "M": "mega", "k": "kilo", "h": "hecto", "da": "deka",
	"d": "deci", "c": "centi", "m": "milli", "u": "micro", "n": "nano", "p": "pico"}

func gnuName(s symbol, prefix string) string {
	name, ok := gnuNames[s.name]
	if !ok {
		name = s.name
	}
	return gnuPrefixes[prefix] + name
}

// gnu tells 1 of each first unit in the second, by one run of GNU units.
func gnu(t *testing.T, pairs [][2]string) []float64 {
	t.Helper()
	program, err := exec.LookPath("units")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("GNU units is not installed, and CI must run this test")
		}
		t.Skip("GNU units is not installed (apt-get install units): conversions are not compared")
	}
	var in, out bytes.Buffer
	for _, p := range pairs {
		fmt.Fprintf(&in, "%s\n%s\n", p[0], p[1])
	}
	command := exec.Command(program, "-q", "-t", "-o", "%.17g")
	command.Env = []string{"LC_ALL=C", "HOME=" + t.TempDir()}
	command.Stdin, command.Stdout = &in, &out
	if err := command.Run(); err != nil {
		t.Fatalf("units: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(pairs) {
		t.Fatalf("%d answers to %d questions: %.300s", len(lines), len(pairs), strings.Join(slices.DeleteFunc(lines, func(l string) bool { _, err := strconv.ParseFloat(strings.TrimSpace(l), 64); return err == nil }), "; "))
	}
	factors := make([]float64, len(lines))
	for i, line := range lines {
		if factors[i], err = strconv.ParseFloat(strings.TrimSpace(line), 64); err != nil {
			t.Fatalf("%v: %q", pairs[i], line)
		}
	}
	return factors
}

// Every unit with every prefix against every other of its dimension. GNU units
// calculates a factor with several roundings, hence the tolerance.
func TestEveryConvertiblePairAgreesWithGNUUnits(t *testing.T) {
	theirs := map[string]string{"1": "1", "kip*ft": "kip foot", "kN*m": "kilonewton meter", "N*mm": "newton millimeter", "lbf*in": "lbf inch", "N/mm^2": "newton/millimeter^2",
		"kN/m": "kilonewton/meter", "lb/ft^3": "pound/foot^3", "kg/m^3": "kilogram/meter^3", "lbf/ft^3": "lbf/foot^3", "kN/m^3": "kilonewton/meter^3", "ft/s^2": "foot/second^2", "m/s^2": "meter/second^2",
		"1/delta_degF": "1/degF", "1/K": "1/kelvin", "in^4": "inch^4", "mm^4": "millimeter^4", "cm^4": "centimeter^4", "in^3": "inch^3", "mm^3": "millimeter^3",
		"kip*in^2": "kip inch^2", "kN*m^2": "kilonewton meter^2", "deg/s": "degree/second", "1/s": "1/second", "km/h": "kilometer/hour", "mi/h": "mile/hour"}
	for _, s := range symbols {
		if s.offset != "" {
			continue // below
		}
		theirs[s.name] = gnuName(s, "")
		if s.prefixes {
			for _, p := range prefixes {
				theirs[p.name+s.name] = gnuName(s, p.name)
			}
		}
	}
	var ours, pairs [][2]string
	names := make([]string, 0, len(theirs))
	for name := range theirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, a := range names {
		for _, b := range names {
			if MustParseUnit(a).Convertible(MustParseUnit(b)) {
				ours, pairs = append(ours, [2]string{a, b}), append(pairs, [2]string{theirs[a], theirs[b]})
			}
		}
	}
	for i, want := range gnu(t, pairs) {
		got := MustParseUnit(ours[i][0]).Convert(1, MustParseUnit(ours[i][1]))
		if math.Abs(got-want) > 4e-15*math.Abs(want) {
			t.Errorf("1 %s is %.17g %s, GNU units says %.17g", ours[i][0], got, ours[i][1], want)
		}
	}
	t.Logf("%d pairs of %d units", len(pairs), len(names))
}

func TestTemperaturesAgreeWithGNUUnits(t *testing.T) {
	scales := map[string]string{"degC": "tempC", "degF": "tempF", "K": "kelvin"}
	var ours, pairs [][2]string
	var at []float64
	for a, x := range scales {
		for b, y := range scales {
			for _, degrees := range []float64{0, 20, -40, 100, 451} {
				if a == "K" && degrees < 0 {
					continue
				}
				from := fmt.Sprintf("%s(%g)", x, degrees)
				if a == "K" {
					from = fmt.Sprintf("%g kelvin", degrees)
				}
				ours, pairs, at = append(ours, [2]string{a, b}), append(pairs, [2]string{from, y}), append(at, degrees)
			}
		}
	}
	for i, want := range gnu(t, pairs) {
		got := MustParseUnit(ours[i][0]).Convert(at[i], MustParseUnit(ours[i][1]))
		if math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("%g %s is %.17g %s, GNU units says %.17g", at[i], ours[i][0], got, ours[i][1], want)
		}
	}
}
