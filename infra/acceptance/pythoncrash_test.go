//go:build linux

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/sandbox/sandboxtest"
)

// A pythonLoad is clients that each start one Run after the other of a Flow that goes
// to the sandbox twice, while what carries the Runs out is killed. Its Nodes a and b
// double x in one job, sum adds them up in process, and c doubles that in another job.
// Where the worker is noisy, the results tell that each is of one execution: sum of
// just the a and b that are public, c of just that sum, and which lease it was run on.
type pythonLoad struct {
	flow  flowHead
	noisy bool // the worker
	mu    sync.Mutex
	runs  []*pythonRun
}

// A pythonRun is a Run as its client was told of it.
type pythonRun struct {
	id, runRef string
	x          float64
	noisy      bool               // the worker
	cancelled  bool               // was asked to stop
	report     string             // of run_get when it was first seen to be over
	results    map[string]float64 // at the same time
}

func newPythonLoad(t *testing.T, c caller) *pythonLoad {
	f := c.saveFunction(t, noisy, "    total = 0\n    for i in range(1000000):\n        total += i\n    return {\"y\": 2 * x}\n")
	call := func(from m) m { return m{"target": f, "inputBindings": m{"x": from}} }
	document := m{"format": "pxflow/1", "flowKey": "noise", "label": m{"en": "Noise"}, "authoring": m{"kind": "native"},
		"inputs": m{"x": scalar("kN")}, "results": m{},
		"nodes": m{"a": call(flowInput("x")), "b": call(flowInput("x")), "c": call(nodeResult("sum", "r")),
			"sum": formula("a + b", "kN", m{"a": m{"unit": "kN"}, "b": m{"unit": "kN"}}, m{"a": nodeResult("a", "y"), "b": nodeResult("b", "y")})}}
	for node := range document["nodes"].(m) {
		document["results"].(m)[node] = with(scalar("kN"), m{"binding": nodeResult(node, map[bool]string{true: "r", false: "y"}[node == "sum"])})
	}
	return &pythonLoad{flow: c.create(t, sample, document)}
}

// work starts Runs until ctx is done, and goes on until one has succeeded. It waits for
// each until patience is over.
func (l *pythonLoad) work(ctx, patience context.Context, c caller, name string, random *rand.Rand) error {
	for n, succeeded := 0, false; ctx.Err() == nil || !succeeded; n++ {
		r := &pythonRun{id: fmt.Sprintf("%s-%d", name, n), x: float64(random.IntN(1000)), noisy: l.noisy}
		var started struct{ RunRef string }
		if _, err := c.insist(patience, "pxflow_run", m{"kind": "RunFlow", "target": l.flow.Target, "commandId": r.id, "inputs": m{"x": number(r.x, "kN")}}, &started); err != nil {
			return fmt.Errorf("%s: %w", r.id, err)
		}
		r.runRef = started.RunRef
		l.mu.Lock()
		l.runs = append(l.runs, r)
		l.mu.Unlock()
		if r.cancelled = random.IntN(8) == 0; r.cancelled {
			time.Sleep(time.Duration(random.IntN(int(300 * time.Millisecond))))
			if _, err := c.insist(patience, "run_cancel", m{"runRef": r.runRef, "commandId": r.id + "-stop"}, nil); err != nil {
				return fmt.Errorf("%s: %w", r.id, err)
			}
		}
		for over := false; !over; {
			var err error
			if r.report, r.results, over, err = r.look(patience, c); err != nil {
				return fmt.Errorf("%s, %s: %w", r.id, r.report, err)
			}
		}
		succeeded = succeeded || len(r.results) > 0
	}
	return nil
}

// look reads a Run, with all its results if it is over.
func (r *pythonRun) look(ctx context.Context, c caller) (text string, results map[string]float64, over bool, err error) {
	var raw json.RawMessage
	var report runReport
	if _, err := c.insist(ctx, "run_get", m{"runRef": r.runRef}, &raw); err != nil {
		return r.report, nil, false, err
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return "", nil, false, err
	}
	if !sandbox.State(strings.ToLower(report.State)).Terminal() && report.State != "Succeeded" {
		time.Sleep(50 * time.Millisecond)
		return string(raw), nil, false, nil
	}
	results = map[string]float64{}
	for _, one := range report.Results {
		var read struct{ Value struct{ Value float64 } }
		if _, err := c.insist(ctx, "result_read", m{"runRef": r.runRef, "resultKey": one.ResultKey}, &read); err != nil {
			return string(raw), nil, false, err
		}
		results[one.ResultKey] = read.Value.Value
	}
	return string(raw), results, true, nil
}

// check holds a Run to having ended once and as it must, and its jobs with it. It
// returns how it ended.
func (r *pythonRun) check(ctx context.Context, c caller, j *sandbox.Jobs) (state string, err error) {
	report, results, _, err := r.look(ctx, c)
	if err != nil {
		return "", err
	}
	if report != r.report || fmt.Sprint(results) != fmt.Sprint(r.results) {
		return "", fmt.Errorf("it ended as\n%s %v\nand now it says\n%s %v", r.report, r.results, report, results)
	}
	var is runReport
	if err := json.Unmarshal([]byte(report), &is); err != nil {
		return "", err
	}
	first, err := r.job(ctx, j, 0)
	if err != nil {
		return "", err
	}
	second, err := r.job(ctx, j, 2)
	if err != nil {
		return "", err
	}
	switch {
	case is.State == "Succeeded":
		y := r.results
		for what, right := range map[string]bool{
			"4 of 4 Nodes, each counted once": is.Progress.Completed == 4 && is.Progress.Total == 4 && len(y) == 4,
			"a and b are of x":                2*r.x <= min(y["a"], y["b"]) && max(y["a"], y["b"]) < 2*r.x+1,
			"sum is of a and b":               y["sum"] == y["a"]+y["b"],
			"c is of sum":                     2*y["sum"] <= y["c"] && y["c"] < 2*y["sum"]+1,
			"a and b are those of the one job": first.outcome.State == sandbox.Done &&
				slices.Equal(first.values(), []float64{y["a"], y["b"]}),
			"c is that of the one job, which was given sum": second.outcome.State == sandbox.Done &&
				slices.Equal(second.values(), []float64{y["c"]}) && second.given == y["sum"],
			"both jobs are those of who held their fences": !r.noisy || first.ofHolder() && second.ofHolder(),
		} {
			if !right {
				return "", fmt.Errorf("not so: %s: %s %v, jobs %+v and %+v", what, report, y, first, second)
			}
		}
	case is.State == "Cancelled" && r.cancelled:
	case is.State == "Failed" && len(is.Diagnostics) > 0 && is.Diagnostics[0].Params["reason"] == string(sandbox.WorkerLost):
		if first.row.Reason != sandbox.WorkerLost && second.row.Reason != sandbox.WorkerLost {
			return "", fmt.Errorf("it failed as if its worker was lost, with jobs %+v and %+v", first, second)
		}
	default:
		return "", fmt.Errorf("it ended as %s", report)
	}
	return is.State, nil
}

// A jobOfRun is one of its two jobs; empty where it never came to it.
type jobOfRun struct {
	row     sandbox.Job
	outcome sandbox.Outcome
	given   float64 // the first value of its first call
}

func (o jobOfRun) values() (out []float64) {
	for _, r := range o.outcome.Result.Results {
		y, _ := strconv.ParseFloat(string(r.Values["y"]), 64)
		out = append(out, y)
	}
	return out
}

// ofHolder tells whether the result was handed in on the lease that the row names.
func (o jobOfRun) ofHolder() bool {
	return o.outcome.Result.RanBy.GVisor == sandboxtest.Holder(o.row.Worker, o.row.Fence)
}

// job holds the job of a stage of a Run that is over to being over too.
func (r *pythonRun) job(ctx context.Context, j *sandbox.Jobs, stage int) (out jobOfRun, err error) {
	ref := sandbox.JobRef(bridge, fmt.Sprintf("%s/%d", r.runRef, stage))
	// The token of a job whose ender was killed is answered ten seconds later.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out.row, err = j.Store.Job(ctx, ref)
		if errors.Is(err, history.ErrNotFound) {
			return jobOfRun{}, nil
		}
		if err != nil {
			return out, err
		}
		if out.row.State.Terminal() && out.row.Token == "" {
			break
		}
		if time.Now().After(deadline) {
			return out, fmt.Errorf("a job of it has not ended: %+v", out.row)
		}
	}
	if int64(out.row.Attempts) != out.row.Fence || out.row.Attempts > sandbox.MaxAttempts || out.row.Reason == sandbox.WorkerLost && out.row.Attempts != sandbox.MaxAttempts {
		return out, fmt.Errorf("a job of it was leased too often or given up too early: %+v", out.row)
	}
	if out.outcome, err = j.Result(ctx, ref); err != nil {
		return out, err
	}
	bodies, err := j.Objects.Get(ctx, out.row.Space(), out.row.Spec)
	if err != nil {
		return out, err
	}
	spec, err := sandbox.DecodeSpec(bodies[0])
	if err != nil {
		return out, err
	}
	out.given, err = strconv.ParseFloat(string(spec.Calls[0].Values["x"]), 64)
	return out, err
}

// The kinds of what is killed; of a holder, which is a worker that has a lease, what
// happens is that it hangs until the lease is another's.
const (
	theHost   = "host"
	theWorker = "worker"
	theBroker = "broker"
	theHolder = "holder"
)

// leased is a job that a worker has now; its reference is "" where there is none.
func (l *pythonLoad) leased(ctx context.Context, j *sandbox.Jobs) sandbox.Job {
	l.mu.Lock()
	runs := slices.Clone(l.runs[max(0, len(l.runs)-20):])
	l.mu.Unlock()
	for _, r := range slices.Backward(runs) {
		for _, stage := range []int{0, 2} {
			row, err := j.Store.Job(ctx, sandbox.JobRef(bridge, fmt.Sprintf("%s/%d", r.runRef, stage)))
			if err == nil && row.State == sandbox.Leased && row.Until.After(time.Now()) {
				return row
			}
		}
	}
	return sandbox.Job{}
}

// hang stops a worker that has a lease, and returns what lets it go on as soon as
// another has the job, or has ended it.
func (s *site) hang(t *testing.T, h *host, l *pythonLoad, ended bool) (goOn func()) {
	t.Helper()
	j := h.queue(t)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		row := l.leased(t.Context(), j)
		pids := s.victims(h, theHolder, row.Worker)
		if row.JobRef == "" || len(pids) == 0 {
			continue
		}
		worker, err := os.FindProcess(pids[0])
		if err != nil || worker.Signal(syscall.SIGSTOP) != nil {
			continue
		}
		moved := func() bool {
			is, err := j.Store.Job(t.Context(), row.JobRef)
			return err == nil && (is.State.Terminal() || !ended && is.Fence > row.Fence)
		}
		goOn = func() {
			for deadline := time.Now().Add(20 * time.Second); !moved() && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			}
			_ = worker.Signal(syscall.SIGCONT) // it may have been killed meanwhile
		}
		if !moved() {
			return goOn
		}
		goOn() // it had just ended it
	}
	t.Fatal("no worker has a job")
	return nil
}

// victims are the processes of a kind that a host has now; holder is the worker that is
// one.
func (s *site) victims(h *host, kind, holder string) (pids []int) {
	for pid, env := range s.children() {
		_, function, _ := strings.Cut(env["AWS_LAMBDA_FUNCTION_NAME"], "-")
		worker := env["PX_WORKER"]
		if map[string]bool{theWorker: worker == "", theBroker: function != "sandbox_broker", theHolder: worker == "" || worker != holder}[kind] {
			continue
		}
		// What a worker starts may have its environment.
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		var state string
		var parent int
		// One that hangs is left to go on.
		if fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %1s %d", &state, &parent); parent != h.process.Process.Pid || state == "T" {
			continue
		}
		if n, err := strconv.Atoi(pid); err == nil {
			pids = append(pids, n)
		}
	}
	slices.Sort(pids)
	return pids
}

// A killing is what is killed and how long after the one before.
type killing struct {
	kind  string
	after time.Duration
}

// killWhileRunning kills while clients run Flows in Python, and holds every Run to
// having ended once, of which at least so many must have succeeded, and every job to
// one result.
func killWhileRunning(t *testing.T, random *rand.Rand, noisy bool, flags []string, clients, least int, killings []killing) {
	s := newSite(t, random)
	launch := func() *host {
		t.Helper()
		h, ready := s.launch(t, nil, flags...)
		if !ready {
			t.Fatalf("px local does not start: %s", h.out)
		}
		return h
	}
	h := launch()
	h.policy(t, `{"rules":[]}`)
	load := newPythonLoad(t, s.caller())
	load.noisy = noisy
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	patience, giveUp := context.WithTimeout(t.Context(), 4*time.Minute)
	defer giveUp()
	failures := make([]error, clients)
	var all sync.WaitGroup
	for n := range clients {
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		all.Go(func() { failures[n] = load.work(ctx, patience, s.caller(), fmt.Sprint("load-", n), own) })
	}
	killed := map[string]int{}
	var hanging sync.WaitGroup
	defer hanging.Wait()
	for _, k := range killings {
		time.Sleep(k.after)
		if k.kind == theHost {
			h.process.Process.Kill()
			<-h.ended
			h.died(t)
			s.noOrphans(t)
			killed[k.kind]++
			h = launch()
			continue
		}
		if k.kind == theHolder {
			hanging.Go(s.hang(t, h, load, random.IntN(3) == 0))
			killed[k.kind]++
			continue
		}
		var found []int
		for deadline := time.Now().Add(30 * time.Second); len(found) == 0; time.Sleep(5 * time.Millisecond) {
			if found = s.victims(h, k.kind, ""); time.Now().After(deadline) {
				t.Fatalf("no %s runs", k.kind)
			}
		}
		if err := syscall.Kill(found[random.IntN(len(found))], syscall.SIGKILL); err == nil {
			killed[k.kind]++
		}
	}
	hanging.Wait()
	stop()
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	j := h.queue(t)
	states, leases, moments := map[string]int{}, 0, 0
	for _, r := range load.runs {
		state, err := r.check(patience, s.caller(), j)
		if err != nil {
			t.Errorf("the run %s (%s): %v", r.id, r.runRef, err)
			continue
		}
		states[state]++
		for _, stage := range []int{0, 2} {
			if one, err := r.job(patience, j, stage); err == nil {
				leases += max(0, one.row.Attempts-1)
			}
		}
	}
	if n, err := j.Store.Backlog(t.Context(), bridge.WorkspaceKey, 100); err != nil || n != 0 {
		t.Errorf("%d jobs are left in the queue, %v", n, err)
	}
	for _, n := range killed {
		moments += n
	}
	stale := 0
	counted := map[string][]string{} // by job
	for _, one := range s.starts {
		stale += strings.Count(one.out.String(), "a stale completion was refused")
		for _, found := range regexp.MustCompile(`counted (job_\w+) of (fence \d+)`).FindAllStringSubmatch(one.out.String(), -1) {
			counted[found[1]] = append(counted[found[1]], found[2])
		}
	}
	for job, of := range counted {
		if len(of) > 1 {
			t.Errorf("%s: results of %v were counted", job, of)
		}
	}
	if noisy && len(counted) == 0 {
		t.Error("no result was counted")
	}
	if noisy && killed[theHolder] > 0 && stale == 0 {
		t.Error("no worker that hung said its result afterwards")
	}
	t.Logf("killed %v; %d runs ended, each once: %v; %d leases were lost and given again, %d results came too late", killed, len(load.runs), states, leases, stale)
	if moments != len(killings) {
		t.Errorf("%d kills of %d", moments, len(killings))
	}
	if states["Succeeded"] < least {
		t.Errorf("only %d runs succeeded", states["Succeeded"])
	}
	h.stop(t)
	s.noOrphans(t)
}

// 50 moments at random: 12 of a host, half of them when the one before has just come
// back, and 38 of workers and of the broker's process, whose host goes on. Five more
// are of workers that hang until another has their job, and say their results then.
//
// covers: U5, A8, X5
func TestFlowsInPythonEndOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	within := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	var hosts, others []killing
	for n := range 12 {
		// It takes four seconds until nobody counts on the workers of the host before.
		hosts = append(hosts, killing{theHost, []time.Duration{within(0, 700*time.Millisecond), within(4*time.Second, 6*time.Second)}[n%2]})
	}
	for n := range 38 {
		others = append(others, killing{[]string{theWorker, theBroker}[n%2], within(0, 1500*time.Millisecond)})
	}
	for range 5 {
		others = append(others, killing{theHolder, within(0, 1500*time.Millisecond)})
	}
	random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for name, killings := range map[string][]killing{"the host": hosts, "workers and brokers": others} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			killWhileRunning(t, crashRandom(t), true, []string{"--worker-program", self, "--cache", t.TempDir(), "--parameter", "SandboxWorkers=3"}, 6, 20, killings)
		})
	}
}

// The same with the worker that is built, and Functions that run in gVisor.
//
// covers: U5, A8, X5
func TestFlowsInGVisorEndOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	var killings []killing
	for _, kind := range []string{theHolder, theWorker, theBroker, theHost, theBroker, theWorker, theHost} {
		killings = append(killings, killing{kind, 500*time.Millisecond + time.Duration(random.IntN(int(4*time.Second)))})
	}
	killWhileRunning(t, random, false, flagsOfPython(t), 3, 3, killings)
}
