// Command pxflow_apply_change is the Lambda of the tool pxflow_apply_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	pxflowapplychange "github.com/pxhost/pxhost/shared/tool/pxflow_apply_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	python := pythonsource.New(env)
	boot.Check(env.Err())
	boot.Start(boot.Tool(pxflowapplychange.New(p.Frame(), p.Applier(pxflowapplychange.Recheck(p.Reader(), python)))))
}
