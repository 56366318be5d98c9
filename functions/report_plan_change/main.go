// Command report_plan_change is the Lambda of the tool report_plan_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	reportplanchange "github.com/pxhost/pxhost/shared/tool/report_plan_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(reportplanchange.New(p.Frame(), p.Reader(), p.Planner(), p.Handles(), p.Results())))
}
