package quantity

import (
	"fmt"
	"math/big"
	"sync"
)

// Dimension is the power of each SI base quantity in a unit: length, mass, time,
// temperature, electric current, amount of substance.
type Dimension [6]int8

// Bounds of a unit's text. They keep every exact factor small.
const (
	MaxUnitLength = 64 // bytes
	MaxUnitPower  = 12 // of one symbol, of a group and of a base quantity
	maxUnitNest   = 4  // parentheses
)

// A Unit is a parsed unit. The zero value is the dimensionless unit "1". Units
// are immutable and cheap to copy.
type Unit struct{ p *parsed }

type parsed struct {
	text   string
	dim    Dimension
	factor factor
	offset *big.Rat // affine units only
	delta  bool
	si     line // to coherent SI
	fromSI line
}

// factor is rat * pi^pi.
type factor struct {
	rat *big.Rat
	pi  int
}

var dimensionless = &parsed{text: "1", factor: factor{rat: big.NewRat(1, 1)}}

// One is the dimensionless unit.
var One = Unit{dimensionless}

func (u Unit) get() *parsed {
	if u.p == nil {
		return dimensionless
	}
	return u.p
}

// String returns the unit as it was written.
func (u Unit) String() string { return u.get().text }

// Dimension returns the powers of the base quantities.
func (u Unit) Dimension() Dimension { return u.get().dim }

// Absolute reports whether the unit has a zero of its own (degC, degF), so that
// its values are temperatures and not differences.
func (u Unit) Absolute() bool { return u.get().offset != nil }

// Difference reports whether the unit says that its values are differences of
// temperatures (delta_degC, delta_degF alone).
func (u Unit) Difference() bool { return u.get().delta }

// Same reports whether every number means the same in both units, as in J and
// N*m, whatever their texts.
func (u Unit) Same(v Unit) bool {
	a, b := u.get(), v.get()
	if a == b {
		return true
	}
	return a.dim == b.dim && a.delta == b.delta && a.factor.pi == b.factor.pi && a.factor.rat.Cmp(b.factor.rat) == 0 && sameOffset(a.offset, b.offset)
}

func sameOffset(a, b *big.Rat) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(b) == 0
}

// Convertible reports whether a value in u can be told in v: equal dimension, and
// not a temperature on one side and a difference on the other.
func (u Unit) Convertible(v Unit) bool {
	a, b := u.get(), v.get()
	return a.dim == b.dim && (a.offset == nil || !b.delta) && (b.offset == nil || !a.delta)
}

// A UnitError says why a text is no unit. It does not quote the text.
type UnitError struct {
	Offset int    // in bytes
	Reason string // a constant, such as "unknown_unit"
	Use    string // what to write in its place, where that is known
}

func (e *UnitError) Error() string {
	if e.Use != "" {
		return fmt.Sprintf("not a unit at byte %d: %s, use %s", e.Offset, e.Reason, e.Use)
	}
	return fmt.Sprintf("not a unit at byte %d: %s", e.Offset, e.Reason)
}

// The reasons of a UnitError.
const (
	UnitEmpty      = "empty"
	UnitTooLong    = "too_long"
	UnitMalformed  = "malformed"
	UnitUnknown    = "unknown_unit"
	UnitAmbiguous  = "ambiguous_unit"
	UnitNotAlone   = "temperature_with_zero_stands_alone"
	UnitPower      = "power_out_of_range"
	UnitNested     = "nested_too_deep"
	UnitMixedSlash = "product_after_quotient"
)

// unitCache keeps what was parsed. Documents bring unit texts from outside, so
// it starts anew when it is full.
var unitCache = struct {
	sync.RWMutex
	units map[string]*parsed
}{units: map[string]*parsed{}}

const maxCachedUnits = 4096

// ParseUnit reads a unit: symbols with SI prefixes, joined by * and /, with
// integer powers (^2, ^-1) and parentheses, without spaces; "1" is dimensionless
// and may stand before a slash (1/s).
//
// A product after a quotient (kN/m*s) reads differently to different people and
// is refused: kN/(m*s) and kN*s/m say what is meant. The error is a *UnitError.
func ParseUnit(text string) (Unit, error) {
	unitCache.RLock()
	p := unitCache.units[text]
	unitCache.RUnlock()
	if p != nil {
		return Unit{p}, nil
	}
	p, err := parseUnit(text)
	if err != nil {
		return Unit{}, err
	}
	unitCache.Lock()
	defer unitCache.Unlock()
	if len(unitCache.units) >= maxCachedUnits {
		clear(unitCache.units)
	}
	unitCache.units[text] = p
	return Unit{p}, nil
}

// MustParseUnit is ParseUnit for constants of the program; it panics on an error.
func MustParseUnit(text string) Unit {
	u, err := ParseUnit(text)
	if err != nil {
		panic("quantity: " + text + ": " + err.Error())
	}
	return u
}

func parseUnit(text string) (*parsed, error) {
	switch {
	case text == "":
		return nil, &UnitError{Reason: UnitEmpty}
	case len(text) > MaxUnitLength:
		return nil, &UnitError{Offset: MaxUnitLength, Reason: UnitTooLong}
	}
	if a, ok := atoms[text]; ok {
		return newParsed(text, a), nil
	}
	r := &unitReader{text: text}
	a, err := r.product()
	if err != nil {
		return nil, err
	}
	if r.pos != len(text) {
		bad := &UnitError{Offset: r.pos, Reason: UnitMalformed}
		switch c := r.peek(); {
		case c >= '0' && c <= '9' && r.pos > 0 && letter(text[r.pos-1]):
			bad.Use = "^ before a power"
		case c == ' ', c == '-', c == '.', c >= 0x80:
			bad.Use = "* between factors, ^ before a power"
		}
		return nil, bad
	}
	return newParsed(text, a), nil
}

func newParsed(text string, a atom) *parsed {
	p := &parsed{text: text, dim: a.dim, factor: a.factor, offset: a.offset, delta: a.delta}
	coherent := &parsed{factor: factor{rat: big.NewRat(1, 1)}}
	p.si = newLine(p, coherent)
	p.fromSI = newLine(coherent, p)
	return p
}

// unitReader is a recursive descent over
//
//	product = group { ("*" | "/") group }
//	group   = ( name | "1" | "(" product ")" ) [ "^" [ "-" ] digits ]
type unitReader struct {
	text string
	pos  int
	nest int
}

func (r *unitReader) fail(reason string) error { return &UnitError{Offset: r.pos, Reason: reason} }

func (r *unitReader) peek() byte {
	if r.pos < len(r.text) {
		return r.text[r.pos]
	}
	return 0
}

func (r *unitReader) product() (atom, error) {
	out, err := r.group()
	if err != nil {
		return atom{}, err
	}
	quotient := false
	for r.peek() == '*' || r.peek() == '/' {
		power := 1
		if r.peek() == '/' {
			power, quotient = -1, true
		} else if quotient {
			return atom{}, r.fail(UnitMixedSlash)
		}
		r.pos++
		next, err := r.group()
		if err != nil {
			return atom{}, err
		}
		if out, err = r.combine(out, next, power); err != nil {
			return atom{}, err
		}
	}
	return out, nil
}

func (r *unitReader) group() (atom, error) {
	start := r.pos
	var a atom
	named := false
	switch c := r.peek(); {
	case c == '(':
		if r.nest++; r.nest > maxUnitNest {
			return atom{}, r.fail(UnitNested)
		}
		r.pos++
		inner, err := r.product()
		if err != nil {
			return atom{}, err
		}
		if r.peek() != ')' {
			return atom{}, r.fail(UnitMalformed)
		}
		r.pos++
		r.nest--
		a = inner
	case c == '1':
		r.pos++
		a = atom{factor: factor{rat: big.NewRat(1, 1)}}
	case letter(c):
		for letter(r.peek()) {
			r.pos++
		}
		name := r.text[start:r.pos]
		found, ok := atoms[name]
		if !ok {
			if use, ok := ambiguous[name]; ok {
				return atom{}, &UnitError{Offset: start, Reason: UnitAmbiguous, Use: use}
			}
			return atom{}, &UnitError{Offset: start, Reason: UnitUnknown, Use: otherNames[name]}
		}
		if found.offset != nil {
			return atom{}, &UnitError{Offset: start, Reason: UnitNotAlone, Use: "delta_" + name}
		}
		a, named = found, true
	default:
		return atom{}, r.fail(UnitMalformed)
	}
	if r.peek() != '^' {
		if named {
			// In a product a difference of temperatures is only a size.
			a.delta = false
		}
		return a, nil
	}
	r.pos++
	power, err := r.integer()
	if err != nil {
		return atom{}, err
	}
	return r.combine(atom{factor: factor{rat: big.NewRat(1, 1)}}, a, power)
}

func (r *unitReader) integer() (int, error) {
	sign := 1
	if r.peek() == '-' {
		sign = -1
		r.pos++
	}
	start, n := r.pos, 0
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		if n = n*10 + int(c-'0'); n > MaxUnitPower {
			return 0, r.fail(UnitPower)
		}
		r.pos++
	}
	if r.pos == start || r.text[start] == '0' {
		return 0, r.fail(UnitMalformed)
	}
	return sign * n, nil
}

// combine returns a * b^power.
func (r *unitReader) combine(a, b atom, power int) (atom, error) {
	out := atom{factor: factor{rat: new(big.Rat).Set(a.factor.rat), pi: a.factor.pi + power*b.factor.pi}}
	for i := range out.dim {
		sum := int(a.dim[i]) + power*int(b.dim[i])
		if sum > MaxUnitPower || sum < -MaxUnitPower {
			return atom{}, r.fail(UnitPower)
		}
		out.dim[i] = int8(sum)
	}
	if out.factor.pi > MaxUnitPower || out.factor.pi < -MaxUnitPower {
		return atom{}, r.fail(UnitPower)
	}
	scale := b.factor.rat
	if power < 0 {
		scale = new(big.Rat).Inv(scale)
	}
	for range max(power, -power) {
		out.factor.rat.Mul(out.factor.rat, scale)
	}
	return out, nil
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}
