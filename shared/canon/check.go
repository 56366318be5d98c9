package canon

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the deepest nesting of arrays and objects that is read.
const MaxDepth = 64

// A SyntaxError says where a text stops being strict JSON. It never quotes the
// text.
type SyntaxError struct {
	Offset  int64  // in bytes
	Pointer string // JSON Pointer of the nearest value
	Reason  string // a fixed phrase, safe to show
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not strict JSON at byte %d: %s", e.Offset, e.Reason)
}

// Check reports the first reason why text is not exactly one strict JSON value:
// malformed, trailing data, invalid UTF-8, a lone surrogate, a duplicate name,
// nesting over MaxDepth, or a number that binary64 cannot hold (overflow).
func Check(text []byte) error {
	decoder := jsontext.NewDecoder(newReader(text))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			if decoder.StackDepth() == 0 && isEOF(err) {
				if decoder.InputOffset() == 0 {
					return &SyntaxError{Reason: "empty"}
				}
				return nil
			}
			return syntaxError(decoder, err)
		}
		if decoder.StackDepth() > MaxDepth {
			return &SyntaxError{Offset: decoder.InputOffset(), Pointer: string(decoder.StackPointer()), Reason: "nested too deep"}
		}
		if token.Kind() == '0' {
			f, err := strconv.ParseFloat(token.String(), 64)
			if err != nil || math.IsInf(f, 0) {
				return &SyntaxError{Offset: decoder.InputOffset(), Pointer: string(decoder.StackPointer()), Reason: "number out of range"}
			}
		}
		if decoder.StackDepth() == 0 {
			if rest := text[decoder.InputOffset():]; !blank(rest) {
				return &SyntaxError{Offset: decoder.InputOffset(), Reason: "trailing data"}
			}
			return nil
		}
	}
}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}
