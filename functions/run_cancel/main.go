// Command run_cancel is the Lambda of the tool run_cancel.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	runcancel "github.com/pxhost/pxhost/shared/tool/run_cancel"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	r := runs.Ending(env, p, jobs.Ending(env, p))
	boot.Check(env.Err())
	boot.Start(boot.Tool(runcancel.New(p.Frame(), r, r.Batch)))
}
