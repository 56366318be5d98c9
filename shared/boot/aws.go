package boot

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// AWS returns the configuration from which the clients are made, out of the
// variables that Lambda sets: AWS_REGION, AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; and AWS_ENDPOINT_URL, by which the
// local host points all services at itself. The SDK's own loader is not used: it
// costs 1.9 MB and looks for files and metadata services that a Lambda does not
// have (decision 24).
//
// Lambda's credentials outlive the process that gets them, so they are read
// once.
func AWS(env *Env) aws.Config {
	config := aws.Config{
		Region: env.Need("AWS_REGION"),
		Credentials: staticCredentials{aws.Credentials{
			AccessKeyID:     env.Need("AWS_ACCESS_KEY_ID"),
			SecretAccessKey: env.Need("AWS_SECRET_ACCESS_KEY"),
			SessionToken:    env.Get("AWS_SESSION_TOKEN"),
			Source:          "environment",
		}},
		HTTPClient: client(),
	}
	if endpoint := env.Get("AWS_ENDPOINT_URL"); endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	return config
}

// client is one HTTP client for all services of the process. It bounds how long
// a connection may take, not a call: that is for each call's ctx, since an
// Invoke may rightly take 25 seconds. Its idle connections end before the
// services close them, so that a call does not meet a dead one.
var client = sync.OnceValue(func() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   3 * time.Second,
			ExpectContinueTimeout: time.Second,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       45 * time.Second,
			ForceAttemptHTTP2:     false,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
})
