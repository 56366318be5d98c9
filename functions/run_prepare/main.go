// Command run_prepare is the Lambda that claims a Run for its execution. The state machine
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
	t := task.Tasks{Runs: runs.New(env, projects.New(env), nil)}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Prepare))
}
