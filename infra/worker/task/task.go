//go:build linux

package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/control/server"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/donation"

	"github.com/pxhost/pxhost/infra/worker/bundle"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// Uids and gids of Sentries: one each, of a range that no image uses.
const (
	firstUID = 700_000
	manyUIDs = 50_000
)

// A Driver starts Sentries.
type Driver struct {
	image   string // EROFS
	state   string // for sockets; only this process may enter
	jails   string // on a file system that may be written and executed
	binary  string // this program, once more, beside the jails
	version string
	filters int // seccomp filters of the container itself

	mu   sync.Mutex
	next int
	used map[int]bool // uids of sandboxes that are not known to be gone
}

// New returns a driver that makes sandboxes over an EROFS image. Its files are in
// state; jails is a folder on a file system that may be written and executed, "" for
// state itself. This process must be root with the capabilities CHROOT, SETUID and
// SETGID. version is gVisor's.
func New(image, state, jails, version string) (*Driver, error) {
	if unix.Geteuid() != 0 {
		return nil, errors.New("task: the worker of a task runs as root")
	}
	if jails == "" {
		jails = state
	}
	dir, err := os.MkdirTemp(jails, "jails-")
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(state, 0o700)); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	d := &Driver{image: image, state: state, jails: dir, binary: filepath.Join(dir, sentryName), version: version, used: map[int]bool{}}
	if err := copyBinary(d.binary, self); err != nil {
		return nil, errors.Join(fmt.Errorf("task: %w", err), d.Close())
	}
	status, err := statusOf("/proc/self/status")
	if err == nil {
		d.filters, err = strconv.Atoi(status["Seccomp_filters"])
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("task: seccomp filters of this container: %w", err), d.Close())
	}
	return d, nil
}

// Close removes the driver's files. Sandboxes must have been killed.
func (d *Driver) Close() error { return os.RemoveAll(d.jails) }

// Name is the driver's name in a result.
func (*Driver) Name() string { return "task" }

// GVisor is the version of the Sentry.
func (d *Driver) GVisor() string { return d.version }

// uid takes one that no process has.
func (d *Driver) uid() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range manyUIDs {
		uid := firstUID + d.next
		d.next = (d.next + 1) % manyUIDs
		if !d.used[uid] {
			d.used[uid] = true
			return uid, nil
		}
	}
	return 0, errors.New("task: no uid is free")
}

func (d *Driver) free(uid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.used, uid)
}

// Start starts a Sentry in a jail of its own and the container in it.
func (d *Driver) Start(ctx context.Context) (sandbox.Process, error) {
	uid, err := d.uid()
	if err != nil {
		return nil, err
	}
	p := &process{driver: d, uid: uid, jail: filepath.Join(d.jails, strconv.Itoa(uid)), filters: d.filters}
	if err := p.start(ctx); err != nil {
		said := ""
		if p.Tree != nil {
			said = strings.TrimSpace(p.Stderr())
		}
		return nil, errors.Join(fmt.Errorf("task: %w: %s", err, said), p.Kill())
	}
	return p, nil
}

type process struct {
	*sandbox.Tree
	driver  *Driver
	uid     int
	jail    string
	filters int
}

func (p *process) start(ctx context.Context) error {
	if err := os.Mkdir(p.jail, 0o755); err != nil {
		return err
	}
	if err := makeJail(p.jail, p.driver.binary); err != nil {
		return err
	}
	image, err := os.Open(p.driver.image)
	if err != nil {
		return err
	}
	defer image.Close()
	spec, err := specFile()
	if err != nil {
		return err
	}
	defer spec.Close()
	address := filepath.Join(p.driver.state, strconv.Itoa(p.uid)+".sock")
	socket, err := server.CreateSocket(address)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	defer os.Remove(address)
	control := os.NewFile(uintptr(socket), "control")
	defer control.Close()
	synced, sync, err := os.Pipe()
	if err != nil {
		return err
	}
	defer synced.Close()
	defer sync.Close()

	id := "px-" + strconv.Itoa(p.uid)
	cmd := &exec.Cmd{
		Path: "/" + sentryName,
		Args: []string{"/" + sentryName, "--platform=systrap", "--network=none", "--directfs=false", "--ignore-cgroups", "--overlay2=none",
			"--host-uds=none", "--host-fifo=none", "--root=/nonexistent", "boot", "--bundle=/", "--attached", "--setup-root=false", "--apply-caps=false",
			"--gofer-mount-confs=erofs:none", "--product-name=x"},
		Env: []string{"PATH=/nonexistent"},
		Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{
			Chroot:     p.jail,
			Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid), Groups: []uint32{}},
		},
	}
	p.Tree, err = sandbox.Launch(cmd, func(stdin, stdout, stderr *os.File) {
		// What the Sentry itself says, when it cannot start, goes where its guest's does.
		cmd.Stderr = stderr
		var donations donation.Agency
		donations.Donate("io-fds", image)
		donations.Donate("start-sync-fd", sync)
		donations.Donate("controller-fd", control)
		donations.Donate("spec-fd", spec)
		donations.Donate("stdio-fds", stdin, stdout, stderr)
		donations.Transfer(cmd, 3)
		cmd.Args = append(cmd.Args, id)
	})
	if err != nil {
		return err
	}
	sync.Close()
	stop := context.AfterFunc(ctx, func() { synced.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if n, err := synced.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the Sentry did not start: %w", err)
	}
	conn, err := client.ConnectTo(address)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	defer conn.Close()
	// A call has no deadline of its own, and the death of the Sentry does not end it: a
	// stub shares the Sentry's files, the other end of this connection among them, and one
	// that was being made may outlive it.
	hung := context.AfterFunc(ctx, func() { conn.Socket.Shutdown() })
	defer hung()
	if err := os.Remove(address); err != nil {
		return err
	}
	loopback := boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}}
	if err := conn.Call(boot.ContMgrSetNetworkArgs, &loopback, nil); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := conn.Call(boot.ContMgrRootContainerStart, &id, nil); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	return nil
}

// specFile is the OCI configuration, in memory: a jail has no file of it.
func specFile() (*os.File, error) {
	text, err := bundle.Spec("/")
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("spec", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	file := os.NewFile(uintptr(fd), "spec")
	if _, err := file.Write(text); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	_, err = file.Seek(0, 0)
	return file, err
}

// Kill ends the Sentry and all of its stubs and removes its jail. Its uid is used
// again only after nothing has it any more.
func (p *process) Kill() error {
	var err error
	if p.Tree != nil {
		err = p.Tree.Kill()
	}
	if err = errors.Join(err, os.RemoveAll(p.jail)); err != nil {
		return err
	}
	// A stub that left the tree when its Sentry was killed dies by itself, soon, unless it
	// was just being made.
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		sandbox.Reap()
		left, err := p.owned()
		if err == nil && len(left) == 0 {
			p.driver.free(p.uid)
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, leftError(left))
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Remains looks for what a killed sandbox may have left.
func (p *process) Remains() error {
	if err := p.Tree.Remains(); err != nil {
		return err
	}
	if _, err := os.Lstat(p.jail); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("task: %s is still there", p.jail)
	}
	left, err := p.owned()
	return errors.Join(err, leftError(left))
}

func leftError(pids []int) error {
	if len(pids) == 0 {
		return nil
	}
	return fmt.Errorf("task: processes %v of it are still there", pids)
}

// owned are the processes with the uid of this sandbox, whoever their parents are. No
// other process has it.
func (p *process) owned() (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		status, err := statusOf(name)
		if err != nil {
			continue // it has ended
		}
		if !slices.Contains(strings.Fields(status["Uid"]), strconv.Itoa(p.uid)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Confined looks at every thread of the Sentry, and at its stubs. What is not there to
// be read is a failure.
func (p *process) Confined() error {
	if err := p.Ended(); err != nil {
		return err
	}
	for _, pid := range p.PIDs() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil {
			return err
		}
		if len(threads) == 0 && pid == p.PID() {
			return errors.New("task: the Sentry has no thread")
		}
		for _, name := range threads {
			status, err := statusOf(name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
				continue // it has ended
			case err != nil:
				return fmt.Errorf("task: %w", err)
			}
			if err := confined(status, p.uid, p.filters, pid == p.PID()); err != nil {
				return fmt.Errorf("task: thread %s: %w", filepath.Base(filepath.Dir(name)), err)
			}
		}
	}
	return nil
}

// confined holds the status of a thread to what it must be. The Sentry has exactly one
// filter more than its container; a stub has its own on top.
func confined(status map[string]string, uid, container int, sentry bool) error {
	id := strings.Repeat(strconv.Itoa(uid)+"\t", 3) + strconv.Itoa(uid)
	const none = "0000000000000000"
	want := map[string]string{"Uid": id, "Gid": id, "Groups": "", "CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2"}
	for name, value := range want {
		if got, there := status[name]; !there || got != value {
			return fmt.Errorf("%s is %q, not %q", name, got, value)
		}
	}
	filters, err := strconv.Atoi(status["Seccomp_filters"])
	if err != nil {
		return fmt.Errorf("the field Seccomp_filters: %w", err)
	}
	if filters < container+1 || sentry && filters != container+1 {
		return fmt.Errorf("it has %d seccomp filters, and its container %d", filters, container)
	}
	return nil
}

// statusOf reads a status file of procfs.
func statusOf(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found {
			status[key] = strings.TrimSpace(value)
		}
	}
	return status, nil
}
