package execution

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/target"
)

// Rounds implements run.Rounds. An execution is named by its Batch and round, so
// that starting one twice starts one.
type Rounds struct {
	Client  Client
	Machine string // ARN of the state machine
}

var _ run.Rounds = Rounds{}

// RoundInput is what the execution of a round starts with.
type RoundInput struct {
	Project  string `json:"project"`
	BatchRef string `json:"batchRef"`
	Round    int    `json:"round"`
}

func roundName(batchRef string, round int) string { return fmt.Sprintf("%s-%d", batchRef, round) }

// Start implements run.Rounds.
func (e Rounds) Start(ctx context.Context, project target.Project, batchRef string, round int) error {
	input, err := canon.Encode(RoundInput{project.String(), batchRef, round})
	if err != nil {
		return err
	}
	name := roundName(batchRef, round)
	_, err = e.Client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &e.Machine, Name: &name, Input: aws.String(string(input))})
	var exists *types.ExecutionAlreadyExists
	if errors.As(err, &exists) {
		return nil
	}
	return plain("start", err)
}

// Look implements run.Rounds.
func (e Rounds) Look(ctx context.Context, batchRef string, round int) (run.Execution, error) {
	return look(ctx, e.Client, strings.Replace(e.Machine, ":stateMachine:", ":execution:", 1)+":"+roundName(batchRef, round))
}

// LookChild implements run.Rounds.
func (e Rounds) LookChild(ctx context.Context, executionArn string) (run.Execution, error) {
	return look(ctx, e.Client, executionArn)
}

// StopChild implements run.Rounds.
func (e Rounds) StopChild(ctx context.Context, executionArn string) error {
	return stop(ctx, e.Client, executionArn)
}
