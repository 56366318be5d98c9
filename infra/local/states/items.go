package states

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// readItems gives the items of an ItemReader's object one by one, compacted: the
// elements of one JSON array, or one JSON value a line. limit bounds them, 0
// does not: what lies behind it is not read, as MaxItems says. An item is at
// most maxPayload bytes long, since a child's input is; an empty line is
// refused, except that the last line may end in a line feed.
func readItems(object []byte, jsonl bool, limit int, yield func(item []byte) error) error {
	if jsonl {
		return readLines(object, limit, yield)
	}
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if d.PeekKind() != '[' {
		return errors.New("the object is not a JSON array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for n := 0; d.PeekKind() != ']'; n++ {
		if limit > 0 && n == limit {
			return nil
		}
		value, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("item %d is not JSON", n)
		}
		if err := readItem(value, n, yield); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return errors.New("the array does not end")
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the array")
	}
	return nil
}

func readLines(object []byte, limit int, yield func(item []byte) error) error {
	for n := 0; len(object) > 0; n++ {
		if limit > 0 && n == limit {
			return nil
		}
		var line []byte
		line, object, _ = bytes.Cut(object, []byte("\n"))
		if err := readItem(bytes.TrimSuffix(line, []byte("\r")), n, yield); err != nil {
			return err
		}
	}
	return nil
}

// readItem hands one item on. Its text is not in the error: it may be anything.
func readItem(text []byte, n int, yield func(item []byte) error) error {
	item, err := compactJSON(text)
	if err != nil {
		return fmt.Errorf("item %d is not JSON", n)
	}
	if len(item) > maxPayload {
		return fmt.Errorf("item %d is longer than %d bytes", n, maxPayload)
	}
	return yield(item)
}
