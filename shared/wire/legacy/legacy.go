// Package legacy is the proxy between a cohort of old clients and the isolated endpoint
// that still speaks to them (L3).
//
// The formal endpoint knows no legacy resolver, alias, translator or fallback, and does
// not get one by this. An installation that still has old clients names the function of
// the old one, which is deployed on its own, and the principals of the cohort. They send
// to a route of their own, and what they send goes to that function and to nothing else.
// Whoever is not of the cohort is refused there, and what is sent to the formal endpoint
// never comes here: to take a client out of the cohort, or to bring it back, is routing
// and nothing more.
//
// The proxy asks for no less than the formal endpoint does: the same token, for the same
// scope, of the same issuer and audience, verified before anything of the body is looked
// at; the same media types; the same bounds and the same strict JSON. The isolated
// function gets the event as API Gateway made it, without the token and the cookies, with
// the verified principal in the place of an authorizer's. It is invoked once. Its answer
// goes back as it is, but for cookies and for headers that are the gateway's.
//
// The package reads no message and knows no legacy tool. Its telemetry has a namespace and
// a log of its own.
package legacy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/metric"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/gateway"
)

// Path is the cohort's route.
const Path = "/legacy/mcp"

// Everyone is a cohort of all principals that the formal endpoint would let in.
const Everyone = "*"

// A Call invokes the isolated function once and returns its answer. An error is of the way
// there or back, or says that the function failed.
type Call func(ctx context.Context, event []byte) ([]byte, error)

// A Config is what a Proxy is made of.
type Config struct {
	Verifier gateway.Verifier
	Call     Call
	// Cohort are the subjects of the old clients, or Everyone; empty is a cohort of nobody.
	Cohort []string
	Log    *slog.Logger
}

// A Proxy answers events. It has the method of a Lambda handler.
type Proxy struct{ Config }

// New returns a Proxy.
func New(config Config) *Proxy { return &Proxy{config} }

// The outcomes that are counted.
const (
	forwarded = "forwarded"
	refused   = "refused"
	failed    = "failed"
)

// Invoke answers one event.
func (p *Proxy) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, func(ctx context.Context, in *event.Request) event.Response {
		answer, outcome := p.answer(ctx, in, payload)
		metric.CountIn(ctx, p.Log, metric.LegacyNamespace, metric.LegacyCalls, metric.Outcome, outcome)
		return answer
	})
}

func (p *Proxy) answer(ctx context.Context, in *event.Request, payload []byte) (event.Response, string) {
	if in.Route() != Path {
		return event.Problem(http.StatusNotFound, "no_such_route"), refused
	}
	admitted, problem := gateway.Admit(ctx, p.Verifier, p.Log, in)
	if problem != nil {
		return *problem, refused
	}
	if !slices.Contains(p.Cohort, Everyone) && !slices.Contains(p.Cohort, admitted.Token.Subject) {
		p.Log.WarnContext(ctx, "not of the legacy cohort", "apiRequestId", in.RequestContext.RequestID)
		return event.Problem(http.StatusForbidden, "not_of_the_legacy_cohort"), refused
	}
	switch err := wire.Check(admitted.Body, admitted.Lines()); {
	case errors.Is(err, wire.ErrBodyTooLarge), errors.Is(err, wire.ErrTooManyLines):
		return event.Problem(http.StatusRequestEntityTooLarge, err.Error()), refused
	case err != nil:
		return event.Problem(http.StatusBadRequest, err.Error()), refused
	}
	request, err := forward(payload, admitted.Token)
	if err != nil {
		p.Log.ErrorContext(ctx, "the event cannot be forwarded", "apiRequestId", in.RequestContext.RequestID, "cause", err)
		return event.Problem(http.StatusInternalServerError, "internal"), failed
	}
	text, err := p.Call(ctx, request)
	if err != nil {
		p.Log.ErrorContext(ctx, "the legacy endpoint failed", "apiRequestId", in.RequestContext.RequestID, "cause", err)
		if ctx.Err() != nil {
			return event.Problem(http.StatusGatewayTimeout, "legacy_endpoint_timeout"), failed
		}
		return event.Problem(http.StatusBadGateway, "legacy_endpoint_failed"), failed
	}
	answer, ok := back(text)
	if !ok {
		p.Log.ErrorContext(ctx, "the legacy endpoint answered what is no answer", "apiRequestId", in.RequestContext.RequestID)
		return event.Problem(http.StatusBadGateway, "legacy_endpoint_failed"), failed
	}
	return answer, forwarded
}

// credentials are headers that stay here: what an endpoint gets of them, it could use
// elsewhere in the client's name.
var credentials = []string{"authorization", "cookie", "proxy-authorization", "x-amz-security-token"}

// forward is the event for the isolated function.
func forward(payload []byte, token identity.Token) ([]byte, error) {
	var in map[string]any
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, err
	}
	delete(in, "cookies")
	if headers, ok := in["headers"].(map[string]any); ok {
		for name := range headers {
			if slices.Contains(credentials, strings.ToLower(name)) {
				delete(headers, name)
			}
		}
	}
	requestContext, ok := in["requestContext"].(map[string]any)
	if !ok {
		return nil, errors.New("legacy: an event without a request context")
	}
	// Whatever stood there, nobody verified.
	requestContext["authorizer"] = map[string]any{"lambda": map[string]any{"iss": token.Issuer, "sub": token.Subject, "scope": strings.Join(token.Scopes, " ")}}
	return json.Marshal(in, json.Deterministic(true))
}

// passed are headers of an answer that go back. The others are the gateway's to say, or
// would bind the client to the old endpoint.
var passed = []string{"content-type", "retry-after", "allow"}

// back reads the answer of the isolated function.
func back(text []byte) (event.Response, bool) {
	var out struct {
		Status  int               `json:"statusCode"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Base64  bool              `json:"isBase64Encoded"`
	}
	if json.Unmarshal(text, &out) != nil || out.Status < 200 || out.Status > 599 || out.Base64 {
		return event.Response{}, false
	}
	r := event.Response{Status: out.Status, Header: http.Header{}, Body: []byte(out.Body)}
	for name, value := range out.Headers {
		if slices.Contains(passed, strings.ToLower(name)) {
			r.Header.Set(name, value)
		}
	}
	return r, true
}
