// Command legacy_proxy is the Lambda between a legacy cohort and the isolated endpoint
// that still speaks to it (L3). It is deployed only where a cohort remains.
package main

import (
	"os"
	"strings"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/isolated"
	"github.com/pxhost/pxhost/shared/identity"
	"github.com/pxhost/pxhost/shared/wire/legacy"
)

func main() {
	env := boot.NewEnv(os.LookupEnv)
	accept := identity.Config{Issuer: env.Need("PX_ISSUER"), Audience: env.Need("PX_AUDIENCE"), KeysURL: env.Get("PX_KEYS_URL")}
	call := isolated.New(env)
	boot.Check(env.Err())
	boot.Start(legacy.New(legacy.Config{
		Verifier: boot.Must(identity.New(accept)),
		Call:     call,
		Cohort:   strings.Fields(env.Get("PX_LEGACY_COHORT")),
		Log:      boot.Logger(),
	}))
}
