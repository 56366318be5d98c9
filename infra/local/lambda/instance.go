package lambda

import (
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pxhost/pxhost/infra/local/child"
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
	out := &child.Lines{Prefix: func() string { return i.fn.Name + " " + i.currentID() + " | " }, Log: h.opt.Log}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild that keeps our pipe open does not hold us
	err := h.spawner.Start(cmd)
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
	if child.AwaitExit(cmd.Process.Pid) {
		h.mu.Lock()
		i.pid = 0 // once reaped, the pid may become another's: nobody kills it any more
		h.mu.Unlock()
	}
	err = cmd.Wait()
	out.Flush()
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
		child.Kill(i.cmd)
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
