package states

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gauge is a function that takes a second and notes how many run at once.
type gauge struct {
	sync.Mutex
	now, most, calls int
}

func (g *gauge) run(_ context.Context, payload []byte) ([]byte, string, error) {
	g.Lock()
	g.now++
	g.calls++
	g.most = max(g.most, g.now)
	g.Unlock()
	time.Sleep(time.Second)
	g.Lock()
	g.now--
	g.Unlock()
	return payload, "", nil
}

func TestMapConcurrency(t *testing.T) {
	for _, c := range []struct {
		name, limit string
		items, most int
		took        time.Duration
	}{
		{"one at a time", `"MaxConcurrency":1,`, 5, 1, 5 * time.Second},
		{"three at a time", `"MaxConcurrency":"{% 1 + 2 %}",`, 7, 3, 3 * time.Second},
		{"no limit is forty", ``, 100, 40, 3 * time.Second},
		{"zero is no limit", `"MaxConcurrency":0,`, 41, 40, 2 * time.Second},
		{"more than forty is forty", `"MaxConcurrency":1000,`, 80, 40, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gauge{}
				h := newHost(t, functions{"f": g.run})
				start := time.Now()
				arn := h.start(h.create("m", machine("M", fmt.Sprintf(`"M":{"Type":"Map","Items":"{%% [1..%d] %%}",%s`, c.items, c.limit)+
					`"ItemProcessor":{"StartAt":"A","States":{"A":{`+callF+`,"Output":"{% $states.result.Payload %}","End":true}}},"Output":"{% $sum($states.result) %}","End":true}`)), "e", `{}`)
				time.Sleep(c.took + 10*time.Millisecond)
				synctest.Wait()
				checkOutcome(t, h.do("DescribeExecution", map[string]any{"executionArn": arn}), fmt.Sprint(c.items*(c.items+1)/2))
				if g.most != c.most || g.calls != c.items {
					t.Errorf("at most %d ran at once of %d, want %d of %d", g.most, g.calls, c.most, c.items)
				}
				if took := time.Since(start); took < c.took {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// Calls that hang hold nobody else up: not other executions, not other branches,
// not the API.
func TestCallsThatHangHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{"f": hang, "g": echo})
		hanging := h.create("hanging", machine("A", `"A":{`+callF+`,"End":true}`))
		for i := range 200 {
			h.start(hanging, fmt.Sprint("e", i), `{}`)
		}
		other := h.create("other", machine("A", `"A":{`+strings.Replace(callF, `"f"`, `"g"`, 1)+`,"Output":"{% $states.result.Payload %}","End":true}`))
		start := time.Now()
		checkOutcome(t, h.wait(h.start(other, "e", `{"a":1}`)), `{"a":1}`)
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		both := h.start(h.create("both", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{`+callF+`,"End":true}}},{"StartAt":"B","States":{"B":{"Type":"Wait","Seconds":5,"Next":"C"},"C":{"Type":"Fail","Error":"E"}}}],"End":true}`)), "e", `{}`)
		checkOutcome(t, h.wait(both), `FAILED E`)
		out := h.do("ListExecutions", map[string]any{"stateMachineArn": hanging, "statusFilter": "RUNNING", "maxResults": 1000})
		if n := len(out["executions"].([]any)); n != 200 {
			t.Errorf("%d hang, want 200", n)
		}
	})
}

func TestALongCauseIsCut(t *testing.T) {
	long := strings.Repeat("é", 40000)
	h := newHost(t, functions{"f": answers(failed{"E", long})})
	out := h.run(machine("A", `"A":{`+callF+`,"End":true}`), `{}`)
	if cause := []rune(out["cause"].(string)); len(cause) != 32768 || cause[32767] != 'é' {
		t.Errorf("the cause has %d characters", len(cause))
	}
}

// What the context object holds, where a Task stands inside an iteration.
func TestContextObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{"f": answers(failed{"E", ""}, `1`)})
		out := h.run(machine("M", `"M":{"Type":"Map","Items":["x"],"ItemProcessor":{"StartAt":"A","States":{"A":{`+callF+`,"Retry":[{"ErrorEquals":["E"]}],"Output":"{% $states.context %}","End":true}}},"End":true}`), `{"in": 1}`)
		want := `[{"Execution":{"Id":"arn:aws:states:us-east-1:000000000000:execution:m:e","Input":{"in":1},"Name":"e","RedriveCount":0,"RoleArn":"arn:aws:iam::000000000000:role/local","StartTime":"2000-01-01T00:00:00.000Z"},"Map":{"Item":{"Index":0,"Value":"x"}},"State":{"EnteredTime":"2000-01-01T00:00:00.000Z","Name":"A","RetryCount":1},"StateMachine":{"Id":"arn:aws:states:us-east-1:000000000000:stateMachine:m","Name":"m"}}]`
		checkOutcome(t, out, want)
	})
}
