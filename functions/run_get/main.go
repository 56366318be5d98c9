// Command run_get is the Lambda of the tool run_get.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	runget "github.com/pxhost/pxhost/shared/tool/run_get"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	r := runs.New(env, p)
	boot.Check(env.Err())
	boot.Start(boot.Tool(runget.New(p.Frame(), r, r.Batch)))
}
