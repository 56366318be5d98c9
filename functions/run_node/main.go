// Command run_node is the Lambda that evaluates one stage of a Run, or hands it to the
// sandbox and collects what came of it. The state machine
// flow_run invokes it.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	"github.com/pxhost/pxhost/shared/run/calculation"
	"github.com/pxhost/pxhost/shared/run/task"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	t := task.Tasks{Runs: runs.Evaluating(env, p, calculation.Opener, jobs.New(env, p))}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Node))
}
