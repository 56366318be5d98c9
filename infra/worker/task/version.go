//go:build linux

package task

import "runtime/debug"

// Version is the version of gVisor that this program holds.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "gvisor.dev/gvisor" {
				return m.Version
			}
		}
	}
	return "unknown"
}
