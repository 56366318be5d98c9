package resultread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
)

// The bounds of a preview: elements of a list or rows of a table, characters of a
// text, and bytes in all.
const (
	previewElements = 10
	previewText     = 200
	previewBytes    = 8 << 10
)

// columnsOf returns the columns and the number of rows of a table, and nothing of
// any other value.
func columnsOf(value canon.Raw) (Schema, error) {
	var out Schema
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != '{' {
		return out, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return out, fmt.Errorf("%s: a stored value: %w", Name, err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return out, fmt.Errorf("%s: a stored value: %w", Name, err)
		}
		member := name.String()
		if member == "rows" && d.PeekKind() == '[' {
			d.ReadToken()
			for ; d.PeekKind() != ']' && d.PeekKind() != 0; out.Rows++ {
				if err := d.SkipValue(); err != nil {
					return out, fmt.Errorf("%s: a stored value: %w", Name, err)
				}
			}
			if _, err := d.ReadToken(); err != nil {
				return out, fmt.Errorf("%s: a stored value: %w", Name, err)
			}
			continue
		}
		text, err := d.ReadValue()
		if err != nil {
			return out, fmt.Errorf("%s: a stored value: %w", Name, err)
		}
		if member == "columns" {
			out.Columns = text.Clone()
		}
	}
	if out.Columns == nil {
		out.Rows = 0 // a record that happens to have rows
	}
	return out, nil
}

// preview returns the beginning of a value: of every list its first elements, of
// every text its first characters, and less of both where that is still too much. Of a
// value that is wide and not long it may be null.
func preview(value canon.Raw) (canon.Raw, error) {
	for elements, text := previewElements, previewText; elements > 0; elements, text = elements/2, text/2 {
		out, err := cut(value, elements, text)
		if err != nil || len(out) <= previewBytes {
			return out, err
		}
	}
	return canon.Raw("null"), nil
}

// cut copies a value with at most so many elements of each list and characters of
// each text. A table keeps all its columns.
func cut(value canon.Raw, elements, text int) (canon.Raw, error) {
	var out bytes.Buffer
	d := jsontext.NewDecoder(bytes.NewReader(value))
	e := jsontext.NewEncoder(&out)
	for {
		if d.StackDepth() > 0 {
			kind, n := d.StackIndex(d.StackDepth())
			if kind == '[' && n >= int64(elements) && !strings.HasPrefix(string(d.StackPointer()), "/columns") {
				if err := skipRest(d); err != nil {
					return nil, err
				}
			}
		}
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: a stored value: %w", Name, err)
		}
		if kind, n := d.StackIndex(d.StackDepth()); token.Kind() == '"' && !(kind == '{' && n%2 == 1) && utf8.RuneCountInString(token.String()) > text {
			runes := []rune(token.String())
			token = jsontext.String(string(runes[:text]))
		}
		if err := e.WriteToken(token); err != nil {
			return nil, fmt.Errorf("%s: a preview: %w", Name, err)
		}
	}
}

// skipRest skips what is left of a list.
func skipRest(d *jsontext.Decoder) error {
	for d.PeekKind() != ']' {
		if err := d.SkipValue(); err != nil {
			return fmt.Errorf("%s: a stored value: %w", Name, err)
		}
	}
	return nil
}
