// Package pythonsource reaches the python_source Lambda.
package pythonsource

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/invoke"
	"github.com/pxhost/pxhost/shared/python"
)

// New returns a Reader over the function that PX_PYTHON_SOURCE names.
func New(env *boot.Env) *python.Client {
	return python.New(exchange(invoke.New(env), env.Need("PX_PYTHON_SOURCE")), "")
}

// An api invokes a function once; *invoke.Client does.
type api interface {
	Invoke(ctx context.Context, function string, payload []byte) (invoke.Answer, error)
}

// missing is the errorType of the local host where the machine has no Python
// (infra/local/lambda). AWS always has one.
const missing = "Local.PythonMissing"

// exchange invokes the function once. Its errors carry the type of a failure and not
// its message, which may quote a source.
func exchange(client api, function string) python.Exchange {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := client.Invoke(ctx, function, request)
		if err != nil {
			return nil, fmt.Errorf("pythonsource: %s: %w", function, err)
		}
		if !answer.Failed {
			return answer.Payload, nil
		}
		var report struct {
			Type string `json:"errorType"`
		}
		if json.Unmarshal(answer.Payload, &report) == nil && report.Type == missing {
			return nil, fmt.Errorf("pythonsource: %w", python.ErrUnavailable)
		}
		return nil, errors.New("pythonsource: the function failed: " + short(report.Type))
	}
}

func short(s string) string { return s[:min(len(s), 100)] }
