// Command console is the Lambda of a person's browser: pages to review and approve what
// an AI proposed, and to see Runs and Reports.
package main

import (
	"os"
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awslambda"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/resources"
	"github.com/pxhost/pxhost/shared/console"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/wire/toolcall"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
	p := projects.New(env)
	r := p.ReadRuns()
	follow := resources.New(env, p)
	call := toolcall.New(awslambda.New(env), env.Need("PX_TOOL_PREFIX"))
	boot.Check(env.Err())
	boot.Start(console.New(console.Config{
		Issuer: accept.Issuer, ClientID: env.Get("PX_CONSOLE_CLIENT"), Verifier: boot.Must(identity.New(accept)),
		Sessions: p.Sessions(), Reviews: p.Reviews(), Queue: p.Queue(),
		Runs: r, BatchResults: r.Batch, RunList: p.RunList(), Snapshots: p.Reader(), Cursors: p.Frame().Cursors, Resources: follow, Call: call, Log: boot.Logger(), Now: time.Now,
	}))
}
