// Command review_api is the Lambda of what people and trusted hosts use and an AI
// does not: reviews of plans and costly Runs, links to large values, and drafts.
package main

import (
	"os"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/boot/resources"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/review/door"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
	p := projects.New(env)
	follow := resources.New(env, p)
	boot.Check(env.Err())
	boot.Start(door.New(boot.Must(identity.New(accept)), p.Frame(), p.Reviews(), follow, p.Drafts()))
}
