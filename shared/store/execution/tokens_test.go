package execution

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
)

// tokenClient answers with one error and keeps what it was sent.
type tokenClient struct {
	err  error
	sent string
}

func (c *tokenClient) Call(_ context.Context, operation string, in, _ any) error {
	text, err := json.Marshal(in)
	c.sent = operation + " " + string(text)
	return errors.Join(c.err, err)
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
		"answered before":          {&smithy.GenericAPIError{Code: "TaskTimedOut"}, true},
		"the execution is over":    {&smithy.GenericAPIError{Code: "TaskDoesNotExist"}, true},
		"of another state machine": {&smithy.GenericAPIError{Code: "InvalidToken"}, true},
		"throttled":                {&smithy.GenericAPIError{Code: "ThrottlingException", Message: "the-token"}, false},
		"not allowed":              {&smithy.GenericAPIError{Code: "AccessDeniedException", Message: "the-token"}, false},
		"no answer":                {errors.New("dial: the-token"), false},
		"too late":                 {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &tokenClient{err: row.err}
			err := Tokens{c}.Fail(t.Context(), "the-token", "px.Cancelled")
			if (err == nil) != row.done || err != nil && strings.Contains(err.Error(), "the-token") || c.sent != `SendTaskFailure {"taskToken":"the-token","error":"px.Cancelled"}` {
				t.Errorf("%v, sent %q", err, c.sent)
			}
			if err := (Tokens{c}).Succeed(t.Context(), "the-token"); (err == nil) != row.done || c.sent != `SendTaskSuccess {"taskToken":"the-token","output":"{}"}` {
				t.Errorf("%v, sent %q", err, c.sent)
			}
		})
	}
}
