// Package runs wires what a Lambda needs to start, carry out and read Runs.
package runs

import (
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/execution"
)

// New returns the Runs over the environment's tables and state machine. open is
// calculation.Open where Runs are started or carried out, and nil where they are
// only read, prepared or cancelled: then no formula is linked.
func New(env *boot.Env, p projects.Parts, open run.Open) *run.Runs {
	return &run.Runs{
		Objects: p.Store, Catalog: p.Catalog, Policy: p.Store, Store: p.Store,
		Executions: execution.Executions{Client: awssfn.New(env), Machine: env.Need("PX_FLOW_RUN")},
		Open:       open, Now: time.Now, NewRef: projects.NewRef,
		Patience: env.Duration("PX_RUN_PATIENCE", time.Second, time.Hour),
	}
}
