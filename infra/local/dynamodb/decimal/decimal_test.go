package decimal

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// covers: H1
func TestParseGivesTheCanonicalText(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, c := range []struct{ in, want string }{
		{"0", "0"}, {"-0", "0"}, {"0.000", "0"}, {"0e1000", "0"}, {"-0e-1000", "0"},
		{"1", "1"}, {"+3", "3"}, {"-7.1234", "-7.1234"}, {"0001.2300", "1.23"}, {".5", "0.5"}, {"5.", "5"},
		{"1e3", "1000"}, {"1E+3", "1000"}, {"12e-1", "1.2"}, {"1e-3", "0.001"}, {"-17.4E3", "-17400"},
		{nines, nines},
		{"1e125", "1" + strings.Repeat("0", 125)},
		{"1e-130", "0." + strings.Repeat("0", 129) + "1"},
		{"9." + nines[1:] + "e125", nines + strings.Repeat("0", 88)},
		{"1e0000000000000000001", "10"},
	} {
		n, err := Parse(c.in)
		if err != nil || n.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.in, n, err, c.want)
		}
	}
}

// covers: H1
func TestParseRefusesWithTheReason(t *testing.T) {
	for _, c := range []struct {
		in   string
		want error
	}{
		{"", ErrSyntax}, {"-", ErrSyntax}, {".", ErrSyntax}, {"e5", ErrSyntax}, {"1e", ErrSyntax}, {"1e+", ErrSyntax},
		{"NaN", ErrSyntax}, {"Infinity", ErrSyntax}, {" 1", ErrSyntax}, {"1 ", ErrSyntax}, {"0x1", ErrSyntax},
		{"1_000", ErrSyntax}, {"1.2.3", ErrSyntax}, {"--1", ErrSyntax}, {"1e1e1", ErrSyntax}, {"1e1.5", ErrSyntax}, {"٣", ErrSyntax},
		{"1e126", ErrOverflow}, {"11e125", ErrOverflow}, {"-1e126", ErrOverflow}, {"1e99999999999999999999", ErrOverflow},
		{"1e-131", ErrUnderflow}, {"0.9e-130", ErrUnderflow}, {"1e-99999999999999999999", ErrUnderflow},
		{strings.Repeat("1", 39), ErrPrecision}, {"3.14159265358979323846264338327950288419", ErrPrecision},
		{strings.Repeat("1", 39) + "e90", ErrOverflow}, // range is told before precision
	} {
		if n, err := Parse(c.in); !errors.Is(err, c.want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", c.in, n, err, c.want)
		}
	}
}

// covers: H1
func TestArithmeticRefusesWhatCannotBeExact(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       error
	}{
		{"a sum beyond the largest number", "9e125", "9e125", ErrOverflow},
		{"a sum of more than 38 digits", "1e50", "1", ErrPrecision},
		{"a difference below the smallest number", "1.5e-130", "-1.4e-130", ErrUnderflow},
	} {
		if sum, err := mustParse(t, c.a).Add(mustParse(t, c.b)); !errors.Is(err, c.want) {
			t.Errorf("%s: %s + %s = %v, %v; want %v", c.name, c.a, c.b, sum, err, c.want)
		}
	}
}

func mustParse(t testing.TB, s string) Number {
	t.Helper()
	n, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return n
}

// drawNumber draws a number of the whole range, half of them close to each
// other so that sums stay exact and comparisons are not decided by the exponent.
func drawNumber(t *rapid.T, name string) Number {
	digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, name+" digits")
	exponent := rapid.OneOf(rapid.IntRange(-10, 10), rapid.IntRange(-130, 87)).Draw(t, name+" exponent")
	text := digits + "e" + new(big.Int).SetInt64(int64(exponent)).String()
	if rapid.Bool().Draw(t, name+" negative") {
		text = "-" + text
	}
	n, err := Parse(text)
	if err != nil {
		t.Skip(err)
	}
	return n
}

func rational(t *rapid.T, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("math/big does not read %q", text)
	}
	return r
}

// covers: H1
func TestNumbersAgreeWithMathBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawNumber(t, "a"), drawNumber(t, "b")
		ra, rb := rational(t, a.String()), rational(t, b.String())
		if again, err := Parse(a.String()); err != nil || again != a {
			t.Fatalf("%v does not survive its own text: %v, %v", a, again, err)
		}
		if got, want := a.Compare(b), ra.Cmp(rb); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", a, b, got, want)
		}
		if got, want := bytes.Compare(a.AppendOrdered(nil), b.AppendOrdered(nil)), ra.Cmp(rb); got != want {
			t.Fatalf("ordered encodings of %v and %v compare %d, want %d", a, b, got, want)
		}
		if a != b && bytes.HasPrefix(b.AppendOrdered(nil), a.AppendOrdered(nil)) {
			t.Fatalf("the encoding of %v is a prefix of that of %v", a, b)
		}
		for _, c := range []struct {
			name string
			got  func(Number) (Number, error)
			want *big.Rat
		}{
			{"+", a.Add, new(big.Rat).Add(ra, rb)},
			{"-", a.Sub, new(big.Rat).Sub(ra, rb)},
		} {
			got, err := c.got(b)
			if err != nil {
				// Only what truly has no representation may be refused.
				if n, parseErr := Parse(c.want.FloatString(170)); parseErr == nil {
					t.Fatalf("%v %s %v refused (%v), but is %v", a, c.name, b, err, n)
				}
				continue
			}
			if rational(t, got.String()).Cmp(c.want) != 0 {
				t.Fatalf("%v %s %v = %v, want %v", a, c.name, b, got, c.want)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "1.5e10", ".", "1e-130", "9e125", "1e999999999999", "00012.3400E-05"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := Parse(n.String()); err != nil || again != n {
			t.Fatalf("Parse(%q) = %v, but its text gives %v, %v", s, n, again, err)
		}
		if strings.ContainsAny(s, "eE") {
			return // math/big would expand a huge exponent
		}
		if r, ok := new(big.Rat).SetString(s); !ok {
			t.Fatalf("Parse accepts %q, math/big does not", s)
		} else if back, _ := new(big.Rat).SetString(n.String()); r.Cmp(back) != 0 {
			t.Fatalf("Parse(%q) = %v", s, n)
		}
	})
}
