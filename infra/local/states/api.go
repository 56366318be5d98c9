package states

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/local/states/asl"
)

// Error is an error of the API, with the code that AWS SDKs dispatch on.
type Error struct {
	Code    string
	Message string
	Status  int // HTTP
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func apiError(code, message string) *Error {
	return &Error{Code: code, Message: message, Status: http.StatusBadRequest}
}

// Do runs an operation for a caller in the same process. body and the answer
// are the API's JSON; the error is an *Error.
func (s *Service) Do(ctx context.Context, name string, body []byte) ([]byte, error) {
	op, ok := operations[name]
	if !ok {
		return nil, apiError("UnknownOperationException", fmt.Sprintf("The operation %q is not supported by the local host.", name))
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Code: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
	}
	c, err := readCall(name, op, body)
	if err != nil {
		return nil, asError(err)
	}
	out, err := op.handle(s, c)
	if err != nil {
		return nil, asError(err)
	}
	text, err := encode(out)
	if err != nil {
		return nil, asError(err)
	}
	return text, nil
}

func asError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, errClosed) {
		return &Error{Code: "ServiceUnavailable", Message: "the local host is stopping", Status: http.StatusServiceUnavailable}
	}
	return &Error{Code: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
}

const (
	targetPrefix = "AWSStepFunctions."
	contentType  = "application/x-amz-json-1.0"
	maxBody      = 4 << 20
)

// ServeHTTP speaks AWS JSON 1.0. Signatures are verified before it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.serve(r)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("x-amzn-RequestId", newID())
	if err != nil {
		w.Header().Set("x-amzn-ErrorType", err.Code)
		w.WriteHeader(err.Status)
		text, marshalErr := encode(map[string]string{"__type": err.Code, "message": err.Message})
		if marshalErr != nil { // two strings
			panic(marshalErr)
		}
		out = text
	}
	w.Write(out) // a client that went away is no concern here
}

func (s *Service) serve(r *http.Request) ([]byte, *Error) {
	if r.Method != http.MethodPost {
		return nil, &Error{Code: "UnknownOperationException", Message: "only POST", Status: http.StatusMethodNotAllowed}
	}
	target, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if !ok {
		return nil, apiError("UnknownOperationException", "the header X-Amz-Target must name an operation of AWSStepFunctions")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, apiError("SerializationException", "the body cannot be read")
	}
	if len(body) > maxBody {
		return nil, &Error{Code: "RequestEntityTooLargeException", Message: fmt.Sprintf("the body is longer than %d bytes", maxBody), Status: http.StatusRequestEntityTooLarge}
	}
	out, err := s.Do(r.Context(), target, body)
	if err != nil {
		return nil, asError(err)
	}
	return out, nil
}

func required(value *string, name string) (string, error) {
	if value == nil || *value == "" {
		return "", apiError("ValidationException", fmt.Sprintf("the field %s is required", name))
	}
	return *value, nil
}

func bounded(value *string, name string, limit int) error {
	if value != nil && utf8.RuneCountInString(*value) > limit {
		return apiError("ValidationException", fmt.Sprintf("the field %s has more than %d characters", name, limit))
	}
	return nil
}

// namePattern: 1 to 80 characters without white space, brackets, wildcards,
// specials and controls.
var badName = regexp.MustCompile("[\\s<>{}\\[\\]?*\"#%\\\\^|~`$&,;:/\x00-\x1f\x7f-\u009f\ufffe\uffff]")

func validName(name string) error {
	if name == "" || utf8.RuneCountInString(name) > 80 || !utf8.ValidString(name) || badName.MatchString(name) {
		return apiError("InvalidName", fmt.Sprintf("Invalid Name: '%s'", name))
	}
	return nil
}

func (s *Service) machineOf(arn *string) (string, error) {
	text, err := required(arn, "stateMachineArn")
	if err != nil {
		return "", err
	}
	parts := strings.Split(text, ":")
	if len(parts) != 7 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine" || parts[6] == "" {
		return "", apiError("InvalidArn", fmt.Sprintf("Invalid Arn: '%s'", text))
	}
	if text != s.machineARN(parts[6]) {
		return "", machineMissing(text)
	}
	return parts[6], nil
}

func machineMissing(arn string) error {
	return apiError("StateMachineDoesNotExist", fmt.Sprintf("State Machine Does Not Exist: '%s'", arn))
}

func (s *Service) executionOf(arn *string) (machine, name string, err error) {
	text, err := required(arn, "executionArn")
	if err != nil {
		return "", "", err
	}
	parts := strings.Split(text, ":")
	if len(parts) != 8 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "execution" || parts[6] == "" || parts[7] == "" {
		return "", "", apiError("InvalidArn", fmt.Sprintf("Invalid Arn: '%s'", text))
	}
	if text != s.executionARN(parts[6], parts[7]) {
		return "", "", executionMissing(text)
	}
	return parts[6], parts[7], nil
}

func executionMissing(arn string) error {
	return apiError("ExecutionDoesNotExist", fmt.Sprintf("Execution Does Not Exist: '%s'", arn))
}

func standard(kind *string) error {
	if kind != nil && *kind != "STANDARD" {
		return apiError("ValidationException", fmt.Sprintf("state machines of type %s are not supported by the local host", *kind))
	}
	return nil
}

// role checks the form alone: the local host has no IAM.
func role(arn string) error {
	if parts := strings.Split(arn, ":"); len(parts) != 6 || parts[0] != "arn" || parts[2] != "iam" || !strings.HasPrefix(parts[5], "role/") {
		return apiError("InvalidArn", fmt.Sprintf("Invalid Role Arn: '%s'", arn))
	}
	return nil
}

// checkDefinition reports every diagnostic, in the form AWS gives them.
func (s *Service) checkDefinition(text string) (*asl.Machine, error) {
	m, diagnostics := asl.Parse([]byte(text), s.engine)
	if m == nil {
		lines := make([]string, len(diagnostics))
		for i, d := range diagnostics {
			lines[i] = d.String()
		}
		return nil, apiError("InvalidDefinition", fmt.Sprintf("Invalid State Machine Definition: '%s'", strings.Join(lines, ", ")))
	}
	return m, nil
}

func createStateMachine(s *Service, c *call) (any, error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	name, err := required(c.Name, "name")
	if err != nil {
		return nil, err
	}
	if err := validName(name); err != nil {
		return nil, err
	}
	definition, err := required(c.Definition, "definition")
	if err != nil {
		return nil, err
	}
	roleARN, err := required(c.RoleARN, "roleArn")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(role(roleARN), standard(c.Type)); err != nil {
		return nil, err
	}
	machine, err := s.checkDefinition(definition)
	if err != nil {
		return nil, err
	}
	digest := digestOf(definition)
	record := machineRecord{Name: name, RoleARN: roleARN, Definition: digest, Revision: "INITIAL", Created: s.now()}
	err = s.store.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketMachines)
		if text := b.Get([]byte(name)); text != nil {
			var existing machineRecord
			if err := json.Unmarshal(text, &existing); err != nil {
				return err
			}
			switch {
			case existing.Deleting:
				return errRefused{apiError("StateMachineDeleting", fmt.Sprintf("State Machine is being deleted: '%s'", s.machineARN(name)))}
			case existing.Definition != digest:
				return errRefused{apiError("StateMachineAlreadyExists", fmt.Sprintf("State Machine Already Exists: '%s'", s.machineARN(name)))}
			}
			record = existing // the same again: the first answer; another role is ignored, as on AWS
			return nil
		}
		if err := tx.Bucket(bucketDefinitions).Put([]byte(digest), []byte(definition)); err != nil {
			return err
		}
		return putJSON(b, []byte(name), record)
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.parsed[digest] = machine
	s.machines[name] = record
	s.mu.Unlock()
	return struct {
		CreationDate    epoch  `json:"creationDate"`
		StateMachineARN string `json:"stateMachineArn"`
	}{epoch(record.Created), s.machineARN(name)}, nil
}

func (s *Service) findMachine(arn *string) (machineRecord, error) {
	name, err := s.machineOf(arn)
	if err != nil {
		return machineRecord{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	record, ok := s.machines[name]
	if !ok {
		return machineRecord{}, machineMissing(*arn)
	}
	return record, nil
}

func updateStateMachine(s *Service, c *call) (any, error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	record, err := s.findMachine(c.StateMachineARN)
	if err != nil {
		return nil, err
	}
	if record.Deleting {
		return nil, apiError("StateMachineDeleting", fmt.Sprintf("State Machine is being deleted: '%s'", *c.StateMachineARN))
	}
	if c.Definition == nil && c.RoleARN == nil {
		return nil, apiError("MissingRequiredParameter", "Either the definition, the role ARN, or both must be specified")
	}
	if c.RoleARN != nil {
		if err := role(*c.RoleARN); err != nil {
			return nil, err
		}
	}
	var machine *asl.Machine
	if c.Definition != nil {
		if machine, err = s.checkDefinition(*c.Definition); err != nil {
			return nil, err
		}
	}
	name := record.Name
	err = s.store.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketMachines)
		text := b.Get([]byte(name))
		if text == nil {
			return errRefused{machineMissing(*c.StateMachineARN)}
		}
		record = machineRecord{}
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		record.Revision = newID()
		if c.RoleARN != nil {
			record.RoleARN = *c.RoleARN
		}
		if c.Definition != nil {
			record.Definition = digestOf(*c.Definition)
			if err := tx.Bucket(bucketDefinitions).Put([]byte(record.Definition), []byte(*c.Definition)); err != nil {
				return err
			}
		}
		return putJSON(b, []byte(name), record)
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if machine != nil {
		s.parsed[record.Definition] = machine
	}
	s.machines[name] = record
	s.mu.Unlock()
	return struct {
		UpdateDate epoch  `json:"updateDate"`
		RevisionID string `json:"revisionId"`
	}{epoch(s.now()), record.Revision}, nil
}

func describeStateMachine(s *Service, c *call) (any, error) {
	record, err := s.findMachine(c.StateMachineARN)
	if err != nil {
		return nil, err
	}
	metadataOnly, err := metadataOnly(c)
	if err != nil {
		return nil, err
	}
	var definition string
	if !metadataOnly {
		if err := s.store.view(func(tx *bbolt.Tx) error {
			definition = string(tx.Bucket(bucketDefinitions).Get([]byte(record.Definition)))
			return nil
		}); err != nil {
			return nil, err
		}
	}
	out := map[string]any{"creationDate": epoch(record.Created), "definition": definition, "name": record.Name, "roleArn": record.RoleARN,
		"stateMachineArn": s.machineARN(record.Name), "type": "STANDARD", "status": "ACTIVE"}
	if record.Revision != "INITIAL" {
		out["revisionId"] = record.Revision
	}
	if record.Deleting {
		out["status"] = "DELETING"
	}
	return out, nil
}

func metadataOnly(c *call) (bool, error) {
	switch {
	case c.IncludedData == nil || *c.IncludedData == "ALL_DATA":
		return false, nil
	case *c.IncludedData == "METADATA_ONLY":
		return true, nil
	}
	return false, apiError("ValidationException", "includedData must be ALL_DATA or METADATA_ONLY")
}

// page reads maxResults and nextToken. Tokens name the last thing given, behind
// the word of their operation.
func page(c *call, word string) (limit int, after string, err error) {
	limit = 100
	if c.MaxResults != nil {
		switch {
		case *c.MaxResults < 0 || *c.MaxResults > 1000:
			return 0, "", apiError("ValidationException", "maxResults must be from 0 to 1000")
		case *c.MaxResults > 0:
			limit = *c.MaxResults
		}
	}
	if c.NextToken == nil {
		return limit, "", nil
	}
	text, decodeErr := base64.StdEncoding.DecodeString(*c.NextToken)
	after, ok := strings.CutPrefix(string(text), word+" ")
	if decodeErr != nil || !ok {
		return 0, "", apiError("InvalidToken", "Invalid Token: 'Invalid token'")
	}
	return limit, after, nil
}

func nextToken(word, last string) *string {
	token := base64.StdEncoding.EncodeToString([]byte(word + " " + last))
	return &token
}

func listStateMachines(s *Service, c *call) (any, error) {
	limit, after, err := page(c, "machines")
	if err != nil {
		return nil, err
	}
	type item struct {
		CreationDate    epoch  `json:"creationDate"`
		Name            string `json:"name"`
		StateMachineARN string `json:"stateMachineArn"`
		Type            string `json:"type"`
	}
	out := struct {
		StateMachines []item  `json:"stateMachines"`
		NextToken     *string `json:"nextToken,omitempty"`
	}{StateMachines: []item{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.machines))
	for name := range s.machines {
		if name > after {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	if len(names) > limit {
		names = names[:limit]
		out.NextToken = nextToken("machines", names[limit-1])
	}
	for _, name := range names {
		out.StateMachines = append(out.StateMachines, item{epoch(s.machines[name].Created), name, s.machineARN(name), "STANDARD"})
	}
	return out, nil
}

// deleteStateMachine marks the machine: no new execution starts. It goes when
// the last running one has ended. What ran stays readable.
func deleteStateMachine(s *Service, c *call) (any, error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	name, err := s.machineOf(c.StateMachineARN)
	if err != nil {
		return nil, err
	}
	found := false
	err = s.store.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketMachines)
		text := b.Get([]byte(name))
		if text == nil {
			return nil // deleting what is not there is no error on AWS
		}
		var record machineRecord
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		record.Deleting, found = true, true
		return putJSON(b, []byte(name), record)
	})
	if err != nil || !found {
		return struct{}{}, err
	}
	s.mu.Lock()
	record := s.machines[name]
	record.Deleting = true
	s.machines[name] = record
	runs := s.runsOf(name)
	s.mu.Unlock()
	if !runs {
		s.removeMachine(name)
	}
	return struct{}{}, nil
}

// removeMachine forgets a machine that is being deleted. Caller holds admin.
func (s *Service) removeMachine(name string) {
	err := s.store.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMachines).Delete([]byte(name)) })
	if err != nil {
		return // it stays marked; the next Open finds nothing running and removes it
	}
	s.mu.Lock()
	delete(s.machines, name)
	s.mu.Unlock()
}

func startExecution(s *Service, c *call) (any, error) {
	machine, err := s.findMachine(c.StateMachineARN)
	if err != nil {
		return nil, err
	}
	name := newID()
	if c.Name != nil {
		name = *c.Name
		if err := validName(name); err != nil {
			return nil, err
		}
	}
	input := "{}"
	if c.Input != nil {
		input = *c.Input
	}
	if len(input) > maxPayload {
		return nil, apiError("ValidationException", fmt.Sprintf("the input is longer than %d bytes", maxPayload))
	}
	compact, err := compactJSON([]byte(input))
	if err != nil {
		return nil, apiError("InvalidExecutionInput", fmt.Sprintf("Invalid State Machine Execution Input: '%v'", err))
	}
	parsed, err := s.machine(machine.Definition, nil)
	if err != nil {
		return nil, err
	}
	record := executionRecord{Machine: machine.Name, Name: name, RoleARN: machine.RoleARN, Definition: machine.Definition,
		Status: statusRunning, Input: input, Started: s.now().Truncate(time.Millisecond)}
	root := frame{ID: 0, Parent: -1, Phase: phaseEnter, State: parsed.StartAt, Input: compact}
	first := event{ID: 1, Timestamp: epoch(record.Started), Type: "ExecutionStarted",
		ExecutionStarted: &executionStartedDetails{Input: input, RoleARN: machine.RoleARN}}
	counts := progress{Event: 1, Frame: 1}
	var seq uint64
	again := false
	if !s.begin() {
		return nil, errClosed
	}
	defer s.end()
	err = s.store.update(func(tx *bbolt.Tx) error {
		names := tx.Bucket(bucketNames)
		if key := names.Get(nameKey(machine.Name, name)); key != nil {
			var existing executionRecord
			if err := json.Unmarshal(tx.Bucket(bucketExecutions).Get(key), &existing); err != nil {
				return err
			}
			if existing.Status == statusRunning && existing.Input == input {
				record, again = existing, true
				return nil
			}
			return errRefused{apiError("ExecutionAlreadyExists", fmt.Sprintf("Execution Already Exists: '%s'", s.executionARN(machine.Name, name)))}
		}
		var current machineRecord
		if text := tx.Bucket(bucketMachines).Get([]byte(machine.Name)); text == nil {
			return errRefused{machineMissing(*c.StateMachineARN)}
		} else if err := json.Unmarshal(text, &current); err != nil {
			return err
		}
		if current.Deleting {
			return errRefused{apiError("StateMachineDeleting", fmt.Sprintf("State Machine is being deleted: '%s'", *c.StateMachineARN))}
		}
		executions := tx.Bucket(bucketExecutions)
		var err error
		if seq, err = executions.NextSequence(); err != nil {
			return err
		}
		key := seqKey(seq)
		return errors.Join(
			putJSON(executions, key, record),
			names.Put(nameKey(machine.Name, name), key),
			tx.Bucket(bucketByMachine).Put(byMachineKey(machine.Name, record.Started, seq), nil),
			putJSON(tx.Bucket(bucketRunning), key, counts),
			putJSON(tx.Bucket(bucketFrames), subKey(seq, 0), root),
			putJSON(tx.Bucket(bucketHistory), subKey(seq, 1), first),
		)
	})
	if err != nil {
		return nil, err
	}
	if !again {
		failpoint.Hit(failpoint.StatesStarted)
		ex := s.newExecution(seq, record, parsed)
		ex.progress = counts
		ex.frames[0] = &root
		s.mu.Lock()
		s.running[seq] = ex
		s.mu.Unlock()
		ex.post(message{apply: ex.resume})
	}
	return struct {
		ExecutionARN string `json:"executionArn"`
		StartDate    epoch  `json:"startDate"`
	}{s.executionARN(machine.Name, name), epoch(record.Started)}, nil
}

// find reads an execution's record and number.
func (s *Service) find(arn *string) (executionRecord, uint64, error) {
	machine, name, err := s.executionOf(arn)
	if err != nil {
		return executionRecord{}, 0, err
	}
	var record executionRecord
	var seq uint64
	err = s.store.view(func(tx *bbolt.Tx) error {
		key := tx.Bucket(bucketNames).Get(nameKey(machine, name))
		if key == nil {
			return executionMissing(*arn)
		}
		seq = beUint64(key)
		return json.Unmarshal(tx.Bucket(bucketExecutions).Get(key), &record)
	})
	return record, seq, err
}

func describeExecution(s *Service, c *call) (any, error) {
	record, _, err := s.find(c.ExecutionARN)
	if err != nil {
		return nil, err
	}
	metadataOnly, err := metadataOnly(c)
	if err != nil {
		return nil, err
	}
	included := map[string]bool{"included": !metadataOnly}
	out := map[string]any{"executionArn": s.executionARN(record.Machine, record.Name), "stateMachineArn": s.machineARN(record.Machine),
		"name": record.Name, "status": record.Status, "startDate": epoch(record.Started), "inputDetails": included,
		"redriveCount": 0, "redriveStatus": "NOT_REDRIVABLE", "redriveStatusReason": "the local host does not redrive executions"}
	if record.Child != nil {
		out["mapRunArn"] = s.mapRunARN(record.Machine, record.Child.Map)
	}
	if !metadataOnly {
		out["input"] = record.Input
	}
	if record.Status != statusRunning {
		out["stopDate"] = epoch(record.Stopped)
	}
	if record.Output != nil {
		out["outputDetails"] = included
		if !metadataOnly {
			out["output"] = string(record.Output)
		}
	}
	if record.Error != nil {
		out["error"] = *record.Error
	}
	if record.Cause != nil {
		out["cause"] = *record.Cause
	}
	return out, nil
}

func listExecutions(s *Service, c *call) (any, error) {
	machine, err := s.findMachine(c.StateMachineARN)
	if err != nil {
		return nil, err
	}
	limit, after, err := page(c, "executions")
	if err != nil {
		return nil, err
	}
	if c.StatusFilter != nil && !contains([]string{statusRunning, statusSucceeded, statusFailed, statusTimedOut, statusAborted, "PENDING_REDRIVE"}, *c.StatusFilter) {
		return nil, apiError("ValidationException", "statusFilter must be a status of executions")
	}
	type item struct {
		ExecutionARN    string `json:"executionArn"`
		Name            string `json:"name"`
		StartDate       epoch  `json:"startDate"`
		StateMachineARN string `json:"stateMachineArn"`
		Status          string `json:"status"`
		StopDate        *epoch `json:"stopDate,omitempty"`
		RedriveCount    int    `json:"redriveCount"`
	}
	out := struct {
		Executions []item  `json:"executions"`
		NextToken  *string `json:"nextToken,omitempty"`
	}{Executions: []item{}}
	prefix := append([]byte(machine.Name), 0)
	err = s.store.view(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketByMachine).Cursor()
		executions := tx.Bucket(bucketExecutions)
		start := append(bytes.Clone(prefix), after...)
		last := ""
		for k, _ := cursor.Seek(start); k != nil && bytes.HasPrefix(k, prefix); k, _ = cursor.Next() {
			if after != "" && bytes.Equal(k, start) {
				continue
			}
			place := string(k[len(prefix):])
			if len(place) != 16 {
				continue // a machine whose name has ours and a NUL in front cannot be
			}
			var record executionRecord
			if err := json.Unmarshal(executions.Get(seqKey(^beUint64([]byte(place[8:])))), &record); err != nil {
				return err
			}
			if c.StatusFilter != nil && record.Status != *c.StatusFilter {
				continue
			}
			if len(out.Executions) == limit {
				out.NextToken = nextToken("executions", last)
				return nil
			}
			i := item{ExecutionARN: s.executionARN(record.Machine, record.Name), Name: record.Name, StartDate: epoch(record.Started),
				StateMachineARN: s.machineARN(record.Machine), Status: record.Status}
			if record.Status != statusRunning {
				stopped := epoch(record.Stopped)
				i.StopDate = &stopped
			}
			out.Executions = append(out.Executions, i)
			last = place
		}
		return nil
	})
	return out, err
}

// inMemory finds a running execution; nil when it does not run.
func (s *Service) inMemory(seq uint64) *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[seq]
}

func stopExecution(s *Service, c *call) (any, error) {
	if err := errors.Join(bounded(c.Error, "error", 256), bounded(c.Cause, "cause", 32768)); err != nil {
		return nil, err
	}
	_, seq, err := s.find(c.ExecutionARN)
	if err != nil {
		return nil, err
	}
	if ex := s.inMemory(seq); ex != nil {
		if err := ex.ask(func() error { return ex.stop(text(c.Error), text(c.Cause)) }); err != nil {
			return nil, err
		}
	}
	record, _, err := s.find(c.ExecutionARN)
	if err != nil {
		return nil, err
	}
	if record.Status == statusRunning {
		return nil, errClosed
	}
	return struct {
		StopDate epoch `json:"stopDate"`
	}{epoch(record.Stopped)}, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func getExecutionHistory(s *Service, c *call) (any, error) {
	_, seq, err := s.find(c.ExecutionARN)
	if err != nil {
		return nil, err
	}
	pruned := false
	if err := s.store.view(func(tx *bbolt.Tx) error {
		pruned = tx.Bucket(bucketHistory).Get(subKey(seq, 1)) == nil
		return nil
	}); err != nil {
		return nil, err
	}
	if pruned {
		return nil, apiError("ExecutionDoesNotExist", fmt.Sprintf("Execution Does Not Exist: the local host keeps the histories of the last %d executions that ended; that of '%s' is gone", s.options.KeepHistories, *c.ExecutionARN))
	}
	word := "history"
	reverse := c.ReverseOrder != nil && *c.ReverseOrder
	if reverse {
		word = "yrotsih" // a token goes on in its own direction only
	}
	limit, after, err := page(c, word)
	if err != nil {
		return nil, err
	}
	var lastID int64
	if after != "" {
		if lastID, err = strconv.ParseInt(after, 10, 64); err != nil || lastID < 1 || lastID > maxEvents {
			return nil, apiError("InvalidToken", "Invalid Token: 'Invalid token'")
		}
	}
	out := struct {
		Events    []json.RawMessage `json:"events"`
		NextToken *string           `json:"nextToken,omitempty"`
	}{Events: []json.RawMessage{}}
	err = s.store.view(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketHistory).Cursor()
		prefix := seqKey(seq)
		var k, v []byte
		next := cursor.Next
		if reverse {
			next = cursor.Prev
			bound := subKey(seq, maxEvents+1)
			if lastID > 0 {
				bound = subKey(seq, lastID)
			}
			if k, _ = cursor.Seek(bound); k == nil {
				k, v = cursor.Last()
			} else {
				k, v = cursor.Prev()
			}
		} else {
			k, v = cursor.Seek(subKey(seq, lastID+1))
		}
		for ; k != nil && bytes.HasPrefix(k, prefix); k, v = next() {
			if len(out.Events) == limit {
				out.NextToken = nextToken(word, strconv.FormatInt(lastID, 10))
				return nil
			}
			lastID = int64(beUint64(append(make([]byte, 4), k[8:]...)))
			value := bytes.Clone(v)
			if c.IncludeExecutionData != nil && !*c.IncludeExecutionData {
				var e event
				if err := json.Unmarshal(value, &e); err != nil {
					return err
				}
				e.withoutData()
				var err error
				if value, err = encode(e); err != nil {
					return err
				}
			}
			out.Events = append(out.Events, value)
		}
		return nil
	})
	return out, err
}

// answer finds the task of a token and lets its execution take an answer.
func (s *Service) answer(token *string, take func(ex *execution, frame int, number int64) error) (any, error) {
	value, err := required(token, "taskToken")
	if err != nil {
		return nil, err
	}
	seq, frame, number, err := s.readToken(value)
	if err != nil {
		return nil, err
	}
	ex := s.inMemory(seq)
	if ex == nil {
		return nil, apiError("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
	}
	if err := ex.ask(func() error { return take(ex, frame, number) }); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func sendTaskSuccess(s *Service, c *call) (any, error) {
	output, err := required(c.Output, "output")
	if err != nil {
		return nil, err
	}
	if len(output) > maxPayload {
		return nil, apiError("InvalidOutput", fmt.Sprintf("Invalid Output: the output is longer than %d bytes", maxPayload))
	}
	compact, err := compactJSON([]byte(output))
	if err != nil {
		return nil, apiError("InvalidOutput", fmt.Sprintf("Invalid Output: '%v'", err))
	}
	return s.answer(c.TaskToken, func(ex *execution, frame int, number int64) error { return ex.taskSucceeded(frame, number, compact) })
}

func sendTaskFailure(s *Service, c *call) (any, error) {
	if err := errors.Join(bounded(c.Error, "error", 256), bounded(c.Cause, "cause", 32768)); err != nil {
		return nil, err
	}
	return s.answer(c.TaskToken, func(ex *execution, frame int, number int64) error {
		return ex.taskFailed(frame, number, text(c.Error), text(c.Cause))
	})
}

func sendTaskHeartbeat(s *Service, c *call) (any, error) {
	return s.answer(c.TaskToken, (*execution).heartbeat)
}

func validateStateMachineDefinition(s *Service, c *call) (any, error) {
	definition, err := required(c.Definition, "definition")
	if err != nil {
		return nil, err
	}
	if err := standard(c.Type); err != nil {
		return nil, err
	}
	if c.Severity != nil && *c.Severity != "ERROR" && *c.Severity != "WARNING" {
		return nil, apiError("ValidationException", "severity must be ERROR or WARNING")
	}
	limit := 100
	if c.MaxResults != nil {
		if *c.MaxResults < 0 || *c.MaxResults > 100 {
			return nil, apiError("ValidationException", "maxResults must be from 0 to 100")
		}
		if *c.MaxResults > 0 {
			limit = *c.MaxResults
		}
	}
	type diagnostic struct {
		Severity string `json:"severity"`
		Code     string `json:"code"`
		Message  string `json:"message"`
		Location string `json:"location"`
	}
	out := struct {
		Result      string       `json:"result"`
		Diagnostics []diagnostic `json:"diagnostics"`
		Truncated   bool         `json:"truncated"`
	}{Result: "OK", Diagnostics: []diagnostic{}}
	_, found := asl.Parse([]byte(definition), s.engine)
	for _, d := range found {
		out.Result = "FAIL"
		if len(out.Diagnostics) == limit {
			out.Truncated = true
			break
		}
		out.Diagnostics = append(out.Diagnostics, diagnostic{"ERROR", d.Code, d.Message, d.Location})
	}
	return out, nil
}
