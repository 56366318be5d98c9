package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/tool"
)

const testCatalog = `[{"name":"pxflow_describe","inputSchema":{"type":"object"}},{"name":"pxflow_apply_change"}]`

// echo answers with the arguments as they came.
func echo(_ context.Context, request tool.Request) ([]byte, error) {
	return []byte(`{"ok":true,"data":{"tool":"` + request.Tool + `","arguments":` + string(request.Arguments) + `},"diagnostics":[],"resources":[]}`), nil
}

func dispatcher(t testing.TB, call Call) *Dispatcher {
	t.Helper()
	d, err := New(Config{Catalog: []byte(testCatalog), Call: call})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var caller = Caller{Principal: tool.Principal{Issuer: "https://issuer", Subject: "engineer"}, RequestID: "req"}

func serve(t testing.TB, d *Dispatcher, body string) string {
	t.Helper()
	reply, _ := d.Serve(t.Context(), caller, []byte(body))
	return string(reply)
}

func errorLine(id string, code int, message string) string {
	quoted, _ := json.Marshal(message)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, quoted)
}

func echoLine(id, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"structuredContent":{"ok":true,"data":{"tool":"pxflow_describe","arguments":` +
		arguments + `},"diagnostics":[],"resources":[]},"isError":false}}` + "\n"
}

func callLine(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}` + "\n"
}

const (
	badVersion = `jsonrpc must be "2.0"`
	badID      = "id must be a string or a number of at most 1024 bytes"
	badMember  = "a message has the members jsonrpc, id, method and params and no other one"
	badMethod  = "the methods are tools/list and tools/call"
	badParams  = "params of tools/call are name, arguments and _meta and no other one"
	badAgent   = "px/assistant must be {provider, model}, each a string of 1 to 256 bytes without control characters"
)

// covers: W1, W2, W3, W4, W6
func TestOneLine(t *testing.T) {
	meta := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_describe","_meta":` + meta + `}}`
	}
	d := dispatcher(t, echo)
	for _, c := range []struct{ name, line, want string }{
		{"a call gives the envelope unchanged", callLine("1", "pxflow_describe", `{ "a" : [1.0, -0] }`), echoLine("1", `{ "a" : [1.0, -0] }`)},
		{"a call without arguments gets none", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_describe"}}`, echoLine("1", `{}`)},
		{"a list gives the catalog", `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, `{"jsonrpc":"2.0","id":"a","result":{"tools":` + testCatalog + "}}\n"},
		{"a list may have empty params and _meta", `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"progressToken":1}}}`, `{"jsonrpc":"2.0","id":"a","result":{"tools":` + testCatalog + "}}\n"},
		{"members may come in any order and with space", ` { "params":{"name":"pxflow_describe"} , "method":"tools/call","id" : 1 ,"jsonrpc":"2.0"} ` + "\r\n", echoLine("1", `{}`)},
		{"a method may be escaped", `{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"pxflow\u005fdescribe"}}`, echoLine("1", `{}`)},
		{"numbers beyond binary64 reach the schema", callLine("1", "pxflow_describe", `{"n":1e400,"i":9007199254740993}`), echoLine("1", `{"n":1e400,"i":9007199254740993}`)},

		{"initialize is no method here", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, errorLine("1", -32601, badMethod)},
		{"ping is no method here", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, errorLine("1", -32601, badMethod)},
		{"a method in another case is another method", `{"jsonrpc":"2.0","id":1,"method":"Tools/List"}`, errorLine("1", -32601, badMethod)},
		{"params of an unknown method are not looked at", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":7}`, errorLine("1", -32601, badMethod)},

		{"half a line", `{"jsonrpc":"2.0","id":1,"meth`, errorLine("null", -32700, "not strict JSON at byte 29: ends too early")},
		{"two messages on a line", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, errorLine("null", -32700, "not strict JSON at byte 46: trailing data")},
		{"a word", `hello`, errorLine("null", -32700, "not strict JSON at byte 0: malformed")},
		{"a duplicate name at the top", `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/list"}`, errorLine("null", -32700, "not strict JSON at byte 24: duplicate name")},
		{"a duplicate name in params", callLine("1", "pxflow_describe", `{"a":{"b":1,"\u0062":2}}`), errorLine("null", -32700, "not strict JSON at byte 105: duplicate name")},
		{"a lone surrogate in params", callLine("1", "pxflow_describe", `{"a":"\ud800"}`), errorLine("null", -32700, "not strict JSON at byte 99: lone surrogate")},
		{"invalid UTF-8 in params", callLine("1", "pxflow_describe", "{\"a\":\"\xff\"}"), errorLine("null", -32700, "not strict JSON at byte 99: invalid UTF-8")},
		{"NUL in a line", "{\"jsonrpc\":\"2.0\",\x00\"id\":1}", errorLine("null", -32700, "not strict JSON at byte 17: malformed")},
		{"a byte order mark", "\ufeff" + callLine("1", "pxflow_describe", `{}`), errorLine("null", -32700, "not strict JSON at byte 0: malformed")},

		{"an array", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, errorLine("null", -32600, "a message is a JSON object; batches are lines, not arrays")},
		{"a string", `"tools/list"`, errorLine("null", -32600, "a message is a JSON object; batches are lines, not arrays")},
		{"an empty object", `{}`, errorLine("null", -32600, badVersion)},
		{"a wrong-case name", `{"Jsonrpc":"2.0","id":1,"method":"tools/list"}`, errorLine("1", -32600, badVersion)},
		{"a wrong-case name beside the right one", `{"jsonrpc":"2.0","Jsonrpc":"2.0","id":1,"method":"tools/list"}`, errorLine("1", -32600, badMember)},
		{"a wrong-case id makes no notification", `{"jsonrpc":"2.0","ID":1,"method":"tools/list"}`, errorLine("null", -32600, badMember)},
		{"an unknown member", `{"jsonrpc":"2.0","id":1,"method":"tools/list","extra":0}`, errorLine("1", -32600, badMember)},
		{"jsonrpc as a number", `{"jsonrpc":2.0,"id":1,"method":"tools/list"}`, errorLine("1", -32600, badVersion)},
		{"jsonrpc of another version", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, errorLine("1", -32600, badVersion)},
		{"no method", `{"jsonrpc":"2.0","id":1}`, errorLine("1", -32600, "method is missing")},
		{"neither method nor id", `{"jsonrpc":"2.0"}`, errorLine("null", -32600, "method is missing")},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, errorLine("1", -32600, "method is missing")},
		{"a method that is no string", `{"jsonrpc":"2.0","id":1,"method":["tools/list"]}`, errorLine("1", -32600, "method must be a string")},
		{"id as null", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, errorLine("null", -32600, badID)},
		{"id as an object", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, errorLine("null", -32600, badID)},
		{"id as an array", `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`, errorLine("null", -32600, badID)},
		{"id as a boolean", `{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, errorLine("null", -32600, badID)},
		{"an id of 1,025 bytes", `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1023) + `","method":"tools/list"}`, errorLine("null", -32600, badID)},

		{"a call without params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, errorLine("1", -32602, "params of tools/call are missing")},
		{"params as null", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`, errorLine("1", -32602, "params of tools/call must be an object")},
		{"params as an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["pxflow_describe"]}`, errorLine("1", -32602, "params of tools/call must be an object")},
		{"no name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`, errorLine("1", -32602, "name is missing")},
		{"a name that is no string", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`, errorLine("1", -32602, "name must be a string")},
		{"a wrong-case name of a param", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"pxflow_describe"}}`, errorLine("1", -32602, badParams)},
		{"arguments as an array", callLine("1", "pxflow_describe", `[]`), errorLine("1", -32602, "arguments must be an object")},
		{"arguments as null", callLine("1", "pxflow_describe", `null`), errorLine("1", -32602, "arguments must be an object")},
		{"arguments as a string of JSON", callLine("1", "pxflow_describe", `"{}"`), errorLine("1", -32602, "arguments must be an object")},
		{"an unknown tool is not echoed", callLine("1", "drop_all_tables", `{}`), errorLine("1", -32602, "there is no such tool")},
		{"an empty name is an unknown tool", callLine("1", "", `{}`), errorLine("1", -32602, "there is no such tool")},
		{"a tool name in another case", callLine("1", "Pxflow_describe", `{}`), errorLine("1", -32602, "there is no such tool")},
		{"an MCP Task", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_describe","task":{"ttl":1}}}`, errorLine("1", -32602, "MCP Tasks are not supported: a Run is started by pxflow_run")},
		{"a list with a cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, errorLine("1", -32602, "the catalog has one page: there is no cursor to it")},
		{"a list with an unknown param", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"limit":1}}`, errorLine("1", -32602, "params of tools/list are cursor and _meta and no other one")},
		{"a list with params as an array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, errorLine("1", -32602, "params of tools/list must be an object")},
		{"_meta as an array", meta(`[]`), errorLine("1", -32602, "_meta must be an object")},
		{"_meta with what we do not read", meta(`{"progressToken":{"a":1},"io.example/x":null}`), echoLine("1", "{}")},
		{"an assistant", meta(`{"px/assistant":{"model":"m","provider":"p"}}`), echoLine("1", "{}")},
		{"half an assistant", meta(`{"px/assistant":{"model":"m"}}`), errorLine("1", -32602, badAgent)},
		{"an assistant with more in it", meta(`{"px/assistant":{"model":"m","provider":"p","x":1}}`), errorLine("1", -32602, badAgent)},
		{"an assistant with an empty model", meta(`{"px/assistant":{"model":"","provider":"p"}}`), errorLine("1", -32602, badAgent)},
		{"an assistant with a wrong-case name", meta(`{"px/assistant":{"Model":"m","provider":"p"}}`), errorLine("1", -32602, badAgent)},
		{"an assistant with a control character", meta(`{"px/assistant":{"model":"a\u0000","provider":"p"}}`), errorLine("1", -32602, badAgent)},
		{"an assistant that is a string", meta(`{"px/assistant":"p/m"}`), errorLine("1", -32602, badAgent)},

		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{"a notification with bad params", `{"jsonrpc":"2.0","method":"tools/call","params":7}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := serve(t, d, c.line); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// covers: W2
func TestIDsAreEchoedByteForByte(t *testing.T) {
	d := dispatcher(t, echo)
	for _, id := range []string{
		`1`, `"1"`, `0`, `-0`, `1.5`, `1.50`, `1e2`, `1E+2`, `9007199254740993`, `-123456789012345678901234567890`, `1e400`,
		`""`, `"\u0041"`, `"A"`, `"\/"`, `"/"`, `"\ud83d\ude00"`, `"😀"`, `"\"\\"`, `"null"`, `"` + strings.Repeat("i", 1022) + `"`,
	} {
		if got := serve(t, d, callLine(id, "pxflow_describe", `{}`)); got != echoLine(id, `{}`) {
			t.Errorf("%s: got %s", id, got)
		}
		if got := serve(t, d, `{"jsonrpc":"2.0","id":`+id+`,"method":"x"}`); got != errorLine(id, -32601, badMethod) {
			t.Errorf("%s: got %s", id, got)
		}
	}
}

// covers: W1
func TestANotificationIsNeverRun(t *testing.T) {
	d := dispatcher(t, func(context.Context, tool.Request) ([]byte, error) {
		t.Error("it ran")
		return nil, nil
	})
	if got := serve(t, d, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"pxflow_apply_change","arguments":{}}}`); got != "" {
		t.Errorf("got %s", got)
	}
}

// covers: W3, L1, L2
func TestLegacyToolsAreABusinessAnswer(t *testing.T) {
	var log bytes.Buffer
	d, err := New(Config{Catalog: []byte(testCatalog), Log: slog.New(slog.NewJSONHandler(&log, nil)), Call: func(context.Context, tool.Request) ([]byte, error) {
		t.Error("a legacy tool was called")
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	// The table of the original, written out once more.
	names := strings.Fields(`project.search adapter.search adapter.describe pxflow.search pxflow.describe pxflow.validate pxflow.change
		pxflow.run report.search report.describe report.change report.render run.get run.cancel result.read`)
	if len(names) != 15 || len(legacyTools) != 15 {
		t.Fatalf("%d and %d names", len(names), len(legacyTools))
	}
	ids := map[string]bool{}
	for _, name := range names {
		log.Reset()
		got := serve(t, d, callLine(`"x"`, name, `{"projectId":1}`))
		id := diagnosticID(t, got)
		want := `{"jsonrpc":"2.0","id":"x","result":{"content":[],"structuredContent":{"ok":false,"data":null,"diagnostics":[{"code":"PX_SCHEMA_UNSUPPORTED_VERSION",` +
			`"path":"/name","severity":"error","retryable":false,"params":{"entry":"` + name + `","kind":"tool"},"suggestedAction":"USE_CURRENT_CONTRACT","diagnosticId":"` + id +
			`"}],"resources":[]},"isError":false}}` + "\n"
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if ids[id] || !strings.Contains(log.String(), id) {
			t.Errorf("%s: diagnosticId %q is used twice or not in the log", name, id)
		}
		ids[id] = true
		// Counted once, by its name.
		if lines := strings.Count(log.String(), `"CloudWatchMetrics"`); lines != 1 || strings.Count(log.String(), `"entry":"`+name+`","LegacyRefusals":1}`) != 1 {
			t.Errorf("%s: %d metric lines: %s", name, lines, &log)
		}
	}
	log.Reset()
	for _, name := range []string{"project.search ", "pxflow.apply", "Project.search", "report.plan"} {
		if got := serve(t, d, callLine("1", name, `{}`)); got != errorLine("1", -32602, "there is no such tool") {
			t.Errorf("%q: got %s", name, got)
		}
	}
	if got := serve(t, d, callLine("1", "run.get", `[]`)); got != errorLine("1", -32602, "arguments must be an object") {
		t.Errorf("unreadable params of a legacy tool: %s", got)
	}
	if strings.Contains(log.String(), "CloudWatchMetrics") {
		t.Errorf("counted: %s", &log)
	}
}

func diagnosticID(t *testing.T, line string) string {
	t.Helper()
	var reply struct {
		Result struct {
			StructuredContent struct {
				Diagnostics []struct {
					DiagnosticID string `json:"diagnosticId"`
				} `json:"diagnostics"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(line), &reply); err != nil || len(reply.Result.StructuredContent.Diagnostics) != 1 {
		t.Fatalf("%s: %v", line, err)
	}
	return reply.Result.StructuredContent.Diagnostics[0].DiagnosticID
}

// covers: W6
func TestBounds(t *testing.T) {
	// The call's arguments are left out, so that an answer is small.
	d := dispatcher(t, func(context.Context, tool.Request) ([]byte, error) {
		return []byte(`{"ok":true,"data":{},"diagnostics":[],"resources":[]}`), nil
	})
	padded := func(size int) string {
		line := callLine("1", "pxflow_describe", `{"x":""}`)
		line = strings.TrimSuffix(line, "\n")
		return strings.Replace(line, `""`, `"`+strings.Repeat("x", size-len(line))+`"`, 1)
	}
	nested := func(depth int) string { // the message and params are two levels
		return callLine("1", "pxflow_describe", strings.Repeat(`{"a":`, depth-2)+"1"+strings.Repeat("}", depth-2))
	}
	const fine = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"ok":true,"data":{},"diagnostics":[],"resources":[]},"isError":false}}` + "\n"
	line := strings.TrimSuffix(callLine("1", "pxflow_describe", `{}`), "\n")
	for _, c := range []struct {
		name, body, want string
		err              error
	}{
		{"a line of 2,097,152 bytes", padded(2_097_152) + "\n", fine, nil},
		{"a line of 2,097,153 bytes", padded(2_097_153) + "\n", errorLine("null", -32600, "the line is longer than 2097152 bytes"), nil},
		{"a long line does not hide its neighbour", padded(2_097_153) + "\n" + line, errorLine("null", -32600, "the line is longer than 2097152 bytes") + fine, nil},
		{"a body of 4,194,304 bytes", line + strings.Repeat("\n", 4_194_304-len(line)), fine, nil},
		{"a body of 4,194,305 bytes", line + strings.Repeat("\n", 4_194_305-len(line)), errorLine("null", -32600, "the request is longer than 4194304 bytes"), ErrBodyTooLarge},
		{"64 lines", strings.Repeat(line+"\n", 64), strings.Repeat(fine, 64), nil},
		{"64 lines among blank ones", strings.Repeat(" \r\n\n"+line+"\n\n", 64), strings.Repeat(fine, 64), nil},
		{"65 lines", strings.Repeat(line+"\n", 65), errorLine("null", -32600, "the request has more than 64 messages"), ErrTooManyLines},
		{"65 notifications", strings.Repeat(`{"jsonrpc":"2.0","method":"x"}`+"\n", 65), errorLine("null", -32600, "the request has more than 64 messages"), ErrTooManyLines},
		{"depth 64", nested(64), fine, nil},
		{"depth 65", nested(65), errorLine("null", -32700, "not strict JSON at byte 404: nested too deep"), nil},
		{"no line", "", errorLine("null", -32600, "the request has no message"), ErrNoMessage},
		{"blank lines only", "\n \r\n\t\n", errorLine("null", -32600, "the request has no message"), ErrNoMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, err := d.Serve(t.Context(), caller, []byte(c.body))
			if string(reply) != c.want || err != c.err {
				t.Errorf("\n got %.300s, %v\nwant %.300s, %v", reply, err, c.want, c.err)
			}
		})
	}
}

// A request that is refused as a whole has run nothing.
// covers: W6
func TestARefusedRequestRunsNothing(t *testing.T) {
	d := dispatcher(t, func(context.Context, tool.Request) ([]byte, error) {
		t.Error("a line ran")
		return nil, nil
	})
	serve(t, d, strings.Repeat(callLine("1", "pxflow_apply_change", `{}`), 65))
}

// covers: W1
func TestLinesRunSideBySideAndAnswerInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		d := dispatcher(t, func(_ context.Context, request tool.Request) ([]byte, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for {
				seen := most.Load()
				if now <= seen || most.CompareAndSwap(seen, now) {
					break
				}
			}
			var arguments struct{ Wait int }
			if err := json.Unmarshal(request.Arguments, &arguments, json.MatchCaseInsensitiveNames(true)); err != nil {
				return nil, err
			}
			time.Sleep(time.Duration(arguments.Wait) * time.Millisecond)
			return echo(t.Context(), request)
		})
		var body, want strings.Builder
		for i := range 24 {
			arguments := fmt.Sprintf(`{"wait":%d}`, (24-i)*100)
			body.WriteString(callLine(fmt.Sprint(i), "pxflow_describe", arguments))
			want.WriteString(echoLine(fmt.Sprint(i), arguments))
		}
		start := time.Now()
		if got := serve(t, d, body.String()); got != want.String() {
			t.Errorf("got %s", got)
		}
		if most.Load() != SideBySide {
			t.Errorf("%d calls ran side by side", most.Load())
		}
		if took := time.Since(start); took > 5*time.Second { // 30 s one after the other
			t.Errorf("took %v", took)
		}
	})
}

func failureLine(id, message string, retryable bool, reason, outcome string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q,"data":{"retryable":%v,"reason":%q,"outcome":%q}}}`+"\n", id, message, retryable, reason, outcome)
}

// covers: W5
func TestAFailedCallIsAnErrorAndNeverAnEnvelope(t *testing.T) {
	const secret = "password=1234"
	answers := func(envelope string) Call {
		return func(context.Context, tool.Request) ([]byte, error) { return []byte(envelope), nil }
	}
	fails := func(err error) Call {
		return func(context.Context, tool.Request) ([]byte, error) { return nil, err }
	}
	invalid := failureLine("1", "the tool gave an answer that is no envelope", false, "answer_invalid", "unknown")
	for _, c := range []struct {
		name string
		call Call
		want string
	}{
		{"a failure keeps its verdict", fails(fmt.Errorf("wrapped: %w", &Failure{Reason: ReasonUnavailable, Outcome: Not, Cause: errors.New(secret)})),
			failureLine("1", "the tool is not available", false, "tool_unavailable", "not_started")},
		{"throttling is retryable", fails(&Failure{Reason: ReasonThrottled, Retryable: true, Outcome: Not}),
			failureLine("1", "too many calls at the moment", true, "tool_throttled", "not_started")},
		{"an error of no kind is retryable and its outcome unknown", fails(errors.New(secret)),
			failureLine("1", "the tool failed", true, "tool_failed", "unknown")},
		{"a panic is one line's failure", func(context.Context, tool.Request) ([]byte, error) { panic(secret) },
			failureLine("1", "the endpoint failed", true, "endpoint_failed", "unknown")},
		{"no answer", answers(``), invalid},
		{"null", answers(`null`), invalid},
		{"an array", answers(`[]`), invalid},
		{"an empty object", answers(`{}`), invalid},
		{"a Lambda error that was taken for an answer", answers(`{"errorMessage":"x","errorType":"y"}`), invalid},
		{"half an envelope", answers(`{"ok":true,"data":{},"diagnostics":[],"resources":[]`), invalid},
		{"two envelopes", answers(`{"ok":true,"data":{},"diagnostics":[],"resources":[]}{"ok":true,"data":{},"diagnostics":[],"resources":[]}`), invalid},
		{"an envelope on two lines", answers("{\"ok\":true,\"data\":{},\n\"diagnostics\":[],\"resources\":[]}"), invalid},
		{"an envelope with a duplicate name", answers(`{"ok":true,"ok":true,"data":{},"diagnostics":[],"resources":[]}`), invalid},
		{"an envelope with one member more", answers(`{"ok":true,"data":{},"diagnostics":[],"resources":[],"x":1}`), invalid},
		{"a success without data", answers(`{"ok":true,"data":null,"diagnostics":[],"resources":[]}`), invalid},
		{"a failure with data", answers(`{"ok":false,"data":{},"diagnostics":[],"resources":[]}`), invalid},
		{"an envelope with bad UTF-8", answers("{\"ok\":true,\"data\":{\"a\":\"\xff\"},\"diagnostics\":[],\"resources\":[]}"), invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := serve(t, dispatcher(t, c.call), callLine("1", "pxflow_apply_change", `{}`)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
	for reason := range failureText {
		if f := (&Failure{Reason: reason}).fault(); f.code != -32603 || f.message == "" {
			t.Errorf("%s: %+v", reason, f)
		}
	}
}

// covers: W4
func TestABusinessFailureIsAResult(t *testing.T) {
	const envelope = `{"ok":false,"data":null,"diagnostics":[{"code":"PX_TARGET_NOT_FOUND"}],"resources":[]}`
	d := dispatcher(t, func(context.Context, tool.Request) ([]byte, error) { return []byte(envelope + "\n"), nil })
	want := `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":` + envelope + `,"isError":false}}` + "\n"
	if got := serve(t, d, callLine("1", "pxflow_apply_change", `{}`)); got != want {
		t.Errorf("got %s", got)
	}
}

// An apply that may have happened must not look as if it had not.
// covers: W5
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer time.Sleep(time.Hour) // until the calls that were left behind are over
		defer close(release)
		var started atomic.Int32
		var mu sync.Mutex
		var deadlines []time.Duration
		begin := time.Now()
		d := dispatcher(t, func(_ context.Context, request tool.Request) ([]byte, error) {
			started.Add(1)
			mu.Lock()
			deadlines = append(deadlines, request.Deadline.Sub(begin))
			mu.Unlock()
			var arguments struct {
				Seconds int `json:"seconds"`
			}
			if err := json.Unmarshal(request.Arguments, &arguments); err != nil {
				return nil, err
			}
			if arguments.Seconds < 0 { // it does not even listen to ctx
				<-release
			}
			time.Sleep(time.Duration(arguments.Seconds) * time.Second)
			return echo(t.Context(), request)
		})
		var body, want strings.Builder
		for i := range 8 { // all eight workers are held
			id, seconds := fmt.Sprint(i), `{"seconds":-1}`
			if i == 0 {
				seconds = `{"seconds":20}`
				want.WriteString(echoLine(id, seconds))
			} else {
				want.WriteString(failureLine(id, "the tool did not answer in time", true, "tool_timeout", "unknown"))
			}
			body.WriteString(callLine(id, "pxflow_describe", seconds))
		}
		body.WriteString(callLine("8", "pxflow_describe", `{"seconds":20}`)) // starts at 20 s, and has 8 s
		want.WriteString(failureLine("8", "the tool did not answer in time", true, "tool_timeout", "unknown"))
		body.WriteString(callLine("9", "pxflow_describe", `{"seconds":1}`))
		want.WriteString(failureLine("9", "the request's time was over before this line was started", true, "deadline_before_start", "not_started"))
		if got := serve(t, d, body.String()); got != want.String() {
			t.Errorf("\n got %s\nwant %s", got, want.String())
		}
		if took := time.Since(begin); took != 28*time.Second {
			t.Errorf("took %v", took)
		}
		if started.Load() != 9 {
			t.Errorf("%d calls were started", started.Load())
		}
		mu.Lock()
		defer mu.Unlock()
		for i, deadline := range deadlines {
			if want := []time.Duration{25 * time.Second, 27 * time.Second}[i/8]; deadline != want {
				t.Errorf("call %d: the tool's deadline is %v after the start, want %v", i, deadline, want)
			}
		}
	})
}

// covers: W1
func TestACallGetsWhatTheRequestIs(t *testing.T) {
	var got tool.Request
	d := dispatcher(t, func(ctx context.Context, request tool.Request) ([]byte, error) {
		got = request
		return echo(ctx, request)
	})
	serve(t, d, `{"jsonrpc":"2.0","method":"x"}`+"\n"+
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"px/assistant":{"provider":"p","model":"m"}},"name":"pxflow_apply_change","arguments":{"a": 1}}}`)
	if got.Version != 1 || got.RequestID != "req.2" || got.Tool != "pxflow_apply_change" || string(got.Arguments) != `{"a": 1}` ||
		got.Principal.Subject != "engineer" || *got.Assistant != (tool.Assistant{Provider: "p", Model: "m"}) {
		t.Errorf("got %+v", got)
	}
}

// envelopeOf returns an envelope that takes size bytes when escaped. quotes says
// whether it is made of characters that take two.
func envelopeOf(size int, quotes bool) []byte {
	const head, tail = `{"ok":true,"data":{"x":"`, `"},"diagnostics":[],"resources":[]}`
	rest := size - EscapedLen([]byte(head+tail))
	text := strings.Repeat("x", rest)
	if quotes {
		text = strings.Repeat(`\"`, rest/4) + strings.Repeat("x", rest%4)
	}
	return []byte(head + text + tail)
}

// The ledger: each line may use min(2 MiB, 5.5 MB / n) bytes as they stand in the
// JSON string of a proxy response, and all lines together 5.5 MB.
// covers: W6, B1
func TestReplyLedger(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 63, 64} {
		for _, quotes := range []bool{false, true} {
			for _, over := range []int{0, 1} {
				t.Run(fmt.Sprintf("%d lines, quotes %v, %d over", n, quotes, over), func(t *testing.T) {
					d := dispatcher(t, func(_ context.Context, request tool.Request) ([]byte, error) {
						if request.RequestID == "req.1" { // one line alone is at the limit, or over it
							return envelopeOf(request.ByteShare+over, quotes), nil
						}
						return envelopeOf(request.ByteShare, quotes), nil
					})
					var body strings.Builder
					for i := range n {
						body.WriteString(callLine(fmt.Sprintf(`"\"%d"`, i), "pxflow_describe", `{}`))
					}
					reply, err := d.Serve(t.Context(), caller, []byte(body.String()))
					if err != nil {
						t.Fatal(err)
					}
					quoted, err := jsontext.AppendQuote(nil, reply)
					if err != nil {
						t.Fatal(err)
					}
					if len(quoted)-2 > 5_500_000 {
						t.Errorf("the reply takes %d bytes", len(quoted)-2)
					}
					lines := strings.SplitAfter(string(reply), "\n")
					for i, line := range lines[:n] {
						if over == 1 && i == 0 {
							if want := failureLine(`"\"0"`, failureText[ReasonAnswerTooBig], false, "answer_too_large", "completed"); line != want {
								t.Errorf("got %.300s", line)
							}
							continue
						}
						quoted, err := jsontext.AppendQuote(nil, line)
						if err != nil {
							t.Fatal(err)
						}
						if size, limit := len(quoted)-2, min(2_097_152, 5_500_000/n); size != limit {
							t.Errorf("line %d takes %d bytes of %d", i, size, limit)
						}
					}
				})
			}
		}
	}
}

// Notifications get no line, so they get no share.
// covers: W6
func TestNotificationsTakeNoShare(t *testing.T) {
	var got int
	d := dispatcher(t, func(ctx context.Context, request tool.Request) ([]byte, error) {
		got = request.ByteShare
		return echo(ctx, request)
	})
	serve(t, d, callLine("1", "pxflow_describe", `{}`))
	alone := got
	serve(t, d, strings.Repeat(`{"jsonrpc":"2.0","method":"x"}`+"\n", 63)+callLine("1", "pxflow_describe", `{}`))
	if got != alone || got < 2_097_152-200 {
		t.Errorf("%d bytes alone, %d among notifications", alone, got)
	}
}

// Even 64 error lines with the longest ids fit.
// covers: W6
func TestErrorLinesAlwaysFit(t *testing.T) {
	id := `"` + strings.Repeat(`\"`, 511) + `"`
	reply := serve(t, dispatcher(t, func(_ context.Context, request tool.Request) ([]byte, error) {
		if request.ByteShare < 64<<10 {
			t.Errorf("a share of %d bytes", request.ByteShare)
		}
		return envelopeOf(request.ByteShare+1, true), nil
	}), strings.Repeat(callLine(id, "pxflow_describe", `{}`), 64))
	if n := EscapedLen([]byte(reply)); n > ReplyBytes || strings.Count(reply, "answer_too_large") != 64 {
		t.Errorf("%d bytes", n)
	}
}

// covers: W7
func TestTheCatalogIsOneLineInItsOrder(t *testing.T) {
	d, err := New(Config{Catalog: []byte("[\n  {\"name\": \"b\"},\n  {\"name\": \"a\"}\n]\n"), Call: echo})
	if err != nil {
		t.Fatal(err)
	}
	if got := serve(t, d, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); got != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"b"},{"name":"a"}]}}`+"\n" {
		t.Errorf("got %s", got)
	}
	for _, catalog := range []string{``, `{}`, `[{}]`, `[{"name":"a"},{"name":"a"}]`, `[{"name":"run.get"}]`, `[{"name":"a"`, `[1]`} {
		if _, err := New(Config{Catalog: []byte(catalog), Call: echo}); err == nil {
			t.Errorf("the catalog %s is accepted", catalog)
		}
	}
	if _, err := New(Config{Catalog: []byte(testCatalog)}); err == nil {
		t.Error("no way to call is accepted")
	}
}

// replies counts the reply lines that body must have: a line for each message
// that is no notification. It is written without the package's own reader.
func replies(body []byte) (n int, refused bool) {
	if len(body) > MaxBody {
		return 1, true
	}
	messages := 0
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		messages++
		if len(line) > MaxLine || !isNotification(line) {
			n++
		}
	}
	if messages == 0 || messages > MaxLines {
		return 1, true
	}
	return n, false
}

func isNotification(line []byte) bool {
	if canon.CheckGrammar(line) != nil {
		return false
	}
	var m map[string]jsontext.Value
	if json.Unmarshal(line, &m) != nil || m == nil {
		return false
	}
	var version, method any
	_ = json.Unmarshal(m["jsonrpc"], &version)
	_ = json.Unmarshal(m["method"], &method)
	_, named := method.(string)
	for name := range m {
		if name != "jsonrpc" && name != "method" && name != "params" {
			return false
		}
	}
	return version == "2.0" && named
}

func checkReply(t interface{ Fatalf(string, ...any) }, body, reply []byte, err error) {
	want, refused := replies(body)
	if refused != (err != nil) {
		t.Fatalf("refused: %v, error: %v", refused, err)
	}
	if len(reply) == 0 && want == 0 {
		return
	}
	lines := bytes.SplitAfter(reply, []byte("\n"))
	if got := len(lines) - 1; got != want || len(lines[got]) != 0 {
		t.Fatalf("%d lines, want %d", got, want)
	}
	if EscapedLen(reply) > ReplyBytes {
		t.Fatalf("%d bytes", EscapedLen(reply))
	}
	for _, line := range lines[:want] {
		if err := canon.CheckGrammar(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var m map[string]jsontext.Value
		if err := json.Unmarshal(line, &m); err != nil || len(m) != 3 || m["id"] == nil || (m["result"] == nil) == (m["error"] == nil) {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// covers: W1, W2
func TestAnyLinesGiveOneReplyEachInOrder(t *testing.T) {
	d := dispatcher(t, echo)
	id := rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`),
		rapid.Map(rapid.StringMatching(`([a-z\x{ac00}\x{1f600} /]|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\ud83d\\ude00){0,20}`), func(s string) string { return `"` + s + `"` }),
	)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(id, 1, 64).Draw(t, "ids")
		var body, want strings.Builder
		for _, id := range ids {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				body.WriteString(`{"jsonrpc":"2.0","id":` + id + `,"method":"nope"}` + "\n")
				want.WriteString(errorLine(id, -32601, badMethod))
			case 1:
				body.WriteString(`{"jsonrpc":"2.0","method":"nope","params":[` + id + `]}` + "\n")
			case 2:
				body.WriteString(`{"jsonrpc":"2.0","id":` + id + "\n")
				want.WriteString(errorLine("null", -32700, fmt.Sprintf("not strict JSON at byte %d: ends too early", 22+len(id))))
			default:
				body.WriteString(callLine(id, "pxflow_describe", `{"id":`+id+`}`))
				want.WriteString(echoLine(id, `{"id":`+id+`}`))
			}
		}
		if reply, err := d.Serve(context.Background(), caller, []byte(body.String())); err != nil || string(reply) != want.String() {
			t.Fatalf("%v\n got %s\nwant %s", err, reply, want.String())
		}
	})
}

// covers: W1, W2, W6
func TestAnyBytesGiveValidLines(t *testing.T) {
	d := dispatcher(t, echo)
	whole := rapid.SampledFrom([]string{
		strings.TrimSpace(callLine("1", "pxflow_describe", `{"a":[{"b":"é"}]}`)), `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`,
		`{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"tools/list","params":{"_meta":{"px/assistant":{"provider":"p","model":"m"}}}}`,
	})
	// A line with a few bytes changed, taken out or put in.
	spoilt := rapid.Custom(func(t *rapid.T) string {
		line := []byte(whole.Draw(t, "line"))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
			to := rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "to")
			line = slices.Replace(line, at, at+1, to...)
			if len(line) == 0 {
				break
			}
		}
		return string(line)
	})
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(strings.Join(rapid.SliceOfN(spoilt, 0, 66).Draw(t, "lines"), "\n"))
		reply, err := d.Serve(context.Background(), caller, body)
		checkReply(t, body, reply, err)
	})
}

// covers: W8
func TestStreamAnswersAsServeDoes(t *testing.T) {
	d := dispatcher(t, echo)
	answer := d.Line(caller.Principal, func() string { return "req" })
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			strings.TrimSpace(callLine("1.5", "pxflow_describe", `{}`)), `{"jsonrpc":"2.0","method":"x"}`, ``, ` `, "\r", `{`, `[]`,
			`{"jsonrpc":"2.0","id":"\u0041","method":"tools/list"}`, "\xff", strings.Repeat("x", 70<<10),
		}), 0, 200).Draw(t, "lines")
		end := rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
		in := strings.Join(lines, "\n") + end
		var want bytes.Buffer
		for _, line := range lines {
			if strings.TrimSpace(line) != "" {
				reply, _ := d.Serve(context.Background(), caller, []byte(line))
				want.Write(reply)
			}
		}
		var out bytes.Buffer
		if err := Stream(context.Background(), &chunks{in, rapid.IntRange(1, 5000).Draw(t, "chunk")}, &out, answer); err != nil {
			t.Fatal(err)
		}
		if out.String() != want.String() {
			t.Fatalf("got %s\nwant %s", out.String(), want.String())
		}
	})
}

// chunks reads a text in pieces, as a pipe gives them.
type chunks struct {
	rest string
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// covers: W6, W8
func TestStreamSkipsALineThatIsTooLong(t *testing.T) {
	d := dispatcher(t, echo)
	good := callLine("1", "pxflow_describe", `{}`)
	tooLong := errorLine("null", -32600, "the line is longer than 2097152 bytes")
	var out bytes.Buffer
	in := strings.Repeat("x", 2_097_153) + "\n" + good + strings.Repeat(" ", 2_097_152) + "\n" + strings.Repeat("y", 9_000_000)
	if err := Stream(t.Context(), strings.NewReader(in), &out, d.Line(caller.Principal, func() string { return "r" })); err != nil {
		t.Fatal(err)
	}
	if want := tooLong + echoLine("1", `{}`) + tooLong; out.String() != want {
		t.Errorf("got %.400s", out.String())
	}
}

// An answer is written as soon as it is there: a client waits for it before it
// writes the next line.
// covers: W8
func TestStreamDoesNotWaitForMoreInput(t *testing.T) {
	d := dispatcher(t, echo)
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Stream(t.Context(), inRead, outWrite, d.Line(caller.Principal, func() string { return "r" }))
	}()
	for range 3 {
		if _, err := io.WriteString(inWrite, callLine("1", "pxflow_describe", `{}`)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(echoLine("1", `{}`)))
		if _, err := io.ReadFull(outRead, got); err != nil || string(got) != echoLine("1", `{}`) {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	inWrite.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// However much is waiting, eight lines are held at a time.
// covers: W8
func TestStreamHoldsEightLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most int
		var mu sync.Mutex
		var out bytes.Buffer
		start := time.Now()
		err := Stream(t.Context(), strings.NewReader(strings.Repeat("x\n", 40)), &out, func(_ context.Context, line []byte) []byte {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return append(line, '\n')
		})
		if took := time.Since(start); err != nil || most != SideBySide || took != 5*time.Second || out.Len() != 80 {
			t.Errorf("%d at a time for %v, %d bytes, %v", most, took, out.Len(), err)
		}
	})
}

func TestStreamEndsWithItsEnds(t *testing.T) {
	d := dispatcher(t, echo)
	answer := d.Line(caller.Principal, func() string { return "r" })
	broken := errors.New("broken")
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	outRead.CloseWithError(broken)
	go io.WriteString(inWrite, callLine("1", "pxflow_describe", `{}`))
	if err := Stream(t.Context(), inRead, outWrite, answer); !errors.Is(err, broken) {
		t.Errorf("a closed out: %v", err)
	}
	var out bytes.Buffer
	half := callLine("1", "pxflow_describe", `{}`) + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if err := Stream(t.Context(), io.MultiReader(strings.NewReader(half), failing{broken}), &out, answer); !errors.Is(err, broken) {
		t.Errorf("a broken in: %v", err)
	}
	if out.String() != echoLine("1", `{}`) {
		t.Errorf("the line that broke off was answered: %s", out.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	idle, _ := io.Pipe()
	if err := Stream(ctx, idle, &out, answer); !errors.Is(err, broken) {
		t.Errorf("a ctx that ended: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		callLine("1", "pxflow_describe", `{"a":1}`) + callLine(`"\u0041"`, "run.get", `{}`), `{"jsonrpc":"2.0","method":"x"}`, "\n\n", "{}\n[]\n",
		`{"jsonrpc":"2.0","id":1e400,"method":"tools/list","params":{"_meta":{"px/assistant":{"provider":"p","model":"m"}}}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\"}", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_describe","arguments":{"a":"\ud800"}}}`,
		strings.Repeat("[", 70), `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`,
	} {
		f.Add([]byte(seed))
	}
	d := dispatcher(f, echo)
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := d.Serve(context.Background(), caller, body)
		checkReply(t, body, reply, err)
	})
}

func BenchmarkServe(b *testing.B) {
	d := dispatcher(b, func(context.Context, tool.Request) ([]byte, error) {
		return []byte(`{"ok":true,"data":{},"diagnostics":[],"resources":[]}`), nil
	})
	small := callLine("1", "pxflow_describe", `{"target":{"scope":{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"},"flowKey":"girder_check","revisionRef":"sha256:x"}}`)
	large := callLine("1", "pxflow_describe", `{"commands":[`+strings.Repeat(`{"kind":"ConnectInput","nodeKey":"resistance_check","portKey":"span","binding":{"kind":"flowInput","portKey":"span"}},`, 9000)+`{}]}`)
	for _, c := range []struct{ name, body string }{{"1 line", small}, {"64 lines", strings.Repeat(small, 64)}, {"1 line of 1 MB", large}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			body := []byte(c.body)
			for b.Loop() {
				if _, err := d.Serve(b.Context(), caller, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
