package awsjson

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	ecstypes "github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/smithy-go"

	"github.com/pxhost/pxhost/shared/store/capacity"
	"github.com/pxhost/pxhost/shared/store/datakey"
	"github.com/pxhost/pxhost/shared/store/execution"
)

type fixed struct{}

func (fixed) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"}, nil
}

func config(endpoint string) aws.Config {
	return aws.Config{Region: "eu-central-1", Credentials: fixed{}, HTTPClient: http.DefaultClient, BaseEndpoint: &endpoint}
}

var (
	ecsService = service{"ecs", "AmazonEC2ContainerServiceV20141113", "1.1"}
	sfnService = service{"states", "AWSStepFunctions", "1.0"}
	kmsService = service{"kms", "TrentService", "1.1"}
)

// at is a client that waits for nothing.
func at(s service, endpoint string) *Client {
	c := with(s, config(endpoint))
	c.pause = func(context.Context, int) error { return nil }
	return c
}

// The SDK is right about how a request looks: each that the product sends is compared
// with the one that the SDK sends for the same wish.
//
// covers: H1
func TestRequestsAreThoseOfTheSDK(t *testing.T) {
	type seen struct {
		target, contentType, scope string
		body                       any
	}
	var requests []seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s := seen{target: r.Header.Get("X-Amz-Target"), contentType: r.Header.Get("Content-Type")}
		_, s.scope, _ = strings.Cut(r.Header.Get("Authorization"), "/")
		s.scope, _, _ = strings.Cut(s.scope, ",")
		if err := json.Unmarshal(text, &s.body); err != nil || r.URL.Path != "/" || r.Header.Get("X-Amz-Security-Token") != "token" {
			t.Errorf("%s %s %v", r.Method, r.URL, err)
		}
		requests = append(requests, s)
		io.WriteString(w, `{"tasks":[{"taskArn":"task","lastStatus":"RUNNING","containers":[]}],"failures":[]}`)
	}))
	defer server.Close()
	tasks, steps := ecs.NewFromConfig(config(server.URL)), sfn.NewFromConfig(config(server.URL))
	run := func(change func(*ecs.RunTaskInput)) func() error {
		return func() error {
			in := &ecs.RunTaskInput{
				Cluster: aws.String("c"), TaskDefinition: aws.String("f:1"), Count: aws.Int32(1), ClientToken: aws.String("wrk_1"), StartedBy: aws.String("pxhost"),
				NetworkConfiguration: &ecstypes.NetworkConfiguration{AwsvpcConfiguration: &ecstypes.AwsVpcConfiguration{
					Subnets: []string{"a", "b"}, SecurityGroups: []string{"g"}, AssignPublicIp: ecstypes.AssignPublicIpDisabled,
				}},
				Overrides: &ecstypes.TaskOverride{ContainerOverrides: []ecstypes.ContainerOverride{{Name: aws.String(capacity.Container), Environment: []ecstypes.KeyValuePair{
					{Name: aws.String("PX_WORKER"), Value: aws.String("wrk_1")}, {Name: aws.String("PX_JOB_KEY"), Value: aws.String("a2V5")},
				}}}},
			}
			change(in)
			_, err := tasks.RunTask(t.Context(), in)
			return err
		}
	}
	ours := capacity.Tasks{Client: at(ecsService, server.URL), Cluster: "c", TaskDefinition: "f:1", Subnets: []string{"a", "b"}, SecurityGroup: "g"}
	start := func(provider string, public bool) func() error {
		return func() error {
			k := ours
			k.Provider, k.PublicIP = provider, public
			_, err := k.Start(t.Context(), "wrk_1", []byte("key"))
			return err
		}
	}
	keys, bound := kms.NewFromConfig(config(server.URL)), map[string]string{"workspace": "team", "connection": "conn_1"}
	wrapping := datakey.Keys{Client: at(kmsService, server.URL), Key: "key"}
	tokens := execution.Tokens{Client: at(sfnService, server.URL)}
	for name, c := range map[string]struct{ theirs, ours func() error }{
		"a task on Fargate": {run(func(in *ecs.RunTaskInput) {
			in.LaunchType, in.PlatformVersion = ecstypes.LaunchTypeFargate, aws.String("1.4.0")
			in.NetworkConfiguration.AwsvpcConfiguration.AssignPublicIp = ecstypes.AssignPublicIpEnabled
		}), start("", true)},
		"a task on instances": {run(func(in *ecs.RunTaskInput) {
			in.CapacityProviderStrategy = []ecstypes.CapacityProviderStrategyItem{{CapacityProvider: aws.String("p"), Weight: 1}}
		}), start("p", true)},
		"tasks": {func() error {
			_, err := tasks.DescribeTasks(t.Context(), &ecs.DescribeTasksInput{Cluster: aws.String("c"), Tasks: []string{"x", "y"}})
			return err
		}, func() error { _, _, err := ours.Look(t.Context(), []string{"x", "y"}); return err }},
		"a token that succeeds": {func() error {
			_, err := steps.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: aws.String("t"), Output: aws.String("{}")})
			return err
		}, func() error { return tokens.Succeed(t.Context(), "t") }},
		"a data key": {func() error {
			_, err := keys.GenerateDataKey(t.Context(), &kms.GenerateDataKeyInput{KeyId: aws.String("key"), KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: bound})
			return err
		}, func() error { _, _, err := wrapping.Generate(t.Context(), bound); return err }},
		"a wrapped key": {func() error {
			_, err := keys.Decrypt(t.Context(), &kms.DecryptInput{KeyId: aws.String("key"), CiphertextBlob: []byte{0, 255}, EncryptionContext: bound})
			return err
		}, func() error { _, err := wrapping.Unwrap(t.Context(), []byte{0, 255}, bound); return err }},
		"a token that fails": {func() error {
			_, err := steps.SendTaskFailure(t.Context(), &sfn.SendTaskFailureInput{TaskToken: aws.String("t"), Error: aws.String("px.Cancelled")})
			return err
		}, func() error { return tokens.Fail(t.Context(), "t", "px.Cancelled") }},
	} {
		t.Run(name, func(t *testing.T) {
			requests = nil
			if err := errors.Join(c.theirs(), c.ours()); err != nil || len(requests) != 2 {
				t.Fatal(len(requests), err)
			}
			if !reflect.DeepEqual(requests[0], requests[1]) {
				t.Errorf("%+v\nand the SDK\n%+v", requests[1], requests[0])
			}
		})
	}
}

func TestRefusalsKeepTheirCodeAlone(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
		code       string
		calls      int
	}{
		"in the body":             {400, "", `{"__type":"com.amazonaws.states#TaskTimedOut","message":"secret"}`, "TaskTimedOut", 1},
		"in the body, bare":       {400, "", `{"__type":"InvalidToken"}`, "InvalidToken", 1},
		"in the header":           {400, "ClientException:http://x/", `secret`, "ClientException", 1},
		"throttled":               {400, "", `{"__type":"ThrottlingException"}`, "ThrottlingException", 3},
		"too many":                {429, "", ``, "status 429", 3},
		"a fault of the service":  {500, "", `{"__type":"ServerException","message":"secret"}`, "ServerException", 3},
		"an error without a name": {403, "", `secret`, "status 403", 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				if c.kind != "" {
					w.Header().Set("X-Amzn-Errortype", c.kind)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer server.Close()
			var api smithy.APIError
			err := at(sfnService, server.URL).Call(t.Context(), "Do", struct{}{}, &struct{}{})
			if !errors.As(err, &api) || api.ErrorCode() != c.code || calls != c.calls || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v after %d calls", err, calls)
			}
		})
	}
}

func TestNoAnswerIsAskedForAgain(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, `{"a":1,"b":2}`)
	}))
	defer server.Close()
	var out struct {
		A int `json:"a"`
	}
	if err := at(sfnService, server.URL).Call(t.Context(), "Do", struct{}{}, &out); err != nil || calls != 3 || out.A != 1 {
		t.Error(err, calls, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := at(sfnService, server.URL).Call(ctx, "Do", struct{}{}, &out); !errors.Is(err, context.Canceled) || calls != 3 {
		t.Error(err, calls)
	}
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	for _, body := range []string{``, `[]`, `{"a":`, strings.Repeat(" ", maxAnswer+1)} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
		if err := at(ecsService, server.URL).Call(t.Context(), "Do", struct{}{}, &struct{}{}); err == nil {
			t.Errorf("%.10q is taken", body)
		}
		server.Close()
	}
}

func TestTheEndpointIsThatOfTheRegion(t *testing.T) {
	for region, want := range map[string]string{"eu-central-1": "https://states.eu-central-1.amazonaws.com", "cn-north-1": "https://states.cn-north-1.amazonaws.com.cn"} {
		if c := with(sfnService, aws.Config{Region: region}); *c.config.BaseEndpoint != want {
			t.Errorf("%s: %s", region, *c.config.BaseEndpoint)
		}
	}
}
