package capacity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

type client struct {
	out  tasksAnswer
	err  error
	sent runTaskRequest
}

func (c *client) Call(_ context.Context, operation string, in, out any) error {
	to := out.(*tasksAnswer)
	switch in := in.(type) {
	case runTaskRequest:
		c.sent = in
		if *to = c.out; operation != "RunTask" {
			return errors.New(operation)
		}
	case describeTasksRequest:
		if operation != "DescribeTasks" {
			return errors.New(operation)
		}
		for _, name := range in.Tasks {
			switch name {
			case "gone":
				to.Failures = append(to.Failures, failure{name, "MISSING"})
			default:
				to.Tasks = append(to.Tasks, task{name, name})
			}
		}
	}
	return c.err
}

var placed = tasksAnswer{Tasks: []task{{TaskARN: "task"}}}

// Whoever counts on a task that is over waits for it in vain.
func TestTasksThatAreOverAreTold(t *testing.T) {
	waiting, over, err := Tasks{Client: &client{}}.Look(t.Context(), []string{"RUNNING", "gone", "STOPPED", "PROVISIONING", "PENDING", "DEPROVISIONING"})
	if err != nil || !slices.Equal(over, []string{"STOPPED", "gone"}) || !slices.Equal(waiting, []string{"PROVISIONING", "PENDING"}) {
		t.Error(waiting, over, err)
	}
	if _, over, err := (Tasks{Client: &client{err: errors.New("secret")}}).Look(t.Context(), []string{"STOPPED"}); err == nil || over != nil || strings.Contains(err.Error(), "secret") {
		t.Error(over, err)
	}
}

// covers: H1
func TestATaskIsAskedForWithTheNameOfItsWorker(t *testing.T) {
	public, _, _ := ed25519.GenerateKey(nil)
	for name, provider := range map[string]string{"on Fargate": "", "on instances": "provider"} {
		t.Run(name, func(t *testing.T) {
			c := &client{out: placed}
			k := Tasks{Client: c, Cluster: "cluster", TaskDefinition: "family:3", Subnets: []string{"a", "b"}, SecurityGroup: "group", Provider: provider, PublicIP: true}
			if task, err := k.Start(t.Context(), "wrk_1", public); err != nil || task != "task" {
				t.Fatal(task, err)
			}
			in := c.sent
			if in.ClientToken != "wrk_1" || in.Cluster != "cluster" || in.TaskDefinition != "family:3" || in.Count != 1 {
				t.Errorf("%+v", in)
			}
			env := map[string]string{}
			for _, v := range in.Overrides.ContainerOverrides[0].Environment {
				env[v.Name] = v.Value
			}
			if env["PX_WORKER"] != "wrk_1" || env["PX_JOB_KEY"] != base64.StdEncoding.EncodeToString(public) || in.Overrides.ContainerOverrides[0].Name != Container {
				t.Errorf("%v", env)
			}
			fargate := provider == ""
			if (in.LaunchType == "FARGATE") != fargate || (in.PlatformVersion == "1.4.0") != fargate || (len(in.CapacityProviderStrategy) == 1) == fargate {
				t.Errorf("%v %v %v", in.LaunchType, in.PlatformVersion, in.CapacityProviderStrategy)
			}
			// ECS refuses a public address on instances.
			if got := in.NetworkConfiguration.AwsvpcConfiguration.AssignPublicIP; (got == "ENABLED") != fargate {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestAnAnswerWithoutATaskIsAFailure(t *testing.T) {
	for name, row := range map[string]struct {
		out   tasksAnswer
		err   error
		never bool
	}{
		"nothing placed, and why":         {tasksAnswer{Failures: []failure{{Reason: "RESOURCE:MEMORY"}}}, nil, false},
		"nothing placed":                  {tasksAnswer{}, nil, false},
		"throttled":                       {tasksAnswer{}, &smithy.GenericAPIError{Code: "ThrottlingException", Message: "secret"}, false},
		"no capacity":                     {tasksAnswer{}, &smithy.GenericAPIError{Code: "ClientException", Message: "secret"}, false},
		"no answer":                       {tasksAnswer{}, errors.New("secret"), false},
		"a definition that cannot run":    {tasksAnswer{}, &smithy.GenericAPIError{Code: "PlatformTaskDefinitionIncompatibilityException", Message: "secret"}, true},
		"an account that may run nothing": {tasksAnswer{}, &smithy.GenericAPIError{Code: "BlockedException"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Tasks{Client: &client{out: row.out, err: row.err}}.Start(t.Context(), "wrk_1", nil)
			if err == nil || errors.Is(err, sandbox.ErrUnavailable) != row.never || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		})
	}
}
