//go:build linux

package rootless

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

func TestMain(m *testing.M) {
	if err := sandbox.Own(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func driver(t testing.TB) sandbox.Driver {
	t.Helper()
	parts := sandboxtest.Parts(t)
	d, err := New(parts.Runsc, parts.Rootfs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFunctionsRun(t *testing.T) { sandboxtest.Honest(t, driver(t)) }

// covers: X5
func TestHostileFunctionsEndByName(t *testing.T) { sandboxtest.Hostile(t, driver(t)) }

// covers: A8, X5
func TestEntrypointsOfPackagesRun(t *testing.T) { sandboxtest.Entrypoints(t, driver(t)) }

// What ended while it was warm (the machine was short of memory, say) must not cost a
// Function that did nothing.
func TestASandboxThatEndedWhileItWasWarmIsNotGiven(t *testing.T) {
	pool := sandbox.NewPool(ending{driver(t), new(atomic.Int64)}, 2)
	defer pool.Close()
	spec, text := sandboxtest.Spec(t, sandboxtest.Limits, sandboxtest.Function{Source: sandboxtest.Def("", "    return {'y': 7}"), Results: sandboxtest.Y})
	result, err := sandbox.Run(t.Context(), pool, spec, text)
	if err != nil || result.Results[0].Error != nil {
		t.Errorf("%v %v", result.Results, err)
	}
}

// ending is a driver whose first sandbox ends as soon as it is ready.
type ending struct {
	sandbox.Driver
	started *atomic.Int64
}

func (e ending) Start(ctx context.Context) (sandbox.Process, error) {
	p, err := e.Driver.Start(ctx)
	if err == nil && e.started.Add(1) == 1 {
		return brief{p.(*process)}, nil
	}
	return p, err
}

type brief struct{ *process }

// Confined is asked right before a job is sent.
func (b brief) Confined() error {
	if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
		return nil // it has ended
	}
	for range 1000 {
		if b.process.Confined() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return b.process.Confined()
}
