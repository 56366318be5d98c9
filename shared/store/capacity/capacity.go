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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

// A Client is the part of *ecs.Client that is used.
type Client interface {
	DescribeTasks(context.Context, *ecs.DescribeTasksInput, ...func(*ecs.Options)) (*ecs.DescribeTasksOutput, error)
	RunTask(context.Context, *ecs.RunTaskInput, ...func(*ecs.Options)) (*ecs.RunTaskOutput, error)
}

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
	in := &ecs.RunTaskInput{
		Cluster: &k.Cluster, TaskDefinition: &k.TaskDefinition, Count: aws.Int32(1), ClientToken: &worker, StartedBy: aws.String("pxhost"),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: k.Subnets, SecurityGroups: []string{k.SecurityGroup}, AssignPublicIp: types.AssignPublicIpDisabled,
		}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String(Container), Environment: []types.KeyValuePair{
			{Name: aws.String("PX_WORKER"), Value: &worker},
			{Name: aws.String("PX_JOB_KEY"), Value: aws.String(base64.StdEncoding.EncodeToString(key))},
		}}}},
	}
	if k.Provider != "" {
		in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: &k.Provider, Weight: 1}}
	} else {
		in.LaunchType, in.PlatformVersion = types.LaunchTypeFargate, aws.String("1.4.0")
		if k.PublicIP {
			in.NetworkConfiguration.AwsvpcConfiguration.AssignPublicIp = types.AssignPublicIpEnabled
		}
	}
	out, err := k.Client.RunTask(ctx, in)
	if err != nil {
		return "", refused("run a task", err)
	}
	if len(out.Tasks) == 1 && len(out.Failures) == 0 {
		return aws.ToString(out.Tasks[0].TaskArn), nil
	}
	var reasons []string
	for _, f := range out.Failures {
		reasons = append(reasons, aws.ToString(f.Reason))
	}
	return "", fmt.Errorf("capacity: no task was placed: %s", strings.Join(reasons, ", "))
}

// Look implements sandbox.Starter. ECS forgets a task an hour after its end.
func (k Tasks) Look(ctx context.Context, tasks []string) (waiting, over []string, err error) {
	out, err := k.Client.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &k.Cluster, Tasks: tasks})
	if err != nil {
		return nil, nil, refused("describe tasks", err)
	}
	for _, t := range out.Tasks {
		switch aws.ToString(t.LastStatus) {
		case "PROVISIONING", "PENDING", "ACTIVATING":
			waiting = append(waiting, aws.ToString(t.TaskArn))
		case "STOPPED", "DELETED":
			over = append(over, aws.ToString(t.TaskArn))
		}
	}
	for _, f := range out.Failures {
		if aws.ToString(f.Reason) == "MISSING" {
			over = append(over, aws.ToString(f.Arn))
		}
	}
	return waiting, over, nil
}

// refused tells what no later attempt would change from what may pass: a task
// definition that does not run here, or an account that may not run any.
func refused(op string, err error) error {
	var incompatible *types.PlatformTaskDefinitionIncompatibilityException
	var platform *types.PlatformUnknownException
	var feature *types.UnsupportedFeatureException
	var blocked *types.BlockedException
	var api smithy.APIError
	switch {
	case errors.As(err, &incompatible), errors.As(err, &platform), errors.As(err, &feature), errors.As(err, &blocked):
		errors.As(err, &api)
		return fmt.Errorf("capacity: %s: %s: %w", op, api.ErrorCode(), sandbox.ErrUnavailable)
	case errors.As(err, &api):
		return fmt.Errorf("capacity: %s: %s", op, api.ErrorCode())
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("capacity: %s: %w", op, known)
		}
	}
	return fmt.Errorf("capacity: %s: no readable answer", op)
}
