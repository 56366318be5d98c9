//go:build linux

package rootless

import (
	"fmt"
	"os"
	"testing"

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
