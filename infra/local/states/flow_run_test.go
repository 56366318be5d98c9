package states

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
		{"all stages run in order, then the end", `{"stages":3,"kinds":["builtin","builtin","builtin"]}`, `{"state":"continue"}`, `{}`,
			statusSucceeded, "prepare node0 node1 node2 finish", `{"outcome":"completed"}`},
		{"no stage at all", `{"stages":0,"kinds":[]}`, `{}`, `{}`, statusSucceeded, "prepare finish", `{"outcome":"completed"}`},
		{"a stage that says stop is the last", `{"stages":3,"kinds":["builtin","builtin","builtin"]}`, []any{`{"state":"continue"}`, `{"state":"stop"}`}, `{}`,
			statusSucceeded, "prepare node0 node1 finish", `{"outcome":"completed"}`},
		{"throttling and px.Retryable are retried", []any{&ServiceError{Name: busy}, `{"stages":1,"kinds":["builtin"]}`}, []any{failed{"px.Retryable", ""}, `{"state":"continue"}`}, []any{&ServiceError{Name: "Lambda.ServiceException"}, `{}`},
			statusSucceeded, "prepare prepare node0 node0 finish finish", `{"outcome":"completed"}`},
		{"a process that died or took too long is called again", []any{failed{"Runtime.ExitError", ""}, `{"stages":1,"kinds":["builtin"]}`}, []any{failed{"Sandbox.Timedout", ""}, failed{"Lambda.Unknown", ""}, `{"state":"continue"}`}, []any{failed{"Runtime.ExitError", ""}, `{}`},
			statusSucceeded, "prepare prepare node0 node0 node0 finish finish", `{"outcome":"completed"}`},
		{"a process that dies each time is given up", `{"stages":1,"kinds":["builtin"]}`, failed{"Runtime.ExitError", "x"}, `{}`, statusSucceeded, "prepare node0 node0 node0 node0 finish", `"Error":"Runtime.ExitError"},"outcome":"failed"}`},
		{"an error of prepare finishes the run as failed", failed{"px.Fatal", "no"}, nil, `{}`,
			statusSucceeded, "prepare finish", `{"error":{"Cause":"{\"errorMessage\":\"no\",\"errorType\":\"px.Fatal\"}","Error":"px.Fatal"},"outcome":"failed"}`},
		{"an answer of prepare without stages is a failure", `{}`, nil, `{}`, statusSucceeded, "prepare finish", "States.QueryEvaluationError"},
		{"an answer of prepare without kinds is a failure", `{"stages":1}`, nil, `{}`, statusSucceeded, "prepare finish", "not one kind for each stage"},
		{"an error of a stage has its cause cut to 256 characters", `{"stages":2,"kinds":["builtin","builtin"]}`, failed{"Boom", long}, `{}`,
			statusSucceeded, "prepare node0 finish", `{"error":{"Cause":"{\"errorMessage\":\"` + long[:256-len(`{"errorMessage":"`)] + `","Error":"Boom"},"outcome":"failed"}`},
		{"a stage that answers nonsense is a failure", `{"stages":2,"kinds":["builtin","builtin"]}`, `{"state":"maybe"}`, `{}`, statusSucceeded, "prepare node0 finish", "neither continue nor stop"},
		{"an end that cannot be reached fails the execution", `{"stages":0,"kinds":[]}`, nil, failed{"px.Fatal", ""}, statusFailed, "prepare finish", `{"outcome":"completed"}`},
		{"retries of the end have an end", `{"stages":0,"kinds":[]}`, nil, failed{"px.Retryable", ""}, statusFailed, "prepare" + strings.Repeat(" finish", 13), `{"outcome":"completed"}`},
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
						if in["taskToken"] != nil {
							t.Errorf("a job of a built-in stage: %s", payload)
						}
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

// A stage of Functions is handed over with a token, waits for its answer whenever it
// comes, and is collected then.
//
// covers: U1, U5
func TestFlowRunWaitsForTheJobsOfSandboxStages(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		name, kinds string
		// job is what is done with the token of the n-th handing over.
		job           func(h host, n int, token string) (out []byte, functionError string, err error)
		calls, finish string
	}{
		{"each kind goes its way", `["builtin","sandbox","builtin","sandbox"]`, func(h host, _ int, token string) ([]byte, string, error) {
			go func() {
				time.Sleep(time.Hour)
				h.do("SendTaskSuccess", object{"taskToken": token, "output": `{}`})
			}()
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare node0 job1 node1 node2 job3 node3 finish", `"outcome":"completed"`},
		{"a token may be answered before the function has answered", `["sandbox"]`, func(h host, _ int, token string) ([]byte, string, error) {
			h.do("SendTaskSuccess", object{"taskToken": token, "output": `{}`})
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare job0 node0 finish", `"outcome":"completed"`},
		{"a cancelled job goes to the end and not to the next stage", `["sandbox","builtin"]`, func(h host, _ int, token string) ([]byte, string, error) {
			h.do("SendTaskFailure", object{"taskToken": token, "error": "px.Cancelled", "cause": ""})
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare job0 finish", `"outcome":"failed","error":{"Error":"px.Cancelled"`},
		{"a handing over that fails is tried again, with another token", `["sandbox"]`, func(h host, n int, token string) ([]byte, string, error) {
			if n == 0 {
				return []byte(`{"errorMessage":"","errorType":"px.Retryable"}`), "Unhandled", nil
			}
			h.do("SendTaskSuccess", object{"taskToken": token, "output": `{}`})
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare job0 job0 node0 finish", `"outcome":"completed"`},
		{"a process that dies handing over is called again", `["sandbox"]`, func(h host, n int, token string) ([]byte, string, error) {
			if n == 0 {
				return []byte(`{"errorMessage":"","errorType":"Runtime.ExitError"}`), "Unhandled", nil
			}
			h.do("SendTaskSuccess", object{"taskToken": token, "output": `{}`})
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare job0 job0 node0 finish", `"outcome":"completed"`},
		{"a token that nobody answers is given up, once", `["sandbox"]`, func(host, int, string) ([]byte, string, error) {
			return []byte(`{"state":"waiting"}`), "", nil
		}, "prepare job0 finish", `"outcome":"failed","error":{"Error":"States.Timeout"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var calls, used []string
				var last string
				var h host
				record := func(name, answer string) func(context.Context, []byte) ([]byte, string, error) {
					return func(_ context.Context, payload []byte) ([]byte, string, error) {
						var in struct {
							Stage     *int
							TaskToken string
						}
						if err := json.Unmarshal(payload, &in); err != nil {
							t.Error(err)
						}
						mu.Lock()
						n := len(used)
						if in.TaskToken != "" {
							name = "job"
							used = append(used, in.TaskToken)
						} else if in.Stage != nil {
							name = "node"
						}
						called := name
						if in.Stage != nil {
							called += strconv.Itoa(*in.Stage)
						}
						calls, last = append(calls, called), string(payload)
						mu.Unlock()
						if in.TaskToken != "" {
							return c.job(h, n, in.TaskToken)
						}
						return []byte(answer), "", nil
					}
				}
				h = newHost(t, functions{"prepare": record("prepare", `{"stages":`+strconv.Itoa(strings.Count(c.kinds, ",")+1)+`,"kinds":`+c.kinds+`}`),
					"node": record("node", `{"state":"continue"}`), "finish": record("finish", `{}`)})
				if out := h.run(flowRun(t), `{"project": "ws/proj", "runRef": "run_1"}`); out["status"] != statusSucceeded {
					t.Errorf("the execution ends %v", out)
				}
				if got := strings.Join(calls, " "); got != c.calls {
					t.Errorf("calls are\n%s, want\n%s", got, c.calls)
				}
				if !strings.Contains(last, c.finish) {
					t.Errorf("finish got %s, want %s", last, c.finish)
				}
				slices.Sort(used)
				if len(slices.Compact(slices.Clone(used))) != len(used) {
					t.Error("a token was given twice")
				}
			})
		})
	}
}
