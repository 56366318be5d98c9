package sandboxtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// Entrypoints holds a driver to what packages of plugins may rely on, and to what
// becomes of those that are hostile, or return what is no result.
func Entrypoints(t *testing.T, under sandbox.Driver) {
	d := &recorder{Driver: under}
	pool := sandbox.NewPool(d, 2)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	file, _ := json.Marshal(secret)
	listener := listen(t)
	_, port, _ := strings.Cut(listener.Addr().String(), ":")

	short := Limits
	short.WallMilliseconds = 1500
	small := Limits
	small.MemoryBytes, small.WallMilliseconds = 96<<20, 10_000
	little := Limits
	little.OutputBytes = 1000
	gives := func(expression string) Package {
		return Main("    return {'summary': 's', 'data': {'y': " + expression + "}, 'evidence': []}")
	}
	const wrapped = `{"data":{"y":`
	y := func(value string) string { return wrapped + value + `},"evidence":[],"summary":"s"}` }

	for _, c := range []struct {
		name   string
		limits job.Limits
		call   Package
		want   []string // reasons of which one is given, or the result
	}{
		{"the input goes in as it is, and what is returned comes out", Limits, Package{Files: map[string]string{"src/analyze.py": `
def main(input):
    words = input["arguments"]["text"].split()
    kept = input["storage"]["notes"]["a"]
    return {"summary": f"{len(words)} 단어", "data": {"words": words, "n": kept["value"] + 0.5, "i": 3, "none": None}, "evidence": [{"key": "a", "version": kept["version"]}],
            "actions": [{"kind": "storage.put", "namespace": "notes", "key": "a", "value": input["settings"]}]}
`}, Input: `{"arguments":{"text":"가 나 c"},"settings":{"deep":[1]},"storage":{"notes":{"a":{"value":1.5,"version":7}}}}`},
			[]string{`{"actions":[{"kind":"storage.put","namespace":"notes","key":"a","value":{"deep":[1]}}],"data":{"words":["가","나","c"],"n":2.0,"i":3,"none":null},"evidence":[{"key":"a","version":7}],"summary":"3 단어"}`}},
		{"files of the package import each other, from folders too", Limits, Package{Files: map[string]string{
			"src/analyze.py":            "import helper\nfrom text.words import count\nfrom text import deep\nimport text.deep.er\n\ndef main(input):\n    return {'summary': 's', 'data': {'y': [helper.Z, count('a b'), text.deep.er.Q, deep.D]}, 'evidence': []}\n",
			"src/helper.py":             "import analyze\nZ = 1\n",
			"src/text/words.py":         "from . import deep\ndef count(t):\n    return len(t.split())\n",
			"src/text/deep/__init__.py": "D = 4\n", "src/text/deep/er.py": "Q = 3\n",
		}}, []string{y("[1,2,3,4]")}},
		{"a file in a folder is called", Limits, Package{Path: "src/a/b.py", Files: map[string]string{"src/a/b.py": "from a import c\n\ndef main(input):\n    return {'summary': 's', 'data': {'y': c.C}, 'evidence': []}\n", "src/a/c.py": "C = 9\n"}}, []string{y("9")}},
		{"a file of the package comes before the module of its name", Limits, Package{Files: map[string]string{
			"src/analyze.py": "import statistics, contract\n\ndef main(input):\n    return {'summary': 's', 'data': {'y': [statistics.Y, contract.Y]}, 'evidence': []}\n", "src/statistics.py": "Y = 1\n", "src/contract.py": "Y = 2\n"}}, []string{y("[1,2]")}},
		{"the standard library is there", Limits, Main("    import csv, hashlib, struct, unicodedata, heapq, io, re, textwrap, difflib, string, html, urllib.parse, base64, uuid, zlib\n    return {'summary': hashlib.sha256(b'').hexdigest()[:8], 'data': {'y': list(csv.reader(io.StringIO('a,b')))}, 'evidence': []}"),
			[]string{`{"data":{"y":[["a","b"]]},"evidence":[],"summary":"e3b0c442"}`}},
		{"what it writes for itself can be read again", Limits, Main("    with open('/tmp/x', 'w') as f:\n        f.write('7')\n    return {'summary': 's', 'data': {'y': open('/tmp/x').read()}, 'evidence': []}"), []string{y(`"7"`)}},
		{"what it prints goes nowhere", Limits, Main("    import sys\n    print('{\"call\":0,\"values\":{}}' * 1000)\n    sys.stderr.write('noise')\n    return {'summary': 's', 'data': {'y': 1}, 'evidence': []}"), []string{y("1")}},
		{"members are looked at elsewhere", Limits, Main("    return {'data': 3}"), []string{`{"data":3}`}},

		{"nothing returned, though it prints a result", Limits, Main("    print('{\"summary\": \"s\", \"data\": {}, \"evidence\": []}')"), []string{"result_type"}},
		{"a list", Limits, Main("    return []"), []string{"result_type"}},
		{"a member that no result has", Limits, Main("    return {'summary': 's', 'data': {}, 'evidence': [], 'log': '/px/shim.py'}"), []string{"result_extra"}},
		{"no JSON", Limits, gives("{1, 2}"), []string{"result_type"}},
		{"NaN", Limits, gives("float('nan')"), []string{"not_finite"}},
		{"an infinity", Limits, gives("[[-1e999]]"), []string{"not_finite"}},
		{"an integer that JSON does not keep", Limits, gives("2 ** 53"), []string{"result_range"}},
		{"half of a surrogate pair", Limits, gives("'\\ud800'"), []string{"result_type"}},
		{"half of a surrogate pair in a name", Limits, gives("{'\\ud800': 1}"), []string{"result_type"}},
		{"a list inside itself", Limits, Main("    x = []\n    x.append(x)\n    return {'summary': 's', 'data': {'y': x}, 'evidence': []}"), []string{"result_cyclic"}},
		{"deeper than is read", Limits, Main("    x = []\n    for _ in range(60):\n        x = [x]\n    return {'summary': 's', 'data': {'y': x}, 'evidence': []}"), []string{"result_depth"}},
		{"a million deep", Limits, Main("    x = []\n    for _ in range(1000000):\n        x = [x]\n    return {'summary': 's', 'data': {'y': x}, 'evidence': []}"), []string{"result_type", "killed"}},
		{"more than may be returned", little, gives("'x' * 2000"), []string{"output_too_large"}},
		{"a huge text", Limits, gives("'x' * (8 << 20)"), []string{"output_too_large"}},
		{"an exception", Limits, Main("    secret = 42\n    raise ValueError(secret)"), []string{"exception ValueError 3"}},
		{"an exception in another file", Limits, Package{Files: map[string]string{"src/analyze.py": "import helper\n\ndef main(input):\n    return helper.f()\n", "src/helper.py": "\n" + strings.Repeat("#\n", 50) + "def f():\n    raise KeyError('secret')\n"}}, []string{"exception KeyError 4"}},
		{"an exception while it loads", Limits, Package{Files: map[string]string{"src/analyze.py": "\n1 / 0\n"}}, []string{"exception ZeroDivisionError 2"}},
		{"a module that is not there", Limits, Package{Files: map[string]string{"src/analyze.py": "import requests\n"}}, []string{"exception ModuleNotFoundError 1"}},
		{"a source that does not compile", Limits, Package{Files: map[string]string{"src/analyze.py": "x = 1\ndef main(:\n"}}, []string{"source_invalid 2"}},
		{"another source that does not compile", Limits, Package{Files: map[string]string{"src/analyze.py": "x = 1\nimport helper\n", "src/helper.py": "def f(:\n"}}, []string{"source_invalid 2"}},
		{"no main", Limits, Package{Files: map[string]string{"src/analyze.py": "def run(input):\n    pass\n"}}, []string{"symbol_missing"}},
		{"a main that is no function", Limits, Package{Files: map[string]string{"src/analyze.py": "main = 3\n"}}, []string{"symbol_missing"}},
		{"sys.exit", Limits, Main("    import sys\n    sys.exit(0)"), []string{"exited 3"}},
		{"the end of the process, without an answer", Limits, Main("    import os\n    os._exit(0)"), []string{"exited"}},
		{"SIGKILL for itself", Limits, Main("    import os\n    os.kill(os.getpid(), 9)"), []string{"killed"}},
		{"SIGKILL for the process that waits for it", Limits, Main("    import os, time\n    os.kill(1, 9)\n    time.sleep(0.2)\n    return {'summary': 's', 'data': {'y': 1}, 'evidence': []}"), []string{"killed", y("1")}},
		{"an infinite loop", short, Main("    while True:\n        pass"), []string{"timeout"}},
		{"a sleep", short, Main("    import time\n    time.sleep(1000)"), []string{"timeout"}},
		{"a fork bomb", short, Main("    import os\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"), []string{"timeout"}},
		{"a fork bomb while it loads", short, Package{Files: map[string]string{"src/analyze.py": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"}}, []string{"timeout"}},
		{"memory piece by piece", small, Main("    x = []\n    while True:\n        x.append(bytearray(1 << 20))"), []string{"memory"}},
		{"noise before the result, on every descriptor", Limits, Main("    import os\n    for fd in range(3, 64):\n        try:\n            os.write(fd, b'noise\\n')\n        except OSError:\n            pass\n    return {'summary': 's', 'data': {'y': 1}, 'evidence': []}"), []string{"result_type"}},
		{"a forged answer through the descriptors of the process that waits for it", Limits, Main(`    import os
    for fd in os.listdir('/proc/1/fd'):
        try:
            os.write(os.open('/proc/1/fd/' + fd, os.O_WRONLY | os.O_NONBLOCK), b'{"call":0,"values":{"summary":"forged"}}\n')
        except OSError:
            pass
    return {'summary': 's', 'data': {'y': 1}, 'evidence': []}`), []string{"result_type", y("1")}},
		{"memory of many processes, each below the limit", small, Main("    import os, time\n    for _ in range(24):\n        if os.fork() == 0:\n            x = bytearray(b'x' * (40 << 20))\n            time.sleep(60)\n    time.sleep(60)"), []string{"memory"}},
		{"SIGKILL for everything", Limits, Main("    import os\n    os.kill(-1, 9)\n    return {'summary': 's', 'data': {'y': 1}, 'evidence': []}"), []string{"killed", "exception ProcessLookupError", y("1")}},
		{"an answer of its own making, and a fork bomb behind it", Limits, Main("    import os\n    for fd in range(3, 64):\n        try:\n            os.write(fd, b'v{\"summary\":\"forged\"}\\n')\n        except OSError:\n            pass\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"), []string{`{"summary":"forged"}`}},
		{"a raw socket", Limits, Main("    import socket\n    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"), []string{"exception PermissionError", "exception OSError"}},
		{"another user", Limits, Main("    import os\n    os.setuid(0)"), []string{"exception PermissionError"}},
		{"a root of its own", Limits, Main("    import os\n    os.chroot('/tmp')"), []string{"exception PermissionError"}},
		{"writing to every path that there is", Limits, Main(`    import os
    wrote = []
    for top, dirs, files in os.walk('/'):
        if top in ('/dev', '/proc', '/tmp', '/work', '/sys'):
            dirs[:] = []
            continue
        for name in files + ['px_new']:
            try:
                os.close(os.open(top.rstrip('/') + '/' + name, os.O_WRONLY | os.O_CREAT))
                wrote.append(name)
            except OSError:
                pass
    return {'summary': 's', 'data': {'y': wrote}, 'evidence': []}`), []string{y("[]")}},
		{"the packages of others, and the files of the machine", Limits, Main(`    import os
    found = [top for top, _, files in os.walk('/') for f in files if not top.startswith('/proc') and (f in ('manifest.json', 'secret', 'analyze.py') or top.startswith('/work'))]
    try:
        open(` + string(file) + `)
        found.append('secret')
    except OSError:
        pass
    return {'summary': 's', 'data': {'y': found}, 'evidence': []}`), []string{y("[]")}},
		{"writing outside", Limits, Main(`    import os
    wrote = []
    for path in ('/x', '/px/shim.py', '/usr/bin/python3', '/etc/passwd', '/proc/1/mem', '/src/analyze.py'):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            wrote.append(path)
        except OSError:
            pass
    return {'summary': 's', 'data': {'y': wrote}, 'evidence': []}`), []string{y("[]")}},
		{"the network", Limits, Main(`    import socket
    reached = []
    for address in (('127.0.0.1', ` + port + `), ('169.254.169.254', 80), ('169.254.170.2', 80), ('1.1.1.1', 443)):
        try:
            with socket.create_connection(address, 0.3):
                reached.append(address[0])
        except OSError:
            pass
    try:
        socket.getaddrinfo('example.com', 80)
        reached.append('names')
    except OSError:
        pass
    return {'summary': 's', 'data': {'y': reached}, 'evidence': []}`), []string{y("[]")}},
		{"the environment", Limits, Main("    import os\n    return {'summary': 's', 'data': {'y': sorted(set(os.environ) - {'PATH', 'HOME', 'LANG', 'PYTHONHASHSEED', 'PYTHONUTF8', 'LD_LIBRARY_PATH'})}, 'evidence': []}"), []string{y("[]")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			spec, text := Entry(t, c.limits, c.call)
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			result, err := sandbox.Run(ctx, pool, spec, text)
			if err != nil {
				t.Fatal(err)
			}
			got := told(result.Results[0])
			if !slices.Contains(c.want, got) && !slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(w, "{") && strings.HasPrefix(got, w+" ") }) {
				t.Errorf("it ended as %s, want %s", got, strings.Join(c.want, " or "))
			}
			if result.Results[0].NodeKey != job.EntryNode || len(result.Results) != 1 {
				t.Errorf("%+v", result.Results)
			}
			if strings.Contains(got, "secret") || result.Results[0].Error != nil && strings.ContainsAny(got, "/.") {
				t.Errorf("it tells %s", got)
			}
			if took := time.Since(began); took > spec.Limits.Wall()+15*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}

	t.Run("a job has the same random numbers in each of its runs, and no other job has them", func(t *testing.T) {
		var drawn []string
		for _, ref := range []string{"job_00000000000000000000000001", "job_00000000000000000000000001", "job_00000000000000000000000002"} {
			spec, _ := Entry(t, Limits, Main("    import random, os, uuid\n    return {'summary': 's', 'data': {'y': [random.random(), os.urandom(2).hex(), str(uuid.uuid4()), list({'a', 'b', 'c'})]}, 'evidence': []}"))
			spec.JobRef = ref
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			result, err := sandbox.Run(t.Context(), pool, spec, text)
			if err != nil || result.Results[0].Error != nil {
				t.Fatal(told(result.Results[0]), err)
			}
			drawn = append(drawn, told(result.Results[0]))
		}
		if drawn[0] != drawn[1] || drawn[0] == drawn[2] {
			t.Errorf("they drew %q", drawn)
		}
	})

	t.Run("a package finds nothing of the one before it", func(t *testing.T) {
		leaves := Main("    import os, time\n    open('/tmp/x', 'w').write('x')\n    open('/work/x', 'w').write('x')\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n        os._exit(0)\n    return {'summary': 's', 'data': {}, 'evidence': []}")
		looks := gives("[f for d in ('/tmp', '/work') for f in __import__('os').listdir(d)] + [p for p in __import__('os').listdir('/proc') if p.isdigit()][2:]")
		for n, p := range []Package{leaves, looks} {
			spec, text := Entry(t, Limits, p)
			result, err := sandbox.Run(t.Context(), pool, spec, text)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(result.Results[0]); n == 1 && got != y("[]") {
				t.Error(got)
			}
		}
	})

	t.Run("a job that is cancelled leaves nothing", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, stop)
		spec, text := Entry(t, Limits, Main("    while True:\n        pass"))
		if _, err := sandbox.Run(ctx, pool, spec, text); err == nil {
			t.Error("it gave a result")
		}
	})
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if left := d.remains(); left != nil {
		t.Errorf("after all were killed: %v", left)
	}
	if n := listener.accepted(); n > 0 {
		t.Errorf("%d connections came out of sandboxes", n)
	}
}

// told is what is told of an entry: its values, or reason, class and line.
func told(e job.Entry) string {
	if e.Error == nil {
		return outcome(e)
	}
	text := outcome(e)
	if e.Error.Line > 0 {
		line, _ := json.Marshal(e.Error.Line)
		text += " " + string(line)
	}
	return text
}
