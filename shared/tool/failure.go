package tool

import (
	"context"
	"errors"

	"github.com/pxhost/pxhost/shared/history"
)

// A Failure is what a tool Lambda fails with: the machinery did not answer, and
// no envelope says so. Type is RetryableErrorType or FatalErrorType. Its text is
// fixed and safe to send; the cause is for the log.
//
// The Lambda runtime takes errorType from the name of the Go type, unless the
// error is a messages.InvokeResponse_Error; package boot makes one of a Failure.
type Failure struct {
	Type  string
	cause error
}

// Retryable says that the same request may succeed later.
func Retryable(cause error) error { return &Failure{RetryableErrorType, cause} }

// Fatal says that the same request will fail again.
func Fatal(cause error) error { return &Failure{FatalErrorType, cause} }

func (f *Failure) Error() string {
	if f.Type == RetryableErrorType {
		return "the tool could not answer now"
	}
	return "the tool could not answer"
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.cause }

// failureOf decides what an error is: the Failure it was made as; retryable for
// an unknown outcome, a deadline, and whatever says of itself that it may
// succeed later (a method Retryable() bool, as stores give their errors); fatal
// for the rest.
func failureOf(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	var says interface{ Retryable() bool }
	if errors.As(err, &says) && says.Retryable() ||
		errors.Is(err, history.ErrOutcomeUnknown) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &Failure{RetryableErrorType, err}
	}
	return &Failure{FatalErrorType, err}
}
