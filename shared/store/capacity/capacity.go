// Package capacity starts workers as ECS tasks, on Fargate or on instances behind a
// capacity provider. It is the edge: no AWS error leaves it.
//
// It knows how a task is asked for, and neither what a worker does nor how many there
// should be.
package capacity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

// A Client performs operations of ECS that may be sent twice; *awsjson.Client does.
type Client interface {
	Call(ctx context.Context, operation string, in, out any) error
}

// The parts of ECS's requests and answers that are used, by their names there.
type (
	runTaskRequest struct {
		Cluster                  string               `json:"cluster"`
		TaskDefinition           string               `json:"taskDefinition"`
		Count                    int                  `json:"count"`
		ClientToken              string               `json:"clientToken"`
		StartedBy                string               `json:"startedBy"`
		LaunchType               string               `json:"launchType,omitzero"`
		PlatformVersion          string               `json:"platformVersion,omitzero"`
		CapacityProviderStrategy []strategyItem       `json:"capacityProviderStrategy,omitzero"`
		NetworkConfiguration     networkConfiguration `json:"networkConfiguration"`
		Overrides                overrides            `json:"overrides"`
	}
	strategyItem struct {
		CapacityProvider string `json:"capacityProvider"`
		Weight           int    `json:"weight"`
	}
	networkConfiguration struct {
		AwsvpcConfiguration awsvpcConfiguration `json:"awsvpcConfiguration"`
	}
	awsvpcConfiguration struct {
		Subnets        []string `json:"subnets"`
		SecurityGroups []string `json:"securityGroups"`
		AssignPublicIP string   `json:"assignPublicIp"`
	}
	overrides struct {
		ContainerOverrides []containerOverride `json:"containerOverrides"`
	}
	containerOverride struct {
		Name        string     `json:"name"`
		Environment []variable `json:"environment"`
	}
	variable struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	describeTasksRequest struct {
		Cluster string   `json:"cluster"`
		Tasks   []string `json:"tasks"`
	}
	tasksAnswer struct {
		Tasks    []task    `json:"tasks"`
		Failures []failure `json:"failures"`
	}
	task struct {
		TaskARN    string `json:"taskArn"`
		LastStatus string `json:"lastStatus"`
	}
	failure struct {
		ARN    string `json:"arn"`
		Reason string `json:"reason"`
	}
)

// Container is the name of the worker's container in the task definition.
const Container = "worker"

// Tasks implements sandbox.Starter.
type Tasks struct {
	Client         Client
	Cluster        string // name or ARN
	TaskDefinition string // family:revision or ARN
	Subnets        []string
	SecurityGroup  string
	// Provider is the capacity provider of the instances; "" is Fargate.
	Provider string
	// PublicIP gives a Fargate task an address by which it reaches AWS from a subnet
	// without NAT. Nothing reaches the task: its security group lets nobody in.
	PublicIP bool
}

var _ sandbox.Starter = Tasks{}

// Start implements sandbox.Starter. The worker's name is the client token, so that a
// request which is sent again starts nothing.
//
// ECS answers 200 also where it placed nothing, and says why in failures.
func (k Tasks) Start(ctx context.Context, worker string, key ed25519.PublicKey) (string, error) {
	in := runTaskRequest{
		Cluster: k.Cluster, TaskDefinition: k.TaskDefinition, Count: 1, ClientToken: worker, StartedBy: "pxhost",
		NetworkConfiguration: networkConfiguration{awsvpcConfiguration{k.Subnets, []string{k.SecurityGroup}, "DISABLED"}},
		Overrides: overrides{[]containerOverride{{Container, []variable{
			{"PX_WORKER", worker}, {"PX_JOB_KEY", base64.StdEncoding.EncodeToString(key)},
		}}}},
	}
	if k.Provider != "" {
		in.CapacityProviderStrategy = []strategyItem{{k.Provider, 1}}
	} else {
		in.LaunchType, in.PlatformVersion = "FARGATE", "1.4.0"
		if k.PublicIP {
			in.NetworkConfiguration.AwsvpcConfiguration.AssignPublicIP = "ENABLED"
		}
	}
	var out tasksAnswer
	if err := k.Client.Call(ctx, "RunTask", in, &out); err != nil {
		return "", refused("run a task", err)
	}
	if len(out.Tasks) == 1 && len(out.Failures) == 0 {
		return out.Tasks[0].TaskARN, nil
	}
	var reasons []string
	for _, f := range out.Failures {
		reasons = append(reasons, f.Reason)
	}
	return "", fmt.Errorf("capacity: no task was placed: %s", strings.Join(reasons, ", "))
}

// Look implements sandbox.Starter. ECS forgets a task an hour after its end.
func (k Tasks) Look(ctx context.Context, tasks []string) (waiting, over []string, err error) {
	var out tasksAnswer
	if err := k.Client.Call(ctx, "DescribeTasks", describeTasksRequest{k.Cluster, tasks}, &out); err != nil {
		return nil, nil, refused("describe tasks", err)
	}
	for _, t := range out.Tasks {
		switch t.LastStatus {
		case "PROVISIONING", "PENDING", "ACTIVATING":
			waiting = append(waiting, t.TaskARN)
		case "STOPPED", "DELETED":
			over = append(over, t.TaskARN)
		}
	}
	for _, f := range out.Failures {
		if f.Reason == "MISSING" {
			over = append(over, f.ARN)
		}
	}
	return waiting, over, nil
}

// refused tells what no later attempt would change from what may pass: a task
// definition that does not run here, or an account that may not run any.
func refused(op string, err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "PlatformTaskDefinitionIncompatibilityException", "PlatformUnknownException", "UnsupportedFeatureException", "BlockedException":
			return fmt.Errorf("capacity: %s: %s: %w", op, api.ErrorCode(), sandbox.ErrUnavailable)
		}
		return fmt.Errorf("capacity: %s: %s", op, api.ErrorCode())
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("capacity: %s: %w", op, known)
		}
	}
	return fmt.Errorf("capacity: %s: no readable answer", op)
}
