package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pxhost/pxhost/infra/worker/prepare"
)

// Parts prepares a real runsc and a rootfs, once a machine. Where gVisor or a python3
// is not to be had a test skips; CI has both, so that there it fails.
func Parts(t testing.TB) prepare.Parts {
	t.Helper()
	cache := os.Getenv("PX_CACHE")
	if cache == "" {
		var err error
		if cache, err = prepare.DefaultCache(); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := prepare.All(t.Context(), cache, Module(t), "python3", func(line string) { t.Log(line) })
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no sandbox: %v", err)
		}
		t.Skipf("no sandbox on this machine: %v", err)
	}
	return parts
}

// Module is the module that pins gVisor: this one.
func Module(t testing.TB) prepare.Module {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(out))
	mod, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(filepath.Dir(name), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	return prepare.Module{Mod: mod, Sum: sum}
}
