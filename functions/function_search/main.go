// Command function_search is the Lambda of the tool function_search.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	functionsearch "github.com/pxhost/pxhost/shared/tool/function_search"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	handle := functionsearch.New(p.Frame(), p.Reader())
	boot.Check(env.Err())
	boot.Start(boot.Tool(handle))
}
