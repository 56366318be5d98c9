package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/python/pythontest"
)

const handlers = `
import os, sys, time
print("module loaded")
calls = 0

def handler(event, context):
    global calls
    calls += 1
    do = event.get("do")
    if do == "fail":
        raise ValueError("asked to fail")
    if do == "exit":
        os._exit(7)
    if do == "sleep":
        time.sleep(60)
    if do == "nan":
        return float("nan")
    if do == "allocate":
        hold = bytearray(300_000_000)
        time.sleep(3)
        return len(hold)
    return {"pid": os.getpid(), "calls": calls, "requestId": context.aws_request_id, "arn": context.invoked_function_arn,
            "remainingMillis": context.get_remaining_time_in_millis(), "env": ["%s=%s" % kv for kv in os.environ.items()]}
`

// openPython starts a host with one function f whose module holds the text.
func openPython(t testing.TB, text string, change func(*Options, *Function)) (*Host, *logs) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, l := open(t, func(o *Options, f *Function) {
		f.Bootstrap, f.Handler, o.Python = filepath.Join(dir, "bootstrap"), "app.handler", os.Getenv("PX_PYTHON")
		if change != nil {
			change(o, f)
		}
	})
	if h.noPython != nil && !strings.HasPrefix(h.opt.Python, "no-such") {
		skip(t, h.noPython.Error())
	}
	return h, l
}

// covers: H2, H4
func TestAFunctionInPythonRunsAsOneWithABootstrapDoes(t *testing.T) {
	h, l := openPython(t, handlers, func(o *Options, f *Function) {
		f.Timeout = 1500 * time.Millisecond
		f.Environment = map[string]string{"GREETING": "hello"}
	})
	t.Setenv("PX_SECRET_OF_THE_HOST", "x")
	first, _ := call(t, h, `{}`)
	second, _ := call(t, h, `{}`)
	if first.Pid != second.Pid || second.Calls != 2 || second.ARN != arnPrefix+"f" || second.RequestID == "" || second.RemainingMillis < 500 || second.RemainingMillis > 1500 {
		t.Errorf("%+v, then %+v", first, second)
	}
	env := strings.Join(second.Env, "\n")
	if !strings.Contains(env, "GREETING=hello") || !strings.Contains(env, "_HANDLER=app.handler") || strings.Contains(env, "PX_SECRET_OF_THE_HOST") {
		t.Errorf("environment: %s", env)
	}
	for _, c := range []struct {
		name, payload, errorType, message string
		dies                              bool
	}{
		{"an exception", `{"do":"fail"}`, "ValueError", "asked to fail", false},
		{"an answer that is no JSON", `{"do":"nan"}`, "Runtime.MarshalError", "", false},
		{"a process that exits", `{"do":"exit"}`, "Runtime.ExitError", "exit status 7", true},
		{"one that overruns its timeout", `{"do":"sleep"}`, "Sandbox.Timedout", "Task timed out", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := call(t, h, `{}`)
			if a, fe := call(t, h, c.payload); fe != "Unhandled" || a.ErrorType != c.errorType || !strings.Contains(a.ErrorMessage, c.message) {
				t.Errorf("%q %+v", fe, a)
			}
			after, fe := call(t, h, `{}`)
			if fe != "" || (after.Pid != before.Pid) != c.dies {
				t.Errorf("afterwards %q %+v", fe, after)
			}
		})
	}
	if !strings.Contains(l.all(), "f - | module loaded") {
		t.Error("what it prints is not in the log")
	}
}

func TestAFunctionInPythonIsHeldToItsMemory(t *testing.T) {
	if residentBytes(os.Getpid()) == 0 {
		skip(t, "this platform does not tell the size of a process")
	}
	h, _ := openPython(t, handlers, nil)
	before, _ := call(t, h, `{}`)
	// Not by its timeout, which is longer than it would take.
	if a, fe := call(t, h, `{"do":"allocate"}`); fe != "Unhandled" || !strings.HasSuffix(a.ErrorMessage, "signal: killed") {
		t.Errorf("%q %+v", fe, a)
	}
	if after, fe := call(t, h, `{}`); fe != "" || after.Pid == before.Pid {
		t.Errorf("afterwards %q %+v", fe, after)
	}
}

func TestAModuleThatCannotBeLoadedSaysSo(t *testing.T) {
	for name, c := range map[string]struct{ text, errorType string }{
		"it raises":            {"import nothing_of_this_name", "Runtime.ImportModuleError"},
		"it has no handler":    {"x = 1", "Runtime.HandlerNotFound"},
		"it is no Python code": {"def", "Runtime.ImportModuleError"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := openPython(t, c.text, nil)
			if a, fe := call(t, h, `{}`); fe != "Unhandled" || a.ErrorType != c.errorType {
				t.Errorf("%q %+v", fe, a)
			}
		})
	}
}

// covers: H4
func TestWithoutPythonEverythingElseWorks(t *testing.T) {
	h, l := openPython(t, handlers, func(o *Options, f *Function) {
		o.Functions = []Function{{Name: "other", Bootstrap: probe, Timeout: 5 * time.Second, MemoryMB: 128}}
		o.Python = "no-such-python3"
	})
	if !strings.Contains(l.all(), "no python3 of version 3.11 or newer (no-such-python3 is not there) on this machine: f cannot run, and everything else can") {
		t.Errorf("log: %s", l.all())
	}
	for range 2 {
		if a, fe := call(t, h, `{}`); fe != "Unhandled" || a.ErrorType != PythonMissing {
			t.Errorf("%q %+v", fe, a)
		}
	}
	if out, fe, err := h.Invoke(context.Background(), "other", []byte(`{"x":1}`)); string(out) != `{"x":1}` || fe != "" || err != nil {
		t.Errorf("the other: %s %q %v", out, fe, err)
	}
}

// pythonSource makes f the reader of Python source, in one process.
func pythonSource(o *Options, f *Function) {
	f.Bootstrap, f.MemoryMB, f.Timeout = filepath.Join(pythontest.Folder(), "bootstrap"), 1024, 20*time.Second
	o.MaxInstances = 1
}

// Sources that kill or hang a parser get an answer each, and the next one is read.
//
// covers: N2
func TestFiftyHostileSourcesAreAnsweredAndThenAGoodOne(t *testing.T) {
	source := func(text string) []byte {
		b, err := json.Marshal(map[string]any{"v": 1, "kind": "function", "source": text})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	h, _ := openPython(t, handlers, pythonSource)
	repeat := strings.Repeat
	hostile := []string{
		repeat("(", 10_000), repeat("[", 200_000), repeat("{", 99), "x = " + repeat("(", 60) + repeat("-", 200_000) + "1", "x = " + repeat("-", 4000) + "1",
		"x = " + repeat("not ", 60_000) + "1", "x = 1" + repeat("+1", 49_000), "x = 1" + repeat("**1", 20_000), "x = a" + repeat(".b", 49_000), "x = a" + repeat("()", 30_000),
		"x = a" + repeat("[0]", 30_000), "x = " + repeat("lambda: ", 30_000) + "1", "x = " + repeat("1 if 1 else ", 19_000) + "1", "x = " + repeat("9", 200_000), "x = 10**10**10",
		"x = 'a' * 10**10", repeat("if x:\n", 1000), nestedBlocks(120), "if x: pass\n" + repeat("elif x: pass\n", 18_000), repeat("x = 1\n", 40_000),
		"x = [" + repeat("0,", 49_000) + "]", "x = {" + repeat("a:a,", 24_000) + "}", "x = f'" + repeat("{x}", 20_000) + "'", "x = '" + repeat("\\N{DIGIT ONE}", 18_000) + "'", repeat("@", 1000),
		"x = " + repeat("'a' ", 60_000), repeat("\\\n", 100_000), "x = '''" + repeat("\n", 200_000), repeat("\n", 260_000), repeat(" ", 260_000) + "x",
		"x = " + repeat("f'{", 60) + repeat("}'", 60), "x = " + repeat("~", 90_000) + "1", "def f(): " + repeat("yield ", 40_000), "x = " + repeat("await ", 40_000) + "x", "x = (" + repeat("x:=", 40_000) + "1)",
		repeat("class a:\n", 50), "x = " + repeat("*", 90_000) + "x", "print(" + repeat("*x,", 40_000) + ")", "match x:\n case " + repeat("[", 60) + repeat("]", 60) + ": pass", "match x:\n case 1" + repeat("|1", 40_000) + ": pass",
		"import " + repeat("a.", 60_000) + "a", "from . import " + repeat("a,", 40_000) + "a", repeat("a;", 49_000), "x: " + repeat("a[", 60) + repeat("]", 60) + " = 1", "x = " + repeat("1,", 49_000),
		"try: pass\n" + repeat("except a: pass\n", 15_000), "with " + repeat("a,", 49_000) + "a: pass", "x = [a " + repeat("for a in b ", 20_000) + "]", "x < " + repeat("x < ", 40_000) + "x", "def f(" + repeat("a,", 100) + "*" + repeat("b", 250_000) + "): pass",
	}
	if len(hostile) != 50 {
		t.Fatalf("%d sources", len(hostile))
	}
	for i, text := range hostile {
		begun := time.Now()
		out, fe, err := h.Invoke(context.Background(), "f", source(text))
		var reply struct {
			Findings []struct{ Reason string }
		}
		if err != nil || fe != "" || json.Unmarshal(out, &reply) != nil || len(reply.Findings) == 0 {
			t.Errorf("source %d, %.20q: %q %v %.300s", i, text, fe, err, out)
			continue
		}
		t.Logf("%2d %-28.24q %5d ms  %s", i, text, time.Since(begun).Milliseconds(), reply.Findings[0].Reason)
	}
	good, err := os.ReadFile(filepath.Join("..", "..", "..", "events", "python_source.json"))
	if err != nil {
		t.Fatal(err)
	}
	if out, fe, err := h.Invoke(context.Background(), "f", good); err != nil || fe != "" || !strings.Contains(string(out), `"functionKey": "resistance"`) {
		t.Errorf("the good one: %s %q %v", out, fe, err)
	}
	if n := len(h.instances); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func nestedBlocks(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "if x:\n")
	}
	return b.String() + strings.Repeat(" ", depth) + "pass\n"
}

// BenchmarkPythonSource reads a Function of 200 lines in a warm instance, beside an
// invocation that does nothing, in Go and in Python. The target is 10 ms.
func BenchmarkPythonSource(b *testing.B) {
	var text strings.Builder
	text.WriteString("import math\nimport px\n\n\n@px.function(\n    key=\"f\",\n    version=1,\n    description=\"d\",\n    inputs={\n")
	for i := range 20 {
		fmt.Fprintf(&text, "        \"a%d\": px.number(unit=\"kN*m\", minimum=0, default=%d),\n", i, i)
	}
	text.WriteString("    },\n    results={\"r\": px.number(unit=\"m\")},\n)\ndef f(" + "a0")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&text, ", a%d", i)
	}
	text.WriteString("):\n    total = 0.0\n")
	for i := 0; strings.Count(text.String(), "\n") < 199; i++ {
		fmt.Fprintf(&text, "    if a%d > %d and total < 1e6:\n        total += math.sqrt(a%d ** 2 + %d.5) / max(a%d, 1)  # 항 %d\n", i%20, i, i%20, i, (i+1)%20, i)
	}
	text.WriteString("    return {\"r\": total}\n")
	source, err := json.Marshal(map[string]any{"v": 1, "kind": "function", "source": text.String()})
	if err != nil {
		b.Fatal(err)
	}
	reader, _ := openPython(b, handlers, pythonSource)
	noop, _ := open(b, nil)
	noopPython, _ := openPython(b, "def handler(event, context): return event", nil)
	for _, c := range []struct {
		name    string
		host    *Host
		payload []byte
		holds   string
	}{
		{"no-op", noop, []byte(`{"hello":"world"}`), "world"},
		{"no-op-python", noopPython, []byte(`{"hello":"world"}`), "world"},
		{"200-lines", reader, source, `"functionKey": "f"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			invoke := func() {
				out, fe, err := c.host.Invoke(context.Background(), "f", c.payload)
				if err != nil || fe != "" || !strings.Contains(string(out), c.holds) {
					b.Fatalf("%q %v %.500s", fe, err, out)
				}
			}
			invoke() // warm
			for b.Loop() {
				invoke()
			}
		})
	}
}
