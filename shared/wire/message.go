package wire

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/tool"
)

// The error codes of JSON-RPC 2.0.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// A fault is a JSON-RPC error. Its message is made of constants, offsets and
// limits and never of input.
type fault struct {
	code    int
	message string
	data    *faultData
}

func refuse(code int, message string) *fault { return &fault{code: code, message: message} }

// A message is one line after reading. A message without id is a notification.
type message struct {
	id     jsontext.Value // as sent; nil in a notification
	method string
	params jsontext.Value // as sent; nil when absent
}

var lineTooLong = refuse(codeInvalidRequest, fmt.Sprintf("the line is longer than %d bytes", MaxLine))

// readMessage reads one line. Beside a fault, the message's id is set if it
// could be read.
func readMessage(line []byte) (message, *fault) {
	if len(line) > MaxLine {
		return message{}, lineTooLong
	}
	if err := canon.CheckGrammar(line); err != nil {
		return message{}, refuse(codeParse, err.Error()) // a SyntaxError quotes nothing
	}
	all, ok := members(line)
	if !ok {
		return message{}, refuse(codeInvalidRequest, "a message is a JSON object; batches are lines, not arrays")
	}
	var (
		m                          message
		version, method            jsontext.Value
		unknown, badID, hasVersion bool
	)
	for _, member := range all {
		switch member.name {
		case "jsonrpc":
			version, hasVersion = member.value, true
		case "id":
			switch kind := member.value.Kind(); {
			case kind != '"' && kind != '0', len(member.value) > MaxID:
				badID = true
			default:
				m.id = member.value
			}
		case "method":
			method = member.value
		case "params":
			m.params = member.value
		default:
			unknown = true
		}
	}
	switch {
	case badID:
		return m, refuse(codeInvalidRequest, fmt.Sprintf("id must be a string or a number of at most %d bytes", MaxID))
	case !hasVersion || text(version) != "2.0":
		return m, refuse(codeInvalidRequest, `jsonrpc must be "2.0"`)
	case method == nil:
		return m, refuse(codeInvalidRequest, "method is missing")
	case method.Kind() != '"':
		return m, refuse(codeInvalidRequest, "method must be a string")
	case unknown:
		return m, refuse(codeInvalidRequest, "a message has the members jsonrpc, id, method and params and no other one")
	}
	m.method = text(method)
	return m, nil
}

type member struct {
	name  string         // unescaped
	value jsontext.Value // as it stands in the text, no space around
}

// members returns the members of an object in their order; false if the text is
// no object. The text is strict JSON: it was checked as a part of its line. The
// values are parts of the text, not copies.
func members(object []byte) ([]member, bool) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true)) // there are none
	if decoder.PeekKind() != '{' {
		return nil, false
	}
	var list []member
	for read := 0; ; read++ {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, false
		}
		if token.Kind() == '}' {
			return list, true
		}
		if read == 0 {
			continue
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, false
		}
		end := int(decoder.InputOffset())
		list = append(list, member{name, object[end-len(value) : end : end]})
	}
}

// text returns the characters of a JSON string, and "" for any other value.
func text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	out, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(out)
}

// A call is the params of tools/call.
type call struct {
	name      string
	arguments jsontext.Value
	assistant *tool.Assistant
}

var noArguments = jsontext.Value("{}")

// readParams reads the params of tools/call.
func readParams(params jsontext.Value) (call, *fault) {
	if params == nil {
		return call{}, refuse(codeInvalidParams, "params of tools/call are missing")
	}
	all, ok := members(params)
	if !ok {
		return call{}, refuse(codeInvalidParams, "params of tools/call must be an object")
	}
	c := call{arguments: noArguments}
	var name jsontext.Value
	for _, member := range all {
		switch member.name {
		case "name":
			name = member.value
		case "arguments":
			if member.value.Kind() != '{' {
				return call{}, refuse(codeInvalidParams, "arguments must be an object")
			}
			c.arguments = member.value
		case "_meta":
			var f *fault
			if c.assistant, f = readMeta(member.value); f != nil {
				return call{}, f
			}
		case "task":
			return call{}, refuse(codeInvalidParams, "MCP Tasks are not supported: a Run is started by pxflow_run")
		default:
			return call{}, refuse(codeInvalidParams, "params of tools/call are name, arguments and _meta and no other one")
		}
	}
	switch {
	case name == nil:
		return call{}, refuse(codeInvalidParams, "name is missing")
	case name.Kind() != '"':
		return call{}, refuse(codeInvalidParams, "name must be a string")
	}
	c.name = text(name)
	return c, nil
}

// maxAssistant bounds provider and model, in bytes: they go into every commit.
const maxAssistant = 256

var errAssistant = refuse(codeInvalidParams, fmt.Sprintf("px/assistant must be {provider, model}, each a string of 1 to %d bytes without control characters", maxAssistant))

// readMeta reads what is used of _meta.
func readMeta(meta jsontext.Value) (*tool.Assistant, *fault) {
	all, ok := members(meta)
	if !ok {
		return nil, refuse(codeInvalidParams, "_meta must be an object")
	}
	for _, member := range all {
		if member.name != "px/assistant" {
			continue
		}
		parts, ok := members(member.value)
		if !ok || len(parts) != 2 {
			return nil, errAssistant
		}
		assistant := &tool.Assistant{}
		for _, part := range parts {
			value := text(part.value)
			if value == "" || len(value) > maxAssistant || hasControl(value) {
				return nil, errAssistant
			}
			switch part.name {
			case "provider":
				assistant.Provider = value
			case "model":
				assistant.Model = value
			default:
				return nil, errAssistant
			}
		}
		return assistant, nil
	}
	return nil, nil
}

func hasControl(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return true
		}
	}
	return false
}

// errOnePage refuses a cursor to a list that has one page: none was ever issued.
const errOnePage Refusal = "the catalog has one page: there is no cursor to it"

// readList reads the params of tools/list, of a list of one page.
func readList(params jsontext.Value) *fault {
	cursor, f := readPage(params)
	if f == nil && cursor != nil {
		f = refuse(codeInvalidParams, string(errOnePage))
	}
	return f
}

// readPage reads the params of tools/list, and the cursor in it.
func readPage(params jsontext.Value) (cursor *string, _ *fault) {
	if params == nil {
		return nil, nil
	}
	all, ok := members(params)
	if !ok {
		return nil, refuse(codeInvalidParams, "params of tools/list must be an object")
	}
	for _, member := range all {
		switch member.name {
		case "_meta":
			if _, f := readMeta(member.value); f != nil {
				return nil, f
			}
		case "cursor":
			if member.value.Kind() != '"' {
				return nil, refuse(codeInvalidParams, "cursor must be a string")
			}
			at := text(member.value)
			cursor = &at
		default:
			return nil, refuse(codeInvalidParams, "params of tools/list are cursor and _meta and no other one")
		}
	}
	return cursor, nil
}

var errEnvelope = errors.New("wire: the tool's answer is not an envelope on one line")

// checkEnvelope makes sure that an answer can stand in a reply line as it is:
// one strict JSON object with exactly the members of an envelope (E1) and no line
// end. It returns the answer without white space around it.
func checkEnvelope(answer []byte) (jsontext.Value, error) {
	answer = bytes.TrimSpace(answer)
	if bytes.ContainsAny(answer, "\n\r") || !jsontext.Value(answer).IsValid() {
		return nil, errEnvelope
	}
	all, ok := members(answer)
	if !ok || len(all) != 4 {
		return nil, errEnvelope
	}
	kinds := map[string]jsontext.Kind{}
	for _, member := range all {
		kinds[member.name] = member.value.Kind()
	}
	okKind := kinds["ok"]
	switch {
	case okKind != 't' && okKind != 'f', kinds["diagnostics"] != '[', kinds["resources"] != '[':
		return nil, errEnvelope
	case okKind == 't' && kinds["data"] != '{', okKind == 'f' && kinds["data"] != 'n':
		return nil, errEnvelope
	}
	return answer, nil
}
