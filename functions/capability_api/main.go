// Command capability_api is the Lambda of the capability host: what screens and the
// hosts of AIs call, and what manages a workspace's plugins.
package main

import (
	"os"
	"strings"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/capability/door"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outbound"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
	h := plugins.New(env)
	serve := door.Host{Rows: h.Store(), Workspaces: h.Reader(), Executions: h.Desk(), Plugins: h.Manager(), Connections: h.Connections(outbound.New()),
		Origins: strings.Fields(env.Get("PX_ORIGINS"))}
	boot.Check(env.Err())
	boot.Start(door.New(boot.Must(identity.New(accept)), h.Frame(), serve))
}
