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
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"strings"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// Path is the formal endpoint.
const Path = "/v1/mcp"

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

// Invoke answers one event.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, h.answer)
}

func (h *Handler) answer(ctx context.Context, in *event.Request) event.Response {
	switch {
	case in.Route() != Path:
		return event.Problem(http.StatusNotFound, "no_such_route")
	case in.RequestContext.HTTP.Method != http.MethodPost:
		r := event.Problem(http.StatusMethodNotAllowed, "method_not_allowed")
		r.Header.Set("Allow", http.MethodPost)
		return r
	}

	token, err := h.verifier.Verify(ctx, in.Headers["authorization"], identity.ScopeTools)
	if err != nil {
		return event.Refused(ctx, h.log, in, err)
	}

	kind, params, err := mime.ParseMediaType(in.Headers["content-type"])
	charset, hasCharset := params["charset"]
	switch {
	case err != nil, kind != ndjson && kind != jsonType, hasCharset && !strings.EqualFold(charset, "utf-8"):
		return event.Problem(http.StatusUnsupportedMediaType, "send "+ndjson+" or "+jsonType)
	case in.Headers["content-encoding"] != "" && !strings.EqualFold(in.Headers["content-encoding"], "identity"):
		return event.Problem(http.StatusUnsupportedMediaType, "a compressed body is not supported")
	}
	body, err := in.Body()
	if err != nil {
		reason := err.Error()
		if errors.Is(err, event.ErrReplaced) {
			reason += "; send " + ndjson
		}
		return event.Problem(http.StatusBadRequest, reason)
	}

	caller := wire.Caller{
		Principal: tool.Principal{Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes, Session: token.Session},
		RequestID: in.RequestContext.RequestID,
	}
	serve := h.dispatcher.Serve
	if kind == jsonType {
		serve = h.dispatcher.ServeOne
	}
	reply, err := serve(ctx, caller, body)
	out := event.Response{Status: http.StatusOK, Header: http.Header{}, Body: reply}
	switch {
	case errors.Is(err, wire.ErrNoMessage):
		out.Status = http.StatusBadRequest
	case err != nil:
		out.Status = http.StatusRequestEntityTooLarge
	case len(reply) == 0: // notifications only
		out.Status = http.StatusAccepted
	}
	if len(reply) > 0 {
		out.Header.Set("Content-Type", kind)
	}
	return out
}

const (
	ndjson   = "application/x-ndjson"
	jsonType = event.JSON
)
