//go:build !linux

package prepare

import "syscall"

// own is for Linux; elsewhere nothing is built.
func own() *syscall.SysProcAttr { return nil }
