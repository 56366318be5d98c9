//go:build !linux

// Package command is the worker as a program. gVisor runs on Linux only, so that
// elsewhere it says so and ends.
package command

import (
	"fmt"
	"os"

	"github.com/pxhost/pxhost/infra/worker/prepare"
)

// A Driver is what a Linux binary has.
type Driver struct{}

// Main says what is missing.
func Main([]string, prepare.Module, map[string]Driver) int {
	fmt.Fprintln(os.Stderr, prepare.ErrNotLinux)
	return 3
}
