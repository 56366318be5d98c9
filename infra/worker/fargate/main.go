//go:build linux

// Command fargate is the worker with the driver task: it holds gVisor, and is itself
// the Sentry of each sandbox that it starts. The image of the worker is built from it.
package main

import (
	"os"

	"github.com/pxhost/pxhost/infra/worker/command"
	"github.com/pxhost/pxhost/infra/worker/prepare"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/task"
)

func main() {
	if task.IsSentry() {
		task.Sentry()
	}
	os.Exit(command.Main(os.Args[1:], prepare.Module{}, map[string]command.Driver{
		"task": func(c command.Config, state string) (sandbox.Driver, error) {
			return task.New(c.Image, state, c.Jail, task.Version())
		},
	}))
}
