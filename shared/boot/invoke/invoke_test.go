package invoke

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

type fixed struct{}

func (fixed) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"}, nil
}

func config(endpoint string) aws.Config {
	return aws.Config{Region: "eu-central-1", Credentials: fixed{}, HTTPClient: http.DefaultClient, BaseEndpoint: &endpoint}
}

// The SDK is right about how such a request looks; a signature is over all of it.
func TestTheRequestIsThatOfTheSDK(t *testing.T) {
	var seen []*http.Request
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen, bodies = append(seen, r), append(bodies, string(body))
		io.WriteString(w, `{"ok":true}`)
	}))
	defer server.Close()
	payload := []byte(`{"v":1}`)
	if _, err := lambda.NewFromConfig(config(server.URL)).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("px-a_b"), Payload: payload, InvocationType: "RequestResponse"}); err != nil {
		t.Fatal(err)
	}
	answer, err := with(config(server.URL), time.Now).Invoke(t.Context(), "px-a_b", payload)
	if err != nil || answer.Failed || string(answer.Payload) != `{"ok":true}` || len(seen) != 2 {
		t.Fatalf("%+v %v", answer, err)
	}
	theirs, ours := seen[0], seen[1]
	if ours.Method != theirs.Method || ours.URL.Path != theirs.URL.Path || bodies[0] != bodies[1] {
		t.Errorf("%s %s %q, and the SDK %s %s %q", ours.Method, ours.URL, bodies[1], theirs.Method, theirs.URL, bodies[0])
	}
	for _, name := range []string{"X-Amz-Invocation-Type", "X-Amz-Security-Token"} {
		if ours.Header.Get(name) != theirs.Header.Get(name) {
			t.Errorf("%s is %q, and the SDK's %q", name, ours.Header.Get(name), theirs.Header.Get(name))
		}
	}
	scope := "AWS4-HMAC-SHA256 Credential=AKID/" + time.Now().UTC().Format("20060102") + "/eu-central-1/lambda/aws4_request, SignedHeaders="
	for _, r := range seen {
		if a := r.Header.Get("Authorization"); !strings.HasPrefix(a, scope) || !strings.Contains(a, "x-amz-invocation-type") || !strings.Contains(a, "host") {
			t.Errorf("%s", a)
		}
	}
}

func TestFailuresAreToldAndNothingIsSentTwice(t *testing.T) {
	calls := 0
	for name, c := range map[string]struct {
		handle func(w http.ResponseWriter)
		failed bool
		text   string
	}{
		"a function that failed": {func(w http.ResponseWriter) {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			io.WriteString(w, `{}`)
		}, true, ""},
		"throttled": {func(w http.ResponseWriter) {
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException:http://x")
			w.WriteHeader(429)
			io.WriteString(w, "secret")
		}, false, "status 429 TooManyRequestsException"},
		"a redirect":          {func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(302) }, false, "status 302"},
		"a broken connection": {func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, false, "EOF"},
		"too much":            {func(w http.ResponseWriter) { w.Write(make([]byte, maxAnswer+1)) }, false, "more than"},
	} {
		calls = 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++; c.handle(w) }))
		cfg := config(server.URL)
		cfg.HTTPClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		answer, err := with(cfg, time.Now).Invoke(t.Context(), "f", []byte("{}"))
		if (err != nil) != (c.text != "") || answer.Failed != c.failed || err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %+v %v", name, answer, err)
		}
		if calls != 1 {
			t.Errorf("%s: sent %d times", name, calls)
		}
		server.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := with(config("http://127.0.0.1:1"), time.Now).Invoke(ctx, "f", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheEndpointIsThatOfTheRegion(t *testing.T) {
	for region, want := range map[string]string{"eu-central-1": "https://lambda.eu-central-1.amazonaws.com", "cn-north-1": "https://lambda.cn-north-1.amazonaws.com.cn"} {
		if c := with(aws.Config{Region: region}, time.Now); *c.config.BaseEndpoint != want {
			t.Errorf("%s: %s", region, *c.config.BaseEndpoint)
		}
	}
}

func TestWhatIsStartedIsNotWaitedFor(t *testing.T) {
	status := http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind := r.Header.Get("X-Amz-Invocation-Type"); kind != "Event" {
			t.Errorf("it is invoked as %s", kind)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	c := with(config(server.URL), time.Now)
	if err := c.Start(t.Context(), "px-a_b", []byte(`{}`)); err != nil {
		t.Error(err)
	}
	for _, status = range []int{200, 404, 429, 500} { // 200 is the answer of one that was waited for
		if err := c.Start(t.Context(), "px-a_b", []byte(`{}`)); err == nil {
			t.Errorf("%d is taken for a start", status)
		}
	}
}
