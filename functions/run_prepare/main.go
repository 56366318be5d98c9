// Command run_prepare is the Lambda that claims a Run for its execution, and creates it
// first where it is of a Batch. The state machines flow_run and flow_batch invoke it.
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
	r := runs.New(env, projects.New(env))
	t := task.Tasks{Runs: r, Batches: r.Batch}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Prepare))
}
