// Command report_apply_change is the Lambda of the tool report_apply_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	reportapplychange "github.com/pxhost/pxhost/shared/tool/report_apply_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(reportapplychange.New(p.Frame(), p.Applier(reportapplychange.Recheck(p.Reader())))))
}
