// Command adapter_mcp_http is the Lambda that performs capabilities of the adapter
// mcp_http. It reaches public hosts alone.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/outbound"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	h := plugins.New(env)
	serve := h.MCPHTTP(outbound.New())
	boot.Check(env.Err())
	boot.Start(serve)
}
