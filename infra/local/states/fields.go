package states

import (
	"fmt"
	"sort"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// operation lists every input field of an operation: those the emulator obeys
// and those it refuses by name. A test holds the lists against the SDK's types,
// so that a field AWS adds is decided on, not overlooked.
type operation struct {
	supported []string
	refused   []string
	handle    func(s *Service, call *call) (any, error)
}

// operations are filled by init: the handlers refer to them.
var operations map[string]operation

func init() {
	operations = map[string]operation{
		"CreateStateMachine": {[]string{"definition", "name", "roleArn", "type"},
			[]string{"encryptionConfiguration", "loggingConfiguration", "publish", "tags", "tracingConfiguration", "versionDescription"}, createStateMachine},
		"UpdateStateMachine": {[]string{"stateMachineArn", "definition", "roleArn"},
			[]string{"encryptionConfiguration", "loggingConfiguration", "publish", "tracingConfiguration", "versionDescription"}, updateStateMachine},
		"DescribeStateMachine":           {[]string{"stateMachineArn", "includedData"}, nil, describeStateMachine},
		"ListStateMachines":              {[]string{"maxResults", "nextToken"}, nil, listStateMachines},
		"DeleteStateMachine":             {[]string{"stateMachineArn"}, nil, deleteStateMachine},
		"StartExecution":                 {[]string{"stateMachineArn", "input", "name"}, []string{"traceHeader"}, startExecution},
		"DescribeExecution":              {[]string{"executionArn", "includedData"}, nil, describeExecution},
		"ListExecutions":                 {[]string{"stateMachineArn", "maxResults", "nextToken", "statusFilter"}, []string{"mapRunArn", "redriveFilter"}, listExecutions},
		"StopExecution":                  {[]string{"executionArn", "error", "cause"}, nil, stopExecution},
		"GetExecutionHistory":            {[]string{"executionArn", "includeExecutionData", "maxResults", "nextToken", "reverseOrder"}, nil, getExecutionHistory},
		"SendTaskSuccess":                {[]string{"taskToken", "output"}, nil, sendTaskSuccess},
		"SendTaskFailure":                {[]string{"taskToken", "error", "cause"}, nil, sendTaskFailure},
		"SendTaskHeartbeat":              {[]string{"taskToken"}, nil, sendTaskHeartbeat},
		"ValidateStateMachineDefinition": {[]string{"definition", "maxResults", "severity", "type"}, nil, validateStateMachineDefinition},
	}
}

// call is the input of one operation. Which members it has is the operation's
// matter; absent ones are nil.
type call struct {
	StateMachineARN      *string `json:"stateMachineArn"`
	ExecutionARN         *string `json:"executionArn"`
	Definition           *string `json:"definition"`
	Name                 *string `json:"name"`
	RoleARN              *string `json:"roleArn"`
	Type                 *string `json:"type"`
	IncludedData         *string `json:"includedData"`
	Input                *string `json:"input"`
	StatusFilter         *string `json:"statusFilter"`
	Error                *string `json:"error"`
	Cause                *string `json:"cause"`
	TaskToken            *string `json:"taskToken"`
	Output               *string `json:"output"`
	Severity             *string `json:"severity"`
	MaxResults           *int    `json:"maxResults"`
	NextToken            *string `json:"nextToken"`
	ReverseOrder         *bool   `json:"reverseOrder"`
	IncludeExecutionData *bool   `json:"includeExecutionData"`
}

// readCall decodes an operation's input, refusing what it does not obey. A
// refused field may be present as null or false, which ask for nothing.
func readCall(name string, op operation, body []byte) (*call, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, apiError("SerializationException", "the body is not a JSON object")
	}
	var refused []string
	for member, value := range members {
		switch {
		case contains(op.supported, member):
		case contains(op.refused, member):
			if text := string(value); text != "null" && text != "false" {
				refused = append(refused, fmt.Sprintf("the field %s of %s is not supported by the local host", member, name))
			}
			delete(members, member)
		default:
			refused = append(refused, fmt.Sprintf("%s has no field %s", name, member))
		}
	}
	if len(refused) > 0 {
		sort.Strings(refused)
		return nil, apiError("ValidationException", strings.Join(refused, "; "))
	}
	for _, member := range op.refused {
		delete(members, member)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	c := &call{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, apiError("SerializationException", "a field of "+name+" has a value of the wrong type")
	}
	return c, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
