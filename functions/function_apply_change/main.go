// Command function_apply_change is the Lambda of the tool function_apply_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	"github.com/pxhost/pxhost/shared/function/planning"
	functionapplychange "github.com/pxhost/pxhost/shared/tool/function_apply_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	applier := p.Applier(planning.Recheck(p.Reader(), pythonsource.New(env)))
	applier.Appeared = planning.Appeared(p.Reader())
	handle := functionapplychange.New(p.Frame(), applier)
	boot.Check(env.Err())
	boot.Start(boot.Tool(handle))
}
