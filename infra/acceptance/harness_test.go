package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// built is the folder into which everything was built: template.yaml, the state
// machines, and .build with px and the functions.
var built string

func TestMain(m *testing.M) {
	actAsWorker()
	flag.Parse()
	if testing.Short() {
		fmt.Println("acceptance: left out by -short")
		return
	}
	// What px local prints to paste must not reach the tests of whoever pasted it.
	for _, name := range []string{"PX_TOKEN", "PX_APPROVE_TOKEN", "PX_URL", "PX_STATE"} {
		os.Unsetenv(name)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := os.Getenv("PX_ACCEPTANCE_BUILD")
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "px-acceptance-"); err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
	}
	built = dir
	build := exec.Command("make", "-s", "build", "OUT="+filepath.Join(dir, ".build"))
	build.Dir = "../.."
	// The flags of this go test are not those of the build.
	build.Env = append(os.Environ(), "GOFLAGS=", "MAKEFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("make build: %v\n%s", err, out)
		return 1
	}
	for _, name := range []string{"template.yaml", "statemachines"} {
		if out, err := exec.Command("cp", "-R", "../../"+name, dir).CombinedOutput(); err != nil {
			fmt.Printf("cp %s: %v\n%s", name, err, out)
			return 1
		}
	}
	return m.Run()
}

// lookAtSources makes every file that is built an input of the tests, once. go test
// knows the files that a running test looks at, and the packages it imports; a
// change of any other would leave an old result in its cache to be taken for new.
var lookAtSources = sync.OnceValue(func() error {
	return filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), "."): // .git, .build, .local
			return filepath.SkipDir
		}
		_, err = os.Stat(path)
		return err
	})
})

func px() string { return filepath.Join(built, ".build", "px") }

// A host is one px local process.
type host struct {
	URL         string `json:"url"`
	AWSEndpoint string `json:"awsEndpoint"`
	state       string
	process     *exec.Cmd
	out         *output
	ended       chan struct{}

	mu     sync.Mutex
	tokens map[string]string
}

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts px local on a new state folder. It is stopped when the test ends,
// and what it printed is shown if the test failed.
func start(t *testing.T, flags ...string) *host { return startAt(t, t.TempDir(), built, flags...) }

// startAt starts px local on a state folder with the template of a folder.
func startAt(t *testing.T, dir, templates string, flags ...string) *host {
	t.Helper()
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
	h := &host{state: filepath.Join(dir, "state"), out: &output{}, ended: make(chan struct{}), tokens: map[string]string{}}
	ready := filepath.Join(dir, "ready.json")
	os.Remove(ready) // of an earlier start on this folder
	args := append([]string{"local", "--addr", "127.0.0.1:0", "--state", h.state, "--template", filepath.Join(templates, "template.yaml"), "--ready-file", ready}, flags...)
	h.process = exec.Command(px(), args...)
	h.process.Stdout, h.process.Stderr = h.out, h.out
	if err := h.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.process.Wait(); close(h.ended) }()
	t.Cleanup(func() {
		h.stop(t)
		if t.Failed() {
			text := h.out.String()
			t.Logf("px local %v printed (its last bytes):\n%s", flags, text[max(0, len(text)-8_000):])
		}
	})
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(ready); err == nil {
			if err := json.Unmarshal(text, h); err != nil {
				t.Fatal(err)
			}
			return h
		}
		select {
		case <-h.ended:
			t.Fatal("px local ended before it was ready")
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("px local is not ready after a minute")
		}
	}
}

// stop ends the process as Ctrl-C does.
func (h *host) stop(t *testing.T) {
	t.Helper()
	h.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		h.process.Process.Kill()
		<-h.ended
		t.Error("px local did not stop within 20 s")
	}
}

// px runs a px command on the host's state folder.
func (h *host) px(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, px(), append(args, "--state", h.state)...)
	var o, e bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

// operate runs a px command that must succeed.
func (h *host) operate(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := h.px(t, "", args...)
	if code != 0 {
		t.Fatalf("px %v: %d %s%s", args, code, out, errs)
	}
	return out
}

// token is what px token prints for a sample principal, once a test.
func (h *host) token(t *testing.T, as string) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tokens[as] == "" {
		h.tokens[as] = strings.TrimSpace(h.operate(t, "token", "--as", as))
	}
	return h.tokens[as]
}

// operator is the state folder's own key, and where the host listens.
func (h *host) operator(t *testing.T) (statedir.Host, statedir.Operator) {
	t.Helper()
	dir := statedir.At(h.state)
	where, err := dir.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	key, err := dir.ReadOperator()
	if err != nil {
		t.Fatal(err)
	}
	return where, key
}

// A reply is an answer over HTTP.
type reply struct {
	status int
	header http.Header
	body   string
}

// lines are the reply lines, with their ends.
func (r reply) lines() []string { return strings.SplitAfter(strings.TrimSuffix(r.body, "\n"), "\n") }

// post sends a body to the wire.
func post(t testing.TB, url, token, body string) reply {
	t.Helper()
	r, err := send(t.Context(), url, token, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var client = &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

func send(ctx context.Context, url, token, body string) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/mcp", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.GetBody = nil // never sent twice
	if token != "" {
		request.Header.Set("authorization", "Bearer "+token)
	}
	request.Header.Set("content-type", "application/x-ndjson")
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

// m and list are JSON as tests write it.
type (
	m    = map[string]any
	list = []any
)

func encode(t testing.TB, v any) string {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// line is a request line that calls a tool. arguments is JSON, or what is
// written as JSON.
func line(t testing.TB, id any, tool string, arguments any) string {
	t.Helper()
	text, ok := arguments.(string)
	if !ok {
		text = encode(t, arguments)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, encode(t, id), encode(t, tool), text)
}

type diagnostic struct {
	Code            string  `json:"code"`
	Path            string  `json:"path"`
	Severity        string  `json:"severity"`
	Retryable       *bool   `json:"retryable"`
	Params          m       `json:"params"`
	SuggestedAction string  `json:"suggestedAction"`
	DiagnosticID    *string `json:"diagnosticId"`
}

type envelope struct {
	OK          bool            `json:"ok"`
	Data        json.RawMessage `json:"data"`
	Diagnostics []diagnostic    `json:"diagnostics"`
	Resources   []m             `json:"resources"`
}

// told are the codes and paths of the envelope's diagnostics.
func (e envelope) told() []string {
	out := []string{}
	for _, d := range e.Diagnostics {
		out = append(out, d.Code+" "+d.Path)
	}
	return out
}

// A message is one reply line, read strictly: it has an envelope or an error.
type message struct {
	ID       json.RawMessage
	Envelope *envelope
	Raw      string // the envelope's own bytes
	Code     int    // of an error
	Message  string
	Data     string // of an error
}

// read reads a reply line and holds it to W4, E1 and E2.
func read(t testing.TB, text string) message {
	t.Helper()
	var in struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  *struct {
			Content    []any           `json:"content"`
			Structured json.RawMessage `json:"structuredContent"`
			IsError    *bool           `json:"isError"`
			Tools      json.RawMessage `json:"tools"`
		} `json:"result"`
		Error *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	strictly(t, text, &in)
	out := message{ID: in.ID}
	switch {
	case in.Version != "2.0" || (in.Result == nil) == (in.Error == nil):
		t.Fatalf("no JSON-RPC reply: %s", text)
	case in.Error != nil:
		out.Code, out.Message, out.Data = in.Error.Code, in.Error.Message, string(in.Error.Data)
		return out
	case in.Result.Tools != nil:
		out.Raw = string(in.Result.Tools)
		return out
	case in.Result.Content == nil || len(in.Result.Content) != 0 || in.Result.IsError == nil || *in.Result.IsError:
		t.Fatalf("no result of a tool: %s", text)
	}
	out.Raw, out.Envelope = string(in.Result.Structured), &envelope{}
	strictly(t, out.Raw, out.Envelope)
	e := out.Envelope
	if e.Diagnostics == nil || e.Resources == nil {
		t.Fatalf("an envelope without diagnostics or resources: %s", text)
	}
	refused := false
	for _, d := range e.Diagnostics {
		if d.Code == "" || d.Severity == "" || d.Retryable == nil || d.Params == nil || d.SuggestedAction == "" || d.DiagnosticID == nil || *d.DiagnosticID == "" {
			t.Fatalf("a diagnostic lacks a member: %s", text)
		}
		refused = refused || d.Severity == "error"
	}
	if !e.OK && (string(e.Data) != "null" || len(e.Resources) > 0 || !refused) || e.OK && !strings.HasPrefix(string(e.Data), "{") {
		t.Fatalf("no envelope of its kind: %s", text)
	}
	return out
}

func strictly(t testing.TB, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// A caller is a principal at an endpoint.
type caller struct {
	url, token string
}

func (h *host) as(t *testing.T, principal string) caller { return caller{h.URL, h.token(t, principal)} }

// call calls a tool and returns the whole reply line.
func (c caller) call(t testing.TB, tool string, arguments any) message {
	t.Helper()
	r := post(t, c.url, c.token, line(t, 1, tool, arguments))
	if r.status != http.StatusOK || len(r.lines()) != 1 {
		t.Fatalf("%s: %d %s", tool, r.status, r.body)
	}
	return read(t, r.body)
}

// ok calls a tool that must answer, and reads its data.
func (c caller) ok(t testing.TB, tool string, arguments, data any) envelope {
	t.Helper()
	got := c.call(t, tool, arguments)
	if got.Envelope == nil || !got.Envelope.OK {
		t.Fatalf("%s refuses or fails: %+v", tool, got)
	}
	if data != nil {
		if err := json.Unmarshal(got.Envelope.Data, data); err != nil {
			t.Fatal(err)
		}
	}
	return *got.Envelope
}

// refused calls a tool that must refuse with exactly these diagnostics.
func (c caller) refused(t testing.TB, tool string, arguments any, want ...string) envelope {
	t.Helper()
	got := c.call(t, tool, arguments)
	if got.Envelope == nil || got.Envelope.OK || !slices.Equal(got.Envelope.told(), want) {
		t.Errorf("%s: want %q, got %+v", tool, want, got)
		return envelope{}
	}
	return *got.Envelope
}

// The sample Project.
var sample = m{"kind": "project", "workspaceKey": "structural_team", "projectKey": "bridge_package"}

// A flowTarget is an exact target, as the tools answer it.
type flowTarget struct {
	Scope       m      `json:"scope"`
	FlowKey     string `json:"flowKey"`
	RevisionRef string `json:"revisionRef"`
}

type flowHead struct {
	Target     flowTarget `json:"target"`
	Generation int64      `json:"generation"`
}

// head finds a Flow of a Project by its key.
func (c caller) head(t testing.TB, scope m, key string) flowHead {
	t.Helper()
	var found struct{ Items []flowHead }
	c.ok(t, "pxflow_search", m{"scope": scope, "query": key, "limit": 100}, &found)
	for _, f := range found.Items {
		if f.Target.FlowKey == key {
			return f
		}
	}
	t.Fatalf("there is no Flow %s", key)
	return flowHead{}
}

type plan struct {
	PlanRef            string `json:"planRef"`
	PlanDigest         string `json:"planDigest"`
	ExpiresAt          string `json:"expiresAt"`
	Target             any    `json:"target"`
	ExpectedGeneration int64  `json:"expectedGeneration"`
}

func (c caller) plan(t testing.TB, f flowHead, commands ...any) plan {
	t.Helper()
	var p plan
	c.ok(t, "pxflow_plan_change", m{"target": f.Target, "expectedGeneration": f.Generation, "commands": commands}, &p)
	return p
}

// application are the arguments that apply a plan.
func (p plan) application(commandID string) m {
	return m{"target": p.Target, "expectedGeneration": p.ExpectedGeneration, "planRef": p.PlanRef, "planDigest": p.PlanDigest, "commandId": commandID}
}

type applied struct {
	NewRevisionRef string `json:"newRevisionRef"`
	NewGeneration  int64  `json:"newGeneration"`
}

// change plans and applies commands, and returns the Flow as it then is.
func (c caller) change(t testing.TB, f flowHead, commandID string, commands ...any) flowHead {
	t.Helper()
	var a applied
	c.ok(t, "pxflow_apply_change", c.plan(t, f, commands...).application(commandID), &a)
	f.Target.RevisionRef, f.Generation = a.NewRevisionRef, a.NewGeneration
	return f
}

// create saves a new Flow from its document.
func (c caller) create(t testing.TB, scope m, document m) flowHead {
	t.Helper()
	f := flowHead{Target: flowTarget{scope, document["flowKey"].(string), digest(t, document)}}
	return c.change(t, f, "create-"+f.Target.FlowKey, m{"kind": "CreateFlow", "document": document})
}

type runReport struct {
	RunRef      string       `json:"runRef"`
	State       string       `json:"state"`
	Diagnostics []diagnostic `json:"diagnostics"`
	Results     []struct {
		ResultKey string `json:"resultKey"`
	} `json:"results"`
	Progress struct{ Completed, Total int } `json:"progress"`
}

// finished waits until a Run is terminal.
func (c caller) finished(t testing.TB, runRef string) runReport {
	t.Helper()
	var r runReport
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		c.ok(t, "run_get", m{"runRef": runRef}, &r)
		if r.State == "Succeeded" || r.State == "Failed" || r.State == "Cancelled" {
			return r
		}
	}
	t.Fatalf("the Run is %s after a minute", r.State)
	return r
}

// opaque are the parts of an answer that are new each time: diagnosticIds,
// references and cursors.
var opaque = regexp.MustCompile(`"diagnosticId":"[^"]*"|\b(plan|run)_[0-9A-HJKMNP-TV-Z]{26}\b|"nextCursor":"[^"]*"|"continuation":\{"member":"cursor","value":"[^"]*"\}`)

// normalized replaces what is opaque by its kind.
func normalized(text string) string {
	return opaque.ReplaceAllStringFunc(text, func(s string) string {
		kind, _, _ := strings.Cut(strings.TrimPrefix(s, `"`), `"`)
		if strings.HasPrefix(s, "plan_") || strings.HasPrefix(s, "run_") {
			kind = s[:strings.IndexByte(s, '_')]
		}
		return `<` + kind + `>`
	})
}

func with(base m, more m) m {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

// number is a typed value.
func number(value float64, unit string) m { return m{"value": value, "unit": unit} }
