package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

// probe is the path of a real bootstrap, built once.
var probe string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		panic(err)
	}
	probe = filepath.Join(dir, "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", probe, "./internal/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("probe does not build: %v\n%s", err, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const arnPrefix = "arn:aws:lambda:us-east-1:000000000000:function:"

type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(s string) { l.mu.Lock(); l.lines = append(l.lines, s); l.mu.Unlock() }
func (l *logs) all() string  { l.mu.Lock(); defer l.mu.Unlock(); return strings.Join(l.lines, "\n") }

// open starts a host with one function named f.
func open(t testing.TB, change func(*Options, *Function)) (*Host, *logs) {
	t.Helper()
	l := &logs{}
	f := Function{Name: "f", ARN: arnPrefix + "f", Bootstrap: probe, Timeout: 5 * time.Second, MemoryMB: 128, MaxRetryAttempts: 2, MaxEventAge: time.Hour}
	opt := Options{Region: "us-east-1", Log: l.add, Queue: filepath.Join(t.TempDir(), "lambda.db")}
	if change != nil {
		change(&opt, &f)
	}
	opt.Functions = append(opt.Functions, f)
	h, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, l
}

type answer struct {
	Pid             int      `json:"pid"`
	Calls           int      `json:"calls"`
	RequestID       string   `json:"requestId"`
	ARN             string   `json:"arn"`
	RemainingMillis int      `json:"remainingMillis"`
	Env             []string `json:"env"`
	ErrorType       string   `json:"errorType"`
	ErrorMessage    string   `json:"errorMessage"`
}

func call(t testing.TB, h *Host, payload string) (answer, string) {
	t.Helper()
	out, fe, err := h.Invoke(context.Background(), "f", []byte(payload))
	if err != nil {
		t.Fatalf("Invoke: %v", err)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("answer %q: %v", out, err)
	}
	return a, fe
}

// covers: H2, H4
func TestInvokeRunsTheBootstrap(t *testing.T) {
	h, _ := open(t, func(o *Options, f *Function) {
		f.Environment = map[string]string{"GREETING": "hello"}
		o.Environment = func(f Function) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": "KEY-OF-" + f.Name}
		}
	})
	t.Setenv("PX_SECRET_OF_THE_HOST", "x") // must not reach a function
	const echo = `{"a":[1,2.50,"x"],"n":9007199254740993}`
	out, fe, err := h.Invoke(context.Background(), "f", []byte(echo))
	if err != nil || fe != "" || string(out) != echo {
		t.Fatalf("echo = %s, %q, %v", out, fe, err)
	}
	a, _ := call(t, h, `{"do":"report"}`)
	if a.Calls != 2 {
		t.Errorf("second call was number %d of its process: the instance was not reused", a.Calls)
	}
	if a.ARN != arnPrefix+"f" || a.RequestID == "" {
		t.Errorf("context: arn %q, request %q", a.ARN, a.RequestID)
	}
	if a.RemainingMillis < 4000 || a.RemainingMillis > 5000 {
		t.Errorf("remaining time %d ms, want just under the 5 s timeout", a.RemainingMillis)
	}
	env := map[string]string{}
	for _, e := range a.Env {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	for k, want := range map[string]string{
		"GREETING": "hello", "AWS_ACCESS_KEY_ID": "KEY-OF-f", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
		"AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
		"LAMBDA_TASK_ROOT": filepath.Dir(probe), "PX_SECRET_OF_THE_HOST": "",
	} {
		if env[k] != want {
			t.Errorf("%s = %q, want %q", k, env[k], want)
		}
	}
}

func TestFunctionFailures(t *testing.T) {
	h, l := open(t, func(_ *Options, f *Function) { f.Timeout = 2500 * time.Millisecond })
	for _, c := range []struct {
		name, payload      string
		errorType, message string // message is contained
		dies               bool
	}{
		{"an error that the handler returns", `{"do":"error"}`, "errorString", "asked to fail", false},
		{"a panic ends the process", `{"do":"panic"}`, "string", "asked to panic", true},
		{"a process that exits", `{"do":"exit"}`, "Runtime.ExitError", "Error: Runtime exited with error: exit status 7", true},
		{"a handler that overruns its timeout", `{"do":"sleep","millis":60000}`, "Sandbox.Timedout", "Error: Task timed out after 2.50 seconds", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			// On a busy machine a process may not be idle yet when the next call comes, which
			// another one then serves: that says nothing of the one that was asked first.
			var before answer
			for try := 1; ; try++ {
				before, _ = call(t, h, `{"do":"report"}`)
				a, fe := call(t, h, c.payload)
				if fe != "Unhandled" || a.ErrorType != c.errorType || !strings.Contains(a.ErrorMessage, c.message) {
					t.Errorf("got %q %+v", fe, a)
				}
				after, fe := call(t, h, `{"do":"report"}`)
				if fe != "" {
					t.Fatalf("the function does not recover: %+v", after)
				}
				if died := after.Pid != before.Pid; died == c.dies {
					break
				} else if try == 5 {
					t.Fatalf("process replaced: %v, want %v", died, c.dies)
				}
			}
			if c.dies && alive(before.Pid) {
				t.Errorf("process %d is still alive", before.Pid)
			}
		})
	}
	if !strings.Contains(l.all(), "Task timed out after 2.50 seconds") {
		t.Error("the timeout is not in the log")
	}
}

func TestInitFailures(t *testing.T) {
	t.Run("a process that exits before it asks for work", func(t *testing.T) {
		h, l := open(t, func(_ *Options, f *Function) { f.Environment = map[string]string{"PROBE_INIT": "exit"} })
		for range 2 {
			a, fe := call(t, h, `{}`)
			if fe != "Unhandled" || a.ErrorType != "Runtime.ExitError" || !strings.HasSuffix(a.ErrorMessage, "exit status 3") {
				t.Errorf("got %q %+v", fe, a)
			}
		}
		if !strings.Contains(l.all(), "f - | cannot start") {
			t.Errorf("log: %s", l.all())
		}
	})
	t.Run("many callers of a function that cannot start are all told", func(t *testing.T) {
		h, _ := open(t, func(o *Options, f *Function) {
			o.MaxInstances = 2
			f.Environment = map[string]string{"PROBE_INIT": "exit"}
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if a, fe := call(t, h, `{}`); fe != "Unhandled" || a.ErrorType != "Runtime.ExitError" {
					t.Errorf("got %q %+v", fe, a)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a process that never asks for work", func(t *testing.T) {
		h, _ := open(t, func(o *Options, f *Function) {
			o.InitTimeout = 100 * time.Millisecond
			f.Environment = map[string]string{"PROBE_INIT": "hang"}
		})
		if a, fe := call(t, h, `{}`); fe != "Unhandled" || a.ErrorType != "Sandbox.Timedout" {
			t.Errorf("got %q %+v", fe, a)
		}
	})
	t.Run("a bootstrap that is not there", func(t *testing.T) {
		h, l := open(t, func(o *Options, f *Function) {
			o.Functions = []Function{{Name: "other", Bootstrap: probe}}
			f.Bootstrap = "/nowhere/bootstrap"
		})
		if a, fe := call(t, h, `{}`); fe != "Unhandled" || a.ErrorType != "Runtime.InvalidEntrypoint" {
			t.Errorf("got %q %+v", fe, a)
		}
		if !strings.Contains(l.all(), "1 of 2 functions have no bootstrap, which make build makes: f") {
			t.Errorf("log: %s", l.all())
		}
	})
}

func TestKillTakesTheWholeProcessGroup(t *testing.T) {
	h, _ := open(t, func(_ *Options, f *Function) { f.Timeout = 2 * time.Second })
	mark := filepath.Join(t.TempDir(), "pid")
	call(t, h, `{"do":"child","millis":60000,"command":"echo $$ > `+mark+`; exec sleep 60"}`)
	b, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	fmt.Sscan(string(b), &pid)
	waitFor(t, "the grandchild to be gone", func() bool { return !alive(pid) })
}

func TestMemoryLimit(t *testing.T) {
	if residentBytes(os.Getpid()) == 0 {
		skip(t, "this platform does not tell the size of a process")
	}
	h, _ := open(t, func(_ *Options, f *Function) { f.MemoryMB = 128 })
	if a, fe := call(t, h, `{"do":"allocate","bytes":300000000,"millis":3000}`); fe != "Unhandled" || !strings.HasSuffix(a.ErrorMessage, "signal: killed") {
		t.Errorf("got %q %+v", fe, a)
	}
}

func TestResponseSizeLimit(t *testing.T) {
	h, _ := open(t, nil)
	const quotes = 2
	out, fe, err := h.Invoke(context.Background(), "f", []byte(fmt.Sprintf(`{"do":"bytes","bytes":%d}`, MaxResponse-quotes)))
	if err != nil || fe != "" || len(out) != MaxResponse {
		t.Fatalf("largest response: %d bytes, %q, %v", len(out), fe, err)
	}
	a, fe := call(t, h, fmt.Sprintf(`{"do":"bytes","bytes":%d}`, MaxResponse-quotes+1))
	if fe != "Unhandled" || a.ErrorType != "Function.ResponseSizeTooLarge" {
		t.Errorf("one byte more: %q %+v", fe, a)
	}
	if a, fe := call(t, h, `{"do":"report"}`); fe != "" {
		t.Errorf("afterwards: %q %+v", fe, a)
	}
}

func TestConcurrency(t *testing.T) {
	t.Run("invocations at one time have instances of their own", func(t *testing.T) {
		h, _ := open(t, nil)
		pids := map[int]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				a, _ := call(t, h, `{"do":"sleep","millis":400}`)
				mu.Lock()
				defer mu.Unlock()
				pids[a.Pid] = true
			})
		}
		wg.Wait()
		if len(pids) != 6 {
			t.Errorf("6 invocations ran in %d processes", len(pids))
		}
	})
	t.Run("above the bound they wait", func(t *testing.T) {
		h, _ := open(t, func(o *Options, _ *Function) { o.MaxInstances = 2 })
		pids := map[int]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				a, fe := call(t, h, `{"do":"sleep","millis":20}`)
				mu.Lock()
				defer mu.Unlock()
				if fe != "" {
					t.Error(fe)
				}
				pids[a.Pid]++
			})
		}
		wg.Wait()
		if len(pids) > 2 {
			t.Errorf("%d processes, bound 2", len(pids))
		}
	})
	t.Run("above reserved concurrency they are throttled", func(t *testing.T) {
		one := 1
		h, _ := open(t, func(_ *Options, f *Function) { f.ReservedConcurrency = &one })
		begun := make(chan struct{})
		go func() {
			close(begun)
			h.Invoke(context.Background(), "f", []byte(`{"do":"sleep","millis":1500}`))
		}()
		<-begun
		waitFor(t, "the first to be in flight", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.functions["f"].inFlight == 1 })
		_, _, err := h.Invoke(context.Background(), "f", nil)
		var e *Error
		if !errors.As(err, &e) || e.Code != "TooManyRequestsException" || e.Status != 429 {
			t.Errorf("second: %v", err)
		}
		waitFor(t, "room again", func() bool { _, _, err := h.Invoke(context.Background(), "f", nil); return err == nil })
	})
	t.Run("a caller who gives up while waiting leaves no work behind", func(t *testing.T) {
		h, _ := open(t, func(o *Options, _ *Function) { o.MaxInstances = 1 })
		go h.Invoke(context.Background(), "f", []byte(`{"do":"sleep","millis":1500}`))
		waitFor(t, "the first to be in flight", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.functions["f"].inFlight == 1 })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := h.Invoke(ctx, "f", []byte(`{"do":"report"}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if a, _ := call(t, h, `{"do":"report"}`); a.Calls != 2 {
			t.Errorf("this was call %d of the only process, want 2: the given-up one ran", a.Calls)
		}
	})
	t.Run("an instance that has just answered is waited for, but not for long", func(t *testing.T) {
		h, _ := open(t, nil)
		h.functions["f"].settling = 1 // one that answered and never asks for work again
		begun := time.Now()
		if a, fe := call(t, h, `{"do":"report"}`); fe != "" || a.Calls != 1 {
			t.Errorf("%q %+v", fe, a)
		}
		if took := time.Since(begun); took < settleTime {
			t.Errorf("another instance was started after %s, without waiting for the settling one", took)
		}
	})
	t.Run("idle instances end", func(t *testing.T) {
		h, _ := open(t, func(o *Options, _ *Function) { o.IdleAfter = 50 * time.Millisecond })
		a, _ := call(t, h, `{"do":"report"}`)
		waitFor(t, "the process to end", func() bool { return !alive(a.Pid) })
		if b, fe := call(t, h, `{"do":"report"}`); fe != "" || b.Pid == a.Pid {
			t.Errorf("afterwards: %q %+v", fe, b)
		}
	})
}

func TestLogLinesNameFunctionAndRequest(t *testing.T) {
	h, l := open(t, nil)
	a, _ := call(t, h, `{"do":"print"}`)
	want := "f " + a.RequestID + " | to stdout\nf " + a.RequestID + " | to stderr"
	waitFor(t, "the lines", func() bool { return strings.Contains(l.all(), want) })
}

func TestCloseKillsWhatRuns(t *testing.T) {
	h, _ := open(t, nil)
	a, _ := call(t, h, `{"do":"report"}`)
	done := make(chan result, 1)
	go func() {
		out, fe, err := h.Invoke(context.Background(), "f", []byte(`{"do":"sleep","millis":60000}`))
		done <- result{out, fe, err}
	}()
	waitFor(t, "the second to be in flight", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.functions["f"].inFlight == 1 })
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	if alive(a.Pid) {
		t.Errorf("process %d is alive after Close", a.Pid)
	}
	if _, _, err := h.Invoke(context.Background(), "f", nil); err == nil {
		t.Error("Invoke after Close succeeds")
	}
}

// A process of an earlier start, or one with a made-up address, is refused on
// every path of the Runtime API, and gets no work.
//
// covers: H4
func TestOrphansAreRefused(t *testing.T) {
	earlier, _ := open(t, nil)
	out, _, err := earlier.Invoke(context.Background(), "f", []byte(`{"do":"report"}`))
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	json.Unmarshal(out, &a)
	var old string
	for _, e := range a.Env {
		if v, ok := strings.CutPrefix(e, "AWS_LAMBDA_RUNTIME_API="); ok {
			old = v
		}
	}
	_, oldPath, _ := strings.Cut(old, "/")
	h, _ := open(t, nil)
	call(t, h, `{"do":"report"}`)
	h.mu.Lock()
	var living string
	for id := range h.instances {
		living = id
	}
	h.mu.Unlock()
	for _, c := range []struct{ name, prefix string }{
		{"the address of an earlier start", oldPath},
		{"a living instance without the secret of this start", "x/" + living},
		{"the secret of this start with an instance that is gone", h.secret + "/0123"},
		{"no secret", living},
		{"nothing", ""},
	} {
		for _, route := range []string{"GET runtime/invocation/next", "POST runtime/invocation/x/response", "POST runtime/init/error"} {
			method, path, _ := strings.Cut(route, " ")
			r := httptest.NewRequest(method, "/"+c.prefix+"/2018-06-01/"+path, strings.NewReader("{}"))
			w := httptest.NewRecorder()
			h.serveRuntime(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s, %s: %d %s", c.name, route, w.Code, w.Body)
			}
		}
	}
	// Its own address does not let an instance answer another's invocation.
	r := httptest.NewRequest("POST", "/"+h.secret+"/"+living+"/2018-06-01/runtime/invocation/not-mine/response", strings.NewReader("{}"))
	w := httptest.NewRecorder()
	h.serveRuntime(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("answer to a foreign invocation: %d", w.Code)
	}
}

func client(t testing.TB, h http.Handler) *awslambda.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return awslambda.New(awslambda.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(srv.URL), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
}

// covers: H3
func TestInvokeAPIWithTheSDK(t *testing.T) {
	h, _ := open(t, nil)
	c := client(t, h)
	ctx := context.Background()
	for _, name := range []string{"f", arnPrefix + "f", "000000000000:function:f", "f:$LATEST"} {
		out, err := c.Invoke(ctx, &awslambda.InvokeInput{FunctionName: &name, Payload: []byte(`{"x":1}`)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(out.Payload) != `{"x":1}` || out.FunctionError != nil || *out.ExecutedVersion != "$LATEST" || out.StatusCode != 200 {
			t.Errorf("%s: %+v", name, out)
		}
	}
	out, err := c.Invoke(ctx, &awslambda.InvokeInput{FunctionName: aws.String("f"), Payload: []byte(`{"do":"error"}`)})
	if err != nil || out.FunctionError == nil || *out.FunctionError != "Unhandled" || !bytes.Contains(out.Payload, []byte(`"errorMessage":"asked to fail"`)) {
		t.Errorf("function error: %+v, %v", out, err)
	}
	if out, err := c.Invoke(ctx, &awslambda.InvokeInput{FunctionName: aws.String("f"), InvocationType: lambdatypes.InvocationTypeDryRun}); err != nil || out.StatusCode != 204 {
		t.Errorf("DryRun: %+v, %v", out, err)
	}
	big := []byte(`"` + strings.Repeat("A", MaxRequest-2) + `"`)
	if _, err := c.Invoke(ctx, &awslambda.InvokeInput{FunctionName: aws.String("f"), Payload: big}); err != nil {
		t.Errorf("largest payload: %v", err)
	}
	for _, c2 := range []struct {
		name string
		in   awslambda.InvokeInput
		code string
	}{
		{"a function that is not there", awslambda.InvokeInput{FunctionName: aws.String("g")}, "ResourceNotFoundException"},
		{"a function of another account", awslambda.InvokeInput{FunctionName: aws.String("arn:aws:lambda:us-east-1:111111111111:function:f")}, "ResourceNotFoundException"},
		{"a payload that is not JSON", awslambda.InvokeInput{FunctionName: aws.String("f"), Payload: []byte("{")}, "InvalidRequestContentException"},
		{"a payload of one byte more than 6 MB", awslambda.InvokeInput{FunctionName: aws.String("f"), Payload: append(big, ' ')}, "RequestEntityTooLargeException"},
		{"an event of one byte more than 1 MB", awslambda.InvokeInput{FunctionName: aws.String("f"), InvocationType: lambdatypes.InvocationTypeEvent, Payload: big[:MaxEventRequest+1]}, "RequestEntityTooLargeException"},
		{"an alias", awslambda.InvokeInput{FunctionName: aws.String("f"), Qualifier: aws.String("live")}, "InvalidParameterValueException"},
		{"a log tail", awslambda.InvokeInput{FunctionName: aws.String("f"), LogType: lambdatypes.LogTypeTail}, "InvalidParameterValueException"},
		{"a tenant", awslambda.InvokeInput{FunctionName: aws.String("f"), TenantId: aws.String("t")}, "InvalidParameterValueException"},
		{"a durable execution", awslambda.InvokeInput{FunctionName: aws.String("f"), DurableExecutionName: aws.String("t")}, "InvalidParameterValueException"},
	} {
		_, err := c.Invoke(ctx, &c2.in)
		var e smithy.APIError
		if !errors.As(err, &e) || e.ErrorCode() != c2.code {
			t.Errorf("%s: %v", c2.name, err)
		}
	}
	_, err = c.ListFunctions(ctx, &awslambda.ListFunctionsInput{})
	var e smithy.APIError
	if !errors.As(err, &e) || !strings.Contains(e.ErrorMessage(), "supports only Invoke") {
		t.Errorf("another operation: %v", err)
	}
}

// covers: H4
func TestInvokeFieldsAreAllListed(t *testing.T) {
	typ := reflect.TypeFor[awslambda.InvokeInput]()
	seen := 0
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() {
			continue
		}
		seen++
		if _, ok := InputFields[f.Name]; !ok {
			t.Errorf("the SDK has a field %s that is neither supported nor refused", f.Name)
		}
	}
	if seen != len(InputFields) {
		t.Errorf("%d fields listed, the SDK has %d", len(InputFields), seen)
	}
}

func TestAsynchronousInvocations(t *testing.T) {
	t.Run("an accepted event runs", func(t *testing.T) {
		h, l := open(t, nil)
		c := client(t, h)
		out, err := c.Invoke(context.Background(), &awslambda.InvokeInput{FunctionName: aws.String("f"), InvocationType: lambdatypes.InvocationTypeEvent, Payload: []byte(`{"do":"print"}`)})
		if err != nil || out.StatusCode != 202 {
			t.Fatalf("%+v, %v", out, err)
		}
		waitFor(t, "the event to run", func() bool { return strings.Contains(l.all(), "to stdout") })
		waitFor(t, "the queue to be empty", func() bool { return queued(h) == 0 })
	})
	t.Run("an event that was accepted before a crash runs at the next start", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "q.db")
		h, _ := open(t, func(o *Options, f *Function) { o.Queue = file })
		if err := h.InvokeEvent("f", []byte(`{"do":"sleep","millis":4000}`)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "it to run", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.functions["f"].inFlight == 1 })
		h.Close() // kills it: as far as the queue knows, the attempt never ended
		again, _ := open(t, func(o *Options, f *Function) { o.Queue = file })
		waitFor(t, "it to run again", func() bool { again.mu.Lock(); defer again.mu.Unlock(); return again.functions["f"].inFlight == 1 })
	})
	t.Run("function errors are retried after one and two minutes, then dropped", func(t *testing.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		h, l := open(t, func(o *Options, f *Function) { o.Now = func() time.Time { return now } })
		ev := event{Function: "f", Payload: []byte(`{"do":"error"}`), Accepted: now, Due: now, Request: "r"}
		for i, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
			if h.queue.attempt(&ev) || ev.Due.Sub(now) != wait {
				t.Fatalf("attempt %d: due %s later, want %s", i+1, ev.Due.Sub(now), wait)
			}
		}
		if !h.queue.attempt(&ev) {
			t.Error("a fourth attempt is planned")
		}
		if !strings.Contains(l.all(), `f r | asynchronous invocation dropped after 3 attempts: {"errorMessage":"asked to fail"`) {
			t.Errorf("log: %s", l.all())
		}
	})
	t.Run("an event grows too old", func(t *testing.T) {
		now := time.Now()
		h, _ := open(t, nil)
		ev := event{Function: "f", Accepted: now.Add(-2 * time.Hour), Due: now, Request: "r"}
		if !h.queue.attempt(&ev) {
			t.Error("it is tried although older than the maximum age")
		}
	})
	t.Run("throttling backs off and does not count as an attempt", func(t *testing.T) {
		zero := 0
		now := time.Now()
		h, _ := open(t, func(o *Options, f *Function) { f.ReservedConcurrency = &zero; o.Now = func() time.Time { return now } })
		ev := event{Function: "f", Accepted: now, Due: now, Request: "r"}
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if h.queue.attempt(&ev) || ev.Due.Sub(now) != wait || ev.Attempts != 0 {
				t.Errorf("due %s later, want %s; %d attempts", ev.Due.Sub(now), wait, ev.Attempts)
			}
		}
	})
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited 20 s for %s", what)
}

// BenchmarkColdStart is from the decision to start a process to its first
// answer; BenchmarkWarmInvoke is the same through the Invoke API over HTTP,
// beside a bare net/http echo over loopback as the reference.
func BenchmarkColdStart(b *testing.B) {
	h, _ := open(b, func(o *Options, f *Function) { o.MaxInstances = 1 })
	for b.Loop() {
		call(b, h, `{"do":"report"}`)
		b.StopTimer()
		waitFor(b, "the process to be gone", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, i := range h.instances {
				i.kill()
			}
			return len(h.instances) == 0
		})
		b.StartTimer()
	}
}

func BenchmarkWarmInvoke(b *testing.B) {
	h, _ := open(b, nil)
	payload := []byte(`{"hello":"world"}`)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var buf bytes.Buffer
		buf.ReadFrom(r.Body)
		w.Write(buf.Bytes())
	}))
	defer echo.Close()
	invoke := httptest.NewServer(h)
	defer invoke.Close()
	run := func(url string) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				resp, err := http.Post(url, "application/json", bytes.NewReader(payload))
				if err != nil {
					b.Fatal(err)
				}
				var buf bytes.Buffer
				buf.ReadFrom(resp.Body)
				resp.Body.Close()
				if !bytes.Equal(buf.Bytes(), payload) {
					b.Fatalf("%s", buf.Bytes())
				}
			}
		}
	}
	b.Run("net-http-echo", run(echo.URL))
	b.Run("invoke", run(invoke.URL+"/2015-03-31/functions/f/invocations"))
}
