//go:build linux

package task

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"

	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// sentryName is argv[0] of a Sentry, and its file in a jail.
const sentryName = "sentry"

// IsSentry reports whether this process was started to be a Sentry. The program's main
// asks before anything else, and then calls Sentry.
func IsSentry() bool { return len(os.Args) > 0 && os.Args[0] == "/"+sentryName }

// Sentry makes this process the Sentry of one sandbox, if it finds itself confined as
// it must be, and does not return.
func Sentry() {
	if err := confine(); err != nil {
		fmt.Fprintln(os.Stderr, "task: sentry:", err)
		os.Exit(1)
	}
	cli.Run(nil, map[util.SubCommand]string{new(sentrycmd.Boot): "internal use only"}, nil)
}

// confine looks at what the launcher was to do, and does what only this process can.
func confine() error {
	if unix.Getuid() == 0 || unix.Geteuid() == 0 || unix.Getgid() == 0 {
		return errors.New("it is root")
	}
	top, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("its root: %w", err)
	}
	for _, entry := range top {
		if !slices.Contains([]string{sentryName, "proc", "sys"}, entry.Name()) {
			return fmt.Errorf("its root holds %q", entry.Name())
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil || fs.Type == unix.PROC_SUPER_MAGIC {
		return errors.Join(errors.New("/proc is one"), err)
	}
	for fd := range 1024 {
		var about unix.Stat_t
		if unix.Fstat(fd, &about) == nil && about.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("descriptor %d is a folder", fd)
		}
	}
	for which, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: sandbox.MostFileBytes} {
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("rlimit: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}
