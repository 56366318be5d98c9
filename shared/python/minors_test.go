package python_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/python/pythontest"
)

// The reader's own tests, in Python.
func TestTheReaderHoldsItsOwnTests(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), pythontest.Interpreter(t), "-I", "-B", filepath.Join(pythontest.Folder(), "tests", "test_guard.py"), "-v").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nOK\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every minor of Python on this machine gives the same answers, whatever its grammar
// has learnt since 3.11. Only where a syntax error stands is its own opinion.
func TestMinorsOfPythonAgree(t *testing.T) {
	sources := variations()
	want := answers(t, pythontest.Interpreter(t), sources)
	compared := 0
	for _, name := range []string{"python3.11", "python3.12", "python3.13", "python3.14", "python3.15"} {
		if exec.CommandContext(t.Context(), name, "-I", "-S", "-B", "-c", "").Run() != nil {
			continue // not on this machine
		}
		compared++
		for i, got := range answers(t, name, sources) {
			if got != want[i] {
				t.Errorf("%s reads differently:\n%s\n got %s\nwant %s", name, sources[i], got, want[i])
			}
		}
	}
	t.Logf("%d sources, compared with %d further interpreters", len(sources), compared)
}

// variations is a definition with each line and each part at each of some places.
func variations() []string {
	lines := []string{
		"b = 1", "type X = int", "def g[T](x): pass", "class C[T]: pass", "b = f'{a!r:>{10}}'", "b = f'{a[\"k\"]}'", "b = f\"{a[\"k\"]}\"", "b = f'{a\n}'", "b = f'''{a\n}'''", "b = f'''{a:\n}'''",
		"b = f'{a:\\n}'", "b = f'{\"\\n\"}'", "b = f'{a #\n}'", "b = f'{}'", "b = f'{ }'", "b = f'{!r}'", "b = f'{a b}'", "b = f'{a!z}'", "b = f'{a! r}'", "b = f'{a!r :5}'", "b = f'{a =!r:5}'", "b = f'{a:{b:{c}}}'",
		"b = f'{lambda x: 1}'", "b = f'{(lambda x: 1)}'", "b = f'{x:=5}'", "b = f'{(x:=5)}'", "b = f'{*a}'", "b = f'{a,}'", "b = f'{yield}'", "b = f'\\{a}'", "b = fr'\\{a}'", "b = f'{{{a}}}'", "b = f'{a}}'", "b = f'\\N{DIGIT ONE}{a}'",
		"b = f'{a}' 'c' f\"{a}\"", "b = f'{f\"{a}\"}'", "b = f'{f'{a}'}'", "b = t'{a}'", "b = '\\N{no such name}'", "b = '\\400'", "b = 08", "b = 1if a else 2", "b = 0_", "b = 0x1for x in a", "b = 1.__class__",
		"with (open as b, c): pass", "with (a as b, c): pass", "with (a, c): pass", "def g(*a: *b): pass", "x[*a]", "return *a, 1", "for i in *a, 1: pass", "del a, (b)", "match a:\n        case 1 | 2: pass", "match = case = 1",
		"try: pass\n    except* A: pass", "try: pass\n    except A, B: pass", "try: pass\n    except (A, B): pass", "lambda: (yield)", "global b", "nonlocal b", "import os", "a.b: int = 1", "(b): int", "b: int", "print 1", "exec 'x'", "b = `a`",
		"async def g(): pass", "await a", "b = [x async for x in a]", "b = {**a, 'k': 1}", "f(a for a in b)", "f(a, b for b in c)", "f(a=1, a=2)", "None = 1", "a + 1 = 2", "assert (a, 'x')", "a is 1", "1 < 2 < 3", "b = not not not a",
		"while a: break\n    else: continue", "return", "yield", "raise a from b", "b = ...", "b = a if a", "if a: pass\n    elif b: pass\n    else: pass", "b = (1,", "b = 1)", "  b = 1", "\tb = 1", "b = '", "b = '''", "ｅ = 1", "b = __x", "b = a.__x",
	}
	var out []string
	for _, l := range lines {
		out = append(out, code("    "+l), l+"\n"+definition(good, body), strings.ReplaceAll(code("    "+l), "\n", "\r\n"), code("    if a:\n        "+strings.ReplaceAll(l, "\n", "\n    ")))
	}
	return out
}

func answers(t *testing.T, interpreter string, sources []string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, "-I", "-S", "-B", filepath.Join(pythontest.Folder(), "app.py"))
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer command.Wait()
	defer in.Close()
	lines := bufio.NewReader(pipe)
	var out []string
	for _, s := range sources {
		if err := json.NewEncoder(in).Encode(map[string]any{"v": 1, "kind": "function", "source": s}); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var reply struct {
			Findings []map[string]any `json:"findings"`
			Function any              `json:"function"`
		}
		if err := json.Unmarshal(line, &reply); err != nil {
			t.Fatal(err)
		}
		for _, f := range reply.Findings {
			if f["reason"] == "syntax" {
				for _, place := range []string{"line", "column", "start", "end"} {
					delete(f, place)
				}
			}
		}
		text, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}
