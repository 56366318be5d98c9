package wire

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/tool"
)

func standard(t testing.TB, call Call) *Standard {
	t.Helper()
	s, err := NewStandard(dispatcher(t, call).Toolset(nil), "1", "Begin with project_search.")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	meta       = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	identified = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"pxhost","title":"pxhost","version":"1"}}`
	fresh      = `"resultType":"complete","ttlMs":300000,"cacheScope":"public",` + identified
	enveloped  = `{"ok":true,"data":{"tool":"pxflow_describe","arguments":{}},"diagnostics":[],"resources":[]}`
)

func headers(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func modernly(method string, more ...string) map[string]string {
	return headers(append([]string{"mcp-protocol-version", Modern, "mcp-method", method}, more...)...)
}

func request(method, params string) string {
	if params == "" {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

func resulting(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + "}\n" }

func mirrored(envelope string) string {
	quoted, err := jsontext.AppendQuote(nil, envelope)
	if err != nil {
		panic(err)
	}
	return `"content":[{"type":"text","text":` + string(quoted) + `}],"structuredContent":` + envelope
}

// inBatch is the reply to a batch.
func inBatch(replies ...string) string {
	for i := range replies {
		replies[i] = strings.TrimSuffix(replies[i], "\n")
	}
	return "[" + strings.Join(replies, ",") + "]\n"
}

func faulty(code int, message string) string { return errorLine("1", code, message) }

const versioned = `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"this version of the protocol is not supported","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"requested":"%s"}}}` + "\n"

// covers: W9
func TestTheStandardTransport(t *testing.T) {
	s := standard(t, echo)
	list := `"tools":` + testCatalog
	called := `"name":"pxflow_describe"`
	hello := `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	welcome := func(version string) string {
		return resulting(`{"protocolVersion":"` + version + `","capabilities":{"tools":{}},"serverInfo":{"name":"pxhost","title":"pxhost","version":"1"},"instructions":"Begin with project_search."}`)
	}
	encoded := "=?base64?" + base64.StdEncoding.EncodeToString([]byte("pxflow_describe")) + "?="
	for _, c := range []struct {
		name    string
		headers map[string]string
		body    string
		status  int
		want    string
	}{
		// Versions with a handshake.
		{"initialize agrees to a version that is spoken", nil, request("initialize", hello), 200, welcome("2025-06-18")},
		{"initialize of another version offers the newest", nil, request("initialize", strings.Replace(hello, "2025-06-18", "2024-11-05", 1)), 200, welcome("2025-11-25")},
		{"initialize never agrees to a version without a handshake", nil, request("initialize", strings.Replace(hello, "2025-06-18", Modern, 1)), 200, welcome("2025-11-25")},
		{"initialize may come under a header of any version", headers("mcp-protocol-version", "2024-11-05"), request("initialize", hello), 200, welcome("2025-06-18")},
		{"initialize without a version", nil, request("initialize", `"capabilities":{},"clientInfo":{}`), 200, faulty(-32602, "protocolVersion must be a string")},
		{"initialize without capabilities", nil, request("initialize", `"protocolVersion":"x","clientInfo":{}`), 200, faulty(-32602, "capabilities must be an object")},
		{"initialize of nobody", nil, request("initialize", `"protocolVersion":"x","capabilities":{}`), 200, faulty(-32602, "clientInfo must be an object")},
		{"initialize without params", nil, request("initialize", ""), 200, faulty(-32602, "params of initialize must be an object")},
		{"initialized", nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ""},
		{"a notification of what nobody knows", nil, `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`, 202, ""},
		{"a call without an id is not run", nil, strings.Replace(request("tools/call", called), `"id":1,`, "", 1), 400, errorLine("null", -32600, "a request has an id; only notifications have none")},
		{"ping", nil, request("ping", ""), 200, resulting("{}")},
		{"ping with what belongs to no ping", nil, request("ping", `"x":1`), 200, resulting("{}")},
		{"ping with params that are none", nil, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 200, faulty(-32602, "params of ping must be an object")},
		{"a list with what belongs to no list", nil, request("tools/list", `"limit":1`), 200, resulting(`{` + list + `}`)},
		{"the list, by a client that says no version", nil, request("tools/list", ""), 200, resulting(`{` + list + `}`)},
		{"the list, by one that says it", headers("mcp-protocol-version", "2025-11-25"), request("tools/list", `"_meta":{"progressToken":1}`), 200, resulting(`{` + list + `}`)},
		{"a page that there is not", nil, request("tools/list", `"cursor":"x"`), 200, faulty(-32602, "the catalog has one page: there is no cursor to it")},
		{"a call", headers("mcp-protocol-version", "2025-03-26"), request("tools/call", called), 200, resulting(`{` + mirrored(enveloped) + `,"isError":false}`)},
		{"a call on several lines", nil, strings.ReplaceAll(request("tools/call", called), ",", ",\r\n"), 200, resulting(`{` + mirrored(enveloped) + `,"isError":false}`)},
		{"a call of no tool", nil, request("tools/call", `"name":"x"`), 200, faulty(-32602, "there is no such tool")},
		{"a task, which is not offered here, is a call like any other", headers("mcp-protocol-version", "2025-11-25"), request("tools/call", called+`,"task":{"ttl":1}`), 200, resulting(`{` + mirrored(enveloped) + `,"isError":false}`)},
		{"arguments that are no object", nil, request("tools/call", called+`,"arguments":[]`), 200, faulty(-32602, "arguments must be an object")},
		{"a method that there is not", nil, request("resources/list", ""), 200, faulty(-32601, "the methods are initialize, ping, tools/list and tools/call")},
		{"a method of the other era", nil, request("server/discover", ""), 200, faulty(-32601, "the methods are initialize, ping, tools/list and tools/call")},
		{"a version that is not spoken", headers("mcp-protocol-version", "2024-11-05"), request("tools/list", ""), 400, fmt.Sprintf(versioned, "2024-11-05")},
		{"a version of another kind", headers("mcp-protocol-version", "v999.0.0"), request("tools/list", ""), 400, fmt.Sprintf(versioned, "v999.0.0")},
		{"a version that is none is not told back", headers("mcp-protocol-version", "<script>"), request("tools/list", ""), 400, fmt.Sprintf(versioned, "")},

		// The version without one.
		{"discover", modernly("server/discover"), request("server/discover", meta), 200,
			resulting(`{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"capabilities":{"tools":{}},"instructions":"Begin with project_search.",` + fresh + `}`)},
		{"the modern list", modernly("tools/list"), request("tools/list", meta), 200, resulting(`{` + list + `,` + fresh + `}`)},
		{"a modern call", modernly("tools/call", "mcp-name", "pxflow_describe"), request("tools/call", called+`,`+meta), 200,
			resulting(`{` + mirrored(enveloped) + `,"isError":false,"resultType":"complete",` + identified + `}`)},
		{"a name that is encoded", modernly("tools/call", "mcp-name", encoded), request("tools/call", called+`,`+meta), 200,
			resulting(`{` + mirrored(enveloped) + `,"isError":false,"resultType":"complete",` + identified + `}`)},
		{"a header of another version than the body", headers("mcp-protocol-version", "2025-11-25", "mcp-method", "tools/list"), request("tools/list", meta), 400, faulty(-32020, "the header MCP-Protocol-Version is not the version of the body")},
		{"no header of the version", headers("mcp-method", "tools/list"), request("tools/list", meta), 400, faulty(-32020, "the header MCP-Protocol-Version is missing")},
		{"a modern version that is not spoken", headers("mcp-protocol-version", "2099-01-01", "mcp-method", "tools/list"), request("tools/list", strings.Replace(meta, Modern, "2099-01-01", 1)), 400, fmt.Sprintf(versioned, "2099-01-01")},
		{"no version in the body", modernly("tools/list"), request("tools/list", ""), 400, faulty(-32602, "_meta must have io.modelcontextprotocol/protocolVersion")},
		{"a version that is no text", modernly("tools/list"), request("tools/list", strings.Replace(meta, `"2026-07-28"`, "1", 1)), 400, faulty(-32602, "io.modelcontextprotocol/protocolVersion must be a version of the protocol")},
		{"_meta that is no object", modernly("tools/list"), request("tools/list", `"_meta":1`), 400, faulty(-32602, "_meta must be an object")},
		{"no capabilities of the client", modernly("tools/list"), request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), 400, faulty(-32602, "_meta must have io.modelcontextprotocol/clientCapabilities, an object")},
		{"capabilities that are no object", modernly("tools/list"), request("tools/list", strings.Replace(meta, "{}}", "1}", 1)), 400, faulty(-32602, "_meta must have io.modelcontextprotocol/clientCapabilities, an object")},
		{"no header of the method", headers("mcp-protocol-version", Modern), request("tools/list", meta), 400, faulty(-32020, "the header Mcp-Method is missing")},
		{"a header of another method", modernly("tools/call"), request("tools/list", meta), 400, faulty(-32020, "the header Mcp-Method is not the method of the body")},
		{"a header of the method in other letters", modernly("Tools/List"), request("tools/list", meta), 400, faulty(-32020, "the header Mcp-Method is not the method of the body")},
		{"no header of the name", modernly("tools/call"), request("tools/call", called+`,`+meta), 400, faulty(-32020, "the header Mcp-Name is missing")},
		{"a header of another name", modernly("tools/call", "mcp-name", "pxflow_apply_change"), request("tools/call", called+`,`+meta), 400, faulty(-32020, "the header Mcp-Name is not the name of the body")},
		{"a name that is half encoded", modernly("tools/call", "mcp-name", "=?base64?%%%?="), request("tools/call", called+`,`+meta), 400, faulty(-32020, "the header Mcp-Name is no header value")},
		{"a name that is no text", modernly("tools/call", "mcp-name", "=?base64?/w==?="), request("tools/call", called+`,`+meta), 400, faulty(-32020, "the header Mcp-Name is no header value")},
		{"a name that no header can have", modernly("tools/call", "mcp-name", "é"), request("tools/call", called+`,`+meta), 400, faulty(-32020, "the header Mcp-Name is no header value")},
		{"a modern call of no tool", modernly("tools/call", "mcp-name", "x"), request("tools/call", `"name":"x",`+meta), 400, faulty(-32602, "there is no such tool")},
		{"a modern page that there is not", modernly("tools/list"), request("tools/list", `"cursor":"",`+meta), 400, faulty(-32602, "the catalog has one page: there is no cursor to it")},
		{"discover with what belongs to it not", modernly("server/discover"), request("server/discover", `"x":1,`+meta), 200,
			resulting(`{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"capabilities":{"tools":{}},"instructions":"Begin with project_search.",` + fresh + `}`)},
		{"answers to what was never asked", modernly("tools/call", "mcp-name", "pxflow_describe"), request("tools/call", called+`,"inputResponses":{},"requestState":"x",`+meta), 200,
			resulting(`{` + mirrored(enveloped) + `,"isError":false,"resultType":"complete",` + identified + `}`)},
		{"initialize of a version without it", modernly("initialize"), request("initialize", hello+`,`+meta), 404, faulty(-32601, "the methods are server/discover, tools/list and tools/call")},
		{"ping of a version without it", modernly("ping"), request("ping", meta), 404, faulty(-32601, "the methods are server/discover, tools/list and tools/call")},

		// What is no message.
		{"nothing", nil, " \n", 400, errorLine("null", -32600, "the request has no message")},
		{"a batch of a version that has none", headers("mcp-protocol-version", "2025-06-18"), `[` + request("ping", "") + `]`, 400, errorLine("null", -32600, "a message is a JSON object; batches are lines, not arrays")},
		{"a batch of the modern version", headers("mcp-protocol-version", Modern), `[` + request("ping", "") + `]`, 400, ""},
		{"a batch", headers("mcp-protocol-version", "2025-03-26"), `[` + request("ping", "") + `]`, 200, inBatch(resulting("{}"))},
		{"a batch of everything, by a client that says no version", nil, `[` + strings.Join([]string{request("ping", ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, request("tools/call", called), request("initialize", hello),
			request("tools/call", `"name":"x"`), `{"jsonrpc":"2.0","id":1}`, `7`, request("tools/list", "")}, " ,\n") + `]`, 200,
			inBatch(resulting("{}"), resulting(`{`+mirrored(enveloped)+`,"isError":false}`), faulty(-32600, "initialize is no part of a batch"), faulty(-32602, "there is no such tool"),
				faulty(-32600, "method is missing"), errorLine("null", -32600, "a message is a JSON object; batches are lines, not arrays"), resulting(`{`+list+`}`))},
		{"a batch of notifications", nil, `[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","method":"notifications/cancelled"}]`, 202, ""},
		{"a batch of nothing", nil, ` [] `, 400, errorLine("null", -32600, "a batch has at least one message")},
		{"a batch that is no JSON", nil, `[{"jsonrpc":"2.0","id":1,"method":"ping"},`, 400, ""},
		{"a batch in which a member stands twice", nil, `[{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}]`, 400, ""},
		{"a batch of too many", nil, `[` + strings.Repeat(request("ping", "")+",", 64) + request("ping", "") + `]`, 413, errorLine("null", -32600, "the request has more than 64 messages")},
		{"two messages", nil, request("ping", "") + "\n" + request("ping", ""), 400, ""},
		{"what is no JSON, of a modern client", headers("mcp-protocol-version", Modern), `{`, 400, ""},
		{"an id that is null", nil, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, errorLine("null", -32600, badID)},
		{"a response", nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, faulty(-32600, "method is missing")},
		{"a size that is none", nil, request("ping", `"_meta":{"px/maxBytes":4095}`), 400, faulty(-32602, "px/maxBytes must be an integer from 4096 to 1048576")},
		{"a size that is too large", nil, request("ping", `"_meta":{"px/maxBytes":1048577}`), 400, faulty(-32602, "px/maxBytes must be an integer from 4096 to 1048576")},
		{"a size in words", nil, request("ping", `"_meta":{"px/maxBytes":"4096"}`), 400, faulty(-32602, "px/maxBytes must be an integer from 4096 to 1048576")},
		{"too much", nil, strings.Repeat(" ", MaxBody+1), 413, errorLine("null", -32600, "the request is longer than 4194304 bytes")},
	} {
		got := s.Serve(t.Context(), caller, Post{Headers: c.headers, Body: []byte(c.body)})
		if got.Status != c.status || c.want != "" && string(got.Body) != c.want || (c.status == 202) != (got.Body == nil) {
			t.Errorf("%s: %d\n got %s\nwant %d %s", c.name, got.Status, got.Body, c.status, c.want)
		}
		if len(got.Body) > 0 && !jsontext.Value(got.Body).IsValid() {
			t.Errorf("%s: %s", c.name, got.Body)
		}
		if c.headers["mcp-protocol-version"] == Modern && strings.Contains(string(got.Body), `"id":null`) {
			t.Errorf("%s: an id that the modern schema does not know: %s", c.name, got.Body)
		}
	}
}

// What a tool refuses is an error of the tool, which a client hands to its model.
//
// covers: W9
func TestARefusalIsAnErrorOfTheTool(t *testing.T) {
	const refusal = `{"ok":false,"data":null,"diagnostics":[{"code":"PX_SCHEMA_INVALID"}],"resources":[]}`
	s := standard(t, func(context.Context, tool.Request) ([]byte, error) { return []byte(refusal), nil })
	got := s.Serve(t.Context(), caller, Post{Body: []byte(request("tools/call", `"name":"pxflow_describe"`))})
	if want := resulting(`{` + mirrored(refusal) + `,"isError":true}`); got.Status != 200 || string(got.Body) != want {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	s = standard(t, func(context.Context, tool.Request) ([]byte, error) { return nil, fmt.Errorf("secret") })
	got = s.Serve(t.Context(), caller, Post{Body: []byte(request("tools/call", `"name":"pxflow_describe"`))})
	if want := failureLine("1", "the tool failed", true, "tool_failed", "unknown"); got.Status != 200 || string(got.Body) != want {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	got = s.Serve(t.Context(), caller, Post{Body: []byte(request("tools/call", `"name":"report.render"`))})
	if !strings.Contains(string(got.Body), "PX_SCHEMA_UNSUPPORTED_VERSION") || !strings.Contains(string(got.Body), `"isError":true`) {
		t.Errorf("a legacy tool: %s", got.Body)
	}
}

// The size of an answer is the caller's, and its text is all of it.
//
// covers: W9
func TestTheSizeOfAnAnswerIsTheCallers(t *testing.T) {
	for asked, share := range map[string]int{``: UsualBytes, `,"_meta":{"px/maxBytes":4096}`: 4096, `,"_meta":{"px/maxBytes":1048576}`: 1 << 20} {
		seen := 0
		s := standard(t, func(_ context.Context, q tool.Request) ([]byte, error) {
			seen = q.ByteShare
			return envelopeOf(q.ByteShare, true), nil
		})
		got := s.Serve(t.Context(), caller, Post{Body: []byte(request("tools/call", `"name":"pxflow_describe"`+asked))})
		var reply struct {
			Result struct {
				Content           []struct{ Text string }
				StructuredContent jsontext.Value
			}
		}
		if err := json.Unmarshal(got.Body, &reply, json.MatchCaseInsensitiveNames(true)); err != nil || seen != share || len(reply.Result.Content) != 1 || reply.Result.Content[0].Text != string(reply.Result.StructuredContent) {
			t.Errorf("%q: %v, a share of %d, %.300s", asked, err, seen, got.Body)
		}
		// As API Gateway escapes it, the largest one fits what Lambda may answer.
		if size := EscapedLen(got.Body); size > 5_500_000 {
			t.Errorf("%q: %d bytes", asked, size)
		}
		larger := standard(t, func(_ context.Context, q tool.Request) ([]byte, error) { return envelopeOf(q.ByteShare+1, true), nil })
		got = larger.Serve(t.Context(), caller, Post{Body: []byte(request("tools/call", `"name":"pxflow_describe"`+asked))})
		if !strings.Contains(string(got.Body), `"answer_too_large"`) {
			t.Errorf("%q: %.300s", asked, got.Body)
		}
	}
}

func FuzzStandard(f *testing.F) {
	s, err := NewStandard(dispatcher(f, echo).Toolset(nil), "1", "x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("", "", "", request("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}`))
	f.Add(Modern, "tools/call", "pxflow_describe", request("tools/call", `"name":"pxflow_describe",`+meta))
	f.Add(Modern, "tools/call", "=?base64?eA==?=", request("tools/call", `"name":"x",`+meta))
	f.Fuzz(func(t *testing.T, version, method, name, body string) {
		h := map[string]string{"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
		for k, v := range h {
			if v == "" {
				delete(h, k)
			}
		}
		got := s.Serve(t.Context(), caller, Post{Headers: h, Body: []byte(body)})
		if (got.Status == http.StatusAccepted) != (got.Body == nil) || got.Body != nil && !jsontext.Value(got.Body).IsValid() || strings.Count(string(got.Body), "\n") > 1 {
			t.Fatalf("%d %q", got.Status, got.Body)
		}
	})
}

// covers: W9
func TestPeopleAreShownATitle(t *testing.T) {
	in := `[{"name":"a","inputSchema":{"x":"\u0041"},"annotations":{"readOnlyHint":true}},{"name":"b"},{"name":"c","annotations":{}}]`
	got := string(titled([]byte(in), map[string]string{"a": "Find \"it\"", "c": "C"}))
	want := `[{"title":"Find \"it\"","name":"a","inputSchema":{"x":"\u0041"},"annotations":{"title":"Find \"it\"","readOnlyHint":true}},{"name":"b"},{"title":"C","name":"c","annotations":{"title":"C"}}]`
	if got != want {
		t.Errorf("%s", got)
	}
	if got := string(titled([]byte(in), nil)); got != in {
		t.Errorf("without titles: %s", got)
	}
}

// However many messages a batch has and whatever they ask for, the reply fits what a
// Lambda may answer, and every request in it has an answer.
//
// covers: W9
func TestTheReplyToABatchFits(t *testing.T) {
	long := strings.Repeat(`"\\`, 1<<19)
	s := standard(t, func(_ context.Context, q tool.Request) ([]byte, error) {
		text := long[:max(q.ByteShare/4-200, 0)] // as many bytes as it may take, all of which are escaped
		quoted, err := jsontext.AppendQuote(nil, text[:len(text)/2*2])
		return []byte(`{"ok":true,"data":{"text":` + string(quoted) + `},"diagnostics":[],"resources":[]}`), err
	})
	for _, n := range []int{1, 2, 7, 64} {
		one := request("tools/call", `"name":"pxflow_describe","_meta":{"px/maxBytes":1048576}`)
		messages := make([]string, n)
		for i := range messages {
			messages[i] = strings.Replace(one, `"id":1`, fmt.Sprintf(`"id":%d`, i+1), 1)
		}
		reply := s.Serve(t.Context(), Caller{}, Post{Body: []byte("[" + strings.Join(messages, ",") + "]")})
		var answers []struct {
			ID     int
			Result struct{ Content []any }
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(reply.Body, &answers, json.MatchCaseInsensitiveNames(true)); err != nil || len(answers) != n || EscapedLen(reply.Body) > ReplyBytes {
			t.Fatalf("%d messages: %d answers in %d bytes, %v", n, len(answers), EscapedLen(reply.Body), err)
		}
		for i, a := range answers {
			if a.ID != i+1 || len(a.Result.Content) != 1 {
				t.Errorf("%d messages: the answer %d is %d %s", n, i+1, a.ID, a.Error.Message)
			}
		}
	}
}
