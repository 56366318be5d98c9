// Command adapter_http_json is the Lambda that performs capabilities of the adapter
// http_json. It reaches public hosts alone.
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
	serve := h.HTTPJSON(outbound.New())
	boot.Check(env.Err())
	boot.Start(serve)
}
