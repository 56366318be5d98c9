//go:build linux

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/failpoint"
)

var crashSeed = flag.Uint64("crash.seed", 0, "seed of the moments at which hosts are killed; 0 takes one from the clock")

var crashPoint = flag.String("crash.point", "", "kill only at points that begin so")

// seedByClock is one for all tests of a run, since a test and its parts are chosen
// again by one flag.
var seedByClock = sync.OnceValue(func() uint64 { return uint64(time.Now().UnixNano()) })

// crashRandom is the test's own randomness, told with its seed.
func crashRandom(t *testing.T) *rand.Rand {
	seed := *crashSeed
	if seed == 0 {
		seed = seedByClock()
	}
	t.Logf("to choose the same moments: go test ./infra/acceptance -run %s -args -crash.seed=%d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// A site is a state folder on which one host after the other is started and
// killed. The address stays: it is part of every principal.
type site struct {
	dir, address string
	token        string
	starts       []*host
}

func newSite(t *testing.T, random *rand.Rand) *site {
	t.Helper()
	// Below the ports that the system hands out by itself: between a kill and the
	// next start nobody may take it.
	for range 100 {
		port := 20000 + random.IntN(10000)
		a, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		a.Close()
		return siteAt(t, t.TempDir(), fmt.Sprintf("127.0.0.1:%d", port))
	}
	t.Fatal("no port is free")
	return nil
}

func siteAt(t *testing.T, dir, address string) *site {
	s := &site{dir: dir, address: address}
	t.Cleanup(func() {
		for i, h := range s.starts {
			h.process.Process.Kill()
			<-h.ended
			if t.Failed() && i >= len(s.starts)-2 {
				lines := slices.DeleteFunc(strings.Split(h.out.String(), "\n"), func(line string) bool {
					return strings.HasPrefix(line, "  ") || strings.Contains(line, `"msg":"call answered"`)
				})
				t.Logf("start %d printed (its last 40 lines):\n%s", i+1, strings.Join(lines[max(0, len(lines)-40):], "\n"))
			}
		}
	})
	return s
}

// launch starts px local, and tells whether it is ready; else it ended before.
// Its minute is half a second, and its patience with Runs a second. wrapped are
// the words before px of a command that runs it.
func (s *site) launch(t *testing.T, wrapped []string, flags ...string) (*host, bool) {
	t.Helper()
	h := &host{state: filepath.Join(s.dir, "state"), out: &output{}, ended: make(chan struct{}), tokens: map[string]string{}}
	ready := filepath.Join(s.dir, "ready.json")
	os.Remove(ready)
	args := append(wrapped, px(), "local", "--addr", s.address, "--state", h.state, "--template", filepath.Join(built, "template.yaml"), "--ready-file", ready,
		"--minute", "500ms", "--parameter", "RunPatience=1s")
	args = append(args, flags...)
	h.process = exec.Command(args[0], args[1:]...)
	h.process.Stdout, h.process.Stderr = h.out, h.out
	h.process.WaitDelay = 5 * time.Second
	if err := h.process.Start(); err != nil {
		t.Fatal(err)
	}
	s.starts = append(s.starts, h)
	go func() { h.process.Wait(); close(h.ended) }()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(ready); err == nil {
			if err := json.Unmarshal(text, h); err != nil {
				t.Fatal(err)
			}
			if s.token == "" {
				s.token = h.token(t, "engineer")
			}
			return h, true
		}
		select {
		case <-h.ended:
			return h, false
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("px local is not ready after a minute")
		}
	}
}

func (s *site) mustLaunch(t *testing.T) *host {
	t.Helper()
	h, ready := s.launch(t, nil)
	if !ready {
		t.Fatalf("px local does not start: %s", h.out)
	}
	return h
}

func (s *site) caller() caller { return caller{"http://" + s.address, s.token} }

// died holds a host to having been killed, and not to have ended otherwise.
func (h *host) died(t *testing.T) {
	t.Helper()
	if status := h.process.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("px local ended by itself: %v\n%s", h.process.ProcessState, h.out)
	}
}

// children are the processes that hosts of the site's state folder have started
// and that are alive, with their environments.
func (s *site) children() map[string]map[string]string {
	host, port, _ := net.SplitHostPort(s.address)
	var n int
	fmt.Sscan(port, &n)
	mark := []byte(fmt.Sprintf("\x00AWS_ENDPOINT_URL=http://%s:%d\x00", host, n+1))
	found := map[string]map[string]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file) // empty of a process that is dead and not yet reaped
		if err != nil || !bytes.Contains(append([]byte{0}, text...), mark) {
			continue
		}
		env := map[string]string{}
		for _, line := range strings.Split(string(text), "\x00") {
			name, value, _ := strings.Cut(line, "=")
			env[name] = value
		}
		found[filepath.Base(filepath.Dir(file))] = env
	}
	return found
}

// noOrphans holds the system to killing what a killed host had started.
func (s *site) noOrphans(t *testing.T) {
	t.Helper()
	var left map[string]map[string]string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if left = s.children(); len(left) == 0 {
			return
		}
	}
	for pid, env := range left {
		t.Errorf("process %s of %s outlives its host", pid, env["AWS_LAMBDA_FUNCTION_NAME"])
	}
}

// during runs the workload until the host is dead. kill, if not 0, is when to
// kill it; else it must die by itself within 30 s.
func (s *site) during(t *testing.T, h *host, w *workload, kill time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	worked := make(chan error, 1)
	go func() { worked <- w.run(ctx, s.caller()) }()
	limit := kill
	if kill == 0 {
		limit = 30 * time.Second
	}
	select {
	case <-h.ended:
	case <-time.After(limit):
		if kill == 0 {
			t.Error("the point was not hit within 30 s of work")
		}
		h.process.Process.Kill()
		<-h.ended
	}
	cancel()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	h.died(t)
	s.noOrphans(t)
}

// Each point is where it is, and a moment in between is chosen at random, 50
// times in all: every start is verified against the journal before it is killed.
//
// covers: R6, U5, P9, H4
func TestNothingIsLostOrDoubledWhereverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	moments := 50
	s := newSite(t, random)
	w := newWorkload("a", 3, random)
	verified := func(h *host) {
		t.Helper()
		if err := w.verify(t.Context(), s.caller(), time.Now(), 2); err != nil {
			t.Fatal(err)
		}
	}
	moment := func() {
		t.Helper()
		moments--
		h := s.mustLaunch(t)
		verified(h)
		s.during(t, h, w, time.Duration(random.IntN(int(time.Second)))+time.Millisecond)
	}
	for _, point := range failpoint.Points {
		if *crashPoint != "" && !strings.HasPrefix(string(point), *crashPoint) {
			continue
		}
		kind, _, _ := strings.Cut(string(point), ".")
		n := 1 + random.IntN(map[string]int{"start": 1, "schedule": 2, "s3": 2, "apigateway": 12, "lambda": 3, "states": 12, "dynamodb": 40}[kind])
		if point == failpoint.StatesMapped || point == failpoint.StatesJoining { // of the few Batches only
			n = 1 + random.IntN(2)
		}
		name := fmt.Sprintf("%s:%d", point, n)
		if kind == "start" { // once on an empty folder, once on one in use
			first := newSite(t, random)
			if h, ready := first.launch(t, nil, "--failpoint", name); ready {
				t.Errorf("%s was not hit", name)
			} else {
				h.died(t)
			}
			first.noOrphans(t)
			h := first.mustLaunch(t)
			empty := newWorkload("first", 1, random)
			if err := empty.verifyHistory(t, h, time.Now(), true); err != nil {
				t.Errorf("%s at the first start: %v", name, err)
			}
			h.stop(t)
		}
		if kind == "s3" {
			w.clients[0].large = n // each puts one object
		}
		h, ready := s.launch(t, nil, "--failpoint", name)
		if ready {
			if kind == "start" {
				t.Errorf("%s was not hit", name)
			}
			s.during(t, h, w, 0)
		} else {
			h.died(t)
			s.noOrphans(t)
		}
		if t.Failed() {
			t.Fatalf("at %s", name)
		}
		moment()
		if t.Failed() {
			t.Fatalf("after %s", name)
		}
	}
	for moments > 0 && !t.Failed() {
		moment()
	}
	h := s.mustLaunch(t)
	verified(h)
	if err := w.verifyHistory(t, h, time.Now(), true); err != nil {
		t.Error(err)
	}
	applies, runs := w.acknowledged(time.Now())
	t.Logf("%d starts; %d changes and %d runs acknowledged, each there once; %d failed, as they must", len(s.starts), applies, runs, w.failures())
	if *crashPoint == "" && w.failures() == 0 {
		t.Error("nothing failed: the workload leaves that out")
	}
}

// A function that an earlier start left behind, with all that it knew, can neither
// take an invocation of this start nor reach a table.
//
// covers: H4
func TestAnOrphanOfAnEarlierStartCannotAnswer(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	s := newSite(t, random)
	h := s.mustLaunch(t)
	w := newWorkload("o", 1, random)
	work := func(h *host) map[string]string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.run(ctx, s.caller()); err != nil {
			t.Fatal(err)
		}
		for _, env := range s.children() {
			if strings.Contains(env["AWS_LAMBDA_FUNCTION_NAME"], "mcp_endpoint") {
				return env
			}
		}
		t.Fatal("no function runs")
		return nil
	}
	old := work(h)
	h.process.Process.Kill()
	<-h.ended
	s.noOrphans(t)
	h = s.mustLaunch(t)
	now := work(h)
	// The runtime API of this start, asked with the names of the earlier one, and
	// with this start's secret and the earlier instance.
	at, _, _ := strings.Cut(now["AWS_LAMBDA_RUNTIME_API"], "/")
	_, names, _ := strings.Cut(old["AWS_LAMBDA_RUNTIME_API"], "/")
	_, instance, _ := strings.Cut(names, "/")
	secret, _, _ := strings.Cut(strings.SplitAfterN(now["AWS_LAMBDA_RUNTIME_API"], "/", 2)[1], "/")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, base := range []string{at + "/" + names, at + "/" + secret + "/" + instance} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+base+"/2018-06-01/runtime/invocation/next", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("asking for work is not refused at once: %v", err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusNotFound {
			t.Errorf("asking for work is answered with %d", response.StatusCode)
		}
	}
	for name, c := range map[string]struct {
		env   map[string]string
		known bool
	}{"this start's": {now, true}, "the earlier start's": {old, false}} {
		table := dynamodb.New(dynamodb.Options{Region: local.Region, BaseEndpoint: aws.String(h.AWSEndpoint), RetryMaxAttempts: 1,
			Credentials: credentials.NewStaticCredentialsProvider(c.env["AWS_ACCESS_KEY_ID"], c.env["AWS_SECRET_ACCESS_KEY"], c.env["AWS_SESSION_TOKEN"])})
		_, err := table.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("none"), Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}})
		// What the function may not do is denied to it by name; who is nobody is told that.
		want := "AccessDeniedException"
		if !c.known {
			want = "UnrecognizedClientException"
		}
		var coded smithy.APIError
		if !errors.As(err, &coded) || coded.ErrorCode() != want {
			t.Errorf("with %s credentials a table answers %v, not %s", name, err, want)
		}
	}
	if err := w.verify(t.Context(), s.caller(), time.Now(), 5); err != nil {
		t.Error(err)
	}
}

// Tool and step processes are killed at random while the host goes on: a change
// that was written and not answered is answered by the retry, and Runs end.
//
// covers: R6, U5, P9
func TestNothingIsLostOrDoubledWhenFunctionsAreKilled(t *testing.T) {
	t.Parallel()
	random := crashRandom(t)
	s := newSite(t, random)
	h := s.mustLaunch(t)
	w := newWorkload("f", 3, random)
	// For twelve seconds, and on a slow machine until each of these was killed.
	must := []string{"tool-pxflow_apply_change", "tool-pxflow_run", "run_node", "run_finish"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	worked := make(chan error, 1)
	go func() { worked <- w.run(ctx, s.caller()) }()
	killed := map[string]int{}
	for start := time.Now(); ctx.Err() == nil; {
		if time.Since(start) > 12*time.Second && !slices.ContainsFunc(must, func(name string) bool { return killed[name] == 0 }) {
			break
		}
		time.Sleep(time.Duration(random.IntN(int(80 * time.Millisecond))))
		// One that the host has not reaped is a process of ours: the pid cannot
		// be another's, since its environment has just been read.
		for pid, env := range s.children() {
			var n int
			fmt.Sscan(pid, &n)
			syscall.Kill(n, syscall.SIGKILL)
			_, name, _ := strings.Cut(env["AWS_LAMBDA_FUNCTION_NAME"], "-")
			killed[name]++
			break
		}
	}
	cancel()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	if err := w.verify(t.Context(), s.caller(), time.Now(), 1_000_000); err != nil {
		t.Error(err)
	}
	if err := w.verifyHistory(t, h, time.Now(), true); err != nil {
		t.Error(err)
	}
	applies, runs := w.acknowledged(time.Now())
	t.Logf("killed %v; %d changes and %d runs acknowledged, each there once; %d failed, as they must", killed, applies, runs, w.failures())
	for _, name := range must {
		if killed[name] == 0 {
			t.Errorf("%s was never killed", name)
		}
	}
	h.stop(t)
	s.noOrphans(t)
}
