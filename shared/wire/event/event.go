// Package event reads API Gateway events (HTTP API, payload format 2.0) and writes
// their answers, for the Lambdas that stand at a door of pxhost.
//
// It knows no route and links no AWS package: an event is JSON.
package event

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/wire"
)

// reserve is what a Lambda needs of its own time to get an answer out.
const reserve = 500 * time.Millisecond

// A Request is what is read of an event. Header names are in lower case, and
// repeated headers are joined by commas.
type Request struct {
	RouteKey       string            `json:"routeKey"`
	RawPath        string            `json:"rawPath"`
	Headers        map[string]string `json:"headers"`
	Path           map[string]string `json:"pathParameters"`
	Query          map[string]string `json:"queryStringParameters"`
	RawQuery       string            `json:"rawQueryString"`
	Cookies        []string          `json:"cookies"` // "name=value", in the order in which they were sent
	Text           string            `json:"body"`
	Base64         bool              `json:"isBase64Encoded"`
	RequestContext struct {
		RequestID string `json:"requestId"`
		HTTP      struct {
			Method string `json:"method"`
		} `json:"http"`
	} `json:"requestContext"`
}

// Route returns the path of the route, without its method. A raw path may have a
// stage in front.
func (r *Request) Route() string {
	if _, path, routed := strings.Cut(r.RouteKey, " "); routed {
		return path
	}
	return r.RawPath
}

// Origin is the origin of this API as the client has it. API Gateway lets no request
// through for a host that is not its own.
func (r *Request) Origin() string {
	scheme := "https"
	if r.Headers["x-forwarded-proto"] == "http" { // on one's own machine
		scheme = "http"
	}
	return scheme + "://" + r.Headers["host"]
}

// The reasons why Body fails. They are constants and hold nothing of the body.
var (
	ErrBase64 = errors.New("the body is not base64")
	// ErrReplaced is of a body that travelled as text and has lost its invalid
	// bytes to U+FFFD before it came here. It is refused, not taken as repaired.
	ErrReplaced = errors.New("the body holds U+FFFD, which stands for bytes that are no UTF-8")
)

// Body returns the bytes of the body.
func (r *Request) Body() ([]byte, error) {
	if r.Base64 {
		body, err := base64.StdEncoding.DecodeString(r.Text)
		if err != nil {
			return nil, ErrBase64
		}
		return body, nil
	}
	body := []byte(r.Text)
	if bytes.Contains(body, []byte("\ufffd")) {
		return nil, ErrReplaced
	}
	return body, nil
}

// A Response is an answer. One that says nothing else of it is stored by nobody.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Cookies are set in the client. Their headers cannot be joined by commas as others
	// are, and so have a place of their own.
	Cookies []*http.Cookie
}

// Serve reads an event, leaves the time that an answer needs to get out, and
// writes what answer returns. Its error is of an event that is none.
func Serve(ctx context.Context, payload []byte, answer func(context.Context, *Request) Response) ([]byte, error) {
	var in Request
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("event: not of payload format 2.0: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	if in.RequestContext.RequestID == "" {
		in.RequestContext.RequestID = rand.Text()
	}
	return answer(ctx, &in).encode()
}

// ChallengeHeader says the same as WWW-Authenticate, for the response parameters of
// template.yaml; no client sees it.
const ChallengeHeader = "X-Px-Challenge"

// JSON is the media type of every answer that is not of the wire.
const JSON = "application/json"

// Problem is an answer that is no envelope: nothing of the request was looked at.
// The reason is a constant.
func Problem(status int, reason string) Response {
	body, err := json.Marshal(struct {
		Error string `json:"error"`
	}{reason})
	if err != nil {
		panic(err) // a constant that is no UTF-8
	}
	return Response{Status: status, Header: http.Header{"Content-Type": {JSON}}, Body: append(body, '\n')}
}

// Refused answers a token that is not accepted, and logs why.
func Refused(ctx context.Context, log *slog.Logger, in *Request, err error) Response {
	var refusal *identity.Error
	if !errors.As(err, &refusal) {
		log.ErrorContext(ctx, "token could not be verified", "apiRequestId", in.RequestContext.RequestID, "cause", err)
		return Problem(http.StatusInternalServerError, "internal")
	}
	status, header := identity.Answer(err)
	log.WarnContext(ctx, "token refused", "apiRequestId", in.RequestContext.RequestID, "reason", refusal.Reason, "status", status, "cause", refusal.Cause)
	r := Problem(status, string(refusal.Reason))
	for name, values := range header {
		r.Header[name] = values
	}
	return r
}

// encode writes the answer as the JSON that API Gateway reads. It is done by
// hand, because the ledger of the wire counts on how a body is escaped: no more
// than a JSON string must be.
func (r Response) encode() ([]byte, error) {
	if r.Header.Get("Cache-Control") == "" {
		r.Header.Set("Cache-Control", "no-store")
	}
	r.Header.Set("X-Content-Type-Options", "nosniff")
	if challenge := r.Header.Get("WWW-Authenticate"); challenge != "" {
		// API Gateway renames that header; the integration writes it again from this one.
		r.Header.Set(ChallengeHeader, challenge)
	}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	head, err := json.Marshal(headers, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("event: headers: %w", err)
	}
	var cookies []byte
	if len(r.Cookies) > 0 {
		texts := make([]string, len(r.Cookies))
		for i, c := range r.Cookies {
			if texts[i] = c.String(); texts[i] == "" {
				return nil, fmt.Errorf("event: the cookie %q cannot be set", c.Name)
			}
		}
		list, err := json.Marshal(texts)
		if err != nil {
			return nil, fmt.Errorf("event: cookies: %w", err)
		}
		cookies = fmt.Appendf(nil, `"cookies":%s,`, list)
	}
	out := slices.Grow([]byte(nil), wire.EscapedLen(r.Body)+len(head)+len(cookies)+100)
	out = fmt.Appendf(out, `{"statusCode":%d,"headers":%s,%s"isBase64Encoded":false,"body":`, r.Status, head, cookies)
	if out, err = jsontext.AppendQuote(out, r.Body); err != nil {
		return nil, fmt.Errorf("event: the answer is not UTF-8: %w", err)
	}
	return append(out, '}'), nil
}
