package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// StartWithin is how long a sandbox may take until its Python is ready.
const StartWithin = 20 * time.Second

// longestLine is more than any line of an honest shim.
const longestLine = 6 << 20

// A Sandbox is a Process whose Python is ready. It serves one job, or those of one Run
// that follow each other.
type Sandbox struct {
	process Process
	lines   *bufio.Reader
	left    func() // tells the pool that it is gone
	// Python is its full version, System what it believes to be its kernel.
	Python, System string
	// Started is how long it took to be ready.
	Started time.Duration
}

// Warm starts a sandbox and waits until its Python is ready.
func Warm(ctx context.Context, d Driver) (*Sandbox, error) {
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, StartWithin)
	defer stop()
	p, err := d.Start(ctx)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{process: p, lines: bufio.NewReaderSize(p.Stdout(), 64<<10)}
	line, err := s.line(ctx)
	var ready struct {
		Ready          int
		Python, System string
	}
	if err == nil {
		if err = json.Unmarshal(line, &ready); err == nil && ready.Ready != 1 {
			err = errors.New("its first line is not the one of a shim")
		}
	}
	if err != nil {
		said := strings.TrimSpace(p.Stderr())
		return nil, errors.Join(fmt.Errorf("sandbox: it did not become ready: %w: %s", err, said), p.Kill())
	}
	s.Python, s.System, s.Started = ready.Python, ready.System, time.Since(began)
	return s, nil
}

// Process is what the sandbox runs in.
func (s *Sandbox) Process() Process { return s.process }

// Kill destroys it.
func (s *Sandbox) Kill() error {
	err := s.process.Kill()
	if s.left != nil {
		s.left()
	}
	return err
}

var errLongLine = errors.New("a line is too long")

// line reads one line, without its end, until ctx ends.
func (s *Sandbox) line(ctx context.Context) ([]byte, error) {
	out := s.process.Stdout()
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestLine:
			return nil, errLongLine
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// again waits until a sandbox that has served a job is as it was before: nothing runs
// in it, nothing is left behind, and its Python is ready for the next one.
func (s *Sandbox) again(ctx context.Context) error {
	line, err := s.line(ctx)
	if err != nil {
		return err
	}
	var said struct{ Again int }
	if err := json.Unmarshal(line, &said); err != nil || said.Again != 1 {
		return errors.Join(errSpoilt, err)
	}
	return nil
}

// send writes one line, which is the last one if so said. A shim that does not read is
// stopped by ctx.
func (s *Sandbox) send(ctx context.Context, line []byte, last bool) error {
	in := s.process.Stdin()
	if f, ok := in.(*os.File); ok {
		stop := context.AfterFunc(ctx, func() { f.SetWriteDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	if _, err := in.Write(append(line, '\n')); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if !last {
		return nil
	}
	return in.Close()
}
