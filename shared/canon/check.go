package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the deepest nesting of arrays and objects that is read.
const MaxDepth = 64

// A SyntaxError says where a text stops being strict JSON. Its Error never
// quotes the text; Pointer may hold names from it.
type SyntaxError struct {
	Offset  int64  // in bytes
	Pointer string // JSON Pointer of the nearest value
	Reason  string // one of the Reason constants, safe to show
}

// The reasons for which a text is refused.
const (
	ReasonEmpty     = "empty"
	ReasonMalformed = "malformed"
	ReasonEndsEarly = "ends too early"
	ReasonTrailing  = "trailing data"
	ReasonDuplicate = "duplicate name"
	ReasonUTF8      = "invalid UTF-8"
	ReasonSurrogate = "lone surrogate"
	ReasonDepth     = "nested too deep"
	ReasonRange     = "number out of range"
)

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not strict JSON at byte %d: %s", e.Offset, e.Reason)
}

// Check reports the first reason why text is not exactly one strict JSON value
// that pxhost can hold: what CheckGrammar refuses, and a number that overflows
// binary64. The error is a *SyntaxError.
func Check(text []byte) error { return check(text, true) }

// CheckGrammar reports the first reason why text is not exactly one strict JSON
// value: malformed, trailing data, invalid UTF-8, a lone surrogate, a duplicate
// name (after unescaping), or nesting over MaxDepth. Numbers may have any size:
// the wire lets them pass, because whether 1e400 fits is a question to the
// schema, and the answer a diagnostic with a path (decision 10). The error is a
// *SyntaxError.
func CheckGrammar(text []byte) error { return check(text, false) }

func check(text []byte, ranges bool) error {
	// A Buffer is read in place, without a copy.
	decoder := decoders.Get().(*jsontext.Decoder)
	decoder.Reset(bytes.NewBuffer(text))
	defer func() {
		decoder.Reset(bytes.NewBuffer(nil)) // keeps no text
		decoders.Put(decoder)
	}()
	fail := func(reason string) error {
		return &SyntaxError{Offset: decoder.InputOffset(), Pointer: string(decoder.StackPointer()), Reason: reason}
	}
	for {
		if decoder.PeekKind() == '0' {
			number, err := decoder.ReadValue()
			if err != nil {
				return syntaxError(text, decoder, err)
			}
			if ranges && overflows(number) {
				return fail(ReasonRange)
			}
		} else if _, err := decoder.ReadToken(); err != nil {
			return syntaxError(text, decoder, err)
		}
		switch depth := decoder.StackDepth(); {
		case depth > MaxDepth:
			return fail(ReasonDepth)
		case depth == 0:
			if !blank(text[decoder.InputOffset():]) {
				return fail(ReasonTrailing)
			}
			return nil
		}
	}
}

// decoders are kept because a new one grows its tables of names anew, which is
// half the cost of a short text.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewBuffer(nil)) }}

// overflows reports whether a number of the JSON grammar is beyond binary64.
func overflows(number []byte) bool {
	if len(number) <= 300 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return false // at most 300 digits: below 1e300
	}
	f, err := strconv.ParseFloat(string(number), 64)
	return err != nil || math.IsInf(f, 0)
}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

func syntaxError(text []byte, decoder *jsontext.Decoder, err error) error {
	out := &SyntaxError{Offset: decoder.InputOffset(), Pointer: string(decoder.StackPointer()), Reason: ReasonMalformed}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		out.Offset, out.Pointer = syntactic.ByteOffset, string(syntactic.JSONPointer)
	}
	rest := text[min(max(out.Offset, 0), int64(len(text))):]
	switch {
	case blank(text):
		out.Reason = ReasonEmpty
	case errors.Is(err, jsontext.ErrDuplicateName):
		out.Reason = ReasonDuplicate
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		out.Reason = ReasonEndsEarly
	case startsInvalidUTF8(rest):
		out.Reason = ReasonUTF8
	case startsSurrogate(rest):
		out.Reason = ReasonSurrogate
	}
	return out
}

func startsInvalidUTF8(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return r == utf8.RuneError && size == 1
}

// startsSurrogate reports whether text starts with an escape of D800 to DFFF.
func startsSurrogate(text []byte) bool {
	return len(text) >= 4 && text[0] == '\\' && text[1] == 'u' && (text[2]|0x20) == 'd' &&
		(text[3] == '8' || text[3] == '9' || 'a' <= text[3]|0x20 && text[3]|0x20 <= 'f')
}
