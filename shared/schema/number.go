package schema

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// maxExact is the largest integer up to which binary64 holds every integer.
const maxExact = 1<<53 - 1

// readInteger returns the integer that a JSON number is, whatever way it is
// written, or the rule that it breaks: "integer" or "range". It looks at the
// digits, since a conversion to binary64 would round first.
func readInteger(text string) (int64, string) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		e, err := strconv.Atoi(text[i+1:])
		if err != nil { // beyond int: only zero is still an integer
			e = math.MaxInt32
			if text[i+1] == '-' {
				e = math.MinInt32
			}
		}
		exponent = min(max(e, math.MinInt32), math.MaxInt32)
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	if digits == "" {
		return 0, ""
	}
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if exponent < 0 {
		return 0, "integer"
	}
	if len(trimmed)+exponent > 16 {
		return 0, "range"
	}
	n, err := strconv.ParseInt(trimmed+strings.Repeat("0", exponent), 10, 64)
	if err != nil || n > maxExact {
		return 0, "range"
	}
	if negative {
		n = -n
	}
	return n, ""
}

// readNumber returns a number as binary64, or the rule that it breaks: "range".
// A fraction is rounded, as every reader of JSON does; an integer literal is
// not: it has to be held exactly, or be the very text that canonical encoding
// writes for its binary64 value.
func readNumber(text string) (float64, string) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, "range"
	}
	if f == 0 {
		return 0, "" // not -0
	}
	if math.Abs(f) > maxExact && !strings.ContainsAny(text, ".eE") {
		exact := strconv.FormatFloat(f, 'f', 0, 64)
		if text != exact && text != shortest(f) {
			return 0, "range"
		}
	}
	return f, ""
}

// shortest spells a large integral binary64 as canonical encoding does, without
// an exponent.
func shortest(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, e, _ := strings.Cut(text, "e")
	exponent, err := strconv.Atoi(e)
	if err != nil {
		panic(fmt.Sprintf("schema: exponent of a formatted number: %v", err))
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	digits := strings.ReplaceAll(mantissa, ".", "")
	if len(digits) > exponent+1 {
		return ""
	}
	digits += strings.Repeat("0", exponent+1-len(digits))
	if negative {
		digits = "-" + digits
	}
	return digits
}

// numbers reports every number inside a value of any form that would be rounded
// or lost, and whether there is none.
func (d *decoder) numbers(text canon.Raw, at *path) bool {
	before := d.found.number
	in := jsontext.NewDecoder(bytes.NewBuffer(text))
	for {
		t, err := in.ReadToken()
		if err != nil {
			break // the text was read once: this is its end
		}
		if t.Kind() == '0' {
			if _, rule := readNumber(t.String()); rule != "" {
				inside := string(in.StackPointer())
				d.found.invalid(rule, &path{root: at.String() + inside}, nil)
			}
		}
	}
	return d.found.number == before
}

// nesting returns how deep arrays and objects are nested in a value.
func nesting(text canon.Raw) int {
	deepest := 0
	in := jsontext.NewDecoder(bytes.NewBuffer(text))
	for {
		if _, err := in.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, in.StackDepth())
	}
}

func goValue(text canon.Raw) (any, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return value, nil
}
