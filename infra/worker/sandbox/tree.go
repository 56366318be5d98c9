//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Tree is a process of the host with all of its descendants, and the ways to it.
type Tree struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	err    *os.File
	said   head
	exited chan struct{}
	once   sync.Once
	killed error
	were   map[identity]bool // every process that a kill saw
}

// Launch starts a command, in a session of its own, with its input and output to hold.
// They are the command's own, or attach donates them otherwise. It is killed when this
// process dies, however that dies: the caller must have called Own before.
func Launch(cmd *exec.Cmd, attach func(stdin, stdout, stderr *os.File)) (*Tree, error) {
	t := &Tree{cmd: cmd, exited: make(chan struct{})}
	var files []*os.File
	closeAll := func(err error) (*Tree, error) {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	in, stdin, err := socketPair("stdin")
	if err != nil {
		return nil, err
	}
	files = append(files, stdin, in)
	out, stdout, err := socketPair("stdout")
	if err != nil {
		return closeAll(err)
	}
	files = append(files, out, stdout)
	said, stderr, err := os.Pipe()
	if err != nil {
		return closeAll(err)
	}
	files = append(files, said, stderr)
	t.in, t.out, t.err = in, out, said
	if attach == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	} else {
		attach(stdin, stdout, stderr)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := start(cmd); err != nil {
		return closeAll(err)
	}
	for _, theirs := range []*os.File{stdin, stdout, stderr} {
		theirs.Close()
	}
	go io.Copy(&t.said, said)
	go func() {
		cmd.Wait()
		launched.Delete(t.PID())
		close(t.exited)
	}()
	return t, nil
}

// socketPair is a way in or out. It is a socket, since a pipe could be opened once more,
// through /proc/1/fd, by what runs beside the shim; a socket cannot.
func socketPair(name string) (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), name)
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(pair[0]), theirs.Close())
	}
	return os.NewFile(uintptr(pair[0]), "sandbox"), theirs, nil
}

// PID is the process that was started.
func (t *Tree) PID() int { return t.cmd.Process.Pid }

// Ended is an error where the process has ended: what it held up is gone with it.
func (t *Tree) Ended() error {
	select {
	case <-t.exited:
		return errors.New("sandbox: it has ended")
	default:
		return nil
	}
}

// Stdin is the writing end of its input.
func (t *Tree) Stdin() io.WriteCloser { return t.in }

// Stdout is the reading end of its output.
func (t *Tree) Stdout() *os.File { return t.out }

// Stderr is the beginning of what it wrote to its error output.
func (t *Tree) Stderr() string { return t.said.String() }

// Kill kills the process and every descendant and waits until none is left.
func (t *Tree) Kill() error {
	t.once.Do(func() {
		t.in.Close()
		t.out.Close()
		t.err.Close()
		t.killed = t.kill()
	})
	return t.killed
}

func (t *Tree) kill() error {
	deadline := time.Now().Add(5 * time.Second)
	seen := map[identity]bool{}
	t.were = map[identity]bool{}
	for {
		// The tree is listed before its root is killed: orphans lose their place in it,
		// and come to this process, which is a subreaper.
		all := table()
		reap(all)
		alive := 0
		for _, p := range descendants(all, t.PID()) {
			seen[p] = true
		}
		for p := range seen {
			t.were[p] = true
			now, there := all[p.pid]
			if !there || now.started != p.started {
				delete(seen, p)
				continue
			}
			alive++
			for _, below := range descendants(all, p.pid) {
				seen[below] = true
			}
			unix.Kill(p.pid, unix.SIGKILL)
		}
		if alive == 0 {
			<-t.exited
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("sandbox: %d processes of it cannot be killed", alive)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Reap ends the zombies that came to this process when their parents in a sandbox
// ended: a stub, say, whose Sentry was killed by its guest.
func Reap() { reap(table()) }

// reap waits for zombies of sessions that Launch made, but for the processes that
// Launch itself waits for.
func reap(all map[int]entry) {
	starting.Lock()
	defer starting.Unlock()
	own, _ := unix.Getsid(0)
	for pid, e := range all {
		if !e.zombie || e.parent != os.Getpid() || e.session == own {
			continue
		}
		if _, launched := launched.Load(pid); !launched {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// launched are the processes whose end a Tree waits for.
var launched sync.Map

// Remains says which process of a killed tree is still there.
func (t *Tree) Remains() error {
	all := table()
	for p := range t.were {
		if now, there := all[p.pid]; there && now.identity == p {
			return fmt.Errorf("sandbox: process %d of it is still there", p.pid)
		}
	}
	return nil
}

// Use adds up the tree. Proportional memory counts a page that several processes
// share once. Where the kernel does not let this process read it (the Sentry of a task
// has another uid), what belongs to no file of the image is counted as often as
// processes map it, but for the first process: that is the Sentry, which maps what all
// of its guests do.
func (t *Tree) Use() Use {
	var use Use
	for _, p := range descendants(table(), t.PID()) {
		use.Processes++
		use.MemoryBytes += memory(p.pid, p.pid == t.PID())
	}
	return use
}

// PIDs are the processes of the tree now.
func (t *Tree) PIDs() []int {
	var pids []int
	for _, p := range descendants(table(), t.PID()) {
		pids = append(pids, p.pid)
	}
	return pids
}

// An identity tells a process from a later one with its number.
type identity struct {
	pid     int
	started uint64 // clock ticks since boot
}

type entry struct {
	identity
	parent, session int
	zombie          bool
}

// table is the process table.
func table() map[int]entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]entry, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The name of the program stands in brackets and may hold anything.
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 20 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		started, _ := strconv.ParseUint(fields[19], 10, 64)
		session, _ := strconv.Atoi(fields[3])
		all[pid] = entry{identity{pid, started}, parent, session, fields[0] == "Z"}
	}
	return all
}

// descendants are a process and all below it.
func descendants(all map[int]entry, root int) []identity {
	top, there := all[root]
	if !there {
		return nil
	}
	children := map[int][]entry{}
	for _, e := range all {
		children[e.parent] = append(children[e.parent], e)
	}
	found := []identity{top.identity}
	for i := 0; i < len(found); i++ {
		for _, e := range children[found[i].pid] {
			found = append(found, e.identity)
		}
	}
	return found
}

func memory(pid int, first bool) int64 {
	name := "/proc/" + strconv.Itoa(pid)
	if text, err := os.ReadFile(name + "/smaps_rollup"); err == nil {
		if kb, ok := field(text, "Pss:"); ok {
			return kb << 10
		}
	}
	text, err := os.ReadFile(name + "/status")
	if err != nil {
		return 0
	}
	anon, _ := field(text, "RssAnon:")
	shared, _ := field(text, "RssShmem:")
	if first {
		shared = 0
	}
	return (anon + shared) << 10
}

func field(text []byte, name string) (kb int64, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), name); found {
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return 0, false
			}
			kb, err := strconv.ParseInt(fields[0], 10, 64)
			return kb, err == nil
		}
	}
	return 0, false
}

// start starts commands from one thread that lives as long as the process: the kernel
// sends the parent-death signal when the *thread* that started a child ends.
func start(cmd *exec.Cmd) error {
	done := make(chan error)
	starters() <- func() {
		// Between the start and the note of it a reap may come: both hold the lock.
		starting.Lock()
		defer starting.Unlock()
		err := cmd.Start()
		if err == nil {
			launched.Store(cmd.Process.Pid, true)
		}
		done <- err
	}
	return <-done
}

var starting sync.Mutex

var starters = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Own makes this process the one that everything it starts falls to and is bounded
// by: orphans become its children, no file grows past MostFileBytes, nothing dumps
// core. Called once, before the first sandbox.
func Own() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox: subreaper: %w", err)
	}
	for which, most := range map[int]uint64{unix.RLIMIT_FSIZE: MostFileBytes, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("sandbox: rlimit: %w", err)
		}
	}
	return nil
}

// head keeps the beginning of a stream and drops the rest.
type head struct {
	mu   sync.Mutex
	text []byte
}

const headBytes = 4 << 10

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p[:min(len(p), headBytes-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}
