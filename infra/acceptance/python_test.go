package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/sandbox"
)

// preparePython has the worker prepare gVisor and a root for Python, which the first
// time on a machine takes minutes.
var preparePython = sync.OnceValues(func() (cache string, err error) {
	if cache = os.Getenv("PX_CACHE"); cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "pxhost")
	}
	out, err := exec.Command(filepath.Join(built, ".build", "px-worker"), "prepare", "--cache", cache).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("px-worker prepare: %w\n%s", err, out)
	}
	return cache, nil
})

// flagsOfPython are those of a host whose Functions run in gVisor, in the worker that
// was built. Only machines that cannot run gVisor skip; CI is none of them.
func flagsOfPython(t *testing.T) []string {
	t.Helper()
	cache, err := preparePython()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	return []string{"--worker-program", filepath.Join(built, ".build", "px-worker"), "--cache", cache}
}

// startPython starts a host whose Functions run in gVisor, and where Functions may be
// changed without an approval.
func startPython(t *testing.T, flags ...string) *host {
	t.Helper()
	h := start(t, append(append(flagsOfPython(t), "--minute", "1s"), flags...)...)
	h.policy(t, `{"rules":[]}`)
	return h
}

// workers are the process IDs of the host's workers.
func (h *host) workers(t *testing.T) []int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var found []int
		folders, err := os.ReadDir("/proc")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range folders {
			pid, err := strconv.Atoi(f.Name())
			if err != nil {
				continue
			}
			stat, err := os.ReadFile("/proc/" + f.Name() + "/stat")
			if err != nil {
				continue
			}
			var parent int
			rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
			if fmt.Sscanf(rest, " %1s %d", new(string), &parent); parent != h.process.Process.Pid {
				continue
			}
			if exe, err := os.Readlink("/proc/" + f.Name() + "/exe"); err == nil && filepath.Base(exe) == "px-worker" {
				found = append(found, pid)
			}
		}
		if found != nil {
			return found
		}
	}
	t.Fatal("the host has no worker")
	return nil
}

// leased waits until a worker has the job of a Run's first stage.
func (h *host) leased(t *testing.T, runRef string) {
	t.Helper()
	leased(t, h.queue(t), sandbox.JobRef(bridge, runRef+"/0"))
}

// functionOf is the source of a Function of one number.
func functionOf(key, body string) string {
	return `import math
import px


@px.function(
    key="` + key + `", version=1, description="of the tests",
    inputs={"x": px.number(unit="kN")},
    results={"y": px.number(unit="kN")},
    capabilities=[],
)
def ` + key + `(x):
` + body
}

// saveFunction saves a new Function and returns its target in a Node.
func (c caller) saveFunction(t testing.TB, key, body string) m {
	t.Helper()
	target := m{"scope": sample, "functionKey": key}
	var p plan
	c.ok(t, "function_plan_change", m{"target": target, "expectedGeneration": 0, "commands": list{m{"kind": "CreateFunction", "source": functionOf(key, body)}}}, &p)
	c.ok(t, "function_apply_change", p.application("create-"+key), nil)
	var found struct {
		Items []struct {
			Target struct {
				FunctionKey, Digest string
				Version             int
			}
		}
	}
	c.ok(t, "function_search", m{"scope": sample, "query": key}, &found)
	for _, f := range found.Items {
		if f.Target.FunctionKey == key {
			return m{"kind": "function", "functionKey": key, "version": f.Target.Version, "digest": f.Target.Digest}
		}
	}
	t.Fatalf("there is no Function %s", key)
	return nil
}

// loads is a Flow of Functions of one number, in a row or side by side. Each gives a
// public result of its name.
func loads(key string, row bool, targets ...m) m {
	nodes, results := m{}, m{}
	for i, target := range targets {
		name, from := fmt.Sprintf("n%d", i), flowInput("x")
		if row && i > 0 {
			from = nodeResult(fmt.Sprintf("n%d", i-1), "y")
		}
		nodes[name] = m{"target": target, "inputBindings": m{"x": from}}
		results[name] = with(scalar("kN"), m{"binding": nodeResult(name, "y")})
	}
	return m{"format": "pxflow/1", "flowKey": key, "label": m{"en": key}, "authoring": m{"kind": "native"},
		"inputs": m{"x": scalar("kN")}, "results": results, "nodes": nodes}
}

// begin starts a Run of loads.
func (c caller) begin(t testing.TB, f flowHead, commandID string, x float64) string {
	t.Helper()
	var started struct{ RunRef string }
	c.ok(t, "pxflow_run", m{"kind": "RunFlow", "target": f.Target, "commandId": commandID, "inputs": m{"x": number(x, "kN")}}, &started)
	return started.RunRef
}

func (c caller) result(t testing.TB, runRef, key string) float64 {
	t.Helper()
	var r struct{ Value struct{ Value float64 } }
	c.ok(t, "result_read", m{"runRef": runRef, "resultKey": key}, &r)
	return r.Value.Value
}

// covers: U1, U2, N2
func TestFlowsInPythonGiveWhatTheFunctionsSay(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	c := h.as(t, "engineer")
	grow := c.saveFunction(t, "grow", "    return {\"y\": 1.5 * x + math.sqrt(x * x)}\n")
	six := []m{grow, grow, grow, grow, grow, grow}
	for _, row := range []bool{false, true} {
		f := c.create(t, sample, loads(fmt.Sprint("row_", row), row, six...))
		runRef := c.begin(t, f, "one", 2)
		r := c.finished(t, runRef)
		if r.State != "Succeeded" || r.Progress.Completed != 6 {
			t.Fatalf("in a row %v: %+v", row, r)
		}
		for i := range six {
			want := 2.0
			for range map[bool]int{true: i + 1, false: 1}[row] {
				want *= 2.5
			}
			if got := c.result(t, runRef, fmt.Sprintf("n%d", i)); math.Abs(got/want-1) > 1e-12 {
				t.Errorf("in a row %v: n%d is %v, want %v", row, i, got, want)
			}
		}
		var told struct{ RanBy []string }
		c.ok(t, "run_get", m{"runRef": runRef}, &told)
		if len(told.RanBy) != 1 || !strings.HasPrefix(told.RanBy[0], "python=3.") || !strings.Contains(told.RanBy[0], "driver=rootless") || strings.Contains(told.RanBy[0], "gvisor= ") {
			t.Errorf("ran by %q", told.RanBy)
		}
	}
}

// covers: U2, E2, E3
func TestAFunctionThatFailsIsToldByItsNodeLineAndClass(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	c := h.as(t, "engineer")
	secret := "hunter2"
	for key, f := range map[string]struct{ body, want, params string }{
		"divides":   {"    return {\"y\": x / (x - x)}\n", "PX_RUN_FAILED /nodes/n0", `"exception":"ZeroDivisionError","line":12,"nodeKey":"n0","reason":"exception"`},
		"raises":    {"    raise ValueError(\"" + secret + "\")\n", "PX_RUN_FAILED /nodes/n0", `"exception":"ValueError","line":12,"nodeKey":"n0","reason":"exception"`},
		"nothing":   {"    pass\n", "PX_RUN_FAILED /nodes/n0", `"reason":"result_`},
		"infinite":  {"    return {\"y\": math.inf}\n", "PX_RUN_FAILED /nodes/n0", `"reason":"not_finite"`},
		"a_text":    {"    return {\"y\": \"" + secret + "\"}\n", "PX_RUN_FAILED /nodes/n0", `"reason":"result_type"`},
		"too_much":  {"    return {\"y\": x, \"z\": x}\n", "PX_RUN_FAILED /nodes/n0", `"reason":"result_`},
		"recursive": {"    return recursive(x)\n", "PX_RUN_FAILED /nodes/n0", `"exception":"RecursionError"`},
	} {
		flow := c.create(t, sample, loads("flow_"+key, false, c.saveFunction(t, key, f.body)))
		r := c.finished(t, c.begin(t, flow, "one", 1))
		if r.State != "Failed" || len(r.Diagnostics) == 0 {
			t.Errorf("%s: %+v", key, r)
			continue
		}
		d := r.Diagnostics[len(r.Diagnostics)-1]
		params, err := json.Marshal(d.Params)
		if err != nil || d.Code+" "+d.Path != f.want || !strings.Contains(string(params), f.params) || strings.Contains(string(params), secret) {
			t.Errorf("%s: %s %s %s", key, d.Code, d.Path, params)
		}
	}
	if strings.Contains(h.out.String(), secret) {
		t.Error("what an exception says is in a log")
	}
}

// left is how many jobs the worker said to have left, after their sandboxes were gone,
// for a reason.
func (h *host) left(reason string) int {
	return len(regexp.MustCompile(`a job was left.*cause":"[^"]*`+reason).FindAllString(h.out.String(), -1))
}

// covers: U2
func TestCancellingARunKillsItsFunctionWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	c := h.as(t, "engineer")
	f := c.create(t, sample, loads("forever", true, c.saveFunction(t, "spins", "    while True:\n        x = x + 1\n")))
	// A machine that is busy with other tests may be late, and is asked again.
	for attempt := 1; ; attempt++ {
		runRef := c.begin(t, f, fmt.Sprint("one", attempt), 1)
		h.leased(t, runRef)
		time.Sleep(500 * time.Millisecond) // it spins by then, if it ever does
		asked := time.Now()
		c.ok(t, "run_cancel", m{"runRef": runRef, "commandId": "stop"}, nil)
		for deadline := asked.Add(30 * time.Second); h.left("cancelled") < attempt; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the worker does not say that it left the job")
			}
		}
		if r := c.finished(t, runRef); r.State != "Cancelled" {
			t.Fatalf("it ended as %+v", r)
		}
		took := time.Since(asked)
		if took <= 2*time.Second {
			break
		}
		if attempt == 4 {
			t.Fatalf("it was killed after %v", took)
		}
		t.Logf("it was killed after %v", took)
	}
	// The worker goes on with the next.
	quick := c.create(t, sample, loads("quick", true, c.saveFunction(t, "quick", "    return {\"y\": x}\n")))
	if r := c.finished(t, c.begin(t, quick, "two", 1)); r.State != "Succeeded" {
		t.Errorf("%+v", r)
	}
}

// covers: U5
func TestARunSurvivesTheDeathOfItsWorker(t *testing.T) {
	t.Parallel()
	h := startPython(t, "--parameter", "RunPatience=1s")
	c := h.as(t, "engineer")
	slow := c.saveFunction(t, "slow", "    total = 0.0\n    for i in range(40000000):\n        total += 1.0\n    return {\"y\": x + total - total}\n")
	f := c.create(t, sample, loads("slowly", true, slow, slow))
	runRef := c.begin(t, f, "one", 3)
	h.leased(t, runRef)
	pids := h.workers(t)
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	r := c.finished(t, runRef)
	if r.State != "Succeeded" || r.Progress.Completed != 2 || c.result(t, runRef, "n1") != 3 {
		t.Errorf("%+v", r)
	}
	if now := h.workers(t); slices.Equal(now, pids) {
		t.Errorf("the workers %v were not killed", pids)
	}
}

// covers: R5, U5
func TestABatchInPythonEndsEachCaseOnce(t *testing.T) {
	t.Parallel()
	h := startPython(t)
	c := h.as(t, "engineer")
	f := c.create(t, sample, loads("one", true, c.saveFunction(t, "twice", "    if x == 7:\n        raise ArithmeticError()\n    return {\"y\": 2 * x}\n")))
	report := c.createReport(t, m{"format": "pxreport/1", "reportKey": "loads", "label": m{"en": "Loads"}, "blockOrder": list{"basis", "found"},
		"blocks": m{
			"basis": m{"kind": "values", "fields": m{"x": with(scalar("kN"), m{"value": number(1, "kN")})}},
			"found": m{"kind": "results", "slots": m{"y": scalar("kN")}}}, "connections": m{}})
	report = c.changeReport(t, report, "connect", feed(f, "x_input", "x", "basis", "x"), showIn("y_result", "n0", "found", "y"))
	var cases list
	for i := range 20 {
		cases = append(cases, m{"caseKey": fmt.Sprintf("c%d", i), "inputs": m{"x": number(float64(i), "kN")}})
	}
	started := c.startBatch(t, report, "batch", batchOf("check", m{"kind": "table"}, cases...))
	b := c.batchEnded(t, started.BatchRef)
	if b.State != "Failed" || b.Progress.Completed != 20 {
		t.Fatalf("%+v", b)
	}
	failed := 0
	for _, one := range b.Cases {
		if one.State != "Succeeded" {
			failed++
			if one.CaseKey != "c7" {
				t.Errorf("%+v", one)
			}
			continue
		}
		var x float64
		if _, err := fmt.Sscanf(one.CaseKey, "c%g", &x); err != nil {
			t.Fatal(err)
		}
		if got := c.result(t, one.RunRef, "n0"); got != 2*x {
			t.Errorf("%s gives %v", one.CaseKey, got)
		}
	}
	if failed != 1 {
		t.Errorf("%d cases failed", failed)
	}
}
