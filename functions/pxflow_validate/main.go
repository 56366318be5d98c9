// Command pxflow_validate is the Lambda of the tool pxflow_validate.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	pxflowvalidate "github.com/pxhost/pxhost/shared/tool/pxflow_validate"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	python := pythonsource.New(env)
	catalog := components.Planned(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowvalidate.New(p.Frame(), p.Reader(), p.Handles(), python, catalog)))
}
