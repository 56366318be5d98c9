package wire

import (
	"context"
	"errors"
)

// A Reason names why a call has no answer. It stands in data.reason of a -32603
// error.
type Reason string

// The reasons.
const (
	ReasonUnavailable   Reason = "tool_unavailable" // no such Lambda, or no right to invoke it
	ReasonThrottled     Reason = "tool_throttled"
	ReasonUnreachable   Reason = "tool_unreachable" // the connection failed
	ReasonFailed        Reason = "tool_failed"      // the tool itself reported a failure
	ReasonCrashed       Reason = "tool_crashed"     // it ended without a report
	ReasonTimeout       Reason = "tool_timeout"     // it did not answer in time
	ReasonNotStarted    Reason = "deadline_before_start"
	ReasonAnswerInvalid Reason = "answer_invalid"
	ReasonAnswerTooBig  Reason = "answer_too_large"
	ReasonEndpoint      Reason = "endpoint_failed" // a mistake in this program
	ReasonRefused       Reason = "token_refused"   // stdio only: the endpoint does not take the token
)

// An Outcome says what is known of the effect of a call that has no answer.
// Retrying an apply or a run with the same commandId is safe after any of them;
// only Not means that nothing can have happened.
type Outcome string

// The outcomes.
const (
	Not     Outcome = "not_started"
	Unknown Outcome = "unknown"
	Done    Outcome = "completed"
)

// A Failure is why a call has no answer (W5). A Call function returns it for what
// it can tell apart; the cause is logged and never sent.
type Failure struct {
	Reason    Reason
	Retryable bool
	Outcome   Outcome
	Cause     error
}

func (f *Failure) Error() string {
	if f.Cause == nil {
		return string(f.Reason)
	}
	return string(f.Reason) + ": " + f.Cause.Error()
}

func (f *Failure) Unwrap() error { return f.Cause }

// asFailure turns any error of a call into a Failure. What is not known better
// is retryable with an unknown outcome: commands are idempotent, so trying again
// is safe, and giving up is not.
func asFailure(err error) *Failure {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Reason: ReasonTimeout, Retryable: true, Outcome: Unknown, Cause: err}
	}
	return &Failure{Reason: ReasonFailed, Retryable: true, Outcome: Unknown, Cause: err}
}

var failureText = map[Reason]string{
	ReasonUnavailable:   "the tool is not available",
	ReasonThrottled:     "too many calls at the moment",
	ReasonUnreachable:   "the tool could not be reached",
	ReasonFailed:        "the tool failed",
	ReasonCrashed:       "the tool ended without an answer",
	ReasonTimeout:       "the tool did not answer in time",
	ReasonNotStarted:    "the request's time was over before this line was started",
	ReasonAnswerInvalid: "the tool gave an answer that is no envelope",
	ReasonAnswerTooBig:  "the answer is larger than this line's share of the reply; send it alone or ask for a smaller budget",
	ReasonEndpoint:      "the endpoint failed",
	ReasonRefused:       "the endpoint refuses the token",
}

func (f *Failure) fault() *fault {
	message, ok := failureText[f.Reason]
	if !ok {
		message = failureText[ReasonFailed]
	}
	return &fault{codeInternal, message, &faultData{f.Retryable, f.Reason, f.Outcome}}
}

// FailLine returns the reply to a line that could not be handed to a dispatcher:
// the line's own error if it is no valid message, nothing if it is a
// notification, and else the failure under its id. A transport in front of the
// endpoint uses it, so that no request stays without a reply.
func FailLine(line []byte, f *Failure) []byte {
	m, bad := readMessage(line)
	switch {
	case bad != nil:
		return faultLine(m.id, bad)
	case m.id == nil:
		return nil
	}
	return faultLine(m.id, f.fault())
}
