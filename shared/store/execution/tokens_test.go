package execution

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"
)

// tokenClient answers with one error and keeps what it was sent.
type tokenClient struct {
	err  error
	sent string
}

func (c *tokenClient) SendTaskSuccess(_ context.Context, in *sfn.SendTaskSuccessInput, _ ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error) {
	c.sent = "success " + *in.TaskToken + " " + *in.Output
	return nil, c.err
}

func (c *tokenClient) SendTaskFailure(_ context.Context, in *sfn.SendTaskFailureInput, _ ...func(*sfn.Options)) (*sfn.SendTaskFailureOutput, error) {
	c.sent = "failure " + *in.TaskToken + " " + *in.Error
	return nil, c.err
}

// A token nobody waits with any more is answered; every other failure is told, so that
// the tick comes again, and without the token, which is a secret.
//
// covers: U5
func TestTokensNobodyWaitsWithAreAnswered(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		done bool
	}{
		"answered":                 {nil, true},
		"answered before":          {&types.TaskTimedOut{}, true},
		"the execution is over":    {&types.TaskDoesNotExist{}, true},
		"of another state machine": {&types.InvalidToken{}, true},
		"throttled":                {&smithy.GenericAPIError{Code: "ThrottlingException", Message: "the-token"}, false},
		"not allowed":              {&smithy.GenericAPIError{Code: "AccessDeniedException", Message: "the-token"}, false},
		"no answer":                {errors.New("dial: the-token"), false},
		"too late":                 {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &tokenClient{err: row.err}
			for want, err := range map[string]error{
				"failure the-token px.Cancelled": Tokens{c}.Fail(t.Context(), "the-token", "px.Cancelled"),
			} {
				if (err == nil) != row.done || err != nil && strings.Contains(err.Error(), "the-token") || c.sent != want {
					t.Errorf("%v, sent %q", err, c.sent)
				}
			}
			if err := (Tokens{c}).Succeed(t.Context(), "the-token"); (err == nil) != row.done || c.sent != "success the-token {}" {
				t.Errorf("%v, sent %q", err, c.sent)
			}
		})
	}
}
