// Command pxflow_search is the Lambda of the tool pxflow_search.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	pxflowsearch "github.com/pxhost/pxhost/shared/tool/pxflow_search"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowsearch.New(p.Frame(), p.Reader())))
}
