package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/statedir"
)

// The file is sourced where another account's settings may stand. Go's SDK and
// version 2 of the CLI read AWS_REGION, Python's SDK and version 1 of the CLI
// AWS_DEFAULT_REGION alone.
func TestTheFileToSourceSetsAllThatClientsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aws.env")
	text := awsEnvironment(Running{AWSEndpoint: "http://127.0.0.1:1", Operator: statedir.Operator{AccessKeyID: "KEY", SecretAccessKey: "SECRET"}})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", "-c", `. "$1" && env`, "sh", file)
	shell.Env = append(os.Environ(), "AWS_PROFILE=other", "AWS_SESSION_TOKEN=other", "AWS_DEFAULT_REGION=eu-west-1")
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		name, value, _ := strings.Cut(line, "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "SECRET",
		"AWS_REGION": Region, "AWS_DEFAULT_REGION": Region, "AWS_PROFILE": "", "AWS_SESSION_TOKEN": "",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, not %q", name, got[name], want)
		}
	}
}

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
