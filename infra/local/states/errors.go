package states

import "slices"

// The language's own error names.
const (
	errAll         = "States.ALL"
	errTimeout     = "States.Timeout"
	errHeartbeat   = "States.HeartbeatTimeout"
	errTaskFailed  = "States.TaskFailed"
	errRuntime     = "States.Runtime"
	errDataLimit   = "States.DataLimitExceeded"
	errQuery       = "States.QueryEvaluationError"
	errNoChoice    = "States.NoChoiceMatched"
	errReader      = "States.ItemReaderFailed"
	errTolerated   = "States.ExceedToleratedFailureThreshold"
	errPermissions = "States.Permissions"
)

// stateError is why a state failed: a name that Retry and Catch match, and a
// cause for people.
type stateError struct {
	Name, Cause string
	// heartbeat marks the timeout of a missing heartbeat. AWS reports it as
	// States.Timeout; States.HeartbeatTimeout matches it too.
	heartbeat bool
	// location is the field of an expression that failed, for EvaluationFailed.
	location string
	// silent: the EvaluationFailed event has been written.
	silent bool
}

func (e *stateError) Error() string { return e.Name + ": " + e.Cause }

// matches tells whether an ErrorEquals list holds the error. States.Runtime is
// never matched; States.DataLimitExceeded only by its own name.
func (e *stateError) matches(names []string) bool {
	if e.Name == errRuntime {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		switch name {
		case e.Name:
			return true
		case errHeartbeat:
			return e.heartbeat
		case errAll:
			return e.Name != errDataLimit
		case errTaskFailed:
			return e.Name != errTimeout && e.Name != errDataLimit
		}
		return false
	})
}

// output is $states.errorOutput.
func (e *stateError) output() []byte {
	out, err := encode(struct{ Error, Cause string }{e.Name, e.Cause})
	if err != nil { // two strings
		panic(err)
	}
	return out
}
