package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Modern is the version of MCP in which every request says for itself which version
// it is of. No session and no handshake is before it.
const Modern = "2026-07-28"

// Handshake are the versions that begin with initialize, the newest first. What is
// agreed there is not remembered: each request is answered by itself.
var Handshake = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

func versions() []string { return append([]string{Modern}, Handshake...) }

// The limits of what a caller may ask for as the size of an answer, in bytes. Ordinary
// clients give what a tool answers to a model, and cut what is too large for it: the
// usual one is about what the common ones take.
const (
	LeastBytes = 4 << 10
	UsualBytes = 64 << 10
	MostBytes  = 1 << 20
)

// bytesKey is the member of _meta in which a caller asks for another size.
const bytesKey = "px/maxBytes"

// The error codes of MCP itself.
const (
	codeHeaders = -32020 // the headers do not say what the body says
	codeVersion = -32022
)

// A Standard answers ordinary MCP clients over the Streamable HTTP transport of both
// eras (W9): the same tools, by the same Dispatcher. It keeps nothing between two
// requests, and what the formal wire refuses it does not make weaker.
//
// The answer of a tool stands twice in a result: as structuredContent, and as its own
// JSON text in content, since some clients show a model only that. Both are the same
// bytes. What does not fit the size that the caller takes is cut by the tool's own
// budget, which says so and tells how to go on.
type Standard struct {
	dispatcher   *Dispatcher
	server       []byte // the Implementation of this server
	instructions []byte // a JSON string
}

// NewStandard returns the standard door of a Dispatcher. The version is that of the
// tools' contract; the instructions tell a model how to begin.
func NewStandard(d *Dispatcher, version, instructions string) (*Standard, error) {
	server, err := json.Marshal(map[string]string{"name": "pxhost", "title": "pxhost", "version": version}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("wire: version: %w", err)
	}
	text, err := json.Marshal(instructions)
	if err != nil {
		return nil, fmt.Errorf("wire: instructions: %w", err)
	}
	return &Standard{d, server, text}, nil
}

// A Post is one request of the transport. The names of its headers are in lower case.
type Post struct {
	Headers map[string]string
	Body    []byte
}

// A Reply is its answer. One without a body is of a notification.
type Reply struct {
	Status int
	Body   []byte
}

// Serve answers one POST.
func (s *Standard) Serve(ctx context.Context, caller Caller, in Post) Reply {
	ctx, cancel := context.WithTimeout(ctx, s.dispatcher.requestTime)
	defer cancel()
	modern := in.Headers["mcp-protocol-version"] == Modern
	bad := func(status int, id jsontext.Value, f *fault) Reply {
		if id == nil && modern {
			return Reply{status, anonymous(f)}
		}
		return Reply{status, faultLine(id, f)}
	}
	body := bytes.TrimSpace(in.Body)
	switch {
	case len(in.Body) > MaxBody:
		return bad(http.StatusRequestEntityTooLarge, nil, refuse(codeInvalidRequest, ErrBodyTooLarge.Error()))
	case len(body) == 0:
		return bad(http.StatusBadRequest, nil, refuse(codeInvalidRequest, ErrNoMessage.Error()))
	}
	m, f := readMessage(body)
	if f != nil {
		return bad(http.StatusBadRequest, m.id, f)
	}
	if m.id == nil {
		if strings.HasPrefix(m.method, "notifications/") {
			return Reply{Status: http.StatusAccepted}
		}
		return bad(http.StatusBadRequest, nil, refuse(codeInvalidRequest, "a request has an id; only notifications have none"))
	}
	meta, f := readStandardMeta(m.params)
	if f != nil {
		return bad(http.StatusBadRequest, m.id, f)
	}
	if meta.version != "" || modern {
		return s.modern(ctx, caller, in.Headers, m, meta)
	}
	return s.handshake(ctx, caller, in.Headers, m, meta)
}

// anonymous is an error of a request whose id is not known. The schema of the modern
// version knows no id that is null.
func anonymous(f *fault) []byte {
	line := faultLine(nil, f)
	return append([]byte(`{"jsonrpc":"2.0"`), line[len(replyHead+"null"):]...)
}

// standardMeta is what is used of the _meta of a request.
type standardMeta struct {
	version string         // of a modern request
	able    jsontext.Value // the client's capabilities
	bytes   int
}

const (
	versionKey = "io.modelcontextprotocol/protocolVersion"
	ableKey    = "io.modelcontextprotocol/clientCapabilities"
	serverKey  = "io.modelcontextprotocol/serverInfo"
)

var errBytes = refuse(codeInvalidParams, fmt.Sprintf("%s must be an integer from %d to %d", bytesKey, LeastBytes, MostBytes))

// readStandardMeta reads it. Params that are no object have none; their method refuses
// them.
func readStandardMeta(params jsontext.Value) (standardMeta, *fault) {
	out := standardMeta{bytes: UsualBytes}
	all, ok := members(params)
	if !ok {
		return out, nil
	}
	for _, one := range all {
		if one.name != "_meta" {
			continue
		}
		fields, ok := members(one.value)
		if !ok {
			return out, refuse(codeInvalidParams, "_meta must be an object")
		}
		for _, field := range fields {
			switch field.name {
			case versionKey:
				if out.version = text(field.value); out.version == "" {
					return out, refuse(codeInvalidParams, versionKey+" must be a version of the protocol")
				}
			case ableKey:
				out.able = field.value
			case bytesKey:
				n, err := strconv.Atoi(string(field.value))
				if err != nil || n < LeastBytes || n > MostBytes {
					return out, errBytes
				}
				out.bytes = n
			}
		}
	}
	return out, nil
}

// modern answers a request that says everything for itself.
func (s *Standard) modern(ctx context.Context, caller Caller, headers map[string]string, m message, meta standardMeta) Reply {
	refused := func(status, code int, message string) Reply {
		return Reply{status, faultLine(m.id, refuse(code, message))}
	}
	const bad = http.StatusBadRequest
	switch version, has := headers["mcp-protocol-version"]; {
	case meta.version == "":
		return refused(bad, codeInvalidParams, "_meta must have "+versionKey)
	case !has:
		return refused(bad, codeHeaders, "the header MCP-Protocol-Version is missing")
	case version != meta.version:
		return refused(bad, codeHeaders, "the header MCP-Protocol-Version is not the version of the body")
	case version != Modern:
		return Reply{bad, unsupported(m.id, version)}
	case meta.able.Kind() != '{':
		return refused(bad, codeInvalidParams, "_meta must have "+ableKey+", an object")
	}
	switch method, has := headers["mcp-method"]; {
	case !has:
		return refused(bad, codeHeaders, "the header Mcp-Method is missing")
	case method != m.method:
		return refused(bad, codeHeaders, "the header Mcp-Method is not the method of the body")
	}
	identified := []byte(`"_meta":{"` + serverKey + `":` + string(s.server) + `}}`)
	cached := []byte(`"resultType":"complete","ttlMs":300000,"cacheScope":"public",`)
	switch m.method {
	case "server/discover":
		if f := readNothing(m.params, m.method); f != nil {
			return Reply{bad, faultLine(m.id, f)}
		}
		return Reply{http.StatusOK, resultLine(m.id, []byte(`{"supportedVersions":`+quoted(versions())+`,"capabilities":{"tools":{}},"instructions":`), s.instructions, []byte(","), cached, identified)}
	case "tools/list":
		if f := readList(m.params); f != nil {
			return Reply{bad, faultLine(m.id, f)}
		}
		list := s.dispatcher.list
		return Reply{http.StatusOK, resultLine(m.id, list[:len(list)-1], []byte(","), cached, identified)}
	case "tools/call":
		c, f := s.dispatcher.readCall(m.params)
		if f != nil {
			return Reply{bad, faultLine(m.id, f)}
		}
		switch name, err := decodeHeader(headers, "mcp-name"); {
		case err != nil:
			return refused(bad, codeHeaders, "the header Mcp-Name "+err.Error())
		case name != c.name:
			return refused(bad, codeHeaders, "the header Mcp-Name is not the name of the body")
		}
		return s.call(ctx, caller, m.id, c, meta.bytes, append([]byte(`,"resultType":"complete",`), identified...))
	}
	return refused(http.StatusNotFound, codeNoMethod, "the methods are server/discover, tools/list and tools/call")
}

// handshake answers a request of a version that begins with initialize.
func (s *Standard) handshake(ctx context.Context, caller Caller, headers map[string]string, m message, meta standardMeta) Reply {
	// A client that says no version is of one that does not say it yet, 2025-03-26.
	if version, has := headers["mcp-protocol-version"]; has && !slices.Contains(Handshake, version) && m.method != "initialize" {
		return Reply{http.StatusBadRequest, unsupported(m.id, version)}
	}
	fail := func(f *fault) Reply { return Reply{http.StatusOK, faultLine(m.id, f)} }
	switch m.method {
	case "initialize":
		version, f := readInitialize(m.params)
		if f != nil {
			return fail(f)
		}
		if !slices.Contains(Handshake, version) {
			version = Handshake[0] // a client that cannot speak it leaves
		}
		return Reply{http.StatusOK, resultLine(m.id, []byte(`{"protocolVersion":"`+version+`","capabilities":{"tools":{}},"serverInfo":`), s.server, []byte(`,"instructions":`), s.instructions, []byte("}"))}
	case "ping":
		if f := readNothing(m.params, m.method); f != nil {
			return fail(f)
		}
		return Reply{http.StatusOK, resultLine(m.id, []byte("{}"))}
	case "tools/list":
		if f := readList(m.params); f != nil {
			return fail(f)
		}
		return Reply{http.StatusOK, resultLine(m.id, s.dispatcher.list)}
	case "tools/call":
		c, f := s.dispatcher.readCall(m.params)
		if f != nil {
			return fail(f)
		}
		return s.call(ctx, caller, m.id, c, meta.bytes, []byte("}"))
	}
	return fail(refuse(codeNoMethod, "the methods are initialize, ping, tools/list and tools/call"))
}

// call calls a tool. What it refuses is told as an error of the tool, which clients hand
// to the model, so that it can mend its call.
func (s *Standard) call(ctx context.Context, caller Caller, id jsontext.Value, c call, size int, tail []byte) Reply {
	envelope, failure := s.dispatcher.envelope(ctx, caller.Principal, caller.RequestID, c, size)
	if failure != nil {
		return Reply{http.StatusOK, faultLine(id, failure.fault())}
	}
	mirror, err := jsontext.AppendQuote(nil, envelope)
	if err != nil {
		return Reply{http.StatusOK, faultLine(id, (&Failure{Reason: ReasonAnswerInvalid, Outcome: Unknown}).fault())}
	}
	isError := `,"isError":false`
	if refused(envelope) {
		isError = `,"isError":true`
	}
	return Reply{http.StatusOK, resultLine(id, []byte(`{"content":[{"type":"text","text":`), mirror, []byte(`}],"structuredContent":`), envelope, []byte(isError), tail)}
}

// refused reports whether an envelope is of a failure.
func refused(envelope jsontext.Value) bool {
	all, _ := members(envelope)
	for _, one := range all {
		if one.name == "ok" {
			return one.value.Kind() == 'f'
		}
	}
	return false
}

// readInitialize reads what is used of the params of initialize.
func readInitialize(params jsontext.Value) (version string, _ *fault) {
	all, ok := members(params)
	if !ok {
		return "", refuse(codeInvalidParams, "params of initialize must be an object")
	}
	kinds := map[string]jsontext.Value{}
	for _, one := range all {
		kinds[one.name] = one.value
	}
	switch {
	case kinds["protocolVersion"].Kind() != '"':
		return "", refuse(codeInvalidParams, "protocolVersion must be a string")
	case kinds["capabilities"].Kind() != '{':
		return "", refuse(codeInvalidParams, "capabilities must be an object")
	case kinds["clientInfo"].Kind() != '{':
		return "", refuse(codeInvalidParams, "clientInfo must be an object")
	}
	return text(kinds["protocolVersion"]), nil
}

// readNothing holds params to be none, but for _meta.
func readNothing(params jsontext.Value, method string) *fault {
	if params == nil {
		return nil
	}
	all, ok := members(params)
	if !ok || len(all) > 1 || len(all) == 1 && all[0].name != "_meta" {
		return refuse(codeInvalidParams, "params of "+method+" are _meta and no other one") // a constant of ours
	}
	return nil
}

// plain is a text of which it is safe to tell back which version it was: that it is told
// is what the protocol asks for.
var plain = regexp.MustCompile(`^[A-Za-z0-9.-]{1,32}$`)

// unsupported is the error of a version that is not spoken here.
func unsupported(id jsontext.Value, version string) []byte {
	if !plain.MatchString(version) {
		version = ""
	}
	line := appendID(nil, id)
	line = append(line, `,"error":{"code":`...)
	line = strconv.AppendInt(line, codeVersion, 10)
	line = append(line, `,"message":"this version of the protocol is not supported","data":{"supported":`...)
	line = append(line, quoted(versions())...)
	line = append(line, `,"requested":`...)
	line = appendString(line, version)
	line = append(line, `}}`...)
	return append(line, replyTail...)
}

// quoted is a JSON array of constants.
func quoted(list []string) string { return `["` + strings.Join(list, `","`) + `"]` }

var (
	errHeaderMissing = errors.New("is missing")
	errHeaderText    = errors.New("is no header value")
)

// decodeHeader reads a header that may be in the transport's own base64 form.
func decodeHeader(headers map[string]string, name string) (string, error) {
	value, has := headers[name]
	if !has {
		return "", errHeaderMissing
	}
	for _, c := range []byte(value) {
		if c != '\t' && (c < ' ' || c > '~') {
			return "", errHeaderText
		}
	}
	coded, begins := strings.CutPrefix(value, "=?base64?")
	coded, ends := strings.CutSuffix(coded, "?=")
	if !begins || !ends {
		return value, nil
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || !utf8.Valid(decoded) {
		return "", errHeaderText
	}
	return string(decoded), nil
}
