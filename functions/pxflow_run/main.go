// Command pxflow_run is the Lambda of the tool pxflow_run.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	"github.com/pxhost/pxhost/shared/run/repetition"
	pxflowrun "github.com/pxhost/pxhost/shared/tool/pxflow_run"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	r := runs.New(env, p)
	r.Batch.Repeat = repetition.New(p.Reader())
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowrun.New(p.Frame(), r, r.Batch)))
}
