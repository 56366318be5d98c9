// Command adapter_calendar_store is the Lambda that performs capabilities of the adapter
// calendar_store.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/plugins"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	h := plugins.New(env)
	serve := h.CalendarStore()
	boot.Check(env.Err())
	boot.Start(serve)
}
