package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/infra/local/statedir"
)

// bootstrap is a real function, built once; see infra/local/lambda/internal/probe.
var bootstrap string

// TestMain runs px itself when asked to, so that tests can start it as a
// process, kill it and look at what is left.
func TestMain(m *testing.M) {
	if os.Getenv("PX_TEST_AS_PX") != "" {
		main()
		return
	}
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		panic(err)
	}
	bootstrap = filepath.Join(dir, "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", bootstrap, "../local/lambda/internal/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("probe does not build: %v\n%s", err, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const probeTemplate = `
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Parameters:
  IssuerUrl: {Type: String}
Resources:
  Api: {Type: AWS::Serverless::HttpApi}
  Items:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
  Files: {Type: AWS::S3::Bucket}
  Probe:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: provided.al2023
      Handler: bootstrap
      CodeUri: code
      Timeout: 20
      MemorySize: 128
      Environment: {Variables: {PX_ISSUER: !Ref IssuerUrl}}
      Policies:
        - Statement:
            - {Effect: Allow, Action: dynamodb:GetItem, Resource: !GetAtt Items.Arn}
            - {Effect: Allow, Action: s3:GetObject, Resource: !Sub "${Files.Arn}/*"}
      Events:
        Call: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: POST, Path: /call}}
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: machine.asl.json
      DefinitionSubstitutions: {ProbeArn: !GetAtt Probe.Arn}
      Policies: {Statement: {Effect: Allow, Action: lambda:InvokeFunction, Resource: !GetAtt Probe.Arn}}
`

const machine = `{"QueryLanguage":"JSONata","StartAt":"Call","States":{"Call":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
"Arguments":{"FunctionName":"${ProbeArn}","Payload":"{% $states.input %}"},"Output":"{% $states.result.Payload %}","End":true}}}`

// site is a template with its code, and a state folder.
type site struct{ dir string }

func newSite(t testing.TB) site {
	t.Helper()
	s := site{t.TempDir()}
	code, err := os.ReadFile(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"template.yaml": []byte(probeTemplate), "machine.asl.json": []byte(machine), "code/bootstrap": code} {
		os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755)
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s site) px(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PX_TEST_AS_PX=1", "PX_STATE="+filepath.Join(s.dir, "state"))
	return cmd
}

// running is a px local process.
type running struct {
	site
	cmd         *exec.Cmd
	out         *output
	URL         string `json:"url"`
	AWSEndpoint string `json:"awsEndpoint"`
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) { o.mu.Lock(); defer o.mu.Unlock(); return o.b.Write(p) }
func (o *output) String() string              { o.mu.Lock(); defer o.mu.Unlock(); return o.b.String() }

func (s site) start(t testing.TB, args ...string) *running {
	t.Helper()
	ready := filepath.Join(s.dir, "ready.json")
	os.Remove(ready)
	r := &running{site: s, out: &output{}}
	r.cmd = s.px(append([]string{"local", "--addr", "127.0.0.1:0", "--template", filepath.Join(s.dir, "template.yaml"), "--ready-file", ready}, args...)...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	eventually(t, "the ready file", func() bool {
		b, err := os.ReadFile(ready)
		if err != nil {
			if r.cmd.ProcessState != nil || !alive(r.cmd.Process.Pid) {
				t.Fatalf("px local ended:\n%s", r.out)
			}
			return false
		}
		if err := json.Unmarshal(b, r); err != nil {
			t.Fatalf("ready file %q: %v", b, err)
		}
		return true
	})
	return r
}

func (r *running) stop(t testing.TB, sig syscall.Signal) error {
	t.Helper()
	r.cmd.Process.Signal(sig)
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("px local does not end on %v:\n%s", sig, r.out)
		return nil
	}
}

type report struct {
	Pid int      `json:"pid"`
	Env []string `json:"env"`
}

// call has the function report, through the state machine or through its route.
func (r *running) call(t testing.TB, do string) report {
	t.Helper()
	c := r.machines(r.operator(t))
	name := fmt.Sprintf("e%d", time.Now().UnixNano())
	arn := "arn:aws:states:us-east-1:000000000000:stateMachine:pxhost-Machine"
	started, err := c.StartExecution(context.Background(), &sfn.StartExecutionInput{StateMachineArn: &arn, Name: &name, Input: &do})
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	eventually(t, "the execution to end", func() bool {
		d, err := c.DescribeExecution(context.Background(), &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
		if err != nil {
			t.Fatal(err)
		}
		if d.Status == "RUNNING" {
			return false
		}
		if d.Status != "SUCCEEDED" {
			t.Fatalf("%s: %s %s", d.Status, aws.ToString(d.Error), aws.ToString(d.Cause))
		}
		if err := json.Unmarshal([]byte(*d.Output), &rep); err != nil {
			t.Fatal(err)
		}
		return true
	})
	return rep
}

func (r *running) operator(t testing.TB) aws.CredentialsProvider {
	t.Helper()
	k, err := statedir.At(filepath.Join(r.dir, "state")).ReadOperator()
	if err != nil {
		t.Fatal(err)
	}
	return credentials.NewStaticCredentialsProvider(k.AccessKeyID, k.SecretAccessKey, "")
}

func keyOf(rep report) aws.CredentialsProvider {
	env := map[string]string{}
	for _, e := range rep.Env {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	return credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env["AWS_SESSION_TOKEN"])
}

func (r *running) tables(p aws.CredentialsProvider) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &r.AWSEndpoint, Credentials: p, RetryMaxAttempts: 1})
}
func (r *running) machines(p aws.CredentialsProvider) *sfn.Client {
	return sfn.New(sfn.Options{Region: "us-east-1", BaseEndpoint: &r.AWSEndpoint, Credentials: p, RetryMaxAttempts: 1})
}
func (r *running) objects(p aws.CredentialsProvider) *s3.Client {
	return s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &r.AWSEndpoint, Credentials: p, RetryMaxAttempts: 1, UsePathStyle: true})
}

const items, files = "pxhost-Items", "pxhost-files"

func item(k string) map[string]ddbtypes.AttributeValue {
	return map[string]ddbtypes.AttributeValue{"pk": &ddbtypes.AttributeValueMemberS{Value: k}}
}

func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited 15 s for %s", what)
}

func alive(pid int) bool {
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, rest, _ := strings.Cut(string(b), ") ")
		return !strings.HasPrefix(rest, "Z") // dead, not yet reaped
	}
	return syscall.Kill(pid, 0) == nil
}

// covers: H2, H4
func TestWholeSystemOverKillAndRestart(t *testing.T) {
	ctx := context.Background()
	s := newSite(t)
	first := s.start(t)
	if _, err := first.tables(first.operator(t)).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(items), Item: item("kept")}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.objects(first.operator(t)).PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(files), Key: aws.String("kept"), Body: strings.NewReader("body")}); err != nil {
		t.Fatal(err)
	}
	before := first.call(t, `{"do":"report"}`)
	token := s.token(t, "--as", "engineer")

	t.Run("a second start is refused", func(t *testing.T) {
		out, err := s.px("local", "--addr", "127.0.0.1:0", "--template", filepath.Join(s.dir, "template.yaml")).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "another px local runs on this state folder; stop it, or choose another folder with --state") {
			t.Errorf("%v: %s", err, out)
		}
	})

	// One instance is idle, another in the middle of an execution.
	arn := "arn:aws:states:us-east-1:000000000000:stateMachine:pxhost-Machine"
	started, err := first.machines(first.operator(t)).StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &arn, Name: aws.String("cut"), Input: aws.String(`{"do":"sleep","millis":1500}`)})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	children := childrenOf(t, first.cmd.Process.Pid)
	if len(children) == 0 {
		t.Fatal("px local has no children: the test looks at nothing")
	}
	first.stop(t, syscall.SIGKILL)
	for _, pid := range children {
		eventually(t, fmt.Sprintf("process %d to be gone", pid), func() bool { return !alive(pid) })
	}

	second := s.start(t)
	if second.URL != first.URL || second.AWSEndpoint != first.AWSEndpoint {
		t.Errorf("addresses moved: %s %s, then %s %s", first.URL, first.AWSEndpoint, second.URL, second.AWSEndpoint)
	}
	got, err := second.tables(second.operator(t)).GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(items), Key: item("kept")})
	if err != nil || len(got.Item) != 1 {
		t.Errorf("item: %v, %v", got, err)
	}
	if _, err := second.objects(second.operator(t)).HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String(files), Key: aws.String("kept")}); err != nil {
		t.Errorf("object: %v", err)
	}
	eventually(t, "the interrupted execution to end", func() bool {
		d, err := second.machines(second.operator(t)).DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
		if err != nil {
			t.Fatal(err)
		}
		if d.Status != "RUNNING" && d.Status != "SUCCEEDED" {
			t.Fatalf("%s %s %s", d.Status, aws.ToString(d.Error), aws.ToString(d.Cause))
		}
		return d.Status == "SUCCEEDED"
	})
	if _, err := second.tables(keyOf(before)).GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(items), Key: item("kept")}); code(err) != "UnrecognizedClientException" {
		t.Errorf("the key of a function of the earlier start: %v", err)
	}
	if s.issuer(t, token) != second.URL {
		t.Errorf("issuer %s, host %s", s.issuer(t, token), second.URL)
	}

	after := second.call(t, `{"do":"report"}`)
	if err := second.stop(t, os.Interrupt.(syscall.Signal)); err != nil {
		t.Errorf("Ctrl-C: %v\n%s", err, second.out)
	}
	if alive(after.Pid) {
		t.Errorf("process %d is alive after Ctrl-C", after.Pid)
	}
	// Offline, from the state folder alone.
	if s.issuer(t, s.token(t, "--as", "reviewer", "--scope", "px.approve")) != second.URL {
		t.Error("px token while no host runs has another issuer")
	}
}

func (s site) token(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.px(append([]string{"token"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (s site) issuer(t testing.TB, token string) string {
	t.Helper()
	var claims struct{ Iss string }
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("token %q", token)
	}
	if err := json.Unmarshal(unbase64(t, parts[1]), &claims); err != nil {
		t.Fatal(err)
	}
	return claims.Iss
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(t testing.TB, pid int) (out []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(tasks) == 0 {
		skip(t, "this platform does not list children in /proc")
	}
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(bytes.NewReader(b))
		sc.Split(bufio.ScanWords)
		for sc.Scan() {
			var n int
			fmt.Sscan(sc.Text(), &n)
			out = append(out, n)
		}
	}
	return out
}

// covers: H2
func TestRoutesAndPermissions(t *testing.T) {
	ctx := context.Background()
	s := newSite(t)
	r := s.start(t)
	post := func(path, contentType, body string) (int, string) {
		t.Helper()
		resp, err := http.Post(r.URL+path, contentType, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if st, body := post("/call", "application/x-ndjson", "{}\n"); st != 200 || !strings.Contains(body, `"isBase64Encoded":true`) {
		t.Errorf("route: %d %s", st, body)
	}
	if st, body := post("/other", "text/plain", ""); st != 404 || body != `{"message":"Not Found"}` {
		t.Errorf("no route: %d %s", st, body)
	}
	if st, body := post("//call", "text/plain", ""); st != 404 || body != `{"message":"Not Found"}` { // and no redirect to a tidier path
		t.Errorf("a path that is not tidy: %d %s", st, body)
	}
	req, _ := http.NewRequest("POST", r.URL+"/call", nil)
	req.Host = "rebound.example.com"
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("foreign Host: %v %v", resp.StatusCode, err)
	}

	rep := r.call(t, `{"do":"report"}`)
	env := strings.Join(rep.Env, "\n")
	for _, want := range []string{"AWS_ENDPOINT_URL=" + r.AWSEndpoint, "PX_ISSUER=" + r.URL, "AWS_LAMBDA_FUNCTION_NAME=pxhost-Probe"} {
		if !strings.Contains(env, want) {
			t.Errorf("the function's environment lacks %s", want)
		}
	}
	op, fn := r.operator(t), keyOf(rep)
	get := func(p aws.CredentialsProvider) error {
		_, err := r.tables(p).GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(items), Key: item("x")})
		return err
	}
	put := func(p aws.CredentialsProvider) error {
		_, err := r.tables(p).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(items), Item: item("x")})
		return err
	}
	start := func(p aws.CredentialsProvider) error {
		_, err := r.machines(p).StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String("arn:aws:states:us-east-1:000000000000:stateMachine:pxhost-Machine")})
		return err
	}
	missing := func(p aws.CredentialsProvider) error {
		_, err := r.objects(p).GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(files), Key: aws.String("missing")})
		return err
	}
	for _, c := range []struct {
		name string
		call func(aws.CredentialsProvider) error
		by   aws.CredentialsProvider
		code string
	}{
		{"operator gets", get, op, ""}, {"operator puts", put, op, ""}, {"operator reads a missing object", missing, op, "NoSuchKey"},
		{"function gets as its policy says", get, fn, ""}, {"function puts", put, fn, "AccessDeniedException"}, {"function starts an execution", start, fn, "AccessDeniedException"},
		{"function reads a missing object without ListBucket", missing, fn, "AccessDenied"},
		{"nobody gets", get, aws.AnonymousCredentials{}, "MissingAuthenticationTokenException"},
	} {
		if err := c.call(c.by); code(err) != c.code || (c.code == "") != (err == nil) {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
	if _, err := r.objects(op).PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(files), Key: aws.String("k"), Body: strings.NewReader("of the link")}); err != nil {
		t.Fatal(err)
	}
	link, err := s3.NewPresignClient(r.objects(fn)).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(files), Key: aws.String("k"), ResponseContentDisposition: aws.String(`attachment; filename="k.csv"`)}, s3.WithPresignExpires(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "of the link" || resp.Header.Get("Content-Disposition") != `attachment; filename="k.csv"` {
		t.Errorf("link: %d %s %v", resp.StatusCode, b, resp.Header)
	}
}

func TestServicesOnly(t *testing.T) {
	s := newSite(t)
	os.Remove(filepath.Join(s.dir, "code", "bootstrap")) // not needed
	r := s.start(t, "--services-only")
	if _, err := r.tables(r.operator(t)).PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String(items), Item: item("x")}); err != nil {
		t.Error(err)
	}
	resp, err := http.Get(r.URL + "/.well-known/jwks.json")
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("keys: %v %v", resp, err)
	}
	if resp, err := http.Post(r.URL+"/call", "text/plain", nil); err != nil || resp.StatusCode != 404 {
		t.Errorf("a route: %v %v", resp, err)
	}
	if !strings.Contains(r.out.String(), "services only") {
		t.Errorf("output:\n%s", r.out)
	}
	if err := r.stop(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// covers: H4
func TestStartsThatAreRefused(t *testing.T) {
	s := newSite(t)
	tmpl := filepath.Join(s.dir, "template.yaml")
	broken := filepath.Join(s.dir, "broken.yaml")
	os.WriteFile(broken, []byte(strings.Replace(probeTemplate, "AWS::S3::Bucket", "AWS::SQS::Queue", 1)), 0o600)
	empty := filepath.Join(s.dir, "empty")
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"an address that others can reach", []string{"local", "--addr", "0.0.0.0:0", "--template", tmpl}, 1, "loopback addresses only"},
		{"all addresses", []string{"local", "--addr", ":8787", "--template", tmpl}, 1, "loopback addresses only"},
		{"a name that is not loopback", []string{"local", "--addr", "example.com:1", "--template", tmpl}, 1, "loopback addresses only"},
		{"a port that is no number", []string{"local", "--addr", "127.0.0.1:http", "--template", tmpl}, 1, "no number"},
		{"no template", []string{"local", "--addr", "127.0.0.1:0", "--template", "none.yaml"}, 1, "none.yaml: no such file or directory; start px local in the project's folder, or name the template with --template"},
		{"a template with what is not emulated", []string{"local", "--addr", "127.0.0.1:0", "--template", broken}, 1, "/Resources/Files/Type: the resource type AWS::SQS::Queue is not supported by px local"},
		{"an unknown flag", []string{"local", "--nope"}, 2, "flag provided but not defined: -nope"},
		{"a failpoint that is not there", []string{"local", "--failpoint", "dynamodb.commited"}, 2, `failpoint: there is no point "dynamodb.commited"`},
		{"a hit that is no number", []string{"local", "--failpoint", "dynamodb.committed:0"}, 2, "no integer from 1"},
		{"a minute without length", []string{"local", "--minute", "0s"}, 2, "from 10ms to 1h"},
		{"an argument too many", []string{"local", "x"}, 2, `unexpected argument "x"`},
		{"an unknown command", []string{"lokal"}, 2, `no command "lokal"`},
		{"help on an unknown command", []string{"help", "lokal"}, 2, `no command "lokal"`},
		{"no command", nil, 2, "Commands:"},
		{"a token for nobody", []string{"token"}, 2, "--as takes one of engineer, reviewer, viewer, other"},
		{"a token with both scopes", []string{"token", "--as", "engineer", "--scope", "px.tools px.approve"}, 2, "one of them"},
		{"a token before the first start", []string{"token", "--as", "engineer", "--state", empty}, 1, "start px local first"},
	} {
		out, err := s.px(c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.text) {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "call"}, {"local", "-h"}, {"token", "--help"}} {
		if out, err := s.px(args...).CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}

func TestFlagThenEnvironmentThenStateFolder(t *testing.T) {
	dir := t.TempDir()
	if err := statedir.At(dir).WriteHost(statedir.Host{URL: "http://folder"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"the state folder", nil, map[string]string{"PX_STATE": dir}, "http://folder"},
		{"the environment before the folder", nil, map[string]string{"PX_STATE": dir, "PX_URL": "http://env/"}, "http://env"},
		{"the flag before both", []string{"--url", "http://flag"}, map[string]string{"PX_STATE": dir, "PX_URL": "http://env"}, "http://flag"},
		{"the flag for the folder", []string{"--state", dir}, map[string]string{"PX_STATE": "/nowhere"}, "http://folder"},
	} {
		env := &environment{lookup: func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }, out: io.Discard, err: io.Discard}
		if err := env.parse(env.flags("x", ""), c.args, false); err != nil {
			t.Fatal(err)
		}
		if got, err := env.baseURL(); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// skip skips a test, except where skipping is a failure.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("not skipped under CI: %s", why)
	}
	t.Skip(why)
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
