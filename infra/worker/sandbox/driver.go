package sandbox

import (
	"context"
	"io"
	"os"
)

// Facts of every sandbox, whatever starts it.
const (
	UID          = 65534   // inside
	AddressSpace = 4 << 30 // bytes that one process may map before a job lowers it
	Processes    = 256     // processes and threads inside
	// MostFileBytes is the RLIMIT_FSIZE of the worker and all that it starts. All
	// memory of a sandbox is one file of the Sentry's, so that this bounds it even
	// where nothing else does. A smaller one keeps runsc from starting.
	MostFileBytes = 1 << 30
)

// A Driver starts sandboxes. Start returns as soon as there is something to kill;
// the first line on Stdout says that Python is ready.
type Driver interface {
	Name() string
	GVisor() string
	Start(ctx context.Context) (Process, error)
}

// A Process is a sandbox that was started and not yet killed.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() *os.File // a pipe, with deadlines
	Stderr() string   // the beginning of what runsc or a dying shim said
	// Confined says, right before a job is sent, whether the wall still stands and
	// there is still something behind it.
	Confined() error
	// Use is what the whole sandbox uses now.
	Use() Use
	// Kill ends it and returns when nothing of it is left: no process, no file. It
	// may be called more than once.
	Kill() error
}

// Use is what a sandbox uses, the Sentry included.
type Use struct {
	MemoryBytes int64
	Processes   int // of the host: the Sentry, its helpers, and a stub each guest process
}
