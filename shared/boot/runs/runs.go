// Package runs wires what a Lambda needs to start, carry out and read Runs.
package runs

import (
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awss3"
	"github.com/pxhost/pxhost/shared/boot/awssfn"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/run"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/store/blob"
	"github.com/pxhost/pxhost/shared/store/execution"
)

// New returns the Runs over the environment's tables and state machines, to start
// and read them. No formula is linked.
func New(env *boot.Env, p projects.Parts) *run.Runs {
	client := awssfn.New(env)
	r := base(env, p)
	r.Executions = execution.Executions{Client: client, Machine: env.Need("PX_FLOW_RUN")}
	r.Batch.Lines = blob.Store{Client: awss3.New(env)}
	r.Batch.Rounds = execution.Rounds{Client: client, Machine: env.Need("PX_FLOW_BATCH")}
	return r
}

// Evaluating returns the Runs that carry out stages and do nothing else: it knows no
// state machine but by the tokens that jobs answer.
func Evaluating(env *boot.Env, p projects.Parts, opener func(history.Objects) run.Open, jobs *sandbox.Jobs) *run.Runs {
	r := base(env, p)
	r.Open, r.Warm, r.Sandbox, r.Tokens = opener(p.Store), &run.Warm{}, jobs, jobs.Tokens
	return r
}

// Ending returns the Runs of New, which take their jobs with them where they end.
func Ending(env *boot.Env, p projects.Parts, jobs *sandbox.Jobs) *run.Runs {
	r := New(env, p)
	r.Sandbox = jobs
	return r
}

func base(env *boot.Env, p projects.Parts) *run.Runs {
	r := &run.Runs{
		Objects: p.Store, Catalog: p.Catalog, Policy: p.Store, Store: p.Store, Now: time.Now, NewRef: projects.NewRef,
		Patience: env.Duration("PX_RUN_PATIENCE", time.Second, time.Hour),
		AskLife:  env.Duration("PX_ASK_LIFE", time.Second, projects.MaxPlanLife),
	}
	r.Batch = &run.Batches{Runs: r, Store: p.Store}
	return r
}
