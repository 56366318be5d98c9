// Command project_search is the Lambda of the tool project_search.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	projectsearch "github.com/pxhost/pxhost/shared/tool/project_search"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(projectsearch.New(p.Frame(), p.Projects(), p.Store)))
}
