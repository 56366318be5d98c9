package pythonsource

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/python"
)

type fake struct {
	calls  int
	input  *lambda.InvokeInput
	output *lambda.InvokeOutput
	err    error
	opt    lambda.Options
}

func (f *fake) Invoke(_ context.Context, input *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	f.calls++
	f.input = input
	for _, o := range options {
		o(&f.opt)
	}
	return f.output, f.err
}

func TestTheFunctionIsInvokedOnceAndItsFailuresAreTold(t *testing.T) {
	failed := func(report string) *lambda.InvokeOutput {
		return &lambda.InvokeOutput{FunctionError: aws.String("Unhandled"), Payload: []byte(report)}
	}
	for name, c := range map[string]struct {
		fake        fake
		unavailable bool
		text        string // of the error; empty: none
	}{
		"an answer":                    {fake: fake{output: &lambda.InvokeOutput{Payload: []byte(`{"a":1}`)}}},
		"a machine without Python":     {fake{output: failed(`{"errorType":"Local.PythonMissing","errorMessage":"RequestId: x Error: no python3"}`)}, true, "no Python is available"},
		"an exception":                 {fake{output: failed(`{"errorType":"ValueError","errorMessage":"secret source"}`)}, false, "failed: ValueError"},
		"a report that is none":        {fake{output: failed(`secret`)}, false, "failed"},
		"a function that is not there": {fake{err: errors.New("ResourceNotFoundException")}, false, "invoke px-python_source: ResourceNotFoundException"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exchange(&c.fake, "px-python_source")(t.Context(), []byte(`{"v":1}`))
			if (err != nil) != (c.text != "") || errors.Is(err, python.ErrUnavailable) != c.unavailable {
				t.Fatalf("%s, %v", out, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "secret")) {
				t.Error(err)
			}
			if err == nil && string(out) != `{"a":1}` {
				t.Errorf("%s", out)
			}
			if c.fake.calls != 1 || *c.fake.input.FunctionName != "px-python_source" || string(c.fake.input.Payload) != `{"v":1}` {
				t.Errorf("%+v", c.fake.input)
			}
			if _, none := c.fake.opt.Retryer.(aws.NopRetryer); !none {
				t.Error("the SDK would try again")
			}
		})
	}
}

func TestTheEnvironmentNamesTheFunction(t *testing.T) {
	env := boot.NewEnv(func(string) (string, bool) { return "", false })
	New(env)
	if err := env.Err(); err == nil || !strings.Contains(err.Error(), "PX_PYTHON_SOURCE") {
		t.Errorf("%v", err)
	}
}
