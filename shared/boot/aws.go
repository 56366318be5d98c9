package boot

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// AWS returns the configuration from which a service's client is made, out of
// the variables that Lambda sets: AWS_REGION, AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; and AWS_ENDPOINT_URL, by which the
// local host points all services at itself. AWS_ENDPOINT_URL_<SERVICE>, with the
// service as AWS's own tools write it there (LAMBDA, DYNAMODB, S3, SFN), is for
// that service and comes first: several hosts of functions can so share the other
// services. The SDK's own loader is not used: it
// costs 1.9 MB and looks for files and metadata services that a Lambda does not
// have (decision 24).
//
// Lambda's credentials outlive the process that gets them, so they are read
// once.
func AWS(env *Env, service string) aws.Config {
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
	if endpoint := cmp.Or(env.Get("AWS_ENDPOINT_URL_"+service), env.Get("AWS_ENDPOINT_URL")); endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	return config
}

// idleFor is how long an idle connection is used again. It is shorter than any
// service keeps one: see freshTransport.
const idleFor = 20 * time.Second

// client is one HTTP client for all services of the process. It bounds how long
// a connection may take, not a call: that is for each call's ctx, since an
// Invoke may rightly take 25 seconds.
var client = sync.OnceValue(func() *http.Client {
	return &http.Client{
		Transport: &freshTransport{now: time.Now, inner: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   3 * time.Second,
			ExpectContinueTimeout: time.Second,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       idleFor,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
})

// A freshTransport drops connections that lay idle while the process was frozen.
// Between two invocations Lambda stops the process, so that neither the idle
// timer runs nor a close by the service is seen; the next request would be
// written into a dead connection. Reads are tried again by the SDK, but an
// Invoke must not be (a repeated one repeats the effect), and would fail.
type freshTransport struct {
	inner interface {
		http.RoundTripper
		CloseIdleConnections()
	}
	now  func() time.Time
	last atomic.Int64 // of the last request, in nanoseconds of the wall clock
}

func (t *freshTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	now := t.now().UnixNano() // the monotonic clock may stop with the process
	if last := t.last.Swap(now); now-last > int64(idleFor) {
		t.inner.CloseIdleConnections()
	}
	return t.inner.RoundTrip(readable(request))
}

// readable returns the request with a body that can only be read. When an answer
// has begun, the SDK closes the request's body, while net/http may still be about to
// look whether the body holds more than it should. A closed body's Read says that
// it is at its end, which is fine; but its WriteTo returns io.EOF as an error, for
// which net/http closes the connection, under the answer that is being read: an
// Invoke of unknown outcome, once in some thousands.
func readable(request *http.Request) *http.Request {
	if _, ok := request.Body.(io.WriterTo); !ok || request.Body == http.NoBody {
		return request
	}
	out := *request
	out.Body = struct{ io.ReadCloser }{request.Body}
	return &out
}
