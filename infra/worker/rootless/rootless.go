//go:build linux

// Package rootless starts sandboxes with a stock runsc: on a laptop, in CI, on EC2.
// It needs Linux with user namespaces that an ordinary user may make; Isolation is
// gVisor's own. It knows nothing of jobs.
package rootless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/pxhost/pxhost/infra/worker/bundle"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// A Driver starts sandboxes.
type Driver struct {
	runsc, root, state string
	version            string
	started            atomic.Int64
}

// flags are those of architecture.md section 6: no network device, no socket or pipe
// of the host, no cgroup (an ordinary user has none), no overlay in a host file.
var flags = []string{"--rootless", "--platform=systrap", "--network=none", "--host-uds=none", "--host-fifo=none",
	"--ignore-cgroups", "--overlay2=none", "--log=/dev/null"}

// New returns a driver that runs the binary runsc over the folder root and keeps its
// state below the folder state, which is this process's alone.
func New(runsc, root, state string) (*Driver, error) {
	out, err := exec.Command(runsc, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("rootless: %s: %w", runsc, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	d := &Driver{runsc: runsc, root: root, state: state, version: strings.TrimPrefix(first, "runsc version ")}
	return d, nil
}

// Name is the driver's name in a result.
func (*Driver) Name() string { return "rootless" }

// GVisor is the version of the runsc.
func (d *Driver) GVisor() string { return d.version }

// Start starts a sandbox whose Python is about to become ready.
func (d *Driver) Start(context.Context) (sandbox.Process, error) { return d.start(nil) }

// start takes another configuration and more flags from tests, which open the wall in
// one place each.
func (d *Driver) start(change func(config []byte) ([]byte, error), more ...string) (sandbox.Process, error) {
	id := fmt.Sprintf("px-%d-%d", os.Getpid(), d.started.Add(1))
	dir := filepath.Join(d.state, id)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		return nil, err
	}
	config, err := bundle.Spec(d.root)
	if err == nil && change != nil {
		config, err = change(config)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	// The state folder is the sandbox's own too: nothing is shared, and to remove it
	// is to forget the container.
	cmd := exec.Command(d.runsc, slices.Concat([]string{"--root=" + filepath.Join(dir, "state")}, flags, more, []string{"run", "--bundle=" + dir, id})...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + dir, "XDG_RUNTIME_DIR=" + dir}
	cmd.Dir = dir
	// Namespaces of its own, root or not: what runsc mounts goes when it goes, and a
	// sandbox that root starts has no more rights than that of an ordinary user.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Credential:  &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}
	p, err := sandbox.Launch(cmd, nil)
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("rootless: %w", err)
	}
	return &process{Tree: p, dir: dir, id: id}, nil
}

type process struct {
	*sandbox.Tree
	dir, id string
}

// Confined has little to add: runsc itself builds the wall before it starts the first
// process, and the probe looked at it. One that has ended meanwhile is none.
func (p *process) Confined() error { return p.Ended() }

// Remains looks for what a killed sandbox may have left: processes, whoever their
// parent is, mounts, files.
func (p *process) Remains() error {
	if err := p.Tree.Remains(); err != nil {
		return err
	}
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rootless: %s is still there", p.dir)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), p.dir) {
		return errors.Join(errors.New("rootless: a mount of it may still be there"), err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), p.dir) {
			return fmt.Errorf("rootless: %s is still there", filepath.Dir(name))
		}
	}
	return nil
}

func (p *process) Kill() error {
	return errors.Join(p.Tree.Kill(), os.RemoveAll(p.dir))
}
