// Command pxflow_plan_change is the Lambda of the tool pxflow_plan_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	pxflowplanchange "github.com/pxhost/pxhost/shared/tool/pxflow_plan_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	python := pythonsource.New(env)
	catalog := components.Planned(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowplanchange.New(p.Frame(), p.Reader(), p.Planner(), p.Handles(), python, catalog)))
}
