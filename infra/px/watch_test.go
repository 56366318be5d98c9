package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/wire"
)

// A script is a host with one Run, which goes on when a test says so.
type script struct {
	mu       sync.Mutex
	run      string // the data of run_get
	results  map[string]string
	requests []string // NAME ARGUMENTS, of what is no run_get
	lose     int      // so many starts and applies are done, and their answers are lost
	done     map[string]string
	refuse   string // the diagnostic of what starts or applies
}

func (s *script) set(run string) { s.mu.Lock(); defer s.mu.Unlock(); s.run = run }

func (s *script) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func (s *script) call(_ context.Context, request tool.Request) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in struct {
		ResultKey string `json:"resultKey"`
		CommandID string `json:"commandId"`
		Query     string `json:"query"`
		Scope     any    `json:"scope"`
		Cursor    string `json:"cursor"`
	}
	if err := json.Unmarshal(request.Arguments, &in); err != nil {
		return nil, err
	}
	ok := func(data string) ([]byte, error) {
		return []byte(`{"ok":true,"data":` + data + `,"diagnostics":[],"resources":[]}`), nil
	}
	if request.Tool != "run_get" {
		s.requests = append(s.requests, request.Tool+" "+string(request.Arguments))
	}
	const scope = `"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"}`
	switch request.Tool {
	case "run_get":
		return ok(s.run)
	case "result_read":
		return ok(s.results[in.ResultKey])
	case "run_cancel":
		s.run = strings.Replace(s.run, "Running", "Cancelled", 1)
		return ok(`{"state":"Cancelling"}`)
	case "pxflow_search":
		switch {
		case in.Query == "twice" && in.Cursor == "":
			return ok(`{"items":[{"target":{` + scope + `,"flowKey":"twice","revisionRef":"sha256:1"},"generation":1}],"nextCursor":"c"}`)
		case in.Query == "twice":
			return ok(`{"items":[{"target":{` + scope + `,"flowKey":"twice","revisionRef":"sha256:2"},"generation":2}]}`)
		}
		return ok(`{"items":[{"target":{` + scope + `,"flowKey":"beam_two","revisionRef":"sha256:b"},"generation":4},{"target":{` + scope + `,"flowKey":"beam","revisionRef":"sha256:a"},"generation":3}]}`)
	case "report_search", "function_search":
		return ok(`{"items":[]}`)
	case "pxflow_describe":
		return ok(`{"generation":3,"current":false,"head":{"revisionRef":"sha256:new"},"inputs":{"span":{"type":"number","unit":"ft"},"factor":{"type":"number","unit":"1"},"count":{"type":"integer"},"steel":{"type":"enum"},"wet":{"type":"boolean"},"loads":{"type":"list"}}}`)
	case "pxflow_plan_change":
		return []byte(`{"ok":true,"data":{"planRef":"plan_1","planDigest":"sha256:d","expiresAt":"2026-11-30T18:00:00Z","target":{"flowKey":"beam",` + scope + `,"revisionRef":"sha256:a"},"expectedGeneration":3,"commands":[{"kind":"SetFlowLabel"}],` +
			`"diff":[{"op":"replace","path":"/label","before":"a","after":"b"},{"op":"replace","path":"/source","unified":"@@ -1 +1 @@\n-x\u001b[2J\n+y\n"}],"impact":{"cost":10},"approval":{"required":false,"reasons":[]}},` +
			`"diagnostics":[{"code":"PX_UNIT_CONVERTED","path":"/nodes/n","severity":"info","retryable":false,"params":{"from":"ft","to":"m"},"suggestedAction":"NONE","diagnosticId":"I"}],"resources":[]}`), nil
	case "pxflow_apply_change", "pxflow_run":
		if s.refuse != "" {
			return []byte(`{"ok":false,"data":null,"diagnostics":[` + s.refuse + `],"resources":[]}`), nil
		}
		if s.done == nil {
			s.done = map[string]string{}
		}
		if s.done[in.CommandID] == "" {
			s.done[in.CommandID] = fmt.Sprintf(`{"runRef":"run_%d","state":"Queued"}`, len(s.done)+1)
		}
		if s.lose > 0 {
			s.lose--
			return nil, &wire.Failure{Reason: wire.ReasonCrashed, Retryable: true, Outcome: wire.Unknown}
		}
		return ok(s.done[in.CommandID])
	}
	return nil, fmt.Errorf("no %s here", request.Tool)
}

func (s *script) open(t *testing.T) *door {
	t.Helper()
	return openDoorOf(t, string(catalog.JSON), s.call)
}

const (
	runningAt0 = `{"runRef":"run_1","state":"Running","progress":{"completed":0,"total":4,"stage":0},"diagnostics":[],"results":[]}`
	runningAt2 = `{"runRef":"run_1","state":"Running","progress":{"completed":2,"total":4,"stage":1},"diagnostics":[],"results":[]}`
	succeeded  = `{"runRef":"run_1","state":"Succeeded","progress":{"completed":4,"total":4,"stage":2},"diagnostics":[],"startedAt":"2026-11-30T18:00:00Z","endedAt":"2026-11-30T18:00:01.5Z","results":[` +
		`{"resultKey":"m","type":"number","unit":"kN*m","bytes":20},{"resultKey":"거더","type":"string","bytes":20},{"resultKey":"big","type":"table","bytes":999999},{"resultKey":"t","type":"table","bytes":99}]}`
	failed = `{"runRef":"run_1","state":"Failed","progress":{"completed":2,"total":4},"results":[],"diagnostics":[{"code":"PX_RUN_FAILED","path":"/nodes/n","severity":"error","retryable":false,"params":{"nodeKey":"n"},"suggestedAction":"READ_RUN_DIAGNOSTICS","diagnosticId":"I"}]}`
)

var results = map[string]string{"m": `{"value":{"unit":"kN*m","value":1093.5}}`, "거더": `{"value":{"value":"안전"}}`,
	"t": `{"value":{"value":{"columns":[{"columnKey":"x","unit":"m"}],"rows":[[1],[2]]}}}`}

// In a pipe a Run is followed by a line for each change, and its results come as a table
// with units; a value that is too large is named with the command that reads it.
//
// covers: W10
func TestWatchInAPipe(t *testing.T) {
	s := &script{run: succeeded, results: results}
	d := s.open(t)
	code, out, errs := d.px(t, nil, "watch", "run_1")
	want := "run_1  Succeeded  in 1.5 s\n\nresult  value                                                                     unit  type\n"
	if code != 0 || errs != "Succeeded  4 of 4 Nodes\n" || !strings.Contains(out, "run_1  Succeeded  in 1.5 s\n") {
		t.Errorf("%d %q\n%s\nwant\n%s", code, errs, out, want)
	}
	for _, want := range []string{"1093.5", "kN*m", "안전", `999999 bytes: px call result_read '{"resultKey":"big","runRef":"run_1"}'`, "x [m]\n", "\n        1\n", "\n        2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code, out, _ := d.px(t, nil, "watch", "run_1", "--json"); code != 0 || out != `{"ok":true,"data":`+succeeded+`,"diagnostics":[],"resources":[]}`+"\n" {
		t.Errorf("%d %s", code, out)
	}
	s.set(failed)
	code, out, _ = d.px(t, nil, "watch", "run_1")
	if code != exitFailed || !strings.Contains(out, "run_1  Failed\n") || !strings.Contains(out, "error PX_RUN_FAILED at /nodes/n\n") || !strings.Contains(out, "  next  ") {
		t.Errorf("%d %s", code, out)
	}
	s.set(`{"batchRef":"batch_1","state":"Cancelled","progress":{"completed":1,"total":300},"failed":1,"diagnostics":[],"results":[],"cases":[{"caseKey":"a","runRef":"run_2","state":"Failed"},{"caseKey":"b","state":"Cancelled"}],"nextCursor":"c"}`)
	code, out, errs = d.px(t, nil, "watch", "batch_1")
	if code != exitFailed || errs != "Cancelled  1 of 300 cases, 1 failed\n" || !strings.Contains(out, "  caseKey  runRef  state\n  a        run_2   Failed\n  b                Cancelled\n") || !strings.Contains(out, `px call run_get '{"batchRef":"batch_1"}' --all`) {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`{"code":"PX_RUN_FAILED","path":"/cases/%d","severity":"error"}`, i))
	}
	s.set(`{"batchRef":"batch_1","state":"Failed","progress":{"completed":30,"total":30},"failed":30,"diagnostics":[` + strings.Join(many, ",") + `],"results":[]}`)
	if _, out, _ := d.px(t, nil, "watch", "batch_1"); strings.Count(out, "error PX_RUN_FAILED at ") != maxFound || !strings.Contains(out, "This is not all") {
		t.Errorf("of 30 findings is shown\n%s", out)
	}
	s.set(succeeded)
	if _, out, _ := d.px(t, nil, "watch", "run_1"); strings.Contains(out, "This is not all") {
		t.Errorf("all is shown, and said to be less\n%s", out)
	}
	if code, _, _ := d.px(t, nil, "watch", "plan_1"); code != exitUsage {
		t.Errorf("a plan is watched: %d", code)
	}
}

// On a terminal there is one line that is written over, and one for each stage.
func TestWatchOnATerminal(t *testing.T) {
	s := &script{run: runningAt0, results: results}
	d := s.open(t)
	c := openTerminal(t, d.process("watch", "run_1"), 100)
	c.sees("Running  stage 1  0 of 4 Nodes")
	s.set(runningAt2)
	c.sees("Running  stage 2  2 of 4 Nodes")
	s.set(succeeded)
	code, out := c.ends()
	if code != 0 || !strings.Contains(out, "\r[") || !strings.Contains(out, "\x1b[32m############\x1b[0m------------]  Running  stage 2") || !strings.Contains(out, "1093.5") {
		t.Errorf("%d %q", code, out)
	}
	for line := range strings.Lines(regexp.MustCompile("\x1b\\[[0-9]*[mK]").ReplaceAllString(out, "")) {
		for part := range strings.SplitSeq(line, "\r") {
			if strings.HasPrefix(part, "[") && len(part) > 100 {
				t.Errorf("a line of the bar is broken: %q", part)
			}
		}
	}
}

// Ctrl-C asks. Nothing is cancelled unless a person says so.
func TestWatchIsLeftOrCancelled(t *testing.T) {
	const left = "px watch run_1 goes on from here"
	for _, c := range []struct {
		name   string
		act    func(*terminal)
		code   int
		told   string
		cancel bool
	}{
		{"the answer is to cancel", func(c *terminal) { c.types("\x03"); c.sees("[c/L]"); c.types("c\n") }, exitFailed, "Cancelled", true},
		{"the answer is nothing", func(c *terminal) { c.types("\x03"); c.sees("[c/L]"); c.types("\n") }, exitUnknown, left, false},
		{"Ctrl-C again", func(c *terminal) { c.types("\x03"); c.sees("[c/L]"); c.types("\x03") }, exitUnknown, left, false},
		{"asked to end by the system", func(c *terminal) { c.cmd.Process.Signal(syscall.SIGTERM) }, exitUnknown, left, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{run: runningAt2, results: results}
			d := s.open(t)
			term := openTerminal(t, d.process("watch", "run_1"), 100)
			term.sees("2 of 4 Nodes")
			c.act(term)
			code, out := term.ends()
			cancelled := strings.Contains(strings.Join(s.sent(), "\n"), "run_cancel")
			if code != c.code || !strings.Contains(out, c.told) || cancelled != c.cancel {
				t.Errorf("%d %q %v", code, out, s.sent())
			}
		})
	}
	// In a script nobody can be asked.
	s := &script{run: runningAt2}
	d := s.open(t)
	cmd := d.process("watch", "run_1")
	var errs output
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first line", func() bool { return strings.Contains(errs.String(), "2 of 4 Nodes") })
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitUnknown || !strings.Contains(errs.String(), left) || len(s.sent()) != 0 {
		t.Errorf("%d %s %v", cmd.ProcessState.ExitCode(), &errs, s.sent())
	}
}

// A Run is addressed exactly: by a target that is given, or by the one that has the key,
// which is told; and what was lost on the way is sent again as the very same request.
//
// covers: W10
func TestRun(t *testing.T) {
	s := &script{run: succeeded, results: results}
	d := s.open(t)
	const target = `{"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"},"flowKey":"beam","revisionRef":"sha256:a"}`
	code, out, errs := d.px(t, nil, "run", "beam", "--project", "w/p", "--in", "span=60 ft", "--in", "factor=.30", "--in", "count=+3", "--in", "steel=S355", "--in", "wet=true", "--in", `loads=[1,2]`, "--command-id", "mine")
	want := `pxflow_run {"commandId":"mine","inputs":{"count":{"value":3},"factor":{"unit":"1","value":0.3},"loads":{"value":[1,2]},"span":{"unit":"ft","value":60},"steel":{"value":"S355"},"wet":{"value":true}},"kind":"RunFlow","target":` + target + `}`
	if sent := s.sent(); code != 0 || sent[len(sent)-1] != want || !strings.Contains(errs, "px run: flow/beam is "+target+"\n") || !strings.Contains(errs, "px watch run_1 follows") || !strings.Contains(out, `"runRef": "run_1"`) {
		t.Errorf("%d %s%s\n got %s\nwant %s", code, out, errs, sent[len(sent)-1], want)
	}
	before := len(s.sent())
	for name, c := range map[string]struct {
		args []string
		code int
		told string
	}{
		"a key of two":               {[]string{"twice", "--project", "w/p"}, exitFailed, "2 targets in w/p have the key twice; name one of them exactly:\n  {"},
		"a key of none":              {[]string{"bea", "--project", "w/p"}, exitFailed, "nothing in w/p that this principal may read has the key bea"},
		"a key without a Project":    {[]string{"beam"}, exitUsage, "--project WORKSPACE/PROJECT"},
		"no key":                     {[]string{"Beam", "--project", "w/p"}, exitUsage, "a key is"},
		"half a Project":             {[]string{"beam", "--project", "w"}, exitUsage, "--project is WORKSPACE/PROJECT"},
		"a Report for a Flow":        {[]string{`{"reportKey":"r"}`}, exitUsage, "the target is of a report; here it is of a flow"},
		"a quantity without a unit":  {[]string{target, "--in", "span=60"}, exitUsage, "span has no unit: say which, as --in span=60ft"},
		"a word for a number":        {[]string{target, "--in", "span=long"}, exitUsage, "span is a number and its unit"},
		"a list in words":            {[]string{target, "--in", "loads=1"}, exitUsage, "loads is a list: give it as JSON"},
		"an input twice":             {[]string{target, "--in", "wet=true", "--in", "wet=false"}, exitUsage, "wet is given twice"},
		"an input in broken JSON":    {[]string{target, "--in", `loads=[1,`}, exitUsage, "line 1, column 4"},
		"inputs for a connection":    {[]string{`{"reportKey":"r"}`, "--connection", "c", "--in", "a=1"}, exitUsage, "takes no inputs"},
		"a commandId of nothing":     {[]string{"--retry", "other"}, exitUsage, "no request is kept under that commandId"},
		"a plan that was never seen": {[]string{"plan_7"}, exitUsage, "was not planned with the state folder"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := d.px(t, nil, append([]string{"run"}, c.args...)...)
			if code != c.code || out != "" || !strings.Contains(errs, c.told) {
				t.Errorf("%d %s%s", code, out, errs)
			}
		})
	}
	for _, request := range s.sent()[before:] {
		if strings.HasPrefix(request, "pxflow_run") {
			t.Errorf("something was started: %s", request)
		}
	}

	s.lose = 1
	code, _, errs = d.px(t, nil, "run", "flow/beam@sha256:z", "--project", "w/p", "--inputs", `{"span":{"value":1,"unit":"m"}}`)
	id := regexp.MustCompile(`px run --retry (px-\S+) sends`).FindStringSubmatch(errs)
	if code != exitUnknown || id == nil || !strings.Contains(errs, "it may have been done") {
		t.Fatalf("%d %s", code, errs)
	}
	code, out, errs = d.px(t, nil, "run", "--retry", id[1], "--watch")
	sent := s.sent()
	var runs []string
	for _, r := range sent {
		if strings.HasPrefix(r, "pxflow_run") {
			runs = append(runs, r)
		}
	}
	if n := len(runs); code != 0 || runs[n-1] != runs[n-2] || !strings.Contains(runs[n-1], id[1]) || !strings.Contains(runs[n-1], `"revisionRef":"sha256:z"`) || len(s.done) != 2 || !strings.Contains(out, "1093.5") {
		t.Errorf("%d %s%s\n%s", code, out, errs, strings.Join(runs, "\n"))
	}

	s.refuse = `{"code":"PX_APPROVAL_REQUIRED","path":"/approvalRef","severity":"error","retryable":false,"params":{"runRef":"run_9"},"suggestedAction":"REQUEST_APPROVAL","diagnosticId":"I"}`
	code, _, errs = d.px(t, nil, "run", target, "--inputs", "{}", "--readable")
	if id = regexp.MustCompile(`px run --retry (px-\S+) sends the very same request again, with --approval APPROVALREF`).FindStringSubmatch(errs); code != exitFailed || id == nil {
		t.Fatalf("%d %s", code, errs)
	}
	s.refuse = ""
	d.px(t, nil, "run", "--retry", id[1], "--approval", "approval_1")
	if sent := s.sent(); !strings.Contains(sent[len(sent)-1], `"approvalRef":"approval_1"`) || !strings.Contains(sent[len(sent)-1], id[1]) {
		t.Errorf("sent %s", sent[len(sent)-1])
	}
}

// A plan is applied as it was shown, after a person said yes, once.
//
// covers: W10
func TestPlanAndApply(t *testing.T) {
	s := &script{}
	d := s.open(t)
	const target = `{"scope":{"kind":"project","workspaceKey":"w","projectKey":"p"},"flowKey":"beam","revisionRef":"sha256:a"}`
	if code, _, errs := d.px(t, nil, "apply", "plan_1"); code != exitUsage || !strings.Contains(errs, "give its --digest, --target and --generation") {
		t.Errorf("what was not planned here: %d %s", code, errs)
	}
	// An exact target that is no longer the head is not planned from without a word.
	if code, _, errs := d.px(t, nil, "plan", target, `{"kind":"SetFlowLabel"}`); code != exitFailed || !strings.Contains(errs, `{"revisionRef":"sha256:new"}`) {
		t.Errorf("%d %s", code, errs)
	}
	code, out, errs := d.px(t, nil, "plan", "beam", `{"kind":"SetFlowLabel"}`, "--project", "w/p", "--readable", "--color=always")
	if sent := s.sent(); code != 0 || sent[len(sent)-1] != `pxflow_plan_change {"commands":[{"kind":"SetFlowLabel"}],"expectedGeneration":3,"target":`+target+`}` {
		t.Errorf("%d %s\nsent %s", code, errs, sent[len(sent)-1])
	}
	for _, want := range []string{"Digest      sha256:d\n", "\x1b[31m- \"a\"\x1b[0m", "\x1b[32m+ \"b\"\x1b[0m", "\x1b[31m-x\\u{1b}[2J\x1b[0m", "cost: 10", "info PX_UNIT_CONVERTED", "from\x1b[0m  ft", "px apply plan_1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%q", want, out)
		}
	}
	if _, out, _ := d.px(t, nil, "plan", "beam", `[{"kind":"SetFlowLabel"}]`, "--project", "w/p"); !strings.HasPrefix(out, "{\n  \"ok\": true,\n") {
		t.Errorf("in a pipe a plan is %s", out)
	}
	applied := func() (n int, last string) {
		for _, r := range s.sent() {
			if strings.HasPrefix(r, "pxflow_apply_change ") {
				n, last = n+1, r
			}
		}
		return n, last
	}
	for name, c := range map[string]struct {
		args []string
		told string
	}{
		"nobody can be asked":  {nil, "give --yes --digest sha256:d"},
		"yes without a digest": {[]string{"--yes"}, "--yes needs --digest"},
		"another digest":       {[]string{"--yes", "--digest", "sha256:e"}, "--digest is not that of the plan that was shown, which is sha256:d"},
		"another generation":   {[]string{"--yes", "--digest", "sha256:d", "--generation", "4"}, "--generation is not that"},
		"another target":       {[]string{"--yes", "--digest", "sha256:d", "--target", `{"flowKey":"other"}`}, "--target is not that"},
		"what is started":      {[]string{"--target", "7"}, "the target is no JSON object"},
	} {
		if code, _, errs := d.px(t, nil, append([]string{"apply", "plan_1"}, c.args...)...); code != exitUsage || !strings.Contains(errs, c.told) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
	no := openTerminal(t, d.process("apply", "plan_1"), 100)
	no.sees("Apply it? [y/N] ")
	no.types("\n")
	if code, out := no.ends(); code != exitFailed || !strings.Contains(out, "Digest      sha256:d") || !strings.Contains(out, "nothing was done") {
		t.Errorf("%d %s", code, out)
	}
	if n, _ := applied(); n != 0 {
		t.Fatalf("%d applied before anyone said yes", n)
	}
	s.lose = 1
	yes := openTerminal(t, d.process("apply", "plan_1"), 100)
	yes.sees("Apply it? [y/N] ")
	yes.types("y\n")
	if code, out := yes.ends(); code != exitUnknown || !strings.Contains(out, "commandId   px-") {
		t.Errorf("%d %s", code, out)
	}
	_, first := applied()
	if code, _, errs := d.px(t, nil, "apply", "plan_1", "--yes", "--digest", "sha256:d"); code != 0 {
		t.Errorf("%d %s", code, errs)
	}
	n, last := applied()
	if n != 2 || first != last || len(s.done) != 1 || !regexp.MustCompile(`^pxflow_apply_change \{"commandId":"px-[A-Z0-9]{26}","expectedGeneration":3,"planDigest":"sha256:d","planRef":"plan_1","target":\{"flowKey":"beam",`).MatchString(last) {
		t.Errorf("%d times, done %d\n%s\n%s", n, len(s.done), first, last)
	}
	// With the host of another state folder the same reference is another plan.
	other := (&script{}).open(t)
	if code, _, errs := d.px(t, nil, "apply", "plan_1", "--yes", "--digest", "sha256:d", "--url", other.url); code != exitUsage || !strings.Contains(errs, "the plan was made at ") {
		t.Errorf("%d %s", code, errs)
	}
}
