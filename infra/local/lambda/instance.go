package lambda

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

type phase int

const (
	starting phase = iota // the process runs and has not asked for work yet
	idle                  // its question for work is open
	busy                  // has an invocation, or answered it and has not asked again
	ending                // killed, or about to be
)

// An instance is one process of a function. Fields below are guarded by the
// host's mutex, apart from requestID.
type instance struct {
	host *Host
	fn   *function
	id   string
	work chan *invocation // capacity 1; filled only by Host.give

	phase    phase
	since    time.Time // when the phase began
	current  *invocation
	answered bool
	timer    *time.Timer
	pid      int
	cmd      *exec.Cmd
	cause    func(requestID string) result // why it was killed; nil: it ended by itself

	requestID atomic.Pointer[string]
}

func (i *instance) currentID() string {
	if p := i.requestID.Load(); p != nil {
		return *p
	}
	return "-"
}

// run starts the process and waits for its end.
func (i *instance) run() {
	h := i.host
	defer h.living.Done()
	command := []string{i.fn.Bootstrap}
	if i.fn.Handler != "" {
		if h.noPython != nil {
			h.ended(i, func(id string) result {
				return result{functionError: "Unhandled", payload: errorDocument(PythonMissing, id, h.noPython.Error())}
			})
			return
		}
		command = h.python.Command()
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = filepath.Dir(i.fn.Bootstrap)
	cmd.Env = h.environment(i)
	out := &lineWriter{prefix: func() string { return i.fn.Name + " " + i.currentID() + " | " }, log: h.opt.Log}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild that keeps our pipe open does not hold us
	isolate(cmd)
	err := h.spawner.start(cmd)
	if err != nil {
		h.ended(i, func(id string) result {
			return result{functionError: "Unhandled", payload: errorDocument("Runtime.InvalidEntrypoint", id, "fork/exec bootstrap: "+err.Error())}
		})
		return
	}
	h.mu.Lock()
	i.cmd, i.pid = cmd, cmd.Process.Pid
	if i.phase == ending || h.closed { // was given up while it started
		i.kill()
	}
	h.mu.Unlock()
	if awaitExit(cmd.Process.Pid) {
		h.mu.Lock()
		i.pid = 0 // once reaped, the pid may become another's: nobody kills it any more
		h.mu.Unlock()
	}
	err = cmd.Wait()
	out.flush()
	text := "Runtime exited without providing a reason"
	if err != nil {
		text = "Runtime exited with error: " + err.Error()
	}
	h.ended(i, func(id string) result {
		return result{functionError: "Unhandled", payload: errorDocument("Runtime.ExitError", id, text)}
	})
}

// kill ends the process with its group. h.mu is held. Once run has seen the
// process end, pid is 0 and there is nothing to kill.
func (i *instance) kill() {
	if i.cmd != nil && i.pid > 0 {
		killGroup(i.cmd)
	}
}

// ended takes an instance out of the books and fails what it leaves undone.
func (h *Host) ended(i *instance, exit func(string) result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.cause != nil {
		exit = i.cause
	}
	f := i.fn
	delete(h.instances, i.id)
	f.live--
	i.pid = 0
	if i.timer != nil {
		i.timer.Stop()
	}
	switch i.phase {
	case starting:
		f.starting--
		// It started for the sake of someone who waits: that one is told.
		if len(f.waiting) > 0 {
			inv := f.waiting[0]
			f.waiting = f.waiting[1:]
			f.inFlight--
			inv.finish(exit(inv.id))
		}
	case idle:
		f.drop(i)
	}
	if i.current != nil {
		f.inFlight--
		if i.answered {
			f.settling--
		} else {
			i.current.finish(exit(i.current.id))
		}
		i.current = nil
	}
	i.phase = ending
	h.grow(f, 0)
}

// timeOut kills the instance if it still has inv.
func (i *instance) timeOut(inv *invocation) {
	h := i.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.current != inv || i.phase != busy {
		return
	}
	i.cause = timedOut(i.fn.Timeout)
	i.phase = ending
	if !i.answered {
		i.answered = true
		i.fn.settling++             // until ended takes it off
		inv.finish(i.cause(inv.id)) // the caller need not wait for the process to be gone
	}
	h.logf("%s %s | Task timed out after %.2f seconds", i.fn.Name, inv.id, i.fn.Timeout.Seconds())
	i.kill()
}

// PythonMissing is the errorType of an invocation of a function in Python where the
// machine has none. Lambda itself has no such error.
const PythonMissing = "Local.PythonMissing"

// lineWriter passes what a process prints on, line by line. It is the one
// writer of stdout and stderr, so that their order is kept.
type lineWriter struct {
	prefix func() string
	log    func(string)
	mu     sync.Mutex
	buf    []byte
}

// maxLine splits longer lines: a function cannot make the host hold its output.
const maxLine = 64 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		k := bytes.IndexByte(p, '\n')
		if k < 0 {
			w.buf = append(w.buf, p...)
			for len(w.buf) > maxLine {
				w.log(w.prefix() + string(w.buf[:maxLine]))
				w.buf = append(w.buf[:0], w.buf[maxLine:]...)
			}
			break
		}
		w.log(w.prefix() + string(append(w.buf, bytes.TrimSuffix(p[:k], []byte("\r"))...)))
		w.buf = w.buf[:0]
		p = p[k+1:]
	}
	return n, nil
}

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) > 0 {
		w.log(w.prefix() + string(w.buf))
		w.buf = nil
	}
}

// spawner starts processes on one OS thread that lives as long as the host.
// Linux delivers the parent-death signal when the *thread* that forked ends,
// and Go ends threads: started from any goroutine, a child could be killed at
// random.
type spawner struct {
	jobs chan spawnJob
	once sync.Once
}

type spawnJob struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan spawnJob)}
	go s.loop()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.jobs <- spawnJob{cmd, done}
	return <-done
}

func (s *spawner) close() { s.once.Do(func() { close(s.jobs) }) }

func startCommand(j spawnJob) {
	defer func() {
		if r := recover(); r != nil {
			j.done <- fmt.Errorf("start: %v", r)
		}
	}()
	j.done <- j.cmd.Start()
}
