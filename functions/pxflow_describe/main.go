// Command pxflow_describe is the Lambda of the tool pxflow_describe.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	pxflowdescribe "github.com/pxhost/pxhost/shared/tool/pxflow_describe"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	catalog := components.Planned(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowdescribe.New(p.Frame(), p.Reader(), p.Links(), p.Handles(), catalog)))
}
