package console

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/tool"
)

// given tells of every Run the same origin.
type given struct{ origin run.Origin }

func (g given) Origin(context.Context, string, string) (run.Origin, outcome.Findings, error) {
	return g.origin, nil, nil
}

func (given) Result(context.Context, string, string, string) (run.Result, outcome.Findings, error) {
	return run.Result{}, outcome.Findings{outcome.New(outcome.TargetNotFound, "/runRef", nil)}, nil
}

// tools answers calls of tools, and remembers them.
type tools struct {
	b     *bench
	data  map[string]any // by tool
	calls []tool.Request
}

func (f *tools) call(_ context.Context, r tool.Request) ([]byte, error) {
	f.calls = append(f.calls, r)
	answer := f.data[r.Tool]
	if by, ok := answer.(func(tool.Request) any); ok {
		answer = by(r)
	}
	if d, refused := answer.(outcome.Diagnostic); refused {
		return stdjson.Marshal(m{"ok": false, "data": nil, "diagnostics": []any{d}, "resources": []any{}})
	}
	return stdjson.Marshal(m{"ok": true, "data": answer, "diagnostics": []any{}, "resources": []any{}})
}

// watching is a bench whose tools answer.
func watching(t *testing.T) (*bench, *tools) {
	b := newBench(t)
	f := &tools{b: b, data: map[string]any{}}
	b.h.Call, b.h.Runs = f.call, given{run.Origin{Principal: b.issuer + "|engineer", CreatedAt: b.now, Project: bridge, Stages: 3, StartedAt: b.now,
		Inputs: map[string]canon.Raw{"span": canon.Raw(`{"unit":"ft","value":60}`)}}}
	f.data["pxflow_describe"] = m{"label": m{"en": "Girder check", "ko": "거더 검토"}, "nodes": m{"a": m{"stage": 0, "target": m{"kind": "component", "componentKey": "px.formula", "version": 1}},
		"b": m{"stage": 1, "target": m{"kind": "function", "functionKey": "resistance", "version": 3}}, "c": m{"stage": 2}},
		"results": m{"r0": m{"binding": m{"kind": "nodeResult", "nodeKey": "b", "portKey": "y"}}}}
	return b, f
}

func told(state string, completed, stage int, results ...any) m {
	return m{"runRef": "run_1", "state": state, "progress": m{"completed": completed, "total": 3, "stage": stage}, "diagnostics": []any{}, "results": results,
		"target": m{"scope": m{"kind": "project", "workspaceKey": "team", "projectKey": "bridge"}, "flowKey": "girder_check", "revisionRef": "sha256:r"},
		"ranBy":  []string{"python=3.11.2 gvisor=release-1 driver=rootless stages=1"}}
}

// The page of a Run is fetched again exactly while it goes on, tells each stage as it
// stands, and can be cancelled exactly while somebody may still ask for that.
//
// covers: U2
func TestARunIsFollowedWhileItGoesOn(t *testing.T) {
	b, f := watching(t)
	cookies := []string{b.signedIn("reviewer")}
	for _, c := range []struct {
		state      string
		completed  int
		stage      int
		polled     bool
		cancelable bool
		stages     []string
	}{
		{"Queued", 0, 0, true, true, []string{"waiting", "waiting", "waiting"}},
		{"Running", 1, 1, true, true, []string{"done", "running", "waiting"}},
		{"Cancelling", 1, 1, true, false, []string{"done", "running", "waiting"}},
		{"Cancelled", 1, 1, false, false, []string{"done", "not done", "not done"}},
		{"Failed", 1, 2, false, false, []string{"done", "failed", "not done"}},
		{"Succeeded", 3, 3, false, false, []string{"done", "done", "done"}},
	} {
		f.data["run_get"] = told(c.state, c.completed, c.stage)
		for _, path := range []string{"/console/runs/run_1", "/console/runs/run_1/live"} {
			got := b.send("GET", path, cookies)
			if got.status != 200 || strings.Contains(got.body, `data-poll="/console/runs/run_1/live?command=console-`) != c.polled || strings.Contains(got.body, `id="cancel"`) != c.cancelable {
				t.Errorf("%s at %s: %d %.1500s", c.state, path, got.status, got.body)
			}
			var stages []string
			for _, found := range regexp.MustCompile(`<tr><th scope="row">\d+</th><td><span class="[a-z ]*">([a-z ]*)</span>`).FindAllStringSubmatch(got.body, -1) {
				stages = append(stages, found[1])
			}
			if fmt.Sprint(stages) != fmt.Sprint(c.stages) {
				t.Errorf("%s: stages are %v, not %v", c.state, stages, c.stages)
			}
		}
	}
	// Without a script a browser loads the page again, while there is something to wait for.
	f.data["run_get"] = told("Running", 1, 1)
	if got := b.send("GET", "/console/runs/run_1", cookies); !strings.Contains(got.body, `<noscript><meta http-equiv="refresh"`) {
		t.Error("a Run that goes on is not loaded again without script")
	}
	f.data["run_get"] = told("Succeeded", 3, 3)
	if got := b.send("GET", "/console/runs/run_1", cookies); strings.Contains(got.body, `http-equiv="refresh"`) {
		t.Error("a Run that has ended is loaded again")
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// A cancellation is one command, however often its form is sent; without the page's own
// token nothing is asked of any tool; and who lacks the right is told so.
//
// covers: U2
func TestACancellationIsOneCommand(t *testing.T) {
	b, f := watching(t)
	cookies := []string{b.signedIn("reviewer")}
	f.data["run_get"], f.data["run_cancel"] = told("Running", 1, 1), m{"runRef": "run_1", "state": "Cancelling"}
	body := b.send("GET", "/console/runs/run_1", cookies).body
	poll := strings.ReplaceAll(regexp.MustCompile(`data-poll="([^"]*)"`).FindStringSubmatch(body)[1], "&amp;", "&")
	fields := func(body string) url.Values {
		form := url.Values{}
		part := body[strings.Index(body, `action="/console/runs/run_1/cancel"`):]
		for _, found := range hidden.FindAllStringSubmatch(part[:strings.Index(part, "</form>")], -1) {
			form.Set(found[1], found[2])
		}
		return form
	}
	form := fields(body)
	if again := fields(b.send("GET", poll, cookies).body); again.Encode() != form.Encode() {
		t.Errorf("the form becomes another while the page is looked at: %v, %v", form, again)
	}
	post := func(form url.Values) reply {
		return b.send("POST", "/console/runs/run_1/cancel", cookies, func(e m) {
			e["headers"].(m)["content-type"], e["headers"].(m)["origin"] = "application/x-www-form-urlencoded", "https://api.example"
			e["body"] = form.Encode()
		})
	}
	f.calls = nil
	for _, without := range []string{"form_token", "command"} {
		less := url.Values{}
		for name, values := range form {
			if name != without {
				less[name] = values
			}
		}
		if got := post(less); got.status < 400 || len(f.calls) != 0 {
			t.Errorf("without %s: %d and %d calls", without, got.status, len(f.calls))
		}
	}
	for range 2 {
		if got := post(form); got.status != 303 || got.headers["location"] != "/console/runs/run_1?asked=cancel" {
			t.Errorf("%+v", got)
		}
	}
	if len(f.calls) != 2 || f.calls[0].Tool != "run_cancel" || string(f.calls[0].Arguments) != string(f.calls[1].Arguments) || !strings.Contains(string(f.calls[0].Arguments), form.Get("command")) ||
		f.calls[0].Principal.Subject != "reviewer" {
		t.Errorf("%+v", f.calls)
	}
	f.data["run_cancel"] = outcome.New(outcome.PermissionDenied, "/runRef", outcome.Params{"right": "run"})
	if got := post(form); got.status != 403 || !strings.Contains(got.body, "PX_PERMISSION_DENIED") {
		t.Errorf("without the right: %d %.500s", got.status, got.body)
	}
	f.data["run_get"] = told("Succeeded", 3, 3)
	if got := b.send("GET", "/console/runs/run_1?asked=cancel", cookies); !strings.Contains(got.body, "It had ended before it could be cancelled, as Succeeded: that stays.") {
		t.Error("a Run that had ended does not say so")
	}
}

// Results are read up to a number, and the others are linked; each says what made it.
//
// covers: U3
func TestResultsBeyondAPageAreLinked(t *testing.T) {
	b, f := watching(t)
	cookies := []string{b.signedIn("reviewer")}
	var results []any
	for i := range readResults + 6 {
		results = append(results, m{"resultKey": fmt.Sprint("r", i), "type": "number", "unit": "kN", "shape": "scalar", "bytes": 24})
	}
	f.data["run_get"] = told("Succeeded", 3, 3, results...)
	f.data["result_read"] = func(r tool.Request) any {
		var in struct{ ResultKey string }
		b.must(stdjson.Unmarshal(r.Arguments, &in))
		return m{"resultKey": in.ResultKey, "type": "number", "unit": "kN", "shape": "scalar", "value": m{"value": 1.25, "unit": "kN"}}
	}
	f.calls = nil
	got := b.send("GET", "/console/runs/run_1", cookies)
	read := 0
	for _, c := range f.calls {
		if c.Tool == "result_read" {
			read++
		}
	}
	if read != readResults || strings.Count(got.body, "this page shows no more values") != 6 {
		t.Errorf("%d results are read, %d linked", read, strings.Count(got.body, "this page shows no more values"))
	}
	for i := range readResults + 6 {
		if !strings.Contains(got.body, fmt.Sprintf(`href="/console/runs/run_1/results/r%d"`, i)) {
			t.Errorf("result %d is not there", i)
		}
	}
	if !strings.Contains(got.body, "Node b: Function resistance, version 3, in python=3.11.2 gvisor=release-1 driver=rootless") {
		t.Error("a result does not say what made it")
	}
	f.data["run_get"] = told("Running", 1, 1)
	if got := b.send("GET", "/console/runs/run_1/results/r0", cookies); got.status != 404 || !strings.Contains(got.body, "It has not ended") {
		t.Errorf("a result of a Run that goes on: %d", got.status)
	}
}

// The largest Flow and the largest page of a Batch are pages that a browser shows.
func TestLargePagesStaySmall(t *testing.T) {
	b, f := watching(t)
	cookies := []string{b.signedIn("reviewer")}
	nodes := m{}
	for i := range 500 {
		from := m{"kind": "flowInput", "portKey": "x"}
		if i > 0 {
			from = m{"kind": "nodeResult", "nodeKey": fmt.Sprintf("n%03d", (i-1)/2), "portKey": "y"}
		}
		nodes[fmt.Sprintf("n%03d", i)] = m{"stage": i / 50, "target": m{"kind": "component", "componentKey": "px.formula", "version": 1}, "inputs": m{"x": m{"binding": from, "state": "connected"}}, "results": m{"y": m{"type": "number", "unit": "kN"}}}
	}
	f.data["pxflow_describe"] = m{"label": m{"en": "Large"}, "inputs": m{"x": m{"type": "number", "unit": "kN"}}, "nodes": nodes, "results": m{}}
	got := b.send("GET", "/console/p/team/bridge/flows/large?revision=sha256:r", cookies)
	if got.status != 200 || len(got.body) > 2<<20 || !strings.Contains(got.body, "some boxes stand for many") || !strings.Contains(got.body, `id="node-n499"`) {
		t.Errorf("a Flow of 500 Nodes: %d, %d bytes", got.status, len(got.body))
	}
	var cases []any
	for i := range run.PageCases {
		cases = append(cases, m{"caseKey": fmt.Sprint("case_", i), "runRef": fmt.Sprint("run_", i), "state": "Succeeded"})
	}
	batch := told("Running", 0, 0)
	delete(batch, "runRef")
	batch["batchRef"], batch["cases"], batch["nextCursor"], batch["progress"] = "batch_1", cases, "sealed", m{"completed": 400, "total": 10000}
	f.data["run_get"] = batch
	got = b.send("GET", "/console/batches/batch_1", cookies)
	if got.status != 200 || len(got.body) > 300<<10 || !strings.Contains(got.body, `href="/console/batches/batch_1?cursor=sealed"`) || !strings.Contains(got.body, "400 of 10000 cases done") {
		t.Errorf("a Batch of 10,000 cases: %d, %d bytes", got.status, len(got.body))
	}
}
