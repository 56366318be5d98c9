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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/tool"
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

// The members of _meta in which a caller asks for another size, and names a call of a
// tool that has no commandId of its own.
const (
	bytesKey = "px/maxBytes"
	nameKey  = "px/idempotencyKey"
)

// maxKey is the most bytes of such a name.
const maxKey = 200

// The error codes of MCP itself.
const (
	codeHeaders = -32020 // the headers do not say what the body says
	codeVersion = -32022
)

// A Standard answers ordinary MCP clients over the Streamable HTTP transport of both
// eras (W9): the tools of a Toolset. It keeps nothing between two requests.
//
// The answer of a tool stands twice in a result: as structuredContent, and as its own
// JSON text in content, since some clients show a model only that. Both are the same
// bytes. What does not fit the size that the caller takes is cut by the tool's own
// budget, which says so and tells how to go on.
type Standard struct {
	tools        Toolset
	server       []byte // the Implementation of this server
	instructions []byte // a JSON string
	requestTime  time.Duration
}

// A Toolset is whose tools a Standard serves. An error that is a Refusal refuses the
// params of the request; any other one is a failure of the call (see Failure).
type Toolset interface {
	// Tools returns a page of the tools, a JSON array on one line, and the cursor to the
	// next one, "" after the last. A nil cursor is the first page.
	Tools(ctx context.Context, caller Caller, cursor *string) (page []byte, next string, err error)
	// Lasting reports whether the tools are the same for everybody, for as long as this
	// program runs.
	Lasting() bool
	// Call calls a tool once.
	Call(ctx context.Context, caller Caller, q ToolCall) (ToolAnswer, error)
}

// A ToolCall is a call of a tool as an ordinary client sends it.
type ToolCall struct {
	Name      string
	Arguments jsontext.Value // an object
	Assistant *tool.Assistant
	// Key is what the caller names the call by, so that the same one again is not done
	// twice; "" is that it names it by nothing.
	Key string
	// Bytes is the most that the envelope may take, serialized and escaped.
	Bytes int
}

// A ToolAnswer is the envelope of a call, on one line, and whether a model should take
// it for an error.
type ToolAnswer struct {
	Envelope jsontext.Value
	IsError  bool
}

// A Refusal is why the params of a request are refused. It is a constant, and told to
// the caller.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// What a Toolset refuses most.
const (
	ErrNoTool   Refusal = "there is no such tool"
	ErrNoCursor Refusal = "the cursor is none of this list"
)

// NewStandard returns the standard door of a Toolset. The version is that of the tools'
// contract; the instructions tell a model how to begin. What a request may take is 28 s.
func NewStandard(tools Toolset, version, instructions string) (*Standard, error) {
	server, err := json.Marshal(map[string]string{"name": "pxhost", "title": "pxhost", "version": version}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("wire: version: %w", err)
	}
	text, err := json.Marshal(instructions)
	if err != nil {
		return nil, fmt.Errorf("wire: instructions: %w", err)
	}
	return &Standard{tools, server, text, requestTime}, nil
}

// Of returns the same door with other tools.
func (s *Standard) Of(tools Toolset) *Standard {
	out := *s
	out.tools = tools
	return &out
}

// fixed are the tools of the formal wire, by its own Dispatcher: what it refuses is
// refused here.
type fixed struct {
	dispatcher *Dispatcher
	page       []byte
}

// Toolset returns the tools of a Dispatcher for ordinary clients, which show a person the
// title of a tool rather than its name. The formal list has none: a model reads the name.
func (d *Dispatcher) Toolset(titles map[string]string) Toolset {
	return fixed{d, titled(d.catalog, titles)}
}

// titled writes the titles into a list of tools, where clients of either era look.
func titled(list []byte, titles map[string]string) []byte {
	var entries []jsontext.Value
	if err := json.Unmarshal(list, &entries); err != nil {
		return list // New has read it
	}
	out := []byte("[")
	for i, entry := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		all, _ := members(entry)
		title := ""
		for _, one := range all {
			if one.name == "name" {
				title = titles[text(one.value)]
			}
		}
		if title == "" {
			out = append(out, entry...)
			continue
		}
		inside := appendString([]byte(`"title":`), title)
		out = append(append(out, '{'), inside...)
		for _, one := range all {
			out = append(appendString(append(out, ','), one.name), ':')
			if more := len(one.value) > len("{}"); one.name == "annotations" {
				out = append(append(out, '{'), inside...)
				if more {
					out = append(out, ',')
				}
				out = append(out, one.value[1:]...)
				continue
			}
			out = append(out, one.value...)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

func (f fixed) Lasting() bool { return true }

func (f fixed) Tools(_ context.Context, _ Caller, cursor *string) ([]byte, string, error) {
	if cursor != nil {
		return nil, "", errOnePage
	}
	return f.page, "", nil
}

// Call calls a tool. What it refuses is told as an error of the tool, which clients hand
// to the model, so that it can mend its call.
func (f fixed) Call(ctx context.Context, caller Caller, q ToolCall) (ToolAnswer, error) {
	if !f.dispatcher.has(q.Name) {
		return ToolAnswer{}, ErrNoTool
	}
	envelope, failure := f.dispatcher.envelope(ctx, caller.Principal, caller.RequestID, call{q.Name, q.Arguments, q.Assistant}, q.Bytes)
	if failure != nil {
		return ToolAnswer{}, failure
	}
	return ToolAnswer{envelope, refused(envelope)}, nil
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
	ctx, cancel := context.WithTimeout(ctx, s.requestTime)
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
	if version, has := in.Headers["mcp-protocol-version"]; body[0] == '[' && (!has || version == batched) {
		return s.batch(ctx, caller, in.Headers, body)
	}
	return s.message(ctx, caller, in.Headers, body, MostBytes, bad)
}

// message answers one message, whose answer takes at most so many bytes.
func (s *Standard) message(ctx context.Context, caller Caller, headers map[string]string, body []byte, most int, bad func(int, jsontext.Value, *fault) Reply) Reply {
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
	meta.bytes = min(meta.bytes, most)
	m.params = known(m.params, m.method)
	if meta.version != "" || headers["mcp-protocol-version"] == Modern {
		return s.modern(ctx, caller, headers, m, meta)
	}
	return s.handshake(ctx, caller, headers, m, meta)
}

// batched is the one version of MCP in which a server must take several messages in an
// array; those before it are not spoken here, and those after it refuse one. Its clients
// send no header that says so.
const batched = "2025-03-26"

// batch answers several messages, side by side, in their order.
func (s *Standard) batch(ctx context.Context, caller Caller, headers map[string]string, body []byte) Reply {
	refused := func(status, code int, message string) Reply {
		return Reply{status, faultLine(nil, refuse(code, message))}
	}
	if err := canon.CheckGrammar(body); err != nil {
		return refused(http.StatusBadRequest, codeParse, err.Error()) // a SyntaxError quotes nothing
	}
	var list []jsontext.Value
	if err := json.Unmarshal(body, &list); err != nil || len(list) == 0 {
		return refused(http.StatusBadRequest, codeInvalidRequest, "a batch has at least one message")
	}
	if len(list) > MaxLines {
		return refused(http.StatusRequestEntityTooLarge, codeInvalidRequest, ErrTooManyLines.Error())
	}
	most, share := max(LeastBytes, MostBytes/len(list)), ReplyBytes/len(list)
	replies := make([][]byte, len(list))
	var wait sync.WaitGroup
	queue := make(chan int)
	for range min(SideBySide, len(list)) {
		wait.Go(func() {
			for i := range queue {
				one := Caller{caller.Principal, caller.RequestID + "." + strconv.Itoa(i+1)}
				replies[i] = s.element(ctx, one, headers, list[i], most, share)
			}
		})
	}
	for i := range list {
		queue <- i
	}
	close(queue)
	wait.Wait()
	replies = slices.DeleteFunc(replies, func(reply []byte) bool { return reply == nil })
	if len(replies) == 0 { // notifications only
		return Reply{Status: http.StatusAccepted}
	}
	return Reply{http.StatusOK, append(append([]byte("["), bytes.Join(replies, []byte(","))...), "]\n"...)}
}

// element answers one message of a batch, of which a tool may take most bytes and the whole
// reply its share as escaped; nil is that a notification has no answer.
func (s *Standard) element(ctx context.Context, caller Caller, headers map[string]string, message jsontext.Value, most, share int) []byte {
	m, f := readMessage(message)
	if f == nil && m.method == "initialize" {
		return bytes.TrimSuffix(faultLine(m.id, refuse(codeInvalidRequest, "initialize is no part of a batch")), []byte("\n"))
	}
	reply := s.message(ctx, caller, headers, message, most, func(status int, id jsontext.Value, f *fault) Reply {
		return Reply{status, faultLine(id, f)}
	})
	if reply.Body == nil {
		return nil
	}
	if EscapedLen(reply.Body) > share {
		reply.Body = faultLine(m.id, (&Failure{Reason: ReasonAnswerTooBig, Outcome: Done}).fault())
	}
	return bytes.TrimSuffix(reply.Body, []byte("\n"))
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
	key     string
}

const (
	versionKey = "io.modelcontextprotocol/protocolVersion"
	ableKey    = "io.modelcontextprotocol/clientCapabilities"
	serverKey  = "io.modelcontextprotocol/serverInfo"
)

var (
	errBytes = refuse(codeInvalidParams, fmt.Sprintf("%s must be an integer from %d to %d", bytesKey, LeastBytes, MostBytes))
	errKey   = refuse(codeInvalidParams, fmt.Sprintf("%s must be a string of 1 to %d bytes", nameKey, maxKey))
)

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
			case nameKey:
				if out.key = text(field.value); out.key == "" || len(out.key) > maxKey {
					return out, errKey
				}
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
	cached := func(lasting bool) []byte {
		if lasting {
			return []byte(`"resultType":"complete","ttlMs":300000,"cacheScope":"public",`)
		}
		return []byte(`"resultType":"complete","ttlMs":0,"cacheScope":"private",`)
	}
	switch m.method {
	case "server/discover":
		if f := readNothing(m.params, m.method); f != nil {
			return Reply{bad, faultLine(m.id, f)}
		}
		return Reply{http.StatusOK, resultLine(m.id, []byte(`{"supportedVersions":`+quoted(versions())+`,"capabilities":{"tools":{}},"instructions":`), s.instructions, []byte(","), cached(true), identified)}
	case "tools/list":
		return s.list(ctx, caller, m, bad, append(append([]byte(","), cached(s.tools.Lasting())...), identified...))
	case "tools/call":
		c, f := readParams(m.params)
		if f != nil {
			return Reply{bad, faultLine(m.id, f)}
		}
		switch name, err := decodeHeader(headers, "mcp-name"); {
		case err != nil:
			return refused(bad, codeHeaders, "the header Mcp-Name "+err.Error())
		case name != c.name:
			return refused(bad, codeHeaders, "the header Mcp-Name is not the name of the body")
		}
		return s.call(ctx, caller, m.id, c, meta, bad, append([]byte(`,"resultType":"complete",`), identified...))
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
		return s.list(ctx, caller, m, http.StatusOK, []byte("}"))
	case "tools/call":
		c, f := readParams(m.params)
		if f != nil {
			return fail(f)
		}
		return s.call(ctx, caller, m.id, c, meta, http.StatusOK, []byte("}"))
	}
	return fail(refuse(codeNoMethod, "the methods are initialize, ping, tools/list and tools/call"))
}

// list answers tools/list. bad is the status of a request whose params are refused.
func (s *Standard) list(ctx context.Context, caller Caller, m message, bad int, tail []byte) Reply {
	cursor, f := readPage(m.params)
	if f != nil {
		return Reply{bad, faultLine(m.id, f)}
	}
	page, next, err := s.tools.Tools(ctx, caller, cursor)
	if err != nil {
		return failed(m.id, err, bad)
	}
	more := []byte{}
	if next != "" {
		more = appendString([]byte(`,"nextCursor":`), next)
	}
	return Reply{http.StatusOK, resultLine(m.id, []byte(`{"tools":`), page, more, tail)}
}

// call answers tools/call.
func (s *Standard) call(ctx context.Context, caller Caller, id jsontext.Value, c call, meta standardMeta, bad int, tail []byte) Reply {
	answer, err := s.tools.Call(ctx, caller, ToolCall{c.name, c.arguments, c.assistant, meta.key, meta.bytes})
	if err != nil {
		return failed(id, err, bad)
	}
	mirror, err := jsontext.AppendQuote(nil, answer.Envelope)
	if err != nil {
		return failed(id, &Failure{Reason: ReasonAnswerInvalid, Outcome: Unknown}, bad)
	}
	isError := `,"isError":` + strconv.FormatBool(answer.IsError)
	return Reply{http.StatusOK, resultLine(id, []byte(`{"content":[{"type":"text","text":`), mirror, []byte(`}],"structuredContent":`), answer.Envelope, []byte(isError), tail)}
}

// failed answers what a Toolset could not.
func failed(id jsontext.Value, err error, bad int) Reply {
	var r Refusal
	if errors.As(err, &r) {
		return Reply{bad, faultLine(id, refuse(codeInvalidParams, string(r)))}
	}
	return Reply{http.StatusOK, faultLine(id, asFailure(err).fault())}
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

// known leaves of the params of a method what is read of them. MCP asks receivers to go
// on as if the rest were not there: a task that they do not offer (2025-11-25), an answer
// to what they never asked (2026-07-28). The arguments of a tool are not among that: the
// tool refuses what it does not know.
func known(params jsontext.Value, method string) jsontext.Value {
	names := []string{"_meta"}
	switch method {
	case "initialize":
		return params
	case "tools/list":
		names = []string{"_meta", "cursor"}
	case "tools/call":
		names = []string{"_meta", "name", "arguments"}
	}
	all, ok := members(params)
	if !ok {
		return params // its method refuses it
	}
	out := []byte("{")
	for _, one := range all {
		if slices.Contains(names, one.name) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = appendString(out, one.name)
			out = append(append(out, ':'), one.value...)
		}
	}
	return append(out, '}')
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

// readNothing holds params of which nothing but _meta is read to be an object.
func readNothing(params jsontext.Value, method string) *fault {
	if params == nil {
		return nil
	}
	if _, ok := members(params); !ok {
		return refuse(codeInvalidParams, "params of "+method+" must be an object") // a constant of ours
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
