// Command function_plan_change is the Lambda of the tool function_plan_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	"github.com/pxhost/pxhost/shared/function/planning"
	functionplanchange "github.com/pxhost/pxhost/shared/tool/function_plan_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	handle := functionplanchange.New(p.Frame(), p.Reader(), p.Planner(), planning.New(pythonsource.New(env), p.Results()))
	boot.Check(env.Err())
	boot.Start(boot.Tool(handle))
}
