package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/pxhost/pxhost/infra/worker/job"
)

// A Pool keeps sandboxes warm. Each is taken once, for the jobs of one Run, and killed
// after the last of them.
type Pool struct {
	driver Driver
	size   int // sandboxes that are warm or about to be
	most   int // starts at once
	ready  chan *Sandbox
	ctx    context.Context // of the starts
	stop   context.CancelFunc
	ends   sync.WaitGroup

	mu       sync.Mutex
	starting int
	serving  int       // taken, and not killed
	served   time.Time // when the last of them was killed
	stays    map[string]*stay
	closed   bool
}

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("sandbox: the pool is closed")

// A start that failed is tried again after a pause, which grows from soonest to
// slowest.
const (
	soonest = 100 * time.Millisecond
	slowest = 10 * time.Second
)

// quiet is how long nothing runs until what was used up is replaced: the next job of
// a Run comes sooner, and a start would slow all that happens on its way here.
const quiet = 300 * time.Millisecond

// NewPool starts to fill a pool of size sandboxes. Close ends it.
func NewPool(d Driver, size int) *Pool { return newPool(d, size, runtime.GOMAXPROCS(0)) }

func newPool(d Driver, size, processors int) *Pool {
	p := &Pool{driver: d, size: size, most: min(size, processors), ready: make(chan *Sandbox, size), stays: map[string]*stay{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	return p
}

// fill starts what may be started now; p.mu is held. A start keeps a processor busy:
//   - Where nothing is warm, jobs wait for it, and each processor starts one.
//   - Where something is, jobs that run or follow each other are not slowed down;
//     what they used up is replaced when it is quiet, one after another.
func (p *Pool) fill() {
	for !p.closed && p.starting+len(p.ready) < p.size {
		at := p.most
		switch {
		case len(p.ready) > 0 && (p.serving > 0 || time.Since(p.served) < quiet):
			at = 0
		case len(p.ready) > 0:
			at = 1
		}
		if p.starting >= at {
			return
		}
		p.starting++
		p.ends.Go(p.start)
	}
}

// start makes one sandbox ready, however often it has to try.
func (p *Pool) start() {
	for pause := soonest; ; pause = min(2*pause, slowest) {
		s, err := Warm(p.ctx, p.driver)
		if err == nil {
			s.left = sync.OnceFunc(func() { p.change(p.leave) })
			// There is room: starting counted it.
			p.change(func() { p.starting--; p.ready <- s })
			return
		}
		if p.ctx.Err() != nil {
			return
		}
		slog.WarnContext(p.ctx, "a sandbox did not start", "cause", err.Error())
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// leave notes that a sandbox that was taken is gone.
func (p *Pool) leave() {
	if p.serving--; p.serving == 0 {
		p.served = time.Now()
		time.AfterFunc(quiet, func() { p.change(func() {}) })
	}
}

// change changes what fill looks at.
func (p *Pool) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	p.fill()
}

// Take waits for a warm sandbox; another takes its place when it was killed, or as soon
// as none is left. One that is not confined as it was is destroyed and not given.
func (p *Pool) Take(ctx context.Context) (*Sandbox, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case s, open := <-p.ready:
			if !open {
				return nil, ErrClosed
			}
			p.change(func() { p.serving++ })
			if err := s.process.Confined(); err != nil {
				slog.ErrorContext(ctx, "a warm sandbox is not confined", "cause", err.Error(), "kill", s.Kill())
				continue
			}
			return s, nil
		}
	}
}

// stayFor is how long a sandbox is kept for the next job of its Run: what comes between
// them takes a tenth of that on a machine that is not busy.
const stayFor = 2 * time.Second

// A stay is a sandbox that is kept for the job after one that it has served.
type stay struct {
	sandbox *Sandbox
	clean   chan bool // one value: whether it can serve it
	end     context.CancelFunc
}

// keep holds a sandbox that has served a job for the one that follows, for a while. The
// pool stands back meanwhile, as it does for jobs that run.
func (p *Pool) keep(jobRef string, s *Sandbox, l job.Limits) {
	ctx, end := context.WithTimeout(p.ctx, stayFor)
	k := &stay{s, make(chan bool, 1), end}
	p.mu.Lock()
	room := !p.closed && len(p.stays) < (p.size+1)/2 && p.stays[jobRef] == nil
	if room {
		p.stays[jobRef] = k
	}
	p.mu.Unlock()
	if !room {
		end()
		p.discard(s)
		return
	}
	p.ends.Go(func() {
		defer end()
		// What the last call left behind is bounded until it is cleared away.
		p.ends.Go(func() { s.watch(ctx, l, func(error) { end() }) })
		err := s.again(ctx)
		k.clean <- err == nil
		if err == nil {
			<-ctx.Done()
		}
		p.mu.Lock()
		left := p.stays[jobRef] == k
		if left {
			delete(p.stays, jobRef)
		}
		p.mu.Unlock()
		if left || err != nil {
			p.kill(s)
		}
	})
}

// kept returns the sandbox that was kept after a job, once; nil if there is none that
// could serve another.
func (p *Pool) kept(jobRef string) *Sandbox {
	p.mu.Lock()
	k := p.stays[jobRef]
	delete(p.stays, jobRef)
	p.mu.Unlock()
	if k == nil || !<-k.clean {
		return nil
	}
	k.end()
	if err := k.sandbox.process.Confined(); err != nil {
		slog.Error("a sandbox that was kept is not confined", "cause", err.Error())
		p.kill(k.sandbox)
		return nil
	}
	return k.sandbox
}

func (p *Pool) kill(s *Sandbox) {
	if err := s.Kill(); err != nil {
		slog.Error("a sandbox was not destroyed", "cause", err.Error())
	}
}

// discard destroys a sandbox that has ended well, beside what follows: its answer need
// not wait for it.
func (p *Pool) discard(s *Sandbox) {
	p.ends.Go(func() { p.kill(s) })
}

// Warm is how many sandboxes are ready.
func (p *Pool) Warm() int { return len(p.ready) }

// Close destroys every sandbox that is ready and starts none any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.ends.Wait()
	close(p.ready)
	var errs []error
	for s := range p.ready {
		errs = append(errs, s.process.Kill())
	}
	return errors.Join(errs...)
}
