package states

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
)

// TestMain is also the child of the kill tests: a service on the file, the functions
// and the address that the environment names.
func TestMain(m *testing.M) {
	if path := os.Getenv("PX_STATES_CHILD"); path != "" {
		if err := child(path, os.Getenv("PX_STATES_FUNCTIONS"), os.Getenv("PX_STATES_READY")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type remote string

func (r remote) Invoke(ctx context.Context, name string, payload []byte) ([]byte, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(r)+"/"+name, bytes.NewReader(payload))
	if err != nil {
		return nil, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	return out, response.Header.Get("X-Amz-Function-Error"), err
}

func child(path, functions, ready string) error {
	s, err := Open(Options{Path: path, Lambda: remote(functions), Objects: objects{"b/items": killedItems()}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(ready+".new", []byte("http://"+listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(ready+".new", ready); err != nil {
		return err
	}
	// The parent kills; if it is gone, standard input ends.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	return http.Serve(listener, s)
}

const killed = `
	"First":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"plus","Payload":{"run":"{% $states.context.Execution.Name %}","n":"{% $states.input.n %}"}},"Assign":{"n":"{% $states.result.Payload %}","i":0},"Output":{},"Next":"Each"},
	"Each":{"Type":"Map","Items":"{% [1,2,3,4] %}","MaxConcurrency":2,"ItemProcessor":{"StartAt":"Plus","States":{
		"Plus":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"flaky","Payload":{"run":"{% $states.context.Execution.Name %}","n":"{% $n + $states.input * 10 %}"}},"Retry":[{"ErrorEquals":["Again"],"IntervalSeconds":1,"JitterStrategy":"FULL","MaxAttempts":20}],"Output":"{% $states.result.Payload %}","End":true}}},
		"Assign":{"sum":"{% $sum($states.result) %}"},"Next":"Both"},
	"Both":{"Type":"Parallel","Branches":[
		{"StartAt":"Pause","States":{"Pause":{"Type":"Wait","Seconds":1,"Output":"{% 'waited' %}","End":true}}},
		{"StartAt":"Token","States":{"Token":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","Arguments":{"FunctionName":"token","Payload":{"run":"{% $states.context.Execution.Name %}","token":"{% $states.context.Task.Token %}","n":"{% $sum %}"}},"End":true}}}],
		"Assign":{"token":"{% $states.result[1] %}"},"Next":"More"},
	"More":{"Type":"Choice","Choices":[{"Condition":"{% $i < 3 %}","Next":"Loop"}],"Default":"Done"},
	"Loop":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"plus","Payload":{"run":"{% $states.context.Execution.Name %}","n":"{% $i %}"}},"Assign":{"i":"{% $states.result.Payload %}"},"Output":{},"Next":"More"},
	"Done":{"Type":"Succeed","Output":{"n":"{% $n %}","sum":"{% $sum %}","token":"{% $token %}","i":"{% $i %}"}}`

// After kill -9 at random moments every execution that was acknowledged ends
// exactly once, with the right output, and what has ended does not start again.
//
// covers: U5
func TestKill(t *testing.T) {
	kills, executions := 25, 30
	if testing.Short() {
		kills, executions = 5, 6
	}
	dir := t.TempDir()
	var mu sync.Mutex
	address := ""
	current := func() string { mu.Lock(); defer mu.Unlock(); return address }

	var answering sync.WaitGroup
	stop := make(chan struct{})
	lambda := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			N     int
			Token string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		if r.URL.Path == "/token" {
			answering.Go(func() { answerToken(t, current, stop, in.Token, in.N) })
			fmt.Fprint(w, `{}`)
			return
		}
		if r.URL.Path == "/flaky" && rand.IntN(6) == 0 {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			fmt.Fprint(w, `{"errorType":"Again","errorMessage":""}`)
			return
		}
		fmt.Fprint(w, in.N+1)
	}))
	defer lambda.Close()
	defer answering.Wait()
	defer close(stop)

	launch := func() *exec.Cmd {
		cmd, at := launchChild(t, dir, lambda.URL)
		mu.Lock()
		address = at
		mu.Unlock()
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		cmd.Process.Kill()
		cmd.Wait()
	}

	cmd := launch()
	defer func() { kill(cmd) }()
	must := func(op string, in map[string]any) map[string]any {
		out, err := post(current(), op, in)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		return out
	}
	arn := must("CreateStateMachine", map[string]any{"name": "m", "roleArn": roleARN, "definition": machine("First", killed)})["stateMachineArn"]

	acknowledged := map[string]string{} // execution ARN → input n
	ended := map[string]map[string]any{}
	collect := func() {
		for execution := range acknowledged {
			out, err := post(current(), "DescribeExecution", map[string]any{"executionArn": execution})
			if err != nil {
				t.Fatalf("acknowledged and missing: %v", err)
			}
			if before := ended[execution]; before != nil && !reflect.DeepEqual(before, out) {
				t.Fatalf("what had ended as %v is now %v", before, out)
			}
			if out["status"] != statusRunning {
				ended[execution] = out
			}
		}
	}
	for round := range kills {
		lost := make(chan struct{})
		delay := time.Duration(5+rand.IntN(250)) * time.Millisecond
		go func(cmd *exec.Cmd) {
			time.Sleep(delay)
			kill(cmd)
			close(lost)
		}(cmd)
		for n := range 3 {
			i := round*3 + n
			if len(acknowledged) >= executions {
				break
			}
			input := fmt.Sprintf(`{"n":%d}`, i)
			out, err := post(current(), "StartExecution", map[string]any{"stateMachineArn": arn, "name": fmt.Sprint("e", i), "input": input})
			if err == nil {
				acknowledged[out["executionArn"].(string)] = fmt.Sprint(i)
			}
		}
		<-lost
		cmd = launch()
		collect()
	}
	deadline := time.Now().Add(60 * time.Second)
	for len(ended) < len(acknowledged) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d executions have not ended", len(acknowledged)-len(ended), len(acknowledged))
		}
		time.Sleep(50 * time.Millisecond)
		collect()
	}
	if len(ended) < executions/2 {
		t.Fatalf("only %d executions were acknowledged", len(ended))
	}
	kill(cmd)
	cmd = launch()
	collect()
	for execution, input := range acknowledged {
		var n int
		fmt.Sscan(input, &n)
		sum := 4*(n+1) + 100 + 4
		if want := fmt.Sprintf(`{"n":%d,"sum":%d,"token":%d,"i":3}`, n+1, sum, sum); ended[execution]["output"] != want {
			t.Errorf("%s ended with %v, want %s", execution, ended[execution], want)
		}
		out := must("GetExecutionHistory", map[string]any{"executionArn": execution, "maxResults": 1000})
		ends := 0
		for i, e := range out["events"].([]any) {
			e := e.(map[string]any)
			if e["id"] != float64(i+1) {
				t.Errorf("%s: event %d has the id %v", execution, i+1, e["id"])
			}
			if strings.HasPrefix(e["type"].(string), "Execution") && e["type"] != "ExecutionStarted" {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%s ended %d times", execution, ends)
		}
	}
}

// launchChild starts a service of its own on the folder's file and gives its
// address.
func launchChild(t *testing.T, dir, functions string) (*exec.Cmd, string) {
	ready := filepath.Join(dir, "ready")
	os.Remove(ready)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PX_STATES_CHILD="+filepath.Join(dir, "states.db"), "PX_STATES_FUNCTIONS="+functions, "PX_STATES_READY="+ready)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if text, err := os.ReadFile(ready); err == nil {
			return cmd, string(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
	t.Fatal("the child does not get ready")
	return nil, ""
}

const killedCount = 60

// killedItems are the items of the Map Runs that are killed, a line each.
func killedItems() string {
	var lines strings.Builder
	for i := range killedCount {
		fmt.Fprintf(&lines, "%d\n", i)
	}
	return lines.String()
}

var killedMap = distributedMap(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Arguments":{"Bucket":"b","Key":"items"},"ReaderConfig":{"InputType":"JSONL"}},"MaxConcurrency":8,"ToleratedFailurePercentage":20,"Output":"{% $states.result.(Error ? Error : $) %}"`, "A", `
	"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":{"name":"{% $states.context.Execution.Name %}","item":"{% $states.input %}"}},"Assign":{"v":"{% $states.result.Payload %}"},"Next":"W"},
	"W":{"Type":"Choice","Choices":[{"Condition":"{% $v % 10 = 0 %}","Next":"F"}],"Default":"B"},
	"F":{"Type":"Fail","Error":"Ten"},
	"B":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"f","Payload":{"name":"{% $states.context.Execution.Name %}","item":"{% $v %}"}},"Output":"{% $states.result.Payload %}","End":true}`)

// After kill -9 at random moments a Map Run ends with the right array; each item
// had one child, and a child that ended did not start again.
//
// covers: U5, R5
func TestKillOfMapRuns(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 5
	}
	dir := t.TempDir()
	var mu sync.Mutex
	names := map[int]map[string]bool{} // of the children that asked, by item
	lambda := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Name string
			Item int
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if names[in.Item] == nil {
			names[in.Item] = map[string]bool{}
		}
		names[in.Item][in.Name] = true
		fmt.Fprint(w, in.Item+1000)
	}))
	defer lambda.Close()
	cmd, address := launchChild(t, dir, lambda.URL)
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	must := func(op string, in map[string]any) map[string]any {
		out, err := post(address, op, in)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		return out
	}
	m := must("CreateStateMachine", map[string]any{"name": "m", "roleArn": roleARN, "definition": killedMap})["stateMachineArn"]
	arn := must("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{}`})["executionArn"]
	running := 0
	for range kills {
		time.Sleep(time.Duration(5+rand.IntN(60)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		cmd, address = launchChild(t, dir, lambda.URL)
		if must("DescribeExecution", map[string]any{"executionArn": arn})["status"] == statusRunning {
			running++
		}
	}
	t.Logf("%d of %d kills met it running", running, kills)
	if running == 0 {
		t.Error("no kill met the Map Run")
	}
	out := map[string]any{"status": statusRunning}
	for range 1200 {
		if out = must("DescribeExecution", map[string]any{"executionArn": arn}); out["status"] != statusRunning {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var want []any
	for i := range killedCount {
		if i%10 == 0 {
			want = append(want, "Ten")
		} else {
			want = append(want, float64(i+2000))
		}
	}
	var got []any
	if err := json.Unmarshal([]byte(fmt.Sprint(out["output"])), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it ends %v (%v)", out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	all := map[string]bool{}
	for i := range killedCount {
		if len(names[i]) != 1 {
			t.Errorf("item %d had the children %v", i, names[i])
		}
		for name := range names[i] {
			all[name] = true
		}
	}
	if len(all) != killedCount {
		t.Errorf("%d children of %d items", len(all), killedCount)
	}
}

// post calls an operation over HTTP.
func post(address, op string, in map[string]any) (map[string]any, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Amz-Target", targetPrefix+op)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, &Error{Code: fmt.Sprint(out["__type"]), Message: fmt.Sprint(out["message"]), Status: response.StatusCode}
	}
	return out, nil
}

// answerToken sends the token's answer until somebody has taken it.
func answerToken(t *testing.T, current func() string, stop chan struct{}, token string, n int) {
	for {
		_, err := post(current(), "SendTaskSuccess", map[string]any{"taskToken": token, "output": fmt.Sprint(n)})
		var known *Error
		switch {
		case err == nil, errors.As(err, &known) && known.Code == "TaskTimedOut": // taken, now or before a kill
			return
		case known != nil && known.Status < 500:
			t.Errorf("the token's answer: %v", err)
			return
		}
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A new Open with a later clock does at once what came due while nobody ran.
func TestOpenCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "states.db")
		f, tokens := tokens()
		h := open(t, path, functions{"f": f})
		wait := h.start(h.create("wait", machine("A", `"A":{"Type":"Wait","Seconds":100,"Next":"B"},"B":{"Type":"Wait","Seconds":100,"Output":"w","End":true}`)), "e", `{}`)
		token := h.start(h.create("token", machine("A", `"A":{`+callToken+`,"HeartbeatSeconds":500,"End":true}`)), "e", `{}`)
		silent := h.start(h.create("silent", machine("A", `"A":{`+callToken+`,"TimeoutSeconds":150,"End":true}`)), "e", `{}`)
		late := h.start(h.create("late", strings.Replace(machine("A", `"A":{"Type":"Wait","Seconds":1000,"End":true}`), `{`, `{"TimeoutSeconds":150,`, 1)), "e", `{}`)
		first, second := <-tokens, <-tokens
		synctest.Wait()
		h.Close()
		time.Sleep(160 * time.Second)

		start := time.Now()
		h = open(t, path, functions{"f": f})
		defer h.Close()
		synctest.Wait()
		checkOutcome(t, h.do("DescribeExecution", map[string]any{"executionArn": silent}), `FAILED States.Timeout`)
		checkOutcome(t, h.do("DescribeExecution", map[string]any{"executionArn": late}), `TIMED_OUT States.Timeout`)
		codes := map[string]int{}
		for _, token := range []string{first, second} {
			_, err := h.try("SendTaskSuccess", map[string]any{"taskToken": token, "output": `"t"`})
			codes[code(err)]++
		}
		if codes[""] != 1 || codes["TaskTimedOut"] != 1 {
			t.Errorf("the tokens of before: %v", codes)
		}
		checkOutcome(t, h.wait(token), `"t"`)
		checkOutcome(t, h.wait(wait), `"w"`)
		// The first wait was over; the second began when the host was there again.
		if took := time.Since(start); took < 99*time.Second || took > 130*time.Second {
			t.Errorf("the rest of the waits took %v", took)
		}
		if len(tokens) != 0 {
			t.Error("a function that had answered was called again")
		}
	})
}

// A call whose answer was not written is made again, with the same payload.
func TestAnInterruptedCallIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "states.db")
		var payloads []string
		record := func(next func(context.Context, []byte) ([]byte, string, error)) functions {
			return functions{"f": func(ctx context.Context, payload []byte) ([]byte, string, error) {
				payloads = append(payloads, string(payload))
				return next(ctx, payload)
			}}
		}
		h := open(t, path, record(hang))
		arn := h.start(h.create("m", machine("A", `"A":{`+callToken+`,"TimeoutSeconds":100,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"Z"}],"End":true},"Z":{"Type":"Succeed","Output":"{% $states.input.Error %}"}`)), "e", `{}`)
		synctest.Wait()
		h.Close()
		time.Sleep(90 * time.Second)
		h = open(t, path, record(answers(`{}`)))
		defer h.Close()
		start := time.Now()
		checkOutcome(t, h.wait(arn), `"States.Timeout"`)
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("the timeout began anew: it took %v more", took)
		}
		if len(payloads) != 2 || payloads[0] != payloads[1] {
			t.Errorf("the calls were %q", payloads)
		}
	})
}

// Each write of an execution, one after the other, fails: once before it is on
// disk, once after. Nothing is acted on that is not on disk, and the next Open
// goes on from what is: the output is right, and only a call whose answer was
// not written is made twice.
//
// covers: U5
func TestWritesThatFail(t *testing.T) {
	definition := machine("A", `
		"A":{`+callF+`,"Output":"{% $states.result.Payload %}","Next":"B"},
		"B":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"g","Payload":"{% $states.input %}"},"Output":"{% $states.result.Payload %}","End":true}`)
	// Write 1 creates the machine, 2 the execution; 3 calls f; 4 has f's answer
	// and calls g; 5 has g's answer and ends.
	for _, c := range []struct {
		name    string
		write   int
		after   bool
		started bool   // StartExecution was acknowledged
		exists  bool   // the execution is there afterwards
		before  string // calls until the fault
		calls   string // calls in all
	}{
		{"the start is not written", 2, false, false, false, "", ""},
		{"the start is written, its answer lost", 2, true, false, true, "", "f g"},
		{"the first call is not written", 3, false, true, true, "", "f g"},
		{"the first call is written and not made", 3, true, true, true, "", "f g"},
		{"the first answer is not written", 4, false, true, true, "f", "f f g"},
		{"the first answer is written", 4, true, true, true, "f", "f g"},
		{"the end is not written", 5, false, true, true, "f g", "f g g"},
		{"the end is written", 5, true, true, true, "f g", "f g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "states.db")
				var mu sync.Mutex
				var calls []string
				note := func(name, out string) func(context.Context, []byte) ([]byte, string, error) {
					return func(context.Context, []byte) ([]byte, string, error) {
						mu.Lock()
						defer mu.Unlock()
						calls = append(calls, name)
						return []byte(out), "", nil
					}
				}
				lambda := functions{"f": note("f", `1`), "g": note("g", `2`)}
				h := open(t, path, lambda)
				n := 1
				h.store.fault = func(committed bool) error {
					if !committed {
						n++
					}
					if n-1 >= c.write && committed == c.after || n-1 > c.write {
						return errors.New("the disk is gone")
					}
					return nil
				}
				m := h.create("m", definition)
				_, err := h.try("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{}`})
				if (err == nil) != c.started {
					t.Errorf("the start answers %v", err)
				}
				synctest.Wait()
				if got := strings.Join(calls, " "); got != c.before {
					t.Errorf("before the restart the calls were %q, want %q", got, c.before)
				}
				h.Close()
				h = open(t, path, lambda)
				defer h.Close()
				arn := h.executionARN("m", "e")
				if _, err := h.try("DescribeExecution", map[string]any{"executionArn": arn}); (err == nil) != c.exists {
					t.Fatalf("afterwards: %v", err)
				}
				if c.exists {
					checkOutcome(t, h.wait(arn), `2`)
				}
				if got := strings.Join(calls, " "); got != c.calls {
					t.Errorf("the calls were %q, want %q", got, c.calls)
				}
			})
		})
	}
}

// A definition that a later version refuses ends its executions, and only them.
func TestADefinitionThatIsNotAcceptedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "states.db")
		h := open(t, path, functions{})
		old := h.start(h.create("old", waiting), "e", `{}`)
		other := h.start(h.create("other", machine("A", `"A":{"Type":"Wait","Seconds":10,"Output":"{% 'fine' %}","End":true}`)), "e", `{}`)
		synctest.Wait()
		err := h.store.update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketDefinitions).Put([]byte(digestOf(waiting)), []byte(`{"QueryLanguage":"JSONPath"}`))
		})
		if err != nil {
			t.Fatal(err)
		}
		h.Close()
		h = open(t, path, functions{})
		defer h.Close()
		out := h.do("DescribeExecution", map[string]any{"executionArn": old})
		checkOutcome(t, out, "FAILED States.Runtime")
		if !strings.Contains(out["cause"].(string), "JSONPath") {
			t.Errorf("the cause is %v", out["cause"])
		}
		types, _ := h.history(old)
		if got := strings.Join(types, " "); got != "ExecutionStarted WaitStateEntered ExecutionFailed" {
			t.Errorf("the history is %s", got)
		}
		checkOutcome(t, h.wait(other), `"fine"`)
	})
}

// Values that look like nothing survive a restart: null as an input, a variable
// and an item; and the text of a payload is not changed by being saved.
func TestSavedValuesStayWhatTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "states.db")
		h := open(t, path, functions{})
		arn := h.start(h.create("m", machine("A", `
			"A":{"Type":"Pass","Assign":{"nothing":null,"text":"{% $states.input.text %}"},"Output":null,"Next":"W"},
			"W":{"Type":"Wait","Seconds":100,"Next":"M"},
			"M":{"Type":"Map","Items":[null,0,"",false],"ItemProcessor":{"StartAt":"I","States":{
				"I":{"Type":"Wait","Seconds":100,"Output":"{% {'item': $states.context.Map.Item.Value, 'nothing': $nothing, 'input': $states.input, 'text': $text} %}","End":true}}},"End":true}`)),
			"e", `{"text":"<&> \u2028 é 😀"}`)
		for range 3 {
			time.Sleep(60 * time.Second)
			synctest.Wait()
			h.Close()
			h = open(t, path, functions{})
		}
		defer h.Close()
		var got, want any
		item := func(v string) string {
			return `{"item":` + v + `,"nothing":null,"input":` + v + `,"text":"<&> \u2028 é 😀"}`
		}
		json.Unmarshal([]byte("["+item("null")+","+item("0")+","+item(`""`)+","+item("false")+"]"), &want)
		out := h.wait(arn)
		if err := json.Unmarshal([]byte(fmt.Sprint(out["output"])), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v (%v)", out, err)
		}
	})
}

// Executions that ended are not read at the start.
func TestFinishedExecutionsDoNotSlowTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states.db")
	h := open(t, path, functions{})
	m := h.create("m", passing)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { h.wait(h.start(m, fmt.Sprint("e", i), `{}`)) })
	}
	wg.Wait()
	arn := h.start(h.create("w", waiting), "e", `{}`)
	h.Close()
	h = open(t, path, functions{})
	defer h.Close()
	h.mu.Lock()
	loaded := len(h.running)
	h.mu.Unlock()
	if loaded != 1 {
		t.Errorf("%d executions were loaded, want the running one alone", loaded)
	}
	h.do("StopExecution", map[string]any{"executionArn": arn})
}
