// Package states is the local host's AWS Step Functions: STANDARD state
// machines in JSONata that call Lambda functions, kept in one bbolt file.
//
// It is strict: what it does not support it refuses by name, when the machine
// is created or the operation is called, and never approximates. Package asl
// lists the language, package jsonata the expressions.
//
// # Operations
//
// CreateStateMachine, UpdateStateMachine, DescribeStateMachine,
// ListStateMachines, DeleteStateMachine, ValidateStateMachineDefinition,
// StartExecution, DescribeExecution, ListExecutions, StopExecution,
// GetExecutionHistory, SendTaskSuccess, SendTaskFailure, SendTaskHeartbeat.
// Every input field of each is listed in fields.go as supported or refused; all
// other operations are refused with UnknownOperationException.
//
// # Semantics
//
// Error names, what Retry and Catch match, payload limits (262,144 bytes),
// variables and their scopes, the context object, and the types and order of
// history events are those of the Amazon States Language and of AWS. In
// particular: States.ALL does not match States.DataLimitExceeded, and nothing
// matches States.Runtime; States.TaskFailed matches all but timeouts and those
// two; a missing heartbeat is reported as States.Timeout and also matched by
// States.HeartbeatTimeout; a function's error is an error named by its
// errorType, its cause being the whole payload; a task's arguments are
// evaluated anew, and a new token is made, for each attempt. An execution with
// 25,000 events fails with States.Runtime.
//
// Where AWS's documentation and what the service has been seen to do differ, the
// documentation stands: States.ALL leaves States.DataLimitExceeded alone (the
// service has been seen to catch it), and a Choice without a match fails with
// States.NoChoiceMatched (the service has been seen to say States.Runtime).
//
// Decided here where AWS documents nothing:
//
//   - A token that is answered before its function has returned ends the task
//     at once, with no TaskSubmitted event; what the function returns is ignored.
//   - When an execution or a branch is stopped, the states inside that wait for
//     something get their Aborted events, innermost first.
//   - What a function returns that is not JSON is the error Lambda.Unknown.
//   - JSON with duplicate names, invalid UTF-8 or a number beyond a double's
//     range is refused as input, output and function result.
//   - Executions that ended go after 90 days, as on AWS; of their histories only
//     the last few thousand are kept (prune.go).
//
// What a distributed Map does, and which page of AWS's documentation says so,
// stands in maprun.go. DescribeMapRun, ListMapRuns and redriving are refused:
// the project asks a Map Run nothing, and its children by their ARNs.
//
// # Durability
//
// Every step of an execution, which is all it can do until something outside
// has to happen, is one transaction, on disk before a function is called, a
// timer is set or an answer is given; the steps of many executions share syncs.
// After a kill at any moment the next Open goes on with every running
// execution: due times are absolute, tokens stay valid, what ended never starts
// again. A function whose answer had not been written is called again with the
// same payload (and the same token): on AWS the service does not crash between
// the two, here the whole host does, so handlers must be idempotent, as they
// must be for Retry.
//
// A file of an earlier version may hold a definition that this version refuses:
// its running executions fail with States.Runtime at Open, and only they.
//
// The package knows nothing of the template, of signatures (verified before
// ServeHTTP) or of how functions run.
package states
