package tool

import "errors"

// A Failure is what a tool Lambda fails with: the machinery did not answer, and
// no envelope says so. Type is RetryableErrorType or FatalErrorType. Its text is
// fixed and safe to send; the cause is for the log.
//
// The Lambda runtime takes errorType from the name of the Go type, unless the
// error is a messages.InvokeResponse_Error; package boot makes one of whatever
// has a method ErrorType, as a Failure has.
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

// ErrorType is Type, as package boot asks for it.
func (f *Failure) ErrorType() string { return f.Type }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.cause }

// failureOf decides what an error is: the Failure it was made as, or what it says
// of itself by a method ErrorType() string or Retryable() bool, as stores give
// their errors. Everything else, a deadline and history.ErrOutcomeUnknown
// included, is retryable: nobody knows that it would happen again, and a
// repeated command is harmless.
func failureOf(err error) *Failure {
	var failure *Failure
	var typed interface{ ErrorType() string }
	var says interface{ Retryable() bool }
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &typed) && typed.ErrorType() == FatalErrorType,
		errors.As(err, &says) && !says.Retryable():
		return &Failure{FatalErrorType, err}
	}
	return &Failure{RetryableErrorType, err}
}
