// Package prepare makes what the driver rootless needs on a machine that has only Go
// and a python3: a runsc, built from the module proxy, and a rootfs. Both are kept in
// a cache folder, so that only the first start takes minutes.
package prepare

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pxhost/pxhost/infra/worker/rootfs"
)

// Parts are the paths of what was prepared.
type Parts struct {
	Runsc  string `json:"runsc"`
	Rootfs string `json:"rootfs"`
	Python string `json:"python"` // full version, as "3.11.2"
}

// Runsc is the package that is built, at the version that go.mod pins.
const Runsc = "gvisor.dev/gvisor/runsc"

// A Module is the go.mod and go.sum that pin what is built.
type Module struct{ Mod, Sum []byte }

// ErrNotLinux says that gVisor does not run here.
var ErrNotLinux = errors.New("sandboxes need Linux: gVisor does not run on " + runtime.GOOS)

// DefaultCache is the folder that is used where none is named: one a person, for all
// installations and versions.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "pxhost"), nil
}

// All prepares everything with the Python that command is, such as python3; without a
// module, the rootfs alone. progress gets one line for each thing that a waiting person
// likes to know.
func All(ctx context.Context, cache string, m Module, command string, progress func(string)) (Parts, error) {
	if runtime.GOOS != "linux" {
		return Parts{}, ErrNotLinux
	}
	python, err := rootfs.Find(ctx, command, true)
	if err != nil {
		return Parts{}, err
	}
	root, err := rootFrom(ctx, cache, python, progress)
	if err != nil {
		return Parts{}, err
	}
	if m.Mod == nil {
		return Parts{Rootfs: root, Python: python.String()}, nil
	}
	runsc, err := Build(ctx, cache, m, Runsc, progress)
	if err != nil {
		return Parts{}, err
	}
	return Parts{Runsc: runsc, Rootfs: root, Python: python.String()}, nil
}

// rootFrom returns the rootfs of a Python, made by one process at a time, so that what
// one left behind that was killed half way is known to be of nobody.
func rootFrom(ctx context.Context, cache string, python rootfs.Python, progress func(string)) (string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "rootfs.lock"), progress)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) { // a cache that another filled
		return rootfs.Ensure(ctx, cache, python, progress)
	}
	if err != nil {
		return "", err
	}
	defer unlock()
	left, err := filepath.Glob(filepath.Join(cache, rootfs.Building+"*"))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	if err != nil {
		return "", err
	}
	return rootfs.Ensure(ctx, cache, python, progress)
}

// Build returns the binary of a package of the module in the cache, and builds it if
// it is not there. Two processes that ask at once build it once.
func Build(ctx context.Context, cache string, m Module, pkg string, progress func(string)) (string, error) {
	h := sha256.New()
	for _, part := range [][]byte{m.Mod, m.Sum, []byte(pkg + " " + runtime.GOARCH)} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	cache, err := filepath.Abs(cache) // go runs in a folder of its own
	if err != nil {
		return "", err
	}
	name := filepath.Join(cache, filepath.Base(pkg)+"-"+hex.EncodeToString(h.Sum(nil))[:16])
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, name+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	// One that was killed half way left it behind; go's own cache keeps what it compiled.
	work := name + ".building"
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for file, text := range map[string][]byte{"go.mod": m.Mod, "go.sum": m.Sum} {
		if err := os.WriteFile(filepath.Join(work, file), text, 0o644); err != nil {
			return "", err
		}
	}
	// What kills a child with its parent is bound to the parent's thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	progress("fetching the sources of gVisor")
	out, err := command(ctx, work, "go", "list", "-mod=mod", "-deps", "-f", "{{.ImportPath}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("prepare: go list %s: %w%s", pkg, err, said(err))
	}
	total := bytes.Count(out, []byte("\n"))
	progress(fmt.Sprintf("building %s: %d packages, about three minutes the first time", pkg, total))
	built := filepath.Join(work, "out")
	cmd := command(ctx, work, "go", "build", "-mod=mod", "-v", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X "+versionOf(m), "-o", built, pkg)
	errs, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("prepare: %w", err)
	}
	tail := follow(errs, func(n int) { progress(fmt.Sprintf("building %s: %d of at most %d packages", pkg, n, total)) })
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("prepare: go build %s: %w: %s", pkg, err, strings.Join(tail, "; "))
	}
	if err := os.Rename(built, name); err != nil {
		return "", err
	}
	progress("built " + name)
	return name, nil
}

// versionOf is the linker's flag by which a binary says its version: that of the
// module, since the sources hold none.
func versionOf(m Module) string {
	version := "unknown"
	for line := range strings.Lines(string(m.Mod)) {
		fields := strings.Fields(line)
		if i := slices.Index(fields, "gvisor.dev/gvisor"); i >= 0 && i+1 < len(fields) {
			version = fields[i+1]
		}
	}
	return "gvisor.dev/gvisor/runsc/version.version=" + version
}

// said is what a command told why it failed.
func said(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ": " + string(bytes.TrimSpace(exit.Stderr[:min(len(exit.Stderr), 2000)]))
	}
	return ""
}

// follow counts the packages that go build -v names, tells of them at most once in
// five seconds, and returns the last lines that were no package.
func follow(r io.Reader, tell func(int)) []string {
	n, told := 0, time.Now()
	var tail []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.ContainsAny(line, " \t:") {
			if tail = append(tail, line); len(tail) > 10 {
				tail = tail[1:]
			}
			continue
		}
		if n++; time.Since(told) > 5*time.Second {
			told = time.Now()
			tell(n)
		}
	}
	return tail
}

// command runs beside whatever a person does meanwhile, so it stands back.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	if nice, err := exec.LookPath("nice"); err == nil {
		name, args = nice, append([]string{"-n", "15", name}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=",
		"GOTMPDIR="+dir) // a killed go leaves its folder behind; there it goes with dir
	cmd.SysProcAttr = own()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// lock holds a file lock until it is given back; it falls with the process.
func lock(ctx context.Context, name string, progress func(string)) (func(), error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		if !told {
			told = true
			progress("another process is building it")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}
