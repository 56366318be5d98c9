// Command report_search is the Lambda of the tool report_search.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	reportsearch "github.com/pxhost/pxhost/shared/tool/report_search"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(reportsearch.New(p.Frame(), p.Reader())))
}
