// Package toolcall reaches tools through Lambda's Invoke. It is the one place
// that decides what a failed Invoke means (W5).
//
// It knows the Invoke API and the wire's failures, and no tool.
package toolcall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
)

// An API is what is used of the Lambda client.
type API interface {
	Invoke(ctx context.Context, input *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// New returns a Call that invokes the function prefix + tool name, once: the
// SDK's own retries are off, because a repeated Invoke would repeat the effect.
// Whoever sends a command again does so with its commandId, and then it is safe.
func New(api API, prefix string) wire.Call {
	return func(ctx context.Context, request tool.Request) ([]byte, error) {
		payload, err := json.Marshal(request, json.Deterministic(true))
		if err != nil {
			return nil, &wire.Failure{Reason: wire.ReasonEndpoint, Outcome: wire.Not, Cause: fmt.Errorf("toolcall: payload: %w", err)}
		}
		output, err := api.Invoke(ctx, &lambda.InvokeInput{
			FunctionName:   aws.String(prefix + request.Tool),
			InvocationType: types.InvocationTypeRequestResponse,
			Payload:        payload,
		}, once)
		if err != nil {
			return nil, refused(ctx, err)
		}
		if output.FunctionError != nil {
			return nil, failed(output.Payload)
		}
		return output.Payload, nil
	}
}

func once(o *lambda.Options) { o.Retryer = aws.NopRetryer{} }

// refused judges an Invoke that gave no answer of the function.
func refused(ctx context.Context, err error) *wire.Failure {
	failure := func(reason wire.Reason, retryable bool, outcome wire.Outcome) *wire.Failure {
		return &wire.Failure{Reason: reason, Retryable: retryable, Outcome: outcome, Cause: err}
	}
	if ctx.Err() != nil {
		return failure(wire.ReasonTimeout, true, wire.Unknown)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "TooManyRequestsException", "ThrottlingException", "Throttling":
			return failure(wire.ReasonThrottled, true, wire.Not)
		case "ResourceNotFoundException", "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException":
			return failure(wire.ReasonUnavailable, false, wire.Not)
		case "ResourceConflictException", "ResourceNotReadyException", "CodeArtifactUserPendingException":
			return failure(wire.ReasonUnavailable, true, wire.Not) // it is being made or changed
		case "RequestTooLargeException", "RequestEntityTooLargeException", "InvalidRequestContentException":
			return failure(wire.ReasonEndpoint, false, wire.Not)
		}
		if api.ErrorFault() == smithy.FaultClient {
			return failure(wire.ReasonUnavailable, false, wire.Not)
		}
		return failure(wire.ReasonUnreachable, true, wire.Unknown)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return failure(wire.ReasonUnreachable, true, wire.Not)
	}
	return failure(wire.ReasonUnreachable, true, wire.Unknown)
}

// failed judges a function error. A tool says itself whether trying again may
// help. A crash or timeout is retryable whatever the tool: one that only reads
// has no effect, and a command that is sent again has its commandId.
func failed(payload []byte) *wire.Failure {
	var report struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	// An unreadable report is a crash like any other.
	_ = json.Unmarshal(payload, &report)
	failure := &wire.Failure{Reason: wire.ReasonFailed, Outcome: wire.Unknown, Cause: cause(report.Type, report.Message)}
	switch {
	case report.Type == tool.FatalErrorType:
	case report.Type == tool.RetryableErrorType:
		failure.Retryable = true
	case report.Type == "Sandbox.Timedout", strings.Contains(report.Message, "Task timed out after"):
		failure.Reason, failure.Retryable = wire.ReasonTimeout, true
	default:
		failure.Reason, failure.Retryable = wire.ReasonCrashed, true
	}
	return failure
}

// cause is what goes into the log. The message of a crash is left out, because a
// panic may quote what it worked on; the function's own log has it.
func cause(kind, message string) error {
	if kind == tool.FatalErrorType || kind == tool.RetryableErrorType {
		return fmt.Errorf("toolcall: %s: %.300s", kind, message)
	}
	return fmt.Errorf("toolcall: %.100s", kind)
}
