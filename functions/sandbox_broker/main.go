// Command sandbox_broker is the Lambda that workers call, and the only thing that they
// may call.
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
	broker := jobs.Brokered(env, projects.New(env))
	broker.Executions = h.Completed(broker.Jobs)
	boot.Check(env.Err())
	boot.Start(boot.Handle(broker.Handle))
}
