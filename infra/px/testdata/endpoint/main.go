// Command endpoint is functions/mcp_endpoint with a catalog that a test gives.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/wire"
	"github.com/pxhost/pxhost/shared/wire/gateway"
	"github.com/pxhost/pxhost/shared/wire/toolcall"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	verifier := boot.Must(identity.New(identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE")}))
	call := toolcall.New(awslambda.New(env), env.Need("PX_TOOL_PREFIX"))
	boot.Check(env.Err())
	dispatcher := boot.Must(wire.New(wire.Config{Catalog: []byte(env.Need("CATALOG")), Call: call, Log: boot.Logger()}))
	boot.Start(gateway.New(gateway.Config{Verifier: verifier, Dispatcher: dispatcher, Log: boot.Logger()}))
}
