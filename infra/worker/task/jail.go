//go:build linux

package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"
)

// seen are the files of the machine that a Sentry reads when it starts. It gets
// copies: no procfs and no sysfs is in a jail.
var seen = []string{"/proc/sys/vm/mmap_min_addr", "/proc/cpuinfo", "/proc/sys/kernel/cap_last_cap", "/sys/devices/system/cpu/possible"}

// makeJail fills a new folder that is to be the root of one Sentry: root owns it all,
// and the Sentry can write nowhere.
func makeJail(jail, binary string) error {
	for _, file := range seen {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("task: %w", err)
		}
		if err := put(jail, file, text); err != nil {
			return err
		}
	}
	// Where the Sentry looks for what is mapped already. Its own map would be one of a
	// moment that is over, and makes systrap panic sometimes; an empty one does not.
	if err := put(jail, "/proc/self/maps", nil); err != nil {
		return err
	}
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return fmt.Errorf("task: %w", err)
	}
	if err := put(jail, "/proc/self/auxv", capabilities(auxv)); err != nil {
		return err
	}
	// The jails of one worker share the file; no Sentry may write to it.
	to := filepath.Join(jail, sentryName)
	if err := os.Link(binary, to); err == nil {
		return nil
	}
	return copyBinary(to, binary)
}

func put(jail, file string, text []byte) error {
	name := filepath.Join(jail, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o444)
}

func copyBinary(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// capabilities keeps what an auxiliary vector says about the processor, and drops the
// addresses in it.
func capabilities(auxv []byte) []byte {
	const null, hwcap, hwcap2 = 0, 16, 26
	const word = int(unsafe.Sizeof(uintptr(0)))
	var kept []byte
	for at := 0; at+2*word <= len(auxv); at += 2 * word {
		switch binary.NativeEndian.Uint64(auxv[at:]) {
		case hwcap, hwcap2:
			kept = append(kept, auxv[at:at+2*word]...)
		case null:
			return append(kept, make([]byte, 2*word)...)
		}
	}
	return append(kept, make([]byte, 2*word)...)
}
