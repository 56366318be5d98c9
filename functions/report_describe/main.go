// Command report_describe is the Lambda of the tool report_describe.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	reportdescribe "github.com/pxhost/pxhost/shared/tool/report_describe"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(reportdescribe.New(p.Frame(), p.Reader(), p.Links(), p.Handles(), p.Results())))
}
