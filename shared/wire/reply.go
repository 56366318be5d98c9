package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A reply line is written from its raw parts, so that an id and an envelope are
// the bytes that came.
const (
	replyHead    = `{"jsonrpc":"2.0","id":`
	resultHead   = `,"result":`
	envelopeHead = `{"content":[],"structuredContent":`
	envelopeTail = `,"isError":false}`
	replyTail    = "}\n"
)

func appendID(line []byte, id jsontext.Value) []byte {
	line = append(line, replyHead...)
	if id == nil {
		return append(line, "null"...)
	}
	return append(line, id...)
}

func resultLine(id jsontext.Value, parts ...[]byte) []byte {
	size := len(replyHead) + len(id) + len(resultHead) + len(replyTail)
	for _, part := range parts {
		size += len(part)
	}
	line := appendID(make([]byte, 0, size), id)
	line = append(line, resultHead...)
	for _, part := range parts {
		line = append(line, part...)
	}
	return append(line, replyTail...)
}

func envelopeLine(id, envelope jsontext.Value) []byte {
	return resultLine(id, []byte(envelopeHead), envelope, []byte(envelopeTail))
}

// faultData is the data of a -32603 error.
type faultData struct {
	// Retryable says whether the same line may succeed when sent again.
	Retryable bool
	// Reason is one of the Reason constants.
	Reason Reason
	// Outcome is what is known of the call's effect.
	Outcome Outcome
}

func faultLine(id jsontext.Value, f *fault) []byte {
	line := appendID(nil, id)
	line = append(line, `,"error":{"code":`...)
	line = strconv.AppendInt(line, int64(f.code), 10)
	line = append(line, `,"message":`...)
	line = appendString(line, f.message)
	if f.data != nil {
		line = append(line, `,"data":{"retryable":`...)
		line = strconv.AppendBool(line, f.data.Retryable)
		line = append(line, `,"reason":`...)
		line = appendString(line, string(f.data.Reason))
		line = append(line, `,"outcome":`...)
		line = appendString(line, string(f.data.Outcome))
		line = append(line, '}')
	}
	line = append(line, '}')
	return append(line, replyTail...)
}

func appendString(line []byte, s string) []byte {
	line, err := jsontext.AppendQuote(line, s)
	if err != nil {
		panic("wire: a message is not UTF-8") // messages are constants
	}
	return line
}

// EscapedLen returns how many bytes strict JSON text takes inside a JSON string:
// each quote, backslash and white-space control takes one more. Such text holds
// no other control character, and nothing else is escaped by the gateway.
func EscapedLen(text []byte) int {
	n := len(text)
	for _, c := range text {
		if c == '"' || c == '\\' || c < 0x20 {
			n++
		}
	}
	return n
}
