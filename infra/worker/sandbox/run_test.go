package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

// actors is a driver whose sandboxes say what a test has written down, one text a
// sandbox, whatever they are asked. Behind the texts they are silent.
type actors struct {
	mu    sync.Mutex
	texts []string
	use   sandbox.Use
	all   []*actor
}

func (*actors) Name() string   { return "rootless" }
func (*actors) GVisor() string { return "none" }

func (d *actors) Start(context.Context) (sandbox.Process, error) {
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	asked, stdin := io.Pipe()
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &actor{in: stdin, out: out, end: stdout, use: d.use, request: make(chan request, 1)}
	text := ""
	if n := len(d.all); n < len(d.texts) {
		text = d.texts[n]
	}
	d.all = append(d.all, a)
	go func() {
		io.WriteString(stdout, `{"ready":1,"python":"3.11.7","system":"4.4.0-gvisor"}`+"\n")
		var q request
		line, err := bufio.NewReader(asked).ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &q) != nil {
			return
		}
		a.request <- q
		io.Copy(io.Discard, asked)
		io.WriteString(stdout, text)
	}()
	return a, nil
}

// A request is the line that a sandbox reads.
type request struct {
	From             int
	WallMilliseconds int64
	OutputBytes      int64
}

type actor struct {
	in       *io.PipeWriter
	out, end *os.File
	use      sandbox.Use
	request  chan request
	once     sync.Once
	killed   bool
}

func (a *actor) Stdin() io.WriteCloser { return a.in }
func (a *actor) Stdout() *os.File      { return a.out }
func (*actor) Stderr() string          { return "" }
func (a *actor) Use() sandbox.Use      { return a.use }

func (*actor) Confined() error { return nil }

func (a *actor) Kill() error {
	a.once.Do(func() {
		a.killed = true
		a.in.Close()
		a.end.Close()
	})
	return nil
}

// did is what became of a job of two calls: "values" or a reason, one each.
func (d *actors) did(t *testing.T, limits job.Limits, pool *sandbox.Pool) string {
	t.Helper()
	nothing := sandboxtest.Function{Source: "def f():\n    return {'y': 1}\n", Results: sandboxtest.Y}
	spec, text := sandboxtest.Spec(t, limits, nothing, nothing)
	result, err := sandbox.Run(t.Context(), pool, spec, text)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for n, e := range result.Results {
		if e.NodeKey != spec.Calls[n].NodeKey {
			t.Errorf("call %d is told of %s", n, e.NodeKey)
		}
		if e.Error != nil {
			out = append(out, string(e.Error.Reason))
		} else {
			out = append(out, string(e.Values["y"]))
		}
	}
	return strings.Join(out, " ")
}

const (
	alone  = `{"call":0,"values":{"y":1}}` + "\n"
	next   = `{"next":1}` + "\n"
	first  = alone + next
	second = `{"call":1,"values":{"y":2}}` + "\n"
	done   = `{"done":2}` + "\n"
)

// What comes out of a sandbox is nothing to be believed: a line that is out of turn ends
// it, its call has failed, and the next one goes on in another sandbox.
//
// covers: X5
func TestWhatASandboxSaysIsHeldToTheProtocol(t *testing.T) {
	limits := sandboxtest.Limits
	limits.WallMilliseconds = 400
	for name, c := range map[string]struct {
		texts []string
		use   sandbox.Use
		want  string
		froms []int
	}{
		"every call in its order":                      {[]string{first + second + done}, sandbox.Use{}, "1 2", []int{0}},
		"an answer of a call that is not its turn":     {[]string{second, second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"one answer twice":                             {[]string{first + first, second + done}, sandbox.Use{}, "1 killed", []int{0}},
		"an answer of a call that there is not":        {[]string{first + `{"call":2,"values":{"y":3}}` + "\n"}, sandbox.Use{}, "1 killed", []int{0}},
		"one answer more":                              {[]string{first + second + `{"call":2,"values":{"y":3}}` + "\n"}, sandbox.Use{}, "1 2", []int{0}},
		"values and an error":                          {[]string{`{"call":0,"values":{"y":1},"error":{"reason":"timeout"}}` + "\n", second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"neither":                                      {[]string{`{"call":0}` + "\n", second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"an error":                                     {[]string{`{"call":0,"error":{"reason":"timeout"}}` + "\n" + next + second + done}, sandbox.Use{}, "timeout 2", []int{0}},
		"an error of its own":                          {[]string{`{"call":0,"error":{"reason":"the_value_is_42"}}` + "\n", second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"the end before its calls":                     {[]string{first + done, second + done}, sandbox.Use{}, "1 killed", []int{0}},
		"what is no JSON":                              {[]string{"y = 1\n", second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"more than a line may have":                    {[]string{strings.Repeat("x", 7<<20) + "\n", second + done}, sandbox.Use{}, "output_too_large 2", []int{0, 1}},
		"that it cannot go on, after a call":           {[]string{alone + `{"spoilt":true}` + "\n", second + done}, sandbox.Use{}, "1 2", []int{0, 1}},
		"what is no JSON, between two calls":           {[]string{alone + "y = 1\n", second + done}, sandbox.Use{}, "1 2", []int{0, 1}},
		"one answer twice, between two calls":          {[]string{alone + alone, second + done}, sandbox.Use{}, "1 2", []int{0, 1}},
		"an answer of a call that has not begun":       {[]string{alone + `{"call":1,"values":{"y":9}}` + "\n", second + done}, sandbox.Use{}, "1 2", []int{0, 1}},
		"that a call begins that is not its turn":      {[]string{alone + `{"next":2}` + "\n", second + done}, sandbox.Use{}, "1 2", []int{0, 1}},
		"that a call begins twice":                     {[]string{first + next, second + done}, sandbox.Use{}, "1 killed", []int{0}},
		"that it cannot go on, and answers nothing":    {[]string{`{"spoilt":true}` + "\n", second + done}, sandbox.Use{}, "killed 2", []int{0, 1}},
		"nothing, until the time of the job is over":   {nil, sandbox.Use{}, "timeout timeout", []int{0}},
		"nothing, with more memory than the job has":   {nil, sandbox.Use{MemoryBytes: 1 << 40}, "memory memory", []int{0, 1}},
		"nothing, with more processes than any can be": {nil, sandbox.Use{Processes: 1 << 20}, "processes processes", []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &actors{texts: c.texts, use: c.use}
			pool := sandbox.NewPool(d, 1)
			if got := d.did(t, limits, pool); got != c.want {
				t.Errorf("its calls ended as %s, want %s", got, c.want)
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			for n, a := range d.all {
				if !a.killed {
					t.Errorf("sandbox %d is left", n)
				}
				if n >= len(c.froms) {
					continue
				}
				q := <-a.request
				if q.From != c.froms[n] {
					t.Errorf("sandbox %d was asked from call %d", n, q.From)
				}
				// The limits are the job's, and not those of each of its sandboxes.
				if q.WallMilliseconds > limits.WallMilliseconds || n > 0 && q.WallMilliseconds >= limits.WallMilliseconds ||
					q.OutputBytes > limits.OutputBytes || name == "that it cannot go on, after a call" && n > 0 && q.OutputBytes >= limits.OutputBytes {
					t.Errorf("sandbox %d was given %+v", n, q)
				}
			}
		})
	}
}

// Whoever waits for the end of a job waits until nothing of it is left.
//
// covers: X5
func TestAJobThatIsStoppedLeavesNoSandbox(t *testing.T) {
	d := &actors{}
	pool := sandbox.NewPool(d, 1)
	cancelled := errors.New("cancelled")
	ctx, stop := context.WithCancelCause(t.Context())
	spec, text := sandboxtest.Spec(t, sandboxtest.Limits, sandboxtest.Function{Source: "def f():\n    return {}\n"})
	time.AfterFunc(50*time.Millisecond, func() { stop(cancelled) })
	if _, err := sandbox.Run(ctx, pool, spec, text); !errors.Is(err, cancelled) {
		t.Errorf("it ended with %v", err)
	}
	d.mu.Lock()
	if !d.all[0].killed {
		t.Error("the sandbox is left")
	}
	d.mu.Unlock()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
