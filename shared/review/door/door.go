// Package door is the HTTP door to reviews, for people and trusted hosts: the
// routes that no tool has. It takes API Gateway events, verifies the token for the
// scope of the route, and answers envelopes like those of the tools.
//
// A plan and a Run that waits are addressed by their reference alone: the store
// keeps a plan under its planRef, with its Project, so that a person who was handed
// a reference needs nothing else. Who may not read that Project is told that there is
// no such plan.
//
// There is no CORS header: no page of another origin can read an answer, and none
// can send the Authorization header that every route wants.
package door

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
)

// The largest bodies, in bytes.
const (
	maxDecision = 64 << 10
	// maxDraft leaves room for white space around a document of the largest size,
	// which is counted in its canonical encoding. It is as much as a line of the wire
	// may be, so that a document which cannot come in as a draft cannot come in as a
	// command either. API Gateway takes 10 MB, and Lambda 6 MB of the whole event.
	maxDraft = 2 << 20
)

// maxAnswer is the most bytes of an answer, as escaped in the event's answer: a
// longer one is cut, as a tool's is, and goes on with ?cursor=.
const maxAnswer = 5 << 20

// A Verifier checks an Authorization header; *identity.Verifier does.
type Verifier interface {
	Verify(ctx context.Context, authorization, scope string) (identity.Token, error)
}

// Reviews is what the routes of plans and Runs do; *review.Reviews does.
type Reviews interface {
	Read(ctx context.Context, principal string, subject review.Subject, ref string) (review.Asked, outcome.Findings, error)
	Approve(ctx context.Context, d review.Decision) (review.Approved, outcome.Findings, error)
	Reject(ctx context.Context, d review.Decision) (review.Rejected, outcome.Findings, error)
}

// Resources follows links to large values; resource.Resources does.
type Resources interface {
	Use(ctx context.Context, principal, ref string) (resource.Download, outcome.Findings, error)
}

// Drafts makes drafts; draft.Drafts does.
type Drafts interface {
	Make(ctx context.Context, holder draft.Holder, scope target.Scope, doc draft.Document) (draft.Made, outcome.Findings, error)
}

// A route is one operation. The last variable of its path, where it has one, and what
// a body or a query say together are the arguments of handle, which decodes them as a
// tool does.
type route struct {
	key      string
	scope    string
	variable string // "" is none
	maxBody  int    // bytes
	handle   tool.Handler
	// finish turns the envelope of a success into the answer; nil is 200.
	finish func(in *event.Request, envelope outcome.Envelope, answer *event.Response)
}

// A Handler answers events. It has the method of a Lambda handler.
type Handler struct {
	verifier Verifier
	log      *slog.Logger
	routes   map[string]route
}

// The inputs of the routes.
type (
	planInput struct {
		tool.Common
		PlanRef string `json:"planRef" schema:"minLength=1,maxLength=64"`
	}
	runInput struct {
		tool.Common
		RunRef string `json:"runRef" schema:"minLength=1,maxLength=64"`
	}
	resourceInput struct {
		tool.Common
		Ref string `json:"ref" schema:"minLength=1,maxLength=4096"`
	}
	planDecision struct {
		planInput
		PlanDigest string `json:"planDigest" schema:"minLength=1,maxLength=200"`
		Comment    string `json:"comment,omitzero" schema:"maxLength=2000,text=prose"`
	}
	runDecision struct {
		runInput
		RequestDigest string `json:"requestDigest" schema:"minLength=1,maxLength=200"`
		Comment       string `json:"comment,omitzero" schema:"maxLength=2000,text=prose"`
	}
)

// readPlaces are where what is read may be cut: a plan may be as large as there is.
var readPlaces = []budget.Place{
	{Path: "/plan/commands", Counts: budget.AsItems},
	{Path: "/plan/commands/*/document/inputs"}, {Path: "/plan/commands/*/document/nodes"}, {Path: "/plan/commands/*/document/results"},
	{Path: "/plan/commands/*/document/blocks"}, {Path: "/plan/commands/*/document/connections"}, {Path: "/plan/commands/*/cases", Counts: budget.AsItems},
	{Path: "/plan/commands/*/document/blockOrder"}, {Path: "/plan/commands/*/source"},
	{Path: "/plan/touchedSemanticPaths", Counts: budget.AsItems}, {Path: "/plan/diff", Counts: budget.AsItems}, {Path: "/plan/diff/*/unified"},
	{Path: "/plan/impact/checks", Counts: budget.AsItems}, {Path: "/plan/impact/boundary", Counts: budget.AsItems}, {Path: "/plan/impact/uses", Counts: budget.AsItems},
	// Of the plan of a Flow this is an object with mappings, of a Function's a list.
	{Path: "/plan/impact/reports", Counts: budget.AsItems}, {Path: "/plan/impact/reports/mappings", Counts: budget.AsItems}, {Path: "/plan/impact/reports/*/connectionKeys"},
	{Path: "/plan/impact/slots", Counts: budget.AsItems}, {Path: "/plan/impact/dependencies", Counts: budget.AsItems}, {Path: "/plan/impact/merge/columns"},
	{Path: "/plan/impact/contract", Counts: budget.AsItems}, {Path: "/plan/impact/flows", Counts: budget.AsItems}, {Path: "/plan/impact/flows/*/nodeKeys"},
	{Path: "/plan/impact/preserved", Counts: budget.AsItems}, {Path: "/plan/impact/stale", Counts: budget.AsItems},
	{Path: "/run/inputs", Counts: budget.AsItems}, {Path: "/run/inputs/*", Value: true},
}

// New returns a Handler.
func New(verifier Verifier, frame tool.Frame, reviews Reviews, resources Resources, drafts Drafts) *Handler {
	h := &Handler{verifier: verifier, log: frame.Log, routes: map[string]route{}}
	read := func(ctx context.Context, principal tool.Principal, subject review.Subject, ref string) (tool.Answer[review.Asked], error) {
		asked, findings, err := reviews.Read(ctx, principal.String(), subject, ref)
		return tool.Answer[review.Asked]{Data: asked, Diagnostics: findings, Pin: asked.PlanDigest + asked.RequestDigest}, err
	}
	add(h, frame, "GET /v1/plans/{planRef}", identity.ScopeApprove, readPlaces, func(ctx context.Context, c tool.Call[planInput]) (tool.Answer[review.Asked], error) {
		return read(ctx, c.Principal, review.Plan, c.Input.PlanRef)
	})
	add(h, frame, "GET /v1/runs/{runRef}", identity.ScopeApprove, readPlaces, func(ctx context.Context, c tool.Call[runInput]) (tool.Answer[review.Asked], error) {
		return read(ctx, c.Principal, review.Run, c.Input.RunRef)
	})
	add(h, frame, useResource, identity.ScopeTools, nil, func(ctx context.Context, c tool.Call[resourceInput]) (tool.Answer[resource.Download], error) {
		download, findings, err := resources.Use(ctx, c.Principal.String(), c.Input.Ref)
		return tool.Answer[resource.Download]{Data: download, Diagnostics: findings}, err
	})
	h.routes[useResource] = h.routes[useResource].finishing(redirect)
	makeDraft(h, frame, drafts)
	decide(h, frame, "approve", reviews.Approve)
	decide(h, frame, "reject", reviews.Reject)
	return h
}

// useResource is for whoever holds a link, and so the token that it was given for.
const useResource = "GET " + resource.Path + "{ref}"

// redirect sends the client to where a resource is, and tells it in the body, too. A
// client that says it takes JSON gets that alone: it may not want to send its token
// on to another host, which refuses a request that is signed twice.
func redirect(in *event.Request, envelope outcome.Envelope, answer *event.Response) {
	var to resource.Download
	if strings.Contains(in.Headers["accept"], event.JSON) || json.Unmarshal(envelope.Data, &to) != nil {
		return
	}
	answer.Status = http.StatusFound
	answer.Header.Set("Location", to.URL)
}

func (r route) finishing(f func(*event.Request, outcome.Envelope, *event.Response)) route {
	r.finish = f
	return r
}

// decide adds the two routes of a decision.
func decide[Out any](h *Handler, frame tool.Frame, verb string, do func(context.Context, review.Decision) (Out, outcome.Findings, error)) {
	answer := func(ctx context.Context, d review.Decision) (tool.Answer[Out], error) {
		out, findings, err := do(ctx, d)
		return tool.Answer[Out]{Data: out, Diagnostics: findings}, err
	}
	add(h, frame, "POST /v1/plans/{planRef}/"+verb, identity.ScopeApprove, nil, func(ctx context.Context, c tool.Call[planDecision]) (tool.Answer[Out], error) {
		return answer(ctx, review.Decision{Principal: c.Principal.String(), Subject: review.Plan, Ref: c.Input.PlanRef, Digest: c.Input.PlanDigest, Comment: c.Input.Comment})
	})
	add(h, frame, "POST /v1/runs/{runRef}/"+verb, identity.ScopeApprove, nil, func(ctx context.Context, c tool.Call[runDecision]) (tool.Answer[Out], error) {
		return answer(ctx, review.Decision{Principal: c.Principal.String(), Subject: review.Run, Ref: c.Input.RunRef, Digest: c.Input.RequestDigest, Comment: c.Input.Comment})
	})
}

// add adds a route. What a tool has around it (strict decoding, budgets, cursors,
// diagnosticIds, log lines) stands around a route too; its name there is the route
// key.
func add[In tool.Input, Out any](h *Handler, frame tool.Frame, key, scope string, places []budget.Place, handle func(context.Context, tool.Call[In]) (tool.Answer[Out], error)) {
	variable := ""
	if i := strings.LastIndexByte(key, '{'); i >= 0 {
		variable, _, _ = strings.Cut(key[i+1:], "}")
	}
	d := tool.Define[In, Out](tool.Spec{Name: key, Description: "A route of people.", Places: places})
	h.routes[key] = route{key: key, scope: scope, variable: variable, maxBody: maxDecision, handle: d.Handler(frame, handle)}
}

// Routes are the route keys that are served, in order.
func (h *Handler) Routes() []string { return slices.Sorted(maps.Keys(h.routes)) }

// Invoke answers one event.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return event.Serve(ctx, payload, h.answer)
}

func (h *Handler) answer(ctx context.Context, in *event.Request) event.Response {
	to, ok := h.routes[in.RouteKey]
	if !ok {
		return event.Problem(http.StatusNotFound, "no_such_route")
	}
	token, err := h.verifier.Verify(ctx, in.Headers["authorization"], to.scope)
	if err != nil {
		return event.Refused(ctx, h.log, in, err)
	}
	arguments, problem := to.arguments(in)
	if problem != nil {
		return *problem
	}
	request := tool.Request{
		Version: tool.RequestVersion, RequestID: in.RequestContext.RequestID, Tool: to.key, Arguments: arguments, ByteShare: maxAnswer,
		Principal: tool.Principal{Issuer: token.Issuer, Subject: token.Subject, Scopes: token.Scopes, Session: token.Session},
	}
	text, err := to.handle(ctx, request)
	if err != nil { // the frame has logged it
		var failure *tool.Failure
		if errors.As(err, &failure) && failure.Type == tool.FatalErrorType {
			return event.Problem(http.StatusInternalServerError, "internal")
		}
		r := event.Problem(http.StatusServiceUnavailable, "try_again")
		r.Header.Set("Retry-After", "1")
		return r
	}
	out := event.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {event.JSON}}, Body: append(text, '\n')}
	var envelope outcome.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return event.Problem(http.StatusInternalServerError, "internal")
	}
	switch {
	case !envelope.OK:
		out.Status = status(envelope.Diagnostics[0].Code)
	case to.finish != nil:
		to.finish(in, envelope, &out)
	}
	return out
}

// arguments are the body's members, or those of the query, and the path's variable.
func (r route) arguments(in *event.Request) (jsontext.Value, *event.Response) {
	refuse := func(status int, reason string) (jsontext.Value, *event.Response) {
		p := event.Problem(status, reason)
		return nil, &p
	}
	members := map[string]jsontext.Value{}
	quote := func(text string) (jsontext.Value, error) { return jsontext.AppendQuote(nil, text) }
	if in.RequestContext.HTTP.Method == http.MethodPost {
		kind, params, err := mime.ParseMediaType(in.Headers["content-type"])
		charset, has := params["charset"]
		switch {
		case err != nil || kind != event.JSON || has && !strings.EqualFold(charset, "utf-8"):
			return refuse(http.StatusUnsupportedMediaType, "send "+event.JSON)
		case in.Headers["content-encoding"] != "" && !strings.EqualFold(in.Headers["content-encoding"], "identity"):
			return refuse(http.StatusUnsupportedMediaType, "a compressed body is not supported")
		case len(in.Query) > 0:
			return refuse(http.StatusBadRequest, "there is no query here")
		}
		body, err := in.Body()
		switch {
		case err != nil:
			return refuse(http.StatusBadRequest, err.Error())
		case len(body) > r.maxBody:
			return refuse(http.StatusRequestEntityTooLarge, "the body is too large")
		case canon.CheckGrammar(body) != nil || json.Unmarshal(body, &members) != nil:
			return refuse(http.StatusBadRequest, "the body is no strict JSON object")
		case r.variable != "" && members[r.variable] != nil:
			return refuse(http.StatusBadRequest, "the body repeats what the path says")
		}
	} else {
		for name, value := range in.Query {
			text, err := quote(value)
			if err != nil || name == r.variable {
				return refuse(http.StatusBadRequest, "the query cannot be read")
			}
			members[name] = text
		}
	}
	if r.variable != "" {
		text, err := quote(in.Path[r.variable])
		if err != nil {
			return refuse(http.StatusBadRequest, "the path is not UTF-8")
		}
		members[r.variable] = text
	}
	arguments, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return refuse(http.StatusBadRequest, "the request cannot be read")
	}
	return arguments, nil
}

// status is how HTTP says a refusal. The envelope says it exactly.
func status(code outcome.Code) int {
	switch code {
	case outcome.TargetNotFound, outcome.PlanNotFound:
		return http.StatusNotFound
	case outcome.PermissionDenied:
		return http.StatusForbidden
	case outcome.PlanExpired, outcome.PlanMismatch, outcome.ApprovalInvalid:
		return http.StatusConflict
	case outcome.LimitExceeded:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
