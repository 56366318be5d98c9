package canon

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

func newReader(text []byte) io.Reader { return bytes.NewBuffer(text) }

func isEOF(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) }

func syntaxError(decoder *jsontext.Decoder, err error) error {
	out := &SyntaxError{Offset: decoder.InputOffset(), Pointer: string(decoder.StackPointer()), Reason: "malformed"}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		out.Offset, out.Pointer = syntactic.ByteOffset, string(syntactic.JSONPointer)
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		out.Reason = "duplicate name"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		out.Reason = "ends too early"
	}
	return out
}
