// Package execution starts and looks at the state machine executions of Runs. An
// execution is named by its Run, so that starting one twice starts one. It is the
// edge: no AWS error leaves it.
package execution

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// A Client is the part of *sfn.Client that is used.
type Client interface {
	StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
	DescribeExecution(context.Context, *sfn.DescribeExecutionInput, ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error)
	StopExecution(context.Context, *sfn.StopExecutionInput, ...func(*sfn.Options)) (*sfn.StopExecutionOutput, error)
}

// Executions implements run.Executions.
type Executions struct {
	Client  Client
	Machine string // ARN of the state machine
}

var _ run.Executions = Executions{}

// Input is what an execution starts with.
type Input struct {
	Project string `json:"project"`
	RunRef  string `json:"runRef"`
}

// Start implements run.Executions. A name that was used before, for a Run that
// still runs or one that is over, is no error: the Run's row says how it stands.
func (e Executions) Start(ctx context.Context, project target.Project, runRef string) error {
	input, err := canon.Encode(Input{project.String(), runRef})
	if err != nil {
		return err
	}
	_, err = e.Client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &e.Machine, Name: &runRef, Input: aws.String(string(input))})
	var exists *types.ExecutionAlreadyExists
	if errors.As(err, &exists) {
		return nil
	}
	return plain("start", err)
}

// arn is the execution's: the state machine's with the name behind it.
func (e Executions) arn(runRef string) *string {
	return aws.String(strings.Replace(e.Machine, ":stateMachine:", ":execution:", 1) + ":" + runRef)
}

// Look implements run.Executions.
func (e Executions) Look(ctx context.Context, runRef string) (run.Execution, error) {
	return look(ctx, e.Client, *e.arn(runRef))
}

func look(ctx context.Context, client Client, arn string) (run.Execution, error) {
	out, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	var absent *types.ExecutionDoesNotExist
	if errors.As(err, &absent) {
		return run.ExecutionAbsent, nil
	}
	if err != nil {
		return "", plain("describe", err)
	}
	if out.Status == types.ExecutionStatusRunning || out.Status == types.ExecutionStatusPendingRedrive {
		return run.ExecutionRunning, nil
	}
	return run.ExecutionEnded, nil
}

// Stop implements run.Executions.
func (e Executions) Stop(ctx context.Context, runRef string) error {
	return stop(ctx, e.Client, *e.arn(runRef))
}

func stop(ctx context.Context, client Client, arn string) error {
	_, err := client.StopExecution(ctx, &sfn.StopExecutionInput{ExecutionArn: &arn, Error: aws.String("px.Cancelled")})
	var absent *types.ExecutionDoesNotExist
	if errors.As(err, &absent) {
		return nil
	}
	return plain("stop", err)
}

// plain keeps the error's code and drops its message.
func plain(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("execution: %s: %w", op, known)
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("execution: %s: %s", op, api.ErrorCode())
	}
	return fmt.Errorf("execution: %s: no readable answer", op)
}
