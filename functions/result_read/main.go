// Command result_read is the Lambda of the tool result_read.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/runs"
	resultread "github.com/pxhost/pxhost/shared/tool/result_read"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	p := projects.New(env)
	r := runs.New(env, p)
	boot.Check(env.Err())
	boot.Start(boot.Tool(resultread.New(p.Frame(), p.Links(), r, r.Batch)))
}
