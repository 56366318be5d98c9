package prepare

import "syscall"

// own puts a command into its own process group, and has the kernel end it with this
// process: a build that nobody waits for would go on for minutes.
func own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
