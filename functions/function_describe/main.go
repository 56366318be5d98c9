// Command function_describe is the Lambda of the tool function_describe.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	functiondescribe "github.com/pxhost/pxhost/shared/tool/function_describe"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	handle := functiondescribe.New(p.Frame(), p.Reader(), p.Links())
	boot.Check(env.Err())
	boot.Start(boot.Tool(handle))
}
