package attribute

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pxhost/pxhost/infra/local/dynamodb/decimal"
)

// The stored form of an item is the number of its attributes, then name and
// value of each in byte order of the names. Equal items have equal bytes.
//
//	string  = uvarint length, bytes
//	value   = kind byte, content
//	content = string (S, B; N as its canonical text) | 0 or 1 (BOOL) | nothing (NULL)
//	        | uvarint count, values (sets, L) | item (M)

var errStored = errors.New("attribute: stored item is damaged")

// AppendStored appends the stored form of the item.
func (m Map) AppendStored(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m)))
	for _, name := range m.SortedNames() {
		dst = appendString(dst, name)
		dst = m[name].appendStored(dst)
	}
	return dst
}

func (v Value) appendStored(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case S, B:
		dst = appendString(dst, v.text)
	case N:
		dst = appendString(dst, v.number.String())
	case BOOL:
		dst = append(dst, 0)
		if v.flag {
			dst[len(dst)-1] = 1
		}
	case SS, NS, BS, L:
		dst = binary.AppendUvarint(dst, uint64(len(v.list)))
		for _, e := range v.list {
			dst = e.appendStored(dst)
		}
	case M:
		dst = v.fields.AppendStored(dst)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// ReadStored reads what AppendStored wrote. It keeps no reference to src.
func ReadStored(src []byte) (Map, error) {
	r := storedReader{rest: src}
	m := r.fields()
	if r.err == nil && len(r.rest) != 0 {
		r.err = fmt.Errorf("%w: %d bytes left", errStored, len(r.rest))
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

type storedReader struct {
	rest []byte
	err  error
}

func (r *storedReader) fail() { r.err, r.rest = errStored, nil }

func (r *storedReader) count() int {
	n, size := binary.Uvarint(r.rest)
	// Every counted thing takes at least one byte.
	if size <= 0 || n > uint64(len(r.rest)-size) {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *storedReader) bytes(n int) string {
	if n > len(r.rest) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *storedReader) fields() Map {
	n := r.count()
	m := make(Map, n)
	for range n {
		name := r.bytes(r.count())
		m[name] = r.value()
	}
	return m
}

func (r *storedReader) value() Value {
	head := r.bytes(1)
	if r.err != nil {
		return Value{}
	}
	switch v := (Value{kind: Kind(head[0])}); v.kind {
	case S, B:
		v.text = r.bytes(r.count())
		return v
	case N:
		number, err := decimal.Parse(r.bytes(r.count()))
		if err != nil {
			r.fail()
		}
		v.number = number
		return v
	case BOOL:
		v.flag = r.bytes(1) == "\x01"
		return v
	case NULL:
		return v
	case SS, NS, BS, L:
		n := r.count()
		v.list = make([]Value, 0, n)
		for range n {
			v.list = append(v.list, r.value())
		}
		return v
	case M:
		v.fields = r.fields()
		return v
	}
	r.fail()
	return Value{}
}
