package child

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// AwaitExit returns when the process ended, and leaves it to be reaped. It
// tells whether it could wait.
func AwaitExit(pid int) bool {
	for {
		switch unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) {
		case nil:
			return true
		case unix.EINTR:
		default:
			return false
		}
	}
}

// isolate puts the child into its own process group, so that Ctrl-C in a
// terminal reaches the host alone and a kill reaches all of the child, and has
// the kernel kill it when the host dies.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func (s *Spawner) loop() {
	runtime.LockOSThread() // never unlocked: the thread must not outlive or precede its children
	for j := range s.jobs {
		start(j)
	}
}
