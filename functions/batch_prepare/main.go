// Command batch_prepare is the Lambda that claims a round of a Batch for its execution. The state machine
// flow_batch invokes it.
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
	t := task.Tasks{Batches: runs.New(env, projects.New(env)).Batch}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.PrepareBatch))
}
