package python

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/outcome"
)

const source = "@px.function()\ndef f(a):\n    return {}\n"

const answered = `{"v":1,"python":"3.13","items":[{"findings":[],"function":{"functionKey":"f","version":1,"description":"d","symbol":"f","parameters":["a"],
"inputs":{"a":{"type":"number","unit":"m"}},"results":{"r":{"type":"number","unit":"m"}},"capabilities":[],"imports":[],
"definition":[0,38],"decorator":[0,14],"body":[29,38],"places":{"/inputs/a":[4,12]}},"flow":null}]}`

const found = `{"v":1,"python":"3.13","items":[{"findings":[{"code":"PX_SOURCE_INVALID","reason":"syntax","line":1,"column":1,"start":0,"end":0,"params":{}}],"function":null,"flow":null}]}`

// An answer that breaks its contract is a fault of the machinery, and never becomes
// what a caller is told of a source.
func TestAnswersThatAreNone(t *testing.T) {
	ask := []Request{{Kind: FunctionKind, Source: source}}
	for _, good := range []string{answered, found} {
		if r, err := Decode([]byte(good), ask); err != nil || r[0].Refused() != (good == found) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, text, old, new string }{
		{"another version", answered, `"v":1`, `"v":2`},
		{"a Python of another kind", answered, `"3.13"`, `"2.7"`},
		{"an unknown member", answered, `"symbol"`, `"name":"f","symbol"`},
		{"a member twice", answered, `"symbol":"f"`, `"symbol":"f","symbol":"f"`},
		{"an item too many", answered, `"flow":null}]`, `"flow":null},{"findings":[],"function":null,"flow":null}]`},
		{"nothing found and nothing told", answered, `"function":{`, `"function":null,"x":{`},
		{"a Function beside findings", answered, `"findings":[]`, `"findings":[{"code":"PX_SOURCE_INVALID","reason":"syntax","line":1,"column":1,"start":0,"end":0,"params":{}}]`},
		{"a Flow where a Function was asked for", answered, `"flow":null`, `"flow":{}`},
		{"a key that is none", answered, `"functionKey":"f"`, `"functionKey":"F"`},
		{"version 0", answered, `"version":1`, `"version":0`},
		{"a parameter that is no input", answered, `["a"]`, `["b"]`},
		{"a parameter twice", answered, `["a"]`, `["a","a"]`},
		{"a definition behind the end", answered, `[0,38]`, `[0,41]`},
		{"a range that runs back", answered, `[29,38]`, `[38,29]`},
		{"a body before the decorator's end", answered, `[29,38]`, `[9,38]`},
		{"a place outside the decorator", answered, `[4,12]`, `[4,20]`},
		{"trailing text", answered, `null}]}`, `null}]} {}`},
		{"another code", found, `PX_SOURCE_INVALID`, `PX_TARGET_NOT_FOUND`},
		{"a finding outside the source", found, `"end":0`, `"end":99`},
		{"a reason that is a sentence", found, `"syntax"`, `"bad syntax"`},
		{"a param that quotes the source", found, `"params":{}`, `"params":{"text":"def f(a)"}`},
		{"a param of many parts", found, `"params":{}`, `"params":{"list":["a"]}`},
		{"a param that takes another's place", found, `"params":{}`, `"params":{"line":7}`},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		if text == c.text {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		if r, err := Decode([]byte(text), ask); !errors.Is(err, ErrReply) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	// What the author wrote and the host's own rules refuse is a finding.
	for _, c := range [][2]string{{`"unit":"m"}},"results"`, `"unit":"cubit"}},"results"`}, {`"description":"d"`, `"description":"a\u0007b"`}, {`"type":"number","unit":"m"}},"capabilities"`, `"type":"string","values":["a"]}},"capabilities"`}} {
		r, err := Decode([]byte(strings.Replace(answered, c[0], c[1], 1)), ask)
		if err != nil || !r[0].Refused() || r[0].Function != nil {
			t.Errorf("%s: %+v, %v", c[1], r, err)
		}
	}
}

func TestWhatCannotBeReadIsNotSent(t *testing.T) {
	var asked []string
	client := New(func(_ context.Context, request []byte) ([]byte, error) {
		asked = append(asked, string(request))
		return []byte(found), nil
	}, "3.13")
	replies, err := client.ReadAll(t.Context(), []Request{{Kind: FunctionKind, Source: strings.Repeat("x", MaxSource+1)}, {Kind: FunctionKind, Source: "x"}, {Kind: FunctionKind, Source: "\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 || asked[0] != `{"v":1,"python":"3.13","items":[{"kind":"function","source":"x"}]}` {
		t.Errorf("asked %q", asked)
	}
	for i, reason := range []string{"source_bytes", "syntax", "not_unicode"} {
		if got := replies[i].Diagnostics("/s"); len(got) != 1 || got[0].Params["reason"] != reason {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if d := replies[0].Diagnostics("/s")[0]; d.Code != outcome.LimitExceeded {
		t.Errorf("%+v", d)
	}
	if _, err := client.ReadAll(t.Context(), make([]Request, MaxItems+1)); err == nil {
		t.Error("a request without end is sent")
	}
}

func TestNoPythonIsADiagnosticAndOtherFailuresAreNot(t *testing.T) {
	for _, c := range []struct {
		err error
		is  bool
	}{{ErrUnavailable, true}, {errors.New("x"), false}, {ErrReply, false}} {
		client := New(func(context.Context, []byte) ([]byte, error) { return nil, c.err }, "")
		_, err := client.Read(t.Context(), Request{Kind: FunctionKind, Source: "x"})
		d, ok := Unavailable(err, "/commands/0/source")
		if ok != c.is || ok && (d.Code != outcome.SandboxUnavailable || d.Path != "/commands/0/source") {
			t.Errorf("%v: %v %+v", c.err, ok, d)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(answered)
	f.Add(found)
	f.Add(strings.Replace(answered, `"unit":"m"`, `"unit":"cubit"`, 1))
	f.Add(`{"v":1,"python":"3.13","items":[{"findings":[],"function":null,"flow":{}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		replies, err := Decode([]byte(text), []Request{{Kind: FunctionKind, Source: source}})
		if err != nil {
			return
		}
		r := replies[0]
		if r.Refused() == (r.Function != nil) {
			t.Errorf("refused %v, Function %v", r.Refused(), r.Function)
		}
		if d := r.Diagnostics("/s"); len(d) == 0 && r.Refused() {
			t.Error("refused for no reason")
		} else if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
		if fn := r.Function; fn != nil {
			_, _, _ = fn.Definition.In(source), fn.Decorator.In(source), fn.Body.In(source)
		}
	})
}
