// Package pythonsource reaches the python_source Lambda.
package pythonsource

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/python"
)

// New returns a Reader over the function that PX_PYTHON_SOURCE names.
func New(env *boot.Env) *python.Client {
	return python.New(exchange(awslambda.New(env), env.Need("PX_PYTHON_SOURCE")), "")
}

// An api is what is used of the Lambda client.
type api interface {
	Invoke(ctx context.Context, input *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// missing is the errorType of the local host where the machine has no Python
// (infra/local/lambda). AWS always has one.
const missing = "Local.PythonMissing"

// exchange invokes the function once. Its errors carry the type of a failure and not
// its message, which may quote a source.
func exchange(client api, function string) python.Exchange {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		output, err := client.Invoke(ctx, &lambda.InvokeInput{
			FunctionName: &function, InvocationType: types.InvocationTypeRequestResponse, Payload: request,
		}, func(o *lambda.Options) { o.Retryer = aws.NopRetryer{} })
		if err != nil {
			return nil, fmt.Errorf("pythonsource: invoke %s: %w", function, err)
		}
		if output.FunctionError == nil {
			return output.Payload, nil
		}
		var report struct {
			Type string `json:"errorType"`
		}
		if json.Unmarshal(output.Payload, &report) == nil && report.Type == missing {
			return nil, fmt.Errorf("pythonsource: %w", python.ErrUnavailable)
		}
		return nil, errors.New("pythonsource: the function failed: " + short(report.Type))
	}
}

func short(s string) string { return s[:min(len(s), 100)] }
