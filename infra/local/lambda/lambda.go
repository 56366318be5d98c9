package lambda

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/local/child"
	"github.com/pxhost/pxhost/infra/local/lambda/python"
)

// Limits of Lambda, in bytes.
const (
	MaxRequest      = 6 * 1024 * 1024   // payload of a synchronous invocation
	MaxEventRequest = 1024 * 1024       // payload of an asynchronous invocation
	MaxResponse     = 6*1024*1024 + 100 // what a function may answer
	maxErrorBody    = MaxResponse       // what a function may report as its error
	defaultIdle     = 10 * time.Minute  // until an idle instance is stopped
	defaultInit     = 10 * time.Second  // from start of a process to its first question for work
	janitorPeriod   = 250 * time.Millisecond
	settleTime      = 20 * time.Millisecond // to wait for an instance that has answered, before another is started
)

// DefaultInstances is four for each processor, from 4 to 16. On two processors a
// Batch of 1,000 cases takes as long with 8 as with 16, with two thirds of the
// memory, and a quarter longer with 4.
func DefaultInstances() int { return min(max(4*runtime.GOMAXPROCS(0), 4), 16) }

// A Function is the configuration of one function.
type Function struct {
	Name, ARN           string
	Bootstrap           string        // path of the executable; its folder is the working directory
	Handler             string        // module.function: the folder holds a Python module in place of a bootstrap
	Timeout             time.Duration // of one invocation
	MemoryMB            int           // the instance is killed above it, where the platform tells its size
	Environment         map[string]string
	ReservedConcurrency *int          // nil: none reserved
	MaxRetryAttempts    int           // of asynchronous invocations, 0 to 2
	MaxEventAge         time.Duration // of asynchronous invocations
}

// Options configure a [Host].
type Options struct {
	Functions []Function
	Region    string
	// Environment adds variables to every instance of a function, for example
	// its credentials and AWS_ENDPOINT_URL. It may be nil.
	Environment func(Function) map[string]string
	// Log receives one line at a time, without its newline: what functions
	// print, after their name and request ID, and what the host itself says.
	Log func(line string)
	// Queue is the file of accepted asynchronous invocations.
	Queue        string
	MaxInstances int           // per function; 0 is [DefaultInstances]
	IdleAfter    time.Duration // 0 is 10 minutes
	InitTimeout  time.Duration // 0 is 10 seconds
	Now          func() time.Time
	// Python runs the functions with a Handler: a path, or a name in PATH. Empty:
	// python3.
	Python string
}

// A Host runs the functions. Its methods may be called concurrently.
type Host struct {
	opt      Options
	secret   string // of this start; first path segment of every Runtime API address
	address  string // host:port of the Runtime API
	server   *http.Server
	spawner  *child.Spawner
	queue    *queue
	python   python.Interpreter // of the functions in Python, if there are any
	noPython error              // why there is none

	mu        sync.Mutex
	functions map[string]*function // by name
	instances map[string]*instance // by instance ID, alive
	closed    bool
	living    sync.WaitGroup // processes
	stop      chan struct{}
	janitor   sync.WaitGroup
}

// An Error is a refusal of Lambda itself; no function ran.
type Error struct {
	Status  int    // HTTP status
	Code    string // for example ResourceNotFoundException
	Message string
	Reason  string // of TooManyRequestsException
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// ErrorCode returns the AWS error code.
func (e *Error) ErrorCode() string { return e.Code }

// ErrorMessage returns the AWS error message.
func (e *Error) ErrorMessage() string { return e.Message }

// Open starts the Runtime API and the queue of asynchronous invocations.
// Processes start on demand. A function without a bootstrap is reported in the
// log, and fails when it is invoked; if none has one, Open fails.
func Open(opt Options) (*Host, error) {
	if opt.MaxInstances == 0 {
		opt.MaxInstances = DefaultInstances()
	}
	if opt.IdleAfter == 0 {
		opt.IdleAfter = defaultIdle
	}
	if opt.InitTimeout == 0 {
		opt.InitTimeout = defaultInit
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	h := &Host{
		opt: opt, secret: randomHex(), functions: map[string]*function{},
		instances: map[string]*instance{}, stop: make(chan struct{}),
	}
	var missing, inPython []string
	for _, f := range opt.Functions {
		if f.Handler != "" {
			inPython = append(inPython, f.Name)
		}
		if !f.built() {
			missing = append(missing, f.Name)
		}
		h.functions[f.Name] = &function{Function: f, max: opt.MaxInstances}
	}
	if len(missing) > 0 {
		sort.Strings(missing)
		text := fmt.Sprintf("%d of %d functions have no bootstrap, which make build makes: %s", len(missing), len(opt.Functions), strings.Join(missing, ", "))
		if len(missing) == len(opt.Functions) {
			return nil, errors.New(text)
		}
		opt.Log("lambda: " + text)
	}
	if len(inPython) > 0 {
		if h.python, h.noPython = python.Find(opt.Python); h.noPython != nil {
			opt.Log(fmt.Sprintf("lambda: %v on this machine: %s cannot run, and everything else can", h.noPython, strings.Join(inPython, ", ")))
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the Runtime API: %w", err)
	}
	if h.queue, err = openQueue(h, opt.Queue); err != nil {
		l.Close()
		return nil, err
	}
	h.address = l.Addr().String()
	h.spawner = child.NewSpawner()
	h.server = &http.Server{Handler: http.HandlerFunc(h.serveRuntime), ReadHeaderTimeout: 10 * time.Second}
	go h.server.Serve(l)
	h.janitor.Add(1)
	go h.tidy()
	h.queue.start()
	return h, nil
}

// built tells whether the code of a function is there.
func (f Function) built() bool {
	if f.Handler == "" {
		return executable(f.Bootstrap)
	}
	module, _, _ := strings.Cut(f.Handler, ".")
	st, err := os.Stat(filepath.Join(filepath.Dir(f.Bootstrap), module+".py"))
	return err == nil && st.Mode().IsRegular()
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && (runtime.GOOS == "windows" || st.Mode()&0o111 != 0)
}

// Close refuses new work, kills every instance and waits until all are gone.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.queue.stop() // first: what is killed below shall not count as an attempt
	for _, i := range h.instances {
		i.kill()
	}
	for _, f := range h.functions {
		for _, inv := range f.waiting {
			inv.finish(result{err: errClosed})
		}
		f.waiting = nil
	}
	h.mu.Unlock()
	close(h.stop)
	h.living.Wait()
	h.janitor.Wait()
	h.server.Close()
	h.spawner.Close()
	return h.queue.close()
}

var errClosed = &Error{Status: 500, Code: "ServiceException", Message: "The local host is stopping."}

type function struct {
	Function
	max      int
	idle     []*instance // last used at the end: it is taken first, so that the others age
	waiting  []*invocation
	starting int
	settling int // answered, and about to ask for work again
	live     int
	inFlight int // waiting or running, for reserved concurrency
}

// An invocation waits in its function's queue, then belongs to one instance.
type invocation struct {
	id            string
	payload       []byte
	clientContext string
	done          chan result // capacity 1
	once          sync.Once
}

type result struct {
	payload       []byte
	functionError string
	err           error
}

func (v *invocation) finish(r result) { v.once.Do(func() { v.done <- r }) }

// lookup finds a function by name, ARN or partial ARN, $LATEST only.
func (h *Host) lookup(nameOrARN string) (*function, error) {
	name, qualifier := nameOrARN, ""
	if rest, ok := strings.CutPrefix(nameOrARN, "arn:aws:lambda:"); ok {
		p := strings.Split(rest, ":") // region, account, "function", name, qualifier
		if len(p) < 4 || len(p) > 5 || p[2] != "function" {
			return nil, &Error{Status: 400, Code: "InvalidParameterValueException", Message: "Invalid function ARN."}
		}
		name = p[3]
		if len(p) == 5 {
			qualifier = p[4]
		}
		if f, ok := h.functions[name]; ok && qualifier == "" && f.ARN != nameOrARN {
			return nil, notFound(nameOrARN)
		}
	} else if i := strings.Index(nameOrARN, ":function:"); i >= 0 {
		name = nameOrARN[i+len(":function:"):]
	}
	if n, q, ok := strings.Cut(name, ":"); ok {
		name, qualifier = n, q
	}
	if qualifier != "" && qualifier != "$LATEST" {
		return nil, &Error{Status: 400, Code: "InvalidParameterValueException", Message: "px local does not support versions or aliases (Qualifier)."}
	}
	f, ok := h.functions[name]
	if !ok {
		return nil, notFound(nameOrARN)
	}
	return f, nil
}

func notFound(name string) *Error {
	return &Error{Status: 404, Code: "ResourceNotFoundException", Message: "Function not found: " + name}
}

// ARN gives the ARN of a function by name or ARN.
func (h *Host) ARN(nameOrARN string) (string, error) {
	f, err := h.lookup(nameOrARN)
	if err != nil {
		return "", err
	}
	return f.ARN, nil
}

// Invoke runs a function synchronously. functionError is "" or "Unhandled", and
// out then holds the error document. err is an [*Error] where Lambda itself
// refused, or the context's. A cancelled caller does not stop a function that
// has begun, as on AWS.
func (h *Host) Invoke(ctx context.Context, nameOrARN string, payload []byte) (out []byte, functionError string, err error) {
	r := h.invoke(ctx, nameOrARN, payload, "", newRequestID())
	return r.payload, r.functionError, r.err
}

func (h *Host) invoke(ctx context.Context, nameOrARN string, payload []byte, clientContext, requestID string) result {
	f, err := h.lookup(nameOrARN)
	if err != nil {
		return result{err: err}
	}
	if len(payload) > MaxRequest {
		return result{err: tooLarge(MaxRequest)}
	}
	if len(payload) == 0 {
		payload = []byte("{}") // what Lambda hands over for an empty body
	} else if !json.Valid(payload) {
		return result{err: &Error{Status: 400, Code: "InvalidRequestContentException", Message: "Could not parse request body into json."}}
	}
	inv := &invocation{id: requestID, payload: payload, clientContext: clientContext, done: make(chan result, 1)}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return result{err: errClosed}
	}
	if f.ReservedConcurrency != nil && f.inFlight >= *f.ReservedConcurrency {
		h.mu.Unlock()
		return result{err: &Error{Status: 429, Code: "TooManyRequestsException", Message: "Rate Exceeded.", Reason: "ReservedFunctionConcurrentInvocationLimitExceeded"}}
	}
	f.inFlight++
	if n := len(f.idle); n > 0 {
		i := f.idle[n-1]
		f.idle = f.idle[:n-1]
		h.give(i, inv)
	} else {
		f.waiting = append(f.waiting, inv)
		h.grow(f, f.settling)
		if f.settling > 0 {
			time.AfterFunc(settleTime, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.grow(f, 0)
			})
		}
	}
	h.mu.Unlock()

	select {
	case r := <-inv.done:
		return r
	case <-ctx.Done():
		h.mu.Lock()
		for k, w := range f.waiting {
			if w == inv { // not begun: take it back
				f.waiting = append(f.waiting[:k], f.waiting[k+1:]...)
				f.inFlight--
				break
			}
		}
		h.mu.Unlock()
		return result{err: ctx.Err()}
	}
}

// grow starts instances for those who wait, up to the bound; soon is how many
// of them will have an instance that is busy now. h.mu is held.
//
// An instance that has answered asks for work again within a fraction of a
// millisecond. Without counting on that, each call of a caller who calls one
// after the other would find no idle instance and start another one.
func (h *Host) grow(f *function, soon int) {
	for !h.closed && f.starting+soon < len(f.waiting) && f.live < f.max {
		f.starting++
		f.live++
		i := &instance{host: h, fn: f, id: randomHex(), work: make(chan *invocation, 1), phase: starting, since: time.Now()}
		h.instances[i.id] = i
		h.living.Add(1)
		go i.run()
	}
}

// give hands an invocation to an instance that asked for work. h.mu is held.
func (h *Host) give(i *instance, inv *invocation) {
	i.phase, i.current, i.answered, i.since = busy, inv, false, time.Now()
	i.requestID.Store(&inv.id)
	i.timer = time.AfterFunc(i.fn.Timeout, func() { i.timeOut(inv) })
	i.work <- inv
}

func (h *Host) instance(id string) *instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instances[id]
}

// tidy stops instances that were idle for long, that start for too long, or
// that hold more memory than their function has.
func (h *Host) tidy() {
	defer h.janitor.Done()
	tick := time.NewTicker(janitorPeriod)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		for _, i := range h.instances {
			age := time.Since(i.since)
			switch {
			case i.phase == idle && age > h.opt.IdleAfter:
				i.phase = ending
				i.fn.drop(i)
				i.kill()
			case i.phase == starting && age > h.opt.InitTimeout:
				i.cause = timedOut(h.opt.InitTimeout)
				i.phase = ending
				i.fn.starting--
				i.kill()
				if len(i.fn.waiting) > 0 {
					inv := i.fn.waiting[0]
					i.fn.waiting = i.fn.waiting[1:]
					i.fn.inFlight--
					inv.finish(i.cause(inv.id))
				}
			case i.phase == busy && i.pid > 0 && residentBytes(i.pid) > int64(i.fn.MemoryMB)<<20:
				h.logf("%s %s | used more than its %d MB and was killed", i.fn.Name, i.currentID(), i.fn.MemoryMB)
				i.kill()
			}
		}
		h.mu.Unlock()
	}
}

func (f *function) drop(i *instance) {
	for k, x := range f.idle {
		if x == i {
			f.idle = append(f.idle[:k], f.idle[k+1:]...)
			return
		}
	}
}

func (h *Host) logf(format string, args ...any) { h.opt.Log(fmt.Sprintf(format, args...)) }

func tooLarge(limit int) *Error {
	return &Error{Status: 413, Code: "RequestEntityTooLargeException",
		Message: fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", limit)}
}

// errorDocument is the payload that Lambda itself makes for a failed invocation.
func errorDocument(errorType, requestID, text string) []byte {
	b, err := json.Marshal(struct {
		ErrorType    string `json:"errorType"`
		ErrorMessage string `json:"errorMessage"`
	}{errorType, "RequestId: " + requestID + " Error: " + text})
	if err != nil {
		panic(err) // two strings
	}
	return b
}

func timedOut(limit time.Duration) func(string) result {
	return func(id string) result {
		return result{functionError: "Unhandled", payload: errorDocument("Sandbox.Timedout", id, fmt.Sprintf("Task timed out after %.2f seconds", limit.Seconds()))}
	}
}

func randomHex() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// newRequestID returns a random UUID, the form of Lambda's request IDs.
func newRequestID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// environment is the whole environment of one instance. Nothing of the host's
// own environment reaches a function except what a process needs to start.
func (h *Host) environment(i *instance) []string {
	f := i.fn
	env := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "en_US.UTF-8", "TZ": ":UTC",
		"LAMBDA_TASK_ROOT": filepath.Dir(f.Bootstrap), "_HANDLER": cmp.Or(f.Handler, "bootstrap"),
	}
	for _, k := range []string{"SystemRoot", "TEMP", "TMPDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			env[k] = v
		}
	}
	for k, v := range f.Environment {
		env[k] = v
	}
	if h.opt.Environment != nil {
		for k, v := range h.opt.Environment(f.Function) {
			env[k] = v
		}
	}
	env["AWS_REGION"], env["AWS_DEFAULT_REGION"] = h.opt.Region, h.opt.Region
	env["AWS_LAMBDA_RUNTIME_API"] = h.address + "/" + h.secret + "/" + i.id
	env["AWS_LAMBDA_FUNCTION_NAME"] = f.Name
	env["AWS_LAMBDA_FUNCTION_VERSION"] = "$LATEST"
	env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = fmt.Sprint(f.MemoryMB)
	env["AWS_LAMBDA_INITIALIZATION_TYPE"] = "on-demand"
	env["AWS_LAMBDA_LOG_GROUP_NAME"] = "/aws/lambda/" + f.Name
	env["AWS_LAMBDA_LOG_STREAM_NAME"] = "local/[$LATEST]" + i.id
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}
