package door

import (
	"context"

	"github.com/pxhost/pxhost/shared/budget"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/tool"
	"github.com/pxhost/pxhost/shared/wire/route"
)

// A secretInput is a credential on its way in. There is no way out: no route answers it,
// and whatever is told of a Connection is made of a type that has no place for it.
type secretInput struct {
	_            struct{} `schema:"anyOf=token|clientId|clientSecret"`
	Token        string   `json:"token,omitzero" schema:"minLength=1,maxLength=8192"`
	ClientID     string   `json:"clientId,omitzero" schema:"minLength=1,maxLength=1024"`
	ClientSecret string   `json:"clientSecret,omitzero" schema:"minLength=1,maxLength=8192"`
}

func (in secretInput) secret() connection.Secret {
	return connection.Secret{Token: in.Token, ClientID: in.ClientID, ClientSecret: in.ClientSecret}
}

type (
	connectInput struct {
		tool.Common
		InstanceID  string `json:"instanceId" schema:"minLength=1,maxLength=64"`
		ConnectorID string `json:"connectorId" schema:"pattern=key"`
		// Owner says whose it is: everyone's who may use the instance, or the caller's own.
		Owner       string      `json:"owner" schema:"enum=everyone|self"`
		Secret      secretInput `json:"secret"`
		RedirectURI string      `json:"redirectUri,omitzero" schema:"minLength=1,maxLength=2000"` // of authorization_code
	}
	connectionInput struct {
		tool.Common
		ConnectionID string `json:"connectionId" schema:"minLength=1,maxLength=64"`
	}
	rotateInput struct {
		connectionInput
		Secret      secretInput `json:"secret"`
		RedirectURI string      `json:"redirectUri,omitzero" schema:"minLength=1,maxLength=2000"`
	}
	authorizeInput struct {
		connectionInput
		RedirectURI string `json:"redirectUri" schema:"minLength=1,maxLength=2000"`
	}
	// A completeInput is what stands in the address that a service sent a person back to.
	completeInput struct {
		_ struct{} `schema:"oneOf=code|error"`
		tool.Common
		State string `json:"state" schema:"minLength=1,maxLength=200"`
		Code  string `json:"code,omitzero" schema:"minLength=1,maxLength=4096"`
		Error string `json:"error,omitzero" schema:"minLength=1,maxLength=200"`
	}
)

// connections adds the routes of Connections. They take a person's token: what an AI
// holds gives nobody's credential to anything.
//
// There is no route that a service could send a browser back to, since a browser brings
// no token there. The page that it is sent to is the caller's, who completes with what it
// was sent.
func (h Host) connections(d *route.Door) {
	list := []budget.Place{{Path: "/connections", Counts: budget.AsItems}}
	route.Add(d, route.Route{Key: "GET /v1/connections", Scopes: managing, Places: list}, func(ctx context.Context, c tool.Call[workspaceInput]) (tool.Answer[connection.List], error) {
		out, findings, err := h.Connections.List(ctx, c.Principal.String(), c.Input.WorkspaceKey)
		return tool.Answer[connection.List]{Data: out, Diagnostics: findings, Pin: tag(out.Generation)}, err
	})
	route.Add(d, route.Route{Key: "POST /v1/connections", Scopes: managing}, func(ctx context.Context, c tool.Call[connectInput]) (tool.Answer[connection.Made], error) {
		in := c.Input
		return managed(h.Connections.Create(ctx, connection.Order{
			Actor: c.Principal.String(), InstanceID: in.InstanceID, ConnectorID: in.ConnectorID, Owner: in.Owner, Secret: in.Secret.secret(), Redirect: in.RedirectURI,
		}))
	})
	route.Add(d, route.Route{Key: "POST /v1/connections/complete", Scopes: managing}, func(ctx context.Context, c tool.Call[completeInput]) (tool.Answer[connection.Made], error) {
		return managed(h.Connections.Complete(ctx, connection.Return{Actor: c.Principal.String(), State: c.Input.State, Code: c.Input.Code}))
	})
	route.Add(d, route.Route{Key: "POST /v1/connections/{connectionId}/rotate", Scopes: managing}, func(ctx context.Context, c tool.Call[rotateInput]) (tool.Answer[connection.Made], error) {
		return managed(h.Connections.Rotate(ctx, connection.Rotation{
			Actor: c.Principal.String(), ConnectionID: c.Input.ConnectionID, Secret: c.Input.Secret.secret(), Redirect: c.Input.RedirectURI,
		}))
	})
	route.Add(d, route.Route{Key: "POST /v1/connections/{connectionId}/authorize", Scopes: managing}, func(ctx context.Context, c tool.Call[authorizeInput]) (tool.Answer[connection.Made], error) {
		return managed(h.Connections.Authorize(ctx, c.Principal.String(), c.Input.ConnectionID, c.Input.RedirectURI))
	})
	route.Add(d, route.Route{Key: "POST /v1/connections/{connectionId}/remove", Scopes: managing}, func(ctx context.Context, c tool.Call[connectionInput]) (tool.Answer[connection.Forgotten], error) {
		return managed(h.Connections.Remove(ctx, c.Principal.String(), c.Input.ConnectionID))
	})
}
