//go:build linux

package acceptance

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	samples "github.com/pxhost/pxhost/infra/sample/plugins"
	"github.com/pxhost/pxhost/shared/adapter/sandboxpython"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	storage "github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/sandbox"
)

// pythonPlugin is a manifest of tools in Python, each in a file of its name. All keep
// and read what is in the namespace kept.
func pythonPlugin(seconds int, names ...string) string {
	var capabilities []string
	for _, name := range names {
		capabilities = append(capabilities, fmt.Sprintf(`{"id":"py.%s","kind":"tool","title":"%s","description":"d","permissions":["storage"],"timeout_seconds":%d,
			"output_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},
			"runtime":{"adapter":"sandbox_python","entrypoint":"src/%s.py","reads":[{"namespace":"kept"}]}}`, name, name, seconds, name))
	}
	return `{"pluginKey":"acme.py","version":"1.0.0","title":"파이썬","permissions":["storage"],"capabilities":[` + strings.Join(capabilities, ",") + `]}`
}

// installPython installs tools in Python, by name.
func (c plugClient) installPython(t *testing.T, seconds int, sources map[string]string) string {
	t.Helper()
	files, names := m{}, []string{}
	for name, source := range sources {
		files["src/"+name+".py"] = source
		names = append(names, name)
	}
	files["manifest.json"] = pythonPlugin(seconds, names...)
	a := c.ask(t, "POST", "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": "python", "package": m{"files": files}, "granted": list{"storage"}})
	if a.status != http.StatusOK {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	return a.at("instanceId")
}

// call calls a tool, and asks again under the same key until it is over.
func (c plugClient) call(t *testing.T, instance, capability, surface, key string) heard {
	t.Helper()
	var id string
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		a := c.invoke(t, instance, capability, m{"arguments": m{}, "surface": surface, "idempotencyKey": key, "generation": 1})
		if id == "" {
			id = a.at("executionId")
		}
		if a.at("executionId") != id {
			t.Fatalf("another execution: %+v", a.envelope)
		}
		if a.status != http.StatusAccepted && a.status != http.StatusServiceUnavailable {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not end: %+v", a.envelope)
		}
	}
}

// failed is how an execution failed, in short: its code and the members of params that
// are named.
func (a heard) failed(t *testing.T, members ...string) string {
	t.Helper()
	if a.at("state") != "failed" {
		return a.at("state")
	}
	out := a.at("failure", "code")
	for _, name := range members {
		if v := a.at("failure", "params", name); v != "" {
			out += " " + v
		}
	}
	return out
}

const counter = `
def main(input):
    before = input["storage"]["kept"].get("n")
    n = before["value"] + 1 if before else 1
    return {"summary": f"{n}", "data": {"n": n}, "evidence": [], "actions": [{"kind": "storage.put", "namespace": "kept", "key": "n", "value": n}]}
`

// A tool in Python is called as any other, keeps what it is told to between two calls,
// and tells by name what was wrong with it; nothing of it is in an answer or a log.
//
// covers: A8, X4
func TestToolsInPythonRunBehindGVisor(t *testing.T) {
	t.Parallel()
	h := plugged(t, append(flagsOfPython(t), "--minute", "1s")...)
	manager, model, screen := h.person(t, "reviewer"), h.ai(t, "engineer"), h.person(t, "engineer")
	secret := "hunter2"
	sources := map[string]string{
		"counts":   counter,
		"raises":   "def main(input):\n    raise ValueError('" + secret + "')\n",
		"leaves":   "import sys\n\ndef main(input):\n    sys.exit('" + secret + "')\n",
		"prints":   "print('" + secret + "')\n\ndef main(input):\n    print('{\"summary\": \"x\", \"data\": {\"n\": 1}, \"evidence\": []}')\n",
		"silent":   "def main(input):\n    return {'data': {'n': 1}, 'evidence': [], 'summary': ''}\n",
		"nan":      "def main(input):\n    return {'summary': 's', 'data': {'n': float('nan')}, 'evidence': []}\n",
		"no_json":  "def main(input):\n    return {'summary': 's', 'data': {'n': {1}}, 'evidence': []}\n",
		"large":    "def main(input):\n    return {'summary': 's', 'data': {'n': 1, 'x': 'x' * (6 << 20)}, 'evidence': []}\n",
		"schema":   "def main(input):\n    return {'summary': 's', 'data': {'n': '" + secret + "'}, 'evidence': []}\n",
		"logs":     "def main(input):\n    return {'summary': 's', 'data': {'n': 1}, 'evidence': [], 'log': '/px/shim.py'}\n",
		"spins":    "def main(input):\n    while True:\n        pass\n",
		"forks":    "import os\n\ndef main(input):\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass\n",
		"wrong":    "def main(input:\n",
		"no_main":  "def run(input):\n    pass\n",
		"outbound": "import socket\n\ndef main(input):\n    socket.create_connection(('127.0.0.1', " + h.URL[strings.LastIndex(h.URL, ":")+1:] + "), 1)\n",
		"snoops":   "import os\n\ndef main(input):\n    found = [d for d, _, f in os.walk('/') if 'manifest.json' in f or 'counts.py' in f]\n    return {'summary': 's', 'data': {'n': len(found)}, 'evidence': []}\n",
	}
	id := manager.installPython(t, 4, sources)
	for n, who := range []plugClient{model, screen, model} {
		a := who.call(t, id, "py.counts", []string{"ai", "ui", "ai"}[n], fmt.Sprint("k", n))
		if a.status != 200 || a.at("state") != "succeeded" || a.at("result", "data", "n") != fmt.Sprint(n+1) || a.at("result", "summary") != fmt.Sprint(n+1) {
			t.Fatalf("%d %+v", a.status, a.envelope)
		}
	}
	// The same key is the same execution: nothing is computed or kept again.
	if a := model.call(t, id, "py.counts", "ai", "k0"); a.at("result", "data", "n") != "1" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
	if a := model.call(t, id, "py.snoops", "ai", "k"); a.at("result", "data", "n") != "0" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
	for name, want := range map[string]string{
		"raises":   "EXTENSION_RESPONSE_INVALID exception 2 ValueError",
		"leaves":   "EXTENSION_RESPONSE_INVALID exited 4",
		"prints":   "EXTENSION_RESPONSE_INVALID result_type",
		"silent":   "EXTENSION_RESPONSE_INVALID summary",
		"nan":      "EXTENSION_RESPONSE_INVALID not_finite",
		"no_json":  "EXTENSION_RESPONSE_INVALID result_type",
		"large":    "EXTENSION_RESPONSE_INVALID output_too_large",
		"schema":   "EXTENSION_OUTPUT_INVALID",
		"logs":     "EXTENSION_RESPONSE_INVALID result_extra",
		"spins":    "EXTENSION_TIMEOUT",
		"forks":    "EXTENSION_TIMEOUT",
		"wrong":    "EXTENSION_RESPONSE_INVALID source_invalid 1",
		"no_main":  "EXTENSION_RESPONSE_INVALID symbol_missing",
		"outbound": "EXTENSION_RESPONSE_INVALID exception 4",
	} {
		a := model.call(t, id, "py."+name, "ai", "k")
		got := a.failed(t, "rule", "line", "exception")
		if name == "forks" && (got == "EXTENSION_RESPONSE_INVALID killed" || got == "EXTENSION_RESPONSE_INVALID processes") {
			continue // it has ended its sandbox
		}
		if got != want && !strings.HasPrefix(got, want+" ") {
			t.Errorf("%s: %s, want %s: %+v", name, got, want, a.envelope)
		}
		if text := encode(t, a.envelope); strings.Contains(text, secret) || strings.Contains(text, "/px") || strings.Contains(text, "src/") {
			t.Errorf("%s tells %s", name, text)
		}
	}
	if strings.Contains(h.out.String(), secret) {
		t.Error("what a tool says is in a log")
	}
}

// covers: A8, X3
func TestTheSampleAnalyzerKeepsWhatItFoundAndReadsItAgain(t *testing.T) {
	t.Parallel()
	h := plugged(t, append(flagsOfPython(t), "--minute", "1s")...)
	files := m{}
	sample := samples.Files("text_analyzer")
	err := fs.WalkDir(sample, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sample, path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a := h.person(t, "reviewer").ask(t, "POST", "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": "analyzer", "package": m{"files": files}, "granted": list{"storage"}})
	if a.status != http.StatusOK {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	id, model := a.at("instanceId"), h.ai(t, "engineer")
	for n, c := range []struct{ text, words, since string }{{"Steel bends. Steel does not break.", "6", ""}, {"Steel bends.", "2", "-4"}} {
		var a heard
		for deadline := time.Now().Add(time.Minute); a.at("state") != "succeeded"; time.Sleep(50 * time.Millisecond) {
			a = model.invoke(t, id, "text.analyze", m{"arguments": m{"text": c.text}, "surface": "ai", "idempotencyKey": fmt.Sprint(n)})
			if time.Now().After(deadline) || a.at("state") == "failed" {
				t.Fatalf("%d %+v", a.status, a.envelope)
			}
		}
		if a.at("result", "data", "words") != c.words || a.at("result", "data", "since") != c.since || !strings.Contains(encode(t, a.data), `"word":"steel"`) {
			t.Errorf("%+v", a.data)
		}
	}
}

// The example for developers is one that works.
//
// covers: A8
func TestTheExampleOfAFileInPythonIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../shared/capability/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, source, _ := strings.Cut(string(page), "```python\n")
	source, _, _ = strings.Cut(source, "```")
	h := plugged(t, append(flagsOfPython(t), "--minute", "1s")...)
	manifest := `{"pluginKey":"acme.words","version":"1.0.0","title":"낱말","permissions":["storage"],"capabilities":[{"id":"words","kind":"tool","title":"낱말","description":"d","permissions":["storage"],
		"timeout_seconds":10,"runtime":{"adapter":"sandbox_python","entrypoint":"src/words.py","reads":[{"namespace":"study.notes"}]}}]}`
	a := h.person(t, "reviewer").ask(t, "POST", "/v1/plugins", m{"workspaceKey": pluginSpace, "idempotencyKey": "words", "package": m{"files": m{"manifest.json": manifest, "src/words.py": source}}, "granted": list{"storage"}})
	if a.status != http.StatusOK {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	id, model := a.at("instanceId"), h.ai(t, "engineer")
	for n, want := range []string{`[{"last":null}]`, `[{"last":["a","b"]}]`} {
		var a heard
		for deadline := time.Now().Add(time.Minute); a.at("state") != "succeeded"; time.Sleep(50 * time.Millisecond) {
			a = model.invoke(t, id, "words", m{"arguments": m{"text": "a b"}, "surface": "ai", "idempotencyKey": fmt.Sprint(n)})
			if time.Now().After(deadline) || a.at("state") == "failed" {
				t.Fatalf("%d %+v", a.status, a.envelope)
			}
		}
		if got := encode(t, a.data["result"].(m)["evidence"]); a.at("result", "summary") != "2 words" || got != want {
			t.Errorf("%s %s", got, a.at("result", "summary"))
		}
	}
}

// jobOf waits until a worker has the job of an execution.
func (h *host) jobOf(t *testing.T, executionID string) string {
	t.Helper()
	ref := sandbox.EntryRef(executionID)
	j := h.queue(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if row, err := j.Store.Job(t.Context(), ref); err == nil && row.State == sandbox.Leased {
			return ref
		} else if err == nil && row.State.Terminal() || time.Now().After(deadline) {
			t.Fatalf("no worker has %s: %+v %v", ref, row, err)
		}
	}
}

// began calls a tool and does not wait for it.
func (c plugClient) began(t *testing.T, instance, capability, key string) (executionID string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	body := encode(t, m{"arguments": m{}, "surface": "ai", "idempotencyKey": key})
	request, err := http.NewRequestWithContext(ctx, "POST", c.h.URL+"/v1/capabilities/"+instance+"/"+capability+"/invoke", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	if response, err := client.Do(request); err == nil { // who asked has left by then
		response.Body.Close()
	}
	return execution.Request{Actor: c.h.URL + "|engineer", InstanceID: instance, CapabilityID: capability, Key: key}.ID()
}

// covers: X2
func TestStoppingTheChatKillsTheSandboxOfItsTool(t *testing.T) {
	t.Parallel()
	h := plugged(t, append(flagsOfPython(t), "--minute", "1s")...)
	model := h.ai(t, "engineer")
	id := h.person(t, "reviewer").installPython(t, 300, map[string]string{"spins": "def main(input):\n    while True:\n        pass\n", "counts": counter})
	execution := model.began(t, id, "py.spins", "k")
	h.jobOf(t, execution)
	asked := time.Now()
	a := model.ask(t, "POST", "/v1/capabilities/"+id+"/py.spins/cancel", m{"idempotencyKey": "k"})
	if a.status != 200 || a.at("state") != "cancelled" || a.at("executionId") != execution {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	for deadline := asked.Add(30 * time.Second); h.left("cancelled") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the worker does not say that it left the job")
		}
	}
	t.Logf("it was killed after %v", time.Since(asked))
	if a := model.call(t, id, "py.counts", "ai", "k"); a.at("result", "data", "n") != "1" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
}

// pluggedSite is a place at which a host with plugins in Python is started more than once.
func pluggedSite(t *testing.T, sources map[string]string) (s *site, flags []string, instance string) {
	t.Helper()
	flags = flagsOfPython(t)
	s = newSite(t, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	h := s.mustLaunch(t)
	h.mayIn(t, "engineer", capability.Use)
	h.mayIn(t, "reviewer", capability.Use, capability.Manage)
	instance = h.person(t, "reviewer").installPython(t, 60, sources)
	h.stop(t)
	return s, flags, instance
}

func (s *site) again(t *testing.T, flags []string) *host {
	t.Helper()
	h, ready := s.launch(t, nil, flags...)
	if !ready {
		t.Fatalf("px local does not start: %s", h.out)
	}
	return h
}

// covers: X1
func TestAToolGoesOnUnderItsExecutionWhenTheHostComesBack(t *testing.T) {
	t.Parallel()
	slow := strings.Replace(counter, "def main(input):\n", "import time\n\ndef main(input):\n    time.sleep(3)\n", 1)
	s, flags, id := pluggedSite(t, map[string]string{"counts": slow})
	h := s.again(t, flags)
	execution := h.ai(t, "engineer").began(t, id, "py.counts", "k")
	h.jobOf(t, execution)
	h.process.Process.Kill()
	<-h.ended
	h.died(t)
	h = s.again(t, flags)
	model := h.ai(t, "engineer")
	if a := model.ask(t, "GET", "/v1/executions/"+execution, nil); a.at("state") != "running" {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	a := model.call(t, id, "py.counts", "ai", "k")
	if a.at("executionId") != execution || a.at("state") != "succeeded" || a.at("result", "data", "n") != "1" {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	if a := model.call(t, id, "py.counts", "ai", "next"); a.at("result", "data", "n") != "2" {
		t.Errorf("%d %+v", a.status, a.envelope)
	}
}

// A stage is what there is of an execution when the host is killed.
type stage string

const (
	noted    stage = "the job has said what it asks for, and does not count"
	counted  stage = "the job counts, and its execution was told nothing"
	computed stage = "the execution has the result, and has not applied it"
)

// dying is the store of executions of a process that kills the host right after it has
// written down that a result was computed.
type dying struct {
	storage.Store
	die func() error
}

func (d dying) Apply(ctx context.Context, step storage.Step) error {
	err := d.Store.Apply(ctx, step)
	if err == nil && step.Execution.Phase == storage.Computed && step.Execution.State == storage.Running {
		return d.die()
	}
	return err
}

// mortal is what workers' completions go on with, in a process that kills the host.
type mortal struct {
	sandbox.Executions
	at  stage
	die func() error
}

func (e mortal) Note(ctx context.Context, id string, r sandbox.Result) error {
	if err := e.Executions.Note(ctx, id, r); err != nil || e.at != noted {
		return err
	}
	return e.die()
}

func (e mortal) Ended(ctx context.Context, id string) error {
	if e.at == counted {
		return e.die()
	}
	return e.Executions.Ended(ctx, id)
}

// here runs the adapter in this process.
type here struct{ runner *execution.Runner }

func (h here) Invoke(ctx context.Context, _ capability.AdapterName, id string) error {
	return h.runner.Run(context.WithoutCancel(ctx), id)
}

// real is the worker that was built, with gVisor.
type real struct{ process *exec.Cmd }

// startReal starts one whose broker is at a URL.
func startReal(t *testing.T, url, cache string, key ed25519.PublicKey) real {
	t.Helper()
	r := real{exec.Command(filepath.Join(built, ".build", "px-worker"))}
	r.process.Env = append(os.Environ(), "PX_WORKER=wrk_here", "PX_BROKER=broker", "PX_JOB_KEY="+base64.StdEncoding.EncodeToString(key), "PX_CACHE="+cache, "PX_POOL=1", "PX_SLOTS=1",
		"AWS_REGION="+local.Region, "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_ENDPOINT_URL_LAMBDA="+url)
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// It is the one that jobs wait for.
func (real) Look(context.Context, []string) (waiting, over []string, err error) { return nil, nil, nil }
func (real) Start(context.Context, string, ed25519.PublicKey) (task string, err error) {
	return "task", nil
}

func (r real) kill() {
	r.process.Process.Kill()
	r.process.Wait()
}

// dieAt calls a tool and lets a real worker compute it behind gVisor, up to a stage at
// which the host is killed, and the worker with it. It returns the execution.
//
// The host serves its tables alone; what its functions would do is done in this process,
// so that the moment is exact.
func (s *site) dieAt(t *testing.T, flags []string, id, tool, key string, at stage) string {
	t.Helper()
	h, ready := s.launch(t, nil, "--services-only")
	if !ready {
		t.Fatalf("px local does not start: %s", h.out)
	}
	env := h.environmentOf(t, "adapter_sandbox_python")
	parts := plugins.New(env)
	queue := jobs.Entrypoints(env, projects.New(env))
	if err := env.Err(); err != nil {
		t.Fatal(err)
	}
	died := make(chan bool)
	die := func() error {
		h.process.Process.Kill()
		<-h.ended
		close(died)
		return errors.New("the host is dead")
	}
	runner := parts.Runner(nil)
	runner.Queue = sandboxpython.New(queue, runner.Store, runner.Objects)
	told := *runner
	if at == computed {
		told.Store = dying{runner.Store, die}
	}
	broker := sandbox.Broker{Jobs: queue, Executions: mortal{sandboxpython.Completed{Runner: &told}, at, die}}
	lambda := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		answer, err := broker.Handle(r.Context(), request)
		if err != nil {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			answer = map[string]string{"errorType": "error", "errorMessage": err.Error()}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	defer lambda.Close()
	signs, err := queue.Keys.JobKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	worker := startReal(t, lambda.URL, flags[3], signs.Public().(ed25519.PublicKey))
	defer worker.kill()
	queue.Starter = worker
	desk := parts.Desk()
	desk.Invoke, desk.Patience = here{runner}, time.Second
	e, err := desk.Accept(t.Context(), execution.Request{Actor: h.URL + "|engineer", InstanceID: id, CapabilityID: tool, Arguments: canon.Raw(`{}`), Surface: "ai", Key: key})
	if err == nil {
		_, err = desk.Wait(t.Context(), e)
	}
	if err != nil && h.process.ProcessState == nil {
		t.Fatal(err)
	}
	select {
	case <-died:
	case <-time.After(time.Minute):
		h.process.Process.Kill()
		t.Fatal("it was not computed within a minute")
	}
	h.died(t)
	return e.ExecutionID
}

// Wherever the host is killed between computing and applying, what a tool asks for is
// applied once, of the state that it was computed of.
//
// covers: X1, X3, X4
func TestWhatAToolAsksForIsAppliedOnceWhereverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	random := strings.Replace(strings.Replace(counter, "def main", "import time\n\ndef main", 1), `"value": n}`, `"value": time.time_ns() % 2 ** 50}`, 1)
	s, flags, id := pluggedSite(t, map[string]string{"counts": counter, "random": random})
	kept := func(h *host) (items []storage.Item) {
		t.Helper()
		items, _, err := h.parts(t).Store.Items(t.Context(), storage.Namespace{Workspace: pluginSpace, InstanceID: id, Name: "kept"})
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	n := 0 // what is kept
	for _, at := range []stage{noted, counted, computed} {
		t.Run(string(at)+": it is applied once", func(t *testing.T) {
			execution := s.dieAt(t, flags, id, "py.counts", string(at), at)
			h := s.again(t, flags)
			defer h.stop(t)
			a := h.ai(t, "engineer").call(t, id, "py.counts", "ai", string(at))
			n++
			if a.at("executionId") != execution || a.at("state") != "succeeded" || a.at("result", "data", "n") != fmt.Sprint(n) {
				t.Errorf("%d %+v", a.status, a.envelope)
			}
			if items := kept(h); len(items) != 1 || string(items[0].Value) != fmt.Sprint(n) || items[0].Version != int64(n) {
				t.Errorf("%+v", items)
			}
		})
		t.Run(string(at)+", and the storage changes: that is kept", func(t *testing.T) {
			key := "changed " + string(at)
			s.dieAt(t, flags, id, "py.counts", key, at)
			h := s.again(t, flags)
			defer h.stop(t)
			store := h.parts(t).Store
			before := kept(h)[0]
			e := storage.Execution{ExecutionID: "exec_of " + key, Workspace: pluginSpace, InstanceID: id, State: storage.Running, Phase: storage.Accepted, CreatedAt: time.Now(), DueAt: time.Now().Add(time.Hour)}
			if err := store.CreateExecution(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			e, err := store.Execution(t.Context(), e.ExecutionID)
			n++
			if err == nil {
				e.State, e.DueAt = storage.Succeeded, time.Time{}
				err = store.Apply(t.Context(), storage.Step{Execution: e, Puts: []storage.Put{{Expectation: storage.Expectation{Namespace: "kept", Key: "n", Version: before.Version}, Value: canon.Raw(fmt.Sprint(n))}}})
			}
			if err != nil {
				t.Fatal(err)
			}
			a := h.ai(t, "engineer").call(t, id, "py.counts", "ai", key)
			if got := a.failed(t); got != "PLUGIN_STORAGE_CONFLICT" || strings.Contains(encode(t, a.envelope), `"summary"`) {
				t.Errorf("%d %+v", a.status, a.envelope)
			}
			if items := kept(h); len(items) != 1 || string(items[0].Value) != fmt.Sprint(n) || items[0].Version != before.Version+1 {
				t.Errorf("%+v", items)
			}
		})
	}
	t.Run("a script that is not the same twice is refused where it had to be run again", func(t *testing.T) {
		s.dieAt(t, flags, id, "py.random", "k", noted)
		h := s.again(t, flags)
		defer h.stop(t)
		a := h.ai(t, "engineer").call(t, id, "py.random", "ai", "k")
		if got := a.failed(t); got != "PLUGIN_OUTCOME_CHANGED" {
			t.Errorf("%d %+v", a.status, a.envelope)
		}
		if items := kept(h); len(items) != 1 || string(items[0].Value) != fmt.Sprint(n) {
			t.Errorf("%+v", items)
		}
	})
	t.Run("and is not run again where it counts", func(t *testing.T) {
		s.dieAt(t, flags, id, "py.random", "k2", counted)
		h := s.again(t, flags)
		defer h.stop(t)
		if a := h.ai(t, "engineer").call(t, id, "py.random", "ai", "k2"); a.at("state") != "succeeded" {
			t.Errorf("%d %+v", a.status, a.envelope)
		}
		if row, err := h.queue(t).Store.Job(t.Context(), sandbox.EntryRef(execution.Request{Actor: h.URL + "|engineer", InstanceID: id, CapabilityID: "py.random", Key: "k2"}.ID())); err != nil || row.Attempts != 1 {
			t.Errorf("%+v %v", row, err)
		}
	})
}

// Killed at any moment of a call, the host comes back and the call ends as if nothing had
// happened: it has counted once.
//
// covers: X1, X3
func TestACallOfAToolCountsOnceWheneverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	s, flags, id := pluggedSite(t, map[string]string{"counts": counter})
	random := crashRandom(t)
	h := s.again(t, flags)
	if a := h.ai(t, "engineer").call(t, id, "py.counts", "ai", "warm"); a.at("result", "data", "n") != "1" {
		t.Fatalf("%d %+v", a.status, a.envelope)
	}
	for n := 2; n < 7; n++ {
		key := fmt.Sprint("k", n)
		moment := time.Duration(random.IntN(int(700 * time.Millisecond)))
		kill := time.AfterFunc(moment, func() { h.process.Process.Kill() })
		execution := h.ai(t, "engineer").began(t, id, "py.counts", key)
		kill.Reset(0)
		<-h.ended
		h.died(t)
		h = s.again(t, flags)
		a := h.ai(t, "engineer").call(t, id, "py.counts", "ai", key)
		if a.at("executionId") != execution || a.at("state") != "succeeded" || a.at("result", "data", "n") != fmt.Sprint(n) {
			t.Fatalf("killed after %v: %d %+v", moment, a.status, a.envelope)
		}
	}
	h.stop(t)
}
