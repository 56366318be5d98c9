package plugins

import (
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/pxhost/pxhost/shared/adapter/httpjson"
	"github.com/pxhost/pxhost/shared/adapter/mcphttp"
	"github.com/pxhost/pxhost/shared/boot/awsjson"
	"github.com/pxhost/pxhost/shared/connection"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/store/datakey"
	"github.com/pxhost/pxhost/shared/wait"
)

// What calls services outside takes the client that it does so with. The mains of the
// product hand outbound.New() in, which reaches public hosts alone; nothing that is
// configured (no variable, no parameter of the template) can make it reach another. A
// test that has to reach a stand-in on this machine builds a program of its own out of
// the same functions, with outbound.NewWith and the hosts that it stands in for
// (infra/acceptance/outside): what could be switched on in production would be.

// Credentials open, get and renew the secrets of Connections, with the key that
// PX_CONNECTION_KEY names.
func (p *Plugins) Credentials(out *outbound.Client) *connection.Service {
	keys := datakey.Keys{Client: awsjson.KMS(p.env), Key: p.env.Need("PX_CONNECTION_KEY")}
	return &connection.Service{Store: p.Store(), Keys: keys, Sender: out, Now: time.Now, Sleep: wait.For}
}

// Connections makes Connections, changes and forgets them.
func (p *Plugins) Connections(out *outbound.Client) *connection.Manager {
	return &connection.Manager{Service: p.Credentials(out), Workspaces: p.reader}
}

// HTTPJSON is the handler of the function of the adapter http_json.
func (p *Plugins) HTTPJSON(out *outbound.Client) lambda.Handler {
	return p.Serve(httpjson.Adapter{Sender: out, Credentials: p.Credentials(out), Sleep: wait.For})
}

// MCPHTTP is the handler of the function of the adapter mcp_http.
func (p *Plugins) MCPHTTP(out *outbound.Client) lambda.Handler {
	return p.Serve(mcphttp.Adapter{Sender: out, Credentials: p.Credentials(out), Sleep: wait.For})
}
