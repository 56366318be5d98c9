package acceptance

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// brokenSite is the built folder without one function's binary, and a way to put
// it back.
func brokenSite(t *testing.T, function string) (dir string, mend func()) {
	t.Helper()
	dir = t.TempDir()
	link := func(name string) {
		t.Helper()
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".build", "functions"), 0o755); err != nil {
		t.Fatal(err)
	}
	link("template.yaml")
	link("statemachines")
	all, err := os.ReadDir(filepath.Join(built, ".build", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name() != function {
			link(filepath.Join(".build", "functions", f.Name()))
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".build", "functions", function), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, func() { link(filepath.Join(".build", "functions", function, "bootstrap")) }
}

// A conversation over standard input: a line in, a line out.
type stdio struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *host) stdio(t *testing.T, as string) *stdio {
	t.Helper()
	c := exec.Command(px(), "stdio", "--state", h.state)
	c.Env = append(os.Environ(), "PX_TOKEN="+h.token(t, as))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		late := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
		defer late.Stop()
		if err := c.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("px stdio: %v %s", err, errs.String())
		}
	})
	return &stdio{t, in, bufio.NewReaderSize(out, 1<<20)}
}

func (s *stdio) say(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	reply, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// covers: W1, W5, W8
func TestStdioGivesTheBytesThatHTTPGives(t *testing.T) {
	t.Parallel()
	site, mend := brokenSite(t, "component_describe")
	h := startAt(t, t.TempDir(), site)
	w := newWorld(t, h)
	pipes := map[string]*stdio{"engineer": h.stdio(t, "engineer"), "reviewer": h.stdio(t, "reviewer")}

	// same sends a line both ways and returns the reply.
	same := func(name, as, line string) string {
		t.Helper()
		for attempt := 0; ; attempt++ {
			over := post(t, h.URL, h.token(t, as), line).body
			got := pipes[as].say(line)
			if normalized(over) == normalized(got) {
				return over
			}
			// A plan tells its expiry by the second: two that fall into different
			// ones are made again.
			if attempt == 4 || !strings.Contains(over, `"expiresAt"`) {
				t.Errorf("%s:\n over HTTP %s\nover stdio %s", name, over, got)
				return over
			}
		}
	}
	ok := func(name, line string) message {
		t.Helper()
		got := read(t, same(name, "engineer", line))
		if got.Envelope == nil || !got.Envelope.OK {
			t.Errorf("%s: %+v", name, got)
		}
		return got
	}

	// A tool that cannot be started is a router's failure, the same both ways.
	missing := line(t, `a"b`, "component_describe", m{"target": m{"scope": m{"kind": "product"}, "componentKey": "px.formula"}})
	if got := read(t, same("a tool without a binary", "engineer", missing)); got.Code != -32603 || !strings.Contains(got.Data, `"retryable":`) || string(got.ID) != `"a\"b"` {
		t.Errorf("a tool without a binary: %+v", got)
	}
	mend()

	for _, b := range append(w.malformed(t), w.refusals(t)...) {
		as := b.as
		if as == "" {
			as = "engineer"
		}
		if strings.Contains(b.line, "\n") {
			t.Fatalf("%s is no line", b.name)
		}
		same(b.name, as, b.line)
	}

	same("the list of tools", "engineer", `{"jsonrpc":"2.0","id":1.50,"method":"tools/list"}`)
	ok("component_describe", missing)
	ok("project_search", line(t, 1, "project_search", m{"scope": m{"kind": "principal"}}))
	ok("pxflow_search", line(t, 1, "pxflow_search", m{"scope": sample, "limit": 1}))
	ok("pxflow_describe", line(t, 1, "pxflow_describe", m{"targets": list{w.flow.Target, w.counter.Target}}))
	ok("a describe in parts", line(t, 1, "pxflow_describe", m{"target": w.flow.Target, "budget": m{"items": 2}}))
	ok("component_search", line(t, 1, "component_search", m{"query": "수식"}))
	ok("pxflow_validate", line(t, 1, "pxflow_validate", m{"target": w.flow.Target}))
	ok("pxflow_plan_change", w.planning(t, `[{"kind":"SetFlowLabel","label":{"en":"Bridge \"A\" <b>","ko":"교량"}}]`))
	ok("report_search", line(t, 1, "report_search", m{"scope": sample, "limit": 1}))
	ok("report_describe", line(t, 1, "report_describe", m{"targets": list{w.report.Target}}))
	ok("report_plan_change", line(t, 1, "report_plan_change", m{"target": w.report.Target, "expectedGeneration": w.report.Generation, "commands": list{
		m{"kind": "AddBlock", "blockKey": "notes", "block": m{"kind": "text", "text": "One \"line\",\n\u2028another <b>"}}}}))
	// The second time, these are retries of the first: the first answers again.
	ok("pxflow_apply_change", line(t, 1, "pxflow_apply_change", w.open.application("both")))
	started := ok("pxflow_run", w.running(t, w.flow, `{"span":{"value":10,"unit":"m"},"load":{"value":4,"unit":"kN/m"}}`))
	runRef := opaque.FindString(started.Raw)
	h.as(t, "engineer").finished(t, runRef)
	ok("run_get", line(t, 1, "run_get", m{"runRef": runRef}))
	ok("result_read", line(t, 1, "result_read", m{"runRef": runRef, "resultKey": "moment"}))
	ok("run_cancel", line(t, 1, "run_cancel", m{"runRef": runRef, "commandId": "c"}))

	// A notification has no reply: the next line's is the next one out.
	if _, err := io.WriteString(pipes["engineer"].in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n\n"); err != nil {
		t.Fatal(err)
	}
	same("after a notification", "engineer", `{"jsonrpc":"2.0","id":"next","method":"ping"}`)

	// A line that is cut off by the end of input.
	code, out, errs := h.px(t, `{"jsonrpc":"2.0","id":1,"me`, "stdio")
	if want := post(t, h.URL, h.token(t, "engineer"), `{"jsonrpc":"2.0","id":1,"me`).body; code != 0 || out != want || errs != "" {
		t.Errorf("half a line: %d %s %s", code, out, errs)
	}
}
