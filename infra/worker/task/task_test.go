//go:build linux

package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pxhost/pxhost/infra/worker/probe"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
	"github.com/pxhost/pxhost/infra/worker/sandboxtest"
)

// inside says to this binary that it runs in the emulated container.
const inside = "PX_TEST_INSIDE"

func TestMain(m *testing.M) {
	if IsSentry() {
		Sentry()
	}
	if os.Getenv(inside) != "" {
		if err := sandbox.Own(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// ---- on this machine: a container like one of Fargate, with this binary in it ----

type object = map[string]any

// dockerCaps are the capabilities that Docker and Fargate give by default.
var dockerCaps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}

// docker reads Docker's profile as Docker does for those capabilities.
func docker(t *testing.T) object {
	t.Helper()
	text, err := os.ReadFile("testdata/seccomp-docker-default.json")
	if err != nil {
		t.Fatal(err)
	}
	type condition struct {
		Caps      []string `json:"caps"`
		Arches    []string `json:"arches"`
		MinKernel string   `json:"minKernel"`
	}
	var profile struct {
		DefaultAction   string `json:"defaultAction"`
		DefaultErrnoRet *int   `json:"defaultErrnoRet"`
		Syscalls        []struct {
			Names    []string          `json:"names"`
			Action   string            `json:"action"`
			ErrnoRet *int              `json:"errnoRet"`
			Args     []json.RawMessage `json:"args"`
			Includes condition         `json:"includes"`
			Excludes condition         `json:"excludes"`
		} `json:"syscalls"`
	}
	if err := json.Unmarshal(text, &profile); err != nil {
		t.Fatal(err)
	}
	arch := map[string]string{"amd64": "amd64", "arm64": "arm64"}[runtime.GOARCH]
	var syscalls []object
	for _, s := range profile.Syscalls {
		lacks := func(want []string) bool {
			return slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(dockerCaps, c) })
		}
		has := func(want []string) bool {
			return slices.ContainsFunc(want, func(c string) bool { return slices.Contains(dockerCaps, c) })
		}
		if lacks(s.Includes.Caps) || has(s.Excludes.Caps) ||
			len(s.Includes.Arches) > 0 && !slices.Contains(s.Includes.Arches, arch) || slices.Contains(s.Excludes.Arches, arch) {
			continue
		}
		rule := object{"names": s.Names, "action": s.Action}
		if s.ErrnoRet != nil {
			rule["errnoRet"] = *s.ErrnoRet
		}
		if len(s.Args) > 0 {
			rule["args"] = s.Args
		}
		syscalls = append(syscalls, rule)
	}
	out := object{"defaultAction": profile.DefaultAction, "syscalls": syscalls,
		"architectures": []string{map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}[runtime.GOARCH]}}
	if profile.DefaultErrnoRet != nil {
		out["defaultErrnoRet"] = *profile.DefaultErrnoRet
	}
	return out
}

// deadly kills who asks for a namespace or a mount, and allows the rest: the Sentry
// must not even try.
func deadly() object {
	const newNamespaces = 0x7E020000 // CLONE_NEW* in the flags of clone
	var syscalls []object
	for bit := 1; bit <= 0x40000000; bit <<= 1 {
		if newNamespaces&bit != 0 {
			syscalls = append(syscalls, object{"names": []string{"clone"}, "action": "SCMP_ACT_KILL_PROCESS",
				"args": []object{{"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}}})
		}
	}
	return object{"defaultAction": "SCMP_ACT_ALLOW", "architectures": docker64(),
		"syscalls": append(syscalls, object{"names": []string{"unshare", "setns", "mount", "pivot_root", "umount2"}, "action": "SCMP_ACT_KILL_PROCESS"},
			// Go and glibc take clone then.
			object{"names": []string{"clone3"}, "action": "SCMP_ACT_ERRNO", "errnoRet": 38})}
}

func docker64() []string {
	return []string{map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}[runtime.GOARCH]}
}

// need skips, or in CI fails, where a program of Debian is not installed.
func need(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is needed", name)
			}
			t.Skipf("%s is not installed: the emulation of a task needs runc and erofs-utils of Debian", name)
		}
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("root is needed")
		}
		t.Skip("the emulation of a task needs root, for runc and for uids of its own")
	}
}

// container runs tests of this binary, by name, in an emulated task.
func container(t *testing.T, seccomp object, tests string, extra ...string) {
	t.Helper()
	need(t, "runc", "mkfs.erofs")
	parts := sandboxtest.Parts(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, sub := range []string{"proc", "dev", "sys", "tmp", "jail", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfs.erofs", "-E", "noinline_data", "-T0", "--all-root", filepath.Join(root, "sandbox.erofs"), parts.Rootfs).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.erofs: %v: %s", err, out)
	}
	// These tests once more, without the C library, which the container has not; with the
	// flags of the runsc that was just built, whose packages are compiled already.
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", filepath.Join(root, "worker"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, out)
	}
	tmpfs := func(at string, more ...string) object {
		return object{"destination": at, "type": "tmpfs", "source": "tmpfs", "options": append([]string{"nosuid", "nodev", "mode=1777"}, more...)}
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2", "hostname": "task",
		"root": object{"path": root, "readonly": true},
		"process": object{
			"cwd":  "/",
			"args": []string{"/worker", "-test.run=" + tests, "-test.v", "-test.timeout=5m"},
			"env":  append([]string{inside + "=1", "PATH=/", "TMPDIR=/jail", "CI=" + os.Getenv("CI"), "PX_SECRET=of-the-task"}, extra...),
			"user": object{"uid": 0, "gid": 0}, "noNewPrivileges": true,
			"capabilities": object{"bounding": dockerCaps, "effective": dockerCaps, "permitted": dockerCaps},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "noexec", "nodev", "ro"}},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755"}}, tmpfs("/tmp", "noexec"), tmpfs("/jail", "exec", "size=512m"),
		},
		"linux": object{
			"namespaces": []object{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}},
			"seccomp":    seccomp,
			"maskedPaths": []string{"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			"resources":     object{"devices": []object{{"allow": false, "access": "rwm"}}},
		},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("px-task-test-%d", os.Getpid())
	state := filepath.Join(dir, "runc")
	ctx, stop := context.WithTimeout(t.Context(), 9*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "runc", "--root", state, "run", "--bundle", dir, id)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		exec.Command("runc", "--root", state, "delete", "--force", id).Run()
	}
	t.Log(out.String())
	if err != nil || !strings.Contains(out.String(), "--- PASS") || strings.Contains(out.String(), "--- SKIP") {
		t.Errorf("in the container: %v", err)
	}
}

// covers: X5
func TestATaskUnderDockersProfileIsolates(t *testing.T) {
	container(t, docker(t), "^TestInside")
}

func TestATaskMakesNoNamespace(t *testing.T) {
	container(t, deadly(), "^(TestInsideIsProbed|TestInsideFunctionsRun)$")
}

// ---- in the container ----

// within runs a test in the container alone: on this machine the tests above start
// one, and look at what came of it.
func within(t *testing.T, test func(t *testing.T, d *Driver)) {
	if os.Getenv(inside) == "" {
		t.Log("it runs in the container of the other tests")
		return
	}
	d, err := New("/sandbox.erofs", t.TempDir(), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	test(t, d)
}

func TestInsideIsProbed(t *testing.T) {
	within(t, func(t *testing.T, d *Driver) {
		for range 10 {
			if _, err := probe.Run(t.Context(), d, t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestInsideFunctionsRun(t *testing.T) {
	within(t, func(t *testing.T, d *Driver) { sandboxtest.Honest(t, d) })
}

// covers: X5
func TestInsideHostileFunctionsEndByName(t *testing.T) {
	within(t, func(t *testing.T, d *Driver) { sandboxtest.Hostile(t, d) })
}

// covers: A8, X5
func TestInsideEntrypointsOfPackagesRun(t *testing.T) {
	within(t, func(t *testing.T, d *Driver) { sandboxtest.Entrypoints(t, d) })
}

// A start may be given up at any moment: it returns soon, and leaves nothing.
func TestInsideAStartThatIsGivenUpLeavesNothing(t *testing.T) {
	within(t, func(t *testing.T, d *Driver) {
		began := time.Now()
		p, err := d.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		whole := time.Since(began)
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		const moments = 120
		for i := range moments {
			ctx, stop := context.WithTimeout(t.Context(), whole*time.Duration(i)/moments)
			p, err := d.Start(ctx)
			stop()
			if err == nil {
				err = p.Kill()
			}
			// A uid is free again when no process has it, and its jail is gone.
			d.mu.Lock()
			left := len(d.used)
			d.mu.Unlock()
			if left > 0 {
				t.Fatalf("given up after %d/%d of a start: %v", i, moments, err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(d.jails, "[0-9]*")); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	})
}
