// Command component_search is the Lambda of the tool component_search.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	componentsearch "github.com/pxhost/pxhost/shared/tool/component_search"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	catalog := components.Planned(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(componentsearch.New(p.Frame(), p.Reader(), catalog)))
}
