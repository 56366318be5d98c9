// Command function_validate_change is the Lambda of the tool function_validate_change.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/pythonsource"
	"github.com/pxhost/pxhost/shared/function/planning"
	functionvalidatechange "github.com/pxhost/pxhost/shared/tool/function_validate_change"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	handle := functionvalidatechange.New(p.Frame(), p.Reader(), planning.New(pythonsource.New(env), nil))
	boot.Check(env.Err())
	boot.Start(boot.Tool(handle))
}
