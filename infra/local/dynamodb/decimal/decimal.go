// Package decimal holds DynamoDB's number type: a signed decimal with up to 38
// significant digits and a magnitude of 1E-130 to 9.99…E+125, exact in addition
// and subtraction. Binary floating point never appears in it.
//
// The package knows nothing of attribute values, JSON or storage.
package decimal

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

const (
	// MaxDigits is the number of significant digits a number may have.
	MaxDigits = 38
	// MaxExponent is the power of ten of the first digit of the largest number.
	MaxExponent = 125
	// MinExponent is the power of ten of the first digit of the smallest number.
	MinExponent = -130
)

// What can be wrong with a number. The texts are not DynamoDB's; callers map
// each error to the message of their operation.
var (
	ErrSyntax    = errors.New("decimal: not a number")
	ErrOverflow  = errors.New("decimal: magnitude too large")
	ErrUnderflow = errors.New("decimal: magnitude too small")
	ErrPrecision = errors.New("decimal: more than 38 significant digits")
)

// Number is ±d.ddd × 10^exponent. The zero value is the number 0. Numbers are
// normalised, so equal numbers are equal with ==.
type Number struct {
	digits   string // significant digits, no zeros at either end; empty for 0
	exponent int16  // power of ten of digits[0]
	negative bool
}

// Parse reads an optional sign, digits with an optional point, and an optional
// exponent. Spaces, NaN, Infinity and hexadecimal are ErrSyntax. A number out of
// range is ErrOverflow or ErrUnderflow; one in range with more than MaxDigits
// significant digits is ErrPrecision.
func Parse(s string) (Number, error) {
	rest, negative := s, false
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		negative, rest = rest[0] == '-', rest[1:]
	}
	mantissa, power, err := splitExponent(rest)
	if err != nil {
		return Number{}, err
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if !allDigits(whole) || !allDigits(fraction) || whole+fraction == "" {
		return Number{}, ErrSyntax
	}
	return normalise(negative, whole+fraction, len(whole)-1+power)
}

// splitExponent returns the part before "e" and the value after it, clamped to
// ±1e9: beyond that the sign of the exponent alone decides.
func splitExponent(s string) (mantissa string, power int, err error) {
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return s, 0, nil
	}
	digits, negative := s[i+1:], false
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		negative, digits = digits[0] == '-', digits[1:]
	}
	if digits == "" || !allDigits(digits) {
		return "", 0, ErrSyntax
	}
	const clamp = 1_000_000_000
	power = clamp
	if digits = strings.TrimLeft(digits, "0"); len(digits) < 10 {
		power, _ = strconv.Atoi("0" + digits)
	}
	if negative {
		power = -power
	}
	return s[:i], power, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// normalise strips zeros and checks the range; exponent is the power of ten of
// digits[0], leading zeros included.
func normalise(negative bool, digits string, exponent int) (Number, error) {
	stripped := strings.TrimLeft(digits, "0")
	exponent -= len(digits) - len(stripped)
	stripped = strings.TrimRight(stripped, "0")
	switch {
	case stripped == "":
		return Number{}, nil // -0 is 0
	case exponent > MaxExponent:
		return Number{}, ErrOverflow
	case exponent < MinExponent:
		return Number{}, ErrUnderflow
	case len(stripped) > MaxDigits:
		return Number{}, ErrPrecision
	}
	return Number{digits: stripped, exponent: int16(exponent), negative: negative}, nil
}

// FromInt returns n, which is always in range.
func FromInt(n int64) Number {
	number, err := Parse(strconv.FormatInt(n, 10))
	if err != nil {
		panic(err) // an int64 has at most 19 digits
	}
	return number
}

// String is the canonical text: plain notation, no exponent, no superfluous
// zeros, no plus sign, at most one leading zero.
func (n Number) String() string {
	if n.digits == "" {
		return "0"
	}
	var b strings.Builder
	if n.negative {
		b.WriteByte('-')
	}
	switch point := int(n.exponent) + 1; { // digits before the point
	case point <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -point))
		b.WriteString(n.digits)
	case point >= len(n.digits):
		b.WriteString(n.digits)
		b.WriteString(strings.Repeat("0", point-len(n.digits)))
	default:
		b.WriteString(n.digits[:point])
		b.WriteByte('.')
		b.WriteString(n.digits[point:])
	}
	return b.String()
}

// Int64 returns the number if it is a whole number that fits.
func (n Number) Int64() (int64, bool) {
	if n.exponent > 18 {
		return 0, false
	}
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return i, err == nil
}

// Neg returns -n.
func (n Number) Neg() Number {
	if n.digits != "" {
		n.negative = !n.negative
	}
	return n
}

// Sign is -1, 0 or +1.
func (n Number) Sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.negative:
		return -1
	}
	return 1
}

// Compare is -1 if n < m, 0 if they are equal, +1 if n > m.
func (n Number) Compare(m Number) int {
	if n.Sign() != m.Sign() {
		return compareInts(n.Sign(), m.Sign())
	}
	order := compareInts(int(n.exponent), int(m.exponent))
	if order == 0 {
		// No zeros at the ends, so text order is numeric order.
		order = strings.Compare(n.digits, m.digits)
	}
	if n.negative {
		return -order
	}
	return order
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Add returns the exact sum. A sum that is out of range or needs more than
// MaxDigits digits is an error: DynamoDB does not round.
func (n Number) Add(m Number) (Number, error) {
	switch {
	case n.digits == "":
		return m, nil
	case m.digits == "":
		return n, nil
	}
	scale := min(n.scale(), m.scale())
	sum := n.integer(scale)
	sum.Add(sum, m.integer(scale))
	digits := sum.Text(10)
	digits = strings.TrimPrefix(digits, "-")
	return normalise(sum.Sign() < 0, digits, scale+len(digits)-1)
}

// Sub returns n-m under the rules of Add.
func (n Number) Sub(m Number) (Number, error) { return n.Add(m.Neg()) }

// scale is the power of ten of the last digit.
func (n Number) scale() int { return int(n.exponent) - len(n.digits) + 1 }

// integer returns n / 10^scale; scale must not be larger than n's own.
func (n Number) integer(scale int) *big.Int {
	i, _ := new(big.Int).SetString(n.digits+strings.Repeat("0", n.scale()-scale), 10)
	if n.negative {
		i.Neg(i)
	}
	return i
}

// Size is the number of bytes the number counts for in an item: one for the
// exponent, one for each pair of digits aligned to even powers of ten, and one
// for a minus sign.
func (n Number) Size() int {
	if n.digits == "" {
		return 1
	}
	size := 1 + (len(n.digits)+1)/2
	if len(n.digits)%2 == 0 && n.exponent%2 == 0 {
		size++ // the pairs are not aligned: both ends take half a byte
	}
	if n.negative {
		size++
	}
	return size
}

// Markers of AppendOrdered. Their order is the order of the numbers.
const (
	orderedNegative = 0x40
	orderedZero     = 0x80
	orderedPositive = 0xC0
)

// AppendOrdered appends an encoding whose byte order is the numeric order and
// of which no encoding is a prefix of another.
func (n Number) AppendOrdered(dst []byte) []byte {
	if n.digits == "" {
		return append(dst, orderedZero)
	}
	body := len(dst) + 1
	dst = append(dst, orderedPositive, byte(int(n.exponent)-MinExponent)) // 0 … 255
	dst = append(dst, n.digits...)
	dst = append(dst, 0) // ends the digits: a prefix sorts first
	if n.negative {
		dst[body-1] = orderedNegative
		for i := body; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}
