package states

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pxhost/pxhost/infra/local/states/asl"
)

// Invoker calls a Lambda function and waits for its answer.
//
// When the function itself failed, functionError is not empty (the Invoke API's
// X-Amz-Function-Error) and out is {"errorMessage": …, "errorType": …}. When
// the service could not call it, err is a *ServiceError, or any other error for
// a failure on the way (Lambda.SdkClientException).
//
// ctx ends when the answer is no longer wanted (the task timed out, its branch
// or execution was stopped) or the host closes. As on AWS the function itself
// may go on then; Invoke must return soon.
type Invoker interface {
	Invoke(ctx context.Context, functionNameOrARN string, payload []byte) (out []byte, functionError string, err error)
}

type machineKey struct{}

func withMachine(ctx context.Context, machine string) context.Context {
	return context.WithValue(ctx, machineKey{}, machine)
}

// Machine is the name of the state machine whose task an Invoker is called for;
// "" when ctx is no such call's.
func Machine(ctx context.Context) string {
	name, _ := ctx.Value(machineKey{}).(string)
	return name
}

// ServiceError is an error of the Lambda service. Name is the error name that
// Retry and Catch see: "Lambda.ServiceException",
// "Lambda.TooManyRequestsException", "Lambda.ResourceNotFoundException".
type ServiceError struct {
	Name    string
	Message string
	Status  int // HTTP
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("%s (Service: Lambda, Status Code: %d)", e.Message, e.Status)
}

func (ex *execution) taskDetails(f *frame) taskDetails {
	resource := "invoke"
	if s, ok := ex.state(f).(*asl.Task); ok {
		resource = s.Resource
	}
	return taskDetails{Resource: resource, ResourceType: "lambda"}
}

func (ex *execution) startTask(f *frame, s *asl.Task) {
	ex.progress.Task++
	f.Task = &task{Number: ex.progress.Task}
	ex.mark(f)
	arguments, err := ex.eval(f, s.Arguments, data{input: f.Input})
	if err != nil {
		ex.fail(f, err)
		return
	}
	if len(arguments) > maxPayload {
		ex.fail(f, ex.tooLarge(f.State))
		return
	}
	var timeout int64
	if s.TimeoutSeconds != nil {
		if timeout, err = ex.evalInteger(f, s.TimeoutSeconds, 1); err != nil {
			ex.fail(f, err)
			return
		}
		f.Task.Deadline = ex.svc.now().Add(time.Duration(timeout) * time.Second)
	}
	if s.HeartbeatSeconds != nil {
		if f.Task.Heartbeat, err = ex.evalInteger(f, s.HeartbeatSeconds, 1); err != nil {
			ex.fail(f, err)
			return
		}
		f.Task.HeartbeatDue = ex.svc.now().Add(time.Duration(f.Task.Heartbeat) * time.Second)
	}
	call, problem := asl.ReadLambdaArguments(arguments)
	if problem != nil {
		ex.fail(f, &stateError{Name: errRuntime, Cause: fmt.Sprintf("%sThe Arguments could not be used to start the Task: [%v]", ex.where(f), problem)})
		return
	}
	f.Task.Function, f.Task.Payload = call.FunctionName, call.Payload
	details := ex.taskDetails(f)
	ex.emit(f, event{Type: "TaskScheduled", TaskScheduled: &taskScheduledDetails{taskDetails: details, Region: ex.svc.options.Region,
		Parameters: string(arguments), Timeout: timeout, Heartbeat: f.Task.Heartbeat}})
	ex.emit(f, event{Type: "TaskStarted", TaskStarted: &details})
	f.Phase = phaseTask
	ex.launches = append(ex.launches, f)
}

// invoked takes a function's answer. An answer to an attempt that is over is
// ignored: it timed out, or its token was used before the function returned.
func (ex *execution) invoked(id int, number int64, out []byte, functionError string, err error) {
	f := ex.frames[id]
	if ex.ended || f == nil || f.Phase != phaseTask || f.Task.Number != number || f.Task.Submitted {
		return
	}
	s := ex.state(f).(*asl.Task)
	details := ex.taskDetails(f)
	var failure *stateError
	switch {
	case err != nil:
		failure = &stateError{Name: "Lambda.SdkClientException", Cause: err.Error()}
		if known := (*ServiceError)(nil); errors.As(err, &known) {
			failure.Name = known.Name
		}
	case functionError != "":
		failure = &stateError{Name: "Lambda.Unknown", Cause: string(out)}
		var payload struct {
			ErrorType string `json:"errorType"`
		}
		if json.Unmarshal(out, &payload) == nil && payload.ErrorType != "" {
			failure.Name = payload.ErrorType
		}
	default:
		if len(out) == 0 {
			out = []byte("null")
		}
		payload, problem := compactJSON(out)
		if problem != nil {
			failure = &stateError{Name: "Lambda.Unknown", Cause: fmt.Sprintf("The function's answer is not JSON: %v", problem)}
			break
		}
		if result := invokeResult(payload, ex.svc.now()); len(result) > maxPayload {
			failure = ex.tooLarge("lambda")
		} else {
			ex.invokedWell(f, s, result)
			return
		}
	}
	failure.Cause = cut(failure.Cause, 32768)
	if s.WaitForToken {
		ex.emit(f, event{Type: "TaskSubmitFailed", TaskSubmitFailed: &taskFailureDetails{taskDetails: details, Error: failure.Name, Cause: failure.Cause}})
	} else {
		ex.emit(f, event{Type: "TaskFailed", TaskFailed: &taskFailureDetails{taskDetails: details, Error: failure.Name, Cause: failure.Cause}})
	}
	ex.fail(f, failure)
}

// cut shortens a text to a number of characters, AWS's limit of a cause.
func cut(s string, limit int) string {
	for i := range s {
		if limit == 0 {
			return s[:i]
		}
		limit--
	}
	return s
}

func (ex *execution) invokedWell(f *frame, s *asl.Task, result []byte) {
	output := &taskOutputDetails{taskDetails: ex.taskDetails(f), Output: string(result)}
	if s.WaitForToken {
		ex.emit(f, event{Type: "TaskSubmitted", TaskSubmitted: output})
		f.Task.Submitted, f.Task.Payload = true, nil
		return
	}
	ex.emit(f, event{Type: "TaskSucceeded", TaskSucceeded: output})
	ex.leaveOrFail(f, data{input: f.Input, result: result}, result)
}

// invokeResult is what lambda:invoke gives: the Invoke API's answer with the
// payload parsed. The HTTP headers are those that a client could have read.
func invokeResult(payload []byte, now time.Time) []byte {
	id := newID()
	headers := [][2]string{{"Content-Length", strconv.Itoa(len(payload))}, {"Content-Type", "application/json"},
		{"Date", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}, {"X-Amz-Executed-Version", "$LATEST"}, {"x-amzn-RequestId", id}}
	all, single := map[string][]string{}, map[string]string{}
	for _, h := range headers {
		all[h[0]], single[h[0]] = []string{h[1]}, h[1]
	}
	type object = map[string]any
	out, err := encode(object{"ExecutedVersion": "$LATEST", "Payload": json.RawMessage(payload), "StatusCode": 200,
		"SdkHttpMetadata":     object{"AllHttpHeaders": all, "HttpHeaders": single, "HttpStatusCode": 200},
		"SdkResponseMetadata": object{"RequestId": id}})
	if err != nil { // strings, numbers and valid JSON
		panic(err)
	}
	return out
}

// answered finds the task that waits with a token, or says that it is over.
func (ex *execution) answered(id int, number int64) (*frame, error) {
	f := ex.frames[id]
	if ex.ended || f == nil || f.Phase != phaseTask || f.Task.Number != number {
		return nil, apiError("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
	}
	return f, nil
}

func (ex *execution) taskSucceeded(id int, number int64, output []byte) error {
	f, err := ex.answered(id, number)
	if err != nil {
		return err
	}
	ex.dropped = append(ex.dropped, f.ID)
	ex.emit(f, event{Type: "TaskSucceeded", TaskSucceeded: &taskOutputDetails{taskDetails: ex.taskDetails(f), Output: string(output)}})
	ex.leaveOrFail(f, data{input: f.Input, result: output}, output)
	return nil
}

func (ex *execution) taskFailed(id int, number int64, name, cause string) error {
	f, err := ex.answered(id, number)
	if err != nil {
		return err
	}
	ex.emit(f, event{Type: "TaskFailed", TaskFailed: &taskFailureDetails{taskDetails: ex.taskDetails(f), Error: name, Cause: cause}})
	ex.fail(f, &stateError{Name: name, Cause: cause})
	return nil
}

func (ex *execution) heartbeat(id int, number int64) error {
	f, err := ex.answered(id, number)
	if err != nil {
		return err
	}
	if f.Task.Heartbeat > 0 {
		f.Task.HeartbeatDue = ex.svc.now().Add(time.Duration(f.Task.Heartbeat) * time.Second)
		ex.mark(f)
	}
	return nil
}

// A task token names execution, frame and attempt, and carries a MAC under the
// file's own secret: it needs no record, outlives restarts, and a forged one is
// told from one that is no longer of use.
const tokenBody, tokenMAC = 8 + 4 + 8, 16

func (s *Service) token(seq uint64, frame int, number int64) string {
	b := binary.BigEndian.AppendUint64(nil, seq)
	b = binary.BigEndian.AppendUint32(b, uint32(frame))
	b = binary.BigEndian.AppendUint64(b, uint64(number))
	return base64.StdEncoding.EncodeToString(append(b, s.mac(b)...))
}

func (s *Service) mac(body []byte) []byte {
	h := hmac.New(sha256.New, s.secret)
	h.Write(body)
	return h.Sum(nil)[:tokenMAC]
}

func (s *Service) readToken(token string) (seq uint64, frame int, number int64, err error) {
	b, decodeErr := base64.StdEncoding.Strict().DecodeString(token)
	if decodeErr != nil || len(b) != tokenBody+tokenMAC || !hmac.Equal(b[tokenBody:], s.mac(b[:tokenBody])) {
		return 0, 0, 0, apiError("InvalidToken", "Invalid Token: 'Invalid token'")
	}
	return binary.BigEndian.Uint64(b), int(binary.BigEndian.Uint32(b[8:])), int64(binary.BigEndian.Uint64(b[12:])), nil
}
