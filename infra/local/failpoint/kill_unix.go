//go:build unix

package failpoint

import (
	"os"
	"syscall"
)

func kill() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
