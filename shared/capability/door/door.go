// Package door is the HTTP door to the capability host: for people's screens and for the
// hosts of AIs. What it serves are the routes of a catalog, of executions, of slash
// commands, of notifications, and those by which a workspace's plugins are managed, and
// an endpoint of ordinary MCP clients that has an actor's capabilities as tools.
//
// What calls capabilities takes either scope: the token of an AI's host (px.tools) and
// that of a person's browser (px.approve). What installs, grants and connects takes a
// person's alone: what an AI holds changes nothing of what it may do, whatever its
// person may.
//
// A refusal before there is an execution is a diagnostic with its code. What becomes of
// an execution, failures included, is data.
package door

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/canon"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/slash"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/target"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/event"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// maxInvoke is the largest body of a call, in bytes. It leaves room for white space
// around arguments of the largest size, which is counted in their canonical encoding.
const maxInvoke = 2 * execution.MaxArguments

// maxNotifications is how many notifications are told, the newest first.
const maxNotifications = 200

// Rows are what the routes read themselves.
type Rows interface {
	Generation(ctx context.Context, workspace string) (int64, error)
	Member(ctx context.Context, workspace, actor string) (capability.Member, error)
	Notifications(ctx context.Context, workspace, actor string, limit int) ([]host.Notification, error)
}

// Executions accept calls and tell what became of them; *execution.Desk does.
type Executions interface {
	Accept(ctx context.Context, q execution.Request) (host.Execution, error)
	Wait(ctx context.Context, e host.Execution) (host.Execution, error)
	Read(ctx context.Context, actor, executionID string) (host.Execution, error)
	Result(ctx context.Context, e host.Execution) (capability.Result, error)
	Cancel(ctx context.Context, actor, executionID string) (host.Execution, error)
}

// A Host is what the routes do their work with.
type Host struct {
	Rows        Rows
	Workspaces  installation.Workspaces
	Executions  Executions
	Plugins     *installation.Manager
	Connections *connection.Manager
	// Origins are the web pages, beside this API's own, from which a browser may reach the
	// endpoint of MCP clients.
	Origins []string
}

// The scopes of the routes.
var (
	calling  = []string{identity.ScopeTools, identity.ScopeApprove}
	managing = []string{identity.ScopeApprove}
)

// New returns the door.
func New(verifier route.Verifier, frame tool.Frame, h Host) *route.Door {
	d := route.New(verifier, frame, status)
	h.catalog(d)
	h.executions(d)
	h.slash(d)
	h.notifications(d)
	h.plugins(d)
	h.connections(d)
	h.mcp(d, verifier, frame)
	return d
}

// status is how HTTP says a refusal. The envelope says it exactly.
func status(code outcome.Code) int {
	switch code {
	case outcome.ExtensionNotFound, outcome.SlashCommandUnavailable:
		return http.StatusNotFound
	case outcome.ExtensionPermissionDenied:
		return http.StatusForbidden
	case outcome.ExtensionDisabled, outcome.ExtensionVersionMismatch, outcome.ExtensionConnectionRequired, outcome.ExtensionDependencyRequired,
		outcome.CommandReused, outcome.SlashCommandAmbiguous:
		return http.StatusConflict
	case outcome.LimitExceeded:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// refused makes an answer of an error: a failure that the caller can act on is told, any
// other error is the machinery's.
func refused[Out any](err error, at string) (tool.Answer[Out], error) {
	var f *capability.Failure
	if !errors.As(err, &f) {
		return tool.Answer[Out]{}, err
	}
	switch f.Code {
	case outcome.ExtensionInputInvalid:
	case outcome.CommandReused:
		at = "/idempotencyKey"
	case outcome.ExtensionVersionMismatch:
		at = "/generation"
	default:
		at = ""
	}
	return tool.Answer[Out]{Diagnostics: outcome.Findings{outcome.New(f.Code, at, f.Params)}, Cause: f.Cause}, nil
}

// ---- the catalog ----

type workspaceInput struct {
	tool.Common
	WorkspaceKey string `json:"workspaceKey" schema:"pattern=key"`
}

// catalog adds the route of the catalog. Its ETag is the generation of the workspace,
// which moves with each change of what anybody may call: who has the catalog of a
// generation asks with If-None-Match, which costs two reads of a row.
func (h Host) catalog(d *route.Door) {
	route.Add(d, route.Route{
		Key: "GET /v1/capabilities", Scopes: calling, Before: h.unchanged, Finish: tagged,
		Places: []budget.Place{{Path: "/capabilities", Counts: budget.AsItems}, {Path: "/slashCommands"}, {Path: "/screens"}},
	}, func(ctx context.Context, c tool.Call[workspaceInput]) (tool.Answer[capability.Catalog], error) {
		member, err := h.Rows.Member(ctx, c.Input.WorkspaceKey, c.Principal.String())
		if err != nil {
			return tool.Answer[capability.Catalog]{}, err
		}
		// Who may use nothing is told so: an empty list would say that there is nothing.
		if denied := installation.Permit(member, capability.Use); denied != nil {
			return tool.Refuse[capability.Catalog](denied), nil
		}
		w, err := h.Workspaces.Read(ctx, c.Input.WorkspaceKey)
		if err != nil {
			return tool.Answer[capability.Catalog]{}, err
		}
		pin := strconv.FormatInt(w.Generation, 10)
		if c.Pin != "" && c.Pin != pin {
			return tool.Refuse[capability.Catalog](tool.CursorInvalid()), nil
		}
		return tool.Answer[capability.Catalog]{Data: w.Catalog(member, c.Principal.String()), Pin: pin}, nil
	})
}

// tag is the ETag of a generation.
func tag(generation int64) string { return `"` + strconv.FormatInt(generation, 10) + `"` }

// unchanged answers 304 to who has the catalog of the generation that there is.
func (h Host) unchanged(ctx context.Context, in *event.Request, who tool.Principal) (*event.Response, error) {
	has, workspace := in.Headers["if-none-match"], in.Query["workspaceKey"]
	if has == "" || len(in.Query) != 1 || !target.ValidKey(workspace) {
		return nil, nil
	}
	member, err := h.Rows.Member(ctx, workspace, who.String())
	if err != nil || !member.Allows(capability.Use) {
		return nil, err
	}
	generation, err := h.Rows.Generation(ctx, workspace)
	if err != nil {
		return nil, err
	}
	for one := range strings.SplitSeq(has, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag(generation) || one == "*" {
			return &event.Response{Status: http.StatusNotModified, Header: http.Header{"Etag": {tag(generation)}}}, nil
		}
	}
	return nil, nil
}

// tagged gives an answer its ETag.
func tagged(_ *event.Request, told route.Told, answer *event.Response) {
	var generation int64
	if told.Member("generation", &generation) {
		answer.Header.Set("Etag", tag(generation))
	}
}

// ---- executions ----

type (
	invokeInput struct {
		tool.Common
		InstanceID   string    `json:"instanceId" schema:"minLength=1,maxLength=64"`
		CapabilityID string    `json:"capabilityId" schema:"minLength=1,maxLength=200"`
		Arguments    canon.Raw `json:"arguments"`
		// Surface is where the call comes from. Background calls are the Host's own.
		Surface        string `json:"surface" schema:"enum=ui|ai|slash"`
		IdempotencyKey string `json:"idempotencyKey" schema:"minLength=1,maxLength=200"`
		// Generation is that of the instance as the caller saw it, which a screen must say
		// (C2).
		Generation int64 `json:"generation,omitzero" schema:"minimum=1"`
	}
	// A stopped call is named as it was asked for: who asked learns the ID of its execution
	// with the answer, which may take as long as they wait.
	stopInput struct {
		tool.Common
		InstanceID     string `json:"instanceId" schema:"minLength=1,maxLength=64"`
		CapabilityID   string `json:"capabilityId" schema:"minLength=1,maxLength=200"`
		IdempotencyKey string `json:"idempotencyKey" schema:"minLength=1,maxLength=200"`
	}
	executionInput struct {
		tool.Common
		ExecutionID string `json:"executionId" schema:"minLength=1,maxLength=64"`
	}
)

// An Execution is what callers are told of one.
type Execution struct {
	ExecutionID  string     `json:"executionId"`
	State        host.State `json:"state"`
	InstanceID   string     `json:"instanceId"`
	CapabilityID string     `json:"capabilityId"`
	Surface      string     `json:"surface"`
	CreatedAt    time.Time  `json:"createdAt"`
	EndedAt      time.Time  `json:"endedAt,omitzero"`
	Result       *Result    `json:"result,omitzero"`  // of one that succeeded
	Failure      *Failure   `json:"failure,omitzero"` // of one that failed, or whose outcome is unknown
}

// A Result is what it gave. What it asked the Host for is the Host's.
type Result struct {
	Summary  string      `json:"summary"`
	Data     canon.Raw   `json:"data"`
	Evidence []canon.Raw `json:"evidence"`
}

// A Failure is why it failed, with what the registry of codes says of it.
type Failure struct {
	Code            outcome.Code   `json:"code"`
	Params          outcome.Params `json:"params"`
	Retryable       bool           `json:"retryable"`
	SuggestedAction string         `json:"suggestedAction"`
}

// resultPlaces are where a result may be cut: between the members of its data, the
// elements of lists in it to the third level, and the characters of its texts.
var resultPlaces = []budget.Place{
	{Path: "/result/data"}, {Path: "/result/data/*"}, {Path: "/result/data/*/*"}, {Path: "/result/data/*/*/*"},
	{Path: "/result/evidence"}, {Path: "/result/evidence/*"},
}

func (h Host) executions(d *route.Door) {
	// The rest of a cut answer is asked for by the same request with a cursor: it finds
	// its execution, and nothing is called for it.
	route.Add(d, route.Route{Key: "POST /v1/capabilities/{instanceId}/{capabilityId}/invoke", Scopes: calling, MaxBody: maxInvoke, Places: resultPlaces, Finish: running},
		func(ctx context.Context, c tool.Call[invokeInput]) (tool.Answer[Execution], error) {
			in, actor := c.Input, c.Principal.String()
			if in.Surface == "ui" && in.Generation == 0 {
				return tool.Refuse[Execution](outcome.Findings{outcome.New(outcome.SchemaInvalid, "/generation", outcome.Params{"rule": "required", "surface": "ui"})}), nil
			}
			e, err := h.Executions.Accept(ctx, execution.Request{
				Actor: actor, InstanceID: in.InstanceID, CapabilityID: in.CapabilityID, Arguments: in.Arguments, Surface: in.Surface, Key: in.IdempotencyKey, Generation: in.Generation,
			})
			if err != nil {
				return refused[Execution](err, "/arguments")
			}
			if e, err = h.Executions.Wait(ctx, e); err != nil {
				return tool.Answer[Execution]{}, err
			}
			return h.told(ctx, e)
		})
	route.Add(d, route.Route{Key: "GET /v1/executions/{executionId}", Scopes: calling, Places: resultPlaces, Finish: running},
		func(ctx context.Context, c tool.Call[executionInput]) (tool.Answer[Execution], error) {
			return h.tell(ctx, c.Principal.String(), c.Input.ExecutionID)
		})
	route.Add(d, route.Route{Key: "POST /v1/executions/{executionId}/cancel", Scopes: calling, Places: resultPlaces, Finish: running},
		func(ctx context.Context, c tool.Call[executionInput]) (tool.Answer[Execution], error) {
			return h.cancel(ctx, c.Principal.String(), c.Input.ExecutionID)
		})
	route.Add(d, route.Route{Key: "POST /v1/capabilities/{instanceId}/{capabilityId}/cancel", Scopes: calling, Places: resultPlaces, Finish: running},
		func(ctx context.Context, c tool.Call[stopInput]) (tool.Answer[Execution], error) {
			in, actor := c.Input, c.Principal.String()
			return h.cancel(ctx, actor, execution.Request{Actor: actor, InstanceID: in.InstanceID, CapabilityID: in.CapabilityID, Key: in.IdempotencyKey}.ID())
		})
}

// running is 202 for an execution that is not over.
func running(_ *event.Request, told route.Told, answer *event.Response) {
	var state host.State
	if told.Member("state", &state) && !state.Terminal() {
		answer.Status = http.StatusAccepted
	}
}

// cancel asks for the end of an execution and tells it.
func (h Host) cancel(ctx context.Context, actor, executionID string) (tool.Answer[Execution], error) {
	e, err := h.Executions.Cancel(ctx, actor, executionID)
	if err != nil {
		return refused[Execution](err, "")
	}
	return h.told(ctx, e)
}

// tell reads an execution and tells it.
func (h Host) tell(ctx context.Context, actor, executionID string) (tool.Answer[Execution], error) {
	e, err := h.Executions.Read(ctx, actor, executionID)
	if err != nil {
		return refused[Execution](err, "")
	}
	return h.told(ctx, e)
}

// told is what callers are told. Only one that is over can be cut, and it never changes.
func (h Host) told(ctx context.Context, e host.Execution) (tool.Answer[Execution], error) {
	out := Execution{e.ExecutionID, e.State, e.InstanceID, e.CapabilityID, e.Surface, e.CreatedAt, e.EndedAt, nil, nil}
	switch {
	case e.State == host.Succeeded:
		r, err := h.Executions.Result(ctx, e)
		if err != nil {
			return tool.Answer[Execution]{}, err
		}
		out.Result = &Result{r.Summary, r.Data, r.Evidence}
		if r.Evidence == nil {
			out.Result.Evidence = []canon.Raw{}
		}
	case e.Code != "":
		d := outcome.New(e.Code, "", e.Params)
		out.Failure = &Failure{d.Code, d.Params, d.Retryable, d.SuggestedAction}
	}
	return tool.Answer[Execution]{Data: out, Pin: e.ExecutionID}, nil
}

// ---- slash commands ----

type slashInput struct {
	tool.Common
	WorkspaceKey string `json:"workspaceKey" schema:"pattern=key"`
	Text         string `json:"text" schema:"maxLength=65536"`
	// What was chosen in a menu: both, or none.
	InstanceID string `json:"instanceId,omitzero" schema:"minLength=1,maxLength=64"`
	CommandID  string `json:"commandId,omitzero" schema:"minLength=1,maxLength=200"`
}

func (h Host) slash(d *route.Door) {
	route.Add(d, route.Route{Key: "POST /v1/slash/resolve", Scopes: calling, MaxBody: maxInvoke}, func(ctx context.Context, c tool.Call[slashInput]) (tool.Answer[slash.Resolved], error) {
		in, actor := c.Input, c.Principal.String()
		if (in.InstanceID == "") != (in.CommandID == "") {
			at := "/commandId"
			if in.InstanceID == "" {
				at = "/instanceId"
			}
			return tool.Refuse[slash.Resolved](outcome.Findings{outcome.New(outcome.SchemaInvalid, at, outcome.Params{"rule": "required"})}), nil
		}
		member, err := h.Rows.Member(ctx, in.WorkspaceKey, actor)
		if err != nil {
			return tool.Answer[slash.Resolved]{}, err
		}
		// Without the right to use there is no command: a choice that was made before the
		// right was lost ends as one that is not there any more (C8).
		w, err := h.Workspaces.Read(ctx, in.WorkspaceKey)
		if err != nil {
			return tool.Answer[slash.Resolved]{}, err
		}
		out, err := slash.Resolve(w.Catalog(member, actor), slash.Choice{Text: in.Text, InstanceID: in.InstanceID, CommandID: in.CommandID})
		if err != nil {
			return refused[slash.Resolved](err, "/text")
		}
		return tool.Answer[slash.Resolved]{Data: out}, nil
	})
}

// ---- notifications ----

// A Notification is what a person was told.
type Notification struct {
	NotificationID string    `json:"notificationId"`
	InstanceID     string    `json:"instanceId"`
	Title          string    `json:"title"`
	Text           string    `json:"text,omitzero"`
	At             time.Time `json:"at"`
	DeliveredAt    time.Time `json:"deliveredAt"`
	// Withheld is why its plugin may not tell it any more; then there is no title.
	Withheld outcome.Code `json:"withheld,omitzero"`
}

// Notifications are those of an actor, the newest first.
type Notifications struct {
	Notifications []Notification `json:"notifications"`
}

func (h Host) notifications(d *route.Door) {
	route.Add(d, route.Route{Key: "GET /v1/notifications", Scopes: calling, Places: []budget.Place{{Path: "/notifications", Counts: budget.AsItems}}},
		func(ctx context.Context, c tool.Call[workspaceInput]) (tool.Answer[Notifications], error) {
			actor := c.Principal.String()
			member, err := h.Rows.Member(ctx, c.Input.WorkspaceKey, actor)
			if err != nil {
				return tool.Answer[Notifications]{}, err
			}
			if denied := installation.Permit(member, capability.Use); denied != nil {
				return tool.Refuse[Notifications](denied), nil
			}
			list, err := h.Rows.Notifications(ctx, c.Input.WorkspaceKey, actor, maxNotifications)
			if err != nil {
				return tool.Answer[Notifications]{}, err
			}
			out := Notifications{[]Notification{}}
			for _, n := range list {
				out.Notifications = append(out.Notifications, Notification{n.NotificationID, n.InstanceID, n.Title, n.Text, n.At, n.DeliveredAt, n.Withheld})
			}
			// A list that has grown since is another one: the cut one begins anew.
			return tool.Answer[Notifications]{Data: out, Pin: "notifications"}, nil
		})
}
