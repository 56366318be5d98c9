// Command run_finish is the Lambda that ends a Run. The state machine
// flow_run invokes it.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	"github.com/pxhost/pxhost/shared/run/task"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	t := task.Tasks{Runs: runs.Ending(env, p, jobs.Ending(env, p))}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Finish))
}
