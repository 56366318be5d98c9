// Package door is the HTTP door to reviews, for people and trusted hosts: the
// routes that no tool has. It takes API Gateway events, verifies the token for the
// scope of the route, and answers envelopes like those of the tools.
//
// A plan and a Run that waits are addressed by their reference alone: the store
// keeps a plan under its planRef, with its Project, so that a person who was handed
// a reference needs nothing else. Who may not read that Project is told that there is
// no such plan.
package door

import (
	"context"
	"net/http"
	"strings"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/draft"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/review"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// maxDraft is the largest body of a draft, in bytes. It leaves room for white space
// around a document of the largest size, which is counted in its canonical encoding. It
// is as much as a line of the wire may be, so that a document which cannot come in as a
// draft cannot come in as a command either. API Gateway takes 10 MB, and Lambda 6 MB of
// the whole event.
const maxDraft = 2 << 20

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
func New(verifier route.Verifier, frame tool.Frame, reviews Reviews, resources Resources, drafts Drafts) *route.Door {
	d := route.New(verifier, frame, status)
	approving, using := []string{identity.ScopeApprove}, []string{identity.ScopeTools}
	read := func(ctx context.Context, principal tool.Principal, subject review.Subject, ref string) (tool.Answer[review.Asked], error) {
		asked, findings, err := reviews.Read(ctx, principal.String(), subject, ref)
		return tool.Answer[review.Asked]{Data: asked, Diagnostics: findings, Pin: asked.PlanDigest + asked.RequestDigest}, err
	}
	route.Add(d, route.Route{Key: "GET /v1/plans/{planRef}", Scopes: approving, Places: readPlaces}, func(ctx context.Context, c tool.Call[planInput]) (tool.Answer[review.Asked], error) {
		return read(ctx, c.Principal, review.Plan, c.Input.PlanRef)
	})
	route.Add(d, route.Route{Key: "GET /v1/runs/{runRef}", Scopes: approving, Places: readPlaces}, func(ctx context.Context, c tool.Call[runInput]) (tool.Answer[review.Asked], error) {
		return read(ctx, c.Principal, review.Run, c.Input.RunRef)
	})
	route.Add(d, route.Route{Key: useResource, Scopes: using, Finish: redirect}, func(ctx context.Context, c tool.Call[resourceInput]) (tool.Answer[resource.Download], error) {
		download, findings, err := resources.Use(ctx, c.Principal.String(), c.Input.Ref)
		return tool.Answer[resource.Download]{Data: download, Diagnostics: findings}, err
	})
	makeDraft(d, drafts)
	decide(d, "approve", reviews.Approve)
	decide(d, "reject", reviews.Reject)
	return d
}

// useResource is for whoever holds a link, and so the token that it was given for.
const useResource = "GET " + resource.Path + "{ref}"

// redirect sends the client to where a resource is, and tells it in the body, too. A
// client that says it takes JSON gets that alone: it may not want to send its token
// on to another host, which refuses a request that is signed twice.
func redirect(in *event.Request, told route.Told, answer *event.Response) {
	var to string
	if strings.Contains(in.Headers["accept"], event.JSON) || !told.Member("url", &to) {
		return
	}
	answer.Status = http.StatusFound
	answer.Header.Set("Location", to)
}

// decide adds the two routes of a decision.
func decide[Out any](to *route.Door, verb string, do func(context.Context, review.Decision) (Out, outcome.Findings, error)) {
	answer := func(ctx context.Context, d review.Decision) (tool.Answer[Out], error) {
		out, findings, err := do(ctx, d)
		return tool.Answer[Out]{Data: out, Diagnostics: findings}, err
	}
	route.Add(to, route.Route{Key: "POST /v1/plans/{planRef}/" + verb, Scopes: []string{identity.ScopeApprove}}, func(ctx context.Context, c tool.Call[planDecision]) (tool.Answer[Out], error) {
		return answer(ctx, review.Decision{Principal: c.Principal.String(), Subject: review.Plan, Ref: c.Input.PlanRef, Digest: c.Input.PlanDigest, Comment: c.Input.Comment})
	})
	route.Add(to, route.Route{Key: "POST /v1/runs/{runRef}/" + verb, Scopes: []string{identity.ScopeApprove}}, func(ctx context.Context, c tool.Call[runDecision]) (tool.Answer[Out], error) {
		return answer(ctx, review.Decision{Principal: c.Principal.String(), Subject: review.Run, Ref: c.Input.RunRef, Digest: c.Input.RequestDigest, Comment: c.Input.Comment})
	})
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
