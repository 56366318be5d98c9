package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// A Pool keeps sandboxes warm. Each is taken once and killed by who took it.
type Pool struct {
	driver Driver
	ready  chan *Sandbox
	want   chan struct{} // a place for one more
	stop   context.CancelFunc
	ends   sync.WaitGroup
}

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("sandbox: the pool is closed")

// slowest is the longest pause between two attempts to start a sandbox.
const slowest = 10 * time.Second

// NewPool starts to fill a pool of size sandboxes. Close ends it.
func NewPool(d Driver, size int) *Pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{driver: d, ready: make(chan *Sandbox, size), want: make(chan struct{}, size), stop: stop}
	for range size {
		p.want <- struct{}{}
	}
	p.ends.Add(1)
	go p.fill(ctx)
	return p
}

// fill starts one sandbox at a time: on a small machine several at once would only
// make each slower, and jobs wait for the first.
func (p *Pool) fill(ctx context.Context) {
	defer p.ends.Done()
	pause := 100 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.want:
		}
		for {
			s, err := Warm(ctx, p.driver)
			if err == nil {
				pause = 100 * time.Millisecond
				p.ready <- s // there is a place: want had one
				break
			}
			if ctx.Err() != nil {
				return
			}
			slog.WarnContext(ctx, "a sandbox did not start", "cause", err.Error())
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, slowest)
		}
	}
}

// aside is how long the start of a sandbox stands back for the job that took one: most
// jobs have ended by then, and on two cores a start would slow them down.
const aside = 100 * time.Millisecond

// Take waits for a warm sandbox. Another takes its place when it was killed, or soon.
// One that is not confined as it was is destroyed and not given.
func (p *Pool) Take(ctx context.Context) (*Sandbox, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case s, open := <-p.ready:
			if !open {
				return nil, ErrClosed
			}
			var once sync.Once
			s.left = func() { once.Do(func() { p.want <- struct{}{} }) }
			time.AfterFunc(aside, s.left)
			if err := s.process.Confined(); err != nil {
				slog.ErrorContext(ctx, "a warm sandbox is not confined", "cause", err.Error(), "kill", s.Kill())
				continue
			}
			return s, nil
		}
	}
}

// discard destroys a sandbox that has ended well, beside what follows: its answer need
// not wait for it.
func (p *Pool) discard(s *Sandbox) {
	p.ends.Go(func() {
		if err := s.Kill(); err != nil {
			slog.Error("a sandbox was not destroyed", "cause", err.Error())
		}
	})
}

// Warm is how many sandboxes are ready.
func (p *Pool) Warm() int { return len(p.ready) }

// Close destroys every sandbox that is ready and starts none any more.
func (p *Pool) Close() error {
	p.stop()
	p.ends.Wait()
	close(p.ready)
	var errs []error
	for s := range p.ready {
		errs = append(errs, s.Kill())
	}
	return errors.Join(errs...)
}
