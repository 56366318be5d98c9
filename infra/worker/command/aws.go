//go:build linux

package command

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/pxhost/pxhost/infra/worker/rootfs"
)

// lambdaClient builds the one client that a worker has, from the variables that the
// SDK knows: a static key (the local host gives one), or the credentials of the ECS
// task. Profiles, files and the instance's metadata are no sources: what a worker may
// do must be what its task was given.
func lambdaClient(env func(string) string) (*lambda.Client, error) {
	region := env("AWS_REGION")
	if region == "" {
		region = env("AWS_DEFAULT_REGION")
	}
	if region == "" {
		return nil, fmt.Errorf("%w: AWS_REGION must be set", errUsage)
	}
	o := lambda.Options{Region: region, Retryer: retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = 3 })}
	switch {
	case env("AWS_ACCESS_KEY_ID") != "":
		o.Credentials = credentials.NewStaticCredentialsProvider(env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN"))
	case env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "":
		o.Credentials = aws.NewCredentialsCache(endpointcreds.New("http://169.254.170.2" + env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")))
	default:
		return nil, fmt.Errorf("%w: neither AWS_ACCESS_KEY_ID nor AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is set", errUsage)
	}
	for _, name := range []string{"AWS_ENDPOINT_URL_LAMBDA", "AWS_ENDPOINT_URL"} {
		if at := env(name); at != "" {
			if u, err := url.Parse(at); err != nil || u.Scheme == "" || u.Host == "" {
				return nil, fmt.Errorf("%w: %s is no URL", errUsage, name)
			}
			o.BaseEndpoint = aws.String(at)
			break
		}
	}
	// No proxy: a proxy variable of the machine is none of the worker's.
	o.HTTPClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second}}
	// Nothing that is started later may inherit them, and no crash may show them.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	return lambda.New(o), nil
}

func exitCode(err error) int {
	if errors.Is(err, rootfs.ErrNoPython) {
		return NoPython
	}
	return Failed
}
