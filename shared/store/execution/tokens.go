package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

// A TokenClient is the part of *sfn.Client that answers task tokens.
type TokenClient interface {
	SendTaskSuccess(context.Context, *sfn.SendTaskSuccessInput, ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error)
	SendTaskFailure(context.Context, *sfn.SendTaskFailureInput, ...func(*sfn.Options)) (*sfn.SendTaskFailureOutput, error)
}

// Tokens implements sandbox.Tokens.
type Tokens struct{ Client TokenClient }

var _ sandbox.Tokens = Tokens{}

// Succeed implements sandbox.Tokens. It sends no data: the stage reads the result of
// the job itself.
func (k Tokens) Succeed(ctx context.Context, token string) error {
	_, err := k.Client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &token, Output: aws.String("{}")})
	return answered(err)
}

// Fail implements sandbox.Tokens.
func (k Tokens) Fail(ctx context.Context, token, code string) error {
	_, err := k.Client.SendTaskFailure(ctx, &sfn.SendTaskFailureInput{TaskToken: &token, Error: &code})
	return answered(err)
}

// answered says which refusals are the end of it: nobody waits with the token any
// more, since the task was answered, ran out of time, or its execution is over. The
// error keeps the code alone; a message could hold the token.
func answered(err error) error {
	if err == nil {
		return nil
	}
	var gone *types.TaskDoesNotExist
	var late *types.TaskTimedOut
	var invalid *types.InvalidToken
	if errors.As(err, &gone) || errors.As(err, &late) || errors.As(err, &invalid) {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("execution: answer a task token: %s", api.ErrorCode())
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("execution: answer a task token: %w", known)
		}
	}
	return errors.New("execution: answer a task token: no readable answer")
}
