package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// streamed is what a stream answers with the standard endpoint behind it, in the order of
// the text.
func streamed(t testing.TB, in string) []string {
	t.Helper()
	s := standard(t, echo)
	var out bytes.Buffer
	if err := StreamStandard(t.Context(), strings.NewReader(in), &out, func(ctx context.Context, post Post) []byte {
		return s.Serve(ctx, caller, post).Body
	}); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(out.String(), "\n")
	slices.Sort(lines)
	return lines[1:] // the last one is empty
}

// covers: W9
func TestALineIsARequestOfTheStandardEndpoint(t *testing.T) {
	called := `"name":"pxflow_describe"`
	for _, c := range []struct{ name, in, want string }{
		{"initialize", request("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}`), resulting(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"pxhost","title":"pxhost","version":"1"},"instructions":"Begin with project_search."}`)},
		{"discover, the same words as by HTTP", request("server/discover", meta), resulting(`{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"capabilities":{"tools":{}},"instructions":"Begin with project_search.",` + fresh + `}`)},
		{"a modern call", request("tools/call", called+`,`+meta), resulting(`{` + mirrored(enveloped) + `,"isError":false,"resultType":"complete",` + identified + `}`)},
		{"a call", request("tools/call", called), resulting(`{` + mirrored(enveloped) + `,"isError":false}`)},
		{"a line end of Windows", request("ping", "") + "\r", resulting("{}")},
		{"the last line without an end", request("ping", ""), resulting("{}")},
		{"a line that broke off", `{"jsonrpc":"2.0","id":1,"meth`, errorLine("null", -32700, "not strict JSON at byte 29: ends too early")},
		{"blank lines", "\n \r\n\t\n", ""},
		{"a modern method that there is not", request("resources/list", meta), faulty(-32601, "the methods are server/discover, tools/list and tools/call")},
		{"a modern method that no header has", request("\u00e9", meta), faulty(-32601, "the methods are server/discover, tools/list and tools/call")},
		{"a modern tool that no header has", request("tools/call", `"name":"\u00e9\n",`+meta), faulty(-32602, "there is no such tool")},
		{"a modern tool that looks encoded", request("tools/call", `"name":"=?base64?eA==?=",`+meta), faulty(-32602, "there is no such tool")},
		{"a modern call of nothing", request("tools/call", meta), faulty(-32602, "name is missing")},
		{"a version that is not spoken", request("tools/list", strings.Replace(meta, Modern, "2099-01-01", 1)), fmt.Sprintf(versioned, "2099-01-01")},
		{"a version that no header has", request("tools/list", strings.Replace(meta, Modern, `2026\n07`, 1)), faulty(-32602, "io.modelcontextprotocol/protocolVersion must be a version of the protocol")},
		{"no capabilities of the client", request("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), faulty(-32602, "_meta must have io.modelcontextprotocol/clientCapabilities, an object")},
		{"a batch", "[" + request("ping", "") + "]", errorLine("null", -32600, "a message is a JSON object; batches are lines, not arrays")},
		{"a key twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, errorLine("null", -32700, "not strict JSON at byte 24: duplicate name")},
		{"no JSON", "hello", errorLine("null", -32700, "not strict JSON at byte 0: malformed")},
		{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, errorLine("null", -32600, badID)},
		{"an id beyond 2^53", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}` + "\n"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{"a cancelled request that there is not", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, ""},
		{"a cancelled request without a name", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`, ""},
		{"a call without an id is not run", strings.Replace(request("tools/call", called), `"id":1,`, "", 1), ""},
		{"a line that is too long", strings.Repeat("x", MaxLine+1) + "\n" + request("ping", ""), errorLine("null", -32600, "the line is longer than 2097152 bytes") + resulting("{}")},
	} {
		got := strings.Join(streamed(t, c.in), "")
		want := strings.SplitAfter(c.want, "\n")
		slices.Sort(want)
		if got != strings.Join(want, "") {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A slow request holds up no other one, eight are answered at a time, and what was
// cancelled gets no reply, whether it was begun or not.
//
// covers: W9
func TestRequestsOfAStreamAreAnsweredAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		var out bytes.Buffer
		var mu sync.Mutex
		begun, ended := 0, map[string]error{}
		done := make(chan error, 1)
		go func() {
			done <- StreamStandard(t.Context(), in, &out, func(ctx context.Context, post Post) []byte {
				m, _ := readMessage(post.Body)
				mu.Lock()
				begun++
				mu.Unlock()
				wait := time.Hour
				if m.method == "ping" {
					wait = time.Second
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
				mu.Lock()
				ended[string(m.id)] = ctx.Err()
				mu.Unlock()
				return resultLine(m.id, []byte("{}"))
			})
		}()
		say := func(format string, args ...any) { fmt.Fprintf(feed, `{"jsonrpc":"2.0",`+format+"}\n", args...) }
		for i := range 7 {
			say(`"id":%d,"method":"tools/call"`, i)
		}
		say(`"id":"quick","method":"ping"`)
		synctest.Wait() // eight have a place
		say(`"id":8,"method":"tools/call"`)
		say(`"id":9,"method":"tools/call"`) // waits for a place
		synctest.Wait()
		if begun != SideBySide || out.Len() != 0 {
			t.Errorf("%d are begun: %s", begun, out.String())
		}
		say(`"method":"notifications/cancelled","params":{"requestId":9,"reason":"no more"}`)
		say(`"method":"notifications/cancelled","params":{"requestId":0}`)
		say(`"method":"notifications/cancelled","params":{"requestId":"1"}`) // not the number
		time.Sleep(2 * time.Second)
		if out.String() != `{"jsonrpc":"2.0","id":"quick","result":{}}`+"\n" {
			t.Errorf("it says %s", out.String())
		}
		feed.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 8 || begun != 9 || ended["0"] == nil || ended["1"] != nil {
			t.Errorf("%d lines of %d, %v: %s", lines, begun, ended, out.String())
		}
		if _, has := ended["9"]; has || strings.Contains(out.String(), `"id":9`) || strings.Contains(out.String(), `"id":0`) {
			t.Errorf("a cancelled request was answered: %v, %s", slices.Sorted(maps.Keys(ended)), out.String())
		}
	})
}

// However much comes, what is held of it is bounded.
func TestAStreamHoldsAsManyRequestsAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		said := 0
		go func() {
			defer feed.Close()
			for i := range 200 {
				fmt.Fprintf(feed, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
				said = i
			}
		}()
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() {
			done <- StreamStandard(t.Context(), in, &out, func(_ context.Context, post Post) []byte {
				time.Sleep(time.Second)
				return []byte("{}\n")
			})
		}()
		synctest.Wait()
		if said > maxWaiting+1 {
			t.Errorf("%d were read before one was answered", said)
		}
		if err := <-done; err != nil || out.Len() != 600 {
			t.Errorf("%d bytes, %v", out.Len(), err)
		}
	})
}

// covers: W9
func TestAStandardStreamEndsWithItsEnds(t *testing.T) {
	broken := errors.New("broken")
	answer := func(context.Context, Post) []byte { return []byte("{}\n") }
	ping := request("ping", "") + "\n"
	outRead, outWrite := io.Pipe()
	outRead.CloseWithError(broken)
	for _, line := range []string{ping, "x\n"} {
		in, feed := io.Pipe() // stays open
		go io.WriteString(feed, line)
		if err := StreamStandard(t.Context(), in, outWrite, answer); !errors.Is(err, broken) {
			t.Errorf("a closed out, for %s: %v", line, err)
		}
	}
	var out bytes.Buffer
	if err := StreamStandard(t.Context(), io.MultiReader(strings.NewReader(ping+`{"jsonrpc":"2.0","id":2,"method":"ping"}`), failing{broken}), &out, answer); !errors.Is(err, broken) {
		t.Errorf("a broken in: %v", err)
	}
	if out.String() != "{}\n" {
		t.Errorf("the line that broke off was answered: %s", out.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	idle, _ := io.Pipe()
	if err := StreamStandard(ctx, idle, &out, answer); !errors.Is(err, broken) {
		t.Errorf("a ctx that ended: %v", err)
	}
}

// Whatever comes, what goes out are messages on one line each, no more than came in.
func FuzzStandardStream(f *testing.F) {
	for _, seed := range []string{
		request("initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}`) + "\n" + request("tools/list", meta),
		request("tools/call", `"name":"pxflow_describe","arguments":{"a":1e400},`+meta), "[]\n\n{}\n", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		request("\u00e9", meta), request("tools/call", `"name":"\ud83d\ude00",`+meta), "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\"}", strings.Repeat("[", 70), "x\ny\r\nz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		lines := streamed(t, in)
		if most := strings.Count(in, "\n") + 1; len(lines) > most {
			t.Fatalf("%d replies to %d lines", len(lines), most)
		}
		for _, line := range lines {
			var m struct {
				JSONRPC       string
				ID            json.RawMessage
				Result, Error json.RawMessage
			}
			if !strings.HasSuffix(line, "\n") || !jsontext.Value(line).IsValid() || json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" || (m.Result == nil) == (m.Error == nil) {
				t.Fatalf("not a reply: %q", line)
			}
		}
	})
}
