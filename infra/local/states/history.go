package states

import (
	"encoding/json"
	"time"
)

// epoch is a time as AWS JSON writes it: seconds with milliseconds.
type epoch time.Time

func (e epoch) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Time(e).UnixMilli()) / 1000)
}

func (e *epoch) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return err
	}
	*e = epoch(time.UnixMilli(int64(seconds*1000 + 0.5)).UTC())
	return nil
}

// event is a history event in the API's own form, so that reading a history
// copies bytes. At most one of the details is set, as Type says.
type event struct {
	ID        int64  `json:"id"`
	Previous  int64  `json:"previousEventId"`
	Timestamp epoch  `json:"timestamp"`
	Type      string `json:"type"`

	ExecutionStarted   *executionStartedDetails   `json:"executionStartedEventDetails,omitempty"`
	ExecutionSucceeded *executionSucceededDetails `json:"executionSucceededEventDetails,omitempty"`
	ExecutionFailed    *failureDetails            `json:"executionFailedEventDetails,omitempty"`
	ExecutionAborted   *failureDetails            `json:"executionAbortedEventDetails,omitempty"`
	ExecutionTimedOut  *failureDetails            `json:"executionTimedOutEventDetails,omitempty"`
	StateEntered       *stateEnteredDetails       `json:"stateEnteredEventDetails,omitempty"`
	StateExited        *stateExitedDetails        `json:"stateExitedEventDetails,omitempty"`
	EvaluationFailed   *evaluationFailedDetails   `json:"evaluationFailedEventDetails,omitempty"`
	TaskScheduled      *taskScheduledDetails      `json:"taskScheduledEventDetails,omitempty"`
	TaskStarted        *taskDetails               `json:"taskStartedEventDetails,omitempty"`
	TaskSubmitted      *taskOutputDetails         `json:"taskSubmittedEventDetails,omitempty"`
	TaskSucceeded      *taskOutputDetails         `json:"taskSucceededEventDetails,omitempty"`
	TaskFailed         *taskFailureDetails        `json:"taskFailedEventDetails,omitempty"`
	TaskSubmitFailed   *taskFailureDetails        `json:"taskSubmitFailedEventDetails,omitempty"`
	TaskTimedOut       *taskFailureDetails        `json:"taskTimedOutEventDetails,omitempty"`
	MapStarted         *mapStartedDetails         `json:"mapStateStartedEventDetails,omitempty"`
	IterationStarted   *iterationDetails          `json:"mapIterationStartedEventDetails,omitempty"`
	IterationSucceeded *iterationDetails          `json:"mapIterationSucceededEventDetails,omitempty"`
	IterationFailed    *iterationDetails          `json:"mapIterationFailedEventDetails,omitempty"`
	IterationAborted   *iterationDetails          `json:"mapIterationAbortedEventDetails,omitempty"`
	MapRunStarted      *mapRunStartedDetails      `json:"mapRunStartedEventDetails,omitempty"`
	MapRunFailed       *failureDetails            `json:"mapRunFailedEventDetails,omitempty"`
}

type truncation struct {
	Truncated bool `json:"truncated"`
}

type executionStartedDetails struct {
	Input        string     `json:"input,omitempty"`
	InputDetails truncation `json:"inputDetails"`
	RoleARN      string     `json:"roleArn"`
}

type executionSucceededDetails struct {
	Output        string     `json:"output,omitempty"`
	OutputDetails truncation `json:"outputDetails"`
}

type failureDetails struct {
	Error *string `json:"error,omitempty"`
	Cause *string `json:"cause,omitempty"`
}

type stateEnteredDetails struct {
	Name         string     `json:"name"`
	Input        string     `json:"input,omitempty"`
	InputDetails truncation `json:"inputDetails"`
}

type stateExitedDetails struct {
	Name            string            `json:"name"`
	Output          string            `json:"output,omitempty"`
	OutputDetails   truncation        `json:"outputDetails"`
	Assigned        map[string]string `json:"assignedVariables,omitempty"`
	AssignedDetails *truncation       `json:"assignedVariablesDetails,omitempty"`
}

type evaluationFailedDetails struct {
	State    string `json:"state"`
	Error    string `json:"error"`
	Cause    string `json:"cause,omitempty"`
	Location string `json:"location,omitempty"`
}

type taskDetails struct {
	Resource     string `json:"resource"`
	ResourceType string `json:"resourceType"`
}

type taskScheduledDetails struct {
	taskDetails
	Region     string `json:"region"`
	Parameters string `json:"parameters"`
	Timeout    int64  `json:"timeoutInSeconds,omitempty"`
	Heartbeat  int64  `json:"heartbeatInSeconds,omitempty"`
}

type taskOutputDetails struct {
	taskDetails
	Output        string     `json:"output,omitempty"`
	OutputDetails truncation `json:"outputDetails"`
}

type taskFailureDetails struct {
	taskDetails
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
}

type mapStartedDetails struct {
	Length int `json:"length"`
}

type mapRunStartedDetails struct {
	ARN string `json:"mapRunArn"`
}

type iterationDetails struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
}

// withoutData drops inputs and outputs, for includeExecutionData false.
func (e *event) withoutData() {
	if d := e.ExecutionStarted; d != nil {
		d.Input = ""
	}
	if d := e.ExecutionSucceeded; d != nil {
		d.Output = ""
	}
	if d := e.StateEntered; d != nil {
		d.Input = ""
	}
	if d := e.StateExited; d != nil {
		d.Output, d.Assigned, d.AssignedDetails = "", nil, nil
	}
	if d := e.TaskScheduled; d != nil {
		d.Parameters = ""
	}
	for _, d := range []*taskOutputDetails{e.TaskSubmitted, e.TaskSucceeded} {
		if d != nil {
			d.Output = ""
		}
	}
}

// maxEvents is the quota of an execution's history; the last event says so.
const maxEvents = 25000
