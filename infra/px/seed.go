package main

import (
	"context"
	"fmt"

	"github.com/pxhost/pxhost/infra/sample"
)

var seedCommand = command{
	name:    "seed",
	summary: "put the sample project into an installation",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("seed", "[flags]\n\npx local does it at its first start. Where the sample is already, nothing changes.")
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		parts, issuer, err := env.operator()
		if err != nil {
			return err
		}
		seeded, err := sample.Seed(ctx, parts, issuer)
		if err != nil {
			return err
		}
		if !seeded {
			_, err = fmt.Fprintf(env.out, "%s is there already; nothing changed\n", sample.Project)
			return err
		}
		_, err = fmt.Fprintf(env.out, "%s is ready: px call project_search '{\"scope\": {\"kind\": \"principal\"}}'\n", sample.Project)
		return err
	},
}
