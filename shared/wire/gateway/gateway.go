// Package gateway is the HTTP door of the wire: it takes API Gateway events
// (HTTP API, payload format 2.0), verifies the token before any line is read,
// and gives the lines to the dispatcher.
//
// Two content types are served. application/x-ndjson is the wire: one message a
// line. application/json is one message, however many lines it stands on.
// API Gateway hands the first over in base64, the second as text.
//
// Ordinary MCP clients have an endpoint of their own beside it (W9), and find there who
// gives them a token (RFC 9728).
//
// It knows no tool and links no AWS package: an event is JSON.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// Path is the formal endpoint, StandardPath the one of ordinary MCP clients (W9), and
// CapabilitiesPath theirs for what plugins can do, which the capability host serves.
const (
	Path             = "/v1/mcp"
	StandardPath     = "/mcp"
	CapabilitiesPath = "/mcp/capabilities"
)

// A Verifier checks an Authorization header; *identity.Verifier does.
type Verifier interface {
	Verify(ctx context.Context, authorization, scope string) (identity.Token, error)
}

// A Config is what a Handler is made of.
type Config struct {
	Verifier   Verifier
	Dispatcher *wire.Dispatcher
	Standard   *wire.Standard
	Log        *slog.Logger
	// Issuer gives the tokens: ordinary clients are sent there.
	Issuer string
	// Origins are the web pages, beside this API's own, from which a browser may reach
	// the standard endpoint.
	Origins []string
}

// A Handler answers events. It has the method of a Lambda handler.
type Handler struct {
	Config
	ordinary *Ordinary
}

// New returns a Handler.
func New(config Config) *Handler {
	return &Handler{config, &Ordinary{Path: StandardPath, Verifier: config.Verifier, Standard: config.Standard, Log: config.Log, Origins: config.Origins}}
}

// Invoke answers one event.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, h.answer)
}

func (h *Handler) answer(ctx context.Context, in *event.Request) event.Response {
	switch in.Route() {
	case Path:
		return h.formal(ctx, in)
	case StandardPath:
		return h.ordinary.Answer(ctx, in)
	case MetadataPath, MetadataPath + StandardPath:
		return h.metadata(in, StandardPath)
	case MetadataPath + CapabilitiesPath:
		return h.metadata(in, CapabilitiesPath)
	}
	return event.Problem(http.StatusNotFound, "no_such_route")
}

// only answers a method that a route has not.
func only(method string) event.Response {
	r := event.Problem(http.StatusMethodNotAllowed, "method_not_allowed")
	r.Header.Set("Allow", method)
	return r
}

// An Admitted is a request of the formal wire before any message of it is read.
type Admitted struct {
	Token identity.Token
	Kind  string // application/x-ndjson, or application/json: one message
	Body  []byte
}

// Admit checks what stands around the messages of a request: method, token, media type
// and encoding. Every door to messages of this form begins with it, so that none asks
// for less than another. A request that is not admitted has its answer.
func Admit(ctx context.Context, verifier Verifier, log *slog.Logger, in *event.Request) (Admitted, *event.Response) {
	answer := func(r event.Response) (Admitted, *event.Response) { return Admitted{}, &r }
	if in.RequestContext.HTTP.Method != http.MethodPost {
		return answer(only(http.MethodPost))
	}
	token, err := verifier.Verify(ctx, in.Headers["authorization"], identity.ScopeTools)
	if err != nil {
		return answer(event.Refused(ctx, log, in, err))
	}
	kind, problem := mediaType(in, ndjson, jsonType)
	if problem != "" {
		return answer(event.Problem(http.StatusUnsupportedMediaType, problem))
	}
	body, err := in.Body()
	if err != nil {
		reason := err.Error()
		if errors.Is(err, event.ErrReplaced) {
			reason += "; send " + ndjson
		}
		return answer(event.Problem(http.StatusBadRequest, reason))
	}
	return Admitted{token, kind, body}, nil
}

// Lines reports whether a body has a message a line.
func (a Admitted) Lines() bool { return a.Kind == ndjson }

func (h *Handler) formal(ctx context.Context, in *event.Request) event.Response {
	admitted, refused := Admit(ctx, h.Verifier, h.Log, in)
	if refused != nil {
		return *refused
	}
	token, kind, body := admitted.Token, admitted.Kind, admitted.Body

	caller := callerOf(token, in)
	serve := h.Dispatcher.Serve
	if kind == jsonType {
		serve = h.Dispatcher.ServeOne
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

// callerOf is on whose behalf a request comes.
func callerOf(token identity.Token, in *event.Request) wire.Caller {
	return wire.Caller{
		Principal: tool.Principal{Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes, Session: token.Session},
		RequestID: in.RequestContext.RequestID,
	}
}

// mediaType reads which of the kinds a body is of, or says what is wrong with it.
func mediaType(in *event.Request, kinds ...string) (kind, problem string) {
	kind, params, err := mime.ParseMediaType(in.Headers["content-type"])
	charset, hasCharset := params["charset"]
	switch {
	case err != nil, !slices.Contains(kinds, kind), hasCharset && !strings.EqualFold(charset, "utf-8"):
		return "", "send " + strings.Join(kinds, " or ")
	case in.Headers["content-encoding"] != "" && !strings.EqualFold(in.Headers["content-encoding"], "identity"):
		return "", "a compressed body is not supported"
	}
	return kind, ""
}

const (
	ndjson   = "application/x-ndjson"
	jsonType = event.JSON
)
