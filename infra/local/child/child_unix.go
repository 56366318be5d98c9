//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// isolate puts the child into its own process group. There is no parent-death
// signal here: an orphan ends when its connection to the host breaks.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
