package local

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/pxhost/pxhost/infra/local/awsapi"
	"github.com/pxhost/pxhost/infra/local/ecs"
)

// startTasks makes ready to run the template's tasks, which are processes of the
// worker's program here. Whether that can run is found out beside everything else, and
// said in one line; what it needs is prepared meanwhile.
func (h *host) startTasks(ctx context.Context, run Running, services map[string]http.Handler) {
	if len(run.Template.Tasks) == 0 {
		return
	}
	credentials := map[string]awsapi.Credential{}
	opt := ecs.Options{
		Region: Region, AccountID: AccountID, Log: h.log,
		Passes: func(ctx context.Context, role string) bool {
			return h.allow(awsapi.Principal(ctx), "iam:PassRole", role, nil)
		},
		// A task acts as its role. Keys of a task are made at each start of the host,
		// as those of functions are.
		Environment: func(t ecs.Task) map[string]string {
			c := credentials[t.ARN]
			return map[string]string{
				"AWS_ACCESS_KEY_ID": c.AccessKeyID, "AWS_SECRET_ACCESS_KEY": c.Secret, "AWS_SESSION_TOKEN": c.Token,
				"AWS_ENDPOINT_URL": run.AWSEndpoint, "AWS_REGION": Region,
			}
		},
	}
	for _, c := range run.Template.Clusters {
		opt.Clusters = append(opt.Clusters, c.Name)
	}
	for _, t := range run.Template.Tasks {
		opt.Tasks = append(opt.Tasks, ecs.Task{ARN: t.ARN, Role: t.Role, ExecutionRole: t.ExecutionRole, Container: t.Container, Environment: t.Environment})
		c := awsapi.Credential{AccessKeyID: "PXTK" + rand.Text()[:16], Secret: rand.Text() + rand.Text(), Token: rand.Text(), Principal: t.Role}
		h.keys[c.AccessKeyID] = c
		credentials[t.ARN] = c
	}
	ctx, stop := context.WithCancel(ctx)
	program, done := ecs.Prepare(ctx, h.cfg.Worker, h.cfg.Cache, func(text string) { h.sayf("%s", text) })
	opt.Program = program
	tasks := ecs.Open(opt)
	h.onClose(func() error {
		stop()
		<-done
		return tasks.Close()
	})
	services["ecs"] = tasks
}
