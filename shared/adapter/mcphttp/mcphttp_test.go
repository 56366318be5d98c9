package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/adapter/mcphttp"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A reply is what a server answers to one message.
type reply struct {
	status  int
	kind    string // application/json if empty
	session string
	after   string
	body    string
	err     error // instead of an answer
	cut     error // in place of the end of the body
}

// A server answers initialize, notifications/initialized and tools/call, each by a list,
// one after another; the last for ever.
type server struct {
	initialize, initialized, call []reply
	asked                         map[string]int
	seen                          []string // method, session, version, authorization
	bodies                        []string
	dispatched                    int
	stale                         bool
	bearer, next                  string
	refreshes                     int
	pauses                        []time.Duration
	refused                       []string
}

func (s *server) Send(_ context.Context, q outbound.Request) (*outbound.Response, error) {
	var m struct {
		Method string    `json:"method"`
		ID     canon.Raw `json:"id"`
		Params canon.Raw `json:"params"`
	}
	if q.Method != http.MethodPost || q.URL != "https://mcp.example.com/v1/mcp" || json.Unmarshal(q.Body, &m) != nil || q.Header.Get("Accept") != "application/json, text/event-stream" {
		return nil, fmt.Errorf("not an MCP request: %+v", q)
	}
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	list := map[string][]reply{"initialize": s.initialize, "notifications/initialized": s.initialized, "tools/call": s.call}[m.Method]
	r := list[min(s.asked[m.Method], len(list)-1)]
	s.asked[m.Method]++
	s.seen = append(s.seen, strings.TrimSpace(strings.Join([]string{m.Method, q.Header.Get("Mcp-Session-Id"), q.Header.Get("MCP-Protocol-Version"), q.Header.Get("Authorization")}, " ")))
	s.bodies = append(s.bodies, string(q.Body))
	if r.err != nil {
		return nil, r.err
	}
	h := http.Header{}
	if r.kind == "" {
		r.kind = "application/json"
	}
	h.Set("Content-Type", r.kind)
	if r.after != "" {
		h.Set("Retry-After", r.after)
	}
	if r.session != "" {
		h.Set("Mcp-Session-Id", r.session)
	}
	var body io.Reader = strings.NewReader(r.body)
	if r.cut != nil {
		body = io.MultiReader(body, failing{r.cut})
	}
	return &outbound.Response{Status: r.status, Header: h, Body: io.NopCloser(body)}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s *server) Bearer(context.Context, capability.Call) (string, error) { return s.bearer, nil }

func (s *server) Refresh(_ context.Context, _ capability.Call, refused string) (string, error) {
	s.refreshes++
	if s.next == "" {
		return "", capability.ErrNoRefresh
	}
	return s.next, nil
}

func (s *server) Refused(_ context.Context, _ capability.Call, refused string) error {
	s.refused = append(s.refused, refused)
	return nil
}

func hello(version string) reply {
	return reply{status: 200, session: "s1", body: `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + version + `","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`}
}

func said(result string) reply {
	return reply{status: 200, body: `{"jsonrpc":"2.0","id":2,"result":` + result + `}`}
}

const found = `{"content":[{"type":"text","text":"찾았습니다"}],"structuredContent":{"n":1},"isError":false}`

// whole is a server that answers well.
func whole() *server {
	return &server{initialize: []reply{hello("2025-11-25")}, initialized: []reply{{status: 202}}, call: []reply{said(found)}}
}

const runtime = `{"adapter":"mcp_http","connector_id":"research_mcp","tool_name":"search","protocol_version":"2025-11-25","argument_template":{"query":"{query}"}}`

func (s *server) run(t *testing.T, runtime, arguments string, retry *capability.Retry) (capability.Result, error) {
	t.Helper()
	a := mcphttp.Adapter{Sender: s, Credentials: s, Sleep: func(_ context.Context, d time.Duration) error { s.pauses = append(s.pauses, d); return nil }}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	return a.Call(ctx, capability.Call{
		Capability: capability.Capability{Title: "제목", Runtime: canon.Raw(runtime)}, Arguments: canon.Raw(arguments),
		Connector: &capability.Connector{ConnectorID: "research_mcp", BaseURL: "https://mcp.example.com/v1", Path: "/mcp", Protocol: capability.MCP, Retry: retry},
		Dispatch: func(context.Context) error {
			if s.stale {
				return errors.New("stale")
			}
			s.dispatched++
			return nil
		}})
}

// The original's example.
//
// covers: A7
func TestACallIsASession(t *testing.T) {
	s := whole()
	s.bearer = "tok"
	got, err := s.run(t, runtime, `{"query":"거더","x":1}`, nil)
	if err != nil || got.Summary != "찾았습니다" || string(got.Data) != `{"n":1}` || s.dispatched != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if fmt.Sprint(s.seen) != "[initialize   Bearer tok notifications/initialized s1 2025-11-25 Bearer tok tools/call s1 2025-11-25 Bearer tok]" {
		t.Error(s.seen)
	}
	if s.bodies[2] != `{"id":2,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"query":"거더"},"name":"search"}}` {
		t.Error(s.bodies[2])
	}
	// Without a template the arguments are what was given; without a session there is none;
	// a version that the server prefers is spoken.
	s = whole()
	s.initialize = []reply{{status: 200, body: hello("2025-06-18").body}}
	if _, err := s.run(t, strings.Replace(runtime, `,"argument_template":{"query":"{query}"}`, "", 1), `{"x":1}`, nil); err != nil || !strings.Contains(s.bodies[2], `"arguments":{"x":1}`) || s.seen[2] != "tools/call  2025-06-18" {
		t.Error(s.bodies, s.seen, err)
	}
}

// covers: A7
func TestWhatAToolGivesIsAResult(t *testing.T) {
	stream := func(events ...string) reply {
		return reply{status: 200, kind: "text/event-stream; charset=utf-8", body: strings.Join(events, "")}
	}
	answer := `{"jsonrpc":"2.0","id":2,"result":` + found + `}`
	for name, c := range map[string]struct {
		reply         reply
		summary, data string
	}{
		"structured":                      {said(found), "찾았습니다", `{"n":1}`},
		"text alone":                      {said(`{"content":[{"type":"image","data":""},{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), "a", `{"content":[{"data":"","type":"image"},{"text":"a","type":"text"},{"text":"b","type":"text"}]}`},
		"no text":                         {said(`{"content":[]}`), "제목", `{"content":[]}`},
		"a long text":                     {said(`{"content":[{"type":"text","text":"` + strings.Repeat("가", 1001) + `"}],"structuredContent":{}}`), strings.Repeat("가", 999) + "…", `{}`},
		"a stream":                        {stream("event: message\ndata: " + answer + "\n\n"), "찾았습니다", `{"n":1}`},
		"a stream of Windows":             {stream("data: " + answer + "\r\n\r\n"), "찾았습니다", `{"n":1}`},
		"a stream with other messages":    {stream(": hello\n\n", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n\n", "id: 7\nretry: 5\ndata:"+answer+"\n\n", "data: x\n\n"), "찾았습니다", `{"n":1}`},
		"an answer in several data lines": {stream("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":2,\"result\":" + found + "}\n\n"), "찾았습니다", `{"n":1}`},
	} {
		s := whole()
		s.call = []reply{c.reply}
		got, err := s.run(t, runtime, `{"query":"x"}`, nil)
		if err != nil || got.Summary != c.summary || string(got.Data) != c.data {
			t.Errorf("%s: %q %s %v", name, got.Summary, got.Data, err)
		}
	}
}

func broken(kind outbound.Kind, written bool) error {
	return &outbound.Error{Kind: kind, Written: written, Cause: errors.New("cause")}
}

// Whatever is wrong has its own code; once the call may have left, nothing but a definite
// answer is one, and nothing is repeated.
//
// covers: A7, A9, C5, C6
func TestHowASessionFails(t *testing.T) {
	retry := &capability.Retry{MaxAttempts: 3, On: []capability.RetryOn{capability.OnNetwork, capability.On429, capability.On502, capability.On503, capability.On504}}
	on := func(change func(*server)) *server {
		s := whole()
		change(s)
		return s
	}
	call := func(r ...reply) *server { return on(func(s *server) { s.call = r }) }
	first := func(r ...reply) *server { return on(func(s *server) { s.initialize = r }) }
	type want struct {
		code  outcome.Code
		calls int // of tools/call
		hello int // of initialize
	}
	for name, c := range map[string]struct {
		s     *server
		retry *capability.Retry
		want
	}{
		"no connection":                        {first(reply{err: broken(outbound.Unreachable, false)}), nil, want{outcome.ExtensionNetworkRetryable, 0, 1}},
		"no connection, tried again":           {first(reply{err: broken(outbound.Unreachable, false)}), retry, want{outcome.ExtensionNetworkRetryable, 0, 3}},
		"initialize breaks, tried again":       {first(reply{err: broken(outbound.Broken, true)}), retry, want{outcome.ExtensionNetworkRetryable, 0, 3}},
		"initialize is too late":               {first(reply{err: broken(outbound.TimedOut, true)}), nil, want{outcome.ExtensionTimeout, 0, 1}},
		"a place that is not public":           {first(reply{err: broken(outbound.Blocked, false)}), retry, want{outcome.ExtensionPermissionDenied, 0, 1}},
		"a version that nobody speaks":         {first(hello("1999-01-01")), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"initialize with a wrong id":           {first(reply{status: 200, body: `{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":"2025-11-25"}}`}), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"initialize is refused by an error":    {first(reply{status: 200, body: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"secret"}}`}), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"a session that is none":               {first(reply{status: 200, session: "a b", body: hello("2025-11-25").body}), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"initialize answers nothing":           {first(reply{status: 202}), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"initialized is refused":               {on(func(s *server) { s.initialized = []reply{{status: 400}} }), retry, want{outcome.ExtensionResponseInvalid, 0, 1}},
		"401 for ever, and nothing to refresh": {first(reply{status: 401}), retry, want{outcome.ExtensionConnectionRequired, 0, 1}},
		"401 for ever":                         {on(func(s *server) { s.initialize, s.next = []reply{{status: 401}}, "new" }), retry, want{outcome.ExtensionConnectionRequired, 0, 2}},
		"401 of the call for ever":             {on(func(s *server) { s.call, s.next = []reply{{status: 401}}, "new" }), retry, want{outcome.ExtensionConnectionRequired, 2, 2}},
		"404 of the session for ever":          {call(reply{status: 404}), retry, want{outcome.ExtensionResponseInvalid, 2, 2}},
		"404 without a session": {on(func(s *server) {
			s.initialize = []reply{{status: 200, body: hello("2025-11-25").body}}
			s.call = []reply{{status: 404}}
		}), retry, want{outcome.ExtensionResponseInvalid, 1, 1}},
		"403":                     {call(reply{status: 403}), retry, want{outcome.ExtensionConnectionRequired, 1, 1}},
		"a redirect":              {call(reply{status: 307}), retry, want{outcome.ExtensionResponseInvalid, 1, 1}},
		"429, tried again":        {call(reply{status: 429}), retry, want{outcome.ExtensionNetworkRetryable, 3, 3}},
		"503, tried again":        {call(reply{status: 503}), retry, want{outcome.ExtensionNetworkRetryable, 3, 3}},
		"500":                     {call(reply{status: 500}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"502":                     {call(reply{status: 502}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"the call does not leave": {call(reply{err: broken(outbound.Unreachable, false)}), retry, want{outcome.ExtensionNetworkRetryable, 3, 3}},
		"the call leaves, and the connection breaks": {call(reply{err: broken(outbound.Broken, true)}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"the call leaves, and nothing comes":         {call(reply{err: broken(outbound.TimedOut, true)}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"half an answer":                             {call(reply{status: 200, body: `{"jsonrpc":"2.0","id":2,"res`, cut: broken(outbound.Broken, true)}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"an answer that ends too soon":               {call(reply{status: 200, body: `{"jsonrpc":"2.0","id":2,"res`}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"too much":                                   {call(reply{status: 200, body: "{", cut: broken(outbound.TooLarge, true)}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"half a stream":                              {call(reply{status: 200, kind: "text/event-stream", body: "data: {\"jsonrpc\"", cut: broken(outbound.Broken, true)}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"a stream without an answer":                 {call(reply{status: 200, kind: "text/event-stream", body: ": nothing\n\n"}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"a stream that ends within its answer":       {call(reply{status: 200, kind: "text/event-stream", body: "data: " + `{"jsonrpc":"2.0","id":2,"result":` + found + `}` + "\n"}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"nothing":                                    {call(reply{status: 202}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"a page":                                     {call(reply{status: 200, kind: "text/html", body: "secret"}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"a wrong id":                                 {call(reply{status: 200, body: `{"jsonrpc":"2.0","id":"2","result":{}}`}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"no result":                                  {call(reply{status: 200, body: `{"jsonrpc":"2.0","id":2}`}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"another version of JSON-RPC":                {call(reply{status: 200, body: `{"id":2,"result":{}}`}), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"an error":                                   {call(reply{status: 200, body: `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"secret"}}`}), retry, want{outcome.ExtensionResponseInvalid, 1, 1}},
		"isError":                                    {call(said(`{"content":[{"type":"text","text":"secret"}],"isError":true}`)), retry, want{outcome.ExtensionResponseInvalid, 1, 1}},
		"a number that would be rounded":             {call(said(`{"content":[],"structuredContent":{"id":12345678901234567890}}`)), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
		"a result without content":                   {call(said(`{"isError":false}`)), retry, want{outcome.ExtensionOutcomeUnknown, 1, 1}},
	} {
		_, err := c.s.run(t, runtime, `{"query":"secret"}`, c.retry)
		f := (*capability.Failure)(nil)
		if !errors.As(err, &f) || f.Code != c.code || c.s.asked["tools/call"] != c.calls || c.s.asked["initialize"] != c.hello {
			t.Errorf("%s: %v after %d calls in %d sessions, want %+v", name, err, c.s.asked["tools/call"], c.s.asked["initialize"], c.want)
			continue
		}
		if strings.Contains(fmt.Sprintf("%+v %v", f.Params, err), "secret") {
			t.Errorf("%s: %+v", name, f)
		}
		if f.Code == outcome.ExtensionNetworkRetryable && f.Params["rule"] == nil && f.Params["status"] == nil {
			t.Errorf("%s: nobody is told why", name)
		}
		if (c.s.dispatched > 0) != (c.calls > 0) {
			t.Errorf("%s: dispatched %d times", name, c.s.dispatched)
		}
	}
}

// covers: A7
func TestARefusedCredentialIsRefreshedOnce(t *testing.T) {
	for name, change := range map[string]func(*server){
		"at the beginning": func(s *server) { s.initialize = []reply{{status: 401}, hello("2025-11-25")} },
		"at the call":      func(s *server) { s.call = []reply{{status: 401}, said(found)} },
		"between":          func(s *server) { s.initialized = []reply{{status: 401}, {status: 202}} },
	} {
		s := whole()
		s.bearer, s.next = "old", "new"
		change(s)
		got, err := s.run(t, runtime, `{"query":"x"}`, nil)
		if err != nil || got.Summary != "찾았습니다" || s.refreshes != 1 || s.seen[len(s.seen)-1] != "tools/call s1 2025-11-25 Bearer new" {
			t.Errorf("%s: %v after %d, %v", name, err, s.refreshes, s.seen)
		}
	}
}

// A credential that is refused and cannot be renewed is noted, so that it is not used
// again; one that may not do this is none of that.
//
// covers: C5
func TestWhichCredentialWasRefusedIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server)
		noted  string
	}{
		"401, and nothing to refresh": {func(s *server) { s.initialize = []reply{{status: 401}} }, "[old]"},
		"401 for ever":                {func(s *server) { s.call, s.next = []reply{{status: 401}}, "new" }, "[new]"},
		"401 once":                    {func(s *server) { s.call, s.next = []reply{{status: 401}, said(found)}, "new" }, "[]"},
		"403":                         {func(s *server) { s.call, s.next = []reply{{status: 403}}, "new" }, "[]"},
	} {
		s := whole()
		s.bearer = "old"
		c.change(s)
		s.run(t, runtime, `{"query":"x"}`, nil)
		if fmt.Sprint(s.refused) != c.noted {
			t.Errorf("%s: noted %v", name, s.refused)
		}
	}
}

// covers: C6
func TestAServerIsLeftAloneAsLongAsItAsks(t *testing.T) {
	for name, c := range map[string]struct {
		after string
		slept string
	}{
		"longer than the policy": {"2", "[2s]"},
		"shorter":                {"0", "[10ms]"},
		"longer than there is":   {"3600", "[]"},
	} {
		s := whole()
		s.call = []reply{{status: 429, after: c.after}, said(found)}
		_, err := s.run(t, runtime, `{"query":"x"}`, &capability.Retry{MaxAttempts: 2, On: []capability.RetryOn{capability.On429}, BackoffMs: 10})
		if fmt.Sprint(s.pauses) != c.slept || (err == nil) != (len(s.pauses) == 1) {
			t.Errorf("%s: waited %v, %v", name, s.pauses, err)
		}
	}
}

func TestASessionThatTheServerForgotIsBegunAnew(t *testing.T) {
	s := whole()
	s.call = []reply{{status: 404}, said(found)}
	if _, err := s.run(t, runtime, `{"query":"x"}`, nil); err != nil || s.asked["initialize"] != 2 {
		t.Error(err, s.seen)
	}
}

func TestNothingIsCalledThatIsAnothers(t *testing.T) {
	s := whole()
	s.stale = true
	if _, err := s.run(t, runtime, `{"query":"x"}`, nil); err == nil || s.asked["tools/call"] != 0 {
		t.Error(err, s.seen)
	}
	s = whole()
	_, err := s.run(t, strings.Replace(runtime, `{"query":"{query}"}`, `{"query":"x {arguments.none}"}`, 1), `{"query":"secret"}`, nil)
	f := (*capability.Failure)(nil)
	if !errors.As(err, &f) || f.Code != outcome.ExtensionInputInvalid || len(s.seen) != 0 {
		t.Error(err)
	}
}
