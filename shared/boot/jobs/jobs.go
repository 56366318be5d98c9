// Package jobs wires what a Lambda needs of the queue of Python jobs: each
// constructor no more than its caller does, so that each may do no more.
package jobs

import (
	"strings"
	"time"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsjson"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/sandbox"
	"github.com/pxhost/pxhost/shared/store/capacity"
	"github.com/pxhost/pxhost/shared/store/execution"
)

// New returns the Jobs that are put into the queue, collected and looked after: for
// run_node and the minute tick. Without PX_SANDBOX_TASK the installation has no
// sandbox, and its jobs fail as unavailable.
func New(env *boot.Env, p projects.Parts) *sandbox.Jobs {
	return queued(env, p, Ending(env, p))
}

// Entrypoints returns the Jobs of plugins, which are put into the queue and looked at:
// for adapter_sandbox_python. No state machine waits for them.
func Entrypoints(env *boot.Env, p projects.Parts) *sandbox.Jobs {
	return queued(env, p, base(env, p))
}

func queued(env *boot.Env, p projects.Parts, j *sandbox.Jobs) *sandbox.Jobs {
	j.Keys = p.Store
	j.MaxWorkers = env.Whole("PX_SANDBOX_WORKERS", 1, 100)
	if env.Get("PX_SANDBOX_TASK") != "" {
		j.Starter = capacity.Tasks{
			Client: awsjson.ECS(env), Cluster: env.Need("PX_SANDBOX_CLUSTER"), TaskDefinition: env.Need("PX_SANDBOX_TASK"),
			Subnets: strings.Split(env.Need("PX_SANDBOX_SUBNETS"), ","), SecurityGroup: env.Need("PX_SANDBOX_GROUP"),
			Provider: env.Get("PX_SANDBOX_PROVIDER"), PublicIP: env.Get("PX_SANDBOX_PUBLIC_IP") == "true",
		}
	}
	return j
}

// Brokered returns what workers call.
func Brokered(env *boot.Env, p projects.Parts) sandbox.Broker {
	j := Ending(env, p)
	j.MaxWorkers = env.Whole("PX_SANDBOX_WORKERS", 1, 100)
	return sandbox.Broker{Jobs: j}
}

// Ending returns Jobs that are ended and not begun: for run_cancel.
func Ending(env *boot.Env, p projects.Parts) *sandbox.Jobs {
	j := base(env, p)
	j.Tokens = execution.Tokens{Client: awsjson.SFN(env)}
	return j
}

func base(env *boot.Env, p projects.Parts) *sandbox.Jobs {
	return &sandbox.Jobs{Store: p.Store, Objects: p.Store, Now: time.Now, NewRef: projects.NewRef, Patience: env.Duration("PX_RUN_PATIENCE", time.Second, time.Hour)}
}
