package jsonata

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// evalPath answers a plain path natively. ok is false when JavaScript has to
// decide: arrays on the way (JSONata maps over them), numbers whose text is not
// what JavaScript would print, escaped names. A nil answer with ok means
// undefined.
func evalPath(path []string, b Bindings) (out []byte, ok bool) {
	var text []byte
	var found bool
	if path[0] == "states" {
		if b.States != nil {
			text, found = b.States(path[1])
		}
		path = path[2:]
	} else if b.Var != nil {
		text, found = b.Var(path[0])
		path = path[1:]
	}
	if !found {
		return nil, true
	}
	for _, name := range path {
		switch kind := first(text); kind {
		case '{':
		case '[':
			return nil, false
		default: // a member of a string, number, boolean or null is nothing
			return nil, true
		}
		var decided bool
		if text, decided = member(text, name); !decided {
			return nil, false
		}
		if text == nil {
			return nil, true
		}
	}
	if len(path) > 0 && first(text) == '[' {
		// The last step may unwrap or merge sequences; leave it to JavaScript
		// unless the array plainly stays what it is.
		if !plainArray(text) {
			return nil, false
		}
	}
	if !plainNumbers(text) {
		return nil, false
	}
	return bytes.Clone(text), true
}

func first(text []byte) byte {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 {
		return 0
	}
	return text[0]
}

// member finds the member of a JSON object. The last of several equal names
// would win in JavaScript: decided is false then, as when a name is escaped.
func member(object []byte, name string) (value []byte, decided bool) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, false // a duplicate name, for one
		}
		match := token.String() == name
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if match {
			if value != nil {
				return nil, false
			}
			value = bytes.Clone(v)
		}
	}
	if d.PeekKind() != '}' {
		return nil, false
	}
	return value, true
}

// plainArray tells whether a JSONata path that ends in this array gives it
// unchanged: no nested array that flattening could touch.
func plainArray(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() != ']' {
		if d.PeekKind() == '[' {
			return false
		}
		if err := d.SkipValue(); err != nil {
			return false
		}
	}
	return true
}

// plainNumbers tells whether every number in the text is written as JavaScript
// would write it: at most 15 digits, no exponent, no trailing zero, not -0 and
// not so small that JavaScript would turn to an exponent.
func plainNumbers(text []byte) bool {
	inString := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '-' || c >= '0' && c <= '9':
			start := i
			for i < len(text) && bytes.IndexByte([]byte("+-.eE0123456789"), text[i]) >= 0 {
				i++
			}
			if !plainNumber(text[start:i]) {
				return false
			}
			i--
		}
	}
	return true
}

func plainNumber(number []byte) bool {
	if string(number) == "-0" || bytes.ContainsAny(number, "eE+") || len(number) > 16 {
		return false
	}
	digits := bytes.TrimPrefix(number, []byte("-"))
	if len(digits) > 15 {
		return false
	}
	_, fraction, dotted := bytes.Cut(digits, []byte("."))
	return !dotted || len(fraction) > 0 && len(fraction) <= 6 && fraction[len(fraction)-1] != '0'
}
