package lambda

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the process ended, and leaves it to be reaped. It
// tells whether it could wait.
func awaitExit(pid int) bool {
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

// residentBytes reads the resident size of a process, 0 if it cannot be told.
func residentBytes(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func (s *spawner) loop() {
	runtime.LockOSThread() // never unlocked: the thread must not outlive or precede its children
	for j := range s.jobs {
		startCommand(j)
	}
}
