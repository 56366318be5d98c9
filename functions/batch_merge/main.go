// Command batch_merge is the Lambda that ends a round of a Batch, and merges what its cases resulted in. The state machine
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
	boot.Start(boot.Handle(t.Merge))
}
