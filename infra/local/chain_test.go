package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const chainTemplate = `
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  IssuerUrl: {Type: String}
Globals:
  Function: {Runtime: provided.al2023, Handler: bootstrap, CodeUri: code, Timeout: 10, MemorySize: 256}
Resources:
  Api: {Type: AWS::Serverless::HttpApi}
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  Edge:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_NEXT: !Ref Tool}}
      Policies: {Statement: {Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Tool.Arn}}
      Events: {Chain: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: POST, Path: /chain}}}
  # As many writes as a capability's execution makes: its arguments and its record before
  # the adapter's function is invoked, a claim, a result and an end in that function.
  Accept:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_NEXT: !Ref Perform, NOOP_TABLE: !Ref Items, NOOP_WRITES: "2"}}
      Policies: {Statement: [{Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Perform.Arn}, {Effect: Allow, Action: dynamodb:PutItem, Resource: !GetAtt Items.Arn}]}
      Events: {Execution: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: POST, Path: /execution}}}
  Perform:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_TABLE: !Ref Items, NOOP_WRITES: "3"}}
      Policies: {Statement: {Effect: Allow, Action: [dynamodb:GetItem, dynamodb:PutItem], Resource: !GetAtt Items.Arn}}
  # One write more: an effect outside is noted before it may happen.
  AcceptEffect:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_NEXT: !Ref PerformEffect, NOOP_TABLE: !Ref Items, NOOP_WRITES: "2"}}
      Policies: {Statement: [{Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt PerformEffect.Arn}, {Effect: Allow, Action: dynamodb:PutItem, Resource: !GetAtt Items.Arn}]}
      Events: {Execution: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: POST, Path: /execution-effect}}}
  PerformEffect:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_TABLE: !Ref Items, NOOP_WRITES: "4"}}
      Policies: {Statement: {Effect: Allow, Action: [dynamodb:GetItem, dynamodb:PutItem], Resource: !GetAtt Items.Arn}}
  Nothing: {Type: AWS::Serverless::Function}
  Three:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: three.asl.json
      DefinitionSubstitutions: {NothingArn: !GetAtt Nothing.Arn}
      Policies: {Statement: {Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Nothing.Arn}}
  Twelve:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: twelve.asl.json
      DefinitionSubstitutions: {NothingArn: !GetAtt Nothing.Arn}
      Policies: {Statement: {Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Nothing.Arn}}
  Tool:
    Type: AWS::Serverless::Function
    Properties:
      Environment: {Variables: {NOOP_TABLE: !Ref Items}}
      Policies: {Statement: {Effect: Allow, Action: dynamodb:GetItem, Resource: !GetAtt Items.Arn}}
`

// startChain serves the chain that every tool call is made of, without any
// work in it: HTTP API → edge → Invoke → tool → GetItem.
func startChain(t testing.TB) Running {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "code", "bootstrap"), "./internal/noop")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range []struct{ name, text string }{{"template.yaml", chainTemplate}, {"three.asl.json", nothings(3)}, {"twelve.asl.json", nothings(12)}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, filepath.Join(dir, "template.yaml"), nil)
}

// nothings is a state machine of so many tasks that do nothing, one after the
// other.
func nothings(tasks int) string {
	states := make([]string, tasks)
	for i := range states {
		next := `"End":true`
		if i+1 < tasks {
			next = fmt.Sprintf(`"Next":"T%d"`, i+1)
		}
		states[i] = fmt.Sprintf(`"T%d":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":"${NothingArn}","Payload":{"task":%d}},"Output":{},%s}`, i, i, next)
	}
	return `{"QueryLanguage":"JSONata","StartAt":"T0","States":{` + strings.Join(states, ",") + `}}`
}

// serve runs a host with a new state folder until the test ends. change may change
// how it runs.
func serve(t testing.TB, template string, prepare func(context.Context, Running) error, change ...func(*Config)) Running {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan Running, 1), make(chan error, 1)
	go func() {
		cfg := Config{
			Addr: "127.0.0.1:0", State: filepath.Join(t.TempDir(), "state"), Template: template, Out: log,
			Ready: func(ctx context.Context, r Running) error {
				if prepare != nil {
					if err := prepare(ctx, r); err != nil {
						return err
					}
				}
				ready <- r
				return nil
			},
		}
		for _, c := range change {
			c(&cfg)
		}
		ended <- Run(ctx, cfg)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the host ended with %v", err)
		}
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the host said at last:\n%s", text[max(0, len(text)-4000):])
		}
	})
	select {
	case r := <-ready:
		return r
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return Running{}
	}
}

func post(t testing.TB, url string, payload []byte) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
	return string(b)
}

// The host runs inside another program too, and stops when it is told.
//
// covers: H2, H4
func TestChain(t *testing.T) {
	r := startChain(t)
	for range 3 {
		for _, path := range []string{"/chain", "/execution"} {
			if got := post(t, r.URL+path, []byte(`{}`)); got != "done" {
				t.Errorf("%s: %q", path, got)
			}
		}
	}
}
