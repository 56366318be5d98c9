// Package plugins wires what a Lambda needs of the capability host: its rows, the
// objects of its workspaces, what is installed in them, and the desk that takes
// requests or the runner that performs them with one adapter.
package plugins

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/go-json-experiment/json"

	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awsdynamodb"
	"github.com/pxhost/pxhost/shared/boot/awss3"
	"github.com/pxhost/pxhost/shared/boot/invoke"
	"github.com/pxhost/pxhost/shared/capability"
	"github.com/pxhost/pxhost/shared/capability/execution"
	"github.com/pxhost/pxhost/shared/capability/host"
	"github.com/pxhost/pxhost/shared/capability/installation"
	"github.com/pxhost/pxhost/shared/capability/safeschema"
	"github.com/pxhost/pxhost/shared/cursor"
	"github.com/pxhost/pxhost/shared/history"
	"github.com/pxhost/pxhost/shared/outbound"
	"github.com/pxhost/pxhost/shared/store/blob"
	"github.com/pxhost/pxhost/shared/store/dynamo"
	"github.com/pxhost/pxhost/shared/tool"
)

// Patience is how long a caller waits for an execution. What takes longer goes on
// without him, and the answer says so. It leaves room in the 30 seconds that API
// Gateway waits.
const Patience = 20 * time.Second

// cursorLife is how long a cut answer can be continued.
const cursorLife = 24 * time.Hour

// Plugins are the services of one process.
type Plugins struct {
	env     *boot.Env
	store   *dynamo.Store
	reader  *execution.Reader
	schemas *safeschema.Cache
}

// New returns the services over the table and the bucket that the environment names.
func New(env *boot.Env) *Plugins {
	store := dynamo.New(dynamo.Config{
		Client: awsdynamodb.New(env),
		Tables: dynamo.Tables{Objects: env.Need("PX_TABLE_OBJECTS"), Host: env.Need("PX_TABLE_HOST")},
		Blobs:  blob.Store{Client: awss3.New(env)},
		Now:    time.Now,
	})
	return &Plugins{env, store, &execution.Reader{Store: store, Objects: store}, &safeschema.Cache{}}
}

// Store keeps the rows of the capability host.
func (p *Plugins) Store() host.Store { return p.store }

// Objects keeps packages, arguments and results.
func (p *Plugins) Objects() history.Objects { return p.store }

// Reader reads what is installed, as fresh as the generation of its workspace.
func (p *Plugins) Reader() *execution.Reader { return p.reader }

// Schemas are the schemas that were compiled in this process.
func (p *Plugins) Schemas() *safeschema.Cache { return p.schemas }

// Frame is what stands around every route.
func (p *Plugins) Frame() tool.Frame {
	return tool.Frame{Cursors: cursor.New(p.store, cursorLife, time.Now), Log: boot.Logger()}
}

// Desk takes requests, and has them performed by the adapters' own functions.
func (p *Plugins) Desk() *execution.Desk {
	return p.desk(adapters(p.env))
}

func (p *Plugins) desk(invoke execution.Invoker) *execution.Desk {
	return &execution.Desk{Store: p.store, Objects: p.store, Workspaces: p.reader, Schemas: p.schemas, Invoke: invoke, Now: time.Now, Patience: Patience}
}

// Manager changes what is installed.
func (p *Plugins) Manager() *installation.Manager {
	return &installation.Manager{Store: p.store, Objects: p.store, Workspaces: p.reader, Schemas: p.schemas, CheckURL: outbound.CheckURL, Now: time.Now}
}

// Runner performs executions with an adapter.
func (p *Plugins) Runner(adapter capability.Adapter) *execution.Runner {
	return &execution.Runner{Store: p.store, Objects: p.store, Workspaces: p.reader, Schemas: p.schemas, Adapter: adapter, Now: time.Now}
}

// An Event is the payload of an adapter's function. Its answer is an empty object:
// what came of the execution is in its record.
type Event struct {
	ExecutionID string `json:"executionId"`
}

// Serve is the handler of an adapter's function.
func (p *Plugins) Serve(adapter capability.Adapter) lambda.Handler { return serve(p.Runner(adapter)) }

func serve(runner *execution.Runner) lambda.Handler {
	return boot.Handle(func(ctx context.Context, e Event) (struct{}, error) {
		return struct{}{}, runner.Run(ctx, e.ExecutionID)
	})
}

// functions are the adapters' functions, by adapter. An installation may lack one.
type functions struct {
	client *invoke.Client
	names  map[capability.AdapterName]string
}

// adapters reads the names of the functions: that of text_template is in
// PX_ADAPTER_TEXT_TEMPLATE.
func adapters(env *boot.Env) functions {
	f := functions{invoke.New(env), map[capability.AdapterName]string{}}
	for _, name := range capability.Adapters {
		if function := env.Get("PX_ADAPTER_" + strings.ToUpper(string(name))); function != "" {
			f.names[name] = function
		}
	}
	return f
}

// of is the function of an adapter, and the event of an execution.
func (f functions) of(adapter capability.AdapterName, executionID string) (name string, payload []byte, err error) {
	name, ok := f.names[adapter]
	if !ok {
		return "", nil, fmt.Errorf("plugins: this installation has no function for %s: %w", adapter, execution.ErrGone)
	}
	payload, err = json.Marshal(Event{executionID})
	return name, payload, err
}

// Invoke implements execution.Invoker. The function goes on when the caller leaves.
func (f functions) Invoke(ctx context.Context, adapter capability.AdapterName, executionID string) error {
	name, payload, err := f.of(adapter, executionID)
	if err != nil {
		return err
	}
	answer, err := f.client.Invoke(ctx, name, payload)
	if err != nil {
		return fmt.Errorf("plugins: %s: %w", name, err)
	}
	if answer.Failed { // its own log says why
		return fmt.Errorf("plugins: %s failed: %w", name, execution.ErrGone)
	}
	return nil
}

var _ execution.Invoker = functions{}
