// Package gateway is the HTTP door of the wire: it takes API Gateway events
// (HTTP API, payload format 2.0), verifies the token before any line is read,
// and gives the lines to the dispatcher.
//
// Two content types are served. application/x-ndjson is the wire: one message a
// line. application/json is one message, however many lines it stands on.
// API Gateway hands the first over in base64, the second as text.
//
// It knows no tool and links no AWS package: an event is JSON.
package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
)

// Path is the formal endpoint.
const Path = "/v1/mcp"

// reserve is what a Lambda needs of its own time to get an answer out.
const reserve = 500 * time.Millisecond

// A Verifier checks an Authorization header; *identity.Verifier does.
type Verifier interface {
	Verify(ctx context.Context, authorization, scope string) (identity.Token, error)
}

// A Handler answers events. It has the method of a Lambda handler.
type Handler struct {
	verifier   Verifier
	dispatcher *wire.Dispatcher
	log        *slog.Logger
}

// New returns a Handler.
func New(verifier Verifier, dispatcher *wire.Dispatcher, log *slog.Logger) *Handler {
	return &Handler{verifier, dispatcher, log}
}

// event is what is read of payload format 2.0. Header names are in lower case,
// and repeated headers are joined by commas.
type event struct {
	RouteKey       string            `json:"routeKey"`
	RawPath        string            `json:"rawPath"`
	Headers        map[string]string `json:"headers"`
	Body           string            `json:"body"`
	Base64         bool              `json:"isBase64Encoded"`
	RequestContext struct {
		RequestID string `json:"requestId"`
		HTTP      struct {
			Method string `json:"method"`
		} `json:"http"`
	} `json:"requestContext"`
}

// A response is an answer of payload format 2.0.
type response struct {
	status int
	header http.Header
	body   []byte
}

// Invoke answers one event.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var in event
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("gateway: the event is not of payload format 2.0: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	if in.RequestContext.RequestID == "" {
		in.RequestContext.RequestID = rand.Text()
	}
	return h.answer(ctx, &in).encode()
}

func (h *Handler) answer(ctx context.Context, in *event) response {
	// A route key is "METHOD /path"; a raw path may have a stage in front.
	_, path, routed := strings.Cut(in.RouteKey, " ")
	if !routed {
		path = in.RawPath
	}
	switch {
	case path != Path:
		return problem(http.StatusNotFound, "no_such_route")
	case in.RequestContext.HTTP.Method != http.MethodPost:
		r := problem(http.StatusMethodNotAllowed, "method_not_allowed")
		r.header.Set("Allow", http.MethodPost)
		return r
	}

	token, err := h.verifier.Verify(ctx, in.Headers["authorization"], identity.ScopeTools)
	if err != nil {
		return h.refused(ctx, in, err)
	}

	kind, params, err := mime.ParseMediaType(in.Headers["content-type"])
	charset, hasCharset := params["charset"]
	switch {
	case err != nil, kind != ndjson && kind != jsonType, hasCharset && !strings.EqualFold(charset, "utf-8"):
		return problem(http.StatusUnsupportedMediaType, "send "+ndjson+" or "+jsonType)
	case in.Headers["content-encoding"] != "" && !strings.EqualFold(in.Headers["content-encoding"], "identity"):
		return problem(http.StatusUnsupportedMediaType, "a compressed body is not supported")
	}
	body := []byte(in.Body)
	switch {
	case in.Base64:
		if body, err = base64.StdEncoding.DecodeString(in.Body); err != nil {
			return problem(http.StatusBadRequest, "the body is not base64")
		}
	case bytes.Contains(body, []byte("\ufffd")):
		// A body that travels as text has lost its invalid bytes to this
		// character before it came here. It is refused, not taken as repaired.
		return problem(http.StatusBadRequest, "the body holds U+FFFD, which stands for bytes that are no UTF-8; send "+ndjson)
	}

	caller := wire.Caller{
		Principal: tool.Principal{Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes},
		RequestID: in.RequestContext.RequestID,
	}
	serve := h.dispatcher.Serve
	if kind == jsonType {
		serve = h.dispatcher.ServeOne
	}
	reply, err := serve(ctx, caller, body)
	out := response{status: http.StatusOK, header: http.Header{}, body: reply}
	switch {
	case errors.Is(err, wire.ErrNoMessage):
		out.status = http.StatusBadRequest
	case err != nil:
		out.status = http.StatusRequestEntityTooLarge
	case len(reply) == 0: // notifications only
		out.status = http.StatusAccepted
	}
	if len(reply) > 0 {
		out.header.Set("Content-Type", kind)
	}
	return out
}

const (
	ndjson   = "application/x-ndjson"
	jsonType = "application/json"
)

// refused answers a token that is not accepted.
func (h *Handler) refused(ctx context.Context, in *event, err error) response {
	var refusal *identity.Error
	if !errors.As(err, &refusal) {
		h.log.ErrorContext(ctx, "token could not be verified", "apiRequestId", in.RequestContext.RequestID, "cause", err)
		return problem(http.StatusInternalServerError, "internal")
	}
	status, header := identity.Answer(err)
	h.log.WarnContext(ctx, "token refused", "apiRequestId", in.RequestContext.RequestID, "reason", refusal.Reason, "status", status, "cause", refusal.Cause)
	r := problem(status, string(refusal.Reason))
	for name, values := range header {
		r.header[name] = values
	}
	return r
}

// problem is an answer before any line was read. It is not of the wire, so it is
// no JSON-RPC message. The reason is a constant.
func problem(status int, reason string) response {
	body, err := json.Marshal(struct {
		Error string `json:"error"`
	}{reason})
	if err != nil {
		panic(err) // a constant that is no UTF-8
	}
	return response{status, http.Header{"Content-Type": {jsonType}}, append(body, '\n')}
}

// encode writes the answer as the JSON that API Gateway reads. It is done by
// hand, because the ledger counts on how a body is escaped: no more than a JSON
// string must be.
func (r response) encode() ([]byte, error) {
	r.header.Set("Cache-Control", "no-store")
	r.header.Set("X-Content-Type-Options", "nosniff")
	headers := map[string]string{}
	for name, values := range r.header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	head, err := json.Marshal(headers, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("gateway: headers: %w", err)
	}
	out := slices.Grow([]byte(nil), wire.EscapedLen(r.body)+len(head)+100)
	out = fmt.Appendf(out, `{"statusCode":%d,"headers":%s,"isBase64Encoded":false,"body":`, r.status, head)
	if out, err = jsontext.AppendQuote(out, r.body); err != nil {
		return nil, fmt.Errorf("gateway: the reply is not UTF-8: %w", err)
	}
	return append(out, '}'), nil
}
