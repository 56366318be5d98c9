// Command adapter_text_template is the Lambda that performs capabilities of the adapter
// text_template.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/adapter/texttemplate"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/plugins"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	h := plugins.New(env)
	serve := h.Serve(texttemplate.Adapter{})
	boot.Check(env.Err())
	boot.Start(serve)
}
