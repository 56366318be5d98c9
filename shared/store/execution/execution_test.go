package execution

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/infra/local/states"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

var bridge = target.Project{WorkspaceKey: "structural_team", ProjectKey: "bridge_package"}

// nobody is invoked by a machine that only waits.
type nobody struct{}

func (nobody) Invoke(context.Context, string, []byte) ([]byte, string, error) {
	return nil, "", errors.New("invoked")
}

// emulated has a machine whose executions wait for an hour.
func emulated(t *testing.T) Executions {
	t.Helper()
	service, err := states.Open(states.Options{Path: filepath.Join(t.TempDir(), "states.db"), Lambda: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	t.Cleanup(func() {
		server.Close()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	client := sfn.New(sfn.Options{BaseEndpoint: &server.URL, Region: "us-east-1", HTTPClient: server.Client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		})})
	machine, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{Name: aws.String("flow_run"), RoleArn: aws.String("arn:aws:iam::000000000000:role/x"),
		Definition: aws.String(`{"QueryLanguage":"JSONata","StartAt":"Wait","States":{"Wait":{"Type":"Wait","Seconds":3600,"End":true}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	return Executions{Client: client, Machine: *machine.StateMachineArn}
}

// covers: U1, U5
func TestStartingARunTwiceIsOneExecution(t *testing.T) {
	e := emulated(t)
	look := func(want run.Execution) {
		t.Helper()
		if got, err := e.Look(t.Context(), "run_1"); err != nil || got != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	}
	look(run.ExecutionAbsent)
	if err := e.Stop(t.Context(), "run_1"); err != nil {
		t.Fatal("stopping what was never started:", err)
	}
	for range 2 {
		if err := e.Start(t.Context(), bridge, "run_1"); err != nil {
			t.Fatal(err)
		}
	}
	look(run.ExecutionRunning)
	out, err := e.Client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: e.arn("run_1")})
	if err != nil {
		t.Fatal(err)
	}
	var input Input
	if err := json.Unmarshal([]byte(*out.Input), &input); err != nil || input != (Input{"structural_team/bridge_package", "run_1"}) {
		t.Fatal(*out.Input, err)
	}
	if err := e.Stop(t.Context(), "run_1"); err != nil {
		t.Fatal(err)
	}
	look(run.ExecutionEnded)
	// A closed name is answered ExecutionAlreadyExists: no error, and no second execution.
	if err := e.Start(t.Context(), bridge, "run_1"); err != nil {
		t.Fatal(err)
	}
	look(run.ExecutionEnded)
}

// failing answers every call with an error.
type failing struct{ err error }

func (f failing) StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error) {
	return nil, f.err
}

func (f failing) DescribeExecution(context.Context, *sfn.DescribeExecutionInput, ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error) {
	return nil, f.err
}

func (f failing) StopExecution(context.Context, *sfn.StopExecutionInput, ...func(*sfn.Options)) (*sfn.StopExecutionOutput, error) {
	return nil, f.err
}

// What cannot be asked is neither absent nor ended: an execution taken for absent
// would be started, one taken for ended would fail its Run.
func TestAFailureSaysNothingAboutTheExecution(t *testing.T) {
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for name, err := range map[string]error{
		"throttled": &smithy.GenericAPIError{Code: "ThrottlingException", Message: "secret"}, "no answer": errors.New("secret"), "a deadline": ended.Err(),
	} {
		e := Executions{Client: failing{err}, Machine: "arn:aws:states:us-east-1:0:stateMachine:m"}
		got, look := e.Look(t.Context(), "run_1")
		for call, err := range map[string]error{"look": look, "start": e.Start(t.Context(), bridge, "run_1"), "stop": e.Stop(t.Context(), "run_1")} {
			if err == nil || got != "" || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, %s: %v %q", name, call, err, got)
			}
		}
	}
}
