package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/sandbox"
)

// A TokenClient performs operations of Step Functions that may be sent twice;
// *awsjson.Client does.
type TokenClient interface {
	Call(ctx context.Context, operation string, in, out any) error
}

// The requests that answer a token, by the names of Step Functions.
type (
	taskSuccess struct {
		TaskToken string `json:"taskToken"`
		Output    string `json:"output"`
	}
	taskFailure struct {
		TaskToken string `json:"taskToken"`
		Error     string `json:"error"`
	}
)

// Tokens implements sandbox.Tokens.
type Tokens struct{ Client TokenClient }

var _ sandbox.Tokens = Tokens{}

// Succeed implements sandbox.Tokens. It sends no data: the stage reads the result of
// the job itself.
func (k Tokens) Succeed(ctx context.Context, token string) error {
	return answered(k.Client.Call(ctx, "SendTaskSuccess", taskSuccess{token, "{}"}, &struct{}{}))
}

// Fail implements sandbox.Tokens.
func (k Tokens) Fail(ctx context.Context, token, code string) error {
	return answered(k.Client.Call(ctx, "SendTaskFailure", taskFailure{token, code}, &struct{}{}))
}

// answered says which refusals are the end of it: nobody waits with the token any
// more, since the task was answered, ran out of time, or its execution is over. The
// error keeps the code alone; a message could hold the token.
func answered(err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "TaskDoesNotExist", "TaskTimedOut", "InvalidToken":
			return nil
		}
		return fmt.Errorf("execution: answer a task token: %s", api.ErrorCode())
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return fmt.Errorf("execution: answer a task token: %w", known)
		}
	}
	return errors.New("execution: answer a task token: no readable answer")
}
