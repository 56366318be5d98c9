package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/failpoint"
	"github.com/pxhost/pxhost/infra/sample"
)

var localCommand = command{
	name:    "local",
	summary: "run the whole system on this machine",
	run: func(ctx context.Context, env *environment, args []string) error {
		fs := env.flags("local", "[flags]")
		cfg := local.Config{Out: env.out, Parameters: map[string]string{}}
		fs.StringVar(&cfg.Addr, "addr", "127.0.0.1:8787", "loopback `address` to listen on; port 0 takes any")
		fs.StringVar(&cfg.Template, "template", "template.yaml", "the SAM template, a `file`")
		fs.StringVar(&cfg.ReadyFile, "ready-file", "", "`file` that is written when the host can answer")
		fs.BoolVar(&cfg.ServicesOnly, "services-only", false, "emulated AWS services and issuer only, no functions")
		fs.Func("parameter", "`Name=Value` of a parameter of the template; may be repeated", func(text string) error {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" || name == local.IssuerParameter {
				return errors.New("it is Name=Value, and " + local.IssuerParameter + " is the host's own")
			}
			cfg.Parameters[name] = value
			return nil
		})
		fs.DurationVar(&cfg.Minute, "minute", time.Minute, "how long a minute of the template's schedules takes; a shorter one is for tests")
		fs.StringVar(&cfg.Worker, "worker-program", ".build/px-worker", "the `program` that runs Python; empty: no Python")
		fs.StringVar(&cfg.Cache, "cache", defaultCache(), "`folder` where it keeps what takes long to prepare")
		failure := fs.String("failpoint", "", "for tests: die as by kill -9 at a `point`, or name:n at its n-th hit (infra/local/failpoint)")
		if err := env.parse(fs, args, false); err != nil {
			return err
		}
		if err := failpoint.Arm(*failure); err != nil {
			return usagef("failpoint: %v", err)
		}
		// What is started elsewhere finds both.
		for _, path := range []*string{&cfg.Worker, &cfg.Cache} {
			if *path == "" {
				continue
			}
			var err error
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
		if cfg.Minute < 10*time.Millisecond || cfg.Minute > time.Hour {
			return usagef("minute: it takes from 10ms to 1h")
		}
		cfg.State = env.state
		if !cfg.ServicesOnly {
			cfg.Ready = func(ctx context.Context, run local.Running) error {
				host := run.Host()
				if host.Environment["PX_TABLE_HEADS"] == "" {
					fmt.Fprintln(env.out, "px local: no sample: the template declares none of the tables of a project")
					return nil
				}
				parts, err := localParts(host, run.Operator)
				if err != nil {
					return err
				}
				seeded, err := sample.Seed(ctx, parts, run.URL)
				if seeded {
					fmt.Fprintf(env.out, "px local: seeded the sample project %s\n", sample.Project)
				}
				return err
			}
		}
		return local.Run(ctx, cfg)
	},
}

// defaultCache is one folder a person, for all checkouts: what is in it is named by
// what it is made of.
func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(".build", "cache")
	}
	return filepath.Join(dir, "pxhost")
}
