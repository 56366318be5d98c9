// Package mcphttp is the adapter mcp_http: one tool of an MCP server outside, over
// Streamable HTTP (A7). A call is a session of three POSTs: initialize,
// notifications/initialized, tools/call. Only the last can have an effect; once a byte
// of it may have left, nothing but a definite answer to it is an answer, and it is not
// repeated (A9).
//
// Two refusals say for certain that the tool was not called, and each is followed by one
// more session: 401, where the Connection can be refreshed, and 404 to a session that the
// server has forgotten.
package mcphttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/template"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/schema"
)

// Versions are the protocol versions that are spoken.
var Versions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// A Sender sends requests; *outbound.Client does.
type Sender interface {
	Send(ctx context.Context, q outbound.Request) (*outbound.Response, error)
}

// Credentials give the secret of a Connection at the moment of a call, and a new one
// where the service refused it and the Connection has a way to get one.
type Credentials interface {
	Bearer(ctx context.Context, c capability.Call) (string, error)
	// Refresh returns capability.ErrNoRefresh where there is no way.
	Refresh(ctx context.Context, c capability.Call, refused string) (string, error)
	// Refused notes that the service took the secret for none.
	Refused(ctx context.Context, c capability.Call, refused string) error
}

// Adapter implements capability.Adapter.
type Adapter struct {
	Sender      Sender
	Credentials Credentials
	// Sleep waits between attempts; it returns early when ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Call calls the tool that the capability declares.
func (a Adapter) Call(ctx context.Context, c capability.Call) (capability.Result, error) {
	runtime, findings := capability.ReadRuntime(c.Capability.Runtime, "")
	if findings != nil || runtime.MCPHTTP == nil || c.Connector == nil {
		return capability.Result{}, errors.New("mcphttp: the runtime is another adapter's")
	}
	arguments := c.Arguments
	if runtime.MCPHTTP.ArgumentTemplate != nil {
		given, err := template.Read(c.Arguments)
		if err != nil {
			return capability.Result{}, err
		}
		value, findings := template.ParseValue(runtime.MCPHTTP.ArgumentTemplate, "")
		if findings != nil {
			return capability.Result{}, errors.New("mcphttp: the template is none that is accepted")
		}
		if arguments, err = value.Render(given); err != nil {
			return capability.Result{}, capability.BadArgument(err)
		}
	}
	bearer, err := a.Credentials.Bearer(ctx, c)
	if err != nil {
		return capability.Result{}, err
	}
	var policy capability.Retry
	if c.Connector.Retry != nil {
		policy = *c.Connector.Retry
	}
	backoff := time.Duration(policy.BackoffMs) * time.Millisecond
	refreshed, renewed := false, false
	for attempt := 1; ; {
		s := &session{a: a, c: c, url: strings.TrimSuffix(c.Connector.BaseURL, "/") + c.Connector.Path, bearer: bearer, version: runtime.MCPHTTP.ProtocolVersion}
		result, err := s.call(ctx, runtime.MCPHTTP.ToolName, arguments)
		if err == nil {
			return s.result(result)
		}
		var refused *refusal
		if errors.As(err, &refused) {
			switch {
			case refused.status == http.StatusUnauthorized && c.Connected():
				if !refreshed {
					refreshed = true
					next, err := a.Credentials.Refresh(ctx, c, bearer)
					if err == nil {
						bearer = next
						continue
					}
					if !errors.Is(err, capability.ErrNoRefresh) {
						return capability.Result{}, err
					}
				}
				return capability.Result{}, c.Required("rejected", a.Credentials.Refused(ctx, c, bearer))
			case refused.status == http.StatusForbidden && c.Connected():
				return capability.Result{}, c.Required("forbidden", nil)
			case refused.status == http.StatusNotFound && s.id != "" && !renewed:
				renewed = true
				continue
			}
		}
		again := s.again(err)
		if attempt >= policy.MaxAttempts || again == "" || !slices.Contains(policy.On, again) {
			return capability.Result{}, s.failure(err)
		}
		pause := backoff
		if refused != nil {
			pause = max(pause, refused.after)
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause || a.Sleep(ctx, pause) != nil {
			return capability.Result{}, s.failure(err)
		}
		backoff *= 2
		attempt++
	}
}

// A refusal is a status that is no success, and how long the server asks to be left
// alone.
type refusal struct {
	status int
	after  time.Duration
}

func (r *refusal) Error() string { return fmt.Sprintf("mcphttp: status %d", r.status) }

// A wrong is an answer that is none, by the rule that it breaks.
type wrong struct {
	rule string
	code int64 // of a JSON-RPC error
}

func (w *wrong) Error() string { return "mcphttp: the answer breaks the rule " + w.rule }

// definite says that the answer is one to the request, and a refusal.
func (w *wrong) definite() bool { return w.rule == "rpc_error" || w.rule == "tool_error" }

// session is one session.
type session struct {
	a       Adapter
	c       capability.Call
	url     string
	bearer  string
	version string
	id      string
	started bool
	sent    bool // whether tools/call may have left
}

// answer is a JSON-RPC answer.
type answer struct {
	JSONRPC string    `json:"jsonrpc"`
	ID      canon.Raw `json:"id"`
	Method  string    `json:"method"`
	Result  canon.Raw `json:"result"`
	Error   *struct {
		Code int64 `json:"code"`
	} `json:"error"`
}

func (s *session) call(ctx context.Context, tool string, arguments canon.Raw) (canon.Raw, error) {
	hello, err := s.request(ctx, 1, "initialize", map[string]any{"protocolVersion": s.version, "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "pxhost", "version": "1"}})
	if err != nil {
		return nil, err
	}
	var said struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(hello, &said) != nil || !slices.Contains(Versions, said.ProtocolVersion) {
		return nil, &wrong{rule: "protocol_version"}
	}
	s.version, s.started = said.ProtocolVersion, true
	if err := s.notify(ctx); err != nil {
		return nil, err
	}
	if err := s.c.Dispatch(ctx); err != nil {
		return nil, err
	}
	return s.request(ctx, 2, "tools/call", map[string]any{"name": tool, "arguments": arguments})
}

func (s *session) post(ctx context.Context, message any) (*outbound.Response, error) {
	text, err := canon.Encode(message)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if s.started {
		h.Set("MCP-Protocol-Version", s.version)
	}
	if s.id != "" {
		h.Set("Mcp-Session-Id", s.id)
	}
	if s.bearer != "" {
		h.Set("Authorization", "Bearer "+s.bearer)
	}
	return s.a.Sender.Send(ctx, outbound.Request{Method: http.MethodPost, URL: s.url, Header: h, Body: text})
}

// notify says that the session has begun.
func (s *session) notify(ctx context.Context) error {
	got, err := s.post(ctx, map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	if err != nil {
		return err
	}
	got.Body.Close()
	if got.Status < 200 || got.Status > 299 {
		return &refusal{got.Status, got.RetryAfter()}
	}
	return nil
}

// request sends a request and returns its result.
func (s *session) request(ctx context.Context, id int, method string, params any) (canon.Raw, error) {
	call := method == "tools/call"
	got, err := s.post(ctx, map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		failed := (*outbound.Error)(nil)
		s.sent = call && (!errors.As(err, &failed) || failed.Written)
		return nil, err
	}
	defer got.Body.Close()
	switch {
	case got.Status == http.StatusUnauthorized, got.Status == http.StatusForbidden, got.Status == http.StatusNotFound, got.Status == http.StatusBadRequest, got.Status == http.StatusTooManyRequests,
		got.Status == http.StatusServiceUnavailable, got.Status >= 300 && got.Status < 500:
		return nil, &refusal{got.Status, got.RetryAfter()} // it was not called
	}
	s.sent = call
	if got.Status != http.StatusOK {
		return nil, &refusal{got.Status, 0}
	}
	if method == "initialize" {
		s.id = got.Header.Get("Mcp-Session-Id")
		if len(s.id) > 1024 || strings.ContainsFunc(s.id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			return nil, &wrong{rule: "session_id"}
		}
	}
	kind, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/json":
		text, err := io.ReadAll(got.Body)
		if err != nil {
			return nil, err
		}
		result, _, err := s.read(text, id, true)
		return result, err
	case err == nil && kind == "text/event-stream":
		return s.stream(got.Body, id)
	}
	return nil, &wrong{rule: "content_type"}
}

// read reads a message; other is that it is no answer but something that the server says
// beside it.
func (s *session) read(text []byte, id int, only bool) (result canon.Raw, other bool, err error) {
	if canon.Check(text) != nil {
		return nil, false, &wrong{rule: "json"}
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || a.JSONRPC != "2.0" {
		return nil, false, &wrong{rule: "json_rpc"}
	}
	answered, _ := canon.Canonicalize(a.ID) // of none it is none
	switch {
	case a.Method != "" && !only:
		return nil, true, nil
	case string(answered) != fmt.Sprint(id):
		return nil, false, &wrong{rule: "id"}
	case a.Error != nil:
		return nil, false, &wrong{"rpc_error", a.Error.Code}
	case a.Result.Kind() != '{':
		return nil, false, &wrong{rule: "result"}
	}
	return a.Result, false, nil
}

// stream reads events until the answer comes. What the server asks or tells meanwhile is
// not answered: this client has no capabilities that it could ask for.
func (s *session) stream(body io.Reader, id int) (canon.Raw, error) {
	lines := bufio.NewReader(body)
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // an event that no empty line ends is none
			return nil, &wrong{rule: "no_answer"}
		}
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch field, value, _ := bytes.Cut(line, []byte(":")); {
		case len(line) == 0 && len(data) > 0:
			result, other, err := s.read(data, id, false)
			if !other {
				return result, err
			}
			data = nil
		case string(field) == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}
}

// result makes a result of what a tool gave. What binary64 would round, as it does IDs of
// 64 bits, is not passed on as another number.
func (s *session) result(given canon.Raw) (capability.Result, error) {
	var text canon.Raw
	if schema.DecodeAt(given, "", &text) != nil {
		return capability.Result{}, s.failure(&wrong{rule: "range"})
	}
	var r struct {
		Content           []canon.Raw `json:"content"`
		StructuredContent canon.Raw   `json:"structuredContent"`
		IsError           bool        `json:"isError"`
	}
	if json.Unmarshal(text, &r) != nil || r.Content == nil && r.StructuredContent == nil {
		return capability.Result{}, s.failure(&wrong{rule: "result"})
	}
	if r.IsError {
		return capability.Result{}, s.failure(&wrong{rule: "tool_error"})
	}
	out := capability.Result{Summary: s.c.Capability.Title, Data: r.StructuredContent}
	for _, part := range r.Content {
		var text struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(part, &text) == nil && text.Type == "text" && strings.TrimSpace(text.Text) != "" {
			out.Summary = cut(text.Text)
			break
		}
	}
	if out.Data.Kind() != '{' {
		data, err := canon.Encode(map[string]any{"content": r.Content})
		if err != nil {
			return capability.Result{}, err
		}
		out.Data = data
	}
	return out, nil
}

// summaryLength is how much of a text the summary shows, in code points. All of it is in
// the data.
const summaryLength = 1000

func cut(text string) string {
	runes := []rune(text)
	if len(runes) > summaryLength {
		runes = append(runes[:summaryLength-1], '…')
	}
	return string(runes)
}

// again is by what the connector's policy may have a session tried again: only before
// tools/call may have left, or where it was refused.
func (s *session) again(err error) capability.RetryOn {
	failed, refused := (*outbound.Error)(nil), (*refusal)(nil)
	switch {
	case s.sent:
		return ""
	case errors.As(err, &refused):
		return capability.RetryOn(fmt.Sprint(refused.status))
	case errors.As(err, &failed):
		switch failed.Kind {
		case outbound.Unreachable, outbound.Broken, outbound.TimedOut:
			return capability.OnNetwork
		}
	}
	return ""
}

// failure says how a session failed.
func (s *session) failure(err error) error {
	failed, refused, bad := (*outbound.Error)(nil), (*refusal)(nil), (*wrong)(nil)
	f := &capability.Failure{Params: outcome.Params{}, Cause: err}
	switch {
	case errors.As(err, &refused):
		f.Params["status"] = refused.status
		f.Code = outcome.ExtensionResponseInvalid
		if refused.status == http.StatusTooManyRequests || !s.sent && refused.status >= 502 && refused.status <= 504 {
			f.Code = outcome.ExtensionNetworkRetryable
		}
	case errors.As(err, &bad):
		f.Params["rule"] = bad.rule
		if bad.rule == "rpc_error" {
			f.Params["rpcCode"] = bad.code
		}
		f.Code = outcome.ExtensionResponseInvalid
	case errors.As(err, &failed):
		switch failed.Kind {
		case outbound.Blocked:
			f.Code, f.Params["rule"] = outcome.ExtensionPermissionDenied, "not_public"
		case outbound.TimedOut:
			f.Code = outcome.ExtensionTimeout
		case outbound.Unreachable, outbound.Broken:
			f.Code, f.Params["rule"] = outcome.ExtensionNetworkRetryable, string(failed.Kind)
		default:
			f.Code, f.Params["rule"] = outcome.ExtensionResponseInvalid, string(failed.Kind)
		}
	default:
		return err
	}
	if s.sent && (bad == nil || !bad.definite()) {
		f.Code = outcome.ExtensionOutcomeUnknown
	}
	return f
}
