// Command component_describe is the Lambda of the tool component_describe.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	componentdescribe "github.com/pxhost/pxhost/shared/tool/component_describe"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	catalog := components.Planned(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(componentdescribe.New(p.Frame(), p.Reader(), catalog)))
}
