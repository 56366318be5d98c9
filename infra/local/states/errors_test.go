package states

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhichErrorsAreMatched(t *testing.T) {
	e := func(name string) *stateError { return &stateError{Name: name} }
	heartbeat := &stateError{Name: errTimeout, heartbeat: true}
	for _, c := range []struct {
		name  string
		error *stateError
		list  string
		want  bool
	}{
		{"its own name", e("X"), "X", true},
		{"one of several", e("X"), "Y X", true},
		{"another name", e("X"), "Y", false},
		{"a prefix is no match", e("X.Y"), "X", false},
		{"States.ALL matches a custom error", e("X"), "States.ALL", true},
		{"States.ALL matches a timeout", e(errTimeout), "States.ALL", true},
		{"States.ALL matches an evaluation error", e(errQuery), "States.ALL", true},
		{"States.ALL leaves the data limit", e(errDataLimit), "States.ALL", false},
		{"the data limit by name", e(errDataLimit), "States.DataLimitExceeded", true},
		{"States.ALL leaves States.Runtime", e(errRuntime), "States.ALL", false},
		{"not even its name matches States.Runtime", e(errRuntime), "States.Runtime", false},
		{"States.TaskFailed matches a custom error", e("X"), "States.TaskFailed", true},
		{"States.TaskFailed leaves timeouts", e(errTimeout), "States.TaskFailed", false},
		{"States.TaskFailed leaves missing heartbeats", heartbeat, "States.TaskFailed", false},
		{"States.TaskFailed leaves the data limit", e(errDataLimit), "States.TaskFailed", false},
		{"a missing heartbeat is a timeout", heartbeat, "States.Timeout", true},
		{"a missing heartbeat by its name", heartbeat, "States.HeartbeatTimeout", true},
		{"another timeout is no missing heartbeat", e(errTimeout), "States.HeartbeatTimeout", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.error.matches(strings.Fields(c.list)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

const callToken = `"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Arguments":{"FunctionName":"f","Payload":{"token":"{% $states.context.Task.Token %}"}}`

// tokens is a function that puts the token it gets into a channel.
func tokens() (func(context.Context, []byte) ([]byte, string, error), chan string) {
	c := make(chan string, 100)
	return func(_ context.Context, payload []byte) ([]byte, string, error) {
		var in struct{ Token string }
		if err := json.Unmarshal(payload, &in); err != nil {
			return nil, "", err
		}
		c <- in.Token
		return []byte(`{}`), "", nil
	}, c
}

func hang(ctx context.Context, _ []byte) ([]byte, string, error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

const catchAll = `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`

var big = strings.Repeat("x", maxPayload)

var timesAndErrors = []struct {
	name, definition string
	f                func(context.Context, []byte) ([]byte, string, error)
	want             string
	took             time.Duration
}{
	{"a wait takes its seconds", machine("A", `"A":{"Type":"Wait","Seconds":"{% 60 * 60 %}","Output":"{% 1 %}","End":true}`), nil, `1`, time.Hour},
	{"a wait until a time", machine("A", `"A":{"Type":"Wait","Timestamp":"{% $fromMillis($toMillis($states.context.State.EnteredTime) + 90000) %}","Output":"{% 1 %}","End":true}`), nil, `1`, 90 * time.Second},
	{"a wait for nonsense", machine("A", `"A":{"Type":"Wait","Seconds":"{% 'x' %}","End":true}`), nil, `FAILED States.QueryEvaluationError`, 0},
	{"a wait of less than nothing", machine("A", `"A":{"Type":"Wait","Seconds":"{% -1 %}","End":true}`), nil, `FAILED States.QueryEvaluationError`, 0},
	{"a wait for no timestamp", machine("A", `"A":{"Type":"Wait","Timestamp":"{% 'tomorrow' %}","End":true}`), nil, `FAILED States.QueryEvaluationError`, 0},
	{"a task that takes too long", machine("A", `"A":{`+callF+`,"TimeoutSeconds":30,"End":true}`), hang, `FAILED States.Timeout`, 30 * time.Second},
	{"a timeout is caught", machine("A", `"A":{`+callF+`,"TimeoutSeconds":"{% 30 %}"`+catchAll), hang, `{"Error":"States.Timeout","Cause":""}`, 30 * time.Second},
	{"a timeout is no failed task", machine("A", `"A":{`+callF+`,"TimeoutSeconds":30,"Retry":[{"ErrorEquals":["States.TaskFailed"]}],"End":true}`), hang, `FAILED States.Timeout`, 30 * time.Second},
	{"each attempt has its own timeout", machine("A", `"A":{`+callF+`,"TimeoutSeconds":30,"Retry":[{"ErrorEquals":["States.Timeout"],"MaxAttempts":2,"IntervalSeconds":10,"BackoffRate":3}],"End":true}`), hang, `FAILED States.Timeout`, (30 + 10 + 30 + 30 + 30) * time.Second},
	{"a missing heartbeat", machine("A", `"A":{`+callToken+`,"HeartbeatSeconds":5,"TimeoutSeconds":600,"Catch":[{"ErrorEquals":["States.HeartbeatTimeout"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(`{}`), `{"Error":"States.Timeout","Cause":""}`, 5 * time.Second},
	{"a whole execution that takes too long", `{"QueryLanguage":"JSONata","TimeoutSeconds":77,"StartAt":"A","States":{"A":{"Type":"Wait","Seconds":1000,"End":true}}}`, nil, `TIMED_OUT States.Timeout`, 77 * time.Second},
	{"no retry of a zero", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"],"MaxAttempts":0}],"End":true}`), answers(failed{"E", ""}), `FAILED E`, 0},
	{"retries double by default", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"]}],"Output":"{% 1 %}","End":true}`), answers(failed{"E", ""}, failed{"E", ""}, failed{"E", ""}, `1`), `1`, (1 + 2 + 4) * time.Second},
	{"retriers count for themselves", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"],"MaxAttempts":1,"IntervalSeconds":10},{"ErrorEquals":["F"],"MaxAttempts":1,"IntervalSeconds":100}],"Output":"{% $states.context.State.RetryCount %}","End":true}`), answers(failed{"E", ""}, failed{"F", ""}, `1`), `2`, 110 * time.Second},
	{"the first retrier that matches decides alone", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"],"MaxAttempts":0},{"ErrorEquals":["States.ALL"],"MaxAttempts":3}],"End":true}`), answers(failed{"E", ""}), `FAILED E`, 0},
	{"an exhausted retry goes on to the catchers", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"],"MaxAttempts":1}],"Catch":[{"ErrorEquals":["E"],"Output":"{% 'caught ' & $states.errorOutput.Error %}","Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(failed{"E", ""}), `"caught E"`, time.Second},
	{"an error on the way", machine("A", `"A":{`+callF+`,"Catch":[{"ErrorEquals":["Lambda.SdkClientException"],"Output":"{% 1 %}","Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(fmt.Errorf("reset")), `1`, 0},
	{"a function's failure without a type", machine("A", `"A":{`+callF+`,"End":true}`), func(context.Context, []byte) ([]byte, string, error) { return []byte(`oops`), "Unhandled", nil }, `FAILED Lambda.Unknown oops`, 0},
	{"an answer that is not JSON", machine("A", `"A":{`+callF+`,"End":true}`), answers(`{"a":}`), `FAILED Lambda.Unknown`, 0},
	{"an answer with a name twice", machine("A", `"A":{`+callF+`,"End":true}`), answers(`{"a":1,"a":2}`), `FAILED Lambda.Unknown`, 0},
	{"an answer beyond a double", machine("A", `"A":{`+callF+`,"End":true}`), answers(`1e400`), `FAILED Lambda.Unknown`, 0},
	{"an empty answer is null", machine("A", `"A":{`+callF+`,"Output":"{% $states.result.Payload %}","End":true}`), answers(``), `null`, 0},
	{"too large an answer is not caught by States.ALL", machine("A", `"A":{`+callF+catchAll), answers(`"` + big + `"`), `FAILED States.DataLimitExceeded The state/task 'lambda' returned a result with a size exceeding the maximum number of bytes service limit.`, 0},
	{"too large an answer is caught by name", machine("A", `"A":{`+callF+`,"Catch":[{"ErrorEquals":["States.DataLimitExceeded"],"Output":"{% 1 %}","Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(`"` + big + `"`), `1`, 0},
	{"too large an output", machine("A", `"A":{"Type":"Pass","Output":"{% $join($map([1..3000], function($x){'`+strings.Repeat("y", 100)+`'})) %}","End":true}`), nil, `FAILED States.DataLimitExceeded`, 0},
	{"too large a variable", machine("A", `"A":{"Type":"Pass","Assign":{"v":"{% $join($map([1..3000], function($x){'`+strings.Repeat("y", 100)+`'})) %}"},"End":true}`), nil, `FAILED States.DataLimitExceeded`, 0},
	{"an argument the integration does not have", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":"{% {'FunctionName':'f','LogType':'Tail'} %}"`+catchAll), answers(`1`), `FAILED States.Runtime`, 0},
	{"arguments that are no object", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":"{% 1 %}","End":true}`), answers(`1`), `FAILED States.Runtime`, 0},
	{"an output that cannot be made is the state's error", machine("A", `"A":{`+callF+`,"Output":"{% $states.result.nope %}","Catch":[{"ErrorEquals":["States.QueryEvaluationError"],"Output":"{% 'caught' %}","Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(`1`), `"caught"`, 0},
	{"an error inside a catcher is not caught", machine("A", `"A":{`+callF+`,"Catch":[{"ErrorEquals":["E"],"Output":"{% $nope %}","Next":"Z"},{"ErrorEquals":["States.ALL"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`), answers(failed{"E", ""}), `FAILED States.QueryEvaluationError`, 0},
	{"an endless loop ends with the history", machine("A", `"A":{"Type":"Pass","Next":"B"},"B":{"Type":"Choice","Choices":[{"Condition":"{% false %}","Next":"Z"}],"Default":"A"},"Z":{"Type":"Succeed"}`), nil, `FAILED States.Runtime The execution reached the maximum number of history events (25000).`, 0},
	{"a map over what is no array", machine("M", `"M":{"Type":"Map","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Pass","End":true}}},"End":true}`), nil, `FAILED States.QueryEvaluationError`, 0},
	{"a failing iteration fails the map, which may be retried", machine("M", `"M":{"Type":"Map","Items":[1,2,3],"ItemProcessor":{"StartAt":"I","States":{"I":{`+callF+`,"Output":"{% $states.input %}","End":true}}},"MaxConcurrency":1,"Retry":[{"ErrorEquals":["E"],"IntervalSeconds":7}],"End":true}`), answers(`1`, failed{"E", ""}, `1`), `[1,2,3]`, 7 * time.Second},
	{"an item selector that fails is the map's error", machine("M", `"M":{"Type":"Map","Items":[1],"ItemSelector":"{% $nope %}","ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Pass","End":true}}}`+catchAll), nil, `{"Error":"States.QueryEvaluationError","Cause":"An error occurred while executing the state 'M' (entered at the event id #2). The JSONata expression ' $nope ' specified for the field 'ItemSelector' returned nothing (undefined)."}`, 0},
	{"branches read outer variables and keep their own", machine("A", `"A":{"Type":"Pass","Assign":{"x":1},"Next":"P"},"P":{"Type":"Parallel","Branches":[{"StartAt":"B","States":{"B":{"Type":"Pass","Assign":{"y":"{% $x + 1 %}"},"Next":"C"},"C":{"Type":"Pass","Output":"{% $x + $y %}","End":true}}}],"Next":"D"},"D":{"Type":"Pass","Output":"{% [$states.input, $exists($y)] %}","End":true}`), nil, `[3,false]`, 0},
	{"the item is known inside a branch inside an iteration", machine("M", `"M":{"Type":"Map","Items":["a","b"],"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Parallel","Branches":[{"StartAt":"I","States":{"I":{"Type":"Pass","Output":"{% $states.context.Map.Item.Value & $string($states.context.Map.Item.Index) %}","End":true}}}],"End":true}}},"End":true}`), nil, `[["a0"],["b1"]]`, 0},
	{"a branch's error keeps its name", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"B","States":{"B":{"Type":"Fail","Error":"Mine","Cause":"why"}}}],"End":true}`), nil, `FAILED Mine why`, 0},
}

func TestTimesAndErrors(t *testing.T) {
	for _, c := range timesAndErrors {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.f
				if f == nil {
					f = hang
				}
				h := newHost(t, functions{"f": f})
				out := h.run(c.definition, `{"in":1}`)
				checkOutcome(t, out, c.want)
				took := time.Duration((out["stopDate"].(float64) - out["startDate"].(float64)) * float64(time.Second)).Round(10 * time.Millisecond)
				if took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

func TestJitterIsRandomAndCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		numbers := []float64{0.5, 0.25, 0.75}
		n := 0
		h := newHost(t, functions{"f": answers(failed{"E", ""}, failed{"E", ""}, failed{"E", ""}, `1`)}, func(o *Options) {
			o.Random = func() float64 { n++; return numbers[n-1] }
		})
		out := h.run(machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"],"IntervalSeconds":8,"BackoffRate":2,"MaxDelaySeconds":20,"JitterStrategy":"FULL"}],"Output":"{% 1 %}","End":true}`), `{}`)
		// 8*0.5, 16*0.25, and 32 capped to 20, *0.75.
		if took := out["stopDate"].(float64) - out["startDate"].(float64); took < 22.99 || took > 23.01 {
			t.Errorf("it took %v s, want 23", took)
		}
	})
}

func TestTaskTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := tokens()
		h := newHost(t, functions{"f": f})
		m := h.create("m", machine("A", `"A":{`+callToken+`,"HeartbeatSeconds":10,"Retry":[{"ErrorEquals":["Again"]}],"End":true}`))
		send := func(op, token string, in map[string]any) string {
			in["taskToken"] = token
			_, err := h.try(op, in)
			return code(err)
		}

		arn := h.start(m, "success", `{}`)
		token := <-c
		synctest.Wait()
		time.Sleep(9 * time.Second)
		if got := send("SendTaskHeartbeat", token, map[string]any{}); got != "" {
			t.Errorf("a heartbeat: %s", got)
		}
		time.Sleep(9 * time.Second) // 18 s since the start, 9 since the heartbeat
		if got := send("SendTaskSuccess", token, map[string]any{"output": `{"a": 1`}); got != "InvalidOutput" {
			t.Errorf("bad output: %s", got)
		}
		if got := send("SendTaskSuccess", token, map[string]any{"output": `{"a": 1}`}); got != "" {
			t.Errorf("success: %s", got)
		}
		checkOutcome(t, h.wait(arn), `{"a":1}`)
		for _, op := range []string{"SendTaskSuccess", "SendTaskFailure", "SendTaskHeartbeat"} {
			in := map[string]any{}
			if op == "SendTaskSuccess" {
				in["output"] = `1`
			}
			if got := send(op, token, in); got != "TaskTimedOut" {
				t.Errorf("%s after the end: %q", op, got)
			}
		}

		arn = h.start(m, "failure", `{}`)
		if got := send("SendTaskFailure", <-c, map[string]any{"error": "Again", "cause": "c"}); got != "" {
			t.Errorf("failure: %s", got)
		}
		second := <-c // the retry has a token of its own
		if got := send("SendTaskFailure", second, map[string]any{"error": "Stop", "cause": "why"}); got != "" {
			t.Errorf("failure: %s", got)
		}
		checkOutcome(t, h.wait(arn), `FAILED Stop why`)

		arn = h.start(m, "silence", `{}`)
		late := <-c
		checkOutcome(t, h.wait(arn), `FAILED States.Timeout`)
		if got := send("SendTaskSuccess", late, map[string]any{"output": `1`}); got != "TaskTimedOut" {
			t.Errorf("too late: %q", got)
		}

		for _, bad := range []string{"x", token[:len(token)-4], "A" + token[1:len(token)-8] + "AAAAAAA="} {
			if got := send("SendTaskHeartbeat", bad, map[string]any{}); got != "InvalidToken" {
				t.Errorf("a forged token: %q", got)
			}
		}
	})
}

// An answer may come before the function that was given the token returns.
func TestATokenAnsweredEarlyEndsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		h = newHost(t, functions{"f": func(ctx context.Context, payload []byte) ([]byte, string, error) {
			var in struct{ Token string }
			json.Unmarshal(payload, &in)
			h.do("SendTaskSuccess", map[string]any{"taskToken": in.Token, "output": `"early"`})
			return []byte(`"late"`), "", nil
		}})
		checkOutcome(t, h.run(machine("A", `"A":{`+callToken+`,"End":true}`), `{}`), `"early"`)
	})
}

// Stopping ends the execution at once, whatever it does; its calls are told.
func TestStop(t *testing.T) {
	for name, states := range map[string]string{
		"in a wait":    `"A":{"Type":"Wait","Seconds":1000,"End":true}`,
		"in a task":    `"A":{` + callF + `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed"}`,
		"in a retry":   `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"none"},"Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":1000}],"End":true}`,
		"in a branch":  `"A":{"Type":"Parallel","Branches":[{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":1000,"End":true}}},{"StartAt":"T","States":{"T":{` + callF + `,"End":true}}}],"End":true}`,
		"in a loop":    `"A":{"Type":"Wait","Seconds":0,"Next":"B"},"B":{"Type":"Choice","Choices":[{"Condition":"{% false %}","Next":"Z"}],"Default":"C"},"C":{"Type":"Wait","Seconds":5,"Next":"A"},"Z":{"Type":"Succeed"}`,
		"in iteration": `"A":{"Type":"Map","Items":[1,2,3],"MaxConcurrency":1,"ItemProcessor":{"StartAt":"T","States":{"T":{` + callF + `,"End":true}}},"End":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				under := 0
				h := newHost(t, functions{"f": func(ctx context.Context, p []byte) ([]byte, string, error) {
					mu.Lock()
					under++
					mu.Unlock()
					defer func() { mu.Lock(); under--; mu.Unlock() }()
					return hang(ctx, p)
				}})
				arn := h.start(h.create("m", machine("A", states)), "e", `{}`)
				time.Sleep(12 * time.Second)
				h.do("StopExecution", map[string]any{"executionArn": arn, "error": "Enough", "cause": "of it"})
				checkOutcome(t, h.do("DescribeExecution", map[string]any{"executionArn": arn}), `ABORTED Enough of it`)
				synctest.Wait()
				if under != 0 {
					t.Errorf("%d calls still wait", under)
				}
				types, _ := h.history(arn)
				if types[len(types)-1] != "ExecutionAborted" {
					t.Errorf("the history ends %v", types[len(types)-3:])
				}
				first := h.do("DescribeExecution", map[string]any{"executionArn": arn})["stopDate"]
				time.Sleep(time.Hour)
				h.do("StopExecution", map[string]any{"executionArn": arn, "error": "Other"})
				again := h.do("DescribeExecution", map[string]any{"executionArn": arn})
				if again["stopDate"] != first || again["error"] != "Enough" {
					t.Errorf("a second stop changed it: %v", again)
				}
			})
		})
	}
}
