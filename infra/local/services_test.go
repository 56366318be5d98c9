package local

import (
	"testing"

	"github.com/pxhost/pxhost/infra/local/awsapi"
)

// What one state machine may do, another may not.
//
// covers: U4
func TestAStateMachineHasItsOwnRights(t *testing.T) {
	c := &stateCaller{policies: map[string][]awsapi.Statement{
		"pxhost-flow_run": {{Actions: []string{"lambda:InvokeFunction"}, Resources: []string{"arn:f"}}},
		"pxhost-flow_batch": {
			{Actions: []string{"s3:GetObject"}, Resources: []string{"arn:aws:s3:::b/batches/*"}},
			{Actions: []string{"states:StartExecution"}, Resources: []string{"arn:m"}},
		},
	}}
	for _, r := range []struct {
		machine, action, resource string
		permitted                 bool
	}{
		{"pxhost-flow_run", "lambda:InvokeFunction", "arn:f", true},
		{"pxhost-flow_batch", "lambda:InvokeFunction", "arn:f", false},
		{"pxhost-flow_batch", "s3:GetObject", "arn:aws:s3:::b/batches/x", true},
		{"pxhost-flow_batch", "s3:GetObject", "arn:aws:s3:::b/objects/x", false},
		{"pxhost-flow_run", "s3:GetObject", "arn:aws:s3:::b/batches/x", false},
		{"pxhost-flow_batch", "states:StartExecution", "arn:m", true},
		{"pxhost-flow_run", "states:StartExecution", "arn:m", false},
		{"", "lambda:InvokeFunction", "arn:f", false},
	} {
		if got := c.permits(r.machine, r.action, r.resource); got != r.permitted {
			t.Errorf("%s %s %s: %v", r.machine, r.action, r.resource, got)
		}
	}
}
