// Package runs wires what a Lambda needs to start, carry out and read Runs.
package runs

import (
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awss3"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/store/blob"
	"github.com/pxhost/pxhost/shared/store/execution"
)

// New returns the Runs, and the Batches of them, over the environment's tables and
// state machines. open is
// calculation.Open where Runs are started or carried out, and nil where they are
// only read, prepared or cancelled: then no formula is linked.
func New(env *boot.Env, p projects.Parts, open run.Open) *run.Runs {
	client := awssfn.New(env)
	r := &run.Runs{
		Objects: p.Store, Catalog: p.Catalog, Policy: p.Store, Store: p.Store,
		Executions: execution.Executions{Client: client, Machine: env.Need("PX_FLOW_RUN")},
		Open:       open, Now: time.Now, NewRef: projects.NewRef,
		Patience: env.Duration("PX_RUN_PATIENCE", time.Second, time.Hour),
	}
	r.Batch = &run.Batches{
		Runs: r, Store: p.Store, Lines: blob.Store{Client: awss3.New(env), Bucket: env.Need("PX_BUCKET")},
		Rounds: execution.Rounds{Client: client, Machine: env.Need("PX_FLOW_BATCH")},
	}
	return r
}
