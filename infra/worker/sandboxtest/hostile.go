package sandboxtest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/probe"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// escape is how hostile code gets at what it may not import.
const escape = `    os = [c for c in object.__subclasses__() if c.__name__ == "_wrap_close"][0].__init__.__globals__
    sys = os["sys"]
    load = sys.modules["builtins"].__import__
    import types
    os = types.SimpleNamespace(**os)
`

func evil(body string) Function {
	return Function{Source: Def("", strings.Replace(escape, "    import types\n", "    types = load(\"types\")\n", 1)+body), Results: Y}
}

func plain(body string) Function { return Function{Source: Def("", body), Results: Y} }

// returns is a Function that returns an expression as its one result.
func returns(expression string) Function { return plain("    return {'y': " + expression + "}") }

// Hostile holds a driver, and the pool over it, to the table of hostile Functions.
// Each ends by name, or does nothing; beside each, an honest call of the same job
// gives its values.
func Hostile(t *testing.T, under sandbox.Driver) {
	d := &recorder{Driver: under}
	pool := sandbox.NewPool(d, 3)
	// One sandbox stays warm beside all of this, and must still serve at the end.
	bystander, err := pool.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What hostile code looks for on this machine.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	listener := listen(t)

	short := Limits
	short.WallMilliseconds = 1500
	small := Limits
	small.MemoryBytes, small.WallMilliseconds = 96<<20, 10_000
	cpu := Limits
	cpu.CPUSeconds, cpu.WallMilliseconds = 1, 60_000 // which no test here waits for

	file, _ := json.Marshal(secret)
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	everyFD := "    for fd in range(3, 64):\n        try:\n            "
	except := "\n        except OSError:\n            pass\n"

	for at, c := range []struct {
		name   string
		limits job.Limits
		call   Function
		want   []string // reasons of which one is given, or the result
	}{
		{"a fork bomb", short, evil("    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"), []string{"timeout"}},
		{"a fork bomb of threads", short, evil("    t = load('_thread')\n    tm = load('time')\n    def bomb():\n        while True:\n            try:\n                t.start_new_thread(bomb, ())\n            except RuntimeError:\n                tm.sleep(0.01)\n    bomb()"), []string{"timeout"}},
		{"an allocation of 10 GB", Limits, returns("len(bytearray(10 << 30))"), []string{"memory"}},
		{"memory piece by piece", small, plain("    x = []\n    while True:\n        x.append(bytearray(1 << 20))"), []string{"memory"}},
		{"memory of many processes, each below the limit", small, evil("    tm = load('time')\n    for _ in range(24):\n        if os.fork() == 0:\n            x = bytearray(b'x' * (40 << 20))\n            tm.sleep(60)\n    tm.sleep(60)"), []string{"memory"}},
		{"as many processes as it can have", Limits, evil("    n, tm = 0, load('time')\n    try:\n        while n < 100:\n            if os.fork() == 0:\n                tm.sleep(60)\n                os._exit(0)\n            n += 1\n    except OSError:\n        pass\n    return {'y': 1 if 0 < n <= 32 else n}"), []string{`{"y":1.0}`}},
		{"an infinite loop", short, plain("    while True:\n        pass"), []string{"timeout"}},
		{"an infinite loop that catches what it can", short, plain("    while True:\n        try:\n            while True:\n                pass\n        except BaseException:\n            pass"), []string{"timeout"}},
		{"more CPU time than the job has", cpu, plain("    while True:\n        pass"), []string{"timeout"}},
		{"a loop inside one operation", short, returns("9 ** 9 ** 9 % 7"), []string{"timeout", "memory"}},
		{"a sleep", short, evil("    load('time').sleep(1000)"), []string{"timeout"}},
		{"1 GB on standard output", Limits, evil("    block = b'x' * (1 << 20)\n    for _ in range(1024):\n        os.write(1, block)\n    return {'y': 1}"), []string{`{"y":1.0}`}},
		{"1 GB on every descriptor there is", Limits, evil("    block = b'x' * (1 << 20)\n" + everyFD + "for _ in range(1024):\n                os.write(fd, block)" + except + "    return {'y': 1}"), []string{"output_too_large"}},
		{"noise before the result, on every descriptor", Limits, evil(everyFD + "os.write(fd, b'noise\\n')" + except + "    return {'y': 1}"), []string{"result_type"}},
		{"the end of the process, without an answer", Limits, evil("    os._exit(0)"), []string{"exited"}},
		{"SystemExit", Limits, plain("    raise SystemExit(0)"), []string{"exited"}},
		{"SIGKILL for itself", Limits, evil("    os.kill(os.getpid(), 9)"), []string{"killed"}},
		{"SIGKILL for the process that waits for it", Limits, evil("    os.kill(1, 9)\n    load('time').sleep(0.2)\n    return {'y': 1}"), []string{"killed", `{"y":1.0}`}},
		{"SIGSTOP for the process that waits for it", short, evil("    os.kill(1, 19)\n    load('time').sleep(0.2)\n    return {'y': 1}"), []string{"timeout", `{"y":1.0}`}},
		{"SIGKILL for everything", Limits, evil("    os.kill(-1, 9)\n    return {'y': 1}"), []string{"killed", "exception ProcessLookupError", `{"y":1.0}`}},
		{"a segmentation fault", short, evil("    sys.setrecursionlimit(1 << 30)\n    def g(n):\n        return [g(n + 1) for _ in (1,)]\n    g(0)"), []string{"killed", "memory", "exception", "timeout"}},
		{"recursion without end", Limits, plain("    def g():\n        return g()\n    return {'y': g()}"), []string{"exception"}},
		{"writing to every path that there is", Limits, evil(`    wrote = 0
    for top, dirs, files in os.walk('/'):
        if top == '/proc':
            dirs[:] = ['1']
        if top in ('/dev', '/tmp', '/work', '/sys'):
            dirs[:] = []
            continue
        for name in files + ['px_new']:
            if top.startswith('/proc'):
                continue
            try:
                os.close(os.open(top.rstrip('/') + '/' + name, os.O_WRONLY | os.O_CREAT))
                wrote += 1
            except OSError:
                pass
    return {'y': wrote}`), []string{`{"y":0.0}`}},
		{"filling what is writable", Limits, evil("    with open('/tmp/x', 'wb') as x:\n        while True:\n            x.write(b'x' * (1 << 20))"), []string{"exception", "killed"}},
		{"the memory of the process that waits for it", Limits, evil("    os.write(os.open('/proc/1/mem', os.O_WRONLY), b'0')\n    return {'y': 1}"), []string{"exception PermissionError", "exception OSError"}},
		{"a forged answer through the descriptors of the process that waits for it", Limits, evil(`    line = b'{"call":1,"values":{"y":9}}\n{"call":2,"values":{"y":9}}\n'
    for fd in os.listdir('/proc/1/fd'):
        try:
            to = os.open('/proc/1/fd/' + fd, os.O_WRONLY | os.O_NONBLOCK)
            os.write(to, line)
        except OSError:
            pass
    return {'y': 1}`), []string{"result_type", `{"y":1.0}`}},
		{"a forged job through the descriptors of the process that waits for one", Limits, evil(`    line = b'{"spec":{"sources":{"s":"def f():\\n    return {\\"y\\":9}"},"calls":[{"source":"s","symbol":"f","parameters":[],"inputs":{},"values":{},"results":{}}],"limits":{"memoryBytes":1,"cpuSeconds":9,"processes":9}},"from":0,"wallMilliseconds":9999,"outputBytes":9999,"again":true}\n'
    wrote = 0
    for fd in os.listdir('/proc/1/fd'):
        for mode in (os.O_WRONLY, os.O_RDWR):
            try:
                if fd != '0' or os.readlink('/proc/1/fd/0') == '/dev/null':
                    continue
                wrote += os.write(os.open('/proc/1/fd/' + fd, mode | os.O_NONBLOCK), line)
            except OSError:
                pass
    return {'y': wrote}`), []string{`{"y":0.0}`}},
		{"/etc/shadow", Limits, returns("len(open('/etc/shadow').read())"), []string{"exception FileNotFoundError", "exception PermissionError"}},
		{"a file of this machine", Limits, returns("len(open(" + string(file) + ").read())"), []string{"exception FileNotFoundError"}},
		{"a file of this machine, through the root of another process", Limits, returns("len(open('/proc/1/root'+" + string(file) + ").read())"), []string{"exception FileNotFoundError", "exception PermissionError"}},
		{"a listener of this machine on loopback", Limits, evil("    s = load('socket')\n    s.create_connection((" + `b"` + host + `", ` + port + "), 1)\n    return {'y': 1}"), []string{"exception ConnectionRefusedError", "exception OSError", "exception TimeoutError"}},
		{"the task's credentials", Limits, evil("    s = load('socket')\n    s.create_connection((b'169.254.170.2', 80), 1)\n    return {'y': 1}"), []string{"exception OSError", "exception TimeoutError"}},
		{"the instance's metadata", Limits, evil("    s = load('socket')\n    s.create_connection((b'169.254.169.254', 80), 1)\n    return {'y': 1}"), []string{"exception OSError", "exception TimeoutError"}},
		{"a name", Limits, evil("    s = load('socket')\n    s.getaddrinfo(b'amazonaws.com', 80)\n    return {'y': 1}"), []string{"exception gaierror"}},
		{"a raw socket", Limits, evil("    s = load('socket')\n    s.socket(s.AF_PACKET, s.SOCK_RAW)\n    return {'y': 1}"), []string{"exception PermissionError", "exception OSError"}},
		{"the environment", Limits, evil("    known = {'PATH', 'HOME', 'LANG', 'PYTHONHASHSEED', 'PYTHONUTF8', 'LD_LIBRARY_PATH'}\n    return {'y': len(set(os.environ) - known)}"), []string{`{"y":0.0}`}},
		{"another user", Limits, evil("    os.setuid(0)\n    return {'y': 1}"), []string{"exception PermissionError"}},
		{"a mount namespace of its own", Limits, evil("    os.chroot('/tmp')\n    return {'y': 1}"), []string{"exception PermissionError"}},
		{"a thread that is left behind", Limits, evil("    t = load('_thread')\n    def spin():\n        while True:\n            pass\n    t.start_new_thread(spin, ())\n    return {'y': 1}"), []string{`{"y":1.0}`}},
		{"a process that is left behind and holds on to the answer", Limits, evil("    if os.fork() == 0:\n        os.setsid()\n        while True:\n            pass\n    return {'y': 1}"), []string{`{"y":1.0}`, "timeout"}},
		{"an answer of its own making, and it goes on", Limits, evil(everyFD + "os.write(fd, b'v{\"y\":3}\\n')" + except + "    while True:\n        pass"), []string{`{"y":3.0}`}},
		{"an answer of its own making, and a fork bomb behind it", Limits, evil(everyFD + "os.write(fd, b'v{\"y\":3}\\n')" + except + "    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"), []string{`{"y":3.0}`}},
		{"threads that write beside the answer, and after it", Limits, evil("    t = load('_thread')\n    def spin():\n        while True:\n            " + strings.ReplaceAll(strings.TrimSpace(everyFD+"os.write(fd, b'v{\"y\":3}\\n')"+except), "\n", "\n        ") + "\n    for _ in range(4):\n        t.start_new_thread(spin, ())\n    load('time').sleep(0.01)\n    return {'y': 1}"), []string{`{"y":3.0}`, `{"y":1.0}`, "result_type"}},
		{"processes that write beside the answer, and after it", Limits, evil("    for _ in range(4):\n        if os.fork() == 0:\n            os.setsid()\n            while True:\n                " + strings.ReplaceAll(strings.TrimSpace(everyFD+"os.write(fd, b'v{\"y\":3}\\n')"+except), "\n", "\n            ") + "\n    return {'y': 1}"), []string{`{"y":3.0}`, `{"y":1.0}`, "result_type"}},
		{"folders too deep to remove", Limits, evil("    os.chdir('/tmp')\n    for _ in range(300):\n        os.mkdir('d' * 50)\n        os.chdir('d' * 50)\n    return {'y': 1}"), []string{`{"y":1.0}`}},
		{"folders that may not be read", Limits, evil("    os.mkdir('/tmp/d')\n    os.mkdir('/tmp/d/e')\n    os.chmod('/tmp/d', 0)\n    return {'y': 1}"), []string{`{"y":1.0}`}},

		{"NaN", Limits, returns("float('nan')"), []string{"not_finite"}},
		{"an infinity", Limits, returns("-1e999"), []string{"not_finite"}},
		{"an integer that no float holds", Limits, returns("10 ** 400"), []string{"not_finite"}},
		{"an integer too long to write", Limits, returns("10 ** 100000"), []string{"not_finite", "result_cyclic", "result_type"}},
		{"a huge text", Limits, returns("'x' * (8 << 20)"), []string{"output_too_large"}},
		{"a list inside itself", Limits, plain("    x = []\n    x.append(x)\n    return {'y': x}"), []string{"result_cyclic"}},
		{"a list a million deep", Limits, plain("    x = []\n    for _ in range(1000000):\n        x = [x]\n    return {'y': x}"), []string{"result_type", "killed"}},
		{"a number with a unit of its own", Limits, returns("{'value': 1, 'unit': 'ft'}"), []string{"result_type"}},
		{"a missing port", Limits, plain("    return {}"), []string{"result_missing"}},
		{"a port too many", Limits, plain("    return {'y': 1, 'z': 2}"), []string{"result_extra"}},
		{"nothing at all", Limits, plain("    pass"), []string{"result_type"}},
		{"null where none may be", Limits, returns("None"), []string{"result_null"}},
		{"a text for a number", Limits, returns("'1'"), []string{"result_type"}},
		{"true for a number", Limits, returns("True"), []string{"result_type"}},
		{"a list for a scalar", Limits, returns("[1]"), []string{"result_shape"}},
		{"a float for an integer", Limits, Function{Source: Def("", "    return {'y': 2.0}"), Results: map[string]string{"y": `{"type":"integer"}`}}, []string{"result_type"}},
		{"an integer that JSON does not keep", Limits, Function{Source: Def("", "    return {'y': 2 ** 53}"), Results: map[string]string{"y": `{"type":"integer"}`}}, []string{"result_range"}},
		{"a set", Limits, returns("{1, 2}"), []string{"result_type"}},
		{"a class that claims to be a float", Limits, plain("    class F(float):\n        def __repr__(self):\n            return '1}}\\n{\"call\":1'\n    return {'y': F(1)}"), []string{`{"y":1.0}`, "result_type"}},
		{"half of a surrogate pair", Limits, Function{Source: Def("", "    return {'y': '\\ud800'}"), Results: map[string]string{"y": `{"type":"string"}`}}, []string{"result_type"}},
		{"an import that is hidden in a call", Limits, plain("    __import__('o' + 's')"), []string{"import_refused"}},
		{"an import that is hidden in a submodule", Limits, plain("    from json import __builtins__\n    import os.path"), []string{"import_refused"}},
		{"an exception whose class is a text", Limits, plain("    raise type('secret 42', (Exception,), {})"), []string{"exception"}},
		{"an exception that raises when it is looked at", Limits, plain("    class M(type):\n        @property\n        def __name__(cls):\n            raise ValueError\n    class E(Exception, metaclass=M):\n        pass\n    raise E"), []string{"exited", "exception"}},
		{"a source that does not compile", Limits, Function{Source: "def f(:\n", Results: Y}, []string{"source_invalid"}},
		{"a source that is nested too deep", Limits, Function{Source: "x = " + strings.Repeat("(", 100_000), Results: Y}, []string{"source_invalid", "memory"}},
		{"a source without the Function", Limits, Function{Source: "x = 1\n", Results: Y}, []string{"symbol_missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			honest := Function{Source: Def("", "    return {'y': 7}"), Results: Y}
			spec, text := Spec(t, c.limits, honest, c.call, honest)
			// Half of them are the last call of their job, and another job follows.
			n := 2*at + 1
			if at%2 == 0 || strings.HasPrefix(c.name, "a forged job") {
				short, _ := Spec(t, c.limits, honest, c.call)
				spec, text = Row(t, short, n)
			}
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			result, err := sandbox.Run(ctx, pool, spec, text)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(result.Results[1])
			if !slices.ContainsFunc(c.want, func(w string) bool { return got == w || strings.HasPrefix(got, w+" ") }) {
				t.Errorf("it ended as %s, want %s", got, strings.Join(c.want, " or "))
			}
			if strings.Contains(got, "secret") {
				t.Errorf("it tells %s", got)
			}
			if first := outcome(result.Results[0]); first != `{"y":7.0}` {
				t.Errorf("the call before it ended as %s", first)
			}
			var last string
			if spec.Leads {
				after, _ := Spec(t, Limits, honest)
				after, text := Row(t, after, n+1)
				next, err := sandbox.Run(ctx, pool, after, text)
				if err != nil {
					t.Fatal(err)
				}
				last = outcome(next.Results[0])
			} else if last = outcome(result.Results[2]); got == "timeout" && last == got {
				last = `{"y":7.0}` // the job's time is one for all of its calls
			}
			if last != `{"y":7.0}` {
				t.Errorf("the call after it ended as %s", last)
			}
			if took := time.Since(began); took > spec.Limits.Wall()+15*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Logf("%s after %v", got, time.Since(began).Round(time.Millisecond))
		})
	}

	t.Run("a process that is left behind is not there for the next call", func(t *testing.T) {
		stays := evil("    if os.fork() == 0:\n        os.setsid()\n        load('time').sleep(60)\n        os._exit(0)\n    return {'y': 1}")
		counts := evil("    return {'y': len([p for p in os.listdir('/proc') if p.isdigit()])}")
		if got, want := entries(t, pool, Limits, counts, stays, counts), `[{"nodeKey":"node_0","values":{"y":2.0}},{"nodeKey":"node_1","values":{"y":1.0}},{"nodeKey":"node_2","values":{"y":2.0}}]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	// The process that waits is of the same user, and what it is held to every child is.
	honest := evil("    x = bytearray(200 << 20)\n    return {'y': os.getpriority(0, 0) * 100 + len(os.sched_getaffinity(0))}")
	untouched := entries(t, pool, Limits, honest)
	for _, c := range []struct{ name, body string }{
		{"less memory", "r.prlimit(1, r.RLIMIT_AS, (150 << 20, 150 << 20))"},
		{"fewer files", "r.prlimit(1, r.RLIMIT_NOFILE, (8, 8))"},
		{"no processes", "r.prlimit(1, r.RLIMIT_NPROC, (1, 1))"},
		{"less time", "r.prlimit(1, r.RLIMIT_CPU, (2, 2))"},
		{"a lower priority", "os.setpriority(0, 1, 19)"},
		{"one processor", "os.sched_setaffinity(1, {max(os.sched_getaffinity(1))})"},
	} {
		t.Run("what the process that waits is held to, for the next call: "+c.name, func(t *testing.T) {
			got := entries(t, pool, Limits, evil("    r = load('resource')\n    "+c.body+"\n    return {'y': 1}"), honest)
			if want := `[{"nodeKey":"node_0","values":{"y":1.0}},` + strings.Replace(untouched[1:], "node_0", "node_1", 1); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}

	spec, text := Spec(t, Limits, Function{Source: Def("", "    return {'y': 7}"), Results: Y})
	if e, err := bystander.Serve(t.Context(), spec, text); err != nil || outcome(e[0]) != `{"y":7.0}` {
		t.Errorf("the sandbox that stood beside all of it: %v %v", e, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if left := d.remains(); left != nil {
		t.Errorf("after all were killed: %v", left)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "secret" {
		t.Errorf("the file of this machine: %q %v", text, err)
	}
	if n := listener.accepted(); n > 0 {
		t.Errorf("%d connections came out of sandboxes", n)
	}
}

// outcome is an entry in short: its values, or its reason and class.
func outcome(e job.Entry) string {
	if e.Error != nil {
		return strings.TrimSpace(string(e.Error.Reason) + " " + e.Error.Exception)
	}
	text, _ := json.Marshal(e.Values)
	return string(text)
}

// recorder keeps every sandbox that was started, to look for remains later.
type recorder struct {
	sandbox.Driver
	mu      sync.Mutex
	started []sandbox.Process
}

func (r *recorder) Start(ctx context.Context) (sandbox.Process, error) {
	p, err := r.Driver.Start(ctx)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.started = append(r.started, p)
	}
	return p, err
}

func (r *recorder) remains() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.started {
		if err := p.(probe.Remainder).Remains(); err != nil {
			return err
		}
	}
	return nil
}

type counter struct {
	net.Listener
	mu sync.Mutex
	n  int
}

func (c *counter) accepted() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

// listen serves on loopback and counts who comes.
func listen(t *testing.T) *counter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			c.mu.Lock()
			c.n++
			c.mu.Unlock()
		}
	}()
	return c
}
