package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
				h.emptied()
			})
		})
	}
}

// emptied checks that nothing of Map Runs that are over is left.
func (h host) emptied() {
	h.t.Helper()
	for name, n := range h.keys("mapRuns", "items", "results", "garbage", "running", "frames") {
		if n > 0 {
			h.t.Errorf("%d keys are left in %s", n, name)
		}
	}
}

// A child that fails within the tolerance stands in the array as what it is.
func TestAFailedChildIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		out := h.run(distributedMap(`"Items":[1],"Label":"L","ToleratedFailureCount":1`, "C", oddFails), `{}`)
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
			synctestPause()
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
		h.emptied()
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
		h.emptied()
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
		synctestSleep(retention - 2*hour)
		h.do("DescribeExecution", map[string]any{"executionArn": arns[0]})
		synctestSleep(4 * hour)
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
