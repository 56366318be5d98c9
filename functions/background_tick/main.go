// Command background_tick is the Lambda of the one-minute rule: it takes the next
// step of everything that is due.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	"github.com/pxhost/pxhost/shared/run/task"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	queue := jobs.New(env, p)
	h := plugins.New(env)
	t := task.Tasks{Runs: runs.Ending(env, p, queue), Queue: queue, Plugins: h.Minute()}
	boot.Check(env.Err())
	boot.Start(boot.Handle(t.Tick))
}
