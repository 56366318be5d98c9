package states

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// line is an event in short: id, previous id, type, and what it is about.
func line(e map[string]any) string {
	s := fmt.Sprintf("%v %v %s", e["id"], e["previousEventId"], e["type"])
	for key, value := range e {
		if details, ok := value.(map[string]any); ok && strings.HasSuffix(key, "EventDetails") {
			for _, k := range []string{"name", "state", "index", "length", "error", "location"} {
				if v, ok := details[k]; ok {
					s += fmt.Sprint(" ", v)
				}
			}
		}
	}
	return s
}

// The chains are those that AWS has been recorded to give (entering and leaving,
// tasks, retries, catches, timeouts, evaluation errors); the places of Aborted
// events are decided in doc.go.
var histories = []struct {
	name, definition string
	f                any
	do               func(h host, arn string)
	want             string
}{
	{"a task and a succeed", machine("A", `"A":{`+callF+`,"Next":"Z"},"Z":{"Type":"Succeed"}`), `1`, nil, `
			1 0 ExecutionStarted
			2 0 TaskStateEntered A
			3 2 TaskScheduled
			4 3 TaskStarted
			5 4 TaskSucceeded
			6 5 TaskStateExited A
			7 6 SucceedStateEntered Z
			8 7 SucceedStateExited Z
			9 8 ExecutionSucceeded`},
	{"a retry has no events of its own", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"]}],"End":true}`), []any{failed{"E", ""}, `1`}, nil, `
			1 0 ExecutionStarted
			2 0 TaskStateEntered A
			3 2 TaskScheduled
			4 3 TaskStarted
			5 4 TaskFailed E
			6 5 TaskScheduled
			7 6 TaskStarted
			8 7 TaskSucceeded
			9 8 TaskStateExited A
			10 9 ExecutionSucceeded`},
	{"a caught error leaves the state", machine("A", `"A":{`+callF+`,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true},"B":{"Type":"Pass","End":true}`), failed{"E", ""}, nil, `
			1 0 ExecutionStarted
			2 0 TaskStateEntered A
			3 2 TaskScheduled
			4 3 TaskStarted
			5 4 TaskFailed E
			6 5 TaskStateExited A
			7 6 PassStateEntered B
			8 7 PassStateExited B
			9 8 ExecutionSucceeded`},
	{"an error nobody catches", machine("A", `"A":{`+callF+`,"End":true}`), failed{"E", ""}, nil, `
			1 0 ExecutionStarted
			2 0 TaskStateEntered A
			3 2 TaskScheduled
			4 3 TaskStarted
			5 4 TaskFailed E
			6 5 ExecutionFailed E`},
	{"a token that is not answered", machine("A", `"A":{`+callToken+`,"HeartbeatSeconds":5,"TimeoutSeconds":600,"End":true}`), `{}`, nil, `
			1 0 ExecutionStarted
			2 0 TaskStateEntered A
			3 2 TaskScheduled
			4 3 TaskStarted
			5 4 TaskSubmitted
			6 5 TaskTimedOut States.Timeout
			7 6 ExecutionFailed States.Timeout`},
	{"an expression that gives nothing", machine("A", `"A":{"Type":"Pass","Output":{"x":"{% $nope %}"},"End":true}`), nil, nil, `
			1 0 ExecutionStarted
			2 0 PassStateEntered A
			3 2 EvaluationFailed A States.QueryEvaluationError Output/x
			4 3 ExecutionFailed States.QueryEvaluationError`},
	{"a choice, a wait, a fail", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% true %}","Next":"B"}]},"B":{"Type":"Wait","Seconds":1,"Next":"C"},"C":{"Type":"Fail","Error":"E"}`), nil, nil, `
			1 0 ExecutionStarted
			2 0 ChoiceStateEntered A
			3 2 ChoiceStateExited A
			4 3 WaitStateEntered B
			5 4 WaitStateExited B
			6 5 FailStateEntered C
			7 6 ExecutionFailed E`},
	{"branches chain from the start of their state", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{"Type":"Pass","End":true}}},{"StartAt":"B","States":{"B":{"Type":"Wait","Seconds":1,"End":true}}}],"End":true}`), nil, nil, `
			1 0 ExecutionStarted
			2 0 ParallelStateEntered P
			3 2 ParallelStateStarted
			4 3 PassStateEntered A
			5 4 PassStateExited A
			6 3 WaitStateEntered B
			7 6 WaitStateExited B
			8 7 ParallelStateSucceeded
			9 8 ParallelStateExited P
			10 9 ExecutionSucceeded`},
	{"iterations chain from the start of their state", machine("M", `"M":{"Type":"Map","Items":[1,2],"MaxConcurrency":1,"ItemProcessor":{"StartAt":"A","States":{"A":{"Type":"Pass","End":true}}},"End":true}`), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 2
			4 3 MapIterationStarted M 0
			5 4 PassStateEntered A
			6 5 PassStateExited A
			7 6 MapIterationSucceeded M 0
			8 3 MapIterationStarted M 1
			9 8 PassStateEntered A
			10 9 PassStateExited A
			11 10 MapIterationSucceeded M 1
			12 11 MapStateSucceeded
			13 12 MapStateExited M
			14 13 ExecutionSucceeded`},
	{"a failing iteration aborts its siblings", machine("M", `"M":{"Type":"Map","Items":[9,0],"ItemProcessor":{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":"{% $states.input %}","Next":"F"},"F":{"Type":"Fail","Error":"E"}}},"End":true}`), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 2
			4 3 MapIterationStarted M 0
			5 3 MapIterationStarted M 1
			6 4 WaitStateEntered W
			7 5 WaitStateEntered W
			8 7 WaitStateExited W
			9 8 FailStateEntered F
			10 9 MapIterationFailed M 1
			11 6 WaitStateAborted
			12 11 MapIterationAborted M 0
			13 10 MapStateFailed
			14 13 ExecutionFailed E`},
	{"a stop aborts what waits", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{`+callToken+`,"End":true}}}],"End":true}`), `{}`,
		func(h host, arn string) { h.do("StopExecution", map[string]any{"executionArn": arn, "error": "E"}) }, `
			1 0 ExecutionStarted
			2 0 ParallelStateEntered P
			3 2 ParallelStateStarted
			4 3 TaskStateEntered A
			5 4 TaskScheduled
			6 5 TaskStarted
			7 6 TaskSubmitted
			8 7 TaskStateAborted
			9 3 ParallelStateAborted
			10 9 ExecutionAborted E`},
}

func TestHistories(t *testing.T) {
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list, ok := c.f.([]any)
				if !ok {
					list = []any{c.f}
				}
				h := newHost(t, functions{"f": answers(list...)})
				arn := h.start(h.create("m", c.definition), "e", `{}`)
				if c.do != nil {
					synctest.Wait()
					c.do(h, arn)
				}
				h.wait(arn)
				_, events := h.history(arn)
				var got []string
				for _, e := range events {
					got = append(got, line(e))
				}
				want := strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "")
				if text := strings.Join(got, "\n"); text != want {
					t.Errorf("got\n%s\nwant\n%s", text, want)
				}
			})
		})
	}
}

var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"token\\":\\"[^"]*"`)

// The whole history of one machine, details included, stays as it is.
func TestGoldenHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{"f": answers(failed{"E", "m"}, `{"k":1}`)})
		arn := h.start(h.create("m", machine("A", `
			"A":{`+callToken+`,"TimeoutSeconds":60,"HeartbeatSeconds":20,"Retry":[{"ErrorEquals":["E"],"IntervalSeconds":2}],
				"Catch":[{"ErrorEquals":["States.Timeout"],"Next":"B","Assign":{"why":"{% $states.errorOutput.Error %}"}}],"Next":"B"},
			"B":{"Type":"Map","Items":[1],"ItemProcessor":{"StartAt":"C","States":{"C":{"Type":"Pass","Output":"{% $why %}","End":true}}},"End":true}`)), "e", `{"in": [1, 2]}`)
		h.wait(arn)
		_, events := h.history(arn)
		text, err := json.MarshalIndent(events, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := changing.ReplaceAllString(string(text), "CHANGING") + "\n"
		path := filepath.Join("testdata", "history.json")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the history is\n%s", got)
		}
	})
}

// The times in the history are those at which things happened.
func TestHistoryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		start := time.Now()
		arn := h.start(h.create("m", machine("A", `"A":{"Type":"Wait","Seconds":90,"End":true}`)), "e", `{}`)
		h.wait(arn)
		_, events := h.history(arn)
		for i, want := range []float64{0, 0, 90, 90} {
			if got := events[i]["timestamp"].(float64) - float64(start.UnixMilli())/1000; got < want-0.001 || got > want+0.02 {
				t.Errorf("%v happened after %v s, want %v", events[i]["type"], got, want)
			}
		}
	})
}
