package states

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// flowRun is the real definition, with the names of the fake functions put in
// as the local host puts in the real ones.
func flowRun(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../statemachines/flow_run.asl.json")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("${RunPrepareArn}", "prepare", "${RunNodeArn}", "node", "${RunFinishArn}", "finish").Replace(string(text))
}

// covers: U1, U5
func TestFlowRun(t *testing.T) {
	const busy = "Lambda.TooManyRequestsException"
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name                  string
		prepare, node, finish any
		status                string
		calls                 string // functions in order; a stage's number follows node
		finishPayload         string
	}{
		{"all stages run in order, then the end", `{"stages":3}`, `{"state":"continue"}`, `{}`,
			statusSucceeded, "prepare node0 node1 node2 finish", `{"outcome":"completed"}`},
		{"no stage at all", `{"stages":0}`, `{}`, `{}`, statusSucceeded, "prepare finish", `{"outcome":"completed"}`},
		{"a stage that says stop is the last", `{"stages":3}`, []any{`{"state":"continue"}`, `{"state":"stop"}`}, `{}`,
			statusSucceeded, "prepare node0 node1 finish", `{"outcome":"completed"}`},
		{"throttling and px.Retryable are retried", []any{&ServiceError{Name: busy}, `{"stages":1}`}, []any{failed{"px.Retryable", ""}, `{"state":"continue"}`}, []any{&ServiceError{Name: "Lambda.ServiceException"}, `{}`},
			statusSucceeded, "prepare prepare node0 node0 finish finish", `{"outcome":"completed"}`},
		{"a process that died or took too long is called again", []any{failed{"Runtime.ExitError", ""}, `{"stages":1}`}, []any{failed{"Sandbox.Timedout", ""}, failed{"Lambda.Unknown", ""}, `{"state":"continue"}`}, []any{failed{"Runtime.ExitError", ""}, `{}`},
			statusSucceeded, "prepare prepare node0 node0 node0 finish finish", `{"outcome":"completed"}`},
		{"a process that dies each time is given up", `{"stages":1}`, failed{"Runtime.ExitError", "x"}, `{}`, statusSucceeded, "prepare node0 node0 node0 node0 finish", `"Error":"Runtime.ExitError"},"outcome":"failed"}`},
		{"an error of prepare finishes the run as failed", failed{"px.Fatal", "no"}, nil, `{}`,
			statusSucceeded, "prepare finish", `{"error":{"Cause":"{\"errorMessage\":\"no\",\"errorType\":\"px.Fatal\"}","Error":"px.Fatal"},"outcome":"failed"}`},
		{"an answer of prepare without stages is a failure", `{}`, nil, `{}`, statusSucceeded, "prepare finish", "States.QueryEvaluationError"},
		{"an error of a stage has its cause cut to 256 characters", `{"stages":2}`, failed{"Boom", long}, `{}`,
			statusSucceeded, "prepare node0 finish", `{"error":{"Cause":"{\"errorMessage\":\"` + long[:256-len(`{"errorMessage":"`)] + `","Error":"Boom"},"outcome":"failed"}`},
		{"a stage that answers nonsense is a failure", `{"stages":2}`, `{"state":"maybe"}`, `{}`, statusSucceeded, "prepare node0 finish", "neither continue nor stop"},
		{"an end that cannot be reached fails the execution", `{"stages":0}`, nil, failed{"px.Fatal", ""}, statusFailed, "prepare finish", `{"outcome":"completed"}`},
		{"retries of the end have an end", `{"stages":0}`, nil, failed{"px.Retryable", ""}, statusFailed, "prepare" + strings.Repeat(" finish", 13), `{"outcome":"completed"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var calls []string
				var last map[string]any
				list := func(a any) func(context.Context, []byte) ([]byte, string, error) {
					if many, ok := a.([]any); ok {
						return answers(many...)
					}
					return answers(a)
				}
				record := func(name string, a any) func(context.Context, []byte) ([]byte, string, error) {
					f := list(a)
					return func(ctx context.Context, payload []byte) ([]byte, string, error) {
						mu.Lock()
						defer mu.Unlock()
						var in map[string]any
						if err := json.Unmarshal(payload, &in); err != nil {
							t.Error(err)
						}
						if in["project"] != "ws/proj" || in["runRef"] != "run_1" {
							t.Errorf("%s got %s", name, payload)
						}
						if name == "prepare" && !strings.HasSuffix(in["executionArn"].(string), ":execution:m:e") {
							t.Errorf("prepare got %s", payload)
						}
						called := name
						if stage, ok := in["stage"]; ok {
							text, _ := json.Marshal(stage)
							called += string(text)
						}
						calls = append(calls, called)
						delete(in, "project")
						delete(in, "runRef")
						last = in
						return f(ctx, payload)
					}
				}
				h := newHost(t, functions{"prepare": record("prepare", c.prepare), "node": record("node", c.node), "finish": record("finish", c.finish)})
				out := h.run(flowRun(t), `{"project": "ws/proj", "runRef": "run_1"}`)
				if out["status"] != c.status {
					t.Errorf("the execution ends %v", out)
				}
				if got := strings.Join(calls, " "); got != c.calls {
					t.Errorf("calls are\n%s, want\n%s", got, c.calls)
				}
				payload, _ := json.Marshal(last)
				if !strings.Contains(string(payload), c.finishPayload) {
					t.Errorf("finish got %s, want %s", payload, c.finishPayload)
				}
			})
		})
	}
}
