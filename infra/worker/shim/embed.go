// Package shim holds the Python files that run inside a sandbox. They are part of
// the worker's binary, so that a rootfs is made from one binary and one python3.
package shim

import "embed"

// Files are the modules: shim.py is the first process of a sandbox, px.py is what
// a Function imports, contract.py checks what it returns.
//
//go:embed *.py
var Files embed.FS
