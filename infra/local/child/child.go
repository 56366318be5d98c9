// Package child starts the processes of the local host: functions and workers. Each
// is alone in its process group, and on Linux the kernel kills it when the host dies,
// so that nothing is left behind.
package child

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
)

// A Spawner starts processes on one OS thread that lives as long as it.
// Linux delivers the parent-death signal when the *thread* that forked ends,
// and Go ends threads: started from any goroutine, a child could be killed at
// random.
type Spawner struct {
	jobs chan job
	once sync.Once
}

type job struct {
	cmd  *exec.Cmd
	done chan error
}

// NewSpawner returns a spawner to be closed when its children have ended.
func NewSpawner() *Spawner {
	s := &Spawner{jobs: make(chan job)}
	go s.loop()
	return s
}

// Start isolates the command and starts it.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	isolate(cmd)
	done := make(chan error, 1)
	s.jobs <- job{cmd, done}
	return <-done
}

// Close ends the thread, and with it, on Linux, what it started and still runs.
func (s *Spawner) Close() { s.once.Do(func() { close(s.jobs) }) }

func start(j job) {
	defer func() {
		if r := recover(); r != nil {
			j.done <- fmt.Errorf("start: %v", r)
		}
	}()
	j.done <- j.cmd.Start()
}

// Kill kills a command that Start started with all of its group. It must not have
// been waited for.
func Kill(cmd *exec.Cmd) { killGroup(cmd) }

// Lines passes what a process prints on, line by line. It may be the Stdout and the
// Stderr of a command at once.
type Lines struct {
	Prefix func() string
	Log    func(string)
	mu     sync.Mutex
	buf    []byte
}

// maxLine splits longer lines: a child cannot make the host hold its output.
const maxLine = 64 << 10

// Write implements io.Writer.
func (w *Lines) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		k := bytes.IndexByte(p, '\n')
		if k < 0 {
			w.buf = append(w.buf, p...)
			for len(w.buf) > maxLine {
				w.Log(w.Prefix() + string(w.buf[:maxLine]))
				w.buf = append(w.buf[:0], w.buf[maxLine:]...)
			}
			break
		}
		w.Log(w.Prefix() + string(append(w.buf, bytes.TrimSuffix(p[:k], []byte("\r"))...)))
		w.buf = w.buf[:0]
		p = p[k+1:]
	}
	return n, nil
}

// Flush passes on what stands behind the last end of a line.
func (w *Lines) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) > 0 {
		w.Log(w.Prefix() + string(w.buf))
		w.buf = nil
	}
}
