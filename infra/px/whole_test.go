package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/oidc"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/shared/wire"
)

// behaviours are the tools of the whole path. missing has no function.
var behaviours = []struct{ tool, behaviour, more string }{
	{"pxflow_describe", "fine", ""},
	{"pxflow_validate", "hang", "Timeout: 1"},
	{"run_get", "exit", ""},
	{"run_cancel", "panic", ""},
	{"pxflow_apply_change", "retryable", ""},
	{"pxflow_run", "fatal", ""},
	{"result_read", "no envelope", ""},
	{"pxflow_search", "fine", "ReservedConcurrentExecutions: 0"},
	{"project_search", "missing", ""},
}

// wholePath starts a local host with the endpoint's real binary and tools that
// misbehave, and returns a door to it and the folder of the tools' counts.
func wholePath(t *testing.T) (*door, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"endpoint", "tool"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", filepath.Join(dir, name, "bootstrap"), "./testdata/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var text strings.Builder
	var names []string
	for _, b := range behaviours {
		names = append(names, fmt.Sprintf(`{"name":%q}`, b.tool))
	}
	fmt.Fprintf(&text, `
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  IssuerUrl: {Type: String}
Globals:
  Function: {Runtime: provided.al2023, Handler: bootstrap}
Resources:
  Api: {Type: AWS::Serverless::HttpApi}
  McpEndpoint:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: endpoint
      Timeout: 29
      Environment:
        Variables: {PX_ISSUER: !Ref IssuerUrl, PX_AUDIENCE: pxhost, PX_TOOL_PREFIX: !Sub "${AWS::StackName}-tool-", CATALOG: '[%s]'}
      Policies:
        - Version: "2012-10-17"
          Statement: [{Effect: Allow, Action: lambda:InvokeFunction, Resource: !Sub "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-tool-*"}]
      Events:
        Wire: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: POST, Path: /v1/mcp}}
`, strings.Join(names, ","))
	for i, b := range behaviours {
		if b.behaviour == "missing" {
			continue
		}
		fmt.Fprintf(&text, `
  Tool%d:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub "${AWS::StackName}-tool-%s"
      CodeUri: tool
      %s
      Environment: {Variables: {BEHAVIOUR: %s, COUNT: %s}}
`, i, b.tool, b.more, b.behaviour, filepath.Join(dir, "count-"+b.tool))
	}
	template := filepath.Join(dir, "template.yaml")
	if err := os.WriteFile(template, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &door{state: filepath.Join(dir, "state")}
	ready, ended := make(chan local.Running, 1), make(chan error, 1)
	go func() {
		ended <- local.Run(ctx, local.Config{Addr: "127.0.0.1:0", State: d.state, Template: template, Out: t.Output(),
			Ready: func(_ context.Context, r local.Running) error { ready <- r; return nil }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case r := <-ready:
		d.url, d.key = r.URL, r.Key
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("the local host is not ready after 30 s")
	}
	return d, dir
}

// The wire through everything that there is of it: HTTP, API Gateway, the
// endpoint's process, Invoke, the tools' processes; over HTTP and over stdio.
// covers: W1, W4, W5, W8
func TestTheWholePath(t *testing.T) {
	d, dir := wholePath(t)
	lines := []string{`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`}
	for _, b := range behaviours {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"n":1e400}}}`, b.tool, b.tool))
	}
	lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":9007199254740993,"meth`)
	fine := func(n int) string {
		share := min(wire.MaxReplyLine, wire.ReplyBytes/n)
		frame := `{"jsonrpc":"2.0","id":"pxflow_describe","result":{"content":[],"structuredContent":,"isError":false}}` + "\n"
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"pxflow_describe","result":{"content":[],"structuredContent":{"ok":true,"data":{"who":"engineer","tool":"pxflow_describe",`+
			`"arguments":{"n":1e400},"byteShare":%d,"seconds":25},"diagnostics":[],"resources":[]},"isError":false}}`+"\n", share-wire.EscapedLen([]byte(frame)))
	}
	want := func(n int) string {
		return `{"jsonrpc":"2.0","id":"list","result":{"tools":[` + catalogOf() + `]}}` + "\n" +
			fine(n) +
			failureOf(`"pxflow_validate"`, "the tool did not answer in time", true, "tool_timeout", "unknown") +
			failureOf(`"run_get"`, "the tool ended without an answer", true, "tool_crashed", "unknown") +
			failureOf(`"run_cancel"`, "the tool ended without an answer", true, "tool_crashed", "unknown") +
			failureOf(`"pxflow_apply_change"`, "the tool failed", true, "tool_failed", "unknown") +
			failureOf(`"pxflow_run"`, "the tool failed", false, "tool_failed", "unknown") +
			failureOf(`"result_read"`, "the tool gave an answer that is no envelope", false, "answer_invalid", "unknown") +
			failureOf(`"pxflow_search"`, "too many calls at the moment", true, "tool_throttled", "not_started") +
			failureOf(`"project_search"`, "the tool is not available", false, "tool_unavailable", "not_started") +
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not strict JSON at byte 44: ends too early"}}` + "\n"
	}
	body := strings.Join(lines, "\n")
	if got := d.post(t, body); got != want(11) {
		t.Errorf("over HTTP\n got %s\nwant %s", got, want(11))
	}
	code, out, errs := d.px(t, strings.NewReader(body), "stdio")
	if code != 0 || errs != "" || out != want(1) { // each line is a request of its own
		t.Errorf("over stdio: %d %s\n got %s\nwant %s", code, errs, out, want(1))
	}
	for _, b := range behaviours {
		count, _ := os.ReadFile(filepath.Join(dir, "count-"+b.tool))
		if want := map[bool]int{true: 2, false: 0}[b.behaviour != "missing" && b.tool != "pxflow_search"]; len(count) != want {
			t.Errorf("%s was invoked %d times for %d lines", b.tool, len(count), want)
		}
	}

	// Who may not: no token, and the tokens of a person and of another host.
	line := fmt.Sprintf(describe, "1", "{}")
	approver, err := d.key.Token(d.url, "engineer", oidc.ScopeApprove, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	old, err := d.key.Token(d.url, "engineer", oidc.ScopeTools, time.Now().Add(-2*oidc.Lifetime))
	if err != nil {
		t.Fatal(err)
	}
	strange, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer strange.Close()
	key, err := oidc.Open(strange)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := key.Token(d.url, "engineer", oidc.ScopeTools, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"approver": approver, "expired": old, "foreign": foreign} {
		want := failureOf("1", "the endpoint refuses the token", false, "token_refused", "not_started")
		if code, out, errs := d.px(t, strings.NewReader(line), "stdio", "--token", token); code != 0 || out != want || errs == "" {
			t.Errorf("%s: %d %s %s", name, code, out, errs)
		}
	}
}

func catalogOf() string {
	var names []string
	for _, b := range behaviours {
		names = append(names, fmt.Sprintf(`{"name":%q}`, b.tool))
	}
	return strings.Join(names, ",")
}
