// Command run_finish is the Lambda that ends a Run. The state machine
// flow_run invokes it.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	"github.com/pxhost/pxhost/shared/run/task"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	t := task.Tasks{Runs: runs.New(env, projects.New(env))}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Finish))
}
