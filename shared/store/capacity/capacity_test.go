package capacity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

type client struct {
	out  *ecs.RunTaskOutput
	err  error
	sent *ecs.RunTaskInput
}

func (c *client) RunTask(_ context.Context, in *ecs.RunTaskInput, _ ...func(*ecs.Options)) (*ecs.RunTaskOutput, error) {
	c.sent = in
	return c.out, c.err
}

func (c *client) DescribeTasks(_ context.Context, in *ecs.DescribeTasksInput, _ ...func(*ecs.Options)) (*ecs.DescribeTasksOutput, error) {
	out := &ecs.DescribeTasksOutput{}
	for _, task := range in.Tasks {
		switch task {
		case "gone":
			out.Failures = append(out.Failures, types.Failure{Arn: aws.String(task), Reason: aws.String("MISSING")})
		default:
			out.Tasks = append(out.Tasks, types.Task{TaskArn: aws.String(task), LastStatus: aws.String(task)})
		}
	}
	return out, c.err
}

var placed = &ecs.RunTaskOutput{Tasks: []types.Task{{TaskArn: aws.String("task")}}}

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
			if *in.ClientToken != "wrk_1" || *in.Cluster != "cluster" || *in.TaskDefinition != "family:3" || *in.Count != 1 {
				t.Errorf("%+v", in)
			}
			env := map[string]string{}
			for _, v := range in.Overrides.ContainerOverrides[0].Environment {
				env[*v.Name] = *v.Value
			}
			if env["PX_WORKER"] != "wrk_1" || env["PX_JOB_KEY"] != base64.StdEncoding.EncodeToString(public) || *in.Overrides.ContainerOverrides[0].Name != Container {
				t.Errorf("%v", env)
			}
			fargate := provider == ""
			if (in.LaunchType == types.LaunchTypeFargate) != fargate || (aws.ToString(in.PlatformVersion) == "1.4.0") != fargate || (len(in.CapacityProviderStrategy) == 1) == fargate {
				t.Errorf("%v %v %v", in.LaunchType, in.PlatformVersion, in.CapacityProviderStrategy)
			}
			// ECS refuses a public address on instances.
			if got := in.NetworkConfiguration.AwsvpcConfiguration.AssignPublicIp; (got == types.AssignPublicIpEnabled) != fargate {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestAnAnswerWithoutATaskIsAFailure(t *testing.T) {
	for name, row := range map[string]struct {
		out   *ecs.RunTaskOutput
		err   error
		never bool
	}{
		"nothing placed, and why":         {&ecs.RunTaskOutput{Failures: []types.Failure{{Reason: aws.String("RESOURCE:MEMORY")}}}, nil, false},
		"nothing placed":                  {&ecs.RunTaskOutput{}, nil, false},
		"throttled":                       {nil, &smithy.GenericAPIError{Code: "ThrottlingException", Message: "secret"}, false},
		"no capacity":                     {nil, &types.ClientException{Message: aws.String("secret")}, false},
		"no answer":                       {nil, errors.New("secret"), false},
		"a definition that cannot run":    {nil, &types.PlatformTaskDefinitionIncompatibilityException{Message: aws.String("secret")}, true},
		"an account that may run nothing": {nil, &types.BlockedException{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Tasks{Client: &client{out: row.out, err: row.err}}.Start(t.Context(), "wrk_1", nil)
			if err == nil || errors.Is(err, sandbox.ErrUnavailable) != row.never || strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		})
	}
}
