// Package bundle is the OCI configuration that every sandbox has, whatever starts it.
package bundle

import (
	"encoding/json"

	"github.com/pxhost/pxhost/infra/worker/rootfs"
	"github.com/pxhost/pxhost/infra/worker/sandbox"
)

// Limits of every process of a sandbox before a job lowers them. A job's own limits
// are set by the shim, and what they do not cover is bounded by the worker.
const (
	openFiles = 256
	cpuTime   = 1800 // seconds
	tmpfsSize = "16m"
)

type object = map[string]any

// Spec is the config.json of a sandbox over a root: nobody, no capabilities, no new
// privileges, nothing writable but two small tmpfs, no device but the standard ones.
func Spec(root string) ([]byte, error) {
	none := []string{}
	rlimit := func(name string, most uint64) object {
		return object{"type": name, "soft": most, "hard": most}
	}
	tmpfs := func(at string) object {
		return object{"destination": at, "type": "tmpfs", "source": "tmpfs",
			"options": []string{"nosuid", "nodev", "noexec", "mode=1777", "size=" + tmpfsSize}}
	}
	return json.Marshal(object{
		"ociVersion": "1.0.2",
		"hostname":   "sandbox",
		"root":       object{"path": root, "readonly": true},
		"process": object{
			"cwd":             "/work",
			"args":            rootfs.Arguments(),
			"env":             rootfs.Environment(),
			"user":            object{"uid": sandbox.UID, "gid": sandbox.UID},
			"noNewPrivileges": true,
			"capabilities":    object{"bounding": none, "effective": none, "inheritable": none, "permitted": none, "ambient": none},
			"rlimits": []object{
				rlimit("RLIMIT_AS", sandbox.AddressSpace), rlimit("RLIMIT_CPU", cpuTime), rlimit("RLIMIT_NOFILE", openFiles),
				rlimit("RLIMIT_NPROC", sandbox.Processes), rlimit("RLIMIT_FSIZE", 64<<20), rlimit("RLIMIT_CORE", 0),
			},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "nodev", "noexec"}},
			tmpfs("/tmp"), tmpfs("/work"),
		},
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}},
	})
}
