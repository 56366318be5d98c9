package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/pxhost/pxhost/shared/tool"
)

func env(pairs ...string) *Env {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return NewEnv(func(name string) (string, bool) { value, ok := values[name]; return value, ok })
}

func TestEverythingThatIsMissingIsNamedOnce(t *testing.T) {
	e := env("A", "1", "EMPTY", "")
	if e.Need("A") != "1" || e.Get("B") != "" || e.Err() != nil {
		t.Error("what is there is missing")
	}
	e.Need("C")
	e.Need("EMPTY")
	e.Need("C")
	if err := e.Err(); err == nil || err.Error() != "boot: the environment lacks C, EMPTY" {
		t.Errorf("got %v", err)
	}
}

func TestAWholeNumberIsReadWithinItsBounds(t *testing.T) {
	values := map[string]string{"A": "7", "NEGATIVE": "-1", "LARGE": "11", "FRACTION": "1.5", "TEXT": "many"}
	read := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	e := NewEnv(read)
	if a, none := e.Whole("A", 1, 10), e.Whole("NONE", 1, 10); a != 7 || none != 0 || e.Err() != nil {
		t.Error(a, none, e.Err())
	}
	for _, name := range []string{"NEGATIVE", "LARGE", "FRACTION", "TEXT"} {
		if e := NewEnv(read); e.Whole(name, 1, 10) != 0 || e.Err() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestADurationIsReadWithinItsBounds(t *testing.T) {
	e := env("A", "90s", "B", "1h1s", "C", "0s", "D", "30", "E", "1m")
	if a, none := e.Duration("A", time.Second, time.Hour), e.Duration("NONE", time.Second, time.Hour); a != 90*time.Second || none != 0 || e.Err() != nil {
		t.Errorf("got %v, %v, %v", a, none, e.Err())
	}
	for _, name := range []string{"B", "C", "D"} {
		if d := e.Duration(name, time.Second, time.Hour); d != 0 {
			t.Errorf("%s: got %v", name, d)
		}
	}
	const want = "boot: B is no duration from 1s to 1h0m0s\nboot: C is no duration from 1s to 1h0m0s\nboot: D is no duration from 1s to 1h0m0s"
	if err := e.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestAWSComesFromTheEnvironmentAlone(t *testing.T) {
	e := env("AWS_REGION", "eu-central-1", "AWS_ACCESS_KEY_ID", "id", "AWS_SECRET_ACCESS_KEY", "secret", "AWS_SESSION_TOKEN", "session", "AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	config := AWS(e, "LAMBDA")
	credentials, err := config.Credentials.Retrieve(t.Context())
	if err != nil || credentials.AccessKeyID != "id" || credentials.SecretAccessKey != "secret" || credentials.SessionToken != "session" ||
		config.Region != "eu-central-1" || config.BaseEndpoint == nil || *config.BaseEndpoint != "http://127.0.0.1:1" {
		t.Errorf("got %+v, %v", credentials, err)
	}
	if AWS(e, "LAMBDA").HTTPClient != config.HTTPClient {
		t.Error("each client has its own connections")
	}
	e = env("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:2")
	if one, other := *AWS(e, "LAMBDA").BaseEndpoint, *AWS(e, "DYNAMODB").BaseEndpoint; one != "http://127.0.0.1:2" || other != "http://127.0.0.1:1" {
		t.Errorf("Lambda is at %s, DynamoDB at %s", one, other)
	}
	e = env("AWS_REGION", "eu-central-1")
	if AWS(e, "LAMBDA").BaseEndpoint != nil {
		t.Error("an endpoint that nobody set")
	}
	if err := e.Err(); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY") {
		t.Errorf("got %v", err)
	}
}

type typed struct{ kind string }

func (t typed) Error() string     { return "typed" }
func (t typed) ErrorType() string { return t.kind }

// covers: W5
func TestErrorsCarryTheirType(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an error that says its type", typed{"px.Fatal"}, "px.Fatal"},
		{"a tool's failure", fmt.Errorf("outer: %w", tool.Fatal(errors.New("x"))), "px.Fatal"},
		{"a tool's failure that may be tried again", tool.Retryable(errors.New("x")), "px.Retryable"},
		{"one that is wrapped", fmt.Errorf("outer: %w", typed{"px.Fatal"}), "px.Fatal"},
		{"one that says nothing may be tried again", errors.New("x"), "px.Retryable"},
		{"a deadline may be tried again", context.DeadlineExceeded, "px.Retryable"},
	} {
		handler := reporter{Handle(func(context.Context, struct{}) (struct{}, error) { return struct{}{}, c.err })}
		out, err := handler.Invoke(t.Context(), []byte(`{}`))
		// aws-lambda-go takes the type from this very error and wraps any other.
		report, ok := err.(messages.InvokeResponse_Error)
		if !ok || report.Type != c.want || out != nil || report.ShouldExit {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
}

func TestAPanicEndsTheProcessAndQuotesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		panic func()
		want  string
	}{
		{"with text", func() { panic("secret-1234") }, "a panic with a string"},
		{"with an error", func() { panic(errors.New("secret-1234")) }, "a panic with a *errors.errorString"},
		{"of the runtime", func() { var list []int; _ = list[len(os.Args)] }, "index out of range"},
	} {
		func() {
			defer func() {
				// aws-lambda-go reports this very value, and exits if it says so.
				report, ok := recover().(messages.InvokeResponse_Error)
				if !ok || report.Type != "Runtime.Panic" || !strings.Contains(report.Message, c.want) || !report.ShouldExit {
					t.Errorf("%s: %+v", c.name, report)
				}
			}()
			handler := reporter{handlerFunc(func(context.Context, []byte) ([]byte, error) { c.panic(); return nil, nil })}
			_, _ = handler.Invoke(t.Context(), nil)
			t.Errorf("%s: no panic", c.name)
		}()
	}
}

// transport counts what is asked of a connection pool.
type transport struct{ trips, closed int }

func (p *transport) CloseIdleConnections() { p.closed++ }
func (p *transport) RoundTrip(*http.Request) (*http.Response, error) {
	p.trips++
	return &http.Response{}, nil
}

func TestConnectionsOfBeforeAFreezeAreNotUsed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	pool := &transport{}
	fresh := &freshTransport{inner: pool, now: func() time.Time { return now }}
	for i, step := range []struct {
		after  time.Duration
		closed int
	}{{0, 1}, {0, 1}, {20 * time.Second, 1}, {20*time.Second + 1, 2}, {time.Second, 2}, {time.Hour, 3}} {
		now = now.Add(step.after)
		if _, err := fresh.RoundTrip(&http.Request{}); err != nil || pool.closed != step.closed || pool.trips != i+1 {
			t.Errorf("step %d: %+v, %v", i, pool, err)
		}
	}
}

// A body like the SDK's: closed, it reads as ended, and its WriteTo fails.
type closable struct {
	*bytes.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

func (c *closable) WriteTo(w io.Writer) (int64, error) {
	if c.closed {
		return 0, io.EOF
	}
	return c.Reader.WriteTo(w)
}

type keeping struct {
	transport
	request *http.Request
}

func (k *keeping) RoundTrip(request *http.Request) (*http.Response, error) {
	k.request = request
	return k.transport.RoundTrip(request)
}

func TestABodyThatIsClosedEarlyIsNoBrokenRequest(t *testing.T) {
	inner := &keeping{}
	fresh := &freshTransport{inner: inner, now: time.Now}
	body := &closable{Reader: bytes.NewReader([]byte("payload"))}
	request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.RoundTrip(request); err != nil {
		t.Fatal(err)
	}
	// What net/http does: as many bytes as were promised, then a look for more.
	if n, err := io.Copy(io.Discard, io.LimitReader(inner.request.Body, 7)); n != 7 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if inner.request.Body.Close(); !body.closed {
		t.Error("the body is not closed")
	}
	if n, err := io.Copy(io.Discard, inner.request.Body); n != 0 || err != nil {
		t.Errorf("a look for more after it was closed: %d bytes, %v", n, err)
	}
	if request.Body != body {
		t.Error("the caller's request was changed")
	}
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		request.Body = none
		if fresh.RoundTrip(request); inner.request.Body != none {
			t.Errorf("no body became %T", inner.request.Body)
		}
	}
}

func TestHandleIsStrict(t *testing.T) {
	type in struct {
		Name string `json:"name"`
	}
	handler := reporter{Handle(func(_ context.Context, v in) (map[string]string, error) {
		return map[string]string{"b": v.Name, "a": "<>"}, nil
	})}
	if out, err := handler.Invoke(t.Context(), []byte(`{"name":"x"}`)); err != nil || string(out) != `{"a":"<>","b":"x"}` {
		t.Errorf("got %s, %v", out, err)
	}
	for _, payload := range []string{``, `{"Name":"x"}`, `{"name":"x","more":1}`, `{"name":"x","name":"y"}`, `[]`, `{"name":1}`} {
		_, err := handler.Invoke(t.Context(), []byte(payload))
		if report, ok := err.(messages.InvokeResponse_Error); !ok || report.Type != "px.Fatal" {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestAToolsEnvelopeGoesOutAsItIs(t *testing.T) {
	const envelope = `{"ok":true, "data":{"b":1,"a":1e400},"diagnostics":[],"resources":[]}`
	var got tool.Request
	handler := reporter{Tool(func(_ context.Context, request tool.Request) (json.RawMessage, error) {
		got = request
		return json.RawMessage(envelope), nil
	})}
	out, err := handler.Invoke(t.Context(), []byte(`{"v":1,"requestId":"r","tool":"t","principal":{"iss":"i","sub":"s","scopes":["px.tools"]},"arguments":{"n":1e400},"deadline":"2026-11-30T00:00:00Z","byteShare":7}`))
	if err != nil || string(out) != envelope || got.Tool != "t" || string(got.Arguments) != `{"n":1e400}` || got.Principal.Subject != "s" || got.ByteShare != 7 {
		t.Errorf("got %s, %v for %+v", out, err, got)
	}
	_, err = handler.Invoke(t.Context(), []byte(`{"v":1,"admin":true}`))
	if report, ok := err.(messages.InvokeResponse_Error); !ok || report.Type != "px.Fatal" {
		t.Errorf("got %v", err)
	}
}

func TestLogLinesNameFunctionAndInvocation(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, env("AWS_LAMBDA_FUNCTION_NAME", "pxhost-tool-run_get", "PX_LOG_LEVEL", "WARN")).With("a", 1)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "aws-1"})
	log.InfoContext(ctx, "too quiet")
	log.WarnContext(ctx, "hello")
	log.Warn("outside")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %s", out.String())
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || line["function"] != "pxhost-tool-run_get" || line["requestId"] != "aws-1" || line["a"] != 1.0 || line["level"] != "WARN" {
		t.Errorf("got %s, %v", lines[0], err)
	}
	if strings.Contains(lines[1], "requestId") {
		t.Errorf("got %s", lines[1])
	}
	if newLogger(&out, env("PX_LOG_LEVEL", "LOUD")).Enabled(ctx, slog.LevelDebug) {
		t.Error("a level that is none")
	}
}
