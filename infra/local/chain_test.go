package local

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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
	if err := os.WriteFile(filepath.Join(dir, "template.yaml"), []byte(chainTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan Running, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{
			Addr: "127.0.0.1:0", State: filepath.Join(dir, "state"), Template: filepath.Join(dir, "template.yaml"), Out: io.Discard,
			Ready: func(_ context.Context, r Running) error { ready <- r; return nil },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the host ended with %v", err)
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
		if got := post(t, r.URL+"/chain", []byte(`{}`)); got != "done" {
			t.Errorf("%q", got)
		}
	}
}

// BenchmarkChain is the warm cost of a tool call without its work, beside a
// bare net/http echo in the same process.
func BenchmarkChain(b *testing.B) {
	r := startChain(b)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer echo.Close()
	payload := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for _, c := range []struct{ name, url string }{{"net-http-echo", echo.URL}, {"noop-chain", r.URL + "/chain"}} {
		b.Run(c.name, func(b *testing.B) {
			for range 20 { // warm: processes started, connections open
				post(b, c.url, payload)
			}
			for b.Loop() {
				post(b, c.url, payload)
			}
		})
	}
}
