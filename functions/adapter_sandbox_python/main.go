// Command adapter_sandbox_python is the Lambda that hands capabilities of the adapter
// sandbox_python to the queue of jobs, and goes on with what came of them. No Python runs
// in it.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/jobs"
	"github.com/pxhost/pxhost/shared/boot/plugins"
	"github.com/pxhost/pxhost/shared/boot/projects"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	h := plugins.New(env)
	serve := h.SandboxPython(jobs.Entrypoints(env, projects.New(env)))
	boot.Check(env.Err())
	boot.Start(serve)
}
