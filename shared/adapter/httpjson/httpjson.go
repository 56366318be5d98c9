// Package httpjson is the adapter http_json: one GET or POST to a JSON API (A3 to A6).
//
// What is known of a call that failed decides how it failed (A9). Of a GET, by what HTTP
// says of it, nothing has changed outside. Of a POST of which a byte may have left and
// no whole answer came, nothing is known, and it is not repeated, whatever the connector
// declares; a status that says that nothing was done (429, 503) is an answer.
package httpjson

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/response"
	"github.com/pxhost/pxhost/shared/capability/template"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/outcome"
)

// A Sender sends requests; *outbound.Client does.
type Sender interface {
	Send(ctx context.Context, q outbound.Request) (*outbound.Response, error)
	CheckURL(text string) (*url.URL, error)
}

// Credentials give the secret of a Connection at the moment of a call. "" is that the
// connector needs none.
type Credentials interface {
	Bearer(ctx context.Context, c capability.Call) (string, error)
	// Refused notes that the service took the secret for none.
	Refused(ctx context.Context, c capability.Call, refused string) error
}

// Adapter implements capability.Adapter.
type Adapter struct {
	Sender      Sender
	Credentials Credentials
	// Sleep waits between attempts; it returns early when ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Call sends the request that the capability declares.
func (a Adapter) Call(ctx context.Context, c capability.Call) (capability.Result, error) {
	runtime, findings := capability.ReadRuntime(c.Capability.Runtime, "")
	if findings != nil || runtime.HTTPJSON == nil {
		return capability.Result{}, errors.New("httpjson: the runtime is another adapter's")
	}
	r := *runtime.HTTPJSON
	shape, findings := response.Parse(r.Response, "")
	if findings != nil {
		return capability.Result{}, errors.New("httpjson: the response is none that is accepted")
	}
	q, err := a.request(c, r)
	if err != nil {
		return capability.Result{}, err
	}
	bearer, err := a.Credentials.Bearer(ctx, c)
	if err != nil {
		return capability.Result{}, err
	}
	if bearer != "" {
		q.Header.Set("Authorization", "Bearer "+bearer)
	}
	var policy capability.Retry
	if c.Connector != nil && c.Connector.Retry != nil {
		policy = *c.Connector.Retry
	}
	backoff := time.Duration(policy.BackoffMs) * time.Millisecond
	for attempt := 1; ; attempt++ {
		body, again, wait, err := a.attempt(ctx, c, q, bearer)
		if err == nil {
			return result(shape, body, c.Capability.Title)
		}
		if attempt >= policy.MaxAttempts || again == "" || !slices.Contains(policy.On, again) {
			return capability.Result{}, err
		}
		// What asks for more time than there is has answered: to try before would be
		// against what it says, and to wait for nothing helps nobody.
		pause := max(wait, backoff)
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause || a.Sleep(ctx, pause) != nil {
			return capability.Result{}, err
		}
		backoff *= 2
	}
}

// request is what is sent, without a credential.
func (a Adapter) request(c capability.Call, r capability.HTTPJSONRuntime) (outbound.Request, error) {
	place := r.Endpoint
	if place == "" {
		if c.Connector == nil {
			return outbound.Request{}, errors.New("httpjson: there is neither endpoint nor connector")
		}
		place = strings.TrimSuffix(c.Connector.BaseURL, "/") + c.Connector.Path
	}
	u, err := a.Sender.CheckURL(place)
	if err != nil {
		return outbound.Request{}, blocked(err)
	}
	arguments, err := template.Read(c.Arguments)
	if err != nil {
		return outbound.Request{}, err
	}
	params, findings := template.ParseParams(r.RequestParams, "")
	if findings != nil {
		return outbound.Request{}, errors.New("httpjson: the parameters are none that are accepted")
	}
	if r.RequestParams == nil && r.Method == http.MethodGet {
		params = template.Query()
	}
	if u.RawQuery, err = params.Apply(u.RawQuery, arguments); err != nil {
		return outbound.Request{}, capability.BadArgument(err)
	}
	q := outbound.Request{Method: r.Method, URL: u.String(), Header: http.Header{"Accept": {"application/json"}}}
	if r.Method == http.MethodPost {
		body := canon.Raw(`{}`)
		if r.RequestBody != nil {
			value, findings := template.ParseValue(r.RequestBody, "")
			if findings != nil {
				return outbound.Request{}, errors.New("httpjson: the body is none that is accepted")
			}
			if body, err = value.Render(arguments); err != nil {
				return outbound.Request{}, capability.BadArgument(err)
			}
		}
		q.Body = body
		q.Header.Set("Content-Type", "application/json")
	}
	return q, nil
}

// attempt sends the request once. Where it fails, again is by what the connector's policy
// may have it tried again, and wait what the service asks for before that.
func (a Adapter) attempt(ctx context.Context, c capability.Call, q outbound.Request, bearer string) (body []byte, again capability.RetryOn, wait time.Duration, err error) {
	effect := q.Method == http.MethodPost
	if effect {
		if err := c.Dispatch(ctx); err != nil {
			return nil, "", 0, err
		}
	}
	answer, err := a.Sender.Send(ctx, q)
	if err == nil {
		if answer.Status >= 200 && answer.Status < 300 {
			body, err = answer.ReadAll()
		} else { // the status says it all
			answer.Body.Close()
		}
	}
	if err != nil {
		return nil, retryable(err, effect), 0, Failed(err, effect)
	}
	switch status := answer.Status; {
	case status >= 200 && status < 300:
		kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			return nil, "", 0, &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"status": status, "rule": "content_type"}}
		}
		return body, "", 0, nil
	case status == http.StatusUnauthorized && c.Connected():
		return nil, "", 0, c.Required("rejected", a.Credentials.Refused(ctx, c, bearer))
	case status == http.StatusForbidden && c.Connected():
		return nil, "", 0, c.Required("forbidden", nil)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		f := &capability.Failure{Code: outcome.ExtensionNetworkRetryable, Params: outcome.Params{"status": status}}
		return nil, capability.RetryOn(strconv.Itoa(status)), answer.RetryAfter(), f
	case effect && status >= 500 && status != http.StatusNotImplemented: // it broke down over it, or what stands before it does not know
		return nil, "", 0, &capability.Failure{Code: outcome.ExtensionOutcomeUnknown, Params: outcome.Params{"status": status}}
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return nil, capability.RetryOn(strconv.Itoa(status)), answer.RetryAfter(), &capability.Failure{Code: outcome.ExtensionNetworkRetryable, Params: outcome.Params{"status": status}}
	default:
		return nil, "", 0, &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"status": status}}
	}
}

// retryable says by what a failure may be tried again: only what never left, or has no
// effect.
func retryable(err error, effect bool) capability.RetryOn {
	failed := (*outbound.Error)(nil)
	if !errors.As(err, &failed) || failed.Written && effect {
		return ""
	}
	switch failed.Kind {
	case outbound.Unreachable, outbound.Broken, outbound.TimedOut:
		return capability.OnNetwork
	}
	return ""
}

// Failed says how a call failed that outbound could not finish.
func Failed(err error, effect bool) error {
	failed := (*outbound.Error)(nil)
	if !errors.As(err, &failed) {
		return err
	}
	f := &capability.Failure{Cause: failed}
	switch {
	case failed.Written && effect:
		f.Code = outcome.ExtensionOutcomeUnknown
	case failed.Kind == outbound.Blocked:
		return blocked(failed)
	case failed.Kind == outbound.TimedOut:
		f.Code = outcome.ExtensionTimeout
	case failed.Kind == outbound.Unreachable, failed.Kind == outbound.Broken:
		// A name that is misspelt is unreachable for ever: its developer is told that much.
		f.Code, f.Params = outcome.ExtensionNetworkRetryable, outcome.Params{"rule": string(failed.Kind)}
	default:
		f.Code, f.Params = outcome.ExtensionResponseInvalid, outcome.Params{"rule": string(failed.Kind)}
	}
	return f
}

// blocked is the failure of a place that is not one of a public host.
func blocked(err error) error {
	params := outcome.Params{"rule": "not_public"}
	if refused := (*outbound.URLError)(nil); errors.As(err, &refused) {
		params["rule"] = string(refused.Rule)
	}
	return &capability.Failure{Code: outcome.ExtensionPermissionDenied, Params: params, Cause: err}
}

// result reads the answer by its shape.
func result(shape response.Shape, body []byte, title string) (capability.Result, error) {
	r, err := shape.Read(body, title)
	failed := (*response.AnswerError)(nil)
	if errors.As(err, &failed) {
		return r, &capability.Failure{Code: outcome.ExtensionResponseInvalid, Params: outcome.Params{"rule": failed.Rule, "place": failed.Place}}
	}
	if err != nil {
		return r, fmt.Errorf("httpjson: %w", err)
	}
	return r, nil
}
