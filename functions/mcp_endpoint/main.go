// Command mcp_endpoint is the Lambda of the MCP wire, formal and standard, and the only
// one that may invoke tools.
package main

import (
	"os"
	"strings"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/outcome"
	"github.com/pxhost/pxhost/shared/tool/catalog"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/toolcall"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
	call := toolcall.New(awslambda.New(env), env.Need("PX_TOOL_PREFIX"))
	tools := catalog.JSON
	if env.Switch(boot.PlannedCatalog) {
		tools = catalog.Planned
	}
	boot.Check(env.Err())
	dispatcher := boot.Must(wire.New(wire.Config{Catalog: tools, Call: call, Log: boot.Logger()}))
	boot.Start(gateway.New(gateway.Config{
		Verifier:   boot.Must(identity.New(accept)),
		Dispatcher: dispatcher,
		Standard:   boot.Must(wire.NewStandard(dispatcher.Toolset(catalog.Titles), outcome.ContractVersion, catalog.Instructions)),
		Log:        boot.Logger(),
		Issuer:     accept.Issuer,
		Origins:    strings.Fields(env.Get("PX_ORIGINS")),
	}))
}
