package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/dynamodb"
	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/local/kms"
	"github.com/pxhost/pxhost/infra/local/lambda"
	"github.com/pxhost/pxhost/infra/local/s3"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/infra/local/states"
	"github.com/pxhost/pxhost/infra/local/template"
)

// startServices opens the emulated services and makes in them what the
// template declares. It fills services for the AWS endpoint, and returns the
// functions, nil with ServicesOnly.
func (h *host) startServices(ctx context.Context, dir *statedir.Dir, run Running, services map[string]http.Handler) (*lambda.Host, error) {
	h.readPolicies(run.Template)
	if err := h.startDynamoDB(ctx, dir, run, services); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.StartTables)
	objects, err := h.startS3(dir, run, services)
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.StartBuckets)
	if err := h.startKMS(dir, run, services); err != nil {
		return nil, err
	}
	var functions *lambda.Host
	if !h.cfg.ServicesOnly {
		if functions, err = h.startLambda(dir, run); err != nil {
			return nil, err
		}
		h.onClose(functions.Close)
		services["lambda"] = functions
		h.startTasks(ctx, run, services)
	}
	// Last, since opening it takes up the executions that an earlier start left,
	// and they call functions at once.
	if err := h.startStates(ctx, dir, run, functions, objects, services); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.StartResumed)
	return functions, nil
}

func (h *host) startStates(ctx context.Context, dir *statedir.Dir, run Running, functions *lambda.Host, objects *s3.Service, services map[string]http.Handler) error {
	call := &stateCaller{functions: functions, policies: map[string][]awsapi.Statement{}}
	for _, m := range run.Template.StateMachines {
		call.policies[m.Name] = statements(m.Policy)
	}
	machines, err := states.Open(states.Options{Path: dir.Path("states.db"), Region: Region, AccountID: AccountID, Lambda: call,
		Objects: objects, Permits: call.permits})
	if err != nil {
		return err
	}
	h.onClose(machines.Close)
	for _, m := range run.Template.StateMachines {
		if err := makeMachine(ctx, machines, m); err != nil {
			return fmt.Errorf("state machine %s: %w", m.Name, err)
		}
	}
	services["states"] = machines
	return nil
}

// makeMachine creates a state machine, or gives the one of an earlier start
// the template's definition. Executions go on with the definition they had.
func makeMachine(ctx context.Context, s *states.Service, m template.StateMachine) error {
	role := "arn:aws:iam::" + AccountID + ":role/" + m.Name
	err := do(ctx, s, "CreateStateMachine", map[string]string{"name": m.Name, "definition": string(m.Definition), "roleArn": role, "type": "STANDARD"})
	var e *states.Error
	if errors.As(err, &e) && e.Code == "StateMachineAlreadyExists" {
		err = do(ctx, s, "UpdateStateMachine", map[string]string{"stateMachineArn": m.ARN, "definition": string(m.Definition), "roleArn": role})
	}
	return err
}

func do(ctx context.Context, s *states.Service, op string, in map[string]string) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_, err = s.Do(ctx, op, body)
	return err
}

// stateCaller acts for state machines, each as far as its own policies in the
// template allow.
type stateCaller struct {
	functions *lambda.Host // nil with ServicesOnly
	policies  map[string][]awsapi.Statement
}

func (c *stateCaller) permits(machine, action, resource string) bool {
	return awsapi.Permits(c.policies[machine], action, resource, nil)
}

func (c *stateCaller) Invoke(ctx context.Context, name string, payload []byte) ([]byte, string, error) {
	if c.functions == nil {
		// Without functions an execution waits for the next start that has
		// them; an error here would be caught by the machine and end it.
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	arn, err := c.functions.ARN(name)
	if err == nil && !c.permits(states.Machine(ctx), "lambda:InvokeFunction", arn) {
		return nil, "", &states.ServiceError{Name: "Lambda.AWSLambdaException", Status: http.StatusForbidden,
			Message: "no policy of the state machine allows lambda:InvokeFunction on " + arn}
	}
	out, functionError, err := c.functions.Invoke(ctx, name, payload)
	var e *lambda.Error
	if errors.As(err, &e) {
		return nil, "", &states.ServiceError{Name: "Lambda." + e.Code, Message: e.Message, Status: e.Status}
	}
	return out, functionError, err
}

func (h *host) startDynamoDB(ctx context.Context, dir *statedir.Dir, run Running, services map[string]http.Handler) error {
	tables, err := dynamodb.Open(dynamodb.Options{Path: dir.Path("dynamodb.db"), Region: Region, AccountID: AccountID})
	if err != nil {
		return err
	}
	h.onClose(tables.Close)
	for _, t := range run.Template.Tables {
		if err := makeTable(ctx, tables, t); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	services["dynamodb"] = tables
	return nil
}

// tableService is what makeTable calls of DynamoDB.
type tableService interface {
	Do(ctx context.Context, op string, body []byte) (status int, response []byte)
}

// makeTable creates a table, or checks that the one of an earlier start has
// the template's keys and indexes: DynamoDB could change neither without data
// being copied, and nor can this.
func makeTable(ctx context.Context, s tableService, t template.Table) error {
	_, code, err := ask(ctx, s, "CreateTable", t.CreateTable)
	if code == "ResourceInUseException" {
		var out []byte
		if out, _, err = ask(ctx, s, "DescribeTable", mustJSON(map[string]string{"TableName": t.Name})); err != nil {
			return err
		}
		type shape struct {
			AttributeDefinitions []struct{ AttributeName, AttributeType string }
			KeySchema            []struct{ AttributeName, KeyType string }
			// An index as its own description would say it.
			GlobalSecondaryIndexes []struct {
				IndexName  string
				KeySchema  []struct{ AttributeName, KeyType string }
				Projection struct {
					ProjectionType   string
					NonKeyAttributes []string `json:",omitempty"` // none and an empty list are the same
				}
			}
		}
		var is struct{ Table shape }
		var want shape
		if err := json.Unmarshal(out, &is); err != nil {
			return err
		}
		if err := json.Unmarshal(t.CreateTable, &want); err != nil {
			return err
		}
		for _, x := range []*shape{&is.Table, &want} {
			slices.SortFunc(x.AttributeDefinitions, func(a, b struct{ AttributeName, AttributeType string }) int {
				return strings.Compare(a.AttributeName, b.AttributeName)
			})
		}
		if !bytes.Equal(mustJSON(is.Table), mustJSON(want)) {
			return errors.New("the state folder holds it with other keys or indexes than the template; move the data, or start afresh with make clean")
		}
	}
	if err != nil {
		return err
	}
	if t.TTL == "" {
		return nil
	}
	out, _, err := ask(ctx, s, "DescribeTimeToLive", mustJSON(map[string]string{"TableName": t.Name}))
	if err != nil {
		return err
	}
	var ttl struct {
		TimeToLiveDescription struct{ TimeToLiveStatus, AttributeName string }
	}
	if err := json.Unmarshal(out, &ttl); err != nil {
		return err
	}
	if d := ttl.TimeToLiveDescription; d.TimeToLiveStatus == "ENABLED" && d.AttributeName == t.TTL {
		return nil
	}
	_, _, err = ask(ctx, s, "UpdateTimeToLive", mustJSON(map[string]any{
		"TableName": t.Name, "TimeToLiveSpecification": map[string]any{"AttributeName": t.TTL, "Enabled": true},
	}))
	return err
}

// ask runs an operation of DynamoDB and gives its error code, if any.
func ask(ctx context.Context, s tableService, op string, body []byte) (out []byte, code string, err error) {
	status, out := s.Do(ctx, op, body)
	if status == http.StatusOK {
		return out, "", nil
	}
	var fault struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(out, &fault); err != nil {
		return nil, "", fmt.Errorf("%s: status %d", op, status)
	}
	_, code, _ = strings.Cut(fault.Type, "#")
	return nil, code, fmt.Errorf("%s: %s: %s", op, code, fault.Message)
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain values come here
	}
	return b
}

// startKMS makes the keys of the template. Their material is the one thing of the state
// folder that cannot be made again.
func (h *host) startKMS(dir *statedir.Dir, run Running, services map[string]http.Handler) (err error) {
	opt := kms.Options{File: dir.Path("kms.json"), Region: Region, AccountID: AccountID}
	for _, k := range run.Template.Keys {
		opt.Keys = append(opt.Keys, kms.Key{ID: k.ID, ARN: k.ARN, Aliases: k.Aliases})
	}
	if h.secrets, err = kms.Open(opt); err != nil {
		return err
	}
	services["kms"] = h.secrets
	return nil
}

func (h *host) startS3(dir *statedir.Dir, run Running, services map[string]http.Handler) (*s3.Service, error) {
	objects, err := s3.Open(s3.Options{File: dir.Path("s3.db")})
	if err != nil {
		return nil, err
	}
	h.onClose(objects.Close)
	for _, b := range run.Template.Buckets {
		if err := objects.MakeBucket(b.Name); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", b.Name, err)
		}
	}
	services["s3"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !h.allow(awsapi.Principal(r.Context()), "s3:ListBucket", "arn:aws:s3:::"+bucket, nil) {
			r = r.WithContext(s3.WithoutList(r.Context()))
		}
		objects.ServeHTTP(w, r)
	})
	return objects, nil
}
