// Package canon gives every JSON value of pxhost one byte form (RFC 8785) and
// one digest, and reads JSON without repairing it.
//
// It knows nothing about what a document means: shape and meaning are checked
// by package schema and by the domain packages.
package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Raw is one JSON value as text. A Raw inside a stored document is canonical.
type Raw = jsontext.Value

// Encode returns the canonical encoding of a Go value. It fails for values that
// JSON cannot hold, such as NaN and infinities.
func Encode(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("canon: encode: %w", err)
	}
	if !holds(text) { // Check says where
		if err := Check(text); err != nil {
			return nil, err
		}
	}
	value := Raw(text)
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canon: canonicalize: %w", err)
	}
	return value, nil
}

// holds reports whether Check accepts a text that the encoder wrote. Of such a
// text only the depth and the numbers inside a Raw are in question, and those
// are seen without reading its grammar again.
func holds(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			start := i
			for i+1 < len(text) && inNumber(text[i+1]) {
				i++
			}
			if overflows(text[start : i+1]) {
				return false
			}
		}
	}
	return true
}

func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// EncodeEach returns the canonical encoding of each element, in order.
func EncodeEach[T any](list []T) ([]Raw, error) {
	out := make([]Raw, len(list))
	for i, v := range list {
		text, err := Encode(v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = text
	}
	return out, nil
}

// Canonicalize returns the canonical form of one strict JSON text. The input is
// not changed.
func Canonicalize(text []byte) ([]byte, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	value := append(Raw(nil), text...)
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canon: canonicalize: %w", err)
	}
	return value, nil
}

// Digest returns "sha256:" and the lower-case hex digest of canonical bytes.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// DigestOf encodes v and returns the digest of its canonical bytes.
func DigestOf(v any) (string, error) {
	text, err := Encode(v)
	if err != nil {
		return "", err
	}
	return Digest(text), nil
}
