// Command px-worker runs Functions in sandboxes: it takes jobs from the broker of an
// installation, one after another, until there are none. It is started as a process
// by the local host and as an ECS task on AWS; the task's image has a variant with a
// second driver, in the folder fargate.
//
//	px-worker                     work, configured by the environment (package command)
//	px-worker prepare --cache DIR build runsc and a rootfs, with progress
//	px-worker probe               say whether this machine isolates
package main

import (
	"os"

	"github.com/pxhost/pxhost/infra/worker/command"
)

func main() { os.Exit(command.Main(os.Args[1:], module(), nil)) }
