package states

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// functions is an Invoker of Go functions by name.
type functions map[string]func(ctx context.Context, payload []byte) ([]byte, string, error)

func (f functions) Invoke(ctx context.Context, name string, payload []byte) ([]byte, string, error) {
	if f[name] == nil {
		return nil, "", &ServiceError{Name: "Lambda.ResourceNotFoundException", Message: "Function not found: " + name, Status: 404}
	}
	return f[name](ctx, payload)
}

// answers gives a function that answers each call in turn, and the last for ever.
func answers(list ...any) func(context.Context, []byte) ([]byte, string, error) {
	var mu sync.Mutex
	n := 0
	return func(context.Context, []byte) ([]byte, string, error) {
		mu.Lock()
		defer mu.Unlock()
		a := list[min(n, len(list)-1)]
		n++
		switch a := a.(type) {
		case error:
			return nil, "", a
		case failed:
			out, _ := json.Marshal(map[string]string{"errorMessage": a.message, "errorType": a.kind})
			return out, "Unhandled", nil
		case string:
			return []byte(a), "", nil
		}
		panic("an answer is a string, an error or failed")
	}
}

// failed is an answer: the function itself failed.
type failed struct{ kind, message string }

const roleARN = "arn:aws:iam::000000000000:role/local"

type host struct {
	*Service
	t        testing.TB
	patience time.Duration // of wait; long by default, since most tests run on fake time
}

func open(t testing.TB, path string, lambda Invoker, change ...func(*Options)) host {
	t.Helper()
	options := Options{Path: path, Lambda: lambda}
	for _, c := range change {
		c(&options)
	}
	s, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	return host{s, t, 24 * time.Hour}
}

func newHost(t testing.TB, lambda Invoker, change ...func(*Options)) host {
	t.Helper()
	h := open(t, filepath.Join(t.TempDir(), "states.db"), lambda, change...)
	t.Cleanup(func() { h.Close() })
	return h
}

// do calls an operation; it must succeed.
func (h host) do(op string, in map[string]any) map[string]any {
	h.t.Helper()
	out, err := h.try(op, in)
	if err != nil {
		h.t.Fatalf("%s: %v", op, err)
	}
	return out
}

func (h host) try(op string, in map[string]any) (map[string]any, error) {
	body, err := json.Marshal(in)
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := h.Do(context.Background(), op, body)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		h.t.Fatal(err)
	}
	return out, nil
}

// create makes a machine and gives its ARN.
func (h host) create(name, definition string) string {
	h.t.Helper()
	out := h.do("CreateStateMachine", map[string]any{"name": name, "definition": definition, "roleArn": roleARN})
	return out["stateMachineArn"].(string)
}

func (h host) start(machine, name, input string) string {
	h.t.Helper()
	out := h.do("StartExecution", map[string]any{"stateMachineArn": machine, "name": name, "input": input})
	return out["executionArn"].(string)
}

// wait waits until an execution has ended and gives its description.
func (h host) wait(arn string) map[string]any {
	h.t.Helper()
	pause := time.Millisecond
	for start := time.Now(); time.Since(start) < h.patience; {
		out := h.do("DescribeExecution", map[string]any{"executionArn": arn})
		if out["status"] != statusRunning {
			return out
		}
		time.Sleep(pause)
		pause = min(pause*21/20+1, 20*time.Second)
	}
	h.t.Fatalf("%s does not end", arn)
	return nil
}

// run runs one execution of a new machine to its end.
func (h host) run(definition, input string) map[string]any {
	h.t.Helper()
	return h.wait(h.start(h.create("m", definition), "e", input))
}

// history gives the events' types.
func (h host) history(arn string) (types []string, events []map[string]any) {
	h.t.Helper()
	var token any
	for {
		in := map[string]any{"executionArn": arn}
		if token != nil {
			in["nextToken"] = token
		}
		out := h.do("GetExecutionHistory", in)
		for _, e := range out["events"].([]any) {
			events = append(events, e.(map[string]any))
			types = append(types, e.(map[string]any)["type"].(string))
		}
		if token = out["nextToken"]; token == nil {
			return types, events
		}
	}
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// machine wraps states into a definition.
func machine(start, states string) string {
	return `{"QueryLanguage":"JSONata","StartAt":"` + start + `","States":{` + states + `}}`
}

const callF = `"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":"{% $states.input %}"}`

func echo(_ context.Context, payload []byte) ([]byte, string, error) { return payload, "", nil }

var outcomes = []struct {
	name, definition, input string
	f                       func(context.Context, []byte) ([]byte, string, error)
	want                    string // output, or status and error
}{
	{"pass hands its input on", machine("A", `"A":{"Type":"Pass","End":true}`), `{"a": 1.0}`, nil, `{"a":1.0}`},
	{"pass replaces its output", machine("A", `"A":{"Type":"Pass","Output":{"x":"{% $states.input.a %}","y":[1,"{% 'q' %}"],"z":"plain"},"End":true}`), `{"a":5}`, nil, `{"x":5,"y":[1,"q"],"z":"plain"}`},
	{"succeed may set the output", machine("A", `"A":{"Type":"Succeed","Output":"{% $states.input.a + 1 %}"}`), `{"a":1}`, nil, `2`},
	{"fail names error and cause", machine("A", `"A":{"Type":"Fail","Error":"{% 'E' & $states.input.n %}","Cause":"why"}`), `{"n":"1"}`, nil, `FAILED E1 why`},
	{"assign is seen in the next state, not in its own output", machine("A", `"A":{"Type":"Pass","Assign":{"x":1},"Next":"B"},"B":{"Type":"Pass","Assign":{"x":"{% $x + 1 %}"},"Output":"{% $x %}","Next":"C"},"C":{"Type":"Pass","Output":"{% [$states.input, $x] %}","End":true}`), `{}`, nil, `[1,2]`},
	{"choice takes the first true rule", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% $states.input.n > 5 %}","Next":"B"},{"Condition":"{% $states.input.n > 1 %}","Next":"C","Output":"{% 'rule' %}","Assign":{"v":3}}],"Default":"B"},"B":{"Type":"Succeed"},"C":{"Type":"Succeed","Output":"{% [$states.input, $v] %}"}`), `{"n":3}`, nil, `["rule",3]`},
	{"choice falls to its default", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% false %}","Next":"C"}],"Default":"B","Output":"{% 'default' %}"},"B":{"Type":"Succeed"},"C":{"Type":"Succeed"}`), `{}`, nil, `"default"`},
	{"choice without a match", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% false %}","Next":"B"}]},"B":{"Type":"Succeed"}`), `{}`, nil, `FAILED States.NoChoiceMatched`},
	{"a condition must be a boolean", machine("A", `"A":{"Type":"Choice","Choices":[{"Condition":"{% 1 %}","Next":"B"}]},"B":{"Type":"Succeed"}`), `{}`, nil, `FAILED States.QueryEvaluationError`},
	{"wait of no time", machine("A", `"A":{"Type":"Wait","Seconds":0,"End":true}`), `{"k":1}`, nil, `{"k":1}`},
	{"wait for the past", machine("A", `"A":{"Type":"Wait","Timestamp":"{% $states.input.at %}","End":true}`), `{"at":"1999-01-01T00:00:00Z"}`, nil, `{"at":"1999-01-01T00:00:00Z"}`},
	{"task gives the payload", machine("A", `"A":{`+callF+`,"Output":"{% $states.result.Payload %}","End":true}`), `{"a":[1]}`, echo, `{"a":[1]}`},
	{"task's status", machine("A", `"A":{`+callF+`,"Output":"{% $states.result.StatusCode %}","End":true}`), `{}`, echo, `200`},
	{"a function's error is the error type", machine("A", `"A":{`+callF+`,"End":true}`), `{}`, answers(failed{"px.Fatal", "no"}), `FAILED px.Fatal {"errorMessage":"no","errorType":"px.Fatal"}`},
	{"an unknown function", machine("A", `"A":{`+callF+`,"End":true}`), `{}`, nil, `FAILED Lambda.ResourceNotFoundException`},
	{"an undefined argument", machine("A", `"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":{"x":"{% $states.input.x %}"}},"End":true}`), `{}`, echo, `FAILED States.QueryEvaluationError An error occurred while executing the state 'A' (entered at the event id #2). The JSONata expression ' $states.input.x ' specified for the field 'Arguments/Payload/x' returned nothing (undefined).`},
	{"a retried task", machine("A", `"A":{`+callF+`,"Retry":[{"ErrorEquals":["px.Retryable"],"IntervalSeconds":1}],"Output":"{% $states.result.Payload & $string($states.context.State.RetryCount) %}","End":true}`), `{}`, answers(failed{"px.Retryable", ""}, failed{"px.Retryable", ""}, `"ok"`), `"ok2"`},
	{"a caught error", machine("A", `"A":{`+callF+`,"Catch":[{"ErrorEquals":["Other"],"Next":"B"},{"ErrorEquals":["States.ALL"],"Next":"C","Assign":{"e":"{% $states.errorOutput.Error %}"}}],"End":true},"B":{"Type":"Succeed"},"C":{"Type":"Succeed","Output":"{% [$e, $states.input.Error] %}"}`), `{}`, answers(failed{"E", "m"}), `["E","E"]`},
	{"a parallel", machine("P", `"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{"Type":"Pass","Output":"{% 1 %}","End":true}}},{"StartAt":"B","States":{"B":{"Type":"Pass","Output":"{% $states.input.x %}","End":true}}}],"End":true}`), `{"x":"in"}`, nil, `[1,"in"]`},
	{"a map", machine("M", `"M":{"Type":"Map","Items":"{% $states.input.list %}","ItemSelector":{"i":"{% $states.context.Map.Item.Index %}","v":"{% $states.context.Map.Item.Value %}"},"ItemProcessor":{"StartAt":"A","States":{"A":{"Type":"Pass","Output":"{% $states.input.v * 10 + $states.input.i %}","End":true}}},"MaxConcurrency":2,"End":true}`), `{"list":[1,2,3,4,5]}`, nil, `[10,21,32,43,54]`},
	{"an empty map", machine("M", `"M":{"Type":"Map","ItemProcessor":{"StartAt":"A","States":{"A":{"Type":"Pass","End":true}}},"End":true}`), `[]`, nil, `[]`},
	{"a failing branch", machine("P", `"P":{"Type":"Parallel","Catch":[{"ErrorEquals":["X"],"Next":"Z"}],"Branches":[{"StartAt":"A","States":{"A":{"Type":"Wait","Seconds":1000,"End":true}}},{"StartAt":"B","States":{"B":{"Type":"Fail","Error":"X","Cause":"c"}}}],"End":true},"Z":{"Type":"Succeed"}`), `{}`, nil, `{"Error":"X","Cause":"c"}`},
}

func TestOutcomes(t *testing.T) {
	for _, c := range outcomes {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lambda := functions{}
				if c.f != nil {
					lambda["f"] = c.f
				}
				h := newHost(t, lambda)
				checkOutcome(t, h.run(c.definition, c.input), c.want)
			})
		})
	}
}

// checkOutcome compares an execution's end with an output, or with
// "STATUS error cause", of which the last parts may be left out.
func checkOutcome(t testing.TB, out map[string]any, want string) {
	t.Helper()
	got, _ := out["output"].(string)
	if out["status"] != statusSucceeded {
		got = out["status"].(string)
		for _, k := range []string{"error", "cause"} {
			if v, ok := out[k].(string); ok {
				got += " " + v
			}
		}
		if len(got) > len(want) && got[:len(want)] == want && got[len(want)] == ' ' {
			return
		}
	}
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
