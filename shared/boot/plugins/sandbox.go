package plugins

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/pxhost/pxhost/shared/adapter/sandboxpython"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/sandbox"
)

// SandboxPython is the handler of sandbox_python, whose work the queue of jobs does.
func (p *Plugins) SandboxPython(jobs *sandbox.Jobs) lambda.Handler { return serve(p.sandboxed(jobs)) }

// Completed goes on with executions whose jobs workers complete.
func (p *Plugins) Completed(jobs *sandbox.Jobs) sandbox.Executions {
	return sandboxpython.Completed{Runner: p.sandboxed(jobs)}
}

func (p *Plugins) sandboxed(jobs *sandbox.Jobs) *execution.Runner {
	runner := p.Runner(nil)
	runner.Queue = sandboxpython.New(jobs, p.store, p.store)
	return runner
}
