// Package local is the local host: it serves the project's template on this
// machine, with emulated AWS services and the real function binaries.
//
// This package only wires and keeps the order of start and stop; each service
// is a package below it. Two addresses, both loopback only:
//   - URL: the HTTP API of the template and the OpenID issuer.
//   - AWSEndpoint: all emulated AWS APIs, signed requests only (awsapi).
//
// Order of start: the state folder is locked, then the databases are opened
// and what the template declares is made in them, then functions can be
// started, and only then does anything listen. The ready file is written
// last, so whoever reads it can call. Order of stop is the reverse.
//
// All that must survive is in the state folder; keys of functions are made at
// each start, so that a process of an earlier start can neither answer an
// invocation nor touch a table.
package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/local/apigateway"
	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/local/kms"
	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/schedule"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/infra/local/template"
)

// Where the local host pretends to be.
const (
	Region    = "us-east-1"
	AccountID = "000000000000"
	StackName = "pxhost"
)

// IssuerParameter is the parameter of the template that takes the issuer's
// URL, if the template has it.
const IssuerParameter = "IssuerUrl"

// ConsoleParameter is the parameter that takes the client identifier of the console, if
// the template has it.
const ConsoleParameter = "ConsoleClientId"

// The parameters of the template that say where Python runs. They are set, if the
// template has them, when the host has a worker.
var sandboxParameters = map[string]string{"SandboxImage": "worker", "SandboxVpc": "vpc-local", "SandboxSubnets": "subnet-local", "SandboxWorkers": "1"}

// Config says how to run.
type Config struct {
	Addr         string // host:port of URL; port 0 takes any free port, and the same again at the next start
	State        string // state folder
	Template     string // path of template.yaml
	ReadyFile    string // written when the host can answer; empty: none
	ServicesOnly bool   // emulated services and issuer, without functions and HTTP API
	Parameters   map[string]string
	// Minute is how long a minute of the template's schedules takes; 0 is a minute.
	Minute time.Duration
	// Worker is the program that runs Python, and Cache the folder where it keeps what
	// it prepares. Without Worker there is no sandbox.
	Worker, Cache string
	Out           io.Writer // progress and what functions print
	// Ready is called when the host can answer, before the ready file is
	// written, for example to seed a sample. It may be nil. Its error stops
	// the host.
	Ready func(context.Context, Running) error
}

// Running describes a host that can answer.
type Running struct {
	URL         string
	AWSEndpoint string
	Operator    statedir.Operator
	Key         *oidc.Key
	Template    *template.Template
}

// Host is what commands on the state folder read of a running host.
func (r Running) Host() statedir.Host {
	h := statedir.Host{URL: r.URL, AWSEndpoint: r.AWSEndpoint}
	for i, f := range r.Template.Functions {
		if i == 0 {
			h.Environment = maps.Clone(f.Environment)
			continue
		}
		maps.DeleteFunc(h.Environment, func(name, value string) bool { return f.Environment[name] != value })
	}
	return h
}

// Run serves until ctx is done, and returns nil then. Any other end is an error.
func Run(ctx context.Context, cfg Config) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &host{cfg: cfg, fail: cancel, keys: map[string]awsapi.Credential{}}
	defer func() {
		if e := h.close(); err == nil {
			err = e
		}
	}()
	if err := h.start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return nil // stopped while starting
		}
		return err
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	h.sayf("stopping")
	return nil
}

type host struct {
	cfg      Config
	fail     context.CancelCauseFunc
	out      sync.Mutex
	keys     map[string]awsapi.Credential // by access key ID; not changed once the host serves
	policies map[string][]awsapi.Statement
	secrets  *kms.Service
	closers  []func() error
}

func (h *host) onClose(f func() error) { h.closers = append(h.closers, f) }

func (h *host) close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	return errors.Join(errs...)
}

// log prints one line of a service or function.
func (h *host) log(line string) {
	h.out.Lock()
	defer h.out.Unlock()
	fmt.Fprintln(h.cfg.Out, line)
}

func (h *host) sayf(format string, args ...any) { h.log("px local: " + fmt.Sprintf(format, args...)) }

func (h *host) start(ctx context.Context) error {
	if err := checkLoopback(h.cfg.Addr); err != nil {
		return err
	}
	dir, err := statedir.Open(h.cfg.State)
	if errors.Is(err, statedir.ErrLocked) {
		return fmt.Errorf("%w; stop it, or choose another folder with --state", err)
	}
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	h.onClose(dir.Close)
	failpoint.Hit(failpoint.StartLocked)
	h.sayf("state in %s", dir.Root())
	if h.cfg.ReadyFile != "" { // one of an earlier start must not be taken for ours
		if err := os.Remove(h.cfg.ReadyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ready file: %w", err)
		}
	}
	before, err := dir.ReadHost()
	if err != nil && !errors.Is(err, statedir.ErrNotStarted) {
		return err
	}

	main, err := listen(h.cfg.Addr, before.URL)
	if err != nil {
		if before.URL != "" {
			return fmt.Errorf("%w; free the address, or choose another one with --addr and another folder with --state: %s", err, principalsOf(before.URL))
		}
		return fmt.Errorf("%w; choose another address with --addr", err)
	}
	h.onClose(func() error { main.Close(); return nil })
	aws, err := listenAWS(main.Addr().(*net.TCPAddr), h.cfg.Addr, before.AWSEndpoint)
	if err != nil {
		return err
	}
	h.onClose(func() error { aws.Close(); return nil })
	run := Running{URL: "http://" + main.Addr().String(), AWSEndpoint: "http://" + aws.Addr().String()}
	if before.URL != "" && before.URL != run.URL {
		h.sayf("the last start was at %s, this one is at %s: %s", before.URL, run.URL, principalsOf(before.URL))
	}

	if run.Template, err = h.load(run.URL); err != nil {
		return err
	}
	if run.Operator, err = dir.Operator(); err != nil {
		return fmt.Errorf("operator key: %w", err)
	}
	h.keys[run.Operator.AccessKeyID] = awsapi.Credential{AccessKeyID: run.Operator.AccessKeyID, Secret: run.Operator.SecretAccessKey, Principal: operatorPrincipal}
	if run.Key, err = oidc.Open(dir); err != nil {
		return fmt.Errorf("issuer key: %w", err)
	}
	if err := dir.Write("aws.env", awsEnvironment(run)); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StartKeys)

	services := map[string]http.Handler{}
	functions, err := h.startServices(ctx, dir, run, services)
	if err != nil {
		return err
	}

	issuer, signIn, api := run.Key.Handler(run.URL), run.Key.NewSignIn(run.URL, time.Now), http.NotFoundHandler()
	if functions != nil {
		api = apigateway.New(apigateway.Options{
			Routes: routes(run.Template), AccountID: AccountID, APIID: template.APIID, Invoke: functions.Invoke, Log: h.log,
		})
		h.schedules(ctx, run.Template, functions)
	}
	// The AWS endpoint is stopped after the HTTP API, whose requests need it.
	h.serve(aws, awsapi.New(awsapi.Options{
		Region: Region, Services: services, Allow: h.allow, Resources: awsapi.Resources{Table: tableARN, Function: functionARN, Key: h.secrets.KeyARN},
		Credential: func(id string) (awsapi.Credential, bool) { c, ok := h.keys[id]; return c, ok },
		Fault:      func(service, answer string) { h.sayf("%s failed: %s", service, answer) },
	}))
	// No ServeMux: it redirects what API Gateway does not know, such as //v1/mcp.
	h.serve(main, loopbackHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case oidc.DiscoveryPath, oidc.MetadataPath, oidc.KeysPath:
			issuer.ServeHTTP(w, r)
		case oidc.AuthorizePath, oidc.TokenPath, oidc.RegisterPath:
			signIn.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})))
	failpoint.Hit(failpoint.StartServing)
	if err := dir.WriteHost(run.Host()); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StartHostFile)
	if h.cfg.Ready != nil {
		if err := h.cfg.Ready(ctx, run); err != nil {
			return err
		}
	}
	failpoint.Hit(failpoint.StartSeeded)
	h.welcome(run)
	if h.cfg.ReadyFile != "" {
		b, err := json.Marshal(map[string]string{"url": run.URL, "awsEndpoint": run.AWSEndpoint})
		if err != nil {
			return err
		}
		if err := statedir.WriteFile(h.cfg.ReadyFile, append(b, '\n')); err != nil {
			return fmt.Errorf("ready file: %w", err)
		}
	}
	return nil
}

// load reads the template with the parameters that only a running host knows.
func (h *host) load(issuer string) (*template.Template, error) {
	opt := template.Options{Region: Region, AccountID: AccountID, StackName: StackName, APIEndpoint: issuer, Parameters: map[string]string{}}
	for k, v := range h.cfg.Parameters {
		opt.Parameters[k] = v
	}
	opt.Parameters[IssuerParameter] = issuer
	declared, _ := template.Declared(h.cfg.Template) // Load says what is wrong
	if _, set := opt.Parameters[ConsoleParameter]; !set && slices.Contains(declared, ConsoleParameter) {
		opt.Parameters[ConsoleParameter] = oidc.ConsoleClient
	}
	if h.cfg.Worker != "" {
		for name, value := range sandboxParameters {
			if _, set := opt.Parameters[name]; !set && slices.Contains(declared, name) {
				opt.Parameters[name] = value
			}
		}
	}
	t, err := template.Load(h.cfg.Template, opt)
	var missing *fs.PathError
	if errors.As(err, &missing) && missing.Path == h.cfg.Template && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; start px local in the project's folder, or name the template with --template", missing.Path, missing.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.cfg.Template, err)
	}
	h.sayf("template %s: %d functions, %d routes, %d tables, %d buckets, %d state machines, %d schedules", h.cfg.Template,
		len(t.Functions), len(t.Routes), len(t.Tables), len(t.Buckets), len(t.StateMachines), len(t.Schedules))
	return t, nil
}

func routes(t *template.Template) []apigateway.Route {
	out := make([]apigateway.Route, len(t.Routes))
	for i, r := range t.Routes {
		out[i] = apigateway.Route{Method: r.Method, Path: r.Path, Function: r.Function, Timeout: r.Timeout, Responses: r.Responses}
	}
	return out
}

// startLambda makes the functions ready to be started on demand.
func (h *host) startLambda(dir *statedir.Dir, run Running) (*lambda.Host, error) {
	var fs []lambda.Function
	for _, f := range run.Template.Functions {
		bootstrap := filepath.Join(f.CodeDir, "bootstrap")
		fs = append(fs, lambda.Function{
			Name: f.Name, ARN: f.ARN, Bootstrap: bootstrap, Handler: f.Handler, Timeout: f.Timeout, MemoryMB: f.MemoryMB,
			Environment: f.Environment, ReservedConcurrency: f.ReservedConcurrency,
			MaxRetryAttempts: f.MaxRetryAttempts, MaxEventAge: f.MaxEventAge,
		})
	}
	functionKeys := map[string]awsapi.Credential{}
	for _, f := range fs {
		c := awsapi.Credential{AccessKeyID: "PXFN" + rand.Text()[:16], Secret: rand.Text() + rand.Text(), Token: rand.Text(), Principal: f.Name}
		h.keys[c.AccessKeyID] = c
		functionKeys[f.Name] = c
	}
	return lambda.Open(lambda.Options{
		Functions: fs, Region: Region, Log: h.log, Queue: dir.Path("lambda.db"),
		Environment: func(f lambda.Function) map[string]string {
			c := functionKeys[f.Name]
			return map[string]string{
				"AWS_ACCESS_KEY_ID": c.AccessKeyID, "AWS_SECRET_ACCESS_KEY": c.Secret, "AWS_SESSION_TOKEN": c.Token,
				"AWS_ENDPOINT_URL": run.AWSEndpoint,
			}
		},
	})
}

func (h *host) schedules(ctx context.Context, t *template.Template, functions *lambda.Host) {
	opt := schedule.Options{Region: Region, AccountID: AccountID, Invoke: functions.InvokeEvent, Log: h.log}
	for _, s := range t.Schedules {
		opt.Rules = append(opt.Rules, schedule.Rule{ARN: s.ARN, Every: h.period(s.Every), Function: s.Function, Input: s.Input})
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); schedule.Run(ctx, opt) }()
	h.onClose(func() error { cancel(); <-done; return nil })
}

// period is how long a period of a schedule takes here.
func (h *host) period(every time.Duration) time.Duration {
	if h.cfg.Minute == 0 {
		return every
	}
	return time.Duration(float64(every) / float64(time.Minute) * float64(h.cfg.Minute))
}

// serve answers on l until the host closes, and stops the host if it cannot.
func (h *host) serve(l net.Listener, handler http.Handler) {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.fail(fmt.Errorf("%s: %w", l.Addr(), err))
		}
	}()
	h.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
		return nil
	})
}

const operatorPrincipal = "operator"

// allow decides by the policies of the template. The operator may do everything.
func (h *host) allow(principal, action, resource string, with awsapi.Context) bool {
	return principal == operatorPrincipal || awsapi.Permits(h.policies[principal], action, resource, with)
}

// readPolicies takes the IAM statements over: of functions by their name, of roles by
// their ARN.
func (h *host) readPolicies(t *template.Template) {
	h.policies = map[string][]awsapi.Statement{}
	for _, f := range t.Functions {
		h.policies[f.Name] = statements(f.Policy)
	}
	for _, r := range t.Roles {
		h.policies[r.ARN] = statements(r.Policy)
	}
}

func statements(in []template.Statement) []awsapi.Statement {
	out := make([]awsapi.Statement, len(in))
	for i, s := range in {
		out[i] = awsapi.Statement{Deny: s.Deny, Actions: s.Actions, Resources: s.Resources, Present: s.Present, Every: s.Every}
	}
	return out
}

func tableARN(name string) string {
	if strings.HasPrefix(name, "arn:") {
		return name
	}
	return "arn:aws:dynamodb:" + Region + ":" + AccountID + ":table/" + name
}

func functionARN(name string) string {
	if strings.HasPrefix(name, "arn:") {
		return name
	}
	return "arn:aws:lambda:" + Region + ":" + AccountID + ":function:" + name
}

// checkLoopback refuses addresses that other machines could reach.
func checkLoopback(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--addr %q: %w", addr, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("--addr %q: the port is no number from 0 to 65535", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--addr %q: px local listens on loopback addresses only (127.0.0.1, ::1, localhost)", addr)
	}
	return nil
}

// listen opens addr. With port 0 it takes the port of the last start if that
// is free: the issuer's URL is part of every principal, and must stay.
func listen(addr, before string) (net.Listener, error) {
	host, port, _ := net.SplitHostPort(addr)
	if port == "0" {
		if u, err := url.Parse(before); err == nil && u.Port() != "" {
			if l, err := net.Listen("tcp", net.JoinHostPort(host, u.Port())); err == nil {
				return l, nil
			}
		}
	}
	return net.Listen("tcp", addr)
}

// principalsOf says what a start at another URL than before does not see.
func principalsOf(before string) string {
	return "what principals of " + before + " made and may do is theirs alone, and is found again at that address"
}

// listenAWS opens the AWS endpoint: where it was, else the port after the main
// one if that was chosen, else any.
func listenAWS(main *net.TCPAddr, addr, before string) (net.Listener, error) {
	host := main.IP.String()
	var ports []string
	if u, err := url.Parse(before); err == nil && u.Port() != "" {
		ports = append(ports, u.Port())
	}
	if !strings.HasSuffix(addr, ":0") && main.Port < 65535 {
		ports = append(ports, strconv.Itoa(main.Port+1))
	}
	for _, p := range append(ports, "0") {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, p)); err == nil {
			return l, nil
		} else if p == "0" {
			return nil, fmt.Errorf("AWS endpoint: %w", err)
		}
	}
	panic("unreachable: the last port is 0")
}

// loopbackHost refuses requests whose Host is not a loopback name: a page in a
// browser could otherwise reach the host under its own name (DNS rebinding).
func loopbackHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if h, _, err := net.SplitHostPort(name); err == nil {
			name = h
		}
		if ip := net.ParseIP(strings.Trim(name, "[]")); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "px local answers only under loopback names", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// awsEnvironment is a file to source, so that an AWS SDK or the AWS CLI talks
// to this host.
func awsEnvironment(run Running) []byte {
	return []byte("export AWS_ENDPOINT_URL=" + run.AWSEndpoint +
		"\nexport AWS_ACCESS_KEY_ID=" + run.Operator.AccessKeyID +
		"\nexport AWS_SECRET_ACCESS_KEY=" + run.Operator.SecretAccessKey +
		"\nexport AWS_REGION=" + Region + " AWS_DEFAULT_REGION=" + Region + // the CLI's version 1 and Python's SDK read the latter alone
		"\nunset AWS_SESSION_TOKEN AWS_PROFILE\n")
}

// welcome prints where the host is and what to try.
func (h *host) welcome(run Running) {
	px := "px"
	if exe, err := os.Executable(); err == nil {
		px = exe
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, exe); err == nil && !strings.HasPrefix(rel, "..") {
				px = rel
			}
		}
	}
	if filepath.Clean(h.cfg.State) != ".local" {
		px += " --state " + h.cfg.State
	}
	h.out.Lock()
	defer h.out.Unlock()
	w := h.cfg.Out
	fmt.Fprintf(w, "\n  url          %s\n  awsEndpoint  %s   (source %s)\n", run.URL, run.AWSEndpoint, filepath.Join(h.cfg.State, "aws.env"))
	if h.cfg.ServicesOnly {
		fmt.Fprint(w, "\nReady: services only, no functions. Ctrl-C stops.\n\n")
		return
	}
	fmt.Fprintf(w, "  token        %s   (prints one that is good for an hour)\n  MCP clients  %s/mcp\n  console      %s/console   (plans to approve, Runs, Reports)\n               (signing in to either asks for the code %s)\n\nTry:\n\n", tokenCommand(px, "engineer"), run.URL, run.URL, run.Key.Code())
	fmt.Fprintf(w, "  %s\n", pxCommand(px, "run girder_check --project structural_team/bridge_package --watch --in span=60ft --in dead_load=1.2kip/ft --in impact=0.3 --in section_modulus=1500in^3 --in yield_stress=50ksi"))
	fmt.Fprintf(w, "  export PX_TOKEN=$(%s)\n", tokenCommand(px, "engineer"))
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"project_search","arguments":{"scope":{"kind":"principal"}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pxflow_search","arguments":{"scope":{"kind":"project","workspaceKey":"structural_team","projectKey":"bridge_package"},"query":"girder"}}}`,
	} {
		fmt.Fprintf(w, "  curl -sS %s/v1/mcp -H \"authorization: Bearer $PX_TOKEN\" -H 'content-type: application/x-ndjson' --data-binary '%s'\n", run.URL, line)
	}
	fmt.Fprint(w, "\nReady. Ctrl-C stops.\n\n")
}

func tokenCommand(px, as string) string { return pxCommand(px, "token", "--as "+as) }

// pxCommand puts the flags of px where a command takes them: behind its name.
func pxCommand(px, command string, more ...string) string {
	exe, flags, _ := strings.Cut(px, " ")
	if flags != "" {
		command += " " + flags
	}
	return strings.Join(append([]string{exe, command}, more...), " ")
}
