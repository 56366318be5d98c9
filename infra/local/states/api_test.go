package states

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"
)

const passing = `{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Pass","End":true}}}`
const waiting = `{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Wait","Seconds":1000,"End":true}}}`

// inputs are the SDK's own types, one an operation that is supported.
var inputs = map[string]any{
	"CreateStateMachine": sfn.CreateStateMachineInput{}, "UpdateStateMachine": sfn.UpdateStateMachineInput{},
	"DescribeStateMachine": sfn.DescribeStateMachineInput{}, "ListStateMachines": sfn.ListStateMachinesInput{},
	"DeleteStateMachine": sfn.DeleteStateMachineInput{}, "StartExecution": sfn.StartExecutionInput{},
	"DescribeExecution": sfn.DescribeExecutionInput{}, "ListExecutions": sfn.ListExecutionsInput{},
	"StopExecution": sfn.StopExecutionInput{}, "GetExecutionHistory": sfn.GetExecutionHistoryInput{},
	"SendTaskSuccess": sfn.SendTaskSuccessInput{}, "SendTaskFailure": sfn.SendTaskFailureInput{},
	"SendTaskHeartbeat": sfn.SendTaskHeartbeatInput{}, "ValidateStateMachineDefinition": sfn.ValidateStateMachineDefinitionInput{},
}

// Every input field that the SDK knows is supported or refused by name, and
// every operation that the SDK knows is supported or refused by name.
//
// covers: H2
func TestEveryFieldIsDecidedOn(t *testing.T) {
	h := newHost(t, functions{})
	for name, op := range operations {
		in, ok := inputs[name]
		if !ok {
			t.Errorf("the test does not know the operation %s", name)
			continue
		}
		listed := map[string]bool{}
		for _, field := range append(append([]string{}, op.supported...), op.refused...) {
			if listed[field] {
				t.Errorf("%s lists %s twice", name, field)
			}
			listed[field] = true
		}
		kind := reflect.TypeOf(in)
		for i := range kind.NumField() {
			field := kind.Field(i).Name
			if field == "noSmithyDocumentSerde" {
				continue
			}
			r := []rune(field)
			r[0] = unicode.ToLower(r[0])
			if !listed[string(r)] {
				t.Errorf("%s does not list the field %s", name, string(r))
			}
			delete(listed, string(r))
		}
		for field := range listed {
			t.Errorf("%s lists %s, which the SDK does not know", name, field)
		}
		for _, field := range op.refused {
			_, err := h.try(name, map[string]any{field: "x"})
			if code(err) != "ValidationException" || !strings.Contains(err.Error(), field) {
				t.Errorf("%s with %s: %v", name, field, err)
			}
		}
		if _, err := h.try(name, map[string]any{"nonsense": nil}); code(err) != "ValidationException" || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s with an unknown field: %v", name, err)
		}
		if _, err := h.Do(context.Background(), name, []byte(`[1]`)); code(err) != "SerializationException" {
			t.Errorf("%s of an array: %v", name, err)
		}
	}
	client := reflect.TypeOf(&sfn.Client{})
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		if name == "Options" || operations[name].handle != nil {
			continue
		}
		if _, err := h.try(name, nil); code(err) != "UnknownOperationException" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sdk(t *testing.T, h host) *sfn.Client {
	server := httptest.NewServer(h.Service)
	t.Cleanup(server.Close)
	return sfn.New(sfn.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
}

// The real SDK understands every answer, and gets its own error types.
func TestTheSDKIsUnderstood(t *testing.T) {
	ctx := context.Background()
	f, tokens := tokens()
	h := newHost(t, functions{"f": f})
	c := sdk(t, h)
	definition := machine("A", `"A":{`+callToken+`,"End":true}`)
	created, err := c.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("m"), Definition: &definition, RoleArn: aws.String(roleARN), Type: types.StateMachineTypeStandard})
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(*created.CreationDate).Abs() > time.Minute {
		t.Errorf("created at %v", created.CreationDate)
	}
	started, err := c.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: created.StateMachineArn, Name: aws.String("e"), Input: aws.String(`{"x":"<&>"}`)})
	if err != nil {
		t.Fatal(err)
	}
	token := <-tokens
	if _, err := c.SendTaskHeartbeat(ctx, &sfn.SendTaskHeartbeatInput{TaskToken: &token}); err != nil {
		t.Error(err)
	}
	if _, err := c.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String(`{"done":true}`)}); err != nil {
		t.Error(err)
	}
	described, err := c.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
	if err != nil {
		t.Fatal(err)
	}
	if described.Status != types.ExecutionStatusSucceeded || *described.Output != `{"done":true}` || *described.Input != `{"x":"<&>"}` || described.StopDate == nil {
		t.Errorf("described as %+v", described)
	}
	var all []types.HistoryEvent
	pages := sfn.NewGetExecutionHistoryPaginator(c, &sfn.GetExecutionHistoryInput{ExecutionArn: started.ExecutionArn, MaxResults: 2})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) > 2 {
			t.Errorf("a page of %d", len(page.Events))
		}
		all = append(all, page.Events...)
	}
	var last types.HistoryEvent
	for i, e := range all {
		if e.Id != int64(i+1) {
			t.Errorf("event %d has id %d", i, e.Id)
		}
		last = e
	}
	if last.Type != types.HistoryEventTypeExecutionSucceeded || *last.ExecutionSucceededEventDetails.Output != `{"done":true}` {
		t.Errorf("the last event is %+v", last)
	}
	reversed, err := c.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: started.ExecutionArn, ReverseOrder: true, IncludeExecutionData: aws.Bool(false)})
	if err != nil {
		t.Fatal(err)
	}
	if len(reversed.Events) != len(all) || reversed.Events[0].Id != int64(len(all)) || reversed.Events[0].ExecutionSucceededEventDetails.Output != nil {
		t.Errorf("in reverse and without data: %+v", reversed.Events[0])
	}
	list, err := c.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: created.StateMachineArn, StatusFilter: types.ExecutionStatusSucceeded})
	if err != nil || len(list.Executions) != 1 || *list.Executions[0].Name != "e" {
		t.Errorf("listed %+v, %v", list, err)
	}
	validated, err := c.ValidateStateMachineDefinition(ctx, &sfn.ValidateStateMachineDefinitionInput{Definition: aws.String(`{"StartAt":"A"}`)})
	if err != nil || validated.Result != types.ValidateStateMachineDefinitionResultCodeFail || len(validated.Diagnostics) == 0 || *validated.Diagnostics[0].Location == "" {
		t.Errorf("validated as %+v, %v", validated, err)
	}
	updated, err := c.UpdateStateMachine(ctx, &sfn.UpdateStateMachineInput{StateMachineArn: created.StateMachineArn, Definition: aws.String(passing)})
	if err != nil || updated.RevisionId == nil {
		t.Errorf("updated as %+v, %v", updated, err)
	}
	machine, err := c.DescribeStateMachine(ctx, &sfn.DescribeStateMachineInput{StateMachineArn: created.StateMachineArn})
	if err != nil || *machine.Definition != passing || *machine.RevisionId != *updated.RevisionId || machine.Status != types.StateMachineStatusActive {
		t.Errorf("described as %+v, %v", machine, err)
	}

	var exists *types.ExecutionAlreadyExists
	if _, err := c.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: created.StateMachineArn, Name: aws.String("e"), Input: aws.String(`{"x":"<&>"}`)}); !errors.As(err, &exists) {
		t.Errorf("a closed name: %v", err)
	}
	var timedOut *types.TaskTimedOut
	if _, err := c.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String(`1`)}); !errors.As(err, &timedOut) {
		t.Errorf("a used token: %v", err)
	}
	var invalidToken *types.InvalidToken
	if _, err := c.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: aws.String("x"), Output: aws.String(`1`)}); !errors.As(err, &invalidToken) {
		t.Errorf("a forged token: %v", err)
	}
	var missing *types.StateMachineDoesNotExist
	if _, err := c.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(h.machineARN("none"))}); !errors.As(err, &missing) {
		t.Errorf("a missing machine: %v", err)
	}
	var invalid *types.InvalidDefinition
	if _, err := c.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{Name: aws.String("n"), Definition: aws.String(`{}`), RoleArn: aws.String(roleARN)}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "/StartAt") {
		t.Errorf("a bad definition: %v", err)
	}
	var unknown smithy.APIError
	if _, err := c.CreateActivity(ctx, &sfn.CreateActivityInput{Name: aws.String("a")}); !errors.As(err, &unknown) || unknown.ErrorCode() != "UnknownOperationException" {
		t.Errorf("an activity: %v", err)
	}
}

func TestRefusedCalls(t *testing.T) {
	h := newHost(t, functions{})
	m := h.create("m", passing)
	h.wait(h.start(m, "e", `{}`))
	for _, c := range []struct {
		name, op string
		in       map[string]any
		code     string
	}{
		{"no name", "CreateStateMachine", map[string]any{"definition": passing, "roleArn": roleARN}, "ValidationException"},
		{"a bad name", "CreateStateMachine", map[string]any{"name": "a b", "definition": passing, "roleArn": roleARN}, "InvalidName"},
		{"too long a name", "CreateStateMachine", map[string]any{"name": strings.Repeat("n", 81), "definition": passing, "roleArn": roleARN}, "InvalidName"},
		{"a bad role", "CreateStateMachine", map[string]any{"name": "n", "definition": passing, "roleArn": "x"}, "InvalidArn"},
		{"an express machine", "CreateStateMachine", map[string]any{"name": "n", "definition": passing, "roleArn": roleARN, "type": "EXPRESS"}, "ValidationException"},
		{"another definition under the name", "CreateStateMachine", map[string]any{"name": "m", "definition": waiting, "roleArn": roleARN}, "StateMachineAlreadyExists"},
		{"an update of nothing", "UpdateStateMachine", map[string]any{"stateMachineArn": m}, "MissingRequiredParameter"},
		{"an update to nonsense", "UpdateStateMachine", map[string]any{"stateMachineArn": m, "definition": "{"}, "InvalidDefinition"},
		{"an ARN that is none", "DescribeStateMachine", map[string]any{"stateMachineArn": "m"}, "InvalidArn"},
		{"an ARN of an execution", "DescribeStateMachine", map[string]any{"stateMachineArn": h.executionARN("m", "e")}, "InvalidArn"},
		{"another account", "DescribeStateMachine", map[string]any{"stateMachineArn": "arn:aws:states:us-east-1:111111111111:stateMachine:m"}, "StateMachineDoesNotExist"},
		{"a bad execution name", "StartExecution", map[string]any{"stateMachineArn": m, "name": "a/b"}, "InvalidName"},
		{"an input that is not JSON", "StartExecution", map[string]any{"stateMachineArn": m, "input": "{"}, "InvalidExecutionInput"},
		{"an input with a name twice", "StartExecution", map[string]any{"stateMachineArn": m, "input": `{"a":1,"a":1}`}, "InvalidExecutionInput"},
		{"an input beyond a double", "StartExecution", map[string]any{"stateMachineArn": m, "input": `1e999`}, "InvalidExecutionInput"},
		{"an input with more after it", "StartExecution", map[string]any{"stateMachineArn": m, "input": `1 2`}, "InvalidExecutionInput"},
		{"too large an input", "StartExecution", map[string]any{"stateMachineArn": m, "input": `"` + strings.Repeat("x", maxPayload-1) + `"`}, "ValidationException"},
		{"an execution that is not there", "DescribeExecution", map[string]any{"executionArn": h.executionARN("m", "none")}, "ExecutionDoesNotExist"},
		{"stopping one that is not there", "StopExecution", map[string]any{"executionArn": h.executionARN("m", "none")}, "ExecutionDoesNotExist"},
		{"too long a cause", "StopExecution", map[string]any{"executionArn": h.executionARN("m", "e"), "cause": strings.Repeat("x", 32769)}, "ValidationException"},
		{"too many results", "ListExecutions", map[string]any{"stateMachineArn": m, "maxResults": 1001}, "ValidationException"},
		{"a status that is none", "ListExecutions", map[string]any{"stateMachineArn": m, "statusFilter": "DONE"}, "ValidationException"},
		{"a token of another list", "ListExecutions", map[string]any{"stateMachineArn": m, "nextToken": *nextToken("machines", "m")}, "InvalidToken"},
		{"a token that is none", "GetExecutionHistory", map[string]any{"executionArn": h.executionARN("m", "e"), "nextToken": "?"}, "InvalidToken"},
		{"a number for a string", "SendTaskSuccess", map[string]any{"taskToken": 1, "output": "1"}, "SerializationException"},
		{"no output", "SendTaskSuccess", map[string]any{"taskToken": "x"}, "ValidationException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := h.try(c.op, c.in); code(err) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
		})
	}
}

// covers: U1
func TestStartingTwiceUnderOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		m := h.create("m", waiting)
		first := h.do("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{"a":1}`})
		time.Sleep(time.Second)
		if again := h.do("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{"a":1}`}); !reflect.DeepEqual(first, again) {
			t.Errorf("the same start answers %v, then %v", first, again)
		}
		if _, err := h.try("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{"a":2}`}); code(err) != "ExecutionAlreadyExists" {
			t.Errorf("another input: %v", err)
		}
		h.do("StopExecution", map[string]any{"executionArn": first["executionArn"]})
		if _, err := h.try("StartExecution", map[string]any{"stateMachineArn": m, "name": "e", "input": `{"a":1}`}); code(err) != "ExecutionAlreadyExists" {
			t.Errorf("a closed name: %v", err)
		}
		if other := h.start(h.create("m2", waiting), "e", `{"a":1}`); other == first["executionArn"] {
			t.Error("names of two machines are one")
		}
	})
}

func TestAnUpdateLeavesRunningExecutions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		m := h.create("m", machine("A", `"A":{"Type":"Wait","Seconds":10,"Next":"B"},"B":{"Type":"Pass","Output":"old","End":true}`))
		arn := h.start(m, "before", `{}`)
		h.do("UpdateStateMachine", map[string]any{"stateMachineArn": m, "definition": machine("A", `"A":{"Type":"Pass","Output":"new","End":true}`)})
		checkOutcome(t, h.wait(h.start(m, "after", `{}`)), `"new"`)
		checkOutcome(t, h.wait(arn), `"old"`)
	})
}

func TestDeletingAMachineWaitsForItsExecutions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		m := h.create("m", waiting)
		arn := h.start(m, "e", `{}`)
		h.do("DeleteStateMachine", map[string]any{"stateMachineArn": m})
		if out := h.do("DescribeStateMachine", map[string]any{"stateMachineArn": m}); out["status"] != "DELETING" {
			t.Errorf("the status is %v", out["status"])
		}
		if _, err := h.try("StartExecution", map[string]any{"stateMachineArn": m, "name": "late"}); code(err) != "StateMachineDeleting" {
			t.Errorf("a late start: %v", err)
		}
		h.wait(arn)
		synctest.Wait()
		if _, err := h.try("DescribeStateMachine", map[string]any{"stateMachineArn": m}); code(err) != "StateMachineDoesNotExist" {
			t.Errorf("afterwards: %v", err)
		}
		h.do("DescribeExecution", map[string]any{"executionArn": arn})
		h.do("DeleteStateMachine", map[string]any{"stateMachineArn": m}) // no error on AWS either
	})
}

// Pages together give every execution once, newest first.
func TestListingPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, functions{})
		m, other := h.create("m", passing), h.create("mm", passing)
		var want []string
		for i := range 23 {
			name := fmt.Sprint("e", i)
			h.wait(h.start(m, name, `{}`))
			h.wait(h.start(other, name, `{}`))
			want = append([]string{name}, want...)
			if i%2 == 0 {
				time.Sleep(time.Second)
			}
		}
		var got []string
		in := map[string]any{"stateMachineArn": m, "maxResults": 5}
		for {
			out := h.do("ListExecutions", in)
			for _, e := range out["executions"].([]any) {
				got = append(got, e.(map[string]any)["name"].(string))
			}
			if out["nextToken"] == nil {
				break
			}
			in["nextToken"] = out["nextToken"]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		in = map[string]any{"maxResults": 1}
		out := h.do("ListStateMachines", in)
		in["nextToken"] = out["nextToken"]
		second := h.do("ListStateMachines", in)
		if len(out["stateMachines"].([]any)) != 1 || second["nextToken"] != nil || second["stateMachines"].([]any)[0].(map[string]any)["name"] != "mm" {
			t.Errorf("machines are listed as %v, %v", out, second)
		}
	})
}

func TestNotHTTPLikeAWS(t *testing.T) {
	h := newHost(t, functions{})
	for _, c := range []struct {
		name, method, target, body string
		status                     int
	}{
		{"a GET", "GET", "AWSStepFunctions.ListStateMachines", ``, 405},
		{"no target", "POST", "", `{}`, 400},
		{"another service", "POST", "DynamoDB_20120810.ListTables", `{}`, 400},
		{"too long a body", "POST", "AWSStepFunctions.ListStateMachines", strings.Repeat(" ", maxBody+1), 413},
		{"a good one", "POST", "AWSStepFunctions.ListStateMachines", `{}`, 200},
		{"an empty body", "POST", "AWSStepFunctions.ListStateMachines", ``, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
			r.Header.Set("X-Amz-Target", c.target)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || w.Header().Get("Content-Type") != contentType {
				t.Errorf("got %d, %v, %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

func FuzzDo(f *testing.F) {
	for op := range operations {
		f.Add(op, []byte(`{}`))
	}
	f.Add("StartExecution", []byte(`{"stateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:m","input":"[1]","name":"x"}`))
	f.Add("SendTaskSuccess", []byte(`{"taskToken":"AAAA","output":"1"}`))
	f.Add("GetExecutionHistory", []byte(`{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:e","nextToken":"aGlzdG9yeSAx"}`))
	h := newHost(f, functions{})
	h.create("m", passing)
	f.Fuzz(func(t *testing.T, op string, body []byte) {
		_, err := h.Do(context.Background(), op, body)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Status != 400) {
			t.Fatalf("%s %q: %v", op, body, err)
		}
	})
}
