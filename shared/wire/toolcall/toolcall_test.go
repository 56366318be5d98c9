package toolcall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/toolcall"
)

// client is the real SDK client against a server that stands for Lambda.
func client(url string) *lambda.Client {
	return awslambda.New(boot.NewEnv(func(name string) (string, bool) {
		value, ok := map[string]string{
			"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session", "AWS_ENDPOINT_URL": url,
		}[name]
		return value, ok
	}))
}

var request = tool.Request{Version: 1, RequestID: "r.1", Tool: "pxflow_describe", Arguments: []byte(`{"a":1e400}`), ByteShare: 7}

// covers: W5
func TestEveryFailureOfInvoke(t *testing.T) {
	exception := func(status int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, `{"Message":"the service says why"}`)
		}
	}
	function := func(payload string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			fmt.Fprint(w, payload)
		}
	}
	for _, c := range []struct {
		name      string
		serve     http.HandlerFunc
		reason    wire.Reason
		retryable bool
		outcome   wire.Outcome
	}{
		{"a tool's retryable error", function(`{"errorType":"px.Retryable","errorMessage":"m"}`), wire.ReasonFailed, true, wire.Unknown},
		{"a tool's fatal error", function(`{"errorType":"px.Fatal","errorMessage":"m"}`), wire.ReasonFailed, false, wire.Unknown},
		{"a timeout", function(`{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: x Error: Task timed out after 25.00 seconds"}`), wire.ReasonTimeout, true, wire.Unknown},
		{"a timeout of older platforms", function(`{"errorMessage":"2026-11-30T00:00:00Z x Task timed out after 25.00 seconds"}`), wire.ReasonTimeout, true, wire.Unknown},
		{"a crash", function(`{"errorType":"Runtime.ExitError","errorMessage":"RequestId: x Error: Runtime exited with error: exit status 2"}`), wire.ReasonCrashed, true, wire.Unknown},
		{"a panic", function(`{"errorType":"boundsError","errorMessage":"index out of range","stackTrace":[]}`), wire.ReasonCrashed, true, wire.Unknown},
		{"a report that cannot be read", function(`<html>`), wire.ReasonCrashed, true, wire.Unknown},
		{"throttling", exception(429, "TooManyRequestsException"), wire.ReasonThrottled, true, wire.Not},
		{"a missing function", exception(404, "ResourceNotFoundException"), wire.ReasonUnavailable, false, wire.Not},
		{"no right to invoke it", exception(403, "AccessDeniedException"), wire.ReasonUnavailable, false, wire.Not},
		{"a function that is being changed", exception(409, "ResourceConflictException"), wire.ReasonUnavailable, true, wire.Not},
		{"a payload that is too large", exception(413, "RequestTooLargeException"), wire.ReasonEndpoint, false, wire.Not},
		{"an exception of the service", exception(500, "ServiceException"), wire.ReasonUnreachable, true, wire.Unknown},
		{"a network error inside Lambda", exception(502, "EC2UnexpectedException"), wire.ReasonUnreachable, true, wire.Unknown},
		{"an unknown exception of the client's making", exception(400, "SomethingNewException"), wire.ReasonUnreachable, true, wire.Unknown},
		{"a connection that breaks after the request", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, wire.ReasonUnreachable, true, wire.Unknown},
		{"an answer that stops halfway", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"ok":true`)
		}, wire.ReasonUnreachable, true, wire.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				c.serve(w, r)
			}))
			defer server.Close()
			envelope, err := toolcall.New(client(server.URL), "px-tool-")(t.Context(), request)
			var failure *wire.Failure
			if !errors.As(err, &failure) || envelope != nil {
				t.Fatalf("got %s, %v", envelope, err)
			}
			if failure.Reason != c.reason || failure.Retryable != c.retryable || failure.Outcome != c.outcome {
				t.Errorf("got %s %v %s (%v)", failure.Reason, failure.Retryable, failure.Outcome, failure.Cause)
			}
			if calls.Load() != 1 {
				t.Errorf("it was invoked %d times: a retry repeats the effect", calls.Load())
			}
		})
	}
}

// covers: W5
func TestNobodyListens(t *testing.T) {
	server := httptest.NewServer(nil)
	url := server.URL
	server.Close()
	_, err := toolcall.New(client(url), "")(t.Context(), request)
	var failure *wire.Failure
	if !errors.As(err, &failure) || failure.Reason != wire.ReasonUnreachable || failure.Outcome != wire.Not || !failure.Retryable {
		t.Errorf("got %+v", failure)
	}
}

// A call that is cut off by its deadline may have happened.
// covers: W5
func TestADeadlineLeavesTheOutcomeUnknown(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := toolcall.New(client(server.URL), "")(ctx, request)
	var failure *wire.Failure
	if !errors.As(err, &failure) || failure.Reason != wire.ReasonTimeout || failure.Outcome != wire.Unknown || !failure.Retryable {
		t.Errorf("got %+v", failure)
	}
}

func TestTheInvocation(t *testing.T) {
	const envelope = `{"ok":true,"data":{},"diagnostics":[],"resources":[]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		const want = `{"v":1,"requestId":"r.1","tool":"pxflow_describe","principal":{"iss":"","sub":"","scopes":[]},"arguments":{"a":1e400},"deadline":"0001-01-01T00:00:00Z","byteShare":7}`
		switch {
		case r.Method != "POST" || r.URL.Path != "/2015-03-31/functions/px-tool-pxflow_describe/invocations":
			t.Errorf("%s %s", r.Method, r.URL.Path)
		case string(body) != want:
			t.Errorf("got %s", body)
		case r.Header.Get("X-Amz-Invocation-Type") != "RequestResponse" && r.Header.Get("X-Amz-Invocation-Type") != "":
			t.Errorf("type %q", r.Header.Get("X-Amz-Invocation-Type"))
		case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=id/") || r.Header.Get("X-Amz-Security-Token") != "session":
			t.Errorf("not signed: %q", r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, envelope)
	}))
	defer server.Close()
	got, err := toolcall.New(client(server.URL), "px-tool-")(t.Context(), request)
	if err != nil || string(got) != envelope {
		t.Errorf("got %s, %v", got, err)
	}
}

// failing is an API with an error of no kind.
type failing struct{ options lambda.Options }

func (f *failing) Invoke(_ context.Context, _ *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	for _, option := range options {
		option(&f.options)
	}
	return nil, errors.New("of no kind")
}

func TestRetriesAreOff(t *testing.T) {
	api := &failing{}
	_, err := toolcall.New(api, "")(t.Context(), request)
	var failure *wire.Failure
	if !errors.As(err, &failure) || !failure.Retryable || failure.Outcome != wire.Unknown {
		t.Errorf("got %v", err)
	}
	if _, ok := api.options.Retryer.(aws.NopRetryer); !ok {
		t.Errorf("the retryer is %T", api.options.Retryer)
	}
}
