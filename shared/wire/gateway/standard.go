package gateway

import (
	"context"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// MetadataPath tells clients who gives tokens for this API (RFC 9728). With the path of
// a resource behind it, it tells of that one; alone, of the fixed tools.
const MetadataPath = "/.well-known/oauth-protected-resource"

// An Ordinary is the HTTP side of an endpoint of ordinary MCP clients.
type Ordinary struct {
	// Path is where it is served; its protected resource's metadata has the same one
	// behind MetadataPath.
	Path     string
	Verifier Verifier
	Standard *wire.Standard
	Log      *slog.Logger
	// Origins are the web pages, beside this API's own, from which a browser may reach it.
	Origins []string
	// Tools are those of a request, where not all requests have the same; nil is those of
	// Standard.
	Tools func(in *event.Request) (wire.Toolset, *event.Response)
}

// Answer answers one request.
func (o *Ordinary) Answer(ctx context.Context, in *event.Request) event.Response {
	// The origin is looked at before all else: a page that is not allowed learns nothing.
	origin, has := in.Headers["origin"]
	if !has || origin == in.Origin() {
		return o.answer(ctx, in)
	}
	if !slices.Contains(o.Origins, origin) {
		return event.Problem(http.StatusForbidden, "origin_not_allowed")
	}
	out := o.answer(ctx, in)
	if in.RequestContext.HTTP.Method == http.MethodOptions && in.Headers["access-control-request-method"] != "" {
		out = event.Response{Status: http.StatusNoContent, Header: http.Header{
			"Access-Control-Allow-Methods": {http.MethodPost},
			"Access-Control-Allow-Headers": {"authorization, content-type, mcp-method, mcp-name, mcp-protocol-version"},
			"Access-Control-Max-Age":       {"600"}, // seconds
		}}
	}
	out.Header.Set("Access-Control-Allow-Origin", origin)
	out.Header.Set("Access-Control-Expose-Headers", "www-authenticate")
	out.Header.Add("Vary", "Origin")
	return out
}

func (o *Ordinary) answer(ctx context.Context, in *event.Request) event.Response {
	if in.RequestContext.HTTP.Method != http.MethodPost {
		return only(http.MethodPost)
	}
	token, err := o.Verifier.Verify(ctx, in.Headers["authorization"], identity.ScopeTools)
	if err != nil {
		out := event.Refused(ctx, o.Log, in, err)
		if challenge := out.Header.Get("WWW-Authenticate"); challenge != "" {
			challenge += `, resource_metadata="` + in.Origin() + MetadataPath + o.Path + `"`
			if !strings.Contains(challenge, "scope=") {
				challenge += `, scope="` + identity.ScopeTools + `"`
			}
			out.Header.Set("WWW-Authenticate", challenge)
		}
		return out
	}
	if _, problem := mediaType(in, jsonType); problem != "" {
		return event.Problem(http.StatusUnsupportedMediaType, problem)
	}
	if !accepts(in.Headers["accept"], jsonType) {
		return event.Problem(http.StatusNotAcceptable, "answers are "+jsonType)
	}
	body, err := in.Body()
	if err != nil {
		reason := err.Error()
		if errors.Is(err, event.ErrReplaced) {
			reason += "; send UTF-8, and U+FFFD itself as \\ufffd"
		}
		return event.Problem(http.StatusBadRequest, reason)
	}
	standard := o.Standard
	if o.Tools != nil {
		tools, problem := o.Tools(in)
		if problem != nil {
			return *problem
		}
		standard = standard.Of(tools)
	}
	reply := standard.Serve(ctx, callerOf(token, in), wire.Post{Headers: in.Headers, Body: body})
	out := event.Response{Status: reply.Status, Header: http.Header{}, Body: reply.Body}
	if reply.Body != nil {
		out.Header.Set("Content-Type", jsonType)
	}
	return out
}

// accepts reports whether an Accept header takes a media type; none takes all.
func accepts(header, want string) bool {
	if strings.TrimSpace(header) == "" {
		return true
	}
	all, _, _ := strings.Cut(want, "/")
	for one := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err != nil && kind == "" || params["q"] == "0" || params["q"] == "0.0" || params["q"] == "0.00" || params["q"] == "0.000" {
			continue
		}
		if kind == want || kind == all+"/*" || kind == "*/*" {
			return true
		}
	}
	return false
}

// metadata is the metadata of a protected resource.
func (h *Handler) metadata(in *event.Request, path string) event.Response {
	if in.RequestContext.HTTP.Method != http.MethodGet {
		return only(http.MethodGet)
	}
	body, err := json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{in.Origin() + path, []string{h.Issuer}, []string{identity.ScopeTools}, []string{"header"}, "pxhost"})
	if err != nil {
		return event.Problem(http.StatusBadRequest, "host")
	}
	// It is public, and what a page that may not call learns of it, anybody knows.
	return event.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {jsonType}, "Access-Control-Allow-Origin": {"*"}}, Body: append(body, '\n')}
}
