package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
)

// objects is an object store of texts by "bucket/key".
type objects map[string]string

func (o objects) Object(_ context.Context, bucket, key string) ([]byte, error) {
	text, ok := o[bucket+"/"+key]
	if !ok {
		return nil, errors.New("NoSuchKey: The specified key does not exist.")
	}
	return []byte(text), nil
}

func withObjects(o objects) func(*Options) { return func(opt *Options) { opt.Objects = o } }

// distributedMap is a machine whose state M, with the given fields, runs states
// for each item.
func distributedMap(fields, start, states string) string {
	return machine("M", `"M":{"Type":"Map",`+fields+`,"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"`+start+`","States":{`+states+`}},"End":true}`)
}

func readerOf(config string) string {
	return `"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"{% $states.input.key %}"},"ReaderConfig":{` + config + `}}`
}

const (
	passChild = `"C":{"Type":"Pass","End":true}`
	oddFails  = `"C":{"Type":"Choice","Choices":[{"Condition":"{% $states.input % 2 = 1 %}","Next":"F"}],"Default":"S"},"F":{"Type":"Fail","Error":"Odd","Cause":"c"},"S":{"Type":"Succeed"}`
)

var stored = objects{
	"b/list.json": `[{"n": 1}, 2, "three"]`, "b/lines": "{\"n\": 1}\r\n2\n\"three\"\n", "b/empty": "", "b/gap": "1\n\n2\n", "b/object": `{"a":1}`,
	"b/cut": `[1,2`, "b/twice": `[{"a":1,"a":2}]`, "b/long": `["` + strings.Repeat("x", maxPayload) + `"]`, "b/tail": `[1] 2`,
}

var distributedOutcomes = []struct{ name, definition, input, want string }{
	{"the outputs in the items' order", distributedMap(`"Items":"{% $states.input.list %}","MaxConcurrency":2,"ItemSelector":{"i":"{% $states.context.Map.Item.Index %}","v":"{% $states.context.Map.Item.Value %}"}`, "C", `"C":{"Type":"Pass","Output":"{% $states.input.v * 10 + $states.input.i %}","End":true}`), `{"list":[1,2,3,4,5]}`, `[10,21,32,43,54]`},
	{"the state's input without Items", distributedMap(`"MaxConcurrency":1`, "C", passChild), `[1,{"a":1.0}]`, `[1,{"a":1.0}]`},
	{"no items", distributedMap(`"Items":[]`, "C", passChild), `{}`, `[]`},
	{"items from a JSON array", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"list.json"}`, `[{"n":1},2,"three"]`},
	{"items from lines", distributedMap(readerOf(`"InputType":"JSONL"`), "C", passChild), `{"key":"lines"}`, `[{"n":1},2,"three"]`},
	{"the first items", distributedMap(readerOf(`"InputType":"JSONL","MaxItems":2`), "C", passChild), `{"key":"lines"}`, `[{"n":1},2]`},
	{"the first items of a broken array", distributedMap(readerOf(`"InputType":"JSON","MaxItems":"{% 2 %}"`), "C", passChild), `{"key":"cut"}`, `[1,2]`},
	{"as many items as may be asked for", distributedMap(readerOf(`"InputType":"JSONL","MaxItems":100000000`), "C", passChild), `{"key":"lines"}`, `[{"n":1},2,"three"]`},
	{"more items than may be asked for", distributedMap(readerOf(`"InputType":"JSONL","MaxItems":"{% 100000001 %}"`), "C", passChild), `{"key":"lines"}`, `FAILED States.QueryEvaluationError`},
	{"an object without lines", distributedMap(readerOf(`"InputType":"JSONL"`), "C", passChild), `{"key":"empty"}`, `[]`},
	{"an object that is not there", distributedMap(readerOf(`"InputType":"JSONL"`), "C", passChild), `{"key":"nope"}`, `FAILED States.ItemReaderFailed Failed to read s3://b/nope: NoSuchKey: The specified key does not exist.`},
	{"an empty line", distributedMap(readerOf(`"InputType":"JSONL"`), "C", passChild), `{"key":"gap"}`, `FAILED States.ItemReaderFailed Failed to read the items: item 1 is not JSON.`},
	{"an object for an array", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"object"}`, `FAILED States.ItemReaderFailed Failed to read the items: the object is not a JSON array.`},
	{"an array that does not end", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"cut"}`, `FAILED States.ItemReaderFailed`},
	{"more after the array", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"tail"}`, `FAILED States.ItemReaderFailed`},
	{"a duplicate name", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"twice"}`, `FAILED States.ItemReaderFailed`},
	{"an item over the limit", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":"long"}`, `FAILED States.ItemReaderFailed`},
	{"a key that is a number", distributedMap(readerOf(`"InputType":"JSON"`), "C", passChild), `{"key":5}`, `FAILED States.ItemReaderFailed`},
	{"a failure is too much without a threshold", distributedMap(`"Items":[2,1,4]`, "C", oddFails), `{}`, `FAILED States.ExceedToleratedFailureThreshold The specified tolerated failure threshold was exceeded`},
	{"as many failures as are tolerated", distributedMap(`"Items":[2,4,1,3],"ToleratedFailurePercentage":50,"MaxConcurrency":1,"Output":"{% $states.result.(Status ? Status & Error : $) %}"`, "C", oddFails), `{}`, `[2,4,"FAILEDOdd","FAILEDOdd"]`},
	{"one failure more than the share", distributedMap(`"Items":[2,5,1,3],"ToleratedFailurePercentage":50`, "C", oddFails), `{}`, `FAILED States.ExceedToleratedFailureThreshold`},
	{"one failure more than the count", distributedMap(`"Items":[2,4,1,3],"ToleratedFailurePercentage":100,"ToleratedFailureCount":1`, "C", oddFails), `{}`, `FAILED States.ExceedToleratedFailureThreshold`},
	{"all may fail", distributedMap(`"Items":[1,3],"ToleratedFailurePercentage":"{% 100 %}","Output":"{% $count($states.result) %}"`, "C", oddFails), `{}`, `2`},
	{"a caught failure", machine("M", `"M":{"Type":"Map","Items":[1],"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"C","States":{`+oddFails+`}},"Catch":[{"ErrorEquals":["States.ExceedToleratedFailureThreshold"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed","Output":"{% $states.input.Error %}"}`), `{}`, `"States.ExceedToleratedFailureThreshold"`},
	{"Assign and Output see the array", machine("M", `"M":{"Type":"Map","Items":[1,2],"Assign":{"n":"{% $sum($states.result) %}"},"Output":{},"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"C","States":{`+passChild+`}},"Next":"Z"},"Z":{"Type":"Succeed","Output":"{% [$n, $states.input] %}"}`), `{}`, `[3,{}]`},
	{"a result over the limit", distributedMap(`"Items":[1,2,3]`, "C", `"C":{"Type":"Pass","Output":"{% $pad('', 100000, 'x') %}","End":true}`), `{}`, `FAILED States.DataLimitExceeded The state/task 'M' returned a result with a size exceeding the maximum number of bytes service limit.`},
	{"a selector that gives nothing", distributedMap(`"Items":[1],"ItemSelector":{"x":"{% $states.input.nope %}"}`, "C", passChild), `{}`, `FAILED States.QueryEvaluationError`},
	{"the parent's variables are not the children's", machine("A", `"A":{"Type":"Pass","Assign":{"v":1},"Next":"M"},"M":{"Type":"Map","Items":[1],"ToleratedFailureCount":1,"Output":"{% $states.result.Error %}","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"C","States":{"C":{"Type":"Pass","Output":"{% $v %}","Assign":{"v":2},"End":true}}},"End":true}`), `{}`, `"States.QueryEvaluationError"`},
	{"a child's context is its own", distributedMap(`"Items":[7],"Label":"L"`, "C", `"C":{"Type":"Pass","Output":"{% [$states.context.Execution.Input, $states.context.StateMachine.Id, $contains($states.context.Execution.Id, ':execution:m/L:' & $states.context.Execution.Name), $exists($states.context.Map)] %}","End":true}`), `{}`, `[[7,"arn:aws:states:us-east-1:000000000000:stateMachine:m/L",true,false]]`},
	{"a Map in a Map", distributedMap(`"Items":[[1,2],[3]]`, "N", `"N":{"Type":"Map","Items":"{% $states.input %}","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"C","States":{`+passChild+`}},"End":true}`), `{}`, `[[1,2],[3]]`},
}

// covers: R5, H1
func TestDistributedMaps(t *testing.T) {
	for _, c := range distributedOutcomes {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, functions{}, withObjects(stored))
				checkOutcome(t, h.run(c.definition, c.input), c.want)
				synctest.Wait()
				h.settled()
			})
		})
	}
}

// A child that fails within the tolerance stands in the array as what it is.
func TestAFailedChildIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		arn := h.start(h.create("m", distributedMap(`"Items":[1],"Label":"L","ToleratedFailureCount":1`, "C", oddFails)), "e", `{}`)
		out := h.wait(arn)
		var list []map[string]any
		if err := json.Unmarshal([]byte(out["output"].(string)), &list); err != nil || len(list) != 1 {
			t.Fatal(out)
		}
		r := list[0]
		if r["Error"] != "Odd" || r["Cause"] != "c" || r["Input"] != "1" || r["Status"] != "FAILED" {
			t.Error(r)
		}
		child := h.wait(r["ExecutionArn"].(string))
		if child["status"] != "FAILED" || child["name"] != r["Name"] || child["stateMachineArn"] != r["StateMachineArn"] {
			t.Errorf("%v\n%v", child, r)
		}
		_, events := h.history(arn)
		if run := events[3]["mapRunStartedEventDetails"].(map[string]any)["mapRunArn"]; child["mapRunArn"] != run || !strings.HasPrefix(fmt.Sprint(run), "arn:aws:states:us-east-1:000000000000:mapRun:m/L:") {
			t.Errorf("the child is of %v, the Map Run is %v", child["mapRunArn"], run)
		}
	})
}

// covers: R5
func TestMaxConcurrencyOfChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, calls atomic.Int64
		h := newHost(t, functions{"f": func(context.Context, []byte) ([]byte, string, error) {
			calls.Add(1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return []byte(`1`), "", nil
		}})
		checkOutcome(t, h.run(distributedMap(`"Items":"{% [1..40] %}","MaxConcurrency":7,"Output":"{% $count($states.result) %}"`, "C", `"C":{`+callF+`,"Output":1,"End":true}`), `{}`), `40`)
		if most.Load() != 7 || calls.Load() != 40 {
			t.Errorf("%d side by side, %d calls", most.Load(), calls.Load())
		}
	})
}

// Rights of the machine's role: none of the denied things happens.
//
// covers: U4
func TestRightsOfTheRole(t *testing.T) {
	for _, c := range []struct{ name, denied, want string }{
		{"no right to start children", "states:StartExecution arn:aws:states:us-east-1:000000000000:stateMachine:m", "FAILED States.Permissions"},
		{"no right to read the items", "s3:GetObject arn:aws:s3:::b/lines", "FAILED States.ItemReaderFailed"},
		{"rights to both", "", `[{"n":1},2,"three"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				asked := map[string]bool{}
				h := newHost(t, functions{}, withObjects(stored), func(o *Options) {
					o.Permits = func(machine, action, resource string) bool {
						mu.Lock()
						defer mu.Unlock()
						asked[machine+" "+action+" "+resource] = true
						return action+" "+resource != c.denied
					}
				})
				checkOutcome(t, h.run(distributedMap(readerOf(`"InputType":"JSONL"`), "C", passChild), `{"key":"lines"}`), c.want)
				if c.denied != "" && !asked["m "+c.denied] {
					t.Errorf("asked %v", asked)
				}
			})
		})
	}
}

// Stopping the parent ends Map Run and children; stopping a child ends it alone.
//
// covers: U2
func TestStopOfAMapRun(t *testing.T) {
	waiting := distributedMap(`"Items":[0,1,2],"Label":"L","MaxConcurrency":2`, "C", `"C":{"Type":"Wait","Seconds":1000,"End":true}`)
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		arn := h.start(h.create("m", waiting), "e", `{}`)
		synctest.Wait()
		children := h.childrenOf("m/L")
		if len(children) != 2 {
			t.Fatal(children)
		}
		h.do("StopExecution", map[string]any{"executionArn": arn, "error": "E"})
		synctest.Wait()
		for _, child := range children {
			if d := h.do("DescribeExecution", map[string]any{"executionArn": child}); d["status"] != statusAborted {
				t.Error(d)
			}
		}
		if n := len(h.childrenOf("m/L")); n != 2 {
			t.Errorf("%d children after the stop", n)
		}
		types, _ := h.history(arn)
		if got := strings.Join(types[len(types)-3:], " "); got != "MapRunAborted MapStateAborted ExecutionAborted" {
			t.Error(types)
		}
		h.settled()
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		arn := h.start(h.create("m", waiting), "e", `{}`)
		synctest.Wait()
		h.do("StopExecution", map[string]any{"executionArn": h.childrenOf("m/L")[0]})
		out := h.wait(arn)
		if out["status"] != statusSucceeded { // a stopped child is no failure
			t.Fatal(out)
		}
		if text := out["output"].(string); strings.Count(text, `"Status":"ABORTED"`) != 1 {
			t.Error(text)
		}
		h.settled()
	})
}

// Children over the threshold: what runs is stopped, what has not started never
// starts.
func TestTheThresholdStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		m := h.create("m", distributedMap(`"Items":[5000,5000,1,2,3,4],"Label":"L","MaxConcurrency":3`, "C",
			`"C":{"Type":"Wait","Seconds":"{% $states.input %}","Next":"F"},"F":{"Type":"Fail","Error":"E"}`))
		h.wait(h.start(m, "e", `{}`))
		synctest.Wait()
		states := map[any]int{}
		for _, child := range h.childrenOf("m/L") {
			states[h.do("DescribeExecution", map[string]any{"executionArn": child})["status"]]++
		}
		if states[statusFailed] != 1 || states[statusAborted] != 2 || len(states) != 2 {
			t.Error(states)
		}
	})
}

// A message that reaches a child after its end, as the end of a child of its own
// that it no longer waits for, does not end it for its parent a second time: else
// the Map Run would end without its last child, or never.
//
// covers: U5
func TestAChildEndsOnceForItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		arn := h.start(h.create("m", distributedMap(`"Items":[1,1000],"Label":"L"`, "C", `"C":{"Type":"Wait","Seconds":"{% $states.input %}","End":true}`)), "e", `{}`)
		synctest.Wait()
		var children []*execution
		h.mu.Lock()
		for _, ex := range h.running {
			if strings.Contains(ex.arn, ":m/L:") {
				children = append(children, ex)
			}
		}
		h.mu.Unlock()
		if len(children) != 2 {
			t.Fatal(children)
		}
		time.Sleep(10 * time.Second)
		for _, child := range children {
			child.post(message{apply: func() error { return nil }})
		}
		synctest.Wait()
		if out := h.do("DescribeExecution", map[string]any{"executionArn": arn}); out["status"] != statusRunning {
			t.Error("the Map Run ended before its last child:", out)
		}
		if out := h.wait(arn); out["output"] != `[1,1000]` {
			t.Error(out)
		}
		h.settled()
	})
}

// covers: U5
func TestARetriedMapRunIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{"f": answers(failed{"E", ""}, `1`)})
		m := h.create("m", distributedMap(`"Items":[1],"Label":"L","Retry":[{"ErrorEquals":["States.ExceedToleratedFailureThreshold"]}]`, "C", `"C":{`+callF+`,"Output":1,"End":true}`))
		arn := h.start(m, "e", `{}`)
		checkOutcome(t, h.wait(arn), `[1]`)
		_, events := h.history(arn)
		runs := map[any]bool{}
		for _, e := range events {
			if d, ok := e["mapRunStartedEventDetails"].(map[string]any); ok {
				runs[d["mapRunArn"]] = true
			}
		}
		if len(runs) != 2 || len(h.childrenOf("m/L")) != 2 {
			t.Errorf("%v %v", runs, h.childrenOf("m/L"))
		}
	})
}

// A history goes when many others ended after it; the description stays until
// AWS would drop it, and the name with it.
func TestWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{}, func(o *Options) { o.KeepHistories = 10 })
		m := h.create("m", passing)
		var arns []string
		for i := range 30 {
			arn := h.start(m, fmt.Sprint("e", i), `{}`)
			h.wait(arn)
			arns = append(arns, arn)
		}
		synctest.Wait()
		kept := 0
		for i, arn := range arns {
			h.do("DescribeExecution", map[string]any{"executionArn": arn})
			if _, err := h.try("GetExecutionHistory", map[string]any{"executionArn": arn}); err == nil {
				kept++
				if i < 19 {
					t.Errorf("the history of %d is kept", i)
				}
			} else if code(err) != "ExecutionDoesNotExist" {
				t.Error(err)
			}
		}
		if kept < 10 || kept > 11 {
			t.Errorf("%d histories are kept", kept)
		}
		time.Sleep(retention - 2*time.Hour)
		h.do("DescribeExecution", map[string]any{"executionArn": arns[0]})
		time.Sleep(4 * time.Hour)
		if _, err := h.try("DescribeExecution", map[string]any{"executionArn": arns[0]}); code(err) != "ExecutionDoesNotExist" {
			t.Errorf("after 90 days: %v", err)
		}
		for name, n := range h.keys("executions", "names", "byMachine", "history", "ended", "kept") {
			if n > 0 {
				t.Errorf("%d keys are left in %s", n, name)
			}
		}
		h.wait(h.start(m, "e0", `{}`)) // the name is free again
	})
}

func FuzzReadItems(f *testing.F) {
	for _, text := range stored {
		if len(text) < 100 {
			f.Add([]byte(text), true, 0)
			f.Add([]byte(text), false, 2)
		}
	}
	f.Fuzz(func(t *testing.T, object []byte, lines bool, limit int) {
		limit = max(limit, 0)
		var items [][]byte
		err := readItems(object, lines, limit, func(item []byte) error { items = append(items, item); return nil })
		if limit > 0 && len(items) > limit {
			t.Fatalf("%d items of %d", len(items), limit)
		}
		for _, item := range items {
			if !json.Valid(item) || len(item) > maxPayload {
				t.Fatalf("%q", item)
			}
		}
		if err == nil && !lines && limit == 0 { // what was read is the array, compacted
			var list []json.RawMessage
			if json.Unmarshal(object, &list) != nil || len(list) != len(items) {
				t.Fatalf("%q gives %d items", object, len(items))
			}
		}
	})
}

// The histories of a Map Run; those that succeed and fail follow recordings of
// AWS as others published them, the places of the Aborted events doc.go.
func init() {
	histories = append(histories, []struct {
		name, definition string
		f                any
		do               func(h host, arn string)
		want             string
	}{
		{"a Map Run has no events of its children", distributedMap(`"Items":[1,2]`, "C", passChild), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 2
			4 3 MapRunStarted
			5 4 MapRunSucceeded
			6 5 MapStateSucceeded
			7 6 MapStateExited M
			8 7 ExecutionSucceeded`},
		{"a Map Run over its threshold", distributedMap(`"Items":[2,1]`, "C", oddFails), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 2
			4 3 MapRunStarted
			5 4 MapRunFailed States.ExceedToleratedFailureThreshold
			6 5 MapStateFailed
			7 6 ExecutionFailed States.ExceedToleratedFailureThreshold`},
		{"a Map Run whose items cannot be read", distributedMap(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"nope"},"ReaderConfig":{"InputType":"JSON"}}`, "C", passChild), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 0
			4 3 MapRunStarted
			5 4 MapRunFailed States.ItemReaderFailed
			6 5 MapStateFailed
			7 6 ExecutionFailed States.ItemReaderFailed`},
		{"a selector that gives nothing", distributedMap(`"Items":[1],"ItemSelector":"{% $nope %}"`, "C", passChild), nil, nil, `
			1 0 ExecutionStarted
			2 0 MapStateEntered M
			3 2 MapStateStarted 1
			4 3 MapRunStarted
			5 4 EvaluationFailed M States.QueryEvaluationError ItemSelector
			6 5 MapRunFailed States.QueryEvaluationError
			7 6 MapStateFailed
			8 7 ExecutionFailed States.QueryEvaluationError`},
	}...)
}

// A child's history is an execution's own.
func TestHistoryOfAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{"f": answers(`1`)})
		h.wait(h.start(h.create("m", distributedMap(`"Items":[{"a": 1}],"Label":"L"`, "C", `"C":{`+callF+`,"Output":{},"End":true}`)), "e", `{}`))
		_, events := h.history(h.childrenOf("m/L")[0])
		var got []string
		for _, e := range events {
			got = append(got, line(e))
		}
		want := "1 0 ExecutionStarted\n2 0 TaskStateEntered C\n3 2 TaskScheduled\n4 3 TaskStarted\n5 4 TaskSucceeded\n6 5 TaskStateExited C\n7 6 ExecutionSucceeded"
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("got\n%s", text)
		}
		if input := events[0]["executionStartedEventDetails"].(map[string]any)["input"]; input != `{"a":1}` {
			t.Error(input)
		}
	})
}

// Each write of a Map Run, one after the other, fails: once before it is on
// disk, once after. The next Open goes on from what is on disk: the output is
// right, each item has one child, and nothing of the Map Run is left.
//
// covers: U5
func TestWritesOfAMapRunThatFail(t *testing.T) {
	definition := distributedMap(readerOf(`"InputType":"JSONL"`)+`,"MaxConcurrency":2,"Label":"L"`, "A", `
		"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":{"name":"{% $states.context.Execution.Name %}","item":"{% $states.input %}"}},"Output":"{% $states.input * 2 %}","End":true}`)
	store := objects{"b/k": "1\n2\n3\n"}
	reached := 0
	for write := 3; write < 25; write++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "states.db")
				var mu sync.Mutex
				names := map[string]map[string]bool{} // of the children by item
				lambda := functions{"f": func(_ context.Context, payload []byte) ([]byte, string, error) {
					var in struct {
						Name string
						Item json.Number
					}
					if err := json.Unmarshal(payload, &in); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					if names[in.Item.String()] == nil {
						names[in.Item.String()] = map[string]bool{}
					}
					names[in.Item.String()][in.Name] = true
					return []byte(`1`), "", nil
				}}
				h := open(t, path, lambda, withObjects(store))
				n, failed := 1, false
				h.store.fault = func(committed bool) error {
					if !committed {
						n++
					}
					if n-1 >= write && committed == after || n-1 > write {
						failed = true
						return errors.New("the disk is gone")
					}
					return nil
				}
				arn := h.start(h.create("m", definition), "e", `{"key":"k"}`)
				synctest.Wait()
				h.Close()
				if failed {
					reached++
				}
				h = open(t, path, lambda, withObjects(store))
				defer h.Close()
				checkOutcome(t, h.wait(arn), `[2,4,6]`)
				h.settled()
				if children := h.childrenOf("m/L"); len(children) != 3 {
					t.Errorf("write %d, after %v: %d children of 3 items", write, after, len(children))
				}
				for item, by := range names {
					if len(by) != 1 {
						t.Errorf("write %d, after %v: item %s has the children %v", write, after, item, by)
					}
				}
				if len(names) != 3 {
					t.Errorf("write %d, after %v: the items seen are %v", write, after, names)
				}
			})
		}
	}
	if reached < 10 {
		t.Errorf("only %d faults were reached", reached)
	}
}

// 10,000 items: what is in memory is the children that run, and the file keeps
// their records and the last histories.
//
// covers: R5
func TestTenThousandItems(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 children")
	}
	var lines strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&lines, "{\"n\":%d,\"pad\":%q}\n", i, strings.Repeat("x", 150))
	}
	var most atomic.Int64
	var h host
	h = newHost(t, functions{"f": func(context.Context, []byte) ([]byte, string, error) {
		h.mu.Lock()
		n := int64(len(h.running))
		h.mu.Unlock()
		most.Store(max(most.Load(), n))
		return []byte(`1`), "", nil
	}}, withObjects(objects{"b/k": lines.String()}), func(o *Options) { o.KeepHistories = 100 })
	m := h.create("m", distributedMap(readerOf(`"InputType":"JSONL"`)+`,"MaxConcurrency":50,"Output":"{% $sum($states.result) %}"`, "A", `"A":{`+callF+`,"Output":"{% $states.input.n %}","End":true}`))
	checkOutcome(t, h.wait(h.start(m, "e", `{"key":"k"}`)), fmt.Sprint(10000*9999/2))
	h.settled()
	if most.Load() > 51 {
		t.Errorf("%d executions were in memory", most.Load())
	}
	if counts := h.keys("executions", "names", "kept", "history"); counts["executions"] != 10001 || counts["names"] != 10001 || counts["kept"] > 110 || counts["history"] > 110*8 {
		t.Error(counts)
	}
}

// A file of the version before distributed Maps is taken over: what had ended
// there is kept as long as anything else.
func TestAFileOfVersionOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "states.db")
		h := open(t, path, functions{})
		m := h.create("m", passing)
		for i := range 5 {
			h.wait(h.start(m, fmt.Sprint("e", i), `{}`))
		}
		running := h.start(h.create("w", machine("A", `"A":{"Type":"Wait","Seconds":10,"End":true}`)), "e", `{}`)
		synctest.Wait()
		if err := h.store.update(func(tx *bbolt.Tx) error {
			for _, name := range [][]byte{bucketMapRuns, bucketItems, bucketResults, bucketGarbage, bucketEnded, bucketKept} {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
			}
			return tx.Bucket(bucketMeta).Put([]byte("version"), []byte("1"))
		}); err != nil {
			t.Fatal(err)
		}
		h.Close()
		h = open(t, path, functions{}, func(o *Options) { o.KeepHistories = 2 })
		defer h.Close()
		h.wait(running)
		synctest.Wait()
		kept := 0
		for i := range 5 {
			if _, err := h.try("GetExecutionHistory", map[string]any{"executionArn": h.executionARN("m", fmt.Sprint("e", i))}); err == nil {
				kept++
			}
		}
		if counts := h.keys("ended", "kept"); counts["ended"] != 6 || counts["kept"] > 3 || kept > 3 {
			t.Errorf("%v, %d histories", counts, kept)
		}
	})
}
